package integration

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Env is one test's world, for one user: workspace W, a directory O outside of
// it on the same file system, and home H, all owned by the user. T, the run's
// private TMPDIR, exists only while a command runs; commands see it as $TMPDIR.
type Env struct {
	t    *testing.T
	Root string // holds W, O and H
	W    string
	O    string
	H    string
	UID  int
	GID  int
	Mark string // in the environment of everything that dshx starts here, see Left
}

// forEachUser runs body as an ordinary user and, where the tests are root, as
// root too. Subtests are named user and root.
func forEachUser(t *testing.T, body func(t *testing.T, e *Env)) {
	t.Helper()
	if !isRoot {
		t.Run("user", func(t *testing.T) { body(t, newEnv(t, os.Getuid(), os.Getgid())) })
		return
	}
	t.Run("user", func(t *testing.T) { body(t, newEnv(t, ordinaryUID, ordinaryGID)) })
	t.Run("root", func(t *testing.T) { body(t, newEnv(t, 0, 0)) })
}

// With is the same world for a subtest, whose failures are then its own.
func (e *Env) With(t *testing.T) *Env {
	sub := *e
	sub.t = t
	return &sub
}

var envCount atomic.Int64

// ownCaches is where, below the home, dshx has the caches that commands may
// write. Snapshots leave it out.
const ownCaches = ".cache/dshx"

func newEnv(t *testing.T, uid, gid int) *Env {
	t.Helper()
	n := envCount.Add(1)
	e := &Env{t: t, UID: uid, GID: gid, Root: filepath.Join(baseDir, fmt.Sprintf("e%d", n)),
		Mark: fmt.Sprintf("m%d-%d", os.Getpid(), n)}
	e.W, e.O, e.H = filepath.Join(e.Root, "W"), filepath.Join(e.Root, "O"), filepath.Join(e.Root, "H")
	// dshx's own caches are where an earlier run of this user has made them.
	for _, d := range []string{e.Root, e.W, e.O, e.H, filepath.Join(e.H, ".cache"), filepath.Join(e.H, ownCaches)} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(d, uid, gid); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if !t.Failed() {
			forceRemove(e.Root)
		}
	})
	return e
}

// Write makes a file (and its directories) owned by the user, with mode 0644
// unless one is given.
func (e *Env) Write(path, content string, mode ...os.FileMode) string {
	e.t.Helper()
	e.Mkdir(filepath.Dir(path))
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		e.t.Fatal(err)
	}
	if len(mode) > 0 {
		if err := os.Chmod(path, mode[0]); err != nil {
			e.t.Fatal(err)
		}
	}
	e.own(path)
	return path
}

// Mkdir makes a directory and its missing parents, owned by the user.
func (e *Env) Mkdir(path string) string {
	e.t.Helper()
	var missing []string
	for p := path; ; p = filepath.Dir(p) {
		if _, err := os.Lstat(p); err == nil || p == "/" {
			break
		}
		missing = append(missing, p)
	}
	for i := len(missing) - 1; i >= 0; i-- {
		if err := os.Mkdir(missing[i], 0o755); err != nil {
			e.t.Fatal(err)
		}
		e.own(missing[i])
	}
	return path
}

// Symlink makes a link owned by the user.
func (e *Env) Symlink(target, path string) string {
	e.t.Helper()
	if err := os.Symlink(target, path); err != nil {
		e.t.Fatal(err)
	}
	e.own(path)
	return path
}

func (e *Env) own(path string) {
	e.t.Helper()
	if err := os.Lchown(path, e.UID, e.GID); err != nil {
		e.t.Fatal(err)
	}
}

// Read returns a file's content as the tests see it, from outside.
func (e *Env) Read(path string) string {
	e.t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		e.t.Fatal(err)
	}
	return string(data)
}

