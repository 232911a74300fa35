package fs

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestF4_24_GrepPatterns(t *testing.T) {
	if os.Geteuid() == 0 {
		again(t)
	}
	r := newRig(t, map[string]string{"a": "foobar\n", "closed/b": "foobar\n"}, nil)
	r.call("grep", "pattern", "foo(?=bar)").code("INVALID_ARGS").is("path", "pattern").says("look-ahead")
	r.call("grep", "pattern", "(").code("INVALID_ARGS").is("path", "pattern")
	r.call("grep", "pattern", `(a)\1`).code("INVALID_ARGS")
	r.call("grep", "pattern", "x", "include", "{a").code("INVALID_ARGS").is("path", "include")
	r.call("grep", "pattern", "x", "exclude", "[a").code("INVALID_ARGS").is("path", "exclude")
	r.call("glob", "pattern", "../x").code("INVALID_ARGS").is("path", "pattern")
	r.call("glob", "pattern", "").code("INVALID_ARGS").is("path", "pattern")
	r.call("grep", "pattern", "nowhere").ok().is("totalMatches", 0).is("totalFiles", 0).is("truncated", false).says("nothing found")
	r.call("grep", "pattern", "x", "path", "none").code("FS_NOT_FOUND")
	r.call("glob", "pattern", "*", "path", "none").code("FS_NOT_FOUND")
	r.call("list", "path", "none").code("FS_NOT_FOUND")
	r.call("glob", "pattern", "*", "path", "a").code("FS_NOT_DIRECTORY")
	r.call("list", "path", "a").code("FS_NOT_DIRECTORY")
	r.call("grep", "pattern", "(", "fixed", true).ok()
	if os.Geteuid() != 0 {
		if err := os.Chmod(filepath.Join(r.ws, "closed"), 0); err != nil {
			t.Fatal(err)
		}
		defer os.Chmod(filepath.Join(r.ws, "closed"), 0o700)
		r.call("grep", "pattern", "foo").ok().is("totalMatches", 1).is("omitted.denied", 1).says("1 that could not be read")
		r.call("glob", "pattern", "**/*").ok().is("total", 1).is("omitted.denied", 1)
		r.call("list", "path", "closed").code("FS_PERMISSION_DENIED")
	}
}

func TestF4_25_LongLines(t *testing.T) {
	long := strings.Repeat("c", 1_000_000)
	line := strings.Repeat("a", 700_000) + "word" + strings.Repeat("b", 300_000-4)
	r := newRig(t, map[string]string{"f": long + "\n" + line + "\n" + long + "\n"}, nil)
	g := r.call("grep", "pattern", "word", "before", 1, "after", 1).ok().is("files.0.matches.0.column", 700_001).is("files.0.matches.0.line", 2)
	text := g.at("files.0.matches.0.text").(string)
	if !strings.Contains(text, "word") || len(text) > 2000 {
		t.Errorf("text of %d bytes", len(text))
	}
	g.is("files.0.matches.0.cut", 1_000_000-2000)
	for _, side := range []string{"before", "after"} {
		if c := g.strings("files.0.matches.0." + side); len(c) != 1 || len(c[0]) > 2000 {
			t.Errorf("%s has %d lines", side, len(c))
		}
	}
	if n := len(g.r.Value().String()); n > 16<<10 {
		t.Errorf("value of %d bytes", n)
	}
	g.says("word", "1-\tccc", "3-\tccc")
}

// The value is bounded by bytes too, and what has no room in it is in a file.
func TestGrep_ManyLongMatches(t *testing.T) {
	r := newRig(t, map[string]string{"f": strings.Repeat(strings.Repeat("m", 5000)+"\n", 300)}, nil)
	for _, limit := range []int{250, 1000} {
		g := r.call("grep", "pattern", "m", "limit", limit).ok().is("truncated", true).is("totalMatches", 300).is("spill.complete", true)
		if n := len(g.r.Value().String()); n > 512<<10 {
			t.Errorf("value of %d bytes", n)
		}
		path := g.at("spill.path").(string)
		data, err := os.ReadFile(path)
		if err != nil || strings.Count(string(data), "\n") != 300 || float64(len(data)) != g.at("spill.bytes") {
			t.Errorf("the spill has %d lines, %v", strings.Count(string(data), "\n"), err)
		}
		g.says(path)
		r.call("read", "file_path", path, "limit", 1).ok()
		r.call("grep", "pattern", `"line":300,`, "path", path).ok().is("totalMatches", 1).is("files.0.path", path)
	}
}

