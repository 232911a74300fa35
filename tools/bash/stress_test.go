package bash

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dshx/dshx/pipeline"
)

// settled waits until nothing is left of what came after the counts were taken.
func settled(t *testing.T, fds, threads, routines int) {
	t.Helper()
	var f, th, r int
	// The runtime keeps as many threads as ever waited at the same time, and how
	// many of a crowd do is up to the machine. One for each call would be hundreds.
	threads = max(threads, 64)
	// The supervisor has as many workers as calls came at the same time, for five
	// seconds, and each keeps up to three descriptors of whom it served last. What
	// leaks with each call would be hundreds.
	fds, routines = fds+12, routines+4
	for range 400 {
		if f, th, r = counts(); f <= fds && th <= threads+5 && r <= routines {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if f > fds || th > threads+5 || r > routines {
		stacks := make([]byte, 1<<20)
		t.Errorf("descriptors %d → %d, threads %d → %d, goroutines %d → %d\n%s", fds, f, threads, th, routines, r, stacks[:runtime.Stack(stacks, true)])
	}
	within(t, 5*time.Second, fmt.Sprintf("no zombies: %v", zombies()), func() bool { return len(zombies()) == 0 })
}

func leaksNothing(t *testing.T) {
	w := newWorld(t)
	grandchild := func(i int) {
		// Some end within the moment that they have, some are jobs.
		r := w.call(context.Background(), object{"command": fmt.Sprintf("(setsid sleep 0.0%d &) & echo hi", i%8), "pty": i%10 == 0}, nil)
		if v := w.value(r); strings.TrimSpace(v.Stdout) != "hi" || *v.ExitCode != 0 {
			t.Errorf("%s", r.Value())
		}
	}
	cancelled := func(i int) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(i%20)*time.Millisecond)
		defer cancel()
		r := w.call(ctx, object{"command": "setsid sleep 300 & sleep 300 | cat", "stdin": strings.Repeat("x", 100<<10), "run_in_background": i%10 == 9}, nil)
		if r.OK() && i%10 != 9 || !r.OK() && r.Failure().Code != pipeline.CodeAborted && r.Failure().Code != pipeline.CodeCancelled {
			t.Errorf("%s %v", r.Value(), r.Failure())
		}
		if r.OK() {
			w.owner.Kill(w.value(r).JobID, "KILL", "")
		}
	}
	crowd := func(n int, f func(int)) {
		var wg sync.WaitGroup
		var next atomic.Int64
		for range 8 {
			wg.Go(func() {
				for i := int(next.Add(1)); i <= n; i = int(next.Add(1)) {
					f(i)
				}
			})
		}
		wg.Wait()
		if _, err := w.owner.Wait(context.Background(), nil, false); err != nil {
			t.Fatal(err)
		}
	}
	crowd(40, grandchild)
	crowd(24, cancelled)
	fds, threads, routines := counts()
	crowd(500, grandchild)
	crowd(100, cancelled)
	settled(t, fds, threads, routines)
}

// F3-18, F5-15.
func TestStress_LeaksNothing(t *testing.T) { leaksNothing(t) }

