package sandboxpolicy

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func gitDirFiles(dir string) map[string]string {
	return map[string]string{dir + "/HEAD": "ref: refs/heads/main\n", dir + "/objects": "dir", dir + "/refs": "dir", dir + "/logs": "dir", dir + "/config": "[core]\n", dir + "/hooks": "dir"}
}

func merge(maps ...map[string]string) map[string]string {
	out := map[string]string{}
	for _, m := range maps {
		for k, v := range m {
			out[k] = v
		}
	}
	return out
}

func worktree(common, name, ptr, back, commondir string) map[string]string {
	admin := common + "/worktrees/" + name
	return merge(gitDirFiles(common), map[string]string{
		admin + "/HEAD": "x", admin + "/index": "x", admin + "/gitdir": back + "\n", admin + "/commondir": commondir + "\n",
		common + "/worktrees/other/HEAD": "x",
		"/home/u/w/.git":                 "gitdir: " + ptr + "\n",
	})
}

func TestGit_LinkedWorktree(t *testing.T) {
	const common = "/o/main/.git"
	for name, files := range map[string]map[string]string{
		"absolute pointers": worktree(common, "w", common+"/worktrees/w", "/home/u/w/.git", "../.."),
		"relative pointers": worktree(common, "w", "../../../o/main/.git/worktrees/w", "../../../../../home/u/w/.git", "../.."),
		"absolute common":   worktree(common, "w", common+"/worktrees/w", "/home/u/w/.git", common),
		"through a link":    merge(worktree(common, "w", "/l/worktrees/w", "/home/u/w/.git", "../.."), map[string]string{"/l": "link:/o/main/.git"}),
		"with CRLF":         worktree(common, "w", common+"/worktrees/w\r", "/home/u/w/.git\r", "../..\r"),
	} {
		t.Run(name, func(t *testing.T) {
			p, n := resolve(t, newFake(files), Request{})
			if len(n) != 0 {
				t.Errorf("notices %v", n)
			}
			g := p.GitDirs()
			if len(g) != 1 || g[0].Kind != "worktree" || g[0].Path != common+"/worktrees/w" || g[0].Common != common || gitTrees(p) != 4 {
				t.Fatalf("git dirs %+v", g)
			}
			for _, s := range []string{"/objects/aa/b", "/refs/heads/x", "/logs/refs/heads/x", "/worktrees/w/index.lock", "/worktrees/w/HEAD", "/worktrees/w/logs/HEAD"} {
				wantVerdict(t, p, OpCreate, common+s, true, "git directory")
			}
			for _, s := range []string{"/config", "/config.lock", "/hooks/pre-commit", "/HEAD", "/packed-refs/x", "/packed-refs.lock.lock", "/packed-refs-", "/x/packed-refs", "/info/attributes", "/worktrees/other/HEAD", "/worktrees/other/index"} {
				wantVerdict(t, p, OpWrite, common+s, false, "outside")
			}
			for _, s := range []string{"/packed-refs", "/packed-refs.lock", "/packed-refs.new"} {
				for _, op := range []Op{OpWrite, OpCreate, OpDelete, OpRename, OpChmod} {
					wantVerdict(t, p, op, common+s, true, "refs")
				}
				for _, op := range []Op{OpLink, OpBind, OpTruncate, OpConnect} {
					wantVerdict(t, p, op, common+s, false, "")
				}
				if !p.ByName(OpCreate, common+s) || p.ByName(OpRead, common+s) {
					t.Errorf("ByName of %s", s)
				}
			}
			if p.ByName(OpCreate, common+"/refs/x") || p.ByName(OpCreate, common+"/config") || g[0].Tree != "" {
				t.Error("more is granted by name than names")
			}
			for _, s := range []string{"/worktrees/w/commondir", "/worktrees/w/gitdir", "/worktrees/w/config.worktree", "/worktrees/w/modules/s/config"} {
				wantVerdict(t, p, OpWrite, common+s, false, "protected")
			}
			wantVerdict(t, p, OpWrite, "/home/u/w/.git", false, "protected .git")
			wantVerdict(t, p, OpRead, common+"/config", true, "")
			ro, _ := resolve(t, newFake(files), Request{Preset: "read-only"})
			if len(ro.GitDirs()) != 0 {
				t.Error("read-only grants a git directory")
			}
			wantVerdict(t, ro, OpWrite, common+"/objects/x", false, "outside")
		})
	}
}

