package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// F3-2: at the deadline the whole tree ends, TERM first and KILL after the
// grace time, and what was printed until then is kept.
func TestF3_2_Timeout(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		t.Parallel()
		type tcase struct {
			name   string
			script string
			stays  bool // ignores TERM
		}
		var runs []func()
		for i, tc := range []tcase{
			{"pipeline", "echo begun; sleep 300 | cat", false},
			{"subshell", "echo begun; (sleep 300)", false},
			{"background", "echo begun; sleep 300 & wait", false},
			{"ignores TERM", "trap '' TERM; echo begun; while :; do sleep 300; done", true},
			{"sessions", "echo begun; setsid sleep 300 & setsid setsid sleep 300 & wait", false},
			{"writer into a FIFO", "mkfifo fifo; echo begun; cat fifo >/dev/null & while :; do echo x; done >fifo", false},
		} {
			for _, json := range []bool{false, true} {
				own := *e
				own.Mark = e.Mark + "-" + strconv.Itoa(i) + strconv.FormatBool(json)
				dir := e.Mkdir(filepath.Join(e.W, strconv.Itoa(i)+strconv.FormatBool(json)))
				runs = append(runs, func() {
					r := own.Run(Opts{JSON: json, Flags: []string{"--timeout", "2s", "--cwd", dir}, Env: []string{"IT_MARK=" + own.Mark}},
						"sh", "-c", tc.script)
					least, most := 2*time.Second, 4*time.Second
					if tc.stays {
						least, most = 7*time.Second, 9*time.Second
					}
					if r.Exit != 124 || r.Duration < least || r.Duration > most {
						t.Errorf("%s: want 124 after %v to %v: %s", tc.name, least, most, r)
					}
					out := r.Stdout
					if json {
						out = r.JSON.Stdout
						if !r.JSON.TimedOut || r.JSON.TimeoutMs == nil || *r.JSON.TimeoutMs != 2000 {
							t.Errorf("%s: not marked: %s", tc.name, r)
						}
					} else if s := r.Event("exited"); s == nil || !s.TimedOut {
						t.Errorf("%s: not marked: %s", tc.name, r)
					}
					if out != "begun\n" {
						t.Errorf("%s: output %q", tc.name, out)
					}
					own.f3Ended()
				})
			}
		}
		f3Together(runs...)
	})
}

// F3-4 (a): nothing that dshx started survives its SIGKILL.
func TestF3_4_KilledDshxLeavesNothing(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		for _, tc := range []struct {
			name  string
			flags []string
			argv  []string
			group bool // the caller kills dshx's whole group, as runners of jobs do
			stop  bool // dshx is stopped first
			procs int  // how many processes there are inside
		}{
			{name: "pipeline", argv: []string{"sh", "-c", "sleep 300 | sleep 300"}, procs: 2},
			{name: "sessions", argv: []string{"sh", "-c", "setsid sleep 300 & setsid setsid sleep 300 & echo ready; wait"}, procs: 2},
			{name: "sessions, group killed", group: true, argv: []string{"sh", "-c", "setsid sleep 300 & setsid setsid sleep 300 & echo ready; wait"}, procs: 2},
			{name: "ignores every signal", argv: []string{"sh", "-c", "trap '' TERM HUP INT QUIT PIPE; setsid sleep 300 & sleep 300"}, procs: 2},
			{name: "stopped command", argv: []string{"sh", "-c", "sleep 300 & sleep 0.2; kill -STOP $! $$"}, procs: 1},
			{name: "stopped dshx", stop: true, argv: []string{"sh", "-c", "sleep 300 | sleep 300"}, procs: 2},
			{name: "terminal", flags: []string{"--tty", "always"}, argv: []string{"sh", "-c", "trap '' HUP; setsid sleep 300 & sleep 300 | sleep 300"}, procs: 3},
			{name: "captured", flags: []string{"--json"}, argv: []string{"sh", "-c", "sleep 300 | sleep 300"}, procs: 2},
			{name: "read-only", flags: []string{"--preset", "read-only"}, argv: []string{"sh", "-c", "setsid sleep 300 & sleep 300"}, procs: 2},
			{name: "danger-full-access", flags: []string{"--preset", "danger-full-access"}, argv: []string{"sh", "-c", "setsid sleep 300 & sleep 300"}, procs: 2},
			{name: "in its grace time", flags: []string{"--timeout", "100ms", "--kill-after", "100s"},
				argv: []string{"sh", "-c", "trap '' TERM; setsid sleep 300 & sleep 300"}, procs: 2},
		} {
			t.Run(tc.name, func(t *testing.T) {
				arg := e.f3Arg() // finds those that threw their environment away
				argv := append([]string{}, tc.argv...)
				for i := range argv {
					argv[i] = strings.ReplaceAll(argv[i], "sleep 300", "env -i sleep "+arg)
				}
				p := e.f3Start(Opts{}, e.DshxArgv(Opts{StatusFD: -1, Flags: tc.flags}, argv...)...)
				eventually(t, 10*time.Second, "all processes run", func() bool {
					return len(f3WithArg(arg)) == tc.procs && !f3Pending(arg)
				})
				pid := p.Cmd.Process.Pid
				if tc.stop {
					p.Signal(syscall.SIGSTOP)
				}
				if tc.group {
					pid = -pid
				}
				if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				p.Wait(5 * time.Second)
				for len(f3WithArg(arg)) > 0 || len(e.Left()) > 0 {
					if time.Since(began) > 2*time.Second {
						e.f3Ended()
						t.Fatalf("with the argument: %v", f3WithArg(arg))
					}
					time.Sleep(2 * time.Millisecond)
				}
				t.Logf("gone after %v", time.Since(began).Round(time.Millisecond))
			})
		}
	})
}

