package sandboxpolicy

import (
	"errors"
	"io/fs"
	"slices"
	"strconv"
	"strings"
)

func isPermission(err error) bool { return errors.Is(err, fs.ErrPermission) }

// reason is the bare cause of a file error.
func reason(err error) string {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err.Error()
	}
	return err.Error()
}

func (b *builder) addDenies() error {
	p := b.p
	if p.mode == modeFull {
		for _, l := range b.layers() {
			for _, list := range [...][]value{l.denyRead, l.denyWrite} {
				for _, v := range list {
					b.configIgnored(b.user.origin(v.line), v.key, "can't be enforced under danger-full-access")
				}
			}
		}
		if b.space != nil {
			for _, list := range [...][]value{b.space.policy.denyRead, b.space.policy.denyWrite} {
				for _, v := range list {
					b.configIgnored(b.space.origin(v.line), v.key, "can't be enforced under danger-full-access")
				}
			}
		}
		return nil
	}
	p.deny = make([]PathRule, 0, 144)
	p.denyNext = make([]int32, 0, 144)
	p.denyAt = make(map[string]int32, 144)

	granted, err := b.grantPaths()
	if err != nil {
		return err
	}
	own := make([]string, 0, 8+len(granted))
	for i, s := range [...]string{p.home, b.account, p.workspace, p.tmp, p.cache} {
		// A home of "/" (containers) does not make everything the own home.
		if s != "" && (i > 1 || !isSharedDir(s)) {
			own = append(own, s)
		}
	}
	own = append(own, sharedInstalls[:]...)
	own = append(own, granted...)

	secretHomes := make([]string, 0, 2)
	if p.home != "" {
		secretHomes = append(secretHomes, p.home)
	}
	if b.account != "" && b.account != p.home {
		secretHomes = append(secretHomes, b.account)
	}
	otherHome := func(dir, text string) {
		r := PathRule{Path: dir, Access: Read, why: whyOtherHome, Rule: Rule{text, originPreset}}
		for _, o := range own {
			if within(dir, o) {
				return // granted as a whole, or above what was
			}
			if below(o, dir) {
				r.Except = append(r.Except, o)
			}
		}
		b.deny(r)
	}
	otherHome("/home", "homes of others: /home")
	if b.uid != 0 {
		otherHome("/root", "homes of others: /root")
	}
	for _, h := range b.others {
		if !below(h, "/home") {
			otherHome(h, "homes of others: "+h)
		}
		for _, o := range own {
			if within(o, h) || within(h, o) {
				// Part of it was opened on purpose; its secrets were not.
				secretHomes = append(secretHomes, h)
				break
			}
		}
	}

	for i, h := range secretHomes {
		for _, text := range homeSecrets {
			sub := text[len(homePrefix)+1:]
			if i > 0 {
				text = "secret " + join(h, sub)
			}
			b.denySecret(h, sub, text, false)
		}
	}
	if x := b.env("XDG_CONFIG_HOME"); strings.HasPrefix(x, "/") && (p.home == "" || x != join(p.home, ".config")) {
		for _, s := range homeSecrets {
			if sub, ok := strings.CutPrefix(s, homePrefix+"/.config/"); ok {
				b.denySecret(x, sub, "secret $XDG_CONFIG_HOME/"+sub, false)
			}
		}
	}
	for _, v := range secretVars {
		val := b.env(v.name)
		if val == "" {
			continue
		}
		paths := []string{val}
		if v.list {
			paths = strings.Split(val, ":")
		}
		for _, path := range paths {
			if path == "" {
				continue
			}
			path = from(b.pwd, path)
			switch {
			case v.sub != "":
				b.denySecret(path, v.sub, "secret $"+v.name+"/"+v.sub, false)
			case !isSharedDir(strings.TrimRight(path, "/")):
				b.denySecret("/", path[1:], "secret $"+v.name, false)
			}
		}
	}
	for _, text := range systemSecrets {
		b.denySecret("/", text[len(systemPrefix)+1:], text, true)
	}
	for _, text := range mountedSecrets {
		b.denySecret("/", text[len(systemPrefix)+1:], text, false)
	}

	dev := PathRule{Path: "/dev", Access: Read, why: whyDevice, Rule: Rule{"devices other than null zero full random urandom tty ptmx pts", originPreset}}
	dev.Except = append(dev.Except, devices[:]...)
	dev.Except = append(dev.Except, "/dev/shm", "/dev/mqueue")
	for _, g := range granted {
		if below(g, "/dev") && !below(g, "/dev/shm") {
			dev.Except = append(dev.Except, g)
		}
	}
	b.deny(dev)
	if p.mode == modeRead {
		b.deny(PathRule{Path: "/dev/shm", Access: Read, why: whyShm, Rule: Rule{"shared memory of the host", originPreset}})
	}

	// Every run sees its own private directory alone. Locks are no run's: who may
	// read the file can hold up everybody who changes files.
	if p.tmp != "" {
		uid := strconv.Itoa(b.uid)
		var roots []string
		for _, suffix := range [...]string{"", "-kept", "-locks"} {
			roots = append(roots, "/var/tmp/dshx-"+uid+suffix, "/tmp/dshx-"+uid+suffix)
		}
		if own := parentOf(p.tmp); !slices.Contains(roots, own) {
			roots = append(roots, own)
		}
		for _, root := range roots {
			if !strings.HasPrefix(baseOf(root), "dshx-") {
				continue
			}
			// Where no run of this user has been, the deny would only cost a
			// Landlock rule for every entry of /tmp.
			if names, err := b.r.facts.ReadDir(root); len(names) == 0 && !isPermission(err) && !within(p.tmp, root) {
				continue
			}
			r := PathRule{Path: root, Access: Read, why: whyOtherTmp, Rule: Rule{"private directories of other runs", originPreset}}
			for _, o := range own { // of a dshx around this one, say
				if below(o, root) {
					r.Except = append(r.Except, o)
				}
			}
			b.deny(r)
		}
	}

	// What decides about the next run must not be written by this one. A file
	// that --config names may be anywhere, in the workspace too: like a deny that
	// a person gives it must not make the whole root useless.
	const text = "dshx's own configuration"
	if b.xdgConf != "" {
		b.deny(PathRule{Path: b.xdgConf, Access: Write, why: whyOwnConfig, Rule: Rule{text, originPreset}})
	}
	if path := configFile(b.user); path != "" && (b.xdgConf == "" || !within(path, b.xdgConf)) {
		origin := originPreset // a link in the directory led to it
		if b.req.ConfigFile != "" {
			origin = originFlag
		}
		b.deny(PathRule{Path: path, Access: Write, why: whyOwnConfig, Rule: Rule{text + " " + path, origin}})
	}

	for _, l := range b.layers() {
		if err := b.denyConfig(b.user, l); err != nil {
			return err
		}
	}
	if b.space != nil {
		if err := b.denyConfig(b.space, &b.space.policy); err != nil {
			return err
		}
	}
	for _, f := range [...]struct {
		flag  string
		paths []string
		a     Access
	}{{"--deny-read", b.req.DenyRead, Read}, {"--deny-write", b.req.DenyWrite, Write}} {
		for _, given := range f.paths {
			// A name is what the caller's shell sees. Files that a pattern
			// means may be where the caller is or in what commands may write:
			// it holds in both.
			bases := []string{b.pwd}
			if hasMeta(given) && p.workspace != b.pwd {
				bases = append(bases, p.workspace)
			}
			for _, base := range bases {
				if problem := b.denyPath(base, given, f.a, Rule{f.flag + " " + given, originFlag}); problem != "" {
					return &UsageError{f.flag, problem}
				}
			}
		}
	}
	if err := b.addAliases(); err != nil {
		return err
	}
	b.indexDenies()
	return nil
}

