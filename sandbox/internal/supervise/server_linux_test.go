package supervise

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dshx/dshx/sandbox/internal/seccomp"
)

func entries(t *testing.T, dir string) int {
	t.Helper()
	e, err := os.ReadDir(dir)
	must(t, err)
	return len(e)
}

// settles waits until f returns what it should.
func settles(t *testing.T, what string, want int, f func() int) {
	t.Helper()
	got := 0
	for range 200 {
		if got = f(); got <= want {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("%d %s, %d before", got, what, want)
}

func TestServer_LeavesNothing(t *testing.T) {
	d := newDirs(t)
	round := func() {
		s := newSandbox(t, seccomp.Options{}, &judge{writable: []string{d.W}})
		if got := s.op(d.W, "chmod f 0600", "serve stream x.sock", "backlog y.sock", "pass stream"); got[0] != "ok" {
			t.Error(got)
		}
		os.Remove(d.W + "/x.sock")
		os.Remove(d.W + "/y.sock")
		s.finish()
	}
	round() // what the runtime starts once
	time.Sleep(50 * time.Millisecond)
	fds, goroutines := entries(t, "/proc/self/fd"), runtime.NumGoroutine()
	for range 5 {
		round()
	}
	settles(t, "descriptors", fds, func() int { return entries(t, "/proc/self/fd") })
	settles(t, "goroutines", goroutines, runtime.NumGoroutine)
	threads := entries(t, "/proc/self/task")
	for range 5 {
		round()
	}
	// The runtime keeps some threads for later; they mustn't grow with rounds.
	settles(t, "threads", threads+2, func() int { return entries(t, "/proc/self/task") })
}

func TestServer_CloseEndsBlockedCalls(t *testing.T) {
	d := newDirs(t)
	s := newSandbox(t, seccomp.Options{}, &judge{writable: []string{d.W}})
	cmd := exec.Command("python3", "-c", `
import socket, time
l = socket.socket(socket.AF_UNIX); l.bind("b.sock"); l.listen(0)
for _ in range(5):
    c = socket.socket(socket.AF_UNIX)
    c.connect("b.sock")
`)
	cmd.Dir = d.W
	s.start(cmd)
	// Beside the worker that leads, one waits for the listener's queue.
	blocked := func() bool {
		s.server.mu.Lock()
		defer s.server.mu.Unlock()
		return s.server.leader.Load() != nil && s.server.workers-len(s.server.idle) == 2
	}
	for end := time.Now().Add(20 * time.Second); !blocked(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("no call waits")
		}
	}
	start := time.Now()
	s.server.Close()
	if took := time.Since(start); took > 2*time.Second {
		t.Errorf("Close took %v", took)
	}
	cmd.Process.Kill()
	cmd.Wait()
	s.server.Close() // again, harmless
}

func TestServer_CloseBeforeServe(t *testing.T) {
	var p [2]int
	must(t, unix.Pipe2(p[:], unix.O_CLOEXEC))
	defer unix.Close(p[1])
	s := New(p[0], Options{Judge: &judge{}})
	must(t, s.Close())
	must(t, s.Close())
	s.Serve() // returns
	if _, err := unix.FcntlInt(uintptr(p[0]), unix.F_GETFD, 0); err != unix.EBADF {
		t.Errorf("the listener is open after Close: %v", err)
	}
}

// Without reduced capabilities nothing is done at all.
func TestServer_RefusesAllWhenDropCapsFails(t *testing.T) {
	d := newDirs(t)
	s := newSandbox(t, seccomp.Options{}, &judge{writable: []string{d.W}}, func(o *Options) {
		o.DropCaps = func() error { return errors.New("no") }
	})
	if got := s.op(d.W, "chmod f 0600", "pass stream"); got[0] != "EPERM" || got[1] != "EPERM" {
		t.Error(got)
	}
	if d := s.denials(); len(d) != 1 || !strings.HasSuffix(d[0].Remedy, ": no") {
		t.Errorf("%+v", d)
	}
}

// Many processes, interrupted by timers all the time, and some killed within a
// call.
func TestServer_Stress(t *testing.T) {
	if testing.Short() {
		t.Skip("short")
	}
	d := newDirs(t)
	s := newSandbox(t, seccomp.Options{}, &judge{writable: []string{d.W}})
	const script = `
import os, signal, sys, socket
hits = 0
def on(*a):
    global hits; hits += 1
signal.signal(signal.SIGALRM, on)
signal.siginterrupt(signal.SIGALRM, False)
signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
p = sys.argv[1]
a, b = socket.socketpair()
for i in range(300):
    os.chmod(p, 0o600 + i % 64)
    os.utime(p, (i, i))
    if os.stat(p).st_mode & 0o777 != 0o600 + i % 64: sys.exit("wrong mode")
    try: os.chmod(sys.argv[2], 0o777); sys.exit("allowed")
    except PermissionError: pass
    a.sendmsg([b"x" * 100]); b.recv(1000)
signal.setitimer(signal.ITIMER_REAL, 0)
print("done")
`
	before := state(t, d.O+"/f")
	var wg sync.WaitGroup
	for i := range 64 {
		path := d.W + "/s" + string(rune('A'+i%26)) + string(rune('a'+i/26))
		must(t, os.WriteFile(path, nil, 0o600))
		cmd := exec.Command("python3", "-c", script, path, d.O+"/f")
		var out strings.Builder
		cmd.Stdout, cmd.Stderr = &out, &out
		s.start(cmd)
		wg.Add(1)
		go func() {
			defer wg.Done()
			if i%8 == 0 {
				time.Sleep(time.Duration(100+10*i) * time.Millisecond)
				cmd.Process.Kill()
				cmd.Wait()
				return
			}
			if err := cmd.Wait(); err != nil || out.String() != "done\n" {
				t.Errorf("process %d: %v\n%s", i, err, out.String())
			}
		}()
	}
	wg.Wait()
	if after := state(t, d.O+"/f"); after != before {
		t.Errorf("%s became %s", before, after)
	}
	if n := len(s.denials()); n == 0 || n > maxDenials {
		t.Errorf("%d denials", n)
	}
}

// F1-25: while one thread calls, another changes the buffer between a legal
// and a forbidden name.
func TestRace_TheBufferChanges(t *testing.T) {
	d := newDirs(t)
	host := listenUnix(t, "unixgram", d.O+"/h")
	s := newSandbox(t, seccomp.Options{}, &judge{writable: []string{d.W}})
	rounds := "20000"
	if os.Getenv("DSHX_LONG") == "1" {
		rounds = "200000"
	}
	before := state(t, d.O+"/f") + state(t, d.O+"/h")
	out := s.op(d.W, "race chmod "+d.W+"/f "+d.O+"/f "+rounds, "race sendto "+d.W+"/h "+d.O+"/h "+rounds)
	for _, line := range out {
		if !strings.HasPrefix(line, "ok ") {
			t.Fatal(out)
		}
		t.Log(line)
	}
	if after := state(t, d.O+"/f") + state(t, d.O+"/h"); after != before {
		t.Errorf("%s became %s", before, after)
	}
	if n := host(); n != 0 {
		t.Errorf("the host's socket got %d datagrams", n)
	}
}

// The directory on the way to a socket turns into a link and back.
func TestRace_TheDirectoryChanges(t *testing.T) {
	d := newDirs(t)
	s := newSandbox(t, seccomp.Options{}, &judge{writable: []string{d.W}})
	must(t, os.Mkdir(d.W+"/real", 0o755))
	must(t, os.Symlink(d.O, d.W+"/link"))
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Add(1)
	go func() {
		defer wg.Done()
		for {
			select {
			case <-stop:
				return
			default:
			}
			unix.Renameat2(unix.AT_FDCWD, d.W+"/real", unix.AT_FDCWD, d.W+"/link", unix.RENAME_EXCHANGE)
		}
	}()
	out := s.op(d.W, "bindrace "+d.W+"/real 1500", "chmodrace "+d.W+"/real/f "+d.W+" 3000")
	close(stop)
	wg.Wait()
	t.Log(out)
	for _, e := range []string{d.O, d.O + "/sub"} {
		names, err := os.ReadDir(e)
		must(t, err)
		for _, n := range names {
			if strings.HasSuffix(n.Name(), ".sock") {
				t.Fatalf("a socket in %s: %s", e, n.Name())
			}
		}
	}
	if st := state(t, d.O+"/f"); !strings.HasPrefix(st, "mode 100644") {
		t.Error(st)
	}
}

// What commands send to each other doesn't take the descriptors from this
// process that it needs for itself.
func TestSends_LeaveDescriptors(t *testing.T) {
	var old unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &old))
	must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 1024, Max: old.Max}))
	defer unix.Setrlimit(unix.RLIMIT_NOFILE, &old)
	count := func() int {
		t.Helper()
		all, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatalf("this process can open nothing: %v", err)
		}
		return len(all)
	}
	d := newDirs(t)
	s := newSandbox(t, seccomp.Options{}, &judge{writable: []string{d.W}})
	if got := s.op(d.W, "rights 253", "rights 254", "rights 200 53", "rights 200 54"); fmt.Sprint(got) != "[ok EINVAL ok EINVAL]" {
		t.Errorf("as many as the kernel takes: %s", got)
	}
	before := count()
	for _, c := range []struct {
		op   string
		want string // how many wait, and what the others got
		held int    // descriptors of theirs, at most
	}{
		{"blocksend 150 253", "1 map[ETOOMANYREFS:149]", 253},
		{"blocksend 150 1", "150 map[]", 150},
	} {
		cmd := exec.Command(os.Args[0], c.op)
		cmd.Env, cmd.Dir, cmd.Stderr = append(os.Environ(), helperEnv+"=1", "GORACE=atexit_sleep_ms=0"), d.W, os.Stderr
		in, err := cmd.StdinPipe()
		must(t, err)
		out, err := cmd.StdoutPipe()
		must(t, err)
		s.start(cmd)
		line, err := bufio.NewReader(out).ReadString('\n')
		must(t, err)
		line = strings.ReplaceAll(strings.TrimSpace(line), unix.ETOOMANYREFS.Error(), "ETOOMANYREFS")
		if line != c.want {
			t.Errorf("%s: %s, want %s", c.op, line, c.want)
		}
		// Each that waits has its socket here, too.
		if n := count() - before; n > c.held+150+20 {
			t.Errorf("%s: %d descriptors are held", c.op, n)
		}
		in.Close()
		must(t, cmd.Wait())
		if got := s.op(d.W, "rights 253")[0]; got != "ok" {
			t.Errorf("afterwards: %s", got)
		}
	}
}
