package supervise

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// notification is struct seccomp_notif, include/uapi/linux/seccomp.h.
type notification struct {
	id    uint64
	pid   uint32 // the calling thread, in our PID namespace; 0 when not visible
	flags uint32
	nr    int32
	arch  uint32
	ip    uint64
	args  [6]uint64
}

// response is struct seccomp_notif_resp.
type response struct {
	id    uint64
	val   int64
	err   int32 // 0 or a negated errno
	flags uint32
}

const (
	sizeofNotification = unsafe.Sizeof(notification{})
	sizeofResponse     = unsafe.Sizeof(response{})
)

// notifSizes is struct seccomp_notif_sizes.
type notifSizes struct{ notif, resp, data uint16 }

// kernelSizes returns how large this kernel's structures are. They may grow;
// a buffer of our size would then be overrun (seccomp_unotify(2)).
func kernelSizes() (notif, resp uintptr, err error) {
	var z notifSizes
	_, _, e := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_NOTIF_SIZES, 0, uintptr(unsafe.Pointer(&z)))
	if e != 0 {
		return 0, 0, e
	}
	return max(uintptr(z.notif), sizeofNotification), max(uintptr(z.resp), sizeofResponse), nil
}

// buffers hold one worker's structures. They're made of words so that the
// structures in them are aligned.
type buffers struct {
	in, out []uint64
}

func newBuffers(notif, resp uintptr) buffers {
	return buffers{make([]uint64, (notif+7)/8), make([]uint64, (resp+7)/8)}
}

func (b buffers) notification() *notification { return (*notification)(unsafe.Pointer(&b.in[0])) }
func (b buffers) response() *response         { return (*response)(unsafe.Pointer(&b.out[0])) }

// receive blocks until a notification is there. The kernel refuses a buffer
// that isn't zero (EINVAL).
func (b buffers) receive(listener int) unix.Errno {
	clear(b.in)
	_, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(listener), unix.SECCOMP_IOCTL_NOTIF_RECV, uintptr(unsafe.Pointer(&b.in[0])))
	return e
}

func (b buffers) send(listener int) unix.Errno {
	_, _, e := unix.RawSyscall(unix.SYS_IOCTL, uintptr(listener), unix.SECCOMP_IOCTL_NOTIF_SEND, uintptr(unsafe.Pointer(&b.out[0])))
	return e
}

// syncWakeUp asks the kernel to wake caller and supervisor on the CPU that the
// other runs on.
func syncWakeUp(listener int) unix.Errno {
	_, _, e := unix.RawSyscall(unix.SYS_IOCTL, uintptr(listener), unix.SECCOMP_IOCTL_NOTIF_SET_FLAGS, unix.SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP)
	return e
}

// valid says whether the notification still stands: its caller is alive and
// waits, so its process number was not another's while we read by it.
func (b buffers) valid(listener int) bool {
	_, _, e := unix.RawSyscall(unix.SYS_IOCTL, uintptr(listener), unix.SECCOMP_IOCTL_NOTIF_ID_VALID, uintptr(unsafe.Pointer(&b.notification().id)))
	return e == 0
}

// span is a piece of the caller's memory.
type span struct{ addr, size uint64 }

// vmRead fills dst from up to four spans of thread tid, one after the other,
// and returns how many bytes came: fewer when a page is missing.
func vmRead(tid int, dst []byte, from ...span) (int, unix.Errno) {
	if len(dst) == 0 {
		return 0, 0
	}
	var remote [4]unix.RemoteIovec
	for i, f := range from {
		remote[i] = unix.RemoteIovec{Base: uintptr(f.addr), Len: int(f.size)}
	}
	local := unix.Iovec{Base: &dst[0]}
	local.SetLen(len(dst))
	n, _, e := unix.RawSyscall6(unix.SYS_PROCESS_VM_READV, uintptr(tid), uintptr(unsafe.Pointer(&local)), 1,
		uintptr(unsafe.Pointer(&remote[0])), uintptr(len(from)), 0)
	if e != 0 {
		return 0, e
	}
	return int(n), 0
}

// vmWrite writes src to the memory of thread tid.
func vmWrite(tid int, addr uint64, src []byte) (int, unix.Errno) {
	remote := unix.RemoteIovec{Base: uintptr(addr), Len: len(src)}
	local := unix.Iovec{Base: &src[0]}
	local.SetLen(len(src))
	n, _, e := unix.RawSyscall6(unix.SYS_PROCESS_VM_WRITEV, uintptr(tid), uintptr(unsafe.Pointer(&local)), 1,
		uintptr(unsafe.Pointer(&remote)), 1, 0)
	if e != 0 {
		return 0, e
	}
	return int(n), 0
}

