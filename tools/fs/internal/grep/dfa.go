package grep

import (
	"encoding/binary"
	"regexp/syntax"
	"slices"
	"sort"
	"unicode"
	"unicode/utf8"
)

// An automaton is what all workers share of a pattern's deterministic
// automaton: the program, and the classes of characters that it tells apart.
//
// regexp keeps positions and priorities, for which it simulates the program
// step by step. Whether a line matches at all can be had from sets of
// positions alone, and these can be numbered and remembered: then a character
// costs two look-ups.
type automaton struct {
	prog   *syntax.Prog
	ascii  [utf8.RuneSelf]uint16 // class of each
	from   []rune                // beginnings of ranges beyond ASCII, sorted
	class  []uint16              // of each range
	sample []rune                // a member of each class
	nl     uint16                // the class of the line's end
}

// Limits of what is turned into an automaton: beyond them regexp is used.
const (
	maxInsts  = 2000
	maxWork   = 1 << 20 // ranges times instructions
	maxStates = 4096
	maxTable  = 1 << 20 // transitions, 4 bytes each
)

// newAutomaton returns nil when the program is too large.
func newAutomaton(prog *syntax.Prog) *automaton {
	if len(prog.Inst) > maxInsts {
		return nil
	}
	// Places where something changes.
	cuts := []rune{0, '\n', '\n' + 1, utf8.RuneSelf, '0', '9' + 1, 'A', 'Z' + 1, '_', '_' + 1, 'a', 'z' + 1, utf8.RuneError, utf8.RuneError + 1}
	var insts []*syntax.Inst
	for i := range prog.Inst {
		in := &prog.Inst[i]
		switch in.Op {
		case syntax.InstRune, syntax.InstRune1:
			insts = append(insts, in)
			if len(in.Rune) == 1 {
				for r := in.Rune[0]; ; {
					cuts = append(cuts, r, r+1)
					if r = unicode.SimpleFold(r); r == in.Rune[0] {
						break
					}
				}
				continue
			}
			for k := 0; k+1 < len(in.Rune); k += 2 {
				cuts = append(cuts, in.Rune[k], in.Rune[k+1]+1)
			}
		}
	}
	slices.Sort(cuts)
	cuts = slices.Compact(cuts)
	if len(cuts)*(len(insts)+1) > maxWork {
		return nil
	}
	a := &automaton{prog: prog}
	known := map[string]uint16{}
	sign := make([]byte, len(insts)+1)
	classes := make([]uint16, len(cuts))
	for i, r := range cuts {
		clear(sign)
		for k, in := range insts {
			if in.MatchRune(r) {
				sign[k] = 1
			}
		}
		switch {
		case r == '\n':
			sign[len(insts)] = 2
		case syntax.IsWordChar(r):
			sign[len(insts)] = 1
		}
		c, ok := known[string(sign)]
		if !ok {
			c = uint16(len(known))
			known[string(sign)] = c
			a.sample = append(a.sample, r)
		}
		classes[i] = c
		if r == '\n' {
			a.nl = c
		}
	}
	k := 0
	for r := range rune(utf8.RuneSelf) {
		for k+1 < len(cuts) && cuts[k+1] <= r {
			k++
		}
		a.ascii[r] = classes[k]
	}
	k, _ = slices.BinarySearch(cuts, rune(utf8.RuneSelf))
	a.from, a.class = cuts[k:], classes[k:]
	return a
}

func (a *automaton) classOf(r rune) uint16 {
	return a.class[sort.Search(len(a.from), func(i int) bool { return a.from[i] > r })-1]
}

// Transitions are the number of the next state times the number of classes;
// these two are none.
const (
	unknown uint32 = 0
	matched uint32 = 1
)

// A dfa is the part of the automaton that one worker has met so far.
type dfa struct {
	*automaton
	stride uint32
	table  []uint32
	states []dstate
	index  map[string]uint32
	start  uint32
	resets int
	stuck  bool // states grow without end: not worth it

	seen  []bool // scratch space
	stack []uint32
	key   []byte
	next  []uint32
}

// A dstate is a set of instructions before what follows is looked at, and what
// came before them.
type dstate struct {
	insts     []uint32
	lineStart bool
	afterWord bool
}

func newDFA(a *automaton) *dfa {
	d := &dfa{automaton: a, stride: uint32(max(len(a.sample), 2)), seen: make([]bool, len(a.prog.Inst))}
	d.reset()
	return d
}

func (d *dfa) reset() {
	d.table, d.states = d.table[:0], d.states[:0]
	d.index = map[string]uint32{}
	// State 0 is never entered, so that its number is free for unknown and matched.
	d.states = append(d.states, dstate{})
	d.table = append(d.table, make([]uint32, d.stride)...)
	d.start = d.state([]uint32{uint32(d.prog.Start)}, true, false)
}

