package deps

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// beforeExec are the packages that are initialised before exec leaves though it
// needs none of them: what other front doors link, is not ours, and comes
// earlier in Go's order (ADR 0008). Each with what brings it.
var beforeExec = map[string]string{
	"compress/flate":  "image/png, of tools/fs/internal/imagefile",
	"hash/crc32":      "image/png, of tools/fs/internal/imagefile",
	"encoding/base32": "github.com/go-json-experiment/json",
	"flag":            "github.com/spf13/pflag",
	"html":            "github.com/sergi/go-diff",
	"image":           "tools/fs/internal/imagefile",
	"image/gif":       "tools/fs/internal/imagefile",
	"image/jpeg":      "tools/fs/internal/imagefile",
	"image/png":       "tools/fs/internal/imagefile",
	"io/ioutil":       "golang.org/x/image/webp",
	"iter":            "github.com/go-json-experiment/json",
	"os/signal":       "internal/doctor, internal/program",

	"github.com/go-json-experiment/json":          "pipeline",
	"github.com/go-json-experiment/json/jsontext": "pipeline",
	"golang.org/x/image/webp":                     "tools/fs/internal/imagefile",
}

// Packages of this module that exec doesn't need make nothing when they are
// initialised, or no more than an error or two.
const maxOwnInit = 128 // bytes

// TestInitialisedBeforeExec holds what exec waits for: the runtime's own account
// of the packages that were initialised when it left.
func TestInitialisedBeforeExec(t *testing.T) {
	program := filepath.Join(t.TempDir(), "dshx")
	build := exec.Command("go", "build", "-trimpath", "-o", program, "../../cmd/dshx")
	build.Env = append(build.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	run := exec.Command(program, "exec", "--help")
	run.Env = append(run.Environ(), "GODEBUG=inittrace=1")
	out, err := run.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	needed := map[string]bool{}
	for _, p := range goList(t, "-deps", "./internal/cli/early") {
		needed[p.ImportPath] = true
	}
	lines := regexp.MustCompile(`(?m)^init (\S+) @\S+ ms, \S+ ms clock, (\d+) bytes`).FindAllStringSubmatch(string(out), -1)
	if !slices.ContainsFunc(lines, func(l []string) bool { return l[1] == "golang.org/x/sys/unix" }) {
		t.Fatalf("no account of what was initialised:\n%s", out)
	}
	for _, l := range lines {
		path := l[1]
		if needed[path] {
			continue
		}
		if strings.HasPrefix(path, module+"/") {
			if n, _ := strconv.Atoi(l[2]); n > maxOwnInit {
				t.Errorf("%s makes %d bytes before exec runs, which needs nothing of it: build it at first use", path, n)
			}
			continue
		}
		if beforeExec[path] == "" {
			t.Errorf("%s is initialised before exec runs, which needs nothing of it: do without, or say here what it is for", path)
		}
	}
}
