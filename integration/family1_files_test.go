package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// metadataOps are the probe's ways to change a file's metadata, by path and by
// descriptor. {} is the path.
var metadataOps = []string{
	"chmod {}", "fchmodat {}", "fchmodat2 {}", "fchmod-ro {}", "fchmodat2-empty {}", "chmod-procfd {}", "dirfd-chmod {}",
	"chown {}", "lchown {}", "fchownat {}", "fchown-ro {}", "fchownat-empty {}", "chown-procfd {}",
	"utime {}", "utimes {}", "futimesat {}", "futimesat-null {}", "utimensat {}", "utimensat-nofol {}", "futimens-ro {}", "utimensat-empty {}", "utime-procfd {}",
	"setxattr {}", "lsetxattr {}", "setxattrat {}", "fsetxattr-ro {}", "setxattrat-empty {}", "xattr-procfd {}",
	"removexattr {}", "lremovexattr {}", "removexattrat {}", "fremovexattr-ro {}",
	"setfacl {}", "setflags-ro {}", "setflags-high-ro {}", "fssetxattr-ro {}", "file_setattr {}", "file_setattr-empty {}",
}

// notThroughLink are those that by design act on a link itself.
var notThroughLink = []string{"lchown", "utimensat-nofol", "lsetxattr", "lremovexattr", "fchownat-empty", "fchmodat2-empty"}

// metadataFiles makes a file for each op in dir and returns the attempts.
func (e *Env) metadataFiles(dir, prefix string) (names []string) {
	e.t.Helper()
	for i, op := range metadataOps {
		f := e.Write(filepath.Join(dir, fmt.Sprintf("%s%d", prefix, i)), "content", 0o640)
		if err := unix.Setxattr(f, "user.keep", []byte("v"), 0); err != nil {
			e.t.Logf("no user xattrs here: %v", err)
		}
		old := time.Unix(500000000, 0)
		if err := os.Chtimes(f, old, old); err != nil {
			e.t.Fatal(err)
		}
		names = append(names, strings.ReplaceAll(op, "{}", f))
	}
	return names
}

// F1-10: metadata outside of what may be written stays as it is.
func TestF1_10_Metadata(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		control := e.metadataFiles(e.Mkdir(filepath.Join(e.O, "control")), "c")
		missing := map[string]string{}
		for name, errno := range assertWorksOutside(t, e.ProbeOutside(control...), control) {
			op, _, _ := strings.Cut(name, " ")
			missing[op] = errno
		}

		attempts := e.metadataFiles(e.O, "f")
		for i, op := range metadataOps {
			verb, _, _ := strings.Cut(op, " ")
			if !slices.Contains(notThroughLink, verb) {
				link := e.Symlink(filepath.Join(e.O, fmt.Sprintf("f%d", i)), filepath.Join(e.W, fmt.Sprintf("l%d", i)))
				attempts = append(attempts, strings.ReplaceAll(op, "{}", link))
			}
			if verb == "chmod" || verb == "utimensat" || verb == "setxattr" || verb == "chown" {
				f := filepath.Join(e.O, fmt.Sprintf("f%d", i))
				attempts = append(attempts, "in "+e.O+" "+verb+" "+filepath.Base(f), verb+" /proc/self/root"+f,
					verb+" "+e.W+"/../O/"+filepath.Base(f), "fd "+f+" "+verb+" @", verb+" "+e.O)
			}
		}
		check := Unchanged(t, e.O, e.H)
		for _, preset := range []string{"workspace-write", "read-only"} {
			a := e.Probe(Opts{Preset: preset}, attempts...)
			for _, name := range attempts {
				op, _, _ := strings.Cut(name, " ")
				more := []string{}
				if m := missing[op]; m != "" {
					more = append(more, m)
				}
				assertDenied(t, a, []string{name}, more...)
			}
			check()
		}
		// The shell's own tools, which fall back from one call to another.
		r := e.Sh(Opts{}, `f=$1; l=$2; for c in "touch $f" "touch -d 2001-01-01 $f" "chmod 777 $f" "chmod 777 $l" "chgrp $3 $f" "chown $3:$3 $f" \
"setfattr -n user.x -v 1 $f" "setfacl -m u:0:rwx $f" "chattr +d $f" "truncate -s 0 $f" "cp -p /etc/hostname $f"; do
command -v ${c%% *} >/dev/null || continue; $c 2>/dev/null && echo "$c"; done; true`, filepath.Join(e.O, "f0"), filepath.Join(e.W, "l0"), itoa(e.GID))
		if r.Stdout != "" {
			t.Errorf("succeeded: %s", r.Stdout)
		}
		check()
	})
}

