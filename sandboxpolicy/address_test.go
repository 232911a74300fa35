package sandboxpolicy

import (
	"net/netip"
	"testing"

	"pgregory.net/rapid"
)

// The library's answer is the right one.
func sameAsNetip(t interface {
	Helper()
	Fatalf(string, ...any)
}, s string) {
	t.Helper()
	got, ok := parseIP(s)
	want, err := netip.ParseAddr(s)
	if ok != (err == nil) {
		t.Fatalf("%q: an address %v, netip: %v", s, ok, err)
	}
	if !ok {
		return
	}
	if got != ip(want.As16()) {
		t.Fatalf("%q: %x, netip: %x", s, got, want.As16())
	}
	plain := want.WithZone("").Unmap()
	if got.loopback() != plain.IsLoopback() || got.unspecified() != plain.IsUnspecified() {
		t.Fatalf("%q: loopback %v, unspecified %v; netip: %v, %v", s, got.loopback(), got.unspecified(), plain.IsLoopback(), plain.IsUnspecified())
	}
}

var addressTexts = []string{
	"", ".", ":", "::", ":::", "::1", "::1%lo", "::1%", "1::", "1::2::3", "::ffff:127.0.0.1", "::ffff:127.0.0.1%eth0", "::127.0.0.1",
	"::ffff:7f00:1", "127.0.0.1", "127.255.0.9", "127.1", "0127.0.0.1", "127.0.0.1.", "0.0.0.0", "1.2.3.256", "1.2.3.+4", "1.2.3.-4",
	"1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7::", "::2:3:4:5:6:7:8", "1::3:4:5:6:7:8", "1:2:3:4::5:6:7:8", "1:2:3:4:5:6:7", "1:2:3:4:5:6:7:8:9",
	"1:2:3:4:5:6:1.2.3.4", "1:2:3:4:5:6:7:1.2.3.4", "1.2.3.4::", "1:1.2.3.4::", "12345::", "g::", "+1::", "::1.2.3.4:5", ":1", "1:", "fe80::1%a%b",
	"FE80::A", "::_1", "0x7f.0.0.1", "127.0.0.1%lo",
}

func TestParseIP_IsNetips(t *testing.T) {
	for _, s := range addressTexts {
		sameAsNetip(t, s)
	}
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.SliceOfN(rapid.ByteRange(0, 2), 16, 16).Draw(t, "bytes") // many zeros: texts with gaps
		a := netip.AddrFrom16([16]byte(b))
		sameAsNetip(t, a.String())
		sameAsNetip(t, a.StringExpanded())
		sameAsNetip(t, netip.AddrFrom4([4]byte(b)).String())
	})
}

func FuzzParseIP(f *testing.F) {
	for _, s := range addressTexts {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) { sameAsNetip(t, s) })
}