// The calls below take a path as bytes that end in a NUL, or raw addresses,
// so that what the caller gave goes on byte for byte.

func openat2(dirfd int, path []byte, how *unix.OpenHow) (int, unix.Errno) {
	fd, _, e := unix.Syscall6(unix.SYS_OPENAT2, uintptr(dirfd), uintptr(unsafe.Pointer(&path[0])),
		uintptr(unsafe.Pointer(how)), unix.SizeofOpenHow, 0, 0)
	return int(fd), e
}

func openat(dirfd int, path []byte, flags int) (int, unix.Errno) {
	fd, _, e := unix.Syscall6(unix.SYS_OPENAT, uintptr(dirfd), uintptr(unsafe.Pointer(&path[0])), uintptr(flags), 0, 0, 0)
	return int(fd), e
}

// openatMode is openat that may make a file.
func openatMode(dirfd int, path []byte, flags int, mode uint32) (int, unix.Errno) {
	fd, _, e := unix.Syscall6(unix.SYS_OPENAT, uintptr(dirfd), uintptr(unsafe.Pointer(&path[0])), uintptr(flags), uintptr(mode), 0, 0)
	return int(fd), e
}

// addfd is struct seccomp_notif_addfd.
type addfd struct {
	id       uint64
	flags    uint32
	src      uint32
	newfd    uint32
	newFlags uint32
}

// install gives the caller a duplicate of our descriptor fd, whose number is
// the result, and with send answers the call with it in the same step
// (seccomp_unotify(2)). cloexec is O_CLOEXEC or 0.
func (b buffers) install(listener, fd int, cloexec uint32, send bool) (int, unix.Errno) {
	a := addfd{id: b.notification().id, src: uint32(fd), newFlags: cloexec}
	if send {
		a.flags = unix.SECCOMP_ADDFD_FLAG_SEND
	}
	n, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(listener), unix.SECCOMP_IOCTL_NOTIF_ADDFD, uintptr(unsafe.Pointer(&a)))
	return int(n), e
}

func readlinkat(dirfd int, path, buf []byte) (int, unix.Errno) {
	n, _, e := unix.Syscall6(unix.SYS_READLINKAT, uintptr(dirfd), uintptr(unsafe.Pointer(&path[0])),
		uintptr(unsafe.Pointer(&buf[0])), uintptr(len(buf)), 0, 0)
	return int(n), e
}

func fchmodat(dirfd int, path []byte, mode uint32) unix.Errno {
	_, _, e := unix.Syscall(unix.SYS_FCHMODAT, uintptr(dirfd), uintptr(unsafe.Pointer(&path[0])), uintptr(mode))
	return e
}

func fchownat(dirfd int, path []byte, uid, gid uint32) unix.Errno {
	_, _, e := unix.Syscall6(unix.SYS_FCHOWNAT, uintptr(dirfd), uintptr(unsafe.Pointer(&path[0])), uintptr(uid), uintptr(gid), 0, 0)
	return e
}

// utimensat with a nil path acts on dirfd itself.
func utimensat(dirfd int, path []byte, times *[2]unix.Timespec) unix.Errno {
	var p unsafe.Pointer
	if path != nil {
		p = unsafe.Pointer(&path[0])
	}
	_, _, e := unix.Syscall6(unix.SYS_UTIMENSAT, uintptr(dirfd), uintptr(p), uintptr(unsafe.Pointer(times)), 0, 0, 0)
	return e
}

func truncate(path []byte, size uint64) unix.Errno {
	_, _, e := unix.Syscall(unix.SYS_TRUNCATE, uintptr(unsafe.Pointer(&path[0])), uintptr(size), 0)
	return e
}

func setxattr(path, name, value []byte, flags uint32) unix.Errno {
	_, _, e := unix.Syscall6(unix.SYS_SETXATTR, uintptr(unsafe.Pointer(&path[0])), uintptr(unsafe.Pointer(&name[0])),
		uintptr(unsafe.Pointer(unsafe.SliceData(value))), uintptr(len(value)), uintptr(flags), 0)
	return e
}

func fsetxattr(fd int, name, value []byte, flags uint32) unix.Errno {
	_, _, e := unix.Syscall6(unix.SYS_FSETXATTR, uintptr(fd), uintptr(unsafe.Pointer(&name[0])),
		uintptr(unsafe.Pointer(unsafe.SliceData(value))), uintptr(len(value)), uintptr(flags), 0)
	return e
}

