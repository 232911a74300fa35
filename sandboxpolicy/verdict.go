package sandboxpolicy

import (
	"path/filepath"
	"strings"
)

// ProtectedAlone reports that op on path, absolute and resolved, would be
// allowed if the path weren't one of those that make a host tool run code.
func (p *Policy) ProtectedAlone(op Op, path string) bool {
	if p.mode == modeFull || p.denying(path, Write) != nil {
		return false
	}
	w := p.writing(path)
	return w != nil && !w.Sink && p.protectedName(op, path, w) != ""
}

// Verdict judges one operation on a path that is absolute and resolved (no
// symbolic links). It is total: what it does not know it denies. It does no
// I/O and takes time in proportion to the path's components and the number
// of patterns; allowed paths allocate nothing.
//
// For link and rename both names are judged, each by its own call. The
// verdict of connect, bind and send is about the place of the socket; who
// made it is for the enforcer to tell. Processes have no path: signal and
// ptrace are denied, and the enforcer asks only about foreign ones.
func (p *Policy) Verdict(op Op, path string) Verdict {
	class := op.class()
	if class == classUnknown {
		return Verdict{Rule: Rule{"unknown operation " + quote(string(op)), originPreset}, Remedy: "not possible"}
	}
	if p.mode == modeFull {
		return Verdict{Allow: true, Rule: Rule{"danger-full-access confines nothing", originPreset}}
	}
	switch class {
	case classProcess:
		return Verdict{Rule: Rule{"own processes only", originPreset}, Remedy: remedyProcess}
	case classKernel:
		return Verdict{Rule: Rule{"the kernel's surface is closed", originPreset}, Remedy: remedyKernel}
	}
	if !isClean(path) {
		if path == "" || path[0] != '/' {
			return Verdict{Rule: Rule{"the path is not absolute", originPreset}, Remedy: "give an absolute path"}
		}
		path = filepath.Clean(path)
	}
	access := Write
	if class == classRead {
		access = Read
	}
	if r := p.denying(path, access); r != nil {
		return Verdict{Rule: r.Rule, Remedy: p.remedyDeny(r)}
	}
	if op == OpRename {
		// Moving a directory would move what is denied below it out of its
		// rule.
		if r := p.moving(path); r != nil {
			return Verdict{Rule: r.Rule, Remedy: p.remedyDeny(r)}
		}
		for at, name := range p.protAt {
			if below(at, path) {
				return protectedVerdict(name)
			}
		}
	}
	if class == classRead {
		for i := range p.read {
			if within(path, p.read[i].Path) {
				return Verdict{Allow: true, Rule: p.read[i].Rule}
			}
		}
		return Verdict{Rule: ruleUnread, Remedy: "--read " + path}
	}
	w := p.writing(path)
	if w == nil {
		if g := p.gitNamed(op, path); g != nil {
			return Verdict{Allow: true, Rule: Rule{"refs of the workspace's git directory: " + g.Common, originPreset}}
		}
		return p.notWritable(op, class, path)
	}
	if w.Sink {
		switch class {
		case classSocket:
			return HostSocket()
		case classMeta:
			return Verdict{Rule: Rule{"devices may be used, not changed", originPreset}, Remedy: remedyDevice}
		}
		return Verdict{Allow: true, Rule: w.Rule}
	}
	switch op {
	case OpCreate, OpDelete, OpRename, OpLink, OpBind:
		// These change the directory that has the name: a root's own name is
		// in a directory that the root does not cover.
		if path == w.Path && p.writing(parentOf(path)) == nil {
			return p.notWritable(op, class, path)
		}
	default:
		if w.why == whyShm && class == classMeta && path == w.Path {
			return Verdict{Rule: Rule{"the directory /dev/shm is the host's", originPreset}, Remedy: remedyHostDir}
		}
	}
	// Connecting to a socket changes no file.
	if class != classSocket || op == OpBind {
		if name := p.protectedName(op, path, w); name != "" {
			return protectedVerdict(name)
		}
	}
	return Verdict{Allow: true, Rule: w.Rule}
}

func protectedVerdict(name string) Verdict {
	return Verdict{Rule: Rule{"protected " + name, originPreset}, Remedy: `unprotect = ["` + name + `"] under [policy] in your own configuration`}
}

