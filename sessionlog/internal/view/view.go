// Package view says what people are shown of a session log, whatever draws it:
// one Item for each event, in words and styled lines.
package view

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/dshx/dshx/pipeline"
	"github.com/dshx/dshx/sessionlog"
)

// Style is what a text is.
type Style uint8

// The styles.
const (
	Plain   Style = iota
	Note          // said about what is shown, not part of it
	Head          // a path, or the place of a hunk
	Added         // a line that a change added
	Removed       // and one that it removed
	Bad           // what went wrong
	Ask           // a question
)

// Line is one line of an item; Text has no line feed, and may have anything
// else (see Visible).
type Line struct {
	Style Style
	Text  string
}

// Item is an event as people see it.
type Item struct {
	Session  string
	Scope    string
	At       time.Time     // when it began
	Duration time.Duration // of a call; 0 for what takes none
	Call     int64         // 0: about no call
	Ended    bool          // the result of a call
	Word     string        // the tool, or what kind of event it is
	Title    string
	Status   string // how it ended, in a few words
	Style    Style  // Bad for a failure, Ask for a question
	Lines    []Line
}

// Of is the item of an event; false for one that there is nothing to show of.
func Of(e sessionlog.Event) (Item, bool) {
	h := e.Record.Header()
	it := Item{Session: h.Session, Scope: h.Scope, At: h.Time}
	switch r := e.Record.(type) {
	case *sessionlog.Start:
		it.Word, it.Title = "start", "dshx "+r.Version+", preset "+r.Preset+", workspace "+r.Workspace
		it.Status = enforcement(r.Enforcement)
	case *sessionlog.Call:
		it.Call, it.Word = r.Number, r.Tool
		it.Title, it.Lines = card(e.Card)
		it.Lines = nil // they are shown with the result
	case *sessionlog.Question:
		it.Call, it.Word, it.Title, it.Style = r.Number, "question", about(e.Call)+r.Display, Ask
	case *sessionlog.Outcome:
		it.Call, it.Word, it.Title, it.Status, it.Style = r.Number, "answer", about(e.Call), r.Outcome, Ask
		if e.Question != nil {
			it.Title += e.Question.Display
			it.Duration = r.Time.Sub(e.Question.Time)
		}
	case *sessionlog.Result:
		it.Call, it.Ended, it.Word = r.Number, true, r.Tool
		it.Duration = time.Duration(r.DurationMs * float64(time.Millisecond))
		it.At = h.Time.Add(-it.Duration)
		if e.Call != nil {
			it.At = e.Call.Time
		}
		it.Title, it.Lines = card(e.Card)
		if it.Title == "" { // what was found has none of its own
			it.Title, _ = card(e.Pending)
		}
		it.result(e.Card, r)
	case *sessionlog.Preset:
		it.Word, it.Title, it.Status = "preset", r.From+" → "+r.To+", by "+r.By, enforcement(r.Enforcement)
	case *sessionlog.JobEnd:
		it.job(r)
	case *sessionlog.Note:
		it.Word, it.Title = "note", r.Kind+": "+r.Text
	case *sessionlog.Missing:
		it.Word, it.Style, it.Title = "missing", Bad, strconv.FormatInt(r.Records, 10)+" records could not be written: "+r.Reason
	case *sessionlog.End:
		it.Word, it.Title = "end", r.Reason
	default:
		return it, false
	}
	return it, true
}

// Unfinished is the item of a call without a result.
func Unfinished(c *sessionlog.Call) Item {
	return Item{Session: c.Session, Scope: c.Scope, At: c.Time, Call: c.Number, Word: c.Tool, Title: "has no result: it runs still, or dshx was killed", Style: Bad}
}

func about(c *sessionlog.Call) string {
	if c == nil {
		return ""
	}
	return c.Tool + ": "
}

// enforcement is how much of a policy is held, in a few words.
func enforcement(j pipeline.JSON) string {
	var e struct {
		Level string
		Gaps  []struct{ Promise string }
	}
	if json.Unmarshal([]byte(j.String()), &e) != nil || e.Level == "" {
		return ""
	}
	var gaps []string
	for _, g := range e.Gaps {
		gaps = append(gaps, g.Promise)
	}
	if gaps == nil {
		return e.Level
	}
	return e.Level + ": without " + strings.Join(gaps, ", ")
}

// add adds a text, line by line.
func (it *Item) add(style Style, text string) { it.Lines = append(it.Lines, lines(style, text)...) }

func lines(style Style, text string) (out []Line) {
	for line := range strings.Lines(text) {
		out = append(out, Line{style, strings.TrimSuffix(line, "\n")})
	}
	return out
}

