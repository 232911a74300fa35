package sandbox

import (
	"strconv"

	"github.com/dshx/dshx/sandbox/internal/landlock"
	"github.com/dshx/dshx/sandboxpolicy"
)

// Enforcement says what of a policy the kernel enforces.
type Enforcement struct {
	Preset     string   `json:"preset"`
	Isolation  string   `json:"isolation"`
	Level      string   `json:"level"` // full, partial, none
	Mechanisms []string `json:"mechanisms"`
	Gaps       []Gap    `json:"gaps"`
}

// Gap is a promise of the policy that isn't held, why, and what would help.
type Gap struct {
	Promise string `json:"promise"`
	Reason  string `json:"reason"`
	Remedy  string `json:"remedy"`
}

// state is what the promises are judged by: what the policy wants, and what
// is there to hold it.
type state struct {
	p *sandboxpolicy.Policy
	h *Host
	// nested: an outer dshx holds the only listener, so no supervisor of
	// ours answers.
	nested bool
	// marks: processes can be marked.
	marks bool
	// namespaces: the commands have mounts, processes and networks of their
	// own. No mechanism here makes them yet.
	namespaces bool
}

func (s *state) supervised() bool { return s.h.Seccomp.Listener && !s.nested }

const (
	noNamespaces   = "no namespaces are used"
	needNamespaces = "none in this version; a later one separates it with namespaces"
	needScope      = "use Linux 6.12 or later (Landlock ABI 6)"
	needSupervisor = "run dshx outside of another dshx, on a kernel with seccomp user notification (Linux 5.0)"
)

// mechanisms are what enforces, in the order in which it is applied. Each is
// asked for its name in this state; "" where it takes no part.
var mechanisms = []func(*state) string{
	func(s *state) string {
		if s.h.LandlockABI == 0 {
			return ""
		}
		return "landlock:" + strconv.Itoa(s.h.LandlockABI)
	},
	func(s *state) string {
		if !s.h.Seccomp.Filter {
			return ""
		}
		return "seccomp"
	},
	func(s *state) string {
		if !s.supervised() {
			return ""
		}
		return "notify"
	},
}

// A promise is one row: it applies where wanted, and gap returns why it isn't
// held, or nil.
type promise struct {
	name   sandboxpolicy.Promise
	wanted func(*state) bool
	gap    func(*state) *Gap
}

func always(*state) bool { return true }

func held(*state) *Gap { return nil }

func needsSupervisor(what string) func(*state) *Gap {
	return func(s *state) *Gap {
		if s.supervised() {
			return nil
		}
		if s.nested {
			return &Gap{Reason: "an outer dshx holds the only supervisor: " + what + " follow its policy", Remedy: needSupervisor}
		}
		return &Gap{Reason: "no seccomp user notification: " + what + " are not judged", Remedy: needSupervisor}
	}
}

