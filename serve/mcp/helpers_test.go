package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dshx/dshx/approval"
	"github.com/dshx/dshx/pipeline"
)

var update = flag.Bool("update", false, "write the goldens")

type sayArgs struct {
	Text   string `json:"text,omitzero"`
	Wait   int    `json:"wait_ms,omitzero"`
	Block  bool   `json:"block,omitzero"`
	Ask    bool   `json:"ask,omitzero"`
	Times  int    `json:"times,omitzero"`
	Fail   string `json:"fail,omitzero"`
	Report string `json:"report,omitzero"`
}

type sayValue struct {
	Said  string   `json:"said"`
	Lines []string `json:"lines"`
}

// testTools are say (parallel), alone (exclusive).
func testTools(t testing.TB) []*pipeline.Tool {
	t.Helper()
	body := func(ctx context.Context, a sayArgs, c *pipeline.Call) (sayValue, error) {
		if a.Text == "panic" {
			panic("boom")
		}
		v := sayValue{Said: strings.Repeat(a.Text, max(a.Times, 1))}
		if a.Fail != "" {
			return v, pipeline.Fail(a.Fail, "it failed: <"+a.Text+">", map[string]string{"why": "asked & done"})
		}
		if a.Report != "" {
			c.Report(pipeline.Progress{Stream: "stdout", Data: []byte(a.Report)})
		}
		if a.Block {
			<-ctx.Done()
			return v, &pipeline.Partial{Value: v, Cause: ctx.Err()}
		}
		select {
		case <-time.After(time.Duration(a.Wait) * time.Millisecond):
		case <-ctx.Done():
			return v, &pipeline.Partial{Value: v, Cause: ctx.Err()}
		}
		return v, nil
	}
	spec := pipeline.Spec[sayArgs, sayValue]{Name: "say", Title: "Say", Description: "says <it>", Execute: body, Hints: pipeline.Hints{ReadOnly: true, Idempotent: true},
		Render:          func(_ sayArgs, v sayValue) []pipeline.Content { return []pipeline.Content{pipeline.Text(v.Said)} },
		ConcurrencySafe: func(sayArgs) bool { return true }}
	say, err := pipeline.Define(spec)
	if err != nil {
		t.Fatal(err)
	}
	spec.Name, spec.Title, spec.ConcurrencySafe, spec.Hints = "alone", "", nil, pipeline.Hints{Destructive: true}
	alone, err := pipeline.Define(spec)
	if err != nil {
		t.Fatal(err)
	}
	return []*pipeline.Tool{alone, say}
}

// fake is a Session without a sandbox.
type fake struct {
	scope *pipeline.Scope
	mu    sync.Mutex
	ends  []func(JobEnd)
	jobs  int // times that EndJobs was called
	close int

	never     bool
	workspace string
	approvals *approval.Service
	notes     []string
}

func newFake(t testing.TB) *fake {
	root := pipeline.New(pipeline.Options{})
	if _, err := root.Register(testTools(t)...); err != nil {
		t.Fatal(err)
	}
	s := root.Child("connection")
	s.PreExecute("asks", func(_ context.Context, c *pipeline.Call, next func() pipeline.Decision) pipeline.Decision {
		if strings.Contains(c.Args().String(), `"ask":true`) {
			return pipeline.Ask{Reason: "may it?", Grants: map[string]string{"network": "full"}}
		}
		return next()
	})
	return &fake{scope: s}
}

func (f *fake) Scope() *pipeline.Scope { return f.scope }

func (f *fake) Approvals() *approval.Service {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.approvals == nil {
		policy := approval.Ask
		if f.never {
			policy = approval.Never
		}
		f.approvals = approval.New(policy, 0)
		f.scope.SetApprover(f.approvals)
	}
	return f.approvals
}

func (f *fake) Note(kind, text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.notes = append(f.notes, kind+": "+text)
}

func (f *fake) Workspace() string { return f.workspace }
func (f *fake) Status() string    { return "all is well" }

func (f *fake) JobEnds(ended func(JobEnd)) func() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ends = append(f.ends, ended)
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.ends = nil
	}
}

