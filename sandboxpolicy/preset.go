package sandboxpolicy

import "strings"

// mode is the sandbox half of a preset, narrowest first.
type mode uint8

const (
	modeRead mode = iota
	modeWrite
	modeFull
)

// builtin is a preset as data. A configuration names further ones on top of
// these.
type builtin struct {
	name      string
	mode      mode
	network   Network
	approvals string // ask | never
}

var builtins = [...]builtin{
	modeRead:  {"read-only", modeRead, NetworkNone, "never"},
	modeWrite: {"workspace-write", modeWrite, NetworkNone, "ask"},
	modeFull:  {"danger-full-access", modeFull, NetworkFull, "never"},
}

// DefaultPreset is the preset where nobody names one.
const DefaultPreset = "workspace-write"

func (m mode) String() string { return builtins[m].name }

func builtinPreset(name string) (builtin, bool) {
	for _, b := range builtins {
		if b.name == name {
			return b, true
		}
	}
	return builtin{}, false
}

// PresetNames lists the built-in presets, narrowest first.
func PresetNames() []string {
	names := make([]string, len(builtins))
	for i, b := range builtins {
		names[i] = b.name
	}
	return names
}

func oneOf(names []string) string {
	return strings.Join(names, ", ")
}
