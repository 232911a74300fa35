package supervise

import (
	"encoding/binary"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dshx/dshx/sandboxpolicy"
)

// socket is a duplicate of the caller's socket.
type socket struct {
	fd     int
	domain int
	typ    int
}

// stream says whether a send may be short: its bytes have no bounds.
func (s socket) stream() bool { return s.typ == unix.SOCK_STREAM }

func (s socket) nonblocking() bool {
	f, err := unix.FcntlInt(uintptr(s.fd), unix.F_GETFL, 0)
	return err != nil || f&unix.O_NONBLOCK != 0
}

const noGetfdRemedy = "the host forbids pidfd_getfd, without which sockets can't be supervised: allow it in the container's seccomp profile"

// socket duplicates the caller's descriptor, which must be a socket.
func (w *worker) socket(op sandboxpolicy.Op, fd int32) (s socket, e unix.Errno) {
	if s.fd, e = w.dup(fd); e != 0 {
		if e == errNoGetfd {
			e = w.refuse(op, describe(fd), noGetfdRemedy, unix.EACCES).err
		}
		return s, e
	}
	var err error
	if s.domain, err = unix.GetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_DOMAIN); err == nil {
		s.typ, err = unix.GetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_TYPE)
	}
	return s, errnoOf(err)
}

// readAddress copies a socket address, once.
func (w *worker) readAddress(addr uint64, size int32) ([]byte, unix.Errno) {
	if size < 0 || size > maxAddress {
		return nil, unix.EINVAL
	}
	b := make([]byte, size)
	return b, w.read(b, addr)
}

var hostSocket = sandboxpolicy.Verdict{
	Rule:   sandboxpolicy.Rule{Text: "sockets of the host", Origin: "preset"},
	Remedy: "not possible inside: only sockets that the command's own processes bound can be reached",
}

// permitAddress judges op to the address in raw and returns the address to use
// instead, which means what was judged whatever happens meanwhile. It's nil for
// an address that the kernel ignores.
func (w *worker) permitAddress(op sandboxpolicy.Op, s socket, raw []byte) ([]byte, unix.Errno) {
	a, e := parseAddress(s.domain, raw, op == sandboxpolicy.OpConnect)
	if e == unix.EAFNOSUPPORT && s.domain != unix.AF_INET && s.domain != unix.AF_INET6 {
		family := "family " + strconv.Itoa(s.domain)
		return nil, w.denyNet(op, family, family, w.s.o.Judge.VerdictNet(op, family, ""))
	}
	if e != 0 {
		return nil, e
	}
	w.plain(raw, a)
	switch a.kind {
	case addrNone:
		if op != sandboxpolicy.OpConnect {
			// A send of an IPv6 socket: udpv6_sendmsg sends to the peer then.
			raw = nil
		}
		return raw, w.stands()
	case addrAuto:
		return nil, unix.EINVAL
	case addrPath:
		return w.permitPath(op, a.name)
	case addrAbstract:
		if e := w.stands(); e != 0 {
			return nil, e
		}
		if w.s.bound.hasName(a.name) {
			return raw, 0
		}
		shown := shownName(a.name)
		return raw, w.denyNet(op, shown, shown, w.s.o.Judge.VerdictNet(op, "unix", shown))
	case addrNetlink:
		target := "netlink port " + strconv.FormatUint(uint64(a.port), 10)
		v := w.judgeNetlink(op, s)
		if v.Allow && (a.port != 0 || a.groups != 0) {
			// Another process, or all that listen.
			v = sandboxpolicy.Verdict{Rule: sandboxpolicy.Rule{Text: "netlink reaches the kernel only", Origin: "preset"}}
		}
		if e := w.stands(); e != 0 {
			return nil, e
		}
		return raw, w.denyNet(op, target, "", v)
	}
	target := a.inet.String()
	if e := w.stands(); e != 0 {
		return nil, e
	}
	return raw, w.denyNet(op, target, target, w.s.o.Judge.VerdictNet(op, a.family(), target))
}

