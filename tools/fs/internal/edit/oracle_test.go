package edit

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/dshx/dshx/tools/fs/internal/text"
	"pgregory.net/rapid"
)

// The oracle knows a file as a list of atoms, each with its bytes in the file: a
// character, a line end of whichever kind, or a byte or unit that is neither. It
// compares atom by atom at every place.
type atom struct {
	r    rune // '\n' for every line end; negative for what is no character
	lone bool // a lone CR
	raw  string
}

func atomsOf(file string) (mark string, atoms []atom, encode func(rune) string) {
	encode = func(r rune) string { return string(r) }
	enc, n := text.DetectEncoding([]byte(file))
	mark, file = file[:n], file[n:]
	if enc == text.UTF8 {
		for i := 0; i < len(file); {
			r, n := utf8.DecodeRuneInString(file[i:])
			if r == utf8.RuneError && n == 1 {
				r = -1
			}
			atoms = append(atoms, atom{r: r, raw: file[i : i+n]})
			i += n
		}
	} else {
		pair := func(u uint16) string {
			if enc == text.UTF16LE {
				return string([]byte{byte(u), byte(u >> 8)})
			}
			return string([]byte{byte(u >> 8), byte(u)})
		}
		encode = func(r rune) (s string) {
			for _, u := range utf16.Encode([]rune{r}) {
				s += pair(u)
			}
			return s
		}
		for i := 0; i < len(file); {
			if i+1 == len(file) {
				atoms = append(atoms, atom{r: -1, raw: file[i:]})
				break
			}
			u := rune(file[i]) | rune(file[i+1])<<8
			if enc == text.UTF16BE {
				u = rune(file[i+1]) | rune(file[i])<<8
			}
			n := 2
			if utf16.IsSurrogate(u) {
				r := rune(-1)
				for c := rune(0x1F600); c < 0x1F680; c++ { // the pairs that the tests make
					if strings.HasPrefix(file[i:], encode(c)) {
						r, n = c, 4
					}
				}
				u = r
			}
			atoms = append(atoms, atom{r: u, raw: file[i : i+n]})
			i += n
		}
	}
	// Line ends.
	var out []atom
	for i := 0; i < len(atoms); i++ {
		a := atoms[i]
		switch {
		case a.r == '\r' && i+1 < len(atoms) && atoms[i+1].r == '\n':
			a = atom{r: '\n', raw: a.raw + atoms[i+1].raw}
			i++
		case a.r == '\r':
			a.r, a.lone = '\n', true
		}
		out = append(out, a)
	}
	return mark, out, encode
}

// expect is what Apply should return for a file and one edit: the new content or
// a code, the line of the first match, and the number of matches.
func expect(file string, e Edit) (string, int, int) {
	mark, atoms, encode := atomsOf(file)
	_, old, _ := atomsOf(e.Old)
	if strings.HasPrefix(e.Old, "\ufeff") {
		old = append([]atom{{r: 0xFEFF}}, old...)
	}
	lone := slices.ContainsFunc(old, func(a atom) bool { return a.lone })
	matches := func(at int) bool {
		for i, o := range old {
			if at+i >= len(atoms) || atoms[at+i].r != o.r || lone && o.r == '\n' && o.lone != atoms[at+i].lone {
				return false
			}
		}
		return true
	}
	var starts []int
	for at := 0; at < len(atoms); {
		if matches(at) {
			starts = append(starts, at)
			at += len(old)
			continue
		}
		at++
	}
	switch {
	case len(starts) == 0:
		return "EDIT_NOT_FOUND", 0, 0
	case len(starts) > 1 && !e.All:
		return "EDIT_AMBIGUOUS", 0, len(starts)
	}
	line := 1
	for _, a := range atoms[:starts[0]] {
		if a.r == '\n' {
			line++
		}
	}

	_, new, _ := atomsOf(e.New)
	if strings.HasPrefix(e.New, "\ufeff") {
		new = append([]atom{{r: 0xFEFF}}, new...)
	}
	out := mark
	at := 0
	for _, start := range starts {
		for _, a := range atoms[at:start] {
			out += a.raw
		}
		at = start + len(old)
		ends := endsFor(atoms, start, at, old, new)
		for _, a := range new {
			switch {
			case a.r == '\n' && ends == nil:
				for _, r := range a.raw {
					out += encode(r)
				}
			case a.r == '\n':
				out += ends[0]
				ends = ends[1:]
			default:
				out += encode(a.r)
			}
		}
	}
	for _, a := range atoms[at:] {
		out += a.raw
	}
	if out == file {
		out = "EDIT_NO_CHANGE"
	}
	return out, line, len(starts)
}