// F1-10: a descriptor that the caller passed in gives what its mode gives, and
// no metadata.
func TestF1_10_PassedDescriptor(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		for _, c := range []struct {
			name string
			flag int
		}{{"read-only", os.O_RDONLY}, {"read-write", os.O_RDWR}} {
			t.Run(c.name, func(t *testing.T) {
				e := e.With(t)
				path := e.Write(filepath.Join(e.O, "in-"+c.name), "content", 0o640)
				unix.Setxattr(path, "user.keep", []byte("v"), 0)
				open := func() *os.File {
					f, err := os.OpenFile(path, c.flag, 0)
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() { f.Close() })
					return f
				}
				attempts := []string{"fchmod-fd 0", "fchown-fd 0", "futimens-fd 0", "fsetxattr-fd 0", "fremovexattr-fd 0", "setflags-fd 0",
					"setflags-high-fd 0", "fssetxattr-fd 0", "reopen-w-fd 0", "chmod /proc/self/fd/0", "utimensat /proc/self/fd/0", "truncate /proc/self/fd/0 1"}
				before := Snap(t, path)
				a := e.Probe(Opts{Stdin: open()}, append(attempts, "read-fd 0")...)
				assertDenied(t, a, attempts)
				assertAllowed(t, a, []string{"read-fd 0"})
				before.Same(t, Snap(t, path))
				if c.flag == os.O_RDWR {
					assertAllowed(t, e.Probe(Opts{Stdin: open()}, "write-fd 0 written"), []string{"write-fd 0 written"})
					if e.Read(path) != "written" {
						t.Error("control: a writable descriptor did not write")
					}
				}
			})
		}
	})
}

// F1-10, control: in W and T metadata is the command's own.
func TestF1_10_OwnMetadata(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		attempts := e.metadataFiles(e.W, "f")
		a := e.Probe(Opts{}, attempts...)
		for _, name := range attempts {
			if got := a.Get(name); got.Result != "ok" && !slices.Contains(absent, got.Result) {
				t.Errorf("%s: %s %s, want ok", name, got.Result, got.Detail)
			}
		}
		r := e.Sh(Opts{}, `set -e
for d in "$PWD" "$TMPDIR"; do
cd "$d"; mkdir src; echo hi > src/a; touch -d 2001-02-03T04:05:06Z src/a; chmod 750 src/a
[ "$(stat -c '%a %Y' src/a)" = "750 981173106" ]
cp -a src copy; [ "$(stat -c '%a %Y' copy/a)" = "750 981173106" ]
tar cf x.tar src; mkdir out; tar xpf x.tar -C out; [ "$(stat -c '%a %Y' out/src/a)" = "750 981173106" ]
cp -a src "$TMPDIR/again"; [ "$(stat -c '%a %Y' "$TMPDIR/again/a")" = "750 981173106" ]; rm -r "$TMPDIR/again"
if command -v setfattr >/dev/null; then setfattr -n user.x -v 1 src/a; cp -a src withx; getfattr -n user.x withx/a >/dev/null; fi
ln -s src/a link; touch -h -d 2001-02-03T04:05:06Z link; chmod +x link; install -m 755 src/a inst
done; echo done`)
		if r.Stdout != "done\n" {
			t.Errorf("%s", r)
		}
		if e.UID == 0 {
			e.Sh(Opts{}, `chown 12345:12346 src/a && [ "$(stat -c %u:%g src/a)" = 12345:12346 ] && tar cf y.tar src && rm -r src && tar xpf y.tar && [ "$(stat -c %u:%g src/a)" = 12345:12346 ]`).OK(t)
		}
	})
}

// writeOps are ways to change what is in O. {} is a file, {d} an empty
// directory, {n} a name that isn't there, all of the attempt's own.
var writeOps = []string{"open-w {}", "open-rw {}", "open-a {}", "overwrite {} x", "trunc-ro {}", "openat2-w {}", "truncate {} 0", "fallocate {}", "unlink {}",
	"create {n}", "creat {n}", "tmpfile {d}", "mkdir {n}", "rmdir {d}", "symlink x {n}", "link {} {n}", "rename {} {n}", "mkfifo {n}", "mksock {n}",
	"in {d} create x", "fd {} open-w @", "create {d}/x", "open-w /proc/self/root{}", "unix-bind stream {n}", "unix-bind dgram {n}"}

