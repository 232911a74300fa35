package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func code(err error) string {
	var c interface{ Code() string }
	if errors.As(err, &c) {
		return c.Code()
	}
	return ""
}

func TestStart_PublishesTheJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newRegistry(t, Options{}).Owner("a")
		f := newFake()
		j := run(t, o, "bash", f)
		now := time.Now().UTC()
		want := Job{ID: "bash-1", Kind: "bash", Label: "label of bash", ParentCallID: "call-1",
			Status: Running, StartedAt: now, PIDs: []int{4711, 4712}}
		if !reflect.DeepEqual(j, want) {
			t.Errorf("started: %+v, want %+v", j, want)
		}
		if _, err := f.out.Stdout.Write([]byte("hello")); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Second)
		f.exit(3)
		want.Status, want.ExitCode, want.EndedBy, want.EndedAt = Exited, new(3), new(ByExit), new(now.Add(time.Second))
		want.PIDs, want.StdoutBytes = []int{}, 5
		if got := ended(t, o, j.ID); !reflect.DeepEqual(got, want) {
			t.Errorf("ended: %+v, want %+v", got, want)
		}
		if got, err := o.Job(j.ID); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("later: %+v, %v", got, err)
		}
	})
}

func TestJob_JSON(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newRegistry(t, Options{}).Owner("a")
		f := newFake()
		running := run(t, o, "bash", f)
		f.end(Outcome{Signal: "SEGV"})
		for _, tc := range []struct {
			job  Job
			want string
		}{
			{running, `{"jobId":"bash-1","kind":"bash","label":"label of bash","status":"running","exitCode":null,"signal":null,"endedBy":null,` +
				`"startedAt":"2000-01-01T00:00:00Z","endedAt":null,"pids":[4711,4712],"stdoutBytes":0,"stderrBytes":0,"parentCallId":"call-1"}`},
			{ended(t, o, "bash-1"), `{"jobId":"bash-1","kind":"bash","label":"label of bash","status":"exited","exitCode":null,"signal":"SIGSEGV","endedBy":"exit",` +
				`"startedAt":"2000-01-01T00:00:00Z","endedAt":"2000-01-01T00:00:00Z","pids":[],"stdoutBytes":0,"stderrBytes":0,"parentCallId":"call-1"}`},
		} {
			if b, err := json.Marshal(tc.job); err != nil || string(b) != tc.want {
				t.Errorf("%s, %v\nwant %s", b, err, tc.want)
			}
		}
		if b, _ := json.Marshal(o.reg.Owner("b").List()); string(b) != "[]" {
			t.Errorf("an empty list is %s", b)
		}
	})
}

func TestStart_RefusesBeforeTheStarterIsCalled(t *testing.T) {
	done, cancel := context.WithCancel(context.Background())
	cancel()
	closed := func(t *testing.T, o *Owner) {
		if err := o.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct {
		name    string
		ctx     context.Context
		kind    string
		prepare func(*testing.T, *Owner)
		want    error
		code    string
	}{
		{"without a kind", t.Context(), "", nil, ErrInvalid, "INVALID_ARGS"},
		{"a kind with a dash", t.Context(), "a-b", nil, ErrInvalid, "INVALID_ARGS"},
		{"a kind that begins with a digit", t.Context(), "1a", nil, ErrInvalid, "INVALID_ARGS"},
		{"a kind that is too long", t.Context(), strings.Repeat("a", 65), nil, ErrInvalid, "INVALID_ARGS"},
		{"a call that is cancelled", done, "bash", nil, ErrCancelled, "CANCELLED"},
		{"an owner that has ended", t.Context(), "bash", closed, ErrOwnerEnded, "ABORTED"},
		{"a registry that is closed", t.Context(), "bash", func(t *testing.T, o *Owner) { _ = o.reg.Close(context.Background()) }, ErrOwnerEnded, "ABORTED"},
		{"too many", t.Context(), "bash", func(t *testing.T, o *Owner) {
			run(t, o, "bash", newFake())
			run(t, o, "other", newFake())
		}, ErrLimit, "JOB_LIMIT"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := newRegistry(t, Options{MaxLive: 2}).Owner("a")
			if tc.prepare != nil {
				tc.prepare(t, o)
			}
			before := o.List()
			called := false
			_, err := o.Start(tc.ctx, Spec{Kind: tc.kind, Start: func(context.Context, Output) (Producer, error) {
				called = true
				return newFake(), nil
			}})
			if !errors.Is(err, tc.want) || code(err) != tc.code {
				t.Errorf("error %v with code %q, want %v with %q", err, code(err), tc.want, tc.code)
			}
			if called || len(o.List()) != len(before) {
				t.Errorf("something was started: %v", o.List())
			}
		})
	}
	// The twin: the same without what is wrong.
	o := newRegistry(t, Options{MaxLive: 2}).Owner("a")
	run(t, o, strings.Repeat("a", 64), newFake())
	run(t, o, "bash", newFake())
}

func TestStart_WithoutAStarter(t *testing.T) {
	o := newRegistry(t, Options{}).Owner("a")
	if _, err := o.Start(t.Context(), Spec{Kind: "bash"}); code(err) != "INVALID_ARGS" {
		t.Error(err)
	}
	if _, err := o.Start(t.Context(), Spec{Kind: "bash", Start: func(context.Context, Output) (Producer, error) { return nil, nil }}); err == nil {
		t.Error("no producer is taken for one")
	}
	if j := run(t, o, "bash", newFake()); j.ID != "bash-1" {
		t.Errorf("an id was used: %s", j.ID)
	}
}

type coded struct{}

func (coded) Error() string { return "no such program" }
func (coded) Code() string  { return "START_FAILED" }

