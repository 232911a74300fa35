package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

func init() {
	registerProgram("f2-unix", f2Unix)
	registerProgram("f2-unix-client", f2UnixClient)
	registerProgram("f2-socketpair", f2Socketpair)
	registerProgram("f2-net", f2Net)
	registerProgram("f2-net-client", f2NetClient)
	registerProgram("f2-ifaces", f2Ifaces)
	registerProgram("f2-dial", f2Dial)
	registerProgram("f2-wildcard", f2Wildcard)
}

// complain prints an error and returns the status of a failure.
func complain(what string, err error) int {
	fmt.Fprintf(os.Stderr, "%s: %v\n", what, err)
	return 1
}

// runSelf runs the probe as a child, or as a grandchild below a shell.
func runSelf(below bool, files []*os.File, args ...string) ([]byte, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	argv := append([]string{self}, args...)
	if below {
		argv = append([]string{"sh", "-c", `"$@"; exit $?`, "sh"}, argv...)
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.ExtraFiles = files
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, strings.TrimSpace(errs.String()))
	}
	return out, err
}

// f2Unix DIR serves stream, seqpacket and datagram sockets in DIR and an
// abstract one to a child and a grandchild, takes a descriptor from each, and
// prints what it got.
func f2Unix(args []string) int {
	dir := args[0]
	abstract := fmt.Sprintf("@f2-%d", os.Getpid())
	serve := func(network, addr string) (io.Closer, error) {
		l, err := net.ListenUnix(network, &net.UnixAddr{Name: addr, Net: network})
		if err != nil {
			return nil, err
		}
		go func() {
			for {
				c, err := l.AcceptUnix()
				if err != nil {
					return
				}
				go func() {
					defer c.Close()
					buf, oob := make([]byte, 64), make([]byte, 128)
					n, oobn, _, _, err := c.ReadMsgUnix(buf, oob)
					if err != nil {
						return
					}
					reply := "got " + string(buf[:n])
					if text, err := readPassed(oob[:oobn]); err == nil {
						reply += " with " + text
					}
					c.Write([]byte(reply))
				}()
			}
		}()
		return l, nil
	}
	for _, l := range []struct{ network, addr string }{
		{"unix", filepath.Join(dir, "stream")}, {"unixpacket", filepath.Join(dir, "packet")}, {"unix", abstract},
	} {
		c, err := serve(l.network, l.addr)
		if err != nil {
			return complain("listen", err)
		}
		defer c.Close()
	}
	dgram, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(dir, "dgram"), Net: "unixgram"})
	if err != nil {
		return complain("bind", err)
	}
	defer dgram.Close()
	defer os.Remove(filepath.Join(dir, "dgram"))
	go func() {
		buf := make([]byte, 64)
		for {
			n, from, err := dgram.ReadFromUnix(buf)
			if err != nil {
				return
			}
			if from != nil {
				dgram.WriteToUnix([]byte("got "+string(buf[:n])), from)
			}
		}
	}()
	for _, below := range []bool{false, true} {
		out, err := runSelf(below, nil, "f2-unix-client", dir, abstract)
		if err != nil {
			return complain("client", err)
		}
		os.Stdout.Write(out)
	}
	return 0
}

// readPassed reads a descriptor that came with a message.
func readPassed(oob []byte) (string, error) {
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil || len(msgs) == 0 {
		return "", errors.New("nothing passed")
	}
	fds, err := unix.ParseUnixRights(&msgs[0])
	if err != nil || len(fds) == 0 {
		return "", errors.New("nothing passed")
	}
	f := os.NewFile(uintptr(fds[0]), "passed")
	defer f.Close()
	text, err := io.ReadAll(f)
	return string(text), err
}

