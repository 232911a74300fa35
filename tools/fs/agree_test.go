package fs

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dshx/dshx/sandboxpolicy"
)

// Commands and file tools are allowed the same: of each path and operation both
// are asked, in one domain. Where a tool refuses what a command may do there is
// a reason; the other way round there is none.
func TestAgree_CommandsAndTools(t *testing.T) {
	again(t)
	home, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	ws, granted := filepath.Join(home, "project"), filepath.Join(home, "granted")
	for _, f := range []string{
		"project/a", "project/sub/a", "project/sub/secret.env", "project/denied/a", "project/fixed/a", "project/.vscode/a", "project/.envrc",
		"project/.git/HEAD", "project/.git/config", "project/.git/objects/a", "project/.git/refs/a", "project/.git/hooks/a", "project/.git/info/exclude",
		"project/name with space", "outside/a", "granted/a", "granted/.envrc", ".ssh/id", ".aws/credentials", ".netrc", ".bashrc", ".config/tool/a",
	} {
		put(t, filepath.Join(home, f), "text\n")
	}
	for link, target := range map[string]string{"project/to-outside": "../outside/a", "project/to-secret": "../.ssh/id", "project/to-dir": "../outside", "project/dangling": "../outside/none", "project/inside": "sub/a"} {
		symlink(t, target, filepath.Join(home, link))
	}
	r := rigIn(t, ws, func(q *sandboxpolicy.Request) {
		q.Environ = append(slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, "HOME=") }), "HOME="+home)
		q.Write = []string{granted}
		q.DenyRead = []string{filepath.Join(ws, "denied"), "**/*.env"}
		q.DenyWrite = []string{filepath.Join(ws, "fixed")}
	}, Options{})
	tmp := r.box.Policy().TmpDir()

	// Why a tool may refuse what a command is let do.
	const gap = "the kernel can't leave it out of a writable tree without namespaces: a named gap for commands"
	stricter := map[string]string{}
	for _, e := range []string{
		"write .vscode/a", "create .vscode/new", "write .envrc", "create .mcp.json", "write .git/config", "write .git/hooks/a", "create .git/hooks/new",
		"read sub/secret.env", "write sub/secret.env", "create sub/new.env", "read denied/a", "write denied/a", "create denied/new", "write fixed/a", "create fixed/new",
	} {
		op, path, _ := strings.Cut(e, " ")
		stricter[op+" project/"+path] = gap
	}
	stricter["list project/denied"] = "names can be listed anywhere by commands; a tool asks the policy"
	stricter["list .ssh"] = stricter["list project/denied"]
	stricter["read /proc/self/status"] = "tools stay out of /proc"
	stricter["write /dev/null"] = "no regular file"
	stricter["read /dev/null"] = stricter["write /dev/null"]

	type effect struct{ op, path string }
	var effects []effect
	for _, p := range []string{
		"project/a", "project/sub/a", "project/sub/../a", "project/inside", "project/to-outside", "project/to-secret", "project/to-dir/a", "project/sub/secret.env",
		"project/denied/a", "project/fixed/a", "project/.vscode/a", "project/.envrc", "project/.git/HEAD", "project/.git/config", "project/.git/objects/a",
		"project/.git/refs/a", "project/.git/hooks/a", "project/.git/info/exclude", "project/name with space", "outside/a", "granted/a", "granted/.envrc", ".ssh/id",
		".aws/credentials", ".netrc", ".bashrc", ".config/tool/a", "/etc/hostname", "/etc/passwd", "/etc/shadow", "/usr/bin/env", "/dev/null", "/proc/self/status",
	} {
		effects = append(effects, effect{"read", p}, effect{"write", p})
	}
	for _, p := range []string{
		"project/new", "project/sub/new", "project/to-dir/new", "project/dangling", "project/denied/new", "project/fixed/new", "project/sub/new.env", "project/.vscode/new",
		"project/.mcp.json", "project/.git/hooks/new", "project/.git/objects/new", "project/.git/refs/new", "outside/new", "granted/new", ".ssh/new", "new", "/etc/new", "/usr/new", "/tmp/dshx-new-file", "/new", tmp + "/new",
	} {
		effects = append(effects, effect{"create", p})
	}
	for _, p := range []string{"project", "project/sub", "project/denied", "project/to-dir", "outside", "granted", ".ssh", ".config", "project/.git", "/etc", "/usr", "/", tmp} {
		effects = append(effects, effect{"list", p})
	}
	agreed := 0
	for _, e := range effects {
		path := e.path
		if !filepath.IsAbs(path) {
			path = home + "/" + path // not cleaned
		}
		made := false
		if e.op == "create" {
			if _, err := os.Lstat(path); err == nil && e.path != "project/dangling" {
				t.Fatalf("%s is there", path)
			}
			made = true
		}
		command := r.commandDoes(e.op, path)
		if made && command {
			target, err := filepath.EvalSymlinks(path)
			if err != nil {
				t.Fatal(err)
			}
			_ = os.Remove(target)
		}
		tool, code := r.toolDoes(e.op, path)
		if made && tool {
			_ = os.Remove(path)
		}
		name := e.op + " " + e.path
		why := stricter[name]
		switch {
		case command == tool:
			agreed++
		case command && !tool && why != "":
			delete(stricter, name)
		default:
			t.Errorf("%s: a command may %v, the tool %v (%s)", name, command, tool, code)
		}
		v := r.box.Policy().Verdict(map[string]sandboxpolicy.Op{"read": "read", "list": "read", "write": "write", "create": "create"}[e.op], realPath(path))
		if tool && !v.Allow {
			t.Errorf("%s: the tool does what the policy denies (%s)", name, v.Rule.Text)
		}
	}
	for name := range stricter {
		t.Errorf("%s: there is a reason to differ, and no difference", name)
	}
	t.Logf("%d effects, %d agreed", len(effects), agreed)
	if len(effects) < 100 {
		t.Errorf("only %d effects", len(effects))
	}
}

func realPath(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err != nil {
		return path
	}
	return filepath.Join(dir, filepath.Base(path))
}

func (r *rig) commandDoes(op, path string) bool {
	r.t.Helper()
	script := map[string]string{"read": `head -c 1 -- "$1" > /dev/null`, "write": `: >> "$1"`, "create": `: > "$1"`, "list": `ls -- "$1" > /dev/null`}[op]
	return r.box.Command("sh", "-c", script, "sh", path).Run() == nil
}

func (r *rig) toolDoes(op, path string) (bool, string) {
	r.t.Helper()
	var g got
	switch op {
	case "read":
		g = r.read(path)
	case "list":
		g = r.call("list", "path", path, "limit", 10)
	case "create":
		g = r.call("write", "file_path", path, "content", "")
	case "write":
		if seen := r.read(path); seen.r.OK() {
			if seen.at("kind") != "text" {
				return false, fmt.Sprint(seen.at("kind"))
			}
			// The bytes that it has: nothing is to change for the others.
			data, err := os.ReadFile(path)
			if err != nil {
				r.t.Fatal(err)
			}
			g = r.call("write", "file_path", path, "content", string(data))
		} else {
			g = r.call("write", "file_path", path, "content", "x")
		}
	}
	return g.r.OK() || g.Code == "FS_NOT_TEXT", g.Code
}
