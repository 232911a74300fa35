package sandbox

import (
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/dshx/dshx/sandbox/internal/landlock"
	"github.com/dshx/dshx/sandboxpolicy"
)

// Enforcement says what of a policy the kernel enforces.
type Enforcement struct {
	Preset     string   `json:"preset"`
	Isolation  string   `json:"isolation"`
	Level      string   `json:"level"` // full, partial, none
	Mechanisms []string `json:"mechanisms"`
	Gaps       []Gap    `json:"gaps"`
}

// RequireFull is nil where every promise of the policy is held; a policy that
// promises nothing holds all of them.
//
// Errors: *UnavailableError.
func (e Enforcement) RequireFull() error {
	if len(e.Gaps) == 0 {
		return nil
	}
	names := make([]string, len(e.Gaps))
	for i, g := range e.Gaps {
		names[i] = g.Promise
	}
	return &UnavailableError{Reason: "--require full: this host leaves gaps (" + strings.Join(names, ", ") + ")", Remedy: "see dshx doctor"}
}

// Gap is a promise of the policy that isn't held, why, and what would help.
type Gap struct {
	Promise string `json:"promise"`
	Reason  string `json:"reason"`
	Remedy  string `json:"remedy"`
}

// state is what the promises are judged by: what the policy wants, and what
// is there to hold it.
type state struct {
	p *sandboxpolicy.Policy
	h *Host
	// nested: an outer dshx holds the only listener, so no supervisor of
	// ours answers.
	nested bool
	// marks: processes can be marked.
	marks bool
	model *landlock.Model // made when it is asked for
	// namespaces: the commands have mounts, processes and networks of their
	// own. No mechanism here makes them yet.
	namespaces bool
}

func (s *state) supervised() bool { return s.h.Seccomp.Listener && !s.nested }

// names: the supervisor makes the names that Landlock can't grant.
func (s *state) names() bool { return s.supervised() && s.h.Seccomp.AddFD }

const (
	noNamespaces   = "no namespaces are used"
	needNamespaces = "no remedy in this version; a later one " + laterSeparates
	laterSeparates = "separates it with namespaces"
	needScope      = "use Linux 6.12 or later (Landlock ABI 6)"
	needTruncate   = "use Linux 6.2 or later (Landlock ABI 3)"
	needRefer      = "use Linux 5.19 or later (Landlock ABI 2)"
	needNames      = "run dshx outside of another dshx, on Linux 5.9 or later"
	needSupervisor = "run dshx outside of another dshx, on a kernel with seccomp user notification (Linux 5.0)"
)

// mechanisms are what enforces, in the order in which it is applied, each with
// whether it takes part in a state.
var mechanisms = []struct {
	name  string
	works func(*state) bool
}{
	{"landlock", func(s *state) bool { return s.h.LandlockABI > 0 }},
	{"seccomp", func(s *state) bool { return s.h.Seccomp.Filter }},
	{"notify", (*state).supervised},
}

// ruleset is what Landlock makes of the policy.
func (s *state) ruleset() *landlock.Model {
	if s.model == nil {
		s.model = landlock.NewModel(s.p, s.h.LandlockABI)
	}
	return s.model
}

// A promise is one row: gap returns why it isn't held where a policy makes it
// (sandboxpolicy.Policy.Promises says which it makes), or nil.
type promise struct {
	name sandboxpolicy.Promise
	gap  func(*state) *Gap
}

func held(*state) *Gap { return nil }

func needsSupervisor(what string) func(*state) *Gap {
	return func(s *state) *Gap {
		if s.supervised() {
			return nil
		}
		if s.nested {
			return &Gap{Reason: "an outer dshx holds the only supervisor: " + what + " follow its policy", Remedy: needSupervisor}
		}
		return &Gap{Reason: "no seccomp user notification: " + what + " are not judged", Remedy: needSupervisor}
	}
}