func f2UnixClient(args []string) int {
	dir, abstract := args[0], args[1]
	for _, c := range []struct{ network, addr string }{
		{"unix", filepath.Join(dir, "stream")}, {"unixpacket", filepath.Join(dir, "packet")}, {"unix", abstract},
	} {
		conn, err := net.DialUnix(c.network, nil, &net.UnixAddr{Name: c.addr, Net: c.network})
		if err != nil {
			return complain("connect", err)
		}
		passed, err := os.CreateTemp("", "passed")
		if err != nil {
			return complain("temp", err)
		}
		passed.WriteString("a file")
		passed.Seek(0, io.SeekStart)
		if _, _, err := conn.WriteMsgUnix([]byte("hello"), unix.UnixRights(int(passed.Fd())), nil); err != nil {
			return complain("sendmsg", err)
		}
		buf := make([]byte, 64)
		n, err := conn.Read(buf)
		if err != nil {
			return complain("read", err)
		}
		passed.Close()
		os.Remove(passed.Name())
		conn.Close()
		fmt.Printf("%s: %s\n", c.network, buf[:n])
	}
	// A datagram client has a name of its own to be answered at.
	own := filepath.Join(dir, fmt.Sprintf("client-%d", os.Getpid()))
	pc, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: own, Net: "unixgram"})
	if err != nil {
		return complain("bind", err)
	}
	defer pc.Close()
	defer os.Remove(own)
	server := &net.UnixAddr{Name: filepath.Join(dir, "dgram"), Net: "unixgram"}
	for _, send := range []func() error{
		func() error { _, err := pc.WriteToUnix([]byte("sendto"), server); return err },
		func() error { _, _, err := pc.WriteMsgUnix([]byte("sendmsg"), nil, server); return err },
	} {
		if err := send(); err != nil {
			return complain("send", err)
		}
		buf := make([]byte, 64)
		pc.SetReadDeadline(time.Now().Add(10 * time.Second))
		n, _, err := pc.ReadFromUnix(buf)
		if err != nil {
			return complain("answer", err)
		}
		fmt.Printf("unixgram: %s\n", buf[:n])
	}
	return 0
}

// f2Socketpair talks to a child over a socket pair.
func f2Socketpair(args []string) int {
	if len(args) == 1 { // the child
		c, err := net.FileConn(os.NewFile(3, "pair"))
		if err != nil {
			return complain("child", err)
		}
		io.Copy(c, c)
		return 0
	}
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return complain("socketpair", err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "ours"), os.NewFile(uintptr(fds[1]), "theirs")
	done := make(chan error, 1)
	go func() { _, err := runSelf(false, []*os.File{theirs}, "f2-socketpair", "child"); done <- err }()
	ours.Write([]byte("there and back"))
	buf := make([]byte, 14)
	if _, err := io.ReadFull(ours, buf); err != nil {
		return complain("read", err)
	}
	unix.Shutdown(fds[0], unix.SHUT_WR)
	if err := <-done; err != nil {
		return complain("child", err)
	}
	fmt.Println(string(buf))
	return 0
}

// f2Net serves TCP, UDP and HTTP on loopback addresses to a child and a
// grandchild. Addresses that the machine doesn't have are left out and named.
func f2Net(args []string) int {
	var addrs []string
	for _, host := range []string{"127.0.0.1", "[::1]"} {
		l, err := net.Listen("tcp", host+":0")
		if errors.Is(err, unix.EADDRNOTAVAIL) || errors.Is(err, unix.EAFNOSUPPORT) {
			fmt.Println("no", host)
			continue
		}
		if err != nil {
			return complain("listen", err)
		}
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				io.Copy(c, c)
				c.Close()
			}
		}()
		pc, err := net.ListenPacket("udp", host+":0")
		if err != nil {
			return complain("bind", err)
		}
		go func() {
			buf := make([]byte, 64)
			for {
				n, from, err := pc.ReadFrom(buf)
				if err != nil {
					return
				}
				pc.WriteTo(buf[:n], from)
			}
		}()
		addrs = append(addrs, "tcp", l.Addr().String(), "udp", pc.LocalAddr().String())
	}
	web, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		return complain("listen on localhost", err)
	}
	go http.Serve(web, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "a page") }))
	addrs = append(addrs, "http", fmt.Sprintf("http://localhost:%d/", web.Addr().(*net.TCPAddr).Port))
	for _, below := range []bool{false, true} {
		out, err := runSelf(below, nil, append([]string{"f2-net-client"}, addrs...)...)
		if err != nil {
			return complain("client", err)
		}
		os.Stdout.Write(out)
	}
	return 0
}

