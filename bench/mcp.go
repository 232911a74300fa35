package main

import (
	"bufio"
	"bytes"
	"context"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Versions that the comparison was written for.
const (
	filesystemServer = "@modelcontextprotocol/server-filesystem"
	shellServer      = "mcp-server-commands"
	shellVersion     = "0.5.0"
)

// A server is one that speaks MCP over its standard streams.
type server struct {
	name    string
	version string
	argv    []string
}

// servers are those of one run.
type servers struct {
	sdk, own             server // the echo tool: on the SDK alone, on dshx's server and pipeline
	direct, door, logged server // dshx-mcp, dshx serve, and with a log
	files, shell         *server
	sessions             string // the program that has many connections
	missing              []string
}

// mcpPart: tool calls over MCP.
func mcpPart(ctx context.Context, o options, s *stage, _ []contender) error {
	all, err := s.servers(ctx, o)
	if err != nil {
		return err
	}
	fmt.Printf("\n## Tool calls over MCP\n\n| | version | command line |\n|---|---|---|\n")
	list := []*server{&all.sdk, &all.own, &all.direct, &all.door, &all.logged}
	for _, p := range append(list, all.files, all.shell) {
		if p == nil {
			continue
		}
		argv := slices.Clone(p.argv)
		argv[0] = filepath.Base(argv[0])
		line := s.hide(strings.ReplaceAll(strings.Join(argv, " "), o.tools, "$TOOLS"))
		fmt.Printf("| %s | %s | `%s` |\n", p.name, p.version, line)
	}
	for _, m := range all.missing {
		fmt.Printf("\nNot measured: %s.\n", s.hide(m))
	}
	for _, part := range []func(context.Context, options, *stage, *servers) error{mcpCalls, mcpFiles, mcpStarts, mcpConnections} {
		if err := part(ctx, o, s, all); err != nil {
			return err
		}
	}
	return nil
}

// servers builds or finds them.
func (s *stage) servers(ctx context.Context, o options) (*servers, error) {
	bin := filepath.Join(s.dir, "bin")
	progress("building the servers that are compared")
	// As the product is built; its own programs are copied, so that all were written in the same way.
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", bin+"/", "./bench/sdkecho", "./bench/ownserver")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if err := os.Mkdir(bin, 0o755); err != nil {
		return nil, err
	}
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("go build: %w: %s", err, lastLine(out))
	}
	for _, name := range []string{"dshx", "dshx-mcp"} {
		b, err := os.ReadFile(filepath.Join(filepath.Dir(o.dshx), name))
		if err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(bin, name), b, 0o755); err != nil {
			return nil, err
		}
	}
	at := func(name string) string { return filepath.Join(bin, name) }
	version := strings.Fields(firstLine(at("dshx"), "version") + " unknown unknown")[1]
	info, err := buildinfo.ReadFile(at("sdkecho"))
	if err != nil {
		return nil, err
	}
	sdk := "unknown"
	for _, d := range info.Deps {
		if d.Path == "github.com/modelcontextprotocol/go-sdk" {
			sdk = "go-sdk " + d.Version
		}
	}
	flags := []string{"--no-config", "--workspace", s.workspace}
	a := &servers{
		sdk:      server{"bare SDK server", sdk, []string{at("sdkecho")}},
		own:      server{"the same tool on dshx's server and pipeline", version, []string{at("ownserver"), "echo"}},
		direct:   server{"dshx-mcp", version, append([]string{at("dshx-mcp")}, flags...)},
		door:     server{"dshx serve", version, append([]string{at("dshx"), "serve"}, flags...)},
		logged:   server{"dshx-mcp with a log", version, append([]string{at("dshx-mcp")}, append(flags, "--log", filepath.Join(s.dir, "log"))...)},
		sessions: at("ownserver"),
	}
	npm := func(dir, name, version, script string, args ...string) *server {
		p, why := s.npmServer(ctx, o, dir, name, version, script, args...)
		if why != "" {
			a.missing = append(a.missing, why)
		}
		return p
	}
	a.files = npm("mcp", filesystemServer, "", "dist/index.js", s.workspace)
	a.shell = npm("shell", shellServer, shellVersion, "build/index.js")
	return a, nil
}

