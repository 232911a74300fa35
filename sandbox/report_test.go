package sandbox

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dshx/dshx/sandbox/internal/seccomp"
	"github.com/dshx/dshx/sandboxpolicy"
	"golang.org/x/sys/unix"
)

// hostWith is a made-up host. A Host is a value, so that what would be
// reported elsewhere can be tried here.
func hostWith(abi int) Host {
	return Host{Kernel: "5.13.0", LandlockABI: abi, Seccomp: seccomp.Support{Filter: true, Listener: true, WaitKillable: true}}
}

func policy(t testing.TB, req sandboxpolicy.Request) *sandboxpolicy.Policy {
	t.Helper()
	if req.Workspace == "" {
		req.Workspace = t.TempDir()
	}
	if req.Cwd == "" {
		req.Cwd = req.Workspace
	}
	req.NoConfig = true
	if req.Environ == nil {
		req.Environ = os.Environ()
	}
	p, _, err := Resolve(req)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func gapNames(e Enforcement) string {
	var names []string
	for _, g := range e.Gaps {
		names = append(names, g.Promise)
	}
	return strings.Join(names, " ")
}

func TestGaps_AreComputedFromTheHost(t *testing.T) {
	const (
		everywhere = "own-loopback devices shm"
		judged     = "metadata unix-sockets unix-datagram "
	)
	nested := hostWith(7)
	nested.Nested = true
	old := hostWith(3)
	old.Seccomp.Listener = false
	noSupervisor := hostWith(7)
	noSupervisor.Seccomp.Listener = false
	for _, tc := range []struct {
		name string
		host Host
		req  sandboxpolicy.Request
		want string
		mech string
	}{
		{"ABI 7, read-only", hostWith(7), sandboxpolicy.Request{Preset: "read-only"}, everywhere, "landlock:7 seccomp notify"},
		{"ABI 7, workspace-write", hostWith(7), sandboxpolicy.Request{}, "protected-paths " + everywhere, "landlock:7 seccomp notify"},
		{"ABI 6", hostWith(6), sandboxpolicy.Request{Preset: "read-only"}, everywhere, "landlock:6 seccomp notify"},
		{"ABI 5: the supervisor judges signals", hostWith(5), sandboxpolicy.Request{Preset: "read-only"}, everywhere, "landlock:5 seccomp notify"},
		{"ABI 4", hostWith(4), sandboxpolicy.Request{Preset: "read-only"}, everywhere, "landlock:4 seccomp notify"},
		{"ABI 3", hostWith(3), sandboxpolicy.Request{Preset: "read-only"}, everywhere, "landlock:3 seccomp notify"},
		{"ABI 2: truncation", hostWith(2), sandboxpolicy.Request{Preset: "read-only"}, "write " + everywhere, "landlock:2 seccomp notify"},
		{"ABI 1", hostWith(1), sandboxpolicy.Request{}, "write protected-paths " + everywhere, "landlock:1 seccomp notify"},
		{"no supervisor", noSupervisor, sandboxpolicy.Request{Preset: "read-only"},
			judged + "own-loopback scheduling devices shm", "landlock:7 seccomp"},
		{"nested in another dshx", nested, sandboxpolicy.Request{},
			"protected-paths " + judged + "own-loopback scheduling devices shm", "landlock:7 seccomp"},
		{"neither supervisor nor scopes", old, sandboxpolicy.Request{Preset: "read-only"},
			judged + "abstract-sockets own-loopback signals scheduling devices shm", "landlock:3 seccomp"},
		{"no supervisor, loopback", noSupervisor, sandboxpolicy.Request{Preset: "read-only", Network: "loopback"},
			judged + "network own-loopback scheduling devices shm", "landlock:7 seccomp"},
		{"loopback", hostWith(7), sandboxpolicy.Request{Preset: "read-only", Network: "loopback"}, everywhere, "landlock:7 seccomp notify"},
		{"full network", hostWith(7), sandboxpolicy.Request{Preset: "read-only", Network: "full"}, "devices shm", "landlock:7 seccomp notify"},
		{"a deny that a pattern makes", hostWith(7), sandboxpolicy.Request{Preset: "read-only", DenyRead: []string{"**/.env"}},
			"secrets " + everywhere, "landlock:7 seccomp notify"},
		{"a deny of reading in the workspace", hostWith(7), sandboxpolicy.Request{DenyRead: []string{"x"}, Cwd: "/", Workspace: "/usr"},
			"protected-paths " + everywhere, "landlock:7 seccomp notify"}, // /x is not in it
		{"limits", hostWith(7), sandboxpolicy.Request{Preset: "read-only",
			Limits: sandboxpolicy.Limits{Memory: 1 << 30, Pids: 5, CPUTime: 1e9, FileSize: 1, TmpSize: 1}},
			everywhere + " memory pids cpu-time tmp-size", "landlock:7 seccomp notify"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e := Explain(policy(t, tc.req), tc.host)
			if got := gapNames(e); got != tc.want {
				t.Errorf("gaps: %s\nwant: %s", got, tc.want)
			}
			if got := strings.Join(e.Mechanisms, " "); got != tc.mech {
				t.Errorf("mechanisms: %s, want %s", got, tc.mech)
			}
			if e.Level != "partial" {
				t.Errorf("level %s", e.Level)
			}
			for _, g := range e.Gaps {
				if g.Reason == "" || g.Remedy == "" {
					t.Errorf("%s: reason %q, remedy %q", g.Promise, g.Reason, g.Remedy)
				}
			}
		})
	}
	t.Run("full access promises nothing", func(t *testing.T) {
		e := Explain(policy(t, sandboxpolicy.Request{Preset: "danger-full-access"}), hostWith(7))
		if e.Level != "none" || len(e.Gaps) != 0 || len(e.Mechanisms) != 0 {
			t.Errorf("%+v", e)
		}
	})
}

