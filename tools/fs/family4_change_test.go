package fs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dshx/dshx/pipeline"
	"github.com/dshx/dshx/sandboxpolicy"
	"github.com/dshx/dshx/tools/fs/internal/grep"
	"github.com/dshx/dshx/tools/fs/internal/walk"
	"golang.org/x/sys/unix"
)

func numbered(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "line-%03d\n", i+1)
	}
	return b.String()
}

func TestF4_12_TwoEditsAtOnce(t *testing.T) {
	r := newRig(t, map[string]string{"a": numbered(200)}, nil)
	r.read("a").ok()
	q := pipeline.NewQueue(r.scope, pipeline.Serial, 0)
	var pending []*pipeline.Pending
	for i, e := range [][2]string{{"line-040", "left"}, {"line-160", "right"}} {
		args, _ := json.Marshal(map[string]string{"file_path": "a", "old_string": e[0], "new_string": e[1]})
		pending = append(pending, q.Submit(context.Background(), pipeline.Request{ID: fmt.Sprint(i), Name: "edit", Args: args}))
	}
	for i, p := range pending {
		if res := p.Result(); !res.OK() || res.ID() != fmt.Sprint(i) {
			t.Errorf("%s: %v", res.ID(), res.Failure())
		}
	}
	r.has("a", strings.NewReplacer("line-040", "left", "line-160", "right").Replace(numbered(200)))
}

// Calls that pass every queue by must not lose an edit either.
func TestF4_12_ManyThreads(t *testing.T) {
	r := newRig(t, map[string]string{"a": numbered(200)}, nil)
	r.read("a").ok()
	want := numbered(200)
	var wg sync.WaitGroup
	for i := range 24 {
		old, new := fmt.Sprintf("line-%03d", i*8+1), fmt.Sprintf("done-%03d", i)
		want = strings.Replace(want, old, new, 1)
		wg.Add(1)
		go func() { defer wg.Done(); r.edit("a", old, new).ok() }()
	}
	wg.Wait()
	r.has("a", want)
	r.nothingLeft()
}

