package mcp

import (
	"bytes"
	"context"
	"errors"
	"io"

	"github.com/dshx/dshx/serve/internal/wire"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// ErrClosed is the end of a connection whose reader has gone.
var ErrClosed = wire.ErrClosed

// Serve answers the messages on in until its end, until ctx ends, or until
// nobody reads out any more. All calls have ended then, and the replies to them
// are written as far as somebody reads them.
//
// At the end of input calls in flight finish; when ctx ends they are aborted,
// and a reader that takes nothing for some seconds then is taken to have gone.
// A Write of out that never returns is left behind.
//
// Errors: nil at the end of input, ctx's cause, ErrClosed, *OpenError, in's, or
// those of Session.Close.
func Serve(ctx context.Context, in io.Reader, out io.Writer, o Options) error {
	o = o.withDefaults()
	ctx, unwatch := wire.WhileRead(ctx, out)
	defer unwatch()
	s := newSession(ctx, o)
	defer s.abort(nil)
	c := &stdio{s: s, out: wire.NewOutput(out), messages: make(chan jsonrpc.Message), over: make(chan struct{})}
	go c.out.Run(func() { s.abort(ErrClosed) })
	defer c.out.Leave()
	context.AfterFunc(s.ctx, func() {
		go c.out.Watch(o.patience)
		s.endJobs()
	})
	if err := s.connect(c); err != nil {
		return errors.Join(err, s.close())
	}

	read := make(chan error, 1)
	go func() { read <- c.read(in) }()
	var err error
	select {
	case err = <-read:
	case <-s.ctx.Done():
		// Reading may never end; what it still brings is refused.
	}
	var cause error
	closing := s.finish(err, func() {
		cause = context.Cause(s.ctx)
		close(c.over)
	})
	switch {
	case cause != nil:
		return cause
	case err != nil:
		return err
	}
	return closing
}

// stdio is the transport and the connection over standard streams.
type stdio struct {
	s        *session
	out      *wire.Output
	messages chan jsonrpc.Message
	over     chan struct{} // closed when nothing goes in any more
}

// Connect is the connection itself.
func (c *stdio) Connect(context.Context) (sdk.Connection, error) { return c, nil }

// SessionID is none.
func (c *stdio) SessionID() string { return "" }

// Close does nothing: Serve ends the connection, when everything has been
// answered.
func (c *stdio) Close() error { return nil }

// Read is the next message. Errors: io.EOF when everything has been answered.
func (c *stdio) Read(context.Context) (jsonrpc.Message, error) {
	select {
	case m := <-c.messages:
		return m, nil
	case <-c.over:
		return nil, io.EOF
	}
}

// read takes lines until their end.
func (c *stdio) read(in io.Reader) error {
	l := wire.NewLines(in, c.s.o.MaxLine)
	for {
		line, err := l.Next()
		switch {
		case err == wire.ErrLong:
			c.fail(tooLong(line, c.s.o.MaxLine))
			if err := l.Skip(); err != nil && err != io.EOF {
				return err
			}
			continue
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
		if bytes.TrimLeft(line, " \t")[0] == '[' {
			if !c.readBatch(line) {
				return nil
			}
			continue
		}
		m, bad := decode(line)
		if bad != nil {
			c.fail(bad)
			continue
		}
		if !c.take(m, len(line), nil) {
			return nil
		}
	}
}

// take hands a message to the SDK, of a batch if it is in one. It returns false
// when none is taken any more.
func (c *stdio) take(m message, size int, b *batch) bool {
	switch {
	case m.method == "":
		if r := c.s.answer(m); r != nil {
			return c.deliver(r)
		}
		return true
	case m.id == "":
		if r := c.s.notification(m); r != nil {
			return c.deliver(r)
		}
		return true
	}
	e, r, bad := c.s.request(m, size)
	switch {
	case bad != nil && b != nil:
		b.fail(bad)
		return true
	case bad != nil:
		c.fail(bad)
		return true
	case e == nil:
		return false
	}
	if b != nil {
		b.expect()
		e.batch = b
	}
	return c.deliver(r)
}

func (c *stdio) deliver(m jsonrpc.Message) bool {
	select {
	case c.messages <- m:
		return true
	case <-c.over:
		return false
	}
}

// fail answers what is no message, or can't be taken.
func (c *stdio) fail(f *fault) { c.out.Write(c.s.refusal(f)+"\n", nil) }

// Write writes what the SDK has to say. It never fails: when the reader has
// gone, Serve ends everything in its order.
func (c *stdio) Write(_ context.Context, m jsonrpc.Message) error {
	if r, ok := m.(*jsonrpc.Response); ok {
		c.reply(r)
		return nil
	}
	line, err := jsonrpc.EncodeMessage(m)
	if err != nil {
		return err
	}
	c.out.Write(string(append(line, '\n')), nil)
	return nil
}

// reply writes the reply to a request, unless it was cancelled.
func (c *stdio) reply(r *jsonrpc.Response) {
	e, line := c.s.outward(r, "\n")
	switch {
	case e == nil:
	case line == "":
		c.s.done(e, true)
		if e.batch != nil {
			e.batch.done()
		}
	case e.batch != nil:
		e.batch.add(e, line)
	default:
		// Its id is free in one with the writing: it may be used again as soon as the
		// reply is read.
		c.out.Write(line, func() { c.s.requests.free(e) })
		c.s.begin()
		c.s.done(e, false)
	}
}
