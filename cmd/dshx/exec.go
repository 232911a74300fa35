package main

import (
	"runtime"

	"github.com/dshx/dshx/commandrules"
	"github.com/dshx/dshx/internal/cli"
	"github.com/dshx/dshx/internal/cli/early"
	"github.com/dshx/dshx/sandboxpolicy"
	"github.com/spf13/cobra"
)

// newExec is for help and completion, for exec without a command, and for exec
// under command rules: else it runs before this tree exists.
func newExec() *cobra.Command {
	return &cobra.Command{
		Use:                "exec [flags] [--] COMMAND [ARG...]",
		Short:              "Run one command under a policy",
		DisableFlagParsing: true,
		Args:               cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if status, done := early.ExecMain(args, argvRules); done {
				return statusError(status)
			}
			runtime.UnlockOSThread() // see internal/cli/early/early.go; a server needs no thread
			f, _, err := cli.Parse(args, cli.Shared, cli.Exec, cli.Lines, cli.Log)
			if err != nil {
				return err
			}
			return serveLines(c, f)
		},
		ValidArgsFunction: completer(operands{max: 1 << 30}, false, cli.Shared, cli.Exec, cli.Lines, cli.Log),
	}
}

// argvRules are the command rules for exec.
func argvRules(p *sandboxpolicy.Policy, argv []string) (verdict, reason string) {
	v := commandrules.Argv(p, argv)
	return v.Decision.String(), v.Reason
}
