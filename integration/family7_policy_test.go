package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Policy, presets and configuration (family 7), against the built program.

// F7-5: deny wins wherever the two stand, for file tools and for commands, and
// no approval lifts it; explain names the rule.
func TestF7_5_DenyWins(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		tree := filepath.Join(e.H, "tree")
		secret, plain := e.Write(filepath.Join(tree, "secret", "key"), "hidden"), e.Write(filepath.Join(tree, "plain"), "shown")
		allow := fmt.Sprintf("[policy]\nread = [%q, %q, %q]\n", tree, filepath.Dir(secret), secret) // one letter more specific, too
		deny := fmt.Sprintf("deny_read = [%q]\n", filepath.Dir(secret))
		for _, tt := range []struct {
			name, user, space, origin string
			flags                     []string
		}{
			{"both of the user's", allow + deny, "", "user-config ", nil},
			{"denied by the workspace", allow, "[policy]\n" + deny, "workspace-config ", nil},
			{"denied by a flag", allow, "", "flag", []string{"--deny-read", filepath.Dir(secret)}},
			{"allowed by a flag", "[policy]\n" + deny, "", "user-config ", []string{"--read", tree, "--read", secret}},
			{"both flags", "", "", "flag", []string{"--read", secret, "--deny-read", filepath.Dir(secret), "--read", tree}},
			{"the workspace's deny, a flag's allow", "", "[policy]\n" + deny, "workspace-config ", []string{"--read", secret}},
		} {
			e := e.With(t)
			user := e.Write(filepath.Join(e.H, "user.toml"), tt.user)
			space := filepath.Join(e.W, ".dshx", "config.toml")
			_ = os.Remove(space)
			if tt.space != "" {
				e.Write(space, tt.space)
			}
			flags := append([]string{"--config", user}, tt.flags...)
			r := e.Run(Opts{Flags: flags}, "cat", plain)
			if r.Exit != 0 || r.Stdout != "shown" {
				t.Errorf("%s: control: %s", tt.name, r)
			}
			if r := e.Run(Opts{Flags: flags}, "cat", secret); r.Exit == 0 || r.Stdout != "" {
				t.Errorf("%s: a command reads it: %s", tt.name, r)
			}
			r = e.Dshx(Opts{}, append([]string{"policy", "explain", "--check"}, append(flags, "read", secret)...)...)
			if r.Exit != 1 || !strings.Contains(r.Stdout, "("+tt.origin) {
				t.Errorf("%s: explain: %s", tt.name, r)
			}
			c := e.lines(Opts{}, flags...)
			c.call(1, "read", map[string]any{"file_path": plain})
			if r := c.result(); !*r.OK {
				t.Errorf("%s: control: %+v", tt.name, r.Error)
			}
			c.call(2, "read", map[string]any{"file_path": secret})
			if r := c.result(); *r.OK || r.Error.Code != "SANDBOX_DENIED" || !strings.Contains(string(r.Error.Details), tt.origin) {
				t.Errorf("%s: read: %+v", tt.name, r)
			}
			// A grant for one call is no more than another allow.
			for id, call := range map[int]struct {
				tool string
				args map[string]any
			}{
				3: {"read", map[string]any{"file_path": secret}},
				4: {"bash", map[string]any{"command": "cat " + secret}},
			} {
				call.args["sandbox_permissions"] = map[string]any{"read": []string{secret}}
				c.call(id, call.tool, call.args)
				r := c.next()
				if r.Event == "approval" {
					c.send(`{"approve":%q,"outcome":"allowed-once"}`, r.Approval)
					r = c.result()
				}
				if r.OK == nil || *r.OK && (call.tool == "read" || r.field(t, "exitCode") == "0") || strings.Contains(string(r.Value), "hidden") {
					t.Errorf("%s: %s with an approved grant: %+v, %s", tt.name, call.tool, r, r.Value)
				}
			}
			c.end()
		}
	})
}

// F7-8: a deny that matches nothing yet holds once the path appears.
func TestF7_8_DenyHoldsForWhatAppears(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		later, other := filepath.Join(e.O, "later", "key"), e.Write(filepath.Join(e.O, "other"), "shown")
		ready := filepath.Join(e.W, "ready")
		go func() {
			for end := time.Now().Add(20 * time.Second); time.Now().Before(end) && !Exists(ready); time.Sleep(5 * time.Millisecond) {
			}
			e.Write(later, "hidden")
			e.Write(filepath.Join(e.W, "go"), "")
		}()
		r := e.Run(Opts{Flags: []string{"--no-config", "--deny-read", filepath.Join(e.O, "later")}}, "sh", "-c",
			`touch ready; while ! [ -e go ]; do sleep 0.01; done; cat "$1"; cat "$0"`, later, other)
		if strings.Contains(r.Stdout, "hidden") || !strings.Contains(r.Stdout, "shown") {
			t.Errorf("%s", r)
		}
		if r := e.Outside("cat", later); r.Stdout != "hidden" {
			t.Errorf("control: %s", r)
		}
	})
}

