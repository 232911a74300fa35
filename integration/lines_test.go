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
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Tool calls over JSON lines, against the built program: what the front door
// and the process promise together (families 5 and 6).

// lineConn is a `dshx exec` without a command that the test talks to.
type lineConn struct {
	t    *testing.T
	e    *Env
	cmd  *exec.Cmd
	in   io.WriteCloser
	from io.ReadCloser // its standard output
	out  chan string
	done chan struct{}
	errs strings.Builder
}

// reply is one line of output.
type reply struct {
	ID    json.RawMessage
	OK    *bool
	Value json.RawMessage
	Error *struct {
		Code, Message string
		Details       json.RawMessage
	}
	Content []struct{ Type, Text string }
	Event   string
	Job     *struct {
		JobID, Status string
		EndedBy       *string
	}
	Pong      json.RawMessage
	Cancelled json.RawMessage
	Known     *bool
	Stream    string
	Text      string
	Base64    string
	Approval  string
	Reason    string
	Grants    json.RawMessage
}

func (e *Env) lines(o Opts, flags ...string) *lineConn {
	e.t.Helper()
	c := e.unreadLines(o, flags...)
	go func() {
		defer close(c.done)
		r := bufio.NewReaderSize(c.from, 1<<20)
		for {
			line, err := r.ReadString('\n')
			if err != nil {
				close(c.out)
				return
			}
			c.out <- line
		}
	}()
	return c
}

// unreadLines is lines whose output nobody reads.
func (e *Env) unreadLines(o Opts, flags ...string) *lineConn {
	e.t.Helper()
	needDshx(e.t)
	argv := append([]string{dshxBin, "exec", "--env", "IT_MARK=" + e.Mark}, flags...)
	if !slices.Contains(flags, "--config") {
		argv = append(argv, "--no-config")
	}
	argv = append(append([]string{}, o.Prefix...), argv...)
	c := &lineConn{t: e.t, e: e, cmd: e.Command(o, argv...), out: make(chan string, 4096), done: make(chan struct{})}
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

func (c *lineConn) send(format string, args ...any) {
	c.t.Helper()
	if _, err := fmt.Fprintf(c.in, format+"\n", args...); err != nil {
		c.t.Fatal(err)
	}
}

// call sends a call with JSON arguments.
func (c *lineConn) call(id int, tool string, args any) {
	c.t.Helper()
	b, err := json.Marshal(map[string]any{"id": id, "tool": tool, "arguments": args})
	if err != nil {
		c.t.Fatal(err)
	}
	c.send("%s", b)
}

func (c *lineConn) bash(id int, command string) {
	c.call(id, "bash", map[string]any{"command": command})
}

// next is the next line.
func (c *lineConn) next() reply {
	c.t.Helper()
	select {
	case line, ok := <-c.out:
		if !ok {
			c.t.Fatalf("the output has ended; standard error: %s", c.errs.String())
		}
		var r reply
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			c.t.Fatalf("not a line of the protocol: %q: %v", clip(line), err)
		}
		return r
	case <-time.After(30 * time.Second):
		c.t.Fatal("no further line")
	}
	panic("unreachable")
}

// result is the next result, events passed over.
func (c *lineConn) result() reply {
	c.t.Helper()
	for {
		if r := c.next(); r.OK != nil {
			return r
		}
	}
}

func (r reply) field(t *testing.T, path string) string {
	t.Helper()
	v := any(nil)
	if err := json.Unmarshal(r.Value, &v); err != nil {
		t.Fatalf("value %s: %v", r.Value, err)
	}
	for _, name := range strings.Split(path, ".") {
		m, ok := v.(map[string]any)
		if !ok {
			t.Fatalf("no %s in %s", path, r.Value)
		}
		v = m[name]
	}
	return fmt.Sprint(v)
}

// end closes the input and returns the exit status.
func (c *lineConn) end() int {
	c.t.Helper()
	_ = c.in.Close()
	return c.wait(20 * time.Second)
}

