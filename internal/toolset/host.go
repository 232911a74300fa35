package toolset

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/dshx/dshx/fsobserve"
	"github.com/dshx/dshx/jobs"
	"github.com/dshx/dshx/pipeline"
	"github.com/dshx/dshx/sandbox"
	"github.com/dshx/dshx/sandboxpolicy"
	"github.com/dshx/dshx/tools/bash"
	"github.com/dshx/dshx/tools/fs"
	jobtools "github.com/dshx/dshx/tools/jobs"
	"github.com/dshx/dshx/tools/permission"
)

// Options are a host's.
type Options struct {
	// RequireFull refuses a policy of which a promise is a gap here.
	RequireFull bool
	// Timeout bounds each command in the foreground; 0: as its call says.
	// KillAfter is the time between SIGTERM and SIGKILL; 0:
	// sandbox.DefaultKillAfter.
	Timeout, KillAfter time.Duration
	// KeepSpills leaves results that were too long to whoever reads them later,
	// for a week. Without it they end with their session, as nobody else's calls
	// may read them.
	KeepSpills bool
	// Faults is told what failed in a stage and was contained.
	Faults func(pipeline.Fault)
}

// Host is what all sessions of a process share: the tools, defined once, the
// registry of jobs, who has seen which file, and the place for what is too long.
// Nothing of one session can be reached through it by another.
type Host struct {
	request sandboxpolicy.Request
	options Options
	root    *pipeline.Scope
	define  func() error
	prepare func() *ground
	end     func() error // of all jobs

	calls sync.Map // pipeline.Token of an admitted call to its *force

	mu       sync.Mutex
	sessions map[*Session]struct{}
	number   int // of the last session
	closed   bool
	ground   *ground // once it is there
	swept    bool
	sweeping sync.WaitGroup
}

// ground is what a host has on the disk, outside of what commands may write.
type ground struct {
	err      error
	kept     *sandbox.Kept
	observer *fsobserve.Observer
	jobs     *jobs.Registry
}

// NewHost makes a host whose sessions begin under the policy of a request. It
// does nothing yet.
func NewHost(req sandboxpolicy.Request, o Options) *Host {
	// A client starts a server anywhere; the tools' place is the workspace.
	req.InWorkspace = true
	h := &Host{request: req, options: o, root: pipeline.New(pipeline.Options{Faults: o.Faults}), sessions: map[*Session]struct{}{}}
	h.define = sync.OnceValue(h.defineTools)
	h.prepare = sync.OnceValue(h.makeGround)
	h.end = sync.OnceValue(h.endJobs)
	return h
}

// defineTools registers the tools, and the policies that belong to them, for all
// sessions. What a call may use is its session's.
func (h *Host) defineTools() error {
	h.root.PreExecute(bash.RulesName, func(ctx context.Context, c *pipeline.Call, next func() pipeline.Decision) pipeline.Decision {
		return h.force(c).rules(ctx, c, next)
	})
	h.root.Guard(bash.RulesName, func(c *pipeline.Call) (reason string, deny bool) { return h.force(c).denied(c) })
	h.root.PreExecute("permissions", func(ctx context.Context, c *pipeline.Call, next func() pipeline.Decision) pipeline.Decision {
		return h.force(c).permissions(ctx, c, next)
	})
	h.root.AskPolicy("preset", func(c *pipeline.Call) bool { return h.force(c).scope.Policy().Approvals() == "ask" })
	if _, err := fs.Register(h.root, fs.Options{Domains: fileDomains{h}, Observer: observers{h}, Spills: spills{h}}); err != nil {
		return err
	}
	if _, err := bash.Register(h.root, bash.Options{Domains: domains{h}, Jobs: h.jobs, SpillDir: func(c *pipeline.Call) string { return h.force(c).session.spills },
		Timeout: h.options.Timeout, KillAfter: h.options.KillAfter}); err != nil {
		return err
	}
	_, err := jobtools.Register(h.root, jobtools.Options{Jobs: h.jobs})
	return err
}

