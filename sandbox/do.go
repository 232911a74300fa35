package sandbox

import (
	"errors"
	"runtime"

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

// Do runs f on a thread that Landlock holds to the policy's rules for files,
// and returns its error. Every file that f opens, makes, renames or removes is
// judged by the kernel as a command's would be; f must do so on its own
// goroutine, since others run elsewhere.
//
// Not judged in f: changes of mode, owner, times and attributes, sockets,
// signals. f must ask the policy about these.
//
// Calls run one after the other. Errors: ErrClosed, or f's.
func (d *Domain) Do(f func() error) error {
	t, err := d.doer()
	if err != nil {
		return err
	}
	var result error
	done := make(chan struct{})
	call := func() {
		defer close(done)
		result = f()
	}
	select {
	case t.work <- call:
		<-done
		return result
	case <-t.ended:
		return ErrClosed
	}
}

func (d *Domain) doer() (*doThread, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, ErrClosed
	}
	if d.do != nil {
		return d.do, nil
	}
	t := &doThread{work: make(chan func()), quit: make(chan struct{}), ended: make(chan struct{})}
	ready := make(chan error, 1)
	go t.run(d, ready)
	if err := <-ready; err != nil {
		return nil, err
	}
	d.do = t
	return t, nil
}

func (t *doThread) run(d *Domain, ready chan<- error) {
	runtime.LockOSThread()
	if unix.Gettid() == unix.Getpid() {
		inner := make(chan error, 1)
		go t.run(d, inner)
		ready <- <-inner
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

func (t *doThread) close() {
	close(t.quit)
	<-t.ended
}
