package supervise

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func sockaddr(family uint16, rest string) []byte {
	return append(binary.NativeEndian.AppendUint16(nil, family), rest...)
}

func TestParseAddress(t *testing.T) {
	const v6lo = "\x00\x50\x00\x00\x00\x00" + "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01"
	for _, c := range []struct {
		name       string
		domain     int
		raw        []byte
		connecting bool
		kind       addressKind
		text       string
		err        unix.Errno
	}{
		{"a path", unix.AF_UNIX, sockaddr(unix.AF_UNIX, "/a/b\x00junk"), true, addrPath, "/a/b", 0},
		{"a path without NUL", unix.AF_UNIX, sockaddr(unix.AF_UNIX, "/a/b"), true, addrPath, "/a/b", 0},
		{"an abstract name with a NUL", unix.AF_UNIX, sockaddr(unix.AF_UNIX, "\x00a\x00b"), true, addrAbstract, "a\x00b", 0},
		{"no name", unix.AF_UNIX, sockaddr(unix.AF_UNIX, ""), false, addrAuto, "", 0},
		{"a path that is too long", unix.AF_UNIX, sockaddr(unix.AF_UNIX, string(bytes.Repeat([]byte("a"), 109))), true, 0, "", unix.EINVAL},
		{"nothing", unix.AF_UNIX, nil, true, 0, "", unix.EINVAL},
		{"an internet address on a unix socket", unix.AF_UNIX, sockaddr(unix.AF_INET, "\x00\x50\x7f\x00\x00\x01"), true, 0, "", unix.EINVAL},
		{"IPv4", unix.AF_INET, sockaddr(unix.AF_INET, "\x00\x50\x7f\x00\x00\x0112345678"), true, addrInet, "127.0.0.1:80", 0},
		{"IPv4, too short", unix.AF_INET, sockaddr(unix.AF_INET, "\x00\x50\x7f\x00\x00\x01"), true, 0, "", unix.EINVAL},
		{"unspecified in a connect dissolves", unix.AF_INET, sockaddr(unix.AF_UNSPEC, "\x00\x50\x08\x08\x08\x0812345678"), true, addrNone, "", 0},
		{"unspecified in a send is IPv4", unix.AF_INET, sockaddr(unix.AF_UNSPEC, "\x00\x50\x08\x08\x08\x0812345678"), false, addrInet, "8.8.8.8:80", 0},
		{"IPv6", unix.AF_INET6, sockaddr(unix.AF_INET6, v6lo+"\x00\x00\x00\x00"), true, addrInet, "[::1]:80", 0},
		{"IPv6 without a scope", unix.AF_INET6, sockaddr(unix.AF_INET6, v6lo), true, addrInet, "[::1]:80", 0},
		{"IPv4 on an IPv6 socket", unix.AF_INET6, sockaddr(unix.AF_INET, "\x00\x50\x08\x08\x08\x0812345678"), false, addrInet, "8.8.8.8:80", 0},
		{"netlink to the kernel", unix.AF_NETLINK, sockaddr(unix.AF_NETLINK, "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"), false, addrNetlink, "", 0},
		{"another domain", unix.AF_VSOCK, sockaddr(unix.AF_VSOCK, "12345678901234"), true, 0, "", unix.EAFNOSUPPORT},
	} {
		a, e := parseAddress(c.domain, c.raw, c.connecting)
		text := a.name
		if a.kind == addrInet {
			text = a.inet.String()
		}
		if e != c.err || a.kind != c.kind || text != c.text {
			t.Errorf("%s: %v %q %v, not %v %q %v", c.name, a.kind, text, e, c.kind, c.text, c.err)
		}
	}
}

