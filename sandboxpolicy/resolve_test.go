package sandboxpolicy

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestResolve_Workspace(t *testing.T) {
	f := newFake(map[string]string{
		"/data/real/sub/f": "x", "/home/u/link": "link:/data/real/sub", "/home/u/h": "link:/home/u", "/home/u/loop": "link:loop", "/home/u/f": "x",
	})
	for _, tt := range []struct{ ws, want, err string }{
		{"", "/home/u/w", ""},
		{"/home/u/w/", "/home/u/w", ""},
		{".", "/home/u/w", ""},
		{"../link", "/data/real/sub", ""},
		{"/home/u/link/..", "/data/real", ""}, // where a process would be
		{"~/w", "/home/u/w", ""},
		{"/tmp", "/tmp", ""},
		{"/", "", `"/", which is the root`},
		{"/home", "", `"/home"`},
		{"/home/u", "", `"/home/u", which is the home directory`},
		{"/home/u/h", "", `"/home/u", which is the home directory`},
		{"~", "", `"/home/u"`},
		{"..", "", `"/home/u"`},
		{"/home/v", "", `"/home/v", which is a home directory`},
		{"/root", "", `"/root"`},
		{"/nowhere", "", "does not exist"},
		{"/home/u/f", "", "not a directory"},
		{"/home/u/loop", "", "symbolic links"},
		{"/home/u/w\x00", "", "NUL"},
	} {
		p, _, err := tryResolve(f, Request{Workspace: tt.ws})
		switch {
		case tt.err != "":
			var ue *UsageError
			if !errors.As(err, &ue) || ue.Code() != "INVALID_ARGS" || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("workspace %q: error %v, want a usage error with %q", tt.ws, err, tt.err)
			}
		case err != nil:
			t.Errorf("workspace %q: %v", tt.ws, err)
		case p.Workspace() != tt.want:
			t.Errorf("workspace %q = %q, want %q", tt.ws, p.Workspace(), tt.want)
		}
	}
	for _, ws := range []string{"/", "/home", "/home/u"} {
		p, _ := resolve(t, f, Request{Workspace: ws, AllowBroadWorkspace: true})
		wantVerdict(t, p, OpRead, "/home/u/.ssh/id", false, "secret")
		wantVerdict(t, p, OpWrite, "/home/u/x", true, "workspace")
		wantVerdict(t, p, OpWrite, "/home/u/.config/dshx/config.toml", false, "dshx's own configuration")
	}
	p, _ := resolve(t, f, Request{Workspace: "/", AllowBroadWorkspace: true})
	wantVerdict(t, p, OpRead, "/home/v/.ssh/id", false, "secret")
	wantVerdict(t, p, OpWrite, "/etc/.git/config", false, "protected")
	wantVerdict(t, p, OpWrite, "/dev/sda", false, "devices")
}

func TestResolve_WorkspaceInASecretIsRefused(t *testing.T) {
	f := newFake(map[string]string{"/home/u/.ssh/d/f": "x"})
	if _, _, err := tryResolve(f, Request{Workspace: "/home/u/.ssh/d"}); err == nil || !strings.Contains(err.Error(), "secret ~/.ssh") {
		t.Errorf("error %v, want one that names the secret", err)
	}
	if _, _, err := tryResolve(f, Request{Cwd: "/home/u/.ssh"}); err == nil || !strings.Contains(err.Error(), "--cwd") {
		t.Errorf("error %v, want one that names --cwd", err)
	}
	p, _ := resolve(t, f, Request{Cwd: "/etc"})
	if p.Cwd() != "/etc" {
		t.Errorf("cwd %q, want /etc", p.Cwd())
	}
}

