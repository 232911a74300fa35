package sandboxpolicy

import (
	"path/filepath"
	"strings"
)

// Explanation is what a policy says about one operation. Whoever enforces
// the policy adds by which mechanisms, and what they leave open.
type Explanation struct {
	Op       Op      `json:"op"`
	Target   string  `json:"target"`
	Resolved string  `json:"resolved"`
	Verdict  string  `json:"verdict"` // allow, deny or ask
	Rule     Rule    `json:"rule"`
	Remedy   *string `json:"remedy"` // null when allowed
}

// TargetKind is what a target names.
type TargetKind uint8

const (
	// TargetPath is a path, or a Unix socket by path.
	TargetPath TargetKind = iota
	// TargetNet is an internet address, HOST:PORT.
	TargetNet
	// TargetAbstract is an abstract Unix socket, @NAME.
	TargetAbstract
	// TargetProcess is a process by number.
	TargetProcess
	// TargetKernel is what is asked of the kernel, in any words.
	TargetKernel
)

// Target is a parsed TARGET of `policy explain`.
type Target struct {
	Kind  TargetKind
	Value string // the path, address, @NAME or number
}

// ParseTarget reads PATH, HOST:PORT, unix:PATH, unix:@NAME or pid:N. What a
// bare word means depends on op: for connect, bind and send HOST:PORT is an
// address and everything else a path; for signal and ptrace a number is a
// process. A path that would be read as something else is written with "./"
// or from the root.
//
// Errors: *UsageError.
func ParseTarget(op Op, target string) (Target, error) {
	bad := func(why string) (Target, error) {
		return Target{}, &UsageError{Msg: "target " + quote(target) + " " + why}
	}
	class := op.class()
	if class == classUnknown {
		return Target{}, &UsageError{Msg: "unknown operation " + quote(string(op)) + "; there are " + opNames()}
	}
	if target == "" {
		return bad("is empty")
	}
	if strings.IndexByte(target, 0) >= 0 && !strings.HasPrefix(target, "unix:@") {
		return bad("holds a NUL byte")
	}
	if rest, ok := strings.CutPrefix(target, "unix:"); ok {
		switch {
		case class != classSocket:
			return bad("is a socket, which op " + string(op) + " has no rules for; use connect, bind or send")
		case rest == "" || rest == "@":
			return bad("names no socket")
		case rest[0] == '@':
			return Target{TargetAbstract, rest}, nil
		}
		return Target{TargetPath, rest}, nil
	}
	rest, isPid := strings.CutPrefix(target, "pid:")
	if isPid || class == classProcess {
		if class != classProcess {
			return bad("is a process, which op " + string(op) + " has no rules for; use signal or ptrace")
		}
		if n, ok := wholeNumber(rest); !ok || n < 1 || n > 1<<22 {
			return bad("is not pid:N with N from 1 to 4194304")
		}
		return Target{TargetProcess, rest}, nil
	}
	if class == classSocket && !strings.HasPrefix(target, "/") && !strings.HasPrefix(target, ".") && !strings.HasPrefix(target, "~") {
		if i := strings.LastIndexByte(target, ':'); i >= 0 {
			n, ok := wholeNumber(target[i+1:])
			if !ok || n > 65535 {
				return bad("has no port from 0 to 65535")
			}
			if i == 0 {
				return bad("has no host")
			}
			if host := target[:i]; strings.IndexByte(host, ':') >= 0 && !(strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]")) {
				return bad("is not HOST:PORT; write an IPv6 address in brackets")
			}
			return Target{TargetNet, target}, nil
		}
		if !strings.Contains(target, "/") {
			return bad("is neither HOST:PORT, unix:PATH nor unix:@NAME; write a socket in the current directory with ./")
		}
	}
	if op == OpKernel {
		return Target{TargetKernel, target}, nil
	}
	return Target{TargetPath, target}, nil
}

func opNames() string {
	var s []string
	for _, op := range Ops() {
		s = append(s, string(op))
	}
	return strings.Join(s, " ")
}

// Explain answers what the policy says about op on target. Relative paths
// are relative to the policy's Cwd; facts resolves links, as the kernel
// would for op: what delete, rename and link change is the name itself.
//
// Errors: *UsageError for an unknown op or a malformed target.
func (p *Policy) Explain(op Op, target string, facts Facts) (Explanation, error) {
	t, err := ParseTarget(op, target)
	if err != nil {
		return Explanation{}, err
	}
	e := Explanation{Op: op, Target: target, Resolved: t.Value}
	var v Verdict
	switch t.Kind {
	case TargetNet:
		family := "inet"
		if strings.HasPrefix(t.Value, "[") {
			family = "inet6"
		}
		v = p.VerdictNet(op, family, t.Value)
	case TargetAbstract:
		v = p.VerdictNet(op, "unix", t.Value)
	case TargetKernel:
		v = p.Verdict(op, "/")
	case TargetProcess:
		v = p.Verdict(op, "/proc/"+t.Value)
		e.Resolved = "pid:" + t.Value
	default:
		if e.Resolved, err = p.ResolvePath(op, t.Value, facts); err != nil {
			return Explanation{}, err
		}
		v = p.Verdict(op, e.Resolved)
		v.Remedy = p.RemedyOnDisk([]Op{op}, e.Resolved, v, func(path string) bool {
			_, err := facts.Lstat(path)
			return err == nil
		})
	}
	e.Verdict, e.Rule = "allow", v.Rule
	if !v.Allow {
		e.Verdict = "deny"
		e.Remedy = &v.Remedy
	}
	return e, nil
}

// ResolvePath makes a path what Verdict wants for op: absolute, from Cwd,
// "~/" expanded, without links.
//
// Errors: *UsageError for an empty path, a NUL byte or a loop of links.
func (p *Policy) ResolvePath(op Op, path string, facts Facts) (string, error) {
	b := builder{p: p}
	abs, problem := b.expandHome(path)
	if problem != "" {
		return "", &UsageError{Msg: "target " + quote(path) + ": " + problem}
	}
	abs = from(p.cwd, abs)
	r := newResolver(facts)
	switch op {
	case OpDelete, OpRename, OpLink, OpBind:
		// These change the name, and never follow a link in the last place.
		if base := baseOf(trimSlash(abs)); base != "" && base != "." && base != ".." {
			real, err := r.realParent(trimSlash(abs))
			if err == nil {
				return real, nil
			}
			return "", &UsageError{Msg: "target " + quote(path) + ": " + err.Error()}
		}
	}
	real, _, err := r.real(abs)
	if err != nil {
		return "", &UsageError{Msg: "target " + quote(path) + ": " + err.Error()}
	}
	return filepath.Clean(real), nil
}
