package html

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dshx/dshx/pipeline"
	"github.com/dshx/dshx/sessionlog"
	"pgregory.net/rapid"
)

func page(p *Page) string {
	var b strings.Builder
	_, _ = p.WriteTo(&b)
	return b.String()
}

// The page's policy names the style that it has.
func TestStyle_IsTheOneOfThePolicy(t *testing.T) {
	sum := sha256.Sum256([]byte(style))
	if want := "sha256-" + base64.StdEncoding.EncodeToString(sum[:]); want != styleHash {
		t.Errorf("styleHash is %s, want %s", styleHash, want)
	}
}

// attempts are texts that would do something in a page that lets them.
var attempts = []string{
	`<script>document.title="pwned"</script>`, `"><script>document.title="pwned"</script>`, `'><img src=x onerror=document.title="pwned">`,
	`</pre></article></section><svg onload=document.title="pwned">`, `</title><script>document.title="pwned"</script>`, `</style><script>document.title="pwned"</script>`,
	`-->]]><script>document.title="pwned"</script>`, `&#60;script&#62;document.title="pwned"&#60;/script&#62;`, `" onmouseover="document.title='pwned'" autofocus onfocus="document.title='pwned'" x="`,
	`<meta http-equiv="refresh" content="0;url=javascript:document.title='pwned'">`, `<base href="javascript:document.title='pwned'//">`, "\u202e\x00\x1b[31m<b>",
}

// evil is a page in which every text is an attempt.
func evil() *Page {
	p := New(attempts[4])
	at := time.Date(2026, 11, 30, 16, 0, 0, 0, time.UTC)
	n := int64(0)
	head := func() sessionlog.Head {
		at = at.Add(time.Second)
		return sessionlog.Head{V: 1, Time: at, Session: "s" + attempts[0], Scope: attempts[8]}
	}
	for _, a := range attempts {
		for _, card := range []pipeline.Card{
			pipeline.TerminalCard{Title: a, Output: a}, pipeline.ReadCard{Path: a, Lines: []string{a}}, pipeline.GenericCard{Title: a},
			pipeline.DiffCard{Title: a, Diffs: []pipeline.FileDiff{{Path: a, NewText: a, Hunks: []pipeline.Hunk{{Lines: []string{"+" + a}}}}}},
			pipeline.SearchCard{Files: []pipeline.SearchFile{{Path: a, Matches: []pipeline.SearchMatch{{Text: a}}}}}, pipeline.WebCard{Title: a, URL: a},
		} {
			n++
			var failure *pipeline.Error
			if n%2 == 0 {
				failure = pipeline.Failf(a, "%s", a)
			}
			p.Event(sessionlog.Event{Card: card, Record: &sessionlog.Result{Head: head(), Number: n, Tool: a, DurationMs: 100, Failure: failure, Content: []sessionlog.Block{{Type: "text", Text: a}, {Type: "image", MIMEType: a}}}})
		}
		call := &sessionlog.Call{Head: head(), Tool: a}
		question := &sessionlog.Question{Head: head(), Display: a}
		p.Event(sessionlog.Event{Record: question, Call: call, Question: question})
		p.Event(sessionlog.Event{Record: &sessionlog.Outcome{Head: head(), Outcome: a}, Call: call, Question: question})
		p.Event(sessionlog.Event{Record: &sessionlog.Start{Head: head(), Version: a, Preset: a, Workspace: a}})
		p.Event(sessionlog.Event{Record: &sessionlog.Note{Head: head(), Kind: a, Text: a}})
		p.Event(sessionlog.Event{Record: &sessionlog.End{Head: head(), Reason: a}})
		p.Unfinished(call)
		p.Problem(a)
	}
	return p
}

// names are the elements that a page has.
func names(text string) map[string]int {
	out := map[string]int{}
	for _, part := range strings.Split(text, "<")[1:] {
		out[strings.FieldsFunc(part, func(r rune) bool { return r == ' ' || r == '>' || r == '\n' })[0]]++
	}
	return out
}

// own are the elements that a page is made of.
const own = "!DOCTYPE html head meta title style body h1 h2 p section svg a rect article header time span pre"

// Whatever is in a log, the page has the elements that it is made of and no
// other, nested as they should be.
func TestProperty_TextStaysText(t *testing.T) {
	check := func(fail func(string, ...any), text string) {
		for name := range names(text) {
			if !strings.Contains(" "+own+" ", " "+strings.TrimPrefix(name, "/")+" ") {
				fail("an element %s", name)
			}
		}
		for name, n := range names(text) {
			if closing, ok := strings.CutPrefix(name, "/"); ok && names(text)[closing] != n {
				fail("%d elements %s, %d ends", names(text)[closing], closing, n)
			}
		}
		if strings.Count(text, "Content-Security-Policy") != 1 || strings.Contains(text, "javascript:document.title='") {
			fail("something is not escaped")
		}
		for _, r := range text {
			if r != '\n' && (r < ' ' || r == '\u202e' || r == 0x7f) {
				fail("%q is in it", r)
			}
		}
	}
	check(func(format string, a ...any) { t.Errorf(format, a...) }, page(evil()))
	rapid.Check(t, func(rt *rapid.T) {
		text := rapid.OneOf(rapid.SampledFrom(attempts), rapid.StringMatching(`[<>"'&/a-c =\-!]{0,20}`), rapid.String())
		p := New(text.Draw(rt, "name"))
		p.Problem(text.Draw(rt, "problem"))
		p.Event(sessionlog.Event{Card: pipeline.TerminalCard{Title: text.Draw(rt, "title"), Output: text.Draw(rt, "output")},
			Record: &sessionlog.Result{Head: sessionlog.Head{Session: text.Draw(rt, "session"), Scope: text.Draw(rt, "scope")}, Tool: text.Draw(rt, "tool"), DurationMs: 1}})
		check(rt.Fatalf, page(p))
	})
}

