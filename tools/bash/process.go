package bash

import (
	"context"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dshx/dshx/internal/result"
	"github.com/dshx/dshx/jobs"
	"github.com/dshx/dshx/sandbox"
	"golang.org/x/sys/unix"
)

// A process is a shell that was started, with this side's ends of its streams.
type process struct {
	cmd     *sandbox.Cmd
	scope   *sandbox.Scope
	cwd     string
	release func() // of the scope

	sources []*source
	in      *input // nil: /dev/null
	feeding sync.WaitGroup

	ended chan struct{} // closed when the shell has ended: cmd.State and err are set
	err   error         // of a shell that could not be followed; State is nil then
	once  sync.Once
}

// start starts the shell of a call. It takes over release, which is called
// when the process is closed, or has not become one.
func start(a *Args, scope *sandbox.Scope, release func(), cwd string, killAfter time.Duration) (p *process, err error) {
	p = &process{scope: scope, cwd: cwd, release: release, ended: make(chan struct{})}
	shell, err := findShell(scope.Policy().Environ())
	if err != nil {
		release()
		return nil, err
	}
	// Not even an interactive-looking shell reads files: bash(1), INVOCATION.
	c := scope.Command(shell, "--noprofile", "--norc", "-c", a.Command)
	c.Args[0] = "bash"
	c.Dir, c.Env, c.Session, c.KillAfter = cwd, environment(scope.Policy().Environ(), a), true, killAfter
	p.cmd = c
	var theirs []*os.File
	defer func() {
		for _, f := range theirs {
			_ = f.Close()
		}
		if err != nil {
			p.closeFiles()
			release()
		}
	}()
	if a.Pty {
		c.Terminal = &sandbox.Terminal{Rows: uint16(a.Rows), Cols: uint16(a.Cols)}
	} else {
		for _, s := range []struct {
			name string
			to   func(f *os.File)
		}{{"stdout", func(f *os.File) { c.Stdout = f }}, {"stderr", func(f *os.File) { c.Stderr = f }}} {
			ours, other, err := pipe(false)
			if err != nil {
				return nil, err
			}
			theirs = append(theirs, other)
			p.sources = append(p.sources, &source{name: s.name, file: ours})
			s.to(other)
		}
		if a.Stdin != "" || a.Interactive {
			ours, other, err := pipe(true)
			if err != nil {
				return nil, err
			}
			theirs = append(theirs, other)
			c.Stdin = other
			p.in = newInput(ours, false, a.Interactive)
		}
	}
	if err := c.Start(); err != nil {
		return nil, err
	}
	if a.Pty {
		// One that can be waited for, whatever the mode of the original is.
		fd, err := unix.FcntlInt(c.Terminal.Master.Fd(), unix.F_DUPFD_CLOEXEC, 0)
		if err == nil {
			err = unix.SetNonblock(fd, true)
		}
		if err != nil {
			c.SignalTree(unix.SIGKILL)
			_ = c.Wait()
			c.CloseTerminal()
			return nil, os.NewSyscallError("fcntl", err)
		}
		master := os.NewFile(uintptr(fd), "ptmx")
		p.sources = append(p.sources, &source{name: "stdout", file: master, pty: true})
		p.in = newInput(master, true, a.Interactive)
	}
	if p.in != nil {
		p.in.feed(a.Stdin, &p.feeding)
	}
	go func() {
		_ = c.AwaitExit(context.Background()) // there may be many jobs, and each Wait holds a thread
		if err := c.Wait(); c.State == nil {
			p.err = err
		}
		close(p.ended)
	}()
	return p, nil
}

// findShell returns the path of bash. The call's own environment has no say in
// which one it is.
func findShell(env []string) (string, error) {
	var dirs []string
	for _, kv := range env {
		if path, ok := strings.CutPrefix(kv, "PATH="); ok {
			dirs = strings.Split(path, ":")
		}
	}
	for _, dir := range append(dirs, "/bin", "/usr/bin", "/usr/local/bin") {
		if !strings.HasPrefix(dir, "/") {
			continue
		}
		path := dir + "/bash"
		var st unix.Stat_t
		if unix.Stat(path, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG && unix.Faccessat(unix.AT_FDCWD, path, unix.X_OK, unix.AT_EACCESS) == nil {
			return path, nil
		}
	}
	return "", &sandbox.StartError{ErrCode: "COMMAND_NOT_FOUND", Msg: "there is no bash in PATH; install it", Err: os.ErrNotExist}
}

// startupFile names the file that a shell reads first: bash(1).
const startupFile = "BASH_ENV"

// environment is the policy's, with the call's additions. Without a terminal
// there is none of the caller's either: programs that ask TERM whether to start
// an editor or to colour would wait, or write, for one.
func environment(base []string, a *Args) []string {
	env := slices.DeleteFunc(slices.Clone(base), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		_, replaced := a.Env[name]
		return replaced || name == startupFile || name == "TERM" && !a.Pty
	})
	if _, given := a.Env["TERM"]; !given && !a.Pty {
		env = append(env, "TERM=dumb")
	}
	for name, value := range a.Env {
		env = append(env, name+"="+value)
	}
	return env
}

