package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/dshx/dshx/internal/cli"
	"github.com/dshx/dshx/internal/oneshot"
	"github.com/dshx/dshx/internal/program"
	"github.com/dshx/dshx/internal/toolset"
	"github.com/dshx/dshx/pipeline"
	"github.com/dshx/dshx/serve/jsonl"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

// openTools puts the policy of the flags in force and registers the tools.
func openTools(c *cobra.Command, f *cli.Flags) (*toolset.Set, error) {
	f.Request.Environ = os.Environ()
	set, err := toolset.Open(f.Request, toolset.Options{RequireFull: f.RequireFull, Timeout: f.Timeout, KillAfter: f.KillAfter, Faults: func(fault pipeline.Fault) {
		fmt.Fprintf(c.ErrOrStderr(), "dshx: internal error in %s %s: %s\n", fault.Stage, fault.Name, oneshot.OneLine(fmt.Sprint(fault.Value)))
	}})
	if err != nil {
		return nil, err
	}
	printNotices(c, set.Notices())
	return set, nil
}

// serveLines is exec without a command.
func serveLines(c *cobra.Command, f *cli.Flags) error {
	set, err := openTools(c, f)
	if err != nil {
		fmt.Fprintf(c.ErrOrStderr(), "dshx: %s\n", oneshot.OneLine(err.Error()))
		_, exit := oneshot.Classify(err)
		return statusError(exit)
	}
	ctx, stop := program.UntilSignal(context.Background())
	defer stop()
	err = jsonl.Serve(ctx, c.InOrStdin(), c.OutOrStdout(), jsonl.Options{
		Scope: set.Scope, Unordered: f.Unordered, Ask: set.Asks(), Events: set.JobEvents, End: set.EndJobs,
	})
	closing := set.Close()
	var sig program.Ended
	switch {
	case err == nil && closing == nil:
		return nil
	case err == nil:
		err = closing
	case errors.As(err, &sig):
		return statusError(128 + int(sig.Signal))
	case errors.Is(err, jsonl.ErrClosed):
		return statusError(128 + int(unix.SIGTERM))
	}
	fmt.Fprintf(c.ErrOrStderr(), "dshx: %s\n", oneshot.OneLine(err.Error()))
	return statusError(exitFailed)
}
