package fs

import (
	"fmt"
	"strings"
	"testing"
)

func BenchmarkRead(b *testing.B) {
	for _, size := range []int{2_000, 1_000_000, 50_000_000} {
		b.Run(fmt.Sprintf("%dkB", size/1000), func(b *testing.B) {
			r := newRig(b, map[string]string{"f": strings.Repeat("a line of some forty characters, or so it is\n", size/45)}, nil)
			b.SetBytes(int64(size))
			for b.Loop() {
				r.read("f").ok()
			}
		})
	}
}

func BenchmarkEdit(b *testing.B) {
	for _, size := range []int{2_000, 1_000_000} {
		b.Run(fmt.Sprintf("%dkB", size/1000), func(b *testing.B) {
			r := newRig(b, map[string]string{"f": "n = 0\n" + strings.Repeat("a line of some forty characters, or so it is\n", size/45)}, nil)
			r.read("f").ok()
			n := 0
			for b.Loop() {
				r.edit("f", fmt.Sprintf("n = %d\n", n), fmt.Sprintf("n = %d\n", n+1)).ok()
				n++
			}
		})
	}
}

// tree is 2,000 files of 10 kB in 100 directories.
func tree(b *testing.B) *rig {
	files := map[string]string{".gitignore": "*.o\n"}
	text := strings.Repeat("a line of some forty characters, or so it is\n", 220)
	for i := range 2000 {
		files[fmt.Sprintf("d%02d/f%04d.go", i%100, i)] = text
	}
	files["d50/f0050.go"] += "the needle\n"
	return newRig(b, files, nil)
}

func BenchmarkGrep(b *testing.B) {
	r := tree(b)
	for name, pattern := range map[string]string{"literal": "needle", "regexp": `n\w+dle$`} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				r.call("grep", "pattern", pattern).ok().is("totalMatches", 1)
			}
		})
	}
}

func BenchmarkGlob(b *testing.B) {
	r := tree(b)
	for b.Loop() {
		r.call("glob", "pattern", "**/*.go").ok().is("total", 2000)
	}
}

func BenchmarkList(b *testing.B) {
	r := tree(b)
	for b.Loop() {
		r.call("list", "depth", 2).ok()
	}
}
