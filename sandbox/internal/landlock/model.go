package landlock

import (
	"strings"

	"github.com/dshx/dshx/sandboxpolicy"
	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
)

// Model tells what a ruleset of Build lets through, without making one: what
// is reported of a policy and what is put in force follow from the same
// splits.
type Model struct{ b *Build }

// NewModel makes the model of a policy for a kernel with this ABI.
func NewModel(p *sandboxpolicy.Policy, abi int) *Model {
	m := &Model{&Build{p: p, handled: handledFS(min(abi, Known))}}
	m.b.splits()
	return m
}

// need is the right that the kernel asks for, and where: operations that
// change a name need it in the directory. 0: Landlock doesn't judge op.
func need(op sandboxpolicy.Op) (right uint64, parent bool) {
	switch op {
	case sandboxpolicy.OpRead:
		return ll.AccessFSReadFile, false
	case sandboxpolicy.OpExec:
		return ll.AccessFSExecute, false
	case sandboxpolicy.OpWrite:
		return ll.AccessFSWriteFile, false
	case sandboxpolicy.OpTruncate:
		return ll.AccessFSTruncate, false
	case sandboxpolicy.OpCreate, sandboxpolicy.OpLink:
		return ll.AccessFSMakeReg, true
	case sandboxpolicy.OpDelete, sandboxpolicy.OpRename:
		return ll.AccessFSRemoveFile, true
	case sandboxpolicy.OpBind:
		return ll.AccessFSMakeSock, true
	case sandboxpolicy.OpConnect, sandboxpolicy.OpSend:
		return ll.AccessFSResolveUnix, false
	}
	return 0, false
}

// Judges reports whether Landlock has a say in op on a path.
func (m *Model) Judges(op sandboxpolicy.Op) bool {
	right, _ := need(op)
	return right&m.b.handled != 0
}

// Lets reports whether the ruleset lets op through on a path that is absolute
// and resolved. What Landlock doesn't judge it lets through.
func (m *Model) Lets(op sandboxpolicy.Op, path string) bool {
	right, parent := need(op)
	if right&m.b.handled == 0 {
		return true
	}
	if parent {
		path = path[:max(strings.LastIndexByte(path, '/'), 0)]
		if path == "" {
			path = "/"
		}
	}
	reading := right&rightsRead != 0
	if reading && m.refusedByMode(path) {
		return false
	}
	if right&rightsRead != 0 {
		for _, r := range m.b.p.ReadAllow() {
			if m.covers(r.Path, path, rightsRead, sandboxpolicy.OpRead) {
				return true
			}
		}
	}
	for _, r := range m.b.p.WriteAllow() {
		switch {
		case r.Sink:
			if right&rightsDevice != 0 && within(path, r.Path) {
				return true
			}
		case m.covers(r.Path, path, rightsWrite, sandboxpolicy.OpWrite):
			return true
		}
	}
	return false
}

// covers reports whether the grant of a root reaches path.
func (m *Model) covers(root, path string, rights uint64, op sandboxpolicy.Op) bool {
	b := m.b
	if !within(path, root) || !b.p.Verdict(op, root).Allow {
		return false
	}
	a := accessOf(rights)
	if b.split[root]&a == 0 {
		return true
	}
	for at := root; at != path; {
		rest := path[len(at):]
		if at != "/" {
			rest = rest[1:]
		}
		name, _, _ := strings.Cut(rest, "/")
		if at != "/" {
			at += "/"
		}
		at += name
		if b.split[at]&a == 0 {
			return !b.p.Denied(at, a)
		}
	}
	// A directory whose entries are granted one by one has no rights itself,
	// but reading one is granted everywhere.
	return a == sandboxpolicy.Read && !b.p.Denied(path, a)
}

// refusedByMode: see enforceable.
func (m *Model) refusedByMode(path string) bool {
	for _, d := range m.b.p.Deny() {
		if d.System && d.Match(path) && !m.b.enforceable(&d) {
			return true
		}
	}
	return false
}

// Makes reports whether the ruleset refuses all that a deny of the policy
// covers, what appears there later included.
func (m *Model) Makes(d sandboxpolicy.PathRule) bool {
	switch {
	case d.Glob && !d.OneLevel():
		return false
	case d.Glob && d.Access == sandboxpolicy.Read:
		// Its directory's entries are granted one by one, unless a root that
		// is granted as a whole holds it.
		for _, w := range m.b.p.WriteAllow() {
			if !w.Sink && within(d.Dir, w.Path) && m.b.split[w.Path]&sandboxpolicy.Write == 0 {
				return false
			}
		}
		return true
	case d.Glob:
		return !m.Lets(sandboxpolicy.OpWrite, d.Dir) && !m.Lets(sandboxpolicy.OpCreate, d.Dir+"/x")
	case len(d.Except) > 0:
		return true // the preset's own, always granted around
	case d.Access == sandboxpolicy.Read:
		return !m.Lets(sandboxpolicy.OpRead, d.Path)
	}
	return !m.Lets(sandboxpolicy.OpWrite, d.Path)
}
