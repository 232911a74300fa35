package jobs

import (
	"context"
	"io"
	"path/filepath"
	"slices"
	"sync"
	"testing"
)

// fake is a Producer whose processes are a number. It ends when the test says
// so, or on a signal that it does not ignore.
type fake struct {
	out     Output
	ctx     context.Context
	ignores []string // signals; KILL may be among them

	mu      sync.Mutex
	signals []string
	outcome Outcome
	over    bool
	ended   chan struct{}
	late    chan struct{} // if set, Wait waits for it, too
	input   []byte
	reads   chan struct{} // if set, Input waits for it
	eof     bool
}

func newFake(ignores ...string) *fake { return &fake{ignores: ignores, ended: make(chan struct{})} }

// start is a Spec.Start.
func (f *fake) start(ctx context.Context, out Output) (Producer, error) {
	f.ctx, f.out = ctx, out
	return f, nil
}

func (f *fake) spec(kind string) Spec {
	return Spec{Kind: kind, Label: "label of " + kind, ParentCallID: "call-1", Start: f.start}
}

func (f *fake) Signal(name string) error {
	f.mu.Lock()
	f.signals = append(f.signals, name)
	ignored := slices.Contains(f.ignores, name)
	f.mu.Unlock()
	if !ignored {
		f.end(Outcome{Signal: "SIG" + name})
	}
	return io.ErrClosedPipe // of no consequence
}

func (f *fake) end(o Outcome) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.over {
		f.over, f.outcome = true, o
		close(f.ended)
	}
}

func (f *fake) exit(code int) { f.end(Outcome{ExitCode: &code}) }

func (f *fake) living() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.over
}

func (f *fake) got() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.signals)
}

func (f *fake) PIDs() []int {
	if f.living() {
		return []int{4712, 4711}
	}
	return nil
}

func (f *fake) Input(ctx context.Context, b []byte, eof bool) (int, error) {
	if f.reads != nil {
		select {
		case <-f.reads:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.eof {
		return 0, ErrNoInput
	}
	f.input, f.eof = append(f.input, b...), eof
	return len(b), nil
}

func (f *fake) Wait() Outcome {
	<-f.ended
	if f.late != nil {
		<-f.late
	}
	return f.outcome
}

func newRegistry(t *testing.T, opt Options) *Registry {
	t.Helper()
	if opt.Dir == "" {
		opt.Dir = filepath.Join(t.TempDir(), "jobs")
	}
	reg, err := New(opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := reg.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return reg
}

// run starts f and fails the test when that fails.
func run(t *testing.T, o *Owner, kind string, f *fake) Job {
	t.Helper()
	j, err := o.Start(t.Context(), f.spec(kind))
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// ended waits for the job.
func ended(t *testing.T, o *Owner, id string) Job {
	t.Helper()
	list, err := o.Wait(context.Background(), []string{id}, false)
	if err != nil {
		t.Fatal(err)
	}
	return list[0]
}
