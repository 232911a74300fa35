package grep

import (
	"context"
	"errors"
	"io/fs"
	"sync"
	"sync/atomic"

	"github.com/dshx/dshx/tools/fs/internal/rawfs"
	"github.com/dshx/dshx/tools/fs/internal/walk"
	"golang.org/x/sys/unix"
)

const (
	batchSize = 64        // files that a worker takes at once
	maxAhead  = 64        // batches that may be done before their turn
	maxBatch  = 256 << 10 // bytes of matches that a batch holds before its turn
)

// Search searches the files of a tree, or the one file that is the root.
//
// Errors: ctx's; Options.Overflow's; a *fs.PathError when the root cannot be
// opened, with rawfs.ErrNotRegular when it is neither a directory nor a
// regular file. Nothing found is no error.
func Search(ctx context.Context, run walk.Run, m *Matcher, o Options) (*Result, error) {
	o.Walk.Types = walk.Files
	o.Walk.Stat = false
	w := walk.New(ctx, o.Walk)
	defer w.Close()
	s := &search{m: m, o: o, w: w, result: &Result{}, ring: make([]*batch, maxAhead)}
	s.turn.L = &s.mu
	// Workers that wait for their turn must hear of it too.
	defer context.AfterFunc(ctx, s.wake)()
	run(w.Workers(), s.work)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if s.err != nil {
		return nil, s.err
	}
	return s.result, nil
}

// A search is what the workers share.
type search struct {
	m *Matcher
	o Options
	w *walk.Walker

	prepare sync.Once
	batches []*batch
	taken   atomic.Int64 // batches
	failed  atomic.Bool
	// full is set when what is found only counts: the limit is reached and
	// nobody wants the rest.
	full atomic.Bool

	mu     sync.Mutex
	turn   sync.Cond
	next   int      // the batch whose turn it is
	ring   []*batch // done before their turn
	kept   int      // entries in the result
	result *Result
	err    error
}

// A batch is a run of files that follow each other in the order of paths.
type batch struct {
	index int
	runs  []dirRun
	found []piece // files with matches
	bytes int     // of these matches
}

// A piece is a file's result, or a part of one: more says that it continues
// the file of the piece before it.
type piece struct {
	File
	more bool
}

type dirRun struct {
	dir   string
	names []string
}

func (s *search) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turn.Broadcast()
}

func (s *search) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
	}
	s.failed.Store(true)
	s.turn.Broadcast()
}

func (s *search) stopped() bool { return s.failed.Load() || s.w.Stopped() }

// work is what each worker does: walk, then search.
func (s *search) work(i int) {
	finished := false
	defer func() {
		if !finished {
			s.fail(errors.New("a worker of the search ended early"))
		}
	}()
	s.w.Work(i)
	s.prepare.Do(s.plan)
	sr := newSearcher(s.m, &s.o, s.stopped)
	sr.out = &collector{s: s}
	for !s.stopped() {
		n := int(s.taken.Add(1) - 1)
		if n >= len(s.batches) {
			break
		}
		b := s.batches[n]
		s.batches[n] = nil
		if !s.await(n - maxAhead + 1) {
			break
		}
		s.search(sr, b)
		s.done(b)
	}
	finished = true
}

// plan turns the tree into batches.
func (s *search) plan() {
	tree, err := s.w.Tree()
	if errors.Is(err, unix.ENOTDIR) {
		s.single()
		return
	}
	if err != nil {
		s.fail(err)
		return
	}
	s.result.Omitted = Omitted{Ignored: tree.Omitted().Ignored, Denied: tree.Omitted().Denied}
	b := &batch{}
	size := 0
	for dir, names := range tree.Groups() {
		for len(names) > 0 {
			n := min(len(names), batchSize-size)
			b.runs = append(b.runs, dirRun{dir, names[:n]})
			names = names[n:]
			if size += n; size == batchSize {
				s.batches = append(s.batches, b)
				b, size = &batch{index: len(s.batches)}, 0
			}
		}
	}
	if size > 0 {
		s.batches = append(s.batches, b)
	}
}

// await waits until it is the turn of batch n, or a later one. It reports
// false when the search has stopped.
//
// The batch whose turn it is belongs to a worker that doesn't wait, so
// somebody always goes on.
func (s *search) await(n int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.next < n && !s.stopped() {
		s.turn.Wait()
	}
	return !s.stopped()
}

// search searches the files of a batch.
func (s *search) search(sr *searcher, b *batch) {
	var name []byte
	var counts Omitted
	for _, run := range b.runs {
		dir, _, err := rawfs.OpenDir(s.w.Root(), trimSlash(run.dir))
		if err != nil {
			if !gone(err) {
				counts.Denied += len(run.names)
			}
			continue
		}
		for _, n := range run.names {
			if s.stopped() {
				break
			}
			name = append(append(name[:0], n...), 0)
			fd, errno := rawfs.OpenAt(dir, name, 0)
			if errno != 0 {
				if !gone(errno) {
					counts.Denied++
				}
				continue
			}
			switch s.file(sr, b, fd, run.dir, n, false) {
			case isBinary:
				counts.Binary++
			case isTooLarge:
				counts.TooLarge++
			case isDenied:
				counts.Denied++
			}
			unix.Close(fd)
		}
		unix.Close(dir)
	}
	s.omit(counts)
}

func (s *search) omit(c Omitted) {
	if c == (Omitted{}) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	o := &s.result.Omitted
	o.Binary += c.Binary
	o.TooLarge += c.TooLarge
	o.Denied += c.Denied
}

