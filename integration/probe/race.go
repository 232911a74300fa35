package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// race KIND COUNT LEGAL FORBIDDEN: one thread flips a buffer between two
// values while another calls a system call on it COUNT times. A judge that
// looks at the buffer and then lets the kernel look again is fooled sooner or
// later. It prints how often the legal and the forbidden object were had.
//
// LEGAL and FORBIDDEN are paths of the same length that differ in their last
// byte, so that the flip is one store and each look sees one or the other.
// The buffer is shared memory, so that execve in a child sees the flips, too.
func init() {
	registerProgram("race", func(a []string) int {
		kind, count, legal, forbidden := a[0], atoi(a[1]), a[2], a[3]
		if len(legal) != len(forbidden) || legal[:len(legal)-1] != forbidden[:len(forbidden)-1] {
			fmt.Fprintln(os.Stderr, "probe: the paths must differ in their last byte")
			return 2
		}
		mem, err := unix.Mmap(-1, 0, 8192, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANON)
		if err != nil {
			fmt.Fprintln(os.Stderr, "probe:", err)
			return 1
		}
		r := &racer{mem: mem, path: mem[8:], legal: legal, forbidden: forbidden}
		copy(r.path, legal)
		var stop atomic.Bool
		if kind == "openat2-how" {
			// The path stays; what flips is how it is opened.
			copy(r.path, forbidden)
			go r.flipHow(&stop)
		} else {
			go r.flipLast(&stop)
		}
		f := map[string]func() (which byte){
			"open": r.open, "openat2": r.openat2, "openat2-how": r.openHow, "execve": r.execve,
			"connect": r.connect, "sendto": r.sendto, "chmod": r.chmod, "utimes": r.utimes, "setxattr": r.setxattr,
		}[kind]
		if f == nil {
			fmt.Fprintln(os.Stderr, "probe: no race", kind)
			return 2
		}
		runtime.LockOSThread()
		var had [3]int
		for range count {
			had[f()]++
		}
		stop.Store(true)
		fmt.Printf("legal=%d forbidden=%d neither=%d\n", had[isLegal], had[isForbidden], had[isNeither])
		return 0
	})
}

const (
	isNeither byte = iota
	isLegal
	isForbidden
)

type racer struct {
	mem, path        []byte
	legal, forbidden string
}

func (r *racer) last() *byte { return &r.path[len(r.legal)-1] }

func (r *racer) flipLast(stop *atomic.Bool) {
	runtime.LockOSThread()
	p := r.last()
	a, b := r.legal[len(r.legal)-1], r.forbidden[len(r.forbidden)-1]
	for i := uint32(1); !stop.Load(); i++ {
		*p = b
		for range i % 64 { // a little out of step with the caller
		}
		*p = a
		for range i % 57 {
		}
	}
}

func (r *racer) how() *unix.OpenHow { return (*unix.OpenHow)(unsafe.Pointer(&r.mem[4096])) }

func (r *racer) flipHow(stop *atomic.Bool) {
	runtime.LockOSThread()
	p := &r.how().Flags
	for !stop.Load() {
		atomic.StoreUint64(p, unix.O_WRONLY|unix.O_CLOEXEC)
		atomic.StoreUint64(p, unix.O_RDONLY|unix.O_CLOEXEC)
	}
}

func (r *racer) ptr() uintptr { return uintptr(unsafe.Pointer(&r.path[0])) }

// content tells what was opened: the forbidden file says so.
func content(fd int) byte {
	buf := make([]byte, 9)
	n, _ := unix.Read(fd, buf)
	unix.Close(fd)
	switch {
	case string(buf[:n]) == "forbidden":
		return isForbidden
	case strings.HasPrefix(string(buf[:n]), "legal"):
		return isLegal
	}
	return isNeither
}

func (r *racer) open() byte {
	fd, _, e := unix.Syscall6(unix.SYS_OPENAT, atFdcwd, r.ptr(), unix.O_RDONLY|unix.O_CLOEXEC, 0, 0, 0)
	if e != 0 {
		return isNeither
	}
	return content(int(fd))
}

