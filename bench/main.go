// Command bench measures dshx against the bare command and against other sandboxes.
//
//	go run ./bench [-only starts,trees,storm,pipe,calls,mcp] [-rounds N] [-connections N] [-tools DIR] [-no-install]
//
// Everything is measured in pairs: in each round every contender runs once, in random
// order, and what is reported is the median of the ratios to the bare command of the same
// round, so that load on the machine hits all alike. Every contender must first show that
// it enforces the policy it is timed with. What cannot be had is named in the report.
//
// The report is Markdown on standard output; progress goes to standard error.
// docs/benchmarks.md holds the last one that was looked at.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
)

type options struct {
	dshx        string
	only        map[string]bool // empty: everything
	rounds      int             // of the starts; other parts take a fraction
	connections int             // over MCP, one after another
	tools       string
	install     bool
}

func (o options) wants(part string) bool { return len(o.only) == 0 || o.only[part] }

func main() {
	// The harness is its own helper: what runs inside a sandbox is this program again.
	if len(os.Args) > 1 && os.Args[1] == "inner" {
		if err := inner(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, "bench inner:", err)
			os.Exit(1)
		}
		return
	}
	o := options{only: map[string]bool{}}
	only := flag.String("only", "", "comma-separated `parts`: starts, trees, storm, pipe, calls, mcp")
	flag.StringVar(&o.dshx, "dshx", "bin/dshx", "the program to measure")
	flag.IntVar(&o.rounds, "rounds", 300, "rounds of the starts")
	flag.IntVar(&o.connections, "connections", 0, "connections over MCP one after another (default: as many as rounds)")
	flag.StringVar(&o.tools, "tools", "", "`folder` for other sandboxes (default: dshx-bench in the user's cache folder)")
	noInstall := flag.Bool("no-install", false, "use other sandboxes only where they are already")
	flag.Parse()
	o.install = !*noInstall
	if o.connections <= 0 {
		o.connections = o.rounds
	}
	for part := range strings.SplitSeq(*only, ",") {
		switch part {
		case "":
		case "starts", "trees", "storm", "pipe", "calls", "mcp":
			o.only[part] = true
		default:
			fmt.Fprintf(os.Stderr, "bench: no part %q: starts, trees, storm, pipe, calls or mcp\n", part)
			os.Exit(2)
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) (err error) {
	if o.dshx, err = filepath.Abs(o.dshx); err != nil {
		return err
	}
	if o.tools == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return fmt.Errorf("no folder for other sandboxes, name one with -tools: %w", err)
		}
		o.tools = filepath.Join(cache, "dshx-bench")
	}
	s, err := newStage()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(s.dir)) }()

	others := o
	// Tool calls are measured against other things.
	others.install = o.install && (o.wants("starts") || o.wants("trees") || o.wants("storm") || o.wants("pipe"))
	all, missing := contenders(ctx, others, s)
	var ready []contender
	for _, c := range all {
		progress("checking %s", c.name)
		if err := c.check(ctx, s); err != nil {
			missing = append(missing, fmt.Sprintf("%s: left out, %v", c.name, err))
			continue
		}
		ready = append(ready, c)
	}
	if len(ready) < 2 || ready[1].name != "dshx" {
		return fmt.Errorf("nothing to measure: %s", strings.Join(missing, "; "))
	}
	header(ready, missing, s)
	parts := []struct {
		name string
		run  func(context.Context, options, *stage, []contender) error
	}{{"starts", starts}, {"trees", trees}, {"storm", storm}, {"pipe", pipe}, {"calls", calls}, {"mcp", mcpPart}}
	for _, p := range parts {
		if o.wants(p.name) {
			if err := p.run(ctx, o, s, ready); err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
		}
	}
	return nil
}

func progress(format string, args ...any) { fmt.Fprintf(os.Stderr, "bench: "+format+"\n", args...) }

// A stage is the folders of one run of the benchmark. It is not below /tmp: some
// contenders give that away for writing, and one refuses a home there.
type stage struct {
	dir       string
	workspace string
	home      string
	outside   string // what no contender may write to
	self      string // this program
}

func newStage() (*stage, error) {
	dir, err := os.MkdirTemp("/var/tmp", "bench-")
	if err != nil {
		return nil, err
	}
	s := &stage{
		dir:       dir,
		workspace: filepath.Join(dir, "work"),
		home:      filepath.Join(dir, "home"),
		outside:   filepath.Join(dir, "outside"),
		self:      filepath.Join(dir, "bench"),
	}
	for _, d := range []string{s.workspace, s.home, s.outside, filepath.Join(s.home, ".codex")} {
		if err := os.Mkdir(d, 0o755); err != nil {
			return nil, errors.Join(err, os.RemoveAll(dir))
		}
	}
	// go run keeps its binary in a folder that is gone too early and closed to others.
	exe, err := os.Executable()
	if err == nil {
		var b []byte
		if b, err = os.ReadFile(exe); err == nil {
			err = os.WriteFile(s.self, b, 0o755)
		}
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return s, nil
}

// environ is what every contender is started with.
func (s *stage) environ() []string {
	return []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + s.home, "LANG=C.UTF-8", "USER=" + os.Getenv("USER"),
		"GIT_CONFIG_NOSYSTEM=1", "TERM=dumb",
	}
}

// hide makes command lines readable for the report: $W is the workspace.
func (s *stage) hide(text string) string {
	text = strings.ReplaceAll(text, s.workspace, "$W")
	return strings.ReplaceAll(text, s.dir, "$STAGE")
}

func firstLine(cmd string, args ...string) string {
	out, _ := exec.Command(cmd, args...).CombinedOutput()
	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	return line
}
