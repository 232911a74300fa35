package sandbox

import (
	"os"
	"path/filepath"
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
// cwd is where the command ran; stderr at most what was kept of its output.
func Attribute(p *sandboxpolicy.Policy, cwd, stderr string) []Denial {
	if p.Full() {
		return nil
	}
	var r recorder
	budget := maxAttributed
	for line := range strings.Lines(stderr) {
		if len(line) > 4096 {
			continue
		}
		low := strings.ToLower(line)
		for _, t := range errnoTexts {
			if strings.Contains(low, t) {
				for _, path := range paths(line) {
					if budget--; budget < 0 {
						return r.list
					}
					attribute(p, cwd, path, &r)
				}
				break
			}
		}
	}
	return r.list
}

// maxAttributed bounds the paths of an output that are looked at, on disk: a
// command may print any number, and dshx waits for none of that.
const maxAttributed = 256

func attribute(p *sandboxpolicy.Policy, cwd, target string, r *recorder) {
	path := target
	if !filepath.IsAbs(path) {
		path = filepath.Join(cwd, path)
	}
	path = resolveExisting(path)
	for _, op := range [...]sandboxpolicy.Op{sandboxpolicy.OpRead, sandboxpolicy.OpWrite} {
		if v := p.Verdict(op, path); !v.Allow {
			// What was refused is known, how it was to be changed is not.
			remedy := p.RemedyOnDisk([]sandboxpolicy.Op{op, sandboxpolicy.OpDelete}, path, v, exists)
			r.add(Denial{op, target, path, v.Rule, "errno+path", remedy})
			return
		}
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

var closing = map[byte]string{'\'': "'", '"': `"`, '`': "'`"}

// paths returns what in an error message can be a path: what stands in quotes,
// and words with a slash.
func paths(line string) []string {
	line = strings.TrimSpace(line)
	line = strings.NewReplacer("‘", "'", "’", "'", "“", `"`, "”", `"`).Replace(line)
	var out []string
	for i := 0; i < len(line); i++ {
		ends, quoted := closing[line[i]]
		if !quoted {
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
