package fsobserve

import (
	"fmt"
	"hash"

	"github.com/cespare/xxhash/v2"
	"golang.org/x/sys/unix"
)

// State is what a file was like when it was read.
type State struct {
	Dev, Ino     uint64
	Links        uint64 // names that it has
	Size         int64  // in bytes, of what was read
	Mtime, Ctime int64  // in ns since 1970
	Hash         uint64
}

// StateOf is the state of a file of which size bytes were read, with that hash.
func StateOf(st *unix.Stat_t, size int64, hash uint64) State {
	return State{
		Dev: st.Dev, Ino: st.Ino, Links: uint64(st.Nlink), Size: size, Hash: hash,
		Mtime: st.Mtim.Nano(), Ctime: st.Ctim.Nano(),
	}
}

// Version names the content, for clients to compare.
func (s State) Version() string { return fmt.Sprintf("%016x", s.Hash) }

// Same reports that the content is the same.
func (s State) Same(o State) bool { return s.Size == o.Size && s.Hash == o.Hash }

// NewHash makes the hash of a content that is read in pieces.
func NewHash() hash.Hash64 { return xxhash.New() }

// Hash is the hash of a content.
func Hash(content []byte) uint64 { return xxhash.Sum64(content) }
