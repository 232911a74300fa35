package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/creack/pty"
	"github.com/dshx/dshx/sandbox/internal/nofile"
	"github.com/dshx/dshx/sandbox/internal/proctree"
	"github.com/dshx/dshx/sandbox/internal/spawn"
	"github.com/dshx/dshx/sandboxpolicy"
	"golang.org/x/sys/unix"
)

// DefaultKillAfter is how long a tree has between SIGTERM and SIGKILL.
const DefaultKillAfter = 5 * time.Second

// Cmd is a command being prepared or run. Its fields have the meaning of
// os/exec's unless said otherwise, and may not change after Start.
type Cmd struct {
	// Path is the program, found in the PATH that the command will see. Args
	// is its argument vector, passed on byte for byte.
	Path string
	Args []string
	// Env is the environment; nil: the policy's.
	Env []string
	// Dir is where the command starts; "": the policy's Cwd.
	Dir string

	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// ExtraFiles become descriptors 3 and up. PassFD are descriptors of this
	// process that the command gets under the same numbers, instead.
	ExtraFiles []*os.File
	PassFD     []int

	// Session makes the command the leader of a session of its own: it has no
	// controlling terminal, the caller's included, and is in nobody's process
	// group. With Terminal it makes no difference.
	Session bool

	// Terminal, when set, gives the command a terminal of its own as its
	// standard streams and controlling terminal. Stdin, Stdout and Stderr
	// must be nil: the caller copies between them and Terminal.Master.
	Terminal *Terminal

	// Cancel is called when the context is done, instead of ending the tree.
	Cancel func() error
	// KillAfter is the time between SIGTERM and SIGKILL when the context is
	// done; 0: DefaultKillAfter.
	KillAfter time.Duration
	// WaitDelay bounds how long Wait waits, after the command has ended, for
	// a stream that a process left behind holds open; 0: not at all.
	WaitDelay time.Duration

	// Process is set by Start, State by Wait.
	Process *Process
	State   *State

	domain  *Domain
	policy  *sandboxpolicy.Policy // whose shared domain is to be used, if domain is nil
	ctx     context.Context
	lookErr error
	denials recorder

	program     string // the file that was executed, absolute
	mark        uint64
	started     time.Time
	copies      sync.WaitGroup
	copyErr     error
	copyMu      sync.Mutex
	nullFD      int         // -1: not needed so far; ours, once the command has its own
	closers     []io.Closer // likewise
	pipes       []*os.File  // ours, until the copying has ended
	exited      chan struct{}
	cancelled   chan struct{}
	monitor     *spawn.Monitor
	orphan      *unix.WaitStatus // the command's, once its monitor is gone
	monitorGone bool
	feed        func()   // copies Stdin to the command
	drains      []func() // copy the command's output
	waiting     Waiting
	exclusive   bool
	hurry       bool         // what is left behind has no time left
	strangers   map[int]bool // with exclusive: not the command's; nil: there can't be any
	waited      bool
}

// Terminal is a pseudo-terminal for a command.
type Terminal struct {
	Rows, Cols uint16 // 0: 24 × 80
	// Master is set by Start; the caller closes it after Wait.
	Master *os.File
}

// Resize changes the terminal's size; the command gets SIGWINCH.
func (t *Terminal) Resize(rows, cols uint16) error {
	return pty.Setsize(t.Master, &pty.Winsize{Rows: rows, Cols: cols})
}

// Process is a started command.
type Process struct {
	Pid int

	mu    sync.Mutex
	pidfd int // -1: none, or closed since the process was waited for
	gone  bool
}

// signal sends sig unless the process was waited for: its number, and that of
// the descriptor, may be another's by then.
func (p *Process) signal(sig unix.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone {
		return os.ErrProcessDone
	}
	if p.pidfd >= 0 {
		err := unix.PidfdSendSignal(p.pidfd, sig, nil, 0)
		if err == unix.ESRCH {
			return os.ErrProcessDone
		}
		if err != unix.ENOSYS && err != unix.EPERM {
			return err
		}
	}
	return unix.Kill(p.Pid, sig)
}

// pidfdSignalProcessGroup is PIDFD_SIGNAL_PROCESS_GROUP of linux/pidfd.h, since
// Linux 6.9: the group that the process leads or has led.
const pidfdSignalProcessGroup = 1 << 2