// gone reports whether a file has vanished, or has become what is not searched.
func gone(err error) bool {
	return err == unix.ENOENT || err == unix.ENOTDIR || err == unix.ELOOP || err == unix.ENXIO
}

func trimSlash(dir string) string {
	if dir == "" {
		return ""
	}
	return dir[:len(dir)-1]
}

// A collector takes what a worker finds in one file after the other.
type collector struct {
	s      *search
	b      *batch
	dir    string // ends in a slash, or is empty
	name   string
	found  []Match
	bytes  int // of found
	handed int // matches of the file that were handed over before its end
}

func (c *collector) begin(b *batch, dir, name string) {
	*c = collector{s: c.s, b: b, dir: dir, name: name}
}

// wanted reports whether matches are to be rendered.
func (c *collector) wanted() bool {
	return c.s.o.Output == Matches && !c.s.full.Load()
}

// add takes a match.
func (c *collector) add(m Match) {
	c.found = append(c.found, m)
	if c.bytes += m.size(); c.bytes < maxBatch {
		return
	}
	// Too much to hold back until the file is done: what there is goes out when
	// its turn comes. The file has been looked through for NUL bytes already,
	// so nothing will have to be taken back.
	if c.s.await(c.b.index) {
		c.flush(len(c.found))
		c.s.put(c.b)
	} else {
		c.found = nil
	}
}

// flush makes what was found a piece that stands for count matches.
func (c *collector) flush(count int) {
	if count > 0 {
		c.b.found = append(c.b.found, piece{File{c.dir + c.name, count, c.found}, c.handed > 0})
		c.b.bytes += c.bytes
	}
	c.handed += count
	c.found, c.bytes = nil, 0
}

// file searches one open file for a batch.
func (s *search) file(sr *searcher, b *batch, fd int, dir, name string, named bool) outcome {
	c := sr.out
	c.begin(b, dir, name)
	out := sr.file(fd, named)
	sr.release()
	if out != searched || sr.count == 0 {
		return out
	}
	c.flush(sr.count - c.handed)
	if b.bytes >= maxBatch && s.await(b.index) {
		s.put(b)
	}
	return out
}

// done hands over a batch when its turn comes, with those that waited for it.
func (s *search) done(b *batch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ring[b.index%maxAhead] = b
	for {
		slot := &s.ring[s.next%maxAhead]
		if *slot == nil || (*slot).index != s.next {
			return
		}
		s.take((*slot).found)
		*slot = nil
		s.next++
		s.turn.Broadcast()
	}
}

// put hands over what a batch has so far; it is its turn.
func (s *search) put(b *batch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.take(b.found)
	b.found, b.bytes = nil, 0
}

// take adds pieces to the result, in order.
func (s *search) take(found []piece) {
	for i := range found {
		if s.err != nil {
			return
		}
		s.takeOne(&found[i])
	}
}

func (s *search) takeOne(p *piece) {
	r := s.result
	r.TotalMatches += p.Count
	entries := p.Count
	if s.o.Output != Matches {
		entries = 1
	}
	if !p.more {
		r.TotalFiles++
	} else if s.o.Output != Matches {
		entries = 0
	}
	room := entries
	if s.o.Limit >= 0 {
		room = min(room, s.o.Limit-s.kept)
	}
	if room < entries && !r.Truncated {
		r.Truncated = true
		if s.o.Overflow == nil {
			s.full.Store(true)
		}
		for i := range r.Files {
			s.overflow(&r.Files[i])
		}
	}
	if r.Truncated {
		s.overflow(&p.File)
	}
	s.kept += room
	last := len(r.Files) - 1
	switch {
	case p.more && last >= 0 && r.Files[last].Path == p.Path:
		r.Files[last].Count += p.Count
		if s.o.Output == Matches {
			r.Files[last].Matches = append(r.Files[last].Matches, p.Matches[:min(room, len(p.Matches))]...)
		}
	case room > 0:
		f := p.File
		if len(f.Matches) > room {
			// A copy, so that what is not kept is not held.
			f.Matches = append([]Match(nil), f.Matches[:room]...)
		}
		r.Files = append(r.Files, f)
	}
}

func (s *search) overflow(f *File) {
	if s.o.Overflow == nil || s.err != nil {
		return
	}
	if err := s.o.Overflow(f); err != nil {
		s.err = err
		s.failed.Store(true)
		s.turn.Broadcast()
	}
}

// single searches the root, which is no directory. It is the only batch, and
// whoever calls has it.
func (s *search) single() {
	err := func() error {
		path := s.o.Walk.Root
		// Opening a device can have effects: it is looked at first.
		var st unix.Stat_t
		if err := unix.Stat(path, &st); err != nil {
			return err
		}
		if rawfs.TypeOf(st.Mode) != rawfs.File {
			return rawfs.ErrNotRegular
		}
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		if err := unix.Fstat(fd, &st); err != nil {
			return err
		}
		if rawfs.TypeOf(st.Mode) != rawfs.File {
			return rawfs.ErrNotRegular
		}
		sr := newSearcher(s.m, &s.o, s.stopped)
		sr.out = &collector{s: s}
		b := &batch{}
		switch s.file(sr, b, fd, "", "", true) {
		case isTooLarge:
			s.omit(Omitted{TooLarge: 1})
		case isDenied:
			return unix.EIO
		}
		s.put(b)
		return nil
	}()
	if err != nil {
		s.fail(&fs.PathError{Op: "open", Path: s.o.Walk.Root, Err: err})
	}
}
