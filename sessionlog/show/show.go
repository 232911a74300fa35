// Package show draws a session log for people in a terminal. Nothing in a log
// can control the terminal: what can't be printed is shown by its code.
package show

import (
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/dshx/dshx/sessionlog"
	"github.com/dshx/dshx/sessionlog/internal/view"
)

// maxLines is how many lines of one card are shown, maxWidth how many bytes of
// one line.
const (
	maxLines = 60
	maxWidth = 2000
)

// Options are a drawing's.
type Options struct {
	Color bool
	// Location is where times are told of; nil: UTC.
	Location *time.Location
	// Pending shows calls when they begin, too: for who watches.
	Pending bool
}

// Drawer draws events one after the other.
type Drawer struct {
	out io.Writer
	o   Options
	day string
}

// New makes a drawer.
func New(out io.Writer, o Options) *Drawer {
	if o.Location == nil {
		o.Location = time.UTC
	}
	return &Drawer{out: out, o: o}
}

// colours are ECMA-48's SGR parameters.
var colours = [...]string{view.Note: "2", view.Head: "36", view.Added: "32", view.Removed: "31", view.Bad: "31", view.Ask: "33"}

const bold, dim = "1", "2"

// styled is a text, made visible, in a colour.
func (d *Drawer) styled(sgr, text string) string {
	text = view.Visible(text)
	if !d.o.Color || sgr == "" || text == "" {
		return text
	}
	return "\x1b[" + sgr + "m" + text + "\x1b[0m"
}

// Event draws an event.
//
// Errors: those of writing.
func (d *Drawer) Event(e sessionlog.Event) error {
	it, ok := view.Of(e)
	if !ok {
		return nil
	}
	if _, begins := e.Record.(*sessionlog.Call); begins {
		if !d.o.Pending {
			return nil
		}
		it.Status = "…"
	}
	return d.item(it)
}

// Unfinished draws a call that has no result.
func (d *Drawer) Unfinished(c *sessionlog.Call) error { return d.item(view.Unfinished(c)) }

func (d *Drawer) item(it view.Item) error {
	var b strings.Builder
	at := it.At.In(d.o.Location)
	if day := at.Format("Monday, 2006-01-02"); day != d.day {
		d.day = day
		b.WriteString(d.styled(bold, day) + "\n")
	}
	b.WriteString(d.styled(dim, at.Format("15:04:05.000")) + "  ")
	if it.Scope != "" && it.Scope != "main" {
		b.WriteString(d.styled(dim, it.Scope) + "  ")
	}
	b.WriteString(d.styled(bold, it.Word))
	if it.Title != "" {
		b.WriteString("  " + d.styled("", cut(it.Title)))
	}
	if it.Status != "" {
		b.WriteString("  " + d.styled(colours[it.Style], it.Status))
	}
	if t := view.Elapsed(it.Duration); t != "" {
		b.WriteString("  " + d.styled(dim, t))
	}
	b.WriteByte('\n')
	// Both ends of what is long.
	lines := it.Lines
	if n := len(lines); n > maxLines {
		left := view.Line{Style: view.Note, Text: "… " + count(n-maxLines+1) + " …"}
		lines = append(append(append([]view.Line{}, lines[:maxLines*2/3]...), left), lines[n-maxLines/3+1:]...)
	}
	for _, line := range lines {
		b.WriteString("    " + d.styled(colours[line.Style], cut(line.Text)) + "\n")
	}
	_, err := io.WriteString(d.out, b.String())
	return err
}

func count(n int) string {
	if n == 1 {
		return "1 line"
	}
	return strconv.Itoa(n) + " lines"
}

// cut is a line within bounds.
func cut(s string) string {
	if len(s) <= maxWidth {
		return s
	}
	return strings.ToValidUTF8(s[:maxWidth], "") + "…"
}