// Nothing outside of W and T is written. (No case of its own in the list: the
// ground that family 1 stands on.)
func TestF1_0_WritesOutside(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		fill := func(dir, prefix string, ops []string) (names []string) {
			for i, op := range ops {
				base := filepath.Join(dir, fmt.Sprintf("%s%d", prefix, i))
				f, d := e.Write(base+".f", "content"), e.Mkdir(base+".d")
				names = append(names, strings.NewReplacer("{}", f, "{d}", d, "{n}", base+".n").Replace(op))
			}
			return names
		}
		control := fill(filepath.Join(e.O, "control"), "c", writeOps)
		missing := map[string]string{}
		outside := e.ProbeOutside(control...)
		for i, op := range writeOps {
			if m := assertWorksOutside(t, outside, control[i:i+1]); len(m) > 0 {
				missing[op] = m[control[i]]
			}
		}
		into := []string{"rename {} " + e.W + "/moved", "rename " + e.W + "/mine {n}", "rename-exchange {} " + e.W + "/mine", "link " + e.W + "/mine {n}",
			"rename {} $TMPDIR/moved", "link {} $TMPDIR/alias", "link " + e.W + "/mine " + e.H + "/alias"}
		// A device node outside the sandbox's reach: root without CAP_MKNOD.
		into = append(into, "mknod-dev "+e.W+"/null", "mknod-dev {n}")
		for _, preset := range []string{"workspace-write", "read-only"} {
			t.Run(preset, func(t *testing.T) {
				e := e.With(t)
				e.Write(filepath.Join(e.W, "mine"), "mine")
				attempts := append(fill(e.O, "o-"+preset, append(slices.Clone(writeOps), into...)), fill(e.H, "h-"+preset, writeOps)...)
				link := e.Symlink(e.O, filepath.Join(e.W, "out-"+preset))
				dangling := e.Symlink(filepath.Join(e.O, "new"), filepath.Join(e.W, "dangling-"+preset))
				attempts = append(attempts, "create "+link+"/n", "overwrite "+link+"/o-"+preset+"0.f x", "overwrite "+e.W+"/../O/o-"+preset+"0.f x",
					"open-w "+dangling, "create /etc/"+e.Mark, "create /"+e.Mark, "create /usr/"+e.Mark, "create "+e.Root+"/n", "rename "+e.W+" "+e.Root+"/w2",
					"create /proc/self/cwd/../O/n", "unlink "+e.W+"/../O/o-"+preset+"1.f")
				if preset == "read-only" {
					attempts = append(attempts, fill(filepath.Join(e.W, "ro"), "w", writeOps)...)
				}
				t.Cleanup(func() {
					for _, dir := range []string{"/etc/", "/", "/usr/"} {
						os.Remove(dir + e.Mark)
					}
				})
				check := Unchanged(t, e.O, e.H)
				w := Unchanged(t, e.W)
				a := e.Probe(Opts{Preset: preset}, attempts...)
				for _, name := range attempts {
					// EXDEV and EBUSY: W is its own mount with namespaces; ENXIO: the kernel
					// answers so for a dangling link opened without O_CREAT.
					assertDenied(t, a, []string{name}, "EXDEV", "EBUSY")
				}
				check()
				w()
			})
		}
		own := []string{"create " + e.W + "/n", "create $TMPDIR/n", "open-w /dev/null", "mkdir " + e.W + "/d", "rename " + e.W + "/n " + e.W + "/d/n",
			"symlink " + e.O + " " + e.W + "/d/l", "mkfifo " + e.W + "/fifo", "unlink " + e.W + "/fifo", "tmpfile " + e.W, "tmpfile $TMPDIR", "truncate " + e.W + "/d/n 10"}
		assertAllowed(t, e.Probe(Opts{}, own...), own)
		own = []string{"create $TMPDIR/n", "open-w /dev/null", "open-w /dev/full", "read /dev/urandom"}
		assertAllowed(t, e.Probe(Opts{Preset: "read-only"}, own...), own)
	})
}