func FuzzParseAddress(f *testing.F) {
	f.Add(uint8(unix.AF_UNIX), sockaddr(unix.AF_UNIX, "/a\x00"), true)
	f.Add(uint8(unix.AF_INET), sockaddr(unix.AF_UNSPEC, "\x00\x50\x08\x08\x08\x0812345678"), false)
	f.Add(uint8(unix.AF_INET6), sockaddr(unix.AF_INET6, "1234567890123456789012345"), false)
	f.Fuzz(func(t *testing.T, domain uint8, b []byte, connecting bool) {
		a, e := parseAddress(int(domain), b, connecting)
		if e != 0 {
			return
		}
		switch a.kind {
		case addrPath:
			if a.name == "" || bytes.ContainsRune([]byte(a.name), 0) || len(a.name) > sunPathMax {
				t.Errorf("path %q", a.name)
			}
		case addrInet:
			if _, err := netip.ParseAddrPort(a.inet.String()); err != nil {
				t.Errorf("address %s: %v", a.inet, err)
			}
		case addrNone:
			if domain == unix.AF_INET && !connecting {
				t.Error("an AF_INET send without a judged address")
			}
		}
	})
}

func FuzzParseControl(f *testing.F) {
	f.Add(appendControl(appendControl(nil, scm{unix.SOL_SOCKET, unix.SCM_RIGHTS, []byte{3, 0, 0, 0}}), scm{unix.SOL_SOCKET, unix.SCM_CREDENTIALS, make([]byte, 12)}))
	f.Add([]byte{17, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 9})
	f.Fuzz(func(t *testing.T, b []byte) {
		all, e := parseControl(b)
		if e != 0 {
			return
		}
		// What we send on is read by the kernel as what we judged.
		var out []byte
		for _, c := range all {
			out = appendControl(out, c)
		}
		again, e := parseControl(out)
		if e != 0 || len(again) != len(all) {
			t.Fatalf("%d became %d: %v", len(all), len(again), e)
		}
		for i := range all {
			if again[i].level != all[i].level || again[i].typ != all[i].typ || !bytes.Equal(again[i].data, all[i].data) {
				t.Errorf("%+v became %+v", all[i], again[i])
			}
		}
	})
}

func FuzzParseMessage(f *testing.F) {
	f.Add(make([]byte, sizeofMsghdr), make([]byte, 32))
	f.Fuzz(func(t *testing.T, head, iov []byte) {
		if len(head) >= sizeofMsghdr {
			h, e := parseHeader(head)
			if e == 0 && (h.nameLen < 0 || h.nameLen > maxAddress || h.iovLen > maxIov || h.controlLen > maxControl) {
				t.Errorf("%+v", h)
			}
		}
		data, size, e := parseIov(iov)
		if e != 0 {
			return
		}
		sum := uint64(0)
		for _, s := range data {
			sum += s.size
		}
		if sum != size || size > 0x7ffff000 {
			t.Errorf("%d bytes, said to be %d", sum, size)
		}
	})
}

func FuzzParseText(f *testing.F) {
	f.Add([]byte("Num RefCount\nffff: 00000002 00000000 00010000 0001 01 12345 @a b\n"))
	f.Add([]byte("12 (a) b) S 1 77 3"))
	f.Add([]byte("Name:\tx\nTgid:\t12\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		parseUnixTable(b)
		statField(b, 5)
		field(b, "Tgid:")
		if len(b) >= 32 {
			if ts, e := parseTimes(b[:32], time.Microsecond); e == 0 && (ts[0].Nsec >= 1e9 || ts[1].Nsec < 0) {
				t.Error("microseconds became a special value")
			}
		}
	})
}

func TestParseText(t *testing.T) {
	names := parseUnixTable([]byte("Num RefCount Protocol Flags Type St Inode Path\n" +
		"0000: 00000002 00000000 00010000 0001 01 12345 @a b\n" +
		"0000: 00000003 00000000 00000000 0001 03   77\n" +
		"0000: 00000002 00000000 00010000 0001 01 5 /run/x\n"))
	if len(names) != 1 || names[12345] != "@a b" {
		t.Errorf("%v", names)
	}
	if g := statField([]byte("12 (a) S (b) R 1 77 3"), 5); g != 77 {
		t.Errorf("group %d", g)
	}
	if n := lastNumber("/proc/12/task/34/fd"); n != 34 {
		t.Errorf("last number %d", n)
	}
}
