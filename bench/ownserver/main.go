// Command ownserver is dshx's own parts as a benchmark needs them.
//
//	ownserver echo             the echo tool of sdkecho, on dshx's server and pipeline, without a sandbox
//	ownserver sessions N M     N connections to one host one after another, then M at once; what the process has is printed
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"

	"github.com/dshx/dshx/approval"
	"github.com/dshx/dshx/internal/toolset"
	"github.com/dshx/dshx/pipeline"
	"github.com/dshx/dshx/sandboxpolicy"
	"github.com/dshx/dshx/serve/mcp"
)

func main() {
	var err error
	switch args := os.Args[1:]; {
	case len(args) == 1 && args[0] == "echo":
		err = echo()
	case len(args) == 3 && args[0] == "sessions":
		err = sessions(args[1], args[2])
	default:
		err = errors.New("usage: ownserver echo | ownserver sessions N M")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "ownserver:", err)
		os.Exit(1)
	}
}

type said struct {
	Text string `json:"text"`
}

func echo() error {
	tool, err := pipeline.Define(pipeline.Spec[said, said]{
		Name: "echo", Description: "says it again", Parallel: true,
		Execute: func(_ context.Context, a said, _ *pipeline.Call) (said, error) { return a, nil },
		Render:  func(_, v said) []pipeline.Content { return []pipeline.Content{pipeline.Text(v.Text)} },
	})
	if err != nil {
		return err
	}
	scope := pipeline.New(pipeline.Options{})
	if _, err := scope.Register(tool); err != nil {
		return err
	}
	return mcp.Serve(context.Background(), os.Stdin, os.Stdout, mcp.Options{
		Version: "bench",
		Open:    func() (mcp.Session, error) { return &bare{scope, approval.New(approval.Never, 0)}, nil },
		Tools:   func() ([]*pipeline.Tool, error) { return []*pipeline.Tool{tool}, nil },
	})
}

// bare is a session without anything but tools.
type bare struct {
	scope     *pipeline.Scope
	approvals *approval.Service
}

func (b *bare) Scope() *pipeline.Scope          { return b.scope }
func (b *bare) Approvals() *approval.Service    { return b.approvals }
func (b *bare) Workspace() string               { return "/" }
func (b *bare) Status() string                  { return "" }
func (b *bare) Note(string, string)             {}
func (b *bare) JobEnds(func(mcp.JobEnd)) func() { return func() {} }
func (b *bare) EndJobs()                        {}
func (b *bare) Close() error                    { return nil }

// confined is a session of a host.
type confined struct {
	bare
	session *toolset.Session
}

func (c *confined) EndJobs()     { c.session.EndJobs() }
func (c *confined) Close() error { return c.session.Close() }

// sessions makes connections in the working directory, which has a file small.txt.
func sessions(one, together string) (err error) {
	n, err := strconv.Atoi(one)
	if err != nil {
		return err
	}
	m, err := strconv.Atoi(together)
	if err != nil {
		return err
	}
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	host := toolset.NewHost(sandboxpolicy.Request{Cwd: dir, NoConfig: true, Environ: os.Environ()}, toolset.Options{})
	defer func() { err = errors.Join(err, host.Close()) }()
	for i := range 20 { // what is made once is there
		if err := connection(host, dir, i); err != nil {
			return err
		}
	}
	before, err := use()
	if err != nil {
		return err
	}
	for i := range n {
		if err := connection(host, dir, i); err != nil {
			return fmt.Errorf("connection %d: %w", i, err)
		}
	}
	after, err := use()
	if err != nil {
		return err
	}
	// Twice: the first time makes threads, which are kept.
	var at [2]string
	for round := range at {
		var wg sync.WaitGroup
		errs := make([]error, m)
		for i := range m {
			wg.Go(func() { errs[i] = connection(host, dir, i) })
		}
		wg.Wait()
		if err := errors.Join(errs...); err != nil {
			return err
		}
		if at[round], err = use(); err != nil {
			return err
		}
	}
	fmt.Printf("before: %s\nafter %d one after another: %s\nafter %d at once: %s\nafter %d at once again: %s\n", before, n, after, m, at[0], m, at[1])
	return nil
}

// connection is one client: it says hello, reads a file, runs a command, leaves.
func connection(host *toolset.Host, dir string, number int) error {
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	served := make(chan error, 1)
	go func() {
		served <- mcp.Serve(context.Background(), in, out, mcp.Options{
			Version: "bench",
			Tools:   toolset.Definitions,
			Open: func() (mcp.Session, error) {
				s, err := host.Session("connection " + strconv.Itoa(number))
				if err != nil {
					return nil, err
				}
				if err := s.Opened(context.Background()); err != nil {
					return nil, errors.Join(err, s.Close())
				}
				return &confined{bare{s.Scope, s.Approvals}, s}, nil
			},
		})
		_ = out.Close()
	}()
	lines := bufio.NewReader(fromServer)
	ask := func(line string) error {
		if _, err := io.WriteString(toServer, line+"\n"); err != nil {
			return err
		}
		for {
			got, err := lines.ReadString('\n')
			switch {
			case err != nil:
				return err
			case strings.Contains(got, `"isError":true`) || strings.Contains(got, `"error":`):
				return fmt.Errorf("it answered %.300s", got)
			case strings.Contains(got, `"id":`):
				return nil
			}
		}
	}
	err := ask(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}`)
	if err == nil {
		_, err = io.WriteString(toServer, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n")
	}
	if err == nil {
		err = ask(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"read","arguments":{"file_path":` + strconv.Quote(filepath.Join(dir, "small.txt")) + `}}}`)
	}
	if err == nil {
		err = ask(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"bash","arguments":{"command":"true"}}}`)
	}
	_ = toServer.Close()
	_, _ = io.Copy(io.Discard, lines)
	return errors.Join(err, <-served)
}

// use is what this process has, after its garbage is gone.
func use() (string, error) {
	runtime.GC()
	debug.FreeOSMemory()
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return "", err
	}
	var rss, threads string
	for line := range strings.Lines(string(status)) {
		switch f := strings.Fields(line); {
		case len(f) > 1 && f[0] == "VmRSS:":
			rss = f[1]
		case len(f) > 1 && f[0] == "Threads:":
			threads = f[1]
		}
	}
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return "", err
	}
	// proc_pid_task_children(5): of all threads, since the kernel lists them so.
	tasks, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		return "", err
	}
	children := 0
	for _, t := range tasks {
		if b, err := os.ReadFile(t); err == nil {
			children += len(strings.Fields(string(b)))
		}
	}
	return fmt.Sprintf("memory %s KiB, heap %d KiB, goroutines %d, threads %s, descriptors %d, child processes %d",
		rss, mem.HeapAlloc>>10, runtime.NumGoroutine(), threads, len(fds), children), nil
}