func configFile(c *config) string {
	if c == nil {
		return ""
	}
	return c.file
}

func (b *builder) denyConfig(c *config, l *policyLayer) error {
	for _, f := range [...]struct {
		list []value
		key  string
		a    Access
	}{{l.denyRead, "deny_read", Read}, {l.denyWrite, "deny_write", Write}} {
		for _, v := range f.list {
			if problem := badDeny(v.s); problem != "" {
				return c.errorAt(v, problem, "a path or a pattern")
			}
			if problem := b.denyPath(b.p.workspace, v.s, f.a, Rule{f.key + " = " + quote(v.s), c.origin(v.line)}); problem != "" {
				return c.errorAt(v, problem, "a path or a pattern")
			}
		}
	}
	return nil
}

// denyPath denies a path that a person gave, or each path or pattern that its
// braces stand for. problem is one sentence, or "".
func (b *builder) denyPath(base, given string, a Access, rule Rule) (problem string) {
	r := PathRule{Access: a, why: whyDeny, Rule: rule}
	alts, err := expandBraces(given)
	if err != nil {
		return "the pattern has " + err.Error()
	}
	for _, alt := range alts {
		// What "~" and a leading slash mean is decided for each: a shell, too,
		// expands braces first.
		if problem := b.denyOne(base, alt, r); problem != "" {
			return problem
		}
	}
	if len(alts) > 1 || alts[0] != given {
		b.denyName(base, given, r)
	}
	return ""
}

