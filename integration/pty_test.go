package integration

import (
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
)

// Term is a program on a terminal of its own: the outer PTY, where a person
// would sit.
type Term struct {
	t      *testing.T
	Master *os.File
	Cmd    *exec.Cmd
	mu     sync.Mutex
	out    strings.Builder
	eof    chan struct{}
	done   chan struct{}
	state  *os.ProcessState
}

// Pty starts argv with the user's credentials in a new session on a new
// terminal of 24x80.
func (e *Env) Pty(o Opts, argv ...string) *Term {
	e.t.Helper()
	return e.PtySize(o, &pty.Winsize{Rows: 24, Cols: 80}, argv...)
}

// PtySize is Pty with a size.
func (e *Env) PtySize(o Opts, size *pty.Winsize, argv ...string) *Term {
	e.t.Helper()
	cmd := e.Command(o, argv...)
	cmd.SysProcAttr.Setpgid = false
	cmd.SysProcAttr.Setsid, cmd.SysProcAttr.Setctty = true, true
	master, slave, err := pty.Open()
	if err != nil {
		e.t.Fatal(err)
	}
	defer slave.Close()
	if err := pty.Setsize(master, size); err != nil {
		e.t.Fatal(err)
	}
	if isRoot { // login(1) hands the terminal over, too
		if err := os.Chown(slave.Name(), e.UID, -1); err != nil {
			e.t.Fatal(err)
		}
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	if err := cmd.Start(); err != nil {
		e.t.Fatal(err)
	}
	t := &Term{t: e.t, Master: master, Cmd: cmd, eof: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(t.eof)
		buf := make([]byte, 32768)
		for {
			n, err := master.Read(buf)
			t.mu.Lock()
			t.out.Write(buf[:n])
			t.mu.Unlock()
			if err != nil { // EIO: the last holder of the slave is gone
				return
			}
		}
	}()
	go func() {
		cmd.Wait()
		t.state = cmd.ProcessState
		close(t.done)
	}()
	e.t.Cleanup(t.Close)
	return t
}

// Send types text.
func (t *Term) Send(text string) {
	t.t.Helper()
	if _, err := t.Master.WriteString(text); err != nil {
		t.t.Fatal(err)
	}
}

// Output is everything printed so far.
func (t *Term) Output() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.out.String()
}

// Expect waits until the output has text and returns what came before it, from
// position from on; next is the position behind the text.
func (t *Term) Expect(text string, from int, within time.Duration) (next int) {
	t.t.Helper()
	for deadline := time.Now().Add(within); ; time.Sleep(5 * time.Millisecond) {
		out := t.Output()
		if i := strings.Index(out[min(from, len(out)):], text); i >= 0 {
			return from + i + len(text)
		}
		if time.Now().After(deadline) {
			t.t.Fatalf("terminal: no %q within %v in %q", text, within, out[min(from, len(out)):])
		}
	}
}

// Wait waits for the program to end and returns its exit status, 128+n for
// signal n.
func (t *Term) Wait(within time.Duration) int {
	t.t.Helper()
	select {
	case <-t.done:
	case <-time.After(within):
		t.t.Fatalf("terminal: not ended within %v: %q", within, t.Output())
	}
	select { // the rest of the output
	case <-t.eof:
	case <-time.After(time.Second):
	}
	ws := t.state.Sys().(syscall.WaitStatus)
	if ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return ws.ExitStatus()
}

// Close ends the program and closes the terminal.
func (t *Term) Close() {
	select {
	case <-t.done:
	default:
		syscall.Kill(-t.Cmd.Process.Pid, syscall.SIGKILL)
		<-t.done
	}
	t.Master.Close()
}
