// Package tmpdir makes and removes the private directories of a scope: its
// TMPDIR and where the output that was cut is kept.
//
// They lie in one directory of the user's, BASE/dshx-UID (0700, checked), so
// that what a killed dshx left behind can be found and swept by the next. Each
// has a lock file beside it that its owner holds with flock(2) as long as it
// lives.
//
// Removal works by descriptors and never follows a link: what the confined
// command puts into its TMPDIR, or swaps for a link while it's being removed,
// can't lead outside.
package tmpdir

import (
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// bases are where the directories can lie, best first. /var/tmp has fewer
// entries than /tmp, each of which costs a Landlock rule, and is no small
// memory disk. The caller's own TMPDIR is its own affair.
var bases = [...]string{"/var/tmp", "/tmp"}

// Dir is one private directory.
type Dir struct {
	// Path is absolute, its mode 0700.
	Path string

	parent int // BASE/dshx-UID
	name   string
	lock   int
}

// New makes a private directory that lies outside of avoid (the workspace)
// where there is a choice: a workspace that holds every base has none.
func New(avoid string) (*Dir, error) {
	var first error
	if within(bases[0], avoid) && within(bases[1], avoid) {
		avoid = ""
	}
	for _, base := range bases {
		d, err := newIn(base, avoid)
		if err == nil {
			return d, nil
		}
		if first == nil {
			first = err
		}
	}
	return nil, fmt.Errorf("no place for a private TMPDIR: %w; make /var/tmp or /tmp writable", first)
}

func newIn(base, avoid string) (*Dir, error) {
	path := base + "/dshx-" + strconv.Itoa(unix.Geteuid())
	if avoid != "" && (within(path, avoid) || within(avoid, path)) {
		return nil, fmt.Errorf("%s is in the workspace", path)
	}
	parent, err := openParent(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for range 100 {
		var b [8]byte
		_, _ = rand.Read(b[:]) // never fails: crypto/rand
		name := strconv.FormatUint(uint64(b[0])<<40|uint64(b[1])<<32|uint64(b[2])<<24|uint64(b[3])<<16|uint64(b[4])<<8|uint64(b[5]), 36)
		lock, err := unix.Openat(parent, name+".lock", unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o600)
		if err == unix.EEXIST {
			continue
		}
		if err != nil {
			_ = unix.Close(parent)
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		d := &Dir{Path: path + "/" + name, parent: parent, name: name, lock: lock}
		if err := unix.Flock(lock, unix.LOCK_EX|unix.LOCK_NB); err == nil {
			err = unix.Mkdirat(parent, name, 0o700)
			if err == nil {
				// The caller's umask may be anything.
				err = unix.Fchmodat(parent, name, 0o700, 0)
			}
			if err == nil {
				return d, nil
			}
			_ = d.Remove()
			return nil, fmt.Errorf("%s: %w", d.Path, err)
		}
		_ = unix.Close(lock) // a sweep was faster; it removes the file
	}
	_ = unix.Close(parent)
	return nil, fmt.Errorf("%s: no free name", path)
}

func within(path, dir string) bool {
	return dir == "/" || path == dir || strings.HasPrefix(path, dir+"/")
}

// openParent opens or makes the user's directory. In a directory that
// everybody writes somebody else may have made it first.
func openParent(path string) (int, error) {
	const flags = unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	at, err := unix.Open(path, unix.O_PATH|flags, 0)
	if err == unix.ENOENT {
		if err := unix.Mkdir(path, 0o700); err != nil && err != unix.EEXIST {
			return -1, err
		}
		at, err = unix.Open(path, unix.O_PATH|flags, 0)
	}
	if err != nil {
		return -1, err
	}
	defer unix.Close(at)
	var st unix.Stat_t
	if err := unix.Fstat(at, &st); err != nil {
		return -1, err
	}
	if int(st.Uid) != unix.Geteuid() {
		return -1, errors.New("belongs to somebody else")
	}
	if st.Mode&0o7777 != 0o700 { // the umask, when it was made
		if err := chmodPath(at); err != nil {
			return -1, err
		}
	}
	return unix.Openat(at, ".", unix.O_RDONLY|flags, 0)
}

// chmodPath makes a directory its owner's alone, by an O_PATH descriptor of
// the very directory: fchmodat(2) would follow a link that took its place.
func chmodPath(fd int) error { return unix.Chmod("/proc/self/fd/"+strconv.Itoa(fd), 0o700) }

// Remove removes the directory with everything in it. What can't be removed
// is left for a later sweep, and reported.
func (d *Dir) Remove() error {
	if d.lock < 0 {
		return nil
	}
	err := removeAt(d.parent, d.name)
	if err == nil {
		err = unix.Unlinkat(d.parent, d.name+".lock", 0)
	}
	_ = unix.Close(d.lock)
	_ = unix.Close(d.parent)
	d.lock, d.parent = -1, -1
	if err != nil {
		return fmt.Errorf("remove %s: %w", d.Path, err)
	}
	return nil
}

// Keep leaves the directory for good: no sweep removes it while its lock file
// is gone.
func (d *Dir) Keep() error {
	err := unix.Unlinkat(d.parent, d.name+".lock", 0)
	_ = unix.Close(d.lock)
	_ = unix.Close(d.parent)
	d.lock, d.parent = -1, -1
	return err
}

// Sweep removes the directories whose owners are gone.
func (d *Dir) Sweep() {
	fd, err := unix.Openat(d.parent, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	names, err := list(fd)
	_ = unix.Close(fd)
	if err != nil {
		return
	}
	for _, n := range names {
		name, ok := strings.CutSuffix(n, ".lock")
		if !ok || name == d.name {
			continue
		}
		lock, err := unix.Openat(d.parent, n, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
		if err != nil {
			continue
		}
		if unix.Flock(lock, unix.LOCK_EX|unix.LOCK_NB) == nil && removeAt(d.parent, name) == nil {
			_ = unix.Unlinkat(d.parent, n, 0)
		}
		_ = unix.Close(lock)
	}
}

// removeAt removes name in dir with all below it.
func removeAt(dir int, name string) error {
	err := unix.Unlinkat(dir, name, 0)
	if err == nil || err == unix.ENOENT {
		return nil
	}
	// unlink(2) of a directory: EISDIR on Linux, EPERM by POSIX.
	if err != unix.EISDIR && err != unix.EPERM {
		return err
	}
	fd, err := openForRemoval(dir, name)
	if err == unix.ENOTDIR || err == unix.ELOOP {
		// Swapped for something else meanwhile: gone with the next unlink.
		err = unix.Unlinkat(dir, name, 0)
		if err == unix.ENOENT {
			err = nil
		}
		return err
	}
	if err == unix.ENOENT {
		return nil
	}
	if err != nil {
		return err
	}
	var first error
	for range 100 { // entries may appear as long as something writes here
		names, err := list(fd)
		if err != nil {
			first = err
			break
		}
		if len(names) == 0 {
			break
		}
		first = nil
		for _, n := range names {
			if err := removeAt(fd, n); err != nil && first == nil {
				first = err
			}
		}
		if first != nil {
			break
		}
		if _, err := unix.Seek(fd, 0, 0); err != nil {
			first = err
			break
		}
	}
	_ = unix.Close(fd)
	if first != nil {
		return first
	}
	err = unix.Unlinkat(dir, name, unix.AT_REMOVEDIR)
	switch err {
	case unix.ENOENT:
		return nil
	case unix.ENOTDIR:
		return unix.Unlinkat(dir, name, 0)
	}
	return err
}

func openForRemoval(dir int, name string) (int, error) {
	flags := unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Openat(dir, name, flags, 0)
	if err != unix.EACCES {
		if err == nil {
			var st unix.Stat_t
			// Entries can only be removed from a directory with w and x.
			if unix.Fstat(fd, &st) == nil && st.Mode&0o700 != 0o700 {
				_ = unix.Fchmod(fd, 0o700)
			}
		}
		return fd, err
	}
	// Mode 000: give it back to its owner.
	path, err := unix.Openat(dir, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(path)
	if err := chmodPath(path); err != nil {
		return -1, err
	}
	return unix.Openat(path, ".", flags, 0)
}

func list(fd int) ([]string, error) {
	buf := make([]byte, 16<<10)
	var names []string
	for {
		n, err := unix.ReadDirent(fd, buf)
		if err != nil {
			return nil, err
		}
		if n <= 0 {
			return names, nil
		}
		_, _, names = unix.ParseDirent(buf[:n], -1, names)
	}
}

// Example returns a path such as New would make one at, without making it.
func Example(avoid string) string {
	base := bases[0]
	if within(base, avoid) && !within(bases[1], avoid) {
		base = bases[1]
	}
	return base + "/dshx-" + strconv.Itoa(unix.Geteuid()) + "/example"
}
