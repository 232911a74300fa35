package oneshot

import (
	"bytes"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dshx/dshx/internal/sigpipe"
	"github.com/dshx/dshx/sandbox"
	"golang.org/x/sys/unix"
)

// IsTerminal reports whether a descriptor is a terminal.
func IsTerminal(fd int) bool { return isTerminal(fd) }

func isTerminal(fd int) bool {
	_, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	return err == nil
}

// outer is the caller's terminal while the command has one of its own.
type outer struct {
	fd    int // -1: standard input is no terminal
	guard *sandbox.RawTerminal

	mu       sync.Mutex
	saved    *unix.Termios // set while the terminal is raw
	stopping bool          // the job is about to stop, or to end
}

// foreground reports whether the terminal is this process group's to use.
func (o *outer) foreground() bool {
	pgrp, err := unix.IoctlGetInt(o.fd, unix.TIOCGPGRP)
	return err == nil && pgrp == unix.Getpgrp()
}

// raw passes every key through unchanged: the command's own terminal makes
// lines, echoes and signals of them. In the background the terminal is
// somebody else's.
func (o *outer) raw() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.fd < 0 || o.saved != nil || o.stopping || !o.foreground() {
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
	if o.guard != nil {
		o.guard.Saved = saved
		atomic.StoreUint32(&o.guard.Raw, 1)
	}
	if setTermios(o.fd, unix.TCSETS, t) == nil {
		o.saved = &saved
	}
}

// becomeRaw makes the terminal raw as soon as it is this process group's. A
// shell that continues a job may hand it the terminal after the signal, or
// without one.
func (o *outer) becomeRaw(done <-chan struct{}) {
	for o.fd >= 0 {
		o.mu.Lock()
		leave := o.saved != nil || o.stopping
		o.mu.Unlock()
		if leave {
			return
		}
		if o.raw(); o.foreground() {
			return
		}
		select {
		case <-done:
			return
		case <-time.After(30 * time.Millisecond):
		}
	}
}

// close puts the terminal back for good.
func (o *outer) close() {
	o.mu.Lock()
	o.stopping = true // becomeRaw may still be on its way
	o.mu.Unlock()
	o.restore()
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
	if o.foreground() {
		// At once, and not when the output has been written: that may be never.
		_ = setTermios(o.fd, unix.TCSETS, o.saved)
		_ = unix.IoctlSetInt(o.fd, unix.TCFLSH, unix.TCIFLUSH)
	}
	o.saved = nil
	if o.guard != nil {
		atomic.StoreUint32(&o.guard.Raw, 0)
	}
}

// setTermios blocks SIGTTOU, which would stop a process that has just been
// moved to the background: tcsetattr(3).
func setTermios(fd int, req uint, t *unix.Termios) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var block, old unix.Sigset_t
	block.Val[0] = 1 << (unix.SIGTTOU - 1)
	_ = unix.PthreadSigmask(unix.SIG_BLOCK, &block, &old)
	err := unix.IoctlSetTermios(fd, req, t)
	_ = unix.PthreadSigmask(unix.SIG_SETMASK, &old, nil)
	return err
}

// The sequences that hide and show the cursor (DECTCEM).
var hideCursor, showCursor = []byte("\x1b[?25l"), []byte("\x1b[?25h")

// printed notes whether the command's output leaves the cursor hidden.
func (o *outer) printed(b []byte) {
	if o.guard == nil {
		return
	}
	h, s := bytes.LastIndex(b, hideCursor), bytes.LastIndex(b, showCursor)
	switch {
	case h > s:
		atomic.StoreUint32(&o.guard.Hidden, 1)
	case s > h:
		atomic.StoreUint32(&o.guard.Hidden, 0)
	}
}

// showCursor undoes what a command that was killed could not.
func (o *outer) showCursor() {
	if o.guard != nil && atomic.SwapUint32(&o.guard.Hidden, 0) != 0 {
		_ = writeAll(o.fd, showCursor)
	}
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
// is raw: what can be caught and would end it. SIGTTIN and SIGTTOU keep their
// meaning.
var inTerminalSignals = append([]unix.Signal{unix.SIGCHLD, unix.SIGALRM, unix.SIGXCPU, unix.SIGVTALRM, unix.SIGIO, unix.SIGPIPE}, passed...)

// inTerminal runs the command on a terminal of its own.
func (r *run) inTerminal() (code int, err error) {
	o := &outer{fd: -1, guard: r.scope.RawTerminal()}
	if isTerminal(0) {
		o.fd = 0
	}
	rows, cols := o.size()
	r.cmd.Terminal = &sandbox.Terminal{Rows: rows, Cols: cols}

	if err := sigpipe.Catch(inTerminalSignals...); err != nil {
		return 0, err
	}
	defer o.close()

	t := &session{r: r, outer: o, done: make(chan struct{}), drained: make(chan struct{})}
	if r.o.JSON {
		r.streams = newCaptured(r.scope.Policy().Workspace())
	}
	if err := r.cmd.Exclusive(waiting(t.signal, t.stopped)); err != nil {
		return 0, err
	}
	if err := r.cmd.Start(); err != nil {
		return 0, err
	}
	r.started()
	o.raw()
	go o.becomeRaw(t.done)
	go t.input()
	go t.output()

	err = r.cmd.Wait()
	close(t.done)
	st := r.cmd.State
	if st == nil {
		return 0, err
	}
	// What goes on printing ends with the rest that is left behind, and its
	// output with it.
	select {
	case <-t.drained:
	case <-time.After(2 * drainGrace):
	}
	left := r.cmd.EndLeftBehind()
	drained := t.drain(st.Cancelled)
	r.cmd.CloseTerminal()
	r.clean = true
	o.close()
	if drained {
		o.showCursor()
	}
	return r.result(st, left), nil
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
		t.outer.close()
		panic(p)
	}
}

