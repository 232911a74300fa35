package oneshot

import (
	"os"
	"os/signal"

	"github.com/dshx/dshx/sandbox"
	"golang.org/x/sys/unix"
)

// signals passes on what dshx receives.
type signals struct {
	ch chan os.Signal
	// fromTerminal: the terminal sends its own signals to the command as well
	// as to dshx, which is in the same process group.
	fromTerminal bool
}

func newSignals() *signals {
	s := &signals{ch: make(chan os.Signal, 64)}
	signal.Notify(s.ch, unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2,
		unix.SIGWINCH, unix.SIGCONT, unix.SIGTSTP)
	return s
}

func (s *signals) stop() { signal.Stop(s.ch) }

func (s *signals) forward(c *sandbox.Cmd) {
	for sig := range s.ch {
		n := sig.(unix.Signal)
		switch n {
		case unix.SIGINT, unix.SIGQUIT, unix.SIGTSTP, unix.SIGWINCH:
			// The command would see it twice.
			if inForeground() {
				continue
			}
		}
		_ = c.Signal(n)
	}
}

// inForeground reports whether a terminal's signals go to this process group.
func inForeground() bool {
	fd, err := unix.Open("/dev/tty", unix.O_RDONLY|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	fg, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP)
	return err == nil && fg == unix.Getpgrp()
}
