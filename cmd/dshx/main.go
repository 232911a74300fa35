// Command dshx runs commands confined: see the README.
package main

import "os"

func main() {
	// exec with a command has left before: docs/adr/0008-early-exec.md.
	if len(os.Args) > 1 && os.Args[1] == "serve" {
		os.Exit(becomeServer(os.Args[2:])) // docs/adr/0014-two-programs.md
	}
	os.Exit(execute(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
