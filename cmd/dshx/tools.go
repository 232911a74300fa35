package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/dshx/dshx/internal/cli"
	"github.com/dshx/dshx/internal/toolset"
	"github.com/dshx/dshx/internal/tsdecl"
	"github.com/dshx/dshx/pipeline"
	"github.com/spf13/cobra"
)

func newTools() *cobra.Command {
	return command(&cobra.Command{
		Use:   "tools [--json | --typescript]",
		Short: "List the tools, their schemas, or their types",
	}, operands{}, runTools, cli.Tools)
}

func runTools(c *cobra.Command, f *cli.Flags, _ []string) error {
	tools, err := toolset.Definitions()
	if err != nil {
		return err
	}
	switch {
	case f.JSON && f.TypeScript:
		return usagef("--json and --typescript exclude each other")
	case f.TypeScript:
		_, err = io.WriteString(c.OutOrStdout(), tsdecl.Declarations(tools))
		return err
	case f.JSON:
		j, err := pipeline.MarshalValue(toolset.Describe(tools))
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(c.OutOrStdout(), j)
		return err
	}
	for _, t := range tools {
		first, _, _ := strings.Cut(t.Description(), "\n")
		if _, err := fmt.Fprintf(c.OutOrStdout(), "%-12s %s\n", t.Name(), first); err != nil {
			return err
		}
	}
	return nil
}
