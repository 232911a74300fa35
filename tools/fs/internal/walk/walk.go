package walk

import (
	"context"
	"io/fs"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dshx/dshx/tools/fs/internal/glob"
	"github.com/dshx/dshx/tools/fs/internal/ignore"
	"github.com/dshx/dshx/tools/fs/internal/rawfs"
	"golang.org/x/sys/unix"
)

// maxDepth is how many levels are entered at most: a file system that is a
// program can be endless.
const maxDepth = 4096

// bufferSize is for one call of getdents: some 1,500 entries.
const bufferSize = 48 << 10

// Walk reads a tree.
//
// Errors: ctx's, or a *fs.PathError when the root cannot be opened or is no
// directory (ENOTDIR). What cannot be read below is counted, not an error.
func Walk(ctx context.Context, run Run, o Options) (*Tree, error) {
	w := New(ctx, o)
	defer w.Close()
	run(w.Workers(), w.Work)
	return w.Tree()
}

// A Walker is a walk whose workers do more than walk: each calls Work, and has
// the whole tree when it returns.
type Walker struct {
	ctx    context.Context
	o      Options
	forget func() bool // ends the watch on ctx

	stopped atomic.Bool

	mu      sync.Mutex
	cond    sync.Cond
	begun   bool   // somebody opens, or has opened, the root
	ready   []*dir // to be read, last first
	busy    int    // workers that read a directory now
	done    bool
	err     error
	root    int // descriptor, -1 before it is open
	tree    Tree
	omitted Omitted
}

// work is what is known of a directory before it is read.
type work struct {
	name    string
	depth   int // of the directory's entries: 1 for the root's
	rules   *ignore.Rules
	verdict ignore.Verdict
	free    bool // spelled out by a pattern: no rules but those of repositories below
	include glob.State
	exclude glob.State
}

// New prepares a walk; Close must be called when its workers have returned.
func New(ctx context.Context, o Options) *Walker {
	if o.Workers <= 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	if o.Types == 0 {
		o.Types = All
	}
	w := &Walker{ctx: ctx, o: o, root: -1}
	w.cond.L = &w.mu
	// It runs on a goroutine of its own, which touches no file.
	w.forget = context.AfterFunc(ctx, w.stop)
	return w
}

// Workers is the number of workers to run.
func (w *Walker) Workers() int { return w.o.Workers }

// Stopped reports whether the walk's context has ended.
func (w *Walker) Stopped() bool { return w.stopped.Load() }

// Root is the descriptor of the root, valid from Work's return to Close; -1
// when it could not be opened.
func (w *Walker) Root() int { return w.root }

// Tree returns the result, after Work has returned.
func (w *Walker) Tree() (*Tree, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.ctx.Err(); err != nil {
		return nil, err
	}
	if w.err != nil {
		return nil, w.err
	}
	w.tree.omitted = w.omitted
	return &w.tree, nil
}

// Close releases the root's descriptor.
func (w *Walker) Close() {
	w.forget()
	if w.root >= 0 {
		unix.Close(w.root)
		w.root = -1
	}
}

func (w *Walker) stop() {
	w.stopped.Store(true)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.done = true
	w.cond.Broadcast()
}

// Work takes part in the walk until all of it is done, or its context ends.
// The index is not used.
func (w *Walker) Work(int) {
	r := reader{w: w, buf: make([]byte, bufferSize)}
	// A worker that panics must not leave the others waiting for its directory.
	defer func() {
		if !r.finished {
			w.stop()
		}
	}()
	w.mu.Lock()
	if !w.begun {
		w.begun = true
		w.busy++
		w.mu.Unlock()
		d, err := w.open()
		w.mu.Lock()
		w.busy--
		if err != nil {
			w.err, w.done = err, true
		} else {
			w.tree.top = d
			w.ready = append(w.ready, d)
		}
		w.cond.Broadcast()
	}
	for !w.done {
		n := len(w.ready)
		if n == 0 {
			if w.busy == 0 {
				w.done = true
				w.cond.Broadcast()
				break
			}
			w.cond.Wait()
			continue
		}
		d := w.ready[n-1]
		w.ready[n-1] = nil
		w.ready = w.ready[:n-1]
		w.busy++
		w.mu.Unlock()
		r.read(d)
		w.mu.Lock()
		w.busy--
		// Before it is known that this was the last directory: the first worker
		// that returns may ask for the tree.
		w.omitted.Ignored += r.omitted.Ignored
		w.omitted.Denied += r.omitted.Denied
		w.tree.count += r.count
		r.omitted, r.count = Omitted{}, 0
		w.ready = append(w.ready, r.below...)
		if len(r.below) > 1 || len(w.ready) == 0 && w.busy == 0 {
			w.cond.Broadcast()
		}
		r.below = r.below[:0]
	}
	r.finished = true
	w.mu.Unlock()
}

