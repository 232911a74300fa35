package mcp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dshx/dshx/approval"
	"github.com/dshx/dshx/pipeline"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Session is the tools of one connection, with their policy in force.
type Session interface {
	// Scope is where calls are made.
	Scope() *pipeline.Scope
	// Approvals is its approver, whose questions go to the client.
	Approvals() *approval.Service
	// Workspace is the directory that the tools work in, with links resolved.
	Workspace() string
	// Status is what is in force, for people.
	Status() string
	// Note writes down, where a log is kept, what its reader should know of the
	// client. kind is a word for programs.
	Note(kind, text string)
	// JobEnds calls ended for each job of the connection that ends, until stop.
	JobEnds(ended func(JobEnd)) (stop func())
	// EndJobs ends all jobs and lets none be started any more. It may be called
	// while calls are still being ended, and more than once.
	EndJobs()
	// Close ends everything that was started. No call runs then.
	Close() error
}

// JobEnd is a job that has ended.
type JobEnd struct {
	Text string        // one sentence for people
	Job  pipeline.JSON // the job, as tools show it
}

// Options are a connection's.
type Options struct {
	Version string // of the program
	// Open puts the policy in force. It is called once, behind the first reply or
	// soon, and beside everything else: what needs no policy is answered
	// meanwhile. Its failure ends the connection, as *OpenError.
	Open func() (Session, error)
	// Tools are those that the opened session will have, to be listed before.
	Tools func() ([]*pipeline.Tool, error)
	// Presets says that the opened session has Presets.
	Presets bool
	// Log is told what happens; nil for nobody. It must not block.
	Log *slog.Logger
	// MaxLine is the longest line that is taken, 0 for wire.MaxLine.
	MaxLine int

	patience   time.Duration // 0: patience
	maxHeld    int           // 0: maxHeld
	maxPending int           // 0: maxPending
}

const (
	// maxPending is how many requests may wait or run; maxPendingLines how many
	// lines of the greatest length theirs may be as long as, together. What comes
	// past it is refused.
	maxPending      = 1024
	maxPendingLines = 4
	// maxHeld is how long results may be together that wait to be written, in
	// bytes. Past it no call begins.
	maxHeld = 32 << 20
	// patience is for how long a reader may take nothing when all is to end: one
	// that has stopped reading must not keep what was started alive.
	patience = 5 * time.Second
	// firstReply is for how long opening the tools waits for it.
	firstReply = 20 * time.Millisecond
	// maxEnded is how many ended jobs are remembered for the next result.
	maxEnded = 128
)

// OpenError is the end of a connection whose policy can't be put in force.
type OpenError struct{ Err error }

// Error is the cause's.
func (e *OpenError) Error() string { return e.Err.Error() }

// Unwrap is the cause.
func (e *OpenError) Unwrap() error { return e.Err }

// versions are the protocols that are spoken. 2026-07-28 is not among them: it
// has no requests of a server, so that nobody could be asked for an approval.
func versions() []string { return []string{"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"} }

// instructions are what a client may tell its model about the tools.
const instructions = "All tools work in one workspace, under a policy that the kernel enforces. " +
	"What is refused says how it can be allowed: ask for it with sandbox_permissions and a justification, or do without."

// session is one client's connection: the SDK's session, the requests in flight,
// and the tools. It knows no transport.
type session struct {
	o     Options
	ctx   context.Context // ends when all calls are to be aborted
	abort context.CancelCauseFunc
	// answers ends when the client can't answer any more; unanswered ends it.
	answers    context.Context
	unanswered context.CancelCauseFunc
	log        *slog.Logger

	requests *requests
	server   *sdk.Server
	peer     *sdk.ServerSession

	begin    func()        // lets the opening begin
	begun    chan struct{} // closed by it
	opened   chan struct{} // closed when what follows is there
	tools    Session       // nil if it can't be had
	failure  *pipeline.Error
	queue    *pipeline.Queue
	stopJobs func()
	undo     func()
	endJobs  func()
	leave    func() // the approvals

	mu     sync.Mutex
	held   int             // bytes of results that wait to be written
	ended  []pipeline.JSON // jobs that no result has told of
	known  []*pipeline.Tool
	listed string // tools/list of known
}

// newSession makes a session whose tools are opened by and by.
func newSession(ctx context.Context, o Options) *session {
	s := &session{o: o, log: o.Log, begun: make(chan struct{}), opened: make(chan struct{}), stopJobs: func() {}, undo: func() {}, leave: func() {}}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.ctx, s.abort = context.WithCancelCause(ctx)
	s.answers, s.unanswered = context.WithCancelCause(s.ctx)
	s.begin = sync.OnceFunc(func() { close(s.begun) })
	s.requests = newRequests(o.maxPending, maxPendingLines*o.MaxLine)
	s.endJobs = sync.OnceFunc(func() {
		<-s.opened
		if s.tools != nil {
			s.tools.EndJobs()
		}
	})
	options := &sdk.ServerOptions{
		Instructions:              instructions,
		Logger:                    slog.New(quiet{s.log.Handler()}),
		Capabilities:              capabilities(),
		SupportedProtocolVersions: versions(),
		SetCacheable:              func(_ context.Context, _ sdk.Request, c *sdk.Cacheable) { c.CacheScope = "private" },
	}
	s.watchRoots(options)
	s.server = sdk.NewServer(&sdk.Implementation{Name: "dshx", Title: "dshx", Version: o.Version}, options)
	s.server.AddReceivingMiddleware(s.receive)
	s.addPrompts()
	go s.open()
	return s
}