// F7-10: patterns mean the same for every tool at any time; where the kernel
// can't hold one for commands, that is said.
func TestF7_10_PatternsEverywhere(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		config := e.Write(filepath.Join(e.H, "deny.toml"), "[policy]\ndeny_read = [\"**/.env\", \"*/key\"]\n")
		hidden := []string{".env", "a/b/c/.env", "m/key"}
		for _, name := range hidden {
			e.Write(filepath.Join(e.W, name), "hidden in "+name)
		}
		e.Write(filepath.Join(e.W, "m/open"), "hidden not at all")
		c := e.lines(Opts{}, "--config", config)
		id := 0
		call := func(tool string, args map[string]any) reply {
			id++
			c.call(id, tool, args)
			return c.result()
		}
		gap := func(r reply) bool { return strings.Contains(string(r.Value), `"promise":"secrets"`) }
		check := func(names []string) {
			t.Helper()
			for _, name := range names {
				if r := call("read", map[string]any{"file_path": name}); *r.OK || r.Error.Code != "SANDBOX_DENIED" {
					t.Errorf("read %s: %+v", name, r)
				}
				if r := call("write", map[string]any{"file_path": name, "content": "x"}); *r.OK {
					t.Errorf("write %s: %+v", name, r)
				}
				if r := call("bash", map[string]any{"command": "cat " + name}); r.field(t, "exitCode") == "0" && !gap(r) {
					t.Errorf("cat %s, and no gap is named: %s", name, r.Value)
				}
			}
			r := call("grep", map[string]any{"pattern": "hidden", "hidden": true, "output": "files"})
			for _, name := range names {
				if strings.Contains(string(r.Value), `"`+name+`"`) {
					t.Errorf("grep finds %s: %s", name, r.Value)
				}
			}
			if !strings.Contains(string(r.Value), `"m/open"`) {
				t.Errorf("control: grep finds %s", r.Value)
			}
		}
		check(hidden)
		for _, name := range []string{"n/.env", "new/dir/.env"} {
			e.Write(filepath.Join(e.W, name), "hidden in "+name)
		}
		e.Write(filepath.Join(e.W, "n/x"), "hidden in n/key")
		if err := os.Rename(filepath.Join(e.W, "n/x"), filepath.Join(e.W, "n/key")); err != nil {
			t.Fatal(err)
		}
		check([]string{"n/.env", "new/dir/.env", "n/key"})
		if r := call("write", map[string]any{"file_path": "fresh/.env", "content": "x"}); *r.OK || Exists(filepath.Join(e.W, "fresh/.env")) {
			t.Errorf("a new one can be written: %+v", r)
		}
		c.end()
	})
}

// F7-11: entries that are no directory, or not there, take nothing from the others.
func TestF7_11_OddEntries(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		file := e.Write(filepath.Join(e.H, "entries", "file"), "old")
		beside := e.Write(filepath.Join(e.H, "entries", "beside"), "old")
		closed := e.Mkdir(filepath.Join(e.H, "closed"))
		if err := os.Chmod(closed, 0); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.Chmod(closed, 0o755) })
		fifo := filepath.Join(e.H, "fifo")
		e.Outside("mkfifo", fifo).OK(t)
		var entries []string
		add := func(path string) { entries = append(entries, fmt.Sprintf("%q", path)) }
		for i := range 200 {
			dir := filepath.Join(e.H, "many", fmt.Sprint(i))
			if i%4 != 0 {
				e.Mkdir(dir)
			}
			add(dir)
		}
		for _, p := range []string{filepath.Join(e.H, "missing"), file, "/dev/null", fifo, closed} {
			add(p)
		}
		config := e.Write(filepath.Join(e.H, "odd.toml"), "[policy]\nwrite = ["+strings.Join(entries, ", ")+"]\n")
		out := filepath.Join(e.O, "out")
		r := e.Run(Opts{Flags: []string{"--config", config}}, "sh", "-c",
			`echo w >in; echo f >"$1"; echo b >"$2"; echo m >"$3/1/x"; echo n >"$3/0/x"; echo o >"$0"; echo d >/dev/null`, out, file, beside, filepath.Join(e.H, "many"))
		for path, want := range map[string]string{filepath.Join(e.W, "in"): "w\n", file: "f\n", beside: "old", filepath.Join(e.H, "many/1/x"): "m\n"} {
			if got := e.Read(path); got != want {
				t.Errorf("%s is %q, want %q: %s", path, got, want, r)
			}
		}
		if Exists(out) || Exists(filepath.Join(e.H, "many/0")) {
			t.Errorf("written outside: %s", r)
		}
		for _, skipped := range []string{filepath.Join(e.H, "missing"), filepath.Join(e.H, "many/0"), filepath.Join(e.H, "many/196")} {
			if !strings.Contains(r.Stderr, skipped) {
				t.Errorf("%s is skipped and not named: %s", skipped, r.Stderr)
			}
		}
	})
}