// F1-12: no alias of a file gives more than its own name does.
func TestF1_12_Aliases(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		key := e.Write(filepath.Join(e.H, ".ssh/key"), "MARKER-key", 0o600)
		ro := e.Write(filepath.Join(e.O, "ro.txt"), "readable", 0o644)
		alias := func(dir string) (steps, uses []string) {
			for i, target := range []string{key, ro} {
				for j, how := range []string{"link %s %s", "link-fd %s %s", "link-empty %s %s", "rename %s %s", "symlink %s %s"} {
					a := fmt.Sprintf("%s/alias-%d-%d", dir, i, j)
					steps = append(steps, fmt.Sprintf(how, target, a))
					use := fmt.Sprintf("w%d%d%s", i, j, dir[:2])
					uses = append(uses, use)
					steps = append(steps, use+"=overwrite "+a+" pwned")
					if target == key {
						use = fmt.Sprintf("r%d%d%s", i, j, dir[:2])
						uses = append(uses, use)
						steps = append(steps, use+"=read "+a)
					}
				}
			}
			return steps, uses
		}
		check := Unchanged(t, e.O, e.H)
		steps, uses := alias(e.W)
		tSteps, tUses := alias("$TMPDIR")
		a := e.Probe(Opts{}, append(steps, tSteps...)...)
		assertDenied(t, a, append(uses, tUses...))
		for _, one := range a.List {
			if strings.Contains(one.Detail, "MARKER") {
				t.Errorf("%s read the key: %s", one.Name, one.Detail)
			}
		}
		check()
		// Directories are aliases of all that is in them.
		a = e.Probe(Opts{}, "rename "+e.H+"/.ssh "+e.W+"/ssh", "a=read "+e.W+"/ssh/key", "rename "+e.O+" "+e.W+"/o", "b=overwrite "+e.W+"/o/ro.txt x",
			"rename-exchange "+e.H+"/.ssh "+e.W, "c=read "+e.W+"/key")
		assertDenied(t, a, []string{"a", "b", "c"}, "ENOTDIR")
		check()

		// The control: outside these do give an alias, inside they do between own files.
		if r := e.Outside("sh", "-c", `ln "$1" "$2" && cat "$2" && rm "$2"`, "sh", key, filepath.Join(e.W, "x")); r.Stdout != "MARKER-key" {
			t.Errorf("control: %s", r)
		}
		r := e.Sh(Opts{}, `set -e; echo a > a; ln a b; mkdir d; ln a d/c; mv b d/b; [ "$(stat -c %h a)" = 3 ]
if [ "$(stat -c %d .)" = "$(stat -c %d "$TMPDIR")" ]; then ln a "$TMPDIR/a"; mv "$TMPDIR/a" e; [ "$(stat -c %h a)" = 4 ]; echo linked; else cp a "$TMPDIR/a"; echo copied; fi`)
		if r.Exit != 0 {
			t.Errorf("control: %s", r)
		}
		if r.Stdout == "copied\n" {
			fmt.Printf("NOTE %s: W and T lie on different file systems\n", t.Name())
		}
	})
}

// F1-21: cleaning T up follows nothing and leaves nothing.
func TestF1_21_CleanUp(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		e.Write(filepath.Join(e.O, "keep"), "keep")
		e.Write(filepath.Join(e.O, "tree/a/b/c"), "deep")
		check := Unchanged(t, e.O, e.H)
		gone := func(r *Result) {
			t.Helper()
			dir := strings.TrimSpace(r.Stdout)
			if !filepath.IsAbs(dir) || strings.Contains(dir, "\n") {
				t.Fatalf("no TMPDIR: %s", r)
			}
			if Exists(dir) {
				t.Errorf("%s is still there", dir)
				forceRemove(dir)
			}
			assertRan(t, r)
		}
		gone(e.Sh(Opts{}, `cd "$TMPDIR"; pwd; mkdir -p a/b/c; ln -s "$1/keep" keep; ln -s "$1/tree" tree; ln -s "$1/keep" a/b/c/keep; ln -s "$1/tree" a/b/c/tree
ln -s "$1" a/b/out; ln -s loop loop; ln -s .. a/up; ln -s / root; ln "$1/keep" hard 2>/dev/null; exit 0`, e.O))
		check()
		gone(e.Sh(Opts{}, `cd "$TMPDIR"; pwd; i=0; while [ $i -lt 1000 ]; do : > f$i; i=$((i+1)); done
mkdir -p locked/in; : > locked/in/f; chmod 000 locked/in locked; mkdir ro; : > ro/f; chmod 500 ro; mkfifo fifo; : > nomode; chmod 000 nomode
touch "$(printf 'new\nline')" -- -rf '*'`))
		check()
		// A deep tree: a remover that recurses by path fails past PATH_MAX.
		gone(e.Sh(Opts{}, `cd "$TMPDIR"; pwd; i=0; n=dddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd
while [ $i -lt 100 ]; do mkdir $n && cd $n || exit 1; i=$((i+1)); done; : > f`))
		check()
		// A process swaps a subdirectory for a link while dshx ends.
		for range 5 {
			gone(e.Sh(Opts{Timeout: 30 * time.Second, Flags: []string{"--kill-after", "300ms"}}, `cd "$TMPDIR"; pwd; mkdir sub; "$2" flip "$TMPDIR/sub" "$1/tree"`, e.O, probeBin))
			check()
		}
		// T itself can't be moved, nor replaced by a link.
		r := e.Sh(Opts{}, `cd "$TMPDIR"; pwd; cd /; mv "$TMPDIR" "$TMPDIR.x" 2>/dev/null && echo moved; rmdir "$TMPDIR" 2>/dev/null && ln -s "$1" "$TMPDIR" 2>/dev/null && echo replaced; exit 0`, e.O)
		gone(r)
		check()
		e.NothingLeft(2 * time.Second)
		// Killed outright, dshx can't clean; a later run of the same user does.
		if dshxBin != "" {
			var dir string
			cmd := e.Command(Opts{}, e.DshxArgv(Opts{StatusFD: -1}, "sh", "-c", `pwd > where; echo "$TMPDIR" > where; ln -s "$1" "$TMPDIR/out"; sleep 1000`, "sh", e.O)...)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			eventually(t, 10*time.Second, "the command starts", func() bool {
				data, _ := os.ReadFile(filepath.Join(e.W, "where"))
				dir = strings.TrimSpace(string(data))
				return filepath.Base(dir) != "W" && dir != "" && Exists(filepath.Join(dir, "out"))
			})
			cmd.Process.Kill()
			cmd.Wait()
			e.NothingLeft(2 * time.Second)
			e.Run(Opts{}, "true").OK(t)
			if Exists(dir) {
				t.Errorf("%s of a killed run is still there after the next one", dir)
			}
			check()
		}
	})
}

