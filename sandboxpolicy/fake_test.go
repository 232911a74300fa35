package sandboxpolicy

import (
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"
)

// fakeFacts is a disk as a map from path to content: "dir", "link:TARGET",
// "fifo", anything else a regular file. Directories above are implied. It
// resolves links in parents as a kernel would, through the package's own
// resolver only where tests ask for real directories instead.
type fakeFacts struct {
	files   map[string]string
	wd      string
	uid     int
	account string
	mounts  []Mount
	others  []string
	lstats  int
	// readDirs are the directories that were read, in order.
	readDirs []string
}

func newFake(files map[string]string) *fakeFacts {
	f := &fakeFacts{files: map[string]string{}, wd: "/home/u/w", uid: 1000, account: "/home/u", others: []string{"/home/u", "/home/v"}}
	for p, c := range files {
		f.put(p, c)
	}
	for _, d := range []string{"/home/u/w", "/home/v", "/root", "/etc", "/tmp", "/var/tmp", "/dev/shm"} {
		f.put(d, "dir")
	}
	for _, d := range devices {
		f.put(d, "dev")
	}
	return f
}

func (f *fakeFacts) put(path, content string) {
	f.files[path] = content
	for p := parentOf(path); p != "/"; p = parentOf(p) {
		if _, ok := f.files[p]; ok {
			break
		}
		f.files[p] = "dir"
	}
}

type fakeInfo struct {
	name string
	mode fs.FileMode
	size int64
}

func (i fakeInfo) Name() string       { return i.name }
func (i fakeInfo) Size() int64        { return i.size }
func (i fakeInfo) Mode() fs.FileMode  { return i.mode }
func (i fakeInfo) ModTime() time.Time { return time.Time{} }
func (i fakeInfo) IsDir() bool        { return i.mode.IsDir() }
func (i fakeInfo) Sys() any           { return nil }

func (f *fakeFacts) Lstat(path string) (fs.FileInfo, error) {
	f.lstats++
	return f.info(path)
}

func (f *fakeFacts) info(path string) (fs.FileInfo, error) {
	c, ok := f.files[path]
	if !ok {
		return nil, &fs.PathError{Op: "lstat", Path: path, Err: fs.ErrNotExist}
	}
	i := fakeInfo{name: baseOf(path), size: int64(len(c))}
	switch {
	case c == "dir":
		i.mode = fs.ModeDir
	case c == "fifo":
		i.mode = fs.ModeNamedPipe
	case c == "dev":
		i.mode = fs.ModeDevice
	case strings.HasPrefix(c, "link:"):
		i.mode = fs.ModeSymlink
	}
	return i, nil
}

func (f *fakeFacts) ReadDir(dir string) ([]fs.DirEntry, error) {
	f.readDirs = append(f.readDirs, dir)
	if f.files[dir] != "dir" {
		return nil, &fs.PathError{Op: "open", Path: dir, Err: fs.ErrNotExist}
	}
	var out []fs.DirEntry
	for path := range f.files {
		if path != "/" && parentOf(path) == dir {
			i, _ := f.info(path)
			out = append(out, fs.FileInfoToDirEntry(i))
		}
	}
	slices.SortFunc(out, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return out, nil
}

func (f *fakeFacts) Readlink(path string) (string, error) {
	t, ok := strings.CutPrefix(f.files[path], "link:")
	if !ok {
		return "", fs.ErrInvalid
	}
	return t, nil
}

func (f *fakeFacts) ReadFile(path string) ([]byte, error) {
	c, ok := f.files[path]
	if !ok || c == "dir" || c == "fifo" || c == "dev" || strings.HasPrefix(c, "link:") {
		return nil, &fs.PathError{Op: "read", Path: path, Err: errNotRegular}
	}
	return []byte(c), nil
}

func (f *fakeFacts) Getuid() int                { return f.uid }
func (f *fakeFacts) AccountHome(uid int) string { return f.account }
func (f *fakeFacts) OtherHomes() []string       { return f.others }
func (f *fakeFacts) Mounts() ([]Mount, error)   { return f.mounts, nil }

var baseEnv = []string{"HOME=/home/u", "PATH=/usr/bin:/bin", "LANG=C.UTF-8", "TERM=xterm"}

const fakeTmp = "/var/tmp/dshx-1000/run"

// resolve is Resolve with the fake's environment and TMPDIR filled in.
func resolve(t testing.TB, f *fakeFacts, req Request) (*Policy, []Notice) {
	t.Helper()
	p, n, err := tryResolve(f, req)
	if err != nil {
		t.Fatalf("Resolve: %v", err)
	}
	return p, n
}

func tryResolve(f *fakeFacts, req Request) (*Policy, []Notice, error) {
	if req.Environ == nil {
		req.Environ = baseEnv
	}
	if req.TmpDir == "" {
		req.TmpDir = fakeTmp
	}
	return Resolve(req, f)
}

func wantVerdict(t testing.TB, p *Policy, op Op, path string, allow bool, ruleHas string) {
	t.Helper()
	v := p.Verdict(op, path)
	if v.Allow != allow || !strings.Contains(v.Rule.Text+" "+v.Rule.Origin, ruleHas) {
		t.Errorf("%s %s = %+v, want allow=%t by %q", op, path, v, allow, ruleHas)
	}
	if v.Rule.Text == "" || v.Rule.Origin == "" || v.Allow == (v.Remedy != "") {
		t.Errorf("%s %s = %+v: a verdict needs a rule, and a remedy just when it denies", op, path, v)
	}
}

func hasNotice(n []Notice, kind, text string) bool {
	return slices.ContainsFunc(n, func(n Notice) bool { return n.Kind == kind && strings.Contains(n.Text, text) })
}

func (f *fakeFacts) Getwd() (string, error) {
	if f.wd == "" {
		return "", fs.ErrNotExist
	}
	return f.wd, nil
}
