package integration

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// dshx serve over standard streams, against the built programs (family 6).
// What needs no process is in serve/mcp.

// mcpConn is a `dshx serve` that the test talks to.
type mcpConn struct {
	t    *testing.T
	e    *Env
	cmd  *exec.Cmd
	in   io.WriteCloser
	from io.ReadCloser // its standard output
	out  chan string
	done chan struct{}
	errs strings.Builder
}

// mcpMessage is one line of output.
type mcpMessage struct {
	line   string // its beginning
	full   string
	ID     json.RawMessage
	Method string
	Params json.RawMessage
	Result *struct {
		Content           []struct{ Type, Text string }
		StructuredContent json.RawMessage
		IsError           bool
		Meta              struct {
			Card  json.RawMessage `json:"dshx/card"`
			Error *struct {
				Code, Message string
				Details       json.RawMessage
			} `json:"dshx/error"`
			Job []struct{ JobID, Status string } `json:"dshx/job"`
		} `json:"_meta"`
		ProtocolVersion string
		Tools           []struct {
			Name                      string
			InputSchema, OutputSchema json.RawMessage
		}
	}
	Error *struct {
		Code    int
		Message string
	}
}

const mcpHello = `{"jsonrpc":"2.0","id":"hello","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":%s,"clientInfo":{"name":"test","version":"0"}}}`

// serve starts a server and shakes hands.
func (e *Env) serve(o Opts, flags ...string) *mcpConn {
	e.t.Helper()
	c := e.serveRaw(o, flags...)
	c.hello("{}")
	return c
}

// serveRaw starts a server.
func (e *Env) serveRaw(o Opts, flags ...string) *mcpConn {
	e.t.Helper()
	c := e.serveUnread(o, flags...)
	c.read()
	return c
}

// read begins to read the output.
func (c *mcpConn) read() {
	go func() {
		defer close(c.done)
		r := bufio.NewReaderSize(c.from, 1<<20)
		for {
			line, err := r.ReadString('\n')
			if err != nil {
				if line != "" {
					c.out <- line
				}
				close(c.out)
				return
			}
			c.out <- line
		}
	}()
}

// serveUnread starts a server whose output nobody reads yet.
func (e *Env) serveUnread(o Opts, flags ...string) *mcpConn {
	e.t.Helper()
	needDshx(e.t)
	argv := append([]string{dshxBin, "serve", "--no-config", "--env", "IT_MARK=" + e.Mark}, flags...)
	argv = append(append([]string{}, o.Prefix...), argv...)
	c := &mcpConn{t: e.t, e: e, cmd: e.Command(o, argv...), out: make(chan string, 8192), done: make(chan struct{})}
	var err error
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		e.t.Fatal(err)
	}
	if c.from, err = c.cmd.StdoutPipe(); err != nil {
		e.t.Fatal(err)
	}
	c.cmd.Stderr = &c.errs
	if err := c.cmd.Start(); err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(func() {
		_ = syscall.Kill(-c.cmd.Process.Pid, syscall.SIGKILL)
		_ = c.cmd.Wait()
	})
	return c
}

