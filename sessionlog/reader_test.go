package sessionlog

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A file that is no log, or not all of it, is read as far as it is one.
func TestReader_ForeignLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	l := openT(t, path, Options{})
	l.Scope("a").Note("n", "first")
	l.Scope("a").Note("n", "second")
	_ = l.Close()
	good := strings.SplitAfter(readT(t, path), "\n")
	for _, tt := range []struct{ text, want string }{
		{"", ""},
		{"\n", "(no record of a session log)"},
		{"notes of mine\n", "(no record of a session log)"},
		{"\x7fELF\x00\x01", "(a record that is cut off: dshx was killed while it wrote it)"},
		{good[0] + "nonsense\n{}\n[1]\n\"x\"\n" + good[1], "first" + strings.Repeat(" (no record of a session log)", 4) + " second"},
		{`{"v":2,"type":"note"}` + "\n" + good[1], "(a record of version 2, which this dshx does not know) second"},
		{`{"v":1,"type":"later"}` + "\n" + good[1], `(a record of the unknown type "later") second`},
		{`{"v":1,"type":"note","text":7}` + "\n" + good[1], "(a record note that can't be read) second"},
		{`{"v":1,"type":"call","call":"x"}` + "\n", "(a record call that can't be read)"},
		{strings.Replace(good[0], `"kind"`, `"added":[1],"kind"`, 1), "first"}, // of a later dshx, which adds
		{"\x00\x00\x00" + good[1], "(no record of a session log)"},             // what a power cut leaves
		{good[0][:10] + "\n" + good[1], "(no record of a session log) second"},
	} {
		if err := os.WriteFile(path, []byte(tt.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := kinds(linesT(t, path)); got != tt.want {
			t.Errorf("%q:\n%s\nwant\n%s", tt.text, got, tt.want)
		}
	}
	for _, path := range []string{filepath.Join(t.TempDir(), "none"), t.TempDir(), "/dev/null"} {
		if _, err := OpenReader(path); err == nil {
			t.Errorf("%s: opened", path)
		}
	}
}

// Who follows a log gets every record once, in order, while it is written and
// divided.
func TestReader_FollowsAcrossRotation(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	l := openT(t, path, Options{MaxBytes: 2000, Keep: 500})
	l.Scope("a").Note("n", "0")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	waitFor(t, path)
	r, err := OpenReader(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	const all = 400
	go func() {
		for i := 1; i < all; i++ {
			l.Scope("a").Note("n", fmt.Sprint(i))
			if i%50 == 0 {
				time.Sleep(poll / 4) // so that it is caught up with now and then
			}
		}
	}()
	for n := 0; n < all; {
		line, err := r.Follow(ctx)
		if err != nil {
			t.Fatal(err)
		}
		switch rec := line.Record.(type) {
		case *Continued:
		case *Note:
			if rec.Text != fmt.Sprint(n) {
				t.Fatalf("%s, want %d", rec.Text, n)
			}
			n++
		default:
			t.Fatalf("%+v", line)
		}
	}
	cancel()
	if line, err := r.Follow(ctx); err != io.EOF {
		t.Errorf("%+v, %v", line, err)
	}
}

// waitFor waits until the log has something.
func waitFor(t *testing.T, path string) {
	t.Helper()
	for range 10000 {
		if st, err := os.Stat(path); err == nil && st.Size() > 0 {
			return
		}
	}
	r, err := OpenReader(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := r.Follow(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// Whatever a line is, reading it ends in a record or a sentence, and a record
// can be replayed.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{`{"v":1,"type":"result","call":1,"tool":"say","ok":true,"content":[{"type":"text","text":"x"}],"meta":{}}`,
		`{"v":1,"type":"call","call":1,"tool":"say","arguments":null}`, `{"v":1,"type":"job","job":{"pids":null}}`, `{}`, `{"v":1e9}`,
		`{"v":1,"type":"outcome","call":1,"outcome":"allowed-once"}`, `{"v":1,"type":"question","call":1}`} {
		f.Add([]byte(s))
	}
	scope := sayScope(f)
	f.Fuzz(func(t *testing.T, line []byte) {
		r, err := decode(line)
		if (r == nil) == (err == nil) {
			t.Fatalf("%v, %v", r, err)
		}
		if r == nil {
			return
		}
		p := NewReplay(scope.Lookup)
		p.Event(&Call{Number: 1, Tool: "say"})
		p.Event(r)
		p.Unfinished()
		if _, err := decode(encode(r, &masker{})); err != nil {
			t.Fatalf("%v: %s", err, encode(r, &masker{}))
		}
	})
}
