package jobs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Options configure a Registry. The zero value of each but Dir is its default.
type Options struct {
	// Dir holds the jobs' output, in files of mode 0600 with names that no
	// two registries share. It is made with mode 0700; one that is there must
	// be the user's own and nobody else's to enter. Its parent must exist.
	Dir string
	// BytesPerJob bounds a job's file, which has both its streams: 256 MiB.
	// All that an owner can take of the disk is MaxLive + MaxEnded times that.
	BytesPerJob int64
	// MaxLive is how many jobs of an owner may live at once, those that are
	// being started included: 32.
	MaxLive int
	// MaxEnded is how many ended jobs of an owner are remembered, with their
	// output; the one that ended first is forgotten first: 100.
	MaxEnded int
	// Grace is how long a job has between the signal and KILL: 5 s.
	Grace time.Duration
	// Teardown is how long Close waits for jobs to end: 10 s. Those that do
	// not end when asked are sent KILL after Grace, or half of Teardown if
	// that is less.
	Teardown time.Duration
	// Log is an observer of all jobs that is told after all others, of several at
	// a time where several end at once; may be nil.
	Log func(End)
}

const (
	defaultBytesPerJob = 256 << 20
	defaultMaxLive     = 32
	defaultMaxEnded    = 100
	defaultGrace       = 5 * time.Second
	defaultTeardown    = 10 * time.Second
)

// Registry has the owners and their jobs. Its methods are safe for
// concurrent use, and so are those of Owner.
type Registry struct {
	opt   Options
	dir   *directory
	watch observers

	mu     sync.Mutex
	owners map[*Owner]struct{}
	closed bool
}

// New returns a registry whose output goes to opt.Dir.
func New(opt Options) (*Registry, error) {
	if opt.Dir == "" || opt.BytesPerJob < 0 || opt.MaxLive < 0 || opt.MaxEnded < 0 || opt.Grace < 0 || opt.Teardown < 0 {
		return nil, fmt.Errorf("make registry of jobs: %w: no directory, or a negative bound", ErrInvalid)
	}
	defaultTo(&opt.BytesPerJob, defaultBytesPerJob)
	defaultTo(&opt.MaxLive, defaultMaxLive)
	defaultTo(&opt.MaxEnded, defaultMaxEnded)
	defaultTo(&opt.Grace, defaultGrace)
	defaultTo(&opt.Teardown, defaultTeardown)
	dir, err := openDirectory(opt.Dir)
	if err != nil {
		return nil, fmt.Errorf("make registry of jobs: %w", err)
	}
	return &Registry{opt: opt, dir: dir, owners: map[*Owner]struct{}{}}, nil
}

func defaultTo[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

// Owner returns a new owner. The name is for observers, and need not be
// unique. An owner of a registry that is closed can start nothing.
func (r *Registry) Owner(name string) *Owner {
	o := &Owner{
		reg: r, name: name,
		numbers: map[string]int{}, byID: map[string]*job{}, starting: map[*job]struct{}{},
		idle: make(chan struct{}),
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		o.closing = ByShutdown
		close(o.idle)
		return o
	}
	r.owners[o] = struct{}{}
	return o
}

func (r *Registry) remove(o *Owner) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.owners, o)
}

// Observe has fn called once for each job of any owner that ends from now on,
// after the owner's own observers, until remove is called. fn may be called
// by several goroutines at once, for different jobs. What it panics with is
// dropped; Close of the owner waits for it, so it must not call Close.
func (r *Registry) Observe(fn func(End)) (remove func()) { return r.watch.add(fn) }

// Close ends all jobs of all owners in parallel, as Owner.Close does, and
// removes all output, and the directory if New made it. EndedBy is
// ByShutdown for jobs that nobody had asked to end before.
func (r *Registry) Close(ctx context.Context) error {
	r.mu.Lock()
	r.closed = true
	owners := make([]*Owner, 0, len(r.owners))
	for o := range r.owners {
		owners = append(owners, o)
	}
	r.mu.Unlock()
	errs := make([]error, len(owners))
	var wg sync.WaitGroup
	for i, o := range owners {
		wg.Go(func() { errs[i] = o.end(ctx, ByShutdown) })
	}
	wg.Wait()
	return errors.Join(append(errs, r.dir.end())...)
}

// observers is a list of callbacks, told in the order of their registration.
type observers struct {
	mu   sync.Mutex
	list []*func(End)
}

func (w *observers) add(fn func(End)) (remove func()) {
	p := &fn
	w.mu.Lock()
	defer w.mu.Unlock()
	w.list = append(slices.Clip(w.list), p)
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.list = slices.DeleteFunc(slices.Clone(w.list), func(q *func(End)) bool { return p == q })
	}
}

func (w *observers) tell(e End) {
	w.mu.Lock()
	list := w.list // never changed in place
	w.mu.Unlock()
	for _, fn := range list {
		tell(*fn, e)
	}
}

// tell calls fn, and keeps its panic from the others and from the job.
func tell(fn func(End), e End) {
	if fn == nil {
		return
	}
	defer func() { _ = recover() }()
	// A copy for each, since what the pointers and the slice point to could
	// be changed.
	e.Job = e.Job.clone()
	fn(e)
}

func (j Job) clone() Job {
	j.ExitCode, j.Signal, j.EndedBy, j.EndedAt = copied(j.ExitCode), copied(j.Signal), copied(j.EndedBy), copied(j.EndedAt)
	j.PIDs = append(make([]int, 0, len(j.PIDs)), j.PIDs...)
	return j
}

func copied[T any](p *T) *T {
	if p == nil {
		return nil
	}
	return new(*p)
}
