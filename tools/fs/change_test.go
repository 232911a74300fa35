package fs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/dshx/dshx/fsobserve"
	"github.com/dshx/dshx/pipeline"
	"github.com/dshx/dshx/sandboxpolicy"
	"golang.org/x/sys/unix"
)

// Of several who make one new file one makes it, also where they don't know of
// each other's locks.
func TestCreate_IsExclusive(t *testing.T) {
	ws := t.TempDir()
	var rigs []*rig
	for range 4 {
		rigs = append(rigs, rigIn(t, ws, nil, Options{}))
	}
	for i := range 30 {
		path := fmt.Sprintf("d%d/new", i)
		results := make([]got, len(rigs))
		var wg sync.WaitGroup
		for k, r := range rigs {
			wg.Add(1)
			go func() {
				defer wg.Done()
				results[k] = r.call("write", "file_path", path, "content", fmt.Sprint(k))
			}()
		}
		wg.Wait()
		winner := -1
		for k, g := range results {
			if g.r.OK() {
				if winner >= 0 {
					t.Errorf("%s was made by %d and by %d", path, winner, k)
				}
				winner = k
			} else {
				g.code("FS_NOT_OBSERVED")
			}
		}
		rigs[0].has(path, fmt.Sprint(winner))
	}
	rigs[0].nothingLeft()
}

// A change is made only if the file is still what was looked at: what somebody
// who asks no lock does to it after the look is found out before the replacement.
func TestChange_LooksAgainBeforeItReplaces(t *testing.T) {
	type none struct{}
	for name, tt := range map[string]struct {
		before string // "" for no file
		other  func(path string) error
		code   string
		made   int // how often the new content was made
		after  string
	}{
		"nothing":  {"old\n", func(string) error { return nil }, "", 1, "mine\n"},
		"written":  {"old\n", func(path string) error { return os.WriteFile(path, []byte("theirs\n"), 0o644) }, "FS_STALE", 1, "theirs\n"},
		"appended": {"old\n", func(path string) error { return appendTo(path, "x") }, "FS_STALE", 1, "old\nx"},
		"replaced": {"old\n", func(path string) error {
			return errors.Join(os.WriteFile(path+".new", []byte("theirs\n"), 0o644), os.Rename(path+".new", path))
		}, "FS_STALE", 1, "theirs\n"},
		"replaced by the same": {"old\n", func(path string) error {
			return errors.Join(os.WriteFile(path+".new", []byte("old\n"), 0o644), os.Rename(path+".new", path))
		}, "", 2, "mine\n"},
		"removed":  {"old\n", os.Remove, "FS_STALE", 1, ""},
		"new":      {"", func(string) error { return nil }, "", 1, "mine\n"},
		"appeared": {"", func(path string) error { return os.WriteFile(path, []byte("theirs\n"), 0o644) }, "FS_NOT_OBSERVED", 1, "theirs\n"},
	} {
		for _, named := range []bool{false, true} {
			r := newRig(t, nil, nil)
			path := filepath.Join(r.ws, "f")
			if tt.before != "" {
				r.put("f", tt.before)
			}
			observer := newObserver(t)
			made := 0
			tool, err := pipeline.Define(pipeline.Spec[none, none]{Name: "change", Description: "d",
				Execute: func(ctx context.Context, _ none, c *pipeline.Call) (none, error) {
					w, end, err := (&tools{domains: fixed{r.box}, observer: observer, named: named}).begin(ctx, c, "f")
					if err != nil {
						return none{}, err
					}
					defer end()
					if tt.before != "" {
						observer.Observed(c, path, fsobserve.State{Size: int64(len(tt.before)), Hash: fsobserve.Hash([]byte(tt.before))}, []byte(tt.before))
					}
					_, err = w.change(change{use: fsobserve.Replace, make: func(*oldFile) ([]byte, error) {
						if made++; made == 1 {
							if err := tt.other(path); err != nil {
								t.Error(err)
							}
						}
						return []byte("mine\n"), nil
					}})
					return none{}, err
				},
				Render: func(none, none) []pipeline.Content { return nil }})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := r.scope.Register(tool); err != nil {
				t.Fatal(err)
			}
			g := r.call("change")
			data, _ := os.ReadFile(path)
			if g.Code != tt.code || made != tt.made || string(data) != tt.after {
				t.Errorf("%s, named %t: %v, made %d times, the file is %q", name, named, g.r.Failure(), made, data)
			}
			r.nothingLeft()
		}
	}
}

