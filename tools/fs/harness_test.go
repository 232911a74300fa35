package fs

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dshx/dshx/fsobserve"
	"github.com/dshx/dshx/pipeline"
	"github.com/dshx/dshx/sandbox"
	"github.com/dshx/dshx/sandboxpolicy"
	"github.com/dshx/dshx/tools/permission"
)

// rig is the tools in a workspace of a sandbox, as a front door has them.
type rig struct {
	t     testing.TB
	ws    string
	box   *sandbox.Scope
	scope *pipeline.Scope
}

// newRig makes a workspace with files and the tools in it. change, unless nil,
// changes what the sandbox is asked for.
func newRig(t testing.TB, files map[string]string, change func(*sandboxpolicy.Request)) *rig {
	t.Helper()
	ws, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for path, content := range files {
		put(t, filepath.Join(ws, path), content)
	}
	return rigIn(t, ws, change, Options{})
}

func rigIn(t testing.TB, ws string, change func(*sandboxpolicy.Request), o Options) *rig {
	t.Helper()
	req := sandboxpolicy.Request{Workspace: ws, Cwd: ws, Environ: os.Environ(), NoConfig: true, NoCacheArea: true}
	if change != nil {
		change(&req)
	}
	box, err := sandbox.Open(req)
	if err != nil {
		t.Skipf("no sandbox on this host: %v", err)
	}
	t.Cleanup(func() { _ = box.Close() })
	r := &rig{t: t, ws: ws, box: box, scope: pipeline.New(pipeline.Options{Faults: func(f pipeline.Fault) { t.Errorf("fault in %s: %v", f.Stage, f.Value) }})}
	o.Domains = InScopes(&permission.Scopes{Base: box, Request: req})
	if o.Observer == nil {
		o.Observer = newObserver(t)
	}
	if _, err := Register(r.scope, o); err != nil {
		t.Fatal(err)
	}
	r.scope.PreExecute("permissions", permission.Listener(box.Policy(), req))
	return r
}

func newObserver(t testing.TB) *fsobserve.Observer {
	t.Helper()
	return observerIn(t, filepath.Join(t.TempDir(), "locks"))
}

