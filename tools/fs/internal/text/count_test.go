package text

import (
	"bytes"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestCounts_EqualTheStandardLibrarys(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bytewise := rapid.SliceOfN(rapid.SampledFrom([]byte{'\r', '\n', '\r', '\n', 'a', 0x8d, 0x8a, 0x0c, 0x0b, 0xff, 0}), 0, 200).Draw(t, "bytes")
		if got, want := countCRLF(bytewise), bytes.Count(bytewise, []byte("\r\n")); got != want {
			t.Errorf("countCRLF(%q) = %d, want %d", bytewise, got, want)
		}
		for _, data := range [][]byte{bytewise, []byte(rapid.String().Draw(t, "string"))} {
			if got, want := runeCount(data), utf8.RuneCount(data); got != want {
				t.Errorf("runeCount(%q) = %d, want %d", data, got, want)
			}
		}
	})
}
