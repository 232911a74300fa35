package text

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func readString(t *testing.T, data string, offset, limit int) *Window {
	t.Helper()
	w, err := Read(strings.NewReader(data), int64(len(data)), offset, limit)
	if err != nil {
		t.Fatalf("Read(%.40q): %v", data, err)
	}
	return w
}

// utf16File is s in UTF-16 behind a mark.
func utf16File(s string, e Encoding) string {
	return string(Text{Encoding: e, BOM: true, Content: s}.Encode())
}

func TestRead_Kinds(t *testing.T) {
	for _, tc := range []struct {
		name, data string
		enc        Encoding
		bom        bool
		ending     LineEnding
		lines      []string
	}{
		{"an empty file", "", UTF8, false, None, nil},
		{"a line without an end", "a", UTF8, false, None, []string{"a"}},
		{"an empty line", "\n", UTF8, false, LF, []string{""}},
		{"lf", "a\nb\n", UTF8, false, LF, []string{"a", "b"}},
		{"lf, no final one", "a\nb", UTF8, false, LF, []string{"a", "b"}},
		{"crlf", "a\r\n\r\nb\r\n", UTF8, false, CRLF, []string{"a", "", "b"}},
		{"cr", "a\rb\r", UTF8, false, CR, []string{"a", "b"}},
		{"cr and crlf", "a\r\r\nb", UTF8, false, Mixed, []string{"a", "", "b"}},
		{"lf before cr", "a\n\rb", UTF8, false, Mixed, []string{"a", "", "b"}},
		{"F4-3: mixed", "a\r\nb\nc\r\nd\re\n", UTF8, false, Mixed, []string{"a", "b", "c", "d", "e"}},
		{"F4-4: a mark", "\xef\xbb\xbfModule A\r\n' ñ ů\r\n", UTF8, true, CRLF, []string{"Module A", "' ñ ů"}},
		{"a mark alone", "\xef\xbb\xbf", UTF8, true, None, nil},
		{"a second mark is text", "\xef\xbb\xbf\ufeffa", UTF8, true, None, []string{"\ufeffa"}},
		{"F4-5: an invalid byte", "n = 1\n# gar\xE7on\n", UTF8, false, LF, []string{"n = 1", "# gar\uFFFDon"}},
		{"each invalid byte is a character", "\xe2\x82 \xf0", UTF8, false, None, []string{"\uFFFD\uFFFD \uFFFD"}},
		{"F4-32: UTF-16LE", utf16File("λ one\r\n😀\r\n", UTF16LE), UTF16LE, true, CRLF, []string{"λ one", "😀"}},
		{"UTF-16BE", utf16File("λ one\n", UTF16BE), UTF16BE, true, LF, []string{"λ one"}},
		{"a lone surrogate and half a unit", "\xff\xfea\x00\x3d\xd8\n\x00b", UTF16LE, true, LF, []string{"a\uFFFD", "\uFFFD"}},
		{"F4-21: text with an image's name", `{"a": 1}`, UTF8, false, None, []string{`{"a": 1}`}},
		{"text that begins like a GIF", "GIF89a is a format\n", UTF8, false, LF, []string{"GIF89a is a format"}},
		{"Latin-1 that begins like a bitmap", "BMW f\xfcr alle\n", UTF8, false, LF, []string{"BMW f\uFFFDr alle"}},
		{"records joined by a control character", strings.Repeat("8=F\x01", 20), UTF8, false, None, []string{strings.Repeat("8=F\x01", 20)}},
		{"colours", "\x1b[1mbold\x1b[0m\n", UTF8, false, LF, []string{"\x1b[1mbold\x1b[0m"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := readString(t, tc.data, 1, 2000)
			var lines []string
			for i, l := range w.Lines {
				lines = append(lines, l.Text)
				if l.N != i+1 || l.Cut != 0 {
					t.Errorf("line %d: %+v", i+1, l)
				}
			}
			if w.Encoding != tc.enc || w.BOM != tc.bom || w.LineEnding != tc.ending || strings.Join(lines, "|") != strings.Join(tc.lines, "|") ||
				w.TotalLines != len(tc.lines) || w.Bytes != int64(len(tc.data)) || w.Truncated {
				t.Errorf("got %+v, want %+v", w, tc)
			}
			info, err := Inspect(strings.NewReader(tc.data), int64(len(tc.data)))
			if err != nil || *info != w.Info {
				t.Errorf("Inspect: %+v, %v; Read: %+v", info, err, w.Info)
			}
		})
	}
}

