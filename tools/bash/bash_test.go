package bash

import (
	"bytes"
	"context"
	"encoding/base64"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/dshx/dshx/jobs"
	"github.com/dshx/dshx/pipeline"
	"github.com/dshx/dshx/sandboxpolicy"
)

var update = flag.Bool("update", false, "write the golden files")

func TestSchema_IsTheContracts(t *testing.T) {
	w := newWorld(t)
	j, err := pipeline.MarshalValue(struct {
		Declaration pipeline.Declaration `json:"declaration"`
		Output      *pipeline.Schema     `json:"output"`
		Parallel    bool                 `json:"parallel"`
	}{w.tool.Declare(), w.tool.Output(), w.tool.ConcurrencySafe(pipeline.JSON{})})
	if err != nil {
		t.Fatal(err)
	}
	got := indent(j.String())
	const golden = "testdata/schema.json"
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil || string(want) != got {
		t.Errorf("the schema has changed (%v); with -update it is written anew:\n%s", err, got)
	}
}

var brackets = regexp.MustCompile(`([{\[]|[}\]],?|,)`)

// indent puts each member on a line of its own, so that a change shows.
func indent(s string) string { return brackets.ReplaceAllString(s, "$1\n") }

func TestRun_ValueAndContent(t *testing.T) {
	w := newWorld(t)
	for _, tt := range []struct {
		command string
		code    int // -1: a signal
		signal  string
		content string
	}{
		{"echo out; echo err >&2; exit 1", 1, "", "out\nerr\n[exit code 1]"},
		{"printf out; printf err >&2", 0, "", "out\nerr"},
		{"true", 0, "", "[no output]"},
		{"exit 2", 2, "", "[exit code 2]"},
		{"exit 125", 125, "", "[exit code 125]"},
		{"exit 126", 126, "", "[exit code 126]"},
		{"exit 127", 127, "", "[exit code 127]"},
		{"exit 255", 255, "", "[exit code 255]"},
		{"exit 134", 134, "", "[exit code 134]"},
		{"kill -ABRT $$", -1, "SIGABRT", "[signal SIGABRT]"},
		{"kill -SEGV $$", -1, "SIGSEGV", "[signal SIGSEGV]"},
		{"kill -KILL $$", -1, "SIGKILL", "[signal SIGKILL]"},
		{"kill -TERM $$", -1, "SIGTERM", "[signal SIGTERM]"},
		{"kill -PIPE $$", -1, "SIGPIPE", "[signal SIGPIPE]"},
		{"kill -SYS $$", -1, "SIGSYS", "[signal SIGSYS]"},
		{"printf '\\e[31mred\\e[0m'", 0, "", "red"},
	} {
		r := w.call(context.Background(), object{"command": tt.command}, nil)
		v := w.value(r)
		code, signal := -1, ""
		if v.ExitCode != nil {
			code = *v.ExitCode
		}
		if v.Signal != nil {
			signal = *v.Signal
		}
		if code != tt.code || signal != tt.signal || content(r) != tt.content {
			t.Errorf("%s: %d %q %q, want %d %q %q", tt.command, code, signal, content(r), tt.code, tt.signal, tt.content)
		}
		if v.Kind != Foreground || v.Command != tt.command || v.Cwd != w.work || *v.TimeoutMs != 120000 || v.Encoding != "utf-8" || v.DurationMs < 0 {
			t.Errorf("%s: %s", tt.command, r.Value())
		}
		for _, member := range []string{`"denials":[]`, `"notices":[`, `"spill":null`, `"limit":null`, `"changes":null`, `"leftBehind":null`, `"enforcement":{`} {
			if !strings.Contains(r.Value().String(), member) {
				t.Errorf("%s: no %s in %s", tt.command, member, r.Value())
			}
		}
		if strings.Contains(r.Value().String(), `"jobId"`) {
			t.Errorf("a job id in the foreground: %s", r.Value())
		}
	}
}

func TestRun_FreshShell(t *testing.T) {
	w := newWorld(t)
	w.write("rc", "echo from rc")
	w.bash("cd /; x=1; alias ls=false; export y=2")
	v := w.ok(object{"command": `echo "$PWD ${x-} ${y-} $A $0 $#"; cat /proc/$$/environ | tr '\0' '\n' | grep -c BASH_ENV; type -t ls`,
		"env": object{"A": "b c"}})
	if want := w.work + "   b c bash 0\n0\nfile\n"; v.Stdout != want {
		t.Errorf("got %q, want %q", v.Stdout, want)
	}
	if v := w.ok(object{"command": "echo $A; echo $PATH", "env": object{"PATH": "/nowhere", "A": ""}}); v.Stdout != "\n/nowhere\n" {
		t.Errorf("got %q", v.Stdout)
	}
	// No file is read before the command, whatever the caller's environment, all
	// of which is passed here, and home say.
	w = newWorld(t, func(r *sandboxpolicy.Request, _ *jobs.Options, _ *Options) {
		r.KeepEnv, r.Environ = true, append(r.Environ, "ENV="+r.Workspace+"/rc", "SSH_CLIENT=127.0.0.1 1 22", "SHLVL=0", "KEPT=kept")
	})
	for _, name := range []string{"rc", "../.bashrc", "../.profile", "../.bash_profile"} {
		w.write(name, "echo from "+name)
	}
	if v := w.bash("echo $KEPT; bash -c 'echo ${BASH_ENV-none}'"); v.Stdout != "kept\nnone\n" {
		t.Errorf("got %q", v.Stdout)
	}
}

