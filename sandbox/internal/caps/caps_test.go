package caps

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestDrop_LeavesTheKeptOnes(t *testing.T) {
	want := "000000000000001b"
	if os.Geteuid() != 0 {
		want = "0000000000000000"
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // for good: the thread ends with the goroutine
		if err := Drop(); err != nil {
			t.Error(err)
			return
		}
		b, err := os.ReadFile("/proc/self/task/" + strconv.Itoa(unix.Gettid()) + "/status")
		if err != nil {
			t.Error(err)
			return
		}
		for line := range strings.Lines(string(b)) {
			name, value, _ := strings.Cut(line, ":")
			value = strings.TrimSpace(value)
			switch name {
			case "CapPrm", "CapEff":
				if value != want {
					t.Errorf("%s is %s, want %s", name, value, want)
				}
			case "CapInh", "CapAmb":
				if strings.Trim(value, "0") != "" {
					t.Errorf("%s is %s", name, value)
				}
			case "CapBnd":
				if os.Geteuid() == 0 && value != want {
					t.Errorf("%s is %s, want %s", name, value, want)
				}
			}
		}
		if err := Drop(); err != nil {
			t.Errorf("a second time: %v", err)
		}
	}()
	<-done
}