func TestRead_NotText(t *testing.T) {
	noise := make([]byte, 300)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range noise {
		noise[i] = 1 + byte(r.IntN(255))
	}
	for _, tc := range []struct{ name, data, mime string }{
		{"a NUL", "a\x00b", "application/octet-stream"},
		{"a NUL far behind", strings.Repeat("text\n", 1<<20) + "\x00", "application/octet-stream"},
		{"F4-21: a PNG's signature and noise without a NUL", "\x89PNG\r\n\x1a\n" + string(noise), "image/png"},
		{"F4-21: a PDF that begins with 2,000 ASCII bytes", "%PDF-1.7\n" + strings.Repeat("% comment\n", 200) + string(noise), "application/pdf"},
		{"noise without a NUL", string(noise), "application/octet-stream"},
		{"gzip", "\x1f\x8b\x08", "application/gzip"},
		{"ELF", "\x7fELF\x02\x01\x01\x00", "application/x-elf"},
		{"an archive", "PK\x03\x04\x14", "application/zip"},
		{"WebP", "RIFF\x10\x00\x00\x00WEBPVP8 ", "image/webp"},
		{"a bitmap", "BM\x36\x00\x00\x00", "image/bmp"},
		{"UTF-32", "\xff\xfe\x00\x00a\x00\x00\x00", "text/plain; charset=utf-32le"},
		{"UTF-16 without a mark", "a\x00b\x00", "application/octet-stream"},
		{"UTF-16 with a NUL", "\xff\xfea\x00\x00\x00", "application/octet-stream"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := Read(strings.NewReader(tc.data), int64(len(tc.data)), 1, 1)
			var not *NotTextError
			if !errors.As(err, &not) || not.Code() != "FS_NOT_TEXT" || not.Type != tc.mime || not.Size != int64(len(tc.data)) {
				t.Errorf("got %v, want FS_NOT_TEXT with %s", err, tc.mime)
			}
		})
	}
}

func TestRead_Range(t *testing.T) {
	for _, tc := range []struct{ offset, limit int }{{0, 1}, {-1, 1}, {1, -1}, {1, 0}} {
		_, err := Read(strings.NewReader("a"), 1, tc.offset, tc.limit)
		var r *RangeError
		if !errors.As(err, &r) || r.Code() != "INVALID_ARGS" {
			t.Errorf("offset %d, limit %d: %v", tc.offset, tc.limit, err)
		}
	}
	for _, tc := range []struct {
		offset, limit, lines int
		truncated            bool
	}{
		{1, 1, 1, true}, {3, 1, 1, false}, {2, 2, 2, false}, {4, 1, 0, false}, {1, math.MaxInt, 3, false},
		{math.MaxInt, math.MaxInt, 0, false}, {2, math.MaxInt, 2, false},
	} {
		w := readString(t, "a\nb\nc\n", tc.offset, tc.limit)
		if len(w.Lines) != tc.lines || w.Truncated != tc.truncated || w.TotalLines != 3 {
			t.Errorf("offset %d, limit %d: %+v", tc.offset, tc.limit, w)
		}
		if len(w.Lines) > 0 && w.Lines[0].N != tc.offset {
			t.Errorf("offset %d: first line is %d", tc.offset, w.Lines[0].N)
		}
	}
}

func TestRead_CutsLines(t *testing.T) {
	for _, tc := range []struct {
		name, line string
		chars, cut int
	}{
		{"exactly as long as allowed", strings.Repeat("a", 2000), 2000, 0},
		{"one more", strings.Repeat("a", 2001), 2000, 1},
		{"F6-19: emojis behind an odd start", "a" + strings.Repeat("😀", 40_000), 2000, 38_001},
		{"invalid bytes count", strings.Repeat("é\xff", 1500), 2000, 1000},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := readString(t, tc.line+"\nnext", 1, 5)
			l := w.Lines[0]
			if utf8.RuneCountInString(l.Text) != tc.chars || l.Cut != tc.cut || !utf8.ValidString(l.Text) || w.Lines[1].Text != "next" {
				t.Errorf("%d characters, cut %d", utf8.RuneCountInString(l.Text), l.Cut)
			}
		})
	}
}