// group is a descriptor by which the group that the process leads can be
// signalled, also when it has ended itself; -1 for none.
func (p *Process) group() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pidfd < 0 {
		return -1
	}
	fd, err := unix.FcntlInt(uintptr(p.pidfd), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return -1
	}
	return fd
}

// waited closes the descriptor; reap, if not nil, takes the status of a process
// that is known to have ended.
func (p *Process) waited(reap func() error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var err error
	if reap != nil {
		if err = reap(); err != nil {
			return err
		}
	}
	if p.gone = true; p.pidfd >= 0 {
		_ = unix.Close(p.pidfd)
		p.pidfd = -1
	}
	return err
}

// State is how a command ended.
type State struct {
	// ExitCode is -1 when a signal ended the command.
	ExitCode int
	// Signal is what ended it, 0 when it exited.
	Signal unix.Signal
	// Cancelled reports that the context was done before the command ended.
	Cancelled bool
	Started   time.Time
	Duration  time.Duration
}

func (s *State) String() string {
	if s.Signal != 0 {
		return "signal " + unix.SignalName(s.Signal)
	}
	return fmt.Sprintf("exit status %d", s.ExitCode)
}

// ExitError is the error of Wait and Run for a command that ran and did not
// succeed. It is no failure of the sandbox.
type ExitError struct{ *State }

func (e *ExitError) Error() string { return e.State.String() }

// StartError is a command that could not be started: nothing ran.
type StartError struct {
	// ErrCode is COMMAND_NOT_FOUND, COMMAND_NOT_EXECUTABLE or START_FAILED.
	ErrCode string
	Msg     string
	Err     error
}

func (e *StartError) Error() string { return e.Msg }

// Unwrap returns the cause.
func (e *StartError) Unwrap() error { return e.Err }

// Code is the stable code of the error.
func (e *StartError) Code() string { return e.ErrCode }

// Command prepares argv to run in the domain. As with os/exec a program that
// isn't found is reported by Start.
func (d *Domain) Command(argv ...string) *Cmd {
	return d.CommandContext(context.Background(), argv...)
}

// CommandContext is like Command; when ctx is done first the whole tree of
// the command is ended: SIGTERM, then SIGKILL.
func (d *Domain) CommandContext(ctx context.Context, argv ...string) *Cmd {
	c := &Cmd{Args: argv, domain: d, ctx: ctx, nullFD: -1}
	if len(argv) == 0 || argv[0] == "" {
		c.lookErr = &StartError{"COMMAND_NOT_FOUND", "the command is empty", os.ErrNotExist}
		return c
	}
	c.Path = argv[0]
	return c
}

// Start starts the command. When it returns without an error the program has
// been executed, under the policy.
//
// Errors: *StartError, *UnavailableError, ErrClosed.
func (c *Cmd) Start() error {
	if c.Process != nil {
		return errors.New("the command was started already")
	}
	if c.lookErr != nil {
		return c.lookErr
	}
	if err := c.ctx.Err(); err != nil {
		return err
	}
	if c.domain == nil {
		d, err := acquire(c.policy)
		if err != nil {
			return err
		}
		c.domain = d
		defer func() {
			if c.Process == nil {
				release(c.policy)
				c.domain = nil
			}
		}()
	}
	p := c.domain.policy
	env := c.Env
	if env == nil {
		env = p.Environ()
	}
	dir := c.Dir
	if dir == "" {
		dir = p.Cwd()
	}
	dirfd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &StartError{"START_FAILED", "the working directory " + dir + " can't be entered: " + err.Error(), err}
	}
	defer unix.Close(dirfd)
	path, err := lookPath(c.Path, dir, env)
	if err != nil {
		return err
	}
	if c.program = path; path != "" && path[0] != '/' {
		c.program = dir + "/" + path
	}
	plan := &spawn.Command{
		Path: path, Argv: c.Args, Env: env, Dir: dirfd, Ruleset: -1, Terminal: -1,
		Secret: c.domain.secret, ResetSignals: c.domain.reset, Ignored: c.domain.ignored, Limits: limits(p.Limits()),
		Setsid: c.Session,
	}
	if c.domain.ruleset != nil {
		plan.Ruleset = c.domain.ruleset.FD
	}
	var slave *os.File
	if c.Terminal != nil {
		if slave, err = c.openTerminal(); err != nil {
			return &StartError{"START_FAILED", "no terminal can be made: " + err.Error(), err}
		}
		defer slave.Close()
		fd := int(slave.Fd())
		plan.Files = []int{fd, fd, fd}
	} else if plan.Files, err = c.streams(); err != nil {
		c.closeAll()
		return &StartError{"START_FAILED", err.Error(), err}
	}
	plan.Files = c.extraFiles(plan.Files)

	c.exited, c.cancelled = make(chan struct{}), make(chan struct{})
	if !c.domain.on(func() { err = c.spawn(plan, slave) }) {
		err = ErrClosed
	}
	c.closeOurs()
	if err != nil {
		c.closeAll()
		if c.Terminal != nil {
			_ = c.Terminal.Master.Close()
		}
		var e *spawn.Error
		if errors.As(err, &e) {
			return c.startError(e, path, dir)
		}
		return err
	}
	c.afterStart()
	for _, start := range c.copiers() {
		c.copies.Add(1)
		go func() { defer c.copies.Done(); start() }()
	}
	if c.ctx.Done() != nil {
		go c.watch()
	}
	return nil
}

