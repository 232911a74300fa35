package main

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Attacks by somebody who has read dshx's sources.

func init() {
	// every-task PID: whatever can be done to the threads of a process and to
	// its other children (dshx's guard and monitor). The detail lists what worked.
	register("every-task", func(a []string) (string, error) {
		var hit []string
		for _, tid := range tasksAround(atoi(a[0])) {
			for name, f := range hostile {
				if err := f(tid); err == nil {
					hit = append(hit, fmt.Sprint(name, " ", tid))
				}
			}
		}
		return strings.Join(hit, ", "), nil
	})
	// shed-mark: whatever could change the limit that marks a command's processes.
	register("shed-mark", func([]string) (string, error) {
		const rttime = 15
		limits := func(pid int) string {
			b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/limits", pid))
			_, after, _ := bytes.Cut(b, []byte("Max realtime timeout"))
			line, _, _ := bytes.Cut(after, []byte("\n"))
			return string(line)
		}
		child := exec.Command("/proc/self/exe", "wait-stdin")
		in, err := child.StdinPipe()
		if err != nil {
			return "", err
		}
		if err := child.Start(); err != nil {
			return "", err
		}
		defer child.Wait()
		defer in.Close()
		pid := child.Process.Pid
		self, other := limits(os.Getpid()), limits(pid)
		var hit []string
		var before unix.Rlimit
		unix.Prlimit(0, rttime, nil, &before)
		for _, want := range []unix.Rlimit{{Cur: 1 << 20, Max: 1 << 20}, {Cur: ^uint64(0), Max: ^uint64(0)}, before, {Cur: 0, Max: before.Max}} {
			for _, resource := range []uintptr{rttime, rttime | 1<<32, rttime | 0xdead<<32} {
				for _, who := range []uintptr{0, uintptr(os.Getpid()), uintptr(pid), 1 << 32} {
					if _, _, e := unix.Syscall6(unix.SYS_PRLIMIT64, who, resource, uintptr(unsafe.Pointer(&want)), 0, 0, 0); e == 0 {
						hit = append(hit, fmt.Sprintf("prlimit64(%d, %#x, %v)", who, resource, want))
					}
				}
				if _, _, e := unix.Syscall(unix.SYS_SETRLIMIT, resource, uintptr(unsafe.Pointer(&want)), 0); e == 0 {
					hit = append(hit, fmt.Sprintf("setrlimit(%#x, %v)", resource, want))
				}
			}
		}
		if limits(os.Getpid()) != self || limits(pid) != other {
			hit = append(hit, "a mark changed")
		}
		return strings.Join(hit, ", "), nil
	})
	register("openat-path", func(a []string) (detail string, err error) { // openat-path DIR NAME: through an O_PATH descriptor
		err = with(a[0], unix.O_PATH|unix.O_DIRECTORY, func(dir int) error {
			fd, err := unix.Openat(dir, a[1], unix.O_RDONLY|unix.O_CLOEXEC, 0)
			if err != nil {
				return err
			}
			defer unix.Close(fd)
			buf := make([]byte, 200)
			n, err := unix.Read(fd, buf)
			detail = string(buf[:max(n, 0)])
			return err
		})
		return detail, err
	})
	register("fchmodat-fd", func(a []string) (string, error) { return "", unix.Fchmodat(atoi(a[0]), a[1], 0o777, 0) })
	register("utimensat-fd", func(a []string) (string, error) { return "", unix.UtimesNanoAt(atoi(a[0]), a[1], stamp, 0) })
	register("linkat-fd", func(a []string) (string, error) {
		return "", unix.Linkat(atoi(a[0]), a[1], unix.AT_FDCWD, a[2], 0)
	})
	register("unlinkat-fd", func(a []string) (string, error) { return "", unix.Unlinkat(atoi(a[0]), a[1], 0) })
	register("reopen-r-fd", func(a []string) (string, error) {
		fd, err := unix.Open("/proc/self/fd/"+a[0], unix.O_RDONLY|unix.O_NONBLOCK, 0)
		if err == nil {
			unix.Close(fd)
		}
		return "", err
	})

	// A name with a line end and what looks like the line of another socket.
	register("unix-bind-line", func(a []string) (string, error) {
		name := a[1] + "\n0000000000000000: 00000002 00000000 00010000 0001 01 12345 @another"
		return "", unixSocket(a[0], func(fd int) error { return unix.Bind(fd, &unix.SockaddrUnix{Name: name}) })
	})

	registerProgram("deepdir", deepdir)
	registerProgram("wait-stdin", func([]string) int { unix.Read(0, make([]byte, 1)); return 0 })
	registerProgram("survivor", survivor)
	registerProgram("jam", jam)
	registerProgram("sysfuzz", sysfuzz)
	registerProgram("flipdir", flipdir)
	registerProgram("flipbind", flipbind)
}

