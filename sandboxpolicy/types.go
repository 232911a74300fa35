package sandboxpolicy

import "sync"

// Op is one kind of operation that a policy judges. The strings are those of
// a denial's "operation" field.
type Op string

// The operations. Read and exec are judged by the read rules; write to
// flags by the write rules; the rest have rules of their own.
const (
	OpRead     Op = "read"
	OpWrite    Op = "write"
	OpCreate   Op = "create"
	OpDelete   Op = "delete"
	OpRename   Op = "rename"
	OpLink     Op = "link"
	OpTruncate Op = "truncate"
	OpExec     Op = "exec"
	OpChmod    Op = "chmod"
	OpChown    Op = "chown"
	OpUtime    Op = "utime"
	OpXattr    Op = "xattr"
	OpFlags    Op = "flags"
	OpConnect  Op = "connect"
	OpBind     Op = "bind"
	OpSend     Op = "send"
	OpSignal   Op = "signal"
	OpPtrace   Op = "ptrace"
	OpMount    Op = "mount"
	OpKernel   Op = "kernel"
)

// Ops lists every operation, in the order of the contract. The slice is a
// fresh copy.
func Ops() []Op {
	return []Op{OpRead, OpWrite, OpCreate, OpDelete, OpRename, OpLink, OpTruncate, OpExec,
		OpChmod, OpChown, OpUtime, OpXattr, OpFlags, OpConnect, OpBind, OpSend,
		OpSignal, OpPtrace, OpMount, OpKernel}
}

// opClass groups operations by the rules that judge them.
type opClass uint8

const (
	classUnknown opClass = iota
	classRead            // read rules
	classWrite           // write rules: the content or the name changes
	classMeta            // write rules, but never on a device
	classSocket          // a Unix socket by path
	classProcess         // signal, ptrace
	classKernel          // mount, kernel: never
)

func (op Op) class() opClass {
	switch op {
	case OpRead, OpExec:
		return classRead
	case OpWrite, OpTruncate:
		return classWrite
	case OpCreate, OpDelete, OpRename, OpLink, OpChmod, OpChown, OpUtime, OpXattr, OpFlags:
		return classMeta
	case OpConnect, OpBind, OpSend:
		return classSocket
	case OpSignal, OpPtrace:
		return classProcess
	case OpMount, OpKernel:
		return classKernel
	}
	return classUnknown
}

// Rule is what decided: Text for a person, and Origin, which is "preset",
// "user-config FILE:LINE", "workspace-config FILE:LINE", "flag" or "call".
type Rule struct {
	Text   string `json:"text"`
	Origin string `json:"origin"`
}

// Verdict is the answer for one operation. The zero value denies.
type Verdict struct {
	Allow  bool
	Rule   Rule   // the deciding rule; never empty in a verdict that a Policy gave
	Remedy string // what a person can do about a denial; empty when allowed
}

// Network is what inet sockets may reach: "none", "loopback" or "full".
type Network string

// The network modes, narrowest first.
const (
	NetworkNone     Network = "none"
	NetworkLoopback Network = "loopback"
	NetworkFull     Network = "full"
)

func (n Network) rank() int {
	switch n {
	case NetworkNone:
		return 0
	case NetworkLoopback:
		return 1
	case NetworkFull:
		return 2
	}
	return -1
}

// Access says how far a rule goes. In an allow, Write includes Read. In a
// deny, Read is the stronger: what can't be read can't be written either,
// while a deny with Write leaves reading as it is.
type Access uint8

const (
	// Read is reading and executing.
	Read Access = 1
	// Write is changing the content, the metadata or the name.
	Write Access = 2
)

// PathRule is one path, or pattern of paths, that a policy grants or denies.
// It holds for Path and for everything below it.
type PathRule struct {
	// Path is absolute and resolved: no symbolic link, "." or "..". With
	// Glob it is a pattern: "*", "?" and "[…]" match within one component,
	// a component "**" any number of them, "\" makes the next byte literal.
	Path   string
	Access Access
	Rule   Rule

	Glob bool
	// Dir, with Glob, is the literal directory above the first component
	// with a wildcard. OneLevel reports patterns of which Dir's own entries
	// decide.
	Dir string

	// Except, in denies, are paths below Path (and everything below those)
	// that the rule leaves alone. A rule with Except holds for what is in
	// Path, whatever appears there later, not for the directory itself.
	Except []string

	// Keep, in allows, are paths relative to Path that the rule does not
	// make writable, since host tools run code that they name. They appear
	// in Protected too.
	Keep []string

	// System marks a built-in deny of a file of the system that an ordinary
	// user can't read by its mode anyway (/etc/shadow …).
	System bool

	// Sink marks a device: it may be opened for reading and writing, but
	// not be removed, replaced, created or given other metadata.
	Sink bool

	// File marks a deny of what was a regular file when the policy was made:
	// it may have further names.
	File bool

	why why
	pat *glob
}