// Exists tells whether something is at path, a dangling link included.
func Exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// Opts says how to run dshx. The zero value is
// `dshx exec --preset workspace-write --status-fd 3 --env IT_MARK=… -- ARGV`
// in W with a plain environment and an empty standard input.
type Opts struct {
	Preset   string            // default workspace-write
	Flags    []string          // further flags of exec, before --
	Env      []string          // added to dshx's environment; NAME alone removes one
	Stdin    io.Reader         // default: empty
	Stdout   io.Writer         // default: captured into Result.Stdout
	Dir      string            // default W
	JSON     bool              // --json instead of the status descriptor; Result.JSON
	StatusFD int               // descriptor number; default 3, -1 for none
	Files    map[int]*os.File  // further descriptors that dshx inherits
	Timeout  time.Duration     // for the whole run, default 60 s; a run that exceeds it fails the test
	Prefix   []string          // put before dshx's own argv, such as setpriv or a launcher
	NoMark   bool              // leave --env IT_MARK out
	Started  func(*os.Process) // called once dshx has been started
}

// Status is one line of --status-fd.
type Status struct {
	Event       string       `json:"event"`
	PID         int          `json:"pid"`
	Enforcement *Enforcement `json:"enforcement"`
	ExitCode    *int         `json:"exitCode"`
	Signal      *string      `json:"signal"`
	TimedOut    bool         `json:"timedOut"`
	DurationMs  float64      `json:"durationMs"`
	LeftBehind  *int         `json:"leftBehind"`
	Sandbox     *Sandbox     `json:"sandbox"`
	Error       *Error       `json:"error"`
}

// Enforcement is the contract's E.
type Enforcement struct {
	Preset     string   `json:"preset"`
	Isolation  string   `json:"isolation"`
	Level      string   `json:"level"`
	Mechanisms []string `json:"mechanisms"`
	Gaps       []Gap    `json:"gaps"`
}

// Gap is a promise that is not kept, and why.
type Gap struct {
	Promise string `json:"promise"`
	Reason  string `json:"reason"`
	Remedy  string `json:"remedy"`
}

// Has tells whether the promise is named as a gap.
func (e *Enforcement) Has(promise string) bool { return e.Gap(promise) != nil }

// Gap is the gap of a promise, or nil.
func (e *Enforcement) Gap(promise string) *Gap {
	if e == nil {
		return nil
	}
	for i := range e.Gaps {
		if e.Gaps[i].Promise == promise {
			return &e.Gaps[i]
		}
	}
	return nil
}

// Sandbox is what a result says about the sandbox.
type Sandbox struct {
	Enforcement *Enforcement `json:"enforcement"`
	Denials     []Denial     `json:"denials"`
	Notices     []Notice     `json:"notices"`
}

// Denial is the contract's D.
type Denial struct {
	Operation string `json:"operation"`
	Target    string `json:"target"`
	Resolved  string `json:"resolved"`
	Rule      struct {
		Text   string `json:"text"`
		Origin string `json:"origin"`
	} `json:"rule"`
	Evidence string `json:"evidence"`
	Remedy   string `json:"remedy"`
}

// Notice is the contract's N.
type Notice struct {
	Kind string `json:"kind"`
	Path string `json:"path"`
	Text string `json:"text"`
}

// Error is the error of a command that did not run.
type Error struct {
	Code    string         `json:"code"`
	Message string         `json:"message"`
	Details map[string]any `json:"details"`
}

// Value is what --json prints.
type Value struct {
	Kind        string   `json:"kind"`
	Argv        []string `json:"argv"`
	ArgvBase64  []string `json:"argvBase64"`
	Cwd         string   `json:"cwd"`
	ExitCode    *int     `json:"exitCode"`
	Signal      *string  `json:"signal"`
	TimedOut    bool     `json:"timedOut"`
	TimeoutMs   *float64 `json:"timeoutMs"`
	Stdout      string   `json:"stdout"`
	Stderr      string   `json:"stderr"`
	StdoutBytes int64    `json:"stdoutBytes"`
	StderrBytes int64    `json:"stderrBytes"`
	Truncated   bool     `json:"truncated"`
	Encoding    string   `json:"encoding"`
	Spill       *struct {
		Stdout   string `json:"stdout"`
		Stderr   string `json:"stderr"`
		Bytes    int64  `json:"bytes"`
		Complete bool   `json:"complete"`
	} `json:"spill"`
	DurationMs float64 `json:"durationMs"`
	LeftBehind *struct {
		JobID *string `json:"jobId"`
		PIDs  []int   `json:"pids"`
	} `json:"leftBehind"`
	Limit   json.RawMessage `json:"limit"`
	Sandbox *Sandbox        `json:"sandbox"`
	Error   *Error          `json:"error"`
}

