package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// absent are the errnos by which a kernel or a file system says that it has no
// such thing: an attempt that fails so outside can't be a denial inside.
var absent = []string{"ENOSYS", "EOPNOTSUPP", "ENOTSUP", "ENOTTY", "EAFNOSUPPORT", "EPROTONOSUPPORT", "ESOCKTNOSUPPORT", "ENODEV", "EPROTOTYPE"}

// assertWorksOutside is the control of a list of attempts: outside of the
// sandbox each one succeeds, so that a refusal inside is the sandbox's. It
// returns the attempts that this host does not have, with their errno, after
// saying so.
func assertWorksOutside(t *testing.T, a *Attempts, names []string) (missing map[string]string) {
	t.Helper()
	missing = map[string]string{}
	for _, name := range names {
		one := a.Get(name)
		switch {
		case one.Result == "ok":
		case slices.Contains(absent, one.Result):
			missing[name] = one.Result
			fmt.Printf("NOTE %s: this host has no %q (%s), its denial proves nothing\n", t.Name(), name, one.Result)
		default:
			t.Errorf("control: outside %s: %s %s, want ok", name, one.Result, one.Detail)
		}
	}
	return missing
}

// assertDeniedHere is assertDenied, where an attempt that this host doesn't
// have may fail in the host's way, too.
func assertDeniedHere(t *testing.T, a *Attempts, names []string, missing map[string]string, more ...string) {
	t.Helper()
	for _, name := range names {
		if m := missing[name]; m != "" {
			assertDenied(t, a, []string{name}, append(slices.Clone(more), m)...)
		} else {
			assertDenied(t, a, []string{name}, more...)
		}
	}
}

// needPrivateRoot skips what has to change the machine: mounts, well-known
// addresses, accounts. It does so in the tests' own namespaces alone.
func needPrivateRoot(t *testing.T) {
	t.Helper()
	if !isRoot || !isPrivate {
		skip(t, "needs root in private namespaces")
	}
}

// bindOver puts a file with the content in a system file's place for the
// length of the test, in the tests' own mount namespace.
func (e *Env) bindOver(target, content string) {
	e.t.Helper()
	needPrivateRoot(e.t)
	target, err := filepath.EvalSymlinks(target)
	if err != nil {
		e.t.Fatal(err)
	}
	f := filepath.Join(e.Root, "bind-"+filepath.Base(target))
	if err := os.WriteFile(f, []byte(content), 0o644); err != nil {
		e.t.Fatal(err)
	}
	if err := unix.Mount(f, target, "", unix.MS_BIND, ""); err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(func() { unix.Unmount(target, unix.MNT_DETACH) })
}

// tmpfsOver hides a directory below an empty one for the length of the test.
func (e *Env) tmpfsOver(dir string) {
	e.t.Helper()
	needPrivateRoot(e.t)
	if err := unix.Mount("none", dir, "tmpfs", 0, "mode=755"); err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
}

// assertRan fails unless the command ran to its end under dshx.
func assertRan(t *testing.T, r *Result) {
	t.Helper()
	if dshxBin != "" && r.JSON == nil && r.Event("exited") == nil {
		t.Errorf("the command did not run: %s", r)
	}
}

// assertNotRun fails unless dshx refused to run the command: exit 125 and an
// error event or object.
func assertNotRun(t *testing.T, r *Result) {
	t.Helper()
	if r.Exit != 125 {
		t.Errorf("want exit 125: %s", r)
	}
	switch {
	case r.JSON != nil && r.JSON.Error != nil:
	case r.Event("error") != nil && r.Event("error").Error != nil && r.Event("started") == nil:
	default:
		t.Errorf("want an error and no start: %s", r)
	}
}
