package integration

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

var updateHandshakes = flag.Bool("update", false, "write the replies of testdata/handshakes")

// What clients say when they connect, recorded or after their sources, and what
// they are told.
func TestMCP_Handshakes(t *testing.T) {
	files, err := filepath.Glob("testdata/handshakes/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal(err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			e := newEnv(t, os.Getuid(), os.Getgid())
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			c := e.serveRaw(Opts{})
			var got strings.Builder
			roots := false
			for line := range strings.Lines(string(text)) {
				if strings.HasPrefix(line, "< ") {
					continue
				}
				got.WriteString(line)
				said, ok := strings.CutPrefix(line, "> ")
				if !ok {
					continue
				}
				c.send("%s", strings.TrimSpace(said))
				var m struct {
					ID     json.RawMessage
					Method string
					Params struct{ Capabilities struct{ Roots any } }
				}
				if err := json.Unmarshal([]byte(said), &m); err != nil {
					t.Fatal(err)
				}
				roots = roots || m.Params.Capabilities.Roots != nil
				switch {
				case m.ID != nil:
					got.WriteString("< " + normal(t, c.reply(string(m.ID)).full) + "\n")
				case m.Method == "notifications/initialized" && roots:
					ask := c.next()
					if ask.Method != "roots/list" {
						t.Errorf("%s", ask.line)
					}
					got.WriteString("< " + normal(t, ask.full) + "\n")
					c.send(`{"jsonrpc":"2.0","id":%s,"result":{"roots":[{"uri":"file://%s"}]}}`, ask.ID, e.W)
				}
			}
			c.bash(77, "echo connected")
			if m := c.reply("77"); m.field(t, "stdout") != "connected\n" {
				t.Errorf("%s", m.line)
			}
			if code := c.end(); code != 0 {
				t.Errorf("status %d: %s", code, c.errs.String())
			}
			if strings.Contains(c.errs.String(), "root") {
				t.Errorf("standard error: %q", c.errs.String())
			}
			if *updateHandshakes {
				if err := os.WriteFile(file, []byte(got.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if got.String() != string(text) {
				t.Errorf("%s has changed; -update writes it\ngot\n%s\nwant\n%s", file, got.String(), text)
			}
		})
	}
}

// normal is a message without what differs between builds, and of tools the names
// alone: their schemas have goldens of their own.
func normal(t *testing.T, line string) string {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal([]byte(line), &m); err != nil {
		t.Fatal(err)
	}
	if r, ok := m["result"].(map[string]any); ok {
		if info, ok := r["serverInfo"].(map[string]any); ok {
			info["version"] = "VERSION"
		}
		if tools, ok := r["tools"].([]any); ok {
			for i, tool := range tools {
				tools[i] = tool.(map[string]any)["name"]
			}
		}
	}
	b, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// F6-15, against commands: the last line of output, and none behind the reply.
func TestMCP_F6_15_Progress(t *testing.T) {
	e := newEnv(t, os.Getuid(), os.Getgid())
	c := e.serve(Opts{})
	c.call("flood", "bash", map[string]any{"command": "timeout 3 yes flood; true"}, `{"progressToken":0}`)
	c.call("silent", "bash", map[string]any{"command": "sleep 22"}, `{"progressToken":9007199254740993}`)
	c.call("none", "bash", map[string]any{"command": "echo a; sleep 0.5; echo b"})
	told := map[string][]string{}
	replies := map[string]bool{}
	for len(replies) < 3 {
		m := c.next()
		switch {
		case m.Method == "notifications/progress":
			var p struct {
				ProgressToken json.RawMessage
				Message       string
			}
			if err := json.Unmarshal(m.Params, &p); err != nil {
				t.Fatal(err)
			}
			call := map[string]string{"0": `"flood"`, "9007199254740993": `"silent"`}[string(p.ProgressToken)]
			if call == "" || replies[call] {
				t.Errorf("%s", m.line)
			}
			told[call] = append(told[call], p.Message)
		case m.Method == "":
			replies[string(m.ID)] = true
		}
	}
	if n := len(told[`"flood"`]); n < 5 || n > 16 || !slices.Contains(told[`"flood"`], "flood") {
		t.Errorf("the flood: %q", told[`"flood"`])
	}
	if n := len(told[`"silent"`]); n < 1 || n > 3 || !strings.HasPrefix(told[`"silent"`][0], "no output for ") {
		t.Errorf("in silence: %q", told[`"silent"`])
	}
	if code := c.end(); code != 0 {
		t.Errorf("status %d", code)
	}
}

// job_wait tells what its jobs print.
func TestMCP_F6_15_ProgressOfJobs(t *testing.T) {
	e := newEnv(t, os.Getuid(), os.Getgid())
	c := e.serve(Opts{})
	c.call(1, "bash", map[string]any{"command": "while [ ! -e go ]; do sleep 0.05; done; echo from the job; while [ ! -e end ]; do sleep 0.05; done; exit 3", "run_in_background": true})
	c.reply("1")
	c.call(2, "job_wait", map[string]any{}, `{"progressToken":"w"}`)
	e.Write(filepath.Join(e.W, "go"), "")
	for {
		m := c.next()
		if m.Method == "notifications/progress" && strings.Contains(string(m.Params), `"message":"bash-1: from the job"`) {
			break
		}
		if m.Method == "" {
			t.Fatalf("%s", m.line)
		}
	}
	e.Write(filepath.Join(e.W, "end"), "")
	var logged bool
	for {
		m := c.next()
		if m.Method == "notifications/message" {
			logged = true
			if !strings.Contains(string(m.Params), `"data":"job bash-1 has exited with status 3: `) || !strings.Contains(string(m.Params), `"jobId":"bash-1"`) {
				t.Errorf("%s", m.Params)
			}
		}
		if m.Method == "" {
			if m.field(t, "timedOut") != "false" {
				t.Errorf("%s", m.line)
			}
			break
		}
	}
	// At once, and with the next result, whichever comes first.
	c.call(3, "job_list", map[string]any{})
	for !logged {
		m := c.next()
		logged = m.Method == "notifications/message"
	}
	if code := c.end(); code != 0 {
		t.Errorf("status %d", code)
	}
}

// F6-18: approvals by elicitation widen one call, and only the answer that was
// offered does.
func TestMCP_F6_18_Approvals(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		out := filepath.Join(e.O, "out")
		ask := func(c *mcpConn, id int) {
			c.call(id, "bash", map[string]any{"command": "echo x > " + out, "sandbox_permissions": map[string]any{"write": []string{e.O}}, "justification": "the test wants it"})
		}
		// Nobody there: nothing on the wire, nothing run.
		c := e.serve(Opts{})
		ask(c, 1)
		if m := c.next(); m.code() != "APPROVAL_UNAVAILABLE" {
			t.Errorf("%s", m.line)
		}
		c.end()
		if _, err := os.Stat(out); err == nil {
			t.Error("it was written")
		}
		c = e.serveRaw(Opts{})
		c.hello(`{"elicitation":{}}`)
		question := func(id int) string {
			t.Helper()
			ask(c, id)
			m := c.next()
			if m.Method != "elicitation/create" || !strings.Contains(string(m.Params), "the test wants it") || !strings.Contains(string(m.Params), e.O) {
				t.Fatalf("%s", m.line)
			}
			return string(m.ID)
		}
		for i, tt := range []struct{ answer, code string }{
			{`"error":{"code":-32601,"message":"method not found"}`, "APPROVAL_UNAVAILABLE"}, {`"result":{"action":"yes"}`, "APPROVAL_UNAVAILABLE"},
			{`"result":{"action":"accept","content":{"decision":"reject"}}`, "APPROVAL_REJECTED"}, {`"result":{"action":"accept","content":{"decision":"allow once"}}`, ""},
		} {
			c.send(`{"jsonrpc":"2.0","id":%s,%s}`, question(10+i), tt.answer)
			m := c.reply(fmt.Sprint(10 + i))
			_, err := os.Stat(out)
			if tt.code != "" && (m.code() != tt.code || err == nil) || tt.code == "" && (m.field(t, "exitCode") != "0" || err != nil) {
				t.Errorf("%s: %s, %v", tt.answer, m.line, err)
			}
		}
		// For one call.
		c.bash(20, "echo x > "+out+"2")
		if m := c.reply("20"); m.field(t, "exitCode") == "0" {
			t.Errorf("it is still allowed: %s", m.line)
		}
		// A cancelled call's question is withdrawn, and its answer comes too late.
		_ = os.Remove(out)
		q := question(21)
		c.cancel("21")
		if m := c.next(); m.Method != "notifications/cancelled" || !strings.Contains(string(m.Params), `"requestId":`+q) {
			t.Errorf("%s", m.line)
		}
		c.send(`{"jsonrpc":"2.0","id":%s,"result":{"action":"accept","content":{"decision":"allow once"}}}`, q)
		c.bash(22, "true")
		c.reply("22")
		// The end of input leaves nobody to answer.
		question(23)
		_ = c.in.Close()
		if m := c.reply("23"); m.code() != "APPROVAL_UNAVAILABLE" {
			t.Errorf("%s", m.line)
		}
		if code := c.wait(20 * time.Second); code != 0 {
			t.Errorf("status %d", code)
		}
		if _, err := os.Stat(out); err == nil {
			t.Error("it was written")
		}
	})
}

