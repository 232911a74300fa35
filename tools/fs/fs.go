package fs

import (
	"context"
	_ "embed"
	"errors"
	"sync"

	"github.com/dshx/dshx/pipeline"
)

// Options are what the tools are built on.
type Options struct {
	// Domains are where calls work. Required.
	Domains Domains
	// Observer holds callers to reading a file before they change it; nil: they
	// may change what they haven't seen.
	Observer Observer
	// Spills take results that are too long. nil: they go into the domain's own
	// TMPDIR, and end with it.
	Spills Spills

	// For tests:
	named bool               // as where no file is without a name
	sync  func(fd int) error // in place of fsync(2)
}

// Register adds the six tools to a scope; undo takes them away again. What
// asks about sandbox_permissions is permission.Listener, which belongs to the
// scope, not to the tools.
//
// Errors: those of pipeline.Scope.Register.
func Register(scope *pipeline.Scope, o Options) (undo func(), err error) {
	tools, err := Tools(o)
	if err != nil {
		return nil, err
	}
	return scope.Register(tools...)
}

// Tools are the six tools, for a caller who registers them by hand.
func Tools(o Options) ([]*pipeline.Tool, error) {
	if o.Domains == nil {
		return nil, errors.New("file tools without Domains would run outside of the sandbox")
	}
	t := &tools{domains: o.Domains, observer: o.Observer, spills: o.Spills, named: o.named, sync: o.sync}
	if t.observer == nil {
		t.observer = blind{}
	}
	var all []*pipeline.Tool
	for _, define := range []func() (*pipeline.Tool, error){t.defineRead, t.defineWrite, t.defineEdit, t.defineList, t.defineGlob, t.defineGrep} {
		tool, err := define()
		if err != nil {
			return nil, err
		}
		all = append(all, tool)
	}
	return all, nil
}

// tools is what the six share.
type tools struct {
	domains  Domains
	observer Observer
	spills   Spills
	named    bool
	sync     func(fd int) error

	// beside is what a body hands past its value to the content of its call,
	// pipeline.Token to []pipeline.Content: the bytes of an image, what else
	// there is to say about a failure.
	beside sync.Map
}

// addContent adds the content that the body of c put aside. It is the tools'
// FinalizeContent, which is called once for every call: nothing is left.
func (t *tools) addContent(c *pipeline.Call, _ bool, content []pipeline.Content) []pipeline.Content {
	more, ok := t.beside.LoadAndDelete(c.Token())
	if !ok {
		return content
	}
	return append(content, more.([]pipeline.Content)...)
}

func (t *tools) putBeside(c *pipeline.Call, content ...pipeline.Content) {
	t.beside.Store(c.Token(), content)
}

// work is one call at work on one path.
type work struct {
	*tools
	ctx  context.Context
	call *pipeline.Call
	in   Domain
	at   place

	named bool // temporary files are to have names from the beginning
}

// begin resolves the path that a call names and finds the domain that it works
// in; end lets that go.
func (t *tools) begin(ctx context.Context, c *pipeline.Call, path string) (w *work, end func(), err error) {
	in, end, err := t.domains.For(c)
	if err != nil {
		return nil, nil, err
	}
	w = &work{tools: t, ctx: ctx, call: c, in: in, named: t.named}
	if w.at, err = resolve(in.Policy(), path); err != nil {
		end()
		return nil, nil, err
	}
	if t.spills != nil && t.spills.Holds(c, w.at.real) {
		w.in, w.at.spill = unconfined{in.Policy()}, true
	}
	return w, end, nil
}