// OneLevel reports whether a Glob rule's only wildcard is in its last
// component, so that the entries of Dir decide.
func (r PathRule) OneLevel() bool { return r.Glob && r.pat != nil && r.pat.oneLevel() }

// Match reports whether the rule covers path, which must be absolute, clean
// and resolved.
func (r PathRule) Match(path string) bool { return r.covers(path) }

func (r *PathRule) covers(path string) bool {
	if r.Glob {
		return r.pat.match(path)
	}
	if !within(path, r.Path) {
		return false
	}
	if len(r.Except) == 0 {
		return true
	}
	if path == r.Path {
		return false
	}
	for _, e := range r.Except {
		// A directory on the way to an exception stays reachable.
		if within(path, e) || within(e, path) {
			return false
		}
	}
	return true
}

// why is the reason behind a path rule; it decides the remedy.
type why uint8

const (
	whyOther why = iota
	whyWorkspace
	whyTmp
	whyCache
	whyShm
	whyDevice
	whyGit
	whyGrant // --read, --write and their configuration
	whySecret
	whyOtherHome
	whyDeny // --deny-read, --deny-write and their configuration
	whyOwnConfig
	whyOtherTmp
)

// GitDir is a git directory outside the workspace that belongs to it: the
// administrative directory of a linked worktree, a submodule's or a separate
// git directory. It is listed only when its back pointer names the
// workspace. What of it becomes writable as a tree is in WriteAllow.
type GitDir struct {
	Kind   string // "worktree" (linked), or "submodule" for any that core.worktree points back from
	Path   string // the git directory that the workspace's .git names, resolved
	Common string // the common directory; equal to Path but for linked worktrees
	// Names are files directly in Common that git makes, replaces and removes
	// there whenever a ref is deleted or packed, while its neighbours config
	// and hooks stay out of reach: they are granted by name, whether they are
	// there or not.
	Names []string
	// Tree is the name of a directory in Common that isn't there and that git
	// makes when it needs it: it may be made, and everything below it. Empty
	// where there is none.
	Tree string
}

// Notice is what the caller should know though nothing was refused; the
// strings of Kind are the contract's.
type Notice struct {
	Kind string `json:"kind"`
	Path string `json:"path"`
	Text string `json:"text"`
}

// Kinds of notices that resolution gives.
const (
	NoticePointerIgnored = "pointer-ignored"
	NoticeConfigIgnored  = "config-ignored"
	NoticeConfigWarning  = "config-warning" // it is in force, and hardly what was meant
)

// Promise is the name of something a policy guarantees, as in the
// enforcement object's gaps.
type Promise string

// The promises, in the order of the contract.
const (
	PromiseWrite           Promise = "write"
	PromiseSecrets         Promise = "secrets"
	PromiseProtectedPaths  Promise = "protected-paths"
	PromiseMetadata        Promise = "metadata"
	PromiseUnixSockets     Promise = "unix-sockets"
	PromiseUnixDatagram    Promise = "unix-datagram"
	PromiseAbstractSockets Promise = "abstract-sockets"
	PromiseNetwork         Promise = "network"
	PromiseOwnLoopback     Promise = "own-loopback"
	PromiseSignals         Promise = "signals"
	PromiseProcesses       Promise = "processes"
	PromiseScheduling      Promise = "scheduling"
	PromiseDevices         Promise = "devices"
	PromiseShm             Promise = "shm"
	PromiseKernelSurface   Promise = "kernel-surface"
	PromiseMemory          Promise = "memory"
	PromisePids            Promise = "pids"
	PromiseCPUTime         Promise = "cpu-time"
	PromiseFileSize        Promise = "file-size"
	PromiseTmpSize         Promise = "tmp-size"
	PromiseLifetime        Promise = "lifetime"
)

// RuleLine is one line of `policy show`.
type RuleLine struct {
	Kind   string `json:"kind"` // preset, approvals, workspace, read, write, deny-read, deny-write, protected, network, allow-domain, env, limit, command
	Value  string `json:"value"`
	Text   string `json:"text"`
	Origin string `json:"origin"`
}