func TestF4_26_OddNames(t *testing.T) {
	names := []string{"dir:12:x.txt", "new\nline.txt", "-rf", "sp ace", "\"quoted\"", " lead", "tail ", "b\xFFd.txt"}
	files := map[string]string{}
	for i, n := range names {
		files[n] = fmt.Sprintf("needle %d\n", i)
	}
	r := newRig(t, files, nil)
	exact := func(g got, list string) (paths []string) {
		for _, v := range g.at(list).([]any) {
			m, ok := v.(map[string]any)
			if !ok {
				paths = append(paths, v.(string))
				continue
			}
			path := m["path"].(string)
			if raw, ok := m["pathBase64"].(string); ok {
				data, err := base64.StdEncoding.DecodeString(raw)
				if err != nil {
					t.Fatal(err)
				}
				path = string(data)
			}
			paths = append(paths, path)
		}
		slices.Sort(paths)
		return paths
	}
	want := slices.Clone(names)
	slices.Sort(want)
	g := r.call("grep", "pattern", "needle").ok()
	if got := exact(g, "files"); !slices.Equal(got, want) {
		t.Errorf("grep: %q", got)
	}
	for _, line := range strings.Split(g.text, "\n") {
		if line == "line.txt:" || line == "line.txt" {
			t.Error("a name became two lines")
		}
	}
	g.says(`"new\nline.txt":`, `"b\xffd.txt":`, "\ndir:12:x.txt:\n1:\tneedle 0")
	if got := exact(r.call("list").ok(), "entries"); !slices.Equal(got, want) {
		t.Errorf("list: %q", got)
	}
	g = r.call("glob", "pattern", "*").ok().is("total", len(names))
	all := exact(g, "paths")
	for _, raw := range g.strings("pathsBase64") {
		data, _ := base64.StdEncoding.DecodeString(raw)
		all = append(all, string(data))
	}
	slices.Sort(all)
	if !slices.Equal(all, want) {
		t.Errorf("glob: %q", all)
	}
	for i, n := range names {
		g := r.read(n)
		if strings.Contains(n, "\xFF") {
			g = r.call("read", "file_path_base64", base64.StdEncoding.EncodeToString([]byte(n))).ok()
			// Beside the readable path, as values have both.
			r.call("edit", "file_path", "b\uFFFDd.txt", "file_path_base64", g.at("pathBase64"), "old_string", "needle", "new_string", "pin").ok()
			r.has(n, fmt.Sprintf("pin %d\n", i))
			r.call("write", "file_path", "b\uFFFDd.txt", "file_path_base64", g.at("pathBase64"), "content", "whole\n").ok().is("operation", "update").is("pathBase64", g.at("pathBase64"))
			r.has(n, "whole\n")
			continue
		}
		g.ok().is("lines.0.text", fmt.Sprintf("needle %d", i))
	}
}

func repository(t *testing.T, r *rig) {
	t.Helper()
	for f, text := range map[string]string{".git/HEAD": "ref: refs/heads/main\n", ".git/config": "", ".git/objects/x": "", ".git/refs/x": ""} {
		r.put(f, text)
	}
}

