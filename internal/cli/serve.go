package cli

// Serve are the further flags of serve.
var Serve = []Flag{
	{"print-config", "CLIENT", "print the configuration that has CLIENT (zed, vscode, cursor …) start this, with the other flags, and end", str(func(f *Flags) *string { return &f.PrintConfig })},
	{"log-level", "debug|info|warn|error", "what to say on standard error (default: warn)", oneOf(func(f *Flags, v string) { f.LogLevel = v }, "debug", "info", "warn", "error")},
	{"log-format", "text|json", "how to say it (default: text)", oneOf(func(f *Flags, v string) { f.LogFormat = v }, "text", "json")},
}

// Build is the flag by which serve reaches the other program of the same build.
// It is for nobody else, and in no help.
var Build = []Flag{
	{"build", "VERSION", "", str(func(f *Flags) *string { return &f.Build })},
}

// ServeUsage is what `dshx serve --help` prints.
func ServeUsage() string {
	return `Serve the tools to an editor or an agent by the Model Context Protocol, on
standard input and output.

Usage:
  dshx serve [flags]

Editors start it; standard output is the protocol's alone. It ends with its
input, and everything that it started ends with it. Exit status: 0 at the end of
the input, 128+n ended by signal n, 125 dshx could not set the sandbox up, 2
usage.

Flags:
` + Help(Shared, Log, Serve)
}
