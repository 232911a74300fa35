package supervise

import (
	"bytes"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// object is what a call acts on, held by a descriptor of ours.
type object struct {
	fd    int    // O_PATH, or a duplicate of the caller's descriptor
	given string // what the caller named
	// dup: fd is the caller's open file description itself, so the descriptor
	// forms of calls can be used on it and fail as they would for the caller.
	dup bool
	// jumped: reached by a descriptor or a link of /proc, not by walking names
	// from the root. Its path is checked before it is believed.
	jumped bool
}

// identity tells directories apart.
type identity struct{ dev, ino, mnt uint64 }

// known is what tells about an object in one look.
type known struct {
	identity
	mode  uint32
	nlink uint32
}

func look(dirfd int, path string, flags int) (k known, e unix.Errno) {
	var sx unix.Statx_t
	const mask = unix.STATX_TYPE | unix.STATX_INO | unix.STATX_NLINK | unix.STATX_MNT_ID
	if err := unix.Statx(dirfd, path, flags|unix.AT_STATX_DONT_SYNC, mask, &sx); err != nil {
		return k, errnoOf(err)
	}
	k.identity = identity{unix.Mkdev(sx.Dev_major, sx.Dev_minor), sx.Ino, 0}
	if sx.Mask&unix.STATX_MNT_ID != 0 { // Linux 5.8
		k.mnt = sx.Mnt_id
	}
	k.mode, k.nlink = uint32(sx.Mode), sx.Nlink
	return k, 0
}

// identify looks at our descriptor.
func identify(fd int) (known, unix.Errno) { return look(fd, "", unix.AT_EMPTY_PATH) }

// identifyPath looks at what a path of ours names, a link at its end itself.
func identifyPath(path string) (known, unix.Errno) {
	return look(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW)
}

// root returns the callers' root directory; see Server.root.
func (w *worker) root() (int, unix.Errno) {
	w.s.rootOnce.Do(func() {
		fd, err := unix.Open("/proc/"+strconv.Itoa(w.tid)+"/root", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			w.s.rootErr = unix.EPERM
			return
		}
		id, e := identify(fd)
		// The names that descriptors have are those in our root; with another
		// one they'd mean other files.
		own, f := identifyPath("/")
		if e != 0 || f != 0 || own.identity != id.identity {
			unix.Close(fd)
			w.s.rootErr = unix.EPERM
			return
		}
		w.s.rootFD, w.s.rootID = fd, id.identity
	})
	return w.s.rootFD, w.s.rootErr
}

// start returns the directory that a path is relative to. path has its NUL.
func (w *worker) start(dirfd int32, path []byte) (int, unix.Errno) {
	switch {
	case path[0] == '/':
		return w.root()
	case dirfd == unix.AT_FDCWD:
		fd, e := w.open("cwd")
		if e != 0 && e != unix.ENOENT {
			e = unix.EPERM
		}
		return fd, e
	default:
		fd, e := w.dup(dirfd)
		if e == errNoGetfd {
			fd, e = w.openFD(dirfd)
		}
		return fd, e
	}
}

// resolve reads the path at addr and opens what it names for the caller as
// O_PATH, which never blocks and has no effect on the object. flags are AT_
// flags: with AT_EMPTY_PATH an empty path is dirfd itself; follow says whether
// a symbolic link at the end is followed.
func (w *worker) resolve(dirfd int32, addr uint64, flags int, follow bool) (object, unix.Errno) {
	path, e := w.readPath(addr)
	if e != 0 {
		return object{}, e
	}
	if len(path) == 1 {
		if flags&unix.AT_EMPTY_PATH == 0 {
			return object{}, unix.ENOENT
		}
		return w.resolveEmpty(dirfd)
	}
	return w.resolvePath(dirfd, path, follow)
}

func (w *worker) resolveEmpty(dirfd int32) (object, unix.Errno) {
	if dirfd == unix.AT_FDCWD {
		fd, e := w.open("cwd")
		return object{fd: fd, given: ".", jumped: true}, e
	}
	return w.descriptor(dirfd)
}

func (w *worker) resolvePath(dirfd int32, path []byte, follow bool) (object, unix.Errno) {
	start, e := w.start(dirfd, path)
	if e != 0 {
		return object{}, e
	}
	o := object{fd: -1, given: string(path[:len(path)-1])}
	if !w.s.noOpenat2.Load() {
		w.how = unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS}
		if !follow {
			w.how.Flags |= unix.O_NOFOLLOW
		}
		if path[0] == '/' {
			w.how.Resolve |= unix.RESOLVE_IN_ROOT
		} else {
			w.how.Resolve |= unix.RESOLVE_BENEATH
		}
		fd, e := openat2(start, path, &w.how)
		switch e {
		case 0:
			o.fd = w.keep(fd)
			return o, 0
		case unix.ELOOP, unix.EXDEV, unix.EAGAIN:
			// A symbolic link, or ".." out of the start, or a rename raced.
		case unix.ENOSYS, unix.EPERM:
			w.s.noOpenat2.Store(true)
		default:
			return o, e
		}
	}
	o.fd, o.jumped, e = w.walk(start, o.given, follow)
	return o, e
}

