package integration

import (
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// victims are outside processes of the user, one for each attempt.
func (e *Env) victims(n int) []*exec.Cmd {
	e.t.Helper()
	list := make([]*exec.Cmd, n)
	for i := range list {
		list[i] = e.Background("sleep", "1000")
	}
	return list
}

// healthy tells whether a process lives and is neither stopped nor traced.
func healthy(pid int) bool {
	data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(data), ") ")
	return rest != "" && strings.ContainsRune("SRD", rune(rest[0]))
}

// F1-4: processes outside can't be signalled, traced or read.
func TestF1_4_OthersProcesses(t *testing.T) {
	verbs := []string{"kill %d 0", "kill %d 15", "kill %d 9", "kill -%d 9", "tkill %d 9", "tgkill %d 9", "sigqueue %d 15", "tgsigqueue %d 15",
		"pidfd-signal %d 9", "procfd-signal %d 9", "pidfd-getfd %d 0", "ptrace-attach %d", "ptrace-seize %d", "vm-read %d", "vm-write %d",
		"proc %d mem", "proc %d environ", "proc %d maps", "proc %d auxv", "read /proc/%d/root/etc/hostname", "readdir /proc/%d/cwd", "readlink /proc/%d/exe",
		"kcmp %d", "sigio %d 15"}
	// Landlock says nothing about these; seccomp must, or dshx names the gap.
	scheduling := []string{"nice %d", "affinity %d", "sched-batch %d", "sched-attr %d", "ionice %d", "prlimit %d", "oom-score %d"}
	forEachUser(t, func(t *testing.T, e *Env) {
		yama, _ := os.ReadFile("/proc/sys/kernel/yama/ptrace_scope")
		scoped := len(yama) > 0 && yama[0] != '0' && !isRoot
		all := append(append([]string{}, verbs...), scheduling...)
		make_ := func(victims []*exec.Cmd) (names []string) {
			for i, v := range all {
				names = append(names, strings.ReplaceAll(v, "%d", itoa(victims[i].Process.Pid)))
			}
			return names
		}
		control := make_(e.victims(len(all)))
		a := e.ProbeOutside(control...)
		for i, name := range control {
			got := a.Get(name)
			traces := strings.Contains(all[i], "ptrace") || strings.HasPrefix(all[i], "vm-") || strings.HasPrefix(all[i], "proc ") ||
				strings.Contains(all[i], "getfd")
			switch {
			case got.Result == "ok":
			case scoped && traces:
				fmt.Printf("NOTE %s: yama refuses %q outside, too\n", t.Name(), all[i])
			case all[i] == "kcmp %d" && got.Result == "ENOSYS":
			default:
				t.Errorf("control: outside %s: %s %s", all[i], got.Result, got.Detail)
			}
		}

		victims := e.victims(len(all))
		names := make_(victims)
		a = e.Probe(Opts{}, names...)
		assertRan(t, a.Run)
		for i, name := range names[:len(verbs)] {
			if all[i] == "sigio %d 15" {
				continue // whether it is refused or never sent, the victim tells
			}
			assertDenied(t, a, []string{name}, "ESRCH")
		}
		if a.Run.Enforcement().Has("scheduling") {
			fmt.Printf("NOTE %s: scheduling is a named gap\n", t.Name())
		} else {
			assertDenied(t, a, names[len(verbs):], "ESRCH")
		}
		time.Sleep(20 * time.Millisecond)
		for i, v := range victims {
			if !healthy(v.Process.Pid) {
				t.Errorf("%s: the victim was hit", all[i])
			}
		}
		own := []string{"kill-own-child", "nice 0", "affinity 0", "ionice 0", "prlimit 0", "vm-read $PID", "proc self environ", "proc self maps",
			"kill $PID 0", "tgkill $PID 0", "pidfd-signal $PID 0"}
		assertAllowed(t, e.Probe(Opts{}, own...), own)
		if r := e.Run(Opts{}, "timeout", "1", "sleep", "5"); r.Exit != 124 {
			t.Errorf("control: timeout(1): %s", r)
		}
	})
}

