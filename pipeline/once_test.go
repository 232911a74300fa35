package pipeline

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// What a call is, what it says and what it reaches is settled once, when it is
// made: a queue that lets it wait, and whatever changes meanwhile, alters none
// of it.
func TestQueue_ACallIsSettledWhenItIsMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spec := echoSpec()
		spec.Parallel = true
		spec.Execute = func(_ context.Context, a echoArgs, _ *Call) (echoValue, error) {
			time.Sleep(time.Second)
			return echoValue{Said: a.Text}, nil
		}
		root := newScope(t, defineT(t, spec), named1(t, "alone", "x"))
		s := root.Child("s")
		q := NewQueue(s, Barrier, 1)
		args := []byte(`{"text":"a"}`)
		first := q.Submit(t.Context(), Request{ID: "1", Name: "echo", Args: args})
		second := q.Submit(t.Context(), Request{ID: "2", Name: "echo", Args: args})
		third := q.Submit(t.Context(), Request{ID: "3", Name: "echo", Args: args})
		copy(args, `{"text":"b"}`)
		// One that may not run beside others takes its name.
		undo, err := s.Register(named1(t, "echo", "exclusive"))
		if err != nil {
			t.Fatal(err)
		}
		defer undo()
		// Policy is what is in force when its turn comes.
		guard := func(*Call) (string, bool) { return "no more", true }
		if r := first.Result(); r.Value().String() != `{"said":"a","times":0,"notes":[]}` {
			t.Errorf("first: %s", r.Value())
		}
		synctest.Wait()
		s.Guard("late", guard)
		if r := second.Result(); r.Value().String() != `{"said":"a","times":0,"notes":[]}` {
			t.Errorf("second: %s, %v", r.Value(), r.Failure())
		}
		wantCode(t, third.Result(), CodeDenied)
	})
}

// Nested calls have their ids by the order in which they are made, however
// their bodies run.
func TestBatch_NestedIDsAreDeterministic(t *testing.T) {
	inner := echoSpec()
	inner.Name, inner.Parallel = "inner", true
	inner.Execute = func(_ context.Context, _ echoArgs, c *Call) (echoValue, error) {
		return echoValue{Said: c.ID() + " of " + c.RootID()}, nil
	}
	outer := echoSpec()
	outer.Execute = func(ctx context.Context, _ echoArgs, c *Call) (echoValue, error) {
		var reqs []Request
		for range 40 {
			reqs = append(reqs, Request{Name: "inner", Args: []byte(`{"text":"x"}`), Parent: c.Token()})
		}
		for i, r := range c.Scope().Batch(ctx, reqs) {
			if want := fmt.Sprintf("7:code:%d", i+1); r.ID() != want || !strings.Contains(r.Value().String(), want+" of 7") {
				t.Errorf("result %d has the id %s, value %s", i, r.ID(), r.Value())
			}
		}
		return echoValue{}, nil
	}
	s := newScope(t, defineT(t, inner), defineT(t, outer))
	wantCode(t, s.Call(t.Context(), Request{ID: "7", Name: "echo", Args: []byte(`{"text":"a"}`)}), "")
}

// A nested call that waited for its turn until its parent had ended does not
// run.
func TestQueue_ParentEndsWhileItWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q *Queue
		var waits *Pending
		var ran atomic.Bool
		inner := named1(t, "inner", "x")
		spec := echoSpec()
		spec.Name = "slow"
		spec.Execute = func(context.Context, echoArgs, *Call) (echoValue, error) {
			time.Sleep(time.Second)
			return echoValue{}, nil
		}
		outer := echoSpec()
		outer.Execute = func(ctx context.Context, _ echoArgs, c *Call) (echoValue, error) {
			q.Submit(ctx, Request{Name: "slow", Args: []byte(`{"text":"x"}`), Parent: c.Token()})
			waits = q.Submit(context.Background(), Request{Name: "inner", Args: []byte(`{"text":"x"}`), Parent: c.Token()})
			return echoValue{}, nil
		}
		s := newScope(t, inner, defineT(t, spec), defineT(t, outer))
		s.Observe("ran", func(c *Call, r Result) {
			if c.Name() == "inner" && r.OK() {
				ran.Store(true)
			}
		})
		q = NewQueue(s, Serial, 0)
		wantCode(t, call(s, "echo", `{"text":"a"}`), "")
		wantCode(t, waits.Result(), CodeDenied)
		if ran.Load() {
			t.Error("it ran")
		}
	})
}

