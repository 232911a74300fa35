package sandbox

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dshx/dshx/sandboxpolicy"
	"golang.org/x/sys/unix"
)

func TestCmd_ReadsLikeOsExec(t *testing.T) {
	s := open(t, sandboxpolicy.Request{})
	t.Run("input and output", func(t *testing.T) {
		c := s.Command("tr", "a-z", "A-Z")
		c.Stdin = strings.NewReader("quiet\n")
		if out, err := c.Output(); err != nil || string(out) != "QUIET\n" {
			t.Errorf("got %q, %v", out, err)
		}
	})
	t.Run("output that is taken", func(t *testing.T) {
		c := s.Command("true")
		c.Stdout = io.Discard
		if _, err := c.Output(); err == nil || c.Process != nil {
			t.Errorf("got %v", err)
		}
	})
	t.Run("no input is an empty one", func(t *testing.T) {
		if out, err := s.Command("cat").Output(); err != nil || len(out) != 0 {
			t.Errorf("got %q, %v", out, err)
		}
	})
	t.Run("one writer for both streams", func(t *testing.T) {
		var b bytes.Buffer
		c := s.Command("sh", "-c", "echo a; echo b >&2; echo c")
		c.Stdout, c.Stderr = &b, &b
		if err := c.Run(); err != nil || b.String() != "a\nb\nc\n" {
			t.Errorf("got %q, %v", b.String(), err)
		}
	})
	t.Run("exit status", func(t *testing.T) {
		var e *ExitError
		if err := s.Command("sh", "-c", "exit 7").Run(); !errors.As(err, &e) || e.ExitCode != 7 || e.Signal != 0 {
			t.Errorf("got %v", err)
		}
	})
	t.Run("signal", func(t *testing.T) {
		var e *ExitError
		if err := s.Command("sh", "-c", "kill -ABRT $$").Run(); !errors.As(err, &e) || e.Signal != unix.SIGABRT || e.ExitCode != -1 {
			t.Errorf("got %v", err)
		}
	})
	t.Run("directory and environment", func(t *testing.T) {
		c := s.Command("sh", "-c", "pwd; echo $X")
		c.Dir, c.Env = "/usr", []string{"PATH=/bin:/usr/bin", "X=y"}
		if out, err := c.Output(); err != nil || string(out) != "/usr\ny\n" {
			t.Errorf("got %q, %v", out, err)
		}
	})
	t.Run("extra files", func(t *testing.T) {
		r, w, _ := os.Pipe()
		c := s.Command("sh", "-c", "echo through >&3")
		c.ExtraFiles = []*os.File{w}
		err := c.Run()
		w.Close()
		out, _ := io.ReadAll(r)
		if err != nil || string(out) != "through\n" {
			t.Errorf("got %q, %v", out, err)
		}
	})
	for _, tt := range []struct{ name, argv0, code string }{
		{"not found", "no-such-command", "COMMAND_NOT_FOUND"},
		{"not found by path", "/no/such", "COMMAND_NOT_FOUND"},
		{"not executable", "/etc/passwd", "COMMAND_NOT_EXECUTABLE"},
		{"a directory", "/usr", "COMMAND_NOT_EXECUTABLE"},
		{"empty", "", "COMMAND_NOT_FOUND"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var e *StartError
			if err := s.Command(tt.argv0).Run(); !errors.As(err, &e) || e.ErrCode != tt.code {
				t.Errorf("got %v, want %s", err, tt.code)
			}
		})
	}
}

func TestFD_IsReaderAndWriter(t *testing.T) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(p[0])
	r, w := FD(p[0]), FD(p[1])
	if n, err := r.Read(make([]byte, 1)); n != 0 || err != unix.EAGAIN {
		t.Errorf("nothing there: %d, %v", n, err)
	}
	if n, err := io.WriteString(w, "text"); n != 4 || err != nil {
		t.Errorf("write: %d, %v", n, err)
	}
	unix.Close(p[1])
	if b, err := io.ReadAll(r); string(b) != "text" || err != nil {
		t.Errorf("read to the end: %q, %v", b, err)
	}
}

