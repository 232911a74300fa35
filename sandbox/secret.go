package sandbox

import (
	"crypto/rand"
	"encoding/binary"
)

func newSecret() [2]uint64 {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand
	return [2]uint64{binary.NativeEndian.Uint64(b[:8]), binary.NativeEndian.Uint64(b[8:])}
}
