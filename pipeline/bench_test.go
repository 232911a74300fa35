package pipeline

import (
	"context"
	"testing"
)

type benchLine struct {
	N    int    `json:"n"`
	Text string `json:"text"`
}

type benchValue struct {
	Path  string      `json:"path"`
	Lines []benchLine `json:"lines"`
}

// BenchmarkValidate is a result of 2,000 lines against its schema.
func BenchmarkValidate(b *testing.B) {
	v := benchValue{Path: "f.go"}
	for i := range 2000 {
		v.Lines = append(v.Lines, benchLine{i + 1, "a line of some forty characters, or so it is"})
	}
	j, err := MarshalValue(v)
	if err != nil {
		b.Fatal(err)
	}
	s, err := SchemaOf[benchValue](false)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(j.text)))
	b.ReportAllocs()
	for b.Loop() {
		if bad := s.Validate(j); bad != nil {
			b.Fatal(bad)
		}
	}
}

// BenchmarkCall is a call of a tool that does nothing.
func BenchmarkCall(b *testing.B) {
	t, err := Define(Spec[benchLine, benchLine]{
		Name: "echo", Description: "says it again", Parallel: true,
		Execute: func(_ context.Context, a benchLine, _ *Call) (benchLine, error) { return a, nil },
		Render:  func(_, v benchLine) []Content { return []Content{Text(v.Text)} },
	})
	if err != nil {
		b.Fatal(err)
	}
	s := New(Options{})
	if _, err := s.Register(t); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if r := s.Call(context.Background(), Request{ID: "1", Name: "echo", Args: []byte(`{"n":1,"text":"0123456789"}`)}); !r.OK() {
			b.Fatal(r.Failure())
		}
	}
}
