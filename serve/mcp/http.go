package mcp

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"io"
	"log/slog"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dshx/dshx/serve/internal/wire"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// HTTPOptions are those of ServeHTTP.
type HTTPOptions struct {
	// Options are each session's. Open is not used.
	Options
	// OpenSession is Open of the session with a name: conn-1, conn-2 …
	OpenSession func(name string) (Session, error)
	// Token is what a client must have.
	Token string
	// AnyAddress takes requests that name the server by any address. Without it, by
	// a loopback one. Names are those that do besides addresses and localhost.
	AnyAddress bool
	Names      []string
	// MaxSessions is how many sessions there may be, 0 for DefaultMaxSessions. Idle
	// is for how long one is kept without a request in flight or a stream that is
	// open; 0 for DefaultIdle.
	MaxSessions int
	Idle        time.Duration
}

// Defaults of HTTPOptions.
const (
	DefaultMaxSessions = 64
	DefaultIdle        = 30 * time.Minute
)

const (
	// headTime and bodyTime are for how long the head of a request and the whole of
	// it may take to come.
	headTime = 10 * time.Second
	bodyTime = time.Minute
	// maxHead is how long the head of a request may be, in bytes.
	maxHead = 64 << 10
	// maxBodies is how many bodies of the greatest length those may be as long as,
	// together, that are read at the same time.
	maxBodies = 4
	// maxConns is how many connections there may be.
	maxConns = 2048
	// unsupportedVersion is the protocol's code for a version that isn't spoken.
	unsupportedVersion = -32022
	sessionHeader      = "Mcp-Session-Id"
	versionHeader      = "Mcp-Protocol-Version"
)

// errExpired and errDeleted are why sessions end.
var (
	errExpired = errors.New("the session was idle for too long")
	errDeleted = errors.New("the client has ended the session")
	errNone    = errors.New("the session was not begun")
)

// ServeHTTP answers requests to l by streamable HTTP at /mcp until ctx ends. Each
// client that initializes has a session. All have ended then, as over standard
// streams, and l is closed.
//
// A request is refused, and its body not read, by the first of these that holds:
// another path (404) or method (405); a Host or an Origin of somewhere else
// (403); no token, or another (401); a session that isn't there (404), none where
// one is needed (400), one too many (429).
//
// Errors: ctx's cause, or l's.
func ServeHTTP(ctx context.Context, l net.Listener, o HTTPOptions) error {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.Options = o.withDefaults()
	o.MaxSessions = cmp.Or(max(o.MaxSessions, 0), DefaultMaxSessions)
	o.Idle = cmp.Or(max(o.Idle, 0), DefaultIdle)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	d := &door{o: o, ctx: ctx, token: sha256.Sum256([]byte(o.Token)), bodies: newGate(maxBodies * int64(o.MaxLine)), visits: map[string]*visit{}}
	conns := make(chan struct{}, maxConns)
	server := &http.Server{
		Handler: d, ReadHeaderTimeout: headTime, ReadTimeout: bodyTime, WriteTimeout: maxStuck, IdleTimeout: maxStuck, MaxHeaderBytes: maxHead,
		ErrorLog: slog.NewLogLogger(quiet{o.Log.Handler()}, slog.LevelDebug),
		ConnState: func(_ net.Conn, state http.ConnState) {
			if state == http.StateClosed {
				<-conns
			}
		},
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(&bounded{l, conns, ctx}) }()
	var err error
	select {
	case <-ctx.Done():
		err = context.Cause(ctx)
	case err = <-served:
		err = cmp.Or(context.Cause(ctx), err)
		cancel(err)
	}
	stopped := make(chan struct{})
	last, leave := context.WithCancel(context.Background())
	go func() {
		defer close(stopped)
		_ = server.Shutdown(last) // nothing new; what runs goes on
	}()
	d.close(err)
	// All streams have had their last event. Who doesn't take it holds up nobody.
	select {
	case <-stopped:
	case <-time.After(o.patience):
	}
	leave()
	_ = server.Close()
	<-stopped
	return err
}