func observerIn(t testing.TB, dir string) *fsobserve.Observer {
	t.Helper()
	o, err := fsobserve.New(fsobserve.Options{LockDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// got is a result, taken apart.
type got struct {
	t      testing.TB
	r      pipeline.Result
	Code   string
	text   string // of the content
	Values map[string]any
}

// call makes a call; args are "name", value pairs.
func (r *rig) call(tool string, args ...any) got {
	r.t.Helper()
	m := map[string]any{}
	for i := 0; i < len(args); i += 2 {
		m[args[i].(string)] = args[i+1]
	}
	text, err := json.Marshal(m)
	if err != nil {
		r.t.Fatal(err)
	}
	return r.raw(tool, string(text))
}

func (r *rig) raw(tool, args string) got {
	r.t.Helper()
	return taken(r.t, r.scope.Lookup(tool), r.scope.Call(context.Background(), pipeline.Request{ID: "1", Name: tool, Args: []byte(args)}))
}

func taken(t testing.TB, tool *pipeline.Tool, res pipeline.Result) got {
	t.Helper()
	g := got{t: t, r: res}
	var texts []string
	for _, c := range res.Content() {
		texts = append(texts, c.Text())
	}
	g.text = strings.Join(texts, "\n")
	if len(g.text) > maxContent+1000 {
		t.Errorf("content of %d bytes", len(g.text))
	}
	if f := res.Failure(); f != nil {
		g.Code = f.Code
		if strings.Contains(f.Message, "\n") {
			t.Errorf("message of several lines: %q", f.Message)
		}
		if !f.Details.IsZero() {
			_ = json.Unmarshal([]byte(f.Details.String()), &g.Values)
		}
		return g
	}
	if bad := tool.Output().Validate(res.Value()); bad != nil {
		t.Errorf("the value breaks its schema: %v", bad)
	}
	if tool.Name() == "read" && !strings.Contains(res.Value().String(), `"kind":"directory"`) && strings.Contains(res.Value().String(), `":null`) {
		t.Errorf("null in %s", res.Value())
	}
	if err := json.Unmarshal([]byte(res.Value().String()), &g.Values); err != nil {
		t.Fatal(err)
	}
	return g
}

// ok fails the test unless the call did what it should.
func (g got) ok() got {
	g.t.Helper()
	if !g.r.OK() {
		g.t.Fatalf("failed: %v %s", g.r.Failure(), g.r.Failure().Details)
	}
	return g
}

// code fails the test unless the call failed with one of these codes.
func (g got) code(codes ...string) got {
	g.t.Helper()
	for _, c := range codes {
		if g.Code == c {
			return g
		}
	}
	if g.r.OK() {
		g.t.Fatalf("ok with %s, want %q", g.r.Value(), codes)
	}
	g.t.Fatalf("failed with %v, want %q", g.r.Failure(), codes)
	return g
}

// at is a member of the value or the details: "lines.0.text".
func (g got) at(path string) any {
	g.t.Helper()
	var v any = g.Values
	for name := range strings.SplitSeq(path, ".") {
		switch x := v.(type) {
		case map[string]any:
			var ok bool
			if v, ok = x[name]; !ok {
				g.t.Fatalf("no %s in %v", path, g.Values)
			}
		case []any:
			i := int(name[0] - '0')
			if i >= len(x) {
				g.t.Fatalf("no %s in %v", path, g.Values)
			}
			v = x[i]
		default:
			g.t.Fatalf("no %s in %v", path, g.Values)
		}
	}
	return v
}

// is compares a member, numbers as float64.
func (g got) is(path string, want any) got {
	g.t.Helper()
	if n, ok := want.(int); ok {
		want = float64(n)
	}
	if v := g.at(path); v != want {
		g.t.Errorf("%s is %v, want %v", path, v, want)
	}
	return g
}

// says fails the test unless the content has each of the texts.
func (g got) says(texts ...string) got {
	g.t.Helper()
	for _, s := range texts {
		if !strings.Contains(g.text, s) {
			g.t.Errorf("content has no %q:\n%s", s, g.text)
		}
	}
	return g
}

func (g got) strings(path string) []string {
	g.t.Helper()
	out := []string{}
	for _, v := range g.at(path).([]any) {
		switch v := v.(type) {
		case string:
			out = append(out, v)
		case map[string]any:
			out = append(out, v["path"].(string))
		}
	}
	return out
}

func put(t testing.TB, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func (r *rig) put(path, content string) { r.t.Helper(); put(r.t, filepath.Join(r.ws, path), content) }

func (r *rig) bytes(path string) string {
	r.t.Helper()
	data, err := os.ReadFile(filepath.Join(r.ws, path))
	if err != nil {
		r.t.Fatal(err)
	}
	return string(data)
}

// has fails the test unless the file has exactly this content.
func (r *rig) has(path, want string) {
	r.t.Helper()
	if got := r.bytes(path); got != want {
		r.t.Errorf("%s is %.200q, want %.200q", path, got, want)
	}
}

// nothingLeft fails the test if a temporary file is left in the workspace.
func (r *rig) nothingLeft() {
	r.t.Helper()
	err := filepath.WalkDir(r.ws, func(path string, _ os.DirEntry, err error) error {
		if strings.HasPrefix(filepath.Base(path), ".dshx-") {
			r.t.Errorf("%s is left", path)
		}
		return nil
	})
	if err != nil {
		r.t.Error(err)
	}
}

func (r *rig) edit(path, old, new string) got {
	r.t.Helper()
	return r.call("edit", "file_path", path, "old_string", old, "new_string", new)
}

func (r *rig) read(path string) got { r.t.Helper(); return r.call("read", "file_path", path) }

func differing(a, b []byte) int {
	if len(a) != len(b) {
		return -1
	}
	n := 0
	for i := range a {
		if a[i] != b[i] {
			n++
		}
	}
	return n
}

// fixed is one domain for all calls.
type fixed struct{ in Domain }

func (f fixed) For(*pipeline.Call) (Domain, func(), error) { return f.in, func() {}, nil }
