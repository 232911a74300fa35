package main

import (
	"os"
	"os/signal"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

func init() { registerProgram("group-flip", groupFlip) }

// groupFlip signals its own process group while another thread puts it into
// its own group and back into the one that it was started in.
//
//	group-flip SIGNAL
func groupFlip(args []string) int {
	sig := unix.SignalNum("SIG" + args[0])
	signal.Ignore(sig)
	group := unix.Getpgrp()
	// A leader can't leave its group; a child of the caller's shell is none.
	if group == os.Getpid() {
		return f3Fail("group-flip: started as a leader")
	}
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
			_ = unix.Setpgid(0, 0)
			_ = unix.Setpgid(0, group)
		}
	}()
	for end := time.Now().Add(1500 * time.Millisecond); time.Now().Before(end); {
		_ = unix.Kill(0, sig)
		_, _ = unix.Getpgid(0)
	}
	close(stop)
	wg.Wait()
	return 0
}
