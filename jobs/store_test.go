package jobs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// memory is a disk that can be full or broken. Writing where nothing was
// written before takes room.
type memory struct {
	files map[string]*memoryFile
	room  int64 // bytes; negative: without end
	// broken, if set, is asked at each write.
	broken func() bool
	most   int64 // that a file ever had
	opened int   // files that are open
}

type memoryFile struct {
	disk *memory
	b    []byte
}

func newMemory(room int64) *memory { return &memory{files: map[string]*memoryFile{}, room: room} }

func (m *memory) create(name string) (file, error) {
	if m.files[name] != nil {
		return nil, fs.ErrExist
	}
	if m.room == 0 {
		return nil, syscall.ENOSPC
	}
	f := &memoryFile{disk: m}
	m.files[name] = f
	m.opened++
	return f, nil
}

func (m *memory) open(name string) (file, error) {
	f := m.files[name]
	if f == nil {
		return nil, fs.ErrNotExist
	}
	m.opened++
	return f, nil
}

func (m *memory) remove(name string) error {
	delete(m.files, name)
	return nil
}

func (f *memoryFile) Close() error { f.disk.opened--; return nil }

func (f *memoryFile) WriteAt(b []byte, off int64) (int, error) {
	if f.disk.broken != nil && f.disk.broken() {
		return 0, syscall.EIO
	}
	grows := max(off+int64(len(b))-int64(len(f.b)), 0)
	if f.disk.room >= 0 && grows > f.disk.room {
		b = b[:max(int64(len(b))-(grows-f.disk.room), 0)]
		grows = min(grows, f.disk.room)
		if off > int64(len(f.b)) {
			b = nil
		}
	}
	n := len(b)
	if n > 0 {
		if f.disk.room >= 0 {
			f.disk.room -= max(off+int64(n)-int64(len(f.b)), 0)
		}
		if grow := off + int64(n) - int64(len(f.b)); grow > 0 {
			f.b = append(f.b, make([]byte, grow)...)
		}
		copy(f.b[off:], b)
		f.disk.most = max(f.disk.most, int64(len(f.b)))
	}
	if f.disk.room == 0 && grows > 0 || n == 0 {
		return n, syscall.ENOSPC
	}
	return n, nil
}

