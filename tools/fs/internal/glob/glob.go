package glob

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Limits that keep a pattern's cost small, whoever wrote it.
const (
	maxPattern      = 4096 // bytes
	maxAlternatives = 1024 // after braces are expanded
	maxComponents   = 8192 // of all alternatives
)

// A Pattern is a compiled pattern. It is immutable.
type Pattern struct {
	text  string
	comps []component // of all alternatives, one after the other
	start State
}

// A State says which components of a pattern may match the next name. The
// empty state matches nothing below.
type State []int32

type component struct {
	deep    bool // **
	last    bool // the alternative ends here
	lead    bool // this one and all before it are literal
	dot     bool // spells a leading dot
	literal bool
	text    string  // when literal
	tokens  []token // when not
	suffix  string  // what every match ends with, when not literal
}

type token struct {
	kind  tokenKind
	text  string // of a literal
	set   []rng  // of a set
	inset bool   // the set is what must match, not what must not
}

type tokenKind uint8

const (
	tLiteral tokenKind = iota
	tAny
	tStar
	tSet
)

type rng struct{ lo, hi rune }

// Compile reads a pattern for paths relative to a directory.
//
// Errors name what is wrong in the pattern: an empty one, an absolute one, a
// component "..", an unclosed "[" or "{", a final "\", braces that stand for
// too many alternatives.
func Compile(pattern string) (*Pattern, error) {
	if strings.HasPrefix(pattern, "/") {
		return nil, fmt.Errorf("pattern %q is absolute", pattern)
	}
	return compile(pattern, false)
}

// CompileName reads a pattern as include and exclude have it: one without a
// slash matches names at any depth, one with a slash paths relative to where
// the search starts; a leading slash is dropped, and ties a single name to
// where the search starts.
//
// Errors are Compile's.
func CompileName(pattern string) (*Pattern, error) {
	return compile(pattern, true)
}

func compile(pattern string, names bool) (*Pattern, error) {
	fail := func(why string) (*Pattern, error) { return nil, fmt.Errorf("pattern %q %s", pattern, why) }
	if pattern == "" {
		return nil, errors.New("pattern is empty")
	}
	if len(pattern) > maxPattern {
		return nil, fmt.Errorf("pattern of %d bytes is longer than %d", len(pattern), maxPattern)
	}
	if strings.IndexByte(pattern, 0) >= 0 {
		return fail("holds a NUL byte")
	}
	alternatives, err := expand(pattern)
	if err != nil {
		return fail(err.Error())
	}
	p := &Pattern{text: pattern}
	for _, alt := range alternatives {
		first := len(p.comps)
		parts := strings.Split(alt, "/")
		if names && len(parts) == 1 {
			p.comps = append(p.comps, component{deep: true})
		}
		for _, part := range parts {
			switch part {
			case "", ".": // of "a//b", "./a", "a/"
				continue
			case "..":
				return fail(`has a component ".."`)
			case "**":
				// "**/**" is "**" in the middle and would only cost states.
				if n := len(p.comps); n > first && p.comps[n-1].deep {
					continue
				}
				p.comps = append(p.comps, component{deep: true})
				continue
			}
			c, err := compileComponent(part)
			if err != nil {
				return fail(err.Error())
			}
			p.comps = append(p.comps, c)
		}
		if len(p.comps) == first {
			return fail("has an alternative that names nothing")
		}
		if len(p.comps) > maxComponents {
			return fail("stands for too much")
		}
		lead := true
		for i := first; i < len(p.comps); i++ {
			lead = lead && p.comps[i].literal
			p.comps[i].lead = lead
		}
		p.comps[len(p.comps)-1].last = true
	}
	for i := range p.comps {
		if i == 0 || p.comps[i-1].last {
			p.start = p.add(p.start, int32(i))
		}
	}
	return p, nil
}

// String returns the pattern as it was given.
func (p *Pattern) String() string { return p.text }

// Start is the state of the directory that paths are relative to.
func (p *Pattern) Start() State { return p.start }

// add puts component i into s, with what it may skip to.
func (p *Pattern) add(s State, i int32) State {
	for {
		if slices.Contains(s, i) {
			return s
		}
		s = append(s, i)
		if !p.comps[i].deep || p.comps[i].last {
			return s
		}
		i++
	}
}

// Name says what a name in a directory of state s is. match: its path matches.
// outright: its path, or the beginning of one that matches, is spelled by the
// pattern in full.
//
// hidden says whether a leading dot need not be spelled.
func (p *Pattern) Name(s State, name string, hidden bool) (match, outright bool) {
	dotted := !hidden && strings.HasPrefix(name, ".")
	for _, i := range s {
		c := &p.comps[i]
		if c.deep {
			match = match || c.last && !dotted
			continue
		}
		if (match || !c.last) && !c.lead || dotted && !c.dot || !c.matches(name) {
			continue
		}
		match = match || c.last
		outright = outright || c.lead
	}
	return match, outright
}

// Enter returns the state below the directory name of a directory of state s.
// It is empty when nothing below can match.
func (p *Pattern) Enter(s State, name string, hidden bool) State {
	var next State
	dotted := !hidden && strings.HasPrefix(name, ".")
	for _, i := range s {
		c := &p.comps[i]
		switch {
		case c.deep:
			if !dotted {
				next = p.add(next, i)
			}
		case c.last, dotted && !c.dot, !c.matches(name):
		default:
			next = p.add(next, i+1)
		}
	}
	return next
}

// Match reports whether a whole path matches.
func (p *Pattern) Match(path string, hidden bool) bool {
	s := p.start
	for {
		name, rest, more := strings.Cut(path, "/")
		if !more {
			match, _ := p.Name(s, name, hidden)
			return match
		}
		s, path = p.Enter(s, name, hidden), rest
	}
}

func (c *component) matches(name string) bool {
	if c.literal {
		return name == c.text
	}
	if !strings.HasSuffix(name, c.suffix) {
		return false
	}
	return matchTokens(c.tokens, name)
}

// matchTokens goes back to the last star only: what an earlier one could give
// up the last one can take, so the time is a product of the lengths.
func matchTokens(tokens []token, name string) bool {
	t, n := 0, 0
	starT, starN := -1, 0
	for {
		if t < len(tokens) {
			tok := &tokens[t]
			if tok.kind == tStar {
				if t == len(tokens)-1 {
					return true
				}
				starT, starN = t, n
				t++
				continue
			}
			if size := tok.match(name[n:]); size >= 0 {
				t, n = t+1, n+size
				continue
			}
		} else if n == len(name) {
			return true
		}
		if starT < 0 || starN >= len(name) {
			return false
		}
		_, size := utf8.DecodeRuneInString(name[starN:])
		starN += size
		t, n = starT+1, starN
	}
}

// match returns how many bytes of s the token takes, -1 when it does not match.
func (t *token) match(s string) int {
	if t.kind == tLiteral {
		if strings.HasPrefix(s, t.text) {
			return len(t.text)
		}
		return -1
	}
	if s == "" {
		return -1
	}
	r, size := utf8.DecodeRuneInString(s)
	if t.kind == tAny {
		return size
	}
	if r == utf8.RuneError && size == 1 {
		r = -1 // a byte that is no character is in no set
	}
	for _, x := range t.set {
		if x.lo <= r && r <= x.hi {
			if t.inset {
				return size
			}
			return -1
		}
	}
	if t.inset {
		return -1
	}
	return size
}