func (c *lineConn) wait(within time.Duration) int {
	c.t.Helper()
	select {
	case <-c.done:
	case <-time.After(within):
		c.t.Fatalf("not ended within %v", within)
	}
	_ = c.cmd.Wait()
	return f3Status(c.cmd.ProcessState)
}

// exit waits for the end of the process, whoever reads its output.
func (c *lineConn) exit() int {
	c.t.Helper()
	stuck := time.AfterFunc(30*time.Second, func() {
		c.t.Error("it goes on")
		_ = syscall.Kill(-c.cmd.Process.Pid, syscall.SIGKILL)
	})
	defer stuck.Stop()
	_ = c.cmd.Wait()
	return f3Status(c.cmd.ProcessState)
}

func TestLines_CallsEndToEnd(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		c := e.lines(Opts{})
		c.bash(1, "echo out; echo err >&2; exit 3")
		r := c.result()
		if !*r.OK || r.field(t, "exitCode") != "3" || r.field(t, "stdout") != "out\n" || r.field(t, "stderr") != "err\n" {
			t.Errorf("bash: %s", r.Value)
		}
		c.call(2, "write", map[string]any{"file_path": "a/b.txt", "content": "one\ntwo\n"})
		c.call(3, "edit", map[string]any{"file_path": "a/b.txt", "old_string": "two", "new_string": "three"})
		c.bash(4, "cat a/b.txt")
		for range 2 {
			if r := c.result(); !*r.OK {
				t.Errorf("%+v", r.Error)
			}
		}
		if r := c.result(); r.field(t, "stdout") != "one\nthree\n" {
			t.Errorf("bash sees %s", r.Value)
		}
		// One kernel domain: what bash can't reach the file tools can't either.
		out := e.Write(filepath.Join(e.O, "f"), "secret")
		c.bash(5, "echo x > "+out)
		c.call(6, "write", map[string]any{"file_path": out, "content": "x"})
		if r := c.result(); r.field(t, "exitCode") == "0" {
			t.Errorf("bash wrote outside: %s", r.Value)
		}
		if r := c.result(); *r.OK || r.Error.Code != "SANDBOX_DENIED" && r.Error.Code != "FS_NOT_OBSERVED" {
			t.Errorf("write wrote outside: %+v", r)
		}
		if got := e.Read(out); got != "secret" {
			t.Errorf("the file outside is %q", got)
		}
		if code := c.end(); code != 0 {
			t.Errorf("status %d", code)
		}
		if c.errs.Len() > 0 {
			t.Errorf("standard error: %q", c.errs.String())
		}
		e.NothingLeft(time.Second)
	})
}

// F5-1, F5-5, F6-23: however it ends, nothing that it started is left.
func TestLines_F5_5_NothingIsLeft(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		start := func(t *testing.T) *lineConn {
			e := e.With(t)
			c := e.lines(Opts{})
			c.bash(1, "sleep 300 & setsid sleep 300 & echo hi")
			if r := c.result(); r.field(t, "stdout") != "hi\n" || r.field(t, "leftBehind.jobId") == "<nil>" {
				t.Errorf("left behind: %s", r.Value)
			}
			c.call(2, "bash", map[string]any{"command": "trap '' TERM; setsid sleep 300 & while :; do sleep 1; done", "run_in_background": true})
			c.result()
			c.bash(3, "while :; do echo x; sleep 0.05; done")
			time.Sleep(200 * time.Millisecond)
			return c
		}
		for name, tt := range map[string]struct {
			end    func(c *lineConn)
			status int
		}{
			"SIGTERM": {func(c *lineConn) { _ = c.cmd.Process.Signal(syscall.SIGTERM) }, 143},
			"SIGINT":  {func(c *lineConn) { _ = c.cmd.Process.Signal(syscall.SIGINT) }, 130},
			"SIGKILL": {func(c *lineConn) { _ = c.cmd.Process.Signal(syscall.SIGKILL) }, 137},
			"end of input": {func(c *lineConn) {
				c.send(`{"cancel":3}`)
				_ = c.in.Close()
			}, 0},
		} {
			t.Run(name, func(t *testing.T) {
				c := start(t)
				tt.end(c)
				if name != "SIGKILL" {
					if r := c.result(); *r.OK || r.Error.Code != "ABORTED" || !strings.Contains(string(r.Error.Details), `"partial"`) {
						t.Errorf("the call that ran: %+v", r)
					}
				}
				if code := c.wait(20 * time.Second); code != tt.status {
					t.Errorf("status %d, want %d", code, tt.status)
				}
				e.NothingLeft(2 * time.Second)
			})
		}
	})
}

