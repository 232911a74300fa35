package sandbox

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/dshx/dshx/sandboxpolicy"
	"golang.org/x/sys/unix"
)

func open(t testing.TB, req sandboxpolicy.Request) *Scope {
	t.Helper()
	if req.Workspace == "" {
		req.Workspace = t.TempDir()
		req.Cwd = req.Workspace
	}
	req.Environ = os.Environ()
	req.NoConfig = true
	s, err := Open(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestCommand_WritesInsideAndNotOutside(t *testing.T) {
	outside := t.TempDir()
	s := open(t, sandboxpolicy.Request{})
	out, err := s.Command("sh", "-c", `echo in > in; echo out > "$0"/out; echo tmp > "$TMPDIR/x"; cat in $TMPDIR/x`, outside).Output()
	if err != nil || string(out) != "in\ntmp\n" {
		t.Errorf("got %q, %v", out, err)
	}
	if _, err := os.Stat(filepath.Join(outside, "out")); !os.IsNotExist(err) {
		t.Errorf("the file outside exists: %v", err)
	}
}

// Where there is one processor the threads are not the main one either, which
// the runtime would hand out again and again.
func TestDo_WithOneProcessor(t *testing.T) {
	if os.Getenv("GOMAXPROCS") != "1" { // from the beginning: threads differ
		cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.count=1", "-test.timeout=30s")
		cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%.2000s", err, out)
		}
		return
	}
	w := newWorld(t)
	for range 20 {
		s, err := Open(w.request("workspace-write"))
		if err != nil {
			t.Fatal(err)
		}
		var ran atomic.Int32
		if err := s.DoN(4, func(int) { ran.Add(1) }); err != nil || ran.Load() != 4 {
			t.Errorf("%d functions ran, %v", ran.Load(), err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestDoN_RunsTogetherInTheDomain(t *testing.T) {
	w := newWorld(t)
	s, err := Open(w.request("workspace-write"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	// Together: each waits for all others.
	var together sync.WaitGroup
	together.Add(maxDo)
	refused := make([]bool, maxDo)
	err = s.DoN(maxDo, func(i int) {
		together.Done()
		together.Wait()
		_, err := os.Create(w.outside + "/new" + itoa(i))
		refused[i] = errors.Is(err, unix.EACCES)
	})
	if err != nil || slices.Contains(refused, false) {
		t.Errorf("%v, refused %v", err, refused)
	}
	// Many callers that each need many threads.
	var callers sync.WaitGroup
	var ran atomic.Int32
	for range 50 {
		callers.Go(func() {
			if err := s.DoN(10, func(int) { ran.Add(1) }); err != nil {
				t.Error(err)
			}
		})
	}
	callers.Wait()
	if ran.Load() != 500 {
		t.Errorf("%d functions ran", ran.Load())
	}
	func() {
		defer func() {
			if p := recover(); p != "here" {
				t.Errorf("the panic became %v", p)
			}
		}()
		_ = s.Do(func() error { panic("here") })
	}()
	if err := s.Do(func() error { return nil }); err != nil {
		t.Errorf("after a panic: %v", err)
	}
	if err := s.DoN(maxDo+1, func(int) {}); err == nil {
		t.Error("more than there can be")
	}
	s.Close()
	if err := s.Do(func() error { return nil }); err != ErrClosed {
		t.Errorf("after Close: %v", err)
	}
}
