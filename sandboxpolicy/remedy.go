package sandboxpolicy

const (
	remedySecret   = "not possible by a flag: secrets stay unreadable; only --preset danger-full-access reads them"
	remedyDevice   = "not possible by a preset that confines; name the device with --write PATH if it is needed"
	remedyHost     = "not possible: sockets of the host are out of reach; make the socket inside the workspace or TMPDIR, or use --preset danger-full-access"
	remedyHostDir  = "not possible: what is in it may be changed, the directory may not"
	remedyProcess  = "not possible: only the command's own processes are in reach"
	remedyKernel   = "not possible: this changes the system; only --preset danger-full-access leaves it to the kernel"
	remedySettings = "not possible: the kernel's settings can't be opened for writing; only --preset danger-full-access leaves them to the kernel"
	remedyFamily   = "not possible: only inet, inet6, unix and netlink route sockets are available"
)

// RemedyOnDisk is the remedy of v, the verdict on path, for a caller who can
// look at the disk: --write grants what is there, and writing a file that isn't
// there makes it. ops are what the operation may have been; the remedy serves
// every one of them as far as one can.
func (p *Policy) RemedyOnDisk(ops []Op, path string, v Verdict, exists func(path string) bool) string {
	if v.Allow || v.Rule != ruleOutside {
		return v.Remedy
	}
	return p.remedyGrant(ops, path, exists)
}

// remedyGrant is the narrowest grant after which ops on path work. Changing
// what a file holds or what it is like needs the file. Changing a name needs
// the directory that has it, and all of it: next to something that stays denied
// an enforcer that grants trees can let nothing be made.
func (p *Policy) remedyGrant(ops []Op, path string, exists func(path string) bool) string {
	at, enough := p.grantAt(ops, path, exists)
	switch {
	case enough:
		return "--write " + at
	case at == path:
		return "--write " + path + " lets it be changed, not renamed or removed: " + dirOf(path, exists) + " itself holds paths that stay denied"
	}
	return "not possible by a flag: " + dirOf(path, exists) + " itself holds paths that stay denied; make a directory in it, and name that with --write"
}

// grantAt is the path of that grant. Where it is not enough for all of ops, it
// is path itself, or "" where no grant serves any.
func (p *Policy) grantAt(ops []Op, path string, exists func(path string) bool) (at string, enough bool) {
	names, content := false, false
	for _, op := range ops {
		switch op {
		case OpCreate, OpDelete, OpRename, OpLink:
			names = true
		default:
			content = true
		}
	}
	if !exists(path) {
		names, content = true, false
	}
	if !names {
		return path, true
	}
	dir := dirOf(path, exists)
	switch {
	case !p.denyBelow(dir, Write):
		return dir, true
	case content:
		return path, false
	}
	return "", false
}

// dirOf is the directory above path that is there.
func dirOf(path string, exists func(path string) bool) string {
	dir := parentOf(path)
	for dir != "/" && !exists(dir) {
		dir = parentOf(dir)
	}
	return dir
}

// Grant is what one call may ask for beyond a policy; one field is set, or none.
type Grant struct {
	Preset      string
	Network     Network
	Write, Read string // a path
}

// GrantFor is the narrowest grant after which what was refused would be
// allowed: the zero Grant where none would. ops are what the operation may have
// been, on path (absolute and resolved, or "") or on the address of a socket;
// rule is the one that refused it. It is RemedyOnDisk as data.
func (p *Policy) GrantFor(ops []Op, path, address string, rule Rule, exists func(path string) bool) (g Grant) {
	if p.mode == modeFull || len(ops) == 0 {
		return g
	}
	if path == "" || path[0] != '/' {
		switch {
		case rule.Text != p.networkRule().Text || p.network == NetworkFull:
		case p.network == NetworkNone && ops[0] != OpBind && isLoopback(address, true):
			g.Network = NetworkLoopback
		default:
			g.Network = NetworkFull
		}
		return g
	}
	v := p.Verdict(ops[0], path)
	switch {
	case v.Allow:
	case ops[0].class() == classRead && !exists(path): // a grant names what is there
	case v.Rule == ruleUnread:
		g.Read = path
	case v.Rule == ruleOutside:
		g.Write, _ = p.grantAt(ops, path, exists)
	case ops[0].class() == classRead:
		if p.otherHomeAlone(path) {
			g.Read = path
		}
	case p.mode == modeRead && v.Rule == p.readOnlyRule():
		if p.writableIn(ops[0], path) {
			g.Preset = builtins[modeWrite].name
		}
	}
	return g
}

// otherHomeAlone reports that no rule keeps path from being read but that
// against the homes of others, which a grant makes an exception from.
func (p *Policy) otherHomeAlone(path string) bool {
	other := false
	for i := range p.deny {
		if r := &p.deny[i]; r.Access == Read && r.covers(path) {
			if r.why != whyOtherHome {
				return false
			}
			other = true
		}
	}
	return other
}

// writableIn reports whether op on path, in the workspace, would be allowed if
// the workspace were writable.
func (p *Policy) writableIn(op Op, path string) bool {
	if path == p.workspace {
		switch op {
		case OpCreate, OpDelete, OpRename, OpLink, OpBind:
			return false
		}
	}
	return p.protectedName(op, path, &PathRule{Path: p.workspace, Access: Write, why: whyWorkspace}) == ""
}

func (p *Policy) remedyDeny(r *PathRule) string {
	switch r.why {
	case whySecret:
		return remedySecret
	case whyOtherHome:
		return "--read with the one directory that is needed; secrets in it stay unreadable"
	case whyDevice:
		return remedyDevice
	case whyShm:
		return "--preset workspace-write"
	case whyOtherTmp:
		return "not possible: private directories of other runs stay private"
	case whyOwnConfig:
		return "not possible from inside: edit dshx's configuration outside of it"
	}
	if r.Rule.Origin == originFlag {
		return "leave out " + r.Rule.Text
	}
	return "take " + r.Rule.Text + " out of the configuration (" + r.Rule.Origin + ")"
}