// Two processes with tools of their own edit different lines of one file,
// while a third looks at it.
func TestF4_12_TwoProcesses(t *testing.T) {
	const rounds = 100
	if role := os.Getenv(childEnv); role != "" {
		editInRounds(t, role, rounds)
		return
	}
	ws, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(ws, "shared")
	put(t, file, "left 0\n"+numbered(200)+"right 0\n")
	size := len("left 0\nright 0\n") + len(numbered(200))
	locks := filepath.Join(t.TempDir(), "locks")
	var children []*exec.Cmd
	for _, role := range []string{"left", "right"} {
		cmd := child(t, role)
		cmd.Env = append(cmd.Env, "WS="+ws, "LOCKS="+locks)
		cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		children = append(children, cmd)
	}
	done := make(chan struct{})
	var watch sync.WaitGroup
	watch.Add(1)
	go func() { // a reader never sees a part of it
		defer watch.Done()
		for {
			select {
			case <-done:
				return
			default:
			}
			data, err := os.ReadFile(file)
			if err != nil || len(data) < size || !strings.HasPrefix(string(data), "left ") || !strings.Contains(string(data), "right ") {
				t.Errorf("a reader saw %d bytes, %v", len(data), err)
				return
			}
		}
	}()
	for _, cmd := range children {
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
	close(done)
	watch.Wait()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("left %d\n%sright %d\n", rounds, numbered(200), rounds); string(data) != want {
		t.Errorf("the file ends as %.30q…%q: an edit is lost", data, data[len(data)-12:])
	}
	entries, _ := os.ReadDir(ws)
	if len(entries) != 1 {
		t.Errorf("left in the workspace: %v", entries)
	}
}

func editInRounds(t *testing.T, role string, rounds int) {
	r := rigIn(t, os.Getenv("WS"), nil, Options{Observer: observerIn(t, os.Getenv("LOCKS"))})
	ready := filepath.Dir(os.Getenv("LOCKS"))
	put(t, filepath.Join(ready, role), "")
	for _, other := range []string{"left", "right"} {
		for !exists(filepath.Join(ready, other)) {
			time.Sleep(time.Millisecond)
		}
	}
	stale := 0
	r.read("shared").ok()
	for i := 0; i < rounds; {
		g := r.edit("shared", fmt.Sprintf("%s %d\n", role, i), fmt.Sprintf("%s %d\n", role, i+1))
		switch {
		case g.r.OK():
			i++
		case g.Code == "FS_STALE":
			stale++
			r.read("shared").ok()
		default:
			t.Fatalf("round %d: %v", i, g.r.Failure())
		}
	}
	t.Logf("%s: %d times stale", role, stale)
}

func TestF4_13_Stale(t *testing.T) {
	lines := numbered(20)
	changed := strings.Replace(lines, "line-003", "LINE-003", 1)
	for name, change := range map[string]func(t *testing.T, r *rig){
		"from outside": func(_ *testing.T, r *rig) { r.put("a", changed) },
		"by a command": func(t *testing.T, r *rig) {
			if out, err := r.box.Command("sed", "-i", "s/line-003/LINE-003/", "a").Output(); err != nil {
				t.Fatalf("%s, %v", out, err)
			}
		},
		"with its size and its time put back": func(t *testing.T, r *rig) {
			path := filepath.Join(r.ws, "a")
			fi, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			r.put("a", changed)
			if err := os.Chtimes(path, fi.ModTime(), fi.ModTime()); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, map[string]string{"a": lines}, nil)
			r.read("a").ok()
			change(t, r)
			for _, g := range []got{r.edit("a", "line-010", "x"), r.call("write", "file_path", "a", "content", "x")} {
				g.code("FS_STALE")
				diff := g.at("changed").(string)
				if strings.Count(diff, "\n-")-strings.Count(diff, "\n--- ") != 1 || !strings.Contains(diff, "\n-line-003\n+LINE-003\n") {
					t.Errorf("changed is\n%s", diff)
				}
				g.says("-line-003\n+LINE-003")
			}
			r.has("a", changed)
			r.nothingLeft()
			r.read("a").ok()
			r.edit("a", "line-010", "x").ok()
		})
	}
}

func TestF4_13_GoneAndAppeared(t *testing.T) {
	r := newRig(t, map[string]string{"a": "x\n"}, nil)
	r.read("a").ok()
	if err := os.Remove(filepath.Join(r.ws, "a")); err != nil {
		t.Fatal(err)
	}
	r.call("write", "file_path", "a", "content", "y\n").code("FS_STALE").says("-x")
	r.edit("a", "x", "y").code("FS_STALE")
	r.read("a").code("FS_NOT_FOUND")
	r.call("write", "file_path", "a", "content", "y\n").ok().is("operation", "create")
	// A lookup that finds nothing lets a file be made, not replaced.
	r.read("b").code("FS_NOT_FOUND")
	r.put("b", "theirs\n")
	r.call("write", "file_path", "b", "content", "mine\n").code("FS_STALE").says("+theirs")
	r.edit("b", "theirs", "mine").code("FS_NOT_OBSERVED")
	r.has("b", "theirs\n")
	r.edit("c", "x", "y").code("FS_NOT_FOUND")
}

func TestF4_14_NoNeedToReadAgain(t *testing.T) {
	r := newRig(t, map[string]string{"a": "1\n", "b": "1\n", "c": "1\n"}, nil)
	for _, f := range []string{"a", "b", "c"} {
		r.read(f).ok()
	}
	now := time.Now().Add(time.Hour)
	if err := os.Chtimes(filepath.Join(r.ws, "a"), now, now); err != nil {
		t.Fatal(err)
	}
	r.edit("a", "1", "2").ok()
	r.put("copy", "1\n")
	if err := os.Rename(filepath.Join(r.ws, "copy"), filepath.Join(r.ws, "b")); err != nil {
		t.Fatal(err)
	}
	r.edit("b", "1", "2").ok()
	for i := 1; i < 4; i++ {
		r.edit("c", fmt.Sprint(i), fmt.Sprint(i+1)).ok()
	}
	r.call("write", "file_path", "new", "content", "1\n").ok().is("operation", "create").is("links", 1)
	r.edit("new", "1", "2").ok()
	r.call("write", "file_path", "new", "content", "3\n").ok().is("operation", "update")
}

