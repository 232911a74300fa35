package fs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// oracle is what a plain reading of the rules says about files and what a caller
// has seen of them.
type oracle struct {
	files map[string]string
	seen  map[string]*string // nil: seen not to be there
}

func (o *oracle) mayChange(name string, edit bool) string {
	now, there := o.files[name]
	seen, looked := o.seen[name]
	switch {
	case there && !looked, there && edit && seen == nil:
		return "FS_NOT_OBSERVED"
	case there && (seen == nil || *seen != now), !there && seen != nil:
		return "FS_STALE"
	case !there && edit:
		o.seen[name] = nil
		return "FS_NOT_FOUND"
	}
	return ""
}

func (o *oracle) write(name, content string) string {
	if code := o.mayChange(name, false); code != "" {
		return code
	}
	o.put(name, content)
	return ""
}

func (o *oracle) put(name, content string) { o.files[name], o.seen[name] = content, &content }

func (o *oracle) edit(name string, edits [][2]string) string {
	if code := o.mayChange(name, true); code != "" {
		return code
	}
	text := o.files[name]
	for _, e := range edits {
		switch strings.Count(text, e[0]) {
		case 0:
			return "EDIT_NOT_FOUND"
		case 1:
			text = strings.Replace(text, e[0], e[1], 1)
		default:
			return "EDIT_AMBIGUOUS"
		}
	}
	if text == o.files[name] {
		return "EDIT_NO_CHANGE"
	}
	o.put(name, text)
	return ""
}

// Random reads, writes and edits, and changes by others in between, end as the
// oracle says, byte for byte.
func TestProperty_EditsMatchTheOracle(t *testing.T) {
	r := newRig(t, nil, nil)
	round := 0
	letters := rapid.StringOfN(rapid.RuneFrom([]rune("abé \n")), 0, 12, -1)
	some := rapid.StringOfN(rapid.RuneFrom([]rune("abé \n")), 1, 3, -1)
	rapid.Check(t, func(rt *rapid.T) {
		round++
		dir := fmt.Sprint(round)
		if err := os.Mkdir(filepath.Join(r.ws, dir), 0o755); err != nil {
			rt.Fatal(err)
		}
		o := &oracle{map[string]string{}, map[string]*string{}}
		same := func(what, name string, g got, code string) {
			if g.Code != code {
				rt.Fatalf("%s %s: %v, want %q", what, name, g.r.Failure(), code)
			}
			data, err := os.ReadFile(filepath.Join(r.ws, dir, name))
			if want, there := o.files[name]; there != (err == nil) || string(data) != want {
				rt.Fatalf("after %s %s it is %q (%v), want %q (%v)", what, name, data, err, want, there)
			}
		}
		names := rapid.SampledFrom([]string{"x", "y", "sub/z"})
		for range rapid.IntRange(1, 25).Draw(rt, "steps") {
			name := names.Draw(rt, "file")
			path := filepath.Join(dir, name)
			switch rapid.SampledFrom([]string{"read", "write", "edit", "edit", "edit", "edits", "change", "remove", "touch", "copy"}).Draw(rt, "step") {
			case "read":
				code := ""
				if text, there := o.files[name]; there {
					o.seen[name] = &text
				} else {
					code, o.seen[name] = "FS_NOT_FOUND", nil
				}
				same("read", name, r.read(path), code)
			case "write":
				text := letters.Draw(rt, "content")
				code := o.write(name, text)
				same("write", name, r.call("write", "file_path", path, "content", text), code)
			case "edit":
				old, new := some.Draw(rt, "old"), letters.Draw(rt, "new")
				code := o.edit(name, [][2]string{{old, new}})
				same("edit", name, r.edit(path, old, new), code)
			case "edits":
				var list [][2]string
				var args []map[string]any
				for range rapid.IntRange(1, 3).Draw(rt, "edits") {
					e := [2]string{some.Draw(rt, "old"), letters.Draw(rt, "new")}
					list, args = append(list, e), append(args, map[string]any{"old_string": e[0], "new_string": e[1]})
				}
				code := o.edit(name, list)
				same("edits", name, r.call("edit", "file_path", path, "edits", args), code)
			case "change":
				o.files[name] = letters.Draw(rt, "content")
				r.put(path, o.files[name])
			case "remove":
				delete(o.files, name)
				_ = os.Remove(filepath.Join(r.ws, path))
			case "touch":
				at := time.Unix(int64(rapid.IntRange(1, 1<<30).Draw(rt, "time")), 0)
				_ = os.Chtimes(filepath.Join(r.ws, path), at, at)
			case "copy": // the same bytes in another file
				if text, there := o.files[name]; there {
					r.put(path+".new", text)
					if err := os.Rename(filepath.Join(r.ws, path+".new"), filepath.Join(r.ws, path)); err != nil {
						rt.Fatal(err)
					}
				}
			}
		}
	})
	r.nothingLeft()
}
