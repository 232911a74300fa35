package sandbox

import (
	"strings"

	"github.com/dshx/dshx/sandbox/internal/landlock"
	"github.com/dshx/dshx/sandbox/internal/seccomp"
	"golang.org/x/sys/unix"
)

// Host is what this machine offers for enforcement, found out by asking the
// kernel, not by its version.
type Host struct {
	// Kernel is the release, as uname(2) gives it.
	Kernel string
	// LandlockABI is 0 where there is no Landlock; LandlockErr says why.
	LandlockABI int
	LandlockErr error
	Seccomp     seccomp.Support
}

// ProbeHost asks the kernel. It changes nothing.
func ProbeHost() Host {
	h := Host{Seccomp: seccomp.Probe()}
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

// unusable says why nothing can be confined here, or returns nil.
func (h *Host) unusable() error {
	switch {
	case h.LandlockABI == 0:
		return &UnavailableError{landlock.Why(h.LandlockErr), landlock.Remedy(h.LandlockErr)}
	case !h.Seccomp.Filter:
		return &UnavailableError{h.Seccomp.Reason, "use a kernel with CONFIG_SECCOMP_FILTER, or let the filter around dshx pass seccomp(2)"}
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
