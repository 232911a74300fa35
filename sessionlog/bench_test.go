package sessionlog

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/dshx/dshx/pipeline"
)

// BenchmarkEncode is a record of a result as a line, with secrets to look for.
func BenchmarkEncode(b *testing.B) {
	for name, text := range map[string]string{"short": "ok", "64KiB": strings.Repeat("a line of some forty characters, or so it is\n", 1456)} {
		b.Run(name, func(b *testing.B) {
			m := newMasker([]string{"a-token-of-an-account", "another-one-of-another"})
			b.ReportAllocs()
			for b.Loop() {
				encode(&Result{Number: 1, ID: "1", Tool: "say", OK: true, raw: []pipeline.Content{pipeline.Text(text)}}, m)
			}
		})
	}
}

// BenchmarkCall is a call of a tool that says something short, and what a log of
// it costs whoever waits for the call.
func BenchmarkCall(b *testing.B) {
	for _, logged := range []bool{false, true} {
		name := map[bool]string{false: "without", true: "logged"}[logged]
		b.Run(name, func(b *testing.B) {
			s := sayScope(b)
			if logged {
				l := openT(b, filepath.Join(realT(b, b.TempDir()), "log"), Options{MaxBytes: 1 << 20, Keep: 1})
				l.Scope("main").Attach(s)
			}
			b.ReportAllocs()
			for b.Loop() {
				if r := say(s, "1", "hello"); !r.OK() {
					b.Fatal(r.Failure())
				}
			}
		})
	}
}
