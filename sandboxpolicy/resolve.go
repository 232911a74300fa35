package sandboxpolicy

import (
	"slices"
	"strconv"
	"strings"
)

const (
	originPreset = "preset"
	originFlag   = "flag"
)

// Request is what flags, or a caller, ask for. The zero value is the default
// preset with the current directory as the workspace and an empty
// environment.
type Request struct {
	Preset              string // "" for the configuration's, else the default
	Approvals           string // "ask" or "never"; "" for the preset's own
	Workspace           string // "" for the current directory; relative to it
	AllowBroadWorkspace bool   // accept "/", a home directory, or what contains one

	// Paths of flags: absolute, "~/…", or relative to the current directory.
	// A relative pattern is matched in the workspace, too.
	Write, Read, DenyRead, DenyWrite []string

	Network      Network // "" for the preset's and the configuration's
	AllowDomains []string

	Env     []string // NAME (pass the caller's) or NAME=VALUE
	KeepEnv bool     // pass everything that is not secret
	Environ []string // the caller's environment

	Limits Limits // zero fields: the configuration's

	ConfigFile string // read instead of the user's file
	NoConfig   bool   // read neither the user's nor the workspace's file

	// TmpDir is the private directory that becomes TMPDIR; absolute, made by
	// the caller. "" leaves the policy without one.
	TmpDir string
	Cwd    string // where commands start; "" for the current directory
	// InWorkspace has them start in the workspace where Cwd is "".
	InWorkspace bool

	// NoCacheArea says that the workspace's cache area can't be made: caches
	// then go into TmpDir, as they do under read-only.
	NoCacheArea bool
}

// builder is one resolution.
type builder struct {
	req     Request
	r       *resolver
	p       *Policy
	uid     int
	pwd     string // current directory, resolved
	account string // the account's home, resolved
	others  []string
	user    *config
	space   *config
	def     *presetDef // the user's of the preset, whatever it is called in the end
	notices []Notice
	xdgConf string // directory of the user's configuration, resolved
}

// Resolve makes the policy that req asks for on the disk that facts sees.
// The notices say what was asked for and is not granted.
//
// Errors: *UsageError (INVALID_ARGS) for what the request says, *ConfigError
// (CONFIG_INVALID) for a configuration file. Nothing is written.
func Resolve(req Request, facts Facts) (*Policy, []Notice, error) {
	b := &builder{req: req, r: newResolver(facts), p: &Policy{unprot: 0}, uid: facts.Getuid()}
	for _, step := range [...]func() error{
		b.findHomes, b.findWorkspace, b.readConfigs, b.choosePreset, b.findTmp,
		b.addDenies, b.addAllows, b.addLimits, b.findCwd, b.addEnv,
	} {
		if err := step(); err != nil {
			return nil, nil, err
		}
	}
	return b.p, b.notices, nil
}

func (b *builder) env(name string) string {
	for _, kv := range b.req.Environ {
		if len(kv) > len(name) && kv[len(name)] == '=' && kv[:len(name)] == name {
			return kv[len(name)+1:]
		}
	}
	return ""
}

func (b *builder) findHomes() error {
	resolve := func(path string) string {
		if path == "" || path[0] != '/' {
			return ""
		}
		real, _, err := b.r.real(path)
		if err != nil {
			return ""
		}
		return real
	}
	b.account = resolve(b.r.facts.AccountHome(b.uid))
	home := b.env("HOME")
	switch {
	case home == "":
		b.p.home = b.account
	case home[0] != '/':
		return &UsageError{Msg: "HOME is " + quote(home) + ", which is not absolute; set it to the home directory or unset it"}
	default:
		if b.p.home = resolve(home); b.p.home == "" {
			return &UsageError{Msg: "HOME is " + quote(home) + ", which can't be resolved (a loop of links); set it to the home directory or unset it"}
		}
	}
	for _, h := range b.r.facts.OtherHomes() {
		h = resolve(h)
		if h == "" || h == b.p.home || h == b.account || isSharedDir(h) {
			continue
		}
		b.others = append(b.others, h)
	}
	// XDG Base Directory Specification: relative values are invalid and are
	// to be ignored.
	if x := b.env("XDG_CONFIG_HOME"); strings.HasPrefix(x, "/") {
		b.xdgConf = resolve(join(x, "dshx"))
	} else if b.p.home != "" {
		b.xdgConf = resolve(join(b.p.home, ".config/dshx"))
	}
	return nil
}

