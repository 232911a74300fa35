// Package capture keeps the output of a command within bounds: both ends in
// memory, the whole in a spill file once it is too long.
package capture

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"sync"
	"unicode/utf8"
)

// Limit is how many bytes of a stream are kept in memory, half at each end.
const Limit = 32 << 10

// SpillLimit is how many bytes the spill files of one call may hold.
const SpillLimit = 256 << 20

// Spill is where output goes that is too long. Its zero value can't spill; the
// streams of one call share one.
type Spill struct {
	// Create makes the file for a stream; called once for each at most, perhaps for
	// two at the same time.
	Create func(stream string) (*os.File, error)

	mu       sync.Mutex
	written  int64
	complete bool
	touched  bool
}

// Stats returns how many bytes the spill files hold, and whether that is all
// of the streams that were spilled.
func (s *Spill) Stats() (bytes int64, complete bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.written, s.complete || !s.touched
}

// write appends to f what the limit leaves room for.
func (s *Spill) write(f *os.File, b []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.touched {
		s.touched, s.complete = true, true
	}
	if f == nil {
		s.complete = s.complete && len(b) == 0
		return
	}
	if !s.complete {
		return // what a file holds is a beginning, without gaps
	}
	if room := SpillLimit - s.written; int64(len(b)) > room {
		b, s.complete = b[:room], false
	}
	n, err := f.Write(b)
	s.written += int64(n)
	if err != nil {
		s.complete = false // a full disk ends the spill, not the command
	}
}

// Stream is one captured stream, an io.Writer. Memory stays within Limit.
type Stream struct {
	name  string
	spill *Spill

	mu    sync.Mutex
	head  []byte
	tail  []byte // ring of the last Limit/2 bytes
	at    int    // where in tail the oldest byte is, once it is full
	total int64
	file  *os.File
	tried bool
}

// NewStream returns an empty stream that spills to s (nil: nowhere).
func NewStream(name string, s *Spill) *Stream { return &Stream{name: name, spill: s} }

// Write never fails and never blocks on anything but the spill's disk.
func (s *Stream) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(b)
	s.total += int64(n)
	if s.spill != nil && s.total > Limit {
		if !s.tried {
			s.tried = true
			if s.spill.Create != nil {
				s.file, _ = s.spill.Create(s.name)
			}
			s.spill.write(s.file, s.head)
			s.spill.write(s.file, s.kept())
		}
		s.spill.write(s.file, b)
	}
	if room := Limit/2 - len(s.head); room > 0 {
		k := min(room, len(b))
		s.head = append(s.head, b[:k]...)
		b = b[k:]
	}
	s.keep(b)
	return n, nil
}

// keep puts b into the ring.
func (s *Stream) keep(b []byte) {
	const size = Limit / 2
	if len(b) > size {
		b = b[len(b)-size:]
	}
	if room := size - len(s.tail); room > 0 {
		k := min(room, len(b))
		s.tail = append(s.tail, b[:k]...)
		b = b[k:]
	}
	for len(b) > 0 {
		k := copy(s.tail[s.at:], b)
		b = b[k:]
		s.at = (s.at + k) % size
	}
}

// kept returns the ring in order.
func (s *Stream) kept() []byte {
	if s.at == 0 {
		return s.tail
	}
	out := make([]byte, 0, len(s.tail))
	return append(append(out, s.tail[s.at:]...), s.tail[:s.at]...)
}

// Total is how many bytes were written.
func (s *Stream) Total() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.total
}

// Truncated reports that Bytes leaves something out.
func (s *Stream) Truncated() bool { return s.Total() > Limit }

// File is the spill file's path, "" without one. The file is synced to its
// reader by being closed.
func (s *Stream) File() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file == nil {
		return ""
	}
	_ = s.file.Close()
	return s.file.Name()
}

// Bytes returns what is kept: everything, or both ends with a line between
// them that says how many bytes are left out. The ends are cut at a line where
// there is one in their outer half, else between runes.
func (s *Stream) Bytes() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	head, tail := s.head, s.kept()
	if s.total <= Limit {
		return append(append([]byte{}, head...), tail...)
	}
	head, tail = cutEnd(head), cutStart(tail)
	left := s.total - int64(len(head)) - int64(len(tail))
	var b bytes.Buffer
	b.Write(head)
	if len(head) > 0 && head[len(head)-1] != '\n' {
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "[… %d bytes left out …]\n", left)
	b.Write(tail)
	return b.Bytes()
}

func cutEnd(b []byte) []byte {
	if i := bytes.LastIndexByte(b, '\n'); i >= len(b)/2 {
		return b[:i+1]
	}
	return b[:len(b)-Incomplete(b)]
}

// Incomplete is how many bytes at the end of b begin a rune and lack its rest:
// three at most.
func Incomplete(b []byte) int {
	for k := 1; k <= min(utf8.UTFMax-1, len(b)); k++ {
		if c := b[len(b)-k]; utf8.RuneStart(c) {
			if !utf8.FullRune(b[len(b)-k:]) {
				return k
			}
			break
		}
	}
	return 0
}

func cutStart(b []byte) []byte {
	if i := bytes.IndexByte(b, '\n'); i >= 0 && i < len(b)/2 {
		return b[i+1:]
	}
	for k := 0; k < min(utf8.UTFMax, len(b)); k++ { // up to three bytes are a rune's rest
		if utf8.RuneStart(b[k]) {
			return b[k:]
		}
	}
	return b
}

var _ io.Writer = (*Stream)(nil)