// gitTrees is how many directories of git directories are writable.
func gitTrees(p *Policy) (n int) {
	for _, w := range p.WriteAllow() {
		if w.why == whyGit {
			n++
		}
	}
	return n
}

// A bare repository has no logs until the first linked worktree commits.
func TestGit_LogsThatAreMissing(t *testing.T) {
	const common = "/o/main.git"
	files := worktree(common, "w", common+"/worktrees/w", "/home/u/w/.git", "../..")
	delete(files, common+"/logs")
	p, _ := resolve(t, newFake(files), Request{})
	if g := p.GitDirs(); len(g) != 1 || g[0].Tree != "logs" || gitTrees(p) != 3 {
		t.Fatalf("git dirs %+v", p.GitDirs())
	}
	wantVerdict(t, p, OpCreate, common+"/logs", true, "refs")
	for _, s := range []string{"/logs/refs", "/logs/refs/heads/x", "/logs/HEAD"} {
		for _, op := range []Op{OpWrite, OpCreate, OpDelete, OpRename, OpUtime} {
			wantVerdict(t, p, op, common+s, true, "refs")
		}
	}
	wantVerdict(t, p, OpChmod, common+"/logs", true, "refs")
	wantVerdict(t, p, OpDelete, common+"/logs", false, "outside")
	wantVerdict(t, p, OpRename, common+"/logs", false, "outside")
	wantVerdict(t, p, OpCreate, common+"/logs2", false, "outside")
	wantVerdict(t, p, OpCreate, common+"/logs/../config", false, "outside")
	// A deny goes before.
	p, _ = resolve(t, newFake(files), Request{DenyWrite: []string{common + "/logs"}})
	wantVerdict(t, p, OpCreate, common+"/logs/x", false, "")
}

func TestGit_Submodule(t *testing.T) {
	const dir = "/o/super/.git/modules/a/b"
	files := func(config string) map[string]string {
		return merge(gitDirFiles(dir), map[string]string{"/home/u/w/.git": "gitdir: ../../../o/super/.git/modules/a/b\n", dir + "/config": config})
	}
	for name, config := range map[string]string{
		"relative": "[core]\n\trepositoryformatversion = 0\n\tworktree = ../../../../../../home/u/w\n[remote \"origin\"]\n\turl = x\n",
		"absolute": "[CORE] WorkTree = \"/home/u/w\" ; here\n",
		"last one": "[core]\nworktree = /elsewhere\n[core]\nworktree = /home/u/w\n",
	} {
		t.Run(name, func(t *testing.T) {
			p, n := resolve(t, newFake(files(config)), Request{})
			if g := p.GitDirs(); len(n) != 0 || len(g) != 1 || g[0].Kind != "submodule" || g[0].Path != dir || g[0].Common != dir {
				t.Fatalf("git dirs %+v, notices %v", p.GitDirs(), n)
			}
			for _, s := range []string{"/index.lock", "/objects/x", "/HEAD", "/refs/heads/hooks/x", "/modules/n/index"} {
				wantVerdict(t, p, OpWrite, dir+s, true, "git directory")
			}
			for _, s := range []string{"/config", "/hooks/x", "/config.worktree", "/info/attributes", "/commondir", "/modules/n/config"} {
				wantVerdict(t, p, OpWrite, dir+s, false, "protected")
			}
			wantVerdict(t, p, OpWrite, "/o/super/.git/config", false, "outside")
		})
	}
	for name, config := range map[string]string{
		"elsewhere": "[core]\nworktree = /home/u/other\n",
		"none":      "[core]\nbare = false\n",
		"section":   "[core \"x\"]\nworktree = /home/u/w\n[corey]\nworktree=/home/u/w\n",
	} {
		t.Run("ungenuine "+name, func(t *testing.T) {
			p, n := resolve(t, newFake(files(config)), Request{})
			if len(p.GitDirs()) != 0 || !hasNotice(n, NoticePointerIgnored, "back") {
				t.Errorf("git dirs %+v, notices %v", p.GitDirs(), n)
			}
			wantVerdict(t, p, OpWrite, dir+"/index", false, "outside")
		})
	}
	f := newFake(merge(files("[core]\n"), map[string]string{dir + "/config.worktree": "[core]\nworktree = /home/u/w\n"}))
	if p, _ := resolve(t, f, Request{}); len(p.GitDirs()) != 1 {
		t.Error("core.worktree in config.worktree was not read")
	}
}