func (b *builder) findWorkspace() error {
	wd, err := b.r.facts.Getwd()
	if err == nil {
		b.pwd, _, err = b.r.real(wd)
	}
	if err != nil {
		// It may have been removed: then nothing may be relative to it.
		b.pwd = ""
		if !absolute(b.req.Workspace) || !absolute(b.req.Cwd) && !(b.req.Cwd == "" && b.req.InWorkspace) {
			return &DirectoryError{"the current directory can't be used: " + reason(err) + "; give --workspace and --cwd, both absolute"}
		}
	}

	given, flag := b.req.Workspace, "--workspace"
	b.p.workspaceOrg = originFlag
	if given == "" {
		given, flag = b.pwd, ""
		b.p.workspaceOrg = originPreset
	}
	ws, err := b.directory(flag, given, "workspace")
	if err != nil {
		return err
	}
	if what := b.broad(ws); what != "" && !b.req.AllowBroadWorkspace {
		return &UsageError{flag, "the workspace resolves to " + quote(ws) + ", which is " + what +
			"; choose a directory below it, or give --allow-broad-workspace"}
	}
	b.p.workspace = ws
	return nil
}

func absolute(path string) bool {
	return strings.HasPrefix(path, "/") || path == "~" || strings.HasPrefix(path, "~/")
}

// directory resolves a flag's directory, which must exist.
func (b *builder) directory(flag, given, what string) (string, error) {
	path, err := b.flagPath(flag, given)
	if err != nil {
		return "", err
	}
	dir, kind, err := b.r.real(path)
	switch {
	case err != nil:
		return "", &UsageError{flag, "the " + what + " " + quote(given) + " can't be resolved: " + err.Error()}
	case kind == entryMissing:
		return "", &UsageError{flag, "the " + what + " " + quote(dir) + " does not exist"}
	case kind != entryDir:
		return "", &UsageError{flag, "the " + what + " " + quote(dir) + " is not a directory"}
	}
	return dir, nil
}

// broad says what makes a directory too broad for a workspace, or "".
func (b *builder) broad(ws string) string {
	switch {
	case ws == "/":
		return "the root of the file system"
	case ws == b.p.home || ws == b.account:
		return "the home directory"
	case ws == "/home" || ws == "/root":
		return "where home directories are"
	}
	for _, h := range [...]string{b.p.home, b.account} {
		if h != "" && within(h, ws) {
			return "above the home directory"
		}
	}
	for _, h := range b.others {
		if h == ws {
			return "a home directory"
		}
		if within(h, ws) {
			return "above a home directory"
		}
	}
	return ""
}

// flagPath makes a flag's path absolute.
func (b *builder) flagPath(flag, given string) (string, error) {
	path, err := b.expandHome(given)
	if err != "" {
		return "", &UsageError{flag, err}
	}
	if b.pwd == "" && path[0] != '/' {
		return "", &UsageError{flag, notRelative(given)}
	}
	return from(b.pwd, path), nil
}

func notRelative(given string) string {
	return quote(given) + " is relative to the current directory, which can't be used; give an absolute path"
}

// expandHome checks a path that a person gave and expands "~". problem is
// one sentence, or "".
func (b *builder) expandHome(given string) (path, problem string) {
	switch {
	case given == "":
		return "", "the path is empty"
	case strings.IndexByte(given, 0) >= 0:
		return "", "the path holds a NUL byte"
	case given == "~" || strings.HasPrefix(given, "~/"):
		home := b.p.home
		if home == "" {
			return "", "~ can't be resolved: neither HOME nor the account names a home directory"
		}
		return join(home, strings.TrimPrefix(given[1:], "/")), ""
	}
	return given, ""
}

