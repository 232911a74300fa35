package jsonl

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dshx/dshx/approval"
	"github.com/dshx/dshx/pipeline"
	"github.com/dshx/dshx/serve/internal/wire"
)

type sayArgs struct {
	Text  string `json:"text,omitzero"`
	Wait  int    `json:"wait_ms,omitzero"`
	Block bool   `json:"block,omitzero"`
	Ask   bool   `json:"ask,omitzero"`
	Times int    `json:"times,omitzero"`
}

type sayValue struct {
	Said string `json:"said"`
}

// tools has say (parallel), alone (exclusive) and chunks, which reports, as
// reports does beside others.
func tools(t testing.TB) *pipeline.Scope {
	t.Helper()
	s := pipeline.New(pipeline.Options{})
	body := func(ctx context.Context, a sayArgs, c *pipeline.Call) (sayValue, error) {
		v := sayValue{Said: strings.Repeat(a.Text, max(a.Times, 1))}
		if a.Block {
			<-ctx.Done()
			return v, &pipeline.Partial{Value: v, Cause: ctx.Err()}
		}
		select {
		case <-time.After(time.Duration(a.Wait) * time.Millisecond):
		case <-ctx.Done():
			return v, &pipeline.Partial{Value: v, Cause: ctx.Err()}
		}
		return v, nil
	}
	spec := pipeline.Spec[sayArgs, sayValue]{Name: "say", Description: "says", Execute: body,
		Render:          func(_ sayArgs, v sayValue) []pipeline.Content { return []pipeline.Content{pipeline.Text(v.Said)} },
		ConcurrencySafe: func(sayArgs) bool { return true }}
	say, err := pipeline.Define(spec)
	if err != nil {
		t.Fatal(err)
	}
	spec.Name, spec.ConcurrencySafe = "alone", nil
	alone, err := pipeline.Define(spec)
	if err != nil {
		t.Fatal(err)
	}
	spec.Name = "chunks"
	spec.Execute = func(_ context.Context, a sayArgs, c *pipeline.Call) (sayValue, error) {
		for range max(a.Times, 1) {
			for i := range len(a.Text) {
				c.Report(pipeline.Progress{Stream: "stdout", Data: []byte{a.Text[i]}})
			}
		}
		return sayValue{}, nil
	}
	chunks, err := pipeline.Define(spec)
	if err != nil {
		t.Fatal(err)
	}
	spec.Name, spec.ConcurrencySafe = "reports", func(sayArgs) bool { return true }
	reports, err := pipeline.Define(spec)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Register(say, alone, chunks, reports); err != nil {
		t.Fatal(err)
	}
	s.PreExecute("asks", func(_ context.Context, c *pipeline.Call, next func() pipeline.Decision) pipeline.Decision {
		if strings.Contains(c.Args().String(), `"ask":true`) {
			return pipeline.Ask{Reason: "may it?", Grants: map[string]string{"network": "full"}}
		}
		return next()
	})
	return s
}

// buffer is an output that can be looked at while it is written.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) lines() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Split(strings.TrimSuffix(b.b.String(), "\n"), "\n")
}

func run(t testing.TB, in string, o Options) []string {
	t.Helper()
	var out buffer
	if o.Scope == nil {
		o.Scope = tools(t)
	}
	if err := Serve(context.Background(), strings.NewReader(in), &out, o); err != nil {
		t.Errorf("Serve: %v", err)
	}
	lines := out.lines()
	for _, l := range lines {
		if l != "" && !json.Valid([]byte(l)) {
			t.Errorf("not JSON: %q", l)
		}
	}
	return lines
}