// spawn runs on the domain's thread.
func (c *Cmd) spawn(plan *spawn.Command, slave *os.File) error {
	d := c.domain
	if d.guard != nil {
		d.guard.Ready() // long since, but for the first command
	}
	plan.Cookie = d.marker.Next()
	c.mark = plan.Cookie
	d.mu.Lock()
	d.byMark[c.mark] = c
	d.mu.Unlock()
	c.started = time.Now()
	pr := &Process{pidfd: -1}
	var err error
	if slave != nil {
		// It takes its terminal's foreground before exec, and the supervisor is
		// asked about that.
		d.serve()
		if c.monitor, err = plan.StartMonitor(int(slave.Fd())); err == nil {
			pr.Pid = c.monitor.Command
			pr.pidfd, _ = unix.PidfdOpen(pr.Pid, 0)
		}
	} else {
		pr.Pid, pr.pidfd, err = plan.Start(d.stack)
	}
	if err != nil {
		d.forget(c)
		return err
	}
	c.Process = pr
	return nil
}

// afterStart does what needs not be there before the command runs.
func (c *Cmd) afterStart() {
	d := c.domain
	if d.guard != nil {
		preferForOOM(c.Process.Pid)
	}
	if !d.here || !c.exclusive {
		d.first.Do(d.serve)
	}
}

// preferForOOM makes the kernel's out-of-memory killer take the command's
// processes before this one: with a process it kills all that share its memory
// (mm/oom_kill.c), the guard here, and nothing would be left to end the command.
// A tenth of the memory is more than this process has, where that is scarce.
func preferForOOM(pid int) {
	const tenth = 100
	fd, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/oom_score_adj", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return // it has ended
	}
	defer unix.Close(fd)
	var b [16]byte
	n, err := unix.Read(fd, b[:])
	if err != nil {
		return
	}
	adj, err := strconv.Atoi(strings.TrimSpace(string(b[:n])))
	if err != nil {
		return
	}
	// The command can't take it back: /proc isn't writable for it.
	_, _ = unix.Pwrite(fd, []byte(strconv.Itoa(min(adj+tenth, 1000))), 0)
}

func (d *Domain) forget(c *Cmd) {
	d.mu.Lock()
	if d.byMark[c.mark] == c {
		delete(d.byMark, c.mark)
	}
	d.mu.Unlock()
}

func limits(l sandboxpolicy.Limits) []spawn.Limit {
	var out []spawn.Limit
	add := func(resource int, n int64) {
		if n > 0 {
			out = append(out, spawn.Limit{Resource: resource, Soft: uint64(n), Hard: uint64(n)})
		}
	}
	if soft, hard, ok := nofile.Started(); ok && soft != hard {
		out = append(out, spawn.Limit{Resource: unix.RLIMIT_NOFILE, Soft: soft, Hard: hard})
	}
	add(unix.RLIMIT_AS, l.Memory)
	add(unix.RLIMIT_NPROC, l.Pids)
	if l.CPUTime > 0 { // in seconds, rounded up; SIGXCPU, then SIGKILL a second later
		n := uint64((l.CPUTime + time.Second - 1) / time.Second)
		out = append(out, spawn.Limit{Resource: unix.RLIMIT_CPU, Soft: n, Hard: n + 1})
	}
	add(unix.RLIMIT_FSIZE, l.FileSize)
	return out
}