// Result is how a run ended, as its caller sees it.
type Result struct {
	Argv     []string
	Exit     int            // exit status; -1 when a signal ended it
	Signal   syscall.Signal // 0 when none did
	Stdout   string
	Stderr   string
	Status   []Status // lines of --status-fd
	JSON     *Value   // with Opts.JSON
	Duration time.Duration
}

// String shows a result in a failure message.
func (r *Result) String() string {
	return fmt.Sprintf("%s\nexit %d signal %d after %v\nstdout: %s\nstderr: %s\nstatus: %s",
		strings.Join(r.Argv, " "), r.Exit, r.Signal, r.Duration.Round(time.Millisecond),
		clip(r.Stdout), clip(r.Stderr), mustJSON(r.Status))
}

func clip(s string) string {
	if len(s) > 4000 {
		return s[:2000] + "\n…\n" + s[len(s)-2000:]
	}
	return s
}

func mustJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// Event returns the last status line of that kind, nil if there is none.
func (r *Result) Event(kind string) *Status {
	for i := len(r.Status) - 1; i >= 0; i-- {
		if r.Status[i].Event == kind {
			return &r.Status[i]
		}
	}
	return nil
}

// Enforcement returns what the run said of its enforcement, nil if nothing.
func (r *Result) Enforcement() *Enforcement {
	if s := r.Event("started"); s != nil {
		return s.Enforcement
	}
	if r.JSON != nil && r.JSON.Sandbox != nil {
		return r.JSON.Sandbox.Enforcement
	}
	return nil
}

// Denials returns the structured denials of the run.
func (r *Result) Denials() []Denial {
	if s := r.Event("exited"); s != nil && s.Sandbox != nil {
		return s.Sandbox.Denials
	}
	if r.JSON != nil && r.JSON.Sandbox != nil {
		return r.JSON.Sandbox.Denials
	}
	return nil
}

// DshxArgv is the command line of a run, without Prefix.
func (e *Env) DshxArgv(o Opts, argv ...string) []string {
	e.t.Helper()
	needDshx(e.t)
	preset := o.Preset
	if preset == "" {
		preset = "workspace-write"
	}
	args := []string{dshxBin, "exec", "--preset", preset}
	if !o.NoMark {
		args = append(args, "--env", "IT_MARK="+e.Mark)
	}
	if o.JSON {
		args = append(args, "--json")
	} else if o.StatusFD >= 0 {
		args = append(args, "--status-fd", strconv.Itoa(e.statusFD(o)))
	}
	args = append(args, o.Flags...)
	return append(append(args, "--"), argv...)
}

func (e *Env) statusFD(o Opts) int {
	if o.StatusFD == 0 {
		return 3
	}
	return o.StatusFD
}

// Run runs a command under dshx and waits for it. It fails the test only when
// dshx can't be started or does not end.
func (e *Env) Run(o Opts, argv ...string) *Result {
	e.t.Helper()
	return e.run(o, append(append([]string{}, o.Prefix...), e.DshxArgv(o, argv...)...), !o.JSON && o.StatusFD >= 0)
}

// Sh is Run with a shell script.
func (e *Env) Sh(o Opts, script string, args ...string) *Result {
	e.t.Helper()
	return e.Run(o, append([]string{"sh", "-c", script, "sh"}, args...)...)
}

// Dshx runs dshx with arguments of the caller's own, such as doctor.
func (e *Env) Dshx(o Opts, args ...string) *Result {
	e.t.Helper()
	needDshx(e.t)
	return e.run(o, append(append(append([]string{}, o.Prefix...), dshxBin), args...), false)
}

// Outside runs the same command with the same credentials, directory and
// environment but without dshx: the control.
func (e *Env) Outside(argv ...string) *Result {
	e.t.Helper()
	return e.OutsideOpts(Opts{}, argv...)
}

