package supervise

import (
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dshx/dshx/sandboxpolicy"
)

// Judge decides. Its methods are called from several goroutines at once and
// must not block on a confined process.
type Judge interface {
	// Verdict judges an operation on a path: absolute, without symbolic links.
	Verdict(op sandboxpolicy.Op, path string) sandboxpolicy.Verdict
	// VerdictNet judges an operation on an address. family is "unix" (addr
	// "@name" for an abstract name), "inet", "inet6" ("127.0.0.1:80",
	// "[::1]:80"), "netlink", or for a refused socket(2) the family's constant
	// with addr the socket type's.
	VerdictNet(op sandboxpolicy.Op, family, addr string) sandboxpolicy.Verdict
	// Inside says whether process pid is one that this supervisor confines.
	Inside(pid int) bool
}

// Denial is one refused call.
type Denial struct {
	Op       sandboxpolicy.Op
	Target   string // what the caller named, as it named it
	Resolved string // the absolute path or address that this is; empty when there is none
	Rule     sandboxpolicy.Rule
	Remedy   string // one sentence for the person; may be empty
	PID      int    // the calling process
}

// Options configure a Server. Judge is required.
type Options struct {
	Judge    Judge
	OnDenial func(Denial) // called from the workers, must not block; nil drops denials
	Network  sandboxpolicy.Network
	// DropCaps runs on each worker thread before it serves, so that what is
	// done on behalf of a root caller is done with the caller's capabilities.
	// When it fails, every notified call fails with EPERM. nil for an ordinary
	// user, who has none.
	DropCaps func() error
	// Confine puts the calling thread in the Landlock domain that the commands
	// are in. The names of sockets are made on threads of their own that have
	// called it: what the kernel keeps from commands it keeps from these. nil
	// where there is none.
	Confine func() error
	// Places are where a few names may be made by way of this supervisor; the
	// filter must have seccomp.Options.Names.
	Places []Place
	// Filters is how many seccomp filters a process of this domain is under
	// (Seccomp_filters of proc_pid_status(5)). Names are made for processes
	// with as many, not for those of a sandbox within this one.
	Filters int
	// Held are files without a name, passed in from outside, whose mode keeps
	// them from being opened anew for more: no metadata of theirs is changed.
	Held []File
}

// File is a file's identity while something holds it open.
type File struct{ Dev, Ino uint64 }

const (
	// maxWorkers bounds the calls that may block at the same time.
	maxWorkers = 256
	// idleFor is how long a worker that isn't needed waits before it ends.
	idleFor = 5 * time.Second
	// stallTick is how often the watch looks whether the leader is stuck in one
	// call; the next notification waits for at most two of them.
	stallTick = 5 * time.Millisecond
	// maxDenials bounds the distinct denials that are reported.
	maxDenials = 64
)

// Server answers the notifications of one listener.
type Server struct {
	o        Options
	listener int
	stop     int // eventfd that Close makes readable
	procFD   int // /proc/self/fd

	notifSize, respSize uintptr
	setupErr            error // why no call can be performed; all fail with EPERM then

	// leader is the worker that waits for the next notification.
	leader   atomic.Pointer[worker]
	mu       sync.Mutex // guards all below up to ended
	idle     []*worker
	workers  int
	ended    bool // no more notifications: closed, or the last filtered task is gone
	started  bool
	closed   bool
	wg       sync.WaitGroup
	ending   chan struct{} // closed with ended
	over     chan struct{} // closed when Serve has released everything
	kick     chan struct{} // wakes the watch
	watching atomic.Bool

	// root is the callers' root directory, opened from the first that asks.
	// It is the same for all of them and for good: the filter refuses every
	// call that could change it (chroot, pivot_root, setns, unshare, mount).
	rootOnce sync.Once
	rootFD   int
	rootErr  unix.Errno
	rootID   identity

	protectedLinks bool // sysctl fs.protected_symlinks

	noOpenat2     atomic.Bool // Linux < 5.6, or a container's profile
	noVM          atomic.Bool // process_vm_readv isn't there
	noPidfdThread atomic.Bool // Linux < 6.9
	noGetfd       atomic.Bool // Linux < 5.6, or a container's profile

	denyMu sync.Mutex
	denied map[denialKey]struct{}

	bound boundSockets

	// borrowed counts the descriptors of callers that messages on their way
	// carry; see worker.borrow.
	borrowed    atomic.Int64
	maxBorrowed int64

	places      []place
	noAddfdSend atomic.Bool // Linux < 5.14
}

