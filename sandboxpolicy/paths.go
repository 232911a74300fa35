package sandboxpolicy

import (
	"errors"
	"io/fs"
	"strings"
)

// within reports whether path is root or below it; both are absolute and
// clean.
func within(path, root string) bool {
	if root == "/" {
		return strings.HasPrefix(path, "/")
	}
	return strings.HasPrefix(path, root) && (len(path) == len(root) || path[len(root)] == '/')
}

// below reports whether path is strictly below root.
func below(path, root string) bool { return path != root && within(path, root) }

func parentOf(path string) string {
	i := strings.LastIndexByte(path, '/')
	if i <= 0 {
		return "/"
	}
	return path[:i]
}

func baseOf(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

func join(dir, name string) string {
	if dir == "/" {
		return "/" + name
	}
	return dir + "/" + name
}

// isClean reports whether path is absolute and has no empty, "." or ".."
// component and no trailing slash.
func isClean(path string) bool {
	if path == "/" {
		return true
	}
	if path == "" || path[0] != '/' {
		return false
	}
	start := 1
	for i := 1; i <= len(path); i++ {
		if i < len(path) && path[i] != '/' {
			continue
		}
		switch path[start:i] {
		case "", ".", "..":
			return false
		}
		start = i + 1
	}
	return true
}

// resolver resolves paths as the file system would: a ".." after a link goes
// to the parent of where the link leads. What does not exist keeps its name,
// so that a rule holds for what appears later. Every entry is looked at once.
type resolver struct {
	facts  Facts
	direct bool // facts is OSFacts itself: ask the system without its allocations
	seen   map[string]entry
	via    []string // the links that the last call of real went through
}

type entry struct {
	kind   entryKind
	target string // of a link
}

type entryKind uint8

const (
	entryMissing entryKind = iota // or can't be looked at
	entryDir
	entryFile // regular
	entryOther
	entryLink
)

// maxLinks is the kernel's own bound on links in one resolution,
// path_resolution(7).
const maxLinks = 40

var errLoop = errors.New("too many levels of symbolic links")

func newResolver(f Facts) *resolver {
	_, direct := f.(OSFacts)
	return &resolver{facts: f, direct: direct, seen: make(map[string]entry, 160)}
}

// look returns what is at path, whose parent is resolved.
func (r *resolver) look(path string) entry {
	if e, ok := r.seen[path]; ok {
		return e
	}
	var e entry
	if path == "/" {
		e.kind = entryDir
	} else if r.direct {
		e = lookDirect(path)
	} else if fi, err := r.facts.Lstat(path); err == nil {
		switch m := fi.Mode(); {
		case m&fs.ModeSymlink != 0:
			if t, err := r.facts.Readlink(path); err == nil && t != "" {
				e = entry{entryLink, t}
			} else {
				e.kind = entryOther
			}
		case m.IsDir():
			e.kind = entryDir
		case m.IsRegular():
			e.kind = entryFile
		default:
			e.kind = entryOther
		}
	}
	r.seen[path] = e
	return e
}

// real resolves an absolute path, and says what is there. The only error is
// a loop of links.
func (r *resolver) real(path string) (string, entryKind, error) {
	cur, kind := "/", entryDir
	r.via = r.via[:0]
	rest := path
	// As long as rest is the tail of a clean path without links, the next
	// name's path is a piece of it: nothing is copied.
	whole := path
	if !isClean(path) {
		whole = ""
	}
	for rest != "" {
		var name string
		if i := strings.IndexByte(rest, '/'); i >= 0 {
			name, rest = rest[:i], rest[i+1:]
		} else {
			name, rest = rest, ""
		}
		switch name {
		case "", ".":
			continue
		case "..":
			// In what does not exist there are no links to mind.
			cur = parentOf(cur)
			kind = r.kindOf(cur)
			continue
		}
		var next string
		switch {
		case whole == "":
			next = join(cur, name)
		case rest == "":
			next = whole
		default:
			next = whole[:len(whole)-len(rest)-1]
		}
		if kind != entryDir {
			// Missing, or not a directory: nothing is below it now.
			cur, kind = next, entryMissing
			continue
		}
		e := r.look(next)
		if e.kind != entryLink {
			cur, kind = next, e.kind
			continue
		}
		if r.via = append(r.via, next); len(r.via) > maxLinks {
			return "", entryMissing, errLoop
		}
		whole = ""
		if e.target[0] == '/' {
			cur = "/"
		}
		if rest == "" {
			rest = e.target
		} else {
			rest = e.target + "/" + rest
		}
		kind = entryDir // cur is a directory: it held the link, or is the root
	}
	return cur, kind, nil
}

// kindOf is the kind of a resolved path.
func (r *resolver) kindOf(path string) entryKind {
	if path != "/" && r.kindOf(parentOf(path)) != entryDir {
		return entryMissing
	}
	return r.look(path).kind
}

// realParent resolves all but the last component: the place where the name
// itself is, a link or not.
func (r *resolver) realParent(path string) (string, error) {
	dir, _, err := r.real(parentOf(path))
	if err != nil {
		return "", err
	}
	if within(path, dir) && len(path) > len(dir) && parentOf(path) == dir {
		return path, nil // no link above it
	}
	return join(dir, baseOf(path)), nil
}
