package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// ordinary is an unprivileged user with a copy of the source tree.
type ordinary struct {
	name     string
	uid, gid int
	dir      string // holds src, home and bin; belongs to the user
	bin      string // the user's copy of the program under test; empty: the tests build it
}

// binEnv names a built dshx for the tests of the program to use.
const binEnv = "DSHX_BIN"

// newOrdinary copies the tree in the current directory, with the modules it needs, to a
// new directory that belongs to the user of that name.
func newOrdinary(ctx context.Context, name string) (u *ordinary, err error) {
	if os.Getuid() != 0 {
		return nil, fmt.Errorf("-as %s: only root can become another user", name)
	}
	account, err := user.Lookup(name)
	if err != nil {
		return nil, fmt.Errorf("-as %s: %w", name, err)
	}
	u = &ordinary{name: name}
	if u.uid, err = strconv.Atoi(account.Uid); err != nil {
		return nil, err
	}
	if u.gid, err = strconv.Atoi(account.Gid); err != nil {
		return nil, err
	}
	if u.uid == 0 {
		return nil, fmt.Errorf("-as %s: that is root, not an ordinary user", name)
	}
	// Not below TMPDIR: that may be a private directory of root's.
	if u.dir, err = os.MkdirTemp("/var/tmp", "dshx-test-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, u.remove())
		}
	}()
	if err := copyTree(ctx, u.src()); err != nil {
		return nil, err
	}
	if err := u.downloadModules(ctx); err != nil {
		return nil, err
	}
	if err := os.Mkdir(u.home(), 0o700); err != nil {
		return nil, err
	}
	if bin := os.Getenv(binEnv); filepath.IsAbs(bin) {
		u.bin = filepath.Join(u.dir, "bin", "dshx")
		// All programs of the build, which belong beside each other.
		for _, program := range []string{"dshx", "dshx-mcp"} {
			if err := copyFile(filepath.Join(filepath.Dir(bin), program), filepath.Join(filepath.Dir(u.bin), program)); err != nil {
				return nil, err
			}
		}
	}
	err = filepath.WalkDir(u.dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, u.uid, u.gid)
	})
	return u, err
}

// downloadModules fills a module cache of the user's, who cannot read root's, from root's.
func (u *ordinary) downloadModules(ctx context.Context) error {
	env := map[string]string{}
	out, err := exec.CommandContext(ctx, "go", "env", "-json", "GOMODCACHE", "GOPROXY").Output()
	if err == nil {
		err = json.Unmarshal(out, &env)
	}
	if err != nil {
		return fmt.Errorf("go env: %w", err)
	}
	download := exec.CommandContext(ctx, "go", "mod", "download", "-modcacherw")
	download.Env = append(os.Environ(),
		"GOMODCACHE="+u.modules(),
		"GOPROXY=file://"+filepath.Join(env["GOMODCACHE"], "cache", "download")+","+env["GOPROXY"])
	if out, err := download.CombinedOutput(); err != nil {
		return fmt.Errorf("go mod download: %w: %s", err, bytes.TrimSpace(out))
	}
	return nil
}

func (u *ordinary) modules() string { return filepath.Join(u.dir, "modules") }
func (u *ordinary) src() string     { return filepath.Join(u.dir, "src") }
func (u *ordinary) home() string    { return filepath.Join(u.dir, "home") }

// prepare makes cmd run as the user, in the copy, with nothing of root's environment
// but where programs are and the switches of the tests.
func (u *ordinary) prepare(cmd *exec.Cmd) {
	cmd.Dir = u.src()
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Credential: &syscall.Credential{Uid: uint32(u.uid), Gid: uint32(u.gid)}, // no other groups
	}
	cmd.Env = []string{
		"PATH=" + reachable(os.Getenv("PATH")),
		"HOME=" + u.home(),
		"USER=" + u.name, "LOGNAME=" + u.name, "SHELL=/bin/sh", "LANG=C.UTF-8",
		"PWD=" + u.src(),
		"GOFLAGS=-buildvcs=false", "GOPROXY=off", "GOTOOLCHAIN=local",
		"GOCACHE=" + filepath.Join(u.dir, "gocache"),
		"GOMODCACHE=" + u.modules(),
	}
	for _, kv := range os.Environ() {
		switch name, _, _ := strings.Cut(kv, "="); {
		case name == binEnv: // below
		case strings.HasPrefix(name, "DSHX_"), name == "CI":
			cmd.Env = append(cmd.Env, kv)
		}
	}
	if u.bin != "" {
		cmd.Env = append(cmd.Env, binEnv+"="+u.bin)
	}
}

// remove deletes the copy, directories that tests left without permissions included.
func (u *ordinary) remove() error { return os.RemoveAll(u.dir) }

// reachable drops the folders of path that others may not enter, such as those in root's home:
// a shell would find the names and then fail on them.
func reachable(path string) string {
	var keep []string
	for _, dir := range filepath.SplitList(path) {
		if open(dir) {
			keep = append(keep, dir)
		}
	}
	return strings.Join(keep, string(filepath.ListSeparator))
}

func open(dir string) bool {
	if !filepath.IsAbs(dir) {
		return false
	}
	for {
		info, err := os.Stat(dir)
		if err != nil || info.Mode()&0o001 == 0 {
			return false
		}
		if dir == "/" {
			return true
		}
		dir = filepath.Dir(dir)
	}
}

// copyTree copies what belongs to the project into dst: the files git tracks and the new
// ones it would not ignore. The files stay linked to nothing of the original.
func copyTree(ctx context.Context, dst string) error {
	// The clone may belong to somebody other than root, which git refuses without this.
	list := exec.CommandContext(ctx, "git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	out, err := list.Output()
	if err != nil {
		return fmt.Errorf("git ls-files: %w", err)
	}
	for _, name := range strings.Split(strings.TrimRight(string(out), "\x00"), "\x00") {
		if err := copyFile(name, filepath.Join(dst, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err // ErrNotExist: tracked, but deleted in the work tree
		}
	}
	return nil
}

func copyFile(src, dst string) error {
	info, err := os.Lstat(src)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(dst), 0o755); err != nil {
		return err
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		target, err := os.Readlink(src)
		if err != nil {
			return err
		}
		return os.Symlink(target, dst)
	}
	if !info.Mode().IsRegular() {
		return nil // a submodule's directory
	}
	b, err := os.ReadFile(src)
	if err != nil {
		return err
	}
	return os.WriteFile(dst, b, info.Mode().Perm()|0o444)
}