// F1-14 and F1-16: what makes a host's git run code is protected, or dshx says
// that it is not and `--require full` refuses.
func TestF1_14_ProtectedPaths(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		git := e.Tool("git")
		e.gitConfig()
		e.Outside("sh", "-c", `set -e; g="$1"; for d in . vendor/lib; do mkdir -p $d; ( cd $d; "$g" init -q -b main; echo x > f; "$g" add f; "$g" commit -qm one
mkdir -p .git/hooks; printf '#!/bin/sh\nexit 0\n' > .git/hooks/post-merge; chmod +x .git/hooks/post-merge ); done`, "sh", git).OK(t)
		attacks := `
git=$1
for d in . vendor/lib; do ( cd $d
printf '#!/bin/sh\ntouch pwned\n' > x; chmod +x x
cp x .git/hooks/pre-commit; rm -f .git/hooks/pre-commit2; cp x y; mv y .git/hooks/pre-push; ln x .git/hooks/post-checkout; ln -s ../../x .git/hooks/post-commit
: > .git/hooks/post-merge; rm -f .git/hooks/post-merge
printf '[core]\n hooksPath = /x\n' > .git/config.lock; mv .git/config.lock .git/config; : > .git/config; rm -f .git/config
"$git" config core.hooksPath /x; mkdir -p .git/info; echo '* filter=x' > .git/info/attributes; echo x > .git/config.worktree
mv .git/hooks .git/hooks2 && mkdir .git/hooks && cp x .git/hooks/pre-commit; mv .git g2 && cp -r g2 .git
mkdir -p .vscode .dshx; echo x > .vscode/tasks.json; echo x > .dshx/config.toml; echo x > .envrc; echo x > .mcp.json
); done 2>/dev/null; true`
		r := e.Run(Opts{}, "sh", "-c", "true")
		if !r.Enforcement().Has("protected-paths") {
			before := Snap(t, filepath.Join(e.W, ".git"), filepath.Join(e.W, "vendor/lib/.git"))
			e.Sh(Opts{}, attacks, git)
			now := Snap(t, filepath.Join(e.W, ".git"), filepath.Join(e.W, "vendor/lib/.git"))
			for path, was := range before {
				if strings.HasSuffix(path, "/config") || strings.Contains(path, "/hooks") || strings.Contains(path, "/info") {
					if now[path] != was {
						t.Errorf("changed: %s", path)
					}
				}
			}
			for path := range now {
				if _, ok := before[path]; !ok && (strings.Contains(path, "/hooks/") || strings.HasSuffix(path, "config.worktree") || strings.HasSuffix(path, "attributes")) {
					t.Errorf("planted: %s", path)
				}
			}
			for _, p := range []string{".vscode", ".dshx", ".envrc", ".mcp.json"} {
				if Exists(filepath.Join(e.W, p)) {
					t.Errorf("planted: %s", p)
				}
			}
		} else {
			// Without namespaces it is a gap, and every channel says so.
			if got := r.Enforcement().Level; got != "partial" {
				t.Errorf("level %q with a gap", got)
			}
			for _, g := range r.Enforcement().Gaps {
				if g.Promise == "protected-paths" && (g.Reason == "" || g.Remedy == "") {
					t.Errorf("a gap without reason or remedy: %+v", g)
				}
			}
			if r := e.Run(Opts{JSON: true}, "true"); !r.Enforcement().Has("protected-paths") {
				t.Errorf("--json says nothing of it: %s", r)
			}
			if !e.Doctor("workspace-write").Has("protected-paths") {
				t.Error("doctor says nothing of it")
			}
			for _, o := range []Opts{{Flags: []string{"--require", "full"}}, {Flags: []string{"--require", "full"}, JSON: true}} {
				r := e.Run(o, "touch", filepath.Join(e.W, "ran"))
				assertNotRun(t, r)
				if Exists(filepath.Join(e.W, "ran")) {
					t.Error("the command ran under --require full")
				}
				if !strings.Contains(r.Stderr+r.Stdout, "protected-paths") && !strings.Contains(mustJSON(r.Status), "protected-paths") {
					t.Errorf("it doesn't say which promise: %s", r)
				}
			}
			if r := e.Dshx(Opts{}, "doctor", "--require", "full"); r.Exit != 1 {
				t.Errorf("doctor --require full: %s", r)
			}
		}
	})
}

