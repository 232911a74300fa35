package diff

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sergi/go-diff/diffmatchpatch"
)

// A Candidate is the place of a text that is most like another text.
type Candidate struct {
	Line int    // where it begins, from 1
	Diff string // from what was wanted ("-") to what is there ("+"), at most maxNearest bytes
}

const (
	maxNearest = 6 << 10
	maxRows    = 60 // lines of a candidate's diff
	maxBlock   = 12 // lines of each side of one change
	maxNotes   = 12 // of code points in it
	// Of a wanted text that is longer, the beginning stands for the whole.
	maxWanted = 16 << 10
	// A line of the text counts as several if it is longer than this and than twice
	// what is wanted.
	maxUnit = 1 << 10
	// Places that are looked at closely, and the work that may take, in cells of
	// alignment tables.
	maxPlaces = 12
	maxCells  = 24 << 20
	// Changed lines longer than this are not compared by character.
	maxNoted = 2000

	oldName = "old_string"
)

// Nearest looks in content for the place that is most like wanted, which is not in
// it, and shows what differs. Changed lines have a space as "·", a tab as "→",
// what is else invisible as <U+00A0>, and invalid bytes as <0xE7>; notes name the
// code points that are easily taken for each other. It reports false if nothing is
// similar.
//
// Places are found by the groups of three characters that they share with wanted,
// but for spaces, case, quotes and accents, so a large content is gone through
// once; then the best are aligned with it, where white space weighs less.
func Nearest(content, wanted string) (Candidate, bool) {
	if len(wanted) > maxWanted {
		end := maxWanted
		for !utf8.RuneStart(wanted[end]) {
			end--
		}
		wanted = wanted[:end]
	}
	var best placed
	found := false
	cells := maxCells
	for _, p := range places(content, wanted) {
		cost := (utf8.RuneCountInString(content[p.start:p.end]) + 1) * (utf8.RuneCountInString(wanted) + 1)
		if cost > cells {
			if !found {
				// The first has the most in common; of so long a text that is enough.
				best, found = placed{start: p.start, end: p.end, line: p.line}, true
			}
			break
		}
		cells -= cost
		if q, ok := place(content, wanted, p); ok && (!found || q.cost < best.cost) {
			best, found = q, true
		}
	}
	if !found {
		return Candidate{}, false
	}
	return show(content, wanted, best), true
}

// A unit is a line of the content, or a part of a very long one.
type unit struct {
	start, end int // in bytes, with the line end
	line       int // from 1
}

// A placed is a part of the content, from the line on.
type placed struct {
	start, end int
	line       int
	cost       int // of making it of what is wanted
}

// places returns stretches of the content in which what is wanted may be, the ones
// with most in common first.
func places(content, wanted string) []placed {
	grams, total := gramsOf(wanted)
	if total == 0 {
		return nil
	}
	// As many units as wanted has lines, and one more on each side for what begins or
	// ends within a line.
	size := 1 + strings.Count(normal(strings.TrimRight(wanted, "\r\n")), "\n")
	longest := max(maxUnit, 2*len(wanted))

	type scored struct {
		first unit
		last  unit
		score int
	}
	var (
		top []scored
		// The last size units and what each shares, in a ring.
		window = make([]unit, size)
		hits   = make([]int, size)
		sum    int
		buf    []byte
	)
	for u, i := (unit{line: 1}), 0; u.start < len(content); i++ {
		u.end = unitEnd(content, u.start, longest)
		buf = fold(buf[:0], content[u.start:u.end])
		n := grams.count(buf)
		sum += n - hits[i%size]
		window[i%size], hits[i%size] = u, n
		first := window[0]
		if i >= size {
			first = window[(i+1)%size]
		}

		// More than all cannot be shared; it would favour repetitions.
		s := scored{first, u, min(sum, total)}
		if s.score > 0 && (len(top) < maxPlaces || s.score > top[len(top)-1].score) {
			i, _ := slices.BinarySearchFunc(top, s, func(t, s scored) int {
				if t.score >= s.score {
					return -1
				}
				return 1
			})
			top = slices.Insert(top, i, s)
			top = top[:min(len(top), maxPlaces)]
		}
		u.start = u.end
		if c := content[u.end-1]; c == '\n' || c == '\r' {
			u.line++
		}
	}
	out := make([]placed, len(top))
	for i, t := range top {
		p := placed{start: t.first.start, end: t.last.end, line: t.first.line}
		// One unit before and one after.
		if p.start > 0 {
			before := unitStart(content, p.start, longest)
			if c := content[p.start-1]; c == '\n' || c == '\r' {
				p.line--
			}
			p.start = before
		}
		if p.end < len(content) {
			p.end = unitEnd(content, p.end, longest)
		}
		out[i] = p
	}
	return out
}