func (b *builder) readConfigs() error {
	if b.req.NoConfig {
		if b.req.ConfigFile != "" {
			return &UsageError{"--no-config", "can't be given together with --config"}
		}
		return nil
	}
	var err error
	if b.req.ConfigFile != "" {
		path, err := b.flagPath("--config", b.req.ConfigFile)
		if err != nil {
			return err
		}
		if b.user, err = b.readConfig(path, "user-config"); err != nil {
			return err
		}
		if b.user == nil {
			return &ConfigError{File: path, Problem: "no such file", Expected: "a configuration file"}
		}
	} else if b.xdgConf != "" {
		if b.user, err = b.readConfig(join(b.xdgConf, "config.toml"), "user-config"); err != nil {
			return err
		}
	}
	own := join(b.p.workspace, ".dshx/config.toml")
	if real, _, err := b.r.real(own); err == nil && !within(real, b.p.workspace) {
		// What is wrong in it would be printed.
		return &ConfigError{File: own, Problem: "leads out of the workspace, to " + real, Expected: "a file of the workspace"}
	}
	b.space, err = b.readConfig(own, "workspace-config")
	if b.user != nil && b.space != nil && b.user.file == b.space.file {
		b.space = nil // --config named the workspace's own: the user adopts it
	}
	return err
}

// readConfig decodes a file, or returns nil where there is none.
func (b *builder) readConfig(path, layer string) (*config, error) {
	file, kind, err := b.r.real(path)
	if err != nil {
		return nil, &ConfigError{File: path, Problem: err.Error(), Expected: "a regular file"}
	}
	switch kind {
	case entryMissing:
		// A directory that can't be searched would hide denies.
		if _, err := b.r.facts.Lstat(file); isPermission(err) {
			return nil, &ConfigError{File: file, Problem: "permission denied", Expected: "a readable file; or give --no-config"}
		}
		return nil, nil
	case entryFile:
	default:
		return nil, &ConfigError{File: file, Problem: "not a regular file", Expected: "a regular file"}
	}
	data, err := b.r.facts.ReadFile(file)
	if err != nil {
		return nil, &ConfigError{File: file, Problem: reason(err), Expected: "a readable file of at most 1 MiB"}
	}
	return decodeConfig(file, layer, data)
}

