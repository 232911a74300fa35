package seccomp

import (
	"slices"

	"golang.org/x/sys/unix"
)

// WithMark returns prog behind a preamble that lets one caller through, where
// prog refuses everybody: prlimit64 that sets the mark of the calling process,
// RLIMIT_RTTIME, and clone3, when the fifth and sixth argument registers, which
// both calls ignore, hold secret. The registers are lost at exec, and a process
// can't read the filter that it runs under (PTRACE_SECCOMP_GET_FILTER needs
// CAP_SYS_ADMIN), so only the thread that starts commands, and its child
// between clone and exec, know them.
func WithMark(prog []Insn, secret [2]uint64) []Insn {
	// Backwards: each step knows how many instructions are behind it, and
	// every mismatch leads to prog.
	rev := []Insn{{opRet, 0, 0, unix.SECCOMP_RET_ALLOW}}
	want := func(off, k uint32) {
		rev = append(rev, Insn{opEq, 0, uint8(len(rev)), k}, Insn{opLoad, 0, 0, off})
	}
	for i, s := range secret {
		want(low(4+uint32(i)), uint32(s))
		want(high(4+uint32(i)), uint32(s>>32))
	}
	check := len(rev)
	want(low(1), unix.RLIMIT_RTTIME)
	want(low(0), 0)
	// prlimit64 goes on with these two, clone3 skips them.
	rev = append(rev,
		Insn{opEq, uint8(len(rev) - check), uint8(len(rev)), unix.SYS_CLONE3},
		Insn{opEq, 1, 0, unix.SYS_PRLIMIT64},
		Insn{opLoad, 0, 0, offNr})
	want(offArch, native.audit)
	slices.Reverse(rev)
	return append(rev, prog...)
}
