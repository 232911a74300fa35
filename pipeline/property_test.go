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
	"weak"

	"pgregory.net/rapid"
)

// Any set of guards in any order gives the same verdict, and one that denies
// is enough.
func TestProperty_GuardsAreMonotone(t *testing.T) {
	tool := defineT(t, echoSpec())
	rapid.Check(t, func(t *rapid.T) {
		verdicts := rapid.SliceOfN(rapid.SampledFrom([]string{"", "", "no", "never", "panic"}), 0, 6).Draw(t, "guards")
		build := func(order []int, without int) Result {
			s := New(Options{})
			if _, err := s.Register(tool); err != nil {
				t.Fatal(err)
			}
			s.PreExecute("allows", func(context.Context, *Call, func() Decision) Decision { return Allow{} })
			at := s
			for _, i := range order {
				if i == without {
					continue
				}
				if rapid.Bool().Draw(t, "deeper") {
					at = at.Child("c")
				}
				v := verdicts[i]
				at.Guard(fmt.Sprint("g", i), func(*Call) (string, bool) {
					if v == "panic" {
						panic(v)
					}
					return v, v != ""
				})
			}
			return call(at, "echo", `{"text":"a"}`)
		}
		order := make([]int, len(verdicts))
		for i := range order {
			order[i] = i
		}
		a := build(order, -1)
		b := build(rapid.Permutation(order).Draw(t, "order"), -1)
		if a.OK() != (strings.Join(verdicts, "") == "") {
			t.Fatalf("%q: %v", verdicts, a.Failure())
		}
		ja, _ := MarshalValue(a)
		jb, _ := MarshalValue(b)
		if ja != jb {
			t.Fatalf("the order matters:\n%s\n%s", ja, jb)
		}
		// One guard less never denies more.
		if len(order) > 0 && a.OK() && !build(order, rapid.SampledFrom(order).Draw(t, "without")).OK() {
			t.Fatal("taking a guard away denied")
		}
	})
}

// Whatever wrappers make of the context, the caller's cancellation reaches
// the body, and with it the reason.
func TestProperty_CancellationIsNeverLost(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		kinds := rapid.SliceOfN(rapid.IntRange(0, 4), 0, 5).Draw(rt, "wrappers")
		after := time.Duration(rapid.IntRange(1, 1000).Draw(rt, "cancelled after")) * time.Millisecond
		synctest.Test(t, func(t *testing.T) {
			spec := echoSpec()
			spec.Execute = func(ctx context.Context, _ echoArgs, _ *Call) (echoValue, error) {
				select {
				case <-ctx.Done():
					if context.Cause(ctx) != CancelReason("user") {
						t.Errorf("the body is told of %v", context.Cause(ctx))
					}
					return echoValue{}, ctx.Err()
				case <-time.After(time.Hour):
					return echoValue{}, nil
				}
			}
			s := newScope(t, defineT(t, spec))
			for _, k := range kinds {
				s.Wrap("w", func(ctx context.Context, _ *Call, next Body) Outcome {
					switch k {
					case 0:
						return next(context.Background())
					case 1:
						return next(context.WithoutCancel(ctx))
					case 2:
						ctx, cancel := context.WithTimeout(context.Background(), 2*time.Hour)
						defer cancel()
						return next(ctx)
					case 3: // retry
						if o := next(context.Background()); o.OK() {
							return o
						}
					}
					return next(ctx)
				})
			}
			ctx, cancel := context.WithCancelCause(context.Background())
			defer time.AfterFunc(after, func() { cancel(CancelReason("user")) }).Stop()
			began := time.Now()
			r := s.Call(ctx, Request{Name: "echo", Args: []byte(`{"text":"a"}`)})
			if r.OK() || r.Failure().Code != CodeAborted || !strings.Contains(r.Failure().Message, "user") || time.Since(began) != after {
				t.Errorf("wrappers %v: %v after %v", kinds, r.Failure(), time.Since(began))
			}
		})
	})
}

