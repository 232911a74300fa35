package integration

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// F3-6, without a terminal: each of the signals goes on to the command, once,
// and dshx reports the command's own status.
func TestF3_6_SignalsAreForwarded(t *testing.T) {
	signals := []string{"INT", "TERM", "HUP", "QUIT", "USR1", "USR2", "WINCH", "CONT", "TSTP"}
	forEachUser(t, func(t *testing.T, e *Env) {
		for _, flags := range [][]string{nil, {"--preset", "danger-full-access"}} {
			argv := append([]string{probeBin, "f3-signals", "-until", "ALRM", "-exit", "7"}, signals...)
			p := e.f3Start(Opts{}, e.DshxArgv(Opts{StatusFD: -1, Flags: flags}, argv...)...)
			p.Expect("ready", 1)
			for _, name := range signals {
				p.Signal(unix.SignalNum("SIG" + name))
				p.Expect("got SIG"+name, 1)
			}
			p.Signal(syscall.SIGINT)
			p.Expect("got SIGINT", 2)
			p.Signal(syscall.SIGTERM)
			p.Expect("got SIGTERM", 2)
			if p.Ended() {
				t.Fatalf("dshx ended: %q", p.Output())
			}
			// ALRM is not forwarded; the test ends the command by it directly.
			for _, pid := range f3WithArg("f3-signals") {
				if pid != p.Cmd.Process.Pid && f3Comm(pid) == "probe" {
					if err := syscall.Kill(pid, syscall.SIGALRM); err != nil {
						t.Error(err)
					}
				}
			}
			if code := p.Wait(10 * time.Second); code != 7 {
				t.Errorf("exit %d, output %q", code, p.Output())
			}
			if n := strings.Count(p.Output(), "got "); n != len(signals)+3 {
				t.Errorf("%d signals arrived: %q", n, p.Output())
			}
			e.f3Ended()
		}
	})
}

// F3-6: TERM and HUP let the command clean up; one that dies of the signal is
// reported as that.
func TestF3_6_CleanUpOnTerm(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		for _, sig := range []string{"TERM", "HUP", "INT", "QUIT"} {
			for _, flags := range [][]string{nil, {"--json"}, {"--tty", "always"}} {
				name := sig + " " + strings.Join(flags, " ")
				num := unix.SignalNum("SIG" + sig)
				cleaned := filepath.Join(e.W, "cleaned")
				os.Remove(cleaned)
				ready := filepath.Join(e.W, "ready")
				os.Remove(ready)
				p := e.f3Start(Opts{}, e.DshxArgv(Opts{StatusFD: -1, Flags: flags}, "sh", "-c",
					`trap 'echo x >cleaned; exit 7' `+sig+`; echo x >ready; while :; do sleep 0.02; done`)...)
				eventually(t, 10*time.Second, "handler is set", func() bool { return Exists(ready) || p.Ended() })
				p.Signal(num)
				if code := p.Wait(10 * time.Second); code != 7 || !Exists(cleaned) {
					t.Errorf("%s: exit %d, cleaned %v, output %q", name, code, Exists(cleaned), p.Output())
				}
				e.f3Ended()

				os.Remove(ready)
				p = e.f3Start(Opts{}, e.DshxArgv(Opts{StatusFD: -1, Flags: flags}, "sh", "-c",
					`ulimit -c 0; setsid sleep 300 & echo x >ready; exec sleep 300`)...)
				eventually(t, 10*time.Second, "it runs", func() bool { return Exists(ready) })
				eventually(t, 10*time.Second, "it's sleep", func() bool { return len(f3WithArg("300")) >= 2 })
				p.Signal(num)
				if code := p.Wait(10 * time.Second); code != 128+int(num) {
					t.Errorf("%s: exit %d, output %q", name, code, p.Output())
				}
				e.f3Ended()
			}
		}
	})
}

// F3-6: a signal within the first ten milliseconds ends the run or goes on to
// the command; there's no moment at which something is left or hangs.
func TestF3_6_SignalAtStart(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		for i := range 60 {
			sig := []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP}[i%3]
			p := e.f3Start(Opts{}, e.DshxArgv(Opts{StatusFD: -1}, "sleep", "300")...)
			time.Sleep(time.Duration(i/3) * 500 * time.Microsecond) // the case is the moment
			p.Signal(sig)
			if code := p.Wait(10 * time.Second); code != 128+int(sig) {
				t.Errorf("%v after %d ms/2: exit %d, output %q", sig, i/3, code, p.Output())
			}
			e.NothingLeft(time.Second)
		}
	})
}

// Stopping and continuing reach the command; dshx waits meanwhile.
func TestF3_6_StopAndContinue(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		stdin, hold, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer hold.Close()
		arg := e.f3Arg()
		p := e.f3Start(Opts{Stdin: stdin}, e.DshxArgv(Opts{StatusFD: -1}, "sh", "-c", "read x; exit 5", arg)...)
		stdin.Close()
		inside := 0
		eventually(t, 10*time.Second, "it runs", func() bool {
			for _, pid := range f3WithArg(arg) {
				if pid != p.Cmd.Process.Pid && f3Comm(pid) == "sh" {
					inside = pid
				}
			}
			return inside != 0
		})
		state := func() string {
			if f := f3Stat(inside); f != nil {
				return f[0]
			}
			return ""
		}
		p.Signal(syscall.SIGTSTP)
		eventually(t, 10*time.Second, "the command is stopped", func() bool { return state() == "T" })
		if p.Ended() {
			t.Fatal("dshx ended")
		}
		p.Signal(syscall.SIGCONT)
		eventually(t, 10*time.Second, "the command goes on", func() bool { return state() == "S" || state() == "R" })
		// One that stopped itself is waited for, too.
		if err := syscall.Kill(inside, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		eventually(t, 10*time.Second, "the command is stopped", func() bool { return state() == "T" })
		p.Signal(syscall.SIGCONT)
		eventually(t, 10*time.Second, "the command goes on", func() bool { return state() != "T" })
		hold.Close()
		if code := p.Wait(10 * time.Second); code != 5 {
			t.Errorf("exit %d", code)
		}
	})
}