// unitEnd returns the end of the unit that starts at, after its line end.
func unitEnd(s string, at, longest int) int {
	limit := min(len(s), at+longest)
	for i := at; i < limit; i++ {
		switch s[i] {
		case '\n':
			return i + 1
		case '\r':
			if i+1 < len(s) && s[i+1] == '\n' {
				return i + 2
			}
			return i + 1
		}
	}
	for limit < len(s) && limit > at+longest-utf8.UTFMax && !utf8.RuneStart(s[limit]) {
		limit--
	}
	// A CRLF is never cut in two, since a CR ends the loop above.
	return limit
}

// unitStart returns a place before at, the start of a unit, that is the start of a
// line or longest bytes away.
func unitStart(s string, at, longest int) int {
	i := at - 1
	if s[i] == '\n' && i > 0 && s[i-1] == '\r' {
		i--
	}
	for limit := max(0, at-longest); i > limit; i-- {
		if s[i-1] == '\n' || s[i-1] == '\r' {
			return i
		}
	}
	for n := 0; n < utf8.UTFMax-1 && i > 0 && !utf8.RuneStart(s[i]); n++ {
		i--
	}
	return i
}

// normal returns s with each line end as an LF.
func normal(s string) string {
	if strings.IndexByte(s, '\r') < 0 {
		return s
	}
	return strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\r", "\n")
}

// A gramSet holds groups of three folded bytes, by a hash: a false hit costs only
// a useless look at a place.
type gramSet struct {
	bits [1 << 13]byte
	size int // of a group: 3, less if all that is wanted is shorter
}

// gramsOf returns the groups within the lines of wanted, and how many they are.
func gramsOf(wanted string) (*gramSet, int) {
	g := &gramSet{}
	var lines [][]byte
	for line := range strings.SplitSeq(normal(wanted), "\n") {
		folded := fold(nil, line)
		lines = append(lines, folded)
		g.size = max(g.size, min(3, len(folded)))
	}
	total := 0
	for _, folded := range lines {
		g.each(folded, func(h uint32) {
			g.bits[h>>3] |= 1 << (h & 7)
			total++
		})
	}
	return g, total
}

func (g *gramSet) each(folded []byte, f func(hash uint32)) {
	if g.size == 0 {
		return
	}
	var v uint32
	for i, b := range folded {
		v = (v<<8 | uint32(b)) & (1<<(8*g.size) - 1)
		if i+1 >= g.size {
			f(v * 2654435761 >> 16)
		}
	}
}

// count returns how many groups of folded are in the set.
func (g *gramSet) count(folded []byte) int {
	n := 0
	g.each(folded, func(h uint32) {
		n += int(g.bits[h>>3] >> (h & 7) & 1)
	})
	return n
}

// plainLetters has, from U+00C0 on, the letter that each accented one is.
const plainLetters = "aaaaaaaceeeeiiiidnooooo*ouuuuypsaaaaaaaceeeeiiiidnooooo/ouuuuypy" +
	"aaaaaaccccccccddddeeeeeeeeeegggggggghhhhiiiiiiiiiiiijjkkkllllllllllnnnnnnnnnoooooooorrrrrrssssssssttttttuuuuuuuuuuuuwwyyyzzzzzzs"

