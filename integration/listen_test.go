package integration

import (
	"io"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// Listener is something outside of the sandbox that must hear nothing from
// inside. It counts connections, datagrams and bytes, and answers a stream
// with its greeting.
type Listener struct {
	Addr  string // address to dial, "@name" for an abstract socket
	conns atomic.Int64
	bytes atomic.Int64
	close func()
}

// Conns is the number of connections or datagrams so far.
func (l *Listener) Conns() int64 { return l.conns.Load() }

// Bytes is the number of bytes received so far.
func (l *Listener) Bytes() int64 { return l.bytes.Load() }

// Close stops listening; the test's end does it too.
func (l *Listener) Close() { l.close() }

// Silent fails the test if anything has reached the listener since the count
// was was. It waits a moment, since what was sent may be on its way.
func (l *Listener) Silent(t *testing.T, was int64) {
	t.Helper()
	time.Sleep(50 * time.Millisecond)
	if n := l.Conns(); n != was {
		t.Errorf("%s heard %d connections or datagrams, want none", l.Addr, n-was)
	}
}

// Greeting is what a stream listener sends to whoever connects.
const Greeting = "hello from outside\n"

// Listen listens in the test's process, outside of the sandbox. Networks are
// those of package net: unix, unixgram, unixpacket, tcp, tcp4, tcp6, udp, udp4,
// udp6. Socket files have mode 0666.
func Listen(t *testing.T, network, addr string) *Listener {
	t.Helper()
	l, err := TryListen(t, network, addr)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TryListen is Listen for addresses that the host may not have.
func TryListen(t *testing.T, network, addr string) (*Listener, error) {
	l := &Listener{}
	switch network {
	case "unixgram", "udp", "udp4", "udp6":
		pc, err := net.ListenPacket(network, addr)
		if err != nil {
			return nil, err
		}
		l.Addr, l.close = pc.LocalAddr().String(), func() { pc.Close() }
		go func() {
			buf := make([]byte, 65536)
			for {
				n, from, err := pc.ReadFrom(buf)
				if err != nil {
					return
				}
				l.bytes.Add(int64(n))
				l.conns.Add(1)
				if from != nil && network != "unixgram" {
					pc.WriteTo([]byte(Greeting), from)
				}
			}
		}()
	default:
		ln, err := net.Listen(network, addr)
		if err != nil {
			return nil, err
		}
		l.Addr, l.close = ln.Addr().String(), func() { ln.Close() }
		go func() {
			for {
				c, err := ln.Accept()
				if err != nil {
					return
				}
				l.conns.Add(1)
				go func() {
					defer c.Close()
					c.Write([]byte(Greeting))
					c.SetDeadline(time.Now().Add(10 * time.Second))
					n, _ := io.Copy(io.Discard, c)
					l.bytes.Add(n)
				}()
			}
		}()
	}
	if strings.HasPrefix(network, "unix") && addr[0] != '@' {
		if err := os.Chmod(addr, 0o666); err != nil {
			return nil, err
		}
	}
	t.Cleanup(l.close)
	return l, nil
}
