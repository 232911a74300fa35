package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"net"
)

// F1-1: sockets of the host are out of reach by path, whatever the spelling.
func TestF1_1_HostSockets(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		stream := Listen(t, "unix", filepath.Join(e.O, "host.sock"))
		packet := Listen(t, "unixpacket", filepath.Join(e.O, "seq.sock"))
		dgram := Listen(t, "unixgram", filepath.Join(e.O, "dgram.sock"))
		e.Symlink(stream.Addr, filepath.Join(e.W, "l"))
		e.Symlink(dgram.Addr, filepath.Join(e.W, "ld"))
		e.Symlink(e.O, filepath.Join(e.W, "dir"))

		var attempts []string
		for _, p := range []string{stream.Addr, e.W + "/l", "/proc/self/root" + stream.Addr, e.W + "/dir/host.sock",
			"/proc/self/cwd/l", e.W + "/../O/host.sock", "/proc/thread-self/root" + stream.Addr} {
			attempts = append(attempts, "unix-connect stream "+p, "unix-connect-nb stream "+p)
		}
		attempts = append(attempts,
			"in "+e.O+" unix-connect stream host.sock",
			"fd "+stream.Addr+" unix-connect stream @",
			"fd "+e.O+" unix-connect stream @/host.sock",
			"unix-connect seqpacket "+packet.Addr)
		for _, p := range []string{dgram.Addr, e.W + "/ld", "/proc/self/root" + dgram.Addr, e.W + "/dir/dgram.sock"} {
			for _, verb := range []string{"connect", "sendto", "sendmsg", "sendmmsg"} {
				attempts = append(attempts, "unix-"+verb+" dgram "+p)
			}
			attempts = append(attempts, "unix-bound-sendto "+e.W+"/own.sock "+p)
		}
		attempts = append(attempts,
			"in "+e.O+" unix-sendto dgram dgram.sock",
			"fd "+dgram.Addr+" unix-sendto dgram @")

		assertWorksOutside(t, e.ProbeOutside(attempts...), attempts)
		time.Sleep(50 * time.Millisecond)
		s0, p0, d0 := stream.Conns(), packet.Conns(), dgram.Conns()
		if s0 < 10 || p0 != 1 || d0 < 20 {
			t.Errorf("control: heard %d, %d and %d outside", s0, p0, d0)
		}

		for _, preset := range []string{"workspace-write", "read-only"} {
			t.Run(preset, func(t *testing.T) {
				e := e.With(t)
				list := attempts
				if preset == "read-only" { // nothing can be bound in W
					list = slices.DeleteFunc(slices.Clone(list), func(s string) bool { return strings.HasPrefix(s, "unix-bound") })
				}
				a := e.Probe(Opts{Preset: preset}, list...)
				assertDenied(t, a, list)
				stream.Silent(t, s0)
				packet.Silent(t, p0)
				dgram.Silent(t, d0)
			})
		}

		t.Run("no alias gives access", func(t *testing.T) {
			e := e.With(t)
			check := Unchanged(t, e.O)
			a := e.Probe(Opts{},
				"link "+stream.Addr+" "+e.W+"/alias", "connect-alias=unix-connect stream "+e.W+"/alias",
				"link-fd "+stream.Addr+" "+e.W+"/alias2", "connect-alias2=unix-connect stream "+e.W+"/alias2",
				"rename "+stream.Addr+" "+e.W+"/moved", "connect-moved=unix-connect stream "+e.W+"/moved")
			assertDenied(t, a, []string{"connect-alias", "connect-alias2", "connect-moved"})
			stream.Silent(t, s0)
			check()
		})
		t.Run("sockets made inside work", func(t *testing.T) {
			e := e.With(t)
			own := []string{}
			for _, dir := range []string{e.W, "$TMPDIR"} {
				own = append(own, "unix-pair stream "+dir+"/s.sock", "unix-pair dgram "+dir+"/d.sock", "unix-pair seqpacket "+dir+"/q.sock")
			}
			own = append(own, "socketpair unix 1 0", "in "+e.W+" unix-pair stream rel.sock")
			assertAllowed(t, e.Probe(Opts{}, own...), own)
		})
	})
}

