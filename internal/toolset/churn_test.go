package toolset

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/dshx/dshx/pipeline"
)

// usage is what a process has of what could leak.
type usage struct{ goroutines, threads, files, processes, kept, heap int }

func measure(t *testing.T, h *Host) (u usage) {
	t.Helper()
	entries := func(dir string) int {
		list, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	for range 3 {
		runtime.GC() // what is cleaned up with a scope is so after it
		time.Sleep(time.Millisecond)
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	u = usage{goroutines: runtime.NumGoroutine(), threads: entries("/proc/self/task"), files: entries("/proc/self/fd"), kept: entries(h.ground.kept.Path()), heap: int(m.HeapAlloc)}
	tasks, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range tasks {
		list, _ := os.ReadFile(path) // the thread may have ended
		u.processes += len(bytes.Fields(list))
	}
	return u
}

// Sessions one after another and many at once leave nothing: no memory, thread,
// descriptor, process or file. DSHX_SESSIONS=full is for 10,000 and 100.
func TestSessions_WithoutGrowth(t *testing.T) {
	many, atOnce := 60, 12
	if os.Getenv("DSHX_SESSIONS") == "full" {
		many, atOnce = 10_000, 100
	}
	h, ws := hostT(t, Options{})
	if err := os.WriteFile(filepath.Join(ws, "f"), []byte("one\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	one := func(i int) {
		s, err := h.Session("session " + strconv.Itoa(i))
		if err != nil {
			t.Error(err)
			return
		}
		calls := [][2]string{{"read", `{"file_path":"f"}`}, {"bash", `{"command":"seq 1 20000; echo > $TMPDIR/f"}`}}
		if i%10 < 2 {
			calls = append(calls, [2]string{"bash", `{"command":"sleep 300","run_in_background":true}`})
		}
		for j, c := range calls {
			if r := s.Scope.Call(t.Context(), pipeline.Request{ID: fmt.Sprint(i, j), Name: c[0], Args: []byte(c[1])}); !r.OK() {
				t.Error(r.Failure())
			}
		}
		if i%10 == 0 {
			if err := s.SwitchPreset(t.Context(), "read-only", "test"); err != nil {
				t.Error(err)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	together := func(n int) {
		var all sync.WaitGroup
		for i := range n {
			all.Go(func() { one(i) })
		}
		all.Wait()
	}
	if _, err := h.Session("first"); err != nil {
		t.Fatal(err)
	}
	if s := sessionT(t, h); s.Close() != nil {
		t.Fatal("close")
	}
	together(atOnce) // what the runtime keeps for that many
	for i := range 20 {
		one(i)
	}
	before := measure(t, h)
	for i := range many {
		one(i)
	}
	after := measure(t, h)
	together(atOnce)
	last := measure(t, h)
	t.Logf("%d sessions one after another, and %d at once: %+v, then %+v, then %+v", many, atOnce, before, after, last)
	for i, u := range []usage{after, last} {
		// Threads are the runtime's, which ends none of its own: as many as a crowd
		// has needed at one time, which is chance.
		threads := before.threads + 8 + i*2*atOnce
		if u.goroutines > before.goroutines+2 || u.threads > threads || u.files > before.files || u.processes > before.processes || u.kept > before.kept ||
			u.heap > before.heap+1<<20 {
			t.Errorf("%+v has grown to %+v", before, u)
		}
	}
	if len(h.sessions) != 1 {
		t.Errorf("%d sessions", len(h.sessions))
	}
}