// open opens the root and finds the rules there.
func (w *Walker) open() (*dir, error) {
	for {
		fd, err := unix.Open(w.o.Root, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err == nil {
			w.root = fd
			break
		}
		if err != unix.EINTR {
			return nil, &fs.PathError{Op: "open", Path: w.o.Root, Err: err}
		}
	}
	k := &work{depth: 1}
	if !w.o.Ignored {
		k.rules = ignore.At(w.o.Root, w.o.Global)
	}
	if w.o.Include != nil {
		k.include = w.o.Include.Start()
	}
	if w.o.Exclude != nil {
		k.exclude = w.o.Exclude.Start()
	}
	return &dir{work: k}, nil
}

// A reader is what one worker needs.
type reader struct {
	w        *Walker
	buf      []byte
	names    []byte // of the directory that is read, one after the other
	raw      []raw
	path     []byte // scratch space for rules
	below    []*dir
	omitted  Omitted
	count    int
	finished bool
}

// A raw is an entry as the kernel tells it: where its name ends, and its type.
type raw struct {
	end  int
	kind Type
}

// read reads a directory and leaves those to be read next in r.below.
func (r *reader) read(d *dir) {
	w, k := r.w, d.work
	d.work = nil
	fd, crossed, err := rawfs.OpenDir(w.root, strings.TrimSuffix(d.path, "/"))
	if err != nil {
		// What is gone, or has become something else, is no directory to omit.
		if err != unix.ENOENT && err != unix.ENOTDIR && err != unix.ELOOP {
			r.omitted.Denied++
		}
		return
	}
	defer unix.Close(fd)
	if crossed && kernelsOwn(fd) {
		return
	}
	r.names, r.raw = r.names[:0], r.raw[:0]
	var hasRules, hasGit bool
	for !w.stopped.Load() {
		n, err := rawfs.Entries(fd, r.buf, func(name []byte, kind Type) {
			hasRules = hasRules || string(name) == ignore.RulesFile
			hasGit = hasGit || string(name) == ".git"
			r.names = append(r.names, name...)
			r.raw = append(r.raw, raw{len(r.names), kind})
		})
		if err != nil {
			r.omitted.Denied++
			break
		}
		if n == 0 {
			break
		}
	}
	rules, free := k.rules, k.free
	if !w.o.Ignored && d.path != "" {
		var text []byte
		if hasRules && (hasGit || rules != nil && !free) {
			text = ignore.ReadRules(fd)
		}
		switch top, ok := r.nested(d, hasGit, text); {
		case ok:
			rules, free = top, false
		case free:
			rules = nil
		default:
			rules = rules.Enter(k.name, k.verdict, text)
		}
	}
	names := string(r.names)
	from := 0
	for i, e := range r.raw {
		// Other users may write the tree: a directory of millions of entries
		// must not hold up a cancelled walk.
		if i%1024 == 1023 && w.stopped.Load() {
			return
		}
		name := names[from:e.end]
		from = e.end
		r.entry(d, k, rules, free, fd, name, e.kind)
	}
	slices.SortFunc(d.items, func(a, b item) int { return strings.Compare(a.name, b.name) })
}

// nested returns the rules of a repository whose root d is.
func (r *reader) nested(d *dir, hasGit bool, text []byte) (*ignore.Rules, bool) {
	if !hasGit {
		return nil, false
	}
	return ignore.Top(filepath.Join(r.w.o.Root, d.path), text, r.w.o.Global)
}

// entry judges one entry of d.
func (r *reader) entry(d *dir, k *work, rules *ignore.Rules, free bool, fd int, name string, kind Type) {
	o := &r.w.o
	match, outright := true, false
	if o.Include != nil {
		match, outright = o.Include.Name(k.include, name, o.Hidden)
	} else if !o.Hidden && name[0] == '.' {
		return
	}
	if name == ".git" && !o.Ignored && !outright {
		return
	}
	if kind == rawfs.Unknown {
		var st unix.Stat_t
		if err := unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			if err != unix.ENOENT {
				r.omitted.Denied++
			}
			return
		}
		kind = rawfs.TypeOf(st.Mode)
	}
	// A directory is worth entering when something below may match.
	var include glob.State
	enter := kind == Directory && (o.Depth == 0 || k.depth < o.Depth) && k.depth < maxDepth
	if enter && o.Include != nil {
		include = o.Include.Enter(k.include, name, o.Hidden)
		enter = len(include) > 0
	}
	keep := match && o.Types&(1<<kind) != 0
	if !keep && !enter {
		return
	}
	if o.Exclude != nil {
		if out, _ := o.Exclude.Name(k.exclude, name, true); out {
			return
		}
	}
	verdict := rules.Check(&r.path, name, kind == Directory)
	free = free || outright && (verdict != ignore.Found || name == ".git")
	if verdict == ignore.Ignored && !outright {
		r.omitted.Ignored++
		return
	}
	if dir := kind == Directory; o.Refuse != nil && (enter || keep && !dir) && o.Refuse(d.path+name, dir) {
		r.omitted.Denied++
		if enter = false; !dir {
			keep = false
		}
	}
	if keep {
		it := item{name: name, kind: kind}
		if o.Stat {
			it.info = r.stat(fd, name)
		}
		d.items = append(d.items, it)
		r.count++
	}
	if !enter {
		return
	}
	next := &work{name: name, depth: k.depth + 1, rules: rules, verdict: verdict, free: free, include: include}
	if o.Exclude != nil {
		next.exclude = o.Exclude.Enter(k.exclude, name, true)
	}
	sub := &dir{path: d.path + name + "/", work: next}
	d.items = append(d.items, item{name: sub.path[len(d.path):], kind: Directory, sub: sub})
	r.below = append(r.below, sub)
}

