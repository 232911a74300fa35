package fs

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"
	"strings"

	"github.com/dshx/dshx/pipeline"
	"github.com/dshx/dshx/tools/fs/internal/glob"
	"github.com/dshx/dshx/tools/fs/internal/grep"
	"github.com/dshx/dshx/tools/fs/internal/text"
	"github.com/dshx/dshx/tools/permission"
)

//go:embed grep.md
var grepDescription string

// GrepArgs are grep's arguments.
type GrepArgs struct {
	Pattern    string `json:"pattern" schema:"min=1" doc:"a regular expression in RE2 syntax, or plain text with fixed"`
	Path       string `json:"path,omitzero" default:"\".\"" doc:"a directory or a file; relative to the workspace, or absolute"`
	Include    string `json:"include,omitzero" schema:"max=4096" doc:"a glob that files must match: *.go, src/**/*.{ts,tsx}"`
	Exclude    string `json:"exclude,omitzero" schema:"max=4096" doc:"a glob for files and directories to leave out"`
	Fixed      bool   `json:"fixed,omitzero" default:"false" doc:"pattern is plain text"`
	IgnoreCase bool   `json:"ignore_case,omitzero" default:"false"`
	Multiline  bool   `json:"multiline,omitzero" default:"false" doc:"matches may go over several lines; . matches no line end"`
	Word       bool   `json:"word,omitzero" default:"false" doc:"whole words only"`
	Before     int    `json:"before,omitzero" default:"0" schema:"min=0,max=100" doc:"lines of context before a match"`
	After      int    `json:"after,omitzero" default:"0" schema:"min=0,max=100" doc:"lines of context after a match"`
	Output     string `json:"output,omitzero" default:"\"matches\"" schema:"enum=matches|files|count" doc:"matching lines, only files, or files with the number of matches"`
	Hidden     bool   `json:"hidden,omitzero" default:"false" doc:"files whose path has a name that begins with a dot, too"`
	Ignored    bool   `json:"ignored,omitzero" default:"false" doc:"what git ignores, and .git, too"`
	Limit      int    `json:"limit,omitzero" default:"250" schema:"min=1,max=10000" doc:"matches at most; files with output files and count"`
	permission.Args
}

// GrepValue is grep's value.
type GrepValue struct {
	Pattern      string      `json:"pattern"`
	Files        []GrepFile  `json:"files"`
	TotalMatches int         `json:"totalMatches"`
	TotalFiles   int         `json:"totalFiles"`
	Truncated    bool        `json:"truncated"`
	Spill        *Spill      `json:"spill" doc:"all matches, one JSON object a line, where the value has not all"`
	Omitted      GrepOmitted `json:"omitted"`
}

// GrepFile is a file with matches.
type GrepFile struct {
	Named
	Count   int         `json:"count" doc:"of all its matches"`
	Matches []GrepMatch `json:"matches" doc:"none with output files and count"`
}

// GrepMatch is a line that matches, or the lines of a match.
type GrepMatch struct {
	Line   int      `json:"line" doc:"from 1"`
	Column int      `json:"column" doc:"in bytes of UTF-8, from 1"`
	Text   string   `json:"text"`
	Before []string `json:"before"`
	After  []string `json:"after"`
	Cut    int      `json:"cut,omitzero" doc:"characters of the line that are missing in text"`
}

// GrepOmitted counts what was not searched.
type GrepOmitted struct {
	Ignored  int `json:"ignored" doc:"files that git ignores, and directories with all below them"`
	Binary   int `json:"binary" doc:"files with a NUL byte"`
	Denied   int `json:"denied" doc:"what could not be read, by the policy or by its mode"`
	TooLarge int `json:"tooLarge" doc:"files with more in a line than can be searched"`
}

