package sessionlog

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

var errNoRecord = errors.New("no record of a session log")

const (
	// maxLine is the longest line that is read, in bytes. A call's arguments are the
	// longest part of one, and a front door takes 64 MiB.
	maxLine = 256 << 20
	// maxParts is how many older parts are looked for.
	maxParts = 1000
	// poll is how often a log that is followed is looked at.
	poll = 200 * time.Millisecond
)

// Line is one line of a log: a record, or why there is none.
type Line struct {
	File    string
	N       int // from 1
	Record  Record
	Problem string // where Record is nil
}

// Reader reads a log, its older parts first, whatever is wrong with it: a line
// that is no record is told, and the next one read. Reading needs no lock.
type Reader struct {
	path  string
	parts []*part // the first is being read
	gone  string  // what to tell before the next line
}

// part is one file of a log.
type part struct {
	f    *os.File
	in   *bufio.Reader
	name string
	n    int
	kept []byte // the beginning of a line that has no end yet
	long bool   // of it more than maxLine is there
	seen int64
}

// OpenReader opens the log at path and the parts that it continues.
//
// Errors: what keeps path itself from being opened.
func OpenReader(path string) (*Reader, error) {
	r := &Reader{path: path}
	var whole bool
	var err error
	if r.parts, whole, err = r.chain(nil); err != nil {
		return nil, err
	}
	if !whole {
		r.gone = "the records before are gone, with the parts of the log that had them"
	}
	return r, nil
}

// chain opens the parts after the one that is given, oldest first; all that are
// left where it is nil or isn't there any more. Where the log is divided meanwhile
// it looks again. whole is false where a part is missing that the others continue.
//
// Errors: what keeps the newest from being opened.
func (r *Reader) chain(after *part) (parts []*part, whole bool, err error) {
	for try := 0; ; try++ {
		parts, err := r.look(after)
		switch {
		case err != nil && err != errGone:
			return nil, false, err
		case r.moved(parts) && try < 1000: // the numbers have changed while they were looked at
		case err == nil:
			return parts, true, nil
		case try >= 3: // it doesn't only get its next name
			return parts, false, nil
		}
		for _, p := range parts {
			p.close()
		}
		time.Sleep(time.Millisecond)
	}
}

// moved reports that the newest part isn't the newest any more.
func (r *Reader) moved(parts []*part) bool {
	if len(parts) == 0 {
		return false
	}
	now, err := os.Stat(r.path)
	was, err2 := parts[len(parts)-1].f.Stat()
	return err == nil && err2 == nil && !os.SameFile(now, was)
}

// errGone is a part that is missing.
var errGone = errors.New("gone")

// look opens parts from the newest on, as chain does, once.
func (r *Reader) look(after *part) (parts []*part, err error) {
	missing := 0
	for n := 0; n <= maxParts; n++ {
		p, err := openPart(r.name(n))
		if err == nil {
			missing = 0
		}
		switch {
		case err != nil && n == 0:
			return nil, err
		case err != nil:
			// One number is free while the parts move on, and after that was cut off.
			if missing++; missing > 1 {
				return parts, errGone
			}
			continue
		case after != nil && p.same(after):
			p.close()
			return parts, nil
		case len(parts) > 0 && p.same(parts[0]):
			// It has both names since a rotation that was cut off.
			p.close()
			continue
		}
		parts = append([]*part{p}, parts...)
		if !p.continued() {
			return parts, nil
		}
	}
	return parts, errGone
}

func (r *Reader) name(n int) string {
	if n == 0 {
		return r.path
	}
	return r.path + "." + strconv.Itoa(n)
}

func openPart(name string) (*part, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0) // a FIFO is refused, not waited for
	if err != nil {
		return nil, err
	}
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() {
		_ = f.Close()
		return nil, fmt.Errorf("open %s: it is no regular file", name)
	}
	return &part{f: f, in: bufio.NewReaderSize(f, 64<<10), name: name}, nil
}

