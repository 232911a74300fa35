package integration

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

const ptyWait = 15 * time.Second

// f3Shell is an interactive bash on an outer terminal, with dshx and the probe
// on its PATH.
type f3Shell struct {
	*Term
	e   *Env
	pos int
}

const f3Prompt = "outer> "

func (e *Env) f3Shell() *f3Shell {
	e.t.Helper()
	needDshx(e.t)
	bash := e.Tool("bash")
	s := &f3Shell{e: e, Term: e.Pty(Opts{Env: []string{
		"PS1=" + f3Prompt, "TERM=dumb", "HISTFILE=", "PATH=" + filepath.Dir(dshxBin) + ":" + os.Getenv("PATH"),
	}}, bash, "--norc", "--noprofile", "-i")}
	s.expect(f3Prompt)
	return s
}

// expect waits for the text after what was seen before.
func (s *f3Shell) expect(text string) {
	s.t.Helper()
	s.pos = s.Expect(text, s.pos, ptyWait)
}

// run types a command and waits for the prompt after it; it returns what was printed.
func (s *f3Shell) run(command string) string {
	s.t.Helper()
	s.Send(command + "\n")
	s.expect(command + "\r\n")
	from := s.pos
	s.expect(f3Prompt)
	return s.Output()[from : s.pos-len(f3Prompt)]
}

// status is the status of the last command.
func (s *f3Shell) status() string {
	s.t.Helper()
	return strings.TrimSpace(s.run("echo $?"))
}

// flags are the terminal's settings and the descriptors' flags.
func (s *f3Shell) flags() string {
	s.t.Helper()
	return strings.TrimSpace(s.run("probe f3-flags"))
}

// settings are the outer terminal's, as its master end sees them.
func (s *f3Shell) settings() (settings *unix.Termios) {
	s.t.Helper()
	conn, err := s.Master.SyscallConn()
	if err != nil {
		s.t.Fatal(err)
	}
	var failed error
	err = conn.Control(func(fd uintptr) { settings, failed = unix.IoctlGetTermios(int(fd), unix.TCGETS) })
	if err := errors.Join(err, failed); err != nil {
		s.t.Fatal(err)
	}
	return settings
}

// becomesRaw waits until dshx has made the outer terminal raw: what is typed before is
// echoed by both terminals.
func (s *f3Shell) becomesRaw() {
	s.t.Helper()
	eventually(s.t, ptyWait, "the outer terminal is raw", func() bool { return s.settings().Oflag&unix.OPOST == 0 })
}

// f3Foreground waits until a program with that argument runs in the foreground of its
// terminal: a key that comes before is for the shell, or for nobody.
func f3Foreground(t *testing.T, arg string) {
	t.Helper()
	eventually(t, ptyWait, arg+" in the foreground", func() bool {
		for _, pid := range f3WithArg(arg) {
			// proc_pid_stat(5), from the third field on: pgrp is 5, tpgid 8.
			if f := f3Stat(pid); len(f) > 5 && f[0] == "S" && f[2] == f[5] && f3Comm(pid) == "sleep" {
				return true
			}
		}
		return false
	})
}

// quiet fails the test when a shell has complained about its terminal.
func (s *f3Shell) quiet() {
	s.t.Helper()
	for _, bad := range []string{"job control", "terminal process group", "Inappropriate ioctl", "dshx: ", "panic", "goroutine"} {
		if strings.Contains(s.Output(), bad) {
			s.t.Errorf("%q in %q", bad, s.Output())
		}
	}
}

// leaves checks what the last command left: its status, and the terminal, whose
// flags were before.
func (s *f3Shell) leaves(what, status, before string) {
	s.t.Helper()
	if rc := s.status(); rc != status {
		s.t.Errorf("%s: status %s, want %s", what, rc, status)
	}
	if after := s.flags(); after != before {
		s.t.Errorf("%s: terminal\n was %s\n is  %s", what, before, after)
	}
}

// end ends the shell, which has said nothing that a person would mind, and with
// it everything.
func (s *f3Shell) end() {
	s.t.Helper()
	s.quiet()
	s.Close()
	s.e.NothingLeft(2 * time.Second)
}