func (f *memoryFile) ReadAt(b []byte, off int64) (int, error) {
	if off >= int64(len(f.b)) {
		return 0, io.EOF
	}
	n := copy(b, f.b[off:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

// failer is a *testing.T or a *rapid.T.
type failer interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}

func put(t failer, s *store, i int, text string) {
	t.Helper()
	if n, err := s.write(i, []byte(text)); n != len(text) || err != nil {
		t.Fatalf("write %q: %d, %v", text, n, err)
	}
}

func get(t failer, s *store, i int, from int64, tail bool, limit int) piece {
	t.Helper()
	var at [streams]int64
	at[i] = from
	p, _, err := s.read(at, tail, limit)
	if err != nil {
		t.Fatal(err)
	}
	return p[i]
}

func TestStore_Read(t *testing.T) {
	for _, tc := range []struct {
		name   string
		write  string
		sealed bool
		from   int64
		tail   bool
		limit  int
		want   piece
	}{
		{"nothing yet", "", false, 0, false, 10, piece{}},
		{"all", "hello", false, 0, false, 10, piece{data: []byte("hello"), next: 5}},
		{"from the middle", "hello", false, 3, false, 10, piece{data: []byte("lo"), next: 5}},
		{"at the end", "hello", false, 5, false, 10, piece{next: 5}},
		{"up to the limit", "hello", false, 0, false, 2, piece{data: []byte("he"), next: 2, more: true}},
		{"up to the limit that is the end", "hello", false, 0, false, 5, piece{data: []byte("hello"), next: 5}},
		{"the tail", "hello", false, 0, true, 2, piece{data: []byte("lo"), next: 5}},
		{"a tail that is all", "hello", false, 0, true, 9, piece{data: []byte("hello"), next: 5}},
		{"a tail not before its cursor", "hello", false, 4, true, 3, piece{data: []byte("o"), next: 5}},
		{"a rune is cut off by the limit", "aกb", false, 0, false, 3, piece{data: []byte("a"), next: 1, more: true}},
		{"a rune longer than the limit", "ก", false, 0, false, 2, piece{data: []byte("\xe0\xb8"), next: 2, more: true}},
		{"a rune that has not come whole", "a\xe0\xb8", false, 0, false, 9, piece{data: []byte("a"), next: 1}},
		{"nothing but a rune that has not come whole", "\xe0\xb8", false, 0, false, 9, piece{data: []byte{}}},
		{"a rune that will not come whole", "a\xe0\xb8", true, 0, false, 9, piece{data: []byte("a\xe0\xb8"), next: 3}},
		{"a byte that is no UTF-8", "a\xff", false, 0, false, 9, piece{data: []byte("a\xff"), next: 2}},
		{"a tail that would begin in a rune", "กข", false, 0, true, 4, piece{data: []byte("ข"), next: 6}},
		{"a tail of what is no UTF-8", "\x80\x80\x80\x80\x80\x80", false, 0, true, 5, piece{data: []byte("\x80\x80\x80\x80\x80"), next: 6}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newStore(newMemory(-1), "x", 1<<10)
			put(t, s, stderr, tc.write)
			if tc.sealed {
				s.seal()
			}
			got := get(t, s, stderr, tc.from, tc.tail, tc.limit)
			if !bytes.Equal(got.data, tc.want.data) || got.next != tc.want.next || got.lost != 0 || got.more != tc.want.more {
				t.Errorf("got %q, want %q; %+v", got.data, tc.want.data, got)
			}
			if other := get(t, s, stdout, 0, false, 9); len(other.data) != 0 || other.next != 0 {
				t.Errorf("the other stream has %+v", other)
			}
		})
	}
}

func TestStore_DropsTheOldestOfBothStreams(t *testing.T) {
	s := newStore(newMemory(-1), "x", 64) // 64 slots of a byte
	put(t, s, stderr, "early")
	for range 10 {
		put(t, s, stdout, "0123456789")
	}
	put(t, s, stderr, "late")
	if got := get(t, s, stderr, 0, false, 99); string(got.data) != "late" || got.lost != 5 {
		t.Errorf("stderr: %q after %d lost", got.data, got.lost)
	}
	if got := get(t, s, stdout, 0, false, 99); len(got.data) != 60 || got.lost != 40 {
		t.Errorf("stdout: %q after %d lost", got.data, got.lost)
	}
	if n := s.missed(); n != 45 {
		t.Errorf("%d bytes missed", n)
	}
}

func TestStore_BeginsAtARuneAfterALoss(t *testing.T) {
	s := newStore(newMemory(-1), "x", 64)
	for range 40 {
		put(t, s, stdout, "ก")
	}
	got := get(t, s, stdout, 0, false, 99)
	if !utf8.Valid(got.data) || len(got.data) != 63 || got.lost != 57 {
		t.Errorf("%q after %d lost", got.data, got.lost)
	}
}

func TestStore_FullDiskKeepsTheNewest(t *testing.T) {
	for _, room := range []int64{0, 1, 100, 1000} {
		t.Run(fmt.Sprint(room), func(t *testing.T) {
			m := newMemory(room)
			s := newStore(m, "x", 64<<10) // slots of 1 KiB
			for i := range 5000 {
				put(t, s, stdout, fmt.Sprintf("line %04d\n", i))
			}
			if got := s.total[stdout].Load(); got != 50000 {
				t.Errorf("%d bytes counted", got)
			}
			p := get(t, s, stdout, 0, true, 10)
			if room >= 100 && string(p.data) != "line 4999\n" {
				t.Errorf("the end is %q", p.data)
			}
			if m.most > room {
				t.Errorf("the file had %d bytes", m.most)
			}
			if s.missed() < 50000-room {
				t.Errorf("%d bytes missed", s.missed())
			}
		})
	}
}

func TestStore_BrokenDiskCostsLittleOfWhatIsKept(t *testing.T) {
	m := newMemory(-1)
	s := newStore(m, "x", 64) // slots of a byte
	put(t, s, stdout, "0123456789")
	broken := true
	m.broken = func() bool { return broken }
	for range 1000 {
		put(t, s, stdout, "lost")
	}
	if got := get(t, s, stdout, 0, false, 99); string(got.data) != "123456789" || got.lost != 1 || !got.more {
		t.Errorf("while broken: %q, %+v", got.data, got)
	}
	broken = false
	put(t, s, stdout, "back")
	first := get(t, s, stdout, 0, false, 99)
	second := get(t, s, stdout, first.next, false, 99)
	if string(second.data) != "back" || second.lost != 4000 || second.more {
		t.Errorf("after it: %q, %+v", second.data, second)
	}
	if got := get(t, s, stdout, 0, true, 99); string(got.data) != "back" || got.lost != 4001 {
		t.Errorf("the tail does not begin after the gap: %q, %+v", got.data, got)
	}
}

func TestStore_OutputThatCannotBeReadBackIsMissed(t *testing.T) {
	m := newMemory(-1)
	s := newStore(m, "x", 64)
	put(t, s, stdout, "0123456789")
	m.files["x"].b = m.files["x"].b[:4] // somebody truncated it
	if got := get(t, s, stdout, 0, false, 99); string(got.data) != "0123" || !got.more {
		t.Errorf("%q, %+v", got.data, got)
	}
	if got := get(t, s, stdout, 4, false, 99); got.lost != 6 || got.more || got.next != 10 {
		t.Errorf("%+v", got)
	}
	s.seal()
	delete(m.files, "x")
	if got := get(t, s, stdout, 0, false, 99); got.lost != 10 || got.next != 10 {
		t.Errorf("after its removal: %+v", got)
	}
	if m.opened != 0 {
		t.Errorf("%d files are open", m.opened)
	}
}

func TestStore_Ends(t *testing.T) {
	m := newMemory(-1)
	s := newStore(m, "x", 1<<10)
	if len(m.files) != 0 {
		t.Error("there is a file before there is output")
	}
	put(t, s, stdout, "hello")
	s.seal()
	if m.opened != 0 {
		t.Error("a sealed store holds a descriptor")
	}
	if n, err := s.write(stdout, []byte("x")); n != 0 || !errors.Is(err, ErrEnded) {
		t.Errorf("write after the end: %d, %v", n, err)
	}
	if got := get(t, s, stdout, 0, false, 9); string(got.data) != "hello" || m.opened != 0 {
		t.Errorf("%q, %d files are open", got.data, m.opened)
	}
	s.discard()
	s.discard()
	if len(m.files) != 0 {
		t.Error("the file is still there")
	}
	if got := get(t, s, stdout, 0, false, 9); got.lost != 5 || got.next != 5 {
		t.Errorf("after its removal: %+v", got)
	}
}

func TestStore_WritesGoOnAfterDiscard(t *testing.T) {
	m := newMemory(-1)
	s := newStore(m, "x", 1<<10)
	put(t, s, stdout, "hello")
	s.discard()
	put(t, s, stdout, "more")
	if s.total[stdout].Load() != 9 || s.missed() != 9 || len(m.files) != 0 {
		t.Errorf("%d bytes counted, %d missed, files %v", s.total[stdout].Load(), s.missed(), m.files)
	}
}

// The store against a model that has all output and knows only which bytes of
// it may be gone. The model of what is kept is the simplest there is: pieces
// in the order of their last write.
func TestStore_AgreesWithModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.Int64Range(1, 300).Draw(t, "cap")
		m := newMemory(-1)
		s := newStore(m, "x", limit)
		var model naive
		model.slots, model.size = int(s.slots), int(s.size)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			i := rapid.IntRange(0, streams-1).Draw(t, "stream")
			if rapid.Bool().Draw(t, "write") {
				b := []byte(rapid.SampledFrom([]string{"a", "line\n", "กขค", "\xff\x80", "é", "😀😀😀😀😀😀", "0123456789abcdefghijklmnopqrstuvwxyz"}).Draw(t, "text"))
				b = b[:rapid.IntRange(0, len(b)).Draw(t, "length")]
				put(t, s, i, string(b))
				model.write(i, b)
				continue
			}
			total := int64(len(model.all[i]))
			from := rapid.Int64Range(0, total).Draw(t, "from")
			tail := rapid.Bool().Draw(t, "tail")
			checkPiece(t, &model, i, from, tail, rapid.IntRange(1, 64).Draw(t, "limit"), s)
		}
		for i := range streams {
			// A chain of reads tells of everything, once.
			s.sealed = true
			at, sum := int64(0), int64(0)
			for reads := 0; ; reads++ {
				p := checkPiece(t, &model, i, at, false, 7, s)
				at, sum = p.next, sum+p.lost+int64(len(p.data))
				if !p.more {
					break
				}
				if reads > 10000 {
					t.Fatal("a reader gets nowhere")
				}
			}
			if total := int64(len(model.all[i])); at != total || sum != total {
				t.Fatalf("the chain ends at %d with %d told, of %d", at, sum, total)
			}
		}
		if m.most > limit {
			t.Fatalf("the file had %d bytes of %d", m.most, limit)
		}
	})
}

