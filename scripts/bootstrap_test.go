// Package scripts holds the shell scripts behind the Makefile; its Go files only test them.
package scripts

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A machine is a PATH with nothing in it but what the test puts there.
type machine struct {
	t     *testing.T
	bin   string // the whole PATH
	calls string // what the fake package managers and sudo were asked, one line each
}

// basics are what the script itself uses; every Unix has them.
var basics = []string{"sh", "cat", "cut", "dirname", "grep", "mktemp", "rm", "sed", "tail", "tr", "chmod"}

func newMachine(t *testing.T, uid int) *machine {
	t.Helper()
	m := &machine{t: t, bin: t.TempDir()}
	m.calls = filepath.Join(t.TempDir(), "calls")
	for _, name := range basics {
		m.link(name)
	}
	m.script("id", fmt.Sprintf("echo %d", uid))
	m.script("go", "echo go1.99.1")
	return m
}

// link puts the real tool of that name on the machine.
func (m *machine) link(name string) {
	m.t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		m.t.Skipf("this machine has no %s, which the script under test uses", name)
	}
	if err := os.Symlink(path, filepath.Join(m.bin, name)); err != nil {
		m.t.Fatal(err)
	}
}

// script puts a shell script on the machine.
func (m *machine) script(name, body string) {
	m.t.Helper()
	if err := os.WriteFile(filepath.Join(m.bin, name), []byte("#!/bin/sh\n"+body+"\n"), 0o755); err != nil {
		m.t.Fatal(err)
	}
}

// manager puts a package manager on the machine that notes its arguments and installs
// a working stand-in for whatever it is asked for.
func (m *machine) manager(name string) {
	m.script(name, `echo "`+name+` $*" >>"`+m.calls+`"
case " $* " in *" update "*|*" -Sy "*) exit 0;; esac
for p; do case $p in
git) printf '#!/bin/sh\n' >"`+m.bin+`/git"; chmod +x "`+m.bin+`/git";;
make) printf '#!/bin/sh\n' >"`+m.bin+`/make"; chmod +x "`+m.bin+`/make";;
gcc) printf '#!/bin/sh\n' >"`+m.bin+`/cc"; chmod +x "`+m.bin+`/cc";;
esac; done`)
}

// run runs bootstrap.sh on the machine and returns its standard error and whether it succeeded.
func (m *machine) run(args ...string) (string, bool) {
	m.t.Helper()
	cmd := exec.Command(filepath.Join(m.bin, "sh"), append([]string{"bootstrap.sh"}, args...)...)
	cmd.Env = []string{"PATH=" + m.bin, "TMPDIR=" + m.t.TempDir()}
	var errs bytes.Buffer
	cmd.Stderr = &errs
	err := cmd.Run()
	if _, isExit := err.(*exec.ExitError); err != nil && !isExit {
		m.t.Fatal(err)
	}
	return errs.String(), err == nil
}

func (m *machine) called() string {
	b, err := os.ReadFile(m.calls)
	if err != nil && !os.IsNotExist(err) {
		m.t.Fatal(err)
	}
	return string(b)
}

func TestBootstrap_EachManagerInstallsOnlyWhatIsMissing(t *testing.T) {
	for _, tc := range []struct{ manager, want string }{
		{"apt-get", "apt-get update\napt-get install -y --no-install-recommends git gcc libc6-dev\n"},
		{"dnf", "dnf install -y git gcc glibc-devel\n"},
		{"apk", "apk update\napk add git gcc musl-dev\n"},
		{"pacman", "pacman -Sy\npacman -S --needed --noconfirm git gcc glibc\n"},
	} {
		t.Run(tc.manager, func(t *testing.T) {
			m := newMachine(t, 0)
			m.manager(tc.manager)
			m.script("make", "") // there already: not asked for
			out, ok := m.run("demo")
			if !ok {
				t.Fatalf("failed: %s", out)
			}
			// Certificates are the host's and optional: what is asked for them does not matter here.
			var got strings.Builder
			for line := range strings.Lines(m.called()) {
				if !strings.Contains(line, "ca-certificates") {
					got.WriteString(line)
				}
			}
			if got.String() != tc.want {
				t.Errorf("asked the manager:\n%swant:\n%s", got.String(), tc.want)
			}
		})
	}
}

