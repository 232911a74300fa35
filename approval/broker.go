package approval

import (
	"context"
	"sync"

	"github.com/dshx/dshx/pipeline"
)

// Broker is an answerer for a protocol in which the answer to a question comes
// in by itself, under the question's id. It may be used from any goroutine.
type Broker struct {
	send func(Question)

	mu   sync.Mutex
	open map[string]chan pipeline.Answer
}

// NewBroker makes a broker whose questions go to send, which may block until
// they are on their way.
func NewBroker(send func(Question)) *Broker {
	return &Broker{send: send, open: map[string]chan pipeline.Answer{}}
}

// Ask sends a question, and waits for its answer or for ctx.
func (b *Broker) Ask(ctx context.Context, q Question) (pipeline.Answer, error) {
	answer := make(chan pipeline.Answer, 1)
	b.mu.Lock()
	b.open[q.ID] = answer
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		delete(b.open, q.ID)
		b.mu.Unlock()
	}()
	b.send(q)
	select {
	case a := <-answer:
		return a, nil
	case <-ctx.Done():
		return pipeline.Unavailable, context.Cause(ctx)
	}
}

// Withdraw makes an answer to the question come too late, also while it is
// still being sent.
func (b *Broker) Withdraw(q Question) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.open, q.ID)
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
	a := pipeline.Unavailable
	for _, said := range [...]pipeline.Answer{pipeline.AllowedOnce, pipeline.Rejected} {
		if outcome == said.String() {
			a = said
		}
	}
	answer <- a
	return true
}
