package integration

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// Family 5 over JSON lines, against the built program. What only the library
// can show is beside it: tools/bash, jobs, tools/jobs.

// job starts a job and returns its id.
func (c *lineConn) job(id int, command string, args map[string]any) string {
	c.t.Helper()
	all := map[string]any{"command": command, "run_in_background": true}
	for k, v := range args {
		all[k] = v
	}
	c.call(id, "bash", all)
	r := c.result()
	if !*r.OK {
		c.t.Fatalf("%s: %+v", command, r.Error)
	}
	return r.field(c.t, "jobId")
}

// output is all that a job has printed so far.
func (c *lineConn) output(id int, job string) string {
	c.t.Helper()
	c.call(id, "job_output", map[string]any{"job_id": job})
	r := c.result()
	if !*r.OK {
		c.t.Fatalf("%+v", r.Error)
	}
	return r.field(c.t, "stdout")
}

// inside are the commands' processes that live: those of Left but dshx's own.
func (c *lineConn) inside() (pids []int) {
	for _, pid := range c.e.Left() {
		cmdline, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if len(cmdline) > 0 && !strings.HasPrefix(string(cmdline), dshxBin+"\x00") {
			pids = append(pids, pid)
		}
	}
	return pids
}

func (c *lineConn) nothingInside(within time.Duration) {
	c.t.Helper()
	eventually(c.t, within, "nothing left inside", func() bool { return len(c.inside()) == 0 })
}

// lateLines is what the call may have: what runs on begins in its time.
var lateLines = regexp.MustCompile(`^(x\n)?hi\n(x\n)?$`)

func TestLines_F5_1_TheCallEndsWithTheShell(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		c := e.lines(Opts{})
		c.bash(0, "true") // what the first one costs is not the matter
		c.result()
		for i, tt := range []struct {
			command string
			pids    int
		}{{"sleep 300 & echo hi", 1}, {"(while :; do echo x; sleep 0.1; done) & echo hi", 2}} {
			began := time.Now()
			c.call(10*i+1, "bash", map[string]any{"command": tt.command, "timeout_ms": 10000})
			r := c.result()
			if took := time.Since(began); took > time.Second {
				t.Errorf("%s: took %v", tt.command, took)
			}
			job := r.field(t, "leftBehind.jobId")
			if r.field(t, "exitCode") != "0" || !lateLines.MatchString(r.field(t, "stdout")) || job != fmt.Sprintf("bash-%d", i+1) || !strings.Contains(r.Content[0].Text, "left running: job "+job+"]") {
				t.Errorf("%s: %s, %v", tt.command, r.Value, r.Content)
			}
			if tt.pids == 2 {
				n := 10*i + 2
				eventually(t, 10*time.Second, "the later lines", func() bool { n++; return strings.HasPrefix(c.output(n, job), "x\nx\n") })
			}
		}
		if code := c.end(); code != 0 {
			t.Errorf("status %d", code)
		}
		e.NothingLeft(time.Second)
	})
}

func TestLines_F5_3_ATimeoutEndsTheTree(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		c := e.lines(Opts{})
		began := time.Now()
		c.call(1, "bash", map[string]any{"command": "sh -c 'while :; do echo tick; sleep 1; done' | tee out.txt & wait", "timeout_ms": 2500})
		r := c.result()
		if took := time.Since(began); took > 8500*time.Millisecond || took < 2500*time.Millisecond {
			t.Errorf("took %v", took)
		}
		if !*r.OK || r.field(t, "timedOut") != "true" || !strings.HasPrefix(r.field(t, "stdout"), "tick\ntick\n") || r.field(t, "leftBehind") != "<nil>" {
			t.Errorf("%s, %+v", r.Value, r.Error)
		}
		c.nothingInside(time.Second) // with the connection still open
		c.end()
	})
}

func TestLines_F5_4_KilledMeansGone(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		c := e.lines(Opts{})
		job := c.job(1, "trap '' TERM; echo up; while :; do sleep 1; done", nil)
		n := 1
		eventually(t, 10*time.Second, "it is up", func() bool { n++; return c.output(n, job) == "up\n" })
		began := time.Now()
		c.call(100, "job_kill", map[string]any{"job_id": job, "reason": "test"})
		if r := c.result(); r.field(t, "requested") != "true" || r.field(t, "job.status") != "stopping" {
			t.Errorf("%s", r.Value)
		}
		c.call(101, "job_wait", map[string]any{"job_ids": []string{job}})
		var event, waited bool
		for !event || !waited {
			switch r := c.next(); {
			case r.Event == "job":
				event = r.Job.JobID == job && r.Job.Status == "killed" && r.Job.EndedBy != nil && *r.Job.EndedBy == "job_kill"
			default:
				waited = true
				c.nothingInside(0)
				if !strings.Contains(string(r.Value), `"status":"killed"`) || !strings.Contains(string(r.Value), `"endedBy":"job_kill"`) {
					t.Errorf("%s", r.Value)
				}
			}
		}
		if took := time.Since(began); took > 6*time.Second || took < 4*time.Second {
			t.Errorf("killed after %v", took)
		}
		c.call(102, "job_kill", map[string]any{"job_id": job})
		if r := c.result(); !*r.OK || r.field(t, "requested") != "false" || r.field(t, "job.status") != "killed" {
			t.Errorf("%s", r.Value)
		}
		c.call(103, "job_kill", map[string]any{"job_id": "bash-99"})
		if r := c.result(); *r.OK || r.Error.Code != "JOB_NOT_FOUND" {
			t.Errorf("%+v", r)
		}
		c.end()
	})
}