// promises is the one place that decides what is a gap. The names and their
// order are the contract's.
var promises = []promise{
	{sandboxpolicy.PromiseWrite, writeGap},
	{sandboxpolicy.PromiseSecrets, func(s *state) *Gap {
		return unmadeGap(sandboxpolicy.Read, s.unmade(sandboxpolicy.Read)...)
	}},
	{sandboxpolicy.PromiseProtectedPaths, func(s *state) *Gap {
		if s.namespaces {
			return nil
		}
		return &Gap{Reason: noNamespaces + ": files below the workspace that make host tools run code (.git/hooks, .git/config, .vscode …) can be written" +
			protectedOutside(s.p), Remedy: needNamespaces}
	}},
	{sandboxpolicy.PromiseMetadata, needsSupervisor("changes of mode, owner, times and attributes")},
	{sandboxpolicy.PromiseUnixSockets, needsSupervisor("connections to Unix sockets")},
	{sandboxpolicy.PromiseUnixDatagram, needsSupervisor("datagrams to Unix sockets")},
	{sandboxpolicy.PromiseAbstractSockets, func(s *state) *Gap {
		if s.h.LandlockABI >= landlock.ABIScope || s.supervised() {
			return nil
		}
		return &Gap{Reason: s.abi() + " doesn't scope abstract sockets", Remedy: needScope}
	}},
	{sandboxpolicy.PromiseNetwork, func(s *state) *Gap {
		if s.p.Network() != sandboxpolicy.NetworkLoopback {
			return nil // the filter refuses the sockets themselves
		}
		return needsSupervisor("addresses")(s)
	}},
	{sandboxpolicy.PromiseOwnLoopback, func(s *state) *Gap {
		if s.namespaces {
			return nil
		}
		if s.p.Network() == sandboxpolicy.NetworkLoopback {
			return &Gap{Reason: noNamespaces + ": the loopback interface is the host's", Remedy: needNamespaces}
		}
		return &Gap{Reason: noNamespaces + ": internet sockets are refused altogether", Remedy: "--network loopback allows the host's; a later version " + laterSeparates}
	}},
	{sandboxpolicy.PromiseSignals, func(s *state) *Gap {
		if s.h.LandlockABI >= landlock.ABIScope || s.supervised() && s.marks {
			return nil
		}
		return &Gap{Reason: s.abi() + " doesn't scope signals", Remedy: needScope}
	}},
	{sandboxpolicy.PromiseProcesses, held}, // Landlock denies tracing up and across, from ABI 1
	{sandboxpolicy.PromiseScheduling, needsSupervisor("scheduling and limits of other processes")},
	{sandboxpolicy.PromiseDevices, func(s *state) *Gap {
		if s.namespaces {
			return nil
		}
		pipes := "but for one that its own shell reads from"
		if s.h.Root {
			pipes = "standard input, too, since this is uid 0"
		}
		return &Gap{Reason: noNamespaces + ": other terminals of this user in /dev/pts can be opened, and a pipe that the caller passes in its other direction (" + pipes + ")",
			Remedy: needNamespaces}
	}},
	{sandboxpolicy.PromiseShm, func(s *state) *Gap {
		if s.namespaces {
			return nil
		}
		what := "System V shared memory and message queues are"
		if writes(s.p, "/dev/shm") {
			what = "/dev/shm, System V shared memory and message queues are"
		}
		return &Gap{Reason: noNamespaces + ": " + what + " shared with the host", Remedy: needNamespaces}
	}},
	{sandboxpolicy.PromiseKernelSurface, held},
	{sandboxpolicy.PromiseMemory, perProcess("memory", "address space")},
	{sandboxpolicy.PromisePids, func(*state) *Gap {
		return &Gap{Reason: "the limit counts all processes of this user, not the command's alone, and does not bind uid 0", Remedy: needNamespaces}
	}},
	{sandboxpolicy.PromiseCPUTime, perProcess("cpu-time", "processor time")},
	{sandboxpolicy.PromiseFileSize, held},
	{sandboxpolicy.PromiseTmpSize, func(*state) *Gap {
		return &Gap{Reason: "the private TMPDIR is a plain directory, whose size isn't bounded", Remedy: needNamespaces}
	}},
	{sandboxpolicy.PromiseLifetime, func(s *state) *Gap {
		if s.h.LandlockABI >= landlock.ABIScope || s.marks {
			return nil
		}
		return &Gap{Reason: s.abi() + " doesn't scope signals, and processes can't be marked here: if dshx is killed, what left the command's own process stays", Remedy: needScope}
	}},
}

