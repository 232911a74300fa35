package seccomp

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// telling are values at which some rule of the table changes its mind, or its
// neighbours.
var telling = func() (v []uint64) {
	for i := range table {
		if table[i].args == nil {
			continue
		}
		for j := range optionSets {
			n := table[i].args(optionsAt(j))
			n.visit(func(k uint32) { v = append(v, uint64(k), uint64(k)-1, uint64(k)+1) })
		}
	}
	v = append(v, 0, 1, 1<<32, ^uint64(0), 1<<31, 0xffffffff)
	slices.Sort(v)
	return slices.Compact(v)
}()

func (n *node) visit(f func(k uint32)) {
	for _, c := range n.cases {
		f(c.k)
		c.to.visit(f)
	}
	if n.def != nil {
		n.def.visit(f)
	}
}

func dataGen(a *arch) *rapid.Generator[Data] {
	arg := rapid.OneOf(
		rapid.SampledFrom(telling), rapid.Uint64(),
		rapid.Custom(func(t *rapid.T) uint64 { // an int with junk above
			return rapid.SampledFrom(telling).Draw(t, "low")&0xffffffff | uint64(rapid.Uint32().Draw(t, "high"))<<32
		}))
	return rapid.Custom(func(t *rapid.T) Data {
		d := Data{
			Nr:   rapid.OneOf(rapid.Int32Range(0, 500), rapid.Int32Range(0x40000000, 0x40000000+600), rapid.Int32()).Draw(t, "nr"),
			Arch: rapid.OneOf(rapid.Just(a.audit), rapid.Just(a.audit), rapid.Just(a.audit), rapid.Uint32()).Draw(t, "arch"),
			IP:   rapid.Uint64().Draw(t, "ip"),
		}
		for i := range d.Args {
			d.Args[i] = arg.Draw(t, "arg")
		}
		return d
	})
}

// What the table says of d, read straight from it: no spans, no search, no
// program.
func (a *arch) direct(o Options, d *Data) uint32 {
	if d.Arch == a.audit {
		for i := range table {
			for _, c := range table[i].calls {
				if n := a.nr(c); n != none && int32(n) == d.Nr {
					return table[i].decide(o).eval(d)
				}
			}
		}
	}
	return unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
}

func TestCompile_ProgramsMeanWhatTheTableSays(t *testing.T) {
	for _, a := range []*arch{amd64, arm64} {
		progs := make([][]Insn, optionSets)
		for i := range progs {
			var err error
			if progs[i], err = a.compile(optionsAt(i)); err != nil {
				t.Fatal(err)
			}
		}
		data := dataGen(a)
		rapid.Check(t, func(t *rapid.T) {
			i, d := rapid.IntRange(0, optionSets-1).Draw(t, "options"), data.Draw(t, "data")
			got, err := Run(progs[i], d)
			if err != nil {
				t.Fatal(err)
			}
			if want := a.direct(optionsAt(i), &d); got != want {
				t.Fatalf("%+v: program %s, table %s", optionsAt(i), spell(got), spell(want))
			}
		})
	}
}

// randomTree makes a decision of any shape, big ones too, whose jumps are
// longer than a conditional one reaches.
func randomTree(r *rand.Rand, depth int, pool *[]*node) *node {
	if depth == 0 || r.IntN(8) == 0 {
		return ret(r.Uint32N(300))
	}
	if len(*pool) > 0 && r.IntN(6) == 0 {
		return (*pool)[r.IntN(len(*pool))]
	}
	n := &node{off: 4 * r.Uint32N(sizeOf/4)}
	if r.IntN(3) == 0 {
		n.mask = r.Uint32N(16)
	}
	for range 1 + r.IntN(6) {
		op := []uint16{opEq, opGe, opGt, opSet}[r.IntN(4)]
		n.cases = append(n.cases, when{op, r.Uint32N(12), randomTree(r, depth-1, pool)})
	}
	n.def = randomTree(r, depth-1, pool)
	*pool = append(*pool, n)
	return n
}

func checkTree(seed uint64, depth int, d Data) (insns int, err error) {
	r := rand.New(rand.NewPCG(seed, 1))
	var pool []*node
	tree := randomTree(r, depth, &pool)
	prog, err := assemble(tree)
	if errors.Is(err, errTooLong) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	for range 50 {
		got, err := Run(prog, d)
		if err != nil {
			return 0, err
		}
		if want := tree.eval(&d); got != want {
			return 0, fmt.Errorf("seed %d, %d instructions, %+v: program %d, decision %d", seed, len(prog), d, got, want)
		}
		for i := range d.Args {
			d.Args[i] = uint64(r.Uint32N(14)) | uint64(r.Uint32N(14))<<32
		}
		d.Nr, d.Arch, d.IP = r.Int32N(14), r.Uint32N(14), uint64(r.Uint32N(14))
	}
	return len(prog), nil
}