func TestServe_AnswersEachLine(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"a call", `{"id":1,"tool":"say","arguments":{"text":"hi"}}`,
			`{"id":1,"ok":true,"value":{"said":"hi"},"content":[{"type":"text","text":"hi"}],"card":{"card":"generic","title":"say","kind":"other","locations":[]}}`},
		{"ids as written", `{"id":1.0,"tool":"say"}` + "\n" + `{"id":1e3,"tool":"say"}` + "\n" + `{"id":9223372036854775808,"tool":"say"}` + "\n" + `{"id":"\u0041\n","tool":"say"}`,
			`{"id":1.0,` + "\n" + `{"id":1e3,` + "\n" + `{"id":9223372036854775808,` + "\n" + `{"id":"\u0041\n",`},
		{"no id", `{"tool":"say"}` + "\n" + `{"id":null,"tool":"say"}`, `{"id":null,"ok":true` + "\n" + `{"id":null,"ok":true`},
		{"a failure", `{"id":1,"tool":"sai"}`, `{"id":1,"ok":false,"error":{"code":"UNKNOWN_TOOL","message":"there is no tool \"sai\"; did you mean say?"`},
		{"unknown keys", `{"id":1,"tool":"say","extra":1}`, `{"id":1,"ok":true`},
		{"unknown argument", `{"id":1,"tool":"say","arguments":{"txt":1}}`, `{"id":1,"ok":false,"error":{"code":"INVALID_ARGS"`},
		{"arguments that are no object", `{"id":1,"tool":"say","arguments":[1]}`, `{"id":1,"ok":false,"error":{"code":"INVALID_ARGS"`},
		{"ping", `{"ping":7}` + "\n" + `{"ping":{"a":1.0}}`, `{"pong":7}` + "\n" + `{"pong":{"a":1.0}}`},
		{"late cancel", `{"cancel":1}`, `{"cancelled":1,"known":false}`},
		{"late approval", `{"approve":"ap-1","outcome":"allowed-once"}`, `{"approved":"ap-1","known":false}`},
		{"mark, carriage returns, blanks, no end", "\xef\xbb\xbf{\"ping\":1}\r\n\r\n   \t\n{\"ping\":2}", `{"pong":1}` + "\n" + `{"pong":2}`},
		{"line separators in strings", "{\"id\":1,\"tool\":\"say\",\"arguments\":{\"text\":\"a\u2028b\"}}", "{\"id\":1,\"ok\":true,\"value\":{\"said\":\"a\u2028b\"}"},
		{"a pair of surrogates", `{"id":1,"tool":"say","arguments":{"text":"\ud83d\ude00"}}`, `{"id":1,"ok":true,"value":{"said":"😀"}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := run(t, tt.in+"\n", Options{})
			want := strings.Split(tt.want, "\n")
			if len(got) != len(want) {
				t.Fatalf("%d lines: %q", len(got), got)
			}
			for i := range want {
				if !strings.HasPrefix(got[i], want[i]) {
					t.Errorf("line %d: %s\nwant     %s", i+1, got[i], want[i])
				}
			}
		})
	}
}

// F6-5, F6-9, F6-20: what is no request is answered, and the next line is read.
func TestServe_SurvivesEverything(t *testing.T) {
	for _, bad := range []string{
		`not json`, `{"id":5,"tool":"say"`, `42`, `[]`, `"x"`, `null`, `{}`, `{"id":5}`, `{"id":5,"tool":1}`, `{"id":5,"tool":"say","stream":1}`,
		`{"id":5,"tool":"say","ping":1}`, `{"id":5,"id":6,"tool":"say"}`, `{"tool":"say","tool":"say","id":5}`, "\xef\xbb\xbf" + `{"tool":"say"}`,
		`{"id":5,"tool":"say","arguments":{"text":"\ud83d"}}`,
		"{\"id\":5,\"tool\":\"say\",\"arguments\":{\"text\":\"\xff\"}}", `{"id":5,"tool":"say"} {"id":6,"tool":"say"}`,
		`{"id":5,"tool":"say","arguments":{"text":` + strings.Repeat("[", 600) + strings.Repeat("]", 600) + `}}`,
		`{"id":{},"tool":"say"}`, `{"id":[1],"tool":"say"}`, `{"id":true,"tool":"say"}`, `{"cancel":null}`, `{"cancel":[]}`, `{"approve":1}`,
	} {
		got := run(t, "\n"+bad+"\n{\"ping\":1}\n", Options{})
		if len(got) != 2 || got[1] != `{"pong":1}` {
			t.Errorf("%s: %q", bad, got)
			continue
		}
		if !strings.Contains(got[0], `"ok":false,"error":{"code":"PARSE_ERROR"`) || !strings.HasSuffix(got[0], `"details":{"line":2}}}`) {
			t.Errorf("%s: %s", bad, got[0])
		}
		wantID := "null"
		if strings.Contains(bad, `"id":5`) {
			wantID = "5"
		}
		if !strings.HasPrefix(got[0], `{"id":`+wantID+`,`) {
			t.Errorf("%s: %s, want id %s", bad, got[0], wantID)
		}
	}
}

// F6-1: a panic of a tool is one result, and its report goes elsewhere.
func TestServe_PanicOfATool(t *testing.T) {
	var faults []string
	s := pipeline.New(pipeline.Options{Faults: func(f pipeline.Fault) { faults = append(faults, fmt.Sprint(f.Value)) }})
	boom := func(string) { panic("boom\n") }
	tool, err := pipeline.Define(pipeline.Spec[sayArgs, sayValue]{Name: "boom", Description: "breaks",
		Execute: func(_ context.Context, a sayArgs, _ *pipeline.Call) (sayValue, error) {
			if a.Text == "body" {
				boom("")
			}
			return sayValue{}, nil
		},
		Render: func(a sayArgs, _ sayValue) []pipeline.Content {
			if a.Text == "render" {
				boom("")
			}
			return nil
		},
		PresentResult: func(a sayArgs, _ pipeline.Shown) pipeline.Card { boom(""); return nil }})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Register(tool); err != nil {
		t.Fatal(err)
	}
	got := run(t, `{"id":1,"tool":"boom","arguments":{"text":"body"}}`+"\n"+`{"id":2,"tool":"boom","arguments":{"text":"render"}}`+"\n"+
		`{"id":3,"tool":"boom"}`, Options{Scope: s})
	if len(got) != 3 || !strings.HasPrefix(got[0], `{"id":1,"ok":false,"error":{"code":"TOOL_PANIC"`) ||
		!strings.HasPrefix(got[1], `{"id":2,"ok":false,"error":{"code":"TOOL_PANIC"`) ||
		!strings.HasPrefix(got[2], `{"id":3,"ok":true`) || !strings.Contains(got[2], `"card":"generic"`) {
		t.Errorf("%s", strings.Join(got, "\n"))
	}
	if len(faults) == 0 {
		t.Error("nobody was told")
	}
}

// An id is what stands there whole, or nothing: half a number is another call's.
func TestFindID(t *testing.T) {
	for line, want := range map[string]string{
		`{"id":5,"tool":`:     "5",
		`{"id":5 }}`:          "5",
		`{"tool":{},"id":5,x`: "5",
		`{"id":"a","tool`:     `"a"`,
		`{"id":"a`:            null,
		`{"id":01,"tool":"x"`: null,
		`{"id":1x,"tool":"x"`: null,
		`{"id":123`:           null, // of a longer line
		`{"id":-`:             null,
		`{"id":1.`:            null,
		`{"x":{"id":1}`:       null,
		`["id",1,`:            null,
		`{"id":null,x`:        null,
		`{"id":{},x`:          null,
	} {
		if got := findID([]byte(line)); got != want {
			t.Errorf("findID(%s) = %s, want %s", line, got, want)
		}
	}
}

// F6-6: a line that is too long is skipped as it comes.
func TestServe_LongLines(t *testing.T) {
	const limit = 1 << 20
	long := `{"id":9,"tool":"say","arguments":{"text":"` + strings.Repeat("x", limit) + `"}}`
	fits := `{"id":8,"tool":"say","arguments":{"text":"` + strings.Repeat("x", limit-100) + `"}}`
	got := run(t, fits+"\n"+long+"\n{\"ping\":1}\n"+long, Options{MaxLine: limit})
	var pong, ok, bad int
	for _, l := range got {
		switch {
		case l == `{"pong":1}`:
			pong++
		case strings.HasPrefix(l, `{"id":8,"ok":true`):
			ok++
		case strings.HasPrefix(l, `{"id":9,"ok":false,"error":{"code":"PARSE_ERROR"`):
			bad++
		}
	}
	if pong != 1 || ok != 1 || bad != 2 || len(got) != 4 {
		t.Errorf("%d pongs, %d results, %d errors in %d lines", pong, ok, bad, len(got))
	}

	// However long it is, it is one line.
	if got := run(t, long+strings.Repeat("x", 5*limit)+"\n{\"ping\":1}", Options{MaxLine: limit}); len(got) != 2 || !strings.HasPrefix(got[0], `{"id":9,"ok":false,"error":{"code":"PARSE_ERROR"`) || got[1] != `{"pong":1}` {
		t.Errorf("a line of six times the limit has %d answers", len(got))
	}

	if MaxLine != 64<<20 {
		t.Errorf("lines of %d bytes are taken", MaxLine)
	}

	// To the byte, with whichever end.
	for _, end := range []string{"\n", "\r\n", ""} {
		for over, want := range map[int]string{0: `{"id":7,"ok":true`, 1: `{"id":7,"ok":false,"error":{"code":"PARSE_ERROR"`} {
			const empty = `{"id":7,"tool":"say","arguments":{"text":""}}`
			line := strings.Replace(empty, `""`, `"`+strings.Repeat("x", limit-len(empty)+over)+`"`, 1)
			if got := run(t, line+end, Options{MaxLine: limit}); len(got) != 1 || !strings.HasPrefix(got[0], want) {
				t.Errorf("%d bytes over, end %q: %.100s", over, end, got)
			}
		}
	}

	// Without an end, and with input left open: what runs gets its result.
	in, feed := io.Pipe()
	var out buffer
	done := make(chan error, 1)
	go func() { done <- Serve(context.Background(), in, &out, Options{Scope: tools(t), MaxLine: limit}) }()
	io.WriteString(feed, `{"id":1,"tool":"say","arguments":{"wait_ms":50,"text":"late"}}`+"\n")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	chunk := strings.Repeat("x", 1<<20)
	for range 200 {
		io.WriteString(feed, chunk)
	}
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 32<<20 {
		t.Errorf("the heap grew by %d MiB", grown>>20)
	}
	for end := time.Now().Add(10 * time.Second); len(out.lines()) < 2 && time.Now().Before(end); time.Sleep(time.Millisecond) {
	}
	io.WriteString(feed, "\n{\"ping\":1}\n")
	feed.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if got := strings.Join(out.lines(), "\n"); !strings.Contains(got, `"said":"late"`) || !strings.HasSuffix(got, `{"pong":1}`) {
		t.Errorf("%s", got)
	}
}

// F6-2: results in the order of the calls, and unordered ones as they end.
func TestServe_Order(t *testing.T) {
	in := `{"id":1,"tool":"say","arguments":{"wait_ms":60}}` + "\n" + `{"id":2,"tool":"say"}` + "\n" + `{"id":3,"tool":"alone"}` + "\n" + `{"id":4,"tool":"say"}`
	ids := func(lines []string) string {
		var s []string
		for _, l := range lines {
			s = append(s, l[6:7])
		}
		return strings.Join(s, " ")
	}
	if got := ids(run(t, in, Options{})); got != "1 2 3 4" {
		t.Errorf("ordered: %s", got)
	}
	if got := ids(run(t, in, Options{Unordered: true})); got[0] != '2' {
		t.Errorf("unordered: %s", got)
	}
	// The same id twice at once.
	got := run(t, `{"id":1,"tool":"say","arguments":{"wait_ms":60,"text":"first"}}`+"\n"+`{"id":1,"tool":"say"}`+"\n"+`{"id":"1","tool":"say"}`, Options{})
	if len(got) != 3 || !strings.HasPrefix(got[0], `{"id":1,"ok":false,"error":{"code":"DUPLICATE_ID","message":"a call with the id 1 is in flight; it goes on"},"content":[{"type":"text","text":"a call`) || !strings.HasSuffix(got[0], `"card":{"card":"generic","title":"say","kind":"other","locations":[]}}`) || !strings.Contains(got[1], `"said":"first"`) || !strings.HasPrefix(got[2], `{"id":"1","ok":true`) {
		t.Errorf("%q", got)
	}
}

// What is no result doesn't wait for one: errors of the protocol, answers to
// pings and cancels, and what a later call has to report.
func TestServe_AtOnce(t *testing.T) {
	c := connect(t, context.Background(), Options{Approvals: approval.New(approval.Ask, 0)})
	c.send(`{"id":1,"tool":"say","arguments":{"block":true}}`)
	c.send(`{"id":1,"tool":"say"}`)
	c.want(`{"id":1,"ok":false,"error":{"code":"DUPLICATE_ID"`)
	c.send(`broken`)
	c.want(`{"id":null,"ok":false,"error":{"code":"PARSE_ERROR"`)
	c.send(`{"ping":1}`)
	c.want(`{"pong":1}`)
	c.send(`{"id":2,"tool":"reports","stream":true,"arguments":{"text":"x"}}`)
	c.want(`{"id":2,"event":"output","stream":"stdout","text":"x"}`)
	c.send(`{"id":3,"tool":"say","arguments":{"ask":true}}`)
	c.want(`{"id":3,"event":"approval","approval":"ap-1"`)
	c.send(`{"approve":"ap-1","outcome":"allowed-once"}`)
	c.want(`{"approved":"ap-1","known":true}`)
	// Its result, and that of 2, wait for the first.
	c.send(`{"ping":2}`)
	c.want(`{"pong":2}`)
	c.send(`{"cancel":1}`)
	c.want(`{"cancelled":1,"known":true}`)
	for _, want := range []string{`{"id":1,"ok":false,"error":{"code":"ABORTED"`, `{"id":2,"ok":true`, `{"id":3,"ok":true`} {
		c.want(want)
	}
	if err := c.end(); err != nil {
		t.Error(err)
	}
}

// conn is a connection that is talked to.
type conn struct {
	t    *testing.T
	feed *io.PipeWriter
	out  *buffer
	done chan error
	seen int
}

func connect(t *testing.T, ctx context.Context, o Options) *conn {
	in, feed := io.Pipe()
	c := &conn{t: t, feed: feed, out: &buffer{}, done: make(chan error, 1)}
	if o.Scope == nil {
		o.Scope = tools(t)
	}
	if o.Approvals != nil {
		o.Scope.SetApprover(o.Approvals)
	}
	go func() { c.done <- Serve(ctx, in, c.out, o) }()
	return c
}

func (c *conn) send(line string) { io.WriteString(c.feed, line+"\n") }

// next waits for the next line.
func (c *conn) next() string {
	c.t.Helper()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		if l := c.out.lines(); len(l) > c.seen && l[c.seen] != "" {
			c.seen++
			return l[c.seen-1]
		}
		if time.Now().After(end) {
			c.t.Fatalf("no further line after %q", c.out.lines())
		}
	}
}

func (c *conn) end() error {
	c.feed.Close()
	return <-c.done
}

func (c *conn) want(prefix string) {
	c.t.Helper()
	if got := c.next(); !strings.HasPrefix(got, prefix) {
		c.t.Errorf("got  %s\nwant %s", got, prefix)
	}
}

func TestServe_Cancel(t *testing.T) {
	c := connect(t, context.Background(), Options{})
	c.send(`{"id":1,"tool":"alone","arguments":{"block":true,"text":"half"}}`)
	c.send(`{"id":"\u0032","tool":"alone","arguments":{"text":"waits"}}`)
	c.send(`{"ping":1}`)
	c.want(`{"pong":1}`)
	c.send(`{"cancel":"2"}`) // written in another way
	c.want(`{"cancelled":"2","known":true}`)
	c.send(`{"cancel":1,"reason":"user"}`)
	c.want(`{"cancelled":1,"known":true}`)
	if got := c.next(); !strings.HasPrefix(got, `{"id":1,"ok":false,"error":{"code":"ABORTED","message":"the call was cancelled while it ran: user","details":{"partial":{"said":"half"}}},"content":[{"type":"text","text":"half"}]`) {
		t.Errorf("%s", got)
	}
	c.want(`{"id":"\u0032","ok":false,"error":{"code":"CANCELLED"`)
	c.send(`{"cancel":1}`)
	c.want(`{"cancelled":1,"known":false}`)
	c.send(`{"id":1,"tool":"say","arguments":{"text":"again"}}`)
	c.want(`{"id":1,"ok":true`)
	if err := c.end(); err != nil {
		t.Error(err)
	}
}

func TestServe_Approval(t *testing.T) {
	c := connect(t, context.Background(), Options{Approvals: approval.New(approval.Ask, 0)})
	for i, tt := range []struct{ outcome, want string }{
		{"allowed-once", `"ok":true`}, {"rejected", `"ok":false,"error":{"code":"APPROVAL_REJECTED"`}, {"maybe", `"ok":false,"error":{"code":"APPROVAL_UNAVAILABLE"`},
	} {
		c.send(`{"id":7,"tool":"say","arguments":{"ask":true}}`)
		c.want(fmt.Sprintf(`{"id":7,"event":"approval","approval":"ap-%d","reason":"may it?","grants":{"network":"full"}}`, i+1))
		c.send(fmt.Sprintf(`{"approve":"ap-%d","outcome":"%s"}`, i+1, tt.outcome))
		a, b := c.next(), c.next() // in either order
		if strings.HasPrefix(b, `{"approved"`) {
			a, b = b, a
		}
		if a != fmt.Sprintf(`{"approved":"ap-%d","known":true}`, i+1) || !strings.HasPrefix(b, `{"id":7,`+tt.want) {
			t.Errorf("%s: %s, %s", tt.outcome, a, b)
		}
	}
	// A call without an id has its question, too.
	c.send(`{"tool":"say","arguments":{"ask":true}}`)
	c.want(`{"id":null,"event":"approval","approval":"ap-4"`)
	c.send(`{"approve":"ap-4","outcome":"rejected"}`)
	c.next()
	c.next()
	// Nobody is left to answer.
	c.send(`{"id":8,"tool":"say","arguments":{"ask":true}}`)
	c.want(`{"id":8,"event":"approval"`)
	c.feed.Close()
	c.want(`{"id":8,"ok":false,"error":{"code":"APPROVAL_UNAVAILABLE"`)
	if err := <-c.done; err != nil {
		t.Error(err)
	}
	never := connect(t, context.Background(), Options{Approvals: approval.New(approval.Never, 0)})
	never.send(`{"id":7,"tool":"say","arguments":{"ask":true}}`)
	never.want(`{"id":7,"ok":false,"error":{"code":"APPROVAL_REJECTED"`) // and no question before
	if err := never.end(); err != nil {
		t.Error(err)
	}
	if got := run(t, `{"id":7,"tool":"say","arguments":{"ask":true}}`, Options{}); !strings.Contains(got[0], "APPROVAL_UNAVAILABLE") {
		t.Errorf("without approvals: %q", got)
	}
}

// F6-19: events are valid UTF-8 wherever the output is cut.
func TestServe_Streams(t *testing.T) {
	text := "aé😀b"
	c := connect(t, context.Background(), Options{})
	c.send(`{"id":1,"tool":"chunks","stream":true,"arguments":{"text":"` + text + `"}}`)
	var got strings.Builder
	for {
		l := c.next()
		var e struct{ Event, Stream, Text string }
		if err := json.Unmarshal([]byte(l), &e); err != nil {
			t.Fatal(err)
		}
		if e.Event == "" {
			break
		}
		got.WriteString(e.Text)
	}
	if got.String() != text {
		t.Errorf("streamed %q", got.String())
	}
	if err := c.end(); err != nil {
		t.Error(err)
	}
	s := &streamer{s: &server{out: wire.NewOutput(io.Discard)}, id: "1"}
	for in, want := range map[string]int{"": 0, "a": 1, "\xc3": 0, "a\xf0\x9f": 1, "a\xff": 2, "é": 2, "\x80": 1} {
		if got := incomplete([]byte(in)); got != want {
			t.Errorf("incomplete(%q) = %d, want %d", in, got, want)
		}
	}
	s.progress(pipeline.Progress{Stream: "stdout", Data: []byte("\xf0\x9f")})
	if len(s.kept["stdout"]) != 2 {
		t.Errorf("kept %q", s.kept)
	}
}

// Bytes that are no characters come as base64, also those that only the end of
// the call shows to be none.
func TestServe_StreamsBytes(t *testing.T) {
	s := tools(t)
	type none struct{}
	bytes, err := pipeline.Define(pipeline.Spec[none, none]{Name: "bytes", Description: "d",
		Render: func(none, none) []pipeline.Content { return nil },
		Execute: func(_ context.Context, _ none, c *pipeline.Call) (none, error) {
			for _, data := range []string{"a\xff", "\xe0\xb8"} {
				c.Report(pipeline.Progress{Stream: "stdout", Data: []byte(data)})
			}
			return none{}, nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Register(bytes); err != nil {
		t.Fatal(err)
	}
	got := run(t, `{"id":1,"tool":"bytes","stream":true}`, Options{Scope: s})
	if len(got) != 3 || got[0] != `{"id":1,"event":"output","stream":"stdout","base64":"Yf8="}` || got[1] != `{"id":1,"event":"output","stream":"stdout","base64":"4Lg="}` || !strings.HasPrefix(got[2], `{"id":1,"ok":true`) {
		t.Errorf("%q", got)
	}
}

// Calls that wait are bounded: past that no line is read, until one has ended.
func TestServe_BoundsWhatWaits(t *testing.T) {
	for name, tt := range map[string]struct {
		text string // of a call
		most int    // lines
	}{
		"by number": {"", maxPending + 3000},
		"by bytes":  {strings.Repeat("x", 900<<10), maxPendingLines + 3},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(context.Background())
			in, feed := io.Pipe()
			done := make(chan error, 1)
			go func() { done <- Serve(ctx, in, io.Discard, Options{Scope: tools(t), MaxLine: 1 << 20}) }()
			var sent atomic.Int64
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				for i := range 2 * tt.most {
					if _, err := fmt.Fprintf(feed, "{\"id\":%d,\"tool\":\"alone\",\"arguments\":{\"block\":true,\"text\":%q}}\n", i, tt.text); err != nil {
						return
					}
					sent.Add(1)
				}
			}()
			synctest.Wait()
			if n := int(sent.Load()); n > tt.most || n < tt.most/3 {
				t.Errorf("%s: %d lines were taken", name, n)
			}
			cancel(errSignal)
			if err := <-done; err != errSignal {
				t.Errorf("%s: %v", name, err)
			}
			in.Close()
			<-ended
		})
	}
}

// Results that nobody reads are bounded, too: calls behind them wait, and all
// come once somebody does. One that is cancelled waits for nothing.
func TestServe_BoundsUnreadResults(t *testing.T) {
	for _, unordered := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			in, feed := io.Pipe()
			out, write := io.Pipe()
			s := tools(t)
			var ended atomic.Int32
			s.Observe("ended", func(*pipeline.Call, pipeline.Result) { ended.Add(1) })
			done := make(chan error, 1)
			go func() {
				done <- Serve(t.Context(), in, write, Options{Scope: s, maxHeld: 1 << 20, Unordered: unordered})
				write.Close()
			}()
			const n, size = 300, 64 << 10
			for i := range n {
				fmt.Fprintf(feed, "{\"id\":%d,\"tool\":\"say\",\"arguments\":{\"text\":\"x\",\"times\":%d}}\n", i, size)
			}
			synctest.Wait()
			// A result has the text in its value, and most of it in its content.
			if k := int(ended.Load()); k > (1<<20)/size+pipeline.DefaultPool+1 || k < 8 {
				t.Errorf("%d bodies ran", k)
			}
			before := ended.Load()
			go func() {
				fmt.Fprintf(feed, "{\"cancel\":%d}\n", n-1)
				feed.Close()
			}()
			synctest.Wait()
			if k := ended.Load(); k != before+1 {
				t.Errorf("%d calls ended by one cancel", k-before)
			}
			r := bufio.NewReader(out)
			seen := map[int]string{}
			last := -1
			for {
				l, err := r.ReadBytes('\n')
				if err == io.EOF {
					break
				}
				var m struct {
					ID    *int
					Error struct{ Code string }
				}
				if err := json.Unmarshal(l, &m); err != nil {
					t.Fatal(err)
				}
				if m.ID == nil {
					continue
				}
				if !unordered && *m.ID != last+1 {
					t.Errorf("result %d behind %d", *m.ID, last)
				}
				last = *m.ID
				seen[last] = m.Error.Code
			}
			if err := <-done; err != nil {
				t.Error(err)
			}
			if len(seen) != n || seen[n-1] != pipeline.CodeCancelled || seen[0] != "" || seen[n-2] != "" {
				t.Errorf("%d results, the last %q", len(seen), seen[n-1])
			}
		})
	}
}

var errSignal = errors.New("terminated")

func TestServe_EndsBySignal(t *testing.T) {
	ctx, cancel := context.WithCancelCause(context.Background())
	c := connect(t, ctx, Options{})
	c.send(`{"id":1,"tool":"say","arguments":{"block":true}}`)
	c.send(`{"ping":1}`)
	c.want(`{"pong":1}`)
	cancel(errSignal)
	c.want(`{"id":1,"ok":false,"error":{"code":"ABORTED"`)
	if err := <-c.done; err != errSignal {
		t.Errorf("ended by %v", err)
	}
}

// gone is an output whose reader goes after n lines.
type gone struct{ n int }

func (g *gone) Write(p []byte) (int, error) {
	if g.n--; g.n < 0 {
		return 0, io.ErrClosedPipe
	}
	return len(p), nil
}

// F6-23: a closed output ends everything, with input left open.
func TestServe_ClosedOutput(t *testing.T) {
	in, feed := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- Serve(context.Background(), in, &gone{1}, Options{Scope: tools(t)}) }()
	for i := range 3 {
		fmt.Fprintf(feed, "{\"id\":%d,\"tool\":\"say\",\"arguments\":{\"block\":true}}\n", i)
	}
	io.WriteString(feed, "{\"ping\":1}\n{\"ping\":2}\n")
	select {
	case err := <-done:
		if err != ErrClosed {
			t.Errorf("ended by %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("it goes on")
	}
}

// Results of cancelled calls don't hold up the call that they wait behind.
func TestServe_CancelledBehindWhatIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 200
		c := connect(t, t.Context(), Options{maxHeld: 4 << 10})
		for i := range n {
			c.send(fmt.Sprintf(`{"id":%d,"tool":"alone","arguments":{"wait_ms":10}}`, i))
		}
		for i := 40; i < n; i++ {
			c.send(fmt.Sprintf(`{"cancel":%d}`, i))
		}
		if err := c.end(); err != nil {
			t.Error(err)
		}
		if got := len(c.out.lines()); got != n+n-40 {
			t.Errorf("%d lines", got)
		}
	})
}

// A reader that reads nothing may hold everything up, but not the end by a
// signal: what it doesn't take in time is dropped, and all calls have ended.
func TestServe_EndsBesideAStuckReader(t *testing.T) {
	for _, last := range []string{`{"ping":1}`, `{"id":2,"tool":"chunks","stream":true,"arguments":{"text":"xxxx","times":1000}}`} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(context.Background())
			in, feed := io.Pipe()
			out, write := io.Pipe()
			defer out.Close() // lets the last write go
			s := tools(t)
			var ended atomic.Int32
			s.Observe("ended", func(*pipeline.Call, pipeline.Result) { ended.Add(1) })
			done := make(chan error, 1)
			go func() { done <- Serve(ctx, in, write, Options{Scope: s}) }()
			io.WriteString(feed, `{"id":1,"tool":"say","arguments":{"block":true}}`+"\n"+last+"\n")
			time.Sleep(time.Hour)
			select {
			case err := <-done:
				t.Fatalf("the reader was not waited for: %v", err)
			default:
			}
			began := time.Now()
			cancel(errSignal)
			if err := <-done; err != errSignal {
				t.Errorf("ended by %v", err)
			}
			if took := time.Since(began); took > 2*patience {
				t.Errorf("took %v", took)
			}
			if n := int(ended.Load()); n != 1+strings.Count(last, "tool") {
				t.Errorf("%d calls have ended", n)
			}
			feed.Close()
		})
	}
}