func TestStart_StarterThatFailsLeavesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "jobs")
	reg := newRegistry(t, Options{Dir: dir, MaxLive: 1})
	o := reg.Owner("a")
	o.Observe(func(e End) {
		if e.Job.ID != "bash-1" || e.Job.Kind != "bash" {
			t.Errorf("observers are told of %+v", e)
		}
	})
	var out Output
	starters := []func(context.Context, Output) (Producer, error){
		func(context.Context, Output) (Producer, error) { return nil, coded{} },
		func(_ context.Context, o Output) (Producer, error) {
			_, _ = o.Stdout.Write([]byte("some"))
			out = o
			return newFake(), coded{}
		},
	}
	for _, start := range starters {
		if _, err := o.Start(t.Context(), Spec{Kind: "bash", Start: start}); code(err) != "START_FAILED" {
			t.Errorf("error %v with code %q", err, code(err))
		}
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the starter's panic is lost")
			}
		}()
		_, _ = o.Start(t.Context(), Spec{Kind: "bash", Start: func(context.Context, Output) (Producer, error) { panic("bug") }})
	}()
	if _, err := out.Stdout.Write([]byte("x")); err == nil {
		t.Error("the output is still open")
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) > 0 || len(o.List()) > 0 {
		t.Errorf("left: %v, %v, jobs %v", files, err, o.List())
	}
	if j := run(t, o, "bash", newFake()); j.ID != "bash-1" {
		t.Errorf("an id was used: %s", j.ID)
	}
}

func TestStart_CancelledWhileStarting(t *testing.T) {
	for _, tc := range []struct {
		name    string
		ignores []string
		signals []string
		after   time.Duration
	}{
		{"what was started ends when asked", nil, []string{"TERM"}, 0},
		{"what was started must be killed", []string{"TERM"}, []string{"TERM", "KILL"}, 5 * time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := newRegistry(t, Options{MaxLive: 1}).Owner("a")
				ctx, cancel := context.WithCancel(t.Context())
				f := newFake(tc.ignores...)
				spec := f.spec("bash")
				spec.Start = func(ctx context.Context, out Output) (Producer, error) {
					cancel()
					<-ctx.Done() // the starter can give up, but this one does not
					return f.start(ctx, out)
				}
				began := time.Now()
				_, err := o.Start(ctx, spec)
				if code(err) != "ABORTED" || !errors.Is(err, ErrAborted) {
					t.Errorf("error %v with code %q", err, code(err))
				}
				if f.living() || time.Since(began) != tc.after || !slices.Equal(f.got(), tc.signals) {
					t.Errorf("after %s, living %t, signals %q", time.Since(began), f.living(), f.got())
				}
				if len(o.List()) > 0 {
					t.Errorf("there is %v", o.List())
				}
				synctest.Wait()
				if j := run(t, o, "bash", newFake()); j.ID != "bash-1" {
					t.Errorf("an id was used: %s", j.ID)
				}
			})
		})
	}
}

func TestStart_CancelledStarterGivesUp(t *testing.T) {
	o := newRegistry(t, Options{}).Owner("a")
	ctx, cancel := context.WithCancel(t.Context())
	_, err := o.Start(ctx, Spec{Kind: "bash", Start: func(ctx context.Context, _ Output) (Producer, error) {
		cancel()
		<-ctx.Done()
		return nil, coded{}
	}})
	if code(err) != "ABORTED" || !errors.As(err, &coded{}) {
		t.Errorf("error %v with code %q", err, code(err))
	}
}

func TestStart_AbortedJobCountsUntilItHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newRegistry(t, Options{MaxLive: 1}).Owner("a")
		ctx, cancel := context.WithCancel(t.Context())
		f := newFake("TERM", "KILL")
		_, err := o.Start(ctx, Spec{Kind: "bash", Start: func(ctx context.Context, out Output) (Producer, error) {
			cancel()
			<-ctx.Done()
			return f.start(ctx, out)
		}})
		if code(err) != "ABORTED" {
			t.Error(err)
		}
		if _, err := o.Start(t.Context(), newFake().spec("bash")); code(err) != "JOB_LIMIT" {
			t.Errorf("while it lives: %v", err)
		}
		if err := o.Close(t.Context()); err == nil || len(f.got()) < 3 {
			t.Errorf("the owner's end is %v, signals %q", err, f.got())
		}
		f.exit(0)
		synctest.Wait()
		if err := o.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// F5-19: cancelling the call, or a wait for the job, ends no job.
func TestStart_LaterCancelDoesNotReachTheJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newRegistry(t, Options{}).Owner("a")
		type key struct{}
		ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), key{}, "value"), time.Second)
		f := newFake()
		j, err := o.Start(ctx, f.spec("bash"))
		if err != nil {
			t.Fatal(err)
		}
		if f.ctx.Value(key{}) != "value" {
			t.Error("the starter's context has not the call's values")
		}
		time.Sleep(3 * time.Second)
		cancel()
		waiting, stop := context.WithCancel(t.Context())
		go stop()
		if list, err := o.Wait(waiting, []string{j.ID}, false); !errors.Is(err, context.Canceled) || len(list) != 1 || list[0].Status != Running {
			t.Errorf("a wait that is cancelled: %v, %v", list, err)
		}
		if _, err := o.Follow(waiting, j.ID, ReadOptions{}); !errors.Is(err, context.Canceled) {
			t.Errorf("a read that is cancelled: %v", err)
		}
		synctest.Wait()
		if f.ctx.Err() != nil || len(f.got()) > 0 || !f.living() {
			t.Errorf("the job got %q and %v", f.got(), f.ctx.Err())
		}
		f.exit(0)
		ended(t, o, j.ID)
		synctest.Wait()
		if f.ctx.Err() == nil {
			t.Error("the job's context outlives it")
		}
	})
}

