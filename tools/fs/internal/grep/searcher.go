package grep

import (
	"bytes"
	"encoding/binary"
	"io"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/dshx/dshx/tools/fs/internal/rawfs"
	"golang.org/x/sys/unix"
)

// Sizes in bytes. They are variables for tests.
var (
	firstBuffer = 64 << 10 // most source files fit
	maxWhole    = 16 << 20 // larger files are read in parts
	maxHeld     = 64 << 20 // of one file, at most
	maxKept     = 1 << 20  // a larger buffer is given back after its file
)

// outcome is what became of a file.
type outcome uint8

const (
	searched outcome = iota
	isBinary
	isTooLarge
	isDenied
	isGone // vanished, or became something else meanwhile
	isStopped
)

// A searcher searches one file after the other. One worker has it.
type searcher struct {
	m       *Matcher
	before  int
	after   int
	stopped func() bool
	finders []finder
	dfa     *dfa
	buf     []byte

	// Of the file that is searched:
	named bool
	count int
	lines int // breaks before counted
	upto  int // place in the buffer up to which lines are counted
	out   *collector
}

func newSearcher(m *Matcher, o *Options, stopped func() bool) *searcher {
	s := &searcher{m: m, before: o.Before, after: o.After, stopped: stopped, buf: make([]byte, firstBuffer)}
	for i := range m.needles {
		s.finders = append(s.finders, finder{needle: &m.needles[i]})
	}
	if m.auto != nil {
		s.dfa = newDFA(m.auto)
	}
	return s
}

// file searches what fd reads, from its beginning. count and what out was
// given are to be dropped unless the outcome is searched.
func (s *searcher) file(fd int, named bool) outcome {
	s.count, s.named, s.lines, s.upto = 0, named, 0, 0
	n := 0
	for {
		if n == len(s.buf) {
			limit := maxWhole
			if s.m.multiline || n > 1 && utf16Order(s.buf) != nil {
				limit = maxHeld
			}
			if n >= limit {
				if limit == maxHeld {
					return isTooLarge
				}
				return s.parts(fd)
			}
			s.grow(min(2*n, limit))
		}
		k, err := rawfs.Read(fd, s.buf[n:])
		if err != nil {
			return isDenied
		}
		if k == 0 {
			break
		}
		// Most binary files show it at once, and need not be read whole.
		if !named && bytes.IndexByte(s.buf[n:n+k], 0) >= 0 && utf16Order(s.buf[:n+k]) == nil {
			return isBinary
		}
		n += k
		if s.stopped() {
			return isStopped
		}
	}
	text := s.buf[:n]
	if order := utf16Order(text); order != nil {
		text = decodeUTF16(text[2:], order)
		if !named && bytes.IndexByte(text, 0) >= 0 {
			return isBinary
		}
	}
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	if s.m.multiline {
		s.blocks(s.unixLines(text, 0))
		return searched
	}
	// A file without a needle needs no further look.
	if s.filters(text) && s.candidate(text, 0) == len(text) {
		return searched
	}
	text = s.unixLines(text, 0)
	if !s.region(text, 0, len(text)) {
		return isStopped
	}
	return searched
}

func (s *searcher) grow(size int) {
	buf := make([]byte, size)
	copy(buf, s.buf)
	s.buf = buf
}

// release gives back a buffer that a large file needed.
func (s *searcher) release() {
	if len(s.buf) > maxKept {
		s.buf = make([]byte, firstBuffer)
	}
}