// f3Pending tells whether a process with the argument has yet to become sleep.
func f3Pending(arg string) bool {
	for _, pid := range f3WithArg(arg) {
		if comm, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm"); err == nil && string(comm) != "sleep\n" {
			// The shell has it in its script.
			if data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline"); err == nil && strings.HasSuffix(string(data), "\x00"+arg+"\x00") {
				return true
			}
		}
	}
	return false
}

// F3-4 (a): nor does what daemonised itself, ignores TERM and has no
// environment; nor a chain of processes of which none lives long.
func TestF3_4_DaemonsAndStorm(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		for _, kill := range []bool{false, true} {
			name := map[bool]string{false: "command ends", true: "dshx is killed"}[kill]
			t.Run("daemons, "+name, func(t *testing.T) {
				arg := e.f3Arg()
				last := map[bool]string{false: "exit 0", true: "sleep 300"}[kill]
				p := e.f3Start(Opts{}, e.DshxArgv(Opts{StatusFD: -1}, "sh", "-c", `"$0" f3-daemon `+arg+`; echo ready; read x; `+last, probeBin)...)
				if kill {
					p.Expect("ready", 1)
					eventually(t, 5*time.Second, "daemons run", func() bool { return len(f3WithArg(arg)) >= 2 })
					p.Signal(syscall.SIGKILL)
				}
				p.Wait(15 * time.Second)
				within := time.Duration(0)
				if kill {
					within = 2 * time.Second
				}
				deadline := time.Now().Add(within)
				for len(f3WithArg(arg)) > 0 || len(e.Left()) > 0 {
					if time.Now().After(deadline) {
						t.Fatalf("left: %v %v", f3WithArg(arg), e.Left())
					}
					time.Sleep(5 * time.Millisecond)
				}
			})
			t.Run("storm, "+name, func(t *testing.T) {
				script := `"$0" f3-storm 4 & read x; sleep 0.3; exit 6`
				flags := []string{"--kill-after", "500ms"}
				stdin, hold, err := os.Pipe()
				if err != nil {
					t.Fatal(err)
				}
				defer hold.Close()
				p := e.f3Start(Opts{Stdin: stdin}, e.DshxArgv(Opts{StatusFD: -1, Flags: flags}, "sh", "-c", script, probeBin)...)
				stdin.Close()
				p.Expect("ready", 1)
				if kill {
					p.Signal(syscall.SIGKILL)
				} else if _, err := hold.WriteString("\n"); err != nil {
					t.Fatal(err)
				}
				if code := p.Wait(15 * time.Second); !kill && code != 6 {
					t.Errorf("exit %d, output %q", code, p.Output())
				}
				if kill {
					e.NothingLeft(2 * time.Second)
				} else {
					e.f3Ended()
				}
				// A chain could be between two processes at one look.
				for range 20 {
					if pids := e.Left(); len(pids) > 0 {
						t.Fatalf("left: %v", pids)
					}
					time.Sleep(time.Millisecond)
				}
			})
		}
		t.Run("control: the storm outlives a plain shell", func(t *testing.T) {
			p := e.f3Start(Opts{}, "sh", "-c", `"$0" f3-storm 4 & sleep 300`, probeBin)
			p.Expect("ready", 1)
			time.Sleep(50 * time.Millisecond) // a chain that is just forked is still in the group
			if err := syscall.Kill(-p.Cmd.Process.Pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			p.Wait(5 * time.Second)
			if !isPrivate {
				return // nothing but the chain's own end would stop it
			}
			alive := 0
			for range 50 {
				alive += len(e.Left())
				time.Sleep(time.Millisecond)
			}
			if alive == 0 {
				t.Error("the storm was gone; the case shows nothing")
			}
			eventually(t, 40*time.Second, "end the control's storm", func() bool {
				for _, pid := range e.Left() {
					_ = syscall.Kill(pid, syscall.SIGKILL)
				}
				time.Sleep(2 * time.Millisecond)
				for range 3 { // a fork may fall between two looks
					if len(e.Left()) != 0 {
						return false
					}
				}
				return true
			})
		})
	})
}

