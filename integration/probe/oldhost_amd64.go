package main

import (
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

func init() { registerProgram("old-host", oldHost) }

// oldHost runs a command that is told of an older Landlock than the kernel's:
//
//	old-host ABI COMMAND [ARG...]
//
// It traces the command until it has asked for the version, changes the answer
// and lets it go, so that nothing of the tracing is left when it begins to
// confine. What the kernel offers beyond is then not used by a program that
// believes it, and every path that it takes on such kernels is taken for real.
func oldHost(args []string) int {
	abi, err := strconv.Atoi(args[0])
	if err != nil {
		return f3Fail("old-host: %v", err)
	}
	runtime.LockOSThread() // a tracer is a thread: ptrace(2)
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGUSR1)

	var files []uintptr
	for fd := range uintptr(64) {
		flags, err := unix.FcntlInt(fd, unix.F_GETFD, 0)
		if err == nil && flags&unix.FD_CLOEXEC == 0 {
			for uintptr(len(files)) < fd {
				files = append(files, ^uintptr(0))
			}
			files = append(files, fd)
		}
	}
	pid, err := syscall.ForkExec(args[1], args[1:], &syscall.ProcAttr{Env: os.Environ(), Files: files, Sys: &syscall.SysProcAttr{Ptrace: true, Pdeathsig: unix.SIGKILL}})
	if err != nil {
		return f3Fail("old-host: %v", err)
	}
	go func() {
		for s := range signals {
			_ = unix.Kill(pid, s.(syscall.Signal))
		}
	}()
	const version = 1 << 0 // LANDLOCK_CREATE_RULESET_VERSION
	told, began := false, false
	inside := map[int]bool{} // threads between the entry and the exit of a call
	for {
		var ws unix.WaitStatus
		tid, err := unix.Wait4(-1, &ws, unix.WALL, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return f3Fail("old-host: %v", err)
		}
		if !ws.Stopped() {
			if tid != pid {
				continue
			}
			if ws.Signaled() {
				return 128 + int(ws.Signal())
			}
			return ws.ExitStatus()
		}
		deliver := 0
		switch sig := ws.StopSignal(); {
		case !began:
			began = true // the stop after execve
			_ = unix.PtraceSetOptions(tid, unix.PTRACE_O_TRACECLONE|unix.PTRACE_O_TRACESYSGOOD)
		case sig == unix.SIGTRAP|0x80:
			inside[tid] = !inside[tid]
			var regs unix.PtraceRegs
			if !inside[tid] && !told && unix.PtraceGetRegs(tid, &regs) == nil &&
				regs.Orig_rax == unix.SYS_LANDLOCK_CREATE_RULESET && regs.Rdi == 0 && regs.Rdx == version {
				regs.Rax = uint64(abi)
				told = unix.PtraceSetRegs(tid, &regs) == nil
			}
		case sig == unix.SIGTRAP, sig == unix.SIGSTOP:
			// A new thread, announced and begun.
		default:
			deliver = int(sig)
		}
		if told {
			_, _, _ = unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_DETACH, uintptr(tid), 0, uintptr(deliver), 0, 0)
			continue
		}
		_ = unix.PtraceSyscall(tid, deliver)
	}
}
