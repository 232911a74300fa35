package mcp

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/dshx/dshx/pipeline"
)

// BenchmarkEncode is a result as the reply to a call.
func BenchmarkEncode(b *testing.B) {
	for _, size := range []int{10, 1 << 10, 64 << 10} {
		b.Run(fmt.Sprintf("%dB", size), func(b *testing.B) {
			scope := newFake(b).scope
			r := scope.Call(context.Background(), pipeline.Request{ID: "1", Name: "say", Args: []byte(`{"text":"` + strings.Repeat("x", size) + `"}`)})
			if !r.OK() {
				b.Fatal(r.Failure())
			}
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				_ = encodeResult(r, nil)
			}
		})
	}
}

// BenchmarkCall is a call through the connection and the pipeline, over pipes of
// this process.
func BenchmarkCall(b *testing.B) {
	for _, size := range []int{10, 1 << 10, 64 << 10} {
		b.Run(fmt.Sprintf("%dB", size), func(b *testing.B) {
			in, toServer := io.Pipe()
			fromServer, out := io.Pipe()
			f := newFake(b)
			ended := make(chan error, 1)
			go func() {
				ended <- Serve(context.Background(), in, out, Options{Version: "bench", Open: func() (Session, error) { return f, nil },
					Tools: func() ([]*pipeline.Tool, error) { return f.scope.Tools(), nil }})
				out.Close()
			}()
			lines := bufio.NewReader(fromServer)
			ask := func(line string) {
				if _, err := io.WriteString(toServer, line); err != nil {
					b.Fatal(err)
				}
				if got, err := lines.ReadString('\n'); err != nil || !strings.Contains(got, `"result"`) || strings.Contains(got, `"isError":true`) {
					b.Fatal(got, err)
				}
			}
			ask(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}` + "\n")
			_, _ = io.WriteString(toServer, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n")
			call := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"say","arguments":{"text":"` + strings.Repeat("x", size) + `"}}}` + "\n"
			ask(call)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				ask(call)
			}
			toServer.Close()
			go func() { _, _ = io.Copy(io.Discard, lines) }()
			if err := <-ended; err != nil {
				b.Fatal(err)
			}
		})
	}
}