// TERM tells the truth: there is a terminal with pty alone.
func TestRun_TermIsTheTerminals(t *testing.T) {
	w := newWorld(t, func(r *sandboxpolicy.Request, _ *jobs.Options, _ *Options) {
		r.Environ = append(r.Environ, "TERM=xterm-of-the-caller")
	})
	for _, tt := range []struct {
		args object
		want string
	}{
		{object{}, "dumb"}, {object{"pty": true}, "xterm-of-the-caller"},
		{object{"env": object{"TERM": "own"}}, "own"}, {object{"env": object{"TERM": "own"}, "pty": true}, "own"},
	} {
		tt.args["command"] = "echo $TERM; env | grep -c ^TERM="
		if v := w.ok(tt.args); strings.ReplaceAll(v.Stdout, "\r", "") != tt.want+"\n1\n" {
			t.Errorf("%v: %q", tt.args, v.Stdout)
		}
	}
}

// F6-10, and what else no command runs for.
func TestArgs_ThatMeanNothing(t *testing.T) {
	w := newWorld(t)
	for _, tt := range []struct{ args, path, expected string }{
		{`{"command":"touch ran","timeout_ms":"5000"}`, "timeout_ms", "integer"},
		{`{"command":"touch ran","timeout_ms":0.5}`, "timeout_ms", "integer"},
		{`{"command":"touch ran","timeout_ms":-1}`, "timeout_ms", "at least 1"},
		{`{"command":"touch ran","timeout_ms":0}`, "timeout_ms", "at least 1"},
		{`{"command":"touch ran","timeout_ms":true}`, "timeout_ms", "integer"},
		{`{"command":"touch ran","timeout_ms":null}`, "timeout_ms", "integer"},
		{`{"command":"touch ran","timeout_ms":1e3}`, "timeout_ms", "plain digits"},
		{`{"command":"touch ran","timeout":5}`, "timeout", "timeout_ms"},
		{`{"command":"touch ran","dry_run":true}`, "dry_run", "not in this version"},
		{`{"command":"touch ran","interactive":true}`, "interactive", "run_in_background"},
		{`{"command":"touch ran","rows":0,"pty":true}`, "rows", "1"},
		{`{"command":"touch ran\u0000"}`, "command", "NUL"},
		{`{"command":"touch ran","workdir":"a\u0000"}`, "workdir", "NUL"},
		{`{"command":"touch ran","env":{"a=b":"c"}}`, "env", "="},
		{`{"command":"touch ran","env":{"":"c"}}`, "env", "empty"},
		{`{"command":"touch ran","env":{"a":"\u0000"}}`, "env.a", "NUL"},
		{`{"command":"touch ran","env":{"BASH_ENV":"x"}}`, "env.BASH_ENV", "absent"},
		{`{"command":""}`, "command", "not empty"},
		{`{}`, "command", "string"},
		{`{"command":"touch ran # ` + strings.Repeat("x", 200<<10) + `"}`, "command", "131071 bytes"},
		{`{"command":"touch \ud83d"}`, "", ""},
	} {
		r := w.raw(context.Background(), tt.args, nil)
		if r.OK() || r.Failure().Code != pipeline.CodeInvalidArgs {
			t.Errorf("%.80s: %s %v", tt.args, r.Value(), r.Failure())
			continue
		}
		var d struct{ Path, Expected string }
		_ = jsonDecode(r.Failure().Details, &d)
		if d.Path != tt.path || !strings.Contains(r.Failure().Message, tt.expected) {
			t.Errorf("%.80s: %+v %s", tt.args, d, r.Failure().Message)
		}
	}
	if _, err := os.Stat(w.work + "/ran"); err == nil {
		t.Error("a command ran")
	}
	for text, want := range map[string]int64{"700000": 600000, "9007199254740993": 600000, "9223372036854775807": 600000, "600000": 600000, "1": 1} {
		r := w.raw(context.Background(), `{"command":"true","timeout_ms":`+text+`}`, nil)
		if v := w.value(r); *v.TimeoutMs != want {
			t.Errorf("%s: %d", text, *v.TimeoutMs)
		}
	}
	if v := w.ok(object{"command": ": " + strings.Repeat("x", 120<<10) + "; echo fine"}); v.Stdout != "fine\n" {
		t.Errorf("a command of 120 KB: %q", v.Stdout)
	}
	if r := w.raw(context.Background(), `{"command":"printf '\ud83d\ude00' | od -An -tx1"}`, nil); w.value(r).Stdout != " f0 9f 98 80\n" {
		t.Errorf("a pair: %s", r.Value())
	}
}

