package main

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// f3Storm starts a few chains of processes, each of which forks its successor
// in a new session and exits at once: there's always one process of a chain,
// and never for long the same one. Killing what a listing of /proc shows can
// miss it for ever; killing the whole tree at once can't.
//
//	f3-storm CHAINS
//
// A chain ends by itself after thirty seconds, so that a sandbox which fails
// the case leaves nothing behind.
func f3Storm(args []string) int {
	if len(args) != 1 {
		return f3Fail("storm: a number of chains")
	}
	end := time.Now().Add(30 * time.Second).Unix()
	for range f3Int(args[0]) {
		pid, errno := f3Fork()
		if errno != 0 {
			return f3Fail("storm: fork: %v", errno)
		}
		if pid == 0 {
			f3Chain(end)
		}
	}
	fmt.Println("ready")
	time.Sleep(30 * time.Second)
	return 0
}

// f3Chain runs in a process that fork(2) made out of a Go program with several
// threads: only raw system calls are safe there.
//
//go:nosplit
func f3Chain(end int64) {
	pause := unix.Timespec{Nsec: 200_000}
	for {
		_, _, _ = unix.RawSyscall(unix.SYS_SETSID, 0, 0, 0)
		if f3Now() > end {
			f3Exit()
		}
		f3Nanosleep(&pause)
		pid, errno := f3Fork()
		if pid != 0 || errno != 0 {
			f3Exit()
		}
	}
}

// f3Daemon leaves two descendants behind and exits: one double-forked into a
// session of its own, with all descriptors closed and an empty environment
// (found by its argument alone), and one that ignores TERM.
//
//	f3-daemon MARK
func f3Daemon(args []string) int {
	if len(args) != 1 {
		return f3Fail("daemon: a mark")
	}
	for _, script := range []string{
		"setsid env -i sleep " + args[0] + " </dev/null >/dev/null 2>&1 &",
		"trap '' TERM HUP INT; setsid sh -c 'trap \"\" TERM; while :; do sleep " + args[0] + "; done' </dev/null >/dev/null 2>&1 &",
	} {
		p, err := os.StartProcess("/bin/sh", []string{"sh", "-c", script},
			&os.ProcAttr{Env: os.Environ(), Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}})
		if err != nil {
			return f3Fail("daemon: %v", err)
		}
		if _, err := p.Wait(); err != nil {
			return f3Fail("daemon: %v", err)
		}
	}
	return 0
}