func TestResolve_InWorkspaceStartsThere(t *testing.T) {
	f := newFake(map[string]string{"/home/u/.config/app/f": "x", "/home/u/.ssh/id": "x"})
	f.wd = "/home/u/.config/app"
	for _, tc := range []struct {
		req  Request
		want string
	}{
		{Request{Workspace: "/home/u/w"}, f.wd},
		{Request{Workspace: "/home/u/w", InWorkspace: true}, "/home/u/w"},
		{Request{Workspace: "/home/u/w", InWorkspace: true, Cwd: "/etc"}, "/etc"},
		{Request{InWorkspace: true}, f.wd},
	} {
		if p, _ := resolve(t, f, tc.req); p.Cwd() != tc.want {
			t.Errorf("%+v: cwd %q, want %q", tc.req, p.Cwd(), tc.want)
		}
	}
	// Where the caller is then doesn't matter: it may be where nobody may look.
	f.wd = "/home/u/.ssh"
	if _, _, err := tryResolve(f, Request{Workspace: "/home/u/w"}); err == nil {
		t.Error("commands start in a secret")
	}
	resolve(t, f, Request{Workspace: "/home/u/w", InWorkspace: true})
	f.wd = "" // gone
	if _, _, err := tryResolve(f, Request{Workspace: "/home/u/w"}); err == nil {
		t.Error("commands start nowhere")
	}
	resolve(t, f, Request{Workspace: "/home/u/w", InWorkspace: true})
}

func TestResolve_UnknownPresetListsTheNames(t *testing.T) {
	f := newFake(map[string]string{"/home/u/.config/dshx/config.toml": "[presets.review]\nbase = \"read-only\"\n"})
	_, _, err := tryResolve(f, Request{Preset: "workspace-wriet"})
	var ue *UsageError
	if !errors.As(err, &ue) {
		t.Fatalf("error %v, want a usage error", err)
	}
	for _, n := range append(PresetNames(), "review") {
		if !strings.Contains(err.Error(), n) {
			t.Errorf("%q does not list %s", err, n)
		}
	}
}

func TestResolve_Homes(t *testing.T) {
	f := newFake(map[string]string{"/home/u/.ssh/id": "k", "/tmp/h/.ssh/id": "k", "/srv/alice/x": "y"})
	f.others = append(f.others, "/srv/alice", "/", "/nonexistent", "/usr")
	p, _ := resolve(t, f, Request{Environ: []string{"HOME=/tmp/h"}})
	if p.Home() != "/tmp/h" {
		t.Errorf("home %q, want /tmp/h", p.Home())
	}
	wantVerdict(t, p, OpRead, "/tmp/h/.ssh/id", false, "secret ~/.ssh")
	wantVerdict(t, p, OpRead, "/home/u/.ssh/id", false, "secret /home/u/.ssh")
	wantVerdict(t, p, OpRead, "/home/u/x", true, "")
	wantVerdict(t, p, OpRead, "/srv/alice/x", false, "homes of others")
	wantVerdict(t, p, OpRead, "/usr/bin/x", true, "")

	p, _ = resolve(t, f, Request{Environ: []string{"PATH=/bin"}})
	if p.Home() != "/home/u" || !slices.Contains(p.Environ(), "HOME=/home/u") {
		t.Errorf("home %q, environment %q: want the account's home where HOME is unset", p.Home(), p.Environ())
	}
	if _, _, err := tryResolve(f, Request{Environ: []string{"HOME=rel"}}); err == nil {
		t.Error("a relative HOME was accepted")
	}
	f.account = ""
	if _, _, err := tryResolve(f, Request{Environ: []string{"PATH=/bin"}, DenyRead: []string{"~/x"}}); err == nil {
		t.Error("~ was resolved without a home")
	}
	// A container's HOME=/ opens nobody's home.
	p, _ = resolve(t, f, Request{Environ: []string{"HOME=/"}, Workspace: "/tmp", Cwd: "/tmp"})
	wantVerdict(t, p, OpRead, "/home/v/x", false, "homes of others")
	wantVerdict(t, p, OpRead, "/.ssh/id", false, "secret")

	// Root at work in somebody's home: the project is open, the rest is not.
	f = newFake(map[string]string{"/home/v/proj/f": "x"})
	f.uid, f.account, f.wd = 0, "/root", "/home/v/proj"
	p, _ = resolve(t, f, Request{Environ: []string{"HOME=/root"}, Workspace: "/home/v/proj"})
	wantVerdict(t, p, OpWrite, "/home/v/proj/f", true, "workspace")
	wantVerdict(t, p, OpRead, "/home/v/x", false, "homes of others")
	wantVerdict(t, p, OpRead, "/root/x", true, "")
	wantVerdict(t, p, OpRead, "/root/.ssh/x", false, "secret")
	// Opened on purpose, its secrets stay shut.
	p, _ = resolve(t, f, Request{Environ: []string{"HOME=/root"}, Workspace: "/home/v/proj", Read: []string{"/home/v"}})
	wantVerdict(t, p, OpRead, "/home/v/x", true, "")
	wantVerdict(t, p, OpRead, "/home/v/.ssh/x", false, "secret")
}

