package tmpdir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestNew_IsPrivateAndGoneAfterwards(t *testing.T) {
	old := unix.Umask(0o777)
	d, err := New("/no/such")
	unix.Umask(old)
	if err != nil {
		t.Fatal(err)
	}
	st, err := os.Lstat(d.Path)
	if err != nil || st.Mode().Perm() != 0o700 || !st.IsDir() {
		t.Errorf("got %v %v, want a directory of mode 0700", st, err)
	}
	for i := range 1000 {
		if err := os.WriteFile(filepath.Join(d.Path, fmt.Sprint(i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	closed := filepath.Join(d.Path, "a", "closed")
	os.MkdirAll(filepath.Join(closed, "in"), 0o700)
	os.WriteFile(filepath.Join(closed, "in", "f"), nil, 0)
	os.Chmod(closed, 0)
	if err := d.Remove(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(d.Path); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", d.Path, err)
	}
}

func TestRemove_DoesNotFollowLinks(t *testing.T) {
	keep := t.TempDir()
	os.WriteFile(filepath.Join(keep, "file"), []byte("x"), 0o600)
	d, err := New("/no/such")
	if err != nil {
		t.Fatal(err)
	}
	deep := filepath.Join(d.Path, "1/2/3")
	os.MkdirAll(deep, 0o700)
	for _, at := range []string{d.Path, deep} {
		os.Symlink(keep, filepath.Join(at, "dir"))
		os.Symlink(filepath.Join(keep, "file"), filepath.Join(at, "file"))
	}
	if err := d.Remove(); err != nil {
		t.Error(err)
	}
	if b, err := os.ReadFile(filepath.Join(keep, "file")); string(b) != "x" {
		t.Errorf("the target is gone: %v", err)
	}
}

func TestRemove_SwapWhileRemoving(t *testing.T) {
	keep := t.TempDir()
	os.WriteFile(filepath.Join(keep, "file"), []byte("x"), 0o600)
	d, err := New("/no/such")
	if err != nil {
		t.Fatal(err)
	}
	sub := filepath.Join(d.Path, "sub")
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
			}
			os.Mkdir(sub, 0o700)
			os.WriteFile(filepath.Join(sub, "f"), nil, 0o600)
			os.RemoveAll(sub)
			os.Symlink(keep, sub)
			os.Remove(sub)
		}
	}()
	for range 300 {
		_ = removeAt(d.parent, d.name)
		os.Mkdir(d.Path, 0o700)
	}
	close(stop)
	<-done
	if err := d.Remove(); err != nil {
		t.Error(err)
	}
	if b, err := os.ReadFile(filepath.Join(keep, "file")); string(b) != "x" {
		t.Errorf("the target is gone: %v", err)
	}
}

func TestSweep_TakesOnlyWhatNobodyHolds(t *testing.T) {
	dead, err := New("/no/such")
	if err != nil {
		t.Fatal(err)
	}
	os.WriteFile(filepath.Join(dead.Path, "f"), nil, 0o600)
	dead.close() // as a kill would
	live, err := New("/no/such")
	if err != nil {
		t.Fatal(err)
	}
	defer live.Remove()
	d, err := New("/no/such")
	if err != nil {
		t.Fatal(err)
	}
	kept, err := NewKept("/no/such")
	if err != nil {
		t.Fatal(err)
	}
	old, err := NewKept("/no/such")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(kept)
	past := time.Now().Add(-2 * keptFor)
	os.Chtimes(old, past, past)
	again, err := NewKept("/no/such")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(again)
	if d.RemoveEmpty() {
		t.Error("others were there, and were not looked at")
	}
	d.Remove()
	if _, err := os.Lstat(kept); err != nil {
		t.Errorf("a kept one is gone: %v", err)
	}
	if _, err := os.Lstat(old); !os.IsNotExist(err) {
		t.Errorf("an old kept one is still there: %v", err)
	}
	if _, err := os.Lstat(dead.Path); !os.IsNotExist(err) {
		t.Errorf("the dead one is still there: %v", err)
	}
	if _, err := os.Lstat(live.Path); err != nil {
		t.Errorf("the live one is gone: %v", err)
	}
}

// What is held stays however old it is, and what is released has its time from
// then on, or is gone if nothing is in it.
func TestKeep_HeldAndReleased(t *testing.T) {
	past := time.Now().Add(-2 * keptFor)
	keep := func(file string) *Dir {
		d, err := Keep("/no/such")
		if err != nil {
			t.Fatal(err)
		}
		if file != "" {
			if err := os.WriteFile(filepath.Join(d.Path, file), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Chtimes(d.Path, past, past); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(d.Path) })
		return d
	}
	held, released, empty, left := keep("f"), keep("f"), keep(""), keep("f")
	released.Release()
	empty.Release()
	empty.Release()
	left.close() // as a kill would
	held.Sweep()
	for _, tt := range []struct {
		d    *Dir
		what string
		gone bool
	}{{held, "held", false}, {released, "released", false}, {empty, "empty", true}, {left, "left by a killed process", true}} {
		if _, err := os.Lstat(tt.d.Path); os.IsNotExist(err) != tt.gone {
			t.Errorf("%s: gone is %t, want %t", tt.what, !tt.gone, tt.gone)
		}
	}
	held.Release()
}

func TestNew_AvoidsTheWorkspace(t *testing.T) {
	for _, avoid := range []string{"/var/tmp", "/var"} {
		d, err := New(avoid)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(d.Path, "/var/") {
			t.Errorf("%s lies in %s", d.Path, avoid)
		}
		d.Remove()
	}
	d, err := New("/")
	if err != nil {
		t.Fatalf("a workspace that holds everything: %v", err)
	}
	d.Remove()
}

func TestNew_WithoutLocks(t *testing.T) {
	defer func(f func(int, int) error) { flock = f }(flock)
	flock = func(int, int) error { return unix.ENOLCK }
	base := t.TempDir()
	if _, err := newIn(base, "", ""); !errors.Is(err, unix.ENOLCK) {
		t.Errorf("got %v, want what keeps it from being locked", err)
	}
	left, err := filepath.Glob(base + "/dshx-*/*")
	if err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
