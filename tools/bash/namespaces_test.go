package bash

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dshx/dshx/jobs"
	"github.com/dshx/dshx/pipeline"
	"github.com/dshx/dshx/sandboxpolicy"
	"golang.org/x/sys/unix"
)

const insideEnv = "DSHX_BASH_TEST_INSIDE"

// inNamespaces runs the calling test again in PID, mount and IPC namespaces of
// its own, so that what it attacks is nobody else's, and returns false. In
// there it returns true; the test is process 1 then, and root, or with asUser
// an ordinary user below process 1.
func inNamespaces(t *testing.T, asUser bool) bool {
	t.Helper()
	stage := os.Getenv(insideEnv)
	if stage == "last" {
		return true
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=5m")
	cmd.Dir = "/"
	if stage == "" {
		if os.Getuid() != 0 {
			t.Skip("only root can make these namespaces")
		}
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL,
			Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWIPC}
		cmd.Env = append(os.Environ(), insideEnv+"=first")
	} else { // process 1, and root
		privateProc(t)
		if !asUser {
			return true
		}
		const uid = 54321
		home := "/tmp/home"
		b, err := os.ReadFile(self)
		if err == nil {
			err = unix.Mount("tmpfs", "/tmp", "tmpfs", 0, "mode=1777")
		}
		if err == nil { // a copy where the user can reach it
			err = os.WriteFile("/tmp/test", b, 0o755)
		}
		if err == nil {
			err = os.Mkdir(home, 0o700)
		}
		if err == nil {
			err = os.Chown(home, uid, uid)
		}
		if err != nil {
			t.Fatal(err)
		}
		cmd.Path = "/tmp/test"
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "TMPDIR=/tmp", insideEnv + "=last"}
	}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("%v\n%s", err, out)
	}
	return false
}

// privateProc shows the PID namespace in /proc.
func privateProc(t *testing.T) {
	t.Helper()
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		t.Fatal(err)
	}
	if os.Getpid() != 1 {
		t.Fatal("not process 1")
	}
}

// F3-18, as the first process of a PID namespace, which all orphans go to.
func TestNamespaces_LeaksNothingAsProcess1(t *testing.T) {
	if inNamespaces(t, false) {
		leaksNothing(t)
	}
}

// F5-18.
func TestNamespaces_KillsNobodyElse(t *testing.T) {
	if !inNamespaces(t, false) {
		return
	}
	w, other := newWorld(t), newWorld(t)
	host := exec.Command("sleep", "4242")
	if err := host.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = host.Process.Kill(); _ = host.Wait() }()
	id := other.ok(object{"command": "sleep 4243", "run_in_background": true}).JobID
	for _, c := range []string{"pkill -9 -f sleep; pkill -f dshx; pkill -f bash.test; kill -9 -1; kill -TERM 0; echo lives", "kill -9 1; kill -9 " + strconv.Itoa(host.Process.Pid), "kill -9 -1"} {
		r := w.call(context.Background(), object{"command": c, "timeout_ms": 20000}, nil)
		w.value(r) // an ordinary value
	}
	if err := host.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the host's process: %v", err)
	}
	if j := other.job(id); j.Status != jobs.Running || len(j.PIDs) != 1 {
		t.Errorf("the other's job: %+v", j)
	}
	if v := w.bash("echo works"); v.Stdout != "works\n" {
		t.Errorf("%+v", v.Ended)
	}
}

// What a command leaves behind is seen however low its number is: where there
// are few, they begin again within one short command.
func TestNamespaces_NumbersComeRound(t *testing.T) {
	var u unix.Utsname
	var major, minor int
	if err := unix.Uname(&u); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscanf(unix.ByteSliceToString(u.Release[:]), "%d.%d", &major, &minor); err != nil {
		t.Fatal(err)
	}
	if major < 6 || major == 6 && minor < 14 {
		t.Skip("pid_max is the whole machine's before Linux 6.14")
	}
	if os.Getenv(insideEnv) == "first" {
		if err := os.WriteFile("/proc/sys/kernel/pid_max", []byte("450"), 0); err != nil {
			t.Fatal(err)
		}
	}
	if !inNamespaces(t, true) {
		return
	}
	w := newWorld(t)
	const until = `n=0; while [ $n -lt 400 ]; do (:) & x=$!; wait $x; n=$((n+1)); [ $x %s $p ] && break; done; `
	low := 0
	for range 20 {
		v := w.bash(`p=$$; ` + fmt.Sprintf(until, "-lt") + `setsid sleep 300 <&- >&- 2>&- & q=$!; ` + fmt.Sprintf(until, "-gt") + `echo $p $q`)
		var p, q int
		if _, err := fmt.Sscan(v.Stdout, &p, &q); err != nil {
			t.Fatalf("%q: %v", v.Stdout, err)
		}
		if v.LeftBehind == nil || v.LeftBehind.JobID == nil {
			t.Fatalf("process %d of command %d is not seen: %+v", q, p, v.Ended)
		}
		if q < p {
			low++
		}
		w.owner.Kill(*v.LeftBehind.JobID, "KILL", "")
		if _, err := w.owner.Wait(context.Background(), nil, false); err != nil {
			t.Fatal(err)
		}
	}
	if low == 0 {
		t.Error("control: no number was lower than its command's")
	}
}

