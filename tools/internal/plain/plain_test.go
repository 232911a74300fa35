package plain

import (
	"encoding/base64"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestText_LeavesOutWhatIsNotText(t *testing.T) {
	b64 := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
	for _, tt := range []struct {
		in   string
		b64  bool
		want string
	}{
		{"a\r\nb\r\n", false, "a\nb\n"},
		{"\x1b[1;31mred\x1b[0m \x1b]0;title\x07ok \x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\ \x1b(B", false, "red ok link "},
		{b64("gr\xfcn\n"), true, `gr\xfcn` + "\n"},
		{b64("a\x00\xff"), true, "[3 bytes that are no text; the value has them in base64]\n"},
		{b64("ä�"), true, "ä�"},
		{"no base64!", true, ""},
	} {
		if got := Text(tt.in, tt.b64); got != tt.want {
			t.Errorf("%q: %q, want %q", tt.in, got, tt.want)
		}
	}
}

func TestFit_StaysWithinItsBounds(t *testing.T) {
	for _, unit := range []string{"x", "ä", "😀", "a line\n"} {
		for _, n := range []int{0, 1, 100, 900, 5000} {
			for _, m := range []int{0, 1, 100, 900, 5000} {
				got := Fit(1000, strings.Repeat(unit, n), strings.Repeat("e"+unit, m), "[fact]")
				if len(got) > 1000 || !utf8.ValidString(got) || !strings.HasSuffix(got, "[fact]") {
					t.Fatalf("%d × %q and %d: %d bytes, valid %v", n, unit, m, len(got), utf8.ValidString(got))
				}
			}
		}
	}
}

func TestLine_IsOne(t *testing.T) {
	if got := Line("a\n[exit code 0]\x1b[2J"); got != `a\n[exit code 0]\x1b[2J` {
		t.Error(got)
	}
}