// F3-4: the death signal of a command is for the end of its domain's thread, and
// the Go runtime ends threads all the time, those of locked goroutines.
func TestCmd_ThreadsThatEndKillNobody(t *testing.T) {
	s := open(t, sandboxpolicy.Request{})
	stop, ended := make(chan struct{}), make(chan int)
	go func() {
		n := 0
		for {
			select {
			case <-stop:
				ended <- n
				return
			default:
			}
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(runtime.LockOSThread) // never unlocked
			}
			wg.Wait()
			n += 8
		}
	}()
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			for range 3 {
				if err := s.Command("sleep", "0.2").Run(); err != nil {
					t.Error(err)
				}
				if err := Command(s.Policy(), "sleep", "0.1").Run(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	close(stop)
	if n := <-ended; n < 100 {
		t.Errorf("control: %d threads ended meanwhile", n)
	}
}

// A source is not waited for, so it may fail at any time, of which the race
// detector tells.
func TestCmd_SourceThatFailsAfterTheCommand(t *testing.T) {
	s := open(t, sandboxpolicy.Request{})
	failed := make(chan struct{})
	r, w := io.Pipe()
	c := s.Command("true")
	c.Stdin = &onError{r, failed}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	go w.CloseWithError(errors.New("the source is gone"))
	_ = c.Wait() // the source's error, if it came in time
	<-failed
}

// onError closes failed behind the first error.
type onError struct {
	io.Reader
	failed chan struct{}
}

func (r *onError) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	if err != nil {
		defer close(r.failed)
	}
	return n, err
}

func TestCmd_StartErrorsNameTheCulprit(t *testing.T) {
	s := open(t, sandboxpolicy.Request{})
	dir := s.Policy().Workspace()
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, tt := range []struct{ name, path, code, says string }{
		{"interpreter", write("a", "#!/no/such -x\n", 0o755), "COMMAND_NOT_FOUND", "/no/such"},
		{"interpreter with CR", write("b", "#!/bin/sh\r\n", 0o755), "COMMAND_NOT_FOUND", `/bin/sh\r`},
		{"no format", write("c", "echo hi\n", 0o755), "COMMAND_NOT_EXECUTABLE", "#!"},
		{"no x", write("d", "#!/bin/sh\n", 0o644), "COMMAND_NOT_EXECUTABLE", "chmod +x"},
	} {
		var e *StartError
		if err := s.Command(tt.path).Run(); !errors.As(err, &e) || e.ErrCode != tt.code || !strings.Contains(e.Msg, tt.says) {
			t.Errorf("%s: got %v, want %s that says %q", tt.name, err, tt.code, tt.says)
		}
	}
}

func TestCmd_CancelEndsTheTree(t *testing.T) {
	for name, script := range map[string]string{
		"children":   "sleep 300 & sleep 300",
		"a session":  "setsid sleep 300 & sleep 300",
		"twice gone": "setsid sh -c 'sleep 300 & sleep 300' & sleep 300",
		"deaf":       "trap '' TERM; sleep 300 & while :; do sleep 1; done",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, sandboxpolicy.Request{})
			ctx, cancel := context.WithCancel(context.Background())
			c := s.CommandContext(ctx, "sh", "-c", "echo up; "+script)
			c.KillAfter = 300 * time.Millisecond
			r, w := io.Pipe()
			c.Stdout, c.WaitDelay = w, time.Millisecond
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			io.ReadFull(r, make([]byte, 3))
			go io.Copy(io.Discard, r)
			for len(c.Tree()) < 2 {
				time.Sleep(time.Millisecond)
			}
			cancel()
			if err := c.Wait(); err == nil || !c.State.Cancelled {
				t.Errorf("got %v, %+v", err, c.State)
			}
			deadline := time.Now().Add(10 * time.Second)
			for len(c.Tree()) > 0 && time.Now().Before(deadline) {
				time.Sleep(time.Millisecond)
			}
			if left := c.Tree(); len(left) > 0 {
				t.Errorf("%d processes are left", len(left))
			}
		})
	}
}

func TestDomain_CloseEndsEverything(t *testing.T) {
	w := newWorld(t)
	s, err := Open(w.request("workspace-write"))
	if err != nil {
		t.Fatal(err)
	}
	var cmds []*Cmd
	for range 5 {
		c := s.Command("sh", "-c", "setsid sleep 300 & sleep 300")
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		cmds = append(cmds, c)
	}
	for _, c := range cmds {
		for len(c.Tree()) < 2 {
			time.Sleep(time.Millisecond)
		}
	}
	s.Close()
	for _, c := range cmds {
		c.Wait()
		for range 1000 {
			if len(c.Tree()) == 0 {
				break
			}
			time.Sleep(time.Millisecond)
		}
		if left := c.Tree(); len(left) > 0 {
			t.Errorf("processes are left: %v", left)
		}
	}
	if err := s.Command("true").Run(); !errors.Is(err, ErrClosed) {
		t.Errorf("a command of a closed domain: %v", err)
	}
	if err := s.Do(func() error { return nil }); !errors.Is(err, ErrClosed) {
		t.Errorf("Do of a closed domain: %v", err)
	}
}

