package integration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Without a terminal of its own a command is in the caller's session. It gets
// neither the terminal's keys nor a place in the caller's other jobs, whose
// processes it could have stopped from there.
func TestCallersTerminal_StaysTheCallers(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		s := e.f3Shell()
		s.run("sleep 300 &")
		s.run("export J=$!")
		for name, prefix := range map[string]string{"control": "", "inside": "dshx exec --tty never -- ", "own": "dshx exec --tty always -- "} {
			e.Write(filepath.Join(e.W, name), prefix+`probe do '!tty-foreground' "!join-group $J"`+"\n")
		}
		ok := func(out, name string) bool { return strings.Contains(out, name) && strings.Contains(out, " ok") }
		lines := func(out string) (foreground, join string) {
			for line := range strings.Lines(out) {
				switch {
				case strings.HasPrefix(line, "tty-foreground"):
					foreground = line
				case strings.HasPrefix(line, "join-group"):
					join = line
				}
			}
			return
		}
		foreground, join := lines(s.run("sh control"))
		if !ok(foreground, "tty-foreground") || !ok(join, "join-group") {
			t.Errorf("control: %q, %q", foreground, join)
		}
		foreground, join = lines(s.run("sh inside"))
		if !strings.Contains(foreground, "EPERM") || !strings.Contains(join, "EPERM") {
			t.Errorf("inside: %q, %q", foreground, join)
		}
		// On a terminal of its own the keys are its own.
		foreground, join = lines(s.run("sh own"))
		if !ok(foreground, "tty-foreground") || !strings.Contains(join, "EPERM") {
			t.Errorf("on its own terminal: %q, %q", foreground, join)
		}
		if out := s.run("kill %1; wait %1; jobs"); strings.Contains(out, "Stopped") {
			t.Errorf("the job was stopped: %q", out)
		}
	})
}

// A command that stops itself stops dshx, as a shell expects of a job, and all
// else of its tree: nothing goes on while no deadline is kept.
func TestStopped_NothingGoesOn(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		for _, tty := range []string{"never", "always"} {
			s := e.f3Shell()
			ticks := filepath.Join(e.W, "ticks-"+tty)
			size := func() int64 {
				st, err := os.Stat(ticks)
				if err != nil {
					return -1
				}
				return st.Size()
			}
			s.Send("dshx exec --tty " + tty + " --timeout 2s -- sh -c '(while :; do echo x >> ticks-" + tty + "; sleep 0.02; done) & until [ -s ticks-" + tty + " ]; do sleep 0.01; done; kill -STOP $$; sleep 60'\n")
			s.expect("Stopped")
			s.expect(f3Prompt)
			before := size()
			time.Sleep(500 * time.Millisecond)
			if after := size(); before <= 0 || after != before {
				t.Errorf("%s: it went on while dshx was stopped: %d, then %d", tty, before, after)
			}
			s.run("fg")
			if code := s.status(); code != "124" {
				t.Errorf("%s: status %s, want 124", tty, code)
			}
		}
	})
}

// A lease on a file makes everybody else who opens it wait.
func TestLease_Refused(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		f := e.Write(filepath.Join(e.O, "shared"), "x")
		attempt := []string{"setlease " + f}
		assertAllowed(t, e.ProbeOutside(attempt...), attempt)
		assertDenied(t, e.Probe(Opts{}, attempt...), attempt)
	})
}
