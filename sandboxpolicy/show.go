package sandboxpolicy

import (
	"slices"
	"strings"
)

// Promises are the names of what this policy guarantees, in the contract's
// order. A limit is a promise only where one is set.
func (p *Policy) Promises() []Promise {
	out := make([]Promise, 0, 21)
	limit := func(i int, name Promise) {
		if p.limits.get(i) != 0 {
			out = append(out, name)
		}
	}
	if p.mode != modeFull {
		out = append(out, PromiseWrite, PromiseSecrets)
		if p.Protects() {
			out = append(out, PromiseProtectedPaths)
		}
		out = append(out, PromiseMetadata, PromiseUnixSockets, PromiseUnixDatagram, PromiseAbstractSockets)
		if p.network != NetworkFull {
			out = append(out, PromiseNetwork, PromiseOwnLoopback)
		}
		out = append(out, PromiseSignals, PromiseProcesses, PromiseScheduling, PromiseDevices, PromiseShm, PromiseKernelSurface)
	}
	limit(limMemory, PromiseMemory)
	limit(limPids, PromisePids)
	limit(limCPUTime, PromiseCPUTime)
	limit(limFileSize, PromiseFileSize)
	limit(limTmpSize, PromiseTmpSize)
	return append(out, PromiseLifetime)
}

// Protects reports whether Protected lists anything, without making the list.
func (p *Policy) Protects() bool {
	if len(p.protAt) > 0 {
		return true
	}
	if p.unprot == 1<<uint(len(protectedNames))-1 {
		return false
	}
	for i := range p.write {
		if w := p.write[i].why; w == whyWorkspace || w == whyGrant {
			return true
		}
	}
	return false
}

// Rules is every rule with its origin, for `policy show`: what decides
// first, then what is allowed, then what is denied.
func (p *Policy) Rules() []RuleLine {
	var out []RuleLine
	add := func(kind, val, text, origin string) {
		out = append(out, RuleLine{kind, val, text, origin})
	}
	add("preset", p.preset, "built on "+p.mode.String(), p.presetOrigin)
	add("approvals", p.approvals, "", p.approvalsOrg)
	add("unknown-commands", p.unknownCmds, "", p.unknownOrg)
	add("workspace", p.workspace, "", p.workspaceOrg)
	add("network", string(p.network), "", p.networkOrg)
	for _, d := range p.domains {
		add("allow-domain", d.s, "", d.origin)
	}
	rules := func(kind string, list []PathRule) {
		for i := range list {
			r := &list[i]
			k := kind
			if k == "deny" {
				k = "deny-write"
				if r.Access == Read {
					k = "deny-read"
				}
			}
			text := r.Rule.Text
			if len(r.Except) > 0 {
				text += " (except " + strings.Join(r.Except, ", ") + ")"
			}
			add(k, r.Path, text, r.Rule.Origin)
		}
	}
	rules("read", p.read)
	rules("write", p.write)
	for _, g := range p.gitDirs {
		names := g.Names
		if g.Tree != "" {
			names = append(slices.Clip(names), g.Tree)
		}
		for _, name := range names {
			add("write", join(g.Common, name), "refs of the workspace's git directory: "+g.Common, originPreset)
		}
	}
	rules("deny", p.deny)
	rules("protected", p.Protected())
	for _, e := range p.envRule {
		add("env", e.s, "", e.origin)
	}
	for i, name := range limitNames {
		if v := p.limits.get(i); v != 0 {
			add("limit", name+" "+limitText(i, v), "", p.limOrg[i])
		}
	}
	for i := range p.commands {
		c := &p.commands[i]
		add("command", c.Rule, c.String(), c.Origin)
	}
	return out
}
