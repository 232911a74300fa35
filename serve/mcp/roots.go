//lint:file-ignore SA1019 deprecated for protocols that are not spoken here; those that are have it

package mcp

import (
	"context"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// rootsTime is for how long a client's roots are waited for.
const rootsTime = 30 * time.Second

// watchRoots asks a client for its roots when it is there, and when they change.
func (s *session) watchRoots(o *sdk.ServerOptions) {
	o.InitializedHandler = func(context.Context, *sdk.InitializedRequest) { s.askRoots() }
	o.RootsListChangedHandler = func(context.Context, *sdk.RootsListChangedRequest) { s.askRoots() }
}

// askRoots asks a client for its roots, if it has any, and says in the log where
// they are not about the workspace. They change nothing: what may be touched is
// the flags' and the configuration's to say, not the client's.
func (s *session) askRoots() {
	p := s.peer.InitializeParams()
	if p == nil || p.Capabilities == nil || p.Capabilities.RootsV2 == nil {
		return
	}
	go func() {
		ctx, cancel := context.WithTimeout(s.answers, rootsTime)
		defer cancel()
		roots, err := s.peer.ListRoots(ctx, nil)
		switch {
		case s.answers.Err() != nil:
		case err != nil:
			s.log.Warn("the client doesn't tell its roots", "error", err.Error())
		default:
			s.judgeRoots(roots.Roots)
		}
	}()
}

func (s *session) judgeRoots(roots []*sdk.Root) {
	select {
	case <-s.opened:
	case <-s.ctx.Done():
		return
	}
	if s.tools == nil || len(roots) == 0 {
		return
	}
	workspace := s.tools.Workspace()
	var elsewhere []string
	for _, r := range roots {
		if r == nil {
			continue
		}
		path, ok := filePath(r.URI)
		if ok && within(workspace, path) {
			return
		}
		elsewhere = append(elsewhere, clip(r.URI))
	}
	const what = "no root of the client contains the workspace, which stays what it is"
	s.log.Warn(what, "workspace", workspace, "roots", strings.Join(elsewhere, " "))
	s.tools.Note("roots", what+": "+workspace+"; "+strings.Join(elsewhere, " "))
}

// filePath is the place that a file URI names on this machine.
func filePath(uri string) (string, bool) {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "file" || u.Host != "" && u.Host != "localhost" || !filepath.IsAbs(u.Path) || strings.ContainsRune(u.Path, 0) {
		return "", false
	}
	path := filepath.Clean(u.Path)
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	return path, true
}

// within reports whether a place is below, or is, a directory.
func within(path, dir string) bool {
	return path == dir || dir == "/" || strings.HasPrefix(path, dir+"/")
}
