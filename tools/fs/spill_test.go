package fs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dshx/dshx/pipeline"
)

// kept are spills in a directory that the policy denies to everybody.
type kept struct{ dir string }

func (k kept) Dir(*pipeline.Call) (string, error) { return os.MkdirTemp(k.dir, "") }
func (k kept) Holds(_ *pipeline.Call, path string) bool {
	return within(path, k.dir) && path != k.dir
}

func TestSpills_OutsideOfTheDomain(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	ws, spills := filepath.Join(dir, "ws"), filepath.Join(dir, "spills")
	for i := range 50 {
		put(t, filepath.Join(ws, fmt.Sprintf("f%02d", i)), "needle\n")
	}
	if err := os.Mkdir(spills, 0o700); err != nil {
		t.Fatal(err)
	}
	r := rigIn(t, ws, nil, Options{Spills: kept{spills}})
	for _, g := range []got{r.call("grep", "pattern", "needle", "limit", 5), r.call("glob", "pattern", "*", "limit", 5)} {
		path := g.ok().at("spill.path").(string)
		if !strings.HasPrefix(path, spills+"/") {
			t.Errorf("the spill is %s", path)
		}
		r.read(path).ok().is("totalLines", 50)
		r.call("grep", "pattern", "f49", "path", path).ok().is("totalMatches", 1)
		r.edit(path, "f49", "x").code("SANDBOX_DENIED")
		r.call("write", "file_path", path, "content", "x").code("SANDBOX_DENIED")
	}
	if out, err := r.box.Command("sh", "-c", "echo x > "+spills+"/x").Output(); err == nil {
		t.Errorf("a command can write to the spills: %s", out)
	}
}

// A search goes on whatever becomes of the file with its results.
func TestSpills_NoPlace(t *testing.T) {
	ws := t.TempDir()
	for i := range 20 {
		put(t, filepath.Join(ws, fmt.Sprintf("f%02d", i)), "needle\n")
	}
	r := rigIn(t, ws, nil, Options{Spills: kept{filepath.Join(ws, "none")}})
	r.call("grep", "pattern", "needle", "limit", 5).ok().is("spill", nil).is("truncated", true).is("totalMatches", 20)
	r.call("glob", "pattern", "*", "limit", 5).ok().is("spill", nil).is("truncated", true)
}
