package rawfs

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// OpenAt opens name in the directory dir for reading, with flags beside
// O_RDONLY, O_NOFOLLOW, O_NONBLOCK and O_CLOEXEC. The last byte of name must
// be NUL: unix.Openat would copy the name to append one, which for a tree of
// small files is one allocation for each.
//
// The errno is 0 on success; ELOOP is a symbolic link.
func OpenAt(dir int, name []byte, flags int) (int, unix.Errno) {
	if len(name) == 0 || name[len(name)-1] != 0 {
		return -1, unix.EINVAL
	}
	flags |= unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC
	for {
		fd, _, errno := unix.Syscall6(unix.SYS_OPENAT, uintptr(dir), uintptr(unsafe.Pointer(&name[0])), uintptr(flags), 0, 0, 0)
		if errno == 0 {
			return int(fd), 0
		}
		if errno != unix.EINTR {
			return -1, errno
		}
	}
}
