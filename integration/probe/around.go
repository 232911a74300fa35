package main

import (
	"encoding/binary"
	"net"

	"golang.org/x/sys/unix"
)

// Datagrams to a loopback address that are to leave by another interface.
// Arguments: how, the interface, an IPv4 address of it. The payload is "around "
// and how.
func init() {
	register("around", func(a []string) (string, error) {
		device, err := net.InterfaceByName(a[1])
		if err != nil {
			return "", unix.ENODEV
		}
		index := uint32(device.Index)
		source := [4]byte(net.ParseIP(a[2]).To4())
		family, to := unix.AF_INET6, unix.Sockaddr(&unix.SockaddrInet6{Port: 9, Addr: [16]byte(net.IPv6loopback)})
		switch a[0] {
		case "pktinfo4", "unicast-if4", "device4":
			family, to = unix.AF_INET, &unix.SockaddrInet4{Port: 9, Addr: [4]byte{127, 0, 0, 1}}
		}
		fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return "", err
		}
		defer unix.Close(fd)
		ne := binary.NativeEndian
		pktinfo4 := append(append(ne.AppendUint32(nil, index), source[:]...), 0, 0, 0, 0)
		pktinfo6 := ne.AppendUint32(make([]byte, 16), index)
		bigIndex := string(binary.BigEndian.AppendUint32(nil, index))
		var control []byte
		switch a[0] {
		case "pktinfo4":
			control = controlMessage(unix.IPPROTO_IP, unix.IP_PKTINFO, pktinfo4)
		case "unicast-if4":
			err = unix.SetsockoptString(fd, unix.SOL_IP, unix.IP_UNICAST_IF, bigIndex)
			control = controlMessage(unix.IPPROTO_IP, unix.IP_PKTINFO, append(make([]byte, 4), pktinfo4[4:]...))
		case "device4":
			if err = unix.BindToDevice(fd, a[1]); err == nil {
				err = unix.Bind(fd, &unix.SockaddrInet4{Addr: source})
			}
		case "pktinfo6":
			control = controlMessage(unix.IPPROTO_IPV6, unix.IPV6_PKTINFO, pktinfo6)
		case "pktinfo6-old":
			control = controlMessage(unix.IPPROTO_IPV6, unix.IPV6_2292PKTINFO, pktinfo6)
		case "sticky6":
			err = unix.SetsockoptString(fd, unix.SOL_IPV6, unix.IPV6_PKTINFO, string(pktinfo6))
		case "unicast-if6":
			err = unix.SetsockoptString(fd, unix.SOL_IPV6, unix.IPV6_UNICAST_IF, bigIndex)
		case "device6":
			err = unix.BindToDevice(fd, a[1])
		case "plain6": // no way around: a control
		default:
			panic("no way around called " + a[0])
		}
		if err != nil {
			return "", err
		}
		return "", unix.Sendmsg(fd, []byte("around "+a[0]), control, to, 0)
	})
}

func controlMessage(level, typ int32, data []byte) []byte {
	ne := binary.NativeEndian
	b := ne.AppendUint64(nil, uint64(unix.CmsgLen(len(data))))
	b = append(ne.AppendUint32(ne.AppendUint32(b, uint32(level)), uint32(typ)), data...)
	return append(b, make([]byte, unix.CmsgSpace(len(data))-len(b))...)
}
