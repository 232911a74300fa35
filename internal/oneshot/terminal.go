package oneshot

import (
	"runtime"
	"sync"
	"time"

	"github.com/dshx/dshx/internal/sigpipe"
	"github.com/dshx/dshx/sandbox"
	"golang.org/x/sys/unix"
)

func isTerminal(fd int) bool {
	_, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	return err == nil
}

// outer is the caller's terminal while the command has one of its own.
type outer struct {
	fd    int // -1: standard input is no terminal
	mu    sync.Mutex
	saved *unix.Termios // set while the terminal is raw
}

// raw passes every key through unchanged: the command's own terminal makes
// lines, echoes and signals of them.
func (o *outer) raw() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.fd < 0 || o.saved != nil {
		return
	}
	t, err := unix.IoctlGetTermios(o.fd, unix.TCGETS)
	if err != nil {
		return
	}
	saved := *t
	t.Iflag &^= unix.IGNBRK | unix.BRKINT | unix.PARMRK | unix.ISTRIP | unix.INLCR | unix.IGNCR | unix.ICRNL | unix.IXON
	t.Oflag &^= unix.OPOST
	t.Lflag &^= unix.ECHO | unix.ECHONL | unix.ICANON | unix.ISIG | unix.IEXTEN
	t.Cflag = t.Cflag&^(unix.CSIZE|unix.PARENB) | unix.CS8
	t.Cc[unix.VMIN], t.Cc[unix.VTIME] = 1, 0
	if unix.IoctlSetTermios(o.fd, unix.TCSETSW, t) == nil {
		o.saved = &saved
	}
}

// restore puts the terminal back as it was. Input that nobody has read yet is
// discarded: it may be the terminal's answer to what the command printed, and
// must not reach the caller's shell.
func (o *outer) restore() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.saved == nil {
		return
	}
	// A background process that sets its terminal is stopped by SIGTTOU
	// unless it blocks it: tcsetattr(3).
	runtime.LockOSThread()
	var block, old unix.Sigset_t
	block.Val[0] = 1 << (unix.SIGTTOU - 1)
	_ = unix.PthreadSigmask(unix.SIG_BLOCK, &block, &old)
	_ = unix.IoctlSetTermios(o.fd, unix.TCSETSF, o.saved)
	_ = unix.PthreadSigmask(unix.SIG_SETMASK, &old, nil)
	runtime.UnlockOSThread()
	o.saved = nil
}

func (o *outer) size() (rows, cols uint16) {
	for _, fd := range [...]int{o.fd, 1, 2} {
		if fd < 0 {
			continue
		}
		if ws, err := unix.IoctlGetWinsize(fd, unix.TIOCGWINSZ); err == nil && ws.Row > 0 && ws.Col > 0 {
			return ws.Row, ws.Col
		}
	}
	return 24, 80
}

// inTerminalSignals are what dshx must not die of while the caller's terminal
// is raw: all that can be caught and would end or stop it.
var inTerminalSignals = append([]unix.Signal{unix.SIGCHLD, unix.SIGALRM, unix.SIGXCPU, unix.SIGVTALRM, unix.SIGIO, unix.SIGPIPE,
	unix.SIGTTIN, unix.SIGTTOU}, passed...)

// inTerminal runs the command on a terminal of its own.
func (r *run) inTerminal() (code int, err error) {
	o := &outer{fd: -1}
	if isTerminal(0) {
		o.fd = 0
	}
	rows, cols := o.size()
	r.cmd.Terminal = &sandbox.Terminal{Rows: rows, Cols: cols}

	if err := sigpipe.Catch(inTerminalSignals...); err != nil {
		return 0, err
	}
	defer o.restore()

	t := &session{r: r, outer: o, done: make(chan struct{}), drained: make(chan struct{})}
	if r.o.JSON {
		r.streams = newCaptured(r.scope.Policy().Workspace())
	}
	if err := r.cmd.Exclusive(t.stopped); err != nil {
		return 0, err
	}
	if err := r.cmd.Start(); err != nil {
		return 0, err
	}
	r.started()
	o.raw()
	go t.signals()
	go t.input()
	go t.output()

	err = r.cmd.Wait()
	close(t.done)
	<-t.drained
	st := r.cmd.State
	if st == nil {
		return 0, err
	}
	left := r.cmd.EndLeftBehind()
	r.cmd.CloseTerminal()
	r.clean = true
	o.restore()
	r.timedOut = st.Cancelled
	r.report(st, left)
	switch {
	case r.timedOut:
		return ExitTimeout, nil
	case st.Signal != 0:
		return 128 + int(st.Signal), nil
	}
	return st.ExitCode, nil
}

