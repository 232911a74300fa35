package diff

import (
	"slices"
	"unicode/utf8"

	"github.com/sergi/go-diff/diffmatchpatch"
)

// A change replaces the lines a0 to a1-1 of one text by b0 to b1-1 of the other.
type change struct{ a0, a1, b0, b1 int }

const (
	// Stretches of at most this many lines, of both texts together, get the shortest
	// script; its work grows with their square.
	maxShortest = 4000
	// What a comparison may do in all, in steps of some nanoseconds.
	budget = 64 << 20
	// Texts of more lines than this in all are not compared at all.
	maxLines = 4 << 20
)

// script returns the changes that make b of a, in order, not touching each other.
// coarse is true if it may be longer than it need be for want of work.
func script(a, b []string) (changes []change, coarse bool) {
	if len(a)+len(b) > maxLines {
		return []change{{0, len(a), 0, len(b)}}, true
	}
	// Lines as numbers: equal ones have equal numbers.
	numbers := make(map[string]int32, len(a))
	number := func(lines []string) []int32 {
		out := make([]int32, len(lines))
		for i, l := range lines {
			n, ok := numbers[l]
			if !ok {
				n = int32(len(numbers))
				numbers[l] = n
			}
			out[i] = n
		}
		return out
	}
	s := &scripter{a: number(a), b: number(b), left: budget}
	s.inA, s.inB = make([]seen, len(numbers)), make([]seen, len(numbers))
	s.between(0, len(a), 0, len(b))
	return slide(s.a, s.b, s.changes), s.coarse
}

type seen struct {
	count int32
	at    int32
}

type scripter struct {
	a, b     []int32
	inA, inB []seen // scratch of anchors, all zero between its calls
	left     int    // of budget
	changes  []change
	coarse   bool
}

// between compares two stretches, those after all that came before.
func (s *scripter) between(a0, a1, b0, b1 int) {
	for a0 < a1 && b0 < b1 && s.a[a0] == s.b[b0] {
		a0++
		b0++
	}
	for a0 < a1 && b0 < b1 && s.a[a1-1] == s.b[b1-1] {
		a1--
		b1--
	}
	n := a1 - a0 + b1 - b0
	if a0 == a1 || b0 == b1 {
		s.add(change{a0, a1, b0, b1})
		return
	}
	if n <= maxShortest && n*n <= s.left {
		s.left -= n * n
		s.myers(a0, a1, b0, b1)
		return
	}
	// Too long: split it at lines that occur once on both sides, in the longest
	// order that they have in common (patience diff).
	s.left -= 16 * n
	if s.left > 0 {
		if anchors := s.anchors(a0, a1, b0, b1); len(anchors) > 0 {
			for _, at := range anchors {
				s.between(a0, at.a0, b0, at.b0)
				a0, b0 = at.a0+1, at.b0+1
			}
			s.between(a0, a1, b0, b1)
			return
		}
	}
	s.coarse = true
	s.add(change{a0, a1, b0, b1})
}

func (s *scripter) add(c change) {
	if c.a0 == c.a1 && c.b0 == c.b1 {
		return
	}
	if n := len(s.changes); n > 0 && s.changes[n-1].a1 == c.a0 && s.changes[n-1].b1 == c.b0 {
		s.changes[n-1].a1, s.changes[n-1].b1 = c.a1, c.b1
		return
	}
	s.changes = append(s.changes, c)
}

