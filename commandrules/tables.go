package commandrules

import (
	"strings"

	"github.com/dshx/dshx/sandboxpolicy"
)

// What follows is data: how commands that run commands take their arguments,
// by their manual pages, and what gives a program other code to run.

// wrapping is how a command takes the one that it runs.
type wrapping struct {
	letters string // options of one letter that take a value
	flags   string // options of one letter that take none
	values  string // long options that take a value, as words
	bare    string // long options that take none, as words
	// operands are how many words stand before the command. assigns: NAME=VALUE
	// may, too.
	operands int
	assigns  bool
	// lookup are flags with which nothing is run.
	lookup string
	// digits: -5 is an option. more: the command gets further words. own: a rule
	// that allows the command does not allow to run it by this one.
	digits, more, own bool
}

func wrapperOf(base string) (*wrapping, bool) {
	switch base {
	case "nohup":
		return &wrapping{}, true
	case "busybox", "toybox":
		return &wrapping{own: true}, true
	case "env":
		return &wrapping{letters: "uC", flags: "i0v", values: "unset chdir argv0", bare: "ignore-environment null debug block-signal default-signal ignore-signal list-signal-handling", assigns: true}, true
	case "timeout":
		return &wrapping{letters: "ks", flags: "vpf", values: "kill-after signal", bare: "verbose preserve-status foreground", operands: 1}, true
	case "nice":
		return &wrapping{letters: "n", values: "adjustment", digits: true}, true
	case "ionice":
		return &wrapping{letters: "cn", flags: "t", values: "class classdata", bare: "ignore"}, true
	case "setsid":
		return &wrapping{flags: "cfw", bare: "ctty fork wait"}, true
	case "stdbuf":
		return &wrapping{letters: "ioe", values: "input output error"}, true
	case "time":
		return &wrapping{letters: "fo", flags: "apqv", values: "format output", bare: "append portability quiet verbose"}, true
	case "command":
		return &wrapping{flags: "p", lookup: "vV"}, true
	case "builtin":
		return &wrapping{}, true
	case "exec":
		return &wrapping{letters: "a", flags: "cl"}, true
	case "sudo":
		return &wrapping{letters: "ugpCcDRrtThU", flags: "AbEHnPSNBis", lookup: "lvKkeV", values: "user group prompt close-from chdir chroot role type command-timeout host other-user",
			bare: "askpass background set-home non-interactive preserve-groups stdin no-update bell login shell preserve-env", assigns: true, own: true}, true
	case "doas":
		return &wrapping{letters: "uCa", flags: "ns", lookup: "L", own: true}, true
	case "chroot":
		return &wrapping{values: "groups userspec", bare: "skip-chdir", operands: 1, own: true}, true
	case "xargs":
		return &wrapping{letters: "IadELnPs", flags: "0rtpxoeil", values: "arg-file delimiter max-args max-procs max-chars process-slot-var",
			bare: "null no-run-if-empty verbose interactive exit show-limits open-tty eof replace max-lines", more: true}, true
	}
	return nil, false
}

func hasWord(list, word string) bool {
	for w := range strings.FieldsSeq(list) {
		if w == word {
			return true
		}
	}
	return false
}