// withDefaults fills in what was not given.
func (o Options) withDefaults() Options {
	o.MaxLine = cmp.Or(max(o.MaxLine, 0), wire.MaxLine)
	o.patience = cmp.Or(max(o.patience, 0), patience)
	o.maxHeld = cmp.Or(max(o.maxHeld, 0), maxHeld)
	o.maxPending = cmp.Or(max(o.maxPending, 0), maxPending)
	return o
}

// bounded is a listener that takes no connection while there are too many.
type bounded struct {
	net.Listener
	conns chan struct{}
	ctx   context.Context
}

// Accept waits for room, and for a connection.
func (b *bounded) Accept() (net.Conn, error) {
	select {
	case b.conns <- struct{}{}:
	case <-b.ctx.Done():
		return nil, net.ErrClosed
	}
	c, err := b.Listener.Accept()
	if err != nil {
		<-b.conns
	}
	return c, err
}

// gate lets in no more at a time than there is room for.
type gate struct {
	mu    sync.Mutex
	room  int64
	moved chan struct{} // closed when there is more room
}

func newGate(room int64) *gate { return &gate{room: room, moved: make(chan struct{})} }

// enter waits for room until ctx ends.
func (g *gate) enter(ctx context.Context, n int64) bool {
	for {
		g.mu.Lock()
		if g.room >= n {
			g.room -= n
			g.mu.Unlock()
			return true
		}
		moved := g.moved
		g.mu.Unlock()
		select {
		case <-moved:
		case <-ctx.Done():
			return false
		}
	}
}

func (g *gate) leave(n int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.room += n
	close(g.moved)
	g.moved = make(chan struct{})
}

// door is the handler: who may come in, and to which session.
type door struct {
	o      HTTPOptions
	ctx    context.Context
	token  [sha256.Size]byte // of the token; of one length whatever comes
	bodies *gate

	mu     sync.Mutex
	visits map[string]*visit // by their ids
	taken  int               // those that are ending are there, too
	number int               // of the last
	over   bool
	ending sync.WaitGroup
}

// visit is one client's session.
type visit struct {
	id string
	s  *session
	c  *link

	// Guarded by door.mu.
	busy  int // requests of HTTP
	since time.Time
	idle  *time.Timer
	ended chan struct{} // closed when nothing of it is left; nil until it ends
}

// refuse answers a request that is let in no further. What it brings is not read.
func refuse(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Connection", "close")
	http.Error(w, "dshx: "+text, status)
}

// ServeHTTP is one request.
func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	if r.URL.Path != "/mcp" {
		refuse(w, http.StatusNotFound, "there is nothing here but /mcp")
		return
	}
	switch r.Method {
	case http.MethodPost, http.MethodGet, http.MethodDelete:
	default:
		w.Header().Set("Allow", "GET, POST, DELETE")
		refuse(w, http.StatusMethodNotAllowed, "want GET, POST or DELETE")
		return
	}
	switch {
	case !d.named(r.Host):
		refuse(w, http.StatusForbidden, "the Host is not one that this server goes by: a page may have got here by a name of its own")
		return
	case !sameOrigin(r):
		refuse(w, http.StatusForbidden, "pages of another origin have no business here")
		return
	case !d.authorized(r):
		w.Header().Set("WWW-Authenticate", `Bearer realm="dshx"`)
		refuse(w, http.StatusUnauthorized, "a request needs the header Authorization: Bearer TOKEN, with the token of the server's token file")
		return
	}
	var v *visit
	if id := r.Header.Get(sessionHeader); id != "" {
		if v = d.enter(id); v == nil {
			refuse(w, http.StatusNotFound, "there is no such session, or none any more; initialize a new one")
			return
		}
		defer d.leave(v)
	}
	switch {
	case r.Method == http.MethodPost:
		d.post(w, r, v)
	case v == nil:
		refuse(w, http.StatusBadRequest, "a "+r.Method+" needs the header "+sessionHeader)
	case !spoken(r.Header.Get(versionHeader)):
		refuse(w, http.StatusBadRequest, "the protocol version is not spoken; there are "+strings.Join(versions(), ", "))
	case r.Method == http.MethodDelete:
		select {
		case <-d.end(v, errDeleted):
		case <-r.Context().Done():
			return
		}
		w.WriteHeader(http.StatusNoContent)
	case !accepts(r, "text/event-stream"):
		refuse(w, http.StatusNotAcceptable, "a GET is answered with text/event-stream, which it must accept")
	default:
		d.untimed(w)
		if !v.c.serveApart(w, r) {
			refuse(w, http.StatusConflict, "the session has such a stream")
		}
	}
}