// A dshx that is killed while it writes leaves the old file, and no other.
func TestLines_KilledWhileItWrites(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		fd, err := unix.Open(e.W, unix.O_TMPFILE|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
		if err != nil {
			t.Skipf("the file system has no files without a name: %v", err)
		}
		_ = unix.Close(fd)
		path := e.Write(filepath.Join(e.W, "dir/f"), "old")
		c := e.lines(Opts{})
		c.call(1, "read", map[string]any{"file_path": "dir/f"})
		c.result()
		c.call(2, "write", map[string]any{"file_path": "dir/f", "content": strings.Repeat("x", 40<<20)})
		// As soon as there is another name, or it is done. A name is given to
		// what is whole, just before it takes the old one's place.
		names := func() (list []string) {
			entries, _ := os.ReadDir(filepath.Dir(path))
			for _, d := range entries {
				list = append(list, d.Name())
			}
			return list
		}
		for len(names()) == 1 && len(c.out) == 0 {
			time.Sleep(100 * time.Microsecond)
		}
		_ = c.cmd.Process.Signal(syscall.SIGKILL)
		c.wait(20 * time.Second)
		for _, name := range names() {
			if st, err := os.Stat(filepath.Join(filepath.Dir(path), name)); name != "f" && (err != nil || st.Size() != 40<<20) {
				t.Errorf("left: %s, %v, %v", name, st, err)
			}
		}
		if got := e.Read(path); got != "old" && got != strings.Repeat("x", 40<<20) {
			t.Errorf("the file has %d bytes", len(got))
		}
	})
}

// F6-25: commands that are cancelled at any moment of their lives.
func TestLines_F6_25_CancelStorm(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		const calls, inFlight = 1000, 16
		c := e.lines(Opts{})
		c.bash(0, "true")
		c.result()
		own := len(e.Left()) // dshx itself
		type state struct{ results, cancels int }
		states := make([]state, calls)
		free, over := make(chan struct{}, calls), make(chan struct{})
		go func() {
			defer close(over)
			for range 2 * calls {
				select {
				case line, ok := <-c.out:
					var r reply
					if err := json.Unmarshal([]byte(line), &r); !ok || err != nil {
						t.Errorf("%q, %v", clip(line), err)
						return
					}
					var id int
					switch {
					case r.Cancelled != nil:
						_ = json.Unmarshal(r.Cancelled, &id)
						states[id].cancels++
						if !*r.Known && states[id].results == 0 {
							t.Errorf("call %d was not known, and has no result yet", id)
						}
					case r.OK != nil:
						_ = json.Unmarshal(r.ID, &id)
						states[id].results++
						if !*r.OK && r.Error.Code != "CANCELLED" && r.Error.Code != "ABORTED" {
							t.Errorf("call %d: %+v", id, r.Error)
						}
						free <- struct{}{}
					default:
						t.Errorf("%q", clip(line))
					}
				case <-time.After(60 * time.Second):
					t.Error("no further line")
					return
				}
			}
		}()
		for range inFlight {
			free <- struct{}{}
		}
		var turn sync.Mutex // a line at a time
		var all sync.WaitGroup
		for id := range calls {
			select {
			case <-free:
			case <-over:
				t.FailNow()
			}
			turn.Lock()
			c.bash(id, "sleep 0.01")
			turn.Unlock()
			all.Go(func() {
				time.Sleep(rand.N(20 * time.Millisecond))
				turn.Lock()
				defer turn.Unlock()
				_, _ = fmt.Fprintf(c.in, "{\"cancel\":%d}\n", id)
			})
		}
		all.Wait()
		<-over
		for id, s := range states {
			if s != (state{1, 1}) {
				t.Errorf("call %d: %d results, %d cancelled lines", id, s.results, s.cancels)
			}
		}
		eventually(t, 10*time.Second, "no command runs", func() bool { return len(e.Left()) == own })
		c.bash(1, "echo free") // no id is stuck
		if r := c.result(); !*r.OK || r.field(t, "stdout") != "free\n" {
			t.Errorf("afterwards: %+v", r)
		}
		if code := c.end(); code != 0 {
			t.Errorf("status %d: %s", code, c.errs.String())
		}
		e.NothingLeft(2 * time.Second)
	})
}

