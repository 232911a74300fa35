package sandboxpolicy

import (
	"strings"
	"testing"
)

func TestVerdict_Presets(t *testing.T) {
	f := newFake(map[string]string{"/home/u/.ssh/id": "k", "/home/u/w/.git/HEAD": "x"})
	type row struct {
		op        Op
		path      string
		ro, ww    bool
		ruleHasRO string
		ruleHasWW string
	}
	rows := []row{
		{OpRead, "/etc/passwd", true, true, "reading", "reading"},
		{OpExec, "/usr/bin/true", true, true, "reading", "reading"},
		{OpRead, "/home/u/.gitconfig", true, true, "", ""},
		{OpRead, "/home/u/.config/git/config", true, true, "", ""},
		{OpRead, "/home/u/.config/git/ignore", true, true, "", ""},
		{OpRead, "/home/u/.config/git/credentials", false, false, "secret ~/.config/git/credentials", "secret"},
		{OpRead, "/home/u/.ssh/id", false, false, "secret ~/.ssh", "secret ~/.ssh"},
		{OpWrite, "/home/u/.ssh/id", false, false, "secret ~/.ssh", "secret ~/.ssh"},
		{OpRead, "/home/u/.sshx", true, true, "", ""},
		{OpRead, "/home/u/.cargo/credentials", false, false, "credentials*", "credentials*"},
		{OpRead, "/home/u/.cargo/credentials.toml", false, false, "credentials*", "credentials*"},
		{OpRead, "/home/u/.cargo/config.toml", true, true, "", ""},
		{OpRead, "/home/u/.mozilla/firefox/x/logins.json", false, false, "secret", "secret"},
		{OpRead, "/home/u/.bash_history", false, false, "secret", "secret"},
		{OpRead, "/etc/shadow", false, false, "/etc/shadow", "/etc/shadow"},
		{OpRead, "/etc/shadow-", false, false, "/etc/shadow-", "/etc/shadow-"},
		{OpRead, "/etc/ssh/ssh_host_rsa_key", false, false, "ssh_host", "ssh_host"},
		{OpRead, "/etc/ssh/ssh_host_rsa_key.pub", true, true, "", ""},
		{OpRead, "/home/v/x", false, false, "homes of others", "homes of others"},
		{OpRead, "/home/later/x", false, false, "homes of others", "homes of others"},
		{OpRead, "/home", true, true, "", ""},
		{OpRead, "/root/x", false, false, "/root", "/root"},
		{OpWrite, "/home/u/w/a", false, true, "read-only", "workspace"},
		{OpWrite, "/home/u/w", false, true, "", "workspace"},
		{OpDelete, "/home/u/w", false, false, "", "outside"},
		{OpRename, "/home/u/w", false, false, "", ""},
		{OpChmod, "/home/u/w/a", false, true, "", "workspace"},
		{OpCreate, "/home/u/w2", false, false, "outside", "outside"},
		{OpWrite, fakeTmp + "/x", true, true, "TMPDIR", "TMPDIR"},
		{OpRead, "/var/tmp/dshx-1000/other/x", false, false, "other runs", "other runs"},
		{OpWrite, "/tmp/x", false, false, "outside", "outside"},
		{OpWrite, "/dev/null", true, true, "/dev/null", "/dev/null"},
		{OpChmod, "/dev/null", false, false, "devices", "devices"},
		{OpDelete, "/dev/null", false, false, "devices", ""},
		{OpWrite, "/dev/pts/3", true, true, "/dev/pts", "/dev/pts"},
		{OpRead, "/dev/sda", false, false, "devices", "devices"},
		{OpRead, "/dev", true, true, "", ""},
		{OpWrite, "/dev/shm/x", false, true, "shared memory", "shared memory"},
		{OpChmod, "/dev/shm", false, false, "shared memory", "/dev/shm"},
		{OpRead, "/proc/self/status", true, true, "", ""},
		{OpWrite, "/proc/self/oom_score_adj", false, false, "kernel's settings", "kernel's settings"},
		{OpWrite, "/sys/power/state", false, false, "kernel's settings", "kernel's settings"},
		{OpConnect, "/run/docker.sock", false, false, "sockets of the host", "sockets of the host"},
		{OpConnect, "/dev/null", false, false, "sockets", "sockets"},
		{OpConnect, "/home/u/w/s.sock", false, true, "sockets of the host", "workspace"},
		{OpBind, "/home/u/w/s.sock", false, true, "", "workspace"},
		{OpConnect, fakeTmp + "/s", true, true, "TMPDIR", "TMPDIR"},
		{OpWrite, "/home/u/w/.vscode/tasks.json", false, false, "read-only", "protected .vscode/"},
		{OpWrite, "/home/u/w/sub/.vscode/tasks.json", false, true, "", "workspace"},
		{OpWrite, "/home/u/w/.git/config", false, false, "", "protected .git/config"},
		{OpWrite, "/home/u/w/a/b/.git/hooks/pre-commit", false, false, "", "protected .git/hooks/"},
		{OpWrite, "/home/u/w/.git/index.lock", false, true, "", "workspace"},
		{OpWrite, "/home/u/w/.git/refs/heads/config", false, true, "", "workspace"},
		{OpSignal, "/proc/1", false, false, "own processes", "own processes"},
		{OpMount, "/mnt", false, false, "kernel", "kernel"},
		{Op("nonsense"), "/tmp", false, false, "unknown", "unknown"},
		{OpRead, "relative", false, false, "not absolute", "not absolute"},
		{OpRead, "", false, false, "not absolute", "not absolute"},
		{OpRead, "/home/u/x/../.ssh/id", false, false, "secret", "secret"},
		{OpRead, "//home//u/.ssh/", false, false, "secret", "secret"},
	}
	ro, _ := resolve(t, f, Request{Preset: "read-only"})
	ww, _ := resolve(t, f, Request{})
	full, _ := resolve(t, f, Request{Preset: "danger-full-access"})
	for _, r := range rows {
		wantVerdict(t, ro, r.op, r.path, r.ro, r.ruleHasRO)
		wantVerdict(t, ww, r.op, r.path, r.ww, r.ruleHasWW)
		if r.op.class() != classUnknown {
			wantVerdict(t, full, r.op, r.path, true, "danger-full-access")
		}
	}
}

