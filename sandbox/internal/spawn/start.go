package spawn

import (
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// stackBytes is what a task without a goroutine gets; the linker bounds what
// nosplit functions use to less than a kilobyte.
const stackBytes = 64 << 10

// Stack is memory for one task at a time.
type Stack struct{ mem []byte }

// NewStack maps a stack. Addresses of mmap(2) lie above the Go heap, so a
// stack check against the parent's goroutine would pass.
func NewStack() (*Stack, error) {
	mem, err := unix.Mmap(-1, 0, stackBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, &Error{StageClone, err.(syscall.Errno)}
	}
	return &Stack{mem}, nil
}

// Free unmaps the stack; no task may use it any more.
func (s *Stack) Free() error {
	mem := s.mem
	s.mem = nil
	if mem == nil {
		return nil
	}
	return unix.Munmap(mem)
}

func (s *Stack) top() uintptr {
	return (uintptr(unsafe.Pointer(&s.mem[0])) + uintptr(len(s.mem))) &^ 63
}

// ResetAll has a bit for every signal whose disposition a process can change.
const ResetAll = ^uint64(0) &^ (1<<(unix.SIGKILL-1) | 1<<(unix.SIGSTOP-1))

// Start starts c as a child of the calling thread and returns when it has
// executed: its pid and a pidfd (close-on-exec), or an *Error with the step
// that failed, in which case nothing runs and nothing is left.
//
// The caller's goroutine must be locked to its thread. stack must not be in
// use by another task.
func (c *Command) Start(stack *Stack) (pid, pidfd int, err error) {
	p, err := c.plan()
	if err != nil {
		return 0, -1, err
	}
	var fd int32 = -1
	base := uintptr(unsafe.Pointer(&stack.mem[0]))
	args := cloneArgs{
		flags: cloneVM | cloneVFORK | clonePIDFD | cloneClearSighand, pidfd: uint64(uintptr(unsafe.Pointer(&fd))),
		exitSignal: uint64(unix.SIGCHLD), stack: uint64(base), stackSize: uint64(stack.top() - base),
	}
	mask := blockSignals()
	// CLONE_VFORK: this thread sleeps until the child has executed or ended,
	// so plan and stack are the child's alone for that time.
	reset := p.reset
	p.reset &= p.ignored
	r := clone3Task(uintptr(unsafe.Pointer(&args)), unsafe.Sizeof(args), uintptr(p.secret[0]), uintptr(p.secret[1]), entryCommand, unsafe.Pointer(p))
	if e := syscall.Errno(-r); e == unix.ENOSYS || e == unix.EPERM || e == unix.EINVAL {
		// Hidden by a filter around dshx, or by its own where there is no
		// secret: then signal by signal.
		p.reset = reset
		r = cloneTask(cloneVM|cloneVFORK|clonePIDFD|uintptr(unix.SIGCHLD), stack.top(), uintptr(unsafe.Pointer(&fd)), entryCommand, unsafe.Pointer(p))
	}
	setSignalMask(mask)
	runtime.KeepAlive(c)
	if r > ^uintptr(maxErrno) {
		return 0, -1, &Error{StageClone, syscall.Errno(-r)}
	}
	pid, pidfd = int(r), int(fd)
	if p.errno != 0 {
		reap(pid)
		_ = unix.Close(pidfd)
		return 0, -1, &Error{p.stage, p.errno}
	}
	runtime.KeepAlive(p)
	return pid, pidfd, nil
}

// reap waits for a child that is known to be ending.
func reap(pid int) {
	for {
		_, err := unix.Wait4(pid, nil, unix.WALL, nil)
		if err != unix.EINTR {
			return
		}
	}
}