// fold appends s to dst without what people and editors change without noticing:
// white space and invisible characters are gone, quotes and dashes plain, letters
// small and without accents.
func fold(dst []byte, s string) []byte {
	for i := 0; i < len(s); {
		b := s[i]
		if b < utf8.RuneSelf {
			i++
			if b > ' ' && b != 0x7F {
				if 'A' <= b && b <= 'Z' {
					b += 'a' - 'A'
				}
				dst = append(dst, b)
			}
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			dst = append(dst, b)
		case r >= 0xC0 && r-0xC0 < rune(len(plainLetters)):
			dst = append(dst, plainLetters[r-0xC0])
		case r >= 0x2018 && r <= 0x201B || r == 0x2032 || r == 0xB4:
			dst = append(dst, '\'')
		case r >= 0x201C && r <= 0x201F || r == 0x2033 || r == 0xAB || r == 0xBB:
			dst = append(dst, '"')
		case r >= 0x2010 && r <= 0x2015 || r == 0x2212:
			dst = append(dst, '-')
		case r == 0x2026:
			dst = append(dst, "..."...)
		case r >= 0xFF01 && r <= 0xFF5E: // fullwidth ASCII
			dst = fold(dst, string(r-0xFF01+'!'))
		case unicode.IsSpace(r) || unicode.In(r, unicode.Mn, unicode.Cf, unicode.Zs):
		default:
			dst = append(dst, s[i:i+n]...)
		}
		i += n
	}
	return dst
}

// points returns the characters of s, with every line end as an LF and each invalid
// byte as a code point that no text has, and where each begins.
func points(s string) (runes []rune, at []int) {
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == '\r' && i+1 < len(s) && s[i+1] == '\n':
			r, n = '\n', 2
		case r == '\r':
			r = '\n'
		case r == utf8.RuneError && n == 1:
			r = invalidBase + rune(s[i])
		}
		runes, at = append(runes, r), append(at, i)
		i += n
	}
	return runes, append(at, len(s))
}

// invalidBase is in the last plane, of which nothing is ever assigned.
const invalidBase = 0x10FE00

// What a step of an alignment costs. A tab for spaces is nearer than either is to
// nothing, so that indentation is shown as a difference and not left out.
const (
	costOther = 6
	costSpace = 2
	costTwin  = 1 // of one kind: a white space for another, a quote for another
)

func cost(r rune) int {
	if r == '\n' {
		return costOther // a place begins and ends with lines if it can
	}
	if unicode.IsSpace(r) || unicode.In(r, unicode.Mn, unicode.Cf) {
		return costSpace
	}
	return costOther
}

// kind returns a number that is equal for runes that fold makes equal.
func kind(r rune) int32 {
	switch {
	case r == '\n':
		return '\n'
	case unicode.IsSpace(r):
		return ' '
	}
	v := int32(0)
	for _, b := range fold(nil, string(r)) {
		v = v*31 + int32(b)
	}
	return v
}

// place aligns wanted with the best part of p, and reports false if making the one
// of the other costs more than half of writing it anew.
func place(content, wanted string, p placed) (placed, bool) {
	w, _ := points(wanted)
	c, at := points(content[p.start:p.end])
	// The usual table of edit distance, a row for each character of wanted. Beginning
	// and ending anywhere in c is free. from holds where the best way to a cell began.
	whole := 0
	row, from := make([]int32, len(c)+1), make([]int32, len(c)+1)
	for j := range from {
		from[j] = int32(j)
	}
	drop, kinds := make([]int32, len(c)), make([]int32, len(c))
	for j, r := range c {
		drop[j], kinds[j] = int32(cost(r)), kind(r)
	}
	for _, r := range w {
		own, ownKind := int32(cost(r)), kind(r)
		whole += int(own)
		diagonal, diagonalFrom := row[0], from[0]
		row[0] += own
		for j := range c {
			best, bestFrom := diagonal, diagonalFrom
			switch {
			case c[j] == r:
			case kinds[j] == ownKind:
				best += costTwin
			default:
				best += costOther
			}
			diagonal, diagonalFrom = row[j+1], from[j+1]
			if v := row[j+1] + own; v < best {
				best, bestFrom = v, from[j+1]
			}
			if v := row[j] + drop[j]; v < best {
				best, bestFrom = v, from[j]
			}
			row[j+1], from[j+1] = best, bestFrom
		}
	}
	end := 0
	for j, v := range row {
		if v < row[end] {
			end = j
		}
	}
	start := int(from[end])
	p.cost = int(row[end])
	if p.cost*2 > whole || start == end {
		return placed{}, false
	}
	for _, r := range c[:start] {
		if r == '\n' {
			p.line++
		}
	}
	p.start, p.end = p.start+at[start], p.start+at[end]
	return p, true
}

