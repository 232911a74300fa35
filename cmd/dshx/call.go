package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/dshx/dshx/approval"
	"github.com/dshx/dshx/internal/cli"
	"github.com/dshx/dshx/internal/oneshot"
	"github.com/dshx/dshx/internal/program"
	"github.com/dshx/dshx/pipeline"
	"github.com/dshx/dshx/serve/jsonl"
	"github.com/spf13/cobra"
)

func newCall() *cobra.Command {
	return command(&cobra.Command{
		Use:   "call [flags] TOOL [JSON | -]",
		Short: "Make one tool call and print its content",
		Long: `Make one tool call under a policy and print what a model would read of its
result, or with --json the whole result. The arguments are a JSON object, or
- for standard input.

What needs approval is asked at the terminal, where there is one. Exits 1 where
the call fails. A command that exits non-zero is no failure.`,
		Example: `  dshx call bash '{"command":"make test"}'
  dshx call --json grep '{"pattern":"func main","output":"count"}'`,
	}, operands{min: 1, max: 2}, runCall, cli.JSON, cli.Log, cli.Shared)
}

func runCall(c *cobra.Command, f *cli.Flags, args []string) error {
	text := []byte("{}")
	if len(args) == 2 {
		text = []byte(args[1])
		if args[1] == "-" {
			var err error
			if text, err = io.ReadAll(io.LimitReader(c.InOrStdin(), jsonl.MaxLine+1)); err != nil {
				return err
			}
			if len(text) > jsonl.MaxLine {
				return usagef("the arguments on standard input are longer than %d bytes", jsonl.MaxLine)
			}
		}
	}
	t, err := openTools(c, f)
	if err != nil {
		return err
	}
	endLog, err := openLog(c, f, t)
	if err != nil {
		_ = t.Close()
		return err
	}
	ctx, stop := program.UntilSignal(context.Background())
	defer stop()
	defer t.Approvals.Use(&approval.Terminal{})()
	result := t.Scope.Call(ctx, pipeline.Request{ID: "1", Name: args[0], Args: text})
	live := t.LiveJobs()
	err = t.Close()
	endLog(context.Cause(ctx))
	if f.JSON {
		line, e := pipeline.MarshalValue(jsonl.Reply("1", result))
		if e != nil {
			return e
		}
		fmt.Fprintln(c.OutOrStdout(), line)
	} else {
		printContent(c, result)
	}
	if len(live) > 0 {
		fmt.Fprintf(c.ErrOrStderr(), "dshx: ended with the call: %s; jobs live as long as a dshx exec that reads calls\n", strings.Join(live, ", "))
	}
	var sig program.Ended
	switch {
	case errors.As(context.Cause(ctx), &sig):
		return statusError(128 + int(sig.Signal))
	case err != nil:
		return err
	case !result.OK():
		return statusError(exitFailed)
	}
	return nil
}

// printContent prints what a model would read, and of a failure its code, on
// standard error.
func printContent(c *cobra.Command, r pipeline.Result) {
	out := c.OutOrStdout()
	for _, block := range r.Content() {
		if block.Type() == "image" {
			fmt.Fprintf(out, "[%s, %d bytes]\n", block.MIMEType(), len(block.Data()))
			continue
		}
		_, _ = io.WriteString(out, block.Text())
		if t := block.Text(); t != "" && t[len(t)-1] != '\n' {
			_, _ = io.WriteString(out, "\n")
		}
	}
	if !r.OK() {
		fmt.Fprintf(c.ErrOrStderr(), "dshx: %s: %s\n", r.Failure().Code, oneshot.OneLine(r.Failure().Message))
	}
}
