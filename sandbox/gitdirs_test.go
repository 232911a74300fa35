package sandbox

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// gitDirsOf is what a walk of everything finds.
func gitDirsOf(t *rapid.T, root string, since time.Time) (made []string) {
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		cut := since.Add(-clockGrain)
		if e.Name() == ".git" {
			if born(path).After(cut) {
				made = append(made, path)
			}
			if e.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if e.IsDir() {
			entries, err := os.ReadDir(path)
			if err != nil {
				return err
			}
			if bareGitDir(entries) && bareBorn(path).After(cut) {
				made = append(made, path)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(made)
	return made
}

// What is remembered of a tree never makes a difference to reading all of it.
func TestGitTree_IsAWalk(t *testing.T) {
	dir := t.TempDir()
	run := 0
	names := rapid.SampledFrom([]string{"a", "b", ".git", "HEAD", "objects", "refs"})
	rapid.Check(t, func(t *rapid.T) {
		run++
		root := filepath.Join(dir, fmt.Sprint(run))
		if err := os.Mkdir(root, 0o755); err != nil {
			t.Fatal(err)
		}
		var tree gitTree
		start := time.Now()
		path := func(label string) string {
			p := root
			for range rapid.IntRange(1, 3).Draw(t, label+" depth") {
				p = filepath.Join(p, names.Draw(t, label))
			}
			return p
		}
		t.Repeat(map[string]func(*rapid.T){
			"mkdir":   func(t *rapid.T) { _ = os.MkdirAll(path("dir"), 0o755) },
			"file":    func(t *rapid.T) { _ = os.WriteFile(path("file"), nil, 0o644) },
			"rename":  func(t *rapid.T) { _ = os.Rename(path("from"), path("to")) },
			"remove":  func(t *rapid.T) { _ = os.RemoveAll(path("gone")) },
			"link":    func(t *rapid.T) { _ = os.Symlink(root, path("link")) },
			"pretend": func(t *rapid.T) { _ = os.Chtimes(path("old"), time.Time{}, time.Unix(1, 0)) },
			"wait":    func(t *rapid.T) { time.Sleep(2 * clockGrain) },
			"now":     func(t *rapid.T) { start = time.Now() },
			"": func(t *rapid.T) {
				if got, want := tree.since(root, start), gitDirsOf(t, root, start); !slices.Equal(got, want) {
					t.Fatalf("made since: %q, a walk finds %q", got, want)
				}
				if tree.kept != tree.root.size() {
					t.Fatalf("%d nodes counted, there are %d", tree.kept, tree.root.size())
				}
			},
		})
	})
}

// A tree of more directories than are remembered is searched all the same.
func TestGitTree_IsBounded(t *testing.T) {
	root := t.TempDir()
	start := time.Now()
	for i := range 50 {
		for j := range 4 {
			if err := os.MkdirAll(filepath.Join(root, fmt.Sprint(i), fmt.Sprint(j), ".git"), 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	tree := gitTree{most: 20}
	for range 3 {
		if n := len(tree.since(root, start)); n != 200 {
			t.Errorf("%d git directories, want 200", n)
		}
		if tree.kept > 20+1 || tree.kept != tree.root.size() {
			t.Errorf("%d nodes counted, %d kept, want 20 at most", tree.kept, tree.root.size())
		}
	}
}
