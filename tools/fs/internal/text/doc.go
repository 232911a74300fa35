// Package text says whether a file is text, reads a window of its lines, and
// decodes it without loss.
//
// Text is UTF-8, with or without a byte order mark and with any number of
// invalid bytes in it, or UTF-16 behind a byte order mark. A file with a NUL
// character is not text, nor is one that begins like a known binary format and
// goes on with bytes that text does not have.
//
// A line ends with LF, CRLF or a lone CR, in whatever mixture; the last line
// may have no end. These are the lines that every file tool counts.
//
//	w, err := text.Read(f, size, 1, 2000)
//
// The package opens nothing and decides nothing about access: the caller gives
// it a reader. It detects formats for messages, not for safety: what it calls
// text can still be hostile.
//
// Only the file tools may import it.
package text
