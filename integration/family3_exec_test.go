package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// What people expect of env, nice, timeout and their like, beyond the field
// cases: dshx between a caller and a command changes nothing that it doesn't
// say it changes.

// The caller's settings of the process are the command's.
func TestExec_ProcessAttributesAreKept(t *testing.T) {
	script := `umask; nice; ulimit -S -n; ulimit -H -n; ulimit -S -f; ulimit -S -c; ulimit -S -s; cat /proc/self/coredump_filter; ` +
		`grep -E '^(Cpus_allowed|Mems_allowed|THP_enabled):' /proc/self/status; cat /proc/self/timerslack_ns /proc/self/personality 2>/dev/null; id; exit 0`
	forEachUser(t, func(t *testing.T, e *Env) {
		for _, options := range [][]string{
			nil,
			{"-umask", "027"},
			{"-nice", "5"},
			{"-nofile", "256"},
			{"-fsize", "1048576"},
			{"-umask", "077", "-nice", "7", "-nofile", "100"},
		} {
			prefix := f3Launch(options...)
			c := e.OutsideOpts(Opts{Prefix: prefix}, "sh", "-c", script)
			for _, preset := range []string{"workspace-write", "danger-full-access"} {
				for _, flags := range [][]string{nil, {"--json"}} {
					r := e.Run(Opts{Prefix: prefix, Preset: preset, JSON: flags != nil}, "sh", "-c", script)
					out := r.Stdout
					if r.JSON != nil {
						out = r.JSON.Stdout
					}
					if out != c.Stdout {
						t.Errorf("%v %s %v:\n got %q\nwant %q", options, preset, flags, out, c.Stdout)
					}
				}
			}
		}
		// The kernel is to take the command before dshx and its guard.
		adj := func(r *Result) int {
			t.Helper()
			n, err := strconv.Atoi(strings.TrimSpace(r.OK(t).Stdout))
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		out := adj(e.Outside("cat", "/proc/self/oom_score_adj"))
		want := min(out+100, 1000)
		// dshx sets it while the command runs already.
		in := adj(e.Sh(Opts{}, `i=0; while [ "$(cat /proc/self/oom_score_adj)" != "$1" ] && [ $i -lt 1000 ]; do i=$((i+1)); sleep 0.01; done; cat /proc/self/oom_score_adj`, itoa(want)))
		if in != want {
			t.Errorf("oom_score_adj: %d inside, %d outside", in, out)
		}
		e.Run(Opts{Prefix: f3Launch("-umask", "027")}, "touch", "made").OK(t)
		if st, err := os.Stat(filepath.Join(e.W, "made")); err != nil || st.Mode().Perm() != 0o640 {
			t.Errorf("umask: %v %v", st, err)
		}
	})
}

// Descriptors that the caller forgot to close, a thousand of them, are neither
// passed on nor in the way.
func TestExec_ManyOpenDescriptors(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		for _, flags := range [][]string{nil, {"--tty", "always"}} {
			r := e.Run(Opts{Prefix: f3Launch("-nofile", "4096", "-open", "1000"), Flags: flags}, probeBin, "f3-fds")
			if r.Exit != 0 || strings.Count(r.Stdout, "\n") != 3 || !strings.HasPrefix(r.Stdout, "0 ") {
				t.Errorf("%v: %s", flags, r)
			}
		}
		if c := e.OutsideOpts(Opts{Prefix: f3Launch("-nofile", "4096", "-open", "1000")}, probeBin, "f3-fds"); strings.Count(c.Stdout, "\n") < 1000 {
			t.Errorf("control: %d descriptors", strings.Count(c.Stdout, "\n"))
		}
		// Above the soft limit too: one that was opened before the limit was lowered.
		f, err := os.Open("/dev/null")
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		r := e.Run(Opts{Prefix: f3Launch("-nofile", "50"), Files: map[int]*os.File{200: f}}, probeBin, "f3-fds")
		if r.Exit != 0 || strings.Contains(r.Stdout, "\n200 ") {
			t.Errorf("above the limit: %s", r)
		}
	})
}

