package integration

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// dshx serve --http, against the built programs (F6-21, F6-22). What needs no
// process is in serve/mcp.

// httpServer is a server that the test talks to.
type httpServer struct {
	t     *testing.T
	e     *Env
	cmd   *exec.Cmd
	url   string
	token string

	mu   sync.Mutex
	errs []string // lines of standard error
	done chan struct{}
}

// serveHTTP starts a server and waits until it listens.
func (e *Env) serveHTTP(o Opts, flags ...string) *httpServer {
	e.t.Helper()
	needDshx(e.t)
	argv := append([]string{dshxBin, "serve", "--no-config", "--env", "IT_MARK=" + e.Mark, "--http", "127.0.0.1:0"}, flags...)
	s := &httpServer{t: e.t, e: e, cmd: e.Command(o, argv...), done: make(chan struct{})}
	errs, err := s.cmd.StderrPipe()
	if err != nil {
		e.t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(func() {
		_ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL)
		<-s.done
		_ = s.cmd.Wait()
	})
	go func() {
		defer close(s.done)
		for lines := bufio.NewScanner(errs); lines.Scan(); {
			s.mu.Lock()
			s.errs = append(s.errs, lines.Text())
			s.mu.Unlock()
		}
	}()
	eventually(e.t, 30*time.Second, "the line that says where it listens", func() bool {
		for _, l := range s.said() {
			if url, ok := strings.CutPrefix(l, "dshx: listening on "); ok {
				s.url = url
			}
		}
		select {
		case <-s.done:
			e.t.Fatalf("it has ended: %q", s.said())
		default:
		}
		return s.url != ""
	})
	if b, err := os.ReadFile(filepath.Join(e.H, ".config/dshx/http-token")); err == nil {
		s.token = strings.TrimSpace(string(b))
	}
	return s
}

func (s *httpServer) said() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string{}, s.errs...)
}

// end sends a signal and returns the exit status.
func (s *httpServer) end(sig syscall.Signal) int {
	s.t.Helper()
	_ = s.cmd.Process.Signal(sig)
	select {
	case <-s.done:
	case <-time.After(30 * time.Second):
		s.t.Fatal("it doesn't end")
	}
	_ = s.cmd.Wait()
	return f3Status(s.cmd.ProcessState)
}

// do makes a request with the right headers, which others replace; "" takes one
// away. Host is one.
func (s *httpServer) do(method, body string, others ...string) (int, http.Header, []string) {
	s.t.Helper()
	r, err := http.NewRequest(method, s.url, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+s.token)
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(others); i += 2 {
		switch name, value := others[i], others[i+1]; {
		case name == "Host":
			r.Host = value
		case value == "":
			r.Header.Del(name)
		default:
			r.Header.Set(name, value)
		}
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	b, _ := io.ReadAll(res.Body)
	var messages []string
	for line := range strings.Lines(string(b)) {
		if m, ok := strings.CutPrefix(line, "data: "); ok {
			messages = append(messages, m)
		}
	}
	return res.StatusCode, res.Header, messages
}

// session begins one and returns its headers.
func (s *httpServer) session() []string {
	s.t.Helper()
	status, head, got := s.do("POST", fmt.Sprintf(mcpHello, "{}"))
	if id := head.Get("Mcp-Session-Id"); status == 200 && id != "" && len(got) == 1 {
		headers := []string{"Mcp-Session-Id", id, "Mcp-Protocol-Version", "2025-11-25"}
		if status, _, _ := s.do("POST", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, headers...); status == 202 {
			return headers
		}
	}
	s.t.Fatalf("no session: %d, %v, %q", status, head, got)
	return nil
}

func bashCall(id int, args map[string]any) string {
	a, _ := json.Marshal(args)
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"bash","arguments":%s}}`, id, a)
}

// bash makes a call and returns its result.
func (s *httpServer) bash(session []string, args map[string]any) mcpMessage {
	s.t.Helper()
	status, _, got := s.do("POST", bashCall(1, args), session...)
	if status != 200 || len(got) == 0 {
		s.t.Fatalf("%d, %q", status, got)
	}
	return (&mcpConn{t: s.t}).parse(got[len(got)-1])
}

func (s *httpServer) command(session []string, command string) mcpMessage {
	s.t.Helper()
	return s.bash(session, map[string]any{"command": command})
}

// preset switches to another and returns what is said of that.
func (s *httpServer) preset(session []string, name string) string {
	s.t.Helper()
	_, _, got := s.do("POST", fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"dshx-preset","arguments":{"preset":%q}}}`, name), session...)
	return strings.Join(got, "")
}