// show makes the diff of a candidate.
func show(content, wanted string, p placed) Candidate {
	lineStart := strings.LastIndexAny(content[:p.start], "\r\n") + 1
	column := 1 + utf8.RuneCountInString(content[lineStart:p.start])

	a := strings.Split(normal(wanted), "\n")
	b := strings.Split(normal(content[p.start:p.end]), "\n")
	changes, _ := script(a, b)

	out := &rows{}
	out.add(fmt.Sprintf("--- %s", oldName))
	out.add(fmt.Sprintf("+++ the file, line %d", p.line))
	at := 0
	for _, c := range changes {
		out.context(a, at, c.a0)
		for i := c.a0; i < min(c.a1, c.a0+maxBlock); i++ {
			other := ""
			if j := c.b0 + i - c.a0; j < c.b1 {
				other = b[j]
			}
			out.line('-', a[i], other)
		}
		out.lost += max(0, c.a1-c.a0-maxBlock) + max(0, c.b1-c.b0-maxBlock)
		for j := c.b0; j < min(c.b1, c.b0+maxBlock); j++ {
			other := ""
			if i := c.a0 + j - c.b0; i < c.a1 {
				other = a[i]
			}
			out.line('+', b[j], other)
		}
		for i, j := c.a0, c.b0; i < min(c.a1, c.a0+maxBlock) && j < c.b1; i, j = i+1, j+1 {
			first := 1
			if j == 0 {
				first = column
			}
			out.note(a[i], b[j], p.line+j, first)
		}
		at = c.a1
	}
	out.context(a, at, len(a))
	switch {
	case len(changes) == 0:
		out.add("[they differ in their line ends: a lone CR matches only a lone CR]")
	case p.end == len(content) && strings.HasSuffix(normal(wanted), "\n") && !strings.HasSuffix(normal(content), "\n"):
		out.add("[the file ends there, without a line end]")
	}
	return Candidate{Line: p.line, Diff: out.String()}
}

// rows are the lines of a candidate's diff.
type rows struct {
	lines []string
	bytes int
	notes int
	lost  int
}

func (r *rows) add(s string) {
	if len(r.lines) >= maxRows || r.bytes+len(s) > maxNearest-100 {
		r.lost++
		return
	}
	r.lines = append(r.lines, s)
	r.bytes += len(s) + 1
}

// context adds equal lines: those next to a change.
func (r *rows) context(lines []string, from, to int) {
	const around = 2
	for i := from; i < to; i++ {
		if i-from >= around && to-i > around {
			r.add(fmt.Sprintf("[%d equal lines]", to-from-2*around))
			i = to - around - 1
			continue
		}
		s, _ := clipTo(lines[i], 0, 200)
		r.add(" " + printable(s))
	}
}

// line adds a changed line, around the place where it differs from other.
func (r *rows) line(mark byte, s, other string) {
	s, _ = clipTo(s, firstDifference(s, other), 200)
	r.add(string(mark) + visible(s))
}

func (r *rows) String() string {
	out := strings.Join(r.lines, "\n") + "\n"
	if r.lost > 0 {
		out += fmt.Sprintf("[%d more lines left out]\n", r.lost)
	}
	return out
}

