// Package program has what the programs of this module share around their front
// doors.
package program

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"

	"github.com/dshx/dshx/internal/version"
	"golang.org/x/sys/unix"
)

// Ended is the signal that ends a server, as the cause of its context.
type Ended struct{ unix.Signal }

// Error is the signal's description.
func (e Ended) Error() string { return e.String() }

// UntilSignal is a context that SIGINT, SIGTERM and SIGHUP end. A write to a
// reader that has gone is an error from now on, and no signal.
func UntilSignal(ctx context.Context) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
	// A write that fails says it. Not ignored, which commands would inherit.
	signal.Notify(make(chan os.Signal, 1), unix.SIGPIPE)
	go func() {
		if s, ok := <-signals; ok {
			cancel(Ended{s.(unix.Signal)})
		}
	}()
	return ctx, func() { signal.Stop(signals); close(signals); cancel(nil) }
}

// Version is what the build was told, or else what the toolchain wrote down: the
// module's version (go install), the commit (a build in a clone).
func Version() string {
	if version.Stamp != "" {
		return version.Stamp
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
