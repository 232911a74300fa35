package bash

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dshx/dshx/jobs"
	"github.com/dshx/dshx/pipeline"
	"github.com/dshx/dshx/sandboxpolicy"
	"github.com/dshx/dshx/tools/permission"
	"golang.org/x/sys/unix"
)

// F5-4, with the tree of a real command.
func TestJob_KilledOnlyWhenNothingLives(t *testing.T) {
	w := newWorld(t, func(_ *sandboxpolicy.Request, j *jobs.Options, _ *Options) { j.Grace = time.Second })
	id := w.ok(object{"command": "trap '' TERM; (setsid sh -c 'trap \"\" TERM; while :; do sleep 1; done' &); echo up; while :; do sleep 1; done",
		"run_in_background": true, "env": object{"MARK": mark(t)}}).JobID
	within(t, 5*time.Second, "up", func() bool { return w.output(id) == "up\n" })
	start := time.Now()
	j, requested, err := w.owner.Kill(id, "TERM", "")
	if j.Status != jobs.Stopping || !requested || err != nil {
		t.Errorf("%+v %v %v", j, requested, err)
	}
	for {
		j = w.job(id)
		if j.Status == jobs.Killed {
			break
		}
		if time.Since(start) > 3*time.Second {
			t.Fatalf("%+v", j)
		}
		time.Sleep(5 * time.Millisecond)
	}
	if p := marked(mark(t)); len(p) > 0 {
		t.Errorf("%v live of a killed job", p)
	}
	if *j.EndedBy != jobs.ByKill || time.Since(start) < time.Second {
		t.Errorf("%+v", j)
	}
	if _, requested, err := w.owner.Kill(id, "TERM", ""); requested || err != nil {
		t.Error(requested, err)
	}
}

// F5-5, as far as the library goes.
func TestJob_EndsWithItsOwner(t *testing.T) {
	w := newWorld(t)
	for _, pty := range []bool{false, true} {
		w.ok(object{"command": "sh -c 'sh -c \"sleep 999\" & wait'", "run_in_background": true, "pty": pty, "env": object{"MARK": mark(t)}})
		w.ok(object{"command": "setsid sleep 999 & sleep 999 & true", "env": object{"MARK": mark(t)}})
	}
	within(t, 5*time.Second, "processes", func() bool { return len(marked(mark(t))) >= 6 })
	start := time.Now()
	if err := w.owner.Close(context.Background()); err != nil || time.Since(start) > 7*time.Second {
		t.Errorf("%v after %v", err, time.Since(start))
	}
	if p := marked(mark(t)); len(p) > 0 {
		t.Errorf("%v live", p)
	}
	for _, j := range w.owner.List() {
		if *j.EndedBy != jobs.ByOwner {
			t.Errorf("%+v", j)
		}
	}
	w.fails(object{"command": "true", "run_in_background": true}, pipeline.CodeAborted)
	v := w.ok(object{"command": "sleep 300 & true", "env": object{"MARK": mark(t)}})
	if v.LeftBehind == nil || v.LeftBehind.JobID != nil || len(marked(mark(t))) > 0 {
		t.Errorf("%+v", v.LeftBehind)
	}
}

// The domain's end is everybody's, and nobody waits for what is gone.
func TestScope_ClosesUnderCallsAndJobs(t *testing.T) {
	w := newWorld(t)
	for _, pty := range []bool{false, true} {
		w.ok(object{"command": "sleep 300", "run_in_background": true, "pty": pty})
	}
	w.ok(object{"command": "setsid sleep 300 & true"})
	done := make(chan pipeline.Result)
	started := make(chan struct{}, 1)
	go func() {
		done <- w.call(context.Background(), object{"command": "echo up; sleep 300 & sleep 300"}, func(pipeline.Progress) { started <- struct{}{} })
	}()
	<-started
	if err := w.scope.Close(); err != nil {
		t.Error(err)
	}
	if v := w.value(<-done); v.Stdout != "up\n" || v.Signal == nil || *v.Signal != "SIGKILL" || v.LeftBehind != nil {
		t.Errorf("%+v", v.Ended)
	}
	list, err := w.owner.Wait(context.Background(), nil, false)
	if err != nil {
		t.Error(err)
	}
	for _, j := range list {
		if j.Status != jobs.Exited {
			t.Errorf("%+v", j)
		}
	}
	r := w.call(context.Background(), object{"command": "true"}, nil)
	if r.OK() {
		t.Errorf("a command in a closed domain: %s", r.Value())
	}
}

