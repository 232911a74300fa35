package sandbox

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The test binary is the program that runs inside: it does what it is told on
// standard input and says how each thing went.
func TestMain(m *testing.M) {
	if os.Getenv("DSHX_SANDBOX_HELPER") == "" {
		os.Exit(m.Run())
	}
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		op, path, _ := strings.Cut(in.Text(), "\t")
		if err := attempt(op, path); err != nil {
			fmt.Printf("%v\n", err)
		} else {
			fmt.Println("ok")
		}
	}
}

// attempt performs one operation of a policy on a path.
func attempt(op, path string) error {
	switch op {
	case "read":
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = f.Read(make([]byte, 1))
		return err
	case "write":
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		_, err = f.Write([]byte("w"))
		f.Close()
		return err
	case "create":
		f, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err == nil {
			f.Close()
		}
		return err
	case "delete":
		return os.Remove(path)
	case "rename":
		return os.Rename(path, path+".renamed")
	case "link":
		return os.Link(path, path+".link")
	case "truncate":
		return os.Truncate(path, 0)
	case "chmod":
		return os.Chmod(path, 0o640)
	case "chown":
		return os.Lchown(path, os.Getuid(), os.Getgid())
	case "utime":
		return unix.Utimes(path, []unix.Timeval{{Sec: 1}, {Sec: 1}})
	case "xattr":
		return unix.Setxattr(path, "user.dshx", []byte("x"), 0)
	case "exec":
		return exec.Command(path).Run()
	case "async", "async-ioctl", "nonblock":
		return signalByTerminal(op, path)
	}
	return fmt.Errorf("unknown operation %q", op)
}

// signalByTerminal asks for a signal when the terminal has input, without saying
// to whom, and keeps it open until there was some.
func signalByTerminal(op, path string) error {
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil {
		return err
	}
	switch op {
	case "async":
		_, err = unix.FcntlInt(uintptr(fd), unix.F_SETSIG, int(unix.SIGKILL))
		if _, e := unix.FcntlInt(uintptr(fd), unix.F_SETFL, flags|unix.O_ASYNC); e != nil {
			err = e
		}
	case "async-ioctl":
		const fioAsync = 0x5452 // asm-generic/ioctls.h
		err = unix.IoctlSetPointerInt(fd, fioAsync, 1)
	case "nonblock":
		_, err = unix.FcntlInt(uintptr(fd), unix.F_SETFL, flags|unix.O_NONBLOCK)
	}
	time.Sleep(time.Second) // on a loaded machine the other side may not type for a while
	return err
}
