package jobtools

import (
	"context"
	_ "embed"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dshx/dshx/jobs"
	"github.com/dshx/dshx/pipeline"
	"github.com/dshx/dshx/tools/internal/plain"
)

const (
	maxWait = 600 * time.Second
	// inputTime is how long job_input waits for a job to read: it is the one
	// tool that holds up others.
	inputTime = 10 * time.Second
)

// Options are the tools'.
type Options struct {
	// Jobs says who has the jobs that a call is about.
	Jobs func(c *pipeline.Call) *jobs.Owner
}

// Register adds the tools to a scope; undo takes them away.
func Register(scope *pipeline.Scope, o Options) (undo func(), err error) {
	list, err := New(o)
	if err != nil {
		return nil, err
	}
	return scope.Register(list...)
}

// New defines the tools.
func New(o Options) ([]*pipeline.Tool, error) {
	if o.Jobs == nil {
		return nil, errors.New("tools job_*: Jobs is needed")
	}
	t := &tools{o.Jobs}
	var all []*pipeline.Tool
	for _, define := range []func() (*pipeline.Tool, error){t.list, t.output, t.wait, t.kill, t.input} {
		tool, err := define()
		if err != nil {
			return nil, err
		}
		all = append(all, tool)
	}
	return all, nil
}

type tools struct {
	jobs func(c *pipeline.Call) *jobs.Owner
}

var (
	//go:embed job_list.md
	listText string
	//go:embed job_output.md
	outputText string
	//go:embed job_wait.md
	waitText string
	//go:embed job_kill.md
	killText string
	//go:embed job_input.md
	inputText string
)

// failure makes an error of package jobs one that names the job, and where an
// argument is at fault that one. A cancelled call's is left alone.
func failure(err error) error {
	var coded interface{ Code() string }
	switch {
	case errors.Is(err, jobs.ErrNoInput):
		bad := &pipeline.Violation{Path: "job_id", Expected: "a job that takes input: an interactive one, until its end of file", Got: "another"}
		return pipeline.Fail(pipeline.CodeInvalidArgs, err.Error(), bad)
	case errors.As(err, &coded):
		return pipeline.Failf(coded.Code(), "%s", err)
	}
	return err
}

// waitTime is a wait's, from milliseconds.
func waitTime(ms int64) time.Duration {
	return time.Duration(min(ms, maxWait.Milliseconds())) * time.Millisecond
}

// errTime ends a wait whose time is over.
var errTime = errors.New("the time of the wait is over")

func bounded(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, d, errTime)
}

func text(s string) []pipeline.Content { return []pipeline.Content{pipeline.Text(s)} }

func card(title, kind string) pipeline.Card {
	return pipeline.GenericCard{Title: title, Kind: kind, Locations: []pipeline.Location{}}
}

// describe is a job in one line.
func describe(j jobs.Job) string {
	s := fmt.Sprintf("%s %s", j.ID, j.Status)
	switch {
	case j.Signal != nil:
		s += " signal " + *j.Signal
	case j.ExitCode != nil:
		s += fmt.Sprintf(" exit code %d", *j.ExitCode)
	}
	if j.EndedBy != nil && *j.EndedBy != jobs.ByExit {
		s += " by " + string(*j.EndedBy)
	}
	switch len(j.PIDs) {
	case 0:
	case 1:
		s += fmt.Sprintf(", process %d", j.PIDs[0])
	default:
		s += fmt.Sprintf(", %d processes", len(j.PIDs))
	}
	s += fmt.Sprintf(", %d bytes on stdout, %d on stderr", j.StdoutBytes, j.StderrBytes)
	if j.Label != "" {
		s += ": " + plain.Line(j.Label)
	}
	return s
}

// describeAll is a line for each job, as far as a model gets to read them.
func describeAll(list []jobs.Job, none string) string {
	if len(list) == 0 {
		return none
	}
	const more = "\n[and %d more; job_wait with their job_ids shows them]"
	room := maxContent - len(more) - 200 // and what a tool says below
	var b strings.Builder
	for i, j := range list {
		line := describe(j)
		if b.Len()+len(line) >= room {
			fmt.Fprintf(&b, more, len(list)-i)
			break
		}
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(line)
	}
	return b.String()
}

