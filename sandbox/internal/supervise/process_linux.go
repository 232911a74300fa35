package supervise

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/dshx/dshx/sandboxpolicy"
)

// Calls on other processes. What they are judged by is in the registers, so
// the kernel may perform them (CONTINUE) and everything about them, the sender
// in siginfo included, is as without us. Processes inside may signal each other
// and set each other's scheduling, as in a sandbox of their own.

var proceed = answer{cont: true}

var otherProcess = sandboxpolicy.Verdict{Rule: sandboxpolicy.Rule{Text: "processes of the host", Origin: "preset"},
	Remedy: "not possible: a command reaches only the processes that it started"}

// onProcess judges a call on process or thread pid, 0 being the caller.
func (w *worker) onProcess(pid int, what string) answer {
	if pid == 0 || pid == w.tid || pid == w.process() {
		return proceed
	}
	if pid < 0 {
		return failed(unix.ESRCH)
	}
	p := processOf(pid)
	if !w.s.o.Judge.Inside(p) {
		if unix.Kill(pid, 0) == unix.ESRCH {
			return failed(unix.ESRCH)
		}
		if !w.valid() {
			return failed(unix.ESRCH)
		}
		return w.deny(sandboxpolicy.OpSignal, fmt.Sprintf("%s of process %d", what, pid), "", otherProcess, unix.EPERM)
	}
	return proceed
}

// own reports a call of this process's: the thread that starts commands is
// under their filter.
func (w *worker) own() bool { return w.process() == os.Getpid() }

// onGroup judges a call on process group pgid. A group is of the sandbox when
// all its members are: a process outside doesn't join one that it doesn't know.
func (w *worker) onGroup(pgid int, what string) answer {
	if pgid > 0 && w.s.o.Judge.Inside(pgid) {
		return proceed // it was made inside, by its leader or for it
	}
	members, ok := groupMembers(pgid)
	if !ok {
		return failed(unix.EPERM)
	}
	if len(members) == 0 {
		return failed(unix.ESRCH)
	}
	for _, p := range members {
		if p != w.process() && !w.s.o.Judge.Inside(p) {
			return w.denyGroup(pgid, what)
		}
	}
	return proceed
}

func (w *worker) denyGroup(pgid int, what string) answer {
	return w.deny(sandboxpolicy.OpSignal, fmt.Sprintf("%s of process group %d", what, pgid), "", otherProcess, unix.EPERM)
}

// signalOwnGroup sends a signal to the caller's own group, to those members that
// are inside. The kernel would look again which group that is, and a thread of
// the caller's can have changed it by then: into one with processes outside.
func (w *worker) signalOwnGroup(sig uint64) answer {
	caller := w.process()
	pgid, err := unix.Getpgid(caller)
	if err != nil {
		return failed(unix.ESRCH)
	}
	members, ok := groupMembers(pgid)
	if !ok {
		return failed(unix.EPERM)
	}
	if !w.valid() {
		return failed(unix.ESRCH)
	}
	inside := func(pid int) bool { return pid == caller || w.s.o.Judge.Inside(pid) }
	refused := false
	result := unix.ESRCH
	one := func(pid int) {
		fd, e := pidfdOpen(pid, 0)
		if e != 0 {
			return
		}
		defer unix.Close(fd)
		if !inside(pid) { // what the descriptor keeps the number for
			refused = true
			return
		}
		if e = pidfdSendSignal(fd, sig, nil, 0); result != 0 {
			result = e
		}
	}
	for _, pid := range members {
		if pid != caller {
			one(pid)
		}
	}
	one(caller) // last: it may be the end of it
	if result != 0 && refused {
		return w.denyGroup(pgid, "signal")
	}
	return failed(result)
}

// groupMembers lists the processes of a group.
func groupMembers(pgid int) ([]int, bool) {
	d, err := os.Open("/proc")
	if err != nil {
		return nil, false
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, false
	}
	var members []int
	for _, n := range names {
		pid, err := strconv.Atoi(n)
		if err != nil {
			continue
		}
		b, err := os.ReadFile("/proc/" + n + "/stat")
		if err != nil {
			continue
		}
		if statField(b, 5) == pgid { // pgrp
			members = append(members, pid)
		}
	}
	return members, true
}

