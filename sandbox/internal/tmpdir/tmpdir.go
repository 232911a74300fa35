// Package tmpdir makes and removes the private directories of a scope: its
// TMPDIR and where the output that was cut is kept.
//
// They lie in one directory of the user's, BASE/dshx-UID (0700, checked), so
// that what a killed dshx left behind can be found and swept by the next: the
// owner of each holds it locked with flock(2) as long as it lives.
//
// Removal works by descriptors and never follows a link: what the confined
// command puts into its TMPDIR, or swaps for a link while it's being removed,
// can't lead outside.
package tmpdir

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/dshx/dshx/sandbox/internal/proctree"
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
	fd     int  // the directory, locked
	others bool // there may be others in parent
}

// New makes a private directory that lies outside of avoid (the workspace)
// where there is a choice: a workspace that holds every base has none.
func New(avoid string) (*Dir, error) { return make1("", avoid) }

// NewKept makes a private directory that stays for keptFor, and returns its
// path. Such directories have a place of their own, BASE/dshx-UID-kept: what a
// start and an end look at must not grow with what is kept. They are swept
// when another is made.
func NewKept(avoid string) (string, error) {
	d, err := Keep(avoid)
	if err != nil {
		return "", err
	}
	d.Sweep()
	d.close()
	return d.Path, nil
}

// Keep is NewKept for a caller who lives with the directory: it stays as long as
// the caller holds it, and for keptFor from Release on. Nothing is swept, which
// may take as long as there are others.
func Keep(avoid string) (*Dir, error) { return make1(keptSuffix, avoid) }

// Sweep removes kept directories that nobody holds any more and whose time is
// over. d is one that Keep made.
func (d *Dir) Sweep() { d.sweep(keptFor) }

// Release removes a directory of Keep's if it is empty, and else leaves it for
// its time, which begins now.
func (d *Dir) Release() {
	if d.fd < 0 {
		return
	}
	if unix.Unlinkat(d.parent, d.name, unix.AT_REMOVEDIR) != nil {
		_ = unix.Futimes(d.fd, nil) // now
	}
	d.close()
}

const (
	keptSuffix = "-kept"
	keptFor    = 7 * 24 * time.Hour
)

func make1(suffix, avoid string) (*Dir, error) {
	var errs []string
	if within(bases[0], avoid) && within(bases[1], avoid) {
		avoid = ""
	}
	// Inside of another dshx only its TMPDIR can be written.
	for _, base := range append(bases[:], os.Getenv("TMPDIR")) {
		if !strings.HasPrefix(base, "/") {
			continue
		}
		d, err := newIn(base, suffix, avoid)
		if err == nil {
			return d, nil
		}
		errs = append(errs, err.Error())
	}
	return nil, fmt.Errorf("no place for a private TMPDIR: %s; free one of these, or let TMPDIR name a directory of your own", strings.Join(errs, ", "))
}

