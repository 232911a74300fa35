package sandboxpolicy

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

const (
	userFile  = "/home/u/.config/dshx/config.toml"
	spaceFile = "/home/u/w/.dshx/config.toml"
)

func TestConfig_Invalid(t *testing.T) {
	for _, tt := range []struct {
		toml, key string
		line, col int
		problem   string
	}{
		{"prset = \"x\"\n", "prset", 1, 1, "unknown key"},
		{"[policy]\nred = []\n", "policy.red", 2, 1, "unknown key"},
		{"\n[polcy]\n", "polcy", 2, 2, "unknown key"},
		{"preset = 3\n", "preset", 1, 10, "wrong type (an integer)"},
		{"preset = \"nope\"\n", "preset", 1, 10, "unknown preset"},
		{"preset = \"\"\n", "preset", 1, 10, "empty"},
		{"unknown_commands = \"maybe\"\n", "unknown_commands", 1, 20, "unknown value"},
		{"preset = \"read-only\"\npreset = \"read-only\"\n", "preset", 2, 1, "already defined"},
		{"[policy]\n[policy]\n", "policy", 2, 2, "already exists"},
		{"[policy]\nread = \"x\"\n", "policy.read", 2, 8, "wrong type (a string)"},
		{"[policy]\ndeny_read = [\n \"ok\",\n \"\"]\n", "policy.deny_read", 4, 2, "empty"},
		{"[policy]\ndeny_read = [1]\n", "policy.deny_read", 2, 14, "wrong type"},
		{"[policy]\ndeny_read = [\"$HOME/x\"]\n", "policy.deny_read", 2, 14, "variables"},
		{"[policy]\ndeny_read = [\"~other/x\"]\n", "policy.deny_read", 2, 14, "~user"},
		{"[policy]\ndeny_read = [\"../x\"]\n", "policy.deny_read", 2, 14, ".."},
		{"[policy]\ndeny_read = [\"a/../../x\"]\n", "policy.deny_read", 2, 14, ".."},
		{"[policy]\ndeny_read = [\"/..\"]\n", "policy.deny_read", 2, 14, ".."},
		{"[policy]\ndeny_read = [\"x[\"]\n", "policy.deny_read", 2, 14, "unclosed ["},
		{"[policy]\nwrite = [\"*\"]\n", "policy.write", 2, 10, "pattern"},
		{"[policy]\nwrite = [\"\\u0000\"]\n", "policy.write", 2, 10, "NUL"},
		{"[policy]\nunprotect = [\".foo\"]\n", "policy.unprotect", 2, 14, "not protected"},
		{"[policy]\nnetwork = \"off\"\n", "policy.network", 2, 11, "unknown value"},
		{"[policy]\nnetwork = false\n", "policy.network", 2, 11, "wrong type (a boolean)"},
		{"[policy]\nallow_domains = [\"a:99999\"]\n", "policy.allow_domains", 2, 18, "port"},
		{"[policy]\nenv = [\"=x\"]\n", "policy.env", 2, 8, "no name"},
		{"[policy]\nenv = [\"DSHX_X\"]\n", "policy.env", 2, 8, "dshx's own"},
		{"[limits]\nmemory = \"2GB\"\n", "limits.memory", 2, 10, "malformed"},
		{"[limits]\nmemory = -1\n", "limits.memory", 2, 10, "out of range"},
		{"[limits]\npids = 0\n", "limits.pids", 2, 8, "out of range"},
		{"[limits]\npids = 1.5\n", "limits.pids", 2, 8, "wrong type"},
		{"[limits]\ncpu_time = 1979-05-27\n", "limits.cpu_time", 2, 12, "wrong type"},
		{"[limits]\ncpu-time = 1\n", "limits.cpu-time", 2, 1, "unknown key"},
		{"commands = 1\n", "commands", 1, 12, "wrong type"},
		{"[[commands]]\nprefix = [\"a\"]\n", "commands", 1, 3, "no rule"},
		{"[[commands]]\nrule = \"deny\"\n", "commands", 1, 3, "no prefix"},
		{"[[commands]]\nrule = \"deny\"\nprefix = []\n", "commands.prefix", 3, 1, "empty"},
		{"[[commands]]\nrule = \"deny\"\nprefix = [\"a\"]\nflag = []\n", "commands.flag", 4, 1, "unknown key"},
		{"[presets.read-only]\n", "presets.read-only", 1, 10, "can't be used"},
		{"[presets.\"a b\"]\n", "presets.\"a b\"", 1, 10, "can't be used"},
		{"[presets.x]\nbase = \"y\"\n", "presets.x.base", 2, 8, "unknown value"},
		{"[presets.x]\napprovals = \"maybe\"\n", "presets.x.approvals", 2, 13, "unknown value"},
		{"[presets.x.policy]\ndeny = []\n", "presets.x.policy.deny", 2, 1, "unknown key"},
		{"policy = []\n", "policy", 1, 1, "wrong type"},
		{"[[policy]]\n", "policy", 1, 3, "wrong type"},
		{"a = \n", "", 1, 5, ""},
		{"\xff\n", "", 1, 1, ""},
	} {
		f := newFake(map[string]string{userFile: tt.toml})
		_, _, err := tryResolve(f, Request{})
		var ce *ConfigError
		if !errors.As(err, &ce) || ce.Code() != "CONFIG_INVALID" {
			t.Errorf("%q: error %v, want CONFIG_INVALID", tt.toml, err)
			continue
		}
		if ce.File != userFile || ce.Line != tt.line || ce.Column != tt.col || ce.Key != tt.key || !strings.Contains(ce.Problem, tt.problem) || ce.Expected == "" {
			t.Errorf("%q: %#v, want key %q at %d:%d, problem %q", tt.toml, ce, tt.key, tt.line, tt.col, tt.problem)
		}
		if strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: error of several lines: %q", tt.toml, err)
		}
	}
}