// strip is the command that argv runs, as far as it can be told. seen is false
// where it may be another.
func (w *wrapping) strip(argv []sandboxpolicy.Word, assign func(string)) (run []sandboxpolicy.Word, seen bool) {
	seen = true
	i := 1
	replace := "" // of xargs: what stands for its input
options:
	for ; i < len(argv); i++ {
		t := argv[i].Text
		if !argv[i].Fixed {
			if name, _, ok := strings.Cut(t, "="); ok && w.assigns && isName(name) {
				assign(t) // with a value that isn't known
				continue
			}
			break
		}
		switch {
		case t == "--":
			i++
			break options
		case t == "-" && w.assigns: // env -: -i
		case len(t) < 2 || t[0] != '-':
			break options
		case strings.HasPrefix(t, "--"):
			name, value, valued := strings.Cut(t[2:], "=")
			switch {
			case hasWord(w.values, name):
				if !valued {
					i++
				}
			case hasWord(w.bare, name):
				if name == "replace" {
					replace = "{}"
					if valued {
						replace = value
					}
				}
			case name == "help" || name == "version":
				return nil, true
			default:
				seen = false // it may take the next word or not
			}
		case w.digits && strings.Trim(t[1:], "0123456789-+") == "":
		default:
			for k := 1; k < len(t); k++ {
				o := t[k : k+1]
				switch {
				case strings.Contains(w.lookup, o):
					return nil, true
				case strings.Contains(w.letters, o):
					value := t[k+1:]
					if value == "" && i+1 < len(argv) {
						i++
						value = argv[i].Text
						seen = seen && !argv[i].Many
					}
					if o == "I" && w.more {
						replace = value
					}
					k = len(t)
				case w.more && strings.Contains("eil", o): // with a value only in the same word
					if o == "i" {
						if replace = t[k+1:]; replace == "" {
							replace = "{}"
						}
					}
					k = len(t)
				case strings.Contains(w.flags, o):
				default:
					seen = false
				}
			}
		}
	}
	for n := 0; n < w.operands && i < len(argv); n++ {
		seen = seen && !argv[i].Many
		i++
	}
	for w.assigns && i < len(argv) {
		name, _, ok := strings.Cut(argv[i].Text, "=")
		if !ok || argv[i].Many || !isName(name) {
			break
		}
		assign(argv[i].Text)
		i++
	}
	if i >= len(argv) {
		return nil, seen
	}
	run = argv[i:]
	if w.more {
		run = append([]sandboxpolicy.Word(nil), run...)
		for k := range run {
			if replace != "" && strings.Contains(run[k].Text, replace) {
				run[k] = sandboxpolicy.Word{}
			}
		}
		if replace == "" {
			run = append(run, sandboxpolicy.Word{Many: true})
		}
	}
	return run, seen
}

// isName reports what can be a variable for a command: env(1) takes any name.
func isName(s string) bool { return s != "" && s[0] != '-' && !strings.Contains(s, "/") }

func isShell(base string) bool {
	switch base {
	case "sh", "bash", "rbash", "dash", "ash", "zsh", "ksh", "mksh", "fish", "yash":
		return true
	}
	return false
}

// runsOthers are commands that run what their arguments say in ways that are not
// looked into.
func runsOthers(base string) bool {
	switch base {
	case "su", "runuser", "script", "watch", "parallel", "strace", "ltrace", "gdb", "valgrind", "unshare", "nsenter", "chrt", "taskset",
		"setpriv", "prlimit", "flock", "choom", "setarch", "linux32", "linux64", "start-stop-daemon", "systemd-run", "dbus-run-session",
		"dbus-launch", "ssh-agent", "xvfb-run", "expect", "unbuffer", "rlwrap", "entr", "at", "batch", "crontab", "dshx", "pkexec", "run-parts":
		return true
	}
	return strings.HasPrefix(base, "ld-") || strings.HasPrefix(base, "ld.so") // the loader: ld.so(8)
}

// codeFile reports a file that is no file of code, but what the script gives:
// the other end of a pipe, or a here-document.
func codeFile(w sandboxpolicy.Word) bool {
	return strings.HasPrefix(w.Text, "/dev/fd/") || strings.HasPrefix(w.Text, "/proc/self/fd/") || w.Text == "/dev/stdin"
}

// assigns are builtins whose operands are names of variables.
func assigns(base string) bool {
	switch base {
	case "read", "printf", "mapfile", "readarray", "getopts", "wait", "unset", "let", "test", "[",
		"export", "declare", "typeset", "local", "readonly":
		return true
	}
	return false
}

