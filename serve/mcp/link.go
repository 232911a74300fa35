package mcp

import (
	"context"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// link is the transport and the connection of one session over HTTP. Messages
// come in by requests of HTTP. Those that go out belong to the stream of the
// request that they are about, or else to the one that the client opened for
// them, and wait for it while there is none.
type link struct {
	s        *session
	id       string
	messages chan jsonrpc.Message
	over     chan struct{} // closed when nothing goes in any more

	mu      sync.Mutex
	streams map[*stream]struct{} // that are being written
	apart   *stream              // for what is about no request; nil while there is none
	waiting []event              // for that
	hurried time.Duration        // the patience with streams that come; 0: theirs
}

func newLink(s *session, id string) *link {
	return &link{s: s, id: id, messages: make(chan jsonrpc.Message), over: make(chan struct{}), streams: map[*stream]struct{}{}}
}

// Connect is the connection itself.
func (c *link) Connect(context.Context) (sdk.Connection, error) { return c, nil }

// SessionID is the session's.
func (c *link) SessionID() string { return c.id }

// Close does nothing: the session ends the connection, when everything has been
// answered.
func (c *link) Close() error { return nil }

// Read is the next message. Errors: io.EOF when everything has been answered.
func (c *link) Read(context.Context) (jsonrpc.Message, error) {
	select {
	case m := <-c.messages:
		return m, nil
	case <-c.over:
		return nil, io.EOF
	}
}

func (c *link) deliver(m jsonrpc.Message) bool {
	select {
	case c.messages <- m:
		return true
	case <-c.over:
		return false
	}
}

// Write has written what the SDK has to say. It never fails, which would end the
// session, and never waits: a client may read one of its streams and not another.
func (c *link) Write(ctx context.Context, m jsonrpc.Message) error {
	if r, ok := m.(*jsonrpc.Response); ok {
		c.reply(r)
		return nil
	}
	text, err := jsonrpc.EncodeMessage(m)
	if err != nil {
		return err
	}
	r, _ := m.(*jsonrpc.Request)
	ev := event{message: string(text), optional: !r.IsCall()}
	unanswered := func() {
		_ = c.deliver(&jsonrpc.Response{ID: r.ID, Error: &jsonrpc.Error{Code: codeBusy, Message: "the client has no stream open for it"}})
	}
	if r.IsCall() {
		ev.end = func(written bool) {
			if !written {
				go unanswered()
			}
		}
	}
	if e, _ := ctx.Value(entryKey{}).(*entry); e != nil {
		// What is about a request is of no use to who can't get its reply any more.
		switch {
		case r.IsCall() && e.to.ask(ev, unanswered), e.to.put(ev):
		default:
			ev.ended(false)
		}
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.apart == nil || !c.apart.put(ev) {
		c.wait(ev)
	}
	return nil
}

// wait keeps an event for the next stream that is about no request. The lock is
// held.
func (c *link) wait(ev event) {
	c.waiting = append(c.waiting, ev)
	if n := len(c.waiting) - maxNotes; n > 0 {
		for _, lost := range c.waiting[:n] {
			lost.ended(false)
		}
		c.waiting = append([]event(nil), c.waiting[n:]...)
	}
}

// reply has the reply to a request written, unless it was cancelled, and ends
// its stream.
func (c *link) reply(r *jsonrpc.Response) {
	e, text := c.s.outward(r, "")
	switch {
	case e == nil:
		return
	case text == "":
		e.to.finish(nil)
		c.s.done(e, true)
		return
	}
	// Its id is free in one with the writing: it may be used again as soon as the
	// reply is read.
	written := e.to.finish(&event{message: text, begin: func() { c.s.requests.free(e) }, end: func(written bool) {
		c.s.done(e, !written)
	}})
	if !written {
		c.s.done(e, true)
	}
	c.s.begin()
}

// serve writes a stream. What it leaves is lost with it: the protocol has no other
// place for it.
func (c *link) serve(st *stream, w http.ResponseWriter, r *http.Request) {
	c.enter(st)
	defer c.exit(st)
	left := st.serve(w, r, nil, false)
	for _, unanswered := range st.asked {
		unanswered() // if it wasn't answered: else nobody takes it
	}
	for _, e := range left {
		e.ended(false)
	}
}

// serveApart writes the stream that is about no request, of which there is one.
// It returns false where there is one already. What it leaves waits for the next.
func (c *link) serveApart(w http.ResponseWriter, r *http.Request) bool {
	st := newStream()
	c.mu.Lock()
	if c.apart != nil {
		c.mu.Unlock()
		return false
	}
	c.apart = st
	for _, e := range c.waiting {
		st.put(e)
	}
	c.waiting = nil
	c.mu.Unlock()
	c.enter(st)
	left := st.serve(w, r, c.over, true)
	c.exit(st)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.apart = nil
	later := c.waiting
	c.waiting = nil
	for _, e := range append(left, later...) {
		c.wait(e)
	}
	return true
}

func (c *link) enter(st *stream) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.streams[st] = struct{}{}
	if c.hurried > 0 {
		st.hurry(c.hurried)
	}
}

func (c *link) exit(st *stream) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.streams, st)
}

// hurry gives clients that take nothing less time from now on.
func (c *link) hurry(patience time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hurried = patience
	for st := range c.streams {
		st.hurry(patience)
	}
}

// close ends what is about no request: nothing goes in or out any more.
func (c *link) close() {
	close(c.over)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range c.waiting {
		e.ended(false)
	}
	c.waiting = nil
}
