package supervise

import (
	"encoding/binary"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dshx/dshx/sandboxpolicy"
)

// Metadata: mode, owner, times, extended attributes, file attributes, length.
//
// A path is resolved to an O_PATH descriptor, judged, and changed through that
// descriptor's name in /proc/self/fd, which leads the kernel to the object
// itself, symbolic links included, on every kernel. A descriptor is duplicated
// and the descriptor form of the call used on the duplicate. Whether a
// descriptor was opened for writing says nothing: chmod by a descriptor that is
// open for reading is legal (fchmod(2)), so its path must be writable.

// atFlags checks a call's flags against those that it knows.
func atFlags(flags, known uint64) (int, unix.Errno) {
	if f := uint32(flags); f&^uint32(known) != 0 {
		return 0, unix.EINVAL
	}
	return int(uint32(flags)), 0
}

const pathFlags = unix.AT_SYMLINK_NOFOLLOW | unix.AT_EMPTY_PATH

// chmod

func chmodAt(w *worker, dirfd int32, path, mode uint64, flags int) answer {
	o, e := w.resolve(dirfd, path, flags, flags&unix.AT_SYMLINK_NOFOLLOW == 0)
	if e == 0 {
		e = w.permit(sandboxpolicy.OpChmod, o)
	}
	if e == 0 {
		e = fchmodat(w.s.procFD, w.entry(o.fd), uint32(mode))
	}
	return failed(e)
}

func chmod(w *worker, a *[6]uint64) answer       { return chmodAt(w, unix.AT_FDCWD, a[0], a[1], 0) }
func sysFchmodat(w *worker, a *[6]uint64) answer { return chmodAt(w, int32(a[0]), a[1], a[2], 0) }

func sysFchmodat2(w *worker, a *[6]uint64) answer {
	flags, e := atFlags(a[3], pathFlags)
	if e != 0 {
		return failed(e)
	}
	return chmodAt(w, int32(a[0]), a[1], a[2], flags)
}

// held opens the caller's descriptor for a call that takes one. Where it
// couldn't be duplicated, O_PATH descriptors are told apart, as the kernel does.
func (w *worker) held(fd int32, op sandboxpolicy.Op) (object, unix.Errno) {
	o, e := w.descriptor(fd)
	if e == 0 && !o.dup && w.isPathFD(fd) {
		e = unix.EBADF
	}
	if e == 0 {
		e = w.permit(op, o)
	}
	return o, e
}

func sysFchmod(w *worker, a *[6]uint64) answer {
	o, e := w.held(int32(a[0]), sandboxpolicy.OpChmod)
	switch {
	case e != 0:
	case o.dup:
		e = errnoOf(unix.Fchmod(o.fd, uint32(a[1])))
	default:
		e = fchmodat(w.s.procFD, w.entry(o.fd), uint32(a[1]))
	}
	return failed(e)
}

// chown

func chownAt(w *worker, dirfd int32, path, uid, gid uint64, flags int) answer {
	o, e := w.resolve(dirfd, path, flags, flags&unix.AT_SYMLINK_NOFOLLOW == 0)
	if e == 0 {
		e = w.permit(sandboxpolicy.OpChown, o)
	}
	if e == 0 {
		e = fchownat(w.s.procFD, w.entry(o.fd), uint32(uid), uint32(gid))
	}
	return failed(e)
}

func chown(w *worker, a *[6]uint64) answer {
	return chownAt(w, unix.AT_FDCWD, a[0], a[1], a[2], 0)
}

func lchown(w *worker, a *[6]uint64) answer {
	return chownAt(w, unix.AT_FDCWD, a[0], a[1], a[2], unix.AT_SYMLINK_NOFOLLOW)
}

func sysFchownat(w *worker, a *[6]uint64) answer {
	flags, e := atFlags(a[4], pathFlags)
	if e != 0 {
		return failed(e)
	}
	return chownAt(w, int32(a[0]), a[1], a[2], a[3], flags)
}

