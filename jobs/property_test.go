package jobs

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// A step of a history of two owners.
type step struct {
	what  string
	owner int
	job   int // which of the owner's jobs, as far as there are any
	wait  time.Duration
	sig   string
	stubs []string // signals that a job to be started ignores
}

func steps(t *rapid.T) []step {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) step {
		return step{
			what:  rapid.SampledFrom([]string{"start", "start", "start", "start fails", "start cancelled", "kill", "kill", "exit", "exit", "limit", "write", "wait", "close"}).Draw(t, "what"),
			owner: rapid.IntRange(0, 1).Draw(t, "owner"),
			job:   rapid.IntRange(0, 9).Draw(t, "job"),
			wait:  time.Duration(rapid.IntRange(0, 4000).Draw(t, "wait")) * time.Millisecond,
			sig:   rapid.SampledFrom([]string{"TERM", "INT", "KILL"}).Draw(t, "signal"),
			stubs: rapid.SampledFrom([][]string{nil, {"TERM"}, {"INT"}, {"TERM", "INT"}}).Draw(t, "ignores"),
		}
	}), 1, 40).Draw(t, "steps")
}

// history is what a run of steps saw.
type history struct {
	mu    sync.Mutex
	fakes map[string]*fake // by owner and id
	ends  map[string]End
	wrong []error
}

func (h *history) fault(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.wrong = append(h.wrong, fmt.Errorf(format, args...))
}

func (h *history) observe(e End) {
	key := e.Owner + "/" + e.Job.ID
	h.mu.Lock()
	f, _ := h.fakes[key]
	_, twice := h.ends[key]
	h.ends[key] = e
	h.mu.Unlock()
	if twice {
		h.fault("%s has two terminal records", key)
	}
	if f != nil && f.living() {
		h.fault("%s is %s while it lives", key, e.Job.Status)
	}
	if !e.Job.Status.Ended() || e.Job.EndedBy == nil || e.Job.EndedAt == nil || len(e.Job.PIDs) > 0 {
		h.fault("%s ended as %+v", key, e.Job)
	}
}

// add notes a job that was started.
func (h *history) add(owner string, j Job, f *fake) {
	key := owner + "/" + j.ID
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.fakes[key] != nil {
		h.wrong = append(h.wrong, fmt.Errorf("the id %s was given twice", key))
	}
	h.fakes[key] = f
}

// check looks at what an owner shows.
func (h *history) check(o *Owner, maxLive, maxEnded int) {
	live, over := 0, 0
	for _, j := range o.List() {
		h.mu.Lock()
		f := h.fakes[o.Name()+"/"+j.ID]
		end, told := h.ends[o.Name()+"/"+j.ID]
		h.mu.Unlock()
		if j.Status.Ended() {
			over++
			if f != nil && f.living() {
				h.fault("%s is %s while it lives", j.ID, j.Status)
			}
			if told && (*end.Job.EndedBy != *j.EndedBy || end.Job.Status != j.Status || !end.Job.EndedAt.Equal(*j.EndedAt)) {
				h.fault("%s changed after its end: %+v, %+v", j.ID, end.Job, j)
			}
		} else {
			live++
			if j.EndedBy != nil || j.EndedAt != nil || j.ExitCode != nil || j.Signal != nil {
				h.fault("%s lives and has ended: %+v", j.ID, j)
			}
		}
	}
	if live > maxLive || over > maxEnded {
		h.fault("%d live and %d ended jobs", live, over)
	}
}

const (
	fewLive  = 3
	fewEnded = 4
)

