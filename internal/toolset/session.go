package toolset

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/dshx/dshx/approval"
	"github.com/dshx/dshx/jobs"
	"github.com/dshx/dshx/pipeline"
	"github.com/dshx/dshx/sandbox"
	"github.com/dshx/dshx/sandboxpolicy"
	"github.com/dshx/dshx/sessionlog"
	"github.com/dshx/dshx/tools/bash"
	"github.com/dshx/dshx/tools/permission"
)

// Session is one caller's: a connection. Its calls are made in Scope, where its
// tools can be listed before any policy is in force; calls wait for that. It has
// observations, jobs, a private TMPDIR and a place for long results of its own,
// and a policy, which a person may switch.
type Session struct {
	Scope *pipeline.Scope
	// Approvals is the scope's approver. A front door has its answerer used; where
	// a call's policy doesn't ask, it isn't.
	Approvals *approval.Service

	host   *Host
	turn   chan struct{} // full while a policy is being put in force, and from the end on
	opened chan struct{} // closed when the first has been, or can't be
	begun  chan struct{} // closed when owner and spills are set, or can't be
	ending chan struct{} // closed when the session ends
	close  func() error
	end    func() error // of the jobs

	// Set before begun is closed.
	owner  *jobs.Owner
	spills string

	mu       sync.Mutex
	request  sandboxpolicy.Request
	current  *force // what a call gets that begins now; nil: err says why not
	err      error
	all      map[*force]struct{}
	closed   bool
	checks   []*func(*sandboxpolicy.Policy) error
	switches []*func(Switch)
	ends     []*func(jobs.End)
	rec      atomic.Pointer[sessionlog.Recorder]
	letGo    sync.WaitGroup // policies that are being ended
	failed   []error        // by those
}

// force is a policy in force, for as long as somebody needs it.
type force struct {
	session     *Session
	scope       *sandbox.Scope
	request     sandboxpolicy.Request
	permissions pipeline.PreExecute
	rules       pipeline.PreExecute
	denied      pipeline.Guard // by rules

	// users are the session, while calls that begin get it, the calls that
	// did, and what they have running. Guarded by session.mu.
	users int
}

// errEnded is the error of what comes too late.
var errEnded = &pipeline.Error{Code: pipeline.CodeCancelled, Message: "the session of the call has ended"}

// Session begins a session; name is for observers of jobs. It returns before a
// policy is in force: see Opened. An error is a fault of the tools' definitions.
func (h *Host) Session(name string) (*Session, error) {
	s := &Session{
		host: h, turn: make(chan struct{}, 1), opened: make(chan struct{}), begun: make(chan struct{}), ending: make(chan struct{}),
		request: h.request, all: map[*force]struct{}{},
	}
	s.close = sync.OnceValue(s.finish)
	s.end = sync.OnceValue(s.endJobs)
	h.mu.Lock()
	h.number++
	number := strconv.Itoa(h.number)
	s.Scope = h.root.Child(name)
	s.closed = h.closed
	if !h.closed {
		h.sessions[s] = struct{}{}
	}
	h.mu.Unlock()
	s.Scope.Admit("session", s.admit)
	s.Approvals = approval.New(approval.Ask, 0)
	s.Scope.SetApprover(s.Approvals)
	s.turn <- struct{}{}
	go s.open(name, number)
	// Beside it, as both take their time.
	if err := h.define(); err != nil {
		_ = s.Close()
		return nil, err
	}
	return s, nil
}

// open puts the first policy in force.
func (s *Session) open(name, number string) {
	defer func() { <-s.turn }()
	defer close(s.opened)
	g := s.host.prepare()
	err := g.err
	if err == nil {
		s.spills = filepath.Join(g.kept.Path(), number)
		if err = os.Mkdir(s.spills, 0o700); err != nil {
			err = &sandbox.UnavailableError{Reason: err.Error()}
		}
	}
	if err == nil {
		s.owner = g.jobs.Owner(name)
		s.owner.Observe(s.jobEnded)
	}
	close(s.begun)
	if err == nil {
		err = s.put(s.request)
	}
	if err != nil {
		s.mu.Lock()
		s.err = err
		s.mu.Unlock()
		return
	}
	s.host.sweep(g)
}

