package spawn

import (
	"syscall"
	"unsafe"
)

// Stage names the step of a start that failed.
type Stage uint32

// The stages of a start, in their order. Everything before StageExec is
// dshx's own affair; StageExec is the command's.
const (
	StageClone Stage = iota
	StageSession
	StageLimits
	StageDirectory
	StageLandlock
	StageDescriptors
	StageExec
)

var stageNames = [...]string{"clone", "session", "limits", "working directory", "landlock_restrict_self", "descriptors", "exec"}

func (s Stage) String() string {
	if int(s) < len(stageNames) {
		return stageNames[s]
	}
	return "start"
}

// Error is a failed start: the step and the errno it ended with.
type Error struct {
	Stage Stage
	Errno syscall.Errno
}

func (e *Error) Error() string { return e.Stage.String() + ": " + e.Errno.Error() }

// Unwrap returns the errno.
func (e *Error) Unwrap() error { return e.Errno }

// Limit is one resource limit, set on the child before exec. Soft and Hard are
// in the units of setrlimit(2).
type Limit struct {
	Resource   int
	Soft, Hard uint64
}

// Command is what one start needs, ready for the child: nothing here is
// computed after the clone.
type Command struct {
	// Path is executed; Argv and Env are passed as they are.
	Path string
	Argv []string
	Env  []string
	// Dir is an open directory (O_PATH does); -1 keeps the parent's.
	Dir int
	// Files are the child's descriptors 0, 1, 2, …; -1 leaves a hole. All
	// others are closed.
	Files []int
	// Ruleset is a Landlock ruleset to restrict the child with; -1: none.
	Ruleset int
	// Limits are set in order.
	Limits []Limit
	// Cookie marks the tree: the value of RLIMIT_RTTIME, 0 for none. Secret
	// is what lets the call through the filter that refuses it to everybody
	// else (see package seccomp).
	Cookie uint64
	Secret [2]uint64
	// ResetSignals has bit n-1 set for each signal n whose disposition is
	// put back to the default.
	ResetSignals uint64
	// Ignored are the signals that this process ignores: those that exec would
	// leave as they are.
	Ignored uint64
	// Setsid makes the child the leader of a session, Setpgid of a process
	// group.
	Setsid, Setpgid bool
	// Terminal is the descriptor, among the parent's, of a terminal that
	// becomes the controlling one (with Setsid) or whose foreground process
	// group the child's becomes (with Setpgid); -1: none.
	Terminal int
	// Outlive keeps the child when the thread that started it ends.
	Outlive bool
}

// maxFiles bounds the descriptors that a child gets, so that the plan fits a
// fixed array: a task without a goroutine can't allocate.
const maxFiles = 256

type sigaction struct {
	handler  uintptr
	flags    uint64
	restorer uintptr
	mask     uint64
}

// plan is the child's list, in memory that the child shares.
type plan struct {
	path       *byte
	argv, envv **byte

	dir, ruleset, terminal int
	nfiles                 int
	files                  [maxFiles]int
	nlimits                int
	limits                 [8]Limit
	cookie                 [2]uint64 // soft, hard
	secret                 [2]uint64
	reset, ignored         uint64
	deflt                  sigaction
	setsid, setpgid        bool
	outlive                bool
	parent                 int

	scratch entries

	stage Stage
	errno syscall.Errno
}

func (c *Command) plan() (*plan, error) {
	if len(c.Files) > maxFiles {
		return nil, &Error{StageDescriptors, syscall.EMFILE}
	}
	p := &plan{
		dir: c.Dir, ruleset: c.Ruleset, terminal: c.Terminal,
		secret: c.Secret, reset: c.ResetSignals, ignored: c.Ignored,
		setsid: c.Setsid, setpgid: c.Setpgid, outlive: c.Outlive, parent: syscall.Getpid(),
	}
	p.nfiles = copy(p.files[:], c.Files)
	if len(c.Limits) > len(p.limits) {
		return nil, &Error{StageLimits, syscall.EINVAL}
	}
	p.nlimits = copy(p.limits[:], c.Limits)
	if c.Cookie != 0 {
		p.cookie = [2]uint64{c.Cookie, c.Cookie}
	}
	var err error
	if p.path, err = syscall.BytePtrFromString(c.Path); err != nil {
		return nil, &Error{StageExec, syscall.EINVAL}
	}
	argv, err := syscall.SlicePtrFromStrings(c.Argv)
	if err != nil {
		return nil, &Error{StageExec, syscall.EINVAL}
	}
	envv, err := syscall.SlicePtrFromStrings(c.Env)
	if err != nil {
		return nil, &Error{StageExec, syscall.EINVAL}
	}
	p.argv, p.envv = &argv[0], &envv[0]
	return p, nil
}

// commandMain is the child between clone and exec. It never returns.
//
//go:nosplit
//go:norace
//go:nocheckptr
func commandMain(p *plan) {
	errno := runPlan(p)
	p.errno = errno
	exitTask(127)
}