// promises is the one place that decides what is a gap. The names and their
// order are the contract's.
var promises = []promise{
	{sandboxpolicy.PromiseWrite, always, func(s *state) *Gap {
		if p := denyInside(s.p, sandboxpolicy.Write); p != "" {
			return &Gap{Reason: "Landlock can't refuse writes below a writable root: " + p, Remedy: needNamespaces}
		}
		return nil
	}},
	{sandboxpolicy.PromiseSecrets, always, func(s *state) *Gap {
		if p := denyInside(s.p, sandboxpolicy.Read); p != "" {
			return &Gap{Reason: "Landlock can't hide a part of a writable root, or what a pattern matches: " + p, Remedy: "keep it outside of what may be written; " + needNamespaces}
		}
		return nil
	}},
	{sandboxpolicy.PromiseProtectedPaths, func(s *state) bool { return len(s.p.Protected()) > 0 }, func(s *state) *Gap {
		if s.namespaces {
			return nil
		}
		return &Gap{Reason: noNamespaces + ": files below the workspace that make host tools run code (.git/hooks, .git/config, .vscode …) can be written", Remedy: needNamespaces}
	}},
	{sandboxpolicy.PromiseMetadata, always, needsSupervisor("changes of mode, owner, times and attributes")},
	{sandboxpolicy.PromiseUnixSockets, always, needsSupervisor("connections to Unix sockets")},
	{sandboxpolicy.PromiseUnixDatagram, always, needsSupervisor("datagrams to Unix sockets")},
	{sandboxpolicy.PromiseAbstractSockets, always, func(s *state) *Gap {
		if s.h.LandlockABI >= landlock.ABIScope || s.supervised() {
			return nil
		}
		return &Gap{Reason: "Landlock ABI " + strconv.Itoa(s.h.LandlockABI) + " doesn't scope abstract sockets", Remedy: needScope}
	}},
	{sandboxpolicy.PromiseNetwork, always, func(s *state) *Gap {
		if s.p.Network() != sandboxpolicy.NetworkLoopback {
			return nil
		}
		return needsSupervisor("addresses")(s)
	}},
	{sandboxpolicy.PromiseOwnLoopback, func(s *state) bool { return s.p.Network() != sandboxpolicy.NetworkFull }, func(s *state) *Gap {
		if s.namespaces {
			return nil
		}
		if s.p.Network() == sandboxpolicy.NetworkLoopback {
			return &Gap{Reason: noNamespaces + ": the loopback interface is the host's", Remedy: needNamespaces}
		}
		return &Gap{Reason: noNamespaces + ": internet sockets are refused altogether", Remedy: "--network loopback shares the host's loopback interface; " + needNamespaces}
	}},
	{sandboxpolicy.PromiseSignals, always, func(s *state) *Gap {
		if s.h.LandlockABI >= landlock.ABIScope || s.supervised() && s.marks {
			return nil
		}
		return &Gap{Reason: "Landlock ABI " + strconv.Itoa(s.h.LandlockABI) + " doesn't scope signals", Remedy: needScope}
	}},
	{sandboxpolicy.PromiseProcesses, always, held}, // Landlock denies tracing up and across, from ABI 1
	{sandboxpolicy.PromiseScheduling, always, needsSupervisor("scheduling and limits of other processes")},
	{sandboxpolicy.PromiseDevices, always, func(s *state) *Gap {
		if s.namespaces {
			return nil
		}
		return &Gap{Reason: noNamespaces + ": other terminals of this user in /dev/pts can be opened", Remedy: needNamespaces}
	}},
	{sandboxpolicy.PromiseShm, func(s *state) bool { return writes(s.p, "/dev/shm") }, func(s *state) *Gap {
		if s.namespaces {
			return nil
		}
		return &Gap{Reason: noNamespaces + ": /dev/shm is shared with the host", Remedy: needNamespaces}
	}},
	{sandboxpolicy.PromiseKernelSurface, always, held},
	{sandboxpolicy.PromiseMemory, func(s *state) bool { return s.p.Limits().Memory != 0 }, perProcess("memory", "address space")},
	{sandboxpolicy.PromisePids, func(s *state) bool { return s.p.Limits().Pids != 0 }, func(*state) *Gap {
		return &Gap{Reason: "the limit counts all processes of this user, not the command's alone, and does not bind uid 0", Remedy: needNamespaces}
	}},
	{sandboxpolicy.PromiseCPUTime, func(s *state) bool { return s.p.Limits().CPUTime != 0 }, perProcess("cpu-time", "processor time")},
	{sandboxpolicy.PromiseFileSize, func(s *state) bool { return s.p.Limits().FileSize != 0 }, held},
	{sandboxpolicy.PromiseTmpSize, func(s *state) bool { return s.p.Limits().TmpSize != 0 }, func(*state) *Gap {
		return &Gap{Reason: "the private TMPDIR is a plain directory, whose size isn't bounded", Remedy: needNamespaces}
	}},
	{sandboxpolicy.PromiseLifetime, always, held},
}

func perProcess(name, what string) func(*state) *Gap {
	return func(*state) *Gap {
		return &Gap{Reason: "--" + name + " bounds the " + what + " of each process, not of all together", Remedy: "none in this version; a later one uses control groups"}
	}
}

// enforcement computes what is enforced of the policy in a state.
func (s *state) enforcement() Enforcement {
	e := Enforcement{Preset: s.p.Preset(), Isolation: "landlock", Level: "full", Mechanisms: []string{}, Gaps: []Gap{}}
	if s.p.Full() {
		e.Isolation, e.Level = "none", "none"
		return e
	}
	for _, m := range mechanisms {
		if name := m(s); name != "" {
			e.Mechanisms = append(e.Mechanisms, name)
		}
	}
	for i := range promises {
		p := &promises[i]
		if !p.wanted(s) {
			continue
		}
		if g := p.gap(s); g != nil {
			g.Promise = string(p.name)
			e.Gaps = append(e.Gaps, *g)
			e.Level = "partial"
		}
	}
	return e
}

// denyInside returns the first deny that Landlock can't make, for the rights
// of a, by its text.
func denyInside(p *sandboxpolicy.Policy, a sandboxpolicy.Access) string {
	for _, d := range p.Deny() {
		if d.Access != a {
			continue
		}
		if d.Glob && !d.OneLevel() {
			return d.Rule.Text
		}
		at := d.Path
		if d.Glob {
			at = d.Dir
		}
		if d.Rule.Origin == "preset" && a == sandboxpolicy.Read {
			continue // granted around, see package landlock
		}
		for _, w := range p.WriteAllow() {
			if !w.Sink && within(at, w.Path) {
				return d.Rule.Text
			}
		}
	}
	return ""
}

func writes(p *sandboxpolicy.Policy, path string) bool {
	for _, w := range p.WriteAllow() {
		if w.Path == path {
			return true
		}
	}
	return false
}

func within(path, dir string) bool {
	return path == dir || dir == "/" || len(path) > len(dir) && path[len(dir)] == '/' && path[:len(dir)] == dir
}

// Explain says what a policy would make enforceable on this host, without
// starting anything.
func Explain(p *sandboxpolicy.Policy, h Host) Enforcement {
	s := state{p: p, h: &h, marks: true}
	return s.enforcement()
}