func TestF4_27_HiddenAndIgnored(t *testing.T) {
	r := newRig(t, map[string]string{
		"v.ts": "x\n", ".h.ts": "x\n", ".cfg/x.ts": "x\n", ".github/workflows/ci.yml": "x\n", "dist/app.js": "x\n", ".gitignore": "dist/\n",
	}, nil)
	repository(t, r)
	for _, tc := range []struct {
		args    []any
		want    []string
		ignored int // at least
	}{
		{[]any{"pattern", "**/*.ts"}, []string{"v.ts"}, 0},
		{[]any{"pattern", "**/*.ts", "hidden", true}, []string{".cfg/x.ts", ".h.ts", "v.ts"}, 0},
		{[]any{"pattern", ".github/**/*.yml"}, []string{".github/workflows/ci.yml"}, 0},
		{[]any{"pattern", "**/*.js"}, []string{}, 1},
		{[]any{"pattern", "**/*.js", "ignored", true}, []string{"dist/app.js"}, 0},
		{[]any{"pattern", "dist/app.js"}, []string{"dist/app.js"}, 0},
		{[]any{"pattern", "*.js", "path", "dist"}, []string{"dist/app.js"}, 0},
	} {
		g := r.call("glob", tc.args...).ok().is("total", len(tc.want)).is("truncated", false)
		if got := g.strings("paths"); !slices.Equal(got, tc.want) {
			t.Errorf("%v: %q, want %q", tc.args, got, tc.want)
		}
		if tc.ignored > 0 {
			if n := g.at("omitted.ignored").(float64); n < 1 {
				t.Errorf("%v: omitted %v", tc.args, n)
			}
			g.says("nothing found", "git ignores")
		}
	}
	r.call("grep", "pattern", "x", "path", "dist/app.js").ok().is("totalMatches", 1).is("files.0.path", "dist/app.js")
	r.call("list", "path", "dist").ok().is("total", 1)
	r.call("list").ok().is("omitted.ignored", 1)
}

func TestF4_29_RulesAreGits(t *testing.T) {
	r := newRig(t, map[string]string{
		".gitignore": "*.log\n", "sub/.gitignore": "!keep.log\n", "sub/keep.log": "x\n", "sub/x.log": "x\n", "sub/mine": "x\n",
		"other/.gitignore": "*\n!*.h\n", "other/inc/x.h": "x\n", "other/top.h": "x\n",
	}, nil)
	repository(t, r)
	r.put(".git/info/exclude", "mine\n")
	for _, f := range []string{"HEAD", "objects/x", "refs/x"} {
		r.put("other/.git/"+f, "ref: refs/heads/main\n")
	}
	g := r.call("glob", "pattern", "**/*").ok()
	want := []string{"other/top.h", "sub/keep.log"}
	if got := g.strings("paths"); !slices.Equal(got, want) {
		t.Errorf("glob: %q, want %q", got, want)
	}
	g = r.call("grep", "pattern", "x", "output", "files").ok()
	if got := g.strings("files"); !slices.Equal(got, want) {
		t.Errorf("grep: %q, want %q", got, want)
	}
	g = r.call("glob", "pattern", "*", "path", "sub").ok()
	if got := g.strings("paths"); !slices.Equal(got, []string{"sub/keep.log"}) {
		t.Errorf("from below: %q", got)
	}
}

