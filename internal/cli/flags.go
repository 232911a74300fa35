// Package cli is dshx's command line as far as exec needs it: the flags that
// exec and its siblings share, in one table that also gives help and
// completion, and the exec command itself.
//
// It links no command framework: exec branches here before one is initialised,
// which is a large part of a short command's time.
package cli

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dshx/dshx/internal/oneshot"
	"github.com/dshx/dshx/sandboxpolicy"
)

// Flags is everything that flags can say.
type Flags struct {
	Request sandboxpolicy.Request

	Timeout, KillAfter time.Duration
	RequireFull        bool

	TTY      oneshot.TTY
	JSON     bool
	StatusFD int
	Quiet    bool
	PassFD   []int

	Unordered  bool   // JSON lines: results as calls end
	Log        string // a session log; "" for none
	TypeScript bool   // tools: their types

	Help  bool
	Ended bool    // by "--": Parse only
	Given []Given // as they were read, in their order

	LogLevel, LogFormat string // serve: "" for the default
	PrintConfig         string // serve: the client whose configuration is wanted
	Build               string // serve: the version that must be its own

	// serve --http: the address; "" for standard streams. The rest is for it alone;
	// 0 and "" are the defaults.
	HTTP           string
	HTTPAnyAddress bool
	TokenFile      string
	MaxSessions    int
	SessionIdle    time.Duration

	Check bool   // policy explain: a denial is status 1
	Store string // policy init: "user" or "workspace"; "" prints

	Follow bool   // log show: go on when the log does
	Color  string // log show: auto, always or never; "" for auto
	Out    string // log html: the file to write; "" for standard output
}

// A Flag is one flag: its name without dashes, the name of its value ("" for a
// switch), what it does, and how it's set. A name of one letter is written with one
// dash.
type Flag struct {
	Name, Value, Help string
	Set               func(f *Flags, value string) error
}

// Given is a flag that was given, with its value ("" of a switch).
type Given struct {
	*Flag
	Text string
}

// written is the flag as it is typed.
func (f *Flag) written() string {
	if len(f.Name) == 1 {
		return "-" + f.Name
	}
	return "--" + f.Name
}

// str sets a value for which the empty string is no choice: in the Request it
// means that nobody chose.
func str(at func(*Flags) *string) func(*Flags, string) error {
	return func(f *Flags, v string) error {
		if v == "" {
			return errors.New("the value is empty")
		}
		*at(f) = v
		return nil
	}
}

func list(at func(*Flags) *[]string) func(*Flags, string) error {
	return func(f *Flags, v string) error { p := at(f); *p = append(*p, v); return nil }
}

func on(at func(*Flags) *bool) func(*Flags, string) error {
	return func(f *Flags, _ string) error { *at(f) = true; return nil }
}

func oneOf(f func(*Flags, string), names ...string) func(*Flags, string) error {
	return func(fl *Flags, v string) error {
		for _, n := range names {
			if v == n {
				f(fl, v)
				return nil
			}
		}
		return fmt.Errorf("unknown value %q; there are %s", v, strings.Join(names, ", "))
	}
}

func duration(at func(*Flags) *time.Duration) func(*Flags, string) error {
	return func(f *Flags, v string) error {
		d, err := sandboxpolicy.ParseDuration(v)
		if err != nil {
			return fmt.Errorf("%s is %w", quote(v), err)
		}
		*at(f) = d
		return nil
	}
}

func size(at func(*sandboxpolicy.Limits) *int64) func(*Flags, string) error {
	return func(f *Flags, v string) error {
		n, err := sandboxpolicy.ParseSize(v)
		if err != nil {
			return fmt.Errorf("%s is %w", quote(v), err)
		}
		*at(&f.Request.Limits) = n
		return nil
	}
}

