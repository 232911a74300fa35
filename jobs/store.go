package jobs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"unicode/utf8"
)

const (
	stdout = iota
	stderr
	streams
)

// maxSlot is the most that is dropped at once, and how much a file grows by.
const maxSlot = 256 << 10

// A file is what a store needs of *os.File.
type file interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
}

// files is where stores have their files. open returns fs.ErrNotExist for
// one that is gone.
type files interface {
	create(name string) (file, error)
	open(name string) (file, error)
	remove(name string) error
}

// A store keeps both streams of a job in one file, made at the first write
// and open while the job lives. The file is an array of slots; each holds a
// piece of one stream. When all are in use, the one that was written to least
// recently is taken from its stream, so that what is lost of a stream to the
// bound is its beginning, and disk use is bounded without moving anything.
type store struct {
	files files
	name  string
	size  int64 // of a slot, in bytes
	slots int64 // that the file may have

	mu        sync.Mutex
	file      file
	made      bool // the file has been created
	sealed    bool // no more is written
	discarded bool // nothing is kept any more
	stream    [streams]stream
	grown     int64   // slots that the file has
	free      []int64 // those of them that no stream has
	clock     uint64  // counts writes
	changed   chan struct{}

	// What was written to each stream, and what is kept of it. Changed with
	// mu held, and read without: a snapshot does not wait for the disk.
	total, kept [streams]atomic.Int64
}

type stream struct {
	segs []segment // ascending; between two there may be a gap
	open bool      // the last of segs can take more
}

// A segment is bytes [start, start+n) of a stream, in a slot.
type segment struct {
	start, n int64
	slot     int64
	last     uint64 // the clock when it was last written to
}

func (g segment) end() int64 { return g.start + g.n }

func newStore(files files, name string, limit int64) *store {
	size := min(max(limit/64, 1), maxSlot)
	return &store{files: files, name: name, size: size, slots: limit / size}
}

// missed is how many bytes of both streams are not kept.
func (s *store) missed() (n int64) {
	for i := range streams {
		kept := s.kept[i].Load() // first: it may grow only together with total
		n += max(s.total[i].Load()-kept, 0)
	}
	return n
}

// A writer writes to one stream of a store.
type writer struct {
	s *store
	i int
}

// Write fails only when the job has ended.
func (w writer) Write(b []byte) (int, error) { return w.s.write(w.i, b) }

func (s *store) write(i int, b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sealed {
		return 0, ErrEnded
	}
	n := len(b)
	st := &s.stream[i]
	mayGrow := true
	// Two failures in a row without a byte stored are enough: the disk is
	// full for the growing file and for a slot that it has already.
	for failures := 0; len(b) > 0 && failures < 2; {
		if !st.open && !s.begin(i, mayGrow) {
			break
		}
		g := &st.segs[len(st.segs)-1]
		k, err := s.file.WriteAt(b[:min(int64(len(b)), s.size-g.n)], g.slot*s.size+g.n)
		k = max(k, 0)
		s.clock++
		g.last = s.clock
		g.n += int64(k)
		s.total[i].Add(int64(k))
		s.kept[i].Add(int64(k))
		b = b[k:]
		if k > 0 {
			failures = 0
		}
		if err != nil {
			failures++
			mayGrow = false
			st.open = false
			if g.n == 0 {
				s.giveBack(st)
			}
		} else if g.n == s.size {
			st.open = false
		}
	}
	// The rest is missed. No segment is open then, so that what comes next is
	// not taken to follow what is kept.
	s.total[i].Add(int64(len(b)))
	s.wake()
	return n, nil
}

// begin opens a segment at the end of stream i. Where there is no slot, for a
// full file or a full disk, the least recently written one is taken.
func (s *store) begin(i int, mayGrow bool) bool {
	if s.discarded {
		return false
	}
	if s.file == nil {
		if s.made {
			return false
		}
		f, err := s.files.create(s.name)
		if err != nil {
			return false // and try again at the next write
		}
		s.file, s.made = f, true
	}
	var slot int64
	switch {
	case len(s.free) > 0:
		// First, also because a slot that could not be written stays here: a
		// disk that refuses every write costs what is kept one slot, not all.
		slot = s.free[len(s.free)-1]
		s.free = s.free[:len(s.free)-1]
	case mayGrow && s.grown < s.slots:
		slot = s.grown
		s.grown++
	default:
		oldest := -1
		for k := range streams {
			if segs := s.stream[k].segs; len(segs) > 0 && (oldest < 0 || segs[0].last < s.stream[oldest].segs[0].last) {
				oldest = k
			}
		}
		if oldest < 0 {
			return false
		}
		slot = s.stream[oldest].segs[0].slot
		s.forget(oldest, 0)
		s.free = s.free[:len(s.free)-1]
	}
	st := &s.stream[i]
	st.segs = append(st.segs, segment{start: s.total[i].Load(), slot: slot})
	st.open = true
	return true
}

// giveBack undoes begin for a segment that got nothing.
func (s *store) giveBack(st *stream) {
	slot := st.segs[len(st.segs)-1].slot
	st.segs = st.segs[:len(st.segs)-1]
	if slot == s.grown-1 {
		s.grown--
	} else {
		s.free = append(s.free, slot)
	}
}

// forget drops segment k of stream i, and frees its slot.
func (s *store) forget(i, k int) {
	st := &s.stream[i]
	s.kept[i].Add(-st.segs[k].n)
	s.free = append(s.free, st.segs[k].slot)
	if k == len(st.segs)-1 {
		st.open = false
	}
	if k == 0 {
		st.segs = st.segs[1:] // the common case moves nothing
	} else {
		st.segs = slices.Delete(st.segs, k, k+1)
	}
}

