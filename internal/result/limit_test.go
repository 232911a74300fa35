package result

import (
	"testing"
	"time"

	"github.com/dshx/dshx/sandbox"
	"github.com/dshx/dshx/sandboxpolicy"
	"golang.org/x/sys/unix"
)

// A limit is told where it is set and the kernel or the failed command says so.
func TestLimitOf(t *testing.T) {
	all := sandboxpolicy.Limits{CPUTime: 1500 * time.Millisecond, FileSize: 10, Pids: 64, Memory: 1 << 30}
	for _, tt := range []struct {
		signal unix.Signal
		said   string
		want   string
	}{
		{unix.SIGXCPU, "", "cpu-time ended"},
		{unix.SIGXFSZ, "", "file-size ended"},
		{unix.SIGKILL, "", ""},
		{0, "bash: fork: retry: Resource temporarily unavailable\n", "pids bounded"},
		{0, "sh: 1: Cannot fork", "pids bounded"},
		{0, "fork/exec /bin/true: resource temporarily unavailable", "pids bounded"},
		{0, "Error: spawn EAGAIN", "pids bounded"},
		{0, "RuntimeError: can't start new thread\nBlockingIOError: [Errno 11] Resource temporarily unavailable", "pids bounded"},
		{0, "read: Resource temporarily unavailable", ""},
		{0, "ENOMEM: not enough memory", "memory bounded"},
		{0, "MemoryError", "memory bounded"},
		{0, "bash: xrealloc: cannot allocate 100311040 bytes", "memory bounded"},
		{0, "ld.so: cannot allocate TLS block", ""},
		{0, "dd: error writing 'f': File too large", "file-size bounded"},
		{0, "no such file", ""},
	} {
		st := &sandbox.State{Signal: tt.signal, ExitCode: 1}
		got := ""
		if l := LimitOf(st, all, tt.said); l != nil {
			if n := LimitNotice(st, l); n.Kind != "limit" || n.Text != "the limit "+tt.want+" the command" {
				t.Errorf("%+v: notice %+v", tt, n)
			}
			got = tt.want
			if l.Name != tt.want[:len(l.Name)] {
				got = l.Name
			}
		}
		if got != tt.want {
			t.Errorf("%+v: got %q", tt, got)
		}
		if l := LimitOf(st, sandboxpolicy.Limits{}, tt.said); l != nil {
			t.Errorf("%+v: a limit that is not set: %+v", tt, l)
		}
	}
}
