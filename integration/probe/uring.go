package main

import (
	"fmt"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// io_uring does its work outside of the submitting system call, where a
// seccomp filter does not see it. These attempts set a ring up and use it.

type sqe struct { // struct io_uring_sqe
	opcode, flags uint8
	ioprio        uint16
	fd            int32
	off           uint64
	addr          uint64
	len           uint32
	opFlags       uint32
	userData      uint64
	bufIndex      uint16
	personality   uint16
	fileIndex     int32
	_             [2]uint64
}

type uringParams struct { // struct io_uring_params
	sqEntries, cqEntries, flags, sqThreadCPU, sqThreadIdle, features, wqFD uint32
	_                                                                      [3]uint32
	sqOff                                                                  struct {
		head, tail, mask, entries, flags, dropped, array, _ uint32
		userAddr                                            uint64
	}
	cqOff struct {
		head, tail, mask, entries, overflow, cqes, flags, _ uint32
		userAddr                                            uint64
	}
}

const (
	opOpenat = 18
	opSocket = 45
)

// uring submits one entry and returns its result.
func uring(entry sqe) (string, error) {
	var p uringParams
	r, _, e := unix.Syscall(unix.SYS_IO_URING_SETUP, 4, uintptr(unsafe.Pointer(&p)), 0)
	if e != 0 {
		return "setup", e
	}
	fd := int(r)
	defer unix.Close(fd)
	ring := func(off int64, size uint32) ([]byte, error) {
		return unix.Mmap(fd, off, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	}
	sq, err := ring(0, p.sqOff.array+p.sqEntries*4)
	if err != nil {
		return "sq", err
	}
	cq, err := ring(0x8000000, p.cqOff.cqes+p.cqEntries*16)
	if err != nil {
		return "cq", err
	}
	entries, err := ring(0x10000000, p.sqEntries*uint32(unsafe.Sizeof(sqe{})))
	if err != nil {
		return "sqes", err
	}
	*(*sqe)(unsafe.Pointer(&entries[0])) = entry
	*(*uint32)(unsafe.Pointer(&sq[p.sqOff.array])) = 0
	atomic.AddUint32((*uint32)(unsafe.Pointer(&sq[p.sqOff.tail])), 1)
	if _, _, e := unix.Syscall6(unix.SYS_IO_URING_ENTER, uintptr(fd), 1, 1, 1, 0, 0); e != 0 { // IORING_ENTER_GETEVENTS
		return "enter", e
	}
	res := *(*int32)(unsafe.Pointer(&cq[p.cqOff.cqes+8]))
	if res < 0 {
		return "complete", syscall.Errno(-res)
	}
	return fmt.Sprint("got ", res), nil
}

func init() {
	register("uring-setup", func([]string) (string, error) {
		var p uringParams
		r, _, e := unix.Syscall(unix.SYS_IO_URING_SETUP, 4, uintptr(unsafe.Pointer(&p)), 0)
		if e == 0 {
			unix.Close(int(r))
		}
		return "", errno(e)
	})
	register("uring-create", func(a []string) (string, error) {
		return uring(sqe{opcode: opOpenat, fd: unix.AT_FDCWD, addr: uint64(cstr(a[0])), len: 0o644, opFlags: unix.O_WRONLY | unix.O_CREAT})
	})
	register("uring-socket", func(a []string) (string, error) {
		return uring(sqe{opcode: opSocket, fd: int32(family(a[0])), off: uint64(atoi(a[1]))})
	})
	register("uring-register", func([]string) (string, error) {
		_, _, e := unix.Syscall6(unix.SYS_IO_URING_REGISTER, ^uintptr(0), 0, 0, 0, 0, 0)
		return "", errno(e)
	})
}
