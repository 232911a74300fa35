package early

import (
	"io"
	"os"
	"runtime"

	"github.com/dshx/dshx/internal/cli"
	"github.com/dshx/dshx/internal/oneshot"
	"github.com/dshx/dshx/sandboxpolicy"
)

// ExecUsage is what `dshx exec --help` prints.
func ExecUsage() string {
	return `Run one command under a policy that the kernel enforces.

Usage:
  dshx exec [flags] [--] COMMAND [ARG...]
  dshx exec [flags] < CALLS            tool calls, one JSON object a line

Flags end at the first operand or at --; everything behind is the command, byte
for byte. Its exit status is dshx's; besides, 124: timed out, 125: dshx could
not set the sandbox up or start the command, 126: not executable, 127: not
found, 128+n: ended by signal n, 2: usage.

Flags:
` + cli.Help(cli.Shared, cli.Exec, cli.Lines, cli.Log)
}

// ExecMain is `dshx exec ARGS` with a command; it returns the exit status. It is
// not done where there is no command, no "--" and standard input is no terminal: then
// tool calls come in as JSON lines, which somebody else serves; nor where the
// policy has command rules, and rules is nil.
func ExecMain(args []string, rules oneshot.Rules) (status int, done bool) {
	f, argv, err := cli.Parse(args, cli.Shared, cli.Exec, cli.Lines, cli.Log)
	f.Request.Environ = os.Environ()
	o := oneshot.Options{
		Argv: argv, Request: f.Request, Timeout: f.Timeout, KillAfter: f.KillAfter,
		TTY: f.TTY, PassFD: f.PassFD, JSON: f.JSON, StatusFD: f.StatusFD, Quiet: f.Quiet,
		RequireFull: f.RequireFull, Rules: rules,
	}
	switch {
	case err != nil:
		return oneshot.Fail(o, err), true
	case f.Help:
		_, _ = io.WriteString(os.Stdout, ExecUsage())
		return 0, true
	case len(argv) > 0:
		if f.Unordered {
			return oneshot.Fail(o, &sandboxpolicy.UsageError{Flag: "--unordered", Msg: "is for tool calls; it can't be given together with a command"}), true
		}
		if f.Log != "" {
			return oneshot.Fail(o, &sandboxpolicy.UsageError{Flag: "--log", Msg: "is for tool calls; it can't be given together with a command"}), true
		}
		// The main goroutine's thread becomes the domain's.
		runtime.LockOSThread()
		status, err := oneshot.Run(o)
		return status, err == nil
	case f.Ended:
		// A script's variable that is empty must not make its own text the calls.
		return oneshot.Fail(o, &sandboxpolicy.UsageError{Msg: "no command stands behind --"}), true
	case f.JSON || f.StatusFD >= 0:
		return oneshot.Fail(o, &sandboxpolicy.UsageError{Msg: "--json and --status-fd tell of a command, and none is given; results of tool calls are JSON without them"}), true
	case f.TTY != oneshot.Auto || len(f.PassFD) > 0:
		return oneshot.Fail(o, &sandboxpolicy.UsageError{Msg: "--tty and --pass-fd are for a command, and none is given; a call of bash has pty"}), true
	case oneshot.IsTerminal(0):
		status := oneshot.Fail(o, &sandboxpolicy.UsageError{Msg: "exec needs a command, or tool calls as JSON lines on standard input"})
		_, _ = io.WriteString(os.Stderr, ExecUsage())
		return status, true
	}
	return 0, false
}