func (h *history) play(reg *Registry, owners []*Owner, list []step) {
	mine := make([][]*fake, len(owners))
	ids := make([][]string, len(owners))
	var closing sync.WaitGroup
	ended := make([]bool, len(owners))
	for _, s := range list {
		o := owners[s.owner]
		var f *fake
		var id string
		if n := len(ids[s.owner]); n > 0 {
			f, id = mine[s.owner][s.job%n], ids[s.owner][s.job%n]
		}
		switch s.what {
		case "start":
			started := newFake(s.stubs...)
			j, err := o.Start(context.Background(), started.spec("bash"))
			if err != nil {
				if c := code(err); c != "JOB_LIMIT" && (c != "ABORTED" || !ended[s.owner]) {
					h.fault("start: %v", err)
				}
				if started.ctx != nil {
					h.fault("a start that is refused called the starter: %v", err)
				}
				break
			}
			if ended[s.owner] {
				h.fault("an owner that has ended started %s", j.ID)
			}
			h.add(o.Name(), j, started)
			mine[s.owner], ids[s.owner] = append(mine[s.owner], started), append(ids[s.owner], j.ID)
			if want := fmt.Sprintf("bash-%d", len(ids[s.owner])); j.ID != want {
				h.fault("the id is %s, want %s", j.ID, want)
			}
		case "start fails":
			_, err := o.Start(context.Background(), Spec{Kind: "bash", Start: func(context.Context, Output) (Producer, error) { return nil, coded{} }})
			if err == nil {
				h.fault("a starter that failed started something")
			}
		case "start cancelled":
			ctx, cancel := context.WithCancel(context.Background())
			started := newFake(s.stubs...)
			_, err := o.Start(ctx, Spec{Kind: "bash", Start: func(ctx context.Context, out Output) (Producer, error) {
				cancel()
				return started.start(ctx, out)
			}})
			cancel()
			if err == nil || started.ctx != nil && started.living() {
				h.fault("a start that was cancelled: %v, living %t", err, started.living())
			}
		case "kill":
			if f != nil {
				lives := f.living()
				j, requested, err := o.Kill(id, s.sig, "")
				if err != nil && code(err) != "JOB_NOT_FOUND" || err == nil && !requested && lives || requested && j.Status == Running {
					h.fault("kill %s: %+v, %t, %v", id, j, requested, err)
				}
			}
		case "exit":
			if f != nil {
				f.exit(s.job)
			}
		case "limit":
			if f != nil {
				f.end(Outcome{Signal: "SIGKILL", Limit: "memory"})
			}
		case "write":
			if f != nil {
				n, err := f.out.Stdout.Write([]byte("output\n"))
				if f.living() && (n != 7 || err != nil) {
					h.fault("write: %d, %v", n, err)
				}
			}
		case "wait":
			time.Sleep(s.wait)
		case "close":
			ended[s.owner] = true
			began := time.Now()
			again := make(chan struct{})
			closing.Go(func() {
				close(again)
				if err := o.Close(context.Background()); err != nil {
					h.fault("close: %v", err)
				}
				if took := time.Since(began); took > 10*time.Second {
					h.fault("close took %s", took)
				}
			})
			<-again
			synctest.Wait()
		}
		h.check(o, fewLive, fewEnded)
	}
	closing.Wait()
	if err := reg.Close(context.Background()); err != nil {
		h.fault("shutdown: %v", err)
	}
	for _, o := range owners {
		h.check(o, 0, fewEnded)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for key, f := range h.fakes {
		if _, told := h.ends[key]; !told || f.living() {
			h.wrong = append(h.wrong, fmt.Errorf("%s was told of: %t, lives: %t", key, told, f.living()))
		}
	}
	if len(h.ends) != len(h.fakes) {
		h.wrong = append(h.wrong, fmt.Errorf("%d jobs ended of %d", len(h.ends), len(h.fakes)))
	}
}

// Whatever happens in whatever order: one terminal record for each job, none
// while it lives; ids are used once and without a gap; limits hold; a
// shutdown leaves nothing.
func TestProperty_AnyHistory(t *testing.T) {
	base := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		list := steps(rt)
		h := &history{fakes: map[string]*fake{}, ends: map[string]End{}}
		dir := filepath.Join(base, "jobs")
		// Failures leave the bubble as values: rapid's own way of failing
		// does not cross it.
		synctest.Test(t, func(t *testing.T) {
			reg, err := New(Options{Dir: dir, MaxLive: fewLive, MaxEnded: fewEnded, Log: h.observe})
			if err != nil {
				h.fault("%w", err)
				return
			}
			h.play(reg, []*Owner{reg.Owner("a"), reg.Owner("b")}, list)
		})
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			h.fault("the directory is there: %v", err)
		}
		if err := errors.Join(h.wrong...); err != nil {
			rt.Fatal(err)
		}
	})
}

