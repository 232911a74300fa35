package supervise

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

var atFdcwd = ^uintptr(99) // AT_FDCWD, -100

func ptr[T any](p *T) uintptr { return uintptr(unsafe.Pointer(p)) }

// rawErr makes a call whose pointers are kept alive by the caller's variables;
// they escape through ptr, so they don't move.
func rawErr(nr uintptr, a ...uintptr) error {
	var x [6]uintptr
	copy(x[:], a)
	_, _, e := unix.Syscall6(nr, x[0], x[1], x[2], x[3], x[4], x[5])
	if e != 0 {
		return e
	}
	return nil
}

func rawBind(fd int, addr []byte) (int, error) {
	return 0, rawErr(unix.SYS_BIND, uintptr(fd), ptr(&addr[0]), uintptr(len(addr)))
}

func rawSendto(fd int, data, addr []byte) (int, error) {
	return 0, rawErr(unix.SYS_SENDTO, uintptr(fd), ptr(&data[0]), uintptr(len(data)), 0, ptr(&addr[0]), uintptr(len(addr)))
}

// sendmmsg sends two datagrams to a path and checks the lengths that come back.
func sendmmsg(fd int, path string) (string, error) {
	type mmsghdr struct {
		h   unix.Msghdr
		len uint32
		_   uint32
	}
	addr := append([]byte{unix.AF_UNIX, 0}, path...)
	addr = append(addr, 0)
	data := [2][]byte{[]byte("a"), []byte("bcd")}
	var iov [2]unix.Iovec
	var m [2]mmsghdr
	for i := range m {
		iov[i] = unix.Iovec{Base: &data[i][0], Len: uint64(len(data[i]))}
		m[i].h = unix.Msghdr{Name: &addr[0], Namelen: uint32(len(addr)), Iov: &iov[i], Iovlen: 1}
	}
	n, _, e := unix.Syscall6(unix.SYS_SENDMMSG, uintptr(fd), ptr(&m[0]), 2, 0, 0, 0)
	if e != 0 {
		return "", e
	}
	if n != 2 || m[0].len != 1 || m[1].len != 3 {
		return " wrong lengths", nil
	}
	return "", nil
}
