package seccomp

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// A filter can't be taken off a process again, so whatever installs one runs in
// a child: this test binary, told by this variable which role to play.
const roleVar = "DSHX_SECCOMP_TEST_ROLE"

// roles run in the child, on a locked thread; what they return reaches the test
// as JSON.
var roles = map[string]func() (any, error){
	"control":  func() (any, error) { return tryAll(), nil },
	"none":     func() (any, error) { return underFilter(Options{}) },
	"loopback": func() (any, error) { return underFilter(Options{Network: NetLoopback}) },
	"full":     func() (any, error) { return underFilter(Options{Network: NetFull}) },
	"listener": underListener,
	"stack":    stackAll,
	"entries":  entriesUnderFilter,
	"naked":    installWithoutNoNewPrivs,
}

func TestMain(m *testing.M) {
	role := os.Getenv(roleVar)
	if role == "" {
		os.Exit(m.Run())
	}
	runtime.LockOSThread() // never unlocked: the thread is filtered
	result, err := roles[role]()
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(result)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// play runs a role in a child and decodes its result.
func play[T any](t *testing.T, role string) T {
	t.Helper()
	needFilter(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), roleVar+"="+role)
	out, err := cmd.Output()
	if err != nil {
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
			t.Fatalf("role %s: %v: %s", role, err, exit.Stderr)
		}
		t.Fatal(err)
	}
	var result T
	if err := json.Unmarshal(out, &result); err != nil {
		t.Fatalf("role %s: %v in %q", role, err, out)
	}
	return result
}

func needFilter(t *testing.T) {
	t.Helper()
	if s := Probe(); !s.Listener {
		skip(t, s.Reason)
	}
}

// skip skips, or fails where the kernel is required to have everything.
func skip(t *testing.T, why string) {
	t.Helper()
	if os.Getenv("DSHX_REQUIRE_KERNEL") == "1" {
		t.Fatal(why)
	}
	t.Skip(why)
}

// filter puts the program of o on this thread.
func filter(o Options) (fd int, err error) {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return -1, err
	}
	prog, err := Build(o)
	if err != nil {
		return -1, err
	}
	return Install(prog, o.Listener, o.Listener && Probe().WaitKillable)
}
