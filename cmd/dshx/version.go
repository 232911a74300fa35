package main

import (
	"fmt"
	"runtime"

	"github.com/dshx/dshx/internal/cli"
	"github.com/dshx/dshx/internal/program"
	"github.com/dshx/dshx/sandbox"
	"github.com/spf13/cobra"
)

func newVersion() *cobra.Command {
	return command(&cobra.Command{
		Use:   "version",
		Short: "Print the version of dshx, and what this kernel is",
	}, operands{}, func(c *cobra.Command, _ *cli.Flags, _ []string) error {
		h := sandbox.ProbeHost()
		abi := "no Landlock"
		if h.LandlockABI > 0 {
			abi = fmt.Sprintf("Landlock ABI %d", h.LandlockABI)
		}
		_, err := fmt.Fprintf(c.OutOrStdout(), "dshx %s (%s, %s/%s; Linux %s, %s)\n",
			program.Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH, h.Kernel, abi)
		return err
	})
}
