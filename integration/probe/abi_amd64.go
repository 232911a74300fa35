package main

import (
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

func int80(nr, a1, a2, a3, a4, a5 uintptr) uintptr

// low is memory that a 32-bit pointer reaches.
func low() []byte {
	b, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_32BIT)
	if err != nil {
		panic(err)
	}
	return b
}

func result32(r uintptr) (string, error) {
	v := int32(r)
	if v < 0 {
		return "", syscall.Errno(-v)
	}
	return fmt.Sprint("got ", v), nil
}

const x32Bit = 0x40000000

func init() {
	register("i386-getpid", func([]string) (string, error) { return result32(int80(20, 0, 0, 0, 0, 0)) })
	register("i386-socket", func(a []string) (string, error) {
		return result32(int80(359, uintptr(family(a[0])), uintptr(atoi(a[1])), 0, 0, 0))
	})
	register("i386-socketcall", func(a []string) (string, error) {
		mem := low()
		args := (*[3]uint32)(unsafe.Pointer(&mem[0]))
		args[0], args[1] = uint32(family(a[0])), uint32(atoi(a[1]))
		return result32(int80(102, 1, uintptr(unsafe.Pointer(&mem[0])), 0, 0, 0)) // SYS_SOCKET
	})
	register("i386-create", func(a []string) (string, error) {
		mem := low()
		copy(mem, a[0])
		return result32(int80(5, uintptr(unsafe.Pointer(&mem[0])), unix.O_WRONLY|unix.O_CREAT, 0o644, 0, 0))
	})
	register("i386-chmod", func(a []string) (string, error) {
		mem := low()
		copy(mem, a[0])
		return result32(int80(15, uintptr(unsafe.Pointer(&mem[0])), 0o777, 0, 0, 0))
	})
	register("i386-kill", func(a []string) (string, error) {
		return result32(int80(37, uintptr(atoi(a[0])), uintptr(atoi(a[1])), 0, 0, 0))
	})
	register("i386-uring", func([]string) (string, error) {
		mem := low()
		return result32(int80(425, 4, uintptr(unsafe.Pointer(&mem[0])), 0, 0, 0))
	})
	x32 := func(nr, a1, a2, a3 uintptr) (string, error) {
		r, _, e := unix.Syscall(nr|x32Bit, a1, a2, a3)
		if e != 0 {
			return "", e
		}
		return fmt.Sprint("got ", int(r)), nil
	}
	register("x32-getpid", func([]string) (string, error) { return x32(unix.SYS_GETPID, 0, 0, 0) })
	register("x32-socket", func(a []string) (string, error) {
		return x32(unix.SYS_SOCKET, uintptr(family(a[0])), uintptr(atoi(a[1])), 0)
	})
	register("x32-create", func(a []string) (string, error) {
		return x32(unix.SYS_OPEN, cstr(a[0]), unix.O_WRONLY|unix.O_CREAT, 0o644)
	})
	register("x32-chmod", func(a []string) (string, error) { return x32(unix.SYS_CHMOD, cstr(a[0]), 0o777, 0) })
	register("x32-kill", func(a []string) (string, error) {
		return x32(unix.SYS_KILL, uintptr(atoi(a[0])), uintptr(atoi(a[1])), 0)
	})
	// Numbers 512 to 547 are x32's own; before Linux 5.4 they worked without the bit, too.
	register("x32-execve-no-bit", func([]string) (string, error) {
		_, _, e := unix.Syscall(520, cstr("/nonexistent"), 0, 0)
		return "", errno(e)
	})
}
