package bash

import (
	"encoding/base64"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dshx/dshx/internal/result"
	"github.com/dshx/dshx/pipeline"
)

const (
	// maxContent is how much a model gets to read of a call, in bytes.
	maxContent = 48 << 10
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
	facts := limit(strings.Join(facts(v), "\n"), maxFacts)
	out, errs := readable(v.Stdout, v.Encoding), readable(v.Stderr, v.Encoding)
	// Each stream may take what the other leaves, and half in any case.
	room := maxContent - len(facts) - 2
	if len(out)+len(errs) > room {
		half := room / 2
		out, errs = limit(out, max(half, room-len(errs))), limit(errs, max(half, room-len(out)))
	}
	var b strings.Builder
	for _, s := range [...]string{out, errs, facts} {
		if s == "" {
			continue
		}
		if n := b.Len(); n > 0 && b.String()[n-1] != '\n' {
			b.WriteByte('\n')
		}
		b.WriteString(s)
	}
	if b.Len() == 0 {
		b.WriteString("[no output]")
	}
	return []pipeline.Content{pipeline.Text(b.String())}
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
		text := fmt.Sprintf("denied %s %s (%s)", d.Operation, line(d.Target), line(d.Rule.Text))
		if d.Remedy != "" {
			text += ": " + line(d.Remedy)
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
		text := line(n.Text)
		if n.Path != "" {
			text = line(n.Path) + ": " + text
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

// line makes one line of a text that may hold anything.
func line(s string) string {
	if i := strings.IndexFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }); i < 0 {
		return s
	}
	q := strconv.Quote(s)
	return q[1 : len(q)-1]
}

// escapes are the control sequences of terminals: ECMA-48, 5.4 and 8.3.89.
var escapes = regexp.MustCompile("\x1b(?:\\[[0-?]*[ -/]*[@-~]|[\\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\\\)?|[ -/]*[0-~])")

// readable is a stream as a model reads it: without what only a terminal
// understands, and with bytes that are no UTF-8 spelt out, unless there is
// little else.
func readable(s, encoding string) string {
	if encoding == result.Base64 {
		raw, err := base64.StdEncoding.DecodeString(s)
		if err != nil {
			return ""
		}
		var ok bool
		if s, ok = spell(raw); !ok {
			return fmt.Sprintf("[%d bytes that are no text; the value has them in base64]\n", len(raw))
		}
	}
	if strings.ContainsRune(s, '\x1b') {
		s = escapes.ReplaceAllString(s, "")
	}
	return strings.ReplaceAll(s, "\r\n", "\n")
}

// spell writes bytes that are no UTF-8 as \xNN. ok is false for what is mostly
// that, or has NUL bytes: no text in any encoding of files.
func spell(raw []byte) (s string, ok bool) {
	if utf8.Valid(raw) {
		return string(raw), true
	}
	var b strings.Builder
	bad := 0
	for len(raw) > 0 {
		r, n := utf8.DecodeRune(raw)
		switch {
		case r == 0:
			return "", false
		case r == utf8.RuneError && n == 1:
			bad++
			fmt.Fprintf(&b, `\x%02x`, raw[0])
		default:
			b.Write(raw[:n])
		}
		raw = raw[n:]
	}
	return b.String(), bad < 16 || bad < b.Len()/16
}

// limit keeps both ends of a text, cut between runes, in at most most bytes.
func limit(s string, most int) string {
	if len(s) <= most {
		return s
	}
	const note = "\n[… %d bytes left out here …]\n"
	keep := max(most-len(note)-20, 0) / 2
	head, tail := s[:keep], s[len(s)-keep:]
	if i := strings.LastIndexByte(head, '\n'); i > len(head)/2 {
		head = head[:i]
	}
	for len(tail) > 0 && !utf8.RuneStart(tail[0]) {
		tail = tail[1:]
	}
	if i := strings.IndexByte(tail, '\n'); i >= 0 && i < len(tail)/2 {
		tail = tail[i+1:]
	}
	for len(head) > 0 {
		if r, n := utf8.DecodeLastRuneInString(head); r != utf8.RuneError || n > 1 {
			break
		}
		head = head[:len(head)-1]
	}
	return head + fmt.Sprintf(note, len(s)-len(head)-len(tail)) + tail
}

// presentCall is the card of a call that has no result yet.
func presentCall(a Args) pipeline.Card {
	return pipeline.TerminalCard{Title: label(&a), Cwd: a.Workdir}
}

// presentResult is the card of one that has ended.
func presentResult(a Args, r pipeline.Result) pipeline.Card {
	c := pipeline.TerminalCard{Title: label(&a), Cwd: a.Workdir}
	var v Value
	if e := r.Failure(); e != nil {
		var d struct {
			Partial Value `json:"partial"`
		}
		if e.Details.IsZero() || e.Details.Decode(&d) != nil || d.Partial.Ended == nil {
			c.Output = e.Message
			return c
		}
		v = d.Partial
	} else if r.Value().Decode(&v) != nil {
		return nil
	}
	c.Cwd = v.Cwd
	if v.Ended == nil {
		c.Output = "job " + v.JobID
		return c
	}
	out, errs := readable(v.Stdout, v.Encoding), readable(v.Stderr, v.Encoding)
	if out != "" && errs != "" && !strings.HasSuffix(out, "\n") {
		out += "\n"
	}
	c.Output, c.ExitCode, c.Signal = out+errs, v.ExitCode, v.Signal
	return c
}