// plain takes the flow and the interface out of an IPv6 address where only the
// loopback is allowed: a flow can have options, and neither is needed there.
func (w *worker) plain(raw []byte, a address) {
	if w.s.o.Network != sandboxpolicy.NetworkLoopback || a.kind != addrInet ||
		binary.NativeEndian.Uint16(raw) != unix.AF_INET6 {
		return
	}
	clear(raw[4:8]) // sin6_flowinfo
	if len(raw) >= unix.SizeofSockaddrInet6 {
		clear(raw[24:28]) // sin6_scope_id
	}
}

func (w *worker) judgeNetlink(op sandboxpolicy.Op, s socket) sandboxpolicy.Verdict {
	p, err := unix.GetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_PROTOCOL)
	name := "route"
	if err != nil || p != unix.NETLINK_ROUTE {
		name = "protocol " + strconv.Itoa(p)
	}
	return w.s.o.Judge.VerdictNet(op, "netlink", name)
}

// denyNet turns a verdict into an errno, and reports it when it denies.
func (w *worker) denyNet(op sandboxpolicy.Op, target, resolved string, v sandboxpolicy.Verdict) unix.Errno {
	if v.Allow {
		return 0
	}
	return w.deny(op, target, resolved, v, unix.EACCES).err
}

// stands is valid as an errno; nobody sees it.
func (w *worker) stands() unix.Errno {
	if !w.valid() {
		return unix.ESRCH
	}
	return 0
}

// permitPath judges a socket file and returns an address that is this file.
func (w *worker) permitPath(op sandboxpolicy.Op, path string) ([]byte, unix.Errno) {
	o, e := w.resolvePath(unix.AT_FDCWD, append(append(w.path[:0], path...), 0), true)
	if e != 0 {
		return nil, e
	}
	var st unix.Stat_t
	if e := errnoOf(unix.Fstat(o.fd, &st)); e != 0 {
		return nil, e
	}
	if st.Mode&unix.S_IFMT != unix.S_IFSOCK {
		return nil, unix.ECONNREFUSED
	}
	if e := w.permit(op, o); e != 0 {
		return nil, e
	}
	if !w.s.bound.hasFile(o.fd) {
		name, _ := w.name(o.fd)
		return nil, w.deny(op, path, name, hostSocket, unix.EACCES).err
	}
	return unixAddress(w.entry(o.fd)), 0
}

// connect(fd, addr, len)
func sysConnect(w *worker, a *[6]uint64) answer {
	s, e := w.socket(sandboxpolicy.OpConnect, int32(a[0]))
	if e != 0 {
		return failed(e)
	}
	raw, e := w.readAddress(a[1], int32(a[2]))
	if e != 0 {
		return failed(e)
	}
	raw, e = w.permitAddress(sandboxpolicy.OpConnect, s, raw)
	if e != 0 {
		return failed(e)
	}
	return failed(w.connect(s, raw))
}

// connect connects as a blocking socket would, without ever being stuck in the
// kernel: neither the caller's death nor Close could get us out of there.
func (w *worker) connect(s socket, raw []byte) unix.Errno {
	if s.typ != unix.SOCK_STREAM && s.typ != unix.SOCK_SEQPACKET {
		return connect(s.fd, raw) // names the peer only
	}
	flags, err := unix.FcntlInt(uintptr(s.fd), unix.F_GETFL, 0)
	if err != nil {
		return errnoOf(err)
	}
	if flags&unix.O_NONBLOCK != 0 {
		return connect(s.fd, raw)
	}
	try := func() unix.Errno {
		// The flag is the caller's too, for the microseconds of one connect that
		// doesn't wait. connect(2) has no flag of its own for this.
		unix.FcntlInt(uintptr(s.fd), unix.F_SETFL, flags|unix.O_NONBLOCK)
		e := connect(s.fd, raw)
		unix.FcntlInt(uintptr(s.fd), unix.F_SETFL, flags)
		return e
	}
	e := try()
	switch {
	case e == unix.EAGAIN && s.domain == unix.AF_UNIX:
		// The listener's queue is full, and nothing tells when it no longer is.
		d := w.startWait(s)
		for pause := time.Millisecond; e == unix.EAGAIN; pause = min(2*pause, 20*time.Millisecond) {
			if e := w.wait(-1, 0, pause, d); e != 0 {
				return e
			}
			e = try()
		}
		return e
	case e == unix.EINPROGRESS || e == unix.EALREADY:
		d := w.startWait(s)
		for {
			e := w.wait(s.fd, unix.POLLOUT, 0, d)
			if e == unix.EAGAIN {
				return unix.EINPROGRESS // SO_SNDTIMEO ran out, socket(7)
			}
			if e != 0 {
				return e
			}
			// It is decided: the second call takes the result.
			if e = try(); e != unix.EALREADY && e != unix.EINPROGRESS {
				return e
			}
		}
	}
	return e
}