// choosePreset decides preset, approvals, unknown commands, network.
func (b *builder) choosePreset() error {
	p := b.p
	name, origin := DefaultPreset, originPreset
	if b.user != nil && b.user.preset.set() {
		name, origin = b.user.preset.s, b.user.origin(b.user.preset.line)
		if _, ok := builtinPreset(name); !ok && b.user.findPreset(name) == nil {
			return b.user.errorAt(b.user.preset, "unknown preset "+quote(name), "one of "+oneOf(b.presetNames()))
		}
	}
	flagged := b.req.Preset != ""
	if flagged {
		name, origin = b.req.Preset, originFlag
	}
	def := b.user.findPreset(name)
	b.def, p.presets = def, b.presetNames()
	base, ok := builtinPreset(name)
	switch {
	case def != nil:
		base = builtins[modeWrite]
		if def.base.set() {
			base, _ = builtinPreset(def.base.s)
		}
	case !ok:
		return &UsageError{"--preset", "unknown preset " + quote(name) + "; there are " + oneOf(b.presetNames())}
	}
	p.preset, p.presetOrigin, p.mode = name, origin, base.mode
	p.network, p.networkOrg = base.network, originPreset
	p.approvals, p.approvalsOrg = base.approvals, originPreset
	p.unknownCmds, p.unknownOrg = "allow", originPreset

	layers := b.userLayers(def)
	for _, l := range layers { // the named preset's own comes last
		if l.network.set() {
			p.network, p.networkOrg = Network(l.network.s), b.user.origin(l.network.line)
		}
	}
	if def != nil && def.approvals.set() {
		p.approvals, p.approvalsOrg = def.approvals.s, b.user.origin(def.approvals.line)
	}
	if b.user != nil && b.user.unknown.set() {
		p.unknownCmds, p.unknownOrg = b.user.unknown.s, b.user.origin(b.user.unknown.line)
	}
	if err := b.tighten(flagged); err != nil {
		return err
	}

	if b.req.Network != "" {
		if b.req.Network.rank() < 0 {
			return &UsageError{"--network", "unknown mode " + quote(string(b.req.Network)) + "; there are none, loopback, full"}
		}
		p.network, p.networkOrg = b.req.Network, originFlag
	}
	if a := b.req.Approvals; a != "" {
		if a != "ask" && a != "never" {
			return &UsageError{Msg: "unknown approvals " + quote(a) + "; there are ask, never"}
		}
		if a != p.approvals {
			p.preset = "custom"
		}
		p.approvals, p.approvalsOrg = a, originFlag
	}
	if p.mode == modeFull {
		switch {
		case len(b.req.DenyRead) > 0:
			return &UsageError{"--deny-read", "can't be enforced under danger-full-access, which confines nothing"}
		case len(b.req.DenyWrite) > 0:
			return &UsageError{"--deny-write", "can't be enforced under danger-full-access, which confines nothing"}
		case p.network != NetworkFull && p.networkOrg == originFlag:
			return &UsageError{"--network", "can't be narrowed under danger-full-access, which confines nothing"}
		}
		if p.network != NetworkFull {
			b.configIgnored(p.networkOrg, "network", "can't be enforced under danger-full-access")
		}
		p.network, p.networkOrg = NetworkFull, originPreset
	}
	for _, l := range layers {
		for _, d := range l.domains {
			p.domains = append(p.domains, originString{d.s, b.user.origin(d.line)})
		}
	}
	for _, d := range b.req.AllowDomains {
		if problem := checkDomain(d); problem != "" {
			return &UsageError{"--allow-domain", quote(d) + " " + problem}
		}
		p.domains = append(p.domains, originString{d, originFlag})
	}
	if b.user != nil {
		for _, c := range b.user.commands {
			if c.allowsEverything() {
				b.notices = append(b.notices, Notice{NoticeConfigWarning, b.user.file,
					"the rule in " + b.user.file + ":" + strconv.Itoa(c.at.line) + " allows " + quote(c.Prefix[0]) +
						", which runs whatever its arguments say; name more of the command in its prefix"})
			}
			p.commands = append(p.commands, c.CommandRule)
		}
	}
	if b.space != nil {
		for _, c := range b.space.commands {
			if c.Rule == "allow" {
				b.wider(c.at)
				continue
			}
			p.commands = append(p.commands, c.CommandRule)
		}
	}
	p.indexCommands()
	return nil
}

// userLayers are the user's [policy] and the chosen preset's own.
func (b *builder) userLayers(def *presetDef) []*policyLayer {
	var out []*policyLayer
	if b.user != nil {
		out = append(out, &b.user.policy)
	}
	if def != nil {
		out = append(out, &def.policy)
	}
	return out
}

// layers are the user's layers of the policy under construction.
func (b *builder) layers() []*policyLayer { return b.userLayers(b.def) }

func (b *builder) presetNames() []string {
	names := PresetNames()
	if b.user != nil {
		for i := range b.user.presets {
			names = append(names, b.user.presets[i].name.s)
		}
	}
	return names
}

// tighten applies what the workspace's file may say about preset and
// network, and names what it may not. A preset that a flag chose stands. A name
// that nobody defines is a mistake all the same: dropped, it would leave the
// wider policy in force that it was to narrow.
func (b *builder) tighten(flagged bool) error {
	c, p := b.space, b.p
	if c == nil {
		return nil
	}
	if name := c.preset.s; c.preset.set() && !slices.Contains(b.presetNames(), name) && c.findPreset(name) == nil {
		return c.errorAt(c.preset, "unknown preset "+quote(name), "one of "+oneOf(b.presetNames()))
	}
	if c.preset.set() && !flagged {
		base, ok := builtinPreset(c.preset.s)
		switch {
		case ok && base.mode < p.mode:
			// The user's denies and network stay; what only the wider base
			// gave goes with it.
			if p.mode == modeFull {
				p.network, p.networkOrg = base.network, originPreset
			}
			p.mode, p.presetOrigin = base.mode, c.origin(c.preset.line)
			p.approvals, p.approvalsOrg = base.approvals, c.origin(c.preset.line)
			if b.user.findPreset(p.preset) == nil {
				p.preset = base.name
			}
		case c.preset.s == p.preset:
		default:
			b.wider(c.preset)
		}
	}
	if c.unknown.set() {
		if strictness(c.unknown.s) > strictness(p.unknownCmds) {
			p.unknownCmds, p.unknownOrg = c.unknown.s, c.origin(c.unknown.line)
		} else if c.unknown.s != p.unknownCmds {
			b.wider(c.unknown)
		}
	}
	if n := c.policy.network; n.set() {
		switch rank := Network(n.s).rank(); {
		case rank < p.network.rank():
			p.network, p.networkOrg = Network(n.s), c.origin(n.line)
		case rank > p.network.rank():
			b.wider(n)
		}
	}
	for _, list := range [...][]value{c.policy.read, c.policy.write, c.policy.unprotect, c.policy.domains, c.policy.env} {
		if len(list) > 0 {
			b.wider(list[0])
		}
	}
	for i := range c.presets {
		b.wider(c.presets[i].name)
	}
	return nil
}

