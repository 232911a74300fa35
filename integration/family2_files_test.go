package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestF2_11_RenamesAndLinks(t *testing.T) {
	daily(t, func(t *testing.T, d *day) {
		d.steps(t, Opts{}, []step{
			{"into a directory made later", `mkdir a; echo f > a/f; i=$(stat -c %i a/f); mkdir b; mv a/f b/f; test $i = "$(stat -c %i b/f)"; cat b/f`, "f\n"},
			{"a directory into another", `i=$(stat -c %i a); echo g > a/g; mv a b/a; test $i = "$(stat -c %i b/a)"; cat b/a/g`, "g\n"},
			{"links across directories", `mkdir c; ln b/f c/hard; ln -s ../b/f c/soft; test b/f -ef c/hard; cat c/soft; stat -c %h b/f`, "f\n2\n"},
			{"T to W and back", `
echo x > "$TMPDIR/x"; i=$(stat -c %i "$TMPDIR/x"); mv "$TMPDIR/x" x
if test "$(stat -c %d "$TMPDIR")" = "$(stat -c %d .)"; then test $i = "$(stat -c %i x)"; ln x "$TMPDIR/linked"; fi
mv x "$TMPDIR/x"; cat "$TMPDIR/x"`, "x\n"},
			{"a tree from T to W and back", `mkdir -p "$TMPDIR/t/u"; echo x > "$TMPDIR/t/u/x"; mv "$TMPDIR/t" t; cat t/u/x; mv t "$TMPDIR/"; test ! -e t`, "x\n"},
			{"unpacked aside and renamed into place", `mkdir .tmp pkg; echo 1 > pkg/1; tar cf p.tar pkg; rm -r pkg; tar xf p.tar -C .tmp; mv .tmp/pkg pkg; rmdir .tmp; cat pkg/1`, "1\n"},
			{"replaced over an existing one", `echo old > r; echo new > r.new; mv -f r.new r; cat r; mkdir e1 e2; touch e1/f; mv -T e1 e2; ls e2`, "new\nf\n"},
			{"exchange and no-replace", `echo 1 > n1; echo 2 > n2; mv -n n1 n2; cat n1 n2; if mv --exchange n1 n2 2> /dev/null; then cat n1; else echo 2; fi`, "1\n2\n2\n"},
			{"local clone", `git init -q src; cd src; echo f > f; git add f; git commit -qm f; cd ..; git clone -q --local src dst; cat dst/f`, "f\n"},
		})
		if d.plain {
			return
		}
		t.Run("out of W", func(t *testing.T) {
			d := d.at(t)
			d.Write(filepath.Join(d.W, "f"), "mine")
			d.Write(filepath.Join(d.O, "theirs"), "theirs")
			unchanged := Unchanged(t, d.O)
			r := d.bash(Opts{}, `r=0; mv f "$O/f" && r=1; mv "$O/theirs" theirs && r=1; ln f "$O/l" && r=1; ln "$O/theirs" l && r=1; mv "$TMPDIR" "$O/t" && r=1; exit $r`).OK(t)
			unchanged()
			if d.Read(filepath.Join(d.W, "f")) != "mine" || Exists(filepath.Join(d.W, "theirs")) || Exists(filepath.Join(d.W, "l")) {
				t.Errorf("W changed: %s", r)
			}
		})
	})
}

