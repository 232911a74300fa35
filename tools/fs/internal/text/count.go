package text

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// Eight bytes at a time: what the standard library has for these two takes longer
// than reading the file.

const (
	ones  = 0x0101010101010101
	highs = 0x80 * ones
)

// zeros returns the high bit of each byte of v that is zero.
func zeros(v uint64) uint64 {
	return ^(v&^highs + ^uint64(highs) | v) & highs
}

// countCRLF returns how many CRLF data has.
func countCRLF(data []byte) int {
	n, i := 0, 0
	for ; i+9 <= len(data); i += 8 {
		cr := binary.LittleEndian.Uint64(data[i:]) ^ '\r'*ones
		lf := binary.LittleEndian.Uint64(data[i+1:]) ^ '\n'*ones
		n += bits.OnesCount64(zeros(cr | lf))
	}
	for ; i+1 < len(data); i++ {
		if data[i] == '\r' && data[i+1] == '\n' {
			n++
		}
	}
	return n
}

// runeCount returns what utf8.RuneCount does.
func runeCount(data []byte) int {
	if !utf8.Valid(data) {
		return utf8.RuneCount(data)
	}
	// All bytes that do not continue a character: those are 10xxxxxx.
	n := len(data)
	i := 0
	for ; i+8 <= len(data); i += 8 {
		v := binary.LittleEndian.Uint64(data[i:])
		n -= bits.OnesCount64(v &^ (v << 1) & highs)
	}
	for ; i < len(data); i++ {
		if data[i]&0xC0 == 0x80 {
			n--
		}
	}
	return n
}
