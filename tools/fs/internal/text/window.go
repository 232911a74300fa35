package text

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

// What bounds the result of Read.
const (
	MaxLineChars   = 2000      // of a line's text; what is missing is counted in Line.Cut
	MaxWindowBytes = 256 << 10 // of all lines as JSON
)

const (
	// Large enough that a read call costs little, small enough that counting finds
	// the bytes in the processor's cache.
	chunkBytes = 256 << 10
	// What JSON spends on a line beside its text: {"n":123456789,"text":"","cut":123456789},
	lineOverhead = 44
)

// A LineEnding is what a file's lines end with: "lf", "crlf", "cr", "mixed" if
// there are several of them, "none" if no line has an end.
type LineEnding string

const (
	LF    LineEnding = "lf"
	CRLF  LineEnding = "crlf"
	CR    LineEnding = "cr"
	Mixed LineEnding = "mixed"
	None  LineEnding = "none"
)

// An Info describes a whole file.
type Info struct {
	Encoding   Encoding
	BOM        bool
	LineEnding LineEnding
	TotalLines int   // 0 for an empty file
	Bytes      int64 // that were read: the given size, or less if the file has shrunk
}

// A Line is one line of a file.
type Line struct {
	N    int    `json:"n"`             // from 1
	Text string `json:"text"`          // valid UTF-8 without the line end; an invalid byte is one U+FFFD
	Cut  int    `json:"cut,omitempty"` // characters missing after the end of Text
}

// A Window is what Read returns.
type Window struct {
	Info
	Lines     []Line
	Offset    int  // as asked
	Truncated bool // lines of the file follow after the last of Lines
}

// A RangeError says that a number is out of its range (INVALID_ARGS).
type RangeError struct {
	Name  string // "offset" or "limit"
	Value int
}

func (e *RangeError) Error() string {
	return fmt.Sprintf("%s is %d, must be at least 1", e.Name, e.Value)
}

// Code returns INVALID_ARGS.
func (e *RangeError) Code() string { return "INVALID_ARGS" }

// Inspect describes the first size bytes of r, all of which it reads, in constant
// memory.
//
// Errors: *NotTextError (FS_NOT_TEXT), and those of r.
func Inspect(r io.ReaderAt, size int64) (*Info, error) {
	w, err := read(r, size, 1, 0, chunkBytes)
	if err != nil {
		return nil, err
	}
	return &w.Info, nil
}

// Read returns the lines offset to offset+limit-1 of the first size bytes of r;
// lines count from 1. It reads all of them, since only then TotalLines is true, in
// constant memory. Lines are fewer if the file ends, or if MaxWindowBytes would be
// exceeded; an offset past the end gives none.
//
// A character is a code point or an invalid byte; none is ever split.
//
// Errors: *RangeError (INVALID_ARGS), *NotTextError (FS_NOT_TEXT), and those of r.
func Read(r io.ReaderAt, size int64, offset, limit int) (*Window, error) {
	if offset < 1 {
		return nil, &RangeError{"offset", offset}
	}
	if limit < 1 {
		return nil, &RangeError{"limit", limit}
	}
	return read(r, size, offset, limit, chunkBytes)
}

// minChunk holds what a piece may leave to the next, and some more.
const minChunk = 16

// read does it in pieces of chunk bytes, minChunk at least.
func read(r io.ReaderAt, size int64, offset, limit, chunk int) (*Window, error) {
	s := scanner{line: 1, first: offset, room: MaxWindowBytes}
	s.last = offset + limit - 1
	if s.last < offset-1 {
		s.last = int(^uint(0) >> 1) // offset+limit is beyond every number
	}
	var (
		buf   = make([]byte, max(min(int64(chunk), size), minChunk)) // no more than a small file needs
		held  = 0                                                    // bytes at the start of buf that the last piece left
		utf   []byte                                                 // the piece as UTF-8, if the file is UTF-16
		at    int64                                                  // where the next byte comes from
		enc   Encoding
		bom   int
		mime  = unknownType
		means = nameOnly
	)
	for start, done := true, false; !done; start = false {
		want := min(int64(len(buf)-held), size-at)
		n, err := r.ReadAt(buf[held:held+int(max(want, 0))], at)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		at += int64(n)
		// A file that has shrunk ends where it ends now.
		done = at >= size || int64(n) < want
		piece := buf[:held+n]
		if start {
			mime, means = detect(piece)
			enc, bom = DetectEncoding(piece)
			if means == textNever || enc == UTF8 && isNoise(piece[:len(piece)-hold(piece, enc, done)]) {
				return nil, &NotTextError{mime, size}
			}
			piece = piece[bom:]
		}
		rest := hold(piece, enc, done)
		data := piece[:len(piece)-rest]
		if enc != UTF8 {
			utf = fromUTF16(utf[:0:cap(utf)], data, enc, false)
			data = utf
		}
		if bytes.IndexByte(data, 0) >= 0 || means == textIfPlain && hasBinary(data) {
			return nil, &NotTextError{mime, size}
		}
		s.feed(data)
		held = copy(buf, piece[len(piece)-rest:])
	}
	s.finish()

	w := &Window{Lines: s.lines, Offset: offset}
	w.Info = Info{Encoding: enc, BOM: bom > 0, LineEnding: s.ending(), TotalLines: s.line - 1, Bytes: at}
	next := offset
	if n := len(s.lines); n > 0 {
		next = s.lines[n-1].N + 1
	}
	w.Truncated = next <= w.TotalLines
	return w, nil
}

