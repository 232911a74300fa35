package spawn

import "golang.org/x/sys/unix"

const (
	sysRtSigprocmask  = unix.SYS_RT_SIGPROCMASK
	sysRtSigaction    = unix.SYS_RT_SIGACTION
	sysRtSigtimedwait = unix.SYS_RT_SIGTIMEDWAIT
	sysExitGroup      = unix.SYS_EXIT_GROUP
	sysPrctl          = unix.SYS_PRCTL
	sysPrlimit        = unix.SYS_PRLIMIT64
	sysFchdir         = unix.SYS_FCHDIR
	sysFcntl          = unix.SYS_FCNTL
	sysDup3           = unix.SYS_DUP3
	sysClose          = unix.SYS_CLOSE
	sysCloseRange     = unix.SYS_CLOSE_RANGE
	sysSetsid         = unix.SYS_SETSID
	sysSetpgid        = unix.SYS_SETPGID
	sysIoctl          = unix.SYS_IOCTL
	sysExecve         = unix.SYS_EXECVE
	sysLandlockSelf   = unix.SYS_LANDLOCK_RESTRICT_SELF
	sysGetpid         = unix.SYS_GETPID
	sysGetppid        = unix.SYS_GETPPID
	sysKill           = unix.SYS_KILL
	sysOpenat         = unix.SYS_OPENAT
	sysGetdents64     = unix.SYS_GETDENTS64
	sysLseek          = unix.SYS_LSEEK
	sysNanosleep      = unix.SYS_NANOSLEEP
	sysWait4          = unix.SYS_WAIT4
	sysWrite          = unix.SYS_WRITE
	sysFutex          = unix.SYS_FUTEX
	sysRead           = unix.SYS_READ
	sigSetmask        = unix.SIG_SETMASK
	prSetPdeathsig    = unix.PR_SET_PDEATHSIG
	prSetName         = unix.PR_SET_NAME
	rlimitRTTime      = 15 // RLIMIT_RTTIME, the same on every architecture here
	fSetfd            = unix.F_SETFD
	fDupfdCloexec     = unix.F_DUPFD_CLOEXEC
	tiocsctty         = unix.TIOCSCTTY
	tcsets            = unix.TCSETS
	tcflsh            = unix.TCFLSH
	tiocspgrp         = unix.TIOCSPGRP
	sigkill           = uintptr(unix.SIGKILL)
	sigusr1           = uintptr(unix.SIGUSR1)
	sigchld           = uintptr(unix.SIGCHLD)
	oCloexec          = unix.O_CLOEXEC
	oDirectory        = unix.O_DIRECTORY
	wuntraced         = unix.WUNTRACED
	wcontinued        = unix.WCONTINUED
)
