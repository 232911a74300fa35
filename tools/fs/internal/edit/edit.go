package edit

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"github.com/dshx/dshx/tools/fs/internal/diff"
	"github.com/dshx/dshx/tools/fs/internal/text"
)

// MaxBytes is the largest file that an edit may make, as UTF-8: replacing every
// space by a page multiplies.
const MaxBytes = 256 << 20

// An Edit replaces Old by New.
type Edit struct {
	Old string // not empty, valid UTF-8
	New string // valid UTF-8; empty deletes
	All bool   // every match; without it there must be exactly one
}

// A Done tells what one edit did.
type Done struct {
	Line  int `json:"line"`  // where its first match began, from 1, in the text that it was applied to
	Count int `json:"count"` // matches replaced
}

// A Result is what Apply made.
type Result struct {
	Replacements int    // of all edits
	Edits        []Done // one for each edit
	Bytes        []byte // the file's new content
}

// Apply makes edits in order, each in the result of the one before, and returns
// the new content; file is not changed.
//
// Matches are counted from the left and do not overlap. A lone CR in Old matches
// only a lone CR, and then an LF in it no longer does.
//
// In New every line end, whichever it is, stands for the file's own. A line of New
// that equals one of Old keeps the end that this one has in the file; another takes
// over that of the line of Old whose place it has; what is added beyond that ends
// as the line before it. A file without any line end takes New as it is.
//
// Errors: *ArgsError (INVALID_ARGS), *NotFoundError (EDIT_NOT_FOUND),
// *AmbiguousError (EDIT_AMBIGUOUS), *NoChangeError (EDIT_NO_CHANGE),
// *TooLargeError (FS_TOO_LARGE).
func Apply(file []byte, edits []Edit) (Result, error) {
	if len(edits) == 0 {
		return Result{}, &ArgsError{-1, "edits", "at least one edit"}
	}
	for i, e := range edits {
		switch {
		case e.Old == "":
			return Result{}, &ArgsError{i, "old_string", "at least one character"}
		case !utf8.ValidString(e.Old):
			return Result{}, &ArgsError{i, "old_string", "valid UTF-8"}
		case !utf8.ValidString(e.New):
			return Result{}, &ArgsError{i, "new_string", "valid UTF-8"}
		}
	}
	// Invalid bytes stand in the decoded text as bytes that no valid text has, so
	// matching needs to know nothing of them, nor of UTF-16.
	t := text.Decode(file)
	var res Result
	for i, e := range edits {
		content, done, err := apply(t.Content, i, e)
		if err != nil {
			return Result{}, err
		}
		t.Content = content
		res.Edits = append(res.Edits, done)
		res.Replacements += done.Count
	}
	res.Bytes = t.Encode()
	if bytes.Equal(res.Bytes, file) {
		return Result{}, &NoChangeError{}
	}
	return res, nil
}

// apply makes one edit, the i-th, in content.
func apply(content string, i int, e Edit) (string, Done, error) {
	// Matches are looked for where every line end is an LF, and then put where they
	// are in the content. A lone CR stays only if the edit asks for one.
	old := toLF(e.Old, true)
	lone := strings.Contains(old, "\r")
	flat := toLF(content, lone)

	first := strings.Index(flat, old)
	if first < 0 {
		near, _ := diff.Nearest(content, e.Old)
		return "", Done{}, &NotFoundError{Edit: i, Line: near.Line, Nearest: near.Diff}
	}
	count := strings.Count(flat, old)
	if count > 1 && !e.All {
		return "", Done{}, &AmbiguousError{Edit: i, Count: count, Lines: linesOf(flat, old)}
	}
	size := int64(len(content)) + int64(count)*int64(len(e.New)-len(old))
	if size > MaxBytes && size > int64(len(content)) {
		return "", Done{}, &TooLargeError{Edit: i, Bytes: size}
	}

	r := newRenderer(content, e)
	var b strings.Builder
	b.Grow(int(max(0, size)))
	place := cursor{content: content, loneStays: lone}
	written := 0
	for at, n := first, 0; n < count; n++ {
		start := place.advance(at)
		end := place.advance(at + len(old))
		b.WriteString(content[written:start])
		r.write(&b, start, end)
		written = end
		at += len(old)
		if n+1 < count {
			at += strings.Index(flat[at:], old)
		}
	}
	b.WriteString(content[written:])
	return b.String(), Done{Line: 1 + lineEnds(flat[:first]), Count: count}, nil
}