// F1-4: dshx itself is nobody's victim, none of its threads and helpers either.
func TestF1_4_DshxItself(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		attempts := []string{"kill $PPID 0", "kill $PPID 9", "kill $PPID 19", "tgkill $PPID 9", "tkill $PPID 9", "pidfd-signal $PPID 9",
			"sigqueue $PPID 15", "pidfd-getfd $PPID 0", "ptrace-attach $PPID", "ptrace-seize $PPID", "vm-read $PPID", "vm-write $PPID",
			"proc $PPID mem", "proc $PPID environ", "proc $PPID maps", "readdir /proc/$PPID/fd", "readdir /proc/$PPID/cwd", "read /proc/$PPID/root/etc/hostname"}
		a := e.Probe(Opts{}, attempts...)
		assertDenied(t, a, attempts, "ESRCH")
		assertRan(t, a.Run)
		a.Run.OK(t)

		if !isPrivate {
			skip(t, "needs a PID namespace: signals to everybody")
		}
		sleeper := e.Background("sleep", "1000")
		for _, sig := range []string{"0", "15", "9"} {
			a = e.Probe(Opts{}, "kill-everybody "+sig)
			if got := a.Get("kill-everybody " + sig); got.Detail != "" {
				t.Errorf("signal %s reached tasks %s", sig, got.Detail)
			}
			assertRan(t, a.Run)
			a.Run.OK(t)
		}
		a = e.Probe(Opts{}, "read-everybody")
		if got := a.Get("read-everybody"); got.Detail != "" {
			t.Errorf("read %s", got.Detail)
		}
		if a = e.ProbeOutside("read-everybody"); a.Get("read-everybody").Detail == "" {
			t.Error("control: outside, too, nobody can be read")
		}

		// A broadcast reaches what the command started, and nothing else.
		r := e.Run(Opts{}, "sh", "-c", `sleep 1000 & p=$!; trap '' TERM; "$1" do "kill -1 15"; wait $p; echo "child $?"`, "sh", probeBin)
		assertRan(t, r)
		if !strings.Contains(r.Stdout, "child 143") {
			t.Errorf("control: the own child did not get it: %s", r)
		}
		r = e.Run(Opts{}, "sh", "-c", `"$1" do "kill 0 9"; echo survived`, "sh", probeBin)
		ev := r.Event("exited")
		if r.Exit != 137 || ev == nil || ev.Signal == nil || *ev.Signal != "SIGKILL" || strings.Contains(r.Stdout, "survived") {
			t.Errorf("kill(0, KILL): want 137 and the command's SIGKILL: %s", r)
		}
		if !healthy(sleeper.Process.Pid) {
			t.Error("the outside sleeper was hit")
		}
		e.NothingLeft(2 * time.Second)
	})
}

// F1-5: nothing is typed into the caller's terminal.
func TestF1_5_TerminalInjection(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		hexed := func(file string) string { return hex.EncodeToString([]byte("echo x > " + file + "\n")) }
		// typed runs argv from an interactive shell on a terminal of its own.
		typed := func(t *testing.T, argv []string) *Term {
			t.Helper()
			term := e.With(t).Pty(Opts{Env: []string{"PS1=READY> ", "ENV="}}, "sh", "-i")
			at := term.Expect("READY> ", 0, 5*time.Second)
			quoted := make([]string, len(argv))
			for i, a := range argv {
				quoted[i] = "'" + a + "'"
			}
			term.Send(strings.Join(quoted, " ") + "; echo DO''NE=$?\n")
			term.Expect("DONE=", at, 20*time.Second)
			time.Sleep(200 * time.Millisecond) // what was injected is read by now
			term.Send("echo LA''ST\n")
			term.Expect("LAST", at, 5*time.Second)
			term.Send("exit\n")
			term.Wait(5 * time.Second)
			return term
		}
		control := filepath.Join(e.O, "control")
		typed(t, []string{probeBin, "do", "tiocsti 0 " + hexed(control), "tcgets 0", "winsize 0"})
		if !Exists(control) {
			skipKernel(t, "TIOCSTI does not work outside either (dev.tty.legacy_tiocsti)")
		}
		for _, tty := range []string{"never", "auto", "always"} {
			t.Run("tty="+tty, func(t *testing.T) {
				e := e.With(t)
				pwned, out := filepath.Join(e.O, "pwned-"+tty), filepath.Join(e.W, "out-"+tty)
				attacks := []string{"tiocsti 0 " + hexed(pwned), "tiocsti-high 0 " + hexed(pwned), "tiocsti-path /dev/tty " + hexed(pwned),
					"tioclinux-paste 0", "tioclinux-select 0", "tioclinux-paste-high 0"}
				ok := []string{"tcgets 0", "winsize 0"}
				// The shell's own quoting is single, so attempts go by a file.
				script := e.Write(filepath.Join(e.W, "try-"+tty), "#!/bin/sh\nexec > "+out+"\nexec "+probeBin+" -json do \\\n\""+
					strings.Join(append(append([]string{}, attacks...), ok...), "\" \\\n\"")+"\"\n", 0o755)
				term := typed(t, e.DshxArgv(Opts{StatusFD: -1, Flags: []string{"--tty", tty}}, script))
				if Exists(pwned) {
					t.Error("the outer shell executed what was injected")
				}
				if !Exists(out) {
					t.Fatalf("the command did not run: %q", term.Output())
				}
				a := parseAttempts(t, &Result{Argv: []string{script}, Stdout: e.Read(out), Stderr: term.Output()})
				assertDenied(t, a, attacks, "ENOTTY", "EIO", "ENXIO")
				assertAllowed(t, a, ok)
			})
		}
		// The same with pipes: whatever descriptor the command finds.
		if r := e.Probe(Opts{}, "tiocsti 0 41", "tiocsti-path /dev/tty 41"); r.Get("tiocsti-path /dev/tty 41").Result == "ok" {
			t.Errorf("injected without a terminal: %s", r.Run)
		}
	})
}

