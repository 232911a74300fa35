package sandbox

import (
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// HoldModes sees to it that descriptors which a command is given can't be
// opened anew for more than they are open for: the other end of a pipe, through
// /proc/self/fd. A shell that reads its script from a pipe, for one, would
// execute what its child wrote there. Landlock has no say about pipes and
// memory files, but their mode has: it is cut to what the descriptor gives.
//
// It changes the caller's own pipes, before the calling thread is in a domain.
// uid 0 is not held by it.
func HoldModes(fds ...int) {
	for _, fd := range fds {
		holdMode(fd)
	}
}

func holdMode(fd int) {
	var st unix.Stat_t
	if fd < 0 || unix.Fstat(fd, &st) != nil {
		return
	}
	switch kind := st.Mode & unix.S_IFMT; {
	case kind == unix.S_IFIFO, kind == unix.S_IFREG && st.Nlink == 0:
	default:
		return
	}
	// Others with such a mode have a name, which Landlock judges.
	var link [32]byte
	n, err := unix.Readlink("/proc/self/fd/"+strconv.Itoa(fd), link[:])
	if err != nil {
		return
	}
	if name := string(link[:n]); !strings.HasPrefix(name, "pipe:[") && !strings.HasPrefix(name, "/memfd:") {
		return
	}
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil {
		return
	}
	keep := map[int]uint32{unix.O_RDONLY: 0o555, unix.O_WRONLY: 0o222}[flags&unix.O_ACCMODE]
	if mode := st.Mode & 0o777; keep != 0 && mode&^keep != 0 {
		_ = unix.Fchmod(fd, mode&keep)
	}
}
