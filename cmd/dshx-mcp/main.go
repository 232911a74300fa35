// Command dshx-mcp is dshx serve: the tools, by the Model Context Protocol. It is
// a program of its own, so that what it links costs dshx exec nothing
// (docs/adr/0018-two-programs.md).
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/dshx/dshx/internal/cli"
	"github.com/dshx/dshx/internal/oneshot"
	"github.com/dshx/dshx/internal/program"
	"github.com/dshx/dshx/internal/toolset"
	"github.com/dshx/dshx/sandboxpolicy"
	"github.com/dshx/dshx/serve/mcp"
	"golang.org/x/sys/unix"
)

func main() { os.Exit(serve(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

// serve is `dshx serve ARGS`; it returns the exit status.
func serve(args []string, in io.Reader, out, errs io.Writer) int {
	f, operands, err := cli.ParseAll(args, cli.Shared, cli.Log, cli.Serve, cli.Build)
	switch {
	case err != nil:
	case f.Help:
		_, _ = io.WriteString(out, cli.ServeUsage())
		return 0
	case len(operands) > 0:
		err = &sandboxpolicy.UsageError{Msg: fmt.Sprintf("%q is one too many; usage: dshx serve [flags]", operands[0])}
	default:
		err = f.CheckHTTP()
	}
	if err != nil {
		return fail(errs, err, oneshot.ExitUsage)
	}
	if f.Build != "" && f.Build != program.Version() {
		return fail(errs, fmt.Errorf("serve: dshx is of the build %s and dshx-mcp of %s; install both of one build", f.Build, program.Version()), 1)
	}
	f.Request.Environ = os.Environ()
	if f.PrintConfig != "" {
		err := printConfig(f, out, errs)
		var usage *sandboxpolicy.UsageError
		var config *sandboxpolicy.ConfigError
		switch {
		case err == nil:
			return 0
		case errors.As(err, &usage), errors.As(err, &config):
			return fail(errs, err, oneshot.ExitUsage)
		}
		return fail(errs, err, 1)
	}

	say := newSayer(errs, f.LogFormat == "json")
	defer say.close()
	log := say.logger(f.LogLevel)
	ctx, stop := program.UntilSignal(context.Background())
	defer stop()
	if f.HTTP != "" {
		return serveHTTP(ctx, f, say, errs, log)
	}
	err = mcp.Serve(ctx, in, out, mcp.Options{
		Presets: true,
		Version: program.Version(),
		Open:    func() (mcp.Session, error) { return open(f, log) },
		Tools:   toolset.Definitions,
		Log:     log,
	})
	var sig program.Ended
	var opening *mcp.OpenError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &sig):
		return 128 + int(sig.Signal)
	case errors.Is(err, mcp.ErrClosed):
		return 128 + int(unix.SIGTERM)
	case errors.As(err, &opening):
		log.Error(opening.Error())
		_, exit := oneshot.Classify(opening.Err)
		return exit
	}
	log.Error(err.Error())
	return 1
}

// fail says why nothing is served.
func fail(errs io.Writer, err error, status int) int {
	fmt.Fprintf(errs, "dshx: %s\n", oneshot.OneLine(err.Error()))
	return status
}
