package spawn

import (
	"encoding/binary"
	"errors"
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Monitor leads the session of a command that has a terminal. The command
// itself leads a process group of that session: a session leader's own group
// is orphaned, and the kernel ignores Ctrl-Z there (setpgid(2), "orphaned
// process group").
type Monitor struct {
	// Pid is the monitor's, Command the command's process id.
	Pid, Command int

	pidfd    int
	reports  *os.File // records of the command's states
	reportFD int
	control  *os.File // closed to let the monitor end
	stack    *Stack
	cmdStack *Stack
	args     *monitorArgs
}

// State is a change of the command: its wait status.
type State = unix.WaitStatus

type record struct {
	pid    int32
	status uint32
	stage  uint32
	errno  uint32
}

const recordBytes = 16

type monitorArgs struct {
	command  *plan
	cmdStack uintptr
	terminal int
	parent   int
	keep     plan // places reports and control at 0 and 1 and closes the rest
	name     [16]byte
	rec      record
}

// StartMonitor starts c under a monitor whose controlling terminal is
// terminal, on the calling thread (see Start). It returns when the command has
// executed, or an *Error.
func (c *Command) StartMonitor(terminal int) (*Monitor, error) {
	c.Setsid, c.Setpgid, c.Terminal = false, true, terminal
	p, err := c.plan()
	if err != nil {
		return nil, err
	}
	m := &Monitor{pidfd: -1}
	if m.stack, err = NewStack(); err != nil {
		return nil, err
	}
	if m.cmdStack, err = NewStack(); err != nil {
		_ = m.stack.Free()
		return nil, err
	}
	reportR, reportW, err := os.Pipe()
	if err != nil {
		m.free()
		return nil, &Error{StageClone, errnoOf(err)}
	}
	controlR, controlW, err := os.Pipe()
	if err != nil {
		_, _ = reportR.Close(), reportW.Close()
		m.free()
		return nil, &Error{StageClone, errnoOf(err)}
	}
	m.reports, m.control = reportR, controlW
	m.reportFD = int(reportR.Fd())
	a := &monitorArgs{command: p, cmdStack: m.cmdStack.top(), terminal: terminal, parent: unix.Getpid()}
	a.keep.files[0], a.keep.files[1], a.keep.nfiles = int(reportW.Fd()), int(controlR.Fd()), 2
	copy(a.name[:], "dshx-monitor")
	m.args = a

	var fd int32 = -1
	old := blockSignals()
	r := cloneTask(cloneVM|clonePIDFD, m.stack.top(), uintptr(unsafe.Pointer(&fd)), entryMonitor, unsafe.Pointer(a))
	setSignalMask(old)
	_, _ = reportW.Close(), controlR.Close()
	if r > ^uintptr(maxErrno) {
		_, _ = reportR.Close(), controlW.Close()
		m.free()
		return nil, &Error{StageClone, syscall.Errno(-r)}
	}
	m.Pid, m.pidfd = int(r), int(fd)
	rec, err := m.read()
	runtime.KeepAlive(c)
	if err != nil || rec.errno != 0 {
		m.Close()
		if err != nil {
			return nil, &Error{StageSession, syscall.EIO}
		}
		return nil, &Error{Stage(rec.stage), syscall.Errno(rec.errno)}
	}
	m.Command = int(rec.pid)
	return m, nil
}

func errnoOf(err error) syscall.Errno {
	var e syscall.Errno
	if errors.As(err, &e) {
		return e
	}
	return syscall.EIO
}

func (m *Monitor) read() (record, error) {
	var b [recordBytes]byte
	for n := 0; n < len(b); {
		k, err := m.reports.Read(b[n:])
		if err != nil {
			return record{}, err
		}
		n += k
	}
	u := binary.NativeEndian
	return record{int32(u.Uint32(b[0:])), u.Uint32(b[4:]), u.Uint32(b[8:]), u.Uint32(b[12:])}, nil
}

// Next waits for the command's next change: stopped, continued, or ended. It
// fails when the monitor is gone.
func (m *Monitor) Next() (State, error) {
	rec, err := m.read()
	return State(rec.status), err
}

// ReportFD can be read when Poll has something to tell.
func (m *Monitor) ReportFD() int { return m.reportFD }

// Poll is Next without waiting; some tells whether there was a change.
func (m *Monitor) Poll() (st State, some bool, err error) {
	p := []unix.PollFd{{Fd: int32(m.reportFD), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(p, 0)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n == 0 {
			return 0, false, err
		}
		st, err := m.Next()
		return st, err == nil, err
	}
}

// Close lets the monitor end, and with it the session: the kernel sends the
// foreground process group SIGHUP. Call it once the terminal's output has been
// read: what is left in it then is lost.
func (m *Monitor) Close() {
	_ = m.control.Close()
	reap(m.Pid)
	_ = m.reports.Close()
	_ = unix.Close(m.pidfd)
	m.free()
	runtime.KeepAlive(m.args)
}

func (m *Monitor) free() {
	if m.stack != nil {
		_ = m.stack.Free()
	}
	if m.cmdStack != nil {
		_ = m.cmdStack.Free()
	}
}

// monitorMain never returns.
//
//go:nosplit
//go:norace
//go:nocheckptr
func monitorMain(a *monitorArgs) {
	sys(sysPrctl, prSetPdeathsig, sigkill, 0, 0, 0, 0)
	if ppid, _ := sys(sysGetppid, 0, 0, 0, 0, 0, 0); int(ppid) != a.parent {
		exitTask(1) // it died before the signal was asked for
	}
	sys(sysPrctl, prSetName, uintptr(unsafe.Pointer(&a.name)), 0, 0, 0, 0)
	a.rec.stage = uint32(StageSession)
	reports := uintptr(a.keep.files[0])
	if _, e := sys(sysSetsid, 0, 0, 0, 0, 0, 0); e != 0 {
		a.fail(reports, e)
	}
	if _, e := sys(sysIoctl, uintptr(a.terminal), tiocsctty, 0, 0, 0, 0); e != 0 {
		a.fail(reports, e)
	}
	a.rec.stage = uint32(StageClone)
	self, _ := sys(sysGetpid, 0, 0, 0, 0, 0, 0)
	a.command.parent = int(self)
	r := cloneTask(cloneVM|cloneVFORK|sigchld, a.cmdStack, 0, entryCommand, unsafe.Pointer(a.command))
	if r > ^uintptr(maxErrno) {
		a.fail(reports, syscall.Errno(-r))
	}
	if a.command.errno != 0 {
		a.rec.stage = uint32(a.command.stage)
		a.fail(reports, a.command.errno)
	}
	a.rec.pid = int32(r)
	a.report(reports)
	if e := placeFiles(&a.keep); e != 0 {
		exitTask(1)
	}
	for {
		_, e := sys(sysWait4, r, uintptr(unsafe.Pointer(&a.rec.status)), wuntraced|wcontinued, 0, 0, 0)
		if e == syscall.EINTR {
			continue
		}
		if e != 0 {
			break
		}
		a.report(0)
		low := a.rec.status & 0x7f
		if low != 0x7f && a.rec.status != 0xffff { // ended, not stopped or continued: wait(2)
			break
		}
	}
	// The session lasts until the terminal has been read to its end.
	for {
		n, e := sys(sysRead, 1, uintptr(unsafe.Pointer(&a.keep.scratch)), 1, 0, 0, 0)
		if e != syscall.EINTR && n != 1 {
			break
		}
	}
	exitTask(0)
}

//go:nosplit
//go:norace
func (a *monitorArgs) fail(reports uintptr, e syscall.Errno) {
	a.rec.errno = uint32(e)
	a.report(reports)
	exitTask(1)
}

//go:nosplit
//go:norace
//go:nocheckptr
func (a *monitorArgs) report(fd uintptr) {
	sys(sysWrite, fd, uintptr(unsafe.Pointer(&a.rec)), recordBytes, 0, 0, 0)
}
