package sandboxpolicy

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"

	toml "github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// This file is the only one that knows TOML. It runs only where a file
// exists, so that a run without one pays nothing for it.

// node is one value with its place. go-toml's decoder checks the document;
// the tree comes from its parser, since every rule of a policy must know the
// line it stands in.
type node struct {
	kind      unstable.Kind
	text      string // of a string, or the value as written
	keys      []keyed
	items     []*node // of an array, or of an array of tables
	line, col int
	key       string // dotted
}

type keyed struct {
	name string
	line int
	col  int
	val  *node
}

func (n *node) find(name string) *node {
	for i := range n.keys {
		if n.keys[i].name == name {
			return n.keys[i].val
		}
	}
	return nil
}

func (n *node) add(name string, line, col int, val *node) {
	n.keys = append(n.keys, keyed{name, line, col, val})
}

// decodeConfig decodes the content of a file: strictly, with the place of
// everything.
func decodeConfig(file, layer string, data []byte) (*config, error) {
	// The decoder finds what the parser alone does not: duplicate keys,
	// tables defined twice, numbers out of range.
	var sink map[string]any
	if err := toml.Unmarshal(data, &sink); err != nil {
		e := &ConfigError{File: file, Problem: strings.TrimPrefix(err.Error(), "toml: "), Expected: "TOML"}
		var de *toml.DecodeError
		if errors.As(err, &de) {
			e.Line, e.Column = de.Position()
			e.Key = strings.Join(de.Key(), ".")
			if strings.HasSuffix(e.Problem, "already defined") || strings.Contains(e.Problem, "already exists") {
				e.Expected = "each key once"
			}
		}
		return nil, e
	}
	d := &decoder{c: &config{file: file, layer: layer}}
	root, err := parseTree(data)
	if err != nil {
		return nil, &ConfigError{File: file, Problem: strings.TrimPrefix(err.Error(), "toml: "), Expected: "TOML"}
	}
	d.config(root)
	if d.err != nil {
		return nil, d.err
	}
	return d.c, nil
}

func parseTree(data []byte) (*node, error) {
	root := &node{kind: unstable.Table}
	table := root
	var p unstable.Parser
	p.Reset(data)
	for p.NextExpression() {
		e := p.Expression()
		switch e.Kind {
		case unstable.KeyValue:
			addKeyValue(&p, table, e)
		case unstable.Table, unstable.ArrayTable:
			table = root
			it := e.Key()
			for it.Next() {
				k := it.Node()
				at := p.Shape(k.Raw).Start
				name := string(k.Data)
				child := table.find(name)
				if child == nil {
					child = &node{kind: unstable.Table, line: at.Line, col: at.Column, key: dotted(table.key, name)}
					if it.IsLast() && e.Kind == unstable.ArrayTable {
						child.kind = unstable.ArrayTable
					}
					table.add(name, at.Line, at.Column, child)
				}
				if child.kind == unstable.ArrayTable {
					if it.IsLast() && e.Kind == unstable.ArrayTable {
						child.items = append(child.items, &node{kind: unstable.Table, line: at.Line, col: at.Column, key: child.key})
					}
					child = child.items[len(child.items)-1]
				}
				table = child
			}
		}
	}
	return root, p.Error()
}

func addKeyValue(p *unstable.Parser, table *node, e *unstable.Node) {
	it := e.Key()
	for it.Next() {
		k := it.Node()
		at := p.Shape(k.Raw).Start
		name := string(k.Data)
		if it.IsLast() {
			table.add(name, at.Line, at.Column, makeNode(p, e.Value(), dotted(table.key, name), at))
			return
		}
		child := table.find(name)
		if child == nil {
			child = &node{kind: unstable.Table, line: at.Line, col: at.Column, key: dotted(table.key, name)}
			table.add(name, at.Line, at.Column, child)
		}
		table = child
	}
}

func makeNode(p *unstable.Parser, n *unstable.Node, key string, at unstable.Position) *node {
	if n.Raw.Length > 0 {
		at = p.Shape(n.Raw).Start
	}
	out := &node{kind: n.Kind, text: string(n.Data), line: at.Line, col: at.Column, key: key}
	switch n.Kind {
	case unstable.Array:
		for it := n.Children(); it.Next(); {
			if c := it.Node(); c.Kind != unstable.Comment {
				out.items = append(out.items, makeNode(p, c, key, at))
			}
		}
	case unstable.InlineTable:
		out.kind = unstable.Table
		for it := n.Children(); it.Next(); {
			if c := it.Node(); c.Kind == unstable.KeyValue {
				addKeyValue(p, out, c)
			}
		}
	}
	return out
}

func dotted(prefix, name string) string {
	for i := 0; i < len(name); i++ {
		if c := name[i]; !isTokenByte(c) {
			name = strconv.Quote(name)
			break
		}
	}
	if name == "" {
		name = `""`
	}
	if prefix == "" {
		return name
	}
	return prefix + "." + name
}

// decoder gives the tree its meaning; the first error stays.
type decoder struct {
	c   *config
	err error
}

