package grep

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/dshx/dshx/tools/fs/internal/glob"
	"github.com/dshx/dshx/tools/fs/internal/rawfs"
	"github.com/dshx/dshx/tools/fs/internal/walk"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

func tree(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for path, text := range files {
		full := filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func compile(t testing.TB, p Pattern) *Matcher {
	t.Helper()
	m, err := Compile(p)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func find(t testing.TB, m *Matcher, o Options) *Result {
	t.Helper()
	r, err := Search(context.Background(), walk.Here, m, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// show is a result in short: path:line:column:text.
func show(r *Result) string {
	var b strings.Builder
	for _, f := range r.Files {
		for _, m := range f.Matches {
			fmt.Fprintf(&b, "%s:%d:%d:%s\n", f.Path, m.Line, m.Column, m.Text.Text)
		}
	}
	return b.String()
}

func TestSearch_Lines(t *testing.T) {
	for _, tc := range []struct {
		name string
		p    Pattern
		text string
		want string
	}{
		{"a plain text", Pattern{Text: "two"}, "one\ntwo\nthree two\n", "f:2:1:two\nf:3:7:three two\n"},
		{"without a last line break", Pattern{Text: "b$"}, "a\nb", "f:2:1:b\n"},
		{"the end of a CRLF line", Pattern{Text: "b$"}, "ab\r\nb\r\n", "f:1:2:ab\nf:2:1:b\n"},
		{"carriage returns that are asked for", Pattern{Text: `b\r$`}, "ab\r\nb\n", "f:1:2:ab\r\n"},
		{"an empty pattern is on every line", Pattern{Text: ""}, "a\n\nb\n", "f:1:1:a\nf:2:1:\nf:3:1:b\n"},
		{"an empty line", Pattern{Text: "^$"}, "a\n\nb\n", "f:2:1:\n"},
		{"fixed", Pattern{Text: "a.b(", Fixed: true}, "axb(\na.b(\n", "f:2:1:a.b(\n"},
		{"case", Pattern{Text: "TASK", IgnoreCase: true}, "task\nta\u017f\u212a\nTasK\ntas\n", "f:1:1:task\nf:2:1:ta\u017f\u212a\nf:3:1:TasK\n"},
		{"case beyond ASCII", Pattern{Text: "éa", IgnoreCase: true}, "ÉA\nea\n", "f:1:1:ÉA\n"},
		{"word", Pattern{Text: "foo", Word: true}, "food\nfoo\na foo.\n_foo\néfoo\n", "f:2:1:foo\nf:3:3:a foo.\n"},
		{"word takes the longer choice", Pattern{Text: "foo|foobar", Word: true}, "foobar\n", "f:1:1:foobar\n"},
		{"word and groups", Pattern{Text: "(a)(b)", Word: true}, "x ab\n", "f:1:3:x ab\n"},
		{"columns are bytes", Pattern{Text: "x"}, "éx\n", "f:1:3:éx\n"},
		{"UTF-8 with a mark", Pattern{Text: "^a"}, "\xef\xbb\xbfa\n", "f:1:1:a\n"},
		{"UTF-16, little end first", Pattern{Text: "^é$"}, "\xff\xfe\xe9\x00\r\x00\n\x00", "f:1:1:é\n"},
		{"UTF-16, big end first", Pattern{Text: "b"}, "\xfe\xff\x00a\x00\n\x00b", "f:2:1:b\n"},
		{"bytes that are not UTF-8", Pattern{Text: "a.b"}, "a\xffb\n", "f:1:1:a\xffb\n"},
		{"over lines", Pattern{Text: `a\nb`, Multiline: true}, "x\na\r\nb\na\nb\n", "f:2:1:a\nb\nf:4:1:a\nb\n"},
		{"over lines, on the same line", Pattern{Text: `b\na`, Multiline: true}, "ab\nab\nab\n", "f:1:2:ab\nab\nab\n"},
		{"no match after the last line", Pattern{Text: `(?s)z*$`, Multiline: true}, "a\n", "f:1:2:a\n"},
		{"alternatives", Pattern{Text: "alpha|omega"}, "alpha\nbeta\nomega\n", "f:1:1:alpha\nf:3:1:omega\n"},
		{"no literal at all", Pattern{Text: `\d{2}-\w+`}, "1-a\n12-a\n", "f:2:1:12-a\n"},
		{"word boundaries", Pattern{Text: `\bif\b`}, "gif\nif(\nif\n", "f:2:1:if(\nf:3:1:if\n"},
		{"a class that negates does not cross lines", Pattern{Text: `a[^x]b`}, "a\nb\na-b\n", "f:3:1:a-b\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := tree(t, map[string]string{"f": tc.text})
			r := find(t, compile(t, tc.p), Options{Walk: walk.Options{Root: dir}, Limit: -1})
			if got := show(r); got != tc.want {
				t.Errorf("got\n%q, want\n%q", got, tc.want)
			}
		})
	}
}

func TestF4_24_ErrorsNameTheConstruct(t *testing.T) {
	for text, want := range map[string]string{
		`foo(?=bar)`:    "look-ahead",
		`(?!a)b`:        "negative look-ahead",
		`(?<=a)b`:       "look-behind",
		`(?<!a)b`:       "negative look-behind",
		`(a)\1`:         `back-reference \1`,
		`(?P<n>a)\k<n>`: `back-reference \k`,
		`(?>a)`:         "atomic group",
		`a++`:           "possessive",
		`(?R)`:          "recursion",
		`(`:             "missing closing )",
		`[a`:            "missing closing ]",
		`*`:             "missing argument",
		`a\nb`:          "multiline",
		`a{2000}`:       "invalid repeat count",
	} {
		_, err := Compile(Pattern{Text: text})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error with %q", text, err, want)
		}
	}
	for _, text := range []string{`[(?=]\(`, `\(?=`, `(?<name>a)`} {
		if _, err := Compile(Pattern{Text: text}); err != nil && strings.Contains(err.Error(), "does not have") {
			t.Errorf("%s: %v", text, err)
		}
	}
	dir := tree(t, map[string]string{"f": "a"})
	m := compile(t, Pattern{Text: "nowhere"})
	if r := find(t, m, Options{Walk: walk.Options{Root: dir}, Limit: 1}); r.TotalMatches != 0 || r.Files != nil || r.Truncated {
		t.Errorf("nothing to be found: %+v", r)
	}
	_, err := Search(context.Background(), walk.Here, m, Options{Walk: walk.Options{Root: filepath.Join(dir, "none")}})
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a path that is not there: %v", err)
	}
}

func TestF4_20_NamedOddFiles(t *testing.T) {
	dir := tree(t, map[string]string{"f": "a"})
	fifo := filepath.Join(dir, "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	m := compile(t, Pattern{Text: "a"})
	for _, path := range []string{fifo, "/dev/zero"} {
		_, err := Search(context.Background(), walk.Here, m, Options{Walk: walk.Options{Root: path}})
		if !errors.Is(err, rawfs.ErrNotRegular) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if r := find(t, m, Options{Walk: walk.Options{Root: dir}, Limit: 9}); r.TotalFiles != 1 {
		t.Errorf("beside a FIFO: %+v", r)
	}
}

func TestF4_25_LongLines(t *testing.T) {
	long := func(word string) string {
		return strings.Repeat("x", 700_000) + word + strings.Repeat("y", 300_000-len(word))
	}
	dir := tree(t, map[string]string{"f": long("") + "\n" + long("needle") + "\n" + long("") + "\n"})
	r := find(t, compile(t, Pattern{Text: "needle"}), Options{Walk: walk.Options{Root: dir}, Before: 1, After: 1, Limit: 9})
	m := r.Files[0].Matches[0]
	if m.Line != 2 || m.Column != 700_001 || !strings.Contains(m.Text.Text, "needle") || len(m.Text.Text) != MaxText || m.Cut != 1_000_000-MaxText {
		t.Errorf("line %d, column %d, %d characters, %d cut", m.Line, m.Column, len(m.Text.Text), m.Cut)
	}
	for _, c := range append(m.Before, m.After...) {
		if len(c.Text) != MaxText || c.Cut != 1_000_000-MaxText {
			t.Errorf("context of %d characters, %d cut", len(c.Text), c.Cut)
		}
	}
	if len(m.Before) != 1 || len(m.After) != 1 {
		t.Errorf("%d lines before, %d after", len(m.Before), len(m.After))
	}
}

func TestF6_19_CutsAtCharacters(t *testing.T) {
	for k := range 4 {
		line := strings.Repeat("k", k) + strings.Repeat("\U0001F600", 40_000) + "needle" + strings.Repeat("é", 5000)
		for _, p := range []string{"needle", "^", "$", "\U0001F600+n"} {
			dir := tree(t, map[string]string{"f": line})
			m := find(t, compile(t, Pattern{Text: p}), Options{Walk: walk.Options{Root: dir}, Limit: 9}).Files[0].Matches[0]
			if !utf8.ValidString(m.Text.Text) || utf8.RuneCountInString(m.Text.Text) != MaxText || m.Cut != k+45_006-MaxText {
				t.Errorf("%d, %s: %d characters, %d cut, valid: %v", k, p, utf8.RuneCountInString(m.Text.Text), m.Cut, utf8.ValidString(m.Text.Text))
			}
		}
	}
}

func TestSearch_Binary(t *testing.T) {
	dir := tree(t, map[string]string{"text": "word\n", "bin": "word\x00\n", "late": strings.Repeat("word\n", 50_000) + "\x00"})
	m := compile(t, Pattern{Text: "word"})
	r := find(t, m, Options{Walk: walk.Options{Root: dir}, Limit: -1})
	if show(r) != "text:1:1:word\n" || r.Omitted.Binary != 2 {
		t.Errorf("%q, %d binary", show(r), r.Omitted.Binary)
	}
	r = find(t, m, Options{Walk: walk.Options{Root: filepath.Join(dir, "bin")}, Limit: -1})
	if show(r) != ":1:1:word\x00\n" || r.Omitted.Binary != 0 {
		t.Errorf("named: %q", show(r))
	}
}

func TestSearch_Context(t *testing.T) {
	dir := tree(t, map[string]string{"f": "1\n2 x\n3\n4 x\n5"})
	r := find(t, compile(t, Pattern{Text: "x"}), Options{Walk: walk.Options{Root: dir}, Before: 2, After: 2, Limit: -1})
	got := fmt.Sprint(r.Files[0].Matches)
	want := "[{2 3 {2 x 0} [{1 0}] [{3 0} {4 x 0}]} {4 3 {4 x 0} [{2 x 0} {3 0}] [{5 0}]}]"
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// small makes searchers read in parts.
func small(t *testing.T, first, whole, held int) {
	t.Helper()
	f, w, h := firstBuffer, maxWhole, maxHeld
	firstBuffer, maxWhole, maxHeld = first, whole, held
	t.Cleanup(func() { firstBuffer, maxWhole, maxHeld = f, w, h })
}

func TestSearch_InPartsTheSame(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	for range 150 {
		var b strings.Builder
		for b.Len() < 300 {
			b.WriteString(strings.Repeat("-", r.Intn(20)))
			b.WriteString([]string{"x", "", "ab", "x\r", "\r", "é"}[r.Intn(6)])
			b.WriteString([]string{"\n", "\r\n", "\n\n"}[r.Intn(3)])
		}
		dir := tree(t, map[string]string{"f": b.String() + "last x"})
		for _, text := range []string{"x", "x$", "^-*$", "a|x"} {
			m := compile(t, Pattern{Text: text})
			o := Options{Walk: walk.Options{Root: dir}, Before: r.Intn(3), After: r.Intn(3), Limit: -1}
			want := fmt.Sprint(find(t, m, o))
			func() {
				f, w, h := firstBuffer, maxWhole, maxHeld
				defer func() { firstBuffer, maxWhole, maxHeld = f, w, h }()
				firstBuffer, maxWhole = 16, 32
				if got := fmt.Sprint(find(t, m, o)); got != want {
					t.Fatalf("%s before %d after %d in %q: in parts\n%s, whole\n%s", text, o.Before, o.After, b.String(), got, want)
				}
			}()
		}
	}
}

func TestSearch_TooLarge(t *testing.T) {
	small(t, 16, 32, 64)
	dir := tree(t, map[string]string{"long": strings.Repeat("x", 100), "short": "x", "many": strings.Repeat("x\n", 100)})
	r := find(t, compile(t, Pattern{Text: "x"}), Options{Walk: walk.Options{Root: dir}, Limit: -1})
	if r.TotalFiles != 2 || r.TotalMatches != 101 || r.Omitted.TooLarge != 1 {
		t.Errorf("%d matches in %d files, omitted %+v", r.TotalMatches, r.TotalFiles, r.Omitted)
	}
	r = find(t, compile(t, Pattern{Text: "x", Multiline: true}), Options{Walk: walk.Options{Root: dir}, Limit: -1})
	if r.TotalFiles != 1 || r.Omitted.TooLarge != 2 {
		t.Errorf("over lines: %d files, omitted %+v", r.TotalFiles, r.Omitted)
	}
}

func TestSearch_LimitsTotalsAndOverflow(t *testing.T) {
	files := map[string]string{}
	for d := range 30 {
		for f := range 20 {
			files[fmt.Sprintf("d%d/f%d", d, f)] = strings.Repeat("x\n-\n", f%4)
		}
	}
	files["d5/big"] = strings.Repeat("x "+strings.Repeat("y", 100)+"\n", 5000)
	dir := tree(t, files)
	m := compile(t, Pattern{Text: "x"})
	for _, output := range []Output{Matches, Files, Count} {
		all := find(t, m, Options{Walk: walk.Options{Root: dir}, Output: output, Limit: -1})
		if all.TotalMatches != 30*5*6+5000 || all.TotalFiles != 30*15+1 || all.Truncated || len(all.Files) != all.TotalFiles {
			t.Fatalf("all: %d matches in %d files", all.TotalMatches, all.TotalFiles)
		}
		for _, limit := range []int{0, 1, 100, 3000, 5900, 451, 10000} {
			for _, workers := range []int{1, 2, 7} {
				var spilled Result
				var spill strings.Builder
				toJSON := JSONLines(&spill, "/p/")
				o := Options{Walk: walk.Options{Root: dir, Workers: workers}, Output: output, Limit: limit, Overflow: func(f *File) error {
					n := len(spilled.Files)
					if n > 0 && spilled.Files[n-1].Path == f.Path {
						spilled.Files[n-1].Count += f.Count
						spilled.Files[n-1].Matches = append(spilled.Files[n-1].Matches, f.Matches...)
					} else {
						c := *f
						c.Matches = slices.Clone(f.Matches)
						spilled.Files = append(spilled.Files, c)
					}
					return toJSON(f)
				}}
				for _, overflow := range []bool{true, false} {
					if !overflow {
						o.Overflow = nil
					}
					r := find(t, m, o)
					if r.TotalMatches != all.TotalMatches || r.TotalFiles != all.TotalFiles {
						t.Errorf("output %d, limit %d: totals %d in %d", output, limit, r.TotalMatches, r.TotalFiles)
					}
					kept, want := 0, all.TotalMatches
					if output != Matches {
						want = all.TotalFiles
					}
					for i, f := range r.Files {
						a := all.Files[i]
						if f.Path != a.Path || f.Count != a.Count {
							t.Fatalf("output %d, limit %d: file %d is %s with %d, want %s with %d", output, limit, i, f.Path, f.Count, a.Path, a.Count)
						}
						if output == Matches {
							kept += len(f.Matches)
						} else {
							kept++
						}
					}
					if kept != min(limit, want) || r.Truncated != (want > limit) {
						t.Errorf("output %d, limit %d: kept %d, truncated %v", output, limit, kept, r.Truncated)
					}
					if overflow && r.Truncated && fmt.Sprint(spilled.Files) != fmt.Sprint(all.Files) {
						t.Errorf("output %d, limit %d: the overflow is not all", output, limit)
					}
					if overflow && !r.Truncated && spilled.Files != nil {
						t.Errorf("output %d, limit %d: an overflow of nothing", output, limit)
					}
					if lines := strings.Count(spill.String(), "\n"); overflow && r.Truncated && lines != want {
						t.Errorf("output %d, limit %d: %d lines of JSON, want %d", output, limit, lines, want)
					}
				}
			}
		}
	}
	stop := errors.New("stop")
	_, err := Search(context.Background(), walk.Here, m, Options{Walk: walk.Options{Root: dir}, Overflow: func(*File) error { return stop }})
	if !errors.Is(err, stop) {
		t.Errorf("an overflow that fails: %v", err)
	}
}

func TestSearch_OneWorkerAfterTheOther(t *testing.T) {
	files := map[string]string{}
	for f := range 300 {
		files[fmt.Sprintf("f%d", f)] = strings.Repeat(fmt.Sprintf("x %d %s\n", f, strings.Repeat("y", 1500)), 100)
	}
	dir := tree(t, files)
	run := func(n int, f func(int)) {
		for i := range n {
			f(i)
		}
	}
	r, err := Search(context.Background(), run, compile(t, Pattern{Text: "x"}), Options{Walk: walk.Options{Root: dir, Workers: 3}, Limit: 5, Overflow: func(*File) error { return nil }})
	if err != nil || r.TotalMatches != 30_000 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestSearch_EndsWithItsContext(t *testing.T) {
	dir := tree(t, map[string]string{"f": strings.Repeat("x\n", 100_000), "g": "x"})
	ctx, cancel := context.WithCancel(context.Background())
	o := Options{Walk: walk.Options{Root: dir, Workers: 4}, Overflow: func(*File) error { cancel(); return nil }}
	if _, err := Search(ctx, walk.Here, compile(t, Pattern{Text: "x"}), o); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled meanwhile: %v", err)
	}
}

func TestSearch_IncludeIgnoredHidden(t *testing.T) {
	dir := tree(t, map[string]string{".git/HEAD": "ref: refs/heads/x\n", ".git/objects/x": "", ".git/refs/x": "",
		".gitignore": "dist\n", "dist/a.js": "x", "b.js": "x", ".c.js": "x", "d.go": "x"})
	include, err := glob.CompileName("*.{js,ts}")
	if err != nil {
		t.Fatal(err)
	}
	m := compile(t, Pattern{Text: "x"})
	for _, tc := range []struct {
		o    walk.Options
		want string
		omit int
	}{
		{walk.Options{}, "b.js:1:1:x\nd.go:1:1:x\n", 1},
		{walk.Options{Include: include}, "b.js:1:1:x\n", 1},
		{walk.Options{Exclude: include}, "d.go:1:1:x\n", 1},
		{walk.Options{Include: include, Hidden: true}, ".c.js:1:1:x\nb.js:1:1:x\n", 1},
		{walk.Options{Include: include, Ignored: true}, "b.js:1:1:x\ndist/a.js:1:1:x\n", 0},
	} {
		tc.o.Root = dir
		r := find(t, m, Options{Walk: tc.o, Limit: -1})
		if show(r) != tc.want || r.Omitted.Ignored != tc.omit {
			t.Errorf("%q, %d ignored, want %q, %d", show(r), r.Omitted.Ignored, tc.want, tc.omit)
		}
	}
}

// plain is what a search must find: each line, asked of regexp.
func plain(m *Matcher, text string) (lines []int) {
	for i, line := range strings.SplitAfter(text, "\n") {
		if line == "" {
			continue
		}
		line = strings.TrimSuffix(line, "\n")
		if !m.spellsCR && i < strings.Count(text, "\n") {
			line = strings.TrimSuffix(line, "\r")
		}
		if m.re.MatchString(line) {
			lines = append(lines, i+1)
		}
	}
	return lines
}

func engine(m *Matcher, text string) (lines []int) {
	s := &search{m: m, o: Options{Limit: -1}, result: &Result{}}
	sr := newSearcher(m, &s.o, func() bool { return false })
	sr.out = &collector{s: s, b: &batch{}}
	t := sr.unixLines([]byte(text), 0)
	sr.region(t, 0, len(t))
	for _, match := range sr.out.found {
		lines = append(lines, match.Line)
	}
	return lines
}

func compare(t interface {
	Helper()
	Fatalf(string, ...any)
}, p Pattern, text string) {
	t.Helper()
	m, err := Compile(p)
	if err != nil || len(text) > 1<<12 {
		return
	}
	want := plain(m, text)
	if got := engine(m, text); !slices.Equal(got, want) {
		t.Fatalf("%+v in %q: lines %v, regexp says %v; needles %v", p, text, got, want, m.needles)
	}
	m.needles, m.exact = nil, false
	if got := engine(m, text); !slices.Equal(got, want) {
		t.Fatalf("%+v in %q without needles: lines %v, regexp says %v", p, text, got, want)
	}
}

// The filter and the automaton find what regexp finds, no less and no more.
func FuzzEngine(f *testing.F) {
	for _, seed := range []struct{ p, t string }{
		{"ab+c|d", "abbc\nd\nx"}, {`\bfoo\b`, "foo\nfood\n"}, {"(?i)k|ſ", "\u212a\nS\n"}, {"^$", "\n\n"}, {`\s+x`, " x\r\n\tx\n"},
		{"[^a]b", "ab\n\xffb\n"}, {"a.{2,3}z", "aéxz\naz\n"}, {`\Aa\z`, "a\nb"}, {"(a|b)*c?d", "abcd\nd\n"}, {"x*", "a\n"}, {`\r`, "a\r\nb"},
	} {
		f.Add(seed.p, seed.t, byte(0))
		f.Add(seed.p, seed.t, byte(7))
	}
	f.Fuzz(func(t *testing.T, p, text string, flags byte) {
		if len(p) > 60 {
			return
		}
		compare(t, Pattern{Text: p, IgnoreCase: flags&1 != 0, Word: flags&2 != 0, Fixed: flags&4 != 0}, text)
	})
}

func TestEngine_FindsWhatRegexpFinds(t *testing.T) {
	atom := rapid.SampledFrom([]string{"a", "b", "ab", "k", "S", "é", ".", "[ab]", "[^a]", `\w`, `\s`, `\d`, `\b`, `\B`, "^", "$", "(a|b)", "(?:ab|é|)", "x{2}", "needle", "(?i:ks)", `\pL`, `\x{FFFD}`})
	piece := rapid.Custom(func(t *rapid.T) string {
		return atom.Draw(t, "atom") + rapid.SampledFrom([]string{"", "", "", "*", "+", "?", "{1,2}", "|"}).Draw(t, "times")
	})
	char := rapid.SampledFrom([]string{"a", "b", "k", "K", "s", "S", "\u212a", "\u017f", "é", "É", " ", "1", "x", "\n", "\n", "\r\n", "\r", "\xff", "needle", "_", "\ufffd"})
	rapid.Check(t, func(t *rapid.T) {
		p := Pattern{Text: strings.Join(rapid.SliceOfN(piece, 1, 5).Draw(t, "pattern"), ""), IgnoreCase: rapid.Bool().Draw(t, "i"), Word: rapid.IntRange(0, 3).Draw(t, "w") == 0}
		text := strings.Join(rapid.SliceOfN(char, 0, 40).Draw(t, "text"), "")
		compare(t, p, text)
	})
}

func TestSearch_AgreesWithRipgrep(t *testing.T) {
	rg, err := exec.LookPath("rg")
	if err != nil {
		t.Skip("rg is not installed: there is nothing to compare with")
	}
	r := rand.New(rand.NewSource(7))
	words := []string{"alpha", "Beta", "gamma", "x1", "foo_bar", "naïve", "ÉTÉ", "a-b", "  ", "\t", "(", "."}
	files := map[string]string{".git/HEAD": "ref: refs/heads/x\n", ".git/objects/x": "", ".git/refs/x": "", ".gitignore": "*.log\n/out\n!keep.log\n"}
	for range 120 {
		var b strings.Builder
		for range r.Intn(30) {
			for range r.Intn(6) {
				b.WriteString(words[r.Intn(len(words))])
				b.WriteString([]string{" ", "", ","}[r.Intn(3)])
			}
			b.WriteByte('\n')
		}
		files[fmt.Sprintf("%s/%d.%s", []string{"a", "a/b", "out", ".h", "c"}[r.Intn(5)], r.Intn(30), []string{"go", "log", "txt"}[r.Intn(3)])] = b.String()
	}
	files["keep.log"] = "alpha\n"
	dir := tree(t, files)
	for _, tc := range []struct {
		p    Pattern
		args []string
	}{
		{Pattern{Text: "alpha"}, nil},
		{Pattern{Text: "beta", IgnoreCase: true}, []string{"-i"}},
		{Pattern{Text: "été", IgnoreCase: true}, []string{"-i"}},
		{Pattern{Text: "x1", Word: true}, []string{"-w"}},
		{Pattern{Text: "(", Fixed: true}, []string{"-F"}},
		{Pattern{Text: `[a-z]+_[a-z]+`}, nil},
		{Pattern{Text: `^\s*alpha`}, nil},
		{Pattern{Text: `gamma|Beta`}, nil},
		{Pattern{Text: `[A-Z][a-z]+,$`}, nil},
		{Pattern{Text: `^$`}, nil},
		{Pattern{Text: `alpha\S*\n.*gamma`, Multiline: true}, []string{"-U"}},
		{Pattern{Text: `(?s)Beta.{0,20}alpha`, Multiline: true}, []string{"-U"}},
	} {
		var got []string
		for _, f := range find(t, compile(t, tc.p), Options{Walk: walk.Options{Root: dir}, Limit: -1}).Files {
			for _, m := range f.Matches {
				for i, line := range strings.Split(m.Text.Text, "\n") {
					got = append(got, fmt.Sprintf("%s:%d:%s", f.Path, m.Line+i, line))
				}
			}
		}
		cmd := exec.Command(rg, append(tc.args, "-n", "--no-heading", "--color", "never", "-e", tc.p.Text)...)
		cmd.Dir = dir
		out, _ := cmd.Output()
		want := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
		if len(out) == 0 {
			want = nil
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%+v: %d lines, rg %d\n%q\n%q", tc.p, len(got), len(want), got, want)
		}
		if len(got) == 0 {
			t.Errorf("%+v finds nothing: no test", tc.p)
		}
	}
}

// The first worker that is done with the walk plans the search: what the others
// left out must be counted by then.
func TestSearch_CountsWhatEveryWorkerLeftOut(t *testing.T) {
	files := map[string]string{".git/HEAD": "ref: refs/heads/x\n", ".git/objects/x": "", ".git/refs/x": "", ".gitignore": "*.o\n"}
	for d := range 40 {
		files[fmt.Sprintf("d%d/x.o", d)] = "word\n"
		files[fmt.Sprintf("d%d/y", d)] = "word\n"
	}
	dir := tree(t, files)
	m := compile(t, Pattern{Text: "word"})
	for range 50 {
		r, err := Search(context.Background(), walk.Here, m, Options{Walk: walk.Options{Root: dir, Workers: 4}, Limit: -1})
		if err != nil {
			t.Fatal(err)
		}
		if r.TotalFiles != 40 || r.Omitted.Ignored != 40 {
			t.Fatalf("%d files, %d ignored", r.TotalFiles, r.Omitted.Ignored)
		}
	}
}
