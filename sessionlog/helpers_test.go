package sessionlog

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/dshx/dshx/pipeline"
	"github.com/dshx/dshx/sandboxpolicy"
)

// policyT is a policy with a workspace of its own, and secrets in the
// environment of its caller.
func policyT(t testing.TB, preset string, environ ...string) *sandboxpolicy.Policy {
	t.Helper()
	ws := realT(t, t.TempDir())
	p, _, err := sandboxpolicy.Resolve(sandboxpolicy.Request{Preset: preset, Workspace: ws, Cwd: ws, NoConfig: true, AllowBroadWorkspace: true,
		Environ: append([]string{"HOME=" + ws, "PATH=/bin"}, environ...)}, sandboxpolicy.OSFacts{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func realT(t testing.TB, path string) string {
	t.Helper()
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		t.Fatal(err)
	}
	return real
}

// complaints are what a log says.
type complaints struct {
	mu   sync.Mutex
	said []string
}

func (c *complaints) add(s string) {
	c.mu.Lock()
	c.said = append(c.said, s)
	c.mu.Unlock()
}

func openT(t testing.TB, path string, o Options) *Log {
	t.Helper()
	l, err := Open(path, policyT(t, ""), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// linesT are all lines of the log at path.
func linesT(t testing.TB, path string) []Line {
	t.Helper()
	r, err := OpenReader(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var out []Line
	for {
		line, err := r.Next()
		if err == io.EOF {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, line)
	}
}

// kinds is what lines are, in words.
func kinds(lines []Line) string {
	var out []string
	for _, l := range lines {
		switch r := l.Record.(type) {
		case nil:
			out = append(out, "("+l.Problem+")")
		case *Note:
			out = append(out, r.Text)
		case *Missing:
			out = append(out, fmt.Sprintf("missing %d", r.Records))
		default:
			out = append(out, r.kind())
		}
	}
	return strings.Join(out, " ")
}

func readT(t testing.TB, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

type sayArgs struct {
	Text string `json:"text"`
}

type sayValue struct {
	Said string `json:"said"`
}

// sayScope is a scope with a tool that says its argument in content, meta and
// failures.
func sayScope(t testing.TB) *pipeline.Scope {
	t.Helper()
	tool, err := pipeline.Define(pipeline.Spec[sayArgs, sayValue]{
		Name: "say", Description: "says it",
		Execute: func(_ context.Context, a sayArgs, c *pipeline.Call) (sayValue, error) {
			if strings.HasPrefix(a.Text, "fail") {
				return sayValue{}, pipeline.Fail("SAY_FAILED", a.Text, map[string]string{a.Text: a.Text})
			}
			return sayValue{a.Text}, nil
		},
		Render: func(_ sayArgs, v sayValue) []pipeline.Content {
			return []pipeline.Content{pipeline.Text("said " + v.Said), pipeline.Image([]byte(v.Said), "image/png")}
		},
		Meta: func(_ sayArgs, v sayValue) any { return map[string]string{v.Said: v.Said} },
	})
	if err != nil {
		t.Fatal(err)
	}
	s := pipeline.New(pipeline.Options{})
	if _, err := s.Register(tool); err != nil {
		t.Fatal(err)
	}
	return s
}

func say(s *pipeline.Scope, id, text string) pipeline.Result {
	args, _ := pipeline.MarshalValue(sayArgs{text})
	return s.Call(context.Background(), pipeline.Request{ID: id, Name: "say", Args: []byte(args.String())})
}
