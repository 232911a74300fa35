// Package toolset joins what the front doors of tool calls need: a policy in
// force, the pipeline with every tool and the policies that belong to it, the
// registry of jobs, and the private places for output that is too long. It is
// the one file that knows all of them; a new tool is registered here.
package toolset

import (
	"context"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dshx/dshx/approval"
	"github.com/dshx/dshx/fsobserve"
	"github.com/dshx/dshx/jobs"
	"github.com/dshx/dshx/pipeline"
	"github.com/dshx/dshx/sandbox"
	"github.com/dshx/dshx/sandboxpolicy"
	"github.com/dshx/dshx/sessionlog"
	"github.com/dshx/dshx/tools/bash"
	"github.com/dshx/dshx/tools/fs"
	jobtools "github.com/dshx/dshx/tools/jobs"
	"github.com/dshx/dshx/tools/permission"
)

// Options are a set's.
type Options struct {
	// RequireFull refuses to open where a promise of the policy is a gap.
	RequireFull bool
	// Timeout bounds each command in the foreground; 0: as its call says.
	// KillAfter is the time between SIGTERM and SIGKILL; 0:
	// sandbox.DefaultKillAfter.
	Timeout, KillAfter time.Duration
	// Faults is told what failed in a stage and was contained.
	Faults func(pipeline.Fault)
}

// Set is the tools of one caller, under one policy.
type Set struct {
	Scope *pipeline.Scope
	// Approvals is the scope's approver, by the policy. A front door has its
	// answerer used.
	Approvals *approval.Service

	sandbox *sandbox.Scope
	jobs    *jobs.Registry
	owner   *jobs.Owner
	spills  spills
	store   string
	endJobs func() error
	rec     atomic.Pointer[sessionlog.Recorder]
}

// Open puts the policy of a request in force and registers the tools.
//
// Errors: those of sandbox.Open; *sandbox.UnavailableError. Nothing is left.
func Open(req sandboxpolicy.Request, o Options) (s *Set, err error) {
	s = &Set{endJobs: func() error { return nil }}
	defer func() {
		if err != nil {
			_ = s.Close()
			s = nil
		}
	}()
	avoid := req.Workspace
	if avoid == "" {
		avoid = "."
	}
	// Both outlive nothing but this process: not the caller's files.
	if s.spills.root, err = sandbox.Spill(avoid); err != nil {
		return s, &sandbox.UnavailableError{Reason: err.Error()}
	}
	if s.store, err = sandbox.Spill(avoid); err != nil {
		return s, &sandbox.UnavailableError{Reason: err.Error()}
	}
	// What was too long for a result may be read by whatever runs here.
	req.Read = append(append([]string(nil), req.Read...), s.spills.root)
	observer, err := fsobserve.New(fsobserve.Options{}) // first: the policy keeps commands from what is there
	if err != nil {
		return s, &sandbox.UnavailableError{Reason: err.Error()}
	}
	if s.sandbox, err = sandbox.Open(req); err != nil {
		return s, err
	}
	if o.RequireFull {
		if err := s.sandbox.Enforcement().RequireFull(); err != nil {
			return s, err
		}
	}
	if s.jobs, err = jobs.New(jobs.Options{Dir: s.store, Log: func(e jobs.End) {
		if rec := s.rec.Load(); rec != nil {
			rec.JobEnded(e)
		}
	}}); err != nil {
		return s, err
	}
	s.endJobs = sync.OnceValue(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
		defer cancel()
		return s.jobs.Close(ctx)
	})
	s.owner = s.jobs.Owner("main")
	s.Scope = pipeline.New(pipeline.Options{Faults: o.Faults})
	policy := s.sandbox.Policy()
	s.Approvals = approval.New(approval.Policy(policy.Approvals()), 0)
	s.Scope.SetApprover(s.Approvals)
	s.Scope.PreExecute(bash.RulesName, bash.RuleListener(policy))
	s.Scope.Guard(bash.RulesName, bash.RuleGuard(policy))
	s.Scope.PreExecute("permissions", permission.Listener(policy))
	domains := &permission.Scopes{Base: s.sandbox, Request: req}
	if _, err := fs.Register(s.Scope, fs.Options{Domains: fs.InScopes(domains), Observer: observer, Spills: &s.spills}); err != nil {
		return s, err
	}
	if _, err := bash.Register(s.Scope, bash.Options{Domains: domains, Jobs: s.owner, SpillDir: s.spills.root, Timeout: o.Timeout, KillAfter: o.KillAfter}); err != nil {
		return s, err
	}
	if _, err := jobtools.Register(s.Scope, jobtools.Options{Jobs: s.owner}); err != nil {
		return s, err
	}
	return s, nil
}

