package spawn

import (
	"runtime"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Guard is a task that outlives its process: when the thread that made it
// ends, for whatever reason, it ends every process of the domain.
type Guard struct {
	// Pid is the guard's process id; PidFD refers to it.
	Pid, PidFD int
	stack      *Stack
	args       *guardArgs
}

type guardArgs struct {
	parent int
	// scoped: kill(-1) from here reaches exactly the domain's processes,
	// since Landlock scopes signals (ABI 6). Else they are found by cookie.
	scoped       bool
	cookie, mask uint64
	name         [16]byte
	ready        uint32 // futex word: 1 once the guard hears of the thread's end
	terminal     Terminal
	scratch      entries
}

// Terminal is the caller's terminal while it is raw. The guard puts it back if
// this process dies meanwhile.
type Terminal struct {
	// Raw is 1 while Saved is to be restored; set it last, clear it first.
	Raw   uint32
	Saved unix.Termios
	// Hidden is 1 while the cursor is hidden.
	Hidden uint32

	fd int
}

// StartGuard makes the guard of the calling thread; it is on duty once Ready
// returns. cookie and mask tell the processes to end on hosts where signals
// aren't scoped: those whose RLIMIT_RTTIME has cookie in the bits of mask.
// terminal is a descriptor of the caller's terminal that the guard keeps, or -1.
func StartGuard(scoped bool, cookie, mask uint64, terminal int) (*Guard, error) {
	stack, err := NewStack()
	if err != nil {
		return nil, err
	}
	a := &guardArgs{parent: unix.Getpid(), scoped: scoped, cookie: cookie, mask: mask}
	copy(a.name[:], "dshx-guard")
	a.terminal.fd = terminal
	var fd int32 = -1
	old := blockSignals()
	// No exit signal: the parent's waits for any child don't see the guard.
	r := cloneTask(cloneVM|clonePIDFD, stack.top(), uintptr(unsafe.Pointer(&fd)), entryGuard, unsafe.Pointer(a))
	setSignalMask(old)
	if r > ^uintptr(maxErrno) {
		_ = stack.Free()
		return nil, &Error{StageClone, syscall.Errno(-r)}
	}
	return &Guard{Pid: int(r), PidFD: int(fd), stack: stack, args: a}, nil
}

// Ready waits until the guard is on duty: a thread that ended before would
// never be noticed.
func (g *Guard) Ready() {
	for atomic.LoadUint32(&g.args.ready) == 0 {
		_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&g.args.ready)), futexWait, 0, 0, 0, 0)
	}
}

// Terminal is the state of the terminal that the guard keeps.
func (g *Guard) Terminal() *Terminal { return &g.args.terminal }

const (
	futexWait = 0 // not FUTEX_PRIVATE: the guard is another process on the same memory
	futexWake = 1
)

// Stop ends the guard without its doing anything, and waits for its end.
func (g *Guard) Stop() error {
	err := g.Kill()
	g.Wait()
	return err
}

// Kill ends the guard without its doing anything.
func (g *Guard) Kill() error {
	err := unix.PidfdSendSignal(g.PidFD, unix.SIGKILL, nil, 0)
	if err == unix.ENOSYS || err == unix.EPERM {
		err = unix.Kill(g.Pid, unix.SIGKILL)
	}
	return err
}

// Wait waits until the guard has ended and frees what it used.
func (g *Guard) Wait() {
	reap(g.Pid)
	_ = unix.Close(g.PidFD)
	_ = g.stack.Free()
	runtime.KeepAlive(g.args)
}