// npmServer is a server of npm's, with its version; why says why it can't be had.
func (s *stage) npmServer(ctx context.Context, o options, dir, name, version, script string, args ...string) (p *server, why string) {
	node, err := exec.LookPath("node")
	if err != nil {
		return nil, name + " of npm needs node, which is not installed"
	}
	dir = filepath.Join(o.tools, dir)
	root := filepath.Join(dir, "node_modules", filepath.FromSlash(name))
	path := filepath.Join(root, filepath.FromSlash(script))
	if !exists(path) {
		if !o.install {
			return nil, name + " of npm is not installed"
		}
		wanted := name
		if version != "" {
			wanted += "@" + version
		}
		progress("installing %s", wanted)
		if err := npmInstall(ctx, dir, wanted); err != nil {
			return nil, name + ": " + err.Error()
		}
	}
	var is struct{ Version string }
	b, err := os.ReadFile(filepath.Join(root, "package.json"))
	if err == nil {
		err = json.Unmarshal(b, &is)
	}
	if err != nil {
		return nil, name + ": " + err.Error()
	}
	return &server{"npm " + name, is.Version + ", node " + firstLine(node, "--version"), append([]string{node, path}, args...)}, ""
}

// A client of one server. What it does while time is taken is to write bytes that
// were made before, and to read up to the end of a line.
type client struct {
	name string
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
	errs bytes.Buffer
}

const hello = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}` + "\n"

// start starts p and waits for its reply to initialize.
func (s *stage) start(p server) (*client, error) {
	c := &client{name: p.name, cmd: exec.Command(p.argv[0], p.argv[1:]...)}
	c.cmd.Dir, c.cmd.Env, c.cmd.Stderr = s.workspace, s.environ(), &c.errs
	var err error
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.out = bufio.NewReaderSize(out, 64<<10)
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	if _, err := c.ask([]byte(hello)); err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

// ready starts p, which has opened what it opens when ready returns.
func (s *stage) ready(p server, first []byte) (*client, error) {
	c, err := s.start(p)
	if err != nil {
		return nil, err
	}
	_, err = io.WriteString(c.in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n")
	if err == nil {
		err = c.good(first)
	}
	if err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

func (c *client) close() error {
	_ = c.in.Close()
	_, _ = io.Copy(io.Discard, c.out)
	if err := c.cmd.Wait(); err != nil {
		return fmt.Errorf("%s: %w: %s", c.name, err, lastLine(c.errs.Bytes()))
	}
	return nil
}

// ask writes request, a line, and returns its reply: what is no notification.
func (c *client) ask(request []byte) ([]byte, error) {
	if _, err := c.in.Write(request); err != nil {
		return nil, c.lost(err)
	}
	return c.next()
}

// together writes many requests at once and takes as many replies.
func (c *client) together(requests []byte, n int) error {
	// Beside reading: the pipe has no room for all of what is longer.
	wrote := make(chan error, 1)
	go func() { _, err := c.in.Write(requests); wrote <- err }()
	for range n {
		reply, err := c.next()
		if err == nil {
			err = judge(reply)
		}
		if err != nil {
			return c.lost(err)
		}
	}
	return <-wrote
}

func (c *client) next() ([]byte, error) {
	for {
		line, err := c.out.ReadBytes('\n')
		if err != nil {
			return nil, c.lost(err)
		}
		if !bytes.Contains(line[:min(len(line), 100)], []byte(`"method":"notifications/`)) {
			return line, nil
		}
	}
}

func (c *client) lost(err error) error {
	return fmt.Errorf("%s: %w %s", c.name, err, lastLine(c.errs.Bytes()))
}

// good makes a call and looks into its reply.
func (c *client) good(request []byte) error {
	reply, err := c.ask(request)
	if err != nil {
		return err
	}
	if err := judge(reply); err != nil {
		return c.lost(err)
	}
	return nil
}

// judge refuses a reply that says that the call failed.
func judge(reply []byte) error {
	var r struct {
		Result *struct{ IsError bool }
		Error  json.RawMessage
	}
	switch err := json.Unmarshal(reply, &r); {
	case err != nil:
		return err
	case r.Error != nil || r.Result == nil || r.Result.IsError:
		return fmt.Errorf("the call failed: %.300s", reply)
	}
	return nil
}

// toolCall is a request as a line.
func toolCall(id int, name string, args any) []byte {
	b, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": map[string]any{"name": name, "arguments": args}})
	if err != nil {
		panic(err) // of this program's own values
	}
	return append(b, '\n')
}

