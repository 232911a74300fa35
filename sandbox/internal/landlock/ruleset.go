package landlock

import (
	"bytes"
	"errors"
	"strings"
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

// Build makes the ruleset of a policy for a kernel with this ABI.
//
// Errors: what landlock_create_ruleset(2) and landlock_add_rule(2) give.
func Build(p *sandboxpolicy.Policy, abi int) (*Ruleset, error) {
	if abi > Known {
		abi = Known
	}
	b := builder{p: p, handled: handledFS(abi)}
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
	fd, err := createRuleset(a, abi)
	if err != nil {
		return nil, err
	}
	b.out = &Ruleset{FD: fd}
	if err := b.build(); err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	return b.out, nil
}

type builder struct {
	p       *sandboxpolicy.Policy
	handled uint64
	out     *Ruleset
	split   map[string]bool // directories whose entries must be judged one by one
	free    [][]byte        // buffers not in use
}

func (b *builder) build() error {
	b.splits()
	// The names in every directory may be listed: a right to read directories
	// can't be taken back from a part of a hierarchy.
	root, err := unix.Open("/", unix.O_PATH|unix.O_CLOEXEC|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer unix.Close(root)
	if err := b.rule(root, ll.AccessFSReadDir); err != nil {
		return err
	}
	for _, r := range b.p.ReadAllow() {
		if err := b.grant(r.Path, rightsRead, sandboxpolicy.OpRead); err != nil {
			return err
		}
	}
	for _, r := range b.p.WriteAllow() {
		if r.Sink {
			if err := b.device(r.Path); err != nil {
				return err
			}
			continue
		}
		if err := b.grant(r.Path, rightsWrite, sandboxpolicy.OpRead); err != nil {
			return err
		}
	}
	return nil
}

// splits finds the directories above every deny that is made by leaving it
// out.
func (b *builder) splits() {
	b.split = make(map[string]bool, 64)
	b.split["/dev"] = true // a device is named or refused
	b.above("/dev")
	for _, d := range b.p.Deny() {
		if d.Access&sandboxpolicy.Read == 0 || !b.enforceable(&d) {
			continue
		}
		switch {
		case d.OneLevel():
			b.split[d.Dir] = true
			b.above(d.Dir)
		case d.Glob: // a gap; see package sandbox
		default:
			b.above(d.Path)
			for _, e := range d.Except {
				b.above(e)
			}
		}
	}
}

// enforceable leaves out built-in denies of system files that the mode of the
// file already refuses to this user: an ordinary user is spared a rule for
// every entry of /etc.
func (b *builder) enforceable(d *sandboxpolicy.PathRule) bool {
	if !d.System || unix.Geteuid() == 0 {
		return true
	}
	if d.Glob {
		// The pattern's directory decides: its files are root's own.
		var st unix.Stat_t
		return unix.Stat(d.Dir, &st) == nil && st.Uid != 0
	}
	err := unix.Faccessat(unix.AT_FDCWD, d.Path, unix.R_OK, unix.AT_EACCESS)
	return !errors.Is(err, unix.EACCES) && !errors.Is(err, unix.ENOENT)
}

func (b *builder) above(path string) {
	for {
		i := strings.LastIndexByte(path, '/')
		if i < 0 {
			return
		}
		if path = path[:i]; path == "" {
			b.split["/"] = true
			return
		}
		if b.split[path] {
			return
		}
		b.split[path] = true
	}
}

// grant gives rights on a hierarchy but for what the policy denies in it.
func (b *builder) grant(path string, rights uint64, op sandboxpolicy.Op) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		b.out.Missing = append(b.out.Missing, path)
		return nil
	}
	defer unix.Close(fd)
	if !b.split[path] || !b.holdsPreset(path, rights) {
		return b.rule(fd, rights)
	}
	if rights&ll.AccessFSMakeReg != 0 {
		b.out.Split = append(b.out.Split, path)
	}
	return b.entries(path, rights, op)
}

