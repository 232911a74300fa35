package sandbox

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/dshx/dshx/sandbox/internal/caps"
	"github.com/dshx/dshx/sandbox/internal/landlock"
	"github.com/dshx/dshx/sandbox/internal/proctree"
	"github.com/dshx/dshx/sandbox/internal/seccomp"
	"github.com/dshx/dshx/sandbox/internal/spawn"
	"github.com/dshx/dshx/sandbox/internal/supervise"
	"github.com/dshx/dshx/sandboxpolicy"
	"golang.org/x/sys/unix"
)

// Domain is one policy in force. It owns an OS thread that carries the filter
// and starts the commands, the supervisor that answers for what the filter
// hands over, and a guard that ends the commands if this process dies.
//
// The thread is in an outer Landlock domain that only scopes signals; each
// command enters an inner one between clone and exec. The two must differ: a
// process may signal and trace every task of its own domain, so a thread in
// the commands' domain would hand them this whole process.
type Domain struct {
	policy *sandboxpolicy.Policy
	born   time.Time
	host   Host
	state  state

	work  chan func()   // run on the thread
	quit  chan struct{} // closed to let the thread end
	ended chan struct{} // the thread has ended
	here  bool          // the thread is the only caller's own: see NewDomainHere
	tid   int           // the thread's

	terminal int        // of the caller, for the guard; -1: none
	held     []HeldFile // see HoldModes

	// With here the thread runs what others ask for while it waits.
	queueMu sync.Mutex
	queue   []func()
	wake    func() // interrupts the thread's waiting

	// Used on the thread alone.
	stack   *spawn.Stack
	marker  *proctree.Marker
	secret  [2]uint64
	reset   uint64
	ignored uint64
	scoped  bool // kill(-1) from here reaches this domain's processes alone

	ruleset  *landlock.Ruleset
	guard    *spawn.Guard
	listener int               // until the supervisor has it
	places   []supervise.Place // where the filter hands names over
	filters  int               // on the thread, where there are places
	signals  bool              // the filter hands signals over, the thread's own too
	server   *supervise.Server
	served   chan struct{}

	mu      sync.Mutex
	closed  bool
	byMark  map[uint64]*Cmd
	first   sync.Once // what comes with the first command
	notices []sandboxpolicy.Notice
	// What the enforcement is does not change; to find out takes the whole policy.
	enforced *Enforcement
	anyone   recorder // denials that belong to no command
	do       doPool
}

// NewDomain puts a policy in force. Close ends it, and with it every command
// that still runs.
//
// Errors: *UnavailableError where the host lacks what is needed, in which case
// nothing was restricted and nothing runs.
func NewDomain(p *sandboxpolicy.Policy) (*Domain, error) {
	d, err := newDomain(p)
	if err != nil {
		return nil, err
	}
	// The ruleset is a matter of hundreds of system calls, the filter one of
	// compiling in the kernel: two processors do both at once.
	ready := make(chan threadReady, 1)
	go d.thread(ready)
	build, err := d.startRuleset()
	if err == nil {
		err = d.finishRuleset(build)
	}
	r := <-ready
	if r.err == nil {
		r.err = err
	}
	return d.assemble(r)
}

// NewDomainHere is NewDomain with the calling goroutine's thread as the
// domain's, which saves every command the hand-over between two threads. It
// is for a program that runs one command and ends, like dshx itself.
//
// The goroutine must be locked to its thread, which is restricted for good; it
// alone may use the domain.
//
// terminal is a descriptor of the caller's terminal that will be made raw, or
// -1: see RawTerminal. held are files whose metadata commands don't change: see
// HoldModes.
func NewDomainHere(p *sandboxpolicy.Policy, terminal int, held []HeldFile) (*Domain, error) {
	d, err := newDomain(p)
	if err != nil {
		return nil, err
	}
	d.terminal, d.held = terminal, held
	d.here = true
	close(d.ended)
	build, err := d.startRuleset()
	if err != nil {
		return nil, err
	}
	if build != nil {
		build.Share()
	}
	r := d.prepare()
	if err := d.finishRuleset(build); r.err == nil {
		r.err = err
	}
	return d.assemble(r)
}

// probeHost is ProbeHost; tests put lesser hosts in its place.
var probeHost = ProbeHost

func newDomain(p *sandboxpolicy.Policy) (*Domain, error) {
	d := &Domain{
		policy: p, born: time.Now(), host: probeHost(),
		work: make(chan func()), quit: make(chan struct{}), ended: make(chan struct{}),
		byMark: map[uint64]*Cmd{}, listener: -1, terminal: -1,
	}
	d.state = state{p: p, h: &d.host}
	if p.Full() {
		return d, nil
	}
	return d, d.host.Unusable()
}

