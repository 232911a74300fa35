package sandboxpolicy

import (
	"math"
	"testing"
	"time"
)

func TestParseSize(t *testing.T) {
	for s, want := range map[string]int64{"1": 1, "512": 512, "64K": 64 << 10, "64KiB": 64 << 10, "3M": 3 << 20, "2GiB": 2 << 30, "1T": 1 << 40,
		"9223372036854775807": math.MaxInt64, "8388607T": 8388607 << 40, "007": 7} {
		if got, err := ParseSize(s); err != nil || got != want {
			t.Errorf("ParseSize(%q) = %d, %v, want %d", s, got, err, want)
		}
	}
	for _, s := range []string{"", "0", "0K", "-1", "+1", "1.5G", "1 K", " 1", "1k", "1KB", "1iB", "iB", "K", "KiB", "1KK", "0x10", "1_000", "8388608T", "9223372036854775808", "1e3", "١"} {
		if got, err := ParseSize(s); err == nil {
			t.Errorf("ParseSize(%q) = %d, want an error", s, got)
		}
	}
}

func TestParseDuration(t *testing.T) {
	for s, want := range map[string]time.Duration{"90": 90 * time.Second, "1.5": 1500 * time.Millisecond, "1m30s": 90 * time.Second, "250ms": 250 * time.Millisecond, ".5": 500 * time.Millisecond} {
		if got, err := ParseDuration(s); err != nil || got != want {
			t.Errorf("ParseDuration(%q) = %v, %v, want %v", s, got, err, want)
		}
	}
	for _, s := range []string{"", "0", "0s", "-1", "+1", "1h-2m", "x", "1 s", ".", "s", "1e3", "99999999999999999999", "inf", "NaN"} {
		if got, err := ParseDuration(s); err == nil {
			t.Errorf("ParseDuration(%q) = %v, want an error", s, got)
		}
	}
}

func TestParseCount(t *testing.T) {
	for _, s := range []string{"", "0", "-1", "4194305", "1K"} {
		if _, err := ParseCount(s); err == nil {
			t.Errorf("ParseCount(%q) was accepted", s)
		}
	}
	if n, err := ParseCount("4194304"); err != nil || n != 1<<22 {
		t.Errorf("ParseCount = %d, %v", n, err)
	}
}

func FuzzParseSize(f *testing.F) {
	for _, s := range []string{"1", "64K", "2GiB", "8388607T", "0", "-1", "1.5M"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, err := ParseSize(s)
		if err != nil {
			return
		}
		if n < 1 {
			t.Fatalf("ParseSize(%q) = %d", s, n)
		}
		if m, err := ParseSize(FormatSize(n)); err != nil || m != n {
			t.Fatalf("%q = %d is printed as %q, which is %d, %v", s, n, FormatSize(n), m, err)
		}
	})
}

func FuzzParseDuration(f *testing.F) {
	for _, s := range []string{"1", "1.5", "1m30s", "0", "-1s", "."} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, err := ParseDuration(s)
		if err != nil {
			return
		}
		if d <= 0 {
			t.Fatalf("ParseDuration(%q) = %v", s, d)
		}
		if e, err := ParseDuration(d.String()); err != nil || e != d {
			t.Fatalf("%q = %v, printed and read as %v, %v", s, d, e, err)
		}
	})
}