// named reports whether a Host names this server: a page that had its own name
// lead here sends that one.
func (d *door) named(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	} else {
		name = strings.TrimSuffix(strings.TrimPrefix(name, "["), "]")
	}
	if strings.EqualFold(name, "localhost") || slices.ContainsFunc(d.o.Names, func(n string) bool { return n != "" && strings.EqualFold(n, name) }) {
		return true
	}
	addr, err := netip.ParseAddr(name)
	return err == nil && addr.Zone() == "" && (d.o.AnyAddress || addr.Unmap().IsLoopback())
}

// sameOrigin reports whether a request comes from no page, or from one of this
// server.
func sameOrigin(r *http.Request) bool {
	switch given := r.Header["Origin"]; len(given) {
	case 0:
		return true
	case 1:
		u, err := url.Parse(given[0])
		return err == nil && (u.Scheme == "http" || u.Scheme == "https") && strings.EqualFold(u.Host, r.Host)
	}
	return false
}

func (d *door) authorized(r *http.Request) bool {
	given := r.Header["Authorization"]
	if len(given) != 1 {
		return false
	}
	scheme, token, _ := strings.Cut(given[0], " ")
	sum := sha256.Sum256([]byte(strings.TrimLeft(token, " ")))
	return strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare(sum[:], d.token[:]) == 1
}

// spoken reports whether a version, if one is given, is spoken.
func spoken(version string) bool { return version == "" || slices.Contains(versions(), version) }

// accepts reports whether a request takes an answer of a type. One that says
// nothing takes all.
func accepts(r *http.Request, want string) bool {
	given := r.Header["Accept"]
	if len(given) == 0 {
		return true
	}
	for part := range strings.SplitSeq(strings.Join(given, ","), ",") {
		kind, _, err := mime.ParseMediaType(part)
		if err == nil && (kind == want || kind == "*/*" || kind == want[:strings.IndexByte(want, '/')]+"/*") {
			return true
		}
	}
	return false
}

// untimed takes the time limit of reading away: the request has been read, and a
// read goes on for the client's end alone.
func (d *door) untimed(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // what has none is no network connection
}