// hold returns how many bytes at the end of piece must wait for what follows them,
// so that no character and no CRLF is ever split; none if nothing follows.
func hold(piece []byte, e Encoding, done bool) int {
	n := len(piece)
	if done || n == 0 {
		return 0
	}
	if e != UTF8 {
		odd := n % 2
		if n < 2 {
			return odd
		}
		unit := piece[n-odd-2 : n-odd]
		u := uint16(unit[0]) | uint16(unit[1])<<8
		if e == UTF16BE {
			u = uint16(unit[1]) | uint16(unit[0])<<8
		}
		if u == '\r' || u&0xFC00 == 0xD800 {
			return odd + 2
		}
		return odd
	}
	if piece[n-1] == '\r' {
		return 1
	}
	for i := 1; i <= min(3, n); i++ {
		if utf8.RuneStart(piece[n-i]) {
			if !utf8.FullRune(piece[n-i:]) {
				return i
			}
			return 0
		}
	}
	return 0
}

// A scanner counts lines and keeps those of a window.
type scanner struct {
	line        int  // the line that comes next or is open
	open        bool // line has begun
	first, last int  // of the window
	lines       []Line
	room        int // bytes that the window may still take

	text  []byte // of the open line, if it is in the window
	chars int
	cut   int

	lf, cr, crlf int // line ends so far, by kind
}

// feed takes the next piece of the file, as UTF-8, which ends neither within a
// character nor within a CRLF.
func (s *scanner) feed(data []byte) {
	if len(data) == 0 {
		return
	}
	lf := bytes.Count(data, []byte{'\n'})
	cr, crlf := 0, 0
	if bytes.IndexByte(data, '\r') >= 0 {
		cr = bytes.Count(data, []byte{'\r'})
		crlf = countCRLF(data)
	}
	s.lf += lf - crlf
	s.cr += cr - crlf
	s.crlf += crlf
	after := s.line + lf + cr - crlf

	// Lines one by one only where the window is.
	if after >= s.first && s.line <= s.last {
		s.walk(data)
	}
	s.line = after
	end := data[len(data)-1]
	s.open = end != '\n' && end != '\r'
}

// walk adds the lines of data to the window, up to its end.
func (s *scanner) walk(data []byte) {
	// Where the next LF and CR are; len(data) if there is none. Each is looked for
	// again only when it has been passed, so that data is scanned once for each.
	find := func(b byte, from int) int {
		if i := bytes.IndexByte(data[from:], b); i >= 0 {
			return from + i
		}
		return len(data)
	}
	lf, cr := find('\n', 0), find('\r', 0)
	for at := 0; at < len(data) && s.line <= s.last; {
		end := min(lf, cr)
		if s.line >= s.first {
			s.add(data[at:end])
		}
		if end == len(data) {
			return
		}
		at = end + 1
		if end == cr && at < len(data) && data[at] == '\n' {
			at++
		}
		if lf < at {
			lf = find('\n', at)
		}
		if cr < at {
			cr = find('\r', at)
		}
		s.endLine()
	}
}

// add appends a piece to the open line.
func (s *scanner) add(piece []byte) {
	if len(piece) <= MaxLineChars-s.chars && utf8.Valid(piece) { // as most are, which is found eight bytes at a time
		s.text = append(s.text, piece...)
		s.chars += utf8.RuneCount(piece)
		return
	}
	for s.chars < MaxLineChars && len(piece) > 0 {
		r, n := utf8.DecodeRune(piece)
		s.text = utf8.AppendRune(s.text, r)
		s.chars++
		piece = piece[n:]
	}
	s.cut += runeCount(piece)
}

// endLine ends the open line and keeps it if it is in the window and fits.
func (s *scanner) endLine() {
	if s.line >= s.first && s.line <= s.last {
		size := lineOverhead + jsonBytes(s.text)
		if size > s.room {
			s.last = s.line - 1
		} else {
			s.room -= size
			s.lines = append(s.lines, Line{N: s.line, Text: string(s.text), Cut: s.cut})
		}
		s.text, s.chars, s.cut = s.text[:0], 0, 0
	}
	s.line++
}

// finish ends the last line. After it, line-1 is the number of lines.
func (s *scanner) finish() {
	if s.open {
		s.endLine()
	}
}

func (s *scanner) ending() LineEnding {
	switch {
	case s.lf == 0 && s.cr == 0 && s.crlf == 0:
		return None
	case s.cr == 0 && s.crlf == 0:
		return LF
	case s.lf == 0 && s.cr == 0:
		return CRLF
	case s.lf == 0 && s.crlf == 0:
		return CR
	}
	return Mixed
}

// jsonBytes returns how many bytes text, which is valid UTF-8, takes in a JSON
// string that escapes no more than encoding/json does without HTML escaping.
func jsonBytes(text []byte) int {
	size := len(text)
	for i, b := range text {
		switch {
		case b == '"' || b == '\\' || b == '\t' || b == '\n' || b == '\r' || b == '\b' || b == '\f':
			size++
		case b < 0x20:
			size += 5
		case b == 0xE2 && text[i+1] == 0x80 && text[i+2]&^1 == 0xA8:
			size += 3 // U+2028 and U+2029
		}
	}
	return size
}