// Notices are what the policy and its enforcement have to tell.
func (s *Set) Notices() []sandboxpolicy.Notice { return s.sandbox.Notices() }

// OpenLog opens a session log for calls under the set's policy. complain is told
// in one sentence what keeps records from being written.
//
// Errors: *sessionlog.PlaceError.
func (s *Set) OpenLog(path string, complain func(string)) (*sessionlog.Log, error) {
	return sessionlog.Open(path, s.sandbox.Policy(), sessionlog.Options{Complain: complain})
}

// Record has everything that happens in the set written down by rec, beginning
// with what is in force. The ends of jobs come as late as Close, so rec's own End
// is for after that.
func (s *Set) Record(rec *sessionlog.Recorder, version string) {
	p := s.sandbox.Policy()
	rec.Start(version, p.Preset(), p.Workspace(), s.sandbox.Enforcement())
	for _, n := range s.Notices() {
		rec.Note(n.Kind, n.Text)
	}
	s.rec.Store(rec)
	rec.Attach(s.Scope)
}

// JobEvents writes {"event":"job","job":…} when a job has ended, until stop.
func (s *Set) JobEvents(write func(event any)) (stop func()) {
	return s.owner.Observe(func(e jobs.End) {
		write(struct {
			Event string   `json:"event"`
			Job   jobs.Job `json:"job"`
		}{"job", e.Job})
	})
}

// LiveJobs are the ids of the jobs that haven't ended.
func (s *Set) LiveJobs() (ids []string) {
	for _, j := range s.owner.List() {
		if !j.Status.Ended() {
			ids = append(ids, j.ID)
		}
	}
	return ids
}

// EndJobs ends all jobs, and lets none be started any more. Close does it, too;
// here it can be done while calls are still being ended.
func (s *Set) EndJobs() { _ = s.endJobs() }

// Close ends all jobs and everything else that was started, and removes what
// nobody needs any more: results that were too long stay for their reader.
func (s *Set) Close() error {
	errs := []error{s.endJobs()}
	if s.Scope != nil {
		s.Scope.Close()
	}
	if s.sandbox != nil {
		errs = append(errs, s.sandbox.Close())
	}
	if s.store != "" {
		errs = append(errs, os.RemoveAll(s.store))
	}
	if s.spills.root != "" {
		_ = os.Remove(s.spills.root) // if nothing is in it
	}
	return errors.Join(errs...)
}

// spills gives each call that needs one a directory of its own.
type spills struct{ root string }

// Dir makes a private directory.
func (s *spills) Dir() (string, error) { return os.MkdirTemp(s.root, "call-") }

// Holds is false: the policy lets everything here be read, and the kernel
// judges it like any other file.
func (s *spills) Holds(string) bool { return false }

// Definitions are all tools, without a policy in force: to list, not to call.
func Definitions() ([]*pipeline.Tool, error) {
	p := pipeline.New(pipeline.Options{})
	nowhere := &permission.Scopes{}
	if _, err := fs.Register(p, fs.Options{Domains: fs.InScopes(nowhere)}); err != nil {
		return nil, err
	}
	owner := new(jobs.Owner) // of nothing, since nothing is called
	if _, err := bash.Register(p, bash.Options{Domains: nowhere, Jobs: owner}); err != nil {
		return nil, err
	}
	if _, err := jobtools.Register(p, jobtools.Options{Jobs: owner}); err != nil {
		return nil, err
	}
	return p.Tools(), nil
}

// Described is a tool as `dshx tools --json` prints it.
type Described struct {
	Name         string           `json:"name"`
	Title        string           `json:"title"`
	Description  string           `json:"description"`
	InputSchema  *pipeline.Schema `json:"inputSchema"`
	OutputSchema *pipeline.Schema `json:"outputSchema"`
	Annotations  Annotations      `json:"annotations"`
	Parallel     string           `json:"parallel"` // always, never or by-arguments
}

// Annotations are a tool's hints in MCP's names.
type Annotations struct {
	ReadOnlyHint    bool `json:"readOnlyHint"`
	DestructiveHint bool `json:"destructiveHint"`
	IdempotentHint  bool `json:"idempotentHint"`
	OpenWorldHint   bool `json:"openWorldHint"`
}

// Describe is what programs are told of tools.
func Describe(tools []*pipeline.Tool) any {
	list := make([]Described, len(tools))
	for i, t := range tools {
		h := t.Hints()
		list[i] = Described{t.Name(), t.Title(), t.Description(), t.Parameters(), t.Output(),
			Annotations{h.ReadOnly, h.Destructive, h.Idempotent, h.OpenWorld}, t.Parallel()}
	}
	return struct {
		Tools []Described `json:"tools"`
	}{list}
}
