package supervise

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

var atFdcwd = ^uintptr(99) // AT_FDCWD, -100

func ptr[T any](p *T) uintptr { return uintptr(unsafe.Pointer(p)) }

// rawErr makes a call whose pointers are kept alive by the caller's variables;
// they escape through ptr, so they don't move.
func rawErr(nr uintptr, a ...uintptr) error {
	var x [6]uintptr
	copy(x[:], a)
	_, _, e := unix.Syscall6(nr, x[0], x[1], x[2], x[3], x[4], x[5])
	if e != 0 {
		return e
	}
	return nil
}

func rawBind(fd int, addr []byte) (int, error) {
	return 0, rawErr(unix.SYS_BIND, uintptr(fd), ptr(&addr[0]), uintptr(len(addr)))
}

func rawSendto(fd int, data, addr []byte) (int, error) {
	return 0, rawErr(unix.SYS_SENDTO, uintptr(fd), ptr(&data[0]), uintptr(len(data)), 0, ptr(&addr[0]), uintptr(len(addr)))
}

// sendmmsg sends two datagrams to a path and checks the lengths that come back.
func sendmmsg(fd int, path string) (string, error) {
	type mmsghdr struct {
		h   unix.Msghdr
		len uint32
		_   uint32
	}
	addr := append([]byte{unix.AF_UNIX, 0}, path...)
	addr = append(addr, 0)
	data := [2][]byte{[]byte("a"), []byte("bcd")}
	var iov [2]unix.Iovec
	var m [2]mmsghdr
	for i := range m {
		iov[i] = unix.Iovec{Base: &data[i][0], Len: uint64(len(data[i]))}
		m[i].h = unix.Msghdr{Name: &addr[0], Namelen: uint32(len(addr)), Iov: &iov[i], Iovlen: 1}
	}
	n, _, e := unix.Syscall6(unix.SYS_SENDMMSG, uintptr(fd), ptr(&m[0]), 2, 0, 0, 0)
	if e != 0 {
		return "", e
	}
	if n != 2 || m[0].len != 1 || m[1].len != 3 {
		return " wrong lengths", nil
	}
	return "", nil
}

func init() {
	// race CALL GOOD BAD ROUNDS
	helperSocketOps["race"] = func(a []string) (string, error) {
		good, bad := append([]byte(a[2]), 0), append([]byte(a[3]), 0)
		rounds, _ := strconv.Atoi(a[4])
		head := 0
		if a[1] == "sendto" {
			head = 2
			fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK, 0)
			if err != nil {
				return "", err
			}
			if err := unix.Bind(fd, unixAddr(a[2])); err != nil {
				return "", err
			}
			go func() {
				unix.SetNonblock(fd, false)
				for b := make([]byte, 9); ; {
					unix.Read(fd, b)
				}
			}()
		}
		if len(good) != len(bad) {
			return "", errors.New("names of different lengths")
		}
		buf := make([]byte, head+len(good))
		if head > 0 {
			buf[0] = unix.AF_UNIX
		}
		// The names differ in few bytes; flip where they do.
		i := 0
		for good[i] == bad[i] {
			i++
		}
		copy(buf[head:], good)
		var stop atomic.Bool
		var wg sync.WaitGroup
		wg.Add(1)
		go func() {
			defer wg.Done()
			p := &buf[head+i]
			for !stop.Load() {
				*p = bad[i]
				*p = good[i]
			}
		}()
		count := map[unix.Errno]int{}
		fd := -1
		if a[1] == "sendto" {
			fd, _ = unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK, 0)
		}
		data := []byte("x")
		for range rounds {
			var e error
			if a[1] == "chmod" {
				e = rawErr(unix.SYS_FCHMODAT, atFdcwd, ptr(&buf[0]), 0o601)
			} else {
				_, e = rawSendto(fd, data, buf)
			}
			n, _ := e.(unix.Errno)
			count[n]++
		}
		stop.Store(true)
		wg.Wait()
		if count[0] == 0 {
			return "", errors.New("the legal object was never reached")
		}
		return fmt.Sprintf(" %v", count), nil
	}
	helperSocketOps["bindrace"] = func(a []string) (string, error) {
		rounds, _ := strconv.Atoi(a[2])
		count := map[string]int{}
		for i := range rounds {
			fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
			if err != nil {
				return "", err
			}
			err = unix.Bind(fd, unixAddr(fmt.Sprintf("%s/%d.sock", a[1], i)))
			count[fmt.Sprint(err)]++
			unix.Close(fd)
		}
		if count["<nil>"] == 0 {
			return "", errors.New("no socket was made")
		}
		return fmt.Sprintf(" %v", count), nil
	}
	helperSocketOps["chmodrace"] = func(a []string) (string, error) {
		rounds, _ := strconv.Atoi(a[3])
		count := map[string]int{}
		for range rounds {
			count[fmt.Sprint(unix.Chmod(a[1], 0o611))]++
		}
		return fmt.Sprintf(" %v", count), nil
	}
}

// flipNames makes and removes DIR+GOOD while another thread turns the buffer
// into DIR+BAD and back.
func flipNames(a []string) (string, error) {
	rounds, _ := strconv.Atoi(a[4])
	good, bad := append([]byte(a[1]+a[2]), 0), append([]byte(a[1]+a[3]), 0)
	if len(good) != len(bad) {
		return "", errors.New("names of different lengths")
	}
	buf := append([]byte(nil), good...)
	var stop atomic.Bool
	var wg sync.WaitGroup
	wg.Add(1)
	go func() {
		defer wg.Done()
		for !stop.Load() {
			copy(buf, bad)
			copy(buf, good)
		}
	}()
	count := map[unix.Errno]int{}
	for range rounds {
		fd, _, e := unix.Syscall6(unix.SYS_OPENAT, atFdcwd, ptr(&buf[0]), unix.O_CREAT|unix.O_WRONLY|unix.O_TRUNC|unix.O_CLOEXEC, 0o600, 0, 0)
		if count[e]++; e == 0 {
			unix.Close(int(fd))
			unix.Unlink(string(good[:len(good)-1]))
		}
	}
	stop.Store(true)
	wg.Wait()
	if count[0] == 0 {
		return "", errors.New("the legal name was never made")
	}
	return fmt.Sprintf(" %v", count), nil
}