// Exactly one result comes of every call, and the finalizer and each observer
// see it once, whatever panics.
func TestProperty_OneResultWhateverPanics(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bad := func(stage string) bool { return rapid.IntRange(0, 3).Draw(t, stage) == 0 }
		maybe := func(b bool) {
			if b {
				panic("here")
			}
		}
		pre, guard, wrap, body, render, meta, post, final, observe, project := bad("pre"), bad("guard"), bad("wrap"), bad("body"), bad("render"), bad("meta"), bad("post"), bad("final"), bad("observe"), bad("project")
		finals, observed := 0, 0
		spec := echoSpec()
		spec.Execute = func(context.Context, echoArgs, *Call) (echoValue, error) {
			maybe(body)
			return echoValue{Said: "x"}, nil
		}
		spec.Render = func(echoArgs, echoValue) []Content { maybe(render); return []Content{Text("x")} }
		spec.Meta = func(echoArgs, echoValue) any { maybe(meta); return 1 }
		spec.ProjectContent = func(_ *Call, c []Content) []Content { maybe(project); return c }
		finalOK := false
		spec.FinalizeContent = func(_ *Call, ok bool, c []Content) []Content {
			finals++
			finalOK = ok
			if final {
				c[0] = Text("half done")
			}
			maybe(final)
			return c
		}
		tool, err := Define(spec)
		if err != nil {
			t.Fatal(err)
		}
		s := New(Options{Faults: func(Fault) { panic("the listener of faults, too") }})
		if _, err := s.Register(tool); err != nil {
			t.Fatal(err)
		}
		s.PreExecute("p", func(_ context.Context, _ *Call, next func() Decision) Decision { maybe(pre); return next() })
		s.Guard("g", func(*Call) (string, bool) { maybe(guard); return "", false })
		s.Wrap("w", func(ctx context.Context, _ *Call, next Body) Outcome { o := next(ctx); maybe(wrap); return o })
		s.PostExecute("q", func(context.Context, *Call, Result) PostDecision { maybe(post); return Accept{} })
		for range 2 {
			s.Observe("o", func(*Call, Result) { observed++; maybe(observe) })
		}
		r := call(s, "echo", `{"text":"a"}`)
		want := !(pre || guard || wrap || body || render || meta || post || project)
		if r.OK() != want || finals != 1 || finalOK != want || observed != 2 || len(r.Content()) == 0 || r.Content()[0].Text() == "half done" {
			t.Fatalf("%v, finalized %d, observed %d, content %v", r.Failure(), finals, observed, r.Content())
		}
	})
}

// A batch's results come in the order of its calls; an exclusive call runs
// alone, with all before it ended and none after it begun.
func TestProperty_BatchKeepsOrderAndBarriers(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 40).Draw(rt, "n")
		exclusive := rapid.SliceOfN(rapid.Bool(), n, n).Draw(rt, "exclusive")
		seed := rapid.Uint64().Draw(rt, "seed")
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 1))
			waits := make([]time.Duration, n)
			for i := range waits {
				waits[i] = time.Duration(rng.IntN(20)) * time.Millisecond
			}
			var running, most atomic.Int32
			var mu sync.Mutex
			ended := make([]bool, n)
			spec := echoSpec()
			spec.ConcurrencySafe = func(a echoArgs) bool { return a.Text == "p" }
			spec.Execute = func(_ context.Context, a echoArgs, c *Call) (echoValue, error) {
				var i int
				fmt.Sscan(c.ID(), &i)
				now := running.Add(1)
				most.Store(max(most.Load(), now))
				mu.Lock()
				for j := range ended {
					if a.Text == "x" && j < i && !ended[j] {
						t.Errorf("exclusive %d began before %d had ended", i, j)
					}
					if exclusive[j] && j < i && !ended[j] {
						t.Errorf("%d began before the exclusive %d had ended", i, j)
					}
				}
				mu.Unlock()
				if a.Text == "x" && now != 1 {
					t.Errorf("exclusive %d beside %d others", i, now-1)
				}
				time.Sleep(waits[i])
				mu.Lock()
				ended[i] = true
				mu.Unlock()
				running.Add(-1)
				return echoValue{Said: c.ID()}, nil
			}
			s := newScope(t, defineT(t, spec))
			var reqs []Request
			for i := range n {
				text := "p"
				if exclusive[i] {
					text = "x"
				}
				reqs = append(reqs, Request{ID: fmt.Sprint(i), Name: "echo", Args: []byte(`{"text":"` + text + `"}`)})
			}
			began := time.Now()
			results := s.Batch(context.Background(), reqs)
			if took, want := time.Since(began), makespan(exclusive, waits); took != want {
				t.Errorf("took %v, want %v", took, want)
			}
			for i, r := range results {
				if r.ID() != fmt.Sprint(i) || !r.OK() {
					t.Errorf("result %d is %s: %v", i, r.ID(), r.Failure())
				}
			}
			if most.Load() > DefaultPool {
				t.Errorf("%d at once", most.Load())
			}
		})
	})
}

