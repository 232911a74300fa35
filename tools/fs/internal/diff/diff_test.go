package diff

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// unbounded shows everything.
var unbounded = Options{MaxBytes: 1 << 30}

// patched applies hunks to before as patch(1) would without any fuzz.
func patched(before string, hunks []Hunk) (string, error) {
	lines := dropEmpty(strings.SplitAfter(before, "\n"))
	var out strings.Builder
	at := 0
	for _, h := range hunks {
		start := h.OldStart - 1
		if h.OldLines == 0 {
			start = h.OldStart
		}
		if start < at || start > len(lines) {
			return "", fmt.Errorf("hunk at %d after %d lines of %d", start, at, len(lines))
		}
		for ; at < start; at++ {
			out.WriteString(lines[at])
		}
		if got := strings.Count(out.String(), "\n"); h.NewLines > 0 && got != h.NewStart-1 || h.NewLines == 0 && got != h.NewStart {
			return "", fmt.Errorf("new start %d,%d after %d lines", h.NewStart, h.NewLines, got)
		}
		olds, news := 0, 0
		for i, l := range h.Lines {
			if l == noNewline {
				continue
			}
			content := l[1:] + "\n"
			if i+1 < len(h.Lines) && h.Lines[i+1] == noNewline {
				content = l[1:]
			}
			if l[0] != '+' {
				if at >= len(lines) || lines[at] != content {
					return "", fmt.Errorf("line %d is not %q", at+1, content)
				}
				at++
				olds++
			}
			if l[0] != '-' {
				out.WriteString(content)
				news++
			}
		}
		if olds != h.OldLines || news != h.NewLines {
			return "", fmt.Errorf("hunk of %d and %d lines says %d and %d", olds, news, h.OldLines, h.NewLines)
		}
	}
	for ; at < len(lines); at++ {
		out.WriteString(lines[at])
	}
	return out.String(), nil
}

func TestCompare_Unified(t *testing.T) {
	twenty := make([]string, 20)
	for i := range twenty {
		twenty[i] = fmt.Sprintf("line %d\n", i+1)
	}
	changed := slices.Clone(twenty)
	changed[2] = "LINE 3\n"
	for _, tc := range []struct{ name, before, after, want string }{
		{"equal", "a\n", "a\n", ""},
		{"a new file", "", "a\nb\n", "@@ -0,0 +1,2 @@\n+a\n+b\n"},
		{"all removed", "a\n", "", "@@ -1 +0,0 @@\n-a\n"},
		{"F4-13: one line of twenty", strings.Join(twenty, ""), strings.Join(changed, ""),
			"@@ -1,6 +1,6 @@\n line 1\n line 2\n-line 3\n+LINE 3\n line 4\n line 5\n line 6\n"},
		{"a final newline added", "a\nb", "a\nb\n", "@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+b\n"},
		{"a final newline removed", "a\n", "a", "@@ -1 +1 @@\n-a\n+a\n\\ No newline at end of file\n"},
		{"no final newline on both sides", "a\nz", "b\nz", "@@ -1,2 +1,2 @@\n-a\n+b\n z\n\\ No newline at end of file\n"},
		{"only a line end", "a\r\nb\r\n", "a\nb\r\n", "@@ -1,2 +1,2 @@\n-a\r\n+a\n b\r\n"},
		{"invalid bytes", "a\xff\nb\n", "a\xfe\nb\n", "@@ -1,2 +1,2 @@\n-a\xff\n+a\xfe\n b\n"},
		{"an invalid byte is not U+FFFD", "\xff\n", "\uFFFD\n", "@@ -1 +1 @@\n-\xff\n+\uFFFD\n"},
		{"an added function", "f() {\n}\n\nh() {\n}\n", "f() {\n}\n\ng() {\n}\n\nh() {\n}\n",
			"@@ -1,5 +1,8 @@\n f() {\n }\n \n+g() {\n+}\n+\n h() {\n }\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := Compare(tc.before, tc.after, Options{}).Unified("a", "b")
			if want := tc.want; want != "" {
				want = "--- a\n+++ b\n" + want
				if got != want {
					t.Errorf("got\n%q, want\n%q", got, want)
				}
			} else if got != "" {
				t.Errorf("got %q", got)
			}
		})
	}
}

func TestUnified_QuotesNames(t *testing.T) {
	got := Compare("a\n", "b\n", Options{}).Unified("a/new\nline", "b/\xff\"é")
	if !strings.HasPrefix(got, "--- \"a/new\\012line\"\n+++ \"b/\\377\\\"é\"\n@@") {
		t.Errorf("got %q", got)
	}
}

