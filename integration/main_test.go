package integration

import (
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The stages of the test binary. It re-executes itself so that the tests find
// themselves in namespaces of their own, with an init that reaps.
const (
	stageEnv  = "DSHX_IT_STAGE"
	stageInit = "init"
	stageRun  = "run"

	binEnv     = "DSHX_BIN"
	probeEnv   = "DSHX_IT_PROBE"
	baseEnv    = "DSHX_IT_BASE"
	privateEnv = "DSHX_IT_PRIVATE" // "all", "no-net", or empty: which namespaces are the tests' own
)

// The ordinary user that the tests become when they are root. There is no
// passwd entry for it, which is how a container's user often looks.
const (
	ordinaryUID   = 12345
	ordinaryGID   = 12345
	ordinaryGroup = 12346 // a supplementary group, so that chgrp has somewhere to go
)

// Addresses of the tests' own network namespace.
const ownAddress = "192.0.2.7" // TEST-NET-1, on lo

var (
	dshxBin   string // path of dshx; empty with DSHX_BIN=none
	probeBin  string // path of the probe
	baseDir   string // every Env lives below it
	isPrivate bool   // mount, PID and IPC namespaces are the tests' own
	isOwnNet  bool   // the network namespace is
	isRoot    bool
)

func TestMain(m *testing.M) {
	flag.Parse()
	switch os.Getenv(stageEnv) {
	case stageInit:
		os.Exit(runInit())
	case stageRun:
		os.Unsetenv(stageEnv)
		setGlobals()
		os.Exit(m.Run())
	}
	if f := flag.Lookup("test.list"); f != nil && f.Value.String() != "" {
		os.Exit(m.Run())
	}
	code, err := enter()
	if err != nil {
		fmt.Fprintln(os.Stderr, "integration:", err)
		os.Exit(1)
	}
	os.Exit(code)
}

func setGlobals() {
	dshxBin = os.Getenv(binEnv)
	probeBin = os.Getenv(probeEnv)
	baseDir = os.Getenv(baseEnv)
	isPrivate = os.Getenv(privateEnv) != ""
	isOwnNet = os.Getenv(privateEnv) == "all"
	isRoot = os.Getuid() == 0
	// The environment that dshx gets is built by hand, see Env.environ; what
	// is left here must not reach a child by accident.
	for _, name := range []string{binEnv, probeEnv, baseEnv, privateEnv} {
		os.Unsetenv(name)
	}
}

// enter is the first stage: build what the tests need, make a place for them,
// and run them in namespaces of their own.
func enter() (int, error) {
	base, remove, err := pickBase()
	if err != nil {
		return 1, err
	}
	defer remove()
	bin := filepath.Join(base, "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		return 1, err
	}
	probe := filepath.Join(bin, "probe")
	if err := build(probe, "./probe"); err != nil {
		return 1, err
	}
	dshx := os.Getenv(binEnv)
	switch dshx {
	case "":
		dshx = filepath.Join(bin, "dshx")
		for _, program := range []string{"dshx", "dshx-mcp"} {
			if err := build(filepath.Join(bin, program), "../cmd/"+program); err != nil {
				return 1, err
			}
		}
	case "none":
		dshx = ""
	default:
		// Copies, since every user of the tests must be able to execute them.
		for _, program := range []string{"dshx", "dshx-mcp"} {
			data, err := os.ReadFile(filepath.Join(filepath.Dir(dshx), program))
			if err != nil {
				return 1, err
			}
			if err := os.WriteFile(filepath.Join(bin, program), data, 0o755); err != nil {
				return 1, err
			}
		}
		dshx = filepath.Join(bin, "dshx")
	}

	self, err := os.Executable()
	if err != nil {
		return 1, err
	}
	root := os.Getuid() == 0
	argv, private, err := wrap(root)
	if err != nil {
		return 1, err
	}
	stage := stageInit
	if private == "" {
		stage = stageRun
	}
	argv = append(append(argv, self), os.Args[1:]...)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), stageEnv+"="+stage, binEnv+"="+dshx, probeEnv+"="+probe,
		baseEnv+"="+base, privateEnv+"="+private)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	// `go test` ends a hanging test binary with SIGQUIT; passed on, the
	// goroutines of the right process are printed.
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	runtime.LockOSThread() // Pdeathsig is the thread's death
	if err := cmd.Start(); err != nil {
		return 1, err
	}
	go func() {
		for s := range signals {
			cmd.Process.Signal(s)
		}
	}()
	err = cmd.Wait()
	var ended *exec.ExitError
	if errors.As(err, &ended) {
		if code := ended.ExitCode(); code >= 0 {
			return code, nil
		}
		return 1, err
	}
	return 0, err
}