func TestF4_14_ScopesSeeForThemselves(t *testing.T) {
	r := newRig(t, map[string]string{"a": "1\n"}, nil)
	r.read("a").ok()
	other := *r
	other.scope = r.scope.Child("other")
	other.edit("a", "1", "2").code("FS_NOT_OBSERVED")
	r.edit("a", "1", "2").ok()
}

// grep, glob and list show names and lines, not files.
func TestSearchesDoNotObserve(t *testing.T) {
	r := newRig(t, map[string]string{"a": "1\n"}, nil)
	r.call("grep", "pattern", "1").ok()
	r.call("glob", "pattern", "*").ok()
	r.call("list").ok()
	r.edit("a", "1", "2").code("FS_NOT_OBSERVED")
	r.call("write", "file_path", "a", "content", "2\n").code("FS_NOT_OBSERVED")
	r.call("read", "file_path", "a", "offset", 100).ok() // any window
	r.edit("a", "1", "2").ok()
}

func symlink(t testing.TB, target, path string) {
	t.Helper()
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
}

func TestF4_16_Links(t *testing.T) {
	outside := t.TempDir()
	put(t, filepath.Join(outside, "real"), "out 1\n")
	r := newRig(t, map[string]string{"sub/real.md": "1 a\n"}, nil)
	in := func(name string) string { return filepath.Join(r.ws, name) }
	symlink(t, "sub/real.md", in("link.md"))
	symlink(t, "link.md", in("one.md"))
	symlink(t, "sub/../one.md", in("two.md"))
	symlink(t, "loop", in("loop"))
	symlink(t, filepath.Join(outside, "real"), in("out.md"))
	symlink(t, "sub/made.md", in("dangling"))

	r.read("link.md").ok().is("path", "sub/real.md")
	r.edit("sub/real.md", "1", "2").ok()
	r.edit("link.md", "2", "3").ok().is("path", "sub/real.md")
	r.edit("two.md", "3", "4").ok()
	r.edit("sub/../sub/./real.md", "4", "5").ok()
	r.call("write", "file_path", "two.md", "content", "6\n").ok()
	r.has("sub/real.md", "6\n")
	for _, link := range []string{"link.md", "one.md", "two.md"} {
		if fi, err := os.Lstat(in(link)); err != nil || fi.Mode()&os.ModeSymlink == 0 {
			t.Errorf("%s is no link any more: %v", link, err)
		}
	}
	r.read("loop").code("FS_SYMLINK_LOOP")
	r.call("write", "file_path", "loop", "content", "x").code("FS_SYMLINK_LOOP")
	r.edit("loop", "a", "b").code("FS_SYMLINK_LOOP")
	r.call("write", "file_path", "dangling", "content", "x").ok().is("path", "sub/made.md")
	r.has("sub/made.md", "x")

	r.read("out.md").ok() // what is outside may be read
	for _, g := range []got{r.edit("out.md", "1", "2"), r.call("write", "file_path", "out.md", "content", "x")} {
		g.code("SANDBOX_DENIED").is("denial.operation", "write").is("denial.target", "out.md").is("denial.resolved", filepath.Join(outside, "real")).
			is("denial.evidence", "supervisor").is("denial.rule.origin", "preset")
		if !strings.Contains(g.at("denial.remedy").(string), "--write") {
			t.Errorf("remedy %v", g.at("denial.remedy"))
		}
	}
	if data, _ := os.ReadFile(filepath.Join(outside, "real")); string(data) != "out 1\n" {
		t.Errorf("outside is %q", data)
	}
	if target, _ := os.Readlink(in("out.md")); target != filepath.Join(outside, "real") {
		t.Errorf("the link is %q", target)
	}
}

