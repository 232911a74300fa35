package seccomp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// attempt is a system call that a victim really makes. None of them would
// change anything outside the victim if the filter failed: the arguments are
// wrong in another way, or the effect is the victim's own.
type attempt struct {
	name string
	call func() unix.Errno
	want map[string]unix.Errno // by role; a role that's missing wants success
	// same says that an ordinary user gets the same errno from the kernel
	// itself, so that the control can't tell.
	same bool
}

func raw(nr uintptr, a ...uintptr) unix.Errno {
	var x [6]uintptr
	copy(x[:], a)
	r, _, e := unix.Syscall6(nr, x[0], x[1], x[2], x[3], x[4], x[5])
	if e == 0 && nr == unix.SYS_SOCKET {
		_ = unix.Close(int(r))
	}
	return e
}

func socket(family, kind, proto int) func() unix.Errno {
	return func() unix.Errno { return raw(unix.SYS_SOCKET, uintptr(family), uintptr(kind), uintptr(proto)) }
}

func everywhere(e unix.Errno) map[string]unix.Errno {
	return map[string]unix.Errno{"none": e, "loopback": e, "full": e}
}

const junkWord = uintptr(junk)

var attempts = []attempt{
	{"unix socket", socket(unix.AF_UNIX, unix.SOCK_STREAM, 0), nil, false},
	{"route socket", socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE), nil, false},
	{"uevent socket", socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_KOBJECT_UEVENT), everywhere(unix.EACCES), false},
	{"TCP", socket(unix.AF_INET, unix.SOCK_STREAM, 0), map[string]unix.Errno{"none": unix.EACCES}, false},
	{"TCP, junk in the family's high word", func() unix.Errno {
		return raw(unix.SYS_SOCKET, unix.AF_INET|junkWord, unix.SOCK_STREAM)
	}, map[string]unix.Errno{"none": unix.EACCES}, false},
	{"UDP", socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.IPPROTO_UDP), map[string]unix.Errno{"none": unix.EACCES}, false},
	{"UDP-Lite", socket(unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_UDPLITE), everywhere(unix.EACCES), false},
	{"raw socket", socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP), everywhere(unix.EACCES), false},
	{"packet socket", socket(unix.AF_PACKET, unix.SOCK_RAW, 0), everywhere(unix.EACCES), false},
	{"kernel crypto socket", socket(unix.AF_ALG, unix.SOCK_SEQPACKET, 0), everywhere(unix.EACCES), false},
	{"vsock", socket(unix.AF_VSOCK, unix.SOCK_STREAM, 0), everywhere(unix.EACCES), false},
	{"unix pair", func() unix.Errno {
		var p [2]int32
		return raw(unix.SYS_SOCKETPAIR, unix.AF_UNIX, unix.SOCK_STREAM, 0, uintptr(unsafe.Pointer(&p)))
	}, nil, false},
	{"TIPC pair", func() unix.Errno { return raw(unix.SYS_SOCKETPAIR, unix.AF_TIPC, unix.SOCK_STREAM, 0, 0) }, everywhere(unix.EACCES), false},

	{"io_uring_setup", func() unix.Errno { return raw(unix.SYS_IO_URING_SETUP, 1, 0) }, everywhere(unix.ENOSYS), false},
	{"io_uring_enter", func() unix.Errno { return raw(unix.SYS_IO_URING_ENTER, ^uintptr(0)) }, everywhere(unix.ENOSYS), false},
	{"keyctl", func() unix.Errno { return raw(unix.SYS_KEYCTL, unix.KEYCTL_DESCRIBE, ^uintptr(0), 0, 0) }, everywhere(unix.ENOSYS), false},
	{"add_key", func() unix.Errno { return raw(unix.SYS_ADD_KEY) }, everywhere(unix.ENOSYS), false},
	{"request_key", func() unix.Errno { return raw(unix.SYS_REQUEST_KEY) }, everywhere(unix.ENOSYS), false},
	{"bpf", func() unix.Errno { return raw(unix.SYS_BPF, 0xffff, 0, 0) }, everywhere(unix.EPERM), true},
	{"perf_event_open", func() unix.Errno { return raw(unix.SYS_PERF_EVENT_OPEN) }, everywhere(unix.EPERM), false},
	{"userfaultfd", func() unix.Errno { return raw(unix.SYS_USERFAULTFD, 0xffff0000) }, everywhere(unix.EPERM), true},
	{"fanotify_init", func() unix.Errno { return raw(unix.SYS_FANOTIFY_INIT, 0xffffffff) }, everywhere(unix.EPERM), true},
	{"open_by_handle_at", func() unix.Errno { return raw(unix.SYS_OPEN_BY_HANDLE_AT, ^uintptr(0)) }, everywhere(unix.EPERM), true},
	{"fsopen", func() unix.Errno { return raw(unix.SYS_FSOPEN) }, everywhere(unix.EPERM), true},
	{"open_tree", func() unix.Errno { return raw(unix.SYS_OPEN_TREE, 0, 0, 0xffffffff) }, everywhere(unix.EPERM), false},
	{"move_mount", func() unix.Errno { return raw(unix.SYS_MOVE_MOUNT, 0, 0, 0, 0, 0xffffffff) }, everywhere(unix.EPERM), true},
	{"setns", func() unix.Errno { return raw(unix.SYS_SETNS, ^uintptr(0)) }, everywhere(unix.EPERM), false},
	{"unshare of a user namespace", func() unix.Errno { return raw(unix.SYS_UNSHARE, unix.CLONE_NEWUSER) }, everywhere(unix.EPERM), false},
	// Not CLONE_FILES: the Go runtime's other threads count on one table.
	{"unshare of the working directory", func() unix.Errno { return raw(unix.SYS_UNSHARE, unix.CLONE_FS) }, nil, false},
	// CLONE_SIGHAND without CLONE_VM is EINVAL: no process comes of it.
	{"clone with a user namespace", func() unix.Errno {
		return raw(unix.SYS_CLONE, unix.CLONE_NEWUSER|unix.CLONE_SIGHAND|junkWord)
	}, everywhere(unix.EPERM), false},
	{"clone3", func() unix.Errno { return raw(unix.SYS_CLONE3) }, everywhere(unix.ENOSYS), false},
	{"TIOCSTI", func() unix.Errno { return raw(unix.SYS_IOCTL, ^uintptr(0), unix.TIOCSTI|junkWord) }, everywhere(unix.EPERM), false},
	{"removing an encryption key", func() unix.Errno {
		return raw(unix.SYS_IOCTL, ^uintptr(0), unix.FS_IOC_REMOVE_ENCRYPTION_KEY)
	}, everywhere(unix.EPERM), false},
	{"setting the mark", func() unix.Errno {
		var now unix.Rlimit
		if e := raw(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_RTTIME, 0, uintptr(unsafe.Pointer(&now))); e != 0 {
			return unix.ENOTRECOVERABLE
		}
		return raw(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_RTTIME|junkWord, uintptr(unsafe.Pointer(&now)))
	}, everywhere(unix.EPERM), false},
	{"own priority", func() unix.Errno { return raw(unix.SYS_SETPRIORITY, unix.PRIO_PROCESS, 0, 19) }, nil, false},
	{"a group's priority", func() unix.Errno { return raw(unix.SYS_SETPRIORITY, unix.PRIO_PGRP, 0x7fffffff, 0) }, everywhere(unix.EPERM), false},
	{"adjtimex", func() unix.Errno { return raw(unix.SYS_ADJTIMEX) }, everywhere(unix.EPERM), false},
	{"lsm_set_self_attr", func() unix.Errno { return raw(unix.SYS_LSM_SET_SELF_ATTR, 0, 0, 0, 0xffffffff) }, everywhere(unix.EPERM), false},
	{"mode, left to the outer supervisor", func() unix.Errno {
		f, err := os.CreateTemp("", "seccomp")
		if err != nil {
			return unix.ENOTRECOVERABLE
		}
		defer os.Remove(f.Name())
		defer f.Close()
		return raw(unix.SYS_FCHMOD, f.Fd(), 0o600)
	}, nil, false},
	{"getppid", func() unix.Errno { return raw(unix.SYS_GETPPID) }, nil, false},
}