func (p *part) close() { _ = p.f.Close() }

func (p *part) same(q *part) bool {
	a, err1 := p.f.Stat()
	b, err2 := q.f.Stat()
	return err1 == nil && err2 == nil && os.SameFile(a, b)
}

// continued reports that the part goes on where an older one has ended.
func (p *part) continued() bool {
	const want = beginning + `continued"`
	begin := make([]byte, len(want))
	n, _ := p.f.ReadAt(begin, 0)
	return string(begin[:n]) == want
}

// Close ends reading.
func (r *Reader) Close() {
	for _, p := range r.parts {
		p.close()
	}
	r.parts = nil
}

// Next is the next line. At the end, a line without an end is told, and then
// io.EOF.
func (r *Reader) Next() (Line, error) {
	for {
		line, err := r.next()
		if err == io.EOF && len(r.parts) > 0 {
			p := r.parts[0]
			p.close()
			r.parts = r.parts[1:]
			if line, torn := p.torn(); torn {
				return line, nil
			}
			continue
		}
		return line, err
	}
}

// Follow is Next, but waits at the end for more, until ctx ends: io.EOF. A log
// that is divided or replaced meanwhile is followed.
func (r *Reader) Follow(ctx context.Context) (Line, error) {
	for {
		line, err := r.next()
		if err != io.EOF || len(r.parts) == 0 {
			return line, err
		}
		p := r.parts[0]
		if len(r.parts) == 1 {
			moved := r.successors(p)
			if st, err := p.f.Stat(); err == nil && st.Size() < p.seen {
				moved = true
				if q, err := openPart(r.path); err == nil {
					r.parts = append(r.parts, q)
				}
			}
			if !moved {
				select {
				case <-ctx.Done():
					return Line{}, io.EOF
				case <-time.After(poll):
				}
				continue
			}
			// It is not written to any more: what came before it was left is all.
			if line, err := r.next(); err != io.EOF {
				return line, err
			}
		}
		p.close()
		r.parts = r.parts[1:]
		if line, torn := p.torn(); torn {
			return line, nil
		}
	}
}

// successors opens the parts that have come after p, and reports whether there
// are any.
func (r *Reader) successors(p *part) bool {
	parts, whole, err := r.chain(p)
	if err != nil || len(parts) == 0 {
		return false // removed, or the newest still
	}
	if !whole {
		r.gone = "records are missing here: parts of the log were dropped before they were read"
	}
	r.parts = append(r.parts, parts...)
	return true
}

func (r *Reader) next() (Line, error) {
	if len(r.parts) == 0 {
		return Line{}, io.EOF
	}
	p := r.parts[0]
	if r.gone != "" {
		problem := r.gone
		r.gone = ""
		return Line{File: p.name, N: p.n + 1, Problem: problem}, nil
	}
	for {
		piece, err := p.in.ReadSlice('\n')
		p.seen += int64(len(piece))
		if room := maxLine - len(p.kept); len(piece) > room {
			piece, p.long = piece[:room], true
		}
		p.kept = append(p.kept, piece...)
		switch {
		case err == bufio.ErrBufferFull:
			continue
		case err != nil:
			return Line{}, err
		}
		text, long := p.kept, p.long
		p.kept, p.long = nil, false
		p.n++
		line := Line{File: p.name, N: p.n}
		if long {
			line.Problem = fmt.Sprintf("a line of more than %d bytes", maxLine)
			return line, nil
		}
		if line.Record, err = decode(text); err != nil {
			line.Problem = err.Error()
		}
		return line, nil
	}
}

// torn is a line that has no end.
func (p *part) torn() (Line, bool) {
	if len(p.kept) == 0 {
		return Line{}, false
	}
	return Line{File: p.name, N: p.n + 1, Problem: "a record that is cut off: dshx was killed while it wrote it"}, true
}
