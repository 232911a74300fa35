package sigpipe

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func next(t *testing.T) Signal {
	t.Helper()
	got := make(chan Signal, 1)
	go func() { s, _ := Next(); got <- s }()
	select {
	case s := <-got:
		return s
	case <-time.After(10 * time.Second):
		t.Fatal("no signal arrived")
		return Signal{}
	}
}

func TestCatch_TellsWhoSentIt(t *testing.T) {
	if err := Catch(unix.SIGUSR1, unix.SIGCHLD, unix.SIGALRM); err != nil {
		t.Fatal(err)
	}
	defer Release(unix.SIGUSR1, unix.SIGCHLD, unix.SIGALRM)
	for range 1000 {
		unix.Kill(os.Getpid(), unix.SIGUSR1)
		if s := next(t); s.Number != unix.SIGUSR1 || int(s.Pid) != os.Getpid() || s.FromKernel() {
			t.Fatalf("got %+v", s)
		}
	}
	if _, err := unix.Setitimer(unix.ITIMER_REAL, unix.Itimerval{Value: unix.Timeval{Usec: 1000}}); err != nil {
		t.Fatal(err)
	}
	if s := next(t); s.Number != unix.SIGALRM || !s.FromKernel() {
		t.Errorf("got %+v", s)
	}
	exec.Command("/bin/true").Run()
	if s := next(t); s.Number != unix.SIGCHLD || !s.FromKernel() {
		t.Errorf("got %+v", s)
	}
}

func TestCatch_UnderAFloodNothingBlocks(t *testing.T) {
	if err := Catch(unix.SIGUSR2); err != nil {
		t.Fatal(err)
	}
	for range 20000 { // more records than a pipe holds
		unix.Kill(os.Getpid(), unix.SIGUSR2)
	}
	Release(unix.SIGUSR2)
	for range 100 {
		if s := next(t); s.Number != unix.SIGUSR2 {
			t.Fatalf("got %+v", s)
		}
	}
}
