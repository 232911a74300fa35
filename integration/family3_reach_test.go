package integration

// What of family 3 needs parts of dshx that aren't there yet.
func init() {
	outOfReach = append(outOfReach, []struct{ name, reason string }{
		{"F3-1, F3-2, F3-5, F3-11, F3-12, F3-15 (bash tool and JSON lines)", "there is neither; the same cases go through the command line and --json"},
		{"F3-4 (b)", "there is no server mode; package sandbox has the stress test with locked threads"},
		{"F3-8 (rows and columns in a request)", "there are no JSON requests"},
		{"F3-14 (b) (two calls of one session), F3-14 (d) (in the bash tool)", "there is no session and no bash tool; tested with two runs"},
		{"F3-15 (an argument of 200 KB)", "execve(2) of dshx itself refuses it; tested instead: arguments and environment at the limit together"},
		{"F3-18 (500 calls of a server)", "there is no server mode; tested with one run, and as PID 1"},
		{"F3-19", "is about JSON lines and MCP"},
	}...)
}