// makespan is how long a batch takes whose calls begin as soon as the rules let
// them: the pool rolls, and nothing waits for more than it must.
func makespan(exclusive []bool, waits []time.Duration) time.Duration {
	var now time.Duration
	var ends []time.Duration // of the parallel calls that run
	for i, wait := range waits {
		slices.Sort(ends)
		switch {
		case exclusive[i]:
			for _, end := range ends {
				now = max(now, end)
			}
			ends = nil
			now += wait
			continue
		case len(ends) == DefaultPool:
			now = max(now, ends[0])
			ends = ends[1:]
		}
		ends = append(ends, now+wait)
	}
	for _, end := range ends {
		now = max(now, end)
	}
	return now
}

func TestQueue_CancelledWhileItWaits(t *testing.T) {
	for _, mode := range []Mode{Barrier, Serial} {
		synctest.Test(t, func(t *testing.T) {
			ran := atomic.Int32{}
			release := make(chan struct{})
			spec := echoSpec()
			spec.Execute = func(context.Context, echoArgs, *Call) (echoValue, error) {
				ran.Add(1)
				<-release
				return echoValue{}, nil
			}
			s := newScope(t, defineT(t, spec))
			q := NewQueue(s, mode, 0)
			req := Request{Name: "echo", Args: []byte(`{"text":"a"}`)}
			first := q.Submit(context.Background(), req)
			ctx, cancel := context.WithCancel(context.Background())
			second := q.Submit(ctx, req)
			third := q.Submit(context.Background(), req)
			cancel()
			// At once, not in its turn.
			wantCode(t, second.Result(), CodeCancelled)
			synctest.Wait()
			if ran.Load() != 1 {
				t.Errorf("%d bodies began", ran.Load())
			}
			close(release)
			wantCode(t, first.Result(), "")
			wantCode(t, third.Result(), "")
			q.Wait()
			if ran.Load() != 2 {
				t.Errorf("%d bodies ran", ran.Load())
			}
		})
	}
}

// A queue that is held begins nothing, ends what is cancelled, and goes on.
func TestQueue_Hold(t *testing.T) {
	for _, mode := range []Mode{Barrier, Serial} {
		synctest.Test(t, func(t *testing.T) {
			ran := atomic.Int32{}
			spec := echoSpec()
			spec.ConcurrencySafe = func(a echoArgs) bool { return a.Text == "p" }
			spec.Execute = func(context.Context, echoArgs, *Call) (echoValue, error) {
				ran.Add(1)
				return echoValue{}, nil
			}
			q := NewQueue(newScope(t, defineT(t, spec)), mode, 0)
			q.Hold(true)
			ctx, cancel := context.WithCancel(context.Background())
			cancelled := q.Submit(ctx, Request{Name: "echo", Args: []byte(`{"text":"p"}`)})
			told := atomic.Int32{}
			var waiting []*Pending
			for _, text := range []string{"p", "x", "p"} {
				waiting = append(waiting, q.SubmitThen(context.Background(), Request{Name: "echo", Args: []byte(`{"text":"` + text + `"}`)},
					func(Result) { told.Add(1) }))
			}
			cancel()
			wantCode(t, cancelled.Result(), CodeCancelled)
			synctest.Wait()
			if ran.Load() != 0 || told.Load() != 0 {
				t.Errorf("%d bodies ran, %d results", ran.Load(), told.Load())
			}
			q.Hold(false)
			for _, p := range waiting {
				wantCode(t, p.Result(), "")
			}
			q.Wait()
			if ran.Load() != 3 || told.Load() != 3 {
				t.Errorf("%d bodies ran, %d results", ran.Load(), told.Load())
			}
		})
	}
}