// F3-6: in its own PTY a program sees each Ctrl-C once, dshx stays and returns
// the program's status.
func TestF3_6_CtrlC(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		for _, flags := range []string{"", "--tty always ", "--tty never "} {
			s := e.f3Shell()
			before := s.flags()
			s.Send("dshx exec " + flags + "-- probe f3-signals -until QUIT -exit 3 INT\n")
			s.expect("ready")
			from := s.pos
			for n := 1; n <= 2; n++ {
				s.Send("\x03")
				s.expect("got SIGINT")
			}
			s.Send("\x1c")
			s.expect("got SIGQUIT")
			s.expect(f3Prompt)
			if n := strings.Count(s.Output()[from:], "got SIGINT"); n != 2 {
				t.Errorf("%s: %d times SIGINT for two key strokes: %q", flags, n, s.Output()[from:])
			}
			s.leaves(flags, "3", before)
			// One that doesn't handle it dies of it. No shell: dash catches SIGINT, and
			// its child loses one that comes between fork and exec.
			s.Send("dshx exec " + flags + "-- probe f3-signals -until QUIT\n")
			s.expect("ready")
			s.Send("\x03")
			s.expect(f3Prompt)
			s.leaves(flags, "130", before)
			s.end()
		}
	})
}

// The terminal also sends its signals where only the input is a pipe.
func TestF3_6_CtrlCWithPipedInput(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		s := e.f3Shell()
		s.Send("sleep 50 | dshx exec -- probe f3-signals -until QUIT -exit 3 INT\n")
		s.expect("ready")
		from := s.pos
		s.Send("\x03")
		s.expect("got SIGINT")
		s.Send("\x1c")
		s.expect("got SIGQUIT")
		s.expect(f3Prompt)
		if n := strings.Count(s.Output()[from:], "got SIGINT"); n != 1 {
			t.Errorf("%d times SIGINT for one key stroke: %q", n, s.Output()[from:])
		}
		s.Close()
	})
}

// F3-7: Ctrl-Z, jobs, fg as with a plain cat.
func TestF3_7_StopAndForeground(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		for _, command := range []string{"cat", "dshx exec -- cat", "dshx exec --tty always -- cat", "dshx exec --tty never -- cat", "dshx exec -- cat | cat"} {
			s := e.f3Shell()
			before := s.flags()
			entered := func() {
				s.expect(command)
				if command == "dshx exec -- cat" || command == "dshx exec --tty always -- cat" {
					s.becomesRaw()
				}
			}
			s.Send(command + "\n")
			entered()
			for _, word := range []string{"hello", "again"} {
				s.Send(word + "\n")
				s.expect(word + "\r\n" + word + "\r\n") // the terminal's echo, and cat's
				s.Send("\x1a")
				s.expect("Stopped")
				s.expect(f3Prompt)
				if while := s.flags(); while != before {
					t.Errorf("%s: terminal while stopped\n was %s\n is  %s", command, before, while)
				}
				if out := s.run("jobs"); !strings.Contains(out, "Stopped") {
					t.Errorf("%s: jobs: %q", command, out)
				}
				s.Send("fg\n")
				entered()
			}
			s.Send("last\n")
			s.expect("last\r\nlast\r\n")
			s.Send("\x04")
			s.expect(f3Prompt)
			s.leaves(command, "0", before)
			s.end()
		}
	})
}

// F3-7: a stopped job can go on in the background, and be ended there.
func TestF3_7_StopAndBackground(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		for _, prefix := range []string{"", "dshx exec -- "} {
			s := e.f3Shell()
			// Nothing is forked when the key comes: a shell whose child was stopped
			// between vfork and exec waits for it and can't be stopped itself.
			gate := filepath.Join(e.W, "gate")
			os.Remove(gate)
			if err := unix.Mkfifo(gate, 0o600); err != nil {
				t.Fatal(err)
			}
			e.own(gate)
			s.Send(prefix + "sh -c 'echo st\"\"art; read x < gate; echo fi\"\"n'\n")
			s.expect("start")
			s.Send("\x1a")
			s.expect("Stopped")
			s.expect(f3Prompt)
			s.run("bg")
			if err := os.WriteFile(gate, []byte("go\n"), 0); err != nil {
				t.Fatal(err)
			}
			s.expect("fin")
			if rc := strings.TrimSpace(s.run("wait; echo $?")); !strings.HasSuffix(rc, "0") {
				t.Errorf("%q: %q", prefix, rc)
			}

			s.Send(prefix + "probe f3-signals -until QUIT\n")
			s.expect("ready")
			s.Send("\x1a")
			s.expect("Stopped")
			s.expect(f3Prompt)
			s.Send("kill %%; wait; echo en\"\"ded\n")
			s.expect("ended")
			s.expect(f3Prompt)
			if prefix != "" {
				s.quiet()
			}
			s.Close()
			e.NothingLeft(2 * time.Second)
		}
	})
}

