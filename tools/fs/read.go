package fs

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"io"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/dshx/dshx/fsobserve"
	"github.com/dshx/dshx/pipeline"
	"github.com/dshx/dshx/sandboxpolicy"
	"github.com/dshx/dshx/tools/fs/internal/text"
	"github.com/dshx/dshx/tools/permission"
	"golang.org/x/sys/unix"
)

//go:embed read.md
var readDescription string

// ReadArgs are read's arguments.
type ReadArgs struct {
	FileArgs
	Offset int `json:"offset,omitzero" default:"1" schema:"min=1" doc:"the first line, from 1"`
	Limit  int `json:"limit,omitzero" default:"2000" schema:"min=1" doc:"lines at most"`
	permission.Args
}

// ReadValue is read's value: of a text, an image or a directory, as Kind says.
// The fields of the other kinds are missing.
type ReadValue struct {
	Named
	Kind string `json:"kind" schema:"enum=text|image|directory"`

	Encoding   string  `json:"encoding,omitzero" doc:"utf-8, utf-16le or utf-16be"`
	BOM        *bool   `json:"bom,omitzero" doc:"the file begins with a byte order mark, which no line has"`
	LineEnding string  `json:"lineEnding,omitzero" doc:"lf, crlf, cr, mixed or none"`
	Lines      []Line  `json:"lines,omitzero"`
	Offset     int     `json:"offset,omitzero"`
	TotalLines *int    `json:"totalLines,omitzero"`
	Bytes      *int64  `json:"bytes,omitzero" doc:"of the whole file"`
	Truncated  *bool   `json:"truncated,omitzero" doc:"lines follow after the last"`
	Version    string  `json:"version,omitzero" doc:"names the content: equal as long as it is"`
	MIMEType   string  `json:"mimeType,omitzero"`
	Width      int     `json:"width,omitzero"`
	Height     int     `json:"height,omitzero"`
	Entries    []Entry `json:"entries,omitzero"`
	Total      *int    `json:"total,omitzero"`

	Omitted *Omitted `json:"omitted,omitzero"`
}

// Line is one line of a file.
type Line struct {
	N    int    `json:"n"`
	Text string `json:"text"`
	Cut  int    `json:"cut,omitzero" doc:"characters that are missing after text"`
}

func (t *tools) defineRead() (*pipeline.Tool, error) {
	output, err := pipeline.SchemaOf[ReadValue](false)
	if err != nil {
		return nil, err
	}
	// Pointers stand for fields that other kinds lack, not for null.
	for _, p := range output.Properties {
		if n := len(p.Schema.Types); n == 2 && p.Schema.Types[1] == "null" {
			p.Schema.Types = p.Schema.Types[:1]
		}
	}
	pending := func(a ReadArgs) pipeline.Card {
		return pipeline.GenericCard{Title: "Read " + a.title(), Kind: pipeline.KindRead, Locations: []pipeline.Location{{Path: a.title(), Line: a.Offset}}}
	}
	return pipeline.Define(pipeline.Spec[ReadArgs, ReadValue]{
		Name: "read", Title: "Read file", Description: strings.TrimSpace(readDescription),
		Hints:           pipeline.Hints{ReadOnly: true, Idempotent: true},
		Output:          output,
		Execute:         t.read,
		Render:          renderRead,
		FinalizeContent: t.addContent,
		Parallel:        true,
		PresentCall:     pending,
		Meta:            metaOfRead,
		PresentResult: presented(pending, func(a ReadArgs, m readMeta) pipeline.Card {
			switch {
			case m.Text != nil:
				return pipeline.ReadCard{Path: m.Path, Offset: m.Text.Offset, Lines: m.Text.Lines, TotalLines: m.Text.TotalLines, Lang: language(m.Path)}
			case m.Directory != nil:
				return m.Directory.card()
			}
			return pending(a)
		}),
	})
}

// readMeta is what a card shows of a text or a directory; of an image there is
// no more than its path.
type readMeta struct {
	Path      string     `json:"path"`
	Text      *textMeta  `json:"text,omitzero"`
	Directory *pathsMeta `json:"directory,omitzero"`
}

// textMeta is the beginning of what was read.
type textMeta struct {
	Offset     int      `json:"offset"`
	Lines      []string `json:"lines"`
	TotalLines int      `json:"totalLines"`
}

func metaOfRead(_ ReadArgs, v ReadValue) any {
	m := readMeta{Path: v.Path}
	switch v.Kind {
	case "text":
		line := func(i int) string { return v.Lines[i].Text }
		m.Text = &textMeta{Offset: v.Offset, Lines: make([]string, fitting(len(v.Lines), line)), TotalLines: *v.TotalLines}
		for i := range m.Text.Lines {
			m.Text.Lines[i] = line(i)
		}
	case "directory":
		m.Directory = pathsOf(len(v.Entries), func(i int) string { return v.Entries[i].Path }, *v.Total, *v.Truncated)
	}
	return m
}