// tasksAround lists the threads of a process and its children but for this one.
func tasksAround(pid int) (tids []int) {
	dirs, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/[0-9]*", pid))
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, s := range stats {
		b, _ := os.ReadFile(s)
		f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
		if len(f) > 2 && f[1] == strconv.Itoa(pid) && !strings.Contains(s, fmt.Sprintf("/%d/", os.Getpid())) {
			dirs = append(dirs, filepath.Dir(s))
		}
	}
	for _, d := range dirs {
		tids = append(tids, atoi(filepath.Base(d)))
	}
	return tids
}

var hostile = map[string]func(tid int) error{
	"kill":   func(t int) error { return unix.Kill(t, unix.SIGSTOP) },
	"tkill":  func(t int) error { _, _, e := unix.Syscall(unix.SYS_TKILL, uintptr(t), 9, 0); return errno(e) },
	"tgkill": func(t int) error { return unix.Tgkill(os.Getppid(), t, unix.SIGSEGV) },
	"tgkill-self": func(t int) error {
		return unix.Tgkill(t, t, unix.SIGKILL)
	},
	"sigqueue": func(t int) error {
		info := siginfo(9)
		_, _, e := unix.Syscall6(unix.SYS_RT_TGSIGQUEUEINFO, uintptr(os.Getppid()), uintptr(t), 9, uintptr(unsafe.Pointer(&info[0])), 0, 0)
		return errno(e)
	},
	"pidfd": func(t int) error {
		fd, err := unix.PidfdOpen(t, unix.O_EXCL) // PIDFD_THREAD
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	},
	"pidfd-group": func(t int) error {
		fd, err := unix.PidfdOpen(t, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 2) // PIDFD_SIGNAL_THREAD_GROUP
	},
	"procfd": func(t int) error {
		return with(fmt.Sprintf("/proc/%d", t), unix.O_DIRECTORY, func(fd int) error {
			return unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
		})
	},
	"getfd": func(t int) error {
		fd, err := unix.PidfdOpen(t, unix.O_EXCL)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		for n := range 30 {
			if got, err := unix.PidfdGetfd(fd, n, 0); err == nil {
				unix.Close(got)
				return nil
			}
		}
		return unix.EPERM
	},
	"seize": func(t int) error { return unix.PtraceSeize(t) },
	"mem": func(t int) error {
		return with(fmt.Sprintf("/proc/%d/mem", t), unix.O_RDWR, func(int) error { return nil })
	},
	"fd-link": func(t int) error {
		_, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/0", t))
		return err
	},
	"cwd":     func(t int) error { _, err := os.ReadDir(fmt.Sprintf("/proc/%d/cwd/", t)); return err },
	"environ": func(t int) error { _, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", t)); return err },
	"auxv":    func(t int) error { _, err := os.ReadFile(fmt.Sprintf("/proc/%d/auxv", t)); return err },
	"syscall": func(t int) error { _, err := os.ReadFile(fmt.Sprintf("/proc/%d/syscall", t)); return err },
	"kcmp": func(t int) error {
		_, _, e := unix.Syscall6(unix.SYS_KCMP, uintptr(os.Getpid()), uintptr(t), 0, 0, 0, 0)
		return errno(e)
	},
	"robust-list": func(t int) error {
		var p, n uintptr
		_, _, e := unix.Syscall(unix.SYS_GET_ROBUST_LIST, uintptr(t), uintptr(unsafe.Pointer(&p)), uintptr(unsafe.Pointer(&n)))
		return errno(e)
	},
	"migrate-pages": func(t int) error {
		mask := uint64(1)
		_, _, e := unix.Syscall6(unix.SYS_MIGRATE_PAGES, uintptr(t), 64, uintptr(unsafe.Pointer(&mask)), uintptr(unsafe.Pointer(&mask)), 0, 0)
		return errno(e)
	},
	"madvise": func(t int) error {
		fd, err := unix.PidfdOpen(t, unix.O_EXCL)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		iov := [2]uint64{0x400000, 4096}
		_, _, e := unix.Syscall6(unix.SYS_PROCESS_MADVISE, uintptr(fd), uintptr(unsafe.Pointer(&iov[0])), 1, unix.MADV_COLD, 0, 0)
		return errno(e)
	},
	"priority": func(t int) error { return unix.Setpriority(unix.PRIO_PROCESS, t, 19) },
	"affinity": func(t int) error {
		var set unix.CPUSet
		set.Set(0)
		return unix.SchedSetaffinity(t, &set)
	},
	"scheduler": func(t int) error {
		param := int32(0)
		_, _, e := unix.Syscall(unix.SYS_SCHED_SETSCHEDULER, uintptr(t), 5, uintptr(unsafe.Pointer(&param))) // SCHED_IDLE
		return errno(e)
	},
	"io-priority": func(t int) error {
		_, _, e := unix.Syscall(unix.SYS_IOPRIO_SET, 1, uintptr(t), 3<<13)
		return errno(e)
	},
	"limits": func(t int) error {
		lim := unix.Rlimit{Cur: 1, Max: 1}
		return unix.Prlimit(t, unix.RLIMIT_NOFILE, &lim, nil)
	},
	"core-sched": func(t int) error { return unix.Prctl(62, 2, uintptr(t), 0, 0) }, // PR_SCHED_CORE, SHARE_TO
	"oom-score": func(t int) error {
		return os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", t), []byte("1000"), 0)
	},
	"comm": func(t int) error { return os.WriteFile(fmt.Sprintf("/proc/%d/comm", t), []byte("x"), 0) },
}

// survivor FILE KIND...: processes that want to outlive dshx. Each writes a
// line with its number to FILE.
func survivor(a []string) int {
	file := a[0]
	if len(a) == 3 && a[2] == "now" {
		return survive(file, a[1])
	}
	// Should they succeed, they end all the same some day.
	until := fmt.Sprint(":", time.Now().Add(time.Minute).Unix())
	for _, kind := range a[1:] {
		cmd := exec.Command("/proc/self/exe", "survivor", file, kind+until, "now")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := cmd.Start(); err != nil {
			return fatal(err)
		}
	}
	for range 400 { // until all have said so
		if b, _ := os.ReadFile(file); bytes.Count(b, []byte("\n")) >= len(a)-1 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	return 0
}

func survive(file, kind string) int {
	runtime.LockOSThread()
	for s := syscall.Signal(1); s < 65; s++ {
		signal.Ignore(s)
	}
	unix.Prctl(unix.PR_SET_PDEATHSIG, 0, 0, 0, 0)
	kind, until, _ := strings.Cut(kind, ":")
	end := time.Unix(int64(atoi(until)), 0)
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		return fatal(err)
	}
	fmt.Fprintln(f, os.Getpid())
	f.Close()
	another := func(kind string, attr syscall.SysProcAttr) {
		cmd := exec.Command("/proc/self/exe", "survivor", "/dev/null", kind+":"+until, "now")
		cmd.SysProcAttr = &attr
		cmd.Start()
	}
	switch kind {
	case "leader": // its first thread ends, another goes on
		go func() {
			runtime.LockOSThread()
			time.Sleep(time.Until(end))
			os.Exit(0)
		}()
		time.Sleep(10 * time.Millisecond)
		if unix.Gettid() == os.Getpid() {
			unix.RawSyscall(unix.SYS_EXIT, 0, 0, 0)
		}
	case "stopped":
		unix.Kill(os.Getpid(), unix.SIGSTOP)
	case "reaper":
		unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
		another("plain", syscall.SysProcAttr{})
	case "traced":
		another("plain", syscall.SysProcAttr{Ptrace: true})
	case "chain": // always somebody else: forks and ends
		time.Sleep(2 * time.Millisecond)
		if time.Now().Before(end) {
			another(kind, syscall.SysProcAttr{Setsid: true})
		}
		return 0
	}
	time.Sleep(time.Until(end))
	return 0
}

// jam KIND: calls that never end, to hold the supervisor up.
func jam(a []string) int {
	dir, err := os.MkdirTemp(os.Getenv("TMPDIR"), "jam")
	if err != nil {
		return fatal(err)
	}
	var wg sync.WaitGroup
	many := func(n int, f func()) {
		for range n {
			wg.Add(1)
			go func() { defer wg.Done(); runtime.LockOSThread(); f() }()
		}
	}
	switch a[0] {
	case "backlog": // blocking connects to a queue that is full
		name := &unix.SockaddrUnix{Name: dir + "/s"}
		ln, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		if err == nil {
			if err = unix.Bind(ln, name); err == nil {
				err = unix.Listen(ln, 0)
			}
		}
		if err != nil {
			return fatal(err)
		}
		many(400, func() {
			fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
			if err == nil {
				unix.Connect(fd, name)
			}
		})
	case "send": // stream and datagram sends that nobody receives
		many(150, func() {
			fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
			if err != nil {
				return
			}
			big := make([]byte, 4<<20)
			unix.SendmsgBuffers(fds[0], [][]byte{big, big, big, big}, nil, nil, 0)
		})
		many(150, func() {
			fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
			if err != nil {
				return
			}
			for {
				if unix.Sendmsg(fds[0], make([]byte, 60000), nil, nil, 0) != nil {
					return
				}
			}
		})
	case "fifo": // names that block who opens them
		fifo := dir + "/fifo"
		if err := unix.Mkfifo(fifo, 0o600); err != nil {
			return fatal(err)
		}
		many(50, func() {
			unix.Chmod(fifo, 0o644)
			unix.UtimesNanoAt(unix.AT_FDCWD, fifo, stamp, 0)
			unix.Setxattr(fifo, xattrName, []byte("x"), 0)
			unix.Connect(0, &unix.SockaddrUnix{Name: fifo})
			for i := 3; i < 20; i++ {
				unix.Fchmod(i, 0o600)
			}
		})
		wg.Wait()
		fmt.Println("jammed")
		return 0
	case "hidden": // its memory can't be read
		unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
		many(20, func() {
			for range 50 {
				unix.Chmod(dir, 0o700)
				fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
				if err == nil {
					unix.Connect(fd, &unix.SockaddrUnix{Name: dir + "/none"})
					unix.Close(fd)
				}
			}
		})
		wg.Wait()
		fmt.Println("jammed")
		return 0
	case "killed": // callers that die in the middle
		for range 60 {
			cmd := exec.Command("/proc/self/exe", "jam", "backlog")
			if err := cmd.Start(); err != nil {
				return fatal(err)
			}
			time.Sleep(time.Duration(rand.IntN(10)) * time.Millisecond)
			cmd.Process.Kill()
			cmd.Wait()
		}
		fmt.Println("jammed")
		return 0
	}
	time.Sleep(300 * time.Millisecond)
	// With all of this waiting, another call is still answered, or at least
	// nothing but this command waits.
	fmt.Println("jammed")
	wg.Wait()
	return 0
}

// sysfuzz COUNT SEED: the supervised calls with arguments of all kinds.
func sysfuzz(a []string) int {
	rnd := rand.New(rand.NewPCG(uint64(atoi(a[1])), 1))
	calls := []uintptr{unix.SYS_CONNECT, unix.SYS_BIND, unix.SYS_SENDTO, unix.SYS_SENDMSG, unix.SYS_SENDMMSG, unix.SYS_FCHMOD, unix.SYS_FCHMODAT,
		sysFchmodat2, unix.SYS_FCHOWN, unix.SYS_FCHOWNAT, unix.SYS_UTIMENSAT, unix.SYS_SETXATTR, unix.SYS_LSETXATTR, unix.SYS_FSETXATTR,
		sysSetxattrat, unix.SYS_REMOVEXATTR, unix.SYS_LREMOVEXATTR, unix.SYS_FREMOVEXATTR, sysRemovexattrat, sysFileSetattr, unix.SYS_IOCTL,
		unix.SYS_SOCKET, unix.SYS_SOCKETPAIR, unix.SYS_UNSHARE, unix.SYS_SETNS, unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_CHROOT,
		unix.SYS_SETPRIORITY, unix.SYS_SCHED_SETAFFINITY, unix.SYS_PRLIMIT64}
	mem := make([]byte, 1<<16)
	paths := []string{"/", ".", "..", "/proc/self", "/proc/self/fd/0", "/proc/thread-self/cwd", "/etc/passwd", "/dev/null", "x/../..", strings.Repeat("a/", 2000), "\xff"}
	paths = append(paths, a[2:]...)
	fds := []int{-1, unix.AT_FDCWD, 0, 1, 2}
	for _, typ := range []int{unix.SOCK_STREAM, unix.SOCK_DGRAM, unix.SOCK_SEQPACKET} {
		if p, err := unix.Socketpair(unix.AF_UNIX, typ|unix.SOCK_NONBLOCK, 0); err == nil {
			fds = append(fds, p[0], p[1])
		}
		if s, err := unix.Socket(unix.AF_UNIX, typ|unix.SOCK_NONBLOCK, 0); err == nil {
			fds = append(fds, s)
		}
	}
	for _, p := range []string{"/", "/etc", "/etc/passwd", "/proc/self"} {
		if fd, err := unix.Open(p, unix.O_PATH, 0); err == nil {
			fds = append(fds, fd)
		}
	}
	base := uintptr(unsafe.Pointer(&mem[0]))
	value := func() uintptr {
		switch rnd.IntN(10) {
		case 0:
			return uintptr(rnd.Uint64())
		case 1:
			return uintptr(rnd.IntN(8))
		case 2:
			return ^uintptr(0)
		case 3:
			return 0
		case 4, 5:
			return uintptr(fds[rnd.IntN(len(fds))])
		case 6:
			at := rnd.IntN(len(mem) - 5000)
			copy(mem[at:], paths[rnd.IntN(len(paths))]+"\x00")
			return base + uintptr(at)
		case 7: // a pointer to pointers and sizes
			at := rnd.IntN(len(mem)-5000) &^ 7
			for i := range 16 {
				*(*uint64)(unsafe.Pointer(&mem[at+8*i])) = []uint64{0, 1, uint64(base) + uint64(rnd.IntN(len(mem))), 1 << 40, ^uint64(0), uint64(rnd.IntN(300)), 0x0000002000000001}[rnd.IntN(7)]
			}
			*(*uint16)(unsafe.Pointer(&mem[at])) = uint16([]int{unix.AF_UNIX, unix.AF_INET, 0, 0xffff}[rnd.IntN(4)])
			return base + uintptr(at)
		case 8: // the end of memory
			return base + uintptr(len(mem)) - uintptr(rnd.IntN(20))
		default:
			return uintptr(rnd.Uint32())
		}
	}
	for range atoi(a[0]) {
		nr := calls[rnd.IntN(len(calls))]
		args := [6]uintptr{value(), value(), value(), value(), value(), value()}
		if nr == unix.SYS_PRLIMIT64 || nr == unix.SYS_SCHED_SETAFFINITY || nr == unix.SYS_SETPRIORITY {
			args[0], args[1] = uintptr(rnd.IntN(2000)), uintptr(rnd.IntN(2000)) // not what this process needs itself
			if args[0] == 0 || args[0] == uintptr(os.Getpid()) {
				continue
			}
		}
		if nr == unix.SYS_IOCTL {
			args[1] = []uintptr{unix.FS_IOC_SETFLAGS, 0x401c5820, 0x40087602, unix.FS_IOC_SET_ENCRYPTION_POLICY, tiocsti, 0x8901}[rnd.IntN(6)]
		}
		if nr == unix.SYS_SENDTO || nr == unix.SYS_SENDMSG || nr == unix.SYS_SENDMMSG {
			args[3] |= unix.MSG_DONTWAIT | unix.MSG_NOSIGNAL
			if nr == unix.SYS_SENDMSG {
				args[2] |= unix.MSG_DONTWAIT | unix.MSG_NOSIGNAL
			}
		}
		unix.Syscall6(nr, args[0], args[1], args[2], args[3], args[4], args[5])
	}
	fmt.Println("done")
	return 0
}

// flipdir DIR TARGET COUNT: DIR/d is now a directory, now a link to TARGET,
// while calls by name go through it. On disk a name changes under the judge
// as in memory.
func flipdir(a []string) int {
	d, count := filepath.Join(a[0], "d"), atoi(a[2])
	real, link := d+".real", d+".link"
	os.Mkdir(d, 0o755)
	os.WriteFile(d+"/f", []byte("inner"), 0o600)
	os.Symlink(a[1], link)
	stop := make(chan struct{})
	go func() {
		runtime.LockOSThread()
		for {
			select {
			case <-stop:
				return
			default:
			}
			unix.Rename(d, real)
			unix.Rename(link, d)
			unix.Rename(d, link)
			unix.Rename(real, d)
		}
	}()
	runtime.LockOSThread()
	did := 0
	note := func(err error) {
		if err == nil {
			did++
		}
	}
	for i := range count {
		note(unix.Chmod(d+"/f", 0o777))
		note(unix.UtimesNanoAt(unix.AT_FDCWD, d+"/f", stamp, 0))
		note(unix.Setxattr(d+"/f", xattrName, []byte("x"), 0))
		note(unix.Fchownat(unix.AT_FDCWD, d+"/f", -1, ownGroup(), 0))
		for _, typ := range []int{unix.SOCK_STREAM, unix.SOCK_DGRAM} {
			fd, err := unix.Socket(unix.AF_UNIX, typ, 0)
			if err != nil {
				return fatal(err)
			}
			if i%2 == 0 {
				name := fmt.Sprintf("%s/s%d-%d", d, i, typ)
				note(unix.Bind(fd, &unix.SockaddrUnix{Name: name}))
			} else {
				unix.Connect(fd, &unix.SockaddrUnix{Name: d + "/host.sock"})
			}
			unix.Close(fd)
		}
		fd, err := unix.Open(d+"/new"+strconv.Itoa(i), unix.O_WRONLY|unix.O_CREAT, 0o644)
		note(err)
		if err == nil {
			unix.Close(fd)
		}
		unix.Unlink(d + "/f2")
		unix.Rename(d+"/keep", d+"/moved")
	}
	close(stop)
	fmt.Println("did", did)
	return 0
}

// flipbind LINK A B COUNT: makes sockets below LINK, which leads to A and to B in turn.
func flipbind(a []string) int {
	link, other, count := a[0], a[0]+".other", atoi(a[3])
	if err := errors.Join(os.Symlink(a[1], link), os.Symlink(a[2], other)); err != nil {
		return fatal(err)
	}
	stop := make(chan struct{})
	go func() {
		runtime.LockOSThread()
		for {
			select {
			case <-stop:
				return
			default:
				unix.Renameat2(unix.AT_FDCWD, link, unix.AT_FDCWD, other, unix.RENAME_EXCHANGE)
			}
		}
	}()
	did := 0
	for i := range count {
		err := unixSocket("stream", func(fd int) error {
			return unix.Bind(fd, &unix.SockaddrUnix{Name: fmt.Sprintf("%s/s%d", link, i)})
		})
		if err == nil {
			did++
		}
	}
	close(stop)
	fmt.Println("did", did)
	return 0
}

// deepdir DIR COUNT: directories in one another, each with a file and a
// directory that its owner has no right to.
func deepdir(a []string) int {
	at, err := unix.Open(a[0], unix.O_PATH, 0)
	for range atoi(a[1]) {
		if err == nil {
			err = unix.Mkdirat(at, "locked", 0)
		}
		if err == nil {
			err = unix.Mknodat(at, "f", unix.S_IFREG|0o400, 0)
		}
		if err == nil {
			err = unix.Mkdirat(at, "d", 0o700)
		}
		if err != nil {
			return fatal(err)
		}
		next, e := unix.Openat(at, "d", unix.O_PATH, 0)
		unix.Close(at)
		at, err = next, e
	}
	// The rights of some on the way, too.
	unix.Chmod(a[0]+"/d/d", 0)
	unix.Chmod(a[0]+"/d", 0o500)
	return 0
}
