package supervise

import (
	"encoding/binary"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dshx/dshx/sandboxpolicy"
)

const (
	sizeofMsghdr  = 56 // struct msghdr of 64-bit architectures
	sizeofMmsghdr = 64 // struct mmsghdr
	maxIov        = 1024
	maxControl    = 1 << 16
	// maxMessage bounds what one call sends. A stream takes less than all (the
	// caller sends the rest), a message is EMSGSIZE above.
	maxMessage = 16 << 20
	// sendChunk is how much of a stream is copied at a time.
	sendChunk = 256 << 10
	// scmMaxFd is SCM_MAX_FD, unix(7).
	scmMaxFd = 253
)

// message is what sendto, sendmsg or an element of sendmmsg sends.
type message struct {
	name    []byte // the address, nil without one
	data    []span
	size    uint64 // of data
	control []byte // as the caller has it
}

// header is struct msghdr.
type header struct {
	name       uint64
	nameLen    int32
	iov        uint64
	iovLen     uint64
	control    uint64
	controlLen uint64
}

// parseHeader reads a struct msghdr as the kernel's copy_msghdr_from_user does.
func parseHeader(b []byte) (h header, e unix.Errno) {
	ne := binary.NativeEndian
	h = header{
		name: ne.Uint64(b), nameLen: int32(ne.Uint32(b[8:])),
		iov: ne.Uint64(b[16:]), iovLen: ne.Uint64(b[24:]),
		control: ne.Uint64(b[32:]), controlLen: ne.Uint64(b[40:]),
	}
	if h.name == 0 {
		h.nameLen = 0
	}
	switch {
	case h.nameLen < 0:
		return h, unix.EINVAL
	case h.iovLen > maxIov:
		return h, unix.EMSGSIZE
	case h.controlLen > maxControl:
		return h, unix.ENOBUFS
	}
	h.nameLen = min(h.nameLen, maxAddress)
	return h, 0
}

// parseIov reads an array of struct iovec and adds up what it names.
func parseIov(b []byte) (data []span, size uint64, e unix.Errno) {
	ne := binary.NativeEndian
	for ; len(b) >= 16; b = b[16:] {
		s := span{ne.Uint64(b), ne.Uint64(b[8:])}
		if int64(s.size) < 0 {
			return nil, 0, unix.EINVAL
		}
		if s.size == 0 {
			continue
		}
		// The kernel cuts a call at MAX_RW_COUNT.
		s.size = min(s.size, 0x7ffff000-size)
		if s.size == 0 {
			break
		}
		size += s.size
		data = append(data, s)
	}
	return data, size, 0
}

// readMessage copies a struct msghdr and what it points to but for the data.
func (w *worker) readMessage(addr uint64) (m message, e unix.Errno) {
	var b [sizeofMsghdr]byte
	if e := w.read(b[:], addr); e != 0 {
		return m, e
	}
	h, e := parseHeader(b[:])
	if e != 0 {
		return m, e
	}
	if h.nameLen > 0 {
		if m.name, e = w.readAddress(h.name, h.nameLen); e != 0 {
			return m, e
		}
	}
	if h.controlLen > 0 {
		m.control = make([]byte, h.controlLen)
		if e := w.read(m.control, h.control); e != 0 {
			return m, e
		}
	}
	iov := make([]byte, 16*h.iovLen)
	if e := w.read(iov, h.iov); e != 0 {
		return m, e
	}
	m.data, m.size, e = parseIov(iov)
	return m, e
}

// gather copies len(dst) bytes of data, which has as many, and returns what is
// left of data.
func (w *worker) gather(dst []byte, data []span) ([]span, unix.Errno) {
	for len(dst) > 0 {
		n := min(uint64(len(dst)), data[0].size)
		if e := w.read(dst[:n], data[0].addr); e != 0 {
			return data, e
		}
		dst = dst[n:]
		if n == data[0].size {
			data = data[1:]
		} else {
			data[0] = span{data[0].addr + n, data[0].size - n}
		}
	}
	return data, 0
}

// scm is a control message, cmsg(3).
type scm struct {
	level, typ int32
	data       []byte
}

// parseControl splits control data as the kernel's for_each_cmsghdr does.
func parseControl(b []byte) ([]scm, unix.Errno) {
	const head = 16
	var all []scm
	for len(b) >= head {
		n := binary.NativeEndian.Uint64(b)
		if n < head || n > uint64(len(b)) {
			return nil, unix.EINVAL
		}
		all = append(all, scm{int32(binary.NativeEndian.Uint32(b[8:])), int32(binary.NativeEndian.Uint32(b[12:])), b[head:n]})
		b = b[min((n+7)&^7, uint64(len(b))):]
	}
	return all, 0
}

