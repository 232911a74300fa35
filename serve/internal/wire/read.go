package wire

import (
	"context"
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// ErrClosed is the end of a connection whose reader has gone.
var ErrClosed = errors.New("nobody reads the results any more")

// WhileRead is a context that ends with ErrClosed when nobody can read out any
// more, which else only the next line would find out. stop ends the watching.
func WhileRead(ctx context.Context, out io.Writer) (_ context.Context, stop func()) {
	f, ok := out.(*os.File)
	if !ok {
		return ctx, func() {}
	}
	conn, err := f.SyscallConn() // f.Fd would change its mode
	if err != nil {
		return ctx, func() {}
	}
	fd := int32(-1) // which poll(2) ignores
	_ = conn.Control(func(n uintptr) { fd = int32(n) })
	r, w, err := os.Pipe()
	if err != nil {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	fds := []unix.PollFd{{Fd: fd}, {Fd: int32(r.Fd()), Events: unix.POLLIN}}
	go func() {
		defer close(ended)
		for {
			_, err := unix.Poll(fds, -1)
			switch {
			case err == unix.EINTR:
				continue
			case err == nil && fds[1].Revents == 0 && fds[0].Revents&(unix.POLLERR|unix.POLLHUP) != 0:
				cancel(ErrClosed)
			}
			return
		}
	}()
	return ctx, func() {
		_ = w.Close()
		<-ended
		_ = r.Close()
		cancel(nil)
	}
}
