package supervise

import (
	"os"
	"strings"
	"testing"

	"github.com/dshx/dshx/sandbox/internal/seccomp"
)

// Each operation is done once on W, where it must work, and once on O, where
// it must fail with EACCES and change nothing.
func TestMetadata_OnlyWhatMayBeWritten(t *testing.T) {
	uid, gid := "-1", "-1"
	ops := []struct{ name, op string }{
		{"chmod by path", "chmod $/f 0600"},
		{"chmod by a relative path", "chmod $rel/f 0600"},
		{"chmod through a symbolic link", "chmod $link 0600"},
		{"chmod through a directory link", "chmod $dir/f 0600"},
		{"chmod through /proc/self/fd", "chmod @self/$/f 0600"},
		{"chmod through /proc/self/root", "chmod /proc/self/root$/f 0600"},
		{"chmod through /proc/thread-self/cwd", "chmod /proc/thread-self/cwd/$rel/f 0600"},
		{"chmod with dots", "chmod $/sub/../sub/.././f 0600"},
		{"fchmod on a descriptor open for reading", "fchmod fd:$/f 0600"},
		{"fchmod on a descriptor open for writing", "fchmod rw:$/f 0600"},
		{"fchmodat beside a directory", "fchmodat fd:$/sub ../f 0600"},
		{"fchmodat2 with an empty path", `fchmodat2 path:$/f "" 0600 0x1000`},
		{"chown by path", "chown $/f " + uid + " " + gid},
		{"lchown of a file", "lchown $/f " + uid + " " + gid},
		{"lchown of a link", "lchown $/to-self " + uid + " " + gid},
		{"fchown", "fchown fd:$/f " + uid + " " + gid},
		{"fchownat with an empty path", `fchownat path:$/f "" -1 -1 0x1000`},
		{"utimensat by path", "utimensat cwd $/f 0"},
		{"utimensat on a link itself", "utimensat cwd $/to-self 0x100"},
		{"utimensat with no times", "utimens-now $/f"},
		{"futimens on a descriptor open for reading", "futimens fd:$/f"},
		{"utimes", "utimes $/f"},
		{"setxattr", "setxattr $/f user.a v"},
		{"setxattr through a link", "setxattr $link user.a v"},
		{"lsetxattr", "lsetxattr $/f user.a v"},
		{"fsetxattr", "fsetxattr fd:$/f user.a v"},
		{"setxattrat", "setxattrat cwd $/f user.a 0"},
		{"setxattrat with an empty path", `setxattrat fd:$/f "" user.a 0x1000`},
		{"the flags by ioctl", "setflags fd:$/f 0x40"},
		{"file_setattr", "file_setattr cwd $/f 0"},
		{"file_setattr with an empty path", `file_setattr fd:$/f "" 0x1000`},
		{"truncate", "truncate $/f 3"},
	}
	d := newDirs(t)
	must(t, os.Symlink("f", d.W+"/to-self"))
	must(t, os.Symlink("f", d.O+"/to-self"))
	s := newSandbox(t, seccomp.Options{Truncate: true}, &judge{writable: []string{d.W}})
	for _, op := range ops {
		t.Run(op.name, func(t *testing.T) {
			expand := func(dir string) string {
				link, linkDir, rel := d.W+"/to-w", d.O+"/dir-w", "."
				if dir == d.O {
					link, linkDir, rel = d.W+"/to-o-rel", d.W+"/dir-o", "../o"
				}
				return strings.NewReplacer("$link", link, "$dir", linkDir, "$rel", rel, "$", dir).Replace(op.op)
			}
			before := state(t, d.O+"/f") + state(t, d.O+"/to-self")
			n := len(s.denials())
			if got := s.op(d.W, expand(d.O))[0]; got != "EACCES" {
				t.Errorf("%s: %s, not EACCES", expand(d.O), got)
			}
			if after := state(t, d.O+"/f") + state(t, d.O+"/to-self"); after != before {
				t.Errorf("%s changed the file:\n%s\n%s", expand(d.O), before, after)
			}
			if got := s.denials(); len(got) != n+1 {
				t.Errorf("%d denials, not 1", len(got)-n)
			} else if r := got[n].Resolved; !strings.HasPrefix(r, d.O) {
				t.Errorf("denied %q, not a path in %s", r, d.O)
			}
			if got := s.op(d.W, expand(d.W))[0]; got != "ok" && got != "ENOSYS" {
				t.Errorf("%s: %s, not ok", expand(d.W), got)
			}
		})
	}
}
