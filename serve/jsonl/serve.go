package jsonl

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/dshx/dshx/approval"
	"github.com/dshx/dshx/pipeline"
	"github.com/go-json-experiment/json/jsontext"
)

// Options are one connection's.
type Options struct {
	Scope *pipeline.Scope // calls are made in it; its approver is the connection's from now on

	// Unordered writes results as calls end, not in the order of the calls.
	Unordered bool
	// Ask reports whether calls may ask for approval; without it every
	// question is refused.
	Ask bool
	// Events, if not nil, is given a function that writes an event, which is
	// any JSON object, and returns one that ends the events.
	Events func(write func(event any)) (stop func())
	// Ending, if not nil, is called when all calls have ended and before the
	// events do, to end what goes on without a call.
	Ending func()
	// MaxLine is the longest line that is taken, 0 for MaxLine.
	MaxLine int
}

// maxPending is how many calls may wait or run; maxPendingLines how many lines
// of the greatest length theirs may be as long as, together. Past it no line is
// read.
const (
	maxPending      = 4096
	maxPendingLines = 4
)

// maxRunning is how many calls the queue has at a time, more than it runs at
// once. The others are held back while results that nobody has read yet are as
// long as the longest line.
const maxRunning = 2 * pipeline.DefaultPool

// readTime is how long a reader may take over one line once ctx has ended:
// until then it may take any time, and everybody waits for it.
const readTime = 5 * time.Second

// ErrClosed is the end of a connection whose reader has gone.
var ErrClosed = errors.New("nobody reads the results any more")

