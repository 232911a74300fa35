package supervise

import (
	"bytes"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/dshx/dshx/sandboxpolicy"
)

// Names that Landlock can't grant: a rule is for an object that is there and,
// in a directory, for all names in it. A few files of a directory whose others
// stay out of reach (Place) are therefore made, opened for writing, renamed and
// removed here, outside of the caller's Landlock domain.
//
// Every other call is left to the kernel (SECCOMP_USER_NOTIF_FLAG_CONTINUE),
// which reads the arguments again. That they may be others by then gives the
// caller nothing: Landlock judges a continued call as it judges one that was
// never handed over, so what is decided here only ever adds the places' names,
// and whatever looks odd is continued. What is performed here is performed on a
// copy of the path that was read once, in a directory that is held by a
// descriptor and compared by identity, and never through a symbolic link at
// the end.

// Place is a directory in which some names are made by the supervisor.
type Place struct {
	Dir   string   // absolute, without symbolic links
	Files []string // names of regular files in Dir
	// Tree is the name of a directory that wasn't there when the caller's
	// Landlock domain was made: it may be made, and everything below it. Empty
	// where there is none.
	Tree string
}

// place is a Place held by a descriptor.
type place struct {
	Place
	fd int
	id identity
}

// openPlaces leaves out what can't be opened: nothing is made there.
func openPlaces(list []Place) []place {
	var out []place
	for _, p := range list {
		fd, err := unix.Open(p.Dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			continue
		}
		k, e := identify(fd)
		if e != 0 {
			unix.Close(fd)
			continue
		}
		out = append(out, place{p, fd, k.identity})
	}
	return out
}

// grown returns the place's tree, once it is there as a directory.
func (p *place) grown() (identity, bool) {
	if p.Tree == "" {
		return identity{}, false
	}
	k, e := look(p.fd, p.Tree, unix.AT_SYMLINK_NOFOLLOW)
	return k.identity, e == 0 && k.mode&unix.S_IFMT == unix.S_IFDIR
}

// spot is one name in a directory of a place.
type spot struct {
	place *place
	dir   int    // the directory, held
	name  string // without slashes, and neither "." nor ".."
	path  string // absolute, to be judged
	tree  bool   // below the place's tree, where everything is granted; else one of its files, or with root the tree
	root  bool
}

func (s spot) cname() []byte { return append([]byte(s.name), 0) }

// is reports whether fd is what the spot names now.
func (s spot) is(fd int) bool {
	a, e := identify(fd)
	b, f := look(s.dir, s.name, unix.AT_SYMLINK_NOFOLLOW)
	return e == 0 && f == 0 && a.identity == b.identity
}

// spot finds which name of a place the path at addr is; ok is false for all
// other paths, those that can't be resolved too.
func (w *worker) spot(dirfd int32, addr uint64) (s spot, ok bool) {
	path, e := w.readPath(addr)
	if e != 0 {
		return s, false
	}
	path = path[:len(path)-1]
	last := bytes.LastIndexByte(path, '/') + 1
	base := string(path[last:])
	if base == "" || base == "." || base == ".." {
		return s, false
	}
	// Almost every call ends here: its last component is no name of a place.
	maybe := false
	for i := range w.s.places {
		p := &w.s.places[i]
		if slices.Contains(p.Files, base) || base == p.Tree {
			maybe = true
		} else if _, grown := p.grown(); grown {
			maybe = true
		}
	}
	if !maybe {
		return s, false
	}
	path = append(path[:last], 0) // up to the last slash
	if last == 0 {
		path = append(w.path[:0], '.', 0)
	}
	parent, e := w.resolvePath(dirfd, path, true)
	if e != 0 {
		return s, false
	}
	id, e := identify(parent.fd)
	if e != 0 || id.mode&unix.S_IFMT != unix.S_IFDIR {
		return s, false
	}
	s = spot{dir: parent.fd, name: base}
	for i := range w.s.places {
		p := &w.s.places[i]
		s.place = p
		switch {
		case id.identity == p.id:
			s.path, s.root = p.Dir+"/"+base, base == p.Tree
			return s, s.root || slices.Contains(p.Files, base)
		case w.below(parent.fd, p):
			name, e := w.name(parent.fd)
			s.path, s.tree = name+"/"+base, true
			return s, e == 0
		}
	}
	return s, false
}

// maxDepth bounds the walk up from a directory.
const maxDepth = 128