// The new content is on the disk before it has the file's name, and the name
// before the change is told; a disk that doesn't take it leaves the old file.
func TestChange_IsOnTheDiskFirst(t *testing.T) {
	for _, named := range []bool{false, true} {
		ws := t.TempDir()
		put(t, filepath.Join(ws, "old"), "old\n")
		put(t, filepath.Join(ws, "kept"), "old\n")
		var synced []string
		var failure error
		r := rigIn(t, ws, nil, Options{named: named, sync: func(fd int) error {
			at := fmt.Sprintf("/proc/self/fd/%d", fd)
			data, err := os.ReadFile(at)
			if err != nil {
				data = []byte("a directory")
			}
			now, _ := os.ReadFile(filepath.Join(ws, "old"))
			fresh, _ := os.ReadFile(filepath.Join(ws, "d/new"))
			synced = append(synced, fmt.Sprintf("%s beside %s and %s", data, now, fresh))
			return failure
		}})
		check := func(want ...string) {
			t.Helper()
			for i := range want {
				want[i] = strings.ReplaceAll(want[i], "|", "\n")
			}
			if strings.Join(synced, "; ") != strings.Join(want, "; ") {
				t.Errorf("named %t: %q, want %q", named, synced, want)
			}
			synced = nil
		}
		r.read("old").ok()
		r.read("kept").ok()
		r.edit("old", "old", "new").ok()
		check("new| beside old| and ", "a directory beside new| and ")
		r.call("write", "file_path", "d/new", "content", "made").ok()
		check("made beside new| and ", "a directory beside new| and made")
		failure = unix.EIO
		r.edit("kept", "old", "new").code("FS_IO_ERROR")
		r.call("write", "file_path", "kept", "content", "x").code("FS_IO_ERROR")
		r.call("write", "file_path", "e/f/g", "content", "x").code("FS_IO_ERROR")
		r.has("kept", "old\n")
		r.nothingLeft()
		if entries, err := os.ReadDir(ws); err != nil || len(entries) != 3 {
			t.Errorf("left: %v, %v", entries, err)
		}
	}
}

