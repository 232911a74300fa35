package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

func fatal(err error) int {
	fmt.Fprintln(os.Stderr, "probe:", err)
	return 1
}

func init() {
	// withfds N=KIND:ARG... -- ARGV: executes ARGV with descriptors as an
	// untidy caller leaves them. Kinds: r, w, rw, path (O_PATH), dir, tcp
	// (connected to ARG), listen (on 127.0.0.1), unix (connected to ARG).
	registerProgram("withfds", func(a []string) int {
		// All are opened first and out of the way, since the runtime has
		// descriptors of its own; from the first Dup3 on only system calls follow.
		fds := map[int]int{}
		for len(a) > 0 && a[0] != "--" {
			num, spec, _ := strings.Cut(a[0], "=")
			kind, arg, _ := strings.Cut(spec, ":")
			fd, err := untidy(kind, arg)
			if err == nil {
				fds[atoi(num)], err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 300)
				unix.Close(fd)
			}
			if err != nil {
				return fatal(fmt.Errorf("%s: %w", a[0], err))
			}
			a = a[1:]
		}
		if len(a) < 2 {
			return 2
		}
		path, err := exec.LookPath(a[1])
		if err != nil {
			return fatal(err)
		}
		env := os.Environ()
		for num, fd := range fds {
			if err := unix.Dup3(fd, num, 0); err != nil {
				return fatal(err)
			}
		}
		return fatal(unix.Exec(path, a[1:], env))
	})

	// claim FORBIDDEN ALLOWED: tries to create both and says what confines it.
	registerProgram("claim", func(a []string) int {
		try := func(path string) string {
			fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CREAT|unix.O_CLOEXEC, 0o644)
			if err == nil {
				unix.Close(fd)
			}
			return errnoName(err)
		}
		fmt.Printf("forbidden=%s allowed=%s", try(a[0]), try(a[1]))
		status, err := os.ReadFile("/proc/self/status")
		if err != nil {
			return fatal(err)
		}
		for _, line := range strings.Split(string(status), "\n") {
			k, v, _ := strings.Cut(line, ":")
			switch k {
			case "NoNewPrivs", "Seccomp", "CapEff", "CapBnd", "CapPrm", "CapInh", "CapAmb":
				fmt.Printf(" %s=%s", k, strings.TrimSpace(v))
			}
		}
		fmt.Println()
		return 0
	})

	// flip PATH TARGET: a process that outlives its parent, ignores TERM and
	// swaps the directory PATH for a link to TARGET and back until it is killed.
	registerProgram("flip", func(a []string) int {
		if len(a) == 2 {
			cmd := exec.Command("/proc/self/exe", "flip", a[0], a[1], "now")
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
			if err := cmd.Start(); err != nil {
				return fatal(err)
			}
			time.Sleep(50 * time.Millisecond)
			return 0
		}
		signal.Ignore(syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT)
		link, dir := a[0]+".link", a[0]+".dir"
		for end := time.Now().Add(10 * time.Second); time.Now().Before(end); {
			os.Symlink(a[1], link)
			os.Mkdir(a[0], 0o755)
			os.WriteFile(a[0]+"/keep", []byte("inner"), 0o644)
			os.Rename(a[0], dir)
			os.Rename(link, a[0])
			os.Rename(a[0], link)
			os.Rename(dir, a[0])
		}
		return 0
	})
}

func untidy(kind, arg string) (int, error) {
	switch kind {
	case "r":
		return unix.Open(arg, unix.O_RDONLY, 0)
	case "w":
		return unix.Open(arg, unix.O_WRONLY, 0)
	case "rw":
		return unix.Open(arg, unix.O_RDWR, 0)
	case "path":
		return unix.Open(arg, unix.O_PATH, 0)
	case "dir":
		return unix.Open(arg, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	case "tcp", "unix":
		c, err := net.Dial(kind, arg)
		if err != nil {
			return 0, err
		}
		f, err := c.(interface{ File() (*os.File, error) }).File()
		if err != nil {
			return 0, err
		}
		return unix.Dup(int(f.Fd()))
	case "listen":
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return 0, err
		}
		f, err := ln.(*net.TCPListener).File()
		if err != nil {
			return 0, err
		}
		return unix.Dup(int(f.Fd()))
	}
	return 0, fmt.Errorf("no kind %q", kind)
}

func init() {
	// serve-dgram PATH -- ARGV: swallows datagrams on PATH while ARGV runs.
	registerProgram("serve-dgram", func(a []string) int {
		unix.Unlink(a[0])
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return fatal(err)
		}
		if err := unix.Bind(fd, &unix.SockaddrUnix{Name: a[0]}); err != nil {
			return fatal(err)
		}
		go func() {
			buf := make([]byte, 100)
			for {
				if _, err := unix.Read(fd, buf); err != nil && err != unix.EINTR {
					return
				}
			}
		}()
		cmd := exec.Command(a[2], a[3:]...)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		if err := cmd.Run(); err != nil {
			return fatal(err)
		}
		return 0
	})
}
