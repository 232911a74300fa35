package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Newer than the x/sys tables on some architectures; the numbers are the same
// on all since Linux 5.1.
const (
	sysFchmodat2     = 452 // Linux 6.6
	sysSetxattrat    = 463 // Linux 6.13
	sysRemovexattrat = 466
	sysFileSetattr   = 469 // Linux 6.17
)

// keep holds what raw calls point to, so that it lies on the heap (a uintptr
// doesn't keep a variable off the stack) and stays; the probe is short-lived.
var keep []any

// ptr is the address of something that stays where it is.
func ptr[T any](p *T) uintptr {
	keep = append(keep, p)
	return uintptr(unsafe.Pointer(p))
}

func cstr(s string) uintptr {
	p, err := unix.BytePtrFromString(s)
	if err != nil {
		panic(err)
	}
	return ptr(p)
}

// with opens a path for the length of f.
func with(path string, flags int, f func(fd int) error) error {
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open first: %w", err)
	}
	defer unix.Close(fd)
	return f(fd)
}

func openOp(flags int, mode uint32) op {
	return func(a []string) (string, error) {
		fd, err := unix.Open(a[0], flags|unix.O_CLOEXEC, mode)
		if err != nil {
			return "", err
		}
		defer unix.Close(fd)
		if flags&unix.O_ACCMODE != unix.O_RDONLY {
			if len(a) > 1 {
				_, err = unix.Write(fd, []byte(a[1]))
			}
			return "", err
		}
		buf := make([]byte, 200)
		n, err := unix.Read(fd, buf)
		if err != nil {
			return "", err
		}
		return string(buf[:n]), nil
	}
}

func init() {
	register("read", openOp(unix.O_RDONLY, 0))
	register("open-w", openOp(unix.O_WRONLY, 0))
	register("open-rw", openOp(unix.O_RDWR, 0))
	register("open-a", openOp(unix.O_WRONLY|unix.O_APPEND, 0))
	register("overwrite", openOp(unix.O_WRONLY|unix.O_TRUNC, 0))
	register("trunc-ro", openOp(unix.O_RDONLY|unix.O_TRUNC, 0)) // POSIX leaves it open; Linux truncates
	register("create", openOp(unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o644))
	register("openat2-r", openat2Op(unix.O_RDONLY))
	register("openat2-w", openat2Op(unix.O_WRONLY))
	register("tmpfile", func(a []string) (string, error) {
		return "", with(a[0], unix.O_TMPFILE|unix.O_WRONLY, func(int) error { return nil })
	})
	register("mmap", func(a []string) (detail string, err error) {
		err = with(a[0], unix.O_RDONLY, func(fd int) error {
			b, err := unix.Mmap(fd, 0, 4096, unix.PROT_READ, unix.MAP_PRIVATE)
			if err == nil {
				detail = strings.TrimRight(string(b[:100]), "\x00")
			}
			return err
		})
		return detail, err
	})
	register("readdir", func(a []string) (string, error) {
		names, err := os.ReadDir(a[0])
		var list []string
		for _, n := range names {
			list = append(list, n.Name())
		}
		return strings.Join(list, " "), err
	})
	register("truncate", func(a []string) (string, error) { return "", unix.Truncate(a[0], int64(atoi(a[1]))) })
	register("mkdir", func(a []string) (string, error) { return "", unix.Mkdir(a[0], 0o755) })
	register("rmdir", func(a []string) (string, error) { return "", unix.Rmdir(a[0]) })
	register("unlink", func(a []string) (string, error) { return "", unix.Unlink(a[0]) })
	register("rename", func(a []string) (string, error) { return "", unix.Rename(a[0], a[1]) })
	register("rename-exchange", func(a []string) (string, error) {
		return "", unix.Renameat2(unix.AT_FDCWD, a[0], unix.AT_FDCWD, a[1], unix.RENAME_EXCHANGE)
	})
	register("symlink", func(a []string) (string, error) { return "", unix.Symlink(a[0], a[1]) })
	register("link", func(a []string) (string, error) { return "", unix.Link(a[0], a[1]) })
	register("link-fd", func(a []string) (string, error) { // through /proc, as an unprivileged program does
		return "", with(a[0], unix.O_PATH, func(fd int) error {
			return unix.Linkat(unix.AT_FDCWD, fdPath(fd), unix.AT_FDCWD, a[1], unix.AT_SYMLINK_FOLLOW)
		})
	})
	register("link-empty", func(a []string) (string, error) {
		return "", with(a[0], unix.O_PATH, func(fd int) error {
			return unix.Linkat(fd, "", unix.AT_FDCWD, a[1], unix.AT_EMPTY_PATH)
		})
	})
	register("mkfifo", func(a []string) (string, error) { return "", unix.Mkfifo(a[0], 0o644) })
	register("mknod-dev", func(a []string) (string, error) { // 1:3 is /dev/null
		return "", unix.Mknod(a[0], unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3)))
	})
	register("mksock", func(a []string) (string, error) { return "", unix.Mknod(a[0], unix.S_IFSOCK|0o666, 0) })
	register("exec", func(a []string) (string, error) {
		pid, err := syscall.ForkExec(a[0], a, &syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{0, 2, 2}})
		if err != nil {
			return "", err
		}
		var ws syscall.WaitStatus
		_, err = syscall.Wait4(pid, &ws, 0, nil)
		return fmt.Sprint(ws.ExitStatus()), err
	})
	register("fallocate", func(a []string) (string, error) {
		return "", with(a[0], unix.O_WRONLY, func(fd int) error { return unix.Fallocate(fd, 0, 0, 10) })
	})

	// Prefixes: another way to the same path.
	register("in", func(a []string) (string, error) { // in DIR op…
		here, err := os.Getwd()
		if err != nil {
			return "", err
		}
		if err := unix.Chdir(a[0]); err != nil {
			return "", fmt.Errorf("chdir first: %w", err)
		}
		defer unix.Chdir(here)
		return run(a[1:])
	})
	register("fd", func(a []string) (detail string, err error) { // fd PATH op…, with @ for the descriptor's path in /proc
		err = with(a[0], unix.O_PATH, func(fd int) error {
			words := append([]string{}, a[1:]...)
			for i := range words {
				words[i] = strings.ReplaceAll(words[i], "@", fdPath(fd))
			}
			var err error
			detail, err = run(words)
			return err
		})
		return detail, err
	})

	registerMetadata()
	registerDescriptors()
}

