//go:build linux

package supervise

import "golang.org/x/sys/unix"

const (
	auditArch = unix.AUDIT_ARCH_X86_64
	// addrMask is what of a pointer is an address.
	addrMask = ^uint64(0)
	// largefile is O_LARGEFILE, which golang.org/x/sys/unix has as 0 like libc.
	largefile = 0x8000
)

// legacyHandlers are the calls that newer architectures do without.
var legacyHandlers = map[int]handler{
	unix.SYS_CHMOD:     chmod,
	unix.SYS_CHOWN:     chown,
	unix.SYS_LCHOWN:    lchown,
	unix.SYS_UTIME:     utime,
	unix.SYS_UTIMES:    utimes,
	unix.SYS_FUTIMESAT: futimesat,
	unix.SYS_OPEN:      open,
	unix.SYS_CREAT:     creat,
	unix.SYS_MKDIR:     mkdir,
	unix.SYS_RMDIR:     rmdir,
	unix.SYS_UNLINK:    unlink,
	unix.SYS_RENAME:    rename,
}