const (
	maxLinks    = 40 // MAXSYMLINKS of the kernel
	procRootIno = 1  // PROC_ROOT_INO
	stNoSymFoll = 0x2000
)

// walk resolves path component by component, as path_resolution(7) says, for
// the caller: /proc/self is the caller's there, and ".." doesn't leave the
// root. start stays open; the result is kept.
func (w *worker) walk(start int, path string, follow bool) (result int, jumped bool, err unix.Errno) {
	cur, owned := start, false
	move := func(fd int, own bool) {
		if owned {
			unix.Close(cur)
		}
		cur, owned = fd, own
	}
	fail := func(e unix.Errno) (int, bool, unix.Errno) {
		move(-1, false)
		return -1, false, e
	}
	links := 0
	rest := path
	mustDir := false
	for {
		if strings.HasPrefix(rest, "/") {
			root, e := w.root()
			if e != 0 {
				return fail(e)
			}
			move(root, false)
			rest = strings.TrimLeft(rest, "/")
		}
		if rest == "" {
			break
		}
		name, tail, slash := strings.Cut(rest, "/")
		tail = strings.TrimLeft(tail, "/")
		last := tail == ""
		mustDir = last && slash
		rest = tail
		if len(name) > unix.NAME_MAX {
			return fail(unix.ENAMETOOLONG)
		}
		if name == ".." {
			id, e := identify(cur)
			if e != 0 {
				return fail(e)
			}
			if _, e := w.root(); e != 0 {
				return fail(e)
			}
			if id.identity == w.s.rootID {
				continue
			}
		}
		cname := append(w.link[:0], name...)
		cname = append(cname, 0)
		fd, e := openat(cur, cname, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC)
		if e != 0 {
			return fail(e)
		}
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			unix.Close(fd)
			return fail(err.(unix.Errno))
		}
		if st.Mode&unix.S_IFMT != unix.S_IFLNK || last && !slash && !follow {
			move(fd, true)
			continue
		}
		if links++; links > maxLinks {
			unix.Close(fd)
			return fail(unix.ELOOP)
		}
		to, jump, e := w.follow(cur, fd, name, &st)
		unix.Close(fd)
		if e != 0 {
			return fail(e)
		}
		if jump >= 0 {
			jumped = true
			move(jump, true)
			continue
		}
		switch {
		case rest != "":
			to += "/" + rest
		case slash:
			to += "/"
		}
		if len(to) >= 2*unix.PathMax {
			return fail(unix.ENAMETOOLONG)
		}
		rest = to
	}
	if mustDir {
		var st unix.Stat_t
		if err := unix.Fstat(cur, &st); err != nil {
			return fail(err.(unix.Errno))
		}
		if st.Mode&unix.S_IFMT != unix.S_IFDIR {
			return fail(unix.ENOTDIR)
		}
	}
	if !owned {
		fd, err := unix.FcntlInt(uintptr(cur), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return -1, false, err.(unix.Errno)
		}
		cur = fd
	}
	return w.keep(cur), jumped, 0
}

// follow reads the symbolic link fd, called name in directory dir. A link of
// /proc that the kernel follows by itself is jumped: jump is where it leads.
func (w *worker) follow(dir, fd int, name string, st *unix.Stat_t) (to string, jump int, err unix.Errno) {
	var fs unix.Statfs_t
	if e := unix.Fstatfs(fd, &fs); e != nil {
		return "", -1, e.(unix.Errno)
	}
	if fs.Flags&stNoSymFoll != 0 {
		return "", -1, unix.ELOOP
	}
	if int64(fs.Type) == unix.PROC_SUPER_MAGIC {
		var d unix.Stat_t
		if e := unix.Fstat(dir, &d); e != nil {
			return "", -1, e.(unix.Errno)
		}
		if d.Ino == procRootIno {
			// Read by us, these would name us.
			switch name {
			case "self":
				return strconv.Itoa(w.process()), -1, 0
			case "thread-self":
				return strconv.Itoa(w.process()) + "/task/" + strconv.Itoa(w.tid), -1, 0
			}
		} else if w.magic(dir, name) {
			return w.jump(dir, name)
		}
	} else if e := w.stickyLink(dir, st); e != 0 {
		return "", -1, e
	}
	var empty [1]byte
	n, e := readlinkat(fd, empty[:], w.link[:])
	if e != 0 {
		return "", -1, e
	}
	if n == 0 {
		return "", -1, unix.ENOENT
	}
	if n >= len(w.link) {
		return "", -1, unix.ENAMETOOLONG
	}
	return string(w.link[:n]), -1, 0
}

// magic says whether the symbolic link called name in a directory of /proc,
// below its root, is one of those that lead to an object and not to a name.
func (w *worker) magic(dir int, name string) bool {
	if w.s.noOpenat2.Load() {
		return true // all but a few of drivers are, and those lead the kernel to the same place
	}
	cname := append(w.link[:0], name...)
	cname = append(cname, 0)
	w.how = unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_MAGICLINKS}
	fd, e := openat2(dir, cname, &w.how)
	if e == 0 {
		unix.Close(fd)
	}
	return e == unix.ELOOP
}

