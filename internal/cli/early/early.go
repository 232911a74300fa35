// Package early is exec with a command, and the way from serve to the program that
// has it. Both run before the rest of the program is initialised, in every program
// that links this package: only dshx does.
package early

import (
	"os"

	"github.com/dshx/dshx/internal/version"
)

// exec runs from here, before the packages that it doesn't need are
// initialised: Go initialises those that are ready in the order of their
// import paths, and everything heavy that dshx links (the command framework,
// and what that brings) comes behind this package. See docs/adr/0008, and of
// serve docs/adr/0018.
func init() {
	if len(os.Args) < 2 {
		return
	}
	switch {
	case os.Args[1] == "exec":
		if status, done := ExecMain(os.Args[2:]); done {
			os.Exit(status)
		}
		// Without a command it reads tool calls, which the rest of the program does.
	case os.Args[1] == "serve" && version.Stamp != "": // else its version takes more to find out
		os.Exit(BecomeServer(version.Stamp, os.Args[2:]))
	}
}