// OutsideOpts is Outside with the options that make sense there.
func (e *Env) OutsideOpts(o Opts, argv ...string) *Result {
	e.t.Helper()
	return e.run(o, append(append([]string{}, o.Prefix...), argv...), false)
}

// Command is a command with the user's credentials and environment, in W.
func (e *Env) Command(o Opts, argv ...string) *exec.Cmd {
	cmd := exec.Command(argv[0], argv[1:]...)
	e.prepare(cmd, o)
	return cmd
}

func (e *Env) prepare(cmd *exec.Cmd, o Opts) {
	cmd.Dir = o.Dir
	if cmd.Dir == "" {
		cmd.Dir = e.W
	}
	cmd.Env = e.environ(o.Env)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if isRoot {
		cred := &syscall.Credential{Uid: uint32(e.UID), Gid: uint32(e.GID)}
		if e.UID != 0 {
			cred.Groups = []uint32{ordinaryGroup}
		}
		cmd.SysProcAttr.Credential = cred
	}
}

// environ is the caller's environment of dshx: small and known.
func (e *Env) environ(extra []string) []string {
	name := passwdName(e.UID)
	vars := map[string]string{
		"PATH": os.Getenv("PATH"), "HOME": e.H, "LANG": "C.UTF-8", "TERM": "xterm", "SHELL": "/bin/sh",
		"USER": name, "LOGNAME": name, "IT_MARK": e.Mark,
	}
	for _, kv := range extra {
		k, v, ok := strings.Cut(kv, "=")
		if ok {
			vars[k] = v
		} else {
			delete(vars, k)
		}
	}
	list := make([]string, 0, len(vars))
	for k, v := range vars {
		list = append(list, k+"="+v)
	}
	sort.Strings(list)
	return list
}

func (e *Env) run(o Opts, argv []string, status bool) *Result {
	e.t.Helper()
	timeout := o.Timeout
	if timeout == 0 {
		timeout = 60 * time.Second
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	e.prepare(cmd, o)
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	// What a command leaves behind may hold the pipes; the harness doesn't wait for it.
	cmd.WaitDelay = 2 * time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = o.Stdin, &stdout, &stderr
	if o.Stdout != nil {
		cmd.Stdout = o.Stdout
	}
	set := func(fd int, f *os.File) {
		for len(cmd.ExtraFiles) <= fd-3 {
			cmd.ExtraFiles = append(cmd.ExtraFiles, nil)
		}
		cmd.ExtraFiles[fd-3] = f
	}
	for fd, f := range o.Files {
		set(fd, f)
	}
	var statusText bytes.Buffer
	var reading sync.WaitGroup
	var writeEnd *os.File
	if status {
		r, w, err := os.Pipe()
		if err != nil {
			e.t.Fatal(err)
		}
		defer r.Close()
		set(e.statusFD(o), w)
		writeEnd = w
		reading.Add(1)
		go func() { defer reading.Done(); io.Copy(&statusText, r) }()
	}
	began := time.Now()
	err := cmd.Start()
	if writeEnd != nil {
		writeEnd.Close()
	}
	if err != nil {
		e.t.Fatalf("start %s: %v", strings.Join(argv, " "), err)
	}
	if o.Started != nil {
		o.Started(cmd.Process)
	}
	err = cmd.Wait()
	reading.Wait()
	res := &Result{Argv: argv, Stdout: stdout.String(), Stderr: stderr.String(), Duration: time.Since(began)}
	if ctx.Err() != nil {
		e.t.Fatalf("not ended after %v: %s", timeout, res)
	}
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) && !errors.Is(err, exec.ErrWaitDelay) {
		e.t.Fatalf("%s: %v", strings.Join(argv, " "), err)
	}
	if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok {
		res.Exit = ws.ExitStatus()
		if ws.Signaled() {
			res.Signal = ws.Signal()
		}
	}
	for _, line := range strings.Split(strings.TrimSuffix(statusText.String(), "\n"), "\n") {
		if line == "" {
			continue
		}
		var s Status
		if err := json.Unmarshal([]byte(line), &s); err != nil {
			e.t.Errorf("status line %q: %v", line, err)
		}
		res.Status = append(res.Status, s)
	}
	if o.JSON {
		res.JSON = new(Value)
		if err := json.Unmarshal(stdout.Bytes(), res.JSON); err != nil {
			e.t.Errorf("--json printed %q: %v", clip(stdout.String()), err)
		}
	}
	return res
}

