package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"
)

// Owner starts jobs and is the only one that they exist for. The ids of its
// jobs are counted for each kind by itself, bash-1, bash-2, so that they tell
// nothing about other owners.
type Owner struct {
	reg   *Registry
	name  string
	watch observers

	mu       sync.Mutex
	numbers  map[string]int // the last number of each kind
	byID     map[string]*job
	order    []*job            // those of byID, as they were started
	ended    []*job            // those of them that have ended, as they did
	starting map[*job]struct{} // those without an id, the ones that started in vain included
	live     int               // jobs that live or are being started
	pending  int               // those, and ended ones that observers are being told of
	closing  EndedBy           // why nothing can be started any more; "" while it can
	gone     bool              // output is not kept any more
	idle     chan struct{}     // closed when closing and pending is 0
}

// A job is what a Job is a snapshot of. What has no comment on its lock is
// set before the job has its id, and not changed after.
type job struct {
	owner    *Owner
	number   string // the id
	spec     Spec
	store    *store
	mark     uint64 // of its cursors
	producer Producer
	began    time.Time // by the monotonic clock
	started  time.Time // by the wall clock

	// ctx is what Spec.Start was given.
	ctx    context.Context
	cancel context.CancelCauseFunc

	input chan struct{} // holds one: Input in progress
	wake  chan struct{} // holds one: next or killAt has changed
	done  chan struct{} // closed when status is final

	// Under owner.mu:
	published bool
	status    Status
	by        EndedBy // the first that asked it to end, and at the end what ended it
	reason    string
	next      string    // the signal to send next; "" for none
	killAt    time.Time // when it is KILL
	outcome   Outcome
	endedAt   time.Time
	took      time.Duration
}

// Name is what was given to Registry.Owner.
func (o *Owner) Name() string { return o.name }

// Observe has fn called once for each job of o that ends from now on, until
// remove is called; what is said of Registry.Observe holds.
func (o *Owner) Observe(fn func(End)) (remove func()) { return o.watch.add(fn) }

// Start starts a job and returns it with its id. It returns when the starter
// has; the job goes on by itself, whatever becomes of ctx.
//
// Errors: ErrInvalid for the kind or a missing starter, ErrCancelled,
// ErrOwnerEnded and ErrLimit before the starter is called; the starter's
// own; ErrAborted and ErrOwnerEnded when it was in vain: what it had started
// is then sent TERM and KILL as by Kill, and Start returns when it has ended,
// or after Options.Teardown. With an error there is no job and no id used.
func (o *Owner) Start(ctx context.Context, spec Spec) (Job, error) {
	fail := func(err error) (Job, error) { return Job{}, fmt.Errorf("start job %q: %w", spec.Kind, err) }
	switch {
	case !validKind(spec.Kind):
		return fail(fmt.Errorf("%w: a kind is [a-z][a-z0-9_]{0,63}", ErrInvalid))
	case spec.Start == nil:
		return fail(fmt.Errorf("%w: there is no starter", ErrInvalid))
	case ctx.Err() != nil:
		return fail(fmt.Errorf("%w: %w", ErrCancelled, context.Cause(ctx)))
	}
	j, err := o.reserve(ctx, spec)
	if err != nil {
		return fail(err)
	}
	kept := false
	defer func() {
		if !kept { // the starter failed, or panicked
			o.unreserve(j)
		}
	}()
	uncancelled := context.AfterFunc(ctx, func() { j.cancel(context.Cause(ctx)) })
	producer, err := spec.Start(j.ctx, Output{Stdout: writer{j.store, stdout}, Stderr: writer{j.store, stderr}})
	// From here on ctx is nothing to the job. If it was done before, the
	// caller waits for a failure, since it can't be told an id any more.
	aborted := !uncancelled()
	if err == nil && producer == nil {
		err = errors.New("the starter returned neither a producer nor an error")
	}
	if err != nil {
		if aborted {
			err = fmt.Errorf("%w: %w", ErrAborted, err)
		}
		return fail(err)
	}
	kept = true

	o.mu.Lock()
	j.producer = producer
	switch {
	case o.closing != "":
		err = ErrOwnerEnded
	case aborted:
		err = ErrAborted
	default:
		delete(o.starting, j)
		o.publish(j)
		o.mu.Unlock()
		go j.follow()
		return j.snapshot(), nil
	}
	j.ask(ByKill, "", "TERM", o.reg.opt.Grace)
	o.mu.Unlock()
	go j.follow()
	limit := time.NewTimer(o.reg.opt.Teardown)
	defer limit.Stop()
	select {
	case <-j.done:
	case <-limit.C:
	}
	return fail(err)
}