// put puts the policy of a request in force, for the calls that begin from then
// on. Whoever calls it has the turn.
func (s *Session) put(req sandboxpolicy.Request) error {
	in := req
	// What was too long for a result may be read by whatever runs here.
	in.Read = append(slices.Clone(req.Read), s.spills)
	scope, err := sandbox.Open(in)
	if err != nil {
		return err
	}
	if err := s.check(scope); err != nil {
		_ = scope.Close()
		return err
	}
	p := scope.Policy()
	f := &force{session: s, scope: scope, request: in, permissions: permission.Listener(p, in), rules: bash.RuleListener(p), denied: bash.RuleGuard(p), users: 1}
	s.mu.Lock()
	old := s.current
	s.request, s.current, s.err = req, f, nil
	s.all[f] = struct{}{}
	s.mu.Unlock()
	if old != nil {
		old.release()
	}
	return nil
}

// check asks everybody who may refuse a policy, before it holds for any call.
func (s *Session) check(scope *sandbox.Scope) error {
	if s.host.options.RequireFull {
		if err := scope.Enforcement().RequireFull(); err != nil {
			return err
		}
	}
	s.mu.Lock()
	checks := s.checks
	s.mu.Unlock()
	for _, f := range checks {
		err := errors.New("whether the policy may be put in force could not be found out")
		contained(func() { err = (*f)(scope.Policy()) })
		if err != nil {
			return err
		}
	}
	return nil
}

// admit gives a call the policy that is in force now, which it keeps.
func (s *Session) admit(ctx context.Context, c *pipeline.Call) (leave func(), err error) {
	if err := s.Opened(ctx); err != nil && ctx.Err() != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, errEnded
	case s.current == nil:
		return nil, refusal(s.err)
	}
	f := s.current
	f.users++
	s.host.calls.Store(c.Token(), f)
	return func() {
		s.host.calls.Delete(c.Token())
		f.release()
	}, nil
}

// refusal is why no policy is in force, as a call is told. What the person said
// who started dshx is no fault of the call's arguments.
func refusal(err error) error {
	var coded interface{ Code() string }
	if err == error(errEnded) || errors.As(err, &coded) && (coded.Code() == "CONFIG_INVALID" || coded.Code() == "SANDBOX_UNAVAILABLE") {
		return err
	}
	return &sandbox.UnavailableError{Reason: err.Error()}
}

func (f *force) hold() {
	f.session.mu.Lock()
	defer f.session.mu.Unlock()
	f.users++
}

// release ends the policy when nobody needs it any more.
func (f *force) release() {
	s := f.session
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.users--; f.users > 0 || s.closed {
		return // or finish ends it
	}
	delete(s.all, f)
	// Elsewhere: it takes a while, and whoever is the last may be a call that has
	// its result to bring.
	s.letGo.Go(func() {
		if err := f.scope.Close(); err != nil {
			s.mu.Lock()
			s.failed = append(s.failed, err)
			s.mu.Unlock()
		}
	})
}

