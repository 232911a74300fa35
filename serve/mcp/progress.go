package mcp

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/dshx/dshx/pipeline"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	// progressPause is between two notifications of one call: four a second.
	progressPause = 250 * time.Millisecond
	// progressSilence is how long a call says nothing: many clients give up after
	// a minute.
	progressSilence = 20 * time.Second
	// maxLastLine is how much of the last line of output is told, in bytes.
	maxLastLine = 200
	// maxTail is how much of the output is kept to find the last line in.
	maxTail = 1 << 10
)

// progress tells the client what a call's last line of output is, and in silence
// that it goes on. It never holds up the call: of what comes faster than it is
// told the latest counts.
type progress struct {
	notify func(*sdk.ProgressNotificationParams)
	token  rawJSON
	began  time.Time

	mu    sync.Mutex
	tails map[string][]byte // by stream
	last  string            // the stream that spoke last

	news chan struct{} // holds one when there is output that was not told
	stop chan struct{}
	done chan struct{}
}

// startProgress begins to tell of the call of an entry that has a token; stop
// ends it, and nothing is told after that.
func (s *session) startProgress(ctx context.Context, e *entry) (report func(pipeline.Progress), stop func()) {
	if e.token == "" {
		return nil, func() {}
	}
	token, err := pipeline.ParseJSON([]byte(e.token))
	if err != nil {
		return nil, func() {}
	}
	p := &progress{
		notify: func(n *sdk.ProgressNotificationParams) { _ = s.peer.NotifyProgress(ctx, n) },
		token:  rawJSON(token), began: time.Now(),
		tails: map[string][]byte{}, news: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}),
	}
	go p.run()
	return p.report, func() {
		close(p.stop)
		<-p.done
	}
}

// report takes what the body has to say.
func (p *progress) report(out pipeline.Progress) {
	if len(out.Data) == 0 {
		return
	}
	data := out.Data
	if len(data) > maxTail {
		data = data[len(data)-maxTail:]
	}
	p.mu.Lock()
	tail := append(p.tails[out.Stream], data...)
	if len(tail) > maxTail {
		tail = append(tail[:0], tail[len(tail)-maxTail:]...)
	}
	p.tails[out.Stream], p.last = tail, out.Stream
	p.mu.Unlock()
	select {
	case p.news <- struct{}{}:
	default:
	}
}

func (p *progress) run() {
	defer close(p.done)
	for {
		silence := time.NewTimer(progressSilence)
		select {
		case <-p.news:
		case <-silence.C:
		case <-p.stop:
			silence.Stop()
			return
		}
		silence.Stop()
		elapsed := time.Since(p.began)
		message := p.line()
		if message == "" {
			message = "no output for " + elapsed.Round(time.Second).String()
		}
		// Seconds: the protocol wants a number that grows.
		p.notify(&sdk.ProgressNotificationParams{ProgressToken: p.token, Progress: elapsed.Round(time.Millisecond).Seconds(), Message: message})
		select {
		case <-time.After(progressPause):
		case <-p.stop:
			return
		}
	}
}

// line is the last line that isn't blank, as far as there is one.
func (p *progress) line() string {
	p.mu.Lock()
	tail := bytes.Clone(p.tails[p.last])
	p.mu.Unlock()
	return lastLine(tail)
}

// lastLine is the last line of an output that isn't blank, as plain text.
func lastLine(out []byte) string {
	lines := bytes.FieldsFunc(out, func(r rune) bool { return r == '\n' || r == '\r' })
	for i := len(lines) - 1; i >= 0; i-- {
		if s := strings.TrimSpace(plainLine(lines[i])); s != "" {
			if len(s) > maxLastLine {
				s = strings.ToValidUTF8(s[:maxLastLine], "") + "…"
			}
			return s
		}
	}
	return ""
}

// plainLine is a line without the control sequences of terminals (ECMA-48 5.4)
// and what else is not to be seen.
func plainLine(line []byte) string {
	var b strings.Builder
	for s := strings.ToValidUTF8(string(line), ""); s != ""; {
		if s[0] == 0x1b {
			s = s[sequence(s):]
			continue
		}
		for _, r := range s {
			switch {
			case r == '\t':
				b.WriteByte(' ')
			case unicode.IsPrint(r):
				b.WriteRune(r)
			}
			s = s[len(string(r)):]
			break
		}
	}
	return b.String()
}

// sequence is how long the control sequence is that s begins with.
func sequence(s string) int {
	if len(s) < 2 {
		return len(s)
	}
	switch s[1] {
	case '[':
		for i := 2; i < len(s); i++ {
			if s[i] >= 0x40 && s[i] <= 0x7e {
				return i + 1
			}
		}
		return len(s)
	case ']': // to BEL or ST
		for i := 2; i < len(s); i++ {
			if s[i] == 0x07 {
				return i + 1
			}
			if s[i] == 0x1b {
				return min(i+2, len(s))
			}
		}
		return len(s)
	}
	return 2
}
