package sandbox

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/dshx/dshx/sandboxpolicy"
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
