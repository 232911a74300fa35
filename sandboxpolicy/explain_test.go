package sandboxpolicy

import (
	"encoding/json"
	"testing"
)

func TestParseTarget(t *testing.T) {
	for _, tt := range []struct {
		op     Op
		target string
		want   Target
		ok     bool
	}{
		{OpRead, "/etc/passwd", Target{TargetPath, "/etc/passwd"}, true},
		{OpRead, "a:80", Target{TargetPath, "a:80"}, true},
		{OpConnect, "a:80", Target{TargetNet, "a:80"}, true},
		{OpConnect, "[::1]:80", Target{TargetNet, "[::1]:80"}, true},
		{OpConnect, "::1:80", Target{}, false},
		{OpConnect, "a:99999", Target{}, false},
		{OpConnect, ":80", Target{}, false},
		{OpConnect, "/run/x:1", Target{TargetPath, "/run/x:1"}, true},
		{OpConnect, "./a:80", Target{TargetPath, "./a:80"}, true},
		{OpConnect, "unix:/run/x", Target{TargetPath, "/run/x"}, true},
		{OpBind, "unix:@x", Target{TargetAbstract, "@x"}, true},
		{OpBind, "unix:@", Target{}, false},
		{OpBind, "unix:", Target{}, false},
		{OpRead, "unix:/x", Target{}, false},
		{OpSignal, "pid:12", Target{TargetProcess, "12"}, true},
		{OpSignal, "12", Target{TargetProcess, "12"}, true},
		{OpSignal, "pid:-1", Target{}, false},
		{OpSignal, "/x", Target{}, false},
		{OpRead, "pid:1", Target{}, false},
		{OpRead, "", Target{}, false},
		{OpRead, "a\x00", Target{}, false},
		{Op("x"), "/a", Target{}, false},
	} {
		got, err := ParseTarget(tt.op, tt.target)
		if (err == nil) != tt.ok || got != tt.want {
			t.Errorf("ParseTarget(%s, %q) = %v, %v, want %v", tt.op, tt.target, got, err, tt.want)
		}
	}
}

func TestExplain(t *testing.T) {
	f := newFake(map[string]string{"/home/u/w/l": "link:/etc/passwd", "/etc/passwd": "x", "/home/u/.ssh/id": "k", "/home/u/w/loop": "link:loop"})
	p, _ := resolve(t, f, Request{})
	for _, tt := range []struct {
		op                        Op
		target, resolved, verdict string
	}{
		{OpRead, "l", "/etc/passwd", "allow"},
		{OpWrite, "l", "/etc/passwd", "deny"},
		{OpDelete, "l", "/home/u/w/l", "allow"},
		{OpRead, "~/.ssh/id", "/home/u/.ssh/id", "deny"},
		{OpCreate, "n/m", "/home/u/w/n/m", "allow"},
		{OpConnect, "example.org:443", "example.org:443", "deny"},
		{OpConnect, "unix:@x", "@x", "deny"},
		{OpConnect, "unix:/run/d.sock", "/run/d.sock", "deny"},
		{OpSignal, "pid:1", "pid:1", "deny"},
	} {
		e, err := p.Explain(tt.op, tt.target, f)
		if err != nil || e.Resolved != tt.resolved || e.Verdict != tt.verdict || (e.Remedy == nil) != (e.Verdict == "allow") {
			t.Errorf("Explain(%s, %s) = %+v, %v; want %s %s", tt.op, tt.target, e, err, tt.resolved, tt.verdict)
		}
	}
	if _, err := p.Explain(OpRead, "loop", f); err == nil {
		t.Error("a loop of links was resolved")
	}
	e, _ := p.Explain(OpRead, "l", f)
	got, _ := json.Marshal(e)
	if want := `{"op":"read","target":"l","resolved":"/etc/passwd","verdict":"allow","rule":{"text":"reading is allowed, but for secrets","origin":"preset"},"remedy":null}`; string(got) != want {
		t.Errorf("JSON %s, want %s", got, want)
	}
}
