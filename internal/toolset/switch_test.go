package toolset

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/dshx/dshx/pipeline"
	"github.com/dshx/dshx/sandboxpolicy"
)

// answering is an approver whose questions are answered by a test.
type answering struct {
	asked  chan pipeline.Question
	answer chan pipeline.Answer
}

func (a answering) Approve(ctx context.Context, q pipeline.Question) pipeline.Answer {
	select {
	case a.asked <- q:
	case <-ctx.Done():
		return pipeline.Dismissed
	}
	select {
	case n := <-a.answer:
		return n
	case <-ctx.Done():
		return pipeline.Dismissed
	}
}

// A switch holds for calls that begin later, approvals with it; what runs goes on
// under the policy that it began with, which ends with it.
func TestSwitchPreset_HoldsForCallsThatBeginLater(t *testing.T) {
	h, ws := hostT(t, Options{})
	s := sessionT(t, h)
	other := sessionT(t, h)
	outside := filepath.Join(filepath.Dir(ws), "outside")
	if err := os.Mkdir(outside, 0o755); err != nil {
		t.Fatal(err)
	}
	ask := answering{make(chan pipeline.Question), make(chan pipeline.Answer)}
	s.Scope.SetApprover(ask)
	var told []Switch
	s.OnSwitch(func(Switch) { panic("broken") })
	stop := s.OnSwitch(func(w Switch) { told = append(told, w) })
	change := func(name string) {
		t.Helper()
		if err := s.SwitchPreset(t.Context(), name, "test"); err != nil {
			t.Fatal(err)
		}
	}
	n := 0
	may := func(s *Session, want bool) {
		t.Helper()
		if _, ok := sh(t, s, "echo x > f"); ok != want {
			t.Errorf("under %s a command may write: %t", s.Policy().Preset(), ok)
		}
		if _, code := call(t, s, "write", `{"file_path":"new`+strconv.Itoa(n)+`","content":"x"}`); (code == "") != want {
			t.Errorf("under %s write: %q", s.Policy().Preset(), code)
		}
		n++
	}
	may(s, true)
	// A job, and a call that somebody is asked about, begin under the old policy.
	if _, code := call(t, s, "bash", `{"command":"until [ -e go ]; do sleep 0.01; done; echo x > job; echo x > $TMPDIR/t && echo done","run_in_background":true}`); code != "" {
		t.Fatal(code)
	}
	old := s.current
	q := pipeline.NewQueue(s.Scope, pipeline.Serial, 0)
	more := `{"command":"echo x > f2; echo x > ` + outside + `/f","sandbox_permissions":{"write":["` + outside + `"]}}`
	asked := q.Submit(t.Context(), pipeline.Request{ID: "1", Name: "bash", Args: []byte(more)})
	<-ask.asked

	change("read-only")
	may(s, false)
	may(other, true)
	// It doesn't ask, though there is somebody.
	r := s.Scope.Call(t.Context(), pipeline.Request{ID: "2", Name: "bash", Args: []byte(more)})
	if r.OK() || r.Failure().Code != pipeline.CodeApprovalRejected {
		t.Errorf("read-only asks: %v", r.Failure())
	}
	ask.answer <- pipeline.AllowedOnce
	if r := asked.Result(); !r.OK() {
		t.Errorf("the call that was being asked about: %v", r.Failure())
	}
	for _, path := range []string{ws + "/f2", outside + "/f"} {
		if _, err := os.Stat(path); err != nil {
			t.Errorf("the call that was being asked about: %v", err)
		}
	}
	if old.users != 1 {
		t.Errorf("the old policy has %d users, want the job", old.users)
	}
	// Back: another sandbox, while the job is still in its own.
	change("workspace-write")
	may(s, true)
	if err := os.WriteFile(filepath.Join(ws, "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, code := call(t, s, "job_wait", `{}`); code != "" {
		t.Fatal(code)
	}
	v, code := call(t, s, "job_output", `{"job_id":"bash-1"}`)
	if code != "" || v["stdout"] != "done\n" {
		t.Errorf("the job: %v %s", v, code)
	}
	s.letGo.Wait()
	if err := old.scope.Do(func() error { return nil }); err == nil {
		t.Error("the old policy is still in force, with nobody in it")
	}
	if len(s.all) != 1 {
		t.Errorf("%d policies are in force", len(s.all))
	}
	if want := []Switch{{"workspace-write", "read-only", "test"}, {"read-only", "workspace-write", "test"}}; !slices.Equal(told, want) {
		t.Errorf("told of %v", told)
	}
	stop()
	// Named by a person, and no other way.
	if _, ok := sh(t, s, "echo x > "+outside+"/g"); ok {
		t.Error("control: it can be written before")
	}
	change("danger-full-access")
	if _, ok := sh(t, s, "echo x > "+outside+"/g"); !ok || !s.Policy().Full() {
		t.Error("danger-full-access confines")
	}
	change("workspace-write")
	if _, ok := sh(t, s, "echo x > "+outside+"/h"); ok || s.Policy().Full() {
		t.Error("it stays")
	}
	if len(told) != 2 {
		t.Error("told after stop")
	}
}

// What can't be put in force leaves what is.
func TestSwitchPreset_Refused(t *testing.T) {
	req, ws := request(t)
	config := filepath.Join(filepath.Dir(ws), "config.toml")
	write := func(text string) {
		if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("[presets.review]\nbase = \"read-only\"\napprovals = \"ask\"\n")
	req.NoConfig, req.ConfigFile, req.DenyRead = false, config, []string{filepath.Join(ws, "key")}
	h := NewHost(req, Options{})
	defer h.Close()
	s := sessionT(t, h)
	s.OnSwitch(func(w Switch) {
		if w.To != "review" {
			t.Errorf("told of %v", w)
		}
	})
	was := s.current
	for name, want := range map[string]string{
		"none": "unknown preset", "": "no preset is named", "custom": "unknown preset", "Read-Only": "unknown preset", " read-only": "unknown preset",
		"danger-full-access": "--deny-read", // what the person gave at start stays
	} {
		err := s.SwitchPreset(t.Context(), name, "test")
		var usage *sandboxpolicy.UsageError
		if !errors.As(err, &usage) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", name, err)
		}
		if strings.Contains(want, "preset") && !strings.HasSuffix(err.Error(), "there are read-only, workspace-write, danger-full-access, review") {
			t.Errorf("%q: %v", name, err)
		}
	}
	no := errors.New("no")
	stop := s.BeforeSwitch(func(p *sandboxpolicy.Policy) error {
		if p.Preset() != "read-only" || s.current != was {
			t.Errorf("asked about %s", p.Preset())
		}
		return no
	})
	if err := s.SwitchPreset(t.Context(), "read-only", "test"); err != no {
		t.Errorf("somebody refuses: %v", err)
	}
	stop()
	stop = s.BeforeSwitch(func(*sandboxpolicy.Policy) error { panic("broken") })
	if err := s.SwitchPreset(t.Context(), "read-only", "test"); err == nil {
		t.Error("a check that failed let it through")
	}
	stop()
	write("nonsense = 1\n")
	var bad *sandboxpolicy.ConfigError
	if err := s.SwitchPreset(t.Context(), "review", "test"); !errors.As(err, &bad) {
		t.Errorf("a configuration that became wrong: %v", err)
	}
	if s.current != was || len(s.all) != 1 || was.users != 1 {
		t.Error("a refused switch changed what is in force")
	}
	if _, code := call(t, s, "list", `{}`); code != "" {
		t.Error(code)
	}
	write("[presets.review]\nbase = \"read-only\"\napprovals = \"ask\"\n")
	if err := s.SwitchPreset(t.Context(), "review", "test"); err != nil || s.Policy().Preset() != "review" || !s.Asks() {
		t.Errorf("%v, %s", err, s.Policy().Preset())
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := s.SwitchPreset(t.Context(), "read-only", "test"); !errors.Is(err, ErrEnded) {
		t.Errorf("after the end: %v", err)
	}
}

// A sandbox mode and approvals that were set apart are called custom, and a
// switch reaches both.
func TestSwitchPreset_FromCustom(t *testing.T) {
	req, _ := request(t)
	req.Preset, req.Approvals = "read-only", "ask"
	h := NewHost(req, Options{})
	defer h.Close()
	s := sessionT(t, h)
	if p := s.Policy(); p.Preset() != "custom" || p.Mode() != "read-only" || !s.Asks() {
		t.Errorf("%s %s", p.Preset(), p.Approvals())
	}
	var told Switch
	s.OnSwitch(func(w Switch) { told = w })
	if err := s.SwitchPreset(t.Context(), "read-only", "test"); err != nil {
		t.Fatal(err)
	}
	if told != (Switch{"custom", "read-only", "test"}) || s.Asks() {
		t.Errorf("%v, asks %t", told, s.Asks())
	}
}

// Switches, calls, jobs and the end of the session, in whatever order: every call
// has its result, under one policy or the other, and nothing is left.
func TestSwitchPreset_Beside(t *testing.T) {
	h, ws := hostT(t, Options{})
	s := sessionT(t, h)
	q := pipeline.NewQueue(s.Scope, pipeline.Serial, 0)
	var pending []*pipeline.Pending
	for i := range 60 {
		name, args := "bash", `{"command":"test -w . && echo x > f"}`
		switch i % 4 {
		case 1:
			name, args = "list", `{}`
		case 2:
			args = `{"command":"sleep 300","run_in_background":true}`
		}
		pending = append(pending, q.Submit(t.Context(), pipeline.Request{ID: "1", Name: name, Args: []byte(args)}))
	}
	for i := range 8 {
		if err := s.SwitchPreset(t.Context(), []string{"read-only", "workspace-write"}[i%2], "test"); err != nil {
			t.Error(err)
		}
	}
	for _, p := range pending {
		if r := p.Result(); !r.OK() {
			t.Errorf("%s: %v", r.ID(), r.Failure())
		}
	}
	q.Wait()
	if len(s.LiveJobs()) == 0 {
		t.Error("no job is left")
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	users := 0
	h.calls.Range(func(any, any) bool { users++; return true })
	if users > 0 || len(h.sessions) > 0 {
		t.Errorf("%d calls, %d sessions are left", users, len(h.sessions))
	}
	if _, err := os.Stat(filepath.Join(ws, "f")); err != nil {
		t.Error(err)
	}
}