// stat fills in an entry's details.
func (r *reader) stat(fd int, name string) *Info {
	info := new(Info)
	var st unix.Stat_t
	if unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return info
	}
	*info = Info{Size: st.Size, Mode: st.Mode, ModTime: time.Unix(st.Mtim.Unix())}
	if rawfs.TypeOf(st.Mode) == Symlink {
		target := make([]byte, unix.PathMax)
		if n, err := unix.Readlinkat(fd, name, target); err == nil {
			info.Target = string(target[:n])
		}
	}
	return info
}

// kernelsOwn reports whether the directory fd is on a file system that is no
// store of files but a face of the kernel: reading there can block, have
// effects, or never end.
func kernelsOwn(fd int) bool {
	var st unix.Statfs_t
	if unix.Fstatfs(fd, &st) != nil {
		return false
	}
	switch uint64(uint32(st.Type)) {
	case unix.PROC_SUPER_MAGIC, unix.SYSFS_MAGIC, unix.DEBUGFS_MAGIC, unix.TRACEFS_MAGIC,
		unix.CGROUP_SUPER_MAGIC, unix.CGROUP2_SUPER_MAGIC, unix.SECURITYFS_MAGIC, unix.BPF_FS_MAGIC,
		unix.PSTOREFS_MAGIC, unix.EFIVARFS_MAGIC, unix.SELINUX_MAGIC, unix.SMACK_MAGIC,
		unix.DEVPTS_SUPER_MAGIC, unix.NSFS_MAGIC, unix.BINFMTFS_MAGIC,
		configfs, fusectl, autofs, mqueue:
		return true
	}
	return false
}

// Numbers that unix does not have, from linux/magic.h and the file systems'
// own sources.
const (
	configfs = 0x62656570
	fusectl  = 0x65735543
	autofs   = 0x0187
	mqueue   = 0x19800202
)
