package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync/atomic"

	"github.com/dshx/dshx/internal/cli"
	"github.com/dshx/dshx/internal/oneshot"
	"github.com/dshx/dshx/internal/program"
	"github.com/dshx/dshx/internal/toolset"
	"github.com/dshx/dshx/pipeline"
	"github.com/dshx/dshx/serve/jsonl"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

// oneCaller is what a front door with one caller has.
type oneCaller struct {
	*toolset.Session
	host *toolset.Host
}

// openTools puts the policy of the flags in force.
func openTools(c *cobra.Command, f *cli.Flags) (*oneCaller, error) {
	f.Request.Environ = os.Environ()
	host := toolset.NewHost(f.Request, toolset.Options{RequireFull: f.RequireFull, Timeout: f.Timeout, KillAfter: f.KillAfter, KeepSpills: true, Faults: func(fault pipeline.Fault) {
		fmt.Fprintf(c.ErrOrStderr(), "dshx: internal error in %s %s: %s\n", fault.Stage, fault.Name, oneshot.OneLine(fmt.Sprint(fault.Value)))
	}})
	session, err := host.Session("main")
	if err == nil {
		err = session.Opened(context.Background())
	}
	if err != nil {
		_ = host.Close()
		return nil, err
	}
	printNotices(c, session.Notices())
	return &oneCaller{session, host}, nil
}

// Close ends all of it.
func (t *oneCaller) Close() error { return t.host.Close() }

// serveLines is exec without a command.
func serveLines(c *cobra.Command, f *cli.Flags) error {
	t, err := openTools(c, f)
	var endLog func(error)
	if err == nil {
		if endLog, err = openLog(c, f, t); err != nil {
			_ = t.Close()
		}
	}
	if err != nil {
		fmt.Fprintf(c.ErrOrStderr(), "dshx: %s\n", oneshot.OneLine(err.Error()))
		_, exit := oneshot.Classify(err)
		return statusError(exit)
	}
	ctx, stop := program.UntilSignal(context.Background())
	defer stop()
	err = jsonl.Serve(ctx, c.InOrStdin(), c.OutOrStdout(), jsonl.Options{
		Scope: t.Scope, Unordered: f.Unordered, Approvals: t.Approvals, Events: t.JobEvents, End: t.host.EndJobs,
	})
	closing := t.Close()
	endLog(err)
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

// openLog begins the session log of --log, if it is given. end ends it, after
// the tools have been closed; cause is why all ended, nil where all was done.
func openLog(c *cobra.Command, f *cli.Flags, t *oneCaller) (end func(cause error), err error) {
	if f.Log == "" {
		return func(error) {}, nil
	}
	say := func(text string) { fmt.Fprintf(c.ErrOrStderr(), "dshx: %s\n", oneshot.OneLine(text)) }
	signal.Notify(make(chan os.Signal, 1), unix.SIGXFSZ) // as of SIGPIPE
	var complained atomic.Bool
	log, err := t.OpenLog(f.Log, func(text string) { complained.Store(true); say(text) })
	if err != nil {
		return nil, err
	}
	if w := log.Warning(); w != "" {
		say(w)
	}
	rec := log.Scope("main")
	t.Record(rec, program.Version())
	return func(cause error) {
		reason := "all calls have ended"
		if cause != nil {
			reason = cause.Error()
		}
		rec.End(reason)
		if err := log.Close(); err != nil && !complained.Load() {
			say(err.Error())
		}
	}, nil
}