// F1-14 and F1-16, control: git's daily work goes on.
func TestF1_14_DailyGit(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		git := e.Tool("git")
		e.gitConfig()
		e.Outside("sh", "-c", `set -e; for d in . vendor/lib; do mkdir -p $d; ( cd $d; "$1" init -q -b main; echo x > f; "$1" add f; "$1" commit -qm one ); done`, "sh", git).OK(t)
		r := e.Sh(Opts{}, `set -e; g=$1; for d in . vendor/lib; do ( cd $d; echo y >> f; "$g" add f; "$g" commit -qm two; "$g" tag t; echo z >> f; "$g" stash -q; "$g" stash pop -q
"$g" checkout -qf -b other; "$g" checkout -q main; "$g" branch -D other >/dev/null; "$g" gc -q; "$g" log --oneline | wc -l ); done`, git)
		if r.Exit != 0 || r.Stdout != "2\n2\n" || r.Stderr != "" {
			t.Errorf("%s", r)
		}
		e.Outside("sh", "-c", `"$1" fsck && "$1" -C vendor/lib fsck`, "sh", git).OK(t)
	})
}

// F1-16: repositories born during the run are named, or nothing is planted.
func TestF1_16_BornRepositories(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		git := e.Tool("git")
		e.gitConfig()
		for _, c := range []struct{ name, script string }{
			{"by hand", `mkdir -p byhand/.git/hooks byhand/.git/objects byhand/.git/refs; echo 'ref: refs/heads/main' > byhand/.git/HEAD; printf '#!/bin/sh\n' > byhand/.git/hooks/pre-commit; chmod +x byhand/.git/hooks/pre-commit`},
			{"at the root", `"$1" init -q . && mkdir -p .git/hooks && printf '#!/bin/sh\n' > .git/hooks/pre-commit && chmod +x .git/hooks/pre-commit`},
			{"nested", `"$1" init -q a/b/c`},
			// The report comes long after the command.
			{"with something left behind", `"$1" init -q left; sh -c 'trap "" TERM; : > deaf; sleep 60; sleep 60' & while [ ! -e deaf ]; do sleep 0.01; done`},
		} {
			t.Run(c.name, func(t *testing.T) {
				e := e.With(t)
				r := e.Sh(Opts{Flags: []string{"--kill-after", "1s"}}, c.script, git)
				var dirs []string
				filepath.WalkDir(e.W, func(path string, d os.DirEntry, err error) error {
					if err == nil && d.Name() == ".git" {
						dirs = append(dirs, path)
					}
					return nil
				})
				if len(dirs) == 0 {
					t.Fatalf("nothing was made: %s", r)
				}
				ev := r.Event("exited")
				if ev == nil || ev.Sandbox == nil {
					t.Fatalf("no result: %s", r)
				}
				for _, dir := range dirs {
					if !slices.ContainsFunc(ev.Sandbox.Notices, func(n Notice) bool { return n.Kind == "git-dir-created" && n.Path == dir }) {
						t.Errorf("%s is not named: %s", dir, mustJSON(ev.Sandbox.Notices))
					}
				}
				for _, dir := range dirs {
					os.RemoveAll(dir)
				}
			})
		}
	})
}

