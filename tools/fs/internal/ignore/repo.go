package ignore

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/dshx/dshx/tools/fs/internal/rawfs"
	"golang.org/x/sys/unix"
)

// RulesFile is the name of the rule files in directories.
const RulesFile = ".gitignore"

// A repo is a repository with a work tree. It is safe for concurrent use.
type repo struct {
	gitDir string
	fold   bool
	common []*List // info/exclude, then core.excludesFile: the first that decides
	global Global
	format int // bytes of a hash

	indexOnce sync.Once
	index     trackedSet
}

// openRepo opens the repository whose work tree is top. ok is false where git
// would see no repository either: there is no ".git", or nothing behind it.
func openRepo(top string, global Global) (r *repo, ok bool) {
	gitDir, commonDir, ok := gitDirs(filepath.Join(top, ".git"))
	if !ok {
		return nil, false
	}
	var s settings
	s.readConfig(filepath.Join(commonDir, "config"), global.Home, 0)
	if s.worktreeConfig {
		s.readConfig(filepath.Join(gitDir, "config.worktree"), global.Home, 0)
	}
	r = &repo{gitDir: gitDir, fold: global.IgnoreCase, global: global, format: 20}
	if s.ignoreCase != nil {
		r.fold = *s.ignoreCase
	}
	if s.objectFormat == "sha256" {
		r.format = 32
	}
	if data, err := rawfs.ReadFile(filepath.Join(commonDir, "info/exclude"), true, maxRules); err == nil {
		r.common = append(r.common, Parse(data, r.fold))
	}
	rules := global.Rules
	if s.excludesFile != nil {
		path := *s.excludesFile
		if !filepath.IsAbs(path) && path != "" {
			path = filepath.Join(top, path) // git has changed to the work tree's root
		}
		rules, _ = rawfs.ReadFile(path, true, maxRules)
	}
	r.common = append(r.common, Parse(rules, r.fold))
	return r, true
}

// gitDirs resolves what is called ".git": a directory, or the file of a linked
// worktree or a submodule. commonDir holds what worktrees share.
func gitDirs(dotGit string) (gitDir, commonDir string, ok bool) {
	st, err := os.Stat(dotGit)
	if err != nil {
		return "", "", false
	}
	gitDir = dotGit
	if st.Mode().IsRegular() {
		data, err := rawfs.ReadFile(dotGit, true, maxConfig)
		target, isFile := bytes.CutPrefix(data, []byte("gitdir: "))
		if err != nil || !isFile {
			return "", "", false
		}
		gitDir = strings.TrimRight(string(target), "\r\n")
		if !filepath.IsAbs(gitDir) {
			gitDir = filepath.Join(filepath.Dir(dotGit), gitDir)
		}
	}
	commonDir = gitDir
	if data, err := rawfs.ReadFile(filepath.Join(gitDir, "commondir"), true, maxConfig); err == nil {
		commonDir = strings.TrimRight(string(data), "\r\n")
		if !filepath.IsAbs(commonDir) {
			commonDir = filepath.Join(gitDir, commonDir)
		}
	}
	for _, dir := range []string{"objects", "refs"} {
		if st, err := os.Stat(filepath.Join(commonDir, dir)); err != nil || !st.IsDir() {
			return "", "", false
		}
	}
	return gitDir, commonDir, validHead(filepath.Join(gitDir, "HEAD"))
}

// validHead reports whether HEAD is one: a symbolic link into refs, a
// reference, or a hash.
func validHead(path string) bool {
	if target, err := os.Readlink(path); err == nil {
		return strings.HasPrefix(target, "refs/")
	}
	data, err := rawfs.ReadFile(path, false, maxConfig)
	if err != nil {
		return false
	}
	if target, ok := bytes.CutPrefix(data, []byte("ref:")); ok {
		return bytes.HasPrefix(bytes.TrimLeft(target, " \t\n\v\f\r"), []byte("refs/"))
	}
	hex := 0
	for hex < len(data) && (digit(data[hex]) || 'a' <= lower(data[hex]) && lower(data[hex]) <= 'f') {
		hex++
	}
	return hex >= 40
}

// tracked returns what the index tracks. An index that cannot be read tracks
// nothing.
func (r *repo) tracked() trackedSet {
	r.indexOnce.Do(func() {
		data, err := rawfs.ReadFile(filepath.Join(r.gitDir, "index"), true, maxIndex)
		if err != nil {
			return
		}
		paths, shared, err := parseIndex(data, r.format)
		if err != nil {
			return
		}
		if shared != "" {
			if data, err := rawfs.ReadFile(filepath.Join(r.gitDir, shared), true, maxIndex); err == nil {
				if more, _, err := parseIndex(data, r.format); err == nil {
					paths = merge(paths, more)
				}
			}
		}
		r.index = paths
	})
	return r.index
}

// merge joins two sorted lists.
func merge(a, b []string) []string {
	out := make([]string, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		switch {
		case a[0] < b[0]:
			out, a = append(out, a[0]), a[1:]
		case a[0] > b[0]:
			out, b = append(out, b[0]), b[1:]
		default:
			out, a, b = append(out, a[0]), a[1:], b[1:]
		}
	}
	return append(append(out, a...), b...)
}

