package walk_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dshx/dshx/tools/fs/internal/ignore"
	"github.com/dshx/dshx/tools/fs/internal/walk"
	"pgregory.net/rapid"
)

// gitEnv makes git look at nothing of the user's but home.
func gitEnv(home string) []string {
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b"}
}

type fataler interface {
	Helper()
	Fatalf(string, ...any)
}

func git(t fataler, home, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-C", dir}, args...)...)
	cmd.Env = gitEnv(home)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, errs.String())
	}
	return string(out)
}

func needGit(t testing.TB) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed: there is nothing to compare with")
	}
}

func write(t fataler, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatalf("%v", err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatalf("%v", err)
	}
}

// gitFiles is the oracle: what exists of git ls-files -co --exclude-standard,
// from each repository in turn.
func gitFiles(t fataler, home, start string, nested ...string) []string {
	t.Helper()
	var files []string
	for _, dir := range append([]string{""}, nested...) {
		out := git(t, home, filepath.Join(start, dir), "ls-files", "-coz", "--exclude-standard")
		for path := range strings.SplitSeq(strings.TrimSuffix(out, "\x00"), "\x00") {
			path = filepath.Join(dir, path)
			if st, err := os.Lstat(filepath.Join(start, path)); err == nil && !st.IsDir() {
				files = append(files, path)
			}
		}
	}
	slices.Sort(files)
	return slices.Compact(files)
}

func found(t fataler, o walk.Options) []string {
	t.Helper()
	tree, err := walk.Walk(newContext(), walk.Here, o)
	if err != nil {
		t.Fatalf("%v", err)
	}
	var files []string
	for path := range tree.All() {
		files = append(files, path)
	}
	if !slices.IsSorted(files) {
		t.Fatalf("not in the order of path bytes: %q", files)
	}
	return files
}