// link/.. is where the link leads, not where it lies.
func TestPaths_AreTheFileSystems(t *testing.T) {
	r := newRig(t, map[string]string{"a/b/x": "deep\n", "x": "top\n"}, nil)
	symlink(t, "a/b", filepath.Join(r.ws, "link"))
	r.read("link/../b/x").ok().is("path", "a/b/x")
	r.read("link/..").ok().is("path", "a").is("kind", "directory")
	r.read(r.ws+"/x").ok().is("path", "x")
	r.read("x/").code("FS_NOT_DIRECTORY")
	r.read("x/y").code("FS_NOT_DIRECTORY")
	r.read("~/x").code("FS_NOT_FOUND")
	r.read("a\x00b").code("FS_INVALID_PATH")
	r.read(strings.Repeat("n", 300)).code("FS_INVALID_PATH")
	r.call("write", "file_path", "a", "content", "").code("FS_IS_DIRECTORY")
	r.edit("a", "x", "y").code("FS_IS_DIRECTORY")
	r.call("write", "file_path", "new/", "content", "").code("FS_INVALID_PATH")
	r.call("write", "file_path", "x/y", "content", "").code("FS_NOT_DIRECTORY")
	r.call("write", "file_path", "p/q/r", "content", "", "create_dirs", false).code("FS_NOT_FOUND")
	r.call("write", "file_path", "/", "content", "").code("FS_IS_DIRECTORY", "SANDBOX_DENIED")
	r.call("write", "file_path", "/sys/x", "content", "").code("SANDBOX_DENIED")
	r.call("grep", "pattern", "x", "path", "/proc").code("SANDBOX_DENIED")
	r.call("list", "path", "/sys").code("SANDBOX_DENIED")
	if _, err := os.Stat(filepath.Join(r.ws, "p")); err == nil {
		t.Error("a directory was made")
	}
}

func command(t testing.TB, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Skipf("%s: %v: %s", name, err, out)
	}
	return string(out)
}

func TestF4_18_WhatAFileKeeps(t *testing.T) {
	again(t)
	r := newRig(t, map[string]string{"script": "#!/bin/sh\necho one\n", "setgid": "#!/bin/sh\necho one\n", "a": "one\n"}, nil)
	in := func(name string) string { return filepath.Join(r.ws, name) }
	command(t, "chmod", "0755", in("script"))
	command(t, "chmod", "2750", in("setgid"))
	command(t, "setfacl", "-m", "u:1:rx", in("script"))
	if err := unix.Setxattr(in("script"), "user.note", []byte("kept\x00bytes"), 0); err != nil {
		t.Skipf("no attributes here: %v", err)
	}
	if os.Geteuid() == 0 {
		command(t, "chown", "12345:23456", in("script"))
		command(t, "chmod", "0755", in("script"))
	}
	facl := func(name string) string { return command(t, "getfacl", "-cpn", in(name)) }
	note := func(name string) string {
		buf := make([]byte, 100)
		n, _ := unix.Getxattr(in(name), "user.note", buf)
		return string(buf[:max(n, 0)])
	}
	before, acl := map[string]unix.Stat_t{}, map[string]string{}
	for _, f := range []string{"script", "setgid"} {
		before[f], acl[f] = stat(t, in(f)), facl(f)
	}
	for i, change := range []func(f string) got{
		func(f string) got { r.read(f).ok(); return r.edit(f, "one", "two") },
		func(f string) got { return r.call("write", "file_path", f, "content", "#!/bin/sh\necho three\n") },
	} {
		for f, was := range before {
			change(f).ok()
			now := stat(t, in(f))
			if i == 0 && now.Ino == was.Ino { // numbers are used again later
				t.Errorf("%s was not replaced", f)
			}
			if now.Mode != was.Mode || now.Uid != was.Uid || now.Gid != was.Gid {
				t.Errorf("%s: mode %o, owner %d:%d, want %o and %d:%d", f, now.Mode, now.Uid, now.Gid, was.Mode, was.Uid, was.Gid)
			}
			if got := facl(f); got != acl[f] {
				t.Errorf("%s: ACL %q, want %q", f, got, acl[f])
			}
		}
		if note("script") != "kept\x00bytes" || note("setgid") != "" {
			t.Errorf("attributes %q and %q", note("script"), note("setgid"))
		}
		if out, err := exec.Command(in("script")).Output(); err != nil || string(out) != []string{"two\n", "three\n"}[i] {
			t.Errorf("the script: %q, %v", out, err)
		}
	}

	if err := os.Link(in("a"), in("b")); err != nil {
		t.Fatal(err)
	}
	r.read("b").ok()
	r.edit("a", "one", "two").ok().is("links", 2).says("hard links") // seen under its other name
	r.has("a", "two\n")
	r.has("b", "one\n")
	r.edit("a", "two", "three").ok().is("links", 1)
}

