// Package permission is what tools that work in the sandbox share: the two
// arguments by which a call asks for more than the policy gives, the listener
// that has somebody asked about them, and the domain in which such a call, and
// no other, then works.
//
// It grants nothing by itself: without an approval a call that asks for more
// fails, and what is approved is put in force by the kernel for this one call.
package permission

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/dshx/dshx/pipeline"
	"github.com/dshx/dshx/sandbox"
	"github.com/dshx/dshx/sandboxpolicy"
)

// Permissions are what one call asks for.
type Permissions struct {
	Network string   `json:"network,omitzero" schema:"enum=loopback|full" doc:"what the network may reach during this call"`
	Write   []string `json:"write,omitzero" schema:"max=64" doc:"directories that may be written: absolute, or relative to the workspace"`
	Read    []string `json:"read,omitzero" schema:"max=64" doc:"directories that may be read: absolute, or relative to the workspace"`
	Preset  string   `json:"preset,omitzero" schema:"enum=workspace-write|danger-full-access" doc:"another preset for this call"`
}

// Args are the arguments of every tool that can ask; embed them.
type Args struct {
	SandboxPermissions *Permissions `json:"sandbox_permissions" doc:"asks for more than the policy allows, for this one call; somebody has to approve it"`
	Justification      string       `json:"justification,omitzero" schema:"max=1000" doc:"why the permissions are needed, for the person who is asked"`
}

// beyond is the part of p that the policy doesn't give.
func beyond(p *Permissions, policy *sandboxpolicy.Policy) (more Permissions, err error) {
	if policy.Full() {
		return more, nil
	}
	if p.Preset == "danger-full-access" || p.Preset == "workspace-write" && policy.Mode() == "read-only" {
		more.Preset = p.Preset
	}
	rank := map[string]int{"": 0, "none": 0, "loopback": 1, "full": 2}
	if rank[p.Network] > rank[string(policy.Network())] {
		more.Network = p.Network
	}
	for _, list := range [...]struct {
		op   sandboxpolicy.Op
		from []string
		to   *[]string
	}{{sandboxpolicy.OpWrite, p.Write, &more.Write}, {sandboxpolicy.OpRead, p.Read, &more.Read}} {
		for _, dir := range list.from {
			if dir != "" && !filepath.IsAbs(dir) {
				dir = policy.Workspace() + "/" + dir // uncleaned: link/.. is where a process would be
			}
			real, err := policy.ResolvePath(list.op, dir, sandboxpolicy.OSFacts{})
			if err != nil {
				return more, err
			}
			if !policy.Verdict(list.op, real).Allow {
				*list.to = append(*list.to, real)
			}
		}
	}
	return more, nil
}

func (p *Permissions) none() bool {
	return p.Preset == "" && p.Network == "" && len(p.Write) == 0 && len(p.Read) == 0
}

// String says what is asked for, for a person.
func (p *Permissions) String() string {
	var parts []string
	if p.Preset != "" {
		parts = append(parts, "preset "+p.Preset)
	}
	if p.Network != "" {
		parts = append(parts, "network "+p.Network)
	}
	for _, d := range p.Write {
		parts = append(parts, fmt.Sprintf("write %q", d))
	}
	for _, d := range p.Read {
		parts = append(parts, fmt.Sprintf("read %q", d))
	}
	return strings.Join(parts, ", ")
}

// Offer is what a denial says to whoever can ask for more: the arguments that
// would allow this one call, or "" where nothing does or nobody is asked. ops
// are what was refused, on path (absolute and resolved, or "") or on the address
// of a socket, and rule is what refused it.
func Offer(policy *sandboxpolicy.Policy, ops []sandboxpolicy.Op, path, address string, rule sandboxpolicy.Rule) string {
	if policy.Approvals() != "ask" {
		return ""
	}
	g := policy.GrantFor(ops, path, address, rule, func(path string) bool {
		_, err := os.Lstat(path)
		return err == nil
	})
	p := Permissions{Preset: g.Preset, Network: string(g.Network)}
	if g.Write != "" {
		p.Write = []string{g.Write}
	}
	if g.Read != "" {
		p.Read = []string{g.Read}
	}
	if p.none() || !utf8.ValidString(g.Write+g.Read) {
		return ""
	}
	arguments, err := pipeline.MarshalValue(p)
	if err != nil {
		return ""
	}
	return "for this one call, if it is approved: the call again with sandbox_permissions " + arguments.String() + " and a justification"
}