func (d *Domain) startRuleset() (*landlock.Build, error) {
	if d.policy.Full() {
		return nil, nil
	}
	b, err := landlock.Start(d.policy, d.host.LandlockABI)
	if err != nil {
		return nil, &UnavailableError{landlock.Why(err), landlock.Remedy(err)}
	}
	return b, nil
}

func (d *Domain) finishRuleset(b *landlock.Build) (err error) {
	if b == nil {
		return nil
	}
	if d.ruleset, err = b.Finish(); err != nil {
		return &UnavailableError{landlock.Why(err), landlock.Remedy(err)}
	}
	return nil
}

// assemble makes the domain of what its thread has prepared.
func (d *Domain) assemble(r threadReady) (*Domain, error) {
	if r.err != nil {
		if r.listener >= 0 {
			_ = unix.Close(r.listener)
		}
		d.shutDown()
		return nil, r.err
	}
	d.state.nested, d.state.marks = r.nested, d.marker != nil
	if d.ruleset != nil {
		for _, path := range d.ruleset.Split {
			d.notices = append(d.notices, sandboxpolicy.Notice{Kind: sandboxpolicy.NoticeConfigIgnored, Path: path,
				Text: path + " holds secrets or dshx's configuration, so its entries are writable one by one: nothing new can be made in it directly"})
		}
	}
	d.notices = append(d.notices, d.state.unenforced()...)
	d.listener = r.listener
	if len(d.places) > 0 || d.signals {
		// This thread's own calls are handed over too now, and it would wait
		// for a supervisor that it hasn't started.
		d.serve()
	}
	return d, nil
}

// serve starts the supervisor. What it is asked before waits for it.
func (d *Domain) serve() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.listener < 0 || d.closed {
		return
	}
	d.server = supervise.New(d.listener, supervise.Options{
		Judge: judge{d}, OnDenial: d.denied, Network: d.policy.Network(), DropCaps: caps.Reduce,
		Confine: func() error { return landlock.Restrict(d.ruleset.FD) },
		Places:  d.places, Filters: d.filters, Held: d.held,
	})
	d.listener = -1 // the server's now
	d.served = make(chan struct{})
	go func() { defer close(d.served); d.server.Serve() }()
}

type threadReady struct {
	listener int
	nested   bool
	err      error
}

// thread is the life of the domain's thread.
func (d *Domain) thread(ready chan<- threadReady) {
	runtime.LockOSThread()
	if unix.Gettid() == unix.Getpid() {
		// The runtime never ends the main thread: another one must do.
		inner := make(chan threadReady, 1)
		go d.thread(inner)
		ready <- <-inner
		runtime.UnlockOSThread()
		return
	}
	defer close(d.ended) // and the thread ends with its goroutine, still locked
	r := d.prepare()
	ready <- r
	if r.err != nil {
		return
	}
	for {
		select {
		case f := <-d.work:
			f()
		case <-d.quit:
			_ = d.stack.Free()
			return
		}
	}
}

// prepare restricts the calling thread and gives it what it needs to start
// commands.
func (d *Domain) prepare() threadReady {
	d.tid = unix.Gettid()
	r := threadReady{listener: -1}
	r.listener, r.nested, r.err = d.restrict()
	if r.err == nil {
		d.stack, r.err = spawn.NewStack()
	}
	if r.err == nil {
		r.err = d.startGuard()
	}
	return r
}

// restrict makes the calling thread what the commands inherit. Its order
// matters: dropping capabilities and the outer domain before the filter, which
// then judges this thread too.
func (d *Domain) restrict() (listener int, nested bool, err error) {
	d.reset, d.ignored = dispositions()
	d.marker = proctree.NewMarker()
	if d.policy.Full() {
		return -1, false, nil
	}
	if err := caps.Drop(); err != nil {
		return -1, false, fmt.Errorf("drop capabilities: %w", err)
	}
	// Without it restrict_self and seccomp need CAP_SYS_ADMIN, and setuid
	// programs would gain rights: prctl(2), Linux 3.5.
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return -1, false, &UnavailableError{"no_new_privs can't be set: " + err.Error(), "run on Linux 3.5 or later"}
	}
	scope, err := landlock.ScopeRuleset(d.host.LandlockABI)
	if err == nil && scope >= 0 {
		err = landlock.Restrict(scope)
		_ = unix.Close(scope)
		d.scoped = err == nil
	}
	if err != nil {
		if errors.Is(err, unix.E2BIG) {
			return -1, false, &UnavailableError{"too many Landlock domains are stacked (the kernel allows 16)", "don't nest dshx so deep"}
		}
		return -1, false, &UnavailableError{landlock.Why(err), landlock.Remedy(err)}
	}
	if !d.scoped {
		// The guard must not be judged by a filter whose supervisor is gone
		// when the guard is needed.
		if err := d.startGuard(); err != nil {
			return -1, false, err
		}
	}
	if d.marker != nil {
		d.secret = newSecret()
	}
	return d.installFilter()
}

