package bash

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dshx/dshx/jobs"
	"github.com/dshx/dshx/pipeline"
	"github.com/dshx/dshx/sandbox"
	"github.com/dshx/dshx/sandboxpolicy"
	"github.com/dshx/dshx/tools/permission"
)

// A world is the tool in a scope of its own, with real processes.
type world struct {
	t     testing.TB
	work  string
	scope *sandbox.Scope
	req   sandboxpolicy.Request // what scope was opened with
	owner *jobs.Owner
	reg   *jobs.Registry
	root  *pipeline.Scope
	tool  *pipeline.Tool
	last  atomic.Int64
}

type option func(*sandboxpolicy.Request, *jobs.Options, *Options)

func (w *world) jobs(*pipeline.Call) *jobs.Owner { return w.owner }

func newWorld(t testing.TB, opts ...option) *world {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, work: base + "/home/work"}
	if err := os.MkdirAll(w.work, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(base+"/home/.ssh", 0o700); err != nil {
		t.Fatal(err)
	}
	req := sandboxpolicy.Request{Workspace: w.work, Cwd: w.work, NoConfig: true,
		Environ: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + base + "/home", "BASH_ENV=" + w.work + "/rc"}}
	jo := jobs.Options{Dir: base + "/jobs"}
	spill, err := sandbox.Spill(w.work)
	if err != nil {
		t.Fatal(err)
	}
	req.Read = []string{spill}
	o := Options{SpillDir: func(*pipeline.Call) string { return spill }}
	for _, f := range opts {
		f(&req, &jo, &o)
	}
	w.req = req
	if w.scope, err = sandbox.Open(req); err != nil {
		t.Fatal(err)
	}
	if w.reg, err = jobs.New(jo); err != nil {
		t.Fatal(err)
	}
	w.owner = w.reg.Owner("test")
	o.Domains, o.Jobs = &permission.Scopes{Base: w.scope, Request: req}, w.jobs
	w.root = pipeline.New(pipeline.Options{})
	if w.tool, err = New(o); err != nil {
		t.Fatal(err)
	}
	if _, err := w.root.Register(w.tool); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.reg.Close(context.Background()); err != nil {
			t.Errorf("the jobs' end: %v", err)
		}
		if err := w.scope.Close(); err != nil {
			t.Errorf("the scope's end: %v", err)
		}
		_ = os.RemoveAll(spill) // it would be kept for a week
	})
	return w
}

type object = map[string]any

func (w *world) call(ctx context.Context, args object, progress func(pipeline.Progress)) pipeline.Result {
	w.t.Helper()
	b, err := json.Marshal(args)
	if err != nil {
		w.t.Fatal(err)
	}
	return w.raw(ctx, string(b), progress)
}

func (w *world) raw(ctx context.Context, args string, progress func(pipeline.Progress)) pipeline.Result {
	id := "call " + itoa(w.last.Add(1))
	return w.root.Call(ctx, pipeline.Request{ID: id, Name: "bash", Args: []byte(args), Progress: progress})
}

func itoa(n int64) string {
	b, _ := json.Marshal(n)
	return string(b)
}

// ok is the value of a call that must succeed.
func (w *world) ok(args object) Value {
	w.t.Helper()
	r := w.call(context.Background(), args, nil)
	return w.value(r)
}

// bash is the value of a command.
func (w *world) bash(command string) Value {
	w.t.Helper()
	return w.ok(object{"command": command})
}

func (w *world) value(r pipeline.Result) Value {
	w.t.Helper()
	if !r.OK() {
		w.t.Fatalf("failed: %v %s", r.Failure(), r.Failure().Details)
	}
	var v Value
	if err := r.Value().Decode(&v); err != nil {
		w.t.Fatal(err)
	}
	return v
}

func (w *world) fails(args object, code string) *pipeline.Error {
	w.t.Helper()
	r := w.call(context.Background(), args, nil)
	if r.OK() || r.Failure().Code != code {
		w.t.Fatalf("%v: %s %v, want %s", args, r.Value(), r.Failure(), code)
	}
	return r.Failure()
}

func content(r pipeline.Result) string {
	var b strings.Builder
	for _, c := range r.Content() {
		b.WriteString(c.Text())
	}
	return b.String()
}

func (w *world) write(name, text string) {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(w.work, name), []byte(text), 0o755); err != nil {
		w.t.Fatal(err)
	}
}

// within waits until f holds.
func within(t testing.TB, d time.Duration, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(d); !f(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", d, what)
		}
	}
}

// mark is a value for MARK that no other run of the test has.
func mark(t testing.TB) string { return t.Name() + itoa(int64(os.Getpid())) }

// marked are the live processes with that MARK in their environment.
func marked(value string) (pids []string) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		env, _ := os.ReadFile(dir + "/environ")
		if strings.Contains("\x00"+string(env), "\x00MARK="+value+"\x00") {
			pids = append(pids, filepath.Base(dir))
		}
	}
	return pids
}

func (w *world) job(id string) jobs.Job {
	w.t.Helper()
	j, err := w.owner.Job(id)
	if err != nil {
		w.t.Fatal(err)
	}
	return j
}

func (w *world) output(id string) string {
	w.t.Helper()
	c, err := w.owner.Read(id, jobs.ReadOptions{Limit: jobs.MaxReadLimit})
	if err != nil {
		w.t.Fatal(err)
	}
	return string(c.Stdout)
}

// counts are of this process: descriptors, threads, goroutines.
func counts() (fds, threads, routines int) {
	f, _ := os.ReadDir("/proc/self/fd")
	th, _ := os.ReadDir("/proc/self/task")
	return len(f), len(th), runtime.NumGoroutine()
}

// zombies are the children of this process that have ended.
func zombies() (out []string) {
	tasks, _ := filepath.Glob("/proc/self/task/*/children")
	for _, path := range tasks {
		list, _ := os.ReadFile(path)
		for _, pid := range strings.Fields(string(list)) {
			if b, _ := os.ReadFile("/proc/" + pid + "/stat"); strings.Contains(string(b), ") Z ") {
				out = append(out, string(b))
			}
		}
	}
	return out
}

type noDomain struct{}

func (noDomain) For(*pipeline.Call) (*sandbox.Scope, func(), error) {
	return nil, nil, &sandbox.UnavailableError{Reason: "no Landlock"}
}

func jsonUnmarshal(b []byte, into any) error { return json.Unmarshal(b, into) }

func sum(s string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(s))) }

type (
	requestT    = sandboxpolicy.Request
	jobOptions  = jobs.Options
	readOptions = jobs.ReadOptions
)