func TestRead_BoundsTheResult(t *testing.T) {
	for _, line := range []string{strings.Repeat("x", 1999), "\x01\x02" + strings.Repeat("\u2028\"", 500), "", strings.Repeat("é<", 900)} {
		data := strings.Repeat(line+"\n", 20_000)
		w := readString(t, data, 7, math.MaxInt)
		var out bytes.Buffer
		enc := json.NewEncoder(&out)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(w.Lines); err != nil {
			t.Fatal(err)
		}
		if out.Len() > MaxWindowBytes || !w.Truncated || w.TotalLines != 20_000 || out.Len() < MaxWindowBytes/3 {
			t.Errorf("%.10q: %d bytes of JSON, %d lines of %d, truncated %v", line, out.Len(), len(w.Lines), w.TotalLines, w.Truncated)
		}
	}
}

type failing struct{ io.ReaderAt }

func (failing) ReadAt([]byte, int64) (int, error) { return 0, errors.New("disk on fire") }

func TestRead_Errors(t *testing.T) {
	if _, err := Read(failing{}, 10, 1, 1); err == nil || !strings.Contains(err.Error(), "disk on fire") {
		t.Errorf("got %v", err)
	}
	// A file that has shrunk since its size was asked.
	w, err := Read(strings.NewReader("a\nb"), 1<<40, 1, 10)
	if err != nil || w.TotalLines != 2 || w.Bytes != 3 {
		t.Errorf("shrunk: %+v, %v", w, err)
	}
	// One that has grown is read as far as its size was.
	w, err = Read(strings.NewReader("a\nbcd"), 3, 1, 10)
	if err != nil || w.TotalLines != 2 || w.Lines[1].Text != "b" {
		t.Errorf("grown: %+v, %v", w, err)
	}
}

// A made reader has a file of any size without holding it.
type made struct{ at func(p []byte, off int64) }

func (m made) ReadAt(p []byte, off int64) (int, error) { m.at(p, off); return len(p), nil }

// numbered is lines of 16 bytes each, such as "line 000000042\r\n".
func numbered(end string) made {
	width := 16 - int64(len(end))
	return made{func(p []byte, off int64) {
		line := make([]byte, 16)
		for len(p) > 0 {
			v := off / 16
			for i := width - 1; i >= 5; i-- {
				line[i] = byte('0' + v%10)
				v /= 10
			}
			copy(line, "line ")
			copy(line[width:], end)
			n := copy(p, line[off%16:])
			p, off = p[n:], off+int64(n)
		}
	}}
}

// allocated returns how many bytes f allocates in all, which is no less than what it
// ever holds.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestRead_F4_22_LargeFiles(t *testing.T) {
	huge, long, counted := int64(2<<30), int64(300<<20), int64(64<<20)
	if testing.Short() || raceEnabled {
		huge, long, counted = 64<<20, 16<<20, 4<<20
	}
	block := []byte(strings.Repeat("x", 127) + "\n")
	repeated := made{func(p []byte, off int64) {
		for len(p) > 0 {
			n := copy(p, block[off%128:])
			p, off = p[n:], off+int64(n)
		}
	}}
	one := made{func(p []byte, _ int64) {
		for n := 0; n < len(p); {
			n += copy(p[n:], block[:127])
		}
	}}
	for _, tc := range []struct {
		name          string
		r             io.ReaderAt
		size          int64
		offset, total int
		text          string
		cut           int
	}{
		{"the first line", repeated, huge, 1, int(huge / 128), strings.Repeat("x", 127), 0},
		{"past the end", repeated, huge, int(huge), int(huge / 128), "", 0},
		{"near the end", numbered("\r\n"), counted, int(counted/16) - 1, int(counted / 16), "line " + pad(int(counted/16)-2, 9), 0},
		{"one long line", one, long, 1, 1, strings.Repeat("x", MaxLineChars), int(long) - MaxLineChars},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var w *Window
			var err error
			used := allocated(func() { w, err = Read(tc.r, tc.size, tc.offset, 1) })
			if err != nil {
				t.Fatal(err)
			}
			if used > 8<<20 {
				t.Errorf("%d bytes allocated", used)
			}
			if w.TotalLines != tc.total {
				t.Errorf("%d lines, want %d", w.TotalLines, tc.total)
			}
			got, cut := "", 0
			if len(w.Lines) > 0 {
				got, cut = w.Lines[0].Text, w.Lines[0].Cut
			}
			if got != tc.text || cut != tc.cut {
				t.Errorf("%.50q, cut %d; want %.50q, cut %d", got, cut, tc.text, tc.cut)
			}
		})
	}
}