// parts searches a file that is too large to be held, which fd has begun to
// read. Its lines go through the buffer, with as many around them as context
// needs.
func (s *searcher) parts(fd int) outcome {
	// A NUL byte at the very end makes a file binary too, so that is looked for
	// first, lest matches be reported that have to be taken back.
	if _, err := unix.Seek(fd, 0, io.SeekStart); err != nil {
		return isDenied
	}
	for !s.named {
		k, err := rawfs.Read(fd, s.buf)
		if err != nil {
			return isDenied
		}
		if k == 0 {
			break
		}
		if bytes.IndexByte(s.buf[:k], 0) >= 0 {
			return isBinary
		}
		if s.stopped() {
			return isStopped
		}
	}
	if _, err := unix.Seek(fd, 0, io.SeekStart); err != nil {
		return isDenied
	}
	n := 0  // bytes in the buffer
	lo := 0 // where the search goes on, the beginning of a line
	for begun, end := false, false; !end; {
		fresh := n
		for n < len(s.buf) {
			k, err := rawfs.Read(fd, s.buf[n:])
			if err != nil {
				return isDenied
			}
			if k == 0 {
				end = true
				break
			}
			n += k
		}
		if !begun {
			begun = true
			if bytes.HasPrefix(s.buf[:n], []byte("\xef\xbb\xbf")) {
				n = copy(s.buf, s.buf[3:n])
			}
		}
		// A CR may have come with the part before its LF.
		n = len(s.unixLines(s.buf[:n], max(fresh-1, 0)))
		hi := n
		if !end {
			// Lines whose context is not here yet wait for the next part.
			hi = bytes.LastIndexByte(s.buf[lo:n], '\n') + lo + 1
			for range s.after {
				if hi <= lo {
					break
				}
				hi = bytes.LastIndexByte(s.buf[lo:hi-1], '\n') + lo + 1
			}
			if hi <= lo {
				if n < len(s.buf) {
					continue // carriage returns made room
				}
				if len(s.buf) >= maxHeld {
					return isTooLarge
				}
				s.grow(min(2*len(s.buf), maxHeld))
				continue
			}
		}
		if !s.region(s.buf[:n], lo, hi) {
			return isStopped
		}
		s.advance(hi)
		keep := hi
		for range s.before {
			if keep == 0 {
				break
			}
			keep = bytes.LastIndexByte(s.buf[:keep-1], '\n') + 1
		}
		if !end && keep == 0 && n == len(s.buf) {
			if len(s.buf) >= maxHeld {
				return isTooLarge
			}
			s.grow(min(2*len(s.buf), maxHeld))
		}
		n = copy(s.buf, s.buf[keep:n])
		lo = hi - keep
		s.upto -= keep
	}
	return searched
}

// utf16Order returns the byte order that a UTF-16 byte order mark says, nil
// when there is none.
func utf16Order(b []byte) binary.ByteOrder {
	switch {
	case len(b) >= 4 && b[0] == 0xff && b[1] == 0xfe && b[2] == 0 && b[3] == 0:
		return nil // UTF-32, or UTF-16 that begins with a NUL: no text
	case len(b) >= 2 && b[0] == 0xff && b[1] == 0xfe:
		return binary.LittleEndian
	case len(b) >= 2 && b[0] == 0xfe && b[1] == 0xff:
		return binary.BigEndian
	}
	return nil
}

func decodeUTF16(b []byte, order binary.ByteOrder) []byte {
	out := make([]byte, 0, len(b)/2+len(b)/8)
	for ; len(b) >= 2; b = b[2:] {
		r := rune(order.Uint16(b))
		if utf16.IsSurrogate(r) {
			low := rune(-1)
			if len(b) >= 4 {
				low = rune(order.Uint16(b[2:]))
			}
			if r = utf16.DecodeRune(r, low); r != utf8.RuneError {
				b = b[2:]
			}
		}
		out = utf8.AppendRune(out, r)
	}
	if len(b) > 0 {
		out = utf8.AppendRune(out, utf8.RuneError)
	}
	return out
}

// unixLines turns CRLF into LF from from on, in place, unless the pattern
// wants to see it.
func (s *searcher) unixLines(text []byte, from int) []byte {
	if s.m.spellsCR {
		return text
	}
	i := indexByte(text, from, '\r')
	if i == len(text) {
		return text
	}
	out := i
	for i < len(text) { // at a CR
		if i+1 < len(text) && text[i+1] == '\n' {
			i++
		}
		next := indexByte(text, i+1, '\r')
		out += copy(text[out:], text[i:next])
		i = next
	}
	return text[:out]
}

// filters reports whether needles can be trusted in text.
func (s *searcher) filters(text []byte) bool {
	if len(s.finders) == 0 {
		return false
	}
	for _, other := range s.m.folds {
		if bytes.Contains(text, []byte(other)) {
			return false
		}
	}
	for i := range s.finders {
		s.finders[i].reset()
	}
	return true
}

// candidate returns the first place from pos on where a needle is, len(text)
// when there is none.
func (s *searcher) candidate(text []byte, pos int) int {
	first := len(text)
	for i := range s.finders {
		first = min(first, s.finders[i].from(text, pos))
	}
	return first
}