// F6-1: nothing but the protocol goes to standard output, whatever there is to
// say: a first run, gaps, a configuration that asks for too much, a signal.
func TestLines_F6_1_StandardOutputIsTheProtocols(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		e.Write(filepath.Join(e.W, ".dshx/config.toml"), "[policy]\nwrite = [\"/srv\"]\nnetwork = \"full\"\n")
		cmd := e.Command(Opts{}, dshxBin, "exec", "--env", "IT_MARK="+e.Mark)
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
			`{"id":1,"tool":"bash","arguments":{"command":"echo out; echo err >&2; chmod 777 /etc; kill -SEGV $$"}}`, `broken`,
			`{"id":2,"tool":"bash","arguments":{"command":"sleep 300","run_in_background":true}}`,
			`{"id":3,"tool":"bash","arguments":{"command":"touch ready; sleep 300","description":"runs"}}`,
		} {
			_, _ = io.WriteString(in, line+"\n")
		}
		eventually(t, 20*time.Second, "the last command to run", func() bool { _, err := os.Stat(ready); return err == nil })
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		if code := f3Status(cmd.ProcessState); code != 143 {
			t.Errorf("status %d", code)
		}
		if !strings.HasPrefix(out.String(), `{"id":`) {
			t.Errorf("standard output begins with %q", clip(out.String()))
		}
		for line := range strings.Lines(out.String()) {
			if !json.Valid([]byte(line)) {
				t.Errorf("on standard output: %q", clip(line))
			}
		}
		for _, want := range []string{`{"id":1,"ok":true,`, `{"id":null,"ok":false,"error":{"code":"PARSE_ERROR"`, `{"id":3,"ok":false,"error":{"code":"ABORTED"`,
			`{"event":"job","job":{"jobId":"bash-1"`, `"endedBy":"shutdown"`} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("no %s on standard output", want)
			}
		}
		// The control: there was something to say.
		if !strings.Contains(errs.String(), "network") {
			t.Errorf("standard error: %q", errs.String())
		}
		e.NothingLeft(2 * time.Second)
	})
}

// F6-23: a reader that goes ends it, with standard input left open, whether or
// not there is something to write.
func TestLines_F6_23_ClosedOutput(t *testing.T) {
	const wait = `{"id":%d,"tool":"bash","arguments":{"command":"sleep 300"}}` + "\n"
	for name, calls := range map[string]string{
		"silent": `{"id":0,"tool":"bash","arguments":{"command":"yes","run_in_background":true}}` + "\n" +
			fmt.Sprintf(wait, 1) + fmt.Sprintf(wait, 2) + fmt.Sprintf(wait, 3),
		"writing": fmt.Sprintf(wait, 1) + `{"id":2,"tool":"bash","stream":true,"arguments":{"command":"yes"}}` + "\n" + `{"cancel":1}` + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			forEachUser(t, func(t *testing.T, e *Env) {
				c := e.lines(Opts{})
				if _, err := io.WriteString(c.in, calls); err != nil {
					t.Fatal(err)
				}
				c.next()
				began := time.Now()
				c.from.Close()
				if code := c.exit(); code != 143 {
					t.Errorf("status %d, want 143; standard error %q", code, c.errs.String())
				}
				if took := time.Since(began); took > 7*time.Second {
					t.Errorf("it took %v", took)
				}
				if used := c.cmd.ProcessState.UserTime() + c.cmd.ProcessState.SystemTime(); used > 2*time.Second {
					t.Errorf("it used %v of the CPU", used)
				}
				e.NothingLeft(2 * time.Second)
			})
		})
	}
}

