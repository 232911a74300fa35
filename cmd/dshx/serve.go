package main

import (
	"github.com/dshx/dshx/internal/cli"
	"github.com/dshx/dshx/internal/cli/early"
	"github.com/dshx/dshx/internal/program"
	"github.com/spf13/cobra"
)

// newServe is for help and completion, and for a build without a stamp: else this
// program becomes the one that has serve before this tree exists.
func newServe() *cobra.Command {
	return &cobra.Command{
		Use:                "serve [flags]",
		Short:              "Serve the tools to an editor or agent (MCP)",
		DisableFlagParsing: true,
		Args:               cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, args []string) error {
			return statusError(early.BecomeServer(program.Version(), args))
		},
		ValidArgsFunction: completer(operands{}, true, cli.Shared, cli.Log, cli.Serve),
	}
}