// F3-4 (a): at whatever moment after its start dshx is killed.
func TestF3_4_KilledWhileStarting(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		for i := range 60 {
			argv := e.DshxArgv(Opts{StatusFD: -1}, "sh", "-c", "setsid sleep 300 & sleep 300")
			p := e.f3Start(Opts{}, argv...)
			time.Sleep(time.Duration(i) * 400 * time.Microsecond) // the case is the moment, there's nothing to wait for
			_ = syscall.Kill(p.Cmd.Process.Pid, syscall.SIGKILL)
			p.Wait(5 * time.Second)
			deadline := time.Now().Add(2 * time.Second)
			for len(e.Left()) > 0 {
				if time.Now().After(deadline) {
					e.f3Ended()
					t.Fatalf("killed after %v", time.Duration(i)*400*time.Microsecond)
				}
				time.Sleep(2 * time.Millisecond)
			}
		}
	})
}

// F3-18, its part for the command line: orphans are reaped while the command
// still runs, and leave neither zombies nor a wrong status behind.
func TestF3_18_OrphansAreReaped(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		stdin, hold, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer hold.Close()
		p := e.f3Start(Opts{Stdin: stdin}, e.DshxArgv(Opts{StatusFD: -1}, "sh", "-c", `"$0" f3-orphans 200; exit 8`, probeBin)...)
		stdin.Close()
		p.Expect("ready", 1)
		pid := p.Cmd.Process.Pid
		eventually(t, 5*time.Second, "no zombie has dshx as its parent", func() bool { return len(f3Zombies(pid)) == 0 })
		hold.Close()
		if code := p.Wait(10 * time.Second); code != 8 {
			t.Errorf("exit %d, output %q", code, p.Output())
		}
		e.f3Ended()
	})
}

// F3-18: the same as PID 1 of a pid namespace, where nobody else reaps and
// signals without a handler are lost.
func TestF3_18_AsInit(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		needDshx(t)
		unshare := []string{"unshare", "--pid", "--fork", "--kill-child", "--mount", "--mount-proc", "--"}
		if e.UID != 0 {
			unshare = append([]string{"unshare", "--user", "--map-current-user"}, unshare[1:]...)
		}
		if c := e.Outside(append(append([]string{}, unshare...), "sh", "-c", "test $$ = 1")...); c.Exit != 0 {
			skipKernel(t, "no pid namespace for this user: %s", strings.TrimSpace(c.Stderr))
		}
		for _, tc := range []struct {
			script string
			exit   int
		}{
			{"exit 7", 7},
			{"kill -KILL $$", 137},
			{"sleep 300 & setsid sleep 300 & exit 3", 3},
			{`"$0" f3-orphans 50 </dev/null >/dev/null; exit 4`, 4},
		} {
			r := e.Run(Opts{Prefix: unshare}, "sh", "-c", tc.script, probeBin)
			if r.Exit != tc.exit {
				t.Errorf("%s: want %d: %s", tc.script, tc.exit, r)
			}
		}
		r := e.Run(Opts{Prefix: unshare, Flags: []string{"--timeout", "300ms"}}, "sleep", "300")
		if r.Exit != 124 {
			t.Errorf("timeout: %s", r)
		}
		// A signal from outside of the namespace still goes on to the command.
		p := e.f3Start(Opts{}, append(append([]string{}, unshare...), e.DshxArgv(Opts{StatusFD: -1}, probeBin, "f3-signals", "-exit", "5")...)...)
		p.Expect("ready", 1)
		children, err := exec.Command("pgrep", "-P", strconv.Itoa(p.Cmd.Process.Pid)).Output()
		if err != nil {
			skipTool(t, "pgrep")
		}
		pid, err := strconv.Atoi(strings.TrimSpace(string(children)))
		if err != nil {
			t.Fatalf("children %q", children)
		}
		if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if code := p.Wait(10 * time.Second); code != 5 || !strings.Contains(p.Output(), "got SIGTERM") {
			t.Errorf("exit %d, output %q", code, p.Output())
		}
		e.NothingLeft(2 * time.Second)
	})
}