func TestGaps_NameTheDenyThatIsNotMade(t *testing.T) {
	ws := t.TempDir()
	inside := filepath.Join(ws, "inside")
	for _, tc := range []struct {
		name string
		req  sandboxpolicy.Request
		want string // the gap's promise; "": none
	}{
		{"reading in the workspace", sandboxpolicy.Request{DenyRead: []string{inside}}, "secrets"},
		{"writing in the workspace", sandboxpolicy.Request{DenyWrite: []string{inside}}, "write"},
		{"reading, where nothing may be written", sandboxpolicy.Request{Preset: "read-only", DenyRead: []string{inside}}, ""},
		{"writing, where nothing may be written", sandboxpolicy.Request{Preset: "read-only", DenyWrite: []string{inside}}, ""},
		{"writing the workspace itself", sandboxpolicy.Request{DenyWrite: []string{ws}}, ""},
		{"a pattern of one directory, where nothing may be written", sandboxpolicy.Request{Preset: "read-only", DenyRead: []string{"*.key"}}, ""},
		{"a pattern of one directory, in the workspace", sandboxpolicy.Request{DenyRead: []string{"*.key"}}, "secrets"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.req.Workspace = ws
			var got string
			for _, g := range Explain(policy(t, tc.req), hostWith(7)).Gaps {
				if g.Promise == "secrets" || g.Promise == "write" {
					got += g.Promise
				}
			}
			if got != tc.want {
				t.Errorf("gap %q, want %q", got, tc.want)
			}
		})
	}
}

// Every deny that isn't made is named, not only the first.
func TestGaps_NameAllThatIsNotMade(t *testing.T) {
	ws := t.TempDir()
	var names []string
	for i := range maxNamed + 2 {
		names = append(names, filepath.Join(ws, fmt.Sprintf("f%02d", i)))
	}
	reason := func(req sandboxpolicy.Request, promise string) string {
		req.Workspace = ws
		for _, g := range Explain(policy(t, req), hostWith(7)).Gaps {
			if g.Promise == promise {
				return g.Reason
			}
		}
		t.Fatalf("no gap %q", promise)
		return ""
	}
	for promise, req := range map[string]sandboxpolicy.Request{"secrets": {DenyRead: names}, "write": {DenyWrite: names}} {
		got := reason(req, promise)
		for i, name := range names {
			if strings.Contains(got, name) != (i < maxNamed) {
				t.Errorf("%s: %q: %v", promise, name, got)
			}
		}
		if !strings.HasSuffix(got, " and 2 more") {
			t.Errorf("%s: %q", promise, got)
		}
	}
}

