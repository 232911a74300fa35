package doctor

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/dshx/dshx/sandboxpolicy"
	"golang.org/x/sys/unix"
)

// order is what the child is told.
type order struct {
	Dir      string `json:"dir"`      // what doctor made, all of it
	Victim   int    `json:"victim"`   // a process outside
	Abstract string `json:"abstract"` // an abstract socket outside, without its NUL
	Port     int    `json:"port"`     // a TCP listener of doctor's on 127.0.0.1
}

func (o *order) path(name string) string { return filepath.Join(o.Dir, name) }

// bench is what the attempts are made on. It belongs to this run alone.
type bench struct {
	order
	fds    []int
	victim *exec.Cmd
	hold   io.Closer

	tried map[int]outcome // the attempts without a sandbox
}

func newBench() (*bench, error) {
	b := &bench{tried: map[int]outcome{}}
	if err := b.make(); err != nil {
		b.close()
		return nil, err
	}
	return b, nil
}

func (b *bench) make() (err error) {
	if b.Dir, err = shortDir(); err != nil {
		return err
	}
	if err := os.Mkdir(b.path("workspace"), 0o700); err != nil {
		return err
	}
	for _, name := range [...]string{"file", "denied", "readable"} {
		if err := os.WriteFile(b.path(name), []byte("doctor\n"), 0o600); err != nil {
			return err
		}
	}
	b.Abstract = "dshx-doctor-" + strconv.FormatUint(rand.Uint64(), 36)
	for _, s := range [...]struct {
		kind int
		name string
	}{{unix.SOCK_STREAM, b.path("stream")}, {unix.SOCK_DGRAM, b.path("dgram")}, {unix.SOCK_STREAM, "@" + b.Abstract}} {
		fd, err := listen(unix.AF_UNIX, s.kind, &unix.SockaddrUnix{Name: s.name})
		if err != nil {
			return err
		}
		b.fds = append(b.fds, fd)
	}
	if err := b.listenTCP(); err != nil {
		return err
	}
	return b.startVictim()
}

// shortDir makes a directory whose path leaves room for the name of a socket in
// it: sun_path has 108 bytes (unix(7)), and a TMPDIR may have more.
func shortDir() (string, error) {
	var first error
	for _, parent := range [...]string{"", "/var/tmp", "/tmp"} {
		dir, err := os.MkdirTemp(parent, "dshx-doctor-")
		if err == nil {
			var real string
			if real, err = filepath.EvalSymlinks(dir); err == nil && len(real) < 90 {
				return real, nil
			}
			_ = os.RemoveAll(dir)
			if err == nil {
				err = fmt.Errorf("%s is too long for the name of a socket; set TMPDIR to a shorter one", real)
			}
		}
		if first == nil {
			first = err
		}
	}
	return "", first
}

func listen(family, kind int, addr unix.Sockaddr) (int, error) {
	fd, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	if err = unix.Bind(fd, addr); err == nil && kind == unix.SOCK_STREAM {
		err = unix.Listen(fd, 8)
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// listenTCP makes the listener on the loopback interface. Where there is none,
// as inside another sandbox, port 9 (discard) stands in: nobody is asked.
func (b *bench) listenTCP() error {
	fd, err := listen(unix.AF_INET, unix.SOCK_STREAM, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})
	if err != nil {
		b.Port = 9
		return nil
	}
	b.fds = append(b.fds, fd)
	addr, err := unix.Getsockname(fd)
	if err != nil {
		return err
	}
	in, ok := addr.(*unix.SockaddrInet4)
	if !ok {
		return errors.New("the loopback listener has no IPv4 address")
	}
	b.Port = in.Port
	return nil
}

// startVictim starts a process that waits for its standard input to end.
func (b *bench) startVictim() error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	b.victim = exec.Command(exe, CheckCommand, "wait")
	if b.hold, err = b.victim.StdinPipe(); err != nil {
		return err
	}
	if err := b.victim.Start(); err != nil {
		return err
	}
	b.Victim = b.victim.Process.Pid
	return nil
}

func (b *bench) close() {
	if b.hold != nil {
		_ = b.hold.Close()
	}
	if b.victim != nil && b.victim.Process != nil {
		_ = b.victim.Process.Kill()
		_ = b.victim.Wait()
	}
	for _, fd := range b.fds {
		_ = unix.Close(fd)
	}
	if b.Dir != "" {
		_ = os.RemoveAll(b.Dir)
	}
}

// outside is attempt i without a sandbox, in doctor itself.
func (b *bench) outside(i int) outcome {
	if o, ok := b.tried[i]; ok {
		return o
	}
	o := outcomeOf(attempts()[i].try(&b.order))
	b.tried[i] = o
	return o
}

// outcome is how an attempt went.
type outcome struct {
	Refused bool   `json:"refused"`
	Err     string `json:"err"` // "": it succeeded
}

// outcomeOf tells a refusal from other errors: those that sandboxes, and
// permissions, answer with.
func outcomeOf(err error) outcome {
	if err == nil {
		return outcome{}
	}
	refused := errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS)
	return outcome{refused, err.Error()}
}

func (o outcome) text() *string {
	if o.Err == "" {
		return nil
	}
	return &o.Err
}

// leftBehind tells whether a process that the child left behind has ended
// with the policy.
func leftBehind(pid int) Result {
	r := Result{Name: "outlive the command", Operation: sandboxpolicy.OpKernel, Target: "pid:" + strconv.Itoa(pid), Verdict: "deny", Refused: true, Status: StatusHeld}
	switch {
	case pid <= 0:
		note := "no process could be left behind"
		r.Status, r.Note = StatusInconclusive, &note
	case isCheck(pid):
		note := "a process that was left behind is still there"
		r.Refused, r.Status, r.Note = false, StatusContradiction, &note
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	return r
}

// isCheck reports whether pid is a live process of doctor's: its number may
// be another's by now.
func isCheck(pid int) bool {
	for range 20 { // SIGKILL is not at once
		cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err != nil || !strings.Contains(string(cmdline), "\x00"+CheckCommand+"\x00") {
			return false
		}
		time.Sleep(10 * time.Millisecond)
	}
	return true
}