// endsFor returns the ends of new's lines at the match atoms[start:end]; nil if
// the file has none to follow.
func endsFor(atoms []atom, start, end int, old, new []atom) []string {
	var all []string // of the match, and the one after it
	var last string
	for _, a := range atoms {
		if a.r == '\n' {
			last = a.raw
		}
	}
	if last == "" {
		return nil
	}
	for _, a := range atoms[start:end] {
		if a.r == '\n' {
			all = append(all, a.raw)
		}
	}
	after := last
	for _, a := range atoms[end:] {
		if a.r == '\n' {
			after = a.raw
			break
		}
	}
	all = append(all, after)
	oldLines, newLines := linesOfAtoms(old), linesOfAtoms(new)
	from := pairUp(oldLines, newLines)
	var out []string
	for i := range len(newLines) - 1 {
		out = append(out, all[from[i]])
	}
	return append(out, "")[: len(newLines)-1 : len(newLines)]
}

func linesOfAtoms(atoms []atom) []string {
	lines := []string{""}
	for _, a := range atoms {
		if a.r == '\n' {
			lines = append(lines, "")
		} else {
			lines[len(lines)-1] += string(a.r)
		}
	}
	return lines
}

// pairUp says for each new line which old one's end it has: the rule of Apply's
// comment by lists of pairs and recursion.
func pairUp(old, new []string) []int {
	type pair struct{ o, n int }
	var equal []pair
	head := 0
	for head < len(old) && head < len(new) && old[head] == new[head] {
		equal = append(equal, pair{head, head})
		head++
	}
	tail := 0
	for tail < len(old)-head && tail < len(new)-head && old[len(old)-1-tail] == new[len(new)-1-tail] {
		tail++
	}
	memo := map[pair][]pair{}
	var best func(o, n int) []pair
	best = func(o, n int) []pair {
		if o >= len(old)-tail || n >= len(new)-tail {
			return nil
		}
		if found, ok := memo[pair{o, n}]; ok {
			return found
		}
		var out []pair
		if old[o] == new[n] {
			out = append([]pair{{o, n}}, best(o+1, n+1)...)
		} else if a, b := best(o+1, n), best(o, n+1); len(a) >= len(b) {
			out = a
		} else {
			out = b
		}
		memo[pair{o, n}] = out
		return out
	}
	equal = append(equal, best(head, head)...)
	for i := tail; i > 0; i-- {
		equal = append(equal, pair{len(old) - i, len(new) - i})
	}
	equal = append(equal, pair{len(old), len(new)})
	from := make([]int, len(new))
	o, n := 0, 0
	for _, p := range equal {
		for ; n < p.n; n++ {
			switch {
			case o < p.o:
				from[n] = o
				o++
			case n > 0:
				from[n] = from[n-1]
			}
		}
		if n < len(new) {
			from[n] = p.o
		}
		o, n = p.o+1, p.n+1
	}
	return from
}

func check(fatal func(string, ...any), file string, e Edit) {
	want, line, count := expect(file, e)
	res, err := Apply([]byte(file), []Edit{e})
	got := string(res.Bytes)
	if err != nil {
		got = code(err)
	}
	if got != want {
		fatal("file %q, %q to %q, all %v:\ngot  %q\nwant %q", file, e.Old, e.New, e.All, got, want)
	}
	if err == nil && (res.Replacements != count || res.Edits[0] != Done{line, count}) {
		fatal("file %q, %q: %+v, want line %d, %d times", file, e.Old, res.Edits, line, count)
	}
}

var (
	fileParts = []string{"a", "b", "ab", "\n", "\r\n", "\r", "\n", "\r\n", "é", "😀", "\xff", "\xe2\x82", "\xf0", "\uFFFD", "\t", "\ufeff", " "}
	textParts = []string{"a", "b", "ab", "\n", "\r\n", "\r", "\n", "é", "😀", "\uFFFD", "\t", "\ufeff", " "}
)

func drawFile(t *rapid.T) string {
	s := strings.Join(rapid.SliceOfN(rapid.SampledFrom(fileParts), 0, 40).Draw(t, "file"), "")
	switch enc := rapid.SampledFrom([]string{"utf-8", "utf-8", "bom", "utf-16le", "utf-16be"}).Draw(t, "encoding"); enc {
	case "bom":
		return "\xef\xbb\xbf" + s
	case "utf-16le", "utf-16be":
		e := text.UTF16LE
		lone, odd := "\x00\xde", "\x41"
		if enc == "utf-16be" {
			e, lone = text.UTF16BE, "\xde\x00"
		}
		file := ""
		for i, part := range strings.Split(text.Valid(s), "b") {
			if i > 0 {
				file += lone // a low surrogate by itself
			}
			file += encode(part, e)[2:]
		}
		return encode("", e) + file + rapid.SampledFrom([]string{"", odd}).Draw(t, "odd")
	}
	return s
}