// New returns a Server for the listener, which it owns from now on. Nothing is
// answered before Serve.
func New(listener int, o Options) *Server {
	s := &Server{
		o: o, listener: listener, stop: -1, procFD: -1, rootFD: -1,
		ending: make(chan struct{}), over: make(chan struct{}), kick: make(chan struct{}, 1), denied: map[denialKey]struct{}{},
	}
	s.bound.init()
	setting, err := os.ReadFile("/proc/sys/fs/protected_symlinks")
	s.protectedLinks = err != nil || strings.TrimSpace(string(setting)) != "0"
	// Caller and worker take turns, so waking the other on the same CPU saves
	// waking an idle one, which costs most in a virtual machine. Linux 6.6;
	// without it all works the same, slower.
	_ = syncWakeUp(listener)
	s.notifSize, s.respSize, s.setupErr = kernelSizes()
	if s.setupErr != nil {
		s.notifSize, s.respSize = sizeofNotification, sizeofResponse
	}
	if s.stop, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		s.stop, s.setupErr = -1, err
	}
	if s.procFD, err = unix.Open("/proc/self/fd", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
		s.procFD, s.setupErr = -1, err
	}
	s.places = openPlaces(o.Places)
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) == nil {
		s.maxBorrowed = int64(min(limit.Cur/4, 4096))
	}
	return s
}

// Serve answers notifications until the last filtered task is gone or Close is
// called. It then closes the listener; a notified call of a task that is still
// there fails with ENOSYS from then on.
func (s *Server) Serve() {
	s.mu.Lock()
	if s.started || s.closed {
		s.mu.Unlock()
		return
	}
	s.started = true
	w := s.startLocked()
	s.leader.Store(w)
	w.wake <- struct{}{}
	s.mu.Unlock()

	watchOver := make(chan struct{})
	go func() {
		defer close(watchOver)
		s.watch()
	}()
	s.wg.Wait()
	close(s.kick)
	<-watchOver
	s.release()
	close(s.over)
}

// Close ends Serve and waits for it: afterwards no goroutine, thread or
// descriptor of the Server is left. It may be called more than once.
func (s *Server) Close() error {
	s.mu.Lock()
	first := !s.closed
	s.closed = true
	started := s.started
	if first && started {
		s.endLocked()
	}
	s.mu.Unlock()
	if started {
		<-s.over
	} else if first {
		s.release()
	}
	return nil
}

func (s *Server) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, fd := range []*int{&s.listener, &s.stop, &s.procFD, &s.rootFD} {
		if *fd >= 0 {
			unix.Close(*fd)
			*fd = -1
		}
	}
	for _, p := range s.places {
		unix.Close(p.fd)
	}
	s.places = nil
}

// endLocked tells all workers to end. mu is held.
func (s *Server) endLocked() {
	if s.ended {
		return
	}
	s.ended = true
	close(s.ending)
	one := [8]byte{7: 1, 0: 1}
	unix.Write(s.stop, one[:])
	for _, w := range s.idle {
		close(w.wake)
	}
	s.idle = nil
}

func (s *Server) end() {
	s.mu.Lock()
	s.endLocked()
	s.mu.Unlock()
}

func (s *Server) startLocked() *worker {
	w := newWorker(s)
	s.workers++
	s.wg.Add(1)
	go w.run()
	return w
}

// promote makes another worker the leader. With all of them busy nobody leads
// until the first is done.
func (s *Server) promote() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leader.Store(nil)
	if s.ended {
		return
	}
	var w *worker
	if n := len(s.idle); n > 0 {
		w, s.idle = s.idle[n-1], s.idle[:n-1]
	} else if s.workers < maxWorkers {
		w = s.startLocked()
	} else {
		return
	}
	s.leader.Store(w)
	w.wake <- struct{}{}
}