func checkPiece(t *rapid.T, model *naive, i int, from int64, tail bool, limit int, s *store) piece {
	p := get(t, s, i, from, tail, limit)
	start := p.next - int64(len(p.data))
	if start < from || p.next > int64(len(model.all[i])) || len(p.data) > limit {
		t.Fatalf("read from %d, limit %d: [%d, %d)", from, limit, start, p.next)
	}
	if !bytes.Equal(p.data, model.all[i][start:p.next]) {
		t.Fatalf("read from %d: %q, want %q", from, p.data, model.all[i][start:p.next])
	}
	kept := model.kept(i)
	lost, skipped := int64(0), int64(0)
	for n := from; n < start; n++ {
		if !kept[n] {
			lost++
		} else {
			skipped++
		}
	}
	for n := start; n < p.next; n++ {
		if !kept[n] {
			t.Fatalf("byte %d is not in the model", n)
		}
	}
	if !tail && lost+skipped != p.lost || skipped > 3 && !tail || p.lost < lost || p.lost > lost+3 {
		t.Fatalf("read from %d: %d lost, the model has lost %d and skipped %d", from, p.lost, lost, skipped)
	}
	return p
}

// naive keeps output as the store's documentation says, in memory.
type naive struct {
	slots, size int
	all         [streams][]byte
	pieces      []naivePiece // least recently written first
}

