// Command dshx runs commands confined: see the README.
package main

import "os"

func main() {
	// exec with a command, and serve, have left before: docs/adr/0008-early-exec.md.
	os.Exit(execute(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
