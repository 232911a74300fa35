// Package proctree finds the processes of a command.
//
// Each command's processes carry a mark that they inherit and can't change: a
// value of RLIMIT_RTTIME, a limit that means nothing to processes without
// real-time scheduling. It can be lowered but not raised, and the filter of
// package seccomp refuses to touch it. Leaving the session, the process group,
// the parent or the environment doesn't shed it.
package proctree

import (
	"context"
	"encoding/binary"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const rlimitRTTime = 15

// Mask covers the bits that all marks of one Marker share.
const Mask = uint64(0xffffffff) << 32

// Marker gives out marks: 30 random bits that are this marker's own, then a
// number.
type Marker struct {
	base uint64
	next uint32
}

// NewMarker returns a marker, or nil where this process is itself marked or
// otherwise bounded, so that no mark of its own would hold.
func NewMarker() *Marker {
	var lim unix.Rlimit
	if unix.Prlimit(0, rlimitRTTime, nil, &lim) != nil || lim.Max != unix.RLIM_INFINITY {
		return nil
	}
	var b [4]byte
	Random(b[:])
	// The top bit stays clear: RLIM_INFINITY is all ones. The next one is
	// set, so that no limit that means something looks like a mark.
	return &Marker{base: uint64(binary.NativeEndian.Uint32(b[:])&0x3fffffff|0x40000000) << 32}
}

// Base is what the marks have in the bits of Mask; 0 for a nil marker.
func (m *Marker) Base() uint64 {
	if m == nil {
		return 0
	}
	return m.base
}

// Next returns a mark not given out before; 0 for a nil marker. Not safe for
// concurrent use.
func (m *Marker) Next() uint64 {
	if m == nil {
		return 0
	}
	m.next++
	return m.base | uint64(m.next)
}

// MarkOf returns the mark of a process, 0 when it has none or is gone.
func MarkOf(pid int) uint64 {
	var lim unix.Rlimit
	if unix.Prlimit(pid, rlimitRTTime, nil, &lim) != nil || lim.Max == unix.RLIM_INFINITY {
		return 0
	}
	return lim.Max
}

// Find returns the live processes whose mark has want in the bits of mask,
// without this process itself. Zombies don't count.
func Find(want, mask uint64) []int {
	if want == 0 {
		return nil
	}
	self := os.Getpid()
	var out []int
	each(func(pid int) {
		if pid != self && MarkOf(pid)&mask == want && !zombie(pid) {
			out = append(out, pid)
		}
	})
	return out
}

// Descendants returns the live processes below root, by their parents at this
// moment: what a process that left its session and lost its parent to a
// subreaper still has.
func Descendants(root int) []int {
	parents := map[int]int{}
	each(func(pid int) {
		if ppid, z, ok := stat(pid); ok && !z {
			parents[pid] = ppid
		}
	})
	var out []int
	for pid := range parents {
		for at, steps := pid, 0; steps < 10000; steps++ {
			up, ok := parents[at]
			if !ok || up == at {
				break
			}
			if up == root {
				out = append(out, pid)
				break
			}
			at = up
		}
	}
	return out
}

// Group returns the live processes that can be told to belong together without a
// mark: those of the session sid (0: of none), root (0: nobody), and all below
// these, as long as their parents live. What left the session and lost its
// parents is not found.
//
// The number of a session is nobody else's as long as it has a process. Only
// processes with this one's own mark count: in a dshx inside of another one all
// have the outer one's.
func Group(root, sid int) []int {
	type process struct{ ppid, sid int }
	all := map[int]process{}
	each(func(pid int) {
		if f, ok := fields(pid); ok && !f.ended {
			all[pid] = process{f.ppid, f.sid}
		}
	})
	own, self := MarkOf(0), os.Getpid()
	var out []int
	for pid := range all {
		for at, steps := pid, 0; steps < 10000; steps++ {
			p, ok := all[at]
			if !ok || at == self {
				break
			}
			if at == root || sid != 0 && p.sid == sid {
				if MarkOf(pid) == own {
					out = append(out, pid)
				}
				break
			}
			at = p.ppid
		}
	}
	slices.Sort(out)
	return out
}

// Signal sends sig to pid if it still carries the mark (any process for mark
// 0). The pidfd keeps the number from meaning another process between the two.
func Signal(pid int, mark, mask uint64, sig unix.Signal) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if err == unix.ENOSYS || err == unix.EPERM || err == unix.EMFILE || err == unix.ENFILE {
		if mark != 0 && MarkOf(pid)&mask != mark {
			return unix.ESRCH
		}
		return unix.Kill(pid, sig)
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if mark != 0 && MarkOf(pid)&mask != mark {
		return unix.ESRCH
	}
	return unix.PidfdSendSignal(fd, sig, nil, 0)
}

// SignalAll sends sig to every process whose mark has want in the bits of mask,
// but this one, each as soon as it is found: what forks has less time for it.
func SignalAll(want, mask uint64, sig unix.Signal) {
	if want == 0 {
		return
	}
	self := os.Getpid()
	each(func(pid int) {
		if pid != self && MarkOf(pid)&mask == want {
			_ = Signal(pid, want, mask, sig)
		}
	})
}

// AwaitExit returns nil when the process pid, if it carries the mark (any process
// for mark 0), has ended, whoever is its parent and whether its status was taken
// or not. When ctx is done before, it returns its cause.
//
// It holds no thread while it waits. Where there are no pidfds it looks now and
// then, and may return early: the caller has to look, too.
func AwaitExit(ctx context.Context, pid int, mark, mask uint64) error {
	if fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK); err == nil {
		f := os.NewFile(uintptr(fd), "pidfd")
		defer f.Close()
		if mark != 0 && MarkOf(pid)&mask != mark {
			return nil
		}
		if conn, err := f.SyscallConn(); err == nil && f.SetReadDeadline(time.Time{}) == nil {
			defer context.AfterFunc(ctx, func() { _ = f.SetReadDeadline(time.Unix(1, 0)) })()
			// A pidfd can be read when its process has ended: pidfd_open(2).
			_ = conn.Read(func(fd uintptr) bool {
				n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
				return n > 0 || err != nil && err != unix.EINTR
			})
			return context.Cause(ctx)
		}
	} else if err == unix.ESRCH {
		return nil
	}
	select {
	case <-time.After(20 * time.Millisecond):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Reap takes the statuses of this process's children that have ended and carry
// the mark, but for the process except.
func Reap(mark uint64, except int) {
	if mark == 0 {
		return
	}
	self := os.Getpid()
	each(func(pid int) {
		if pid == self || pid == except || MarkOf(pid) != mark {
			return
		}
		if ppid, ended, ok := stat(pid); ok && ended && ppid == self {
			_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil)
		}
	})
}

// mostPids is PID_MAX_LIMIT, linux/threads.h.
const mostPids = 1 << 22

func each(f func(pid int)) {
	dir, err := os.Open("/proc")
	if err != nil {
		// No descriptor is left: a command can bring that about, and must not
		// become invisible by it. Asking for every number takes a second.
		for pid := 2; pid <= mostPids; pid++ {
			f(pid)
		}
		return
	}
	defer dir.Close()
	for {
		names, err := dir.Readdirnames(512)
		for _, n := range names {
			if n[0] < '0' || n[0] > '9' {
				continue
			}
			if pid, err := strconv.Atoi(n); err == nil && pid > 1 {
				f(pid)
			}
		}
		if err != nil {
			return
		}
	}
}

// zombie reports a process that has ended. One that can't be looked at for
// want of a descriptor is taken for alive.
func zombie(pid int) bool {
	_, z, ok := stat(pid)
	if !ok {
		return !unreadable(pid)
	}
	return z
}

func unreadable(pid int) bool {
	fd, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/stat", unix.O_PATH|unix.O_CLOEXEC, 0)
	if err == nil {
		_ = unix.Close(fd)
	}
	return err == unix.EMFILE || err == unix.ENFILE
}

// stat reads the parent and whether the process has ended.
func stat(pid int) (ppid int, ended, ok bool) {
	f, ok := fields(pid)
	return f.ppid, f.ended, ok
}

type status struct {
	ppid, sid int
	ended     bool
	stopped   bool // by a signal or a tracer
}

// fields reads proc_pid_stat(5): the name in parentheses may hold anything.
func fields(pid int) (st status, ok bool) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return status{}, false
	}
	s := string(b)
	i := strings.LastIndexByte(s, ')')
	if i < 0 || i+4 > len(s) {
		return status{}, false
	}
	f := strings.Fields(s[i+1:])
	if len(f) < 18 {
		return status{}, false
	}
	ppid, err := strconv.Atoi(f[1])
	sid, err2 := strconv.Atoi(f[3])
	// A process whose first thread has ended looks like a zombie, too, while
	// its other threads go on: field 20 counts them.
	ended := (f[0] == "Z" || f[0] == "X") && (f[17] == "0" || f[17] == "1")
	return status{ppid, sid, ended, f[0] == "T" || f[0] == "t"}, err == nil && err2 == nil
}

