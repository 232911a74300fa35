package sandbox

import (
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dshx/dshx/sandboxpolicy"
	"golang.org/x/sys/unix"
)

func TestCmd_AwaitTreeOutlivesWait(t *testing.T) {
	s := open(t, sandboxpolicy.Request{})
	for name, script := range map[string]string{
		"children":  "sleep 0.3 & sleep 0.2 &",
		"a daemon":  "(setsid sh -c 'sleep 0.3' &) &",
		"a relay":   "sh -c 'sleep 0.1; sh -c \"sleep 0.1; sleep 0.1 & \" & ' &",
		"nobody":    "true",
		"its shell": "kill -KILL $$",
	} {
		t.Run(name, func(t *testing.T) {
			c := s.Command("bash", "-c", script)
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			_ = c.Wait()
			short, cancel := context.WithTimeoutCause(context.Background(), 10*time.Millisecond, errors.New("too soon"))
			defer cancel()
			err := c.AwaitTree(short)
			if alive := name != "nobody" && name != "its shell"; alive != (err != nil && err.Error() == "too soon") {
				t.Errorf("while it lives: %v", err)
			}
			if err := c.AwaitTree(context.Background()); err != nil || len(c.Tree()) > 0 {
				t.Errorf("at the end: %v, %v", err, c.Tree())
			}
		})
	}
}

func TestCmd_AwaitExitIsTheCommandsAlone(t *testing.T) {
	s := open(t, sandboxpolicy.Request{})
	c := s.Command("bash", "-c", "sleep 300 & sleep 0.05; exit 3")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(context.Background(), 5*time.Millisecond)
	defer cancel()
	if err := c.AwaitExit(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("too soon: %v", err)
	}
	if err := c.AwaitExit(context.Background()); err != nil {
		t.Error(err)
	}
	var e *ExitError
	if err := c.Wait(); !errors.As(err, &e) || e.ExitCode != 3 || len(c.Tree()) != 1 {
		t.Errorf("%v, %v", err, c.Tree())
	}
	if err := c.AwaitExit(context.Background()); err != nil {
		t.Error(err)
	}
	c.SignalTree(unix.SIGKILL)
}

// childZombies are the children of this process that have ended.
func childZombies(t *testing.T) (out []string) {
	t.Helper()
	tasks, _ := os.ReadDir("/proc/self/task")
	for _, task := range tasks {
		list, _ := os.ReadFile("/proc/self/task/" + task.Name() + "/children")
		for _, pid := range strings.Fields(string(list)) {
			if b, _ := os.ReadFile("/proc/" + pid + "/stat"); strings.Contains(string(b), ") Z ") {
				out = append(out, string(b))
			}
		}
	}
	return out
}

func TestCmd_AwaitTreeReapsOrphans(t *testing.T) {
	s := open(t, sandboxpolicy.Request{})
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	defer unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
	for range 20 {
		c := s.Command("bash", "-c", "(true &) & (setsid sleep 0.01 &) & (sleep 300 &)")
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		_ = c.Wait()
		c.SignalTree(unix.SIGKILL)
		if err := c.AwaitTree(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	if z := childZombies(t); len(z) > 0 {
		t.Errorf("%d zombies are left: %s", len(z), z[0])
	}
}

func TestCmd_AwaitTreeLeaksNothing(t *testing.T) {
	s := open(t, sandboxpolicy.Request{})
	run := func() {
		c := s.Command("bash", "-c", "sleep 0.01 &")
		if err := c.Run(); err != nil {
			t.Fatal(err)
		}
		if err := c.AwaitTree(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	run()
	fds, _, routines := count()
	for range 50 {
		run()
	}
	if f, _, r := count(); f > fds || r > routines {
		t.Errorf("descriptors %d → %d, goroutines %d → %d", fds, f, routines, r)
	}
}

func TestCmd_SessionIsItsOwn(t *testing.T) {
	s := open(t, sandboxpolicy.Request{})
	c := s.Command("bash", "-c", "echo $$ $(ps -o sid=,pgid= -p $$); exec 3</dev/tty && echo tty")
	c.Session = true
	out, _ := c.Output()
	f := strings.Fields(string(out))
	if pid := strconv.Itoa(c.Process.Pid); len(f) != 3 || f[0] != pid || f[1] != pid || f[2] != pid {
		t.Errorf("pid, session and group: %q, want %s", out, pid)
	}
}

// What an earlier command left behind is not the present one.
func TestCmd_DenialsOfWhatWasLeftBehindAreNobodyElses(t *testing.T) {
	w := newWorld(t)
	s, err := Open(w.request("workspace-write"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	first := s.Command("bash", "-c", "(while ! test -e go; do sleep 0.01; done; chmod 700 "+w.outside+"; touch went) &")
	if err := first.Run(); err != nil {
		t.Fatal(err)
	}
	second := s.Command("bash", "-c", "touch go; while ! test -e went; do sleep 0.01; done")
	if err := second.Run(); err != nil {
		t.Fatal(err)
	}
	if d := second.Denials(); len(d) > 0 {
		t.Errorf("the second command has the first one's denials: %v", d)
	}
	control := s.Command("chmod", "700", w.outside)
	if _ = control.Run(); len(control.Denials()) != 1 {
		t.Errorf("control: %v", control.Denials())
	}
}

// Inside of another dshx no process can be marked.
func TestCmd_TreeWithoutMarks(t *testing.T) {
	for _, terminal := range []bool{false, true} {
		s := open(t, sandboxpolicy.Request{})
		s.Domain.marker = nil
		c := s.Command("bash", "-c", "trap '' HUP; (sleep 300 & sleep 300 &); : > up; sleep 300; true")
		c.Session, c.KillAfter = true, 200*time.Millisecond
		if terminal {
			c.Terminal = &Terminal{}
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		up := s.Policy().Workspace() + "/up"
		// Nothing else is on its way: the shell makes the file itself.
		made := false
		for end := time.Now().Add(10 * time.Second); time.Now().Before(end) && (!made || len(c.Tree()) != 4); {
			made = made || os.Remove(up) == nil
			time.Sleep(time.Millisecond)
		}
		if pids := c.Tree(); len(pids) != 4 {
			t.Errorf("terminal %v: the tree is %v", terminal, pids)
		}
		_ = c.Signal(unix.SIGKILL)
		_ = c.Wait()
		if pids := c.Tree(); len(pids) != 3 {
			t.Errorf("terminal %v: without the command the tree is %v", terminal, pids)
		}
		c.EndTree()
		if err := c.AwaitTree(context.Background()); err != nil || len(c.Tree()) > 0 {
			t.Errorf("terminal %v: %v, %v", terminal, err, c.Tree())
		}
		if terminal {
			c.CloseTerminal()
		}
	}
}