// statField returns field n of the text of /proc/PID/stat, as proc_pid_stat(5)
// counts them, from the third on, or -1. The command in parentheses may have
// anything in it.
func statField(stat []byte, n int) int {
	f := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if n -= 3; n >= len(f) {
		return -1
	}
	v, err := strconv.Atoi(string(f[n]))
	if err != nil {
		return -1
	}
	return v
}

// kill(pid, sig)
func sysKill(w *worker, a *[6]uint64) answer {
	if w.own() {
		return proceed
	}
	switch pid := int(int32(a[0])); {
	case pid > 0:
		return w.onProcess(pid, "signal")
	case pid == 0:
		return w.signalOwnGroup(uint64(uint32(a[1])))
	case pid == -1:
		// All that the user may signal; the kernel knows no narrower set.
		return w.deny(sandboxpolicy.OpSignal, "kill(-1)", "", otherProcess, unix.EPERM)
	default:
		return w.onGroup(-pid, "signal")
	}
}

// tkill(tid, sig), rt_sigqueueinfo(pid, sig, info)
func sysTkill(w *worker, a *[6]uint64) answer { return w.onThread(int(int32(a[0])), "signal") }

// tgkill(tgid, tid, sig), rt_tgsigqueueinfo(tgid, tid, sig, info): the kernel
// checks that tid is of tgid.
func sysTgkill(w *worker, a *[6]uint64) answer { return w.onThread(int(int32(a[0])), "signal") }

// onThread is onProcess where 0 isn't the caller.
func (w *worker) onThread(pid int, what string) answer {
	if w.own() {
		return proceed
	}
	if pid <= 0 {
		return failed(unix.EINVAL)
	}
	return w.onProcess(pid, what)
}

// pidfd_send_signal(pidfd, sig, info, flags). The descriptor could be replaced
// before the kernel looks again, so it's performed here, on a duplicate: the
// sender in siginfo is this process.
func sysPidfdSendSignal(w *worker, a *[6]uint64) answer {
	const (
		thread      = 1 << 0 // PIDFD_SIGNAL_THREAD, Linux 6.9
		threadGroup = 1 << 1
	)
	if w.own() {
		return proceed
	}
	if uint32(a[3])&^(thread|threadGroup) != 0 {
		// PIDFD_SIGNAL_PROCESS_GROUP reaches whoever is in the group by then.
		return failed(unix.EINVAL)
	}
	fd, e := w.dup(int32(a[0]))
	if e == errNoGetfd {
		return w.refuse(sandboxpolicy.OpSignal, describe(int32(a[0])), noGetfdRemedy, unix.EPERM)
	}
	if e != 0 {
		return failed(e)
	}
	pid, ok := w.pidfdProcess(fd)
	if !ok {
		return failed(unix.EBADF)
	}
	var info []byte
	if a[2] != 0 {
		const sizeofSiginfo = 128
		info = make([]byte, sizeofSiginfo)
		if e := w.read(info, a[2]); e != 0 {
			return failed(e)
		}
	}
	if pid <= 0 {
		return failed(unix.ESRCH)
	}
	if r := w.onProcess(pid, "signal"); !r.cont {
		return r
	}
	if !w.valid() {
		return failed(unix.ESRCH)
	}
	return failed(pidfdSendSignal(fd, uint64(uint32(a[1])), info, uint64(uint32(a[3]))))
}

// pidfdProcess returns the process of a pidfd of ours: -1 when it's gone.
func (w *worker) pidfdProcess(fd int) (int, bool) {
	b, err := os.ReadFile("/proc/self/fdinfo/" + strconv.Itoa(fd))
	if err != nil {
		return 0, false
	}
	if v, ok := field(b, "Pid:"); ok {
		n, err := strconv.Atoi(string(v))
		return n, err == nil
	}
	// A directory of /proc serves as a pidfd too.
	path, e := w.name(fd)
	if e != 0 {
		return 0, false
	}
	n, err := strconv.Atoi(strings.TrimPrefix(path, "/proc/"))
	return n, err == nil
}

