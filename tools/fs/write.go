package fs

import (
	"context"
	_ "embed"
	"fmt"
	"strings"

	"github.com/dshx/dshx/fsobserve"
	"github.com/dshx/dshx/pipeline"
	"github.com/dshx/dshx/tools/fs/internal/text"
	"github.com/dshx/dshx/tools/permission"
)

//go:embed write.md
var writeDescription string

// WriteArgs are write's arguments.
type WriteArgs struct {
	FileArgs
	Content    string `json:"content" doc:"all of the file's new text"`
	CreateDirs bool   `json:"create_dirs,omitzero" default:"true" doc:"make directories that are missing"`
	permission.Args
}

// WriteValue is write's value.
type WriteValue struct {
	Named
	Operation string `json:"operation" schema:"enum=create|update"`
	Bytes     int64  `json:"bytes" doc:"of the file now"`
	Version   string `json:"version"`
	Links     int    `json:"links" doc:"names that the replaced file had; those beside this one keep the old content"`
	Diff      string `json:"diff" doc:"unified; bounded, and says what it leaves out"`

	meta *changeMeta
}

// changeMeta is what a card shows of a change and the arguments haven't.
type changeMeta struct {
	Path    string          `json:"path"`
	Hunks   []pipeline.Hunk `json:"hunks"`
	OldText *string         `json:"oldText"` // null for a new file, and for one that is too large to show
}

// maxOldText bounds changeMeta.OldText, in bytes.
const maxOldText = maxShown

func (t *tools) defineWrite() (*pipeline.Tool, error) {
	pending := func(a WriteArgs) pipeline.Card {
		return pipeline.DiffCard{
			Title: "Write " + a.title(), Locations: []pipeline.Location{{Path: a.title()}},
			Diffs: []pipeline.FileDiff{{Path: a.title(), NewText: new(cutter).text(a.Content), Hunks: []pipeline.Hunk{}}},
		}
	}
	return pipeline.Define(pipeline.Spec[WriteArgs, WriteValue]{
		Name: "write", Title: "Write file", Description: strings.TrimSpace(writeDescription),
		Hints:   pipeline.Hints{Destructive: true, Idempotent: true},
		Execute: t.write,
		Render: func(_ WriteArgs, v WriteValue) []pipeline.Content {
			var p page
			p.line(map[string]string{"create": "created ", "update": "updated "}[v.Operation] + plain(v.bytes()) + " (" + count(int(v.Bytes), "byte", "bytes") + ")")
			linksFact(&p, v.Links)
			return p.content()
		},
		Meta:            func(_ WriteArgs, v WriteValue) any { return v.meta },
		FinalizeContent: t.addContent,
		PresentCall:     pending,
		PresentResult: presented(pending, func(a WriteArgs, m changeMeta) pipeline.Card {
			d := pipeline.FileDiff{Path: m.Path, OldText: m.OldText, NewText: new(cutter).text(a.Content), Hunks: m.Hunks}
			return changeCard("Write "+m.Path, []pipeline.FileDiff{d}, m.Hunks)
		}),
	})
}

// changeCard is the card of a change that was made.
func changeCard(title string, diffs []pipeline.FileDiff, hunks []pipeline.Hunk) pipeline.Card {
	at := pipeline.Location{Path: diffs[0].Path}
	if len(hunks) > 0 {
		at.Line = hunks[0].NewStart
	}
	return pipeline.DiffCard{Title: title, Diffs: diffs, Locations: []pipeline.Location{at}}
}

func (t *tools) write(ctx context.Context, a WriteArgs, c *pipeline.Call) (v WriteValue, err error) {
	path, err := a.path()
	if err != nil {
		return v, err
	}
	w, end, err := t.begin(ctx, c, path)
	if err != nil {
		return v, err
	}
	defer end()
	var old *oldFile
	var data []byte
	done, err := w.change(change{use: fsobserve.Replace, createDirs: a.CreateDirs, make: func(was *oldFile) ([]byte, error) {
		old, data = was, encode(a.Content, was)
		return data, nil
	}})
	if err != nil {
		return v, err
	}
	v = WriteValue{Named: named(w.at.show), Operation: "update", Bytes: done.state.Size, Version: done.state.Version(), Links: done.links}
	if done.created {
		v.Operation = "create"
		old = &oldFile{held: true}
	}
	v.Diff, v.meta = w.told(old, data, done.created)
	return v, nil
}

// encode is content as the file that it replaces is encoded: its byte order
// mark and UTF-16 stay. Line ends are as given.
func encode(content string, was *oldFile) []byte {
	if was == nil {
		return []byte(content)
	}
	e, bom := text.DetectEncoding(was.data)
	if bom > 0 {
		content = strings.TrimPrefix(content, "\uFEFF") // it has one
	}
	return text.Text{Encoding: e, BOM: bom > 0, Content: content}.Encode()
}

// told is what value and card say of a change.
func (w *work) told(old *oldFile, data []byte, created bool) (string, *changeMeta) {
	m := &changeMeta{Path: text.Valid(w.at.show), Hunks: []pipeline.Hunk{}}
	if !old.held {
		return fmt.Sprintf("[the file had more than %d bytes, which is too much for a diff]", maxHeld), m
	}
	var unified string
	unified, m.Hunks = compare(w.at.show, old.data, data, created, false)
	if !created && len(old.data) <= maxOldText {
		was := text.Valid(text.Decode(old.data).Content)
		m.OldText = &was
	}
	return unified, m
}

// linksFact says what became of the file's other names.
func linksFact(p *page, links int) {
	if links > 1 {
		p.fact("the file had %d hard links: the other names keep the old content", links)
	}
}