// protectedOutside names what is granted of git directories outside the
// workspace and would be protected: each is granted as a tree.
func protectedOutside(p *sandboxpolicy.Policy) string {
	var out strings.Builder
	for _, g := range p.GitDirs() {
		var names []string
		for _, r := range p.Protected() {
			if !r.Glob && below(r.Path, g.Path) {
				names = append(names, r.Path[len(g.Path)+1:])
			}
		}
		if len(names) > 0 {
			out.WriteString(", and in its git directory outside of it, " + g.Path + ": " + strings.Join(names, ", "))
		}
	}
	return out.String()
}

func (s *state) abi() string { return "Landlock ABI " + strconv.Itoa(s.h.LandlockABI) }

func writeGap(s *state) *Gap {
	if s.h.LandlockABI < landlock.ABITruncate {
		// truncate(2) is supervised; open(2) with O_RDONLY|O_TRUNC is not
		// judged by Landlock before ABI 3 (landlock(7)).
		return &Gap{Reason: s.abi() + " doesn't judge truncation: files elsewhere can be emptied by opening them", Remedy: needTruncate}
	}
	return unmadeGap(sandboxpolicy.Write, s.unmade(sandboxpolicy.Write)...)
}

// unmade are the denies of reading, or of writing, that Landlock can't make, by
// their texts.
func (s *state) unmade(a sandboxpolicy.Access) []string {
	var out []string
	for _, d := range s.p.Deny() {
		if d.Access == a && !s.ruleset().Makes(d) && !slices.Contains(out, d.Rule.Text) {
			out = append(out, d.Rule.Text)
		}
	}
	return out
}

// maxNamed is how many rules a gap names; dshx policy show has all.
const maxNamed = 20

// unmadeGap is the gap of denies that Landlock can't make, or nil without any.
func unmadeGap(a sandboxpolicy.Access, rules ...string) *Gap {
	if len(rules) == 0 {
		return nil
	}
	which := strings.Join(rules[:min(len(rules), maxNamed)], ", ")
	if more := len(rules) - maxNamed; more > 0 {
		which += " and " + strconv.Itoa(more) + " more"
	}
	if a == sandboxpolicy.Write {
		return &Gap{Reason: "Landlock can't refuse writes below a writable root: " + which, Remedy: needNamespaces}
	}
	return &Gap{Reason: "Landlock can't hide a part of a writable root, or what a pattern matches: " + which,
		Remedy: "keep it outside of what may be written; a later version " + laterSeparates}
}

// gapOf is the gap of a promise where the policy makes it, or nil.
func (s *state) gapOf(name sandboxpolicy.Promise) *Gap {
	if !slices.Contains(s.p.Promises(), name) {
		return nil
	}
	for i := range promises {
		if p := &promises[i]; p.name == name {
			return named(name, p.gap(s))
		}
	}
	return nil
}

func named(name sandboxpolicy.Promise, g *Gap) *Gap {
	if g != nil {
		g.Promise = string(name)
	}
	return g
}

func perProcess(name, what string) func(*state) *Gap {
	return func(*state) *Gap {
		return &Gap{Reason: "--" + name + " bounds the " + what + " of each process, not of all together", Remedy: "none in this version; a later one uses control groups"}
	}
}

// enforcement computes what is enforced of the policy in a state.
func (s *state) enforcement() Enforcement {
	e := Enforcement{Preset: s.p.Preset(), Isolation: "landlock", Level: "full", Mechanisms: []string{}, Gaps: []Gap{}}
	if s.p.Full() {
		e.Isolation, e.Level = "none", "none"
		return e
	}
	for _, m := range mechanisms {
		if !m.works(s) {
			continue
		}
		name := m.name
		if name == "landlock" {
			name += ":" + strconv.Itoa(s.h.LandlockABI)
		}
		e.Mechanisms = append(e.Mechanisms, name)
	}
	made := s.p.Promises()
	for i := range promises {
		p := &promises[i]
		if !slices.Contains(made, p.name) {
			continue
		}
		if g := named(p.name, p.gap(s)); g != nil {
			e.Gaps = append(e.Gaps, *g)
			e.Level = "partial"
		}
	}
	return e
}

