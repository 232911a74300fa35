package show

import (
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/dshx/dshx/pipeline"
	"github.com/dshx/dshx/sessionlog"
	"pgregory.net/rapid"
)

func head(typ string) sessionlog.Head {
	return sessionlog.Head{V: 1, Type: typ, Time: time.Date(2026, 11, 30, 16, 4, 5, 6e6, time.UTC), Session: "s", Scope: "main"}
}

func draw(o Options, events ...sessionlog.Event) string {
	var b strings.Builder
	d := New(&b, o)
	for _, e := range events {
		if err := d.Event(e); err != nil {
			panic(err)
		}
	}
	return b.String()
}

func result(tool string, card pipeline.Card, failure *pipeline.Error, content string) sessionlog.Event {
	return sessionlog.Event{Card: card, Record: &sessionlog.Result{Head: head("result"), Number: 1, Tool: tool, OK: failure == nil, DurationMs: 1500,
		Failure: failure, Content: []sessionlog.Block{{Type: "text", Text: content}}}}
}

func TestDrawer(t *testing.T) {
	three, kill := 3, "SIGKILL"
	call := &sessionlog.Call{Head: head("call"), Number: 1, Tool: "bash"}
	question := &sessionlog.Question{Head: head("question"), Number: 1, Display: "network full"}
	for _, tt := range []struct {
		name string
		e    sessionlog.Event
		want string
	}{
		{"a command that failed", result("bash", pipeline.TerminalCard{Title: "make", Output: "out\n", ExitCode: &three}, nil, "out\n[exit code 3]\n[denied write /x]"),
			"16:04:03.506  bash  make  exit 3  1.5 s\n    out\n    [exit code 3]\n    [denied write /x]\n"},
		{"one that a signal ended", result("bash", pipeline.TerminalCard{Title: "x", Signal: &kill}, nil, "[signal SIGKILL]"), "16:04:03.506  bash  x  SIGKILL  1.5 s\n    [signal SIGKILL]\n"},
		{"one that was aborted", result("bash", pipeline.TerminalCard{Title: "x", Output: "so far\n", Signal: &kill}, pipeline.Failf("ABORTED", "cancelled"), "so far\n"), "16:04:03.506  bash  x  ABORTED  1.5 s\n    cancelled\n    so far\n"},
		{"one that did not run", result("bash", pipeline.TerminalCard{Title: "x", Output: "no such directory"}, pipeline.Failf("FS_NOT_FOUND", "no such directory"), "no such directory"), "16:04:03.506  bash  x  FS_NOT_FOUND  1.5 s\n    no such directory\n"},
		{"a change", result("edit", pipeline.DiffCard{Title: "Edit a", Diffs: []pipeline.FileDiff{{Path: "a", NewText: "b", Hunks: []pipeline.Hunk{{OldStart: 1, OldLines: 1, NewStart: 1, NewLines: 1, Lines: []string{"-a", "+b", " c"}}}}}}, nil, "edited"),
			"16:04:03.506  edit  Edit a  1.5 s\n    @@ -1,1 +1,1 @@\n    -a\n    +b\n     c\n"},
		{"a change that failed", result("edit", pipeline.DiffCard{Title: "Edit a", Diffs: []pipeline.FileDiff{{Path: "a", NewText: "b"}}}, pipeline.Failf("EDIT_NOT_FOUND", "not there"), "nearest text\n-a"),
			"16:04:03.506  edit  Edit a  EDIT_NOT_FOUND  1.5 s\n    not there\n    nearest text\n    -a\n"},
		{"a file", result("read", pipeline.ReadCard{Path: "a", Offset: 9, Lines: []string{"x", "y"}, TotalLines: 20}, nil, ""), "16:04:03.506  read  Read a  1.5 s\n     9  x\n    10  y\n    2 of 20 lines\n"},
		{"a search", result("grep", pipeline.SearchCard{Shape: "matches", Total: 5, Truncated: true, Files: []pipeline.SearchFile{{Path: "a", Matches: []pipeline.SearchMatch{{Line: 3, Text: "x\ny"}}}}}, nil, ""),
			"16:04:03.506  grep  1.5 s\n    a\n    3: x\n    4: y\n    5 found, not all are shown\n"},
		{"others", result("job_list", pipeline.GenericCard{Title: "List jobs"}, nil, "[no jobs]"), "16:04:03.506  job_list  List jobs  1.5 s\n    [no jobs]\n"},
		{"a question", sessionlog.Event{Record: question, Call: call, Question: question}, "16:04:05.006  question  bash: network full\n"},
		{"its answer", sessionlog.Event{Record: &sessionlog.Outcome{Head: head("outcome"), Number: 1, Outcome: "rejected"}, Call: call, Question: question}, "16:04:05.006  answer  bash: network full  rejected\n"},
		{"an answer to nothing", sessionlog.Event{Record: &sessionlog.Outcome{Head: head("outcome"), Number: 1, Outcome: "rejected"}}, "16:04:05.006  answer  rejected\n"},
		{"what is missing", sessionlog.Event{Record: &sessionlog.Missing{Head: head("missing"), Records: 7, Reason: "no space left"}}, "16:04:05.006  missing  7 records could not be written: no space left\n"},
		{"a continuation", sessionlog.Event{Record: &sessionlog.Continued{Head: head("continued")}}, ""},
		{"a call that begins", sessionlog.Event{Record: call, Call: call, Card: pipeline.GenericCard{Title: "x"}}, ""},
	} {
		want := tt.want
		if want != "" {
			want = "Monday, 2026-11-30\n" + want
		}
		if got := draw(Options{}, tt.e); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", tt.name, got, want)
		}
		// Colours change nothing but the colour.
		if got := sgr.ReplaceAllString(draw(Options{Color: true}, tt.e), ""); got != want {
			t.Errorf("%s, in colour without it:\n%q\nwant\n%q", tt.name, got, want)
		}
	}
	begins := sessionlog.Event{Record: call, Call: call, Card: pipeline.GenericCard{Title: "x"}}
	if got := draw(Options{Pending: true}, begins); !strings.HasSuffix(got, "16:04:05.006  bash  x  …\n") {
		t.Errorf("%q", got)
	}
	if got := draw(Options{Color: true}, result("edit", pipeline.DiffCard{Title: "t", Diffs: []pipeline.FileDiff{{NewText: "b"}}}, nil, "")); !strings.Contains(got, "\x1b[32m+b\x1b[0m") {
		t.Errorf("%q", got)
	}
	long := result("bash", pipeline.TerminalCard{Title: "t", Output: strings.Repeat("line\n", 1000) + strings.Repeat("x", 9999)}, nil, "")
	if got := draw(Options{}, long); strings.Count(got, "\n") != maxLines+2 || !strings.Contains(got, "… 942 lines …") || len(got) > 4000 {
		t.Errorf("%d lines, %d bytes", strings.Count(got, "\n"), len(got))
	}
}