// denying is the rule that denies access to path, or nil. The shortest
// literal path wins the mention, then the first pattern.
func (p *Policy) denying(path string, a Access) *PathRule {
	if len(p.deny) == 0 {
		return nil
	}
	for i := 1; i <= len(path); i++ {
		if i < len(path) && path[i] != '/' && i != 1 {
			continue
		}
		prefix := path[:i]
		if i == 1 {
			prefix = "/"
		}
		k, ok := p.denyAt[prefix]
		for ; ok && k >= 0; k = p.denyNext[k] {
			if r := &p.deny[k]; r.Access <= a && r.covers(path) {
				return r
			}
		}
	}
	for _, k := range p.denyGlobs {
		r := &p.deny[k]
		if r.Access <= a && within(path, r.Dir) && r.pat.match(path) {
			return r
		}
	}
	return nil
}

// moving is a deny below path, which a rename of path would carry away.
func (p *Policy) moving(path string) *PathRule {
	if _, ok := p.denyAbove[path]; !ok {
		return nil
	}
	for i := range p.deny {
		if r := &p.deny[i]; !r.Glob && below(r.Path, path) || r.OneLevel() && within(r.Dir, path) {
			return r
		}
	}
	return nil
}

// writing is the rule that makes path writable: the deepest root that holds
// it, or nil.
func (p *Policy) writing(path string) *PathRule {
	for end := len(path); end > 0; {
		if k, ok := p.writeAt[path[:end]]; ok {
			return &p.write[k]
		}
		end = strings.LastIndexByte(path[:end], '/')
	}
	if k, ok := p.writeAt["/"]; ok {
		return &p.write[k]
	}
	return nil
}

// protectedName is the name of the protected path that a write to path
// below w would change, or "".
func (p *Policy) protectedName(op Op, path string, w *PathRule) string {
	if w.why == whyTmp || w.why == whyCache || w.why == whyShm {
		return ""
	}
	if len(p.protAt) > 0 {
		for end := len(path); end > 0; end = strings.LastIndexByte(path[:end], '/') {
			if name, ok := p.protAt[path[:end]]; ok {
				return name
			}
		}
	}
	k := protNone
	if w.why == whyGit {
		if len(w.Keep) > 0 && path != w.Path {
			k = protectedGit(path[len(w.Path)+1:])
		}
	} else if ws := p.workspace; below(path, ws) {
		k = protectedIn(path[len(ws)+1:], true)
		if ws == "/" {
			k = protectedIn(path[1:], true)
		}
	} else if below(path, w.Path) {
		rel := path[len(w.Path):]
		k = protectedIn(strings.TrimPrefix(rel, "/"), false)
	}
	if k == protNone || p.unprot&(1<<uint(k)) != 0 {
		return ""
	}
	if k == protGit {
		// The identity of a repository: a .git that is there must not be
		// replaced. Making one is what git init and git clone do.
		switch op {
		case OpCreate, OpChmod, OpUtime, OpXattr, OpBind:
			return ""
		}
	}
	return protectedNames[k]
}

func (p *Policy) notWritable(op Op, class opClass, path string) Verdict {
	if class == classSocket {
		return HostSocket()
	}
	switch {
	case within(path, "/proc") || within(path, "/sys"):
		return Verdict{Rule: Rule{"the kernel's settings", originPreset}, Remedy: remedySettings}
	case p.mode == modeRead && within(path, p.workspace):
		return Verdict{Rule: p.readOnlyRule(), Remedy: "--preset workspace-write"}
	}
	return Verdict{Rule: ruleOutside, Remedy: p.remedyGrant([]Op{op}, path, func(string) bool { return true })}
}

// ruleOutside is the rule of a write that nothing allows, and that a grant
// would.
var ruleOutside = Rule{"outside of what may be written", originPreset}

// ruleUnread is the rule of a read that nothing allows.
var ruleUnread = Rule{"nothing allows reading it", originPreset}

func (p *Policy) readOnlyRule() Rule { return Rule{"read-only", p.presetOrigin} }

func (p *Policy) networkRule() Rule { return Rule{"network = " + string(p.network), p.networkOrg} }

