package supervise

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/dshx/dshx/sandbox/internal/seccomp"
	"github.com/dshx/dshx/sandboxpolicy"
)

// handler performs or refuses one system call. a are its arguments as they are
// in the registers: those of type int count by their low 32 bits.
type handler func(w *worker, a *[6]uint64) answer

// handlers is indexed by system call number.
var handlers [512]handler

func lookupHandler(nr int32) handler {
	if nr < 0 || int(nr) >= len(handlers) {
		return nil
	}
	return handlers[nr]
}

// unknown is a notified call without a handler: the filter refuses it by way
// of us so that it is recorded, or it's newer than we are. Fail closed.
func (w *worker) unknown() answer {
	c := seccomp.Explain(w.n.nr)
	name := c.Name
	if name == "" {
		name = fmt.Sprintf("system call %d", w.n.nr)
	}
	return w.refuse(sandboxpolicy.OpKernel, name, "", unix.EPERM)
}

func init() {
	for nr, h := range map[int]handler{
		unix.SYS_FCHMOD:        sysFchmod,
		unix.SYS_FCHMODAT:      sysFchmodat,
		unix.SYS_FCHMODAT2:     sysFchmodat2,
		unix.SYS_FCHOWN:        sysFchown,
		unix.SYS_FCHOWNAT:      sysFchownat,
		unix.SYS_UTIMENSAT:     sysUtimensat,
		unix.SYS_SETXATTR:      sysSetxattr,
		unix.SYS_LSETXATTR:     sysLsetxattr,
		unix.SYS_FSETXATTR:     sysFsetxattr,
		unix.SYS_SETXATTRAT:    sysSetxattrat,
		unix.SYS_REMOVEXATTR:   sysRemovexattr,
		unix.SYS_LREMOVEXATTR:  sysLremovexattr,
		unix.SYS_FREMOVEXATTR:  sysFremovexattr,
		unix.SYS_REMOVEXATTRAT: sysRemovexattrat,
		unix.SYS_FILE_SETATTR:  sysFileSetattr,
		unix.SYS_TRUNCATE:      sysTruncate,
		unix.SYS_IOCTL:         sysIoctl,
	} {
		handlers[nr] = h
	}
	for nr, h := range legacyHandlers {
		handlers[nr] = h
	}
}
