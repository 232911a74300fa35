package oneshot

import "testing"

func TestOneLine(t *testing.T) {
	for in, want := range map[string]string{
		"plain ü — “quoted”":      "plain ü — “quoted”",
		"two\nlines\r\tand a tab": `two\nlines\r\tand a tab`,
		"\x1b[6n\x07\x00\x7f":     `\x1b[6n\a\x00\x7f`,
		"\u009b6n \u2028":         `\u009b6n \u2028`,
		"\xff\x9b6n":              `\xff\x9b6n`,
		"\uFFFD":                  "\uFFFD",
		`a\b`:                     `a\b`,
	} {
		if got := OneLine(in); got != want {
			t.Errorf("OneLine(%q) = %q, want %q", in, got, want)
		}
	}
}
