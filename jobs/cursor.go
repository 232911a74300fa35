package jobs

import (
	"encoding/base64"
	"encoding/binary"
	"math"
)

// Cursor is a reader's place in the output of one job, in both streams. It is
// opaque: only what Read returned means something, for the same job.
type Cursor string

// maxCursor is the length in bytes of the longest Cursor, decoded.
const maxCursor = 8 + streams*binary.MaxVarintLen64

// newCursor makes the Cursor for offsets in the job whose mark is given. The
// mark is random for each job, so that a cursor of another one, with the same
// id in another owner or another run of the program, is not taken.
func newCursor(mark uint64, offsets [streams]int64) Cursor {
	b := make([]byte, 0, maxCursor)
	b = binary.BigEndian.AppendUint64(b, mark)
	for _, n := range offsets {
		b = binary.AppendUvarint(b, uint64(n))
	}
	return Cursor(base64.RawURLEncoding.EncodeToString(b))
}

// parse is the inverse of newCursor. It takes nothing that newCursor does not make.
func (c Cursor) parse() (mark uint64, offsets [streams]int64, ok bool) {
	if len(c) > base64.RawURLEncoding.EncodedLen(maxCursor) {
		return 0, offsets, false
	}
	b, err := base64.RawURLEncoding.DecodeString(string(c))
	if err != nil || len(b) < 8 {
		return 0, offsets, false
	}
	mark, b = binary.BigEndian.Uint64(b), b[8:]
	for i := range streams {
		n, size := binary.Uvarint(b)
		if size <= 0 || n > math.MaxInt64 {
			return 0, offsets, false
		}
		offsets[i], b = int64(n), b[size:]
	}
	// Base64 and varints have several spellings; a cursor has one.
	return mark, offsets, len(b) == 0 && newCursor(mark, offsets) == c
}
