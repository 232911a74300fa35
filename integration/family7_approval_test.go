package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Approvals and command rules (family 7), against the built program.

// asking is a configuration under which touch is asked about, and git push refused.
const asking = "[[commands]]\nrule = \"ask\"\nprefix = [\"touch\"]\n[[commands]]\nrule = \"deny\"\nprefix = [\"git\", \"push\"]\n"

// F7-6: whoever doesn't answer has not allowed anything, the command is not
// started, and the session stays usable.
func TestF7_6_NobodyAnswers(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		config := e.Write(filepath.Join(e.H, "rules.toml"), asking)
		c := e.lines(Opts{}, "--config", config)
		asked := func(id int, name string) string {
			c.bash(id, "touch "+name)
			r := c.next()
			if r.Event != "approval" || !strings.Contains(r.Reason, "`touch "+name+"` needs approval") || string(r.Grants) != "null" {
				t.Fatalf("no question: %+v", r)
			}
			return r.Approval
		}
		none := func(name, code string) {
			t.Helper()
			if r := c.result(); *r.OK || r.Error.Code != code {
				t.Errorf("%s: %+v", name, r)
			}
			if Exists(filepath.Join(e.W, name)) {
				t.Errorf("%s was made", name)
			}
		}
		usable := func(id int) {
			t.Helper()
			c.bash(id, "echo still here")
			if r := c.result(); !*r.OK || r.field(t, "stdout") != "still here\n" {
				t.Errorf("the session is not usable: %+v", r)
			}
		}
		known := func(want bool) {
			t.Helper()
			if r := c.next(); r.Known == nil || *r.Known != want {
				t.Errorf("known: %+v, want %v", r, want)
			}
		}
		// An answer for an unknown id, an outcome that is none, a call that is
		// cancelled while nobody answers, and an answer after that.
		q := asked(1, "a")
		c.send(`{"approve":"ap-99","outcome":"allowed-once"}`)
		known(false)
		c.send(`{"approve":%q,"outcome":"allowed-always"}`, q)
		known(true)
		none("a", "APPROVAL_UNAVAILABLE")
		c.send(`{"approve":%q,"outcome":"allowed-once"}`, q)
		known(false)
		usable(2)
		q = asked(3, "b")
		c.send(`{"cancel":3}`)
		if r := c.next(); string(r.Cancelled) != "3" {
			t.Errorf("%+v", r)
		}
		none("b", "CANCELLED")
		c.send(`{"approve":%q,"outcome":"allowed-once"}`, q)
		known(false)
		usable(4)
		q = asked(5, "c")
		c.send(`{"approve":%q,"outcome":"rejected"}`, q)
		known(true)
		none("c", "APPROVAL_REJECTED")
		// The control, once.
		q = asked(6, "d")
		c.send(`{"approve":%q,"outcome":"allowed-once"}`, q)
		known(true)
		if r := c.result(); !*r.OK || !Exists(filepath.Join(e.W, "d")) {
			t.Errorf("approved: %+v", r)
		}
		q = asked(7, "d")
		c.send(`{"approve":%q,"outcome":"rejected"}`, q)
		known(true)
		none("dd", "APPROVAL_REJECTED")
		// What is refused is refused without a question.
		c.call(8, "bash", map[string]any{"command": "git push", "sandbox_permissions": map[string]any{"network": "full"}})
		if r := c.next(); r.OK == nil || *r.OK || r.Error.Code != "DENIED" {
			t.Errorf("git push: %+v", r)
		}
		// The input ends while a question is open.
		asked(9, "e")
		_ = c.in.Close()
		none("e", "APPROVAL_UNAVAILABLE")
		if code := c.wait(20 * time.Second); code != 0 {
			t.Errorf("status %d", code)
		}
		e.NothingLeft(time.Second)
	})
}

