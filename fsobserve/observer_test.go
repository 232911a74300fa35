package fsobserve

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dshx/dshx/pipeline"
	"golang.org/x/sys/unix"
)

func newT(t testing.TB) *Observer {
	t.Helper()
	o, err := New(Options{LockDir: filepath.Join(t.TempDir(), "locks")})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// callIn is a call as a tool's body has it.
func callIn(t testing.TB, s *pipeline.Scope, f func(c *pipeline.Call)) {
	t.Helper()
	type none struct{}
	tool, err := pipeline.Define(pipeline.Spec[none, none]{
		Name: "x", Description: "x", Render: func(none, none) []pipeline.Content { return nil },
		Execute: func(_ context.Context, _ none, c *pipeline.Call) (none, error) { f(c); return none{}, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	undo, err := s.Register(tool)
	if err != nil {
		t.Fatal(err)
	}
	defer undo()
	if r := s.Call(context.Background(), pipeline.Request{Name: "x"}); !r.OK() {
		t.Fatal(r.Failure())
	}
}

func state(ino uint64, content string) *State {
	return &State{Dev: 1, Ino: ino, Size: int64(len(content)), Hash: Hash([]byte(content)), Mtime: int64(ino)}
}

func linked(ino uint64, content string) *State {
	s := state(ino, content)
	s.Links = 2
	return s
}

func TestCheck(t *testing.T) {
	const path = "/w/f"
	seen := func(o *Observer, c *pipeline.Call) { o.Observed(c, path, *state(7, "a\n"), []byte("a\n")) }
	missing := func(o *Observer, c *pipeline.Call) { o.Missing(c, path) }
	nothing := func(*Observer, *pipeline.Call) {}
	for _, tc := range []struct {
		name   string
		before func(*Observer, *pipeline.Call)
		path   string
		now    *State
		// codes for Replace and Edit
		replace, edit string
	}{
		{"unseen and not there", nothing, path, nil, "", ""},
		{"unseen and there", nothing, path, state(7, "a\n"), "FS_NOT_OBSERVED", "FS_NOT_OBSERVED"},
		{"seen and as it was", seen, path, state(7, "a\n"), "", ""},
		{"seen, with another inode and the same content", seen, path, state(8, "a\n"), "", ""},
		{"seen and changed", seen, path, state(7, "b\n"), "FS_STALE", "FS_STALE"},
		{"seen and gone", seen, path, nil, "FS_STALE", "FS_STALE"},
		{"missing and not there", missing, path, nil, "", ""},
		{"missing and there", missing, path, state(7, "a\n"), "FS_STALE", "FS_NOT_OBSERVED"},
		{"seen under another hard link", seen, "/w/other", linked(7, "a\n"), "", ""},
		{"another file that has got the number", seen, "/w/other", state(7, "a\n"), "FS_NOT_OBSERVED", "FS_NOT_OBSERVED"},
		{"seen under another hard link and changed", seen, "/w/other", linked(7, "b\n"), "FS_STALE", "FS_STALE"},
		{"another file", seen, "/w/other", state(9, "a\n"), "FS_NOT_OBSERVED", "FS_NOT_OBSERVED"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := newT(t)
			callIn(t, pipeline.New(pipeline.Options{}), func(c *pipeline.Call) {
				tc.before(o, c)
				for use, want := range map[Use]string{Replace: tc.replace, Edit: tc.edit} {
					if got := codeOf(o.Check(c, use, tc.path, tc.now)); got != want {
						t.Errorf("use %d: %q, want %q", use, got, want)
					}
				}
			})
		})
	}
}

func codeOf(err error) string {
	var coded interface{ Code() string }
	if errors.As(err, &coded) {
		return coded.Code()
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

func TestStale_KnowsWhatWasSeen(t *testing.T) {
	o := newT(t)
	callIn(t, pipeline.New(pipeline.Options{}), func(c *pipeline.Call) {
		o.Observed(c, "/small", *state(1, "a"), []byte("a"))
		o.Observed(c, "/empty", *state(2, ""), nil)
		o.Observed(c, "/large", *state(3, "b"), make([]byte, MaxContent+1))
		o.Missing(c, "/none")
		for path, known := range map[string]bool{"/small": true, "/empty": true, "/large": false, "/none": true} {
			var stale *StaleError
			if err := o.Check(c, Replace, path, state(9, "x")); !errors.As(err, &stale) || stale.Known != known || stale.Gone {
				t.Errorf("%s: %+v", path, stale)
			}
		}
	})
}

func TestScopes_KnowTheirOwn(t *testing.T) {
	o := newT(t)
	root := pipeline.New(pipeline.Options{})
	one, two := root.Child("one"), root.Child("two")
	callIn(t, one, func(c *pipeline.Call) { o.Observed(c, "/f", *state(1, "a"), nil) })
	check := func(s *pipeline.Scope) (code string) {
		callIn(t, s, func(c *pipeline.Call) { code = codeOf(o.Check(c, Edit, "/f", state(1, "a"))) })
		return code
	}
	if got := [...]string{check(one), check(two), check(root)}; got != [...]string{"", "FS_NOT_OBSERVED", "FS_NOT_OBSERVED"} {
		t.Errorf("%q", got)
	}
	o.Forget(one)
	if got := check(one); got != "FS_NOT_OBSERVED" {
		t.Errorf("after Forget: %q", got)
	}
}

// A scope that nobody has any more is forgotten with what it has seen.
func TestScopes_EndWithTheirObservations(t *testing.T) {
	o := newT(t)
	root := pipeline.New(pipeline.Options{})
	for range 50 {
		s := root.Child("connection")
		callIn(t, s, func(c *pipeline.Call) { o.Observed(c, "/f", *state(1, "a"), make([]byte, 1000)) })
		s.Close()
	}
	for range 100 {
		runtime.GC()
		o.mu.Lock()
		n := len(o.books)
		o.mu.Unlock()
		if n <= 1 {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Errorf("%d scopes are remembered", len(o.books))
}

func TestBook_IsBounded(t *testing.T) {
	o := newT(t)
	s := pipeline.New(pipeline.Options{})
	callIn(t, s, func(c *pipeline.Call) {
		for i := range MaxFiles + 10 {
			o.Observed(c, fmt.Sprintf("/f%d", i), *state(uint64(i+1), "a"), make([]byte, 20_000))
		}
		for i, want := range map[int]string{0: "FS_NOT_OBSERVED", 9: "FS_NOT_OBSERVED", 10: "", MaxFiles + 9: ""} {
			if got := codeOf(o.Check(c, Edit, fmt.Sprintf("/f%d", i), state(uint64(i+1), "a"))); got != want {
				t.Errorf("file %d: %q, want %q", i, got, want)
			}
		}
		// What was seen again is not the oldest any more.
		o.Observed(c, "/f10", *state(11, "a"), nil)
		o.Observed(c, "/more", *state(1, "b"), nil)
		if got := codeOf(o.Check(c, Edit, "/f10", state(11, "a"))); got != "" {
			t.Errorf("seen again: %q", got)
		}
		b := o.book(s)
		if b.kept > maxKept || len(b.byPath) != MaxFiles || b.order.Len() != MaxFiles || len(b.byInode) > MaxFiles {
			t.Errorf("%d bytes, %d paths, %d in order, %d inodes", b.kept, len(b.byPath), b.order.Len(), len(b.byInode))
		}
		sum := 0
		for at := b.order.Front(); at != nil; at = at.Next() {
			sum += len(at.Value.(*entry).content)
		}
		if sum != b.kept {
			t.Errorf("%d bytes are kept, counted are %d", sum, b.kept)
		}
	})
}

func TestLock_OneAtATime(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "locks")
	// Two observers are like two processes: their locks are different
	// descriptors'.
	var all []*Observer
	for range 2 {
		o, err := New(Options{LockDir: dir})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, o)
	}
	n, inside := 0, 0
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for range 50 {
				unlock, err := all[i%2].Lock(context.Background(), "file")
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				if inside++; inside > 1 {
					t.Error("two at once")
				}
				n++
				mu.Unlock()
				runtime.Gosched()
				mu.Lock()
				inside--
				mu.Unlock()
				unlock()
				unlock() // once is enough
			}
		}()
	}
	wg.Wait()
	if n != 400 || len(all[0].locks.held) != 0 {
		t.Errorf("%d times, %d are held", n, len(all[0].locks.held))
	}
}

func TestLock_OtherFilesGoOn(t *testing.T) {
	o := newT(t)
	unlock, err := o.Lock(context.Background(), "one")
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	other, err := o.Lock(context.Background(), "two")
	if err != nil {
		t.Fatal(err)
	}
	other()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if _, err := o.Lock(ctx, "one"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("within the process: %v", err)
	}
	elsewhere, err := New(Options{LockDir: filepath.Dir(o.locks.path)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel = context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if _, err := elsewhere.Lock(ctx, "one"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("between processes: %v", err)
	}
}

// Something that cleans /var/tmp takes the lock file away.
func TestLock_FileRemoved(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "locks")
	one, err := New(Options{LockDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	two, err := New(Options{LockDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	unlock, err := two.Lock(context.Background(), "f")
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if _, err := one.Lock(ctx, "f"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("one still locks the file that is gone: %v", err)
	}
}

func TestNew_LockDirIsTheUsersAlone(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	open := filepath.Join(dir, "open")
	if err := os.Mkdir(open, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o777); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{link, open, filepath.Join(dir, "none/locks")} {
		if _, err := New(Options{LockDir: bad}); err == nil || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), bad) {
			t.Errorf("%s: %v", bad, err)
		}
	}
	if os.Geteuid() == 0 {
		theirs := filepath.Join(dir, "theirs")
		if err := errors.Join(os.Mkdir(theirs, 0o700), os.Chown(theirs, 1, 1)); err != nil {
			t.Fatal(err)
		}
		if _, err := New(Options{LockDir: theirs}); err == nil {
			t.Error("somebody else's directory was taken")
		}
	}
	o, err := New(Options{LockDir: filepath.Join(dir, "locks")})
	if err != nil {
		t.Fatal(err)
	}
	var st unix.Stat_t
	if err := unix.Stat(o.locks.path, &st); err != nil || st.Mode&0o7777 != 0o200 {
		t.Errorf("lock file: mode %o, %v", st.Mode, err)
	}
	if _, err := New(Options{}); err != nil {
		t.Errorf("the default: %v", err)
	}
}

func BenchmarkLock(b *testing.B) {
	o := newT(b)
	for b.Loop() {
		unlock, err := o.Lock(context.Background(), "f")
		if err != nil {
			b.Fatal(err)
		}
		unlock()
	}
}
