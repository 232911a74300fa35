package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

var sockTypes = map[string]int{"stream": unix.SOCK_STREAM, "dgram": unix.SOCK_DGRAM, "seqpacket": unix.SOCK_SEQPACKET}

// unixSocket makes a socket of the type for the length of f.
func unixSocket(typ string, f func(fd int) error) error {
	fd, err := unix.Socket(unix.AF_UNIX, sockTypes[typ]|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("socket first: %w", err)
	}
	defer unix.Close(fd)
	return f(fd)
}

// The Unix socket attempts take a type and an address; "@name" is abstract.
func init() {
	register("unix-connect", func(a []string) (detail string, err error) {
		err = unixSocket(a[0], func(fd int) error {
			if err := unix.Connect(fd, &unix.SockaddrUnix{Name: a[1]}); err != nil {
				return err
			}
			if a[0] == "dgram" {
				_, err := unix.Write(fd, []byte("attack"))
				return err
			}
			detail = greeting(fd)
			return nil
		})
		return detail, err
	})
	register("unix-sendto", func(a []string) (string, error) {
		return "", unixSocket(a[0], func(fd int) error {
			return unix.Sendto(fd, []byte("attack"), 0, &unix.SockaddrUnix{Name: a[1]})
		})
	})
	register("unix-sendmsg", func(a []string) (string, error) {
		return "", unixSocket(a[0], func(fd int) error {
			return unix.Sendmsg(fd, []byte("attack"), nil, &unix.SockaddrUnix{Name: a[1]}, 0)
		})
	})
	register("unix-sendmmsg", func(a []string) (string, error) {
		return "", unixSocket(a[0], func(fd int) error {
			name, size := sockaddrUnix(a[1])
			return sendmmsg(fd, name, size)
		})
	})
	// A socket that is bound inside sends; the judge must look at the
	// destination, not at the sender.
	register("unix-bound-sendto", func(a []string) (string, error) {
		return "", unixSocket("dgram", func(fd int) error {
			if err := unix.Bind(fd, &unix.SockaddrUnix{Name: a[0]}); err != nil {
				return fmt.Errorf("bind first: %w", err)
			}
			if a[0][0] != '@' {
				defer unix.Unlink(a[0])
			}
			return unix.Sendto(fd, []byte("attack"), 0, &unix.SockaddrUnix{Name: a[1]})
		})
	})
	register("unix-bind", func(a []string) (string, error) {
		return "", unixSocket(a[0], func(fd int) error { return unix.Bind(fd, &unix.SockaddrUnix{Name: a[1]}) })
	})
	// A non-blocking connect, as asynchronous programs make it.
	register("unix-connect-nb", func(a []string) (string, error) {
		return "", unixSocket(a[0], func(fd int) error {
			unix.SetNonblock(fd, true)
			return unix.Connect(fd, &unix.SockaddrUnix{Name: a[1]})
		})
	})
	// A server here, a client in a child process, for each type.
	register("unix-pair", func(a []string) (string, error) { return "", unixPair(a[0], a[1]) })

	register("socket", func(a []string) (string, error) { // socket FAMILY TYPE PROTOCOL
		fd, err := unix.Socket(family(a[0]), atoi(a[1]), atoi(a[2]))
		if err == nil {
			unix.Close(fd)
		}
		return "", err
	})
	register("socketpair", func(a []string) (string, error) {
		fds, err := unix.Socketpair(family(a[0]), atoi(a[1]), atoi(a[2]))
		if err == nil {
			unix.Close(fds[0])
			unix.Close(fds[1])
		}
		return "", err
	})

	// Internet attempts take an address and a port. "tcp ok" means that the
	// listener's greeting came back.
	register("tcp", func(a []string) (detail string, err error) {
		err = inet(unix.SOCK_STREAM, a[0], a[1], func(fd int, sa unix.Sockaddr, _ []byte) error {
			if err := unix.Connect(fd, sa); err != nil {
				return err
			}
			unix.Write(fd, []byte("attack"))
			detail = greeting(fd)
			return nil
		})
		return detail, err
	})
	register("tfo", func(a []string) (detail string, err error) {
		err = inet(unix.SOCK_STREAM, a[0], a[1], func(fd int, sa unix.Sockaddr, _ []byte) error {
			if err := unix.Sendto(fd, []byte("attack"), unix.MSG_FASTOPEN, sa); err != nil {
				return err
			}
			detail = greeting(fd)
			return nil
		})
		return detail, err
	})
	register("udp-sendto", inetUDP(func(fd int, sa unix.Sockaddr, _ []byte) error {
		return unix.Sendto(fd, []byte("attack"), 0, sa)
	}))
	register("udp-connect", inetUDP(func(fd int, sa unix.Sockaddr, _ []byte) error {
		if err := unix.Connect(fd, sa); err != nil {
			return err
		}
		_, err := unix.Write(fd, []byte("attack"))
		return err
	}))
	register("udp-sendmsg", inetUDP(func(fd int, sa unix.Sockaddr, _ []byte) error {
		return unix.Sendmsg(fd, []byte("attack"), nil, sa, 0)
	}))
	register("udp-sendmmsg", inetUDP(func(fd int, _ unix.Sockaddr, raw []byte) error {
		return sendmmsg(fd, unsafe.Pointer(&raw[0]), uint32(len(raw)))
	}))
	register("lookup", func(a []string) (string, error) { // through /etc/resolv.conf
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		list, err := (&net.Resolver{PreferGo: true}).LookupHost(ctx, a[0])
		return strings.Join(list, " "), err
	})
	register("interfaces", func([]string) (string, error) {
		list, err := net.Interfaces()
		return fmt.Sprint(len(list)), err
	})
}

