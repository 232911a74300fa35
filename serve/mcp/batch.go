package mcp

import (
	"bytes"
	"strconv"
	"strings"
	"sync"

	"github.com/dshx/dshx/pipeline"
	"github.com/go-json-experiment/json/jsontext"
)

// batch are the messages of one line, which protocols before 2025-06-18 have. Its
// replies are one line, written when the last is there.
type batch struct {
	c *stdio

	mu      sync.Mutex
	missing int // replies
	replies []string
	entries []*entry // of them
}

// hasBatches reports whether the client's protocol has batches.
func (s *session) hasBatches() bool {
	p := s.peer.InitializeParams()
	return p != nil && (p.ProtocolVersion == "2025-03-26" || p.ProtocolVersion == "2024-11-05")
}

// readBatch takes the messages of a line that is an array. It returns false when
// none is taken any more.
func (c *stdio) readBatch(line []byte) bool {
	if _, err := pipeline.ParseJSON(line); err != nil {
		c.fail(parseError(line, err))
		return true
	}
	if !c.s.hasBatches() {
		c.fail(invalid("a batch is not taken in this protocol; send each message on a line of its own"))
		return true
	}
	// Each may cost a reply that is longer than it is.
	switch n := elements(line, c.s.o.maxPending); {
	case n == 0:
		c.fail(invalid("an empty batch"))
		return true
	case n > c.s.o.maxPending:
		c.fail(invalid("a batch has at most " + strconv.Itoa(c.s.o.maxPending) + " messages"))
		return true
	}
	dec := jsontext.NewDecoder(bytes.NewBuffer(line))
	_, _ = dec.ReadToken()        // of valid JSON
	b := &batch{c: c, missing: 1} // until all are taken
	defer b.done()
	for dec.PeekKind() != ']' {
		message, err := value(line, dec)
		if err != nil {
			return true
		}
		m, bad := decode(message)
		if bad != nil {
			b.fail(bad)
			continue
		}
		if !c.take(m, len(message), b) {
			return false
		}
	}
	return true
}

// elements counts those of a valid array, up to one more than most.
func elements(array []byte, most int) (n int) {
	dec := jsontext.NewDecoder(bytes.NewBuffer(array))
	_, _ = dec.ReadToken()
	for n <= most && dec.PeekKind() != ']' && dec.SkipValue() == nil {
		n++
	}
	return n
}

// fail is the reply to what can't be taken.
func (b *batch) fail(f *fault) {
	b.mu.Lock()
	b.missing++
	b.mu.Unlock()
	b.add(nil, b.c.s.refusal(f))
}

// expect says that a request's reply will come.
func (b *batch) expect() {
	b.mu.Lock()
	b.missing++
	b.mu.Unlock()
}

// add takes a reply, of an entry if there is one.
func (b *batch) add(e *entry, line string) {
	b.mu.Lock()
	b.replies = append(b.replies, strings.TrimSuffix(line, "\n"))
	if e != nil {
		b.entries = append(b.entries, e)
	}
	b.mu.Unlock()
	b.done()
}

// done says that a reply is there, or that none will come, and writes all when it
// was the last.
func (b *batch) done() {
	b.mu.Lock()
	b.missing--
	last := b.missing == 0
	b.mu.Unlock()
	if !last {
		return
	}
	if len(b.replies) > 0 { // nobody else has it any more
		b.c.out.Write("["+strings.Join(b.replies, ",")+"]\n", func() {
			for _, e := range b.entries {
				b.c.s.requests.free(e)
			}
		})
	}
	for _, e := range b.entries {
		b.c.s.done(e, false)
	}
}