// The caller's cancellation is there when the body begins, not soon after.
func TestWrappers_CancelledWhenTheBodyBegins(t *testing.T) {
	for name, own := range map[string]func(context.Context) context.Context{
		"background": func(context.Context) context.Context { return context.Background() },
		"without":    context.WithoutCancel,
		"as it is":   func(ctx context.Context) context.Context { return ctx },
	} {
		late := 0
		spec := echoSpec()
		spec.Execute = func(ctx context.Context, _ echoArgs, _ *Call) (echoValue, error) {
			if ctx.Err() == nil {
				late++
			}
			return echoValue{}, ctx.Err()
		}
		for range 100 {
			s := newScope(t, defineT(t, spec))
			ctx, cancel := context.WithCancel(t.Context())
			s.Wrap("w", func(ctx context.Context, _ *Call, next Body) Outcome {
				cancel()
				return next(own(ctx))
			})
			wantCode(t, s.Call(ctx, Request{Name: "echo", Args: []byte(`{"text":"a"}`)}), CodeAborted)
		}
		if late > 0 {
			t.Errorf("%s: %d of 100 bodies began without it", name, late)
		}
	}
}

// A deadline is a deadline, whether the tool's own or a wrapper's; the caller's
// is a cancellation.
func TestWrappers_Deadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spec := echoSpec()
		spec.Execute = func(ctx context.Context, _ echoArgs, _ *Call) (echoValue, error) {
			<-ctx.Done()
			return echoValue{}, ctx.Err()
		}
		s := newScope(t, defineT(t, spec))
		undo := s.Wrap("timeout", func(ctx context.Context, _ *Call, next Body) Outcome {
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			return next(ctx)
		})
		wantCode(t, call(s, "echo", `{"text":"a"}`), CodeTimeout)
		undo()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		wantCode(t, s.Call(ctx, Request{Name: "echo", Args: []byte(`{"text":"a"}`)}), CodeAborted)
	})
}

// Whoever makes a result, a model gets to read a bounded part of it, and both
// ends of that.
func TestResult_ContentIsBounded(t *testing.T) {
	long := "begin " + strings.Repeat("é", MaxContent) + " end"
	size := func(r Result) (n int) {
		for _, c := range r.Content() {
			n += len(c.Text())
		}
		return n
	}
	render := echoSpec()
	render.Render = func(echoArgs, echoValue) []Content {
		return []Content{Text("first"), Text(long), Image([]byte("x"), "image/png"), Text(long), {}}
	}
	render.FinalizeContent = func(_ *Call, _ bool, c []Content) []Content { return append(c, Text(long)) }
	r := call(newScope(t, defineT(t, render)), "echo", `{"text":"a"}`)
	c := r.Content()
	if n := size(r); n > MaxContent || n < MaxContent/2 || len(c) != 3 || c[0].Text() != "first" || c[2].Type() != "image" {
		t.Errorf("%d bytes in %d blocks", n, len(c))
	}
	if s := c[1].Text(); !strings.HasPrefix(s, "begin é") || !strings.HasSuffix(s, "é end") || !strings.Contains(s, "bytes left out") || strings.Contains(s, "\uFFFD") {
		t.Errorf("cut to %.20q … %q", s, s[len(s)-20:])
	}

	s := newScope(t, defineT(t, echoSpec()))
	post := s.PostExecute("p", func(context.Context, *Call, Result) PostDecision { return AcceptContent{[]Content{Text(long)}} })
	if n := size(call(s, "echo", `{"text":"a"}`)); n > MaxContent {
		t.Errorf("%d bytes after PostExecute", n)
	}
	post()
	for name, args := range map[string]string{
		"echo": `{"` + long + `":1}`,
		long:   `{}`,
	} {
		r := call(s, name, args)
		if n := len(r.Failure().Message); n > maxMessage || size(r) > maxMessage {
			t.Errorf("a message of %d bytes, content of %d", n, size(r))
		}
	}
	s.PreExecute("p", func(context.Context, *Call, func() Decision) Decision { return Deny{Reason: long} })
	if r := call(s, "echo", `{"text":"a"}`); size(r) > MaxContent || len(r.Failure().Message) > maxMessage {
		t.Errorf("denied in %d bytes", size(r))
	}
}

