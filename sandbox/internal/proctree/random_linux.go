package proctree

import "golang.org/x/sys/unix"

// Random fills b, which has at most 256 bytes. It asks the kernel directly:
// crypto/rand and what it initialises cost more than the rest of a start.
func Random(b []byte) {
	for {
		// Up to 256 bytes come whole, and can't fail but for a signal before
		// the pool is ready: getrandom(2).
		n, err := unix.Getrandom(b, 0)
		if n == len(b) {
			return
		}
		if err != nil && err != unix.EINTR {
			panic("dshx: getrandom: " + err.Error())
		}
	}
}
