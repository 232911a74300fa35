package pipeline

import (
	"context"
	"slices"
	"sync"
)

// DefaultPool is how many parallel calls of one Queue run at once.
const DefaultPool = 16

// Queue schedules the calls of one caller. Calls whose tool says that they may
// run beside others (ConcurrencySafe) share a pool; every other call is
// exclusive. What that means the mode says.
//
// A Queue may be used from any goroutine.
type Queue struct {
	scope *Scope
	mode  Mode
	pool  int

	mu      sync.Mutex
	arrived int        // calls so far
	waiting []*Pending // in the order of arrival
	running int        // parallel calls
	alone   bool       // an exclusive call runs
	aside   int        // exclusive calls that began and gave up their place
	dropped int        // calls that were cancelled while they waited, and get their result
	held    bool       // none begins
	idle    *sync.Cond
}

// Mode is how exclusive calls and others get along.
type Mode uint8

const (
	// Barrier: an exclusive call begins when all before it have ended, and
	// none after it begins before it has ended.
	Barrier Mode = iota
	// Serial: exclusive calls run one after the other, in the order of their
	// arrival; parallel calls wait for none of them and not for a pool. A call
	// about which somebody is being asked, which may take minutes, holds up
	// nobody: it gives its place to the next, and has it back before its body as
	// the first of those that wait, as it came before them.
	Serial
)

// NewQueue makes a queue of calls in s. pool bounds the parallel calls of a
// Barrier queue; 0 is DefaultPool.
func NewQueue(s *Scope, mode Mode, pool int) *Queue {
	if pool <= 0 {
		pool = DefaultPool
	}
	q := &Queue{scope: s, mode: mode, pool: pool}
	q.idle = sync.NewCond(&q.mu)
	return q
}

// Pending is a call that was submitted.
type Pending struct {
	call     *Call
	refused  *Error // before its turn
	parallel bool
	number   int // of its arrival
	begun    bool
	aside    bool          // it began, and gave up its place
	back     chan struct{} // closed when it has it again; nil before it wants it
	stop     func() bool   // of the watch on ctx while it waits
	then     func(Result)
	done     chan struct{}
	result   Result
}

// Done is closed when the result is there.
func (p *Pending) Done() <-chan struct{} { return p.done }

// Result waits for the result.
func (p *Pending) Result() Result {
	<-p.done
	return p.result
}

// Submit takes a call. It never waits: the call begins when the mode lets it.
// A call whose ctx ends before that is CANCELLED at once, without its turn.
func (q *Queue) Submit(ctx context.Context, req Request) *Pending {
	return q.SubmitThen(ctx, req, func(Result) {})
}

// SubmitThen is Submit with a function that is called with the result before
// the call's place is another's: what it takes of memory or time is bounded as
// the calls are.
func (q *Queue) SubmitThen(ctx context.Context, req Request, then func(Result)) *Pending {
	p := &Pending{then: then, done: make(chan struct{})}
	p.call, p.refused = q.scope.prepare(ctx, req)
	p.parallel = parallel(p.call, p.refused)
	if q.mode == Serial && !p.parallel {
		p.call.aside = func() func(context.Context) bool { return q.stepAside(p) }
	}
	q.mu.Lock()
	q.arrived++
	p.number = q.arrived
	q.waiting = append(q.waiting, p)
	q.startLocked()
	if !p.begun {
		p.stop = context.AfterFunc(ctx, func() { q.drop(p) })
	}
	q.mu.Unlock()
	return p
}

// Hold keeps calls that wait from beginning, until it is called with false: for
// a caller who can't take more results at the moment. What runs goes on, and a
// call that is cancelled while it waits still ends at once.
func (q *Queue) Hold(hold bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.held = hold
	q.startLocked()
}

// parallel classifies a call. Whatever is wrong with it makes it exclusive.
func parallel(c *Call, refused *Error) bool {
	return refused == nil && c.tool.concurrencySafe(c.args)
}

// drop ends a call that was cancelled while it waited.
func (q *Queue) drop(p *Pending) {
	q.mu.Lock()
	if p.begun {
		q.mu.Unlock()
		return
	}
	p.begun = true
	q.forget(p)
	q.dropped++
	q.startLocked() // it may have been a barrier
	q.mu.Unlock()
	defer func() {
		q.mu.Lock()
		q.dropped--
		q.idle.Broadcast()
		q.mu.Unlock()
	}()
	q.finish(p)
}