// A call that has ended isn't kept, however long the queue goes on.
func TestQueue_ForgetsWhatHasEnded(t *testing.T) {
	for _, mode := range []Mode{Barrier, Serial} {
		spec := echoSpec()
		release := make(chan struct{})
		spec.Execute = func(_ context.Context, a echoArgs, _ *Call) (echoValue, error) {
			<-release
			return echoValue{}, nil
		}
		q := NewQueue(newScope(t, defineT(t, spec)), mode, 0)
		var calls []weak.Pointer[Pending]
		for range 10 {
			calls = append(calls, weak.Make(q.Submit(context.Background(), Request{Name: "echo", Args: []byte(`{"text":"a"}`)})))
		}
		close(release)
		q.Wait()
		for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
			runtime.GC() // the goroutines that made the calls may take a moment
			kept := 0
			for _, p := range calls {
				if p.Value() != nil {
					kept++
				}
			}
			if kept == 0 {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("mode %d: %d of %d calls are kept", mode, kept, len(calls))
			}
		}
		q.Wait() // the queue is still there
	}
}

// In a Serial queue parallel calls wait for nothing.
func TestQueue_Serial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spec := echoSpec()
		spec.ConcurrencySafe = func(a echoArgs) bool { return a.Text == "p" }
		release := make(chan struct{})
		spec.Execute = func(_ context.Context, a echoArgs, _ *Call) (echoValue, error) {
			if a.Text == "x" {
				<-release
			}
			return echoValue{}, nil
		}
		s := newScope(t, defineT(t, spec))
		q := NewQueue(s, Serial, 0)
		x := q.Submit(context.Background(), Request{Name: "echo", Args: []byte(`{"text":"x"}`)})
		for range 100 {
			wantCode(t, q.Submit(context.Background(), Request{Name: "echo", Args: []byte(`{"text":"p"}`)}).Result(), "")
		}
		close(release)
		wantCode(t, x.Result(), "")
	})
}

// Exclusive calls of a Serial queue run one at a time, in the order of their
// arrival.
func TestQueue_SerialOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var order []string
		running := 0
		spec := echoSpec()
		spec.Execute = func(_ context.Context, _ echoArgs, c *Call) (echoValue, error) {
			if running++; running > 1 {
				t.Error("two at once")
			}
			order = append(order, c.ID())
			time.Sleep(time.Duration(20-len(order)) * time.Millisecond)
			running--
			return echoValue{}, nil
		}
		q := NewQueue(newScope(t, defineT(t, spec)), Serial, 0)
		var want []string
		for i := range 10 {
			want = append(want, fmt.Sprint(i))
			q.Submit(context.Background(), Request{ID: fmt.Sprint(i), Name: "echo", Args: []byte(`{"text":"x"}`)})
		}
		q.Wait()
		if !slices.Equal(order, want) {
			t.Errorf("%q", order)
		}
	})
}

// The classifier is asked about valid arguments alone, and only true counts.
func TestQueue_ClassifiesFailClosed(t *testing.T) {
	spec := echoSpec()
	spec.ConcurrencySafe = func(a echoArgs) bool {
		if a.Text == "panic" {
			panic("x")
		}
		return a.Text != "no"
	}
	s := newScope(t, defineT(t, spec), named1(t, "silent", "x"))
	for _, tt := range []struct {
		tool, args string
		want       bool
	}{
		{"echo", `{"text":"yes"}`, true}, {"echo", `{"text":"no"}`, false}, {"echo", `{"text":"panic"}`, false},
		{"echo", `{"text":5}`, false}, {"echo", `{`, false}, {"echo", ``, false},
		{"silent", `{"text":"yes"}`, false}, {"nosuch", `{}`, false},
	} {
		if got := parallel(s.prepare(t.Context(), Request{Name: tt.tool, Args: []byte(tt.args)})); got != tt.want {
			t.Errorf("%s %s: %t", tt.tool, tt.args, got)
		}
	}
}

// FuzzParseJSON: what is accepted keeps its digits and reads the same again.
func FuzzParseJSON(f *testing.F) {
	for _, s := range []string{`{"a":1.0,"b":[1e3,9223372036854775808]}`, `"\ud83d\ude00"`, `{"a":1,"a":2}`, ` [ ] `, "\xff", `1`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		j, err := ParseJSON([]byte(s))
		if err != nil {
			return
		}
		again, err := ParseJSON([]byte(j.String()))
		if err != nil || again != j {
			t.Errorf("%q: %q, then %q, %v", s, j, again, err)
		}
		digits := func(s string) string {
			return strings.Map(func(r rune) rune {
				if r >= '0' && r <= '9' {
					return r
				}
				return -1
			}, s)
		}
		if !strings.Contains(s, `\`) && digits(s) != digits(j.String()) {
			t.Errorf("%q lost digits: %q", s, j)
		}
	})
}
