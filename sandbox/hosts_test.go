package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// onHost makes domains believe in a lesser host while f runs. What the kernel
// offers beyond is not used then, so every path that older kernels take is
// taken for real.
func onHost(t *testing.T, edit func(*Host), f func()) {
	t.Helper()
	old := probeHost
	defer func() { probeHost = old }()
	probeHost = func() Host {
		h := ProbeHost()
		edit(&h)
		return h
	}
	f()
}

// TestHosts_HoldTheirPromises (F7-12, F7-14) runs the same effects on every Landlock ABI that
// can be simulated here, and without the newer parts of seccomp.
func TestHosts_HoldTheirPromises(t *testing.T) {
	real := ProbeHost()
	type host struct {
		name string
		edit func(*Host)
		gaps string // beyond those of the preset
	}
	var hosts []host
	for abi := 1; abi <= real.LandlockABI; abi++ {
		hosts = append(hosts, host{fmt.Sprintf("ABI %d", abi), func(h *Host) { h.LandlockABI = abi }, ""})
	}
	hosts = append(hosts,
		host{"no killable wait", func(h *Host) { h.Seccomp.WaitKillable = false }, ""},
		host{"no notification", func(h *Host) { h.Seccomp.Listener = false }, "metadata unix-sockets unix-datagram scheduling"},
		host{"no notification, ABI 4", func(h *Host) { h.Seccomp.Listener, h.LandlockABI = false, min(h.LandlockABI, 4) },
			"metadata unix-sockets unix-datagram abstract-sockets signals scheduling"},
	)
	for _, h := range hosts {
		t.Run(h.name, func(t *testing.T) {
			onHost(t, h.edit, func() {
				w := newWorld(t)
				os.WriteFile(w.outside+"/f", []byte("before"), 0o644)
				os.WriteFile(w.home+"/.ssh/key", []byte("secret"), 0o600)
				s, err := Open(w.request("workspace-write"))
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				gaps := " "
				for _, g := range s.Enforcement().Gaps {
					gaps += g.Promise + " "
				}
				for _, g := range strings.Fields(h.gaps) {
					if !strings.Contains(gaps, " "+g+" ") {
						t.Errorf("the gap %s is not named: %s", g, gaps)
					}
				}
				has := func(promise string) bool { return !strings.Contains(gaps, " "+promise+" ") }
				victim := exec.Command("sleep", "300")
				if err := victim.Start(); err != nil {
					t.Fatal(err)
				}
				defer func() { victim.Process.Kill(); victim.Wait() }()

				sh := func(script string) string {
					c := s.Command("sh", "-c", script, w.outside, w.home, itoa(victim.Process.Pid))
					out, _ := c.Output()
					return strings.TrimSpace(string(out))
				}
				for _, tt := range []struct{ promise, script, want string }{
					{"", `echo x > in && cat in`, "x"},
					{"write", `echo x > "$0/f" && echo written`, ""},
					{"write", `echo x > "$0/new" && echo made`, ""},
					{"write", `truncate -s0 "$0/f" && echo cut`, ""},
					{"write", `rm "$0/f" && echo removed`, ""},
					{"secrets", `cat "$1/.ssh/key"`, ""},
					{"metadata", `chmod 777 "$0/f" && echo changed`, ""},
					{"", `chmod 600 in && stat -c %a in`, "600"},
					{"signals", `kill -9 $2 && echo killed`, ""},
					{"", `sleep 300 & kill $! && echo own`, "own"},
					{"scheduling", `renice -n 5 -p $2 >/dev/null && echo reniced`, ""},
					{"processes", `head -c1 /proc/$2/environ`, ""},
					{"kernel-surface", `unshare -U true && echo unshared`, ""},
					{"", `mkdir -p a && echo x > a/f && mv a/f a/g && cat a/g`, "x"},
				} {
					if tt.promise != "" && !has(tt.promise) {
						continue
					}
					if got := sh(tt.script + " 2>/dev/null"); got != tt.want {
						t.Errorf("%s %s: got %q, want %q", tt.promise, tt.script, got, tt.want)
					}
				}
				if b, _ := os.ReadFile(w.outside + "/f"); string(b) != "before" {
					t.Errorf("outside is %q afterwards", b)
				}
				if st, err := os.Stat(w.outside + "/f"); has("metadata") && (err != nil || st.Mode().Perm() != 0o644) {
					t.Errorf("outside is %v, %v afterwards", st, err)
				}
				if err := victim.Process.Signal(unix.Signal(0)); err != nil {
					t.Errorf("the process outside: %v", err)
				}
			})
		})
	}
}

