package supervise

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dshx/dshx/sandbox/internal/seccomp"
	"github.com/dshx/dshx/sandboxpolicy"
)

const helperEnv = "DSHX_SUPERVISE_HELPER"

// The main thread stays the main goroutine's: a goroutine that ends while
// locked to it doesn't end the thread, and the filter would never lose its
// last task.
func init() { runtime.LockOSThread() }

// TestMain makes the test binary its own confined program.
func TestMain(m *testing.M) {
	if os.Getenv(helperEnv) != "" {
		os.Exit(helper(os.Args[1:]))
	}
	os.Exit(m.Run())
}

// judge allows metadata, binds and connects below the writable directories.
type judge struct {
	writable []string
	denied   []string // paths inside writable
	net      func(op sandboxpolicy.Op, family, addr string) bool
}

func (j *judge) Verdict(op sandboxpolicy.Op, path string) sandboxpolicy.Verdict {
	in := func(dirs []string) bool {
		for _, d := range dirs {
			if path == d || strings.HasPrefix(path, d+"/") {
				return true
			}
		}
		return false
	}
	if in(j.writable) && !in(j.denied) {
		return sandboxpolicy.Verdict{Allow: true}
	}
	return sandboxpolicy.Verdict{Rule: sandboxpolicy.Rule{Text: "test", Origin: "preset"}, Remedy: "none"}
}

func (j *judge) VerdictNet(op sandboxpolicy.Op, family, addr string) sandboxpolicy.Verdict {
	return sandboxpolicy.Verdict{Allow: j.net == nil || j.net(op, family, addr)}
}

// Inside: only the sandbox's processes run under a filter.
func (j *judge) Inside(pid int) bool {
	v, ok := statusField(pid, "Seccomp:")
	return ok && string(v) == "2"
}

// sandbox is a thread under the filter and the server of its listener.
type sandbox struct {
	t      testing.TB
	judge  *judge
	server *Server
	do     chan func()
	served chan struct{}
	mu     sync.Mutex
	denied []Denial
}

func requireKernel(t testing.TB, have bool, what string) {
	t.Helper()
	if have {
		return
	}
	if os.Getenv("DSHX_REQUIRE_KERNEL") == "1" {
		t.Fatalf("this kernel lacks %s", what)
	}
	t.Skipf("this kernel lacks %s", what)
}

// dropCaps cuts root's capabilities to those that package sandbox leaves.
func dropCaps() error {
	if os.Getuid() != 0 {
		return nil
	}
	const keep = 1<<unix.CAP_CHOWN | 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_FOWNER | 1<<unix.CAP_FSETID
	for c := range unix.CAP_LAST_CAP + 1 {
		if keep>>c&1 == 0 {
			if err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(c), 0, 0, 0); err != nil {
				return err
			}
		}
	}
	h := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	d := [2]unix.CapUserData{{Effective: keep, Permitted: keep}}
	return unix.Capset(&h, &d[0])
}

func newSandbox(t testing.TB, o seccomp.Options, j *judge, change ...func(*Options)) *sandbox {
	t.Helper()
	p := seccomp.Probe()
	requireKernel(t, p.Listener, "the seccomp listener: "+p.Reason)
	o.Listener = true
	prog, err := seccomp.Build(o)
	if err != nil {
		t.Fatal(err)
	}
	s := &sandbox{t: t, judge: j, do: make(chan func()), served: make(chan struct{})}
	fd := make(chan int)
	errs := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends here
		if err := dropCaps(); err != nil {
			errs <- err
			return
		}
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			errs <- err
			return
		}
		l, err := seccomp.Install(prog, true, p.WaitKillable)
		if err != nil {
			errs <- err
			return
		}
		fd <- l
		for f := range s.do {
			f()
		}
	}()
	select {
	case err := <-errs:
		t.Fatal(err)
	case l := <-fd:
		network := map[seccomp.Net]sandboxpolicy.Network{seccomp.NetNone: sandboxpolicy.NetworkNone,
			seccomp.NetLoopback: sandboxpolicy.NetworkLoopback, seccomp.NetFull: sandboxpolicy.NetworkFull}[o.Network]
		opts := Options{Judge: j, Network: network, DropCaps: dropCaps, OnDenial: func(d Denial) {
			s.mu.Lock()
			s.denied = append(s.denied, d)
			s.mu.Unlock()
		}}
		for _, c := range change {
			c(&opts)
		}
		s.server = New(l, opts)
	}
	go func() {
		s.server.Serve()
		close(s.served)
	}()
	t.Cleanup(s.finish)
	return s
}