// What is approved holds for the call and what is left of it, and no longer.
func TestPermissions_WidenOneCall(t *testing.T) {
	w := newWorld(t)
	base := filepath.Dir(filepath.Dir(w.work))
	outside := base + "/outside"
	if err := os.Mkdir(outside, 0o700); err != nil {
		t.Fatal(err)
	}
	w.root.PreExecute("permissions", permission.Listener(w.scope.Policy(), w.req))
	ask := object{"command": "echo x > " + outside + "/f", "sandbox_permissions": object{"write": []string{outside}}, "justification": "a test"}
	w.fails(ask, pipeline.CodeApprovalUnavailable)
	w.root.SetApprover(yes{})
	w.bash("true")
	fds, threads, routines := counts()
	for range 5 {
		if v := w.ok(ask); *v.ExitCode != 0 {
			t.Errorf("%+v", v.Ended)
		}
		if _, err := os.Stat(outside + "/f"); err != nil {
			t.Error(err)
		}
		_ = os.Remove(outside + "/f")
	}
	if v := w.bash("echo x > " + outside + "/f"); *v.ExitCode == 0 {
		t.Error("the next call has it, too")
	}
	ask["command"] = "(sleep 0.3; echo x > " + outside + "/late) & echo hi"
	v := w.ok(ask)
	if v.LeftBehind == nil {
		t.Fatalf("%+v", v.Ended)
	}
	ask["command"], ask["run_in_background"] = "echo x > "+outside+"/job", true
	w.ok(ask)
	if _, err := w.owner.Wait(context.Background(), nil, false); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"late", "job"} {
		if _, err := os.Stat(outside + "/" + name); err != nil {
			t.Error(err)
		}
	}
	// A call that fails gives its domain back, too.
	ask["workdir"] = "none"
	w.fails(ask, "FS_NOT_FOUND")
	delete(ask, "run_in_background")
	w.fails(ask, "FS_NOT_FOUND")
	settled(t, fds, threads+10, routines)
}

// A limit that ends a command, or a job, is named.
func TestLimits_AreNamed(t *testing.T) {
	w := newWorld(t, func(r *sandboxpolicy.Request, _ *jobs.Options, _ *Options) {
		r.Limits.CPUTime, r.Limits.FileSize = time.Second, 1<<20
	})
	for command, want := range map[string]struct {
		signal, name string
		value        int64
	}{
		"while :; do :; done":                            {"SIGXCPU", "cpu-time", 1000},
		"exec dd if=/dev/zero of=big bs=64k status=none": {"SIGXFSZ", "file-size", 1 << 20},
		"true": {},
	} {
		r := w.call(context.Background(), object{"command": command, "timeout_ms": 20000}, nil)
		v := w.value(r)
		id := w.ok(object{"command": command, "run_in_background": true}).JobID
		list, err := w.owner.Wait(context.Background(), []string{id}, false)
		if err != nil {
			t.Fatal(err)
		}
		if want.name == "" {
			if v.Limit != nil || *list[0].EndedBy != jobs.ByExit || list[0].Status != jobs.Exited {
				t.Errorf("%s: %+v, %+v", command, v.Limit, list[0])
			}
			continue
		}
		if !strings.Contains(r.Value().String(), fmt.Sprintf(`"limit":{"name":%q,"value":%d}`, want.name, want.value)) || v.Signal == nil || *v.Signal != want.signal || v.TimedOut ||
			!strings.Contains(content(r), "[the limit "+want.name+" ended the command]") {
			t.Errorf("%s: %s, content %q", command, r.Value(), content(r))
		}
		if j := list[0]; j.Status != jobs.Killed || *j.EndedBy != jobs.ByLimit || j.Signal == nil || *j.Signal != want.signal {
			t.Errorf("%s: %+v", command, j)
		}
	}
}

