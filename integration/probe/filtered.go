package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// filtered CALL=ERRNO,... COMMAND [ARG...]: executes COMMAND under a seccomp
// filter, as a container's profile or an old kernel has it, that answers CALL
// with ERRNO. killable is seccomp(2) with the flag for waits that only a fatal
// signal ends, filter any filter of seccomp(2), landlock all of Landlock's calls.
func init() {
	registerProgram("filtered", func(a []string) int {
		if len(a) < 2 {
			return 2
		}
		errnos := map[string]uint32{"EPERM": uint32(unix.EPERM), "ENOSYS": uint32(unix.ENOSYS), "EINVAL": uint32(unix.EINVAL), "EOPNOTSUPP": uint32(unix.EOPNOTSUPP)}
		type refusal struct {
			nr, mask uint32 // mask: of the second argument's bits, any; 0: always
			first    uint32 // the first argument, where mask is set or op is
			op       bool
		}
		calls := map[string][]refusal{
			"pidfd_getfd":      {{nr: unix.SYS_PIDFD_GETFD}},
			"process_vm_readv": {{nr: unix.SYS_PROCESS_VM_READV}},
			"clone3":           {{nr: unix.SYS_CLONE3}},
			"ptrace":           {{nr: unix.SYS_PTRACE}},
			"landlock":         {{nr: unix.SYS_LANDLOCK_CREATE_RULESET}, {nr: unix.SYS_LANDLOCK_ADD_RULE}, {nr: unix.SYS_LANDLOCK_RESTRICT_SELF}},
			"killable":         {{nr: unix.SYS_SECCOMP, op: true, first: unix.SECCOMP_SET_MODE_FILTER, mask: unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV}},
			"filter":           {{nr: unix.SYS_SECCOMP, op: true, first: unix.SECCOMP_SET_MODE_FILTER}},
		}
		// struct seccomp_data: nr at 0, the lower halves of the arguments at 16 and 24.
		load := func(at uint32) unix.SockFilter {
			return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
		}
		var code []unix.SockFilter
		for _, spec := range strings.Split(a[0], ",") {
			name, errno, _ := strings.Cut(spec, "=")
			if calls[name] == nil || errnos[errno] == 0 {
				return fatal(fmt.Errorf("unknown %s", spec))
			}
			for _, r := range calls[name] {
				ret := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | errnos[errno]}
				block := []unix.SockFilter{ret}
				if r.mask != 0 {
					block = append([]unix.SockFilter{load(24), {Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, K: r.mask, Jf: uint8(len(block))}}, block...)
				}
				if r.op {
					block = append([]unix.SockFilter{load(16), {Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: r.first, Jf: uint8(len(block))}}, block...)
				}
				code = append(code, load(0), unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: r.nr, Jf: uint8(len(block))})
				code = append(code, block...)
			}
		}
		code = append(code, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW})
		path, err := exec.LookPath(a[1])
		if err != nil {
			return fatal(err)
		}
		runtime.LockOSThread() // the thread that executes is the one that is filtered
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return fatal(err)
		}
		prog := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
		if _, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&prog))); e != 0 {
			return fatal(fmt.Errorf("seccomp: %w", e))
		}
		return fatal(unix.Exec(path, a[1:], os.Environ()))
	})
}