func writes(p *sandboxpolicy.Policy, path string) bool {
	for _, w := range p.WriteAllow() {
		if w.Path == path {
			return true
		}
	}
	return false
}

// Explain says what a policy would make enforceable on this host, without
// starting anything.
func Explain(p *sandboxpolicy.Policy, h Host) Enforcement {
	return stateOn(p, &h).enforcement()
}

func stateOn(p *sandboxpolicy.Policy, h *Host) *state {
	return &state{p: p, h: h, nested: h.Nested, marks: true}
}

// Explanation is what a policy says about one operation, what enforces that
// here, and what of it isn't enforced.
type Explanation struct {
	Op       sandboxpolicy.Op   `json:"op"`
	Target   string             `json:"target"`
	Resolved string             `json:"resolved"`
	Verdict  string             `json:"verdict"` // allow, deny or ask
	Rule     sandboxpolicy.Rule `json:"rule"`
	// EnforcedBy are the mechanisms that hold the operation to the verdict
	// here; empty where none does.
	EnforcedBy []string `json:"enforcedBy"`
	// Gap is the promise that doesn't hold for this very operation, or null.
	Gap    *Gap    `json:"gap"`
	Remedy *string `json:"remedy"`
}

// ExplainOp says what holds for op on target (see sandboxpolicy.ParseTarget)
// under a policy on a host, without starting anything.
//
// Errors: *sandboxpolicy.UsageError.
func ExplainOp(p *sandboxpolicy.Policy, h Host, op sandboxpolicy.Op, target string, facts sandboxpolicy.Facts) (Explanation, error) {
	x, err := p.Explain(op, target, facts)
	if err != nil {
		return Explanation{}, err
	}
	t, err := sandboxpolicy.ParseTarget(op, target)
	if err != nil {
		return Explanation{}, err
	}
	e := Explanation{x.Op, x.Target, x.Resolved, x.Verdict, x.Rule, []string{}, nil, x.Remedy}
	if p.Full() {
		return e, nil
	}
	if hostSocket(op, t, x.Resolved, facts) {
		v := sandboxpolicy.HostSocket()
		e.Verdict, e.Rule, e.Remedy = "deny", v.Rule, &v.Remedy
	}
	s := stateOn(p, &h)
	allow := e.Verdict == "allow"
	judges := s.judges(op, t)
	if t.Kind == sandboxpolicy.TargetPath && s.names() && p.ByName(op, x.Resolved) && !slices.Contains(judges, "notify") {
		judges = append(judges, "notify")
	}
	for _, m := range mechanisms {
		if m.works(s) && slices.Contains(judges, m.name) {
			e.EnforcedBy = append(e.EnforcedBy, m.name)
		}
	}
	if t.Kind == sandboxpolicy.TargetPath {
		if !allow && s.ruleset().Judges(op) && s.ruleset().Lets(op, x.Resolved) {
			e.EnforcedBy = slices.DeleteFunc(e.EnforcedBy, func(m string) bool { return m == "landlock" })
		}
		e.Gap = s.pathGap(op, x.Resolved, allow)
	} else {
		e.Gap = s.otherGap(op, t, allow)
	}
	return e, nil
}

// hostSocket reports a socket that is there already: no command that is still
// to be started has made it, so the supervisor lets none reach it, wherever it
// lies.
func hostSocket(op sandboxpolicy.Op, t sandboxpolicy.Target, resolved string, facts sandboxpolicy.Facts) bool {
	if t.Kind != sandboxpolicy.TargetPath || op != sandboxpolicy.OpConnect && op != sandboxpolicy.OpSend {
		return false
	}
	fi, err := facts.Lstat(resolved)
	return err == nil && fi.Mode()&fs.ModeSocket != 0
}