func TestOwner_IDsCountByKindAndOwner(t *testing.T) {
	reg := newRegistry(t, Options{})
	a, b := reg.Owner("a"), reg.Owner("b")
	var ids []string
	for _, tc := range []struct {
		o    *Owner
		kind string
	}{{a, "bash"}, {a, "bash"}, {b, "bash"}, {a, "watch"}, {b, "bash"}, {a, "bash"}} {
		ids = append(ids, run(t, tc.o, tc.kind, newFake()).ID)
	}
	if want := []string{"bash-1", "bash-2", "bash-1", "watch-1", "bash-2", "bash-3"}; !slices.Equal(ids, want) {
		t.Errorf("ids %q, want %q", ids, want)
	}
	var list []string
	for _, j := range a.List() {
		list = append(list, j.ID)
	}
	if want := []string{"bash-1", "bash-2", "watch-1", "bash-3"}; !slices.Equal(list, want) {
		t.Errorf("list %q, want %q", list, want)
	}
}

// Another owner's id and one that never was are told apart by nothing.
func TestOwner_FenceLeaksNothing(t *testing.T) {
	reg := newRegistry(t, Options{})
	a, b := reg.Owner("a"), reg.Owner("b")
	f := newFake()
	run(t, a, "bash", newFake())
	run(t, a, "bash", f)
	run(t, b, "bash", newFake())
	for name, call := range map[string]func(id string) error{
		"Job":    func(id string) error { _, err := b.Job(id); return err },
		"Read":   func(id string) error { _, err := b.Read(id, ReadOptions{}); return err },
		"Follow": func(id string) error { _, err := b.Follow(t.Context(), id, ReadOptions{}); return err },
		"Wait":   func(id string) error { _, err := b.Wait(t.Context(), []string{"bash-1", id}, true); return err },
		"Kill":   func(id string) error { _, _, err := b.Kill(id, "KILL", ""); return err },
		"Input":  func(id string) error { _, _, err := b.Input(t.Context(), id, []byte("x"), false); return err },
	} {
		t.Run(name, func(t *testing.T) {
			foreign, unknown := call("bash-2"), call("bash-9")
			if !errors.Is(foreign, ErrNotFound) || code(foreign) != "JOB_NOT_FOUND" {
				t.Errorf("another owner's job: %v", foreign)
			}
			if strings.ReplaceAll(unknown.Error(), "bash-9", "bash-2") != foreign.Error() {
				t.Errorf("%q and %q", foreign, unknown)
			}
		})
	}
	if !f.living() || len(f.got()) > 0 || len(f.input) > 0 {
		t.Errorf("the job got %q %q", f.got(), f.input)
	}
}

func TestOwner_RemembersTheLastEnded(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "jobs")
	o := newRegistry(t, Options{Dir: dir, MaxEnded: 2}).Owner("a")
	first := newFake()
	run(t, o, "bash", first)
	for n := 2; n <= 5; n++ {
		f := newFake()
		j := run(t, o, "bash", f)
		_, _ = f.out.Stdout.Write([]byte("x"))
		f.exit(0)
		ended(t, o, j.ID)
	}
	first.exit(0)
	ended(t, o, "bash-1")
	var ids []string
	for _, j := range o.List() {
		ids = append(ids, j.ID)
	}
	// By their end, not by their start: bash-1 is the last that ended.
	if want := []string{"bash-1", "bash-5"}; !slices.Equal(ids, want) {
		t.Errorf("list %q, want %q", ids, want)
	}
	if _, err := o.Job("bash-4"); code(err) != "JOB_NOT_FOUND" {
		t.Errorf("a forgotten job: %v", err)
	}
	if err := o.Close(t.Context()); err != nil { // follow has discarded by then
		t.Error(err)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) > 0 {
		t.Errorf("left: %v, %v", files, err)
	}
}

// What the contract promises without an option: 32 jobs that live, 100 ended
// ones that are remembered, for each owner alone.
func TestOwner_Defaults(t *testing.T) {
	reg := newRegistry(t, Options{})
	if reg.opt.BytesPerJob != 256<<20 {
		t.Errorf("%d bytes a job", reg.opt.BytesPerJob)
	}
	o := reg.Owner("a")
	var live []*fake
	for range 32 {
		f := newFake()
		live = append(live, f)
		run(t, o, "bash", f)
	}
	if _, err := o.Start(t.Context(), newFake().spec("bash")); code(err) != "JOB_LIMIT" {
		t.Errorf("one more than 32: %v", err)
	}
	run(t, reg.Owner("b"), "bash", newFake()) // whose limit is its own
	for n := 1; n <= 101; n++ {
		live[0].exit(0)
		ended(t, o, fmt.Sprintf("bash-%d", n))
		f := newFake()
		live = append(live[1:], f)
		run(t, o, "bash", f)
		if _, err := o.Job("bash-1"); (err == nil) != (n <= 100) {
			t.Errorf("the first of %d that have ended: %v", n, err)
		}
	}
	if n := len(o.List()); n != 132 {
		t.Errorf("%d jobs are listed", n)
	}
}

