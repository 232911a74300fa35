package cli

import (
	"slices"
	"strings"

	"github.com/dshx/dshx/sandboxpolicy"
)

// Kind is what a shell completes.
type Kind uint8

const (
	// KindWords: the words that Complete returned, nothing else.
	KindWords Kind = iota
	// KindFile and KindDir: names of files or directories.
	KindFile
	KindDir
	// KindOperand: the word is an operand, number Operand.
	KindOperand
)

// Completion is what can stand where the person is.
type Completion struct {
	Kind  Kind
	Words []string // each may end with a tab and a description
	// Operand counts the operands before the word, with KindOperand.
	Operand int
	// Ended reports that flags can't follow any more.
	Ended bool
}

// Complete says what can follow args in place of word. interspersed is for
// commands that ParseAll reads.
func Complete(args []string, word string, interspersed bool, tables ...[]Flag) Completion {
	operands := 0
	for i := 0; i < len(args); i++ {
		arg := args[i]
		switch {
		case arg == "--":
			return Completion{Kind: KindOperand, Operand: operands + len(args) - i - 1, Ended: true}
		case len(arg) < 2 || arg[0] != '-':
			if !interspersed {
				return Completion{Kind: KindOperand, Operand: len(args) - i, Ended: true}
			}
			operands++
			continue
		}
		typed, _, inline := strings.Cut(arg, "=")
		if f := find(tables, typed); f != nil && f.Value != "" && !inline {
			if i+1 == len(args) {
				return f.values("")
			}
			i++
		}
	}
	if !strings.HasPrefix(word, "-") {
		return Completion{Kind: KindOperand, Operand: operands}
	}
	if name, _, inline := strings.Cut(word, "="); inline {
		if f := find(tables, name); f != nil && f.Value != "" {
			return f.values(name + "=")
		}
		return Completion{}
	}
	var c Completion
	for _, t := range tables {
		for i := range t {
			if t[i].Help != notYet {
				c.Words = append(c.Words, t[i].written()+"\t"+t[i].Help)
			}
		}
	}
	c.Words = append(c.Words, "--help\thelp for this command")
	return c
}

// values are the values that a flag may have, each behind prefix.
func (f *Flag) values(prefix string) Completion {
	var list []string
	switch f.Value {
	case "DIR":
		return Completion{Kind: KindDir}
	case "FILE", "OUT", "PATH|GLOB":
		return Completion{Kind: KindFile}
	}
	switch {
	case f.Name == "preset":
		list = sandboxpolicy.PresetNames()
	case f.Value == strings.ToLower(f.Value):
		list = strings.Split(f.Value, "|")
	}
	var c Completion
	for _, v := range list {
		if f.Set(&Flags{}, v) == nil { // what this version refuses is no choice
			c.Words = append(c.Words, prefix+v)
		}
	}
	return c
}

// Nearest returns those of names that s may have been meant to be, best
// first: those it is the beginning of, or that are a few slips of the finger
// away.
func Nearest(s string, names []string) []string {
	type candidate struct {
		name     string
		distance int
	}
	var found []candidate
	s = strings.ToLower(s)
	if len(s) > 64 {
		return nil // no name is like this, and the distance takes time
	}
	for _, n := range names {
		d := distance(s, n)
		switch {
		case d <= 1+len(s)/4:
		case len(s) >= 2 && strings.HasPrefix(n, s):
		default:
			continue
		}
		found = append(found, candidate{n, d})
	}
	slices.SortStableFunc(found, func(a, b candidate) int { return a.distance - b.distance })
	var out []string
	for _, c := range found[:min(3, len(found))] {
		out = append(out, c.name)
	}
	return out
}

// distance is the number of bytes to insert, remove, replace or swap with
// their neighbour that makes b of a.
func distance(a, b string) int {
	before, row := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	var older []int
	for i := 1; i <= len(a); i++ {
		older, before, row = before, row, make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			row[j] = min(before[j]+1, row[j-1]+1, before[j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], older[j-2]+1)
			}
		}
	}
	return row[len(b)]
}

// DidYouMean makes a part of a sentence of what Nearest found.
func DidYouMean(prefix string, near []string) string {
	if len(near) == 0 {
		return ""
	}
	return " (did you mean " + prefix + strings.Join(near, " or "+prefix) + "?)"
}
