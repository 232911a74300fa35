package supervise

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dshx/dshx/sandbox/internal/seccomp"
)

func init() {
	// loop OP ROUNDS …: prints the nanoseconds of one round
	helperSocketOps["loop"] = func(a []string) (string, error) {
		rounds, _ := strconv.Atoi(a[1])
		start := time.Now()
		for range rounds {
			if _, err := helperOp(a[2:]); err != nil {
				return "", err
			}
		}
		return " " + strconv.FormatInt(time.Since(start).Nanoseconds()/int64(rounds), 10), nil
	}
}

// BenchmarkCall has the calls of a loop, bare and supervised.
func BenchmarkCall(b *testing.B) {
	for _, c := range []struct{ name, op string }{
		{"chmod", "chmod $/f 0600"},
		{"chmod-relative", "chmod f 0600"},
		{"chmod-link", "chmod to-w 0600"},
		{"fchmod", "fchmod 9 0600"},
		{"utimensat", "utimensat cwd $/f 0"},
		{"setxattr", "setxattr $/f user.a v"},
		{"serve", "serve dgram $/s"},
	} {
		for _, supervised := range []bool{false, true} {
			name := c.name + "/bare"
			if supervised {
				name = c.name + "/supervised"
			}
			b.Run(name, func(b *testing.B) {
				d := newDirs(b)
				op := "loop " + strconv.Itoa(b.N) + " " + strings.ReplaceAll(c.op, "$", d.W)
				if c.name == "serve" {
					op = "loop 1 " + strings.ReplaceAll(c.op, "$", d.W)
				}
				cmd := exec.Command(os.Args[0], op)
				cmd.Env = append(os.Environ(), helperEnv+"=1")
				cmd.Dir = d.W
				for range 6 { // descriptor 9
					f, err := os.Open(d.W + "/f")
					must(b, err)
					defer f.Close()
					cmd.ExtraFiles = append(cmd.ExtraFiles, f)
				}
				cmd.ExtraFiles = append(cmd.ExtraFiles, cmd.ExtraFiles[0])
				var out strings.Builder
				cmd.Stdout = &out
				if supervised {
					s := newSandbox(b, seccomp.Options{}, &judge{writable: []string{d.W}})
					s.start(cmd)
				} else {
					must(b, cmd.Start())
				}
				must(b, cmd.Wait())
				ns, ok := strings.CutPrefix(strings.TrimSpace(out.String()), "ok ")
				if !ok {
					b.Fatal(out.String())
				}
				n, err := strconv.ParseFloat(ns, 64)
				must(b, err)
				b.ReportMetric(n, "ns/op")
			})
		}
	}
}

// BenchmarkTar extracts 20,000 files.
func BenchmarkTar(b *testing.B) {
	d := newDirs(b)
	for i := range 200 {
		dir := d.O + "/many/" + strconv.Itoa(i)
		must(b, os.MkdirAll(dir, 0o755))
		for j := range 100 {
			must(b, os.WriteFile(dir+"/"+strconv.Itoa(j), []byte("some content\n"), 0o640))
		}
	}
	if out, err := exec.Command("tar", "cf", d.O+"/many.tar", "-C", d.O, "many").CombinedOutput(); err != nil {
		b.Fatal(err, string(out))
	}
	for _, supervised := range []bool{false, true} {
		name := "bare"
		if supervised {
			name = "supervised"
		}
		b.Run(name, func(b *testing.B) {
			var s *sandbox
			if supervised {
				s = newSandbox(b, seccomp.Options{}, &judge{writable: []string{d.W}})
			}
			for b.Loop() {
				b.StopTimer()
				must(b, os.RemoveAll(d.W+"/many"))
				b.StartTimer()
				cmd := exec.Command("tar", "xpf", d.O+"/many.tar", "-C", d.W)
				if supervised {
					s.start(cmd)
				} else {
					must(b, cmd.Start())
				}
				must(b, cmd.Wait())
			}
		})
	}
}
