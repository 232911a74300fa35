package diff

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestNearest(t *testing.T) {
	for _, tc := range []struct {
		name, content, wanted string
		line                  int
		shows                 []string
	}{
		{"F4-7: spaces for tabs", "pre\n\tif x {\n\t\ty()\n\t}\npost\n", "    if x {\n        y()\n    }\n", 2,
			[]string{"-····if·x·{\n", "+→if·x·{\n", "+→→y()\n", "[line 3, column 1: old_string has 8 × U+0020 (space), the file 2 × U+0009 (tab)]"}},
		{"F4-33: code points", "caf\u0065\u0301 a\u00a0b \u201cq\u201d\n", "caf\u00e9 a b \"q\"", 1,
			[]string{"+cafe<U+0301>·a<U+00A0>b·“q”\n", "has U+00E9 (é), the file U+0065 (e), U+0301 (combining acute accent)]",
				"column 8: old_string has U+0020 (space), the file U+00A0 (no-break space)]", "U+0022 (quotation mark), the file U+201C (left double quotation mark)]"}},
		{"F4-5: U+FFFD for an invalid byte", "n = 1\n# gar\xe7on\n", "# gar\ufffdon", 2,
			[]string{"+#·gar<0xE7>on\n", "has U+FFFD (replacement character), the file the invalid byte 0xE7]"}},
		{"a line end that isn't there", "a\nlast", "last\n", 2, []string{"[the file ends there, without a line end]"}},
		{"a lone CR", "alpha\r\nbeta\r\n", "alpha\rbeta", 1, []string{"a lone CR matches only a lone CR"}},
		{"a changed word", "one\ntwo three four\nfive\n", "two tree four", 2, []string{"-two·tree·four\n", "+two·three·four\n"}},
		{"an invisible character", "x = foo\u200bbar\n", "foobar", 1, []string{"+foo<U+200B>bar\n", "[line 1, column 8: old_string has nothing, the file U+200B (zero width space)]"}},
		{"CRLF and a difference", "a\r\nthe second line\r\nthe third line\r\n", "the second line\nthe 3rd line\n", 2, []string{" the second line\n", "-the·3rd·line\n", "+the·third·line\n"}},
		{"a lone CR counts as a line end", "one\rtwo\rthree words here\r", "three  words here", 3, []string{"+three·words·here\n"}},
		{"within a very long line", strings.Repeat("x;", 400_000) + "function foo(a,b){return a+b}" + strings.Repeat(";y", 400_000),
			"function foo(a, b) {return a+b}", 1, []string{"-function·foo(a,·b)·{return·a+b}\n", "+function·foo(a,b){return·a+b}\n", "column 800016:"}},
		{"far behind", strings.Repeat("nothing of the kind\n", 50_000) + "func needle(x int)\n", "func needle(y int)", 50_001, []string{"+func·needle(x·int)\n"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, ok := Nearest(tc.content, tc.wanted)
			if !ok || got.Line != tc.line {
				t.Fatalf("found %v, line %d, want %d\n%s", ok, got.Line, tc.line, got.Diff)
			}
			for _, s := range tc.shows {
				if !strings.Contains(got.Diff, s) {
					t.Errorf("it doesn't show %q:\n%s", s, got.Diff)
				}
			}
		})
	}
}

func TestNearest_NothingSimilar(t *testing.T) {
	for _, tc := range []struct{ name, content, wanted string }{
		{"an empty file", "", "a"},
		{"another text", "one\ntwo\n", "something entirely different"},
		{"white space", "a\n", "\t\t"},
		{"a few common letters", strings.Repeat("the quick brown fox\n", 100), "the parser returns an error if it does not know the quantity"},
	} {
		if got, ok := Nearest(tc.content, tc.wanted); ok {
			t.Errorf("%s: %s", tc.name, got.Diff)
		}
	}
}

func TestNearest_IsBounded(t *testing.T) {
	line := "世界の言語はたくさんある\n"
	for _, tc := range []struct{ name, content, wanted string }{
		{"many places alike", strings.Repeat(line, 100_000), strings.Repeat(strings.Replace(line, "語", "葉", 1), 500)},
		{"many short lines", strings.Repeat("a\nbcd\n", 300_000), strings.Repeat("a\nbce\n", 3000)},
		{"one line", strings.Repeat("abc ", 1_000_000), strings.Repeat("abd ", 5000)},
		{"invalid bytes", strings.Repeat("\xff\xfe\n", 300_000), "\xff\xff\xfe"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			// Without a bound these would run into the test's deadline.
			got, _ := Nearest(tc.content, tc.wanted)
			if len(got.Diff) > maxNearest || !utf8.ValidString(got.Diff) {
				t.Errorf("%d bytes", len(got.Diff))
			}
		})
	}
}

func FuzzNearest(f *testing.F) {
	f.Add("a\r\nb\n", "a\nc")
	f.Add("caf\u0065\u0301\xff", "caf\u00e9")
	f.Add("\ta\n\tb\r", "    a\n    b\n")
	f.Fuzz(func(t *testing.T, content, wanted string) {
		checkNearest(t.Fatalf, content, wanted)
	})
}

func checkNearest(fatal func(string, ...any), content, wanted string) {
	got, ok := Nearest(content, wanted)
	if ok != (got.Line > 0) || ok != (got.Diff != "") || len(got.Diff) > maxNearest || !utf8.ValidString(got.Diff) {
		fatal("%v %+v", ok, got)
	}
	if lines := 1 + strings.Count(normal(content), "\n"); got.Line > lines {
		fatal("line %d of %d", got.Line, lines)
	}
}

// A text with one character changed is found at its line.
func TestNearest_FindsWhatWasChanged(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringMatching(`[a-z]{6,12} [a-z]{6,12} [a-z]{6,12}`)
		lines := rapid.SliceOfNDistinct(word, 1, 20, rapid.ID).Draw(t, "lines")
		i := rapid.IntRange(0, len(lines)-1).Draw(t, "line")
		at := rapid.IntRange(0, len(lines[i])-1).Draw(t, "at")
		wanted := lines[i][:at] + "Q" + lines[i][at+1:]
		end := rapid.SampledFrom([]string{"\n", "\r\n", "\r"}).Draw(t, "end")
		content := strings.Join(lines, end)
		got, ok := Nearest(content, wanted)
		if !ok || got.Line != i+1 {
			t.Fatalf("found %v, line %d, want %d\n%s", ok, got.Line, i+1, got.Diff)
		}
		checkNearest(t.Fatalf, content, rapid.String().Draw(t, "any"))
	})
}