func TestConfig_PathForms(t *testing.T) {
	f := newFake(map[string]string{userFile: "[policy]\ndeny_read = ['~/x', './y', 'z/', '/no/such', 'a/../b', 'x[1]', '~/*.key', './d/*', 'l/../up']\n", "/data/in/f": "x", "/home/u/w/l": "link:/data/in"})
	f.wd = "/tmp" // relative to the workspace, not to where the caller is
	p, _ := resolve(t, f, Request{Workspace: "/home/u/w"})
	for _, path := range []string{"/home/u/x", "/home/u/w/y", "/home/u/w/z/a", "/no/such/later", "/home/u/w/b", "/home/u/w/x1", "/home/u/a.key", "/home/u/w/d/e", "/data/up"} {
		wantVerdict(t, p, OpRead, path, false, "user-config "+userFile+":2")
	}
	for _, path := range []string{"/home/u/y", "/home/u/w/a", "/tmp/z", "/no/suchx", "/home/u/w/d", "/home/u/d.key/../e"} {
		wantVerdict(t, p, OpRead, path, true, "")
	}
}

// F7-7: nothing is widened without the user's consent, and each key that would is
// named; what narrows applies.
func TestF7_7_WorkspaceOnlyTightens(t *testing.T) {
	wide := `preset = "danger-full-access"
unknown_commands = "allow"
[policy]
read = ["/x"]
write = ["/e"]
deny_read = ["priv"]
deny_write = ["ro"]
unprotect = [".vscode/"]
network = "full"
allow_domains = ["a.example"]
env = ["AWS_SECRET_ACCESS_KEY"]
[limits]
memory = "8G"
[[commands]]
rule = "allow"
prefix = ["rm"]
[[commands]]
rule = "ask"
prefix = ["git"]
[presets.evil]
base = "danger-full-access"
`
	f := newFake(map[string]string{spaceFile: wide, userFile: "unknown_commands = \"ask\"\n[limits]\nmemory = \"1G\"\n", "/e/f": "x"})
	p, n := resolve(t, f, Request{Environ: append([]string{"AWS_SECRET_ACCESS_KEY=x"}, baseEnv...)})
	for _, key := range []string{"preset ", "unknown_commands", "policy.read", "policy.write", "policy.unprotect", "policy.network", "policy.allow_domains",
		"policy.env", "limits.memory", "commands ", "presets.evil"} {
		if !hasNotice(n, NoticeConfigIgnored, key) {
			t.Errorf("no notice names %q: %v", key, n)
		}
	}
	if hasNotice(n, "", "deny_") {
		t.Errorf("a deny was ignored: %v", n)
	}
	if m := p.MatchCommand(Fixed("rm", "x")); m.Rule != nil {
		t.Errorf("an allow rule of the workspace's is in force: %+v", m.Rule)
	}
	if m := p.MatchCommand(Fixed("git", "x")); m.Rule == nil || m.Rule.Rule != "ask" {
		t.Errorf("control: an ask rule of the workspace's is not: %+v", m.Rule)
	}
	if p.Mode() != "workspace-write" || p.Network() != NetworkNone || p.UnknownCommands() != "ask" || p.Limits().Memory != 1<<30 || len(p.AllowDomains()) != 0 {
		t.Errorf("widened: %s %s %s %d", p.Mode(), p.Network(), p.UnknownCommands(), p.Limits().Memory)
	}
	if slices.ContainsFunc(p.Environ(), func(s string) bool { return strings.HasPrefix(s, "AWS_") }) {
		t.Error("the workspace passed a secret")
	}
	if c := p.Commands(); len(c) != 1 || c[0].Rule != "ask" || c[0].Origin != "workspace-config "+spaceFile+":17" {
		t.Errorf("command rules %+v", c)
	}
	wantVerdict(t, p, OpWrite, "/e/f", false, "outside")
	wantVerdict(t, p, OpWrite, "/home/u/w/.vscode/x", false, "protected")
	wantVerdict(t, p, OpRead, "/home/u/w/priv", false, "workspace-config "+spaceFile+":6")
	wantVerdict(t, p, OpWrite, "/home/u/w/ro/x", false, "workspace-config "+spaceFile+":7")
	wantVerdict(t, p, OpWrite, spaceFile, false, "protected .dshx/")
	wantVerdict(t, p, OpWrite, userFile, false, "")
	if _, _, err := tryResolve(f, Request{Preset: "evil"}); err == nil {
		t.Error("a preset of the workspace's could be chosen")
	}

	f = newFake(map[string]string{spaceFile: "preset = \"read-only\"\nunknown_commands=\"deny\"\n[policy]\nnetwork = \"loopback\"\n", userFile: "[policy]\nnetwork = \"full\"\n"})
	p, n = resolve(t, f, Request{})
	if p.Mode() != "read-only" || p.Network() != NetworkLoopback || p.UnknownCommands() != "deny" || p.Approvals() != "never" || len(n) != 0 {
		t.Errorf("did not tighten: %s %s %s %v", p.Mode(), p.Network(), p.UnknownCommands(), n)
	}
	// The user's own flag stands.
	p, _ = resolve(t, f, Request{Preset: "workspace-write", Network: NetworkFull})
	if p.Mode() != "workspace-write" || p.Network() != NetworkFull {
		t.Errorf("a flag lost: %s %s", p.Mode(), p.Network())
	}
	// Full access of the user's, tightened by the workspace.
	f = newFake(map[string]string{spaceFile: "preset = \"workspace-write\"\n", userFile: "preset = \"danger-full-access\"\n"})
	p, _ = resolve(t, f, Request{})
	if p.Full() || p.Network() != NetworkNone || p.Preset() != "workspace-write" {
		t.Errorf("%s %s", p.Preset(), p.Network())
	}
}