// F3-7: a shell inside has job control of its own.
func TestF3_7_ShellInside(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		s := e.f3Shell()
		s.Send("dshx exec --env PS1='inner> ' -- bash --norc --noprofile -i\n")
		s.expect("\r\n") // the echo of the command line, which has the prompt's text in it
		s.expect("inner> ")
		s.Send("sleep 100.7 &\n")
		s.expect("[1] ")
		s.expect("inner> ")
		s.Send("fg\n")
		f3Foreground(t, "100.7")
		s.Send("\x1a")
		s.expect("Stopped")
		s.expect("inner> ")
		s.Send("kill %1; wait; echo go''ne\n")
		s.expect("gone")
		s.expect("inner> ")
		s.Send("sleep 100.7\n")
		f3Foreground(t, "100.7")
		s.Send("\x03")
		s.expect("inner> ")
		s.Send("echo rc=$?\n")
		s.expect("rc=130")
		s.Send("exit 4\n")
		s.expect(f3Prompt)
		if rc := s.status(); rc != "4" {
			t.Errorf("status %s", rc)
		}
		s.end()
	})
}

// F3-7: without a terminal nothing is said about terminals; started in the
// background dshx is not stopped by one that it has no need of.
func TestF3_7_WithoutAndInBackground(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		if r := e.Run(Opts{StatusFD: -1}, "sh", "-c", "printf ok"); r.Exit != 0 || r.Stdout != "ok" || r.Stderr != "" {
			t.Errorf("%s", r)
		}
		s := e.f3Shell()
		for _, command := range []string{"dshx exec -- true &", "dshx exec -- sh -c 'exit 0' &"} {
			s.run(command)
			s.Send("wait $!; echo rc''=$?\n")
			s.expect("rc=")
			from := s.pos
			s.expect(f3Prompt)
			if rc := s.Output()[from : from+1]; rc != "0" {
				t.Errorf("%s: %q", command, s.Output()[from:])
			}
		}
		if rc := s.run("jobs"); strings.Contains(rc, "Stopped") {
			t.Errorf("jobs: %q", rc)
		}
		// One that wants input gets it in the foreground, whether it was
		// stopped meanwhile, as a plain cat is, or waited.
		s.run("dshx exec -- cat &")
		eventually(t, ptyWait, "cat runs or is stopped", func() bool {
			for _, pid := range f3WithArg("cat") {
				if f := f3Stat(pid); f != nil && f[0] != "R" && (f3Comm(pid) == "cat" || f[0] == "T") {
					return true
				}
			}
			return false
		})
		s.Send("fg\n")
		s.expect("dshx exec -- cat")
		s.becomesRaw()
		s.Send("hello\n")
		s.expect("hello\r\nhello\r\n")
		s.Send("\x04")
		s.expect(f3Prompt)
		s.end()
	})
}

// F3-8: the size of the outer terminal is the inner one's, from the start and
// after each change.
func TestF3_8_WindowSize(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		stty := e.DshxArgv(Opts{StatusFD: -1}, "stty", "size")
		for _, tc := range []struct {
			size pty.Winsize
			want string
		}{
			{pty.Winsize{Rows: 50, Cols: 132}, "50 132\r\n"},
			{pty.Winsize{Rows: 0, Cols: 0}, "24 80\r\n"},
			{pty.Winsize{Rows: 1, Cols: 1}, "1 1\r\n"},
			{pty.Winsize{Rows: 1000, Cols: 2000}, "1000 2000\r\n"},
		} {
			term := e.PtySize(Opts{}, &tc.size, stty...)
			if code := term.Wait(ptyWait); code != 0 || term.Output() != tc.want {
				t.Errorf("%v: exit %d, %q, want %q", tc.size, code, term.Output(), tc.want)
			}
			term.Close()
		}
		argv := e.DshxArgv(Opts{StatusFD: -1}, probeBin, "f3-signals", "-until", "TERM", "WINCH")
		term := e.PtySize(Opts{}, &pty.Winsize{Rows: 50, Cols: 132}, argv...)
		pos := term.Expect("ready", 0, ptyWait)
		for _, size := range []pty.Winsize{{Rows: 40, Cols: 100}, {Rows: 30, Cols: 90}, {Rows: 41, Cols: 101}} {
			if err := pty.Setsize(term.Master, &size); err != nil {
				t.Fatal(err)
			}
			pos = term.Expect(fmt.Sprintf("got SIGWINCH %d %d\r\n", size.Rows, size.Cols), pos, ptyWait)
		}
		// A change while it was stopped is seen afterwards; and a burst ends at the last size.
		for i := range 20 {
			if err := pty.Setsize(term.Master, &pty.Winsize{Rows: uint16(10 + i), Cols: 60}); err != nil {
				t.Fatal(err)
			}
		}
		term.Expect("got SIGWINCH 29 60\r\n", pos, ptyWait)
		if err := syscall.Kill(term.Cmd.Process.Pid, syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		term.Wait(ptyWait)
	})
}

