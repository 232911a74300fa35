package commandrules_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dshx/dshx/commandrules"
	"github.com/dshx/dshx/sandboxpolicy"
)

// policy makes one of a user's configuration.
func policy(t testing.TB, config string) *sandboxpolicy.Policy {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	file, ws := filepath.Join(dir, "config.toml"), filepath.Join(dir, "ws")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(ws, 0o700); err != nil {
		t.Fatal(err)
	}
	p, _, err := sandboxpolicy.Resolve(sandboxpolicy.Request{Workspace: ws, Cwd: ws, ConfigFile: file, Environ: []string{"HOME=" + dir}}, sandboxpolicy.OSFacts{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// rules is a configuration: "deny git push", "ask make --x" and so on; a word
// that begins with - is a flag.
func rules(unknown string, list ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "unknown_commands = %q\n", unknown)
	for _, r := range list {
		words := strings.Fields(r)
		var prefix, flags []string
		for _, w := range words[1:] {
			if w[0] == '-' {
				flags = append(flags, fmt.Sprintf("%q", w))
			} else {
				prefix = append(prefix, fmt.Sprintf("%q", w))
			}
		}
		fmt.Fprintf(&b, "[[commands]]\nrule = %q\nprefix = [%s]\n", words[0], strings.Join(prefix, ", "))
		if flags != nil {
			fmt.Fprintf(&b, "flags = [%s]\n", strings.Join(flags, ", "))
		}
	}
	return b.String()
}

type row struct{ script, want string }

func check(t *testing.T, p *sandboxpolicy.Policy, rows []row) {
	t.Helper()
	for _, r := range rows {
		v := commandrules.Script(p, r.script, nil)
		wanted := r.want == v.Decision.String() || r.want == "held" && v.Decision != commandrules.Allow
		if !wanted {
			t.Errorf("%q: %s (%s), want %s", r.script, v.Decision, v.Reason, r.want)
		}
		if (v.Decision == commandrules.Allow) != (v.Reason == "") {
			t.Errorf("%q: %s with the reason %q", r.script, v.Decision, v.Reason)
		}
	}
}

// F7-1: any part that is denied denies all; any part that is not allowed is not
// approved by itself.
func TestF7_1_EverySimpleCommand(t *testing.T) {
	p := policy(t, rules("ask", "allow git status", "allow git log", "deny rm", "allow echo", "allow cat"))
	check(t, p, []row{
		// the controls
		{"git status && git log -1", "allow"},
		{"git status; git log --oneline | cat", "allow"},
		{"echo 'rm x'", "allow"},
		{`echo "rm x" rm`, "allow"},
		{"git status # rm x", "allow"},
		{"cat <<E\nrm x\nE", "allow"},
		{"cat <<'E'\n$(rm x)\nE", "allow"},
		{"git log >/dev/null 2>&1", "allow"},
		{"git log 2>&-", "allow"},
		{"cat <f", "allow"},
		{"", "allow"},
		{"x=1", "allow"},
		// what is denied
		{"git status && rm x", "deny"},
		{"git status; rm x", "deny"},
		{"git status | rm x", "deny"},
		{"git status & rm x", "deny"},
		{"git status\nrm x", "deny"},
		{"git log || rm x", "deny"},
		{"git status |& rm x", "deny"},
		{"! rm x", "deny"},
		{"time rm x", "deny"},
		{"coproc rm x", "deny"},
		{"git log $(rm x)", "deny"},
		{"git log \"$(rm x)\"", "deny"},
		{"git log `rm x`", "deny"},
		{"cat <(rm x)", "deny"},
		{"git log >(rm x)", "deny"},
		{"(rm x)", "deny"},
		{"{ rm x; }", "deny"},
		{"if rm x; then git log; fi", "deny"},
		{"if git log; then rm x; fi", "deny"},
		{"if git log; then :; elif git log; then :; else rm x; fi", "deny"},
		{"for i in 1 2; do rm x; done", "deny"},
		{"for i in $(rm x); do git log; done", "deny"},
		{"for ((i = 0; i < $(rm x); i++)); do git log; done", "deny"},
		{"while rm x; do git log; done", "deny"},
		{"until git log; do rm x; done", "deny"},
		{"select i in a; do rm x; done", "deny"},
		{"case x in a) git log ;; b) rm x ;; esac", "deny"},
		{"case $(rm x) in a) git log ;; esac", "deny"},
		{"f() { rm x; }", "deny"},
		{"function f { rm x; }; git status", "deny"},
		{"cat <<E\n$(rm x)\nE", "deny"},
		{"cat <<<$(rm x)", "deny"},
		{"x=$(rm x)", "deny"},
		{"x=($(rm x))", "deny"},
		{"x[$(rm x)]=1", "deny"},
		{"export x=$(rm x)", "deny"},
		{"echo $(( $(rm x) + 1 ))", "deny"},
		{"(( $(rm x) ))", "deny"},
		{"let \"x=$(rm x)\"", "deny"},
		{"echo ${x:-$(rm x)}", "deny"},
		{"echo ${x/a/$(rm x)}", "deny"},
		{"[[ -n $(rm x) ]]", "deny"},
		{"git log 2>$(rm x)", "deny"},
		{"echo \"a $(echo \"b $(echo \"$(rm x)\")\")\"", "deny"},
		// what no rule allows
		{"git log > f", "ask"},
		{"git log >> f", "ask"},
		{"git log >| f", "ask"},
		{"git log &> f", "ask"},
		{"git log >& f", "ask"},
		{"git log 2> f", "ask"},
		{"git log <> f", "ask"},
		{"{ git log; } > f", "ask"},
		{"> f", "ask"},
		{"git statusx", "ask"},
		{"git stash", "ask"},
		{"git", "ask"},
		{"git -C x status", "ask"},
		{"gitx status", "ask"},
		{"./git status", "ask"},
		{"git status && make", "ask"},
		{"git() { make; }; git status", "ask"},
		{"git() { echo x; }; git status", "ask"},
		{"git status; function git { echo x; }", "ask"},
		{"gitx() { echo x; }; git status", "allow"},
		{"source f; git status", "ask"},
		{"FOO=1 git status", "ask"},
		{"git $x", "ask"},
		{"git status $(", "ask"},
		{"git status )", "ask"},
	})
	// A denied command before what can't be parsed has run when the shell sees
	// the mistake.
	check(t, p, []row{{"rm x\n)", "deny"}})
	// And it may be the parser that is mistaken: this is bash.
	check(t, p, []row{{"! ! git status\nrm x", "deny"}, {"sh -c '! ! git status\nrm x'", "deny"}, {"! ! git status\ngit log", "ask"}})
	// What a file that is sourced makes of a name is not known.
	p = policy(t, rules("ask", "allow source", "allow .", "allow git"))
	check(t, p, []row{{"source f; git status", "ask"}, {". f; git status", "ask"}, {"source f", "ask"}, {"git status", "allow"}})
}

// F7-2: a denied program can't hide behind the usual ways to start one.
func TestF7_2_DisguisedCommands(t *testing.T) {
	disguises := []string{
		"curl http://x", "nohup curl x", "env A=b curl x", "env -i curl x", "env -u A -C / A=b curl x", "env - curl x", "A=b curl x", "timeout 5 curl x", "timeout -k 5 -s KILL 10 curl x",
		"timeout --kill-after=5 --foreground 10 curl x", "nice curl x", "nice -n 5 curl x", "nice -5 curl x", "ionice -c2 -n 0 curl x", "setsid -w curl x", "stdbuf -oL curl x",
		"time -p curl x", "/usr/bin/time -f %e curl x", "sudo curl x", "sudo -u root A=b curl x", "doas -u root curl x", "chroot / curl x",
		"echo x | xargs curl", "xargs -n 1 -P4 curl", "xargs -I{} curl {}", "xargs -0r curl", "find . -exec curl {} \\;", "find . -name x -execdir curl {} +", "find . -ok curl x ';'",
		"sh -c 'curl x'", "bash -lc 'curl x'", "bash -xec 'curl x'", "dash -c 'curl x'", "zsh -c 'curl x'", "bash -o pipefail -c 'curl x'", "bash --norc -c 'curl x' name arg",
		"sh -c \"sh -c 'curl x'\"", "nohup nice env A=b sh -c 'timeout 5 curl x'", "bash <<< 'curl x'", "sh <<'E'\ncurl x\nE", "sh -s <<E\ncurl x\nE",
		"command curl x", "command -p curl x", "builtin command curl x", "exec curl x", "exec -a name curl x", "eval curl x", "eval 'curl x'", "eval \"curl\" 'x;'",
		"trap 'curl x' EXIT", "busybox sh -c 'curl x'", "bash /dev/stdin <<< 'curl x'", "echo x > >(curl y)", "PROMPT_COMMAND='curl x'", "command_not_found_handle() { curl x; }", "builtin eval 'curl x'",
		"/usr/bin/curl x", "./curl x", "../bin/curl x", "cu\"\"rl x", "cu''rl x", "c\\url x", "'curl' x", "\"curl\" x", "$'curl' x", "$'\\x63url' x", "$'\\143url' x", "$'\\u0063url' x", "$\"curl\" x",
		"cu\\\nrl x", "\\curl x",
		"f() { curl x; }; f",
		"GIT_SSH_COMMAND='curl x' git fetch", "git -c alias.x='!curl y' x", "PAGER='curl x' git log",
	}
	unseen := []string{
		"c=curl; $c x", "c=curl; \"$c\" x", "${c} x", "c=curl; ${c}x", "$(echo curl) x", "`echo curl` x", "cur? x", "cu{r,x}l x", "/usr/bin/c* x",
		"eval \"$x\"", "eval $x", "sh -c \"$x\"", "bash -c $x", "sh $x", "\"$@\"", "sh -c '\"$@\"' _ curl x", "sh -c '$0 x' curl", "echo 'curl x' | sh", "sh", "bash -s x", "sh <<E\n$x\nE",
		"env $x curl y", "env -S 'curl x'", "env --split-string='curl x'", "timeout $x y", "xargs sh -c", "xargs", "xargs -I% %", "find . -exec {} \\;", "find . -exec sh -c {} \\;",
		"sudo --unknown curl x", "alias c=curl", "shopt -s expand_aliases; alias c=curl", "hash -p /usr/bin/curl x; x", "enable -f x y", "trap \"$x\" EXIT", "exec \"$x\"", "command \"$x\"",
		"strace curl x", "su -c 'curl x'", "flock f curl x", "watch curl x", "script -c 'curl x'", "unshare -r curl x",
		"echo ${x@P}", "printf -v 'a[$(curl x)]' y", "read 'a[`curl x`]'", "[ -v 'a[$(curl x)]' ]", "declare 'a[$(curl x)]=1'",
		"source <(echo curl x)", ". /dev/stdin <<< 'curl x'", ". \"$x\"", "bash <(echo 'curl x')", "bash /dev/fd/3 3<<< 'curl x'", "compgen -C 'curl x'", "jobs -x curl y",
		"/lib64/ld-linux-x86-64.so.2 /usr/bin/curl x", "[[ -v 'a[$(curl x)]' ]]", "[[ 'a[$(curl x)]' -eq 0 ]]", "a=(curl x); \"${a[@]}\"", "f() { \"$@\"; }; f curl x", "PS4='$(curl x)'; set -x",
		"curl(", "if curl", "\"", "$(",
	}
	for _, unknown := range []string{"allow", "ask"} {
		p := policy(t, rules(unknown, "deny curl", "allow git"))
		for _, s := range disguises {
			check(t, p, []row{{s, "deny"}})
		}
		for _, s := range unseen {
			if s == "xargs" {
				continue
			}
			check(t, p, []row{{s, "held"}})
		}
		// Values that carry code make an allowed command one that asks.
		check(t, p, []row{
			{"GIT_SSH_COMMAND=x git fetch", "ask"},
			{"GIT_SSH_COMMAND=... git fetch", "ask"},
			{"PAGER=... git help", "ask"},
			{"GIT_PAGER=x git log", "ask"},
			{"EDITOR=x git commit", "ask"},
			{"LD_PRELOAD=... git log", "ask"},
			{"LD_PRELOAD=$x git log", "ask"},
			{"env LD_PRELOAD=x git log", "ask"},
			{"env LD_PRELOAD=\"$x\" git log", "ask"},
			{"export LD_PRELOAD=x; git log", "ask"},
			{"declare -x LD_PRELOAD=x; git log", "ask"},
			{"PATH=/tmp:$PATH; git log", "ask"},
			{"read PATH; git log", "ask"},
			{"printf -v PATH x; git log", "ask"},
			{"for PATH in /tmp; do git log; done", "ask"},
			{": ${PATH:=/tmp}; git log", "ask"},
			{"declare -n x=PATH; x=/tmp; git log", "ask"},
			{"HOME=/tmp git log", "ask"},
			{"PAGER=x sh -c 'git log'", "ask"},
			{"git -c core.sshCommand=... fetch", "ask"},
			{"git -c core.pager=x log", "ask"},
			{"git -c alias.log=x log", "ask"},
			{"git -c \"$x\" log", "ask"},
			{"git $x log", "ask"},
			{"git --exec-path=/tmp log", "ask"},
			{"git --config-env=core.pager=X log", "ask"},
			{"git --git-dir=/tmp/x log", "ask"},
			{"git fetch --upload-pack=x y", "ask"},
			{"git fetch --upload-p x y", "ask"},
			{"git rebase -x make", "ask"},
			{"git grep -Ovi x", "ask"},
			{"git clone ext::sh%20x", "ask"},
			{"git submodule foreach make", "ask"},
			{"git bisect run make", "ask"},
		})
		// The controls: what only looks like one of these.
		check(t, p, []row{
			{"TZ=UTC git log", "allow"},
			{"LC_ALL=C git log", "allow"},
			{"NODE_ENV=test git log", "allow"},
			{"git -c user.name=\"$x\" log", "allow"},
			{"TZ=UTC timeout 5 git log", "allow"},
			{"env TZ=UTC git log", "allow"},
			{"git -c color.ui=never log", "allow"},
			{"git -C sub log", "allow"},
			{"git log -- $x", "allow"},
			{"git commit -m 'curl x'", "allow"},
			{"git log | git log", "allow"},
			{"nohup nice git log", "allow"},
			{"sh -c 'git log'", "allow"},
			{"eval 'git log'", "allow"},
			{"/usr/bin/git log", "allow"},
			{"command -v curl", map[string]string{"allow": "allow", "ask": "ask"}[unknown]},
		})
	}
	p := policy(t, rules("allow", "deny curl"))
	check(t, p, []row{
		{"echo curl", "allow"}, {"curlx", "allow"}, {"make; ./build.sh $x", "allow"}, {"for f in *.go; do gofmt -l \"$f\"; done", "allow"},
		{"bash build.sh curl", "allow"}, {"source venv/bin/activate && python x.py", "allow"}, {"xargs", "allow"}, {"find . -name curl", "allow"},
		{"grep curl $f > out", "allow"}, {"command -v curl", "allow"},
		{"PYTHONPATH=. python x", "allow"}, {"PATH=/x:$PATH make", "allow"}, {"LD_LIBRARY_PATH=. ./x", "allow"}, {"PAGER=less git log", "allow"}, {"PAGER=$x git log", "ask"}, {"git -c \"$x\" log", "ask"},
		{"git -c user.name=\"$x\" commit", "allow"}, {"git -c core.pager=\"$x\" log", "ask"}, {"git -c core.hooksPath=\"$x\" log", "allow"}, {"git fetch --upload-pack=\"$x\"", "ask"},
	})
	// Without a rule that refuses, nothing has to be seen.
	p = policy(t, rules("allow", "allow git"))
	check(t, p, []row{{"$x", "allow"}, {"eval \"$x\"", "allow"}, {")", "allow"}, {"PYTHONPATH=. python x", "allow"}, {"PAGER=x git log", "ask"}})
	// To allow a command is not to allow it as somebody else.
	p = policy(t, rules("ask", "allow git"))
	check(t, p, []row{{"sudo git log", "ask"}, {"doas git log", "ask"}, {"busybox git log", "ask"}, {"chroot x git log", "ask"}, {"timeout 5 git log", "allow"}})
	p = policy(t, rules("deny", "allow git"))
	check(t, p, []row{{"git log", "allow"}, {"$x", "deny"}, {")", "deny"}, {"make", "deny"}, {"git log >f", "deny"}})
}

// What git push --force means, however it is written.
func TestFlags(t *testing.T) {
	p := policy(t, rules("allow", "deny git push --force -f", "ask git push", "ask docker rm"))
	check(t, p, []row{
		{"git push --force", "deny"}, {"git push origin main --force", "deny"}, {"git push -f", "deny"}, {"git push -uf origin", "deny"}, {"git push --forc", "deny"},
		{"git -C x push --force", "deny"}, {"git -c color.ui=always --no-pager push -f", "deny"}, {"git --git-dir=x push -f", "deny"}, {"git --force push", "deny"},
		{"git push --force=x", "deny"},
		{"git push", "ask"}, {"git push --force-with-lease", "ask"}, {"git push origin $x", "ask"}, {"git push \"$x\"", "ask"}, {"git -C x push", "ask"}, {"git \"$x\" push", "ask"}, {"git $x", "ask"},
		{"git log --force", "allow"}, {"git stash push -f", "allow"}, {"git commit -m push -f", "allow"}, {"git log $x", "allow"}, {"git log \"$x\" push", "allow"},
		{"docker --context x rm y", "ask"}, {"docker run rm", "allow"},
	})
	allow := policy(t, rules("ask", "allow go test -v"))
	check(t, allow, []row{{"go test -v", "allow"}, {"go test ./... -v", "allow"}, {"go test", "ask"}, {"go test -vx", "ask"}, {"go test -- -v", "ask"}, {"go -v test", "ask"}})
}

func TestArgv(t *testing.T) {
	p := policy(t, rules("allow", "deny git push -f", "ask make"))
	for _, tt := range []struct {
		argv []string
		want commandrules.Decision
	}{
		{[]string{"git", "push", "-f"}, commandrules.Deny},
		{[]string{"/usr/bin/git", "push", "-f"}, commandrules.Deny},
		{[]string{"env", "A=b", "git", "push", "-f"}, commandrules.Deny},
		{[]string{"sh", "-c", "git push -f"}, commandrules.Deny},
		{[]string{"sh", "-c", "git push"}, commandrules.Allow},
		{[]string{"sh", "-c", "$x"}, commandrules.Ask},
		{[]string{"git", "push"}, commandrules.Allow},
		{[]string{"git", "push", "$x"}, commandrules.Allow},
		{[]string{"echo", "git push -f;", "$(make)"}, commandrules.Allow},
		{[]string{"make"}, commandrules.Ask},
		{[]string{"/opt/make/"}, commandrules.Ask},
		{[]string{""}, commandrules.Allow},
	} {
		if v := commandrules.Argv(p, tt.argv); v.Decision != tt.want {
			t.Errorf("%q: %s (%s), want %s", tt.argv, v.Decision, v.Reason, tt.want)
		}
	}
}

// A verdict says which part, which rule, and where the rule stands.
func TestVerdict_SaysWhy(t *testing.T) {
	p := policy(t, rules("allow", "deny git push --force"))
	v := commandrules.Script(p, "make && git push\t--force origin; echo x", nil)
	if v.Decision != commandrules.Deny || v.Command != "git push\t--force origin" || v.Rule.Text != "deny git push with one of --force" ||
		!strings.HasPrefix(v.Rule.Origin, "user-config ") || !strings.HasSuffix(v.Rule.Origin, "config.toml:2") {
		t.Errorf("%+v", v)
	}
	if !strings.Contains(v.Reason, "`git push --force origin`") || !strings.Contains(v.Reason, v.Rule.Origin) {
		t.Errorf("reason %q", v.Reason)
	}
	v = commandrules.Script(p, "git push --force '\x1b[2J\u202e"+strings.Repeat("x", 1000)+"'", nil)
	if strings.ContainsAny(v.Reason, "\x1b\u202e") || len(v.Reason) > 700 {
		t.Errorf("reason %q", v.Reason)
	}
	if v := (commandrules.Verdict{}); v.Decision != commandrules.Deny {
		t.Error("the zero verdict allows")
	}
}

func TestScript_Environment(t *testing.T) {
	p := policy(t, rules("allow", "allow git", "deny curl"))
	for env, want := range map[string]commandrules.Decision{
		"TZ=UTC": commandrules.Allow, "FOO=1": commandrules.Allow, "PATH=/tmp": commandrules.Ask, "GIT_SSH_COMMAND=curl x": commandrules.Deny, "LD_PRELOAD=x": commandrules.Ask,
	} {
		name, value, _ := strings.Cut(env, "=")
		if v := commandrules.Script(p, "git log", map[string]string{name: value}); v.Decision != want {
			t.Errorf("%s: %s (%s), want %s", env, v.Decision, v.Reason, want)
		}
	}
}

// No script takes long, however it is nested; see maxNested.
func TestScript_Bounded(t *testing.T) {
	p := policy(t, rules("allow", "deny curl"))
	for _, unit := range []string{"(", "{ ", "$(", "\"$(", "`", "if ", "while ", "((", "$((", "<(", "${a:-", "a|", "a&&", "a;", "env ", "nohup ", "sh -c ", "eval ", "f()", "[[ ", "case x in x) ",
		"cat <<E\n", "$[", "a=(", "'a'", "\\", "find . -exec ", "xargs ", "sudo -u ", "git -c ", "$'\\x63"} {
		script := strings.Repeat(unit, (128<<10-1)/len(unit))
		done := make(chan commandrules.Verdict, 1)
		go func() { done <- commandrules.Script(p, script, nil) }()
		select {
		case <-done:
		case <-time.After(time.Minute): // what isn't linear takes hours
			t.Fatalf("%q, again and again, takes more than a minute", unit)
		}
	}
	// Scripts in scripts.
	script := "curl x"
	for range 8 {
		script = "sh -c '" + strings.ReplaceAll(script, "'", `'\''`) + "'"
	}
	check(t, p, []row{{script, "ask"}, {strings.Repeat("nohup ", 20) + "curl", "ask"}, {strings.Repeat("nohup ", 10) + "curl", "deny"}})
}