// A timeline has a bar for each call, those that overlap in lanes of their own,
// each within the drawing and leading to its card.
func TestPage_Timeline(t *testing.T) {
	p := New("log")
	at := time.Date(2026, 11, 30, 16, 0, 0, 0, time.UTC)
	for i := range 100 {
		call := &sessionlog.Call{Head: sessionlog.Head{Time: at.Add(time.Duration(i) * time.Second), Session: "s"}}
		p.Event(sessionlog.Event{Call: call, Card: pipeline.GenericCard{Title: "x"},
			Record: &sessionlog.Result{Head: sessionlog.Head{Time: at, Session: "s"}, Tool: "say", DurationMs: 5500, OK: true}})
	}
	text := page(p)
	if n := strings.Count(text, "<rect"); n != 100 {
		t.Errorf("%d bars", n)
	}
	lanes := map[string]int{}
	for _, part := range strings.Split(text, "<rect")[1:] {
		var x, y, w int
		if _, err := fmt.Sscanf(part, ` rx="2" x="%d" y="%d" width="%d"`, &x, &y, &w); err != nil || x < 0 || w < 3 || x+w > width {
			t.Errorf("%v: %.60s", err, part)
		}
		lanes[fmt.Sprint(y)]++
	}
	if len(lanes) != 6 && len(lanes) != 7 {
		t.Errorf("lanes %v", lanes)
	}
	for i := range 100 {
		if !strings.Contains(text, fmt.Sprintf(`href="#e%d"`, i)) || !strings.Contains(text, fmt.Sprintf(`id="e%d"`, i)) {
			t.Errorf("call %d", i)
		}
	}
	if empty := page(New("log")); !strings.Contains(empty, "0 calls") || strings.Contains(empty, "<svg") {
		t.Error(empty)
	}
}

// chromium is a browser, or the test is skipped.
func chromium(t *testing.T) string {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("there is no Chromium in PATH (chromium, chromium-browser, google-chrome, google-chrome-stable, chrome) to try the page in")
	return ""
}

// dom is the document that headless Chromium makes of a page, after its scripts,
// if any, have run.
func dom(t *testing.T, browser, text string) string {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "page.html")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--host-resolver-rules=MAP * ~NOTFOUND",
		"--user-data-dir="+dir, "--virtual-time-budget=3000", "--dump-dom", "file://"+file)
	cmd.Env = append(os.Environ(), "HOME="+dir)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s", err, errs.String())
	}
	return out.String()
}

// In a browser no attempt does anything, and the timeline and the cards are
// there. The controls: a page that doesn't escape is changed by the same attempt,
// and the page's policy keeps even a script that got in from running.
func TestPage_InChromium(t *testing.T) {
	browser := chromium(t)
	const title = "<title>pwned</title>"
	const script = `<script>document.title="pwned"</script>`
	if got := dom(t, browser, "<!DOCTYPE html><title>x</title><body>"+script); !strings.Contains(got, title) {
		t.Fatalf("scripts don't run in this browser, so the test would say nothing:\n%s", got)
	}
	p := evil()
	text := page(p)
	if got := dom(t, browser, strings.Replace(text, "<body>", "<body>"+script+`<img src=x onerror="document.title='pwned'"><p style="display:none">`, 1)); strings.Contains(got, title) {
		t.Error("the page's policy lets a script run")
	} else if !strings.Contains(got, "<script>") {
		t.Error("the control has no script")
	}
	got := dom(t, browser, text)
	if strings.Contains(got, title) || strings.Contains(got, "<script") || strings.Contains(got, "<img") || strings.Contains(got, "onload=document") && names(got)["svg"] != 1 {
		t.Errorf("an attempt got into the document:\n%.3000s", got)
	}
	for name := range names(got) {
		if !strings.Contains(" "+own+" tbody ", " "+strings.TrimPrefix(name, "/")+" ") {
			t.Errorf("the document has an element %s", name)
		}
	}
	if n := strings.Count(got, "<article"); n != len(p.items) {
		t.Errorf("%d cards in the document, want %d", n, len(p.items))
	}
	calls := 0
	for _, it := range p.items {
		if it.Ended {
			calls++
		}
	}
	if n := strings.Count(got, "<rect"); n != calls || n == 0 {
		t.Errorf("%d bars in the timeline, want %d", n, calls)
	}
	if n := strings.Count(got, "&lt;script&gt;document.title="); n < 100 {
		t.Errorf("attempts are shown as text %d times", n)
	}
}
