package sandbox

import (
	"errors"
	"io"
	"time"

	"github.com/dshx/dshx/sandbox/internal/proctree"
	"github.com/dshx/dshx/sandbox/internal/spawn"
	"golang.org/x/sys/unix"
)

// Waiting is how the thread of a domain made by NewDomainHere waits while its
// command runs.
type Waiting struct {
	// Block returns when something may have happened: a child has changed its
	// state (SIGCHLD), Wake was called, or one of the descriptors, which may be
	// -1, can be read; readable is the first one's. It may return for no reason.
	Block func(fd, also int) (readable bool, err error)
	// Wake makes Block return, from any thread.
	Wake func()
	// Stopped, if not nil, is called when the command was stopped by a signal.
	Stopped func()
}

// Exclusive makes this process the reaper of everything that c starts: the
// processes that c leaves behind become children of this process, whose
// end Wait sees, and nothing is missed. It is for programs that start no other
// children, like dshx itself: what they take is the status of any child. A
// program that executed this one may have left it children; these are let be.
//
// c's domain must be the calling thread's own.
func (c *Cmd) Exclusive(w Waiting) error {
	d := c.domain
	if !d.here {
		return errors.New("the domain's thread is not this one")
	}
	c.waiting, c.exclusive = w, true
	d.queueMu.Lock()
	d.wake = w.Wake
	d.queueMu.Unlock()
	c.findStrangers()
	return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
}

// findStrangers notes whether this process has children before the command, or
// may get some from elsewhere: a shell that becomes this process keeps its own
// (exec > >(tee log); exec dshx …), and the first process of a PID namespace
// gets every orphan.
func (c *Cmd) findStrangers() {
	if unix.Getpid() != 1 && !c.anyLeft() {
		return
	}
	c.strangers = map[int]bool{}
	for _, pid := range proctree.Descendants(unix.Getpid()) {
		c.strangers[pid] = true
	}
}

func (c *Cmd) awaitExclusive() (unix.WaitStatus, error) {
	for {
		ws, ended, err := c.look()
		if ended || err != nil {
			return ws, err
		}
		// Most commands never ask the supervisor for anything: it starts when
		// one does.
		reports := -1
		if c.monitor != nil && !c.monitorGone {
			reports = c.monitor.ReportFD()
		}
		asked, err := c.waiting.Block(c.domain.listener, reports)
		if err != nil {
			return 0, err
		}
		if asked {
			c.domain.serve()
		}
		c.domain.runQueued()
	}
}

// look takes the statuses of all children that have changed, and returns the
// command's when it has ended.
func (c *Cmd) look() (status unix.WaitStatus, ended bool, err error) {
	if c.monitor != nil {
		c.reapOrphans()
		for {
			st, some, err := c.monitor.Poll()
			if errors.Is(err, io.EOF) {
				c.monitorGone = true
				st, ended = c.withoutMonitor()
				return st, ended, nil
			}
			if err != nil || !some {
				return 0, false, err
			}
			if st.Exited() || st.Signaled() {
				return st, true, nil
			}
			c.stopped(st)
		}
	}
	for {
		var ws unix.WaitStatus
		pid, err := unix.Wait4(-1, &ws, unix.WUNTRACED|unix.WNOHANG, nil)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return 0, false, err
		case pid == 0:
			return 0, false, nil
		case pid != c.Process.Pid: // an orphan of the command's
		case ws.Stopped():
			c.stopped(ws)
		default:
			return ws, true, nil
		}
	}
}

// reapOrphans takes the statuses of what became this process's child, and keeps
// the command's: when its monitor is killed with the rest of the tree.
func (c *Cmd) reapOrphans() {
	for {
		var ws unix.WaitStatus
		pid, err := unix.Wait4(-1, &ws, unix.WNOHANG, nil)
		switch {
		case err == unix.EINTR:
		case err != nil || pid == 0:
			return
		case pid == c.Process.Pid:
			c.orphan = &ws
		}
	}
}

// withoutMonitor is how the command ended whose monitor was killed, which ends
// the command, too.
func (c *Cmd) withoutMonitor() (status unix.WaitStatus, ended bool) {
	c.reapOrphans() // again: the monitor's end may be later than the first time
	switch {
	case c.orphan != nil:
		return *c.orphan, true
	case unix.Kill(c.Process.Pid, 0) == unix.ESRCH:
		return killed, true // the monitor took the status with it
	}
	return 0, false // SIGCHLD tells
}

func (c *Cmd) stopped(ws unix.WaitStatus) {
	if ws.Stopped() && c.waiting.Stopped != nil {
		c.waiting.Stopped()
	}
}

// anyLeft reaps what has ended and reports whether a process of the command is
// left. Every descendant has a child of this process above it, since orphans
// become its children.
func (c *Cmd) anyLeft() bool {
	for {
		pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return false // ECHILD
		case pid == 0:
			return c.strangers == nil || len(c.Tree()) > 0
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
		if c.hurry || time.Now().After(deadline) {
			c.SignalTree(unix.SIGKILL)
		}
		c.pause(wait)
	}
	return pids
}

// Pause stops what of the command runs, calls stop, which is to stop this
// process, and lets it go on. While this process is stopped it answers no call
// and keeps no deadline, and a command can bring that about by stopping itself.
func (c *Cmd) Pause(stop func()) {
	held := map[int]bool{}
	for more := true; more; { // until nothing new has been started meanwhile
		more = false
		for _, pid := range c.Tree() {
			if !held[pid] && !proctree.Stopped(pid) {
				_ = proctree.Signal(pid, c.mark, ^uint64(0), unix.SIGSTOP)
				held[pid], more = true, true
			}
		}
	}
	stop()
	for pid := range held {
		_ = proctree.Signal(pid, c.mark, ^uint64(0), unix.SIGCONT)
	}
}

// Hurry leaves the processes that EndLeftBehind is ending no further time. It
// is for Waiting.Block's thread.
func (c *Cmd) Hurry() { c.hurry = true }

// pause waits a while as for the command: what is being ended may still ask
// the supervisor, and the caller may send signals.
func (c *Cmd) pause(wait time.Duration) {
	timer := time.AfterFunc(wait, c.waiting.Wake)
	defer timer.Stop()
	asked, err := c.waiting.Block(c.domain.listener, -1)
	if err != nil {
		time.Sleep(wait)
		return
	}
	if asked {
		c.domain.serve()
	}
	c.domain.runQueued()
}

// RawTerminal is what the caller's terminal, which this process makes raw, is to
// be put back to if this process dies; nil without a guard. It is shared with
// the guard: see spawn.Terminal for the order of writes.
type RawTerminal = spawn.Terminal

// RawTerminal returns the record for the terminal that NewDomainHere was given.
func (d *Domain) RawTerminal() *RawTerminal {
	if d.guard == nil || d.terminal < 0 {
		return nil
	}
	return d.guard.Terminal()
}

// CloseTerminal ends the session of a command that had a terminal, once its
// output has been read.
func (c *Cmd) CloseTerminal() {
	if c.monitor != nil {
		c.monitor.Close()
	}
	_ = c.Terminal.Master.Close()
}

// SignalGroup sends sig to the process group that the command leads on its
// terminal.
func (c *Cmd) SignalGroup(sig unix.Signal) error {
	if c.monitor == nil {
		return c.Signal(sig)
	}
	return unix.Kill(-c.Process.Pid, sig)
}