func (t *session) signal(s sigpipe.Signal) {
	switch s.Number {
	case unix.SIGWINCH:
		_ = t.r.cmd.Terminal.Resize(t.outer.size())
	case unix.SIGCONT:
		t.outer.mu.Lock()
		t.outer.stopping = false
		t.outer.mu.Unlock()
		t.outer.raw()
		go t.outer.becomeRaw(t.done)
		_ = t.r.cmd.Terminal.Resize(t.outer.size())
		_ = t.r.cmd.SignalGroup(unix.SIGCONT)
	case unix.SIGPIPE:
		// Writes report it.
	default:
		t.r.send(s.Number)
	}
}

// stopped is called when the command was stopped in its terminal: dshx stops
// too, so that the caller's shell has its job.
func (t *session) stopped() {
	if t.outer.fd < 0 {
		return // nobody would continue it, and a deadline would pass unseen
	}
	t.outer.mu.Lock()
	t.outer.stopping = true
	t.outer.mu.Unlock()
	t.outer.restore()
	// SIGSTOP, and not SIGTSTP with its default action: the kernel ignores
	// the latter in an orphaned process group. The whole job stops.
	t.r.cmd.Pause(func() { _ = unix.Kill(0, unix.SIGSTOP) })
	// Continued: handled by the signal loop.
}

// drain waits until the output has been copied. A reader that doesn't read may
// hold it for ever: then a signal that would have ended the command ends the
// waiting, and once the deadline is over, the time that the command itself had
// left then.
func (t *session) drain(late bool) bool {
	select {
	case <-t.drained:
		return true
	default:
	}
	var over <-chan time.Time
	if late {
		grace := t.r.o.KillAfter
		if grace <= 0 {
			grace = sandbox.DefaultKillAfter
		}
		over = time.After(grace)
	}
	enough := make(chan struct{})
	go func() {
		for {
			s, err := sigpipe.Next()
			if err != nil || s.Number == unix.SIGTERM || s.Number == unix.SIGINT || s.Number == unix.SIGHUP || s.Number == unix.SIGQUIT {
				close(enough)
				return
			}
		}
	}()
	select {
	case <-t.drained:
		return true
	case <-enough:
		return false
	case <-over:
		return false
	}
}

// input copies what is typed. With a pipe as input its end becomes the
// terminal's: Ctrl-D at the beginning of a line.
func (t *session) input() {
	defer t.protect()
	master := t.r.cmd.Terminal.Master
	buf := make([]byte, 4096)
	last := byte('\n')
	for {
		// Looked at before it is read: a read in the background would stop the
		// job, again after each time that it's continued there.
		if _, err := unix.Poll([]unix.PollFd{{Fd: 0, Events: unix.POLLIN}}, -1); err == unix.EINTR {
			continue
		}
		if t.outer.fd >= 0 && !t.outer.foreground() {
			time.Sleep(50 * time.Millisecond)
			continue
		}
		n, err := unix.Read(0, buf)
		switch {
		case err == unix.EINTR || err == unix.EAGAIN:
			continue
		case err == unix.EIO && t.outer.fd >= 0 && isTerminal(0):
			time.Sleep(50 * time.Millisecond) // moved to the background in between
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
		write = func(b []byte) error { _, err := s.Stdout.Write(b); return err }
	}
	for {
		ended := false
		wait := 50 // looks for the end now and then
		select {
		case <-t.done:
			ended, wait = true, int(drainGrace.Milliseconds())
		default:
		}
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, wait)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return
		case n == 0:
			if ended {
				return
			}
			continue
		}
		k, err := unix.Read(fd, buf)
		switch {
		case k > 0:
			t.outer.printed(buf[:k])
			if write(buf[:k]) != nil {
				// The reader is gone, as for a program that gets SIGPIPE: the
				// terminal hangs up.
				go t.hangUp()
				return
			}
		case err == unix.EINTR || err == unix.EAGAIN:
		default:
			// EIO: nobody has the terminal open. Before the command's end that
			// is a moment in which it closed all its streams.
			select {
			case <-t.done:
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	}
}

func (t *session) hangUp() {
	defer t.protect()
	_ = t.r.cmd.SignalGroup(unix.SIGHUP)
	select {
	case <-t.done:
		return
	case <-time.After(drainGrace):
	}
	t.r.cmd.EndTree()
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
