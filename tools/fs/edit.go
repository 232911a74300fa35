package fs

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/dshx/dshx/fsobserve"
	"github.com/dshx/dshx/pipeline"
	"github.com/dshx/dshx/tools/fs/internal/edit"
	"github.com/dshx/dshx/tools/fs/internal/text"
	"github.com/dshx/dshx/tools/permission"
)

//go:embed edit.md
var editDescription string

// EditArgs are edit's arguments: one edit, or several in Edits.
type EditArgs struct {
	FileArgs
	OldString  *string    `json:"old_string" schema:"min=1" doc:"the text to replace, exactly as it stands in the file; it must occur once"`
	NewString  *string    `json:"new_string" doc:"what takes its place"`
	ReplaceAll bool       `json:"replace_all,omitzero" default:"false" doc:"replace every occurrence"`
	Edits      []EditPart `json:"edits,omitzero" schema:"min=1,max=1000" doc:"several edits instead of old_string and new_string: all or none, in order, each in the result of the one before"`
	permission.Args
}

// EditPart is one of several edits.
type EditPart struct {
	OldString  string `json:"old_string" schema:"min=1"`
	NewString  string `json:"new_string"`
	ReplaceAll bool   `json:"replace_all,omitzero" default:"false"`
}

// EditValue is edit's value.
type EditValue struct {
	Named
	Replacements int        `json:"replacements"`
	Edits        []EditDone `json:"edits"`
	Bytes        int64      `json:"bytes" doc:"of the file now"`
	Version      string     `json:"version"`
	Links        int        `json:"links" doc:"names that the replaced file had; those beside this one keep the old content"`
	Diff         string     `json:"diff" doc:"unified; bounded, and says what it leaves out"`

	meta *changeMeta
}

// EditDone is what one edit did.
type EditDone struct {
	Line  int `json:"line" doc:"where its first match began, from 1, in the text that it was applied to"`
	Count int `json:"count"`
}

func (t *tools) defineEdit() (*pipeline.Tool, error) {
	pending := func(a EditArgs) pipeline.Card {
		card := pipeline.DiffCard{Title: "Edit " + a.title(), Diffs: a.diffs(a.title()), Locations: []pipeline.Location{{Path: a.title()}}}
		if len(card.Diffs) == 0 {
			return nil
		}
		return card
	}
	return pipeline.Define(pipeline.Spec[EditArgs, EditValue]{
		Name: "edit", Title: "Edit file", Description: strings.TrimSpace(editDescription),
		Hints:           pipeline.Hints{Destructive: true},
		Execute:         t.edit,
		Render:          renderEdit,
		FinalizeContent: t.addContent,
		Meta:            func(_ EditArgs, v EditValue) any { return v.meta },
		PresentCall:     pending,
		PresentResult: presented(pending, func(a EditArgs, m changeMeta) pipeline.Card {
			diffs := a.diffs(m.Path)
			if len(diffs) == 0 {
				return nil
			}
			diffs[0].Hunks = m.Hunks // those of all edits together
			return changeCard("Edit "+m.Path, diffs, m.Hunks)
		}),
	})
}

// diffs are the edits for a card.
func (a EditArgs) diffs(path string) []pipeline.FileDiff {
	parts, _ := a.parts()
	var diffs []pipeline.FileDiff
	var room cutter
	for _, e := range parts {
		old := room.text(e.Old)
		diffs = append(diffs, pipeline.FileDiff{Path: path, OldText: &old, NewText: room.text(e.New), Hunks: []pipeline.Hunk{}})
	}
	return diffs
}

// parts are the edits, from whichever form they were given in.
func (a EditArgs) parts() ([]edit.Edit, error) {
	if a.Edits != nil {
		if a.OldString != nil || a.NewString != nil || a.ReplaceAll {
			return nil, invalid("edits", "given without old_string, new_string and replace_all, which belong in its items", "both forms")
		}
		parts := make([]edit.Edit, len(a.Edits))
		for i, e := range a.Edits {
			parts[i] = edit.Edit{Old: e.OldString, New: e.NewString, All: e.ReplaceAll}
		}
		return parts, nil
	}
	switch {
	case a.OldString == nil:
		return nil, invalid("old_string", "a string that is not empty, unless there are edits", "missing")
	case a.NewString == nil:
		return nil, invalid("new_string", "a string", "missing")
	}
	return []edit.Edit{{Old: *a.OldString, New: *a.NewString, All: a.ReplaceAll}}, nil
}

