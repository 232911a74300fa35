package wire

import (
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// Output writes lines to a reader, one at a time. A goroutine of its own does
// it, since a Write can't be broken off: whoever waits for one that never
// returns can still be let go.
type Output struct {
	w     io.Writer
	lines chan line
	gone  chan struct{} // closed when nothing is written any more
	leave func()        // closes it, once

	since atomic.Pointer[time.Time] // when the reader was offered what it has not taken yet
}

// A line is what one write hands over.
type line struct {
	text string
	with func() // called before, nil for nothing
	done chan<- struct{}
}

// maxPiece is how much is written at once: what a pipe holds, so that a reader
// that takes little is told from one that takes nothing.
const maxPiece = 64 << 10

// NewOutput writes to w what Run is there for.
func NewOutput(w io.Writer) *Output {
	o := &Output{w: w, lines: make(chan line), gone: make(chan struct{})}
	o.leave = sync.OnceFunc(func() { close(o.gone) })
	return o
}

// Write returns when text is written, or nothing is any more. with is called
// in any case, in one with the writing.
func (o *Output) Write(text string, with func()) {
	done := make(chan struct{})
	select {
	case o.lines <- line{text, with, done}:
	case <-o.gone:
		if with != nil {
			with()
		}
		return
	}
	select {
	case <-done:
	case <-o.gone:
	}
}

// Leave ends the writing: who waits for it waits no longer, and nothing more is
// taken. It may be called any number of times.
func (o *Output) Leave() { o.leave() }

// Run writes until Leave is called. closed is called when the reader has gone.
func (o *Output) Run(closed func()) {
	for {
		select {
		case l := <-o.lines:
			if l.with != nil {
				l.with()
			}
			if o.put(l.text) != nil {
				closed()
			}
			close(l.done)
		case <-o.gone:
			return
		}
	}
}

func (o *Output) put(text string) error {
	for text != "" {
		now := time.Now()
		o.since.Store(&now)
		n, err := io.WriteString(o.w, text[:min(len(text), maxPiece)])
		o.since.Store(nil)
		if err != nil {
			return err
		}
		text = text[n:]
	}
	return nil
}

// Watch ends the writing when the reader takes nothing for that long.
func (o *Output) Watch(patience time.Duration) {
	from := time.Now()
	for {
		wait := patience
		if since := o.since.Load(); since != nil {
			if since.Before(from) {
				since = &from
			}
			if wait = time.Until(since.Add(patience)); wait <= 0 {
				o.leave()
				return
			}
		}
		select {
		case <-time.After(wait):
		case <-o.gone:
			return
		}
	}
}