// connect hands the session to the SDK. Clients of the protocols that are spoken
// get log messages from info on before they set a level.
func (s *session) connect(t sdk.Transport) (err error) {
	s.peer, err = s.server.Connect(context.Background(), t, &sdk.ServerSessionOptions{State: &sdk.ServerSessionState{LogLevel: "info"}})
	return err
}

// open puts the policy in force: when the client has its first reply, which need
// not share the processor with it, or soon, since a client that says nothing is to
// learn of a mistake as well.
func (s *session) open() {
	select {
	case <-s.begun:
	case <-time.After(firstReply):
	case <-s.ctx.Done():
	}
	tools, err := s.o.Open()
	if err != nil {
		s.failure = failureOf(err)
		close(s.opened)
		s.abort(&OpenError{err})
		return
	}
	s.tools = tools
	s.queue = pipeline.NewQueue(tools.Scope(), pipeline.Serial, 0)
	s.leave = tools.Approvals().Use(s)
	s.stopJobs = tools.JobEnds(s.jobEnded)
	s.undo = tools.Scope().OnChange(s.toolsChanged)
	close(s.opened)
	s.toolsChanged()
}

// failureOf is what calls get that have no policy to run under.
func failureOf(err error) *pipeline.Error {
	e := pipeline.Failf(pipeline.CodeInternal, "%s", err.Error())
	var coded interface{ Code() string }
	if errors.As(err, &coded) {
		e.Code = coded.Code()
	}
	return e
}

// errUnanswered is why questions end that the client can't answer any more.
var errUnanswered = errors.New("the client sends nothing any more")

// end lets the calls end, then what outlives them. The transport still takes what
// is written.
func (s *session) end() {
	s.unanswered(errUnanswered)
	s.requests.end()
	s.endJobs()
	s.stopJobs()
	s.leave()
	s.undo()
}

// finish ends the session, in its order: calls, aborted if there is a cause, with
// their replies; what outlives them; the SDK's session, when over has ended what
// the transport brings; the tools. Errors: those of Session.Close.
func (s *session) finish(cause error, over func()) error {
	if cause != nil {
		s.abort(cause)
	}
	s.begin()
	s.end()
	over()
	if err := s.peer.Wait(); err != nil {
		s.log.Debug("the session has ended", "error", err.Error())
	}
	return s.close()
}

// close closes the tools. Errors: those of Session.Close.
func (s *session) close() error {
	<-s.opened
	if s.tools == nil {
		return nil
	}
	s.queue.Wait()
	return s.tools.Close()
}

// isOpen reports whether there is a policy in force.
func (s *session) isOpen() bool {
	select {
	case <-s.opened:
		return s.tools != nil
	default:
		return false
	}
}

// hasFailed reports that no policy can be in force.
func (s *session) hasFailed() bool {
	select {
	case <-s.opened:
		return s.tools == nil
	default:
		return false
	}
}

// visible are the tools that a call can reach.
func (s *session) visible() ([]*pipeline.Tool, error) {
	if s.isOpen() {
		return s.tools.Scope().Tools(), nil
	}
	return s.o.Tools()
}

// list is the result of tools/list.
func (s *session) list() (string, error) {
	tools, err := s.visible()
	if err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listed == "" || !slices.Equal(s.known, tools) {
		s.known, s.listed = tools, encodeTools(tools)
	}
	return s.listed, nil
}

// toolsChanged tells the client, if it has been told of other tools.
func (s *session) toolsChanged() {
	if !s.isOpen() {
		return
	}
	tools := s.tools.Scope().Tools()
	s.mu.Lock()
	if s.listed == "" || slices.Equal(s.known, tools) {
		s.mu.Unlock()
		return
	}
	before := s.listed
	s.known, s.listed = tools, encodeTools(tools)
	same := before == s.listed
	s.mu.Unlock()
	if !same {
		// The SDK tells of changes of its own tools, of which there are none else:
		// tools/list is answered here.
		s.server.AddTool(&sdk.Tool{Name: "changed", InputSchema: jsontext.Value(`{"type":"object"}`)}, nil)
	}
}

// header is where the SDK hands the number of a request's entry to its handler.
const header = "Dshx-Request"

// extra is what goes with a request through the SDK.
func (e *entry) extra() *sdk.RequestExtra {
	return &sdk.RequestExtra{Header: http.Header{header: []string{strconv.FormatInt(e.n, 10)}}}
}