func fdPath(fd int) string { return fmt.Sprintf("/proc/self/fd/%d", fd) }

func openat2Op(flags uint64) op {
	return func(a []string) (string, error) {
		fd, err := unix.Openat2(unix.AT_FDCWD, a[0], &unix.OpenHow{Flags: flags | unix.O_CLOEXEC})
		if err != nil {
			return "", err
		}
		defer unix.Close(fd)
		if flags == unix.O_RDONLY {
			buf := make([]byte, 200)
			n, err := unix.Read(fd, buf)
			return string(buf[:max(n, 0)]), err
		}
		return "", nil
	}
}

// The times that attempts set, easy to see in a snapshot.
var stamp = []unix.Timespec{{Sec: 1000000000}, {Sec: 1000000000}}

const xattrName = "user.probe"

// aclBlob is system.posix_acl_access with rwx for everybody, as setfacl writes
// it: version 2, then (tag, permissions, id) for user, group, mask-less other.
var aclBlob = []byte{
	2, 0, 0, 0,
	0x01, 0, 7, 0, 0xff, 0xff, 0xff, 0xff,
	0x04, 0, 7, 0, 0xff, 0xff, 0xff, 0xff,
	0x20, 0, 7, 0, 0xff, 0xff, 0xff, 0xff,
}

const fsNoDump = 0x40 // FS_NODUMP_FL: the owner may set it without a capability

type fsxattr struct {
	xflags, extsize, nextents, projid, cowextsize uint32
	_                                             [8]byte
}

type fileAttr struct { // struct file_attr, Linux 6.17
	xflags                                uint64
	extsize, nextents, projid, cowextsize uint32
}

type xattrArgs struct { // struct xattr_args, Linux 6.13
	value uint64
	size  uint32
	flags uint32
}

