package supervise

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// unixAddr makes the address of a name: "@x" abstract, else a path.
func unixAddr(name string) unix.Sockaddr { return &unix.SockaddrUnix{Name: name} }

func inetAddr(s string) (int, unix.Sockaddr) {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		panic(err)
	}
	p, _ := strconv.Atoi(port)
	ip := net.ParseIP(host)
	if strings.Contains(host, ":") {
		return unix.AF_INET6, &unix.SockaddrInet6{Port: p, Addr: [16]byte(ip.To16())}
	}
	return unix.AF_INET, &unix.SockaddrInet4{Port: p, Addr: [4]byte(ip.To4())}
}

func sockType(s string) int {
	return map[string]int{"stream": unix.SOCK_STREAM, "dgram": unix.SOCK_DGRAM, "seq": unix.SOCK_SEQPACKET}[s]
}

var helperSocketOps = map[string]func(a []string) (string, error){
	// uconnect TYPE NAME
	"uconnect": func(a []string) (string, error) {
		fd, err := unix.Socket(unix.AF_UNIX, sockType(a[1]), 0)
		if err != nil {
			return "", err
		}
		defer unix.Close(fd)
		return "", unix.Connect(fd, unixAddr(a[2]))
	},
	// usend HOW NAME: a datagram by sendto, sendmsg or sendmmsg
	"usend": func(a []string) (string, error) {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
		if err != nil {
			return "", err
		}
		defer unix.Close(fd)
		switch a[1] {
		case "sendto":
			return "", unix.Sendto(fd, []byte("x"), 0, unixAddr(a[2]))
		case "sendmsg":
			return "", unix.Sendmsg(fd, []byte("x"), nil, unixAddr(a[2]), 0)
		}
		return sendmmsg(fd, a[2])
	},
	// serve TYPE NAME: binds, connects to itself, exchanges data and prints
	// what getsockname says
	"serve": func(a []string) (string, error) {
		fd, err := unix.Socket(unix.AF_UNIX, sockType(a[1]), 0)
		if err != nil {
			return "", err
		}
		defer unix.Close(fd)
		if err := unix.Bind(fd, unixAddr(a[2])); err != nil {
			return " bind", err
		}
		self, err := unix.Getsockname(fd)
		if err != nil {
			return "", err
		}
		name := " " + self.(*unix.SockaddrUnix).Name
		c, err := unix.Socket(unix.AF_UNIX, sockType(a[1]), 0)
		if err != nil {
			return "", err
		}
		defer unix.Close(c)
		if a[1] != "dgram" {
			if err := unix.Listen(fd, 1); err != nil {
				return "", err
			}
		}
		if err := unix.Connect(c, unixAddr(a[2])); err != nil {
			return " connect", err
		}
		peer, err := unix.Getpeername(c)
		if err != nil {
			return "", err
		}
		name += " " + peer.(*unix.SockaddrUnix).Name
		if a[1] == "dgram" {
			if err := unix.Sendmsg(c, []byte("x"), nil, unixAddr(a[2]), 0); err != nil {
				return "", err
			}
			b := make([]byte, 9)
			n, err := unix.Read(fd, b)
			if err != nil || n != 1 {
				return "", fmt.Errorf("received %d, %v", n, err)
			}
		} else {
			p, _, err := unix.Accept(fd)
			if err != nil {
				return "", err
			}
			defer unix.Close(p)
			return name, passDescriptor(c, p)
		}
		return name, nil
	},
	"pass": func(a []string) (string, error) {
		p, err := unix.Socketpair(unix.AF_UNIX, sockType(a[1]), 0)
		if err != nil {
			return "", err
		}
		return "", passDescriptor(p[0], p[1])
	},
	// bigsend BYTES: sends through a socket pair with sendmsg while reading
	// rights N...: one message with as many control messages of so many descriptors
	"rights": func(a []string) (string, error) {
		p, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		if err != nil {
			return "", err
		}
		var oob []byte
		for _, n := range a[1:] {
			n, _ := strconv.Atoi(n)
			oob = append(oob, unix.UnixRights(make([]int, n)...)...)
		}
		return "", unix.Sendmsg(p[0], []byte("x"), oob, nil, 0)
	},
	// blocksend THREADS DESCRIPTORS: threads that wait in sendmsg, each with
	// descriptors to pass, until standard input ends. Prints how many wait and
	// what the others got.
	"blocksend": func(a []string) (string, error) {
		threads, _ := strconv.Atoi(a[1])
		n, _ := strconv.Atoi(a[2])
		p, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		if err != nil {
			return "", err
		}
		for {
			if _, err := unix.SendmsgN(p[0], make([]byte, 4096), nil, nil, unix.MSG_DONTWAIT); err != nil {
				break
			}
		}
		oob := unix.UnixRights(make([]int, n)...)
		errs := make(chan error, threads)
		for range threads {
			go func() { errs <- unix.Sendmsg(p[0], []byte("x"), oob, nil, 0) }()
		}
		got := map[string]int{}
		for quiet := time.After(time.Second); ; {
			select {
			case err := <-errs:
				got[fmt.Sprint(errno(err))]++
				threads--
				continue
			case <-quiet:
			}
			break
		}
		fmt.Println(threads, got)
		io.Copy(io.Discard, os.Stdin)
		return "", nil
	},
	"bigsend": func(a []string) (string, error) {
		size, _ := strconv.Atoi(a[1])
		p, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		if err != nil {
			return "", err
		}
		data := make([]byte, size)
		for i := range data {
			data[i] = byte(i * 7)
		}
		done := make(chan error)
		go func() {
			got := 0
			b := make([]byte, 1<<16)
			for got < size {
				n, err := unix.Read(p[1], b)
				if err != nil || n == 0 {
					done <- fmt.Errorf("read %d: %v", n, err)
					return
				}
				for i := range n {
					if b[i] != byte((got+i)*7) {
						done <- fmt.Errorf("byte %d is wrong", got+i)
						return
					}
				}
				got += n
			}
			done <- nil
		}()
		for sent := 0; sent < size; {
			n, err := unix.SendmsgN(p[0], data[sent:], nil, nil, 0)
			if err != nil {
				return "", err
			}
			sent += n
		}
		return "", <-done
	},
	// pipe: sendmsg to a peer that is gone
	"epipe": func(a []string) (string, error) {
		p, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		if err != nil {
			return "", err
		}
		unix.Close(p[1])
		flags := 0
		if a[1] == "nosignal" {
			flags = unix.MSG_NOSIGNAL
		}
		return "", unix.Sendmsg(p[0], []byte("x"), nil, nil, flags)
	},
	"iconnect": func(a []string) (string, error) {
		family, addr := inetAddr(a[2])
		fd, err := unix.Socket(family, sockType(a[1]), 0)
		if err != nil {
			return "", err
		}
		defer unix.Close(fd)
		return "", unix.Connect(fd, addr)
	},
	"isend": func(a []string) (string, error) {
		family, addr := inetAddr(a[2])
		fd, err := unix.Socket(family, unix.SOCK_DGRAM, 0)
		if err != nil {
			return "", err
		}
		defer unix.Close(fd)
		if a[1] == "sendto" {
			err = unix.Sendto(fd, []byte("x"), 0, addr)
		} else if a[1] == "unspec" {
			raw := make([]byte, 16)
			copy(raw[4:], addr.(*unix.SockaddrInet4).Addr[:])
			raw[2], raw[3] = byte(addr.(*unix.SockaddrInet4).Port>>8), byte(addr.(*unix.SockaddrInet4).Port)
			_, err = rawSendto(fd, []byte("x"), raw)
		} else {
			err = unix.Sendmsg(fd, []byte("x"), nil, addr, 0)
		}
		if err != nil {
			return "", err
		}
		self, err := unix.Getsockname(fd)
		if in4, ok := self.(*unix.SockaddrInet4); ok {
			return " " + net.IP(in4.Addr[:]).String(), err
		}
		return " " + net.IP(self.(*unix.SockaddrInet6).Addr[:]).String(), err
	},
	// ictl CONTROL ADDRESS: a datagram with a control message, LEVEL:TYPE:HEX
	"ictl": func(a []string) (string, error) {
		family, addr := inetAddr(a[2])
		fd, err := unix.Socket(family, unix.SOCK_DGRAM, 0)
		if err != nil {
			return "", err
		}
		defer unix.Close(fd)
		var c scm
		if _, err := fmt.Sscanf(a[1], "%d:%d:%x", &c.level, &c.typ, &c.data); err != nil {
			return "", err
		}
		return "", unix.Sendmsg(fd, []byte("x"), appendControl(nil, c), addr, 0)
	},
	// iopt FAMILY LEVEL OPTION BYTES: sets an option to zeros
	"iopt": func(a []string) (string, error) {
		var n [4]int
		for i := range n {
			n[i], _ = strconv.Atoi(a[1+i])
		}
		fd, err := unix.Socket(n[0], unix.SOCK_DGRAM, 0)
		if err != nil {
			return "", err
		}
		defer unix.Close(fd)
		return "", unix.SetsockoptString(fd, n[1], n[2], strings.Repeat("\x00", n[3]))
	},
	"ibind": func(a []string) (string, error) {
		family, addr := inetAddr(a[2])
		fd, err := unix.Socket(family, sockType(a[1]), 0)
		if err != nil {
			return "", err
		}
		defer unix.Close(fd)
		return "", unix.Bind(fd, addr)
	},
	// ilisten FAMILY: listens on a socket that wasn't bound
	"ilisten": func(a []string) (string, error) {
		ln, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
		if err != nil {
			return "", err
		}
		defer unix.Close(ln)
		if err := unix.Listen(ln, 1); err != nil {
			return "", err
		}
		self, err := unix.Getsockname(ln)
		return " " + net.IP(self.(*unix.SockaddrInet4).Addr[:]).String(), err
	},
	// tcp ADDRESS: a server and a client of one's own
	"tcp": func(a []string) (string, error) {
		ln, err := net.Listen("tcp", a[1])
		if err != nil {
			return "", errno(err)
		}
		defer ln.Close()
		go func() {
			if c, err := ln.Accept(); err == nil {
				c.Write([]byte("hello"))
				c.Close()
			}
		}()
		c, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			return "", errno(err)
		}
		defer c.Close()
		b := make([]byte, 9)
		n, err := c.Read(b)
		return " " + string(b[:n]), err
	},
	// backlog NAME: a blocking connect to a full listener, ended by a signal
	// or by accept after 300 ms
	"backlog": func(a []string) (string, error) {
		ln, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		if err != nil {
			return "", err
		}
		if err := unix.Bind(ln, unixAddr(a[1])); err != nil {
			return "", err
		}
		if err := unix.Listen(ln, 0); err != nil {
			return "", err
		}
		time.AfterFunc(300*time.Millisecond, func() {
			for {
				if _, _, err := unix.Accept(ln); err != nil {
					return
				}
			}
		})
		start := time.Now()
		for range 3 {
			c, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
			if err != nil {
				return "", err
			}
			if err := unix.Connect(c, unixAddr(a[1])); err != nil {
				return "", err
			}
		}
		if d := time.Since(start); d < 200*time.Millisecond || d > 5*time.Second {
			return "", fmt.Errorf("three connects took %v", d)
		}
		return "", nil
	},
	"autobind": func(a []string) (string, error) {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
		if err != nil {
			return "", err
		}
		if _, err := rawBind(fd, []byte{unix.AF_UNIX, 0}); err != nil {
			return "", err
		}
		self, err := unix.Getsockname(fd)
		if err != nil {
			return "", err
		}
		return "", unix.Sendto(fd, []byte("x"), 0, self)
	},
	"ls": func(a []string) (string, error) {
		var st unix.Stat_t
		err := unix.Stat(a[1], &st)
		return fmt.Sprintf(" %o", st.Mode&0o7777), err
	},
	"interfaces": func([]string) (string, error) {
		i, err := net.Interfaces()
		if err == nil && len(i) == 0 {
			err = errors.New("no interfaces")
		}
		return "", err
	},
}

