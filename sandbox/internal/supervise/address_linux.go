package supervise

import (
	"encoding/binary"
	"net/netip"

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
	name   string         // of addrAbstract without the leading NUL; of addrPath up to the NUL
	inet   netip.AddrPort // of addrInet; a mapped IPv4 address stays mapped
	port   uint32         // of addrNetlink: nl_pid
	groups uint32         // of addrNetlink
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
			return address{kind: addrInet, inet: netip.AddrPortFrom(
				netip.AddrFrom4([4]byte(b[4:8])), binary.BigEndian.Uint16(b[2:]))}, 0
		case unix.AF_INET6:
			const sin6LenRFC2133 = 24 // without sin6_scope_id
			if len(b) < sin6LenRFC2133 {
				return address{}, unix.EINVAL
			}
			return address{kind: addrInet, inet: netip.AddrPortFrom(
				netip.AddrFrom16([16]byte(b[8:24])), binary.BigEndian.Uint16(b[2:]))}, 0
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
		if a.inet.Addr().Unmap().Is4() {
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
func loopbackAddress(domain int, dst netip.Addr) []byte {
	if domain == unix.AF_INET {
		b := make([]byte, unix.SizeofSockaddrInet4)
		binary.NativeEndian.PutUint16(b, unix.AF_INET)
		copy(b[4:], []byte{127, 0, 0, 1})
		return b
	}
	b := make([]byte, unix.SizeofSockaddrInet6)
	binary.NativeEndian.PutUint16(b, unix.AF_INET6)
	ip := netip.IPv6Loopback()
	if dst.IsValid() && dst.Unmap().Is4() {
		ip = netip.MustParseAddr("::ffff:127.0.0.1")
	}
	a := ip.As16()
	copy(b[8:], a[:])
	return b
}