func TestF2_17_PrivateTmp(t *testing.T) {
	daily(t, func(t *testing.T, d *day) {
		if d.plain {
			skip(t, "DSHX_IT_PLAIN=1: TMPDIR is not dshx's")
		}
		elsewhere := d.Mkdir(filepath.Join(d.O, "x"))
		o := Opts{Env: []string{"TMPDIR=" + elsewhere, "TMP=" + elsewhere, "TEMP=" + elsewhere}}
		r := d.bash(o, `echo "$TMPDIR"; stat -c '%a %u' "$TMPDIR"; echo keep > "$TMPDIR/keep"; mkdir -p "$TMPDIR/d/e"; ln -s "$O" "$TMPDIR/out"; chmod 000 "$TMPDIR/d"`).OK(t)
		out := lines(r.Stdout)
		if len(out) != 2 {
			t.Fatalf("printed %q", r.Stdout)
		}
		tmp := out[0]
		if !filepath.IsAbs(tmp) || strings.HasPrefix(tmp, d.W) || strings.HasPrefix(tmp, elsewhere) {
			t.Errorf("TMPDIR is %q", tmp)
		}
		if want := fmt.Sprintf("700 %d", d.UID); out[1] != want {
			t.Errorf("TMPDIR has mode and owner %s, want %s", out[1], want)
		}
		if Exists(tmp) {
			t.Errorf("%s is still there", tmp)
		}
		inside := func(what string) string {
			return fmt.Sprintf(`case "$(readlink -f "%s")" in "$(readlink -f "$TMPDIR")"/*) ;; *) echo "%[1]s is not in $TMPDIR"; exit 1;; esac`, what)
		}
		list := []step{
			{"mktemp", `d=$(mktemp -d); f=$(mktemp); g=$(mktemp -t t.XXXXXX); ` + inside("$d") + "; " + inside("$f") + "; " + inside("$g"), ""},
			{"here-document in bash", "cat <<E\nbash\nE\n" + `head -c 200000 /dev/zero | tr '\0' y > big; cat <<< "$(cat big)" | tr -d '\n' | wc -c; rm big`, "bash\n200000\n"},
			{"sort spills", `seq 200000 | sort -S 64k -rn > sorted; head -n1 sorted; rm sorted`, "200000\n"},
			{"TMP and TEMP", `for v in "${TMP-$TMPDIR}" "${TEMP-$TMPDIR}"; do test "$v" = "$TMPDIR"; done`, ""},
		}
		if d.HasTool("dash") != "" {
			list = append(list, step{"here-document in dash", "dash -c 'cat <<E\ndash\nE\n'", "dash\n"})
		}
		if d.HasTool("zsh") != "" {
			list = append(list, step{"here-document in zsh", "zsh -fc 'cat <<E\nzsh\nE\ncat <<< string; cat =(echo substituted)'", "zsh\nstring\nsubstituted\n"})
		} else {
			fmt.Printf("SKIP %s: no zsh that this user can run\n", t.Name())
		}
		d.steps(t, o, list)
		t.Run("python", func(t *testing.T) {
			d := d.at(t)
			d.run(o, d.python(), "-c", `
import os, tempfile
t = os.path.realpath(os.environ["TMPDIR"])
assert os.path.realpath(tempfile.gettempdir()) == t
with tempfile.TemporaryDirectory() as x, tempfile.NamedTemporaryFile() as f, tempfile.TemporaryFile() as g:
    g.write(b"x")
    assert os.path.realpath(x).startswith(t + "/") and os.path.realpath(f.name).startswith(t + "/")
`).OK(t)
		})
		t.Run("two sessions", func(t *testing.T) {
			d := d.at(t)
			var first *Result
			var running sync.WaitGroup
			running.Add(1)
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			go func() {
				defer running.Done()
				first = d.bash(Opts{Stdout: w}, `echo secret > "$TMPDIR/mine"; echo "$TMPDIR"; while ! test -e "$W/stop"; do sleep 0.05; done; cat "$TMPDIR/mine" > "$W/seen"; ls -A "$TMPDIR" | wc -l >> "$W/seen"`)
				w.Close()
			}()
			defer func() {
				d.Write(filepath.Join(d.W, "stop"), "")
				running.Wait()
				first.OK(t)
				if seen := d.Read(filepath.Join(d.W, "seen")); seen != "secret\n1\n" {
					t.Errorf("the first session saw %q in its own", seen)
				}
			}()
			buf := make([]byte, 4096)
			n, _ := r.Read(buf)
			theirs := strings.TrimSpace(string(buf[:n]))
			if theirs == "" {
				t.Error("the first session did not start")
				return
			}
			second := d.bash(Opts{}, `cat "$1/mine" || true; echo changed > "$1/mine" || true; touch "$1/new" || true; rm -f "$1/mine" || true; test "$1" != "$TMPDIR"`, theirs).OK(t)
			if strings.Contains(second.Stdout, "secret") {
				t.Errorf("a session reads another's TMPDIR: %s", second)
			}
		})
		if entries, _ := os.ReadDir(elsewhere); len(entries) != 0 {
			t.Errorf("the caller's TMPDIR was used: %v", entries)
		}
	})
}