// result says how a call ended.
func (it *Item) result(c pipeline.Card, r *sessionlog.Result) {
	var said []string
	for _, b := range r.Content {
		switch {
		case b.Type == "image":
			said = append(said, fmt.Sprintf("[%s, %d bytes, FNV-1a %s]", b.MIMEType, b.Bytes, b.FNV))
		case r.Failure == nil || b.Text != r.Failure.Message: // which is told anyway
			said = append(said, b.Text)
		}
	}
	if r.Failure != nil {
		it.Status, it.Style = r.Failure.Code, Bad
		t, terminal := c.(pipeline.TerminalCard)
		if !terminal || t.Output == r.Failure.Message {
			it.Lines = nil // what was to be, and is not
		}
		it.Lines = append(lines(Bad, r.Failure.Message), it.Lines...)
	}
	switch c := c.(type) {
	case pipeline.DiffCard:
		if r.Failure != nil {
			it.add(Plain, strings.Join(said, "\n")) // such as the nearest text
		}
	case pipeline.TerminalCard:
		switch {
		case r.Failure != nil: // that matters more than how the command went down
		case c.Signal != nil:
			it.Status, it.Style = *c.Signal, Bad
		case c.ExitCode != nil:
			it.Status = "exit " + strconv.Itoa(*c.ExitCode)
			if *c.ExitCode != 0 {
				it.Style = Bad
			}
		}
		// What a model was told beside the output: denials, jobs, how it ended.
		if facts, ok := strings.CutPrefix(strings.Join(said, ""), c.Output); ok {
			it.add(Note, strings.TrimPrefix(facts, "\n"))
		}
	case pipeline.GenericCard:
		it.add(Plain, strings.Join(said, "\n")) // there is nothing else to see of it
	}
}

func (it *Item) job(r *sessionlog.JobEnd) {
	it.Word, it.Title = "job", r.Job.ID+" "+string(r.Job.Status)
	if r.Job.Label != "" {
		it.Title += ": " + r.Job.Label
	}
	it.Duration = time.Duration(r.DurationMs * float64(time.Millisecond))
	it.At = r.Time.Add(-it.Duration)
	switch {
	case r.Job.Signal != nil:
		it.Status = *r.Job.Signal
	case r.Job.ExitCode != nil:
		it.Status = "exit " + strconv.Itoa(*r.Job.ExitCode)
	}
	for _, why := range [...][2]string{{"ended by ", endedBy(r)}, {"reason: ", r.Reason}, {"limit: ", r.Limit}} {
		if why[1] != "" {
			it.add(Note, why[0]+why[1])
		}
	}
	if r.Error != "" {
		it.Style = Bad
		it.add(Bad, r.Error)
	}
}

func endedBy(r *sessionlog.JobEnd) string {
	if r.Job.EndedBy == nil || *r.Job.EndedBy == "exit" {
		return ""
	}
	return string(*r.Job.EndedBy)
}

// card is what a card shows.
func card(c pipeline.Card) (title string, out []Line) {
	switch c := c.(type) {
	case pipeline.TerminalCard:
		return c.Title, lines(Plain, c.Output)
	case pipeline.DiffCard:
		return c.Title, diff(c)
	case pipeline.ReadCard:
		width := len(strconv.Itoa(c.Offset + len(c.Lines)))
		for i, line := range c.Lines {
			out = append(out, Line{Plain, fmt.Sprintf("%*d  %s", width, c.Offset+i, strings.ReplaceAll(line, "\n", " "))})
		}
		shown := fmt.Sprintf("%d of %d lines", len(c.Lines), c.TotalLines)
		return "Read " + c.Path, append(out, Line{Note, shown})
	case pipeline.SearchCard:
		for _, f := range c.Files {
			style := Plain
			if len(f.Matches) > 0 {
				style = Head
			}
			out = append(out, Line{style, f.Path})
			for _, m := range f.Matches {
				for i, line := range strings.Split(m.Text, "\n") {
					out = append(out, Line{Plain, strconv.Itoa(m.Line+i) + ": " + line})
				}
			}
		}
		found := fmt.Sprintf("%d found", c.Total)
		if c.Truncated {
			found += ", not all are shown"
		}
		return "", append(out, Line{Note, found})
	case pipeline.WebCard:
		return c.Title + " " + c.URL, nil
	case pipeline.GenericCard:
		return c.Title, nil
	}
	return "", nil
}

func diff(c pipeline.DiffCard) (out []Line) {
	for _, d := range c.Diffs {
		if len(d.Hunks) == 0 {
			continue
		}
		for _, h := range d.Hunks {
			out = append(out, Line{Head, fmt.Sprintf("@@ -%d,%d +%d,%d @@", h.OldStart, h.OldLines, h.NewStart, h.NewLines)})
			for _, line := range h.Lines {
				style := Plain
				switch {
				case strings.HasPrefix(line, "+"):
					style = Added
				case strings.HasPrefix(line, "-"):
					style = Removed
				}
				out = append(out, Line{style, line})
			}
		}
	}
	if out != nil {
		return out // those of all changes
	}
	for _, d := range c.Diffs {
		if d.OldText != nil {
			for _, line := range lines(Removed, *d.OldText) {
				out = append(out, Line{Removed, "-" + line.Text})
			}
		}
		for _, line := range lines(Added, d.NewText) {
			out = append(out, Line{Added, "+" + line.Text})
		}
	}
	return out
}

// Elapsed is a duration as people say it.
func Elapsed(d time.Duration) string {
	switch {
	case d <= 0:
		return ""
	case d < 10*time.Millisecond:
		return strconv.FormatFloat(float64(d.Microseconds())/1000, 'f', 1, 64) + " ms"
	case d < time.Second:
		return strconv.FormatInt(d.Milliseconds(), 10) + " ms"
	case d < time.Minute:
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + " s"
	}
	return d.Round(time.Second).String()
}

// Visible is a text of which nothing has an effect when it is drawn: what can't
// be printed, what turns the direction of writing included, is shown by its code.
func Visible(s string) string {
	if strings.IndexFunc(s, hidden) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '\t':
			b.WriteString("    ")
		case hidden(r):
			q := strconv.QuoteRune(r)
			b.WriteString(q[1 : len(q)-1])
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

func hidden(r rune) bool { return !unicode.IsPrint(r) }