// A reader that reads nothing doesn't hold up the end by a signal.
func TestLines_EndsBesideAStuckReader(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		c := e.unreadLines(Opts{})
		c.send(`{"id":1,"tool":"bash","stream":true,"arguments":{"command":"yes"}}`)
		eventually(t, time.Minute, "the pipe is full", func() bool {
			conn, err := c.from.(*os.File).SyscallConn()
			if err != nil {
				t.Fatal(err)
			}
			held, size := 0, 0
			_ = conn.Control(func(fd uintptr) {
				held, _ = unix.IoctlGetInt(int(fd), unix.TIOCINQ) // FIONREAD
				size, _ = unix.FcntlInt(fd, unix.F_GETPIPE_SZ, 0)
			})
			return size > 0 && held >= size-4096 // a page holds what fits of one write
		})
		_ = c.cmd.Process.Signal(syscall.SIGTERM)
		if code := c.exit(); code != 143 {
			t.Errorf("status %d, want 143", code)
		}
		e.NothingLeft(2 * time.Second)
	})
}

// F3-19, F6-6: long lines, broken ones, and what is in between, in bounded memory.
func TestLines_F6_6_LongAndBroken(t *testing.T) {
	if testing.Short() {
		skip(t, "sends 200 MiB, which the ordinary pass does")
	}
	forEachUser(t, func(t *testing.T, e *Env) {
		c := e.lines(Opts{})
		c.call(1, "write", map[string]any{"file_path": "big", "content": strings.Repeat("x", 30<<20)})
		if r := c.result(); !*r.OK || r.field(t, "bytes") != strconv.Itoa(30<<20) && r.field(t, "bytes") != fmt.Sprint(float64(30<<20)) {
			t.Errorf("30 MiB: %+v %s", r.Error, clip(string(r.Value)))
		}
		c.bash(2, "sleep 1; echo late")
		chunk := strings.Repeat("y", 1<<20)
		if _, err := io.WriteString(c.in, `{"id":3,"tool":"bash","arguments":{"command":"`); err != nil {
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
			r := c.result()
			switch {
			case r.Error != nil && r.Error.Code == "PARSE_ERROR":
				seen["error"] = true
			case *r.OK && r.field(t, "stdout") == "late\n":
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
		c.send("broken")
		c.send(`{"ping":1}`)
		if r := c.next(); r.Error == nil || r.Error.Code != "PARSE_ERROR" {
			t.Errorf("broken line: %+v", r)
		}
		if r := c.next(); string(r.Pong) != "1" {
			t.Errorf("no pong: %+v", r)
		}
		if code := c.end(); code != 0 {
			t.Errorf("status %d", code)
		}
	})
}

// F5-18: commands can't end dshx, the caller, or another connection's jobs.
func TestLines_F5_18_KillsReachNobodyElse(t *testing.T) {
	if !isPrivate {
		skip(t, "needs PID and mount namespaces of the tests' own")
	}
	forEachUser(t, func(t *testing.T, e *Env) {
		other := e.lines(Opts{})
		other.call(1, "bash", map[string]any{"command": "sleep 300", "run_in_background": true})
		other.result()
		c := e.lines(Opts{})
		for i, kill := range []string{"kill -9 -1", "kill -TERM 0", "kill -9 $PPID", "kill -9 -$PPID"} {
			c.bash(i+1, kill)
			if r := c.result(); !*r.OK {
				t.Errorf("%s: %+v", kill, r.Error)
			}
		}
		c.bash(9, "echo alive")
		if r := c.result(); r.field(t, "stdout") != "alive\n" {
			t.Errorf("after the kills: %s", r.Value)
		}
		other.call(2, "job_list", map[string]any{})
		if r := other.result(); !strings.Contains(string(r.Value), `"status":"running"`) {
			t.Errorf("the other's job: %s", r.Value)
		}
		if code := c.end() + other.end(); code != 0 {
			t.Errorf("statuses add up to %d", code)
		}
		e.NothingLeft(2 * time.Second)
	})
}

// An hour of mixed calls leaves memory, descriptors and threads as they were.
func TestLines_ManyCallsGrowNothing(t *testing.T) {
	e := newEnv(t, os.Getuid(), os.Getgid())
	c := e.lines(Opts{})
	e.Write(filepath.Join(e.W, "f"), "needle\n")
	n := 0
	round := func(k int) {
		for range k {
			n++
			switch n % 10 {
			case 0:
				c.bash(n, "true")
			case 1:
				c.call(n, "grep", map[string]any{"pattern": "needle"})
			case 2:
				c.call(n, "glob", map[string]any{"pattern": "*"})
			case 3:
				c.call(n, "read", map[string]any{"file_path": "nosuch"})
			default:
				c.call(n, "read", map[string]any{"file_path": "f"})
			}
			if r := c.result(); string(r.ID) != strconv.Itoa(n) {
				t.Fatalf("result %s for call %d", r.ID, n)
			}
		}
	}
	use := func() (fds, threads, kb int) {
		pid := c.cmd.Process.Pid
		entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
		if err != nil {
			t.Fatal(err)
		}
		return len(entries), statusNumber(t, pid, "Threads:"), statusNumber(t, pid, "VmRSS:")
	}
	round(500)
	fds, threads, kb := use()
	round(3000)
	f2, t2, k2 := use()
	if f2 > fds+4 || t2 > threads+4 || k2 > kb+32<<10 {
		t.Errorf("descriptors %d → %d, threads %d → %d, memory %d → %d KiB", fds, f2, threads, t2, kb, k2)
	}
	if code := c.end(); code != 0 {
		t.Errorf("status %d", code)
	}
}

// statusNumber is a number of /proc/PID/status: proc_pid_status(5).
func statusNumber(t *testing.T, pid int, field string) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == field {
			n, err := strconv.Atoi(f[1])
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("no %s in the status of process %d", field, pid)
	return 0
}

// A call that asks for more than the policy gives gets it for itself alone, and
// only by the answer that allows it.
func TestLines_Approvals(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		c := e.lines(Opts{})
		out := filepath.Join(e.O, "f")
		ask := func(id int, file string) string {
			t.Helper()
			c.call(id, "bash", map[string]any{"command": "echo x > " + file, "sandbox_permissions": map[string]any{"write": []string{e.O}}, "justification": "a test"})
			r := c.next()
			if r.Event != "approval" || string(r.ID) != strconv.Itoa(id) || !strings.Contains(r.Reason, e.O) || !strings.Contains(r.Reason, "a test") || string(r.Grants) != `{"write":["`+e.O+`"]}` {
				t.Fatalf("%+v, grants %s", r, r.Grants)
			}
			return r.Approval
		}
		// result is the call's; the answer to the answer comes before or after.
		result := func() (r reply) {
			t.Helper()
			for range 2 {
				if n := c.next(); n.OK != nil {
					r = n
				} else if n.Known == nil || !*n.Known {
					t.Errorf("%+v", n)
				}
			}
			return r
		}
		for i, tt := range []struct{ outcome, code string }{
			{"rejected", "APPROVAL_REJECTED"}, {"allowed-always", "APPROVAL_UNAVAILABLE"}, {"allowed-once", ""},
		} {
			c.send(`{"approve":%q,"outcome":%q}`, ask(i, out), tt.outcome)
			r := result()
			_, err := os.Stat(out)
			if tt.code != "" && (*r.OK || r.Error.Code != tt.code || err == nil) || tt.code == "" && (!*r.OK || r.field(t, "exitCode") != "0" || err != nil) {
				t.Errorf("%s: %+v, %v", tt.outcome, r, err)
			}
		}
		// The next one has nothing of it, nor has one that runs when the question
		// is answered.
		c.bash(10, "echo x > "+out+"2")
		if r := c.result(); r.field(t, "exitCode") == "0" {
			t.Errorf("it is still allowed: %s", r.Value)
		}
		c.send(`{"approve":"ap-1","outcome":"allowed-once"}`)
		if r := c.next(); r.Known == nil || *r.Known {
			t.Errorf("an old question: %+v", r)
		}
		// A cancelled call's question is withdrawn; the end of input leaves nobody
		// to answer.
		ap := ask(11, out+"3")
		c.send(`{"cancel":11}`)
		if r := result(); r.Error == nil || r.Error.Code != "CANCELLED" {
			t.Errorf("%+v", r)
		}
		c.send(`{"approve":%q,"outcome":"allowed-once"}`, ap)
		if r := c.next(); r.Known == nil || *r.Known {
			t.Errorf("a question that was withdrawn: %+v", r)
		}
		ask(12, out+"4")
		_ = c.in.Close()
		if r := c.result(); r.Error == nil || r.Error.Code != "APPROVAL_UNAVAILABLE" {
			t.Errorf("%+v", r)
		}
		if code := c.wait(20 * time.Second); code != 0 {
			t.Errorf("status %d", code)
		}
		for _, n := range []string{"2", "3", "4"} {
			if _, err := os.Stat(out + n); err == nil {
				t.Errorf("%s%s was written", out, n)
			}
		}
		// A preset that never asks.
		c = e.lines(Opts{}, "--preset", "read-only")
		c.call(1, "write", map[string]any{"file_path": "f", "content": "x", "sandbox_permissions": map[string]any{"preset": "workspace-write"}})
		if r := c.next(); r.Error == nil || r.Error.Code != "APPROVAL_REJECTED" {
			t.Errorf("%+v", r)
		}
		c.end()
	})
}