func (d *decoder) fail(n *node, problem, expected string) {
	if d.err == nil {
		d.err = &ConfigError{File: d.c.file, Line: n.line, Column: n.col, Key: n.key, Problem: problem, Expected: expected}
	}
}

// table calls fn for each key of a table; fn says whether it knows the key.
func (d *decoder) table(n *node, expected string, fn func(name string, v *node) bool) {
	if n.kind != unstable.Table {
		d.wrongType(n, "a table")
		return
	}
	for _, k := range n.keys {
		if d.err != nil {
			return
		}
		if !fn(k.name, k.val) && d.err == nil {
			d.err = &ConfigError{File: d.c.file, Line: k.line, Column: k.col, Key: dotted(n.key, k.name), Problem: "unknown key", Expected: "one of " + expected}
		}
	}
}

func (d *decoder) wrongType(n *node, expected string) {
	d.fail(n, "wrong type ("+kindName(n.kind)+")", expected)
}

func kindName(k unstable.Kind) string {
	switch k {
	case unstable.String:
		return "a string"
	case unstable.Bool:
		return "a boolean"
	case unstable.Integer:
		return "an integer"
	case unstable.Float:
		return "a float"
	case unstable.Array:
		return "an array"
	case unstable.ArrayTable:
		return "an array of tables"
	case unstable.Table:
		return "a table"
	}
	return "a date or time"
}

func (d *decoder) str(n *node, expected string) value {
	if n.kind != unstable.String {
		d.wrongType(n, expected)
		return value{}
	}
	return value{s: n.text, key: n.key, line: n.line, col: n.col}
}

func (d *decoder) choice(n *node, names ...string) value {
	expected := "one of " + oneOf(names)
	v := d.str(n, expected)
	for _, s := range names {
		if v.s == s {
			return v
		}
	}
	d.fail(n, "unknown value "+quote(v.s), expected)
	return value{}
}

func (d *decoder) strings(n *node, expected string, check func(string) string) []value {
	if n.kind != unstable.Array {
		d.wrongType(n, expected)
		return nil
	}
	var out []value
	for _, item := range n.items {
		v := d.str(item, expected)
		if d.err != nil {
			return nil
		}
		if problem := check(v.s); problem != "" {
			d.fail(item, problem, expected)
			return nil
		}
		out = append(out, v)
	}
	return out
}

func (d *decoder) config(root *node) {
	d.table(root, "preset, unknown_commands, policy, limits, commands, presets", func(name string, v *node) bool {
		switch name {
		case "preset":
			d.c.preset = d.str(v, "the name of a preset")
			if d.err == nil && v.text == "" {
				d.fail(v, "the name is empty", "the name of a preset")
			}
		case "unknown_commands":
			d.c.unknown = d.choice(v, "allow", "ask", "deny")
		case "policy":
			d.policy(v, &d.c.policy)
		case "limits":
			d.limits(v)
		case "commands":
			d.commands(v)
		case "presets":
			d.presets(v)
		default:
			return false
		}
		return true
	})
	if d.err == nil && d.c.layer == "user-config" && d.c.preset.set() {
		_, ok := builtinPreset(d.c.preset.s)
		if !ok && d.c.findPreset(d.c.preset.s) == nil {
			names := PresetNames()
			for i := range d.c.presets {
				names = append(names, d.c.presets[i].name.s)
			}
			d.err = d.c.errorAt(d.c.preset, "unknown preset "+quote(d.c.preset.s), "one of "+oneOf(names))
		}
	}
}

func (d *decoder) policy(n *node, l *policyLayer) {
	const list = "read, write, deny_read, deny_write, unprotect, network, allow_domains, env"
	d.table(n, list, func(name string, v *node) bool {
		switch name {
		case "read":
			l.read = d.strings(v, "an array of paths", badGrant)
		case "write":
			l.write = d.strings(v, "an array of paths", badGrant)
		case "deny_read":
			l.denyRead = d.strings(v, "an array of paths or patterns", badDeny)
		case "deny_write":
			l.denyWrite = d.strings(v, "an array of paths or patterns", badDeny)
		case "unprotect":
			l.unprotect = d.strings(v, "an array with any of "+oneOf(protectedNames[:]), func(s string) string {
				if protectedIndex(s) == protNone {
					return quote(s) + " is not protected"
				}
				return ""
			})
		case "network":
			l.network = d.choice(v, "none", "loopback", "full")
		case "allow_domains":
			l.domains = d.strings(v, "an array of HOST or HOST:PORT", func(s string) string {
				if problem := checkDomain(s); problem != "" {
					return quote(s) + " " + problem
				}
				return ""
			})
		case "env":
			l.env = d.strings(v, "an array of NAME or NAME=VALUE", checkEnv)
		default:
			return false
		}
		return true
	})
}

// badGrant checks the form of a path that is granted; patterns are for
// denies, since a grant must name what exists.
func badGrant(s string) string {
	if problem := badPath(s); problem != "" {
		return problem
	}
	if strings.ContainsAny(s, "*?") {
		return "a pattern can't be granted"
	}
	return ""
}