func TestF4_18_NewFiles(t *testing.T) {
	old := unix.Umask(0o027)
	defer unix.Umask(old)
	r := newRig(t, nil, nil)
	r.call("write", "file_path", "d/e/f", "content", "x").ok()
	for path, mode := range map[string]uint32{"d": 0o750, "d/e": 0o750, "d/e/f": 0o640} {
		if got := stat(t, filepath.Join(r.ws, path)).Mode & 0o7777; got != mode {
			t.Errorf("%s has mode %o, want %o", path, got, mode)
		}
	}
	// A default ACL stands in for the umask, for new files alone.
	command(t, "setfacl", "-d", "-m", "u::rw,g::rw,o::rw,u:1:rw", filepath.Join(r.ws, "d"))
	r.put("d/old", "1")
	command(t, "setfacl", "-b", filepath.Join(r.ws, "d/old"))
	command(t, "chmod", "600", filepath.Join(r.ws, "d/old"))
	r.read("d/old").ok()
	r.edit("d/old", "1", "2").ok()
	if acl := command(t, "getfacl", "-cpn", filepath.Join(r.ws, "d/old")); strings.Contains(acl, "user:1:") || strings.Contains(acl, "group::r") {
		t.Errorf("the old file's ACL is now\n%s", acl)
	}
	r.call("write", "file_path", "d/new", "content", "x").ok()
	if acl := command(t, "getfacl", "-cpn", filepath.Join(r.ws, "d/new")); !strings.Contains(acl, "user:1:rw-") {
		t.Errorf("the new file's ACL is\n%s", acl)
	}
}

func TestF4_19_NoSpace(t *testing.T) {
	if !ownMounts(t) {
		return
	}
	ws := t.TempDir()
	if err := unix.Mount("tmpfs", ws, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("mount: %v", err)
	}
	defer func() { _ = unix.Unmount(ws, unix.MNT_DETACH) }()
	r := rigIn(t, ws, nil, Options{})
	was := strings.Repeat("0123456789abcdef", 600<<10/16)
	r.put("a", was)
	r.read("a").ok()
	r.call("write", "file_path", "a", "content", strings.Repeat("x", 700<<10)).code("FS_NO_SPACE")
	r.has("a", was)
	r.nothingLeft()
	r.call("edit", "file_path", "a", "edits", []map[string]any{{"old_string": "0123456789abcdef", "new_string": "0123456789abcdef01234567", "replace_all": true}}).code("FS_NO_SPACE")
	r.has("a", was)
	r.nothingLeft()
	r.call("write", "file_path", "n/m/big", "content", strings.Repeat("x", 700<<10)).code("FS_NO_SPACE")
	if entries, _ := os.ReadDir(ws); len(entries) != 1 {
		t.Errorf("left: %v", entries)
	}
	r.read("a").ok()
	r.call("write", "file_path", "small", "content", "x").ok()
}