// guardMain never returns. It keeps no descriptor open: a pipe of the caller
// must not stay open on the guard's account.
//
//go:nosplit
//go:norace
//go:nocheckptr
func guardMain(a *guardArgs) {
	// Who kills this process with its whole group (timeout -s KILL, a shell)
	// must not hit the guard.
	sys(sysSetsid, 0, 0, 0, 0, 0, 0)
	sys(sysPrctl, prSetPdeathsig, sigusr1, 0, 0, 0, 0)
	sys(sysPrctl, prSetName, uintptr(unsafe.Pointer(&a.name)), 0, 0, 0, 0)
	a.ready = 1
	sys(sysFutex, uintptr(unsafe.Pointer(&a.ready)), futexWake, 1, 0, 0, 0)
	if fd := a.terminal.fd; fd > 0 {
		sys(sysDup3, uintptr(fd), 0, oCloexec, 0, 0, 0)
		a.terminal.fd = 0
	}
	first := uintptr(a.terminal.fd + 1)
	if _, e := sys(sysCloseRange, first, ^uintptr(0)&0xffffffff, 0, 0, 0, 0); e != 0 {
		closeFrom(int(first), &a.scratch)
	}
	set := uint64(1) << (sigusr1 - 1)
	for {
		// The parent may have died before PDEATHSIG was set.
		if ppid, _ := sys(sysGetppid, 0, 0, 0, 0, 0, 0); int(ppid) != a.parent {
			break
		}
		sig, e := sys(sysRtSigtimedwait, uintptr(unsafe.Pointer(&set)), 0, 0, 8, 0, 0)
		if e == 0 && sig == sigusr1 {
			break
		}
	}
	if t := &a.terminal; t.fd == 0 {
		// Another session's process may set a terminal: tcsetattr(3) stops
		// those in the background of the terminal's own session alone.
		if t.Raw != 0 {
			sys(sysIoctl, 0, tcsets, uintptr(unsafe.Pointer(&t.Saved)), 0, 0, 0)
			sys(sysIoctl, 0, tcflsh, 0, 0, 0, 0) // TCIFLUSH: answers of the terminal
		}
		if t.Hidden != 0 {
			sys(sysWrite, 0, uintptr(unsafe.Pointer(&showCursor)), uintptr(len(showCursor)), 0, 0, 0)
		}
	}
	// Without the scope the call would reach every process of the machine: the
	// parent, whoever it is by now, is outside of the domain for certain. But
	// where the thread is its process's first, that is still the parent, and in
	// the domain, until the last of its threads has ended.
	pause := [2]int64{0, 1e5}
	parent, _ := sys(sysGetppid, 0, 0, 0, 0, 0, 0)
	_, e := sys(sysKill, parent, 0, 0, 0, 0, 0)
	for round := 0; a.scoped && int(parent) == a.parent && e != syscall.EPERM && round < 100000; round++ {
		sys(sysNanosleep, uintptr(unsafe.Pointer(&pause)), 0, 0, 0, 0, 0)
		parent, _ = sys(sysGetppid, 0, 0, 0, 0, 0, 0)
		_, e = sys(sysKill, parent, 0, 0, 0, 0, 0)
	}
	if a.scoped && parent > 0 && e == syscall.EPERM {
		sys(sysKill, ^uintptr(0), sigkill, 0, 0, 0, 0)
	} else if a.cookie != 0 {
		killMarked(a)
	}
	exitTask(0)
}

var showCursor = [...]byte{0x1b, '[', '?', '2', '5', 'h'}

// killMarked kills every process that carries the cookie until several whole
// passes find none: a task that was cloned just before may not have it yet.
//
//go:nosplit
//go:norace
//go:nocheckptr
func killMarked(a *guardArgs) {
	self, _ := sys(sysGetpid, 0, 0, 0, 0, 0, 0)
	dir, e := sys(sysOpenat, atFdcwdArg, uintptr(unsafe.Pointer(&procDir[0])), oCloexec|oDirectory, 0, 0, 0)
	if e != 0 {
		return
	}
	pause := [2]int64{0, 1e6}
	for round, without := 0, 0; round < 2000 && without < 30; round++ {
		without++
		sys(sysLseek, dir, 0, 0, 0, 0, 0)
		for {
			got := a.scratch.fill(dir)
			if got == 0 {
				break
			}
			for off := uintptr(0); off < got; {
				pid, next := a.scratch.next(off, got)
				off = next
				if pid <= 1 || pid == int(self) || pid == a.parent {
					continue
				}
				var lim [2]uint64
				if _, e := sys(sysPrlimit, uintptr(pid), rlimitRTTime, 0, uintptr(unsafe.Pointer(&lim)), 0, 0); e != 0 || lim[1]&a.mask != a.cookie {
					continue
				}
				if _, e := sys(sysKill, uintptr(pid), sigkill, 0, 0, 0, 0); e == 0 {
					without = 0
				}
			}
		}
		sys(sysNanosleep, uintptr(unsafe.Pointer(&pause)), 0, 0, 0, 0, 0)
	}
}