type object = map[string]any

// A side is one half of a pair: ask is what is timed, after it comes what is not.
type side struct {
	name  string
	ask   func(i int) ([]byte, error)
	after func() error // may be nil
}

// repeat is the same call each time.
func (c *client) repeat(request []byte) side {
	return side{name: c.name, ask: func(int) ([]byte, error) { return c.ask(request) }}
}

func (c *client) many(request []byte, n int) side {
	var all []byte
	for i := range n {
		all = append(all, bytes.Replace(request, []byte(`"id":1`), []byte(`"id":`+strconv.Itoa(100+i)), 1)...)
	}
	return side{name: c.name, ask: func(int) ([]byte, error) { return nil, c.together(all, n) }}
}

// pairs prints one row: both sides in random order, again and again.
func pairs(ctx context.Context, what string, n int, ours, theirs side) error {
	const warmUp = 5
	var a, b, ratio []float64
	for i := -warmUp; i < n; i++ {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		sides, took := [2]side{ours, theirs}, [2]float64{}
		for _, k := range rand.Perm(2) {
			var reply []byte
			var err error
			took[k], err = timed(func() (err error) { reply, err = sides[k].ask(i + warmUp); return err })
			if err == nil && reply != nil {
				err = judge(reply)
			}
			if err == nil && sides[k].after != nil {
				err = sides[k].after()
			}
			if err != nil {
				return fmt.Errorf("%s: %w", what, err)
			}
		}
		if i >= 0 {
			a, b, ratio = append(a, took[0]), append(b, took[1]), append(ratio, took[0]/took[1])
		}
	}
	fmt.Printf("| %s | %s | %.3f | %s | %.3f | %.2f | %.2f–%.2f | %d |\n", what, ours.name, median(a), theirs.name, median(b),
		median(ratio), quantile(ratio, 0.25), quantile(ratio, 0.75), n)
	return nil
}

func pairsHeader(title string) {
	load, _ := os.ReadFile("/proc/loadavg")
	fmt.Printf("\n### %s\n\nLoad at the start: %s.\n\n", title, strings.Join(strings.Fields(string(load))[:1], ""))
	fmt.Printf("| | | ms (median) | beside it | ms (median) | ratio of pairs (median) | quarter to three quarters | pairs |\n|---|---|---|---|---|---|---|---|\n")
}

// mcpCalls: what a call costs that does nothing.
func mcpCalls(ctx context.Context, o options, s *stage, all *servers) (err error) {
	progress("calls over MCP")
	echo := func(size int) []byte { return toolCall(1, "echo", object{"text": strings.Repeat("x", size)}) }
	jobs := toolCall(1, "job_list", object{})
	var open []*client
	defer func() {
		for _, c := range open {
			err = errors.Join(err, c.close())
		}
	}()
	start := func(p server, first []byte) *client {
		if err != nil {
			return nil
		}
		var c *client
		if c, err = s.ready(p, first); err == nil {
			open = append(open, c)
		}
		return c
	}
	sdk, own := start(all.sdk, echo(10)), start(all.own, echo(10))
	direct, logged := start(all.direct, jobs), start(all.logged, jobs)
	if err != nil {
		return err
	}
	pairsHeader("A call, against the bare SDK server")
	for _, size := range []struct {
		name  string
		bytes int
		n     int
	}{{"10 B", 10, o.rounds * 5}, {"1 KiB", 1 << 10, o.rounds * 5}, {"64 KiB", 64 << 10, o.rounds}} {
		if err := pairs(ctx, "echo of "+size.name, size.n, own.repeat(echo(size.bytes)), sdk.repeat(echo(size.bytes))); err != nil {
			return err
		}
	}
	for _, r := range []struct {
		what         string
		n            int
		ours, theirs side
	}{
		{"`job_list` against an echo of 10 B", o.rounds * 5, direct.repeat(jobs), sdk.repeat(echo(10))},
		{"`job_list`, with a log and without", o.rounds * 5, logged.repeat(jobs), direct.repeat(jobs)},
		{"32 echoes of 10 B in flight, all of them", o.rounds, own.many(echo(10), 32), sdk.many(echo(10), 32)},
		{"32 `job_list` in flight against 32 echoes", o.rounds, direct.many(jobs, 32), sdk.many(echo(10), 32)},
	} {
		if err := pairs(ctx, r.what, r.n, r.ours, r.theirs); err != nil {
			return err
		}
	}
	return nil
}