// seal ends writing. The file is closed, so that ended jobs hold no descriptors.
func (s *store) seal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sealed = true
	s.closeFile()
	s.wake()
}

// discard drops everything and removes the file. A job that still writes goes on.
func (s *store) discard() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.discarded {
		return
	}
	s.discarded = true
	for i := range streams {
		s.stream[i] = stream{}
		s.kept[i].Store(0)
	}
	s.free = nil
	s.closeFile()
	if s.made {
		_ = s.files.remove(s.name)
	}
	s.wake()
}

func (s *store) closeFile() {
	if s.file != nil {
		_ = s.file.Close()
		s.file = nil
	}
}

// wake releases those who wait for output.
func (s *store) wake() {
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

// A piece is what a read found of one stream: the bytes [next-len(data), next),
// with lost bytes that are gone between where it was asked to begin and there.
type piece struct {
	data       []byte
	next, lost int64
	more       bool // another read would tell more at once
}

var errOffset = errors.New("offset beyond the end of the output")

// read returns of each stream at most limit bytes at from, or the last limit
// bytes after from. What it returns of a stream is contiguous and ends at a
// gap. changed is closed when there is more to read.
func (s *store) read(from [streams]int64, tail bool, limit int) (p [streams]piece, changed <-chan struct{}, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range streams {
		if from[i] > s.total[i].Load() {
			return p, nil, errOffset
		}
	}
	// Opened only where there is something to read, and at most once.
	var opened file
	defer func() {
		if opened != nil {
			_ = opened.Close()
		}
	}()
	for i := range streams {
		for len(s.stream[i].segs) > 0 && s.file == nil && opened == nil {
			switch opened, err = s.files.open(s.name); {
			case errors.Is(err, fs.ErrNotExist):
				s.loseAll() // somebody removed it
			case err != nil:
				return p, nil, err
			}
		}
		f := s.file
		if f == nil {
			f = opened
		}
		p[i] = s.readStream(i, f, from[i], tail, int64(limit))
	}
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	return p, s.changed, nil
}

func (s *store) loseAll() {
	for i := range streams {
		for len(s.stream[i].segs) > 0 {
			s.forget(i, 0)
		}
	}
}

// readStream is read for one stream. Bytes that the disk does not give back
// are forgotten and so become a gap, which a reader gets past.
func (s *store) readStream(i int, f file, from int64, tail bool, limit int64) piece {
	for {
		p, bad := s.tryRead(i, f, from, tail, limit)
		if bad < 0 {
			return p
		}
		s.forget(i, bad)
	}
}

// tryRead returns the index of the segment that could not be read, or -1.
func (s *store) tryRead(i int, f file, from int64, tail bool, limit int64) (p piece, bad int) {
	segs, total := s.stream[i].segs, s.total[i].Load()
	first := 0
	for first < len(segs) && segs[first].end() <= from {
		first++
	}
	if first == len(segs) {
		return piece{next: total, lost: total - from}, -1
	}
	start := max(from, segs[first].start)
	if tail {
		last := len(segs) - 1
		run := last
		for run > first && segs[run-1].end() == segs[run].start {
			run--
		}
		start = max(start, segs[run].start, segs[last].end()-limit)
	}
	p.lost = start - from
	for ; segs[first].end() <= start; first++ {
		p.lost -= segs[first].end() - max(from, segs[first].start)
	}
	p.lost -= start - max(from, segs[first].start)

	at, k := start, first
	for ; k < len(segs) && segs[k].start <= at && at-start < limit; k++ {
		g := segs[k]
		n := min(g.end()-at, limit-(at-start))
		have := len(p.data)
		p.data = slices.Grow(p.data, int(n))[:have+int(n)]
		// Whatever the error is, the bytes are not to be had.
		if m, _ := f.ReadAt(p.data[have:], g.slot*s.size+at-g.start); int64(m) < n {
			return p, k
		}
		at += n
	}

	if start != from {
		// Nobody asked to begin here, so it may be inside a rune.
		skip := int64(continuation(p.data))
		if start == segs[first].start && (first == 0 || segs[first-1].end() < start) {
			p.lost += skip // its beginning is gone
		}
		p.data = p.data[skip:]
	}
	// A rune that is not complete is left for the next read, unless its rest
	// cannot come: at the end of a job, and before a gap.
	next := k < len(segs) && segs[k].start <= at || k > 0 && segs[k-1].end() > at
	held := int64(0)
	if next || at == total && !s.sealed {
		held = int64(incomplete(p.data))
	}
	if next && held == int64(len(p.data)) {
		held = 0 // the limit is shorter than the rune
	}
	p.data = p.data[:int64(len(p.data))-held]
	p.next = at - held
	p.more = at < total
	return p, -1
}

// continuation is how many bytes at the start of b are the rest of a rune.
func continuation(b []byte) int {
	for k := range min(utf8.UTFMax, len(b)) {
		if utf8.RuneStart(b[k]) {
			return k
		}
	}
	return 0 // that is no UTF-8
}

// incomplete is how many bytes at the end of b begin a rune and lack its rest.
func incomplete(b []byte) int {
	for k := 1; k < utf8.UTFMax && k <= len(b); k++ {
		if c := b[len(b)-k]; utf8.RuneStart(c) {
			if !utf8.FullRune(b[len(b)-k:]) {
				return k
			}
			break
		}
	}
	return 0
}

var _ file = (*os.File)(nil)