// Stopped reports a process that a signal or a tracer has stopped.
func Stopped(pid int) bool {
	f, ok := fields(pid)
	return ok && f.stopped
}

// Parent returns the parent of a process, 0 when it can't be found.
func Parent(pid int) int {
	ppid, _, ok := stat(pid)
	if !ok {
		return 0
	}
	return ppid
}

// NoneAfter reports that no process with a number above pid, which was given out
// after since, has the mark: the descendants of pid have such numbers as long
// as the numbers don't begin again. It asks for each number, which is far
// cheaper than reading /proc; known is false where it can't tell that way.
func NoneAfter(pid int, mark uint64, since time.Time) (none, known bool) {
	const most = 10000
	for at := pid + 1; ; {
		last, ok := lastPid()
		if !ok || mark == 0 || last < at-1 || last-at > most {
			return false, false
		}
		if last < at { // nothing was started meanwhile
			known = time.Since(since) < comesRound(pidMax(), runtime.NumCPU())
			return known, known
		}
		for ; at <= last; at++ {
			if MarkOf(at) == mark && !zombie(at) {
				return false, true
			}
		}
	}
}

// comesRound is the time in which processors can't have given out all numbers up
// to pid_max, which begin at 300 again (RESERVED_PIDS, kernel/pid.c).
func comesRound(pidMax, processors int) time.Duration {
	const least = time.Microsecond // for a number: a thread that ends at once took 12 µs (Linux 6.18)
	return time.Duration(max(pidMax-300, 0)) * least / time.Duration(processors)
}

// pidMax is sysctl kernel.pid_max, which can be a PID namespace's own and as low
// as 301 (proc_sys_kernel(5)); 0 where it isn't known.
func pidMax() int {
	n, _ := strconv.Atoi(strings.TrimSpace(readSmall("/proc/sys/kernel/pid_max")))
	return n
}

// readSmall returns the first bytes of a file of /proc, "" if it can't be read.
func readSmall(path string) string {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return ""
	}
	defer unix.Close(fd)
	var b [128]byte
	n, err := unix.Read(fd, b[:])
	if err != nil {
		return ""
	}
	return string(b[:n])
}

// lastPid is the number that was given out last in this process's PID
// namespace: the last field of proc_loadavg(5).
func lastPid() (int, bool) {
	f := strings.Fields(readSmall("/proc/loadavg"))
	if len(f) != 5 {
		return 0, false
	}
	pid, err := strconv.Atoi(f[4])
	return pid, err == nil
}
