package approval

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dshx/dshx/pipeline"
)

// answers is an answerer as a function.
type answers func(ctx context.Context, q Question) (pipeline.Answer, error)

func (f answers) Ask(ctx context.Context, q Question) (pipeline.Answer, error) { return f(ctx, q) }

// record is what an observer was told.
type record struct {
	mu    sync.Mutex
	lines []string
}

func (r *record) Asked(q Question) { r.add(q.ID + " " + q.Reason) }
func (r *record) Answered(q Question, a pipeline.Answer) {
	r.add(q.ID + " " + a.String())
}
func (r *record) add(s string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, s)
}

// F6-18, F7-6: whatever an answerer does, there is one outcome, and where there
// is no answer that is one, it is unavailable: at once, or when the time is over.
func TestF7_6_Service_OneOutcomeWhatever(t *testing.T) {
	just := func(a pipeline.Answer) answers {
		return func(context.Context, Question) (pipeline.Answer, error) { return a, nil }
	}
	wait := answers(func(ctx context.Context, _ Question) (pipeline.Answer, error) {
		<-ctx.Done()
		return pipeline.AllowedOnce, nil // too late
	})
	for _, tt := range []struct {
		name     string
		policy   Policy
		answerer Answerer
		cancel   bool // the call, after a second
		leave    bool // the answerer, after a second
		want     pipeline.Answer
		after    time.Duration
	}{
		{"allowed", Ask, just(pipeline.AllowedOnce), false, false, pipeline.AllowedOnce, 0},
		{"rejected", Ask, just(pipeline.Rejected), false, false, pipeline.Rejected, 0},
		{"closed", Ask, just(pipeline.Dismissed), false, false, pipeline.Dismissed, 0},
		{"gives up", Ask, just(pipeline.Unavailable), false, false, pipeline.Unavailable, 0},
		{"nonsense", Ask, just(99), false, false, pipeline.Unavailable, 0},
		{"an error with an answer", Ask, answers(func(context.Context, Question) (pipeline.Answer, error) {
			return pipeline.AllowedOnce, errors.New("no")
		}), false, false, pipeline.Unavailable, 0},
		{"panics", Ask, answers(func(context.Context, Question) (pipeline.Answer, error) { panic("no") }), false, false, pipeline.Unavailable, 0},
		{"ends its goroutine", Ask, answers(func(context.Context, Question) (pipeline.Answer, error) {
			runtime.Goexit()
			return pipeline.AllowedOnce, nil
		}), false, false, pipeline.Unavailable, 0},
		{"nobody", Ask, nil, false, false, pipeline.Unavailable, 0},
		{"never answers", Ask, wait, false, false, pipeline.Unavailable, time.Hour},
		{"cancelled", Ask, wait, true, false, pipeline.Dismissed, time.Second},
		{"leaves", Ask, wait, false, true, pipeline.Unavailable, time.Second},
		{"never", Never, just(pipeline.AllowedOnce), false, false, pipeline.Rejected, 0},
		{"no policy", "", just(pipeline.AllowedOnce), false, false, pipeline.Rejected, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				s := New(tt.policy, time.Hour)
				leave := func() {}
				if tt.answerer != nil {
					leave = s.Use(tt.answerer)
				}
				var r record
				s.Observe(&r)
				s.Observe(panics{})
				if tt.cancel {
					time.AfterFunc(time.Second, cancel)
				}
				if tt.leave {
					time.AfterFunc(time.Second, leave)
				}
				began := time.Now()
				if a := s.Approve(ctx, pipeline.Question{Reason: "r"}); a != tt.want {
					t.Errorf("%v, want %v", a, tt.want)
				}
				if took := time.Since(began); took != tt.after {
					t.Errorf("took %v, want %v", took, tt.after)
				}
				if want := []string{"ap-1 r", "ap-1 " + tt.want.String()}; !slices.Equal(r.lines, want) {
					t.Errorf("observed %q, want %q", r.lines, want)
				}
				leave()
				if a := s.Approve(t.Context(), pipeline.Question{}); tt.policy == Ask && a != pipeline.Unavailable {
					t.Errorf("after the answerer has left: %v", a)
				}
			})
		})
	}
}

type panics struct{}

func (panics) Asked(Question)                     { panic("asked") }
func (panics) Answered(Question, pipeline.Answer) { panic("answered") }