// With hardly a descriptor to be had dshx either works in full or says so;
// it never runs the command without its confinement.
func TestExec_DescriptorsExhausted(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		ran, refused := 0, 0
		for _, limit := range []int{3, 4, 5, 6, 8, 10, 12, 14, 16, 18, 20, 24, 28, 32, 40, 64} {
			out := filepath.Join(e.O, "pwn")
			argv := []string{probeBin, "f3-launch", "-nofile", "256", "--", "sh", "-c", `ulimit -n ` + strconv.Itoa(limit) + `; exec "$@"`, "sh"}
			r := e.OutsideOpts(Opts{Prefix: argv}, e.DshxArgv(Opts{StatusFD: -1}, "sh", "-c", `echo ran; echo x >"$0"; exit 9`, out)...)
			if Exists(out) {
				t.Fatalf("limit %d: written outside: %s", limit, r)
			}
			switch {
			case r.Stdout == "ran\n" && (r.Exit == 9 || r.Exit == 2):
				ran++ // 2 is the shell's, when it has no descriptor left for its redirection
			case r.Stdout != "":
				t.Errorf("limit %d: %s", limit, r)
			case strings.HasPrefix(r.Stderr, "runtime: ") && r.Exit == 2:
				refused++ // the Go runtime itself has nothing to work with
			case r.Exit == 125:
				f3OneLine(t, r.Stderr)
				refused++
			default:
				t.Errorf("limit %d: %s", limit, r)
			}
		}
		if ran == 0 {
			t.Errorf("it never ran (%d refusals)", refused)
		}
	})
}

// The environment is passed on as it is, whatever it looks like.
func TestExec_OddEnvironment(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		// Long ones.
		long := strings.Repeat("v", 100<<10)
		r := e.Run(Opts{Flags: []string{"--env", "LONG=" + long}}, "sh", "-c", `printf %s "$LONG" | wc -c`)
		if strings.TrimSpace(r.Stdout) != strconv.Itoa(len(long)) {
			t.Errorf("long value: %s", r)
		}
		var many []string
		for i := range 2000 {
			many = append(many, fmt.Sprintf("MANY_%d=%d", i, i))
		}
		r = e.Run(Opts{Env: many, Flags: []string{"--keep-env"}}, "sh", "-c", "env | grep -c ^MANY_")
		if strings.TrimSpace(r.Stdout) != "2000" {
			t.Errorf("many: %s", r)
		}
		// Bytes of every kind.
		r = e.Run(Opts{Env: []string{"ODD=a\xff\nb=c\t"}, Flags: []string{"--env", "ODD", "--env", "SET=\xfe\n"}}, "sh", "-c", `printf '<%s><%s>' "$ODD" "$SET"`)
		if r.Stdout != "<a\xff\nb=c\t><\xfe\n>" {
			t.Errorf("bytes: %s", r)
		}
		// Names twice, without "=", without a name: nothing breaks, and what is named counts once.
		prefix := f3Launch("-env", "TWICE=1", "-env", "TWICE=2", "-env", "=C:=nothing", "-env", "bare", "-env", "")
		for _, flags := range [][]string{nil, {"--keep-env"}, {"--env", "TWICE"}} {
			r := e.Run(Opts{Prefix: prefix, Flags: flags}, "env")
			if n := strings.Count(r.Stdout, "TWICE="); r.Exit != 0 || n > 1 || (flags != nil && n != 1) {
				t.Errorf("%v: %s", flags, r)
			}
		}
		// An empty environment is enough to start a command by its path.
		argv := append([]string{"env", "-i"}, dshxBin, "exec", "--no-config", "--", "/bin/sh", "-c", "echo ran")
		if r := e.OutsideOpts(Opts{}, argv...); r.Exit != 0 || r.Stdout != "ran\n" {
			t.Errorf("empty environment: %s", r)
		}
		// A private TMPDIR also where the caller's makes no sense.
		for _, tmp := range []string{"/no/such", "", "relative", e.O} {
			r := e.Run(Opts{Env: []string{"TMPDIR=" + tmp}}, "sh", "-c", `test -d "$TMPDIR" && touch "$TMPDIR/x" && stat -c %a "$TMPDIR"`)
			if r.Exit != 0 || r.Stdout != "700\n" {
				t.Errorf("TMPDIR=%s: %s", tmp, r)
			}
		}
		if Exists(filepath.Join(e.O, "x")) {
			t.Error("the caller's TMPDIR was used")
		}
	})
}

// dshx in front of itself: the inner one is at most as free, and whatever it
// says it can't do, nothing runs unconfined.
func TestExec_Nested(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		out := filepath.Join(e.O, "pwn")
		for _, inner := range []string{"workspace-write", "read-only", "danger-full-access"} {
			r := e.Run(Opts{}, dshxBin, "exec", "--preset", inner, "--", "sh", "-c", `echo ran; echo x >"$0"; exit 7`, out)
			if Exists(out) {
				t.Fatalf("%s: written outside: %s", inner, r)
			}
			switch r.Exit {
			case 7, 2:
			case 125:
				f3OneLine(t, r.Stderr)
				if strings.Contains(r.Stdout, "ran") {
					t.Errorf("%s: 125, but it ran: %s", inner, r)
				}
			default:
				t.Errorf("%s: %s", inner, r)
			}
		}
		e.NothingLeft(time.Second)
	})
}

