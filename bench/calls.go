package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// calls: tool calls over JSON lines, against the bare command, ripgrep, and the
// file system server of npm where they can be had.
func calls(ctx context.Context, o options, s *stage, _ []contender) (err error) {
	root := filepath.Join(s.workspace, "calls")
	if err := makeTree(root); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(root)) }()
	small := filepath.Join(root, "small.txt")
	if err := os.WriteFile(small, []byte(strings.Repeat("a line of text\n", 100)), 0o644); err != nil {
		return err
	}
	d, err := startPeer(s, root, func(id int, name string, args any) any {
		return map[string]any{"id": id, "tool": name, "arguments": args}
	}, o.dshx, "exec", "--no-config")
	if err != nil {
		return err
	}
	defer d.close()
	m, why := mcpServer(ctx, o, s, root)
	if m != nil {
		defer m.close()
	}
	rg, rgErr := exec.LookPath("rg")

	fmt.Printf("\n## Tool calls over JSON lines, 20000 small files\n\n")
	if why != "" {
		fmt.Printf("Not measured: %s.\n", s.hide(why))
	}
	if rgErr != nil {
		fmt.Printf("Not measured: ripgrep is not installed.\n")
	}
	fmt.Printf("| | ms (median) | beside it | ms (median) | ratio of pairs (median) | pairs |\n|---|---|---|---|---|---|\n")
	row := func(name string, pairs int, ours func(i int) error, other string, theirs func(i int) error) error {
		if theirs == nil {
			theirs = func(int) error { return nil }
		}
		var a, b, ratio []float64
		for i := range pairs {
			if err := ctx.Err(); err != nil {
				return err
			}
			x, err := timed(func() error { return ours(i) })
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			y, err := timed(func() error { return theirs(i) })
			if err != nil {
				return fmt.Errorf("%s: %w", other, err)
			}
			a, b, ratio = append(a, x), append(b, y), append(ratio, x/y)
		}
		if other == "" {
			fmt.Printf("| %s | %.3f | | | | %d |\n", name, median(a), pairs)
			return nil
		}
		fmt.Printf("| %s | %.3f | %s | %.3f | %.2f | %d |\n", name, median(a), other, median(b), median(ratio), pairs)
		return nil
	}
	tool := func(name string, args any) func(int) error {
		return func(int) error { _, err := d.call(name, args); return err }
	}
	peer := func(name string, args any) func(int) error {
		if m == nil {
			return nil
		}
		return func(int) error { _, err := m.call(name, args); return err }
	}
	search := func(args ...string) func(int) error {
		if rgErr != nil {
			return nil
		}
		return func(int) error {
			cmd := exec.CommandContext(ctx, rg, args...)
			cmd.Dir = root
			return cmd.Run()
		}
	}
	name := func(with bool, name string) string {
		if with {
			return name
		}
		return ""
	}
	plain := func(int) error {
		cmd := exec.CommandContext(ctx, "bash", "-c", "true")
		cmd.Dir, cmd.Env = root, s.environ()
		return cmd.Run()
	}
	edit := func(find, put string) any {
		return map[string]any{"file_path": small, "old_string": find, "new_string": put, "replace_all": true}
	}
	const npm = "npm server-filesystem"
	if _, err := d.call("read", map[string]any{"file_path": small}); err != nil {
		return err
	}
	for _, r := range []func() error{
		func() error {
			return row("round trip of job_list", o.rounds*5, tool("job_list", map[string]any{}), "", nil)
		},
		func() error {
			return row("bash `true`", o.rounds, tool("bash", map[string]any{"command": "true"}), "`bash -c true`", plain)
		},
		func() error {
			return row("read, 100 lines", o.rounds, tool("read", map[string]any{"file_path": small}), name(m != nil, npm), peer("read_text_file", map[string]any{"path": small}))
		},
		func() error {
			words := [2]string{"line", "LINE"}
			return row("edit, 100 lines", o.rounds, func(i int) error {
				_, err := d.call("edit", edit(words[i%2], words[1-i%2]))
				return err
			}, name(m != nil, npm), func() func(int) error {
				if m == nil {
					return nil
				}
				other := filepath.Join(root, "other.txt")
				text, err := os.ReadFile(small)
				if err != nil || os.WriteFile(other, text, 0o644) != nil {
					return nil
				}
				return func(i int) error {
					_, err := m.call("edit_file", map[string]any{"path": other, "edits": []any{map[string]any{"oldText": "a " + words[i%2] + " of", "newText": "a " + words[1-i%2] + " of"}}})
					return err
				}
			}())
		},
		func() error {
			return row("grep, no match", max(o.rounds/10, 5), tool("grep", map[string]any{"pattern": "no such text anywhere", "path": root}), name(rgErr == nil, "`rg`"), func() func(int) error {
				f := search("-q", "no such text anywhere")
				if f == nil {
					return nil
				}
				return func(i int) error { _ = f(i); return nil } // its status says that nothing was found
			}())
		},
		func() error {
			return row("glob `**/*1.txt`", max(o.rounds/10, 5), tool("glob", map[string]any{"pattern": "**/*1.txt", "path": root, "limit": 100}), name(rgErr == nil, "`rg --files -g`"), search("--files", "-g", "**/*1.txt"))
		},
		func() error {
			if m == nil {
				return nil
			}
			return row("glob `**/*1.txt`", max(o.rounds/30, 3), tool("glob", map[string]any{"pattern": "**/*1.txt", "path": root, "limit": 100}), npm, peer("search_files", map[string]any{"path": root, "pattern": "**/*1.txt"}))
		},
		func() error {
			return row("64 reads in flight, all of them", o.rounds, func(int) error { return d.together(64, "read", map[string]any{"file_path": small}) }, "", nil)
		},
	} {
		if err := r(); err != nil {
			return err
		}
	}
	return growth(ctx, d, o.rounds*333, small)
}

