package jsonl

import (
	"context"
	"encoding/base64"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/dshx/dshx/approval"
	"github.com/dshx/dshx/pipeline"
	"github.com/dshx/dshx/serve/internal/wire"
	"github.com/go-json-experiment/json/jsontext"
)

// Options are one connection's.
type Options struct {
	Scope *pipeline.Scope // calls are made in it

	// Unordered writes results as calls end, not in the order of the calls.
	Unordered bool
	// Approvals, if not nil, is the approver of Scope: its questions go to the
	// reader as long as there is somebody to answer.
	Approvals *approval.Service
	// Events, if not nil, is given a function that writes an event, which is
	// any JSON object, and returns one that ends the events.
	Events func(write func(event any)) (stop func())
	// End, if not nil, ends what outlives the calls. It is called once: when all
	// calls have ended, or beside them as soon as they are aborted.
	End func()
	// MaxLine is the longest line that is taken, 0 for MaxLine.
	MaxLine int

	patience time.Duration // 0: patience
	maxHeld  int           // 0: maxHeld
}

const (
	// maxPending is how many calls may wait or run; maxPendingLines how many
	// lines of the greatest length theirs may be as long as, together. Past it no
	// line is read.
	maxPending      = 4096
	maxPendingLines = 4
	// maxHeld is how long results may be together that wait to be written, in
	// bytes. Past it no call begins.
	maxHeld = 32 << 20
	// patience is for how long a reader may take nothing when all is to end: one
	// that has stopped reading must not keep what was started alive.
	patience = 5 * time.Second
)

// MaxLine is the longest line that is taken, without its end.
const MaxLine = wire.MaxLine

// ErrClosed is the end of a connection whose reader has gone.
var ErrClosed = wire.ErrClosed

// Serve answers the requests on in until its end, until ctx ends, or until
// nobody reads out any more. All calls have ended then, and their results are
// written as far as somebody reads them.
//
// At the end of input calls in flight finish; when ctx ends they are aborted,
// and a reader that takes nothing for some seconds then is taken to have gone.
// A Write of out that never returns is left behind.
// Errors: nil at the end of input, ctx's cause, ErrClosed, or in's.
func Serve(ctx context.Context, in io.Reader, out io.Writer, o Options) error {
	if o.MaxLine <= 0 {
		o.MaxLine = MaxLine
	}
	if o.patience <= 0 {
		o.patience = patience
	}
	if o.maxHeld <= 0 {
		o.maxHeld = maxHeld
	}
	if o.End == nil {
		o.End = func() {}
	}
	ctx, unwatch := wire.WhileRead(ctx, out)
	defer unwatch()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s := &server{o: o, ctx: ctx, abort: cancel, out: wire.NewOutput(out), calls: map[string]*entry{}, queue: pipeline.NewQueue(o.Scope, pipeline.Barrier, 0)}
	s.room.L = &s.mu
	leave := func() {}
	if o.Approvals != nil {
		s.broker = approval.NewBroker(s.ask)
		leave = o.Approvals.Use(s.broker)
		defer leave()
	}
	go s.out.Run(func() { cancel(ErrClosed) })
	defer s.out.Leave()
	end := sync.OnceFunc(o.End)
	context.AfterFunc(ctx, func() {
		go s.out.Watch(o.patience)
		end()
	})
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
	if ctx.Err() == nil {
		leave() // nobody is left to answer; else the calls are aborted
	}
	s.writers.Wait()
	s.queue.Wait()
	end()
	stop()
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

	out *wire.Output

	mu      sync.Mutex
	room    sync.Cond
	calls   map[string]*entry // in flight, by the key of their id
	last    chan struct{}     // the result before has been written
	pending int
	bytes   int
	held    int // bytes of results that wait to be written
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
	l := wire.NewLines(in, s.o.MaxLine)
	for {
		line, err := l.Next()
		switch {
		case err == wire.ErrLong:
			s.failed(findID(line), l.Number(), "the line is longer than "+strconv.Itoa(s.o.MaxLine)+" bytes")
			if err := l.Skip(); err != nil && err != io.EOF {
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
			s.failed(r.id, l.Number(), err.Error())
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
		e := s.calls[wire.Key(*r.cancel)]
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
	k := wire.Key(name)
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
	s.mu.Unlock()

	req := pipeline.Request{ID: name, Name: r.tool, Args: r.arguments}
	var stream *streamer
	if r.stream {
		stream = &streamer{s: s, id: r.id}
		req.Progress = stream.progress
	}
	var reply string
	held := 0
	p := s.queue.SubmitThen(ctx, req, func(result pipeline.Result) {
		reply = encode(Reply(r.id, result))
		// What never began may wait behind a call that may not begin: it must
		// not keep that one from it.
		if e := result.Failure(); e == nil || e.Code != pipeline.CodeCancelled {
			held = len(reply)
			s.hold(held)
		}
	})
	go func() {
		defer s.writers.Done()
		<-p.Done()
		if stream != nil {
			stream.flush()
		}
		if before != nil && !s.o.Unordered {
			<-before
		}
		s.out.Write(reply, func() {
			// Out of the table in one with the writing: an id may be used again
			// as soon as its result is read, and a cancel that doesn't find the
			// call is answered behind it.
			s.mu.Lock()
			delete(s.calls, k)
			s.mu.Unlock()
		})
		close(written)
		cancel(nil)
		if held > 0 {
			s.hold(-held)
		}
		s.mu.Lock()
		s.pending--
		s.bytes -= size
		s.room.Broadcast()
		s.mu.Unlock()
	}()
	return true
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
func (s *server) ask(q approval.Question) {
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

// hold counts bytes of results that wait to be written, and lets calls begin or
// not by it. The oldest call of those that have no result yet has begun, so what
// waits for it comes to be written.
func (s *server) hold(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	full := s.held > s.o.maxHeld
	if s.held += n; full != (s.held > s.o.maxHeld) {
		s.queue.Hold(!full)
	}
}

// write writes one line. A reader that doesn't read stops whoever writes; when
// it has gone, everything ends.
func (s *server) write(v any) { s.out.Write(encode(v), nil) }

// encode is v as a line.
func encode(v any) string {
	j, err := pipeline.MarshalValue(v)
	if err != nil {
		j, _ = pipeline.MarshalValue(map[string]any{"id": nil, "ok": false,
			"error": pipeline.Failf(pipeline.CodeInternal, "a reply can't be written as JSON: %v", err)})
	}
	return j.String() + "\n"
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
