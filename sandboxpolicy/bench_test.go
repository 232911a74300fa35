package sandboxpolicy

import (
	"os"
	"testing"
)

func BenchmarkResolve(b *testing.B) {
	req := Request{Environ: os.Environ(), TmpDir: "/var/tmp/dshx-0/bench", NoConfig: true}
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := Resolve(req, OSFacts{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkVerdict(b *testing.B) {
	p, _ := resolve(b, newFake(nil), Request{DenyRead: []string{"**/.env"}})
	for _, path := range []string{"/home/u/w/a/b/c/d.go", "/usr/lib/x86_64-linux-gnu/libc.so.6"} {
		b.Run(baseOf(path), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				p.Verdict(OpWrite, path)
			}
		})
	}
}