// tryAll makes every attempt, and gives the errnos by name.
func tryAll() map[string]int {
	got := map[string]int{}
	for _, a := range attempts {
		got[a.name] = int(a.call())
	}
	return got
}

func underFilter(o Options) (any, error) {
	if _, err := filter(o); err != nil {
		return nil, err
	}
	return tryAll(), nil
}

func TestVictim(t *testing.T) {
	control := play[map[string]int](t, "control")
	for _, role := range []string{"none", "loopback", "full"} {
		t.Run(role, func(t *testing.T) {
			got := play[map[string]int](t, role)
			for _, a := range attempts {
				want, free := a.want[role], unix.Errno(control[a.name])
				if e := unix.Errno(got[a.name]); e != want {
					t.Errorf("%s: errno %d (%s), want %d (%s)", a.name, int(e), unix.ErrnoName(e), int(want), unix.ErrnoName(want))
				}
				switch {
				case want == 0 && free != 0:
					t.Errorf("%s: errno %s without a filter: the attempt is wrong", a.name, unix.ErrnoName(free))
				case want != 0 && free == want && a.same && os.Getuid() != 0:
					t.Logf("%s: the kernel itself says %s to an ordinary user", a.name, unix.ErrnoName(want))
				case want != 0 && free == want:
					t.Errorf("%s: %s without a filter too: proves nothing here", a.name, unix.ErrnoName(want))
				}
			}
		})
	}
}

