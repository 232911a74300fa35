package supervise

import (
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/dshx/dshx/sandbox/internal/seccomp"
	"github.com/dshx/dshx/sandboxpolicy"
)

// hostAbstract makes a judge refuse the host's abstract names, as a policy does.
func hostAbstract(op sandboxpolicy.Op, family, addr string) bool {
	return family != "unix" || op == sandboxpolicy.OpBind
}

// loopbackOnly is what a policy says with the network mode loopback.
func loopbackOnly(op sandboxpolicy.Op, family, addr string) bool {
	if !strings.HasPrefix(family, "inet") {
		return hostAbstract(op, family, addr)
	}
	host, _, _ := net.SplitHostPort(addr)
	ip := net.ParseIP(host)
	return ip.IsLoopback() || ip.IsUnspecified() && op != sandboxpolicy.OpBind
}

// listenUnix starts an outside server and returns how many connections or
// datagrams it got, when asked.
func listenUnix(t *testing.T, network, name string) (count func() int) {
	t.Helper()
	n := 0
	if network == "unixgram" {
		c, err := net.ListenUnixgram(network, &net.UnixAddr{Name: name, Net: network})
		must(t, err)
		if name[0] != '@' {
			os.Chmod(name, 0o666)
		}
		t.Cleanup(func() { c.Close() })
		return func() int {
			c.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
			for {
				if _, err := c.Read(make([]byte, 9)); err != nil {
					return n
				}
				n++
			}
		}
	}
	l, err := net.ListenUnix(network, &net.UnixAddr{Name: name, Net: network})
	must(t, err)
	if name[0] != '@' {
		os.Chmod(name, 0o666)
	}
	t.Cleanup(func() { l.Close() })
	return func() int {
		l.SetDeadline(time.Now().Add(20 * time.Millisecond))
		for {
			c, err := l.Accept()
			if err != nil {
				return n
			}
			c.Close()
			n++
		}
	}
}

// F1-1 and F1-3: sockets of the host.
func TestSockets_OfTheHostAreOutOfReach(t *testing.T) {
	d := newDirs(t)
	stream := listenUnix(t, "unix", d.O+"/host.sock")
	dgram := listenUnix(t, "unixgram", d.O+"/dgram.sock")
	inW := listenUnix(t, "unix", d.W+"/host.sock")
	abstract := fmt.Sprintf("@dshx-test-%d", os.Getpid())
	aStream := listenUnix(t, "unix", abstract+"-s")
	aDgram := listenUnix(t, "unixgram", abstract+"-d")
	must(t, os.Symlink(d.O+"/host.sock", d.W+"/l"))
	must(t, os.Symlink(d.O+"/dgram.sock", d.W+"/ld"))
	c, err := net.Dial("unix", abstract+"-s")
	must(t, err)
	c.Close()
	if n := aStream(); n != 1 {
		t.Fatalf("the listener counts %d connections from outside", n)
	}

	s := newSandbox(t, seccomp.Options{}, &judge{writable: []string{d.W}, net: hostAbstract})
	for _, op := range []string{
		"uconnect stream " + d.O + "/host.sock",
		"uconnect stream ../o/host.sock",
		"uconnect stream l",
		"uconnect stream /proc/self/root" + d.O + "/host.sock",
		"uconnect stream " + d.W + "/host.sock", // may be written, but is not ours
		"uconnect dgram " + d.O + "/dgram.sock",
		"usend sendto " + d.O + "/dgram.sock",
		"usend sendto ld",
		"usend sendmsg " + d.O + "/dgram.sock",
		"usend sendmmsg " + d.O + "/dgram.sock",
		"uconnect stream " + abstract + "-s",
		"uconnect dgram " + abstract + "-d",
		"usend sendto " + abstract + "-d",
		"usend sendmsg " + abstract + "-d",
	} {
		if got := s.op(d.W, op)[0]; got != "EACCES" {
			t.Errorf("%s: %s", op, got)
		}
	}
	if a, b, c, e, f := stream(), dgram(), inW(), aStream()-1, aDgram(); a+b+c+e+f != 0 {
		t.Errorf("the host's sockets got %d %d %d %d %d", a, b, c, e, f)
	}
	if len(s.denials()) < 10 {
		t.Errorf("denials: %v", s.denials())
	}
	c, err = net.Dial("unix", abstract+"-s")
	if err != nil {
		t.Fatalf("the listener is dead: %v", err)
	}
	c.Close()
}

