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

		unix.SYS_OPENAT:    sysOpenat,
		unix.SYS_MKDIRAT:   sysMkdirat,
		unix.SYS_UNLINKAT:  sysUnlinkat,
		unix.SYS_RENAMEAT:  sysRenameat,
		unix.SYS_RENAMEAT2: sysRenameat2,

		unix.SYS_CONNECT:  sysConnect,
		unix.SYS_BIND:     sysBind,
		unix.SYS_LISTEN:   sysListen,
		unix.SYS_SENDTO:   sysSendto,
		unix.SYS_SENDMSG:  sysSendmsg,
		unix.SYS_SENDMMSG: sysSendmmsg,

		unix.SYS_KILL:               sysKill,
		unix.SYS_TKILL:              sysTkill,
		unix.SYS_TGKILL:             sysTgkill,
		unix.SYS_RT_SIGQUEUEINFO:    sysTkill,
		unix.SYS_RT_TGSIGQUEUEINFO:  sysTgkill,
		unix.SYS_PIDFD_SEND_SIGNAL:  sysPidfdSendSignal,
		unix.SYS_SETPGID:            sysSetpgid,
		unix.SYS_SETPRIORITY:        sysSetpriority,
		unix.SYS_IOPRIO_SET:         sysIoprioSet,
		unix.SYS_SCHED_SETAFFINITY:  sysSched,
		unix.SYS_SCHED_SETATTR:      sysSched,
		unix.SYS_SCHED_SETPARAM:     sysSched,
		unix.SYS_SCHED_SETSCHEDULER: sysSched,
		unix.SYS_PRLIMIT64:          sysPrlimit,

		unix.SYS_SOCKET:     sysSocket,
		unix.SYS_SOCKETPAIR: sysSocketpair,
		unix.SYS_UNSHARE:    sysUnshare,
		unix.SYS_CLONE:      sysClone,
		unix.SYS_SETNS:      sysSetns,
		unix.SYS_MOUNT:      refusePath("mount", 1),
		unix.SYS_UMOUNT2:    refusePath("umount", 0),
		unix.SYS_PIVOT_ROOT: refusePath("pivot_root", 0),
		unix.SYS_CHROOT:     refusePath("chroot", 0),
	} {
		handlers[nr] = h
	}
	for nr, h := range legacyHandlers {
		handlers[nr] = h
	}
}