func strictness(rule string) int {
	switch rule {
	case "ask":
		return 1
	case "deny":
		return 2
	}
	return 0
}

// wider names a key of the workspace's file that is ignored.
func (b *builder) wider(v value) {
	b.notices = append(b.notices, Notice{NoticeConfigIgnored, b.space.file,
		v.key + " in " + b.space.file + ":" + strconv.Itoa(v.line) + " would widen the policy and is ignored; put it in your own configuration, or give a flag"})
}

func (b *builder) configIgnored(origin, key, why string) {
	_, file, _ := strings.Cut(origin, " ")
	if i := strings.LastIndexByte(file, ':'); i >= 0 {
		file = file[:i]
	}
	b.notices = append(b.notices, Notice{NoticeConfigIgnored, file, key + " (" + origin + ") " + why + " and is ignored"})
}

func (b *builder) findTmp() error {
	p := b.p
	if t := b.req.TmpDir; t != "" {
		if t[0] != '/' {
			return &UsageError{Msg: "the private TMPDIR " + quote(t) + " is not absolute"}
		}
		dir, _, err := b.r.real(t)
		if err != nil {
			return &UsageError{Msg: "the private TMPDIR " + quote(t) + " can't be resolved: " + err.Error()}
		}
		p.tmp = dir
	}
	if p.mode == modeWrite && !b.req.NoCacheArea {
		// One area for each workspace: what one workspace's commands put in
		// a cache must not reach the builds of another, or of the host.
		base := b.env("XDG_CACHE_HOME")
		if !strings.HasPrefix(base, "/") {
			base = ""
			if p.home != "" {
				base = join(p.home, ".cache")
			}
		}
		if base != "" {
			if dir, _, err := b.r.real(join(base, "dshx/ws"+cacheName(p.workspace))); err == nil {
				p.cache = dir
			}
		}
	}
	return nil
}

// cacheName is a name for the workspace that no other has: another's cache
// would reach this one's builds. It is the path itself, escaped, and cut into
// directories that no whole name equals: names have at most 255 bytes.
func cacheName(ws string) string {
	const most = 200
	s := strings.NewReplacer("+", "+p", "/", "+s").Replace(ws)
	var b strings.Builder
	for len(s) > most {
		b.WriteString(s[:most])
		b.WriteString("-/")
		s = s[most:]
	}
	return b.String() + s + "="
}

