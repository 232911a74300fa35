package seccomp

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// unixNumbers reads an architecture's SYS_ constants from the source of
// golang.org/x/sys/unix, so that both are checked wherever the test runs.
func unixNumbers(t *testing.T, a *arch) map[string]int16 {
	t.Helper()
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "golang.org/x/sys").Output()
	if err != nil {
		t.Skipf("no Go command to find golang.org/x/sys with: %v", err)
	}
	f, err := os.Open(filepath.Join(strings.TrimSpace(string(dir)), "unix", "zsysnum_linux_"+a.name+".go"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	line := regexp.MustCompile(`^\s*SYS_(\w+)\s*=\s*(\d+)`)
	numbers := map[string]int16{}
	for s := bufio.NewScanner(f); s.Scan(); {
		if m := line.FindStringSubmatch(s.Text()); m != nil {
			n, err := strconv.ParseInt(m[2], 10, 16)
			if err != nil {
				t.Fatal(err)
			}
			numbers[strings.ToLower(m[1])] = int16(n)
		}
	}
	// A marker of the generic table, not a call.
	delete(numbers, "arch_specific_syscall")
	return numbers
}

func TestTable_HasEverySystemCall(t *testing.T) {
	for _, a := range []*arch{amd64, arm64} {
		want := unixNumbers(t, a)
		if len(want) < 300 {
			t.Fatalf("%s: only %d numbers found", a.name, len(want))
		}
		got := map[string]int16{}
		for i := range table {
			for _, c := range table[i].calls {
				if n := a.nr(c); n != none {
					if _, twice := got[c.name]; twice {
						t.Errorf("%s: %s is in the table twice", a.name, c.name)
					}
					got[c.name] = n
				}
			}
		}
		for name, n := range want {
			if got[name] != n {
				t.Errorf("%s: %s is %d in the table, %d in Linux", a.name, name, got[name], n)
			}
		}
		for name := range got {
			if _, ok := want[name]; !ok {
				t.Errorf("%s: %s doesn't exist", a.name, name)
			}
		}
	}
}

func TestTable_EveryFamilyIsComplete(t *testing.T) {
	for i := range table {
		f := &table[i]
		name := f.calls[0].name
		if f.why == "" {
			t.Errorf("%s: no reason", name)
		}
		if (f.args != nil) != (f.class == Conditional) {
			t.Errorf("%s: a rule on arguments and class %s", name, f.class)
		}
		if (f.errno == 0) != (f.class == Allow) {
			t.Errorf("%s: class %s with errno %d", name, f.class, int(f.errno))
		}
		if f.class == Unknown {
			t.Errorf("%s: class unknown", name)
		}
	}
}

func TestExplain(t *testing.T) {
	for _, c := range []struct {
		nr    int32
		name  string
		class Class
		errno unix.Errno
	}{
		{unix.SYS_READ, "read", Allow, 0},
		{unix.SYS_MOUNT, "mount", Refuse, unix.EPERM},
		{unix.SYS_SOCKET, "socket", Conditional, unix.EACCES},
		{unix.SYS_FCHMODAT2, "fchmodat2", Supervise, unix.EPERM},
		{unix.SYS_IO_URING_SETUP, "io_uring_setup", Deny, unix.ENOSYS},
		{9999, "", Unknown, unix.ENOSYS},
		{-1, "", Unknown, unix.ENOSYS},
	} {
		got := Explain(c.nr)
		if got.Name != c.name || got.Class != c.class || got.Errno != c.errno || got.Why == "" {
			t.Errorf("Explain(%d) = %+v", c.nr, got)
		}
	}
}
