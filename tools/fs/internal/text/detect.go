package text

import (
	"bytes"
	"fmt"
	"unicode/utf8"
)

// A NotTextError says that a file is not text (FS_NOT_TEXT).
type NotTextError struct {
	Type string // a MIME type, "application/octet-stream" if nothing better is known
	Size int64  // of the file, in bytes
}

func (e *NotTextError) Error() string {
	return fmt.Sprintf("not text: %s of %d bytes", e.Type, e.Size)
}

// Code returns FS_NOT_TEXT.
func (e *NotTextError) Code() string { return "FS_NOT_TEXT" }

const unknownType = "application/octet-stream"

// A signature is how files of a format begin.
type signature struct {
	at    int // bytes before magic
	magic string
	mime  string
	means trust
}

// A trust is what a signature says about a file that has no NUL.
type trust uint8

const (
	textNever   trust = iota // no text begins so
	textIfPlain              // a text may ("GIF89a is a format"), but then it is UTF-8 without control characters
	nameOnly                 // nothing: too many texts begin so ("BMW"); a file that has a NUL gets its name from it
)

// Of two signatures that fit, the first counts.
var signatures = []signature{
	{0, "\xff\xfe\x00\x00", "text/plain; charset=utf-32le", textNever},
	{0, "\x00\x00\xfe\xff", "text/plain; charset=utf-32be", textNever},
	{0, "\x89PNG\r\n\x1a\n", "image/png", textNever},
	{0, "\xff\xd8\xff", "image/jpeg", textNever},
	{0, "GIF87a", "image/gif", textIfPlain},
	{0, "GIF89a", "image/gif", textIfPlain},
	{8, "WEBP", "image/webp", textIfPlain},
	{8, "WAVE", "audio/wav", textIfPlain},
	{8, "AVI ", "video/x-msvideo", textIfPlain},
	{0, "II*\x00", "image/tiff", textNever},
	{0, "MM\x00*", "image/tiff", textNever},
	{0, "\x00\x00\x01\x00", "image/x-icon", textNever},
	{4, "ftypavif", "image/avif", textIfPlain},
	{4, "ftypheic", "image/heic", textIfPlain},
	{4, "ftyp", "video/mp4", nameOnly},
	{0, "BM", "image/bmp", nameOnly},
	{0, "%PDF-", "application/pdf", textIfPlain},
	{0, "\x1f\x8b", "application/gzip", textNever},
	{0, "PK\x03\x04", "application/zip", textNever},
	{0, "PK\x05\x06", "application/zip", textNever},
	{0, "BZh", "application/x-bzip2", nameOnly},
	{0, "\xfd7zXZ\x00", "application/x-xz", textNever},
	{0, "\x28\xb5\x2f\xfd", "application/zstd", textNever},
	{0, "\x04\x22\x4d\x18", "application/x-lz4", textNever},
	{0, "7z\xbc\xaf\x27\x1c", "application/x-7z-compressed", textNever},
	{0, "Rar!\x1a\x07", "application/vnd.rar", textNever},
	{257, "ustar", "application/x-tar", nameOnly},
	{0, "\x7fELF", "application/x-elf", textNever},
	{0, "\xcf\xfa\xed\xfe", "application/x-mach-binary", textNever},
	{0, "\xce\xfa\xed\xfe", "application/x-mach-binary", textNever},
	{0, "\xca\xfe\xba\xbe", "application/java-vm", textNever},
	{0, "MZ", "application/vnd.microsoft.portable-executable", nameOnly},
	{0, "\x00asm", "application/wasm", textNever},
	{0, "!<arch>\n", "application/x-archive", textIfPlain},
	{0, "SQLite format 3\x00", "application/vnd.sqlite3", textNever},
	{0, "\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "application/x-ole-storage", textNever},
	{0, "\x1a\x45\xdf\xa3", "video/x-matroska", textNever},
	{0, "OggS", "application/ogg", textIfPlain},
	{0, "fLaC", "audio/flac", textIfPlain},
	{0, "ID3", "audio/mpeg", nameOnly},
	{0, "wOFF", "font/woff", textIfPlain},
	{0, "wOF2", "font/woff2", textIfPlain},
	{0, "OTTO", "font/otf", nameOnly},
	{0, "\x00\x01\x00\x00\x00", "font/ttf", textNever},
	{0, "PAR1", "application/vnd.apache.parquet", nameOnly},
	{0, "PACK\x00", "application/x-git-packfile", textNever},
	{0, "\xed\xab\xee\xdb", "application/x-rpm", textNever},
}

// detect names the format that head, the first bytes of a file, begins like.
func detect(head []byte) (mime string, means trust) {
	for _, s := range signatures {
		if len(head) >= s.at+len(s.magic) && string(head[s.at:s.at+len(s.magic)]) == s.magic {
			if s.at == 8 && !bytes.HasPrefix(head, []byte("RIFF")) {
				continue
			}
			return s.mime, s.means
		}
	}
	return unknownType, nameOnly
}

// Type names the format of a binary file by its first bytes, 512 of which are
// enough; "application/octet-stream" if it knows none. A text can begin like a
// binary format: only Read and Inspect say that a file isn't text.
func Type(head []byte) string {
	mime, _ := detect(head)
	return mime
}

// isControl reports whether b is a control character that text does not use: any
// but BS, TAB, LF, VT, FF, CR and ESC.
func isControl(b byte) bool {
	return b < 0x20 && (b < '\b' || b > '\r') && b != 0x1B || b == 0x7F
}

// hasBinary reports whether data, which does not begin or end within a rune, has
// a byte that plain UTF-8 text has not.
func hasBinary(data []byte) bool {
	return !utf8.Valid(data) || bytes.ContainsFunc(data, func(r rune) bool { return r < 0x80 && isControl(byte(r)) })
}

// isNoise reports whether data looks like compressed or encrypted bytes, of which a
// short piece may have no NUL. Text in an old encoding has many bytes that are not
// UTF-8 but no control characters; records joined by control characters are UTF-8;
// random bytes have a tenth of the one and half of the other.
func isNoise(data []byte) bool {
	controls, invalid := 0, 0
	for i := 0; i < len(data); {
		if data[i] < utf8.RuneSelf {
			if isControl(data[i]) {
				controls++
			}
			i++
			continue
		}
		r, n := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && n == 1 {
			invalid++
		}
		i += n
	}
	return controls > len(data)/20 && invalid > len(data)/10
}
