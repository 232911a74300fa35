package jobtools

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dshx/dshx/jobs"
	"github.com/dshx/dshx/pipeline"
)

func TestLastLine(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "a": "a", "a\n": "a", "a\nb": "b", "a\r\nb\r\n\r\n": "b", "10%\r20%\r": "20%", " \t\n\n": "", "\n\nx": "x", "x \n": "x ",
	} {
		if got := string(lastLine([]byte(in))); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// A wait tells what the jobs print last, and nothing when it has ended; to nobody
// it tells nothing.
func TestWait_ReportsLastLines(t *testing.T) {
	w := newWorld(t)
	one, two := &work{}, &work{}
	w.start(w.owner, one)
	w.start(w.owner, two)
	fmt.Fprint(one.out.Stdout, "before\n")
	var mu sync.Mutex
	var told []string
	has := func(line string) bool {
		mu.Lock()
		defer mu.Unlock()
		return slices.Contains(told, line)
	}
	until := func(line string) {
		t.Helper()
		for end := time.Now().Add(20 * time.Second); !has(line); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("never told %q, but %q", line, told)
			}
		}
	}
	done := make(chan pipeline.Result)
	go func() {
		done <- w.root.Call(context.Background(), pipeline.Request{Name: "job_wait", Args: []byte(`{}`), Progress: func(p pipeline.Progress) {
			mu.Lock()
			told = append(told, p.Stream+"|"+string(p.Data))
			mu.Unlock()
		}})
	}()
	until("bash-1|bash-1: before\n")
	fmt.Fprint(two.out.Stderr, "first\nsecond")
	until("bash-2|bash-2: second\n")
	one.end(jobs.Outcome{})
	two.end(jobs.Outcome{})
	if r := <-done; !r.OK() {
		t.Error(r.Failure())
	}
	mu.Lock()
	defer mu.Unlock()
	if n := len(told); n > 8 || strings.Contains(strings.Join(told, ""), "first") {
		t.Errorf("told %q", told)
	}
}
