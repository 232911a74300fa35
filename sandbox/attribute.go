package sandbox

import (
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"github.com/dshx/dshx/sandboxpolicy"
)

// errnoTexts are how programs word EACCES, EPERM and EROFS, in lower case.
var errnoTexts = [...]string{"permission denied", "operation not permitted", "read-only file system", "eacces", "eperm", "erofs"}

// Attribute finds the denials that a failed command's error output tells of: a
// line with an errno-like text and a path that the policy itself refuses.
// Neither alone counts, and never the exit status.
//
// known are the command's Denials, of which the output tells as well: each
// time that the supervisor refused something explains one line about its path.
// Only what more lines tell is returned.
//
// cwd is where the command ran; stderr at most what was kept of its output.
func Attribute(p *sandboxpolicy.Policy, cwd, stderr string, known []Denial) []Denial {
	if p.Full() {
		return nil
	}
	a := attribution{p: p, cwd: cwd, known: known, explained: map[string]int{}, budget: maxAttributed}
	for _, d := range known {
		a.explained[d.Resolved] += d.times
	}
	for line := range strings.Lines(stderr) {
		if len(line) > 4096 {
			continue
		}
		low := strings.ToLower(line)
		if slices.ContainsFunc(errnoTexts[:], func(t string) bool { return strings.Contains(low, t) }) && !a.line(line) {
			break
		}
	}
	return a.found.list
}

// maxAttributed bounds the paths of an output that are looked at, on disk: a
// command may print any number, and dshx waits for none of that.
const maxAttributed = 256

type attribution struct {
	p         *sandboxpolicy.Policy
	cwd       string
	known     []Denial
	explained map[string]int // lines that known denials still explain, by resolved path
	budget    int
	found     recorder
}

// line looks at the paths of one line, and reports whether to go on.
func (a *attribution) line(line string) bool {
	seen := map[string]bool{} // a path in quotes is a word, too
	for _, target := range paths(line) {
		if a.budget--; a.budget < 0 {
			return false
		}
		path := target
		if !filepath.IsAbs(path) {
			path = filepath.Join(a.cwd, path)
		}
		path = resolveExisting(path)
		switch {
		case seen[path]:
		case a.explained[path] > 0:
			a.explained[path]--
		default:
			a.path(target, path)
		}
		seen[path] = true
	}
	return true
}

func (a *attribution) path(target, path string) {
	for _, op := range [...]sandboxpolicy.Op{sandboxpolicy.OpRead, sandboxpolicy.OpWrite} {
		v := a.p.Verdict(op, path)
		if v.Allow {
			continue
		}
		if !slices.ContainsFunc(a.known, func(d Denial) bool { return d.Operation == op && d.Resolved == path }) {
			// What was refused is known, how it was to be changed is not.
			remedy := a.p.RemedyOnDisk([]sandboxpolicy.Op{op, sandboxpolicy.OpDelete}, path, v, exists)
			a.found.add(Denial{Operation: op, Target: target, Resolved: path, Rule: v.Rule, Evidence: "errno+path", Remedy: remedy})
		}
		return
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// resolveExisting resolves the part of a path that exists. The command has
// chosen the path and made what it leads through, so the work for one is
// bounded: each component is looked at once.
func resolveExisting(path string) string {
	path = filepath.Clean(path)
	ends := make([]int, 0, 32) // where each component ends
	for i := 1; i <= len(path); i++ {
		if i == len(path) || path[i] == '/' {
			ends = append(ends, i)
		}
	}
	// What exists is above what doesn't.
	n := sort.Search(len(ends), func(i int) bool {
		_, err := os.Stat(path[:ends[i]])
		return err != nil
	})
	if n == 0 {
		return path
	}
	real, err := filepath.EvalSymlinks(path[:ends[n-1]])
	if err != nil {
		return path
	}
	return filepath.Join(real, path[ends[n-1]:])
}

// closing are the quotes that end what b begins, "" when it begins nothing.
func closing(b byte) string {
	switch b {
	case '\'':
		return "'"
	case '"':
		return `"`
	case '`':
		return "'`"
	}
	return ""
}

// paths returns what in an error message can be a path: what stands in quotes,
// and words with a slash.
func paths(line string) []string {
	line = strings.TrimSpace(line)
	line = strings.NewReplacer("‘", "'", "’", "'", "“", `"`, "”", `"`).Replace(line)
	var out []string
	for i := 0; i < len(line); i++ {
		ends := closing(line[i])
		if ends == "" {
			continue
		}
		if j := strings.IndexAny(line[i+1:], ends); j > 0 {
			out = append(out, line[i+1:i+1+j])
			i += j + 1
		}
	}
	for _, part := range strings.Split(line, ": ") {
		if strings.HasPrefix(part, "/") {
			out = append(out, part)
		}
		for _, w := range strings.Fields(part) {
			w = strings.TrimLeft(strings.TrimRight(w, `'"():;,.`+"`"), `'"(:;,`+"`")
			if strings.HasPrefix(w, "/") && len(w) > 1 || strings.Contains(w, "/") && strings.HasPrefix(w, "..") {
				out = append(out, w)
			}
		}
	}
	return out
}

// GainRefused is the denial of a failed command whose program would have run
// with another user's or group's rights: no_new_privs takes them from it
// (prctl(2)), and uid 0 has no capability to change into anybody.
func (c *Cmd) GainRefused() []Denial {
	p := c.domain.policy
	if p.Full() {
		return nil
	}
	path := c.program
	st, err := os.Stat(path)
	if err != nil || st.Mode()&(os.ModeSetuid|os.ModeSetgid) == 0 {
		return nil
	}
	return []Denial{{Operation: sandboxpolicy.OpKernel, Target: path, Resolved: resolveExisting(path),
		Rule:     sandboxpolicy.Rule{Text: "a program gains no rights by being set-user-ID or set-group-ID", Origin: "preset"},
		Evidence: "supervisor", Remedy: "not possible by a flag or a writable path; run it outside, or with --preset danger-full-access"}}
}