// holdsPreset reports whether a split directory must be granted entry by
// entry. For reading always; for writing only where it holds a secret of the
// preset (a home given to --write): a deny that a person put inside a writable
// root would make the whole root useless, and is reported as a gap instead.
func (b *builder) holdsPreset(path string, rights uint64) bool {
	if rights&ll.AccessFSMakeReg == 0 {
		return true
	}
	for _, d := range b.p.Deny() {
		if d.Rule.Origin != "preset" || d.Access&sandboxpolicy.Read == 0 {
			continue
		}
		at := d.Path
		if d.Glob {
			at = d.Dir
		}
		if within(at, path) {
			return true
		}
	}
	return false
}

func within(path, dir string) bool {
	return path == dir || dir == "/" || len(path) > len(dir) && path[len(dir)] == '/' && path[:len(dir)] == dir
}

// entries grants what is in a directory, one by one. This is most of what a
// start costs, so nothing is allocated for an entry, and the calls, none of
// which waits for anything, bypass the Go scheduler.
func (b *builder) entries(dir string, rights uint64, op sandboxpolicy.Op) error {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		b.out.Missing = append(b.out.Missing, dir)
		return nil
	}
	defer unix.Close(fd)
	if dir != "/" {
		dir += "/"
	}
	path := append(make([]byte, 0, len(dir)+256), dir...)
	buf := b.buffer()
	defer func() { b.free = append(b.free, buf) }()
	for {
		n, _, e := unix.RawSyscall(unix.SYS_GETDENTS64, uintptr(fd), uintptr(unsafe.Pointer(&buf[0])), uintptr(len(buf)))
		if e != 0 {
			b.out.Missing = append(b.out.Missing, dir)
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
			if err := b.entry(fd, &name[0], path, kind, rights, op); err != nil {
				return err
			}
		}
	}
}

// buffer returns memory for one level of directories, from the heap: on the
// stack it would have to grow, and be copied, for the first one.
func (b *builder) buffer() []byte {
	if n := len(b.free); n > 0 {
		buf := b.free[n-1]
		b.free = b.free[:n-1]
		return buf
	}
	return make([]byte, bufferBytes)
}

// bufferBytes is a variable so that the compiler puts buffers on the heap.
var bufferBytes = 8 << 10

// entry grants one entry of an open directory. name ends with a NUL.
func (b *builder) entry(dir int, name *byte, path []byte, kind byte, rights uint64, op sandboxpolicy.Op) error {
	if b.split[string(path)] {
		return b.entries(string(path), rights, op)
	}
	if !b.p.Verdict(op, unsafe.String(&path[0], len(path))).Allow {
		return nil
	}
	fd, _, e := unix.RawSyscall6(unix.SYS_OPENAT, uintptr(dir), uintptr(unsafe.Pointer(name)), unix.O_PATH|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0, 0, 0)
	if e != 0 {
		return nil // it has gone
	}
	err := b.ruleFor(int(fd), kind, rights)
	_, _, _ = unix.RawSyscall(unix.SYS_CLOSE, fd, 0, 0)
	return err
}

// device grants one device for reading and writing, or a directory of them.
func (b *builder) device(path string) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil // containers lack some of them
	}
	defer unix.Close(fd)
	return b.add(fd, rightsDevice)
}

func (b *builder) rule(fd int, rights uint64) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	kind := byte(unix.DT_REG)
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		kind = unix.DT_DIR
	}
	return b.ruleFor(fd, kind, rights)
}

func (b *builder) ruleFor(fd int, kind byte, rights uint64) error {
	switch kind {
	case unix.DT_DIR:
	case unix.DT_UNKNOWN:
		return b.rule(fd, rights)
	default:
		rights &= rightsFile
	}
	return b.add(fd, rights)
}

func (b *builder) add(fd int, rights uint64) error {
	rights &= b.handled
	a := ll.PathBeneathAttr{AllowedAccess: rights, ParentFd: fd}
	_, _, e := unix.RawSyscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(b.out.FD), ll.RuleTypePathBeneath, uintptr(unsafe.Pointer(&a)), 0, 0, 0)
	switch e {
	case 0:
		b.out.Rules++
		return nil
	case unix.EBADFD:
		return nil // an internal file system (a nsfs or pipefs mount): nothing to grant
	}
	return e
}