// anchors returns lines (a0, b0) that are in both stretches, once in each, in
// ascending order on both sides.
func (s *scripter) anchors(a0, a1, b0, b1 int) []change {
	for i := a0; i < a1; i++ {
		e := &s.inA[s.a[i]]
		e.count++
		e.at = int32(i)
	}
	for i := b0; i < b1; i++ {
		e := &s.inB[s.b[i]]
		e.count++
		e.at = int32(i)
	}
	// The longest ascending subsequence of the places in b: tops holds, for each
	// length, the pair that ends the one with the smallest end.
	type pair struct{ a, b, before int32 }
	var pairs []pair
	var tops []int32
	for i := a0; i < a1; i++ {
		id := s.a[i]
		if s.inA[id].count != 1 || s.inB[id].count != 1 {
			continue
		}
		p := pair{int32(i), s.inB[id].at, -1}
		k, _ := slices.BinarySearchFunc(tops, p.b, func(t, b int32) int { return int(pairs[t].b) - int(b) })
		if k > 0 {
			p.before = tops[k-1]
		}
		pairs = append(pairs, p)
		if k == len(tops) {
			tops = append(tops, 0)
		}
		tops[k] = int32(len(pairs) - 1)
	}
	for i := a0; i < a1; i++ {
		s.inA[s.a[i]] = seen{}
	}
	for i := b0; i < b1; i++ {
		s.inB[s.b[i]] = seen{}
	}
	if len(tops) == 0 {
		return nil
	}
	out := make([]change, 0, len(tops))
	for t := tops[len(tops)-1]; t >= 0; t = pairs[t].before {
		out = append(out, change{a0: int(pairs[t].a), b0: int(pairs[t].b)})
	}
	slices.Reverse(out)
	return out
}

// myers finds the shortest script of a stretch. go-diff compares runes, so each
// different line is one here. Its own line mode numbers lines too, but compares the
// characters of changed lines afterwards, and takes invalid bytes for U+FFFD, as
// it would a number among the surrogates. With numbers of the stretch alone, at
// most maxShortest, none of that can happen. Its time limit stays off: with one it
// looks for shortcuts that give longer scripts, and two machines may differ.
func (s *scripter) myers(a0, a1, b0, b1 int) {
	runes := make(map[int32]rune, a1-a0)
	number := func(ids []int32) []rune {
		out := make([]rune, len(ids))
		for i, id := range ids {
			r, ok := runes[id]
			if !ok {
				r = rune(1 + len(runes))
				runes[id] = r
			}
			out[i] = r
		}
		return out
	}
	for _, d := range runeDiff(number(s.a[a0:a1]), number(s.b[b0:b1])) {
		n := utf8.RuneCountInString(d.Text)
		switch d.Type {
		case diffmatchpatch.DiffEqual:
			a0 += n
			b0 += n
		case diffmatchpatch.DiffDelete:
			s.add(change{a0, a0 + n, b0, b0})
			a0 += n
		case diffmatchpatch.DiffInsert:
			s.add(change{a0, a0, b0, b0 + n})
			b0 += n
		}
	}
}

// runeDiff returns the shortest script for two sequences of valid runes.
func runeDiff(a, b []rune) []diffmatchpatch.Diff {
	return (&diffmatchpatch.DiffMatchPatch{}).DiffMainRunes(a, b, false)
}

// slide moves lines that are only added or only removed as far down as they can
// go: of "}, new function" and "new function, }" it takes the second, as readers
// expect. Changes that meet become one.
func slide(a, b []int32, changes []change) []change {
	out := changes[:0]
	for i := range changes {
		c := changes[i]
		nextA, nextB := len(a), len(b)
		if i+1 < len(changes) {
			nextA, nextB = changes[i+1].a0, changes[i+1].b0
		}
		switch {
		case c.a0 == c.a1:
			for c.b1 < nextB && b[c.b0] == b[c.b1] {
				c.a0, c.a1, c.b0, c.b1 = c.a0+1, c.a1+1, c.b0+1, c.b1+1
			}
		case c.b0 == c.b1:
			for c.a1 < nextA && a[c.a0] == a[c.a1] {
				c.a0, c.a1, c.b0, c.b1 = c.a0+1, c.a1+1, c.b0+1, c.b1+1
			}
		}
		if c.a1 == nextA && c.b1 == nextB && i+1 < len(changes) {
			changes[i+1].a0, changes[i+1].b0 = c.a0, c.b0
			continue
		}
		out = append(out, c)
	}
	return out
}
