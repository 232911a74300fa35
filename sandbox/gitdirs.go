package sandbox

import (
	"cmp"
	"io/fs"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/dshx/dshx/sandboxpolicy"
	"golang.org/x/sys/unix"
)

// NewGitDirs finds the git directories below the workspace that came into
// being since a time: whoever started the command may want to refuse running
// git there, since their hooks and configuration are the command's work. The
// first time it reads the workspace's directories, and then those that changed.
func (s *Scope) NewGitDirs(since time.Time) []sandboxpolicy.Notice {
	p := s.Policy()
	if p.Full() || !writes(p, p.Workspace()) {
		return nil
	}
	var out []sandboxpolicy.Notice
	for _, path := range s.git.since(p.Workspace(), since) {
		out = append(out, sandboxpolicy.Notice{Kind: "git-dir-created", Path: path,
			Text: "a git directory was made by the command: check its hooks and configuration before running git there"})
	}
	return out
}

// A gitTree knows where in a tree git directories are. Entries can't come into a
// directory without changing its times, and a process can't set the one of them
// (st_ctime, inode(7)): a directory with the times that it had needn't be read.
type gitTree struct {
	mu   sync.Mutex
	root *gitNode
	kept int // nodes
	most int // of them, or maxKept; directories beyond are read every time
}

// maxKept bounds the nodes of a gitTree, some 150 bytes each.
const maxKept = 1 << 17

type gitNode struct {
	as     dirStamp
	known  bool                // what it has is in the other fields, and as is older than any later change's
	dotGit bool                // it has an entry ".git"
	bare   bool                // it is a git directory itself, whatever its name
	subs   map[string]*gitNode // its directories but ".git"
}

// A dirStamp changes with a directory's entries.
type dirStamp struct {
	dev, ino     uint64
	mtime, ctime int64 // in nanoseconds since 1970
}

// since returns the git directories at and below root that were made after a
// time, sorted.
func (t *gitTree) since(root string, since time.Time) (made []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.root == nil {
		t.root, t.kept = &gitNode{}, 1
	}
	t.visit(t.root, root, since.Add(-clockGrain), &made)
	slices.Sort(made)
	return made
}

// visit brings n, the directory at a path, up to date, and reports whether it
// is one.
func (t *gitTree) visit(n *gitNode, path string, since time.Time, made *[]string) bool {
	// A change after this leaves other times than any from before it.
	distinct := time.Now().Add(-clockGrain).UnixNano()
	var st unix.Stat_t
	if unix.Lstat(path, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return false
	}
	as := dirStamp{uint64(st.Dev), st.Ino, unix.TimespecToNsec(st.Mtim), unix.TimespecToNsec(st.Ctim)}
	if !n.known || n.as != as {
		changed := max(as.mtime, as.ctime)
		if n.as == (dirStamp{}) && st.Nlink == 2 && changed < since.UnixNano() {
			// Never read, no directories in it, and no entry since: so are most
			// of a large tree's directories.
			n.as, n.known = as, true
			return true
		}
		whole := t.read(n, path)
		n.as, n.known = as, whole && changed < distinct
	}
	if n.dotGit && born(path+"/.git").After(since) {
		*made = append(*made, path+"/.git")
	}
	if n.bare && bareBorn(path).After(since) {
		*made = append(*made, path)
	}
	for name, sub := range n.subs {
		if !t.visit(sub, path+"/"+name, since, made) {
			t.kept -= sub.size()
			delete(n.subs, name)
		}
	}
	if t.kept > cmp.Or(t.most, maxKept) {
		t.kept -= n.size() - 1
		n.subs, n.known = nil, false
	}
	return true
}

// read fills n from the directory, keeps what is known of those in it, and
// reports whether it could read all of it. What can't be read can't be
// searched.
func (t *gitTree) read(n *gitNode, path string) bool {
	old := n.subs
	n.dotGit, n.bare, n.subs = false, false, nil
	defer func() {
		for _, gone := range old {
			t.kept -= gone.size()
		}
	}()
	d, err := os.Open(path)
	if err != nil {
		return os.IsPermission(err)
	}
	defer d.Close()
	entries, err := d.ReadDir(-1)
	n.bare = bareGitDir(entries)
	for _, e := range entries {
		switch {
		case e.Name() == ".git":
			n.dotGit = true
		case e.IsDir():
			if n.subs == nil {
				n.subs = map[string]*gitNode{}
			}
			if sub := old[e.Name()]; sub != nil {
				n.subs[e.Name()] = sub
				delete(old, e.Name())
			} else {
				n.subs[e.Name()] = &gitNode{}
				t.kept++
			}
		}
	}
	return err == nil
}

// size is how many nodes there are, with n.
func (n *gitNode) size() int {
	all := 1
	for _, sub := range n.subs {
		all += sub.size()
	}
	return all
}

// clockGrain is how far a file's time may lie before the clock that was read:
// file systems use the kernel's coarse clock (one tick).
const clockGrain = 10 * time.Millisecond

// bareParts are what git takes a directory by for one of its own, whatever its
// name.
var bareParts = [...]string{"HEAD", "objects", "refs"}

func bareGitDir(entries []fs.DirEntry) bool {
	found := 0
	for _, e := range entries {
		if slices.Contains(bareParts[:], e.Name()) {
			found++
		}
	}
	return found == len(bareParts)
}

// bareBorn is when the last of its parts made a directory one of git's.
func bareBorn(path string) (last time.Time) {
	for _, name := range bareParts {
		if t := born(path + "/" + name); t.After(last) {
			last = t
		}
	}
	return last
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
