package sessionlog

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/dshx/dshx/sandboxpolicy"
	"golang.org/x/sys/unix"
)

const (
	// DefaultMaxBytes is how long a file gets before it becomes an older part.
	DefaultMaxBytes = 16 << 20
	// DefaultKeep is how many older parts are kept.
	DefaultKeep = 3
	// maxQueued bounds the records that wait to be written, in bytes of memory.
	maxQueued = 64 << 20
	// patience is how long Close waits for a disk that takes nothing.
	patience = 5 * time.Second
)

// Options are a log's. The zero value has the defaults.
type Options struct {
	// MaxBytes is how long a file gets, 0 for DefaultMaxBytes. A record is never
	// split: one that is longer has a file of its own.
	MaxBytes int64
	// Keep is how many older parts are kept, FILE.1 the newest; 0 for
	// DefaultKeep, negative for none.
	Keep int
	// Complain is told in one sentence, once, that records can't be written. It is
	// called by the goroutine that writes.
	Complain func(string)

	write  func(f *os.File, line []byte) (int, error) // nil: f.Write
	queued int                                        // 0: maxQueued
}

// Log is a log that is being written, by this process alone. It may be used
// from any goroutine.
type Log struct {
	o       Options
	at      *place
	mask    *masker
	session string
	warning string

	mu     sync.Mutex
	wake   sync.Cond
	queue  []queued
	bytes  int   // of the queue
	lost   int64 // records that found no room in it
	calls  int64
	closed bool
	done   chan struct{} // closed when all is written

	// The goroutine's that writes:
	file       *os.File
	size       int64
	torn       bool  // the last line has no end
	missing    int64 // records that could not be written
	reason     string
	complained bool
	fixed      bool // it can't be rotated
}

type queued struct {
	r     Record
	bytes int
}

// Open begins to write the log at path, behind what is there. policy is the one
// that commands run under: what it lets them write is no place for a log. Its
// secrets are masked.
//
// Errors: *PlaceError.
func Open(path string, policy *sandboxpolicy.Policy, o Options) (*Log, error) {
	if o.MaxBytes <= 0 {
		o.MaxBytes = DefaultMaxBytes
	}
	switch {
	case o.Keep == 0:
		o.Keep = DefaultKeep
	case o.Keep < 0:
		o.Keep = 0
	}
	if o.Complain == nil {
		o.Complain = func(string) {}
	}
	if o.queued == 0 {
		o.queued = maxQueued
	}
	if o.write == nil {
		o.write = (*os.File).Write
	}
	at, err := openPlace(path)
	if err != nil {
		return nil, err
	}
	l := &Log{o: o, at: at, mask: newMasker(policy.Secrets()), done: make(chan struct{})}
	l.wake.L = &l.mu
	unguarded, err := at.judge(policy, o.Keep)
	if err == nil {
		l.file, l.size, err = at.open()
	}
	if err != nil {
		at.close()
		return nil, err
	}
	if unguarded {
		l.warning = "under " + policy.Preset() + " commands may change the log, too"
	}
	l.torn = torn(l.file, l.size)
	l.session = fmt.Sprintf("%s-%08x", time.Now().UTC().Format("20060102T150405Z"), rand.Uint32())
	go l.run()
	return l, nil
}

// Check refuses a policy that lets commands write the log: before the policy is
// changed to it.
//
// Errors: *PlaceError.
func (l *Log) Check(policy *sandboxpolicy.Policy) error {
	_, err := l.at.judge(policy, l.o.Keep)
	return err
}

// Warning is a sentence about the log that its reader should know; "" for none.
func (l *Log) Warning() string { return l.warning }

// Session is the id of this run in the log.
func (l *Log) Session() string { return l.session }

// put takes a record of a scope, of about so many bytes beside itself. It never
// waits. number, if not nil, is given the record's call number.
func (l *Log) put(scope string, r Record, bytes int, number *int64) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := r.Header()
	// In the lock: the order of records is that of their times.
	h.Time, h.Session, h.Scope = time.Now().UTC(), l.session, scope
	if number != nil {
		l.calls++
		*number = l.calls
	}
	switch bytes += 1 << 10; {
	case l.closed:
	case l.bytes+bytes > l.o.queued && l.bytes > 0:
		l.lost++
	default:
		l.bytes += bytes
		l.queue = append(l.queue, queued{r, bytes})
		l.wake.Signal()
	}
	return h.Time
}

