package landlock

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/dshx/dshx/sandboxpolicy"
	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

const (
	rightsRead  = uint64(ll.AccessFSReadFile | ll.AccessFSExecute | ll.AccessFSReadDir)
	rightsWrite = rightsRead | ll.AccessFSWriteFile | ll.AccessFSRemoveDir | ll.AccessFSRemoveFile |
		ll.AccessFSMakeDir | ll.AccessFSMakeReg | ll.AccessFSMakeSock | ll.AccessFSMakeFifo |
		ll.AccessFSMakeSym | ll.AccessFSRefer | ll.AccessFSTruncate | ll.AccessFSResolveUnix
	rightsDevice = uint64(ll.AccessFSReadFile | ll.AccessFSWriteFile | ll.AccessFSTruncate | ll.AccessFSIoctlDev)
	// What the kernel accepts for a file that is no directory (EINVAL else).
	rightsFile = uint64(ll.AccessFSReadFile | ll.AccessFSExecute | ll.AccessFSWriteFile | ll.AccessFSTruncate |
		ll.AccessFSIoctlDev | ll.AccessFSResolveUnix)
)

// Ruleset is a Landlock ruleset, ready to be entered.
type Ruleset struct {
	// FD is the ruleset, close-on-exec.
	FD int
	// Rules is how many rules it holds.
	Rules int
	// Missing are paths of the policy that could not be granted since they
	// are not there or can't be opened.
	Missing []string
	// Split are the writable directories that are granted entry by entry,
	// since they hold a secret: nothing new can be made in them directly.
	Split []string
}

// Close closes the ruleset; domains made of it stay.
func (r *Ruleset) Close() error { return unix.Close(r.FD) }

// Build is a ruleset in the making. Most of the work is opening hundreds of
// paths, which several threads can share: each calls Work, which returns when
// nothing is left to begin.
type Build struct {
	p       *sandboxpolicy.Policy
	handled uint64
	split   map[string]sandboxpolicy.Access // directories whose entries must be judged one by one, for which grants

	// linked are denied files that have further names, each of which a rule for
	// the file would open.
	linked map[file]bool

	tasks []task
	next  atomic.Int64
	busy  sync.WaitGroup

	mu  sync.Mutex
	out *Ruleset
	err error
}

// file is an inode.
type file struct{ dev, ino uint64 }

// task is one grant, or with entries the entries of a directory.
type task struct {
	path    string
	rights  uint64
	entries bool
}

// Start begins the ruleset of a policy for a kernel with this ABI.
//
// Errors: what landlock_create_ruleset(2) and landlock_add_rule(2) give.
func Start(p *sandboxpolicy.Policy, abi int) (*Build, error) {
	if abi > Known {
		abi = Known
	}
	b := &Build{p: p, handled: handledFS(abi)}
	a := attr{fs: b.handled}
	if p.Network() == sandboxpolicy.NetworkNone {
		// Sockets that the caller passed in can't be connected anew either.
		a.net = handledNet(abi)
	}
	if abi >= ABIScope {
		// Abstract sockets are scoped by the outer domain alone, so that
		// commands of one policy can talk to each other.
		a.scoped = ll.ScopeSignal
	}
	fd, err := createRuleset(a)
	if err != nil {
		return nil, err
	}
	b.out = &Ruleset{FD: fd}
	if err := b.plan(); err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	return b, nil
}

// Work takes tasks until none is left to begin.
func (b *Build) Work() {
	w := worker{b: b}
	var err error
	for err == nil {
		i := int(b.next.Add(1)) - 1
		if i >= len(b.tasks) {
			break
		}
		err = w.do(b.tasks[i])
	}
	b.merge(&w, err)
}

func (b *Build) merge(w *worker, err error) {
	b.mu.Lock()
	b.out.Rules += w.rules
	b.out.Missing = append(b.out.Missing, w.missing...)
	b.out.Split = append(b.out.Split, w.whole...)
	if b.err == nil {
		b.err = err
	}
	b.mu.Unlock()
}

// Share lets another thread work too.
func (b *Build) Share() {
	b.busy.Add(1)
	go func() { defer b.busy.Done(); b.Work() }()
}

// Finish works until nothing is left, waits for the others, and returns the
// ruleset.
func (b *Build) Finish() (*Ruleset, error) {
	b.Work()
	b.busy.Wait()
	if b.err != nil {
		_ = unix.Close(b.out.FD)
		return nil, b.err
	}
	return b.out, nil
}

