package sandbox

import (
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/dshx/dshx/sandboxpolicy"
	"golang.org/x/sys/unix"
)

// NewGitDirs finds the git directories below the workspace that came into
// being since a time: whoever started the command may want to refuse running
// git there, since their hooks and configuration are the command's work. It
// walks the workspace's directories.
func (s *Scope) NewGitDirs(since time.Time) []sandboxpolicy.Notice {
	var out []sandboxpolicy.Notice
	p := s.Policy()
	if p.Full() || !writes(p, p.Workspace()) {
		return nil
	}
	since = since.Add(-clockGrain)
	_ = filepath.WalkDir(p.Workspace(), func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return nil // what can't be read can't be searched
		}
		if e.Name() == ".git" || e.IsDir() && bareGitDir(path) {
			if born(path).After(since) {
				out = append(out, sandboxpolicy.Notice{Kind: "git-dir-created", Path: path,
					Text: "a git directory was made by the command: check its hooks and configuration before running git there"})
			}
			if e.IsDir() {
				return fs.SkipDir
			}
		}
		if e.IsDir() && unchanged(path, since) {
			return fs.SkipDir
		}
		return nil
	})
	return out
}

// unchanged reports that a directory has no directories in it, and got no
// entry since: what most of a large tree's directories are needn't be read.
func unchanged(path string, since time.Time) bool {
	var st unix.Stat_t
	return unix.Lstat(path, &st) == nil && st.Nlink == 2 && time.Unix(st.Mtim.Sec, st.Mtim.Nsec).Before(since) &&
		time.Unix(st.Ctim.Sec, st.Ctim.Nsec).Before(since)
}

// clockGrain is how far a file's time may lie before the clock that was read:
// file systems use the kernel's coarse clock (one tick).
const clockGrain = 10 * time.Millisecond

func bareGitDir(path string) bool {
	for _, name := range [...]string{"HEAD", "objects", "refs"} {
		if _, err := os.Lstat(path + "/" + name); err != nil {
			return false
		}
	}
	return true
}

// born is when a file was made, or last changed where the file system doesn't
// know.
func born(path string) time.Time {
	var st unix.Statx_t
	if unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BTIME|unix.STATX_CTIME, &st) != nil {
		return time.Time{}
	}
	t := st.Ctime
	if st.Mask&unix.STATX_BTIME != 0 {
		t = st.Btime
	}
	return time.Unix(t.Sec, int64(t.Nsec))
}