// makeGround makes what the host has on the disk.
func (h *Host) makeGround() *ground {
	h.mu.Lock()
	defer h.mu.Unlock()
	g := &ground{}
	h.ground = g
	if h.closed {
		g.err = errEnded
		return g
	}
	if g.kept, g.err = sandbox.Keep(h.request); g.err != nil {
		return g
	}
	// Before any policy, which keeps commands from what it makes.
	if g.observer, g.err = fsobserve.New(fsobserve.Options{}); g.err != nil {
		g.err = &sandbox.UnavailableError{Reason: g.err.Error()}
		return g
	}
	if g.jobs, g.err = jobs.New(jobs.Options{Dir: filepath.Join(g.kept.Path(), "jobs")}); g.err != nil {
		g.err = &sandbox.UnavailableError{Reason: g.err.Error()}
	}
	return g
}

// sweep removes what others have left, once, beside everything else.
func (h *Host) sweep(g *ground) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.closed && !h.swept {
		h.swept = true
		h.sweeping.Go(g.kept.Sweep)
	}
}

// force is the policy of an admitted call. For a call that no session admitted
// there is none, and a panic refuses it.
func (h *Host) force(c *pipeline.Call) *force {
	f, ok := h.calls.Load(c.Token())
	if !ok {
		panic("a call outside of any session")
	}
	return f.(*force)
}

func (h *Host) jobs(c *pipeline.Call) *jobs.Owner { return h.force(c).session.owner }

// EndJobs ends the jobs of all sessions, and lets none be started any more. Close
// does it, too; here it can be done while calls are still being ended.
func (h *Host) EndJobs() { _ = h.end() }

func (h *Host) endJobs() error {
	g := h.prepare()
	if g.jobs == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), endTime)
	defer cancel()
	return g.jobs.Close(ctx)
}

// endTime is for the end of jobs, which takes their registry ten seconds at most.
const endTime = 15 * time.Second

// Close ends all sessions, their jobs and everything else that was started, and
// removes what nobody needs any more.
func (h *Host) Close() error {
	h.mu.Lock()
	h.closed = true
	g := h.ground
	all := make([]*Session, 0, len(h.sessions))
	for s := range h.sessions {
		all = append(all, s)
	}
	h.mu.Unlock()
	var errs []error
	if g != nil {
		errs = append(errs, h.end())
	}
	closed := make([]error, len(all))
	var each sync.WaitGroup
	for i, s := range all {
		each.Go(func() { closed[i] = s.Close() })
	}
	each.Wait()
	errs = append(errs, closed...)
	h.root.Close()
	h.sweeping.Wait()
	if g == nil || g.kept == nil {
		return errors.Join(errs...)
	}
	g.kept.Release()
	return errors.Join(errs...)
}

// domains are the domains of calls: that of the call's policy, or where an
// approval granted more one of its own. Either holds the policy until nothing of
// the call runs there any more.
type domains struct{ h *Host }

func (d domains) For(c *pipeline.Call) (*sandbox.Scope, func(), error) {
	f := d.h.force(c)
	scope, release, err := (&permission.Scopes{Base: f.scope, Request: f.request}).For(c)
	if err != nil {
		return nil, nil, err
	}
	f.hold()
	return scope, sync.OnceFunc(func() { release(); f.release() }), nil
}

type fileDomains struct{ h *Host }

func (d fileDomains) For(c *pipeline.Call) (fs.Domain, func(), error) {
	scope, release, err := domains(d).For(c)
	if err != nil {
		return nil, nil, err
	}
	return scope, release, nil
}

// observers is the host's observer, which is made after the tools are defined.
type observers struct{ h *Host }

func (o observers) Observed(c *pipeline.Call, path string, s fsobserve.State, content []byte) {
	o.h.prepare().observer.Observed(c, path, s, content)
}

func (o observers) Missing(c *pipeline.Call, path string) {
	o.h.prepare().observer.Missing(c, path)
}

func (o observers) Check(c *pipeline.Call, use fsobserve.Use, path string, now *fsobserve.State) error {
	return o.h.prepare().observer.Check(c, use, path, now)
}

func (o observers) Lock(ctx context.Context, file string) (unlock func(), err error) {
	return o.h.prepare().observer.Lock(ctx, file)
}

// spills give each call that needs one a directory of its own.
type spills struct{ h *Host }

// Dir makes a private directory.
func (s spills) Dir(c *pipeline.Call) (string, error) {
	return os.MkdirTemp(s.h.force(c).session.spills, "call-")
}

// Holds is false: the policy lets everything there be read, and the kernel
// judges it like any other file.
func (spills) Holds(*pipeline.Call, string) bool { return false }