// F1-7: the system calls of other ABIs, and io_uring, are no way around.
func TestF1_7_ForeignABIs(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		f := func(n string) string { return filepath.Join(e.O, n) }
		victim := e.Write(f("mode"), "x", 0o600)
		sleeper := e.Background("sleep", "1000")
		uring := []string{"!uring-setup", "!uring-create " + f("uring"), "!uring-socket inet 1", "!uring-socket unix 1", "!uring-register"}
		var foreign []string
		if runtime.GOARCH == "amd64" {
			pid := itoa(sleeper.Process.Pid)
			foreign = []string{"!i386-getpid", "!i386-socket inet 1", "!i386-socketcall inet 1", "!i386-create " + f("i386"), "!i386-chmod " + victim,
				"!i386-kill " + pid + " 15", "!i386-uring",
				"!x32-getpid", "!x32-socket inet 1", "!x32-create " + f("x32"), "!x32-chmod " + victim, "!x32-kill " + pid + " 15", "!x32-execve-no-bit"}
		} else {
			fmt.Printf("NOTE %s: foreign ABIs are tried on amd64 only\n", t.Name())
		}
		all := append(append([]string{}, uring...), foreign...)
		names := make([]string, len(all))
		for i := range all {
			names[i] = strings.TrimPrefix(all[i], "!")
		}
		a := e.ProbeOutside(all...)
		missing := map[string]string{}
		for _, n := range names {
			if got := a.Get(n); got.Result != "ok" && n != "uring-register" && !strings.Contains(n, "no-bit") {
				missing[n] = got.Result
				fmt.Printf("NOTE %s: outside, too, %q fails (%s)\n", t.Name(), n, got.Result)
			}
		}
		if runtime.GOARCH == "amd64" && Exists(f("i386")) {
			if st, _ := os.Stat(victim); st.Mode().Perm() != 0o777 {
				t.Error("control: the i386 chmod did nothing outside")
			}
		}
		for _, n := range []string{"uring", "i386", "x32"} {
			os.Remove(f(n))
		}
		os.Chmod(victim, 0o600)
		sleeper = e.Background("sleep", "1000")
		pid := itoa(sleeper.Process.Pid)
		for i := range all {
			for _, abi := range []string{"i386", "x32"} {
				if strings.HasPrefix(names[i], abi+"-kill ") {
					names[i] = abi + "-kill " + pid + " 15"
					all[i] = "!" + names[i]
				}
			}
		}
		check := Unchanged(t, e.O)
		a = e.Probe(Opts{}, all...)
		assertDeniedHere(t, a, names, missing, "SIGSYS")
		check()
		if !healthy(sleeper.Process.Pid) {
			t.Error("a foreign kill hit the sleeper")
		}

		// Programs that would like io_uring, or look for it, go on without.
		for _, c := range []struct{ tool, flag, code string }{
			{"node", "-e", `require("fs").writeFileSync("node.out","x"); setTimeout(()=>console.log("ok"),10)`},
			{"python3", "-c", `import threading,select,asyncio; asyncio.run(asyncio.sleep(0.01)); print("ok")`},
		} {
			if path := e.HasTool(c.tool); path == "" {
				fmt.Printf("NOTE %s: no %s\n", t.Name(), c.tool)
			} else if r := e.Run(Opts{}, path, c.flag, c.code); r.Exit != 0 || r.Stdout != "ok\n" {
				t.Errorf("control: %s: %s", c.tool, r)
			}
		}
		assertAllowed(t, e.Probe(Opts{}, "!socket unix 1 0"), []string{"socket unix 1 0"}) // a Go program
	})
}

