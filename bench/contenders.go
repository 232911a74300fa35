package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// Versions that the comparison was written for.
const (
	codexVersion   = "0.171.0"
	srtVersion     = "0.0.83"
	landrunVersion = "v0.1.18"
)

// A contender runs a command under the comparison's policy: read all, write only the
// workspace and a place for temporary files, no network.
type contender struct {
	name    string
	version string
	prefix  []string // before the command; empty: bare
	promise string   // what it enforces beyond the comparison's policy, or less
	every   int      // takes part in each every-th round: slow ones would take hours
}

func (c contender) argv(command ...string) []string {
	return append(append([]string(nil), c.prefix...), command...)
}

// contenders returns the bare command, dshx, and the other sandboxes that can be had,
// in this order, and a sentence for each that cannot.
func contenders(ctx context.Context, o options, s *stage) (all []contender, missing []string) {
	miss := func(name, format string, args ...any) {
		missing = append(missing, name+": "+fmt.Sprintf(format, args...))
	}
	all = append(all,
		contender{name: "bare", version: runtime.GOOS, every: 1},
		contender{
			name: "dshx", version: firstLine(o.dshx, "version"), every: 1,
			prefix:  []string{o.dshx, "exec", "--"},
			promise: "workspace-write: also secrets, metadata, signals, sockets, kernel surface, lifetime",
		})

	if path := s.find("bwrap", ""); path == "" {
		miss("bubblewrap", "not installed (package bubblewrap)")
	} else {
		version := firstLine(path, "--version")
		files := []string{path, "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--bind", "/tmp", "/tmp", "--bind", s.workspace, s.workspace, "--die-with-parent"}
		all = append(all,
			contender{name: "bubblewrap, network namespace", version: version, every: 1,
				prefix: append(append([]string(nil), files...), "--unshare-net", "--"), promise: "files and network"},
			contender{name: "bubblewrap, all namespaces", version: version, every: 1,
				prefix: append(append([]string(nil), files...), "--unshare-all", "--"), promise: "also processes and IPC"})
	}

	if path := s.find("landrun", filepath.Join(o.tools, "bin")); path == "" && o.install {
		progress("building landrun")
		cmd := exec.CommandContext(ctx, "go", "install", "github.com/zouuup/landrun/cmd/landrun@"+landrunVersion)
		cmd.Env = append(os.Environ(), "GOBIN="+filepath.Join(o.tools, "bin"))
		if out, err := cmd.CombinedOutput(); err != nil {
			miss("landrun", "go install failed: %s", lastLine(out))
		}
	}
	if path := s.find("landrun", filepath.Join(o.tools, "bin")); path != "" {
		all = append(all, contender{name: "landrun", version: firstLine(path, "--version"), every: 1,
			// Without best effort it demands a newer Landlock than most kernels have.
			prefix:  []string{path, "--best-effort", "--rox", "/", "--rw", s.workspace, "--rw", "/tmp", "--rw", "/dev/null", "--env", "HOME", "--env", "PATH", "--"},
			promise: "files and TCP, one Landlock layer; not UDP"})
	} else if !o.install {
		miss("landrun", "not installed")
	}

	modules := filepath.Join(o.tools, "node_modules")
	srt := filepath.Join(modules, ".bin", "srt")
	codex := filepath.Join(modules, ".bin", "codex")
	if o.install && (!exists(srt) || !exists(codex)) {
		progress("installing sandbox-runtime and Codex")
		if err := npmInstall(ctx, o.tools, "@anthropic-ai/sandbox-runtime@"+srtVersion, "@openai/codex@"+codexVersion); err != nil {
			miss("sandbox-runtime and Codex", "%v", err)
		}
	}
	// Codex's own program, without the launcher in JavaScript around it.
	native, _ := filepath.Glob(filepath.Join(modules, "@openai", "codex-linux-*", "vendor", "*", "bin", "codex"))
	if len(native) == 1 {
		all = append(all, contender{name: "Codex sandbox, native program", version: firstLine(native[0], "--version"), every: 10,
			prefix: []string{native[0], "sandbox", "-c", `sandbox_mode="workspace-write"`, "--"}, promise: "files and network"})
	} else {
		miss("Codex", "not installed (npm package @openai/codex@%s)", codexVersion)
	}
	if exists(srt) {
		settings := filepath.Join(s.dir, "srt.json")
		text := fmt.Sprintf(`{"network":{"allowedDomains":[],"deniedDomains":[]},"filesystem":{"denyRead":[],"allowWrite":[%q,"/tmp"],"denyWrite":[]}}`, s.workspace)
		if err := os.WriteFile(settings, []byte(text), 0o644); err != nil {
			miss("sandbox-runtime", "%v", err)
		} else {
			all = append(all, contender{name: "sandbox-runtime", version: firstLine(srt, "--version"), every: 20,
				prefix: []string{srt, "--settings", settings}, promise: "files, network through a proxy"})
		}
	} else {
		miss("sandbox-runtime", "not installed (npm package @anthropic-ai/sandbox-runtime@%s)", srtVersion)
	}
	return all, missing
}

func npmInstall(ctx context.Context, dir string, packages ...string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "npm", append([]string{"install", "--no-fund", "--no-audit", "--prefix", dir}, packages...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("npm install: %w: %s", err, lastLine(out))
	}
	return nil
}

// find looks for a program in dir, then in PATH.
func (s *stage) find(name, dir string) string {
	if dir != "" && exists(filepath.Join(dir, name)) {
		return filepath.Join(dir, name)
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return ""
	}
	return path
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func lastLine(out []byte) string {
	text := strings.TrimSpace(string(out))
	return text[strings.LastIndex(text, "\n")+1:]
}

// check holds the contender to the comparison's policy before it is timed: allowed things
// work, and what it must refuse is refused; for the bare command, all of it works.
func (c contender) check(ctx context.Context, s *stage) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer l.Close()
	bare := len(c.prefix) == 0
	for _, t := range []struct {
		what    string
		command []string
		allowed bool
	}{
		{"run /bin/true", []string{"/bin/true"}, true},
		{"read a system file", []string{s.self, "inner", "read", "/etc/passwd"}, true},
		{"write in the workspace", []string{s.self, "inner", "write", filepath.Join(s.workspace, "checked")}, true},
		{"write outside it", []string{s.self, "inner", "write", filepath.Join(s.outside, "checked")}, false},
		{"connect by TCP", []string{s.self, "inner", "connect", l.Addr().String()}, false},
	} {
		argv := c.argv(t.command...)
		cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
		cmd.Dir, cmd.Env = s.workspace, s.environ()
		out, err := cmd.CombinedOutput()
		if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
			return err
		}
		if worked := err == nil; worked != (t.allowed || bare) {
			return fmt.Errorf("it cannot %s as the policy says (worked: %v): %s", t.what, worked, lastLine(out))
		}
	}
	return nil
}
