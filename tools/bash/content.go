package bash

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/dshx/dshx/internal/result"
	"github.com/dshx/dshx/pipeline"
	"github.com/dshx/dshx/tools/internal/plain"
)

const (
	// maxContent is how much a model gets to read of a call, in bytes.
	maxContent = pipeline.MaxContent
	// maxFacts is how much of that are facts and denials.
	maxFacts = 8 << 10
	// maxDenials is how many denials and notices are told, of each.
	maxDenials = 10
)

// render is what a model reads.
func render(a Args, v Value) []pipeline.Content {
	if v.Ended == nil {
		text := "[started in the background: job " + v.JobID + "; job_output reads its output, job_wait waits for its end, job_kill ends it"
		if a.Interactive {
			text += ", job_input gives it input"
		}
		return []pipeline.Content{pipeline.Text(text + "]")}
	}
	out, errs := streams(v)
	text := plain.Fit(maxContent, out, errs, factsText(v))
	if text == "" {
		text = noOutput
	}
	return []pipeline.Content{pipeline.Text(text)}
}

// noOutput is the content of a command that there is nothing to tell of.
const noOutput = "[no output]"

// streams are the command's output as a model reads it.
func streams(v Value) (stdout, stderr string) {
	return plain.Text(v.Stdout, v.Encoding == result.Base64), plain.Text(v.Stderr, v.Encoding == result.Base64)
}

func factsText(v Value) string { return plain.Limit(strings.Join(facts(v), "\n"), maxFacts) }

// meta is what a card needs beyond arguments and content.
type meta struct {
	Cwd      string  `json:"cwd"`
	ExitCode *int    `json:"exitCode"`
	Signal   *string `json:"signal"`
	JobID    string  `json:"jobId,omitzero"` // in the background only
	// Facts are what the content has behind the output: that is all of it but
	// these, and isn't here a second time.
	Facts string `json:"facts,omitzero"`
}

// presentationMeta is a value's meta.
func presentationMeta(_ Args, v Value) any {
	m := meta{Cwd: v.Cwd, JobID: v.JobID}
	if v.Ended != nil {
		m.ExitCode, m.Signal, m.Facts = v.ExitCode, v.Signal, factsText(v)
		if m.Facts == "" {
			if out, errs := streams(v); out == "" && errs == "" {
				m.Facts = noOutput
			}
		}
	}
	return m
}

// facts are lines about how the command ended.
func facts(v Value) (out []string) {
	say := func(format string, args ...any) { out = append(out, "["+fmt.Sprintf(format, args...)+"]") }
	switch {
	case v.TimedOut:
		ms := int64(0)
		if v.TimeoutMs != nil {
			ms = *v.TimeoutMs
		}
		say("timed out after %s s", strconv.FormatFloat(time.Duration(ms*1e6).Seconds(), 'f', -1, 64))
	case v.Signal != nil:
		say("signal %s", *v.Signal)
	case v.ExitCode != nil && *v.ExitCode != 0:
		say("exit code %d", *v.ExitCode)
	}
	if l := v.LeftBehind; l != nil {
		n := fmt.Sprintf("%d processes", len(l.Pids))
		if len(l.Pids) == 1 {
			n = "1 process"
		}
		if l.JobID != nil {
			say("%s left running: job %s", n, *l.JobID)
		} else {
			say("%s left running and ended, since no job could be made of it", n)
		}
	}
	if v.Truncated {
		say("%s", cut(v))
	}
	for i, d := range v.Sandbox.Denials {
		if i == maxDenials {
			say("and %d more denials", len(v.Sandbox.Denials)-i)
			break
		}
		text := fmt.Sprintf("denied %s %s (%s)", d.Operation, plain.Line(d.Target), plain.Line(d.Rule.Text))
		if d.Remedy != "" {
			text += ": " + plain.Line(d.Remedy)
		}
		say("%s", text)
	}
	told := 0
	for _, n := range v.Sandbox.Notices {
		if n.Kind != "git-dir-created" && n.Kind != "limit" {
			continue // about the policy, the same for every call
		}
		if told++; told > maxDenials {
			break
		}
		text := plain.Line(n.Text)
		if n.Path != "" {
			text = plain.Line(n.Path) + ": " + text
		}
		say("%s", text)
	}
	return out
}

// cut says what is left out of the output, and where it is.
func cut(v Value) string {
	text := fmt.Sprintf("output cut: %d bytes on stdout, %d on stderr", v.StdoutBytes, v.StderrBytes)
	sp := v.Spill
	if sp == nil || sp.Stdout == nil && sp.Stderr == nil {
		return text + "; the rest was not kept"
	}
	what := "all of it is in "
	if !sp.Complete {
		what = fmt.Sprintf("the first %d bytes are in ", sp.Bytes)
	}
	var paths []string
	for _, p := range [...]*string{sp.Stdout, sp.Stderr} {
		if p != nil {
			paths = append(paths, *p)
		}
	}
	return text + "; " + what + strings.Join(paths, " and ")
}

// presentCall is the card of a call that has no result yet.
func presentCall(a Args) pipeline.Card {
	return pipeline.TerminalCard{Title: label(&a), Cwd: a.Workdir}
}

// presentResult is the card of one that has ended.
func presentResult(a Args, s pipeline.Shown) pipeline.Card {
	c := pipeline.TerminalCard{Title: label(&a), Cwd: a.Workdir}
	var m meta
	switch {
	case s.Decode(&m):
	case s.OK():
		return nil
	default:
		c.Output = s.Failure.Message
		return c
	}
	c.Cwd, c.ExitCode, c.Signal = m.Cwd, m.ExitCode, m.Signal
	if m.JobID != "" {
		c.Output = "job " + m.JobID
		return c
	}
	for _, block := range s.Content {
		c.Output += block.Text()
	}
	// Content that somebody has replaced may lack the facts: all of it is shown.
	c.Output = strings.TrimSuffix(c.Output, m.Facts)
	return c
}