func f2NetClient(args []string) int {
	for ; len(args) >= 2; args = args[2:] {
		network, addr := args[0], args[1]
		if network == "http" {
			resp, err := http.Get(addr)
			if err != nil {
				return complain("get", err)
			}
			text, _ := io.ReadAll(resp.Body)
			fmt.Printf("http: %s\n", text)
			continue
		}
		c, err := net.DialTimeout(network, addr, 10*time.Second)
		if err != nil {
			return complain("connect", err)
		}
		c.SetDeadline(time.Now().Add(10 * time.Second))
		send := func() error { _, err := c.Write([]byte("ping")); return err }
		if network == "udp" { // unconnected, once with each call
			pc, err := net.ListenUDP("udp", ownSide(addr))
			if err != nil {
				return complain("bind", err)
			}
			to, _ := net.ResolveUDPAddr("udp", addr)
			pc.SetDeadline(time.Now().Add(10 * time.Second))
			for _, send := range []func() error{
				func() error { _, err := pc.WriteToUDP([]byte("one"), to); return err },
				func() error { _, _, err := pc.WriteMsgUDP([]byte("two"), nil, to); return err },
			} {
				if err := send(); err != nil {
					return complain("send", err)
				}
				if _, _, err := pc.ReadFromUDP(make([]byte, 8)); err != nil {
					return complain("answer", err)
				}
			}
			pc.Close()
		}
		if err := send(); err != nil {
			return complain("write", err)
		}
		buf := make([]byte, 4)
		if _, err := io.ReadFull(c, buf); err != nil {
			return complain("read", err)
		}
		c.Close()
		fmt.Printf("%s: %s\n", network, buf)
	}
	return 0
}

// ownSide is a local loopback address of the same family, port 0.
func ownSide(addr string) *net.UDPAddr {
	a, err := net.ResolveUDPAddr("udp", addr)
	if err != nil {
		return nil
	}
	return &net.UDPAddr{IP: a.IP}
}

// f2Ifaces lists interfaces and resolves localhost.
func f2Ifaces(args []string) int {
	ifs, err := net.Interfaces()
	if err != nil {
		return complain("interfaces", err)
	}
	if _, err := net.InterfaceAddrs(); err != nil {
		return complain("addresses", err)
	}
	addrs, err := net.LookupHost("localhost")
	if err != nil {
		return complain("lookup", err)
	}
	for _, a := range addrs {
		if !net.ParseIP(a).IsLoopback() {
			return complain("lookup", fmt.Errorf("localhost is %s", a))
		}
	}
	fmt.Println(len(ifs), "interfaces, localhost resolved")
	return 0
}

// f2Dial NETWORK ADDRESS is a client such as docker's: it connects, reads a
// line, and fails when it can't.
func f2Dial(args []string) int {
	c, err := net.DialTimeout(args[0], args[1], 5*time.Second)
	if err != nil {
		return complain("cannot connect to the daemon", err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(5 * time.Second))
	if strings.HasPrefix(args[0], "udp") { // a server learns of a client by what it sends
		if _, err := c.Write([]byte("hello")); err != nil {
			return complain("write", err)
		}
	}
	buf := make([]byte, 64)
	n, err := c.Read(buf)
	if err != nil {
		return complain("read", err)
	}
	fmt.Printf("%s", buf[:n])
	return 0
}

// f2Wildcard serves on 0.0.0.0 and prints its address, and "reached" if it can
// be reached at an address of the machine that is not a loopback one.
func f2Wildcard(args []string) int {
	l, err := net.Listen("tcp4", "0.0.0.0:0")
	if err != nil {
		return complain("listen", err)
	}
	fmt.Println(l.Addr())
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return complain("addresses", err)
	}
	for _, a := range addrs {
		ip, _, err := net.ParseCIDR(a.String())
		if err != nil || ip.To4() == nil || ip.IsLoopback() {
			continue
		}
		c, err := net.DialTimeout("tcp4", net.JoinHostPort(ip.String(), fmt.Sprint(l.Addr().(*net.TCPAddr).Port)), time.Second)
		if err == nil {
			c.Close()
			fmt.Println("reached", ip)
		}
	}
	return 0
}