func removexattr(path, name []byte) unix.Errno {
	_, _, e := unix.Syscall(unix.SYS_REMOVEXATTR, uintptr(unsafe.Pointer(&path[0])), uintptr(unsafe.Pointer(&name[0])), 0)
	return e
}

func fremovexattr(fd int, name []byte) unix.Errno {
	_, _, e := unix.Syscall(unix.SYS_FREMOVEXATTR, uintptr(fd), uintptr(unsafe.Pointer(&name[0])), 0)
	return e
}

func fileSetattr(dirfd int, path, attr []byte) unix.Errno {
	_, _, e := unix.Syscall6(unix.SYS_FILE_SETATTR, uintptr(dirfd), uintptr(unsafe.Pointer(&path[0])),
		uintptr(unsafe.Pointer(&attr[0])), uintptr(len(attr)), 0, 0)
	return e
}

func ioctl(fd int, request uint64, arg []byte) unix.Errno {
	_, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), uintptr(request), uintptr(unsafe.Pointer(&arg[0])))
	return e
}

func pidfdGetfd(pidfd, fd int) (int, unix.Errno) {
	n, _, e := unix.RawSyscall(unix.SYS_PIDFD_GETFD, uintptr(pidfd), uintptr(fd), 0)
	return int(n), e
}

func pidfdOpen(pid, flags int) (int, unix.Errno) {
	n, _, e := unix.RawSyscall(unix.SYS_PIDFD_OPEN, uintptr(pid), uintptr(flags), 0)
	return int(n), e
}

// pidfdSendSignal with a nil info lets the kernel fill it in.
func pidfdSendSignal(pidfd int, sig uint64, info []byte, flags uint64) unix.Errno {
	_, _, e := unix.RawSyscall6(unix.SYS_PIDFD_SEND_SIGNAL, uintptr(pidfd), uintptr(sig),
		uintptr(unsafe.Pointer(unsafe.SliceData(info))), uintptr(flags), 0, 0)
	return e
}

func connect(fd int, addr []byte) unix.Errno {
	_, _, e := unix.Syscall(unix.SYS_CONNECT, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(addr))), uintptr(len(addr)))
	return e
}

func bind(fd int, addr []byte) unix.Errno {
	_, _, e := unix.Syscall(unix.SYS_BIND, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(addr))), uintptr(len(addr)))
	return e
}

// getsockname returns the address in buf, as the kernel gives it.
func getsockname(fd int, buf []byte) ([]byte, unix.Errno) {
	n := uint32(len(buf))
	_, _, e := unix.RawSyscall(unix.SYS_GETSOCKNAME, uintptr(fd), uintptr(unsafe.Pointer(&buf[0])), uintptr(unsafe.Pointer(&n)))
	if e != 0 {
		return nil, e
	}
	return buf[:min(int(n), len(buf))], 0
}

// sendmsg sends data with the address and the control data, which may be nil.
func sendmsg(fd int, name, data, control []byte, flags int) (int, unix.Errno) {
	iov := unix.Iovec{Base: unsafe.SliceData(data)}
	iov.SetLen(len(data))
	h := unix.Msghdr{Iov: &iov}
	h.SetIovlen(1)
	if len(name) > 0 {
		h.Name, h.Namelen = &name[0], uint32(len(name))
	}
	if len(control) > 0 {
		h.Control = &control[0]
		h.SetControllen(len(control))
	}
	n, _, e := unix.Syscall(unix.SYS_SENDMSG, uintptr(fd), uintptr(unsafe.Pointer(&h)), uintptr(flags))
	return int(n), e
}

// Landlock, for the one bind that must be held to one directory.

func landlockRuleset(fs uint64) (int, unix.Errno) {
	attr := unix.LandlockRulesetAttr{Handled_access_fs: fs}
	// The first field alone is ABI 1's structure; a longer one is E2BIG there.
	fd, _, e := unix.RawSyscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), 8, 0)
	return int(fd), e
}

func landlockAllow(ruleset, dir int, fs uint64) unix.Errno {
	attr := unix.LandlockPathBeneathAttr{Allowed_access: fs, Parent_fd: int32(dir)}
	_, _, e := unix.RawSyscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset), unix.LANDLOCK_RULE_PATH_BENEATH,
		uintptr(unsafe.Pointer(&attr)), 0, 0, 0)
	return e
}

func landlockRestrict(ruleset int) unix.Errno {
	_, _, e := unix.RawSyscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(ruleset), 0, 0)
	return e
}
