package pipeline

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// One question is asked of a call, with the reasons of all who ask and what one
// of them grants; what refuses or cancels the call does so whoever asks.
func TestAsk_AlsoInAChain(t *testing.T) {
	grants := map[string]string{"network": "full"}
	rules := Ask{Reason: "rule", DisplayReason: "a rule asks"}
	more := Ask{Reason: "more", Grants: grants}
	for name, tt := range map[string]struct {
		listeners []Decision // an Ask has next decide too
		code      string
		shown     string
		grants    string
	}{
		"alone":        {[]Decision{rules}, "", "a rule asks", ""},
		"both":         {[]Decision{rules, more}, "", "a rule asks; more", `{"network":"full"}`},
		"both, turned": {[]Decision{more, rules}, "", "more; a rule asks", `{"network":"full"}`},
		"three":        {[]Decision{rules, more, rules}, "", "a rule asks; more; a rule asks", `{"network":"full"}`},
		"allowed":      {[]Decision{more, Allow{}}, "", "more", `{"network":"full"}`},
		"denied":       {[]Decision{rules, more, Deny{Reason: "no"}}, CodeDenied, "", ""},
		"cancelled":    {[]Decision{rules, Cancel{}, more}, CodeCancelled, "", ""},
		"none":         {[]Decision{rules, nil}, CodeDenied, "", ""},
		"two grants":   {[]Decision{more, more}, CodeDenied, "", ""},
	} {
		s := newScope(t, defineT(t, echoSpec()))
		for i, d := range tt.listeners {
			s.PreExecute(fmt.Sprint("l", i), func(_ context.Context, _ *Call, next func() Decision) Decision {
				if a, ok := d.(Ask); ok {
					return a.Also(next())
				}
				return d
			})
		}
		var asked []Question
		s.SetApprover(answers(func(q Question) Answer { asked = append(asked, q); return AllowedOnce }))
		r := call(s, "echo", `{"text":"a"}`)
		if tt.code != "" {
			wantCode(t, r, tt.code)
			if len(asked) > 0 {
				t.Errorf("%s: asked %q", name, asked[0].DisplayReason)
			}
			continue
		}
		if !r.OK() || len(asked) != 1 || asked[0].DisplayReason != tt.shown || asked[0].Grants.String() != tt.grants {
			t.Errorf("%s: %v, asked %v", name, r.Failure(), asked)
		}
	}
}

// Where a policy says that nobody is asked, nobody is, whoever could be.
func TestAskPolicy(t *testing.T) {
	asked := 0
	yes := answers(func(Question) Answer { asked++; return AllowedOnce })
	for name, tt := range map[string]struct {
		outer, inner AskPolicy
		approver     Approver
		code         string
	}{
		"none":             {nil, nil, yes, ""},
		"both say yes":     {func(*Call) bool { return true }, func(*Call) bool { return true }, yes, ""},
		"the outer no":     {func(*Call) bool { return false }, func(*Call) bool { return true }, yes, CodeApprovalRejected},
		"the inner no":     {func(*Call) bool { return true }, func(*Call) bool { return false }, yes, CodeApprovalRejected},
		"no, and nobody":   {func(*Call) bool { return false }, nil, nil, CodeApprovalRejected},
		"yes, but nobody":  {func(*Call) bool { return true }, nil, nil, CodeApprovalUnavailable},
		"it panics":        {func(*Call) bool { panic("x") }, nil, yes, CodeApprovalRejected},
		"of another scope": {nil, nil, yes, ""},
	} {
		root := New(Options{})
		if _, err := root.Register(defineT(t, echoSpec())); err != nil {
			t.Fatal(err)
		}
		s := root.Child("c")
		root.Child("other").AskPolicy("other", func(*Call) bool { return false })
		s.AskPolicy("undone", func(*Call) bool { return false })()
		if tt.outer != nil {
			root.AskPolicy("outer", tt.outer)
		}
		if tt.inner != nil {
			s.AskPolicy("inner", tt.inner)
		}
		s.SetApprover(tt.approver)
		asked = 0
		wantCode(t, call(s, "echo", `{"text":"a"}`), "")
		s.PreExecute("asks", func(context.Context, *Call, func() Decision) Decision { return Ask{Reason: "r"} })
		wantCode(t, call(s, "echo", `{"text":"a"}`), tt.code)
		if (asked == 1) != (tt.code == "") {
			t.Errorf("%s: asked %d times", name, asked)
		}
	}
}

