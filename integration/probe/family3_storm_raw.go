package main

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// f3Fork is fork(2) by way of clone(2), which every architecture has; the
// flags are the first argument on all that Go supports.
//
//go:nosplit
func f3Fork() (int, unix.Errno) {
	pid, _, errno := unix.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	return int(pid), errno
}

//go:nosplit
func f3Exit() {
	for {
		_, _, _ = unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
	}
}

//go:nosplit
func f3Now() int64 {
	var ts unix.Timespec
	_, _, _ = unix.RawSyscall(unix.SYS_CLOCK_GETTIME, uintptr(unix.CLOCK_REALTIME), uintptr(unsafe.Pointer(&ts)), 0)
	return ts.Sec
}

//go:nosplit
func f3Nanosleep(d *unix.Timespec) {
	_, _, _ = unix.RawSyscall(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(d)), 0, 0)
}
