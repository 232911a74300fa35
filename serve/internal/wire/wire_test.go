package wire

import (
	"context"
	"io"
	"os"
	"testing"
	"time"
)

func TestKey(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		same bool
	}{
		{`1`, `1`, true}, {`1`, `1.0`, false}, {`1`, `"1"`, false}, {`"a"`, `"\u0061"`, true}, {`"a"`, `"A"`, false},
		{`9223372036854775808`, `9223372036854775809`, false}, {`"\"1"`, `"1"`, false},
	} {
		if got := Key(tt.a) == Key(tt.b); got != tt.same {
			t.Errorf("%s and %s: same is %v", tt.a, tt.b, got)
		}
	}
}

func TestWhileRead_EndsWithTheReader(t *testing.T) {
	for name, file := range map[string]bool{"a pipe": true, "no file": false} {
		t.Run(name, func(t *testing.T) {
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer w.Close()
			var out io.Writer = w
			if !file {
				out = struct{ io.Writer }{w}
			}
			ctx, stop := WhileRead(context.Background(), out)
			if err := ctx.Err(); err != nil {
				t.Fatalf("ended beside a reader: %v", err)
			}
			r.Close()
			if file {
				select {
				case <-ctx.Done():
				case <-time.After(10 * time.Second):
					t.Fatal("nobody can read, and it goes on")
				}
				if err := context.Cause(ctx); err != ErrClosed {
					t.Errorf("ended by %v", err)
				}
			} else if ctx.Err() != nil {
				t.Error("ended by what it can't see")
			}
			stop()
		})
	}
}

// What is to be told to somebody who has let go isn't waited for; what is to be
// done with the writing is done.
func TestOutput_Leave(t *testing.T) {
	r, w := io.Pipe()
	defer r.Close()
	o := NewOutput(w)
	go o.Run(func() {})
	done := make(chan struct{})
	go func() { defer close(done); o.Write("x\n", nil) }()
	o.Leave()
	o.Leave()
	<-done
	called := false
	o.Write("y\n", func() { called = true })
	if !called {
		t.Error("what goes with a line was left out")
	}
}
