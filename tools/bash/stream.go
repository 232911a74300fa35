package bash

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/dshx/dshx/internal/capture"
	"github.com/dshx/dshx/jobs"
	"golang.org/x/sys/unix"
)

// past is a deadline that stops a reader or a writer at once.
var past = time.Unix(1, 0)

// bufferBytes is how much is read at once: what a pipe holds.
const bufferBytes = 64 << 10

// pipe returns a pipe whose end ours can be waited for, and whose other end
// blocks, as programs expect of their standard streams.
func pipe(ourWrite bool) (ours, theirs *os.File, err error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, os.NewSyscallError("pipe2", err)
	}
	own, other := p[0], p[1]
	if ourWrite {
		own, other = other, own
	}
	if err := unix.SetNonblock(own, true); err != nil {
		_, _ = unix.Close(own), unix.Close(other)
		return nil, nil, os.NewSyscallError("fcntl", err)
	}
	return os.NewFile(uintptr(own), "|"), os.NewFile(uintptr(other), "|"), nil
}

// A source is what a command's output comes out of: a pipe, or the terminal.
type source struct {
	name string // "stdout" or "stderr"
	file *os.File
	pty  bool
	hold []byte // the beginning of a rune whose rest is still to come
}

// pump reads until the end, an error, or halt, and gives take what it read,
// which take may use until it returns.
func (s *source) pump(take func(b []byte)) {
	buf := make([]byte, bufferBytes)
	for {
		n, err := s.file.Read(buf)
		if n > 0 {
			take(buf[:n])
		}
		if err != nil {
			return // EOF, EIO of a terminal that nobody has open, the deadline
		}
	}
}

// halt has pump return.
func (s *source) halt() { _ = s.file.SetReadDeadline(past) }

// pending is how many bytes can be read at this moment.
func (s *source) pending() (n int) {
	if s.pty {
		return bufferBytes // the kernel's queue is shorter
	}
	if conn, err := s.file.SyscallConn(); err == nil {
		_ = conn.Control(func(fd uintptr) { n, _ = unix.IoctlGetInt(int(fd), unix.TIOCINQ) }) // FIONREAD
	}
	return n
}

// drain gives take at most limit bytes of what can be read without waiting;
// all of it for a limit below 0. No pump may run.
func (s *source) drain(limit int, take func(b []byte)) {
	conn, err := s.file.SyscallConn()
	if err != nil {
		return
	}
	buf := make([]byte, bufferBytes)
	for limit != 0 {
		b := buf
		if limit > 0 && limit < len(b) {
			b = b[:limit]
		}
		n := 0
		_ = conn.Control(func(fd uintptr) {
			for {
				var err error
				if n, err = unix.Read(int(fd), b); err != unix.EINTR {
					return
				}
			}
		})
		if n <= 0 {
			return
		}
		take(b[:n])
		if limit > 0 {
			limit -= n
		}
	}
}

// whole joins b to what was held back, and holds back what begins a rune at
// the end. What it returns is not empty only if there is something to pass on.
func (s *source) whole(b []byte) []byte {
	if len(s.hold) > 0 {
		b = append(s.hold, b...)
		s.hold = nil
	}
	k := capture.Incomplete(b)
	if k > 0 {
		s.hold = append([]byte(nil), b[len(b)-k:]...)
	}
	return b[:len(b)-k]
}

// An input is a command's standard input as far as it comes from here.
type input struct {
	file *os.File
	pty  bool
	open bool // more may be given after the text

	turn  chan struct{} // holds one: a write in progress
	ended bool          // nothing more can be given; under turn
	last  byte          // the last that was given; under turn
}

func newInput(file *os.File, pty, open bool) *input {
	return &input{file: file, pty: pty, open: open, turn: make(chan struct{}, 1), last: '\n'}
}

// feed gives the text that came with the call, and the end unless the input
// is to stay open. It returns at once; wait is done when all is given, or the
// input closed.
func (in *input) feed(text string, wait *sync.WaitGroup) {
	in.turn <- struct{}{} // before anybody else
	wait.Go(func() {
		defer func() { <-in.turn }()
		if text != "" {
			if _, err := in.file.WriteString(text); err != nil {
				in.ended = true // nobody reads it
			}
			in.last = text[len(text)-1]
		}
		if !in.open {
			in.end()
		}
	})
}

// end tells the command that nothing follows. The caller has the turn.
func (in *input) end() {
	if in.ended {
		return
	}
	in.ended = true
	if !in.pty {
		_ = in.file.Close()
		return
	}
	// The end-of-file character ends an input at the beginning of a line, and
	// in a line passes on what is there: termios(3), VEOF.
	const eof = "\x04\x04"
	n := 1
	if in.last != '\n' {
		n = 2
	}
	_, _ = in.file.WriteString(eof[:n])
}

// give is jobs.Producer's Input.
func (in *input) give(ctx context.Context, b []byte, eof bool) (int, error) {
	if in == nil || !in.open {
		return 0, jobs.ErrNoInput
	}
	select {
	case in.turn <- struct{}{}:
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	defer func() { <-in.turn }()
	if in.ended {
		return 0, jobs.ErrNoInput
	}
	_ = in.file.SetWriteDeadline(time.Time{})
	ran := make(chan struct{})
	stop := context.AfterFunc(ctx, func() { _ = in.file.SetWriteDeadline(past); close(ran) })
	n, err := 0, error(nil)
	if len(b) > 0 {
		n, err = in.file.Write(b)
	}
	if !stop() {
		<-ran
		_ = in.file.SetWriteDeadline(time.Time{})
	}
	if n > 0 {
		in.last = b[n-1]
	}
	switch {
	case err == nil:
	case errors.Is(err, os.ErrDeadlineExceeded):
		return n, context.Cause(ctx)
	default:
		in.ended = true
		return n, jobs.ErrNoInput // all its readers are gone
	}
	if eof {
		in.end()
	}
	return n, nil
}