// ListArgs are job_list's.
type ListArgs struct{}

// ListValue is job_list's.
type ListValue struct {
	Jobs []jobs.Job `json:"jobs"`
}

func (t *tools) list() (*pipeline.Tool, error) {
	return pipeline.Define(pipeline.Spec[ListArgs, ListValue]{
		Name: "job_list", Title: "List jobs", Description: strings.TrimSpace(listText),
		Hints: pipeline.Hints{ReadOnly: true, Idempotent: true},
		Execute: func(_ context.Context, _ ListArgs, call *pipeline.Call) (ListValue, error) {
			return ListValue{t.jobs(call).List()}, nil
		},
		Render:        func(_ ListArgs, v ListValue) []pipeline.Content { return text(describeAll(v.Jobs, "[no jobs]")) },
		Parallel:      true,
		PresentCall:   func(ListArgs) pipeline.Card { return card("List jobs", pipeline.KindRead) },
		PresentResult: func(ListArgs, pipeline.Shown) pipeline.Card { return card("List jobs", pipeline.KindRead) },
	})
}

// OutputArgs are job_output's.
type OutputArgs struct {
	JobID      string `json:"job_id" doc:"such as bash-1"`
	Since      string `json:"since,omitzero" doc:"next of an earlier answer, to go on from there"`
	Tail       bool   `json:"tail,omitzero" default:"false" doc:"skip what comes before the last limit_bytes"`
	LimitBytes int64  `json:"limit_bytes,omitzero" schema:"min=1" default:"32768" doc:"at most so much of each stream; more than 1048576 is 1048576"`
	Wait       bool   `json:"wait,omitzero" default:"false" doc:"where there is nothing to return, wait for output or the job's end"`
	TimeoutMs  int64  `json:"timeout_ms,omitzero" schema:"min=1" default:"120000" doc:"how long to wait; more than 600000 is 600000"`
}

// OutputValue is job_output's.
type OutputValue struct {
	Job         jobs.Job `json:"job"`
	Stdout      string   `json:"stdout"`
	Stderr      string   `json:"stderr"`
	Encoding    string   `json:"encoding" schema:"enum=utf-8|base64" doc:"of both streams; base64 when either is not UTF-8"`
	Next        string   `json:"next" doc:"where to go on: the next call's since"`
	More        bool     `json:"more" doc:"another read has something to tell at once"`
	MissedBytes int64    `json:"missedBytes" doc:"bytes between since and what is returned that are gone"`
}

func (t *tools) output() (*pipeline.Tool, error) {
	present := func(a OutputArgs) pipeline.Card { return card("Output of "+a.JobID, pipeline.KindRead) }
	return pipeline.Define(pipeline.Spec[OutputArgs, OutputValue]{
		Name: "job_output", Title: "Read a job's output", Description: strings.TrimSpace(outputText),
		Hints: pipeline.Hints{ReadOnly: true, Idempotent: true},
		Execute: func(ctx context.Context, a OutputArgs, call *pipeline.Call) (OutputValue, error) {
			o := jobs.ReadOptions{Since: jobs.Cursor(a.Since), Tail: a.Tail, Limit: int(min(a.LimitBytes, jobs.MaxReadLimit))}
			var c jobs.Chunk
			var err error
			if a.Wait {
				wait, cancel := bounded(ctx, waitTime(a.TimeoutMs))
				c, err = t.jobs(call).Follow(wait, a.JobID, o)
				cancel()
				if err != nil && context.Cause(wait) == errTime {
					err = nil // nothing came, which is an answer
				}
			} else {
				c, err = t.jobs(call).Read(a.JobID, o)
			}
			if errors.Is(err, jobs.ErrInvalid) { // the schema has seen to the rest
				bad := &pipeline.Violation{Path: "since", Expected: "next of an earlier answer about this job", Got: strconv.Quote(a.Since)}
				return OutputValue{}, pipeline.Fail(pipeline.CodeInvalidArgs, bad.Error(), bad)
			}
			if err != nil {
				return OutputValue{}, failure(err)
			}
			v := OutputValue{Job: c.Job, Next: string(c.Next), More: c.More, MissedBytes: c.MissedBytes, Encoding: "utf-8"}
			v.Stdout, v.Stderr = string(c.Stdout), string(c.Stderr)
			if !utf8.ValidString(v.Stdout) || !utf8.ValidString(v.Stderr) {
				v.Encoding = "base64"
				v.Stdout, v.Stderr = base64.StdEncoding.EncodeToString(c.Stdout), base64.StdEncoding.EncodeToString(c.Stderr)
			}
			return v, nil
		},
		Render:        renderOutput,
		Parallel:      true,
		PresentCall:   present,
		PresentResult: func(a OutputArgs, _ pipeline.Shown) pipeline.Card { return present(a) },
	})
}

