package seccomp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"
)

// arch is one architecture that a program can be made for.
type arch struct {
	name  string
	audit uint32
	nr    func(call) int16
}

var (
	amd64 = &arch{"amd64", unix.AUDIT_ARCH_X86_64, func(c call) int16 { return c.amd64 }}
	arm64 = &arch{"arm64", unix.AUDIT_ARCH_AARCH64, func(c call) int16 { return c.arm64 }}
)

// span is a run of system call numbers, from lo to the next span's lo - 1, that
// share one decision.
type span struct {
	lo uint32
	do *node
}

// spans maps the whole range of 32-bit numbers for options o. The first span
// begins at 0 and the last reaches 1<<32 - 1, so every number has a decision;
// what the table does not name, x32 entries (number | 0x40000000) among it,
// falls to ENOSYS.
func (a *arch) spans(o Options) ([]span, error) {
	type entry struct {
		nr int16
		do *node
	}
	p := interner{}
	var known []entry
	for i := range table {
		do := p.intern(table[i].decide(o))
		for _, c := range table[i].calls {
			if nr := a.nr(c); nr != none {
				known = append(known, entry{nr, do})
			}
		}
	}
	slices.SortFunc(known, func(x, y entry) int { return int(x.nr) - int(y.nr) })
	unknown := p.intern(errno(unix.ENOSYS))
	out := []span{{0, unknown}}
	put := func(lo uint32, do *node) {
		last := &out[len(out)-1]
		switch {
		case last.lo == lo:
			last.do = do
			if len(out) > 1 && out[len(out)-2].do == do {
				out = out[:len(out)-1]
			}
		case last.do != do:
			out = append(out, span{lo, do})
		}
	}
	for i, e := range known {
		if i > 0 && known[i-1].nr == e.nr {
			return nil, fmt.Errorf("%s: system call %d is in the table twice", a.name, e.nr)
		}
		put(uint32(e.nr), e.do)
		put(uint32(e.nr)+1, unknown)
	}
	return out, nil
}

// root is the whole decision for a: the architecture first, since numbers mean
// nothing without it, then a binary search over the spans, whose leaves are the
// decisions.
func (a *arch) root(o Options) (*node, error) {
	spans, err := a.spans(o)
	if err != nil {
		return nil, err
	}
	numbers := *search(spans)
	numbers.loaded = false
	// Another entry (int 0x80 on amd64) has other numbers: none of its calls
	// exists here.
	return choose(offArch, 0, errno(unix.ENOSYS), when{opEq, a.audit, &numbers}), nil
}

// search makes the binary search over spans, at least one. Its nodes rely on
// the number being loaded already.
func search(spans []span) *node {
	if len(spans) == 1 {
		return spans[0].do
	}
	mid := len(spans) / 2
	return &node{off: offNr, loaded: true, def: search(spans[:mid]),
		cases: []when{{opGe, spans[mid].lo, search(spans[mid:])}}}
}

// compile makes the program for a. The same options always give the same
// program.
func (a *arch) compile(o Options) ([]Insn, error) {
	root, err := a.root(o)
	if err != nil {
		return nil, err
	}
	return assemble(root)
}

// assembler lays a decision out backwards, last instruction first: then every
// target is placed before the jumps to it (classic BPF only jumps forward) and
// each offset is known when it is written.
type assembler struct {
	rev []Insn        // the program, reversed
	at  map[*node]int // where in rev the nearest way into a node begins
}

var errTooLong = errors.New("more instructions than the kernel takes")

func assemble(root *node) ([]Insn, error) {
	s := &assembler{at: map[*node]int{}}
	if err := s.place(root); err != nil {
		return nil, err
	}
	slices.Reverse(s.rev)
	if len(s.rev) > maxInsns {
		return nil, fmt.Errorf("filter of %d instructions: %w (%d)", len(s.rev), errTooLong, maxInsns)
	}
	return s.rev, nil
}

func (s *assembler) emit(code uint16, jt, jf uint8, k uint32) {
	s.rev = append(s.rev, Insn{code, jt, jf, k})
}

// place writes n, unless it is there already, with all that it leads to behind
// it.
func (s *assembler) place(n *node) error {
	if _, ok := s.at[n]; ok {
		return nil
	}
	if n.cases == nil {
		s.emit(opRet, 0, 0, n.ret)
		s.at[n] = len(s.rev) - 1
		return nil
	}
	targets := make([]*node, 0, len(n.cases)+1)
	for _, c := range slices.Backward(n.cases) {
		targets = append(targets, c.to)
	}
	targets = append(targets, n.def)
	for _, t := range targets {
		if t.cases != nil {
			if err := s.place(t); err != nil {
				return err
			}
		}
	}
	// A conditional jump reaches 255 instructions. What is (or might get) out of
	// the reach of this block's first one gets a way in close by: a return is
	// simply repeated, anything else gets an unconditional jump, which has 32
	// bits. Nothing runs into these, since every block ends in a jump or a
	// return.
	reach := 255 - (2 + len(n.cases)) - len(targets)
	for _, t := range targets {
		at, ok := s.at[t]
		switch {
		case ok && len(s.rev)-at <= reach:
			continue
		case t.cases == nil:
			s.emit(opRet, 0, 0, t.ret)
		default:
			s.emit(opJump, 0, 0, uint32(len(s.rev)-at-1))
		}
		s.at[t] = len(s.rev) - 1
	}
	for i, c := range slices.Backward(n.cases) {
		jf := 0
		if i == len(n.cases)-1 {
			jf = len(s.rev) - s.at[n.def] - 1
		}
		jt := len(s.rev) - s.at[c.to] - 1
		if jt > 255 || jf > 255 {
			return fmt.Errorf("switch of %d cases: a jump longer than 255", len(n.cases))
		}
		s.emit(c.op, uint8(jt), uint8(jf), c.k)
	}
	if n.mask != 0 {
		s.emit(opAnd, 0, 0, n.mask)
	}
	if !n.loaded {
		s.emit(opLoad, 0, 0, n.off)
	}
	s.at[n] = len(s.rev) - 1
	return nil
}

// interner makes equal decisions one node, so that they are laid out once and
// neighbouring numbers merge into one span.
type interner map[string]*node

func (p interner) intern(n *node) *node {
	var key []byte
	if n.cases == nil {
		key = binary.LittleEndian.AppendUint32(nil, n.ret)
	} else {
		same := node{off: n.off, mask: n.mask, def: p.intern(n.def)}
		key = fmt.Appendf(nil, "%d %d %p", n.off, n.mask, same.def)
		for _, c := range n.cases {
			c.to = p.intern(c.to)
			same.cases = append(same.cases, c)
			key = fmt.Appendf(key, " %d %d %p", c.op, c.k, c.to)
		}
		n = &same
	}
	if old, ok := p[string(key)]; ok {
		return old
	}
	p[string(key)] = n
	return n
}