// growth makes n mixed calls and says what the process has before and after.
func growth(ctx context.Context, d *peerProc, n int, file string) error {
	mixed := func(i int) error {
		var err error
		switch i % 20 {
		case 0:
			_, err = d.call("bash", map[string]any{"command": "true"})
		case 1:
			_, err = d.call("list", map[string]any{})
		case 2:
			_, err = d.call("bash", map[string]any{"command": "echo x", "run_in_background": true})
		case 3:
			_, err = d.call("job_wait", map[string]any{})
		default:
			_, err = d.call("read", map[string]any{"file_path": file})
		}
		return err
	}
	for i := range 2000 {
		if err := mixed(i); err != nil {
			return err
		}
	}
	before, err := d.use()
	if err != nil {
		return err
	}
	for i := range n {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := mixed(i); err != nil {
			return err
		}
	}
	after, err := d.use()
	if err != nil {
		return err
	}
	fmt.Printf("\n%d mixed calls after 2000: memory %d → %d KiB, threads %d → %d, descriptors %d → %d.\n", n,
		before[0], after[0], before[1], after[1], before[2], after[2])
	return nil
}

func timed(f func() error) (ms float64, err error) {
	began := time.Now()
	err = f()
	return float64(time.Since(began).Nanoseconds()) / 1e6, err
}

// peerProc is a program that answers requests, one a line.
type peerProc struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	encode func(id int, name string, args any) any
	last   int
}

func startPeer(s *stage, dir string, encode func(id int, name string, args any) any, argv ...string) (*peerProc, error) {
	p := &peerProc{cmd: exec.Command(argv[0], argv[1:]...), encode: encode}
	p.cmd.Dir, p.cmd.Env = dir, s.environ()
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = bufio.NewReaderSize(out, 1<<20)
	return p, p.cmd.Start()
}

func (p *peerProc) close() {
	_ = p.in.Close()
	_, _ = io.Copy(io.Discard, p.out)
	_ = p.cmd.Wait()
}

func (p *peerProc) send(name string, args any) error {
	p.last++
	b, err := json.Marshal(p.encode(p.last, name, args))
	if err != nil {
		return err
	}
	_, err = p.in.Write(append(b, '\n'))
	return err
}

// receive returns the next result; events are passed over, failures are errors.
func (p *peerProc) receive() (json.RawMessage, error) {
	for {
		line, err := p.out.ReadBytes('\n')
		if err != nil {
			return nil, err
		}
		var r struct {
			ID     json.RawMessage
			Event  string
			Method string
			OK     *bool
			Error  json.RawMessage
			Value  json.RawMessage
			Result *struct{ IsError bool }
		}
		if err := json.Unmarshal(line, &r); err != nil {
			return nil, err
		}
		switch {
		case r.Event != "" || r.Method != "":
			continue
		case len(r.Error) > 0, r.OK != nil && !*r.OK, r.Result != nil && r.Result.IsError:
			return nil, fmt.Errorf("the call failed: %.300s", line)
		}
		return r.Value, nil
	}
}

func (p *peerProc) call(name string, args any) (json.RawMessage, error) {
	if err := p.send(name, args); err != nil {
		return nil, err
	}
	return p.receive()
}

func (p *peerProc) together(n int, name string, args any) error {
	for range n {
		if err := p.send(name, args); err != nil {
			return err
		}
	}
	for range n {
		if _, err := p.receive(); err != nil {
			return err
		}
	}
	return nil
}

// use is the memory in KiB, the threads and the descriptors of the process.
func (p *peerProc) use() (u [3]int, err error) {
	proc := "/proc/" + strconv.Itoa(p.cmd.Process.Pid)
	status, err := os.ReadFile(proc + "/status")
	if err != nil {
		return u, err
	}
	for line := range strings.Lines(string(status)) {
		if f := strings.Fields(line); len(f) > 1 {
			switch f[0] {
			case "VmRSS:":
				u[0], err = strconv.Atoi(f[1])
			case "Threads:":
				u[1], err = strconv.Atoi(f[1])
			}
			if err != nil {
				return u, err
			}
		}
	}
	fds, err := os.ReadDir(proc + "/fd")
	u[2] = len(fds)
	return u, err
}

// mcpServer starts npm's file system server for root; why says why not.
func mcpServer(ctx context.Context, o options, s *stage, root string) (p *peerProc, why string) {
	const script = "node_modules/@modelcontextprotocol/server-filesystem/dist/index.js"
	dir := filepath.Join(o.tools, "mcp")
	if !exists(filepath.Join(dir, script)) {
		if !o.install {
			return nil, "npm's server-filesystem is not installed"
		}
		if err := npmInstall(ctx, dir, "@modelcontextprotocol/server-filesystem"); err != nil {
			return nil, "npm's server-filesystem: " + err.Error()
		}
	}
	node, err := exec.LookPath("node")
	if err != nil {
		return nil, "npm's server-filesystem needs node"
	}
	p, err = startPeer(s, root, func(id int, name string, args any) any {
		return map[string]any{"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": map[string]any{"name": name, "arguments": args}}
	}, node, filepath.Join(dir, script), root)
	if err != nil {
		return nil, "npm's server-filesystem: " + err.Error()
	}
	hello := `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}` + "\n"
	_, err = io.WriteString(p.in, hello)
	if err == nil {
		_, err = p.receive()
	}
	if err == nil {
		_, err = io.WriteString(p.in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n")
	}
	if err != nil {
		p.close()
		return nil, "npm's server-filesystem: " + err.Error()
	}
	return p, ""
}
