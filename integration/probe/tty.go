package main

import (
	"encoding/hex"
	"fmt"
	"os/signal"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	tiocsti   = 0x5412
	tioclinux = 0x541C
)

func ioctl(fd int, req uintptr, arg unsafe.Pointer) error {
	_, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), req, uintptr(arg))
	return errno(e)
}

func init() {
	// Text to inject is given in hex, with its newline.
	sti := func(req uintptr) op {
		return func(a []string) (string, error) {
			text, err := hex.DecodeString(a[1])
			if err != nil {
				return "", err
			}
			for i := range text {
				if err := ioctl(atoi(a[0]), req, unsafe.Pointer(&text[i])); err != nil {
					return fmt.Sprint("at byte ", i), err
				}
			}
			return "", nil
		}
	}
	register("tiocsti", sti(tiocsti))
	register("tiocsti-high", sti(tiocsti|1<<40)) // the kernel looks at 32 bits only
	register("tiocsti-path", func(a []string) (detail string, err error) {
		err = with(a[0], unix.O_RDWR|unix.O_NOCTTY, func(fd int) error {
			var err error
			detail, err = sti(tiocsti)([]string{fmt.Sprint(fd), a[1]})
			return err
		})
		return detail, err
	})
	linux := func(sub byte, req uintptr) op {
		return func(a []string) (string, error) {
			buf := [16]byte{sub}
			return "", ioctl(atoi(a[0]), req, unsafe.Pointer(&buf[0]))
		}
	}
	register("tioclinux-paste", linux(3, tioclinux))
	register("tioclinux-select", linux(2, tioclinux))
	register("tioclinux-paste-high", linux(3, tioclinux|1<<40))
	// The foreground of the controlling terminal, and back.
	register("tty-foreground", func([]string) (string, error) {
		old := unix.Getpgrp()
		if err := unix.Setpgid(0, 0); err != nil {
			return "setpgid", err
		}
		signal.Ignore(unix.SIGTTOU)
		err := with("/dev/tty", unix.O_RDWR, func(fd int) error {
			if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPGRP, unix.Getpgrp()); err != nil {
				return err
			}
			return unix.IoctlSetPointerInt(fd, unix.TIOCSPGRP, old)
		})
		return "", err
	})
	register("join-group", func(a []string) (string, error) { return "", unix.Setpgid(0, atoi(a[0])) })
	register("setlease", func(a []string) (string, error) {
		return "", with(a[0], unix.O_RDONLY, func(fd int) error {
			_, err := unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_RDLCK)
			return err
		})
	})
	register("tcgets", func(a []string) (string, error) {
		t, err := unix.IoctlGetTermios(atoi(a[0]), unix.TCGETS)
		if err != nil {
			return "", err
		}
		return "", unix.IoctlSetTermios(atoi(a[0]), unix.TCSETS, t)
	})
	register("winsize", func(a []string) (string, error) {
		ws, err := unix.IoctlGetWinsize(atoi(a[0]), unix.TIOCGWINSZ)
		if err != nil {
			return "", err
		}
		return fmt.Sprint(ws.Row, "x", ws.Col), unix.IoctlSetWinsize(atoi(a[0]), unix.TIOCSWINSZ, ws)
	})
}