func sysFchown(w *worker, a *[6]uint64) answer {
	o, e := w.held(int32(a[0]), sandboxpolicy.OpChown)
	switch {
	case e != 0:
	case o.dup:
		e = errnoOf(unix.Fchown(o.fd, int(int32(a[1])), int(int32(a[2]))))
	default:
		e = fchownat(w.s.procFD, w.entry(o.fd), uint32(a[1]), uint32(a[2]))
	}
	return failed(e)
}

// Times. The older calls' structures become timespecs; a nil pointer, now,
// stays one.

// timesAt performs on path, or with a null path on dirfd itself.
func timesAt(w *worker, dirfd int32, path uint64, times *[2]unix.Timespec, flags int) answer {
	const omit = unix.UTIME_OMIT
	if times != nil && times[0].Nsec == omit && times[1].Nsec == omit {
		return answer{} // nothing to do: the kernel doesn't even look at the path
	}
	if path == 0 && dirfd != unix.AT_FDCWD {
		if flags != 0 {
			return failed(unix.EINVAL)
		}
		o, e := w.held(dirfd, sandboxpolicy.OpUtime)
		switch {
		case e != 0:
		case o.dup:
			e = utimensat(o.fd, nil, times)
		default:
			e = utimensat(w.s.procFD, w.entry(o.fd), times)
		}
		return failed(e)
	}
	o, e := w.resolve(dirfd, path, flags, flags&unix.AT_SYMLINK_NOFOLLOW == 0)
	if e == 0 {
		e = w.permit(sandboxpolicy.OpUtime, o)
	}
	if e == 0 {
		e = utimensat(w.s.procFD, w.entry(o.fd), times)
	}
	return failed(e)
}

// readTimes reads two pairs of words; unit is how many nanoseconds the second
// of a pair counts, and 0 for a struct utimbuf, which has seconds only.
func readTimes(w *worker, addr uint64, unit time.Duration) (*[2]unix.Timespec, unix.Errno) {
	if addr == 0 {
		return nil, 0
	}
	size := 32
	if unit == 0 {
		size = 16
	}
	b := w.small[:size]
	if e := w.read(b, addr); e != 0 {
		return nil, e
	}
	return parseTimes(b, unit)
}

func parseTimes(b []byte, unit time.Duration) (*[2]unix.Timespec, unix.Errno) {
	word := func(i int) int64 { return int64(binary.NativeEndian.Uint64(b[8*i:])) }
	if unit == 0 {
		return &[2]unix.Timespec{{Sec: word(0)}, {Sec: word(1)}}, 0
	}
	t := &[2]unix.Timespec{{Sec: word(0), Nsec: word(1)}, {Sec: word(2), Nsec: word(3)}}
	if unit == time.Microsecond {
		for i := range t {
			// Checked before it is multiplied: else it could become UTIME_NOW.
			if t[i].Nsec < 0 || t[i].Nsec >= 1e6 {
				return nil, unix.EINVAL
			}
			t[i].Nsec *= 1000
		}
	}
	return t, 0
}

func utime(w *worker, a *[6]uint64) answer {
	t, e := readTimes(w, a[1], 0)
	if e != 0 {
		return failed(e)
	}
	return timesAt(w, unix.AT_FDCWD, a[0], t, 0)
}

func utimes(w *worker, a *[6]uint64) answer {
	t, e := readTimes(w, a[1], time.Microsecond)
	if e != 0 {
		return failed(e)
	}
	return timesAt(w, unix.AT_FDCWD, a[0], t, 0)
}

func futimesat(w *worker, a *[6]uint64) answer {
	t, e := readTimes(w, a[2], time.Microsecond)
	if e != 0 {
		return failed(e)
	}
	return timesAt(w, int32(a[0]), a[1], t, 0)
}

func sysUtimensat(w *worker, a *[6]uint64) answer {
	flags, e := atFlags(a[3], pathFlags)
	if e != 0 {
		return failed(e)
	}
	t, e := readTimes(w, a[2], time.Nanosecond)
	if e != 0 {
		return failed(e)
	}
	return timesAt(w, int32(a[0]), a[1], t, flags)
}