// denyOne denies a path or a pattern without braces.
func (b *builder) denyOne(base, given string, r PathRule) (problem string) {
	literal, problem := b.expandHome(given)
	if problem == "" && base == "" && literal[0] != '/' {
		problem = notRelative(given)
	}
	if problem != "" {
		return problem
	}
	if !hasMeta(given) {
		b.denyLiteral(from(base, literal), r)
		return ""
	}
	b.denyName(base, given, r)
	switch pattern, home := strings.CutPrefix(given, "~/"); {
	case home:
		// The home's own name is no pattern.
		base, given = b.p.home, pattern
	case given[0] == '/':
		base = "/"
	}
	g, err := compileGlob(base, given)
	if err != nil {
		return "the pattern has " + err.Error()
	}
	b.denyGlob(g, r)
	return ""
}

// denyName denies what is there by the very name of a pattern: a file whose
// name reads like one ("[id].ts") was meant too.
func (b *builder) denyName(base, given string, r PathRule) {
	literal, problem := b.expandHome(given)
	if problem != "" {
		return
	}
	literal = from(base, literal)
	if name, err := b.r.realParent(trimSlash(literal)); err == nil && b.r.kindOf(name) != entryMissing {
		b.denyLiteral(literal, r)
	}
}

// denySecret denies sub below dir.
func (b *builder) denySecret(dir, sub, text string, system bool) {
	r := PathRule{Access: Read, why: whySecret, System: system, Rule: Rule{text, originPreset}}
	if !strings.HasSuffix(sub, "*") && !strings.HasSuffix(sub, "_key") {
		b.denyLiteral(join(dir, sub), r)
		return
	}
	// A pattern in one directory; dir and sub are our own constants or an
	// absolute path without patterns.
	i := strings.LastIndexByte(sub, '/')
	base := dir
	if i >= 0 {
		base = join(dir, sub[:i])
	}
	if real, _, err := b.r.real(base); err == nil {
		if g, err := compileGlob(real, sub[i+1:]); err == nil {
			b.denyGlob(g, r)
		}
	}
}

// denyGlob denies a pattern. Its literal part is resolved: the pattern is
// matched with paths that have no links.
func (b *builder) denyGlob(g *glob, r PathRule) {
	if lit, ok := g.literal(); ok {
		b.denyLiteral(lit, r)
		return
	}
	dir := g.dir()
	if real, _, err := b.r.real(dir); err == nil {
		dir = real
	}
	b.denyPattern(g, dir, r)
}

// denyPattern denies what g says behind its literal part, in dir.
func (b *builder) denyPattern(g *glob, dir string, r PathRule) {
	n := 0
	for n < len(g.lit) && g.lit[n] {
		n++
	}
	ng := &glob{}
	for _, s := range strings.Split(dir, "/") {
		if s != "" {
			ng.segs, ng.lit = append(ng.segs, s), append(ng.lit, true)
		}
	}
	ng.segs, ng.lit = append(ng.segs, g.segs[n:]...), append(ng.lit, g.lit[n:]...)
	if len(ng.segs) > maxSegs {
		// Longer than positions fit: the directory itself is denied, which is
		// more than was asked, never less.
		b.denyLiteral(dir, r)
		return
	}
	q := r
	q.Glob, q.pat, q.Path, q.Dir = true, ng, ng.String(), dir
	b.deny(q)
	if q.OneLevel() {
		b.denyLinks(dir, ng.segs[len(ng.segs)-1], r)
	}
}

// denyLinks denies what the links in dir that match a pattern lead to: as with
// a name, the target has the secret. A directory that can't be read is passed
// over. The links that a pattern of several directories matches are not looked
// for: they may be anywhere.
func (b *builder) denyLinks(dir, pattern string, r PathRule) {
	if b.r.kindOf(dir) != entryDir {
		return
	}
	entries, err := b.r.facts.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if e.Type()&fs.ModeSymlink != 0 && matchSeg(pattern, e.Name()) {
			b.denyLiteral(join(dir, e.Name()), r)
		}
	}
}

// denyLiteral denies the name, and what it leads to if it is a link: the
// name, since the link may be replaced; the target, since it has the secret.
func (b *builder) denyLiteral(path string, r PathRule) {
	path = trimSlash(path)
	switch baseOf(path) {
	case "", ".", "..":
		// No name of its own: the directory that it resolves to.
		if real, _, err := b.r.real(path); err == nil {
			r.Path = real
			b.deny(r)
		} else if isClean(path) {
			r.Path = path
			b.deny(r)
		}
		return
	}
	name, err := b.r.realParent(path)
	if err != nil {
		// A loop of links above it: nothing is there, and whatever replaces
		// the loop is denied by this name as far as it says one.
		if isClean(path) {
			r.Path = path
			b.deny(r)
		}
		return
	}
	kind := b.r.kindOf(name)
	if kind == entryLink {
		if real, kind, err := b.r.real(name); err == nil && real != name {
			q := r
			q.Path, q.File = real, kind == entryFile
			b.deny(q)
		}
	}
	r.Path, r.File = name, kind == entryFile
	b.deny(r)
}