func TestBootstrap_NothingMissingInstallsNothing(t *testing.T) {
	m := newMachine(t, 0)
	m.manager("apt-get")
	for _, tool := range []string{"git", "make", "cc"} {
		m.script(tool, "")
	}
	if out, ok := m.run("demo"); !ok {
		t.Fatalf("failed: %s", out)
	}
	if strings.Contains(m.called(), "git") {
		t.Errorf("installed what was there: %s", m.called())
	}
}

func TestBootstrap_FailuresAreOneSentenceWithTheRemedy(t *testing.T) {
	for _, tc := range []struct {
		name  string
		uid   int
		setUp func(*machine)
		want  []string
	}{
		{"an ordinary user without sudo", 1000, func(m *machine) { m.manager("apt-get") },
			[]string{"missing: git make cc", "not root and there is no sudo", "as root: apt-get install"}},
		{"an ordinary user whose sudo wants a password and no terminal", 1000, func(m *machine) {
			m.manager("dnf")
			m.script("sudo", "exit 1")
		}, []string{"sudo wants a password", "as root: dnf install -y git make gcc glibc-devel"}},
		{"no package manager", 0, func(m *machine) {},
			[]string{"none of apt-get, dnf, apk and pacman", "install them by hand"}},
		{"the manager fails", 0, func(m *machine) { m.script("apk", "echo no space left >&2; exit 1") },
			[]string{"cannot install git make cc", "apk said: no space left"}},
		{"the manager lies", 0, func(m *machine) { m.script("apk", "exit 0") },
			[]string{"git still does not work after installing git"}},
		{"Go is too old", 0, func(m *machine) { m.script("go", "echo go1.4.2") },
			[]string{"Go is too old", "go1.4.2"}},
		{"Go does not run", 0, func(m *machine) { m.script("go", "echo broken; exit 1") },
			[]string{"go does not work here: broken"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := newMachine(t, tc.uid)
			tc.setUp(m)
			out, ok := m.run("demo")
			if ok {
				t.Fatalf("succeeded: %s", out)
			}
			for _, want := range tc.want {
				if !strings.Contains(out, want) {
					t.Errorf("standard error lacks %q:\n%s", want, out)
				}
			}
		})
	}
}

func TestBootstrap_SudoIsUsedByOrdinaryUsersOnly(t *testing.T) {
	for _, tc := range []struct {
		uid  int
		want bool
	}{{0, false}, {1000, true}} {
		m := newMachine(t, tc.uid)
		m.manager("apk")
		m.script("sudo", `echo "sudo $*" >>"`+m.calls+`"
[ "$1" = -n ] && shift
[ "$1" = true ] || exec "$@"`)
		if out, ok := m.run("demo"); !ok {
			t.Fatalf("uid %d: %s", tc.uid, out)
		}
		if got := strings.Contains(m.called(), "sudo"); got != tc.want {
			t.Errorf("uid %d: sudo used: %v, want %v\n%s", tc.uid, got, tc.want, m.called())
		}
	}
}

func TestBootstrap_MissingOptionalToolIsASkipNotAFailure(t *testing.T) {
	m := newMachine(t, 0)
	for _, tool := range []string{"git", "make", "cc", "bash"} {
		m.script(tool, "")
	}
	m.script("unshare", "echo ' --kill-child'")
	out, ok := m.run("test")
	if !ok || !strings.Contains(out, "skip: without") || !strings.Contains(out, "python3") {
		t.Errorf("succeeded: %v\n%s", ok, out)
	}
}