func TestCompare_Context(t *testing.T) {
	before, after := "1\n2\n3\n4\n5\n6\n7\n8\n9\n", "1\nX\n3\n4\n5\n6\n7\nY\n9\n"
	for _, tc := range []struct{ context, hunks, lines int }{{-1, 2, 4}, {1, 2, 8}, {2, 2, 10}, {3, 1, 11}} {
		d := Compare(before, after, Options{Context: tc.context})
		lines := 0
		for _, h := range d.Hunks {
			lines += len(h.Lines)
		}
		if len(d.Hunks) != tc.hunks || lines != tc.lines || d.Added != 2 || d.Removed != 2 {
			t.Errorf("context %d: %d hunks, %d lines", tc.context, len(d.Hunks), lines)
		}
	}
}

func TestCompare_BoundsOutput(t *testing.T) {
	var before, after strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&before, "line %d\n", i)
		if i%10 == 0 {
			fmt.Fprintf(&after, "changed %d\n", i)
		} else {
			fmt.Fprintf(&after, "line %d\n", i)
		}
	}
	d := Compare(before.String(), after.String(), Options{MaxBytes: 4000})
	shown := 0
	for _, h := range d.Hunks {
		for _, l := range h.Lines {
			if l[0] != ' ' {
				shown++
			}
		}
	}
	text := d.Unified("a", "b")
	if d.Added != 1000 || d.Removed != 1000 || shown+d.LeftOut != 2000 || len(text) > 6000 ||
		!strings.HasSuffix(text, fmt.Sprintf("[%d more changed lines left out]\n", d.LeftOut)) {
		t.Errorf("%d shown, %d left out, %d bytes", shown, d.LeftOut, len(text))
	}
	// What is shown is right as far as it goes.
	if _, err := patched(before.String(), d.Hunks); err != nil {
		t.Error(err)
	}
	// One change that is too large is shown in part.
	d = Compare("", strings.Repeat("x\n", 100_000), Options{MaxBytes: 300})
	if len(d.Hunks) != 1 || d.LeftOut != 100_000-len(d.Hunks[0].Lines) || len(d.Hunks[0].Lines) != 100 {
		t.Errorf("%d lines, %d left out", len(d.Hunks[0].Lines), d.LeftOut)
	}
}

func TestCompare_LongLines(t *testing.T) {
	long := strings.Repeat("é", 50_000)
	d := Compare(long+"old"+long+"\n", long+"new"+long+"\n", Options{})
	if d.Cut != 2 || len(d.Hunks[0].Lines) != 2 {
		t.Fatalf("cut %d", d.Cut)
	}
	for i, word := range []string{"old", "new"} {
		l := d.Hunks[0].Lines[i]
		if !strings.Contains(l, "é"+word+"é") || !utf8.ValidString(l) || utf8.RuneCountInString(l) > maxLineChars+100 ||
			!strings.Contains(l, "[49800 characters left out]é") {
			t.Errorf("%.80q… of %d bytes", l, len(l))
		}
	}
}

func TestCompare_LargeInputs(t *testing.T) {
	var a, b strings.Builder
	for i := range 120_000 {
		fmt.Fprintf(&a, "unique %d\n", i)
		if i%3 != 0 {
			fmt.Fprintf(&b, "unique %d\n", i)
		} else {
			fmt.Fprintf(&b, "other %d\n", i)
		}
	}
	repetitive := func(step int) string {
		var s strings.Builder
		for i := range 60_000 {
			fmt.Fprintf(&s, "%d\n", i*step%7)
		}
		return s.String()
	}
	for _, tc := range []struct {
		name, before, after string
		coarse              bool
	}{
		{"many changes between unique lines", a.String(), b.String(), false},
		{"lines that repeat", repetitive(3), repetitive(5), true},
		{"nothing in common", strings.Repeat("a\n", 200_000), strings.Repeat("b\n", 200_000), true},
		{"one changed line in the middle", a.String() + "x\n" + a.String(), a.String() + "y\n" + a.String(), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			// Without a bound these would run into the test's deadline.
			d := Compare(tc.before, tc.after, unbounded)
			if d.Coarse != tc.coarse {
				t.Errorf("coarse is %v", d.Coarse)
			}
		})
	}
}

var lineParts = []string{"a\n", "b\n", "c\n", "}\n", "\n", "a\r\n", "\xff\n", "\uFFFD\n", "x", "\r", "long line\n", "a\xc3\n", "+\n", "-- a\n"}

func TestCompare_PatchesBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) string {
			return strings.Join(rapid.SliceOfN(rapid.SampledFrom(lineParts), 0, 30).Draw(t, name), "")
		}
		before, after := draw("before"), draw("after")
		d := Compare(before, after, Options{Context: rapid.IntRange(-1, 4).Draw(t, "context"), MaxBytes: 1 << 20})
		if got, err := patched(before, d.Hunks); err != nil || got != after {
			t.Fatalf("%q, %v", got, err)
		}
		if added, removed := shortest(before, after); d.Added != added || d.Removed != removed {
			t.Fatalf("%d added, %d removed; the shortest has %d and %d", d.Added, d.Removed, added, removed)
		}
	})
}