// No number is rounded on its way to the body: it arrives as it was written, or
// the call is refused.
func TestCall_NumbersAreLossless(t *testing.T) {
	type args struct {
		I int64   `json:"i,omitzero"`
		F float64 `json:"f,omitzero"`
		J JSON    `json:"j,omitzero"`
	}
	type value struct {
		I int64   `json:"i"`
		F float64 `json:"f"`
		J JSON    `json:"j"`
	}
	tool := defineT(t, Spec[args, value]{
		Name: "n", Description: "d", Parallel: true,
		Execute: func(_ context.Context, a args, _ *Call) (value, error) { return value(a), nil },
		Render:  func(args, value) []Content { return nil },
	})
	s := newScope(t, tool)
	for arg, want := range map[string]string{
		`{"i":9007199254740993}`:                  `{"i":9007199254740993,"f":0,"j":null}`,
		`{"i":9223372036854775807}`:               `{"i":9223372036854775807,"f":0,"j":null}`,
		`{"i":9223372036854775808}`:               "",
		`{"f":9007199254740992}`:                  `{"i":0,"f":9007199254740992,"j":null}`,
		`{"f":9007199254740993}`:                  "",
		`{"f":-9007199254740993}`:                 "",
		`{"f":18446744073709551616}`:              `{"i":0,"f":18446744073709552000,"j":null}`, // 2^64, of which that is the shortest form
		`{"f":0.5}`:                               `{"i":0,"f":0.5,"j":null}`,
		`{"f":1e400}`:                             "",
		`{"j":[9007199254740993,1.0,1e3,-0,0.1]}`: `{"i":0,"f":0,"j":[9007199254740993,1.0,1e3,-0,0.1]}`,
	} {
		r := call(s, "n", arg)
		if want == "" {
			wantCode(t, r, CodeInvalidArgs)
		} else if r.Value().String() != want {
			t.Errorf("%s: %s, %v", arg, r.Value(), r.Failure())
		}
	}
	type loose struct {
		A any `json:"a"`
	}
	if _, err := SchemaOf[loose](true); err == nil {
		t.Error("a type that rounds numbers was accepted for arguments")
	}
	if _, err := SchemaOf[loose](false); err != nil {
		t.Error(err)
	}
}

// A call whose caller cancels it before the body is CANCELLED, whatever was
// decided meanwhile.
func TestCall_CancelledBeforeTheBody(t *testing.T) {
	for name, answer := range map[string]Answer{"allowed": AllowedOnce, "rejected": Rejected, "dismissed": Dismissed, "nobody": Unavailable} {
		ran := false
		spec := echoSpec()
		spec.Execute = func(context.Context, echoArgs, *Call) (echoValue, error) { ran = true; return echoValue{}, nil }
		s := newScope(t, defineT(t, spec))
		ctx, cancel := context.WithCancel(t.Context())
		s.PreExecute("asks", func(context.Context, *Call, func() Decision) Decision { return Ask{Reason: "r"} })
		s.SetApprover(answers(func(Question) Answer { cancel(); return answer }))
		wantCode(t, s.Call(ctx, Request{Name: "echo", Args: []byte(`{"text":"a"}`)}), CodeCancelled)
		if ran {
			t.Errorf("%s: the body ran", name)
		}
	}
}

// The innermost approver is asked.
func TestApproval_OfTheInnermostScope(t *testing.T) {
	root := newScope(t, named1(t, "a", "x"))
	root.PreExecute("asks", func(context.Context, *Call, func() Decision) Decision { return Ask{Reason: "r"} })
	root.SetApprover(answers(func(Question) Answer { return Rejected }))
	child := root.Child("c")
	wantCode(t, call(child, "a", `{"text":"x"}`), CodeApprovalRejected)
	child.SetApprover(answers(func(Question) Answer { return AllowedOnce }))
	wantCode(t, call(child.Child("d"), "a", `{"text":"x"}`), "")
	wantCode(t, call(root, "a", `{"text":"x"}`), CodeApprovalRejected)
}