func TestF2_19_DatabasesAndLocks(t *testing.T) {
	daily(t, func(t *testing.T, d *day) {
		py := d.python()
		rows := stress(1000)
		r := d.run(Opts{}, py, d.program("sqlite.py"), filepath.Join(d.W, "db"), "4", strconv.Itoa(rows)).OK(t)
		if want := fmt.Sprintf("wal [0, 0, 0, 0] 0 %d ok\n", 4*rows); r.Stdout != want {
			t.Errorf("printed %q, want %q", r.Stdout, want)
		}
		// Nothing blocks a reader outside afterwards.
		r = d.Outside(py, "-c", `
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], timeout=0)
print(db.execute("select count(*) from t").fetchone()[0], db.execute("pragma integrity_check").fetchone()[0])
db.execute("insert into t values (9, 9)")
db.commit()`, filepath.Join(d.W, "db"))
		if want := fmt.Sprintf("%d ok\n", 4*rows); r.Exit != 0 || r.Stdout != want {
			t.Errorf("outside afterwards: want %q: %s", want, r)
		}
		for _, name := range []string{"db-wal", "db-shm", "db-journal"} {
			if Exists(filepath.Join(d.W, name)) {
				t.Errorf("%s is left", name)
			}
		}
		r = d.run(Opts{}, py, d.program("locks.py"), d.W).OK(t)
		if want := "record held free\nflock held free\nofd held free\nmap child\n"; r.Stdout != want {
			t.Errorf("printed %q, want %q", r.Stdout, want)
		}
		if d.HasTool("sqlite3") != "" {
			d.works(`sqlite3 s.db 'pragma journal_mode=wal; create table t(a); insert into t values (1);' > /dev/null; sqlite3 s.db 'select a from t'`)
		}
	})
}

func TestF2_20_BigTrees(t *testing.T) {
	daily(t, func(t *testing.T, d *day) {
		dirs, perDir, runs := stress(2000), 50, 20
		small := d.Mkdir(filepath.Join(d.O, "small"))
		d.outside(`git init -q .; git commit -q --allow-empty -m empty`)
		// Hard links, since making 100,000 inodes takes minutes on a slow disk;
		// a walk of the tree costs the same.
		var sources []string
		for i := range 10 {
			sources = append(sources, d.Write(filepath.Join(d.O, fmt.Sprintf("source%d", i)), "x"))
		}
		paint := func(dir string, n int) {
			for i := range n {
				if err := os.Link(sources[i%10], filepath.Join(dir, fmt.Sprintf("f%d", i))); err != nil {
					t.Fatal(err)
				}
			}
		}
		for i := range dirs {
			paint(d.Mkdir(filepath.Join(d.W, fmt.Sprintf("d%d", i%40), fmt.Sprintf("e%d", i))), perDir)
		}
		for i := range 300 {
			admin := filepath.Join(d.W, ".git", "worktrees", fmt.Sprintf("wt%d", i))
			d.Write(filepath.Join(admin, "HEAD"), "ref: refs/heads/main\n")
			d.Write(filepath.Join(admin, "commondir"), "../..\n")
			d.Write(filepath.Join(admin, "gitdir"), filepath.Join(d.Root, "wt", fmt.Sprint(i), ".git")+"\n")
			d.Write(filepath.Join(d.Root, "wt", fmt.Sprint(i), ".git"), "gitdir: "+admin+"\n")
		}
		denied := d.Mkdir(filepath.Join(d.O, "denied"))
		paint(denied, 5000)
		deep := filepath.Join(denied, "1/2/3/4/5/6/7/8/9")
		d.Write(filepath.Join(deep, "f"), "secret")
		inside := filepath.Join(d.W, "a/b/c/d/e/f/g/h/i", "token.key")
		d.Write(inside, "secret")
		flags := []string{"--deny-read", denied}
		for i := range 19 {
			flags = append(flags, "--deny-read", fmt.Sprintf("**/secret%d/**", i))
		}
		flags = append(flags, "--deny-read", "**/token.key")

		median := func(o Opts) time.Duration {
			var all []time.Duration
			for range runs {
				all = append(all, d.run(o, "true").OK(t).Duration)
			}
			slices.Sort(all)
			return all[len(all)/2]
		}
		bare := median(Opts{Dir: small})
		big := median(Opts{Flags: flags})
		t.Logf("median start: %v in an empty workspace, %v with %d files, 300 worktrees, 21 denies", bare, big, dirs*perDir)
		if big > bare+300*time.Millisecond {
			t.Errorf("median start %v, %v in an empty workspace: want at most 300 ms more", big, bare)
		}
		if d.plain {
			return
		}
		// The denials hold, those that a wall can hold.
		r := d.bash(Opts{Flags: flags}, `cat "$1"`, filepath.Join(deep, "f"))
		if r.Exit == 0 || strings.Contains(r.Stdout, "secret") {
			t.Errorf("read at depth 10 in a denied directory: %s", r)
		}
		r = d.bash(Opts{Flags: flags}, `cat "$1"`, inside)
		d.refusedOrGap(t, r, r.Exit != 0 && !strings.Contains(r.Stdout, "secret"), "secrets", "a denied file at depth 10 in W")
		// And work goes on beside them.
		d.bash(Opts{Flags: flags}, `git status --porcelain > /dev/null; ls d1/* > /dev/null; cat d1/e1/f1; find . -name 'f1' | wc -l`).OK(t)
	})
}

