package fs

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/dshx/dshx/sandbox"
	"github.com/dshx/dshx/sandboxpolicy"
)

// lax is a domain whose policy says yes to everything: what is refused in it
// the kernel refuses.
type lax struct {
	Domain
	policy *sandboxpolicy.Policy
}

func (l lax) Policy() *sandboxpolicy.Policy { return l.policy }

// All work on files is done on threads of the domain: with a policy that allows
// everything the kernel still says no.
func TestKernel_RefusesOnItsOwn(t *testing.T) {
	again(t)
	files := map[string]string{"a": "word\n"}
	for i := range 20 {
		files[fmt.Sprintf("secret%d/f", i)] = "word\n"
	}
	r := newRig(t, files, func(q *sandboxpolicy.Request) {
		q.Preset = "read-only"
		for i := range 20 {
			q.DenyRead = append(q.DenyRead, filepath.Join(q.Workspace, fmt.Sprintf("secret%d", i)))
		}
	})
	full, _, err := sandbox.Resolve(sandboxpolicy.Request{Preset: "danger-full-access", Workspace: r.ws, Environ: os.Environ(), NoConfig: true})
	if err != nil {
		t.Fatal(err)
	}
	other := *r
	other.scope = r.scope.Child("lax")
	if _, err := Register(other.scope, Options{Domains: fixed{lax{r.box, full}}, Observer: newObserver(t)}); err != nil {
		t.Fatal(err)
	}
	r = &other
	r.read("a").ok()
	r.edit("a", "word", "x").code("FS_PERMISSION_DENIED")
	r.call("write", "file_path", "a", "content", "x").code("FS_PERMISSION_DENIED")
	r.call("write", "file_path", "n/m/new", "content", "x").code("FS_PERMISSION_DENIED")
	r.read("secret3/f").code("FS_PERMISSION_DENIED")
	r.call("grep", "pattern", "word", "path", "secret3/f").code("FS_PERMISSION_DENIED")
	for range 5 {
		r.call("grep", "pattern", "word").ok().is("totalFiles", 1).is("omitted.denied", 20)
	}
	r.has("a", "word\n")
	r.nothingLeft()
	if _, err := os.Stat(filepath.Join(r.ws, "n")); err == nil {
		t.Error("a directory was made")
	}
}
