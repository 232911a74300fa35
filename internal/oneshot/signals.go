package oneshot

import (
	"github.com/dshx/dshx/internal/sigpipe"
	"github.com/dshx/dshx/sandbox"
	"golang.org/x/sys/unix"
)

// passed are the signals that go on to the command.
var passed = []unix.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2,
	unix.SIGWINCH, unix.SIGCONT, unix.SIGTSTP}

// waiting makes the one thread of a run wait for its command and for signals
// alike: handle gets each signal.
func waiting(handle func(sigpipe.Signal), stopped func()) sandbox.Waiting {
	return sandbox.Waiting{
		Block: func(fd, also int) (bool, error) {
			some, readable, err := sigpipe.Wait(fd, also)
			if !some || err != nil {
				return readable, err
			}
			s, err := sigpipe.Next()
			if err == nil && s.Number != 0 && s.Number != unix.SIGCHLD {
				handle(s)
			}
			return readable, err
		},
		Wake:    sigpipe.Wake,
		Stopped: stopped,
	}
}

// pass passes on what processes send to dshx. What the kernel sends for a key
// or a terminal that is gone, it sends to the command as well, which is in the
// same process group.
func (r *run) pass(s sigpipe.Signal) {
	if !s.FromKernel() {
		r.send(s.Number)
	}
}

// send passes a signal on. Once the command has ended, one that would have
// ended it means that what it left behind has no more time.
func (r *run) send(sig unix.Signal) {
	if r.cmd.State == nil {
		_ = r.cmd.Signal(sig)
		return
	}
	switch sig {
	case unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT:
		r.cmd.Hurry()
	}
}
