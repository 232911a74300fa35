package sandbox

import (
	"encoding/binary"
	"github.com/dshx/dshx/sandbox/internal/proctree"
)

func newSecret() [2]uint64 {
	var b [16]byte
	proctree.Random(b[:])
	return [2]uint64{binary.NativeEndian.Uint64(b[:8]), binary.NativeEndian.Uint64(b[8:])}
}