// registerMetadata has every call that changes mode, owner, times, xattrs or
// file flags. Those that end in -ro work on a descriptor opened O_RDONLY,
// those in -empty on an O_PATH one, those in -fd on an inherited one.
func registerMetadata() {
	byPath := map[string]func(p string) error{
		"chmod": func(p string) error { // fchmodat is what libc calls; this is the old one
			return errno(rawChmod(p, 0o777))
		},
		"fchmodat": func(p string) error { return unix.Fchmodat(unix.AT_FDCWD, p, 0o777, 0) },
		"fchmodat2": func(p string) error {
			_, _, e := unix.Syscall6(sysFchmodat2, atFdcwd, cstr(p), 0o777, 0, 0, 0)
			return errno(e)
		},
		"fchownat":  func(p string) error { return unix.Fchownat(unix.AT_FDCWD, p, -1, ownGroup(), 0) },
		"chown":     func(p string) error { return errno(rawChown(p, ownGroup())) },
		"lchown":    func(p string) error { return errno(rawLchown(p, ownGroup())) },
		"utimensat": func(p string) error { return unix.UtimesNanoAt(unix.AT_FDCWD, p, stamp, 0) },
		"utimes": func(p string) error {
			return errno(rawUtimes(p, []unix.Timeval{{Sec: 1000000000}, {Sec: 1000000000}}))
		},
		"utime":           func(p string) error { return errno(rawUtime(p)) },
		"utimensat-nofol": func(p string) error { return unix.UtimesNanoAt(unix.AT_FDCWD, p, stamp, unix.AT_SYMLINK_NOFOLLOW) },
		"setxattr":        func(p string) error { return unix.Setxattr(p, xattrName, []byte("x"), 0) },
		"lsetxattr":       func(p string) error { return unix.Lsetxattr(p, xattrName, []byte("x"), 0) },
		"setxattrat": func(p string) error {
			v := []byte("x")
			args := xattrArgs{value: uint64(ptr(&v[0])), size: 1}
			_, _, e := unix.Syscall6(sysSetxattrat, atFdcwd, cstr(p), 0, cstr(xattrName), uintptr(unsafe.Pointer(&args)), unsafe.Sizeof(args))
			return errno(e)
		},
		"removexattr":  func(p string) error { return unix.Removexattr(p, "user.keep") },
		"lremovexattr": func(p string) error { return unix.Lremovexattr(p, "user.keep") },
		"removexattrat": func(p string) error {
			_, _, e := unix.Syscall6(sysRemovexattrat, atFdcwd, cstr(p), 0, cstr("user.keep"), 0, 0)
			return errno(e)
		},
		"setfacl": func(p string) error { return unix.Setxattr(p, "system.posix_acl_access", aclBlob, 0) },
		"file_setattr": func(p string) error {
			attr := fileAttr{xflags: 0x80} // FS_XFLAG_NODUMP
			_, _, e := unix.Syscall6(sysFileSetattr, atFdcwd, cstr(p), uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0, 0)
			return errno(e)
		},
	}
	for name, f := range byPath {
		register(name, func(a []string) (string, error) { return "", f(a[0]) })
	}
	byFD := map[string]func(fd int) error{
		"fchmod":    func(fd int) error { return unix.Fchmod(fd, 0o777) },
		"fchown":    func(fd int) error { return unix.Fchown(fd, -1, ownGroup()) },
		"futimens":  func(fd int) error { return futimens(fd) },
		"fsetxattr": func(fd int) error { return unix.Fsetxattr(fd, xattrName, []byte("x"), 0) },
		"fremovexattr": func(fd int) error {
			return unix.Fremovexattr(fd, "user.keep")
		},
		"setflags": func(fd int) error {
			v, err := unix.IoctlGetUint32(fd, unix.FS_IOC_GETFLAGS)
			if err != nil {
				return err
			}
			v |= fsNoDump
			_, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.FS_IOC_SETFLAGS, uintptr(unsafe.Pointer(&v)))
			return errno(e)
		},
		"fssetxattr": func(fd int) error {
			v := fsxattr{xflags: 0x80}
			_, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), 0x401c5820, uintptr(unsafe.Pointer(&v))) // FS_IOC_FSSETXATTR
			return errno(e)
		},
		// The same calls with garbage in the upper half of the request, which
		// the kernel ignores and a filter that compares 64 bits does not.
		"setflags-high": func(fd int) error {
			v, err := unix.IoctlGetUint32(fd, unix.FS_IOC_GETFLAGS)
			if err != nil {
				return err
			}
			v |= fsNoDump
			_, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.FS_IOC_SETFLAGS|1<<40, uintptr(unsafe.Pointer(&v)))
			return errno(e)
		},
	}
	for name, f := range byFD {
		register(name+"-ro", func(a []string) (string, error) { return "", with(a[0], unix.O_RDONLY, f) })
		register(name+"-fd", func(a []string) (string, error) { return "", f(atoi(a[0])) })
	}
	byEmpty := map[string]func(fd int) error{
		"fchmodat2-empty": func(fd int) error {
			_, _, e := unix.Syscall6(sysFchmodat2, uintptr(fd), cstr(""), 0o777, unix.AT_EMPTY_PATH, 0, 0)
			return errno(e)
		},
		"fchownat-empty": func(fd int) error { return unix.Fchownat(fd, "", -1, ownGroup(), unix.AT_EMPTY_PATH) },
		"utimensat-empty": func(fd int) error {
			_, _, e := unix.Syscall6(unix.SYS_UTIMENSAT, uintptr(fd), cstr(""), uintptr(unsafe.Pointer(&stamp[0])), unix.AT_EMPTY_PATH, 0, 0)
			return errno(e)
		},
		"setxattrat-empty": func(fd int) error {
			v := []byte("x")
			args := xattrArgs{value: uint64(ptr(&v[0])), size: 1}
			_, _, e := unix.Syscall6(sysSetxattrat, uintptr(fd), cstr(""), unix.AT_EMPTY_PATH, cstr(xattrName), uintptr(unsafe.Pointer(&args)), unsafe.Sizeof(args))
			return errno(e)
		},
		"file_setattr-empty": func(fd int) error {
			attr := fileAttr{xflags: 0x80}
			_, _, e := unix.Syscall6(sysFileSetattr, uintptr(fd), cstr(""), uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), unix.AT_EMPTY_PATH, 0)
			return errno(e)
		},
		"chmod-procfd": func(fd int) error { return errno(rawChmod(fdPath(fd), 0o777)) },
		"chown-procfd": func(fd int) error { return errno(rawChown(fdPath(fd), ownGroup())) },
		"utime-procfd": func(fd int) error { return unix.UtimesNanoAt(unix.AT_FDCWD, fdPath(fd), stamp, 0) },
		"xattr-procfd": func(fd int) error { return unix.Setxattr(fdPath(fd), xattrName, []byte("x"), 0) },
	}
	for name, f := range byEmpty {
		flags := unix.O_PATH
		if name == "setxattrat-empty" || name == "file_setattr-empty" {
			flags = unix.O_RDONLY // these take no O_PATH descriptor
		}
		register(name, func(a []string) (string, error) { return "", with(a[0], flags, f) })
	}
	register("dirfd-chmod", func(a []string) (string, error) {
		dir, base := filepath.Split(a[0])
		return "", with(dir, unix.O_PATH|unix.O_DIRECTORY, func(fd int) error { return unix.Fchmodat(fd, base, 0o777, 0) })
	})
}