// F2-9: sockets of one's own.
func TestSockets_OfOnesOwnWork(t *testing.T) {
	d := newDirs(t)
	// Another file system: tmpfs.
	shm, err := os.MkdirTemp("/dev/shm", "dshx-test-")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(shm) })
	s := newSandbox(t, seccomp.Options{}, &judge{writable: []string{d.W, shm}, net: hostAbstract})
	abstract := fmt.Sprintf("@dshx-own-%d", os.Getpid())
	for _, c := range []struct{ op, want string }{
		{"serve stream " + d.W + "/a.sock", "ok " + d.W + "/a.sock " + d.W + "/a.sock"},
		{"serve stream " + shm + "/s", "ok " + shm + "/s " + shm + "/s"},
		{"serve stream rel.sock", "ok rel.sock rel.sock"},
		{"serve stream ./sub/../rel2.sock", "ok ./sub/../rel2.sock ./sub/../rel2.sock"},
		{"serve stream dir-w/via.sock", "ok dir-w/via.sock dir-w/via.sock"},
		{"serve seq " + d.W + "/seq.sock", "ok " + d.W + "/seq.sock " + d.W + "/seq.sock"},
		{"serve dgram " + d.W + "/d.sock", "ok " + d.W + "/d.sock " + d.W + "/d.sock"},
		{"serve stream " + abstract, "ok " + abstract + " " + abstract},
		{"serve dgram " + abstract + "d", "ok " + abstract + "d " + abstract + "d"},
		{"serve stream " + d.O + "/no.sock", "EACCES"},
		{"serve stream dir-o/no.sock", "EACCES"},
		{"serve stream " + d.W + "/f", "EADDRINUSE"},
		{"serve stream " + d.W + "/missing/x.sock", "ENOENT"},
		{"uconnect stream " + d.W + "/missing", "ENOENT"},
		{"uconnect stream " + d.W + "/f", "ECONNREFUSED"},
		{"uconnect stream " + d.W + "/a.sock", "ECONNREFUSED"}, // ours, its server is gone
		{"pass stream", "ok"},
		{"pass dgram", "ok"},
		{"pass seq", "ok"},
		{"bigsend 40000000", "ok"},
		{"autobind", "ok"},
		{"backlog " + d.W + "/backlog.sock", "ok"},
		{"interfaces", "ok"},
		{"epipe nosignal", "EPIPE"},
		{"socket 2 2", "EACCES"},
	} {
		if got := s.op(d.W, c.op)[0]; got != c.want {
			t.Errorf("%s: %s, not %s", c.op, got, c.want)
		}
	}
	if got := s.op(d.W, "umask 027", "serve stream m.sock", "ls m.sock")[2]; got != "ok 750" {
		t.Errorf("a socket under umask 027 has %s", got)
	}
	found := false
	for _, d := range s.denials() {
		found = found || d.Target == "socket AF_INET SOCK_DGRAM"
	}
	if !found {
		t.Errorf("no denial of AF_INET in %v", s.denials())
	}
}

func TestSockets_LoopbackOnly(t *testing.T) {
	d := newDirs(t)
	s := newSandbox(t, seccomp.Options{Network: seccomp.NetLoopback}, &judge{writable: []string{d.W}, net: loopbackOnly})
	for _, c := range []struct{ op, want string }{
		{"tcp 127.0.0.1:0", "ok hello"},
		{"tcp [::1]:0", "ok hello"},
		{"tcp 0.0.0.0:0", "EACCES"},
		{"ibind stream 0.0.0.0:0", "EACCES"},
		{"ibind dgram [::]:0", "EACCES"},
		{"ibind dgram 127.0.0.9:0", "ok"},
		{"ibind dgram [::ffff:127.0.0.1]:0", "ok"},
		{"iconnect stream 192.0.2.1:80", "EACCES"},
		{"iconnect dgram 192.0.2.1:80", "EACCES"},
		{"iconnect stream [::ffff:192.0.2.1]:80", "EACCES"},
		{"iconnect stream [2001:db8::1]:80", "EACCES"},
		{"iconnect stream 127.0.0.1:1", "ECONNREFUSED"},
		{"iconnect stream 0.0.0.0:1", "ECONNREFUSED"},
		{"isend sendto 192.0.2.1:53", "EACCES"},
		{"isend unspec 192.0.2.1:53", "EACCES"},
		{"isend sendmsg 192.0.2.1:53", "EACCES"},
		{"isend sendmsg [::ffff:192.0.2.1]:53", "EACCES"},
		{"isend sendto 127.0.0.1:9", "ok 127.0.0.1"},
		{"isend sendmsg [::1]:9", "ok ::1"},
		{"isend sendmsg [::ffff:127.0.0.1]:9", "ok 127.0.0.1"},
		{"ilisten inet", "ok 127.0.0.1"},
		{"serve stream " + d.W + "/a.sock", "ok " + d.W + "/a.sock " + d.W + "/a.sock"},
		{"socket 2 3", "EACCES"},
		{"socket 17 3", "EACCES"},
	} {
		if got := s.op(d.W, c.op)[0]; got != c.want {
			t.Errorf("%s: %s, not %s", c.op, got, c.want)
		}
	}
}