// lead blocks until w is the leader. It returns false when w shall end.
func (s *Server) lead(w *worker) bool {
	s.mu.Lock()
	if s.ended {
		s.mu.Unlock()
		return false
	}
	if s.leader.Load() == nil {
		s.leader.Store(w)
		s.mu.Unlock()
		return true
	}
	s.idle = append(s.idle, w)
	s.mu.Unlock()

	timer := time.NewTimer(idleFor)
	defer timer.Stop()
	select {
	case _, ok := <-w.wake:
		return ok
	case <-timer.C:
	}
	s.mu.Lock()
	for i, x := range s.idle {
		if x == w {
			s.idle = append(s.idle[:i], s.idle[i+1:]...)
			s.mu.Unlock()
			return false
		}
	}
	s.mu.Unlock()
	_, ok := <-w.wake // chosen, or told to end, in the meantime
	return ok
}

// watch takes the lead from a worker that is stuck in one call (a network file
// system that doesn't answer), so that the others' calls are served. It sleeps
// while there are no notifications: nothing ticks in an idle dshx.
func (s *Server) watch() {
	for range s.kick {
		var last *worker
		var calls uint64
		for quiet := 0; quiet < 20; {
			select {
			case <-time.After(stallTick):
			case <-s.ending: // nobody waits for another leader
				return
			}
			w := s.leader.Load()
			if w == nil {
				quiet++
				continue
			}
			now := w.calls.Load()
			switch {
			case w != last || now != calls:
				quiet = 0
			case w.phase.CompareAndSwap(phaseBusy, phaseLost):
				quiet = 0
				s.promote()
			default:
				quiet++
			}
			last, calls = w, now
		}
		s.watching.Store(false)
		// A leader that began a call since the last look saw that it's watched,
		// and left it at that.
		if w := s.leader.Load(); w != nil && w.phase.Load() == phaseBusy && s.watching.CompareAndSwap(false, true) {
			select {
			case s.kick <- struct{}{}:
			default:
			}
		}
	}
}

// Phases of a worker. Whoever changes phaseBusy to another holds the right to
// decide who leads.
const (
	phaseWait = iota // waits for a notification, or to lead
	phaseBusy        // handles one and still leads
	phaseLost        // handles one, another leads
)

// worker is a goroutine locked to a thread of its own for good: its
// capabilities, working directory and umask aren't the process's.
type worker struct {
	s     *Server
	b     buffers
	n     *notification
	tid   int // of the caller
	wake  chan struct{}
	phase atomic.Int32
	calls atomic.Uint64

	broken error // what kept the thread from being set up; it refuses everything

	pidfd    int // of the thread pidfdTID
	pidfdTID int
	proc     int // /proc/TID of the thread procTID
	procTID  int
	tgid     int // of tid; 0 until asked for
	mem      int // /proc/TID/mem; -1
	owned    []int
	lent     []int // of borrowed: open
	borrowed int   // of Server.borrowed: this worker's
	how      unix.OpenHow
	path     [unix.PathMax]byte
	link     [unix.PathMax]byte
	small    [512]byte
	number   [24]byte
	scratch  []byte
}

func newWorker(s *Server) *worker {
	w := &worker{s: s, b: newBuffers(s.notifSize, s.respSize), wake: make(chan struct{}, 1), pidfd: -1, proc: -1, mem: -1}
	w.n = w.b.notification()
	return w
}

func (w *worker) run() {
	// Never unlocked: the thread ends with the goroutine, and nothing else runs
	// on it with what DropCaps left of its capabilities.
	runtime.LockOSThread()
	defer w.s.wg.Done()
	defer w.quit()
	w.broken = w.s.setupErr
	if w.broken == nil {
		w.broken = w.setup()
	}
	if _, ok := <-w.wake; !ok {
		return
	}
	for {
		for lead := true; lead; {
			if !w.next() {
				return
			}
			w.phase.Store(phaseBusy)
			w.calls.Add(1)
			if !w.s.watching.Load() && w.s.watching.CompareAndSwap(false, true) {
				select {
				case w.s.kick <- struct{}{}:
				default:
				}
			}
			w.serve()
			lead = w.phase.CompareAndSwap(phaseBusy, phaseWait)
		}
		w.phase.Store(phaseWait)
		if !w.s.lead(w) {
			return
		}
	}
}