// plan grants what is right below the root, and makes tasks of all else.
func (b *Build) plan() error {
	b.splits()
	w := worker{b: b, planning: true}
	// The names in every directory may be listed: a right to read directories
	// can't be taken back from a part of a hierarchy.
	root, err := unix.Open("/", unix.O_PATH|unix.O_CLOEXEC|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer unix.Close(root)
	if err := w.rule(root, ll.AccessFSReadDir); err != nil {
		return err
	}
	for _, r := range b.p.ReadAllow() {
		// A deny wins over what a flag allows below it, too.
		if !b.p.Verdict(sandboxpolicy.OpRead, r.Path).Allow {
			continue
		}
		if r.Path == "/" {
			if err := w.grant(r.Path, rightsRead); err != nil {
				return err
			}
			continue
		}
		b.tasks = append(b.tasks, task{path: r.Path, rights: rightsRead})
	}
	for _, r := range b.p.WriteAllow() {
		if !b.p.Verdict(sandboxpolicy.OpWrite, r.Path).Allow {
			continue
		}
		t := task{path: r.Path, rights: rightsWrite}
		if r.Sink {
			t.rights = rightsDevice
		}
		b.tasks = append(b.tasks, t)
	}
	b.merge(&w, nil)
	return nil
}

// accessOf is what a grant of rights is for; in Build.split the two are a set.
func accessOf(rights uint64) sandboxpolicy.Access {
	if rights&ll.AccessFSMakeReg != 0 {
		return sandboxpolicy.Write
	}
	return sandboxpolicy.Read
}

// splits finds the directories above every deny that is made by leaving it
// out. Grants of reading are split for all denies of reading; grants of
// writing for those of the preset alone (a home given to --write, or dshx's own
// configuration in the workspace): a deny that a person put inside a writable
// root would make the whole root useless, and is reported as a gap instead.
func (b *Build) splits() {
	b.split = make(map[string]sandboxpolicy.Access, 64)
	b.split["/dev"] = sandboxpolicy.Read // a device is named or refused
	b.above("/dev", sandboxpolicy.Read)
	for _, d := range b.p.Deny() {
		if !b.enforceable(&d) {
			continue
		}
		a := d.Access &^ sandboxpolicy.Write
		if d.Rule.Origin == "preset" {
			a |= sandboxpolicy.Write
		}
		switch {
		case d.OneLevel():
			b.split[d.Dir] |= a
			b.above(d.Dir, a)
		case d.Glob: // a gap; see package sandbox
		default:
			b.findLinks(&d)
			b.above(d.Path, a)
			for _, e := range d.Except {
				b.above(e, a)
			}
		}
	}
}

func (b *Build) findLinks(d *sandboxpolicy.PathRule) {
	var st unix.Stat_t
	if !d.File || d.Access&sandboxpolicy.Read == 0 || unix.Lstat(d.Path, &st) != nil || st.Nlink < 2 {
		return
	}
	if b.linked == nil {
		b.linked = map[file]bool{}
	}
	b.linked[file{st.Dev, st.Ino}] = true
}

// isLinked reports that what fd is open on is a denied file by another name.
func (b *Build) isLinked(fd int) bool {
	if b.linked == nil {
		return false
	}
	var st unix.Stat_t
	return unix.Fstat(fd, &st) == nil && b.linked[file{st.Dev, st.Ino}]
}

// enforceable leaves out built-in denies of system files that the mode of the
// file already refuses to this user: an ordinary user is spared a rule for
// every entry of /etc.
func (b *Build) enforceable(d *sandboxpolicy.PathRule) bool {
	if !d.System || unix.Geteuid() == 0 {
		return true
	}
	if !d.Glob {
		return readable(d.Path)
	}
	dir, err := os.Open(d.Dir)
	if err != nil {
		return readable(d.Dir)
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	for _, name := range names {
		path := d.Dir + "/" + name
		if !b.p.Verdict(sandboxpolicy.OpRead, path).Allow && readable(path) {
			return true
		}
	}
	return err != nil
}

// readable reports that the mode of a file doesn't keep this user from it.
func readable(path string) bool {
	err := unix.Faccessat(unix.AT_FDCWD, path, unix.R_OK, unix.AT_EACCESS)
	return !errors.Is(err, unix.EACCES) && !errors.Is(err, unix.ENOENT)
}

func (b *Build) above(path string, a sandboxpolicy.Access) {
	for {
		i := strings.LastIndexByte(path, '/')
		if i < 0 {
			return
		}
		if path = path[:i]; path == "" {
			b.split["/"] |= a
			return
		}
		if b.split[path]&a == a {
			return
		}
		b.split[path] |= a
	}
}

// worker is one thread's part of a Build.
type worker struct {
	b        *Build
	planning bool // split directories become tasks
	rules    int
	missing  []string
	whole    []string // see Ruleset.Split
	free     [][]byte // buffers not in use
}

func (w *worker) do(t task) error {
	switch {
	case t.entries:
		return w.entries(t.path, t.rights)
	case t.rights == rightsDevice:
		return w.device(t.path)
	}
	return w.grant(t.path, t.rights)
}

// grant gives rights on a hierarchy but for what the policy denies in it.
func (w *worker) grant(path string, rights uint64) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		w.missing = append(w.missing, path)
		return nil
	}
	defer unix.Close(fd)
	if w.b.isLinked(fd) {
		return nil
	}
	if w.b.split[path]&accessOf(rights) == 0 {
		return w.rule(fd, rights)
	}
	if rights&ll.AccessFSMakeReg != 0 {
		w.whole = append(w.whole, path)
	}
	return w.entries(path, rights)
}