// job starts one that doesn't end by itself and returns its process.
func (s *httpServer) job(session []string, name string) int {
	s.t.Helper()
	s.bash(session, map[string]any{"command": "echo $$ >" + name + "; trap '' TERM; setsid sleep 300 & while :; do sleep 1; done", "run_in_background": true})
	pid := 0
	eventually(s.t, 20*time.Second, "the job", func() bool {
		b, _ := os.ReadFile(filepath.Join(s.e.W, name))
		pid, _ = strconv.Atoi(strings.TrimSpace(string(b)))
		return pid > 0
	})
	if !Alive(pid) {
		s.t.Fatal("the job doesn't run")
	}
	return pid
}

// F6-21: 404 for what is unknown, expired, deleted, or of another run, 400 without
// the header, and a new session works. An expired session's job is ended; another's
// goes on.
func TestMCP_F6_21_HTTPSessions(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		s := e.serveHTTP(Opts{}, "--session-idle", "2s")
		busy := s.session()
		holding := make(chan mcpMessage)
		go func() { holding <- s.command(busy, "touch begun; until test -e enough; do sleep 0.1; done; echo done") }()
		eventually(t, 20*time.Second, "the call to run", func() bool { _, err := os.Stat(filepath.Join(e.W, "begun")); return err == nil })
		idle := s.session()
		pid := s.job(idle, "idle.pid")
		eventually(t, 60*time.Second, "the end of the expired session's job", func() bool { return !Alive(pid) })
		for name, headers := range map[string][]string{"expired": idle, "unknown": {"Mcp-Session-Id", "nosuch"}} {
			if status, _, got := s.do("POST", bashCall(2, map[string]any{"command": "touch ran"}), headers...); status != 404 || got != nil {
				t.Errorf("%s: %d, %q", name, status, got)
			}
		}
		if status, _, got := s.do("POST", bashCall(2, map[string]any{"command": "touch ran"})); status != 400 {
			t.Errorf("no header: %d, %q", status, got)
		}
		fresh := s.session()
		if m := s.command(fresh, "echo hi"); m.field(t, "stdout") != "hi\n" {
			t.Errorf("a new session: %s", m.line)
		}
		pid = s.job(fresh, "fresh.pid")
		if status, _, _ := s.do("DELETE", "", fresh...); status != 204 {
			t.Errorf("DELETE: %d", status)
		}
		if Alive(pid) {
			t.Error("the deleted session's job runs")
		}
		if status, _, _ := s.do("POST", bashCall(2, map[string]any{"command": "touch ran"}), fresh...); status != 404 {
			t.Errorf("deleted: %d", status)
		}
		e.Write(filepath.Join(e.W, "enough"), "")
		if m := <-holding; m.field(t, "stdout") != "done\n" {
			t.Errorf("the session that was at work: %s", m.line)
		}
		old := s.session()
		if code := s.end(syscall.SIGTERM); code != 143 {
			t.Errorf("status %d", code)
		}
		e.NothingLeft(2 * time.Second)
		again := e.serveHTTP(Opts{})
		if again.token != s.token {
			t.Error("another token")
		}
		if status, _, _ := again.do("POST", bashCall(2, map[string]any{"command": "touch ran"}), old...); status != 404 {
			t.Errorf("of a run before: %d", status)
		}
		again.session()
		if _, err := os.Stat(filepath.Join(e.W, "ran")); err == nil {
			t.Error("a refused call ran")
		}
	})
}