func jsonDecode(j pipeline.JSON, into any) error {
	// Details have more members than a test asks for.
	return jsonUnmarshal([]byte(j.String()), into)
}

// F3-14.
func TestWorkdir(t *testing.T) {
	w := newWorld(t)
	w.write("file", "")
	for _, d := range []string{"sub", "gone", "secret"} {
		if err := os.Mkdir(w.work+"/"+d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	_ = os.Symlink("sub", w.work+"/link")
	_ = os.Symlink("loop", w.work+"/loop")
	for in, want := range map[string]string{"sub": w.work + "/sub", w.work + "/sub": w.work + "/sub", "link": w.work + "/sub", "link/..": w.work, "/": "/", "/usr": "/usr"} {
		r := w.call(context.Background(), object{"command": "pwd -P", "workdir": in}, nil)
		if v := w.value(r); v.Stdout != want+"\n" || v.Cwd != want {
			t.Errorf("%s: %q %q, want %q", in, v.Stdout, v.Cwd, want)
		}
	}
	ssh := filepath.Dir(w.work) + "/.ssh"
	for in, code := range map[string]string{"none": "FS_NOT_FOUND", "file": "FS_NOT_DIRECTORY", "file/x": "FS_NOT_DIRECTORY", "loop": "FS_SYMLINK_LOOP",
		"~": "FS_NOT_FOUND", ssh: "SANDBOX_DENIED", ssh + "/x": "SANDBOX_DENIED", strings.Repeat("x", 300): "FS_INVALID_PATH"} {
		e := w.fails(object{"command": "touch ran", "workdir": in}, code)
		if !strings.Contains(e.Message, "working directory") || (code == "SANDBOX_DENIED") != strings.Contains(e.Details.String(), `"denial":{"operation":"read"`) {
			t.Errorf("%s: %s %s", in, e.Message, e.Details)
		}
	}
	// One that is deleted between two calls is no trouble for the next.
	w.ok(object{"command": "true", "workdir": "gone"})
	_ = os.Remove(w.work + "/gone")
	w.fails(object{"command": "touch ran", "workdir": "gone"}, "FS_NOT_FOUND")
	w.bash("true")
	if os.Getuid() != 0 {
		_ = os.Chmod(w.work+"/secret", 0)
		w.fails(object{"command": "touch ran", "workdir": "secret"}, "FS_PERMISSION_DENIED")
		_ = os.Chmod(w.work+"/secret", 0o700)
	}
	if _, err := os.Stat(w.work + "/ran"); err == nil {
		t.Error("a command ran")
	}
	// What the shell finds is its own matter.
	w.write("text", "echo as bash would")
	w.write("bad", "#!/no/such\n")
	if v := w.bash("./text; ./bad; nosuch; ./sub"); v.Stdout != "as bash would\n" || !strings.Contains(v.Stderr, "./bad: ") || !strings.Contains(v.Stderr, "nosuch: command not found") || *v.ExitCode != 126 {
		t.Errorf("%q %q", v.Stdout, v.Stderr)
	}
}

// F3-11, F5-11: without input everything sees its end at once.
func TestStdin(t *testing.T) {
	w := newWorld(t)
	for _, c := range []string{"cat", "read x; echo $?", "grep foo", "python3 -c 'input()'", "python3 -", "ssh-keygen -f k", "sh -c 'echo q >/dev/tty; read a </dev/tty'", "cat /dev/tty", "tty"} {
		start := time.Now()
		v := w.ok(object{"command": c, "timeout_ms": 20000})
		if d := time.Since(start); v.TimedOut || d > 10*time.Second {
			t.Errorf("%s took %v", c, d)
		}
	}
	big := strings.Repeat("\x00\x01zäöü\n", 1<<20)
	if v := w.ok(object{"command": "sha256sum", "stdin": big}); v.Stdout != sum(big)+"  -\n" {
		t.Errorf("10 MB arrive as %q", v.Stdout)
	}
	if v := w.ok(object{"command": "echo done; exec 0<&-", "stdin": big, "timeout_ms": 20000}); v.Stdout != "done\n" || v.TimedOut || v.LeftBehind != nil {
		t.Errorf("what reads nothing: %+v", v.Ended)
	}
	// It goes on for a job that reads it.
	v := w.ok(object{"command": "(sleep 0.3; wc -c) <&0 &", "stdin": big})
	if v.LeftBehind == nil || v.LeftBehind.JobID == nil {
		t.Fatalf("no job: %+v", v.Ended)
	}
	if _, err := w.owner.Wait(context.Background(), []string{*v.LeftBehind.JobID}, false); err != nil {
		t.Fatal(err)
	}
	if got := w.output(*v.LeftBehind.JobID); got != strconv.Itoa(len(big))+"\n" {
		t.Errorf("the job read %q", got)
	}
}

// F3-1, F5-1, F5-6: the call answers when the shell has exited, and what lives
// on is a job with its further output.
func TestLeftBehind_IsAJob(t *testing.T) {
	w := newWorld(t)
	for _, tt := range []struct {
		command, stdout string
		pids            int
		job             string // in its output
	}{
		{"sleep 300 & echo hi", "hi\n", 1, ""},
		{"(sleep 0.2; while :; do echo x; sleep 0.1; done) & echo hi", "hi\n", 2, "x\nx\n"},
		{"for n in a b c; do (while true; do true; done) & done; echo started", "started\n", 3, ""},
		{"(setsid sh -c 'sleep 0.2; echo late; exec sleep 300' &) & echo hi", "hi\n", 0, "late\n"},
		{"printf 'flushed just before'; sleep 300 >/dev/null 2>&1 &", "flushed just before", 1, ""},
		{"(sleep 0.3; printf '\\270\\201\\n'; exec sleep 300) & printf '\\340'", "", 0, "ำ\n"[:0] + "\u0e01\n"},
	} {
		start := time.Now()
		r := w.call(context.Background(), object{"command": tt.command, "timeout_ms": 10000}, nil)
		v := w.value(r)
		if d := time.Since(start); d > 2*time.Second {
			t.Errorf("%s took %v", tt.command, d)
		}
		if v.Stdout != tt.stdout && tt.job != "\u0e01\n" || v.ExitCode == nil || *v.ExitCode != 0 || v.LeftBehind == nil || v.LeftBehind.JobID == nil {
			t.Fatalf("%s: %s", tt.command, r.Value())
		}
		id := *v.LeftBehind.JobID
		if n := len(v.LeftBehind.Pids); tt.pids > 0 && n != tt.pids || n == 0 {
			t.Errorf("%s: pids %v", tt.command, v.LeftBehind.Pids)
		}
		if !strings.Contains(content(r), "left running: job "+id+"]") {
			t.Errorf("%s: content %q", tt.command, content(r))
		}
		within(t, 5*time.Second, "output "+tt.job, func() bool { return strings.Contains(w.output(id), tt.job) })
		j := w.job(id)
		if j.Status != jobs.Running || j.ParentCallID != r.ID() || len(j.PIDs) == 0 || j.Kind != "bash" {
			t.Errorf("%s: %+v", tt.command, j)
		}
		if _, requested, err := w.owner.Kill(id, "TERM", ""); !requested || err != nil {
			t.Error(requested, err)
		}
		list, err := w.owner.Wait(context.Background(), []string{id}, false)
		if err != nil || list[0].Status != jobs.Killed {
			t.Errorf("%s: %+v %v", tt.command, list, err)
		}
		for _, pid := range v.LeftBehind.Pids {
			if _, err := os.Stat(fmt.Sprintf("/proc/%d", pid)); err == nil {
				if b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); !strings.Contains(string(b), ") Z ") {
					t.Errorf("%s: process %d lives: %s", tt.command, pid, b)
				}
			}
		}
	}
}

// Processes that are about to end are no job, and their output is the call's.
func TestLeftBehind_AMomentToEnd(t *testing.T) {
	w := newWorld(t)
	missed := 0
	for range 20 {
		v := w.bash("exec > >(cat; echo end); seq 1 1000")
		out := v.Stdout
		if l := v.LeftBehind; l != nil { // on a machine that is busy
			missed++
			if _, err := w.owner.Wait(context.Background(), []string{*l.JobID}, false); err != nil {
				t.Fatal(err)
			}
			out += w.output(*l.JobID)
		}
		if !strings.HasSuffix(out, "1000\nend\n") || !strings.HasPrefix(out, "1\n2\n") {
			t.Fatalf("%q %+v", v.Stdout, v.LeftBehind)
		}
	}
	if missed > 5 {
		t.Errorf("%d of 20 became jobs", missed)
	}
}

func TestLeftBehind_BeyondTheLimitIsEnded(t *testing.T) {
	w := newWorld(t, func(_ *sandboxpolicy.Request, j *jobs.Options, _ *Options) { j.MaxLive = 1 })
	w.ok(object{"command": "sleep 300", "run_in_background": true})
	r := w.call(context.Background(), object{"command": "sleep 300 & sleep 300 & echo hi", "env": object{"MARK": mark(t)}}, nil)
	v := w.value(r)
	if v.Stdout != "hi\n" || v.LeftBehind == nil || v.LeftBehind.JobID != nil || len(v.LeftBehind.Pids) != 2 {
		t.Errorf("%s", r.Value())
	}
	if c := content(r); !strings.Contains(c, "[2 processes left running and ended") || !strings.Contains(c, "too many live jobs") {
		t.Error(c)
	}
	if p := marked(mark(t)); len(p) > 0 {
		t.Errorf("%v live", p)
	}
	w.fails(object{"command": "sleep 300", "run_in_background": true}, "JOB_LIMIT")
}

// F3-2, F5-3.
func TestTimeout_EndsTheTree(t *testing.T) {
	w := newWorld(t, func(_ *sandboxpolicy.Request, _ *jobs.Options, o *Options) { o.KillAfter = 700 * time.Millisecond })
	for _, c := range []string{
		"sleep 300 | cat", "(sleep 300)", "sleep 300 & wait", "trap '' TERM; echo deaf; while :; do sleep 1; done",
		"mkfifo f; cat f & while :; do echo x; sleep 0.05; done > f",
		"setsid sleep 300 & (setsid sh -c 'trap \"\" TERM; sleep 300; sleep 300' &) & sleep 300",
		"kill -STOP $$", "sh -c 'while :; do echo tick; sleep 0.1; done' | tee out.txt & wait",
	} {
		start := time.Now()
		r := w.call(context.Background(), object{"command": c, "timeout_ms": 400, "env": object{"MARK": mark(t)}}, nil)
		v := w.value(r)
		if d := time.Since(start); d > 3*time.Second || d < 400*time.Millisecond {
			t.Errorf("%s took %v", c, d)
		}
		if !v.TimedOut || *v.TimeoutMs != 400 || v.LeftBehind != nil || !strings.Contains(content(r), "[timed out after 0.4 s]") {
			t.Errorf("%s: %s", c, r.Value())
		}
		if strings.Contains(c, "tick") && !strings.Contains(v.Stdout, "tick\n") || strings.Contains(c, "deaf") && v.Stdout != "deaf\n" {
			t.Errorf("%s: the output so far is %q", c, v.Stdout)
		}
		if p := marked(mark(t)); len(p) > 0 {
			t.Errorf("%s: %v live", c, p)
		}
		_ = os.Remove(w.work + "/f")
	}
	if n := len(w.owner.List()); n > 0 {
		t.Errorf("%d jobs", n)
	}
	// What handles the signal has its say, in the time that is usual: five seconds.
	w = newWorld(t)
	start := time.Now()
	if v := w.ok(object{"command": "trap '' TERM; while :; do sleep 1; done", "timeout_ms": 300}); !v.TimedOut || *v.Signal != "SIGKILL" {
		t.Errorf("%+v", v.Ended)
	}
	if d := time.Since(start); d < 5*time.Second || d > 12*time.Second {
		t.Errorf("what ignores the signal had %v", d)
	}
	if v := w.ok(object{"command": "trap 'echo cleaned; exit 7' TERM; while :; do sleep 0.05; done", "timeout_ms": 300}); v.Stdout != "cleaned\n" || *v.ExitCode != 7 || !v.TimedOut {
		t.Errorf("%+v", v.Ended)
	}
}

func TestCancel_KeepsWhatThereIs(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithCancelCause(context.Background())
	r := w.call(ctx, object{"command": "echo so far; setsid sleep 300 & sleep 300", "env": object{"MARK": mark(t)}}, func(p pipeline.Progress) {
		cancel(pipeline.CancelReason("user"))
	})
	if r.OK() || r.Failure().Code != pipeline.CodeAborted || !strings.Contains(r.Failure().Message, "user") {
		t.Fatalf("%s %v", r.Value(), r.Failure())
	}
	var d struct{ Partial Value }
	if err := jsonDecode(r.Failure().Details, &d); err != nil || d.Partial.Ended == nil || d.Partial.Stdout != "so far\n" || d.Partial.TimedOut {
		t.Errorf("%v %s", err, r.Failure().Details)
	}
	if !strings.HasPrefix(content(r), "so far\n") {
		t.Errorf("content %q", content(r))
	}
	if p := marked(mark(t)); len(p) > 0 {
		t.Errorf("%v live", p)
	}
	if c, ok := pipeline.Present(w.tool, "bash", pipeline.JSON{}, r.Shown()).(pipeline.TerminalCard); ok {
		t.Errorf("a card without arguments: %+v", c)
	}
}

// A caller that doesn't read holds up the output, and nothing else.
func TestReport_BackPressure(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithCancel(context.Background())
	free, first := make(chan struct{}), make(chan struct{})
	var once sync.Once
	result := make(chan pipeline.Result)
	go func() {
		result <- w.call(ctx, object{"command": "seq 1 1000000; touch done; sleep 300", "env": object{"MARK": mark(t)}}, func(pipeline.Progress) {
			once.Do(func() { close(first) })
			<-free
		})
	}()
	<-first
	time.Sleep(100 * time.Millisecond)
	if _, err := os.Stat(w.work + "/done"); err == nil {
		t.Error("the command was not held up")
	}
	cancel()
	within(t, 5*time.Second, "the tree's end, whether the caller reads or not", func() bool { return len(marked(mark(t))) == 0 })
	close(free)
	if r := <-result; r.OK() || r.Failure().Code != pipeline.CodeAborted {
		t.Errorf("%v", r.Failure())
	}
}

func TestReport_IsTheWholeOutput(t *testing.T) {
	w := newWorld(t)
	var mu sync.Mutex
	got := map[string]*bytes.Buffer{"stdout": {}, "stderr": {}}
	r := w.call(context.Background(), object{"command": "seq 1 300000; seq 1 100 >&2"}, func(p pipeline.Progress) {
		if !mu.TryLock() {
			t.Error("two reports at once")
		}
		got[p.Stream].Write(p.Data)
		mu.Unlock()
	})
	v := w.value(r)
	if int64(got["stdout"].Len()) != v.StdoutBytes || int64(got["stderr"].Len()) != v.StderrBytes || !strings.HasSuffix(got["stdout"].String(), "\n300000\n") {
		t.Errorf("%d of %d bytes, %d of %d", got["stdout"].Len(), v.StdoutBytes, got["stderr"].Len(), v.StderrBytes)
	}
}

// F5-13, F6-19: characters stay whole.
func TestOutput_WholeCharacters(t *testing.T) {
	w := newWorld(t)
	var pieces []string
	r := w.call(context.Background(), object{"command": `printf '\xe0'; sleep 0.1; printf '\xb8'; sleep 0.1; printf '\x81'; sleep 0.1; echo`}, func(p pipeline.Progress) {
		pieces = append(pieces, string(p.Data))
	})
	if v := w.value(r); v.Stdout != "\u0e01\n" || v.Encoding != "utf-8" || !slices.Equal(pieces, []string{"\u0e01", "\n"}) {
		t.Errorf("%q, events %q", v.Stdout, pieces)
	}
	for k := range 4 {
		r := w.call(context.Background(), object{"command": fmt.Sprintf("printf %s; yes 😀 | head -n 40000 | tr -d '\\n'", "abc"[:k]+"''")}, func(p pipeline.Progress) {
			if !utf8.Valid(p.Data) {
				t.Error("an event cuts a character")
			}
		})
		v := w.value(r)
		if !utf8.ValidString(v.Stdout) || strings.Contains(v.Stdout, "\ufffd") || v.Encoding != "utf-8" || !v.Truncated || strings.Contains(content(r), "\ufffd") {
			t.Errorf("%d letters: encoding %s, %d bytes", k, v.Encoding, len(v.Stdout))
		}
		m := regexp.MustCompile(`(?s)^(.*)\n\[… (\d+) bytes left out …\]\n(.*)$`).FindStringSubmatch(v.Stdout)
		if m == nil {
			t.Fatalf("no marker in %.100q", v.Stdout)
		}
		if n, _ := strconv.Atoi(m[2]); len(m[1])+n+len(m[3]) != 160000+k || v.StdoutBytes != int64(160000+k) {
			t.Errorf("%d + %d + %d bytes of %d", len(m[1]), n, len(m[3]), v.StdoutBytes)
		}
		whole, err := os.ReadFile(*v.Spill.Stdout)
		if err != nil || len(whole) != 160000+k || !v.Spill.Complete || v.Spill.Bytes != int64(160000+k) || v.Spill.Stderr != nil {
			t.Errorf("the spill: %d bytes, %v, %+v", len(whole), err, v.Spill)
		}
	}
	v := w.bash(`printf 'a\xff'; echo err >&2`)
	if out, _ := base64.StdEncoding.DecodeString(v.Stdout); v.Encoding != "base64" || string(out) != "a\xff" {
		t.Errorf("%s %q", v.Encoding, v.Stdout)
	}
	if errs, _ := base64.StdEncoding.DecodeString(v.Stderr); string(errs) != "err\n" {
		t.Errorf("%q", v.Stderr)
	}
}

func TestOutput_SpillCanBeReadInTheDomain(t *testing.T) {
	w := newWorld(t)
	r := w.call(context.Background(), object{"command": "seq 1 20000; seq 1 20000 >&2; exit 3"}, nil)
	v := w.value(r)
	for _, path := range []*string{v.Spill.Stdout, v.Spill.Stderr} {
		var b []byte
		err := w.scope.Do(func() (err error) { b, err = os.ReadFile(*path); return err })
		if err != nil || int64(len(b)) != v.StdoutBytes {
			t.Errorf("%s: %d bytes, %v", *path, len(b), err)
		}
		if v := w.scope.Policy().Verdict(sandboxpolicy.OpRead, *path); !v.Allow {
			t.Errorf("%s: the policy refuses it: %+v", *path, v)
		}
		if strings.HasPrefix(*path, w.work) || !strings.Contains(content(r), *path) {
			t.Errorf("%s: content %q", *path, content(r)[len(content(r))-300:])
		}
		if err := w.scope.Do(func() error { return os.WriteFile(*path, nil, 0o600) }); err == nil {
			t.Error("a command could write it")
		}
		if fi, _ := os.Stat(filepath.Dir(*path)); fi.Mode().Perm() != 0o700 {
			t.Errorf("mode %v", fi.Mode())
		}
	}
	if v.Spill.Bytes != v.StdoutBytes+v.StderrBytes || !v.Spill.Complete {
		t.Errorf("%d bytes of %d and %d: %+v", v.Spill.Bytes, v.StdoutBytes, v.StderrBytes, v.Spill)
	}
	if n := len(content(r)); n > 48<<10 || !strings.HasSuffix(strings.TrimSpace(strings.Split(content(r), "[output cut")[0]), "[exit code 3]") {
		t.Errorf("content of %d bytes", n)
	}
}

func TestPty(t *testing.T) {
	w := newWorld(t)
	for _, tt := range []struct {
		args object
		want string
	}{
		{object{"command": "stty size; test -t 0 && test -t 1 && test -t 2 && echo tty >&2; cat"}, "40 120\r\ntty\r\n"},
		{object{"command": "stty size", "rows": 50, "cols": 132}, "50 132\r\n"},
		{object{"command": "stty -echo; read a; read b; echo $b$a; cat", "stdin": "x\ny\n"}, "yx\r\n"},
	} {
		tt.args["pty"], tt.args["timeout_ms"] = true, 10000
		v := w.ok(tt.args)
		if !strings.HasSuffix(v.Stdout, tt.want) || v.TimedOut || v.Stderr != "" || v.LeftBehind != nil {
			t.Errorf("%v: %q, want %q; %+v", tt.args, v.Stdout, tt.want, v.LeftBehind)
		}
	}
	// F3-10: the end is never lost.
	for i := range 25 {
		v := w.ok(object{"command": "seq 1 100000", "pty": true})
		if !strings.HasSuffix(v.Stdout, "\r\n100000\r\n") || *v.ExitCode != 0 || v.Stderr != "" {
			t.Fatalf("run %d: %q", i, v.Stdout[max(0, len(v.Stdout)-40):])
		}
		if v := w.ok(object{"command": "printf x", "pty": true}); v.Stdout != "x" {
			t.Fatalf("run %d: %q", i, v.Stdout)
		}
	}
	v := w.ok(object{"command": "(trap '' HUP; sleep 0.2; echo late; sleep 0.1) & echo early", "pty": true})
	if v.LeftBehind == nil || v.Stdout != "early\r\n" {
		t.Fatalf("%+v", v.Ended)
	}
	list, err := w.owner.Wait(context.Background(), nil, false)
	if err != nil || len(list) == 1 && w.output(list[0].ID) != "late\r\n" {
		t.Errorf("%v %+v %q", err, list, w.output(*v.LeftBehind.JobID))
	}
	if v := w.ok(object{"command": "trap '' HUP; sleep 300", "pty": true, "timeout_ms": 300}); !v.TimedOut {
		t.Errorf("%+v", v.Ended)
	}
}

func TestBackground(t *testing.T) {
	w := newWorld(t)
	r := w.call(context.Background(), object{"command": "for i in $(seq 20); do echo $i; sleep 0.01; done; printf end; exit 3", "run_in_background": true, "description": "count"}, nil)
	if r.Value().String() != `{"kind":"background","jobId":"bash-1","command":"for i in $(seq 20); do echo $i; sleep 0.01; done; printf end; exit 3","cwd":"`+w.work+`","timeoutMs":null}` {
		t.Errorf("%s", r.Value())
	}
	if !strings.Contains(content(r), "bash-1") {
		t.Error(content(r))
	}
	list, err := w.owner.Wait(context.Background(), nil, false)
	if err != nil || list[0].Status != jobs.Exited || *list[0].ExitCode != 3 || list[0].Label != "count" {
		t.Errorf("%+v %v", list, err)
	}
	if out := w.output("bash-1"); !strings.HasSuffix(out, "20\nend") {
		t.Errorf("%q", out)
	}
	// Its exit code is the shell's, whatever else takes longer.
	w.ok(object{"command": "(sleep 0.2; echo later) & echo now; exit 4", "run_in_background": true})
	list, _ = w.owner.Wait(context.Background(), nil, false)
	if *list[0].ExitCode != 4 || w.output("bash-2") != "now\nlater\n" {
		t.Errorf("%+v %q", list, w.output("bash-2"))
	}
	// Input, on a pipe and on a terminal.
	for i, pty := range []bool{false, true} {
		id := fmt.Sprintf("bash-%d", 3+i)
		w.ok(object{"command": "stty -echo 2>/dev/null; echo ready; cat; echo ended", "run_in_background": true, "interactive": true, "stdin": "first\n", "pty": pty})
		within(t, 5*time.Second, "ready", func() bool { return strings.Contains(w.output(id), "first") })
		if _, n, err := w.owner.Input(context.Background(), id, []byte("second\n"), false); n != 7 || err != nil {
			t.Error(n, err)
		}
		within(t, 5*time.Second, "second", func() bool { return strings.Contains(w.output(id), "second") })
		if _, n, err := w.owner.Input(context.Background(), id, []byte("third\n"), true); n != 6 || err != nil {
			t.Error(n, err)
		}
		if _, err := w.owner.Wait(context.Background(), []string{id}, false); err != nil {
			t.Fatal(err)
		}
		if out := strings.ReplaceAll(w.output(id), "\r", ""); !strings.HasSuffix(out, "second\nthird\nended\n") {
			t.Errorf("%q", out)
		}
	}
	w.ok(object{"command": "sleep 0.2", "run_in_background": true})
	if _, _, err := w.owner.Input(context.Background(), "bash-5", []byte("x"), false); err == nil || !strings.Contains(err.Error(), "takes no input") {
		t.Errorf("input where there is none: %v", err)
	}
	// A start that fails leaves nothing.
	w.fails(object{"command": "true", "run_in_background": true, "workdir": "none"}, "FS_NOT_FOUND")
}

// An input that nobody reads holds nobody up.
func TestBackground_InputThatIsNotRead(t *testing.T) {
	w := newWorld(t)
	w.ok(object{"command": "sleep 300", "run_in_background": true, "interactive": true})
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	_, n, err := w.owner.Input(ctx, "bash-1", make([]byte, 1<<20), false)
	if n < 4096 || n >= 1<<20 || err == nil {
		t.Errorf("%d bytes, %v", n, err)
	}
}

// F5-19.
func TestBackground_OutlivesItsCall(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithCancel(context.Background())
	r := w.call(ctx, object{"command": "sleep 0.5; echo done", "run_in_background": true, "timeout_ms": 100}, nil)
	w.value(r)
	cancel()
	list, err := w.owner.Wait(context.Background(), nil, false)
	if err != nil || list[0].Status != jobs.Exited || w.output("bash-1") != "done\n" {
		t.Errorf("%+v %v", list, err)
	}
	// Cancelled before its turn.
	for _, background := range []bool{true, false} {
		r = w.call(ctx, object{"command": "touch ran", "run_in_background": background}, nil)
		if r.OK() || r.Failure().Code != pipeline.CodeCancelled {
			t.Errorf("%v", r.Failure())
		}
	}
	if _, err := os.Stat(w.work + "/ran"); err == nil || len(w.owner.List()) != 1 {
		t.Error("a cancelled call started something")
	}
}

func TestDenials(t *testing.T) {
	w := newWorld(t)
	outside := filepath.Dir(filepath.Dir(w.work)) + "/outside"
	r := w.call(context.Background(), object{"command": "touch " + outside}, nil)
	v := w.value(r)
	if len(v.Sandbox.Denials) != 1 || v.Sandbox.Denials[0].Target != outside || v.Sandbox.Denials[0].Evidence != "errno+path" || v.Sandbox.Denials[0].Remedy == "" {
		t.Errorf("%+v", v.Sandbox.Denials)
	}
	if !strings.Contains(content(r), "[denied write "+outside) {
		t.Error(content(r))
	}
	// The streams, then how it ended, then denials, each with its remedy.
	r = w.call(context.Background(), object{"command": "echo out; touch " + outside}, nil)
	if c := content(r); !strings.HasPrefix(c, "out\ntouch: ") || !strings.Contains(c, "\n[exit code 1]\n[denied write "+outside+" (") || !strings.HasSuffix(c, "): "+w.value(r).Sandbox.Denials[0].Remedy+"]") {
		t.Error(c)
	}
	if v := w.bash("chmod 700 /etc; printf 'cat: /etc/shadow\\377: Permission denied' >&2; exit 1"); len(v.Sandbox.Denials) == 0 || v.Sandbox.Denials[0].Evidence != "supervisor" {
		t.Errorf("%+v", v.Sandbox.Denials)
	}
	if r := w.call(context.Background(), object{"command": "touch ok; git init -q r"}, nil); !strings.Contains(content(r), "git directory") || !strings.Contains(r.Value().String(), "git-dir-created") {
		t.Errorf("%s", content(r))
	}
}

func TestCards(t *testing.T) {
	w := newWorld(t)
	args, _ := pipeline.ParseJSON([]byte(`{"command":"echo out; echo err >&2; exit 3\nmore","workdir":"/"}`))
	if c := w.tool.PresentCall(args); c != (pipeline.TerminalCard{Title: "echo out; echo err >&2; exit 3 …", Cwd: "/"}) {
		t.Errorf("%+v", c)
	}
	r := w.raw(context.Background(), args.String(), nil)
	c, ok := pipeline.Present(w.tool, "bash", args, r.Shown()).(pipeline.TerminalCard)
	if !ok || c.Output != "out\nerr\n" || c.Cwd != "/" || *c.ExitCode != 3 || c.Signal != nil {
		t.Errorf("%+v", c)
	}
	for _, bad := range []string{`{"command":7}`, `{}`, `{"command":"x","old":1}`} {
		j, _ := pipeline.ParseJSON([]byte(bad))
		if w.tool.PresentCall(j) == nil || pipeline.Present(w.tool, "bash", j, r.Shown()) == nil {
			t.Error("no card")
		}
	}
}

func TestRegister_CanBeUndone(t *testing.T) {
	w := newWorld(t)
	s := pipeline.New(pipeline.Options{})
	undo, err := Register(s, Options{Jobs: w.jobs, Domains: noDomain{}})
	if err != nil {
		t.Fatal(err)
	}
	if r := s.Call(context.Background(), pipeline.Request{Name: "bash", Args: []byte(`{"command":"true"}`)}); r.OK() || r.Failure().Code != "SANDBOX_UNAVAILABLE" {
		t.Errorf("%v", r.Failure())
	}
	undo()
	if s.Lookup("bash") != nil {
		t.Error("it is there still")
	}
	if _, err := Register(s, Options{}); err == nil {
		t.Error("registered without its parts")
	}
}
