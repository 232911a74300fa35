package sessionlog

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/dshx/dshx/sandboxpolicy"
	"golang.org/x/sys/unix"
)

// PlaceError is a place where no log is kept; its text says why, in one
// sentence.
type PlaceError struct{ Path, Why string }

// Error is the sentence.
func (e *PlaceError) Error() string { return "the log " + strconv.Quote(e.Path) + " " + e.Why }

// place is where a log is: a directory that is held open, so that nothing in the
// path can be changed any more, and a name in it.
type place struct {
	dir  *os.File // O_PATH
	name string
	path string // absolute, without links
}

// openPlace finds the directory of path. A symbolic link on the way is followed
// only if it belongs to this user or to root: what others may have planted leads
// nowhere.
func openPlace(path string) (*place, error) {
	refuse := func(format string, a ...any) (*place, error) {
		return nil, &PlaceError{path, fmt.Sprintf(format, a...)}
	}
	if path == "" || strings.HasSuffix(path, "/") || strings.ContainsRune(path, 0) {
		return refuse("needs the name of a file")
	}
	name := filepath.Base(path)
	if name == "." || name == ".." {
		return refuse("needs the name of a file")
	}
	rest := path[:len(path)-len(name)]
	if rest == "" || rest[0] != '/' {
		wd, err := os.Getwd()
		if err != nil {
			return nil, err
		}
		rest = wd + "/" + rest
	}
	fd, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(fd) }()
	links := 0
	for parts := components(rest); len(parts) > 0; {
		part := parts[0]
		parts = parts[1:]
		next, err := unix.Openat(fd, part, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return refuse("has no directory that can be opened: %s: %v", part, err)
		}
		var st unix.Stat_t
		if err := unix.Fstat(next, &st); err != nil {
			_ = unix.Close(next)
			return nil, err
		}
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFDIR:
			_ = unix.Close(fd)
			fd = next
		case unix.S_IFLNK:
			target, err := readlink(next)
			_ = unix.Close(next)
			switch {
			case err != nil:
				return nil, err
			case st.Uid != 0 && int(st.Uid) != os.Geteuid():
				return refuse("lies behind %s, a symbolic link of another user", strconv.Quote(part))
			}
			if links++; links > 40 { // as the kernel: path_resolution(7)
				return refuse("lies behind symbolic links that never end")
			}
			if strings.HasPrefix(target, "/") {
				_ = unix.Close(fd)
				if fd, err = unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
					fd = -1
					return nil, err
				}
			}
			parts = append(components(target), parts...)
		default:
			_ = unix.Close(next)
			return refuse("lies in %s, which is no directory", strconv.Quote(part))
		}
	}
	real, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
	if err != nil {
		return nil, err
	}
	p := &place{os.NewFile(uintptr(fd), real), name, filepath.Join(real, name)}
	fd = -1
	return p, nil
}

func components(path string) []string {
	var out []string
	for part := range strings.SplitSeq(path, "/") {
		if part != "" && part != "." {
			out = append(out, part)
		}
	}
	return out
}

// readlink is the target of the link that fd is: an empty name is the
// descriptor's own, readlinkat(2), Linux 2.6.39.
func readlink(fd int) (string, error) {
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(fd, "", buf)
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}

func (p *place) fd() int { return int(p.dir.Fd()) }

func (p *place) close() { _ = p.dir.Close() }

// part is the name of the nth older part, the file's own for 0.
func (p *place) part(n int) string {
	if n == 0 {
		return p.name
	}
	return p.name + "." + strconv.Itoa(n)
}

// fresh is the name of a new file before it gets the log's.
func (p *place) fresh() string { return p.name + ".new" }

// judge refuses a place that commands may write: what is in such a log need
// not have happened. Where a policy confines nothing there is no other place, so
// that is not refused; warned reports it.
func (p *place) judge(policy *sandboxpolicy.Policy, keep int) (warned bool, err error) {
	if policy.Full() {
		return true, nil
	}
	var names []string
	for n := range keep + 1 {
		names = append(names, p.part(n))
	}
	names = append(names, p.fresh())
	for _, name := range names {
		path := filepath.Join(filepath.Dir(p.path), name)
		for _, op := range [...]sandboxpolicy.Op{sandboxpolicy.OpWrite, sandboxpolicy.OpCreate, sandboxpolicy.OpDelete, sandboxpolicy.OpRename} {
			if v := policy.Verdict(op, path); v.Allow {
				return false, &PlaceError{path, "would lie where commands may write (" + v.Rule.Text + "), so that they could change it: name a file elsewhere"}
			}
		}
	}
	return false, nil
}