func (t *tools) edit(ctx context.Context, a EditArgs, c *pipeline.Call) (v EditValue, err error) {
	path, err := a.path()
	if err != nil {
		return v, err
	}
	parts, err := a.parts()
	if err != nil {
		return v, err
	}
	w, end, err := t.begin(ctx, c, path)
	if err != nil {
		return v, err
	}
	defer end()
	var old *oldFile
	var result edit.Result
	done, err := w.change(change{use: fsobserve.Edit, whole: true, make: func(was *oldFile) ([]byte, error) {
		if _, err := text.Inspect(bytes.NewReader(was.data), int64(len(was.data))); err != nil {
			return nil, w.coded(err)
		}
		var err error
		old = was
		if result, err = edit.Apply(was.data, parts); err != nil {
			return nil, w.misfit(err, a.Edits != nil)
		}
		return result.Bytes, nil
	}})
	if err != nil {
		return v, err
	}
	v = EditValue{
		Named: named(w.at.show), Replacements: result.Replacements, Edits: []EditDone{},
		Bytes: done.state.Size, Version: done.state.Version(), Links: done.links,
	}
	for _, e := range result.Edits {
		v.Edits = append(v.Edits, EditDone(e))
	}
	v.Diff, v.meta = w.told(old, result.Bytes, false)
	return v, nil
}

// misfit makes an error of the engine one with details, and says beside it what
// helps to do better.
func (w *work) misfit(err error, several bool) error {
	name := w.at.name()
	which := func(i int) string {
		if several {
			return "old_string of edit " + strconv.Itoa(i)
		}
		return "old_string"
	}
	var missing *edit.NotFoundError
	var ambiguous *edit.AmbiguousError
	var same *edit.NoChangeError
	var malformed *edit.ArgsError
	switch {
	case errors.As(err, &missing):
		details := struct {
			Edit    int    `json:"edit"`
			Nearest string `json:"nearest,omitzero"`
			Line    int    `json:"line,omitzero"`
		}{missing.Edit, text.Valid(missing.Nearest), missing.Line}
		if missing.Line == 0 {
			return fail(missing.Code(), details, "%s is not in %q, nor anything like it; read the file, and copy the text from there", which(missing.Edit), name)
		}
		w.say(fmt.Sprintf("nearest text, at line %d (- as it was given, + as it is in the file):\n%s", missing.Line, details.Nearest))
		return fail(missing.Code(), details, "%s is not in %q; the most similar text is at line %d, so copy it from there", which(missing.Edit), name, missing.Line)
	case errors.As(err, &ambiguous):
		details := struct {
			Edit  int   `json:"edit"`
			Lines []int `json:"lines"`
			Count int   `json:"count"`
		}{ambiguous.Edit, ambiguous.Lines, ambiguous.Count}
		lines := make([]string, 0, 20)
		for _, n := range ambiguous.Lines[:min(len(ambiguous.Lines), 20)] {
			lines = append(lines, strconv.Itoa(n))
		}
		if len(ambiguous.Lines) > len(lines) {
			lines = append(lines, "…")
		}
		return fail(ambiguous.Code(), details, "%s occurs %d times in %q (lines %s); give more of the text around it, or set replace_all",
			which(ambiguous.Edit), ambiguous.Count, name, strings.Join(lines, ", "))
	case errors.As(err, &same):
		return fail(same.Code(), nil, "the edit would leave %q as it is; nothing was written", name)
	case errors.As(err, &malformed):
		path := malformed.Field
		if several && malformed.Edit >= 0 {
			path = "edits[" + strconv.Itoa(malformed.Edit) + "]." + path
		}
		return invalid(path, malformed.Expected, "something else")
	}
	return w.coded(err)
}

func renderEdit(_ EditArgs, v EditValue) []pipeline.Content {
	var p page
	p.line("edited " + plain(v.bytes()) + ": " + count(v.Replacements, "replacement", "replacements"))
	const most = 8 << 10 // enough to see that it is what was meant
	room := most
	for line := range strings.Lines(v.Diff) {
		if room -= len(line); room < 0 {
			p.fact("the diff goes on")
			break
		}
		p.line(strings.TrimSuffix(line, "\n"))
	}
	linksFact(&p, v.Links)
	return p.content()
}
