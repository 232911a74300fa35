package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/dshx/dshx/internal/cli"
	"github.com/dshx/dshx/internal/oneshot"
	"github.com/dshx/dshx/sandboxpolicy"
	"github.com/spf13/cobra"
)

// Exit statuses of every command but exec, whose own are in internal/oneshot.
const (
	exitOK     = 0
	exitFailed = 1 // what was asked for failed
	exitUsage  = 2
)

// statusError ends dshx with a status, without a word: everything has been
// said.
type statusError int

func (e statusError) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// execute runs the command line and returns the exit status.
func execute(args []string, in io.Reader, out, errs io.Writer) int {
	root := newRoot()
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errs)
	args = append([]string{}, args...) // nil would mean those of the process
	if len(args) > 0 && args[0] == "--version" {
		args[0] = "version" // as many programs spell it
	}
	root.SetArgs(args)
	err := root.Execute()
	var status statusError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &status):
		return int(status)
	}
	fmt.Fprintf(errs, "dshx: %s\n", oneshot.OneLine(err.Error()))
	var usage *sandboxpolicy.UsageError
	var config *sandboxpolicy.ConfigError
	if errors.As(err, &usage) || errors.As(err, &config) {
		return exitUsage
	}
	return exitFailed
}

// usagef is a mistake in the command line.
func usagef(format string, a ...any) error {
	return &sandboxpolicy.UsageError{Msg: fmt.Sprintf(format, a...)}
}

func newRoot() *cobra.Command {
	root := group(&cobra.Command{
		Use:   "dshx",
		Short: "Run commands confined by the kernel",
		Long: `dshx runs a command so that the kernel refuses what a policy doesn't allow:

  dshx exec -- make test`,
	}, newExec(), newServe(), newCall(), newTools(), newPolicy(), newLog(), newDoctor(), newVersion(), newCompletion(), newCheck())
	root.SilenceErrors, root.SilenceUsage = true, true
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetHelpCommand(newHelp(root))
	root.SetHelpFunc(func(c *cobra.Command, _ []string) { _, _ = io.WriteString(c.OutOrStdout(), help(c)) })
	return root
}

// group makes a command of subcommands. Alone it prints its help.
func group(c *cobra.Command, subs ...*cobra.Command) *cobra.Command {
	c.AddCommand(subs...)
	return command(c, operands{}, func(c *cobra.Command, _ *cli.Flags, args []string) error {
		if len(args) == 0 {
			return c.Help()
		}
		return unknownCommand(c, args[0])
	})
}

func unknownCommand(c *cobra.Command, name string) error {
	var names []string
	for _, s := range c.Commands() {
		if s.IsAvailableCommand() || s.Name() == "help" {
			names = append(names, s.Name())
		}
	}
	near := cli.DidYouMean("", cli.Nearest(name, names))
	if near == "" {
		near = "; there are " + strings.Join(names, ", ")
	}
	return usagef("unknown command %q%s", strings.TrimPrefix(c.CommandPath()+" "+name, "dshx "), near)
}

// operands is what a command takes besides flags.
type operands struct {
	min, max int
	// complete returns what operand n (from 0) behind args can be; nil: files.
	complete func(n int, args []string) []string
}

// flagsKey is the annotation with the help for a command's flags.
const flagsKey = "flags"

// command gives c the flags of tables and what it runs. cobra does not parse
// them: there is one parser, in internal/cli, since exec must do without cobra.
func command(c *cobra.Command, ops operands, run func(c *cobra.Command, f *cli.Flags, args []string) error, tables ...[]cli.Flag) *cobra.Command {
	c.DisableFlagParsing = true
	c.DisableFlagsInUseLine = true
	c.Annotations = map[string]string{flagsKey: cli.Help(tables...)}
	c.Args = cobra.ArbitraryArgs
	c.RunE = func(c *cobra.Command, args []string) error {
		f, args, err := cli.ParseAll(args, tables...)
		switch {
		case err != nil:
			return err
		case f.Help:
			return c.Help()
		case c.HasSubCommands():
		case len(args) < ops.min:
			return usagef("something is missing; usage: %s", c.UseLine())
		case len(args) > ops.max:
			return usagef("%q is one too many; usage: %s", args[ops.max], c.UseLine())
		}
		return run(c, f, args)
	}
	c.ValidArgsFunction = completer(ops, true, tables...)
	return c
}

// completer completes flags and their values from the tables, then operands.
func completer(ops operands, interspersed bool, tables ...[]cli.Flag) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
		c := cli.Complete(args, word, interspersed, tables...)
		words := c.Words
		switch c.Kind {
		case cli.KindFile:
			return nil, cobra.ShellCompDirectiveDefault
		case cli.KindDir:
			return nil, cobra.ShellCompDirectiveFilterDirs
		case cli.KindOperand:
			if c.Operand >= ops.max {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			if ops.complete != nil {
				words = ops.complete(c.Operand, args)
			}
			if words == nil {
				return nil, cobra.ShellCompDirectiveDefault
			}
		}
		var fit []string
		for _, w := range words {
			if strings.HasPrefix(w, word) {
				fit = append(fit, w)
			}
		}
		return fit, cobra.ShellCompDirectiveNoFileComp
	}
}