// What ends without a call at the end is told of, behind all results.
func TestServe_EventsOfTheEnd(t *testing.T) {
	var tell func(any)
	stopped := false
	got := run(t, `{"id":1,"tool":"say","arguments":{"wait_ms":20}}`, Options{
		Events: func(write func(any)) func() { tell = write; return func() { stopped = true } },
		End: func() {
			if stopped {
				t.Error("the events ended first")
			}
			tell(map[string]string{"event": "job"})
		},
	})
	if len(got) != 2 || !strings.HasPrefix(got[0], `{"id":1,"ok":true`) || got[1] != `{"event":"job"}` || !stopped {
		t.Errorf("%q", got)
	}
}

// A reader that doesn't read stops the writers, not the cancels that were read.
func TestServe_SlowReader(t *testing.T) {
	in, feed := io.Pipe()
	out, write := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- Serve(context.Background(), in, write, Options{Scope: tools(t)}); write.Close() }()
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	io.WriteString(feed, `{"id":"blocked","tool":"say","arguments":{"block":true}}`+"\n")
	io.WriteString(feed, `{"id":"flood","tool":"chunks","stream":true,"arguments":{"text":"xxxxxxxxxx","times":1000}}`+"\n")
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		io.WriteString(feed, `{"cancel":"blocked"}`+"\n")
		feed.Close()
	}()
	<-sent
	time.Sleep(50 * time.Millisecond)
	var after runtime.MemStats
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 16<<20 {
		t.Errorf("the heap grew by %d MiB", grown>>20)
	}
	data, err := io.ReadAll(out)
	if err != nil || <-done != nil {
		t.Fatal(err)
	}
	text := string(data)
	if n := strings.Count(text, `"event":"output"`); n != 10000 {
		t.Errorf("%d events", n)
	}
	if !strings.Contains(text, `{"id":"blocked","ok":false,"error":{"code":"`) || !strings.Contains(text, `{"id":"flood","ok":true`) {
		t.Error("a result is missing")
	}
}

