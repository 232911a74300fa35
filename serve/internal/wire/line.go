package wire

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// MaxLine is the longest line that front doors take, in bytes, without its end.
const MaxLine = 64 << 20

// idPrefix is how much of a longer line is kept, for the id in it.
const idPrefix = 64 << 10

// Lines reads lines of bounded length.
type Lines struct {
	r   *bufio.Reader
	max int
	n   int // of the last line, from 1
	buf []byte

	open bool // of a line that was too long there is more
}

// NewLines reads the lines of r that are at most max bytes long.
func NewLines(r io.Reader, max int) *Lines {
	return &Lines{r: bufio.NewReaderSize(r, 64<<10), max: max}
}

// Number is that of the last line, from 1, blank ones counted.
func (l *Lines) Number() int { return l.n }

// ErrLong is the error of a line that is too long. What Next returned of it is
// its beginning; Skip reads the rest away.
var ErrLong = errors.New("the line is too long")

// Next returns the next line that isn't blank, without its end, a carriage
// return before it, and a byte order mark at the very beginning. It is valid
// until the call after. The last line may have no end. Errors: ErrLong, io.EOF,
// and the reader's.
func (l *Lines) Next() ([]byte, error) {
	for {
		line, err := l.read()
		if err != nil {
			return line, err
		}
		if len(bytes.TrimSpace(line)) > 0 {
			return line, nil
		}
	}
}

func (l *Lines) read() ([]byte, error) {
	if cap(l.buf) > 1<<20 {
		l.buf = nil // one long line is no reason to keep its memory
	}
	l.buf = l.buf[:0]
	l.n++
	for {
		part, err := l.r.ReadSlice('\n')
		l.buf = append(l.buf, part...)
		line := bytes.TrimSuffix(bytes.TrimSuffix(l.buf, []byte("\n")), []byte("\r"))
		if len(line) > l.max {
			l.open = err == bufio.ErrBufferFull
			begin := bytes.Clone(line[:min(len(line), idPrefix)])
			l.buf = nil
			return begin, ErrLong
		}
		switch {
		case err == nil, err == io.EOF && len(l.buf) > 0:
			if l.n == 1 {
				line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
			}
			return line, nil
		case err != bufio.ErrBufferFull:
			return nil, err
		}
	}
}

// Skip reads away what is left of a line that was too long.
func (l *Lines) Skip() error {
	for l.open {
		_, err := l.r.ReadSlice('\n')
		l.open = err == bufio.ErrBufferFull
		if err != nil && !l.open {
			return err
		}
	}
	return nil
}