var atFdcwd = ^uintptr(99) // AT_FDCWD, -100

func futimens(fd int) error {
	_, _, e := unix.Syscall6(unix.SYS_UTIMENSAT, uintptr(fd), 0, uintptr(unsafe.Pointer(&stamp[0])), 0, 0, 0)
	return errno(e)
}

// ownGroup is a group that the caller may give his files to: a supplementary
// one where he has one, any for root, else his own.
func ownGroup() int {
	const overflowGID = 65534 // sysctl kernel.overflowgid
	if os.Getuid() == 0 {
		return 12346
	}
	if list, err := os.Getgroups(); err == nil {
		for _, g := range list {
			if g != os.Getgid() && g != overflowGID { // one that has no number in this user namespace
				return g
			}
		}
	}
	return os.Getgid()
}

// registerDescriptors has attempts on descriptors that the probe was given.
func registerDescriptors() {
	register("fdlist", func([]string) (string, error) {
		var open []string
		for fd := 0; fd < 1024; fd++ {
			if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil {
				open = append(open, fmt.Sprint(fd))
			}
		}
		return strings.Join(open, " "), nil
	})
	register("read-fd", func(a []string) (string, error) {
		buf := make([]byte, 200)
		n, err := unix.Pread(atoi(a[0]), buf, 0)
		return string(buf[:max(n, 0)]), err
	})
	register("write-fd", func(a []string) (string, error) {
		_, err := unix.Write(atoi(a[0]), []byte(a[1]))
		return "", err
	})
	register("openat-fd", func(a []string) (string, error) {
		fd, err := unix.Openat(atoi(a[0]), a[1], unix.O_RDONLY, 0)
		if err == nil {
			unix.Close(fd)
		}
		return "", err
	})
	register("createat-fd", func(a []string) (string, error) {
		fd, err := unix.Openat(atoi(a[0]), a[1], unix.O_WRONLY|unix.O_CREAT, 0o644)
		if err == nil {
			unix.Close(fd)
		}
		return "", err
	})
	register("fchdir-fd", func(a []string) (string, error) { return "", unix.Fchdir(atoi(a[0])) })
	register("listen-fd", func(a []string) (string, error) { return "", unix.Listen(atoi(a[0]), 1) })
	register("memfd-chmod", func([]string) (string, error) {
		fd, err := unix.MemfdCreate("own", unix.MFD_CLOEXEC)
		if err != nil {
			return "", err
		}
		defer unix.Close(fd)
		return "", unix.Fchmod(fd, 0o700)
	})
	register("reopen-w-fd", func(a []string) (string, error) {
		fd, err := unix.Open(fdPath(atoi(a[0])), unix.O_WRONLY, 0)
		if err == nil {
			unix.Close(fd)
		}
		return "", err
	})
}