func TestKill(t *testing.T) {
	for _, tc := range []struct {
		name    string
		signal  string
		ignores []string
		signals []string
		after   time.Duration
	}{
		{"TERM without a name", "", nil, []string{"TERM"}, 0},
		{"a named one", "INT", nil, []string{"INT"}, 0},
		{"with SIG", "SIGHUP", nil, []string{"HUP"}, 0},
		{"KILL at once", "KILL", nil, []string{"KILL"}, 0},
		{"KILL after the grace", "TERM", []string{"TERM"}, []string{"TERM", "KILL"}, 5 * time.Second},
		{"KILL after the grace, whatever was asked", "USR1", []string{"USR1"}, []string{"USR1", "KILL"}, 5 * time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := newRegistry(t, Options{}).Owner("a")
				f := newFake(tc.ignores...)
				j := run(t, o, "bash", f)
				began := time.Now()
				j, requested, err := o.Kill(j.ID, tc.signal, "enough")
				if err != nil || !requested || j.EndedBy != nil || j.Status != Stopping {
					t.Errorf("first: %+v, %t, %v", j, requested, err)
				}
				j = ended(t, o, j.ID)
				if j.Status != Killed || *j.EndedBy != ByKill || j.ExitCode != nil || *j.Signal != "SIG"+tc.signals[len(tc.signals)-1] {
					t.Errorf("ended: %+v", j)
				}
				if !slices.Equal(f.got(), tc.signals) || time.Since(began) != tc.after {
					t.Errorf("signals %q after %s", f.got(), time.Since(began))
				}
				again, requested, err := o.Kill(j.ID, "TERM", "")
				if err != nil || requested || !reflect.DeepEqual(again, j) {
					t.Errorf("second: %+v, %t, %v", again, requested, err)
				}
				time.Sleep(time.Minute)
				if !slices.Equal(f.got(), tc.signals) {
					t.Errorf("signals after the end: %q", f.got())
				}
			})
		})
	}
}

func TestKill_RefusesOtherSignals(t *testing.T) {
	o := newRegistry(t, Options{}).Owner("a")
	f := newFake()
	run(t, o, "bash", f)
	for _, s := range []string{"STOP", "CONT", "term", "9", "SIG", "SIGSIGTERM", " "} {
		if _, _, err := o.Kill("bash-1", s, ""); code(err) != "INVALID_ARGS" {
			t.Errorf("%q: %v", s, err)
		}
	}
	if j, _ := o.Job("bash-1"); j.Status != Running || len(f.got()) > 0 {
		t.Errorf("%+v got %q", j, f.got())
	}
}

// F5-4, while the job is stopping.
func TestKill_AgainWhileStopping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newRegistry(t, Options{}).Owner("a")
		f := newFake("TERM", "INT", "HUP")
		run(t, o, "bash", f)
		for n, s := range []string{"TERM", "INT", "HUP"} {
			j, requested, err := o.Kill("bash-1", s, fmt.Sprint(n))
			if j.Status != Stopping || !requested || err != nil {
				t.Errorf("%s: %+v, %t, %v", s, j, requested, err)
			}
			time.Sleep(time.Second)
		}
		if j, _ := o.Job("bash-1"); j.Status != Stopping || len(j.PIDs) != 2 {
			t.Errorf("%+v", j)
		}
		time.Sleep(1999 * time.Millisecond) // no more time than at first
		if !f.living() {
			t.Error("it was killed early")
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		if want := []string{"TERM", "INT", "HUP", "KILL"}; !slices.Equal(f.got(), want) {
			t.Errorf("signals %q, want %q", f.got(), want)
		}
		if j := ended(t, o, "bash-1"); j.Status != Killed || *j.EndedBy != ByKill {
			t.Errorf("%+v", j)
		}
	})
}

func TestKill_KILLWhileStoppingIsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newRegistry(t, Options{}).Owner("a")
		f := newFake("TERM")
		run(t, o, "bash", f)
		_, _, _ = o.Kill("bash-1", "TERM", "")
		time.Sleep(time.Second)
		_, _, _ = o.Kill("bash-1", "KILL", "")
		_, _, _ = o.Kill("bash-1", "TERM", "") // does not take it back
		synctest.Wait()
		if f.living() || f.ctx.Err() == nil {
			t.Errorf("signals %q, context %v", f.got(), f.ctx.Err())
		}
	})
}

func TestKill_KilledOnlyWhenNothingLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newRegistry(t, Options{}).Owner("a")
		f := newFake("TERM", "KILL") // as in an uninterruptible sleep
		f.late = make(chan struct{})
		run(t, o, "bash", f)
		_, _, _ = o.Kill("bash-1", "TERM", "")
		time.Sleep(time.Minute)
		if j, _ := o.Job("bash-1"); j.Status != Stopping || j.EndedBy != nil {
			t.Errorf("while it lives: %+v", j)
		}
		if n := len(f.got()); n < 10 || n > 13 {
			t.Errorf("KILL is not repeated each grace: %q", f.got())
		}
		f.end(Outcome{Signal: "KILL"})
		synctest.Wait()
		if j, _ := o.Job("bash-1"); j.Status != Stopping {
			t.Errorf("while it is not reaped: %+v", j)
		}
		close(f.late)
		if j := ended(t, o, "bash-1"); j.Status != Killed || *j.Signal != "SIGKILL" {
			t.Errorf("%+v", j)
		}
	})
}

func TestEnd_FirstWins(t *testing.T) {
	boom := errors.New("lost track of it")
	for _, tc := range []struct {
		name   string
		asked  bool
		out    Outcome
		status Status
		by     EndedBy
	}{
		{"an exit", false, Outcome{ExitCode: new(1)}, Exited, ByExit},
		{"a signal of its own", false, Outcome{Signal: "SIGABRT"}, Exited, ByExit},
		{"a limit", false, Outcome{Signal: "SIGKILL", Limit: "memory"}, Killed, ByLimit},
		{"a failure", false, Outcome{Err: boom}, Failed, ByExit},
		{"an exit on request", true, Outcome{ExitCode: new(0)}, Killed, ByKill},
		{"a limit after the request", true, Outcome{Signal: "SIGKILL", Limit: "memory"}, Killed, ByKill},
		{"a failure after the request", true, Outcome{Err: boom}, Failed, ByKill},
		{"processes that have no one exit code", false, Outcome{}, Exited, ByExit},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := newRegistry(t, Options{}).Owner("owner")
				var told []End
				o.Observe(func(e End) { told = append(told, e) })
				f := newFake("TERM")
				run(t, o, "bash", f)
				if tc.asked {
					_, _, _ = o.Kill("bash-1", "TERM", "why")
				}
				time.Sleep(1500 * time.Millisecond)
				f.end(tc.out)
				j := ended(t, o, "bash-1")
				if j.Status != tc.status || *j.EndedBy != tc.by || !reflect.DeepEqual(j.ExitCode, tc.out.ExitCode) {
					t.Errorf("%+v", j)
				}
				synctest.Wait()
				want := End{Owner: "owner", Job: j, Err: tc.out.Err, Duration: 1500 * time.Millisecond}
				if tc.by == ByLimit {
					want.Limit = "memory"
				}
				if tc.asked {
					want.Reason = "why"
				}
				if len(told) != 1 || !reflect.DeepEqual(told[0], want) {
					t.Errorf("told %+v, want %+v", told, want)
				}
			})
		})
	}
}

