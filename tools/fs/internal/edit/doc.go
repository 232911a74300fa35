// Package edit replaces literal text in a file's bytes.
//
// Text is matched as it stands, but for line ends: an LF or CRLF in the text to
// find matches any line end of the file, so that text copied from lines that are
// shown without their ends can be found. What is put in gets the line ends that
// the file has at that place. Bytes outside of a match never change: invalid
// UTF-8, a byte order mark, other line ends and a missing final one stay. UTF-16
// is edited in UTF-16.
//
//	res, err := edit.Apply(data, []edit.Edit{{Old: "x := 1", New: "x := 2"}})
//
// All edits are made or none. Nothing is read or written here: that the bytes are
// still those of the file is the caller's to ensure, and whether they are text.
//
// Only the file tools may import it.
package edit