func TestGit_UngenuinePointersGrantNothing(t *testing.T) {
	const common = "/o/main/.git"
	good := worktree(common, "w", common+"/worktrees/w", "/home/u/w/.git", "../..")
	for name, files := range map[string]map[string]string{
		"a directory of keys":     {"/home/u/w/.git": "gitdir: /home/u/.ssh\n", "/home/u/.ssh/id": "k"},
		"nothing":                 {"/home/u/w/.git": "gitdir: /nowhere\n"},
		"no pointer":              {"/home/u/w/.git": "hello\n"},
		"NUL":                     {"/home/u/w/.git": "gitdir: /o\x00\n"},
		"back pointer elsewhere":  merge(good, map[string]string{common + "/worktrees/w/gitdir": "/home/u/other/.git\n"}),
		"no back pointer":         merge(good, map[string]string{common + "/worktrees/w/gitdir": "dir"}),
		"common is no repository": merge(good, map[string]string{common + "/HEAD": "link:/gone", common + "/worktrees/w/commondir": "/home/u\n"}),
		"admin made by hand": merge(gitDirFiles(common), map[string]string{"/home/u/w/.git": "gitdir: adm\n", "/home/u/w/adm/HEAD": "x",
			"/home/u/w/adm/gitdir": "/home/u/w/.git\n", "/home/u/w/adm/commondir": common + "\n"}),
		"admin made by hand outside": merge(gitDirFiles(common), map[string]string{"/home/u/w/.git": "gitdir: /tmp/adm\n", "/tmp/adm/HEAD": "x",
			"/tmp/adm/gitdir": "/home/u/w/.git\n", "/tmp/adm/commondir": common + "\n"}),
		"commondir in an ordinary .git": merge(gitDirFiles("/home/u/w/.git"), gitDirFiles(common), map[string]string{"/home/u/w/.git/commondir": common + "\n"}),
		"objects is a link out":         merge(gitDirFiles("/home/u/w/.git"), map[string]string{"/home/u/w/.git/objects": "link:/home/u/.ssh", "/home/u/.ssh/id": "k"}),
		".git is a link out":            merge(gitDirFiles(common), map[string]string{"/home/u/w/.git": "link:" + common}),
	} {
		t.Run(name, func(t *testing.T) {
			p, n := resolve(t, newFake(files), Request{})
			if len(p.GitDirs()) != 0 || !hasNotice(n, NoticePointerIgnored, "") {
				t.Errorf("git dirs %+v, notices %v", p.GitDirs(), n)
			}
			for _, s := range []string{common + "/objects/x", common + "/worktrees/w/index", "/home/u/x", "/home/u/.ssh/x", "/tmp/adm/x", "/home/u/objects/x"} {
				wantVerdict(t, p, OpWrite, s, false, "")
			}
			wantVerdict(t, p, OpRead, "/home/u/.ssh/id", false, "secret")
		})
	}
	// A link below a genuine common directory grants nothing behind it.
	p, n := resolve(t, newFake(merge(good, map[string]string{common + "/objects": "link:/home/u/keep", "/home/u/keep": "dir"})), Request{})
	if len(p.GitDirs()) != 1 || !hasNotice(n, NoticePointerIgnored, "objects") {
		t.Errorf("git dirs %+v, notices %v", p.GitDirs(), n)
	}
	wantVerdict(t, p, OpWrite, "/home/u/keep/x", false, "outside")
	wantVerdict(t, p, OpWrite, common+"/refs/x", true, "")
}