// What dshx doesn't forward and dies of ends the command as well.
func TestF3_6_OtherSignalsLeaveNothing(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		for _, sig := range []syscall.Signal{syscall.SIGALRM, syscall.SIGABRT, syscall.SIGSEGV, syscall.SIGXCPU, syscall.SIGPIPE, syscall.SIGSYS, syscall.SIGBUS} {
			p := e.f3Start(Opts{}, e.DshxArgv(Opts{StatusFD: -1}, "sh", "-c", "setsid sleep 300 & echo ready; sleep 300")...)
			p.Expect("ready", 1)
			p.Signal(sig)
			// Some of them may be none of its business.
			for deadline := time.Now().Add(time.Second); !p.Ended() && time.Now().Before(deadline); {
				time.Sleep(5 * time.Millisecond)
			}
			if !p.Ended() {
				p.Signal(syscall.SIGTERM)
			}
			p.Wait(10 * time.Second)
			e.NothingLeft(2 * time.Second)
		}
	})
}

// F3-17: whatever the parent ignores and blocks, the command starts clean, and
// dshx itself is not confused.
func TestF3_17_DispositionsOfTheParent(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		prefix := f3Launch("-ignore", "PIPE,INT,CHLD,QUIT,TERM,USR2", "-block", "USR1,TERM,CHLD,INT")
		status := []string{"grep", "-E", "Sig(Blk|Ign)", "/proc/self/status"}
		clean := "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n"
		if c := e.OutsideOpts(Opts{Prefix: prefix}, status...); c.Exit != 0 || c.Stdout == clean {
			t.Fatalf("control: the launcher does nothing: %s", c)
		}
		for _, preset := range []string{"workspace-write", "danger-full-access"} {
			for _, flags := range [][]string{nil, {"--tty", "always"}} {
				r := e.Run(Opts{Prefix: prefix, Preset: preset, Flags: flags}, status...)
				if r.Exit != 0 || strings.ReplaceAll(r.Stdout, "\r", "") != clean {
					t.Errorf("%s %v: %s", preset, flags, r)
				}
			}
			if r := e.Run(Opts{Prefix: prefix, Preset: preset}, "sh", "-c", "yes | head -n1"); r.Exit != 0 || r.Stdout != "y\n" || r.Duration > 10*time.Second {
				t.Errorf("%s: pipeline: %s", preset, r)
			}
			if r := e.Run(Opts{Prefix: prefix, Preset: preset}, "sh", "-c", `sh -c "exit 5" & wait $!; echo $?`); r.Stdout != "5\n" {
				t.Errorf("%s: wait: %s", preset, r)
			}
			// With SIGCHLD ignored the kernel reaps children by itself: wait(2).
			if r := e.Run(Opts{Prefix: prefix, Preset: preset}, "sh", "-c", "exit 7"); r.Exit != 7 {
				t.Errorf("%s: status: %s", preset, r)
			}
		}
		if r := e.Run(Opts{Prefix: prefix}, "sh", "-c", "sleep 300 & exit 7"); r.Exit != 7 || r.Event("exited") == nil || *r.Event("exited").LeftBehind != 1 {
			t.Errorf("left behind: %s", r)
		}
		if r := e.Run(Opts{Prefix: prefix, Flags: []string{"--timeout", "300ms"}}, "sleep", "300"); r.Exit != 124 {
			t.Errorf("timeout: %s", r)
		}
		if r := e.Run(Opts{Prefix: prefix}, "sh", "-c", "kill -PIPE $$"); r.Exit != 141 {
			t.Errorf("SIGPIPE: %s", r)
		}
	})
}

// F3-17: a signal that the parent blocks can't reach dshx and so can't end it
// (SIGKILL aside), but one that it forwards does so although the parent
// blocked it: runners that block everything around fork forget to unblock.
func TestF3_17_BlockedSignalsAreForwarded(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		argv := e.DshxArgv(Opts{StatusFD: -1}, probeBin, "f3-signals", "-until", "USR1", "-exit", "6", "TERM")
		p := e.f3Start(Opts{}, append(f3Launch("-block", "USR1,TERM"), argv...)...)
		p.Expect("ready", 1)
		p.Signal(syscall.SIGTERM)
		p.Expect("got SIGTERM", 1)
		p.Signal(syscall.SIGUSR1)
		if code := p.Wait(10 * time.Second); code != 6 {
			t.Errorf("exit %d, output %q", code, p.Output())
		}
	})
}

// Under nohup(1) a hang-up is not for anyone below it.
func TestF3_17_Nohup(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		argv := e.DshxArgv(Opts{StatusFD: -1}, "sh", "-c", "echo ready; until [ -e sent ]; do sleep 0.01; done; exit 9")
		p := e.f3Start(Opts{}, append(f3Launch("-ignore", "HUP"), argv...)...)
		p.Expect("ready", 1)
		p.Signal(syscall.SIGHUP)
		e.Write(filepath.Join(e.W, "sent"), "")
		if code := p.Wait(10 * time.Second); code != 9 {
			t.Errorf("exit %d, output %q", code, p.Output())
		}
	})
}