func TestObservers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []string
		var reg *Registry
		say := func(who string) func(End) {
			return func(e End) {
				// What an observer does to its copy is nobody's business.
				*e.Job.EndedBy, e.Job.ID = "nonsense", "x"
				told = append(told, who)
			}
		}
		reg = newRegistry(t, Options{Log: func(e End) {
			told = append(told, "log "+e.Job.ID+" "+string(*e.Job.EndedBy))
		}})
		o := reg.Owner("a")
		reg.Observe(say("registry"))
		o.Observe(say("owner"))
		o.Observe(func(End) { panic("bug") })
		remove := o.Observe(say("removed"))
		o.Observe(say("second"))
		reg.Owner("b").Observe(say("foreign"))
		remove()
		remove()
		f := newFake()
		run(t, o, "bash", f)
		f.exit(0)
		j := ended(t, o, "bash-1")
		synctest.Wait()
		if want := []string{"owner", "second", "registry", "log bash-1 exit"}; !slices.Equal(told, want) {
			t.Errorf("told %q, want %q", told, want)
		}
		if got, _ := o.Job("bash-1"); !reflect.DeepEqual(got, j) || *got.EndedBy != ByExit {
			t.Errorf("the record changed: %+v", got)
		}
	})
}

func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newRegistry(t, Options{}).Owner("a")
		if list, err := o.Wait(t.Context(), nil, false); err != nil || list == nil || len(list) > 0 {
			t.Errorf("with no jobs: %v, %v", list, err)
		}
		fakes := []*fake{newFake(), newFake(), newFake()}
		for n, f := range fakes {
			run(t, o, "bash", f)
			time.AfterFunc(time.Duration(n+1)*time.Second, func() { f.exit(n) })
		}
		began := time.Now()
		status := func(list []Job) (s []string) {
			for _, j := range list {
				s = append(s, j.ID+" "+string(j.Status))
			}
			return s
		}
		for _, tc := range []struct {
			name  string
			ids   []string
			any   bool
			limit time.Duration
			want  []string
			after time.Duration // since all were started
			late  bool
		}{
			{"for too short", nil, false, time.Second / 2, []string{"bash-1 running", "bash-2 running", "bash-3 running"}, time.Second / 2, true},
			{"any", []string{"bash-2", "bash-1"}, true, time.Hour, []string{"bash-2 running", "bash-1 exited"}, time.Second, false},
			{"any, one of which has ended", []string{"bash-2", "bash-1"}, true, time.Hour, []string{"bash-2 running", "bash-1 exited"}, time.Second, false},
			{"any live one", nil, true, time.Hour, []string{"bash-2 exited", "bash-3 running"}, 2 * time.Second, false},
			{"all, one of which has ended", []string{"bash-1", "bash-3", "bash-1"}, false, time.Hour, []string{"bash-1 exited", "bash-3 exited", "bash-1 exited"}, 3 * time.Second, false},
			{"none that lives", nil, false, time.Hour, nil, 3 * time.Second, false},
		} {
			ctx, cancel := context.WithTimeout(t.Context(), tc.limit)
			list, err := o.Wait(ctx, tc.ids, tc.any)
			cancel()
			if !slices.Equal(status(list), tc.want) || time.Since(began) != tc.after || errors.Is(err, context.DeadlineExceeded) != tc.late || !tc.late && err != nil {
				t.Errorf("%s: %q, %v after %s", tc.name, status(list), err, time.Since(began))
			}
		}
	})
}

// Output comes before the record of the end, for whoever waits.
func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newRegistry(t, Options{}).Owner("a")
		f := newFake()
		run(t, o, "bash", f)
		went := make(chan struct{})
		go func() {
			defer close(went)
			for _, s := range []string{"one\n", "\xe0", "\xb8", "\x81\n", "end"} { // F5-13
				time.Sleep(time.Second)
				_, _ = f.out.Stdout.Write([]byte(s))
			}
			time.Sleep(time.Second)
			_, _ = f.out.Stderr.Write([]byte("oops"))
			f.exit(3)
		}()
		// F5-12: two readers, the second of which asks only now and then.
		for _, every := range []time.Duration{0, 1700 * time.Millisecond} {
			var outs, errs []string
			var c Chunk
			for {
				var err error
				if c, err = o.Follow(t.Context(), "bash-1", ReadOptions{Since: c.Next}); err != nil {
					t.Fatal(err)
				}
				if len(c.Stdout) > 0 {
					outs = append(outs, string(c.Stdout))
				}
				if len(c.Stderr) > 0 {
					errs = append(errs, string(c.Stderr))
				}
				if c.Job.Status.Ended() && !c.More {
					break
				}
				time.Sleep(every)
			}
			if every == 0 && !slices.Equal(outs, []string{"one\n", "ก\n", "end"}) {
				t.Errorf("pieces %q", outs)
			}
			if strings.Join(outs, "") != "one\nก\nend" || strings.Join(errs, "") != "oops" || *c.Job.ExitCode != 3 || c.MissedBytes > 0 {
				t.Errorf("out %q, err %q, %+v", outs, errs, c)
			}
		}
		<-went
	})
}