func (c *Cmd) openTerminal() (*os.File, error) {
	if c.Stdin != nil || c.Stdout != nil || c.Stderr != nil {
		return nil, errors.New("a terminal and streams exclude each other")
	}
	master, slave, err := pty.Open()
	if err != nil {
		return nil, err
	}
	t := c.Terminal
	size := pty.Winsize{Rows: t.Rows, Cols: t.Cols}
	if size.Rows == 0 || size.Cols == 0 {
		size = pty.Winsize{Rows: 24, Cols: 80}
	}
	if err := pty.Setsize(master, &size); err != nil {
		_, _ = master.Close(), slave.Close()
		return nil, err
	}
	t.Master = master
	return slave, nil
}

// streams opens the command's standard streams.
func (c *Cmd) streams() ([]int, error) {
	var files [3]int
	in, err := c.reader(c.Stdin)
	if err != nil {
		return nil, err
	}
	files[0] = in
	if files[1], err = c.writer(c.Stdout); err != nil {
		return nil, err
	}
	if c.Stderr != nil && sameWriter(c.Stderr, c.Stdout) {
		files[2] = files[1]
	} else if files[2], err = c.writer(c.Stderr); err != nil {
		return nil, err
	}
	return files[:], nil
}

func sameWriter(a, b io.Writer) (same bool) {
	defer func() { _ = recover() }() // types that can't be compared
	return a == b
}

// FD is a descriptor of this process as a stream: the command gets it as it
// is, without a change to its flags. -1 leaves the command without.
type FD int

// Fd returns the descriptor.
func (f FD) Fd() uintptr { return uintptr(f) }

func (f FD) Read(b []byte) (int, error) {
	n, err := unix.Read(int(f), b)
	if err == nil && n == 0 && len(b) > 0 {
		err = io.EOF
	}
	return max(n, 0), err
}

func (f FD) Write(b []byte) (int, error) {
	n, err := unix.Write(int(f), b)
	if err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	return max(n, 0), err
}

// null is /dev/null, opened once for all streams that have nothing else.
func (c *Cmd) null() (int, error) {
	if c.nullFD < 0 {
		fd, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
		if err != nil {
			return -1, &os.PathError{Op: "open", Path: os.DevNull, Err: err}
		}
		c.nullFD = fd
	}
	return c.nullFD, nil
}

func (c *Cmd) reader(r io.Reader) (int, error) {
	switch r := r.(type) {
	case nil:
		return c.null()
	case FD:
		return int(r), nil
	case *os.File:
		return int(r.Fd()), nil
	}
	pr, pw, err := os.Pipe()
	if err != nil {
		return -1, err
	}
	c.closers = append(c.closers, pr)
	c.pipes = append(c.pipes, pw)
	c.feed = func() {
		_, err := io.Copy(pw, r)
		if errors.Is(err, unix.EPIPE) {
			err = nil // a command may leave its input unread
		}
		c.noteCopy(err)
		_ = pw.Close()
	}
	return int(pr.Fd()), nil
}

func (c *Cmd) writer(w io.Writer) (int, error) {
	switch w := w.(type) {
	case nil:
		return c.null()
	case FD:
		return int(w), nil
	case *os.File:
		return int(w.Fd()), nil
	}
	pr, pw, err := os.Pipe()
	if err != nil {
		return -1, err
	}
	c.closers = append(c.closers, pw)
	c.pipes = append(c.pipes, pr)
	c.drains = append(c.drains, func() {
		_, err := io.Copy(w, pr)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			err = copyRest(w, pr)
		}
		if errors.Is(err, os.ErrClosed) {
			err = nil
		}
		c.noteCopy(err)
		_ = pr.Close()
	})
	return int(pw.Fd()), nil
}

// copyRest copies what is in a pipe at this moment, and nothing that is written
// later. A copier that got no processor before its deadline finds everything
// that the command wrote still there.
func copyRest(w io.Writer, pr *os.File) error {
	conn, err := pr.SyscallConn()
	if err != nil {
		return err
	}
	var b []byte
	if e := conn.Control(func(fd uintptr) {
		var n int
		if n, err = unix.IoctlGetInt(int(fd), unix.TIOCINQ); err != nil || n <= 0 { // FIONREAD
			return
		}
		b = make([]byte, n)
		got := 0
		for got < n {
			// The descriptor doesn't block, and nobody else reads.
			var k int
			if k, err = unix.Read(int(fd), b[got:]); err == unix.EINTR {
				continue
			}
			if k <= 0 {
				break
			}
			got += k
		}
		if b = b[:got]; err == unix.EAGAIN {
			err = nil
		}
	}); e != nil {
		return e
	}
	if len(b) > 0 {
		if _, e := w.Write(b); err == nil {
			err = e
		}
	}
	return err
}