// What waits for its reader is bounded by its length, not by the number of calls.
func TestServe_HoldsCallsWhileResultsWait(t *testing.T) {
	// A result holds its text twice, so that many wait before any call is held.
	const calls, long, most = 100, 64 << 10, 1 << 20
	const enough = most / (2 * long)
	scope := tools(t)
	var began atomic.Int64
	var full sync.Once
	waiting := make(chan struct{})
	scope.Guard("counts", func(*pipeline.Call) (string, bool) {
		if n := began.Add(1); n >= enough {
			full.Do(func() { close(waiting) })
		}
		return "", false
	})
	in, feed := io.Pipe()
	out, write := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- Serve(context.Background(), in, write, Options{Scope: scope, maxHeld: most})
		write.Close()
	}()
	go func() {
		for i := range calls {
			fmt.Fprintf(feed, "{\"id\":%d,\"tool\":\"say\",\"arguments\":{\"text\":\"%s\"}}\n", i, strings.Repeat("x", long))
		}
		feed.Close()
	}()
	<-waiting
	time.Sleep(50 * time.Millisecond) // for those that begin though they shouldn't
	read := int64(0)
	for r := bufio.NewReader(out); ; read++ {
		if n := began.Load() - read; n > enough+pipeline.DefaultPool+2 {
			t.Errorf("%d calls began before %d results were read", began.Load(), read)
			feed.CloseWithError(io.ErrUnexpectedEOF)
			break
		}
		if _, err := r.ReadString('\n'); err != nil {
			break
		}
	}
	go io.Copy(io.Discard, out)
	if err := <-done; err != nil || read != calls {
		t.Errorf("%d results, %v", read, err)
	}
}