type naivePiece struct {
	stream, start, n int
}

func (m *naive) write(i int, b []byte) {
	for _, c := range b {
		at := len(m.all[i])
		m.all[i] = append(m.all[i], c)
		// The piece that ends here and has room, else a new one.
		p := naivePiece{stream: i, start: at}
		for k, q := range m.pieces {
			if q.stream == i && q.start+q.n == at && q.n < m.size {
				p = q
				m.pieces = append(m.pieces[:k], m.pieces[k+1:]...)
				break
			}
		}
		if p.n == 0 && len(m.pieces) == m.slots {
			m.pieces = m.pieces[1:]
		}
		p.n++
		m.pieces = append(m.pieces, p)
	}
}

func (m *naive) kept(i int) map[int64]bool {
	kept := map[int64]bool{}
	for _, p := range m.pieces {
		for n := range p.n {
			if p.stream == i {
				kept[int64(p.start+n)] = true
			}
		}
	}
	return kept
}

// Whatever the disk does, what is returned is what was written there, every
// byte is told or missed once, and the file stays within its bounds.
func TestStore_SurvivesAnyDisk(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.Int64Range(1, 2000).Draw(t, "cap")
		m := newMemory(rapid.Int64Range(-1, 500).Draw(t, "room"))
		faults := rapid.SliceOfN(rapid.Bool(), 1, 20).Draw(t, "faults")
		writes := 0
		m.broken = func() bool { writes++; return faults[writes%len(faults)] }
		s := newStore(m, "x", limit)
		var all [streams][]byte
		for n := range rapid.IntRange(1, 80).Draw(t, "writes") {
			i := rapid.IntRange(0, streams-1).Draw(t, "stream")
			b := bytes.Repeat([]byte{'a' + byte(n%26)}, rapid.IntRange(0, 90).Draw(t, "length"))
			put(t, s, i, string(b))
			all[i] = append(all[i], b...)
			if m.room >= 0 && rapid.IntRange(0, 9).Draw(t, "somebody frees some") == 0 {
				m.room += 100
			}
		}
		s.seal()
		var told [streams]int64
		for i := range streams {
			at, sum := int64(0), int64(0)
			for {
				p := get(t, s, i, at, false, 50)
				start := p.next - int64(len(p.data))
				if !bytes.Equal(p.data, all[i][start:p.next]) || start != at+p.lost {
					t.Fatalf("read from %d: %q, want %q; %+v", at, p.data, all[i][start:p.next], p)
				}
				at, sum, told[i] = p.next, sum+p.lost, told[i]+int64(len(p.data))
				if !p.more {
					break
				}
			}
			if at != int64(len(all[i])) || sum+told[i] != at {
				t.Fatalf("of %d bytes %d are told and %d missed", len(all[i]), told[i], sum)
			}
			if told[i] != s.kept[i].Load() {
				t.Fatalf("%d bytes are told, %d kept", told[i], s.kept[i].Load())
			}
		}
		if m.most > limit || told[stdout]+told[stderr] > limit {
			t.Fatalf("the file had %d bytes of %d", m.most, limit)
		}
		if m.opened != 0 {
			t.Fatalf("%d files are open", m.opened)
		}
	})
}