func TestFollow_EndsWithTheJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newRegistry(t, Options{}).Owner("a")
		f := newFake()
		run(t, o, "bash", f)
		_, _ = f.out.Stdout.Write([]byte("\xe0"))
		time.AfterFunc(time.Second, func() { f.exit(0) })
		c, err := o.Follow(t.Context(), "bash-1", ReadOptions{})
		if err != nil || string(c.Stdout) != "\xe0" {
			t.Errorf("%+v, %v", c, err)
		}
		if c, err = o.Follow(t.Context(), "bash-1", ReadOptions{Since: c.Next}); err != nil || !c.Job.Status.Ended() || len(c.Stdout) > 0 || c.More {
			t.Errorf("%+v, %v", c, err)
		}
	})
}

func TestFollow_TimesOutWithWhatThereIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newRegistry(t, Options{}).Owner("a")
		run(t, o, "bash", newFake())
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		c, err := o.Follow(ctx, "bash-1", ReadOptions{})
		if !errors.Is(err, context.DeadlineExceeded) || c.Job.Status != Running || c.Next == "" || c.Stdout == nil || c.Stderr == nil {
			t.Errorf("%+v, %v", c, err)
		}
	})
}

func TestRead_Cursors(t *testing.T) {
	reg := newRegistry(t, Options{})
	a, b := reg.Owner("a"), reg.Owner("b")
	f, g := newFake(), newFake()
	run(t, a, "bash", f)
	run(t, a, "bash", newFake())
	run(t, b, "bash", g)
	for _, f := range []*fake{f, g} {
		_, _ = f.out.Stdout.Write([]byte("stdout"))
		_, _ = f.out.Stderr.Write([]byte("err"))
	}
	first, err := a.Read("bash-1", ReadOptions{Limit: 4})
	if err != nil || string(first.Stdout) != "stdo" || string(first.Stderr) != "err" || !first.More || first.Job.StdoutBytes != 6 {
		t.Fatalf("%+v, %v", first, err)
	}
	second, err := a.Read("bash-1", ReadOptions{Since: first.Next, Limit: 4})
	if err != nil || string(second.Stdout) != "ut" || len(second.Stderr) > 0 || second.More {
		t.Errorf("%+v, %v", second, err)
	}
	again, err := a.Read("bash-1", ReadOptions{Limit: 4})
	if err != nil || !reflect.DeepEqual(again, first) {
		t.Errorf("reading took something away: %+v, %v", again, err)
	}
	tail, err := a.Read("bash-1", ReadOptions{Tail: true, Limit: 2})
	if err != nil || string(tail.Stdout) != "ut" || string(tail.Stderr) != "rr" || tail.MissedBytes != 0 || tail.Next != second.Next {
		t.Errorf("%+v, %v", tail, err)
	}
	mark, _, _ := first.Next.parse()
	for name, tc := range map[string]struct {
		o   *Owner
		id  string
		opt ReadOptions
	}{
		"nonsense":                   {a, "bash-1", ReadOptions{Since: "nonsense"}},
		"another job's":              {a, "bash-2", ReadOptions{Since: first.Next}},
		"of the same id, another's":  {b, "bash-1", ReadOptions{Since: first.Next}},
		"beyond the end":             {a, "bash-1", ReadOptions{Since: newCursor(mark, [streams]int64{7, 0})}},
		"beyond the other's end":     {a, "bash-1", ReadOptions{Since: newCursor(mark, [streams]int64{0, 4})}},
		"a limit below what makes 1": {a, "bash-1", ReadOptions{Limit: -1}},
		"a limit above the most":     {a, "bash-1", ReadOptions{Limit: MaxReadLimit + 1}},
	} {
		if c, err := tc.o.Read(tc.id, tc.opt); code(err) != "INVALID_ARGS" || !reflect.DeepEqual(c, Chunk{}) {
			t.Errorf("%s: %+v, %v", name, c, err)
		}
	}
}

// F5-7: a chatty job stays within its bound, and its newest output is there.
func TestRead_ChattyJob(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "jobs")
	o := newRegistry(t, Options{Dir: dir, BytesPerJob: 64 << 10}).Owner("a")
	f := newFake()
	run(t, o, "bash", f)
	_, _ = f.out.Stdout.Write([]byte("first\n"))
	old, err := o.Read("bash-1", ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	line := []byte("restart\n")
	for range 100_000 {
		_, _ = f.out.Stdout.Write(line)
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v", files, err)
	}
	if info, err := files[0].Info(); err != nil || info.Size() > 64<<10 || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	for _, since := range []Cursor{"", old.Next} {
		c, err := o.Read("bash-1", ReadOptions{Since: since, Limit: MaxReadLimit})
		if err != nil || c.Job.StdoutBytes != 800_006 || c.MissedBytes < 800_000-64<<10 || c.More {
			t.Errorf("%d bytes, %d missed, more %t, %v", c.Job.StdoutBytes, c.MissedBytes, c.More, err)
		}
		if !strings.HasSuffix(string(c.Stdout), "\nrestart\nrestart\n") || len(c.Stdout) < 60<<10 {
			t.Errorf("%d bytes", len(c.Stdout))
		}
	}
}

