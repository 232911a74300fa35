package seccomp

import (
	"fmt"
	"slices"

	"golang.org/x/sys/unix"
)

// Net is which sockets socket(2) gives.
type Net uint8

const (
	NetNone     Net = iota // AF_UNIX, and AF_NETLINK for routes
	NetLoopback            // these, and TCP and UDP; connect, bind, listen are supervised
	NetFull                // these, and multipath TCP and ping

	netEnd
)

// Options choose a program. The zero value is the strictest network and no
// supervisor.
type Options struct {
	Network  Net
	Listener bool // supervised calls notify; without, they are allowed: an outer supervisor still sees them
	Signals  bool // supervise kill and its kin: Landlock below ABI 6 has no signal scope
	Truncate bool // supervise truncate(2): Landlock below ABI 3 has no right for it
	// Names hands over the calls that make, open for writing, rename and remove
	// files: the supervisor makes a few names that Landlock can't grant, and
	// leaves the rest to Landlock.
	Names bool
}

// Class is what happens to a system call.
type Class uint8

const (
	Unknown     Class = iota // not in the table: ENOSYS
	Allow                    // runs
	Deny                     // fails with its errno
	Refuse                   // fails with its errno; with a Listener by notification, to be recorded
	Supervise                // notifies, the supervisor performs it; allowed without Listener
	Conditional              // one of the others, by its arguments
)

func (c Class) String() string {
	return [...]string{"unknown", "allow", "deny", "refuse", "supervise", "conditional"}[c]
}

// Call describes the decision about one system call.
type Call struct {
	Name  string
	Class Class
	Errno unix.Errno // what a refusal of it answers; 0 for Allow
	Why   string
}

// Explain returns the decision about system call nr of the running
// architecture. A supervisor answers a notification that it has no more
// particular treatment for with Errno.
func Explain(nr int32) Call { return native.explain(nr) }

func (a *arch) explain(nr int32) Call {
	for i := range table {
		for _, c := range table[i].calls {
			if n := a.nr(c); n != none && int32(n) == nr {
				f := &table[i]
				return Call{c.name, f.class, f.errno, f.why}
			}
		}
	}
	return Call{"", Unknown, unix.ENOSYS, "unknown to this version of dshx: looks unavailable"}
}

// Build returns the program for o and the running architecture. The caller may
// change it.
//
// Errors: a Network out of range.
//
// It copies a program that was compiled beforehand (programs_ARCH.go, from the
// table): compiling costs 0.2 to 0.3 ms in a fresh process, at the start of
// every command.
func Build(o Options) ([]Insn, error) {
	if o.Network >= netEnd {
		return nil, fmt.Errorf("seccomp: network mode %d out of range 0..%d", o.Network, netEnd-1)
	}
	return slices.Clone(programs[o.index()]), nil
}

//go:generate go test -run ^TestPrograms_AreCurrent$ -update .

// optionSets is the number of values that Options can have.
const optionSets = int(netEnd) * 16

// index numbers the options from 0 to optionSets - 1.
func (o Options) index() int {
	i := int(o.Network) * 16
	for bit, set := range []bool{o.Listener, o.Signals, o.Truncate, o.Names} {
		if set {
			i |= 1 << bit
		}
	}
	return i
}

// optionsAt is the inverse of index.
func optionsAt(i int) Options {
	return Options{
		Network:  Net(i / 16),
		Listener: i&1 != 0,
		Signals:  i&2 != 0,
		Truncate: i&4 != 0,
		Names:    i&8 != 0,
	}
}
