package sigpipe

import (
	"encoding/binary"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Signal is one signal that arrived.
type Signal struct {
	Number unix.Signal
	// Code is si_code, and Pid who sent it where a process did: sigaction(2).
	Code int32
	Pid  int32
}

// FromKernel reports that no process sent the signal, but the kernel: for a
// key that was pressed, a terminal that went away, an alarm.
func (s Signal) FromKernel() bool { return s.Code > 0 } // SI_KERNEL, CLD_… ; processes have 0 and less

const recordBytes = 16

type sigaction struct {
	handler  uintptr
	flags    uint64
	restorer uintptr
	mask     uint64
}

const (
	saSiginfo  = 0x4
	saOnStack  = 0x08000000
	saRestart  = 0x10000000
	saRestorer = 0x04000000
)

var (
	mu      sync.Mutex
	writeFD int32                     = -1 // read by the handler
	readFD                            = -1
	taken   map[unix.Signal]sigaction // made by the first that is
)

func handlerPC() uintptr
func restorerPC() uintptr

// Catch makes the signals arrive on the pipe from now on. A signal that this
// process was started to ignore stays ignored. The calling thread, to which the
// goroutine is to be locked, takes those that were blocked.
//
// Errors: those of pipe2(2) and rt_sigaction(2).
func Catch(sigs ...unix.Signal) error {
	mu.Lock()
	defer mu.Unlock()
	if readFD < 0 {
		var p [2]int
		if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
			return err
		}
		// A handler must not wait for a reader.
		if err := unix.SetNonblock(p[1], true); err != nil {
			return err
		}
		readFD, writeFD = p[0], int32(p[1])
	}
	for _, s := range sigs {
		if _, ok := taken[s]; ok {
			continue
		}
		a := sigaction{handler: handlerPC(), flags: saSiginfo | saOnStack | saRestart, restorer: restorerPC(), mask: ^uint64(0)}
		if a.restorer != 0 {
			a.flags |= saRestorer
		}
		var old sigaction
		if err := rtSigaction(s, nil, &old); err != nil {
			return err
		}
		if old.handler == 1 && s != unix.SIGCHLD { // SIG_IGN
			continue
		}
		if err := rtSigaction(s, &a, nil); err != nil {
			return err
		}
		if taken == nil {
			taken = map[unix.Signal]sigaction{}
		}
		taken[s] = old
	}
	// What the caller of this process had blocked would never arrive. A signal
	// to a process needs one thread that takes it.
	var set unix.Sigset_t
	for s := range taken {
		set.Val[(s-1)/64] |= 1 << ((s - 1) % 64)
	}
	return unix.PthreadSigmask(unix.SIG_UNBLOCK, &set, nil)
}

// Release puts the dispositions back as they were. What is in the pipe stays.
func Release(sigs ...unix.Signal) {
	mu.Lock()
	defer mu.Unlock()
	for _, s := range sigs {
		if old, ok := taken[s]; ok {
			_ = rtSigaction(s, &old, nil)
			delete(taken, s)
		}
	}
}

func rtSigaction(s unix.Signal, new, old *sigaction) error {
	_, _, e := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(s), uintptr(unsafe.Pointer(new)), uintptr(unsafe.Pointer(old)), 8, 0, 0)
	if e != 0 {
		return e
	}
	return nil
}

// Wake makes one call of Next return a zero Signal.
func Wake() {
	var b [recordBytes]byte
	// EAGAIN: the pipe is full, so Next returns anyway.
	_, _ = unix.Write(int(writeFD), b[:])
}

// Wait returns when Next wouldn't wait (some), or one of the descriptors, which may be -1, can be
// read or has no other end any more; readable is the first one's.
func Wait(fd, also int) (some, readable bool, err error) {
	mu.Lock()
	p := []unix.PollFd{{Fd: int32(readFD), Events: unix.POLLIN}, {Fd: int32(fd), Events: unix.POLLIN}, {Fd: int32(also), Events: unix.POLLIN}}
	mu.Unlock()
	for {
		_, err = unix.Poll(p, -1)
		if err != unix.EINTR {
			return p[0].Revents != 0, p[1].Revents != 0, err
		}
	}
}

// Next waits for a signal. It fails only before the first Catch.
func Next() (Signal, error) {
	mu.Lock()
	fd := readFD
	mu.Unlock()
	var b [recordBytes]byte
	for {
		// Records are shorter than PIPE_BUF, so they come whole: pipe(7).
		n, err := unix.Read(fd, b[:])
		if err == unix.EINTR {
			continue
		}
		if err == nil && n != recordBytes {
			err = unix.EIO
		}
		if err != nil {
			return Signal{}, err
		}
		u := binary.NativeEndian
		return Signal{unix.Signal(u.Uint32(b[0:])), int32(u.Uint32(b[4:])), int32(u.Uint32(b[8:]))}, nil
	}
}