func TestExplainOp_SaysWhatEnforcesAndWhatIsOpen(t *testing.T) {
	ws, out := t.TempDir(), t.TempDir()
	sock, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(sock)
	t.Chdir(ws) // the name of a socket is at most 108 bytes: unix(7)
	if err := unix.Bind(sock, &unix.SockaddrUnix{Name: "sock"}); err != nil {
		t.Fatal(err)
	}
	none := hostWith(7)
	none.Seccomp.Listener = false
	deny := sandboxpolicy.Request{DenyRead: []string{ws + "/secret"}, DenyWrite: []string{ws + "/fixed"}}
	for _, tc := range []struct {
		op, target string
		req        sandboxpolicy.Request
		host       Host
		want       string // verdict, by whom, gap
	}{
		{"read", "/etc/passwd", deny, hostWith(7), "allow landlock -"},
		{"write", "file", deny, hostWith(7), "allow landlock -"},
		{"write", out + "/x", deny, hostWith(7), "deny landlock -"},
		{"read", "secret", deny, hostWith(7), "deny  secrets"},
		{"write", "secret", deny, hostWith(7), "deny  secrets"},
		{"read", "fixed", deny, hostWith(7), "allow landlock -"},
		{"write", "fixed", deny, hostWith(7), "deny  write"},
		{"chmod", "fixed", deny, hostWith(7), "deny notify -"},
		{"chmod", out, deny, none, "deny  metadata"},
		{"write", ".git/config", deny, hostWith(7), "deny  protected-paths"},
		{"chmod", ".git/config", deny, hostWith(7), "deny notify -"},
		{"create", ".git/hooks/pre-commit", deny, hostWith(7), "deny  protected-paths"},
		{"write", ".git/config", sandboxpolicy.Request{Preset: "read-only"}, hostWith(7), "deny landlock -"},
		{"truncate", out + "/x", deny, hostWith(7), "deny landlock -"},
		{"truncate", out + "/x", deny, hostWith(2), "deny notify write"},
		{"rename", "file", deny, hostWith(1), "allow landlock write"},
		{"delete", "file", deny, hostWith(1), "allow landlock -"},
		{"write", "/dev/null", deny, hostWith(7), "allow landlock -"},
		{"delete", "/dev/null", deny, hostWith(7), "deny landlock -"},
		{"write", "/dev/pts/0", deny, hostWith(7), "allow landlock devices"},
		{"create", "/dev/shm/x", deny, hostWith(7), "allow landlock shm"},
		{"connect", "unix:" + out + "/s", deny, hostWith(7), "deny notify -"},
		{"connect", "unix:" + out + "/s", deny, hostWith(9), "deny landlock,notify -"},
		{"connect", "unix:" + out + "/s", deny, none, "deny  unix-sockets"},
		{"send", "unix:" + out + "/s", deny, none, "deny  unix-datagram"},
		{"connect", "./sock", deny, hostWith(7), "deny notify -"}, // there already, so not of the command's own
		{"connect", "./sock2", deny, hostWith(7), "allow notify -"},
		{"connect", "unix:@name", deny, hostWith(7), "deny landlock,notify -"},
		{"connect", "unix:@name", deny, hostWith(5), "deny notify -"},
		{"connect", "192.0.2.1:80", deny, hostWith(7), "deny seccomp -"},
		{"connect", "127.0.0.1:80", deny, hostWith(7), "deny seccomp own-loopback"},
		{"connect", "127.0.0.1:80", sandboxpolicy.Request{Network: "loopback"}, hostWith(7), "allow notify own-loopback"},
		{"connect", "192.0.2.1:80", sandboxpolicy.Request{Network: "loopback"}, hostWith(7), "deny notify -"},
		{"connect", "192.0.2.1:80", sandboxpolicy.Request{Network: "loopback"}, none, "deny  network"},
		{"connect", "192.0.2.1:80", sandboxpolicy.Request{Network: "full"}, hostWith(7), "allow  -"},
		{"signal", "pid:1", deny, hostWith(7), "deny landlock -"},
		{"signal", "pid:1", deny, hostWith(5), "deny notify -"},
		{"ptrace", "pid:1", deny, hostWith(1), "deny landlock -"},
		{"mount", "/", deny, hostWith(7), "deny seccomp -"},
		{"write", "/etc/passwd", sandboxpolicy.Request{Preset: "danger-full-access"}, hostWith(7), "allow  -"},
	} {
		t.Run(tc.op+" "+tc.target+" "+tc.want, func(t *testing.T) {
			tc.req.Workspace = ws
			e, err := ExplainOp(policy(t, tc.req), tc.host, sandboxpolicy.Op(tc.op), tc.target, sandboxpolicy.OSFacts{})
			if err != nil {
				t.Fatal(err)
			}
			gap := "-"
			if e.Gap != nil {
				gap = e.Gap.Promise
			}
			if got := fmt.Sprintf("%s %s %s", e.Verdict, strings.Join(e.EnforcedBy, ","), gap); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
			if (e.Remedy == nil) != (e.Verdict == "allow") {
				t.Errorf("verdict %s with remedy %v", e.Verdict, e.Remedy)
			}
		})
	}
}