func TestAssemble_LongJumps(t *testing.T) {
	long := 0
	for seed := range uint64(1500) {
		n, err := checkTree(seed, 1+int(seed%6), Data{})
		if err != nil {
			t.Fatal(err)
		}
		if n > 600 {
			long++
		}
	}
	if long < 100 {
		t.Errorf("only %d programs were long enough to need long jumps", long)
	}
}

func TestAssemble_RefusesProgramsThatAreTooLong(t *testing.T) {
	n := ret(0)
	for i := range maxInsns {
		n = choose(low(0), 0, n, when{opEq, uint32(i), ret(uint32(i))})
	}
	if _, err := assemble(n); !errors.Is(err, errTooLong) {
		t.Errorf("error %v", err)
	}
}

func FuzzCompile(f *testing.F) {
	f.Add(uint8(1), int32(16), uint32(unix.AUDIT_ARCH_X86_64), uint64(0), uint64(unix.TIOCSTI), uint64(0), uint64(0), uint64(0), uint64(7), uint8(3))
	f.Add(uint8(9), int32(41), uint32(unix.AUDIT_ARCH_X86_64), uint64(2), uint64(1), uint64(262), uint64(0), uint64(0), uint64(1), uint8(5))
	f.Add(uint8(17), int32(198), uint32(unix.AUDIT_ARCH_AARCH64), uint64(2), uint64(1), uint64(262), uint64(0), uint64(0), uint64(2), uint8(4))
	f.Fuzz(func(t *testing.T, opt uint8, nr int32, auditArch uint32, a0, a1, a2, a3, a4, seed uint64, depth uint8) {
		i := int(opt) % optionSets
		d := Data{Nr: nr, Arch: auditArch, IP: seed, Args: args{a0, a1, a2, a3, a4, seed}}
		for a, progs := range committed() {
			got, err := Run(progs[i], d)
			if err != nil {
				t.Fatal(err)
			}
			if want := a.direct(optionsAt(i), &d); got != want {
				t.Fatalf("%s %+v %+v: program %s, table %s", a.name, optionsAt(i), d, spell(got), spell(want))
			}
		}
		if _, err := checkTree(seed, int(depth%6), d); err != nil {
			t.Fatal(err)
		}
	})
}

var compiled map[*arch][][]Insn

// committed is every program, compiled once.
func committed() map[*arch][][]Insn {
	if compiled == nil {
		compiled = map[*arch][][]Insn{}
		for _, a := range []*arch{amd64, arm64} {
			for i := range optionSets {
				prog, err := a.compile(optionsAt(i))
				if err != nil {
					panic(err)
				}
				compiled[a] = append(compiled[a], prog)
			}
		}
	}
	return compiled
}

// Run takes any program, returns, and never panics; what it accepts ends in a
// return of the program.
func FuzzRun(f *testing.F) {
	f.Add([]byte{0x20, 0, 0, 0, 4, 0, 0, 0, 0x06, 0, 0, 0, 0, 0, 0, 0}, int32(1), uint64(2))
	f.Add([]byte{0x05, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x06, 0, 0, 0, 0, 0, 0, 0}, int32(1), uint64(2))
	f.Fuzz(func(t *testing.T, raw []byte, nr int32, arg uint64) {
		var prog []Insn
		for ; len(raw) >= 8; raw = raw[8:] {
			prog = append(prog, Insn{
				uint16(raw[0]) | uint16(raw[1])<<8, raw[2], raw[3],
				uint32(raw[4]) | uint32(raw[5])<<8 | uint32(raw[6])<<16 | uint32(raw[7])<<24,
			})
		}
		v, err := Run(prog, Data{Nr: nr, Args: args{arg}})
		if err != nil {
			return
		}
		for _, in := range prog {
			if in.Code == opRet && in.K == v {
				return
			}
		}
		t.Fatalf("%#x is no return of the program", v)
	})
}

func TestRun_RefusesWhatTheKernelWouldNotLoad(t *testing.T) {
	for name, prog := range map[string][]Insn{
		"empty":               nil,
		"no return":           {{opLoad, 0, 0, 0}},
		"load past the end":   {{opLoad, 0, 0, 64}, {opRet, 0, 0, 0}},
		"unaligned load":      {{opLoad, 0, 0, 2}, {opRet, 0, 0, 0}},
		"unknown operation":   {{0x87, 0, 0, 0}, {opRet, 0, 0, 0}},
		"jump past the end":   {{opJump, 0, 0, 0xffffffff}, {opRet, 0, 0, 0}},
		"branch past the end": {{opEq, 9, 9, 0}, {opRet, 0, 0, 0}},
		"too long":            make([]Insn, maxInsns+1),
	} {
		if _, err := Run(prog, Data{}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if v, err := Run([]Insn{{opRet, 0, 0, 7}}, Data{}); v != 7 || err != nil {
		t.Errorf("a lone return: %d, %v", v, err)
	}
}