// stackAll loads every program of this architecture into the kernel, one above
// the other: it takes them all.
func stackAll() (any, error) {
	for i := range optionSets {
		prog, err := Build(optionsAt(i))
		if err != nil {
			return nil, err
		}
		if i == 0 {
			err = unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
		}
		if err == nil {
			_, err = Install(prog, false, false)
		}
		if err != nil {
			return nil, fmt.Errorf("%+v: %w", optionsAt(i), err)
		}
	}
	return raw(unix.SYS_KEYCTL), nil
}

func TestInstall_KernelTakesEveryProgram(t *testing.T) {
	if e := play[unix.Errno](t, "stack"); e != unix.ENOSYS {
		t.Errorf("keyctl under all of them: %v", e)
	}
}

func installWithoutNoNewPrivs() (any, error) {
	prog, err := Build(Options{})
	if err != nil {
		return nil, err
	}
	if os.Getuid() == 0 {
		return int(unix.EACCES), nil // CAP_SYS_ADMIN does instead: not to be tried
	}
	if v, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0); v != 0 || err != nil {
		return int(unix.EACCES), nil // inherited
	}
	_, err = Install(prog, false, false)
	var e unix.Errno
	errors.As(err, &e)
	return int(e), nil
}

func TestInstall_NeedsNoNewPrivs(t *testing.T) {
	if e := unix.Errno(play[int](t, "naked")); e != unix.EACCES {
		t.Errorf("errno %v", e)
	}
}

func TestInstall_RefusesNonsense(t *testing.T) {
	for name, f := range map[string]func() (int, error){
		"no program":                      func() (int, error) { return Install(nil, false, false) },
		"a program that is too long":      func() (int, error) { return Install(make([]Insn, maxInsns+1), false, false) },
		"waitKillable without a listener": func() (int, error) { return Install([]Insn{{opRet, 0, 0, 0}}, false, true) },
	} {
		if fd, err := f(); err == nil || fd != -1 {
			t.Errorf("%s: descriptor %d, error %v", name, fd, err)
		}
	}
}