// below reports whether the directory fd is the place's tree or below it. It
// goes up from the directory itself, so no name or link on the way down
// counts.
func (w *worker) below(fd int, p *place) bool {
	tree, ok := p.grown()
	if !ok {
		return false
	}
	// Only to be done soon with what is elsewhere.
	if name, e := w.name(fd); e != 0 || !strings.HasPrefix(name+"/", p.Dir+"/"+p.Tree+"/") {
		return false
	}
	cur := fd
	defer func() {
		if cur != fd {
			unix.Close(cur)
		}
	}()
	for range maxDepth {
		k, e := identify(cur)
		switch {
		case e != 0 || k.dev != tree.dev || k.mnt != tree.mnt:
			return false
		case k.identity == tree:
			return true
		case k.identity == p.id:
			return false
		}
		up, err := unix.Openat(cur, "..", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return false
		}
		if cur != fd {
			unix.Close(cur)
		}
		cur = up
	}
	return false
}

// may says whether op on s is made here for the caller, and takes over the
// caller's umask for it, on this thread alone. Everything of the caller has
// been read by now. With false the call is the kernel's.
func (w *worker) may(op sandboxpolicy.Op, s spot) bool {
	status, err := os.ReadFile("/proc/" + strconv.Itoa(w.tid) + "/status")
	if err != nil {
		return false
	}
	umask, ok := caller(status, w.s.o.Filters)
	if !ok || !w.valid() || !w.s.o.Judge.Verdict(op, s.path).Allow {
		return false
	}
	unix.Umask(umask)
	return true
}

// caller reads from /proc/TID/status (proc_pid_status(5)) the umask of a caller
// that files may be made for: of our user and group, whose files ours would
// be, and under no other filters than the domain's own. A process that has
// more of them is in a sandbox within this one, whose rules aren't known here.
func caller(status []byte, filters int) (umask int, ok bool) {
	n, found := field(status, "Seccomp_filters:") // Linux 5.9
	if !found || string(n) != strconv.Itoa(filters) {
		return 0, false
	}
	for name, own := range map[string]int{"Uid:": unix.Geteuid(), "Gid:": unix.Getegid()} {
		ids, _ := field(status, name) // real, effective, saved, of the file system
		f := bytes.Fields(ids)
		if len(f) != 4 || string(f[3]) != strconv.Itoa(own) {
			return 0, false
		}
	}
	mask, _ := field(status, "Umask:") // Linux 4.7
	m, err := strconv.ParseUint(string(mask), 8, 32)
	return int(m), err == nil
}

// Opening

const (
	// openKnown are the flags of an open that is performed here; with others
	// it is the kernel's.
	openKnown = unix.O_ACCMODE | unix.O_CREAT | unix.O_EXCL | unix.O_NOCTTY | unix.O_TRUNC | unix.O_APPEND |
		unix.O_NONBLOCK | unix.O_SYNC | unix.O_NOATIME | unix.O_NOFOLLOW | unix.O_CLOEXEC | largefile
	// openTries bounds how often a file may appear and vanish meanwhile.
	openTries = 8
)

func sysOpenat(w *worker, a *[6]uint64) answer {
	return w.openName(int32(a[0]), a[1], int(uint32(a[2])), uint32(a[3]))
}

func open(w *worker, a *[6]uint64) answer {
	return w.openName(unix.AT_FDCWD, a[0], int(uint32(a[1])), uint32(a[2]))
}

func creat(w *worker, a *[6]uint64) answer {
	return w.openName(unix.AT_FDCWD, a[0], unix.O_CREAT|unix.O_WRONLY|unix.O_TRUNC, uint32(a[1]))
}

func (w *worker) openName(dirfd int32, path uint64, flags int, mode uint32) answer {
	if flags&^openKnown != 0 || flags&unix.O_ACCMODE == unix.O_ACCMODE {
		return proceed
	}
	s, ok := w.spot(dirfd, path)
	if !ok || s.root {
		return proceed
	}
	op := sandboxpolicy.OpWrite
	if flags&unix.O_CREAT != 0 {
		op = sandboxpolicy.OpCreate
	}
	if !w.may(op, s) {
		return proceed
	}
	name := s.cname()
	for range openTries {
		if flags&unix.O_CREAT != 0 {
			fd, e := openatMode(s.dir, name, flags|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, mode)
			if e == 0 {
				return w.give(w.keep(fd), flags, func() {
					// The caller has gone, or was interrupted and asks again: as
					// if nothing had been done.
					if s.is(fd) {
						unix.Unlinkat(s.dir, s.name, 0)
					}
				})
			}
			if e != unix.EEXIST || flags&unix.O_EXCL != 0 {
				return failed(e)
			}
		}
		// What is there is looked at before it is opened: opening a link would
		// follow it, opening a FIFO wait.
		o, e := openat(s.dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC)
		if e == unix.ENOENT && flags&unix.O_CREAT != 0 {
			continue // just removed
		}
		if e != 0 {
			return failed(e)
		}
		w.keep(o)
		if k, e := identify(o); e != 0 || k.mode&unix.S_IFMT != unix.S_IFREG {
			return proceed
		}
		fd, e := openat(w.s.procFD, w.entry(o), flags&^(unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW)|unix.O_CLOEXEC)
		if e != 0 {
			return failed(e)
		}
		return w.give(w.keep(fd), flags, func() {})
	}
	return failed(unix.EAGAIN)
}