// F1-1: the sockets that matter most in practice.
func TestF1_1_WellKnownSockets(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		run := e.Mkdir(filepath.Join(e.Root, "run"))
		var names []string
		var quiet []*Listener
		add := func(path string) {
			os.MkdirAll(filepath.Dir(path), 0o755)
			quiet = append(quiet, Listen(t, "unix", path))
			names = append(names, "unix-connect stream "+path)
		}
		add(filepath.Join(run, "bus"))
		if isRoot && isPrivate {
			e.tmpfsOver("/run")
			for _, p := range []string{"/run/docker.sock", "/run/containerd/containerd.sock", "/run/systemd/private",
				"/run/dbus/system_bus_socket", fmt.Sprintf("/run/user/%d/bus", e.UID)} {
				add(p)
			}
		}
		agent := filepath.Join(run, "agent.sock")
		if e.HasTool("ssh-agent") != "" {
			e.Background("ssh-agent", "-D", "-a", agent)
			eventually(t, 5*time.Second, "ssh-agent listens", func() bool { return Exists(agent) })
			names = append(names, "unix-connect stream "+agent)
		} else {
			fmt.Printf("NOTE %s: no ssh-agent\n", t.Name())
		}
		tmux := filepath.Join(run, "tmux.sock")
		if e.HasTool("tmux") != "" {
			// The server keeps what it inherits, the harness's pipes among it.
			e.Outside("sh", "-c", `tmux -S "$1" -f /dev/null new-session -d 'sleep 1000' </dev/null >/dev/null 2>&1`, "sh", tmux).OK(t)
			t.Cleanup(func() { e.Outside("tmux", "-S", tmux, "kill-server") })
			names = append(names, "unix-connect stream "+tmux)
		} else {
			fmt.Printf("NOTE %s: no tmux\n", t.Name())
		}
		o := Opts{Env: []string{"XDG_RUNTIME_DIR=" + run, "SSH_AUTH_SOCK=" + agent, "DBUS_SESSION_BUS_ADDRESS=unix:path=" + run + "/bus"}}

		a := e.ProbeOutside(names...)
		for _, n := range names {
			if a.Get(n).Result != "ok" {
				t.Errorf("control: outside %s: %v", n, a.Get(n))
			}
		}
		time.Sleep(50 * time.Millisecond)
		was := make([]int64, len(quiet))
		for i, l := range quiet {
			was[i] = l.Conns()
		}
		assertDenied(t, e.Probe(o, names...), names)
		for i, l := range quiet {
			l.Silent(t, was[i])
		}
		if Exists(tmux) {
			pwned := filepath.Join(e.O, "pwned")
			if r := e.Outside("tmux", "-S", tmux, "run-shell", "touch "+pwned+"-control"); r.Exit != 0 || !Exists(pwned+"-control") {
				t.Errorf("control: %s", r)
			}
			if r := e.Run(o, "tmux", "-S", tmux, "run-shell", "touch "+pwned); r.Exit == 0 || Exists(pwned) {
				t.Errorf("the outer tmux obeyed: %s", r)
			}
		}
	})
}