func appendControl(b []byte, c scm) []byte {
	b = binary.NativeEndian.AppendUint64(b, uint64(16+len(c.data)))
	b = binary.NativeEndian.AppendUint32(b, uint32(c.level))
	b = binary.NativeEndian.AppendUint32(b, uint32(c.typ))
	b = append(b, c.data...)
	for len(b)%8 != 0 {
		b = append(b, 0)
	}
	return b
}

// harmlessControl reports whether a control message of an internet socket says
// nothing about where a packet goes. Others (IP_RETOPTS and IPV6_RTHDR have
// routes in them) are refused where only the loopback is allowed.
func harmlessControl(level, typ int32) bool {
	switch level {
	case unix.IPPROTO_IP:
		switch typ {
		case unix.IP_TOS, unix.IP_TTL:
			return true
		}
	case unix.IPPROTO_IPV6:
		switch typ {
		case unix.IPV6_TCLASS, unix.IPV6_HOPLIMIT, unix.IPV6_DONTFRAG:
			return true
		}
	case unix.IPPROTO_UDP:
		switch typ {
		case unix.UDP_SEGMENT:
			return true
		}
	case unix.SOL_SOCKET:
		switch typ {
		case unix.SO_TIMESTAMPING, unix.SCM_TXTIME, unix.SO_PRIORITY, unix.SCM_TS_OPT_ID:
			return true
		}
	}
	return false
}

// loopbackIndex is LOOPBACK_IFINDEX, the loopback's number in every network
// namespace (include/net/flow.h).
const loopbackIndex = 1

// staysOnLoopback says whether a packet with the control message takes the way
// that its address alone would take. A server that answers from the address
// that it was asked at says so by IP_PKTINFO; with another interface in it the
// kernel would send by that one, whatever the destination.
func (c scm) staysOnLoopback() bool {
	var device uint32
	var source inet
	switch {
	case c.level == unix.IPPROTO_IP && c.typ == unix.IP_PKTINFO && len(c.data) == unix.SizeofInet4Pktinfo:
		device, source = binary.NativeEndian.Uint32(c.data), inet4([4]byte(c.data[4:]), 0)
	case c.level == unix.IPPROTO_IPV6 && c.typ == unix.IPV6_PKTINFO && len(c.data) == unix.SizeofInet6Pktinfo:
		device, source = binary.NativeEndian.Uint32(c.data[16:]), inet{ip: [16]byte(c.data)}
	default:
		return harmlessControl(c.level, c.typ)
	}
	return (device == 0 || device == loopbackIndex) && source.ours()
}

// aroundLoopback is the verdict on what would send a packet another way than
// its address says.
var aroundLoopback = sandboxpolicy.Verdict{
	Rule:   sandboxpolicy.Rule{Text: "network = loopback: no other interface, source or route", Origin: "preset"},
	Remedy: "--network full",
}

// control rebuilds the caller's control data for our send: descriptors are
// ours, and credentials that name the caller are left to the kernel.
func (w *worker) control(s socket, b []byte) ([]byte, unix.Errno) {
	all, e := parseControl(b)
	if e != 0 {
		return nil, e
	}
	var out []byte
	total := 0
	for _, c := range all {
		rights := c.level == unix.SOL_SOCKET && c.typ == unix.SCM_RIGHTS
		creds := c.level == unix.SOL_SOCKET && c.typ == unix.SCM_CREDENTIALS
		switch {
		case s.domain != unix.AF_UNIX && (rights || creds):
			// Without a meaning there; ignored (__sock_cmsg_send).
		case rights:
			n := len(c.data) / 4
			if total += n; total > scmMaxFd {
				return nil, unix.EINVAL
			}
			if e := w.borrow(n); e != 0 {
				return nil, e
			}
			fds := make([]byte, 0, 4*n)
			for i := range n {
				fd, e := w.lend(int32(binary.NativeEndian.Uint32(c.data[4*i:])))
				if e == errNoGetfd {
					e = w.refuse(sandboxpolicy.OpSend, "SCM_RIGHTS", noGetfdRemedy, unix.EACCES).err
				}
				if e != 0 {
					return nil, e
				}
				fds = binary.NativeEndian.AppendUint32(fds, uint32(fd))
			}
			if n > 0 {
				out = appendControl(out, scm{c.level, c.typ, fds})
			}
		case creds:
			if len(c.data) != unix.SizeofUcred {
				return nil, unix.EINVAL
			}
			pid := int(int32(binary.NativeEndian.Uint32(c.data)))
			uid, gid := binary.NativeEndian.Uint32(c.data[4:]), binary.NativeEndian.Uint32(c.data[8:])
			if pid != w.process() || int(uid) != unix.Getuid() || int(gid) != unix.Getgid() {
				return nil, unix.EPERM
			}
		case w.s.o.Network == sandboxpolicy.NetworkLoopback && (s.domain == unix.AF_INET || s.domain == unix.AF_INET6) &&
			!c.staysOnLoopback():
			if e := w.stands(); e != 0 {
				return nil, e
			}
			what := fmt.Sprintf("control message %d of level %d", c.typ, c.level)
			return nil, w.deny(sandboxpolicy.OpSend, what, "", aroundLoopback, unix.EPERM).err
		default:
			out = appendControl(out, c)
		}
	}
	return out, 0
}

