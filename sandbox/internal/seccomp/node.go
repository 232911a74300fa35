package seccomp

import "golang.org/x/sys/unix"

// node is one decision: either a return value (cases nil) or a switch on one
// 32-bit word of struct seccomp_data. Cases are tried in order, the first that
// holds wins, else def.
type node struct {
	ret uint32
	off uint32 // of the word, when cases is set
	// loaded says that whoever leads here has that word in the accumulator.
	loaded bool
	mask   uint32 // ANDed to the word first; 0 for none
	cases  []when
	def    *node
}

type when struct {
	op uint16 // opEq, opGe, opGt, opSet
	k  uint32
	to *node
}

func ret(v uint32) *node { return &node{ret: v} }

// errno returns the node that makes the call fail with e, without running it.
func errno(e unix.Errno) *node { return ret(unix.SECCOMP_RET_ERRNO | uint32(e)) }

// choose switches on the word at off, of which only the bits of mask count
// (0: all).
func choose(off, mask uint32, def *node, cases ...when) *node {
	return &node{off: off, mask: mask, def: def, cases: cases}
}

// is makes the cases "equals one of ks".
func is(to *node, ks ...uint32) []when {
	w := make([]when, len(ks))
	for i, k := range ks {
		w[i] = when{opEq, k, to}
	}
	return w
}

// hasAny is the case "has one of these bits".
func hasAny(to *node, bits uint32) when { return when{opSet, bits, to} }

// isNull switches on a pointer or another 64-bit argument: both halves must be
// zero for the first.
func isNull(arg uint32, null, set *node) *node {
	return choose(low(arg), 0, set,
		when{opEq, 0, choose(high(arg), 0, set, when{opEq, 0, null})})
}

// eval decides d by walking the nodes: the meaning that the compiled program
// must have.
func (n *node) eval(d *Data) uint32 {
	for n.cases != nil {
		w := d.word(n.off)
		if n.mask != 0 {
			w &= n.mask
		}
		next := n.def
		for _, c := range n.cases {
			if c.holds(w) {
				next = c.to
				break
			}
		}
		n = next
	}
	return n.ret
}

func (c when) holds(w uint32) bool {
	switch c.op {
	case opEq:
		return w == c.k
	case opGe:
		return w >= c.k
	case opGt:
		return w > c.k
	default:
		return w&c.k != 0
	}
}

// word returns the 32 bits at a word-aligned offset of struct seccomp_data.
func (d *Data) word(off uint32) uint32 {
	switch {
	case off == offNr:
		return uint32(d.Nr)
	case off == offArch:
		return d.Arch
	case off < offArgs:
		return uint32(d.IP >> (8 * (off - 8)))
	default:
		return uint32(d.Args[(off-offArgs)/8] >> (8 * (off % 8)))
	}
}