func (f *fake) jobEnds(id string) {
	f.mu.Lock()
	ends := f.ends
	f.mu.Unlock()
	j, _ := pipeline.MarshalValue(map[string]string{"jobId": id})
	for _, e := range ends {
		e(JobEnd{Text: "job " + id + " has exited", Job: j})
	}
}

func (f *fake) EndJobs() {
	f.mu.Lock()
	f.jobs++
	f.mu.Unlock()
}

func (f *fake) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.close++
	f.scope.Close()
	return nil
}

// options are those of a connection over f.
func (f *fake) options(t testing.TB) Options {
	return Options{Version: "1.2.3",
		Open:  func() (Session, error) { return f, nil },
		Tools: func() ([]*pipeline.Tool, error) { return testTools(t), nil }}
}

// buffer is an output that can be looked at while it is written.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) lines() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.b.String()
	end := strings.LastIndexByte(s, '\n')
	if end < 0 {
		return nil
	}
	return strings.Split(s[:end], "\n")
}

const (
	hello   = `{"jsonrpc":"2.0","id":"hello","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"0"}}}`
	welcome = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
)

// run is what comes back for lines behind a handshake, that of the handshake
// left out.
func run(t testing.TB, in string, o Options) []string {
	t.Helper()
	var out buffer
	if err := Serve(context.Background(), strings.NewReader(hello+"\n"+welcome+"\n"+in), &out, o); err != nil {
		t.Errorf("Serve: %v", err)
	}
	lines := out.lines()
	for _, l := range lines {
		if !json.Valid([]byte(l)) {
			t.Errorf("not JSON: %q", l)
		}
	}
	for i, l := range lines {
		if strings.HasPrefix(l, `{"jsonrpc":"2.0","id":"hello",`) {
			return append(append([]string{}, lines[:i]...), lines[i+1:]...)
		}
	}
	t.Fatalf("no handshake: %q", lines)
	return nil
}

// conn is a connection that is talked to.
type conn struct {
	t    testing.TB
	feed *io.PipeWriter
	out  *buffer
	done chan error
	seen int
}

// connect connects and shakes hands.
func connect(t testing.TB, ctx context.Context, o Options) *conn {
	c := dial(t, ctx, o)
	c.send(hello)
	c.want(`{"jsonrpc":"2.0","id":"hello","result":{`)
	c.send(welcome)
	return c
}

func dial(t testing.TB, ctx context.Context, o Options) *conn {
	in, feed := io.Pipe()
	c := &conn{t: t, feed: feed, out: &buffer{}, done: make(chan error, 1)}
	go func() { c.done <- Serve(ctx, in, c.out, o) }()
	return c
}

func (c *conn) send(line string) { io.WriteString(c.feed, line+"\n") }

// call sends a tools/call; id and arguments are JSON.
func (c *conn) call(id, tool, args string) {
	c.send(call(id, tool, args))
}

func call(id, tool, args string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"` + tool + `","arguments":` + args + `}}`
}

func ping(id string) string { return `{"jsonrpc":"2.0","id":` + id + `,"method":"ping"}` }

func cancel(id string) string {
	return `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `,"reason":"user"}}`
}

// next waits for the next line.
func (c *conn) next() string {
	c.t.Helper()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		if l := c.out.lines(); len(l) > c.seen {
			c.seen++
			return l[c.seen-1]
		}
		if time.Now().After(end) {
			c.t.Fatalf("no further line after %q", c.out.lines())
		}
	}
}

func (c *conn) end() error {
	c.feed.Close()
	return <-c.done
}

func (c *conn) want(prefix string) string {
	c.t.Helper()
	got := c.next()
	if !strings.HasPrefix(got, prefix) {
		c.t.Errorf("got  %s\nwant %s", got, prefix)
	}
	return got
}

func result(id string) string  { return `{"jsonrpc":"2.0","id":` + id + `,"result":` }
func failure(id string) string { return `{"jsonrpc":"2.0","id":` + id + `,"error":{"code":` }

var errSignal = errors.New("terminated")

// golden compares with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s has changed; -update writes it.\ngot\n%s\nwant\n%s", path, got, want)
	}
}

func sprint(format string, a ...any) string { return fmt.Sprintf(format, a...) }
