package fs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf16"

	"golang.org/x/sys/unix"
)

func stat(t testing.TB, path string) (st unix.Stat_t) {
	t.Helper()
	if err := unix.Lstat(path, &st); err != nil {
		t.Fatal(err)
	}
	return st
}

func TestF4_1_LineFeedsMatchCRLF(t *testing.T) {
	r := newRig(t, map[string]string{"a": "red\r\ngreen\r\nblue\r\n", "b": "p\r\nq\r\np\r\nq\r\n"}, nil)
	r.read("a").ok().is("lineEnding", "crlf")
	r.edit("a", "red\ngreen", "RED\nGREEN").ok().is("replacements", 1)
	r.has("a", "RED\r\nGREEN\r\nblue\r\n")
	r.read("b")
	g := r.edit("b", "p\nq", "x").code("EDIT_AMBIGUOUS").is("edit", 0).is("lines.0", 1).is("lines.1", 3)
	g.says("lines 1, 3")
	r.has("b", "p\r\nq\r\np\r\nq\r\n")
}

func TestF4_2_LineEndsAloneAreNoChange(t *testing.T) {
	r := newRig(t, map[string]string{"a": "k=v\r\nm=n"}, nil)
	before := stat(t, filepath.Join(r.ws, "a"))
	r.read("a")
	r.edit("a", "k=v\r\nm=n", "k=v\nm=n").code("EDIT_NO_CHANGE")
	r.edit("a", "k=v\nm=n", "k=v\r\nm=n").code("EDIT_NO_CHANGE")
	if after := stat(t, filepath.Join(r.ws, "a")); !untouched(&before, &after) {
		t.Error("the file was written")
	}
	r.has("a", "k=v\r\nm=n")
	r.nothingLeft()
}

func TestF4_3_MixedLineEndsStay(t *testing.T) {
	const was = "a\r\nb\nc\r\nd\re\n"
	r := newRig(t, map[string]string{"a": was}, nil)
	r.read("a").ok().is("lineEnding", "mixed")
	r.edit("a", "b", "B").ok()
	if n := differing([]byte(was), []byte(r.bytes("a"))); n != 1 {
		t.Errorf("%d bytes differ", n)
	}
	r.edit("a", "a\nB", "A\nB").ok()
	r.has("a", "A\r\nB\nc\r\nd\re\n")
}

func TestF4_4_ByteOrderMarkStays(t *testing.T) {
	r := newRig(t, map[string]string{"a": "\uFEFFModule A\r\n' ñ ů\r\n"}, nil)
	r.read("a").ok().is("bom", true).is("lines.0.text", "Module A")
	r.edit("a", "Module A", "Module B").ok()
	r.has("a", "\uFEFFModule B\r\n' ñ ů\r\n")
	// write keeps it too, and has it once.
	r.call("write", "file_path", "a", "content", "new\n").ok()
	r.has("a", "\uFEFFnew\n")
	r.call("write", "file_path", "a", "content", "\uFEFFnewer\n").ok()
	r.has("a", "\uFEFFnewer\n")
}

func TestF4_5_InvalidBytesStay(t *testing.T) {
	const was = "n = 1\n# gar\xE7on\n"
	r := newRig(t, map[string]string{"a": was}, nil)
	r.read("a").ok().is("lines.1.text", "# gar\uFFFDon")
	r.edit("a", "n = 1", "n = 2").ok()
	r.has("a", "n = 2\n# gar\xE7on\n")
	r.edit("a", "gar\uFFFDon", "x").code("EDIT_NOT_FOUND")
	r.has("a", "n = 2\n# gar\xE7on\n")
}

func TestF4_6_NewTextIsLiteral(t *testing.T) {
	const odd = `$$ $& $1 ${n} $' \1 \n %s`
	for name, args := range map[string][]any{
		"once":  {"old_string", "A", "new_string", odd},
		"all":   {"old_string", "A", "new_string", odd, "replace_all", true},
		"edits": {"edits", []map[string]any{{"old_string": "A", "new_string": odd}}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, map[string]string{"a": "A\n"}, nil)
			r.read("a")
			r.call("edit", append([]any{"file_path", "a"}, args...)...).ok()
			r.has("a", odd+"\n")
		})
	}
}

func TestF4_7_TabsAreNotSpaces(t *testing.T) {
	const was = "\tif x {\n\t\ty()\n\t}\n"
	r := newRig(t, map[string]string{"a.go": was}, nil)
	g := r.read("a.go").ok().is("lines.1.text", "\t\ty()")
	first := g.at("lines.0.text").(string) + "\n" + g.at("lines.1.text").(string)
	g = r.edit("a.go", "    if x {\n        y()\n    }", "z").code("EDIT_NOT_FOUND")
	if near := g.at("nearest").(string); !strings.Contains(near, "→") || !strings.Contains(near, "·") {
		t.Errorf("nearest doesn't show white space:\n%s", near)
	}
	g.says("→", "·")
	r.has("a.go", was)
	r.edit("a.go", first, "z").ok()
	r.has("a.go", "z\n\t}\n")
}