// Listeners are asked once each, however often next is called.
func TestPreExecute_NextIsAskedOnce(t *testing.T) {
	asked := 0
	s := newScope(t, named1(t, "a", "x"))
	s.PreExecute("twice", func(_ context.Context, _ *Call, next func() Decision) Decision { next(); return next() })
	s.PreExecute("counts", func(_ context.Context, _ *Call, next func() Decision) Decision { asked++; return next() })
	wantCode(t, call(s, "a", `{"text":"x"}`), "")
	if asked != 1 {
		t.Errorf("asked %d times", asked)
	}
}

// New content leaves value and metadata; a new value has both rendered again.
func TestPostExecute_WhatStays(t *testing.T) {
	spec := echoSpec()
	spec.Meta = func(_ echoArgs, v echoValue) any { return "of " + v.Said }
	for _, tt := range []struct {
		d    PostDecision
		want string
	}{
		{Accept{}, `{"ok":true,"value":{"said":"a","times":1,"notes":[]},"content":[{"type":"text","text":"a"}],"meta":"of a"}`},
		{AcceptContent{[]Content{Text("b")}}, `{"ok":true,"value":{"said":"a","times":1,"notes":[]},"content":[{"type":"text","text":"b"}],"meta":"of a"}`},
		{AcceptValue{echoValue{Said: "b"}}, `{"ok":true,"value":{"said":"b","times":0,"notes":[]},"content":[{"type":"text","text":"b"}],"meta":"of b"}`},
		{Block{"no"}, `{"ok":false,"error":{"code":"BLOCKED","message":"no","details":{"by":"p"}},"content":[{"type":"text","text":"no"}]}`},
	} {
		s := newScope(t, defineT(t, spec))
		s.PostExecute("p", func(context.Context, *Call, Result) PostDecision { return tt.d })
		if j, err := MarshalValue(call(s, "echo", `{"text":"a"}`)); err != nil || j.String() != tt.want {
			t.Errorf("%T:\n%s, %v, want\n%s", tt.d, j, err, tt.want)
		}
	}
}

func TestNormalise(t *testing.T) {
	o := normalise(Outcome{value: JSON{"1"}, failure: Failf("X", "why")})
	if !o.value.IsZero() || len(o.content) != 1 || o.content[0].Text() != "why" {
		t.Errorf("%+v", o)
	}
}

func TestParseJSON_Depth(t *testing.T) {
	for depth, ok := range map[int]bool{1: true, MaxDepth: true, MaxDepth + 1: false, 20_000: false} {
		for _, in := range []string{
			strings.Repeat("[", depth) + strings.Repeat("]", depth),
			strings.Repeat(`{"a":`, depth-1) + "{}" + strings.Repeat("}", depth-1),
		} {
			if _, err := ParseJSON([]byte(in)); (err == nil) != ok {
				t.Errorf("%.5s, %d deep: %v", in, depth, err)
			}
		}
	}
}

