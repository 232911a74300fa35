package rawfs

import (
	"errors"
	"io/fs"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// dirFlags opens directories only, and never waits.
const dirFlags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC

// maxPath is what is handed to the kernel at once, in bytes; PATH_MAX is 4096.
const maxPath = 4000

// noOpenat2 is set when openat2 turned out to be missing: a seccomp filter
// around the whole program may answer ENOSYS.
var noOpenat2 atomic.Bool

// OpenDir opens the directory at path below root, following no symbolic link
// in any component. An empty path is root itself.
//
// crossed reports that path lies on another mount than root, which is where
// /proc and its like are found. It is always true where openat2 is missing.
func OpenDir(root int, path string) (fd int, crossed bool, err error) {
	if path == "" {
		path = "."
	}
	at := root
	for {
		// A path longer than the kernel takes is opened in parts.
		part := path
		if len(part) > maxPath {
			end := strings.LastIndexByte(part[:maxPath], '/')
			if end < 0 {
				end = maxPath
			}
			part = part[:end]
		}
		path = strings.TrimPrefix(path[len(part):], "/")
		next, x, err := openDir(at, part)
		if at != root {
			unix.Close(at)
		}
		if err != nil {
			return -1, false, err
		}
		at, crossed = next, crossed || x
		if path == "" {
			return at, crossed, nil
		}
	}
}

// openDir is OpenDir for one path that is short enough.
func openDir(root int, path string) (int, bool, error) {
	if !noOpenat2.Load() {
		how := unix.OpenHow{Flags: dirFlags, Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV}
		fd, err := openat2(root, path, &how)
		crossed := err == unix.EXDEV
		if crossed {
			how.Resolve &^= unix.RESOLVE_NO_XDEV
			fd, err = openat2(root, path, &how)
		}
		if err != unix.ENOSYS {
			return fd, crossed, err
		}
		noOpenat2.Store(true)
	}
	at := root
	for name := range strings.SplitSeq(path, "/") {
		next, err := openat(at, name)
		if at != root {
			unix.Close(at)
		}
		if err != nil {
			return -1, false, err
		}
		at = next
	}
	return at, true, nil
}

func openat2(root int, path string, how *unix.OpenHow) (int, error) {
	for {
		fd, err := unix.Openat2(root, path, how)
		// EAGAIN: something on the way was renamed meanwhile: openat2(2).
		if err != unix.EINTR && err != unix.EAGAIN {
			return fd, err
		}
	}
}

func openat(dir int, name string) (int, error) {
	for {
		fd, err := unix.Openat(dir, name, dirFlags, 0)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

// Read reads once, up to len(p) bytes. 0 without an error is the end.
func Read(fd int, p []byte) (int, error) {
	for {
		n, err := unix.Read(fd, p)
		if err != unix.EINTR {
			return max(n, 0), err
		}
	}
}

// Type is the type of a directory entry.
type Type uint8

// The types of directory entries.
const (
	Unknown Type = iota
	File
	Directory
	Symlink
	Other // FIFO, socket, device
)

// TypeOf translates the type bits of a file's mode.
func TypeOf(mode uint32) Type {
	switch mode & unix.S_IFMT {
	case unix.S_IFREG:
		return File
	case unix.S_IFDIR:
		return Directory
	case unix.S_IFLNK:
		return Symlink
	}
	return Other
}

// Entries reads the next part of a directory into buf and calls each for every
// entry but "." and "..", in the order of the file system. name is valid
// during the call only. n is 0 at the end of the directory.
//
// The type is Unknown where the file system does not tell.
func Entries(fd int, buf []byte, each func(name []byte, t Type)) (n int, err error) {
	for {
		n, err = unix.Getdents(fd, buf)
		if err != unix.EINTR {
			break
		}
	}
	if err != nil {
		return 0, err
	}
	// struct linux_dirent64: ino 8, off 8, reclen 2, type 1, name: getdents64(2).
	for rest := buf[:max(n, 0)]; len(rest) >= 19; {
		size := int(uint16(rest[16]) | uint16(rest[17])<<8)
		if size < 19 || size > len(rest) {
			return 0, unix.EIO
		}
		name := rest[19:size]
		for i, b := range name {
			if b == 0 {
				name = name[:i]
				break
			}
		}
		kind := rest[18]
		rest = rest[size:]
		if string(name) == "." || string(name) == ".." || len(name) == 0 {
			continue
		}
		t := Other
		switch kind {
		case unix.DT_UNKNOWN:
			t = Unknown
		case unix.DT_REG:
			t = File
		case unix.DT_DIR:
			t = Directory
		case unix.DT_LNK:
			t = Symlink
		}
		each(name, t)
	}
	return n, nil
}

// ErrNotRegular is the error for what should be a regular file and isn't.
var ErrNotRegular = errors.New("not a regular file")

// ErrTooLarge is the error for a file over the limit.
var ErrTooLarge = errors.New("file is too large")

// ReadFile returns the bytes of a regular file of at most max bytes. A
// symbolic link as the last component is followed when follow is set. It never
// blocks.
//
// Errors are *fs.PathError; among their causes ErrNotRegular, ErrTooLarge.
func ReadFile(path string, follow bool, max int) ([]byte, error) {
	return ReadFileAt(unix.AT_FDCWD, path, follow, max)
}

// ReadFileAt is ReadFile for a path relative to the directory dir.
func ReadFileAt(dir int, path string, follow bool, max int) ([]byte, error) {
	fail := func(err error) ([]byte, error) { return nil, &fs.PathError{Op: "read", Path: path, Err: err} }
	flags := unix.O_RDONLY | unix.O_NONBLOCK | unix.O_CLOEXEC
	if !follow {
		flags |= unix.O_NOFOLLOW
	}
	var fd int
	for {
		var err error
		if fd, err = unix.Openat(dir, path, flags, 0); err == nil {
			break
		} else if err != unix.EINTR {
			return fail(err)
		}
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fail(err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return fail(ErrNotRegular)
	}
	if st.Size > int64(max) {
		return fail(ErrTooLarge)
	}
	data := make([]byte, 0, st.Size+1)
	for {
		if len(data) == cap(data) {
			data = append(data, 0)[:len(data)]
		}
		n, err := Read(fd, data[len(data):cap(data)])
		if err != nil {
			return fail(err)
		}
		if n == 0 {
			return data, nil
		}
		data = data[:len(data)+n]
		if len(data) > max {
			return fail(ErrTooLarge)
		}
	}
}