// One question for all that a call wants; what is approved is granted for that
// call alone.
func TestF7_4_OneCallOnly(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		config := e.Write(filepath.Join(e.H, "rules.toml"), asking)
		c := e.lines(Opts{}, "--config", config)
		outside := filepath.Join(e.O, "made")
		args := map[string]any{"command": "touch " + outside, "sandbox_permissions": map[string]any{"write": []string{e.O}}, "justification": "to install"}
		c.call(1, "bash", args)
		r := c.next()
		if r.Event != "approval" || !strings.Contains(r.Reason, "needs approval by the rule ask touch") || !strings.Contains(r.Reason, "to install") || string(r.Grants) != fmt.Sprintf(`{"write":[%q]}`, e.O) {
			t.Fatalf("asked %+v", r)
		}
		c.send(`{"approve":%q,"outcome":"allowed-once"}`, r.Approval)
		if r := c.result(); !*r.OK || r.field(t, "exitCode") != "0" || !Exists(outside) {
			t.Errorf("approved: %+v", r)
		}
		// The next one asks again, and without the permission writes nothing.
		again := outside + "2"
		c.bash(2, "touch "+again)
		r = c.next()
		for r.Event != "approval" {
			r = c.next()
		}
		c.send(`{"approve":%q,"outcome":"allowed-once"}`, r.Approval)
		r = c.result()
		if !*r.OK || r.field(t, "exitCode") == "0" || Exists(again) {
			t.Errorf("approved without the permission: %+v", r)
		}
		// Its denial offers what would do, which does.
		if text := r.Content[0].Text; !strings.Contains(text, fmt.Sprintf(`sandbox_permissions {"write":[%q]} and a justification`, e.O)) {
			t.Errorf("the denial offers %q", text)
		}
		if code := c.end(); code != 0 {
			t.Errorf("status %d", code)
		}
		// Under a preset that never asks nothing is offered.
		c = e.lines(Opts{}, "--preset", "read-only")
		c.bash(1, "touch "+again)
		if r := c.result(); !strings.Contains(r.Content[0].Text, "denied write "+again) || strings.Contains(r.Content[0].Text, "sandbox_permissions") {
			t.Errorf("under read-only: %q", r.Content[0].Text)
		}
		c.call(2, "write", map[string]any{"file_path": again, "content": "x"})
		if r := c.result(); *r.OK || strings.Contains(r.Error.Message, "sandbox_permissions") {
			t.Errorf("under read-only: %+v", r)
		}
		c.end()
	})
}

// F7-7: neither configuration can be changed from inside: not by the file tools,
// and by commands as far as the policy promises it here.
func TestF7_7_ConfigurationStaysTheUsers(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		deny := "[[commands]]\nrule = \"deny\"\nprefix = [\"touch\"]\n"
		e.Mkdir(filepath.Join(e.H, ".config", "dshx"))
		user := e.Write(filepath.Join(e.H, ".config", "dshx", "config.toml"), deny)
		space := e.Write(filepath.Join(e.W, ".dshx", "config.toml"), deny)
		c := e.lines(Opts{}, "--config", user)
		id := 0
		try := func(tool string, args map[string]any) reply {
			id++
			c.call(id, tool, args)
			return c.result()
		}
		for _, file := range []string{user, space} {
			try("read", map[string]any{"file_path": file})
			if r := try("write", map[string]any{"file_path": file, "content": "preset = \"danger-full-access\"\n"}); *r.OK || r.Error.Code != "SANDBOX_DENIED" {
				t.Errorf("write %s: %+v", file, r)
			}
			if r := try("edit", map[string]any{"file_path": file, "old_string": "deny", "new_string": "allow"}); *r.OK {
				t.Errorf("edit %s: %+v", file, r)
			}
		}
		try("bash", map[string]any{"command": "echo x > " + user + "; mv " + user + " " + user + "2; rm -f " + user + "; rm -rf " + filepath.Dir(user)})
		for _, file := range []string{user, space} {
			if got := e.Read(file); got != deny {
				t.Errorf("%s is %q", file, got)
			}
		}
		if r := try("bash", map[string]any{"command": "touch x"}); *r.OK || r.Error.Code != "DENIED" {
			t.Errorf("afterwards: %+v", r)
		}
		// The control.
		if r := try("write", map[string]any{"file_path": "other.toml", "content": "x"}); !*r.OK {
			t.Errorf("control: %+v", r)
		}
		c.end()
	})
}