func (w *worker) jump(dir int, name string) (string, int, unix.Errno) {
	// The kernel would let us through a link of any process of the user. The
	// caller gets through those of processes inside only.
	path, e := w.name(dir)
	if e != 0 {
		return "", -1, e
	}
	pid := lastNumber(path)
	if pid <= 0 || pid != w.tid && pid != w.process() && !w.s.o.Judge.Inside(processOf(pid)) {
		return "", -1, unix.EACCES
	}
	cname := append(w.link[:0], name...)
	cname = append(cname, 0)
	fd, e := openat(dir, cname, unix.O_PATH|unix.O_CLOEXEC)
	return "", fd, e
}

// lastNumber returns the last component of path that is a number, or 0.
func lastNumber(path string) int {
	parts := strings.Split(path, "/")
	for i := len(parts) - 1; i >= 0; i-- {
		if n, err := strconv.Atoi(parts[i]); err == nil {
			return n
		}
	}
	return 0
}

// stickyLink is the kernel's may_follow_link (sysctl fs.protected_symlinks,
// proc_sys_fs(5)), which reading the link ourselves passes by: in a sticky
// directory that all may write, others' links aren't followed.
func (w *worker) stickyLink(dir int, link *unix.Stat_t) unix.Errno {
	if !w.s.protectedLinks {
		return 0
	}
	var d unix.Stat_t
	if err := unix.Fstat(dir, &d); err != nil {
		return err.(unix.Errno)
	}
	const stickyAll = unix.S_ISVTX | unix.S_IWOTH
	if d.Mode&stickyAll == stickyAll && link.Uid != d.Uid && int(link.Uid) != unix.Geteuid() {
		return unix.EACCES
	}
	return 0
}

// descriptor returns what the caller's descriptor fd refers to.
func (w *worker) descriptor(fd int32) (object, unix.Errno) {
	o := object{given: "descriptor " + strconv.Itoa(int(fd)), dup: true, jumped: true}
	var e unix.Errno
	if o.fd, e = w.dup(fd); e == errNoGetfd {
		o.dup = false
		o.fd, e = w.openFD(fd)
	}
	return o, e
}

// entry returns fd's name in /proc/self/fd, with a NUL. It leads to the object
// itself, relative to Server.procFD; it's the worker's working directory, for
// calls that take no directory.
func (w *worker) entry(fd int) []byte {
	return append(strconv.AppendInt(w.number[:0], int64(fd), 10), 0)
}

// name returns the path that our descriptor fd has, as the kernel says it.
func (w *worker) name(fd int) (string, unix.Errno) {
	n, e := readlinkat(w.s.procFD, w.entry(fd), w.link[:])
	if e != 0 {
		return "", unix.EPERM
	}
	if n >= len(w.link) {
		return "", unix.ENAMETOOLONG
	}
	return string(w.link[:n]), 0
}

const deletedSuffix = " (deleted)"

// located is where an object is.
type located struct {
	path string // to judge; empty for own
	own  bool   // no file of any directory: a pipe, a socket, memory
	lost bool   // it has no path that means it in our root
}

// locate finds the path to judge for o.
func (w *worker) locate(o object) (located, unix.Errno) {
	path, e := w.name(o.fd)
	if e != 0 {
		return located{}, e
	}
	if !strings.HasPrefix(path, "/") {
		for _, p := range []string{"pipe:[", "socket:[", "anon_inode:"} {
			if strings.HasPrefix(path, p) {
				return located{path: path, own: true}, 0
			}
		}
		return located{path: path, lost: true}, 0
	}
	deleted := strings.HasSuffix(path, deletedSuffix)
	if !o.jumped && !deleted {
		return located{path: path}, 0
	}
	id, e := identify(o.fd)
	if e != 0 {
		return located{}, e
	}
	if id.nlink == 0 && deleted && (strings.HasPrefix(path, "/memfd:") || strings.HasPrefix(path, "/dev/zero") || strings.HasPrefix(path, "/SYSV")) {
		return located{path: path, own: true}, 0
	}
	// A descriptor can come from another mount namespace, where the same path
	// is another file. Its path counts when it leads to the same object.
	if same, e := identifyPath(path); e == 0 && same.identity == id.identity {
		return located{path: path}, 0
	}
	if deleted {
		// The name is gone, and perhaps the file has another one (link, unlink):
		// judged by where it was, if that directory is of the same mount.
		was := strings.TrimSuffix(path, deletedSuffix)
		for dir := was; dir != "/"; {
			dir = dir[:max(strings.LastIndexByte(dir, '/'), 1)]
			parent, e := identifyPath(dir)
			if e == unix.ENOENT {
				continue // removed with all above it
			}
			if e == 0 && parent.dev == id.dev && parent.mnt == id.mnt {
				return located{path: was}, 0
			}
			break
		}
	}
	return located{path: path, lost: true}, 0
}

// cString returns b up to its NUL.
func cString(b []byte) string {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	return string(b)
}
