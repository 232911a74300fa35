package permission

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dshx/dshx/pipeline"
	"github.com/dshx/dshx/sandbox"
	"github.com/dshx/dshx/sandboxpolicy"
)

type writeArgs struct {
	Args
	Path string `json:"path"`
}

type writeValue struct {
	Wrote bool `json:"wrote"`
}

type answer pipeline.Answer

func (a answer) Approve(context.Context, pipeline.Question) pipeline.Answer {
	return pipeline.Answer(a)
}

type approver func(pipeline.Question) pipeline.Answer

func (a approver) Approve(_ context.Context, q pipeline.Question) pipeline.Answer { return a(q) }

// What is approved holds for the one call, and the kernel holds it.
func TestPermissions_WidenOneCall(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	ws, outside := filepath.Join(base, "ws"), filepath.Join(base, "outside")
	for _, d := range []string{ws, outside} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	req := sandboxpolicy.Request{Workspace: ws, Cwd: ws, NoConfig: true, Environ: []string{"HOME=" + base, "PATH=" + os.Getenv("PATH")}}
	scope, err := sandbox.Open(req)
	if err != nil {
		t.Skipf("no sandbox here: %v", err)
	}
	defer scope.Close()
	scopes := &Scopes{Base: scope, Request: req}
	tool, err := pipeline.Define(pipeline.Spec[writeArgs, writeValue]{
		Name: "touch", Description: "makes a file",
		Execute: func(_ context.Context, a writeArgs, c *pipeline.Call) (writeValue, error) {
			s, release, err := scopes.For(c)
			if err != nil {
				return writeValue{}, err
			}
			defer release()
			err = s.Do(func() error { return os.WriteFile(a.Path, nil, 0o644) })
			return writeValue{err == nil}, nil
		},
		Render: func(writeArgs, writeValue) []pipeline.Content { return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	p := pipeline.New(pipeline.Options{})
	if _, err := p.Register(tool); err != nil {
		t.Fatal(err)
	}
	p.PreExecute("permissions", Listener(scope.Policy(), req))
	call := func(args string) pipeline.Result {
		return p.Call(context.Background(), pipeline.Request{ID: "1", Name: "touch", Args: []byte(args)})
	}
	wrote := func(r pipeline.Result) bool { return r.Value().String() == `{"wrote":true}` }
	plain := `{"path":"` + outside + `/a"}`
	more := `{"path":"` + outside + `/a","sandbox_permissions":{"write":["../outside"]},"justification":"to build"}`
	inside := `{"path":"` + ws + `/a","sandbox_permissions":{"write":["sub"]}}`

	if wrote(call(plain)) {
		t.Fatal("control: the file can be written without asking")
	}
	if r := call(more); r.OK() || r.Failure().Code != pipeline.CodeApprovalUnavailable {
		t.Errorf("nobody to ask: %v", r.Failure())
	}
	if r := call(inside); !wrote(r) {
		t.Errorf("what the policy gives needs no question: %v", r.Failure())
	}
	p.SetApprover(answer(pipeline.Rejected))
	if r := call(more); r.OK() || r.Failure().Code != pipeline.CodeApprovalRejected || !strings.Contains(r.Failure().Message, outside) || !strings.Contains(r.Failure().Message, "to build") {
		t.Errorf("rejected: %v", r.Failure())
	}
	p.SetApprover(answer(pipeline.AllowedOnce))
	if r := call(more); !wrote(r) {
		t.Errorf("approved: %v, %s", r.Failure(), r.Value())
	}
	if wrote(call(plain)) {
		t.Error("the next call can still write")
	}
	// Another listener's question is the same one, and what is granted is granted.
	asked := ""
	p.SetApprover(approver(func(q pipeline.Question) pipeline.Answer { asked = q.DisplayReason; return pipeline.AllowedOnce }))
	undo := p.PreExecute("asks", func(_ context.Context, _ *pipeline.Call, next func() pipeline.Decision) pipeline.Decision {
		return pipeline.Ask{Reason: "a rule asks"}.Also(next())
	})
	if r := call(more); !wrote(r) || !strings.Contains(asked, outside) || !strings.Contains(asked, "to build") || !strings.Contains(asked, "a rule asks") {
		t.Errorf("asked %q: %v", asked, r.Failure())
	}
	undo()
	// A refusal for another reason is not asked about.
	p.PreExecute("denies", func(context.Context, *pipeline.Call, func() pipeline.Decision) pipeline.Decision {
		return pipeline.Deny{Reason: "no"}
	})
	if r := call(more); r.OK() || r.Failure().Code != pipeline.CodeDenied {
		t.Errorf("denied: %v", r.Failure())
	}
}

// Nobody is asked for what no approval gives; under a preset that never asks it is
// not approved like everything else.
func TestListener_AsksForNothingInVain(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{"ws/.git/hooks", "outside/kept", "home/.ssh"} {
		if err := os.MkdirAll(filepath.Join(base, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	type asks struct {
		Args
	}
	for _, tt := range []struct {
		more string
		in   map[string]string // code by preset
	}{
		{`{"write":["` + base + `/outside"]}`, map[string]string{"workspace-write": "", "read-only": pipeline.CodeApprovalRejected}},
		{`{"network":"full"}`, map[string]string{"workspace-write": "", "read-only": pipeline.CodeApprovalRejected}},
		{`{"preset":"danger-full-access"}`, map[string]string{"workspace-write": ""}},
		{`{"write":["` + base + `/gone"]}`, map[string]string{"workspace-write": pipeline.CodeDenied, "read-only": pipeline.CodeApprovalRejected}},
		{`{"write":["` + base + `/outside/kept"]}`, map[string]string{"workspace-write": pipeline.CodeDenied}},
		{`{"read":["` + base + `/home/.ssh"]}`, map[string]string{"workspace-write": pipeline.CodeDenied, "read-only": pipeline.CodeApprovalRejected}},
		{`{"network":"full","read":["` + base + `/home/.ssh"]}`, map[string]string{"workspace-write": pipeline.CodeDenied}},
	} {
		for preset, want := range tt.in {
			req := sandboxpolicy.Request{Preset: preset, Workspace: base + "/ws", Cwd: base + "/ws", NoConfig: true, DenyWrite: []string{base + "/outside/kept"},
				Environ: []string{"HOME=" + base + "/home"}}
			policy, _, err := sandbox.Resolve(req)
			if err != nil {
				t.Fatal(err)
			}
			tool, err := pipeline.Define(pipeline.Spec[asks, struct{}]{Name: "t", Description: "does nothing",
				Execute: func(context.Context, asks, *pipeline.Call) (struct{}, error) { return struct{}{}, nil },
				Render:  func(asks, struct{}) []pipeline.Content { return nil }})
			if err != nil {
				t.Fatal(err)
			}
			p := pipeline.New(pipeline.Options{})
			if _, err := p.Register(tool); err != nil {
				t.Fatal(err)
			}
			p.PreExecute("permissions", Listener(policy, req))
			asked := 0
			p.SetApprover(approver(func(pipeline.Question) pipeline.Answer {
				asked++
				if policy.Approvals() == "ask" {
					return pipeline.AllowedOnce
				}
				return pipeline.Rejected
			}))
			r := p.Call(t.Context(), pipeline.Request{ID: "1", Name: "t", Args: []byte(`{"sandbox_permissions":` + tt.more + `}`)})
			got := ""
			if !r.OK() {
				got = r.Failure().Code
			}
			if got != want || (want == pipeline.CodeDenied) != (asked == 0) {
				t.Errorf("%s, %s: %q, asked %d times, want %q: %v", preset, tt.more, got, asked, want, r.Failure())
			}
		}
	}
}

func TestBeyond(t *testing.T) {
	ws := t.TempDir()
	policy := func(preset string, network sandboxpolicy.Network) *sandboxpolicy.Policy {
		p, _, err := sandbox.Resolve(sandboxpolicy.Request{Preset: preset, Workspace: ws, Cwd: ws, Network: network, NoConfig: true, Environ: []string{"HOME=/nonexistent"}})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	write, read, full := policy("workspace-write", ""), policy("read-only", ""), policy("danger-full-access", "")
	for _, tt := range []struct {
		policy *sandboxpolicy.Policy
		asked  Permissions
		more   bool
	}{
		{write, Permissions{}, false},
		{write, Permissions{Write: []string{"."}}, false},
		{write, Permissions{Write: []string{"/etc"}}, true},
		{write, Permissions{Write: []string{"sub/none", "./~"}}, false},
		{write, Permissions{Write: []string{"~"}}, false}, // a name, as in all tools
		{write, Permissions{Write: []string{"$HOME"}, Read: []string{"~root/x"}}, false},
		{write, Permissions{Write: []string{".."}}, true},
		{write, Permissions{Read: []string{"/usr"}}, false},
		{write, Permissions{Network: "loopback"}, true},
		{policy("workspace-write", "full"), Permissions{Network: "loopback"}, false},
		{write, Permissions{Preset: "workspace-write"}, false},
		{read, Permissions{Preset: "workspace-write"}, true},
		{read, Permissions{Write: []string{"."}}, true},
		{write, Permissions{Preset: "danger-full-access"}, true},
		{full, Permissions{Preset: "danger-full-access", Network: "full", Write: []string{"/etc"}}, false},
	} {
		more, err := beyond(&tt.asked, tt.policy)
		if err != nil || more.none() == tt.more {
			t.Errorf("%s wants %q: beyond %q, %v", tt.policy.Preset(), tt.asked.String(), more.String(), err)
		}
	}
}

// Directories are relative to the workspace, wherever commands begin, and ~ is
// a name like any other.
func TestBeyond_Paths(t *testing.T) {
	home, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	ws := filepath.Join(home, "ws")
	if err := os.MkdirAll(filepath.Join(ws, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	p, _, err := sandbox.Resolve(sandboxpolicy.Request{Preset: "read-only", Workspace: ws, Cwd: filepath.Join(ws, "sub"), NoConfig: true, Environ: []string{"HOME=" + home}})
	if err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]string{".": ws, "sub": ws + "/sub", "..": home, "~": ws + "/~", "~/x": ws + "/~/x", "$HOME": ws + "/$HOME", home: home} {
		more, err := beyond(&Permissions{Write: []string{dir}}, p)
		if err != nil || len(more.Write) != 1 || more.Write[0] != want {
			t.Errorf("%s is %q, %v; want %s", dir, more.Write, err, want)
		}
	}
	for _, dir := range []string{"", "a\x00b"} {
		if more, err := beyond(&Permissions{Write: []string{dir}}, p); err == nil {
			t.Errorf("%q is %q", dir, more.Write)
		}
	}
}
