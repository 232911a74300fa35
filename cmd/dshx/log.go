package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/dshx/dshx/internal/cli"
	"github.com/dshx/dshx/internal/oneshot"
	"github.com/dshx/dshx/internal/program"
	"github.com/dshx/dshx/internal/toolset"
	"github.com/dshx/dshx/pipeline"
	"github.com/dshx/dshx/sessionlog"
	"github.com/dshx/dshx/sessionlog/html"
	"github.com/dshx/dshx/sessionlog/show"
	"github.com/spf13/cobra"
)

func newLog() *cobra.Command {
	return group(&cobra.Command{
		Use:   "log",
		Short: "Show a session log",
		Long:  "Show what is in a session log, which exec, call and others write with --log.",
	}, newLogShow(), newLogHTML())
}

func newLogShow() *cobra.Command {
	return command(&cobra.Command{
		Use:   "show [flags] FILE",
		Short: "Show a session log in the terminal",
		Long: `Show a session log in the terminal: calls with their cards, questions with
their outcomes, ends of jobs. The older parts of the log that FILE continues
(FILE.1, FILE.2 …) come first.

What is no record, or was cut off, is told on standard error, and the rest is
shown. Exits 1 only where FILE can't be read at all.`,
		Example: `  dshx log show session.log
  dshx log show --follow session.log`,
	}, operands{min: 1, max: 1}, logShow, cli.LogShow)
}

func newLogHTML() *cobra.Command {
	return command(&cobra.Command{
		Use:   "html [flags] FILE",
		Short: "Make one page of a session log",
		Long: `Make one page of a session log: a timeline and the cards. It needs no network
and runs no script.`,
		Example: `  dshx log html session.log -o session.html`,
	}, operands{min: 1, max: 1}, logHTML, cli.LogHTML)
}

// lookup finds tools to make cards with.
func lookup() (func(name string) *pipeline.Tool, error) {
	list, err := toolset.Definitions()
	if err != nil {
		return nil, err
	}
	byName := map[string]*pipeline.Tool{}
	for _, t := range list {
		byName[t.Name()] = t
	}
	return func(name string) *pipeline.Tool { return byName[name] }, nil
}

// problems joins lines that have the same problem, one after the other, to one
// sentence.
type problems struct {
	tell        func(string)
	file, text  string
	first, last int
}

// line takes the next line; one without a problem ends what was joined.
func (p *problems) line(l sessionlog.Line) {
	if p.text != "" && (l.Problem != p.text || l.File != p.file) {
		where := "line " + strconv.Itoa(p.first)
		if p.last > p.first {
			where = fmt.Sprintf("lines %d to %d", p.first, p.last)
		}
		p.tell(p.file + ", " + where + ": " + p.text)
		p.text = ""
	}
	if l.Problem != "" {
		if p.text == "" {
			p.file, p.text, p.first = l.File, l.Problem, l.N
		}
		p.last = l.N
	}
}

func logShow(c *cobra.Command, f *cli.Flags, args []string) error {
	tools, err := lookup()
	if err != nil {
		return err
	}
	r, err := sessionlog.OpenReader(args[0])
	if err != nil {
		return err
	}
	defer r.Close()
	next, stop := r.Next, func() {}
	ctx := context.Background()
	if f.Follow {
		ctx, stop = program.UntilSignal(ctx)
		next = func() (sessionlog.Line, error) { return r.Follow(ctx) }
	}
	defer stop()
	out := c.OutOrStdout()
	draw := show.New(out, show.Options{Color: colored(f.Color, out), Location: time.Local, Pending: f.Follow})
	p := problems{tell: func(text string) { fmt.Fprintf(c.ErrOrStderr(), "dshx: %s\n", oneshot.OneLine(text)) }}
	replay := sessionlog.NewReplay(tools)
	for {
		line, err := next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		p.line(line)
		if line.Record != nil {
			if err := draw.Event(replay.Event(line.Record)); err != nil {
				return err
			}
		}
		if f.Follow && line.Problem != "" {
			p.line(sessionlog.Line{}) // who watches is told at once
		}
	}
	p.line(sessionlog.Line{})
	var sig program.Ended
	if errors.As(context.Cause(ctx), &sig) {
		return statusError(128 + int(sig.Signal))
	}
	for _, call := range replay.Unfinished() {
		if err := draw.Unfinished(call); err != nil {
			return err
		}
	}
	return nil
}

// colored reports whether to use colours: https://no-color.org.
func colored(when string, out io.Writer) bool {
	switch when {
	case "always":
		return true
	case "never":
		return false
	}
	file, ok := out.(*os.File)
	return ok && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && oneshot.IsTerminal(int(file.Fd()))
}

func logHTML(c *cobra.Command, f *cli.Flags, args []string) error {
	tools, err := lookup()
	if err != nil {
		return err
	}
	r, err := sessionlog.OpenReader(args[0])
	if err != nil {
		return err
	}
	defer r.Close()
	page := html.New(filepath.Base(args[0]))
	p := problems{tell: func(text string) {
		page.Problem(text)
		fmt.Fprintf(c.ErrOrStderr(), "dshx: %s\n", oneshot.OneLine(text))
	}}
	replay := sessionlog.NewReplay(tools)
	for {
		line, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		p.line(line)
		if line.Record != nil {
			page.Event(replay.Event(line.Record))
		}
	}
	p.line(sessionlog.Line{})
	for _, call := range replay.Unfinished() {
		page.Unfinished(call)
	}
	if f.Out == "" {
		_, err = page.WriteTo(c.OutOrStdout())
		return err
	}
	return writePage(page, f.Out)
}

// writePage puts the page where it is wanted, wholly or not at all. It is as
// private as the log.
func writePage(page *html.Page, path string) error {
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*") // 0600
	if err != nil {
		return err
	}
	_, err = page.WriteTo(file)
	err = errors.Join(err, file.Close())
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		_ = os.Remove(file.Name())
	}
	return err
}
