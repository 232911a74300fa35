package integration

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The cases of family 1 that are about file tools, through the built program.

// do makes one call and returns its result.
func (c *lineConn) do(tool string, args map[string]any) reply {
	c.t.Helper()
	c.call(1, tool, args)
	return c.result()
}

// file is a call that names a file, with further arguments in pairs.
func (c *lineConn) file(tool, path string, more ...any) reply {
	c.t.Helper()
	args := map[string]any{"file_path": path}
	for i := 0; i < len(more); i += 2 {
		args[more[i].(string)] = more[i+1]
	}
	return c.do(tool, args)
}

// wantCode fails unless the call failed with one of the codes; "" is success.
func wantCode(t *testing.T, what string, r reply, codes ...string) {
	t.Helper()
	got := ""
	if r.Error != nil {
		got = r.Error.Code
	}
	for _, code := range codes {
		if got == code {
			return
		}
	}
	t.Errorf("%s: code %q, want %q: %s", what, got, codes, mustJSON(r))
}

// F1-13: a file that has a second name outside is replaced, not written.
func TestF1_13_HardLinks(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		c := e.lines(Opts{})
		for _, tool := range []string{"write", "edit"} {
			outside, inside := e.Write(filepath.Join(e.O, tool), "one\n", 0o640), filepath.Join(e.W, tool)
			if err := os.Link(outside, inside); err != nil {
				t.Fatal(err)
			}
			if r := c.file("read", inside); r.Error != nil || !strings.Contains(mustJSON(r), "one") {
				t.Errorf("control: read: %s", mustJSON(r))
			}
			var r reply
			if tool == "edit" {
				r = c.file("edit", inside, "old_string", "one", "new_string", "two")
			} else {
				r = c.file("write", inside, "content", "two\n")
			}
			if r.Error != nil || r.field(t, "links") != "2" {
				t.Errorf("%s doesn't say that there were two names: %s", tool, mustJSON(r))
			}
			if in, out := e.Read(inside), e.Read(outside); in != "two\n" || out != "one\n" {
				t.Errorf("%s: %q inside, %q outside", tool, in, out)
			}
		}
		// Control: an ordinary file keeps its mode and owner, a link stays one.
		plain := e.Write(filepath.Join(e.W, "plain"), "one\n", 0o751)
		link := e.Symlink("plain", filepath.Join(e.W, "link"))
		before, err := describe(plain)
		if err != nil {
			t.Fatal(err)
		}
		wantCode(t, "read by the link", c.file("read", link), "")
		wantCode(t, "edit by the link", c.file("edit", link, "old_string", "one", "new_string", "two"), "")
		after, err := describe(plain)
		if err != nil {
			t.Fatal(err)
		}
		head := func(s string) string { s, _, _ = strings.Cut(s, " mtime"); return s }
		if target, err := os.Readlink(link); head(before) != head(after) || e.Read(plain) != "two\n" || err != nil || target != "plain" {
			t.Errorf("%s became %s, with %q; the link: %q, %v", before, after, e.Read(plain), target, err)
		}
		if code := c.end(); code != 0 {
			t.Errorf("status %d", code)
		}
	})
}

// F1-18: a file tool gets the verdict that a command gets, for every spelling,
// and searches print nothing from where they may not read.
func TestF1_18_SameVerdicts(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		const marker = "MARKER-key"
		f := e.Write(filepath.Join(e.O, "f"), "outside\n")
		key := e.Write(filepath.Join(e.H, ".ssh/key"), marker+"\n")
		own := e.Write(filepath.Join(e.W, "own"), "own\n")
		e.Write(filepath.Join(e.H, "plain/file"), "plain\n")
		for _, preset := range []string{"workspace-write", "read-only"} {
			check := Unchanged(t, e.O, e.H)
			c := e.lines(Opts{}, "--preset", preset)
			for _, path := range []string{f, e.W + "/../O/f", "../O/f", "/proc/self/root" + f, key, e.O + "/../H/.ssh/key", own, "own"} {
				verdict := func(script string) bool {
					return c.do("bash", map[string]any{"command": script + ` 2>/dev/null`, "env": map[string]string{"F": path}}).field(t, "exitCode") == "0"
				}
				r := c.file("read", path)
				if ok := r.Error == nil; ok != verdict(`cat "$F" >&2`) {
					t.Errorf("%s: read %s: %v, a command %v", preset, path, ok, !ok)
				}
				if strings.Contains(mustJSON(r), marker) {
					t.Errorf("%s: read %s: %s", preset, path, mustJSON(r))
				}
				// What a command may write the tool may, and changes nothing by it.
				may := verdict(`exec 9>>"$F"`)
				for tool, r := range map[string]reply{
					"write": c.file("write", path, "content", "pwned\n"), "edit": c.file("edit", path, "old_string", "o", "new_string", "0"),
				} {
					if !may {
						wantCode(t, preset+": "+tool+" "+path, r, "SANDBOX_DENIED", "FS_NOT_OBSERVED")
					} else if r.Error != nil && r.Error.Code == "SANDBOX_DENIED" {
						t.Errorf("%s: %s %s is denied, a command's write is not", preset, tool, path)
					}
				}
				e.Write(own, "own\n")
			}
			for _, path := range []string{e.H, e.Root} {
				for tool, args := range map[string]map[string]any{
					"glob": {"pattern": "**/key", "path": path, "hidden": true, "ignored": true},
					"grep": {"pattern": marker, "path": path, "hidden": true, "ignored": true},
				} {
					r := c.do(tool, args)
					if r.Error != nil || strings.Contains(string(r.Value), ".ssh/key") || r.field(t, "omitted.denied") == "0" {
						t.Errorf("%s: %s in %s: %s", preset, tool, path, mustJSON(r))
					}
				}
				r := c.do("grep", map[string]any{"pattern": "^plain$", "path": path})
				if r.Error != nil || !strings.Contains(string(r.Value), "plain/file") {
					t.Errorf("control: %s: grep in %s: %s", preset, path, mustJSON(r))
				}
			}
			if code := c.end(); code != 0 {
				t.Errorf("status %d", code)
			}
			check()
		}
	})
}

