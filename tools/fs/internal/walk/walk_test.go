package walk_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dshx/dshx/tools/fs/internal/glob"
	"github.com/dshx/dshx/tools/fs/internal/ignore"
	"github.com/dshx/dshx/tools/fs/internal/walk"
	"golang.org/x/sys/unix"
)

func newContext() context.Context { return context.Background() }

// oneByOne is a Run whose calls do not overlap.
func oneByOne(n int, f func(i int)) {
	for i := range n {
		f(i)
	}
}

func files(t *testing.T, top string, names ...string) {
	t.Helper()
	for _, name := range names {
		write(t, filepath.Join(top, name), "")
	}
}

func repository(t *testing.T, top string) {
	t.Helper()
	bare(t, filepath.Join(top, ".git"))
}

func pattern(t *testing.T, p string) *glob.Pattern {
	t.Helper()
	g, err := glob.Compile(p)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func mustWalk(t *testing.T, o walk.Options) *walk.Tree {
	t.Helper()
	tree, err := walk.Walk(newContext(), walk.Here, o)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

func paths(tree *walk.Tree) []string {
	out := []string{}
	for path := range tree.All() {
		out = append(out, path)
	}
	return out
}

func TestF4_27_HiddenIgnoredAndNamed(t *testing.T) {
	top := t.TempDir()
	repository(t, top)
	files(t, top, "v.ts", ".h.ts", ".cfg/x.ts", ".github/workflows/ci.yml", "dist/app.js", "dist/.git/x", "src/b.js")
	write(t, filepath.Join(top, ".gitignore"), "dist/\nb.js\n")
	for _, tc := range []struct {
		pattern, path   string
		hidden, ignored bool
		want            []string
		omitted         int // at least
	}{
		{pattern: "**/*.ts", want: []string{"v.ts"}, omitted: 1},
		{pattern: "**/*.ts", hidden: true, want: []string{".cfg/x.ts", ".h.ts", "v.ts"}, omitted: 1},
		{pattern: ".github/**/*.yml", want: []string{".github/workflows/ci.yml"}},
		{pattern: "**/*.js", want: []string{}, omitted: 2},
		{pattern: "**/*.js", ignored: true, want: []string{"dist/app.js", "src/b.js"}},
		{pattern: "dist/app.js", want: []string{"dist/app.js"}},
		{pattern: "{dist,src}/*.js", want: []string{"dist/app.js"}, omitted: 1},
		{pattern: "src/b.js", want: []string{"src/b.js"}},
		{pattern: "*.js", path: "dist", want: []string{"app.js"}},
		{pattern: "*.js", path: "src", want: []string{}, omitted: 1},
		{pattern: "*.ts", path: ".cfg", want: []string{"x.ts"}},
		{pattern: "**", hidden: true, want: []string{".cfg/x.ts", ".github/workflows/ci.yml", ".gitignore", ".h.ts", "v.ts"}, omitted: 2},
		{pattern: ".git/HEAD", want: []string{".git/HEAD"}},
		{pattern: ".gi*/HEAD", want: []string{}},
		{pattern: "*/HEAD", hidden: true, ignored: true, want: []string{".git/HEAD"}},
	} {
		t.Run(tc.path+" "+tc.pattern, func(t *testing.T) {
			tree := mustWalk(t, walk.Options{Root: filepath.Join(top, tc.path), Include: pattern(t, tc.pattern),
				Hidden: tc.hidden, Ignored: tc.ignored, Types: walk.Files})
			if got := paths(tree); !slices.Equal(got, tc.want) {
				t.Errorf("found %q, want %q", got, tc.want)
			}
			if n := tree.Omitted().Ignored; n < tc.omitted || tc.omitted == 0 && n > 0 {
				t.Errorf("%d ignored, want %d", n, tc.omitted)
			}
		})
	}
}

func TestF4_29_RulesOfEveryLevel(t *testing.T) {
	top := t.TempDir()
	repository(t, filepath.Join(top, "one"))
	files(t, top, "one/sub/keep.log", "one/sub/x.log", "one/secret", "two/inc/x.h", "two/y.h", "two/z.c", "three/a.log")
	write(t, filepath.Join(top, "one/.gitignore"), "*.log\n")
	write(t, filepath.Join(top, "one/sub/.gitignore"), "!keep.log\n")
	write(t, filepath.Join(top, "one/.git/info/exclude"), "secret\n")
	repository(t, filepath.Join(top, "two"))
	write(t, filepath.Join(top, "two/.gitignore"), "*\n!*.h\n")
	write(t, filepath.Join(top, "three/.gitignore"), "*.log\n")
	for start, want := range map[string][]string{
		// Outside of a repository a rule file means nothing.
		"":        {"one/sub/keep.log", "three/a.log", "two/y.h"},
		"one":     {"sub/keep.log"},
		"one/sub": {"keep.log"},
		"two":     {"y.h"},
		"three":   {"a.log"},
	} {
		if got := paths(mustWalk(t, walk.Options{Root: filepath.Join(top, start), Types: walk.Files})); !slices.Equal(got, want) {
			t.Errorf("from %q found %q, want %q", start, got, want)
		}
	}
}

func TestF4_20_OddFilesDoNotBlock(t *testing.T) {
	top := t.TempDir()
	files(t, top, "a")
	if err := unix.Mkfifo(filepath.Join(top, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(top, "socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := os.Symlink("/dev/zero", filepath.Join(top, "zero")); err != nil {
		t.Fatal(err)
	}
	var got []string
	for path, e := range mustWalk(t, walk.Options{Root: top, Stat: true}).All() {
		got = append(got, fmt.Sprintf("%s %d %s", path, e.Type, e.Target))
	}
	want := []string{fmt.Sprintf("a %d ", walk.File), fmt.Sprintf("fifo %d ", walk.Other),
		fmt.Sprintf("socket %d ", walk.Other), fmt.Sprintf("zero %d /dev/zero", walk.Symlink)}
	if !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
	if _, err := walk.Walk(newContext(), walk.Here, walk.Options{Root: filepath.Join(top, "fifo")}); !errors.Is(err, unix.ENOTDIR) {
		t.Errorf("a FIFO as root: %v", err)
	}
}

func TestF4_26_OddNames(t *testing.T) {
	top := t.TempDir()
	want := []string{"-rf", "bad\xff", "dir:12:x.txt", "new\nline.txt", "sp ace"}
	files(t, top, want...)
	if got := paths(mustWalk(t, walk.Options{Root: top})); !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
}

func TestF4_31_LinksAreNotFollowed(t *testing.T) {
	top := t.TempDir()
	files(t, top, "top/mid/f", "x/f", "y/f")
	for name, target := range map[string]string{"top/mid/back": "../..", "x/y": "../y", "y/x": "../x"} {
		if err := os.Symlink(target, filepath.Join(top, name)); err != nil {
			t.Fatal(err)
		}
	}
	tree := mustWalk(t, walk.Options{Root: top, Depth: 50, Stat: true})
	want := []string{"top", "top/mid", "top/mid/back", "top/mid/f", "x", "x/f", "x/y", "y", "y/f", "y/x"}
	if got := paths(tree); !slices.Equal(got, want) || tree.Len() != len(want) {
		t.Errorf("found %d, %q, want %q", tree.Len(), got, want)
	}
}

func TestWalk_TheSameHoweverManyWorkers(t *testing.T) {
	top := t.TempDir()
	for d := range 40 {
		for f := range 10 {
			files(t, top, fmt.Sprintf("a%d/b%d/f%d", d%7, d, f), fmt.Sprintf("a%d.%d", d%7, f))
		}
	}
	want := paths(mustWalk(t, walk.Options{Root: top, Workers: 1}))
	if !slices.IsSorted(want) {
		t.Error("not sorted by path bytes")
	}
	for _, n := range []int{2, 3, 16} {
		for name, run := range map[string]walk.Run{"side by side": walk.Here, "one by one": oneByOne} {
			tree, err := walk.Walk(newContext(), run, walk.Options{Root: top, Workers: n})
			if err != nil {
				t.Fatal(err)
			}
			if got := paths(tree); !slices.Equal(got, want) {
				t.Errorf("%d workers %s found something else", n, name)
			}
		}
	}
	var grouped []string
	for dir, names := range mustWalk(t, walk.Options{Root: top}).Groups() {
		for _, name := range names {
			grouped = append(grouped, dir+name)
		}
	}
	if !slices.Equal(grouped, want) {
		t.Error("groups hold something else")
	}
	for range mustWalk(t, walk.Options{Root: top}).Groups() {
		break // ending early must be possible
	}
}

func TestWalk_DepthAndExclude(t *testing.T) {
	top := t.TempDir()
	files(t, top, "a/b/c", "a/d", "e", "v/w/x")
	exclude, err := glob.CompileName("{v,d}")
	if err != nil {
		t.Fatal(err)
	}
	for depth, want := range map[int][]string{
		1: {"a", "e"}, 2: {"a", "a/b", "e"}, 0: {"a", "a/b", "a/b/c", "e"},
	} {
		if got := paths(mustWalk(t, walk.Options{Root: top, Depth: depth, Exclude: exclude})); !slices.Equal(got, want) {
			t.Errorf("depth %d found %q, want %q", depth, got, want)
		}
	}
}

func TestWalk_PathsLongerThanTheKernelTakes(t *testing.T) {
	top := t.TempDir()
	name := strings.Repeat("n", 200)
	at, err := unix.Open(top, unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	for range 45 {
		if err := unix.Mkdirat(at, name, 0o755); err != nil {
			t.Fatal(err)
		}
		next, err := unix.Openat(at, name, unix.O_DIRECTORY, 0)
		if err != nil {
			t.Fatal(err)
		}
		unix.Close(at)
		at = next
	}
	unix.Close(at)
	if n := mustWalk(t, walk.Options{Root: top}).Len(); n != 45 {
		t.Errorf("found %d directories, want 45", n)
	}
}

func TestWalk_CountsWhatItMayNotRead(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("uid 0 may read everything")
	}
	top := t.TempDir()
	files(t, top, "a", "closed/b")
	closed := filepath.Join(top, "closed")
	if err := os.Chmod(closed, 0); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(closed, 0o755)
	tree := mustWalk(t, walk.Options{Root: top, Types: walk.Files})
	if got := paths(tree); !slices.Equal(got, []string{"a"}) || tree.Omitted().Denied != 1 {
		t.Errorf("found %q, %d denied", got, tree.Omitted().Denied)
	}
}

func TestWalk_LeavesOutTheKernelsFileSystems(t *testing.T) {
	if _, err := os.Stat("/proc/self"); err != nil {
		t.Skip("/proc is not mounted")
	}
	tree := mustWalk(t, walk.Options{Root: "/", Hidden: true, Include: pattern(t, "{proc,sys}/*/*")})
	if tree.Len() != 0 {
		t.Errorf("found %q", paths(tree))
	}
}

func TestWalk_EndsWithItsContext(t *testing.T) {
	top := t.TempDir()
	files(t, top, "a")
	ctx, cancel := context.WithCancel(newContext())
	cancel()
	if _, err := walk.Walk(ctx, walk.Here, walk.Options{Root: top}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled before: %v", err)
	}
	ctx, cancel = context.WithTimeout(newContext(), time.Millisecond)
	defer cancel()
	if _, err := walk.Walk(ctx, walk.Here, walk.Options{Root: "/", Hidden: true}); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("cancelled meanwhile: %v", err)
	}
	if _, err := walk.Walk(newContext(), walk.Here, walk.Options{Root: filepath.Join(top, "none")}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a root that is not there: %v", err)
	}
}

func TestWalk_RepositoriesInsideAndBeside(t *testing.T) {
	needGit(t)
	base := t.TempDir()
	home, top := filepath.Join(base, "home"), filepath.Join(base, "w")
	write(t, filepath.Join(home, ".gitconfig"), "[core]\n\texcludesFile = ~/rules\n[protocol \"file\"]\n\tallow = always\n[init]\n\tdefaultBranch = main\n")
	write(t, filepath.Join(home, "rules"), "*.global\n")
	if err := os.MkdirAll(top, 0o755); err != nil {
		t.Fatal(err)
	}
	git(t, home, top, "init", "-q")
	files(t, top, "a", "x.global", "build/tracked", "build/not", "build/deep/tracked", "nested/b", "nested/b.nested", "nested/b.outer", "a.outer")
	write(t, filepath.Join(top, ".gitignore"), "*.outer\nbuild/\n")
	git(t, home, top, "add", "-f", "a", "build/tracked", "build/deep/tracked")
	git(t, home, top, "commit", "-qm", "x")
	git(t, home, filepath.Join(top, "nested"), "init", "-q")
	write(t, filepath.Join(top, "nested/.gitignore"), "*.nested\n")
	git(t, home, top, "submodule", "--quiet", "add", top, "sub")
	write(t, filepath.Join(top, "sub/s.outer"), "")
	write(t, filepath.Join(top, ".git/info/exclude"), "excluded\n")
	git(t, home, top, "worktree", "add", "-q", "../linked")
	files(t, base, "linked/excluded", "linked/c", "linked/build/not", "linked/x.outer", "w/excluded")

	global := ignore.LoadGlobal(home, "", []string{})
	for _, tc := range []struct {
		start  string
		nested []string
	}{
		{"w", []string{"nested", "sub"}}, {"w/nested", nil}, {"w/sub", nil}, {"linked", nil},
	} {
		o := walk.Options{Root: filepath.Join(base, tc.start), Hidden: true, Types: walk.Files, Global: global}
		want := gitFiles(t, home, o.Root, tc.nested...)
		if got := found(t, o); !slices.Equal(got, want) {
			t.Errorf("from %s found\n%q, git lists\n%q", tc.start, got, want)
		}
	}
	for _, how := range [][]string{{"--split-index"}, {"--no-split-index", "--index-version", "4"}} {
		git(t, home, top, append([]string{"update-index"}, how...)...)
		tree := mustWalk(t, walk.Options{Root: top, Hidden: true, Types: walk.Files, Global: global, Include: pattern(t, "b*/**")})
		if got, want := paths(tree), []string{"build/deep/tracked", "build/tracked"}; !slices.Equal(got, want) {
			t.Errorf("after %q found %q, want %q", how, got, want)
		}
		if n := tree.Omitted().Ignored; n != 1 {
			t.Errorf("after %q %d ignored, want build/not alone", how, n)
		}
	}
}

func TestRefuse_CountsAndLeavesOut(t *testing.T) {
	top := t.TempDir()
	files(t, top, "a/f", "secret/f", "b/.env", "b/f")
	refuse := func(path string, dir bool) bool { return path == "secret" && dir || path == "b/.env" && !dir }
	for _, tc := range []struct {
		types  walk.Types
		want   []string
		denied int
	}{
		{walk.Files, []string{"a/f", "b/f"}, 2},
		{walk.All, []string{"a", "a/f", "b", "b/f", "secret"}, 2},
	} {
		tree := mustWalk(t, walk.Options{Root: top, Hidden: true, Types: tc.types, Refuse: refuse})
		if got := paths(tree); !slices.Equal(got, tc.want) || tree.Omitted().Denied != tc.denied {
			t.Errorf("found %q, denied %d, want %q and %d", got, tree.Omitted().Denied, tc.want, tc.denied)
		}
	}
}
