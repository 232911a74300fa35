package rawfs

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func openRoot(t *testing.T, dir string) int {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

func TestOpenDir_FollowsNoLink(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "a/b"), 0o755); err != nil {
		t.Fatal(err)
	}
	for link, target := range map[string]string{"link": "a", "a/up": ".."} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	root := openRoot(t, dir)
	defer noOpenat2.Store(noOpenat2.Load())
	for _, without := range []bool{false, true} {
		noOpenat2.Store(without)
		for path, want := range map[string]error{"": nil, "a": nil, "a/b": nil, "link": unix.ELOOP, "link/b": unix.ELOOP,
			"a/up/a": unix.ELOOP, "file": unix.ENOTDIR, "none": unix.ENOENT, strings.Repeat("x", 5000): unix.ENAMETOOLONG} {
			fd, _, err := OpenDir(root, path)
			if err == nil {
				unix.Close(fd)
			}
			// O_DIRECTORY with O_NOFOLLOW says ENOTDIR of a link at the end: open(2).
			if !errors.Is(err, want) && !(want == unix.ELOOP && err == unix.ENOTDIR) {
				t.Errorf("%.20q, without openat2 %v: %v, want %v", path, without, err, want)
			}
		}
	}
}

func TestEntries(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"f", "g"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "d"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("f", filepath.Join(dir, "l")); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(filepath.Join(dir, "p"), 0o600); err != nil {
		t.Fatal(err)
	}
	root := openRoot(t, dir)
	var got []string
	for buf := make([]byte, 64); ; { // room for one or two at a time
		n, err := Entries(root, buf, func(name []byte, kind Type) {
			if kind == Unknown {
				var st unix.Stat_t
				if err := unix.Fstatat(root, string(name), &st, unix.AT_SYMLINK_NOFOLLOW); err == nil {
					kind = TypeOf(st.Mode)
				}
			}
			got = append(got, string(name)+string("?fdlo"[kind]))
		})
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			break
		}
	}
	slices.Sort(got)
	if want := []string{"dd", "ff", "gf", "ll", "po"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestOpenAt(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink("x", filepath.Join(dir, "l")); err != nil {
		t.Fatal(err)
	}
	root := openRoot(t, dir)
	for name, want := range map[string]unix.Errno{"l\x00": unix.ELOOP, "none\x00": unix.ENOENT, "unended": unix.EINVAL, "": unix.EINVAL} {
		if _, errno := OpenAt(root, []byte(name), 0); errno != want {
			t.Errorf("%q: %v, want %v", name, errno, want)
		}
	}
}

func TestReadFile(t *testing.T) {
	dir := t.TempDir()
	file, link, fifo := filepath.Join(dir, "f"), filepath.Join(dir, "l"), filepath.Join(dir, "p")
	if err := os.WriteFile(file, []byte("text"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("f", link); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		path   string
		follow bool
		max    int
		want   error
	}{
		{file, false, 4, nil}, {file, false, 3, ErrTooLarge}, {link, true, 4, nil}, {link, false, 4, unix.ELOOP},
		{fifo, true, 4, ErrNotRegular}, {dir, true, 4, ErrNotRegular}, {"/proc/self/maps", true, 3, ErrTooLarge},
	} {
		data, err := ReadFile(tc.path, tc.follow, tc.max)
		if !errors.Is(err, tc.want) || err == nil && string(data) != "text" {
			t.Errorf("%s: %q, %v, want %v", tc.path, data, err, tc.want)
		}
	}
}