// TestHosts_WithoutEnforcementNothingRuns (F7-12): no Landlock or no seccomp is a
// refusal that says what is missing.
func TestHosts_WithoutEnforcementNothingRuns(t *testing.T) {
	for _, tt := range []struct {
		name string
		edit func(*Host)
		says string
	}{
		{"no Landlock", func(h *Host) { h.LandlockABI, h.LandlockErr = 0, unix.ENOSYS }, "Linux 5.13"},
		{"Landlock not enabled", func(h *Host) { h.LandlockABI, h.LandlockErr = 0, unix.EOPNOTSUPP }, "lsm="},
		{"Landlock filtered", func(h *Host) { h.LandlockABI, h.LandlockErr = 0, unix.EPERM }, "landlock_create_ruleset"},
		{"no seccomp", func(h *Host) { h.Seccomp.Filter, h.Seccomp.Reason = false, "this kernel has no seccomp filters" }, "seccomp"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			onHost(t, tt.edit, func() {
				w := newWorld(t)
				_, err := Open(w.request("workspace-write"))
				var u *UnavailableError
				if !errors.As(err, &u) || !strings.Contains(err.Error(), tt.says) {
					t.Errorf("got %v, want a refusal that says %q", err, tt.says)
				}
				s, err := Open(w.request("danger-full-access"))
				if err != nil {
					t.Fatalf("danger-full-access needs nothing of it: %v", err)
				}
				defer s.Close()
				if err := s.Command("touch", filepath.Join(w.outside, "x")).Run(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestHosts_GuardWithoutScopes: on kernels without Landlock's signal scope the
// guard tells the processes by their mark.
func TestHosts_GuardWithoutScopes(t *testing.T) {
	onHost(t, func(h *Host) { h.LandlockABI = min(h.LandlockABI, 4) }, func() {
		w := newWorld(t)
		s, err := Open(w.request("workspace-write"))
		if err != nil {
			t.Fatal(err)
		}
		c := s.Command("sh", "-c", "setsid sleep 300 & exec sleep 300")
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		for len(c.Tree()) < 2 {
			time.Sleep(time.Millisecond)
		}
		// The thread ends, as it does when the process is killed.
		close(s.quit)
		<-s.ended
		deadline := time.Now().Add(10 * time.Second)
		for len(c.Tree()) > 0 && time.Now().Before(deadline) {
			time.Sleep(time.Millisecond)
		}
		if left := c.Tree(); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
		c.Wait()
		s.guard.Wait()
		s.server.Close()
		s.ruleset.Close()
		s.removeTmp()
	})
}

// TestHosts_TerminalsSignalNobody: a terminal that is asked for signals sends
// them to the group in its foreground, which the kernel's scope of signals is
// needed to refuse, or the filter.
func TestHosts_TerminalsSignalNobody(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// try runs the helper's op on a terminal and reports what it said and
	// whether the process in the terminal's foreground still lives.
	try := func(t *testing.T, op string, run func(stdin string) ([]byte, error)) (string, bool) {
		master, tty, err := pty.Open()
		if err != nil {
			t.Fatal(err)
		}
		defer master.Close()
		defer tty.Close()
		if err := tty.Chmod(0o600); err != nil {
			t.Fatal(err)
		}
		victim := exec.Command("sleep", "300")
		victim.Stdin = tty
		victim.SysProcAttr = &unix.SysProcAttr{Setsid: true, Setctty: true}
		if err := victim.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() { victim.Wait(); close(ended) }()
		defer func() { victim.Process.Kill(); <-ended }()
		quit := make(chan struct{})
		defer close(quit)
		go func() {
			for {
				select {
				case <-quit:
					return
				case <-time.After(20 * time.Millisecond):
					master.WriteString("x\n")
				}
			}
		}()
		out, err := run(op + "\t" + tty.Name() + "\n")
		if err != nil {
			t.Fatal(err)
		}
		select {
		case <-ended:
			return strings.TrimSpace(string(out)), false
		case <-time.After(100 * time.Millisecond):
			return strings.TrimSpace(string(out)), true
		}
	}
	for _, op := range []string{"async", "async-ioctl", "nonblock"} {
		out, alive := try(t, op, func(stdin string) ([]byte, error) {
			c := exec.Command(self)
			c.Env, c.Stdin = append(os.Environ(), "DSHX_SANDBOX_HELPER=1"), strings.NewReader(stdin)
			return c.Output()
		})
		if out != "ok" || alive != (op == "nonblock") {
			t.Fatalf("control: %s outside: %s, and the process lives: %v", op, out, alive)
		}
		for _, abi := range []int{5, ProbeHost().LandlockABI} {
			onHost(t, func(h *Host) { h.LandlockABI = min(abi, h.LandlockABI) }, func() {
				s, err := Open(newWorld(t).request("workspace-write"))
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				out, alive := try(t, op, func(stdin string) ([]byte, error) {
					c := s.Command(self)
					c.Env = append([]string{"DSHX_SANDBOX_HELPER=1"}, s.Policy().Environ()...)
					c.Stdin = strings.NewReader(stdin)
					return c.Output()
				})
				if !alive {
					t.Errorf("%s with Landlock ABI %d ended a process outside", op, abi)
				}
				want := "ok"
				if op != "nonblock" && abi < 6 {
					want = unix.EPERM.Error()
				}
				if out != want {
					t.Errorf("%s with Landlock ABI %d: %s, want %s", op, abi, out, want)
				}
			})
		}
	}
}