// Another's home is read with approval, by a command and by the file tools, and by
// the approved call alone. Secrets stay out of reach whatever is answered.
func TestLines_ApprovedReading(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		needPrivateRoot(t)
		other := e.Mkdir(filepath.Join(e.Root, "other"))
		e.Write(filepath.Join(other, "notes"), "read me\n")
		e.Write(filepath.Join(e.H, ".ssh/id"), "secret\n")
		if err := os.Chmod(other, 0o755); err != nil {
			t.Fatal(err)
		}
		own := fmt.Sprintf("tester:x:%d:%d::%s:/bin/sh\n", e.UID, e.GID, e.H)
		e.bindOver("/etc/passwd", own+fmt.Sprintf("other:x:12399:12399::%s:/bin/sh\n", other))
		c := e.lines(Opts{})
		asked := 0
		call := func(id int, tool string, args map[string]any, dir string) reply {
			t.Helper()
			if dir != "" {
				args["sandbox_permissions"] = map[string]any{"read": []string{dir}}
			}
			c.call(id, tool, args)
			for {
				switch r := c.next(); {
				case r.Event == "approval":
					asked++
					c.send(`{"approve":%q,"outcome":"allowed-once"}`, r.Approval)
				case r.OK != nil:
					return r
				}
			}
		}
		for i, tt := range []struct {
			dir  string
			asks int
			may  bool
		}{{"", 0, false}, {other, 1, true}, {"", 0, false}} {
			asked = 0
			r := call(10*i, "bash", map[string]any{"command": "cat " + other + "/notes"}, tt.dir)
			if got := r.field(t, "stdout") == "read me\n"; got != tt.may || asked != tt.asks {
				t.Errorf("with %q: a command, asked %d times: %s", tt.dir, asked, r.Value)
			}
			asked = 0
			if r := call(10*i+1, "read", map[string]any{"file_path": other + "/notes"}, tt.dir); *r.OK != tt.may || asked != tt.asks || !tt.may && r.Error.Code != "SANDBOX_DENIED" {
				t.Errorf("with %q: read, asked %d times: %+v", tt.dir, asked, r)
			}
		}
		// Nobody is asked for a secret, which no approval gives.
		asked = 0
		if r := call(100, "bash", map[string]any{"command": "cat ~/.ssh/id"}, e.H+"/.ssh"); *r.OK || r.Error.Code != "DENIED" || asked != 0 {
			t.Errorf("a secret by a command, asked %d times: %+v", asked, r)
		}
		if r := call(101, "read", map[string]any{"file_path": e.H + "/.ssh/id"}, e.H+"/.ssh"); *r.OK || r.Error.Code != "DENIED" || asked != 0 {
			t.Errorf("a secret by read, asked %d times: %+v", asked, r)
		}
		if r := call(102, "read", map[string]any{"file_path": e.H + "/.ssh/id"}, ""); *r.OK || r.Error.Code != "SANDBOX_DENIED" {
			t.Errorf("a secret without asking: %+v", r)
		}
		c.end()
	})
}