// A workspace's preset may be none that somebody defines: a misspelled wish to
// tighten must not leave the wider policy in force.
func TestConfig_WorkspaceNamesAKnownPreset(t *testing.T) {
	const user = "[presets.review]\nbase = \"read-only\"\n"
	for _, tt := range []struct {
		space, user string
		flag        string
		problem     string // "" for none
		notice      bool
	}{
		{"preset = \"read-onyl\"\n", "", "", "unknown preset \"read-onyl\"", false},
		{"preset = \"read-onyl\"\n", user, "", "unknown preset \"read-onyl\"", false},
		{"preset = \"read-onyl\"\n", "", "read-only", "unknown preset \"read-onyl\"", false},
		{"preset = \"review\"\n", "", "", "unknown preset \"review\"", false},
		{"preset = \"review\"\n", user, "", "", true},
		{"preset = \"review\"\n", "preset = \"review\"\n" + user, "", "", false},
		{"preset = \"own\"\n[presets.own]\nbase = \"read-only\"\n", "", "", "", true},
		{"preset = \"read-only\"\n", "", "", "", false},
	} {
		f := newFake(map[string]string{spaceFile: tt.space})
		if tt.user != "" {
			f.put(userFile, tt.user)
		}
		_, n, err := tryResolve(f, Request{Preset: tt.flag})
		var ce *ConfigError
		switch {
		case tt.problem == "" && err != nil, tt.problem != "" && !errors.As(err, &ce):
			t.Errorf("%q with the user's %q: %v, want %q", tt.space, tt.user, err, tt.problem)
		case tt.problem != "":
			if ce.Code() != "CONFIG_INVALID" || ce.File != spaceFile || ce.Line != 1 || ce.Key != "preset" || ce.Problem != tt.problem || !strings.Contains(ce.Expected, "read-only") {
				t.Errorf("%q: %#v", tt.space, ce)
			}
		case hasNotice(n, NoticeConfigIgnored, "preset in") != tt.notice:
			t.Errorf("%q with the user's %q: notices %v", tt.space, tt.user, n)
		}
	}
}

