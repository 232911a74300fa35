package spawn

import (
	"syscall"
	"unsafe"
)

// cloneTask is clone(2) with a stack that ends at sp; the new task runs the
// entry with arg and never returns. ptid receives a pidfd with CLONE_PIDFD.
// r is the new pid in the parent, or a negated errno.
//
//go:noescape
func cloneTask(flags, sp, ptid, entry uintptr, arg unsafe.Pointer) (r uintptr)

// clone3Task is clone3(2) with a cloneArgs; else as cloneTask.
//
//go:noescape
func clone3Task(args, size, secret0, secret1, entry uintptr, arg unsafe.Pointer) (r uintptr)

// cloneArgs is struct clone_args in its first version: clone3(2), Linux 5.3.
type cloneArgs struct {
	flags, pidfd, childTid, parentTid, exitSignal, stack, stackSize, tls uint64
}

// The code of the functions that new tasks run.
var (
	entryCommand = codeOf(commandMain)
	entryGuard   = codeOf(guardMain)
	entryMonitor = codeOf(monitorMain)
)

// codeOf returns where the code of a top-level function begins: a func value
// points to a closure whose first word that is.
func codeOf[T any](f func(*T)) uintptr {
	return **(**uintptr)(unsafe.Pointer(&f))
}

const (
	cloneVM    = 0x100
	cloneVFORK = 0x4000
	clonePIDFD = 0x1000 // Linux 5.2

	// cloneClearSighand gives the child default dispositions for all that the
	// parent handles, in the one call: Linux 5.5, clone3 alone.
	cloneClearSighand = 0x100000000
)

// maxErrno is the highest value that a system call returns negated.
const maxErrno = 4095

// sys makes a system call without telling the Go scheduler: the only kind
// allowed in a task that has no goroutine.
//
//go:nosplit
//go:norace
func sys(nr, a, b, c, d, e, f uintptr) (uintptr, syscall.Errno) {
	r, _, errno := syscall.RawSyscall6(nr, a, b, c, d, e, f)
	return r, errno
}

// blockSignals blocks every signal on this thread and returns the mask that
// was there. A new task inherits the block, so that no handler of the Go
// runtime can run in it, on memory that it shares.
//
//go:nosplit
//go:norace
func blockSignals() (old uint64) {
	all := ^uint64(0)
	sys(sysRtSigprocmask, sigSetmask, uintptr(unsafe.Pointer(&all)), uintptr(unsafe.Pointer(&old)), 8, 0, 0)
	return old
}

//go:nosplit
//go:norace
func setSignalMask(mask uint64) {
	sys(sysRtSigprocmask, sigSetmask, uintptr(unsafe.Pointer(&mask)), 0, 8, 0, 0)
}

//go:nosplit
//go:norace
func exitTask(code uintptr) {
	for {
		sys(sysExitGroup, code, 0, 0, 0, 0, 0)
	}
}