// WithOffer is a remedy with the offer that stands beside it.
func WithOffer(remedy, offer string) string {
	switch {
	case offer == "":
		return remedy
	case remedy == "":
		return offer
	}
	return offer + "; for every call: " + remedy
}

// Listener asks about calls that want more than the policy gives, which request
// was resolved to. What it decides about others is left to the listeners after
// it. Nobody is asked for what an approval can't give: a deny stands, and what
// doesn't exist has nothing to allow.
func Listener(policy *sandboxpolicy.Policy, request sandboxpolicy.Request) pipeline.PreExecute {
	return func(_ context.Context, c *pipeline.Call, next func() pipeline.Decision) pipeline.Decision {
		// The tool's other arguments are none of this listener's business.
		var a Args
		if err := json.Unmarshal([]byte(c.Args().String()), &a); err != nil || a.SandboxPermissions == nil {
			return next()
		}
		more, err := beyond(a.SandboxPermissions, policy)
		if err != nil {
			return pipeline.Deny{Reason: "sandbox_permissions: " + err.Error()}
		}
		if more.none() {
			return next()
		}
		if policy.Approvals() == "ask" {
			if why := more.inVain(request); why != "" {
				return pipeline.Deny{Reason: "sandbox_permissions: " + why}
			}
		}
		display := more.String()
		if a.Justification != "" {
			display += ": " + a.Justification
		}
		return pipeline.Ask{Reason: "sandbox_permissions beyond the policy: " + more.String(), DisplayReason: display, Grants: more}.Also(next())
	}
}

// inVain is why an approval of p would not give what p says, or "".
func (p *Permissions) inVain(request sandboxpolicy.Request) string {
	policy, _, err := sandbox.Resolve(p.widen(request))
	if err != nil {
		return err.Error()
	}
	for _, list := range [...]struct {
		op    sandboxpolicy.Op
		paths []string
	}{{sandboxpolicy.OpWrite, p.Write}, {sandboxpolicy.OpRead, p.Read}} {
		for _, path := range list.paths {
			if _, err := os.Lstat(path); err != nil {
				return fmt.Sprintf("%q is not there, so nothing can be allowed in it; name a directory that is", path)
			}
			if v := policy.Verdict(list.op, path); !v.Allow {
				return fmt.Sprintf("no approval lets a call %s %q (%s)", list.op, path, v.Rule.Text)
			}
		}
	}
	return ""
}

// widen is a request with what is granted.
func (p *Permissions) widen(req sandboxpolicy.Request) sandboxpolicy.Request {
	if p.Preset != "" {
		req.Preset = p.Preset
		if p.Preset == "danger-full-access" {
			req.Network, req.DenyRead, req.DenyWrite = "", nil, nil
		}
	}
	if p.Network != "" {
		req.Network = sandboxpolicy.Network(p.Network)
	}
	req.Write = append(append([]string(nil), req.Write...), p.Write...)
	req.Read = append(append([]string(nil), req.Read...), p.Read...)
	return req
}

// Scopes are the domains that calls work in.
type Scopes struct {
	Base    *sandbox.Scope
	Request sandboxpolicy.Request // what Base was opened with
}

// For is the domain for a call: Base, or where an approval granted more one of
// the call's own, which release ends with all that runs in it.
func (s *Scopes) For(c *pipeline.Call) (scope *sandbox.Scope, release func(), err error) {
	if c.Grants().IsZero() {
		return s.Base, func() {}, nil
	}
	var g Permissions
	if err := c.Grants().Decode(&g); err != nil {
		return nil, nil, fmt.Errorf("the grants of the call: %w", err)
	}
	scope, err = sandbox.Open(g.widen(s.Request))
	if err != nil {
		return nil, nil, err
	}
	return scope, func() { _ = scope.Close() }, nil
}
