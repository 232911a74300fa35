package seccomp

import (
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Insn is one classic BPF instruction, laid out as struct sock_filter
// (linux/filter.h): the kernel reads a []Insn as it stands.
type Insn struct {
	Code   uint16
	Jt, Jf uint8
	K      uint32
}

// Data is struct seccomp_data (seccomp(2)): what the kernel shows a filter of
// one system call. Nr is the number, Arch an AUDIT_ARCH_ value, IP the
// instruction pointer, Args the six argument registers in full, whatever the
// width of the parameters they are for.
type Data struct {
	Nr   int32
	Arch uint32
	IP   uint64
	Args [6]uint64
}

// Offsets into struct seccomp_data. The low word of an argument comes first:
// both supported architectures are little-endian.
const (
	offNr   = 0
	offArch = 4
	offArgs = 16
	sizeOf  = 64
)

func low(arg uint32) uint32  { return offArgs + 8*arg }
func high(arg uint32) uint32 { return offArgs + 8*arg + 4 }

// The operations a program of this package consists of. The kernel accepts
// more (BPF_MISC, scratch memory); a smaller set keeps the simulator small and
// lets the kernel prove "always allowed" for a number without running the
// program: its per-number bitmap, Linux 5.11, understands loads of nr and arch,
// these jumps, AND and RET, and nothing else.
const (
	opLoad = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
	opAnd  = unix.BPF_ALU | unix.BPF_AND | unix.BPF_K
	opJump = unix.BPF_JMP | unix.BPF_JA
	opEq   = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
	opGe   = unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K
	opGt   = unix.BPF_JMP | unix.BPF_JGT | unix.BPF_K
	opSet  = unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K
	opRet  = unix.BPF_RET | unix.BPF_K
)

// maxInsns is BPF_MAXINSNS, the longest program that the kernel takes.
const maxInsns = 4096

var errNoReturn = errors.New("program ends without a return")

// Run executes prog on d as the kernel would and returns the SECCOMP_RET_
// value. It never loops: classic BPF only jumps forward.
//
// Errors: a program that the kernel would not load (unknown operation, load
// outside struct seccomp_data or unaligned, jump past the end, no return, more
// than 4096 instructions).
func Run(prog []Insn, d Data) (uint32, error) {
	if len(prog) > maxInsns {
		return 0, fmt.Errorf("program of %d instructions: more than %d", len(prog), maxInsns)
	}
	var mem [sizeOf]byte
	binary.LittleEndian.PutUint32(mem[offNr:], uint32(d.Nr))
	binary.LittleEndian.PutUint32(mem[offArch:], d.Arch)
	binary.LittleEndian.PutUint64(mem[8:], d.IP)
	for i, a := range d.Args {
		binary.LittleEndian.PutUint64(mem[offArgs+8*i:], a)
	}
	var a uint32
	for pc := uint64(0); pc < uint64(len(prog)); pc++ {
		in := prog[pc]
		var taken bool
		switch in.Code {
		case opLoad:
			if in.K%4 != 0 || in.K >= sizeOf {
				return 0, fmt.Errorf("instruction %d: load at offset %d", pc, in.K)
			}
			a = binary.LittleEndian.Uint32(mem[in.K:])
			continue
		case opAnd:
			a &= in.K
			continue
		case opRet:
			return in.K, nil
		case opJump:
			pc += uint64(in.K)
			continue
		case opEq:
			taken = a == in.K
		case opGe:
			taken = a >= in.K
		case opGt:
			taken = a > in.K
		case opSet:
			taken = a&in.K != 0
		default:
			return 0, fmt.Errorf("instruction %d: operation %#04x", pc, in.Code)
		}
		if taken {
			pc += uint64(in.Jt)
		} else {
			pc += uint64(in.Jf)
		}
	}
	return 0, errNoReturn
}
