package pipeline

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
)

// diary writes down what observers of a scope are told, and fails at all of it.
type diary struct {
	mu    sync.Mutex
	lines []string
}

func (d *diary) add(format string, a ...any) {
	d.mu.Lock()
	d.lines = append(d.lines, fmt.Sprintf(format, a...))
	d.mu.Unlock()
}

func (d *diary) keep(s *Scope) {
	s.ObserveCalls("diary", func(c *Call) { d.add("call %s", c.ID()); panic("broken") })
	s.ObserveQuestions("diary", func(q Question) func(Answer) {
		d.add("question %s %s %s", q.Call.ID(), q.DisplayReason, q.Grants)
		return func(a Answer) { d.add("answer %s %s", q.Call.ID(), a); panic("broken") }
	})
	s.Observe("diary", func(c *Call, r Result) {
		code := "ok"
		if !r.OK() {
			code = r.Failure().Code
		}
		d.add("result %s %s", c.ID(), code)
		panic("broken")
	})
}

func (d *diary) is(t *testing.T, want ...string) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if !slices.Equal(d.lines, want) {
		t.Errorf("told\n\t%s\nwant\n\t%s", strings.Join(d.lines, "\n\t"), strings.Join(want, "\n\t"))
	}
	d.lines = nil
}

// answerer is an Approver.
type answerer func(ctx context.Context) Answer

func (a answerer) Approve(ctx context.Context, _ Question) Answer { return a(ctx) }

// Whatever becomes of a call, it is told of once when it begins and once when
// it ends, and each question is told of before anybody is asked, and its answer
// after that, once. Observers that fail change none of it.
func TestObservers_CallsAndQuestionsComeInPairs(t *testing.T) {
	var faults diary
	root := New(Options{Faults: func(f Fault) { faults.add("%s %s", f.Stage, f.Name) }})
	if _, err := root.Register(defineT(t, echoSpec())); err != nil {
		t.Fatal(err)
	}
	var d diary
	d.keep(root)
	one := func(s *Scope, args string) { s.Call(t.Context(), Request{ID: "1", Name: "echo", Args: []byte(args)}) }

	one(root, `{"text":"a"}`)
	d.is(t, "call 1", "result 1 ok")
	faults.is(t, "call-observer diary", "observer diary")
	one(root, `{"text":`)
	d.is(t, "call 1", "result 1 INVALID_ARGS")
	root.Call(t.Context(), Request{ID: "2", Name: "none"})
	d.is(t, "call 2", "result 2 UNKNOWN_TOOL")
	root.Call(t.Context(), Request{ID: "3", Name: "echo", Parent: Token{&Call{scope: New(Options{})}}})
	d.is(t, "call 3", "result 3 DENIED")
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	root.Call(cancelled, Request{ID: "1", Name: "echo", Args: []byte(`{"text":"a"}`)})
	d.is(t, "call 1", "result 1 CANCELLED")
	closed := root.Child("closed")
	closed.Close()
	one(closed, `{"text":"a"}`)
	d.is(t, "call 1", "result 1 CANCELLED")

	asks := root.Child("asks")
	asks.PreExecute("ask", func(context.Context, *Call, func() Decision) Decision {
		return Ask{Reason: "why", DisplayReason: "shown", Grants: map[string]string{"network": "full"}}
	})
	const asked = `question 1 shown {"network":"full"}`
	one(asks, `{"text":"a"}`)
	d.is(t, "call 1", asked, "answer 1 unavailable", "result 1 APPROVAL_UNAVAILABLE")
	for _, tt := range []struct {
		answer    Answer
		name, end string
	}{{AllowedOnce, "allowed-once", "ok"}, {Rejected, "rejected", "APPROVAL_REJECTED"}, {Dismissed, "cancelled", "APPROVAL_CANCELLED"}, {Unavailable, "unavailable", "APPROVAL_UNAVAILABLE"}, {99, "unavailable", "APPROVAL_UNAVAILABLE"}} {
		asks.SetApprover(answerer(func(context.Context) Answer {
			d.is(t, "call 1", asked)
			return tt.answer
		}))
		one(asks, `{"text":"a"}`)
		d.is(t, "answer 1 "+tt.name, "result 1 "+tt.end)
	}
	ctx, cancel := context.WithCancel(t.Context())
	asks.SetApprover(answerer(func(ctx context.Context) Answer { cancel(); <-ctx.Done(); return Dismissed }))
	asks.Call(ctx, Request{ID: "1", Name: "echo", Args: []byte(`{"text":"a"}`)})
	d.is(t, "call 1", asked, "answer 1 cancelled", "result 1 CANCELLED")
	asks.SetApprover(answerer(func(context.Context) Answer { panic("broken") }))
	one(asks, `{"text":"a"}`)
	d.is(t, "call 1", asked, "answer 1 unavailable", "result 1 APPROVAL_UNAVAILABLE")
	asks.SetApprover(answerer(func(context.Context) Answer { runtime.Goexit(); return AllowedOnce }))
	q := NewQueue(asks, Barrier, 0)
	q.Submit(t.Context(), Request{ID: "1", Name: "echo", Args: []byte(`{"text":"a"}`)}).Result()
	q.Wait()
	d.is(t, "call 1", asked, "answer 1 unavailable", "result 1 TOOL_PANIC")
	// One that waits in a queue begins when it is its turn, or with its cancellation.
	release := make(chan struct{})
	asks.SetApprover(answerer(func(context.Context) Answer { <-release; return Rejected }))
	first := q.Submit(t.Context(), Request{ID: "1", Name: "echo", Args: []byte(`{"text":"a"}`)})
	waits, cancel := context.WithCancel(t.Context())
	second := q.Submit(waits, Request{ID: "2", Name: "echo", Args: []byte(`{"text":"a"}`)})
	cancel()
	second.Result()
	close(release)
	first.Result()
	q.Wait()
	d.mu.Lock()
	slices.Sort(d.lines) // the two overlap
	d.mu.Unlock()
	d.is(t, "answer 1 rejected", "call 1", "call 2", asked, "result 1 APPROVAL_REJECTED", "result 2 CANCELLED")
}

// Observers end with their undo.
func TestObservers_CanBeUndone(t *testing.T) {
	s := newScope(t, defineT(t, echoSpec()))
	n := 0
	undoCalls := s.ObserveCalls("n", func(*Call) { n++ })
	undoQuestions := s.ObserveQuestions("n", func(Question) func(Answer) { n++; return nil })
	s.PreExecute("ask", func(context.Context, *Call, func() Decision) Decision { return Ask{Reason: "why"} })
	call(s, "echo", `{"text":"a"}`)
	if n != 2 {
		t.Errorf("told %d times", n)
	}
	undoCalls()
	undoQuestions()
	call(s, "echo", `{"text":"a"}`)
	if n != 2 {
		t.Errorf("told %d times after the undo", n)
	}
}
