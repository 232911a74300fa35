package bash

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dshx/dshx/approval"
	"github.com/dshx/dshx/pipeline"
	"github.com/dshx/dshx/sandboxpolicy"
	"github.com/dshx/dshx/tools/permission"
)

// judged is a tool of the name and the arguments of this one that runs nothing,
// under the command rules of a configuration.
type judged struct {
	t     *testing.T
	scope *pipeline.Scope
	ran   []string
	asked []approval.Question
	say   pipeline.Answer
	first func() pipeline.Decision // if not nil, decides before all others
}

func (j *judged) Ask(_ context.Context, q approval.Question) (pipeline.Answer, error) {
	j.asked = append(j.asked, q)
	return j.say, nil
}

func newJudged(t *testing.T, config string, policyOf approval.Policy) *judged {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	file, ws := filepath.Join(dir, "config.toml"), filepath.Join(dir, "ws")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(ws, 0o700); err != nil {
		t.Fatal(err)
	}
	req := sandboxpolicy.Request{Workspace: ws, Cwd: ws, ConfigFile: file, Environ: []string{"HOME=" + dir}}
	p, _, err := sandboxpolicy.Resolve(req, sandboxpolicy.OSFacts{})
	if err != nil {
		t.Fatal(err)
	}
	j := &judged{t: t, scope: pipeline.New(pipeline.Options{}), say: pipeline.AllowedOnce}
	define := func(name string) {
		tool, err := pipeline.Define(pipeline.Spec[Args, struct{}]{
			Name: name, Description: "runs nothing",
			Execute: func(_ context.Context, a Args, c *pipeline.Call) (struct{}, error) {
				j.ran = append(j.ran, a.Command+c.Grants().String())
				return struct{}{}, nil
			},
			Render: func(Args, struct{}) []pipeline.Content { return nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := j.scope.Register(tool); err != nil {
			t.Fatal(err)
		}
	}
	define(name)
	define("other")
	s := approval.New(policyOf, 0)
	s.Use(j)
	j.scope.SetApprover(s)
	j.scope.PreExecute("first", func(_ context.Context, _ *pipeline.Call, next func() pipeline.Decision) pipeline.Decision {
		if j.first != nil {
			return j.first()
		}
		return next()
	})
	j.scope.PreExecute(RulesName, RuleListener(p))
	j.scope.Guard(RulesName, RuleGuard(p))
	j.scope.PreExecute("permissions", permission.Listener(p, req))
	return j
}

// call makes a call of the tool and returns its code, "" for a success.
func (j *judged) call(tool string, args map[string]any) (code string, failure *pipeline.Error) {
	j.t.Helper()
	text, err := json.Marshal(args)
	if err != nil {
		j.t.Fatal(err)
	}
	r := j.scope.Call(j.t.Context(), pipeline.Request{ID: "1", Name: tool, Args: text})
	if r.OK() {
		return "", nil
	}
	return r.Failure().Code, r.Failure()
}

func (j *judged) bash(command string) string {
	code, _ := j.call(name, map[string]any{"command": command})
	return code
}

const denyPush = "[[commands]]\nrule = \"deny\"\nprefix = [\"git\", \"push\"]\n[[commands]]\nrule = \"ask\"\nprefix = [\"make\"]\n[[commands]]\nrule = \"ask\"\nprefix = [\"npm\"]\n" +
	"[[commands]]\nrule = \"ask\"\nprefix = [\"python3\"]\n[[commands]]\nrule = \"ask\"\nprefix = [\"bash\"]\n"

func TestRules_DenyIsLiftedByNobody(t *testing.T) {
	j := newJudged(t, denyPush, approval.Ask)
	code, e := j.call(name, map[string]any{"command": "true && git push", "sandbox_permissions": map[string]any{"preset": "danger-full-access"}})
	if code != pipeline.CodeDenied || len(j.asked) > 0 || j.ran != nil {
		t.Errorf("%s, asked %v, ran %q", code, j.asked, j.ran)
	}
	var d struct {
		By, Reason string
		Info       struct {
			Command string
			Rule    sandboxpolicy.Rule
		}
	}
	if err := json.Unmarshal([]byte(e.Details.String()), &d); err != nil || d.By != RulesName || d.Reason != e.Message || d.Info.Command != "git push" || d.Info.Rule.Text != "deny git push" || !strings.HasSuffix(d.Info.Rule.Origin, ":1") {
		t.Errorf("details %s, %v", e.Details, err)
	}
	// The guard holds by itself, whatever a listener before has decided.
	j = newJudged(t, denyPush, approval.Ask)
	j.first = func() pipeline.Decision { return pipeline.Ask{Reason: "may it?"} }
	if code := j.bash("git push"); code != pipeline.CodeDenied || len(j.asked) != 1 || j.ran != nil {
		t.Errorf("approved, and then: %s, asked %d times, ran %q", code, len(j.asked), j.ran)
	}
	j.first = nil
	if j.bash("git status") != "" || !slices.Equal(j.ran, []string{"git status"}) {
		t.Errorf("control: ran %q", j.ran)
	}
	if code, _ := j.call("other", map[string]any{"command": "git push"}); code != "" {
		t.Errorf("a tool without rules: %s", code)
	}
}

// F7-4: an approval is for one call, and leaves no rule behind.
func TestF7_4_ApprovalsAreForOneCall(t *testing.T) {
	j := newJudged(t, denyPush, approval.Ask)
	requests := []string{"python3 a.py", "npm test", "bash s.sh", "make",
		"python3 a.py", "npm test", "bash s.sh", "make",
		"python3 -c ...", "python3 b.py", "npm exec x", "bash -c 'make x'", "make SHELL=/tmp/x", "make && make"}
	for i, r := range requests {
		if code := j.bash(r); code != "" || len(j.asked) != i+1 || len(j.ran) != i+1 {
			t.Fatalf("%s: %q, asked %d times, ran %q", r, code, len(j.asked), j.ran)
		}
		if q := j.asked[i]; !strings.Contains(q.DisplayReason, "the rule ask") || !q.Grants.IsZero() {
			t.Errorf("%s: %+v", r, q)
		}
	}
	j.say = pipeline.Rejected
	for _, r := range requests {
		if code := j.bash(r); code != pipeline.CodeApprovalRejected {
			t.Errorf("%s after approvals: %q", r, code)
		}
	}
	if len(j.ran) != len(requests) {
		t.Errorf("ran %q", j.ran)
	}
}

// One question is asked of a call, with all that is asked for.
func TestRules_OneQuestion(t *testing.T) {
	j := newJudged(t, denyPush, approval.Ask)
	args := map[string]any{"command": "make", "sandbox_permissions": map[string]any{"network": "full"}, "justification": "to fetch"}
	if code, e := j.call(name, args); code != "" || len(j.asked) != 1 {
		t.Fatalf("%v, asked %v", e, j.asked)
	}
	q := j.asked[0]
	if !strings.Contains(q.DisplayReason, "`make` needs approval by the rule ask make") || !strings.Contains(q.DisplayReason, "network full: to fetch") || q.Grants.String() != `{"network":"full"}` {
		t.Errorf("asked %q for %s", q.DisplayReason, q.Grants)
	}
	if want := []string{`make{"network":"full"}`}; !slices.Equal(j.ran, want) {
		t.Errorf("ran %q, want %q", j.ran, want)
	}
	j.say = pipeline.Rejected
	_, e := j.call(name, args)
	var d struct{ By, Reason string }
	if err := json.Unmarshal([]byte(e.Details.String()), &d); err != nil || d.By != RulesName+", permissions" {
		t.Errorf("details %s, %v", e.Details, err)
	}
	// Each by itself.
	for _, tt := range []struct {
		args map[string]any
		by   string
	}{
		{map[string]any{"command": "make"}, RulesName},
		{map[string]any{"command": "true", "sandbox_permissions": map[string]any{"network": "full"}}, "permissions"},
	} {
		_, e := j.call(name, tt.args)
		if err := json.Unmarshal([]byte(e.Details.String()), &d); err != nil || d.By != tt.by {
			t.Errorf("%v: details %s, %v", tt.args, e.Details, err)
		}
	}
	if j.bash("true") != "" {
		t.Error("control: what no rule names is asked about")
	}
}

func TestRules_NeverAsks(t *testing.T) {
	j := newJudged(t, denyPush, approval.Never)
	if code := j.bash("make"); code != pipeline.CodeApprovalRejected || len(j.asked) > 0 || j.ran != nil {
		t.Errorf("%s, asked %v, ran %q", code, j.asked, j.ran)
	}
	if code := j.bash("git push"); code != pipeline.CodeDenied {
		t.Error(code)
	}
	if code := j.bash("true"); code != "" {
		t.Errorf("control: %s", code)
	}
}

func TestRules_Environment(t *testing.T) {
	j := newJudged(t, denyPush, approval.Ask)
	if code, _ := j.call(name, map[string]any{"command": "true", "env": map[string]string{"GIT_SSH_COMMAND": "git push x"}}); code != pipeline.CodeDenied {
		t.Error(code)
	}
	if code, _ := j.call(name, map[string]any{"command": "true", "env": map[string]string{"A": "git push x"}}); code != "" {
		t.Errorf("control: %s", code)
	}
}