// region searches the lines that begin in text[lo:hi]; context may come from
// all of text. It reports false when the search was stopped.
func (s *searcher) region(text []byte, lo, hi int) bool {
	filter := s.filters(text)
	tick, misses := 0, 0
	for pos := lo; pos < hi; {
		if tick++; tick&255 == 0 && s.stopped() {
			return false
		}
		hit := pos // a place in the line to look at next
		sure := false
		switch {
		case filter:
			if hit = s.candidate(text[:hi], pos); hit >= hi {
				return true
			}
			sure = s.m.exact
		case s.dfa != nil && !s.dfa.stuck:
			if hit = s.dfa.scan(text[:hi], pos); hit < 0 {
				return true
			}
			sure = true
		}
		begin := bytes.LastIndexByte(text[pos:hit], '\n') + pos + 1
		end := indexByte(text[:hi], hit, '\n')
		line := text[begin:end]
		if sure || s.matches(line) {
			s.count++
			if s.out.wanted() {
				s.line(text, begin, end, hit)
			}
		} else if misses++; misses >= 32 && (end-lo)/misses < 120 && s.dfa != nil && !s.dfa.stuck {
			// The needles are on most lines and the pattern is not: looking at
			// every line at once is faster than going from one to the next.
			filter = false
		}
		pos = end + 1
	}
	return true
}

func (s *searcher) matches(line []byte) bool {
	if s.dfa != nil && !s.dfa.stuck {
		return s.dfa.match(line)
	}
	return s.m.re.Match(line)
}

// line renders the match in text[begin:end]; hit is where the only needle is,
// if the pattern is nothing else.
func (s *searcher) line(text []byte, begin, end, hit int) {
	line := text[begin:end]
	from, to := 0, 0
	if s.m.exact {
		from = hit - begin
		to = from + len(s.m.needles[0].text)
	} else if loc := s.m.re.FindSubmatchIndex(line); loc != nil {
		from, to = loc[2*s.m.group], loc[2*s.m.group+1]
	}
	s.emit(text, begin, end, from, to)
}

// emit hands over the match at text[begin+from:begin+to] in the lines
// text[begin:end].
func (s *searcher) emit(text []byte, begin, end, from, to int) {
	s.advanceIn(text, begin)
	m := Match{Line: s.lines + 1, Column: from + 1, Text: cutText(text[begin:end], from, to)}
	for at := begin; len(m.Before) < s.before && at > 0; {
		prev := bytes.LastIndexByte(text[:at-1], '\n') + 1
		m.Before = append(m.Before, cutText(text[prev:at-1], 0, 0))
		at = prev
	}
	for i, j := 0, len(m.Before)-1; i < j; i, j = i+1, j-1 {
		m.Before[i], m.Before[j] = m.Before[j], m.Before[i]
	}
	for at := end + 1; len(m.After) < s.after && at < len(text); {
		next := indexByte(text, at, '\n')
		m.After = append(m.After, cutText(text[at:next], 0, 0))
		at = next + 1
	}
	s.out.add(m)
}

// advanceIn counts lines up to a place.
func (s *searcher) advanceIn(text []byte, to int) {
	if to > s.upto {
		s.lines += bytes.Count(text[s.upto:to], []byte{'\n'})
		s.upto = to
	}
}

// advance counts lines of the buffer up to a place.
func (s *searcher) advance(to int) { s.advanceIn(s.buf, to) }

// blocks searches a text for matches that may lie on several lines.
func (s *searcher) blocks(text []byte) {
	if s.filters(text) && s.candidate(text, 0) == len(text) {
		return
	}
	begin, end := -1, -1 // lines of the entry that is not handed over yet
	first, last := 0, 0  // its first match, relative to begin
	flush := func() {
		if begin < 0 {
			return
		}
		s.count++
		if s.out.wanted() {
			s.emit(text, begin, end, first, last)
		}
	}
	for _, loc := range s.m.re.FindAllSubmatchIndex(text, -1) {
		from, to := loc[2*s.m.group], loc[2*s.m.group+1]
		if from == len(text) && (len(text) == 0 || text[from-1] == '\n') {
			continue // after the last line there is none
		}
		lineEnd := to
		if to > from && text[to-1] == '\n' {
			lineEnd--
		}
		lineEnd = indexByte(text, lineEnd, '\n')
		if begin >= 0 && from <= end {
			end = max(end, lineEnd)
			continue
		}
		flush()
		begin = bytes.LastIndexByte(text[:from], '\n') + 1
		end, first, last = lineEnd, from-begin, to-begin
	}
	flush()
}
