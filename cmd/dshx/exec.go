package main

import (
	"github.com/dshx/dshx/internal/cli"
	"github.com/dshx/dshx/internal/cli/early"
	"github.com/spf13/cobra"
)

// newExec is for help and completion, and for exec without a command: with one
// it runs before this tree exists.
func newExec() *cobra.Command {
	return &cobra.Command{
		Use:                "exec [flags] [--] COMMAND [ARG...]",
		Short:              "Run one command under a policy",
		DisableFlagParsing: true,
		Args:               cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if status, done := early.ExecMain(args); done {
				return statusError(status)
			}
			f, _, err := cli.Parse(args, cli.Shared, cli.Exec, cli.Lines)
			if err != nil {
				return err
			}
			return serveLines(c, f)
		},
		ValidArgsFunction: completer(operands{max: 1 << 30}, false, cli.Shared, cli.Exec, cli.Lines),
	}
}