func TestVerdict_AllowedPathsAllocateNothing(t *testing.T) {
	p, _ := resolve(t, newFake(nil), Request{DenyRead: []string{"**/.env"}})
	for _, path := range []string{"/home/u/w/a/b/c", "/usr/lib/x", fakeTmp + "/y"} {
		for _, op := range []Op{OpRead, OpWrite, OpRename} {
			if n := testing.AllocsPerRun(100, func() { p.Verdict(op, path) }); n > 0 && p.Verdict(op, path).Allow {
				t.Errorf("%s %s allocates %v times", op, path, n)
			}
		}
	}
}

func TestVerdict_ProtectedNames(t *testing.T) {
	yes := map[string]int{
		".git": protGit, "a/.git": protGit, ".git/config": protConfig, "x/.git/config.worktree": protConfigWT,
		".git/hooks": protHooks, ".git/hooks/a": protHooks, ".git/commondir": protCommondir, ".git/info/attributes": protAttributes,
		".git/modules/x/config": protModules, ".git/modules/a/b/hooks/x": protModules, ".git/modules/a/modules/b/config": protModules,
		".git/worktrees/w/gitdir": protWorktrees, ".git/worktrees/w/modules/s/config": protModules,
		"bare.git/config": protConfig, "bare.git/hooks/x": protHooks,
		".dshx/config.toml": protDshx, ".dshx": protDshx, ".mcp.json": protMCP, ".envrc": protEnvrc, ".claude/settings.json": protClaude,
	}
	for rel, want := range yes {
		if got := protectedIn(rel, true); got != want {
			t.Errorf("%s: kind %d, want %d", rel, got, want)
		}
	}
	for _, rel := range []string{"git/config", ".gitconfig", ".git/config.lock", ".git/config/x", ".git/HEAD", ".git/objects/aa/bb", ".git/refs/heads/hooks",
		".git/info/exclude", ".git/modules/x/refs/heads/hooks/y", ".git/modules/x/index", ".git/modules/hooks", ".git/worktrees/w/HEAD", ".git/worktrees/gitdir",
		"a/.mcp.json", ".mcp.json/x", "sub/.vscode/x", ".vscodex", "bare.git", "config", "hooks/x", "x/.github/workflows/a"} {
		if got := protectedIn(rel, true); got != protNone {
			t.Errorf("%s: protected as %s, want free", rel, protectedNames[got])
		}
	}
}

func TestVerdict_GitIdentity(t *testing.T) {
	p, _ := resolve(t, newFake(nil), Request{})
	wantVerdict(t, p, OpCreate, "/home/u/w/n/.git", true, "workspace")
	for _, op := range []Op{OpWrite, OpDelete, OpRename, OpLink, OpTruncate} {
		wantVerdict(t, p, op, "/home/u/w/n/.git", false, "protected .git")
	}
}

func TestVerdict_RenameAboveADeny(t *testing.T) {
	p, _ := resolve(t, newFake(map[string]string{"/home/u/w/a/b/key": "x"}), Request{DenyWrite: []string{"/home/u/w/a/b/key"}})
	wantVerdict(t, p, OpRename, "/home/u/w/a", false, "--deny-write")
	wantVerdict(t, p, OpRename, "/home/u/w/c", true, "workspace")
	wantVerdict(t, p, OpWrite, "/home/u/w/a/x", true, "workspace")
	wantVerdict(t, p, OpRead, "/home/u/w/a/b/key", true, "reading")
}

