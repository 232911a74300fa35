package sandbox

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/dshx/dshx/sandboxpolicy"
)

// homeless is this machine with an account that has no home.
type homeless struct{ sandboxpolicy.OSFacts }

func (homeless) AccountHome(int) string { return "" }

func TestMakeCacheArea(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	ws := filepath.Join(dir, "w")
	if err := os.Mkdir(ws, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name    string
		environ []string
		made    bool
	}{
		{"no home, a cache directory", []string{"XDG_CACHE_HOME=" + dir + "/c1"}, true},
		{"a home that isn't there", []string{"HOME=" + dir + "/none"}, false},
		{"a home that isn't there, a cache directory elsewhere", []string{"HOME=" + dir + "/none", "XDG_CACHE_HOME=" + dir + "/c2"}, true},
	} {
		p, _, err := sandboxpolicy.Resolve(sandboxpolicy.Request{Workspace: ws, Cwd: ws, NoConfig: true, Environ: tt.environ}, homeless{})
		if err != nil {
			t.Fatal(err)
		}
		made := makeCacheArea(p)
		if _, err := os.Stat(p.CacheDir()); made != tt.made || made != (err == nil) {
			t.Errorf("%s: made %v, %v", tt.name, made, err)
		}
	}
	if _, err := os.Stat(dir + "/none"); err == nil {
		t.Error("a home was made")
	}
}