func TestProbe_ChangesNothing(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	state := func() string {
		status, err := os.ReadFile("/proc/thread-self/status")
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(regexp.MustCompile(`(?m)^(NoNewPrivs|Seccomp).*$`).FindAllString(string(status), -1), ", ")
	}
	before := state()
	s := Probe()
	if after := state(); after != before || before == "" {
		t.Errorf("before %q, after %q", before, after)
	}
	if all := s.Filter && s.Listener && s.WaitKillable; all != (s.Reason == "") {
		t.Errorf("%+v: a reason exactly when something is missing", s)
	}
	t.Logf("%+v", s)
}

// notif and notifResp are struct seccomp_notif and seccomp_notif_resp.
type notif struct {
	id    uint64
	pid   uint32
	flags uint32
	data  Data
}

type notifResp struct {
	id    uint64
	val   int64
	errno int32
	flags uint32
}

const (
	ioctlRecv = 0xc0502100
	ioctlSend = 0xc0182101
)

type listenerResult struct {
	Errnos      map[string]int
	Served      []string // names of the calls that were notified
	SecondBusy  bool
	SecondErrno int
	PlainStacks bool
}

// underListener answers each notification by what Explain says: the errno of a
// refusal, or success without doing anything.
func underListener() (any, error) {
	fd, err := filter(Options{Listener: true})
	if err != nil {
		return nil, err
	}
	var res listenerResult
	served := make(chan string, 64)
	go func() {
		for {
			var n notif
			if _, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), ioctlRecv, uintptr(unsafe.Pointer(&n))); e != 0 {
				return
			}
			about := Explain(n.data.Nr)
			served <- about.Name
			r := notifResp{id: n.id}
			if about.Class != Supervise {
				r.errno = -int32(about.Errno)
			}
			if _, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), ioctlSend, uintptr(unsafe.Pointer(&r))); e != 0 {
				return
			}
		}
	}()
	res.Errnos = map[string]int{
		"tcp":     int(socket(unix.AF_INET, unix.SOCK_STREAM, 0)()),
		"unix":    int(socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)()),
		"setns":   int(raw(unix.SYS_SETNS, ^uintptr(0))),
		"fchmod":  int(raw(unix.SYS_FCHMOD, ^uintptr(0), 0)),
		"getppid": int(raw(unix.SYS_GETPPID)),
		"unshare": int(raw(unix.SYS_UNSHARE, unix.CLONE_NEWUSER)),
		"keyctl":  int(raw(unix.SYS_KEYCTL)),
	}
	for len(served) > 0 {
		res.Served = append(res.Served, <-served)
	}
	_, err = filter(Options{Listener: true})
	var e unix.Errno
	errors.As(err, &e)
	res.SecondBusy, res.SecondErrno = errors.Is(err, ErrListenerBusy), int(e)
	_, err = filter(Options{})
	res.PlainStacks = err == nil
	return res, nil
}

func TestInstall_Listener(t *testing.T) {
	got := play[listenerResult](t, "listener")
	want := map[string]unix.Errno{
		"tcp": unix.EACCES, "unix": 0, "setns": unix.EPERM, "fchmod": 0, "getppid": 0,
		"unshare": unix.EPERM, "keyctl": unix.ENOSYS,
	}
	for name, e := range want {
		if unix.Errno(got.Errnos[name]) != e {
			t.Errorf("%s: errno %d, want %d", name, got.Errnos[name], int(e))
		}
	}
	if seen := fmt.Sprint(len(got.Served)); seen != "4" {
		t.Errorf("notified: %v, want tcp's socket, setns, fchmod, unshare", got.Served)
	}
	if !got.SecondBusy || unix.Errno(got.SecondErrno) != unix.EBUSY {
		t.Errorf("a second listener: busy %t, errno %d", got.SecondBusy, got.SecondErrno)
	}
	if !got.PlainStacks {
		t.Error("a second filter without a listener didn't install")
	}
}

