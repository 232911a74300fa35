package seccomp

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrListenerBusy is the cause when a listener was asked for and the thread
// already runs under a filter that has one (dshx inside dshx): the kernel has
// one for each chain of filters. A program built without Listener still
// installs. errors.Is(err, unix.EBUSY) holds too.
var ErrListenerBusy = errors.New("an outer supervisor holds the only seccomp listener")

// Install puts prog on the calling OS thread, and on all that it forks, for
// good: the caller has locked its goroutine to the thread and never unlocks it.
// no_new_privs must be set, or the caller be privileged.
//
// With listener it returns the notification descriptor, close-on-exec, which
// the caller owns and which must be served by another, unfiltered thread; else
// -1. waitKillable, which needs a listener, lets nothing but a fatal signal
// interrupt a call that the supervisor has received; without it, every timer
// and every preemption signal of a Go program restarts the call. It does what is
// asked or fails: Probe tells what the kernel has.
//
// Errors: ErrListenerBusy; else the errno of seccomp(2), wrapped: EACCES without
// no_new_privs, EINVAL for a flag that the kernel doesn't know (waitKillable
// before Linux 5.19) or a program that it doesn't take, ENOMEM when all filters
// of the thread together are too long.
func Install(prog []Insn, listener, waitKillable bool) (fd int, err error) {
	switch {
	case len(prog) == 0 || len(prog) > maxInsns:
		return -1, fmt.Errorf("seccomp: program of %d instructions, not 1..%d", len(prog), maxInsns)
	case waitKillable && !listener:
		return -1, errors.New("seccomp: waitKillable without listener")
	}
	var flags uintptr
	if listener {
		flags |= unix.SECCOMP_FILTER_FLAG_NEW_LISTENER
	}
	if waitKillable {
		flags |= unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
	}
	r, e := setModeFilter(flags, prog)
	switch {
	case e == unix.EBUSY && listener:
		return -1, fmt.Errorf("%w: %w", ErrListenerBusy, os.NewSyscallError("seccomp", e))
	case e != 0:
		return -1, os.NewSyscallError("seccomp", e)
	case !listener:
		return -1, nil
	}
	return r, nil
}

// Support is what the kernel offers. A listener may still be ErrListenerBusy at
// Install: only an attempt tells.
type Support struct {
	Filter       bool // seccomp(2) with filters, Linux 3.17
	Listener     bool // user notification, Linux 5.0
	WaitKillable bool // SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, Linux 5.19
	// AddFD: a supervisor can give its callers descriptors and let the kernel
	// perform a call, and a process's filters are counted in /proc, Linux 5.9.
	AddFD  bool
	Reason string // the first that is missing and why, in one sentence; empty when all is there
}

// Filters is how many filters the calling thread is under; 0 when the kernel
// doesn't say.
func Filters() int { return max(filters(), 0) }

func filters() int {
	b, err := os.ReadFile("/proc/thread-self/status")
	if err != nil {
		return -1
	}
	_, rest, ok := strings.Cut(string(b), "\nSeccomp_filters:")
	if !ok {
		return -1
	}
	line, _, _ := strings.Cut(rest, "\n")
	n, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		return -1
	}
	return n
}

// Probe asks the kernel without changing the process: it offers a program at
// address 0, which a kernel that knows the flags refuses with EFAULT and one
// that doesn't with EINVAL, before anything else (seccomp(2), "Notes").
func Probe() Support {
	var s Support
	missing := func(what string, e unix.Errno) {
		if s.Reason == "" {
			s.Reason = fmt.Sprintf("%s: %s", what, e.Error())
		}
	}
	offer := func(flags uintptr) (bool, unix.Errno) {
		_, e := setModeFilter(flags, nil)
		return e == unix.EFAULT, e
	}
	ok, e := offer(0)
	if s.Filter = ok; !ok {
		missing("this kernel has no seccomp filters (needs Linux 3.17 with CONFIG_SECCOMP_FILTER)", e)
		return s
	}
	if ok, e = offer(unix.SECCOMP_FILTER_FLAG_NEW_LISTENER); ok {
		e = actionAvailable(unix.SECCOMP_RET_USER_NOTIF)
	}
	if s.Listener = ok && e == 0; !s.Listener {
		missing("this kernel has no seccomp user notification (needs Linux 5.0)", e)
		return s
	}
	ok, e = offer(unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV)
	// An older kernel is asked for what came with the descriptors (proc_pid_status(5)).
	s.AddFD = ok || filters() >= 0
	if s.WaitKillable = ok; !ok {
		missing("this kernel can't wait killably for a seccomp supervisor (needs Linux 5.19)", e)
	}
	return s
}