func (r *racer) openat2() byte {
	how := unix.OpenHow{Flags: unix.O_RDONLY | unix.O_CLOEXEC}
	fd, _, e := unix.Syscall6(unix.SYS_OPENAT2, atFdcwd, r.ptr(), uintptr(unsafe.Pointer(&how)), unsafe.Sizeof(how), 0, 0)
	if e != 0 {
		return isNeither
	}
	return content(int(fd))
}

func (r *racer) openHow() byte {
	fd, _, e := unix.Syscall6(unix.SYS_OPENAT2, atFdcwd, r.ptr(), uintptr(unsafe.Pointer(r.how())), unsafe.Sizeof(unix.OpenHow{}), 0, 0)
	if e != 0 {
		return isNeither
	}
	defer unix.Close(int(fd))
	if flags, err := unix.FcntlInt(fd, unix.F_GETFL, 0); err == nil && flags&unix.O_ACCMODE != unix.O_RDONLY {
		return isForbidden
	}
	return isLegal
}

// execve tells the programs apart by their exit statuses, 42 and 66.
//
//go:norace
func (r *racer) execve() byte {
	argv := [2]uintptr{r.ptr(), 0}
	env := [1]uintptr{0}
	path := r.ptr()
	pid, _, e := syscall.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if e != 0 {
		return isNeither
	}
	if pid == 0 {
		syscall.RawSyscall(unix.SYS_EXECVE, path, uintptr(unsafe.Pointer(&argv[0])), uintptr(unsafe.Pointer(&env[0])))
		syscall.RawSyscall(unix.SYS_EXIT_GROUP, 1, 0, 0)
	}
	var ws unix.WaitStatus
	unix.Wait4(int(pid), &ws, 0, nil)
	switch ws.ExitStatus() {
	case 42:
		return isLegal
	case 66:
		return isForbidden
	}
	return isNeither
}

// addr lays a sockaddr_un around the path, whose last byte is the one that flips.
func (r *racer) addr() (uintptr, uintptr) {
	*(*uint16)(unsafe.Pointer(&r.mem[6])) = unix.AF_UNIX // the two bytes before the path
	return uintptr(unsafe.Pointer(&r.mem[6])), uintptr(2 + len(r.legal) + 1)
}

func (r *racer) connect() byte {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return isNeither
	}
	defer unix.Close(fd)
	p, n := r.addr()
	if _, _, e := unix.Syscall(unix.SYS_CONNECT, uintptr(fd), p, n); e != 0 {
		return isNeither
	}
	peer, err := unix.Getpeername(fd)
	if err != nil {
		return isNeither
	}
	switch peer.(*unix.SockaddrUnix).Name {
	case r.legal:
		return isLegal
	}
	return isForbidden
}

// sendto can't see where its datagram went; the listeners outside and inside count.
func (r *racer) sendto() byte {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return isNeither
	}
	defer unix.Close(fd)
	p, n := r.addr()
	text := [1]byte{'x'}
	if _, _, e := unix.Syscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(&text[0])), 1, 0, p, n); e != 0 {
		return isNeither
	}
	return isLegal
}

// The metadata calls are judged from outside, by what the forbidden file looks
// like afterwards.
func (r *racer) chmod() byte {
	if _, _, e := unix.Syscall6(unix.SYS_FCHMODAT, atFdcwd, r.ptr(), 0o777, 0, 0, 0); e != 0 {
		return isNeither
	}
	return isLegal
}

func (r *racer) utimes() byte {
	if _, _, e := unix.Syscall6(unix.SYS_UTIMENSAT, atFdcwd, r.ptr(), uintptr(unsafe.Pointer(&stamp[0])), 0, 0, 0); e != 0 {
		return isNeither
	}
	return isLegal
}

func (r *racer) setxattr() byte {
	name, v := []byte(xattrName+"\x00"), []byte("x")
	if _, _, e := unix.Syscall6(unix.SYS_SETXATTR, r.ptr(), uintptr(unsafe.Pointer(&name[0])), uintptr(unsafe.Pointer(&v[0])), 1, 0, 0); e != 0 {
		return isNeither
	}
	return isLegal
}
