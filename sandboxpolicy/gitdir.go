package sandboxpolicy

import (
	"slices"
	"strings"
)

// findGit looks at the workspace's .git. Inside the workspace it finds what
// must be protected beyond the patterns; outside it grants daily work, but
// only to a git directory whose back pointer names the workspace, since the
// pointer itself is a file that anybody who wrote in the workspace may have
// planted.
func (b *builder) findGit() {
	ws := b.p.workspace
	dot := join(ws, ".git")
	switch b.r.look(dot).kind {
	case entryDir:
		b.protectInner(dot)
		b.ignoreOutside(dot)
		return
	case entryLink:
		dir, kind, err := b.r.real(dot)
		switch {
		case err == nil && within(dir, ws):
			if kind == entryDir {
				b.protectGitDir(dir)
				b.ignoreOutside(dir)
			}
		default:
			b.pointerIgnored(dot, "the link .git leads out of the workspace; nothing there becomes writable")
		}
		return
	case entryFile:
	default:
		b.bareRepository()
		return
	}

	data, err := b.r.facts.ReadFile(dot)
	if err != nil {
		b.pointerIgnored(dot, ".git can't be read; the git directory it names stays read-only")
		return
	}
	target, ok := strings.CutPrefix(firstLine(data), "gitdir: ")
	if !ok || target == "" || strings.IndexByte(target, 0) >= 0 {
		b.pointerIgnored(dot, ".git names no git directory")
		return
	}
	dir, kind, err := b.r.real(from(ws, target))
	if err != nil || kind != entryDir {
		b.pointerIgnored(dot, ".git names "+quote(target)+", which is no directory")
		return
	}
	if within(dir, ws) {
		b.protectGitDir(dir)
		b.ignoreOutside(dir)
		return
	}
	if b.p.mode != modeWrite {
		return // a grant of the workspace is one of the workspace alone
	}
	if why := b.grantGit(dir, dot); why != "" {
		b.pointerIgnored(dot, ".git names "+quote(dir)+", which "+why+"; nothing there becomes writable")
	}
}

// grantGit adds the git directory dir, outside the workspace, or says why it
// isn't one of this workspace.
func (b *builder) grantGit(dir, dot string) string {
	if b.r.look(join(dir, "HEAD")).kind == entryMissing {
		return "is no git directory"
	}
	if b.r.look(join(dir, "commondir")).kind == entryFile {
		return b.grantWorktree(dir, dot)
	}
	if b.r.look(join(dir, "objects")).kind == entryMissing || b.r.look(join(dir, "refs")).kind == entryMissing {
		return "is no git directory"
	}
	// A submodule's or a separate git directory says core.worktree, relative
	// to itself, git-config(1); with worktreeConfig in config.worktree.
	wt := ""
	for _, name := range [...]string{"config.worktree", "config"} {
		if data, err := b.r.facts.ReadFile(join(dir, name)); err == nil {
			if wt = coreWorktree(string(data)); wt != "" {
				break
			}
		}
	}
	if wt == "" {
		return "does not point back (no core.worktree)"
	}
	if back, _, err := b.r.real(from(dir, wt)); err != nil || back != b.p.workspace {
		return "points back elsewhere"
	}
	g := GitDir{Kind: "submodule", Path: dir, Common: dir}
	b.gitTree(dir, gitKeep[:])
	// The trees below are links only when somebody made them so; below a
	// real directory they are part of it already.
	for _, sub := range [...]string{"objects", "refs", "logs"} {
		b.checkInside(join(dir, sub), dir)
	}
	b.p.gitDirs = append(b.p.gitDirs, g)
	return ""
}