//go:nosplit
//go:norace
//go:nocheckptr
func runPlan(p *plan) syscall.Errno {
	p.stage = StageSession
	if !p.outlive {
		// The signal comes when the *thread* that made the child ends
		// (prctl(2)): the restricted thread lives as long as its domain.
		if _, e := sys(sysPrctl, prSetPdeathsig, sigkill, 0, 0, 0, 0); e != 0 {
			return e
		}
		// It may have died before.
		if ppid, _ := sys(sysGetppid, 0, 0, 0, 0, 0, 0); int(ppid) != p.parent {
			return syscall.ESRCH
		}
	}
	if p.setsid {
		if _, e := sys(sysSetsid, 0, 0, 0, 0, 0, 0); e != 0 {
			return e
		}
		if p.terminal >= 0 {
			if _, e := sys(sysIoctl, uintptr(p.terminal), tiocsctty, 0, 0, 0, 0); e != 0 {
				return e
			}
		}
	}
	if p.setpgid {
		if _, e := sys(sysSetpgid, 0, 0, 0, 0, 0, 0); e != 0 {
			return e
		}
		if p.terminal >= 0 {
			// SIGTTOU is blocked here, so a background group may do this.
			pid, _ := sys(sysGetpid, 0, 0, 0, 0, 0, 0)
			pgrp := int32(pid)
			if _, e := sys(sysIoctl, uintptr(p.terminal), tiocspgrp, uintptr(unsafe.Pointer(&pgrp)), 0, 0, 0); e != 0 {
				return e
			}
		}
	}
	// Handlers of the parent's runtime must never run here, on shared memory,
	// and what the caller ignored is not the command's business.
	for n := uintptr(1); n <= 64; n++ {
		if p.reset&(1<<(n-1)) != 0 {
			sys(sysRtSigaction, n, uintptr(unsafe.Pointer(&p.deflt)), 0, 8, 0, 0)
		}
	}

	p.stage = StageLimits
	if p.cookie[0] != 0 {
		if _, e := sys(sysPrlimit, 0, rlimitRTTime, uintptr(unsafe.Pointer(&p.cookie)), 0, uintptr(p.secret[0]), uintptr(p.secret[1])); e != 0 {
			return e
		}
	}
	for i := 0; i < p.nlimits && i < len(p.limits); i++ {
		l := &p.limits[i]
		if _, e := sys(sysPrlimit, 0, uintptr(l.Resource), uintptr(unsafe.Pointer(&l.Soft)), 0, 0, 0); e != 0 {
			return e
		}
	}

	p.stage = StageDirectory
	if p.dir >= 0 {
		if _, e := sys(sysFchdir, uintptr(p.dir), 0, 0, 0, 0, 0); e != 0 {
			return e
		}
	}

	p.stage = StageLandlock
	if p.ruleset >= 0 {
		if _, e := sys(sysLandlockSelf, uintptr(p.ruleset), 0, 0, 0, 0, 0); e != 0 {
			return e
		}
	}

	p.stage = StageDescriptors
	if e := placeFiles(p); e != 0 {
		return e
	}

	p.stage = StageExec
	setSignalMask(0)
	_, e := sys(sysExecve, uintptr(unsafe.Pointer(p.path)), uintptr(unsafe.Pointer(p.argv)), uintptr(unsafe.Pointer(p.envv)), 0, 0, 0)
	return e
}

// placeFiles puts files[i] at descriptor i and closes everything else.
//
//go:nosplit
//go:norace
//go:nocheckptr
func placeFiles(p *plan) syscall.Errno {
	n := p.nfiles
	if n > maxFiles {
		return syscall.EMFILE
	}
	// First lift what a later dup3 would overwrite out of the way.
	for i := 0; i < n && i < maxFiles; i++ {
		if p.files[i] >= 0 && p.files[i] < i {
			fd, e := sys(sysFcntl, uintptr(p.files[i]), fDupfdCloexec, uintptr(n), 0, 0, 0)
			if e != 0 {
				return e
			}
			p.files[i] = int(fd)
		}
	}
	for i := 0; i < n && i < maxFiles; i++ {
		src := p.files[i]
		switch {
		case src < 0:
			sys(sysClose, uintptr(i), 0, 0, 0, 0, 0)
		case src == i:
			if _, e := sys(sysFcntl, uintptr(i), fSetfd, 0, 0, 0, 0); e != 0 {
				return e
			}
		default:
			if _, e := sys(sysDup3, uintptr(src), uintptr(i), 0, 0, 0, 0); e != 0 {
				return e
			}
		}
	}
	_, e := sys(sysCloseRange, uintptr(n), ^uintptr(0)&0xffffffff, 0, 0, 0, 0)
	if e == syscall.ENOSYS || e == syscall.EPERM {
		// A container's own filter may refuse close_range(2) (Linux 5.9).
		return closeFrom(n, &p.scratch)
	}
	return e
}

// closeFrom closes every descriptor from n on that /proc/self/fd lists. The
// listing is read again until it holds nothing more.
//
//go:nosplit
//go:norace
//go:nocheckptr
func closeFrom(n int, buf *entries) syscall.Errno {
	dir, e := sys(sysOpenat, atFdcwdArg, uintptr(unsafe.Pointer(&procSelfFD[0])), oCloexec|oDirectory, 0, 0, 0)
	if e != 0 {
		return e
	}
	for closed := true; closed; {
		closed = false
		sys(sysLseek, dir, 0, 0, 0, 0, 0)
		for {
			got := buf.fill(dir)
			if got == 0 {
				break
			}
			for off := uintptr(0); off < got; {
				fd, next := buf.next(off, got)
				if fd >= n && fd != int(dir) {
					sys(sysClose, uintptr(fd), 0, 0, 0, 0, 0)
					closed = true
				}
				off = next
			}
		}
	}
	_, e = sys(sysClose, dir, 0, 0, 0, 0, 0)
	return e
}
