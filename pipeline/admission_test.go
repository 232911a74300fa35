package pipeline

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// What admissions give a call is there before any policy is asked, and given back
// once, last first, whatever becomes of the call; one that refuses says by which
// code.
func TestAdmission(t *testing.T) {
	for name, tt := range map[string]struct {
		second func(ctx context.Context) error
		policy func() Decision
		body   func()
		code   string
		told   string
	}{
		"admitted":   {nil, nil, nil, "", "+1 +2 policy body -2 -1"},
		"denied":     {nil, func() Decision { return Deny{} }, nil, CodeDenied, "+1 +2 policy -2 -1"},
		"panics":     {nil, nil, func() { panic("x") }, CodeToolPanic, "+1 +2 policy body -2 -1"},
		"exits":      {nil, nil, runtime.Goexit, CodeToolPanic, "+1 +2 policy body -2 -1"},
		"refused":    {func(context.Context) error { return Failf("SANDBOX_UNAVAILABLE", "x") }, nil, nil, "SANDBOX_UNAVAILABLE", "+1 +2 -2 -1"},
		"an error":   {func(context.Context) error { return errors.New("x") }, nil, nil, CodeInternal, "+1 +2 -2 -1"},
		"it panics":  {func(context.Context) error { panic("x") }, nil, nil, CodeInternal, "+1 +2 -1"},
		"it exits":   {func(context.Context) error { runtime.Goexit(); return nil }, nil, nil, CodeToolPanic, "+1 +2 -1"},
		"it is over": {func(ctx context.Context) error { return errors.New("whatever") }, nil, nil, CodeCancelled, "+1 +2 -2 -1"},
	} {
		var told []string
		say := func(s string) { told = append(told, s) }
		spec := echoSpec()
		spec.Execute = func(context.Context, echoArgs, *Call) (echoValue, error) {
			say("body")
			if tt.body != nil {
				tt.body()
			}
			return echoValue{}, nil
		}
		root := New(Options{})
		if _, err := root.Register(defineT(t, spec)); err != nil {
			t.Fatal(err)
		}
		s := root.Child("c")
		ctx, cancel := context.WithCancel(t.Context())
		// The outer scope's comes first, and panics when it is left: that changes
		// nothing.
		s.Admit("two", func(ctx context.Context, _ *Call) (leave func(), err error) {
			say("+2")
			if name == "it is over" {
				cancel()
			}
			if tt.second != nil {
				err = tt.second(ctx)
			}
			return func() { say("-2"); panic("x") }, err
		})
		root.Admit("one", func(context.Context, *Call) (func(), error) { say("+1"); return func() { say("-1") }, nil })
		undo := root.Admit("none", func(context.Context, *Call) (func(), error) { return nil, nil })
		root.PreExecute("p", func(_ context.Context, _ *Call, next func() Decision) Decision {
			say("policy")
			if tt.policy != nil {
				return tt.policy()
			}
			return next()
		})
		r := NewQueue(s, Serial, 0).Submit(ctx, Request{Name: "echo", Args: []byte(`{"text":"a"}`)}).Result()
		if code := fmt.Sprint(r.Failure()); (tt.code == "") != r.OK() || !strings.HasPrefix(code, tt.code) && tt.code != "" {
			t.Errorf("%s: %v", name, r.Failure())
		}
		if got := strings.Join(told, " "); got != tt.told {
			t.Errorf("%s: %s, want %s", name, got, tt.told)
		}
		undo()
		cancel()
	}
}