func TestF4_20_SpecialFiles(t *testing.T) {
	r := newRig(t, map[string]string{"dir/f": "word\n"}, nil)
	in := func(name string) string { return filepath.Join(r.ws, name) }
	if err := unix.Mkfifo(in("dir/fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", in("dir/sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	symlink(t, "/dev/zero", in("dir/zero"))
	begin := time.Now()
	for _, f := range []string{"dir/fifo", "dir/sock", "dir/zero"} {
		r.read(f).code("FS_NOT_REGULAR_FILE", "SANDBOX_DENIED")
		r.edit(f, "a", "b").code("FS_NOT_REGULAR_FILE", "SANDBOX_DENIED")
		r.call("write", "file_path", f, "content", "x").code("FS_NOT_REGULAR_FILE", "SANDBOX_DENIED")
		r.call("grep", "pattern", "x", "path", f).code("FS_NOT_REGULAR_FILE", "SANDBOX_DENIED")
		r.call("list", "path", f).code("FS_NOT_DIRECTORY", "FS_NOT_REGULAR_FILE", "SANDBOX_DENIED")
	}
	r.call("grep", "pattern", "word", "path", "dir").ok().is("totalMatches", 1)
	r.call("glob", "pattern", "**/*").ok()
	g := r.call("list", "path", "dir").ok()
	types := map[string]string{}
	for _, e := range g.at("entries").([]any) {
		e := e.(map[string]any)
		types[e["name"].(string)] = e["type"].(string)
	}
	if types["fifo"] != "other" || types["sock"] != "other" || types["zero"] != "symlink" || types["f"] != "file" {
		t.Errorf("types %v", types)
	}
	if d := time.Since(begin); d > 5*time.Second {
		t.Errorf("all of it took %v", d)
	}
}

// A file is swapped for a FIFO, a link outside or a directory while tools work
// on it: nothing blocks, and nothing outside is reached.
func TestF4_20_Swapped(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "out")
	put(t, outside, "outside\n")
	r := newRig(t, map[string]string{"x": "inside\n"}, nil)
	in := func(name string) string { return filepath.Join(r.ws, name) }
	stop := make(chan struct{})
	var swap sync.WaitGroup
	swap.Add(1)
	go func() {
		defer swap.Done()
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			_ = os.Remove(in("y"))
			switch i % 4 {
			case 0:
				_ = unix.Mkfifo(in("y"), 0o600)
			case 1:
				_ = os.Symlink(outside, in("y"))
			case 2:
				_ = os.WriteFile(in("y"), []byte("inside\n"), 0o600)
			case 3:
				_ = os.Mkdir(in("y"), 0o700)
			}
			_ = unix.Renameat2(unix.AT_FDCWD, in("x"), unix.AT_FDCWD, in("y"), unix.RENAME_EXCHANGE)
		}
	}()
	codes := map[string]int{}
	for range 150 {
		for _, g := range []got{r.read("x"), r.edit("x", "inside", "inside!"), r.call("write", "file_path", "x", "content", "inside\n"), r.call("grep", "pattern", "side", "path", "x")} {
			codes[g.Code]++
			if g.Code == "INTERNAL" || g.Code == "TOOL_PANIC" {
				t.Fatalf("%v", g.r.Failure())
			}
		}
	}
	close(stop)
	swap.Wait()
	if data, err := os.ReadFile(outside); err != nil || string(data) != "outside\n" {
		t.Errorf("outside is %q, %v", data, err)
	}
	t.Logf("outcomes: %v", codes)
}

// What takes a file's place between the look at it and its opening doesn't block
// whoever opens: the two are exchanged thousands of times meanwhile.
func TestF4_20_SwappedBeforeOpening(t *testing.T) {
	r := newRig(t, map[string]string{"f": "text\n"}, nil)
	f, fifo := filepath.Join(r.ws, "f"), filepath.Join(r.ws, "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var swap sync.WaitGroup
	swap.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				_ = unix.Renameat2(unix.AT_FDCWD, f, unix.AT_FDCWD, fifo, unix.RENAME_EXCHANGE)
			}
		}
	})
	defer func() { close(stop); swap.Wait() }()
	dirfd, err := unix.Open(r.ws, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(dirfd)
	w := &work{tools: &tools{}, ctx: t.Context(), in: r.box, at: place{said: "f", real: f, show: "f"}}
	search := func(path string) error {
		m, err := grep.Compile(grep.Pattern{Text: "text"})
		if err != nil {
			t.Fatal(err)
		}
		_, err = grep.Search(t.Context(), walk.Here, m, grep.Options{Walk: walk.Options{Root: path}, Limit: -1})
		return err
	}
	for name, open := range map[string]func() error{
		"read": func() error {
			fd, _, err := w.openOnce()
			if err == nil {
				_ = unix.Close(fd)
			}
			return err
		},
		"change":      func() error { _, _, err := w.look(&dir{fd: dirfd, base: "f"}, change{}); return err },
		"grep":        func() error { return search(f) },
		"grep a tree": func() error { return search(r.ws) },
	} {
		done := make(chan int, 1)
		go func() {
			fine := 0
			for begin := time.Now(); time.Since(begin) < 700*time.Millisecond; {
				if open() == nil {
					fine++
				}
			}
			done <- fine
		}()
		select {
		case fine := <-done:
			if fine == 0 {
				t.Errorf("%s: the control: it was never a file", name)
			}
		case <-time.After(10 * time.Second):
			// A writer lets it go.
			for _, path := range []string{f, fifo} {
				if fd, err := unix.Open(path, unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0); err == nil {
					defer unix.Close(fd)
				}
			}
			t.Errorf("%s is blocked", name)
		}
	}
}

