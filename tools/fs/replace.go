package fs

import (
	"bytes"
	"context"
	"errors"
	"hash"
	"io"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/dshx/dshx/fsobserve"
	"github.com/dshx/dshx/sandboxpolicy"
	"github.com/dshx/dshx/tools/fs/internal/edit"
	"github.com/dshx/dshx/tools/fs/internal/imagefile"
	"github.com/dshx/dshx/tools/fs/internal/text"
	"golang.org/x/sys/unix"
)

// maxHeld is how much of a file that is to be replaced is held in memory, in
// bytes, for a diff. Of a larger one only the hash is known.
const maxHeld = 8 << 20

// change is one change of a file: the only way in which tools make any.
type change struct {
	use        fsobserve.Use
	createDirs bool
	// whole says that the old content is needed, however large.
	whole bool
	// make gives the new content; old is nil where there is no file. It is
	// called again when the file has changed meanwhile, in a way that matters
	// to nobody.
	make func(old *oldFile) ([]byte, error)
}

// oldFile is the file that a change replaces.
type oldFile struct {
	data  []byte // all of it, unless !held; then the first bytes
	held  bool
	links int
}

// changed is what a change has done.
type changed struct {
	created bool
	state   fsobserve.State
	links   int
}

// errMoved says that the file isn't any more what was looked at.
var errMoved = errors.New("the file is changing")

// change makes the change of w's path: all of it, or none.
func (w *work) change(ch change) (done changed, err error) {
	if w.at.spill {
		return done, w.denied(sandboxpolicy.OpWrite, w.at.real, sandboxpolicy.Rule{Text: "results that were too long are kept as they are", Origin: "preset"}, "write to the workspace")
	}
	// Outside of the domain: the lock file is not for those inside.
	unlock, err := w.observer.Lock(w.ctx, lockName(w.at.real))
	if err != nil {
		return done, w.unlocked(err)
	}
	defer unlock()
	err = w.in.Do(func() (err error) {
		for range maxRaces {
			if done, err = w.tryChange(ch); err != errMoved {
				return err
			}
		}
		return fail("FS_IO_ERROR", nil, "%q keeps changing; try again when nothing else writes to it", w.at.name())
	})
	return done, err
}

// unlocked is the error of a lock that was not to be had; its cause is about the
// lock file, not about w's.
func (w *work) unlocked(err error) error {
	var coded interface{ Code() string }
	if w.ctx.Err() != nil {
		return w.ctx.Err()
	}
	if errors.As(err, &coded) {
		return w.coded(err)
	}
	return fail("FS_IO_ERROR", nil, "%q can't be changed, since changes can't be held apart from those of other processes: %s", w.at.name(), err)
}

// lockName is what every process that changes a file calls it: by the directory
// itself, which may be mounted elsewhere for others.
func lockName(real string) string {
	dir, rest := filepath.Split(real)
	for {
		var st unix.Stat_t
		if unix.Lstat(dir, &st) == nil || dir == "/" {
			return strconv.FormatUint(st.Dev, 16) + ":" + strconv.FormatUint(st.Ino, 16) + "/" + rest
		}
		up, name := filepath.Split(strings.TrimSuffix(dir, "/"))
		dir, rest = up, name+"/"+rest
	}
}

// tryChange is one attempt; errMoved: there may be another.
func (w *work) tryChange(ch change) (done changed, err error) {
	if err := w.ctx.Err(); err != nil {
		return done, err
	}
	if kernelsOwn(w.at.real) {
		return done, w.judge(sandboxpolicy.OpWrite, w.at.real)
	}
	d, err := w.openDir(ch.createDirs)
	if err != nil {
		return done, err
	}
	defer func() { d.close(err == nil) }()
	old, was, err := w.look(d, ch)
	if err != nil {
		return done, err
	}
	var now *fsobserve.State
	op := sandboxpolicy.OpCreate
	if old != nil {
		now, op = &was.state, sandboxpolicy.OpWrite
	}
	if err := w.judge(op, w.at.real); err != nil {
		return done, err
	}
	if err := w.observer.Check(w.call, ch.use, w.at.real, now); err != nil {
		return done, w.unseen(err, old)
	}
	if old == nil && ch.use == fsobserve.Edit {
		w.observer.Missing(w.call, w.at.real)
		return done, w.failed(op, unix.ENOENT)
	}
	data, err := ch.make(old)
	if err != nil {
		return done, err
	}
	done.created, done.links = old == nil, 1
	if old != nil {
		done.links = old.links
	}
	done.state, err = w.put(d, was, data)
	if err == nil {
		w.observer.Observed(w.call, w.at.real, done.state, data)
	}
	return done, err
}