// F7-17: what each preset lets be written, by every front door.
func TestF7_17_PresetsByEveryDoor(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		const script = `for d in . "$TMPDIR" /tmp /dev/shm "$HOME" "$O"; do if [ -n "$d" ] && echo x 2>/dev/null >"$d/f7-17"; then echo "wrote $d"; rm -f "$d/f7-17"; fi; done; echo x >/dev/null && echo sink`
		for preset, want := range map[string]string{
			"read-only":          "wrote TMPDIR sink",
			"workspace-write":    "wrote . wrote TMPDIR wrote /dev/shm sink",
			"danger-full-access": "wrote . wrote /tmp wrote /dev/shm wrote HOME wrote O sink", // without a TMPDIR, since the caller has none
		} {
			show := func(out, tmp string) string {
				var words []string
				for line := range strings.Lines(out) {
					words = append(words, strings.TrimSpace(line))
				}
				s := strings.Join(words, " ")
				for from, to := range map[string]string{e.H: "HOME", e.O: "O"} {
					s = strings.ReplaceAll(s, "wrote "+from+" ", "wrote "+to+" ")
				}
				if i := strings.Index(s, tmp); tmp != "" && i >= 0 {
					s = s[:i] + "TMPDIR" + s[i+len(tmp):]
				}
				return s
			}
			// TMPDIR prints itself first.
			both := `echo "$TMPDIR"; ` + script
			cut := func(out string) string { tmp, rest, _ := strings.Cut(out, "\n"); return show(rest, tmp) }
			for _, flags := range [][]string{{"--preset", preset, "--timeout", "1m"}, {"--timeout", "1m", "--preset", preset}} {
				r := e.Dshx(Opts{}, append(append([]string{"exec", "--no-config", "--env", "O=" + e.O}, flags...), "--", "sh", "-c", both)...)
				if got := cut(r.Stdout); got != want {
					t.Errorf("exec %v: %q, want %q: %s", flags, got, want, r)
				}
			}
			c := e.lines(Opts{}, "--preset", preset, "--env", "O="+e.O)
			c.bash(1, both)
			if got := cut(c.result().field(t, "stdout")); got != want {
				t.Errorf("lines under %s: %q, want %q", preset, got, want)
			}
			c.call(2, "write", map[string]any{"file_path": "made-" + preset, "content": "x"})
			if r := c.result(); *r.OK != (preset != "read-only") {
				t.Errorf("write under %s: %+v", preset, r)
			}
			c.end()
		}
		for _, args := range [][]string{{"--preset", "reed-only"}, {"--preset", "read-only", "--preset", "reed-only"}} {
			r := e.Dshx(Opts{}, append(append([]string{"exec", "--no-config"}, args...), "--", "touch", "ran")...)
			if r.Exit != 2 || Exists(filepath.Join(e.W, "ran")) {
				t.Errorf("%v: %s", args, r)
			}
		}
		// A flag decides over the configuration, and the last one over the others.
		config := e.Write(filepath.Join(e.H, "full.toml"), "preset = \"danger-full-access\"\n")
		for _, flags := range [][]string{{"--preset", "read-only"}, {"--preset", "workspace-write", "--preset", "read-only"}} {
			r := e.Dshx(Opts{}, append(append([]string{"exec", "--config", config}, flags...), "--", "touch", "ran")...)
			if Exists(filepath.Join(e.W, "ran")) {
				t.Errorf("%v: %s", flags, r)
			}
		}
	})
}

// F7-18: many layers deep nothing becomes wider, and where layers are
// exhausted dshx says so and runs nothing.
func TestF7_18_Layers(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		out := filepath.Join(e.O, "pwn")
		argv := []string{"sh", "-c", `echo ran; echo x >"$0"; exit 7`, out}
		for range 20 {
			argv = append([]string{dshxBin, "exec", "--no-config", "--"}, argv...)
		}
		r := e.Dshx(Opts{}, argv[1:]...)
		if Exists(out) {
			t.Fatalf("written outside: %s", r)
		}
		switch {
		case r.Exit == 7 && strings.Contains(r.Stdout, "ran"):
		case r.Exit == 125 && !strings.Contains(r.Stdout, "ran") && strings.Contains(r.Stderr, "dshx: "):
		default:
			t.Errorf("20 layers: %s", r)
		}
		// Another root inside is no wider.
		other := e.Mkdir(filepath.Join(e.O, "other"))
		r = e.Run(Opts{Flags: []string{"--no-config"}}, dshxBin, "exec", "--no-config", "--workspace", other, "--", "touch", filepath.Join(other, "made"))
		if r.Exit == 0 || Exists(filepath.Join(other, "made")) {
			t.Errorf("another root inside: %s", r)
		}
		if r := e.Dshx(Opts{}, "exec", "--no-config", "--workspace", other, "--", "touch", filepath.Join(other, "made")); r.Exit != 0 {
			t.Errorf("control: %s", r)
		}
		// A server's own rights don't shrink from call to call.
		c := e.lines(Opts{})
		c.bash(1, "echo hi")
		c.result()
		c.bash(2, "echo x >made")
		c.result()
		c.call(3, "write", map[string]any{"file_path": "written", "content": "x"})
		if r := c.result(); !*r.OK || !Exists(filepath.Join(e.W, "made")) {
			t.Errorf("after commands: %+v", r)
		}
		c.end()
		e.NothingLeft(time.Second)
	})
}
