package fs

import (
	"context"
	"os"

	"github.com/dshx/dshx/fsobserve"
	"github.com/dshx/dshx/pipeline"
	"github.com/dshx/dshx/sandboxpolicy"
	"github.com/dshx/dshx/tools/fs/internal/walk"
	"github.com/dshx/dshx/tools/permission"
)

// Domain is a policy in force, as package sandbox has it. The functions that
// are given to it run on threads that the kernel confines: they touch files on
// their own goroutine alone.
type Domain interface {
	Policy() *sandboxpolicy.Policy
	// Do runs f and returns its error.
	Do(f func() error) error
	// DoN runs f(0) to f(n-1) side by side; n is at most 16.
	DoN(n int, f func(i int)) error
}

// Domains are the domains of calls.
type Domains interface {
	// For is the domain that a call works in, and a function that lets it go.
	For(c *pipeline.Call) (Domain, func(), error)
}

// InScopes are the domains of s: the one that all calls share, and one for each
// call that was granted more.
func InScopes(s *permission.Scopes) Domains { return inScopes{s} }

type inScopes struct{ scopes *permission.Scopes }

func (in inScopes) For(c *pipeline.Call) (Domain, func(), error) {
	scope, release, err := in.scopes.For(c)
	if err != nil {
		return nil, nil, err
	}
	return scope, release, nil
}

// Observer is what knows which files a caller has seen; *fsobserve.Observer is
// one. Paths are absolute and resolved.
type Observer interface {
	// Observed: the call has seen, or written, all of the file. content is nil
	// where it was too large to be held, and is not changed any more.
	Observed(c *pipeline.Call, path string, s fsobserve.State, content []byte)
	// Missing: the call has found that there is no such file.
	Missing(c *pipeline.Call, path string)
	// Check refuses what the call is about to do. now is nil for a file that
	// isn't there: it is then made only if it still isn't.
	Check(c *pipeline.Call, use fsobserve.Use, path string, now *fsobserve.State) error
	// Lock begins the one critical section of a file among all that change it.
	Lock(ctx context.Context, file string) (unlock func(), err error)
}

// blind is the observer of tools that have none.
type blind struct{}

func (blind) Observed(*pipeline.Call, string, fsobserve.State, []byte) {}
func (blind) Missing(*pipeline.Call, string)                           {}
func (blind) Check(*pipeline.Call, fsobserve.Use, string, *fsobserve.State) error {
	return nil
}
func (blind) Lock(context.Context, string) (func(), error) { return func() {}, nil }

// Spills are the directories for results that are too long. They are made by
// this process, outside of what commands can write.
type Spills interface {
	// Dir is a directory for a new file of the call.
	Dir(c *pipeline.Call) (string, error)
	// Holds reports that path, absolute and resolved, is in one of them, and the
	// call may read and search it, whatever the policy says of other runs'
	// directories.
	Holds(c *pipeline.Call, path string) bool
}

// unconfined is the domain of files that this process made for its callers.
type unconfined struct{ policy *sandboxpolicy.Policy }

func (u unconfined) Policy() *sandboxpolicy.Policy { return u.policy }
func (u unconfined) Do(f func() error) error       { return f() }
func (u unconfined) DoN(n int, f func(i int)) error {
	walk.Here(n, f)
	return nil
}

// exists looks at a path for a remedy: names can be looked at under any policy.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
