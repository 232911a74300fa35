// Package nofile remembers the limit on open descriptors (RLIMIT_NOFILE) that
// this process was started with.
//
// Package syscall raises the soft limit to the hard one when it is
// initialised, and gives its own children the old one back; a child that isn't
// started by it needs the same. This package asks before: Go initialises
// packages that are ready in the order of their import paths, and this one
// depends on nothing.
package nofile

// limit is struct rlimit64: soft, hard.
var limit [2]uint64

var known = prlimitNofile(&limit) == 0

// prlimitNofile reads the limit by a bare system call: importing anything that
// makes one would put this package behind syscall. It returns a negated errno.
//
//go:noescape
func prlimitNofile(old *[2]uint64) int64

// Started returns the soft and the hard limit at the start of the process.
func Started() (soft, hard uint64, ok bool) { return limit[0], limit[1], known }