// TestDomain_CommandsCantReachTheThread is why a command's Landlock domain lies
// below its thread's: with both in one, each of these would end or open this
// process.
func TestDomain_CommandsCantReachTheThread(t *testing.T) {
	s := open(t, sandboxpolicy.Request{})
	var tid int
	s.on(func() { tid = unix.Gettid() })
	script := `
kill -9 $1 && echo "signalled the thread"
kill -9 $0 && echo "signalled the process"
head -c1 /proc/$1/mem >/dev/null 2>&1 && echo "opened its memory"
head -c1 /proc/$0/task/$1/environ >/dev/null 2>&1 && echo "read its environment"
readlink /proc/$0/task/$1/fd/1 >/dev/null 2>&1 && echo "followed its descriptors"
kill -0 $$ && echo control`
	c := s.Command("sh", "-c", script, itoa(os.Getpid()), itoa(tid))
	out, _ := c.Output()
	if string(out) != "control\n" {
		t.Errorf("inside: %s", out)
	}
	if s.guard == nil {
		for range 1000 {
			s.mu.Lock()
			there := s.guard != nil
			s.mu.Unlock()
			if there {
				break
			}
			time.Sleep(time.Millisecond)
		}
	}
	c = s.Command("sh", "-c", `kill -9 $0 && echo "killed the guard"; kill -STOP $0 && echo "stopped the guard"; kill -0 $$ && echo control`, itoa(s.guard.Pid))
	if out, _ := c.Output(); string(out) != "control\n" {
		t.Errorf("inside: %s", out)
	}
}

func itoa(n int) string {
	if n < 10 {
		return string(rune('0' + n))
	}
	return itoa(n/10) + string(rune('0'+n%10))
}

