package ignore

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestParse_Table(t *testing.T) {
	for _, tc := range []struct {
		rules    string
		ignored  []string // a final slash: a directory
		notfound []string // not ignored
	}{
		{"*.log", []string{"a.log", "d/a.log", ".log", "x.log/"}, []string{"a.logs", "log"}},
		{"*.log\n!keep.log", []string{"a.log"}, []string{"keep.log", "d/keep.log"}},
		{"build/", []string{"build/", "a/build/"}, []string{"build", "a/build"}},
		{"/a", []string{"a", "a/"}, []string{"b/a"}},
		{"a/b", []string{"a/b"}, []string{"x/a/b"}},
		{"**/a/b", []string{"a/b", "x/a/b"}, []string{"a"}},
		{"a/**", []string{"a/b", "a/b/c"}, []string{"a/"}},
		{"a/**/b", []string{"a/b", "a/x/y/b"}, []string{"ab"}},
		{"a**/b", []string{"ax/b", "a/b", "ax/y/b"}, []string{"b"}},
		{"a/*/b", []string{"a/x/b"}, []string{"a/x/y/b", "a/b"}},
		{`\#a`, []string{"#a"}, []string{"a"}},
		{"#a", nil, []string{"#a", "a"}},
		{`\!a`, []string{"!a"}, []string{"a"}},
		{"a  ", []string{"a"}, []string{"a  "}},
		{`a\ `, []string{"a "}, []string{"a"}},
		{"a\t", []string{"a\t"}, []string{"a"}},
		{"a\r\nb\r", []string{"a", "b"}, []string{"a\r"}},
		{"\xef\xbb\xbfa", []string{"a"}, nil},
		{"[a-c]x", []string{"bx"}, []string{"dx"}},
		{"[!a]x", []string{"bx"}, []string{"ax"}},
		{"[[:digit:]]", []string{"1"}, []string{"a"}},
		{"[[:nonsense:]]", nil, []string{"n", "1"}},
		{"[a", nil, []string{"[a", "a"}},
		{`a\`, nil, []string{"a", `a\`}},
		{"a[/]b", nil, []string{"a/b"}},
		{"?", []string{"a"}, []string{"é"}}, // git counts bytes
		{"a\x00b", []string{"a"}, []string{"b"}},
		{"/\n!\n\n", nil, []string{"a"}},
	} {
		r := &Rules{repo: &repo{}}
		r.repo.indexOnce.Do(func() {})
		r.push([]byte(tc.rules))
		check := func(path string, want Verdict) {
			name, dir := strings.CutSuffix(path, "/")
			in := *r
			if i := strings.LastIndexByte(name, '/'); i >= 0 {
				in.path, name = name[:i+1], name[i+1:]
			}
			var buf []byte
			if got := in.Check(&buf, name, dir); got != want {
				t.Errorf("%q, %q: %v", tc.rules, path, got)
			}
		}
		for _, path := range tc.ignored {
			check(path, Ignored)
		}
		for _, path := range tc.notfound {
			check(path, Found)
		}
	}
}

func TestParse_IgnoresCaseOnRequest(t *testing.T) {
	l := Parse([]byte("Build\n*.LOG\nA/b*\n[[:upper:]]x\n"), true)
	for path, want := range map[string]bool{"bUILD": true, "x.log": true, "a/BX": true, "qx": true, "other": false} {
		if _, got := l.match([]byte(path), filepath.Base(path), false); got != want {
			t.Errorf("%s: %v", path, got)
		}
	}
}

// A reference for match that tries everything.
func slow(tokens []token, s []byte) bool {
	if len(tokens) == 0 {
		return len(s) == 0
	}
	t, rest := &tokens[0], tokens[1:]
	switch t.kind {
	case tStar:
		for i := 0; ; i++ {
			if slow(rest, s[i:]) {
				return true
			}
			if i == len(s) || s[i] == '/' {
				return false
			}
		}
	case tDeep, tDeepDirs:
		for i := 0; i <= len(s); i++ {
			if (t.kind == tDeep || i == 0 || s[i-1] == '/') && slow(rest, s[i:]) {
				return true
			}
		}
		return false
	}
	return len(s) > 0 && t.match(s[0], false) && slow(rest, s[1:])
}

func FuzzGlob(f *testing.F) {
	f.Add("**/a*b/**", "x/ab/c")
	f.Add("*a*/**/*b*b", "aa/x/bb")
	f.Add("[!a-c]?[[:alpha:]]", "zzz")
	f.Add("**\\/a", "x/a")
	f.Fuzz(func(t *testing.T, pattern, path string) {
		if len(pattern) > 24 || len(path) > 24 || strings.Contains(pattern, "\x00") {
			return
		}
		g := compileGlob(pattern, false)
		if want := !g.never && slow(g.tokens, []byte(path)); g.match([]byte(path)) != want {
			t.Errorf("%q, %q: not %v", pattern, path, want)
		}
		Parse([]byte(pattern), true).matchAny(path)
	})
}

// matchAny only must not crash.
func (l *List) matchAny(path string) {
	if l != nil && path != "" {
		l.match([]byte(path), path[strings.LastIndexByte(path, '/')+1:], true)
	}
}

func TestMatch_TakesNoExponentialTime(t *testing.T) {
	g := compileGlob(strings.Repeat("**/*a", 40)+"b", false)
	if g.match([]byte(strings.Repeat("a/a", 1300))) {
		t.Error("matches")
	}
}

func TestParseIndex_ReadsWhatGitWrites(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed: there is no index to read")
	}
	for _, format := range []string{"sha1", "sha256"} {
		dir := t.TempDir()
		git := func(args ...string) string {
			cmd := exec.Command("git", append([]string{"-C", dir}, args...)...)
			cmd.Env = append(os.Environ(), "HOME="+dir, "GIT_CONFIG_NOSYSTEM=1")
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("git %v: %v %s", args, err, out)
			}
			return string(out)
		}
		git("init", "-q", "--object-format="+format)
		for _, name := range []string{"a", "ab", "abc/d", "abc/d.e", "x/" + strings.Repeat("long", 50), "é", "z z"} {
			full := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(full, nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		git("add", ".")
		// An entry that is only intended makes a version 2 index version 3.
		if err := os.WriteFile(filepath.Join(dir, "later"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		for _, step := range [][]string{{"update-index", "--index-version", "2"}, {"update-index", "--index-version", "4"}, {"add", "-N", "later"},
			{"update-index", "--index-version", "2"}, {"update-index", "--split-index"}} {
			git(step...)
			r, ok := openRepo(dir, Global{})
			if !ok {
				t.Fatal("no repository")
			}
			want := strings.Split(strings.TrimSuffix(git("ls-files", "-z"), "\x00"), "\x00")
			if got := r.tracked(); !slices.Equal([]string(got), want) {
				t.Errorf("%s, %v: %q, want %q", format, step, got, want)
			}
		}
	}
}

func FuzzIndex(f *testing.F) {
	f.Add([]byte("DIRC\x00\x00\x00\x02\x00\x00\x00\x01"))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, size := range []int{20, 32} {
			_, _, _ = parseIndex(data, size)
		}
		parseConfig(string(data), func(string, string, bool) {})
	})
}

func TestTrackedSet(t *testing.T) {
	s := trackedSet{"a", "b-c", "b/c", "b0"}
	for path, want := range map[string][2]bool{"a": {true, false}, "b": {false, true}, "b/c": {true, false}, "b-": {}, "c": {}, "": {}} {
		if got := [2]bool{s.has([]byte(path)), s.below([]byte(path + "/"))}; got != want {
			t.Errorf("%q: %v", path, got)
		}
	}
}

func TestLoadGlobal(t *testing.T) {
	home := t.TempDir()
	put := func(name, text string) {
		full := filepath.Join(home, name)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	load := func() string { return string(LoadGlobal(home, "", []string{}).Rules) }
	if got := load(); got != "" {
		t.Errorf("rules out of nothing: %q", got)
	}
	put(".config/git/ignore", "default")
	if got := load(); got != "default" {
		t.Errorf("by default %q", got)
	}
	put("one", "one")
	put("t;wo", "two")
	put(".config/git/config", "[core]\nexcludesFile = ~/one # x\n")
	if got := load(); got != "one" {
		t.Errorf("from the first file %q", got)
	}
	put(".gitconfig", "; x\n[user]\n\tname = \"a \\\"b\\\"\" \\\n c\n[ core ]\n[include]\n\tpath = more\n")
	put("more", "[Core] ExcludesFile = \"~/t;wo\"\n[core \"sub\"]\nexcludesFile = /x\n[core] ignoreCase")
	if got := load(); got != "two" {
		t.Errorf("from an included file %q", got)
	}
	if !LoadGlobal(home, "", []string{}).IgnoreCase {
		t.Error("a key without a value is not true")
	}
}

func TestAt_FIFOsAsRulesDoNotBlock(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{".git/objects", ".git/refs", ".git/info"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, ".git/HEAD"), []byte("ref: refs/heads/x\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{".gitignore", ".git/config", ".git/index", ".git/info/exclude"} {
		if err := exec.Command("mkfifo", filepath.Join(dir, f)).Run(); err != nil {
			t.Skipf("mkfifo: %v", err)
		}
	}
	r := At(dir, Global{Rules: []byte("x\n")})
	var buf []byte
	if r == nil || r.Check(&buf, "x", false) != Ignored || r.Check(&buf, "y", false) != Found {
		t.Error("the other rules do not count")
	}
}