func TestResolve_SecretsBehindLinksAndVariables(t *testing.T) {
	f := newFake(map[string]string{
		"/data/keys/id": "k", "/home/u/.ssh": "link:/data/keys", "/data/cfg/gh/hosts.yml": "t", "/home/u/.aws": "link:missing",
		"/home/u/.config": "link:/data/cfg", "/srv/kube/config": "t",
	})
	p, _ := resolve(t, f, Request{Environ: append([]string{"KUBECONFIG=/srv/kube/config:/srv/kube/two", "DOCKER_CONFIG=/srv/docker", "GNUPGHOME=/tmp"}, baseEnv...)})
	for _, path := range []string{"/data/keys/id", "/home/u/.ssh", "/home/u/.ssh/id", "/data/cfg/gh/hosts.yml", "/home/u/missing", "/home/u/.aws",
		"/srv/kube/config", "/srv/kube/two", "/srv/docker/config.json"} {
		wantVerdict(t, p, OpRead, path, false, "secret")
	}
	for _, path := range []string{"/data/other", "/srv/docker/x", "/tmp/x"} {
		wantVerdict(t, p, OpRead, path, true, "")
	}
}

// What a pattern matches is denied as if it had been named: a link with what
// it leads to.
func TestResolve_PatternsFollowLinks(t *testing.T) {
	f := newFake(map[string]string{
		"/home/u/.cargo/credentials.toml": "link:../dotfiles/c", "/home/u/.cargo/config.toml": "link:../dotfiles/config", "/home/u/dotfiles/c": "k", "/home/u/dotfiles/config": "x",
		"/srv/cargo/credentials": "link:/data/l", "/data/l": "link:real", "/data/real": "k", "/etc/ssh/ssh_host_rsa_key": "link:/data/rsa",
		"/home/u/w/prod.env": "link:/vault/prod", "/home/u/w/gone.env": "link:/vault/later", "/home/u/w/loop.env": "link:loop.env", "/home/u/w/dir.env": "link:/vault/d",
		"/home/u/w/plain.env": "x", "/home/u/w/other": "link:/vault/other", "/home/u/w/sub/deep.env": "link:/vault/deep", "/vault/d/x": "x", "/vault/other": "x",
	})
	p, _ := resolve(t, f, Request{DenyRead: []string{"*.env"}, DenyWrite: []string{"~/w/o?her"}, Environ: append([]string{"CARGO_HOME=/srv/cargo"}, baseEnv...)})
	for _, path := range []string{"/home/u/dotfiles/c", "/home/u/.cargo/credentials.toml", "/data/real", "/data/rsa"} {
		wantVerdict(t, p, OpRead, path, false, "secret")
	}
	for _, path := range []string{"/vault/prod", "/vault/later", "/vault/d/x", "/home/u/w/prod.env", "/home/u/w/loop.env", "/home/u/w/new.env"} {
		wantVerdict(t, p, OpRead, path, false, "--deny-read *.env")
	}
	wantVerdict(t, p, OpWrite, "/vault/other", false, "--deny-write")
	for _, path := range []string{"/home/u/dotfiles/config", "/vault/other", "/vault/deep", "/data/l", "/home/u/w/sub/deep.env"} {
		wantVerdict(t, p, OpRead, path, true, "")
	}
	// Only what is there is read, and of it nothing that doesn't match.
	f = newFake(map[string]string{"/home/u/w/a": "x"})
	for i := range 50 {
		f.put("/home/u/w/"+strings.Repeat("n", i+1), "link:/x")
	}
	resolve(t, f, Request{})
	before := f.lstats
	f.lstats, f.readDirs = 0, nil
	resolve(t, f, Request{DenyRead: []string{"*.env", "missing/*.env", "**/*.env", "*/x"}})
	if n := f.lstats - before; n > 4 {
		t.Errorf("%d more lstats", n)
	}
	if want := []string{"/home/u/w"}; !slices.Equal(slices.DeleteFunc(f.readDirs, func(d string) bool { return strings.HasPrefix(d, "/var/tmp/") || strings.HasPrefix(d, "/tmp/") }), want) {
		t.Errorf("read %q, want %q", f.readDirs, want)
	}
}

