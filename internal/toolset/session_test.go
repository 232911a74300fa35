package toolset

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/dshx/dshx/jobs"
	"github.com/dshx/dshx/pipeline"
	"github.com/dshx/dshx/sandbox"
	"github.com/dshx/dshx/sandboxpolicy"
)

// call makes a call and returns its value; code is the failure's.
func call(t *testing.T, s *Session, name, args string) (v map[string]any, code string) {
	t.Helper()
	r := s.Scope.Call(t.Context(), pipeline.Request{ID: "1", Name: name, Args: []byte(args)})
	if !r.OK() {
		return nil, r.Failure().Code
	}
	if err := json.Unmarshal([]byte(r.Value().String()), &v); err != nil {
		t.Fatal(err)
	}
	return v, ""
}

// sh runs a command and returns what it printed; ok is that it exited with 0.
func sh(t *testing.T, s *Session, command string) (out string, ok bool) {
	t.Helper()
	args, err := json.Marshal(map[string]string{"command": command})
	if err != nil {
		t.Fatal(err)
	}
	v, code := call(t, s, "bash", string(args))
	if code != "" {
		t.Fatalf("%s: %s", command, code)
	}
	return v["stdout"].(string), v["exitCode"] == 0.0
}

// Opening and closing leaves nothing behind but what was too long, where that is
// to be kept.
func TestHost_ClosesWhole(t *testing.T) {
	for _, keep := range []bool{true, false} {
		h, ws := hostT(t, Options{KeepSpills: keep})
		s := sessionT(t, h)
		events := 0
		s.JobEvents(func(any) { panic("broken") })
		stop := s.JobEvents(func(any) { events++ })
		if _, code := call(t, s, "bash", `{"command":"sleep 300","run_in_background":true}`); code != "" {
			t.Fatal(code)
		}
		v, code := call(t, s, "bash", `{"command":"seq 1 100000"}`)
		if code != "" {
			t.Fatal(code)
		}
		spill := v["spill"].(map[string]any)["stdout"].(string)
		if strings.HasPrefix(spill, ws) {
			t.Errorf("the spill is in the workspace: %s", spill)
		}
		root := h.ground.kept.Path()
		for _, dir := range []string{root, filepath.Join(root, "jobs"), s.spills} {
			if fi, err := os.Stat(dir); err != nil || fi.Mode().Perm() != 0o700 || strings.HasPrefix(dir, ws) {
				t.Errorf("%s is for others, or in the workspace: %v, %v", dir, fi, err)
			}
		}
		if ids := s.LiveJobs(); len(ids) != 1 || ids[0] != "bash-1" {
			t.Errorf("live jobs %v", ids)
		}
		h.EndJobs()
		if events != 1 || len(s.LiveJobs()) != 0 {
			t.Errorf("told of %d ends, %v live", events, s.LiveJobs())
		}
		stop()
		if err := h.Close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(filepath.Join(root, "jobs")); !os.IsNotExist(err) {
			t.Errorf("the store of jobs is left: %v", err)
		}
		if _, err := os.Stat(spill); (err == nil) != keep {
			t.Errorf("keep %t: %v", keep, err)
		}
		if _, err := os.Stat(root); (err == nil) != keep {
			t.Errorf("keep %t: %s %v", keep, root, err)
		}
		_ = os.RemoveAll(root)
		if entries, err := os.ReadDir(ws); err != nil || len(entries) > 0 {
			t.Errorf("left in the workspace: %v, %v", entries, err)
		}
		if _, code := call(t, s, "bash", `{"command":"true"}`); code != pipeline.CodeCancelled {
			t.Errorf("a call after the end: %s", code)
		}
		late, err := h.Session("late")
		if err != nil {
			t.Fatal(err)
		}
		if _, code := call(t, late, "bash", `{"command":"true"}`); code != pipeline.CodeCancelled {
			t.Errorf("a session after the end: %s", code)
		}
		if err := late.Close(); err != nil {
			t.Error(err)
		}
	}
}

