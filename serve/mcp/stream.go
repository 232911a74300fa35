package mcp

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

const (
	// keepAlive is for how long a stream is silent before a comment goes out: many
	// proxies end one that says nothing for a minute.
	keepAlive = 15 * time.Second
	// maxStuck is for how long a client may take nothing of what is written to it
	// before its connection is taken to have gone.
	maxStuck = 2 * time.Minute
	// maxNotes is how many messages wait for a client that reads slowly, replies
	// and questions not counted, of which there are as many as calls. Others are
	// dropped then.
	maxNotes = 128
	// maxPiece is how much is written at once: a client that takes little is told
	// from one that takes nothing.
	maxPiece = 64 << 10
)

// event is one message on its way to the client.
type event struct {
	message string
	// optional says that it may be dropped where too much waits.
	optional bool
	begin    func()             // called before it is written; nil for nothing
	end      func(written bool) // called once, when it was written or never will be; nil for nothing
}

func (e event) ended(written bool) {
	if e.end != nil {
		e.end(written)
	}
}

// stream is the events of one HTTP response: those about one request up to its
// reply, or those about none. Whoever has something to say never waits: the
// handler of the request writes.
type stream struct {
	news chan struct{} // holds one when there is something in the queue

	mu    sync.Mutex
	queue []event
	asked []func() // for each question, what is to be done where its stream has gone
	last  bool     // nothing comes behind the queue
	over  bool     // nobody writes any more

	// How long the client may take nothing; set while the response is written.
	patience time.Duration
	conn     *http.ResponseController
}

func newStream() *stream { return &stream{news: make(chan struct{}, 1), patience: maxStuck} }

// put has an event written. It reports false, and has done nothing, when nobody
// writes any more.
func (st *stream) put(e event) bool { return st.add(&e, false) }

// ask is put for a question; lost is called when the stream ends, whether it was
// answered or not.
func (st *stream) ask(e event, lost func()) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.over || st.last {
		return false
	}
	st.asked = append(st.asked, lost)
	st.push(&e, false)
	return true
}

// finish ends the stream with an event, or with none, when what waits has been
// written.
func (st *stream) finish(e *event) bool { return st.add(e, true) }

func (st *stream) add(e *event, last bool) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.over || st.last {
		return false
	}
	st.push(e, last)
	return true
}

func (st *stream) push(e *event, last bool) {
	if e != nil && !(e.optional && len(st.queue) >= maxNotes) {
		st.queue = append(st.queue, *e)
	}
	st.last = last
	select {
	case st.news <- struct{}{}:
	default:
	}
}

// take is the next event; ok says that there is one, more that there may be.
func (st *stream) take() (e event, ok, more bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if len(st.queue) == 0 {
		return e, false, !st.last
	}
	e = st.queue[0]
	st.queue[0] = event{}
	st.queue = st.queue[1:]
	return e, true, true
}

// hurry gives the client less time from now on.
func (st *stream) hurry(patience time.Duration) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.patience = patience
	st.extend()
}

// extend begins the client's time anew. The lock is held, or nobody else has the
// stream yet.
func (st *stream) extend() {
	if st.conn != nil {
		_ = st.conn.SetWriteDeadline(time.Now().Add(st.patience)) // what can't have one is no network connection
	}
}

// serve writes events until the last, the end of the client, or over. It returns
// those that were not written. early has the client know at once that the stream
// is there.
func (st *stream) serve(w http.ResponseWriter, r *http.Request, over <-chan struct{}, early bool) []event {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache, no-transform")
	h.Set("X-Accel-Buffering", "no") // nginx, ngx_http_proxy_module: proxy_buffering
	st.mu.Lock()
	st.conn = http.NewResponseController(w)
	st.extend()
	st.mu.Unlock()
	defer func() {
		st.mu.Lock()
		st.extend() // what is left to be flushed
		st.conn = nil
		st.mu.Unlock()
	}()
	if early && st.write(w) != nil {
		return st.leave()
	}
	quiet := time.NewTimer(keepAlive)
	defer quiet.Stop()
	for {
		e, ok, more := st.take()
		switch {
		case ok:
			if e.begin != nil {
				e.begin()
			}
			err := st.write(w, "event: message\ndata: ", strings.ReplaceAll(e.message, "\n", "\ndata: "), "\n\n")
			e.ended(err == nil)
			if err != nil {
				return st.leave()
			}
			quiet.Reset(keepAlive)
			continue
		case !more:
			return st.leave()
		}
		select {
		case <-st.news:
		case <-quiet.C:
			if st.write(w, ": alive\n\n") != nil {
				return st.leave()
			}
			quiet.Reset(keepAlive)
		case <-r.Context().Done():
			return st.leave()
		case <-over:
			return st.leave()
		}
	}
}

// write writes texts and has them sent.
func (st *stream) write(w http.ResponseWriter, texts ...string) error {
	for _, text := range texts {
		for text != "" {
			st.mu.Lock()
			st.extend()
			st.mu.Unlock()
			n, err := io.WriteString(w, text[:min(len(text), maxPiece)])
			if err != nil {
				return err
			}
			text = text[n:]
		}
	}
	return st.conn.Flush()
}

// leave ends the writing and returns what was not written.
func (st *stream) leave() []event {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.over = true
	left := st.queue
	st.queue = nil
	return left
}
