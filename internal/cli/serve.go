package cli

import (
	"fmt"
	"strconv"
	"time"

	"github.com/dshx/dshx/sandboxpolicy"
)

// Serve are the further flags of serve.
var Serve = []Flag{
	{"print-config", "CLIENT", "print the configuration that has CLIENT (zed, vscode, cursor …) start this, with the other flags, and end", str(func(f *Flags) *string { return &f.PrintConfig })},
	{"http", "ADDR", "listen on ADDR, such as 127.0.0.1:8765, instead (streamable HTTP at /mcp); port 0 chooses one", str(func(f *Flags) *string { return &f.HTTP })},
	{"http-any-address", "", "--http: let ADDR be none of the loopback's: whoever can listen on the way reads the token", on(func(f *Flags) *bool { return &f.HTTPAnyAddress })},
	{"token-file", "FILE", "--http: the token that clients need; made where it is missing (default: http-token beside the configuration)", str(func(f *Flags) *string { return &f.TokenFile })},
	{"max-sessions", "N", "--http: how many clients there may be at once (default: 64)", sessions},
	{"session-idle", "DUR", "--http: end a session that nobody uses for DUR (default: 30m)", duration(func(f *Flags) *time.Duration { return &f.SessionIdle })},
	{"log-level", "debug|info|warn|error", "what to say on standard error (default: warn)", oneOf(func(f *Flags, v string) { f.LogLevel = v }, "debug", "info", "warn", "error")},
	{"log-format", "text|json", "how to say it (default: text)", oneOf(func(f *Flags, v string) { f.LogFormat = v }, "text", "json")},
}

// Build is the flag by which serve reaches the other program of the same build.
// It is for nobody else, and in no help.
var Build = []Flag{
	{"build", "VERSION", "", str(func(f *Flags) *string { return &f.Build })},
}

// maxSessions is the most that --max-sessions takes.
const maxSessions = 10000

func sessions(f *Flags, v string) error {
	n, err := strconv.Atoi(v)
	if err != nil || n < 1 || n > maxSessions {
		return fmt.Errorf("%s is no number of sessions (1 to %d)", quote(v), maxSessions)
	}
	f.MaxSessions = n
	return nil
}

// CheckHTTP refuses flags that mean nothing without --http.
//
// Errors: *sandboxpolicy.UsageError.
func (f *Flags) CheckHTTP() error {
	if f.HTTP != "" {
		return nil
	}
	for _, g := range f.Given {
		switch g.Name {
		case "http-any-address", "token-file", "max-sessions", "session-idle":
			return &sandboxpolicy.UsageError{Flag: "--" + g.Name, Msg: "is for --http, which is not given"}
		}
	}
	return nil
}

// ServeUsage is what `dshx serve --help` prints.
func ServeUsage() string {
	return `Serve the tools to an editor or an agent by the Model Context Protocol, on
standard input and output, or with --http to several of them.

Usage:
  dshx serve [flags]
  dshx serve --http ADDR [flags]

Editors start it; standard output is the protocol's alone. It ends with its
input, and everything that it started ends with it. With --http it is yours to
start and to end; standard error says where it listens. Exit status: 0 at the end
of the input, 128+n ended by signal n, 125 dshx could not set the sandbox up, 2
usage, 1 it can't listen.

Flags:
` + Help(Shared, Log, Serve)
}