// maxContent is how much a model gets to read of an answer, in bytes.
const maxContent = pipeline.MaxContent

func renderOutput(_ OutputArgs, v OutputValue) []pipeline.Content {
	coded := v.Encoding == "base64"
	out, errs := plain.Text(v.Stdout, coded), plain.Text(v.Stderr, coded)
	facts := []string{"[" + plain.Line(describe(v.Job)) + "]"}
	if v.MissedBytes > 0 {
		facts = append(facts, fmt.Sprintf("[%d bytes before are gone]", v.MissedBytes))
	}
	if len(out)+len(errs) > maxContent-1000 {
		facts = append(facts, "[cut here; read it in smaller pieces, by limit_bytes 16384]")
	}
	next := "[next: " + v.Next
	if v.More {
		next += "; there is more"
	}
	return text(plain.Fit(maxContent, out, errs, strings.Join(append(facts, next+"]"), "\n")))
}

// WaitArgs are job_wait's.
type WaitArgs struct {
	JobIDs    []string `json:"job_ids,omitzero" schema:"max=1000" doc:"such as bash-1; all that live without it"`
	TimeoutMs int64    `json:"timeout_ms,omitzero" schema:"min=1" default:"120000" doc:"how long to wait; more than 600000 is 600000"`
	Any       bool     `json:"any,omitzero" default:"false" doc:"wait for one of them, not for all"`
}

// WaitValue is job_wait's.
type WaitValue struct {
	Jobs     []jobs.Job `json:"jobs"`
	TimedOut bool       `json:"timedOut" doc:"not all, or none, have ended"`
}

func (t *tools) wait() (*pipeline.Tool, error) {
	present := func(a WaitArgs) pipeline.Card {
		title := "Wait for all jobs"
		if len(a.JobIDs) > 0 {
			title = "Wait for " + strings.Join(a.JobIDs, ", ")
		}
		return card(title, pipeline.KindOther)
	}
	return pipeline.Define(pipeline.Spec[WaitArgs, WaitValue]{
		Name: "job_wait", Title: "Wait for jobs", Description: strings.TrimSpace(waitText),
		Hints: pipeline.Hints{ReadOnly: true, Idempotent: true},
		Execute: func(ctx context.Context, a WaitArgs, call *pipeline.Call) (WaitValue, error) {
			wait, cancel := bounded(ctx, waitTime(a.TimeoutMs))
			defer cancel()
			owner := t.jobs(call)
			defer report(wait, owner, a.JobIDs, call)()
			list, err := owner.Wait(wait, a.JobIDs, a.Any)
			v := WaitValue{Jobs: list}
			switch {
			case err == nil:
				return v, nil
			case ctx.Err() != nil:
				return v, &pipeline.Partial{Value: v}
			case context.Cause(wait) == errTime && errors.Is(err, errTime):
				v.TimedOut = true
				return v, nil
			}
			return v, failure(err)
		},
		Render: func(_ WaitArgs, v WaitValue) []pipeline.Content {
			s := describeAll(v.Jobs, "[no live jobs]")
			if v.TimedOut {
				s += "\n[the time of the wait is over; the jobs go on]"
			}
			return text(s)
		},
		Parallel:      true,
		PresentCall:   present,
		PresentResult: func(a WaitArgs, _ pipeline.Shown) pipeline.Card { return present(a) },
	})
}

