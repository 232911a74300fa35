package sandboxpolicy

import (
	"errors"
	"strings"
	"unicode/utf8"
)

// glob is one compiled pattern without braces. It is a list of components,
// matched against a path's by a set of positions that is advanced component
// by component: no backtracking over "**", no allocation.
type glob struct {
	segs []string // literal components, or patterns; "**" stands for any number
	lit  []bool   // the component is literal and unescaped
}

// maxSegs bounds a pattern's components so that positions fit one word.
const maxSegs = 63

// maxBraces bounds what the braces of one pattern may expand to.
const maxBraces = 256

var (
	errGlobSegs   = errors.New("more than 63 components")
	errGlobBraces = errors.New("braces that expand to more than 256 patterns")
	errGlobClass  = errors.New("unclosed [")
	errGlobBrace  = errors.New("unclosed {")
	errGlobEscape = errors.New("a trailing backslash")
	errGlobDots   = errors.New("a component that is \"..\"")
	errGlobNUL    = errors.New("a NUL byte")
)

// hasMeta reports whether s is a pattern rather than a name.
func hasMeta(s string) bool { return strings.ContainsAny(s, "*?[{\\") }

// expandBraces returns the patterns that {a,b} stand for.
func expandBraces(p string) ([]string, error) {
	out := make([]string, 0, 1)
	work := []string{p}
	for len(work) > 0 {
		s := work[len(work)-1]
		work = work[:len(work)-1]
		open := indexUnescaped(s, '{')
		if open < 0 {
			out = append(out, s)
			if len(out) > maxBraces {
				return nil, errGlobBraces
			}
			continue
		}
		depth, start := 0, open+1
		var alts []string
		end := -1
	scan:
		for i := open; i < len(s); i++ {
			switch s[i] {
			case '\\':
				i++
			case '{':
				depth++
			case ',':
				if depth == 1 {
					alts = append(alts, s[start:i])
					start = i + 1
				}
			case '}':
				if depth--; depth == 0 {
					alts = append(alts, s[start:i])
					end = i
					break scan
				}
			}
		}
		if end < 0 {
			return nil, errGlobBrace
		}
		if len(work)+len(alts) > maxBraces {
			return nil, errGlobBraces
		}
		for i := len(alts) - 1; i >= 0; i-- {
			work = append(work, s[:open]+alts[i]+s[end+1:])
		}
	}
	return out, nil
}

func indexUnescaped(s string, c byte) int {
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case c:
			return i
		}
	}
	return -1
}

// compileGlob compiles pattern, relative to base, which is literal, absolute
// and clean. A trailing "/**" means the directory itself, since a rule holds
// for everything below a match.
func compileGlob(base, pattern string) (*glob, error) {
	if strings.IndexByte(pattern, 0) >= 0 {
		return nil, errGlobNUL
	}
	g := &glob{}
	for _, s := range strings.Split(base, "/") {
		if s != "" {
			g.segs = append(g.segs, s)
			g.lit = append(g.lit, true)
		}
	}
	for _, s := range strings.Split(pattern, "/") {
		switch s {
		case "":
			continue
		case ".":
			continue
		case "..":
			return nil, errGlobDots
		case "**":
			if n := len(g.segs); n > 0 && g.segs[n-1] == "**" && !g.lit[n-1] {
				continue
			}
		}
		if err := checkSeg(s); err != nil {
			return nil, err
		}
		lit := !strings.ContainsAny(s, "*?[\\")
		g.segs = append(g.segs, s)
		g.lit = append(g.lit, lit)
	}
	for n := len(g.segs); n > 1 && g.segs[n-1] == "**" && !g.lit[n-1]; n = len(g.segs) {
		g.segs, g.lit = g.segs[:n-1], g.lit[:n-1]
	}
	if len(g.segs) > maxSegs {
		return nil, errGlobSegs
	}
	return g, nil
}

func checkSeg(s string) error {
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			if i++; i == len(s) {
				return errGlobEscape
			}
		case '[':
			end := classEnd(s, i)
			if end < 0 {
				return errGlobClass
			}
			i = end
		}
	}
	return nil
}

// classEnd is the index of the "]" that closes the class at s[i].
func classEnd(s string, i int) int {
	j := i + 1
	if j < len(s) && (s[j] == '!' || s[j] == '^') {
		j++
	}
	for first := true; j < len(s); first = false {
		switch {
		case s[j] == ']' && !first:
			return j
		case s[j] == '\\' && j+1 < len(s):
			j++
		}
		j++
	}
	return -1
}

