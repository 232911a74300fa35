package spawn

import (
	"errors"
	"io"
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// onThread runs f on a thread of its own, which ends afterwards: as a domain's.
func onThread(t testing.TB, f func()) {
	t.Helper()
	done := make(chan struct{})
	var run func()
	run = func() {
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			// The runtime parks the main thread instead of ending it.
			next := make(chan struct{})
			go func() { defer close(next); run() }()
			<-next
			runtime.UnlockOSThread()
			return
		}
		defer close(done)
		f()
	}
	go run()
	<-done
}

func base(argv ...string) *Command {
	return &Command{Path: argv[0], Argv: argv, Env: []string{"A=b"}, Dir: -1, Ruleset: -1, Terminal: -1, ResetSignals: ResetAll, Files: []int{0, 1, 2}}
}

func TestStart_RunsExactlyTheArgv(t *testing.T) {
	onThread(t, func() {
		stack, err := NewStack()
		if err != nil {
			t.Error(err)
			return
		}
		defer stack.Free()
		r, w, _ := os.Pipe()
		c := base("/bin/sh", "-c", `printf '%s|' "$0" "$@"; echo $A`, "x", "", "two words", "\xff")
		c.Files = []int{-1, int(w.Fd()), 2}
		pid, pidfd, err := c.Start(stack)
		if err != nil {
			t.Error(err)
			return
		}
		w.Close()
		buf, _ := io.ReadAll(r)
		if got, want := string(buf), "x||two words|\xff|b\n"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		var ws unix.WaitStatus
		unix.Wait4(pid, &ws, 0, nil)
		unix.Close(pidfd)
		if ws.ExitStatus() != 0 {
			t.Errorf("status %v", ws)
		}
	})
}

func TestStart_ReportsTheStepAndErrno(t *testing.T) {
	for _, tt := range []struct {
		name  string
		edit  func(*Command)
		stage Stage
		errno syscall.Errno
	}{
		{"no such file", func(c *Command) { c.Path = "/no/such" }, StageExec, syscall.ENOENT},
		{"not executable", func(c *Command) { c.Path = "/etc/passwd" }, StageExec, syscall.EACCES},
		{"bad directory", func(c *Command) { c.Dir = 9999 }, StageDirectory, syscall.EBADF},
		{"bad ruleset", func(c *Command) { c.Ruleset = 9999 }, StageLandlock, syscall.EBADF},
		{"bad descriptor", func(c *Command) { c.Files = []int{9999} }, StageDescriptors, syscall.EBADF},
	} {
		t.Run(tt.name, func(t *testing.T) {
			onThread(t, func() {
				if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
					t.Error(err)
				}
				stack, _ := NewStack()
				defer stack.Free()
				c := base("/bin/true")
				tt.edit(c)
				_, _, err := c.Start(stack)
				var e *Error
				if !errors.As(err, &e) || e.Stage != tt.stage || e.Errno != tt.errno {
					t.Errorf("got %v, want %v: %v", err, tt.stage, tt.errno)
				}
				if _, err := unix.Wait4(-1, nil, unix.WNOHANG|unix.WALL|unix.WNOTHREAD, nil); err != unix.ECHILD {
					t.Errorf("something was left: %v", err)
				}
			})
		})
	}
}

func TestMonitor_StopsAndEnds(t *testing.T) {
	onThread(t, func() {
		master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
		if err != nil {
			t.Error(err)
			return
		}
		defer master.Close()
		unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
		n, _ := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
		slave, err := os.OpenFile("/dev/pts/"+itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
		if err != nil {
			t.Error(err)
			return
		}
		c := base("/bin/sh", "-c", "kill -STOP $$; exit 7")
		s := int(slave.Fd())
		c.Files = []int{s, s, s}
		m, err := c.StartMonitor(s)
		if err != nil {
			t.Error(err)
			return
		}
		slave.Close()
		st, err := m.Next()
		if err != nil || !st.Stopped() {
			t.Errorf("got %v %v, want stopped", st, err)
		}
		unix.Kill(-m.Command, unix.SIGCONT)
		// "continued" may be overtaken by the end.
		if st, _ = m.Next(); st.Continued() {
			st, _ = m.Next()
		}
		if st.ExitStatus() != 7 {
			t.Errorf("got %v, want exit 7", st)
		}
		m.Close()
	})
}

func itoa(n int) string {
	if n < 10 {
		return string(rune('0' + n))
	}
	return itoa(n/10) + itoa(n%10)
}

func TestGuard_EndsMarkedProcessesWithItsThread(t *testing.T) {
	const cookie, mask = uint64(0x5a5a) << 40, uint64(0xffffff) << 40
	var pid, pidfd int
	var g *Guard
	onThread(t, func() {
		stack, _ := NewStack()
		c := base("/bin/sh", "-c", "setsid sleep 100 & exec sleep 100")
		c.Cookie, c.Outlive = cookie|1, true
		var err error
		pid, pidfd, err = c.Start(stack)
		if err != nil {
			t.Error(err)
			return
		}
		g, err = StartGuard(false, cookie, mask, -1)
		if err != nil {
			t.Error(err)
			return
		}
		g.Ready()
	})
	if g == nil {
		t.FailNow()
	}
	defer unix.Close(pidfd)
	p := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
	if n, err := unix.Poll(p, int((10 * time.Second).Milliseconds())); n != 1 {
		unix.Kill(pid, unix.SIGKILL)
		t.Fatalf("the command lives on: %v", err)
	}
	unix.Wait4(pid, nil, 0, nil)
	g.Wait()
}

func BenchmarkStart(b *testing.B) {
	onThread(b, func() {
		stack, _ := NewStack()
		c := base("/bin/true")
		for range b.N {
			pid, fd, err := c.Start(stack)
			if err != nil {
				b.Error(err)
				return
			}
			unix.Wait4(pid, nil, 0, nil)
			unix.Close(fd)
		}
	})
}

func BenchmarkOsExec(b *testing.B) {
	for range b.N {
		p, err := os.StartProcess("/bin/true", []string{"true"}, &os.ProcAttr{Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}})
		if err != nil {
			b.Fatal(err)
		}
		p.Wait()
	}
}
