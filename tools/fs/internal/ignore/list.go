package ignore

import (
	"bytes"
	"strings"
)

// A pattern is one line of a rule file.
type pattern struct {
	negated bool   // begins with "!": what matches is not ignored
	dirs    bool   // ends in "/": matches directories only
	name    bool   // has no other slash: looks at the last component alone
	prefix  string // literal beginning, without the anchor
	rest    *glob  // what follows; nil when the prefix is all
	suffix  string // for names "*suffix", instead of rest
	ends    bool   // suffix is set
}

// A List holds the patterns of one rule file. It is immutable.
//
// Plain names, "*.ext" and plain paths, which is most of what people write,
// are found in maps by what they say; the rest is tried one by one. The last
// line that matches decides, so everything has its number.
type List struct {
	patterns []pattern
	fold     bool
	names    [2]map[string]int // plain names; [1] those for directories only
	exts     [2]map[string]int // "*.ext", by ".ext", which holds one dot
	paths    [2]map[string]int // plain paths
	others   []int             // the rest, last first
}

// simpleLength is how much of s is literal: up to the first character that
// means something.
func simpleLength(s string) int {
	if i := strings.IndexAny(s, `*?[\`); i >= 0 {
		return i
	}
	return len(s)
}

// trimSpaces removes spaces at the end that are not escaped. Other white space
// stays: git removes spaces only.
func trimSpaces(s string) string {
	end := 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case ' ':
			continue
		case '\\':
			i++
		}
		end = min(i+1, len(s))
	}
	return s[:end]
}

// Parse reads the rules of one file, fold without regard to the case of ASCII
// letters. There are no errors: a line that makes no sense matches nothing.
// nil stands for a file without rules.
func Parse(data []byte, fold bool) *List {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	l := &List{fold: fold}
	for len(data) > 0 {
		line, rest, _ := bytes.Cut(data, []byte{'\n'})
		data = rest
		if len(line) > 0 && line[0] == '#' {
			continue
		}
		line = bytes.TrimSuffix(line, []byte{'\r'})
		// For git a line is a C string.
		if i := bytes.IndexByte(line, 0); i >= 0 {
			line = line[:i]
		}
		if s := trimSpaces(string(line)); s != "" {
			l.add(s)
		}
	}
	if len(l.patterns) == 0 {
		return nil
	}
	return l
}

func (l *List) add(s string) {
	var p pattern
	if s[0] == '!' {
		p.negated = true
		s = s[1:]
	}
	literal := simpleLength(s)
	if strings.HasSuffix(s, "/") {
		p.dirs = true
		s = s[:len(s)-1]
	}
	literal = min(literal, len(s))
	p.name = !strings.Contains(s, "/")
	anchored := strings.HasPrefix(s, "/")
	if anchored {
		s = s[1:]
		literal = max(literal-1, 0)
	}
	if s == "" {
		return // "/", "!" and the like: no name is empty
	}
	d, n := 0, len(l.patterns)
	if p.dirs {
		d = 1
	}
	put := func(m *[2]map[string]int, key string) {
		if m[d] == nil {
			m[d] = map[string]int{}
		}
		m[d][key] = n
	}
	switch {
	case literal == len(s) && p.name:
		p.prefix = s
		if !l.fold {
			put(&l.names, s)
		}
	case literal == len(s):
		p.prefix = s
		if !l.fold {
			put(&l.paths, s)
		}
	case p.name && s[0] == '*' && simpleLength(s[1:]) == len(s)-1:
		p.ends, p.suffix = true, s[1:]
		if !l.fold && strings.LastIndexByte(p.suffix, '.') == 0 {
			put(&l.exts, p.suffix)
		} else {
			l.others = append(l.others, n)
		}
	case p.name:
		p.rest = compileGlob(s, l.fold)
		l.others = append(l.others, n)
	default:
		// The literal beginning is compared first, and what follows is a
		// pattern of its own: so "a**/b" means "a" and then "**/b", as in git.
		p.prefix, p.rest = s[:literal], compileGlob(s[literal:], l.fold)
		l.others = append(l.others, n)
	}
	if l.fold && (p.rest == nil && !p.ends) {
		l.others = append(l.others, n)
	}
	l.patterns = append(l.patterns, p)
}

// match returns whether a line decides about path, and whether it ignores it.
// path is relative to the directory of the rule file, name its last component.
func (l *List) match(path []byte, name string, dir bool) (decided, ignored bool) {
	best := -1
	look := func(m *[2]map[string]int, key string) {
		if n, ok := m[0][key]; ok && n > best {
			best = n
		}
		if dir {
			if n, ok := m[1][key]; ok && n > best {
				best = n
			}
		}
	}
	look(&l.names, name)
	if l.exts[0] != nil || l.exts[1] != nil {
		if i := strings.LastIndexByte(name, '.'); i >= 0 {
			look(&l.exts, name[i:])
		}
	}
	if l.paths[0] != nil || l.paths[1] != nil {
		if n, ok := l.paths[0][string(path)]; ok && n > best {
			best = n
		}
		if n, ok := l.paths[1][string(path)]; ok && dir && n > best {
			best = n
		}
	}
	for i := len(l.others) - 1; i >= 0 && l.others[i] > best; i-- {
		n := l.others[i]
		p := &l.patterns[n]
		if p.dirs && !dir {
			continue
		}
		if p.matches(path, name, l.fold) {
			best = n
			break
		}
	}
	if best < 0 {
		return false, false
	}
	return true, !l.patterns[best].negated
}

func (p *pattern) matches(path []byte, name string, fold bool) bool {
	same := func(a, b string) bool {
		if !fold {
			return a == b
		}
		for i := range len(a) {
			if lower(a[i]) != lower(b[i]) {
				return false
			}
		}
		return true
	}
	switch {
	case p.ends:
		return len(name) >= len(p.suffix) && same(name[len(name)-len(p.suffix):], p.suffix)
	case p.name && p.rest == nil:
		return len(name) == len(p.prefix) && same(name, p.prefix)
	case p.name:
		return p.rest.match(path[len(path)-len(name):])
	}
	if len(path) < len(p.prefix) || !same(string(path[:len(p.prefix)]), p.prefix) {
		return false
	}
	if p.rest == nil {
		return len(path) == len(p.prefix)
	}
	return p.rest.match(path[len(p.prefix):])
}
