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

// handlerOf returns what answers the system call of a number, or nil. It is a
// switch, not a table: nothing of it is built when the program starts.
func handlerOf(nr int32) handler {
	switch nr {
	case unix.SYS_FCHMOD:
		return sysFchmod
	case unix.SYS_FCHMODAT:
		return sysFchmodat
	case unix.SYS_FCHMODAT2:
		return sysFchmodat2
	case unix.SYS_FCHOWN:
		return sysFchown
	case unix.SYS_FCHOWNAT:
		return sysFchownat
	case unix.SYS_UTIMENSAT:
		return sysUtimensat
	case unix.SYS_SETXATTR:
		return sysSetxattr
	case unix.SYS_LSETXATTR:
		return sysLsetxattr
	case unix.SYS_FSETXATTR:
		return sysFsetxattr
	case unix.SYS_SETXATTRAT:
		return sysSetxattrat
	case unix.SYS_REMOVEXATTR:
		return sysRemovexattr
	case unix.SYS_LREMOVEXATTR:
		return sysLremovexattr
	case unix.SYS_FREMOVEXATTR:
		return sysFremovexattr
	case unix.SYS_REMOVEXATTRAT:
		return sysRemovexattrat
	case unix.SYS_FILE_SETATTR:
		return sysFileSetattr
	case unix.SYS_TRUNCATE:
		return sysTruncate
	case unix.SYS_IOCTL:
		return sysIoctl
	case unix.SYS_OPENAT:
		return sysOpenat
	case unix.SYS_MKDIRAT:
		return sysMkdirat
	case unix.SYS_UNLINKAT:
		return sysUnlinkat
	case unix.SYS_RENAMEAT:
		return sysRenameat
	case unix.SYS_RENAMEAT2:
		return sysRenameat2
	case unix.SYS_CONNECT:
		return sysConnect
	case unix.SYS_BIND:
		return sysBind
	case unix.SYS_LISTEN:
		return sysListen
	case unix.SYS_SENDTO:
		return sysSendto
	case unix.SYS_SENDMSG:
		return sysSendmsg
	case unix.SYS_SENDMMSG:
		return sysSendmmsg
	case unix.SYS_KILL:
		return sysKill
	case unix.SYS_TKILL:
		return sysTkill
	case unix.SYS_TGKILL:
		return sysTgkill
	case unix.SYS_RT_SIGQUEUEINFO:
		return sysTkill
	case unix.SYS_RT_TGSIGQUEUEINFO:
		return sysTgkill
	case unix.SYS_PIDFD_SEND_SIGNAL:
		return sysPidfdSendSignal
	case unix.SYS_SETPGID:
		return sysSetpgid
	case unix.SYS_SETPRIORITY:
		return sysSetpriority
	case unix.SYS_IOPRIO_SET:
		return sysIoprioSet
	case unix.SYS_SCHED_SETAFFINITY:
		return sysSched
	case unix.SYS_SCHED_SETATTR:
		return sysSched
	case unix.SYS_SCHED_SETPARAM:
		return sysSched
	case unix.SYS_SCHED_SETSCHEDULER:
		return sysSched
	case unix.SYS_PRLIMIT64:
		return sysPrlimit
	case unix.SYS_SOCKET:
		return sysSocket
	case unix.SYS_SOCKETPAIR:
		return sysSocketpair
	case unix.SYS_UNSHARE:
		return sysUnshare
	case unix.SYS_CLONE:
		return sysClone
	case unix.SYS_SETNS:
		return sysSetns
	case unix.SYS_MOUNT:
		return refusePath("mount", 1)
	case unix.SYS_UMOUNT2:
		return refusePath("umount", 0)
	case unix.SYS_PIVOT_ROOT:
		return refusePath("pivot_root", 0)
	case unix.SYS_CHROOT:
		return refusePath("chroot", 0)
	}
	return legacyHandlerOf(nr)
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