// judges are the mechanisms that judge op on a kind of target, were they all
// there.
func (s *state) judges(op sandboxpolicy.Op, t sandboxpolicy.Target) []string {
	scoped := s.h.LandlockABI >= landlock.ABIScope
	switch t.Kind {
	case sandboxpolicy.TargetNet:
		switch s.p.Network() {
		case sandboxpolicy.NetworkNone:
			return []string{"seccomp"}
		case sandboxpolicy.NetworkLoopback:
			return []string{"notify"}
		}
		return nil
	case sandboxpolicy.TargetAbstract:
		if scoped && op != sandboxpolicy.OpBind {
			return []string{"landlock", "notify"}
		}
		return []string{"notify"}
	case sandboxpolicy.TargetKernel:
		return []string{"seccomp"}
	case sandboxpolicy.TargetProcess:
		if op == sandboxpolicy.OpPtrace || scoped {
			return []string{"landlock"}
		}
		return []string{"notify"}
	}
	var out []string
	switch op {
	case sandboxpolicy.OpMount:
		return []string{"seccomp"}
	}
	if s.ruleset().Judges(op) {
		out = append(out, "landlock")
	}
	switch op {
	case sandboxpolicy.OpChmod, sandboxpolicy.OpChown, sandboxpolicy.OpUtime, sandboxpolicy.OpXattr, sandboxpolicy.OpFlags,
		sandboxpolicy.OpConnect, sandboxpolicy.OpSend, sandboxpolicy.OpBind:
		out = append(out, "notify")
	case sandboxpolicy.OpTruncate:
		if s.h.LandlockABI < landlock.ABITruncate {
			out = append(out, "notify")
		}
	}
	return out
}

// otherGap is the gap for an operation on what has no path.
func (s *state) otherGap(op sandboxpolicy.Op, t sandboxpolicy.Target, allow bool) *Gap {
	switch t.Kind {
	case sandboxpolicy.TargetNet:
		switch {
		case allow || s.p.Network() == sandboxpolicy.NetworkNone && sandboxpolicy.IsLoopback(t.Value):
			return s.gapOf(sandboxpolicy.PromiseOwnLoopback) // not promised with --network full
		}
		return s.gapOf(sandboxpolicy.PromiseNetwork)
	case sandboxpolicy.TargetAbstract:
		if allow {
			return nil
		}
		return s.gapOf(sandboxpolicy.PromiseAbstractSockets)
	case sandboxpolicy.TargetKernel:
		return s.gapOf(sandboxpolicy.PromiseKernelSurface)
	case sandboxpolicy.TargetProcess:
		if op == sandboxpolicy.OpSignal {
			return s.gapOf(sandboxpolicy.PromiseSignals)
		}
		return s.gapOf(sandboxpolicy.PromiseProcesses)
	}
	return nil
}

// pathGap is the gap for an operation on a path.
func (s *state) pathGap(op sandboxpolicy.Op, path string, allow bool) *Gap {
	switch op {
	case sandboxpolicy.OpMount:
		return s.gapOf(sandboxpolicy.PromiseKernelSurface)
	case sandboxpolicy.OpChmod, sandboxpolicy.OpChown, sandboxpolicy.OpUtime, sandboxpolicy.OpXattr, sandboxpolicy.OpFlags:
		if allow {
			return nil
		}
		return s.gapOf(sandboxpolicy.PromiseMetadata)
	case sandboxpolicy.OpConnect, sandboxpolicy.OpSend:
		switch {
		case allow:
			return nil
		case op == sandboxpolicy.OpSend:
			return s.gapOf(sandboxpolicy.PromiseUnixDatagram)
		}
		return s.gapOf(sandboxpolicy.PromiseUnixSockets)
	case sandboxpolicy.OpTruncate:
		if s.h.LandlockABI < landlock.ABITruncate {
			if allow {
				return nil
			}
			return named(sandboxpolicy.PromiseWrite, writeGap(s))
		}
	case sandboxpolicy.OpBind:
		if !allow && s.supervised() {
			return nil
		}
	}
	switch lets := s.ruleset().Lets(op, path); {
	case allow && s.p.ByName(op, path):
		if s.names() {
			return nil
		}
		return &Gap{Promise: string(sandboxpolicy.PromiseWrite),
			Reason: "Landlock can't grant a name in a directory whose other files stay protected, and no supervisor makes it: git can't pack or delete refs", Remedy: needNames}
	case allow && !lets:
		return &Gap{Promise: string(sandboxpolicy.PromiseWrite),
			Reason: "a directory with secrets is writable entry by entry: nothing new can be made in it directly, nor removed",
			Remedy: "name the directory below it that is needed with --write"}
	case !allow && lets:
		return s.letGap(op, path)
	}
	switch {
	case !allow:
		return nil
	case below(path, "/dev/pts"):
		return s.gapOf(sandboxpolicy.PromiseDevices)
	case below(path, "/dev/shm"):
		return s.gapOf(sandboxpolicy.PromiseShm)
	case s.h.LandlockABI < landlock.ABIRefer && (op == sandboxpolicy.OpRename || op == sandboxpolicy.OpLink):
		return &Gap{Promise: string(sandboxpolicy.PromiseWrite),
			Reason: s.abi() + " refuses renames and links from one directory to another", Remedy: needRefer}
	}
	return nil
}