// The person at the terminal is asked by exec and call, sees what it is about,
// and has the terminal back as it was.
func TestF7_6_Terminal(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		e.Mkdir(filepath.Join(e.H, ".config", "dshx"))
		e.Write(filepath.Join(e.H, ".config", "dshx", "config.toml"), asking)
		s := e.f3Shell()
		before := s.flags()
		const question = "Allow this once? [y/N] "
		for _, front := range []struct{ name, command, rejected, cancelled, closed string }{
			{"exec", "dshx exec -- touch made", "125", "125", "125"},
			{"exec on pipes", "true | dshx exec -- touch made | cat; (exit ${PIPESTATUS[1]})", "125", "130", "125"}, // cat dies of Ctrl-C, too,
			{"call", `dshx call bash '{"command":"touch made"}'`, "1", "130", "1"},
		} {
			for _, tt := range []struct{ name, keys, status, code string }{
				{"yes", "y\n", "0", ""},
				{"YES", "YES\n", "0", ""},
				{"corrected", "no\x7f\x7fy\n", "0", ""}, // by the terminal's own line editing
				{"no", "n\n", front.rejected, "not approved"},
				{"nothing", "\n", front.rejected, "not approved"},
				{"something else", "yesterday\n", front.rejected, "not approved"},
				{"Ctrl-C", "\x03", front.cancelled, ""},
				{"Ctrl-D", "\x04", front.closed, "closed without an answer"},
			} {
				what := front.name + ", " + tt.name
				s.Send(front.command + "\n")
				s.expect("touch made` needs approval by the rule ask touch")
				s.expect(question)
				if Exists(filepath.Join(e.W, "made")) {
					t.Fatalf("%s: made before the answer", what)
				}
				s.Send(tt.keys)
				from := s.pos
				s.expect(f3Prompt)
				if out := s.Output()[from:s.pos]; !strings.Contains(out, tt.code) {
					t.Errorf("%s: %q, want %q", what, out, tt.code)
				}
				s.leaves(what, tt.status, before)
				made := filepath.Join(e.W, "made")
				if Exists(made) != (tt.status == "0") {
					t.Errorf("%s: made is there: %v", what, Exists(made))
				}
				_ = os.Remove(made)
			}
		}
		// What is typed before the question is nobody's answer; here it stays the
		// shell's.
		s.Send("sleep 0.5; dshx exec -- touch made\n")
		time.Sleep(100 * time.Millisecond)
		s.Send("y\n")
		s.expect("a question is not asked, since something was typed before")
		s.expect(f3Prompt)
		s.run("true")
		if Exists(filepath.Join(e.W, "made")) {
			t.Error("what had been typed before was an answer")
		}
		// In the background it asks nobody, and does not stop.
		if out := s.run("dshx exec -- touch made & wait $!"); !strings.Contains(out, "there is no terminal to ask on") {
			t.Errorf("in the background: %q", out)
		}
		// What the command is fed stays its own.
		s.Send("printf 'one\\ntwo\\n' | dshx exec -- sh -c 'touch made; cat'\n")
		s.expect(question)
		s.Send("y\n")
		s.expect("one\r\ntwo\r\n")
		s.expect(f3Prompt)
		// Nothing in the question acts on the terminal.
		s.Send(`dshx exec -- touch $'\e]0;title\a\e[2J' $'\nAllow this once? [y/N] y'` + "\n")
		from := s.pos
		s.expect(`\x1b]0;title\a\x1b[2J`)
		s.expect("\r\n    Allow this once? [y/N] y")
		s.expect(question)
		if out := s.Output()[from:s.pos]; strings.ContainsAny(out, "\a") || strings.Contains(out, "\x1b[2J") {
			t.Errorf("shown %q", out)
		}
		s.Send("n\n")
		s.expect(f3Prompt)
		s.leaves("the question", "125", before)
	})
}