// entry is a program of a few bytes that makes one system call by one of the
// entries of amd64 and exits with its errno.
func entry(nr uint32, instruction [2]byte) []byte {
	code := []byte{0xb8}                                             // mov eax, nr
	code = binary.LittleEndian.AppendUint32(code, nr)                //
	code = append(code, instruction[:]...)                           // int 0x80, syscall
	code = append(code, 0x89, 0xc7, 0xf7, 0xdf)                      // mov edi, eax; neg edi
	code = append(code, 0xb8, 0xe7, 0, 0, 0, 0x0f, 0x05)             // exit_group(edi)
	const base, header = 0x400000, 64 + 56                           // ELF and one program header
	elf := append([]byte("\x7fELF\x02\x01\x01"), make([]byte, 9)...) // 64 bits, little-endian
	le := binary.LittleEndian
	elf = le.AppendUint16(elf, 2)  // executable
	elf = le.AppendUint16(elf, 62) // x86-64
	elf = le.AppendUint32(elf, 1)
	elf = le.AppendUint64(elf, base+header) // entry point
	elf = le.AppendUint64(elf, 64)          // program header
	elf = le.AppendUint64(elf, 0)
	elf = le.AppendUint32(elf, 0)
	for _, v := range []uint16{64, 56, 1, 0, 0, 0} {
		elf = le.AppendUint16(elf, v)
	}
	elf = le.AppendUint32(elf, 1) // load
	elf = le.AppendUint32(elf, 5) // read, execute
	size := uint64(header + len(code))
	for _, v := range []uint64{0, base, base, size, size, 0x1000} {
		elf = le.AppendUint64(elf, v)
	}
	return append(elf, code...)
}

var (
	int80   = [2]byte{0xcd, 0x80}
	syscall = [2]byte{0x0f, 0x05}
)

// sched_yield by each entry: it succeeds, and its numbers differ.
var entries = map[string][]byte{
	"syscall": entry(24, syscall),
	"int80":   entry(158, int80),
	"x32":     entry(24|0x40000000, syscall),
}

func runEntries() (map[string]int, error) {
	dir, err := os.MkdirTemp("", "entries")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	got := map[string]int{}
	for name, elf := range entries {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, elf, 0o700); err != nil {
			return nil, err
		}
		err := exec.Command(path).Run()
		exit := (*exec.ExitError)(nil)
		switch {
		case err == nil:
			got[name] = 0
		case errors.As(err, &exit):
			got[name] = exit.ExitCode() // -1: by a signal
		default:
			return nil, err
		}
	}
	return got, nil
}

func entriesUnderFilter() (any, error) {
	if _, err := filter(Options{}); err != nil {
		return nil, err
	}
	return runEntries()
}

func TestVictim_OtherEntries(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("only amd64 has other entries")
	}
	free, err := runEntries()
	if err != nil {
		t.Fatal(err)
	}
	got := play[map[string]int](t, "entries")
	if got["syscall"] != 0 || free["syscall"] != 0 {
		t.Fatalf("the plain entry: %d under the filter, %d without", got["syscall"], free["syscall"])
	}
	for _, name := range []string{"int80", "x32"} {
		t.Run(name, func(t *testing.T) {
			if got[name] != int(unix.ENOSYS) {
				t.Errorf("exit status %d under the filter, want %d (ENOSYS)", got[name], int(unix.ENOSYS))
			}
			if free[name] != 0 {
				// Most kernels are built without x32. The filter's verdict on it is
				// TestFilter_OtherEntriesHaveNoCalls's.
				t.Logf("this kernel has no such entry (exit status %d without a filter)", free[name])
			}
		})
	}
}