func (w *worker) setup() error {
	// A working directory of this thread only; see worker.entry.
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return os.NewSyscallError("unshare", err)
	}
	if err := unix.Fchdir(w.s.procFD); err != nil {
		return os.NewSyscallError("fchdir", err)
	}
	if w.s.o.DropCaps != nil {
		return w.s.o.DropCaps()
	}
	return nil
}

// handOver lets another worker lead, since this call may block from here on. Until
// then only what it needs stays open: many may.
func (w *worker) handOver() {
	w.forget()
	if w.phase.CompareAndSwap(phaseBusy, phaseLost) {
		w.s.promote()
	}
}

// forget closes what is kept for the next call of the same caller.
func (w *worker) forget() {
	for _, fd := range []*int{&w.pidfd, &w.proc} {
		if *fd >= 0 {
			unix.Close(*fd)
			*fd = -1
		}
	}
	w.procTID = 0
}

func (w *worker) quit() {
	w.cleanup()
	w.forget()
	w.s.mu.Lock()
	w.s.workers--
	w.s.mu.Unlock()
}

// next receives a notification. It returns false when there won't be one.
func (w *worker) next() bool {
	for {
		// A blocked RECV can't be left: Go's signal handlers restart it. So wait
		// for the listener and for Close, and receive what is there. The leader
		// is the only one who receives, so what poll saw is still there, or its
		// caller is dead and RECV says ENOENT.
		fds := [2]unix.PollFd{{Fd: int32(w.s.listener), Events: unix.POLLIN}, {Fd: int32(w.s.stop), Events: unix.POLLIN}}
		_, err := unix.Poll(fds[:], -1)
		if err == unix.EINTR {
			continue
		}
		if err != nil || fds[1].Revents != 0 {
			w.s.end()
			return false
		}
		if fds[0].Revents&unix.POLLIN == 0 {
			// POLLHUP: the last filtered task is gone (Linux 5.9).
			w.s.end()
			return false
		}
		switch e := w.b.receive(w.s.listener); e {
		case 0:
			return true
		case unix.ENOENT, unix.EINTR:
			// The caller died between poll and RECV.
		default:
			w.s.end()
			return false
		}
	}
}

// errRestartSys is ERESTARTSYS of the kernel's include/linux/errno.h: with a
// signal pending, the call is restarted or fails with EINTR, as the handler's
// SA_RESTART says.
const errRestartSys = unix.Errno(512)

// answer is what goes back to the caller.
type answer struct {
	val  int64
	err  unix.Errno
	cont bool // let the kernel perform the call
	sent bool // it has been answered already
}

func failed(e unix.Errno) answer { return answer{err: e} }

// serve handles the received notification and answers it.
func (w *worker) serve() {
	a := w.handle()
	w.cleanup()
	if a.sent {
		return
	}
	r := w.b.response()
	clear(w.b.out)
	r.id = w.n.id
	switch {
	case a.cont:
		r.flags = unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE
	case a.err != 0:
		r.err = -int32(a.err)
	default:
		r.val = a.val
	}
	for w.b.send(w.s.listener) == unix.EINTR {
	}
	// ENOENT: the caller was killed. Nobody waits for this answer.
}

func (w *worker) handle() answer {
	w.tid, w.tgid = int(w.n.pid), 0
	switch {
	case w.broken != nil:
		return w.refuse("kernel", "call of the supervisor", "the supervisor could not be set up: "+w.broken.Error(), unix.EPERM)
	case w.n.pid == 0 || w.n.arch != auditArch:
		return failed(unix.EPERM)
	}
	h := handlerOf(w.n.nr)
	if h == nil {
		return w.unknown()
	}
	return h(w, &w.n.args)
}

// valid says whether the caller still waits; see buffers.valid. It comes after
// the last look at the caller's memory or /proc entry, and before the first
// effect.
func (w *worker) valid() bool { return w.b.valid(w.s.listener) }

// keep closes fd when the call has been answered.
func (w *worker) keep(fd int) int {
	w.owned = append(w.owned, fd)
	return fd
}

func (w *worker) cleanup() {
	for _, fd := range w.owned {
		unix.Close(fd)
	}
	w.owned = w.owned[:0]
	w.giveBack()
	if w.mem >= 0 {
		unix.Close(w.mem)
		w.mem = -1
	}
	if cap(w.scratch) > 1<<18 {
		w.scratch = nil
	}
}