func (t *tools) read(ctx context.Context, a ReadArgs, c *pipeline.Call) (v ReadValue, err error) {
	path, err := a.path()
	if err != nil {
		return v, err
	}
	w, end, err := t.begin(ctx, c, path)
	if err != nil {
		return v, err
	}
	defer end()
	if err := w.judge(sandboxpolicy.OpRead, w.at.real); err != nil {
		return v, err
	}
	err = w.in.Do(func() error {
		fd, st, err := w.open()
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		v.Named = named(w.at.show)
		if st.Mode&unix.S_IFMT == unix.S_IFDIR {
			v.Kind = "directory"
			return nil
		}
		return w.readFile(a, fd, &st, &v)
	})
	var e *pipeline.Error
	if errors.As(err, &e) && e.Code == "FS_NOT_FOUND" {
		w.observer.Missing(c, w.at.real)
	}
	if err == nil && v.Kind == "directory" {
		err = w.readDirectory(a, &v)
	}
	return v, err
}

// readDirectory is list in read's value. A walk wants threads of its own, so it
// isn't made inside of the one that opened the directory.
func (w *work) readDirectory(a ReadArgs, v *ReadValue) error {
	l, err := w.entries(ListArgs{Depth: 1, Hidden: true, Limit: a.Limit})
	if err != nil {
		return err
	}
	v.Entries, v.Total, v.Truncated, v.Omitted = l.Entries, &l.Total, &l.Truncated, &l.Omitted
	return nil
}

// readFile reads an open file. All of it is read, whatever the window, since
// only then it counts as seen and its lines are counted.
func (w *work) readFile(a ReadArgs, fd int, st *unix.Stat_t, v *ReadValue) error {
	f := &reading{ctx: w.ctx, fd: fd, hash: fsobserve.NewHash(), size: st.Size}
	if done, err := w.readImage(f, v); done || err != nil {
		if err == nil {
			w.observer.Observed(w.call, w.at.real, fsobserve.StateOf(st, f.read, f.hash.Sum64()), nil)
			v.Version = fsobserve.StateOf(st, f.read, f.hash.Sum64()).Version()
		}
		return err
	}
	var content []byte // kept to tell later what has changed
	r, size := io.ReaderAt(f), st.Size
	if size <= fsobserve.MaxContent {
		var err error
		if content, err = f.all(size); err != nil {
			return w.failed(sandboxpolicy.OpRead, err)
		}
		r, size = bytes.NewReader(content), int64(len(content))
	}
	win, err := text.Read(r, size, a.Offset, a.Limit)
	if err != nil {
		return w.coded(err)
	}
	state := fsobserve.StateOf(st, f.read, f.hash.Sum64())
	w.observer.Observed(w.call, w.at.real, state, content)
	v.Kind, v.Encoding, v.BOM, v.LineEnding = "text", win.Encoding.String(), &win.BOM, string(win.LineEnding)
	v.Lines, v.Offset, v.TotalLines, v.Bytes, v.Truncated = make([]Line, len(win.Lines)), win.Offset, &win.TotalLines, &win.Bytes, &win.Truncated
	for i, l := range win.Lines {
		v.Lines[i] = Line(l)
	}
	v.Version = state.Version()
	return nil
}

func renderRead(a ReadArgs, v ReadValue) []pipeline.Content {
	var p page
	switch v.Kind {
	case "image":
		p.fact("%s of %d × %d pixels, %d bytes: %s", v.MIMEType, v.Width, v.Height, *v.Bytes, plain(v.bytes()))
		return p.content()
	case "directory":
		p.fact("%s is a directory", plain(v.bytes()))
		p.entries(v.Entries)
		listFacts(&p, ListArgs{Hidden: true}, ListValue{Named: v.Named, Entries: v.Entries, Total: *v.Total, Truncated: *v.Truncated, Omitted: *v.Omitted})
		return p.content()
	}
	last := v.Offset - 1
	for _, l := range v.Lines {
		line := strconv.Itoa(l.N) + "\t" + l.Text
		if l.Cut > 0 {
			line += " [" + strconv.Itoa(l.Cut) + " more characters in this line]"
		}
		if !p.line(line) {
			break
		}
		last = l.N
	}
	switch total := *v.TotalLines; {
	case total == 0:
		p.fact("the file is empty")
	case v.Offset > total:
		p.fact("there is no line %d: the file has %s", v.Offset, count(total, "line", "lines"))
	case last < total:
		p.fact("lines %d to %d of %d; read on with offset %d", v.Offset, last, total, last+1)
	}
	if v.LineEnding == "crlf" || v.LineEnding == "cr" || v.LineEnding == "mixed" {
		p.fact("line ends: %s", v.LineEnding)
	}
	if v.Encoding != "utf-8" {
		p.fact("encoding: %s", v.Encoding)
	}
	return p.content()
}

// languages are names that highlighters know, by file name extension.
var languages = map[string]string{
	".bash": "bash", ".c": "c", ".cc": "cpp", ".cpp": "cpp", ".cs": "csharp", ".css": "css", ".go": "go", ".h": "c", ".hpp": "cpp",
	".html": "html", ".java": "java", ".js": "javascript", ".json": "json", ".jsx": "jsx", ".kt": "kotlin", ".lua": "lua", ".md": "markdown",
	".mjs": "javascript", ".php": "php", ".pl": "perl", ".py": "python", ".rb": "ruby", ".rs": "rust", ".scss": "scss", ".sh": "bash",
	".sql": "sql", ".swift": "swift", ".toml": "toml", ".ts": "typescript", ".tsx": "tsx", ".xml": "xml", ".yaml": "yaml", ".yml": "yaml",
}

func language(path string) string { return languages[strings.ToLower(filepath.Ext(path))] }
