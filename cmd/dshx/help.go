package main

import (
	"fmt"
	"strings"

	"github.com/dshx/dshx/internal/cli"
	"github.com/dshx/dshx/internal/cli/early"
	"github.com/spf13/cobra"
)

// help is what `dshx help COMMAND` and `dshx COMMAND --help` print. It is
// written out here, not a template: text/template would keep every exported
// method of the program from being left out by the linker.
func help(c *cobra.Command) string {
	switch c.Name() {
	case "exec":
		return early.ExecUsage()
	case "serve":
		return cli.ServeUsage()
	}
	var b strings.Builder
	text := c.Long
	if text == "" {
		text = c.Short + "."
	}
	b.WriteString(text + "\n\nUsage:\n")
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "  %s COMMAND\n\nCommands:\n", c.CommandPath())
		for _, s := range c.Commands() {
			if s.IsAvailableCommand() || s.Name() == "help" {
				fmt.Fprintf(&b, "  %-12s %s\n", s.Name(), s.Short)
			}
		}
		fmt.Fprintf(&b, "\n%s says more about one of them.\n", strings.Replace(c.CommandPath(), "dshx", "dshx help", 1)+" COMMAND")
		return b.String()
	}
	b.WriteString("  " + c.UseLine() + "\n")
	if c.Example != "" {
		b.WriteString("\nExamples:\n" + c.Example + "\n")
	}
	if flags := c.Annotations[flagsKey]; flags != "" {
		b.WriteString("\nFlags:\n" + flags)
	}
	return b.String()
}

func newHelp(root *cobra.Command) *cobra.Command {
	c := command(&cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Help for a command",
	}, operands{max: 2, complete: func(n int, args []string) []string {
		at := root
		if n > 0 {
			at = subcommand(root, args[0])
		}
		names := []string{}
		if at != nil {
			for _, s := range at.Commands() {
				if s.IsAvailableCommand() {
					names = append(names, s.Name()+"\t"+s.Short)
				}
			}
		}
		return names
	}}, func(_ *cobra.Command, _ *cli.Flags, args []string) error {
		at := root
		for _, name := range args {
			next := subcommand(at, name)
			if next == nil {
				return unknownCommand(at, name)
			}
			at = next
		}
		return at.Help()
	})
	return c
}

func subcommand(c *cobra.Command, name string) *cobra.Command {
	for _, s := range c.Commands() {
		if s.Name() == name {
			return s
		}
	}
	return nil
}
