package seccomp

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// setModeFilter is seccomp(SECCOMP_SET_MODE_FILTER, flags, prog); with a nil
// prog, its address is 0. Raw: nothing of the scheduler may come between, and
// the call doesn't block.
func setModeFilter(flags uintptr, prog []Insn) (int, unix.Errno) {
	var at unsafe.Pointer
	if prog != nil {
		fprog := unix.SockFprog{
			Len:    uint16(len(prog)), // 1..4096: Install checks
			Filter: (*unix.SockFilter)(unsafe.Pointer(unsafe.SliceData(prog))),
		}
		at = unsafe.Pointer(&fprog)
	}
	r, _, e := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(at))
	runtime.KeepAlive(prog)
	return int(r), e
}

// actionAvailable is seccomp(SECCOMP_GET_ACTION_AVAIL): 0 if filters may return
// action.
func actionAvailable(action uint32) unix.Errno {
	_, _, e := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_ACTION_AVAIL, 0, uintptr(unsafe.Pointer(&action)))
	return e
}

// Both are read by the kernel as the same bytes.
var _ [unsafe.Sizeof(unix.SockFilter{}) - unsafe.Sizeof(Insn{})]byte
var _ [unsafe.Sizeof(Insn{}) - unsafe.Sizeof(unix.SockFilter{})]byte
