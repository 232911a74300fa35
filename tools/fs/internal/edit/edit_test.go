package edit

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/dshx/dshx/tools/fs/internal/text"
)

// code returns the code of an error, "" if there is none.
func code(err error) string {
	var c interface{ Code() string }
	if errors.As(err, &c) {
		return c.Code()
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

func one(old, new string) []Edit { return []Edit{{Old: old, New: new}} }

func encode(s string, e text.Encoding) string {
	return string(text.Text{Encoding: e, BOM: true, Content: s}.Encode())
}

func TestApply(t *testing.T) {
	const dollars = "$$ $& $1 ${n} $' \\1 \\n %s"
	u16 := func(s string) string { return encode(s, text.UTF16LE) }
	for _, tc := range []struct {
		name  string
		file  string
		edits []Edit
		want  string // the new content, or the code of the error
	}{
		{"F4-1: LF matches CRLF", "red\r\ngreen\r\nblue\r\n", one("red\ngreen", "RED\nGREEN"), "RED\r\nGREEN\r\nblue\r\n"},
		{"F4-1: twice", "p\r\nq\r\np\r\nq\r\n", one("p\nq", "x"), "EDIT_AMBIGUOUS"},
		{"F4-2: other line ends are no change", "k=v\r\nm=n", one("k=v\r\nm=n", "k=v\nm=n"), "EDIT_NO_CHANGE"},
		{"F4-2: nor the other way round", "k=v\r\nm=n", one("k=v\nm=n", "k=v\r\nm=n"), "EDIT_NO_CHANGE"},
		{"F4-3: mixed, without a line end", "a\r\nb\nc\r\nd\re\n", one("b", "B"), "a\r\nB\nc\r\nd\re\n"},
		{"F4-3: mixed, across CRLF", "a\r\nB\nc\r\nd\re\n", one("a\nB", "A\nB"), "A\r\nB\nc\r\nd\re\n"},
		{"F4-3: mixed, across all kinds", "a\r\nb\nc\r\nd\re\n", one("a\nb\nc\nd\ne\n", "a\nB\nc\nD\ne\n"), "a\r\nB\nc\r\nD\re\n"},
		{"F4-4: a mark", "\xef\xbb\xbfModule A\r\n' ñ ů\r\n", one("Module A", "Module B"), "\xef\xbb\xbfModule B\r\n' ñ ů\r\n"},
		{"F4-5: an invalid byte", "n = 1\n# gar\xE7on\n", one("n = 1", "n = 2"), "n = 2\n# gar\xE7on\n"},
		{"F4-5: U+FFFD is not an invalid byte", "n = 1\n# gar\xE7on\n", one("gar\uFFFDon", "garcon"), "EDIT_NOT_FOUND"},
		{"U+FFFD is U+FFFD", "a\uFFFDb\xff", one("\uFFFD", "x"), "axb\xff"},
		{"F4-6: nothing in the new text has a meaning", "A\n", one("A", dollars), dollars + "\n"},
		{"F4-6: with replace_all", "A A\n", []Edit{{"A", dollars, true}}, dollars + " " + dollars + "\n"},
		{"F4-6: in edits", "A B\n", []Edit{{Old: "A", New: dollars}, {Old: "B", New: "%"}}, dollars + " %\n"},
		{"nor in the old", "a.c abc\n", one("a.c", "x"), "x abc\n"},
		{"F4-7: spaces are not tabs", "\tif x {\n\t\ty()\n\t}\n", one("    if x {\n        y()\n    }", "z"), "EDIT_NOT_FOUND"},
		{"F4-7: tabs are", "\tif x {\n\t\ty()\n\t}\n", one("\tif x {\n\t\ty()\n\t}", "\tz()"), "\tz()\n"},
		{"F4-8: an empty old text", "hey", one("", "_"), "INVALID_ARGS"},
		{"F4-8: with replace_all", "hey", []Edit{{"", "_", true}}, "INVALID_ARGS"},
		{"F4-8: in an empty file", "", one("", "_"), "INVALID_ARGS"},
		{"F4-8: the second of three", "hey", []Edit{{Old: "h", New: "H"}, {New: "_"}, {Old: "nosuch"}}, "INVALID_ARGS"},
		{"no edits", "hey", nil, "INVALID_ARGS"},
		{"an old text that is not UTF-8", "\xff", one("\xff", ""), "INVALID_ARGS"},
		{"a new text that is not UTF-8", "a", one("a", "\xff"), "INVALID_ARGS"},
		{"F4-10a: the second in the result of the first", "f1\nf2\ng1\ng2\n",
			[]Edit{{Old: "f1\nf2\ng1\ng2", New: "f1\nF2\n// g\ng1\nG2"}, {Old: "g1\nG2", New: "g1 // x\nG2"}}, "f1\nF2\n// g\ng1 // x\nG2\n"},
		{"F4-10b: one of three is not there", "a b c", []Edit{{Old: "a", New: "A"}, {Old: "x", New: "y"}, {Old: "c", New: "C"}}, "EDIT_NOT_FOUND"},
		{"F4-10c: they cancel out", "a", []Edit{{Old: "a", New: "b"}, {Old: "b", New: "a"}}, "EDIT_NO_CHANGE"},
		{"one of several changes nothing", "a b", []Edit{{Old: "a", New: "a"}, {Old: "b", New: "B"}}, "a B"},
		{"old and new alike", "a", one("a", "a"), "EDIT_NO_CHANGE"},
		{"F4-11: no newline at the end", "{\"k\":1,\n\"m\":2}", []Edit{{Old: "1", New: "3"}, {Old: "2}", New: "4}"}}, "{\"k\":3,\n\"m\":4}"},
		{"F4-11: two newlines at the end", "a\n\n", one("a", "b"), "b\n\n"},
		{"F4-32: UTF-16LE", u16("λόγος one\r\ntwo\r\n"), one("one", "ένα!"), u16("λόγος ένα!\r\ntwo\r\n")},
		{"F4-32: across lines", u16("one\r\ntwo\r\n"), one("one\ntwo", "1\n2\n3"), u16("1\r\n2\r\n3\r\n")},
		{"UTF-16BE", encode("one😀two", text.UTF16BE), one("😀", "λ"), encode("oneλtwo", text.UTF16BE)},
		{"UTF-16 at an odd byte is no match", "\xff\xfe\x41\x61\x00\x62", one("a", "x"), "EDIT_NOT_FOUND"},
		{"UTF-16 keeps lone surrogates and half a unit", "\xff\xfe\x3d\xd8a\x00\x00\xdez", one("a", "b"), "\xff\xfe\x3d\xd8b\x00\x00\xdez"},
		{"UTF-16: U+FFFD is no lone surrogate", "\xff\xfe\x3d\xd8a\x00", one("\uFFFD", "b"), "EDIT_NOT_FOUND"},
		{"F4-33: other code points", "cafe\u0301\u00a0\u201cq\u201d", one("caf\u00e9 \"q\"", "x"), "EDIT_NOT_FOUND"},
		{"F4-33: the same", "cafe\u0301\u00a0\u201cq\u201d", one("\u00a0\u201cq", " \u201cQ"), "cafe\u0301 \u201cQ\u201d"},

		{"matches do not overlap", "aaaaa", []Edit{{"aa", "b", true}}, "bba"},
		{"nor do lines", "x\r\nx\r\nx\r\nx\r\n", []Edit{{"x\nx\n", "y\n", true}}, "y\r\ny\r\n"},
		{"deleting", "a b c", one(" b", ""), "a c"},
		{"deleting all", "a", one("a", ""), ""},
		{"deleting all but the mark", "\xef\xbb\xbfa", one("a", ""), "\xef\xbb\xbf"},
		{"CRLF matches LF", "a\nb\n", one("a\r\nb", "A\r\nB\r\nC"), "A\nB\nC\n"},
		{"LF matches CR", "a\rb\r", one("a\nb", "A\nB\nC"), "A\rB\rC\r"},
		{"a lone CR matches a lone CR", "a\rb\r\nc\n", one("\r", "\n"), "EDIT_NO_CHANGE"},
		{"and is replaced", "a\rb\r\nc\n", one("\r", "; "), "a; b\r\nc\n"},
		{"it is no half of a CRLF", "a\r\nb\r\n", []Edit{{"\r", "", true}}, "EDIT_NOT_FOUND"},
		{"nor is LF", "a\r\nb\r\n", []Edit{{"\n", "|", true}}, "a|b|"},
		{"CRLF of which a lone CR comes first", "a\r\r\nb", one("\n\nb", "\nb"), "a\rb"},

		{"a lone CR before a CRLF in the old text", "\r\r\nb", one("\r\r\nb", "\n\nc"), "\r\r\nc"},

		{"a line put in before", "a\r\nb\nc\r\n", one("b", "x\nb"), "a\r\nx\nb\nc\r\n"},
		{"a line put in after", "a\r\nb\nc\r\n", one("c", "c\nx"), "a\r\nb\nc\r\nx\r\n"},
		{"a line put in between keeps both ends", "a\r\nb\nc\r\n", one("a\nb\n", "a\nx\nb\n"), "a\r\nx\r\nb\nc\r\n"},
		{"lines taken out", "a\r\nb\nc\rd", one("a\nb\nc\nd", "a\nc\nd"), "a\r\nc\rd"},
		{"each line its own end", "a\r\nb\nc\rd", one("a\nb\nc\nd", "A\nB\nC\nD"), "A\r\nB\nC\rD"},
		{"appended to the last line, which has no end", "a\r\nb", one("b", "b\nc\n"), "a\r\nb\r\nc\r\n"},
		{"into a file without line ends", "ab", one("b", "b\r\nc\n"), "ab\r\nc\n"},
		{"every match as its place wants", "x\r\nx\nx\rx", []Edit{{"x", "y\nz", true}}, "y\r\nz\r\ny\nz\ny\rz\ry\rz"},
		{"an LF-only file takes CRLF as LF", "a\nb\n", one("a", "a\r\nx"), "a\nx\nb\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := bytes.Clone([]byte(tc.file))
			res, err := Apply([]byte(tc.file)[:len(tc.file):len(tc.file)], tc.edits)
			got := string(res.Bytes)
			if err != nil {
				got = code(err)
				if !reflect.DeepEqual(res, Result{}) {
					t.Errorf("a result beside an error: %+v", res)
				}
			}
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
			if !bytes.Equal(before, []byte(tc.file)) {
				t.Error("the input changed")
			}
		})
	}
}

func TestApply_Reports(t *testing.T) {
	res, err := Apply([]byte("a\r\nb\r\rb b\n"), []Edit{{"b", "c\nc", true}, {Old: "a", New: "\n\na"}, {"c", "d", true}})
	want := []Done{{2, 3}, {1, 1}, {4, 6}}
	if err != nil || res.Replacements != 10 || !reflect.DeepEqual(res.Edits, want) {
		t.Errorf("%+v, %v", res, err)
	}
	// A match that begins with a line end begins in the line that it ends.
	res, err = Apply([]byte("a\r\nb\r\n"), one("\nb", "\nc"))
	if err != nil || res.Edits[0].Line != 1 {
		t.Errorf("%+v, %v", res, err)
	}
}

func TestApply_Errors(t *testing.T) {
	var ambiguous *AmbiguousError
	_, err := Apply([]byte("p\r\nq\r\nzp\nq p\rq"), []Edit{{Old: "z", New: ""}, {Old: "p\nq", New: "x"}})
	if !errors.As(err, &ambiguous) || ambiguous.Edit != 1 || ambiguous.Count != 3 || !reflect.DeepEqual(ambiguous.Lines, []int{1, 3, 4}) {
		t.Errorf("%+v", err)
	}
	_, err = Apply([]byte(strings.Repeat("x x\n", 5000)), one("x", ""))
	if !errors.As(err, &ambiguous) || ambiguous.Count != 10_000 || len(ambiguous.Lines) != MaxLines || ambiguous.Lines[2] != 2 {
		t.Errorf("%+v", ambiguous)
	}

	var args *ArgsError
	_, err = Apply([]byte("hey"), []Edit{{Old: "h"}, {New: "_"}})
	if !errors.As(err, &args) || args.Edit != 1 || args.Field != "old_string" {
		t.Errorf("%+v", err)
	}

	var missing *NotFoundError
	_, err = Apply([]byte("one\n\tif x {\n"), []Edit{{Old: "one", New: "two\ntwo"}, {Old: "  if x {", New: ""}})
	if !errors.As(err, &missing) || missing.Edit != 1 || missing.Line != 3 || !strings.Contains(missing.Nearest, "+→if·x·{") {
		t.Errorf("%+v", err)
	}
	_, err = Apply(nil, one("a", ""))
	if !errors.As(err, &missing) || missing.Line != 0 || missing.Nearest != "" {
		t.Errorf("%+v", err)
	}

	_, err = Apply(bytes.Repeat([]byte(" "), 1<<20), []Edit{{" ", strings.Repeat("x", 1000), true}})
	if code(err) != "FS_TOO_LARGE" {
		t.Errorf("%+v", err)
	}
	// Every error is one sentence of its own.
	for _, e := range []error{&ArgsError{-1, "edits", "x"}, &ArgsError{1, "old_string", "x"}, &NotFoundError{Line: 1}, &NotFoundError{}, &AmbiguousError{}, &NoChangeError{}, &TooLargeError{}} {
		if s := e.Error(); s == "" || strings.ContainsAny(s, "\n.") {
			t.Errorf("%q", s)
		}
	}
}

func TestAlign_LargeReplacementsStayCheap(t *testing.T) {
	lines := func(n int, prefix string) []string {
		out := make([]string, n)
		for i := range out {
			out[i] = fmt.Sprint(prefix, i)
		}
		return out
	}
	ends := align(lines(30_000, "a"), lines(40_000, "b"))
	if len(ends) != 39_999 || ends[5] != 5 || ends[39_998] != 29_999 {
		t.Errorf("%d ends", len(ends))
	}
}

// units is what a UTF-16LE file holds.
func units(file []byte) []uint16 {
	var out []uint16
	for i := 0; i+1 < len(file); i += 2 {
		out = append(out, uint16(file[i])|uint16(file[i+1])<<8)
	}
	return out
}

func TestApply_UTF16ChangesNoOtherUnit(t *testing.T) {
	before := []byte(encode("a λ b\r\nword 😀\r\n", text.UTF16LE))
	res, err := Apply(before, one("word", "λέξη!"))
	if err != nil {
		t.Fatal(err)
	}
	old, new := units(before), units(res.Bytes)
	at := len(utf16.Encode([]rune("\ufeffa λ b\r\n")))
	if !reflect.DeepEqual(old[:at], new[:at]) || !reflect.DeepEqual(old[at+4:], new[at+5:]) {
		t.Errorf("%x\n%x", old, new)
	}
}
