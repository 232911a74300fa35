// Package approval answers a pipeline's questions: may this one call have what
// it asks for? An answer holds for one call and leaves no rule behind. Where
// nobody can be asked, or nobody gives an answer that is one, there is none,
// and the call is refused.
//
// A Service is the pipeline's approver. It decides whether anybody is asked,
// has an Answerer ask, and tells observers of every question and its outcome.
// Answerers are a Broker, for a protocol whose answers come in by themselves, a
// Terminal, and what a front door makes of its own:
//
//	s := approval.New(approval.Ask, 0)
//	scope.SetApprover(s)
//	leave := s.Use(approval.NewBroker(send))
//	defer leave()
//
// It does not know what is granted.
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

// Policy says whether questions are asked at all.
type Policy string

// The policies. Any other is Never.
const (
	Ask   Policy = "ask"
	Never Policy = "never" // every question is rejected before anybody is asked
)

// Question is one question as an answerer gets it.
type Question struct {
	ID string // of the service's: ap-1, ap-2 …
	pipeline.Question
}

// Answerer brings questions to somebody.
type Answerer interface {
	// Ask puts a question to somebody and returns what they said; an error, a
	// panic and what is none of the answers mean that there is none. It may be
	// called for several questions at once.
	//
	// ctx ends when the question is withdrawn: the call was cancelled, the time
	// is over, or the answerer has left. Ask then returns soon; nobody waits for
	// what it returns.
	Ask(ctx context.Context, q Question) (pipeline.Answer, error)
}

// Withdrawer is an Answerer that is told of a question that it need ask no more,
// besides the end of its context, on a goroutine of its own.
type Withdrawer interface{ Withdraw(q Question) }

// Observer is told of every question and of its outcome, each once and in this
// order, those included that nobody was asked. What it does or fails to do
// changes nothing; the call waits for it.
type Observer interface {
	Asked(q Question)
	Answered(q Question, a pipeline.Answer)
}

// Service is an approver of pipelines. It may be used from any goroutine.
type Service struct {
	timeout time.Duration

	mu        sync.Mutex
	policy    Policy
	answerer  *seat
	last      int
	observers []*Observer
}

// seat is an answerer for as long as it is there.
type seat struct {
	Answerer
	left chan struct{}
}

// New makes a service without an answerer. timeout 0 is DefaultTimeout.
func New(p Policy, timeout time.Duration) *Service {
	if timeout <= 0 {
		timeout = DefaultTimeout
	}
	return &Service{policy: p, timeout: timeout}
}

// SetPolicy is for the questions from now on.
func (s *Service) SetPolicy(p Policy) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.policy = p
}

// Use has a ask from now on, in place of another. When it leaves, its open
// questions have no answer, nor have those to come.
func (s *Service) Use(a Answerer) (leave func()) {
	mine := &seat{a, make(chan struct{})}
	s.mu.Lock()
	s.answerer = mine
	s.mu.Unlock()
	return sync.OnceFunc(func() {
		s.mu.Lock()
		if s.answerer == mine {
			s.answerer = nil
		}
		s.mu.Unlock()
		close(mine.left)
	})
}

// Observe tells o of the questions from now on, until stop. A question that it
// was told of it is told the outcome of.
func (s *Service) Observe(o Observer) (stop func()) {
	p := &o
	s.mu.Lock()
	defer s.mu.Unlock()
	s.observers = append(s.observers[:len(s.observers):len(s.observers)], p)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		var rest []*Observer
		for _, other := range s.observers {
			if other != p {
				rest = append(rest, other)
			}
		}
		s.observers = rest
	}
}

// Approve is the outcome of a question: Rejected at once where the policy is
// Never, Dismissed when the call is cancelled, Unavailable where there is no
// answer, at once if nobody is there, else when the answerer fails or leaves, or
// the time is over.
func (s *Service) Approve(ctx context.Context, q pipeline.Question) (a pipeline.Answer) {
	s.mu.Lock()
	s.last++
	asked := Question{"ap-" + strconv.Itoa(s.last), q}
	policy, answerer, observers := s.policy, s.answerer, s.observers
	s.mu.Unlock()
	for _, o := range observers {
		contained(func() { (*o).Asked(asked) })
	}
	defer func() {
		for _, o := range observers {
			contained(func() { (*o).Answered(asked, a) })
		}
	}()
	switch {
	case policy != Ask:
		return pipeline.Rejected
	case ctx.Err() != nil:
		return pipeline.Dismissed
	case answerer == nil:
		return pipeline.Unavailable
	}
	return s.ask(ctx, answerer, asked)
}

func (s *Service) ask(ctx context.Context, answerer *seat, q Question) pipeline.Answer {
	asking, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	answer := make(chan pipeline.Answer, 1)
	go func() {
		a := pipeline.Unavailable
		defer func() {
			_ = recover()
			answer <- a
		}()
		if said, err := answerer.Ask(asking, q); err == nil && said <= pipeline.Dismissed {
			a = said
		}
	}()
	withdraw := func(a pipeline.Answer) pipeline.Answer {
		if w, ok := answerer.Answerer.(Withdrawer); ok {
			go contained(func() { w.Withdraw(q) })
		}
		return a
	}
	select {
	case a := <-answer:
		if a == pipeline.Unavailable && ctx.Err() != nil {
			return pipeline.Dismissed // it gave up since the call did
		}
		return a
	case <-answerer.left:
		return withdraw(pipeline.Unavailable)
	case <-asking.Done():
		if ctx.Err() != nil {
			return withdraw(pipeline.Dismissed)
		}
		return withdraw(pipeline.Unavailable)
	}
}

// contained keeps a panic from the call.
func contained(f func()) {
	defer func() { _ = recover() }()
	f()
}
