package sandbox

import (
	"unsafe"

	"encoding/binary"
	"github.com/dshx/dshx/sandbox/internal/proctree"
	"github.com/dshx/dshx/sandbox/internal/spawn"
	"golang.org/x/sys/unix"
)

func newSecret() [2]uint64 {
	var b [16]byte
	proctree.Random(b[:])
	return [2]uint64{binary.NativeEndian.Uint64(b[:8]), binary.NativeEndian.Uint64(b[8:])}
}

// dispositions returns the signals whose dispositions a command gets back, and
// which of all this process ignores now. A SIGHUP that it was told to ignore
// stays ignored, since nohup(1) means the command.
func dispositions() (reset, ignored uint64) {
	var a struct {
		handler  uintptr
		flags    uint64
		restorer uintptr
		mask     uint64
	}
	for n := uintptr(1); n <= 64; n++ {
		_, _, e := unix.RawSyscall6(unix.SYS_RT_SIGACTION, n, 0, uintptr(unsafe.Pointer(&a)), 8, 0, 0)
		if e == 0 && a.handler == 1 { // SIG_IGN
			ignored |= 1 << (n - 1)
		}
	}
	reset = spawn.ResetAll
	reset &^= ignored & (1 << (unix.SIGHUP - 1))
	return reset, ignored
}
