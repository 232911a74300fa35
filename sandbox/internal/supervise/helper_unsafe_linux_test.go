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
