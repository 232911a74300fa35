package sandbox

import (
	"errors"
	"fmt"
	"runtime"
	"sync"

	"github.com/dshx/dshx/sandbox/internal/caps"
	"github.com/dshx/dshx/sandbox/internal/landlock"
	"golang.org/x/sys/unix"
)

// ErrClosed is the error of a domain that was closed.
var ErrClosed = errors.New("the domain is closed")

// doThread runs functions of this process in the domain. It is another thread
// than the one that starts commands: it is restricted like them, and a thread
// in the Landlock domain of its children could be traced by them. It has no
// seccomp filter, which would judge the Go runtime and the supervisor's own
// descriptors; functions of this process are trusted not to change metadata
// outside of what the policy's Verdict allows.
type doThread struct {
	work  chan func()
	quit  chan struct{}
	ended chan struct{}
}

// maxDo is how many functions run in a domain at once.
const maxDo = 16

// doPool is the threads that run functions in a domain.
type doPool struct {
	mu     sync.Mutex
	freed  sync.Cond
	free   int         // of maxDo
	idle   []*doThread // of the free ones those that there are
	all    []*doThread
	closed bool
}

// Do runs f on a thread that Landlock holds to the policy's rules for files,
// and returns its error. Every file that f opens, makes, renames or removes is
// judged by the kernel as a command's would be; f must do so on its own
// goroutine, since others run elsewhere.
//
// Not judged in f: changes of mode, owner, times and attributes, sockets,
// signals. f must ask the policy about these.
//
// At most 16 functions of a domain run at once, others wait. A panic of f is
// one of Do. Errors: ErrClosed, or f's.
func (d *Domain) Do(f func() error) error {
	var err error
	if e := d.DoN(1, func(int) { err = f() }); e != nil {
		return e
	}
	return err
}

// DoN runs f(0) to f(n-1) at the same time, each as Do would, and returns when
// all have returned. n is at most 16.
func (d *Domain) DoN(n int, f func(i int)) error {
	if n < 1 || n > maxDo {
		return fmt.Errorf("DoN of %d functions; there can be 1 to %d", n, maxDo)
	}
	threads, err := d.doers(n)
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	panics := make([]any, n)
	for i, t := range threads {
		wg.Add(1)
		t.work <- func() {
			defer wg.Done()
			defer func() { panics[i] = recover() }()
			f(i)
		}
	}
	wg.Wait()
	d.do.release(threads)
	for _, p := range panics {
		if p != nil {
			panic(p)
		}
	}
	return nil
}

// doers takes n threads, all at once: two callers that each held a part of what
// they need would wait for each other.
func (d *Domain) doers(n int) ([]*doThread, error) {
	p := &d.do
	p.mu.Lock()
	if p.freed.L == nil {
		p.freed.L, p.free = &p.mu, maxDo
	}
	for p.free < n && !p.closed {
		p.freed.Wait()
	}
	if p.closed {
		p.mu.Unlock()
		return nil, ErrClosed
	}
	p.free -= n
	k := len(p.idle) - min(n, len(p.idle))
	threads := append([]*doThread(nil), p.idle[k:]...)
	p.idle = p.idle[:k]
	p.mu.Unlock()

	for len(threads) < n {
		t := &doThread{work: make(chan func()), quit: make(chan struct{}), ended: make(chan struct{})}
		ready := make(chan error, 1)
		go t.run(d, ready)
		if err := <-ready; err != nil {
			<-t.ended
			p.mu.Lock()
			p.free += n - len(threads)
			p.mu.Unlock()
			p.release(threads)
			return nil, err
		}
		p.mu.Lock()
		p.all = append(p.all, t)
		p.mu.Unlock()
		threads = append(threads, t)
	}
	return threads, nil
}

func (p *doPool) release(threads []*doThread) {
	p.mu.Lock()
	p.idle = append(p.idle, threads...)
	p.free += len(threads)
	p.freed.Broadcast()
	p.mu.Unlock()
}

// close ends the threads when the functions that run have returned.
func (p *doPool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.freed.L == nil {
		p.freed.L, p.free = &p.mu, maxDo
	}
	p.closed = true
	p.freed.Broadcast()
	for p.free < maxDo {
		p.freed.Wait()
	}
	for _, t := range p.all {
		close(t.quit)
		<-t.ended
	}
	p.all, p.idle = nil, nil
}

func (t *doThread) run(d *Domain, ready chan<- error) {
	runtime.LockOSThread()
	if unix.Gettid() == unix.Getpid() {
		// Held until the other has a thread: where there is one processor, it
		// would be given this one again, and again.
		elsewhere := make(chan struct{})
		go func() {
			runtime.LockOSThread()
			close(elsewhere)
			t.run(d, ready)
		}()
		<-elsewhere
		runtime.UnlockOSThread()
		return
	}
	defer close(t.ended) // the thread ends with its goroutine
	if d.ruleset != nil {
		err := caps.Drop()
		if err == nil {
			err = unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
		}
		if err == nil {
			err = landlock.Restrict(d.ruleset.FD)
		}
		if err != nil {
			ready <- &UnavailableError{landlock.Why(err), landlock.Remedy(err)}
			return
		}
	}
	ready <- nil
	for {
		select {
		case f := <-t.work:
			f()
		case <-t.quit:
			return
		}
	}
}