func TestStore_DiskUseStaysWithinTheCap(t *testing.T) {
	dir, err := openDirectory(filepath.Join(t.TempDir(), "store"))
	if err != nil {
		t.Fatal(err)
	}
	defer dir.end()
	const limit = 1 << 20
	s := newStore(dir, dir.name(), limit)
	b := bytes.Repeat([]byte("restart\n"), 1000)
	for i := range 600 {
		put(t, s, i%2, string(b))
		var st syscall.Stat_t
		if err := syscall.Stat(filepath.Join(dir.path, s.name), &st); err != nil {
			t.Fatal(err)
		}
		if st.Size > limit || st.Blocks*512 > limit {
			t.Fatalf("after %d writes: %d bytes, %d on disk", i+1, st.Size, st.Blocks*512)
		}
		if st.Mode&0o777 != 0o600 {
			t.Fatalf("mode %o", st.Mode)
		}
	}
	if s.total[stdout].Load() != 300*8000 || s.missed() == 0 {
		t.Errorf("%d bytes counted, %d missed", s.total[stdout].Load(), s.missed())
	}
	s.discard()
	if left, err := os.ReadDir(dir.path); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// Readers see what was written at every offset while it is being overwritten.
func TestStore_ReadsWhileWritten(t *testing.T) {
	dir, err := openDirectory(filepath.Join(t.TempDir(), "store"))
	if err != nil {
		t.Fatal(err)
	}
	defer dir.end()
	s := newStore(dir, dir.name(), 4096)
	// The byte at offset n is n's own.
	at := func(n int64) byte { return 'a' + byte(n%23) }
	const total = 200_000
	var wg sync.WaitGroup
	for i := range streams {
		wg.Go(func() {
			var n int64
			for n < total {
				b := make([]byte, min(1+n%97, total-n))
				for k := range b {
					b[k] = at(n + int64(k))
				}
				_, _ = s.write(i, b)
				n += int64(len(b))
			}
		})
		wg.Go(func() {
			var from [streams]int64
			told := int64(0)
			for from[i] < total {
				p, changed, err := s.read(from, false, 300)
				if err != nil {
					t.Error(err)
					return
				}
				for k, c := range p[i].data {
					if n := p[i].next - int64(len(p[i].data)-k); c != at(n) {
						t.Errorf("stream %d has %q at %d, want %q", i, c, n, at(n))
						return
					}
				}
				if told += p[i].lost + int64(len(p[i].data)); told != p[i].next {
					t.Errorf("%d bytes told at %d", told, p[i].next)
					return
				}
				from[i] = p[i].next
				if !p[i].more && from[i] < total {
					<-changed
				}
			}
		})
	}
	wg.Wait()
}

func BenchmarkStore_Write(b *testing.B) {
	dir, err := openDirectory(filepath.Join(b.TempDir(), "store"))
	if err != nil {
		b.Fatal(err)
	}
	defer dir.end()
	s := newStore(dir, dir.name(), 64<<20)
	defer s.discard()
	chunk := bytes.Repeat([]byte("0123456789abcde\n"), 2<<10)
	b.SetBytes(int64(len(chunk)))
	for b.Loop() {
		_, _ = s.write(stdout, chunk)
	}
}
