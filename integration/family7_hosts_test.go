package integration

import (
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Hosts that lack something (family 7), by a filter around dshx.

func filtered(calls string) []string { return []string{probeBin, "filtered", calls} }

// F7-12: without enough to enforce with nothing runs, and one plain sentence
// says what is missing. Older Landlocks: TestOldHost_RunsAndEnds, and package
// sandbox: TestHosts_HoldTheirPromises.
func TestF7_12_WithoutEnforcementNothingRuns(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		script := `touch ran; touch "$0"`
		out := filepath.Join(e.O, "ran")
		for calls, says := range map[string]string{
			"landlock=ENOSYS": "Landlock", "landlock=EOPNOTSUPP": "Landlock", "landlock=EPERM": "andlock", "filter=EINVAL": "seccomp", "filter=EPERM": "seccomp",
		} {
			for _, preset := range []string{"workspace-write", "read-only"} {
				r := e.Run(Opts{Prefix: filtered(calls), Preset: preset, Flags: []string{"--no-config"}}, "sh", "-c", script, out)
				if r.Exit != 125 || Exists(filepath.Join(e.W, "ran")) || Exists(out) {
					t.Errorf("%s under %s: %s", preset, calls, r)
				}
				f3OneLine(t, r.Stderr)
				if !strings.Contains(r.Stderr, says) {
					t.Errorf("%s under %s says %q, nothing of %s", preset, calls, r.Stderr, says)
				}
			}
		}
		// danger-full-access runs on all: it needs nothing of it.
		r := e.Run(Opts{Prefix: filtered("landlock=ENOSYS,filter=EPERM"), Preset: "danger-full-access", Flags: []string{"--no-config"}}, "sh", "-c", `touch "$0"`, out)
		if r.Exit != 0 || !Exists(out) {
			t.Errorf("danger-full-access: %s", r)
		}
	})
}

// F7-14: under a container's profile dshx starts and holds what it promises,
// with a named gap where it can't, or refuses with the call's name; nothing
// waits for a supervisor that isn't there.
func TestF7_14_ContainersProfiles(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		out, file := filepath.Join(e.O, "out"), e.Write(filepath.Join(e.O, "file"), "x", 0o644)
		profiles := []string{"killable=EINVAL", "pidfd_getfd=EPERM", "process_vm_readv=EPERM", "clone3=ENOSYS", "ptrace=EPERM"}
		profiles = append(profiles, strings.Join(profiles, ","))
		for _, calls := range profiles {
			began := time.Now()
			unchanged := Unchanged(t, e.O)
			r := e.Run(Opts{Prefix: filtered(calls), Flags: []string{"--no-config"}, Timeout: 30 * time.Second}, "sh", "-c",
				`echo x >in && chmod 600 in && echo works; echo x >"$0"; chmod 777 "$1"; exit 3`, out, file)
			switch {
			case r.Exit == 125:
				f3OneLine(t, r.Stderr)
				name, _, _ := strings.Cut(calls, "=")
				if strings.Contains(r.Stdout, "works") || !strings.Contains(r.Stderr, name) {
					t.Errorf("%s: %s", calls, r)
				}
			case r.Exit != 3 || !strings.Contains(r.Stdout, "works"):
				t.Errorf("%s: %s", calls, r)
			}
			unchanged()
			if took := time.Since(began); took > 20*time.Second {
				t.Errorf("%s: took %v", calls, took)
			}
			// A server of many threads, too.
			c := e.lines(Opts{Prefix: filtered(calls)})
			c.bash(1, "echo x >in && chmod 600 in && echo works; chmod 777 "+file)
			if r := c.result(); !*r.OK || !strings.HasPrefix(r.field(t, "stdout"), "works") {
				t.Errorf("%s: lines: %+v %s", calls, r.Error, r.Value)
			}
			c.call(2, "write", map[string]any{"file_path": "w-" + itoa(len(calls)), "content": "x"})
			if r := c.result(); !*r.OK {
				t.Errorf("%s: write: %+v", calls, r.Error)
			}
			c.end()
			unchanged()
		}
		// The control: outside it can be done.
		e.Outside("chmod", "600", file).OK(t)
	})
}
