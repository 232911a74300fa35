package sandbox

import (
	"time"

	"golang.org/x/sys/unix"
)

// Exclusive makes this process the reaper of everything that c starts: the
// processes that c leaves behind become children of this process, whose
// end Wait sees, and nothing is missed. It is for programs that have no other
// children, like dshx itself. onStop, if not nil, is called when c has been
// stopped by a signal.
func (c *Cmd) Exclusive(onStop func()) error {
	c.onStop = onStop
	c.exclusive = true
	return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
}

func (c *Cmd) awaitExclusive() (unix.WaitStatus, error) {
	for {
		var ws unix.WaitStatus
		pid, err := unix.Wait4(-1, &ws, unix.WUNTRACED, nil)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return 0, err
		case pid != c.Process.Pid: // an orphan of the command's
		case ws.Stopped():
			if c.onStop != nil {
				c.onStop()
			}
		default:
			return ws, nil
		}
	}
}

// anyLeft reaps what has ended and reports whether a process is left. Every
// descendant has a child of this process above it, since orphans become its
// children.
func (c *Cmd) anyLeft() bool {
	for {
		pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return false // ECHILD
		case pid == 0:
			return true
		}
	}
}

// EndLeftBehind ends the processes that an exclusive command left behind when
// it ended, SIGTERM first, and returns which there were.
func (c *Cmd) EndLeftBehind() []int {
	if !c.anyLeft() {
		return nil
	}
	pids := c.Tree()
	c.SignalTree(unix.SIGTERM)
	c.SignalTree(unix.SIGCONT)
	grace := c.KillAfter
	if grace <= 0 {
		grace = DefaultKillAfter
	}
	deadline := time.Now().Add(grace)
	for wait := 200 * time.Microsecond; c.anyLeft(); wait = min(2*wait, 20*time.Millisecond) {
		if time.Now().After(deadline) {
			c.SignalTree(unix.SIGKILL)
		}
		time.Sleep(wait)
	}
	return pids
}

// CloseTerminal ends the session of a command that had a terminal, once its
// output has been read.
func (c *Cmd) CloseTerminal() {
	if c.monitor != nil {
		c.monitor.Close()
	}
	_ = c.Terminal.Master.Close()
}

// Reap takes the statuses of orphans that have ended while the command runs
// on a terminal; without one Wait does.
func (c *Cmd) Reap() {
	if c.monitor != nil {
		c.anyLeft()
	}
}

// SignalGroup sends sig to the process group that the command leads on its
// terminal.
func (c *Cmd) SignalGroup(sig unix.Signal) error {
	if c.monitor == nil {
		return c.Signal(sig)
	}
	return unix.Kill(-c.Process.Pid, sig)
}