// shortest returns the least numbers of added and removed lines, by the table of
// the longest common subsequence.
func shortest(before, after string) (added, removed int) {
	a, b := dropEmpty(strings.SplitAfter(before, "\n")), dropEmpty(strings.SplitAfter(after, "\n"))
	row := make([]int, len(b)+1)
	for _, x := range a {
		previous := slices.Clone(row)
		for j, y := range b {
			if x == y {
				row[j+1] = previous[j] + 1
			} else {
				row[j+1] = max(previous[j+1], row[j])
			}
		}
	}
	return len(b) - row[len(b)], len(a) - row[len(b)]
}

// The scripts of long stretches go through other code than those of short ones.
func TestScript_Anchors(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		line := rapid.Custom(func(t *rapid.T) string { return fmt.Sprint(rapid.IntRange(0, 40).Draw(t, "n")) })
		a, b := rapid.SliceOfN(line, 0, 60).Draw(t, "a"), rapid.SliceOfN(line, 0, 60).Draw(t, "b")
		numbers := map[string]int32{}
		ids := func(lines []string) []int32 {
			out := make([]int32, len(lines))
			for i, l := range lines {
				if _, ok := numbers[l]; !ok {
					numbers[l] = int32(len(numbers))
				}
				out[i] = numbers[l]
			}
			return out
		}
		s := &scripter{a: ids(a), b: ids(b), left: budget}
		s.inA, s.inB = make([]seen, len(numbers)), make([]seen, len(numbers))
		prevA, prevB := -1, -1
		for _, at := range s.anchors(0, len(a), 0, len(b)) {
			if a[at.a0] != b[at.b0] || at.a0 <= prevA || at.b0 <= prevB {
				t.Fatalf("anchor %+v after %d, %d", at, prevA, prevB)
			}
			prevA, prevB = at.a0, at.b0
		}
		// Without work left every stretch is split at anchors or given up.
		s.left = rapid.SampledFrom([]int{0, 50, 500, 5000}).Draw(t, "left")
		s.between(0, len(a), 0, len(b))
		var got []string
		at := 0
		for _, c := range slide(s.a, s.b, s.changes) {
			got = append(append(got, a[at:c.a0]...), b[c.b0:c.b1]...)
			at = c.a1
		}
		if got = append(got, a[at:]...); !slices.Equal(got, b) {
			t.Fatalf("%v, want %v", got, b)
		}
	})
}

// patch(1) is the judge of the text form.
func TestUnified_PatchAcceptsIt(t *testing.T) {
	if _, err := exec.LookPath("patch"); err != nil {
		t.Skip("patch is not installed")
	}
	for i, tc := range []struct{ before, after string }{
		{"a\nb\nc", "a\nB\nc\n"}, {"a\r\nb\r\n", "a\r\nB\r\n"}, {"x\n", "x\xff\ny"}, {"1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n", "1\n3\n4\n5\n6\n7\n8\n9\nnine\n10\n"},
		{"a\n", "a\n-- b\n++ c\n"},
	} {
		dir := t.TempDir()
		file, script := filepath.Join(dir, "f"), filepath.Join(dir, "p")
		text := Compare(tc.before, tc.after, Options{}).Unified("f", "f")
		if err := errors.Join(os.WriteFile(file, []byte(tc.before), 0o600), os.WriteFile(script, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command("patch", "--binary", "--fuzz=0", file, script).CombinedOutput(); err != nil {
			t.Errorf("%d: %v\n%s\n%s", i, err, out, text)
			continue
		}
		if got, _ := os.ReadFile(file); string(got) != tc.after {
			t.Errorf("%d: %q, want %q", i, got, tc.after)
		}
	}
}

func FuzzCompare(f *testing.F) {
	f.Add("a\nb\n", "a\nc", 3, 100)
	f.Add("a\r\nb\xff", "\xffa\r\n", 0, 1)
	f.Add(strings.Repeat("x", 3000), strings.Repeat("x", 2990)+"\n", 1, 100_000)
	f.Fuzz(func(t *testing.T, before, after string, context, maxBytes int) {
		if context > 1000 || maxBytes < 1 {
			return
		}
		d := Compare(before, after, Options{Context: context, MaxBytes: maxBytes})
		if (before == after) != (d.Added == 0 && d.Removed == 0) {
			t.Fatalf("%d added, %d removed", d.Added, d.Removed)
		}
		got, err := patched(before, d.Hunks)
		if d.Cut > 0 {
			return // what is shown in part can't be patched with
		}
		if err != nil {
			t.Fatal(err)
		}
		if d.LeftOut == 0 && got != after {
			t.Fatalf("%q", got)
		}
	})
}

func BenchmarkCompare(b *testing.B) {
	line := func(i int) string { return fmt.Sprintf("the line number %d of a file\n", i) }
	var before, after strings.Builder
	for i := range 300_000 {
		before.WriteString(line(i))
		if i%1000 == 0 {
			after.WriteString("a new line\n")
		}
		after.WriteString(line(i))
	}
	b.SetBytes(int64(before.Len() + after.Len()))
	for b.Loop() {
		Compare(before.String(), after.String(), Options{})
	}
}
