package early

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"github.com/dshx/dshx/internal/cli"
	"github.com/dshx/dshx/internal/oneshot"
)

// server is the program that serve is in.
const server = "dshx-mcp"

// BecomeServer is `dshx serve ARGS`: it becomes the program that has it, of the same
// build, which is kept beside this one or in ../libexec/dshx. It returns only
// when that fails, the exit status.
func BecomeServer(version string, args []string) (status int) {
	if f, _, _ := cli.ParseAll(args, cli.Shared, cli.Log, cli.Serve); f.Help {
		_, _ = io.WriteString(os.Stdout, cli.ServeUsage())
		return 0
	}
	self, err := os.Readlink("/proc/self/exe") // proc_pid_exe(5): also when PATH or a link led here
	if err != nil {
		return failServe("its own place can't be found: " + err.Error())
	}
	dir := filepath.Dir(self)
	var tried error
	for _, path := range []string{filepath.Join(dir, server), filepath.Join(filepath.Dir(dir), "libexec/dshx", server)} {
		// It says itself if it is of another build.
		argv := append([]string{path, "--build", version}, args...)
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