func TestLines_F5_6_OneKillEndsAll(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		c := e.lines(Opts{})
		c.bash(1, "for n in a b c; do (while true; do true; done) & done; echo started")
		r := c.result()
		job := r.field(t, "leftBehind.jobId")
		if n := len(c.inside()); r.field(t, "exitCode") != "0" || strings.Count(r.field(t, "leftBehind.pids"), " ") != 2 || n != 3 || !strings.Contains(r.Content[0].Text, "[3 processes left running: job "+job+"]") {
			t.Errorf("%s, %d live, %v", r.Value, n, r.Content)
		}
		c.call(2, "job_list", map[string]any{})
		if r := c.result(); !strings.Contains(string(r.Value), `{"jobId":"`+job+`","kind":"bash","label":"for n in a b c; do (while true; do true; done) & done; echo started","status":"running"`) {
			t.Errorf("%s", r.Value)
		}
		c.call(3, "job_kill", map[string]any{"job_id": job})
		c.result()
		c.call(4, "job_wait", map[string]any{"job_ids": []string{job}})
		c.result()
		c.nothingInside(0)
		c.end()
	})
}

// dshx itself is started on a terminal; its commands see none of it.
func TestLines_F5_11_NothingIsReadFromTheCallersTerminal(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		var calls []string
		commands := []string{
			"cat", "read x; echo $?", "grep foo", "python3 -c 'input()'", "sh -c 'echo q >/dev/tty; read a </dev/tty'",
			"git init -q r && cd r && touch f && git add f && git -c user.name=n -c user.email=e@example.org commit",
			"ssh-keygen -f k", "sudo -k true",
		}
		for i, command := range commands {
			b, err := json.Marshal(map[string]any{"id": i, "tool": "bash", "arguments": map[string]any{"command": command, "timeout_ms": 20000}})
			if err != nil {
				t.Fatal(err)
			}
			calls = append(calls, string(b))
		}
		e.Write(filepath.Join(e.W, "calls"), strings.Join(calls, "\n"))
		needDshx(t)
		began := time.Now()
		term := e.f3BarePty("sh", "-c", `TERM=xterm "$1" exec --no-config --env "IT_MARK=$2" <calls >results 2>errors; echo "status $?"`, "sh", dshxBin, e.Mark)
		shown := term.read("status 0")
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("took %v", took)
		}
		if !strings.HasPrefix(shown, "status") {
			t.Errorf("on the caller's terminal: %q", shown)
		}
		if s := e.Read(filepath.Join(e.W, "errors")); s != "" {
			t.Errorf("standard error: %q", s)
		}
		for i, line := range strings.Split(strings.TrimSpace(e.Read(filepath.Join(e.W, "results"))), "\n") {
			if i >= len(commands) || !strings.HasPrefix(line, fmt.Sprintf(`{"id":%d,"ok":true`, i)) || !strings.Contains(line, `"timedOut":false`) {
				t.Errorf("%d: %s", i, clip(line))
			}
		}
	})
}

func TestLines_F5_13_CharactersStayWhole(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		c := e.lines(Opts{})
		const thai = `printf '\xe0'; sleep 0.2; printf '\xb8'; sleep 0.2; printf '\x81'; sleep 0.2; echo`
		c.send(`{"id":1,"tool":"bash","stream":true,"arguments":{"command":%s}}`, quoted(thai))
		var pieces []string
		for {
			r := c.next()
			if r.OK != nil {
				if r.field(t, "stdout") != "\u0e01\n" || r.field(t, "encoding") != "utf-8" {
					t.Errorf("%s", r.Value)
				}
				break
			}
			pieces = append(pieces, r.Text+r.Base64)
		}
		if !slices.Equal(pieces, []string{"\u0e01", "\n"}) {
			t.Errorf("events %q", pieces)
		}
		// A job that is read while the letter is on its way.
		job := c.job(2, thai, nil)
		n, all := 2, ""
		eventually(t, 10*time.Second, "the letter", func() bool {
			n++
			all = c.output(n, job)
			if all != "" && all != "\u0e01" && all != "\u0e01\n" {
				t.Errorf("read %q", all)
			}
			return all == "\u0e01\n"
		})
		c.call(1000, "job_wait", map[string]any{})
		c.result()
		// Neither is a byte that is no character replaced.
		c.send(`{"id":1001,"tool":"bash","stream":true,"arguments":{"command":%s}}`, quoted(`printf '\xff'`))
		r := c.next()
		for r.Event == "job" {
			r = c.next()
		}
		if r.Event != "output" || r.Base64 != "/w==" || r.Text != "" {
			t.Errorf("%+v", r)
		}
		if r := c.result(); r.field(t, "stdout") != "/w==" || r.field(t, "encoding") != "base64" {
			t.Errorf("%s", r.Value)
		}
		// 100,000 box characters, cut between two of them.
		c.bash(1002, "yes ┼ | head -n 100000 | tr -d '\\n'")
		r = c.result()
		out := r.field(t, "stdout")
		if strings.ContainsRune(out, '\ufffd') || strings.ContainsRune(r.Content[0].Text, '\ufffd') || r.field(t, "stdoutBytes") != "300000" || !strings.HasPrefix(out, "┼┼") || !strings.HasSuffix(out, "┼┼") {
			t.Errorf("%.100q", out)
		}
		c.end()
	})
}

