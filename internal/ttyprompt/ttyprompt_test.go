package ttyprompt

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// What is asked about is shown and does nothing.
func TestShow(t *testing.T) {
	for text, want := range map[string]string{
		"make test":               "make test",
		"größer 😀":                "größer 😀",
		"a\nb":                    "a\n    b",
		"\x1b]0;t\a\x1b[2J":       `\x1b]0;t\a\x1b[2J`,
		"a\rb\tc\x00\x7f":         `a\rb\tc\x00\x7f`,
		"\u202eevil\u2066\u200b":  `\u202eevil\u2066\u200b`,
		"\xff\u0085\u2028\ufeff":  `\xff\u0085\u2028\ufeff`,
		"x\nAllow? [y/N] y\nz":    "x\n    Allow? [y/N] y\n    z",
		"\U000e0041tag\U000fffff": `\U000e0041tag\U000fffff`,
	} {
		if got := Show(text); got != want {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
	}
}

// Of a long text both ends are shown, and how much is not.
func TestShow_Long(t *testing.T) {
	for _, unit := range []string{"x", "é", "\n", "\x1b", "\xff"} {
		text := "begin " + strings.Repeat(unit, 10*maxText) + " end"
		got := Show(text)
		if !strings.HasPrefix(got, "begin ") || !strings.HasSuffix(got, " end") || !strings.Contains(got, " bytes that are not shown …]") || len(got) > 6*maxText {
			t.Errorf("%q: %d bytes: %.80q", unit, len(got), got)
		}
		if !utf8.ValidString(got) || strings.IndexFunc(got, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }) >= 0 {
			t.Errorf("%q: shown as %.80q", unit, got)
		}
	}
}
