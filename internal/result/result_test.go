package result

import (
	"bytes"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/dshx/dshx/internal/capture"
)

// Both streams may become too long at the same moment.
func TestOutput_OneDirectoryForBothStreams(t *testing.T) {
	long := bytes.Repeat([]byte("x\n"), capture.Limit)
	for range 50 {
		base := t.TempDir()
		var made atomic.Int32
		o := NewOutput(func() (string, error) {
			made.Add(1)
			return os.MkdirTemp(base, "")
		})
		var wg sync.WaitGroup
		for _, s := range []*capture.Stream{o.Stdout, o.Stderr} {
			wg.Go(func() {
				if _, err := s.Write(long); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		var e Ended
		o.Fill(&e)
		if n := made.Load(); n != 1 || e.Spill == nil || !e.Spill.Complete || filepath.Dir(*e.Spill.Stdout) != filepath.Dir(*e.Spill.Stderr) {
			t.Fatalf("%d directories, %+v", n, e.Spill)
		}
	}
}
