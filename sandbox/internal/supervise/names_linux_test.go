package supervise

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/dshx/dshx/sandbox/internal/seccomp"
	"github.com/dshx/dshx/sandboxpolicy"
)

// newNames is a sandbox whose thread Landlock lets write below d.W and nowhere
// else, with the common directory d.O as a place.
func newNames(t testing.TB, d dirs, tree string, j *judge) *sandbox {
	t.Helper()
	requireKernel(t, seccomp.Probe().AddFD, "descriptors from a seccomp supervisor")
	place := Place{Dir: d.O, Files: []string{"packed-refs", "packed-refs.lock", "packed-refs.new"}, Tree: tree}
	s := newSandbox(t, seccomp.Options{Names: true}, j, func(o *Options) {
		o.Places = []Place{place}
		o.Filters = ownFilters() + 1
	})
	result := make(chan unix.Errno)
	s.do <- func() { result <- onlyBelow(d.W) }
	e := <-result
	requireKernel(t, e != unix.ENOSYS && e != unix.EOPNOTSUPP, "Landlock")
	if e != 0 {
		t.Fatal(e)
	}
	return s
}

func ownFilters() int {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return seccomp.Filters()
}

// onlyBelow holds the calling thread's writing to dir and devices.
func onlyBelow(dir string) unix.Errno {
	const write = unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
		unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SYM | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO
	// Without the right to move between directories (ABI 2) all such moves fail.
	all := uint64(write | unix.LANDLOCK_ACCESS_FS_REFER)
	rules, e := landlockRuleset(all)
	if e == unix.EINVAL {
		all = write
		rules, e = landlockRuleset(all)
	}
	if e != 0 {
		return e
	}
	defer unix.Close(rules)
	for _, path := range []string{dir, "/dev"} {
		fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			return errnoOf(err)
		}
		e = landlockAllow(rules, fd, all)
		unix.Close(fd)
		if e != 0 {
			return e
		}
	}
	return landlockRestrict(rules)
}

// The operations on names. "open" writes by the descriptor, too: nobody is asked
// again.
func init() {
	flags := map[string]int{"excl": unix.O_RDWR | unix.O_CREAT | unix.O_EXCL, "creat": unix.O_RDWR | unix.O_CREAT, "append": unix.O_WRONLY | unix.O_APPEND,
		"trunc": unix.O_WRONLY | unix.O_TRUNC, "tmpfile": unix.O_TMPFILE | unix.O_RDWR, "path": unix.O_PATH | unix.O_CREAT,
		"make": unix.O_WRONLY | unix.O_APPEND | unix.O_CREAT, "nofollow": unix.O_WRONLY | unix.O_NOFOLLOW, "rdonly": unix.O_RDONLY | unix.O_CREAT}
	// open HOW PATH [DIRFD]
	helperSocketOps["open"] = func(a []string) (string, error) {
		dirfd := unix.AT_FDCWD
		if len(a) > 3 {
			var err error
			if dirfd, err = unix.Open(a[3], unix.O_RDONLY, 0); err != nil {
				return "", err
			}
		}
		fd, err := unix.Openat(dirfd, a[2], flags[a[1]]|unix.O_CLOEXEC, 0o666)
		if err != nil {
			return "", err
		}
		if f, _ := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); f&unix.FD_CLOEXEC == 0 {
			return " without FD_CLOEXEC", nil
		}
		if f, _ := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0); f&unix.O_ACCMODE != flags[a[1]]&unix.O_ACCMODE || f&unix.O_APPEND != flags[a[1]]&unix.O_APPEND {
			return fmt.Sprintf(" flags %#x", f), nil
		}
		if flags[a[1]]&unix.O_ACCMODE != unix.O_RDONLY {
			if _, err := unix.Write(fd, []byte("written")); err != nil {
				return "", err
			}
		}
		return "", unix.Close(fd)
	}
	helperSocketOps["mkdir"] = func(a []string) (string, error) { return "", unix.Mkdir(a[1], 0o777) }
	helperSocketOps["rmdir"] = func(a []string) (string, error) { return "", unix.Rmdir(a[1]) }
	helperSocketOps["rm"] = func(a []string) (string, error) { return "", unix.Unlink(a[1]) }
	helperSocketOps["mv"] = func(a []string) (string, error) { return "", unix.Rename(a[1], a[2]) }
	helperSocketOps["mv2"] = func(a []string) (string, error) {
		n := map[string]uint{"noreplace": unix.RENAME_NOREPLACE, "exchange": unix.RENAME_EXCHANGE}[a[3]]
		return "", unix.Renameat2(unix.AT_FDCWD, a[1], unix.AT_FDCWD, a[2], n)
	}
	helperSocketOps["ln"] = func(a []string) (string, error) { return "", unix.Link(a[1], a[2]) }
	helperSocketOps["ln-s"] = func(a []string) (string, error) { return "", unix.Symlink(a[1], a[2]) }
	helperSocketOps["mkfifo"] = func(a []string) (string, error) { return "", unix.Mkfifo(a[1], 0o666) }
	helperSocketOps["chdir"] = func(a []string) (string, error) { return "", unix.Chdir(a[1]) }
	// nest puts an empty filter on top, as a sandbox within would.
	helperSocketOps["nest"] = func([]string) (string, error) {
		_, err := seccomp.Install([]seccomp.Insn{{Code: 0x06, K: unix.SECCOMP_RET_ALLOW}}, false, false)
		return "", err
	}
	// openflip DIR GOOD BAD ROUNDS: another thread turns the last component of
	// the path into BAD and back while GOOD is made and removed.
	helperSocketOps["openflip"] = flipNames
}