func TestConfig_NamedPreset(t *testing.T) {
	f := newFake(map[string]string{userFile: `preset = "review"
[policy]
deny_read = ["a"]
network = "full"
[presets.review]
base = "read-only"
approvals = "ask"
policy = { network = "none", deny_read = ["b"], write = ["/e"] }
[presets.plain]
`, "/e/f": "x"})
	p, _ := resolve(t, f, Request{})
	if p.Preset() != "review" || p.Mode() != "read-only" || p.Approvals() != "ask" || p.Network() != NetworkNone {
		t.Errorf("%s %s %s %s", p.Preset(), p.Mode(), p.Approvals(), p.Network())
	}
	wantVerdict(t, p, OpRead, "/home/u/w/a", false, userFile+":3")
	wantVerdict(t, p, OpRead, "/home/u/w/b", false, userFile+":8")
	wantVerdict(t, p, OpWrite, "/e/f", true, userFile+":8")
	wantVerdict(t, p, OpWrite, "/home/u/w/x", false, "read-only")
	p, _ = resolve(t, f, Request{Preset: "plain"})
	if p.Mode() != "workspace-write" || p.Network() != NetworkFull {
		t.Errorf("%s %s", p.Mode(), p.Network())
	}
	wantVerdict(t, p, OpRead, "/home/u/w/b", true, "")
	if got := strings.Join(p.Presets(), " "); got != "read-only workspace-write danger-full-access review plain" {
		t.Errorf("presets %s", got)
	}
	// Approvals set apart make it another's name, and take none of its rules away.
	p, _ = resolve(t, f, Request{Preset: "review", Approvals: "never"})
	if p.Preset() != "custom" || p.Mode() != "read-only" || p.Approvals() != "never" || p.Network() != NetworkNone {
		t.Errorf("%s %s %s %s", p.Preset(), p.Mode(), p.Approvals(), p.Network())
	}
	wantVerdict(t, p, OpRead, "/home/u/w/b", false, userFile+":8")
	wantVerdict(t, p, OpWrite, "/e/f", true, userFile+":8")
}

