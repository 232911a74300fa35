package main

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/dshx/dshx/internal/cli"
	"github.com/dshx/dshx/internal/oneshot"
	"github.com/dshx/dshx/internal/version"
	"github.com/spf13/cobra"
)

// newServe is for help and completion: serve is another program, which this one
// becomes before this tree exists.
func newServe() *cobra.Command {
	return &cobra.Command{
		Use:                "serve [flags]",
		Short:              "Serve the tools to an editor or agent (MCP)",
		DisableFlagParsing: true,
		Args:               cobra.ArbitraryArgs,
		RunE:               func(_ *cobra.Command, args []string) error { return statusError(becomeServer(args)) },
		ValidArgsFunction:  completer(operands{}, true, cli.Shared, cli.Serve),
	}
}

// server is the program that serve is in.
const server = "dshx-mcp"

// becomeServer is `dshx serve ARGS`, and becomes the program that has it, of the same
// build, which is kept beside this one or in ../libexec/dshx. It returns only
// when that fails, the exit status.
func becomeServer(args []string) (status int) {
	self, err := os.Readlink("/proc/self/exe") // proc_pid_exe(5): also when PATH or a link led here
	if err != nil {
		return failServe("its own place can't be found: " + err.Error())
	}
	dir := filepath.Dir(self)
	var tried error
	for _, path := range []string{filepath.Join(dir, server), filepath.Join(filepath.Dir(dir), "libexec/dshx", server)} {
		// It says itself if it is of another build.
		argv := append([]string{path, "--build", version.String()}, args...)
		err := syscall.Exec(path, argv, os.Environ())
		if tried == nil || err != syscall.ENOENT {
			tried = &os.PathError{Op: "start", Path: path, Err: err}
		}
		if err != syscall.ENOENT {
			break
		}
	}
	return failServe(tried.Error() + "; the programs dshx and " + server + " of one build belong into the same directory")
}

func failServe(text string) int {
	fmt.Fprintf(os.Stderr, "dshx: serve: %s\n", oneshot.OneLine(text))
	return 1
}