func (t *tools) defineGrep() (*pipeline.Tool, error) {
	pending := func(a GrepArgs) pipeline.Card {
		return pipeline.GenericCard{Title: "Search for " + a.Pattern, Kind: pipeline.KindSearch, Locations: []pipeline.Location{{Path: a.Path}}}
	}
	return pipeline.Define(pipeline.Spec[GrepArgs, GrepValue]{
		Name: "grep", Title: "Search in files", Description: strings.TrimSpace(grepDescription),
		Hints:           pipeline.Hints{ReadOnly: true, Idempotent: true},
		Execute:         t.grep,
		Render:          renderGrep,
		FinalizeContent: t.addContent,
		Parallel:        true,
		PresentCall:     pending,
		Meta:            metaOfGrep,
		PresentResult: presented(pending, func(a GrepArgs, m grepMeta) pipeline.Card {
			card := pipeline.SearchCard{Shape: "paths", Truncated: m.Truncated, Total: m.Total, Files: m.Files}
			if a.Output == "matches" {
				card.Shape = "matches"
			}
			return card
		}),
	})
}

// grepMeta is what a card shows of a search.
type grepMeta struct {
	Files     []pipeline.SearchFile `json:"files"`
	Total     int                   `json:"total"` // matches; files with output files and count
	Truncated bool                  `json:"truncated"`
}

func metaOfGrep(a GrepArgs, v GrepValue) any {
	m := grepMeta{Files: []pipeline.SearchFile{}, Total: v.TotalFiles, Truncated: v.Truncated}
	if a.Output == "matches" {
		m.Total = v.TotalMatches
	}
	room := maxShown
	for _, f := range v.Files {
		if room -= len(f.Path) + 1; room < 0 {
			m.Truncated = true
			break
		}
		found := pipeline.SearchFile{Path: f.Path, Matches: []pipeline.SearchMatch{}}
		for _, match := range f.Matches {
			if room -= len(match.Text) + 1; room < 0 {
				m.Truncated = true
				break
			}
			found.Matches = append(found.Matches, pipeline.SearchMatch{Line: match.Line, Text: match.Text})
		}
		m.Files = append(m.Files, found)
	}
	return m
}

func (t *tools) grep(ctx context.Context, a GrepArgs, c *pipeline.Call) (v GrepValue, err error) {
	m, err := grep.Compile(grep.Pattern{Text: a.Pattern, Fixed: a.Fixed, IgnoreCase: a.IgnoreCase, Multiline: a.Multiline, Word: a.Word})
	if err != nil {
		return v, patternError("pattern", "a regular expression that RE2 has", err)
	}
	include, err := nameGlob("include", a.Include)
	if err != nil {
		return v, err
	}
	exclude, err := nameGlob("exclude", a.Exclude)
	if err != nil {
		return v, err
	}
	w, end, err := t.begin(ctx, c, a.Path)
	if err != nil {
		return v, err
	}
	defer end()
	k, err := w.walking(searchArgs{a.Path, a.Hidden, a.Ignored}, true)
	if err != nil {
		return v, err
	}
	k.Include, k.Exclude = include, exclude
	spill := w.spilling(".jsonl")
	lines := grep.JSONLines(spill, w.prefix())
	o := grep.Options{Walk: k.Options, Before: a.Before, After: a.After, Limit: a.Limit, Overflow: func(f *grep.File) error {
		if f.Path == "" { // the path names one file
			lines := grep.JSONLines(spill, w.at.show)
			return lines(f)
		}
		return lines(f)
	}}
	switch a.Output {
	case "files":
		o.Output = grep.Files
	case "count":
		o.Output = grep.Count
	}
	found, err := grep.Search(ctx, k.run, m, o)
	if err := w.done(k, err); err != nil {
		spill.close()
		return v, err
	}
	v = GrepValue{
		Pattern: a.Pattern, Files: []GrepFile{}, TotalMatches: found.TotalMatches, TotalFiles: found.TotalFiles,
		Truncated: found.Truncated, Omitted: GrepOmitted(found.Omitted),
	}
	if fits := w.files(&v, found.Files); !fits {
		if !found.Truncated {
			// All of it is in memory, and the value has no room for it.
			err = w.in.Do(func() error {
				for i := range found.Files {
					if err := o.Overflow(&found.Files[i]); err != nil {
						return err
					}
				}
				return nil
			})
		}
		v.Truncated = true
	}
	v.Spill = spill.close()
	return v, err
}

// prefix is what stands before the paths of w's search.
func (w *work) prefix() string {
	switch w.at.show {
	case ".":
		return ""
	case "/":
		return "/"
	}
	return w.at.show + "/"
}