// letGap is the gap of a denial that Landlock doesn't make.
func (s *state) letGap(op sandboxpolicy.Op, path string) *Gap {
	var found *sandboxpolicy.PathRule
	denies := s.p.Deny()
	for i := range denies {
		d := &denies[i]
		if d.Access == sandboxpolicy.Write && (op == sandboxpolicy.OpRead || op == sandboxpolicy.OpExec) {
			continue
		}
		// Moving a directory moves what is denied in it.
		hit := d.Match(path) || op == sandboxpolicy.OpRename && (below(d.Path, path) || d.OneLevel() && within(d.Dir, path))
		if hit && (d.Access == sandboxpolicy.Write || found == nil) {
			found = d
		}
	}
	switch {
	case found == nil:
		if g := s.gapOf(sandboxpolicy.PromiseProtectedPaths); g != nil {
			return g
		}
		return &Gap{Promise: string(sandboxpolicy.PromiseWrite), Reason: "Landlock can't tell this operation from writing the file", Remedy: needNamespaces}
	case found.Access == sandboxpolicy.Read:
		return named(sandboxpolicy.PromiseSecrets, unmadeGap(found.Access, found.Rule.Text))
	}
	return named(sandboxpolicy.PromiseWrite, unmadeGap(found.Access, found.Rule.Text))
}

func within(path, dir string) bool { return path == dir || below(path, dir) }

func below(path, dir string) bool {
	return dir == "/" && len(path) > 1 || len(path) > len(dir) && path[len(dir)] == '/' && path[:len(dir)] == dir
}

// unenforced names what a person asked for beyond the preset and doesn't get
// here: that must not be found out by looking for a gap.
func (s *state) unenforced() []sandboxpolicy.Notice {
	var out []sandboxpolicy.Notice
	say := func(text string) {
		out = append(out, sandboxpolicy.Notice{Kind: sandboxpolicy.NoticeConfigIgnored, Text: text})
	}
	if s.p.Full() {
		return nil
	}
	for _, d := range s.p.Deny() {
		if d.Rule.Origin == "preset" {
			continue
		}
		for _, g := range s.enforcement().Gaps {
			if g.Promise == string(sandboxpolicy.PromiseSecrets) || g.Promise == string(sandboxpolicy.PromiseWrite) {
				say("not enforced: " + g.Reason + "; " + g.Remedy)
			}
		}
		break
	}
	for _, g := range s.enforcement().Gaps {
		// Those that hold nothing at all.
		if g.Promise == string(sandboxpolicy.PromiseTmpSize) || g.Promise == string(sandboxpolicy.PromisePids) && os.Geteuid() == 0 {
			say("not enforced: " + g.Promise + ": " + g.Reason + "; " + g.Remedy)
		}
	}
	if len(s.p.AllowDomains()) > 0 {
		say("allow_domains is not enforced: the filtering proxy is not in this version, and no domain is reachable by it")
	}
	return out
}
