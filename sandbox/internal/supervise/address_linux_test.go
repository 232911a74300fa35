package supervise

import (
	"net/netip"
	"testing"

	"pgregory.net/rapid"
)

// The library's text is the right one, and what it says of an address.
func TestInet_IsNetips(t *testing.T) {
	same := func(t interface{ Fatalf(string, ...any) }, a inet, want netip.AddrPort) {
		if a.String() != want.String() {
			t.Fatalf("%s, netip: %s", a, want)
		}
		plain := want.Addr().Unmap()
		if a.is4() != plain.Is4() || a.ours() != (plain.IsLoopback() || plain.IsUnspecified()) {
			t.Fatalf("%s: IPv4 %v, ours %v; netip: %v, %v, %v", a, a.is4(), a.ours(), plain.Is4(), plain.IsLoopback(), plain.IsUnspecified())
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		port := rapid.Uint16().Draw(t, "port")
		b := [16]byte(rapid.SliceOfN(rapid.OneOf(rapid.Just(byte(0)), rapid.SampledFrom([]byte{1, 127, 0xff}), rapid.Byte()), 16, 16).Draw(t, "bytes"))
		if rapid.Bool().Draw(t, "mapped") {
			copy(b[:], []byte{10: 0xff, 11: 0xff})
			clear(b[:10])
		}
		same(t, inet{ip: b, port: port}, netip.AddrPortFrom(netip.AddrFrom16(b), port))
		b4 := [4]byte(b[12:])
		same(t, inet4(b4, port), netip.AddrPortFrom(netip.AddrFrom4(b4), port))
	})
	for _, s := range []string{"::", "::1", "1::", "1:0:0:2::3", "1:0:2:0:3:0:4:0", "0:1:0:2:0:3:0:4", "::ffff:0.0.0.0", "1:2:3:4:5:6:0:0", "0:0:3:4:5:6:7:8"} {
		a := netip.MustParseAddr(s)
		same(t, inet{ip: a.As16(), port: 7}, netip.AddrPortFrom(a, 7))
	}
}