// F5-20: a number that is another process's by now.
func TestNamespaces_PidsAreUsedAgain(t *testing.T) {
	if !inNamespaces(t, false) {
		return
	}
	w := newWorld(t)
	id := w.ok(object{"command": "exec sleep 300", "run_in_background": true}).JobID
	pid := w.job(id).PIDs[0]
	w.owner.Kill(id, "KILL", "")
	if _, err := w.owner.Wait(context.Background(), nil, false); err != nil {
		t.Fatal(err)
	}
	var unrelated *exec.Cmd
	for range 100 { // a thread may get the number
		if err := os.WriteFile("/proc/sys/kernel/ns_last_pid", []byte(strconv.Itoa(pid-1)), 0); err != nil {
			t.Skip("no pid can be chosen: ", err)
		}
		unrelated = exec.Command("sleep", "4244")
		if err := unrelated.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = unrelated.Process.Kill(); _ = unrelated.Wait() }()
		if unrelated.Process.Pid == pid {
			break
		}
	}
	if unrelated.Process.Pid != pid {
		t.Fatalf("the unrelated process is %d, not %d", unrelated.Process.Pid, pid)
	}
	if j, requested, err := w.owner.Kill(id, "KILL", ""); requested || err != nil || len(j.PIDs) > 0 {
		t.Errorf("%+v %v %v", j, requested, err)
	}
	if err := w.owner.Close(context.Background()); err != nil {
		t.Error(err)
	}
	time.Sleep(50 * time.Millisecond)
	if b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat"); err != nil || strings.Contains(string(b), ") Z ") {
		t.Errorf("the unrelated process was ended: %s %v", b, err)
	}
}

// F5-21.
func TestNamespaces_FullDisk(t *testing.T) {
	if !inNamespaces(t, false) {
		return
	}
	small := t.TempDir()
	if err := unix.Mount("tmpfs", small, "tmpfs", 0, "size=1m,mode=0700"); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(small, unix.MNT_DETACH)
	w := newWorld(t, func(_ *sandboxpolicy.Request, j *jobs.Options, o *Options) {
		o.SpillDir, j.Dir = func(*pipeline.Call) string { return small }, small+"/jobs"
	})
	r := w.call(context.Background(), object{"command": "seq 1 3000000; exit 7", "timeout_ms": 60000}, nil)
	v := w.value(r)
	if *v.ExitCode != 7 || !strings.HasSuffix(v.Stdout, "\n3000000\n") || !strings.HasPrefix(v.Stdout, "1\n2\n") || v.Spill == nil || v.Spill.Complete || v.Spill.Bytes > 1<<20 {
		t.Errorf("%d %+v", v.ExitCode, v.Spill)
	}
	if b, err := os.ReadFile(*v.Spill.Stdout); err != nil || int64(len(b)) != v.Spill.Bytes || !strings.HasPrefix(string(b), "1\n2\n") {
		t.Errorf("%d bytes of %d, %v", len(b), v.Spill.Bytes, err)
	}
	if !strings.Contains(content(r), "the first "+itoa(v.Spill.Bytes)+" bytes are in "+*v.Spill.Stdout) {
		t.Error(content(r)[len(content(r))-300:])
	}
	id := w.ok(object{"command": "seq 1 300000; exit 6", "run_in_background": true}).JobID
	list, err := w.owner.Wait(context.Background(), []string{id}, false)
	if err != nil || *list[0].ExitCode != 6 {
		t.Errorf("%+v %v", list, err)
	}
	c, err := w.owner.Read(id, jobs.ReadOptions{})
	if err != nil || c.MissedBytes == 0 || c.Job.StdoutBytes < 1<<20 {
		t.Errorf("%d missed of %d, %v", c.MissedBytes, c.Job.StdoutBytes, err)
	}
}

// F5-16: an ordinary user, whom the limit binds.
func TestNamespaces_ForkBomb(t *testing.T) {
	if !inNamespaces(t, true) {
		return
	}
	w := newWorld(t, func(r *sandboxpolicy.Request, _ *jobs.Options, o *Options) {
		r.Limits.Pids = 64
		o.KillAfter = time.Second
	})
	done := make(chan pipeline.Result)
	go func() {
		done <- w.call(context.Background(), object{"command": "f() { f & f & wait; }; while :; do f; done", "timeout_ms": 2000, "env": object{"MARK": mark(t)}}, nil)
	}()
	most := 0
	var r pipeline.Result
	for waiting := true; waiting; {
		select {
		case r = <-done:
			waiting = false
		case <-time.After(50 * time.Millisecond):
			most = max(most, len(marked(mark(t))))
		}
	}
	if v := w.value(r); !v.TimedOut || v.Limit == nil || v.Limit.Name != "pids" || !strings.Contains(content(r), "[the limit pids bounded the command]") {
		t.Errorf("timed out %t, limit %+v; %s", v.TimedOut, v.Limit, content(r)[max(0, len(content(r))-400):])
	}
	if most > 64 {
		t.Errorf("%d processes", most)
	}
	if p := marked(mark(t)); len(p) > 0 {
		t.Errorf("%d live", len(p))
	}
	if v := w.bash("echo works"); v.Stdout != "works\n" {
		t.Errorf("%+v", v.Ended)
	}
}
