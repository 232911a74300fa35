package fs

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// childEnv says that this process is a child of a test, and what it is to do.
const childEnv = "DSHX_FS_TEST_CHILD"

// child prepares to run this test binary again, for one test, as another
// process. role is what the child finds in childEnv.
func child(t *testing.T, role string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+strings.ReplaceAll(t.Name(), "/", "$/^")+"$", "-test.v", "-test.count=1")
	cmd.Env = append(os.Environ(), childEnv+"="+role)
	return cmd
}

func run(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if strings.Contains(string(out), "--- SKIP") {
		t.Skipf("in the child:\n%s", out)
	}
	if err != nil {
		t.Fatalf("the child: %v\n%s", err, out)
	}
}

// again runs the test once more, as an ordinary user where this is root, and
// reports whether this is that child.
func again(t *testing.T) bool {
	t.Helper()
	if os.Getenv(childEnv) != "" {
		return true
	}
	if os.Geteuid() != 0 {
		return false
	}
	const nobody = 65534
	dir, err := os.MkdirTemp("/var/tmp", "dshx-fs-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	bin := filepath.Join(dir, "test")
	if err := copyFile(bin, "/proc/self/exe"); err != nil {
		t.Fatal(err)
	}
	home := filepath.Join(dir, "home")
	for _, err := range []error{os.Mkdir(home, 0o755), os.Chmod(dir, 0o755), os.Chown(home, nobody, nobody)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	cmd := child(t, "ordinary")
	cmd.Path, cmd.Dir = bin, home
	cmd.Env = append(cmd.Env, "HOME="+home, "TMPDIR="+home, "USER=nobody", "LOGNAME=nobody")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	run(t, cmd)
	return false
}

func copyFile(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// ownMounts runs the test in a child that may mount, and reports whether this
// is that child.
func ownMounts(t *testing.T) bool {
	t.Helper()
	if os.Getenv(childEnv) != "" {
		return true
	}
	cmd := child(t, "mounts")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
		// It is uid 0 there, whose private directories may be the real root's.
		cmd.Env = append(cmd.Env, "TMPDIR="+t.TempDir())
		if err := exec.Command("unshare", "-Ur", "true").Run(); err != nil {
			t.Skipf("no user namespaces: %v", err)
		}
	}
	run(t, cmd)
	return false
}