// f3Wrapped runs a command line on an outer terminal between two looks at the
// terminal and at the descriptors that it shares with its caller.
type f3Wrapped struct {
	*Term
	t *testing.T
}

func (e *Env) f3Wrapped(argv ...string) *f3Wrapped {
	e.t.Helper()
	// What dshx can't do itself when it is killed its guard does, a moment later.
	script := `probe=$1; shift; before=$("$probe" f3-flags); printf 'before %s\n' "$before"; sh -c 'echo pid=$$.; exec "$@"' sh "$@"; rc=$?
		after=$("$probe" f3-flags); n=0
		case $rc in 2|134|137|139) while [ "$after" != "$before" ] && [ $n -lt 100 ]; do n=$((n+1)); sleep 0.02; after=$("$probe" f3-flags); done;; esac
		printf 'rc=%s after %s\n' $rc "$after"`
	return &f3Wrapped{e.Pty(Opts{}, append([]string{"sh", "-c", script, "sh", probeBin}, argv...)...), e.t}
}

var (
	f3PidLine   = regexp.MustCompile(`pid=(\d+)\.`)
	f3FirstLook = regexp.MustCompile(`before (fd0=[^\r\n]*)\r?\n`)
	f3LastLook  = regexp.MustCompile(`rc=(\d+) after (fd0=[^\r\n]*)\r?\n`)
)

func (w *f3Wrapped) pid() int {
	w.t.Helper()
	w.Expect("pid=", 0, ptyWait)
	w.Expect(".", w.Expect("pid=", 0, ptyWait), ptyWait)
	pid, err := strconv.Atoi(f3PidLine.FindStringSubmatch(w.Output())[1])
	if err != nil {
		w.t.Fatal(err)
	}
	return pid
}

// after waits for the end and returns the status and whether all is as before.
func (w *f3Wrapped) after() (rc int, same bool) {
	w.t.Helper()
	w.Wait(ptyWait)
	first, last := f3FirstLook.FindStringSubmatch(w.Output()), f3LastLook.FindStringSubmatch(w.Output())
	if first == nil || last == nil {
		w.t.Fatalf("the wrapper did not come to its end: %q", w.Output())
	}
	rc, err := strconv.Atoi(last[1])
	if err != nil {
		w.t.Fatal(err)
	}
	if first[1] != last[2] {
		w.t.Logf("terminal\n was %s\n is  %s", first[1], last[2])
	}
	return rc, first[1] == last[2]
}

// F3-9: the command may leave its terminal in any state.
func TestF3_9_CommandLeavesTerminal(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		for mode, want := range map[string]int{"raw-kill": 137, "raw-exit": 0, "nonblock-exit": 0, "hide-kill": 137} {
			w := e.f3Wrapped(e.DshxArgv(Opts{StatusFD: -1}, probeBin, "f3-tty", mode)...)
			rc, same := w.after()
			if rc != want || !same {
				t.Errorf("%s: status %d, restored %v: %q", mode, rc, same, w.Output())
			}
			if mode == "hide-kill" {
				out := w.Output()
				if hidden := strings.LastIndex(out, "\x1b[?25l"); hidden < 0 || !strings.Contains(out[hidden:], "\x1b[?25h") {
					t.Errorf("the cursor stays hidden: %q", out)
				}
			}
		}
		// The control: without dshx the terminal stays as the program left it.
		w := e.f3Wrapped(probeBin, "f3-tty", "raw-kill")
		if _, same := w.after(); same {
			t.Error("control: the probe changes nothing")
		}
	})
}

