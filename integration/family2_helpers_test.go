package integration

import (
	"embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Family 2: daily work, which must pass. A case does a person's work inside and
// looks at the outcome from outside; where something must be refused beside it,
// the work is the control.
//
// DSHX_IT_PLAIN=1 does the work without dshx: what fails then is the test's or
// the machine's fault. What only a sandbox can do is left out in that mode.

//go:embed testdata/family2
var programs2 embed.FS

// nobodyUID is the overflow user, which every system has a passwd entry for;
// programs that look themselves up can't work as the ordinary user of the
// harness, who has none.
const nobodyUID = 65534

// day is the world of one family 2 case for one user.
type day struct {
	*Env
	plain bool
	tmp   string // TMPDIR of a plain run
}

// daily runs body for the ordinary user and for root.
func daily(t *testing.T, body func(t *testing.T, d *day)) {
	t.Helper()
	forEachUser(t, func(t *testing.T, e *Env) { body(t, newDay(t, e)) })
}

// named runs body as a user who has a passwd entry: whoever runs the tests, or
// nobody when that is root.
func named(t *testing.T, body func(t *testing.T, d *day)) {
	t.Helper()
	t.Run("named", func(t *testing.T) {
		uid, gid := os.Getuid(), os.Getgid()
		if isRoot {
			uid, gid = nobodyUID, nobodyUID
		} else if err := exec.Command("id", "-un").Run(); err != nil {
			// A container's uid, say: ssh-keygen and initdb refuse to work for it anywhere.
			skip(t, "uid %d has no name on this machine", uid)
		}
		body(t, newDay(t, newEnv(t, uid, gid)))
	})
}

func newDay(t *testing.T, e *Env) *day {
	t.Helper()
	d := &day{Env: e, plain: os.Getenv("DSHX_IT_PLAIN") == "1"}
	if d.plain {
		d.tmp = e.Mkdir(filepath.Join(e.Root, "T"))
	} else {
		needDshx(t)
	}
	e.Write(filepath.Join(e.H, ".gitconfig"),
		"[user]\n\tname = A Person\n\temail = person@example.com\n[init]\n\tdefaultBranch = main\n[advice]\n\tdetachedHead = false\n")
	return d
}

// at is d with its skips and failures going to a subtest.
func (d *day) at(t *testing.T) *day {
	e := *d.Env
	e.t = t
	return &day{Env: &e, plain: d.plain, tmp: d.tmp}
}

// run runs a command inside, or outside with DSHX_IT_PLAIN=1.
func (d *day) run(o Opts, argv ...string) *Result {
	d.t.Helper()
	if !d.plain {
		return d.Env.Run(o, argv...)
	}
	o.Env = append(append([]string{}, o.Env...), "TMPDIR="+d.tmp)
	r := d.OutsideOpts(o, argv...)
	if o.JSON {
		r.JSON = &Value{}
	}
	return r
}

// script is a bash script that stops at the first failure and knows the
// places of the case.
func (d *day) script(text string) []string {
	return []string{"bash", "-c", fmt.Sprintf("set -euo pipefail; W='%s' O='%s' H='%s'\n%s", d.W, d.O, d.H, text), "bash"}
}

// bash runs a script inside.
func (d *day) bash(o Opts, text string, args ...string) *Result {
	d.t.Helper()
	return d.run(o, append(d.script(text), args...)...)
}

// works runs a script inside that must succeed, and returns what it printed.
func (d *day) works(text string, args ...string) string {
	d.t.Helper()
	return d.bash(Opts{}, text, args...).OK(d.t).Stdout
}

// outside runs a script outside that must succeed, as the case's user.
func (d *day) outside(text string, args ...string) string {
	d.t.Helper()
	r := d.OutsideOpts(Opts{Timeout: 2 * time.Minute}, append(d.script(text), args...)...)
	if r.Exit != 0 {
		d.t.Fatalf("outside of the sandbox: %s", r)
	}
	return r.Stdout
}

// step is a piece of work of its own within a case, so that one failure does
// not hide the others.
type step struct {
	name   string
	script string
	want   string // what it prints, exactly; "" is not compared
}

// steps runs each step inside, in order, as a subtest.
func (d *day) steps(t *testing.T, o Opts, list []step) {
	t.Helper()
	for _, s := range list {
		t.Run(s.name, func(t *testing.T) {
			r := d.bash(o, s.script)
			if r.Exit != 0 || r.Signal != 0 {
				t.Errorf("want exit 0: %s", r)
			} else if s.want != "" && r.Stdout != s.want {
				t.Errorf("printed %q, want %q\n%s", r.Stdout, s.want, r)
			}
		})
	}
}

// refusedOrGap fails the test unless what must be refused was refused, or the
// run named the promise as a gap: never a silent hole. Where the promise is a
// gap of every run, its reason has to say each of names.
func (d *day) refusedOrGap(t *testing.T, r *Result, refused bool, promise, what string, names ...string) {
	t.Helper()
	if refused || d.plain {
		return
	}
	gap := r.Enforcement().Gap(promise)
	if gap == nil {
		t.Errorf("%s: neither refused nor named as gap %q: %s", what, promise, r)
		return
	}
	for _, name := range names {
		if !strings.Contains(gap.Reason, name) {
			t.Errorf("%s: not refused, and the gap %q doesn't say %s: %s", what, promise, name, gap.Reason)
		}
	}
	t.Logf("%s: not refused; named gap %q", what, promise)
}

// program lays a program of testdata/family2 down outside of W, readable
// inside, and returns its path.
func (d *day) program(name string) string {
	d.t.Helper()
	data, err := programs2.ReadFile("testdata/family2/" + name)
	if err != nil {
		d.t.Fatal(err)
	}
	return d.Write(filepath.Join(d.O, "programs", name), string(data))
}

// compile builds a C program of testdata/family2 outside and returns its path.
func (d *day) compile(name string, flags ...string) string {
	d.t.Helper()
	cc := d.Tool("gcc")
	src, out := d.program(name+".c"), filepath.Join(d.O, "programs", name)
	r := d.Outside(append([]string{cc, "-O1", "-o", out, src, "-pthread"}, flags...)...)
	if r.Exit != 0 {
		d.t.Fatalf("outside of the sandbox: %s", r)
	}
	return out
}

// working returns the first program of that name in PATH that the user can
// really run with an empty home: a version manager's shim finds no version
// there. It skips the test when there is none.
func (d *day) working(name string, args ...string) string {
	d.t.Helper()
	// A home of its own, since the first start of some tools leaves traces.
	home := d.Mkdir(filepath.Join(d.Root, "probe-home"))
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		path := filepath.Join(dir, name)
		if st, err := os.Stat(path); err != nil || st.IsDir() {
			continue
		}
		// Through a shell, since a directory of PATH may be closed to the user.
		r := d.OutsideOpts(Opts{Dir: "/", Env: []string{"PATH=" + first(dir), "HOME=" + home}},
			append([]string{"sh", "-c", `exec "$@"`, "sh", path}, args...)...)
		if r.Exit == 0 {
			return path
		}
	}
	skipTool(d.t, name)
	return ""
}

// first is PATH with a directory put in front.
func first(dir string) string { return dir + ":" + os.Getenv("PATH") }

// with is the environment in which a tool and its companions are found first.
func with(tool string) Opts {
	return Opts{Env: []string{"PATH=" + first(filepath.Dir(tool))}}
}

// python is a Python interpreter that works in an empty home.
func (d *day) python() string {
	d.t.Helper()
	return d.real(d.working("python3", "-c", "import sys, multiprocessing, sqlite3"))
}

// real is the interpreter behind a version manager's shim.
func (d *day) real(python string) string {
	d.t.Helper()
	r := d.Outside(python, "-c", "import sys; print(sys.executable)").OK(d.t)
	return strings.TrimSpace(r.Stdout)
}

// stress is n, or a tenth of it with -short.
func stress(n int) int {
	if testing.Short() {
		return max(n/10, 1)
	}
	return n
}

// lines splits output into lines, without an empty last one.
func lines(s string) []string {
	s = strings.TrimSuffix(s, "\n")
	if s == "" {
		return nil
	}
	return strings.Split(s, "\n")
}
