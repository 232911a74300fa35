package fs

import (
	"encoding/base64"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/dshx/dshx/pipeline"
	"github.com/dshx/dshx/sandboxpolicy"
	"github.com/dshx/dshx/tools/fs/internal/text"
	"github.com/dshx/dshx/tools/permission"
)

// FileArgs name a file.
type FileArgs struct {
	FilePath       string `json:"file_path" unless:"file_path_base64" doc:"the file: a path relative to the workspace, or an absolute one; ~ is not expanded"`
	FilePathBase64 string `json:"file_path_base64,omitzero" doc:"the path's bytes in base64, for one that is not UTF-8; stands in for file_path"`
}

// path is the path in bytes.
func (a FileArgs) path() (string, error) {
	if a.FilePathBase64 != "" {
		raw, err := base64.StdEncoding.DecodeString(a.FilePathBase64)
		if err != nil || len(raw) == 0 {
			return "", invalid("file_path_base64", "a path in base64", fmt.Sprintf("%q", a.FilePathBase64))
		}
		return string(raw), nil
	}
	if a.FilePath == "" {
		return "", invalid("file_path", "a string that is not empty", `""`)
	}
	return a.FilePath, nil
}

// title is the path for a card, as far as it can be told.
func (a FileArgs) title() string {
	path, err := a.path()
	if err != nil {
		return "?"
	}
	return text.Valid(path)
}

// Named is a path in a value: readable, and exact.
type Named struct {
	Path       string `json:"path" doc:"relative to the workspace, absolute outside of it"`
	PathBase64 string `json:"pathBase64,omitzero" doc:"the path's bytes, where path is not exact since they are not UTF-8"`
}

func named(path string) Named { return Named{text.Valid(path), base64Of(path)} }

// bytes is the exact path.
func (n Named) bytes() string {
	if raw, err := base64.StdEncoding.DecodeString(n.PathBase64); err == nil && len(raw) > 0 {
		return string(raw)
	}
	return n.Path
}

// base64Of is name in base64 if it is not UTF-8, else "".
func base64Of(name string) string {
	if utf8.ValidString(name) {
		return ""
	}
	return base64.StdEncoding.EncodeToString([]byte(name))
}

// place is what a path means.
type place struct {
	said  string // as the caller wrote it
	given string // said, absolute
	real  string // absolute, without links
	show  string // real as values have it: relative to the workspace, or absolute
	slash bool   // written as a directory
	spill bool   // in a directory of Options.Spills
}

// resolve finds out what path means to the file system, ".." after a link
// included. What isn't there keeps its name.
func resolve(p *sandboxpolicy.Policy, path string) (place, error) {
	switch {
	case path == "":
		return place{}, fail("FS_INVALID_PATH", nil, "the path is empty; name a file or directory")
	case strings.IndexByte(path, 0) >= 0:
		return place{}, fail("FS_INVALID_PATH", nil, "the path %q has a NUL character, which no file name can have", text.Valid(path))
	}
	at := place{said: path, given: path}
	if path[0] != '/' {
		at.given = p.Workspace() + "/" + path
	}
	last := path[strings.LastIndexByte(path, '/')+1:]
	at.slash = last == "" || last == "." || last == ".."
	var err error
	// An absolute path: nothing is expanded in it. The one error that is left
	// is a loop.
	if at.real, err = p.ResolvePath(sandboxpolicy.OpRead, at.given, sandboxpolicy.OSFacts{}); err != nil {
		return place{}, fail("FS_SYMLINK_LOOP", nil, "the symbolic links of %q lead round in a circle; name the file that is meant", clipped(text.Valid(path)))
	}
	at.show = shown(p, at.real)
	return at, nil
}

// shown is how values have an absolute path.
func shown(p *sandboxpolicy.Policy, real string) string {
	ws := p.Workspace()
	if real == ws {
		return "."
	}
	if rel, ok := strings.CutPrefix(real, strings.TrimSuffix(ws, "/")+"/"); ok {
		return rel
	}
	return real
}

// name is the path for a message.
func (at place) name() string { return text.Valid(at.show) }

// below is how values have a path that was found below at.
func (at place) below(rel string) string {
	switch at.show {
	case ".":
		return rel
	case "/":
		return "/" + rel
	}
	return at.show + "/" + rel
}

// Denial is what refused an operation, in the shape that commands' denials have.
type Denial struct {
	Operation string             `json:"operation"`
	Target    string             `json:"target"`
	Resolved  string             `json:"resolved"`
	Rule      sandboxpolicy.Rule `json:"rule"`
	Evidence  string             `json:"evidence"`
	Remedy    string             `json:"remedy"`
}

// doing says what an operation does, for a message.
var doing = map[sandboxpolicy.Op]string{
	sandboxpolicy.OpRead:   "be read",
	sandboxpolicy.OpWrite:  "be written",
	sandboxpolicy.OpCreate: "be made",
	sandboxpolicy.OpChmod:  "be given the mode of the file that it replaces",
	sandboxpolicy.OpChown:  "be given the owner of the file that it replaces",
	sandboxpolicy.OpXattr:  "be given the attributes of the file that it replaces",
}

// judge asks the policy about an operation on a resolved path.
//
// Errors: SANDBOX_DENIED.
func (w *work) judge(op sandboxpolicy.Op, path string) error {
	p := w.in.Policy()
	if kernelsOwn(path) {
		return w.denied(op, path, sandboxpolicy.Rule{Text: "file tools stay out of /proc and /sys", Origin: "preset"}, "use a command to look at them")
	}
	if w.at.spill && op == sandboxpolicy.OpRead {
		return nil
	}
	v := p.Verdict(op, path)
	if v.Allow {
		return nil
	}
	ops := []sandboxpolicy.Op{op}
	return w.denied(op, path, v.Rule, permission.WithOffer(p.RemedyOnDisk(ops, path, v, exists), permission.Offer(p, ops, path, "", v.Rule)))
}

func (w *work) denied(op sandboxpolicy.Op, path string, rule sandboxpolicy.Rule, remedy string) error {
	d := Denial{
		Operation: string(op), Target: text.Valid(w.at.said), Resolved: text.Valid(path),
		Rule:     sandboxpolicy.Rule{Text: text.Valid(rule.Text), Origin: text.Valid(rule.Origin)},
		Evidence: "supervisor", Remedy: text.Valid(remedy),
	}
	details := struct {
		Denial Denial `json:"denial"`
	}{d}
	return pipeline.Fail("SANDBOX_DENIED", fmt.Sprintf("the policy doesn't let %q %s (%s); %s",
		text.Valid(shown(w.in.Policy(), path)), doing[op], d.Rule.Text, d.Remedy), details)
}

// kernelsOwn reports a path in a file system whose files are questions to the
// kernel: reading there can block, have effects, or never end.
func kernelsOwn(path string) bool {
	for _, dir := range [...]string{"/proc", "/sys"} {
		if path == dir || strings.HasPrefix(path, dir+"/") {
			return true
		}
	}
	return false
}