func TestF4_8_EmptyOldString(t *testing.T) {
	for _, content := range []string{"hey", ""} {
		r := newRig(t, map[string]string{"a": content}, nil)
		r.read("a")
		r.edit("a", "", "_").code("INVALID_ARGS").is("path", "old_string")
		r.call("edit", "file_path", "a", "old_string", "", "new_string", "_", "replace_all", true).code("INVALID_ARGS").is("path", "old_string")
		r.call("edit", "file_path", "a", "edits", []map[string]any{
			{"old_string": "h", "new_string": "H"}, {"old_string": "", "new_string": "_"}, {"old_string": "e", "new_string": "E"},
		}).code("INVALID_ARGS").is("path", "edits[1].old_string")
		r.has("a", content)
	}
}

func TestEdit_OneFormOfArguments(t *testing.T) {
	r := newRig(t, map[string]string{"a": "x\n"}, nil)
	r.read("a")
	one := []map[string]any{{"old_string": "x", "new_string": "y"}}
	for _, tc := range []struct {
		args []any
		path string
	}{
		{[]any{"file_path", "a"}, "old_string"},
		{[]any{"file_path", "a", "old_string", "x"}, "new_string"},
		{[]any{"file_path", "a", "new_string", "x"}, "old_string"},
		{[]any{"file_path", "a", "old_string", "x", "new_string", "y", "edits", one}, "edits"},
		{[]any{"file_path", "a", "replace_all", true, "edits", one}, "edits"},
		{[]any{"file_path", "a", "edits", []any{}}, "edits"},
		{[]any{"old_string", "x", "new_string", "y"}, "file_path"},
		{[]any{"file_path", "", "old_string", "x", "new_string", "y"}, "file_path"},
		{[]any{"file_path_base64", "?", "old_string", "x", "new_string", "y"}, "file_path_base64"},
		{[]any{"file_path", "a", "old_string", "x", "new_string", "y", "replace_all", "true"}, "replace_all"}, // F6-10
		{[]any{"file_path", "a", "old_string", "x", "new_string", "y", "replaceAll", true}, "replaceAll"},
	} {
		r.call("edit", tc.args...).code("INVALID_ARGS").is("path", tc.path)
	}
	r.has("a", "x\n")
}

func TestF4_10_SeveralEdits(t *testing.T) {
	const was = "func f() {\n\treturn 1\n}\nfunc g() {\n\treturn 2\n}\n"
	r := newRig(t, map[string]string{"a": was, "b": "one\nthree\n", "c": "-a-\n"}, nil)
	r.read("a")
	r.read("b")
	r.read("c")
	edits := []map[string]any{
		{"old_string": was[:len(was)-1], "new_string": "func f() {\n\treturn 3\n}\n// g is.\nfunc g() {\n\treturn 2\n}"},
		{"old_string": "func g() {\n\treturn 2\n}", "new_string": "func g() {\n\treturn 4 // four\n}"},
	}
	r.call("edit", "file_path", "a", "edits", edits).ok().is("replacements", 2).is("edits.1.line", 5)
	r.has("a", "func f() {\n\treturn 3\n}\n// g is.\nfunc g() {\n\treturn 4 // four\n}\n")

	before := stat(t, filepath.Join(r.ws, "b"))
	r.call("edit", "file_path", "b", "edits", []map[string]any{
		{"old_string": "one", "new_string": "1"}, {"old_string": "two", "new_string": "2"}, {"old_string": "three", "new_string": "3"},
	}).code("EDIT_NOT_FOUND").is("edit", 1).says("edit 1")
	if after := stat(t, filepath.Join(r.ws, "b")); !untouched(&before, &after) {
		t.Error("the file was written")
	}
	before = stat(t, filepath.Join(r.ws, "c"))
	r.call("edit", "file_path", "c", "edits", []map[string]any{{"old_string": "a", "new_string": "b"}, {"old_string": "b", "new_string": "a"}}).code("EDIT_NO_CHANGE")
	if after := stat(t, filepath.Join(r.ws, "c")); !untouched(&before, &after) {
		t.Error("the file was written")
	}
	r.nothingLeft()
}