func descriptor(set func(*Flags, int)) func(*Flags, string) error {
	return func(f *Flags, v string) error {
		n, err := strconv.Atoi(v)
		if err != nil || n < 0 || n > 255 || v != strconv.Itoa(n) {
			return fmt.Errorf("%q is no descriptor (0 to 255)", v)
		}
		set(f, n)
		return nil
	}
}

// notYet is the help of a flag that the contract has and this version refuses.
const notYet = "not in this version"

// later refuses a flag, or what one of its values means; the error follows the
// flag's name.
func later(what string) func(*Flags, string) error {
	return func(*Flags, string) error {
		return errors.New(what + "not in this version of dshx; run without it")
	}
}

// Shared are the flags of exec and of every command that resolves a policy.
var Shared = []Flag{
	{"preset", "NAME", "read-only, workspace-write (default), danger-full-access, or one of the configuration", str(func(f *Flags) *string { return &f.Request.Preset })},
	{"workspace", "DIR", "the root that may be written (default: the current directory)", str(func(f *Flags) *string { return &f.Request.Workspace })},
	{"allow-broad-workspace", "", "accept / or a home directory as the workspace", on(func(f *Flags) *bool { return &f.Request.AllowBroadWorkspace })},
	{"write", "DIR", "allow writing below DIR too", list(func(f *Flags) *[]string { return &f.Request.Write })},
	{"read", "DIR", "allow reading below DIR too", list(func(f *Flags) *[]string { return &f.Request.Read })},
	{"deny-read", "PATH|GLOB", "refuse reading, whatever allows it", list(func(f *Flags) *[]string { return &f.Request.DenyRead })},
	{"deny-write", "PATH|GLOB", "refuse writing, whatever allows it", list(func(f *Flags) *[]string { return &f.Request.DenyWrite })},
	{"network", "none|loopback|full", "what internet sockets may reach (default: none)", oneOf(func(f *Flags, v string) { f.Request.Network = sandboxpolicy.Network(v) }, "none", "loopback", "full")},
	{"allow-domain", "HOST[:PORT]", notYet, later("the filtering proxy is ")},
	{"env", "NAME[=VALUE]", "add a variable; without a value the caller's", list(func(f *Flags) *[]string { return &f.Request.Env })},
	{"keep-env", "", "pass the caller's environment, but for what looks secret", on(func(f *Flags) *bool { return &f.Request.KeepEnv })},
	{"timeout", "DUR", "end the command after DUR (a Go duration, or seconds): exit status 124; of tool calls: no bash may run longer", duration(func(f *Flags) *time.Duration { return &f.Timeout })},
	{"kill-after", "DUR", "SIGKILL this long after SIGTERM (default: 5s)", duration(func(f *Flags) *time.Duration { return &f.KillAfter })},
	{"cwd", "DIR", "start there (default: the current directory; of tool calls, the workspace)", str(func(f *Flags) *string { return &f.Request.Cwd })},
	{"isolation", "auto|landlock|namespaces", "how to isolate (namespaces: not in this version)", isolation},
	{"require", "full", "refuse to run where a promise of the policy is a gap", oneOf(func(f *Flags, _ string) { f.RequireFull = true }, "full")},
	{"memory", "SIZE", "bound the address space of each process", size(func(l *sandboxpolicy.Limits) *int64 { return &l.Memory })},
	{"pids", "N", "bound the number of processes", pids},
	{"cpu-time", "DUR", "bound the processor time of each process", duration(func(f *Flags) *time.Duration { return &f.Request.Limits.CPUTime })},
	{"file-size", "SIZE", "bound the size of each file written", size(func(l *sandboxpolicy.Limits) *int64 { return &l.FileSize })},
	{"tmp-size", "SIZE", "bound the private TMPDIR (a gap in this version)", size(func(l *sandboxpolicy.Limits) *int64 { return &l.TmpSize })},
	{"config", "FILE", "read FILE instead of the user's configuration", str(func(f *Flags) *string { return &f.Request.ConfigFile })},
	{"no-config", "", "read no configuration", on(func(f *Flags) *bool { return &f.Request.NoConfig })},
}