// F6-22: who comes from elsewhere or has no token runs nothing.
func TestMCP_F6_22_HTTPOrigins(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		s := e.serveHTTP(Opts{})
		session := s.session()
		_, port, _ := net.SplitHostPort(strings.TrimSuffix(strings.TrimPrefix(s.url, "http://"), "/mcp"))
		for i, tt := range []struct {
			want   int
			change []string
		}{
			{403, []string{"Host", "evil.example"}},
			{403, []string{"Origin", "https://evil.example"}},
			{403, []string{"Origin", "null"}},
			{401, []string{"Authorization", ""}},
			{401, []string{"Authorization", "Bearer " + s.token[1:]}},
			{200, []string{"Host", "localhost:" + port}},
			{200, []string{"Host", "127.0.0.1:" + port}},
			{200, []string{"Host", "[::1]:" + port}},
		} {
			ran := fmt.Sprint("ran-", i)
			status, _, got := s.do("POST", bashCall(1, map[string]any{"command": "touch " + ran}), append(append([]string{}, session...), tt.change...)...)
			if _, err := os.Stat(filepath.Join(e.W, ran)); status != tt.want || (err == nil) != (tt.want == 200) {
				t.Errorf("%q: %d, ran: %v, %q", tt.change, status, err == nil, got)
			}
		}
	})
}

// However it ends, calls are answered as far as that can be, and nothing is left.
func TestMCP_HTTPNothingIsLeft(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		for sig, want := range map[syscall.Signal]int{syscall.SIGTERM: 143, syscall.SIGINT: 130, syscall.SIGKILL: 137} {
			t.Run(sig.String(), func(t *testing.T) {
				e := e.With(t)
				s := e.serveHTTP(Opts{})
				one, two := s.session(), s.session()
				s.job(one, sig.String()+"-one")
				s.job(two, sig.String()+"-two")
				var running chan mcpMessage
				if sig != syscall.SIGKILL {
					running = make(chan mcpMessage)
					go func() { running <- s.command(two, "touch begun; while :; do echo x; sleep 0.05; done") }()
					eventually(t, 20*time.Second, "the call to run", func() bool { _, err := os.Stat(filepath.Join(e.W, "begun")); return err == nil })
					_ = os.Remove(filepath.Join(e.W, "begun"))
				}
				code := make(chan int)
				go func() { code <- s.end(sig) }()
				if running != nil {
					if m := <-running; m.code() != "ABORTED" {
						t.Errorf("the call that ran: %s", m.line)
					}
				}
				if got := <-code; got != want {
					t.Errorf("status %d, want %d: %q", got, want, s.said())
				}
				e.NothingLeft(2 * time.Second)
			})
		}
	})
}

