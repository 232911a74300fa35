package supervise

import (
	"bytes"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// This file reads from the caller: its memory, descriptors and state. Nothing
// read here may be acted on before worker.valid has said that the caller still
// is who we think.

// memory errors: EFAULT for an address that isn't there; EPERM where the
// caller's memory can't be read at all (not dumpable, or ptrace is forbidden).

// readSome fills dst from addr and returns how much was there, at least 1.
func (w *worker) readSome(dst []byte, addr uint64) (int, unix.Errno) {
	addr &= addrMask
	if len(dst) == 0 {
		return 0, 0
	}
	if !w.s.noVM.Load() {
		n, e := vmRead(w.tid, dst, span{addr, uint64(len(dst))})
		switch e {
		case 0, unix.EFAULT, unix.ESRCH:
			if n == 0 {
				return 0, unix.EFAULT
			}
			return n, 0
		case unix.ENOSYS:
			w.s.noVM.Store(true)
		}
	}
	// A container's profile may forbid process_vm_readv with EPERM; the file
	// asks for the same permission without being a system call of its own.
	if e := w.openMem(); e != 0 {
		return 0, e
	}
	n, err := unix.Pread(w.mem, dst, int64(addr))
	if err != nil || n == 0 {
		return 0, unix.EFAULT
	}
	return n, 0
}

func (w *worker) openMem() unix.Errno {
	if w.mem >= 0 {
		return 0
	}
	fd, err := unix.Open("/proc/"+strconv.Itoa(w.tid)+"/mem", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return unix.EPERM
	}
	w.mem = fd
	return 0
}

// read fills all of dst from addr.
func (w *worker) read(dst []byte, addr uint64) unix.Errno {
	for len(dst) > 0 {
		n, e := w.readSome(dst, addr)
		if e != 0 {
			return e
		}
		dst, addr = dst[n:], addr+uint64(n)
	}
	return 0
}

func (w *worker) write(addr uint64, src []byte) unix.Errno {
	addr &= addrMask
	if !w.s.noVM.Load() {
		n, e := vmWrite(w.tid, addr, src)
		if e == 0 && n == len(src) {
			return 0
		}
		if e == unix.EFAULT || e == 0 {
			return unix.EFAULT
		}
	}
	if e := w.openMem(); e != 0 {
		return e
	}
	if n, err := unix.Pwrite(w.mem, src, int64(addr)); err != nil || n != len(src) {
		return unix.EFAULT
	}
	return 0
}

// readString copies a string and its NUL to buf and returns it with the NUL.
// tooLong is the error when there's no NUL in the first len(buf) bytes.
func (w *worker) readString(buf []byte, addr uint64, tooLong unix.Errno) ([]byte, unix.Errno) {
	got := 0
	for got < len(buf) {
		// Up to the end of the page and not much at once: the next page may be
		// missing, and most strings are short.
		want := min(uint64(len(buf)-got), 4096-(addr+uint64(got))%4096)
		if got == 0 {
			want = min(want, 256)
		}
		n, e := w.readSome(buf[got:got+int(want)], addr+uint64(got))
		if e != 0 {
			return nil, e
		}
		if i := bytes.IndexByte(buf[got:got+n], 0); i >= 0 {
			return buf[:got+i+1], 0
		}
		got += n
	}
	return nil, tooLong
}

// readPath copies a path, with its NUL. It's ENAMETOOLONG without a NUL in
// PATH_MAX bytes, as in the kernel's getname.
func (w *worker) readPath(addr uint64) ([]byte, unix.Errno) {
	return w.readString(w.path[:], addr, unix.ENAMETOOLONG)
}

// process returns the caller's process number.
func (w *worker) process() int {
	if w.tgid == 0 {
		w.tgid = processOf(w.tid)
	}
	return w.tgid
}

// processOf returns the process that thread tid belongs to; tid itself when
// /proc doesn't say.
func processOf(tid int) int {
	if v, ok := statusField(tid, "Tgid:"); ok {
		if n, err := strconv.Atoi(string(v)); err == nil {
			return n
		}
	}
	return tid
}

// statusField returns a field of /proc/TID/status.
func statusField(tid int, name string) ([]byte, bool) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(tid) + "/status")
	if err != nil {
		return nil, false
	}
	return field(b, name)
}

// field returns what follows name on its line of b, without blanks around it.
func field(b []byte, name string) ([]byte, bool) {
	for len(b) > 0 {
		line := b
		if i := bytes.IndexByte(b, '\n'); i >= 0 {
			line, b = b[:i], b[i+1:]
		} else {
			b = nil
		}
		if v, ok := bytes.CutPrefix(line, []byte(name)); ok {
			return bytes.TrimSpace(v), true
		}
	}
	return nil, false
}