// hello shakes hands, with the client's capabilities.
func (c *mcpConn) hello(capabilities string) {
	c.t.Helper()
	c.send(mcpHello, capabilities)
	if m := c.reply(`"hello"`); m.Result == nil || m.Result.ProtocolVersion != "2025-11-25" {
		c.t.Fatalf("%s", m.line)
	}
	c.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

func (c *mcpConn) send(format string, args ...any) {
	c.t.Helper()
	if _, err := fmt.Fprintf(c.in, format+"\n", args...); err != nil {
		c.t.Fatal(err)
	}
}

// call sends a tools/call; meta is JSON, "" for none.
func (c *mcpConn) call(id any, tool string, args any, meta ...string) {
	c.t.Helper()
	a, err := json.Marshal(args)
	if err != nil {
		c.t.Fatal(err)
	}
	i, err := json.Marshal(id)
	if err != nil {
		c.t.Fatal(err)
	}
	more := ""
	for _, m := range meta {
		more += `,"_meta":` + m
	}
	c.send(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":%q,"arguments":%s%s}}`, i, tool, a, more)
}

func (c *mcpConn) bash(id any, command string) {
	c.t.Helper()
	c.call(id, "bash", map[string]any{"command": command})
}

func (c *mcpConn) cancel(id string) {
	c.t.Helper()
	c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s,"reason":"user"}}`, id)
}

func (c *mcpConn) ping(id string) {
	c.t.Helper()
	c.send(`{"jsonrpc":"2.0","id":%s,"method":"ping"}`, id)
}

// next is the next message.
func (c *mcpConn) next() mcpMessage {
	c.t.Helper()
	select {
	case line, ok := <-c.out:
		if !ok {
			c.t.Fatalf("the output has ended; standard error: %s", c.errs.String())
		}
		return c.parse(line)
	case <-time.After(60 * time.Second):
		c.t.Fatal("no further message")
	}
	panic("unreachable")
}

func (c *mcpConn) parse(line string) (m mcpMessage) {
	c.t.Helper()
	if err := json.Unmarshal([]byte(line), &m); err != nil || !strings.HasPrefix(line, `{"jsonrpc":"2.0"`) || !strings.HasSuffix(line, "\n") {
		c.t.Fatalf("not a message: %q: %v", clip(line), err)
	}
	m.line, m.full = clip(line), line
	return m
}

// reply is the reply to a request, notifications passed over.
func (c *mcpConn) reply(id string) mcpMessage {
	c.t.Helper()
	for {
		m := c.next()
		if m.Method != "" {
			continue
		}
		if string(m.ID) != id {
			c.t.Fatalf("a reply to %s: %s", m.ID, m.line)
		}
		return m
	}
}

// field is a part of the structured content.
func (m mcpMessage) field(t *testing.T, path string) string {
	t.Helper()
	if m.Result == nil {
		t.Fatalf("no result: %s", m.line)
	}
	return reply{Value: m.Result.StructuredContent}.field(t, path)
}

// code is the code of a tool's failure, "" for none.
func (m mcpMessage) code() string {
	if m.Result == nil || !m.Result.IsError || m.Result.Meta.Error == nil {
		return ""
	}
	return m.Result.Meta.Error.Code
}

// end closes the input and returns the exit status.
func (c *mcpConn) end() int {
	c.t.Helper()
	_ = c.in.Close()
	return c.wait(20 * time.Second)
}

func (c *mcpConn) wait(within time.Duration) int {
	c.t.Helper()
	select {
	case <-c.done:
	case <-time.After(within):
		c.t.Fatalf("not ended within %v", within)
	}
	_ = c.cmd.Wait()
	return f3Status(c.cmd.ProcessState)
}

func (c *mcpConn) exit() int {
	c.t.Helper()
	stuck := time.AfterFunc(30*time.Second, func() {
		c.t.Error("it goes on")
		_ = syscall.Kill(-c.cmd.Process.Pid, syscall.SIGKILL)
	})
	defer stuck.Stop()
	_ = c.cmd.Wait()
	return f3Status(c.cmd.ProcessState)
}

// rest is what else comes, until the end.
func (c *mcpConn) rest() (lines []string) {
	for l := range c.out {
		lines = append(lines, l)
	}
	return lines
}

func TestMCP_CallsEndToEnd(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		c := e.serve(Opts{})
		c.bash(1, "echo out; echo err >&2; exit 3")
		m := c.reply("1")
		if m.Result.IsError || m.field(t, "exitCode") != "3" || m.field(t, "stdout") != "out\n" || m.Result.Content[0].Text != "out\nerr\n[exit code 3]" || !strings.Contains(string(m.Result.Meta.Card), `"card":"terminal"`) {
			t.Errorf("bash: %s", m.line)
		}
		c.call(2, "write", map[string]any{"file_path": "a/b.txt", "content": "one\ntwo\n"})
		c.reply("2")
		c.call(3, "edit", map[string]any{"file_path": "a/b.txt", "old_string": "two", "new_string": "three"})
		c.reply("3")
		c.bash(4, "cat a/b.txt")
		if m := c.reply("4"); m.field(t, "stdout") != "one\nthree\n" {
			t.Errorf("bash sees %s", m.line)
		}
		out := e.Write(filepath.Join(e.O, "f"), "secret")
		c.bash(5, "echo x > "+out)
		if m := c.reply("5"); m.field(t, "exitCode") == "0" {
			t.Errorf("bash wrote outside: %s", m.line)
		}
		c.call(6, "write", map[string]any{"file_path": out, "content": "x"})
		if m := c.reply("6"); m.code() != "SANDBOX_DENIED" && m.code() != "FS_NOT_OBSERVED" {
			t.Errorf("write wrote outside: %s", m.line)
		}
		if got := e.Read(out); got != "secret" {
			t.Errorf("the file outside is %q", got)
		}
		// F6-13: an error has its text, and no structured content that could break
		// the schema.
		c.call(7, "read", map[string]any{"file_path": "nosuch"})
		if m := c.reply("7"); m.code() != "FS_NOT_FOUND" || m.Result.StructuredContent != nil || m.Result.Content[0].Text != m.Result.Meta.Error.Message {
			t.Errorf("%s", m.line)
		}
		// A number beyond 2^53 is not rounded, and a name that is none is told.
		c.send(`{"jsonrpc":"2.0","id":9007199254740993,"method":"tools/call","params":{"name":"bash","arguments":{"command":"true","timeout_ms":9007199254740993}}}`)
		if m := c.reply("9007199254740993"); m.field(t, "timeoutMs") != "600000" {
			t.Errorf("%s", m.line)
		}
		c.call(8, "bosh", map[string]any{})
		if m := c.reply("8"); m.Error == nil || m.Error.Code != -32602 || !strings.Contains(m.Error.Message, "bash, edit, glob") {
			t.Errorf("%s", m.line)
		}
		if code := c.end(); code != 0 || c.errs.Len() > 0 && !strings.HasPrefix(c.errs.String(), "dshx: ") {
			t.Errorf("status %d, standard error %q", code, c.errs.String())
		}
		e.NothingLeft(time.Second)
	})
}

// F6-2, F6-4, F6-23: however it ends, what is in flight is answered as far as it
// can be, and nothing is left.
func TestMCP_NothingIsLeft(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		start := func(t *testing.T) *mcpConn {
			c := e.With(t).serve(Opts{})
			c.bash(1, "sleep 300 & setsid sleep 300 & echo hi")
			if m := c.reply("1"); m.field(t, "stdout") != "hi\n" || m.field(t, "leftBehind.jobId") == "<nil>" {
				t.Errorf("left behind: %s", m.line)
			}
			c.call(2, "bash", map[string]any{"command": "trap '' TERM; setsid sleep 300 & while :; do sleep 1; done", "run_in_background": true})
			c.reply("2")
			c.bash(3, "touch begun; while :; do echo x; sleep 0.05; done")
			eventually(t, 20*time.Second, "the call to run", func() bool { _, err := os.Stat(filepath.Join(e.W, "begun")); return err == nil })
			_ = os.Remove(filepath.Join(e.W, "begun"))
			return c
		}
		for name, tt := range map[string]struct {
			end    func(c *mcpConn)
			status int
			reply  bool
		}{
			"SIGTERM":      {func(c *mcpConn) { _ = c.cmd.Process.Signal(syscall.SIGTERM) }, 143, true},
			"SIGINT":       {func(c *mcpConn) { _ = c.cmd.Process.Signal(syscall.SIGINT) }, 130, true},
			"SIGKILL":      {func(c *mcpConn) { _ = c.cmd.Process.Signal(syscall.SIGKILL) }, 137, false},
			"end of input": {func(c *mcpConn) { c.cancel("3"); _ = c.in.Close() }, 0, false},
		} {
			t.Run(name, func(t *testing.T) {
				c := start(t)
				tt.end(c)
				if tt.reply {
					if m := c.reply("3"); m.code() != "ABORTED" || !strings.Contains(string(m.Result.Meta.Error.Details), `"partial"`) {
						t.Errorf("the call that ran: %s", m.line)
					}
				}
				if code := c.wait(20 * time.Second); code != tt.status {
					t.Errorf("status %d, want %d; %s", code, tt.status, c.errs.String())
				}
				for _, l := range c.rest() {
					if m := c.parse(l); m.Method == "" {
						t.Errorf("further reply: %s", m.line)
					}
				}
				e.NothingLeft(2 * time.Second)
			})
		}
	})
}

// F6-2: input from a file, which is at its end at once.
func TestMCP_F6_2_InputThatIsAtItsEnd(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		e.Write(filepath.Join(e.W, "f"), "text\n")
		in := fmt.Sprintf(mcpHello, "{}") + "\n" + `{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n" +
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"bash","arguments":{"command":"sleep 1; echo a"}}}` + "\n" +
			`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"read","arguments":{"file_path":"f"}}}` + "\n" +
			`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"bash","arguments":{"command":"echo b; sleep 300 &"}}}`
		f, err := os.Open(e.Write(filepath.Join(e.O, "calls"), in))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		r := e.Dshx(Opts{Stdin: f}, "serve", "--no-config", "--env", "IT_MARK="+e.Mark)
		if r.Exit != 0 {
			t.Errorf("status %d, %q", r.Exit, r.Stderr)
		}
		replies := 0
		for line := range strings.Lines(r.Stdout) {
			if strings.Contains(line, `"result"`) {
				replies++
			}
		}
		if replies != 4 || !strings.Contains(r.Stdout, `"stdout":"a\n"`) || !strings.Contains(r.Stdout, `"stdout":"b\n"`) || !strings.Contains(r.Stdout, `"text":"text"`) {
			t.Errorf("%d replies: %s", replies, clip(r.Stdout))
		}
		if a, b := strings.Index(r.Stdout, `"id":1,`), strings.Index(r.Stdout, `"id":3,`); a > b {
			t.Error("exclusive calls ended in another order than they came in")
		}
		e.NothingLeft(0)
	})
}

// A reader that is slow gets everything, and costs bounded memory.
func TestMCP_SlowReader(t *testing.T) {
	e := newEnv(t, os.Getuid(), os.Getgid())
	e.Write(filepath.Join(e.W, "large"), strings.Repeat(strings.Repeat("x", 99)+"\n", 2000))
	c := e.serveUnread(Opts{})
	peak := peakOf(c.cmd)
	c.send(mcpHello, "{}")
	c.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	const n = 300
	for i := range n {
		c.call(i, "read", map[string]any{"file_path": "large"})
	}
	c.bash("blocked", "sleep 300")
	c.cancel(`"blocked"`)
	eventually(t, 20*time.Second, "the pipe is full", func() bool { return pipeIsFull(t, c.from) })
	_ = c.in.Close()
	c.read()
	replies := map[string]int{}
	for line := range c.out {
		replies[string(c.parse(line).ID)]++
	}
	for i := range n {
		if replies[strconv.Itoa(i)] != 1 {
			t.Errorf("%d replies to call %d", replies[strconv.Itoa(i)], i)
		}
	}
	if len(replies) != n+1 {
		t.Errorf("%d ids", len(replies))
	}
	if code := c.wait(20 * time.Second); code != 0 {
		t.Errorf("status %d", code)
	}
	if kb := peak(); kb == 0 || kb > 500<<10 {
		t.Errorf("it took %d MiB", kb>>10)
	} else {
		t.Logf("%d MiB", kb>>10)
	}
	e.NothingLeft(2 * time.Second)
}

// F6-23: a client that is killed, or closes its end of either pipe.
func TestMCP_F6_23_ClientGoes(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		c := e.serve(Opts{})
		c.call(0, "bash", map[string]any{"command": "yes", "run_in_background": true})
		c.reply("0")
		for id := range 3 {
			c.bash(id+1, "sleep 300")
		}
		c.ping("9")
		c.reply("9")
		began := time.Now()
		c.from.Close()
		if code := c.exit(); code != 143 {
			t.Errorf("status %d, want 143; standard error %q", code, c.errs.String())
		}
		if took := time.Since(began); took > 7*time.Second {
			t.Errorf("it took %v", took)
		}
		e.NothingLeft(2 * time.Second)
	})
}

// The client is killed while its server runs calls: its pipes end.
func TestMCP_KilledClient(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		needDshx(t)
		// A client of its own: it feeds its server from a pipe that it holds, and
		// reads what comes.
		script := `mkfifo in out hold
