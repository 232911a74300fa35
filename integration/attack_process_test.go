package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Nothing can be done to a thread of dshx, to its guard or to its monitor.
func TestAttack_DshxTasks(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		for _, tty := range []string{"never", "always"} {
			a := e.Probe(Opts{Flags: []string{"--tty", tty}}, "every-task $PPID")
			if got := a.Get("every-task $PPID"); got.Detail != "" {
				t.Errorf("--tty %s: %s", tty, got.Detail)
			}
			assertRan(t, a.Run)
			a.Run.OK(t)
		}
		// The control: outside, some of it works on a process of the same user.
		worked := map[string]bool{}
		for range 40 {
			victim := itoa(e.Background("sleep", "100").Process.Pid)
			for _, one := range strings.Split(e.ProbeOutside("every-task "+victim).Get("every-task "+victim).Detail, ", ") {
				op, _, _ := strings.Cut(one, " ")
				worked[op] = true
			}
		}
		for _, op := range []string{"kill", "tkill", "pidfd", "procfd", "getfd", "seize", "mem", "environ", "fd-link", "kcmp", "priority", "affinity", "limits"} {
			if !worked[op] {
				t.Errorf("control: outside, too, %s never works", op)
			}
		}
	})
}

// A command of one dshx has no hold on those of another.
func TestAttack_Sibling(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		needDshx(t)
		where := filepath.Join(e.W, "where")
		cmd := e.Command(Opts{}, e.DshxArgv(Opts{StatusFD: -1}, "sh", "-c", `echo "secret" > "$TMPDIR/s"; echo "$$ $TMPDIR" > where.new; mv where.new where; exec sleep 1000`)...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer cmd.Wait()
		defer cmd.Process.Signal(syscall.SIGTERM)
		eventually(t, 10*time.Second, "the sibling runs", func() bool { return Exists(where) })
		pid, tmp, _ := strings.Cut(strings.TrimSpace(e.Read(where)), " ")
		attempts := []string{"kill " + pid + " 0", "kill " + pid + " 19", "tgkill " + pid + " 9", "pidfd-signal " + pid + " 9", "ptrace-seize " + pid,
			"vm-read " + pid, "pidfd-getfd " + pid + " 0", "proc " + pid + " environ", "read /proc/" + pid + "/cwd/where", "chmod /proc/" + pid + "/cwd/where",
			"nice " + pid, "prlimit " + pid, "affinity " + pid, "kcmp " + pid,
			"read " + tmp + "/s", "create " + tmp + "/n", "chmod " + tmp + "/s", "utimensat " + tmp, "rmdir " + filepath.Dir(tmp), "rename " + tmp + " " + tmp + "x"}
		a := e.Probe(Opts{}, attempts...)
		assertDenied(t, a, attempts, "ESRCH", "EXDEV")
		n, _ := strconv.Atoi(pid)
		if !healthy(n) {
			t.Error("the sibling was hit")
		}
		if e.Read(tmp+"/s") != "secret\n" {
			t.Error("the sibling's TMPDIR was changed")
		}
		outside := attempts[:1]
		assertAllowed(t, e.ProbeOutside(outside...), outside)
	})
}

// The mark by which dshx finds the processes of a command stays.
func TestAttack_ShedMark(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		if got := e.Probe(Opts{}, "shed-mark").Get("shed-mark"); got.Result != "ok" || got.Detail != "" {
			t.Errorf("%+v", got)
		}
		if got := e.ProbeOutside("shed-mark").Get("shed-mark"); got.Detail == "" {
			t.Error("control: outside, too, the limit can't be changed")
		}
	})
}

// survivors are ways to be missed when dshx ends a command.
var survivors = []string{"plain", "leader", "stopped", "reaper", "traced", "chain"}

func (e *Env) survivorPIDs(file string) (pids []int) {
	for _, line := range strings.Fields(e.Read(file)) {
		pid, _ := strconv.Atoi(line)
		pids = append(pids, pid)
	}
	return pids
}

