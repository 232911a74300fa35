package jobtools

import (
	"context"
	"sync"
	"time"

	"github.com/dshx/dshx/jobs"
	"github.com/dshx/dshx/pipeline"
)

const (
	// reportTail is how much of a job's output is looked at for its last line.
	reportTail = 1 << 10
	// reportPause is between two looks at one job.
	reportPause = 250 * time.Millisecond
)

// report tells whoever listens to a wait what the jobs print meanwhile: of each
// the end of its output, with its id before. ids are the jobs; without any it is
// all live ones. It returns when told to stop, and nothing is reported then.
func report(ctx context.Context, owner *jobs.Owner, ids []string, call *pipeline.Call) (stop func()) {
	if !call.Reports() {
		return func() {}
	}
	if len(ids) == 0 {
		for _, j := range owner.List() {
			if !j.Status.Ended() {
				ids = append(ids, j.ID)
			}
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	var turn sync.Mutex // a body reports on one goroutine at a time
	for _, id := range ids {
		all.Go(func() {
			follow(ctx, owner, id, func(line []byte) {
				turn.Lock()
				defer turn.Unlock()
				if ctx.Err() == nil {
					call.Report(pipeline.Progress{Stream: id, Data: line})
				}
			})
		})
	}
	return func() {
		cancel()
		all.Wait()
	}
}

// follow tells of the end of a job's output whenever there is more of it.
func follow(ctx context.Context, owner *jobs.Owner, id string, tell func([]byte)) {
	for {
		c, err := owner.Read(id, jobs.ReadOptions{Tail: true, Limit: reportTail})
		if err != nil {
			return
		}
		for _, out := range [...][]byte{c.Stderr, c.Stdout} {
			if line := lastLine(out); len(line) > 0 {
				tell(append([]byte(id+": "), append(line, '\n')...))
			}
		}
		if c.Job.Status.Ended() {
			return
		}
		if _, err := owner.Follow(ctx, id, jobs.ReadOptions{Since: c.Next, Limit: 1}); err != nil {
			return
		}
		select {
		case <-time.After(reportPause):
		case <-ctx.Done():
			return
		}
	}
}

// lastLine is the last line of an output that has anything in it, a copy.
func lastLine(out []byte) []byte {
	end := len(out)
	for end > 0 {
		begin := end
		blank := true
		for begin > 0 && out[begin-1] != '\n' && out[begin-1] != '\r' {
			begin--
			blank = blank && out[begin] <= ' '
		}
		if !blank {
			return append([]byte(nil), out[begin:end]...)
		}
		end = begin - 1
	}
	return nil
}
