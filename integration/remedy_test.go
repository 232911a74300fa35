package integration

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestRemedy_Works gives the flag that a denial names and does the same again:
// advice that fails is worse than none.
func TestRemedy_Works(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		e.Write(filepath.Join(e.H, ".ssh/id"), "key", 0o600)
		for name, c := range map[string]struct {
			script string // {} is a fresh directory outside of the workspace, ~ the home
			flag   string // what is suggested; "" for nothing that begins with a flag
		}{
			"make":             {"echo x > {}/new", "--write {}"},
			"change":           {"echo x > {}/file", "--write {}"},
			"remove":           {"rm -f {}/file", "--write {}"},
			"rename":           {"mv {}/file {}/other", "--write {}"},
			"directory":        {"mkdir {}/dir/sub", "--write {}/dir"},
			"chmod":            {"chmod 600 {}/file", "--write {}/file"},
			"chmod directory":  {"chmod 700 {}/dir", "--write {}/dir"},
			"make in home":     {"echo x > ~/new", ""},
			"change in home":   {"echo x > ~/note", "--write ~/note"},
			"chmod in home":    {"chmod 600 ~/note", "--write ~/note"},
			"chmod below home": {"chmod 700 ~/out", "--write ~/out"},
			"make below home":  {"echo x > ~/out/new", "--write ~/out"},
		} {
			t.Run(name, func(t *testing.T) {
				e := e.With(t)
				dir := e.Mkdir(filepath.Join(e.O, strings.ReplaceAll(name, " ", "-")))
				e.Write(filepath.Join(dir, "file"), "content")
				e.Mkdir(filepath.Join(dir, "dir"))
				e.Mkdir(filepath.Join(e.H, "out"))
				e.Write(filepath.Join(e.H, "note"), "content")
				fill := strings.NewReplacer("{}", dir, "~", e.H).Replace
				script := fill(c.script)

				r := e.Run(Opts{JSON: true}, "sh", "-c", script)
				if r.Exit == 0 || len(r.Denials()) == 0 {
					t.Fatalf("not denied: %s", r)
				}
				remedy := r.Denials()[0].Remedy
				if c.flag == "" {
					if strings.HasPrefix(remedy, "--") {
						t.Errorf("remedy %q, though no flag helps", remedy)
					}
					return
				}
				flag, path, _ := strings.Cut(remedy, " ")
				path, _, _ = strings.Cut(path, " ")
				if got := flag + " " + path; got != fill(c.flag) {
					t.Errorf("remedy %q, want %q", remedy, fill(c.flag))
				}
				e.Run(Opts{Flags: []string{flag, path}}, "sh", "-c", script).OK(t)
			})
		}
	})
}