// F6-17: roots change nothing; what is elsewhere is told in the log.
func TestMCP_F6_17_Roots(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		c := e.serveRaw(Opts{}, "--workspace", e.W)
		c.hello(`{"roots":{"listChanged":true}}`)
		for i, roots := range []string{fmt.Sprintf(`[{"uri":"file://%s"}]`, e.O), `[]`, fmt.Sprintf(`[{"uri":"file://%s/sub"}]`, e.W), `[{"uri":"::%%"}]`, fmt.Sprintf(`[{"uri":"file://%s"}]`, e.W)} {
			m := c.next()
			if m.Method != "roots/list" {
				t.Fatalf("%s", m.line)
			}
			c.send(`{"jsonrpc":"2.0","id":%s,"result":{"roots":%s}}`, m.ID, roots)
			c.bash(i, "echo x > "+filepath.Join(e.O, "f")+"; echo y > f")
			if m := c.reply(fmt.Sprint(i)); m.field(t, "cwd") != e.W {
				t.Errorf("%s", m.line)
			}
			if _, err := os.Stat(filepath.Join(e.O, "f")); err == nil {
				t.Error("a root widened what may be written")
			}
			if got := e.Read(filepath.Join(e.W, "f")); got != "y\n" {
				t.Errorf("the workspace: %q", got)
			}
			c.send(`{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`)
		}
		if code := c.end(); code != 0 {
			t.Errorf("status %d", code)
		}
		if n := strings.Count(c.errs.String(), "no root of the client contains the workspace"); n != 3 {
			t.Errorf("%d times in %q", n, c.errs.String())
		}
	})
}

func TestMCP_Status(t *testing.T) {
	e := newEnv(t, os.Getuid(), os.Getgid())
	c := e.serve(Opts{}, "--preset", "read-only")
	c.send(`{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"dshx-status"}}`)
	m := c.reply("1")
	if !strings.Contains(m.full, "Preset read-only, workspace "+e.W+", network none.") || !strings.Contains(m.full, "nobody is asked") {
		t.Errorf("%s", m.full)
	}
	c.end()
}