"$1" serve --no-config --env IT_MARK="$2" < in > out 2> errs &
echo $! > server
exec 3> in 4< out
printf '%s\n' "$3" '{"jsonrpc":"2.0","method":"notifications/initialized"}' >&3
read -r line <&4
printf '%s\n' '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"bash","arguments":{"command":"touch begun; setsid sleep 300 & sleep 300"}}}' >&3
exec 5<> hold; read -r never <&5`
		cmd := e.Command(Opts{}, "bash", "-c", script, "client", dshxBin, e.Mark, fmt.Sprintf(mcpHello, "{}"))
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		eventually(t, 20*time.Second, "the call to run", func() bool { _, err := os.Stat(filepath.Join(e.W, "begun")); return err == nil })
		_ = cmd.Process.Signal(syscall.SIGKILL) // the client alone
		_ = cmd.Wait()
		pid, err := strconv.Atoi(strings.TrimSpace(e.Read(filepath.Join(e.W, "server"))))
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, 10*time.Second, "the server to end", func() bool {
			state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
			return err != nil || strings.Contains(string(state), ") Z ")
		})
		e.NothingLeft(2 * time.Second)
	})
}

// F6-4: a cancelled call's tree ends, and it gets no reply.
func TestMCP_F6_4_Cancel(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		c := e.serve(Opts{})
		c.bash(1, "true")
		c.reply("1")
		own := len(e.Left())
		c.bash(2, "touch begun; sh -c 'sleep 100 & sleep 100'")
		eventually(t, 20*time.Second, "the call to run", func() bool { _, err := os.Stat(filepath.Join(e.W, "begun")); return err == nil })
		c.cancel("2")
		eventually(t, 6*time.Second, "the tree to end", func() bool { return len(e.Left()) == own })
		c.cancel("2")
		c.cancel(`"nosuch"`)
		c.bash(2, "echo again")
		if m := c.reply("2"); m.field(t, "stdout") != "again\n" {
			t.Errorf("%s", m.line)
		}
		if code := c.end(); code != 0 {
			t.Errorf("status %d", code)
		}
		if more := c.rest(); len(more) > 0 {
			t.Errorf("further: %q", more)
		}
	})
}

// F6-5, F6-9: whatever comes in, one process answers, and runs nothing of it.
func TestMCP_F6_5_WhatIsNoMessage(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		c := e.serve(Opts{})
		const run = `,"method":"tools/call","params":{"name":"bash","arguments":{"command":"touch ran"}}}`
		for i, tt := range []struct {
			line string
			code int
		}{
			{"not json", -32700}, {`{"jsonrpc":"2.0","id":5,"method":"ping"`, -32700}, {"42", -32600}, {"[]", -32600}, {`{"x":1}`, -32600},
			{`{"jsonrpc":"2.0","id":null` + run, -32600}, {`{"jsonrpc":"2.0","id":{}` + run, -32600}, {`{"jsonrpc":"2.0","id":[1]` + run, -32600}, {`{"jsonrpc":"2.0","id":true` + run, -32600},
			{`{"jsonrpc":"2.0","id":6,"method":"no/such"}`, -32601}, {`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"bash","arguments":{"command":"printf '\ud83d'"}}}`, -32700},
		} {
			c.send("%s", tt.line)
			if m := c.next(); m.Error == nil || m.Error.Code != tt.code {
				t.Errorf("%s: %s", tt.line, m.line)
			}
			c.send("")
			c.ping(strconv.Itoa(100 + i))
			c.reply(strconv.Itoa(100 + i))
		}
		// F6-19: the control of the lone surrogate.
		c.send(`{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"name":"bash","arguments":{"command":"printf '\ud83d\ude00' | od -An -tx1"}}}`)
		if m := c.reply("8"); m.field(t, "stdout") != " f0 9f 98 80\n" {
			t.Errorf("%s", m.line)
		}
		if _, err := os.Stat(filepath.Join(e.W, "ran")); err == nil {
			t.Error("a request without a valid id ran")
		}
		if code := c.end(); code != 0 {
			t.Errorf("status %d", code)
		}
	})
}

// F3-19, F6-6: long lines, in bounded memory.
func TestMCP_F6_6_LongLines(t *testing.T) {
	if testing.Short() {
		skip(t, "sends 200 MiB, which the ordinary pass does")
	}
	forEachUser(t, func(t *testing.T, e *Env) {
		c := e.serve(Opts{})
		c.call(1, "write", map[string]any{"file_path": "big", "content": strings.Repeat("x", 1<<20)})
		if m := c.reply("1"); m.Result == nil || m.Result.IsError || e.Read(filepath.Join(e.W, "big")) != strings.Repeat("x", 1<<20) {
			t.Errorf("1 MiB: %s", m.line)
		}
		c.bash(2, "sleep 1; echo late")
		chunk := strings.Repeat("y", 1<<20)
		if _, err := io.WriteString(c.in, `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"bash","arguments":{"command":"`); err != nil {
			t.Fatal(err)
		}
		for range 200 {
			if _, err := io.WriteString(c.in, chunk); err != nil {
				t.Fatal(err)
			}
		}
		// The error is there before the line has ended, and the call goes on.
		seen := map[string]bool{}
		for range 2 {
			switch m := c.next(); {
			case m.Error != nil && m.Error.Code == -32700 && string(m.ID) == "3":
				seen["error"] = true
			case m.Result != nil && m.field(t, "stdout") == "late\n":
				seen["call"] = true
			}
		}
		if !seen["error"] || !seen["call"] {
			t.Errorf("got %v", seen)
		}
		if kb := statusNumber(t, c.cmd.Process.Pid, "VmHWM:"); kb > 500<<10 {
			t.Errorf("it took %d MiB", kb>>10)
		}
		c.send("")
		c.ping("4")
		c.reply("4")
		if code := c.end(); code != 0 {
			t.Errorf("status %d", code)
		}
	})
}

