package walk_test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dshx/dshx/tools/fs/internal/walk"
)

var benchTree = flag.String("bench-tree", "", "list this directory instead of a generated one of 50,000 files")

// BenchmarkAgainstRipgrep runs rg --files and Walk in turn, after both have found
// the same, and reports the median of the pairs' ratios: below 1 Walk is faster.
// rg is a process, which costs it a start of some milliseconds.
func BenchmarkAgainstRipgrep(b *testing.B) {
	rg, err := exec.LookPath("rg")
	if err != nil {
		b.Skip("rg is not installed: there is nothing to compare with")
	}
	dir := *benchTree
	if dir == "" {
		dir = b.TempDir()
		for d := range 500 {
			sub := filepath.Join(dir, fmt.Sprintf("d%d/s%d/x%d", d%10, d%50, d))
			if err := os.MkdirAll(sub, 0o755); err != nil {
				b.Fatal(err)
			}
			for f := range 100 {
				if err := os.WriteFile(filepath.Join(sub, fmt.Sprintf("f%d.%s", f, []string{"go", "c", "log"}[f%3])), nil, 0o644); err != nil {
					b.Fatal(err)
				}
			}
		}
		if out, err := exec.Command("git", "init", "-q", dir).CombinedOutput(); err != nil {
			b.Skipf("git is needed: %v %s", err, out)
		}
		if err := os.WriteFile(filepath.Join(dir, ".gitignore"), []byte("*.log\nbuild/\n*.o\n/dist\n"), 0o644); err != nil {
			b.Fatal(err)
		}
	}
	cmd := exec.Command(rg, "--files", "-0")
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		b.Fatal(err)
	}
	want := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	slices.Sort(want)
	if got := found(b, walk.Options{Root: dir, Types: walk.Files}); !slices.Equal(got, want) {
		b.Fatalf("%d files, rg finds %d", len(got), len(want))
	}
	var ratios []float64
	b.ReportAllocs()
	for b.Loop() {
		t0 := time.Now()
		cmd := exec.Command(rg, "--files")
		cmd.Dir = dir
		if err := cmd.Run(); err != nil {
			b.Fatal(err)
		}
		t1 := time.Now()
		if _, err := walk.Walk(newContext(), walk.Here, walk.Options{Root: dir, Types: walk.Files}); err != nil {
			b.Fatal(err)
		}
		ratios = append(ratios, float64(time.Since(t1))/float64(t1.Sub(t0)))
	}
	slices.Sort(ratios)
	b.ReportMetric(ratios[len(ratios)/2], "x-rg")
}
