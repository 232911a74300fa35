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
	testMetadata(t, func(*Server) {})
}

// The same without what Linux 5.6 brought, or what a container's profile
// forbids.
func TestMetadata_OnAnOldKernel(t *testing.T) {
	testMetadata(t, beOld)
}

func beOld(s *Server) {
	s.noOpenat2.Store(true)
	s.noVM.Store(true)
	s.noPidfdThread.Store(true)
	s.noGetfd.Store(true)
}

func testMetadata(t *testing.T, adapt func(*Server)) {
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
	adapt(s.server)
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

// The mode of a pipe, which may have been passed in, keeps it from being opened
// in its other direction.
func TestMetadata_PipesKeepTheirModes(t *testing.T) {
	d := newDirs(t)
	s := newSandbox(t, seccomp.Options{}, &judge{writable: []string{""}})
	if got := s.op(d.W, "pipe")[0]; got != "EPERM" {
		t.Errorf("chmod of a pipe: %s", got)
	}
}

// What works and what fails does so as without us, errno for errno.
func TestMetadata_AnswersAreTheKernels(t *testing.T) {
	ops := []string{
		"chmod missing 0600", "chmod f/x 0600", "chmod f/ 0600", "chmod sub/ 0700", "chmod loop 0600", "chmod missing/../f 0600",
		`chmod "" 0600`, "badptr", "longpath", "chmod " + strings.Repeat("n", 300) + " 0600", "chmod sub/. 0711", "chmod .. 0755",
		"chmod /proc/self/status 0600", "chmod /proc/self/fd/99 0600", "chmod /proc/self/nothing 0600", "chmod to-w/ 0600", "chmod dir-w/ 0750",
		"chmod ../../../../../../../../../../../../$/f 0604", "chmod //$//f 0605", "chmod /proc/self/cwd/f 0606", "chmod /proc/thread-self/root/$/f 0607",
		"fchmod 77 0600", "fchmod -1 0600", "fchmod path:f 0600", "fchmodat2 cwd to-w 0600 0x100", "fchmodat2 cwd f 0600 0x100", "fchmodat2 cwd f 0600 0x8000",
		`fchmodat2 cwd "" 0711 0x1000`, `fchmodat2 77 "" 0600 0x1000`, "fchmodat 77 f 0600", "fchmodat fd:f g 0600", "fchmodat 77 $/f 0610",
		"chown missing -1 -1", "fchown 77 -1 -1", "fchown path:f -1 -1", "fchownat cwd f -1 -1 0x8000", `fchownat path:f "" -1 -1 0x1000`, `fchownat path:f "" -1 -1 0`,
		"chown f 12345 12345", "lchown to-w 12345 -1", "lchown loop -1 -1", "chown loop -1 -1",
		"utimensat cwd missing 0", "utimensat cwd f 0x8000", "utimensat cwd loop 0x100", "utimensat cwd loop 0", "futimens 77", "futimens path:f", "utimens-now missing", `utimensat cwd "" 0`,
		"setxattr missing user.a v", "setxattr f bad v", "setxattr f trusted.a v", "setxattr f security.capability v", "setxattr f " + "user." + strings.Repeat("n", 250) + " v",
		"setxattr f user." + strings.Repeat("n", 251) + " v", "bigxattr f user.b 65537 0", "bigxattr f user.b 65536 7", "bigxattr f user.b 1000 2", "bigxattr f user.b 1000 1", "bigxattr f user.b 1000 1", "bigxattr f user.b 0 2",
		"removexattr f user.b", "removexattr f user.b", "fremovexattr fd:f user.none", "fremovexattr 77 user.a", "fsetxattr path:f user.a v", "lsetxattr to-w user.a v",
		"setxattrat cwd missing user.a 0", "setxattrat cwd f user.a 0x8000", `setxattrat 77 "" user.a 0x1000`,
		"setflags fd:/dev/null 0", "setflags 77 0", "setflags path:f 0", "file_setattr cwd missing 0", "file_setattr cwd f 0x8000", `file_setattr cwd "" 0`,
		"truncate missing 0", "truncate sub 0", "truncate f -1", "truncate f 100", "truncate /dev/null 0",
		"memfd", "deleted d1 d2",
	}
	run := func(t *testing.T, adapt func(*Server)) {
		d, bare := newDirs(t), newDirs(t)
		s := newSandbox(t, seccomp.Options{Truncate: true}, &judge{writable: []string{""}})
		adapt(s.server)
		for i, op := range ops {
			got := s.op(d.W, strings.ReplaceAll(op, "$", d.W))[0]
			want := bareOp(t, bare.W, strings.ReplaceAll(op, "$", bare.W))
			if got != want {
				t.Errorf("%d %.60s: %s, bare: %s", i, op, got, want)
			}
		}
		norm := func(s string) string { return s[:strings.Index(s, "mtime")] + s[strings.Index(s, "xattrs"):] }
		for _, f := range []string{"f", "sub", "to-w", "d2"} {
			if got, want := norm(state(t, d.W+"/"+f)), norm(state(t, bare.W+"/"+f)); got != want {
				t.Errorf("%s: %s\nbare: %s", f, got, want)
			}
		}
	}
	t.Run("now", func(t *testing.T) { run(t, func(*Server) {}) })
	t.Run("old kernel", func(t *testing.T) { run(t, beOld) })
}