// Tools that make, copy, unpack and change files keep what they are told to keep.
func TestF2_Daily_FileTools(t *testing.T) {
	daily(t, func(t *testing.T, d *day) {
		list := []step{
			{"touch, chmod, stat", `touch -d '2001-02-03 04:05:06 UTC' f; chmod 751 f; stat -c '%Y %a' f; touch -r f g; stat -c %Y g; chmod u=rw,go= g; stat -c %a g`, "981173106 751\n981173106\n600\n"},
			{"cp -a", `mkdir -p s/d; echo x > s/d/f; ln -s d/f s/l; ln s/d/f s/h; chmod 640 s/d/f; chmod 2750 s/d; touch -d @1000 s/d/f; touch -h -d @2000 s/l; touch -d @3000 s/d; cp -a s c
				stat -c '%n %a %Y' c/d c/d/f c/l | cut -d' ' -f2-; readlink c/l; test c/d/f -ef c/h`, "2750 3000\n640 1000\n777 2000\nd/f\n"},
			{"tar", `tar cf s.tar s; mkdir x; tar xpf s.tar -C x; stat -c '%a %Y' x/s/d x/s/d/f; tar czf - s | tar xzf - -C x; tar cf - s --sort=name | tar tf - | wc -l`, "2750 3000\n640 1000\n5\n"},
			{"cp, install, dd", `echo data > a; cp --reflink=auto a b; cp --sparse=always b b2; install -D -m 755 a i/j/k; stat -c %a i/j/k; dd if=/dev/zero of=z bs=64k count=4 conv=fsync status=none; truncate -s 1M z; fallocate -l 4096 z2 2>/dev/null || true; stat -c %s z; cmp a b`, "755\n1048576\n"},
			{"sed -i, perl -i", `printf 'one\ntwo\n' > t; chmod 755 t; sed -i s/one/1/ t; stat -c %a t; if command -v perl > /dev/null; then perl -pi -e s/two/2/ t; else sed -i s/two/2/ t; fi; echo 3 >> t; cat t`, "755\n1\n2\n3\n"},
			{"patch and diff", `printf 'a\nb\n' > p; printf 'a\nc\n' > p2; diff -u p p2 > d.patch || true; patch -s -b p d.patch; cat p; test -e p.orig`, "a\nc\n"},
			{"atomic saves", `echo old > e; printf new > .e.swp; sync .e.swp; mv .e.swp e; cat e; cp -p e e~; mv e e.bak; echo newer > e; rm e.bak; cat e`, "newnewer\n"},
			{"follow a growing file", `: > log; : > out; (for n in 1 2 3; do sleep 0.1; echo $n >> log; done; sleep 5) & tail -n +1 -f --pid=$! log > out & for i in $(seq 100); do test "$(wc -l < out)" = 3 && break; sleep 0.05; done; kill %1 %2; cat out`, "1\n2\n3\n"},
			{"find, xargs, parallel", `mkdir many; seq 200 | xargs -I{} touch many/{}; find many -type f -print0 | xargs -0 -P 4 -n 10 chmod 600; find many -perm 600 | wc -l; find many -name '1*' -exec rm {} +; find many -type f -delete; rmdir many`, "200\n"},
			{"fifo and flock", `mkfifo q; (echo through > q &); cat q; rm q; exec 9> lk; flock -n 9; ! flock -n lk true`, "through\n"},
			{"umask", `umask 027; touch u; mkdir ud; stat -c %a u ud; (umask 077; touch u2; stat -c %a u2)`, "640\n750\n600\n"},
			{"archives", `echo z > z1; gzip -k z1; gunzip -c z1.gz; if command -v xz > /dev/null; then xz -k z1; xz -dc z1.xz; else echo z; fi; if command -v zip > /dev/null && command -v unzip > /dev/null; then zip -q z.zip z1; unzip -qp z.zip; else echo z; fi`, "z\nz\nz\n"},
			{"own group and owner", `touch o; chown "$(id -u)" o; chgrp "$(id -g)" o; for g in $(id -G); do chgrp $g o; done; stat -c %u o`, fmt.Sprintf("%d\n", d.UID)},
		}
		if d.HasTool("rsync") != "" {
			list = append(list, step{"rsync", `rsync -a s/ r/; rsync -aHX --delete s/ r/; stat -c '%a %Y' r/d r/d/f; rsync -ac --itemize-changes s/ r/ | wc -l`, "2750 3000\n640 1000\n0\n"})
		} else {
			fmt.Printf("SKIP %s: no rsync that this user can run\n", t.Name())
		}
		if d.HasTool("setfattr") != "" && d.HasTool("getfattr") != "" {
			list = append(list, step{"xattrs", `touch xa; setfattr -n user.k -v v xa; getfattr --only-values -n user.k xa; echo; cp -a xa xb; getfattr --only-values -n user.k xb; echo; setfattr -x user.k xa; tar --xattrs -cf xa.tar xb; rm xb; tar --xattrs -xf xa.tar; getfattr --only-values -n user.k xb`, "v\nv\nv"})
		}
		if d.HasTool("setfacl") != "" {
			list = append(list, step{"ACLs", `touch ac; u=$(id -u); setfacl -m u:$u:r ac; getfacl -cn ac | grep -c "^user:$u:r--"; cp -a ac ad; getfacl -cn ad | grep -c "^user:$u:r--"; setfacl -b ac`, "1\n1\n"})
		}
		if d.HasTool("vim") != "" {
			list = append(list, step{"vim", `echo old > v; chmod 754 v; vim -u NONE -i NONE -es -c 'set backup writebackup backupdir=.' -c '%s/old/new/' -c wq v < /dev/null; cat v; stat -c %a v`, "new\n754\n"})
		}
		d.steps(t, Opts{}, list)
		// Owners as seen from outside.
		for _, name := range []string{"a", "c/d/f", "x/s/d/f", "t"} {
			if r := d.Outside("stat", "-c", "%u %g", name); r.Stdout != fmt.Sprintf("%d %d\n", d.UID, d.GID) {
				t.Errorf("owner of %s is %q", name, r.Stdout)
			}
		}
	})
}

