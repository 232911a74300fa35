package ignore

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"slices"
	"sort"
	"strings"
)

// maxIndex is the largest index that is read, in bytes: several million files.
const maxIndex = 1 << 30

var errIndex = errors.New("not an index that this package reads")

// parseIndex returns the paths that an index of version 2, 3 or 4 tracks,
// sorted. hashSize is 20 or 32 bytes, by the repository's object format.
// shared is the name of the other half of a split index, or empty.
//
// The format: gitformat-index(5).
func parseIndex(data []byte, hashSize int) (paths []string, shared string, err error) {
	if len(data) < 12+hashSize || string(data[:4]) != "DIRC" {
		return nil, "", errIndex
	}
	version := binary.BigEndian.Uint32(data[4:])
	count := int(binary.BigEndian.Uint32(data[8:]))
	if version < 2 || version > 4 || count > len(data)/(42+hashSize)+1 {
		return nil, "", errIndex
	}
	text := string(data) // paths of versions 2 and 3 are parts of it
	end := len(data) - hashSize
	at := 12
	paths = make([]string, 0, count)
	var last []byte
	for range count {
		// Ten 32-bit fields, hash, flags, perhaps more flags, path.
		start := at
		at += 40 + hashSize
		if at+2 > end {
			return nil, "", errIndex
		}
		flags := binary.BigEndian.Uint16(data[at:])
		at += 2
		if flags&0x4000 != 0 {
			if at += 2; version == 2 {
				return nil, "", errIndex
			}
		}
		if at > end {
			return nil, "", errIndex
		}
		drop := 0
		if version == 4 {
			var n int
			if drop, n = offset(data[at:end]); n == 0 || drop > len(last) {
				return nil, "", errIndex
			}
			at += n
		}
		size := bytes.IndexByte(data[at:end], 0)
		if size < 0 {
			return nil, "", errIndex
		}
		path := text[at : at+size]
		at += size + 1
		if version == 4 {
			last = append(last[:len(last)-drop], path...)
			path = string(last)
		} else {
			// One to eight NUL bytes, so that the entry is a multiple of eight.
			at = start + (at-1-start+8)/8*8
		}
		if path == "" {
			continue // replaces an entry of a split index's shared half
		}
		if n := len(paths); n == 0 || paths[n-1] != path { // stages of a conflict
			paths = append(paths, path)
		}
	}
	for at+8 <= end {
		name, size := text[at:at+4], int(binary.BigEndian.Uint32(data[at+4:]))
		if at += 8; size > end-at {
			break
		}
		if name == "link" && size >= hashSize {
			const hex = "0123456789abcdef"
			var b strings.Builder
			zero := true
			for _, c := range data[at : at+hashSize] {
				b.WriteByte(hex[c>>4])
				b.WriteByte(hex[c&15])
				zero = zero && c == 0
			}
			if !zero {
				shared = "sharedindex." + b.String()
			}
		}
		at += size
	}
	if !slices.IsSorted(paths) {
		slices.Sort(paths)
	}
	return paths, shared, nil
}

// offset reads a number in the encoding of pack files' offsets; n is 0 when
// there is none.
func offset(data []byte) (value, n int) {
	for i, b := range data {
		if i == 5 {
			break
		}
		if i > 0 {
			value = (value + 1) << 7
		}
		value |= int(b & 0x7f)
		if b&0x80 == 0 {
			return value, i + 1
		}
	}
	return 0, 0
}

// A trackedSet is what an index tracks: sorted paths from the repository's root.
type trackedSet []string

// has reports whether path itself is tracked: a file, or a submodule's directory.
func (s trackedSet) has(path []byte) bool {
	_, ok := sort.Find(len(s), func(i int) int { return compare(path, s[i]) })
	return ok
}

// below reports whether anything in the directory dir, which ends in a slash,
// is tracked.
func (s trackedSet) below(dir []byte) bool {
	i := sort.Search(len(s), func(i int) bool { return compare(dir, s[i]) <= 0 })
	return i < len(s) && len(s[i]) >= len(dir) && s[i][:len(dir)] == string(dir)
}

func compare(a []byte, b string) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return cmp.Compare(a[i], b[i])
		}
	}
	return cmp.Compare(len(a), len(b))
}
