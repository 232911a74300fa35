package integration

import (
	"encoding/binary"
	"net"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestAttack_AroundTheLoopback: with --network loopback no packet leaves by
// another interface. A network of the test's own has one with a default route,
// and what comes out at its other end is looked at.
func TestAttack_AroundTheLoopback(t *testing.T) {
	if !isRoot {
		skip(t, "needs a network namespace, which root makes")
	}
	forEachUser(t, func(t *testing.T, e *Env) {
		// Never unlocked: the thread, with its namespace, ends with the test.
		runtime.LockOSThread()
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			t.Fatal(err)
		}
		const device, source = "away", "192.0.2.1"
		packets := captured(t, device, [4]byte(net.ParseIP(source).To4()))
		var attempts []string
		ways := []string{"pktinfo4", "unicast-if4", "device4", "pktinfo6", "pktinfo6-old", "sticky6", "unicast-if6", "device6"}
		for _, way := range ways {
			attempts = append(attempts, "around "+way+" "+device+" "+source)
		}
		assertWorksOutside(t, e.ProbeOutside(attempts...), attempts)
		seen := packets()
		for _, way := range ways {
			if !strings.Contains(seen, "around "+way) {
				t.Errorf("control: %s outside did not get out", way)
			}
		}
		o := Opts{Flags: []string{"--network", "loopback"}}
		assertDenied(t, e.Probe(o, attempts...), attempts)
		own := []string{"around plain6 " + device + " " + source}
		assertAllowed(t, e.Probe(o, own...), own)
		if seen := packets(); strings.Contains(seen, "around") {
			t.Errorf("packets left: %q", seen)
		}
	})
}

// TestAttack_SocketBesideSecrets: in a home that is writable but for the secrets
// in it, a socket is made where a file could be and nowhere else, whatever
// becomes of the directories on the way.
func TestAttack_SocketBesideSecrets(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		secret := e.Mkdir(filepath.Join(e.H, ".gnupg"))
		e.Write(filepath.Join(secret, "key"), "MARKER")
		sub := e.Mkdir(filepath.Join(e.H, "sub"))
		o := Opts{Flags: []string{"--write", e.H}}

		own := []string{"unix-pair stream " + sub + "/s.sock"}
		assertAllowed(t, e.Probe(o, own...), own)
		beside := []string{"create " + e.H + "/new", "unix-bind stream " + e.H + "/s.sock", "unix-bind dgram " + secret + "/s.sock"}
		assertDenied(t, e.Probe(o, beside...), beside)
		check := Unchanged(t, secret)
		// The home as the judged directory: a rule for it covers what is below.
		r := e.Run(o, probeBin, "flipbind", sub+"/l", e.H, secret, itoa(scale(4000, 600)))
		check()
		if r.Exit != 0 || strings.TrimSpace(r.Stdout) != "did 0" {
			t.Errorf("want no socket made: %s", r)
		}
		r = e.Run(o, probeBin, "flipbind", sub+"/l2", sub, secret, itoa(scale(1000, 300)))
		check()
		if r.Exit != 0 || strings.TrimSpace(r.Stdout) == "did 0" {
			t.Errorf("control: want some sockets made where they may be: %s", r)
		}
		e.Outside(probeBin, "flipbind", sub+"/l3", e.H, secret, "300").OK(t)
		if made, _ := filepath.Glob(filepath.Join(secret, "s*")); len(made) == 0 {
			t.Error("control: outside, too, no socket was made among the secrets")
		}
	})
}