// The token is this user's alone: no command reads or writes it, wherever it is;
// what is beside it is the control. A file that others may read is none.
func TestMCP_HTTPToken(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		s := e.serveHTTP(Opts{}, "--network", "loopback")
		path := filepath.Join(e.H, ".config/dshx/http-token")
		st, err := os.Stat(path)
		if err != nil || st.Mode().Perm() != 0o600 || len(s.token) < 32 {
			t.Fatalf("%v, %v, %q", st, err, s.token)
		}
		beside := e.Write(filepath.Join(e.H, ".config/dshx/other"), "beside\n")
		session := s.session()
		for _, read := range []string{"cat " + path, "cp " + path + " copy", "ln " + path + " link", "mv " + path + " moved", "echo x >" + path, "rm -f " + path, "cat /proc/" + strconv.Itoa(s.cmd.Process.Pid) + "/environ", "head -c 1 /proc/" + strconv.Itoa(s.cmd.Process.Pid) + "/mem"} {
			if m := s.command(session, read); m.field(t, "exitCode") == "0" || strings.Contains(m.full, s.token) {
				t.Errorf("%s: %s", read, m.line)
			}
		}
		if got := strings.TrimSpace(e.Read(path)); got != s.token {
			t.Errorf("it is %q now", got)
		}
		if m := s.command(session, "cat "+beside); m.field(t, "stdout") != "beside\n" {
			t.Errorf("the control: %s", m.line)
		}
		_, _, got := s.do("POST", fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read","arguments":{"file_path":%q}}}`, path), session...)
		if m := (&mcpConn{t: t}).parse(got[len(got)-1]); m.code() != "SANDBOX_DENIED" {
			t.Errorf("read: %s", m.line)
		}
		// Of other runs, too.
		if r := e.Sh(Opts{}, "cat "+path); r.Exit == 0 {
			t.Errorf("exec read it: %s", r.Stdout)
		}

		// A file of one's own.
		own := filepath.Join(e.H, "a b", "token")
		s2 := e.serveHTTP(Opts{}, "--token-file", own)
		s2.token = strings.TrimSpace(e.Read(own))
		if m := s2.command(s2.session(), "cat '"+own+"'"); m.field(t, "exitCode") == "0" || strings.Contains(m.full, s2.token) {
			t.Errorf("%s", m.line)
		}

		refused := func(want string, status int, flags ...string) {
			t.Helper()
			r := e.Dshx(Opts{}, append([]string{"serve", "--no-config"}, flags...)...)
			if r.Exit != status || !strings.Contains(r.Stderr, want) || strings.Contains(r.Stderr, "listening") {
				t.Errorf("%q: %d, %s; want %d, %s", flags, r.Exit, r.Stderr, status, want)
			}
		}
		// In what commands may write it can't be hidden; nothing is made there. A
		// policy that would let them write there isn't switched to.
		refused("can't be hidden", 1, "--http", "127.0.0.1:0", "--token-file", filepath.Join(e.W, "x/token"))
		refused("can't be hidden", 1, "--http", "127.0.0.1:0", "--workspace", e.H, "--allow-broad-workspace")
		refused("can't be hidden", 1, "--http", "127.0.0.1:0", "--write", filepath.Join(e.H, ".config"))
		refused("can't be hidden", 1, "--http", "127.0.0.1:0", "--token-file", filepath.Join(e.H, "a[b]", "token"))
		if _, err := os.Stat(filepath.Join(e.W, "x")); err == nil {
			t.Error("something was made")
		}
		s3 := e.serveHTTP(Opts{}, "--preset", "read-only", "--token-file", filepath.Join(e.W, "token"))
		s3.token = strings.TrimSpace(e.Read(filepath.Join(e.W, "token")))
		session = s3.session()
		for preset, why := range map[string]string{"workspace-write": "can't be hidden", "danger-full-access": "can't be enforced"} {
			if got := s3.preset(session, preset); !strings.Contains(got, why) {
				t.Errorf("%s: %q", preset, got)
			}
			if m := s3.command(session, "cat token"); m.field(t, "exitCode") == "0" {
				t.Errorf("%s: %s", preset, m.line)
			}
		}
		// Under danger-full-access nothing is hidden, as is said; a policy that
		// doesn't deny the file isn't switched to from there.
		s4 := e.serveHTTP(Opts{}, "--preset", "danger-full-access", "--token-file", own)
		s4.token = strings.TrimSpace(e.Read(own))
		if said := strings.Join(s4.said(), "\n"); !strings.Contains(said, "may read the token") {
			t.Error(said)
		}
		session = s4.session()
		if m := s4.command(session, "cat '"+own+"'"); m.field(t, "exitCode") != "0" {
			t.Errorf("%s", m.line)
		}
		if got := s4.preset(session, "workspace-write"); !strings.Contains(got, "is not hidden") {
			t.Errorf("%q", got)
		}
		// The usual place is hidden by itself: presets can be switched, with that.
		s5 := e.serveHTTP(Opts{})
		session = s5.session()
		for preset, status := range map[string]string{"danger-full-access": "0", "read-only": "1"} {
			if got := s5.preset(session, preset); !strings.Contains(got, "Preset "+preset) {
				t.Errorf("%s: %q", preset, got)
			}
			if m := s5.command(session, "cat "+path); m.field(t, "exitCode") != status {
				t.Errorf("%s: %s", preset, m.line)
			}
		}

		open := e.Write(filepath.Join(e.H, "open"), strings.Repeat("x", 40)+"\n", 0o644)
		refused("may be read by others", 1, "--http", "127.0.0.1:0", "--token-file", open)
		refused("symbolic link", 1, "--http", "127.0.0.1:0", "--token-file", e.Symlink(path, filepath.Join(e.H, "link")))
		refused("holds no token", 1, "--http", "127.0.0.1:0", "--token-file", e.Write(filepath.Join(e.H, "short"), "x\n", 0o600))
		refused("holds no token", 1, "--http", "127.0.0.1:0", "--token-file", e.Write(filepath.Join(e.H, "odd"), strings.Repeat("x y", 20), 0o600))
		refused("no regular file", 1, "--http", "127.0.0.1:0", "--token-file", e.Mkdir(filepath.Join(e.H, "dir")))
		refused("not on the loopback", 2, "--http", "0.0.0.0:0")
		refused("not on the loopback", 2, "--http", ":0")
		refused("not on the loopback", 2, "--http", "192.0.2.7:0")
		refused("no address", 2, "--http", "8765")
		refused("no address", 2, "--http", "127.0.0.1:65536")
		refused("is for --http", 2, "--token-file", path)
		refused("no number of sessions", 2, "--http", "127.0.0.1:0", "--max-sessions", "0")
		refused("address already in use", 1, "--http", strings.TrimSuffix(strings.TrimPrefix(s.url, "http://"), "/mcp"))
		refused("unknown", 2, "--http", "127.0.0.1:0", "--preset", "nosuch")
	})
}

