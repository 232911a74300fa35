package pipeline_test

import (
	"context"
	"fmt"

	"github.com/dshx/dshx/pipeline"
)

type addArgs struct {
	A int `json:"a" doc:"one number"`
	B int `json:"b,omitzero" default:"1" doc:"the other"`
}

type addValue struct {
	Sum int `json:"sum"`
}

// A tool is defined once, and policy is attached to the scope that it is
// called in. Every call has one result.
func Example() {
	add, err := pipeline.Define(pipeline.Spec[addArgs, addValue]{
		Name: "add", Description: "adds two numbers",
		Execute: func(_ context.Context, a addArgs, _ *pipeline.Call) (addValue, error) {
			return addValue{a.A + a.B}, nil
		},
		Render: func(_ addArgs, v addValue) []pipeline.Content {
			return []pipeline.Content{pipeline.Text(fmt.Sprint("the sum is ", v.Sum))}
		},
		Parallel: true,
	})
	if err != nil {
		panic(err)
	}
	root := pipeline.New(pipeline.Options{})
	if _, err := root.Register(add); err != nil {
		panic(err)
	}
	root.Guard("no big numbers", func(c *pipeline.Call) (string, bool) {
		return "numbers are at most three digits", len(c.Args().String()) > len(`{"a":999}`)
	})
	for _, args := range []string{`{"a":41}`, `{"a":41000}`, `{"a":"41"}`} {
		r := root.Call(context.Background(), pipeline.Request{ID: "1", Name: "add", Args: []byte(args)})
		if !r.OK() {
			fmt.Println(r.Failure())
			continue
		}
		fmt.Println(r.Value(), r.Content()[0].Text())
	}
	// Output:
	// {"sum":42} the sum is 42
	// DENIED: numbers are at most three digits
	// INVALID_ARGS: a must be an integer in plain digits, not the string "41"
}