// asking is a tool whose calls ask what their text says: for so many
// milliseconds, and then for its body.
type asking struct {
	*Scope
	approver func(ctx context.Context, q Question) Answer
}

func newAsking(t *testing.T, body func(id string)) *asking {
	spec := echoSpec()
	spec.ConcurrencySafe = func(a echoArgs) bool { return strings.HasPrefix(a.Text, "p") }
	spec.Execute = func(_ context.Context, _ echoArgs, c *Call) (echoValue, error) {
		body(c.ID())
		return echoValue{Said: c.ID()}, nil
	}
	a := &asking{Scope: newScope(t, defineT(t, spec))}
	a.PreExecute("asks", func(_ context.Context, c *Call, next func() Decision) Decision {
		if strings.Contains(c.Args().String(), "?") {
			return Ask{Reason: "r"}.Also(next())
		}
		return next()
	})
	a.SetApprover(a)
	return a
}

func (a *asking) Approve(ctx context.Context, q Question) Answer { return a.approver(ctx, q) }

// plan is a call: when it comes, whether somebody is asked, how long for, and
// how long its body takes.
type plan struct {
	exclusive, asks, allowed bool
	at, answer, body         time.Duration
}

// In a Serial queue the bodies of exclusive calls never overlap, and each begins
// as soon as none runs and all that came before have ended or wait for an answer:
// a question holds up nobody else. Parallel calls wait for their own answer alone.
// In a Barrier queue a question is a part of its call.
func TestProperty_QuestionsInQueues(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		// Some milliseconds, and so many nanoseconds that nothing happens at one
		// time by chance.
		some := func(name string) time.Duration {
			return time.Duration(rapid.IntRange(0, 9).Draw(rt, name))*time.Millisecond + time.Duration(1+rng.IntN(1e6))
		}
		plans := make([]plan, rapid.IntRange(1, 20).Draw(rt, "n"))
		var now time.Duration
		for i := range plans {
			now += some("after")
			plans[i] = plan{rapid.Bool().Draw(rt, "exclusive"), rapid.Bool().Draw(rt, "asks"), rapid.IntRange(0, 3).Draw(rt, "allowed") > 0, now, some("answer"), some("body")}
		}
		mode := rapid.SampledFrom([]Mode{Barrier, Serial}).Draw(rt, "mode")
		synctest.Test(t, func(t *testing.T) {
			begun := time.Now()
			var mu sync.Mutex
			began, ended := make([]time.Duration, len(plans)), make([]time.Duration, len(plans))
			index := func(id string) (i int) { fmt.Sscan(id, &i); return i }
			a := newAsking(t, func(id string) {
				i := index(id)
				mu.Lock()
				began[i] = time.Since(begun)
				mu.Unlock()
				time.Sleep(plans[i].body)
			})
			a.approver = func(_ context.Context, q Question) Answer {
				time.Sleep(plans[index(q.Call.ID())].answer)
				if plans[index(q.Call.ID())].allowed {
					return AllowedOnce
				}
				return Rejected
			}
			q := NewQueue(a.Scope, mode, 0)
			for i, p := range plans {
				began[i] = -1
				time.Sleep(p.at - time.Since(begun))
				text := "x"
				if !p.exclusive {
					text = "p"
				}
				if p.asks {
					text += "?"
				}
				q.SubmitThen(t.Context(), Request{ID: fmt.Sprint(i), Name: "echo", Args: []byte(`{"text":"` + text + `"}`)}, func(r Result) {
					mu.Lock()
					ended[i] = time.Since(begun)
					mu.Unlock()
					if r.OK() != (!p.asks || p.allowed) {
						t.Errorf("%d: %v", i, r.Failure())
					}
				})
				synctest.Wait()
			}
			q.Wait()
			for i, p := range plans {
				wantBody := !p.asks || p.allowed
				if (began[i] >= 0) != wantBody || wantBody && ended[i] != began[i]+p.body {
					t.Fatalf("%d began %v, ended %v", i, began[i], ended[i])
				}
				for j := range i {
					switch o := plans[j]; {
					case mode == Barrier && (p.exclusive || o.exclusive):
						// What goes before a body is its call's own question.
						from := began[i]
						if from < 0 {
							from = ended[i]
						}
						if p.asks {
							from -= p.answer
						}
						if from < ended[j] {
							t.Errorf("%d goes on at %v, before %d has ended at %v", i, from, j, ended[j])
						}
					case mode == Serial && p.exclusive && o.exclusive && began[i] >= 0 && began[j] >= 0:
						if began[i] < ended[j] && began[j] < ended[i] {
							t.Errorf("%d at %v beside %d at %v", i, began[i], j, began[j])
						}
					}
				}
			}
			if mode == Serial {
				if want := simulate(plans); !slices.Equal(began, want) {
					t.Errorf("bodies began at %v, want %v", began, want)
				}
			}
		})
	})
}