// F1-17: pointers in W to git directories elsewhere grant nothing.
func TestF1_17_ForgedGitPointers(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		git := e.Tool("git")
		e.gitConfig()
		key := e.Write(filepath.Join(e.H, ".ssh/key"), "MARKER-key", 0o600)
		e.Write(filepath.Join(e.H, "f"), "mine")
		real := filepath.Join(e.O, "real")
		e.Outside("sh", "-c", `set -e; "$1" init -q -b main "$2"; cd "$2"; echo x > f; "$1" add f; "$1" commit -qm one; "$1" worktree add -q "$2-wt"`, "sh", git, real).OK(t)
		check := func() func() { return Unchanged(t, e.H, e.O) }

		plants := map[string]struct {
			plant   func(w string)
			notice  bool
			targets []string
		}{
			"a file that points at .ssh": {func(w string) { e.Write(filepath.Join(w, ".git"), "gitdir: "+filepath.Join(e.H, ".ssh")+"\n") }, true, nil},
			"a file that points at the home": {func(w string) {
				e.Write(filepath.Join(w, ".git"), "gitdir: "+e.H+"\n")
			}, true, nil},
			"an admin directory whose commondir points at the home": {func(w string) {
				e.Write(filepath.Join(w, "admin/commondir"), e.H+"\n")
				e.Write(filepath.Join(w, "admin/HEAD"), "ref: refs/heads/main\n")
				e.Write(filepath.Join(w, "admin/gitdir"), filepath.Join(w, ".git")+"\n")
				e.Write(filepath.Join(w, ".git"), "gitdir: "+filepath.Join(w, "admin")+"\n")
			}, true, nil},
			"objects is a link to .ssh": {func(w string) {
				e.Write(filepath.Join(w, ".git/HEAD"), "ref: refs/heads/main\n")
				e.Mkdir(filepath.Join(w, ".git/refs"))
				e.Symlink(filepath.Join(e.H, ".ssh"), filepath.Join(w, ".git/objects"))
			}, false, []string{"{w}/.git/objects/key"}},
			"a file that names another worktree's entry": {func(w string) {
				e.Write(filepath.Join(w, ".git"), "gitdir: "+filepath.Join(real, ".git/worktrees/real-wt")+"\n")
			}, true, nil},
			"a file that names a whole repository": {func(w string) {
				e.Write(filepath.Join(w, ".git"), "gitdir: "+filepath.Join(real, ".git")+"\n")
			}, true, nil},
			".git is a link to a repository elsewhere": {func(w string) { e.Symlink(filepath.Join(real, ".git"), filepath.Join(w, ".git")) }, false, nil},
			".git is a link to .ssh":                   {func(w string) { e.Symlink(filepath.Join(e.H, ".ssh"), filepath.Join(w, ".git")) }, false, []string{"{w}/.git/key"}},
		}
		n := 0
		for name, c := range plants {
			n++
			w := filepath.Join(e.Root, fmt.Sprintf("W%d", n))
			t.Run(name, func(t *testing.T) {
				e := e.With(t)
				e.Mkdir(w)
				c.plant(w)
				same := check()
				deny := []string{"read " + key, "overwrite " + key + " x", "create " + e.H + "/new", "overwrite " + e.H + "/f x", "create " + e.H + "/.ssh/new",
					"create " + e.H + "/objects", "mkdir " + e.H + "/refs", "create " + real + "/.git/new", "create " + real + "/.git/objects/new",
					"create " + real + "/.git/refs/heads/new", "overwrite " + real + "/.git/config x", "create " + real + "/.git/worktrees/real-wt/new",
					"overwrite " + real + "/.git/worktrees/real-wt/HEAD x", "create " + real + "/.git/hooks/pre-commit", "chmod " + real + "/.git/config", "utimensat " + key}
				for _, p := range c.targets {
					deny = append(deny, "read "+strings.ReplaceAll(p, "{w}", w))
				}
				// "create refs" in H makes no sense there; a directory that isn't may say ENOTDIR.
				a := e.Probe(Opts{Dir: w}, append(deny, "create "+w+"/ok")...)
				assertDenied(t, a, deny, "ENOTDIR")
				assertAllowed(t, a, []string{"create " + w + "/ok"})
				same()
				if ev := a.Run.Event("exited"); c.notice && (ev == nil || ev.Sandbox == nil ||
					!slices.ContainsFunc(ev.Sandbox.Notices, func(n Notice) bool { return n.Kind == "pointer-ignored" })) {
					t.Errorf("no pointer-ignored notice: %s", mustJSON(a.Run.Status))
				}
			})
		}
		t.Run("the genuine worktree works", func(t *testing.T) {
			e := e.With(t)
			r := e.Sh(Opts{Dir: real + "-wt"}, `set -e; echo y >> f; "$1" add f; "$1" commit -qm two; "$1" status --porcelain`, git)
			if r.Exit != 0 || r.Stdout != "" || r.Stderr != "" {
				t.Errorf("%s", r)
			}
			if r := e.Outside(git, "-C", real, "fsck"); r.Exit != 0 {
				t.Errorf("%s", r)
			}
			a := e.Probe(Opts{Dir: real + "-wt"}, "create "+real+"/.git/hooks/pre-commit", "overwrite "+real+"/.git/config x")
			assertDenied(t, a, []string{"create " + real + "/.git/hooks/pre-commit", "overwrite " + real + "/.git/config x"})
		})
	})
}