// F5-15: jobs.
func TestStress_JobsLeakNothing(t *testing.T) {
	w := newWorld(t)
	run := func(n int) {
		var wg sync.WaitGroup
		var next atomic.Int64
		for range 8 {
			wg.Go(func() {
				for i := next.Add(1); i <= int64(n); i = next.Add(1) {
					v := w.ok(object{"command": "sleep 300 & exec sleep 300", "run_in_background": true, "interactive": i%2 == 0, "pty": i%5 == 0})
					if _, _, err := w.owner.Kill(v.JobID, "TERM", ""); err != nil {
						t.Error(err)
					}
					if _, err := w.owner.Wait(context.Background(), []string{v.JobID}, false); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
	}
	run(40)
	fds, threads, routines := counts()
	run(300)
	settled(t, fds, threads, routines)
}

// A receiver of reports that panics is a fault of the call, and leaves nothing.
func TestReport_ThatPanics(t *testing.T) {
	w := newWorld(t)
	w.bash("true")
	fds, threads, routines := counts()
	r := w.call(context.Background(), object{"command": "sleep 300 & yes", "env": object{"MARK": mark(t)}}, func(pipeline.Progress) { panic("no") })
	if r.OK() || r.Failure().Code != pipeline.CodeToolPanic {
		t.Errorf("%v", r.Failure())
	}
	if p := marked(mark(t)); len(p) > 0 {
		t.Errorf("%v live", p)
	}
	settled(t, fds, threads, routines)
}

// residentBytes is how much memory this process has.
func residentBytes() int64 {
	b, _ := os.ReadFile("/proc/self/statm")
	f := strings.Fields(string(b))
	if len(f) < 2 {
		return 0
	}
	n, _ := strconv.ParseInt(f[1], 10, 64)
	return n * int64(os.Getpagesize())
}

// F3-12, F5-9.
func TestFlood_MemoryIsBounded(t *testing.T) {
	w := newWorld(t)
	w.bash("seq 1 100000")
	const giga = "3000000000"
	for _, tt := range []struct {
		command  string
		bytes    int64 // of stdout; 0: not known
		complete bool
		encoding string
	}{
		{"head -c " + giga + " /dev/zero | tr '\\0' x; exit 7", 3000000000, false, "utf-8"},
		{"head -c 500000000 /dev/urandom; exit 7", 500000000, false, "base64"},
		{"seq 1 2000000 >&2; exit 7", 0, true, "utf-8"},
		{"yes", 0, false, "utf-8"},
	} {
		if testing.Short() && tt.bytes > 1e9 {
			continue
		}
		before := residentBytes()
		var peak atomic.Int64
		stop, stopped := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(stopped)
			for {
				select {
				case <-stop:
					return
				case <-time.After(10 * time.Millisecond):
					peak.Store(max(peak.Load(), residentBytes()))
				}
			}
		}()
		args := object{"command": tt.command, "timeout_ms": 300000}
		if tt.command == "yes" {
			args["timeout_ms"] = 2000
		}
		r := w.call(context.Background(), args, nil)
		v := w.value(r)
		close(stop)
		<-stopped
		if grown := peak.Load() - before; grown > 64<<20 {
			t.Errorf("%s: memory grew by %d MiB", tt.command, grown>>20)
		}
		if tt.bytes > 0 && v.StdoutBytes != tt.bytes || !v.Truncated || v.Encoding != tt.encoding {
			t.Errorf("%s: %d bytes, %s", tt.command, v.StdoutBytes, v.Encoding)
		}
		if tt.command == "yes" {
			if !v.TimedOut {
				t.Errorf("%+v", v.Ended)
			}
		} else if v.ExitCode == nil || *v.ExitCode != 7 || v.Spill.Complete != tt.complete {
			t.Errorf("%s: %v, %+v", tt.command, v.ExitCode, v.Spill)
		}
		if strings.Contains(tt.command, "seq") && (!strings.HasPrefix(v.Stderr, "1\n2\n") || !strings.HasSuffix(v.Stderr, "\n2000000\n")) {
			t.Errorf("%s: the ends are lost", tt.command)
		}
		if n := len(content(r)); n > 48<<10 {
			t.Errorf("%s: %d bytes of content", tt.command, n)
		}
		if v.Spill.Bytes > 256<<20 {
			t.Errorf("%s: %d bytes on disk", tt.command, v.Spill.Bytes)
		}
		for _, p := range []*string{v.Spill.Stdout, v.Spill.Stderr} {
			if p != nil {
				_ = os.Remove(*p)
			}
		}
	}
}

// F5-7.
func TestFlood_OfAJob(t *testing.T) {
	w := newWorld(t, func(_ *requestT, j *jobOptions, _ *Options) { j.BytesPerJob = 1 << 20 })
	v := w.ok(object{"command": "while :; do echo restart; done", "run_in_background": true})
	within(t, 30*time.Second, "4 MiB", func() bool { return w.job(v.JobID).StdoutBytes > 4<<20 })
	c, err := w.owner.Read(v.JobID, readOptions{Tail: true, Limit: 1 << 10})
	if err != nil || c.MissedBytes == 0 || !strings.HasSuffix(string(c.Stdout), "restart\n") {
		t.Errorf("%v, %d missed, %q", err, c.MissedBytes, c.Stdout)
	}
	start := time.Now()
	w.owner.Kill(v.JobID, "TERM", "")
	list, err := w.owner.Wait(context.Background(), nil, false)
	if d := time.Since(start); err != nil || d > 3*time.Second {
		t.Errorf("%v %+v %v", d, list, err)
	}
}
