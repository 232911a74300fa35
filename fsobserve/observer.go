package fsobserve

import (
	"container/list"
	"runtime"
	"sync"
	"weak"

	"github.com/dshx/dshx/pipeline"
)

const (
	// MaxFiles is how many files are known in a scope. The one that was seen
	// longest ago is forgotten first: it has to be read again.
	MaxFiles = 10_000
	// MaxContent is the largest content that is kept, in bytes, to show later
	// what has changed.
	MaxContent = 1 << 20
	// maxKept bounds the contents of a scope together, in bytes.
	maxKept = 64 << 20
)

// Options are an Observer's.
type Options struct {
	// LockDir is where the lock file is; "" is a directory of the user's own in
	// /var/tmp, /tmp or TMPDIR. All processes that are to respect each other
	// need the same one, and commands must not be able to write to it.
	LockDir string
}

// Observer knows what the calls of every scope have seen. It may be used from
// any goroutine.
type Observer struct {
	locks *locker

	mu    sync.Mutex
	books map[weak.Pointer[pipeline.Scope]]*book
}

// New makes an observer.
//
// Errors: there is no place for the lock file.
func New(o Options) (*Observer, error) {
	locks, err := newLocker(o.LockDir)
	if err != nil {
		return nil, err
	}
	return &Observer{locks: locks, books: map[weak.Pointer[pipeline.Scope]]*book{}}, nil
}

// Use is what a call is about to do.
type Use uint8

// The uses.
const (
	Replace Use = iota // make the file or replace all of it
	Edit               // change a part of it
)

// Observed notes that the call has seen all of a file at path, absolute and
// resolved, or has written it. content, unless nil, is all of it, and is not to
// be changed any more; over MaxContent it isn't kept.
func (o *Observer) Observed(c *pipeline.Call, path string, s State, content []byte) {
	if len(content) > MaxContent {
		content = nil
	}
	b := o.book(c.Scope())
	b.mu.Lock()
	defer b.mu.Unlock()
	b.put(&entry{path: path, present: true, state: s, content: content, known: content != nil || s.Size == 0})
}

// Missing notes that the call has looked for a file and found none.
func (o *Observer) Missing(c *pipeline.Call, path string) {
	b := o.book(c.Scope())
	b.mu.Lock()
	defer b.mu.Unlock()
	b.put(&entry{path: path})
}

// Check says whether the call may do that to the file at path, which is now in
// that state; nil: it isn't there. Where there is none, nil means that it may
// be made, and not that one may be replaced which appears meanwhile.
//
// Errors: *NotObservedError (FS_NOT_OBSERVED), *StaleError (FS_STALE).
func (o *Observer) Check(c *pipeline.Call, use Use, path string, now *State) error {
	b := o.book(c.Scope())
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.find(path, now)
	switch {
	case e == nil && now == nil:
		return nil
	case e == nil, !e.present && now != nil && use == Edit:
		return &NotObservedError{path}
	case !e.present && now == nil:
		return nil
	case e.present && now != nil && e.state.Same(*now):
		return nil
	}
	return &StaleError{Path: path, Gone: now == nil, Before: e.content, Known: e.known || !e.present}
}

// Forget drops what was seen in a scope. Without it that happens when the
// scope is collected.
func (o *Observer) Forget(s *pipeline.Scope) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.books, weak.Make(s))
}

func (o *Observer) book(s *pipeline.Scope) *book {
	// Weak: a scope that nobody holds any more makes no calls, and must not be
	// kept for what it has seen.
	key := weak.Make(s)
	o.mu.Lock()
	defer o.mu.Unlock()
	b := o.books[key]
	if b == nil {
		b = &book{byPath: map[string]*list.Element{}, byInode: map[inode]*list.Element{}}
		o.books[key] = b
		runtime.AddCleanup(s, o.collected, key)
	}
	return b
}

func (o *Observer) collected(key weak.Pointer[pipeline.Scope]) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.books, key)
}

// book is what one scope has seen.
type book struct {
	mu      sync.Mutex
	order   list.List // of *entry, seen longest ago first
	byPath  map[string]*list.Element
	byInode map[inode]*list.Element // of those that were there
	kept    int                     // bytes of contents
}

type inode struct{ dev, ino uint64 }

type entry struct {
	path    string
	present bool
	state   State
	content []byte
	known   bool // content is all of it
}

func (e *entry) inode() inode { return inode{e.state.Dev, e.state.Ino} }

func (b *book) put(e *entry) {
	if old := b.byPath[e.path]; old != nil {
		b.drop(old)
	}
	at := b.order.PushBack(e)
	b.byPath[e.path] = at
	if e.present {
		b.byInode[e.inode()] = at
	}
	b.kept += len(e.content)
	for b.order.Len() > MaxFiles {
		b.drop(b.order.Front())
	}
	for at := b.order.Front(); b.kept > maxKept && at != nil; at = at.Next() {
		if e := at.Value.(*entry); len(e.content) > 0 {
			b.kept -= len(e.content)
			e.content, e.known = nil, false
		}
	}
}

func (b *book) drop(at *list.Element) {
	e := at.Value.(*entry)
	b.order.Remove(at)
	delete(b.byPath, e.path)
	if b.byInode[e.inode()] == at {
		delete(b.byInode, e.inode())
	}
	b.kept -= len(e.content)
}

// find is what is known of the file at path: under this path, or under another
// hard link. A file with one name has no other: its number was another file's.
func (b *book) find(path string, now *State) *entry {
	at := b.byPath[path]
	if at == nil && now != nil && now.Links > 1 {
		at = b.byInode[inode{now.Dev, now.Ino}]
	}
	if at == nil {
		return nil
	}
	return at.Value.(*entry)
}
