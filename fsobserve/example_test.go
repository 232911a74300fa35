package fsobserve_test

import (
	"context"
	"fmt"
	"os"

	"github.com/dshx/dshx/fsobserve"
	"github.com/dshx/dshx/pipeline"
)

// A tool that reads and a tool that edits, as far as observation goes.
func Example() {
	dir, err := os.MkdirTemp("", "example-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	observer, err := fsobserve.New(fsobserve.Options{LockDir: dir + "/locks"})
	if err != nil {
		panic(err)
	}
	stateOf := func(content string) fsobserve.State {
		return fsobserve.State{Dev: 1, Ino: 2, Size: int64(len(content)), Hash: fsobserve.Hash([]byte(content))}
	}
	type none struct{}
	tool, err := pipeline.Define(pipeline.Spec[none, none]{
		Name: "x", Description: "an example",
		Execute: func(ctx context.Context, _ none, c *pipeline.Call) (none, error) {
			unlock, err := observer.Lock(ctx, "file")
			if err != nil {
				return none{}, err
			}
			defer unlock()
			now := stateOf("one")
			fmt.Println(observer.Check(c, fsobserve.Edit, "/w/file", &now))
			observer.Observed(c, "/w/file", now, []byte("one"))
			fmt.Println(observer.Check(c, fsobserve.Edit, "/w/file", &now))
			now = stateOf("two")
			fmt.Println(observer.Check(c, fsobserve.Edit, "/w/file", &now))
			return none{}, nil
		},
		Render: func(none, none) []pipeline.Content { return nil },
	})
	if err != nil {
		panic(err)
	}
	scope := pipeline.New(pipeline.Options{})
	if _, err := scope.Register(tool); err != nil {
		panic(err)
	}
	scope.Call(context.Background(), pipeline.Request{Name: "x"})
	// Output:
	// "/w/file" was not read before
	// <nil>
	// "/w/file" has changed since it was read
}