func TestGit_InsideTheWorkspace(t *testing.T) {
	f := newFake(merge(gitDirFiles("/home/u/w/real"), map[string]string{"/home/u/w/.git": "gitdir: real\n"}))
	p, n := resolve(t, f, Request{})
	wantVerdict(t, p, OpWrite, "/home/u/w/real/config", false, "protected .git/config")
	wantVerdict(t, p, OpWrite, "/home/u/w/real/hooks/x", false, "protected .git/hooks")
	wantVerdict(t, p, OpWrite, "/home/u/w/real/index", true, "workspace")
	wantVerdict(t, p, OpRename, "/home/u/w/real", false, "protected")
	if len(n) != 0 {
		t.Errorf("notices %v", n)
	}

	f = newFake(merge(gitDirFiles("/home/u/w/.git"), map[string]string{"/home/u/w/.git/hooks": "link:../tools/hooks", "/home/u/w/tools/hooks/pre-commit": "x"}))
	p, _ = resolve(t, f, Request{})
	wantVerdict(t, p, OpWrite, "/home/u/w/tools/hooks/pre-commit", false, "protected .git/hooks")
	wantVerdict(t, p, OpWrite, "/home/u/w/tools/x", true, "workspace")
	wantVerdict(t, p, OpDelete, "/home/u/w/.git/hooks", false, "protected")

	f = newFake(merge(gitDirFiles("/home/u/w")))
	p, _ = resolve(t, f, Request{})
	wantVerdict(t, p, OpWrite, "/home/u/w/config", false, "protected .git/config")
	wantVerdict(t, p, OpWrite, "/home/u/w/objects/x", true, "workspace")
}

// TestGit_RealRepositories holds the pointers that git itself writes against
// the check.
func TestGit_RealRepositories(t *testing.T) {
	git, err := exec.LookPath("git")
	if err != nil {
		if os.Getenv("DSHX_REQUIRE_KERNEL") == "1" {
			t.Fatal("git is not installed")
		}
		t.Skip("git is not installed")
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	run := func(in string, args ...string) {
		t.Helper()
		cmd := exec.Command(git, append([]string{"-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "protocol.file.allow=always", "-c", "commit.gpgsign=false"}, args...)...)
		cmd.Dir = in
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	run(dir, "init", "-q", "main")
	run(dir+"/main", "commit", "-q", "--allow-empty", "-m", "x")
	run(dir+"/main", "worktree", "add", "-q", "../wt")
	run(dir, "clone", "-q", "--bare", "main", "bare.git")
	run(dir+"/bare.git", "worktree", "add", "-q", "../wtbare", "-b", "b")
	run(dir, "init", "-q", "super")
	run(dir+"/super", "submodule", "add", "-q", dir+"/main", "sub")
	run(dir, "init", "-q", "--separate-git-dir", "sepdir", "sep")
	for _, tt := range []struct {
		ws, path, kind string
	}{
		{"wt", "main/.git/worktrees/wt", "worktree"},
		{"wtbare", "bare.git/worktrees/wtbare", "worktree"},
		{"super/sub", "super/.git/modules/sub", "submodule"},
		{"main", "", ""},
		{"sep", "", ""},
	} {
		p, n, err := Resolve(Request{Workspace: dir + "/" + tt.ws, Environ: []string{"HOME=" + dir + "/home"}, NoConfig: true, Cwd: dir}, OSFacts{})
		if err != nil {
			t.Fatalf("%s: %v", tt.ws, err)
		}
		switch g := p.GitDirs(); {
		case tt.kind == "" && len(g) != 0, tt.kind != "" && (len(g) != 1 || g[0].Kind != tt.kind || g[0].Path != dir+"/"+tt.path):
			t.Errorf("%s: git dirs %+v, notices %v", tt.ws, g, n)
		}
		if noted := hasNotice(n, NoticePointerIgnored, ""); noted != (tt.ws == "sep") {
			t.Errorf("%s: notices %v", tt.ws, n)
		}
	}
}
