package text

import (
	"bytes"
	"encoding/binary"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// An Encoding is how a file's characters are stored. The zero value is UTF8.
type Encoding uint8

const (
	UTF8    Encoding = iota // with or without a byte order mark
	UTF16LE                 // always with a byte order mark
	UTF16BE                 // always with a byte order mark
)

// String returns the name that clients see: "utf-8", "utf-16le" or "utf-16be".
func (e Encoding) String() string {
	switch e {
	case UTF16LE:
		return "utf-16le"
	case UTF16BE:
		return "utf-16be"
	}
	return "utf-8"
}

// mark returns the byte order mark of e.
func (e Encoding) mark() string {
	switch e {
	case UTF16LE:
		return "\xff\xfe"
	case UTF16BE:
		return "\xfe\xff"
	}
	return "\xef\xbb\xbf"
}

// DetectEncoding reads the byte order mark at the start of a file; head holds at
// least the first 3 bytes of a file that has them. bomBytes is the mark's length
// in bytes, 0 if there is none. Without a mark a file is UTF-8.
func DetectEncoding(head []byte) (e Encoding, bomBytes int) {
	for _, e := range []Encoding{UTF8, UTF16LE, UTF16BE} {
		if bytes.HasPrefix(head, []byte(e.mark())) {
			return e, len(e.mark())
		}
	}
	return UTF8, 0
}

// A Text is the whole of a file, decoded without loss: Decode(data).Encode()
// equals data for any data.
type Text struct {
	Encoding Encoding
	BOM      bool // the file starts with a byte order mark, which is not in Content

	// Content is the file's own bytes if it is UTF-8, the invalid ones included.
	// From UTF-16 it is UTF-8 too, and what has no character is kept as bytes that
	// no valid text holds: a lone surrogate as the three bytes that UTF-8 would
	// spend on it, half a code unit at the end of the file as FF 8x 8x.
	Content string
}

// Decode never fails: what is not valid is kept as it is.
func Decode(data []byte) Text {
	e, n := DetectEncoding(data)
	t := Text{Encoding: e, BOM: n > 0}
	if e == UTF8 {
		t.Content = string(data[n:])
	} else {
		t.Content = string(fromUTF16(nil, data[n:], e, true))
	}
	return t
}

// Encode returns the bytes of a file that holds t. For UTF-16, bytes of Content
// that neither are valid UTF-8 nor came from Decode become U+FFFD.
func (t Text) Encode() []byte {
	mark := ""
	if t.BOM {
		mark = t.Encoding.mark()
	}
	if t.Encoding == UTF8 {
		out := make([]byte, 0, len(mark)+len(t.Content))
		return append(append(out, mark...), t.Content...)
	}
	out := append(make([]byte, 0, len(mark)+2*len(t.Content)), mark...)
	unit := func(u uint16) {
		if t.Encoding == UTF16LE {
			out = append(out, byte(u), byte(u>>8))
		} else {
			out = append(out, byte(u>>8), byte(u))
		}
	}
	for s := t.Content; s != ""; {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && n == 1 && isSurrogate(s):
			unit(0xD000 | uint16(s[1]&0x3F)<<6 | uint16(s[2]&0x3F))
			n = 3
		case r == utf8.RuneError && n == 1 && len(s) == 3 && s[0] == 0xFF:
			out = append(out, s[1]<<4|s[2]&0x0F)
			n = 3
		case r >= 0x10000:
			hi, lo := utf16.EncodeRune(r)
			unit(uint16(hi))
			unit(uint16(lo))
		default:
			unit(uint16(r))
		}
		s = s[n:]
	}
	return out
}

// isSurrogate reports whether s begins with a surrogate in three bytes.
func isSurrogate(s string) bool {
	return len(s) >= 3 && s[0] == 0xED && s[1]&0xE0 == 0xA0 && s[2]&0xC0 == 0x80
}

// fromUTF16 appends src, code units of e without a mark, to dst as UTF-8. What has
// no character is appended as Text.Content keeps it if lossless, else as U+FFFD.
func fromUTF16(dst, src []byte, e Encoding, lossless bool) []byte {
	if dst == nil {
		dst = make([]byte, 0, len(src)/2+len(src)/8+4)
	}
	low, high := 0, 1
	beyond := uint64(0xFF80FF80FF80FF80) // the bits that ASCII has not, of four units
	if e == UTF16BE {
		low, high = 1, 0
		beyond = 0x80FF80FF80FF80FF
	}
	for len(src) >= 2 {
		if len(src) >= 8 && binary.LittleEndian.Uint64(src)&beyond == 0 {
			dst = append(dst, src[low], src[low+2], src[low+4], src[low+6])
			src = src[8:]
			continue
		}
		u := rune(src[low]) | rune(src[high])<<8
		switch {
		case u < 0x80:
			dst = append(dst, byte(u))
		case !utf16.IsSurrogate(u):
			dst = utf8.AppendRune(dst, u)
		default:
			if len(src) >= 4 {
				if r := utf16.DecodeRune(u, rune(src[2+low])|rune(src[2+high])<<8); r != utf8.RuneError {
					dst = utf8.AppendRune(dst, r)
					src = src[4:]
					continue
				}
			}
			if lossless {
				dst = append(dst, 0xED, 0x80|byte(u>>6)&0x3F, 0x80|byte(u)&0x3F)
			} else {
				dst = utf8.AppendRune(dst, utf8.RuneError)
			}
		}
		src = src[2:]
	}
	if len(src) == 1 {
		if lossless {
			dst = append(dst, 0xFF, 0x80|src[0]>>4, 0x80|src[0]&0x0F)
		} else {
			dst = utf8.AppendRune(dst, utf8.RuneError)
		}
	}
	return dst
}

// Valid returns s with each byte that is not UTF-8 replaced by one U+FFFD, as
// Read shows it.
func Valid(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	b.Grow(len(s) + 16)
	for _, r := range s {
		b.WriteRune(r)
	}
	return b.String()
}