// OK fails the test unless the command exited 0.
func (r *Result) OK(t *testing.T) *Result {
	t.Helper()
	if r.Exit != 0 || r.Signal != 0 {
		t.Fatalf("want exit 0: %s", r)
	}
	return r
}

// Attempt is what the probe says of one attempt.
type Attempt struct {
	Name   string `json:"name"`   // the attempt as it was asked for, without its label
	Result string `json:"result"` // "ok" or the errno's name
	Detail string `json:"detail"`
}

// Attempts is the outcome of one run of the probe, in order.
type Attempts struct {
	t    *testing.T
	Run  *Result
	List []Attempt
	by   map[string]Attempt
}

// ProbeArgv is the command line that makes the attempts in one process, one
// after the other. An attempt is "op arg…" or "label=op arg…", split at spaces.
func ProbeArgv(attempts ...string) []string {
	return append([]string{probeBin, "-json", "do"}, attempts...)
}

// Probe makes the attempts under dshx.
func (e *Env) Probe(o Opts, attempts ...string) *Attempts {
	e.t.Helper()
	return parseAttempts(e.t, e.Run(o, ProbeArgv(attempts...)...))
}

// ProbeOutside makes them without dshx.
func (e *Env) ProbeOutside(attempts ...string) *Attempts {
	e.t.Helper()
	return parseAttempts(e.t, e.Outside(ProbeArgv(attempts...)...))
}

func parseAttempts(t *testing.T, r *Result) *Attempts {
	t.Helper()
	a := &Attempts{t: t, Run: r, by: map[string]Attempt{}}
	out := r.Stdout
	if r.JSON != nil {
		out = r.JSON.Stdout
	}
	for _, line := range strings.Split(out, "\n") {
		if line == "" {
			continue
		}
		var one Attempt
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			t.Fatalf("the probe printed %q: %v\n%s", line, err, r)
		}
		a.List = append(a.List, one)
		a.by[one.Name] = one
	}
	return a
}

// Get returns an attempt by its label or text; the test fails if the probe
// never came to it.
func (a *Attempts) Get(name string) Attempt {
	a.t.Helper()
	one, ok := a.by[name]
	if !ok {
		a.t.Fatalf("the probe never came to %q: %s", name, a.Run)
	}
	return one
}

// refusals are the ways of being refused that the cases name.
var refusals = map[string]bool{"EACCES": true, "EPERM": true, "EROFS": true, "ENOENT": true, "ENOSYS": true, "ELOOP": true}

// assertDenied fails unless each attempt was made and refused. more are further
// errnos that count as a refusal here.
func assertDenied(t *testing.T, a *Attempts, names []string, more ...string) {
	t.Helper()
	for _, name := range names {
		one := a.Get(name)
		ok := refusals[one.Result]
		for _, m := range more {
			ok = ok || one.Result == m
		}
		if !ok {
			t.Errorf("%s: %s %s, want it refused", name, one.Result, one.Detail)
		}
	}
}

// assertAllowed fails unless each attempt was made and succeeded.
func assertAllowed(t *testing.T, a *Attempts, names []string) {
	t.Helper()
	for _, name := range names {
		if one := a.Get(name); one.Result != "ok" {
			t.Errorf("%s: %s %s, want ok", name, one.Result, one.Detail)
		}
	}
}

// Snapshot is what a tree looks like: for each path below its root (and "." for
// the root) mode, owner, times, links, size, xattrs, file flags, link target
// and the hash of the content.
type Snapshot map[string]string

