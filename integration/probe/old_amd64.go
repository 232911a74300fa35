package main

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Calls that newer architectures left out. The filter must know them where
// they are.

func rawChmod(p string, mode uint32) syscall.Errno {
	_, _, e := unix.Syscall(unix.SYS_CHMOD, cstr(p), uintptr(mode), 0)
	return e
}

func rawChown(p string, gid int) syscall.Errno {
	_, _, e := unix.Syscall(unix.SYS_CHOWN, cstr(p), ^uintptr(0), uintptr(gid))
	return e
}

func rawLchown(p string, gid int) syscall.Errno {
	_, _, e := unix.Syscall(unix.SYS_LCHOWN, cstr(p), ^uintptr(0), uintptr(gid))
	return e
}

func rawUtimes(p string, tv []unix.Timeval) syscall.Errno {
	_, _, e := unix.Syscall(unix.SYS_UTIMES, cstr(p), uintptr(unsafe.Pointer(&tv[0])), 0)
	return e
}

func rawUtime(p string) syscall.Errno {
	times := [2]int64{1000000000, 1000000000}
	_, _, e := unix.Syscall(unix.SYS_UTIME, cstr(p), uintptr(unsafe.Pointer(&times[0])), 0)
	return e
}

func init() {
	register("futimesat", func(a []string) (string, error) {
		tv := []unix.Timeval{{Sec: 1000000000}, {Sec: 1000000000}}
		_, _, e := unix.Syscall(unix.SYS_FUTIMESAT, atFdcwd, cstr(a[0]), uintptr(unsafe.Pointer(&tv[0])))
		return "", errno(e)
	})
	register("futimesat-null", func(a []string) (detail string, err error) { // futimes(3): a descriptor and no path
		err = with(a[0], unix.O_RDONLY, func(fd int) error {
			tv := []unix.Timeval{{Sec: 1000000000}, {Sec: 1000000000}}
			_, _, e := unix.Syscall(unix.SYS_FUTIMESAT, uintptr(fd), 0, uintptr(unsafe.Pointer(&tv[0])))
			return errno(e)
		})
		return "", err
	})
	register("creat", func(a []string) (string, error) {
		fd, _, e := unix.Syscall(unix.SYS_CREAT, cstr(a[0]), 0o644, 0)
		if e == 0 {
			unix.Close(int(fd))
		}
		return "", errno(e)
	})
}