// literal is the path when the pattern has no wildcard.
func (g *glob) literal() (string, bool) {
	for _, l := range g.lit {
		if !l {
			return "", false
		}
	}
	return "/" + strings.Join(g.segs, "/"), true
}

// dir is the literal directory above the first wildcard.
func (g *glob) dir() string {
	n := 0
	for n < len(g.lit) && g.lit[n] {
		n++
	}
	return "/" + strings.Join(g.segs[:n], "/")
}

func (g *glob) oneLevel() bool {
	n := len(g.segs)
	if n == 0 || g.lit[n-1] || g.segs[n-1] == "**" {
		return false
	}
	for _, l := range g.lit[:n-1] {
		if !l {
			return false
		}
	}
	return true
}

// String is the pattern in the syntax of PathRule.Path.
func (g *glob) String() string {
	var b strings.Builder
	for i, s := range g.segs {
		b.WriteByte('/')
		if !g.lit[i] {
			b.WriteString(s)
			continue
		}
		for j := 0; j < len(s); j++ {
			if strings.IndexByte("*?[{\\", s[j]) >= 0 {
				b.WriteByte('\\')
			}
			b.WriteByte(s[j])
		}
	}
	if b.Len() == 0 {
		return "/"
	}
	return b.String()
}

// match reports whether the pattern matches path or a directory above it.
func (g *glob) match(path string) bool {
	n := uint(len(g.segs))
	set := g.closure(1)
	for i := 0; i < len(path); {
		if set>>n&1 != 0 {
			return true
		}
		if set == 0 {
			return false
		}
		if path[i] == '/' {
			i++
			continue
		}
		j := i
		for j < len(path) && path[j] != '/' {
			j++
		}
		set = g.step(set, path[i:j])
		i = j
	}
	return set>>n&1 != 0
}

func (g *glob) closure(set uint64) uint64 {
	for k := range g.segs {
		if set>>uint(k)&1 != 0 && !g.lit[k] && g.segs[k] == "**" {
			set |= 1 << uint(k+1)
		}
	}
	return set
}

func (g *glob) step(set uint64, name string) uint64 {
	var next uint64
	for k, s := range g.segs {
		if set>>uint(k)&1 == 0 {
			continue
		}
		switch {
		case g.lit[k]:
			if s == name {
				next |= 1 << uint(k+1)
			}
		case s == "**":
			next |= 1 << uint(k)
		case matchSeg(s, name):
			next |= 1 << uint(k+1)
		}
	}
	return g.closure(next)
}

// matchSeg matches one component. A star matches a leading dot too: a deny
// must not miss a name for being hidden. "?" and classes take one rune, or
// one byte where the name is not UTF-8.
func matchSeg(pat, name string) bool {
	p, n := 0, 0
	starP, starN := -1, 0
	for n < len(name) || p < len(pat) {
		if p < len(pat) {
			if pat[p] == '*' {
				starP, starN = p, n
				p++
				continue
			}
			if n < len(name) {
				if np, nn, ok := matchOne(pat, p, name, n); ok {
					p, n = np, nn
					continue
				}
			}
		}
		if starP >= 0 && starN < len(name) {
			starN++
			p, n = starP+1, starN
			continue
		}
		return false
	}
	return true
}

func matchOne(pat string, p int, name string, n int) (int, int, bool) {
	switch pat[p] {
	case '?':
		_, w := utf8.DecodeRuneInString(name[n:])
		return p + 1, n + w, true
	case '[':
		end := classEnd(pat, p)
		if end < 0 {
			return 0, 0, false
		}
		r, w := utf8.DecodeRuneInString(name[n:])
		return end + 1, n + w, matchClass(pat[p+1:end], r)
	case '\\':
		if p+1 < len(pat) {
			p++
		}
	}
	return p + 1, n + 1, pat[p] == name[n]
}

func matchClass(set string, r rune) bool {
	neg := false
	if set != "" && (set[0] == '!' || set[0] == '^') {
		neg, set = true, set[1:]
	}
	next := func() rune {
		if set[0] == '\\' && len(set) > 1 {
			set = set[1:]
		}
		c, w := utf8.DecodeRuneInString(set)
		set = set[w:]
		return c
	}
	hit := false
	for set != "" {
		lo := next()
		hi := lo
		if len(set) > 1 && set[0] == '-' {
			set = set[1:]
			hi = next()
		}
		if lo <= r && r <= hi {
			hit = true
		}
	}
	return hit != neg
}