// What fails in a stage is told, once, with the stage and the name of what
// failed.
func TestFaults_NameTheStage(t *testing.T) {
	for stage, arm := range map[string]func(s *Scope, spec *Spec[echoArgs, echoValue]){
		"pre-execute": func(s *Scope, _ *Spec[echoArgs, echoValue]) {
			s.PreExecute("x", func(context.Context, *Call, func() Decision) Decision { panic("x") })
		},
		"approval": func(s *Scope, _ *Spec[echoArgs, echoValue]) {
			s.PreExecute("asks", func(context.Context, *Call, func() Decision) Decision { return Ask{} })
			s.SetApprover(answers(func(Question) Answer { panic("x") }))
		},
		"guard": func(s *Scope, _ *Spec[echoArgs, echoValue]) { s.Guard("x", func(*Call) (string, bool) { panic("x") }) },
		"execute": func(s *Scope, _ *Spec[echoArgs, echoValue]) {
			s.Wrap("x", func(context.Context, *Call, Body) Outcome { panic("x") })
		},
		"body": func(_ *Scope, spec *Spec[echoArgs, echoValue]) {
			spec.Execute = func(context.Context, echoArgs, *Call) (echoValue, error) { panic("x") }
		},
		"post-execute": func(s *Scope, _ *Spec[echoArgs, echoValue]) {
			s.PostExecute("x", func(context.Context, *Call, Result) PostDecision { panic("x") })
		},
		"render": func(s *Scope, spec *Spec[echoArgs, echoValue]) {
			spec.Render = func(_ echoArgs, v echoValue) []Content {
				if v.Said == "b" {
					panic("x")
				}
				return nil
			}
			s.PostExecute("x", func(context.Context, *Call, Result) PostDecision { return AcceptValue{echoValue{Said: "b"}} })
		},
		"finalize": func(_ *Scope, spec *Spec[echoArgs, echoValue]) {
			spec.FinalizeContent = func(*Call, bool, []Content) []Content { panic("x") }
		},
		"observer": func(s *Scope, _ *Spec[echoArgs, echoValue]) { s.Observe("x", func(*Call, Result) { panic("x") }) },
	} {
		var faults []Fault
		s := New(Options{Faults: func(f Fault) { faults = append(faults, f) }})
		spec := echoSpec()
		arm(s, &spec)
		if _, err := s.Register(defineT(t, spec)); err != nil {
			t.Fatal(err)
		}
		name := map[string]string{"approval": "", "body": "echo", "finalize": "echo"}
		want, ok := name[stage]
		if !ok {
			want = "x"
		}
		call(s, "echo", `{"text":"a"}`)
		if len(faults) != 1 || faults[0].Stage != stage || faults[0].Name != want || faults[0].Value != "x" || faults[0].Call.ID() != "1" {
			t.Errorf("%s: %+v", stage, faults)
		}
	}
}

// A stage that ends its goroutine, which a panic's recovery doesn't see, fails
// its call and holds up nobody else.
func TestQueue_GoexitIsAFailure(t *testing.T) {
	for _, stage := range []string{"body", "observer", "guard"} {
		synctest.Test(t, func(t *testing.T) {
			exit := func(at string) {
				if at == stage {
					runtime.Goexit()
				}
			}
			finals := 0
			spec := echoSpec()
			spec.Execute = func(context.Context, echoArgs, *Call) (echoValue, error) { exit("body"); return echoValue{}, nil }
			spec.FinalizeContent = func(_ *Call, ok bool, c []Content) []Content { finals++; return c }
			s := newScope(t, defineT(t, spec), named1(t, "fine", "x"))
			s.Guard("g", func(c *Call) (string, bool) {
				if c.Name() == "echo" {
					exit("guard")
				}
				return "", false
			})
			s.Observe("o", func(c *Call, _ Result) {
				if c.Name() == "echo" {
					exit("observer")
				}
			})
			q := NewQueue(s, Barrier, 0)
			bad := q.Submit(t.Context(), Request{ID: "1", Name: "echo", Args: []byte(`{"text":"a"}`)})
			good := q.Submit(t.Context(), Request{ID: "2", Name: "fine", Args: []byte(`{"text":"a"}`)})
			code := CodeToolPanic
			if stage == "observer" {
				code = "" // whose faults change nothing
			}
			wantCode(t, bad.Result(), code)
			wantCode(t, good.Result(), "")
			q.Wait()
			if finals != 1 {
				t.Errorf("%s: finalized %d times", stage, finals)
			}
		})
	}
}

// Guards come last before the body: they see what an approval granted, and of a
// call that was refused there is nothing to ask them.
func TestGuards_ComeAfterApproval(t *testing.T) {
	for answer, want := range map[Answer][]string{AllowedOnce: {"asked", `guard {"network":"full"}`, "body"}, Rejected: {"asked"}} {
		var order []string
		spec := echoSpec()
		spec.Execute = func(context.Context, echoArgs, *Call) (echoValue, error) {
			order = append(order, "body")
			return echoValue{}, nil
		}
		s := newScope(t, defineT(t, spec))
		s.Guard("g", func(c *Call) (string, bool) { order = append(order, "guard "+c.Grants().String()); return "", false })
		s.PreExecute("asks", func(context.Context, *Call, func() Decision) Decision {
			return Ask{Reason: "r", Grants: map[string]string{"network": "full"}}
		})
		s.SetApprover(answers(func(Question) Answer { order = append(order, "asked"); return answer }))
		call(s, "echo", `{"text":"a"}`)
		if !slices.Equal(order, want) {
			t.Errorf("answer %d: %q, want %q", answer, order, want)
		}
	}
}

