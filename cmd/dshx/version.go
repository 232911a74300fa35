package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/dshx/dshx/internal/cli"
	"github.com/dshx/dshx/sandbox"
	"github.com/spf13/cobra"
)

// version is set by the build: see the Makefile.
var version string

func newVersion() *cobra.Command {
	return command(&cobra.Command{
		Use:   "version",
		Short: "Print the version of dshx, and what this kernel is",
	}, operands{}, func(c *cobra.Command, _ *cli.Flags, _ []string) error {
		h := sandbox.ProbeHost()
		abi := "no Landlock"
		if h.LandlockABI > 0 {
			abi = fmt.Sprintf("Landlock ABI %d", h.LandlockABI)
		}
		_, err := fmt.Fprintf(c.OutOrStdout(), "dshx %s (%s, %s/%s; Linux %s, %s)\n",
			buildVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH, h.Kernel, abi)
		return err
	})
}

// buildVersion is what the build was told, or else what the toolchain wrote
// down: the module's version (go install), the commit (a build in a clone).
func buildVersion() string {
	if version != "" {
		return version
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