func (d *Domain) installFilter() (listener int, nested bool, err error) {
	o := seccomp.Options{
		Network:  filterNetwork(d.policy.Network()),
		Listener: d.host.Seccomp.Listener,
		Signals:  !d.scoped && d.marker != nil,
		Truncate: d.host.LandlockABI < landlock.ABITruncate,
	}
	places := namePlaces(d.policy)
	o.Names = o.Listener && d.host.Seccomp.AddFD && len(places) > 0
	for {
		prog, err := seccomp.Build(o)
		if err != nil {
			return -1, false, err
		}
		if d.marker != nil {
			prog = seccomp.WithMark(prog, d.secret)
		}
		fd, err := seccomp.Install(prog, o.Listener, o.Listener && d.host.Seccomp.WaitKillable)
		switch {
		case err == nil:
			if o.Names {
				d.places, d.filters = places, seccomp.Filters()
			}
			d.signals = o.Signals && o.Listener
			return fd, nested, nil
		case errors.Is(err, seccomp.ErrListenerBusy) && o.Listener:
			o.Listener, o.Names, nested = false, false, true
		case errors.Is(err, unix.ENOMEM):
			return -1, false, &UnavailableError{"too many seccomp filters are stacked", "don't nest dshx so deep"}
		default:
			return -1, false, &UnavailableError{"the seccomp filter can't be installed: " + err.Error(), "let the filter around dshx pass seccomp(2)"}
		}
	}
}

// namePlaces are the directories in which the policy grants names that Landlock
// can't: the supervisor makes them.
func namePlaces(p *sandboxpolicy.Policy) []supervise.Place {
	var out []supervise.Place
	for _, g := range p.GitDirs() {
		if len(g.Names) > 0 || g.Tree != "" {
			out = append(out, supervise.Place{Dir: g.Common, Files: g.Names, Tree: g.Tree})
		}
	}
	return out
}

// filterNetwork is the filter's word for a policy's network; what it doesn't
// know is none.
func filterNetwork(n sandboxpolicy.Network) seccomp.Net {
	switch n {
	case sandboxpolicy.NetworkLoopback:
		return seccomp.NetLoopback
	case sandboxpolicy.NetworkFull:
		return seccomp.NetFull
	}
	return seccomp.NetNone
}

// on runs f on the domain's thread and waits for it; false when the domain is
// closed.
func (d *Domain) on(f func()) bool {
	if d.here && unix.Gettid() == d.tid {
		f()
		return true
	}
	done := make(chan struct{})
	call := func() { f(); close(done) }
	if d.here {
		d.queueMu.Lock()
		wake := d.wake
		if wake != nil {
			d.queue = append(d.queue, call)
		}
		d.queueMu.Unlock()
		if wake == nil {
			return false
		}
		wake()
		<-done
		return true
	}
	select {
	case d.work <- call:
		<-done
		return true
	case <-d.ended:
		return false
	}
}

// runQueued runs what was asked for; on the thread, with here.
func (d *Domain) runQueued() {
	d.queueMu.Lock()
	q := d.queue
	d.queue = nil
	d.queueMu.Unlock()
	for _, f := range q {
		f()
	}
}

// killAll sends sig to every process below this thread's Landlock domain but
// for its own, and reports whether it could. It is one system call, which no
// fork can outrun: the kernel holds the list of tasks still while it walks it
// (kill(2), pid -1; kill_something_info of kernel/signal.c).
//
// On any other thread the same call would reach every process of the machine.
// So the thread is checked, and that the scope holds: the parent of this
// process is outside of the domain for certain.
func (d *Domain) killAll(sig unix.Signal) bool {
	if !d.scoped || unix.Gettid() != d.tid {
		return false
	}
	parent := unix.Getppid()
	if parent <= 0 || unix.Kill(parent, 0) != unix.EPERM {
		return false
	}
	_ = unix.Kill(-1, sig)
	return true
}

// Policy is the policy in force.
func (d *Domain) Policy() *sandboxpolicy.Policy { return d.policy }

// Enforcement says what of the policy is enforced here.
func (d *Domain) Enforcement() Enforcement {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.enforced == nil {
		d.enforced = new(d.state.enforcement())
	}
	e := *d.enforced
	e.Mechanisms, e.Gaps = append([]string{}, e.Mechanisms...), append([]Gap{}, e.Gaps...)
	return e
}