// toLF returns s with each CRLF, and each lone CR unless loneStays, as one LF.
func toLF(s string, loneStays bool) string {
	if strings.IndexByte(s, '\r') < 0 {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	for {
		i := strings.IndexByte(s, '\r')
		if i < 0 {
			b.WriteString(s)
			return b.String()
		}
		b.WriteString(s[:i])
		switch n := endLen(s, i); {
		case n == 1 && loneStays:
			b.WriteByte('\r')
			s = s[i+1:]
		default:
			b.WriteByte('\n')
			s = s[i+n:]
		}
	}
}

// endLen returns the length in bytes of the line end at s[i:], 0 if there is none.
func endLen(s string, i int) int {
	switch {
	case s[i] == '\r' && i+1 < len(s) && s[i+1] == '\n':
		return 2
	case s[i] == '\r' || s[i] == '\n':
		return 1
	}
	return 0
}

// lineEnds counts the line ends of what toLF returned.
func lineEnds(flat string) int {
	return strings.Count(flat, "\n") + strings.Count(flat, "\r")
}

// linesOf returns the lines of the matches of old in flat, at most MaxLines.
func linesOf(flat, old string) []int {
	var lines []int
	for at, line := 0, 1; len(lines) < MaxLines; {
		i := strings.Index(flat[at:], old)
		if i < 0 {
			break
		}
		line += lineEnds(flat[at : at+i])
		lines = append(lines, line)
		line += lineEnds(old)
		at += i + len(old)
	}
	return lines
}

// A cursor finds the places of a content that places of its toLF form stand for.
// It goes forward only.
type cursor struct {
	content   string
	loneStays bool
	raw, flat int // the same place in both
	cr        int // the first CR at or after raw; len(content) if there is none
	known     bool
}

// advance returns the place in the content of the place to in its toLF form. One
// beside a CRLF is before or after the whole of it.
func (c *cursor) advance(to int) int {
	for {
		if !c.known || c.cr < c.raw {
			c.cr, c.known = len(c.content), true
			if i := strings.IndexByte(c.content[c.raw:], '\r'); i >= 0 {
				c.cr = c.raw + i
			}
		}
		if d := c.cr - c.raw; c.cr == len(c.content) || to <= c.flat+d {
			c.raw += to - c.flat
			c.flat = to
			return c.raw
		}
		c.flat += c.cr - c.raw + 1
		c.raw = c.cr + endLen(c.content, c.cr)
	}
}

// A renderer writes an edit's new text with the line ends of each place.
type renderer struct {
	content string
	new     string // as given
	lines   []string
	ends    []int // for each line of New but the last: which line of Old has its end
	plain   bool  // new goes in as it is, the file having no say

	// The first line end at or after where the last match ended.
	next      int // len(content) if there is none
	nextKnown bool
	last      string // the last line end of the content
	found     []string
}

func newRenderer(content string, e Edit) *renderer {
	r := &renderer{content: content, new: e.New}
	flat := toLF(e.New, false)
	if !strings.Contains(flat, "\n") {
		r.plain = true
		return r
	}
	if strings.IndexByte(content, '\r') < 0 {
		r.plain = true
		if strings.IndexByte(content, '\n') >= 0 {
			r.new = flat // LF is all that the file has
		}
		return r
	}
	r.lines = strings.Split(flat, "\n")
	r.ends = align(strings.Split(toLF(e.Old, false), "\n"), r.lines)
	i := strings.LastIndexAny(content, "\r\n")
	if i > 0 && content[i-1] == '\r' && content[i] == '\n' {
		i--
	}
	r.last = content[i : i+endLen(content, i)]
	return r
}

// write writes the new text for the match content[start:end].
func (r *renderer) write(b *strings.Builder, start, end int) {
	if r.plain {
		b.WriteString(r.new)
		return
	}
	// The ends of the matched lines, and of the line that the match ends in.
	r.found = r.found[:0]
	for i := start; i < end; {
		n := endLen(r.content, i)
		if n > 0 {
			r.found = append(r.found, r.content[i:i+n])
		}
		i += max(n, 1)
	}
	r.found = append(r.found, r.endAfter(end))
	for i, line := range r.lines[:len(r.ends)] {
		b.WriteString(line)
		b.WriteString(r.found[r.ends[i]])
	}
	b.WriteString(r.lines[len(r.lines)-1])
}

// endAfter returns the first line end at or after the place at, which never goes
// back; in the last line, if that has none, the end of the line before.
func (r *renderer) endAfter(at int) string {
	if !r.nextKnown || r.next < at {
		r.next, r.nextKnown = at, true
		for r.next < len(r.content) && endLen(r.content, r.next) == 0 {
			r.next++
		}
	}
	if r.next == len(r.content) {
		return r.last
	}
	return r.content[r.next : r.next+endLen(r.content, r.next)]
}

// maxAlign bounds the work of align: lines of old times lines of new.
const maxAlign = 1 << 20

// align says for each line of new but the last, which has no end, the end of which
// line of old it gets. The last line of old stands for the line that goes on after
// the match.
func align(old, new []string) []int {
	partner := make([]int, len(new)) // the line of old that a line of new equals, or -1
	for i := range partner {
		partner[i] = -1
	}
	lo, hiOld, hiNew := 0, len(old), len(new)
	for lo < hiOld && lo < hiNew && old[lo] == new[lo] {
		partner[lo] = lo
		lo++
	}
	for hiOld > lo && hiNew > lo && old[hiOld-1] == new[hiNew-1] {
		hiOld--
		hiNew--
		partner[hiNew] = hiOld
	}
	if p, q := hiOld-lo, hiNew-lo; p > 0 && q > 0 && p <= maxAlign/q {
		common(old[lo:hiOld], new[lo:hiNew], func(i, j int) { partner[lo+j] = lo + i })
	}

	// The lines of old before limit[j] can be taken over by line j of new: the partner
	// of a later line begins there.
	limit := make([]int, len(new))
	for j, next := len(new)-1, len(old); j >= 0; j-- {
		if partner[j] >= 0 {
			next = partner[j]
		}
		limit[j] = next
	}
	ends := make([]int, len(new)-1)
	free := 0 // the first line of old that is not yet used
	for j := range ends {
		switch {
		case partner[j] >= 0:
			ends[j] = partner[j]
			free = partner[j] + 1
		case free < limit[j]:
			ends[j] = free
			free++
		case j > 0:
			ends[j] = ends[j-1]
		}
	}
	return ends
}

// common calls pair for each line of a longest common subsequence of a and b.
func common(a, b []string, pair func(i, j int)) {
	width := len(b) + 1
	length := make([]int32, (len(a)+1)*width) // of what a[i:] and b[j:] have in common
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				length[i*width+j] = length[(i+1)*width+j+1] + 1
			} else {
				length[i*width+j] = max(length[(i+1)*width+j], length[i*width+j+1])
			}
		}
	}
	for i, j := 0, 0; i < len(a) && j < len(b); {
		switch {
		case a[i] == b[j]:
			pair(i, j)
			i++
			j++
		case length[(i+1)*width+j] >= length[i*width+j+1]:
			i++
		default:
			j++
		}
	}
}