func TestF4_11_FinalNewlines(t *testing.T) {
	r := newRig(t, map[string]string{"a": "{\"k\":1,\n\"m\":2}", "b": "x\ny\n\n"}, nil)
	r.read("a")
	r.edit("a", "1", "3").ok()
	r.edit("a", "2}", "4}").ok()
	r.has("a", "{\"k\":3,\n\"m\":4}")
	r.call("write", "file_path", "a", "content", "no end").ok()
	r.has("a", "no end")
	r.read("b")
	r.edit("b", "x", "z").ok()
	r.has("b", "z\ny\n\n")
}

func utf16le(s string) string {
	b := []byte{0xFF, 0xFE}
	for _, u := range utf16.Encode([]rune(s)) {
		b = append(b, byte(u), byte(u>>8))
	}
	return string(b)
}

func TestF4_32_UTF16(t *testing.T) {
	r := newRig(t, map[string]string{"a": utf16le("cat λόγος\r\ndog\r\n")}, nil)
	r.read("a").ok().is("kind", "text").is("encoding", "utf-16le").is("bom", true).is("lineEnding", "crlf").is("lines.0.text", "cat λόγος")
	r.edit("a", "cat", "ἄνθρωπος").ok()
	r.has("a", utf16le("ἄνθρωπος λόγος\r\ndog\r\n"))
	r.call("write", "file_path", "a", "content", "νέα\n").ok()
	r.has("a", utf16le("νέα\n"))
}

func TestF4_33_LookAlikes(t *testing.T) {
	const was = "e\u0301t\u00e9 = \u201cx\u201d;\u00a0y\n"
	r := newRig(t, map[string]string{"a": was}, nil)
	r.read("a")
	g := r.edit("a", "\u00e9t\u00e9 = \"x\"; y", "z").code("EDIT_NOT_FOUND")
	for _, point := range []string{"U+0301", "U+00A0", "U+201C"} {
		if !strings.Contains(g.at("nearest").(string), point) {
			t.Errorf("nearest doesn't name %s:\n%s", point, g.at("nearest"))
		}
	}
	r.has("a", was)
	r.edit("a", "\u201cx\u201d;\u00a0y", "z").ok()
	r.has("a", "e\u0301t\u00e9 = z\n")
}

// What a model reads of a bad edit helps it, and is bounded.
func TestEdit_FailuresAreBounded(t *testing.T) {
	r := newRig(t, map[string]string{"a": strings.Repeat("some line or other\n", 5000)}, nil)
	r.read("a")
	r.edit("a", "some line or other", "x").code("EDIT_AMBIGUOUS").says("5000 times", "…")
	r.edit("a", strings.Repeat("some line, or other\n", 3000), "x").code("EDIT_NOT_FOUND")
	if _, err := os.Stat(filepath.Join(r.ws, "a")); err != nil {
		t.Error(err)
	}
}

// What the values of a change say is what the file is now.
func TestChange_Values(t *testing.T) {
	r := newRig(t, nil, nil)
	g := r.call("write", "file_path", "d/a", "content", "one\ntwo\n").ok().is("path", "d/a").is("operation", "create").is("bytes", 8).is("links", 1)
	g.is("diff", "--- /dev/null\n+++ b/d/a\n@@ -0,0 +1,2 @@\n+one\n+two\n")
	version := r.read("d/a").ok().at("version")
	g.is("version", version)
	g = r.edit("d/a", "two", "2").ok().is("path", "d/a").is("replacements", 1).is("edits.0.line", 2).is("edits.0.count", 1).is("bytes", 6).is("links", 1)
	g.is("diff", "--- a/d/a\n+++ b/d/a\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n")
	g.says("edited d/a: 1 replacement", "-two\n+2")
	if g.at("version") == version {
		t.Error("another content has the same version")
	}
	g.is("version", r.read("d/a").at("version"))
	r.call("edit", "file_path", "d/a", "old_string", "2", "new_string", "two").ok().is("version", version) // as its content is
	r.call("write", "file_path", "d/a", "content", "").ok().is("operation", "update").is("bytes", 0).is("diff", "--- a/d/a\n+++ b/d/a\n@@ -1,2 +0,0 @@\n-one\n-two\n")
}

// A file that is too large to be edited is refused before it is read, and what
// would become too large before it is written.
func TestEdit_TooLarge(t *testing.T) {
	r := newRig(t, map[string]string{"big": "x\n", "a": strings.Repeat("x", 300)}, nil)
	r.read("big").ok()
	if err := os.Truncate(filepath.Join(r.ws, "big"), 257<<20); err != nil {
		t.Skipf("no sparse file: %v", err)
	}
	r.edit("big", "x", "y").code("FS_TOO_LARGE")
	r.read("a").ok()
	r.call("edit", "file_path", "a", "old_string", "x", "new_string", strings.Repeat("y", 1<<20), "replace_all", true).code("FS_TOO_LARGE")
	r.has("a", strings.Repeat("x", 300))
	r.nothingLeft()
}
