// Package plain makes what commands print fit for a model to read: plain text,
// within bounds.
package plain

import (
	"encoding/base64"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"
)

// Fit puts two streams and what is to be said of them under each other, in at
// most most bytes. Each stream may take what the other leaves, and half in any
// case; facts are never cut.
func Fit(most int, stdout, stderr, facts string) string {
	room := max(most-len(facts)-2, 0)
	if len(stdout)+len(stderr) > room {
		half := room / 2
		stdout, stderr = Limit(stdout, max(half, room-len(stderr))), Limit(stderr, max(half, room-len(stdout)))
	}
	var b strings.Builder
	for _, s := range [...]string{stdout, stderr, facts} {
		if s == "" {
			continue
		}
		if n := b.Len(); n > 0 && b.String()[n-1] != '\n' {
			b.WriteByte('\n')
		}
		b.WriteString(s)
	}
	return b.String()
}

// Line makes one line of a text that may hold anything.
func Line(s string) string {
	if i := strings.IndexFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }); i < 0 {
		return s
	}
	q := strconv.Quote(s)
	return q[1 : len(q)-1]
}

// escapes are the control sequences of terminals: ECMA-48, 5.4 and 8.3.89.
// Compiled when one is met: what is initialised here delays exec (ADR 0008).
var escapes = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile("\x1b(?:\\[[0-?]*[ -/]*[@-~]|[\\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\\\)?|[ -/]*[0-~])")
})

// Text is a stream of output as a model reads it: without what only a terminal
// understands, and, where it comes as base64, with bytes that are no UTF-8 spelt out, unless there is
// little else.
func Text(s string, base64ed bool) string {
	if base64ed {
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
		s = escapes().ReplaceAllString(s, "")
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

// Limit keeps both ends of a text, cut between runes, in at most most bytes.
func Limit(s string, most int) string {
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
