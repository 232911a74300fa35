package grep

import (
	"context"
	"flag"
	"fmt"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dshx/dshx/tools/fs/internal/walk"
)

var benchTree = flag.String("bench-tree", "", "search this directory instead of a generated one of 50,000 files")

// benchDir returns a tree of 50,000 source-like files in a git repository,
// some 200 MiB, a quarter of them ignored.
func benchDir(b *testing.B) string {
	b.Helper()
	if *benchTree != "" {
		return *benchTree
	}
	dir := b.TempDir()
	r := rand.New(rand.NewSource(1))
	words := strings.Fields("the of and to in is for that it with func string error import package struct const nil range append int byte slice return when there can use number other people water first")
	ends := []string{"go", "c", "ts", "log"}
	for d := range 500 {
		sub := filepath.Join(dir, fmt.Sprintf("d%d/s%d/x%d", d%10, d%50, d))
		if err := os.MkdirAll(sub, 0o755); err != nil {
			b.Fatal(err)
		}
		for f := range 100 {
			var text strings.Builder
			for text.Len() < 800+r.Intn(7000) {
				for range 3 + r.Intn(11) {
					text.WriteString(words[r.Intn(len(words))])
					text.WriteByte(' ')
				}
				if r.Intn(500) == 0 {
					fmt.Fprintf(&text, "x%d-ab%d", r.Intn(999), r.Intn(99))
				}
				text.WriteByte('\n')
			}
			if r.Intn(250) == 0 {
				text.WriteString("a rare Needle_in_haystack here\n")
			}
			path := filepath.Join(sub, fmt.Sprintf("f%d.%s", f, ends[r.Intn(len(ends))]))
			if err := os.WriteFile(path, []byte(text.String()), 0o644); err != nil {
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
	return dir
}

// BenchmarkAgainstRipgrep runs rg and Search in turn, after both have found the
// same, and reports the median of the pairs' ratios: below 1 Search is faster. rg
// is a process, which costs it a start of some milliseconds; Search is in one.
func BenchmarkAgainstRipgrep(b *testing.B) {
	rg, err := exec.LookPath("rg")
	if err != nil {
		b.Skip("rg is not installed: there is nothing to compare with")
	}
	dir := benchDir(b)
	for _, bc := range []struct {
		name string
		p    Pattern
		args []string
	}{
		{"rare-literal", Pattern{Text: "Needle_in_haystack"}, nil},
		{"rare-literal-ignore-case", Pattern{Text: "needle_in_HAYSTACK", IgnoreCase: true}, []string{"-i"}},
		{"literal-prefix", Pattern{Text: `Needle_\w+`}, nil},
		{"inner-literal", Pattern{Text: `\w+_in_\w+`}, nil},
		{"alternatives", Pattern{Text: `Needle_in|Haystack_in|zzyzx`}, nil},
		{"word", Pattern{Text: "Needle_in_haystack", Word: true}, []string{"-w"}},
		{"one-rare-byte", Pattern{Text: `[a-z]\d{3}-[a-z]{2}\d`}, nil},
		{"no-literal", Pattern{Text: `[0-9]{3}[^a-z ]`}, nil},
		{"common-literal", Pattern{Text: "water"}, nil},
	} {
		b.Run(bc.name, func(b *testing.B) {
			m := compile(b, bc.p)
			cmd := exec.Command(rg, append(slices.Clone(bc.args), "-n", "--no-heading", "-e", bc.p.Text)...)
			cmd.Dir = dir
			out, err := cmd.Output()
			if err != nil {
				b.Fatal(err)
			}
			r, err := Search(context.Background(), walk.Here, m, Options{Walk: walk.Options{Root: dir}, Limit: -1})
			if err != nil {
				b.Fatal(err)
			}
			var got []string
			for _, f := range r.Files {
				for _, match := range f.Matches {
					got = append(got, fmt.Sprintf("%s:%d:", f.Path, match.Line))
				}
			}
			var want []string
			for line := range strings.Lines(string(out)) {
				path, rest, _ := strings.Cut(line, ":")
				number, _, _ := strings.Cut(rest, ":")
				want = append(want, path+":"+number+":")
			}
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				b.Fatalf("%d matches, rg finds %d", len(got), len(want))
			}
			var ratios []float64
			for b.Loop() {
				t0 := time.Now()
				cmd := exec.Command(rg, append(slices.Clone(bc.args), "-n", "--no-heading", "-e", bc.p.Text, ".")...)
				cmd.Dir = dir
				if err := cmd.Run(); err != nil {
					b.Fatal(err)
				}
				t1 := time.Now()
				if _, err := Search(context.Background(), walk.Here, m, Options{Walk: walk.Options{Root: dir}, Limit: 250}); err != nil {
					b.Fatal(err)
				}
				ratios = append(ratios, float64(time.Since(t1))/float64(t1.Sub(t0)))
			}
			slices.Sort(ratios)
			b.ReportMetric(ratios[len(ratios)/2], "x-rg")
		})
	}
}

// BenchmarkSearch is for profiles.
func BenchmarkSearch(b *testing.B) {
	dir := benchDir(b)
	for _, text := range []string{"Needle_in_haystack", `[a-z]\d{3}-[a-z]{2}\d`} {
		b.Run(text, func(b *testing.B) {
			m := compile(b, Pattern{Text: text})
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Search(context.Background(), walk.Here, m, Options{Walk: walk.Options{Root: dir}, Limit: 250}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