func TestResolve_DenyBeatsAllow(t *testing.T) {
	f := newFake(map[string]string{"/e/secret/x": "s", "/e/f": "x"})
	p, _ := resolve(t, f, Request{Write: []string{"/e", "/e/secret/x"}, Read: []string{"/e/secret"}, DenyRead: []string{"/e/secret/**"}})
	wantVerdict(t, p, OpRead, "/e/secret/x", false, "--deny-read")
	wantVerdict(t, p, OpWrite, "/e/secret/x", false, "--deny-read")
	wantVerdict(t, p, OpWrite, "/e/f", true, "--write /e")
	// Secrets can't be granted by any flag.
	p, _ = resolve(t, f, Request{Write: []string{"/home/u"}, Read: []string{"/etc/shadow"}})
	wantVerdict(t, p, OpRead, "/home/u/.netrc", false, "secret")
	wantVerdict(t, p, OpRead, "/etc/shadow", false, "secret")
	// What is asked for and not given is said; what is given is not.
	_, n := resolve(t, f, Request{Write: []string{"/e", "/home/u/.ssh"}, Read: []string{"/home/u/.ssh", "/e"}, DenyWrite: []string{"/e/f"}})
	for _, s := range []string{"--write /home/u/.ssh (", "--read /home/u/.ssh ("} {
		if !hasNotice(n, NoticeConfigIgnored, s) {
			t.Errorf("notices %v do not name %s", n, s)
		}
	}
	if len(n) != 2 {
		t.Errorf("notices %v, want two", n)
	}
}

func TestResolve_GrantsThatNameNothing(t *testing.T) {
	f := newFake(map[string]string{"/e/f": "x", "/e/dangling": "link:/e/new"})
	p, n := resolve(t, f, Request{Write: []string{"/e/f", "/missing", "/e/dangling", "/dev/sda"}})
	wantVerdict(t, p, OpWrite, "/e/f", true, "--write /e/f")
	wantVerdict(t, p, OpWrite, "/e/g", false, "outside")
	wantVerdict(t, p, OpDelete, "/e/f", false, "outside")
	wantVerdict(t, p, OpWrite, "/missing/x", false, "outside")
	wantVerdict(t, p, OpCreate, "/e/new", false, "outside")
	for _, s := range []string{"/missing", "/e/dangling"} {
		if !hasNotice(n, NoticeConfigIgnored, "--write "+s) {
			t.Errorf("notices %v do not name %s", n, s)
		}
	}
}

func TestResolve_FlagPathForms(t *testing.T) {
	f := newFake(map[string]string{"/home/u/w/app/[id]/p": "x"})
	f.wd = "/home/u/w/app"
	p, _ := resolve(t, f, Request{Workspace: "/home/u/w", DenyRead: []string{"x", "../y/", "~/z", "**/.env", "/home/u/w/*/key", "[id]", "{a,b}/c"}})
	for _, path := range []string{"/home/u/w/app/x", "/home/u/w/y/deep", "/home/u/z", "/home/u/w/.env", "/home/u/w/a/b/c/.env", "/home/u/w/.env/x",
		"/home/u/w/m/key", "/home/u/w/app/[id]/p", "/home/u/w/app/i", "/home/u/w/i", "/home/u/w/a/c", "/home/u/w/app/b/c", "/home/u/w/b/c/d"} {
		wantVerdict(t, p, OpRead, path, false, "--deny-read")
	}
	for _, path := range []string{"/home/u/w/xx", "/home/u/.env", "/home/u/w/key", "/home/u/w/m/n/key", "/home/u/w/envx"} {
		wantVerdict(t, p, OpRead, path, true, "")
	}
	f.wd = "/home/u/w"
	p, _ = resolve(t, f, Request{DenyRead: []string{"app/[id]"}})
	wantVerdict(t, p, OpRead, "/home/u/w/app/[id]/p", false, "--deny-read")
	wantVerdict(t, p, OpRead, "/home/u/w/app/i/p", false, "--deny-read")
	for _, bad := range []string{"", "a\x00", "x[", "{a", "a/*/../b", "b\\*\\"} {
		if _, _, err := tryResolve(f, Request{DenyRead: []string{bad}}); err == nil {
			t.Errorf("--deny-read %q was accepted", bad)
		}
	}
}