// Snap takes a snapshot of trees, without ownCaches; keys are absolute paths.
func Snap(t *testing.T, roots ...string) Snapshot {
	t.Helper()
	s := Snapshot{}
	for _, root := range roots {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if strings.HasSuffix(path, "/"+ownCaches) {
				return fs.SkipDir
			}
			line, err := describe(path)
			s[path] = line
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func describe(path string) (string, error) {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return "", fmt.Errorf("lstat %s: %w", path, err)
	}
	line := fmt.Sprintf("mode=%o uid=%d gid=%d nlink=%d", st.Mode, st.Uid, st.Gid, st.Nlink)
	line += fmt.Sprintf(" mtime=%d.%09d", st.Mtim.Sec, st.Mtim.Nsec)
	var names [4096]byte
	if n, err := unix.Llistxattr(path, names[:]); err == nil {
		for _, name := range strings.Split(strings.TrimSuffix(string(names[:n]), "\x00"), "\x00") {
			if name == "" {
				continue
			}
			var value [4096]byte
			n, _ := unix.Lgetxattr(path, name, value[:])
			line += fmt.Sprintf(" %s=%q", name, value[:max(n, 0)])
		}
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFLNK:
		target, err := os.Readlink(path)
		if err != nil {
			return "", err
		}
		line += " -> " + target
	case unix.S_IFREG, unix.S_IFDIR:
		if f, err := os.Open(path); err == nil {
			if flags, err := unix.IoctlGetUint32(int(f.Fd()), unix.FS_IOC_GETFLAGS); err == nil {
				line += fmt.Sprintf(" flags=%x", flags)
			}
			if st.Mode&unix.S_IFMT == unix.S_IFREG {
				h := sha256.New()
				if _, err := io.Copy(h, f); err == nil {
					line += fmt.Sprintf(" size=%d sha256=%s", st.Size, hex.EncodeToString(h.Sum(nil)[:8]))
				}
			}
			f.Close()
		}
	}
	return line, nil
}

// Same fails the test with every difference from s. Reading the trees changes
// access times only, which a snapshot leaves out.
func (s Snapshot) Same(t *testing.T, now Snapshot) {
	t.Helper()
	for path, was := range s {
		is, ok := now[path]
		if !ok {
			t.Errorf("gone: %s", path)
		} else if is != was {
			t.Errorf("changed: %s\n  was %s\n  is  %s", path, was, is)
		}
	}
	for path := range now {
		if _, ok := s[path]; !ok {
			t.Errorf("new: %s (%s)", path, now[path])
		}
	}
}

// Unchanged takes a snapshot of the trees now and compares when the returned
// function is called.
func Unchanged(t *testing.T, roots ...string) func() {
	t.Helper()
	before := Snap(t, roots...)
	return func() {
		t.Helper()
		before.Same(t, Snap(t, roots...))
	}
}

// Left lists living processes that carry this Env's mark in their environment,
// dshx itself included.
func (e *Env) Left() []int { return Marked("IT_MARK=" + e.Mark) }

// Marked lists living processes (zombies are not) whose environment has the entry.
func Marked(entry string) []int {
	var pids []int
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		data, err := os.ReadFile(dir + "/environ")
		if err != nil {
			continue
		}
		if strings.Contains("\x00"+string(data), "\x00"+entry+"\x00") {
			pid, _ := strconv.Atoi(filepath.Base(dir))
			pids = append(pids, pid)
		}
	}
	return pids
}

// NothingLeft fails the test when processes of the Env live longer than within.
func (e *Env) NothingLeft(within time.Duration) {
	e.t.Helper()
	var pids []int
	for deadline := time.Now().Add(within); ; time.Sleep(10 * time.Millisecond) {
		if pids = e.Left(); len(pids) == 0 {
			return
		}
		if time.Now().After(deadline) {
			break
		}
	}
	for _, pid := range pids {
		cmdline, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		e.t.Errorf("left: %d %s", pid, bytes.ReplaceAll(cmdline, []byte{0}, []byte{' '}))
	}
}

// Alive tells whether a process lives; a zombie doesn't.
func Alive(pid int) bool {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(data), ") ")
	f := strings.Fields(rest)
	// Of a process that ended its first thread only, the others (field 20) live on.
	return len(f) > 17 && (f[0] != "Z" && f[0] != "X" || f[17] != "0" && f[17] != "1")
}

