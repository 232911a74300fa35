package supervise

import (
	"encoding/binary"
	"strconv"

	"golang.org/x/sys/unix"
)

// maxAddress is sizeof(struct sockaddr_storage): the kernel takes no longer one.
const maxAddress = 128

// sunPathMax is the size of sun_path, unix(7).
const sunPathMax = 108

type addressKind uint8

const (
	addrNone     addressKind = iota // AF_UNSPEC: dissolves a connection
	addrAuto                        // AF_UNIX without a name: the kernel chooses one
	addrAbstract                    // AF_UNIX, a name
	addrPath                        // AF_UNIX, a path
	addrInet                        // AF_INET or AF_INET6
	addrNetlink
)

// address is what a sockaddr says.
type address struct {
	kind   addressKind
	name   string // of addrAbstract without the leading NUL; of addrPath up to the NUL
	inet   inet   // of addrInet
	port   uint32 // of addrNetlink: nl_pid
	groups uint32 // of addrNetlink
}

// parseAddress reads the bytes of a sockaddr as a socket of the domain would.
// connecting: AF_UNSPEC dissolves a connection; in a bind or send an AF_INET
// socket takes it for AF_INET (net/ipv4/udp.c, af_inet.c), so it must be judged
// as that.
//
// Errors: EINVAL too short or long, EAFNOSUPPORT a family that isn't the
// domain's.
func parseAddress(domain int, b []byte, connecting bool) (address, unix.Errno) {
	if len(b) < 2 || len(b) > maxAddress {
		return address{}, unix.EINVAL
	}
	family := int(binary.NativeEndian.Uint16(b))
	if family == unix.AF_UNSPEC && connecting {
		return address{kind: addrNone}, 0
	}
	switch domain {
	case unix.AF_UNIX:
		path := b[2:]
		switch {
		case family != unix.AF_UNIX || len(path) > sunPathMax:
			return address{}, unix.EINVAL
		case len(path) == 0:
			return address{kind: addrAuto}, 0
		case path[0] == 0:
			return address{kind: addrAbstract, name: string(path[1:])}, 0
		}
		return address{kind: addrPath, name: cString(path)}, 0

	case unix.AF_INET, unix.AF_INET6:
		if domain == unix.AF_INET && family == unix.AF_UNSPEC {
			family = unix.AF_INET
		}
		switch family {
		case unix.AF_INET:
			if len(b) < unix.SizeofSockaddrInet4 {
				return address{}, unix.EINVAL
			}
			return address{kind: addrInet, inet: inet4([4]byte(b[4:8]), binary.BigEndian.Uint16(b[2:]))}, 0
		case unix.AF_INET6:
			const sin6LenRFC2133 = 24 // without sin6_scope_id
			if len(b) < sin6LenRFC2133 {
				return address{}, unix.EINVAL
			}
			return address{kind: addrInet, inet: inet{ip: [16]byte(b[8:24]), port: binary.BigEndian.Uint16(b[2:])}}, 0
		case unix.AF_UNSPEC:
			return address{kind: addrNone}, 0
		}
		return address{}, unix.EAFNOSUPPORT

	case unix.AF_NETLINK:
		if family != unix.AF_NETLINK || len(b) < unix.SizeofSockaddrNetlink {
			return address{}, unix.EINVAL
		}
		return address{kind: addrNetlink, port: binary.NativeEndian.Uint32(b[4:]), groups: binary.NativeEndian.Uint32(b[8:])}, 0
	}
	return address{}, unix.EAFNOSUPPORT
}

// family is the Judge's word for the address's family.
func (a address) family() string {
	switch a.kind {
	case addrInet:
		if a.inet.is4() {
			return "inet"
		}
		return "inet6"
	case addrNetlink:
		return "netlink"
	}
	return "unix"
}

// unixAddress is the sockaddr_un of a path, which must be shorter than sun_path.
func unixAddress(path []byte) []byte {
	b := make([]byte, 2, 2+len(path)+1)
	binary.NativeEndian.PutUint16(b, unix.AF_UNIX)
	b = append(b, path...)
	if path[len(path)-1] != 0 {
		b = append(b, 0)
	}
	return b
}

// loopbackAddress is the loopback address of the family that dst has, on a
// socket of the domain, with port 0.
func loopbackAddress(domain int, dst inet) []byte {
	if domain == unix.AF_INET {
		b := make([]byte, unix.SizeofSockaddrInet4)
		binary.NativeEndian.PutUint16(b, unix.AF_INET)
		copy(b[4:], []byte{127, 0, 0, 1})
		return b
	}
	b := make([]byte, unix.SizeofSockaddrInet6)
	binary.NativeEndian.PutUint16(b, unix.AF_INET6)
	ip := [16]byte{15: 1}
	if dst.is4() {
		ip = inet4([4]byte{127, 0, 0, 1}, 0).ip
	}
	copy(b[8:], ip[:])
	return b
}

// An inet is an internet address with its port. (Package net/netip has one as
// well; sandboxpolicy's address.go says why it isn't used.)
type inet struct {
	ip    [16]byte // of IPv4: mapped, RFC 4291, 2.5.5.2
	port  uint16
	plain bool // IPv4, in an address of that family
}

func inet4(b [4]byte, port uint16) inet {
	return inet{ip: [16]byte{10: 0xff, 11: 0xff, 12: b[0], 13: b[1], 14: b[2], 15: b[3]}, port: port, plain: true}
}

// is4 reports whether packets to a are IPv4's.
func (a inet) is4() bool { return [12]byte(a.ip[:12]) == [12]byte{10: 0xff, 11: 0xff} }

// ours reports whether a is the loopback's or no address at all.
func (a inet) ours() bool {
	if a.is4() {
		return a.ip[12] == 127 || [4]byte(a.ip[12:]) == [4]byte{}
	}
	return a.ip == [16]byte{15: 1} || a.ip == [16]byte{}
}

// String is the address as RFC 5952 has it, IPv6 in brackets, and the port.
func (a inet) String() string {
	var b []byte
	if a.plain {
		b = appendIPv4(b, a.ip[12:])
	} else {
		b = append(b, '[')
		if a.is4() {
			b = appendIPv4(append(b, "::ffff:"...), a.ip[12:])
		} else {
			b = a.appendGroups(b)
		}
		b = append(b, ']')
	}
	return string(strconv.AppendUint(append(b, ':'), uint64(a.port), 10))
}

func appendIPv4(b, ip []byte) []byte {
	for i, n := range ip {
		if i > 0 {
			b = append(b, '.')
		}
		b = strconv.AppendUint(b, uint64(n), 10)
	}
	return b
}

// appendGroups leaves the first of the longest runs of zeros out.
func (a inet) appendGroups(b []byte) []byte {
	group := func(i int) uint16 { return binary.BigEndian.Uint16(a.ip[2*i:]) }
	gap, end := -1, -1
	for i := 0; i < 8; i++ {
		j := i
		for j < 8 && group(j) == 0 {
			j++
		}
		if j-i > max(end-gap, 1) { // one zero alone is written
			gap, end = i, j
		}
		i = max(i, j-1)
	}
	for i := 0; i < 8; i++ {
		if i == gap {
			b = append(b, "::"...)
			i = end - 1
			continue
		}
		if i > 0 && i != end {
			b = append(b, ':')
		}
		b = strconv.AppendUint(b, uint64(group(i)), 16)
	}
	return b
}