// Notices are what the caller should know about how the policy was put in
// force.
func (d *Domain) Notices() []sandboxpolicy.Notice { return d.notices }

// startGuard starts the guard, which ends the commands if this process dies,
// if it isn't there yet. While it gets ready the ruleset is made. Runs on the
// thread.
func (d *Domain) startGuard() (err error) {
	if d.guard != nil || !d.scoped && d.marker == nil {
		// With nothing to tell it whom to end there is no guard: the commands
		// themselves end with the thread (PDEATHSIG), which is a gap.
		return nil
	}
	// With Landlock's scope the guard's kill(-1) reaches what is below the
	// thread's domain and nothing else. Without confinement only the marks
	// tell the commands' processes.
	d.guard, err = spawn.StartGuard(d.scoped, d.marker.Base(), proctree.Mask, d.terminal)
	if err != nil {
		return &UnavailableError{Reason: "the guard can't be started: " + err.Error()}
	}
	return nil
}

// signalAll sends sig to every process of the domain. SIGKILL ends the guard
// too.
func (d *Domain) signalAll(sig unix.Signal) {
	all := false
	if d.scoped && d.on(func() { all = d.killAll(sig) }) && all {
		return
	}
	for _, pid := range proctree.Find(d.marker.Base(), proctree.Mask) {
		if !d.isGuard(pid) {
			_ = proctree.Signal(pid, d.marker.Base(), proctree.Mask, sig)
		}
	}
}

func (d *Domain) isGuard(pid int) bool { return d.guard != nil && d.guard.Pid == pid }

// Close ends every process of the domain, at once, and frees what it uses.
func (d *Domain) Close() error {
	d.signalAll(unix.SIGKILL)
	d.shutDown()
	return nil
}

// abandon is Close for a process that is about to exit, with no command left:
// only what would outlive it has to be told.
func (d *Domain) abandon() {
	if d.guard != nil {
		_ = d.guard.Kill()
	}
}

func (d *Domain) shutDown() {
	d.mu.Lock()
	first := !d.closed
	d.closed = true
	d.mu.Unlock()
	if !first {
		return
	}
	close(d.quit)
	<-d.ended // its children get SIGKILL, the guard its signal
	d.do.close()
	if d.guard != nil {
		_ = d.guard.Stop()
	}
	if d.server != nil {
		_ = d.server.Close()
		<-d.served
	}
	if d.listener >= 0 {
		_ = unix.Close(d.listener)
	}
	if d.ruleset != nil {
		_ = d.ruleset.Close()
	}
}

// denied is the supervisor's report of a refusal.
func (d *Domain) denied(s supervise.Denial) {
	den := Denial{Operation: s.Op, Target: s.Target, Resolved: s.Resolved, Rule: s.Rule, Evidence: "supervisor", Remedy: s.Remedy}
	mark := proctree.MarkOf(s.PID)
	d.mu.Lock()
	c := d.byMark[mark]
	// Without a mark it can only be the one command that there is. With one it
	// may be what an earlier command left behind, which is nobody else's.
	if c == nil && mark == 0 && len(d.byMark) == 1 {
		for _, only := range d.byMark {
			c = only
		}
	}
	d.mu.Unlock()
	if c != nil {
		c.denials.add(den)
		return
	}
	d.anyone.add(den)
}

// judge is what the supervisor asks.
type judge struct{ d *Domain }

// Verdict is the policy's, but for protected paths of repositories that came
// into being under this domain: git init changes the mode of its new
// configuration to find out what the file system can.
func (j judge) Verdict(op sandboxpolicy.Op, path string) sandboxpolicy.Verdict {
	v := j.d.policy.Verdict(op, path)
	if !v.Allow && j.d.policy.ProtectedAlone(op, path) && born(path).After(j.d.born.Add(-clockGrain)) {
		v = sandboxpolicy.Verdict{Allow: true, Rule: v.Rule}
	}
	return v
}

func (j judge) VerdictNet(op sandboxpolicy.Op, family, addr string) sandboxpolicy.Verdict {
	return j.d.policy.VerdictNet(op, family, addr)
}

// Inside reports whether pid is a process of this domain's commands.
func (j judge) Inside(pid int) bool {
	if base := j.d.marker.Base(); base != 0 {
		return proctree.MarkOf(pid)&proctree.Mask == base && !j.d.isGuard(pid) && pid != unix.Getpid()
	}
	for _, p := range proctree.Descendants(unix.Getpid()) {
		if p == pid {
			return !j.d.isGuard(pid)
		}
	}
	return false
}