func (b *builder) grantWorktree(dir, dot string) string {
	data, err := b.r.facts.ReadFile(join(dir, "commondir"))
	if err != nil {
		return "has an unreadable commondir"
	}
	common, kind, err := b.r.real(from(dir, firstLine(data)))
	if err != nil || kind != entryDir {
		return "has a commondir that is no directory"
	}
	// git makes administrative directories nowhere else, so that a directory
	// made by hand can't name somebody's repository as its common one.
	if parentOf(dir) != join(common, "worktrees") {
		return "is not in the worktrees of its common directory"
	}
	for _, name := range [...]string{"HEAD", "objects", "refs"} {
		if b.r.look(join(common, name)).kind == entryMissing {
			return "has a common directory that is no git directory"
		}
	}
	data, err = b.r.facts.ReadFile(join(dir, "gitdir"))
	if err != nil {
		return "has no readable back pointer"
	}
	// Relative back pointers (extensions.relativeWorktrees) are relative to
	// the administrative directory, gitrepository-layout(5).
	back, err := b.r.realParent(from(dir, firstLine(data)))
	if err != nil || back != dot {
		return "points back elsewhere"
	}
	if within(common, b.p.workspace) {
		b.protectGitDir(common)
		return ""
	}
	g := GitDir{Kind: "worktree", Path: dir, Common: common}
	b.gitTree(dir, worktreeKeep[:])
	for _, sub := range [...]string{"objects", "refs", "logs"} {
		path := join(common, sub)
		if b.checkInside(path, common) {
			b.gitTree(path, nil)
		}
	}
	g.Names = gitNames[:]
	if b.r.look(join(common, "logs")).kind == entryMissing {
		g.Tree = "logs" // in a bare repository, until the first linked worktree commits
	}
	b.p.gitDirs = append(b.p.gitDirs, g)
	return ""
}

// gitNames are the files that refs are packed in: the lock, the new file
// beside it, and the file that the new one is renamed to.
var gitNames = [...]string{"packed-refs", "packed-refs.lock", "packed-refs.new"}

// gitNamed is the git directory that grants op on path by a name alone, or
// nil: see GitDir.Names. Only what such a name needs is granted: contents,
// making, removing, renaming and metadata; no links, sockets or programs.
func (p *Policy) gitNamed(op Op, path string) *GitDir {
	if len(p.gitDirs) == 0 {
		return nil
	}
	switch op {
	case OpWrite, OpCreate, OpDelete, OpRename, OpChmod, OpChown, OpUtime, OpXattr, OpFlags:
	default:
		return nil
	}
	for i := range p.gitDirs {
		g := &p.gitDirs[i]
		if g.Names == nil || !below(path, g.Common) {
			continue
		}
		rel := strings.TrimPrefix(path[len(g.Common):], "/")
		if g.Tree != "" {
			made := op != OpDelete && op != OpRename // the directory itself stays, once made
			if rel == g.Tree && made || below(rel, g.Tree) {
				return g
			}
		}
		if slices.Contains(g.Names, rel) {
			return g
		}
	}
	return nil
}

// ByName reports whether the policy allows op on path, which is as for
// Verdict, by a name alone (GitDir.Names and Tree) and not by a tree that may
// be written. Rules on trees can't grant such a name.
func (p *Policy) ByName(op Op, path string) bool {
	return p.mode != modeFull && p.gitNamed(op, path) != nil && p.writing(path) == nil && p.Verdict(op, path).Allow
}

// gitTree makes a directory of a git directory writable but for keep.
func (b *builder) gitTree(dir string, keep []string) {
	b.p.write = append(b.p.write, PathRule{Path: dir, Access: Write, Keep: keep, why: whyGit,
		Rule: Rule{"git directory of the workspace: " + dir, originPreset}})
	for _, k := range keep {
		b.protectLiteral(join(dir, k), ".git/"+k)
	}
}

// checkInside reports whether path, in the git directory dir, is a real
// directory there. A link that leads out grants nothing.
func (b *builder) checkInside(path, dir string) bool {
	switch b.r.look(path).kind {
	case entryDir:
		return true
	case entryLink:
		b.pointerIgnored(path, baseOf(path)+" in the git directory "+quote(dir)+" is a link; nothing behind it becomes writable")
	}
	return false
}