func drawEdit(t *rapid.T, file string) Edit {
	join := func(name string, least int) string {
		return strings.Join(rapid.SliceOfN(rapid.SampledFrom(textParts), least, 8).Draw(t, name), "")
	}
	e := Edit{Old: join("old", 1), New: join("new", 0), All: rapid.Bool().Draw(t, "all")}
	// Mostly something that is there, with line ends of any kind.
	if content := text.Decode([]byte(file)).Content; len(content) > 0 && rapid.IntRange(0, 3).Draw(t, "found") > 0 {
		from := rapid.IntRange(0, len(content)-1).Draw(t, "from")
		to := rapid.IntRange(from+1, min(len(content), from+20)).Draw(t, "to")
		if s := content[from:to]; utf8.ValidString(s) {
			if rapid.Bool().Draw(t, "as LF") {
				s = strings.ReplaceAll(s, "\r\n", "\n")
			}
			e.Old = s
			if rapid.Bool().Draw(t, "new is like old") {
				e.New = strings.Replace(s, "a", e.New, 1)
			}
		}
	}
	return e
}

func TestApply_EqualsOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		file := drawFile(t)
		check(t.Fatalf, file, drawEdit(t, file))
	})
}

// Several edits are one after the other, or none. A mark that they make or uncover
// would be none of the text's characters in the next step.
func TestApply_SequenceEqualsSteps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		file := []byte(drawFile(t))
		if strings.Contains(text.Decode(file).Content, "\ufeff") {
			t.Skip("a second mark")
		}
		var edits []Edit
		step := file
		failed := ""
		for range rapid.IntRange(1, 4).Draw(t, "edits") {
			e := drawEdit(t, string(step))
			e.New = strings.ReplaceAll(e.New, "\ufeff", "")
			edits = append(edits, e)
			if failed != "" {
				continue
			}
			res, err := Apply(step, []Edit{e})
			switch code(err) {
			case "":
				step = res.Bytes
			case "EDIT_NO_CHANGE":
			default:
				failed = code(err)
			}
		}
		res, err := Apply(file, edits)
		want := failed
		if failed == "" && bytes.Equal(step, file) {
			want = "EDIT_NO_CHANGE"
		}
		if code(err) != want || want == "" && !bytes.Equal(res.Bytes, step) {
			t.Fatalf("%q, %v; want %q, %q", res.Bytes, err, step, want)
		}
	})
}

func FuzzApply(f *testing.F) {
	f.Add("a\r\nb\nc\rd", "a\nb", "A\nB\nC", false)
	f.Add("\xff\xfea\x00\r\x00\n\x00", "a\n", "b", true)
	f.Add("\xef\xbb\xbfx\xe7\n", "x", "\r", false)
	f.Add("\r\r\n\n\r", "\r", "\n", true)
	f.Add("\n\n\r\n\n", "\n\n", "\n", true)
	f.Fuzz(func(t *testing.T, file, old, new string, all bool) {
		if old == "" || !utf8.ValidString(old) || !utf8.ValidString(new) || len(file)+len(old)+len(new) > 2000 {
			return
		}
		enc, _ := text.DetectEncoding([]byte(file))
		if enc != text.UTF8 && strings.ContainsFunc(text.Decode([]byte(file)).Content+old, func(r rune) bool { return r >= 0x10000 }) {
			return // the oracle knows only some of the pairs
		}
		check(t.Fatalf, file, Edit{old, new, all})
	})
}

func BenchmarkApply(b *testing.B) {
	for _, end := range []string{"\n", "\r\n"} {
		var s strings.Builder
		for i := 0; s.Len() < 10<<20; i++ {
			fmt.Fprintf(&s, "the line number %d of a file%s", i, end)
		}
		file := []byte(s.String())
		for _, bc := range []struct {
			name string
			edit Edit
		}{
			{"one", Edit{Old: "number 150000 of a file\nthe", New: "number\nthe"}},
			{"all", Edit{Old: "file\nthe", New: "FILE\nthe", All: true}},
			{"not found", Edit{Old: "number  150000 of a file", New: ""}},
		} {
			b.Run(fmt.Sprintf("%q/%s", end, bc.name), func(b *testing.B) {
				b.SetBytes(int64(len(file)))
				b.ReportAllocs()
				for b.Loop() {
					if _, err := Apply(file, []Edit{bc.edit}); err != nil && bc.name != "not found" {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
