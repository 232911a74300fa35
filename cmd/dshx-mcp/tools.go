package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/dshx/dshx/approval"
	"github.com/dshx/dshx/internal/cli"
	"github.com/dshx/dshx/internal/oneshot"
	"github.com/dshx/dshx/internal/program"
	"github.com/dshx/dshx/internal/toolset"
	"github.com/dshx/dshx/jobs"
	"github.com/dshx/dshx/pipeline"
	"github.com/dshx/dshx/serve/mcp"
	"github.com/dshx/dshx/sessionlog"
	"golang.org/x/sys/unix"
)

// newHost makes the host of the flags.
func newHost(f *cli.Flags, log *slog.Logger) *toolset.Host {
	return toolset.NewHost(f.Request, toolset.Options{RequireFull: f.RequireFull, Timeout: f.Timeout, KillAfter: f.KillAfter, Faults: func(fault pipeline.Fault) {
		log.Error("internal error", "stage", fault.Stage, "name", fault.Name, "panic", fmt.Sprint(fault.Value))
	}})
}

// open puts the policy of the flags in force, for the one session of a process.
func open(f *cli.Flags, log *slog.Logger) (mcp.Session, error) {
	host := newHost(f, log)
	session, err := host.Session("main")
	if err == nil {
		err = session.Opened(context.Background())
	}
	t := &tools{session: session, end: host.Close}
	if err == nil && f.Log != "" {
		var to *sessionlog.Log
		var endLog func()
		if to, endLog, err = openLog(session, f.Log, log); err == nil {
			t.record(to.Scope("main"))
			t.end = func() error {
				err := host.Close()
				t.recorded()
				endLog()
				return err
			}
		}
	}
	if err != nil {
		_ = host.Close()
		return nil, err
	}
	for _, n := range session.Notices() {
		log.Warn(n.Text)
	}
	return t, nil
}

// tools are a session's, as the front door wants them.
type tools struct {
	session *toolset.Session
	end     func() error         // of everything that was started
	rec     *sessionlog.Recorder // nil without a log
	endRec  func()               // once; nil without a log
}

func (t *tools) Scope() *pipeline.Scope       { return t.session.Scope }
func (t *tools) Approvals() *approval.Service { return t.session.Approvals }
func (t *tools) Workspace() string            { return t.session.Policy().Workspace() }
func (t *tools) Status() string               { return t.session.Status() }
func (t *tools) EndJobs()                     { t.session.EndJobs() }
func (t *tools) Presets() []string            { return t.session.Policy().Presets() }

// Note writes down what a reader of the log should know.
func (t *tools) Note(kind, text string) {
	if t.rec != nil {
		t.rec.Note(kind, text)
	}
}

// SwitchPreset is a person's wish: a model can't call prompts.
func (t *tools) SwitchPreset(ctx context.Context, name string) (string, error) {
	if err := t.session.SwitchPreset(ctx, name, "a person, by the client"); err != nil {
		return "", err
	}
	return t.session.Status(), nil
}

// Close ends everything that was started.
func (t *tools) Close() error {
	err := t.end()
	t.recorded()
	return err
}

// record begins the session's part of a log, and recorded ends it.
func (t *tools) record(rec *sessionlog.Recorder) {
	t.rec, t.endRec = rec, sync.OnceFunc(func() { rec.End("the connection has ended") })
	t.session.Record(rec, program.Version())
}

func (t *tools) recorded() {
	if t.endRec != nil {
		t.endRec()
	}
}

// openLog opens the session log, under the policy of a session.
func openLog(session *toolset.Session, path string, say *slog.Logger) (_ *sessionlog.Log, end func(), err error) {
	// A file that may not grow is an error of the write: a signal would end this
	// process, and ignored it would be so in commands.
	signal.Notify(make(chan os.Signal, 1), unix.SIGXFSZ)
	var complained atomic.Bool
	log, err := session.OpenLog(path, func(text string) { complained.Store(true); say.Warn(text) })
	if err != nil {
		return nil, nil, err
	}
	if w := log.Warning(); w != "" {
		say.Warn(w)
	}
	return log, func() {
		if err := log.Close(); err != nil && !complained.Load() {
			say.Warn(err.Error())
		}
	}, nil
}

// JobEnds calls ended for each job that ends.
func (t *tools) JobEnds(ended func(mcp.JobEnd)) (stop func()) {
	return t.session.OnJobEnd(func(e jobs.End) {
		job, err := pipeline.MarshalValue(e.Job)
		if err != nil {
			return // its label is no text: nothing of it could be shown
		}
		ended(mcp.JobEnd{Text: describe(e.Job), Job: job})
	})
}

// maxLabel is how much of a command line is said of a job, in bytes.
const maxLabel = 200

// describe is one sentence about a job that has ended.
func describe(j jobs.Job) string {
	text := "job " + j.ID + " "
	switch {
	case j.Status == jobs.Killed && j.EndedBy != nil:
		text += "was ended by " + string(*j.EndedBy)
	case j.Signal != nil:
		text += "has ended with " + *j.Signal
	case j.ExitCode != nil:
		text += fmt.Sprintf("has exited with status %d", *j.ExitCode)
	default:
		text += "has " + string(j.Status)
	}
	if label := j.Label; label != "" {
		if len(label) > maxLabel {
			label = strings.ToValidUTF8(label[:maxLabel], "") + "…"
		}
		text += ": " + oneshot.OneLine(label)
	}
	return text
}