func TestConfig_Unprotect(t *testing.T) {
	f := newFake(map[string]string{userFile: "[policy]\nunprotect = [\".vscode\", \".git/hooks/\"]\n"})
	p, _ := resolve(t, f, Request{})
	wantVerdict(t, p, OpWrite, "/home/u/w/.vscode/x", true, "workspace")
	wantVerdict(t, p, OpWrite, "/home/u/w/a/.git/hooks/x", true, "workspace")
	wantVerdict(t, p, OpWrite, "/home/u/w/.git/config", false, "protected")
	for _, r := range p.Protected() {
		if strings.Contains(r.Path, "vscode") || strings.HasSuffix(r.Path, ".git/hooks") {
			t.Errorf("still listed: %s", r.Path)
		}
	}
}

func TestConfig_Files(t *testing.T) {
	deny := "[policy]\ndeny_read = [\"no\"]\n"
	f := newFake(map[string]string{userFile: deny, spaceFile: "[policy]\ndeny_read = [\"ws\"]\n", "/tmp/c.toml": "[policy]\ndeny_read = [\"c\"]\n", "/x/dshx/config.toml": "[policy]\ndeny_read = [\"xdg\"]\n"})
	check := func(p *Policy, denied, free string) {
		t.Helper()
		for _, n := range strings.Fields(denied) {
			wantVerdict(t, p, OpRead, "/home/u/w/"+n, false, "deny_read")
		}
		for _, n := range strings.Fields(free) {
			wantVerdict(t, p, OpRead, "/home/u/w/"+n, true, "")
		}
	}
	p, _ := resolve(t, f, Request{})
	check(p, "no ws", "c xdg")
	p, _ = resolve(t, f, Request{ConfigFile: "/tmp/c.toml"})
	check(p, "c ws", "no xdg")
	p, _ = resolve(t, f, Request{NoConfig: true})
	check(p, "", "no ws c xdg")
	p, _ = resolve(t, f, Request{Environ: append([]string{"XDG_CONFIG_HOME=/x"}, baseEnv...)})
	check(p, "xdg ws", "no c")
	wantVerdict(t, p, OpWrite, "/x/dshx/config.toml", false, "own configuration")
	var ce *ConfigError
	if _, _, err := tryResolve(f, Request{ConfigFile: "/tmp/none.toml"}); !errors.As(err, &ce) {
		t.Errorf("a missing --config file: %v", err)
	}
	if _, _, err := tryResolve(f, Request{ConfigFile: "/tmp/c.toml", NoConfig: true}); err == nil {
		t.Error("--config with --no-config was accepted")
	}
	for _, c := range []string{"fifo", "dir", "link:loop"} {
		f := newFake(map[string]string{spaceFile: c, "/home/u/w/.dshx/loop": "link:config.toml"})
		if _, _, err := tryResolve(f, Request{}); !errors.As(err, &ce) {
			t.Errorf("a configuration that is %s: %v", c, err)
		}
	}
}

// uncomment turns every setting of the commented file on.
func uncomment(s string) string {
	var b strings.Builder
	for line := range strings.Lines(s) {
		if len(line) > 1 && line[0] == '#' && (line[1] != ' ' || strings.HasPrefix(line, "#  ")) && line != "#\n" {
			line = line[1:]
		}
		b.WriteString(line)
	}
	return b.String()
}