func trimSlash(path string) string {
	for len(path) > 1 && path[len(path)-1] == '/' {
		path = path[:len(path)-1]
	}
	return path
}

// deny adds a rule. Of two for the same path the first names it, unless the
// second denies more.
func (b *builder) deny(r PathRule) {
	p := b.p
	i := int32(len(p.deny))
	next := int32(-1)
	if r.Glob {
		for k := range p.deny {
			if d := &p.deny[k]; d.Glob && d.Path == r.Path && d.Access <= r.Access {
				return
			}
		}
	} else {
		head, ok := p.denyAt[r.Path]
		if ok {
			next = head
			for k := head; k >= 0; k = p.denyNext[k] {
				if len(p.deny[k].Except) == 0 && p.deny[k].Access <= r.Access {
					return
				}
			}
		}
		p.denyAt[r.Path] = i
	}
	p.deny = append(p.deny, r)
	p.denyNext = append(p.denyNext, next)
}

// indexDenies prepares Verdict: the patterns, and the directories above
// denies. Literal denies are indexed as they are added.
func (b *builder) indexDenies() {
	p := b.p
	p.denyAbove = make(map[string]int32, len(p.deny))
	above := func(path string, i int32) {
		for path != "/" {
			path = parentOf(path)
			if _, ok := p.denyAbove[path]; ok {
				return
			}
			p.denyAbove[path] = i
		}
	}
	for i := range p.deny {
		r := &p.deny[i]
		if r.Glob {
			p.denyGlobs = append(p.denyGlobs, int32(i))
			if r.OneLevel() {
				above(join(r.Dir, "*"), int32(i))
			}
			continue
		}
		above(r.Path, int32(i))
		for _, e := range r.Except {
			above(e, int32(i))
		}
	}
}

func (b *builder) indexWrites() {
	p := b.p
	p.writeAt = make(map[string]int32, len(p.write))
	for i := range p.write {
		if _, ok := p.writeAt[p.write[i].Path]; !ok {
			p.writeAt[p.write[i].Path] = int32(i)
		}
	}
}

func (b *builder) protectLiteral(path, name string) {
	if b.p.protAt == nil {
		b.p.protAt = make(map[string]string)
	}
	if k := protectedIndex(name); k != protNone && b.p.unprot&(1<<uint(k)) != 0 {
		return
	}
	b.p.protAt[path] = name
}

// Protected are the paths inside writable roots that make a host tool run
// code, as Verdict denies writes to them. The list is made when it is first
// asked for: a run that needs only verdicts does not pay for it.
func (p *Policy) Protected() []PathRule {
	p.protOnce.Do(p.listProtected)
	return p.protected
}

func (p *Policy) listProtected() {
	add := func(path, name string) {
		r := PathRule{Path: path, Access: Write, Rule: Rule{"protected " + name, originPreset}}
		p.protected = append(p.protected, r)
	}
	glob := func(root, pattern, name string) {
		pats, _ := expandBraces(pattern)
		for _, pat := range pats {
			g, err := compileGlob(root, pat)
			if err != nil {
				continue
			}
			p.protected = append(p.protected, PathRule{Path: g.String(), Access: Write, Glob: true, Dir: g.dir(), pat: g,
				Rule: Rule{"protected " + name, originPreset}})
		}
	}
	for i := range p.write {
		r := &p.write[i]
		if r.why != whyWorkspace && r.why != whyGrant {
			continue
		}
		for k, name := range protectedNames {
			if p.unprot&(1<<uint(k)) != 0 {
				continue
			}
			switch {
			case k >= protFirstTool:
				if within(p.workspace, r.Path) {
					add(join(p.workspace, strings.TrimSuffix(name, "/")), name)
				}
			case k == protModules:
				glob(r.Path, "**/.git/modules/**/{config,config.worktree,hooks,commondir,gitdir,info/attributes}", name)
			case k == protWorktrees:
				glob(r.Path, "**/.git/worktrees/*/{gitdir,commondir,config.worktree}", name)
			case k == protCommondir:
				glob(r.Path, "**/{.git,*.git}/{commondir,gitdir}", name)
			case k == protGit:
				glob(r.Path, "**/.git", name)
			default:
				glob(r.Path, "**/{.git,*.git}/"+strings.TrimSuffix(strings.TrimPrefix(name, ".git/"), "/"), name)
			}
		}
	}
	paths := make([]string, 0, len(p.protAt))
	for path := range p.protAt {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	for _, path := range paths {
		add(path, p.protAt[path])
	}
}