// carries reports a variable that gives some program code to run, or another
// place to take its code or its configuration from.
func carries(name string) bool {
	if harmless(name) {
		return false
	}
	for _, prefix := range [...]string{"LD_", "DYLD_", "PYTHON", "PERL", "RUBY", "GEM_", "NODE_", "npm_config_", "NPM_CONFIG_", "CARGO_", "RUSTC",
		"PIP_", "UV_", "LUA_", "BASH_FUNC_", "JAVA_", "GIT_CONFIG", "GIT_PROXY"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	for _, suffix := range [...]string{"PAGER", "EDITOR", "BROWSER", "ASKPASS", "_RSH", "_SSH", "_SSH_COMMAND", "_COMMAND"} {
		if strings.HasSuffix(name, suffix) {
			return true
		}
	}
	switch name {
	case "PATH", "HOME", "SHELL", "ENV", "BASH_ENV", "PS0", "PS1", "PS2", "PS4", "VISUAL", "FCEDIT", "LESSOPEN", "LESSCLOSE", "LESS", "MANOPT",
		"XDG_CONFIG_HOME", "XDG_CONFIG_DIRS", "XDG_DATA_HOME", "XDG_DATA_DIRS",
		"GIT_DIR", "GIT_COMMON_DIR", "GIT_WORK_TREE", "GIT_EXEC_PATH", "GIT_TEMPLATE_DIR", "GIT_EXTERNAL_DIFF", "GIT_ALLOW_PROTOCOL", "GIT_NAMESPACE",
		"GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_ATTR_SOURCE", "GIT_SSH_VARIANT",
		"MAKEFLAGS", "MAKEFILES", "GNUMAKEFLAGS", "MFLAGS", "CC", "CXX", "LD", "AR", "AS", "CPP", "GOFLAGS", "GOENV", "GOROOT", "RUSTFLAGS",
		"_JAVA_OPTIONS", "JDK_JAVA_OPTIONS", "CLASSPATH", "MAVEN_OPTS", "GRADLE_OPTS", "ANT_OPTS", "TAR_OPTIONS", "GCONV_PATH", "LOCPATH",
		"GLIBC_TUNABLES", "OPENSSL_CONF", "OPENSSL_ENGINES", "HGRCPATH", "KUBECONFIG", "AWS_CONFIG_FILE", "DOCKER_HOST", "CURL_HOME", "WGETRC",
		"RIPGREP_CONFIG_PATH", "VIMINIT", "EXINIT", "INPUTRC", "PHPRC", "PHP_INI_SCAN_DIR", "R_PROFILE", "PKG_CONFIG", "FZF_DEFAULT_OPTS":
		return true
	}
	return false
}

// holdsCommand reports a variable or a key of git's configuration whose value
// is a command line.
func holdsCommand(name string) bool {
	name = strings.ToLower(name)
	for _, suffix := range [...]string{"pager", "editor", "browser", "askpass", "_rsh", "_ssh", "command", "lessopen", "lessclose", "visual", "fcedit", "git_external_diff",
		".cmd", ".textconv", ".external", ".helper", ".program", ".driver", ".clean", ".smudge", ".process", ".fsmonitor"} {
		if strings.HasSuffix(name, suffix) {
			return true
		}
	}
	return strings.HasPrefix(name, "alias.")
}

// harmless reports a variable that changes how a program shows things, and is
// covered by a rule that allows the program.
func harmless(name string) bool {
	switch name {
	case "TZ", "LANG", "LANGUAGE", "TERM", "COLORTERM", "COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "CI",
		"NODE_ENV", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE", "PYTHONIOENCODING", "PYTHONUTF8", "PYTHONHASHSEED", "CARGO_TERM_COLOR", "RUST_BACKTRACE",
		"GOOS", "GOARCH", "CGO_ENABLED", "DEBIAN_FRONTEND",
		"GIT_TERMINAL_PROMPT", "GIT_OPTIONAL_LOCKS", "GIT_MERGE_AUTOEDIT",
		"GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_AUTHOR_DATE", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL", "GIT_COMMITTER_DATE":
		return true
	}
	return strings.HasPrefix(name, "LC_")
}

// option is what of a command's own options gives it code to run.
func (a *analysis) option(base string, argv []sandboxpolicy.Word, c context) string {
	if base != "git" {
		return ""
	}
	found := ""
	carry := func(what string) {
		if found == "" {
			found = what
		}
	}
	global := true // before the subcommand
	sub := ""
	for i := 1; i < len(argv); i++ {
		w := argv[i]
		t := w.Text
		if !w.Fixed {
			if global && w.Many {
				carry("an option that only shows when it runs")
			}
			if strings.HasPrefix(t, "--") {
				t, _, _ = strings.Cut(t, "=")
			} else {
				continue
			}
		}
		switch {
		case global && t == "-c" || global && t == "--config-env":
			if i++; i < len(argv) {
				key, value, known := strings.Cut(argv[i].Text, "=")
				switch {
				case !known && !argv[i].Fixed:
					carry("a setting that only shows when it runs")
					a.hide(c, "a setting of git's that may be a command")
				case !harmlessKey(key):
					carry("git's setting " + key)
					a.code(key, sandboxpolicy.Word{Text: value, Fixed: argv[i].Fixed && t == "-c"}, c)
				}
			}
		case global && (strings.HasPrefix(t, "--config-env=") || strings.HasPrefix(t, "--exec-path=")),
			global && (t == "--git-dir" || strings.HasPrefix(t, "--git-dir=")):
			name, _, _ := strings.Cut(t, "=")
			carry("git's option " + name)
		case global && (t == "-C" || t == "--work-tree" || t == "--namespace" || t == "--attr-source"):
			i++
		case global && !strings.HasPrefix(t, "-"):
			global, sub = false, t
		case codeOption(sub, t):
			name, value, valued := strings.Cut(t, "=")
			carry("git's option " + name)
			if !valued && i+1 < len(argv) {
				value = argv[i+1].Text
			}
			a.code(name+"-command", sandboxpolicy.Word{Text: value, Fixed: w.Fixed && value != ""}, c)
		case strings.HasPrefix(t, "ext::"):
			carry("the address " + clip(t))
			a.code("ext-command", sandboxpolicy.Word{Text: strings.TrimPrefix(t, "ext::"), Fixed: true}, c)
		case sub == "bisect" && t == "run" || sub == "submodule" && t == "foreach":
			a.hide(c, "git "+sub+" "+t+" runs what its arguments say")
		}
	}
	if sub == "filter-branch" || sub == "difftool" || sub == "mergetool" {
		a.hide(c, "git "+sub+" runs what its arguments say")
	}
	return found
}

// codeOption reports an option of a subcommand of git that names a command;
// long ones may be abbreviated.
func codeOption(sub, t string) bool {
	name, _, _ := strings.Cut(t, "=")
	if len(name) >= 4 && strings.HasPrefix(name, "--") {
		for _, o := range [...]string{"--upload-pack", "--receive-pack", "--exec", "--open-files-in-pager", "--extcmd", "--ext-diff"} {
			if strings.HasPrefix(o, name) {
				return true
			}
		}
	}
	switch sub {
	case "grep":
		return strings.HasPrefix(t, "-O")
	case "rebase", "difftool":
		return strings.HasPrefix(t, "-x")
	case "fetch-pack", "clone":
		return t == "-u"
	}
	return false
}

// harmlessKey reports a key of git's configuration that gives nothing to run.
func harmlessKey(key string) bool {
	key = strings.ToLower(key)
	for _, prefix := range [...]string{"color.", "advice.", "column.", "i18n.", "log.", "status.", "blame.", "init.defaultbranch", "user.", "author.", "committer.",
		"core.quotepath", "core.abbrev", "core.autocrlf", "core.eol", "core.filemode", "core.ignorecase", "diff.renames", "diff.context", "diff.noprefix",
		"diff.algorithm", "push.default", "pull.rebase", "pull.ff", "merge.conflictstyle", "fetch.prune", "safe.directory", "commit.gpgsign", "tag.gpgsign", "gc.auto"} {
		if strings.HasPrefix(key, prefix) {
			return true
		}
	}
	return false
}

// hasOption reports an option of one letter.
func hasOption(argv []sandboxpolicy.Word, letter byte) bool {
	for _, w := range argv[1:] {
		if w.Fixed && len(w.Text) > 1 && w.Text[0] == '-' && strings.IndexByte(w.Text, letter) > 0 {
			return true
		}
	}
	return false
}
