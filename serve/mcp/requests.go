package mcp

import (
	"context"
	"sync"

	"github.com/dshx/dshx/pipeline"
	"github.com/dshx/dshx/serve/internal/wire"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// requests are those of a client that have no reply yet. The SDK knows them by
// numbers, the client by ids, which are any string or number.
type requests struct {
	max      int // how many there may be
	maxBytes int // how long their lines may be together

	mu      sync.Mutex
	changed sync.Cond
	last    int64
	byID    map[int64]*entry  // all of them, by the number inwards
	byKey   map[string]*entry // those that can be named: no other may have the id
	bytes   int
	turn    <-chan struct{} // closed when the call that came last has had its turn
	over    bool            // none is taken any more
}

func newRequests(max, maxBytes int) *requests {
	first := make(chan struct{})
	close(first)
	r := &requests{max: max, maxBytes: maxBytes, byID: map[int64]*entry{}, byKey: map[string]*entry{}, turn: first}
	r.changed.L = &r.mu
	return r
}

// entry is one request.
type entry struct {
	id     string // as it was written
	n      int64  // inwards
	method string
	size   int
	args   []byte // of tools/call
	token  string // for progress, as it was written; "" without one
	batch  *batch // that the reply belongs to; nil for a line of its own

	to *stream // that its reply goes to; nil over standard streams

	ctx    context.Context // ends when the client or the session cancels the request
	cancel context.CancelCauseFunc

	// Calls begin in the order in which they came: before is closed when those
	// that came earlier have had their turn.
	before <-chan struct{}
	had    chan struct{}
	once   sync.Once

	// Written by the handler, before the SDK hands in its response.
	reply string          // the result's JSON, in place of the response's; "" for that one
	held  int             // counted as waiting to be written
	jobs  []pipeline.JSON // ends of jobs that the reply tells of

	// Guarded by requests.mu.
	cancelled bool // by the client, which gets no reply
	settled   bool // the reply is being written, or was dropped
}

// entryKey is the entry's key in its context, and so in that of everything that
// is written on its behalf.
type entryKey struct{}

// pass gives the turn to the next call. The entry's own turn has come.
func (e *entry) pass() { e.once.Do(func() { close(e.had) }) }

// leave gives the turn on as soon as it has come, for an entry that needn't it.
func (e *entry) leave() {
	e.once.Do(func() {
		select {
		case <-e.before:
			close(e.had)
		default:
			go func() {
				<-e.before
				close(e.had)
			}()
		}
	})
}

// add takes a request. It never waits: a client must be heard, whatever it has in
// flight, for it to cancel and to answer. It returns nil and no fault when none is
// taken any more.
func (r *requests) add(ctx context.Context, m message, size int) (*entry, *fault) {
	key := wire.Key(m.id)
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.over:
		return nil, nil
	case r.byKey[key] != nil:
		return nil, invalid("a request with the id " + clip(m.id) + " is in flight; it goes on")
	case len(r.byID) > 0 && (len(r.byID) >= r.max || r.bytes+size > r.maxBytes):
		return nil, &fault{id: m.id, code: codeBusy, text: "too many requests are in flight; send it again when some have been answered"}
	}
	r.last++
	e := &entry{id: m.id, n: r.last, method: m.method, size: size}
	e.ctx, e.cancel = context.WithCancelCause(context.WithValue(ctx, entryKey{}, e))
	if m.method == "tools/call" {
		if m.args.Kind() != 'n' {
			e.args = m.args.Clone()
		}
		if k := m.token.Kind(); k == '"' || k == '0' {
			e.token = string(m.token)
		}
		e.before, e.had = r.turn, make(chan struct{})
		r.turn = e.had
	}
	r.byID[e.n], r.byKey[key] = e, e
	r.bytes += size
	return e, nil
}

// codeBusy is the first of the codes that JSON-RPC leaves to servers.
const codeBusy = -32000

// named reports whether an id is that of a request in flight, which a reply with
// it would be taken for.
func (r *requests) named(id string) bool {
	key := wire.Key(id)
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.byKey[key] != nil
}

// find is the request with a number, or nil.
func (r *requests) find(n int64) *entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.byID[n]
}

// cancelled ends the request with an id, which gets no reply and whose id is
// free. It returns nil where there is none, or its reply is on its way.
func (r *requests) cancelled(id string) *entry {
	key := wire.Key(id)
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.byKey[key]
	if e == nil || e.settled || e.method == "initialize" { // which the protocol doesn't let be cancelled
		return nil
	}
	e.cancelled = true
	delete(r.byKey, key)
	return e
}

// settle reports whether the reply to a request is to be written: from now on a
// cancel comes too late.
func (r *requests) settle(e *entry) bool {
	if e.had != nil {
		e.leave()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	e.settled = true
	return !e.cancelled
}

// free lets the id be used again.
func (r *requests) free(e *entry) {
	key := wire.Key(e.id)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byKey[key] == e {
		delete(r.byKey, key)
	}
}

// forget ends the request: its reply is written, or nobody gets one.
func (r *requests) forget(e *entry) {
	e.cancel(nil)
	r.free(e)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.byID, e.n)
	r.bytes -= e.size
	r.changed.Broadcast()
}

// pending is how many there are.
func (r *requests) pending() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.byID)
}

// end takes none any more, and waits for those that are there.
func (r *requests) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
	r.changed.Broadcast()
	for len(r.byID) > 0 {
		r.changed.Wait()
	}
}

// inward is the id that the SDK gets.
func (e *entry) inward() jsonrpc.ID {
	id, _ := jsonrpc.MakeID(float64(e.n)) // exact up to 2^53
	return id
}
