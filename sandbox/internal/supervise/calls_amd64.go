//go:build linux

package supervise

import "golang.org/x/sys/unix"

const (
	auditArch = unix.AUDIT_ARCH_X86_64
	// addrMask is what of a pointer is an address.
	addrMask = ^uint64(0)
)

// legacyHandlers are the calls that newer architectures do without.
var legacyHandlers = map[int]handler{
	unix.SYS_CHMOD:     chmod,
	unix.SYS_CHOWN:     chown,
	unix.SYS_LCHOWN:    lchown,
	unix.SYS_UTIME:     utime,
	unix.SYS_UTIMES:    utimes,
	unix.SYS_FUTIMESAT: futimesat,
}
