package doctor

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/dshx/dshx/sandboxpolicy"
	"golang.org/x/sys/unix"
)

// CheckCommand is the hidden command of dshx that the child is.
const CheckCommand = "__check"

// attempt is one thing that is tried inside. try must do no harm when it
// succeeds. control is the same on what the child may do; dir is a private
// directory of the child's.
type attempt struct {
	name    string
	op      sandboxpolicy.Op
	target  func(o *order) string // as for policy explain
	try     func(o *order) error
	control func(o *order, dir string) error
}

func at(name string) func(*order) string { return func(o *order) string { return o.path(name) } }

func always(s string) func(*order) string { return func(*order) string { return s } }

// attempts is made when it is called for: exec runs in the same program, and
// waits for what packages initialise.
var attempts = sync.OnceValue(func() []attempt {
	return []attempt{
		{"write a file elsewhere", sandboxpolicy.OpWrite, at("file"),
			func(o *order) error { return write(o.path("file"), 0) },
			func(_ *order, dir string) error { return write(filepath.Join(dir, "w"), unix.O_CREAT) }},
		{"make a file elsewhere", sandboxpolicy.OpCreate, at("made"),
			func(o *order) error { return makeAndRemove(o.path("made")) },
			func(_ *order, dir string) error { return makeAndRemove(filepath.Join(dir, "made")) }},
		{"read a denied file", sandboxpolicy.OpRead, at("denied"),
			func(o *order) error { return read(o.path("denied")) },
			func(o *order, _ string) error { return read(o.path("readable")) }},
		{"change a mode elsewhere", sandboxpolicy.OpChmod, at("file"),
			func(o *order) error { return unix.Chmod(o.path("file"), 0o600) },
			func(_ *order, dir string) error {
				return onFile(dir, func(p string) error { return unix.Chmod(p, 0o600) })
			}},
		{"change a mode by descriptor", sandboxpolicy.OpChmod, at("file"),
			func(o *order) error { return fchmod(o.path("file")) },
			func(_ *order, dir string) error { return onFile(dir, fchmod) }},
		{"change times elsewhere", sandboxpolicy.OpUtime, at("file"),
			func(o *order) error { return touch(o.path("file")) },
			func(_ *order, dir string) error { return onFile(dir, touch) }},
		{"connect to a socket of the host", sandboxpolicy.OpConnect, func(o *order) string { return "unix:" + o.path("stream") },
			func(o *order) error { return connect(unix.SOCK_STREAM, o.path("stream")) },
			func(_ *order, dir string) error { return ownSocket(unix.SOCK_STREAM, filepath.Join(dir, "s")) }},
		{"send to a socket of the host", sandboxpolicy.OpSend, func(o *order) string { return "unix:" + o.path("dgram") },
			func(o *order) error { return send(o.path("dgram")) },
			func(_ *order, dir string) error { return ownSocket(unix.SOCK_DGRAM, filepath.Join(dir, "d")) }},
		{"connect to an abstract socket", sandboxpolicy.OpConnect, func(o *order) string { return "unix:@" + o.Abstract },
			func(o *order) error { return connect(unix.SOCK_STREAM, "@"+o.Abstract) },
			func(o *order, _ string) error { return ownSocket(unix.SOCK_STREAM, "@"+o.Abstract+"-own") }},
		// Connecting a datagram socket sends nothing: connect(2). The address is
		// one for documentation, RFC 5737.
		{"reach the internet", sandboxpolicy.OpConnect, always("192.0.2.1:9"),
			func(*order) error {
				return connectInet(unix.SOCK_DGRAM, &unix.SockaddrInet4{Addr: [4]byte{192, 0, 2, 1}, Port: 9})
			}, socketPair},
		{"reach the host's loopback", sandboxpolicy.OpConnect, func(o *order) string { return "127.0.0.1:" + strconv.Itoa(o.Port) },
			func(o *order) error {
				return connectInet(unix.SOCK_STREAM, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}, Port: o.Port})
			}, socketPair},
		{"signal a process elsewhere", sandboxpolicy.OpSignal, victim,
			func(o *order) error { return unix.Kill(o.Victim, unix.SIGCONT) },
			func(*order, string) error {
				return withChild(func(pid int) error { return unix.Kill(pid, unix.SIGCONT) })
			}},
		{"trace a process elsewhere", sandboxpolicy.OpPtrace, victim,
			func(o *order) error { return trace(o.Victim) },
			func(*order, string) error { return withChild(trace) }},
		{"make a namespace", sandboxpolicy.OpKernel, always("/"),
			func(*order) error { return start(unix.CLONE_NEWUSER) },
			func(*order, string) error { return start(0) }},
		// The addresses are not mapped: where the call isn't refused it fails
		// before it does anything.
		{"mount", sandboxpolicy.OpMount, always("/"),
			func(*order) error { return bare(unix.SYS_MOUNT) },
			func(*order, string) error { return bare(unix.SYS_GETCWD) }},
		{"load a BPF program", sandboxpolicy.OpKernel, always("/"),
			func(*order) error { return bare(unix.SYS_BPF) },
			func(*order, string) error { return bare(unix.SYS_GETCWD) }},
	}
})