// A shell that becomes dshx leaves it its children, which are none of the
// command's: they are neither ended nor waited for. The second script's child
// waits for dshx to end.
func TestF3_ChildrenFromBeforeAreLetBe(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		bash := e.Tool("bash")
		for _, script := range []string{
			`sleep 300 & echo $! > pid; exec "$@"`,
			`exec 4>&1; exec > >(cat >&4; echo $BASHPID > ended); exec "$@"`,
		} {
			for _, flags := range [][]string{nil, {"--tty", "always"}, {"--preset", "danger-full-access"}} {
				argv := append([]string{bash, "-c", script, "bash"}, e.DshxArgv(Opts{StatusFD: -1, Flags: flags, NoMark: true}, "sh", "-c", "setsid sleep 300 & echo hello")...)
				r := e.OutsideOpts(Opts{Timeout: 10 * time.Second}, argv...)
				if r.Exit != 0 || r.Signal != 0 || r.Duration > 5*time.Second {
					t.Errorf("%s %v: %s", script, flags, r)
				}
				if !Exists(filepath.Join(e.W, "pid")) {
					continue
				}
				pid, err := strconv.Atoi(strings.TrimSpace(e.Read(filepath.Join(e.W, "pid"))))
				if err != nil || !Alive(pid) {
					t.Errorf("%v: the shell's own child is gone: %v", flags, err)
				}
				_ = syscall.Kill(pid, syscall.SIGKILL)
				os.Remove(filepath.Join(e.W, "pid"))
			}
		}
		e.NothingLeft(2 * time.Second)
	})
}

// SIGKILL at every moment of a start leaves nothing: neither does the command
// come to run, nor does its terminal's monitor stay.
func TestF3_KilledWhileItStarts(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		for _, flags := range [][]string{nil, {"--tty", "always"}} {
			argv := e.DshxArgv(Opts{StatusFD: -1, Flags: flags}, "sh", "-c", "setsid sleep 300 & sleep 300")
			const n = 200
			for i := range n {
				cmd := e.Command(Opts{}, argv...)
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Duration(i) * 15 * time.Millisecond / n)
				_ = cmd.Process.Kill()
				_ = cmd.Wait()
			}
			e.NothingLeft(2 * time.Second)
		}
	})
}

// What a command left behind on its terminal ends with it, though it never
// stops printing.
func TestLeftBehind_PrintingOnATerminal(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		for name, script := range map[string]string{
			"flood":   "yes & sleep 0.2; exit 3",
			"session": "setsid yes & sleep 0.2; exit 3",
			"lines":   "while :; do echo tick; sleep 0.02; done & sleep 0.2; exit 3",
			"ignores": "sh -c 'trap \"\" TERM HUP; while :; do echo tick; sleep 0.02; done' & sleep 0.2; exit 3",
		} {
			t.Run(name, func(t *testing.T) {
				e := e.With(t)
				term := e.Pty(Opts{}, e.DshxArgv(Opts{StatusFD: -1, Flags: []string{"--kill-after", "1s"}}, "sh", "-c", script)...)
				if code := term.Wait(20 * time.Second); code != 3 {
					t.Errorf("status %d, want the command's 3", code)
				}
				e.NothingLeft(time.Second)
			})
		}
	})
}

// What ends at SIGTERM may still need the supervisor, which mustn't wait for
// it to end.
func TestLeftBehind_MayAskTheSupervisor(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		f := e.Write(filepath.Join(e.W, "f"), "x", 0o644)
		began := time.Now()
		e.Sh(Opts{}, "sh -c 'trap \"chmod 600 f; exit\" TERM; touch ready; while :; do sleep 0.05; done' & while ! [ -e ready ]; do sleep 0.01; done").OK(t)
		if took := time.Since(began); took > 4*time.Second {
			t.Errorf("took %v: it was killed and not heard", took)
		}
		if st, err := os.Stat(f); err != nil || st.Mode().Perm() != 0o600 {
			t.Errorf("mode %v, %v: the handler didn't finish", st.Mode(), err)
		}
	})
}

// A second request to end leaves what was left behind no more time.
func TestLeftBehind_Hurry(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		for _, flags := range [][]string{nil, {"--tty", "always"}} {
			p := e.f3Start(Opts{}, e.DshxArgv(Opts{StatusFD: -1, Flags: append([]string{"--kill-after", "60s"}, flags...)}, "sh", "-c",
				"sh -c 'trap \"\" HUP; trap \"echo asked >> asked\" TERM; touch ready; while :; do sleep 0.05; done' & while ! [ -e ready ]; do sleep 0.01; done")...)
			asked := filepath.Join(e.W, "asked")
			eventually(t, 10*time.Second, "what was left behind is asked to end", func() bool { return Exists(asked) })
			p.Signal(syscall.SIGTERM)
			if code := p.Wait(10 * time.Second); code != 0 {
				t.Errorf("%v: status %d, want the command's 0", flags, code)
			}
			e.NothingLeft(time.Second)
			for _, name := range []string{"asked", "ready"} {
				if err := os.Remove(filepath.Join(e.W, name)); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}