// Opened waits until the first policy is in force. An error says why none is:
// ctx's, those of sandbox.Open, *sandbox.UnavailableError. Calls then fail with
// CONFIG_INVALID or SANDBOX_UNAVAILABLE.
func (s *Session) Opened(ctx context.Context) error {
	select {
	case <-s.opened:
	default:
		select {
		case <-s.opened:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// inForce is the policy for calls that begin now, held until release; nil while
// there is none.
func (s *Session) inForce() (scope *sandbox.Scope, release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.current
	if f == nil {
		return nil, func() {}
	}
	f.users++
	return f.scope, f.release
}

// Policy is in force for calls that begin now; nil while none is.
func (s *Session) Policy() *sandboxpolicy.Policy {
	scope, release := s.inForce()
	defer release()
	if scope == nil {
		return nil
	}
	return scope.Policy()
}

// Enforcement says what of Policy is enforced here.
func (s *Session) Enforcement() (e sandbox.Enforcement) {
	scope, release := s.inForce()
	defer release()
	if scope != nil {
		e = scope.Enforcement()
	}
	return e
}

// Notices are what the policy and its enforcement have to tell.
func (s *Session) Notices() []sandboxpolicy.Notice {
	scope, release := s.inForce()
	defer release()
	if scope == nil {
		return nil
	}
	return scope.Notices()
}

// Asks reports whether somebody is asked about calls that want more than the
// policy gives, if the scope's approver finds one. Which calls are, goes by the
// policy of each; the approver need not know.
func (s *Session) Asks() bool {
	p := s.Policy()
	return p != nil && p.Approvals() == "ask"
}

// Switch is what has become of a session's policy.
type Switch struct {
	From, To string // presets, as Policy.Preset has them; From is "" where none was in force
	By       string // who wanted it
}

// ErrEnded is the error of a switch that comes too late.
var ErrEnded = errors.New("the session has ended")

// SwitchPreset puts another preset in force: one of Policy.Presets, with what
// else the session was begun with. It holds for calls that begin later, its
// policy of approvals with it; what runs goes on under the policy that it began
// with, which ends with it. by says who wanted it, which must be a person: no
// tool gets here, and danger-full-access is put in force when it is named.
//
// Errors: ctx's, ErrEnded, those of sandbox.Open, of which an unknown name is a
// *sandboxpolicy.UsageError that has the known ones, *sandbox.UnavailableError,
// and those of BeforeSwitch. The policy that is in force stays then.
func (s *Session) SwitchPreset(ctx context.Context, name, by string) error {
	select {
	case s.turn <- struct{}{}:
	case <-s.ending:
		return ErrEnded
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-s.turn }()
	select {
	case <-s.ending: // or there is no place for what it needs
		return ErrEnded
	default:
	}
	old := s.Policy()
	if name == "" {
		// Which would be the configuration's, whatever that is by now.
		names := sandboxpolicy.PresetNames()
		if old != nil {
			names = old.Presets()
		}
		return &sandboxpolicy.UsageError{Msg: "no preset is named; there are " + strings.Join(names, ", ")}
	}
	if s.owner == nil {
		return s.Opened(ctx)
	}
	s.mu.Lock()
	req := s.request
	s.mu.Unlock()
	// Of a preset both halves are switched.
	req.Preset, req.Approvals = name, ""
	if err := s.put(req); err != nil {
		var usage *sandboxpolicy.UsageError
		if errors.As(err, &usage) && usage.Flag == "--preset" {
			return &sandboxpolicy.UsageError{Msg: usage.Msg} // nobody gave a flag
		}
		return err
	}
	e := Switch{To: s.Policy().Preset(), By: by}
	if old != nil {
		e.From = old.Preset()
	}
	s.mu.Lock()
	told := s.switches
	s.mu.Unlock()
	for _, f := range told {
		contained(func() { (*f)(e) })
	}
	if rec := s.rec.Load(); rec != nil {
		rec.Preset(e.From, e.To, e.By, s.Enforcement())
	}
	return nil
}

// BeforeSwitch has f called with every policy before it holds for any call, until
// stop: an error keeps it from being put in force, and is SwitchPreset's. It is
// for whoever counts on what a policy denies.
func (s *Session) BeforeSwitch(f func(*sandboxpolicy.Policy) error) (stop func()) {
	return observe(&s.mu, &s.checks, f)
}

// OnSwitch has f called after every switch, in their order and before
// SwitchPreset returns, until stop. f must not switch or close the session.
func (s *Session) OnSwitch(f func(Switch)) (stop func()) {
	return observe(&s.mu, &s.switches, f)
}

// OnJobEnd has f called once for each job of the session that ends from now on,
// until stop; what is said of jobs.Owner.Observe holds.
func (s *Session) OnJobEnd(f func(jobs.End)) (stop func()) {
	return observe(&s.mu, &s.ends, f)
}

func observe[F any](mu *sync.Mutex, list *[]*F, f F) (stop func()) {
	p := &f
	mu.Lock()
	defer mu.Unlock()
	*list = append(slices.Clip(*list), p)
	return func() {
		mu.Lock()
		defer mu.Unlock()
		*list = slices.DeleteFunc(slices.Clone(*list), func(q *F) bool { return p == q })
	}
}

func (s *Session) jobEnded(e jobs.End) {
	s.mu.Lock()
	told := s.ends
	s.mu.Unlock()
	for _, f := range told {
		contained(func() { (*f)(e) })
	}
	if rec := s.rec.Load(); rec != nil {
		rec.JobEnded(e) // the log last
	}
}

// contained keeps an observer's panic from what it observes.
func contained(f func()) {
	defer func() { _ = recover() }()
	f()
}

// OpenLog opens a session log for calls under the policy that is in force.
// complain is told in one sentence what keeps records from being written.
//
// Errors: those of Opened; *sessionlog.PlaceError.
func (s *Session) OpenLog(path string, complain func(string)) (*sessionlog.Log, error) {
	scope, release := s.inForce()
	defer release()
	if scope == nil {
		return nil, s.Opened(context.Background())
	}
	return sessionlog.Open(path, scope.Policy(), sessionlog.Options{Complain: complain})
}

// Record has everything that happens in the session written down by rec, beginning
// with what is in force. The ends of jobs come as late as Close, so rec's own End
// is for after that.
func (s *Session) Record(rec *sessionlog.Recorder, version string) {
	if p := s.Policy(); p != nil {
		rec.Start(version, p.Preset(), p.Workspace(), s.Enforcement())
	}
	for _, n := range s.Notices() {
		rec.Note(n.Kind, n.Text)
	}
	s.BeforeSwitch(rec.Check)
	s.rec.Store(rec)
	rec.Attach(s.Scope)
}

// JobEvents writes {"event":"job","job":…} when a job has ended, until stop.
func (s *Session) JobEvents(write func(event any)) (stop func()) {
	return s.OnJobEnd(func(e jobs.End) {
		write(struct {
			Event string   `json:"event"`
			Job   jobs.Job `json:"job"`
		}{"job", e.Job})
	})
}

// LiveJobs are the ids of the jobs that haven't ended.
func (s *Session) LiveJobs() (ids []string) {
	<-s.begun
	if s.owner == nil {
		return nil
	}
	for _, j := range s.owner.List() {
		if !j.Status.Ended() {
			ids = append(ids, j.ID)
		}
	}
	return ids
}

// EndJobs ends the session's jobs, and lets it start none any more. Close does
// it, too; here it can be done while calls are still being ended.
func (s *Session) EndJobs() { _ = s.end() }

func (s *Session) endJobs() error {
	<-s.begun
	s.host.mu.Lock()
	closed := s.host.closed
	s.host.mu.Unlock()
	if s.owner == nil || closed { // the host ends them, and waits once for all
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), endTime)
	defer cancel()
	return s.owner.Close(ctx)
}

// Close ends the session's jobs and all that it runs, and leaves nothing of it;
// see Options.KeepSpills. A call that is made from now on is CANCELLED.
func (s *Session) Close() error { return s.close() }

func (s *Session) finish() error {
	h := s.host
	close(s.ending)
	s.Scope.Close()
	s.turn <- struct{}{} // for good
	err := s.end()
	s.mu.Lock()
	s.closed, s.current = true, nil
	all := s.all
	s.all = nil
	s.mu.Unlock()
	errs := []error{err}
	for f := range all {
		errs = append(errs, f.scope.Close())
	}
	s.letGo.Wait()
	errs = append(errs, s.failed...)
	if g := h.prepare(); g.observer != nil {
		g.observer.Forget(s.Scope)
	}
	if s.spills != "" && !h.options.KeepSpills {
		errs = append(errs, os.RemoveAll(s.spills))
	}
	if s.spills != "" {
		_ = os.Remove(s.spills) // if nothing is in it
	}
	h.mu.Lock()
	delete(h.sessions, s)
	h.mu.Unlock()
	return errors.Join(errs...)
}
