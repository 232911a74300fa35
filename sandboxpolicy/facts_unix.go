//go:build unix

package sandboxpolicy

import (
	"os"
	"syscall"
)

// lookDirect is lstat(2) and readlink(2) without the allocations of package
// os: a resolution asks some hundred times, mostly for what is not there.
func lookDirect(path string) entry {
	var st syscall.Stat_t
	if err := syscall.Lstat(path, &st); err != nil {
		return entry{}
	}
	switch st.Mode & syscall.S_IFMT {
	case syscall.S_IFDIR:
		return entry{kind: entryDir}
	case syscall.S_IFREG:
		return entry{kind: entryFile}
	case syscall.S_IFLNK:
		if t, err := os.Readlink(path); err == nil && t != "" {
			return entry{entryLink, t}
		}
	}
	return entry{kind: entryOther}
}

// readSmall reads a regular file of at most most bytes. It does without
// package os, whose first open file starts the runtime's poller: a tenth of
// a millisecond that a short run can do without.
func readSmall(path string, most int) ([]byte, error) {
	// A FIFO in the workspace must not stop dshx: O_NONBLOCK makes its open
	// return at once, open(2); the type is judged on the open descriptor.
	fd, err := ignoringEINTR(func() (int, error) {
		return syscall.Open(path, syscall.O_RDONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	})
	if err != nil {
		return nil, err
	}
	defer syscall.Close(fd)
	var st syscall.Stat_t
	if err := syscall.Fstat(fd, &st); err != nil {
		return nil, err
	}
	if st.Mode&syscall.S_IFMT != syscall.S_IFREG {
		return nil, errNotRegular
	}
	if st.Size > int64(most) {
		return nil, errTooLarge
	}
	// One byte more than the size, to see the end; it may grow meanwhile.
	// What /proc has no size of is longer than a few bytes.
	size := st.Size + 1
	if size == 1 {
		size = 4096
	}
	data := make([]byte, 0, size)
	for {
		if len(data) > most {
			return nil, errTooLarge
		}
		if len(data) == cap(data) {
			data = append(data, 0)[:len(data)]
		}
		n, err := ignoringEINTR(func() (int, error) { return syscall.Read(fd, data[len(data):cap(data)]) })
		if err != nil {
			return nil, err
		}
		if n == 0 {
			return data, nil
		}
		data = data[:len(data)+n]
	}
}

func ignoringEINTR(fn func() (int, error)) (int, error) {
	for {
		n, err := fn()
		if err != syscall.EINTR {
			return n, err
		}
	}
}
