package main

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// f3Argv prints every argument in hexadecimal, one a line, so that empty
// strings, newlines and bytes that are not UTF-8 can be told apart.
func f3Argv(args []string) int {
	var b strings.Builder
	for _, arg := range args {
		b.WriteString(hex.EncodeToString([]byte(arg)))
		b.WriteByte('\n')
	}
	if _, err := io.WriteString(os.Stdout, b.String()); err != nil {
		return f3Fail("argv: %v", err)
	}
	return 0
}

// f3Signals handles the named signals, prints "ready", then a line for each
// signal it gets, and ends at the signal given by -until:
//
//	f3-signals [-until TERM] [-exit 7] [-touch FILE] NAME...
//
// For WINCH the line carries the size of the terminal on standard input.
func f3Signals(args []string) int {
	until, exit, touch := unix.SIGTERM, 0, ""
	for len(args) > 1 && strings.HasPrefix(args[0], "-") {
		switch args[0] {
		case "-until":
			until = f3Signal(args[1])
		case "-exit":
			exit = f3Int(args[1])
		case "-touch":
			touch = args[1]
		default:
			return f3Fail("signals: unknown option %s", args[0])
		}
		args = args[2:]
	}
	ch := make(chan os.Signal, 64)
	signal.Notify(ch, until)
	for _, name := range args {
		signal.Notify(ch, f3Signal(name))
	}
	fmt.Println("ready")
	// A test that failed half-way must not leave this process behind.
	deadline := time.After(60 * time.Second)
	for {
		select {
		case <-deadline:
			return f3Fail("signals: nothing for too long")
		case got := <-ch:
			sig := got.(unix.Signal)
			if sig == unix.SIGWINCH {
				rows, cols := f3Size()
				fmt.Printf("got SIGWINCH %d %d\n", rows, cols)
			} else {
				fmt.Printf("got %s\n", unix.SignalName(sig))
			}
			if sig == until {
				if touch != "" {
					if err := os.WriteFile(touch, []byte("cleaned\n"), 0o600); err != nil {
						return f3Fail("signals: %v", err)
					}
				}
				return exit
			}
		}
	}
}

func f3Size() (rows, cols int) {
	ws, err := unix.IoctlGetWinsize(0, unix.TIOCGWINSZ)
	if err != nil {
		return -1, -1
	}
	return int(ws.Row), int(ws.Col)
}

// f3Tty changes the terminal on standard input and then does what the mode
// says: "raw-kill" dies of SIGKILL, "raw-hang" prints "ready" and waits to be
// killed, "nonblock-exit" sets O_NONBLOCK on 0, 1 and 2 and exits 0,
// "hide-kill" also hides the cursor, "raw-exit" exits 0.
func f3Tty(args []string) int {
	if len(args) != 1 {
		return f3Fail("tty: one mode")
	}
	raw := func() error {
		t, err := unix.IoctlGetTermios(0, unix.TCGETS)
		if err != nil {
			return err
		}
		t.Iflag &^= unix.IGNBRK | unix.BRKINT | unix.PARMRK | unix.ISTRIP | unix.INLCR | unix.IGNCR | unix.ICRNL | unix.IXON
		t.Oflag &^= unix.OPOST
		t.Lflag &^= unix.ECHO | unix.ECHONL | unix.ICANON | unix.ISIG | unix.IEXTEN
		return unix.IoctlSetTermios(0, unix.TCSETS, t)
	}
	switch args[0] {
	case "raw-kill", "raw-hang", "raw-exit", "hide-kill":
		if err := raw(); err != nil {
			return f3Fail("tty: %v", err)
		}
	case "nonblock-exit":
		for fd := range 3 {
			if err := unix.SetNonblock(fd, true); err != nil {
				return f3Fail("tty: %v", err)
			}
		}
		return 0
	default:
		return f3Fail("tty: unknown mode %s", args[0])
	}
	switch args[0] {
	case "hide-kill":
		fmt.Print("\x1b[?25l\x1b[?1049h\x1b[?2004h")
		_ = unix.Kill(os.Getpid(), unix.SIGKILL)
	case "raw-kill":
		_ = unix.Kill(os.Getpid(), unix.SIGKILL)
	case "raw-hang":
		fmt.Print("ready\r\n")
		time.Sleep(60 * time.Second)
	}
	return 0
}

