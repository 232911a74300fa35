package glob

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestMatch(t *testing.T) {
	for _, tc := range []struct {
		pattern  string
		yes, not []string
	}{
		{"*.go", []string{"a.go", "é.go"}, []string{"a/b.go", ".a.go", "a.goo", ".go"}},
		{"**/*.go", []string{"a.go", "a/b/c.go"}, []string{".a/b.go", "a/.b.go"}},
		{"a/**", []string{"a/b", "a/b/c"}, []string{"a", "a/.b", "b/a/c"}},
		{"a/**/b", []string{"a/b", "a/x/y/b"}, []string{"ab", "a/x"}},
		{"**", []string{"a", "a/b"}, []string{".a"}},
		{"a**b", []string{"ab", "axb"}, []string{"a/b"}},
		{"?", []string{"a", "é", "\xff"}, []string{"", "ab", "."}},
		{"[a-cx]", []string{"b", "x"}, []string{"d", "-"}},
		{"[!a]", []string{"b", "\xff"}, []string{"a", "."}},
		{"[^é]", []string{"e"}, []string{"é"}},
		{"[]a]", []string{"]", "a"}, []string{"b"}},
		{"[a-]", []string{"-", "a"}, []string{"b"}},
		{`[\]]`, []string{"]"}, []string{`\`}},
		{"{a,b/c}.x", []string{"a.x", "b/c.x"}, []string{"b.x", "c.x"}},
		{"{a,{b,c}d}", []string{"a", "bd", "cd"}, []string{"b", "d"}},
		{"a{,b}", []string{"a", "ab"}, []string{"b"}},
		{"{a[,}],b}", []string{"a,", "a}", "b"}, []string{"a"}},
		{`\{a\}`, []string{"{a}"}, []string{"a"}},
		{`\*`, []string{"*"}, []string{"a"}},
		{".github/**/*.yml", []string{".github/w/ci.yml"}, []string{".github/.x/ci.yml", "github/ci.yml"}},
		{"{.a,b}*", []string{".ab", "bc"}, []string{".b"}},
		{"[.]a", nil, []string{".a"}},
		{"?a", nil, []string{".a"}},
		{"./a//b/", []string{"a/b"}, []string{"a"}},
		{"*a*b*", []string{"ab", "xaxbx"}, []string{"ba"}},
		{"a}", []string{"a}"}, nil},
	} {
		p, err := Compile(tc.pattern)
		if err != nil {
			t.Errorf("%s: %v", tc.pattern, err)
			continue
		}
		for _, s := range tc.yes {
			if !p.Match(s, false) {
				t.Errorf("%s does not match %q", tc.pattern, s)
			}
		}
		for _, s := range tc.not {
			if p.Match(s, false) {
				t.Errorf("%s matches %q", tc.pattern, s)
			}
		}
	}
}

func TestMatch_HiddenNamesOnRequest(t *testing.T) {
	for _, pattern := range []string{"*", "**", "?a", "[.]a", "**/?a"} {
		p, err := Compile(pattern)
		if err != nil {
			t.Fatal(err)
		}
		if p.Match(".a", false) || !p.Match(".a", true) {
			t.Errorf("%s: hidden names are not found on request only", pattern)
		}
	}
}

func TestCompile_SaysWhatIsWrong(t *testing.T) {
	for pattern, want := range map[string]string{
		"": "empty", "/a": "absolute", "../a": `".."`, "a/../b": `".."`, "[a": `"["`, "{a": `"{"`, `a\`: `"\"`,
		"[b-a]": "backwards", "[a/b]": `"/"`, ".": "nothing", "a\x00": "NUL",
		strings.Repeat("{a,b}", 11): "too many", strings.Repeat("a", 5000): "longer",
	} {
		if _, err := Compile(pattern); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: %v, want an error with %s", pattern, err, want)
		}
	}
}

func TestCompileName(t *testing.T) {
	for _, tc := range []struct {
		pattern, path string
		want          bool
	}{
		{"*.go", "a/b.go", true}, {"*.go", "b.go", true}, {"a/*.go", "a/b.go", true}, {"a/*.go", "x/a/b.go", false},
		{"/b.go", "b.go", true}, {"/b.go", "a/b.go", false}, {".env", "a/.env", true}, {"*.{go,c}", "x/y.c", true},
	} {
		p, err := CompileName(tc.pattern)
		if err != nil {
			t.Fatal(err)
		}
		if p.Match(tc.path, false) != tc.want {
			t.Errorf("%s, %s: %v", tc.pattern, tc.path, !tc.want)
		}
	}
}

func TestName_Outright(t *testing.T) {
	for _, tc := range []struct {
		pattern, path string
		want          bool
	}{
		{"dist/app.js", "dist", true}, {"dist/app.js", "dist/app.js", true}, {"dist/*.js", "dist", true},
		{"dist/*.js", "dist/app.js", false}, {"**/app.js", "app.js", false}, {"{a,b}/c", "b", true}, {"*/c", "b", false},
	} {
		p, err := Compile(tc.pattern)
		if err != nil {
			t.Fatal(err)
		}
		s := p.Start()
		names := strings.Split(tc.path, "/")
		for _, name := range names[:len(names)-1] {
			s = p.Enter(s, name, false)
		}
		if _, got := p.Name(s, names[len(names)-1], false); got != tc.want {
			t.Errorf("%s names %s outright: %v", tc.pattern, tc.path, got)
		}
	}
}

// reference translates a pattern without braces to a regular expression, which
// is slow and plain.
func reference(pattern string) *regexp.Regexp {
	var b strings.Builder
	b.WriteString(`(?s)^`)
	parts := strings.Split(pattern, "/")
	for i, part := range parts {
		last := i == len(parts)-1
		if part == "**" {
			if last {
				b.WriteString(`[^/]+(?:/[^/]+)*`)
			} else {
				b.WriteString(`(?:[^/]+/)*`)
			}
			continue
		}
		for j := 0; j < len(part); j++ {
			switch part[j] {
			case '*':
				b.WriteString(`[^/]*`)
			case '?':
				b.WriteString(`[^/]`)
			case '\\':
				j++
				b.WriteString(regexp.QuoteMeta(part[j : j+1]))
			default:
				b.WriteString(regexp.QuoteMeta(part[j : j+1]))
			}
		}
		if !last {
			b.WriteByte('/')
		}
	}
	return regexp.MustCompile(b.String() + `$`)
}

func FuzzMatch(f *testing.F) {
	f.Add("**/a*b?/**", "x/ab/c")
	f.Add("*a*a*a*b", "aaaaaaaa")
	f.Add("**/**/a", "a")
	f.Fuzz(func(t *testing.T, pattern, path string) {
		// The reference takes no other bytes than UTF-8's, and U+FFFD for any.
		if !utf8.ValidString(pattern) || strings.ContainsAny(pattern, "[{\x00\ufffd") || len(pattern) > 100 || len(path) > 100 {
			return
		}
		for part := range strings.SplitSeq(pattern, "/") {
			if part == "" || part == "." || part == ".." {
				return
			}
		}
		for part := range strings.SplitSeq(path, "/") {
			if part == "" {
				return
			}
		}
		p, err := Compile(pattern)
		if err != nil {
			return
		}
		if want := reference(pattern).MatchString(path); p.Match(path, true) != want {
			t.Errorf("%q, %q: not %v", pattern, path, want)
		}
		if p.Match(path, false) && !p.Match(path, true) {
			t.Errorf("%q, %q: matches only without hidden names", pattern, path)
		}
	})
}

// With hidden names, and for names at any depth, ripgrep's -g is an oracle, but
// for "?", which means a byte to it.
func TestCompileName_AgreesWithRipgrep(t *testing.T) {
	rg, err := exec.LookPath("rg")
	if err != nil {
		t.Skip("rg is not installed: there is nothing to compare with")
	}
	dir := t.TempDir()
	var all []string
	for _, d := range []string{"", "a", "a/b", "b", ".h"} {
		for _, f := range []string{"a", "b.c", "ab.c", ".a", "a-b", "[a]"} {
			path := filepath.Join(d, f)
			if os.MkdirAll(filepath.Join(dir, d), 0o755) == nil && os.WriteFile(filepath.Join(dir, path), nil, 0o644) == nil {
				all = append(all, path)
			}
		}
	}
	part := rapid.SampledFrom([]string{"*", "**", "?", "a", "b", "*.c", "a*", "[ab]", "[!a]*", "*b*", ".*", "{a,b}", "{a*,.h}", `\[a]`, "?*"})
	rapid.Check(t, func(t *rapid.T) {
		pattern := strings.Join(rapid.SliceOfN(part, 1, 3).Draw(t, "parts"), "/")
		p, err := CompileName(pattern)
		if err != nil {
			t.Fatal(err)
		}
		want := ""
		cmd := exec.Command(rg, "--files", "--hidden", "--no-ignore", "-0", "-g", pattern)
		cmd.Dir = dir
		if out, err := cmd.Output(); err == nil {
			want = "\x00" + string(out)
		}
		for _, path := range all {
			// ripgrep also takes a directory that matches for all below it.
			in := strings.Contains(want, "\x00"+path+"\x00")
			if got := p.Match(path, true); got != in {
				t.Fatal(fmt.Sprintf("%s, %s: %v, for rg %v", pattern, path, got, in))
			}
		}
	})
}