// captured gives the calling thread's network namespace an interface with an
// address and default routes, and returns what has come out at its other end
// since the last time it was asked.
func captured(t *testing.T, name string, addr [4]byte) func() string {
	t.Helper()
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	ne := binary.NativeEndian
	attr := func(typ uint16, data []byte) []byte {
		b := append(ne.AppendUint16(ne.AppendUint16(nil, uint16(4+len(data))), typ), data...)
		return append(b, make([]byte, -len(b)&3)...)
	}
	request := func(typ uint16, body ...[]byte) {
		t.Helper()
		b := make([]byte, unix.NLMSG_HDRLEN)
		for _, part := range body {
			b = append(b, part...)
		}
		ne.PutUint32(b, uint32(len(b)))
		ne.PutUint16(b[4:], typ)
		ne.PutUint16(b[6:], unix.NLM_F_REQUEST|unix.NLM_F_ACK|unix.NLM_F_CREATE)
		if err := unix.Sendto(fd, b, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
			t.Fatal(err)
		}
		reply := make([]byte, 4096)
		n, _, err := unix.Recvfrom(fd, reply, 0)
		if err != nil || n < unix.NLMSG_HDRLEN+4 {
			t.Fatal(n, err)
		}
		if e := -int32(ne.Uint32(reply[unix.NLMSG_HDRLEN:])); e != 0 {
			if typ == unix.RTM_NEWLINK && unix.Errno(e) == unix.EOPNOTSUPP {
				skip(t, "this kernel has no veth")
			}
			t.Fatalf("rtnetlink request %d: %v", typ, unix.Errno(e))
		}
	}
	// Without resolution of neighbours, which nobody would answer.
	up := func(index int) []byte {
		b := make([]byte, unix.SizeofIfInfomsg)
		ne.PutUint32(b[4:], uint32(index))
		ne.PutUint32(b[8:], unix.IFF_UP|unix.IFF_NOARP)
		ne.PutUint32(b[12:], unix.IFF_UP|unix.IFF_NOARP)
		return b
	}
	request(unix.RTM_NEWLINK, up(0), attr(unix.IFLA_IFNAME, []byte(name+"\x00")),
		attr(unix.IFLA_LINKINFO, attr(unix.IFLA_INFO_KIND, []byte("veth"))))
	device, err := net.InterfaceByName(name)
	if err != nil {
		t.Fatal(err)
	}
	all, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	peer := 0
	for _, i := range all {
		if i.Index != device.Index {
			request(unix.RTM_NEWLINK, up(i.Index))
			if i.Flags&net.FlagLoopback == 0 {
				peer = i.Index
			}
		}
	}
	index := ne.AppendUint32(nil, uint32(device.Index))
	address := func(family, prefix byte, ip []byte) {
		request(unix.RTM_NEWADDR, []byte{family, prefix, unix.IFA_F_NODAD, 0}, index, attr(unix.IFA_LOCAL, ip), attr(unix.IFA_ADDRESS, ip))
	}
	route := func(family byte) {
		request(unix.RTM_NEWROUTE, []byte{family, 0, 0, 0, unix.RT_TABLE_MAIN, unix.RTPROT_BOOT, unix.RT_SCOPE_LINK, unix.RTN_UNICAST, 0, 0, 0, 0},
			attr(unix.RTA_OIF, index))
	}
	address(unix.AF_INET, 24, addr[:])
	address(unix.AF_INET6, 64, net.ParseIP("2001:db8::1"))
	route(unix.AF_INET)
	route(unix.AF_INET6)

	// The kernel takes up to a second to notice that a device is connected.
	eventually(t, 5*time.Second, "both ends are up", func() bool {
		a, err := net.InterfaceByIndex(device.Index)
		b, err2 := net.InterfaceByIndex(peer)
		return err == nil && err2 == nil && a.Flags&b.Flags&net.FlagRunning != 0
	})

	const everything = unix.ETH_P_ALL<<8 | unix.ETH_P_ALL>>8 // in network order
	tap, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, everything)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(tap) })
	if err := unix.Bind(tap, &unix.SockaddrLinklayer{Protocol: everything, Ifindex: peer}); err != nil {
		t.Fatal(err)
	}
	return func() string {
		time.Sleep(50 * time.Millisecond)
		var seen strings.Builder
		for b := make([]byte, 4096); ; {
			n, _, err := unix.Recvfrom(tap, b, unix.MSG_DONTWAIT)
			if err != nil {
				return seen.String()
			}
			seen.Write(b[:n])
			seen.WriteByte('\n')
		}
	}
}
