package sandboxpolicy

import "strconv"

// value is one string of a configuration file with its place.
type value struct {
	s         string
	key       string // dotted
	line, col int
}

func (v value) set() bool { return v.line > 0 }

// policyLayer is a [policy] table.
type policyLayer struct {
	read, write, denyRead, denyWrite []value
	unprotect, domains, env          []value
	network                          value
}

type limitValue struct {
	n         int64
	key       string
	line, col int
}

// presetDef is a [presets.NAME] table.
type presetDef struct {
	name            value
	base, approvals value
	policy          policyLayer
}

// CommandRule is one [[commands]] table. Text never grants anything: the
// kernel bounds what a command does whatever its rule says.
type CommandRule struct {
	Rule   string   // allow, ask or deny; the strictest of those that match wins
	Prefix []string // the first words of the command; never empty
	Flags  []string // only with one of these; empty for any
	Origin string
}

// config is a decoded file.
type config struct {
	file     string
	layer    string // "user-config" or "workspace-config"
	preset   value
	unknown  value
	policy   policyLayer
	limits   [numLimits]limitValue
	commands []commandValue
	presets  []presetDef
}

type commandValue struct {
	CommandRule
	at value
}

func (c *config) origin(line int) string {
	return c.layer + " " + c.file + ":" + strconv.Itoa(line)
}

func (c *config) errorAt(v value, problem, expected string) error {
	return &ConfigError{File: c.file, Line: v.line, Column: v.col, Key: v.key, Problem: problem, Expected: expected}
}

func (c *config) findPreset(name string) *presetDef {
	if c == nil {
		return nil
	}
	for i := range c.presets {
		if c.presets[i].name.s == name {
			return &c.presets[i]
		}
	}
	return nil
}