// F1-8: no namespaces, no mounts, no other root.
func TestF1_8_NamespacesAndMounts(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		m := e.Mkdir(filepath.Join(e.O, "m"))
		var ns, mounts []string
		for _, n := range []string{"user", "mnt", "pid", "net", "ipc", "uts", "cgroup", "user,mnt,net"} {
			ns = append(ns, "unshare "+n, "clone "+n)
		}
		ns = append(ns, "unshare time")
		clone3 := []string{"clone3 none", "clone3 user", "clone3 mnt", "clone3 user,mnt,pid"}
		for _, n := range []string{"user", "mnt", "pid", "net", "ipc", "uts", "cgroup"} {
			ns = append(ns, "setns /proc/1/ns/"+n+" "+n, "setns /proc/self/ns/"+n+" "+n)
		}
		ns = append(ns, "setns-pidfd $PPID user,mnt", "setns-pidfd $PPID net")
		mounts = []string{"!mount-tmpfs " + m, "!mount-bind " + e.O + " " + m, "!remount /", "!umount " + m,
			"!fsopen", "!fspick /", "!open_tree " + e.O, "!move_mount " + e.O + " " + m, "!mount_setattr " + m, "!pivot_root " + e.O + " " + m, "!chroot " + e.O}
		kernel := []string{"!bpf", "!perf", "!userfaultfd", "!add_key", "!keyctl", "!request_key", "!init_module", "!kexec_load", "!fanotify",
			"!open_by_handle_at", "!swapon " + m, "!sethostname", "!clock_settime", "!syslog"}

		// The control: what an ordinary user can do outside, and what root can.
		works := []string{"clone3 none", "clone none", "unshare none", "clone user", "unshare user", "clone3 user"}
		if e.UID == 0 {
			works = append(works, "unshare mnt", "unshare net", "unshare pid", "clone ipc", "clone3 mnt", "setns /proc/self/ns/uts uts", "setns /proc/1/ns/net net",
				"!mount-tmpfs "+m, "!umount "+m, "!fsopen", "!open_tree "+e.O, "!chroot "+e.O, "!bpf")
		}
		works = append(works, "!perf", "!add_key", "!keyctl", "!userfaultfd")
		outside := e.ProbeOutside(works...)
		for _, w := range works {
			n := strings.TrimPrefix(w, "!")
			if got := outside.Get(n); got.Result != "ok" {
				fmt.Printf("NOTE %s: outside, too, %q fails (%s)\n", t.Name(), n, got.Result)
			}
		}
		if got := outside.Get("clone none"); got.Result != "ok" {
			t.Errorf("control: %v", got)
		}
		for _, preset := range []string{"workspace-write", "read-only"} {
			a := e.Probe(Opts{Preset: preset}, append(append(append(append([]string{}, ns...), clone3...), mounts...), kernel...)...)
			assertDenied(t, a, ns)
			for _, n := range clone3 {
				if got := a.Get(n); got.Result != "ENOSYS" {
					t.Errorf("%s: %s, want ENOSYS, by which libc falls back to clone", n, got.Result)
				}
			}
			for _, n := range append(append([]string{}, mounts...), kernel...) {
				assertDenied(t, a, []string{strings.TrimPrefix(n, "!")})
			}
		}
		ok := []string{"clone none", "unshare none"}
		assertAllowed(t, e.Probe(Opts{}, ok...), ok)
	})
}

// F1-8, control: what uses clone and clone3 in daily life goes on.
func TestF1_8_ThreadsStillRun(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		if py := e.HasTool("python3"); py != "" {
			r := e.Run(Opts{}, py, "-c", `
import threading, subprocess
out=[]
ts=[threading.Thread(target=lambda: out.append(subprocess.run(["true"]).returncode)) for _ in range(30)]
[x.start() for x in ts]; [x.join() for x in ts]
print(len(out), sum(out))`)
			if r.Stdout != "30 0\n" {
				t.Errorf("python threads: %s", r)
			}
		} else {
			fmt.Printf("NOTE %s: no python3\n", t.Name())
		}
		if e.HasTool("make") != "" {
			var mk strings.Builder
			mk.WriteString("all:")
			for i := range 60 {
				fmt.Fprintf(&mk, " t%d", i)
			}
			mk.WriteString("\nt%:\n\t@sh -c 'echo $@ > $@'\n")
			e.Write(filepath.Join(e.W, "Makefile"), mk.String())
			e.Run(Opts{}, "make", "-s", "-j8").OK(t)
			if !Exists(filepath.Join(e.W, "t59")) {
				t.Error("make made nothing")
			}
		} else {
			fmt.Printf("NOTE %s: no make\n", t.Name())
		}
		// `go test` compiles for minutes on a cold cache; what matters here is
		// what its binary does. Family 2 builds and tests inside.
		e.Write(filepath.Join(e.W, "go.mod"), "module x\ngo 1.22\n")
		e.Write(filepath.Join(e.W, "x_test.go"), `package x
import ("os/exec";"sync";"testing")
func Test(t *testing.T) {
	var wg sync.WaitGroup
	for range 50 { wg.Add(1); go func() { defer wg.Done(); if err := exec.Command("true").Run(); err != nil { t.Error(err) } }() }
	wg.Wait()
}
`)
		build := exec.Command("go", "test", "-c", "-o", "x.test", ".")
		build.Dir = e.W
		build.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off")
		if msg, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, msg)
		}
		e.Run(Opts{}, "./x.test", "-test.v").OK(t)
	})
}
