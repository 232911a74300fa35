package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

func init() {
	registerProgram("f2-self", f2Self)
	registerProgram("f2-pty", f2Pty)
	registerProgram("f2-sinks", f2Sinks)
}

// f2Self looks at itself through /proc.
func f2Self(args []string) int {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return complain("maps", err)
	}
	if !strings.Contains(string(maps), "[stack]") && !strings.Contains(string(maps), "[vdso]") {
		return complain("maps", fmt.Errorf("%q", maps))
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return complain("status", err)
	}
	if want := "Pid:\t" + strconv.Itoa(os.Getpid()) + "\n"; !strings.Contains(string(status), want) {
		return complain("status", fmt.Errorf("no %q in %q", want, status))
	}
	exe, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return complain("exe", err)
	}
	if _, err := os.Stat(exe); err != nil {
		return complain("exe", err)
	}
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return complain("fd", err)
	}
	if len(fds) < 3 {
		return complain("fd", fmt.Errorf("%d descriptors", len(fds)))
	}
	for _, path := range []string{"/proc/self/task/" + strconv.Itoa(unix.Gettid()) + "/comm", "/proc/self/cgroup",
		"/proc/self/mountinfo", "/proc/self/limits", "/proc/self/cmdline", "/proc/self/environ", "/proc/thread-self/stat",
		"/proc/meminfo", "/proc/cpuinfo", "/proc/stat", "/proc/loadavg", "/proc/uptime", "/proc/filesystems", "/proc/mounts",
		"/proc/sys/kernel/osrelease", "/proc/sys/vm/overcommit_memory", "/proc/sys/net/core/somaxconn"} {
		if _, err := os.ReadFile(path); err != nil {
			return complain("read", err)
		}
	}
	fmt.Println("ok")
	return 0
}

// f2Pty opens a terminal pair, makes it raw and back, and talks over it.
func f2Pty(args []string) int {
	master, slave, err := pty.Open()
	if err != nil {
		return complain("openpty", err)
	}
	fd := int(slave.Fd())
	was, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return complain("tcgetattr", err)
	}
	raw := *was
	raw.Lflag &^= unix.ICANON | unix.ECHO | unix.ISIG
	raw.Oflag &^= unix.OPOST
	if err := unix.IoctlSetTermios(fd, unix.TCSETS, &raw); err != nil {
		return complain("tcsetattr", err)
	}
	if err := pty.Setsize(master, &pty.Winsize{Rows: 10, Cols: 20}); err != nil {
		return complain("size", err)
	}
	if _, err := master.Write([]byte("k")); err != nil {
		return complain("write", err)
	}
	buf := make([]byte, 8)
	if n, err := slave.Read(buf); err != nil || string(buf[:n]) != "k" {
		return complain("read", fmt.Errorf("%q, %v", buf[:n], err))
	}
	if err := unix.IoctlSetTermios(fd, unix.TCSETSW, was); err != nil {
		return complain("tcsetattr back", err)
	}
	// By its name, as another process would.
	again, err := os.OpenFile(slave.Name(), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return complain("open by name", err)
	}
	again.Close()
	fmt.Println("ok")
	return 0
}

// f2Sinks uses the devices that everybody uses.
func f2Sinks(args []string) int {
	if err := os.WriteFile("/dev/null", []byte("x"), 0); err != nil {
		return complain("null", err)
	}
	f, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		return complain("full", err)
	}
	if _, err := f.Write([]byte("x")); errnoName(err) != "ENOSPC" {
		return complain("full", err)
	}
	for _, name := range []string{"/dev/urandom", "/dev/random", "/dev/zero"} {
		f, err := os.Open(name)
		if err != nil {
			return complain(name, err)
		}
		if n, err := f.Read(make([]byte, 32)); n != 32 {
			return complain(name, err)
		}
		f.Close()
	}
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err == nil {
		tty.Close()
	}
	fmt.Println("tty", errnoName(err))
	return 0
}