// KillArgs are job_kill's.
type KillArgs struct {
	JobID  string `json:"job_id" doc:"such as bash-1"`
	Reason string `json:"reason,omitzero" schema:"max=1000" doc:"why, for the record"`
	Signal string `json:"signal,omitzero" default:"\"TERM\"" schema:"enum=HUP|INT|QUIT|ABRT|KILL|USR1|USR2|PIPE|ALRM|TERM|SIGHUP|SIGINT|SIGQUIT|SIGABRT|SIGKILL|SIGUSR1|SIGUSR2|SIGPIPE|SIGALRM|SIGTERM" doc:"what the processes get first; KILL follows in any case"`
}

// KillValue is job_kill's.
type KillValue struct {
	Job       jobs.Job `json:"job"`
	Requested bool     `json:"requested" doc:"false when it had ended already"`
}

func (t *tools) kill() (*pipeline.Tool, error) {
	present := func(a KillArgs) pipeline.Card { return card("End "+a.JobID, pipeline.KindExecute) }
	return pipeline.Define(pipeline.Spec[KillArgs, KillValue]{
		Name: "job_kill", Title: "End a job", Description: strings.TrimSpace(killText),
		Hints: pipeline.Hints{Destructive: true, Idempotent: true},
		Execute: func(_ context.Context, a KillArgs, call *pipeline.Call) (KillValue, error) {
			j, requested, err := t.jobs(call).Kill(a.JobID, a.Signal, a.Reason)
			if err != nil {
				return KillValue{}, failure(err)
			}
			return KillValue{j, requested}, nil
		},
		Render: func(_ KillArgs, v KillValue) []pipeline.Content {
			s := describe(v.Job)
			if !v.Requested {
				s += "\n[it had ended already]"
			}
			return text(s)
		},
		Parallel:      true,
		PresentCall:   present,
		PresentResult: func(a KillArgs, _ pipeline.Shown) pipeline.Card { return present(a) },
	})
}

// InputArgs are job_input's.
type InputArgs struct {
	JobID string `json:"job_id" doc:"such as bash-1"`
	Text  string `json:"text,omitzero" doc:"what to give it"`
	EOF   bool   `json:"eof,omitzero" default:"false" doc:"close its input after the text"`
}

// InputValue is job_input's.
type InputValue struct {
	Job   jobs.Job `json:"job"`
	Bytes int      `json:"bytes" doc:"how many bytes were taken"`
}

func (t *tools) input() (*pipeline.Tool, error) {
	present := func(a InputArgs) pipeline.Card { return card("Input to "+a.JobID, pipeline.KindExecute) }
	return pipeline.Define(pipeline.Spec[InputArgs, InputValue]{
		Name: "job_input", Title: "Give a job input", Description: strings.TrimSpace(inputText),
		Hints: pipeline.Hints{Destructive: true, OpenWorld: true},
		Execute: func(ctx context.Context, a InputArgs, call *pipeline.Call) (InputValue, error) {
			give, cancel := bounded(ctx, inputTime)
			defer cancel()
			j, n, err := t.jobs(call).Input(give, a.JobID, []byte(a.Text), a.EOF)
			v := InputValue{j, n}
			switch {
			case err == nil:
				return v, nil
			case ctx.Err() != nil:
				return v, &pipeline.Partial{Value: v}
			case errors.Is(err, errTime):
				return v, nil // bytes says so
			}
			return v, failure(err)
		},
		Render:        renderInput,
		PresentCall:   present,
		PresentResult: func(a InputArgs, _ pipeline.Shown) pipeline.Card { return present(a) },
	})
}

func renderInput(a InputArgs, v InputValue) []pipeline.Content {
	if v.Bytes < len(a.Text) {
		return text(fmt.Sprintf("[%s took %d of %d bytes and does not read; give it the rest later]", v.Job.ID, v.Bytes, len(a.Text)))
	}
	return text(fmt.Sprintf("[%s took %d bytes]", v.Job.ID, v.Bytes))
}