// Root works on a workspace of other owners.
func TestF2_Daily_RootOnForeignFiles(t *testing.T) {
	if !isRoot {
		skip(t, "not root")
	}
	t.Run("root", func(t *testing.T) {
		d := newDay(t, newEnv(t, 0, 0))
		const other = 4242
		mine := func(path string) {
			if err := os.Lchown(path, other, other); err != nil {
				t.Fatal(err)
			}
		}
		mine(d.W)
		mine(d.Write(filepath.Join(d.W, "f"), "theirs", 0o600))
		sub := d.Mkdir(filepath.Join(d.W, "sub"))
		mine(sub)
		if err := os.Chmod(sub, 0o700); err != nil {
			t.Fatal(err)
		}
		mine(d.Write(filepath.Join(sub, "g"), "g", 0o600))
		d.steps(t, Opts{}, []step{
			{"read and write", `cat f; echo more >> f; echo n > sub/n; stat -c %u f sub/n`, "theirs4242\n0\n"},
			{"chown and chmod", `chown 4242:4242 sub/n; chmod 640 f; stat -c '%u %a' sub/n f; touch -d @5 f; stat -c %Y f`, "4242 644\n4242 640\n5\n"},
			{"tar keeps owners", `tar cf t.tar sub; mkdir x; tar xpf t.tar -C x --numeric-owner; stat -c '%u %g %a' x/sub x/sub/g`, "4242 4242 700\n4242 4242 600\n"},
			{"cp -a and rm", `cp -a sub y; stat -c %u y/g; rm -r x y`, "4242\n"},
			{"find and chown -R", `mkdir z; touch z/1 z/2; chown -R 4242:4242 z; find z -user 4242 | wc -l`, "3\n"},
		})
		t.Run("npm ci", func(t *testing.T) {
			d := d.at(t)
			npm := d.working("npm", "--version")
			d.Write(filepath.Join(d.W, "n/dep/package.json"), `{"name":"dep","version":"1.0.0","bin":{"dep":"cli.js"}}`)
			d.Write(filepath.Join(d.W, "n/dep/cli.js"), "#!/usr/bin/env node\nconsole.log('dep')\n")
			d.Write(filepath.Join(d.W, "n/package.json"), `{"name":"n","version":"1.0.0","dependencies":{"dep":"file:dep"},"scripts":{"postinstall":"node -e 1","t":"dep"}}`)
			filepath.WalkDir(filepath.Join(d.W, "n"), func(path string, _ os.DirEntry, err error) error { mine(path); return err })
			r := d.bash(with(npm), `cd n; npm install --no-audit --no-fund > /dev/null; npm ci --no-audit --no-fund > /dev/null; npm run -s t`)
			if r.Exit != 0 || r.Stdout != "dep\n" {
				t.Errorf("want dep: %s", r)
			}
		})
	})
}
