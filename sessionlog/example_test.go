package sessionlog_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"

	"github.com/dshx/dshx/pipeline"
	"github.com/dshx/dshx/sandboxpolicy"
	"github.com/dshx/dshx/sessionlog"
)

// A call is written down, and its card made again from what was.
func Example() {
	dir, err := os.MkdirTemp("", "example-*")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	// The policy that the tools work under: its workspace is beside the log.
	ws := filepath.Join(dir, "ws")
	if err := os.Mkdir(ws, 0o755); err != nil {
		log.Fatal(err)
	}
	policy, _, err := sandboxpolicy.Resolve(sandboxpolicy.Request{Workspace: ws, Cwd: ws, NoConfig: true,
		Environ: []string{"HOME=" + dir, "API_TOKEN=swordfish"}}, sandboxpolicy.OSFacts{})
	if err != nil {
		log.Fatal(err)
	}
	type args struct {
		Name string `json:"name"`
	}
	greet, err := pipeline.Define(pipeline.Spec[args, args]{
		Name: "greet", Description: "greets",
		Execute:       func(_ context.Context, a args, _ *pipeline.Call) (args, error) { return a, nil },
		Render:        func(_ args, v args) []pipeline.Content { return []pipeline.Content{pipeline.Text("hello " + v.Name)} },
		PresentResult: func(a args, _ pipeline.Shown) pipeline.Card { return pipeline.GenericCard{Title: "Greet " + a.Name} },
	})
	if err != nil {
		log.Fatal(err)
	}
	scope := pipeline.New(pipeline.Options{})
	if _, err := scope.Register(greet); err != nil {
		log.Fatal(err)
	}

	path := filepath.Join(dir, "session.log")
	l, err := sessionlog.Open(path, policy, sessionlog.Options{})
	if err != nil {
		log.Fatal(err)
	}
	l.Scope("main").Attach(scope)
	scope.Call(context.Background(), pipeline.Request{ID: "1", Name: "greet", Args: []byte(`{"name":"swordfish and all"}`)})
	if err := l.Close(); err != nil {
		log.Fatal(err)
	}

	r, err := sessionlog.OpenReader(path)
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	replay := sessionlog.NewReplay(scope.Lookup)
	for {
		line, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil || line.Record == nil {
			log.Fatal(err, line.Problem)
		}
		if e := replay.Event(line.Record); e.Pending != nil {
			fmt.Println(pipeline.MarshalCard(e.Card))
		}
	}
	// Output: {"card":"generic","title":"Greet *** and all","kind":"","locations":[]}
}