func TestInitFile(t *testing.T) {
	if _, err := decodeConfig("init", "user-config", []byte(InitFile())); err != nil {
		t.Errorf("as printed: %v", err)
	}
	all := uncomment(InitFile())
	c, err := decodeConfig("init", "user-config", []byte(all))
	if err != nil {
		t.Fatalf("uncommented: %v\n%s", err, all)
	}
	var got []string
	for _, v := range c.policy.unprotect {
		got = append(got, v.s)
	}
	if !slices.Equal(got, protectedNames[:]) {
		t.Errorf("unprotect lists %q, want %q", got, protectedNames[:])
	}
	if !c.preset.set() || !c.unknown.set() || len(c.commands) != 1 || len(c.presets) != 1 || c.limits[limCPUTime].n == 0 || !c.policy.network.set() {
		t.Errorf("not every setting is there: %+v", c)
	}
	// As printed it changes nothing.
	f := newFake(nil)
	before, _ := resolve(t, f, Request{})
	f.put(userFile, InitFile())
	after, n := resolve(t, f, Request{})
	if len(n) != 0 || !slices.Equal(before.Rules(), after.Rules()) {
		t.Errorf("the printed file changes the policy; notices %v", n)
	}
}

// F7-4: to allow an interpreter by its name is to allow everything, and is
// warned of.
func TestF7_4_BareInterpretersAreWarnedOf(t *testing.T) {
	for _, tt := range []struct {
		rule, prefix, flags string
		warned              bool
	}{
		{"allow", `"python3"`, "", true}, {"allow", `"python3.12"`, "", true}, {"allow", `"python"`, "", true}, {"allow", `"bash"`, "", true}, {"allow", `"sh"`, "", true}, {"allow", `"node"`, "", true},
		{"allow", `"env"`, "", true}, {"allow", `"xargs"`, "", true}, {"allow", `"/usr/bin/env"`, "", true},
		{"allow", `"python3", "a.py"`, "", false}, {"allow", `"bash", "-c"`, "", false}, {"allow", `"git"`, "", false}, {"allow", `"shfmt"`, "", false}, {"allow", `"python3"`, `"--version"`, false},
		{"ask", `"python3"`, "", false}, {"deny", `"bash"`, "", false},
	} {
		toml := "[[commands]]\nrule = \"" + tt.rule + "\"\nprefix = [" + tt.prefix + "]\n"
		if tt.flags != "" {
			toml += "flags = [" + tt.flags + "]\n"
		}
		_, n := resolve(t, newFake(map[string]string{userFile: toml}), Request{})
		if got := hasNotice(n, NoticeConfigWarning, userFile+":1 allows"); got != tt.warned || !tt.warned && len(n) > 0 {
			t.Errorf("%s %s: %v", tt.rule, tt.prefix, n)
		}
	}
}

// F7-17: a user's flag decides over any configuration, and no configuration
// widens what a flag chose.
func TestF7_17_FlagsDecide(t *testing.T) {
	for _, user := range PresetNames() {
		for _, space := range append([]string{""}, PresetNames()...) {
			files := map[string]string{userFile: "preset = \"" + user + "\"\nunknown_commands = \"ask\"\n[[commands]]\nrule = \"deny\"\nprefix = [\"rm\"]\n"}
			if space != "" {
				files[spaceFile] = "preset = \"" + space + "\"\nunknown_commands = \"allow\"\n[[commands]]\nrule = \"allow\"\nprefix = [\"rm\"]\n"
			}
			for _, flag := range append([]string{""}, PresetNames()...) {
				p, _ := resolve(t, newFake(files), Request{Preset: flag})
				want := user
				switch {
				case flag != "":
					want = flag
				case space != "" && slices.Index(PresetNames(), space) < slices.Index(PresetNames(), user):
					want = space
				}
				if p.Mode() != want {
					t.Errorf("user %s, workspace %s, flag %s: %s, want %s", user, space, flag, p.Mode(), want)
				}
				// Command rules are nobody's preset: they hold under each.
				if m := p.MatchCommand(Fixed("rm")); m.Rule == nil || m.Rule.Rule != "deny" || p.UnknownCommands() != "ask" {
					t.Errorf("user %s, workspace %s, flag %s: rule %+v, unknown %s", user, space, flag, m.Rule, p.UnknownCommands())
				}
			}
		}
	}
}