func TestLines_OnATerminalPrintsUsage(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		needDshx(t)
		term := e.f3BarePty("sh", "-c", `"$1" exec --no-config; echo "status $?"`, "sh", dshxBin)
		if shown := term.read("status 2"); !strings.Contains(shown, "dshx exec [flags] [--] COMMAND") {
			t.Errorf("%q", shown)
		}
	})
}

// Two edits of one file that don't wait for each other are both made.
func TestLines_F4_12_EditsAtOnce(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		var lines strings.Builder
		for i := range 200 {
			fmt.Fprintf(&lines, "line-%03d\n", i+1)
		}
		file := e.Write(filepath.Join(e.W, "f"), lines.String())
		c := e.lines(Opts{})
		c.call(1, "read", map[string]any{"file_path": "f"})
		c.call(2, "edit", map[string]any{"file_path": "f", "old_string": "line-040", "new_string": "left"})
		c.call(3, "edit", map[string]any{"file_path": "f", "old_string": "line-160", "new_string": "right"})
		for id := 1; id <= 3; id++ {
			if r := c.next(); string(r.ID) != strconv.Itoa(id) || !*r.OK {
				t.Errorf("result %d: %+v", id, r)
			}
		}
		if got, want := e.Read(file), strings.NewReplacer("line-040", "left", "line-160", "right").Replace(lines.String()); got != want {
			t.Errorf("an edit is lost: %q", got)
		}
		c.end()
	})
}