// Extended attributes

const (
	xattrNameMax = 255   // XATTR_NAME_MAX, linux/limits.h
	xattrSizeMax = 65536 // XATTR_SIZE_MAX
)

type xattr struct {
	name, value []byte // name with its NUL
	flags       uint32
}

func (w *worker) readXattrName(addr uint64) ([]byte, unix.Errno) {
	name, e := w.readString(w.small[:xattrNameMax+1], addr, unix.ERANGE)
	if e == 0 && len(name) == 1 {
		e = unix.ERANGE
	}
	return name, e
}

func (w *worker) readXattr(name, value, size, flags uint64) (x xattr, e unix.Errno) {
	x.flags = uint32(flags)
	if x.flags&^uint32(unix.XATTR_CREATE|unix.XATTR_REPLACE) != 0 {
		return x, unix.EINVAL
	}
	if x.name, e = w.readXattrName(name); e != 0 {
		return x, e
	}
	if size > xattrSizeMax {
		return x, unix.E2BIG
	}
	x.value = w.space(int(size))
	return x, w.read(x.value, value)
}

// space returns n bytes of the worker's scratch memory, valid until its next
// use.
func (w *worker) space(n int) []byte {
	if cap(w.scratch) < n {
		w.scratch = make([]byte, n)
	}
	return w.scratch[:n]
}

func setxattrOn(w *worker, o object, e unix.Errno, x xattr) answer {
	if e == 0 {
		e = w.permit(sandboxpolicy.OpXattr, o)
	}
	if e == 0 {
		e = setxattr(w.entry(o.fd), x.name, x.value, x.flags)
	}
	return failed(e)
}

func setxattrPath(w *worker, a *[6]uint64, follow bool) answer {
	x, e := w.readXattr(a[1], a[2], a[3], uint64(uint32(a[4])))
	if e != 0 {
		return failed(e)
	}
	o, e := w.resolve(unix.AT_FDCWD, a[0], 0, follow)
	return setxattrOn(w, o, e, x)
}

func sysSetxattr(w *worker, a *[6]uint64) answer  { return setxattrPath(w, a, true) }
func sysLsetxattr(w *worker, a *[6]uint64) answer { return setxattrPath(w, a, false) }

func sysFsetxattr(w *worker, a *[6]uint64) answer {
	return fsetxattrFD(w, int32(a[0]), a[1], a[2], a[3], a[4])
}

func fsetxattrFD(w *worker, fd int32, name, value, size, flags uint64) answer {
	x, e := w.readXattr(name, value, size, flags)
	if e != 0 {
		return failed(e)
	}
	o, e := w.held(fd, sandboxpolicy.OpXattr)
	switch {
	case e != 0:
	case o.dup:
		e = fsetxattr(o.fd, x.name, x.value, x.flags)
	default:
		e = setxattr(w.entry(o.fd), x.name, x.value, x.flags)
	}
	return failed(e)
}

// emptyAt says whether a …at call names its descriptor itself: AT_EMPTY_PATH
// with an empty or null path.
func (w *worker) emptyAt(path uint64, flags int) (bool, unix.Errno) {
	if flags&unix.AT_EMPTY_PATH == 0 {
		return false, 0
	}
	if path == 0 {
		return true, 0
	}
	var b [1]byte
	e := w.read(b[:], path)
	return b[0] == 0, e
}

// setxattrat(dirfd, path, at_flags, name, struct xattr_args *, size), Linux 6.13.
func sysSetxattrat(w *worker, a *[6]uint64) answer {
	flags, e := atFlags(a[2], pathFlags)
	if e != 0 {
		return failed(e)
	}
	args, e := w.readSized(a[4], a[5], 16)
	if e != 0 {
		return failed(e)
	}
	value := binary.NativeEndian.Uint64(args)
	size := uint64(binary.NativeEndian.Uint32(args[8:]))
	set := uint64(binary.NativeEndian.Uint32(args[12:]))
	self, e := w.emptyAt(a[1], flags)
	if e != 0 {
		return failed(e)
	}
	if self && int32(a[0]) != unix.AT_FDCWD {
		return fsetxattrFD(w, int32(a[0]), a[3], value, size, set)
	}
	x, e := w.readXattr(a[3], value, size, set)
	if e != 0 {
		return failed(e)
	}
	o, e := w.resolve(int32(a[0]), a[1], flags, flags&unix.AT_SYMLINK_NOFOLLOW == 0)
	return setxattrOn(w, o, e, x)
}