// F3-9: dshx may end in any way.
func TestF3_9_DshxEnds(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		for _, sig := range []syscall.Signal{
			syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGALRM,
			syscall.SIGABRT, syscall.SIGSEGV, // what an internal error looks like from outside
			syscall.SIGKILL,
		} {
			w := e.f3Wrapped(e.DshxArgv(Opts{StatusFD: -1}, probeBin, "f3-tty", "raw-hang")...)
			pid := w.pid()
			w.Expect("ready", 0, ptyWait)
			if err := syscall.Kill(pid, sig); err != nil {
				t.Fatal(err)
			}
			if sig == syscall.SIGALRM { // which it may have no use for
				for deadline := time.Now().Add(time.Second); Alive(pid) && time.Now().Before(deadline); {
					time.Sleep(5 * time.Millisecond)
				}
				_ = syscall.Kill(pid, syscall.SIGTERM)
			}
			if rc, same := w.after(); rc == 0 || !same {
				t.Errorf("%v: status %d, restored %v: %q", sig, rc, same, w.Output())
			}
			e.NothingLeft(2 * time.Second)
		}
	})
}

// F3-9: a signal right after the start is no exception.
func TestF3_9_SignalAtStart(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		for i := range 40 {
			sig := []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP}[i%2]
			w := e.f3Wrapped(e.DshxArgv(Opts{StatusFD: -1}, probeBin, "f3-tty", "raw-hang")...)
			pid := w.pid()
			time.Sleep(time.Duration(i/2) * 500 * time.Microsecond) // the case is the moment
			if err := syscall.Kill(pid, sig); err != nil && err != unix.ESRCH {
				t.Fatal(err)
			}
			if rc, same := w.after(); rc != 128+int(sig) || !same {
				t.Errorf("%v after %v: status %d, restored %v: %q", sig, time.Duration(i/2)*500*time.Microsecond, rc, same, w.Output())
			}
			w.Close()
			e.NothingLeft(2 * time.Second)
		}
	})
}

// F3-9: neither is a run that never comes to a command.
func TestF3_9_NeverStarted(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		for want, argv := range map[int][]string{127: {"dshx-no-such-command"}, 126: {e.W}} {
			w := e.f3Wrapped(e.DshxArgv(Opts{StatusFD: -1}, argv...)...)
			rc, same := w.after()
			if rc != want || !same {
				t.Errorf("status %d, restored %v: %q", rc, same, w.Output())
			}
			if !strings.Contains(w.Output(), "dshx: ") {
				t.Errorf("no message: %q", w.Output())
			}
		}
	})
}

// F3-10: on a PTY too the output of a command that is gone at once is complete.
func TestF3_10_FastExit(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		// Half the runs of the case here, on a terminal; the others with pipes.
		for i := range 40 {
			term := e.Pty(Opts{}, e.DshxArgv(Opts{StatusFD: -1}, "seq", "1", "100000")...)
			code := term.Wait(ptyWait)
			out := term.Output()
			term.Close()
			if code != 0 || !strings.HasSuffix(out, "\n99999\r\n100000\r\n") || strings.Count(out, "\n") != 100000 || strings.Contains(out, "dshx") {
				t.Fatalf("run %d: exit %d, %d lines, end %q", i, code, strings.Count(out, "\n"), out[max(0, len(out)-60):])
			}
		}
		for i := range 50 {
			term := e.Pty(Opts{}, e.DshxArgv(Opts{StatusFD: -1}, "sh", "-c", "printf x; exit 3")...)
			if code := term.Wait(ptyWait); code != 3 || term.Output() != "x" {
				t.Fatalf("run %d: exit %d, %q", i, code, term.Output())
			}
			term.Close()
		}
		for _, flags := range [][]string{nil, {"--tty", "always"}} {
			argv := e.DshxArgv(Opts{StatusFD: -1, Flags: flags}, "sh", "-c", "(trap '' HUP; sleep 0.2; echo late) & echo early; exit 3")
			began := time.Now()
			term := e.Pty(Opts{}, argv...)
			if code := term.Wait(ptyWait); code != 3 || !strings.HasPrefix(term.Output(), "early\r\n") || time.Since(began) > 5*time.Second {
				t.Errorf("grandchild: exit %d, %q after %v", code, term.Output(), time.Since(began))
			}
			e.f3Ended()
		}
	})
}