// The same from many goroutines at once, on the real clock, for the race detector.
func TestProperty_Concurrent(t *testing.T) {
	h := &history{fakes: map[string]*fake{}, ends: map[string]End{}}
	const maxLive, maxEnded = 8, 10
	reg, err := New(Options{
		Dir: filepath.Join(t.TempDir(), "jobs"), BytesPerJob: 1 << 10,
		MaxLive: maxLive, MaxEnded: maxEnded, Grace: time.Millisecond, Teardown: time.Minute, Log: h.observe,
	})
	if err != nil {
		t.Fatal(err)
	}
	var everybody sync.WaitGroup
	for n := range 3 {
		o := reg.Owner(fmt.Sprint(n))
		for range 4 {
			everybody.Go(func() {
				for range 60 {
					f := newFake("TERM")
					ctx, cancel := context.WithCancel(context.Background())
					spec := f.spec("bash")
					cancelled := rand.N(8) == 0
					spec.Start = func(ctx context.Context, out Output) (Producer, error) {
						if cancelled {
							cancel()
						}
						return f.start(ctx, out)
					}
					j, err := o.Start(ctx, spec)
					cancel()
					if err != nil {
						if c := code(err); c != "JOB_LIMIT" && c != "ABORTED" || f.ctx != nil && f.living() {
							h.fault("start: %v, living %t", err, f.living())
						}
						continue
					}
					h.add(o.Name(), j, f)
					var work sync.WaitGroup
					work.Go(func() {
						for range 20 {
							_, _ = f.out.Stderr.Write([]byte("0123456789"))
						}
						if rand.N(2) == 0 {
							f.exit(0)
						} else {
							_, _, _ = o.Kill(j.ID, []string{"TERM", "INT"}[rand.N(2)], "")
						}
					})
					work.Go(func() { _, _ = o.Read(j.ID, ReadOptions{}) })
					work.Go(func() { _, _, _ = o.Input(context.Background(), j.ID, []byte("x"), false) })
					h.check(o, maxLive, maxEnded)
					if _, err := o.Wait(context.Background(), []string{j.ID}, rand.N(2) == 0); err != nil && !errors.Is(err, ErrNotFound) {
						h.fault("wait: %v", err)
					}
					work.Wait()
				}
			})
		}
		everybody.Go(func() {
			if n == 0 {
				time.Sleep(20 * time.Millisecond) // somewhere in between
				if err := o.Close(context.Background()); err != nil {
					h.fault("close: %v", err)
				}
			}
		})
	}
	everybody.Wait()
	if err := reg.Close(context.Background()); err != nil {
		t.Error(err)
	}
	if err := errors.Join(h.wrong...); err != nil {
		t.Error(err)
	}
	owners := map[string]int{}
	for key := range h.fakes {
		if _, told := h.ends[key]; !told {
			t.Errorf("nobody was told of the end of %s", key)
		}
		owners[key[:1]]++
	}
	// Without a gap: as many numbers as jobs.
	for o, n := range owners {
		if !slices.ContainsFunc([]string{fmt.Sprintf("%s/bash-%d", o, n)}, func(key string) bool { return h.fakes[key] != nil }) {
			t.Errorf("owner %s has %d jobs, and none with that number", o, n)
		}
	}
}
