package sandbox

import (
	"errors"
	"runtime"
	"strings"

	"github.com/dshx/dshx/sandbox/internal/landlock"
	"github.com/dshx/dshx/sandbox/internal/seccomp"
	"golang.org/x/sys/unix"
)

// Host is what this machine offers for enforcement, found out by asking the
// kernel, not by its version.
type Host struct {
	// Root: this process is uid 0, which passes the modes of files.
	Root bool
	// Kernel is the release, as uname(2) gives it.
	Kernel string
	// LandlockABI is 0 where there is no Landlock; LandlockErr says why.
	LandlockABI int
	LandlockErr error
	Seccomp     seccomp.Support
	// Nested: an outer dshx holds the only listener that a process can have.
	// ProbeHost does not find out; TryListener and a Domain do.
	Nested bool
}

// ProbeHost asks the kernel. It changes nothing.
func ProbeHost() Host {
	h := Host{Seccomp: seccomp.Probe(), Root: unix.Geteuid() == 0}
	h.LandlockABI, h.LandlockErr = landlock.ABI()
	if h.LandlockABI > landlock.Known {
		h.LandlockABI = landlock.Known
	}
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		h.Kernel = unix.ByteSliceToString(u.Release[:])
	}
	return h
}

// TryListener asks for a supervisor's listener on a thread of its own, which
// ends afterwards: only an attempt tells whether one is to be had, seccomp(2).
func (h *Host) TryListener() {
	if !h.Seccomp.Listener {
		return
	}
	result := make(chan error, 1)
	var try func()
	try = func() {
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			// The runtime never ends the main thread, so it must stay as it is.
			done := make(chan struct{})
			go func() { defer close(done); try() }()
			<-done
			runtime.UnlockOSThread()
			return
		}
		result <- tryListener() // and the thread ends, still locked
	}
	go try()
	h.Nested = errors.Is(<-result, seccomp.ErrListenerBusy)
}

func tryListener() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	prog, err := seccomp.Build(seccomp.Options{Network: seccomp.NetFull, Listener: true})
	if err != nil {
		return err
	}
	fd, err := seccomp.Install(prog, true, false)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

// Mechanism is one thing that can enforce.
type Mechanism struct {
	Name      string  `json:"name"`
	Available bool    `json:"available"`
	Reason    *string `json:"reason"` // why not; null where it is available
	Remedy    *string `json:"remedy"` // what would help; null where nothing does
}

// Mechanisms says what of all that dshx could use is here, and why not.
func (h *Host) Mechanisms() []Mechanism {
	missing := func(name, reason, remedy string) Mechanism {
		m := Mechanism{Name: name, Reason: &reason}
		if remedy != "" {
			m.Remedy = &remedy
		}
		return m
	}
	var out []Mechanism
	if h.LandlockABI > 0 {
		out = append(out, Mechanism{Name: "landlock", Available: true})
	} else {
		out = append(out, missing("landlock", landlock.Why(h.LandlockErr), landlock.Remedy(h.LandlockErr)))
	}
	if h.Seccomp.Filter {
		out = append(out, Mechanism{Name: "seccomp", Available: true})
	} else {
		out = append(out, missing("seccomp", h.Seccomp.Reason, needFilter))
	}
	switch {
	case h.Nested:
		out = append(out, missing("notify", "an outer dshx holds the only supervisor that a process can have", "run dshx outside of another dshx"))
	case h.Seccomp.Listener:
		out = append(out, Mechanism{Name: "notify", Available: true})
	default:
		out = append(out, missing("notify", h.Seccomp.Reason, needSupervisor))
	}
	for _, name := range [...]string{"userns", "pidns"} {
		out = append(out, missing(name, "this version of dshx does not use namespaces", ""))
	}
	return out
}

const needFilter = "use a kernel with CONFIG_SECCOMP_FILTER, or let the filter around dshx pass seccomp(2)"

// Unusable says why nothing can be confined here, or returns nil.
//
// Errors: *UnavailableError.
func (h *Host) Unusable() error {
	switch {
	case h.LandlockABI == 0:
		return &UnavailableError{landlock.Why(h.LandlockErr), landlock.Remedy(h.LandlockErr)}
	case !h.Seccomp.Filter:
		return &UnavailableError{h.Seccomp.Reason, needFilter}
	}
	return nil
}

// UnavailableError says that confinement can't be had: nothing ran.
type UnavailableError struct{ Reason, Remedy string }

func (e *UnavailableError) Error() string {
	s := strings.TrimSuffix(e.Reason, ".")
	if e.Remedy == "" {
		return s
	}
	return s + "; " + e.Remedy
}

// Code is the stable code of the error.
func (e *UnavailableError) Code() string { return "SANDBOX_UNAVAILABLE" }