func pad(n, width int) string {
	b := bytes.Repeat([]byte("0"), width)
	for i := width - 1; n > 0; i-- {
		b[i] = byte('0' + n%10)
		n /= 10
	}
	return string(b)
}

// naive reads a window in the plainest way: decode all, split all.
func naive(data []byte, offset, limit int) (lines []Line, total int, ending LineEnding, text bool) {
	var s string
	switch e, n := DetectEncoding(data); e {
	case UTF8:
		s = string([]rune(string(data[n:])))
	default:
		order := binary.ByteOrder(binary.LittleEndian)
		if e == UTF16BE {
			order = binary.BigEndian
		}
		var units []uint16
		rest := data[n:]
		for ; len(rest) >= 2; rest = rest[2:] {
			units = append(units, order.Uint16(rest))
		}
		s = string(utf16.Decode(units))
		if len(rest) > 0 {
			s += "\uFFFD"
		}
	}
	if strings.Contains(s, "\x00") {
		return nil, 0, "", false
	}
	const crlfMark, crMark = "\x00L", "\x00R" // s has no NUL
	marked := strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", crlfMark), "\r", crMark)
	crs, crlfs, lfs := strings.Count(marked, crMark), strings.Count(marked, crlfMark), strings.Count(marked, "\n")
	flat := strings.ReplaceAll(strings.ReplaceAll(marked, crMark, "\n"), crlfMark, "\n")
	kinds := 0
	ending = None
	for _, k := range []struct {
		n int
		e LineEnding
	}{{lfs, LF}, {crlfs, CRLF}, {crs, CR}} {
		if k.n > 0 {
			kinds++
			ending = k.e
		}
	}
	if kinds > 1 {
		ending = Mixed
	}
	all := strings.Split(flat, "\n")
	if all[len(all)-1] == "" {
		all = all[:len(all)-1]
	}
	for i, l := range all {
		if i+1 < offset || i+1 >= offset+limit {
			continue
		}
		runes := []rune(l)
		n := min(len(runes), MaxLineChars)
		lines = append(lines, Line{N: i + 1, Text: string(runes[:n]), Cut: len(runes) - n})
	}
	return lines, len(all), ending, true
}

func checkAgainstNaive(t interface {
	Helper()
	Fatalf(string, ...any)
}, data []byte, offset, limit, chunk int) {
	t.Helper()
	want, total, ending, isText := naive(data, offset, limit)
	w, err := read(bytes.NewReader(data), int64(len(data)), offset, limit, chunk)
	var not *NotTextError
	if errors.As(err, &not) {
		// More is not text than what has a NUL, but nothing that looks like text.
		if isText && utf8.Valid(data) && !bytes.ContainsFunc(data, func(r rune) bool { return r < 0x80 && isControl(byte(r)) }) {
			t.Fatalf("%.60q is text, but %v", data, err)
		}
		return
	}
	if err != nil || !isText {
		t.Fatalf("%.60q: error %v, text %v", data, err, isText)
	}
	if w.TotalLines != total || w.LineEnding != ending || w.Bytes != int64(len(data)) {
		t.Fatalf("%.60q: %d lines %s, want %d %s", data, w.TotalLines, w.LineEnding, total, ending)
	}
	if len(w.Lines) < len(want) && !w.Truncated || len(w.Lines) > len(want) {
		t.Fatalf("%.60q: %d lines, want %d", data, len(w.Lines), len(want))
	}
	for i, l := range w.Lines {
		if l != want[i] {
			t.Fatalf("%.60q: line %+v, want %+v", data, l, want[i])
		}
	}
	if truncated := len(w.Lines) > 0 && w.Lines[len(w.Lines)-1].N < total; truncated != w.Truncated {
		t.Fatalf("%.60q: truncated %v", data, w.Truncated)
	}
}