func gitDir(t testing.TB) dirs {
	d := newDirs(t)
	for _, dir := range []string{"/hooks", "/refs"} {
		must(t, os.Mkdir(d.O+dir, 0o755))
	}
	for _, f := range []string{"/config", "/HEAD", "/hooks/x", "/packed-refs"} {
		must(t, os.WriteFile(d.O+f, []byte("old"), 0o644))
	}
	must(t, os.Symlink(d.O+"/packed-refs.lock", d.W+"/to-lock"))
	must(t, os.Symlink(d.O+"/config.lock", d.W+"/packed-refs.lock"))
	return d
}

// allNames judges like a policy that grants the names and what is below logs.
func allNames(d dirs) *judge {
	return &judge{writable: []string{d.W, d.O + "/packed-refs", d.O + "/packed-refs.lock", d.O + "/packed-refs.new", d.O + "/logs"}}
}

func TestNames_WhatGitDoes(t *testing.T) {
	for _, adapt := range []struct {
		name string
		f    func(*Server)
	}{
		{"now", func(*Server) {}},
		{"old kernel", func(s *Server) { beOld(s); s.noAddfdSend.Store(true) }},
	} {
		t.Run(adapt.name, func(t *testing.T) {
			d := gitDir(t)
			s := newNames(t, d, "", allNames(d))
			adapt.f(s.server)
			ops := []string{"umask 0027", "open excl " + d.O + "/packed-refs.lock", "open excl ../o/packed-refs.lock",
				"open excl packed-refs.new " + d.O, "mv " + d.O + "/packed-refs.new dir-o/packed-refs", "open append " + d.O + "/packed-refs",
				"rm " + d.O + "/packed-refs.lock", "rm " + d.O + "/packed-refs.lock", "open make " + d.O + "/refs/../packed-refs.lock", "open creat " + d.O + "/packed-refs.lock",
				"open trunc " + d.O + "/packed-refs.lock", "open rdonly " + d.O + "/packed-refs.lock", "open creat w.txt", "mkdir dir", "mv w.txt w2.txt", "rm w2.txt", "rmdir dir", "open append " + d.O + "/packed-refs.new",
				"mv2 " + d.O + "/packed-refs.lock " + d.O + "/packed-refs noreplace", "mv2 " + d.O + "/packed-refs.lock " + d.O + "/packed-refs.new noreplace"}
			want := []string{"ok", "ok", "EEXIST", "ok", "ok", "ok", "ok", "ENOENT", "ok", "ok", "ok", "ok", "ok", "ok", "ok", "ok", "ok", "ENOENT", "EEXIST", "ok"}
			got := s.op(d.W, ops...)
			for i := range ops {
				if i >= len(got) || got[i] != want[i] {
					t.Fatalf("%s: %v, want %s", ops[i], got[i:], want[i])
				}
			}
			b, err := os.ReadFile(d.O + "/packed-refs")
			if must(t, err); string(b) != "writtenwritten" {
				t.Errorf("packed-refs has %q", b)
			}
			var st unix.Stat_t
			must(t, unix.Lstat(d.O+"/packed-refs", &st))
			if st.Mode != unix.S_IFREG|0o640 || int(st.Uid) != os.Getuid() || int(st.Gid) != os.Getgid() {
				t.Errorf("mode %o, owner %d:%d", st.Mode, st.Uid, st.Gid)
			}
		})
	}
}

