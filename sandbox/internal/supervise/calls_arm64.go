//go:build linux

package supervise

import "golang.org/x/sys/unix"

const (
	auditArch = unix.AUDIT_ARCH_AARCH64
	// addrMask is what of a pointer is an address: the top byte is the
	// program's (Documentation/arch/arm64/tagged-pointers.rst).
	addrMask = ^uint64(0) >> 8
	// largefile is O_LARGEFILE, which golang.org/x/sys/unix has as 0 like libc.
	largefile = 0x20000
)

// legacyHandlerOf: this architecture has only the …at calls.
func legacyHandlerOf(int32) handler { return nil }

// The functions that serve the older ones are named here to be kept.
var _ = [...]handler{chmod, chown, lchown, utime, utimes, futimesat, open, creat, mkdir, rmdir, unlink, rename}