// What is typed ahead reaches the command, Ctrl-D is the end of input, and
// bytes of every kind pass through raw programs.
func TestF3_9_InputReachesCommand(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		term := e.Pty(Opts{}, e.DshxArgv(Opts{StatusFD: -1}, "sh", "-c", "read a; read b; echo got=$a,$b; cat >/dev/null; echo end; exit 6")...)
		term.Send("typed\nahead\n")
		term.Expect("got=typed,ahead", 0, ptyWait)
		term.Send("\x04")
		term.Expect("end", 0, ptyWait)
		if code := term.Wait(ptyWait); code != 6 {
			t.Errorf("exit %d", code)
		}
		// Every byte, as a program in raw mode sees it.
		term = e.Pty(Opts{}, e.DshxArgv(Opts{StatusFD: -1}, "sh", "-c", "stty raw -echo; echo ready; head -c 256 | od -An -v -tu1 | tr -s ' \\n' '  '; echo end")...)
		term.Expect("ready", 0, ptyWait)
		var all strings.Builder
		var want strings.Builder
		for i := range 256 {
			all.WriteByte(byte(i))
			fmt.Fprintf(&want, " %d", i)
		}
		term.Send(all.String())
		term.Expect("end", 0, ptyWait)
		if !strings.Contains(term.Output(), strings.TrimSpace(want.String())) {
			t.Errorf("bytes: %q", term.Output())
		}
		term.Wait(ptyWait)
	})
}

// A large paste is neither cut nor reordered.
func TestF3_9_LargePaste(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		e.Tool("cksum")
		term := e.Pty(Opts{}, e.DshxArgv(Opts{StatusFD: -1}, "sh", "-c", "stty raw -echo; echo ready; head -c 300000 >paste; echo end")...)
		term.Expect("ready", 0, ptyWait)
		var b strings.Builder
		for i := 0; b.Len() < 300000; i++ {
			fmt.Fprintf(&b, "%07d\n", i)
		}
		term.Send(b.String()[:300000])
		term.Expect("end", 0, ptyWait)
		if got := e.Read(filepath.Join(e.W, "paste")); got != b.String()[:300000] {
			t.Errorf("%d bytes, not what was typed", len(got))
		}
		term.Wait(ptyWait)
	})
}

// The terminal of a PTY run is the command's own: a session with a controlling
// terminal that isn't the caller's.
func TestF3_9_OwnSession(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		w := e.f3Wrapped(e.DshxArgv(Opts{StatusFD: -1}, "sh", "-c", `echo "tty=$(tty) inside=$$."; echo x >/dev/tty && read x`)...)
		w.Expect("x\r\n", w.Expect("inside=", 0, ptyWait), ptyWait)
		m := regexp.MustCompile(`tty=(\S+) inside=(\d+)\.`).FindStringSubmatch(w.Output())
		if m == nil {
			t.Fatalf("%q", w.Output())
		}
		inside, err := strconv.Atoi(m[2])
		if err != nil {
			t.Fatal(err)
		}
		// State, parent, group, session, terminal, foreground group: proc(5).
		caller, command := f3Stat(w.pid()), f3Stat(inside)
		if caller == nil || command == nil {
			t.Fatalf("not there: %q", w.Output())
		}
		if caller[3] == command[3] || caller[4] == command[4] || command[4] == "0" {
			t.Errorf("session and terminal: caller's %v, command's %v", caller[3:5], command[3:5])
		}
		if command[2] != command[5] || command[2] != m[2] {
			t.Errorf("the command does not lead the foreground of its terminal: %v", command[2:6])
		}
		w.Send("\n")
		rc, same := w.after()
		if rc != 0 || !same {
			t.Errorf("status %d, restored %v: %q", rc, same, w.Output())
		}
		// With --tty never it's the caller's terminal.
		w = e.f3Wrapped(e.DshxArgv(Opts{StatusFD: -1, Flags: []string{"--tty", "never"}}, "sh", "-c", `tty; test -t 0 -a -t 1 -a -t 2 && exit 8`)...)
		if rc, _ := w.after(); rc != 8 {
			t.Errorf("--tty never: status %d: %q", rc, w.Output())
		}
		// auto without a terminal on standard output: no PTY.
		r := e.Run(Opts{}, "sh", "-c", "test -t 1")
		if r.Exit != 1 {
			t.Errorf("auto with pipes: %s", r)
		}
	})
}

