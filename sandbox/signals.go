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

// resetSignals are the signals whose dispositions a command gets back: all but
// a SIGHUP that this process was told to ignore, since nohup(1) means the
// command.
func resetSignals() uint64 {
	var a struct {
		handler  uintptr
		flags    uint64
		restorer uintptr
		mask     uint64
	}
	_, _, e := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(unix.SIGHUP), 0, uintptr(unsafe.Pointer(&a)), 8, 0, 0)
	if e == 0 && a.handler == 1 { // SIG_IGN
		return spawn.ResetAll &^ (1 << (unix.SIGHUP - 1))
	}
	return spawn.ResetAll
}
