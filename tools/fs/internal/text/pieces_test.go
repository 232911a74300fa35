package text

import (
	"strings"
	"testing"
)

// TestRead_CutsByCharactersInPieces: where a line is cut doesn't depend on the
// pieces that it is read in, nor on how many bytes its characters have.
func TestRead_CutsByCharactersInPieces(t *testing.T) {
	for _, char := range []string{"x", "é", "€", "𝄞"} {
		for _, chars := range []int{MaxLineChars - 1, MaxLineChars, MaxLineChars + 1, 3 * MaxLineChars} {
			text := strings.Repeat(char, chars)
			for _, chunk := range []int{16, 1000, 1 << 20} {
				w, err := read(strings.NewReader(text), int64(len(text)), 1, 10, chunk)
				if err != nil {
					t.Fatal(err)
				}
				want := Line{N: 1, Text: strings.Repeat(char, min(chars, MaxLineChars)), Cut: max(chars-MaxLineChars, 0)}
				if len(w.Lines) != 1 || w.Lines[0] != want {
					t.Errorf("%d of %s in pieces of %d: %d bytes, cut %d; not %d, cut %d", chars, char, chunk, len(w.Lines[0].Text), w.Lines[0].Cut, len(want.Text), want.Cut)
				}
			}
		}
	}
}
