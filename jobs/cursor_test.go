package jobs

import (
	"math"
	"testing"
)

func TestCursor_ComesBack(t *testing.T) {
	for _, offsets := range [][streams]int64{{}, {1, 0}, {0, 1}, {127, 128}, {1 << 40, 300}, {math.MaxInt64, math.MaxInt64}} {
		for _, mark := range []uint64{0, 1, math.MaxUint64} {
			c := newCursor(mark, offsets)
			m, o, ok := c.parse()
			if !ok || m != mark || o != offsets {
				t.Errorf("%q: %d %v %t, want %d %v", c, m, o, ok, mark, offsets)
			}
		}
	}
}

func TestCursor_OthersAreRefused(t *testing.T) {
	good := newCursor(7, [streams]int64{5, 300})
	for _, c := range []Cursor{"", "0", "bash-1", "5:300", good + "A", good[:len(good)-1], good + "=", " " + good, good + "\n", "AAAAAAAAAAcFgAA", "AAAAAAAAAAf_____________ATAA"} {
		if _, o, ok := c.parse(); ok {
			t.Errorf("%q is taken for %v", c, o)
		}
	}
}

// What is taken is what newCursor makes, and nothing panics.
func FuzzCursor(f *testing.F) {
	f.Add("")
	f.Add(string(newCursor(0, [streams]int64{})))
	f.Add(string(newCursor(math.MaxUint64, [streams]int64{5, math.MaxInt64})))
	f.Add("AAAAAAAAAAf_____________ATAA")
	f.Add("AAAAAAAAAAcFgAA")
	f.Fuzz(func(t *testing.T, s string) {
		mark, offsets, ok := Cursor(s).parse()
		if !ok {
			return
		}
		if offsets[stdout] < 0 || offsets[stderr] < 0 {
			t.Errorf("%q has offsets %v", s, offsets)
		}
		if c := newCursor(mark, offsets); string(c) != s {
			t.Errorf("%q is %q, too", s, c)
		}
	})
}
