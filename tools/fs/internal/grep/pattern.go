package grep

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
)

// A Pattern is what to look for.
type Pattern struct {
	Text       string // RE2 syntax, or plain with Fixed
	Fixed      bool
	IgnoreCase bool // by Unicode's simple folding
	Multiline  bool // matches may hold line breaks; "." doesn't match one
	Word       bool // neither preceded nor followed by a word's character
}

// A Matcher is a compiled pattern. It is immutable.
type Matcher struct {
	re        *regexp.Regexp
	group     int // of the match within re
	multiline bool
	spellsCR  bool
	needles   []needle // one of them is in every match; none: unknown
	exact     bool     // the only needle is the pattern
	// What ASCII folding misses of the needles: text that holds these is
	// searched without needles.
	folds []string
	auto  *automaton // nil when the pattern is too large for one
}

// maxPattern is the longest pattern, in bytes.
const maxPattern = 64 << 10

// wordChar is what Word wants on neither side.
const wordChar = `\pL\pN\pM_`

// Compile reads a pattern. An error says what is wrong with it, and for
// look-around, back-references and what else RE2 lacks, which it is.
func Compile(p Pattern) (*Matcher, error) {
	if len(p.Text) > maxPattern {
		return nil, fmt.Errorf("pattern of %d bytes is longer than %d", len(p.Text), maxPattern)
	}
	// Without OneLine "^" and "$" are about lines.
	flags := syntax.Perl &^ syntax.OneLine
	if p.Fixed {
		flags = syntax.Literal
	}
	if p.IgnoreCase {
		flags |= syntax.FoldCase
	}
	tree, err := syntax.Parse(p.Text, flags)
	if err != nil {
		return nil, explain(p.Text, err)
	}
	m := &Matcher{multiline: p.Multiline, spellsCR: spells(tree, '\r')}
	if !p.Multiline && spells(tree, '\n') {
		return nil, errors.New("pattern has a line break, which only multiline can match")
	}
	full := tree.String()
	if p.Word {
		m.group = 1
		// The first group is the match: the pattern's own groups come later.
		full = "(?:(?m:^)|[^" + wordChar + "])(" + full + ")(?:[^" + wordChar + "]|(?m:$))"
	}
	if m.re, err = regexp.Compile(full); err != nil {
		return nil, explain(p.Text, err)
	}
	m.filter(tree.Simplify(), p.Word)
	if !p.Multiline {
		whole, err := syntax.Parse(full, syntax.Perl)
		if err != nil {
			return nil, explain(p.Text, err)
		}
		prog, err := syntax.Compile(whole.Simplify())
		if err != nil {
			return nil, explain(p.Text, err)
		}
		m.auto = newAutomaton(prog)
	}
	return m, nil
}

// spells reports whether the pattern means c itself: as a character, or in a
// set that is not one of white space or of everything else.
func spells(re *syntax.Regexp, c rune) bool {
	switch re.Op {
	case syntax.OpLiteral:
		for _, r := range re.Rune {
			if r == c {
				return true
			}
		}
	case syntax.OpCharClass:
		has := func(c rune) bool {
			for i := 0; i+1 < len(re.Rune); i += 2 {
				if re.Rune[i] <= c && c <= re.Rune[i+1] {
					return true
				}
			}
			return false
		}
		return has(c) && !has(' ') && !has('a') && !has('\t')
	}
	for _, sub := range re.Sub {
		if spells(sub, c) {
			return true
		}
	}
	return false
}

// explain returns an error that names the construct that RE2 lacks, where
// there is one.
func explain(pattern string, err error) error {
	if what := lacking(pattern); what != "" {
		return fmt.Errorf("pattern %s uses %s, which RE2 does not have", quote(pattern), what)
	}
	var e *syntax.Error
	if errors.As(err, &e) {
		if e.Expr != "" {
			return fmt.Errorf("pattern %s: %s: %s", quote(pattern), e.Code, quote(e.Expr))
		}
		return fmt.Errorf("pattern %s: %s", quote(pattern), e.Code)
	}
	return fmt.Errorf("pattern %s: %w", quote(pattern), err)
}

func quote(s string) string {
	const most = 200
	if len(s) > most {
		return fmt.Sprintf("%.*q…", most, s)
	}
	return fmt.Sprintf("%q", s)
}

// lacking finds the first construct of other dialects in a pattern that RE2
// refused; empty when there is none.
func lacking(p string) string {
	groups := []struct{ begin, name string }{
		{"(?=", "look-ahead (?=…)"},
		{"(?!", "negative look-ahead (?!…)"},
		{"(?<=", "look-behind (?<=…)"},
		{"(?<!", "negative look-behind (?<!…)"},
		{"(?>", "an atomic group (?>…)"},
		{"(?(", "a conditional (?(…)…)"},
		{"(?|", "a branch reset (?|…)"},
		{"(?#", "a comment (?#…)"},
		{"(?R)", "recursion (?R)"},
		{"(?&", "recursion (?&…)"},
		{"(?P=", "a back-reference (?P=…)"},
		{"(?P>", "recursion (?P>…)"},
	}
	inSet := false
	for i := 0; i < len(p); i++ {
		switch c := p[i]; {
		case c == '\\':
			i++
			if i == len(p) || inSet {
				continue
			}
			switch n := p[i]; {
			case n >= '1' && n <= '9':
				return fmt.Sprintf(`a back-reference \%c`, n)
			case n == 'k' || n == 'g':
				return fmt.Sprintf(`a back-reference \%c`, n)
			case strings.IndexByte("GKZRXhHV", n) >= 0:
				return fmt.Sprintf(`\%c`, n)
			}
		case inSet:
			inSet = c != ']'
		case c == '[':
			inSet = true
			if strings.HasPrefix(p[i+1:], "^") {
				i++
			}
			if strings.HasPrefix(p[i+1:], "]") {
				i++
			}
		case c == '(':
			for _, g := range groups {
				if strings.HasPrefix(p[i:], g.begin) {
					return g.name
				}
			}
			if len(p) > i+2 && p[i+1] == '?' && digit(p[i+2]) {
				return "recursion (?" + p[i+2:i+3] + ")"
			}
		case c == '+' && i > 0 && strings.IndexByte("*+?}", p[i-1]) >= 0 && (i < 2 || p[i-2] != '\\'):
			return fmt.Sprintf("a possessive quantifier %s", p[i-1:i+1])
		}
	}
	return ""
}

func digit(b byte) bool { return '0' <= b && b <= '9' }