// finish ends the filtered thread and waits for the server.
func (s *sandbox) finish() {
	if s.do == nil {
		return
	}
	close(s.do)
	s.do = nil
	select {
	case <-s.served:
	case <-time.After(20 * time.Second):
		s.t.Error("Serve didn't return though the last filtered task is gone")
	}
	s.server.Close()
}

// start starts cmd under the filter.
func (s *sandbox) start(cmd *exec.Cmd) {
	s.t.Helper()
	errs := make(chan error)
	s.do <- func() { errs <- cmd.Start() }
	if err := <-errs; err != nil {
		s.t.Fatal(err)
	}
}

// run runs a program and returns its output.
func (s *sandbox) run(dir, name string, args ...string) (string, error) {
	s.t.Helper()
	cmd := exec.Command(name, args...)
	return s.runCmd(dir, cmd)
}

func (s *sandbox) runCmd(dir string, cmd *exec.Cmd) (string, error) {
	s.t.Helper()
	var out bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &out
	s.start(cmd)
	timer := time.AfterFunc(60*time.Second, func() { cmd.Process.Kill() })
	defer timer.Stop()
	err := cmd.Wait()
	return out.String(), err
}

// op runs operations of helper, one an argument, words separated by blanks,
// and returns the line that each printed.
func (s *sandbox) op(dir string, ops ...string) []string {
	s.t.Helper()
	cmd := exec.Command("/proc/self/exe", ops...)
	if exe, err := os.Executable(); err == nil {
		cmd.Path = exe
	}
	cmd.Env = append(os.Environ(), helperEnv+"=1", "GORACE=atexit_sleep_ms=0")
	out, err := s.runCmd(dir, cmd)
	if err != nil {
		s.t.Fatalf("helper %q: %v\n%s", ops, err, out)
	}
	return strings.Split(strings.TrimSpace(out), "\n")
}

// bareOp runs one operation without a supervisor, with the same capabilities.
func bareOp(t *testing.T, dir, op string) string {
	t.Helper()
	cmd := exec.Command(os.Args[0], op)
	cmd.Env, cmd.Dir = append(os.Environ(), helperEnv+"=1", "GORACE=atexit_sleep_ms=0"), dir
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := dropCaps()
		if err == nil {
			err = cmd.Run()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatalf("%s: %v\n%s", op, err, out.String())
	}
	return strings.TrimSpace(out.String())
}

func (s *sandbox) denials() []Denial {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Denial(nil), s.denied...)
}

// dirs are a writable directory W and another one, O, with files in each.
type dirs struct{ W, O string }