// f3Fds prints a line for each open descriptor below 4096: number, type,
// device, inode, status flags and target. It asks for each number instead of
// reading /proc/self/fd, so that it opens nothing itself.
func f3Fds([]string) int {
	var b strings.Builder
	for fd := range 4096 {
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
		if err != nil {
			continue
		}
		// The runtime's own poller and its wake-up descriptor aren't inherited:
		// they are close-on-exec, which nothing inherited can be after an exec.
		if cloexec, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || cloexec&unix.FD_CLOEXEC != 0 {
			continue
		}
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			return f3Fail("fds: %d: %v", fd, err)
		}
		target, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
		if err != nil {
			target = "?"
		}
		fmt.Fprintf(&b, "%d %o %d %d %o %s\n", fd, st.Mode&unix.S_IFMT, st.Dev, st.Ino, flags, target)
	}
	// With standard output closed the list goes to whatever file the caller named.
	if out := os.Getenv("F3_FDS_OUT"); out != "" {
		if err := os.WriteFile(out, []byte(b.String()), 0o600); err != nil {
			return 98
		}
		return 0
	}
	if _, err := io.WriteString(os.Stdout, b.String()); err != nil {
		return f3Fail("fds: %v", err)
	}
	return 0
}

// f3Write writes as many bytes as asked to standard output: a 64-bit counter,
// little endian, so that a reader can check every byte. It dies of SIGPIPE
// like any other program.
//
//	f3-write BYTES
func f3Write(args []string) int {
	if len(args) != 1 {
		return f3Fail("write: a number of bytes")
	}
	total := f3Int(args[0])
	buf := make([]byte, 64<<10)
	for off := 0; off < total; {
		for i := 0; i < len(buf); i += 8 {
			binary.LittleEndian.PutUint64(buf[i:], uint64((off+i)/8))
		}
		n, err := os.Stdout.Write(buf[:min(len(buf), total-off)])
		off += n
		if err != nil {
			return f3Fail("write: %v", err)
		}
	}
	return 0
}

// f3Flags prints the status flags of descriptors 0, 1 and 2 and the settings
// of the terminal on 0: what a program must leave as it found it.
func f3Flags([]string) int {
	var b strings.Builder
	for fd := range 3 {
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
		fmt.Fprintf(&b, "fd%d=%o,%v ", fd, flags, err)
	}
	if t, err := unix.IoctlGetTermios(0, unix.TCGETS); err == nil {
		fmt.Fprintf(&b, "tty=%x:%x:%x:%x:%x", t.Iflag, t.Oflag, t.Cflag, t.Lflag, t.Cc)
	}
	fmt.Println(b.String())
	return 0
}

// f3Orphans starts short-lived grandchildren whose parents are gone at once, so
// that whoever is the reaper has to wait for them, prints "ready" and waits
// for a line on standard input.
//
//	f3-orphans N
func f3Orphans(args []string) int {
	if len(args) != 1 {
		return f3Fail("orphans: a number")
	}
	for range f3Int(args[0]) {
		p, err := os.StartProcess("/bin/sh", []string{"sh", "-c", "sh -c : & exit 0"},
			&os.ProcAttr{Env: os.Environ(), Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}})
		if err != nil {
			return f3Fail("orphans: %v", err)
		}
		if _, err := p.Wait(); err != nil {
			return f3Fail("orphans: %v", err)
		}
	}
	fmt.Println("ready")
	var line [1]byte
	_, _ = os.Stdin.Read(line[:])
	return 0
}

func init() {
	registerProgram("f3-argv", f3Argv)
	registerProgram("f3-daemon", f3Daemon)
	registerProgram("f3-fds", f3Fds)
	registerProgram("f3-flags", f3Flags)
	registerProgram("f3-launch", f3Launch)
	registerProgram("f3-orphans", f3Orphans)
	registerProgram("f3-signals", f3Signals)
	registerProgram("f3-storm", f3Storm)
	registerProgram("f3-tty", f3Tty)
	registerProgram("f3-write", f3Write)
}