// post takes one message. v is nil where it is to begin a session.
func (d *door) post(w http.ResponseWriter, r *http.Request, v *visit) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		refuse(w, http.StatusUnsupportedMediaType, "the Content-Type of a message is application/json")
		return
	}
	if !accepts(r, "text/event-stream") || !accepts(r, "application/json") {
		refuse(w, http.StatusNotAcceptable, "a POST is answered with text/event-stream or application/json, and must accept both")
		return
	}
	if v == nil && d.full() {
		refuse(w, http.StatusTooManyRequests, "there are "+strconv.Itoa(d.o.MaxSessions)+" sessions already; end one, or raise --max-sessions")
		return
	}
	body, leave, ok := d.read(w, r)
	defer leave()
	if !ok {
		return
	}
	m, bad := decode(body)
	if bad == nil && !spoken(r.Header.Get(versionHeader)) {
		bad = unspoken(m.id, r.Header.Get(versionHeader))
	}
	if bad == nil && v == nil && m.method != "initialize" {
		if m.method == "server/discover" {
			bad = unspoken(m.id, "")
		} else {
			bad = &fault{id: idOr(m.id), code: jsonrpc.CodeInvalidRequest, text: "invalid request: without the header " + sessionHeader + " there is initialize alone"}
		}
	}
	if bad == nil && v == nil && m.id == "" {
		bad = invalid("initialize needs an id")
	}
	if bad != nil {
		text := ""
		if v != nil {
			text = v.s.refusal(bad)
		} else {
			text = bad.message(bad.id)
		}
		answer(w, http.StatusBadRequest, text)
		return
	}
	if v == nil {
		if v = d.begin(); v == nil {
			refuse(w, http.StatusTooManyRequests, "there are "+strconv.Itoa(d.o.MaxSessions)+" sessions already; end one, or raise --max-sessions")
			return
		}
		defer d.leave(v)
		w.Header().Set(sessionHeader, v.id)
		defer func() {
			if v.s.peer.InitializeParams() == nil {
				d.end(v, errNone)
			}
		}()
	}
	var in jsonrpc.Message
	var st *stream
	switch {
	case m.method == "":
		if r := v.s.answer(m); r != nil {
			in = r
		}
	case m.id == "":
		if r := v.s.notification(m); r != nil {
			in = r
		}
	default:
		e, req, bad := v.s.request(m, len(body))
		switch {
		case bad != nil && bad.code == codeBusy:
			answer(w, http.StatusOK, v.s.refusal(bad)) // the session is well
			return
		case bad != nil:
			answer(w, http.StatusBadRequest, v.s.refusal(bad))
			return
		case e == nil:
			refuse(w, http.StatusNotFound, "the session ends")
			return
		}
		st = newStream()
		e.to, in = st, req
	}
	// What there is of it now, it has taken along.
	body, m = nil, message{}
	leave()
	if in != nil && !v.c.deliver(in) {
		refuse(w, http.StatusNotFound, "the session ends")
		return
	}
	if st == nil {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	v.c.serve(st, w, r)
}

// unspoken is the answer to a version that isn't spoken: the client may choose
// another.
func unspoken(id, version string) *fault {
	return &fault{id: idOr(id), code: unsupportedVersion, text: "protocol version " + strconv.Quote(clip(version)) + " is not spoken", data: []byte(mustJSON(struct {
		Supported []string `json:"supported"`
		Requested string   `json:"requested"`
	}{versions(), clip(version)}))}
}

// answer is a reply without a stream.
func answer(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text)
}

// read reads the body, within the bounds of time and length. leave lets go of it.
func (d *door) read(w http.ResponseWriter, r *http.Request) (body []byte, leave func(), ok bool) {
	size := r.ContentLength
	if size > int64(d.o.MaxLine) {
		refuse(w, http.StatusRequestEntityTooLarge, "a message has at most "+strconv.Itoa(d.o.MaxLine)+" bytes")
		return nil, func() {}, false
	}
	if size < 0 {
		size = int64(d.o.MaxLine)
	}
	// Without a token nobody gets here: who has one fills his own memory's share.
	waiting, cancel := context.WithTimeout(d.ctx, bodyTime)
	defer cancel()
	if !d.bodies.enter(waiting, size) {
		refuse(w, http.StatusServiceUnavailable, "too much is being read at the same time")
		return nil, func() {}, false
	}
	leave = sync.OnceFunc(func() { d.bodies.leave(size) })
	conn := http.NewResponseController(w)
	_ = conn.SetReadDeadline(time.Now().Add(bodyTime))
	var b bytes.Buffer
	b.Grow(int(min(size, 1<<20)) + bytes.MinRead)
	if _, err := b.ReadFrom(http.MaxBytesReader(w, r.Body, int64(d.o.MaxLine))); err != nil {
		if long := (*http.MaxBytesError)(nil); errors.As(err, &long) {
			refuse(w, http.StatusRequestEntityTooLarge, "a message has at most "+strconv.Itoa(d.o.MaxLine)+" bytes")
		} else {
			refuse(w, http.StatusBadRequest, "the body can't be read: "+err.Error())
		}
		return nil, leave, false
	}
	d.untimed(w)
	_ = conn.SetWriteDeadline(time.Now().Add(maxStuck)) // reading may have taken a while
	return b.Bytes(), leave, true
}

