package doctor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dshx/dshx/sandbox"
	"github.com/dshx/dshx/sandboxpolicy"
)

// TestMain makes the test binary the child that doctor starts.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == CheckCommand {
		if Check(os.Stdin, os.Stdout, os.Args[2:]) != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestJudge_TellsNothingWithoutAControl(t *testing.T) {
	var (
		done    = outcome{}
		refused = outcome{Refused: true, Err: "permission denied"}
		failed  = outcome{Err: "no such file or directory"}
		gap     = &sandbox.Gap{Promise: "secrets"}
	)
	for _, tc := range []struct {
		name                  string
		verdict               string
		gap                   *sandbox.Gap
		got, control, outside outcome
		want                  Status
	}{
		{"denied and refused", "deny", nil, refused, done, done, StatusHeld},
		{"denied and done", "deny", nil, done, done, done, StatusContradiction},
		{"denied, and fails otherwise", "deny", nil, failed, done, done, StatusContradiction},
		{"denied and done, as the gap says", "deny", gap, done, done, done, StatusGap},
		{"denied and refused, though there is a gap", "deny", gap, refused, done, done, StatusHeld},
		{"refused, but the control is, too", "deny", nil, refused, refused, done, StatusInconclusive},
		{"refused, but the control fails", "deny", nil, refused, failed, done, StatusInconclusive},
		{"refused without a sandbox, too", "deny", nil, refused, done, refused, StatusInconclusive},
		{"allowed and done", "allow", nil, done, done, done, StatusHeld},
		{"allowed, and fails otherwise", "allow", nil, failed, done, failed, StatusHeld},
		{"allowed and refused", "allow", nil, refused, done, done, StatusContradiction},
		{"allowed and refused, as outside", "allow", nil, refused, done, refused, StatusInconclusive},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e := sandbox.Explanation{Verdict: tc.verdict, Gap: tc.gap}
			if r := judge(&attempts()[0], e, tc.got, tc.control, tc.outside); r.Status != tc.want || (r.Note == nil) != (tc.want == StatusHeld) {
				t.Errorf("%+v, want %s", r, tc.want)
			}
		})
	}
}

func run(t *testing.T, req sandboxpolicy.Request) *Report {
	t.Helper()
	req.Environ, req.NoConfig = os.Environ(), true
	r, err := Run(req)
	if err != nil {
		t.Fatal(err)
	}
	if r.Unavailable != nil {
		if os.Getenv("DSHX_REQUIRE_KERNEL") != "" {
			t.Fatal(*r.Unavailable)
		}
		t.Skip(*r.Unavailable)
	}
	return r
}

// What flags open is tried, too, and found open.
func TestRun_FollowsThePolicyThatIsAskedFor(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir()) // where doctor makes what it tries
	r := run(t, sandboxpolicy.Request{Workspace: t.TempDir(), Write: []string{os.Getenv("TMPDIR")}, Network: "loopback"})
	if r.Failed() {
		t.Errorf("%+v", r.Checks)
	}
	got := map[string]Result{}
	for _, c := range r.Checks["workspace-write"] {
		got[c.Name] = c
	}
	for name, refused := range map[string]bool{
		"write a file elsewhere": false, "change a mode elsewhere": false, "reach the host's loopback": false,
		"connect to a socket of the host": true, "reach the internet": true, "signal a process elsewhere": true, "outlive the command": true,
	} {
		if c := got[name]; c.Refused != refused || c.Status != StatusHeld {
			t.Errorf("%s: %+v", name, c)
		}
	}
	if c := got["read a denied file"]; c.Status != StatusGap || *c.Note != "secrets" {
		t.Errorf("a deny inside of what may be written: %+v", c)
	}
}

// A socket's name has 108 bytes, and a TMPDIR may have more.
func TestRun_WithALongTMPDIR(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("d", 120))
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", dir)
	run(t, sandboxpolicy.Request{Workspace: t.TempDir()})
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v %v", left, err)
	}
}

func TestRun_LeavesNothing(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	run(t, sandboxpolicy.Request{Workspace: t.TempDir()})
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("%v %v", left, err)
	}
	// Of caches the asked-for workspace's own.
	if areas, err := os.ReadDir(filepath.Join(cache, "dshx")); err != nil || len(areas) != 1 {
		t.Errorf("cache areas: %v %v", areas, err)
	}
	self, _ := os.Executable()
	procs, _ := os.ReadDir("/proc")
	for _, p := range procs {
		if exe, _ := os.Readlink("/proc/" + p.Name() + "/exe"); exe != self {
			continue // another test's
		}
		if b, _ := os.ReadFile("/proc/" + p.Name() + "/cmdline"); strings.Contains(string(b), "\x00"+CheckCommand+"\x00linger") {
			t.Errorf("process %s is left: %q", p.Name(), b)
		}
	}
}

func TestRun_AHomeAsTheCurrentDirectoryIsNoMistake(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("HOME", dir)
	t.Chdir(dir)
	r := run(t, sandboxpolicy.Request{})
	if r.Failed() || len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "home") {
		t.Errorf("%q", r.Notes)
	}
	req := sandboxpolicy.Request{Workspace: dir, Environ: os.Environ(), NoConfig: true}
	if _, err := Run(req); err == nil {
		t.Error("a home that is named as the workspace was taken")
	}
}