// Without a workspace in the current directory both may be meant by a pattern.
func TestResolve_RelativeDenies(t *testing.T) {
	f := newFake(map[string]string{"/home/u/ws/[id]": "x", "/home/u/w/[id]": "x"})
	for _, tt := range []struct {
		deny          string
		denied, other []string
	}{
		{"k.pem", []string{"/home/u/w/k.pem"}, []string{"/home/u/ws/k.pem"}},
		{"../k.pem", []string{"/home/u/k.pem"}, nil},
		{"*.pem", []string{"/home/u/w/k.pem", "/home/u/ws/k.pem"}, []string{"/home/u/k.pem", "/home/u/ws/d/k.pem"}},
		{"**/*.pem", []string{"/home/u/w/d/k.pem", "/home/u/ws/d/k.pem"}, []string{"/home/u/k.pem"}},
		{"{k,l}.pem", []string{"/home/u/w/k.pem", "/home/u/ws/l.pem"}, nil},
		{"[id]", []string{"/home/u/w/i", "/home/u/ws/d", "/home/u/w/[id]", "/home/u/ws/[id]"}, nil},
		{"~/*.pem", []string{"/home/u/k.pem"}, []string{"/home/u/w/k.pem", "/home/u/ws/k.pem"}},
		{"/e/*.pem", []string{"/e/k.pem"}, []string{"/home/u/w/k.pem", "/home/u/ws/k.pem"}},
	} {
		f.put("/home/u/ws", "dir")
		p, _ := resolve(t, f, Request{Workspace: "../ws", DenyRead: []string{tt.deny}})
		for _, path := range tt.denied {
			wantVerdict(t, p, OpRead, path, false, "--deny-read "+tt.deny)
		}
		for _, path := range tt.other {
			wantVerdict(t, p, OpRead, path, true, "")
		}
	}
	p, _ := resolve(t, f, Request{Workspace: "../ws", DenyRead: []string{"/e/*.pem"}})
	if n := slices.IndexFunc(p.Deny(), func(r PathRule) bool { return r.Path == "/e/*.pem" }); n < 0 ||
		slices.ContainsFunc(p.Deny()[n+1:], func(r PathRule) bool { return r.Path == "/e/*.pem" }) {
		t.Error("an absolute pattern doesn't stand once among the denies")
	}
	// A directory that is gone has nothing that could be meant.
	f.wd = "/home/u/loop"
	f.put(f.wd, "link:loop")
	for deny, ok := range map[string]bool{"k.pem": false, "*.pem": false, "{/e,k}": false, "/e/*.pem": true, "~/*.pem": true, "{~/a,/b}": true} {
		if _, _, err := tryResolve(f, Request{Workspace: "/home/u/ws", Cwd: "/tmp", DenyRead: []string{deny}}); (err == nil) != ok {
			t.Errorf("without a current directory, --deny-read %s: %v", deny, err)
		}
	}
}