// F6-11, F6-12: the list fits clients, and results fit the list.
func TestMCP_F6_12_ResultsFitTheirSchemas(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		c := e.serve(Opts{})
		c.send(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
		schemas := map[string]map[string]any{}
		for _, tool := range c.reply("1").Result.Tools {
			for what, text := range map[string]json.RawMessage{"input": tool.InputSchema, "output": tool.OutputSchema} {
				var s map[string]any
				if err := json.Unmarshal(text, &s); err != nil {
					t.Fatal(err)
				}
				if s["type"] != "object" || s["properties"] == nil {
					t.Errorf("%s of %s: the root is no object with properties", what, tool.Name)
				}
				for _, no := range []string{"$ref", "anyOf", "oneOf", "allOf"} {
					if s[no] != nil {
						t.Errorf("%s of %s: %s at the root", what, tool.Name, no)
					}
				}
				typed(t, tool.Name+" "+what, s)
				if what == "output" {
					schemas[tool.Name] = s
				}
			}
		}
		e.Mkdir(filepath.Join(e.W, "empty"))
		e.Write(filepath.Join(e.W, "zero"), "")
		e.Write(filepath.Join(e.W, "f"), "one\n")
		for i, tt := range []struct {
			tool string
			args map[string]any
			want string // in the value
		}{
			{"grep", map[string]any{"pattern": "nosuchthing"}, `"files":[]`}, {"glob", map[string]any{"pattern": "*.nosuch"}, `"paths":[]`},
			{"list", map[string]any{"path": "empty"}, `"entries":[]`}, {"read", map[string]any{"file_path": "zero"}, `"lines":[]`}, {"job_list", map[string]any{}, `"jobs":[]`},
			{"bash", map[string]any{"command": "true"}, `"denials":[]`}, {"read", map[string]any{"file_path": "f"}, `"one"`},
			{"edit", map[string]any{"file_path": "f", "old_string": "one", "new_string": "two"}, `"edits":[{`},
		} {
			c.call(i+10, tt.tool, tt.args)
			m := c.reply(strconv.Itoa(i + 10))
			if m.Result == nil || m.Result.IsError || !strings.Contains(string(m.Result.StructuredContent), tt.want) {
				t.Errorf("%s: %s", tt.tool, m.line)
				continue
			}
			var v any
			if err := json.Unmarshal(m.Result.StructuredContent, &v); err != nil {
				t.Fatal(err)
			}
			fits(t, tt.tool, schemas[tt.tool], v)
		}
		if code := c.end(); code != 0 {
			t.Errorf("status %d", code)
		}
	})
}