func errno(err error) error {
	var e unix.Errno
	if errors.As(err, &e) {
		return e
	}
	return err
}

// passDescriptor sends a descriptor with credentials from a to b.
func passDescriptor(a, b int) error {
	f, err := os.CreateTemp("", "pass")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	if _, err := f.WriteString("passed"); err != nil {
		return err
	}
	oob := append(unix.UnixRights(int(f.Fd())), unix.UnixCredentials(&unix.Ucred{Pid: int32(os.Getpid()), Uid: uint32(os.Getuid()), Gid: uint32(os.Getgid())})...)
	if err := unix.Sendmsg(a, []byte("x"), oob, nil, 0); err != nil {
		return err
	}
	buf, ctl := make([]byte, 8), make([]byte, 256)
	n, cn, _, _, err := unix.Recvmsg(b, buf, ctl, 0)
	if err != nil || n != 1 {
		return fmt.Errorf("received %d bytes: %v", n, err)
	}
	msgs, err := unix.ParseSocketControlMessage(ctl[:cn])
	if err != nil || len(msgs) != 1 {
		return fmt.Errorf("%d control messages: %v", len(msgs), err)
	}
	fds, err := unix.ParseUnixRights(&msgs[0])
	if err != nil || len(fds) != 1 {
		return fmt.Errorf("%d descriptors: %v", len(fds), err)
	}
	got := make([]byte, 9)
	n, err = unix.Pread(fds[0], got, 0)
	if err != nil || string(got[:n]) != "passed" {
		return fmt.Errorf("the descriptor gives %q: %v", got[:n], err)
	}
	return nil
}
