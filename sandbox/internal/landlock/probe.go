package landlock

import (
	"errors"
	"fmt"
	"syscall"

	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// Known is the highest ABI whose rights are understood here.
const Known = 10

// ABI levels at which something this package's users depend on began.
const (
	ABIRefer    = 2  // renames and links across directories
	ABITruncate = 3  // truncate(2)
	ABINetTCP   = 4  // TCP bind and connect
	ABIIoctlDev = 5  // ioctl on devices
	ABIScope    = 6  // scoped signals and abstract sockets
	ABISockets  = 9  // connecting to Unix sockets by path
	ABINetUDP   = 10 // UDP bind and send
)

const (
	createVersion = 1 << 0 // LANDLOCK_CREATE_RULESET_VERSION
	createErrata  = 1 << 1 // LANDLOCK_CREATE_RULESET_ERRATA, Linux 6.15
)

// ABI returns the version that the kernel offers, at least 1.
//
// Errors: ENOSYS where the kernel has no Landlock, EOPNOTSUPP where it was
// not enabled at boot.
func ABI() (int, error) {
	v, _, e := syscall.RawSyscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, createVersion)
	if e != 0 {
		return 0, e
	}
	if v == 0 {
		return 0, unix.ENOSYS
	}
	return int(v), nil
}

// Why says in one sentence what an error of ABI or of making a ruleset means.
func Why(err error) string {
	switch {
	case errors.Is(err, unix.ENOSYS):
		return "the kernel has no Landlock (it came with Linux 5.13), or a filter around dshx hides it"
	case errors.Is(err, unix.EOPNOTSUPP):
		return "Landlock is built into the kernel but not enabled at boot"
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return "a filter around dshx refuses the Landlock system calls"
	}
	return fmt.Sprintf("Landlock can't be used: %v", err)
}

// Remedy says how to get Landlock after such an error.
func Remedy(err error) string {
	switch {
	case errors.Is(err, unix.EOPNOTSUPP):
		return "add landlock to the lsm= boot parameter"
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return "let the container's seccomp profile pass landlock_create_ruleset, landlock_add_rule and landlock_restrict_self"
	}
	return "run on Linux 5.13 or later with CONFIG_SECURITY_LANDLOCK"
}

// handledFS are the file rights that a ruleset of this ABI handles: all.
func handledFS(abi int) uint64 {
	h := uint64(ll.AccessFSRefer - 1) // the 13 rights of ABI 1
	if abi >= ABIRefer {
		h |= ll.AccessFSRefer
	}
	if abi >= ABITruncate {
		h |= ll.AccessFSTruncate
	}
	if abi >= ABIIoctlDev {
		h |= ll.AccessFSIoctlDev
	}
	if abi >= ABISockets {
		h |= ll.AccessFSResolveUnix
	}
	return h
}

func handledNet(abi int) uint64 {
	var h uint64
	if abi >= ABINetTCP {
		h |= ll.AccessNetBindTCP | ll.AccessNetConnectTCP
	}
	if abi >= ABINetUDP {
		h |= ll.AccessNetBindUDP | ll.AccessNetConnectSendUDP
	}
	return h
}

type attr struct{ fs, net, scoped uint64 }

func createRuleset(a attr) (int, error) {
	r := ll.RulesetAttr{HandledAccessFS: a.fs, HandledAccessNet: a.net, Scoped: a.scoped}
	fd, err := ll.LandlockCreateRuleset(&r, 0)
	if err != nil {
		return -1, err
	}
	return fd, nil
}

// ScopeRuleset makes a ruleset that judges no file, only the scopes of signals
// and abstract sockets: the outer domain of a policy's threads. It returns -1
// where the kernel has no scopes.
//
// Every domain refuses links and renames between directories (EXDEV), also one
// that doesn't handle that right, unless a rule allows them: landlock(7),
// LANDLOCK_ACCESS_FS_REFER. So one does, for all there is.
func ScopeRuleset(abi int) (int, error) {
	if abi < ABIScope {
		return -1, nil
	}
	fd, err := createRuleset(attr{fs: ll.AccessFSRefer, scoped: ll.ScopeSignal | ll.ScopeAbstractUnixSocket})
	if err != nil {
		return -1, err
	}
	root, err := unix.Open("/", unix.O_PATH|unix.O_CLOEXEC|unix.O_DIRECTORY, 0)
	if err == nil {
		err = addPath(fd, root, ll.AccessFSRefer)
		_ = unix.Close(root)
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// Restrict enters the ruleset with the calling thread alone.
func Restrict(fd int) error {
	_, _, e := syscall.RawSyscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(fd), 0, 0)
	if e != 0 {
		return e
	}
	return nil
}