// open opens the file, makes it where it is missing, and locks it. It is this
// user's own, private, and a log.
//
// Errors: *PlaceError.
func (p *place) open() (*os.File, int64, error) {
	refuse := func(why string) (*os.File, int64, error) { return nil, 0, &PlaceError{p.path, why} }
	for range 8 {
		// O_NONBLOCK: a FIFO is refused, not waited for.
		fd, err := unix.Openat(p.fd(), p.name, unix.O_RDWR|unix.O_APPEND|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0o600)
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.ELOOP:
			return refuse("is a symbolic link, which is not followed: name the file itself")
		case err == unix.EISDIR:
			return refuse("is a directory; name a file")
		case err == unix.ENXIO:
			return refuse("is no regular file")
		case err != nil:
			return refuse("can't be opened: " + err.Error())
		}
		f := os.NewFile(uintptr(fd), p.path)
		size, err := p.own(f)
		if err == errMoved {
			_ = f.Close()
			continue
		}
		if err != nil {
			_ = f.Close()
			return nil, 0, err
		}
		return f, size, nil
	}
	return refuse("is being replaced all the time")
}

// errMoved is a file that was rotated away before it was locked.
var errMoved = errors.New("moved")

func (p *place) own(f *os.File) (int64, error) {
	refuse := func(why string) (int64, error) { return 0, &PlaceError{p.path, why} }
	var st, now unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return 0, err
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return refuse("is no regular file")
	case int(st.Uid) != os.Geteuid():
		return refuse("belongs to another user")
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err == unix.EWOULDBLOCK {
		return refuse("is being written by another dshx: give each its own")
	} else if err != nil {
		return refuse("can't be locked: " + err.Error())
	}
	if err := unix.Fstatat(p.fd(), p.name, &now, unix.AT_SYMLINK_NOFOLLOW); err != nil || now.Ino != st.Ino || now.Dev != st.Dev {
		return 0, errMoved
	}
	if now.Nlink == 2 {
		// A rotation that was cut off has left the file under its next name, too.
		var older unix.Stat_t
		if err := unix.Fstatat(p.fd(), p.part(1), &older, unix.AT_SYMLINK_NOFOLLOW); err == nil && older.Ino == st.Ino && older.Dev == st.Dev {
			_ = unix.Unlinkat(p.fd(), p.part(1), 0)
			now.Nlink--
		}
	}
	if now.Nlink > 1 {
		return refuse("has another name, a hard link, which others may have made")
	}
	if st.Mode&0o077 != 0 {
		_ = f.Chmod(0o600)
		if err := unix.Fstat(int(f.Fd()), &st); err != nil || st.Mode&0o077 != 0 {
			return refuse("can't be made private on this file system")
		}
	}
	begin := make([]byte, len(beginning))
	if n, _ := f.ReadAt(begin, 0); string(begin[:n]) != beginning[:n] {
		return refuse("is there and is no session log; it is left as it is")
	}
	return st.Size, nil
}

// beginning is how every record begins, and so every log.
const beginning = `{"v":1,"type":"`

// torn reports a file whose last line has no end.
func torn(f *os.File, size int64) bool {
	last := []byte{'\n'}
	if size > 0 {
		if _, err := f.ReadAt(last, size-1); err != nil && err != io.EOF {
			return true
		}
	}
	return last[0] != '\n'
}

// rotate makes f the first older part, shifts the older ones, drops the last, and
// returns the new file, which is locked before it has the log's name: at no moment
// could another dshx take it. first is its first line.
func (p *place) rotate(f *os.File, keep int, first []byte) (next *os.File, err error) {
	fresh := p.fresh()
	_ = unix.Unlinkat(p.fd(), fresh, 0) // of a rotation that was cut off
	fd, err := unix.Openat(p.fd(), fresh, unix.O_RDWR|unix.O_APPEND|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, err
	}
	next = os.NewFile(uintptr(fd), p.path)
	defer func() {
		if err != nil {
			_ = next.Close()
			_ = unix.Unlinkat(p.fd(), fresh, 0)
		}
	}()
	if err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, err
	}
	if _, err := next.Write(first); err != nil {
		return nil, err
	}
	var ours, there unix.Stat_t
	if err := errors.Join(unix.Fstat(int(f.Fd()), &ours), unix.Fstatat(p.fd(), p.name, &there, unix.AT_SYMLINK_NOFOLLOW)); err != nil {
		return nil, err
	}
	if ours.Ino != there.Ino || ours.Dev != there.Dev {
		return nil, errors.New("somebody has put another file in its place")
	}
	if keep > 0 {
		for n := keep; n > 1; n-- {
			if err := unix.Renameat(p.fd(), p.part(n-1), p.fd(), p.part(n)); err != nil && err != unix.ENOENT {
				return nil, err
			}
		}
		if err := unix.Unlinkat(p.fd(), p.part(1), 0); err != nil && err != unix.ENOENT {
			return nil, err
		}
		// By a link, not by a rename: the log's name is never free.
		if err := unix.Linkat(p.fd(), p.name, p.fd(), p.part(1), 0); err != nil {
			return nil, err
		}
	}
	if err := unix.Renameat(p.fd(), fresh, p.fd(), p.name); err != nil {
		return nil, err
	}
	return next, nil
}