func victim(o *order) string { return "pid:" + strconv.Itoa(o.Victim) }

func write(path string, flag int) error {
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC|flag, 0o600)
	if err != nil {
		return err
	}
	_, err = unix.Write(fd, []byte("doctor\n"))
	_ = unix.Close(fd)
	return err
}

func makeAndRemove(path string) error {
	if err := write(path, unix.O_CREAT|unix.O_EXCL); err != nil {
		return err
	}
	return unix.Unlink(path)
}

func read(path string) error {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	var b [8]byte
	_, err = unix.Read(fd, b[:])
	_ = unix.Close(fd)
	return err
}

func onFile(dir string, f func(path string) error) error {
	path := filepath.Join(dir, "f")
	if err := write(path, unix.O_CREAT); err != nil {
		return err
	}
	return f(path)
}

func fchmod(path string) error {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		// The attempt is the change; a file that can't be read is no answer.
		return fmt.Errorf("the file can't be opened for reading: %v", err)
	}
	defer unix.Close(fd)
	return unix.Fchmod(fd, 0o600)
}

func touch(path string) error {
	now := unix.NsecToTimespec(time.Now().UnixNano())
	return unix.UtimesNanoAt(unix.AT_FDCWD, path, []unix.Timespec{now, now}, 0)
}

func connect(kind int, name string) error {
	fd, err := unix.Socket(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Connect(fd, &unix.SockaddrUnix{Name: name})
}

func send(name string) error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Sendto(fd, []byte("doctor"), unix.MSG_DONTWAIT, &unix.SockaddrUnix{Name: name})
}

func ownSocket(kind int, name string) error {
	fd, err := listen(unix.AF_UNIX, kind, &unix.SockaddrUnix{Name: name})
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if kind == unix.SOCK_DGRAM {
		return send(name)
	}
	return connect(kind, name)
}

func connectInet(kind int, to unix.Sockaddr) error {
	fd, err := unix.Socket(unix.AF_INET, kind|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Connect(fd, to)
}

func socketPair(*order, string) error {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		_, _ = unix.Close(fds[0]), unix.Close(fds[1])
	}
	return err
}

// withChild runs f on a process of this one's own.
func withChild(f func(pid int) error) error {
	c, err := self("wait")
	if err != nil {
		return err
	}
	in, err := c.StdinPipe()
	if err != nil {
		return err
	}
	if err := c.Start(); err != nil {
		return err
	}
	err = f(c.Process.Pid)
	_ = in.Close()
	_ = c.Process.Kill()
	_ = c.Wait()
	return err
}

func self(arg string) (*exec.Cmd, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return exec.Command(exe, CheckCommand, arg), nil
}

// trace attaches without stopping the process, and lets go: PTRACE_SEIZE,
// Linux 3.4. Both must be the same thread's.
func trace(pid int) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.PtraceSeize(pid); err != nil {
		return err
	}
	// Only a stopped tracee can be let go, ptrace(2).
	if err := unix.PtraceInterrupt(pid); err != nil {
		return nil
	}
	var ws unix.WaitStatus
	if _, err := unix.Wait4(pid, &ws, unix.WALL, nil); err == nil {
		_ = unix.PtraceDetach(pid)
	}
	return nil
}

// start starts a process that ends at once, with flags for clone(2).
func start(flags uintptr) error {
	c, err := self("exit")
	if err != nil {
		return err
	}
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags}
	return c.Run()
}

// bare makes a system call with all arguments pointing nowhere.
func bare(nr uintptr) error {
	const nowhere = ^uintptr(4095)
	_, _, e := unix.RawSyscall6(nr, nowhere, nowhere, nowhere, 0, nowhere, 0)
	if e == unix.EACCES || e == unix.EPERM || e == unix.ENOSYS {
		return e
	}
	return nil // the kernel took the call, and found nothing to do it with
}

// answer is what the child says.
type answer struct {
	Attempts []outcome `json:"attempts"`
	Controls []outcome `json:"controls"`
	Left     int       `json:"left"` // a process that it left behind, or 0
}

// Check is what the child does: without arguments every attempt, then its
// control; "wait" waits for the end of in, "exit" exits, and "linger" stays
// for a while.
func Check(in io.Reader, out io.Writer, args []string) error {
	if len(args) > 0 {
		switch args[0] {
		case "wait":
			_, err := io.Copy(io.Discard, in)
			return err
		case "linger":
			time.Sleep(checkTimeout)
		}
		return nil
	}
	var o order
	if err := json.NewDecoder(in).Decode(&o); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "check-")
	if err != nil {
		return err
	}
	var a answer
	for i := range attempts() {
		a.Attempts = append(a.Attempts, outcomeOf(attempts()[i].try(&o)))
		a.Controls = append(a.Controls, outcomeOf(attempts()[i].control(&o, dir)))
	}
	a.Left = linger()
	return json.NewEncoder(out).Encode(a)
}

// linger leaves a process behind, in a session of its own.
func linger() int {
	c, err := self("linger")
	if err != nil {
		return 0
	}
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if c.Start() != nil {
		return 0
	}
	return c.Process.Pid
}
