package wire

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
)

// FuzzLines: lines come as a naive reader cuts them, blank ones left out and
// long ones told of, however the input arrives.
func FuzzLines(f *testing.F) {
	for _, s := range []string{"a\nb", "\xef\xbb\xbfa\r\n\r\n  \nb\r", "aaaaaaaaaaaa\nb\n", "\n\n", "aaaaaaaa\r\naaaaaaaaa\r\n", "\xef\xbb\xbfaaaaaaa\n"} {
		f.Add(s, uint8(8), uint8(3))
	}
	f.Fuzz(func(t *testing.T, in string, max, piece uint8) {
		limit := int(max%32) + 1
		var want []string
		rest := in
		for n := 1; rest != ""; n++ {
			line, after, _ := strings.Cut(rest, "\n")
			rest = after
			line = strings.TrimSuffix(line, "\r")
			long := len(line) > limit
			if n == 1 && !long {
				line = strings.TrimPrefix(line, "\xef\xbb\xbf")
			}
			switch {
			case long:
				want = append(want, fmt.Sprint(n, " long"))
			case len(bytes.TrimSpace([]byte(line))) > 0:
				want = append(want, fmt.Sprintf("%d %q", n, line))
			}
		}
		l := &Lines{r: bufio.NewReaderSize(&pieces{in, int(piece%16) + 1}, 16), max: limit}
		var got []string
		for {
			line, err := l.Next()
			if err == io.EOF {
				break
			}
			if err == ErrLong {
				got = append(got, fmt.Sprint(l.Number(), " long"))
				if err := l.Skip(); err != nil && err != io.EOF {
					t.Fatal(err)
				}
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, fmt.Sprintf("%d %q", l.Number(), line))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q, at most %d:\n%v, want\n%v", in, limit, got, want)
		}
	})
}

// pieces is a text that comes a few bytes at a time.
type pieces struct {
	rest string
	n    int
}

func (p *pieces) Read(b []byte) (int, error) {
	if p.rest == "" {
		return 0, io.EOF
	}
	n := copy(b[:min(len(b), p.n)], p.rest)
	p.rest = p.rest[n:]
	return n, nil
}