// The shell's own memory is bounded like that of what it starts.
func TestLimits_MemoryOfTheShell(t *testing.T) {
	w := newWorld(t, func(r *sandboxpolicy.Request, _ *jobs.Options, _ *Options) { r.Limits.Memory = 100 << 20 })
	for command, want := range map[string]string{
		`x=$(head -c 300000000 /dev/zero | tr '\0' x); echo ${#x}`: `"limit":{"name":"memory","value":104857600}`,
		`x=$(head -c 300000 /dev/zero | tr '\0' x); echo ${#x}`:    `"limit":null`,
	} {
		if r := w.call(context.Background(), object{"command": command}, nil); !strings.Contains(r.Value().String(), want) {
			t.Errorf("%s: %s, want %s", command, r.Value(), want)
		}
	}
}

// Each kind of permission gives what it names, to the call that has it and to no
// other.
func TestPermissions_OfEachKind(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte("reached\n"))
			_ = c.Close()
		}
	}()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	w := newWorld(t)
	base := filepath.Dir(filepath.Dir(w.work))
	outside := base + "/outside"
	if err := os.Mkdir(outside, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(base+"/home/.ssh/id", []byte("key\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.root.PreExecute("permissions", permission.Listener(w.scope.Policy(), w.req))
	w.root.SetApprover(yes{})
	reach, write, secret := "cat < /dev/tcp/127.0.0.1/"+port, "echo > "+outside+"/f && echo wrote", "cat ~/.ssh/id"
	for _, tt := range []struct {
		asked                object
		network, file, other string
	}{
		{nil, "", "", ""},
		{object{"network": "full"}, "reached\n", "", ""},
		{object{"network": "loopback"}, "reached\n", "", ""},
		{object{"write": []string{outside}}, "", "wrote\n", ""},
		{object{"network": "full", "write": []string{"../../outside"}}, "reached\n", "wrote\n", ""},
		{object{"preset": "danger-full-access"}, "reached\n", "wrote\n", "key\n"},
		{nil, "", "", ""},
	} {
		for command, want := range map[string]string{reach: tt.network, write: tt.file, secret: tt.other} {
			args := object{"command": command}
			if tt.asked != nil {
				args["sandbox_permissions"] = tt.asked
			}
			if v := w.ok(args); v.Stdout != want || (*v.ExitCode == 0) != (want != "") {
				t.Errorf("with %v, %s: %d %q %q", tt.asked, command, *v.ExitCode, v.Stdout, v.Stderr)
			}
		}
	}
}

type yes struct{}

func (yes) Approve(context.Context, pipeline.Question) pipeline.Answer { return pipeline.AllowedOnce }

// F3-17: whatever this process ignores and blocks, a command begins afresh.
func TestRun_SignalsAreTheDefaults(t *testing.T) {
	signal.Ignore(unix.SIGINT, unix.SIGQUIT, unix.SIGPIPE)
	defer signal.Reset(unix.SIGINT, unix.SIGQUIT, unix.SIGPIPE)
	w := newWorld(t)
	v := w.bash("grep -E '^Sig(Ign|Blk)' /proc/self/status; yes | head -n1")
	if strings.ReplaceAll(v.Stdout, "\t", "") != "SigBlk:0000000000000000\nSigIgn:0000000000000000\ny\n" {
		t.Errorf("%q", v.Stdout)
	}
}

// The caller's terminal is no business of a command: it is in another session.
func TestRun_HasNoTerminalOfTheCaller(t *testing.T) {
	w := newWorld(t)
	sid, err := unix.Getsid(0)
	if err != nil {
		t.Fatal(err)
	}
	v := w.bash("ps -o sid= -p $$; echo q > /dev/tty")
	if strings.TrimSpace(v.Stdout) == itoa(int64(sid)) || *v.ExitCode == 0 {
		t.Errorf("session %q, the caller's is %d; %q", v.Stdout, sid, v.Stderr)
	}
}