// reserve makes a job without an id, which counts as a live one.
func (o *Owner) reserve(ctx context.Context, spec Spec) (*job, error) {
	now := time.Now()
	j := &job{
		owner: o, spec: spec, mark: rand.Uint64(),
		store: newStore(o.reg.dir, o.reg.dir.name(), o.reg.opt.BytesPerJob),
		began: now, started: wall(now),
		input: make(chan struct{}, 1), wake: make(chan struct{}, 1), done: make(chan struct{}),
		status: Running,
	}
	j.ctx, j.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.closing != "":
		j.cancel(ErrOwnerEnded)
		return nil, ErrOwnerEnded
	case o.live >= o.reg.opt.MaxLive:
		j.cancel(ErrLimit)
		return nil, fmt.Errorf("%w (%d)", ErrLimit, o.reg.opt.MaxLive)
	}
	o.live++
	o.pending++
	o.starting[j] = struct{}{}
	return j, nil
}

func (o *Owner) unreserve(j *job) {
	j.cancel(nil)
	j.store.seal() // whoever still has the writers gets an error
	j.store.discard()
	o.mu.Lock()
	delete(o.starting, j)
	o.live--
	o.mu.Unlock()
	o.settle()
}

// settle takes one from pending. With the last one after Close, the registry
// has nothing to wait for any more.
func (o *Owner) settle() {
	o.mu.Lock()
	o.pending--
	last := o.closing != "" && o.pending == 0
	o.mu.Unlock()
	if last { // once: nothing is started any more
		o.reg.remove(o)
		close(o.idle)
	}
}

// publish gives j its id. o.mu is held.
func (o *Owner) publish(j *job) {
	o.numbers[j.spec.Kind]++
	j.number = fmt.Sprintf("%s-%d", j.spec.Kind, o.numbers[j.spec.Kind])
	j.published = true
	o.byID[j.number] = j
	o.order = append(o.order, j)
}

// ask has the job end: by sig, after grace by KILL, or earlier if that was
// asked before. o.mu is held. It reports whether the job lives.
func (j *job) ask(by EndedBy, reason, sig string, grace time.Duration) bool {
	if j.status.Ended() {
		return false
	}
	killAt := time.Now().Add(grace)
	first := j.by == ""
	if first {
		j.by, j.reason, j.status, j.killAt = by, reason, Stopping, killAt
	}
	if killAt.Before(j.killAt) {
		j.killAt = killAt
	}
	if j.next != "KILL" {
		j.next = sig
	}
	select {
	case j.wake <- struct{}{}:
	default:
	}
	if first {
		go j.stop()
	}
	return true
}

// stop sends the signals that are asked for, and when the time has come KILL,
// again and again: what the job forks while it is being killed may slip
// through once.
func (j *job) stop() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-j.done:
			return
		case <-j.wake:
		case <-timer.C:
		}
		j.owner.mu.Lock()
		if j.status.Ended() {
			j.owner.mu.Unlock()
			return
		}
		sig := j.next
		j.next = ""
		if now := time.Now(); sig == "KILL" || !now.Before(j.killAt) {
			sig = "KILL"
			j.killAt = now.Add(j.owner.reg.opt.Grace)
		}
		timer.Reset(time.Until(j.killAt))
		j.owner.mu.Unlock()
		if sig == "KILL" {
			j.cancel(errKilled)
		}
		if sig != "" {
			_ = j.producer.Signal(sig)
		}
	}
}

var errKilled = errors.New("the job was killed")

// follow waits for the end, records it, and tells.
func (j *job) follow() {
	o := j.owner
	defer o.settle()
	out := j.producer.Wait()
	now := time.Now()
	j.store.seal()

	o.mu.Lock()
	j.outcome, j.endedAt, j.took = out, wall(now), now.Sub(j.began)
	if j.by == "" {
		j.by = ByExit
		j.status = Exited
		if out.Limit != "" {
			j.by, j.status = ByLimit, Killed
		}
	} else {
		j.status = Killed
	}
	if out.Err != nil {
		j.status = Failed
	}
	var forgotten *job
	discard := o.gone || !j.published
	o.live--
	delete(o.starting, j)
	if j.published {
		o.ended = append(o.ended, j)
		if len(o.ended) > o.reg.opt.MaxEnded {
			forgotten = o.ended[0]
			o.ended = slices.Delete(o.ended, 0, 1)
			delete(o.byID, forgotten.number)
			o.order = slices.DeleteFunc(o.order, func(k *job) bool { return k == forgotten })
		}
	}
	close(j.done)
	o.mu.Unlock()

	j.cancel(nil)
	if forgotten != nil {
		forgotten.store.discard()
	}
	if discard {
		j.store.discard()
	}
	if j.published {
		o.tell(j)
	}
}

