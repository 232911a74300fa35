// Command dshx runs commands confined: see the README.
package main

import (
	"os"

	"github.com/dshx/dshx/internal/cli"
)

func main() {
	// exec does not wait for the command tree: docs/adr/0008-early-exec.md.
	if len(os.Args) > 1 && os.Args[1] == "exec" {
		os.Exit(cli.ExecMain(os.Args[2:]))
	}
	os.Exit(execute(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
