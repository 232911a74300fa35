package grep

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/dshx/dshx/sandbox"
	"github.com/dshx/dshx/sandboxpolicy"
	"github.com/dshx/dshx/tools/fs/internal/walk"
)

// What the kernel denies to the threads of a Run must not be found: a goroutine
// that reads files on another thread would find it.
func TestSearch_StaysOnTheThreadsItIsGiven(t *testing.T) {
	files := map[string]string{".git/HEAD": "ref: refs/heads/x\n", ".git/objects/x": "", ".git/refs/x": ""}
	for d := range 50 {
		files[fmt.Sprintf("open%d/f", d)] = "word\n"
		files[fmt.Sprintf("secret%d/f", d)] = "word\n"
	}
	dir := tree(t, files)
	req := sandboxpolicy.Request{Preset: "read-only", Workspace: dir, Environ: os.Environ(), NoConfig: true, NoCacheArea: true}
	for d := range 50 {
		req.DenyRead = append(req.DenyRead, filepath.Join(dir, fmt.Sprintf("secret%d", d)))
	}
	scope, err := sandbox.Open(req)
	if err != nil {
		t.Skipf("no sandbox on this host: %v", err)
	}
	defer scope.Close()
	confined := func(n int, f func(i int)) {
		for i := range n {
			if err := scope.Do(func() error { f(i); return nil }); err != nil {
				t.Error(err)
			}
		}
	}
	m := compile(t, Pattern{Text: "word"})
	for name, tc := range map[string]struct {
		run    walk.Run
		files  int
		denied int
	}{"confined": {confined, 50, 50}, "not confined": {walk.Here, 100, 0}} {
		r, err := Search(context.Background(), tc.run, m, Options{Walk: walk.Options{Root: dir, Workers: 3}, Limit: -1})
		if err != nil {
			t.Fatal(err)
		}
		if r.TotalFiles != tc.files || r.Omitted.Denied != tc.denied {
			t.Errorf("%s: %d files, %d denied, want %d and %d", name, r.TotalFiles, r.Omitted.Denied, tc.files, tc.denied)
		}
	}
}
