package bash

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/dshx/dshx/internal/result"
	"github.com/dshx/dshx/jobs"
	"github.com/dshx/dshx/pipeline"
	"github.com/dshx/dshx/sandbox"
	"github.com/dshx/dshx/sandboxpolicy"
	"github.com/dshx/dshx/tools/permission"
)

// endingTime is how long processes that outlive the shell may take to end
// before they are a job: a logger at the end of a process substitution does.
const endingTime = 100 * time.Millisecond

// Why a command is being ended.
const (
	byItself int32 = iota
	byTimeout
	byCancel
)

// A run is a call in the foreground.
type run struct {
	*process
	call   *pipeline.Call
	out    *result.Output
	chunks chan chunk
	gone   chan struct{} // closed when nobody takes chunks any more
	why    atomic.Int32
}

// A chunk is what a pump has read; taken is closed when its bytes are done with.
type chunk struct {
	from  *source
	b     []byte
	taken chan<- struct{}
}

// foreground runs p to its end, and returns what there is to tell of it. err
// is nil, a *pipeline.Partial, or why the shell could not be followed.
func (t *tool) foreground(ctx context.Context, a *Args, p *process, timeout time.Duration, call *pipeline.Call) (v *result.Ended, err error) {
	r := &run{process: p, call: call, chunks: make(chan chunk), gone: make(chan struct{})}
	r.out = result.NewOutput(t.spill(p.scope, call))
	defer r.out.Close()
	settled := false // what becomes of the processes
	defer func() {
		close(r.gone)
		if !settled { // the receiver of a report panicked
			p.endAll()
			<-p.ended
			p.close()
		}
	}()
	stopped := r.pumpAll()
	watched := make(chan struct{})
	go func() { defer close(watched); r.watch(ctx, timeout) }()
	r.copyUntil(p.ended)
	r.copyUntil(watched) // until the tree is ended, if it is being ended
	for _, s := range p.sources {
		s.halt()
	}
	r.copyUntil(stopped)

	var left *leftBehind
	if r.why.Load() != byItself || p.err != nil {
		p.endAll()
		r.takeRest()
	} else {
		left = t.rest(ctx, a, r)
	}
	settled = true
	if left == nil || left.job == nil {
		defer p.close()
		for _, s := range p.sources {
			r.pass(s, s.hold)
		}
	}
	if p.err != nil {
		return nil, p.err
	}
	v = r.value(timeout, left)
	if r.why.Load() == byCancel || ctx.Err() != nil && left != nil && left.job == nil {
		return v, &pipeline.Partial{}
	}
	// Not for a cancelled call, whose end is waited for: it walks the workspace.
	v.Sandbox.Notices = append(v.Sandbox.Notices, clean(p.scope.NewGitDirs(p.cmd.State.Started))...)
	return v, nil
}

// watch ends the tree when the call is cancelled or its time is over, and
// returns when the tree or the shell has ended. Nothing that reads the output
// can hold it up.
func (r *run) watch(ctx context.Context, timeout time.Duration) {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	why := byTimeout
	select {
	case <-r.ended:
		return
	case <-timer.C:
	case <-ctx.Done():
		why = byCancel
	}
	select {
	case <-r.ended:
		return // both at once: it has ended by itself
	default:
	}
	r.why.Store(why)
	r.cmd.EndTree()
}

// pumpAll reads all sources until they end or are halted; done is closed then.
func (r *run) pumpAll() (done <-chan struct{}) {
	all := make(chan struct{})
	left := int32(len(r.sources))
	for _, s := range r.sources {
		go func() {
			s.pump(func(b []byte) {
				taken := make(chan struct{})
				select {
				case r.chunks <- chunk{s, b, taken}:
				case <-r.gone:
					return
				}
				select {
				case <-taken:
				case <-r.gone:
				}
			})
			if atomic.AddInt32(&left, -1) == 0 {
				close(all)
			}
		}()
	}
	return all
}

// copyUntil takes what the pumps read until done is closed. All of it is done
// by the body's goroutine, as pipeline.Request.Progress promises.
func (r *run) copyUntil(done <-chan struct{}) {
	for {
		select {
		case c := <-r.chunks:
			r.take(c.from, c.b)
			close(c.taken)
		case <-done:
			return
		}
	}
}

// take keeps and reports output, characters whole.
func (r *run) take(s *source, b []byte) { r.pass(s, s.whole(b)) }

func (r *run) pass(s *source, b []byte) {
	if len(b) == 0 {
		return
	}
	to := r.out.Stdout
	if s.name == "stderr" {
		to = r.out.Stderr
	}
	_, _ = to.Write(b) // never fails
	r.call.Report(pipeline.Progress{Stream: s.name, Data: b})
}