// F1-3: abstract sockets of the host.
func TestF1_3_AbstractSockets(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		stream := Listen(t, "unix", "@dshx-it-s-"+e.Mark)
		packet := Listen(t, "unixpacket", "@dshx-it-q-"+e.Mark)
		dgram := Listen(t, "unixgram", "@dshx-it-d-"+e.Mark)
		attempts := []string{
			"unix-connect stream " + stream.Addr, "unix-connect-nb stream " + stream.Addr, "unix-connect seqpacket " + packet.Addr,
			"unix-connect dgram " + dgram.Addr, "unix-sendto dgram " + dgram.Addr,
			"unix-sendmsg dgram " + dgram.Addr, "unix-sendmmsg dgram " + dgram.Addr,
			"unix-bound-sendto @own-" + e.Mark + " " + dgram.Addr,
		}
		assertAllowed(t, e.ProbeOutside(attempts...), attempts)
		time.Sleep(50 * time.Millisecond)
		s0, p0, d0 := stream.Conns(), packet.Conns(), dgram.Conns()

		a := e.Probe(Opts{}, attempts...)
		if a.Run.Enforcement().Has("abstract-sockets") {
			skipKernel(t, "dshx says that abstract sockets are not confined here")
		}
		assertDenied(t, a, attempts)
		stream.Silent(t, s0)
		packet.Silent(t, p0)
		dgram.Silent(t, d0)

		assertAllowed(t, e.ProbeOutside(attempts...), attempts) // the listeners still live
		time.Sleep(50 * time.Millisecond)
		if stream.Conns() == s0 || dgram.Conns() == d0 || packet.Conns() == p0 {
			t.Error("control: the listeners no longer count")
		}
		own := []string{"unix-pair stream @in-s-" + e.Mark, "unix-pair dgram @in-d-" + e.Mark, "unix-pair seqpacket @in-q-" + e.Mark}
		assertAllowed(t, e.Probe(Opts{}, own...), own)
	})
}

// F1-9: without network nothing leaves, by no protocol.
func TestF1_9_NoNetwork(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		var all []*Listener
		var attempts []string
		for _, addr := range []string{"127.0.0.1", "::1", ownAddress} {
			tcp, err := TryListen(t, "tcp", net.JoinHostPort(addr, "0"))
			if err != nil {
				fmt.Printf("NOTE %s: no %s: %v\n", t.Name(), addr, err)
				continue
			}
			udp := Listen(t, "udp", net.JoinHostPort(addr, "0"))
			all = append(all, tcp, udp)
			_, tp, _ := net.SplitHostPort(tcp.Addr)
			_, up, _ := net.SplitHostPort(udp.Addr)
			attempts = append(attempts, "tcp "+addr+" "+tp, "tfo "+addr+" "+tp)
			for _, verb := range []string{"sendto", "connect", "sendmsg", "sendmmsg"} {
				attempts = append(attempts, "udp-"+verb+" "+addr+" "+up)
			}
			if !strings.Contains(addr, ":") {
				attempts = append(attempts, "tcp ::ffff:"+addr+" "+tp, "udp-sendto ::ffff:"+addr+" "+up)
			}
		}
		total := func() (n int64) {
			time.Sleep(50 * time.Millisecond)
			for _, l := range all {
				n += l.Conns()
			}
			return n
		}
		exotic := []string{"socket packet 3 768", "socket packet 2 768", "socket alg 5 0", "socket vsock 1 0", "socket inet 3 1",
			"socket inet6 3 58", "socket inet 2 1", "socket inet 1 262", "socket inet 5 132", "socket key 3 2",
			"socket netlink 3 16", "socket netlink 3 9", "socket netlink 3 15", "socket netlink 3 4", "socket bluetooth 3 0", "socket can 3 1",
			"socket tipc 5 0", "socket xdp 3 0", "socket smc 1 0", "socket rds 5 0", "socket kcm 5 0", "socket qipcrtr 2 0",
			"socket mctp 2 0", "socket phonet 2 0", "socket pppox 2 0", "socket llc 2 0", "socket appletalk 2 0", "socket x25 5 0",
			"socket ax25 5 0", "socket nfc 5 0", "socket ieee802154 2 0", "socket isdn 3 0", "socket 45 1 0", "socket 46 1 0",
			"socket inet 1 0", "socket inet6 1 0", "socket inet 2 0", "socket inet6 2 0", "socket inet 2 136",
			"socketpair inet 1 0"}

		assertAllowed(t, e.ProbeOutside(attempts...), attempts)
		n0 := total()
		if n0 < int64(len(attempts)) {
			t.Errorf("control: the listeners heard %d of %d attempts", n0, len(attempts))
		}
		outside := e.ProbeOutside(exotic...)
		full := e.Probe(Opts{Preset: "danger-full-access"}, attempts...)
		assertAllowed(t, full, attempts)
		n0 = total()

		for _, preset := range []string{"workspace-write", "read-only"} {
			a := e.Probe(Opts{Preset: preset}, append(slices.Clone(attempts), exotic...)...)
			assertDenied(t, a, attempts)
			for _, name := range exotic {
				// Families that the kernel lacks are refused either way.
				assertDenied(t, a, []string{name}, "EAFNOSUPPORT", "EPROTONOSUPPORT")
				if outside.Get(name).Result == "ok" && a.Get(name).Result != "EACCES" && a.Get(name).Result != "EPERM" {
					t.Logf("%s: refused with %s", name, a.Get(name).Result)
				}
			}
			if n := total(); n != n0 {
				t.Errorf("%s: the listeners heard %d", preset, n-n0)
			}
		}
		ok := []string{"interfaces", "socket unix 1 0", "socketpair unix 1 0", "socket netlink 3 0"}
		assertAllowed(t, e.Probe(Opts{}, ok...), ok)
	})
}