// Exec are the further flags of exec.
var Exec = []Flag{
	{"tty", "auto|always|never", "give the command a terminal of its own (default: auto, when standard input and output are terminals)", tty},
	{"json", "", "capture the output and print one JSON object at the end", on(func(f *Flags) *bool { return &f.JSON })},
	{"status-fd", "N", "write JSON lines about start and end to descriptor N", descriptor(func(f *Flags, n int) { f.StatusFD = n })},
	{"pass-fd", "N", "leave descriptor N open in the command", descriptor(func(f *Flags, n int) { f.PassFD = append(f.PassFD, n) })},
	{"quiet", "", "no lines \"dshx: denied …\" after a failed command", on(func(f *Flags) *bool { return &f.Quiet })},
	{"dry-run", "", notYet, later("")},
	{"apply", "", notYet, later("")},
}

// Lines are the further flags of exec without a command.
var Lines = []Flag{
	{"unordered", "", "tool calls: write results as calls end, not in the order of the calls", on(func(f *Flags) *bool { return &f.Unordered })},
}

// Log is the flag of every command that makes tool calls.
var Log = []Flag{
	{"log", "FILE", "tool calls: write a session log to FILE, where no command may write", str(func(f *Flags) *string { return &f.Log })},
}

// Tools are the flags of tools.
var Tools = []Flag{
	{"json", "", "print names, descriptions and schemas as JSON", on(func(f *Flags) *bool { return &f.JSON })},
	{"typescript", "", "print the types of arguments and values", on(func(f *Flags) *bool { return &f.TypeScript })},
}

// isolation keeps nothing: the ways that this version has are one.
func isolation(f *Flags, v string) error {
	if v == "namespaces" {
		return later("namespaces are ")(f, v)
	}
	return oneOf(func(*Flags, string) {}, "auto", "landlock", "namespaces")(f, v)
}

func tty(f *Flags, v string) error {
	return oneOf(func(f *Flags, v string) {
		f.TTY = map[string]oneshot.TTY{"auto": oneshot.Auto, "always": oneshot.Always, "never": oneshot.Never}[v]
	}, "auto", "always", "never")(f, v)
}

func pids(f *Flags, v string) error {
	n, err := sandboxpolicy.ParseCount(v)
	if err != nil {
		return fmt.Errorf("%s is %w", quote(v), err)
	}
	f.Request.Limits.Pids = n
	return nil
}

// Parse reads the flags at the front of args, which end at "--" or at the
// first operand, and returns what is behind them, which is for another
// program. Every flag may be written --name VALUE or --name=VALUE; of a flag
// that isn't a list the last one counts.
//
// With an error, which is the first one's, the flags that were understood are
// returned as well: they say where the error is to be told.
//
// Errors: *sandboxpolicy.UsageError.
func Parse(args []string, tables ...[]Flag) (*Flags, []string, error) {
	f := &Flags{StatusFD: -1}
	rest, ended, err := f.parse(args, tables)
	f.Ended = ended
	if err != nil {
		return f, nil, err
	}
	return f, rest, nil
}

// ParseAll is Parse for a command whose operands are dshx's own: flags may
// stand behind them, too. After "--" everything is an operand.
func ParseAll(args []string, tables ...[]Flag) (*Flags, []string, error) {
	f := &Flags{StatusFD: -1}
	var operands []string
	for {
		rest, ended, err := f.parse(args, tables)
		if err != nil {
			return f, nil, err
		}
		if ended || f.Help || len(rest) == 0 {
			return f, append(operands, rest...), nil
		}
		operands, args = append(operands, rest[0]), rest[1:]
	}
}

