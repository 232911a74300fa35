package pipeline

import (
	"context"
	"testing"
)

type echoArgs struct {
	Text  string `json:"text" doc:"what to say" schema:"min=1"`
	Times int    `json:"times,omitzero" default:"1" schema:"min=1,max=10"`
}

type echoValue struct {
	Said  string   `json:"said"`
	Times int      `json:"times"`
	Notes []string `json:"notes"`
}

func echoSpec() Spec[echoArgs, echoValue] {
	return Spec[echoArgs, echoValue]{
		Name: "echo", Description: "says it again",
		Execute: func(_ context.Context, a echoArgs, _ *Call) (echoValue, error) {
			return echoValue{Said: a.Text, Times: a.Times}, nil
		},
		Render: func(_ echoArgs, v echoValue) []Content { return []Content{Text(v.Said)} },
	}
}

func defineT[A, V any](t testing.TB, s Spec[A, V]) *Tool {
	t.Helper()
	tool, err := Define(s)
	if err != nil {
		t.Fatal(err)
	}
	return tool
}

// newScope is a pipeline with tools; faults fail the test unless they are
// expected.
func newScope(t testing.TB, tools ...*Tool) *Scope {
	t.Helper()
	s := New(Options{})
	if _, err := s.Register(tools...); err != nil {
		t.Fatal(err)
	}
	return s
}

func call(s *Scope, name, args string) Result {
	return s.Call(context.Background(), Request{ID: "1", Name: name, Args: []byte(args)})
}

func wantCode(t testing.TB, r Result, code string) {
	t.Helper()
	if code == "" {
		if !r.OK() {
			t.Errorf("failed: %v", r.Failure())
		}
		return
	}
	if r.OK() || r.Failure().Code != code {
		t.Errorf("got %v, value %s; want %s", r.Failure(), r.Value(), code)
	}
	if !r.OK() && (!r.Value().IsZero() || len(r.Content()) == 0) {
		t.Errorf("a failure with value %s and %d blocks of content", r.Value(), len(r.Content()))
	}
}