// Denied reports that a deny covers path, absolute and resolved, whatever
// allows it: what an enforcer that grants trees leaves out of them. Protected
// paths are not denies.
func (p *Policy) Denied(path string, a Access) bool {
	return p.mode != modeFull && p.denying(path, a) != nil
}

// denyBelow reports a deny of access somewhere below path.
func (p *Policy) denyBelow(path string, a Access) bool {
	k, ok := p.denyAt[path]
	for ; ok && k >= 0; k = p.denyNext[k] {
		if len(p.deny[k].Except) > 0 && p.deny[k].Access <= a {
			return true
		}
	}
	if _, ok := p.denyAbove[path]; !ok {
		return false
	}
	if a == Write {
		return true
	}
	for i := range p.deny {
		r := &p.deny[i]
		if r.Access > a {
			continue
		}
		if r.Glob && r.OneLevel() && within(r.Dir, path) || !r.Glob && below(r.Path, path) {
			return true
		}
		// On the way to an exception.
		for _, e := range r.Except {
			if below(e, path) && within(path, r.Path) {
				return true
			}
		}
	}
	return false
}

// VerdictNet judges a socket operation by family and address. family is
// "inet", "inet6", "unix" (abstract names, addr "@NAME"; paths go to
// Verdict), "netlink" (addr the protocol, "route") or another name. addr for
// inet is "ADDRESS:PORT" or "[ADDRESS]:PORT"; "" judges the socket's
// creation. An enforcer asks about abstract names only when the peer is not
// one of the command's own processes.
func (p *Policy) VerdictNet(op Op, family, addr string) Verdict {
	if p.mode == modeFull {
		return Verdict{Allow: true, Rule: Rule{"danger-full-access confines nothing", originPreset}}
	}
	switch family {
	case "inet", "inet6":
	case "unix":
		if addr == "" || op == OpBind {
			return Verdict{Allow: true, Rule: Rule{"sockets of the command's own", originPreset}}
		}
		if !strings.HasPrefix(addr, "@") {
			return p.Verdict(op, addr)
		}
		return Verdict{Rule: Rule{"abstract sockets of the host", originPreset}, Remedy: remedyHost}
	case "netlink":
		if addr == "route" || addr == "" {
			return Verdict{Allow: true, Rule: Rule{"netlink route: names and addresses of interfaces", originPreset}}
		}
		return Verdict{Rule: Rule{"netlink but for route", originPreset}, Remedy: remedyFamily}
	default:
		return Verdict{Rule: Rule{"sockets of other families", originPreset}, Remedy: remedyFamily}
	}
	switch p.network {
	case NetworkFull:
		return Verdict{Allow: true, Rule: p.networkRule()}
	case NetworkLoopback:
		if addr == "" || isLoopback(addr, op != OpBind) {
			return Verdict{Allow: true, Rule: p.networkRule()}
		}
		remedy := "--network full"
		if op == OpBind {
			remedy = "bind a loopback address such as 127.0.0.1, or --network full"
		}
		return Verdict{Rule: p.networkRule(), Remedy: remedy}
	}
	remedy := "--network full"
	switch {
	case addr == "":
		// Where it would have led isn't known yet.
		remedy = "--network loopback for addresses of this host, --network full for all"
	case isLoopback(addr, true):
		remedy = "--network loopback"
	}
	return Verdict{Rule: p.networkRule(), Remedy: remedy}
}

// HostSocket is the verdict on connecting or sending to a socket with a path
// that none of the command's own processes made, wherever it lies.
func HostSocket() Verdict {
	return Verdict{Rule: Rule{"sockets of the host", originPreset}, Remedy: remedyHost}
}

// IsLoopback reports whether connecting to an address, with or without a port,
// reaches the own host's loopback interface, as VerdictNet judges it.
func IsLoopback(addr string) bool { return isLoopback(addr, true) }

// isLoopback judges an address with or without a port. Connecting to the
// unspecified address reaches the own host, ip(7); binding it opens every
// interface.
func isLoopback(addr string, unspecified bool) bool {
	host := splitPort(addr)
	if a, ok := parseIP(host); ok {
		return a.loopback() || unspecified && a.unspecified()
	}
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	// RFC 6761: localhost names resolve to loopback.
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}
