package oneshot

import (
	"os"
	"os/signal"
	"sync"
	"time"

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
	// unless it ignores it: tcsetattr(3).
	signal.Ignore(unix.SIGTTOU)
	_ = unix.IoctlSetTermios(o.fd, unix.TCSETSF, o.saved)
	signal.Reset(unix.SIGTTOU)
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

// ending signals are passed to a command that has a terminal; each would end
// dshx, and with it leave the caller's terminal raw.
var endingSignals = []os.Signal{
	unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGALRM, unix.SIGUSR1, unix.SIGUSR2,
	unix.SIGXCPU, unix.SIGVTALRM, unix.SIGPROF, unix.SIGIO, unix.SIGPIPE, unix.SIGTSTP,
}

// inTerminal runs the command on a terminal of its own.
func (r *run) inTerminal() (code int, err error) {
	o := &outer{fd: -1}
	if isTerminal(0) {
		o.fd = 0
	}
	rows, cols := o.size()
	r.cmd.Terminal = &sandbox.Terminal{Rows: rows, Cols: cols}

	sigs := make(chan os.Signal, 64)
	signal.Notify(sigs, append([]os.Signal{unix.SIGWINCH, unix.SIGCONT, unix.SIGCHLD}, endingSignals...)...)
	defer signal.Stop(sigs)
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
	go t.signals(sigs)
	go t.input()
	go t.output()
	go r.scope.Sweep()

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

func (t *session) signals(sigs <-chan os.Signal) {
	defer t.protect()
	for s := range sigs {
		switch n := s.(unix.Signal); n {
		case unix.SIGWINCH:
			_ = t.r.cmd.Terminal.Resize(t.outer.size())
		case unix.SIGCHLD:
			t.r.cmd.Reap()
		case unix.SIGCONT:
			// After a stop that was no Ctrl-Z of the command's.
			t.outer.raw()
			_ = t.r.cmd.Terminal.Resize(t.outer.size())
			_ = t.r.cmd.SignalGroup(unix.SIGCONT)
		default:
			_ = t.r.cmd.Signal(n)
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
