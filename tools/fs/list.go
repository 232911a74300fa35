package fs

import (
	"context"
	_ "embed"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/dshx/dshx/pipeline"
	"github.com/dshx/dshx/tools/fs/internal/text"
	"github.com/dshx/dshx/tools/fs/internal/walk"
	"github.com/dshx/dshx/tools/permission"
)

//go:embed list.md
var listDescription string

// ListArgs are list's arguments.
type ListArgs struct {
	Path    string `json:"path,omitzero" default:"\".\"" doc:"the directory; relative to the workspace, or absolute"`
	Depth   int    `json:"depth,omitzero" default:"1" schema:"min=1,max=1000" doc:"how many levels: 1 is the directory's own entries"`
	Hidden  bool   `json:"hidden,omitzero" default:"true" doc:"names that begin with a dot, too"`
	Ignored bool   `json:"ignored,omitzero" default:"false" doc:"what git ignores, and .git, too"`
	Limit   int    `json:"limit,omitzero" default:"1000" schema:"min=1,max=10000" doc:"entries at most"`
	permission.Args
}

// ListValue is list's value.
type ListValue struct {
	Named
	Entries   []Entry `json:"entries"`
	Total     int     `json:"total" doc:"entries that there are, those beyond the limit included"`
	Truncated bool    `json:"truncated"`
	Omitted   Omitted `json:"omitted"`
}

// Entry is something in a directory.
type Entry struct {
	Name       string  `json:"name"`
	NameBase64 string  `json:"nameBase64,omitzero"`
	Named              // its path
	Type       string  `json:"type" schema:"enum=file|directory|symlink|other"`
	Size       int64   `json:"size" doc:"in bytes"`
	Mode       string  `json:"mode" doc:"permission bits, in octal"`
	Mtime      string  `json:"mtime" doc:"RFC 3339, UTC"`
	Target     *string `json:"target" doc:"what a symbolic link says; null for others"`
}

func (t *tools) defineList() (*pipeline.Tool, error) {
	pending := func(a ListArgs) pipeline.Card {
		return pipeline.GenericCard{Title: "List " + text.Valid(a.Path), Kind: pipeline.KindRead, Locations: []pipeline.Location{{Path: a.Path}}}
	}
	return pipeline.Define(pipeline.Spec[ListArgs, ListValue]{
		Name: "list", Title: "List directory", Description: strings.TrimSpace(listDescription),
		Hints:           pipeline.Hints{ReadOnly: true, Idempotent: true},
		Execute:         t.list,
		Render:          renderList,
		FinalizeContent: t.addContent,
		Parallel:        true,
		Meta: func(_ ListArgs, v ListValue) any {
			return pathsOf(len(v.Entries), func(i int) string { return v.Entries[i].Path }, v.Total, v.Truncated)
		},
		PresentCall:   pending,
		PresentResult: presented(pending, func(_ ListArgs, m pathsMeta) pipeline.Card { return m.card() }),
	})
}

func (t *tools) list(ctx context.Context, a ListArgs, c *pipeline.Call) (v ListValue, err error) {
	w, end, err := t.begin(ctx, c, a.Path)
	if err != nil {
		return v, err
	}
	defer end()
	return w.entries(a)
}

// entries lists w's directory.
func (w *work) entries(a ListArgs) (v ListValue, err error) {
	k, err := w.walking(searchArgs{a.Path, a.Hidden, a.Ignored}, false)
	if err != nil {
		return v, err
	}
	k.Depth, k.Stat = a.Depth, true
	if a.Depth == 1 {
		k.Workers = 1 // there is one directory to read
	}
	tree, err := walk.Walk(w.ctx, k.run, k.Options)
	if err := w.done(k, err); err != nil {
		return v, err
	}
	v = ListValue{Named: named(w.at.show), Entries: []Entry{}, Total: tree.Len(), Omitted: Omitted(tree.Omitted())}
	room := maxValueText * 4 // an entry is mostly names of fields
	for path, e := range tree.All() {
		size := 160 + 2*len(path) + len(e.Target)
		if len(v.Entries) == a.Limit || size > room {
			v.Truncated = true
			break
		}
		room -= size
		v.Entries = append(v.Entries, w.entry(path, e))
	}
	return v, nil
}

var typeNames = [...]string{walk.File: "file", walk.Directory: "directory", walk.Symlink: "symlink", walk.Other: "other"}

func (w *work) entry(path string, e walk.Entry) Entry {
	name := filepath.Base(path)
	out := Entry{
		Name: text.Valid(name), NameBase64: base64Of(name), Named: named(w.at.below(path)),
		Type: typeNames[e.Type], Size: e.Size, Mode: fmt.Sprintf("%04o", e.Mode&0o7777), Mtime: e.ModTime.UTC().Format(time.RFC3339Nano),
	}
	if e.Type == walk.Symlink {
		target := text.Valid(e.Target)
		out.Target = &target
	}
	return out
}

func renderList(a ListArgs, v ListValue) []pipeline.Content {
	var p page
	p.entries(v.Entries)
	listFacts(&p, a, v)
	return p.content()
}

// entries adds a line for each entry, and says where it stopped.
func (p *page) entries(entries []Entry) {
	for i, e := range entries {
		if !p.line(entryLine(e)) {
			p.fact("%d more entries of this result are not shown; list fewer at a time", len(entries)-i)
			return
		}
	}
}

// entryLine is how a model sees an entry: its path, with what it is.
func entryLine(e Entry) string {
	line := plain(e.bytes())
	switch e.Type {
	case "directory":
		return line + "/"
	case "symlink":
		return line + " -> " + plain(*e.Target)
	case "other":
		return line + " (FIFO, socket or device)"
	}
	return line + " (" + strconv.FormatInt(e.Size, 10) + " bytes)"
}

func listFacts(p *page, a ListArgs, v ListValue) {
	switch {
	case v.Truncated:
		p.fact("%d of %s; raise limit, or list a directory below", len(v.Entries), count(v.Total, "entry", "entries"))
	case v.Total == 0:
		p.fact("nothing found in %s", plain(v.bytes()))
	}
	leftOut(p, !a.Hidden && v.Total == 0, v.Omitted)
}