// Sessions are apart, and each has its part of the log.
func TestMCP_HTTPSessionsApart(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		log := filepath.Join(e.O, "http.log")
		s := e.serveHTTP(Opts{}, "--max-sessions", "2", "--log", log)
		one, two := s.session(), s.session()
		if status, _, _ := s.do("POST", fmt.Sprintf(mcpHello, "{}")); status != 429 {
			t.Errorf("a third: %d", status)
		}
		s.job(one, "one.pid")
		if m := s.command(one, "echo mine >$TMPDIR/x; cat $TMPDIR/x"); m.field(t, "stdout") != "mine\n" {
			t.Errorf("%s", m.line)
		}
		if m := s.command(two, "ls $TMPDIR"); m.field(t, "stdout") != "" {
			t.Errorf("%s", m.line)
		}
		_, _, got := s.do("POST", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"job_list","arguments":{}}}`, two...)
		if len(got) != 1 || strings.Contains(got[0], "sleep 300") {
			t.Errorf("the other's jobs: %q", got)
		}
		s.do("DELETE", "", one...)
		if code := s.end(syscall.SIGTERM); code != 143 {
			t.Errorf("status %d", code)
		}
		scopes := map[string]string{}
		for line := range strings.Lines(e.Read(log)) {
			var r struct{ Type, Scope string }
			if err := json.Unmarshal([]byte(line), &r); err != nil {
				t.Fatal(err)
			}
			scopes[r.Scope] += r.Type + " "
		}
		if !strings.HasPrefix(scopes["conn-1"], "start ") || !strings.HasSuffix(scopes["conn-1"], "end ") || !strings.HasPrefix(scopes["conn-2"], "start ") || !strings.HasSuffix(scopes["conn-2"], "end ") || len(scopes) != 2 {
			t.Errorf("%q", scopes)
		}
	})
}

// What --print-config prints for a server that listens.
func TestMCP_HTTPPrintConfig(t *testing.T) {
	e := newEnv(t, os.Getuid(), os.Getgid())
	r := e.Dshx(Opts{}, "serve", "--no-config", "--http", "127.0.0.1:8765", "--print-config", "vscode")
	if r.Exit != 0 || !strings.Contains(r.Stdout, `"url": "http://127.0.0.1:8765/mcp"`) || !strings.Contains(r.Stderr, "http-token") {
		t.Errorf("%d, %s, %s", r.Exit, r.Stdout, r.Stderr)
	}
	for _, at := range []string{"127.0.0.1:0", "0.0.0.0:8765"} {
		if r := e.Dshx(Opts{}, "serve", "--no-config", "--http", at, "--http-any-address", "--print-config", "vscode"); r.Exit != 2 || r.Stdout != "" {
			t.Errorf("%s: %d, %s", at, r.Exit, r.Stdout)
		}
	}
}