// Everything else is as without the supervisor: Landlock refuses it, and
// nothing changes.
func TestNames_NothingElse(t *testing.T) {
	d := gitDir(t)
	must(t, os.Mkdir(d.O+"/logs", 0o755))
	must(t, os.WriteFile(d.O+"/logs/old", nil, 0o644))
	s := newNames(t, d, "", allNames(d))
	must(t, os.Symlink("config", d.O+"/packed-refs.new")) // as nobody inside can
	before := tree(t, d.O)
	ops := []string{
		"open excl config.lock " + d.O, "open creat " + d.O + "/config", "open append " + d.O + "/HEAD", "open trunc " + d.O + "/hooks/x", "open excl " + d.O + "/hooks/packed-refs.lock",
		"open excl " + d.O + "/packed-refs.lock/../config.lock", "open creat " + d.O + "/packed-refs/../config", "open excl " + d.O + "/packed-refs.lock2", "open excl " + d.O + "/packed-refs.lock/", "open excl " + d.O + "/packed-refs.lock/.",
		"open creat to-lock", "open creat packed-refs.lock", "open append packed-refs.lock", "open append " + d.O + "/packed-refs.new", "open creat " + d.O + "/packed-refs.new", "open trunc " + d.O + "/packed-refs.new",
		"open nofollow " + d.O + "/packed-refs.new", "open tmpfile " + d.O, "open excl /proc/self/root" + d.O + "/config.lock",
		"mkdir " + d.O + "/packed-refs.lock", "mkdir " + d.O + "/logs2", "mkdir " + d.O + "/logs/x", "rmdir " + d.O + "/logs", "rm " + d.O + "/config", "rm " + d.O + "/logs/old", "rmdir " + d.O + "/packed-refs",
		"mv f " + d.O + "/packed-refs", "mv " + d.O + "/packed-refs f", "mv " + d.O + "/packed-refs " + d.O + "/config", "mv " + d.O + "/config " + d.O + "/packed-refs", "mv " + d.O + "/hooks " + d.O + "/packed-refs.lock",
		"mv " + d.O + "/packed-refs.new " + d.O + "/packed-refs", "mv2 " + d.O + "/packed-refs " + d.O + "/packed-refs.new exchange",
		"ln f " + d.O + "/packed-refs.lock", "ln-s config " + d.O + "/packed-refs.lock", "mkfifo " + d.O + "/packed-refs.lock", "ln " + d.O + "/config " + d.O + "/packed-refs.lock",
		"open make " + d.O + "/logs/x",
	}
	for i, got := range s.op(d.W, ops...) {
		if strings.HasPrefix(got, "ok") {
			t.Errorf("%s: %s", ops[i], got)
		}
	}
	if after := tree(t, d.O); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
	if _, err := os.Lstat(d.O + "/config.lock"); err == nil {
		t.Error("config.lock was made")
	}
	// The control: the same names, and the way back out of a directory.
	if got := s.op(d.W, "open excl "+d.O+"/hooks/../packed-refs.lock", "rm "+d.O+"/packed-refs.lock"); got[0] != "ok" || got[1] != "ok" {
		t.Error(got)
	}
}

// tree is what there is below dir, with contents.
func tree(t testing.TB, dir string) string {
	t.Helper()
	out, err := exec.Command("sh", "-c", `cd "$1" && find . -printf '%p %y %m %s %l\n' | sort && find . -type f | sort | xargs cat`, "sh", dir).CombinedOutput()
	must(t, err)
	return string(out)
}

