package spawn

import "unsafe"

// entries holds directory entries for tasks that can't allocate.
type entries [4096]byte

var (
	procSelfFD = [...]byte{'/', 'p', 'r', 'o', 'c', '/', 's', 'e', 'l', 'f', '/', 'f', 'd', 0}
	procDir    = [...]byte{'/', 'p', 'r', 'o', 'c', 0}
)

const atFdcwdArg = ^uintptr(99) // AT_FDCWD, -100

// fill reads the next entries of an open directory and returns their length
// in bytes, 0 at the end and on errors.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (b *entries) fill(dir uintptr) uintptr {
	got, e := sys(sysGetdents64, dir, uintptr(unsafe.Pointer(b)), uintptr(len(b)), 0, 0, 0)
	if e != 0 || got > uintptr(len(b)) {
		return 0
	}
	return got
}

// next reads the entry at off: its name as a number, or -1 where it isn't
// one, and the offset of the entry behind it (getdents64(2): the length of an
// entry at byte 16, its name from byte 19, ended by NUL).
//
//go:nosplit
//go:norace
func (b *entries) next(off, end uintptr) (n int, next uintptr) {
	if off+20 > end || off+20 > uintptr(len(b)) {
		return -1, end
	}
	length := uintptr(b[off+16]) | uintptr(b[off+17])<<8
	if length == 0 {
		return -1, end
	}
	n, digits := 0, false
	for at := off + 19; at < end && at < uintptr(len(b)); at++ {
		c := b[at]
		if c == 0 {
			break
		}
		if c < '0' || c > '9' || n > 1<<29 {
			return -1, off + length
		}
		n, digits = n*10+int(c-'0'), true
	}
	if !digits {
		return -1, off + length
	}
	return n, off + length
}