// readSized reads an extensible structure as copy_struct_from_user does: at
// least want bytes, and what follows them must be zero (E2BIG).
func (w *worker) readSized(addr, size uint64, want int) ([]byte, unix.Errno) {
	if size < uint64(want) {
		return nil, unix.EINVAL
	}
	if size > 4096 {
		return nil, unix.E2BIG
	}
	b := make([]byte, size)
	if e := w.read(b, addr); e != 0 {
		return nil, e
	}
	for _, x := range b[want:] {
		if x != 0 {
			return nil, unix.E2BIG
		}
	}
	return b[:want], 0
}

func removexattrPath(w *worker, dirfd int32, path, name uint64, flags int, follow bool) answer {
	n, e := w.readXattrName(name)
	if e != 0 {
		return failed(e)
	}
	o, e := w.resolve(dirfd, path, flags, follow)
	if e == 0 {
		e = w.permit(sandboxpolicy.OpXattr, o)
	}
	if e == 0 {
		e = removexattr(w.entry(o.fd), n)
	}
	return failed(e)
}

func sysRemovexattr(w *worker, a *[6]uint64) answer {
	return removexattrPath(w, unix.AT_FDCWD, a[0], a[1], 0, true)
}

func sysLremovexattr(w *worker, a *[6]uint64) answer {
	return removexattrPath(w, unix.AT_FDCWD, a[0], a[1], 0, false)
}

func sysFremovexattr(w *worker, a *[6]uint64) answer { return fremovexattrFD(w, int32(a[0]), a[1]) }

func fremovexattrFD(w *worker, fd int32, name uint64) answer {
	n, e := w.readXattrName(name)
	if e != 0 {
		return failed(e)
	}
	o, e := w.held(fd, sandboxpolicy.OpXattr)
	switch {
	case e != 0:
	case o.dup:
		e = fremovexattr(o.fd, n)
	default:
		e = removexattr(w.entry(o.fd), n)
	}
	return failed(e)
}

// removexattrat(dirfd, path, at_flags, name).
func sysRemovexattrat(w *worker, a *[6]uint64) answer {
	flags, e := atFlags(a[2], pathFlags)
	if e != 0 {
		return failed(e)
	}
	self, e := w.emptyAt(a[1], flags)
	if e != 0 {
		return failed(e)
	}
	if self && int32(a[0]) != unix.AT_FDCWD {
		return fremovexattrFD(w, int32(a[0]), a[3])
	}
	return removexattrPath(w, int32(a[0]), a[1], a[3], flags, flags&unix.AT_SYMLINK_NOFOLLOW == 0)
}

// file_setattr(dirfd, path, struct file_attr *, size, at_flags), Linux 6.17.
func sysFileSetattr(w *worker, a *[6]uint64) answer {
	const sizeVer0 = 24 // FILE_ATTR_SIZE_VER0, linux/fs.h
	flags, e := atFlags(a[4], pathFlags)
	if e != 0 {
		return failed(e)
	}
	if a[3] > 4096 {
		return failed(unix.E2BIG)
	}
	if a[3] < sizeVer0 {
		return failed(unix.EINVAL)
	}
	attr := w.space(int(a[3]))
	if e := w.read(attr, a[2]); e != 0 {
		return failed(e)
	}
	self, e := w.emptyAt(a[1], flags)
	if e != 0 {
		return failed(e)
	}
	var o object
	if self {
		o, e = w.resolveEmpty(int32(a[0]))
	} else {
		o, e = w.resolve(int32(a[0]), a[1], flags, flags&unix.AT_SYMLINK_NOFOLLOW == 0)
	}
	if e == 0 {
		e = w.permit(sandboxpolicy.OpFlags, o)
	}
	if e == 0 {
		e = fileSetattr(w.s.procFD, w.entry(o.fd), attr)
	}
	return failed(e)
}