// A directory that wasn't there when Landlock's rules were made.
func TestNames_Tree(t *testing.T) {
	d := gitDir(t)
	s := newNames(t, d, "logs", allNames(d))
	l := d.O + "/logs"
	ops := []struct{ op, want string }{
		{"open make " + l + "/refs/heads/x", "ENOENT"}, {"mkdir " + l + "/refs", "ENOENT"}, {"open creat " + l, "EACCES"}, {"mkdir " + d.O + "/logs2", "EACCES"},
		{"mkdir " + l, "ok"}, {"mkdir " + l, "EEXIST"}, {"mkdir " + l + "/refs", "ok"}, {"mkdir " + l + "/refs/heads", "ok"}, {"open make " + l + "/refs/heads/x", "ok"},
		{"open append " + l + "/refs/heads/x", "ok"}, {"open excl x.lock " + l + "/refs/heads", "ok"}, {"mv " + l + "/refs/heads/x.lock " + l + "/refs/heads/y", "ok"},
		{"mv " + l + "/refs/heads/y " + l + "/HEAD", "ok"}, {"rm " + l + "/HEAD", "ok"}, {"mkdir " + l + "/d", "ok"}, {"mv " + l + "/d " + l + "/refs/e", "ok"}, {"rmdir " + l + "/refs/e", "ok"},
		{"chdir " + l + "/refs", "ok"}, {"open make rel", "ok"}, {"open make ../rel2", "ok"}, {"open make ../../config.lock", "EACCES"}, {"open make ../../config", "EACCES"}, {"chdir " + d.W, "ok"},
		{"open make " + l + "/../config.lock", "EACCES"}, {"rmdir " + l, "EACCES"}, {"mv " + l + " " + d.O + "/logs2", "EACCES"}, {"mv " + l + "/rel2 " + d.O + "/packed-refs.lock", "EACCES"},
		{"mv f " + l + "/f", "EACCES"}, {"mv " + l + "/rel2 g", "EACCES"}, {"mv " + l + "/refs " + d.O + "/refs/logs", "EACCES"}, {"ln-s ../config " + l + "/s", "EACCES"}, {"ln f " + l + "/s", "EACCES"},
	}
	var list []string
	for _, o := range ops {
		list = append(list, o.op)
	}
	for i, got := range s.op(d.W, list...) {
		want := ops[i].want
		// Landlock tells a rename or link across directories as EXDEV where the
		// rights would do in one.
		if got != want && !(want == "EACCES" && got == "EXDEV") {
			t.Errorf("%s: %s, want %s", ops[i].op, got, want)
		}
	}
	// A link that somebody outside put there leads nowhere.
	must(t, os.Symlink("../config", l+"/link"))
	must(t, os.Symlink("../hooks", l+"/dir"))
	for i, got := range s.op(d.W, "open append "+l+"/link", "open make "+l+"/link", "open make "+l+"/dir/y", "mkdir "+l+"/dir/y") {
		if got != "EACCES" {
			t.Errorf("%d: %s", i, got)
		}
	}
	if b, _ := os.ReadFile(d.O + "/config"); string(b) != "old" {
		t.Errorf("config has %q", b)
	}
}

// The policy's denies, and what a sandbox within has of rules of its own, go
// before.
func TestNames_DeniedOrNested(t *testing.T) {
	d := gitDir(t)
	j := allNames(d)
	j.denied = []string{d.O + "/packed-refs.lock"}
	s := newNames(t, d, "", j)
	if got := s.op(d.W, "open excl "+d.O+"/packed-refs.lock", "open excl "+d.O+"/packed-refs.new", "nest", "rm "+d.O+"/packed-refs.new"); fmt.Sprint(got) != "[EACCES ok ok EACCES]" {
		t.Error(got)
	}
}

// While one thread opens, another changes the name in the buffer.
func TestNames_TheBufferChanges(t *testing.T) {
	d := gitDir(t)
	s := newNames(t, d, "logs", allNames(d))
	rounds := "10000"
	if os.Getenv("DSHX_LONG") == "1" {
		rounds = "200000"
	}
	before := tree(t, d.O)
	for _, bad := range []string{"/hooks/refs.lock..", "/config.refs.lock."} {
		good := "/packed-refs.lock"
		bad = bad[:len(good)]
		out := s.op(d.W, "openflip "+d.O+" "+good+" "+bad+" "+rounds)
		if !strings.HasPrefix(out[0], "ok ") {
			t.Fatal(out)
		}
		t.Log(out[0])
	}
	os.Remove(d.O + "/packed-refs.lock")
	if after := tree(t, d.O); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
}

// A caller that dies or has no room for a descriptor leaves no file behind.
func TestNames_NoDescriptorNoFile(t *testing.T) {
	d := gitDir(t)
	s := newNames(t, d, "", allNames(d))
	out, err := s.run(d.W, "sh", "-c", `ulimit -n 3; : > ../o/packed-refs.lock`)
	if err == nil {
		t.Errorf("it worked: %s", out)
	}
	if _, err := os.Lstat(d.O + "/packed-refs.lock"); err == nil {
		t.Error("the file is there")
	}
	if _, err := s.run(d.W, "sh", "-c", `: > ../o/packed-refs.lock`); err != nil {
		t.Error(err)
	}
	if s.judge.Verdict(sandboxpolicy.OpCreate, d.O+"/config").Allow {
		t.Error("the test's judge allows everything")
	}
}

func BenchmarkNames(b *testing.B) {
	d := gitDir(b)
	s := newNames(b, d, "", allNames(d))
	for b.Loop() {
		if out, err := s.run(d.W, "sh", "-c", `i=0; while [ $i -lt 1000 ]; do : > x; i=$((i+1)); done`); err != nil {
			b.Fatal(out)
		}
	}
}