// forget takes a call out of those that wait.
func (q *Queue) forget(p *Pending) {
	if i := slices.Index(q.waiting, p); i >= 0 {
		q.waiting = slices.Concat(q.waiting[:i], q.waiting[i+1:])
	}
}

// stepAside gives up the place of a call that runs. back waits to have it again,
// and reports whether it has: a call whose ctx ends before that goes on to its
// end without one.
func (q *Queue) stepAside(p *Pending) (back func(ctx context.Context) bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	p.aside, q.alone = true, false
	q.aside++
	q.startLocked()
	return func(ctx context.Context) bool {
		q.mu.Lock()
		p.back = make(chan struct{})
		i, _ := slices.BinarySearchFunc(q.waiting, p.number, func(w *Pending, n int) int { return w.number - n })
		q.waiting = slices.Insert(q.waiting, i, p)
		q.startLocked()
		q.mu.Unlock()
		select {
		case <-p.back:
		case <-ctx.Done():
		}
		q.mu.Lock()
		defer q.mu.Unlock()
		q.forget(p)
		return !p.aside
	}
}

// startLocked begins what may begin, and lets go on what may.
func (q *Queue) startLocked() {
	if q.mode == Serial {
		var rest []*Pending
		for _, p := range q.waiting {
			switch {
			case p.back != nil && !q.alone: // it has begun, held or not
				q.alone, p.aside = true, false
				q.aside--
				close(p.back)
			case p.back == nil && !q.held && (p.parallel || !q.alone):
				q.begin(p)
			default:
				rest = append(rest, p)
			}
		}
		q.waiting = rest
		return
	}
	if q.held {
		return
	}
	for len(q.waiting) > 0 {
		p := q.waiting[0]
		if q.alone || p.parallel && q.running >= q.pool || !p.parallel && q.running > 0 {
			return
		}
		q.waiting[0] = nil // or the array holds the call, and its result, as long as others wait
		q.waiting = q.waiting[1:]
		q.begin(p)
	}
}

func (q *Queue) begin(p *Pending) {
	p.begun = true
	if p.stop != nil {
		p.stop()
	}
	if p.parallel {
		q.running++
	} else {
		q.alone = true
	}
	go func() {
		defer func() {
			q.mu.Lock()
			switch {
			case p.parallel:
				q.running--
			case p.aside:
				q.aside--
			default:
				q.alone = false
			}
			q.startLocked()
			q.idle.Broadcast()
			q.mu.Unlock()
		}()
		q.finish(p)
	}()
}

// finish makes the call; one that was cancelled before it began gets its result
// by the same way as any other. What ends the goroutine in place of returning,
// as runtime.Goexit does, is a failure like a panic.
func (q *Queue) finish(p *Pending) {
	ended := Failf(CodeToolPanic, "%s ended its goroutine; this is a fault of the tool", p.call.name)
	p.result = Result{id: p.call.id, name: p.call.name, failure: ended, content: []Content{Text(ended.Message)}}
	returned := false
	defer close(p.done)
	defer func() { p.then(p.result) }()
	defer func() {
		switch {
		case returned:
		case p.call.frozen != nil: // an observer's doing, which changes nothing
			p.result = *p.call.frozen
		default:
			p.result = q.scope.carryOut(p.call, ended)
		}
	}()
	r := q.scope.carryOut(p.call, p.refused)
	p.result, returned = r, true
}

// Wait waits until no call waits or runs.
func (q *Queue) Wait() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.waiting) > 0 || q.running > 0 || q.alone || q.aside > 0 || q.dropped > 0 {
		q.idle.Wait()
	}
}

// Batch makes calls under the rules of Barrier and returns their results in the
// order of the calls.
func (s *Scope) Batch(ctx context.Context, calls []Request) []Result {
	q := NewQueue(s, Barrier, 0)
	pending := make([]*Pending, len(calls))
	for i, req := range calls {
		pending[i] = q.Submit(ctx, req)
	}
	results := make([]Result, len(calls))
	for i, p := range pending {
		results[i] = p.Result()
	}
	return results
}