// Serve answers the requests on in until its end, until ctx ends, or until
// nobody reads out any more. All calls have ended then, and their results are
// written as far as somebody reads them; a write that nobody reads may be left.
//
// At the end of input calls in flight finish; when ctx ends they are aborted.
// Errors: nil at the end of input, ctx's cause, ErrClosed, or in's.
func Serve(ctx context.Context, in io.Reader, out io.Writer, o Options) error {
	if o.MaxLine <= 0 {
		o.MaxLine = MaxLine
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s := &server{o: o, ctx: ctx, abort: cancel, out: out, lines: make(chan line), closed: make(chan struct{}), started: time.Now(),
		calls: map[string]*entry{}, queue: pipeline.NewQueue(o.Scope, pipeline.Barrier, 0)}
	s.room.L = &s.mu
	defer s.close()
	go s.writeAll()
	defer context.AfterFunc(ctx, s.hurry)()
	if o.Ask {
		s.broker = approval.NewBroker(s.ask, 0)
		o.Scope.SetApprover(s.broker)
	} else {
		o.Scope.SetApprover(approval.Never{})
	}
	stop := func() {}
	if o.Events != nil {
		stop = o.Events(func(event any) { s.write(event) })
	}

	read := make(chan error, 1)
	go func() { read <- s.read(in) }()
	var err error
	select {
	case err = <-read:
	case <-ctx.Done():
		// Reading may never end; what it still brings is refused.
	}
	if err != nil {
		cancel(err)
	}
	s.mu.Lock()
	s.over = true
	s.room.Broadcast()
	s.mu.Unlock()
	if s.broker != nil && ctx.Err() == nil {
		s.broker.Close() // nobody is left to answer
	}
	s.writers.Wait()
	s.queue.Wait()
	if o.Ending != nil {
		o.Ending()
	}
	stop()
	s.flush()
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

type server struct {
	o      Options
	ctx    context.Context
	abort  context.CancelCauseFunc
	queue  *pipeline.Queue
	broker *approval.Broker

	// Lines are written by a goroutine that does nothing else, so that whoever
	// has one can be let go when its reader never takes it.
	out       io.Writer
	lines     chan line
	closed    chan struct{} // nothing is written any more
	closeOnce sync.Once
	started   time.Time
	begun     atomic.Int64 // when the write in progress began, after started; 0 for none

	mu      sync.Mutex
	room    sync.Cond
	calls   map[string]*entry // in flight, by the key of their id
	last    chan struct{}     // the result before has been written
	pending int
	bytes   int
	held    []*held // in the order of the calls
	running int     // calls that the queue has
	unsent  int     // length of the results that wait for being written
	unnamed int
	over    bool // no further call is taken

	writers sync.WaitGroup
}

// entry is a call until its result has been written.
type entry struct {
	id     string
	cancel context.CancelCauseFunc
}

// read takes lines until their end.
func (s *server) read(in io.Reader) error {
	l := newLines(in, s.o.MaxLine)
	for {
		line, err := l.next()
		switch {
		case err == errLong:
			s.failed(findID(line), l.n, "the line is longer than "+strconv.Itoa(s.o.MaxLine)+" bytes")
			if err := l.skip(); err != nil && err != io.EOF {
				return err
			}
			continue
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
		r, err := decode(line)
		if err != nil {
			s.failed(r.id, l.n, err.Error())
			continue
		}
		if !s.take(r, len(line)) {
			return nil
		}
	}
}

// failed answers a line that is no request.
func (s *server) failed(id string, line int, message string) {
	s.write(struct {
		ID    jsontext.Value  `json:"id"`
		OK    bool            `json:"ok"`
		Error *pipeline.Error `json:"error"`
	}{jsontext.Value(id), false, pipeline.Fail(pipeline.CodeParseError, "line "+strconv.Itoa(line)+": "+message, map[string]int{"line": line})})
}

// take carries out a request. It returns false when no more are taken.
func (s *server) take(r request, size int) bool {
	switch {
	case r.cancel != nil:
		s.mu.Lock()
		e := s.calls[key(*r.cancel)]
		s.mu.Unlock()
		if e != nil {
			e.cancel(pipeline.CancelReason(r.reason))
		}
		s.write(struct {
			Cancelled jsontext.Value `json:"cancelled"`
			Known     bool           `json:"known"`
		}{jsontext.Value(*r.cancel), e != nil})
	case r.approve != nil:
		known := s.broker != nil && s.broker.Answer(*r.approve, r.outcome)
		s.write(struct {
			Approved string `json:"approved"`
			Known    bool   `json:"known"`
		}{*r.approve, known})
	case r.ping != nil:
		s.write(struct {
			Pong jsontext.Value `json:"pong"`
		}{jsontext.Value(*r.ping)})
	default:
		return s.call(r, size)
	}
	return true
}

func (s *server) call(r request, size int) bool {
	ctx, cancel := context.WithCancelCause(s.ctx)
	e := &entry{id: r.id, cancel: cancel}
	s.mu.Lock()
	for s.pending > 0 && (s.pending >= maxPending || s.bytes+size > maxPendingLines*s.o.MaxLine) && !s.over {
		s.room.Wait()
	}
	if s.over {
		s.mu.Unlock()
		cancel(nil)
		return false
	}
	name := r.id
	if r.id == null {
		s.unnamed++
		name = "null-" + strconv.Itoa(s.unnamed)
	}
	k := key(name)
	if s.calls[k] != nil {
		s.mu.Unlock()
		cancel(nil)
		e := pipeline.Failf(pipeline.CodeDuplicateID, "a call with the id %s is in flight; it goes on", clip(r.id))
		s.write(struct {
			ID      jsontext.Value     `json:"id"`
			OK      bool               `json:"ok"`
			Error   *pipeline.Error    `json:"error"`
			Content []pipeline.Content `json:"content"`
			Card    pipeline.JSON      `json:"card"`
		}{jsontext.Value(r.id), false, e, []pipeline.Content{pipeline.Text(e.Message)}, pipeline.MarshalCard(pipeline.GenericCard{
			Title: clip(r.tool), Kind: pipeline.KindOther, Locations: []pipeline.Location{}})})
		return true
	}
	s.calls[k] = e
	s.pending++
	s.bytes += size
	before, written := s.last, make(chan struct{})
	s.last = written
	s.writers.Add(1)
	h := &held{ctx: ctx, req: pipeline.Request{ID: name, Name: r.tool, Args: r.arguments}}
	var stream *streamer
	if r.stream {
		stream = &streamer{s: s, id: r.id}
		h.req.Progress = stream.progress
	}
	h.begun = func(p *pipeline.Pending) {
		defer s.writers.Done()
		text := marshal(Reply(r.id, p.Result()))
		s.mu.Lock()
		s.running--
		long := len(text)
		if h.early {
			long = 0
		}
		s.unsent += long
		s.release()
		s.mu.Unlock()
		if stream != nil {
			stream.flush()
		}
		if before != nil && !s.o.Unordered {
			<-before
		}
		s.send(line{text, func() {
			// Out of the table in one with the writing: an id may be used again
			// as soon as its result is read, and a cancel that doesn't find the
			// call is answered behind it.
			s.mu.Lock()
			delete(s.calls, k)
			s.mu.Unlock()
		}})
		close(written)
		cancel(nil)
		s.mu.Lock()
		s.pending--
		s.bytes -= size
		s.unsent -= long
		s.release()
		s.room.Broadcast()
		s.mu.Unlock()
	}
	s.held = append(s.held, h)
	s.release()
	if slices.Contains(s.held, h) {
		// One that is cancelled needs no room.
		h.unwatch = context.AfterFunc(ctx, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			if i := slices.Index(s.held, h); i >= 0 {
				s.held = slices.Delete(s.held, i, i+1)
				h.early = true
				s.begin(h)
			}
		})
	}
	s.mu.Unlock()
	return true
}

// held is a call that the queue does not have yet.
type held struct {
	ctx     context.Context
	req     pipeline.Request
	begun   func(*pipeline.Pending) // waits for the result and writes it
	unwatch func() bool             // of ctx
	// early: it was cancelled before its turn. Its result, which is short, waits
	// for those of calls that may be held, so these must not wait for it.
	early bool
}

// release gives the queue what there is room for, in order, so that what
// results wait for is among what it has. s.mu is held.
func (s *server) release() {
	for len(s.held) > 0 && s.running < maxRunning && s.unsent < s.o.MaxLine {
		h := s.held[0]
		s.held[0] = nil
		s.held = s.held[1:]
		s.begin(h)
	}
}

// begin gives the queue a call. s.mu is held.
func (s *server) begin(h *held) {
	if h.unwatch != nil {
		h.unwatch()
	}
	s.running++
	p := s.queue.Submit(h.ctx, h.req)
	go h.begun(p)
}

// clip is the beginning of a text that may be of any length.
func clip(s string) string {
	if len(s) <= 100 {
		return s
	}
	return strings.ToValidUTF8(s[:100], "") + "…"
}

// Reply is the object of a call's result. id is a JSON value.
func Reply(id string, result pipeline.Result) any {
	type head struct {
		ID jsontext.Value `json:"id"`
		OK bool           `json:"ok"`
	}
	type tail struct {
		Content []pipeline.Content `json:"content"`
		Card    pipeline.JSON      `json:"card"`
		Meta    pipeline.JSON      `json:"meta,omitzero"`
	}
	h := head{jsontext.Value(id), result.OK()}
	t := tail{result.Content(), pipeline.MarshalCard(result.Card()), result.Meta()}
	if result.OK() {
		return struct {
			head
			Value pipeline.JSON `json:"value"`
			tail
		}{h, result.Value(), t}
	}
	return struct {
		head
		Error *pipeline.Error `json:"error"`
		tail
	}{h, result.Failure(), t}
}

// ask brings a question to the reader.
func (s *server) ask(q approval.Asked) {
	id := q.Call.RootID()
	if len(id) > 5 && id[:5] == "null-" {
		id = null
	}
	s.write(struct {
		ID       jsontext.Value `json:"id"`
		Event    string         `json:"event"`
		Approval string         `json:"approval"`
		Reason   string         `json:"reason"`
		Grants   pipeline.JSON  `json:"grants"`
	}{jsontext.Value(id), "approval", q.ID, q.DisplayReason, q.Grants})
}

// A line is one line of output; with is called just before it is written.
type line struct {
	text string
	with func()
}

// write writes one line. A reader that doesn't read stops whoever writes; when
// it has gone, everything ends.
func (s *server) write(v any) { s.send(line{text: marshal(v)}) }

func marshal(v any) string {
	j, err := pipeline.MarshalValue(v)
	if err != nil {
		j, _ = pipeline.MarshalValue(map[string]any{"id": nil, "ok": false,
			"error": pipeline.Failf(pipeline.CodeInternal, "a reply can't be written as JSON: %v", err)})
	}
	return j.String() + "\n"
}

func (s *server) send(l line) {
	select {
	case s.lines <- l:
	case <-s.closed:
		if l.with != nil {
			l.with()
		}
	}
}

// writeAll writes lines until there are no more.
func (s *server) writeAll() {
	for {
		select {
		case l := <-s.lines:
			if l.with != nil {
				l.with()
			}
			if l.text == "" {
				continue
			}
			s.begun.Store(int64(time.Since(s.started)) | 1)
			_, err := io.WriteString(s.out, l.text)
			s.begun.Store(0)
			if err != nil {
				s.abort(ErrClosed)
				s.close()
			}
		case <-s.closed:
			return
		}
	}
}

// flush returns when what was written before is out.
func (s *server) flush() {
	out := make(chan struct{})
	select {
	case s.lines <- line{"", func() { close(out) }}:
		<-out
	case <-s.closed:
	}
}

// close drops what is written from now on.
func (s *server) close() { s.closeOnce.Do(func() { close(s.closed) }) }

// hurry closes the output when its reader is stuck at a line.
func (s *server) hurry() {
	over := time.Since(s.started)
	for {
		select {
		case <-s.closed:
			return
		case <-time.After(readTime / 50):
		}
		begun := time.Duration(s.begun.Load())
		if begun != 0 && time.Since(s.started)-max(begun, over) > readTime {
			s.close()
			return
		}
	}
}

// streamer makes events of what a body reports.
type streamer struct {
	s  *server
	id string

	mu   sync.Mutex
	kept map[string][]byte // by stream, the beginning of a rune
}

func (t *streamer) progress(p pipeline.Progress) {
	t.mu.Lock()
	data := append(t.kept[p.Stream], p.Data...)
	n := len(data)
	if utf8.Valid(data) {
		delete(t.kept, p.Stream)
	} else if cut := incomplete(data); cut < n && utf8.Valid(data[:cut]) {
		// The rest of the rune comes with what is next.
		if t.kept == nil {
			t.kept = map[string][]byte{}
		}
		t.kept[p.Stream] = append([]byte(nil), data[cut:]...)
		data = data[:cut]
	} else {
		delete(t.kept, p.Stream)
	}
	t.mu.Unlock()
	t.event(p.Stream, data)
}

// incomplete is where a rune begins that the end of b cuts off, or len(b).
func incomplete(b []byte) int {
	for i := len(b) - 1; i >= 0 && i >= len(b)-utf8.UTFMax; i-- {
		if utf8.RuneStart(b[i]) {
			if !utf8.FullRune(b[i:]) {
				return i
			}
			break
		}
	}
	return len(b)
}

func (t *streamer) flush() {
	t.mu.Lock()
	kept := t.kept
	t.kept = nil
	t.mu.Unlock()
	for stream, data := range kept {
		t.event(stream, data)
	}
}

func (t *streamer) event(stream string, data []byte) {
	if len(data) == 0 {
		return
	}
	e := struct {
		ID     jsontext.Value `json:"id"`
		Event  string         `json:"event"`
		Stream string         `json:"stream"`
		Text   *string        `json:"text,omitzero"`
		Base64 *string        `json:"base64,omitzero"`
	}{ID: jsontext.Value(t.id), Event: "output", Stream: stream}
	if utf8.Valid(data) {
		text := string(data)
		e.Text = &text
	} else {
		text := base64.StdEncoding.EncodeToString(data)
		e.Base64 = &text
	}
	t.s.write(e)
}