// pidfdThread is PIDFD_THREAD, Linux 6.9: a descriptor of the thread itself,
// whose table of descriptors may not be its leader's.
const pidfdThread = unix.O_EXCL

// callerPidfd returns a pidfd of the caller, kept for the worker's next call:
// a program that sets modes by descriptor does so often. A pidfd never comes to
// mean another process; when the kept one's is gone, dup opens a new one.
func (w *worker) callerPidfd(fresh bool) (int, unix.Errno) {
	if w.pidfd >= 0 {
		if w.pidfdTID == w.tid && !fresh {
			return w.pidfd, 0
		}
		unix.Close(w.pidfd)
		w.pidfd = -1
	}
	if !w.s.noPidfdThread.Load() {
		fd, e := pidfdOpen(w.tid, pidfdThread)
		if e == 0 {
			w.pidfd, w.pidfdTID = fd, w.tid
			return fd, 0
		}
		if e != unix.EINVAL {
			return -1, e
		}
		w.s.noPidfdThread.Store(true)
	}
	fd, e := pidfdOpen(w.process(), 0)
	if e != 0 {
		return -1, e
	}
	w.pidfd, w.pidfdTID = fd, w.tid
	return fd, 0
}

// errNoGetfd is dup's answer where the host forbids pidfd_getfd or lacks it.
const errNoGetfd = unix.ENOSYS

// dup returns a duplicate of the caller's descriptor fd: the same open file
// description, with its mode. It's EBADF when there's none.
func (w *worker) dup(fd int32) (int, unix.Errno) {
	if fd < 0 {
		return -1, unix.EBADF
	}
	if w.s.noGetfd.Load() {
		return -1, errNoGetfd
	}
	for try := 0; ; try++ {
		p, e := w.callerPidfd(try > 0)
		if e == unix.ENOSYS || e == unix.EPERM {
			w.s.noGetfd.Store(true)
			return -1, errNoGetfd
		}
		if e != 0 {
			return -1, unix.EPERM
		}
		d, e := pidfdGetfd(p, int(fd))
		switch {
		case e == 0:
			return w.keep(d), 0
		case e == unix.ESRCH && try == 0:
			// The kept pidfd's thread is gone and the number is the caller's now.
		case e == unix.ENOSYS:
			w.s.noGetfd.Store(true)
			return -1, errNoGetfd
		case e == unix.EPERM:
			// A container's profile, or this caller only (not dumpable).
			return -1, errNoGetfd
		case e == unix.EBADF, e == unix.EMFILE, e == unix.ENFILE:
			return -1, e
		default:
			return -1, unix.EPERM
		}
	}
}

// open opens an entry of the caller's /proc directory as O_PATH. Following one
// of its links needs the permission to inspect the caller, no more.
//
// The directory is kept for the worker's next call. Like a pidfd it never comes
// to mean another process: once its own is gone it has no entries.
func (w *worker) open(entry string) (int, unix.Errno) {
	for fresh := w.procTID != w.tid; ; fresh = true {
		if fresh {
			if w.proc >= 0 {
				unix.Close(w.proc)
			}
			var err error
			w.procTID = 0
			if w.proc, err = unix.Open("/proc/"+strconv.Itoa(w.tid), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
				w.proc = -1
				return -1, errnoOf(err)
			}
			w.procTID = w.tid
		}
		fd, err := unix.Openat(w.proc, entry, unix.O_PATH|unix.O_CLOEXEC, 0)
		if err == nil {
			return w.keep(fd), 0
		}
		if fresh {
			return -1, errnoOf(err)
		}
	}
}

// openFD is dup's stand-in where pidfd_getfd is forbidden: a descriptor of what
// fd refers to, without its mode.
func (w *worker) openFD(fd int32) (int, unix.Errno) {
	n, e := w.open("fd/" + strconv.Itoa(int(fd)))
	if e == unix.ENOENT {
		return -1, unix.EBADF
	}
	if e != 0 {
		return -1, unix.EPERM
	}
	return n, 0
}

// isPathFD says whether the caller's descriptor was opened with O_PATH, by
// which nothing can be changed.
func (w *worker) isPathFD(fd int32) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(w.tid) + "/fdinfo/" + strconv.Itoa(int(fd)))
	if err != nil {
		return true
	}
	v, ok := field(b, "flags:")
	if !ok {
		return true
	}
	n, err := strconv.ParseUint(string(v), 8, 64)
	return err != nil || n&unix.O_PATH != 0
}
