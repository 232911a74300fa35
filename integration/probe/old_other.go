//go:build !amd64

package main

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// Architectures without the old calls: the new ones stand in, so that a test
// need not know.

func toErrno(err error) syscall.Errno {
	if e, ok := err.(syscall.Errno); ok {
		return e
	}
	return 0
}

func rawChmod(p string, mode uint32) syscall.Errno {
	return toErrno(unix.Fchmodat(unix.AT_FDCWD, p, mode, 0))
}

func rawChown(p string, gid int) syscall.Errno {
	return toErrno(unix.Fchownat(unix.AT_FDCWD, p, -1, gid, 0))
}

func rawLchown(p string, gid int) syscall.Errno {
	return toErrno(unix.Fchownat(unix.AT_FDCWD, p, -1, gid, unix.AT_SYMLINK_NOFOLLOW))
}

func rawUtimes(p string, tv []unix.Timeval) syscall.Errno {
	return toErrno(unix.UtimesNanoAt(unix.AT_FDCWD, p, stamp, 0))
}

func rawUtime(p string) syscall.Errno { return rawUtimes(p, nil) }

func init() {
	register("futimesat", func(a []string) (string, error) { return "", rawUtimes(a[0], nil) })
	register("futimesat-null", func(a []string) (string, error) {
		return "", with(a[0], unix.O_RDONLY, futimens)
	})
	register("creat", func(a []string) (string, error) {
		return "", with(a[0], unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC, func(int) error { return nil })
	})
}
