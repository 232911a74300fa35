package jobs

import (
	"context"
	"fmt"
)

const (
	// DefaultReadLimit is ReadOptions.Limit where it is 0.
	DefaultReadLimit = 32 << 10
	// MaxReadLimit is the largest ReadOptions.Limit.
	MaxReadLimit = 1 << 20
)

// ReadOptions say what to read of a job's output.
type ReadOptions struct {
	// Since is Chunk.Next of an earlier read, to go on from there; "" is the
	// beginning, that is the oldest bytes kept.
	Since Cursor
	// Tail skips what comes before the last Limit bytes of each stream.
	Tail bool
	// Limit is the most bytes to return of each stream, 1..MaxReadLimit.
	Limit int
}

// Chunk is a piece of both streams of a job's output.
//
// Pieces are cut between characters: bytes at the end that begin a UTF-8
// sequence and lack the rest are left for the next read, as long as the rest
// can come and unless Limit is shorter than the sequence; so a Chunk of a live
// job may lack up to three bytes that StdoutBytes counts. Where output was
// lost in the middle of a sequence, its rest counts as missed. Other bytes
// that are not UTF-8 are returned as they are.
type Chunk struct {
	Job            Job
	Stdout, Stderr []byte // never nil
	// Next is where to go on.
	Next Cursor
	// More is set when a read from Next has something to tell at once. Without
	// it, and with Job.Status ended, this was the end.
	More bool
	// MissedBytes is how many bytes of both streams lie between Since and what
	// is returned, and are gone: dropped by the bound, or not taken by the
	// disk. Along a chain of reads, returned and missed bytes add up to all
	// that was written.
	MissedBytes int64
}

// Read returns output that is there, and does not wait for any. It takes
// nothing away: any number of readers can read the same.
//
// Errors: ErrNotFound; ErrInvalid for a limit out of range, or a cursor that
// is not one of this job; an error without a code if the disk fails.
func (o *Owner) Read(id string, opt ReadOptions) (Chunk, error) {
	c, _, _, err := o.read(id, opt)
	return c, err
}

// Follow is Read, but where there is nothing to return it waits until there
// is, or the job has ended. When ctx is done before, it returns what Read
// would, and the cause of ctx as the error. That ends no job.
func (o *Owner) Follow(ctx context.Context, id string, opt ReadOptions) (Chunk, error) {
	for {
		c, done, changed, err := o.read(id, opt)
		if err != nil || c.More || c.MissedBytes > 0 || len(c.Stdout)+len(c.Stderr) > 0 || c.Job.Status.Ended() {
			return c, err
		}
		select {
		case <-changed:
		case <-done:
		case <-ctx.Done():
			return c, context.Cause(ctx)
		}
	}
}

func (o *Owner) read(id string, opt ReadOptions) (c Chunk, done, changed <-chan struct{}, err error) {
	j, err := o.find(id)
	if err != nil {
		return Chunk{}, nil, nil, err
	}
	fail := func(err error) (Chunk, <-chan struct{}, <-chan struct{}, error) {
		return Chunk{}, nil, nil, fmt.Errorf("read output of job %q: %w", id, err)
	}
	if opt.Limit == 0 {
		opt.Limit = DefaultReadLimit
	}
	if opt.Limit < 1 || opt.Limit > MaxReadLimit {
		return fail(fmt.Errorf("%w: limit %d out of range 1..%d", ErrInvalid, opt.Limit, MaxReadLimit))
	}
	var from [streams]int64
	if opt.Since != "" {
		mark, offsets, ok := opt.Since.parse()
		if !ok || mark != j.mark {
			return fail(fmt.Errorf("%w: not a cursor of this job", ErrInvalid))
		}
		from = offsets
	}
	// Before the output is read: a job that has ended writes no more, so
	// what says that it has ended comes with the rest of its output.
	c.Job = j.snapshot()
	p, changed, err := j.store.read(from, opt.Tail, opt.Limit)
	if err == errOffset {
		return fail(fmt.Errorf("%w: not a cursor of this job", ErrInvalid))
	}
	if err != nil {
		return fail(err)
	}
	var next [streams]int64
	for i := range streams {
		next[i] = p[i].next
		c.More = c.More || p[i].more
		c.MissedBytes += p[i].lost
	}
	c.Stdout, c.Stderr = append([]byte{}, p[stdout].data...), append([]byte{}, p[stderr].data...)
	c.Next = newCursor(j.mark, next)
	// What has come since the snapshot is counted, so that the totals are
	// never less than what was returned.
	c.Job.StdoutBytes = max(c.Job.StdoutBytes, next[stdout])
	c.Job.StderrBytes = max(c.Job.StderrBytes, next[stderr])
	return c, j.done, changed, nil
}