// ignoreOutside names what leads out of the workspace in a git directory
// inside it: git would follow it, and the sandbox grants nothing there.
func (b *builder) ignoreOutside(dot string) {
	if common := join(dot, "commondir"); b.r.look(common).kind == entryFile {
		if data, err := b.r.facts.ReadFile(common); err == nil {
			to, _, err := b.r.real(from(dot, firstLine(data)))
			switch {
			case err != nil || !within(to, b.p.workspace):
				b.pointerIgnored(common, quote(common)+" leads out of the workspace; nothing there becomes writable")
			case to != dot:
				b.protectGitDir(to)
			}
		}
	}
	for _, sub := range [...]string{"objects", "refs", "logs"} {
		path := join(dot, sub)
		if b.r.look(path).kind != entryLink {
			continue
		}
		if to, _, err := b.r.real(path); err != nil || !within(to, b.p.workspace) {
			b.pointerIgnored(path, "the link "+quote(path)+" leads out of the workspace; nothing there becomes writable")
		}
	}
}

// protectInner protects what links in the workspace's own .git lead to.
func (b *builder) protectInner(dot string) {
	for _, name := range [...]string{"hooks", "config"} {
		path := join(dot, name)
		if b.r.look(path).kind != entryLink {
			continue
		}
		if to, _, err := b.r.real(path); err == nil && below(to, b.p.workspace) {
			b.protectLiteral(to, ".git/"+name)
		}
	}
}

// protectGitDir protects a git directory inside the workspace whose name
// does not say that it is one.
func (b *builder) protectGitDir(dir string) {
	for _, k := range gitKeep {
		b.protectLiteral(join(dir, k), ".git/"+k)
	}
}

// bareRepository protects a workspace that is a bare repository itself.
func (b *builder) bareRepository() {
	ws := b.p.workspace
	if b.r.look(join(ws, "HEAD")).kind == entryFile && b.r.look(join(ws, "objects")).kind == entryDir && b.r.look(join(ws, "refs")).kind == entryDir {
		b.protectGitDir(ws)
	}
}

func (b *builder) pointerIgnored(path, text string) {
	b.notices = append(b.notices, Notice{NoticePointerIgnored, path, text})
}

// from makes a path that is relative to dir absolute.
func from(dir, path string) string {
	if strings.HasPrefix(path, "/") {
		return path
	}
	return dir + "/" + path
}

func firstLine(data []byte) string {
	s, _, _ := strings.Cut(string(data), "\n")
	return strings.TrimSuffix(s, "\r")
}

// coreWorktree reads core.worktree from a git configuration file, the last
// one that is set, git-config(1). Includes are not followed: git writes the
// key into the file itself.
func coreWorktree(config string) string {
	value, core := "", false
	for config != "" {
		var line string
		line, config, _ = strings.Cut(config, "\n")
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			end := strings.IndexByte(line, ']')
			if end < 0 {
				core = false
				continue
			}
			core = strings.EqualFold(strings.TrimSpace(line[1:end]), "core")
			line = strings.TrimSpace(line[end+1:])
		}
		if !core {
			continue
		}
		key, val, ok := strings.Cut(line, "=")
		if !ok || !strings.EqualFold(strings.TrimSpace(key), "worktree") {
			continue
		}
		value = gitValue(val)
	}
	return value
}

// gitValue unquotes a value: quotes group, "\" escapes, "#" and ";" begin a
// comment outside quotes, surrounding blanks go.
func gitValue(s string) string {
	out := make([]byte, 0, len(s))
	keep := 0 // length up to the last byte that is not a trailing blank
	quoted := false
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '"':
			quoted = !quoted
			keep = len(out)
			continue
		case c == '\\' && i+1 < len(s):
			i++
			switch s[i] {
			case 'n':
				c = '\n'
			case 't':
				c = '\t'
			case 'b':
				c = '\b'
			default:
				c = s[i]
			}
			out = append(out, c)
			keep = len(out)
			continue
		case !quoted && (c == '#' || c == ';'):
			return string(out[:keep])
		case !quoted && (c == ' ' || c == '\t' || c == '\r'):
			if len(out) > 0 {
				out = append(out, c)
			}
			continue
		}
		out = append(out, c)
		keep = len(out)
	}
	return string(out[:keep])
}