// The clock of the run is right, and starting in a row leaves nothing.
func TestExec_InARow(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		for i := range 50 {
			r := e.Run(Opts{}, "sh", "-c", "exit "+itoa(i))
			if r.Exit != i {
				t.Fatalf("%s", r)
			}
		}
		r := e.Run(Opts{}, "sleep", "0.3").OK(t)
		if s := r.Event("exited"); s == nil || s.DurationMs < 300 || s.DurationMs > 10000 {
			t.Errorf("duration: %s", mustJSON(r.Status))
		}
		// Many at once.
		var runs []func()
		for i := range 16 {
			runs = append(runs, func() {
				if r := e.Run(Opts{}, "sh", "-c", "echo $$; exit "+itoa(i)); r.Exit != i {
					t.Errorf("%s", r)
				}
			})
		}
		f3Together(runs...)
		e.f3Ended()
	})
}

// --quiet and --json say nothing on standard error of a command that ran.
func TestExec_NothingOfItsOwnOnStreams(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		for _, preset := range []string{"workspace-write", "read-only", "danger-full-access"} {
			for _, flags := range [][]string{nil, {"--quiet"}, {"--timeout", "100"}} {
				r := e.Run(Opts{Preset: preset, Flags: flags, StatusFD: -1}, "sh", "-c", "echo out; echo err >&2; exit 1")
				if r.Stdout != "out\n" || r.Stderr != "err\n" {
					t.Errorf("%s %v: %s", preset, flags, r)
				}
			}
		}
		// Gaps of this host are for those who ask, not for every run.
		r := e.Run(Opts{StatusFD: -1}, "true")
		if r.Stdout+r.Stderr != "" {
			t.Errorf("%s", r)
		}
	})
}

// dshx behind the runners that it will be put behind.
func TestExec_UnderOtherRunners(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		dshx := func(argv ...string) []string { return e.DshxArgv(Opts{StatusFD: -1}, argv...) }
		behind := func(runner ...string) []string {
			e.Tool(runner[0])
			return append(runner, dshx("sh", "-c", "echo out; exit 5")...)
		}
		shell := func(script string, argv ...string) []string {
			return append([]string{"sh", "-c", script, "sh"}, dshx(argv...)...)
		}
		for _, tc := range []struct {
			argv []string
			exit int
			out  string
		}{
			{behind("env"), 5, "out\n"},
			{behind("nice", "-n", "3"), 5, "out\n"},
			{behind("timeout", "60"), 5, "out\n"},
			{behind("setsid", "--wait"), 5, "out\n"},
			{behind("nohup"), 5, "out\n"},
			{behind("env", "-i", "PATH="+os.Getenv("PATH"), "HOME="+e.H), 5, "out\n"},
			{shell(`seq 4 | xargs -n1 -P4 "$@" | sort | tr -d '\n'`, "echo"), 0, "1234"},
			{shell(`out=$("$@"); echo "$? $out"`, "sh", "-c", "echo sub; exit 9"), 0, "9 sub\n"},
			{shell(`"$@" & wait $!; echo $?`, "sh", "-c", "exit 9"), 0, "9\n"},
			{shell("\"$@\" <<END\nhere\nEND\n", "cat"), 0, "here\n"},
			{shell(`seq 3 | "$@" | wc -l | tr -d ' '`, "sort", "-rn"), 0, "3\n"},
		} {
			if r := e.Outside(tc.argv...); r.Exit != tc.exit || r.Stdout != tc.out {
				t.Errorf("want %d %q: %s", tc.exit, tc.out, r)
			}
		}
		// timeout(1) ends the run by TERM, and by KILL, with nothing left.
		for _, signal := range []string{"TERM", "KILL"} {
			r := e.Outside(append([]string{"timeout", "-s", signal, "0.5"}, dshx("sh", "-c", "setsid sleep 300 & sleep 300 | cat")...)...)
			if r.Exit != 124 && r.Exit != 137 && r.Signal != syscall.SIGKILL {
				t.Errorf("timeout -s %s: %s", signal, r)
			}
			e.NothingLeft(2 * time.Second)
		}
		if e.HasTool("script") != "" {
			argv := dshx("sh", "-c", "test -t 0 && test -t 1 && echo terminal; exit 5")
			for i := range argv {
				argv[i] = "'" + argv[i] + "'"
			}
			r := e.Outside("script", "-qec", strings.Join(argv, " "), "/dev/null")
			if r.Exit != 5 || !strings.Contains(r.Stdout, "terminal") {
				t.Errorf("script: %s", r)
			}
		}
	})
}