// parse reads flags up to an operand or, ended, to "--". It goes on behind a
// mistake; err is the first.
func (f *Flags) parse(args []string, tables [][]Flag) (rest []string, ended bool, err error) {
	wrong := func(flag, msg string) {
		if err == nil {
			err = &sandboxpolicy.UsageError{Flag: flag, Msg: msg}
		}
	}
	for len(args) > 0 {
		arg := args[0]
		switch {
		case arg == "--":
			return args[1:], true, err
		case arg == "-h" || arg == "--help":
			f.Help = true
			return args[1:], false, err
		case len(arg) < 2 || arg[0] != '-':
			return args, false, err
		}
		typed, value, inline := strings.Cut(arg, "=")
		flag := find(tables, typed)
		args = args[1:]
		if flag == nil {
			wrong("", "unknown flag "+quote(arg)+DidYouMean("--", Nearest(strings.TrimLeft(typed, "-"), names(tables)))+"; --help lists the flags, and -- ends them")
			// With "--" still to come, what looks like an operand is its value.
			if !inline && slices.Contains(args, "--") && !strings.HasPrefix(args[0], "-") {
				args = args[1:]
			}
			continue
		}
		switch {
		case flag.Value == "" && inline:
			wrong(typed, "takes no value")
			continue
		case flag.Value != "" && !inline:
			if len(args) == 0 {
				wrong(typed, "needs a value ("+flag.Value+")")
				continue
			}
			value, args = args[0], args[1:]
		}
		if e := flag.Set(f, value); e != nil {
			wrong(typed, e.Error())
		}
		f.Given = append(f.Given, Given{flag, value})
	}
	return nil, false, err
}

// find is the flag that is typed so.
func find(tables [][]Flag, typed string) *Flag {
	for _, t := range tables {
		for i := range t {
			if t[i].written() == typed {
				return &t[i]
			}
		}
	}
	return nil
}

func names(tables [][]Flag) []string {
	var out []string
	for _, t := range tables {
		for i := range t {
			if t[i].Help != notYet && len(t[i].Name) > 1 {
				out = append(out, t[i].Name)
			}
		}
	}
	return out
}

func quote(s string) string { return strconv.Quote(s) }

// Help lists flags for people.
func Help(tables ...[]Flag) string {
	var b strings.Builder
	for _, t := range tables {
		for _, f := range t {
			left := f.written()
			if f.Value != "" {
				left += " " + f.Value
			}
			if len(left) > 28 {
				fmt.Fprintf(&b, "  %s\n  %-28s  %s\n", left, "", f.Help)
			} else {
				fmt.Fprintf(&b, "  %-28s  %s\n", left, f.Help)
			}
		}
	}
	return b.String()
}

// JSON is --json of the commands that print an object instead of text.
var JSON = []Flag{{"json", "", "print JSON", on(func(f *Flags) *bool { return &f.JSON })}}

// Explain are the further flags of policy explain.
var Explain = []Flag{{"check", "", "exit 1 where the policy denies", on(func(f *Flags) *bool { return &f.Check })}}

// Init are the flags of policy init: --write is its own, the others are shared.
var Init = append([]Flag{
	{"write", "user|workspace", "store it, unless one is there", oneOf(func(f *Flags, v string) { f.Store = v }, "user", "workspace")},
}, slices.DeleteFunc(slices.Clone(Shared), func(f Flag) bool { return f.Name == "write" })...)

// LogShow are the flags of log show.
var LogShow = []Flag{
	{"follow", "", "go on when the log does, until it is interrupted", on(func(f *Flags) *bool { return &f.Follow })},
	{"color", "auto|always|never", "colours (default: auto, on a terminal, unless NO_COLOR is set)", oneOf(func(f *Flags, v string) { f.Color = v }, "auto", "always", "never")},
}

// LogHTML are the flags of log html.
var LogHTML = []Flag{
	{"o", "OUT", "write the page to OUT (default: standard output)", str(func(f *Flags) *string { return &f.Out })},
}