// wrap says how to get into private namespaces. As root there is no way
// around them; an ordinary user can do without, since he endangers nothing but
// his own processes, and his tests don't use what would (kill(-1)).
func wrap(root bool) (argv []string, private string, err error) {
	common := []string{"--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "--mount-proc", "--ipc"}
	try := func(args ...string) ([]string, error) {
		argv := append([]string{"unshare"}, args...)
		out, err := exec.Command(argv[0], append(argv[1:], "true")...).CombinedOutput()
		if err != nil {
			return nil, fmt.Errorf("%s: %v: %s", strings.Join(argv, " "), err, strings.TrimSpace(string(out)))
		}
		return append(argv, "--"), nil
	}
	if root {
		if argv, err := try(append(common, "--net")...); err == nil {
			return argv, "all", nil
		}
		argv, err := try(common...)
		if err != nil {
			return nil, "", fmt.Errorf("as root the tests run in private namespaces or not at all: %w", err)
		}
		fmt.Println("integration: no network namespace of our own; tests that need one are skipped")
		return argv, "no-net", nil
	}
	// --keep-caps lets the init stage set up lo; it drops them before a test runs.
	argv, err = try(append([]string{"--user", "--map-current-user", "--keep-caps", "--net"}, common...)...)
	if err == nil {
		return argv, "all", nil
	}
	fmt.Println("integration: no private namespaces, tests that need them are skipped:", err)
	return nil, "", nil
}

// runInit is PID 1 of the namespaces: it brings up the network, runs the tests
// as its child, and reaps what they orphan.
func runInit() int {
	runtime.LockOSThread() // capabilities and their loss belong to this thread
	if os.Getenv(privateEnv) == "all" {
		if err := upLoopback(); err != nil {
			fmt.Fprintln(os.Stderr, "integration: lo:", err)
			return 1
		}
	}
	if os.Getuid() != 0 {
		// What an exec by an ordinary user keeps is the ambient set only.
		if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
			fmt.Fprintln(os.Stderr, "integration: drop ambient capabilities:", err)
			return 1
		}
	}
	os.Setenv(stageEnv, stageRun)
	self, err := os.Executable()
	if err != nil {
		fmt.Fprintln(os.Stderr, "integration:", err)
		return 1
	}
	pid, err := syscall.ForkExec(self, os.Args, &syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{0, 1, 2}})
	if err != nil {
		fmt.Fprintln(os.Stderr, "integration:", err)
		return 1
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	go func() {
		for s := range signals {
			syscall.Kill(pid, s.(syscall.Signal))
		}
	}()
	for {
		var ws syscall.WaitStatus
		p, err := syscall.Wait4(-1, &ws, 0, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "integration: wait:", err)
			return 1
		}
		if p != pid {
			continue
		}
		if ws.Signaled() {
			fmt.Fprintln(os.Stderr, "integration: the tests died of", ws.Signal())
			return 128 + int(ws.Signal())
		}
		return ws.ExitStatus()
	}
}

// upLoopback brings lo up and gives it ownAddress, a second address that is
// not a loopback one by its number.
func upLoopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	ifr, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	ifr.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, ifr); err != nil {
		return fmt.Errorf("up: %w", err)
	}
	alias, err := unix.NewIfreq("lo:1")
	if err != nil {
		return err
	}
	if err := alias.SetInet4Addr(net.ParseIP(ownAddress).To4()); err != nil {
		return err
	}
	// SetInet4Addr fills the sockaddr as SIOCSIFADDR wants it.
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCSIFADDR, uintptr(unsafe.Pointer(alias)))
	if errno != 0 {
		return fmt.Errorf("address: %w", errno)
	}
	return nil
}

// pickBase makes the directory below which every test has its workspace, its
// outside and its home. It is not below /tmp or /var/tmp, which may be private
// inside the sandbox, nor in a directory that is secret to the users of the
// tests.
func pickBase() (dir string, remove func(), err error) {
	var parents []string
	if b := os.Getenv(baseEnv); b != "" {
		parents = []string{b}
	} else if os.Getuid() == 0 {
		parents = []string{"/srv", "/opt", "/mnt", "/var/lib"}
	} else {
		if c, err := os.UserCacheDir(); err == nil {
			os.MkdirAll(c, 0o700)
			parents = append(parents, c)
		}
		parents = append(parents, "/srv", "/opt", "/mnt")
	}
	var errs []error
	for _, p := range parents {
		dir, err := os.MkdirTemp(p, "dshx-it-")
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if err := os.Chmod(dir, 0o755); err != nil {
			return "", nil, err
		}
		if dir, err = filepath.EvalSymlinks(dir); err != nil {
			return "", nil, err
		}
		return dir, func() { forceRemove(dir) }, nil
	}
	return "", nil, fmt.Errorf("no place for the tests (set %s): %w", baseEnv, errors.Join(errs...))
}

// build compiles a static program.
func build(out, pkg string) error {
	cmd := exec.Command("go", "build", "-o", out, pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if msg, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build %s: %w\n%s", pkg, err, msg)
	}
	return os.Chmod(out, 0o755)
}

// forceRemove removes a tree whatever the modes and file flags in it.
func forceRemove(dir string) {
	filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			os.Chmod(path, 0o700)
		}
		return nil
	})
	os.RemoveAll(dir)
}

// passwdName is the account's name, or the number where it has none.
func passwdName(uid int) string {
	if u, err := user.LookupId(strconv.Itoa(uid)); err == nil {
		return u.Username
	}
	return strconv.Itoa(uid)
}