func (d *door) full() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.over || d.taken >= d.o.MaxSessions
}

// begin begins a session, for a request that leaves it. It returns nil where
// there are too many.
func (d *door) begin() *visit {
	d.mu.Lock()
	if d.over || d.taken >= d.o.MaxSessions {
		d.mu.Unlock()
		return nil
	}
	d.taken++
	d.number++
	name := "conn-" + strconv.Itoa(d.number)
	d.ending.Add(1) // so that close waits for what begins
	d.mu.Unlock()

	o := d.o.Options
	o.Open = func() (Session, error) { return d.o.OpenSession(name) }
	o.Log = o.Log.With("session", name)
	s := newSession(d.ctx, o)
	v := &visit{id: rand.Text(), s: s, busy: 1}
	v.c = newLink(s, v.id)
	// Standard streams that are connected can't fail either: there is nothing to fail.
	if err := s.connect(v.c); err != nil {
		o.Log.Error(err.Error())
	}
	context.AfterFunc(s.ctx, func() {
		v.c.hurry(o.patience)
		s.endJobs()
		// Where no policy can be in force, and when all is to end, nobody has said so.
		d.end(v, context.Cause(s.ctx))
	})
	d.mu.Lock()
	defer d.mu.Unlock()
	d.visits[v.id] = v
	return v
}

// enter is the session with an id, which the caller leaves; nil if there is none.
func (d *door) enter(id string) *visit {
	d.mu.Lock()
	defer d.mu.Unlock()
	v := d.visits[id]
	if v == nil {
		return nil
	}
	v.busy++
	if v.idle != nil {
		v.idle.Stop()
		v.idle = nil
	}
	return v
}

func (d *door) leave(v *visit) {
	d.mu.Lock()
	defer d.mu.Unlock()
	v.busy--
	d.rest(v)
}

// rest has a session end by and by that nobody uses. The lock is held.
func (d *door) rest(v *visit) {
	if v.busy == 0 && v.ended == nil {
		v.since = time.Now()
		v.idle = time.AfterFunc(d.o.Idle, func() { d.expire(v) })
	}
}

// expire ends a session that was idle for long enough. One whose calls go on is
// not, though their clients have left them.
func (d *door) expire(v *visit) {
	d.mu.Lock()
	if v.busy > 0 || v.ended != nil || time.Since(v.since) < d.o.Idle {
		d.mu.Unlock()
		return
	}
	if v.s.requests.pending() > 0 {
		d.rest(v)
		d.mu.Unlock()
		return
	}
	v.s.log.Info("a session has expired")
	ended := d.endLocked(v, errExpired)
	d.mu.Unlock()
	<-ended
}

// end ends a session, if it hasn't been. What is returned is closed when nothing
// is left of it.
func (d *door) end(v *visit, cause error) <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.endLocked(v, cause)
}

func (d *door) endLocked(v *visit, cause error) <-chan struct{} {
	if v.ended != nil {
		return v.ended
	}
	v.ended = make(chan struct{})
	delete(d.visits, v.id)
	if v.idle != nil {
		v.idle.Stop()
	}
	go func() {
		defer d.ending.Done()
		if err := v.s.finish(cause, v.c.close); err != nil {
			v.s.log.Warn(err.Error())
		}
		d.mu.Lock()
		d.taken--
		d.mu.Unlock()
		close(v.ended)
	}()
	return v.ended
}

// close ends all sessions, and lets none begin any more.
func (d *door) close(cause error) {
	d.mu.Lock()
	d.over = true
	for _, v := range d.visits {
		d.endLocked(v, cause)
	}
	d.mu.Unlock()
	d.ending.Wait()
}