// give answers an open with our descriptor fd, installed in the caller, and
// calls undo when the caller didn't get it.
//
// Signals are blocked meanwhile: the kernel marks the call as answered before
// the caller has taken the descriptor, and a signal that interrupts us then
// (the Go runtime preempts by signals) would leave it with 0 for a result.
func (w *worker) give(fd, flags int, undo func()) answer {
	cloexec := uint32(flags & unix.O_CLOEXEC)
	if !w.s.noAddfdSend.Load() {
		var all, old unix.Sigset_t
		for i := range all.Val {
			all.Val[i] = ^all.Val[i]
		}
		if err := unix.PthreadSigmask(unix.SIG_SETMASK, &all, &old); err != nil {
			undo()
			return failed(unix.EPERM)
		}
		_, e := w.b.install(w.s.listener, fd, cloexec, true)
		_ = unix.PthreadSigmask(unix.SIG_SETMASK, &old, nil)
		switch e {
		case 0:
			return answer{sent: true}
		case unix.EINVAL: // no FLAG_SEND
			w.s.noAddfdSend.Store(true)
		default:
			undo()
			return failed(e)
		}
	}
	for {
		n, e := w.b.install(w.s.listener, fd, cloexec, false)
		switch e {
		case 0:
			return answer{val: int64(n)}
		case unix.EINTR:
		default:
			undo()
			return failed(e)
		}
	}
}

// Making, removing, renaming

func sysMkdirat(w *worker, a *[6]uint64) answer { return w.mkdirName(int32(a[0]), a[1], uint32(a[2])) }
func mkdir(w *worker, a *[6]uint64) answer      { return w.mkdirName(unix.AT_FDCWD, a[0], uint32(a[1])) }

func (w *worker) mkdirName(dirfd int32, path uint64, mode uint32) answer {
	s, ok := w.spot(dirfd, path)
	if !ok || !s.root && !s.tree || !w.may(sandboxpolicy.OpCreate, s) {
		return proceed
	}
	return failed(errnoOf(unix.Mkdirat(s.dir, s.name, mode)))
}

func sysUnlinkat(w *worker, a *[6]uint64) answer {
	return w.unlinkName(int32(a[0]), a[1], int(uint32(a[2])))
}
func unlink(w *worker, a *[6]uint64) answer { return w.unlinkName(unix.AT_FDCWD, a[0], 0) }
func rmdir(w *worker, a *[6]uint64) answer {
	return w.unlinkName(unix.AT_FDCWD, a[0], unix.AT_REMOVEDIR)
}

func (w *worker) unlinkName(dirfd int32, path uint64, flags int) answer {
	if flags&^unix.AT_REMOVEDIR != 0 {
		return proceed
	}
	s, ok := w.spot(dirfd, path)
	if !ok || s.root || !s.tree && flags != 0 || !w.may(sandboxpolicy.OpDelete, s) {
		return proceed
	}
	return failed(errnoOf(unix.Unlinkat(s.dir, s.name, flags)))
}

func sysRenameat2(w *worker, a *[6]uint64) answer {
	return w.renameName(int32(a[0]), a[1], int32(a[2]), a[3], uint(uint32(a[4])))
}

func sysRenameat(w *worker, a *[6]uint64) answer {
	return w.renameName(int32(a[0]), a[1], int32(a[2]), a[3], 0)
}

func rename(w *worker, a *[6]uint64) answer {
	return w.renameName(unix.AT_FDCWD, a[0], unix.AT_FDCWD, a[1], 0)
}

// renameName renames within a place: one of its files to another, or in its
// tree. What comes from elsewhere or goes there is Landlock's.
func (w *worker) renameName(fromDir int32, from uint64, toDir int32, to uint64, flags uint) answer {
	if flags&^unix.RENAME_NOREPLACE != 0 {
		return proceed
	}
	a, ok := w.spot(fromDir, from)
	if !ok || a.root {
		return proceed
	}
	b, ok := w.spot(toDir, to)
	if !ok || b.root || a.place != b.place || a.tree != b.tree {
		return proceed
	}
	if !a.tree {
		// Such a name is a regular file: nothing else can become one.
		if k, e := look(a.dir, a.name, unix.AT_SYMLINK_NOFOLLOW); e != 0 || k.mode&unix.S_IFMT != unix.S_IFREG {
			return proceed
		}
	}
	if !w.s.o.Judge.Verdict(sandboxpolicy.OpRename, a.path).Allow || !w.may(sandboxpolicy.OpRename, b) {
		return proceed
	}
	if flags == 0 {
		return failed(errnoOf(unix.Renameat(a.dir, a.name, b.dir, b.name)))
	}
	return failed(errnoOf(unix.Renameat2(a.dir, a.name, b.dir, b.name, flags)))
}
