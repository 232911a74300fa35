package integration

import (
	"os"
	"path/filepath"
	"testing"
)

// The harness must be able to see what it says it sees, or every test that
// rests on it passes for nothing.
func TestHarness_SeesChanges(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		f := e.Write(filepath.Join(e.O, "f"), "one")
		before := Snap(t, e.O)
		for _, change := range []func() error{
			func() error { return os.WriteFile(f, []byte("two"), 0o644) },
			func() error { return os.Chmod(f, 0o600) },
			func() error { return os.WriteFile(filepath.Join(e.O, "g"), nil, 0o644) },
			func() error { return os.Remove(filepath.Join(e.O, "g")) },
		} {
			if err := change(); err != nil {
				t.Fatal(err)
			}
			now := Snap(t, e.O)
			same := len(now) == len(before)
			for k, v := range before {
				same = same && now[k] == v
			}
			if same {
				t.Error("a change went unseen")
			}
			before = now
		}
		r := e.Outside("sh", "-c", `id -u; pwd; echo "$HOME"; exit 3`)
		if want := itoa(e.UID) + "\n" + e.W + "\n" + e.H + "\n"; r.Exit != 3 || r.Stdout != want {
			t.Errorf("got %s, want %q", r, want)
		}
	})
}

func TestHarness_FindsMarkedProcesses(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		cmd := e.Background("sleep", "100")
		if pids := e.Left(); len(pids) != 0 {
			t.Errorf("background process is counted: %v", pids)
		}
		marked := e.Command(Opts{}, "sleep", "100")
		if err := marked.Start(); err != nil {
			t.Fatal(err)
		}
		defer marked.Wait()
		defer marked.Process.Kill()
		if pids := e.Left(); len(pids) != 1 || pids[0] != marked.Process.Pid {
			t.Errorf("got %v, want %d", pids, marked.Process.Pid)
		}
		if !Alive(cmd.Process.Pid) {
			t.Error("a living process is taken for dead")
		}
	})
}