// Policy is a resolved policy. It is immutable: every method may be called
// from any goroutine, and slices are the caller's to keep but not to change.
type Policy struct {
	preset       string
	presetOrigin string
	presets      []string
	mode         mode
	approvals    string
	approvalsOrg string
	unknownCmds  string
	unknownOrg   string

	workspace, workspaceOrg string
	cwd                     string
	home                    string
	tmp, cache              string

	network    Network
	networkOrg string
	domains    []originString

	read, write []PathRule
	deny        []PathRule
	protected   []PathRule // by Protected alone
	protOnce    sync.Once
	gitDirs     []GitDir

	denyAt    map[string]int32 // literal denies by path, the head of a chain
	denyNext  []int32          // of each deny the next at its path, or -1
	denyGlobs []int32
	denyAbove map[string]int32 // ancestors of denies and of their exceptions
	writeAt   map[string]int32
	unprot    protSet           // kinds of protected paths that were freed
	protAt    map[string]string // literal protected paths beyond the patterns: path to name

	environ []string
	envRule []originString
	named   []string // NAME=VALUE, as commands got what a person named
	caller  []string // Request.Environ
	limits  Limits
	limOrg  [numLimits]string

	commands    []CommandRule
	commandsAt  map[string][]int // by the base name of their first word
	commandRest []int            // those that may name a command whose name isn't known
}

type originString struct{ s, origin string }

// Preset is the name of the preset in force, or "custom" when its sandbox
// mode and its approvals were set apart.
func (p *Policy) Preset() string { return p.preset }

// Presets are the names that a person can choose from: the built-in presets, and
// those of the user's configuration.
func (p *Policy) Presets() []string { return p.presets }

// Mode is the built-in preset that the policy stands on: "read-only",
// "workspace-write" or "danger-full-access".
func (p *Policy) Mode() string { return p.mode.String() }

// Approvals is "ask" or "never".
func (p *Policy) Approvals() string { return p.approvals }

// UnknownCommands is "allow", "ask" or "deny": what happens to commands that
// no rule names.
func (p *Policy) UnknownCommands() string { return p.unknownCmds }

// Commands are the command rules of the configuration, all layers.
func (p *Policy) Commands() []CommandRule { return p.commands }

// Workspace is the one root, absolute and resolved.
func (p *Policy) Workspace() string { return p.workspace }

// Cwd is the directory that commands start in, absolute and resolved.
func (p *Policy) Cwd() string { return p.cwd }

// Home is the account's home as HOME names it, resolved; empty when neither
// HOME nor the account has one.
func (p *Policy) Home() string { return p.home }

// TmpDir is the private TMPDIR that the request named.
func (p *Policy) TmpDir() string { return p.tmp }

// CacheDir is the cache area of this workspace, or "" where the policy has
// none. It may not exist yet; whoever enforces the policy creates it (0700).
func (p *Policy) CacheDir() string { return p.cache }

// Network is what inet sockets may reach.
func (p *Policy) Network() Network { return p.network }

// AllowDomains are the HOST or HOST:PORT that a filtering proxy may let
// through.
func (p *Policy) AllowDomains() []string {
	out := make([]string, len(p.domains))
	for i, d := range p.domains {
		out[i] = d.s
	}
	return out
}

// Full reports danger-full-access: nothing is confined.
func (p *Policy) Full() bool { return p.mode == modeFull }

// ReadAllow are the roots that may be read, before denies.
func (p *Policy) ReadAllow() []PathRule { return p.read }

// WriteAllow are the roots that may be written, before denies: the private
// TMPDIR, sinks, and by preset the workspace, the cache area, grants and the
// writable parts of git directories outside the workspace.
func (p *Policy) WriteAllow() []PathRule { return p.write }

// Deny are the paths that are refused whatever allows them.
func (p *Policy) Deny() []PathRule { return p.deny }

// GitDirs are the verified git directories outside the workspace.
func (p *Policy) GitDirs() []GitDir { return p.gitDirs }

// Environ is the complete environment of a command, NAME=VALUE, without
// duplicates.
func (p *Policy) Environ() []string { return p.environ }

// Secrets are what of the environment must not be written down: the values of
// the caller's variables, and of those that a person named, whose name or value
// says that they are secrets, and the passwords and tokens inside of such values.
// What is too little to be a secret (SecretMin) is left out: it could not be told
// from other text.
func (p *Policy) Secrets() []string { return secrets(p.caller, p.named) }

// Limits are the resource limits in force.
func (p *Policy) Limits() Limits { return p.limits }