// What would send by another interface than the loopback, whatever the address,
// is refused: by control message and by option. integration has the packets.
func TestSockets_NoWayAroundTheLoopback(t *testing.T) {
	d := newDirs(t)
	s := newSandbox(t, seccomp.Options{Network: seccomp.NetLoopback}, &judge{writable: []string{d.W}, net: loopbackOnly})
	const lo4, other4, none4 = "7f000001", "c0000202", "00000000"
	const lo6, other6, none6 = "00000000000000000000000000000001", "20010db8000000000000000000000002", "00000000000000000000000000000000"
	const mapped6 = "00000000000000000000ffff7f000009"
	pkt4 := func(device byte, source string) string {
		return fmt.Sprintf("ictl 0:8:%02x000000%s00000000 ", device, source)
	}
	pkt6 := func(device byte, source string) string {
		return fmt.Sprintf("ictl 41:50:%s%02x000000 ", source, device)
	}
	for _, c := range []struct{ op, want string }{
		{pkt4(0, none4) + "127.0.0.1:9", "ok"},
		{pkt4(0, lo4) + "127.0.0.1:9", "ok"},
		{pkt4(1, lo4) + "127.0.0.1:9", "ok"},
		{pkt4(2, none4) + "127.0.0.1:9", "EPERM"},
		{pkt4(0, other4) + "127.0.0.1:9", "EPERM"},
		{pkt4(2, other4) + "127.0.0.1:9", "EPERM"},
		{"ictl 0:8:00000000 127.0.0.1:9", "EPERM"},
		{pkt6(0, none6) + "[::1]:9", "ok"},
		{pkt6(1, lo6) + "[::1]:9", "ok"},
		{pkt6(0, mapped6) + "[::ffff:127.0.0.1]:9", "ok"},
		{pkt6(2, none6) + "[::1]:9", "EPERM"},
		{pkt6(2, lo6) + "[::1]:9", "EPERM"},
		{pkt6(0, other6) + "[::1]:9", "EPERM"},
		{"ictl 41:2:" + none6 + "02000000 [::1]:9", "EPERM"}, // IPV6_2292PKTINFO
		{"ictl 41:57:0000000000000000 [::1]:9", "EPERM"},     // IPV6_RTHDR
		{"ictl 41:11:00000001 [::1]:9", "EPERM"},             // IPV6_FLOWINFO
		{"ictl 41:52:40000000 [::1]:9", "ok"},                // IPV6_HOPLIMIT
		{"ictl 0:2:40000000 127.0.0.1:9", "ok"},              // IP_TTL
		{"iopt 2 0 50 4", "EPERM"},                           // IP_UNICAST_IF
		{"iopt 10 41 76 4", "EPERM"},                         // IPV6_UNICAST_IF
		{"iopt 10 41 50 20", "EPERM"},                        // IPV6_PKTINFO
		{"iopt 10 41 26 4", "ok"},                            // IPV6_V6ONLY
		{"iopt 2 0 8 4", "ok"},                               // IP_PKTINFO
	} {
		if got := s.op(d.W, c.op)[0]; got != c.want {
			t.Errorf("%s: %s, not %s", c.op, got, c.want)
		}
	}
	if len(s.denials()) < 9 {
		t.Errorf("denials: %v", s.denials())
	}
	full := newSandbox(t, seccomp.Options{Network: seccomp.NetFull}, &judge{writable: []string{d.W}, net: hostAbstract})
	for _, op := range []string{pkt4(0, lo4) + "127.0.0.1:9", "iopt 2 0 50 4", "iopt 10 41 76 4", "iopt 10 41 50 20"} {
		if got := full.op(d.W, op)[0]; got != "ok" {
			t.Errorf("control: %s with the whole network: %s", op, got)
		}
	}
}
