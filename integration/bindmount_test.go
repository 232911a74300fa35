package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A secret that a bind mount shows at a second place can be read at neither:
// Landlock grants files, not paths, so the second place would open the first.
func TestSecrets_ShownTwiceByABindMount(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		needDshx(t)
		e.Write(filepath.Join(e.H, ".ssh/id"), "the key", 0o600)
		e.Write(filepath.Join(e.H, "plain"), "plain text")
		alias := e.Mkdir(filepath.Join(e.O, "alias"))
		keys := e.Mkdir(filepath.Join(e.O, "keys"))
		// In a user namespace the places of uid 0 belong to the machine's root.
		own := "TMPDIR=" + e.Mkdir(filepath.Join(e.O, "tmp"))
		inside := func(script string, argv ...string) string {
			t.Helper()
			ns := []string{"--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "--mount-proc", "--", "sh", "-c",
				`mount --bind "$1" "$2" && mount --bind "$1/.ssh" "$3" && shift 3 && exec "$@"`, "sh", e.H, alias, keys}
			if isRoot {
				ns = append(ns, "setpriv", "--reuid", itoa(e.UID), "--regid", itoa(e.GID), "--clear-groups")
			} else {
				ns = append([]string{"--user", "--map-root-user"}, ns...)
			}
			argv = append(append(ns, argv...), "sh", "-c", script)
			cmd := exec.Command("unshare", argv...)
			cmd.Dir, cmd.Env = e.W, append(e.environ(nil), own)
			out, err := cmd.CombinedOutput()
			if _, ok := err.(*exec.ExitError); err != nil && !ok {
				t.Fatal(err)
			}
			return string(out)
		}
		if out := inside("true"); strings.Contains(out, "unshare:") || strings.Contains(out, "mount:") {
			skip(t, "no mount namespace: %s", strings.TrimSpace(out))
		}
		files := []string{filepath.Join(e.H, ".ssh/id"), filepath.Join(alias, ".ssh/id"), filepath.Join(keys, "id")}
		for _, f := range files {
			if out := inside("cat " + f); !strings.Contains(out, "the key") {
				t.Errorf("control: %s: %s", f, out)
			}
			for _, preset := range []string{"workspace-write", "read-only"} {
				out := inside("cat "+f, dshxBin, "exec", "--preset", preset, "--")
				if strings.Contains(out, "the key") || !strings.Contains(out, "Permission denied") {
					t.Errorf("%s: %s: %s", preset, f, out)
				}
			}
			if out := inside(dshxBin + " policy explain read " + f); !strings.HasPrefix(out, "deny") {
				t.Errorf("explain: %s: %s", f, out)
			}
		}
		for _, f := range []string{filepath.Join(e.H, "plain"), filepath.Join(alias, "plain")} {
			if out := inside("cat "+f, dshxBin, "exec", "--"); !strings.Contains(out, "plain text") {
				t.Errorf("%s: %s", f, out)
			}
		}
		if _, err := os.ReadDir(alias); err != nil {
			t.Error(err)
		}
	})
}

// Of a secret file with further names beside what is granted, none opens it.
func TestSecrets_HardLinked(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		secret := e.Write(filepath.Join(e.H, ".netrc"), "the key", 0o600)
		beside := filepath.Join(e.H, "other-name")
		if err := os.Link(secret, beside); err != nil {
			t.Fatal(err)
		}
		for _, f := range []string{secret, beside} {
			if r := e.Outside("cat", f); r.Exit != 0 {
				t.Errorf("control: %s", r)
			}
			for _, flags := range [][]string{nil, {"--read", beside}, {"--write", e.H}} {
				if r := e.Run(Opts{Flags: flags}, "cat", f); r.Exit == 0 || strings.Contains(r.Stdout, "the key") {
					t.Errorf("%v: %s", flags, r)
				}
			}
		}
	})
}