// typed walks a schema: everything has a type, and every array says what is in it.
func typed(t *testing.T, at string, s map[string]any) {
	t.Helper()
	if s["type"] == nil {
		t.Errorf("%s has no type", at)
	}
	if list, ok := s["type"].([]any); s["type"] == "array" || ok && strings.Contains(fmt.Sprint(list), "array") {
		if s["items"] == nil {
			t.Errorf("%s has no items", at)
		}
	}
	props, _ := s["properties"].(map[string]any)
	for name, p := range props {
		typed(t, at+"."+name, p.(map[string]any))
	}
	if items, ok := s["items"].(map[string]any); ok && len(items) > 0 {
		typed(t, at+"[]", items)
	}
}

// fits checks a value against what typed has walked: types, what is required,
// and that there is nothing else.
func fits(t *testing.T, at string, s map[string]any, v any) {
	t.Helper()
	kind := map[bool]string{true: "integer"}[false]
	switch v := v.(type) {
	case nil:
		kind = "null"
	case bool:
		kind = "boolean"
	case string:
		kind = "string"
	case float64:
		kind = "number"
	case []any:
		kind = "array"
		if items, ok := s["items"].(map[string]any); ok && len(items) > 0 {
			for i, x := range v {
				fits(t, fmt.Sprint(at, "[", i, "]"), items, x)
			}
		}
	case map[string]any:
		kind = "object"
		props, _ := s["properties"].(map[string]any)
		for name, x := range v {
			if p, ok := props[name].(map[string]any); ok {
				fits(t, at+"."+name, p, x)
			} else if s["additionalProperties"] == false {
				t.Errorf("%s has %s, which the schema doesn't", at, name)
			}
		}
		required, _ := s["required"].([]any)
		for _, name := range required {
			if _, ok := v[name.(string)]; !ok {
				t.Errorf("%s lacks %s", at, name)
			}
		}
	}
	types := strings.Fields(strings.Trim(fmt.Sprint(s["type"]), "[]"))
	for _, typ := range types {
		if typ == kind || typ == "integer" && kind == "number" {
			return
		}
	}
	t.Errorf("%s is %s, not one of %v", at, kind, types)
}

