package sandbox

import (
	"os"
	"path/filepath"

	"github.com/dshx/dshx/sandbox/internal/tmpdir"
	"github.com/dshx/dshx/sandboxpolicy"
	"golang.org/x/sys/unix"
)

// Scope is a policy in force with what it needs on disk: a private TMPDIR,
// gone at the end, and the workspace's cache area.
type Scope struct {
	*Domain
	tmp     *tmpdir.Dir
	notices []sandboxpolicy.Notice
	git     gitTree
}

// Open resolves a request, makes its private directory, and puts the policy
// in force. Request.TmpDir must be empty.
//
// Errors: those of sandboxpolicy.Resolve and NewDomain, and *UnavailableError
// where no private directory can be made. Nothing runs, and nothing is left.
func Open(req sandboxpolicy.Request) (*Scope, error) { return openScope(req, NewDomain) }

// OpenHere is Open with the calling goroutine's thread as the domain's; see
// NewDomainHere. accept, if not nil, has a say when the policy is known and not
// yet in force: where it returns an error, that is OpenHere's, and nothing has
// happened.
func OpenHere(req sandboxpolicy.Request, terminal int, held []HeldFile, accept func(*sandboxpolicy.Policy) error) (*Scope, error) {
	return openScope(req, func(p *sandboxpolicy.Policy) (*Domain, error) {
		if accept != nil {
			if err := accept(p); err != nil {
				return nil, err
			}
		}
		return NewDomainHere(p, terminal, held)
	})
}

func openScope(req sandboxpolicy.Request, start func(*sandboxpolicy.Policy) (*Domain, error)) (*Scope, error) {
	s := &Scope{}
	p, err := s.resolve(req)
	if err == nil {
		s.Domain, err = start(p)
	}
	if err != nil {
		s.removeTmp()
		return nil, err
	}
	return s, nil
}

// Resolve makes the policy of a request as Open would, with the path that a
// private directory would have, without making one or putting it in force.
func Resolve(req sandboxpolicy.Request) (*sandboxpolicy.Policy, []sandboxpolicy.Notice, error) {
	req.TmpDir = tmpdir.Example(workspace(req))
	return sandboxpolicy.Resolve(req, sandboxpolicy.OSFacts{})
}

func workspace(req sandboxpolicy.Request) string {
	ws := req.Workspace
	if ws == "" {
		ws = "."
	}
	// Only a place to avoid: the policy's own resolution decides what the
	// workspace is.
	if abs, err := filepath.Abs(ws); err == nil {
		ws = abs
	}
	if real, err := filepath.EvalSymlinks(ws); err == nil {
		ws = real
	}
	return ws
}

func (s *Scope) resolve(req sandboxpolicy.Request) (*sandboxpolicy.Policy, error) {
	tmp, err := tmpdir.New(workspace(req))
	if err != nil {
		return nil, &UnavailableError{Reason: err.Error()}
	}
	s.tmp = tmp
	req.TmpDir = tmp.Path
	p, notices, err := sandboxpolicy.Resolve(req, sandboxpolicy.OSFacts{})
	if err == nil && !makeCacheArea(p) {
		req.NoCacheArea = true
		p, notices, err = sandboxpolicy.Resolve(req, sandboxpolicy.OSFacts{})
	}
	s.notices = notices
	return p, err
}

// makeCacheArea makes the policy's cache area if it isn't there, and reports
// whether it can be used. It makes no home directory where there is none.
func makeCacheArea(p *sandboxpolicy.Policy) bool {
	dir := p.CacheDir()
	if dir == "" || unix.Access(dir, unix.W_OK) == nil {
		return true
	}
	if home := p.Home(); home != "" && within(dir, home) && unix.Access(home, unix.F_OK) != nil {
		return false
	}
	return os.MkdirAll(dir, 0o700) == nil && unix.Access(dir, unix.W_OK) == nil
}

// Notices are what resolution and enforcement have to tell.
func (s *Scope) Notices() []sandboxpolicy.Notice {
	return append(append([]sandboxpolicy.Notice{}, s.notices...), s.Domain.Notices()...)
}

// Close ends every process of the scope and removes its private directory.
func (s *Scope) Close() error {
	err := s.Domain.Close()
	if e := s.removeTmp(); err == nil {
		err = e
	}
	return err
}

// Exit is Close for a process that is about to exit and has no command left.
func (s *Scope) Exit() error {
	s.abandon()
	return s.removeTmp()
}

func (s *Scope) removeTmp() error {
	if s.tmp == nil || s.tmp.RemoveEmpty() {
		return nil
	}
	// On another thread: this one may be under a filter whose supervisor, which
	// would have to answer for a chmod, has ended.
	done := make(chan error, 1)
	go func() { done <- s.tmp.Remove() }()
	return <-done
}

// Spill makes a private directory, outside of the workspace and kept for the
// caller (a week), for output that was cut.
func Spill(avoid string) (string, error) { return tmpdir.NewKept(avoid) }

// Kept is a directory like Spill's that this process holds: it stays as long as
// that, and a week from Release on unless it is empty then. It is for a process
// that makes several things of the kind.
type Kept struct{ dir *tmpdir.Dir }

// Keep makes one outside of the request's workspace.
//
// Errors: *UnavailableError.
func Keep(req sandboxpolicy.Request) (*Kept, error) {
	d, err := tmpdir.Keep(workspace(req))
	if err != nil {
		return nil, &UnavailableError{Reason: err.Error()}
	}
	return &Kept{d}, nil
}

// Path is absolute and resolved; the directory's mode is 0700.
func (k *Kept) Path() string { return k.dir.Path }

// Sweep removes what other processes kept and whose time is over. It takes as
// long as there is much of it.
func (k *Kept) Sweep() { k.dir.Sweep() }

// Release lets go of the directory.
func (k *Kept) Release() { k.dir.Release() }