// state returns the number of a state, times the stride.
func (d *dfa) state(insts []uint32, lineStart, afterWord bool) uint32 {
	slices.Sort(insts)
	d.key = d.key[:0]
	var flags byte
	if lineStart {
		flags |= 1
	}
	if afterWord {
		flags |= 2
	}
	d.key = append(d.key, flags)
	for _, in := range insts {
		d.key = binary.LittleEndian.AppendUint16(d.key, uint16(in))
	}
	if s, ok := d.index[string(d.key)]; ok {
		return s
	}
	s := uint32(len(d.states)) * d.stride
	d.states = append(d.states, dstate{slices.Clone(insts), lineStart, afterWord})
	d.table = append(d.table, make([]uint32, d.stride)...)
	d.index[string(d.key)] = s
	return s
}

// step computes the transition of state s on a class, and remembers it.
func (d *dfa) step(s uint32, class uint16) uint32 {
	from := d.states[s/d.stride]
	r := d.sample[class]
	wordNow := syntax.IsWordChar(r)
	var flags syntax.EmptyOp
	if from.lineStart {
		flags |= syntax.EmptyBeginLine | syntax.EmptyBeginText
	}
	if class == d.nl {
		flags |= syntax.EmptyEndLine | syntax.EmptyEndText
	}
	if from.afterWord != wordNow {
		flags |= syntax.EmptyWordBoundary
	} else {
		flags |= syntax.EmptyNoWordBoundary
	}
	clear(d.seen)
	d.stack = append(d.stack[:0], from.insts...)
	next := d.next[:0]
	for len(d.stack) > 0 {
		pc := d.stack[len(d.stack)-1]
		d.stack = d.stack[:len(d.stack)-1]
		if d.seen[pc] {
			continue
		}
		d.seen[pc] = true
		switch in := &d.prog.Inst[pc]; in.Op {
		case syntax.InstMatch:
			d.table[s+uint32(class)] = matched
			return matched
		case syntax.InstAlt, syntax.InstAltMatch:
			d.stack = append(d.stack, in.Out, in.Arg)
		case syntax.InstCapture, syntax.InstNop:
			d.stack = append(d.stack, in.Out)
		case syntax.InstEmptyWidth:
			if syntax.EmptyOp(in.Arg)&^flags == 0 {
				d.stack = append(d.stack, in.Out)
			}
		case syntax.InstRune, syntax.InstRune1:
			if in.MatchRune(r) {
				next = append(next, in.Out)
			}
		case syntax.InstRuneAny:
			next = append(next, in.Out)
		case syntax.InstRuneAnyNotNL:
			if class != d.nl {
				next = append(next, in.Out)
			}
		}
	}
	if class == d.nl {
		d.table[s+uint32(class)] = d.start // a line holds no line's end
		d.next = next
		return d.start
	}
	// A match may begin at the next character too.
	next = append(next, uint32(d.prog.Start))
	slices.Sort(next)
	next = slices.Compact(next)
	d.next = next
	if len(d.states) >= maxStates || len(d.table) >= maxTable {
		d.resets++
		d.stuck = d.resets > 20
		insts := slices.Clone(next)
		d.reset()
		return d.state(insts, false, wordNow)
	}
	t := d.state(next, false, wordNow)
	d.table[s+uint32(class)] = t
	return t
}

// scan looks for a line that matches, from pos on, the beginning of a line. It
// returns a place in the line or at its end, -1 when there is none. A last
// line without its "\n" is one unless it is empty.
func (d *dfa) scan(buf []byte, pos int) int {
	s, table := d.start, d.table
	for i := pos; i < len(buf); {
		at := i
		var class uint16
		if c := buf[i]; c < utf8.RuneSelf {
			class = d.ascii[c]
			i++
		} else {
			r, n := utf8.DecodeRune(buf[i:])
			class = d.classOf(r)
			i += n
		}
		t := table[s+uint32(class)]
		if t <= matched {
			if t == unknown {
				t = d.step(s, class)
				table = d.table
			}
			if t == matched {
				return at
			}
		}
		s = t
	}
	if pos < len(buf) && buf[len(buf)-1] != '\n' && d.end(s) {
		return len(buf)
	}
	return -1
}

// end reports whether a line that ends in state s matches.
func (d *dfa) end(s uint32) bool {
	t := d.table[s+uint32(d.nl)]
	if t == unknown {
		t = d.step(s, d.nl)
	}
	return t == matched
}

// match reports whether a line, without its end, matches.
func (d *dfa) match(line []byte) bool {
	if len(line) == 0 {
		return d.end(d.start)
	}
	return d.scan(line, 0) >= 0
}
