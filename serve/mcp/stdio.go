package mcp

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strconv"
	"strings"

	"github.com/dshx/dshx/pipeline"
	"github.com/dshx/dshx/serve/internal/wire"
	"github.com/go-json-experiment/json/jsontext"
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
	if o.MaxLine <= 0 {
		o.MaxLine = wire.MaxLine
	}
	if o.patience <= 0 {
		o.patience = patience
	}
	if o.maxHeld <= 0 {
		o.maxHeld = maxHeld
	}
	if o.maxPending <= 0 {
		o.maxPending = maxPending
	}
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
	if err != nil {
		s.abort(err)
	}
	s.begin()
	s.end()
	cause := context.Cause(s.ctx)
	close(c.over)
	if e := s.peer.Wait(); e != nil {
		s.log.Debug("the session has ended", "error", e.Error())
	}
	closing := s.close()
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
			c.fail(&fault{requestID(line), jsonrpc.CodeParseError, "parse error: the message is longer than " + strconv.Itoa(c.s.o.MaxLine) + " bytes"})
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
		return c.answer(m)
	case m.id == "":
		return c.notification(m)
	}
	e, bad := c.s.requests.add(c.s.ctx, m, size)
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
	params := m.params
	if m.method == "tools/call" {
		params = m.rest
	}
	return c.deliver(&jsonrpc.Request{ID: e.inward(), Method: m.method, Params: raw(params), Extra: e.extra()})
}

// raw is a copy for the SDK, which keeps it; nil for nothing.
func raw(v jsontext.Value) []byte {
	if v == nil {
		return nil
	}
	return v.Clone()
}

// notification hands over one that is not for us.
func (c *stdio) notification(m message) bool {
	params := m.params
	if m.method == "notifications/cancelled" {
		id := member(params, "requestId")
		if k := id.Kind(); k != '"' && k != '0' {
			return true
		}
		e := c.s.requests.cancelled(string(id))
		if e == nil {
			return true // it has been answered, or never was
		}
		e.cancel(pipeline.CancelReason(text(member(params, "reason"))))
		params = jsontext.Value(`{"requestId":` + strconv.FormatInt(e.n, 10) + `}`)
	}
	return c.deliver(&jsonrpc.Request{Method: m.method, Params: raw(params)})
}

// answer hands over what the client says to a request of ours. One that answers
// none is nobody's.
func (c *stdio) answer(m message) bool {
	n, err := strconv.ParseFloat(m.id, 64)
	if err != nil || n != float64(int64(n)) {
		c.s.log.Debug("an answer to nothing that was asked", "id", clip(m.id))
		return true
	}
	id, _ := jsonrpc.MakeID(n)
	r := &jsonrpc.Response{ID: id, Result: raw(m.result)}
	if m.err != nil {
		code, _ := strconv.Atoi(string(member(m.err, "code")))
		r.Error = &jsonrpc.Error{Code: int64(code), Message: text(member(m.err, "message"))}
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
func (c *stdio) fail(f *fault) { c.out.Write(c.errorOf(f), nil) }

// errorOf is the answer to what is no message, or can't be taken.
func (c *stdio) errorOf(f *fault) string {
	c.s.log.Debug("refused a message", "code", f.code, "error", f.text)
	id := f.id
	if c.s.requests.named(id) {
		id = null
	}
	return errorLine(id, &jsonrpc.Error{Code: int64(f.code), Message: f.text})
}

func errorLine(id string, e *jsonrpc.Error) string {
	var b strings.Builder
	b.WriteString(`{"jsonrpc":"2.0","id":`)
	b.WriteString(id)
	b.WriteString(`,"error":`)
	b.WriteString(mustJSON(struct {
		Code    int64          `json:"code"`
		Message string         `json:"message"`
		Data    jsontext.Value `json:"data,omitzero"`
	}{e.Code, strings.ToValidUTF8(e.Message, "\uFFFD"), jsontext.Value(e.Data)}))
	b.WriteString("}\n")
	return b.String()
}

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
	n, _ := r.ID.Raw().(int64)
	e := c.s.requests.find(n)
	if e == nil {
		return
	}
	if !c.s.requests.settle(e) {
		c.s.done(e, true)
		if e.batch != nil {
			e.batch.done()
		}
		return
	}
	var line string
	if r.Error != nil {
		line = errorLine(e.id, wireError(r.Error))
	} else {
		result := e.result(r)
		var b strings.Builder
		b.Grow(len(e.id) + len(result) + 40)
		b.WriteString(`{"jsonrpc":"2.0","id":`)
		b.WriteString(e.id)
		b.WriteString(`,"result":`)
		b.WriteString(result)
		b.WriteString("}\n")
		line = b.String()
	}
	if e.batch != nil {
		e.batch.add(e, line)
		return
	}
	// Its id is free in one with the writing: it may be used again as soon as the
	// reply is read.
	c.out.Write(line, func() { c.s.requests.free(e) })
	c.s.begin()
	c.s.done(e, false)
}

// result is the JSON of the result, whoever made it.
func (e *entry) result(r *jsonrpc.Response) string {
	if e.reply == "" {
		return string(r.Result)
	}
	return e.reply
}

// wireError gives an error of the SDK the code that belongs to it: it has none
// for requests that come at the wrong time.
func wireError(err error) *jsonrpc.Error {
	e := &jsonrpc.Error{Message: err.Error()}
	var coded *jsonrpc.Error
	if errors.As(err, &coded) {
		e.Code, e.Data = coded.Code, coded.Data
	}
	if e.Code == 0 {
		e.Code = jsonrpc.CodeInvalidRequest
	}
	return e
}