// gitConfig gives the user a name to commit with, in the fake home.
func (e *Env) gitConfig() {
	e.Write(filepath.Join(e.H, ".gitconfig"), "[user]\n\tname = T\n\temail = t@example.com\n[init]\n\tdefaultBranch = main\n")
}

// dshx's own configuration decides about the next run, and stays as it is,
// wherever the writable folder lies: a command that could write it would have
// the next one run unconfined.
func TestOwnConfig_StaysAsItIs(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		conf := filepath.Join(e.H, ".config")
		file := e.Write(filepath.Join(conf, "dshx/config.toml"), "preset = \"workspace-write\"\n")
		e.Write(filepath.Join(conf, "tool/rc"), "x")
		linked := e.Write(filepath.Join(e.H, "dotfiles/dshx.toml"), "preset = \"workspace-write\"\n")
		e.Mkdir(filepath.Join(e.H, "dotfiles/tool"))
		attempts := func(file string) []string {
			dir := filepath.Dir(file)
			return []string{
				"echo x > " + file, "echo x > " + dir + "/new && mv " + dir + "/new " + file, "mv " + dir + " " + dir + ".x", "rm " + file,
				"ln -f " + e.W + "/f " + file, "mkdir -p " + dir + "/conf.d",
			}
		}
		e.Write(filepath.Join(e.W, "f"), "x")
		for _, c := range []struct {
			name, dir string
			flags     []string
			file      string
		}{
			{"workspace above it", conf, nil, file},
			{"workspace is its directory", filepath.Dir(file), nil, file},
			{"granted above it", e.W, []string{"--write", conf}, file},
			{"home", e.W, []string{"--write", e.H}, file},
			{"link into the workspace", filepath.Join(e.H, "dotfiles"), nil, linked},
		} {
			t.Run(c.name, func(t *testing.T) {
				e := e.With(t)
				if c.file == linked {
					if err := os.Remove(file); err != nil {
						t.Fatal(err)
					}
					e.Symlink(linked, file)
				}
				check := Unchanged(t, filepath.Dir(c.file))
				for _, a := range attempts(c.file) {
					if r := e.Sh(Opts{Dir: c.dir, Flags: c.flags}, a); r.Exit == 0 {
						t.Errorf("%s: not refused", a)
					}
				}
				check()
			})
		}
		// Control: beside it, work goes on.
		e.Sh(Opts{Dir: conf}, "echo y > tool/rc && echo z > tool/new && mv tool/new tool/rc").OK(t)
		e.Sh(Opts{Dir: filepath.Join(e.H, "dotfiles")}, "echo z > tool/new").OK(t)

		// A file that --config names in the workspace can't be kept, and dshx says so.
		own := e.Write(filepath.Join(e.W, "own.toml"), "preset = \"workspace-write\"\n")
		r := e.Sh(Opts{Flags: []string{"--config", own}}, "echo x > new").OK(t)
		if !strings.Contains(r.Stderr, "not enforced") || !strings.Contains(r.Stderr, own) || !r.Enforcement().Has("write") {
			t.Errorf("the gap isn't named: %s", r)
		}
	})
}