// Braces stand for several paths, each of which is read as if it stood alone.
func TestResolve_BracesAreExpandedFirst(t *testing.T) {
	f := newFake(map[string]string{"/home/u/w/{x,y}": "x"})
	for _, tt := range []struct {
		deny          string
		denied, other []string
	}{
		{"{~/a,~/b}/k", []string{"/home/u/a/k", "/home/u/b/k/deep"}, []string{"/home/u/w/a/k", "/home/u/w/~/a/k", "/home/u/a"}},
		{"{~,/srv}/k", []string{"/home/u/k", "/srv/k"}, []string{"/home/u/w/k"}},
		{"{~/*.pem,x}", []string{"/home/u/a.pem", "/home/u/w/x"}, []string{"/home/u/w/a.pem"}},
		{"{/e,f}", []string{"/e", "/home/u/w/f"}, []string{"/home/u/w/e", "/f"}},
		{"{{~/a,/b},c}", []string{"/home/u/a", "/b", "/home/u/w/c"}, nil},
		{"a{~/b,c}", []string{"/home/u/w/a~/b", "/home/u/w/ac"}, []string{"/home/u/b"}},
		{"{x,y}", []string{"/home/u/w/x", "/home/u/w/y", "/home/u/w/{x,y}"}, nil},
	} {
		for layer, req := range map[string]Request{"flag": {DenyRead: []string{tt.deny}, Workspace: "/home/u/w", Cwd: "/tmp"}, "file": {Workspace: "/home/u/w", Cwd: "/tmp"}} {
			delete(f.files, userFile)
			if layer == "file" {
				f.put(userFile, "[policy]\ndeny_read = ["+quote(tt.deny)+"]\n")
			}
			p, _, err := tryResolve(f, req)
			if err != nil {
				t.Errorf("%s %s: %v", layer, tt.deny, err)
				continue
			}
			for _, path := range tt.denied {
				wantVerdict(t, p, OpRead, path, false, tt.deny)
			}
			for _, path := range tt.other {
				wantVerdict(t, p, OpRead, path, true, "")
			}
		}
	}
	for _, bad := range []string{"{~other/a,b}", "{$HOME,b}/k", "{a,../../b}", "{a,}", "{a,b[}", "{~/a,~/../../b}"} {
		f := newFake(map[string]string{userFile: "[policy]\ndeny_read = [" + quote(bad) + "]\n"})
		var ce *ConfigError
		if _, _, err := tryResolve(f, Request{}); !errors.As(err, &ce) || ce.Key != "policy.deny_read" {
			t.Errorf("deny_read %q: %v, want CONFIG_INVALID", bad, err)
		}
	}
	f = newFake(nil)
	f.account = ""
	if _, _, err := tryResolve(f, Request{Environ: []string{"PATH=/bin"}, DenyRead: []string{"{~/x,y}"}}); err == nil {
		t.Error("~ in braces was resolved without a home")
	}
	if _, _, err := tryResolve(newFake(nil), Request{DenyRead: []string{"{a,}"}}); err == nil {
		t.Error("an empty alternative was accepted")
	}
}

func TestResolve_FullAccessRefusesWhatItCannotKeep(t *testing.T) {
	f := newFake(nil)
	for _, r := range []Request{{DenyRead: []string{"/x"}}, {DenyWrite: []string{"/x"}}, {Network: NetworkNone}} {
		r.Preset = "danger-full-access"
		if _, _, err := tryResolve(f, r); err == nil {
			t.Errorf("%+v was accepted", r)
		}
	}
	f.put("/home/u/.config/dshx/config.toml", "[policy]\ndeny_read = [\"/x\"]\nnetwork = \"none\"\n")
	p, n := resolve(t, f, Request{Preset: "danger-full-access"})
	if !hasNotice(n, NoticeConfigIgnored, "deny_read") || !hasNotice(n, NoticeConfigIgnored, "network") || p.Network() != NetworkFull {
		t.Errorf("notices %v, network %s", n, p.Network())
	}
}

func TestResolve_Limits(t *testing.T) {
	f := newFake(map[string]string{
		"/home/u/.config/dshx/config.toml": "[limits]\nmemory = \"2GiB\"\npids = 512\ncpu_time = 1.5\nfile_size = 0x10\n",
		"/home/u/w/.dshx/config.toml":      "[limits]\nmemory = \"1GiB\"\npids = 1000\ntmp_size = \"1K\"\n",
	})
	p, n := resolve(t, f, Request{Limits: Limits{FileSize: 99}})
	want := Limits{Memory: 1 << 30, Pids: 512, CPUTime: 1500e6, FileSize: 99, TmpSize: 1024}
	if p.Limits() != want {
		t.Errorf("limits %+v, want %+v", p.Limits(), want)
	}
	if !hasNotice(n, NoticeConfigIgnored, "limits.pids") || hasNotice(n, NoticeConfigIgnored, "limits.memory") {
		t.Errorf("notices %v", n)
	}
	pr := p.Promises()
	for _, x := range []Promise{PromiseMemory, PromisePids, PromiseCPUTime, PromiseFileSize, PromiseTmpSize, PromiseWrite, PromiseLifetime} {
		if !slices.Contains(pr, x) {
			t.Errorf("promises %v lack %s", pr, x)
		}
	}
	full, _ := resolve(t, newFake(nil), Request{Preset: "danger-full-access"})
	if got := full.Promises(); len(got) != 1 || got[0] != PromiseLifetime {
		t.Errorf("danger-full-access promises %v", got)
	}
}