func (b *builder) addAllows() error {
	p := b.p
	p.read = append(p.read, PathRule{Path: "/", Access: Read, Rule: Rule{"reading is allowed, but for secrets", originPreset}})
	if p.mode == modeFull {
		p.read[0].Rule.Text = "danger-full-access confines nothing"
		p.write = append(p.write, PathRule{Path: "/", Access: Write, Rule: p.read[0].Rule})
		return nil
	}
	add := func(path, text, origin string, w why) {
		p.write = append(p.write, PathRule{Path: path, Access: Write, Rule: Rule{text, origin}, why: w, Sink: w == whyDevice})
	}
	if p.tmp != "" {
		add(p.tmp, "private TMPDIR", originPreset, whyTmp)
	}
	for _, d := range devices {
		add(d, "device "+d, originPreset, whyDevice)
	}
	if p.mode == modeWrite {
		add(p.workspace, "workspace "+p.workspace, p.workspaceOrg, whyWorkspace)
		if p.cache != "" {
			add(p.cache, "cache area of the workspace", originPreset, whyCache)
		}
		add("/dev/shm", "shared memory", originPreset, whyShm)
	}
	for _, l := range b.layers() {
		for _, v := range l.unprotect {
			p.unprot |= 1 << uint(protectedIndex(v.s))
		}
		if err := b.grantAll(l.read, Read, "read"); err != nil {
			return err
		}
		if err := b.grantAll(l.write, Write, "write"); err != nil {
			return err
		}
	}
	for _, g := range b.req.Read {
		if err := b.grantFlag("--read", g, Read); err != nil {
			return err
		}
	}
	for _, g := range b.req.Write {
		if err := b.grantFlag("--write", g, Write); err != nil {
			return err
		}
	}
	b.indexWrites()
	if w := p.writing(p.workspace); w != nil && w.why != whyTmp {
		b.findGit()
		b.indexWrites()
	}
	return nil
}

// grantPaths resolves what --read, --write and their configuration name: what is
// given of other homes and of devices is an exception from their denies.
func (b *builder) grantPaths() (paths []string, err error) {
	add := func(path string) {
		if real, kind, err := b.r.real(path); err == nil && kind != entryMissing && b.ledOut(real) == "" {
			paths = append(paths, real)
		}
	}
	for _, l := range b.layers() {
		for _, list := range [...][]value{l.read, l.write} {
			for _, v := range list {
				path, problem := b.configPath(v.s)
				if problem != "" {
					return nil, b.user.errorAt(v, problem, "a path")
				}
				add(path)
			}
		}
	}
	for _, f := range [...]struct {
		flag  string
		paths []string
	}{{"--read", b.req.Read}, {"--write", b.req.Write}} {
		for _, g := range f.paths {
			path, err := b.flagPath(f.flag, g)
			if err != nil {
				return nil, err
			}
			add(path)
		}
	}
	return paths, nil
}

func (b *builder) grantAll(list []value, a Access, key string) error {
	for _, v := range list {
		path, problem := b.configPath(v.s)
		if problem != "" {
			return b.user.errorAt(v, problem, "a path")
		}
		b.grant(path, key+" = "+quote(v.s), b.user.origin(v.line), a)
	}
	return nil
}

func (b *builder) grantFlag(flag, given string, a Access) error {
	path, err := b.flagPath(flag, given)
	if err != nil {
		return err
	}
	b.grant(path, flag+" "+given, originFlag, a)
	return nil
}

// grant allows what is at path now: a missing path has nothing to allow, and
// what appears there later may be anybody's.
func (b *builder) grant(path, text, origin string, a Access) {
	real, kind, err := b.r.real(path)
	if err != nil || kind == entryMissing {
		b.configIgnored(origin, text, "names nothing that exists (make it first)")
		return
	}
	if link := b.ledOut(real); link != "" {
		b.configIgnored(origin, text, "leads out of the workspace by "+link+", which an earlier command can have put there: name "+real+" itself")
		return
	}
	for _, d := range b.p.deny {
		if (d.Access == Read || a == Write) && d.Match(real) {
			b.configIgnored(origin, text, "is denied ("+d.Rule.Text+"), and a deny wins,")
			return
		}
	}
	rule := PathRule{Path: real, Access: a, Rule: Rule{text, origin}, why: whyGrant}
	if a == Write {
		// A device that is named stays one: it may be written, not replaced.
		rule.Sink = kind == entryOther && within(real, "/dev")
		b.p.write = append(b.p.write, rule)
	} else {
		b.p.read = append(b.p.read, rule)
	}
}

// ledOut is the link in the workspace by which the last call of real came to a
// place outside of it, or "".
func (b *builder) ledOut(real string) string {
	if within(real, b.p.workspace) {
		return ""
	}
	for _, link := range b.r.via {
		if within(link, b.p.workspace) {
			return link
		}
	}
	return ""
}