// session copies between the two terminals.
type session struct {
	r       *run
	outer   *outer
	done    chan struct{} // the command has ended
	drained chan struct{} // its output has been copied
}

// protect restores the caller's terminal should its goroutine panic: only the
// panicking goroutine's own deferred calls run.
func (t *session) protect() {
	if p := recover(); p != nil {
		t.outer.restore()
		panic(p)
	}
}

func (t *session) signals() {
	defer t.protect()
	for {
		s, err := sigpipe.Next()
		if err != nil {
			return
		}
		switch s.Number {
		case unix.SIGWINCH:
			_ = t.r.cmd.Terminal.Resize(t.outer.size())
		case unix.SIGCHLD:
			t.r.cmd.Reap()
		case unix.SIGCONT:
			t.outer.raw()
			_ = t.r.cmd.Terminal.Resize(t.outer.size())
			_ = t.r.cmd.SignalGroup(unix.SIGCONT)
		case unix.SIGTTIN, unix.SIGTTOU, unix.SIGPIPE:
			// Reads and writes report it.
		default:
			_ = t.r.cmd.Signal(s.Number)
		}
	}
}

// stopped is called when the command was stopped in its terminal: dshx stops
// too, so that the caller's shell has its job.
func (t *session) stopped() {
	t.outer.restore()
	// SIGSTOP, and not SIGTSTP with its default action: the kernel ignores
	// the latter in an orphaned process group.
	_ = unix.Kill(0, unix.SIGSTOP)
	// Continued: handled by the signal loop.
}

// input copies what is typed. With a pipe as input its end becomes the
// terminal's: Ctrl-D at the beginning of a line.
func (t *session) input() {
	defer t.protect()
	master := t.r.cmd.Terminal.Master
	buf := make([]byte, 4096)
	last := byte('\n')
	for {
		n, err := unix.Read(0, buf)
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EAGAIN:
			_, _ = unix.Poll([]unix.PollFd{{Fd: 0, Events: unix.POLLIN}}, -1)
			continue
		case err == unix.EIO && t.outer.fd >= 0:
			// Read in the background while stopped or being continued.
			time.Sleep(10 * time.Millisecond)
			continue
		case err != nil || n == 0:
			eof := []byte{4}
			if last != '\n' {
				eof = []byte{4, 4}
			}
			_, _ = master.Write(eof)
			return
		}
		last = buf[n-1]
		if _, err := master.Write(buf[:n]); err != nil {
			return
		}
	}
}

// drainGrace is how long, after the command has ended, further output is
// waited for while a process that it left behind holds the terminal.
const drainGrace = 100 * time.Millisecond

// output copies what the command prints, to its last byte.
func (t *session) output() {
	defer close(t.drained)
	defer t.protect()
	fd := int(t.r.cmd.Terminal.Master.Fd())
	buf := make([]byte, 32<<10)
	write := func(b []byte) error { return writeAll(1, b) }
	if s := t.r.streams; s != nil {
		write = func(b []byte) error { _, err := s.stdout.Write(b); return err }
	}
	for {
		wait := -1
		select {
		case <-t.done:
			wait = int(drainGrace.Milliseconds())
		default:
			wait = 50 // looks for the end now and then
		}
		p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(p, wait)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return
		case n == 0:
			select {
			case <-t.done:
				if wait == int(drainGrace.Milliseconds()) {
					return
				}
			default:
			}
			continue
		}
		k, err := unix.Read(fd, buf)
		if k > 0 {
			if write(buf[:k]) != nil {
				return
			}
			continue
		}
		if err == unix.EINTR || err == unix.EAGAIN {
			continue
		}
		// EIO: nobody has the terminal open. Before the command's end that
		// is a moment in which it closed all its streams.
		select {
		case <-t.done:
			return
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func writeAll(fd int, b []byte) error {
	for len(b) > 0 {
		n, err := unix.Write(fd, b)
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EAGAIN:
			_, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}, -1)
			continue
		case err != nil:
			return err
		}
		b = b[n:]
	}
	return nil
}
