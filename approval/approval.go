// Package approval answers a pipeline's questions: may this one call have what
// it asks for? An answer holds for one call and leaves no rule behind. Where
// nobody can be asked, or nobody answers in time, the answer is no.
//
// It does not know what is granted; front doors import it, to bring questions
// to people and answers back.
package approval

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/dshx/dshx/pipeline"
)

// DefaultTimeout is how long an answer is waited for.
const DefaultTimeout = 10 * time.Minute

// Never refuses every question: for presets that don't ask.
type Never struct{}

// Approve is Rejected.
func (Never) Approve(context.Context, pipeline.Question) pipeline.Answer { return pipeline.Rejected }

// Broker brings questions to somebody elsewhere and waits for the answers. The
// zero value is not usable; see NewBroker. It may be used from any goroutine.
type Broker struct {
	ask     func(Asked)
	timeout time.Duration

	mu     sync.Mutex
	last   int
	open   map[string]chan pipeline.Answer
	closed bool
}

// Asked is a question with the id that its answer must name.
type Asked struct {
	ID string // ap-1, ap-2 …
	pipeline.Question
}

// NewBroker makes a broker whose questions go to ask, which may block until
// they are on their way. timeout 0 is DefaultTimeout.
func NewBroker(ask func(Asked), timeout time.Duration) *Broker {
	if timeout <= 0 {
		timeout = DefaultTimeout
	}
	return &Broker{ask: ask, timeout: timeout, open: map[string]chan pipeline.Answer{}}
}

// Approve asks, and waits for the answer, for ctx, or for the broker's time.
func (b *Broker) Approve(ctx context.Context, q pipeline.Question) pipeline.Answer {
	answer := make(chan pipeline.Answer, 1)
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return pipeline.Unavailable
	}
	b.last++
	id := "ap-" + strconv.Itoa(b.last)
	b.open[id] = answer
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		delete(b.open, id)
		b.mu.Unlock()
	}()
	b.ask(Asked{id, q})
	timer := time.NewTimer(b.timeout)
	defer timer.Stop()
	select {
	case a := <-answer:
		return a
	case <-ctx.Done():
		return pipeline.Dismissed
	case <-timer.C:
		return pipeline.Unavailable
	}
}

// Answer gives the answer to an open question, and reports whether there was
// one of this id. outcome is "allowed-once" or "rejected"; any other ends the
// question as unavailable.
func (b *Broker) Answer(id, outcome string) (known bool) {
	b.mu.Lock()
	answer, known := b.open[id]
	delete(b.open, id)
	b.mu.Unlock()
	if !known {
		return false
	}
	switch outcome {
	case "allowed-once":
		answer <- pipeline.AllowedOnce
	case "rejected":
		answer <- pipeline.Rejected
	default:
		answer <- pipeline.Unavailable
	}
	return true
}

// Close ends all open questions as unavailable, and those to come.
func (b *Broker) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	for id, answer := range b.open {
		answer <- pipeline.Unavailable
		delete(b.open, id)
	}
}