// badDeny checks the form of a path or pattern that is denied: of each that
// its braces stand for.
func badDeny(s string) string {
	alts, err := expandBraces(s)
	if err != nil {
		return "the pattern has " + err.Error()
	}
	for _, alt := range alts {
		if problem := badPath(alt); problem != "" {
			return problem
		}
		if !hasMeta(alt) {
			continue
		}
		if _, err := compileGlob("/", strings.TrimPrefix(alt, "~")); err != nil {
			return "the pattern has " + err.Error()
		}
	}
	return ""
}

func (d *decoder) limits(n *node) {
	d.table(n, "memory, pids, cpu_time, file_size, tmp_size", func(name string, v *node) bool {
		i := -1
		for k, l := range limitNames {
			if strings.ReplaceAll(l, "-", "_") == name {
				i = k
			}
		}
		if i < 0 {
			return false
		}
		expected := "a size such as 2147483648 or \"2GiB\""
		switch i {
		case limPids:
			expected = "a whole number from 1 to 4194304"
		case limCPUTime:
			expected = "seconds, or a duration such as \"1m30s\""
		}
		var num int64
		var err error
		switch {
		case v.kind == unstable.String:
			num, err = parseLimit(i, v.text)
		case v.kind == unstable.Integer:
			num, err = integer(v.text)
			switch {
			case err != nil || num < 1 || i == limPids && num > 1<<22 || i == limCPUTime && num > math.MaxInt64/int64(time.Second):
				err = strconv.ErrRange
			case i == limCPUTime:
				num *= int64(time.Second)
			}
		case v.kind == unstable.Float && i == limCPUTime:
			num, err = parseLimit(i, v.text)
		default:
			d.wrongType(v, expected)
			return true
		}
		if err != nil {
			d.fail(v, "out of range or malformed: "+quote(v.text), expected)
			return true
		}
		d.c.limits[i] = limitValue{num, v.key, v.line, v.col}
		return true
	})
}

// integer reads a TOML integer: decimal, or with 0x, 0o, 0b, underscores
// between digits. The decoder has checked its form.
func integer(s string) (int64, error) {
	return strconv.ParseInt(strings.ReplaceAll(s, "_", ""), 0, 64)
}

func (d *decoder) commands(n *node) {
	items := n.items
	if n.kind == unstable.Array || n.kind == unstable.ArrayTable {
		for _, item := range items {
			if d.err == nil {
				d.command(item)
			}
		}
		return
	}
	d.wrongType(n, "an array of tables")
}

func (d *decoder) command(n *node) {
	var c commandValue
	c.at = value{key: n.key, line: n.line, col: n.col}
	c.Origin = d.c.origin(n.line)
	words := func(v *node, expected string) []string {
		var out []string
		for _, w := range d.strings(v, expected, func(s string) string {
			if s == "" {
				return "a word is empty"
			}
			return ""
		}) {
			out = append(out, w.s)
		}
		if d.err == nil && len(out) == 0 {
			d.fail(v, "the array is empty", expected)
		}
		return out
	}
	d.table(n, "rule, prefix, flags", func(name string, v *node) bool {
		switch name {
		case "rule":
			c.Rule = d.choice(v, "allow", "ask", "deny").s
		case "prefix":
			c.Prefix = words(v, "an array of words, such as [\"git\", \"push\"]")
		case "flags":
			c.Flags = words(v, "an array of flags, such as [\"--force\"]")
		default:
			return false
		}
		return true
	})
	if d.err != nil {
		return
	}
	switch {
	case c.Rule == "":
		d.fail(n, "a command rule has no rule", "rule = \"allow\", \"ask\" or \"deny\"")
	case len(c.Prefix) == 0:
		d.fail(n, "a command rule has no prefix", "prefix, an array of words")
	}
	d.c.commands = append(d.c.commands, c)
}

func (d *decoder) presets(n *node) {
	if n.kind != unstable.Table {
		d.wrongType(n, "a table")
		return
	}
	for _, k := range n.keys {
		def := presetDef{name: value{k.name, dotted(n.key, k.name), k.line, k.col}}
		if _, ok := builtinPreset(k.name); ok || !presetName(k.name) {
			d.fail(&node{key: def.name.key, line: k.line, col: k.col}, "the name can't be used for a preset",
				"letters, digits, - and _, and none of "+oneOf(PresetNames()))
			return
		}
		d.table(k.val, "base, approvals, policy", func(name string, v *node) bool {
			switch name {
			case "base":
				def.base = d.choice(v, PresetNames()...)
			case "approvals":
				def.approvals = d.choice(v, "ask", "never")
			case "policy":
				d.policy(v, &def.policy)
			default:
				return false
			}
			return true
		})
		if d.err != nil {
			return
		}
		d.c.presets = append(d.c.presets, def)
	}
}

func presetName(s string) bool {
	if s == "" || s == "custom" {
		return false
	}
	for i := 0; i < len(s); i++ {
		if !isTokenByte(s[i]) {
			return false
		}
	}
	return true
}
