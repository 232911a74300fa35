// Command dshx runs commands confined: see the README.
package main

import (
	"os"

	"github.com/dshx/dshx/internal/cli"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "exec" {
		os.Exit(cli.ExecMain(os.Args[2:]))
	}
	os.Exit(2)
}
