package fs

import (
	"context"
	_ "embed"
	"io"
	"slices"
	"strings"

	"github.com/dshx/dshx/pipeline"
	"github.com/dshx/dshx/tools/fs/internal/glob"
	"github.com/dshx/dshx/tools/fs/internal/text"
	"github.com/dshx/dshx/tools/fs/internal/walk"
	"github.com/dshx/dshx/tools/permission"
)

//go:embed glob.md
var globDescription string

// GlobArgs are glob's arguments.
type GlobArgs struct {
	Pattern string `json:"pattern" schema:"min=1,max=4096" doc:"such as **/*.go or src/{a,b}/*.ts, relative to path"`
	Path    string `json:"path,omitzero" default:"\".\"" doc:"the directory to search; relative to the workspace, or absolute"`
	Hidden  bool   `json:"hidden,omitzero" default:"false" doc:"names that begin with a dot, too; a pattern that spells the dot finds them anyway"`
	Ignored bool   `json:"ignored,omitzero" default:"false" doc:"what git ignores, and .git, too"`
	Sort    string `json:"sort,omitzero" default:"\"path\"" schema:"enum=path|mtime" doc:"mtime: changed last comes first"`
	Limit   int    `json:"limit,omitzero" default:"1000" schema:"min=1,max=10000" doc:"paths at most"`
	permission.Args
}

// GlobValue is glob's value.
type GlobValue struct {
	Pattern     string   `json:"pattern"`
	Named                // of the directory
	Paths       []string `json:"paths" doc:"relative to the workspace, absolute outside of it"`
	PathsBase64 []string `json:"pathsBase64,omitzero" doc:"those that are not UTF-8, which paths leaves out"`
	Total       int      `json:"total"`
	Truncated   bool     `json:"truncated"`
	Spill       *Spill   `json:"spill" doc:"all paths, one a line, where the value has not all"`
	Omitted     Omitted  `json:"omitted"`
}

func (t *tools) defineGlob() (*pipeline.Tool, error) {
	pending := func(a GlobArgs) pipeline.Card {
		return pipeline.GenericCard{Title: "Find " + a.Pattern, Kind: pipeline.KindSearch, Locations: []pipeline.Location{{Path: a.Path}}}
	}
	return pipeline.Define(pipeline.Spec[GlobArgs, GlobValue]{
		Name: "glob", Title: "Find files", Description: strings.TrimSpace(globDescription),
		Hints:           pipeline.Hints{ReadOnly: true, Idempotent: true},
		Execute:         t.glob,
		Render:          renderGlob,
		FinalizeContent: t.addContent,
		Parallel:        true,
		PresentCall:     pending,
		Meta: func(_ GlobArgs, v GlobValue) any {
			return pathsOf(len(v.Paths), func(i int) string { return v.Paths[i] }, v.Total, v.Truncated)
		},
		PresentResult: presented(pending, func(_ GlobArgs, m pathsMeta) pipeline.Card { return m.card() }),
	})
}

func (t *tools) glob(ctx context.Context, a GlobArgs, c *pipeline.Call) (v GlobValue, err error) {
	pattern, err := glob.Compile(a.Pattern)
	if err != nil {
		return v, patternError("pattern", "a glob relative to path", err)
	}
	w, end, err := t.begin(ctx, c, a.Path)
	if err != nil {
		return v, err
	}
	defer end()
	k, err := w.walking(searchArgs{a.Path, a.Hidden, a.Ignored}, false)
	if err != nil {
		return v, err
	}
	k.Include, k.Types, k.Stat = pattern, walk.Files|walk.Symlinks, a.Sort == "mtime"
	tree, err := walk.Walk(ctx, k.run, k.Options)
	if err := w.done(k, err); err != nil {
		return v, err
	}
	v = GlobValue{Pattern: a.Pattern, Named: named(w.at.show), Paths: []string{}, Total: tree.Len(), Omitted: Omitted(tree.Omitted())}
	paths := sorted(tree, a.Sort == "mtime")
	room, kept := maxValueText, 0
	for _, path := range paths {
		path = w.at.below(path)
		if room -= len(path) + 4; kept == a.Limit || room < 0 {
			break
		}
		kept++
		if raw := base64Of(path); raw != "" {
			v.PathsBase64 = append(v.PathsBase64, raw)
		} else {
			v.Paths = append(v.Paths, path)
		}
	}
	if kept < len(paths) {
		v.Truncated = true
		v.Spill, err = w.spillPaths(paths)
	}
	return v, err
}

// sorted are the paths of a tree, by path, or by time with ties by path.
func sorted(tree *walk.Tree, byTime bool) []string {
	type found struct {
		path string
		at   int64
	}
	all := make([]found, 0, tree.Len())
	for path, e := range tree.All() {
		f := found{path: path}
		if byTime && e.Info != nil {
			f.at = e.ModTime.UnixNano()
		}
		all = append(all, f)
	}
	if byTime {
		slices.SortStableFunc(all, func(a, b found) int {
			switch {
			case a.at > b.at:
				return -1
			case a.at < b.at:
				return 1
			}
			return 0
		})
	}
	paths := make([]string, len(all))
	for i, f := range all {
		paths[i] = f.path
	}
	return paths
}

// spillPaths writes all paths to a file, those that are odd in quotes.
func (w *work) spillPaths(paths []string) (s *Spill, err error) {
	err = w.in.Do(func() error {
		out := w.spilling(".txt")
		defer func() { s = out.close() }()
		for _, path := range paths {
			if err := w.ctx.Err(); err != nil {
				return err
			}
			_, _ = io.WriteString(out, plain(w.at.below(path))+"\n")
		}
		return nil
	})
	return s, err
}

func renderGlob(a GlobArgs, v GlobValue) []pipeline.Content {
	var p page
	paths := slices.Clone(v.Paths)
	for _, raw := range v.PathsBase64 {
		paths = append(paths, Named{PathBase64: raw}.bytes())
	}
	for i, path := range paths {
		if !p.line(plain(path)) {
			p.fact("%d more paths of this result are not shown; narrow the pattern", len(paths)-i)
			break
		}
	}
	switch {
	case v.Total == 0:
		p.fact("nothing found for %s in %s", text.Valid(a.Pattern), plain(v.bytes()))
	case v.Truncated:
		p.fact("%d of %s; narrow the pattern or raise limit", len(paths), count(v.Total, "path", "paths"))
		spillFact(&p, v.Spill)
	}
	leftOut(&p, !a.Hidden && v.Total == 0, v.Omitted)
	return p.content()
}