// Under never nobody is asked, not even in vain.
func TestService_NeverAsksNobody(t *testing.T) {
	s := New(Never, 0)
	defer s.Use(answers(func(context.Context, Question) (pipeline.Answer, error) {
		t.Error("asked")
		return pipeline.AllowedOnce, nil
	}))()
	if a := s.Approve(t.Context(), pipeline.Question{}); a != pipeline.Rejected {
		t.Error(a)
	}
	s.SetPolicy(Ask)
	defer s.Use(answers(func(context.Context, Question) (pipeline.Answer, error) { return pipeline.AllowedOnce, nil }))()
	if a := s.Approve(t.Context(), pipeline.Question{}); a != pipeline.AllowedOnce {
		t.Errorf("control: %v", a)
	}
	s.SetPolicy(Never)
	if a := s.Approve(t.Context(), pipeline.Question{}); a != pipeline.Rejected {
		t.Error(a)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	s.SetPolicy(Ask)
	if a := s.Approve(ended, pipeline.Question{}); a != pipeline.Dismissed {
		t.Errorf("of a call that has ended: %v", a)
	}
}

// The answerer is told that a question is withdrawn, by its context and by hook.
func TestService_Withdraws(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := withdrawn{make(chan string, 2)}
		s := New(Ask, 0)
		defer s.Use(w)()
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if a := s.Approve(ctx, pipeline.Question{}); a != pipeline.Dismissed {
			t.Error(a)
		}
		got := []string{<-w.told, <-w.told}
		slices.Sort(got)
		if !slices.Equal(got, []string{"context ap-1", "hook ap-1"}) {
			t.Errorf("told %q", got)
		}
	})
}

type withdrawn struct{ told chan string }

func (w withdrawn) Ask(ctx context.Context, q Question) (pipeline.Answer, error) {
	<-ctx.Done()
	w.told <- "context " + q.ID
	return pipeline.Unavailable, nil
}

func (w withdrawn) Withdraw(q Question) { w.told <- "hook " + q.ID }

// An answerer that never returns holds nobody.
func TestService_StuckAnswerer(t *testing.T) {
	stuck := make(chan struct{})
	defer close(stuck)
	s := New(Ask, 0)
	defer s.Use(answers(func(context.Context, Question) (pipeline.Answer, error) { <-stuck; return pipeline.AllowedOnce, nil }))()
	ctx, cancel := context.WithCancel(t.Context())
	got := make(chan pipeline.Answer)
	go func() { got <- s.Approve(ctx, pipeline.Question{}) }()
	cancel()
	if a := <-got; a != pipeline.Dismissed {
		t.Error(a)
	}
}

func TestBroker(t *testing.T) {
	for _, tt := range []struct {
		name   string
		answer func(b *Broker, id string, cancel func())
		want   pipeline.Answer
	}{
		{"allowed", func(b *Broker, id string, _ func()) { b.Answer(id, "allowed-once") }, pipeline.AllowedOnce},
		{"rejected", func(b *Broker, id string, _ func()) { b.Answer(id, "rejected") }, pipeline.Rejected},
		{"always is no outcome", func(b *Broker, id string, _ func()) { b.Answer(id, "allowed-always") }, pipeline.Unavailable},
		{"nor is cancelled", func(b *Broker, id string, _ func()) { b.Answer(id, "cancelled") }, pipeline.Unavailable},
		{"another question's", func(b *Broker, _ string, _ func()) {
			if b.Answer("ap-99", "allowed-once") {
				t.Error("an unknown question was answered")
			}
		}, pipeline.Unavailable},
		{"rejected, then allowed", func(b *Broker, id string, _ func()) {
			b.Answer(id, "rejected")
			if b.Answer(id, "allowed-once") {
				t.Error("a second answer was taken")
			}
		}, pipeline.Rejected},
		{"cancelled", func(_ *Broker, _ string, cancel func()) { cancel() }, pipeline.Dismissed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				asked := make(chan Question, 1)
				b := NewBroker(func(q Question) { asked <- q })
				s := New(Ask, time.Hour)
				defer s.Use(b)()
				got := make(chan pipeline.Answer, 1)
				go func() { got <- s.Approve(ctx, pipeline.Question{Reason: "r"}) }()
				q := <-asked
				if q.ID != "ap-1" || q.Reason != "r" {
					t.Errorf("asked %+v", q)
				}
				tt.answer(b, q.ID, cancel)
				if g := <-got; g != tt.want {
					t.Errorf("got %v, want %v", g, tt.want)
				}
				synctest.Wait()
				if b.Answer(q.ID, "allowed-once") {
					t.Error("an answer was taken after the end")
				}
			})
		})
	}
}