var pieces = []string{"\n", "\r\n", "\r", "a", "é", "😀", "\xff", "\xe2\x82", "\ufeff", "x y", "\uFFFD", "\u2028"}

func TestRead_EqualsNaive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 60).Draw(t, "pieces"), "")
		data := []byte(s)
		if e := rapid.SampledFrom([]Encoding{UTF8, UTF16LE, UTF16BE}).Draw(t, "encoding"); e != UTF8 {
			data = append([]byte(utf16File(Valid(s), e)), rapid.SampledFrom([]string{"", "x", "\x3d\xd8", "\xd8\x3d"}).Draw(t, "tail")...)
		}
		checkAgainstNaive(t, data, rapid.IntRange(1, 30).Draw(t, "offset"), rapid.IntRange(1, 30).Draw(t, "limit"),
			rapid.SampledFrom([]int{16, 17, 18, 19, 31, chunkBytes}).Draw(t, "chunk"))
	})
}

func FuzzRead(f *testing.F) {
	for _, s := range []string{"", "a\r\nb\rc\n", "\xff\xfea\x00\r\x00\n\x00", "\xfe\xff\xd8\x3d", "\xef\xbb\xbfx", "\xe2\x82\n", "GIF89a\n"} {
		f.Add([]byte(s), uint8(0), 1, 2000)
		f.Add([]byte(s), uint8(4), 2, 1)
	}
	f.Fuzz(func(t *testing.T, data []byte, chunk uint8, offset, limit int) {
		if offset < 1 || limit < 1 || limit > math.MaxInt/2 || offset > math.MaxInt/2 {
			return
		}
		checkAgainstNaive(t, data, offset, limit, 16+int(chunk))
		if got := Decode(data).Encode(); !bytes.Equal(got, data) {
			t.Fatalf("%.60q comes back as %.60q", data, got)
		}
	})
}

func TestDecode_LosesNothing(t *testing.T) {
	for _, tc := range []struct{ data, content string }{
		{"", ""},
		{"a\xff\r\n", "a\xff\r\n"},
		{"\xef\xbb\xbfa", "a"},
		{"\xff\xfe", ""},
		{"\xff\xfea\x00\x3d\xd8\x00\xde", "a😀"},
		{"\xfe\xff\xd8\x3d\xde\x00", "😀"},
		{"\xfe\xff\xd8\x3d\x00a", "\xed\xa0\xbda"},
		{"\xff\xfe\x00\xdez", "\xed\xb8\x80\xff\x87\x8a"},
	} {
		got := Decode([]byte(tc.data))
		if got.Content != tc.content || string(got.Encode()) != tc.data {
			t.Errorf("%q: %q, back %q", tc.data, got.Content, got.Encode())
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		mark := rapid.SampledFrom([]string{"", "\xef\xbb\xbf", "\xff\xfe", "\xfe\xff"}).Draw(t, "mark")
		data := append([]byte(mark), rapid.SliceOf(rapid.SampledFrom([]byte{0, 'a', '\n', 0xd8, 0xdc, 0x3d, 0xff, 0xed, 0xa0, 0x80})).Draw(t, "bytes")...)
		if got := Decode(data).Encode(); !bytes.Equal(got, data) {
			t.Fatalf("%q comes back as %q", data, got)
		}
	})
}

func BenchmarkRead(b *testing.B) {
	const size = 1 << 30
	line := strings.Repeat("the quick brown fox ", 3)
	for _, bc := range []struct {
		name, block string
	}{
		{"lf", line + "\n"}, {"crlf", line + "\r\n"}, {"one line", line}, {"short lines", "ab\n"},
		{"not ASCII", "日本語の文章 с буквами\n"},
		{"UTF-16", "a\x00b\x00c\x00d\x00e\x00f\x00\n\x00"},
	} {
		block := []byte(strings.Repeat(bc.block, 1<<20/len(bc.block)))
		r := made{func(p []byte, off int64) {
			if off == 0 && bc.name == "UTF-16" {
				p = p[copy(p, "\xff\xfe"):]
			}
			for len(p) > 0 {
				n := copy(p, block[off%int64(len(block)):])
				p, off = p[n:], off+int64(n)
			}
		}}
		b.Run(bc.name, func(b *testing.B) {
			b.SetBytes(size)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Read(r, size, 1, 2000); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