// A change is all or nothing for whoever is killed in the middle: the name has
// the old content or the new, at any moment.
func TestChange_CancelledLeavesNothing(t *testing.T) {
	r := newRig(t, map[string]string{"a": strings.Repeat("x\n", 1<<20)}, nil)
	r.read("a").ok()
	was := r.bytes("a")
	tool := r.scope.Lookup("edit")
	args := []byte(`{"file_path":"a","old_string":"x","new_string":"yy","replace_all":true}`)
	for range 20 {
		ctx, cancel := context.WithCancel(context.Background())
		time.AfterFunc(time.Duration(rand.IntN(60))*time.Millisecond, cancel)
		g := taken(t, tool, r.scope.Call(ctx, pipeline.Request{ID: "1", Name: "edit", Args: args}))
		cancel()
		if g.r.OK() {
			r.put("a", was)
			r.read("a").ok()
			continue
		}
		g.code("ABORTED", "CANCELLED")
		r.has("a", was)
		r.nothingLeft()
	}
}

func TestChange_ReadOnlyDirectory(t *testing.T) {
	if os.Geteuid() == 0 {
		again(t) // whom modes bind
		return
	}
	r := newRig(t, map[string]string{"d/a": "1\n", "secret": "1\n"}, nil)
	in := func(name string) string { return filepath.Join(r.ws, name) }
	r.read("d/a").ok()
	for _, err := range []error{os.Chmod(in("d"), 0o500), os.Chmod(in("secret"), 0)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	defer func() { _ = os.Chmod(in("d"), 0o700) }()
	r.edit("d/a", "1", "2").code("FS_PERMISSION_DENIED")
	r.call("write", "file_path", "d/new", "content", "x").code("FS_PERMISSION_DENIED")
	r.read("secret").code("FS_PERMISSION_DENIED")
	r.call("write", "file_path", "secret", "content", "x").code("FS_PERMISSION_DENIED")
	r.has("d/a", "1\n")
}

func TestDenied_ByPolicyAlone(t *testing.T) {
	again(t)
	r := newRig(t, map[string]string{
		".env": "word=1\n", "keep.txt": "word\n", "sub/.env": "word=2\n", "vault/x": "word\n",
		".git/HEAD": "ref: refs/heads/main\n", ".git/objects/x": "", ".git/refs/x": "", ".vscode/settings.json": "{}\n",
	}, func(q *sandboxpolicy.Request) {
		q.DenyRead = []string{"**/.env", filepath.Join(q.Workspace, "vault")}
		q.DenyWrite = []string{filepath.Join(q.Workspace, "keep.txt")}
	})
	for _, f := range []string{".env", "sub/.env", "vault/x"} {
		r.read(f).code("SANDBOX_DENIED").is("denial.operation", "read")
		r.call("write", "file_path", f, "content", "x").code("SANDBOX_DENIED").is("denial.operation", "write")
		r.edit(f, "word", "x").code("SANDBOX_DENIED")
		r.call("grep", "pattern", "word", "path", f).code("SANDBOX_DENIED")
	}
	r.call("list", "path", "vault").code("SANDBOX_DENIED")
	r.read("keep.txt").ok()
	r.edit("keep.txt", "word", "x").code("SANDBOX_DENIED").is("denial.rule.origin", "flag")
	// What a walk may not read it leaves out, and says so.
	r.call("grep", "pattern", "word", "hidden", true).ok().is("totalFiles", 1).is("omitted.denied", 3).says("3 that could not be read")
	r.call("grep", "pattern", "word", "hidden", true, "path", "sub").ok().is("totalFiles", 0).is("omitted.denied", 1).says("nothing found", "1 that could not be read")
	r.call("list", "depth", 3).ok().is("omitted.denied", 1)
	for _, f := range []string{".git/config", ".git/hooks/pre-commit", ".vscode/settings.json", ".envrc", ".dshx/config.toml", ".mcp.json"} {
		r.read(f)
		r.call("write", "file_path", f, "content", "x").code("SANDBOX_DENIED")
	}
	if _, err := os.Stat(filepath.Join(r.ws, ".git/hooks")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a directory was made for a file that may not be: %v", err)
	}
	r.has(".env", "word=1\n")
}

func TestDenied_ReadOnlyPreset(t *testing.T) {
	r := newRig(t, map[string]string{"a": "1\n"}, func(q *sandboxpolicy.Request) { q.Preset = "read-only" })
	r.read("a").ok()
	r.edit("a", "1", "2").code("SANDBOX_DENIED").says("read-only", "--preset workspace-write")
	r.call("write", "file_path", "b", "content", "x").code("SANDBOX_DENIED")
	r.call("write", "file_path", filepath.Join(r.box.Policy().TmpDir(), "x"), "content", "x").ok()
	r.has("a", "1\n")
	r.nothingLeft()
}

// An approval widens one call and no other.
func TestPermissions_ForOneCall(t *testing.T) {
	outside := t.TempDir()
	r := newRig(t, nil, nil)
	r.scope.SetApprover(approve{})
	file := filepath.Join(outside, "f")
	ask := map[string]any{"write": []string{outside}}
	r.call("write", "file_path", file, "content", "x").code("SANDBOX_DENIED")
	r.call("write", "file_path", file, "content", "x", "sandbox_permissions", ask, "justification", "a test").ok()
	r.edit(file, "x", "y").code("SANDBOX_DENIED")
	r.call("edit", "file_path", file, "old_string", "x", "new_string", "y", "sandbox_permissions", ask).ok()
	r.scope.SetApprover(nil)
	r.call("edit", "file_path", file, "old_string", "y", "new_string", "z", "sandbox_permissions", ask).code("APPROVAL_UNAVAILABLE")
}

type approve struct{}

func (approve) Approve(context.Context, pipeline.Question) pipeline.Answer {
	return pipeline.AllowedOnce
}