// F5-21: a disk that takes nothing does not stop the job.
func TestRead_DirectoryIsGone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "jobs")
	o := newRegistry(t, Options{Dir: dir}).Owner("a")
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	f := newFake()
	run(t, o, "bash", f)
	if n, err := f.out.Stdout.Write([]byte("hello")); n != 5 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	f.exit(7)
	ended(t, o, "bash-1")
	if c, err := o.Read("bash-1", ReadOptions{}); err != nil || c.MissedBytes != 5 || c.Job.StdoutBytes != 5 || *c.Job.ExitCode != 7 {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestInput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newRegistry(t, Options{}).Owner("a")
		f := newFake("TERM")
		run(t, o, "bash", f)
		if j, n, err := o.Input(t.Context(), "bash-1", []byte("hello\n"), false); n != 6 || err != nil || j.ID != "bash-1" {
			t.Errorf("%+v, %d, %v", j, n, err)
		}
		if _, n, err := o.Input(t.Context(), "bash-1", []byte("x"), true); n != 1 || err != nil || string(f.input) != "hello\nx" || !f.eof {
			t.Errorf("%d, %v, input %q", n, err, f.input)
		}
		if _, _, err := o.Input(t.Context(), "bash-1", []byte("x"), false); code(err) != "INVALID_ARGS" || !errors.Is(err, ErrNoInput) {
			t.Errorf("after the end of input: %v", err)
		}
		f.exit(0)
		ended(t, o, "bash-1")
		if j, n, err := o.Input(t.Context(), "bash-1", []byte("x"), false); code(err) != "JOB_ENDED" || n != 0 || j.Status != Exited {
			t.Errorf("after the end: %+v, %d, %v", j, n, err)
		}
	})
}

func TestInput_BlockedOneEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newRegistry(t, Options{}).Owner("a")
		f := newFake()
		f.reads = make(chan struct{})
		run(t, o, "bash", f)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, _, err := o.Input(ctx, "bash-1", []byte("x"), false); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("with its call: %v", err)
		}
		errs := make(chan error)
		for range 2 { // one in the job, one behind it
			go func() {
				_, _, err := o.Input(t.Context(), "bash-1", []byte("x"), false)
				errs <- err
			}()
		}
		synctest.Wait()
		f.exit(0)
		for range 2 {
			if err := <-errs; code(err) != "JOB_ENDED" {
				t.Errorf("with the job: %v", err)
			}
		}
	})
}

func TestClose_EndsAllInParallel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "jobs")
		var mu sync.Mutex // jobs end at once, and each tells of its own end
		var told []string
		reg := newRegistry(t, Options{Dir: dir, Log: func(e End) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, e.Job.ID+" "+string(*e.Job.EndedBy))
		}})
		o, other := reg.Owner("a"), reg.Owner("b")
		bystander := newFake()
		run(t, other, "bash", bystander)
		for n := range 10 {
			f := newFake("TERM")
			if n == 0 {
				f = newFake()
			}
			run(t, o, "bash", f)
			_, _ = f.out.Stdout.Write([]byte("x"))
		}
		_, _, _ = o.Kill("bash-3", "TERM", "") // first wins
		time.Sleep(time.Second)
		began := time.Now()
		if err := o.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took != 5*time.Second {
			t.Errorf("it took %s", took)
		}
		want := []string{"bash-1 owner", "bash-3 job_kill"}
		for n := range 10 {
			if id := fmt.Sprintf("bash-%d", n+1); n != 0 && n != 2 {
				want = append(want, id+" owner")
			}
		}
		if slices.Sort(told); !slices.Equal(told, slices.Sorted(slices.Values(want))) {
			t.Errorf("told %q, want %q", told, want)
		}
		if files, err := os.ReadDir(dir); err != nil || len(files) > 0 {
			t.Errorf("left: %v, %v", files, err)
		}
		if list := o.List(); len(list) != 10 || list[0].Status != Killed {
			t.Errorf("the records are %v", list)
		}
		if !bystander.living() || len(bystander.got()) > 0 {
			t.Error("another owner's job was touched")
		}
		if err := o.Close(t.Context()); err != nil {
			t.Errorf("a second time: %v", err)
		}
	})
}

func TestClose_GivesUpAfterTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "jobs")
		reg := newRegistry(t, Options{Dir: dir})
		o := reg.Owner("a")
		f := newFake("TERM", "KILL")
		run(t, o, "bash", newFake())
		run(t, o, "bash", f)
		_, _ = f.out.Stdout.Write([]byte("x"))
		began := time.Now()
		err := o.Close(t.Context())
		if err == nil || !strings.Contains(err.Error(), "bash-2") || strings.Contains(err.Error(), "bash-1") {
			t.Errorf("error %v", err)
		}
		if took := time.Since(began); took != 10*time.Second {
			t.Errorf("it took %s", took)
		}
		if files, err := os.ReadDir(dir); err != nil || len(files) > 0 {
			t.Errorf("left: %v, %v", files, err)
		}
		if _, err := f.out.Stdout.Write([]byte("still here")); err != nil {
			t.Errorf("a job that lives can't write: %v", err)
		}
		if j, _ := o.Job("bash-2"); j.Status != Stopping {
			t.Errorf("%+v", j)
		}
		f.exit(0)
		if j := ended(t, o, "bash-2"); j.Status != Killed || *j.EndedBy != ByOwner || j.StdoutBytes != 11 {
			t.Errorf("%+v", j)
		}
	})
}

func TestClose_LeavesLessThanALongGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newRegistry(t, Options{Grace: time.Hour}).Owner("a")
		running, stopping := newFake("TERM"), newFake("INT", "TERM")
		run(t, o, "bash", running)
		run(t, o, "bash", stopping)
		_, _, _ = o.Kill("bash-2", "INT", "")
		time.Sleep(time.Minute)
		if !stopping.living() {
			t.Error("it got less than the grace")
		}
		began := time.Now()
		if err := o.Close(t.Context()); err != nil || time.Since(began) != 5*time.Second {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		if want := []string{"INT", "TERM", "KILL"}; !slices.Equal(stopping.got(), want) {
			t.Errorf("signals %q, want %q", stopping.got(), want)
		}
	})
}

func TestClose_ContextBoundsOnlyTheWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newRegistry(t, Options{}).Owner("a")
		f := newFake("TERM")
		run(t, o, "bash", f)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := o.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if !f.living() {
			t.Error("it got less than the grace")
		}
		time.Sleep(4 * time.Second)
		synctest.Wait()
		if f.living() {
			t.Error("it was not killed")
		}
	})
}

func TestClose_WhileStarting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newRegistry(t, Options{}).Owner("a")
		f := newFake("TERM")
		result := make(chan error)
		go func() {
			_, err := o.Start(t.Context(), Spec{Kind: "bash", Start: func(ctx context.Context, out Output) (Producer, error) {
				<-ctx.Done()
				return f.start(ctx, out)
			}})
			result <- err
		}()
		synctest.Wait()
		closed := make(chan error)
		go func() { closed <- o.Close(t.Context()) }()
		if err := <-result; !errors.Is(err, ErrOwnerEnded) || code(err) != "ABORTED" {
			t.Errorf("start: %v", err)
		}
		if err := <-closed; err != nil || f.living() {
			t.Errorf("close: %v, living %t", err, f.living())
		}
	})
}

func TestClose_WaitsForObservers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logged := false
		o := newRegistry(t, Options{Log: func(End) {
			time.Sleep(time.Second)
			logged = true
		}}).Owner("a")
		run(t, o, "bash", newFake())
		if err := o.Close(t.Context()); err != nil || !logged {
			t.Errorf("%v, logged %t", err, logged)
		}
	})
}

func TestRegistry_Close(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "jobs")
		reg := newRegistry(t, Options{Dir: dir})
		var owners []*Owner
		for range 3 {
			o := reg.Owner("")
			owners = append(owners, o)
			f := newFake("TERM")
			run(t, o, "bash", f)
			_, _ = f.out.Stdout.Write([]byte("x"))
		}
		began := time.Now()
		if err := reg.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took != 5*time.Second {
			t.Errorf("it took %s", took)
		}
		for _, o := range owners {
			if j, err := o.Job("bash-1"); err != nil || j.Status != Killed || *j.EndedBy != ByShutdown {
				t.Errorf("%+v, %v", j, err)
			}
		}
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			t.Errorf("the directory is there: %v", err)
		}
		if err := reg.Close(t.Context()); err != nil {
			t.Errorf("a second time: %v", err)
		}
	})
}

func TestRegistry_OwnerAfterClose(t *testing.T) {
	reg := newRegistry(t, Options{})
	if err := reg.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	o := reg.Owner("late")
	if _, err := o.Start(t.Context(), newFake().spec("bash")); !errors.Is(err, ErrOwnerEnded) {
		t.Error(err)
	}
	if err := o.Close(t.Context()); err != nil || len(o.List()) > 0 {
		t.Errorf("%v, %v", err, o.List())
	}
}

// F5-15: jobs that have ended hold no descriptors, though their output is kept.
func TestRegistry_EndedJobsHoldNoDescriptors(t *testing.T) {
	open := func() int {
		list, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Skipf("descriptors can't be counted: %v", err)
		}
		return len(list)
	}
	o := newRegistry(t, Options{}).Owner("a")
	before := open()
	for range 60 {
		f := newFake()
		j := run(t, o, "bash", f)
		_, _ = f.out.Stdout.Write([]byte("kept"))
		_, _, _ = o.Kill(j.ID, "TERM", "")
		ended(t, o, j.ID)
		if c, err := o.Read(j.ID, ReadOptions{}); err != nil || string(c.Stdout) != "kept" {
			t.Fatalf("%+v, %v", c, err)
		}
	}
	if after := open(); after != before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}

func TestRegistry_ForgetsOwnersThatHaveEnded(t *testing.T) {
	reg := newRegistry(t, Options{})
	for range 10 {
		o := reg.Owner("")
		run(t, o, "bash", newFake())
		if err := o.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := reg.Owner("").Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if len(reg.owners) > 0 {
		t.Errorf("%d owners are kept", len(reg.owners))
	}
}

func TestNew_Directory(t *testing.T) {
	base := t.TempDir()
	path := func(name string) string { return filepath.Join(base, name) }
	for name, mode := range map[string]os.FileMode{"private": 0o700, "readable": 0o750, "public": 0o777} {
		if err := errors.Join(os.Mkdir(path(name), 0o700), os.Chmod(path(name), mode)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Symlink(path("private"), path("link")), os.WriteFile(path("file"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	for name, ok := range map[string]bool{"new": true, "private": true, "readable": false, "public": false, "link": false, "file": false, "no/parent": false} {
		reg, err := New(Options{Dir: path(name)})
		if (err == nil) != ok {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil {
			continue
		}
		if info, err := os.Stat(path(name)); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
		if err := reg.Close(t.Context()); err != nil {
			t.Error(err)
		}
		// What was there before stays.
		if _, err := os.Stat(path(name)); os.IsNotExist(err) == (name == "private") {
			t.Errorf("%s after Close: %v", name, err)
		}
	}
	for _, opt := range []Options{{}, {Dir: path("x"), BytesPerJob: -1}, {Dir: path("x"), Grace: -1}} {
		if _, err := New(opt); code(err) != "INVALID_ARGS" {
			t.Errorf("%+v: %v", opt, err)
		}
	}
}

func TestErrors_HaveTheContractsForm(t *testing.T) {
	upper := regexp.MustCompile(`^[A-Z]+(_[A-Z]+)*$`)
	for _, err := range []error{ErrNotFound, ErrLimit, ErrEnded, ErrCancelled, ErrAborted, ErrOwnerEnded, ErrInvalid, ErrNoInput} {
		if !upper.MatchString(code(err)) || strings.HasSuffix(err.Error(), ".") || err.Error() != strings.ToLower(err.Error()) {
			t.Errorf("%q with code %q", err, code(err))
		}
	}
}