// receive answers what is not the SDK's to answer.
func (s *session) receive(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (result sdk.Result, err error) {
		defer func() {
			if p := recover(); p != nil {
				s.log.Error("internal error", "method", method, "panic", fmt.Sprint(p))
				result, err = nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "internal error in " + method}
			}
		}()
		switch p := req.GetParams().(type) {
		case *sdk.ListToolsParams:
			return s.listTools(req, p)
		case *sdk.CallToolParamsRaw:
			return s.callTool(ctx, req, p)
		}
		return next(ctx, method, req)
	}
}

// entryOf is the entry of a request that the SDK hands over.
func (s *session) entryOf(req sdk.Request) (*entry, error) {
	if x := req.GetExtra(); x != nil && x.Header != nil {
		n, err := strconv.ParseInt(x.Header.Get(header), 10, 64)
		if e := s.requests.find(n); err == nil && e != nil {
			return e, nil
		}
	}
	return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "internal error: the request is not known"}
}

func (s *session) listTools(req sdk.Request, p *sdk.ListToolsParams) (sdk.Result, error) {
	if p != nil && p.Cursor != "" {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "the cursor " + strconv.Quote(clip(p.Cursor)) + " is none that was given: all tools are on one page"}
	}
	e, err := s.entryOf(req)
	if err != nil {
		return nil, err
	}
	if e.reply, err = s.list(); err != nil {
		return nil, err
	}
	return &sdk.ListToolsResult{Tools: []*sdk.Tool{}}, nil
}

func (s *session) callTool(ctx context.Context, req sdk.Request, p *sdk.CallToolParamsRaw) (sdk.Result, error) {
	e, err := s.entryOf(req)
	if err != nil {
		return nil, err
	}
	defer e.leave()
	ctx = joined{e.ctx, ctx}
	// A list of all is made where there is something to say of them.
	if !s.isOpen() || s.tools.Scope().Lookup(p.Name) == nil {
		tools, err := s.visible()
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(tools, func(t *pipeline.Tool) bool { return t.Name() == p.Name }) {
			return nil, unknownTool(p.Name, tools)
		}
	}
	report, stop := s.startProgress(ctx, e)
	defer stop()
	wait := func(c <-chan struct{}) bool {
		select {
		case <-c:
			return true
		case <-e.ctx.Done():
			return false
		}
	}
	ready := wait(e.before) && wait(s.opened)
	switch {
	case s.hasFailed():
		e.reply = encodeFailure(p.Name, s.failure)
	case !ready:
		e.reply = encodeFailure(p.Name, pipeline.Failf(pipeline.CodeCancelled, "the call was cancelled before it began"))
	default:
		s.call(ctx, e, p.Name, report)
	}
	return &sdk.CallToolResult{Content: []sdk.Content{}}, nil
}

// call makes the call, whose turn has come, and waits for its end.
func (s *session) call(ctx context.Context, e *entry, name string, report func(pipeline.Progress)) {
	pending := s.queue.SubmitThen(ctx, pipeline.Request{ID: e.id, Name: name, Args: e.args, Progress: report}, func(r pipeline.Result) {
		e.jobs = s.takeEnded()
		e.reply = encodeResult(r, e.jobs)
		// What never began may wait behind a call that may not begin: it must
		// not keep that one from it.
		if f := r.Failure(); f == nil || f.Code != pipeline.CodeCancelled {
			e.held = len(e.reply)
			s.hold(e.held)
		}
	})
	e.pass()
	<-pending.Done()
}

// done is called when a request's reply is written, or dropped.
func (s *session) done(e *entry, dropped bool) {
	if e.held > 0 {
		s.hold(-e.held)
	}
	if dropped {
		s.untakeEnded(e.jobs)
	}
	s.requests.forget(e)
}

// hold counts bytes of results that wait to be written, and lets calls begin or
// not by it.
func (s *session) hold(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	full := s.held > s.o.maxHeld
	if s.held += n; full != (s.held > s.o.maxHeld) {
		s.queue.Hold(!full)
	}
}

// joined ends as its context does, and has what the SDK's knows of the request.
type joined struct {
	context.Context
	sdk context.Context
}

func (j joined) Value(key any) any {
	if v := j.Context.Value(key); v != nil {
		return v
	}
	return j.sdk.Value(key)
}

func unknownTool(name string, tools []*pipeline.Tool) error {
	names := make([]string, len(tools))
	for i, t := range tools {
		names[i] = t.Name()
	}
	data := mustJSON(map[string]any{"tools": names})
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Data: []byte(data),
		Message: "unknown tool " + strconv.Quote(clip(name)) + "; there are " + strings.Join(names, ", ")}
}

// rawJSON is JSON to the SDK's encoder.
type rawJSON pipeline.JSON

// MarshalJSON is the value.
func (j rawJSON) MarshalJSON() ([]byte, error) { return pipeline.JSON(j).MarshalJSON() }

// quiet is what the SDK has to say: of what it calls information or an error,
// most is in the reply that the client gets.
type quiet struct{ slog.Handler }

func (q quiet) Enabled(ctx context.Context, _ slog.Level) bool {
	return q.Handler.Enabled(ctx, slog.LevelDebug)
}

func (q quiet) Handle(ctx context.Context, r slog.Record) error {
	r.Level = slog.LevelDebug
	return q.Handler.Handle(ctx, r)
}