// Names and patterns are of few characters, so that they meet.
var (
	nameGen = rapid.SampledFrom([]string{"a", "b", "ab", "a.c", "b.c", "A", ".h", "a b", "b ", `a\b`, "[a]", "*", "a*", "d", "d.d", "é", "!a", "#a", "a-b", "-"})
	lineGen = rapid.Custom(func(t *rapid.T) string {
		part := rapid.OneOf(
			nameGen,
			rapid.SampledFrom([]string{"*", "**", "?", "*.c", "a*", "*b", "[ab]", "[!a]", "[^b]*", "[a-c].c", "[[:alpha:]]", "[[:upper:]]*", "[]a]", "[a", "a**", "**b", "***", `\a`, `\*`, `\[a]`, "?.c", "*.*", ".*", `[\]a]`, "[a-]", `a\`, "[[:foo:]]", "[[:a]", "[A-Z]", "*?"}),
		)
		parts := rapid.SliceOfN(part, 1, 3).Draw(t, "parts")
		line := strings.Join(parts, "/")
		if rapid.IntRange(0, 9).Draw(t, "glued") == 0 {
			line = strings.Join(parts, "")
		}
		if rapid.IntRange(0, 3).Draw(t, "anchored") == 0 {
			line = "/" + line
		}
		if rapid.IntRange(0, 3).Draw(t, "dirs") == 0 {
			line += "/"
		}
		if rapid.IntRange(0, 3).Draw(t, "negated") == 0 {
			line = "!" + line
		}
		line += rapid.SampledFrom([]string{"", "", "", "", "", " ", `\ `, "\t", "\r", "  "}).Draw(t, "end")
		return line
	})
	rulesGen = rapid.Custom(func(t *rapid.T) string {
		lines := rapid.SliceOfN(lineGen, 0, 6).Draw(t, "lines")
		text := strings.Join(lines, "\n")
		if rapid.Bool().Draw(t, "newline") {
			text += "\n"
		}
		return rapid.SampledFrom([]string{"", "", "", "\xef\xbb\xbf", "# x\n", "\n"}).Draw(t, "begin") + text
	})
)

// bare makes the least that git takes for a repository.
func bare(t fataler, dir string) {
	t.Helper()
	for _, d := range []string{"objects", "refs"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatalf("%v", err)
		}
	}
	write(t, filepath.Join(dir, "HEAD"), "ref: refs/heads/main\n")
}

func TestWalk_FindsWhatGitLists(t *testing.T) {
	needGit(t)
	base := t.TempDir()
	runs := 0
	rapid.Check(t, func(t *rapid.T) {
		runs++
		home := filepath.Join(base, fmt.Sprint(runs), "home")
		top := filepath.Join(base, fmt.Sprint(runs), "w")
		defer os.RemoveAll(filepath.Join(base, fmt.Sprint(runs)))
		bare(t, filepath.Join(top, ".git"))
		write(t, filepath.Join(home, ".config/git/ignore"), rulesGen.Draw(t, "global"))
		write(t, filepath.Join(top, ".git/info/exclude"), rulesGen.Draw(t, "exclude"))
		var files []string
		dirs := []string{""}
		for range rapid.IntRange(1, 14).Draw(t, "files") {
			path := filepath.Join(rapid.SliceOfN(nameGen, 1, 4).Draw(t, "path")...)
			full := filepath.Join(top, path)
			if os.MkdirAll(filepath.Dir(full), 0o755) != nil {
				continue
			}
			if real, err := filepath.EvalSymlinks(filepath.Dir(full)); err != nil || real != filepath.Dir(full) {
				continue // through one of the links
			}
			var err error
			if rapid.IntRange(0, 9).Draw(t, "link") == 0 {
				err = os.Symlink("..", full)
			} else if f, e := os.OpenFile(full, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644); e == nil {
				err = f.Close()
			} else {
				err = e
			}
			if err != nil {
				continue
			}
			files = append(files, path)
			for dir := filepath.Dir(path); dir != "."; dir = filepath.Dir(dir) {
				if !slices.Contains(dirs, dir) {
					dirs = append(dirs, dir)
				}
			}
		}
		for _, dir := range dirs {
			if dir == "" || rapid.IntRange(0, 2).Draw(t, "rules") == 0 {
				if p := filepath.Join(top, dir, ".gitignore"); os.WriteFile(p, []byte(rulesGen.Draw(t, "gitignore")), 0o644) != nil {
					t.Fatalf("write %s", p)
				}
			}
		}
		if rapid.IntRange(0, 4).Draw(t, "ignoreCase") == 0 {
			git(t, home, top, "config", "core.ignoreCase", "true")
		} else if len(files) > 0 && rapid.IntRange(0, 2).Draw(t, "tracked") == 0 {
			git(t, home, top, "config", "index.version", fmt.Sprint(rapid.IntRange(2, 4).Draw(t, "version")))
			args := []string{"--literal-pathspecs", "add", "-f", "--"}
			for range rapid.IntRange(1, 3).Draw(t, "adds") {
				args = append(args, rapid.SampledFrom(files).Draw(t, "add"))
			}
			git(t, home, top, args...)
		}
		start := rapid.SampledFrom(dirs).Draw(t, "start")
		o := walk.Options{Root: filepath.Join(top, start), Hidden: true, Types: walk.Files | walk.Symlinks,
			Global: ignore.LoadGlobal(home, "", []string{}), Workers: rapid.IntRange(1, 3).Draw(t, "workers")}
		if start != "" && ignored(home, top, start) {
			return // what is named is searched whole: not git's answer
		}
		want := gitFiles(t, home, o.Root)
		if got := found(t, o); !slices.Equal(got, want) {
			t.Fatalf("from %q found\n%q, git lists\n%q", start, got, want)
		}
	})
}

// ignored reports whether git ignores the directory, or one above it.
func ignored(home, top, dir string) bool {
	for ; dir != "."; dir = filepath.Dir(dir) {
		cmd := exec.Command("git", "-C", top, "check-ignore", "--no-index", "-q", "--", dir)
		cmd.Env = gitEnv(home)
		if cmd.Run() == nil {
			return true
		}
	}
	return false
}
