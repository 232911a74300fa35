package integration

import (
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// outerRepo makes O/main (a repository, bare or not) with a remote that is one
// commit ahead, packed refs, and a second linked worktree in O/other.
const outerRepo = `
git init -q "$O/seed"; cd "$O/seed"
echo one > f; git add f; git commit -qm one
git clone -q --bare . "$O/remote.git"
if [ "$1" = bare ]; then
	git clone -q --bare . "$O/main"
	git -C "$O/main" remote remove origin
	admin="$O/main"
else
	git init -q "$O/main"
	git -C "$O/main" pull -q "$O/seed" main
	admin="$O/main/.git"
fi
git -C "$O/main" remote add origin "$O/remote.git"
git -C "$O/main" config remote.origin.fetch '+refs/heads/*:refs/remotes/origin/*'
printf '#!/bin/sh\ntouch "$(git rev-parse --git-dir)/hook-ran"\n' > "$admin/hooks/post-commit"
chmod +x "$admin/hooks/post-commit"
echo upstream > up; git add up; git commit -qm upstream; git push -q "$O/remote.git" main
`

// daysWork is what a person does with a repository in a day.
var daysWork = []step{
	{"status", `git status --porcelain; git log --oneline > log.txt; git diff --stat; rm log.txt`, ""},
	{"add and commit", `echo two >> f; git add f; git commit -qm two; git log -1 --format=%s`, "two\n"},
	{"branch, switch and merge", `git switch -qc topic; echo t > t; git add t; git commit -qm t
		git switch -q -; git merge -q --no-ff --no-edit topic; git log -1 --format=%s | grep -c topic > /dev/null; git branch -d topic`, ""},
	{"stash", `echo dirty >> f; git stash -q; git diff --quiet; git stash pop -q; tail -n1 f; git checkout -q -- f; git stash list`, "dirty\n"},
	{"fetch and rebase", `git fetch -q origin; git rebase -q origin/main; git show HEAD:up`, "upstream\n"},
	{"cherry-pick with a conflict", `git switch -qc side; echo other > f; git commit -qam other; git switch -q -
		echo mine > f; git commit -qam mine; if git cherry-pick side > /dev/null 2>&1; then exit 1; fi
		git checkout -q --theirs f; git add f; git -c core.editor=true cherry-pick --continue > /dev/null; cat f`, "other\n"},
	{"interactive rebase", `for n in 1 2 3; do echo $n > n$n; git add n$n; git commit -qm n$n; done
		GIT_SEQUENCE_EDITOR='sed -i 2s/pick/squash/' GIT_EDITOR=true git rebase -q -i HEAD~3 > /dev/null; git log -1 --format=%s`, "n3\n"},
	{"bisect", `git bisect start HEAD HEAD~3 > /dev/null; git bisect run sh -c '! test -e n3' | grep -c 'is the first bad commit'; git bisect reset > /dev/null 2>&1`, "1\n"},
	{"tag, notes, reflog, reset", `git tag v1; git tag -am annotated v2; git notes add -m note; git reset -q --hard HEAD~1; git reset -q --hard ORIG_HEAD; git reflog | grep -c reset > /dev/null; git tag -d v1`, ""},
	{"amend, restore, rm, mv", `git commit -q --amend -m amended; git mv f g; git rm -q t; git commit -qm moved; git restore -s HEAD~1 f; rm f; git show --stat > /dev/null`, ""},
	{"apply and am", `git format-patch -q -1 --stdout > /dev/null; git format-patch -q -1 -o .p; git reset -q --hard HEAD~1; git am -q .p/*.patch; rm -r .p`, ""},
	{"maintenance", `git pack-refs --all; git repack -q -d; git prune-packed; git count-objects -v > /dev/null; git fsck --no-dangling --no-progress`, ""},
	{"no lock is left", `find "$(git rev-parse --absolute-git-dir)" "$(git rev-parse --git-common-dir)" -name '*.lock'; git status --porcelain`, ""},
}

// plantAttempts tries to make the repository in $1 run code, by name and by
// rename, and to move the heads that $2... hold. It always succeeds.
const plantAttempts = `
repo=$1; shift
quietly() { "$@" > /dev/null 2>&1 || true; }
echo evil > "$W/evil" 2> /dev/null || echo evil > evil
evil=evil; test -e "$W/evil" && evil="$W/evil"
quietly chmod +x "$evil"
for f in "$repo/hooks/pre-commit" "$repo/hooks/post-commit" "$repo/config" "$repo/info/attributes" "$repo/config.worktree" "$@"; do
	quietly sh -c ': >> "$1"' sh "$f"
	quietly sh -c 'echo evil > "$1"' sh "$f"
	quietly cp "$evil" "$f"; quietly ln -f "$evil" "$f"; quietly ln -sf "$evil" "$f"; quietly mv "$evil" "$f"
	quietly rm -f "$f"; quietly truncate -s 0 "$f"; quietly touch "$f"; quietly chmod 777 "$f"
done
quietly rm -r "$repo/hooks"; quietly mv "$repo/hooks" "$repo/objects/hooks"
quietly sh -c 'cp "$1/config" "$1/config.lock" && echo evil >> "$1/config.lock" && mv "$1/config.lock" "$1/config"' sh "$repo"
quietly git --git-dir="$repo" config core.hooksPath /x
rm -f "$evil"
`

func TestF2_1_LinkedWorktree(t *testing.T) {
	for _, kind := range []string{"normal", "bare"} {
		for _, pointers := range []string{"absolute", "relative"} {
			t.Run(kind+" "+pointers, func(t *testing.T) {
				daily(t, func(t *testing.T, d *day) { linkedWorktree(t, d, kind, pointers) })
			})
		}
	}
}

func linkedWorktree(t *testing.T, d *day, kind, pointers string) {
	d.Tool("git")
	d.outside(outerRepo+`
cd "$O/main"
git worktree add -q -b other "$O/other"
git worktree add -q -b work "$W"
git pack-refs --all
own="$(git -C "$W" rev-parse --absolute-git-dir)"
if [ "$2" = relative ]; then
	# As git 2.48 and later write them with worktree.useRelativePaths.
	printf 'gitdir: %s\n' "$(realpath --relative-to="$W" "$own")" > "$W/.git"
	printf '%s\n' "$(realpath --relative-to="$own" "$W")/.git" > "$own/gitdir"
fi
`, kind, pointers)
	admin := strings.TrimSpace(d.outside(`git -C "$O/main" rev-parse --absolute-git-dir`))
	other := strings.TrimSpace(d.outside(`git -C "$O/other" rev-parse --absolute-git-dir`))
	guarded := []string{filepath.Join(admin, "config"), filepath.Join(admin, "hooks"), filepath.Join(admin, "HEAD"),
		filepath.Join(admin, "description"), other, filepath.Join(d.O, "other"),
		filepath.Join(d.O, "remote.git", "config"), filepath.Join(d.O, "remote.git", "refs"), filepath.Join(d.O, "remote.git", "packed-refs")}
	heads := []string{filepath.Join(admin, "HEAD"), filepath.Join(other, "HEAD"), filepath.Join(other, "index"), filepath.Join(other, "gitdir")}
	if kind == "normal" {
		guarded = append(guarded, filepath.Join(admin, "index"))
		heads = append(heads, filepath.Join(admin, "index"))
	}
	unchanged := Unchanged(t, guarded...)
	d.steps(t, Opts{}, daysWork)
	if !d.plain {
		unchanged() // daily work alone: git branch -d, for one, rewrites config where it can
		r := d.bash(Opts{}, plantAttempts, append([]string{admin}, heads...)...).OK(t)
		unchanged()
		// The worktree's own administrative directory holds index and HEAD beside what says whose it is.
		own := strings.TrimSpace(d.outside(`git -C "$W" rev-parse --absolute-git-dir`))
		d.refusedOrGap(t, r, false, "protected-paths", "pointers in the worktree's own directory", own+":", "commondir", "gitdir", "config.worktree")
	}
	for _, name := range []string{"config.lock", "config.worktree", "info/attributes"} {
		if Exists(filepath.Join(admin, name)) {
			t.Errorf("%s appeared in the shared git directory", name)
		}
	}
	d.fsckClean(t, filepath.Join(d.O, "main"), d.W)
	// The existing hook ran for a commit made inside.
	if own := strings.TrimSpace(d.outside(`git -C "$W" rev-parse --absolute-git-dir`)); !Exists(filepath.Join(own, "hook-ran")) {
		t.Error("the post-commit hook did not run")
	}
}

// fsckClean checks repositories from outside.
func (d *day) fsckClean(t *testing.T, dirs ...string) {
	t.Helper()
	for _, dir := range dirs {
		r := d.OutsideOpts(Opts{Dir: dir}, "git", "fsck", "--full", "--strict", "--no-dangling", "--no-progress")
		if r.Exit != 0 || r.Stdout+r.Stderr != "" {
			t.Errorf("git fsck in %s: %s", dir, r)
		}
	}
}

func TestF2_1_Submodule(t *testing.T) {
	for _, pointers := range []string{"absolute", "relative"} {
		t.Run(pointers, func(t *testing.T) {
			daily(t, func(t *testing.T, d *day) {
				d.Tool("git")
				d.outside(outerRepo+`
git init -q "$O/super"; cd "$O/super"
git -c protocol.file.allow=always submodule --quiet add "$O/remote.git" sub
git commit -qm super
cd sub; git checkout -q -b work HEAD~1
if [ "$2" = absolute ]; then
	own="$(git rev-parse --absolute-git-dir)"
	git config core.worktree "$O/super/sub"
	printf 'gitdir: %s\n' "$own" > .git
fi
git config protocol.file.allow always
printf '#!/bin/sh\ntouch "$(git rev-parse --git-dir)/hook-ran"\n' > "$(git rev-parse --git-dir)/hooks/post-commit"
chmod +x "$(git rev-parse --git-dir)/hooks/post-commit"
`, "normal", pointers)
				super, sub := filepath.Join(d.O, "super"), filepath.Join(d.O, "super", "sub")
				outer, own := filepath.Join(super, ".git"), filepath.Join(super, ".git", "modules", "sub")
				guarded := []string{filepath.Join(outer, "config"), filepath.Join(outer, "hooks"), filepath.Join(outer, "HEAD"),
					filepath.Join(outer, "index"), filepath.Join(outer, "refs"), filepath.Join(super, ".gitmodules")}
				unchanged := Unchanged(t, guarded...)
				code := snapPresent(t, filepath.Join(own, "config"), filepath.Join(own, "hooks"))
				o := Opts{Dir: sub}
				d.steps(t, o, daysWork)
				if d.plain {
					return
				}
				d.bash(o, plantAttempts, outer, filepath.Join(outer, "HEAD"), filepath.Join(outer, "index")).OK(t)
				unchanged()
				// The checkout's own git directory holds index and HEAD beside config.
				if d.fsckClean(t, sub, super); !Exists(filepath.Join(own, "hook-ran")) {
					t.Error("the post-commit hook did not run")
				}
				r := d.bash(o, plantAttempts, own).OK(t)
				now := snapPresent(t, filepath.Join(own, "config"), filepath.Join(own, "hooks"))
				d.refusedOrGap(t, r, sameSnapshot(code, now), "protected-paths", "config and hooks of the submodule's git directory", own+":", "config", "hooks")
			})
		})
	}
}

// snapPresent is a snapshot of those trees that are there.
func snapPresent(t *testing.T, roots ...string) Snapshot {
	t.Helper()
	var present []string
	for _, root := range roots {
		if Exists(root) {
			present = append(present, root)
		}
	}
	return Snap(t, present...)
}

func sameSnapshot(a, b Snapshot) bool {
	if len(a) != len(b) {
		return false
	}
	for path, line := range a {
		if b[path] != line {
			return false
		}
	}
	return true
}

func TestF2_2_OddWorkspaces(t *testing.T) {
	variants := []struct {
		name, setup string
		noStatus    bool // git status is not expected to work outside either
	}{
		{name: "git file to a directory inside", setup: `git init -q --separate-git-dir="$W/.real" .`},
		{name: "git file to a directory outside", setup: `git init -q --separate-git-dir="$O/real" .`},
		{name: "git link to a directory inside", setup: `git init -q .; mv .git .real; ln -s .real .git`},
		{name: "git link to a directory outside", setup: `git init -q .; mv .git "$O/real"; ln -s "$O/real" .git`},
		{name: "hooks linked", setup: `git init -q .; rm -r .git/hooks; mkdir -p tools/hooks; echo old > tools/hooks/pre-push; ln -s ../tools/hooks .git/hooks`},
		{name: "hooks missing", setup: `git init -q .; rm -r .git/hooks`},
		{name: "info and description missing", setup: `git init -q .; rm -r .git/info .git/description`},
		{name: "link to a missing tree", setup: `git init -q .; ln -s /no/such/tree out; ln -s "$O/gone" gone`},
		{name: "loops", setup: `git init -q .; ln -s loop loop; ln -s b a; ln -s a b; mkdir -p x/y; ln -s ../.. x/y/up`},
		{name: "directory of mode 000", setup: `git init -q .; mkdir closed; echo f > closed/f; chmod 000 closed`},
		{name: "git file of nonsense", setup: `echo nonsense > .git`, noStatus: true},
		{name: "empty git directory", setup: `mkdir .git`, noStatus: true},
		{name: "git file to a missing directory", setup: `echo 'gitdir: ../gone' > .git`, noStatus: true},
		{name: "configuration of mode 000", setup: `git init -q .; chmod 000 .git/config`, noStatus: true},
		{name: "odd names", setup: `git init -q .; touch -- '-rf' 'sp ace' $'new\nline' $'\xff' '*' "it's"; mkdir .vscode .idea; touch .mcp.json`},
		{name: "fifo, socket names and a long path", setup: `git init -q .; mkfifo p; d=$(printf 'd%.0s' {1..200}); mkdir -p "$d/$d/$d/$d/$d"`},
	}
	for _, v := range variants {
		t.Run(v.name, func(t *testing.T) {
			daily(t, func(t *testing.T, d *day) {
				d.Tool("git")
				d.outside(v.setup)
				for _, argv := range [][]string{{"true"}, {"git", "status"}} {
					r := d.run(Opts{}, argv...)
					if r.Exit != 0 && !(v.noStatus && argv[0] == "git") {
						t.Errorf("want exit 0: %s", r)
					}
					warnings := 0
					for _, line := range lines(r.Stderr) {
						if strings.HasPrefix(line, "dshx:") {
							warnings++
						}
					}
					if argv[0] == "true" && warnings > 1 || argv[0] == "true" && warnings == 0 && r.Stderr != "" {
						t.Errorf("want at most one warning: %s", r)
					}
					notices := 0
					if e := r.Event("exited"); e != nil && e.Sandbox != nil {
						for _, n := range e.Sandbox.Notices {
							// Made only milliseconds before the run, which a
							// coarse clock can't tell from during it.
							if n.Kind != "git-dir-created" {
								notices++
							}
						}
					}
					if notices > 1 {
						t.Errorf("want at most one notice: %s", r)
					}
				}
				if v.name == "hooks linked" && !d.plain {
					hooks := filepath.Join(d.W, "tools", "hooks")
					before := snapPresent(t, hooks, filepath.Join(d.W, ".git", "hooks"))
					r := d.bash(Opts{}, `
mkdir mine; echo evil > mine/pre-commit; chmod +x mine/pre-commit
{ rm .git/hooks; ln -s ../mine .git/hooks; cp mine/pre-commit tools/hooks/; echo evil > tools/hooks/pre-push; mv tools old; mv mine tools; } 2> /dev/null || true`)
					now := snapPresent(t, hooks, filepath.Join(d.W, ".git", "hooks"))
					d.refusedOrGap(t, r, sameSnapshot(before, now), "protected-paths", "linked hooks and their target")
				}
			})
		})
	}
}

func TestF2_4_NothingAppears(t *testing.T) {
	for _, end := range []string{"exit", "SIGKILL"} {
		t.Run(end, func(t *testing.T) {
			daily(t, func(t *testing.T, d *day) {
				d.Tool("git")
				if d.plain && end == "SIGKILL" {
					skip(t, "DSHX_IT_PLAIN=1: nothing ends the tree when its parent dies")
				}
				d.outside(`git init -q .; echo f > f; mkdir d; echo g > d/g; git add .; git commit -qm f; mkdir -p "$H/.cache" "$H/.config"`)
				// The cache area is documented as dshx's own.
				own := filepath.Join(d.H, ".cache", "dshx")
				list := func() map[string]bool {
					all := map[string]bool{}
					for _, root := range []string{d.W, d.H} {
						filepath.WalkDir(root, func(path string, e os.DirEntry, err error) error {
							if path == own {
								return filepath.SkipDir
							}
							all[path] = true
							return nil
						})
					}
					return all
				}
				before := list()
				ready := filepath.Join(d.O, "ready")
				fifo := filepath.Join(d.O, "fifo")
				if err := syscall.Mkfifo(fifo, 0o666); err != nil {
					t.Fatal(err)
				}
				// What git itself makes and removes again before the sleep is git's.
				gits := map[string]bool{filepath.Join(d.W, ".git", "index.lock"): true}
				var mu sync.Mutex
				seen := map[string]bool{}
				stop := make(chan struct{})
				var polling sync.WaitGroup
				polling.Add(1)
				go func() {
					defer polling.Done()
					for {
						working := !Exists(ready)
						now := list()
						mu.Lock()
						for path := range now {
							if !before[path] && !(working && gits[path]) {
								seen[path] = true
							}
						}
						mu.Unlock()
						select {
						case <-stop:
							return
						case <-time.After(50 * time.Millisecond):
						}
					}
				}()
				var proc *os.Process
				started := make(chan struct{})
				// The reader learns from the pipe that the work is done.
				r, w, err := os.Pipe()
				if err != nil {
					t.Fatal(err)
				}
				go func() {
					buf := make([]byte, 64)
					n, _ := r.Read(buf)
					if n > 0 {
						os.WriteFile(ready, nil, 0o644)
						if end == "SIGKILL" {
							<-started
							time.Sleep(500 * time.Millisecond)
							proc.Kill()
						}
					}
				}()
				res := d.bash(Opts{Stdout: w, Started: func(p *os.Process) { proc = p; close(started) }},
					`test -z "$(git status --porcelain)"; git add -A; echo done; sleep 3`)
				w.Close()
				r.Close()
				if end == "exit" && (res.Exit != 0 || res.Signal != 0) {
					t.Errorf("want exit 0: %s", res)
				}
				if end == "SIGKILL" && res.Signal != syscall.SIGKILL {
					t.Errorf("want SIGKILL: %s", res)
				}
				d.NothingLeft(2 * time.Second)
				close(stop)
				polling.Wait()
				for path := range list() {
					if !before[path] {
						seen[path] = true
					}
				}
				if len(seen) > 0 {
					var paths []string
					for path := range seen {
						paths = append(paths, path)
					}
					sort.Strings(paths)
					t.Errorf("appeared: %s", strings.Join(paths, " "))
				}
				if out := d.outside(`git status --porcelain`); out != "" {
					t.Errorf("status afterwards: %q", out)
				}
			})
		})
	}
}

func TestF2_5_RepositoriesBornInside(t *testing.T) {
	daily(t, func(t *testing.T, d *day) {
		d.Tool("git")
		d.outside(`git init -q .; echo f > f; git add f; git commit -qm f`)
		works := func(name, script string, born ...string) {
			t.Run(name, func(t *testing.T) {
				r := d.bash(Opts{}, script)
				if r.Exit != 0 {
					t.Errorf("want exit 0: %s", r)
				}
				if d.plain {
					return
				}
				// So that a caller can refuse to run git there.
				for _, dir := range born {
					if !noticed(r, "git-dir-created", filepath.Join(d.W, dir)) {
						t.Errorf("no git-dir-created notice for %s: %s", dir, r)
					}
				}
			})
		}
		works("init and commit", `git init -q n; cd n; echo x > x; git add x; git commit -qm x`, "n/.git")
		// git tries chmod(2) on its new config to see whether modes mean anything here.
		works("executable bits", `git init -q e; cd e; test "$(git config core.fileMode)" = true; echo x > x; chmod +x x; git add x; git commit -qm x; git ls-files -s x | grep -c ^100755`)
		works("quiet", `git init -q q 2>&1; git -C q config user.name Somebody 2>&1`)
		works("clone", `git clone -q "$W/n" "$W/m"; cd m; echo y > y; git add y; git commit -qm y; git push -q origin HEAD:refs/heads/pushed`, "m/.git")
		works("bare clone and mirror", `git clone -q --bare n b.git; git clone -q --mirror n mirror.git`, "b.git")
		works("worktree", `git worktree add -q wt; cd wt; echo z > z; git add z; git commit -qm z; git worktree list | wc -l`)
		works("commit in a nested repository", `cd n; echo x >> x; git commit -qam again; cd ../m; git pull -q --rebase origin main`)
		t.Run("submodule", func(t *testing.T) {
			r := d.bash(Opts{}, `git -c protocol.file.allow=always submodule --quiet add "$W/n" sub; git commit -qm sub`)
			if r.Exit == 0 {
				return
			}
			// Refused for the protected configuration; then the result says so.
			for _, denial := range r.Denials() {
				if strings.Contains(denial.Resolved+denial.Target, "/.git/") {
					return
				}
			}
			t.Errorf("refused without saying what was: %s", r)
		})
		d.fsckClean(t, d.W, filepath.Join(d.W, "n"), filepath.Join(d.W, "m"), filepath.Join(d.W, "wt"))
		t.Run("planted hook", func(t *testing.T) {
			r := d.bash(Opts{}, `git init -q p; mkdir -p p/.git/hooks; { printf '#!/bin/sh\n' > p/.git/hooks/pre-commit; chmod +x p/.git/hooks/pre-commit; } 2> /dev/null || true`)
			planted := Exists(filepath.Join(d.W, "p/.git/hooks/pre-commit"))
			if planted && !d.plain && !noticed(r, "git-dir-created", filepath.Join(d.W, "p/.git")) {
				t.Errorf("planted, and the result does not name the git directory: %s", r)
			}
		})
	})
}

// noticed tells whether a result has a notice of that kind for a path or for
// something directly around it.
func noticed(r *Result, kind, path string) bool {
	e := r.Event("exited")
	if e == nil || e.Sandbox == nil {
		return false
	}
	for _, n := range e.Sandbox.Notices {
		if n.Kind == kind && (n.Path == path || n.Path == filepath.Dir(path)) {
			return true
		}
	}
	return false
}

// Work with hooks, filters and helpers that a repository has already.
func TestF2_Daily_GitHooksAndHelpers(t *testing.T) {
	daily(t, func(t *testing.T, d *day) {
		d.Tool("git")
		d.outside(`
git init -q .
echo '*.up filter=upper' > .gitattributes
git config filter.upper.clean 'tr a-z A-Z'; git config filter.upper.smudge cat
git config alias.last 'log -1 --format=%s'
for h in pre-commit commit-msg post-commit prepare-commit-msg post-checkout; do
	printf '#!/bin/sh\necho %s "$TMPDIR" >> hooks.log\ntest -n "$(mktemp)"\n' $h > .git/hooks/$h; chmod +x .git/hooks/$h
done
echo hooks.log > .gitignore; git add .; git commit -qm first; rm -f hooks.log`)
		d.steps(t, Opts{}, []step{
			{"hooks run", `echo a > a; git add a; git commit -qm a; cut -d' ' -f1 hooks.log | tr '\n' ' '`, "pre-commit prepare-commit-msg commit-msg post-commit "},
			{"a failing hook stops the commit", `printf '#!/bin/sh\nexit 1\n' > "$TMPDIR/h"; echo b > b; git add b
				sh -c 'chmod +x "$1"; mkdir -p "$2"; cp "$1" "$2/pre-commit"' sh "$TMPDIR/h" "$TMPDIR/hooks"
				! git -c core.hooksPath="$TMPDIR/hooks" commit -qm b; git commit -qm b; git last`, "b\n"},
			{"filter", `echo text > t.up; git add t.up; git commit -qm up; git show HEAD:t.up`, "TEXT\n"},
			{"editor and pager", `echo c > c; git add c; printf '#!/bin/sh\necho edited > "$1"\n' > "$TMPDIR/ed"; chmod +x "$TMPDIR/ed"
				GIT_EDITOR="$TMPDIR/ed" git commit -q; GIT_PAGER='cat -n' git --paginate last | grep -c edited`, "1\n"},
			{"archive and bundle", `git archive HEAD | tar t | grep -c .up; git bundle create -q x.bundle HEAD; git bundle verify -q x.bundle; rm x.bundle`, "1\n"},
			{"grep, blame, shortlog, difftool", `git grep -q TEXT HEAD; git blame a > /dev/null; git shortlog -sn HEAD | wc -l; git difftool -y -x diff HEAD~1 > /dev/null`, ""},
			{"clean and gc", `touch junk; git clean -qfd; test ! -e junk; git gc -q; git fsck --no-dangling --no-progress`, ""},
			{"partial add", `printf '1\n2\n' > a; printf 'y\n' | git add -p > /dev/null; git diff --cached --quiet && exit 1; git commit -qm patch`, ""},
		})
		d.fsckClean(t, d.W)
	})
}

func TestF2_21_RefusalsAreNamed(t *testing.T) {
	daily(t, func(t *testing.T, d *day) {
		if d.plain {
			skip(t, "DSHX_IT_PLAIN=1: nothing is refused")
		}
		sock := filepath.Join(d.O, "docker.sock")
		listener := Listen(t, "unix", sock)
		d.outside(`git init -q .; echo f > f; git add f; git commit -qm f; git config commit.gpgsign true; mkdir -m 700 "$H/.gnupg"`)
		cases := []struct {
			name      string
			argv      []string
			needs     string
			operation []string // of a denial that names it
			target    string   // in that denial
			mayPass   bool     // root needs no privilege to be gained
		}{
			// git swallows what gpg says, and no system call of gpg's comes before
			// the supervisor: that ~/.gnupg can't be read is known to Landlock
			// alone, which tells nobody. The commit fails, and nothing is claimed.
			{name: "commit.gpgsign", argv: []string{"git", "commit", "--allow-empty", "-qm", "signed"}, needs: "gpg"},
			{name: "docker socket", argv: []string{probeBin, "f2-dial", "unix", sock}, operation: []string{"connect"}, target: sock},
			{name: "user namespace", argv: []string{"unshare", "-Ur", "true"}, needs: "unshare", operation: []string{"kernel"}},
			{name: "sudo", argv: []string{"sudo", "-n", "true"}, needs: "sudo", operation: []string{"kernel"}, mayPass: d.UID == 0},
		}
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				if c.needs != "" && d.HasTool(c.needs) == "" {
					skipTool(t, c.needs)
				}
				was := listener.Conns()
				r := d.run(Opts{JSON: true}, c.argv...)
				if r.Duration > 5*time.Second {
					t.Errorf("took %v, want under 5 s", r.Duration)
				}
				if c.mayPass && r.Exit == 0 {
					return
				}
				if r.Exit == 0 || r.Exit == 125 || r.Exit == 127 {
					t.Errorf("want a failure of the command's own: %s", r)
				}
				listener.Silent(t, was)
				if c.operation == nil {
					if len(r.Denials()) != 0 {
						t.Errorf("something else is blamed: %+v", r.Denials())
					}
					return
				}
				var named *Denial
				for i, denial := range r.Denials() {
					for _, op := range c.operation {
						if denial.Operation == op && strings.Contains(denial.Target+" "+denial.Resolved, c.target) {
							named = &r.Denials()[i]
						}
					}
				}
				if named == nil {
					t.Fatalf("no denial names what was refused: %s", r)
				}
				if strings.Contains(named.Remedy, "--write") && named.Operation != "write" && named.Operation != "create" {
					t.Errorf("a writable path would not help: %q", named.Remedy)
				}
				// Without --json the same is said on standard error.
				r = d.run(Opts{}, c.argv...)
				said := ""
				for _, line := range lines(r.Stderr) {
					if strings.HasPrefix(line, "dshx:") {
						said += line + "\n"
					}
				}
				if strings.Contains(strings.ToLower(said), "not found") || strings.Contains(strings.ToLower(said), "no such file") {
					t.Errorf("claims that something was not found: %s", said)
				}
				if (c.operation[0] == "connect" || c.operation[0] == "kernel") && !strings.Contains(said, "denied") {
					t.Errorf("standard error names nothing: %s", r)
				}
			})
		}
	})
}