// An ordinary user, whom the limit binds.
func TestLines_F5_16_AForkBombIsBounded(t *testing.T) {
	if !isPrivate || !isRoot {
		skip(t, "needs an account that nobody else uses")
	}
	e := newEnv(t, ordinaryUID, ordinaryGID)
	e.Write(filepath.Join(e.W, "f"), "x\n")
	const bomb = "f() { f & f & wait; }; while :; do f; done"
	c := e.lines(Opts{}, "--pids", "64")
	c.call(1, "bash", map[string]any{"command": bomb, "timeout_ms": 3000})
	most := 0
	within := func(what string, want func(reply) bool) {
		t.Helper()
		began := time.Now()
		for !want(c.next()) {
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("%s took %v", what, took)
		}
		most = max(most, len(c.inside()))
	}
	for i := range 5 {
		time.Sleep(200 * time.Millisecond)
		c.send(`{"ping":%d}`, i)
		within("a ping", func(r reply) bool { return string(r.Pong) == fmt.Sprint(i) })
	}
	r := c.result()
	if r.field(t, "timedOut") != "true" || r.field(t, "limit.name") != "pids" || r.field(t, "limit.value") != "64" {
		t.Errorf("timed out %s, limit %s", r.field(t, "timedOut"), r.field(t, "limit"))
	}
	c.nothingInside(time.Second)
	// As a job, beside which other calls run.
	job := c.job(2, bomb, nil)
	for i := range 5 {
		time.Sleep(100 * time.Millisecond)
		c.call(10+i, "read", map[string]any{"file_path": "f"})
		within("a read", func(r reply) bool { return string(r.ID) == fmt.Sprint(10+i) && *r.OK })
	}
	c.call(20, "job_kill", map[string]any{"job_id": job})
	c.result()
	c.call(21, "job_wait", map[string]any{"job_ids": []string{job}})
	if r := c.result(); !strings.Contains(string(r.Value), `"status":"killed"`) {
		t.Errorf("%s", r.Value)
	}
	c.nothingInside(0)
	if most > 64 || most < 10 {
		t.Errorf("%d processes at most", most)
	}
	c.bash(22, "echo works")
	if r := c.result(); r.field(t, "stdout") != "works\n" {
		t.Errorf("%s", r.Value)
	}
	c.end()
}

func TestLines_F5_19_CancelsEndNoJob(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		c := e.lines(Opts{})
		job := c.job(1, "echo up; sleep 300", map[string]any{"timeout_ms": 300})
		c.send(`{"cancel":1}`)
		if r := c.next(); string(r.Cancelled) != "1" || *r.Known {
			t.Errorf("%+v", r)
		}
		c.call(2, "job_wait", map[string]any{"job_ids": []string{job}, "timeout_ms": 1000})
		if r := c.result(); r.field(t, "timedOut") != "true" { // well past the call's timeout
			t.Errorf("%s", r.Value)
		}
		c.call(3, "job_wait", map[string]any{"job_ids": []string{job}})
		c.send(`{"cancel":3}`)
		if r := c.next(); string(r.Cancelled) != "3" || !*r.Known {
			t.Errorf("%+v", r)
		}
		if r := c.result(); r.Error == nil || r.Error.Code != "ABORTED" && r.Error.Code != "CANCELLED" {
			t.Errorf("%+v", r)
		}
		c.call(4, "job_list", map[string]any{})
		if r := c.result(); strings.Count(string(r.Value), `"status":"running"`) != 1 {
			t.Errorf("%s", r.Value)
		}
		// Cancelled behind an exclusive call, before its turn.
		c.bash(5, "sleep 0.5")
		c.call(6, "bash", map[string]any{"command": "touch ran", "run_in_background": true})
		c.send(`{"cancel":6}`)
		codes := map[string]string{}
		for len(codes) < 2 {
			if r := c.next(); r.OK != nil && !*r.OK {
				codes[string(r.ID)] = r.Error.Code
			} else if r.OK != nil {
				codes[string(r.ID)] = ""
			}
		}
		if codes["5"] != "" || codes["6"] != "CANCELLED" {
			t.Errorf("%v", codes)
		}
		if _, err := os.Stat(filepath.Join(e.W, "ran")); err == nil {
			t.Error("a cancelled call started its command")
		}
		if code := c.end(); code != 0 {
			t.Errorf("status %d", code)
		}
		e.NothingLeft(time.Second)
	})
}

// quoted is a text as JSON.
func quoted(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}
