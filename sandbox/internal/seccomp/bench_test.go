package seccomp

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// cost is what a filter costs a thread, in nanoseconds: loading it (the kernel
// checks and compiles it), and then a call that is always allowed (getppid), one
// whose rule looks at arguments (ioctl, on no descriptor), one that does work
// (openat and close of /dev/null) and one that the filter ends (io_uring_setup).
type cost struct {
	Install, Getppid, Ioctl, Openat, Refused float64
}

// perCall is the best of five rounds, which other load disturbs the least.
func perCall(f func()) float64 {
	const calls = 20000
	best := time.Duration(1<<63 - 1)
	for range 5 {
		start := time.Now()
		for range calls {
			f()
		}
		best = min(best, time.Since(start))
	}
	return float64(best.Nanoseconds()) / calls
}

func measure(install func() error) func() (any, error) {
	return func() (any, error) {
		start := time.Now()
		if err := install(); err != nil {
			return nil, err
		}
		c := cost{Install: float64(time.Since(start).Nanoseconds())}
		c.Getppid = perCall(func() { unix.RawSyscall(unix.SYS_GETPPID, 0, 0, 0) })
		c.Ioctl = perCall(func() { unix.RawSyscall(unix.SYS_IOCTL, ^uintptr(0), unix.TCGETS, 0) })
		c.Openat = perCall(func() {
			if fd, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0); err == nil {
				_ = unix.Close(fd)
			}
		})
		c.Refused = perCall(func() { unix.RawSyscall(unix.SYS_IO_URING_SETUP, 0, 0, 0) })
		return c, nil
	}
}

func init() {
	roles["cost without"] = measure(func() error { return nil })
	roles["cost with"] = measure(func() error { _, err := filter(Options{}); return err })
	roles["cost with listener"] = measure(func() error { _, err := filter(Options{Listener: true}); return err })
}

func BenchmarkFilter(b *testing.B) {
	for _, role := range []string{"cost without", "cost with", "cost with listener"} {
		b.Run(role, func(b *testing.B) {
			var sum cost
			for range b.N {
				c, err := costOf(role)
				if err != nil {
					b.Fatal(err)
				}
				sum.Install += c.Install
				sum.Getppid += c.Getppid
				sum.Ioctl += c.Ioctl
				sum.Openat += c.Openat
				sum.Refused += c.Refused
			}
			n := float64(b.N)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(sum.Install/n, "ns/install")
			b.ReportMetric(sum.Getppid/n, "ns/getppid")
			b.ReportMetric(sum.Ioctl/n, "ns/ioctl")
			b.ReportMetric(sum.Openat/n, "ns/openat+close")
			b.ReportMetric(sum.Refused/n, "ns/refused")
		})
	}
}

func costOf(role string) (c cost, err error) {
	runtime.GC()
	self, err := os.Executable()
	if err != nil {
		return c, err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), roleVar+"="+role)
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return c, fmt.Errorf("%w: %s", err, exit.Stderr)
	}
	if err != nil {
		return c, err
	}
	return c, json.Unmarshal(out, &c)
}