// deadline is when a blocking call on a socket gives up.
type deadline struct {
	at   time.Time // zero: never
	intr unix.Errno
}

// startWait prepares a wait: others are served meanwhile.
func (w *worker) startWait(s socket) deadline {
	w.handOver()
	tv, err := unix.GetsockoptTimeval(s.fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO)
	if err != nil || tv.Sec == 0 && tv.Usec == 0 {
		return deadline{intr: errRestartSys}
	}
	// With a timeout a signal is always EINTR, signal(7).
	return deadline{time.Now().Add(time.Duration(tv.Nano())), unix.EINTR}
}

// waitTick is how soon a waiting worker sees that the caller got a signal or is
// gone.
const waitTick = 50 * time.Millisecond

// wait returns 0 when fd is ready, or with fd -1 after the pause. EAGAIN: the
// deadline. Else the caller must be answered with what it returns: it has a
// signal to handle, or it or we are going.
func (w *worker) wait(fd int, events int16, pause time.Duration, d deadline) unix.Errno {
	for {
		tick := waitTick
		if fd < 0 {
			tick = pause
		}
		if !d.at.IsZero() {
			left := time.Until(d.at)
			if left <= 0 {
				return unix.EAGAIN
			}
			tick = min(tick, left)
		}
		fds := [2]unix.PollFd{{Fd: int32(fd), Events: events}, {Fd: int32(w.s.stop), Events: unix.POLLIN}}
		_, err := unix.Poll(fds[:], int((tick+time.Millisecond-1)/time.Millisecond))
		if err != nil && err != unix.EINTR {
			return errnoOf(err)
		}
		switch {
		case fds[1].Revents != 0:
			return unix.EINTR
		case fds[0].Revents != 0:
			return 0
		case !w.valid():
			return unix.ESRCH
		case w.signalled():
			return d.intr
		case fd < 0:
			return 0
		}
	}
}

// signalled says whether the caller has a signal that it would handle now if it
// weren't waiting for us: WAIT_KILLABLE_RECV lets only fatal ones through.
func (w *worker) signalled() bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(w.tid) + "/status")
	if err != nil {
		return false
	}
	var set [3]uint64
	for i, name := range []string{"SigPnd:", "ShdPnd:", "SigBlk:"} {
		v, ok := field(b, name)
		if !ok {
			return false
		}
		if set[i], err = strconv.ParseUint(string(v), 16, 64); err != nil {
			return false
		}
	}
	return (set[0]|set[1])&^set[2] != 0
}

// bind(fd, addr, len)
func sysBind(w *worker, a *[6]uint64) answer {
	s, e := w.socket(sandboxpolicy.OpBind, int32(a[0]))
	if e != 0 {
		return failed(e)
	}
	raw, e := w.readAddress(a[1], int32(a[2]))
	if e != 0 {
		return failed(e)
	}
	return failed(w.bind(s, raw))
}

