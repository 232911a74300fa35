package cli

import (
	"io"
	"os"
	"runtime"

	"github.com/dshx/dshx/internal/oneshot"
	"github.com/dshx/dshx/sandboxpolicy"
)

// ExecUsage is what `dshx exec --help` prints.
func ExecUsage() string {
	return `Run one command under a policy that the kernel enforces.

Usage:
  dshx exec [flags] [--] COMMAND [ARG...]

Flags end at the first operand or at --; everything behind is the command, byte
for byte. Its exit status is dshx's; besides, 124: timed out, 125: dshx could
not set the sandbox up or start the command, 126: not executable, 127: not
found, 128+n: ended by signal n, 2: usage.

Flags:
` + Help(Shared, Exec)
}

// ExecMain is `dshx exec ARGS`; it returns the exit status.
func ExecMain(args []string) int {
	f, argv, err := Parse(args, Shared, Exec)
	f.Request.Environ = os.Environ()
	o := oneshot.Options{
		Argv: argv, Request: f.Request, Timeout: f.Timeout, KillAfter: f.KillAfter,
		TTY: f.TTY, PassFD: f.PassFD, JSON: f.JSON, StatusFD: f.StatusFD, Quiet: f.Quiet,
		RequireFull: f.RequireFull,
	}
	switch {
	case err != nil:
		return oneshot.Fail(o, err)
	case f.Help:
		_, _ = io.WriteString(os.Stdout, ExecUsage())
		return 0
	case len(argv) == 0:
		status := oneshot.Fail(o, &sandboxpolicy.UsageError{Msg: "exec needs a command"})
		_, _ = io.WriteString(os.Stderr, ExecUsage())
		return status
	}
	// The main goroutine's thread becomes the domain's.
	runtime.LockOSThread()
	return oneshot.Run(o)
}
