package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/dshx/dshx/internal/cli"
	"github.com/dshx/dshx/internal/doctor"
	"github.com/spf13/cobra"
)

func newDoctor() *cobra.Command {
	return command(&cobra.Command{
		Use:   "doctor [flags]",
		Short: "Find out by real probes what this machine can enforce",
		Long: `Find out by real probes what this machine can enforce, for each preset and for
the policy that the flags ask for: the policy is put in force, and a child
tries what it must not do.

Exits 1 where nothing can be enforced or an attempt succeeded that the policy
refuses, and with --require full where a promise of the policy is a gap.`,
	}, operands{}, runDoctor, cli.JSON, cli.Shared)
}

func runDoctor(c *cobra.Command, f *cli.Flags, _ []string) error {
	f.Request.Environ = os.Environ()
	r, err := doctor.Run(f.Request)
	if err != nil {
		return err
	}
	if f.JSON {
		err = printJSON(c.OutOrStdout(), r)
	} else {
		err = printReport(c.OutOrStdout(), r)
	}
	if err == nil && (r.Failed() || f.RequireFull && r.Asked.Level != "full") {
		return statusError(exitFailed)
	}
	return err
}

func printReport(w io.Writer, r *doctor.Report) error {
	return nil
}

// newCheck is what doctor starts inside: see package doctor.
func newCheck() *cobra.Command {
	c := command(&cobra.Command{Use: doctor.CheckCommand, Hidden: true, Short: "Used by doctor"}, operands{max: 1},
		func(c *cobra.Command, _ *cli.Flags, args []string) error {
			return doctor.Check(c.InOrStdin(), c.OutOrStdout(), args)
		})
	return c
}

var _ = fmt.Sprint
var _ = strings.Join
