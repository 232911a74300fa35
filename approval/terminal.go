package approval

import (
	"context"
	"errors"
	"sync"

	"github.com/dshx/dshx/internal/ttyprompt"
	"github.com/dshx/dshx/pipeline"
	"golang.org/x/sys/unix"
)

// Terminal is the person at the terminal that controls this process, as long
// as it is in the foreground there; else there is nobody. One question is asked
// at a time. The zero value is usable.
type Terminal struct {
	once sync.Once
	turn chan struct{} // holds one while a question is asked
}

// Ask shows the question, and takes y or yes for an approval and any other line
// for a rejection. The end of the input is Dismissed.
//
// Errors: where there is no answer, why.
func (t *Terminal) Ask(ctx context.Context, q Question) (pipeline.Answer, error) {
	t.once.Do(func() { t.turn = make(chan struct{}, 1) })
	select {
	case t.turn <- struct{}{}:
		defer func() { <-t.turn }()
	case <-ctx.Done():
		return pipeline.Unavailable, context.Cause(ctx)
	}
	stop, err := stopper(ctx)
	if err != nil {
		return pipeline.Unavailable, err
	}
	defer stop.close()
	yes, err := ttyprompt.Confirm("dshx: "+Text(q.Question)+"\nAllow this once?", stop.wait)
	switch {
	case errors.Is(err, ttyprompt.ErrClosed):
		return pipeline.Dismissed, nil
	case err != nil:
		return pipeline.Unavailable, err
	case yes:
		return pipeline.AllowedOnce, nil
	}
	return pipeline.Rejected, nil
}

// Text is a question for a person: which tool, with which arguments, and what
// for. It holds what a model wrote: whoever shows it sees to it that it is text
// and no more.
func Text(q pipeline.Question) string {
	return q.Call.Name() + " " + q.Call.Args().String() + "\n" + q.DisplayReason
}

// stopped is the end of a context as something that poll(2) waits for.
type stopped struct {
	r, w  int
	undo  func() bool
	fired chan struct{}
}

func stopper(ctx context.Context) (*stopped, error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return nil, err
	}
	s := &stopped{r: p[0], w: p[1], fired: make(chan struct{})}
	s.undo = context.AfterFunc(ctx, func() {
		defer close(s.fired)
		_, _ = unix.Write(s.w, []byte{0})
	})
	return s, nil
}

func (s *stopped) close() {
	if !s.undo() {
		<-s.fired // the descriptor is still being used
	}
	_ = unix.Close(s.r)
	_ = unix.Close(s.w)
}

func (s *stopped) wait(fd int) (stop bool, err error) {
	p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}, {Fd: int32(s.r), Events: unix.POLLIN}}
	for {
		if _, err := unix.Poll(p, -1); err != unix.EINTR {
			return p[1].Revents != 0, err
		}
	}
}
