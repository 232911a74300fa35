package sessionlog

import (
	"sync"
	"time"

	"github.com/dshx/dshx/jobs"
	"github.com/dshx/dshx/pipeline"
	"github.com/dshx/dshx/sandboxpolicy"
)

// Recorder writes the records of one connection, or of what else has calls of
// its own.
type Recorder struct {
	log   *Log
	scope string

	mu    sync.Mutex
	calls map[pipeline.Token]begun // those that have no result yet
}

type begun struct {
	number int64
	at     time.Time
}

// Scope is a recorder for the connection of that name, which should be one of
// its own in the session.
func (l *Log) Scope(name string) *Recorder {
	return &Recorder{log: l, scope: name, calls: map[pipeline.Token]begun{}}
}

// Attach writes down the calls of a scope and of those inside it, their questions
// and their results, until detach.
func (r *Recorder) Attach(s *pipeline.Scope) (detach func()) {
	undo := []func(){s.ObserveCalls("session log", r.call), s.ObserveQuestions("session log", r.question), s.Observe("session log", r.result)}
	return func() {
		for _, f := range undo {
			f()
		}
	}
}

// Check refuses a policy under which the log must not be written; see Log.Check.
func (r *Recorder) Check(p *sandboxpolicy.Policy) error { return r.log.Check(p) }

// Start writes the beginning. enforcement is any JSON value, or nil.
func (r *Recorder) Start(version, preset, workspace string, enforcement any) {
	r.put(&Start{Version: version, Preset: preset, Workspace: workspace, Enforcement: value(enforcement)}, 0)
	if w := r.log.Warning(); w != "" {
		r.Note("unguarded", w)
	}
}

// Preset writes a change of preset. by says who wanted it.
func (r *Recorder) Preset(from, to, by string, enforcement any) {
	r.put(&Preset{From: from, To: to, By: by, Enforcement: value(enforcement)}, 0)
}

// Note writes what else a reader should know, such as a client's root that lies
// elsewhere. kind is a word for programs.
func (r *Recorder) Note(kind, text string) { r.put(&Note{Kind: kind, Text: text}, len(text)) }

// JobEnded writes the end of a job: the function that jobs.Options.Log is for.
func (r *Recorder) JobEnded(e jobs.End) {
	rec := &JobEnd{Job: e.Job, Reason: e.Reason, Limit: e.Limit, DurationMs: ms(e.Duration), MissedBytes: e.Missed}
	if e.Err != nil {
		rec.Error = e.Err.Error()
	}
	r.put(rec, len(e.Job.Label))
}

// End writes the end, and why.
func (r *Recorder) End(reason string) { r.put(&End{Reason: reason}, 0) }

func (r *Recorder) put(rec Record, bytes int) { r.log.put(r.scope, rec, bytes, nil) }

func value(v any) pipeline.JSON {
	j, err := pipeline.MarshalValue(v)
	if err != nil || v == nil {
		return pipeline.JSON{}
	}
	return j
}

func (r *Recorder) call(c *pipeline.Call) {
	rec := &Call{ID: c.ID(), Tool: c.Name(), Arguments: c.Args()}
	r.mu.Lock()
	rec.Parent = r.calls[c.Parent()].number // none: 0
	at := r.log.put(r.scope, rec, len(c.Args().String())+len(c.Name()), &rec.Number)
	r.calls[c.Token()] = begun{rec.Number, at}
	r.mu.Unlock()
}

func (r *Recorder) number(c *pipeline.Call) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.calls[c.Token()].number
}

func (r *Recorder) question(q pipeline.Question) func(pipeline.Answer) {
	n := r.number(q.Call)
	r.put(&Question{Number: n, Reason: q.Reason, Display: q.DisplayReason, Grants: q.Grants}, len(q.Reason)+len(q.DisplayReason))
	return func(a pipeline.Answer) { r.put(&Outcome{Number: n, Outcome: a.String()}, 0) }
}

func (r *Recorder) result(c *pipeline.Call, res pipeline.Result) {
	r.mu.Lock()
	b := r.calls[c.Token()]
	delete(r.calls, c.Token())
	r.mu.Unlock()
	s := res.Shown()
	size := len(s.Meta.String())
	for _, c := range s.Content {
		size += c.Len()
	}
	if s.Failure != nil {
		size += len(s.Failure.Details.String())
	}
	r.put(&Result{Number: b.number, ID: c.ID(), Tool: c.Name(), OK: s.OK(), DurationMs: ms(time.Since(b.at)),
		Failure: s.Failure, raw: s.Content, Meta: s.Meta}, size)
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
