package main

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// f3Launch turns itself into another program after putting the process into
// the state that a careless or unusual parent leaves behind: ignored and
// blocked signals, closed or surplus descriptors, limits, another account.
//
//	f3-launch [-ignore INT,PIPE] [-block USR1] [-close 0,1] [-open 1000]
//	          [-umask 027] [-nice N] [-nofile SOFT] [-fsize BYTES] [-env NAME=VALUE]
//	          [-uid N -gid N] -- COMMAND [ARG...]
//
// It replaces itself by exec, so that the new program has the probe's pid.
func f3Launch(args []string) int {
	// The signal mask belongs to a thread and exec keeps the mask of the thread
	// that calls it: sigprocmask(2).
	runtime.LockOSThread()
	uid, gid := -1, -1
	var closed []int
	extra := 0
	environ := os.Environ()
	for len(args) > 0 && args[0] != "--" {
		if len(args) < 2 {
			return f3Fail("launch: %s needs a value", args[0])
		}
		flag, value := args[0], args[1]
		args = args[2:]
		switch flag {
		case "-ignore":
			for _, name := range strings.Split(value, ",") {
				signal.Ignore(f3Signal(name))
			}
		case "-block":
			var set unix.Sigset_t
			for _, name := range strings.Split(value, ",") {
				n := uint(f3Signal(name)) - 1
				set.Val[n/64] |= 1 << (n % 64)
			}
			if err := unix.PthreadSigmask(unix.SIG_BLOCK, &set, nil); err != nil {
				return f3Fail("launch: block: %v", err)
			}
		case "-close":
			for _, n := range strings.Split(value, ",") {
				closed = append(closed, f3Int(n))
			}
		case "-open":
			extra = f3Int(value)
		case "-umask":
			mask, err := strconv.ParseInt(value, 8, 32)
			if err != nil {
				return f3Fail("launch: umask: %v", err)
			}
			unix.Umask(int(mask))
		case "-nofile":
			var lim unix.Rlimit
			if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &lim); err != nil {
				return f3Fail("launch: nofile: %v", err)
			}
			lim.Cur = uint64(f3Int(value))
			lim.Max = max(lim.Max, lim.Cur)
			if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &lim); err != nil {
				return f3Fail("launch: nofile: %v", err)
			}
		case "-nice":
			if err := unix.Setpriority(unix.PRIO_PROCESS, 0, f3Int(value)); err != nil {
				return f3Fail("launch: nice: %v", err)
			}
		case "-fsize":
			lim := unix.Rlimit{Cur: uint64(f3Int(value)), Max: uint64(f3Int(value))}
			if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &lim); err != nil {
				return f3Fail("launch: fsize: %v", err)
			}
		case "-env":
			// Appended as it is: a second value of a name, or no name at all.
			environ = append(environ, value)
		case "-uid":
			uid = f3Int(value)
		case "-gid":
			gid = f3Int(value)
		default:
			return f3Fail("launch: unknown option %s", flag)
		}
	}
	if len(args) < 2 {
		return f3Fail("launch: no command")
	}
	argv := args[1:]
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return f3Fail("launch: %v", err)
	}
	for range extra {
		// Not close-on-exec: the point is that the new program inherits them.
		if _, err := unix.Open("/dev/null", unix.O_RDONLY, 0); err != nil {
			return f3Fail("launch: open: %v", err)
		}
	}
	if gid >= 0 {
		if err := unix.Setgroups(nil); err != nil {
			return f3Fail("launch: setgroups: %v", err)
		}
		if err := unix.Setresgid(gid, gid, gid); err != nil {
			return f3Fail("launch: setresgid: %v", err)
		}
	}
	if uid >= 0 {
		if err := unix.Setresuid(uid, uid, uid); err != nil {
			return f3Fail("launch: setresuid: %v", err)
		}
	}
	for _, fd := range closed {
		_ = unix.Close(fd)
	}
	err = unix.Exec(path, argv, environ)
	return f3Fail("launch: exec %s: %v", path, err)
}

func f3Signal(name string) unix.Signal {
	sig := unix.SignalNum("SIG" + strings.TrimPrefix(name, "SIG"))
	if sig == 0 {
		fmt.Fprintf(os.Stderr, "probe: unknown signal %s\n", name)
		os.Exit(99)
	}
	return sig
}

func f3Int(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		fmt.Fprintf(os.Stderr, "probe: %v\n", err)
		os.Exit(99)
	}
	return n
}

// f3Fail reports a fault of the probe itself, with a status that no case
// expects.
func f3Fail(format string, args ...any) int {
	fmt.Fprintf(os.Stderr, "probe: "+format+"\n", args...)
	return 99
}
