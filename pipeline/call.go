package pipeline

import (
	"context"
	"strconv"
	"sync/atomic"
)

// Token is the identity of a running call. It is compared and handed on, never
// built: the zero Token is nobody's, and no other can be made outside of this
// package.
type Token struct{ call *Call }

// IsZero reports the token of no call.
func (t Token) IsZero() bool { return t.call == nil }

// Call is one call as every stage sees it: the same arguments, identity and
// scope for policy, log, question and body. Nothing in it can be changed.
type Call struct {
	id, root string
	name     string
	args     JSON
	scope    *Scope
	tool     *Tool
	parent   *Call
	caller   context.Context
	progress func(Progress)
	// aside, where a queue set it, lets others run while somebody is asked about
	// the call; what it returns waits for the call's turn again.
	aside func() (back func(context.Context) bool)

	frozen *Result // once there is one
	grants JSON    // set between approval and guards, by the pipeline alone
	nested atomic.Int64
	begun  atomic.Bool
	ended  atomic.Bool
}

// ID is the id that the caller gave, or the pipeline for a nested call.
func (c *Call) ID() string { return c.id }

// RootID is the id of the outermost call that this one is nested in; its own
// where there is none.
func (c *Call) RootID() string { return c.root }

// Name is the tool's name.
func (c *Call) Name() string { return c.name }

// Args are the arguments as they were given.
func (c *Call) Args() JSON { return c.args }

// Scope is where the call was made.
func (c *Call) Scope() *Scope { return c.scope }

// Token is the call's identity, for calls nested in it.
func (c *Call) Token() Token { return Token{c} }

// Parent is the identity of the call that this one is nested in.
func (c *Call) Parent() Token { return Token{c.parent} }

// Grants are what an approval gave this one call beyond the policy, as the
// listener that asked wrote it; zero without one.
func (c *Call) Grants() JSON { return c.grants }

// Cancelled is closed when the caller cancels the call.
func (c *Call) Cancelled() <-chan struct{} { return c.caller.Done() }

// Progress is something that a body lets its caller know before the result.
type Progress struct {
	Stream string // such as "stdout"
	Data   []byte // valid during the call of the receiver alone
}

// Report hands p to the caller if it listens; it may block until it has read.
// After the call has ended it does nothing.
func (c *Call) Report(p Progress) {
	if c.progress != nil && !c.ended.Load() {
		c.progress(p)
	}
}

// Reports reports whether anybody listens to Report.
func (c *Call) Reports() bool { return c.progress != nil }

// Request asks for one call.
type Request struct {
	// ID is the caller's, any text. With Parent it is made by the pipeline.
	ID   string
	Name string
	Args []byte // one JSON object; empty means {}
	// Parent is the token of the running call that this one is nested in.
	Parent Token
	// Progress receives what the body reports, on the body's goroutine; nil
	// for a caller who doesn't listen.
	Progress func(Progress)
}

// identify gives the call of a request its identity. A parent that belongs to
// another pipeline is refused.
func (s *Scope) identify(ctx context.Context, req Request) (*Call, *Error) {
	c := &Call{id: req.ID, root: req.ID, name: req.Name, scope: s, caller: ctx, progress: req.Progress}
	p := req.Parent.call
	if p == nil {
		return c, nil
	}
	if p.scope.root() != s.root() {
		return c, orphan()
	}
	c.parent, c.root = p, p.root
	c.id = p.id + ":code:" + strconv.FormatInt(p.nested.Add(1), 10)
	return c, nil
}

func orphan() *Error {
	return Fail(CodeDenied, "the parent of the call is not a running call of this pipeline", map[string]string{"by": "identity", "reason": "parent"})
}