// borrow asks for room for n duplicates of descriptors that a message carries.
// A call that waits for its peer holds them as long, so without a bound a
// command could fill this process's table, which dshx needs to see and end it.
// Such a call doesn't wait for room, since who has it may wait for this very
// call: it gets the errno by which the kernel bounds descriptors on their way,
// unix(7).
func (w *worker) borrow(n int) unix.Errno {
	if w.s.borrowed.Add(int64(n)) > w.s.maxBorrowed {
		w.s.borrowed.Add(-int64(n))
		return unix.ETOOMANYREFS
	}
	w.borrowed += n
	return 0
}

// lend is dup for a descriptor that a message carries, until giveBack.
func (w *worker) lend(fd int32) (int, unix.Errno) {
	d, e := w.dup(fd)
	if e == 0 {
		w.owned = w.owned[:len(w.owned)-1]
		w.lent = append(w.lent, d)
	}
	return d, e
}

// giveBack closes what was lent, once the message has gone or won't.
func (w *worker) giveBack() {
	if w.borrowed == 0 {
		return
	}
	for _, fd := range w.lent {
		unix.Close(fd)
	}
	w.lent = w.lent[:0]
	w.s.borrowed.Add(-int64(w.borrowed))
	w.borrowed = 0
}

// msgZerocopy is MSG_ZEROCOPY. The pages would be ours and be reused too soon.
const msgZerocopy = unix.MSG_ZEROCOPY

// send performs one message with the caller's flags.
func (w *worker) send(s socket, m message, flags int) (n int, e unix.Errno) {
	if flags&msgZerocopy != 0 {
		return 0, unix.ENOBUFS
	}
	var control []byte
	if len(m.control) > 0 {
		if control, e = w.control(s, m.control); e != 0 {
			return 0, e
		}
	}
	if m.name != nil {
		if m.name, e = w.permitAddress(sandboxpolicy.OpSend, s, m.name); e != 0 {
			return 0, e
		}
	} else if e := w.stands(); e != 0 {
		return 0, e
	}
	if m.name != nil {
		if e := w.bindLoopback(s, m.name); e != 0 {
			return 0, e
		}
	}
	t := transfer{w: w, s: s, name: m.name, flags: flags}
	if !s.stream() {
		limit, err := unix.GetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_SNDBUF)
		if err != nil || m.size > uint64(min(limit, maxMessage)) {
			return 0, unix.EMSGSIZE
		}
		buf := w.space(int(m.size))
		if _, e := w.gather(buf, m.data); e != 0 {
			return 0, e
		}
		n, e = t.put(buf, control)
	} else {
		n, e = w.sendStream(&t, m, control)
	}
	if e == unix.EPIPE && flags&unix.MSG_NOSIGNAL == 0 && s.stream() && w.valid() {
		// Ours was kept away by MSG_NOSIGNAL; this one is the caller's.
		unix.Tgkill(w.process(), w.tid, unix.SIGPIPE)
	}
	return n, e
}