func within(path, dir string) bool {
	return path == dir || dir == "/" || len(path) > len(dir) && path[len(dir)] == '/' && path[:len(dir)] == dir
}

// entries grants what is in a directory, one by one. This is most of what a
// start costs, so nothing is allocated for an entry, and the calls, none of
// which waits for anything, bypass the Go scheduler.
func (w *worker) entries(dir string, rights uint64) error {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		w.missing = append(w.missing, dir)
		return nil
	}
	defer unix.Close(fd)
	if dir != "/" {
		dir += "/"
	}
	path := append(make([]byte, 0, len(dir)+256), dir...)
	buf := w.buffer()
	defer func() { w.free = append(w.free, buf) }()
	for {
		n, _, e := unix.RawSyscall(unix.SYS_GETDENTS64, uintptr(fd), uintptr(unsafe.Pointer(&buf[0])), uintptr(len(buf)))
		if e != 0 {
			w.missing = append(w.missing, dir)
			return nil
		}
		if n == 0 {
			return nil
		}
		for rest := buf[:n]; len(rest) > 19; {
			// getdents64(2): length at byte 16, type at 18, name from 19 up
			// to a NUL.
			length := int(rest[16]) | int(rest[17])<<8
			if length < 20 || length > len(rest) {
				break
			}
			kind, name := rest[18], rest[19:length]
			rest = rest[length:]
			end := bytes.IndexByte(name, 0)
			if end <= 0 || name[0] == '.' && (end == 1 || end == 2 && name[1] == '.') {
				continue
			}
			if kind == unix.DT_LNK || kind == unix.DT_SOCK {
				continue // a rule is for what a path leads to; sockets are the supervisor's
			}
			path = append(path[:len(dir)], name[:end]...)
			if err := w.entry(fd, &name[0], path, kind, rights); err != nil {
				return err
			}
		}
	}
}

// buffer returns memory for one level of directories, from the heap: on the
// stack it would have to grow, and be copied, for the first one.
func (w *worker) buffer() []byte {
	if n := len(w.free); n > 0 {
		buf := w.free[n-1]
		w.free = w.free[:n-1]
		return buf
	}
	return make([]byte, bufferBytes)
}

// bufferBytes is a variable so that the compiler puts buffers on the heap.
var bufferBytes = 8 << 10

// entry grants one entry of an open directory. name ends with a NUL.
func (w *worker) entry(dir int, name *byte, path []byte, kind byte, rights uint64) error {
	a := accessOf(rights)
	if w.b.split[string(path)]&a != 0 {
		if w.planning {
			w.b.tasks = append(w.b.tasks, task{path: string(path), rights: rights, entries: true})
			return nil
		}
		return w.entries(string(path), rights)
	}
	if w.b.p.Denied(unsafe.String(&path[0], len(path)), a) {
		return nil
	}
	fd, _, e := unix.RawSyscall6(unix.SYS_OPENAT, uintptr(dir), uintptr(unsafe.Pointer(name)), unix.O_PATH|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0, 0, 0)
	if e != 0 {
		return nil // it has gone
	}
	var err error
	if kind == unix.DT_DIR || !w.b.isLinked(int(fd)) {
		err = w.ruleFor(int(fd), kind, rights)
	}
	_, _, _ = unix.RawSyscall(unix.SYS_CLOSE, fd, 0, 0)
	return err
}

// device grants one device for reading and writing, or a directory of them.
func (w *worker) device(path string) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil // containers lack some of them
	}
	defer unix.Close(fd)
	return w.add(fd, rightsDevice)
}

func (w *worker) rule(fd int, rights uint64) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	kind := byte(unix.DT_REG)
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		kind = unix.DT_DIR
	}
	return w.ruleFor(fd, kind, rights)
}

func (w *worker) ruleFor(fd int, kind byte, rights uint64) error {
	switch kind {
	case unix.DT_DIR:
	case unix.DT_UNKNOWN:
		return w.rule(fd, rights)
	default:
		rights &= rightsFile
	}
	return w.add(fd, rights)
}

func (w *worker) add(fd int, rights uint64) error {
	err := addPath(w.b.out.FD, fd, rights&w.b.handled)
	switch err {
	case nil:
		w.rules++
	case unix.EBADFD:
		return nil // an internal file system (a nsfs or pipefs mount): nothing to grant
	}
	return err
}

// addPath allows rights below the file or directory fd.
func addPath(ruleset, fd int, rights uint64) error {
	a := ll.PathBeneathAttr{AllowedAccess: rights, ParentFd: fd}
	_, _, e := unix.RawSyscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset), ll.RuleTypePathBeneath, uintptr(unsafe.Pointer(&a)), 0, 0, 0)
	if e != 0 {
		return e
	}
	return nil
}
