package integration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// f3Account is one account that the scripts run as.
type f3Account struct {
	name string
	uid  int
	gid  int
}

// f3Accounts lists them as forEachUser does.
func f3Accounts() []f3Account {
	if !isRoot {
		return []f3Account{{"user", os.Getuid(), os.Getgid()}}
	}
	return []f3Account{{"user", ordinaryUID, ordinaryGID}, {"root", 0, 0}}
}

// launch is the probe's command line that becomes the account, to be followed
// by a command.
func (a f3Account) launch() []string {
	args := []string{"f3-launch"}
	if isRoot {
		args = append(args, "-gid", strconv.Itoa(a.gid), "-uid", strconv.Itoa(a.uid))
	}
	return append(args, "--")
}

// f3Launch is a Prefix that puts dshx into the state that the options of the
// probe's f3-launch describe.
func f3Launch(options ...string) []string {
	return append(append([]string{probeBin, "f3-launch"}, options...), "--")
}

// f3SharedDir is a directory that every account can reach, gone after the test.
func f3SharedDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp(baseDir, "script-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { forceRemove(dir) })
	return dir
}

// f3Status is the status of a process as a shell shows it.
func f3Status(state *os.ProcessState) int {
	ws := state.Sys().(syscall.WaitStatus)
	if ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return ws.ExitStatus()
}

// f3Together runs the functions at once, each as a subtest's worth of work, and
// waits for all: cases that mostly wait don't wait for each other.
func f3Together(fns ...func()) {
	var wg sync.WaitGroup
	for _, fn := range fns {
		wg.Add(1)
		// FailNow in such a goroutine ends the goroutine and marks the test.
		go func() { defer wg.Done(); fn() }()
	}
	wg.Wait()
}

// f3Proc is a dshx that the test talks to while it runs.
type f3Proc struct {
	t    *testing.T
	Cmd  *exec.Cmd
	done chan struct{}
	mu   sync.Mutex
	out  bytes.Buffer
}

// f3Start starts a command line as the Env's user and collects both its
// streams. It is killed at the end of the test.
func (e *Env) f3Start(o Opts, argv ...string) *f3Proc {
	e.t.Helper()
	p := &f3Proc{t: e.t, done: make(chan struct{})}
	p.Cmd = e.Command(o, argv...)
	p.Cmd.Stdin = o.Stdin
	p.Cmd.Stdout = p
	if o.Stdout != nil {
		p.Cmd.Stdout = o.Stdout
	}
	p.Cmd.Stderr = p
	p.Cmd.WaitDelay = 2 * time.Second
	if err := p.Cmd.Start(); err != nil {
		e.t.Fatal(err)
	}
	go func() {
		_ = p.Cmd.Wait() // what it says is in ProcessState
		close(p.done)
	}()
	e.t.Cleanup(func() {
		select {
		case <-p.done:
		default:
			_ = syscall.Kill(-p.Cmd.Process.Pid, syscall.SIGKILL)
			<-p.done
		}
	})
	return p
}

// Write collects output; the pipes' copying goroutines call it.
func (p *f3Proc) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.Write(b)
}

// Output is what both streams have shown so far.
func (p *f3Proc) Output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.String()
}

// Expect waits until the output has text n times.
func (p *f3Proc) Expect(text string, n int) {
	p.t.Helper()
	for deadline := time.Now().Add(10 * time.Second); strings.Count(p.Output(), text) < n; time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			p.t.Fatalf("no %q (%d times) in %q", text, n, p.Output())
		}
	}
}

// Signal sends a signal to dshx alone, not to its group.
func (p *f3Proc) Signal(sig syscall.Signal) {
	p.t.Helper()
	if err := syscall.Kill(p.Cmd.Process.Pid, sig); err != nil {
		p.t.Fatalf("kill: %v", err)
	}
}

// Ended tells whether it has ended.
func (p *f3Proc) Ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Wait waits for its end and returns the status as a shell shows it.
func (p *f3Proc) Wait(within time.Duration) int {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(within):
		p.t.Fatalf("not ended within %v, output %q", within, p.Output())
	}
	return f3Status(p.Cmd.ProcessState)
}

// f3Stat returns the fields of /proc/PID/stat from the state on: state, parent,
// group, session, … ; nil where there is no such process.
func f3Stat(pid int) []string {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil
	}
	return strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
}

// f3Zombies lists the zombies whose parent is the process.
func f3Zombies(parent int) []int {
	var pids []int
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		pid, _ := strconv.Atoi(filepath.Base(dir))
		if f := f3Stat(pid); len(f) > 1 && f[0] == "Z" && f[1] == strconv.Itoa(parent) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// f3WithArg lists the living processes that have the argument: those that
// threw their environment away are still found.
func f3WithArg(arg string) []int {
	var pids []int
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		data, err := os.ReadFile(dir + "/cmdline")
		if err != nil {
			continue
		}
		for _, one := range strings.Split(string(data), "\x00") {
			if one == arg {
				pid, _ := strconv.Atoi(filepath.Base(dir))
				pids = append(pids, pid)
				break
			}
		}
	}
	return pids
}

// f3Arg is a duration for sleep(1) that no other process of this machine has.
func (e *Env) f3Arg() string {
	return fmt.Sprintf("3%06d.%d", os.Getpid()%1_000_000, envCount.Add(1))
}

// f3OneLine fails the test unless text is one line of dshx's that has every
// one of the words.
func f3OneLine(t *testing.T, text string, words ...string) {
	t.Helper()
	if !strings.HasPrefix(text, "dshx: ") || strings.Count(text, "\n") != 1 || !strings.HasSuffix(text, "\n") {
		t.Errorf("standard error is %q, want one line of dshx", text)
	}
	for _, word := range words {
		if !strings.Contains(strings.ToLower(text), strings.ToLower(word)) {
			t.Errorf("%q does not say %q", text, word)
		}
	}
}

// f3JSONResult is the Result of a run with --json that the harness did not make.
func f3JSONResult(t *testing.T, state *os.ProcessState, stdout []byte) *Result {
	t.Helper()
	r := &Result{Exit: f3Status(state), Stdout: string(stdout), JSON: new(Value)}
	if err := json.Unmarshal(stdout, r.JSON); err != nil {
		t.Fatalf("--json printed %q: %v", clip(r.Stdout), err)
	}
	return r
}

// f3Ended fails the test when a process of the command's lives although dshx
// has ended. What dshx had running for its own sake may take a moment longer.
func (e *Env) f3Ended() {
	e.t.Helper()
	for _, pid := range e.Left() {
		// Those began as dshx and share its name.
		if comm := f3Comm(pid); comm != "" && !strings.HasPrefix(comm, "dshx") {
			e.t.Errorf("dshx has ended, but not %d (%s)", pid, comm)
		}
	}
	e.NothingLeft(time.Second)
}

// f3Comm is the name of a process, empty when there's none.
func f3Comm(pid int) string {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}
