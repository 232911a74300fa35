package main

import (
	"github.com/dshx/dshx/internal/cli"
	"github.com/spf13/cobra"
)

// newExec is for help and completion: main runs exec before this tree exists.
func newExec() *cobra.Command {
	return &cobra.Command{
		Use:                "exec [flags] [--] COMMAND [ARG...]",
		Short:              "Run one command under a policy",
		DisableFlagParsing: true,
		Args:               cobra.ArbitraryArgs,
		RunE:               func(_ *cobra.Command, args []string) error { return statusError(cli.ExecMain(args)) },
		ValidArgsFunction:  completer(operands{max: 1 << 30}, false, cli.Shared, cli.Exec),
	}
}