var families = map[string]int{
	"inet": unix.AF_INET, "inet6": unix.AF_INET6, "packet": unix.AF_PACKET, "alg": unix.AF_ALG, "vsock": unix.AF_VSOCK,
	"netlink": unix.AF_NETLINK, "key": unix.AF_KEY, "bluetooth": unix.AF_BLUETOOTH, "can": unix.AF_CAN, "tipc": unix.AF_TIPC,
	"xdp": unix.AF_XDP, "smc": 43, "rds": unix.AF_RDS, "kcm": unix.AF_KCM, "qipcrtr": unix.AF_QIPCRTR, "mctp": unix.AF_MCTP,
	"phonet": unix.AF_PHONET, "pppox": unix.AF_PPPOX, "llc": unix.AF_LLC, "appletalk": unix.AF_APPLETALK, "x25": unix.AF_X25,
	"ax25": unix.AF_AX25, "nfc": unix.AF_NFC, "ieee802154": unix.AF_IEEE802154, "isdn": unix.AF_ISDN, "unix": unix.AF_UNIX,
}

func family(name string) int {
	if f, ok := families[name]; ok {
		return f
	}
	return atoi(name)
}

func greeting(fd int) string {
	unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 500000})
	buf := make([]byte, 200)
	n, err := unix.Read(fd, buf)
	if err != nil {
		return err.Error()
	}
	return string(buf[:n])
}

// inet makes a socket for the address and hands over the address as a
// Sockaddr and as raw bytes.
func inet(typ int, addr, port string, f func(fd int, sa unix.Sockaddr, raw []byte) error) error {
	ip, p := net.ParseIP(addr), atoi(port)
	if ip4 := ip.To4(); ip4 != nil && !strings.Contains(addr, ":") {
		fd, err := unix.Socket(unix.AF_INET, typ|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		raw := make([]byte, unix.SizeofSockaddrInet4)
		*(*uint16)(unsafe.Pointer(&raw[0])) = unix.AF_INET
		raw[2], raw[3] = byte(p>>8), byte(p)
		copy(raw[4:], ip4)
		return f(fd, &unix.SockaddrInet4{Port: p, Addr: [4]byte(ip4)}, raw)
	}
	fd, err := unix.Socket(unix.AF_INET6, typ|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	raw := make([]byte, unix.SizeofSockaddrInet6)
	*(*uint16)(unsafe.Pointer(&raw[0])) = unix.AF_INET6
	raw[2], raw[3] = byte(p>>8), byte(p)
	copy(raw[8:], ip.To16())
	return f(fd, &unix.SockaddrInet6{Port: p, Addr: [16]byte(ip.To16())}, raw)
}

func inetUDP(f func(fd int, sa unix.Sockaddr, raw []byte) error) op {
	return func(a []string) (string, error) { return "", inet(unix.SOCK_DGRAM, a[0], a[1], f) }
}

func sockaddrUnix(name string) (unsafe.Pointer, uint32) {
	raw := new(unix.RawSockaddrUnix)
	raw.Family = unix.AF_UNIX
	for i := range len(name) {
		raw.Path[i] = int8(name[i])
	}
	n := uint32(2 + len(name))
	if name[0] == '@' {
		raw.Path[0] = 0
	} else {
		n++
	}
	return unsafe.Pointer(raw), n
}

// sendmmsg sends one datagram by sendmmsg(2), which x/sys does not wrap.
func sendmmsg(fd int, name unsafe.Pointer, size uint32) error {
	text := []byte("attack")
	type mmsghdr struct {
		hdr unix.Msghdr
		n   uint32
		_   [4]byte
	}
	iov := unix.Iovec{Base: &text[0]}
	iov.SetLen(len(text))
	msg := []mmsghdr{{hdr: unix.Msghdr{Name: (*byte)(name), Namelen: size, Iov: &iov}}}
	msg[0].hdr.SetIovlen(1)
	_, _, e := unix.Syscall6(unix.SYS_SENDMMSG, uintptr(fd), uintptr(unsafe.Pointer(&msg[0])), 1, 0, 0, 0)
	return errno(e)
}

// unixPair has a server in this process and a client in a child.
func unixPair(typ, addr string) error {
	network := map[string]string{"stream": "unix", "dgram": "unixgram", "seqpacket": "unixpacket"}[typ]
	got := make(chan error, 1)
	if typ == "dgram" {
		pc, err := net.ListenPacket(network, addr)
		if err != nil {
			return fmt.Errorf("bind: %w", err)
		}
		defer pc.Close()
		pc.SetReadDeadline(time.Now().Add(5 * time.Second))
		go func() {
			_, _, err := pc.ReadFrom(make([]byte, 100))
			got <- err
		}()
	} else {
		ln, err := net.Listen(network, addr)
		if err != nil {
			return fmt.Errorf("bind: %w", err)
		}
		defer ln.Close()
		ln.(*net.UnixListener).SetDeadline(time.Now().Add(5 * time.Second))
		go func() {
			c, err := ln.Accept()
			if err == nil {
				_, err = io.WriteString(c, "hello from inside")
				c.Close()
			}
			got <- err
		}()
	}
	verb := "unix-connect"
	if typ == "dgram" {
		verb = "unix-sendto"
	}
	out, err := exec.Command("/proc/self/exe", "do", verb+" "+typ+" "+addr).CombinedOutput()
	if err != nil {
		return fmt.Errorf("client: %w: %s", err, out)
	}
	if !strings.Contains(string(out), " ok") {
		return fmt.Errorf("client: %s", strings.TrimSpace(string(out)))
	}
	if addr[0] != '@' {
		defer os.Remove(addr)
	}
	return <-got
}