func TestCmd_RecordsWhatTheSupervisorRefused(t *testing.T) {
	w := newWorld(t)
	s, err := Open(w.request("workspace-write"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	os.WriteFile(w.outside+"/f", nil, 0o644)
	c := s.Command("chmod", "600", w.outside+"/f")
	if err := c.Run(); err == nil {
		t.Error("chmod outside succeeded")
	}
	d := c.Denials()
	if len(d) != 1 || d[0].Operation != sandboxpolicy.OpChmod || d[0].Resolved != w.outside+"/f" || d[0].Evidence != "supervisor" {
		t.Errorf("got %+v", d)
	}
	os.WriteFile(w.work+"/f", nil, 0o644)
	c = s.Command("chmod", "600", "f")
	if err := c.Run(); err != nil || len(c.Denials()) != 0 {
		t.Errorf("control: %v, %v", err, c.Denials())
	}
}

// count returns descriptors, threads and goroutines of this process.
func count() (fds, threads, routines int) {
	f, _ := os.ReadDir("/proc/self/fd")
	th, _ := os.ReadDir("/proc/self/task")
	return len(f), len(th), runtime.NumGoroutine()
}

func TestStarts_LeakNothing(t *testing.T) {
	truth, err := exec.LookPath("true")
	if err != nil {
		t.Fatal(err)
	}
	one, many := 3000, 1500
	if testing.Short() {
		one, many = 300, 200
	}
	s := open(t, sandboxpolicy.Request{})
	run := func() {
		c := s.Command(truth)
		if err := c.Run(); err != nil {
			t.Error(err)
		}
	}
	crowd := func(n int) {
		var wg sync.WaitGroup
		for range 64 {
			wg.Add(1)
			go func() {
				defer wg.Done()
				for range n / 64 {
					run()
				}
			}()
		}
		wg.Wait()
	}
	crowd(640)
	fds, threads, routines := count()
	// The runtime keeps as many threads as ever waited at the same time, and how many of
	// the crowd do is up to the machine. A thread for each start would be thousands.
	threads = max(threads, 64)
	for range one {
		run()
	}
	crowd(many)
	var f, th, r int
	for range 200 {
		if f, th, r = count(); f <= fds && th <= threads+5 && r <= routines {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if f > fds || th > threads+5 || r > routines {
		t.Errorf("descriptors %d → %d, threads %d → %d, goroutines %d → %d", fds, f, threads, th, routines, r)
	}
	// The guard is this process's only child, and no one else waits for it.
	// (As pid 1 of a namespace it would get the orphans of every test.)
	if os.Getpid() == 1 {
		return
	}
	if pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); err != unix.ECHILD && pid != 0 {
		t.Errorf("a child is left: %d, %v", pid, err)
	}
}

func TestDomains_LeakNothing(t *testing.T) {
	p, _, err := sandboxpolicy.Resolve(sandboxpolicy.Request{Workspace: t.TempDir(), NoConfig: true, Environ: os.Environ()}, sandboxpolicy.OSFacts{})
	if err != nil {
		t.Fatal(err)
	}
	cycle := func() {
		d, err := NewDomain(p)
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Command("true").Run(); err != nil {
			t.Error(err)
		}
		if err := d.Do(func() error { return nil }); err != nil {
			t.Error(err)
		}
		d.Close()
	}
	for range 10 {
		cycle()
	}
	fds, threads, routines := count()
	for range 60 {
		cycle()
	}
	var f, th, r int
	for range 200 {
		if f, th, r = count(); f <= fds && th <= threads+3 && r <= routines {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("descriptors %d → %d, threads %d → %d, goroutines %d → %d", fds, f, threads, th, routines, r)
}

func TestCmd_Terminal(t *testing.T) {
	s := open(t, sandboxpolicy.Request{})
	c := s.Command("sh", "-c", "stty size; test -t 0 && test -t 1 && echo tty; read x; echo got $x")
	c.Terminal = &Terminal{Rows: 31, Cols: 99}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	c.Terminal.Master.Write([]byte("word\n"))
	if err := c.Wait(); err != nil {
		t.Error(err)
	}
	buf := make([]byte, 1000)
	n, _ := c.Terminal.Master.Read(buf)
	for k := n; !strings.Contains(string(buf[:n]), "got") && k > 0; n += k {
		k, _ = c.Terminal.Master.Read(buf[n:])
	}
	c.CloseTerminal()
	got := strings.ReplaceAll(string(buf[:n]), "\r\n", "\n")
	for _, want := range []string{"31 99\n", "tty\n", "got word\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("got %q, want %q in it", got, want)
		}
	}
}

// slowWriter is a copier that gets no processor: the command's end finds its
// output still in the pipe.
type slowWriter struct{ n int }

func (w *slowWriter) Write(b []byte) (int, error) {
	time.Sleep(4 * drainGrace)
	w.n += len(b)
	return len(b), nil
}

func TestCmd_OutputIsWholeHoweverLateItIsRead(t *testing.T) {
	s := open(t, sandboxpolicy.Request{})
	const n = 60000 // less than a pipe holds, more than one read takes
	for name, script := range map[string]string{
		"ended":     "head -c 60000 /dev/zero",
		"held open": "head -c 60000 /dev/zero; sleep 300 &",
	} {
		t.Run(name, func(t *testing.T) {
			var w slowWriter
			c := s.Command("sh", "-c", script)
			c.Stdout = &w
			if err := c.Run(); err != nil || w.n != n {
				t.Errorf("got %d of %d bytes, %v", w.n, n, err)
			}
			c.SignalTree(unix.SIGKILL)
		})
	}
}

func TestCmd_TerminalLeaksNothing(t *testing.T) {
	s := open(t, sandboxpolicy.Request{})
	run := func() {
		c := s.Command("true")
		c.Terminal = &Terminal{}
		if err := c.Run(); err != nil {
			t.Fatal(err)
		}
		if err := c.Signal(unix.SIGTERM); !errors.Is(err, os.ErrProcessDone) {
			t.Errorf("a signal after the end: %v", err)
		}
		c.CloseTerminal()
	}
	count := func() int {
		names, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(names)
	}
	run()
	before := count()
	for range 20 {
		run()
	}
	if after := count(); after > before+5 { // parallel tests have a few
		t.Errorf("%d descriptors, %d before", after, before)
	}
}

func TestCmd_DomainsEndIsATerminalCommandsEnd(t *testing.T) {
	s := open(t, sandboxpolicy.Request{})
	c := s.Command("sh", "-c", "trap '' HUP TERM; sleep 300; sleep 300")
	c.Terminal = &Terminal{}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	s.Domain.Close()
	var e *ExitError
	if err := c.Wait(); !errors.As(err, &e) || e.Signal != unix.SIGKILL {
		t.Errorf("got %v", err)
	}
	c.CloseTerminal()
}

func TestCmd_SignalsNobodyElseOnceWaitedFor(t *testing.T) {
	s := open(t, sandboxpolicy.Request{})
	for range 200 {
		c := s.Command("true")
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		stop, done := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(done)
			for {
				select {
				case <-stop:
					return
				default:
				}
				if err := c.Signal(0); err != nil && !errors.Is(err, os.ErrProcessDone) {
					t.Errorf("got %v", err)
					return
				}
			}
		}()
		err := c.Wait()
		close(stop)
		<-done
		if err != nil {
			t.Fatal(err)
		}
	}
}
