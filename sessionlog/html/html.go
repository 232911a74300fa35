// Package html makes one page of a session log: a timeline of its calls, and
// their cards. The page needs no network, runs no script, and everything that is
// from the log is escaped in one place.
package html

import (
	"html"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/dshx/dshx/sessionlog"
	"github.com/dshx/dshx/sessionlog/internal/view"
)

// styleHash is of style, for the page's policy: a test says when it is another
// one's. It is not computed here since package crypto/sha256 would be initialised
// before exec (ADR 0008).
const styleHash = "sha256-oKdx2tqE4GJsNRT844qRJUFbviwNtNtyTLv/gyoKMlU="

const style = `
:root{color-scheme:light dark;--bg:#fff;--fg:#1c1e21;--dim:#667;--line:#d8dbe0;--box:#f5f6f8;--ok:#3b7dd8;--bad:#c62f3b;--ask:#a86a00;--add:#18794e;--addbg:#e4f5ea;--del:#b3261e;--delbg:#fbe9e8}
@media(prefers-color-scheme:dark){:root{--bg:#16181c;--fg:#e4e6ea;--dim:#9a9fa8;--line:#33363d;--box:#1f2228;--ok:#5b9bf0;--bad:#ff6b6b;--ask:#e0a93b;--add:#6fd39a;--addbg:#14301f;--del:#ff8a80;--delbg:#3a1a1a}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:70rem;padding:1.5rem;background:var(--bg);color:var(--fg);font:15px/1.5 system-ui,sans-serif}
h1{font-size:1.3rem;margin:0}h2{font-size:1.05rem;margin:1.6rem 0 .5rem}
p{margin:.3rem 0;color:var(--dim)}
svg{display:block;width:100%;background:var(--box);border:1px solid var(--line);border-radius:6px}
rect{fill:var(--ok)}rect.bad{fill:var(--bad)}a:hover rect,a:focus rect{opacity:.6}
article{border:1px solid var(--line);border-radius:6px;margin:.5rem 0;overflow:hidden}
article:target{outline:2px solid var(--ok)}
header.item{display:flex;flex-wrap:wrap;gap:.2rem .8rem;padding:.35rem .7rem;align-items:baseline;overflow-wrap:anywhere}
time,.took,.note{color:var(--dim)}time,.took,.status{font-size:.85rem;font-variant-numeric:tabular-nums}
.title{flex:1}.word{font-weight:600}.bad .status,.badline{color:var(--bad)}.ask .status,.ask .word{color:var(--ask)}
pre{margin:0;padding:.5rem .7rem;background:var(--box);border-top:1px solid var(--line);overflow:auto;max-height:32rem;font:13px/1.45 ui-monospace,monospace;tab-size:4}
.add{color:var(--add);background:var(--addbg)}.del{color:var(--del);background:var(--delbg)}.head{color:var(--ok)}
.add,.del,.head,.note,.badline{display:inline-block;min-width:100%}
.problem{color:var(--bad)}
`

// markup is what the page itself is made of: constants of this package. Texts
// have another type, and get in by text alone.
type markup string

// Page gathers what a page shows.
type Page struct {
	name     string
	items    []view.Item
	problems []string
}

// New makes a page about the log of that name.
func New(name string) *Page { return &Page{name: name} }

// Event adds an event.
func (p *Page) Event(e sessionlog.Event) {
	if _, begins := e.Record.(*sessionlog.Call); begins {
		return // its result shows it
	}
	if it, ok := view.Of(e); ok {
		p.items = append(p.items, it)
	}
}

// Unfinished adds a call that has no result.
func (p *Page) Unfinished(c *sessionlog.Call) { p.items = append(p.items, view.Unfinished(c)) }

// Problem adds a sentence about the log.
func (p *Page) Problem(text string) { p.problems = append(p.problems, text) }

// writer writes a page.
type writer struct{ b strings.Builder }

func (w *writer) raw(m ...markup) {
	for _, s := range m {
		w.b.WriteString(string(s))
	}
}

// text is the one way for everything else: made visible, and escaped for
// elements and quoted attributes alike.
func (w *writer) text(s string) { w.b.WriteString(html.EscapeString(view.Visible(s))) }

func (w *writer) number(n int) { w.text(strconv.Itoa(n)) }

// element is <name class="class">text</name>.
func (w *writer) element(open markup, text string, close markup) {
	w.raw(open)
	w.text(text)
	w.raw(close)
}

// WriteTo writes the page.
func (p *Page) WriteTo(out io.Writer) (int64, error) {
	w := &writer{}
	w.raw("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n",
		"<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src '"+styleHash+"'; base-uri 'none'; form-action 'none'\">\n",
		"<meta name=\"viewport\" content=\"width=device-width\">\n<meta name=\"referrer\" content=\"no-referrer\">\n")
	w.element("<title>", "Session log "+p.name, "</title>\n")
	w.raw("<style>" + style + "</style>\n</head>\n<body>\n")
	w.element("<h1>", "Session log "+p.name, "</h1>\n")
	calls, failed := 0, 0
	for _, it := range p.items {
		if it.Ended {
			calls++
			if it.Style == view.Bad {
				failed++
			}
		}
	}
	w.element("<p>", strconv.Itoa(calls)+" calls, "+strconv.Itoa(failed)+" of them with a failure or a status other than 0. Times are UTC.", "</p>\n")
	for _, text := range p.problems {
		w.element("<p class=\"problem\">", text, "</p>\n")
	}
	for at := 0; at < len(p.items); {
		end := at + 1
		for end < len(p.items) && p.items[end].Session == p.items[at].Session {
			end++
		}
		w.session(p.items[at:end], at)
		at = end
	}
	w.raw("</body>\n</html>\n")
	n, err := io.WriteString(out, w.b.String())
	return int64(n), err
}