// takeRest takes what can be read without waiting.
func (r *run) takeRest() {
	for _, s := range r.sources {
		s.drain(-1, func(b []byte) { r.take(s, b) })
	}
}

// leftBehind is what became of processes that outlived the shell.
type leftBehind struct {
	pids []int
	job  *jobs.Job
	why  error // why there is no job: they were ended
}

// rest finds out what the shell left behind, and makes a job of it.
func (t *tool) rest(ctx context.Context, a *Args, r *run) *leftBehind {
	// What was printed before the shell's end is the call's output; what comes
	// from here on is, too, if nothing lives on.
	for _, s := range r.sources {
		s.drain(s.pending(), func(b []byte) { r.take(s, b) })
	}
	soon, cancel := context.WithTimeout(context.Background(), endingTime)
	err := r.cmd.AwaitTree(soon)
	cancel()
	var pids []int
	if err != nil {
		if pids = r.pids(); len(pids) == 0 { // at the last moment
			r.endAll()
		}
	}
	if len(pids) == 0 {
		r.takeRest()
		return nil
	}
	job, err := t.o.Jobs(r.call).Start(ctx, jobs.Spec{
		Kind: kind, Label: label(a), ParentCallID: r.call.ID(),
		Start: func(_ context.Context, out jobs.Output) (jobs.Producer, error) {
			return &producer{process: r.process, out: out}, nil
		},
	})
	if err == nil {
		return &leftBehind{pids: pids, job: &job}
	}
	if errors.Is(err, jobs.ErrAborted) || errors.Is(err, jobs.ErrOwnerEnded) {
		// It may have been a job for a moment, which has ended all and closed
		// the streams.
		r.endAll()
	} else {
		r.endAll()
		r.takeRest()
	}
	return &leftBehind{pids: pids, why: err}
}

// value is what there is to tell of a shell that has ended.
func (r *run) value(timeout time.Duration, left *leftBehind) *result.Ended {
	st, p := r.cmd.State, r.scope.Policy()
	ms := timeout.Milliseconds()
	v := &result.Ended{Cwd: valid(r.cwd), TimeoutMs: &ms, DurationMs: st.Duration.Milliseconds(), TimedOut: r.why.Load() == byTimeout}
	v.ExitCode, v.Signal = result.Ending(st)
	r.out.Fill(v)
	v.Sandbox = result.Sandbox{Enforcement: r.scope.Enforcement(), Denials: r.cmd.Denials(), Notices: clean(r.scope.Notices())}
	said := "" // by a command that failed
	if st.Signal != 0 || st.ExitCode != 0 || v.TimedOut {
		told := r.out.Stderr
		if len(r.sources) == 1 {
			told = r.out.Stdout // a terminal has both
		}
		said = string(told.Bytes())
		v.Sandbox.Denials = append(v.Sandbox.Denials, sandbox.Attribute(p, r.cwd, said, v.Sandbox.Denials)...)
	}
	v.Limit = result.LimitOf(st, p.Limits(), said)
	for i := range v.Sandbox.Denials {
		d := &v.Sandbox.Denials[i]
		ops := []sandboxpolicy.Op{d.Operation}
		if d.Evidence == "errno+path" {
			ops = append(ops, sandboxpolicy.OpDelete) // how it was to be changed isn't known
		}
		d.Remedy = permission.WithOffer(d.Remedy, permission.Offer(p, ops, d.Resolved, d.Target, d.Rule))
		d.Target, d.Resolved, d.Rule.Text, d.Remedy = valid(d.Target), valid(d.Resolved), valid(d.Rule.Text), valid(d.Remedy)
	}
	if v.Limit != nil {
		v.Sandbox.Notices = append(v.Sandbox.Notices, result.LimitNotice(st, v.Limit))
	}
	if left != nil {
		v.LeftBehind = &result.LeftBehind{Pids: left.pids}
		if left.job != nil {
			v.LeftBehind.JobID = &left.job.ID
		} else {
			v.Sandbox.Notices = append(v.Sandbox.Notices, sandboxpolicy.Notice{Kind: "limit",
				Text: "the processes that the command left running were ended: " + left.why.Error()})
		}
	}
	return v
}

// clean makes valid UTF-8 of what may name files.
func clean(list []sandboxpolicy.Notice) []sandboxpolicy.Notice {
	out := make([]sandboxpolicy.Notice, len(list))
	for i, n := range list {
		out[i] = sandboxpolicy.Notice{Kind: n.Kind, Path: valid(n.Path), Text: valid(n.Text)}
	}
	return out
}
