package fs

import (
	"strconv"

	"github.com/dshx/dshx/sandboxpolicy"
	"golang.org/x/sys/unix"
)

// maxRaces is how often something may be swapped under a call before it gives
// up.
const maxRaces = 8

// openReal opens a path in which no link is to be followed: it was resolved,
// so a link has come there since, and what it leads to was not judged.
//
// Errors: errnos; ELOOP for a link.
func openReal(path string, flags int) (int, error) {
	if flags&unix.O_PATH == 0 { // beside which openat2 takes few others
		flags |= unix.O_NOCTTY
	}
	how := unix.OpenHow{
		Flags:   uint64(flags | unix.O_NOFOLLOW | unix.O_CLOEXEC),
		Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	}
	for {
		fd, err := unix.Openat2(unix.AT_FDCWD, path, &how)
		switch err {
		case unix.EINTR, unix.EAGAIN: // openat2(2): something on the way was renamed
		case unix.ENOSYS: // a filter around dshx
			return openByName(path, int(how.Flags))
		default:
			return fd, err
		}
	}
}

// openByName is openReal for kernels without openat2: the kernel says where the
// descriptor leads.
func openByName(path string, flags int) (int, error) {
	fd, err := retry(func() (int, error) { return unix.Open(path, flags, 0) })
	if err != nil {
		return -1, err
	}
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlink("/proc/self/fd/"+strconv.Itoa(fd), buf)
	if err == nil && string(buf[:n]) != path {
		err = unix.ELOOP
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// retry calls f until no signal interrupts it.
func retry(f func() (int, error)) (int, error) {
	for {
		n, err := f()
		if err != unix.EINTR {
			return n, err
		}
	}
}

// open opens w's path for reading: a regular file or a directory. What is
// neither is looked at without opening it, which can have effects; and what
// takes the place of a file between the look and the opening doesn't block.
//
// Errors: those of failed; rawfs.ErrNotRegular's code.
func (w *work) open() (fd int, st unix.Stat_t, err error) {
	for range maxRaces {
		if fd, st, err = w.openOnce(); err != unix.ELOOP {
			break
		}
		// A link has come into the path: what it means has to be found and
		// judged again.
		at, err := resolve(w.in.Policy(), w.at.said)
		if err != nil {
			return -1, st, err
		}
		at.spill = w.at.spill && at.real == w.at.real
		w.at = at
		if err := w.judge(sandboxpolicy.OpRead, at.real); err != nil {
			return -1, st, err
		}
	}
	if err != nil {
		return -1, st, w.failed(sandboxpolicy.OpRead, err)
	}
	if w.at.slash && st.Mode&unix.S_IFMT != unix.S_IFDIR {
		_ = unix.Close(fd)
		return -1, st, w.failed(sandboxpolicy.OpRead, unix.ENOTDIR)
	}
	return fd, st, nil
}

func (w *work) openOnce() (fd int, st unix.Stat_t, err error) {
	look, err := openReal(w.at.real, unix.O_PATH)
	if err != nil {
		return -1, st, err
	}
	err = unix.Fstat(look, &st)
	_ = unix.Close(look)
	if err == nil {
		err = readable(&st)
	}
	if err != nil {
		return -1, st, err
	}
	if fd, err = openReal(w.at.real, unix.O_RDONLY|unix.O_NONBLOCK); err != nil {
		return -1, st, err
	}
	if err = unix.Fstat(fd, &st); err == nil {
		err = readable(&st)
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, st, err
	}
	return fd, st, nil
}

// readable is nil for what a tool opens.
func readable(st *unix.Stat_t) error {
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG, unix.S_IFDIR:
		return nil
	case unix.S_IFLNK:
		return unix.ELOOP
	}
	return unix.ENXIO
}
