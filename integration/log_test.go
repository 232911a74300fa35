package integration

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// records are the types of a log's records, with the members that tell them apart.
func records(t *testing.T, path string) []string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for line := range bytes.Lines(b) {
		var r struct {
			Type, ID, Outcome, Reason string
			Error                     *struct{ Code string }
			Job                       *struct{ JobID string }
		}
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		s := r.Type
		switch {
		case r.Error != nil:
			s += " " + r.ID + " " + r.Error.Code
		case r.Job != nil:
			s += " " + r.Job.JobID
		case r.ID != "":
			s += " " + r.ID
		case r.Outcome != "":
			s += " " + r.Outcome
		case r.Type == "end":
			s += ": " + r.Reason
		}
		out = append(out, s)
	}
	return out
}

// However a session ends, its log tells it: what ran is there with its result or
// without one, questions have their outcomes, and people can read it.
func TestLog_HoweverItEnds(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		start := func(name string) (*lineConn, string) {
			log := filepath.Join(e.O, name+".log")
			c := e.lines(Opts{}, "--log", log)
			c.call(1, "bash", map[string]any{"command": "sleep 300", "run_in_background": true})
			c.result()
			c.send(`{"id":2,"tool":"bash","arguments":{"command":"true","sandbox_permissions":{"network":"full"}}}`)
			if r := c.next(); r.Event != "approval" {
				t.Fatalf("%+v", r)
			}
			c.send(`{"cancel":2}`)
			if r := c.result(); r.Error == nil || r.Error.Code != "CANCELLED" {
				t.Fatalf("%+v", r)
			}
			c.send(`{"id":3,"tool":"bash","arguments":{"command":"echo so far; sleep 300"},"stream":true}`)
			for c.next().Event != "output" {
			}
			return c, log
		}
		const begun = "start|call 1|result 1|call 2|question|outcome cancelled|result 2 CANCELLED|call 3"
		for name, tt := range map[string]struct {
			end    func(c *lineConn)
			status int
			want   string
		}{
			"SIGTERM":  {func(c *lineConn) { _ = c.cmd.Process.Signal(unix.SIGTERM) }, 143, "|result 3 ABORTED|job bash-1|end: terminated"},
			"unread":   {func(c *lineConn) { _ = c.from.Close() }, 143, "|result 3 ABORTED|job bash-1|end: nobody reads the results any more"},
			"SIGKILL":  {func(c *lineConn) { _ = c.cmd.Process.Kill() }, 137, ""},
			"the call": {func(c *lineConn) { c.send(`{"cancel":3}`); _ = c.in.Close() }, 0, "|result 3 ABORTED|job bash-1|end: all calls have ended"},
		} {
			c, log := start(strings.ReplaceAll(name, " ", "-"))
			tt.end(c)
			if got := c.exit(); got != tt.status {
				t.Errorf("%s: status %d, want %d; %s", name, got, tt.status, c.errs.String())
			}
			e.NothingLeft(10 * time.Second)
			// The job's end and the aborted call's result come in either order.
			got := strings.Join(records(t, log), "|")
			got = strings.Replace(got, "|job bash-1|result 3 ABORTED", "|result 3 ABORTED|job bash-1", 1)
			if got != begun+tt.want {
				t.Errorf("%s: the log has\n%s\nwant\n%s", name, got, begun+tt.want)
			}
			shown := e.Outside(dshxBin, "log", "show", log)
			wants := []string{"answer  bash: network full  cancelled", "job bash-1"}
			if name == "SIGKILL" {
				wants = append(wants, "bash  has no result: it runs still, or dshx was killed")
			} else {
				wants = append(wants, "    so far\n", "ABORTED")
			}
			for _, want := range wants {
				if shown.Exit != 0 || !strings.Contains(shown.Stdout, want) {
					t.Errorf("%s: status %d, no %q in\n%s%s", name, shown.Exit, want, shown.Stdout, shown.Stderr)
				}
			}
			// The next session goes on in the same file.
			if r := e.Outside(dshxBin, "call", "--no-config", "--log", log, "glob", `{"pattern":"*"}`); r.Exit != 0 {
				t.Errorf("%s: a later call: %s", name, r.Stderr)
			}
			if got := records(t, log); got[len(got)-1] != "end: all calls have ended" || got[len(got)-4] != "start" {
				t.Errorf("%s: then %v", name, got)
			}
		}
	})
}

// Who follows a log sees a call when it begins and when it ends.
func TestLog_Follow(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		log := filepath.Join(e.O, "session.log")
		c := e.lines(Opts{}, "--log", log)
		c.bash(1, "true")
		c.result()
		cmd := e.Command(Opts{}, dshxBin, "log", "show", "--follow", log)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }()
		lines := bufio.NewScanner(out)
		until := func(want string) {
			t.Helper()
			for lines.Scan() {
				if strings.Contains(lines.Text(), want) {
					return
				}
			}
			t.Fatalf("no %q: %v", want, lines.Err())
		}
		until("start")
		const command = "until [ -e go ]; do sleep 0.05; done; exit 5"
		c.bash(2, command)
		until("bash  " + command + "  …")
		e.Write(filepath.Join(e.W, "go"), "")
		until("bash  " + command + "  exit 5")
		_ = cmd.Process.Signal(unix.SIGINT)
		if err := cmd.Wait(); f3Status(cmd.ProcessState) != 130 {
			t.Errorf("%v", err)
		}
		c.end()
	})
}

// What commands may write is no place for a log, whichever way it is named; the
// file that is refused is not made, and nothing ran.
func TestLog_NotWhereCommandsWrite(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		e.Symlink(e.W, filepath.Join(e.O, "ws"))
		for _, path := range []string{"log", "./log", filepath.Join(e.W, "log"), filepath.Join(e.O, "ws", "log"), filepath.Join(e.W, "..", filepath.Base(e.W), "log")} {
			r := e.OutsideOpts(Opts{}, dshxBin, "call", "--no-config", "--log", path, "bash", `{"command":"touch ran"}`)
			if r.Exit != 1 || strings.Count(r.Stderr, "\n") != 1 || !strings.Contains(r.Stderr, "commands may write") {
				t.Errorf("%s: status %d, %s", path, r.Exit, r.Stderr)
			}
		}
		if entries, err := os.ReadDir(e.W); err != nil || len(entries) > 0 {
			t.Errorf("made: %v, %v", entries, err)
		}
		// The control, and that a command can't change the log that is written.
		log := filepath.Join(e.O, "log")
		r := e.OutsideOpts(Opts{}, dshxBin, "call", "--no-config", "--log", log, "bash",
			fmt.Sprintf(`{"command":"touch ran; echo forged >> %s; mv %s %s.1; rm -f %s; true"}`, log, log, log, log))
		if r.Exit != 0 || strings.Join(records(t, log), "|") != "start|call 1|result 1|end: all calls have ended" {
			t.Errorf("status %d, %s, the log has %v", r.Exit, r.Stderr, records(t, log))
		}
		if st, err := os.Stat(log); err != nil || st.Mode() != 0o600 {
			t.Errorf("%v, %v", st, err)
		}
		e.Read(filepath.Join(e.W, "ran"))
	})
}
