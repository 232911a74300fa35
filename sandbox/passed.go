package sandbox

import (
	"strconv"
	"strings"

	"github.com/dshx/dshx/sandbox/internal/proctree"
	"github.com/dshx/dshx/sandbox/internal/supervise"
	"golang.org/x/sys/unix"
)

// HoldModes keeps descriptors that a command is given from being opened anew,
// through /proc/self/fd, for more than they are open for, where that would let
// it out: a shell that reads its script from a pipe would execute what its
// child writes into the pipe's other end. Landlock has no say about pipes and
// memory files (security/landlock/fs.c, file systems that nobody mounts), but
// their mode has: it is cut to what the descriptor gives.
//
// A pipe is cut only where a process above this one reads its standard input
// from it too. The mode is the pipe's, not the descriptor's: cutting others would
// take /dev/stdin and /dev/stdout from the caller's own pipelines.
//
// It changes the caller's own files, before the calling thread is in a domain.
// uid 0 is not held by it. What it returns is for OpenHere, whose commands
// can't undo it.
func HoldModes(fds ...int) (held []HeldFile) {
	for _, fd := range fds {
		if f, ok := holdMode(fd); ok {
			held = append(held, f)
		}
	}
	return held
}

// HeldFile is a file whose mode HoldModes keeps.
type HeldFile = supervise.File

func holdMode(fd int) (f HeldFile, ok bool) {
	var st unix.Stat_t
	if fd < 0 || unix.Fstat(fd, &st) != nil {
		return f, false
	}
	switch kind := st.Mode & unix.S_IFMT; {
	case kind == unix.S_IFIFO, kind == unix.S_IFREG && st.Nlink == 0:
	default:
		return f, false
	}
	// Others with such a mode have a name, which Landlock judges.
	var link [32]byte
	n, err := unix.Readlink("/proc/self/fd/"+strconv.Itoa(fd), link[:])
	if err != nil {
		return f, false
	}
	name := string(link[:n])
	pipe := strings.HasPrefix(name, "pipe:[")
	if !pipe && !strings.HasPrefix(name, "/memfd:") {
		return f, false
	}
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil {
		return f, false
	}
	if pipe && (flags&unix.O_ACCMODE != unix.O_RDONLY || !inputOfAncestor(name)) {
		return f, false
	}
	keep := map[int]uint32{unix.O_RDONLY: 0o555, unix.O_WRONLY: 0o222}[flags&unix.O_ACCMODE]
	if keep == 0 {
		return f, false // open for both
	}
	if mode := st.Mode & 0o777; mode&^keep != 0 {
		_ = unix.Fchmod(fd, mode&keep)
	}
	// Also where the mode was as it should be: its owner could change it.
	return HeldFile{Dev: st.Dev, Ino: st.Ino}, true
}

// inputOfAncestor reports whether a process above this one has the file as its
// standard input.
func inputOfAncestor(name string) bool {
	var link [64]byte
	for pid, levels := unix.Getppid(), 0; pid > 1 && levels < 16; levels++ {
		n, err := unix.Readlink("/proc/"+strconv.Itoa(pid)+"/fd/0", link[:])
		if err == nil && string(link[:n]) == name {
			return true
		}
		if pid = proctree.Parent(pid); pid == 0 {
			break
		}
	}
	return false
}