// What a command does to a file is no reading of it, and makes what was read stale.
func TestLines_F4_13_CommandsDoNotObserve(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		var lines strings.Builder
		for i := range 20 {
			fmt.Fprintf(&lines, "line-%03d\n", i+1)
		}
		file := e.Write(filepath.Join(e.W, "f"), lines.String())
		c := e.lines(Opts{})
		edit := func(id int) reply {
			c.call(id, "edit", map[string]any{"file_path": "f", "old_string": "line-010", "new_string": "changed"})
			return c.result()
		}
		c.bash(1, "cat f")
		if r := c.result(); r.field(t, "stdout") != lines.String() {
			t.Fatalf("%s", r.Value)
		}
		if r := edit(2); *r.OK || r.Error.Code != "FS_NOT_OBSERVED" {
			t.Errorf("seen by a command alone: %+v", r)
		}
		c.call(3, "read", map[string]any{"file_path": "f"})
		c.result()
		c.bash(4, "sed -i s/line-003/LINE-003/ f")
		c.result()
		r := edit(5)
		var details struct{ Changed string }
		if *r.OK || r.Error.Code != "FS_STALE" || json.Unmarshal(r.Error.Details, &details) != nil || !strings.Contains(details.Changed, "\n-line-003\n+LINE-003\n") {
			t.Errorf("changed by a command: %+v, %s", r, details.Changed)
		}
		want := strings.Replace(lines.String(), "line-003", "LINE-003", 1)
		if got := e.Read(file); got != want {
			t.Errorf("the file is %q", got)
		}
		c.call(6, "read", map[string]any{"file_path": "f"})
		c.result()
		if r := edit(7); !*r.OK {
			t.Errorf("read again: %+v", r.Error)
		}
		if got := e.Read(file); got != strings.Replace(want, "line-010", "changed", 1) {
			t.Errorf("the file is %q", got)
		}
		c.end()
	})
}