// F6-14: everything else is answered while calls run.
func TestMCP_F6_14_NothingWaits(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		e.Write(filepath.Join(e.W, "f"), "text\n")
		e.Write(filepath.Join(e.W, "large"), strings.Repeat(strings.Repeat("x", 99)+"\n", 2000))
		c := e.serve(Opts{})
		c.call(1, "bash", map[string]any{"command": "sleep 300", "run_in_background": true})
		job := c.reply("1").field(t, "jobId")
		c.call(2, "job_wait", map[string]any{"timeout_ms": 600000})
		c.bash(3, "sleep 30")
		c.ping("4")
		c.reply("4")
		c.send(`{"jsonrpc":"2.0","id":5,"method":"tools/list"}`)
		c.reply("5")
		c.call(6, "job_list", map[string]any{})
		c.reply("6")
		c.call(7, "read", map[string]any{"file_path": "f"})
		c.reply("7")
		for i := range 32 {
			c.call(i+100, "read", map[string]any{"file_path": "large"})
		}
		for range 32 {
			if m := c.next(); m.Result == nil || m.Result.IsError {
				t.Errorf("%s", m.line)
			}
		}
		c.cancel("3")
		c.call(8, "job_kill", map[string]any{"job_id": job})
		got := map[string]bool{}
		for len(got) < 2 {
			if m := c.next(); m.Method == "" {
				got[string(m.ID)] = true
			}
		}
		if !got["2"] || !got["8"] {
			t.Errorf("replies to %v", got)
		}
		if code := c.end(); code != 0 {
			t.Errorf("status %d", code)
		}
		e.NothingLeft(2 * time.Second)
	})
}

// F6-19: texts that are cut stay texts.
func TestMCP_F6_19_Emojis(t *testing.T) {
	e := newEnv(t, os.Getuid(), os.Getgid())
	c := e.serve(Opts{})
	for k := range 4 {
		line := strings.Repeat("k", k) + strings.Repeat("😀", 40000)
		e.Write(filepath.Join(e.W, "f"+strconv.Itoa(k)), line+"\n")
		for i, call := range []struct {
			tool string
			args map[string]any
		}{
			{"bash", map[string]any{"command": fmt.Sprintf("cat f%d", k)}},
			{"read", map[string]any{"file_path": fmt.Sprintf("f%d", k)}},
			{"grep", map[string]any{"pattern": "k*", "path": fmt.Sprintf("f%d", k)}},
		} {
			id := k*10 + i
			c.call(id, call.tool, call.args)
			line := <-c.out
			m := c.parse(line)
			if string(m.ID) != strconv.Itoa(id) || m.Result == nil || m.Result.IsError || strings.Contains(line, "\uFFFD") || strings.Contains(line, `\ud8`) || !json.Valid([]byte(line)) {
				t.Errorf("%s with %d letters: %s", call.tool, k, m.line)
			}
		}
	}
	c.end()
}