// configPath makes a configuration's path absolute; problem is one sentence.
func (b *builder) configPath(s string) (path, problem string) {
	if p := badPath(s); p != "" {
		return "", p
	}
	path, problem = b.expandHome(s)
	return from(b.p.workspace, path), problem
}

// badPath checks the form of a configuration's path, as the contract lists
// the forms.
func badPath(s string) string {
	switch {
	case s == "":
		return "the path is empty"
	case strings.IndexByte(s, 0) >= 0:
		return "the path holds a NUL byte"
	case s[0] == '~' && s != "~" && !strings.HasPrefix(s, "~/"):
		return "~user is not expanded"
	case strings.IndexByte(s, '$') >= 0:
		return "variables are not expanded"
	}
	depth := 0
	for rest := strings.TrimPrefix(strings.TrimPrefix(s, "~"), "/"); rest != ""; {
		var name string
		name, rest, _ = strings.Cut(rest, "/")
		switch name {
		case "", ".":
		case "..":
			if depth--; depth < 0 {
				return ".. leads above where the path starts"
			}
		default:
			depth++
		}
	}
	return ""
}

func (b *builder) addLimits() error {
	p := b.p
	for i := 0; i < numLimits; i++ {
		if b.user != nil && b.user.limits[i].line > 0 {
			p.limits.set(i, b.user.limits[i].n)
			p.limOrg[i] = b.user.origin(b.user.limits[i].line)
		}
		if b.space != nil && b.space.limits[i].line > 0 {
			v := b.space.limits[i]
			if cur := p.limits.get(i); cur == 0 || v.n < cur {
				p.limits.set(i, v.n)
				p.limOrg[i] = b.space.origin(v.line)
			} else if v.n > cur {
				b.wider(value{key: v.key, line: v.line, col: v.col})
			}
		}
		if n := b.req.Limits.get(i); n != 0 {
			if n < 0 || i == limPids && n > 1<<22 {
				return &UsageError{"--" + limitNames[i], "out of range"}
			}
			p.limits.set(i, n)
			p.limOrg[i] = originFlag
		}
	}
	return nil
}

// findCwd decides where commands start. The policy must leave them that
// place, and the workspace.
func (b *builder) findCwd() error {
	p := b.p
	cwd := b.pwd
	flag := ""
	switch {
	case b.req.Cwd == "" && b.req.InWorkspace:
		cwd = p.workspace
	case b.req.Cwd != "":
		flag = "--cwd"
		var err error
		if cwd, err = b.directory(flag, b.req.Cwd, "directory"); err != nil {
			return &DirectoryError{err.Error()}
		}
	}
	p.cwd = cwd
	if p.mode == modeFull {
		return nil
	}
	if r := p.denying(p.workspace, Read); r != nil {
		return &UsageError{"--workspace", "the workspace " + quote(p.workspace) + " can't be read under this policy: " + r.Rule.Text + " (" + r.Rule.Origin + ")"}
	}
	if r := p.denying(cwd, Read); r != nil {
		if flag != "" {
			return &DirectoryError{flag + ": the directory " + quote(cwd) + " can't be read under this policy: " + r.Rule.Text + " (" + r.Rule.Origin + ")"}
		}
		return &UsageError{flag, "the directory " + quote(cwd) + " can't be read under this policy: " + r.Rule.Text + " (" + r.Rule.Origin + ")"}
	}
	return nil
}

func quote(s string) string { return strconv.Quote(s) }

func checkDomain(s string) string {
	host, port := s, ""
	if i := strings.LastIndexByte(s, ':'); i >= 0 && !strings.HasSuffix(s, "]") {
		host, port = s[:i], s[i+1:]
		if n, ok := wholeNumber(port); !ok || n < 1 || n > 65535 {
			return "has no port from 1 to 65535"
		}
	}
	if host == "" {
		return "has no host"
	}
	if strings.HasPrefix(host, "[") != strings.HasSuffix(host, "]") {
		return "has an unclosed bracket"
	}
	if strings.ContainsAny(host, "/@?# \t\r\n\x00") || !strings.HasPrefix(host, "[") && strings.IndexByte(host, ':') >= 0 {
		return "is not HOST or HOST:PORT"
	}
	return ""
}
