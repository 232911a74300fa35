package sandbox

import (
	"context"
	"time"

	"github.com/dshx/dshx/sandbox/internal/proctree"
)

// AwaitTree returns nil when no process of the command lives any more, those
// that left its session or lost their parents included. It can be called before
// and after Wait, and holds no thread. When ctx is done before, it returns the
// cause.
//
// Where this process is the one that orphans go to, those of the command are
// reaped meanwhile.
func (c *Cmd) AwaitTree(ctx context.Context) error {
	adopts := proctree.Adopts()
	// Most short commands leave nothing, and then need no look at every process
	// of the machine.
	if !adopts && c.Process.done() {
		if none, known := proctree.NoneAfter(c.Process.Pid, c.mark, c.started); known && none {
			return nil
		}
	}
	for none := 0; ; {
		pids := c.Tree()
		if adopts {
			c.reapTree()
		}
		if err := context.Cause(ctx); err != nil && len(pids) > 0 {
			return err
		}
		if len(pids) == 0 {
			// /proc is read in the order of the numbers, and what a process
			// starts has a higher one, so that nothing is passed over, except
			// where the numbers begin again.
			if none++; none == 2 {
				return nil
			}
			continue
		}
		none = 0
		// The tree lives at least as long as any one of it. Most often the first
		// has started the others, and stays longest.
		wait, cancel := ctx, context.CancelFunc(func() {})
		if adopts {
			wait, cancel = context.WithTimeout(ctx, reapEvery)
		}
		_ = proctree.AwaitExit(wait, pids[0], c.mark, ^uint64(0))
		cancel()
	}
}

// AwaitExit returns nil when the command itself has ended, and may be called
// before Wait, which holds a thread as long as it waits: the Go runtime never
// ends one. It takes a few system calls more. When ctx is done before, it
// returns the cause.
func (c *Cmd) AwaitExit(ctx context.Context) error {
	if c.Process.done() {
		return nil
	}
	// The number is the command's until Wait takes its status.
	return proctree.AwaitExit(ctx, c.Process.Pid, 0, 0)
}

// reapEvery is how long what has ended of a living tree may stay unreaped.
const reapEvery = time.Second

func (c *Cmd) reapTree() {
	except := 0
	if c.exclusive || c.monitor == nil && !c.Process.done() {
		except = c.Process.Pid // Wait's
	}
	proctree.Reap(c.mark, except)
}

// done reports that the process was waited for.
func (p *Process) done() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.gone
}
