// Outside of the package: what tests import would put it behind syscall.
package nofile_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/dshx/dshx/sandbox/internal/nofile"
)

func TestStarted_IsWhatTheCallerSet(t *testing.T) {
	if os.Getenv("DSHX_NOFILE_CHILD") != "" {
		soft, _, ok := nofile.Started()
		fmt.Println(soft, ok)
		os.Exit(0)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command("sh", "-c", `ulimit -Sn 123; exec "$0" -test.run TestStarted`, self)
	c.Env = append(os.Environ(), "DSHX_NOFILE_CHILD=1")
	out, err := c.Output()
	if err != nil || strings.TrimSpace(string(out)) != "123 true" {
		t.Errorf("got %q, %v; is this package still initialised before syscall?", out, err)
	}
}