func (w *worker) sendStream(t *transfer, m message, control []byte) (int, unix.Errno) {
	sent := uint64(0)
	size := min(m.size, maxMessage)
	data := append([]span(nil), m.data...)
	for {
		buf := w.space(int(min(size-sent, sendChunk)))
		rest, e := w.gather(buf, data)
		n := 0
		if e == 0 {
			n, e = t.put(buf, control)
		}
		if e != 0 {
			if sent > 0 {
				return int(sent), 0
			}
			return 0, e
		}
		sent += uint64(n)
		if n < len(buf) || sent >= size {
			return int(sent), 0
		}
		// The descriptors have gone with the first bytes.
		data, control = rest, nil
		w.giveBack()
	}
}

// transfer sends pieces of one message.
type transfer struct {
	w     *worker
	s     socket
	name  []byte
	flags int
	until *deadline // set once it has waited
}

// put sends buf as the caller's call would: all of it when it may block, and
// then waits outside of the kernel's send, so that neither the caller's death
// nor Close finds us stuck there.
func (t *transfer) put(buf, control []byte) (int, unix.Errno) {
	sent := 0
	for pause := time.Millisecond; ; pause = min(2*pause, 20*time.Millisecond) {
		n, e := sendmsg(t.s.fd, t.name, buf[sent:], control, t.flags|unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
		if e == 0 {
			sent += n
			if sent == len(buf) || !t.s.stream() {
				return sent, 0
			}
			control = nil
			t.w.giveBack()
			e = unix.EAGAIN
		}
		if e == unix.EAGAIN && t.until == nil {
			if t.flags&unix.MSG_DONTWAIT == 0 && !t.s.nonblocking() {
				d := t.w.startWait(t.s)
				t.until = &d
			}
		}
		if e == unix.EAGAIN && t.until != nil {
			fd := t.s.fd
			if t.s.domain == unix.AF_UNIX && !t.s.stream() && t.name != nil {
				fd = -1 // poll doesn't know the peer's queue
			}
			e = t.w.wait(fd, unix.POLLOUT, pause, *t.until)
			if e == 0 {
				continue
			}
		}
		if sent > 0 {
			return sent, 0
		}
		return 0, e
	}
}

// sendto(fd, buf, len, flags, addr, addrlen)
func sysSendto(w *worker, a *[6]uint64) answer {
	s, e := w.socket(sandboxpolicy.OpSend, int32(a[0]))
	if e != 0 {
		return failed(e)
	}
	m := message{}
	if int64(a[2]) < 0 {
		return failed(unix.EINVAL)
	}
	if n := min(a[2], 0x7ffff000); n > 0 {
		m.data, m.size = []span{{a[1], n}}, n
	}
	if a[4] != 0 {
		if m.name, e = w.readAddress(a[4], int32(a[5])); e != 0 {
			return failed(e)
		}
		if len(m.name) == 0 {
			m.name = nil
		}
	}
	n, e := w.send(s, m, int(int32(a[3])))
	return answer{val: int64(n), err: e}
}

// sendmsg(fd, msghdr, flags)
func sysSendmsg(w *worker, a *[6]uint64) answer {
	s, e := w.socket(sandboxpolicy.OpSend, int32(a[0]))
	if e != 0 {
		return failed(e)
	}
	m, e := w.readMessage(a[1])
	if e != 0 {
		return failed(e)
	}
	n, e := w.send(s, m, int(int32(a[2])))
	return answer{val: int64(n), err: e}
}

// sendmmsg(fd, mmsghdrs, vlen, flags)
func sysSendmmsg(w *worker, a *[6]uint64) answer {
	s, e := w.socket(sandboxpolicy.OpSend, int32(a[0]))
	if e != 0 {
		return failed(e)
	}
	count := min(uint32(a[2]), maxIov) // UIO_MAXIOV, sendmmsg(2)
	sent := int64(0)
	for ; sent < int64(count); sent++ {
		at := a[1] + uint64(sent)*sizeofMmsghdr
		m, e := w.readMessage(at)
		n := 0
		if e == 0 {
			n, e = w.send(s, m, int(int32(a[3])))
		}
		if e == 0 {
			var length [4]byte
			binary.NativeEndian.PutUint32(length[:], uint32(n))
			e = w.write(at+sizeofMsghdr, length[:])
		}
		if e != 0 {
			if sent > 0 {
				break // the error comes again with the next call
			}
			return failed(e)
		}
		// The descriptors of one message are enough to hold at a time.
		w.giveBack()
		for len(w.owned) > 1 {
			unix.Close(w.owned[len(w.owned)-1])
			w.owned = w.owned[:len(w.owned)-1]
		}
	}
	return answer{val: sent}
}