// stuck is an output that takes some bytes, and then nothing for ever.
type stuck struct {
	n    int
	full chan struct{}
}

func (s *stuck) Write(p []byte) (int, error) {
	if s.n -= len(p); s.n < 0 {
		close(s.full)
		select {}
	}
	return len(p), nil
}

// A reader that has stopped reading doesn't keep alive what is to end: neither
// calls, also those that are reporting, nor what outlives them.
func TestServe_EndsBySignalWithAStuckReader(t *testing.T) {
	for name, flood := range map[string]string{
		"a result": `{"id":"flood","tool":"say","arguments":{"text":"` + strings.Repeat("x", 1000) + `"}}`,
		"events":   `{"id":"flood","tool":"chunks","stream":true,"arguments":{"text":"xxxxxxxxxx","times":1000}}`,
	} {
		ctx, cancel := context.WithCancelCause(context.Background())
		in, feed := io.Pipe()
		out := &stuck{500, make(chan struct{})}
		done := make(chan error, 1)
		var ended atomic.Int64
		go func() {
			done <- Serve(ctx, in, out, Options{Scope: tools(t), patience: 50 * time.Millisecond, End: func() { ended.Add(1) }})
		}()
		fmt.Fprintln(feed, flood)
		fmt.Fprintln(feed, `{"id":"blocked","tool":"say","arguments":{"block":true}}`)
		<-out.full
		select {
		case err := <-done:
			t.Fatalf("%s: a reader that is slow ended it: %v", name, err)
		case <-time.After(200 * time.Millisecond): // back-pressure has no end
		}
		cancel(errSignal)
		select {
		case err := <-done:
			if err != errSignal || ended.Load() != 1 {
				t.Errorf("%s: ended by %v, and %d times what outlives calls", name, err, ended.Load())
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("%s: it goes on", name)
		}
	}
}

// What outlives the calls is ended beside them when they are aborted, and its
// events are written; at the end of input when they have ended.
func TestServe_EndsWhatOutlivesCalls(t *testing.T) {
	var event func(any)
	options := func() Options {
		return Options{Events: func(write func(any)) func() { event = write; return func() {} }, End: func() { event(map[string]int{"ends": 1}) }}
	}
	c := connect(t, context.Background(), options())
	c.send(`{"id":1,"tool":"say","arguments":{"wait_ms":50}}`)
	if err := c.end(); err != nil {
		t.Fatal(err)
	}
	c.want(`{"id":1,"ok":true`)
	c.want(`{"ends":1}`)

	ctx, cancel := context.WithCancelCause(context.Background())
	release := make(chan struct{})
	o := options()
	o.Scope = tools(t)
	o.Scope.Wrap("slow to end", func(ctx context.Context, _ *pipeline.Call, next pipeline.Body) pipeline.Outcome {
		v := next(ctx)
		<-release
		return v
	})
	c = connect(t, ctx, o)
	c.send(`{"id":1,"tool":"say","arguments":{"block":true}}`)
	c.send(`{"ping":1}`)
	c.want(`{"pong":1}`)
	cancel(errSignal)
	c.want(`{"ends":1}`)
	close(release)
	c.want(`{"id":1,"ok":false`)
	if err := <-c.done; err != errSignal {
		t.Errorf("ended by %v", err)
	}
}

// F6-25: cancels at random moments: one result and one cancelled line for each
// call, and known:false only for a result that was out.
func TestServe_CancelStorm(t *testing.T) {
	const n = 1000
	c := connect(t, context.Background(), Options{})
	var wg sync.WaitGroup
	sem := make(chan struct{}, 16)
	var mu sync.Mutex
	for i := range n {
		sem <- struct{}{}
		wg.Go(func() {
			defer func() { <-sem }()
			mu.Lock()
			c.send(fmt.Sprintf(`{"id":%d,"tool":"say","arguments":{"wait_ms":2}}`, i))
			mu.Unlock()
			time.Sleep(time.Duration(rand.IntN(4000)) * time.Microsecond)
			mu.Lock()
			c.send(fmt.Sprintf(`{"cancel":%d}`, i))
			mu.Unlock()
		})
	}
	wg.Wait()
	if err := c.end(); err != nil {
		t.Fatal(err)
	}
	results, cancels := map[int]int{}, map[int]int{}
	at := 0
	for _, l := range c.out.lines() {
		at++
		var m struct {
			ID        *int
			Cancelled *int
			Known     bool
			OK        bool
			Error     *struct{ Code string }
		}
		if err := json.Unmarshal([]byte(l), &m); err != nil {
			t.Fatal(err)
		}
		if m.ID != nil {
			results[*m.ID]++
			continue
		}
		cancels[*m.Cancelled]++
		if !m.Known && results[*m.Cancelled] == 0 {
			t.Errorf("call %d was not known before its result was out", *m.Cancelled)
		}
	}
	for i := range n {
		if results[i] != 1 || cancels[i] != 1 {
			t.Errorf("call %d: %d results, %d cancelled lines", i, results[i], cancels[i])
		}
	}
}

func BenchmarkRoundTrip(b *testing.B) {
	in, feed := io.Pipe()
	out, write := io.Pipe()
	go func() { _ = Serve(context.Background(), in, write, Options{Scope: tools(b)}) }()
	buf := make([]byte, 64<<10)
	b.ReportAllocs()
	var lines atomic.Int64
	for b.Loop() {
		io.WriteString(feed, `{"id":1,"tool":"say","arguments":{"text":"hi"}}`+"\n")
		for {
			k, err := out.Read(buf)
			if err != nil {
				b.Fatal(err)
			}
			if buf[k-1] == '\n' {
				lines.Add(1)
				break
			}
		}
	}
	feed.Close()
}

// FuzzDecode: no line makes the decoder panic, and the id that it finds is
// one that can be sent back.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{`{"id":1,"tool":"x"}`, `{"cancel":"a"}`, `{"id":"\ud83d"}`, `{"id":1`, `[`, `{"ping":{}}`, `{"approve":"ap-1","outcome":1}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		r, err := decode(line)
		if !json.Valid([]byte(r.id)) {
			t.Errorf("%q: id %q", line, r.id)
		}
		if err == nil && r.tool == "" && r.cancel == nil && r.approve == nil && r.ping == nil && !bytes.Contains(line, []byte(`"tool"`)) {
			t.Errorf("%q: nothing was asked", line)
		}
	})
}