// setpgid(pid, pgid). A member of a group can have all of it stopped, by reading
// a terminal that has another foreground group: tty_ioctl(4), setpgid(2).
func sysSetpgid(w *worker, a *[6]uint64) answer {
	pid, pgid := int(int32(a[0])), int(int32(a[1]))
	if pid == 0 {
		pid = w.process()
	}
	if w.own() || pgid <= 0 || pgid == pid {
		return proceed
	}
	if r := w.onGroup(pgid, "joining"); !r.cont && r.err != unix.ESRCH {
		return r
	}
	return proceed
}

// setForeground answers ioctl(TIOCSPGRP), which acts on the caller's own
// controlling terminal and no other: the descriptor may be replaced meanwhile,
// the terminal can't become this process's. That one is the caller's of dshx,
// and so are its keys.
func (w *worker) setForeground() answer {
	mine, ok := controllingTerminal("self")
	if !ok {
		return failed(unix.ENOTTY)
	}
	its, ok := controllingTerminal(strconv.Itoa(w.process()))
	if !w.valid() {
		return failed(unix.ESRCH)
	}
	if w.own() || ok && its != 0 && its != mine {
		return proceed
	}
	if its == 0 {
		return failed(unix.ENOTTY)
	}
	return w.deny(sandboxpolicy.OpSignal, "foreground process group of the terminal", "",
		sandboxpolicy.Verdict{Rule: otherProcess.Rule, Remedy: "give the command a terminal of its own: --tty always"}, unix.EPERM)
}

// controllingTerminal is the device number in /proc/PID/stat, 0 for none.
func controllingTerminal(pid string) (int, bool) {
	b, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return 0, false
	}
	n := statField(b, 7) // tty_nr
	return n, n >= 0
}

// setpriority(which, who, prio), ioprio_set(which, who, prio): the filter hands
// over what is about one process, and refuses groups and users.
func sysSetpriority(w *worker, a *[6]uint64) answer {
	return w.onOne(int32(a[0]) == unix.PRIO_PROCESS, int(int32(a[1])))
}

func sysIoprioSet(w *worker, a *[6]uint64) answer {
	const process = 1 // IOPRIO_WHO_PROCESS, linux/ioprio.h
	return w.onOne(int32(a[0]) == process, int(int32(a[1])))
}

func (w *worker) onOne(one bool, pid int) answer {
	if !one {
		return failed(unix.EPERM)
	}
	return w.onProcess(pid, "scheduling")
}

// sched_setaffinity, sched_setattr, sched_setparam, sched_setscheduler and
// prlimit64: the process is the first argument.
func sysSched(w *worker, a *[6]uint64) answer {
	return w.onProcess(int(int32(a[0])), "scheduling")
}

func sysPrlimit(w *worker, a *[6]uint64) answer {
	if uint32(a[1]) == unix.RLIMIT_RTTIME && a[2] != 0 {
		return failed(unix.EPERM) // it marks whose process this is
	}
	return w.onProcess(int(int32(a[0])), "limits")
}

// Calls that the filter refuses by way of us, so that they are recorded.

// familyNames are those that programs ask for; the rest are numbers.
var familyNames = [...]string{
	unix.AF_UNIX: "AF_UNIX", unix.AF_INET: "AF_INET", unix.AF_INET6: "AF_INET6", unix.AF_NETLINK: "AF_NETLINK",
	unix.AF_PACKET: "AF_PACKET", unix.AF_ALG: "AF_ALG", unix.AF_VSOCK: "AF_VSOCK", unix.AF_BLUETOOTH: "AF_BLUETOOTH",
	unix.AF_CAN: "AF_CAN", unix.AF_TIPC: "AF_TIPC", unix.AF_XDP: "AF_XDP", unix.AF_QIPCRTR: "AF_QIPCRTR", unix.AF_KEY: "AF_KEY",
}

