package seccomp

import "golang.org/x/sys/unix"

// WithMark returns prog behind a preamble that lets one caller set the mark of
// a process, RLIMIT_RTTIME, which prog refuses to everybody: prlimit64 on the
// calling process whose fifth and sixth argument registers, which the call
// itself ignores, hold secret. The registers are lost at exec, and a process
// can't read the filter that it runs under (PTRACE_SECCOMP_GET_FILTER needs
// CAP_SYS_ADMIN), so only dshx's own child between clone and exec knows them.
func WithMark(prog []Insn, secret [2]uint64) []Insn {
	const length = 17 // of the preamble; every mismatch leads to prog
	pre := make([]Insn, 0, length+len(prog))
	want := func(off, k uint32) {
		pre = append(pre, Insn{opLoad, 0, 0, off})
		pre = append(pre, Insn{opEq, 0, uint8(length - len(pre) - 1), k})
	}
	arg := func(i uint32) uint32 { return offArgs + 8*i }
	want(offArch, native.audit)
	want(offNr, unix.SYS_PRLIMIT64)
	want(arg(0), 0)
	want(arg(1), unix.RLIMIT_RTTIME)
	for i, s := range secret {
		want(arg(4+uint32(i)), uint32(s))
		want(arg(4+uint32(i))+4, uint32(s>>32))
	}
	pre = append(pre, Insn{opRet, 0, 0, unix.SECCOMP_RET_ALLOW})
	return append(pre, prog...)
}
