package proctree

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Adopts reports whether this process becomes the parent of orphans: as the
// first process of a PID namespace, or as a subreaper (prctl(2)).
func Adopts() bool {
	if os.Getpid() == 1 {
		return true
	}
	var yes int32
	err := unix.Prctl(unix.PR_GET_CHILD_SUBREAPER, uintptr(unsafe.Pointer(&yes)), 0, 0, 0)
	return err == nil && yes != 0
}