// eventually waits for a condition.
func eventually(t *testing.T, within time.Duration, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(within); !cond(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", within, what)
		}
	}
}

// Background starts a command with the user's credentials outside of the
// sandbox, kills it at the end of the test and returns its process. It has no
// mark, so that Left does not count it.
func (e *Env) Background(argv ...string) *exec.Cmd {
	e.t.Helper()
	cmd := e.Command(Opts{Env: []string{"IT_MARK"}}, argv...)
	if err := cmd.Start(); err != nil {
		e.t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { cmd.Wait(); close(done) }()
	e.t.Cleanup(func() { cmd.Process.Kill(); <-done })
	return cmd
}

// Tool returns the path of a program that the user of e can run, and skips the
// test when there is none.
func (e *Env) Tool(name string) string {
	e.t.Helper()
	if path := e.HasTool(name); path != "" {
		return path
	}
	skipTool(e.t, name)
	return ""
}

// HasTool returns the path of a program that the user of e can run, or "".
func (e *Env) HasTool(name string) string {
	e.t.Helper()
	r := e.Outside("sh", "-c", `p=$(command -v "$1") && [ -x "$p" ] && printf %s "$p"`, "sh", name)
	if r.Exit != 0 {
		return ""
	}
	return r.Stdout
}

// Doctor returns what doctor says of a preset.
func (e *Env) Doctor(preset string) *Enforcement {
	e.t.Helper()
	r := e.Dshx(Opts{}, "doctor", "--json")
	var d struct {
		Enforcement map[string]*Enforcement `json:"enforcement"`
	}
	if err := json.Unmarshal([]byte(r.Stdout), &d); err != nil {
		e.t.Fatalf("doctor --json: %v: %s", err, r)
	}
	if d.Enforcement[preset] == nil {
		e.t.Fatalf("doctor says nothing of %s: %s", preset, r)
	}
	return d.Enforcement[preset]
}

// needDshx skips what can't be tested without the program.
func needDshx(t *testing.T) {
	t.Helper()
	if dshxBin == "" {
		skip(t, "%s=none", binEnv)
	}
}

// skipKernel skips for want of a kernel feature, which DSHX_REQUIRE_KERNEL=1
// does not let pass.
func skipKernel(t *testing.T, format string, args ...any) {
	t.Helper()
	if os.Getenv("DSHX_REQUIRE_KERNEL") == "1" {
		t.Fatalf("DSHX_REQUIRE_KERNEL=1: "+format, args...)
	}
	skip(t, format, args...)
}

// skipTool skips for want of a program.
func skipTool(t *testing.T, name string) {
	t.Helper()
	skip(t, "no %s that this user can run", name)
}

// skip says why on standard output, without -v too.
func skip(t *testing.T, format string, args ...any) {
	t.Helper()
	fmt.Printf("SKIP %s: %s\n", t.Name(), fmt.Sprintf(format, args...))
	t.SkipNow()
}

func itoa(n int) string { return strconv.Itoa(n) }

// peakOf follows how much memory a process has at most, in KiB, until it ends or
// peak is called. The rusage of a process won't do: it holds what the process had
// before execve(2), which between vfork and there is the test's own memory
// (exec_mmap in fs/exec.c).
func peakOf(cmd *exec.Cmd) (peak func() int) {
	status := fmt.Sprintf("/proc/%d/status", cmd.Process.Pid)
	most := 0
	look := func() bool {
		text, _ := os.ReadFile(status)
		_, after, found := strings.Cut(string(text), "VmHWM:") // one that has ended has none
		if found {
			n, _ := strconv.Atoi(strings.Fields(after)[0])
			most = max(most, n)
		}
		return found
	}
	stop, done := make(chan struct{}), make(chan struct{})
	there := look() // before it can have ended
	go func() {
		defer close(done)
		for there {
			select {
			case <-stop:
				return
			case <-time.After(10 * time.Millisecond):
				there = look()
			}
		}
	}()
	return func() int {
		close(stop)
		<-done
		return most
	}
}