func TestResolve_ApprovalsApart(t *testing.T) {
	p, _ := resolve(t, newFake(nil), Request{Approvals: "never"})
	if p.Preset() != "custom" || p.Mode() != "workspace-write" || p.Approvals() != "never" {
		t.Errorf("%s %s %s", p.Preset(), p.Mode(), p.Approvals())
	}
	p, _ = resolve(t, newFake(nil), Request{Approvals: "ask"})
	if p.Preset() != "workspace-write" {
		t.Errorf("preset %s", p.Preset())
	}
}

func TestRules_EveryRuleHasAnOrigin(t *testing.T) {
	f := newFake(map[string]string{
		"/home/u/.config/dshx/config.toml": "[policy]\ndeny_read = [\n  \"**/.env\",\n]\nenv=[\"A=secret-value\"]\n[[commands]]\nrule=\"deny\"\nprefix=[\"rm\"]\n",
		"/home/u/w/.dshx/config.toml":      "[policy]\ndeny_write = [\"x\"]\n",
	})
	p, _ := resolve(t, f, Request{Write: []string{"/tmp"}, Limits: Limits{Pids: 3}, AllowDomains: []string{"a.example:443"}, Env: []string{"B=other-value"}})
	seen := map[string]bool{}
	for _, r := range p.Rules() {
		if r.Origin == "" || r.Kind == "" || r.Value == "" {
			t.Errorf("incomplete line %+v", r)
		}
		if strings.Contains(r.Value+r.Text, "-value") {
			t.Errorf("line %+v shows a variable's value", r)
		}
		seen[r.Kind+" "+r.Origin] = true
	}
	for _, s := range []string{"deny-read user-config /home/u/.config/dshx/config.toml:3", "deny-write workspace-config /home/u/w/.dshx/config.toml:2",
		"write flag", "limit flag", "allow-domain flag", "env flag", "env user-config /home/u/.config/dshx/config.toml:5",
		"command user-config /home/u/.config/dshx/config.toml:6", "protected preset", "preset preset"} {
		if !seen[s] {
			t.Errorf("no line %q in %v", s, seen)
		}
	}
}

// Who may read the file of locks can hold up all that change files: uid 0 is
// not kept from it by its mode.
func TestResolve_LocksAreNotForCommands(t *testing.T) {
	for _, base := range []string{"/var/tmp", "/tmp"} {
		f := newFake(map[string]string{"/home/u/w/f": "x", base + "/dshx-1000-locks/locks": ""})
		f.wd = "/home/u/w"
		p, _ := resolve(t, f, Request{})
		wantVerdict(t, p, OpRead, base+"/dshx-1000-locks/locks", false, "other runs")
	}
}

// A dshx inside another one works in the outer one's TMPDIR.
func TestResolve_WorkspaceInAnOuterTmpDir(t *testing.T) {
	f := newFake(map[string]string{"/var/tmp/dshx-1000/outer/w/f": "x", "/var/tmp/dshx-1000/third/f": "x"})
	f.wd = "/var/tmp/dshx-1000/outer/w"
	p, _ := resolve(t, f, Request{})
	wantVerdict(t, p, OpWrite, "/var/tmp/dshx-1000/outer/w/f", true, "workspace")
	wantVerdict(t, p, OpWrite, fakeTmp+"/x", true, "TMPDIR")
	wantVerdict(t, p, OpRead, "/var/tmp/dshx-1000/outer/other", false, "other runs")
	wantVerdict(t, p, OpRead, "/var/tmp/dshx-1000/third/f", false, "other runs")
}