func (o *Owner) tell(j *job) {
	e := End{
		Owner: o.name, Job: j.snapshot(), Err: j.outcome.Err, Reason: j.reason,
		Missed: j.store.missed(), Duration: j.took,
	}
	if *e.Job.EndedBy == ByLimit {
		e.Limit = j.outcome.Limit
	}
	o.watch.tell(e)
	o.reg.watch.tell(e)
	tell(o.reg.opt.Log, e)
}

// wall is t as records have it: without the monotonic clock, and no finer than
// a person reads.
func wall(t time.Time) time.Time { return t.UTC().Round(0).Truncate(time.Millisecond) }

func (j *job) snapshot() Job {
	pids := j.pids()
	j.owner.mu.Lock()
	defer j.owner.mu.Unlock()
	return j.record(pids)
}

// pids asks the producer, without owner.mu: it may be slow.
func (j *job) pids() []int {
	pids := []int{}
	select {
	case <-j.done:
	default:
		pids = append(pids, j.producer.PIDs()...)
		slices.Sort(pids)
	}
	return pids
}

// record is the job as it is now, but for its pids. owner.mu is held.
func (j *job) record(pids []int) Job {
	s := Job{
		ID: j.number, Kind: j.spec.Kind, Label: j.spec.Label, ParentCallID: j.spec.ParentCallID,
		Status: j.status, StartedAt: j.started, PIDs: pids,
		StdoutBytes: j.store.total[stdout].Load(), StderrBytes: j.store.total[stderr].Load(),
	}
	if !j.status.Ended() {
		return s
	}
	s.PIDs = []int{} // those were of before
	s.EndedBy, s.EndedAt = new(j.by), new(j.endedAt)
	if sig := j.outcome.Signal; sig != "" {
		s.Signal = new("SIG" + strings.TrimPrefix(sig, "SIG"))
	} else {
		s.ExitCode = copied(j.outcome.ExitCode)
	}
	return s
}

func (o *Owner) find(id string) (*job, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if j := o.byID[id]; j != nil {
		return j, nil
	}
	return nil, fmt.Errorf("job %q: %w", id, ErrNotFound)
}

// Job returns the job with the id. Errors: ErrNotFound.
func (o *Owner) Job(id string) (Job, error) {
	j, err := o.find(id)
	if err != nil {
		return Job{}, err
	}
	return j.snapshot(), nil
}

// List returns the live jobs and the ended ones that are remembered, in the
// order of their start. It is never nil.
func (o *Owner) List() []Job {
	o.mu.Lock()
	list := slices.Clone(o.order)
	o.mu.Unlock()
	pids := make([][]int, len(list))
	for i, j := range list {
		pids[i] = j.pids()
	}
	// All at one moment, so that the limits hold in every list.
	o.mu.Lock()
	defer o.mu.Unlock()
	out := make([]Job, 0, len(list))
	for i, j := range list {
		if o.byID[j.number] == j {
			out = append(out, j.record(pids[i]))
		}
	}
	return out
}

func snapshots(list []*job) []Job {
	out := make([]Job, len(list))
	for i, j := range list {
		out[i] = j.snapshot()
	}
	return out
}

// Wait returns when all of the jobs, or with any at least one, have ended,
// and what they are then, in the order of ids. Without ids it is about those
// that live now. When ctx is done before, the error is its cause, and the
// jobs are what they are; they go on.
//
// Errors: ErrNotFound, at once, if one of ids is.
func (o *Owner) Wait(ctx context.Context, ids []string, any bool) ([]Job, error) {
	var list []*job
	if len(ids) == 0 {
		o.mu.Lock()
		for _, j := range o.order {
			if !j.status.Ended() {
				list = append(list, j)
			}
		}
		o.mu.Unlock()
	}
	for _, id := range ids {
		j, err := o.find(id)
		if err != nil {
			return nil, err
		}
		list = append(list, j)
	}
	err := await(ctx, list, any)
	return snapshots(list), err
}