// found is what is there before a change.
type found struct {
	state fsobserve.State
	st    unix.Stat_t
	attrs attributes
}

// look reads the file that is to be changed; nil where there is none.
func (w *work) look(d *dir, ch change) (*oldFile, *found, error) {
	var st unix.Stat_t
	err := unix.Fstatat(d.fd, d.base, &st, unix.AT_SYMLINK_NOFOLLOW)
	if err == unix.ENOENT {
		if w.at.slash {
			return nil, nil, fail("FS_INVALID_PATH", nil, "%q is written as a directory, and there is none; name a file", w.at.name()+"/")
		}
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, w.failed(sandboxpolicy.OpWrite, err)
	}
	switch err := readable(&st); {
	case err == unix.ELOOP:
		return nil, nil, w.again()
	case err != nil:
		return nil, nil, w.failed(sandboxpolicy.OpWrite, err)
	case st.Mode&unix.S_IFMT == unix.S_IFDIR:
		return nil, nil, isDirectory(w.at.name())
	case w.at.slash:
		return nil, nil, w.failed(sandboxpolicy.OpWrite, unix.ENOTDIR)
	}
	if err := w.judge(sandboxpolicy.OpWrite, w.at.real); err != nil {
		return nil, nil, err
	}
	if ch.whole && st.Size > edit.MaxBytes {
		return nil, nil, fail("FS_TOO_LARGE", nil, "%q has %d bytes, more than can be edited; use a command", w.at.name(), st.Size)
	}
	fd, err := retry(func() (int, error) {
		return unix.Openat(d.fd, d.base, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	})
	switch {
	case err == unix.ENOENT:
		return nil, nil, errMoved
	case err == unix.ELOOP:
		return nil, nil, w.again()
	case err != nil:
		return nil, nil, w.failed(sandboxpolicy.OpRead, err)
	}
	defer unix.Close(fd)
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, nil, w.failed(sandboxpolicy.OpRead, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, nil, errMoved // look again, and say what it is
	}
	f := &reading{ctx: w.ctx, fd: fd, hash: fsobserve.NewHash(), size: st.Size}
	old := &oldFile{links: int(st.Nlink), held: ch.whole || st.Size <= maxHeld}
	if old.held {
		old.data, err = f.all(st.Size)
	} else {
		old.data, err = f.skim(16)
	}
	if err != nil {
		return nil, nil, w.failed(sandboxpolicy.OpRead, err)
	}
	was := &found{st: st, state: fsobserve.StateOf(&st, f.read, f.hash.Sum64())}
	if was.attrs, err = readAttributes(fd); err != nil {
		return nil, nil, w.failed(sandboxpolicy.OpRead, err)
	}
	var after unix.Stat_t
	if err := unix.Fstat(fd, &after); err != nil || !untouched(&st, &after) {
		return nil, nil, errMoved // it was written to while it was read
	}
	return old, was, nil
}

// again finds out anew what the path means, since a link has come into it.
func (w *work) again() error {
	at, err := resolve(w.in.Policy(), w.at.said)
	if err != nil {
		return err
	}
	if at.real != w.at.real {
		// The lock that is held is another file's.
		return fail("FS_IO_ERROR", nil, "%q has become a link to something else meanwhile; try again", w.at.name())
	}
	return errMoved
}

// untouched reports that a file is the same and was neither written nor given
// other metadata.
func untouched(a, b *unix.Stat_t) bool {
	return a.Dev == b.Dev && a.Ino == b.Ino && a.Size == b.Size && a.Mtim == b.Mtim && a.Ctim == b.Ctim
}

// unseen makes a refusal of the observer one that says what to do.
func (w *work) unseen(err error, old *oldFile) error {
	var stale *fsobserve.StaleError
	var never *fsobserve.NotObservedError
	switch name := w.at.name(); {
	case errors.As(err, &never):
		if old != nil && old.held && !shows(old.data) {
			return fail(never.Code(), nil, "%q is there and is neither text nor an image, so it can't be read before it is changed; remove it with a command if it is to go", name)
		}
		return fail(never.Code(), nil, "%q is there, and you haven't read it; read it first", name)
	case errors.As(err, &stale):
		what := "has changed since you read it"
		switch {
		case stale.Gone:
			what = "is gone since you read it"
		case stale.Known && stale.Before == nil:
			what = "has appeared since you looked for it"
		}
		e := fail(stale.Code(), nil, "%q %s; read it again before you change it", name, what)
		if !stale.Known || old != nil && !old.held {
			return e
		}
		var now []byte
		if old != nil {
			now = old.data
		}
		diff := w.diff(stale.Before, now, false, old == nil)
		w.say(diff)
		details := struct {
			Changed string `json:"changed"`
		}{diff}
		return fail(stale.Code(), details, "%s", e.Message)
	}
	return w.coded(err)
}

// shows reports a content that read shows.
func shows(data []byte) bool {
	if imagefile.Type(data) != "" {
		return true
	}
	_, err := text.Inspect(bytes.NewReader(data), int64(len(data)))
	return err == nil
}

// put puts data in the place of what was found, or makes the file. The temporary
// file is gone afterwards, whatever happens.
func (w *work) put(d *dir, was *found, data []byte) (s fsobserve.State, err error) {
	name, fd, err := w.temporary(d, was != nil)
	if err != nil {
		return s, err
	}
	defer func() {
		_ = unix.Close(fd)
		if name != "" {
			_ = unix.Unlinkat(d.fd, name, 0)
		}
	}()
	for rest := data; len(rest) > 0; {
		n, err := retry(func() (int, error) { return unix.Write(fd, rest) })
		if err == nil && n == 0 {
			err = unix.EIO
		}
		if err != nil {
			return s, w.failed(sandboxpolicy.OpWrite, err)
		}
		rest = rest[n:]
	}
	if was != nil {
		if err := w.keep(fd, was); err != nil {
			return s, err
		}
	}
	// Before the name is given: after a crash it is the old content or the new.
	if err := w.fsync(fd); err != nil {
		return s, w.failed(sandboxpolicy.OpWrite, err)
	}
	if err := w.ctx.Err(); err != nil {
		return s, err
	}
	switch {
	case was != nil:
		if name == "" {
			if name, err = w.nameTemporary(d, func(name string) error { return w.link(fd, d, name) }); err != nil {
				return s, err
			}
		}
		var now unix.Stat_t
		if err := unix.Fstatat(d.fd, d.base, &now, unix.AT_SYMLINK_NOFOLLOW); err != nil || !untouched(&was.st, &now) {
			return s, errMoved
		}
		err = unix.Renameat(d.fd, name, d.fd, d.base)
	case name == "":
		err = w.link(fd, d, d.base)
	default:
		err = unix.Renameat2(d.fd, name, d.fd, d.base, unix.RENAME_NOREPLACE)
		if err == unix.EINVAL || err == unix.ENOSYS { // the file system can't
			if err = unix.Linkat(d.fd, name, d.fd, d.base, 0); err == nil {
				err = unix.Unlinkat(d.fd, name, 0)
			}
		}
	}
	if was == nil && err == unix.EEXIST {
		return s, errMoved
	}
	if err == unix.ENOENT {
		return s, errMoved // somebody has removed the temporary file, or the directory
	}
	if err != nil {
		return s, w.failed(sandboxpolicy.OpCreate, err)
	}
	name = ""
	// The change is made; that the directory isn't on the disk yet is no reason
	// to say it wasn't.
	_ = w.fsync(d.fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return s, w.failed(sandboxpolicy.OpRead, err)
	}
	return fsobserve.StateOf(&st, int64(len(data)), fsobserve.Hash(data)), nil
}

// fsync waits until a file, or the names in a directory, are on the disk.
func (t *tools) fsync(fd int) error {
	if t.sync != nil {
		return t.sync(fd)
	}
	_, err := retry(func() (int, error) { return 0, unix.Fsync(fd) })
	return err
}

// temporary makes the file that will take the place of another, which nobody
// else may read before it has the other's mode; a new file has its final mode.
// Where the file system can, it has no name: then nothing is left of it, also
// when this process is killed.
func (w *work) temporary(d *dir, replaces bool) (name string, fd int, err error) {
	mode := uint32(0o666)
	if replaces {
		mode = 0o600
	}
	open := func(name string, flags int) error {
		fd, err = retry(func() (int, error) { return unix.Openat(d.fd, name, unix.O_WRONLY|unix.O_CLOEXEC|flags, mode) })
		return err
	}
	if !w.named {
		if open(".", unix.O_TMPFILE) == nil {
			return "", fd, nil
		}
	}
	name, err = w.nameTemporary(d, func(name string) error { return open(name, unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW) })
	return name, fd, err
}

// nameTemporary has make make a file of a name that is free.
func (w *work) nameTemporary(d *dir, make func(name string) error) (string, error) {
	// A person may deny all hidden files.
	prefix := ".dshx-"
	if w.judge(sandboxpolicy.OpCreate, w.beside(prefix)) != nil && w.judge(sandboxpolicy.OpCreate, w.beside(prefix[1:])) == nil {
		prefix = prefix[1:]
	}
	err := error(unix.EEXIST)
	for range 100 {
		name := prefix + randomName()
		if err := w.judge(sandboxpolicy.OpCreate, w.beside(name)); err != nil {
			return "", err
		}
		if err = make(name); err == nil {
			return name, nil
		}
		if err != unix.EEXIST {
			break
		}
	}
	switch err {
	case errMoved:
		return "", err
	case unix.ENOENT:
		return "", errMoved // the directory has been removed
	case unix.EACCES, unix.EPERM, unix.EROFS:
		// Not the file's own mode: that of its directory.
		return "", fail("FS_PERMISSION_DENIED", nil, "%q can't be replaced: nothing can be made in its directory (%s)", w.at.name(), err.Error())
	}
	return "", w.failed(sandboxpolicy.OpCreate, err)
}

// link gives the file of a descriptor a name. Where that can't be done, the
// next attempt begins with a name.
func (w *work) link(fd int, d *dir, name string) error {
	err := unix.Linkat(unix.AT_FDCWD, "/proc/self/fd/"+strconv.Itoa(fd), d.fd, name, unix.AT_SYMLINK_FOLLOW)
	switch err {
	case nil, unix.EEXIST, unix.ENOSPC, unix.EDQUOT, unix.EIO, unix.EINTR, unix.ENAMETOOLONG:
		return err
	}
	w.named = true
	return errMoved
}

// beside is the path of a name in the directory of w's file.
func (w *work) beside(name string) string { return filepath.Join(filepath.Dir(w.at.real), name) }

// dir is the directory of a file that changes, held by descriptor: what is
// judged and what is changed are in the same one, whatever happens to names.
type dir struct {
	fd   int
	base string
	made []madeDir // outermost first
}

type madeDir struct {
	parent int // descriptor, closed with the dir
	name   string
}

// close lets the directory go; unless kept, those that were made for it are
// removed again, as far as they are empty.
func (d *dir) close(keep bool) {
	_ = unix.Close(d.fd)
	for i := len(d.made) - 1; i >= 0; i-- {
		if m := d.made[i]; !keep {
			_ = unix.Unlinkat(m.parent, m.name, unix.AT_REMOVEDIR)
		}
		_ = unix.Close(d.made[i].parent)
	}
}

// openDir opens the directory of w's path, and makes it if that is wanted.
func (w *work) openDir(create bool) (*dir, error) {
	parent, base := filepath.Split(w.at.real)
	if base == "" {
		return nil, isDirectory(w.at.name())
	}
	parent = filepath.Clean(parent)
	at, missing := parent, []string(nil)
	fd, err := openParent(at)
	for err == unix.ENOENT && create && at != "/" {
		missing = append(missing, filepath.Base(at))
		at = filepath.Dir(at)
		fd, err = openParent(at)
	}
	switch {
	case err == unix.ELOOP:
		return nil, w.again()
	case err == unix.ENOENT:
		w.observer.Missing(w.call, w.at.real)
		return nil, fail("FS_NOT_FOUND", nil, "there is no directory %q; set create_dirs, or make it first", text.Valid(shown(w.in.Policy(), parent)))
	case err != nil:
		return nil, w.failed(sandboxpolicy.OpCreate, err)
	}
	d := &dir{fd: fd, base: base}
	if len(missing) == 0 {
		return d, nil
	}
	// Nothing is made for a file that may not be.
	if err := w.judge(sandboxpolicy.OpCreate, w.at.real); err != nil {
		d.close(false)
		return nil, err
	}
	for i := len(missing) - 1; i >= 0; i-- {
		name := missing[i]
		at = filepath.Join(at, name)
		if err := w.makeDir(d, at, name); err != nil {
			d.close(false)
			return nil, err
		}
	}
	return d, nil
}

// makeDir makes a directory in d and goes into it.
func (w *work) makeDir(d *dir, path, name string) error {
	if err := w.judge(sandboxpolicy.OpCreate, path); err != nil {
		return err
	}
	err := unix.Mkdirat(d.fd, name, 0o777)
	if err == unix.ENOENT {
		return errMoved // d has been removed
	}
	if err != nil && err != unix.EEXIST {
		return w.failed(sandboxpolicy.OpCreate, err)
	}
	made := err == nil
	fd, err := retry(func() (int, error) {
		return unix.Openat(d.fd, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	})
	if made {
		d.made = append(d.made, madeDir{d.fd, name})
	}
	if err != nil {
		if made {
			d.fd = -1 // made has it
		}
		if err == unix.ENOENT {
			return errMoved // somebody who made it, too, has removed it
		}
		return w.failed(sandboxpolicy.OpCreate, err)
	}
	if !made {
		_ = unix.Close(d.fd)
	}
	d.fd = fd
	return nil
}

// openParent opens a directory in which something is to be changed, also one
// whose entries the caller may not list.
func openParent(path string) (int, error) {
	fd, err := openReal(path, unix.O_RDONLY|unix.O_DIRECTORY)
	if err == unix.EACCES {
		fd, err = openReal(path, unix.O_PATH|unix.O_DIRECTORY)
	}
	return fd, err
}

// reading reads an open file from its beginning to its end, once, and hashes
// what it reads.
type reading struct {
	ctx  context.Context
	fd   int
	hash hash.Hash64
	size int64 // as it was when the file was opened
	read int64 // bytes so far
}

// ReadAt is io.ReaderAt for a caller who reads from the beginning on; bytes are
// hashed the first time that they come by.
func (f *reading) ReadAt(p []byte, off int64) (n int, err error) {
	for n < len(p) && err == nil {
		if err := f.ctx.Err(); err != nil {
			return n, err
		}
		var k int
		k, err = retry(func() (int, error) { return unix.Pread(f.fd, p[n:min(len(p), n+1<<20)], off+int64(n)) })
		if err == nil && k == 0 {
			err = io.EOF
		}
		if k > 0 {
			if end := off + int64(n+k); off+int64(n) <= f.read && end > f.read {
				_, _ = f.hash.Write(p[n+k-int(end-f.read) : n+k])
				f.read = end
			}
			n += k
		}
	}
	return n, err
}

// all reads the file into memory.
func (f *reading) all(size int64) ([]byte, error) {
	data := make([]byte, size)
	n, err := f.ReadAt(data, 0)
	if err == io.EOF {
		err = nil // it has shrunk
	}
	return data[:n], err
}

// skim reads the file for its hash, and returns its first bytes.
func (f *reading) skim(head int) ([]byte, error) {
	buf := make([]byte, 256<<10)
	var first []byte
	for f.read < f.size {
		n, err := f.ReadAt(buf[:min(int64(len(buf)), f.size-f.read)], f.read)
		if first == nil {
			first = append(first, buf[:min(n, head)]...)
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	return first, nil
}
