package oneshot

import (
	"github.com/dshx/dshx/internal/sigpipe"
	"github.com/dshx/dshx/sandbox"
	"golang.org/x/sys/unix"
)

// passed are the signals that go on to the command.
var passed = []unix.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2,
	unix.SIGWINCH, unix.SIGCONT, unix.SIGTSTP}

// forward passes on what processes send to dshx. What the kernel sends for a
// key or a terminal that is gone, it sends to the command as well, which is in
// the same process group.
func forward(c *sandbox.Cmd) {
	for {
		s, err := sigpipe.Next()
		if err != nil {
			return
		}
		if !s.FromKernel() {
			_ = c.Signal(s.Number)
		}
	}
}