// F1-19: links that lead out, nowhere, within and in a circle.
func TestF1_19_Links(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		e.Write(filepath.Join(e.O, "secret"), "MARKER-outside\n")
		b := e.Write(filepath.Join(e.W, "b"), "inside\n")
		for link, target := range map[string]string{"d": e.O, "draft": filepath.Join(e.O, "new"), "a": "b", "c": "c"} {
			e.Symlink(target, filepath.Join(e.W, link))
		}
		check := Unchanged(t, e.O)
		c := e.lines(Opts{}, "--deny-read", e.O)
		for what, r := range map[string]reply{
			"read d/secret": c.file("read", "d/secret"),
			"write d/x":     c.file("write", "d/x", "content", "x"),
			"write draft":   c.file("write", "draft", "content", "x"),
			"edit d/secret": c.file("edit", "d/secret", "old_string", "M", "new_string", "m"),
			"list d":        c.do("list", map[string]any{"path": "d"}),
			"grep d":        c.do("grep", map[string]any{"pattern": "MARKER", "path": "d"}),
		} {
			wantCode(t, what, r, "SANDBOX_DENIED")
			if strings.Contains(mustJSON(r), "MARKER") {
				t.Errorf("%s: %s", what, mustJSON(r))
			}
		}
		wantCode(t, "write c", c.file("write", "c", "content", "x"), "FS_SYMLINK_LOOP")
		wantCode(t, "read c", c.file("read", "c"), "FS_SYMLINK_LOOP")
		// Control: through the inner link.
		wantCode(t, "read a", c.file("read", "a"), "")
		wantCode(t, "write a", c.file("write", "a", "content", "changed\n"), "")
		if got := e.Read(b); got != "changed\n" {
			t.Errorf("control: b is %q", got)
		}
		if code := c.end(); code != 0 {
			t.Errorf("status %d", code)
		}
		check()
		if Exists(filepath.Join(e.O, "new")) {
			t.Error("the dangling link's target was made")
		}
	})
}

// F1-20: a directory that is a link outside at every second look.
func TestF1_20_FlippedDirectory(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		e.Write(filepath.Join(e.O, "f"), "MARKER-outside\n")
		e.Write(filepath.Join(e.W, "d/f"), "inside\n")
		e.Symlink(e.O, filepath.Join(e.W, "l"))
		check := Unchanged(t, e.O)
		c := e.lines(Opts{}, "--deny-read", e.O)
		stop := make(chan struct{})
		var flips sync.WaitGroup
		flips.Add(1)
		go func() {
			defer flips.Done()
			for d, l := filepath.Join(e.W, "d"), filepath.Join(e.W, "l"); ; {
				select {
				case <-stop:
					return
				default:
					_ = unix.Renameat2(unix.AT_FDCWD, d, unix.AT_FDCWD, l, unix.RENAME_EXCHANGE)
				}
			}
		}()
		count := map[string]int{}
		for i := range scale(2000, 300) {
			for tool, r := range map[string]reply{
				"read": c.file("read", "d/f"), "write": c.file("write", "d/f", "content", "inside "+itoa(i)+"\n"),
			} {
				outcome := "ok"
				if r.Error != nil {
					outcome = r.Error.Code
				}
				count[tool+" "+outcome]++
				if strings.Contains(mustJSON(r), "MARKER") {
					t.Fatalf("%s: %s", tool, mustJSON(r))
				}
			}
		}
		close(stop)
		flips.Wait()
		if count["read ok"] == 0 || count["write ok"] == 0 || count["read SANDBOX_DENIED"] == 0 {
			t.Errorf("control: outcomes %v", count)
		}
		if code := c.end(); code != 0 {
			t.Errorf("status %d", code)
		}
		check()
		e.NothingLeft(time.Second)
	})
}
