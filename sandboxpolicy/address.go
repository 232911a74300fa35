package sandboxpolicy

import (
	"strconv"
	"strings"
)

// Package net/netip would read addresses as well, but what it builds when it is
// initialised costs a short run more than reading its whole policy does
// (docs/adr/0008). The tests hold these functions against it.

// An ip is an IPv6 address, or an IPv4 one mapped to it (RFC 4291, 2.5.5.2).
type ip [16]byte

// mapped is the address of an IPv4 one.
func mapped(b [4]byte) ip { return ip{10: 0xff, 11: 0xff, 12: b[0], 13: b[1], 14: b[2], 15: b[3]} }

// loopback reports whether a is in 127.0.0.0/8 or ::1.
func (a ip) loopback() bool {
	return a == ip{15: 1} || a == mapped([4]byte{127, a[13], a[14], a[15]})
}

// unspecified reports whether a is 0.0.0.0 or ::.
func (a ip) unspecified() bool { return a == ip{} || a == mapped([4]byte{}) }

// splitPort takes the port off an address that has one: an IPv4 one, a name, or
// an IPv6 one in brackets.
func splitPort(s string) string {
	host, port, ok := cutLast(s, ':')
	if _, err := strconv.ParseUint(port, 10, 16); !ok || err != nil {
		return unbracket(s)
	}
	if in := unbracket(host); in != host || strings.IndexByte(host, ':') < 0 {
		return in
	}
	return s // the colon was one of the address's own
}

func unbracket(s string) string {
	if len(s) >= 2 && s[0] == '[' && s[len(s)-1] == ']' {
		return s[1 : len(s)-1]
	}
	return s
}

func cutLast(s string, sep byte) (before, after string, found bool) {
	if i := strings.LastIndexByte(s, sep); i >= 0 {
		return s[:i], s[i+1:], true
	}
	return s, "", false
}

// parseIP reads an address without a port. A zone (RFC 4007) says by which
// interface, not where to: it is left out.
func parseIP(s string) (ip, bool) {
	if strings.IndexByte(s, ':') < 0 {
		b, ok := parseIPv4(s)
		return mapped(b), ok
	}
	s, zone, zoned := strings.Cut(s, "%")
	if zoned && zone == "" {
		return ip{}, false
	}
	head, tail, gap := strings.Cut(s, "::")
	if !gap {
		b, ok := parseGroups(s)
		if !ok || len(b) != 16 {
			return ip{}, false
		}
		return ip(b), true
	}
	h, ok1 := parseGroups(head)
	t, ok2 := parseGroups(tail)
	// A gap stands for one group at least, and no IPv4 address before it.
	if !ok1 || !ok2 || len(h)+len(t) > 14 || strings.IndexByte(head, '.') >= 0 {
		return ip{}, false
	}
	var a ip
	copy(a[:], h)
	copy(a[16-len(t):], t)
	return a, true
}

// parseGroups reads groups of 16 bits between colons, the last two of which may
// be an IPv4 address. No text is no group.
func parseGroups(s string) ([]byte, bool) {
	var out []byte
	for more := s != ""; more; {
		var g string
		g, s, more = strings.Cut(s, ":")
		if !more && strings.IndexByte(g, '.') >= 0 {
			b, ok := parseIPv4(g)
			return append(out, b[:]...), ok
		}
		n, err := strconv.ParseUint(g, 16, 16)
		if err != nil || len(g) > 4 {
			return nil, false
		}
		out = append(out, byte(n>>8), byte(n))
	}
	return out, true
}

// parseIPv4 reads four decimal numbers without leading zeros, which some
// programs take for octal ones.
func parseIPv4(s string) (b [4]byte, ok bool) {
	for i := range b {
		n, rest, dot := strings.Cut(s, ".")
		v, err := strconv.ParseUint(n, 10, 8)
		if err != nil || len(n) > 1 && n[0] == '0' || dot != (i < 3) {
			return b, false
		}
		b[i], s = byte(v), rest
	}
	return b, true
}
