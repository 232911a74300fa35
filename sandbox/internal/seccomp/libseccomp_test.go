//go:build libseccomp

package seccomp

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"testing"

	lib "github.com/seccomp/libseccomp-golang"
	"golang.org/x/sys/unix"
)

// libseccomp as an oracle: the same policy, put again in its terms, must give
// the same verdicts. It needs cgo and libseccomp's headers, and the shipped
// binary has neither: run it with -tags libseccomp.

// cond is one comparison of a libseccomp rule, and and a conjunction of them.
type cond = lib.ScmpCondition
type and = []cond

// libRule gives an action where all conditions hold.
type libRule struct {
	do lib.ScmpAction
	on and
}

// libCall is a Conditional call: libseccomp can only say "equal" of a masked
// value, so each is a filter of its own whose default is what holds otherwise.
type libCall struct {
	otherwise lib.ScmpAction
	rules     []libRule
	// also is a second filter above the first: the kernel takes the stricter
	// verdict of the two. libseccomp's rules with different actions about
	// overlapping cases don't have a dependable order.
	also *libCall
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// isInt says that an int argument is v.
func isInt(arg uint, v uint64) cond {
	return must(lib.MakeCondition(arg, lib.CompareMaskedEqual, 0xffffffff, v&0xffffffff))
}

func masked(arg uint, mask, v uint64) cond {
	return must(lib.MakeCondition(arg, lib.CompareMaskedEqual, mask, v))
}

func whole(arg uint, op lib.ScmpCompareOp, v uint64) cond {
	return must(lib.MakeCondition(arg, op, v))
}

// anyBit says that one of bits is set in the argument: a rule for each.
func anyBit(do lib.ScmpAction, arg uint, bits uint64) (rules []libRule) {
	for i := range 64 {
		if b := uint64(1) << i; bits&b != 0 {
			rules = append(rules, libRule{do, and{masked(arg, b, b)}})
		}
	}
	return rules
}

// notInt says that an int argument differs from v: it does in some bit.
func notInt(do lib.ScmpAction, arg uint, v uint64, rest ...cond) (rules []libRule) {
	for i := range 32 {
		b := uint64(1) << i
		rules = append(rules, libRule{do, append(and{masked(arg, b, ^v&b)}, rest...)})
	}
	return rules
}

func libErrno(e unix.Errno) lib.ScmpAction { return lib.ActErrno.SetReturnCode(int16(e)) }

// oracle is the Conditional calls in libseccomp's terms.
func oracle(o Options) map[string]libCall {
	allow, super := lib.ActAllow, lib.ActAllow
	refuse := func(e unix.Errno) lib.ScmpAction { return libErrno(e) }
	if o.Listener {
		super = lib.ActNotify
		refuse = func(unix.Errno) lib.ScmpAction { return lib.ActNotify }
	}
	eperm := libErrno(unix.EPERM)
	plain := func(do lib.ScmpAction) libCall { return libCall{otherwise: do} }
	when := func(b bool, do lib.ScmpAction) lib.ScmpAction {
		if b {
			return do
		}
		return allow
	}
	ints := func(do lib.ScmpAction, arg uint, vs ...uint64) (rules []libRule) {
		for _, v := range vs {
			rules = append(rules, libRule{do, and{isInt(arg, v)}})
		}
		return rules
	}

	sockets := []libRule{
		{allow, and{isInt(0, unix.AF_UNIX)}},
		{allow, and{isInt(0, unix.AF_NETLINK), isInt(2, unix.NETLINK_ROUTE)}},
	}
	inet := func(do lib.ScmpAction, family, kind, proto uint64) {
		sockets = append(sockets, libRule{do, and{isInt(0, family), masked(1, 0xf, kind), isInt(2, proto)}})
	}
	if o.Network != NetNone {
		for _, family := range []uint64{unix.AF_INET, unix.AF_INET6} {
			inet(allow, family, unix.SOCK_STREAM, 0)
			inet(allow, family, unix.SOCK_STREAM, unix.IPPROTO_TCP)
			inet(allow, family, unix.SOCK_DGRAM, 0)
			inet(allow, family, unix.SOCK_DGRAM, unix.IPPROTO_UDP)
			if o.Network == NetFull {
				inet(allow, family, unix.SOCK_STREAM, unix.IPPROTO_MPTCP)
			} else {
				inet(libErrno(unix.EPROTONOSUPPORT), family, unix.SOCK_STREAM, unix.IPPROTO_MPTCP)
			}
		}
		if o.Network == NetFull {
			inet(allow, unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_ICMP)
			inet(allow, unix.AF_INET6, unix.SOCK_DGRAM, unix.IPPROTO_ICMPV6)
		}
	}

	ioctls := ints(eperm, 1, 0x5412, 0x541c, 0x541d, 0x5423,
		0x50009401, 0x50009417, 0x5000940e, 0x50009418, 0x5000940f, 0x5000943f, 0x4008941a, 0xc0c89425, 0xc0c09425,
		0x40186f04, 0x50009402, 0x40309410, 0x6609, 0x4004f50d, 0x40289702, 0x40289705, 0x8008bc40,
		0xc0506617, 0xc0406618, 0xc0406619)
	if super != allow {
		ioctls = append(ioctls, ints(super, 1, 0x40086602, 0x40046602, 0x401c5820, 0x40087602, 0x40047602,
			0x40086604, 0x40046604, 0x800c6613, 0x40806685, 0x40047211, 0x5410)...)
	}
	fcntl := libCall{otherwise: allow, rules: ints(eperm, 1, 1024)}
	if o.Signals {
		ioctls = append(ioctls, ints(eperm, 1, 0x8901, 0x8902, 0x5452)...)
		fcntl.rules = append(ints(eperm, 1, 1024, 8, 15, 10), libRule{eperm, and{isInt(1, 4), masked(2, 0x2000, 0x2000)}})
	}

	// 0x870ff700 and the rest: all but THREAD, FS, SIGHAND, VM, FILES, SYSVSEM.
	const harmless = 0x00010000 | 0x200 | 0x800 | 0x100 | 0x400 | 0x00040000
	unshare := libCall{otherwise: allow, rules: anyBit(refuse(unix.EPERM), 0, ^uint64(harmless))}

	pid := func(arg uint) libCall { return libCall{otherwise: super, rules: ints(allow, arg, 0)} }
	prio := func(process uint64) libCall {
		c := libCall{otherwise: eperm, rules: []libRule{{allow, and{isInt(0, process), isInt(1, 0)}}}}
		c.rules = append(c.rules, notInt(super, 1, 0, isInt(0, process))...)
		return c
	}
	set := whole(2, lib.CompareNotEqual, 0)
	prlimit := libCall{otherwise: allow, rules: []libRule{{eperm, and{set, isInt(1, 15)}}}}
	if super != allow {
		prlimit.also = &libCall{otherwise: super, rules: []libRule{
			{allow, and{whole(2, lib.CompareEqual, 0)}},
			{allow, and{isInt(0, 0)}},
		}}
	}
	tgkill := plain(allow)
	if o.Signals {
		tgkill = libCall{otherwise: super, rules: ints(allow, 2, 23)}
	}

	setsockopt := plain(allow)
	if o.Network == NetLoopback {
		setsockopt = libCall{otherwise: eperm, rules: append(ints(allow, 1, 270), notInt(allow, 2, 31, isInt(1, 6))...)}
		for level, options := range map[uint64][]uint64{
			1: {1, 2, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 18, 19, 20, 21, 26, 27, 29, 32, 33, 34, 35, 37, 40, 42, 44, 45,
				46, 47, 49, 51, 53, 60, 61, 63, 64, 65, 66, 67, 68, 69, 70, 72, 73, 74, 76, 82, 83},
			17: {1, 101, 102, 103, 104},
			0:  {1, 2, 6, 7, 8, 10, 11, 12, 13, 18, 20, 21, 23, 24, 25, 26, 33, 34, 49, 51},
			41: {2, 8, 16, 18, 19, 23, 24, 25, 26, 29, 31, 49, 51, 53, 56, 58, 60, 62, 66, 67, 70, 73, 74, 77},
		} {
			for _, option := range options {
				setsockopt.rules = append(setsockopt.rules, libRule{allow, and{isInt(1, level), isInt(2, option)}})
			}
		}
	}

	prctl := plain(allow)
	if o.Listener {
		prctl.rules = []libRule{{libErrno(0), and{isInt(0, 4), isInt(1, 0)}}}
	}

	named := plain(when(o.Names, super))
	opens := func(arg uint) libCall {
		if !o.Names || super == allow {
			return plain(allow)
		}
		return libCall{otherwise: allow, rules: anyBit(super, arg, 0x43)}
	}

	return map[string]libCall{
		"open":               opens(1),
		"openat":             opens(2),
		"creat":              named,
		"mkdir":              named,
		"mkdirat":            named,
		"rmdir":              named,
		"unlink":             named,
		"unlinkat":           named,
		"rename":             named,
		"renameat":           named,
		"renameat2":          named,
		"truncate":           plain(when(o.Truncate, super)),
		"ioctl":              {otherwise: allow, rules: ioctls},
		"fcntl":              fcntl,
		"socket":             {otherwise: refuse(unix.EACCES), rules: sockets},
		"socketpair":         {otherwise: refuse(unix.EACCES), rules: ints(allow, 0, unix.AF_UNIX)},
		"sendto":             {otherwise: super, rules: []libRule{{allow, and{whole(4, lib.CompareEqual, 0)}}}},
		"prctl":              prctl,
		"setsockopt":         setsockopt,
		"listen":             plain(when(o.Network == NetLoopback, super)),
		"clone":              {otherwise: allow, rules: anyBit(refuse(unix.EPERM), 0, 0x7e020000)},
		"unshare":            unshare,
		"setpgid":            pid(1),
		"setpriority":        prio(0),
		"ioprio_set":         prio(1),
		"sched_setaffinity":  pid(0),
		"sched_setattr":      pid(0),
		"sched_setparam":     pid(0),
		"sched_setscheduler": pid(0),
		"prlimit64":          prlimit,
		"setrlimit":          {otherwise: allow, rules: ints(eperm, 0, 15)},
		"kill":               plain(when(o.Signals, super)),
		"tkill":              plain(when(o.Signals, super)),
		"rt_sigqueueinfo":    plain(when(o.Signals, super)),
		"rt_tgsigqueueinfo":  plain(when(o.Signals, super)),
		"pidfd_send_signal":  plain(when(o.Signals, super)),
		"tgkill":             tgkill,
	}
}

// export makes libseccomp compile a filter for this architecture.
func export(t *testing.T, otherwise lib.ScmpAction, fill func(*lib.ScmpFilter)) []Insn {
	t.Helper()
	f := must(lib.NewFilter(otherwise))
	defer f.Release()
	if err := f.SetBadArchAction(libErrno(unix.ENOSYS)); err != nil {
		t.Fatal(err)
	}
	fill(f)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	// A big filter is more than a pipe holds.
	failed := make(chan error, 1)
	go func() { failed <- f.ExportBPF(w); w.Close() }()
	raw, err := io.ReadAll(r)
	if err == nil {
		err = <-failed
	}
	if err != nil {
		t.Fatal(err)
	}
	var prog []Insn
	for ; len(raw) >= 8; raw = raw[8:] {
		prog = append(prog, Insn{binary.LittleEndian.Uint16(raw), raw[2], raw[3], binary.LittleEndian.Uint32(raw[4:])})
	}
	return prog
}

func TestLibseccomp_KnowsTheSameNumbers(t *testing.T) {
	for a, la := range map[*arch]lib.ScmpArch{amd64: lib.ArchAMD64, arm64: lib.ArchARM64} {
		same, newer := 0, 0
		for i := range table {
			for _, c := range table[i].calls {
				nr, err := lib.GetSyscallFromNameByArch(c.name, la)
				switch want := a.nr(c); {
				case err != nil || nr < 0 && want > 300:
					newer++ // than this libseccomp
				case nr < 0 && want == none:
				case int(nr) != int(want):
					t.Errorf("%s %s: %d in the table, %d in libseccomp", a.name, c.name, want, nr)
				default:
					same++
				}
			}
		}
		t.Logf("%s: %d equal, %d unknown to libseccomp", a.name, same, newer)
	}
}

func TestLibseccomp_GivesTheSameVerdicts(t *testing.T) {
	values := telling
	compared := 0
	for i := range optionSets {
		o := optionsAt(i)
		ours := must(Build(o))
		conditional := oracle(o)

		// What doesn't look at arguments, in one filter.
		theirs := export(t, libErrno(unix.ENOSYS), func(f *lib.ScmpFilter) {
			for nr := int32(0); nr < 600; nr++ {
				about := Explain(nr)
				var do lib.ScmpAction
				switch {
				case about.Class == Allow, about.Class == Supervise && !o.Listener:
					do = lib.ActAllow
				case about.Class == Supervise, about.Class == Refuse && o.Listener:
					do = lib.ActNotify
				case about.Class == Conditional, about.Errno == unix.ENOSYS:
					continue
				default:
					do = libErrno(about.Errno)
				}
				if err := f.AddRule(lib.ScmpSyscall(nr), do); err != nil {
					t.Fatalf("%d %s: %v", nr, about.Name, err)
				}
			}
		})
		compare := func(what string, d Data, theirs ...[]Insn) {
			t.Helper()
			got, err := Run(ours, d)
			if err != nil {
				t.Fatal(err)
			}
			want := uint32(unix.SECCOMP_RET_ALLOW)
			for _, prog := range theirs {
				v, err := Run(prog, d)
				if err != nil {
					t.Fatalf("%s: libseccomp's program: %v", what, err)
				}
				want = min(want, v) // of ALLOW, USER_NOTIF, ERRNO the smaller is the stricter
			}
			compared++
			if got != want {
				t.Errorf("%+v %s %+v: %s, libseccomp %s", o, what, d, spell(got), spell(want))
			}
		}
		for _, audit := range []uint32{native.audit, unix.AUDIT_ARCH_I386, unix.AUDIT_ARCH_ARM, 0} {
			for nr := int32(-5); nr < 1200; nr++ {
				if Explain(nr).Class == Conditional && audit == native.audit {
					continue
				}
				for _, n := range []int32{nr, nr | 0x40000000} {
					if n == -1 {
						// A tracer's "skip this call": libseccomp takes it for a call
						// of no name, which is the default action; so is ours.
						continue
					}
					compare("number", Data{Nr: n, Arch: audit, Args: args{^uint64(0), 2, 3}}, theirs)
				}
			}
		}

		// The others, one by one, over every value that matters in each of the
		// arguments they look at.
		for j := range table {
			if table[j].class != Conditional {
				continue
			}
			for _, c := range table[j].calls {
				nr, ok := native.number(c.name)
				if !ok {
					continue
				}
				spec, ok := conditional[c.name]
				if !ok {
					t.Fatalf("%s isn't in the oracle", c.name)
				}
				var theirs [][]Insn
				for spec := &spec; spec != nil; spec = spec.also {
					theirs = append(theirs, export(t, spec.otherwise, func(f *lib.ScmpFilter) {
						for _, r := range spec.rules {
							if r.do == spec.otherwise {
								continue
							}
							if err := f.AddRuleConditionalExact(lib.ScmpSyscall(nr), r.do, r.on); err != nil {
								t.Fatalf("%s: %v", c.name, err)
							}
						}
					}))
				}
				small := []uint64{0, 1, 2, 3, 15, 16, 1 << 32, junk | 15, junk, 1<<64 - 1}
				for _, x := range values {
					for _, high := range []uint64{0, 1 << 32, junk} {
						x := x ^ high
						for at := range 5 {
							for _, y := range small {
								d := Data{Nr: nr, Arch: native.audit, Args: args{y, y, y, y, y, y}}
								d.Args[at] = x
								compare(c.name, d, theirs...)
							}
						}
						if c.name == "setsockopt" {
							for _, level := range []uint64{0, 1, 6, 17, 41, 270, 282, 284, junk | 41} {
								compare(c.name, Data{Nr: nr, Arch: native.audit, Args: args{3, level, x}}, theirs...)
							}
						}
						if c.name == "socket" || c.name == "prlimit64" {
							for _, y := range []uint64{0, 1, 2, 3, 5, 10, 10 | junk, 15, 0x80001, junk | 2} {
								for _, z := range []uint64{0, 1, 2, 10, 16, junk | 2, 7} {
									compare(c.name, Data{Nr: nr, Arch: native.audit, Args: args{z, y, x}}, theirs...)
									compare(c.name, Data{Nr: nr, Arch: native.audit, Args: args{x, y, z}}, theirs...)
								}
							}
						}
					}
				}
			}
		}
	}
	t.Log(fmt.Sprint(compared, " verdicts compared"))
}
