package supervise

import (
	"bytes"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// boundSockets remembers which sockets with names were bound by a process
// inside: whoever is inside may reach those and no others.
type boundSockets struct {
	mu    sync.Mutex
	files map[socketFile]string // to the path at the time of binding
	names map[string]uint64     // abstract name to the number of its socket
}

// socketFile is one socket in a file system. The birth time tells it from a
// later one that got the same inode number.
type socketFile struct {
	dev, ino uint64
	sec      int64
	nsec     uint32
}

// maxBound bounds what a command can make us remember; names of sockets that
// are gone are forgotten when it is reached.
const maxBound = 1 << 14

func (b *boundSockets) init() {
	b.files, b.names = map[socketFile]string{}, map[string]uint64{}
}

// socketAt returns the identity of the socket that fd is or that is called
// name in directory fd. A file system without birth times has none (ok false).
func socketAt(fd int, name string) (f socketFile, born time.Time, ok bool) {
	var sx unix.Statx_t
	flags := unix.AT_SYMLINK_NOFOLLOW
	if name == "" {
		flags |= unix.AT_EMPTY_PATH
	}
	const mask = unix.STATX_TYPE | unix.STATX_INO | unix.STATX_BTIME
	if unix.Statx(fd, name, flags, mask, &sx) != nil || sx.Mask&mask != mask || sx.Mode&unix.S_IFMT != unix.S_IFSOCK {
		return f, born, false
	}
	f = socketFile{unix.Mkdev(sx.Dev_major, sx.Dev_minor), sx.Ino, sx.Btime.Sec, sx.Btime.Nsec}
	return f, time.Unix(sx.Btime.Sec, int64(sx.Btime.Nsec)), true
}

func (b *boundSockets) addFile(f socketFile, path string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.files) >= maxBound {
		for old, at := range b.files {
			if now, _, ok := socketAt(unix.AT_FDCWD, at); !ok || now != old {
				delete(b.files, old)
			}
		}
	}
	if len(b.files) < maxBound {
		b.files[f] = path
	}
}

func (b *boundSockets) hasFile(fd int) bool {
	f, _, ok := socketAt(fd, "")
	if !ok {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	_, ok = b.files[f]
	return ok
}

// addName remembers that the socket fd has the abstract name.
func (b *boundSockets) addName(name string, fd int) {
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.names) >= maxBound {
		live := abstractNames()
		for n, ino := range b.names {
			if live[ino] != shownName(n) {
				delete(b.names, n)
			}
		}
	}
	if len(b.names) < maxBound {
		b.names[name] = st.Ino
	}
}

// hasName says whether the socket that was bound to name inside is still there:
// when it's gone, the name is free for others.
func (b *boundSockets) hasName(name string) bool {
	b.mu.Lock()
	ino, ok := b.names[name]
	b.mu.Unlock()
	if !ok {
		return false
	}
	if abstractNames()[ino] == shownName(name) {
		return true
	}
	b.mu.Lock()
	if b.names[name] == ino {
		delete(b.names, name)
	}
	b.mu.Unlock()
	return false
}

// shownName is name as /proc/net/unix writes it, proc_net_unix(5).
func shownName(name string) string {
	return "@" + string(bytes.ReplaceAll([]byte(name), []byte{0}, []byte{'@'}))
}

// abstractNames returns the abstract names of the network namespace by socket
// number. It's nil when the kernel won't say.
func abstractNames() map[uint64]string {
	b, err := os.ReadFile("/proc/thread-self/net/unix")
	if err != nil {
		return nil
	}
	return parseUnixTable(b)
}

func parseUnixTable(b []byte) map[uint64]string {
	names := map[uint64]string{}
	for len(b) > 0 {
		line := b
		if i := bytes.IndexByte(b, '\n'); i >= 0 {
			line, b = b[:i], b[i+1:]
		} else {
			b = nil
		}
		// Num RefCount Protocol Flags Type St Inode Path, the path verbatim.
		rest := line
		var word []byte
		for i := 0; i < 7; i++ {
			rest = bytes.TrimLeft(rest, " ")
			word, rest, _ = bytes.Cut(rest, []byte{' '})
		}
		if !bytes.HasPrefix(rest, []byte("@")) {
			continue
		}
		if ino, err := strconv.ParseUint(string(word), 10, 64); err == nil {
			names[ino] = string(rest)
		}
	}
	return names
}
