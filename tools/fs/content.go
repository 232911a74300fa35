package fs

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/dshx/dshx/pipeline"
	"github.com/dshx/dshx/tools/fs/internal/diff"
	"github.com/dshx/dshx/tools/fs/internal/text"
	toolplain "github.com/dshx/dshx/tools/internal/plain"
)

const (
	// maxContent bounds what a model reads of one result, in bytes.
	maxContent = pipeline.MaxContent
	// roomForFacts is kept free of it for what must be said at the end.
	roomForFacts = 2 << 10
	// maxValueText bounds the texts of a value that has many, in bytes.
	maxValueText = 256 << 10
)

// page is a content in the making: lines as far as there is room, then facts in
// brackets.
type page struct {
	b    strings.Builder
	full bool
}

// line adds a line, and reports whether it found room; after one that didn't no
// other does.
func (p *page) line(s string) bool {
	if p.full || p.b.Len()+len(s)+1 > maxContent-roomForFacts {
		p.full = true
		return false
	}
	p.b.WriteString(s)
	p.b.WriteByte('\n')
	return true
}

// fact adds a line in brackets.
func (p *page) fact(format string, args ...any) {
	s := fmt.Sprintf(format, args...)
	if p.b.Len()+len(s)+3 <= maxContent {
		p.b.WriteString("[" + s + "]\n")
	}
}

func (p *page) content() []pipeline.Content {
	return []pipeline.Content{pipeline.Text(strings.TrimSuffix(p.b.String(), "\n"))}
}

// plain is a path on a line of its own: quoted as soon as it could be taken for
// something else, or has what can't be shown.
func plain(path string) string {
	odd := path == "" || path[0] == '"' || path[0] == ' ' || path[len(path)-1] == ' ' || !utf8.ValidString(path) ||
		strings.ContainsFunc(path, func(r rune) bool { return !unicode.IsPrint(r) && r != ' ' })
	if odd {
		return strconv.Quote(path)
	}
	return path
}

// Omitted counts what was left out although the arguments wanted it.
type Omitted struct {
	Ignored int `json:"ignored" doc:"files that git ignores, and directories with all below them"`
	Denied  int `json:"denied" doc:"what could not be read, by the policy or by its mode"`
}

// leftOut says what wasn't looked at. That names with a dot weren't is worth
// saying when nothing was found.
func leftOut(p *page, unseen bool, o Omitted, more ...string) {
	var parts []string
	if o.Ignored > 0 {
		parts = append(parts, fmt.Sprintf("%d that git ignores (ignored=true shows them)", o.Ignored))
	}
	if o.Denied > 0 {
		parts = append(parts, fmt.Sprintf("%d that could not be read", o.Denied))
	}
	parts = append(parts, more...)
	if len(parts) > 0 {
		p.fact("left out: %s", strings.Join(parts, "; "))
	}
	if unseen {
		p.fact("names that begin with a dot were not looked at (hidden=true does)")
	}
}

// count is "1 file", "2 files".
func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}

// diff is the difference of two contents of w's file; created and deleted say
// on which side there is none.
func (w *work) diff(before, after []byte, created, deleted bool) string {
	u, _ := compare(w.at.show, before, after, created, deleted)
	return u
}

// compare is a unified diff and its hunks, both valid UTF-8.
func compare(path string, before, after []byte, created, deleted bool) (string, []pipeline.Hunk) {
	d := diff.Compare(text.Decode(before).Content, text.Decode(after).Content, diff.Options{})
	from, to := "a/"+strings.TrimPrefix(path, "/"), "b/"+strings.TrimPrefix(path, "/")
	if created {
		from = "/dev/null"
	}
	if deleted {
		to = "/dev/null"
	}
	hunks := []pipeline.Hunk{}
	for _, h := range d.Hunks {
		lines := make([]string, len(h.Lines))
		for i, l := range h.Lines {
			lines[i] = text.Valid(l)
		}
		hunks = append(hunks, pipeline.Hunk{OldStart: h.OldStart, OldLines: h.OldLines, NewStart: h.NewStart, NewLines: h.NewLines, Lines: lines})
	}
	return text.Valid(d.Unified(from, to)), hunks
}

// say puts a text beside the failure that is about to be returned, where a
// model reads it: the message is one sentence.
func (w *work) say(s string) {
	if s == "" {
		return
	}
	if len(s) > maxContent-roomForFacts {
		cut := maxContent - roomForFacts
		for !utf8.RuneStart(s[cut]) {
			cut--
		}
		s = s[:cut] + "\n[cut]"
	}
	w.putBeside(w.call, pipeline.Text(s))
}

// maxShown bounds the texts of a card, in bytes, all of one kind together: it is
// a person's view of a result, as content is a model's.
const maxShown = maxContent

// fitting is how many of n texts have room in a card.
func fitting(n int, text func(i int) string) int {
	room := maxShown
	for i := range n {
		if room -= len(text(i)) + 1; room < 0 {
			return i
		}
	}
	return n
}

// cutter shortens texts for a card. The zero value has given nothing.
type cutter struct{ given int }

// text is s, its middle left out where there is no room for all of it.
func (c *cutter) text(s string) string {
	s = toolplain.Limit(s, maxShown-c.given)
	c.given = min(c.given+len(s), maxShown)
	return s
}

// presented makes a tool's PresentResult of card, which is for what went well and
// has its Meta. A call that failed is shown as it was before.
func presented[A, M any](pending func(A) pipeline.Card, card func(A, M) pipeline.Card) func(A, pipeline.Shown) pipeline.Card {
	return func(a A, s pipeline.Shown) pipeline.Card {
		var m M
		switch {
		case !s.OK():
			return pending(a)
		case !s.Decode(&m):
			return nil
		}
		return card(a, m)
	}
}

// pathsMeta is what a card needs of a list of paths.
type pathsMeta struct {
	Paths     []string `json:"paths"`
	Total     int      `json:"total"`
	Truncated bool     `json:"truncated"`
}

// pathsOf is the pathsMeta of n paths, of total that there are.
func pathsOf(n int, path func(i int) string, total int, truncated bool) *pathsMeta {
	kept := fitting(n, path)
	m := &pathsMeta{Paths: make([]string, kept), Total: total, Truncated: truncated || kept < n}
	for i := range m.Paths {
		m.Paths[i] = path(i)
	}
	return m
}

func (m *pathsMeta) card() pipeline.Card {
	card := pipeline.SearchCard{Shape: "paths", Truncated: m.Truncated, Total: m.Total, Files: make([]pipeline.SearchFile, len(m.Paths))}
	for i, path := range m.Paths {
		card.Files[i] = pipeline.SearchFile{Path: path, Matches: []pipeline.SearchMatch{}}
	}
	return card
}