func newIn(base, suffix, avoid string) (*Dir, error) {
	path := base + "/dshx-" + strconv.Itoa(unix.Geteuid()) + suffix
	if avoid != "" && (within(path, avoid) || within(avoid, path)) {
		return nil, fmt.Errorf("%s is in the workspace", path)
	}
	parent, others, err := openParent(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for range 100 {
		name := randomName()
		fd, err := makeLocked(parent, name)
		if err == nil {
			return &Dir{Path: path + "/" + name, parent: parent, name: name, fd: fd, others: others}, nil
		}
		if err != unix.EEXIST {
			_ = unix.Close(parent)
			return nil, fmt.Errorf("%s/%s: %w", path, name, err)
		}
	}
	_ = unix.Close(parent)
	return nil, fmt.Errorf("%s: no free name", path)
}

// makeLocked makes a directory and locks it. EEXIST: the name is taken, or a
// sweep got in between and has removed it again.
func makeLocked(parent int, name string) (int, error) {
	if err := unix.Mkdirat(parent, name, 0o700); err != nil {
		return -1, err
	}
	fd, err := openForRemoval(parent, name) // makes it 0700 under every umask
	if err == unix.ENOENT {
		return -1, unix.EEXIST
	}
	if err != nil {
		_ = unix.Unlinkat(parent, name, unix.AT_REMOVEDIR)
		return -1, err
	}
	var st unix.Stat_t
	err = flock(fd, unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		if err = unix.Fstat(fd, &st); err == nil && st.Nlink > 0 {
			return fd, nil
		}
	}
	_ = unix.Close(fd)
	if err != nil && err != unix.EWOULDBLOCK { // a file system without locks
		_ = unix.Unlinkat(parent, name, unix.AT_REMOVEDIR)
		return -1, fmt.Errorf("lock: %w", err)
	}
	return -1, unix.EEXIST
}

// flock is flock(2); tests put one that fails in its place.
var flock = unix.Flock

func (d *Dir) close() {
	if base, _, _ := strings.Cut(d.Path, "/dshx-"); base != bases[0] {
		// Rarely used, and where it is there every policy must leave it out.
		_ = unix.Rmdir(d.Path[:len(d.Path)-len(d.name)-1])
	}
	_ = unix.Close(d.fd)
	_ = unix.Close(d.parent)
	d.fd, d.parent = -1, -1
}

func within(path, dir string) bool {
	return dir == "/" || path == dir || strings.HasPrefix(path, dir+"/")
}

// openParent opens or makes the user's directory, and tells whether it may hold
// something. In a directory that everybody writes somebody else may have made
// it first.
func openParent(path string) (fd int, others bool, err error) {
	const flags = unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	at, err := unix.Open(path, unix.O_PATH|flags, 0)
	if err == unix.ENOENT {
		if err := unix.Mkdir(path, 0o700); err != nil && err != unix.EEXIST {
			return -1, false, err
		}
		at, err = unix.Open(path, unix.O_PATH|flags, 0)
	}
	if err != nil {
		return -1, false, err
	}
	defer unix.Close(at)
	var st unix.Stat_t
	if err := unix.Fstat(at, &st); err != nil {
		return -1, false, err
	}
	if int(st.Uid) != unix.Geteuid() {
		return -1, false, errors.New("belongs to somebody else")
	}
	if st.Mode&0o7777 != 0o700 { // the umask, when it was made
		if err := chmodPath(at); err != nil {
			return -1, false, err
		}
	}
	// A directory's links are two and one for each directory in it, or one
	// where the file system doesn't count them.
	fd, err = unix.Openat(at, ".", unix.O_RDONLY|flags, 0)
	return fd, st.Nlink != 2, err
}

// chmodPath makes a directory its owner's alone, by an O_PATH descriptor of
// the very directory: fchmodat(2) would follow a link that took its place.
func chmodPath(fd int) error { return unix.Chmod("/proc/self/fd/"+strconv.Itoa(fd), 0o700) }

// RemoveEmpty removes the directory if it is empty and nothing else has to be
// looked at, and reports whether it did: the common case, in two system calls.
func (d *Dir) RemoveEmpty() bool {
	if d.fd < 0 {
		return true
	}
	if d.others || unix.Unlinkat(d.parent, d.name, unix.AT_REMOVEDIR) != nil {
		return false
	}
	d.close()
	return true
}

// Remove removes the directory with everything in it, and what others that
// were killed have left. What can't be removed is left for a later sweep, and
// reported.
func (d *Dir) Remove() error {
	if d.fd < 0 {
		return nil
	}
	err := removeAt(d.parent, d.name)
	if d.others {
		d.sweep(0)
	}
	d.close()
	if err != nil {
		return fmt.Errorf("remove %s: %w", d.Path, err)
	}
	return nil
}

// sweep removes the directories whose owners are gone and that are as old as
// that.
func (d *Dir) sweep(age time.Duration) {
	fd, err := unix.Openat(d.parent, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	names, err := list(fd)
	if err != nil {
		return
	}
	for _, name := range names {
		if name == d.name {
			continue
		}
		var st unix.Stat_t
		young := func() bool { return time.Since(time.Unix(st.Mtim.Sec, st.Mtim.Nsec)) < age }
		// There may be hundreds, of which few are due: look before opening.
		if age > 0 && (unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil || young()) {
			continue
		}
		at, err := openForRemoval(fd, name) // a command may have left it without rights
		if err != nil {
			continue
		}
		// Looked at again when it is locked: its holder may just have released it.
		if unix.Flock(at, unix.LOCK_EX|unix.LOCK_NB) == nil && (age == 0 || unix.Fstat(at, &st) == nil && !young()) {
			_ = removeAt(fd, name)
		}
		_ = unix.Close(at)
	}
}

// removeAt removes name in dir with all below it.
func removeAt(dir int, name string) error {
	r := remover{root: -1, left: maxEntries}
	return r.remove(dir, name, 0)
}

const (
	// maxDepth is how many directories are open at a time. What lies deeper is
	// moved up first: the command may have nested more than there are
	// descriptors, or than a path can name.
	maxDepth = 32
	// maxEntries bounds the work where something goes on making entries.
	maxEntries = 1 << 26
)

type remover struct {
	root int // the directory that is being removed
	left int
}

func (r *remover) remove(dir int, name string, depth int) error {
	err := unix.Unlinkat(dir, name, 0)
	if err == nil || err == unix.ENOENT {
		return nil
	}
	// unlink(2) of a directory: EISDIR on Linux, EPERM by POSIX.
	if err != unix.EISDIR && err != unix.EPERM {
		return err
	}
	if depth > maxDepth && r.lift(dir, name) {
		return nil
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
	if depth == 0 {
		r.root = fd
	}
	err = r.empty(fd, depth)
	_ = unix.Close(fd)
	if err != nil {
		return err
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

// empty removes what is in a directory, a buffer of entries at a time, and
// looks again until it finds none: some may appear, or be passed over while
// others go.
func (r *remover) empty(fd, depth int) error {
	buf := make([]byte, 8<<10)
	var names []string
	for {
		if _, err := unix.Seek(fd, 0, 0); err != nil {
			return err
		}
		var first error
		found, gone := 0, 0
		for {
			n, err := unix.ReadDirent(fd, buf)
			if err != nil {
				return err
			}
			if n <= 0 {
				break
			}
			_, _, names = unix.ParseDirent(buf[:n], -1, names[:0])
			for _, name := range names {
				if r.left--; r.left < 0 {
					return errors.New("its entries don't end")
				}
				found++
				err := r.remove(fd, name, depth+1)
				if err == nil {
					gone++
				} else if first == nil {
					first = err
				}
			}
		}
		if found == 0 {
			return nil
		}
		if gone == 0 {
			return first
		}
	}
}

// lift moves a directory to the root of what is removed, where its turn comes.
func (r *remover) lift(dir int, name string) bool {
	// To move a directory to another one takes the right to write it.
	fd, err := openForRemoval(dir, name)
	if err != nil {
		return false
	}
	_ = unix.Close(fd)
	return unix.Renameat2(dir, name, r.root, randomName(), unix.RENAME_NOREPLACE) == nil
}

func randomName() string {
	var b [8]byte
	proctree.Random(b[:])
	return strconv.FormatUint(binary.NativeEndian.Uint64(b[:]), 36)
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
