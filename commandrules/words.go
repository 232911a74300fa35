package commandrules

import (
	"strings"
	"unicode/utf8"

	"github.com/dshx/dshx/sandboxpolicy"
	"mvdan.cc/sh/v3/syntax"
)

// word is a shell word as far as it is known: without its quotes.
func word(w *syntax.Word) sandboxpolicy.Word {
	var b strings.Builder
	out := sandboxpolicy.Word{Fixed: true}
	vary := func(many bool) {
		if out.Fixed {
			out.Text = b.String()
		}
		out.Fixed = false
		out.Many = out.Many || many
	}
	var pattern pattern
	for _, p := range w.Parts {
		switch p := p.(type) {
		case *syntax.Lit:
			unescape(&b, p.Value, &pattern)
		case *syntax.SglQuoted:
			if p.Dollar {
				ansiC(&b, p.Value)
			} else {
				b.WriteString(p.Value)
			}
		case *syntax.DblQuoted:
			for _, q := range p.Parts {
				switch q := q.(type) {
				case *syntax.Lit:
					unescapeQuoted(&b, q.Value)
				case *syntax.ParamExp:
					vary(severalWords(q))
				default:
					vary(false)
				}
			}
		case *syntax.ProcSubst:
			b.WriteString("/dev/fd/") // what it becomes: bash(1)
			vary(false)
		case *syntax.ArithmExp:
			vary(false)
		default: // split into words, or names of files
			vary(true)
		}
	}
	if pattern.varies() {
		vary(true)
		out.Text = ""
	}
	if out.Fixed {
		out.Text = b.String()
	}
	return out
}

// severalWords reports an expansion that is several words even in quotes.
func severalWords(p *syntax.ParamExp) bool {
	if p.Param != nil && p.Param.Value == "@" || p.Names != 0 || p.NestedParam != nil {
		return true
	}
	i, ok := p.Index.(*syntax.Word)
	return ok && i.Lit() == "@"
}

// pattern is what unquoted text may stand for besides itself.
type pattern struct {
	glob                  bool
	bracket               bool
	open, separated, both bool // {a,b}
}

func (p *pattern) varies() bool { return p.glob || p.both }

func (p *pattern) see(c, next byte) {
	switch c {
	case '*', '?':
		p.glob = true
	case '[':
		p.bracket = true
	case ']':
		p.glob = p.glob || p.bracket
	case '{':
		p.open = true
	case ',':
		p.separated = p.separated || p.open
	case '.':
		p.separated = p.separated || p.open && next == '.'
	case '}':
		p.both = p.both || p.open && p.separated
	}
}

// unescape writes unquoted text.
func unescape(b *strings.Builder, s string, p *pattern) {
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			if i++; s[i] != '\n' {
				b.WriteByte(s[i])
			}
			continue
		}
		next := byte(0)
		if i+1 < len(s) {
			next = s[i+1]
		}
		p.see(s[i], next)
		b.WriteByte(s[i])
	}
}

// unescapeQuoted writes text between double quotes.
func unescapeQuoted(b *strings.Builder, s string) {
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			switch s[i+1] {
			case '\n':
				i++
				continue
			case '$', '`', '"', '\\':
				i++
			}
		}
		b.WriteByte(s[i])
	}
}

// ansiC writes text between $' and ', by bash(1), QUOTING.
func ansiC(b *strings.Builder, s string) {
	digits := func(i, most int, base uint32) (n uint32, end int) {
		for end = i; end < len(s) && end < i+most; end++ {
			d := uint32(16)
			switch c := s[end]; {
			case c >= '0' && c <= '9':
				d = uint32(c - '0')
			case c|0x20 >= 'a' && c|0x20 <= 'f':
				d = uint32(c|0x20-'a') + 10
			}
			if d >= base {
				break
			}
			n = n*base + d
		}
		return n, end
	}
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		switch c := s[i]; c {
		case 'a':
			b.WriteByte(7)
		case 'b':
			b.WriteByte(8)
		case 'e', 'E':
			b.WriteByte(27)
		case 'f':
			b.WriteByte(12)
		case 'n':
			b.WriteByte(10)
		case 'r':
			b.WriteByte(13)
		case 't':
			b.WriteByte(9)
		case 'v':
			b.WriteByte(11)
		case '\\', '\'', '"', '?':
			b.WriteByte(c)
		case '0', '1', '2', '3', '4', '5', '6', '7':
			n, end := digits(i, 3, 8)
			if byte(n) == 0 {
				return // it ends the string
			}
			b.WriteByte(byte(n))
			i = end - 1
		case 'x', 'u', 'U':
			most := map[byte]int{'x': 2, 'u': 4, 'U': 8}[c]
			n, end := digits(i+1, most, 16)
			switch {
			case end == i+1:
				b.WriteByte('\\')
				b.WriteByte(c)
			case n == 0:
				return
			case c == 'x':
				b.WriteByte(byte(n))
			case n > utf8.MaxRune:
				b.WriteRune(utf8.RuneError)
			default:
				b.WriteRune(rune(n))
			}
			i = end - 1
		case 'c':
			if i+1 < len(s) {
				i++
				b.WriteByte(s[i] & 0x1f)
			}
		default:
			b.WriteByte('\\')
			b.WriteByte(c)
		}
	}
}

// inputText is what a here-document or here-string gives, if that is known.
func inputText(r *syntax.Redirect, w *syntax.Word) (string, bool) {
	if w == nil {
		return "", false
	}
	if r.Hdoc == nil {
		v := word(w)
		return v.Text, v.Fixed
	}
	raw := false // a quoted delimiter: nothing is expanded
	for _, p := range r.Word.Parts {
		lit, ok := p.(*syntax.Lit)
		raw = raw || !ok || strings.IndexByte(lit.Value, '\\') >= 0
	}
	var b strings.Builder
	for _, p := range w.Parts {
		lit, ok := p.(*syntax.Lit)
		switch {
		case !ok:
			return "", false
		case raw:
			b.WriteString(lit.Value)
		default:
			unescapeQuoted(&b, lit.Value)
		}
	}
	return b.String(), true
}