func appendTo(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// Tools without an observer change what they haven't seen, and still not what
// changes under their hands.
func TestChange_WithoutObserver(t *testing.T) {
	r := newRig(t, map[string]string{"a": "1\n"}, nil)
	other := *r
	other.scope = r.scope.Child("blind")
	if _, err := Register(other.scope, Options{Domains: fixed{r.box}}); err != nil {
		t.Fatal(err)
	}
	other.edit("a", "1", "2").ok()
	other.call("write", "file_path", "a", "content", "3\n").ok().is("operation", "update")
	other.edit("none", "1", "2").code("FS_NOT_FOUND")
}

func TestDenied_HiddenFilesAndTemporaryOnes(t *testing.T) {
	r := newRig(t, map[string]string{"a": "1\n", ".b": "1\n"}, func(q *sandboxpolicy.Request) { q.DenyWrite = []string{"**/.*"} })
	r.read("a").ok()
	r.edit("a", "1", "2").ok()
	r.read(".b").ok()
	r.edit(".b", "1", "2").code("SANDBOX_DENIED")
}

func TestWrite_OverWhatCantBeRead(t *testing.T) {
	r := newRig(t, map[string]string{"a": "\x00\x01\x02"}, nil)
	r.call("write", "file_path", "a", "content", "x").code("FS_NOT_OBSERVED").says("remove it")
	r.has("a", "\x00\x01\x02")
}

func TestWrite_LargeFiles(t *testing.T) {
	old := strings.Repeat("x", maxHeld+1)
	r := newRig(t, map[string]string{"a": "\xFF\xFE" + old}, nil)
	r.read("a").ok().is("encoding", "utf-16le")
	g := r.call("write", "file_path", "a", "content", "y\n").ok()
	if diff := g.at("diff").(string); !strings.Contains(diff, "too much for a diff") {
		t.Errorf("diff %.100q", diff)
	}
	r.has("a", utf16le("y\n")) // the mark is known of the part that was held
	r.put("a", old+"z")
	r.call("write", "file_path", "a", "content", "y\n").code("FS_STALE")
}

func TestLockFailures(t *testing.T) {
	r := newRig(t, map[string]string{"a": "1\n"}, nil)
	dir := filepath.Join(t.TempDir(), "locks")
	o, err := fsobserve.New(fsobserve.Options{LockDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	put(t, dir, "in the way")
	other := *r
	other.scope = r.scope.Child("other")
	if _, err := Register(other.scope, Options{Domains: fixed{r.box}, Observer: o}); err != nil {
		t.Fatal(err)
	}
	other.call("write", "file_path", "b", "content", "x").code("FS_IO_ERROR").says("other processes")
}

// openByName stands in for openat2: a link on the way is found out.
func TestOpenByName_FollowsNoLink(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(dir, "d/f"), "")
	symlink(t, "d", filepath.Join(dir, "l"))
	symlink(t, "f", filepath.Join(dir, "d/g"))
	const flags = unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	for path, want := range map[string]error{"d/f": nil, "d": nil, "l/f": unix.ELOOP, "d/g": unix.ELOOP, "none": unix.ENOENT} {
		for name, open := range map[string]func(string, int) (int, error){"by name": openByName, "openat2": openReal} {
			fd, err := open(filepath.Join(dir, path), flags)
			if err == nil {
				_ = unix.Close(fd)
			}
			if err != want {
				t.Errorf("%s %s: %v, want %v", name, path, err, want)
			}
		}
	}
}

// A directory that one call has made and removes again, since it failed, is
// nothing that another call, which works in it, fails for.
func TestWrite_BesideOneThatTakesItsDirectoriesAway(t *testing.T) {
	r := newRig(t, nil, nil)
	long := strings.Repeat("x", 300)
	for round := range 200 {
		var wg sync.WaitGroup
		dir := fmt.Sprintf("d%d/a/b/", round)
		for i := range 16 {
			wg.Go(func() {
				if i%2 == 0 {
					r.call("write", "file_path", dir+long, "content", "").code("FS_INVALID_PATH")
				} else {
					r.call("write", "file_path", dir+strconv.Itoa(i), "content", "x").ok()
				}
			})
		}
		wg.Wait()
	}
	r.nothingLeft()
}

// Where a file can't be without a name, the temporary one has one from the
// beginning, and all is as otherwise.
func TestChange_WithNamedTemporaryFile(t *testing.T) {
	ws := t.TempDir()
	put(t, filepath.Join(ws, "old"), "1\n")
	put(t, filepath.Join(ws, "unseen"), "1\n")
	r := rigIn(t, ws, nil, Options{named: true})
	r.call("write", "file_path", "a/b/new", "content", "x").ok()
	r.has("a/b/new", "x")
	r.read("old").ok()
	if err := os.Chmod(filepath.Join(ws, "old"), 0o750); err != nil {
		t.Fatal(err)
	}
	r.edit("old", "1", "2").ok()
	r.has("old", "2\n")
	if st, err := os.Stat(filepath.Join(ws, "old")); err != nil || st.Mode() != 0o750 {
		t.Errorf("mode %v, %v", st.Mode(), err)
	}
	r.call("write", "file_path", "unseen", "content", "x").code("FS_NOT_OBSERVED")
	r.call("write", "file_path", strings.Repeat("x", 300), "content", "x").code("FS_INVALID_PATH")
	r.nothingLeft()
}
