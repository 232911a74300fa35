// Package ttyprompt asks the person at the terminal a question that is answered
// by yes or no.
//
// The terminal keeps its mode, so that there is nothing to put back however the
// process ends, and lines, erasing and echo are as people know them. No more is
// read than the line of the answer: what is typed for others stays there.
package ttyprompt

import (
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// Errors of Confirm.
var (
	// ErrNobody: there is no terminal, or it is another job's.
	ErrNobody = errors.New("there is no terminal to ask on")
	// ErrTyped: something had been typed before the question was there. It can't
	// be an answer, and it is left for whom it was typed.
	ErrTyped = errors.New("something was typed before the question could be asked")
	// ErrClosed: the terminal's input ended, by Ctrl-D or since it is gone.
	ErrClosed = errors.New("the input ended without an answer")
	// ErrStopped: wait said so.
	ErrStopped = errors.New("the question was withdrawn")
)

// maxText is how much of a text is shown, in bytes, so that the question stays
// on the screen.
const maxText = 4 << 10

// Wait returns when the descriptor can be read, or when the question is to be
// withdrawn (stop).
type Wait func(fd int) (stop bool, err error)

// Confirm shows text on the terminal that controls this process, and returns
// whether the answer is yes: y or yes. Everything else is no, an empty line too.
// What text holds is shown and does nothing; see Show.
//
// Errors: ErrNobody, at once, where this process is not in the foreground of a
// terminal; ErrTyped; ErrClosed; ErrStopped; those of wait.
func Confirm(text string, wait Wait) (yes bool, err error) {
	// Not the caller's standard streams: they may be the command's. Non-blocking:
	// a terminal that is held (Ctrl-S) must not hold this process.
	fd, err := unix.Open("/dev/tty", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return false, ErrNobody
	}
	defer unix.Close(fd)
	if !foreground(fd) {
		return false, ErrNobody
	}
	if typed(fd) {
		_ = write(fd, "dshx: a question is not asked, since "+ErrTyped.Error()+"\n")
		return false, ErrTyped
	}
	if err := write(fd, Show(text)+" [y/N] "); err != nil {
		return false, err
	}
	var answer []byte
	for {
		switch stop, err := wait(fd); {
		case err != nil:
			return false, err
		case stop:
			_ = write(fd, "\n")
			return false, ErrStopped
		}
		var b [1]byte // a line may be followed by what is somebody else's
		switch n, err := unix.Read(fd, b[:]); {
		case err == unix.EINTR || err == unix.EAGAIN:
			continue
		case err != nil || n == 0:
			_ = write(fd, "\n")
			return false, ErrClosed
		}
		if b[0] == '\n' || b[0] == '\r' {
			break
		}
		if len(answer) < 16 {
			answer = append(answer, b[0])
		}
	}
	a := strings.ToLower(strings.TrimSpace(string(answer)))
	return a == "y" || a == "yes", nil
}

func foreground(fd int) bool {
	pgrp, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP)
	return err == nil && pgrp == unix.Getpgrp()
}

// typed reports input that is there. Of a line that isn't finished only a
// terminal that makes no lines tells (n_tty_ioctl_helper of the kernel's
// drivers/tty/n_tty.c counts finished ones), so for a moment it makes none.
func typed(fd int) bool {
	t, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return false
	}
	if t.Lflag&unix.ICANON != 0 {
		plain := *t
		plain.Lflag &^= unix.ICANON
		// TCSETS neither waits for output nor discards input: ioctl_tty(2).
		if setTermios(fd, &plain) == nil {
			defer func() { _ = setTermios(fd, t) }()
		}
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCINQ)
	return err == nil && n > 0
}

// setTermios blocks SIGTTOU, which would stop a process that has just been
// moved to the background: tcsetattr(3).
func setTermios(fd int, t *unix.Termios) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var block, old unix.Sigset_t
	block.Val[0] = 1 << (unix.SIGTTOU - 1)
	_ = unix.PthreadSigmask(unix.SIG_BLOCK, &block, &old)
	err := unix.IoctlSetTermios(fd, unix.TCSETS, t)
	_ = unix.PthreadSigmask(unix.SIG_SETMASK, &old, nil)
	return err
}

// write writes all of s, or gives a terminal that takes nothing for a second up.
func write(fd int, s string) error {
	for b := []byte(s); len(b) > 0; {
		n, err := unix.Write(fd, b)
		switch err {
		case nil:
			b = b[n:]
		case unix.EINTR:
		case unix.EAGAIN:
			p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
			if n, err := unix.Poll(p, 1000); err != unix.EINTR && (err != nil || n == 0) {
				return ErrNobody
			}
		default:
			return ErrNobody
		}
	}
	return nil
}

// Show is text as a terminal can show it without acting on it: what isn't
// printable, direction marks included, by its code; of a long one both ends.
// Lines stay lines, all but the first indented, so that none looks like
// another's.
func Show(text string) string {
	var b strings.Builder
	if len(text) > maxText {
		head, tail := text[:maxText/2], text[len(text)-maxText/2:]
		text = strings.ToValidUTF8(head, "") + fmt.Sprintf("\n[… %d bytes that are not shown …]\n", len(text)-len(head)-len(tail)) + strings.ToValidUTF8(tail, "")
	}
	for i, line := range strings.Split(text, "\n") {
		if i > 0 {
			b.WriteString("\n    ")
		}
		b.WriteString(Line(line))
	}
	return b.String()
}

// Line is text on one line, where what can't be printed is shown by its code.
// Names that a command made up are in messages, and an answer of the terminal to
// a sequence in one would be typed into the caller's shell.
func Line(text string) string {
	var b strings.Builder
	for i, r := range text {
		switch {
		case r == utf8.RuneError && text[i] != "\uFFFD"[0]:
			fmt.Fprintf(&b, `\x%02x`, text[i])
		case !unicode.IsPrint(r):
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
