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
		return "--write " + path
	}
	dir := parentOf(path)
	for dir != "/" && !exists(dir) {
		dir = parentOf(dir)
	}
	switch {
	case !p.denyBelow(dir, Write):
		return "--write " + dir
	case content:
		return "--write " + path + " lets it be changed, not renamed or removed: " + dir + " itself holds paths that stay denied"
	}
	return "not possible by a flag: " + dir + " itself holds paths that stay denied; make a directory in it, and name that with --write"
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