func (w *worker) bind(s socket, raw []byte) unix.Errno {
	const op = sandboxpolicy.OpBind
	a, e := parseAddress(s.domain, raw, false)
	if e != 0 && s.domain != unix.AF_UNIX && s.domain != unix.AF_INET && s.domain != unix.AF_INET6 && s.domain != unix.AF_NETLINK {
		family := "family " + strconv.Itoa(s.domain)
		return w.denyNet(op, family, family, w.s.o.Judge.VerdictNet(op, family, ""))
	}
	if e != 0 {
		return e
	}
	w.plain(raw, a)
	if strings.IndexByte(a.name, '\n') >= 0 {
		// /proc/net/unix, by which we tell whose an abstract name is, has names
		// as they are: with a line end one could pass for another socket's line.
		return unix.EINVAL
	}
	switch a.kind {
	case addrNone:
		return unix.EAFNOSUPPORT // inet6_bind
	case addrPath:
		return w.bindPath(s, raw, a.name)
	}
	if e := w.stands(); e != 0 {
		return e
	}
	switch a.kind {
	case addrInet:
		target := a.inet.String()
		e = w.denyNet(op, target, target, w.s.o.Judge.VerdictNet(op, a.family(), target))
	case addrNetlink:
		e = w.denyNet(op, "netlink", "", w.judgeNetlink(op, s))
	case addrAbstract:
		shown := shownName(a.name)
		e = w.denyNet(op, shown, shown, w.s.o.Judge.VerdictNet(op, "unix", shown))
	}
	if e == 0 {
		e = bind(s.fd, raw)
	}
	if e == 0 && (a.kind == addrAuto || a.kind == addrAbstract) {
		w.rememberName(s)
	}
	return e
}

// rememberName notes the abstract name that the socket has.
func (w *worker) rememberName(s socket) {
	var buf [maxAddress]byte
	raw, e := getsockname(s.fd, buf[:])
	if e != 0 {
		return
	}
	if a, e := parseAddress(unix.AF_UNIX, raw, false); e == 0 && a.kind == addrAbstract {
		w.s.bound.addName(a.name, s.fd)
	}
}

// bindPath makes a socket file.
//
// The kernel keeps the string that bind was called with as the socket's name:
// getsockname and the peers see it, and programs compare it. So it must be the
// caller's own string, and the kernel walks it again, while a process inside
// may be turning the directories on the way into links to elsewhere. Hence a
// thread for this one call, which may make sockets below the judged directory
// and nowhere else (Landlock): where the walk leads elsewhere, bind fails. It is
// in the commands' own domain too, since below a directory that may be written
// there can be others that may not.
// The socket is then looked up in the judged directory, and is one of ours only
// if it was born during the call.
func (w *worker) bindPath(s socket, raw []byte, path string) unix.Errno {
	dir, base := ".", path
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		dir, base = path[:max(i, 1)], path[i+1:]
	}
	switch base {
	case "":
		return unix.ENOENT
	case ".", "..":
		return unix.EADDRINUSE
	}
	parent, e := w.resolvePath(unix.AT_FDCWD, append(append(w.path[:0], dir...), 0), true)
	if e != 0 {
		return e
	}
	b := binding{sock: s.fd, raw: raw, parent: parent.fd, base: base, cwd: -1}
	if path[0] != '/' {
		if b.cwd, e = w.open("cwd"); e != 0 {
			return e
		}
	}
	mask, ok := statusField(w.tid, "Umask:")
	umask, err := strconv.ParseUint(string(mask), 8, 32)
	if !ok || err != nil {
		return unix.EPERM
	}
	b.umask = int(umask)
	l, e := w.locate(parent)
	if e != 0 {
		return e
	}
	if e := w.stands(); e != 0 {
		return e
	}
	if l.own || l.lost {
		return w.refuse(sandboxpolicy.OpBind, path, "the directory has no path that the policy could judge", unix.EACCES).err
	}
	full := strings.TrimSuffix(l.path, "/") + "/" + base
	if v := w.s.o.Judge.Verdict(sandboxpolicy.OpBind, full); !v.Allow {
		return w.deny(sandboxpolicy.OpBind, path, full, v, unix.EACCES).err
	}
	var before unix.Timespec
	// The coarse clock is the one that file systems take their times from.
	if err := unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &before); err != nil {
		return errnoOf(err)
	}
	if e := w.s.perform(b); e != 0 {
		return e
	}
	if f, born, ok := socketAt(parent.fd, base); ok && !born.Before(time.Unix(before.Unix())) {
		w.s.bound.addFile(f, full)
	}
	return 0
}