// f3BarePty is an outer terminal that nobody reads in the background: it can
// be full, and it can be closed (a Term's can't, while its reader is at it).
type f3BarePty struct {
	t      *testing.T
	master *os.File
	cmd    *exec.Cmd
	done   chan struct{}
}

func (e *Env) f3BarePty(argv ...string) *f3BarePty {
	e.t.Helper()
	master, slave, err := pty.Open()
	if err != nil {
		e.t.Fatal(err)
	}
	defer slave.Close()
	if isRoot {
		if err := os.Chown(slave.Name(), e.UID, -1); err != nil {
			e.t.Fatal(err)
		}
	}
	p := &f3BarePty{t: e.t, master: master, cmd: e.Command(Opts{}, argv...), done: make(chan struct{})}
	p.cmd.SysProcAttr.Setpgid = false
	p.cmd.SysProcAttr.Setsid, p.cmd.SysProcAttr.Setctty = true, true
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = slave, slave, slave
	if err := p.cmd.Start(); err != nil {
		e.t.Fatal(err)
	}
	go func() { _ = p.cmd.Wait(); close(p.done) }()
	e.t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.done
		master.Close()
	})
	return p
}

func (p *f3BarePty) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// read reads until the text has come, and returns what came.
func (p *f3BarePty) read(text string) string {
	p.t.Helper()
	var out []byte
	for buf := make([]byte, 4096); !strings.Contains(string(out), text); {
		n, err := p.master.Read(buf)
		if err != nil {
			p.t.Fatalf("terminal: %v after %q", err, out)
		}
		out = append(out, buf[:n]...)
	}
	return string(out)
}

// When the terminal goes away the command gets the hang-up that it would have
// had without dshx, and a dshx whose command stays does not spin.
func TestF3_9_TerminalGone(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		plain := []string{"sh", "-c", "echo start; exec sleep 300"}
		for _, argv := range [][]string{plain, e.DshxArgv(Opts{StatusFD: -1}, plain...)} {
			term := e.f3BarePty(argv...)
			term.read("start")
			term.master.Close()
			eventually(t, ptyWait, argv[0]+" ended", term.ended)
			e.NothingLeft(2 * time.Second)
		}

		term := e.f3BarePty(e.DshxArgv(Opts{StatusFD: -1}, "sh", "-c", "trap '' HUP; echo start; while :; do sleep 300; done")...)
		term.read("start")
		term.master.Close()
		pid := term.cmd.Process.Pid
		used := func() int { // in ticks of 10 ms
			f := f3Stat(pid)
			if len(f) < 13 {
				return 0
			}
			user, _ := strconv.Atoi(f[11])
			system, _ := strconv.Atoi(f[12])
			return user + system
		}
		before, began := used(), time.Now()
		time.Sleep(500 * time.Millisecond) // the time over which the use is measured
		if spent := used() - before; Alive(pid) && time.Duration(spent)*10*time.Millisecond > time.Since(began)/4 {
			t.Errorf("dshx used %d ms of processor time in %v of waiting", spent*10, time.Since(began))
		}
		_ = syscall.Kill(pid, syscall.SIGKILL)
		e.NothingLeft(2 * time.Second)
	})
}

// A terminal that takes no more output (Ctrl-S) doesn't make dshx immortal.
func TestF3_10_BlockedTerminal(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		term := e.f3BarePty(e.DshxArgv(Opts{StatusFD: -1}, "yes")...)
		// Blocked: "yes" is there and waits, and goes on waiting.
		waiting := 0
		eventually(t, ptyWait, "output is blocked", func() bool {
			state := ""
			for _, pid := range f3WithArg("yes") {
				if f := f3Stat(pid); f != nil && f3Comm(pid) == "yes" {
					state = f[0]
				}
			}
			if state != "S" {
				waiting = 0
			}
			waiting++
			return waiting > 20
		})
		for deadline := time.Now().Add(ptyWait); ; {
			select {
			case <-term.done:
				e.NothingLeft(2 * time.Second)
				return
			case <-time.After(200 * time.Millisecond):
			}
			if time.Now().After(deadline) {
				t.Fatal("TERM does not end it")
			}
			_ = syscall.Kill(term.cmd.Process.Pid, syscall.SIGTERM)
		}
	})
}