// Close writes what waits, for some seconds at most, and lets others have the
// file. It says what is missing.
func (l *Log) Close() error {
	l.mu.Lock()
	l.closed = true
	l.wake.Signal()
	l.mu.Unlock()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-l.done:
	case <-timer.C:
		return fmt.Errorf("the log %q takes nothing any more; its end is missing", l.at.path)
	}
	if l.missing > 0 {
		return fmt.Errorf("%d records are missing in the log %q: %s", l.missing, l.at.path, l.reason)
	}
	return nil
}

// run writes records until the end.
func (l *Log) run() {
	defer close(l.done)
	defer l.at.close()
	for {
		l.mu.Lock()
		for len(l.queue) == 0 && !l.closed {
			l.wake.Wait()
		}
		list, lost := l.queue, l.lost
		l.queue, l.lost = nil, 0
		over := l.closed
		l.mu.Unlock()
		for i := range list {
			line := encode(list[i].r, l.mask)
			l.mu.Lock()
			l.bytes -= list[i].bytes
			l.mu.Unlock()
			list[i].r = nil
			l.writeOne(line)
		}
		if lost > 0 {
			l.misses(lost, "records came faster than they could be written")
		}
		if over && len(list) == 0 {
			l.tellMissing()
			_ = l.file.Sync()
			_ = l.file.Close()
			return
		}
	}
}

// misses counts records that are not in the file, and says so the first time.
func (l *Log) misses(n int64, reason string) {
	l.missing += n
	l.reason = reason
	if !l.complained {
		l.complained = true
		l.o.Complain(fmt.Sprintf("the log %q is missing records: %s; what is missing is counted in it as soon as that is possible", l.at.path, reason))
	}
}

// tellMissing writes how many records are missing, if any; it reports whether
// none is now, but for those that the file tells of.
func (l *Log) tellMissing() bool {
	if l.missing == 0 {
		return true
	}
	r := &Missing{Head: Head{Time: time.Now().UTC(), Session: l.session}, Records: l.missing, Reason: l.reason}
	if l.write(encode(r, l.mask)) != nil {
		return false
	}
	l.missing = 0
	return true
}

// writeOne writes a record, behind the count of those that are missing.
func (l *Log) writeOne(line []byte) {
	if l.size > 0 && l.size+int64(len(line)) > l.o.MaxBytes {
		l.rotate()
	}
	if !l.tellMissing() {
		l.missing++
		return
	}
	if err := l.write(line); err != nil {
		l.misses(1, err.Error())
	}
}

// write writes one line whole, or takes back what it could.
func (l *Log) write(line []byte) error {
	if l.torn {
		// What is there has no end, and must not swallow this line.
		line = append([]byte{'\n'}, line...)
	}
	n, err := l.o.write(l.file, line)
	if err == nil {
		l.size += int64(n)
		l.torn = false
		return nil
	}
	if n > 0 {
		if l.file.Truncate(l.size) != nil {
			l.size += int64(n)
			l.torn = true
		}
	}
	if e := (*os.PathError)(nil); errors.As(err, &e) {
		err = e.Err // the sentence names the file
	}
	return err
}

// rotate makes the file an older part. Where that can't be done the log goes on
// in it: rather too long than lost.
func (l *Log) rotate() {
	if l.fixed {
		return
	}
	first := encode(&Continued{Head{Time: time.Now().UTC(), Session: l.session}}, l.mask)
	next, err := l.at.rotate(l.file, l.o.Keep, first)
	if err != nil {
		if !errors.Is(err, unix.ENOSPC) { // which may pass
			l.fixed = true
			l.o.Complain(fmt.Sprintf("the log %q can't be divided (%v); it goes on in one file", l.at.path, err))
		}
		return
	}
	_ = l.file.Sync()
	_ = l.file.Close()
	l.file, l.size, l.torn = next, int64(len(first)), false
}
