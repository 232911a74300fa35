package jobs

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
)

// directory is Options.Dir, held open, so that whatever becomes of its name
// no file is made or removed elsewhere.
type directory struct {
	root *os.Root
	path string // to be removed at the end; "" if it was there before
	end  func() error

	prefix uint64 // of the names of files
	last   atomic.Uint64
}

func openDirectory(path string) (*directory, error) {
	d := &directory{prefix: rand.Uint64()}
	switch err := os.Mkdir(path, 0o700); {
	case err == nil:
		d.path = path
	case !errors.Is(err, fs.ErrExist):
		return nil, err
	}
	fail := func(err error) (*directory, error) {
		if d.root != nil {
			_ = d.root.Close()
		}
		if d.path != "" {
			_ = os.Remove(path)
		}
		return nil, err
	}
	named, err := os.Lstat(path)
	if err != nil {
		return fail(err)
	}
	if d.root, err = os.OpenRoot(path); err != nil {
		return fail(err)
	}
	opened, err := d.root.Stat(".")
	if err != nil {
		return fail(err)
	}
	// A link that somebody put there could point to a private directory of
	// the user's that is not meant for this.
	if !os.SameFile(named, opened) {
		return fail(fmt.Errorf("open directory %q: is a symbolic link", path))
	}
	if opened.Mode().Perm()&0o077 != 0 || !ownedByUser(opened) {
		return fail(fmt.Errorf("open directory %q: others may enter it; it must be the user's own, with mode 0700", path))
	}
	d.end = sync.OnceValue(func() error {
		if d.path != "" {
			// By name, as there is no other way, but only what is still the
			// same directory, and empty.
			if named, err := os.Lstat(d.path); err == nil && os.SameFile(named, opened) {
				_ = os.Remove(d.path)
			}
		}
		return d.root.Close()
	})
	return d, nil
}

// name returns a name for a file that nobody else uses.
func (d *directory) name() string { return fmt.Sprintf("%016x-%d", d.prefix, d.last.Add(1)) }

func (d *directory) create(name string) (file, error) {
	return orNil(d.root.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600))
}

func (d *directory) open(name string) (file, error) { return orNil(d.root.Open(name)) }

func (d *directory) remove(name string) error { return d.root.Remove(name) }

// orNil keeps a nil *os.File from becoming a file that is not nil.
func orNil(f *os.File, err error) (file, error) {
	if err != nil {
		return nil, err
	}
	return f, nil
}