func (c *Cmd) noteCopy(err error) {
	c.copyMu.Lock()
	if err != nil && c.copyErr == nil {
		c.copyErr = err
	}
	c.copyMu.Unlock()
}

// copied is the first error of the copying so far: the source of the command's
// input may still fail.
func (c *Cmd) copied() error {
	c.copyMu.Lock()
	defer c.copyMu.Unlock()
	return c.copyErr
}

func (c *Cmd) copiers() []func() {
	fs := c.drains
	if c.feed != nil {
		// Not waited for: a source that never ends must not hold Wait.
		go c.feed()
	}
	return fs
}

func (c *Cmd) extraFiles(files []int) []int {
	for _, f := range c.ExtraFiles {
		files = append(files, int(f.Fd()))
	}
	for _, fd := range c.PassFD {
		for len(files) <= fd {
			files = append(files, -1)
		}
		files[fd] = fd
	}
	return files
}

// closeOurs closes what the command has of its own.
func (c *Cmd) closeOurs() {
	for _, f := range c.closers {
		_ = f.Close()
	}
	c.closers = nil
	if c.nullFD >= 0 {
		_ = unix.Close(c.nullFD)
		c.nullFD = -1
	}
}

func (c *Cmd) closeAll() {
	c.closeOurs()
	for _, f := range c.pipes {
		_ = f.Close()
	}
	c.pipes = nil
}

// Wait waits until the command has ended and its output has been copied. A
// command that did not exit with 0 gives *ExitError; State is set in any case.
func (c *Cmd) Wait() error {
	if c.Process == nil {
		return errors.New("the command was not started")
	}
	if c.State != nil || c.waited {
		return errors.New("the command was waited for already")
	}
	c.waited = true
	status, err := c.await()
	if err != nil {
		close(c.exited)
		c.awaitCopies()
		c.domain.forget(c)
		if c.policy != nil {
			release(c.policy)
		}
		return err
	}
	s := &State{ExitCode: status.ExitStatus(), Started: c.started, Duration: time.Since(c.started)}
	if status.Signaled() {
		s.Signal = unix.Signal(status.Signal())
	}
	close(c.exited)
	select {
	case <-c.cancelled:
		s.Cancelled = true
	default:
	}
	c.awaitCopies()
	c.domain.forget(c)
	if c.policy != nil {
		release(c.policy)
	}
	c.State = s
	if s.Signal != 0 || s.ExitCode != 0 {
		return &ExitError{s}
	}
	return c.copied()
}

func (c *Cmd) await() (unix.WaitStatus, error) {
	switch {
	case c.exclusive:
		return c.awaitExclusive()
	case c.monitor != nil:
		for {
			st, err := c.monitor.Next()
			if errors.Is(err, io.EOF) {
				st, err = killed, nil // with the domain, and the command with it
			}
			if err != nil {
				return 0, fmt.Errorf("the terminal's monitor is gone: %w", err)
			}
			if st.Exited() || st.Signaled() {
				_ = c.Process.waited(nil)
				return st, nil
			}
		}
	}
	// Without taking the status, which keeps the number this process's own until
	// no signal can be on its way to it.
	for {
		err := unix.Waitid(unix.P_PID, c.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return 0, err
		}
		break
	}
	var ws unix.WaitStatus
	err := c.Process.waited(func() error {
		for {
			_, err := unix.Wait4(c.Process.Pid, &ws, 0, nil)
			if err != unix.EINTR {
				return err
			}
		}
	})
	return ws, err
}

// killed is the status of a command that SIGKILL ended: wait(2).
const killed = unix.WaitStatus(unix.SIGKILL)