// binding is one bind to a path, held to a directory.
type binding struct {
	sock   int
	raw    []byte
	parent int
	base   string
	cwd    int // -1 for an absolute path
	umask  int
}

// perform binds on a thread of its own, which ends afterwards.
func (s *Server) perform(b binding) unix.Errno {
	result := make(chan unix.Errno, 1)
	s.wg.Add(1)
	go func() {
		defer s.wg.Done()
		runtime.LockOSThread() // never unlocked: the restrictions die with the thread
		result <- s.bindRestricted(b)
	}()
	return <-result
}

func (s *Server) bindRestricted(b binding) unix.Errno {
	if s.o.DropCaps != nil {
		if err := s.o.DropCaps(); err != nil {
			return unix.EPERM
		}
	}
	// Directory and umask of this thread only.
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return unix.EPERM
	}
	unix.Umask(b.umask)
	rules, e := landlockRuleset(unix.LANDLOCK_ACCESS_FS_MAKE_SOCK)
	if e == unix.ENOSYS || e == unix.EOPNOTSUPP {
		// Without Landlock the socket's name is its name in the directory.
		if err := unix.Fchdir(b.parent); err != nil {
			return errnoOf(err)
		}
		return bind(b.sock, unixAddress([]byte(b.base)))
	}
	if e != 0 {
		return unix.EPERM
	}
	defer unix.Close(rules)
	if e := landlockAllow(rules, b.parent, unix.LANDLOCK_ACCESS_FS_MAKE_SOCK); e != 0 {
		return unix.EPERM
	}
	if b.cwd >= 0 {
		if err := unix.Fchdir(b.cwd); err != nil {
			return errnoOf(err)
		}
	}
	// Landlock asks for it where the thread has no CAP_SYS_ADMIN.
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return unix.EPERM
	}
	if s.o.Confine != nil && s.o.Confine() != nil {
		return unix.EPERM
	}
	if e := landlockRestrict(rules); e != 0 {
		return unix.EPERM
	}
	return bind(b.sock, b.raw)
}

// listen(fd, backlog), notified where internet sockets exist but only on the
// loopback: a socket that wasn't bound would listen on all addresses.
func sysListen(w *worker, a *[6]uint64) answer {
	s, e := w.socket(sandboxpolicy.OpBind, int32(a[0]))
	if e == 0 {
		e = w.stands()
	}
	if e == 0 && (s.domain == unix.AF_INET || s.domain == unix.AF_INET6) {
		e = w.permitListen(s)
	}
	if e == 0 {
		e = errnoOf(unix.Listen(s.fd, int(int32(a[1]))))
	}
	return failed(e)
}

func (w *worker) permitListen(s socket) unix.Errno {
	if e := w.bindLoopback(s, nil); e != 0 {
		return e
	}
	var buf [maxAddress]byte
	raw, e := getsockname(s.fd, buf[:])
	if e != 0 {
		return e
	}
	a, e := parseAddress(s.domain, raw, false)
	if e != 0 {
		return e
	}
	target := a.inet.String()
	return w.denyNet(sandboxpolicy.OpBind, target, target, w.s.o.Judge.VerdictNet(sandboxpolicy.OpBind, a.family(), target))
}

// bindLoopback binds an internet socket that has no port yet to the loopback,
// where nothing else is allowed: the kernel would choose a port on all
// addresses, and others could send to it. to is the address that is sent to.
func (w *worker) bindLoopback(s socket, to []byte) unix.Errno {
	if w.s.o.Network != sandboxpolicy.NetworkLoopback || s.domain != unix.AF_INET && s.domain != unix.AF_INET6 {
		return 0
	}
	var buf [maxAddress]byte
	raw, e := getsockname(s.fd, buf[:])
	if e != 0 {
		return e
	}
	if len(raw) < 4 || binary.BigEndian.Uint16(raw[2:]) != 0 {
		return 0
	}
	var dst address
	if to != nil {
		if dst, e = parseAddress(s.domain, to, false); e != 0 {
			return e
		}
	}
	return bind(s.fd, loopbackAddress(s.domain, dst.inet))
}