// What a session does is out of another's reach, and goes with its end; what the
// other has stays.
func TestSession_Apart(t *testing.T) {
	h, ws := hostT(t, Options{})
	a, b := sessionT(t, h), sessionT(t, h)

	// Long results and TMPDIR: their own calls reach them, the other's don't.
	v, code := call(t, a, "bash", `{"command":"echo secret > $TMPDIR/f; echo $TMPDIR; seq 1 100000"}`)
	if code != "" {
		t.Fatal(code)
	}
	tmp, _, _ := strings.Cut(v["stdout"].(string), "\n")
	spill := v["spill"].(map[string]any)["stdout"].(string)
	for _, path := range []string{spill, tmp + "/f"} {
		args := `{"file_path":"` + path + `"}`
		if _, ok := sh(t, a, "cat "+path); !ok {
			t.Errorf("control: %s can't be read by its session's commands", path)
		}
		if _, code := call(t, a, "read", args); code != "" {
			t.Errorf("control: read of %s: %s", path, code)
		}
		if out, ok := sh(t, b, "cat "+path); ok {
			t.Errorf("another session's command reads %s: %.20s", path, out)
		}
		if _, code := call(t, b, "read", args); code != "SANDBOX_DENIED" {
			t.Errorf("another session's read of %s: %q", path, code)
		}
	}
	// Jobs.
	for _, s := range []*Session{a, b} {
		if v, code := call(t, s, "bash", `{"command":"echo up; sleep 300","run_in_background":true}`); code != "" || v["jobId"] != "bash-1" {
			t.Fatal(v, code)
		}
	}
	if _, code := call(t, a, "bash", `{"command":"sleep 300","run_in_background":true}`); code != "" {
		t.Fatal(code)
	}
	if _, code := call(t, a, "job_output", `{"job_id":"bash-2"}`); code != "" {
		t.Errorf("control: %s", code)
	}
	if _, code := call(t, b, "job_output", `{"job_id":"bash-2"}`); code != "JOB_NOT_FOUND" {
		t.Errorf("another session's job: %q", code)
	}
	if out, ok := sh(t, b, "sleep 300 & kill -9 $!"); !ok {
		t.Errorf("control: a command can't end what it started: %s", out)
	}
	pid := a.owner.List()[0].PIDs[0]
	if out, ok := sh(t, b, "kill -9 "+strconv.Itoa(pid)); ok {
		t.Errorf("another session's command ends process %d: %s", pid, out)
	}
	if ids := a.LiveJobs(); len(ids) != 2 {
		t.Errorf("another session's command ended a job: %v", ids)
	}
	// Observations.
	if err := os.WriteFile(filepath.Join(ws, "f"), []byte("one\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	edit := `{"file_path":"f","old_string":"one","new_string":"two"}`
	if _, code := call(t, a, "read", `{"file_path":"f"}`); code != "" {
		t.Fatal(code)
	}
	if _, code := call(t, b, "edit", edit); code != "FS_NOT_OBSERVED" {
		t.Errorf("edit of what another session has read: %q", code)
	}
	if _, code := call(t, a, "edit", edit); code != "" {
		t.Errorf("control: %s", code)
	}
	// The end of one.
	if _, code := call(t, b, "bash", `{"command":"sleep 301","run_in_background":true}`); code != "" {
		t.Fatal(code)
	}
	live := len(b.LiveJobs())
	ended := 0
	a.OnJobEnd(func(e jobs.End) { ended++ })
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	if ended != 2 {
		t.Errorf("told of the end of %d jobs", ended)
	}
	for _, path := range []string{tmp, filepath.Dir(spill)} {
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			t.Errorf("%s is left: %v", path, err)
		}
	}
	if _, code := call(t, a, "read", `{"file_path":"f"}`); code != pipeline.CodeCancelled {
		t.Errorf("a call after the end: %q", code)
	}
	if n := len(b.LiveJobs()); n != live {
		t.Errorf("the other session has %d live jobs, had %d", n, live)
	}
	if out, ok := sh(t, b, "echo on"); !ok || out != "on\n" {
		t.Errorf("the other session: %q", out)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
}

// Tools can be listed before any policy is in force; calls wait for it, and what
// keeps it from being is their failure.
func TestSession_OpensBesides(t *testing.T) {
	req, ws := request(t)
	h := NewHost(req, Options{})
	defer h.Close()
	gate, prepare := make(chan struct{}), h.prepare
	h.prepare = func() *ground { <-gate; return prepare() }
	s, err := h.Session("test")
	if err != nil {
		t.Fatal(err)
	}
	if n := len(s.Scope.Tools()); n != len(contract) {
		t.Errorf("%d tools", n)
	}
	if s.Policy() != nil || s.Asks() || s.Notices() != nil || s.Enforcement().Level != "" {
		t.Error("a policy is said to be in force")
	}
	// A call that is cancelled waits no longer, and one whose arguments are wrong
	// doesn't at all.
	ctx, cancel := context.WithCancel(t.Context())
	q := pipeline.NewQueue(s.Scope, pipeline.Serial, 0)
	cancelled := q.Submit(ctx, pipeline.Request{ID: "1", Name: "list"})
	waits := q.Submit(t.Context(), pipeline.Request{ID: "2", Name: "list"})
	if _, code := call(t, s, "list", `{"path":1}`); code != pipeline.CodeInvalidArgs {
		t.Errorf("wrong arguments: %s", code)
	}
	cancel()
	if e := cancelled.Result().Failure(); e == nil || e.Code != pipeline.CodeCancelled {
		t.Errorf("cancelled: %v", e)
	}
	if err := s.SwitchPreset(ctx, "read-only", "test"); !errors.Is(err, context.Canceled) {
		t.Errorf("a switch that waits: %v", err)
	}
	if err := s.Opened(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Opened: %v", err)
	}
	select {
	case <-waits.Done():
		t.Error("a call didn't wait")
	default:
	}
	close(gate)
	if r := waits.Result(); !r.OK() && r.Failure().Code != "SANDBOX_UNAVAILABLE" {
		t.Errorf("%v", r.Failure())
	}
	if err := s.Opened(t.Context()); err != nil {
		t.Skipf("no sandbox here: %v", err)
	}
	if s.Policy().Workspace() != ws || !s.Asks() {
		t.Error("no policy, or another one")
	}

	broken := filepath.Join(ws, "config.toml")
	if err := os.WriteFile(broken, []byte("nonsense = 1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		change func(*sandboxpolicy.Request)
		err    string // Opened's, by its code
		code   string
	}{
		"configuration": {func(r *sandboxpolicy.Request) { r.NoConfig, r.ConfigFile = false, broken }, "CONFIG_INVALID", "CONFIG_INVALID"},
		"workspace":     {func(r *sandboxpolicy.Request) { r.Workspace = "/" }, "INVALID_ARGS", "SANDBOX_UNAVAILABLE"},
		"preset":        {func(r *sandboxpolicy.Request) { r.Preset = "none" }, "INVALID_ARGS", "SANDBOX_UNAVAILABLE"},
	} {
		r := req
		tt.change(&r)
		h := NewHost(r, Options{})
		s, err := h.Session("test")
		if err != nil {
			t.Fatal(err)
		}
		var coded interface{ Code() string }
		if err := s.Opened(t.Context()); !errors.As(err, &coded) || coded.Code() != tt.err {
			t.Errorf("%s: %v", name, err)
		}
		res := s.Scope.Call(t.Context(), pipeline.Request{ID: "1", Name: "list"})
		if res.OK() || res.Failure().Code != tt.code || len(s.Scope.Tools()) != len(contract) {
			t.Errorf("%s: %v", name, res.Failure())
		}
		// Whoever said it wrong may say it right.
		if name == "preset" {
			var told []Switch
			s.OnSwitch(func(w Switch) { told = append(told, w) })
			if err := s.SwitchPreset(t.Context(), "read-only", "test"); err != nil {
				t.Error(err)
			}
			if _, code := call(t, s, "list", `{}`); code != "" || s.Opened(t.Context()) != nil || len(told) != 1 || told[0] != (Switch{"", "read-only", "test"}) {
				t.Errorf("after a switch: %q, %v", code, told)
			}
		}
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A promise that can't be held here refuses, if that is asked for, and a switch
// to a preset with one is refused, too.
func TestSession_RequireFull(t *testing.T) {
	req, _ := request(t)
	gaps := func(preset string) bool {
		r := req
		r.Preset = preset
		scope, err := sandbox.Open(r)
		if err != nil {
			t.Skipf("no sandbox here: %v", err)
		}
		defer scope.Close()
		return len(scope.Enforcement().Gaps) > 0
	}
	if !gaps("workspace-write") {
		t.Skip("this host leaves no gap")
	}
	h := NewHost(req, Options{RequireFull: true})
	defer h.Close()
	s, err := h.Session("test")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Opened(t.Context()); err == nil || !strings.Contains(err.Error(), "--require full") {
		t.Errorf("opened: %v", err)
	}
	if _, code := call(t, s, "list", `{}`); code != "SANDBOX_UNAVAILABLE" {
		t.Errorf("a call: %q", code)
	}
	if err := s.SwitchPreset(t.Context(), "workspace-write", "test"); err == nil || s.Policy() != nil {
		t.Error("a switch goes past it")
	}
}