// F1-9: name lookups carry bytes out, too.
func TestF1_9_NameLookup(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		needPrivateRoot(t)
		if !isOwnNet {
			skip(t, "needs a network namespace")
		}
		stub := dnsStub(t)
		e.bindOver("/etc/resolv.conf", "nameserver 127.0.0.53\noptions timeout:1 attempts:1\n")
		e.bindOver("/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n")
		name := func(s string) string { return "secret-" + s + ".example.com" }
		if a := e.ProbeOutside("lookup " + name("a")); a.Get("lookup "+name("a")).Result != "ok" || stub.Load() == 0 {
			t.Errorf("control: %s, %d queries", a.Run, stub.Load())
		}
		n := stub.Load()
		e.Run(Opts{Preset: "danger-full-access"}, "getent", "hosts", name("b"))
		if stub.Load() == n {
			t.Error("control: getent asks nobody under danger-full-access")
		}
		n = stub.Load()
		a := e.Probe(Opts{}, "lookup "+name("c"))
		if a.Get("lookup "+name("c")).Result == "ok" {
			t.Errorf("resolved inside: %s", a.Run)
		}
		if r := e.Run(Opts{}, "getent", "hosts", name("d")); r.Exit == 0 {
			t.Errorf("resolved inside: %s", r)
		}
		if got := stub.Load(); got != n {
			t.Errorf("the stub got %d queries", got-n)
		}
		if r := e.Run(Opts{}, "getent", "hosts", "localhost"); r.Exit != 0 {
			t.Errorf("control: localhost is in a file: %s", r)
		}
	})
}

// dnsStub answers every query on 127.0.0.53 with 192.0.2.1 and counts.
func dnsStub(t *testing.T) *atomic.Int64 {
	t.Helper()
	pc, err := net.ListenPacket("udp", "127.0.0.53:53")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pc.Close() })
	count := new(atomic.Int64)
	go func() {
		buf := make([]byte, 1500)
		for {
			n, from, err := pc.ReadFrom(buf)
			if err != nil {
				return
			}
			count.Add(1)
			q := buf[:n]
			end := 12
			for end < n && q[end] != 0 {
				end += int(q[end]) + 1
			}
			end += 5
			if end > n {
				continue
			}
			answers := byte(0)
			if q[end-3] == 1 { // QTYPE A
				answers = 1
			}
			reply := append([]byte{q[0], q[1], 0x81, 0x80, 0, 1, 0, answers, 0, 0, 0, 0}, q[12:end]...)
			if answers == 1 {
				reply = append(reply, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 1, 0, 4, 192, 0, 2, 1)
			}
			pc.WriteTo(reply, from)
		}
	}()
	return count
}