func TestF4_30_Limits(t *testing.T) {
	r := newRig(t, nil, nil)
	at := time.Unix(1_700_000_000, 0)
	for i := range 1500 {
		path := filepath.Join(r.ws, fmt.Sprintf("f%04d", i))
		if err := os.WriteFile(path, []byte("x\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	for _, sort := range []string{"path", "mtime"} {
		for range 5 {
			g := r.call("glob", "pattern", "**/*", "limit", 100, "sort", sort).ok().is("total", 1500).is("truncated", true).is("spill.complete", true)
			paths := g.strings("paths")
			if len(paths) != 100 || paths[0] != "f0000" || paths[99] != "f0099" {
				t.Errorf("%s: %d paths, %s to %s", sort, len(paths), paths[0], paths[len(paths)-1])
			}
			spill := g.at("spill.path").(string)
			data, err := os.ReadFile(spill)
			if err != nil || strings.Count(string(data), "\n") != 1500 {
				t.Errorf("the spill: %v, %d lines", err, strings.Count(string(data), "\n"))
			}
			g.says("100 of 1500 paths", spill)
			r.read(spill).ok().is("totalLines", 1500)
		}
	}
	r.call("list", "limit", 100).ok().is("total", 1500).is("truncated", true).says("100 of 1500 entries")
	newer := time.Now()
	if err := os.Chtimes(filepath.Join(r.ws, "f0700"), newer, newer); err != nil {
		t.Fatal(err)
	}
	r.call("glob", "pattern", "*", "limit", 1, "sort", "mtime").ok().is("paths.0", "f0700")
	g := r.call("grep", "pattern", "x", "limit", 10).ok().is("totalMatches", 1500).is("totalFiles", 1500).is("truncated", true)
	data, err := os.ReadFile(g.at("spill.path").(string))
	if err != nil || strings.Count(string(data), "\n") != 1500 {
		t.Errorf("the spill: %v", err)
	}
	var first struct{ Path string }
	if err := json.Unmarshal(data[:strings.IndexByte(string(data), '\n')], &first); err != nil || first.Path != "f0000" {
		t.Errorf("the spill begins with %q, %v", first.Path, err)
	}
}

func TestF4_31_Loops(t *testing.T) {
	r := newRig(t, map[string]string{"top/mid/f": "x\n", "p/f": "x\n", "q/f": "x\n"}, nil)
	symlink(t, "../..", filepath.Join(r.ws, "top/mid/back"))
	symlink(t, "../q", filepath.Join(r.ws, "p/q"))
	symlink(t, "../p", filepath.Join(r.ws, "q/p"))
	begin := time.Now()
	g := r.call("list", "depth", 50).ok()
	links := 0
	seen := map[string]bool{}
	for _, e := range g.at("entries").([]any) {
		e := e.(map[string]any)
		if seen[e["path"].(string)] {
			t.Errorf("%s twice", e["path"])
		}
		seen[e["path"].(string)] = true
		if e["type"] == "symlink" {
			links++
			if e["target"] == nil {
				t.Errorf("%s without target", e["path"])
			}
		}
	}
	if links != 3 || len(seen) != 10 {
		t.Errorf("%d links of %d entries", links, len(seen))
	}
	r.call("glob", "pattern", "**/*").ok().is("total", 6)
	r.call("grep", "pattern", "x").ok().is("totalFiles", 3)
	if d := time.Since(begin); d > 2*time.Second {
		t.Errorf("took %v", d)
	}
}

func TestGrep_Outputs(t *testing.T) {
	r := newRig(t, map[string]string{"a.go": "one\ntwo one\n", "b.txt": "one\n", "bin": "one\x00\n", "c/d.go": "ONE\nbone\n"}, nil)
	r.call("grep", "pattern", "one").ok().is("totalMatches", 4).is("totalFiles", 3).is("omitted.binary", 1).says("1 binary")
	r.call("grep", "pattern", "one", "output", "files").ok().is("totalFiles", 3).says("a.go\nb.txt\nc/d.go")
	r.call("grep", "pattern", "one", "output", "count").ok().is("files.0.count", 2).says("a.go: 2")
	r.call("grep", "pattern", "one", "include", "*.go").ok().is("totalFiles", 2)
	r.call("grep", "pattern", "one", "exclude", "{*.go,*.txt}").ok().is("totalFiles", 0)
	r.call("grep", "pattern", "one", "word", true, "ignore_case", true).ok().is("totalMatches", 4)
	r.call("grep", "pattern", `one\ntwo`, "multiline", true).ok().is("totalMatches", 1).says("1:\tone\n2:\ttwo one")
	r.call("grep", "pattern", "one", "path", "bin").ok().is("totalMatches", 1)
	g := r.call("grep", "pattern", "two", "before", 5, "after", 5).ok()
	g.says("1-\tone\n2:\ttwo one")
	if got := g.strings("files.0.matches.0.after"); len(got) != 0 {
		t.Errorf("after %q", got)
	}
}

// A tree that holds /proc is walked without it.
func TestSearch_Root(t *testing.T) {
	r := newRig(t, nil, nil)
	g := r.call("list", "path", "/", "depth", 2, "limit", 10000).ok()
	for _, path := range g.strings("entries") {
		if strings.HasPrefix(path, "/proc/") || strings.HasPrefix(path, "/sys/") {
			t.Fatalf("%s is listed", path)
		}
	}
	var st unix.Statfs_t
	if unix.Statfs("/proc", &st) == nil && !slices.Contains(g.strings("entries"), "/proc") {
		t.Error("/proc itself is not listed")
	}
}

// What list says of each entry is what the file system says.
func TestList_Entries(t *testing.T) {
	r := newRig(t, map[string]string{"dir/inner": "x\n", "file": "12345", ".hidden": ""}, nil)
	at := time.Unix(1_700_000_000, 123_456_789)
	for name, mode := range map[string]os.FileMode{"file": 0o640, "dir": 0o750} {
		path := filepath.Join(r.ws, name)
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	symlink(t, "none/../file", filepath.Join(r.ws, "link"))
	const mtime = "2023-11-14T22:13:20.123456789Z"
	g := r.call("list").ok().is("path", ".").is("total", 4).is("truncated", false).is("omitted.ignored", 0).is("omitted.denied", 0)
	if got := g.strings("entries"); !slices.Equal(got, []string{".hidden", "dir", "file", "link"}) {
		t.Errorf("%q", got)
	}
	g.is("entries.1.type", "directory").is("entries.1.mode", "0750").is("entries.1.mtime", mtime).is("entries.1.name", "dir").is("entries.1.target", nil)
	g.is("entries.2.type", "file").is("entries.2.size", 5).is("entries.2.mode", "0640").is("entries.2.mtime", mtime).is("entries.2.target", nil)
	g.is("entries.3.type", "symlink").is("entries.3.target", "none/../file")
	g.says("dir/\nfile (5 bytes)\nlink -> none/../file")
	for _, tc := range []struct {
		args []any
		want []string
	}{
		{[]any{"hidden", false}, []string{"dir", "file", "link"}},
		{[]any{"depth", 2}, []string{".hidden", "dir", "dir/inner", "file", "link"}},
		{[]any{"path", "dir"}, []string{"dir/inner"}},
		{[]any{"path", r.ws + "/dir"}, []string{"dir/inner"}},
	} {
		if got := r.call("list", tc.args...).ok().strings("entries"); !slices.Equal(got, tc.want) {
			t.Errorf("%v: %q, want %q", tc.args, got, tc.want)
		}
	}
	// read of a directory has the same.
	if got := r.read(".").ok().at("entries"); !reflect.DeepEqual(got, g.at("entries")) {
		t.Errorf("read has %v", got)
	}
}

// Whoever finds nothing is told what was not looked at.
func TestSearch_NothingFoundSaysWhatIsLeftOut(t *testing.T) {
	r := newRig(t, map[string]string{".h/x.ts": "word\n", "dist/x.ts": "word\n", ".gitignore": "dist/\n", "bin": "word\x00"}, nil)
	repository(t, r)
	const dots, git = "names that begin with a dot were not looked at (hidden=true does)", "1 that git ignores (ignored=true shows them)"
	r.call("grep", "pattern", "word").ok().is("totalMatches", 0).is("omitted.ignored", 1).is("omitted.binary", 1).says("nothing found for word", dots, git, "1 binary (name the file to search it)")
	r.call("glob", "pattern", "**/*.ts").ok().is("total", 0).says("nothing found for **/*.ts", dots, git)
	r.call("list", "path", "dist/..", "hidden", false).ok().is("total", 1).says(git)
	for _, g := range []got{r.call("grep", "pattern", "word", "hidden", true), r.call("glob", "pattern", "**/*.ts", "hidden", true)} {
		if g.ok(); strings.Contains(g.text, "dot were") || !strings.Contains(g.text, git) {
			t.Errorf("%s", g.text)
		}
	}
}
