package glob

import (
	"errors"
	"strings"
	"unicode/utf8"
)

var (
	errUnclosedSet   = errors.New(`has a "[" without its "]"`)
	errUnclosedBrace = errors.New(`has a "{" without its "}"`)
	errBackslash     = errors.New(`ends in a single "\"`)
	errRange         = errors.New(`has a range in "[…]" that runs backwards`)
	errTooMany       = errors.New("has braces that stand for too many alternatives")
	errSlashInSet    = errors.New(`has a "/" in "[…]", which can match nothing`)
)

// setEnd returns the index after the "]" of the set that begins at s[0] == '['.
func setEnd(s string) (int, error) {
	i := 1
	if i < len(s) && (s[i] == '!' || s[i] == '^') {
		i++
	}
	for first := true; i < len(s); first = false {
		switch {
		case s[i] == ']' && !first:
			return i + 1, nil
		case s[i] == '/':
			return 0, errSlashInSet
		case s[i] == '\\':
			i++
			if i < len(s) && s[i] == '/' {
				return 0, errSlashInSet
			}
		}
		i++
	}
	return 0, errUnclosedSet
}

// expand resolves braces: it returns the patterns without them that together
// mean the same.
func expand(pattern string) ([]string, error) {
	out := []string{""}
	for i := 0; i < len(pattern); {
		// Up to the next brace everything belongs to all alternatives.
		j := i
		for j < len(pattern) && pattern[j] != '{' {
			switch pattern[j] {
			case '\\':
				if j+1 == len(pattern) {
					return nil, errBackslash
				}
				j += 2
			case '[':
				n, err := setEnd(pattern[j:])
				if err != nil {
					return nil, err
				}
				j += n
			default:
				j++
			}
		}
		for k := range out {
			out[k] += pattern[i:j]
		}
		if i = j; i == len(pattern) {
			break
		}
		parts, n, err := braces(pattern[i:])
		if err != nil {
			return nil, err
		}
		i += n
		var choices []string
		for _, part := range parts {
			more, err := expand(part)
			if err != nil {
				return nil, err
			}
			if choices = append(choices, more...); len(choices) > maxAlternatives {
				return nil, errTooMany
			}
		}
		if len(out)*len(choices) > maxAlternatives {
			return nil, errTooMany
		}
		product := make([]string, 0, len(out)*len(choices))
		for _, o := range out {
			for _, c := range choices {
				product = append(product, o+c)
			}
		}
		out = product
	}
	return out, nil
}

// braces splits "{a,b}…" at its own commas; n is the length up to the "}".
func braces(s string) (parts []string, n int, err error) {
	depth, from := 0, 1
	for i := 0; i < len(s); {
		switch s[i] {
		case '\\':
			i++
		case '[':
			size, err := setEnd(s[i:])
			if err != nil {
				return nil, 0, err
			}
			i += size
			continue
		case '{':
			depth++
		case ',':
			if depth == 1 {
				parts = append(parts, s[from:i])
				from = i + 1
			}
		case '}':
			if depth--; depth == 0 {
				return append(parts, s[from:i]), i + 1, nil
			}
		}
		i++
	}
	return nil, 0, errUnclosedBrace
}

// compileComponent reads a component that has neither braces nor slashes.
func compileComponent(s string) (component, error) {
	var tokens []token
	var lit strings.Builder
	flush := func() {
		if lit.Len() > 0 {
			tokens = append(tokens, token{kind: tLiteral, text: lit.String()})
			lit.Reset()
		}
	}
	for i := 0; i < len(s); {
		switch c := s[i]; c {
		case '\\':
			if i+1 == len(s) {
				return component{}, errBackslash
			}
			lit.WriteByte(s[i+1])
			i += 2
		case '*':
			flush()
			if n := len(tokens); n == 0 || tokens[n-1].kind != tStar {
				tokens = append(tokens, token{kind: tStar})
			}
			i++
		case '?':
			flush()
			tokens = append(tokens, token{kind: tAny})
			i++
		case '[':
			flush()
			n, err := setEnd(s[i:])
			if err != nil {
				return component{}, err
			}
			t, err := compileSet(s[i+1 : i+n-1])
			if err != nil {
				return component{}, err
			}
			tokens = append(tokens, t)
			i += n
		default:
			lit.WriteByte(c)
			i++
		}
	}
	flush()
	c := component{tokens: tokens}
	if len(tokens) == 1 && tokens[0].kind == tLiteral {
		c.literal, c.text, c.tokens = true, tokens[0].text, nil
		c.dot = c.text[0] == '.'
		return c, nil
	}
	c.dot = tokens[0].kind == tLiteral && tokens[0].text[0] == '.'
	if last := tokens[len(tokens)-1]; last.kind == tLiteral {
		c.suffix = last.text
	}
	return c, nil
}

// compileSet reads what stands between "[" and "]".
func compileSet(s string) (token, error) {
	t := token{kind: tSet, inset: true}
	if s != "" && (s[0] == '!' || s[0] == '^') {
		t.inset = false
		s = s[1:]
	}
	next := func() rune {
		if s[0] == '\\' && len(s) > 1 {
			s = s[1:]
		}
		r, size := utf8.DecodeRuneInString(s)
		s = s[size:]
		return r
	}
	for s != "" {
		lo := next()
		hi := lo
		if len(s) > 1 && s[0] == '-' {
			s = s[1:]
			if hi = next(); hi < lo {
				return t, errRange
			}
		}
		t.set = append(t.set, rng{lo, hi})
	}
	return t, nil
}
