package supervise

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dshx/dshx/sandbox/internal/seccomp"
)

// sleeper starts a process that waits, outside or with s inside.
func sleeper(t *testing.T, s *sandbox) int {
	t.Helper()
	cmd := exec.Command("sleep", "60")
	cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	if s != nil {
		s.start(cmd)
	} else {
		must(t, cmd.Start())
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	t.Cleanup(func() {
		cmd.Process.Kill()
		<-done
	})
	return cmd.Process.Pid
}

func alive(pid int) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && !strings.Contains(string(b), ") Z ")
}

func TestProcesses_OthersAreOutOfReach(t *testing.T) {
	s := newSandbox(t, seccomp.Options{Signals: true}, &judge{})
	outside := sleeper(t, nil)
	inside := sleeper(t, s)
	for _, op := range []string{"kill $ 0", "kill $ 9", "kill -$ 15", "tgkill $ 9", "pidfdkill $ 9", "setpriority $", "affinity $", "prlimit $"} {
		if got := s.op("/", strings.ReplaceAll(op, "$", strconv.Itoa(outside)))[0]; got != "EPERM" {
			t.Errorf("%s on the outside: %s", op, got)
		}
	}
	for _, op := range []string{"kill $ 0", "kill -$ 0", "tgkill $ 0", "pidfdkill $ 0", "setpriority $", "affinity $", "prlimit $"} {
		if got := s.op("/", strings.ReplaceAll(op, "$", strconv.Itoa(inside)))[0]; got != "ok" {
			t.Errorf("%s on the inside: %s", op, got)
		}
	}
	for op, want := range map[string]string{
		"kill -1 15": "EPERM", "kill 4194300 0": "ESRCH", "affinity 4194300": "ESRCH", "kill -4194300 0": "ESRCH",
		"setpriority 0": "ok", "affinity 0": "ok",
	} {
		if got := s.op("/", op)[0]; got != want {
			t.Errorf("%s: %s, not %s", op, got, want)
		}
	}
	if !alive(outside) || !alive(inside) {
		t.Fatal("a process that nobody was to kill is dead")
	}
	if got := s.op("/", "kill "+strconv.Itoa(inside)+" 15")[0]; got != "ok" {
		t.Errorf("kill inside: %s", got)
	}
	for end := time.Now().Add(5 * time.Second); alive(inside); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("a process inside survived a signal from inside")
		}
	}
	if out, err := s.run("/", "timeout", "0.2", "sleep", "5"); err == nil || err.(*exec.ExitError).ExitCode() != 124 {
		t.Errorf("timeout ended with %v: %s", err, out)
	}
}

func TestRefused_IsRecorded(t *testing.T) {
	s := newSandbox(t, seccomp.Options{}, &judge{net: loopbackOnly})
	for op, want := range map[string]string{
		"unshare 0x10000000":        "unshare(CLONE_NEWUSER)",
		"unshare 0x00020000":        "unshare(CLONE_NEWNS)",
		"chroot /tmp":               "chroot(/tmp)",
		"prlimit " + "1":            "limits of process 1",
		"setflags fd:/etc/passwd 0": "descriptor",
	} {
		n := len(s.denials())
		if got := s.op("/", op)[0]; got != "EPERM" && got != "EACCES" {
			t.Errorf("%s: %s", op, got)
		}
		if d := s.denials(); len(d) != n+1 || !strings.HasPrefix(d[n].Target, want) || d[n].PID == 0 {
			t.Errorf("%s: denials %+v", op, d[n:])
		}
	}
}

// A process that isn't dumpable can't be read; nothing is done for it.
// A process that asks not to be looked into is told that it isn't, and still
// served.
func TestNotDumpable_IsPretended(t *testing.T) {
	d := newDirs(t)
	s := newSandbox(t, seccomp.Options{}, &judge{writable: []string{d.W}})
	if got := s.op(d.W, "nodump", "chmod f 0600")[1]; got != "ok" {
		t.Errorf("chmod of a process that wanted not to be dumpable: %s", got)
	}
}

// The links of an outside process's /proc directory aren't the caller's to
// follow, even to what it may change.
func TestProcLinks_OfOthersAreNotFollowed(t *testing.T) {
	d := newDirs(t)
	s := newSandbox(t, seccomp.Options{}, &judge{writable: []string{d.W}})
	outside, inside := strconv.Itoa(sleeper(t, nil)), strconv.Itoa(sleeper(t, s))
	if got := s.op(d.W, "chmod /proc/"+outside+"/root"+d.W+"/f 0601")[0]; got != "EACCES" {
		t.Errorf("through an outside process: %s", got)
	}
	if got := s.op(d.W, "chmod /proc/"+inside+"/root"+d.W+"/f 0601")[0]; got != "ok" {
		t.Errorf("through an inside process: %s", got)
	}
}