// closeFiles closes this side's ends.
func (p *process) closeFiles() {
	for _, s := range p.sources {
		_ = s.file.Close()
	}
	if p.in != nil {
		_ = p.in.file.Close()
	}
	p.feeding.Wait()
}

// close gives back what a process had, of which nothing lives any more.
func (p *process) close() {
	p.once.Do(func() {
		p.closeFiles()
		if p.cmd.Terminal != nil {
			p.cmd.CloseTerminal()
		}
		p.release()
	})
}

// pids are the processes that live, ascending and never nil.
func (p *process) pids() []int {
	pids := append([]int{}, p.cmd.Tree()...)
	slices.Sort(pids)
	return pids
}

// endAll ends what lives, and returns when nothing does.
func (p *process) endAll() {
	p.cmd.EndTree()
	// Usually nothing is left to wait for but the reaping. What no signal can
	// end, for the kernel has it, holds nobody up.
	ctx, cancel := context.WithTimeout(context.Background(), reapTime)
	defer cancel()
	_ = p.cmd.AwaitTree(ctx)
}

const reapTime = 2 * time.Second

// A producer is a process as a job.
type producer struct {
	*process
	out jobs.Output
	// whole: the job has the shell itself, and so its exit code; else it has
	// what the shell left behind.
	whole bool
}

// Signal is jobs.Producer's.
func (p *producer) Signal(name string) error {
	sig := unix.SignalNum("SIG" + name)
	rounds := 1
	if sig == unix.SIGKILL {
		rounds = 3 // what is forked meanwhile
	}
	for range rounds {
		p.cmd.SignalTree(sig)
	}
	if sig != unix.SIGKILL {
		p.cmd.SignalTree(unix.SIGCONT) // a stopped process handles nothing
	}
	return nil
}

// PIDs is jobs.Producer's.
func (p *producer) PIDs() []int { return p.pids() }

// Input is jobs.Producer's.
func (p *producer) Input(ctx context.Context, b []byte, eof bool) (int, error) {
	return p.in.give(ctx, b, eof)
}

// Wait is jobs.Producer's.
func (p *producer) Wait() jobs.Outcome {
	var pumps sync.WaitGroup
	for _, s := range p.sources {
		_ = s.file.SetReadDeadline(time.Time{}) // the call may have halted it
		pumps.Go(func() { s.pump(p.writer(s)) })
	}
	<-p.ended
	_ = p.cmd.AwaitTree(context.Background())
	// Nothing more is written. What the pipes hold is read even if somebody
	// who is not of the tree has got hold of their other ends.
	for _, s := range p.sources {
		s.halt()
	}
	pumps.Wait()
	for _, s := range p.sources {
		s.drain(-1, p.writer(s))
	}
	p.close()
	switch {
	case p.err != nil:
		return jobs.Outcome{Err: p.err}
	case !p.whole:
		return jobs.Outcome{}
	}
	code, sig := result.Ending(p.cmd.State)
	o := jobs.Outcome{ExitCode: code}
	if sig != nil {
		o.Signal = *sig
	}
	if l := result.LimitOf(p.cmd.State, p.scope.Policy().Limits(), ""); l != nil {
		o.Limit = l.Name
	}
	return o
}

// writer passes what a source gives on to the job's output.
func (p *producer) writer(s *source) func(b []byte) {
	w := p.out.Stdout
	if s.name == "stderr" {
		w = p.out.Stderr
	}
	if len(s.hold) > 0 {
		_, _ = w.Write(s.hold) // from before the job
		s.hold = nil
	}
	return func(b []byte) { _, _ = w.Write(b) } // fails only after the end
}
