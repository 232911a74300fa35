package proctree

import (
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// marked starts sh -c script with a mark.
func marked(t *testing.T, m *Marker, script string) (*exec.Cmd, uint64) {
	t.Helper()
	mark := m.Next()
	c := exec.Command("sh", "-c", "read x; "+script)
	in, _ := c.StdinPipe()
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if err := unix.Prlimit(c.Process.Pid, rlimitRTTime, &unix.Rlimit{Cur: mark, Max: mark}, nil); err != nil {
		t.Fatal(err)
	}
	in.Write([]byte("\n"))
	in.Close()
	t.Cleanup(func() {
		for _, pid := range Find(mark, ^uint64(0)) {
			Signal(pid, mark, ^uint64(0), unix.SIGKILL)
		}
		c.Wait()
	})
	return c, mark
}

func wait(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("never: ", what)
		}
	}
}

func newMarker(t *testing.T) *Marker {
	t.Helper()
	m := NewMarker()
	if m == nil {
		t.Skip("this process has a limit of its own on RLIMIT_RTTIME, so it can't mark others")
	}
	return m
}

func TestFind_SeesWhoeverLeftSessionAndParent(t *testing.T) {
	m := newMarker(t)
	_, mark := marked(t, m, "setsid sh -c 'env -i /bin/sleep 300 & /bin/sleep 300' & exec sleep 300")
	_, other := marked(t, m, "exec sleep 300")
	wait(t, "four processes", func() bool { return len(Find(mark, ^uint64(0))) == 4 })
	if got := Find(other, ^uint64(0)); len(got) != 1 {
		t.Errorf("the other command has %d processes", len(got))
	}
	if got := Find(m.Base(), Mask); len(got) != 5 {
		t.Errorf("the marker finds %d processes, want 5", len(got))
	}
	if got := Find(m.Base()^(1<<40), Mask); len(got) != 0 {
		t.Errorf("another marker finds %v", got)
	}
}

func TestSignal_ReachesOnlyTheMarked(t *testing.T) {
	m := newMarker(t)
	c, mark := marked(t, m, "exec sleep 300")
	if err := Signal(c.Process.Pid, mark+1, ^uint64(0), unix.SIGKILL); err != unix.ESRCH {
		t.Errorf("another's mark: %v", err)
	}
	if err := Signal(os.Getpid(), mark, ^uint64(0), unix.SIGKILL); err != unix.ESRCH {
		t.Errorf("this process: %v", err)
	}
	if err := Signal(c.Process.Pid, mark, ^uint64(0), unix.SIGTERM); err != nil {
		t.Error(err)
	}
	c.Wait()
	wait(t, "no process", func() bool { return len(Find(mark, ^uint64(0))) == 0 })
}

func TestDescendants_ByParents(t *testing.T) {
	c := exec.Command("sh", "-c", "sh -c 'sleep 300; :' & sleep 300; :")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	var got []int
	defer func() {
		for _, pid := range append(got, c.Process.Pid) {
			unix.Kill(pid, unix.SIGKILL)
		}
		c.Wait()
	}()
	wait(t, "three descendants", func() bool { got = Descendants(c.Process.Pid); return len(got) == 3 })
	if slices.Contains(got, c.Process.Pid) || slices.Contains(got, os.Getpid()) {
		t.Errorf("got %v", got)
	}
	if !slices.Contains(Descendants(os.Getpid()), c.Process.Pid) {
		t.Error("a child is missing")
	}
}

func TestMarker_Values(t *testing.T) {
	m := newMarker(t)
	seen := map[uint64]bool{}
	for range 1000 {
		v := m.Next()
		if seen[v] || v&Mask != m.Base() || v>>62 != 1 {
			t.Fatalf("mark %#x of %#x", v, m.Base())
		}
		seen[v] = true
	}
	var none *Marker
	if none.Base() != 0 || none.Next() != 0 || Find(0, Mask) != nil {
		t.Error("no marker marks nothing and finds nothing")
	}
}

func TestStat_NameWithParentheses(t *testing.T) {
	c := exec.Command("sh", "-c", "printf ') Z 1 (' > /proc/self/comm; read x")
	in, _ := c.StdinPipe()
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { in.Close(); c.Wait() }()
	wait(t, "the name", func() bool {
		b, _ := os.ReadFile("/proc/" + strconv.Itoa(c.Process.Pid) + "/comm")
		return strings.HasPrefix(string(b), ")")
	})
	if ppid, ended, ok := stat(c.Process.Pid); ppid != os.Getpid() || ended || !ok {
		t.Errorf("got %d %v %v", ppid, ended, ok)
	}
}

// A command can bring about that this process has no descriptor left.
func TestFind_WithoutADescriptor(t *testing.T) {
	m := newMarker(t)
	_, mark := marked(t, m, "exec sleep 300")
	wait(t, "the process", func() bool { return len(Find(mark, ^uint64(0))) == 1 })
	var lim unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &lim); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 0, Max: lim.Max}); err != nil {
		t.Fatal(err)
	}
	_, openErr := os.Open("/proc")
	pids := Find(mark, ^uint64(0))
	var err error
	for _, pid := range pids {
		err = Signal(pid, mark, ^uint64(0), unix.SIGKILL)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &lim); err != nil {
		t.Fatal(err)
	}
	if openErr == nil {
		t.Fatal("there was a descriptor")
	}
	if len(pids) != 1 || err != nil {
		t.Fatalf("found %v, signalled with %v", pids, err)
	}
	wait(t, "its end", func() bool { return len(Find(mark, ^uint64(0))) == 0 })
}

func TestNoneAfter(t *testing.T) {
	m := newMarker(t)
	c, mark := marked(t, m, "setsid sleep 300 & exit 0")
	wait(t, "the shell's end", func() bool { return zombie(c.Process.Pid) })
	since := time.Now()
	if none, known := NoneAfter(c.Process.Pid, mark, since); none || !known {
		t.Errorf("with a process: none %t, known %t", none, known)
	}
	for _, pid := range Find(mark, ^uint64(0)) {
		if err := Signal(pid, mark, ^uint64(0), unix.SIGKILL); err != nil {
			t.Error(err)
		}
	}
	wait(t, "its end", func() bool { return len(Find(mark, ^uint64(0))) == 0 })
	if none, known := NoneAfter(c.Process.Pid, mark, time.Now()); !none || !known {
		t.Errorf("without: none %t, known %t", none, known)
	}
	if _, known := NoneAfter(1<<22, mark, since); known {
		t.Error("a number that was not given out is no place to begin")
	}
	if _, known := NoneAfter(c.Process.Pid, 0, since); known {
		t.Error("without a mark it can't be known")
	}
	if _, known := NoneAfter(c.Process.Pid, mark, since.Add(-time.Hour)); known {
		t.Error("in an hour the numbers may have begun again")
	}
	if at := comesRound(32768, 2); at < 10*time.Millisecond || at > 50*time.Millisecond || comesRound(301, 1) > time.Millisecond || comesRound(pidMax(), 1) <= 0 {
		t.Errorf("32768 numbers come round in %v, 301 in %v, here in %v", at, comesRound(301, 1), comesRound(pidMax(), 1))
	}
}