func TestVerdictNet(t *testing.T) {
	f := newFake(nil)
	tests := []struct {
		net          Network
		op           Op
		family, addr string
		allow        bool
		remedy       string
	}{
		{"none", OpConnect, "inet", "127.0.0.1:80", false, "--network loopback"},
		{"none", OpConnect, "inet", "1.1.1.1:80", false, "--network full"},
		{"none", OpConnect, "inet", "", false, "--network full"},
		{"none", OpConnect, "netlink", "route", true, ""},
		{"none", OpConnect, "netlink", "audit", false, "not possible"},
		{"full", OpConnect, "packet", "", false, "not possible"},
		{"full", OpConnect, "alg", "", false, "not possible"},
		{"none", OpConnect, "unix", "@dbus", false, "not possible"},
		{"none", OpSend, "unix", "@dbus", false, "not possible"},
		{"none", OpBind, "unix", "@mine", true, ""},
		{"none", OpConnect, "unix", "/run/x", false, "not possible"},
		{"none", OpConnect, "unix", "/home/u/w/x", true, ""},
		{"loopback", OpConnect, "inet", "127.0.0.1:80", true, ""},
		{"loopback", OpConnect, "inet", "127.9.9.9:80", true, ""},
		{"loopback", OpConnect, "inet6", "[::1]:80", true, ""},
		{"loopback", OpConnect, "inet6", "[::ffff:127.0.0.1]:80", true, ""},
		{"loopback", OpConnect, "inet6", "[::ffff:10.0.0.1]:80", false, "--network full"},
		{"loopback", OpConnect, "inet", "0.0.0.0:80", true, ""},
		{"loopback", OpConnect, "inet6", "[::]:80", true, ""},
		{"loopback", OpBind, "inet", "0.0.0.0:80", false, "127.0.0.1"},
		{"loopback", OpBind, "inet", "127.0.0.1:0", true, ""},
		{"loopback", OpConnect, "inet", "localhost:80", true, ""},
		{"loopback", OpConnect, "inet", "localhost.example.org:80", false, "--network full"},
		{"loopback", OpConnect, "inet", "128.0.0.1:80", false, "--network full"},
		{"loopback", OpConnect, "inet", "garbage", false, "--network full"},
		{"full", OpConnect, "inet", "1.1.1.1:80", true, ""},
		{"full", OpConnect, "unix", "@dbus", false, "not possible"},
	}
	for _, tt := range tests {
		p, _ := resolve(t, f, Request{Network: tt.net})
		v := p.VerdictNet(tt.op, tt.family, tt.addr)
		if v.Allow != tt.allow || !strings.Contains(v.Remedy, tt.remedy) || v.Rule.Text == "" {
			t.Errorf("network %s: %s %s %s = %+v, want allow=%t", tt.net, tt.op, tt.family, tt.addr, v, tt.allow)
		}
	}
	full, _ := resolve(t, f, Request{Preset: "danger-full-access"})
	if !full.VerdictNet(OpConnect, "packet", "").Allow {
		t.Error("danger-full-access confines a socket")
	}
}

func TestDenied(t *testing.T) {
	p, _ := resolve(t, newFake(map[string]string{"/home/u/.ssh/id": "k", "/home/u/.cargo/x": "y"}), Request{DenyWrite: []string{"/home/u/w/ro"}})
	for _, tt := range []struct {
		path        string
		a           Access
		want, below bool // itself, and something below it
	}{
		{"/", Read, false, true}, {"/usr", Read, false, false}, {"/etc", Read, false, true}, {"/etc/shadow", Read, true, false},
		{"/home", Read, false, true}, {"/home/u", Read, false, true}, {"/home/v", Read, true, false}, {"/home/u/w", Read, false, false},
		{"/home/u/.ssh", Read, true, false}, {"/home/u/.ssh/id", Read, true, false}, {"/home/u/.cargo", Read, false, true},
		{"/home/u/.cargo/credentials.toml", Read, true, false}, {"/home/u/.cargo/x", Read, false, false},
		{"/dev", Read, false, true}, {"/dev/null", Read, false, false}, {"/dev/sda", Read, true, false}, {"/dev/pts", Read, false, false},
		{"/var/tmp", Read, false, true}, {"/var/tmp/dshx-1000", Read, false, true}, {"/var/tmp/dshx-1000/other", Read, true, false}, {fakeTmp, Read, false, false},
		{"/home/u/w", Write, false, true}, {"/home/u/w/src", Write, false, false}, {"/home/u/w/ro", Write, true, false}, {"/home/u/w/ro", Read, false, false},
		{"/home/u/.ssh", Write, true, false},
	} {
		if got := p.Denied(tt.path, tt.a); got != tt.want {
			t.Errorf("Denied(%s, %d) = %t", tt.path, tt.a, got)
		}
		if got := p.denyBelow(tt.path, tt.a); !tt.want && got != tt.below {
			t.Errorf("denyBelow(%s, %d) = %t", tt.path, tt.a, got)
		}
	}
	full, _ := resolve(t, newFake(nil), Request{Preset: "danger-full-access"})
	if full.Denied("/etc/shadow", Read) {
		t.Error("danger-full-access denies")
	}
}