// visible returns a line with its white space and what has no shape made visible.
func visible(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, "<0x%02X>", s[i])
		case r == ' ':
			b.WriteString("·")
		case r == '\t':
			b.WriteString("→")
		case shapeless(r):
			fmt.Fprintf(&b, "<U+%04X>", r)
		default:
			b.WriteRune(r)
		}
		i += n
	}
	return b.String()
}

// printable returns an equal line as valid UTF-8.
func printable(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// shapeless reports whether r can't be seen by itself.
func shapeless(r rune) bool {
	return r != ' ' && (!unicode.IsPrint(r) || unicode.Is(unicode.Mn, r))
}

// note names the code points in which two lines differ, where that can't be seen.
// column is that of b's first character in the file.
func (r *rows) note(a, b string, line, column int) {
	if len(a) > maxNoted || len(b) > maxNoted {
		return
	}
	ra, _ := points(a)
	rb, _ := points(b)
	var gone, come []rune
	at := column
	flush := func() {
		defer func() { at += len(come); gone, come = nil, nil }()
		if !confusing(gone) && !confusing(come) {
			return
		}
		if r.notes++; r.notes > maxNotes {
			return
		}
		r.add(fmt.Sprintf("[line %d, column %d: %s has %s, the file %s]", line, at, oldName, name(gone), name(come)))
	}
	for _, d := range runeDiff(ra, rb) {
		switch d.Type {
		case diffmatchpatch.DiffDelete:
			gone = append(gone, []rune(d.Text)...)
		case diffmatchpatch.DiffInsert:
			come = append(come, []rune(d.Text)...)
		default:
			flush()
			at += utf8.RuneCountInString(d.Text)
		}
	}
	flush()
}

// confusing reports whether some of the runes can be taken for others, or for none.
func confusing(runes []rune) bool {
	return slices.ContainsFunc(runes, func(r rune) bool { return r <= ' ' || r >= 0x7F })
}

var names = map[rune]string{
	'\t': "tab", ' ': "space", '"': "quotation mark", '\'': "apostrophe", '-': "hyphen-minus",
	0xA0: "no-break space", 0xAD: "soft hyphen", 0x200B: "zero width space", 0x200C: "zero width non-joiner",
	0x200D: "zero width joiner", 0x202F: "narrow no-break space", 0x2060: "word joiner", 0xFEFF: "byte order mark",
	0x2010: "hyphen", 0x2011: "non-breaking hyphen", 0x2013: "en dash", 0x2014: "em dash", 0x2212: "minus sign", 0x2026: "ellipsis",
	0x2018: "left single quotation mark", 0x2019: "right single quotation mark",
	0x201C: "left double quotation mark", 0x201D: "right double quotation mark",
	0x3000: "ideographic space", 0xFFFD: "replacement character",
	0x300: "combining grave accent", 0x301: "combining acute accent", 0x302: "combining circumflex",
	0x303: "combining tilde", 0x308: "combining diaeresis", 0x327: "combining cedilla",
}

// name names code points: "4 × U+0020 (space)"; at most four kinds of them.
func name(runes []rune) string {
	if len(runes) == 0 {
		return "nothing"
	}
	var parts []string
	for i := 0; i < len(runes); {
		n := 1
		for i+n < len(runes) && runes[i+n] == runes[i] {
			n++
		}
		if len(parts) == 4 {
			parts = append(parts, fmt.Sprintf("%d more", len(runes)-i))
			break
		}
		r := runes[i]
		part := fmt.Sprintf("U+%04X", r)
		switch {
		case r >= invalidBase && r < invalidBase+0x100:
			part = fmt.Sprintf("the invalid byte 0x%02X", r-invalidBase)
		case names[r] != "":
			part += " (" + names[r] + ")"
		case !shapeless(r):
			part += " (" + string(r) + ")"
		}
		if n > 1 {
			part = fmt.Sprintf("%d × %s", n, part)
		}
		parts = append(parts, part)
		i += n
	}
	return strings.Join(parts, ", ")
}
