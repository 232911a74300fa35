package main

import (
	"fmt"
	"log/slog"
	"strings"

	"github.com/dshx/dshx/internal/cli"
	"github.com/dshx/dshx/internal/oneshot"
	"github.com/dshx/dshx/internal/toolset"
	"github.com/dshx/dshx/jobs"
	"github.com/dshx/dshx/pipeline"
	"github.com/dshx/dshx/serve/mcp"
)

// openTools puts the policy of the flags in force and registers the tools.
func openTools(f *cli.Flags, log *slog.Logger) (*toolset.Set, error) {
	return toolset.Open(f.Request, toolset.Options{RequireFull: f.RequireFull, Timeout: f.Timeout, KillAfter: f.KillAfter, Faults: func(fault pipeline.Fault) {
		log.Error("internal error", "stage", fault.Stage, "name", fault.Name, "panic", fmt.Sprint(fault.Value))
	}})
}

// tools are a set's, as the front door wants them.
type tools struct{ set *toolset.Set }

func (t *tools) Scope() *pipeline.Scope { return t.set.Scope }
func (t *tools) Asks() bool             { return t.set.Asks() }
func (t *tools) Workspace() string      { return t.set.Policy().Workspace() }
func (t *tools) Status() string         { return t.set.Status() }
func (t *tools) EndJobs()               { t.set.EndJobs() }
func (t *tools) Close() error           { return t.set.Close() }

// JobEnds takes the job out of the events that JSON lines has.
func (t *tools) JobEnds(ended func(mcp.JobEnd)) (stop func()) {
	return t.set.JobEvents(func(event any) {
		var e struct {
			Event string        `json:"event"`
			Job   pipeline.JSON `json:"job"`
		}
		var j jobs.Job
		text, err := pipeline.MarshalValue(event)
		if err != nil || text.Decode(&e) != nil || e.Job.Decode(&j) != nil {
			return // its label is no text: nothing of it could be shown
		}
		ended(mcp.JobEnd{Text: describe(j), Job: e.Job})
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
