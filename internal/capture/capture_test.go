package capture

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func spillIn(dir string) *Spill {
	return &Spill{Create: func(name string) (*os.File, error) { return os.Create(filepath.Join(dir, name)) }}
}

var marker = regexp.MustCompile(`\[… (\d+) bytes left out …\]\n`)

func TestStream_AgainstTheWholeOutput(t *testing.T) {
	dir := t.TempDir()
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		var whole []byte
		sp := spillIn(dir)
		s := NewStream(strconv.Itoa(n), sp)
		for range rapid.IntRange(0, 12).Draw(t, "writes") {
			unit := rapid.SampledFrom([]string{"x", "ä", "─", "😀", "line of text\n", "\xff", "a\n"}).Draw(t, "unit")
			b := bytes.Repeat([]byte(unit), rapid.IntRange(0, 9000).Draw(t, "n"))
			whole = append(whole, b...)
			if k, err := s.Write(b); k != len(b) || err != nil {
				t.Fatal(k, err)
			}
		}
		got := s.Bytes()
		if int64(len(whole)) != s.Total() {
			t.Fatalf("total %d of %d", s.Total(), len(whole))
		}
		if len(whole) <= Limit {
			if !bytes.Equal(got, whole) || s.File() != "" {
				t.Fatalf("kept %d of %d bytes", len(got), len(whole))
			}
			return
		}
		if len(got) > Limit+64 {
			t.Fatalf("%d bytes are kept", len(got))
		}
		m := marker.FindSubmatchIndex(got)
		if m == nil {
			t.Fatalf("no marker in %q", got)
		}
		left, _ := strconv.Atoi(string(got[m[2]:m[3]]))
		head, tail := bytes.TrimSuffix(got[:m[0]], []byte("\n")), got[m[1]:]
		if !bytes.HasPrefix(whole, head) || !bytes.HasSuffix(whole, tail) {
			t.Fatal("the ends are not the output's")
		}
		if d := len(whole) - len(head) - len(tail) - left; d < 0 || d > 1 {
			t.Fatalf("%d bytes are unaccounted for", d)
		}
		if utf8.Valid(whole) && !utf8.Valid(got) {
			t.Fatal("a rune was cut")
		}
		b, err := os.ReadFile(s.File())
		if err != nil || !bytes.Equal(b, whole) {
			t.Fatalf("the spill has %d of %d bytes, %v", len(b), len(whole), err)
		}
		if n, complete := sp.Stats(); n != int64(len(whole)) || !complete {
			t.Fatal(n, complete)
		}
	})
}

// Both cuts fall at every place in a rune.
func TestStream_CutsBetweenRunes(t *testing.T) {
	for _, r := range []string{"ä", "─", "😀"} {
		for before := range len(r) {
			for behind := range len(r) {
				s := NewStream("stdout", nil)
				fmt.Fprint(s, strings.Repeat("x", before), strings.Repeat(r, Limit), strings.Repeat("y", behind))
				if got := s.Bytes(); !utf8.Valid(got) {
					t.Errorf("%s with %d bytes before and %d behind: a rune was cut", r, before, behind)
				}
			}
		}
	}
}

func TestSpill_FullDiskEndsItAndNothingElse(t *testing.T) {
	f, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("no /dev/full: ", err)
	}
	sp := &Spill{Create: func(string) (*os.File, error) { return f, nil }}
	s := NewStream("stdout", sp)
	for i := range 10000 {
		fmt.Fprintln(s, "line", i)
	}
	if _, complete := sp.Stats(); complete {
		t.Error("a spill on a full disk is called complete")
	}
	if !bytes.HasSuffix(s.Bytes(), []byte("line 9999\n")) || !bytes.HasPrefix(s.Bytes(), []byte("line 0\n")) {
		t.Error("the ends are lost")
	}
}