var typeNames = [...]string{
	unix.SOCK_STREAM: "SOCK_STREAM", unix.SOCK_DGRAM: "SOCK_DGRAM", unix.SOCK_RAW: "SOCK_RAW",
	unix.SOCK_SEQPACKET: "SOCK_SEQPACKET", unix.SOCK_RDM: "SOCK_RDM", unix.SOCK_PACKET: "SOCK_PACKET",
}

// named is the i-th name, or what and the number.
func named(names []string, i int, what string) string {
	if i >= 0 && i < len(names) && names[i] != "" {
		return names[i]
	}
	return what + " " + strconv.Itoa(i)
}

// socket(family, type, protocol), socketpair(family, type, protocol, fds)
func sysSocket(w *worker, a *[6]uint64) answer { return refuseSocket(w, a, "socket ") }

func sysSocketpair(w *worker, a *[6]uint64) answer { return refuseSocket(w, a, "socketpair ") }

func refuseSocket(w *worker, a *[6]uint64, call string) answer {
	const typeMask = 0xf // SOCK_TYPE_MASK, linux/net.h
	family, typ := int(int32(a[0])), int(int32(a[1]))&typeMask
	names := [2]string{named(familyNames[:], family, "family"), named(typeNames[:], typ, "type")}
	judged := map[int]string{unix.AF_INET: "inet", unix.AF_INET6: "inet6", unix.AF_NETLINK: "netlink"}[family]
	addr := ""
	switch judged {
	case "":
		judged = names[0]
	case "netlink":
		addr = "protocol " + strconv.Itoa(int(int32(a[2])))
	}
	// The filter has decided; the Judge gives the reason.
	v := w.s.o.Judge.VerdictNet(sandboxpolicy.OpConnect, judged, addr)
	if v.Allow {
		v = sandboxpolicy.Verdict{Rule: sandboxpolicy.Rule{Text: "sockets of other kinds", Origin: "preset"},
			Remedy: "use a stream or datagram socket of the default protocol"}
	}
	return w.deny(sandboxpolicy.OpConnect, call+names[0]+" "+names[1], "", v, unix.EACCES)
}

var cloneFlags = []struct {
	bit  uint64
	name string
}{
	{unix.CLONE_NEWUSER, "CLONE_NEWUSER"}, {unix.CLONE_NEWNS, "CLONE_NEWNS"}, {unix.CLONE_NEWPID, "CLONE_NEWPID"},
	{unix.CLONE_NEWNET, "CLONE_NEWNET"}, {unix.CLONE_NEWIPC, "CLONE_NEWIPC"}, {unix.CLONE_NEWUTS, "CLONE_NEWUTS"},
	{unix.CLONE_NEWCGROUP, "CLONE_NEWCGROUP"},
}

func refuseNamespaces(w *worker, call string, flags uint64) answer {
	var names []string
	for _, f := range cloneFlags {
		if flags&f.bit != 0 {
			names = append(names, f.name)
		}
	}
	if len(names) == 0 {
		names = []string{fmt.Sprintf("%#x", flags)}
	}
	return w.refuse(sandboxpolicy.OpKernel, call+"("+strings.Join(names, "|")+")", noNamespaces, unix.EPERM)
}

const (
	noNamespaces = "not possible inside: new namespaces would widen what the command can do; run the program without its own sandbox"
	noMounts     = "not possible inside: mounts and roots stay as they are"
)

func sysUnshare(w *worker, a *[6]uint64) answer { return refuseNamespaces(w, "unshare", a[0]) }
func sysClone(w *worker, a *[6]uint64) answer   { return refuseNamespaces(w, "clone", a[0]) }
func sysSetns(w *worker, a *[6]uint64) answer {
	return refuseNamespaces(w, "setns", uint64(uint32(a[1])))
}

// refusePath names the path argument i in the record.
func refusePath(call string, i int) handler {
	return func(w *worker, a *[6]uint64) answer {
		target := call
		if p, e := w.readPath(a[i]); e == 0 {
			target += "(" + string(p[:len(p)-1]) + ")"
		}
		if !w.valid() {
			return failed(unix.ESRCH)
		}
		return w.refuse(sandboxpolicy.OpMount, target, noMounts, unix.EPERM)
	}
}