// Every guard is asked, whatever the others say, and all reasons are told.
func TestGuards_AllAreAsked(t *testing.T) {
	asked := 0
	s := newScope(t, named1(t, "a", "x"))
	for _, reason := range []string{"one", "", "two"} {
		s.Guard("g"+reason, func(*Call) (string, bool) { asked++; return reason, reason != "" })
	}
	r := call(s, "a", `{"text":"x"}`)
	wantCode(t, r, CodeDenied)
	if asked != 3 || r.Failure().Message != "one; two" || r.Failure().Details.String() != `{"by":"gone, gtwo","reason":"one; two"}` {
		t.Errorf("%d asked: %v %s", asked, r.Failure(), r.Failure().Details)
	}
}

// A fault of a tool is told without what it panicked with, which is for those
// who mend it.
func TestFailure_ShowsNothingOfThePanic(t *testing.T) {
	for name, arm := range map[string]func(s *Scope, spec *Spec[echoArgs, echoValue]){
		"body": func(_ *Scope, spec *Spec[echoArgs, echoValue]) {
			spec.Execute = func(context.Context, echoArgs, *Call) (echoValue, error) { panic("inner secret") }
		},
		"guard": func(s *Scope, _ *Spec[echoArgs, echoValue]) {
			s.Guard("g", func(*Call) (string, bool) { panic("inner secret") })
		},
		"wrapper": func(s *Scope, _ *Spec[echoArgs, echoValue]) {
			s.Wrap("w", func(context.Context, *Call, Body) Outcome { panic("inner secret") })
		},
		"post": func(s *Scope, _ *Spec[echoArgs, echoValue]) {
			s.PostExecute("p", func(context.Context, *Call, Result) PostDecision { panic("inner secret") })
		},
	} {
		s, spec := newScope(t), echoSpec()
		arm(s, &spec)
		if _, err := s.Register(defineT(t, spec)); err != nil {
			t.Fatal(err)
		}
		j, err := MarshalValue(call(s, "echo", `{"text":"a"}`))
		if err != nil || strings.Contains(j.String(), "inner secret") || strings.Contains(j.String(), "goroutine") || strings.Contains(j.String(), ".go:") {
			t.Errorf("%s: %s, %v", name, j, err)
		}
	}
}

// A value that breaks its schema reaches nobody, whoever made it.
func TestOutput_IsValidated(t *testing.T) {
	type value struct {
		Kind string `json:"kind" schema:"enum=a|b"`
	}
	tool := defineT(t, Spec[echoArgs, value]{
		Name: "v", Description: "d",
		Execute: func(_ context.Context, a echoArgs, _ *Call) (value, error) { return value{a.Text}, nil },
		Render:  func(_ echoArgs, v value) []Content { return []Content{Text(v.Kind)} },
	})
	s := newScope(t, tool)
	wantCode(t, call(s, "v", `{"text":"a"}`), "")
	r := call(s, "v", `{"text":"secret"}`)
	wantCode(t, r, CodeInvalidOutput)
	if d := r.Failure().Details.String(); !strings.Contains(d, `"path":"kind"`) {
		t.Errorf("details %s", d)
	}
	for kind, code := range map[string]string{"b": "", "c": CodeInvalidOutput} {
		undo := s.PostExecute("p", func(context.Context, *Call, Result) PostDecision { return AcceptValue{value{kind}} })
		wantCode(t, call(s, "v", `{"text":"a"}`), code)
		undo()
	}
}

// Materialising keeps nothing of the caller's bytes, and changes none.
func TestParseJSON_LeavesItsInput(t *testing.T) {
	const text = ` { "a" : [ 1 , 2 ] } `
	in := []byte(text)
	j, err := ParseJSON(in)
	if err != nil || string(in) != text {
		t.Fatalf("%q, %v", in, err)
	}
	clear(in)
	if j.String() != `{"a":[1,2]}` {
		t.Errorf("%s", j)
	}
}
