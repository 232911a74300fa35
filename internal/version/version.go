// Package version says which build the programs of this module are.
package version

import "runtime/debug"

// stamp is set by the build: see the Makefile.
var stamp string

// String is what the build was told, or else what the toolchain wrote down: the
// module's version (go install), the commit (a build in a clone).
func String() string {
	if stamp != "" {
		return stamp
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	v := info.Main.Version
	var commit, modified string
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			commit = s.Value[:min(12, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			modified = "-dirty"
		}
	}
	switch {
	case v != "" && v != "(devel)":
		return v
	case commit != "":
		return commit + modified
	}
	return "unknown"
}
