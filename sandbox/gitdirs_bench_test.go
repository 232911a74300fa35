package sandbox

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// BenchmarkGitTree is what a call in a workspace of a thousand directories pays
// when nothing changed.
func BenchmarkGitTree(b *testing.B) {
	root := b.TempDir()
	for i := range 100 {
		for j := range 10 {
			if err := os.MkdirAll(filepath.Join(root, strconv.Itoa(i), strconv.Itoa(j)), 0o755); err != nil {
				b.Fatal(err)
			}
		}
	}
	var t gitTree
	time.Sleep(3 * clockGrain)
	since := time.Now()
	for b.Loop() {
		if made := t.since(root, since); made != nil {
			b.Fatal(made)
		}
	}
}