// What is denied stays denied where a flag allows something at or below it.
func TestDeny_WinsOverAnAllowBelowIt(t *testing.T) {
	out := t.TempDir()
	sub := filepath.Join(out, "sub")
	if err := os.Mkdir(sub, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(sub+"/f", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name        string
		req         sandboxpolicy.Request
		read, write bool
	}{
		{"a control", sandboxpolicy.Request{Write: []string{sub}}, true, true},
		{"of reading, above", sandboxpolicy.Request{Write: []string{sub}, DenyRead: []string{out}}, false, false},
		{"of reading, at it", sandboxpolicy.Request{Write: []string{sub}, DenyRead: []string{sub}}, false, false},
		{"of writing, above", sandboxpolicy.Request{Write: []string{sub}, DenyWrite: []string{out}}, true, false},
		{"of reading, with an allow of reading", sandboxpolicy.Request{Read: []string{sub}, DenyRead: []string{out}}, false, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := open(t, tc.req)
			for _, g := range s.Enforcement().Gaps {
				if g.Promise == "write" || g.Promise == "secrets" {
					t.Errorf("gap %s: %s", g.Promise, g.Reason)
				}
			}
			check := func(what, path string, flag int, want bool) {
				err := s.Do(func() error {
					fd, err := unix.Open(path, flag|unix.O_CLOEXEC, 0)
					if err == nil {
						_ = unix.Close(fd)
					}
					return err
				})
				if (err == nil) != want {
					t.Errorf("%s %s: %v, want success %t", what, path, err, want)
				}
			}
			check("read", sub+"/f", unix.O_RDONLY, tc.read)
			check("write", sub+"/f", unix.O_WRONLY, tc.write)
		})
	}
}

// The policy's word, the report's and the kernel's: random operations on
// random paths go as ExplainOp says, or it names the gap.
func TestExplainOp_AgreesWithTheKernel(t *testing.T) {
	names := []string{"a", "b", ".git", "config", "hooks", "secret", "fixed", "x.key", ".vscode", "sub"}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for round := range 6 {
		base := t.TempDir()
		var dirs []string
		for _, root := range []string{"ws", "out", "grant", "home"} {
			for _, d := range []string{".", ".git/hooks", "sub/.git", "a/b", ".vscode", "sub/secret", ".ssh", "x.key"} {
				dirs = append(dirs, filepath.Join(base, root, d))
				if err := os.MkdirAll(filepath.Join(base, root, d), 0o755); err != nil {
					t.Fatal(err)
				}
			}
		}
		// Before the ruleset: what appears later where entries are granted one
		// by one is denied, which is safe.
		var paths []string
		for range 300 {
			paths = append(paths, filepath.Join(dirs[rng.IntN(len(dirs))], names[rng.IntN(len(names))]))
			prepare(paths[len(paths)-1], sandboxpolicy.OpRead)
		}
		req := sandboxpolicy.Request{
			Workspace: base + "/ws", Cwd: base + "/ws",
			Write:    []string{base + "/grant"},
			DenyRead: []string{base + "/out/a", base + "/out/*.key", base + "/ws/secret"}, DenyWrite: []string{base + "/ws/fixed", base + "/grant/sub/secret"},
			Preset: sandboxpolicy.PresetNames()[round%2],
		}
		if round >= 4 {
			req.Write = append(req.Write, base+"/home") // holds secrets: granted entry by entry
		}
		t.Setenv("HOME", base+"/home")
		s := open(t, req)
		h := ProbeHost()
		for _, path := range paths {
			op := []sandboxpolicy.Op{"read", "write", "create", "delete", "truncate"}[rng.IntN(5)]
			prepare(path, op)
			e, err := ExplainOp(s.Policy(), h, op, path, sandboxpolicy.OSFacts{})
			if err != nil {
				t.Fatal(err)
			}
			err = s.Do(func() error { return try(op, path) })
			refused := err == unix.EACCES || err == unix.EPERM
			if err != nil && !refused {
				continue // not there, a directory …: says nothing
			}
			switch {
			case e.Gap != nil:
				// Allowed or not, the report says that it can go otherwise.
			case refused == (e.Verdict == "deny"):
			case refused && slices.ContainsFunc(s.Policy().Deny(), func(d sandboxpolicy.PathRule) bool { return within(d.Path, filepath.Dir(path)) }):
				// It was deleted and made again.
			default:
				t.Errorf("%s %s: the report says %s (%s) by %v, the kernel %v", op, path, e.Verdict, e.Rule.Text, e.EnforcedBy, err)
			}
			if e.Gap != nil && refused == (e.Verdict == "deny") {
				t.Errorf("%s %s: the report names a gap (%s: %s) where there is none", op, path, e.Gap.Promise, e.Gap.Reason)
			}
		}
	}
}