// F6-25: commands that are cancelled at any moment of their lives: at most one
// reply for each, and no id is stuck.
func TestMCP_F6_25_CancelStorm(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		const calls, inFlight = 1000, 16
		c := e.serve(Opts{})
		c.bash("first", "true")
		c.reply(`"first"`)
		own := len(e.Left())
		replies := make([]int, calls)
		var mu sync.Mutex
		over := make(chan struct{})
		go func() {
			defer close(over)
			for line := range c.out {
				m := c.parse(line)
				if string(m.ID) == `"last"` {
					return
				}
				id, err := strconv.Atoi(string(m.ID))
				if err != nil || m.Result == nil {
					t.Errorf("%s", m.line)
					continue
				}
				mu.Lock()
				replies[id]++
				mu.Unlock()
			}
		}()
		slots := make(chan struct{}, inFlight)
		var turn sync.Mutex // a line at a time
		var all sync.WaitGroup
		for id := range calls {
			slots <- struct{}{}
			turn.Lock()
			c.bash(id, "sleep 0.01")
			turn.Unlock()
			all.Go(func() {
				defer func() { <-slots }()
				time.Sleep(rand.N(20 * time.Millisecond))
				turn.Lock()
				defer turn.Unlock()
				_, _ = fmt.Fprintf(c.in, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`+"\n", id)
			})
		}
		all.Wait()
		c.bash("last", "echo free")
		<-over
		for id, n := range replies {
			if n > 1 {
				t.Errorf("call %d: %d replies", id, n)
			}
		}
		eventually(t, 10*time.Second, "no command runs", func() bool { return len(e.Left()) == own })
		for _, id := range []string{"0", "999"} { // no id is stuck
			n, _ := strconv.Atoi(id)
			c.bash(n, "echo free")
			if m := c.reply(id); m.field(t, "stdout") != "free\n" {
				t.Errorf("afterwards: %s", m.line)
			}
		}
		if code := c.end(); code != 0 {
			t.Errorf("status %d: %s", code, c.errs.String())
		}
		e.NothingLeft(2 * time.Second)
	})
}

// F6-1: nothing but the protocol goes to standard output, and its first bytes are
// the first reply, whatever there is to say.
func TestMCP_F6_1_StandardOutputIsTheProtocols(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		e.Write(filepath.Join(e.W, ".dshx/config.toml"), "[policy]\nwrite = [\"/srv\"]\nnetwork = \"full\"\n")
		for _, format := range []string{"text", "json"} {
			cmd := e.Command(Opts{}, dshxBin, "serve", "--env", "IT_MARK="+e.Mark, "--log-level", "debug", "--log-format", format)
			var out, errs strings.Builder
			cmd.Stdout, cmd.Stderr = &out, &errs
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			ready := filepath.Join(e.W, "ready")
			for _, line := range []string{
				fmt.Sprintf(mcpHello, "{}"), `{"jsonrpc":"2.0","method":"notifications/initialized"}`,
				`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"bash","arguments":{"command":"echo out; echo err >&2; chmod 777 /etc; kill -SEGV $$"}}}`, `broken`,
				`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"bash","arguments":{"command":"sleep 300","run_in_background":true}}}`,
				`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"bash","arguments":{"command":"touch ready; sleep 300"}}}`,
			} {
				_, _ = io.WriteString(in, line+"\n")
			}
			eventually(t, 20*time.Second, "the last command to run", func() bool { _, err := os.Stat(ready); return err == nil })
			_ = cmd.Process.Signal(syscall.SIGTERM)
			_ = cmd.Wait()
			_ = os.Remove(ready)
			if code := f3Status(cmd.ProcessState); code != 143 {
				t.Errorf("status %d", code)
			}
			if !strings.HasPrefix(out.String(), `{"jsonrpc":"2.0","id":"hello","result":`) && !strings.HasPrefix(out.String(), `{"jsonrpc":"2.0","id":null,"error":`) {
				t.Errorf("standard output begins with %q", clip(out.String()))
			}
			for line := range strings.Lines(out.String()) {
				if !json.Valid([]byte(line)) || !strings.HasPrefix(line, `{"jsonrpc":"2.0"`) {
					t.Errorf("on standard output: %q", clip(line))
				}
			}
			for _, want := range []string{`"code":"ABORTED"`, `"method":"notifications/message"`, `"endedBy":"owner"`} {
				if !strings.Contains(out.String(), want) {
					t.Errorf("no %s on standard output: %s", want, clip(out.String()))
				}
			}
			// The control: there was something to say.
			if !strings.Contains(errs.String(), "network") || !strings.Contains(errs.String(), "refused a message") {
				t.Errorf("standard error: %q", errs.String())
			}
			for line := range strings.Lines(errs.String()) {
				if format == "json" && !json.Valid([]byte(line)) || format == "text" && !strings.HasPrefix(line, "dshx: ") {
					t.Errorf("on standard error: %q", line)
				}
			}
			e.NothingLeft(2 * time.Second)
		}
	})
}

// A standard error that nobody reads blocks nothing, and what was dropped is
// counted once somebody does.
func TestMCP_UnreadStandardError(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		c := &mcpConn{t: t, e: e, out: make(chan string, 8192), done: make(chan struct{})}
		c.cmd = e.Command(Opts{}, dshxBin, "serve", "--no-config", "--env", "IT_MARK="+e.Mark, "--log-level", "debug")
		c.in, _ = c.cmd.StdinPipe()
		c.from, _ = c.cmd.StdoutPipe()
		errs, err := c.cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.cmd.Start(); err != nil {
			t.Fatal(err)
		}
		c.read()
		c.hello("{}")
		const n = 5000 // lines of some 100 bytes are more than a pipe and the queue hold
		for range n {
			c.send("%s", strings.Repeat("x", 200))
		}
		for range n {
			if m := c.next(); m.Error == nil {
				t.Fatalf("%s", m.line)
			}
		}
		c.bash(1, "echo works")
		if m := c.reply("1"); m.field(t, "stdout") != "works\n" {
			t.Errorf("%s", m.line)
		}
		r := bufio.NewReader(errs)
		found := make(chan bool, 1)
		go func() {
			for {
				line, err := r.ReadString('\n')
				if err != nil {
					found <- false
					return
				}
				if strings.Contains(line, "lines were dropped") {
					found <- true
					break
				}
			}
			_, _ = io.Copy(io.Discard, r)
		}()
		eventually(t, 20*time.Second, "somebody to be told of dropped lines", func() bool {
			c.send("x")
			c.next()
			select {
			case ok := <-found:
				if !ok {
					t.Fatal("standard error has ended")
				}
				return true
			default:
				return false
			}
		})
		if code := c.end(); code != 0 {
			t.Errorf("status %d", code)
		}
	})
}

// A reader that reads nothing doesn't hold up the end by a signal.
func TestMCP_EndsBesideAStuckReader(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		c := e.serveUnread(Opts{})
		peak := peakOf(c.cmd)
		c.send(mcpHello, "{}")
		go func() {
			for i := 0; ; i++ {
				if _, err := fmt.Fprintf(c.in, `{"jsonrpc":"2.0","id":%d,"method":"tools/list"}`+"\n", i); err != nil {
					return
				}
			}
		}()
		eventually(t, 20*time.Second, "the pipe is full", func() bool { return pipeIsFull(t, c.from) })
		_ = c.cmd.Process.Signal(syscall.SIGTERM)
		if code := c.exit(); code != 143 {
			t.Errorf("status %d, want 143", code)
		}
		if kb := peak(); kb == 0 || kb > 300<<10 {
			t.Errorf("it took %d MiB", kb>>10)
		} else {
			t.Logf("%d MiB", kb>>10)
		}
		e.NothingLeft(2 * time.Second)
	})
}

// pipeIsFull reports that nothing more fits into a pipe that is read from r.
func pipeIsFull(t *testing.T, r io.Reader) bool {
	t.Helper()
	conn, err := r.(*os.File).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	held, size := 0, 0
	_ = conn.Control(func(fd uintptr) {
		held, _ = unix.IoctlGetInt(int(fd), unix.TIOCINQ) // FIONREAD
		size, _ = unix.FcntlInt(fd, unix.F_GETPIPE_SZ, 0)
	})
	return size > 0 && held >= size-4096 // a page holds what fits of one write
}

// A policy that can't be in force ends the server, in a sentence and with the
// status that exec has for it.
func TestMCP_CannotOpen(t *testing.T) {
	e := newEnv(t, os.Getuid(), os.Getgid())
	e.Write(filepath.Join(e.O, "bad.toml"), "presett = \"x\"\n")
	for _, tt := range []struct {
		flags []string
		want  string
		code  int
	}{
		{[]string{"--preset", "nosuch"}, "workspace-write", 2},
		{[]string{"--workspace", "/nosuch"}, "/nosuch", 125},
		{[]string{"--config", filepath.Join(e.O, "bad.toml")}, "bad.toml:1", 2},
		{[]string{"--require", "full"}, "protected-paths", 125},
		{[]string{"--nosuch"}, "unknown flag", 2},
		{[]string{"extra"}, "one too many", 2},
		{[]string{"--log-level", "loud"}, "debug, info, warn, error", 2},
	} {
		cmd := e.Command(Opts{}, append([]string{dshxBin, "serve"}, tt.flags...)...)
		in, _ := cmd.StdinPipe() // which stays open
		var out, errs strings.Builder
		cmd.Stdout, cmd.Stderr = &out, &errs
		if err := cmd.Run(); err == nil {
			t.Errorf("%v: it ran", tt.flags)
		}
		in.Close()
		if code := f3Status(cmd.ProcessState); tt.flags[0] != "--workspace" && code != tt.code || out.Len() > 0 || !strings.Contains(errs.String(), tt.want) || !strings.HasPrefix(errs.String(), "dshx: ") || strings.Count(errs.String(), "\n") != 1 {
			t.Errorf("%v: status %d, %q, %q", tt.flags, code, out.String(), errs.String())
		}
	}
}

// The programs belong together.
func TestMCP_TheOtherProgram(t *testing.T) {
	e := newEnv(t, os.Getuid(), os.Getgid())
	needDshx(t)
	copyTo := func(dir, program string) string {
		data, err := os.ReadFile(filepath.Join(filepath.Dir(dshxBin), program))
		if err != nil {
			t.Fatal(err)
		}
		return e.Write(filepath.Join(dir, program), string(data), 0o755)
	}
	alone := copyTo(filepath.Join(e.O, "alone/bin"), "dshx")
	if r := e.OutsideOpts(Opts{}, alone, "serve"); r.Exit != 1 || !strings.Contains(r.Stderr, "dshx-mcp") || !strings.Contains(r.Stderr, "same directory") || r.Stdout != "" {
		t.Errorf("alone: %d %q", r.Exit, r.Stderr)
	}
	if r := e.OutsideOpts(Opts{}, alone, "serve", "--help"); r.Exit != 0 || !strings.Contains(r.Stdout, "dshx serve [flags]") {
		t.Errorf("help, alone: %d %q %q", r.Exit, r.Stdout, r.Stderr)
	}
	none := strings.NewReader("")
	copyTo(filepath.Join(e.O, "alone/libexec/dshx"), "dshx-mcp")
	if r := e.OutsideOpts(Opts{Stdin: none}, alone, "serve"); r.Exit != 0 {
		t.Errorf("in libexec: %d %q %q", r.Exit, r.Stdout, r.Stderr)
	}
	// Through a link, the real place counts.
	link := e.Symlink(dshxBin, filepath.Join(e.O, "link"))
	if r := e.OutsideOpts(Opts{Stdin: none}, link, "serve"); r.Exit != 0 {
		t.Errorf("through a link: %d %q", r.Exit, r.Stderr)
	}
	if r := e.OutsideOpts(Opts{}, filepath.Join(filepath.Dir(dshxBin), "dshx-mcp"), "--build", "another"); r.Exit != 1 || !strings.Contains(r.Stderr, "another") || !strings.Contains(r.Stderr, "of one build") {
		t.Errorf("of another build: %d %q", r.Exit, r.Stderr)
	}
}

// A client starts the server where it likes: commands start in the workspace, as
// the file tools do, and --cwd is obeyed.
func TestMCP_CommandsStartInTheWorkspace(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		sub := e.Mkdir(filepath.Join(e.W, "sub"))
		for _, tc := range []struct {
			flags []string
			want  string
		}{{nil, e.W}, {[]string{"--cwd", sub}, sub}} {
			c := e.serve(Opts{Dir: e.O}, append(tc.flags, "--workspace", e.W)...)
			c.bash(1, "pwd")
			if m := c.reply("1"); m.Result == nil || m.Result.Content[0].Text != tc.want+"\n" {
				t.Errorf("%q: %s", tc.flags, m.line)
			}
			c.call(2, "bash", map[string]any{"command": "pwd", "run_in_background": true})
			if m := c.reply("2"); m.Result == nil || !strings.Contains(string(m.Result.StructuredContent), `"cwd":"`+tc.want+`"`) {
				t.Errorf("%q, a job: %s", tc.flags, m.line)
			}
		}
	})
}