// awaitCopies waits for the output; a process that was left behind may hold
// it open for ever.
func (c *Cmd) awaitCopies() {
	if len(c.drains) == 0 {
		return
	}
	done := make(chan struct{})
	go func() { c.copies.Wait(); close(done) }()
	select {
	case <-done:
		return
	case <-time.After(c.WaitDelay):
	}
	// The deadline ends the waiting for more; what is in the pipes by then is
	// copied still.
	for _, f := range c.pipes {
		_ = f.SetReadDeadline(time.Now().Add(drainGrace))
	}
	<-done
}

// drainGrace is how long the end of the output is waited for once nothing more
// is: a stream that nobody holds open has it at once.
const drainGrace = 20 * time.Millisecond

// Run starts the command and waits for it.
func (c *Cmd) Run() error {
	if err := c.Start(); err != nil {
		return err
	}
	return c.Wait()
}

// Output runs the command and returns its standard output. Stdout must be nil.
func (c *Cmd) Output() ([]byte, error) {
	if c.Stdout != nil {
		return nil, errors.New("the command's standard output is taken")
	}
	var b strings.Builder
	c.Stdout = &b
	err := c.Run()
	return []byte(b.String()), err
}

// Signal sends sig to the command itself, not to its children.
func (c *Cmd) Signal(sig unix.Signal) error {
	if c.Process == nil {
		return errors.New("the command was not started")
	}
	return c.Process.signal(sig)
}

// SignalTree sends sig to every process of the command, also to those that
// left its session.
func (c *Cmd) SignalTree(sig unix.Signal) {
	if c.exclusive && c.domain.scoped {
		c.domain.signalAll(sig)
		return
	}
	if c.mark != 0 {
		proctree.SignalAll(c.mark, ^uint64(0), sig)
		return
	}
	for _, pid := range c.Tree() {
		_ = proctree.Signal(pid, c.mark, ^uint64(0), sig)
	}
}

// Tree returns the live processes of the command.
func (c *Cmd) Tree() []int {
	if c.mark != 0 {
		return proctree.Find(c.mark, ^uint64(0))
	}
	var pids []int
	if c.exclusive {
		pids = proctree.Descendants(unix.Getpid())
	} else {
		pids = proctree.Group(c.identity())
	}
	out := pids[:0]
	for _, pid := range pids {
		if !c.domain.isGuard(pid) && (c.monitor == nil || pid != c.monitor.Pid) && !c.strangers[pid] {
			out = append(out, pid)
		}
	}
	return out
}

// identity is what the processes of a command without a mark can be told by.
func (c *Cmd) identity() (root, sid int) {
	if !c.Process.done() {
		root = c.Process.Pid // later the number may be another's
	}
	switch {
	case c.monitor != nil:
		sid = c.monitor.Pid
	case c.Session:
		sid = c.Process.Pid
	}
	return root, sid
}

// Denials are the operations of the command that were refused and recorded so
// far.
func (c *Cmd) Denials() []Denial { return c.denials.all() }

// watch ends the tree when the context is done before the command has ended.
func (c *Cmd) watch() {
	select {
	case <-c.exited:
		return
	case <-c.ctx.Done():
	}
	select {
	case <-c.exited:
		return
	default:
	}
	close(c.cancelled)
	if c.Cancel != nil {
		_ = c.Cancel()
		return
	}
	c.EndTree()
}

// EndTree ends every process of the command: SIGTERM, then after KillAfter
// SIGKILL, until none is left. It returns when that is so.
func (c *Cmd) EndTree() {
	grace := c.KillAfter
	if grace <= 0 {
		grace = DefaultKillAfter
	}
	group := c.Process.group()
	if group >= 0 {
		defer unix.Close(group)
	}
	c.SignalTree(unix.SIGTERM)
	c.SignalTree(unix.SIGCONT) // a stopped process handles nothing
	deadline := time.Now().Add(grace)
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		if len(c.Tree()) == 0 {
			return
		}
		if time.Now().After(deadline) {
			break
		}
		time.Sleep(wait)
	}
	for range 1000 {
		// What forks faster than it can be listed is in the command's group, as
		// a rule, and dies in one.
		if group >= 0 {
			_ = unix.PidfdSendSignal(group, unix.SIGKILL, nil, pidfdSignalProcessGroup)
		}
		c.SignalTree(unix.SIGKILL)
		if len(c.Tree()) == 0 {
			if c.exclusive {
				c.waiting.Wake() // nothing else tells of a monitor's end
			}
			return
		}
		time.Sleep(2 * time.Millisecond)
	}
}