func nameGlob(name, pattern string) (*glob.Pattern, error) {
	if pattern == "" {
		return nil, nil
	}
	g, err := glob.CompileName(pattern)
	if err != nil {
		return nil, patternError(name, "a glob", err)
	}
	return g, nil
}

// files puts what was found into the value, as far as there is room.
func (w *work) files(v *GrepValue, files []grep.File) (fits bool) {
	room := maxValueText
	for _, f := range files {
		path := w.at.show
		if f.Path != "" {
			path = w.at.below(f.Path)
		}
		out := GrepFile{Named: named(path), Count: f.Count, Matches: []GrepMatch{}}
		if room -= 64 + len(path); room < 0 {
			return false
		}
		fits = true
		for _, m := range f.Matches {
			one := GrepMatch{Line: m.Line, Column: m.Column, Text: text.Valid(m.Text.Text), Before: texts(m.Before), After: texts(m.After), Cut: m.Cut}
			room -= 96 + len(one.Text)
			for _, context := range [...][]string{one.Before, one.After} {
				for _, l := range context {
					room -= 4 + len(l)
				}
			}
			if room < 0 {
				fits = false
				break
			}
			out.Matches = append(out.Matches, one)
		}
		if len(out.Matches) > 0 || len(f.Matches) == 0 {
			v.Files = append(v.Files, out)
		}
		if !fits {
			return false
		}
	}
	return true
}

func texts(in []grep.Text) []string {
	out := make([]string, len(in))
	for i, t := range in {
		out[i] = text.Valid(t.Text)
	}
	return out
}

func renderGrep(a GrepArgs, v GrepValue) []pipeline.Content {
	var p page
	shown := 0
	for _, f := range v.Files {
		name := plain(f.bytes())
		switch a.Output {
		case "count":
			name += ": " + strconv.Itoa(f.Count)
		case "matches":
			name += ":"
		}
		if !p.line(name) {
			break
		}
		shown += max(len(f.Matches), 1)
		shown -= p.matches(f.Matches)
	}
	if p.full {
		p.fact("this result has more, which is not shown; narrow the pattern, the path or include")
	}
	switch {
	case v.TotalMatches == 0:
		p.fact("nothing found for %s in %s", text.Valid(a.Pattern), plain(a.Path))
	case v.Truncated:
		p.fact("%d shown of %s in %s", shown, count(v.TotalMatches, "match", "matches"), count(v.TotalFiles, "file", "files"))
		spillFact(&p, v.Spill)
	default:
		p.fact("%s in %s", count(v.TotalMatches, "match", "matches"), count(v.TotalFiles, "file", "files"))
	}
	var more []string
	if n := v.Omitted.Binary; n > 0 {
		more = append(more, fmt.Sprintf("%d binary (name the file to search it)", n))
	}
	if n := v.Omitted.TooLarge; n > 0 {
		more = append(more, fmt.Sprintf("%d with lines too long to search", n))
	}
	leftOut(&p, !a.Hidden && v.TotalMatches == 0, Omitted{v.Omitted.Ignored, v.Omitted.Denied}, more...)
	return p.content()
}

// matches adds the lines of one file, and returns how many matches had no room.
func (p *page) matches(list []GrepMatch) (missing int) {
	last := 0 // line that was shown last
	for i, m := range list {
		if first := m.Line - len(m.Before); last > 0 && first > last+1 && len(m.Before)+len(m.After) > 0 {
			p.line("--")
		}
		for j, l := range m.Before {
			if n := m.Line - len(m.Before) + j; n > last {
				p.line(strconv.Itoa(n) + "-\t" + l)
				last = n
			}
		}
		end := m.Line // a match of several lines is shown as several
		for j, l := range strings.Split(m.Text, "\n") {
			end = m.Line + j
			if !p.line(strconv.Itoa(end) + ":\t" + l) {
				return len(list) - i
			}
		}
		if m.Cut > 0 {
			p.line(fmt.Sprintf("[%d characters of that line are not shown; the match is at byte %d]", m.Cut, m.Column))
		}
		last = end
		for j, l := range m.After {
			// The next match shows its own line.
			if n := end + 1 + j; i+1 == len(list) || n < list[i+1].Line {
				p.line(strconv.Itoa(n) + "-\t" + l)
				last = n
			}
		}
	}
	return 0
}