// Nothing outlives a run: at the normal end, at the deadline, and when dshx is
// killed.
func TestAttack_Survivors(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		file := filepath.Join(e.W, "pids")
		script := `"$0" survivor pids "$@"; [ -z "$STAY" ] || sleep 1000`
		run := func(name string, stay bool, do func(t *testing.T, o Opts, argv []string)) {
			t.Run(name, func(t *testing.T) {
				os.Remove(file)
				o := Opts{Flags: []string{"--kill-after", "300ms"}}
				if stay {
					o.Flags = append(o.Flags, "--env", "STAY=1")
				}
				do(t, o, append([]string{"sh", "-c", script, probeBin}, survivors...))
				e := e.With(t)
				if n := len(e.survivorPIDs(file)); n < len(survivors) {
					t.Errorf("control: %d of %d came up", n, len(survivors))
				}
				for _, pid := range e.survivorPIDs(file) {
					eventually(t, 3*time.Second, fmt.Sprint(pid, " is gone"), func() bool { return !Alive(pid) })
				}
				e.NothingLeft(3 * time.Second)
			})
		}
		run("at the end", false, func(t *testing.T, o Opts, argv []string) {
			r := e.With(t).Run(o, argv...)
			ev := r.Event("exited")
			if r.Exit != 0 || ev == nil || ev.LeftBehind == nil || *ev.LeftBehind < len(survivors)-1 {
				t.Errorf("want them counted: %s", r)
			}
		})
		run("at the deadline", true, func(t *testing.T, o Opts, argv []string) {
			o.Flags = append(o.Flags, "--timeout", "2s")
			if r := e.With(t).Run(o, argv...); r.Exit != 124 {
				t.Errorf("want 124: %s", r)
			}
		})
		for _, tty := range []string{"never", "always"} {
			run("dshx is killed, tty "+tty, true, func(t *testing.T, o Opts, argv []string) {
				needDshx(t)
				o.Flags, o.StatusFD = append(o.Flags, "--tty", tty), -1
				cmd := e.Command(o, e.DshxArgv(o, argv...)...)
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				eventually(t, 10*time.Second, "the survivors run", func() bool {
					data, _ := os.ReadFile(file)
					return strings.Count(string(data), "\n") >= len(survivors)
				})
				cmd.Process.Kill()
				cmd.Wait()
			})
		}
		// The control: without dshx they do survive.
		os.Remove(file)
		e.Outside(append([]string{probeBin, "survivor", file}, "plain", "leader", "stopped")...)
		for _, pid := range e.survivorPIDs(file) {
			if !Alive(pid) {
				t.Error("control: one did not survive outside")
			}
			syscall.Kill(pid, syscall.SIGKILL)
		}
	})
}

// Calls that never end hold nothing up but their own command, and end with it.
func TestAttack_Jams(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		for _, kind := range []string{"backlog", "send", "fifo", "hidden", "killed"} {
			t.Run(kind, func(t *testing.T) {
				e := e.With(t)
				r := e.Run(Opts{Timeout: 40 * time.Second, Flags: []string{"--timeout", "8s", "--kill-after", "300ms"}}, "sh", "-c",
					`"$0" jam "$1" & p=$!; sleep 1; chmod 700 . && echo answered; wait $p`, probeBin, kind)
				if !strings.Contains(r.Stdout, "jammed") {
					t.Errorf("control: it did not come to the end: %s", r)
				}
				if kind == "fifo" || kind == "hidden" || kind == "killed" {
					if !strings.Contains(r.Stdout, "answered") {
						t.Errorf("want another's call answered: %s", r)
					}
				}
				if r.Duration > 15*time.Second {
					t.Errorf("took %v: %s", r.Duration, r)
				}
				e.NothingLeft(3 * time.Second)
			})
		}
		// A command that stops itself does not stop dshx's clock.
		r := e.Run(Opts{Timeout: 20 * time.Second, Flags: []string{"--timeout", "1s", "--kill-after", "300ms"}}, "sh", "-c", `kill -STOP $$; sleep 1000`)
		if r.Exit != 124 {
			t.Errorf("stopped: want 124: %s", r)
		}
	})
}

// Arguments of every kind, and dshx goes on.
func TestAttack_SupervisedGarbage(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		f := e.Write(filepath.Join(e.O, "f"), "content", 0o640)
		sock := Listen(t, "unix", filepath.Join(e.O, "s.sock"))
		check := Unchanged(t, e.O)
		for seed := range scale(30, 3) {
			// Its own directory may become one that nobody can enter.
			dir := e.Mkdir(filepath.Join(e.W, itoa(seed)))
			r := e.Run(Opts{Dir: dir, Flags: []string{"--workspace", dir, "--timeout", "50s"}}, probeBin, "sysfuzz", itoa(scale(100000, 15000)), itoa(seed), f, sock.Addr, e.O)
			if r.Exit != 0 || r.Stdout != "done\n" {
				t.Errorf("seed %d: %s", seed, r)
			}
		}
		check()
		sock.Silent(t, 0)
	})
}