func newDirs(t testing.TB) dirs {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	d := dirs{base + "/w", base + "/o"}
	for _, dir := range []string{d.W, d.O} {
		must(t, os.MkdirAll(dir+"/sub", 0o755))
		for _, f := range []string{"/f", "/sub/g"} {
			must(t, os.WriteFile(dir+f, []byte("content"), 0o644))
		}
	}
	must(t, os.Symlink(d.O+"/f", d.W+"/to-o"))
	must(t, os.Symlink("../o/f", d.W+"/to-o-rel"))
	must(t, os.Symlink(d.O, d.W+"/dir-o"))
	must(t, os.Symlink("f", d.W+"/to-w"))
	must(t, os.Symlink(d.W+"/sub", d.W+"/dir-w"))
	must(t, os.Symlink(d.W, d.O+"/dir-w"))
	must(t, os.Symlink("loop", d.W+"/loop"))
	return d
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// state is what metadata calls could change of a file.
func state(t testing.TB, path string) string {
	t.Helper()
	var st unix.Stat_t
	must(t, unix.Lstat(path, &st))
	var names [1024]byte
	n, err := unix.Llistxattr(path, names[:])
	if err != nil {
		n = 0
	}
	return fmt.Sprintf("mode %o owner %d:%d size %d mtime %d.%d xattrs %q", st.Mode, st.Uid, st.Gid, st.Size, st.Mtim.Sec, st.Mtim.Nsec, names[:n])
}

// helper is the confined program.
func helper(ops []string) int {
	runtime.LockOSThread()
	for _, op := range ops {
		out, err := helperOp(strings.Fields(op))
		switch e := err.(type) {
		case nil:
			fmt.Println("ok" + out)
		case syscall.Errno:
			fmt.Println(unix.ErrnoName(e))
		default:
			fmt.Println(err)
		}
	}
	return 0
}

func helperOp(a []string) (string, error) {
	num := func(i int) int {
		n, err := strconv.ParseInt(a[i], 0, 64)
		if err != nil {
			panic(err)
		}
		return int(n)
	}
	// fd opens its argument; "fd:PATH" read-only, "path:PATH" O_PATH,
	// "rw:PATH" for writing; a number is itself.
	fd := func(i int) int {
		kind, path, ok := strings.Cut(a[i], ":")
		flags := map[string]int{"fd": unix.O_RDONLY, "path": unix.O_PATH, "rw": unix.O_RDWR}[kind]
		if !ok {
			if a[i] == "cwd" {
				return unix.AT_FDCWD
			}
			return num(i)
		}
		n, err := unix.Open(path, flags|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
		if err != nil {
			panic(err)
		}
		return n
	}
	str := func(i int) string {
		if a[i] == `""` {
			return ""
		}
		if p, ok := strings.CutPrefix(a[i], "@self/"); ok { // a path through /proc/self/fd
			n, err := unix.Open(p, unix.O_PATH, 0)
			if err != nil {
				panic(err)
			}
			return "/proc/self/fd/" + strconv.Itoa(n)
		}
		return a[i]
	}
	ts := []unix.Timespec{{Sec: 1000}, {Sec: 2000, Nsec: 5}}
	if f, ok := helperSocketOps[a[0]]; ok {
		return f(a)
	}
	switch a[0] {
	case "chmod":
		return "", legacyChmod(str(1), uint32(num(2)))
	case "fchmod":
		return "", unix.Fchmod(fd(1), uint32(num(2)))
	case "fchmodat":
		return "", syscall.Fchmodat(fd(1), str(2), uint32(num(3)), 0)
	case "fchmodat2":
		p, _ := unix.BytePtrFromString(str(2))
		return "", rawErr(unix.SYS_FCHMODAT2, uintptr(fd(1)), ptr(p), uintptr(num(3)), uintptr(num(4)))
	case "chown":
		return "", unix.Fchownat(unix.AT_FDCWD, str(1), num(2), num(3), 0)
	case "lchown":
		return "", unix.Lchown(str(1), num(2), num(3))
	case "fchown":
		return "", unix.Fchown(fd(1), num(2), num(3))
	case "fchownat":
		return "", unix.Fchownat(fd(1), str(2), num(3), num(4), num(5))
	case "utimensat":
		return "", unix.UtimesNanoAt(fd(1), str(2), ts, num(3))
	case "utimens-now":
		p, _ := unix.BytePtrFromString(str(1))
		return "", rawErr(unix.SYS_UTIMENSAT, atFdcwd, ptr(p), 0, 0)
	case "futimens":
		return "", rawErr(unix.SYS_UTIMENSAT, uintptr(fd(1)), 0, ptr(&ts[0]), 0)
	case "utimes":
		return "", legacyUtimes(str(1))
	case "setxattr":
		return "", unix.Setxattr(str(1), a[2], []byte(a[3]), 0)
	case "lsetxattr":
		return "", unix.Lsetxattr(str(1), a[2], []byte(a[3]), 0)
	case "fsetxattr":
		return "", unix.Fsetxattr(fd(1), a[2], []byte(a[3]), 0)
	case "bigxattr":
		return "", unix.Setxattr(str(1), a[2], make([]byte, num(3)), num(4))
	case "removexattr":
		return "", unix.Removexattr(str(1), a[2])
	case "fremovexattr":
		return "", unix.Fremovexattr(fd(1), a[2])
	case "setxattrat":
		v := []byte("v")
		args := struct {
			value       uint64
			size, flags uint32
		}{uint64(ptr(&v[0])), 1, 0}
		p, _ := unix.BytePtrFromString(str(2))
		n, _ := unix.BytePtrFromString(a[3])
		e := rawErr(unix.SYS_SETXATTRAT, uintptr(fd(1)), ptr(p), uintptr(num(4)), ptr(n), ptr(&args), 16)
		runtime.KeepAlive(v)
		return "", e
	case "setflags":
		// ext4 takes a missing FS_EXTENT_FL as a wish to convert the file to block maps,
		// which it can't always: EOPNOTSUPP.
		const extents = 0x80000
		v, had, n := int32(num(2)), int32(0), uintptr(fd(1))
		if rawErr(unix.SYS_IOCTL, n, unix.FS_IOC_GETFLAGS, ptr(&had)) == nil {
			v |= had & extents
		}
		return "", rawErr(unix.SYS_IOCTL, n, unix.FS_IOC_SETFLAGS, ptr(&v))
	case "file_setattr":
		var attr [24]byte
		p, _ := unix.BytePtrFromString(str(2))
		return "", rawErr(unix.SYS_FILE_SETATTR, uintptr(fd(1)), ptr(p), ptr(&attr[0]), 24, uintptr(num(3)))
	case "truncate":
		return "", unix.Truncate(str(1), int64(num(2)))
	case "badptr":
		return "", rawErr(unix.SYS_FCHMODAT, atFdcwd, 1, 0o600)
	case "longpath":
		return "", legacyChmod(strings.Repeat("a/", 3000), 0o600)
	case "memfd":
		n, err := unix.MemfdCreate("x", 0)
		if err != nil {
			return "", err
		}
		return "", unix.Fchmod(n, 0o600)
	case "pipe":
		var p [2]int
		if err := unix.Pipe(p[:]); err != nil {
			return "", err
		}
		return "", unix.Fchmod(p[0], 0o600)
	case "deleted":
		n, err := unix.Open(str(1), unix.O_CREAT|unix.O_RDWR, 0o600)
		if err != nil {
			return "", err
		}
		if err := unix.Link(str(1), str(2)); err != nil {
			return "", err
		}
		unix.Unlink(str(1))
		return "", unix.Fchmod(n, 0o640)
	case "umask":
		unix.Umask(num(1))
		return "", nil
	case "unshare":
		return "", unix.Unshare(num(1))
	case "chroot":
		return "", unix.Chroot(str(1))
	case "setpriority":
		return "", unix.Setpriority(unix.PRIO_PROCESS, num(1), 5)
	case "affinity":
		var set unix.CPUSet
		set.Set(0)
		return "", unix.SchedSetaffinity(num(1), &set)
	case "kill":
		return "", unix.Kill(num(1), syscall.Signal(num(2)))
	case "tgkill":
		return "", unix.Tgkill(num(1), num(1), syscall.Signal(num(2)))
	case "pidfdkill":
		p, err := unix.PidfdOpen(num(1), 0)
		if err != nil {
			return "", err
		}
		return "", unix.PidfdSendSignal(p, syscall.Signal(num(2)), nil, 0)
	case "prlimit":
		l := unix.Rlimit{Cur: 50, Max: 50}
		return "", unix.Prlimit(num(1), unix.RLIMIT_CORE, &l, nil)
	case "nodump":
		return "", unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	case "socket":
		n, err := unix.Socket(num(1), num(2), 0)
		unix.Close(n)
		return "", err
	case "resolve":
		_, err := net.LookupHost("example.invalid")
		return fmt.Sprint(" ", err), nil
	}
	panic("no operation " + a[0])
}