// mcpFiles: calls that do something, against servers that do the same unconfined.
func mcpFiles(ctx context.Context, o options, s *stage, all *servers) (err error) {
	progress("files and commands over MCP")
	at := func(name string) string { return filepath.Join(s.workspace, name) }
	line := "a line of sixty-four bytes, with its end, as source has them..\n"
	text := func(size int) string { return ("mode = 1\n" + strings.Repeat(line, size/len(line)+1))[:size-1] + "\n" }
	for name, size := range map[string]int{"small.txt": 1 << 10, "other.txt": 1 << 10, "large.txt": 1 << 20} {
		if err := os.WriteFile(at(name), []byte(text(size)), 0o644); err != nil {
			return err
		}
	}
	read := func(name string) []byte { return toolCall(1, "read", object{"file_path": at(name)}) }
	d, err := s.ready(all.direct, read("small.txt"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	pairsHeader("Files and commands, against servers of npm")
	if all.files != nil {
		m, err := s.ready(*all.files, toolCall(1, "read_text_file", object{"path": at("small.txt")}))
		if err != nil {
			return err
		}
		defer func() { _ = m.close() }()
		theirs := func(name string) side { return m.repeat(toolCall(1, "read_text_file", object{"path": at(name)})) }
		edit := func(c *client, tool string, args func(old, put string) object) side {
			words := [2]string{"mode = 1", "mode = 2"}
			var made [2][]byte
			for i := range made {
				made[i] = toolCall(1, tool, args(words[i], words[1-i]))
			}
			return side{name: c.name, ask: func(i int) ([]byte, error) { return c.ask(made[i%2]) }}
		}
		ourEdit := edit(d, "edit", func(old, put string) object {
			return object{"file_path": at("small.txt"), "old_string": old, "new_string": put}
		})
		theirEdit := edit(m, "edit_file", func(old, put string) object {
			return object{"path": at("other.txt"), "edits": []any{object{"oldText": old, "newText": put}}}
		})
		for _, r := range []struct {
			what         string
			n            int
			ours, theirs side
		}{
			{"read 1 KiB", o.rounds, d.repeat(read("small.txt")), theirs("small.txt")},
			{"read 1 MiB, 2,000 lines of it against all", max(o.rounds/3, 5), d.repeat(read("large.txt")), theirs("large.txt")},
			{"read 1 MiB, all of its lines", max(o.rounds/3, 5), d.repeat(toolCall(1, "read", object{"file_path": at("large.txt"), "limit": 20000})), theirs("large.txt")},
			{"edit 1 KiB", o.rounds, ourEdit, theirEdit},
			{"32 reads of 1 KiB in flight, all of them", max(o.rounds/3, 5), d.many(read("small.txt"), 32), m.many(toolCall(1, "read_text_file", object{"path": at("small.txt")}), 32)},
		} {
			if err := pairs(ctx, r.what, r.n, r.ours, r.theirs); err != nil {
				return err
			}
		}
	}
	bash := d.repeat(toolCall(1, "bash", object{"command": "true"}))
	if all.shell != nil {
		m, err := s.ready(*all.shell, toolCall(1, "run_command", object{"command": "true"}))
		if err != nil {
			return err
		}
		defer func() { _ = m.close() }()
		if err := pairs(ctx, "bash `true`", o.rounds, bash, m.repeat(toolCall(1, "run_command", object{"command": "true"}))); err != nil {
			return err
		}
	}
	return pairs(ctx, "bash `true`", o.rounds, bash, side{name: "`bash -c true`", ask: func(int) ([]byte, error) {
		cmd := exec.CommandContext(ctx, "bash", "-c", "true")
		cmd.Dir, cmd.Env = s.workspace, s.environ()
		return nil, cmd.Run()
	}})
}

// mcpStarts: from the start of a process to its reply to initialize.
func mcpStarts(ctx context.Context, o options, s *stage, all *servers) error {
	progress("first responses")
	pairsHeader("From the start of the process to the reply to `initialize`")
	one := func(p server) side {
		var c *client
		return side{
			name:  p.name,
			ask:   func(int) (_ []byte, err error) { c, err = s.start(p); return nil, err },
			after: func() error { return c.close() },
		}
	}
	for _, p := range []server{all.direct, all.door, all.logged} {
		if err := pairs(ctx, "first response", o.rounds, one(p), one(all.sdk)); err != nil {
			return err
		}
	}
	if all.files != nil {
		return pairs(ctx, "first response", max(o.rounds/10, 5), one(all.direct), one(*all.files))
	}
	return nil
}

// mcpConnections: many, one after another and at once. Over standard streams each
// is a process; what one process has after many of them is measured, too.
func mcpConnections(ctx context.Context, o options, s *stage, all *servers) error {
	const together = 100
	n := o.connections
	progress("%d connections", n)
	file := filepath.Join(s.workspace, "small.txt")
	if err := os.WriteFile(file, []byte("a line of text\n"), 0o644); err != nil {
		return err
	}
	calls := [][]byte{toolCall(1, "read", object{"file_path": file}), toolCall(2, "bash", object{"command": "true"})}
	connect := func() (*client, error) {
		c, err := s.ready(all.direct, calls[0])
		if err == nil {
			err = c.good(calls[1])
		}
		return c, err
	}
	own := &peerProc{cmd: &exec.Cmd{Process: &os.Process{Pid: os.Getpid()}}}
	before, err := own.use()
	if err != nil {
		return err
	}
	left, err := s.processes()
	if err != nil {
		return err
	}
	var took []float64
	for range n {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		ms, err := timed(func() error {
			c, err := connect()
			if err != nil {
				return err
			}
			return c.close()
		})
		if err != nil {
			return err
		}
		took = append(took, ms)
	}
	after, err := own.use()
	if err != nil {
		return err
	}
	leftAfter, err := s.processes()
	if err != nil {
		return err
	}
	fmt.Printf("\n### Connections\n\nEach says hello, reads a file, runs `true` by bash, and leaves.\n\n")
	fmt.Printf("%d processes of dshx-mcp one after another: %.1f ms each (median); processes of theirs before %d, after %d; the client's descriptors %d → %d.\n",
		n, median(took), left, leftAfter, before[2], after[2])

	var open []*client
	var memory, threads, descriptors []float64
	for range together {
		c, err := connect()
		if c != nil {
			open = append(open, c)
		}
		if err != nil {
			break
		}
		u, err := (&peerProc{cmd: c.cmd}).use()
		if err != nil {
			break
		}
		threads, descriptors = append(threads, float64(u[1])), append(descriptors, float64(u[2]))
	}
	for _, c := range open {
		kib, err := share(c.cmd.Process.Pid)
		if err != nil {
			break
		}
		memory = append(memory, kib)
	}
	most, err := s.processes()
	errs := []error{err}
	for _, c := range open {
		errs = append(errs, c.close())
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if len(memory) < together {
		return fmt.Errorf("only %d connections at once", len(memory))
	}
	if leftAfter, err = s.processes(); err != nil {
		return err
	}
	fmt.Printf("\n%d at once: each %.0f KiB of memory (with its share of what they have in common), %.0f threads, %.0f descriptors (medians); %d processes, %d when they have left.\n",
		together, median(memory), median(threads), median(descriptors), most, leftAfter)

	cmd := exec.CommandContext(ctx, all.sessions, "sessions", strconv.Itoa(n), strconv.Itoa(together))
	cmd.Dir, cmd.Env = s.workspace, s.environ()
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, lastLine(out))
	}
	fmt.Printf("\nThe same in one process that has one host and %d connections one after another, then %d at once:\n\n", n, together)
	for line := range strings.Lines(string(out)) {
		fmt.Printf("- %s\n", strings.TrimSpace(line))
	}
	return nil
}

// share is the memory of a process in KiB, of which what n processes have in common
// counts 1/n (Pss, proc_pid_smaps(5)).
func share(pid int) (float64, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/smaps_rollup")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "Pss:" {
			return strconv.ParseFloat(f[1], 64)
		}
	}
	return 0, errors.New("smaps_rollup has no Pss")
}

// processes counts those whose program or directory is of this run.
func (s *stage) processes() (n int, err error) {
	list, err := filepath.Glob("/proc/[0-9]*")
	for _, p := range list {
		exe, _ := os.Readlink(p + "/exe")
		cwd, _ := os.Readlink(p + "/cwd")
		if strings.HasPrefix(exe, s.dir+"/bin/") || strings.HasPrefix(cwd, s.dir+"/") {
			n++
		}
	}
	return n, err
}
