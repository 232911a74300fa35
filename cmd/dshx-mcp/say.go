package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/dshx/dshx/internal/oneshot"
)

// sayer writes lines to standard error and never waits for it: an editor that
// starts a server need not read what it says there. Lines that can't be written
// are dropped, and counted in the next one that can.
type sayer struct {
	w     io.Writer
	json  bool
	lines chan []byte
	done  chan struct{}

	mu      sync.Mutex
	dropped int
	closed  bool
}

const (
	// maxSaid is how many lines wait to be written.
	maxSaid = 256
	// lastWords is for how long the end waits for them.
	lastWords = 200 * time.Millisecond
)

func newSayer(w io.Writer, json bool) *sayer {
	s := &sayer{w: w, json: json, lines: make(chan []byte, maxSaid), done: make(chan struct{})}
	go func() {
		defer close(s.done)
		for line := range s.lines {
			// What was dropped was dropped before this.
			s.mu.Lock()
			n := s.dropped
			s.dropped = 0
			s.mu.Unlock()
			if n > 0 {
				_, _ = s.w.Write(s.missing(n))
			}
			_, _ = s.w.Write(line)
		}
	}()
	return s
}

// missing is the line about lines that were dropped.
func (s *sayer) missing(n int) []byte {
	if s.json {
		return fmt.Appendf(nil, "{\"level\":\"WARN\",\"msg\":\"nobody read standard error\",\"dropped\":%d}\n", n)
	}
	return fmt.Appendf(nil, "dshx: nobody read standard error; %d lines were dropped\n", n)
}

// Write takes one line. It never fails and never waits.
func (s *sayer) Write(line []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return len(line), nil
	}
	select {
	case s.lines <- append([]byte(nil), line...):
	default:
		s.dropped++
	}
	return len(line), nil
}

// close waits a little for what has been said to be written.
func (s *sayer) close() {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.lines)
	}
	s.mu.Unlock()
	select {
	case <-s.done:
	case <-time.After(lastWords):
	}
}

// logger says what is at least of a level, "" being warn.
func (s *sayer) logger(level string) *slog.Logger {
	min := slog.LevelWarn
	if level != "" {
		_ = min.UnmarshalText([]byte(level)) // flags know the names
	}
	if s.json {
		return slog.New(slog.NewJSONHandler(s, &slog.HandlerOptions{Level: min}))
	}
	return slog.New(&textHandler{w: s, min: min})
}

// textHandler says things as all of dshx does: one line, dshx first.
type textHandler struct {
	w     io.Writer
	min   slog.Level
	attrs string
	group string
}

func (h *textHandler) Enabled(_ context.Context, l slog.Level) bool { return l >= h.min }

func (h *textHandler) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	b.WriteString("dshx: ")
	if r.Level < slog.LevelWarn {
		b.WriteString(strings.ToLower(r.Level.String()) + ": ")
	}
	b.WriteString(oneshot.OneLine(r.Message))
	b.WriteString(h.attrs)
	r.Attrs(func(a slog.Attr) bool {
		b.WriteString(h.attr(a))
		return true
	})
	b.WriteByte('\n')
	_, err := io.WriteString(h.w, b.String())
	return err
}

func (h *textHandler) attr(a slog.Attr) string {
	if a.Equal(slog.Attr{}) {
		return ""
	}
	return " " + h.group + a.Key + "=" + oneshot.OneLine(fmt.Sprint(a.Value.Resolve().Any()))
}

func (h *textHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	c := *h
	for _, a := range attrs {
		c.attrs += h.attr(a)
	}
	return &c
}

func (h *textHandler) WithGroup(name string) slog.Handler {
	c := *h
	c.group += name + "."
	return &c
}