// simulate says when the bodies of a Serial queue begin, -1 for one that has none.
func simulate(plans []plan) []time.Duration {
	const (
		waits = iota // for its turn
		asked        // until its answer
		over         // or in its body
	)
	state, until := make([]int, len(plans)), make([]time.Duration, len(plans))
	began := make([]time.Duration, len(plans))
	for i, p := range plans {
		until[i] = p.at
	}
	var free time.Duration // when the place is
	for now := time.Duration(0); ; {
		next := time.Duration(-1)
		later := func(at time.Duration) bool {
			if at > now && (next < 0 || at < next) {
				next = at
			}
			return at > now
		}
		for i, p := range plans { // in the order of arrival
			switch {
			case state[i] == over || later(until[i]):
			case state[i] == asked && !p.allowed:
				state[i], began[i] = over, -1
			case p.exclusive && later(free):
			case state[i] == waits && p.asks:
				state[i], until[i] = asked, now+p.answer
				later(until[i])
			default:
				state[i], began[i] = over, now
				if p.exclusive {
					free = now + p.body
				}
			}
		}
		if next < 0 {
			return began
		}
		now = next
	}
}

// Whatever becomes of a question, the queue goes on, and knows when nothing runs.
func TestQueue_QuestionsThatEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ran atomic.Int32
		block := make(chan struct{})
		a := newAsking(t, func(id string) {
			ran.Add(1)
			if id == "slow" {
				<-block
			}
		})
		q := NewQueue(a.Scope, Serial, 0)
		submit := func(ctx context.Context, id, text string) *Pending {
			return q.Submit(ctx, Request{ID: id, Name: "echo", Args: []byte(`{"text":"` + text + `"}`)})
		}
		answer := make(chan Answer)
		a.approver = func(ctx context.Context, _ Question) Answer {
			select {
			case n := <-answer:
				return n
			case <-ctx.Done():
				return Dismissed
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		// Cancelled while somebody is asked.
		first := submit(ctx, "1", "x?")
		synctest.Wait()
		wantCode(t, submit(t.Context(), "2", "x").Result(), "")
		cancel()
		wantCode(t, first.Result(), CodeCancelled)
		q.Wait()
		// Cancelled while it waits to go on, and allowed while another runs.
		ctx, cancel = context.WithCancel(t.Context())
		first = submit(ctx, "3", "x?")
		second := submit(t.Context(), "4", "x?")
		synctest.Wait() // both are asked about
		slow := submit(t.Context(), "slow", "x")
		synctest.Wait()
		answer <- AllowedOnce
		answer <- AllowedOnce
		synctest.Wait()
		last := submit(t.Context(), "5", "x")
		cancel()
		wantCode(t, first.Result(), CodeCancelled)
		if n := ran.Load(); n != 2 {
			t.Errorf("%d bodies", n)
		}
		// One that goes on is held up by nobody, those that have not begun are.
		q.Hold(true)
		close(block)
		wantCode(t, slow.Result(), "")
		wantCode(t, second.Result(), "")
		synctest.Wait()
		if n := ran.Load(); n != 3 {
			t.Errorf("%d bodies", n)
		}
		q.Hold(false)
		wantCode(t, last.Result(), "")
		// An approver that ends the goroutine.
		a.approver = func(context.Context, Question) Answer { runtime.Goexit(); return AllowedOnce }
		wantCode(t, submit(t.Context(), "6", "x?").Result(), CodeToolPanic)
		a.approver = func(context.Context, Question) Answer { panic("x") }
		wantCode(t, submit(t.Context(), "7", "x?").Result(), CodeApprovalUnavailable)
		wantCode(t, submit(t.Context(), "8", "x").Result(), "")
		q.Wait()
	})
}
