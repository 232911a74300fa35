package ignore

import "strings"

// A glob is one pattern in git's wildcard language (gitignore(5), and what git
// does where that is silent). It works on bytes.
type glob struct {
	tokens []token
	never  bool // malformed: matches nothing
	fold   bool // ASCII letters match whatever their case
}

type token struct {
	kind tokenKind
	b    byte // of a byte
	set  *[4]uint64
}

type tokenKind uint8

const (
	tByte     tokenKind = iota
	tAny                // ?: any byte but a slash
	tSet                // […]: a byte of the set, never a slash
	tStar               // *: any bytes but slashes
	tDeep               // **: any bytes
	tDeepDirs           // **/: nothing, or any bytes up to and including a slash
)

func lower(b byte) byte {
	if 'A' <= b && b <= 'Z' {
		return b + 'a' - 'A'
	}
	return b
}

// compileGlob reads a pattern. A pattern that git can make no sense of matches
// nothing, as there.
func compileGlob(p string, fold bool) *glob {
	g := &glob{fold: fold}
	for i := 0; i < len(p); {
		switch c := p[i]; c {
		case '\\':
			if i+1 == len(p) {
				g.never = true
				return g
			}
			b := p[i+1]
			// Only the pattern's plain letters are folded, not escaped ones: an
			// escaped capital then meets text in lower case and never matches.
			g.tokens = append(g.tokens, token{kind: tByte, b: b})
			i += 2
		case '?':
			g.tokens = append(g.tokens, token{kind: tAny})
			i++
		case '*':
			j := i
			for j < len(p) && p[j] == '*' {
				j++
			}
			kind := tStar
			if j-i > 1 && (i == 0 || p[i-1] == '/') {
				// Two stars are special as a whole component only.
				switch {
				case j < len(p) && p[j] == '/':
					kind = tDeepDirs
					j++
				case j == len(p), strings.HasPrefix(p[j:], `\/`):
					kind = tDeep
				}
			}
			g.tokens = append(g.tokens, token{kind: kind})
			i = j
		case '[':
			set, n := compileSet(p[i:], fold)
			if n == 0 {
				g.never = true
				return g
			}
			g.tokens = append(g.tokens, token{kind: tSet, set: set})
			i += n
		default:
			if fold {
				c = lower(c)
			}
			g.tokens = append(g.tokens, token{kind: tByte, b: c})
			i++
		}
	}
	return g
}

// inClass reports whether b is in a POSIX class that git knows, in the C
// locale; ok is false when there is no such class.
func inClass(name string, b byte) (in, ok bool) {
	switch name {
	case "alnum":
		in = alpha(b) || digit(b)
	case "alpha":
		in = alpha(b)
	case "blank":
		in = b == ' ' || b == '\t'
	case "cntrl":
		in = b < ' ' || b == 0x7f
	case "digit":
		in = digit(b)
	case "graph":
		in = '!' <= b && b <= '~'
	case "lower":
		in = 'a' <= b && b <= 'z'
	case "print":
		in = ' ' <= b && b <= '~'
	case "punct":
		in = '!' <= b && b <= '~' && !alpha(b) && !digit(b)
	case "space":
		in = b == ' ' || '\t' <= b && b <= '\r'
	case "upper":
		in = 'A' <= b && b <= 'Z'
	case "xdigit":
		in = digit(b) || 'a' <= lower(b) && lower(b) <= 'f'
	default:
		return false, false
	}
	return in, true
}

func alpha(b byte) bool { return 'a' <= lower(b) && lower(b) <= 'z' }
func digit(b byte) bool { return '0' <= b && b <= '9' }

// compileSet reads the set at the start of p, and returns how long it is, 0
// when it is malformed. With fold the set is of bytes in lower case.
func compileSet(p string, fold bool) (*[4]uint64, int) {
	var in [4]uint64
	put := func(b byte) { in[b>>6] |= 1 << (b & 63) }
	has := func(b byte) bool { return in[b>>6]&(1<<(b&63)) != 0 }
	i := 1
	at := func(k int) byte { // 0 past the end; patterns hold no NUL
		if k < len(p) {
			return p[k]
		}
		return 0
	}
	negated := at(i) == '!' || at(i) == '^'
	if negated {
		i++
	}
	// prev is the character that a range could begin with, 0 when there is none.
	prev := byte(0)
	for first := true; first || at(i) != ']'; first = false {
		c := at(i)
		switch {
		case c == 0:
			return nil, 0
		case c == '\\':
			i++
			if c = at(i); c == 0 {
				return nil, 0
			}
			put(c)
			prev = c
		case c == '-' && prev != 0 && at(i+1) != 0 && at(i+1) != ']':
			i++
			hi := at(i)
			if hi == '\\' {
				i++
				if hi = at(i); hi == 0 {
					return nil, 0
				}
			}
			for b := int(prev); b <= int(hi); b++ {
				put(byte(b))
				if fold {
					put(lower(byte(b)))
				}
			}
			prev = 0
		case c == '[' && at(i+1) == ':':
			end := i + 2
			for at(end) != 0 && at(end) != ']' {
				end++
			}
			if at(end) == 0 {
				return nil, 0
			}
			if end-1 < i+2 || p[end-1] != ':' {
				// No class after all: a plain "[".
				put('[')
				prev = '['
				break
			}
			name := p[i+2 : end-1]
			for b := range 256 {
				in, ok := inClass(name, byte(b))
				if !ok {
					return nil, 0
				}
				if in || fold && name == "upper" && 'a' <= b && b <= 'z' {
					put(byte(b))
				}
			}
			i = end
			prev = 0
		default:
			put(c)
			prev = c
		}
		i++
	}
	var out [4]uint64
	for b := range 256 {
		if b != '/' && has(byte(b)) != negated {
			out[b>>6] |= 1 << (b & 63)
		}
	}
	return &out, i + 1
}

func (t *token) match(b byte, fold bool) bool {
	switch t.kind {
	case tAny:
		return b != '/'
	case tByte:
		if fold {
			b = lower(b)
		}
		return t.b == b
	default:
		if fold {
			b = lower(b)
		}
		return t.set[b>>6]&(1<<(b&63)) != 0
	}
}

// match reports whether the whole of s matches. It goes back to the last "*"
// within a component and to the last "**" across them, and no further: what an
// earlier one could give up, the last one can take. So the time is a product
// of lengths, whatever the pattern's author intended.
func (g *glob) match(s []byte) bool {
	if g.never {
		return false
	}
	t, n := 0, 0
	starT, starN := -1, 0 // last "*", and where it next gives up
	deepT, deepN := -1, 0 // last "**", likewise
	for {
		if t == len(g.tokens) {
			if n == len(s) {
				return true
			}
		} else {
			switch tok := &g.tokens[t]; tok.kind {
			case tStar:
				starT, starN = t, n
				t++
				continue
			case tDeep, tDeepDirs:
				if tok.kind == tDeep && t == len(g.tokens)-1 {
					return true
				}
				deepT, deepN = t, n
				starT = -1
				t++
				continue
			default:
				if n < len(s) && tok.match(s[n], g.fold) {
					t, n = t+1, n+1
					continue
				}
			}
		}
		if starT >= 0 && starN < len(s) && s[starN] != '/' {
			starN++
			t, n = starT+1, starN
			continue
		}
		starT = -1
		if deepT < 0 {
			return false
		}
		if g.tokens[deepT].kind == tDeepDirs {
			for deepN < len(s) && s[deepN] != '/' {
				deepN++
			}
		}
		if deepN >= len(s) {
			return false
		}
		deepN++
		t, n = deepT+1, deepN
	}
}
