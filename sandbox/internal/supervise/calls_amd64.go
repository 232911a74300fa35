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

// legacyHandlerOf is handlerOf for the calls that newer architectures do without.
func legacyHandlerOf(nr int32) handler {
	switch nr {
	case unix.SYS_CHMOD:
		return chmod
	case unix.SYS_CHOWN:
		return chown
	case unix.SYS_LCHOWN:
		return lchown
	case unix.SYS_UTIME:
		return utime
	case unix.SYS_UTIMES:
		return utimes
	case unix.SYS_FUTIMESAT:
		return futimesat
	case unix.SYS_OPEN:
		return open
	case unix.SYS_CREAT:
		return creat
	case unix.SYS_MKDIR:
		return mkdir
	case unix.SYS_RMDIR:
		return rmdir
	case unix.SYS_UNLINK:
		return unlink
	case unix.SYS_RENAME:
		return rename
	}
	return nil
}
