package text

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestAround_F4_25(t *testing.T) {
	line := strings.Repeat("x", 700_000) + "needle" + strings.Repeat("y", 299_994)
	got, cut := Around([]byte(line), 700_000)
	if len(got) != MaxLineChars || cut != 1_000_000-MaxLineChars || strings.Index(got, "needle") != leadChars {
		t.Errorf("%d characters, cut %d, the match at %d", len(got), cut, strings.Index(got, "needle"))
	}
}

func TestAround(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		part := rapid.SampledFrom([]string{"a", "é", "😀", "\xff", "\xe2\x82"})
		before := strings.Repeat(part.Draw(t, "x"), rapid.IntRange(0, 3000).Draw(t, "before"))
		after := strings.Repeat(part.Draw(t, "y"), rapid.IntRange(0, 3000).Draw(t, "after"))
		line := before + "needle" + after
		got, cut := Around([]byte(line), len(before))
		n := utf8.RuneCountInString(got)
		if total := utf8.RuneCountInString(line); n != min(total, MaxLineChars) || n+cut != total {
			t.Fatalf("%d of %d characters, cut %d", n, total, cut)
		}
		if !utf8.ValidString(got) || !strings.Contains(got, "needle") || !strings.Contains(Valid(line), got) {
			t.Fatalf("%q", got)
		}
	})
}