// prepare makes what an operation needs, without the sandbox.
func prepare(path string, op sandboxpolicy.Op) {
	if fi, err := os.Lstat(path); err == nil && fi.IsDir() {
		return
	}
	if op == sandboxpolicy.OpCreate {
		_ = os.Remove(path)
		return
	}
	_ = os.WriteFile(path, []byte("x"), 0o644)
}

func try(op sandboxpolicy.Op, path string) error {
	open := func(flag int) error {
		fd, err := unix.Open(path, flag|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o644)
		if err == nil {
			_ = unix.Close(fd)
		}
		return err
	}
	switch op {
	case sandboxpolicy.OpRead:
		if fi, err := os.Lstat(path); err == nil && fi.IsDir() {
			return unix.EISDIR // names may be listed everywhere
		}
		return open(unix.O_RDONLY)
	case sandboxpolicy.OpWrite:
		return open(unix.O_WRONLY)
	case sandboxpolicy.OpCreate:
		return open(unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL)
	case sandboxpolicy.OpDelete:
		return unix.Unlink(path)
	}
	return unix.Truncate(path, 0)
}

// A git directory outside of the workspace is granted as a tree: the gap says
// which, and what of it can be written that would be protected.
func TestGaps_NameGitDirectoriesOutside(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	write := func(path, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	module, common := base+"/super/.git/modules/sub", base+"/main/.git"
	admin := common + "/worktrees/wt"
	for _, f := range [][2]string{
		{base + "/sub/.git", "gitdir: " + module}, {module + "/HEAD", "x"}, {module + "/objects/x", ""}, {module + "/refs/x", ""}, {module + "/config", "[core]\nworktree = " + base + "/sub\n"},
		{base + "/wt/.git", "gitdir: " + admin}, {admin + "/HEAD", "x"}, {admin + "/gitdir", base + "/wt/.git"}, {admin + "/commondir", "../.."},
		{common + "/HEAD", "x"}, {common + "/objects/x", ""}, {common + "/refs/x", ""}, {base + "/plain/.git/HEAD", "x"},
	} {
		write(f[0], f[1])
	}
	for ws, want := range map[string][]string{
		"sub":   {module + ":", "config", "hooks"},
		"wt":    {admin + ":", "commondir", "gitdir", "config.worktree"},
		"plain": nil,
	} {
		p := policy(t, sandboxpolicy.Request{Workspace: base + "/" + ws})
		var reason string
		for _, g := range Explain(p, hostWith(7)).Gaps {
			if g.Promise == string(sandboxpolicy.PromiseProtectedPaths) {
				reason = g.Reason
			}
		}
		_, outside, found := strings.Cut(reason, " outside of it, ")
		if found != (want != nil) || !strings.Contains(reason, "below the workspace") {
			t.Errorf("%s: %q", ws, reason)
		}
		for _, w := range want {
			if !strings.Contains(outside, w) {
				t.Errorf("%s: %q does not name %s", ws, outside, w)
			}
		}
		if strings.Contains(outside, common+"/config") || strings.Contains(outside, common+"/hooks") {
			t.Errorf("%s: the shared git directory is no gap: %q", ws, outside)
		}
	}
}

// What git makes in the common directory of a linked worktree is granted by
// name, by the supervisor or not at all.
func TestExplainOp_NamesInASharedGitDirectory(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	ws, common := base+"/w", base+"/main.git"
	admin := common + "/worktrees/w"
	for _, dir := range []string{ws, admin, common + "/objects", common + "/refs", common + "/hooks"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for path, text := range map[string]string{ws + "/.git": "gitdir: " + admin, admin + "/gitdir": ws + "/.git", admin + "/commondir": "../..",
		admin + "/HEAD": "x", common + "/HEAD": "x", common + "/config": ""} {
		if err := os.WriteFile(path, []byte(text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	with := hostWith(7)
	with.Seccomp.AddFD = true
	nested := with
	nested.Nested = true
	for _, tc := range []struct {
		op, name string
		host     Host
		want     string
	}{
		{"create", "packed-refs.lock", with, "allow landlock,notify -"},
		{"rename", "packed-refs.new", with, "allow landlock,notify -"},
		{"create", "logs", with, "allow landlock,notify -"},
		{"create", "logs/refs/heads/x", with, "allow landlock,notify -"},
		{"create", "refs/heads/x", with, "allow landlock -"},
		{"create", "config.lock", with, "deny landlock -"},
		{"create", "hooks/packed-refs.lock", with, "deny landlock -"},
		{"link", "packed-refs.lock", with, "deny landlock -"},
		{"delete", "packed-refs.lock", nested, "allow landlock write"},
		{"create", "packed-refs.lock", hostWith(7), "allow landlock write"},
	} {
		p := policy(t, sandboxpolicy.Request{Workspace: ws})
		if len(p.GitDirs()) != 1 {
			t.Fatalf("git dirs %+v", p.GitDirs())
		}
		e, err := ExplainOp(p, tc.host, sandboxpolicy.Op(tc.op), common+"/"+tc.name, sandboxpolicy.OSFacts{})
		if err != nil {
			t.Fatal(err)
		}
		gap := "-"
		if e.Gap != nil {
			gap = e.Gap.Promise
		}
		if got := fmt.Sprintf("%s %s %s", e.Verdict, strings.Join(e.EnforcedBy, ","), gap); got != tc.want {
			t.Errorf("%s %s: got %q, want %q", tc.op, tc.name, got, tc.want)
		}
	}
}

// Each refusal of the supervisor explains one line about its path, whatever it
// says; a further line tells of another denial.
func TestAttribute_TellsWhatIsNotKnownYet(t *testing.T) {
	p := policy(t, sandboxpolicy.Request{})
	const path = "/etc/hostname"
	refused := func(ops ...sandboxpolicy.Op) []Denial {
		var r recorder
		for _, op := range ops {
			r.add(Denial{Operation: op, Target: path, Resolved: path, Evidence: "supervisor"})
		}
		return r.all()
	}
	const chmod, write = "chmod: changing permissions of '" + path + "': Permission denied\n", "sh: 1: cannot create " + path + ": Permission denied\n"
	for _, tc := range []struct {
		name, stderr string
		known        []Denial
		want         string
	}{
		{"nothing is known", write, nil, "write"},
		{"twice the same", write + write, nil, "write"},
		{"the supervisor's own", chmod, refused("chmod"), ""},
		{"the supervisor's own, repeated", chmod + chmod, refused("chmod", "chmod"), ""},
		{"two of the supervisor's", chmod + chmod, refused("chmod", "utime"), ""},
		{"one more", chmod + write, refused("chmod"), "write"},
		{"one more, in another order", write + chmod, refused("chmod"), "write"},
		{"a silent one", "", refused("chmod"), ""},
		{"of another path", "cat: /etc/shadow: Permission denied\n", refused("chmod"), "read"},
		{"the same operation", chmod + write, refused("write"), ""},
		{"no refusal's text", "chmod: " + path + "\n", nil, ""},
	} {
		var got []string
		for _, d := range Attribute(p, "/", tc.stderr, tc.known) {
			got = append(got, string(d.Operation))
		}
		if strings.Join(got, " ") != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}
