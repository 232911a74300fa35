package grep

import (
	"bytes"
	"regexp/syntax"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

const (
	maxNeedles = 8  // more are slower than the automaton
	maxSet     = 16 // texts that are followed through a pattern
	maxNeedle  = 64 // bytes; what is longer filters no better
)

// A needle is a text that is looked for before the pattern is.
type needle struct {
	text string // in lower case with fold
	fold bool   // ASCII letters match whatever their case
	// The rarest byte of the text is what memory is searched for.
	off    int
	lo, hi byte // it, and its other case; alike when there is none
}

// common ranks bytes by how often they are in source text and prose, the most
// frequent first. What is not in it is rare.
const common = " etaoinsrlcdumpfhg.\n_\t(),bvyw0/=\"1-;:'k{}x*2<>EST[]AICRN#DLOP3P$F4MqjB5U8H6G7z9V&W+Y|K!X@J%Q\\?~`Z^"

// rank is from 0, the most frequent, up.
var rank = sync.OnceValue(func() *[256]int {
	var r [256]int
	for b := range r {
		r[b] = len(common)
		if b >= 0x80 {
			r[b] = 40 // frequent where there are any
		}
	}
	for i := len(common) - 1; i >= 0; i-- {
		r[common[i]] = i
	}
	r[0] = 10 // binary files
	return &r
})

func lower(b byte) byte {
	if 'A' <= b && b <= 'Z' {
		return b + 'a' - 'A'
	}
	return b
}

func upper(b byte) byte {
	if 'a' <= b && b <= 'z' {
		return b - 'a' + 'A'
	}
	return b
}

func newNeedle(l lit) needle {
	n := needle{text: l.text, fold: l.fold}
	best := -1
	for i := range len(n.text) {
		r := rank()[n.text[i]]
		if n.fold {
			r = min(r, rank()[upper(n.text[i])])
		}
		if r > best {
			best, n.off = r, i
		}
	}
	n.lo, n.hi = n.text[n.off], n.text[n.off]
	if n.fold {
		n.hi = upper(n.lo)
	}
	return n
}

// at reports whether the needle is at buf[i:].
func (n *needle) at(buf []byte, i int) bool {
	if i < 0 || len(buf)-i < len(n.text) {
		return false
	}
	if !n.fold {
		return string(buf[i:i+len(n.text)]) == n.text
	}
	for k := range len(n.text) {
		if lower(buf[i+k]) != n.text[k] {
			return false
		}
	}
	return true
}

// A finder remembers where a needle and each case of its rarest byte are next.
type finder struct {
	*needle
	next   int // of the needle; len(buf) when there is no more
	lo, hi int // of the bytes
}

func (f *finder) reset() { f.next, f.lo, f.hi = -1, -1, -1 }

// from returns the first place at or after pos where the needle is, len(buf)
// when there is none. pos must not go back between resets.
func (f *finder) from(buf []byte, pos int) int {
	if f.next >= pos {
		return f.next
	}
	n := f.needle
	if len(n.text) > len(buf)-pos {
		f.next = len(buf)
		return f.next
	}
	if n.lo == n.hi {
		f.next = f.single(buf, pos)
		return f.next
	}
	// Two bytes: each is looked for on its own, and the nearer is tried first.
	for i := pos + n.off; ; {
		if f.lo < i {
			f.lo = indexByte(buf, i, n.lo)
		}
		if f.hi < i {
			f.hi = indexByte(buf, i, n.hi)
		}
		i = min(f.lo, f.hi)
		if i == len(buf) || n.at(buf, i-n.off) {
			f.next = min(i-n.off, len(buf))
			if i == len(buf) {
				f.next = i
			}
			return f.next
		}
		i++
	}
}

// single is from for a needle whose rarest byte has one case.
func (f *finder) single(buf []byte, pos int) int {
	n := f.needle
	misses := 0
	for i := pos + n.off; ; i++ {
		if i = indexByte(buf, i, n.lo); i == len(buf) {
			return i
		}
		if n.at(buf, i-n.off) {
			return i - n.off
		}
		// A byte that is not rare here after all.
		if misses++; misses > 16 && !n.fold && misses > (i-pos)/64 {
			from := i - n.off + 1
			if k := bytes.Index(buf[from:], []byte(n.text)); k >= 0 {
				return from + k
			}
			return len(buf)
		}
	}
}

func indexByte(buf []byte, from int, b byte) int {
	if from >= len(buf) {
		return len(buf)
	}
	if k := bytes.IndexByte(buf[from:], b); k >= 0 {
		return from + k
	}
	return len(buf)
}

// A lit is a text that a pattern asks for.
type lit struct {
	text string
	fold bool
}

// filter finds needles in a simplified pattern.
func (m *Matcher) filter(re *syntax.Regexp, word bool) {
	exact, required := literals(re)
	set := better(required, exact)
	if !usable(set) || len(set) > maxNeedles {
		return
	}
	var text strings.Builder
	for _, l := range set {
		m.needles = append(m.needles, newNeedle(l))
		if l.fold {
			text.WriteString(l.text)
		}
	}
	// Two characters beyond ASCII fold to ASCII letters.
	for letter, other := range map[string]string{"k": "\u212a", "s": "\u017f"} {
		if strings.Contains(text.String(), letter) {
			m.folds = append(m.folds, other)
		}
	}
	m.exact = re.Op == syntax.OpLiteral && !word && !m.multiline && len(exact) == 1 && !exact[0].fold &&
		len(set) == 1 && set[0].text == string(re.Rune)
}

// literals returns what is known of the texts that match. exact, unless nil,
// is all of them, perhaps with more: one of them is at any match. required,
// unless nil, is a set of which one is within every match.
func literals(re *syntax.Regexp) (exact, required []lit) {
	switch re.Op {
	case syntax.OpEmptyMatch, syntax.OpBeginLine, syntax.OpEndLine, syntax.OpBeginText, syntax.OpEndText,
		syntax.OpWordBoundary, syntax.OpNoWordBoundary:
		return []lit{{}}, nil
	case syntax.OpLiteral:
		return literal(re.Rune, re.Flags&syntax.FoldCase != 0)
	case syntax.OpCharClass:
		for i := 0; i+1 < len(re.Rune); i += 2 {
			for r := re.Rune[i]; r <= re.Rune[i+1]; r++ {
				// U+FFFD also matches bytes that are no UTF-8.
				if len(exact) == maxSet || r == utf8.RuneError {
					return nil, nil
				}
				exact = append(exact, lit{text: string(r)})
			}
		}
		return fewer(exact), nil
	case syntax.OpCapture:
		return literals(re.Sub[0])
	case syntax.OpPlus:
		exact, required = literals(re.Sub[0])
		return nil, better(required, exact)
	case syntax.OpQuest:
		if exact, _ = literals(re.Sub[0]); exact != nil && len(exact) < maxSet {
			return append(slices.Clone(exact), lit{}), nil
		}
		return nil, nil
	case syntax.OpAlternate:
		known, all := true, true
		for _, sub := range re.Sub {
			e, r := literals(sub)
			known = known && e != nil
			exact = append(exact, e...)
			if r = better(r, e); !usable(r) {
				all = false
			}
			required = append(required, r...)
		}
		if !known || len(exact) > maxSet {
			exact = nil
		}
		if !all || len(required) > maxSet {
			required = nil
		}
		return fewer(exact), fewer(required)
	case syntax.OpConcat:
		run, known := []lit{{}}, true
		for _, sub := range re.Sub {
			e, r := literals(sub)
			if e != nil {
				if joined := product(run, e); joined != nil {
					run = joined
					continue
				}
			}
			known = false
			required = better(better(required, run), r)
			if run = e; run == nil {
				run = []lit{{}}
			}
		}
		if known {
			return run, nil
		}
		return nil, better(required, run)
	}
	return nil, nil
}

// literal returns what is known of a text, and its longest part that ASCII
// folding describes.
func literal(runes []rune, fold bool) (exact, required []lit) {
	var parts []string
	var part strings.Builder
	whole := true
	for _, r := range runes {
		plain := r != utf8.RuneError
		if fold && r >= utf8.RuneSelf && unicode.SimpleFold(r) != r {
			plain = false
		}
		if !plain {
			whole = false
			parts = append(parts, part.String())
			part.Reset()
			continue
		}
		if fold && r < utf8.RuneSelf {
			r = rune(lower(byte(r)))
		}
		part.WriteRune(r)
	}
	parts = append(parts, part.String())
	for _, text := range parts {
		l := lit{text: text, fold: fold && strings.ToUpper(text) != text}
		if whole {
			return []lit{l}, nil
		}
		required = better(required, []lit{l})
	}
	return nil, required
}

// product joins every text of a with every one of b; nil when that is too much.
func product(a, b []lit) []lit {
	if len(a)*len(b) > maxSet {
		return nil
	}
	out := make([]lit, 0, len(a)*len(b))
	for _, x := range a {
		for _, y := range b {
			l := lit{x.text + y.text, x.fold || y.fold}
			if len(l.text) > 4*maxNeedle {
				return nil
			}
			if l.fold {
				l.text = lowerASCII(l.text)
			}
			out = append(out, l)
		}
	}
	return fewer(out)
}

func lowerASCII(s string) string {
	b := []byte(s)
	for i := range b {
		b[i] = lower(b[i])
	}
	return string(b)
}

// fewer removes repetitions.
func fewer(set []lit) []lit {
	var out []lit
	for _, l := range set {
		if !slices.Contains(out, l) {
			out = append(out, l)
		}
	}
	return out
}

// usable reports whether a set filters at all.
func usable(set []lit) bool { return score(set) > 0 }

// score says how much a set filters: 0 is not worth looking.
func score(set []lit) int {
	if len(set) == 0 {
		return 0
	}
	worst := 1 << 30
	for _, l := range set {
		rarest := 0
		for i := range len(l.text) {
			r := rank()[l.text[i]]
			if l.fold {
				r = min(r, rank()[upper(l.text[i])])
			}
			rarest = max(rarest, r)
		}
		s := 40*min(len(l.text), 8) + rarest
		switch {
		case l.text == "", len(l.text) == 1 && rarest < 24:
			return 0 // on nearly every line
		}
		worst = min(worst, s)
	}
	return max(worst-20*(len(set)-1), 1)
}

// better returns the set that filters more.
func better(a, b []lit) []lit {
	if score(b) > score(a) {
		return b
	}
	return a
}