// Rules are what is ignored in one directory of a repository. nil ignores
// nothing. They are immutable and safe for concurrent use.
type Rules struct {
	repo  *repo
	lists *level // innermost first
	path  string // of the directory from the repository's root: "" or "a/b/"
	only  bool   // the directory is ignored: only what is tracked is found
}

// A level is the rule file of one directory.
type level struct {
	list *List
	base int // length of the directory's path, with its slash
	up   *level
}

// A Verdict is what git makes of a name.
type Verdict uint8

// The verdicts.
const (
	Found   Verdict = iota // not ignored, or tracked
	Ignored                // neither it nor anything below is found
	Within                 // an ignored directory that holds tracked files
)

// Check judges name in the directory of the rules; dir says that it is a
// directory, which a symbolic link to one isn't. buf is scratch space, kept
// between calls. The name ".git" is not judged here: it is no part of a work
// tree.
func (r *Rules) Check(buf *[]byte, name string, dir bool) Verdict {
	if r == nil {
		return Found
	}
	full := append(append((*buf)[:0], r.path...), name...)
	*buf = full
	if !r.only && !r.ignored(full, name, dir) {
		return Found
	}
	tracked := r.repo.tracked()
	if len(tracked) == 0 {
		return Ignored
	}
	if tracked.has(full) {
		return Found
	}
	if dir {
		full = append(full, '/')
		*buf = full
		if tracked.below(full) {
			return Within
		}
	}
	return Ignored
}

func (r *Rules) ignored(full []byte, name string, dir bool) bool {
	for l := r.lists; l != nil; l = l.up {
		if decided, ignored := l.list.match(full[l.base:], name, dir); decided {
			return ignored
		}
	}
	for _, list := range r.repo.common {
		if list == nil {
			continue
		}
		if decided, ignored := list.match(full, name, dir); decided {
			return ignored
		}
	}
	return false
}

// Enter returns the rules of the directory name, on which Check gave verdict;
// rules is the text of its own rule file, nil when it has none.
func (r *Rules) Enter(name string, verdict Verdict, rules []byte) *Rules {
	if r == nil {
		return nil
	}
	in := &Rules{repo: r.repo, lists: r.lists, path: r.path + name + "/", only: r.only || verdict == Within}
	in.push(rules)
	return in
}

func (r *Rules) push(rules []byte) {
	if len(rules) == 0 || r.only {
		return
	}
	if list := Parse(rules, r.repo.fold); list != nil {
		r.lists = &level{list: list, base: len(r.path), up: r.lists}
	}
}

// Top returns the rules at the root of the repository whose work tree is the
// directory top; ok is false when there is none. rules is the text of its rule
// file, nil when it has none.
func Top(top string, rules []byte, global Global) (r *Rules, ok bool) {
	repo, ok := openRepo(top, global)
	if !ok {
		return nil, false
	}
	r = &Rules{repo: repo}
	r.push(rules)
	return r, true
}

// ReadRules returns the text of the rule file in the directory of descriptor
// dir, nil when there is none. As in git, a symbolic link is none.
func ReadRules(dir int) []byte {
	data, err := rawfs.ReadFileAt(dir, RulesFile, false, maxRules)
	if err != nil {
		return nil
	}
	return data
}

// At returns the rules in the directory dir, an absolute path: those of the
// repository that it lies in, with all rule files from its root down to dir.
// They are nil, so that nothing is ignored, outside of a repository, within
// ".git", and when dir itself is ignored: it was named.
func At(dir string, global Global) *Rules {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real // rules are about places, not about links to them
	}
	top, below := dir, ""
	var st unix.Stat_t
	if unix.Stat(dir, &st) != nil {
		return nil
	}
	for dev := st.Dev; ; {
		if filepath.Base(top) == ".git" {
			return nil
		}
		if repo, ok := openRepo(top, global); ok {
			return repo.at(top, below)
		}
		parent := filepath.Dir(top)
		// git does not look for a repository on another file system.
		if parent == top || unix.Stat(parent, &st) != nil || st.Dev != dev {
			return nil
		}
		below = filepath.Join(filepath.Base(top), below)
		top = parent
	}
}

// at returns the rules in the directory below, relative to the root top.
func (repo *repo) at(top, below string) *Rules {
	read := func(dir string) []byte {
		data, err := rawfs.ReadFile(filepath.Join(dir, RulesFile), false, maxRules)
		if err != nil {
			return nil
		}
		return data
	}
	r := &Rules{repo: repo}
	r.push(read(top))
	if below == "" {
		return r
	}
	var buf []byte
	dir := top
	for name := range strings.SplitSeq(below, "/") {
		dir = filepath.Join(dir, name)
		verdict := r.Check(&buf, name, true)
		if verdict != Found {
			return nil
		}
		r = r.Enter(name, verdict, read(dir))
	}
	return r
}