func await(ctx context.Context, list []*job, any bool) error {
	if len(list) == 0 {
		return nil
	}
	if !any {
		for _, j := range list {
			select {
			case <-j.done:
			default:
				select {
				case <-j.done:
				case <-ctx.Done():
					return context.Cause(ctx)
				}
			}
		}
		return nil
	}
	for _, j := range list {
		select {
		case <-j.done:
			return nil
		default:
		}
	}
	// One goroutine for each job, all of which end with this call.
	one := make(chan struct{}, len(list))
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	for _, j := range list {
		go func() {
			select {
			case <-j.done:
				one <- struct{}{}
			case <-ctx.Done():
			}
		}()
	}
	select {
	case <-one:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Kill asks the job to end by a signal, "TERM" or "SIGTERM" alike, "" for
// TERM, and after Options.Grace by KILL. It returns at once, with the job as
// it is then: stopping. requested is false when the job has ended already, which is no
// error. A job that is stopping gets the signal in addition and no more time.
//
// Errors: ErrNotFound; ErrInvalid for a signal that is not one of HUP, INT,
// QUIT, ABRT, KILL, USR1, USR2, PIPE, ALRM, TERM.
func (o *Owner) Kill(id, signal, reason string) (job Job, requested bool, err error) {
	name, ok := signalName(cmp.Or(signal, "TERM"))
	if !ok {
		return Job{}, false, fmt.Errorf("kill job %q: %w: signal %q; use one of %s", id, ErrInvalid, signal, strings.Join(signalNames, " "))
	}
	j, err := o.find(id)
	if err != nil {
		return Job{}, false, err
	}
	pids := j.pids()
	o.mu.Lock()
	defer o.mu.Unlock()
	requested = j.ask(ByKill, reason, name, o.reg.opt.Grace)
	return j.record(pids), requested, nil
}

// Input gives b to the job's standard input and then, with eof, closes it. It
// blocks until the job has taken all; n says how many bytes it took in any
// case. Calls for one job take their turns.
//
// Errors: ErrNotFound; ErrEnded; ErrNoInput from a job that takes none; the
// cause of ctx when it is done before.
func (o *Owner) Input(ctx context.Context, id string, b []byte, eof bool) (job Job, n int, err error) {
	j, err := o.find(id)
	if err != nil {
		return Job{}, 0, err
	}
	n, err = j.give(ctx, b, eof)
	if err != nil {
		err = fmt.Errorf("input to job %q: %w", id, err)
	}
	return j.snapshot(), n, err
}

func (j *job) give(ctx context.Context, b []byte, eof bool) (int, error) {
	select {
	case j.input <- struct{}{}:
	case <-j.done:
		return 0, ErrEnded
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	defer func() { <-j.input }()
	select {
	case <-j.done:
		return 0, ErrEnded
	default:
	}
	both, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(j.ctx, func() { cancel(ErrEnded) })()
	n, err := j.producer.Input(both, b, eof)
	switch {
	case err == nil:
		return n, nil
	case ctx.Err() != nil:
		return n, context.Cause(ctx)
	case j.ctx.Err() != nil && !errors.Is(err, ErrNoInput):
		return n, ErrEnded
	}
	return n, err
}

// Close is the owner's end. Nothing is started any more; all jobs are sent
// TERM in parallel, what is left after the grace KILL, and when all have ended
// and observers have been told, their output is removed. Records can still be
// looked at. EndedBy is ByOwner for jobs that nobody had asked to end before.
//
// It waits for at most Options.Teardown, and as long as ctx allows; its error
// then names the jobs that live. They are still being killed, and what comes
// of their output is dropped.
func (o *Owner) Close(ctx context.Context) error { return o.end(ctx, ByOwner) }

func (o *Owner) end(ctx context.Context, by EndedBy) error {
	teardown := o.reg.opt.Teardown
	limit := time.NewTimer(teardown)
	defer limit.Stop()

	o.mu.Lock()
	if o.closing == "" {
		o.closing = by
		if o.pending == 0 {
			close(o.idle)
			defer o.reg.remove(o)
		}
	}
	grace := min(o.reg.opt.Grace, teardown/2)
	for j := range o.starting {
		j.cancel(ErrOwnerEnded)
		if j.by != "" {
			j.ask(by, "", "TERM", grace) // in vain already
		}
	}
	for _, j := range o.order {
		j.ask(by, "", "TERM", grace)
	}
	o.mu.Unlock()

	var why error
	select {
	case <-o.idle:
	case <-limit.C:
		why = fmt.Errorf("not within %s", teardown)
	case <-ctx.Done():
		why = context.Cause(ctx)
	}
	select {
	case <-o.idle:
		why = nil // both at once: it has been done
	default:
	}

	o.mu.Lock()
	o.gone = true
	all := slices.Clone(o.order)
	var alive []string
	for _, j := range all {
		if !j.status.Ended() {
			alive = append(alive, j.number)
		}
	}
	starting := len(o.starting)
	o.mu.Unlock()
	for _, j := range all {
		j.store.discard()
	}
	switch {
	case why == nil:
		return nil
	case len(alive) > 0:
		return fmt.Errorf("end jobs %s: %w", strings.Join(alive, " "), why)
	case starting > 0:
		return fmt.Errorf("end jobs: %d are still being started: %w", starting, why)
	}
	return fmt.Errorf("tell observers of ended jobs: %w", why)
}