// session is the timeline and the cards of one session, whose items are
// numbered from first on.
func (w *writer) session(items []view.Item, first int) {
	w.raw("<section>\n")
	w.element("<h2>", "Session "+items[0].Session+", "+items[0].At.UTC().Format(time.DateOnly), "</h2>\n")
	w.timeline(items, first)
	for i, it := range items {
		w.item(it, first+i)
	}
	w.raw("</section>\n")
}

const (
	width    = 1000 // of a timeline, in its own units
	row      = 14
	maxLanes = 24
)

// timeline is a bar for each call, those that overlap under each other.
func (w *writer) timeline(items []view.Item, first int) {
	begin, end := items[0].At, items[0].At
	for _, it := range items {
		if it.At.Before(begin) {
			begin = it.At
		}
		if e := it.At.Add(it.Duration); e.After(end) {
			end = e
		}
	}
	span := max(end.Sub(begin), time.Millisecond)
	x := func(t time.Time) int { return int(float64(width-4) * float64(t.Sub(begin)) / float64(span)) }
	type bar struct{ item, x, width, lane int }
	var bars []bar
	var lanes []int // where each is free from
	for i, it := range items {
		if !it.Ended {
			continue
		}
		b := bar{item: i, x: x(it.At)}
		b.width = max(x(it.At.Add(it.Duration))-b.x, 3)
		for b.lane = 0; b.lane < len(lanes) && lanes[b.lane] > b.x; b.lane++ {
		}
		switch {
		case b.lane < len(lanes):
		case len(lanes) < maxLanes:
			lanes = append(lanes, 0)
		default:
			b.lane = maxLanes - 1
		}
		lanes[b.lane] = b.x + b.width
		bars = append(bars, b)
	}
	if len(bars) == 0 {
		return
	}
	w.element("<svg class=\"timeline\" role=\"img\" aria-label=\"Timeline of the calls\" viewBox=\"0 0 1000 ", strconv.Itoa(len(lanes)*row+4), "\">\n")
	for _, b := range bars {
		it := items[b.item]
		w.raw("<a href=\"#e")
		w.number(first + b.item)
		w.raw("\"><rect")
		if it.Style == view.Bad {
			w.raw(" class=\"bad\"")
		}
		w.raw(" rx=\"2\" x=\"")
		w.number(2 + b.x)
		w.raw("\" y=\"")
		w.number(4 + b.lane*row)
		w.raw("\" width=\"")
		w.number(b.width)
		w.raw("\" height=\"10\">")
		w.element("<title>", it.Word+" "+it.Title+" "+it.Status+" "+view.Elapsed(it.Duration), "</title></rect></a>\n")
	}
	w.raw("</svg>\n")
	w.element("<p>", view.Elapsed(span)+" from "+begin.UTC().Format(time.TimeOnly)+" to "+end.UTC().Format(time.TimeOnly), "</p>\n")
}

var classes = [...]markup{view.Note: "note", view.Head: "head", view.Added: "add", view.Removed: "del", view.Bad: "badline"}

func (w *writer) item(it view.Item, n int) {
	w.raw("<article id=\"e")
	w.number(n)
	switch it.Style {
	case view.Bad:
		w.raw("\" class=\"bad")
	case view.Ask:
		w.raw("\" class=\"ask")
	}
	w.raw("\">\n<header class=\"item\">")
	at := it.At.UTC()
	w.element("<time datetime=\"", at.Format(time.RFC3339Nano), "\">")
	w.element("", at.Format("15:04:05.000"), "</time> ")
	if it.Scope != "" && it.Scope != "main" {
		w.element("<span class=\"note\">", it.Scope, "</span> ")
	}
	w.element("<span class=\"word\">", it.Word, "</span> ")
	w.element("<span class=\"title\">", it.Title, "</span> ")
	if it.Status != "" {
		w.element("<span class=\"status\">", it.Status, "</span> ")
	}
	if t := view.Elapsed(it.Duration); t != "" {
		w.element("<span class=\"took\">", t, "</span>")
	}
	w.raw("</header>\n")
	if len(it.Lines) > 0 {
		w.raw("<pre>\n") // the first line feed counts for nothing
		for _, line := range it.Lines {
			if line.Style != view.Plain && line.Style != view.Ask {
				w.raw("<span class=\"", classes[line.Style], "\">")
				w.text(line.Text)
				w.raw("</span>\n")
				continue
			}
			w.text(line.Text)
			w.raw("\n")
		}
		w.raw("</pre>\n")
	}
	w.raw("</article>\n")
}