// truncate(path, length). The limit on file sizes is the caller's, not ours.
func sysTruncate(w *worker, a *[6]uint64) answer {
	if int64(a[1]) < 0 {
		return failed(unix.EINVAL)
	}
	o, e := w.resolve(unix.AT_FDCWD, a[0], 0, true)
	if e != 0 {
		return failed(e)
	}
	var st unix.Stat_t
	if e := errnoOf(unix.Fstat(o.fd, &st)); e != 0 {
		return failed(e)
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
	case unix.S_IFDIR:
		return failed(unix.EISDIR)
	default:
		return failed(unix.EINVAL)
	}
	var limit unix.Rlimit
	if e := errnoOf(unix.Prlimit(w.tid, unix.RLIMIT_FSIZE, nil, &limit)); e != 0 {
		return failed(unix.EPERM)
	}
	process := w.process()
	if e := w.permit(sandboxpolicy.OpTruncate, o); e != 0 {
		return failed(e)
	}
	if int64(a[1]) > st.Size && a[1] > limit.Cur {
		unix.Tgkill(process, w.tid, unix.SIGXFSZ)
		return failed(unix.EFBIG)
	}
	return failed(truncate(w.entry(o.fd), a[1]))
}

// fileIoctl reports whether an ioctl changes what a file is, by a descriptor of
// any mode, and how many bytes it reads at its argument.
func fileIoctl(request uint32) (size int, known bool) {
	switch request {
	case unix.FS_IOC_SETFLAGS, // _IOW of a long, but the kernel reads an int (fs/file_attr.c)
		0x40046602, // FS_IOC32_SETFLAGS
		0x40087602, // FS_IOC_SETVERSION
		0x40047602, // FS_IOC32_SETVERSION
		0x40086604, // EXT4_IOC_SETVERSION_OLD
		0x40046604, // EXT4_IOC32_SETVERSION_OLD
		0x40047211: // FAT_IOCTL_SET_ATTRIBUTES
		return 4, true
	case 0x401c5820: // FS_IOC_FSSETXATTR
		return 28, true
	}
	return 0, false
}

func sysIoctl(w *worker, a *[6]uint64) answer {
	if uint32(a[1]) == unix.TIOCSPGRP {
		return w.setForeground()
	}
	size, known := fileIoctl(uint32(a[1]))
	if !known {
		// Encryption policies and verity have arguments with pointers in them.
		return w.unknown()
	}
	o, e := w.held(int32(a[0]), sandboxpolicy.OpFlags)
	if e != 0 {
		return failed(e)
	}
	var st unix.Stat_t
	if e := errnoOf(unix.Fstat(o.fd, &st)); e != 0 {
		return failed(e)
	}
	if k := st.Mode & unix.S_IFMT; k != unix.S_IFREG && k != unix.S_IFDIR {
		// To a device the number may mean something else.
		return failed(unix.ENOTTY)
	}
	arg := w.small[:size]
	if e := w.read(arg, a[2]); e != 0 {
		return failed(e)
	}
	if !w.valid() {
		return failed(unix.ESRCH)
	}
	if !o.dup {
		fd, err := unix.Open(cString(w.entry(o.fd)), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err != nil {
			return failed(errnoOf(err))
		}
		o.fd = w.keep(fd)
	}
	return failed(ioctl(o.fd, uint64(uint32(a[1])), arg))
}

// errnoOf returns the errno of an error of package unix.
func errnoOf(err error) unix.Errno {
	if err == nil {
		return 0
	}
	if e, ok := err.(unix.Errno); ok {
		return e
	}
	return unix.EPERM
}
