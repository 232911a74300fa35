package grep

import (
	"bytes"
	"encoding/json"
	"io"
	"unicode/utf8"

	"github.com/dshx/dshx/tools/fs/internal/walk"
)

// Output says what is wanted of a search.
type Output uint8

// The outputs.
const (
	Matches Output = iota // every match
	Files                 // paths of files with matches, and their number
	Count                 // the same; the two differ in how they are shown
)

// MaxText is how many characters of a line are kept.
const MaxText = 2000

// Options say where to search and what to keep.
type Options struct {
	// Walk says which files: its Root is a directory or a regular file, which
	// was named then and is searched whatever it is called and holds. Types and
	// Stat are not used.
	Walk walk.Options
	// Before and After are how many lines of context a match gets.
	Before, After int
	Output        Output
	// Limit is how many entries are kept: matches, or files for Files and
	// Count. 0 keeps none, a negative number all.
	Limit int
	// Overflow, unless nil, is called with every file, those kept too, in
	// order, when there is more than Limit. Calls come from one worker at a
	// time, on its thread. A file with very many matches comes in several
	// parts, one after the other, each with its own Count. An error ends the
	// search and is its error.
	Overflow func(*File) error
}

// A Result is what a search found.
type Result struct {
	Files        []File // sorted by path
	TotalMatches int    // entries, of all files
	TotalFiles   int    // files with matches
	Truncated    bool   // Files does not hold all
	Omitted      Omitted
}

// Omitted counts what was not searched although the patterns wanted it.
type Omitted struct {
	Ignored  int // files that git ignores, and directories with all below them
	Binary   int // files with a NUL byte
	Denied   int // files and directories that could not be read, whatever the reason
	TooLarge int // files over what a search holds in memory: a line, or with Multiline a file, over 64 MiB
}

// A File is one with matches.
type File struct {
	Path    string // relative to the root; empty when the root is the file
	Count   int    // of all its matches
	Matches []Match
}

// A Match is a line that matches, or with Multiline the lines of a match.
type Match struct {
	Line   int // of its first character, from 1
	Column int // likewise, in bytes of UTF-8, from 1
	Text
	Before, After []Text // lines of context, in the file's order
}

// A Text is a line without its end. It has invalid UTF-8 where the file has.
type Text struct {
	Text string
	// Cut is how many characters are missing at both ends together; a byte
	// that is not UTF-8 counts as one. 0: none.
	Cut int
}

// window returns the part of text that is shown: at most MaxText characters,
// with text[from:to] in it, as far as it fits, and cut is how many are missing.
func window(text []byte, from, to int) (begin, end, cut int) {
	if len(text) <= MaxText {
		return 0, len(text), 0
	}
	total := utf8.RuneCount(text)
	if total <= MaxText {
		return 0, len(text), 0
	}
	size := 0 // of the match in characters, as far as it matters
	end = from
	for end < to && size < MaxText {
		_, n := utf8.DecodeRune(text[end:])
		end += n
		size++
	}
	begin = from
	for lead := (MaxText - size) / 2; lead > 0 && begin > 0; lead-- {
		_, n := utf8.DecodeLastRune(text[:begin])
		begin -= n
		size++
	}
	for size < MaxText && end < len(text) {
		_, n := utf8.DecodeRune(text[end:])
		end += n
		size++
	}
	for size < MaxText && begin > 0 {
		_, n := utf8.DecodeLastRune(text[:begin])
		begin -= n
		size++
	}
	return begin, end, total - MaxText
}

func cutText(text []byte, from, to int) Text {
	begin, end, cut := window(text, from, to)
	return Text{string(text[begin:end]), cut}
}

// size is roughly what a match takes in memory, in bytes.
func (m *Match) size() int {
	n := 128 + len(m.Text.Text)
	for _, t := range m.Before {
		n += 24 + len(t.Text)
	}
	for _, t := range m.After {
		n += 24 + len(t.Text)
	}
	return n
}

// JSONLines returns a function for Options.Overflow that writes one JSON
// object on one line for each match, {"path","line","column","text","cut",
// "before","after"}, and for Files and Count {"path","count"}. Paths are
// prefixed with prefix. Text that is not UTF-8 has U+FFFD for each such byte;
// a path that isn't has "pathBase64" too.
func JSONLines(w io.Writer, prefix string) func(*File) error {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	type line struct {
		Path   string   `json:"path"`
		Raw    []byte   `json:"pathBase64,omitempty"`
		Count  int      `json:"count,omitempty"`
		Line   int      `json:"line,omitempty"`
		Column int      `json:"column,omitempty"`
		Text   *string  `json:"text,omitempty"`
		Cut    int      `json:"cut,omitempty"`
		Before []string `json:"before,omitempty"`
		After  []string `json:"after,omitempty"`
	}
	texts := func(in []Text) (out []string) {
		for _, t := range in {
			out = append(out, t.Text)
		}
		return out
	}
	return func(f *File) error {
		path := prefix + f.Path
		l := line{Path: path}
		if !utf8.ValidString(path) {
			l.Raw = []byte(path)
		}
		buf.Reset()
		if f.Matches == nil {
			l.Count = f.Count
			if err := enc.Encode(l); err != nil {
				return err
			}
		}
		for i := range f.Matches {
			m := &f.Matches[i]
			l.Line, l.Column, l.Text, l.Cut = m.Line, m.Column, &m.Text.Text, m.Cut
			l.Before, l.After = texts(m.Before), texts(m.After)
			if err := enc.Encode(l); err != nil {
				return err
			}
		}
		_, err := w.Write(buf.Bytes())
		return err
	}
}