var sgr = regexp.MustCompile("\x1b\\[[0-9]+m")

// Nothing that is in a log reaches the terminal as anything but text.
func TestProperty_NothingControlsTheTerminal(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		piece := rapid.OneOf(rapid.SampledFrom([]string{"\x1b[2J", "\x1b]0;title\x07", "\x9b31m", "\x1bP+q\x1b\\", "\r", "\b", "\x00", "\x7f", "\u202e", "\u2028", "\u200b", "\ufeff", "\u0085", "\t", "\n", "text", "\xff", "\x1b[0m"}), rapid.String())
		evil := func(label string) string { return strings.Join(rapid.SliceOfN(piece, 0, 4).Draw(rt, label), "") }
		events := []sessionlog.Event{
			result(evil("tool"), pipeline.TerminalCard{Title: evil("title"), Output: evil("output")}, nil, evil("content")),
			result("t", pipeline.DiffCard{Title: evil("title"), Diffs: []pipeline.FileDiff{{Path: evil("path"), NewText: evil("new"), Hunks: []pipeline.Hunk{{Lines: []string{evil("line")}}}}}}, nil, ""),
			result("t", pipeline.ReadCard{Path: evil("path"), Lines: []string{evil("line")}}, nil, ""),
			result("t", pipeline.SearchCard{Files: []pipeline.SearchFile{{Path: evil("path"), Matches: []pipeline.SearchMatch{{Text: evil("match")}}}}}, nil, ""),
			result("t", pipeline.GenericCard{Title: evil("title")}, pipeline.Failf(evil("code"), "%s", evil("message")), evil("content")),
			{Record: &sessionlog.Note{Head: head("note"), Kind: evil("kind"), Text: evil("text")}},
			{Record: &sessionlog.Start{Head: head("start"), Version: evil("version"), Workspace: evil("workspace")}},
			{Record: &sessionlog.Question{Head: sessionlog.Head{Scope: evil("scope")}, Display: evil("display")}},
		}
		for _, color := range []bool{false, true} {
			got := draw(Options{Color: color}, events...)
			if color {
				got = sgr.ReplaceAllString(got, "")
			}
			for _, r := range got {
				if r != '\n' && r != '→' && r != '…' && (r < ' ' || r >= 0x7f && r < 0xa0 || strings.ContainsRune("\u202e\u2028\u200b\ufeff", r)) {
					rt.Fatalf("%q in %q", r, got)
				}
			}
		}
	})
}

type broken struct{ io.Writer }

func (broken) Write([]byte) (int, error) { return 0, fmt.Errorf("nobody reads") }

func TestDrawer_TellsThatNobodyReads(t *testing.T) {
	if err := New(broken{}, Options{}).Unfinished(&sessionlog.Call{}); err == nil {
		t.Error("no error")
	}
}
