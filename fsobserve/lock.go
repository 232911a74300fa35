package fsobserve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"
	"golang.org/x/sys/unix"
)

// lockWait is how long another process's lock is waited for. Locks are held
// for one replacement, so a longer one is somebody who blocks on purpose.
const lockWait = 10 * time.Second

// locker makes changes of one file happen one after the other: those of this
// process by a channel, those of other processes by a lock on one byte of a
// file that all share. The byte is chosen by the file's name.
//
// The lock is an "open file description" lock, fcntl(2): it ends with the
// descriptor, so a killed process holds nothing, and it is the descriptor's
// rather than the process's, so no other descriptor can drop it.
type locker struct {
	path string

	mu   sync.Mutex
	fd   int
	held map[int64]*held
}

// held is a byte that is locked or waited for.
type held struct {
	turn  chan struct{} // full while somebody has it
	users int
}

// A BusyError says that another process did not let go of a file (FS_IO_ERROR).
type BusyError struct{}

func (*BusyError) Error() string {
	return fmt.Sprintf("another process has been changing it for more than %v; try again", lockWait)
}

// Code returns FS_IO_ERROR.
func (*BusyError) Code() string { return "FS_IO_ERROR" }

func newLocker(dir string) (*locker, error) {
	dirs := []string{dir}
	if dir == "" {
		name := "/dshx-" + strconv.Itoa(unix.Geteuid()) + "-locks"
		// In this order for everybody, whatever the environment says: those that
		// choose differently don't see each other. Inside of another dshx only
		// its TMPDIR can be written.
		dirs = []string{"/var/tmp" + name, "/tmp" + name}
		if tmp := os.Getenv("TMPDIR"); strings.HasPrefix(tmp, "/") {
			dirs = append(dirs, tmp+name)
		}
	}
	var errs []string
	for _, dir := range dirs {
		l := &locker{path: dir + "/locks", fd: -1, held: map[int64]*held{}}
		err := ownDir(dir)
		if err == nil {
			err = l.open()
		}
		if err == nil {
			return l, nil
		}
		errs = append(errs, dir+": "+err.Error())
	}
	return nil, fmt.Errorf("no place for locks on files: %s; remove or free one of these directories", strings.Join(errs, ", "))
}

// ownDir makes dir, or checks that it is the user's alone: in a directory that
// everybody writes somebody else may have made it first.
func ownDir(dir string) error {
	if err := unix.Mkdir(dir, 0o700); err != nil && err != unix.EEXIST {
		return err
	}
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil {
		return err
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFDIR:
		return unix.ENOTDIR
	case int(st.Uid) != unix.Geteuid():
		return errors.New("belongs to somebody else")
	case st.Mode&0o022 != 0:
		return errors.New("can be written by others")
	}
	return nil
}

// open opens the lock file. Its mode lets nobody read it: a command of the
// same user, which may read much and write nothing here, could hold up
// everybody by a read lock.
func (l *locker) open() error {
	fd, err := unix.Open(l.path, unix.O_WRONLY|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o200)
	if err != nil {
		return err
	}
	if l.fd >= 0 {
		_ = unix.Close(l.fd)
	}
	l.fd = fd
	return nil
}

// Lock begins the one critical section of a file, among this process and all
// others of the user that have the same LockDir. file is any text that they
// form alike. It must not be held twice.
//
// Errors: ctx's; *BusyError.
func (o *Observer) Lock(ctx context.Context, file string) (unlock func(), err error) {
	return o.locks.lock(ctx, file)
}

func (l *locker) lock(ctx context.Context, file string) (func(), error) {
	at := int64(xxhash.Sum64String(file) >> 2) // far enough from what off_t ends at
	l.mu.Lock()
	h := l.held[at]
	if h == nil {
		h = &held{turn: make(chan struct{}, 1)}
		l.held[at] = h
	}
	h.users++
	l.mu.Unlock()
	leave := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if h.users--; h.users == 0 {
			delete(l.held, at)
		}
	}
	select {
	case h.turn <- struct{}{}:
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
	fd, err := l.lockByte(ctx, at)
	if err != nil {
		<-h.turn
		leave()
		return nil, err
	}
	var once sync.Once
	return func() {
		once.Do(func() {
			_ = unix.FcntlFlock(uintptr(fd), unix.F_OFD_SETLK, byteLock(unix.F_UNLCK, at))
			<-h.turn
			leave()
		})
	}, nil
}

func byteLock(kind int16, at int64) *unix.Flock_t {
	return &unix.Flock_t{Type: kind, Whence: io.SeekStart, Start: at, Len: 1}
}

// lockByte waits for other processes by asking again and again: a thread that
// waits in the kernel could not be cancelled.
func (l *locker) lockByte(ctx context.Context, at int64) (int, error) {
	deadline := time.Now().Add(lockWait)
	for pause := time.Millisecond; ; pause = min(2*pause, 20*time.Millisecond) {
		fd, err := l.descriptor()
		if err != nil {
			return -1, fmt.Errorf("lock file %s: %w", l.path, err)
		}
		err = unix.FcntlFlock(uintptr(fd), unix.F_OFD_SETLK, byteLock(unix.F_WRLCK, at))
		switch {
		case err == nil:
			return fd, nil
		case err == unix.EINTR:
			continue
		case err != unix.EAGAIN && err != unix.EACCES:
			return -1, fmt.Errorf("lock file %s: %w", l.path, err)
		case time.Now().After(deadline):
			return -1, &BusyError{}
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return -1, ctx.Err()
		case <-timer.C:
		}
	}
}

// descriptor is the lock file's, opened anew when something that cleans /var/tmp
// has removed it and nobody here holds a lock in it: others lock the new one.
func (l *locker) descriptor() (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var st unix.Stat_t
	if err := unix.Fstat(l.fd, &st); err != nil {
		return -1, err
	}
	if st.Nlink > 0 || len(l.held) > 1 {
		return l.fd, nil
	}
	if err := ownDir(l.path[:len(l.path)-len("/locks")]); err != nil {
		return -1, err
	}
	return l.fd, l.open()
}
