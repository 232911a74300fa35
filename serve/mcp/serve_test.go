package mcp

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dshx/dshx/pipeline"
)

func TestServe_AnswersEachMessage(t *testing.T) {
	const said = `{"content":[{"type":"text","text":"hi"}],"structuredContent":{"said":"hi","lines":[]},"_meta":{"dshx/card":{"card":"generic","title":"Say","kind":"other","locations":[]}}}}`
	for _, tt := range []struct{ name, in, want string }{
		{"a call", call("1", "say", `{"text":"hi"}`), result("1") + said},
		{"no arguments", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"say"}}`, result("1") + `{"content":[{"type":"text","text":""}],"structuredContent":{"said":"","lines":[]}`},
		{"null for arguments", call("1", "say", "null"), result("1") + `{"content":`},
		{"arguments first", `{"params":{"arguments":{"text":"hi"},"_meta":{"a":1},"name":"say"},"method":"tools/call","id":1,"jsonrpc":"2.0"}`, result("1") + said},
		{"white space", ` { "jsonrpc" : "2.0" , "id" : 1 , "method" : "tools/call" , "params" : { "name" : "say" , "arguments" : { "text" : "hi" } } } `, result("1") + said},
		{"braces in names", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"a{":"}","arguments":{"text":"hi"},"name":"say"}}`, result("1") + said},
		{"ids as written", strings.Join([]string{ping("1.0"), ping("1e3"), ping("9223372036854775808"), ping("1.5"), ping(`"\u0041\n"`), ping("0"), ping(`""`)}, "\n"),
			strings.Join([]string{result("1.0"), result("1e3"), result("9223372036854775808"), result("1.5"), result(`"\u0041\n"`), result("0"), result(`""`)}, "\n")},
		{"exact bytes", call("1", "say", `{"text":"<a href=\"x\">&\u2028\u00e9é</a>"}`), result("1") + `{"content":[{"type":"text","text":"<a href=\"x\">&` + "\u2028" + `éé</a>"}],"structuredContent":{"said":"<a href=\"x\">&` + "\u2028" + `éé</a>"`},
		{"a pair of surrogates", call("1", "say", `{"text":"\ud83d\ude00"}`), result("1") + `{"content":[{"type":"text","text":"😀"}]`},
		{"a failure", call("1", "say", `{"fail":"FS_STALE","text":"é"}`), result("1") + `{"content":[{"type":"text","text":"it failed: <é>"}],"isError":true,"_meta":{"dshx/card":{"card":"generic","title":"Say","kind":"other","locations":[]},"dshx/error":{"code":"FS_STALE","message":"it failed: <é>","details":{"why":"asked & done"}}}}}`},
		{"a panic", call("1", "say", `{"text":"panic"}`), result("1") + `{"content":[{"type":"text","text":"say failed inside; this is a fault of the tool"}],"isError":true,"_meta":{"dshx/card":{"card":"generic","title":"Say","kind":"other","locations":[]},"dshx/error":{"code":"TOOL_PANIC"`},
		{"unknown argument", call("1", "say", `{"txt":1}`), result("1") + `{"content":[{"type":"text","text":"`},
		{"arguments that are no object", call("1", "say", `[1]`), result("1") + `{"content":[{"type":"text","text":"`},
		{"unknown tool", call("1", "sai", `{}`), failure("1") + `-32602,"message":"unknown tool \"sai\"; there are alone, say","data":{"tools":["alone","say"]}}}`},
		{"no tool", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}`, failure("1") + `-32602,"message":"unknown tool \"\"; there are alone, say"`},
		{"unknown method", `{"jsonrpc":"2.0","id":1,"method":"tools/burn"}`, failure("1") + `-32601,`},
		{"a second initialize", hello2, failure("2") + `-32600,`},
		{"params that are no object", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":[1]}`, failure("1") + `-32602,"message":"invalid params: params must be an object, not an array"}}`},
		{"a cursor", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"x"}}`, failure("1") + `-32602,`},
		{"mark, carriage returns, blanks, no end", "\r\n\n  \t\n" + ping("1") + "\r\n" + ping("2"), result("1") + "{}}\n" + result("2") + "{}}"},
		{"late cancels", cancel("1") + "\n" + cancel(`"nosuch"`) + "\n" + cancel("null") + "\n" + ping("1"), result("1")},
		{"an answer to nothing", `{"jsonrpc":"2.0","id":1,"result":{}}` + "\n" + `{"jsonrpc":"2.0","id":"x","error":{"code":1,"message":"m"}}` + "\n" + `{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"m"}}` + "\n" + ping("1"), result("1")},
		{"unknown notification", `{"jsonrpc":"2.0","method":"notifications/nosuch"}` + "\n" + ping("1"), result("1")},
		{"lists that are empty", `{"jsonrpc":"2.0","id":1,"method":"resources/list"}`, result("1") + `{"ttlMs":0,"cacheScope":"private","resources":[]}}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := run(t, tt.in+"\n", newFake(t).options(t))
			want := strings.Split(tt.want, "\n")
			if len(got) != len(want) {
				t.Fatalf("%d lines: %q", len(got), got)
			}
			for _, w := range want {
				found := false
				for _, g := range got {
					found = found || strings.HasPrefix(g, w)
				}
				if !found {
					t.Errorf("got  %s\nwant %s", strings.Join(got, "\n"), w)
				}
			}
		})
	}
}

const hello2 = `{"jsonrpc":"2.0","id":2,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"0"}}}`

// F6-5, F6-9, F6-19: what is no message is answered, runs nothing, and the next
// line is read.
func TestServe_SurvivesEverything(t *testing.T) {
	var ran atomic.Int32
	const parse, inval = "-32700", "-32600"
	for _, tt := range []struct{ line, code, id string }{
		{`not json`, parse, null}, {`{"jsonrpc":"2.0","id":5,"method":"tools/call"`, parse, "5"}, {`42`, inval, null}, {`[]`, inval, null}, {`"x"`, inval, null}, {`null`, inval, null},
		{`{}`, inval, null}, {`{"id":5}`, inval, null}, {`{"id":5,"method":"ping"}`, inval, null}, {`{"jsonrpc":"1.0","id":5,"method":"ping"}`, inval, null}, {`{"jsonrpc":"2.0","id":5}`, inval, null},
		{`{"jsonrpc":"2.0","id":5,"method":1}`, inval, null}, {`{"jsonrpc":"2.0","id":5,"method":"ping","result":{}}`, inval, null},
		{`[` + call("5", "say", `{}`) + `]`, inval, null},
		{call("null", "say", `{}`), inval, null}, {call("{}", "say", `{}`), inval, null}, {call("[1]", "say", `{}`), inval, null}, {call("true", "say", `{}`), inval, null},
		{call("5", "say", `{"text":"\ud83d"}`), parse, "5"}, {call("5", "say", "{\"text\":\"\xff\"}"), parse, "5"}, {call("5", "say", `{"text":"a","text":"b"}`), parse, "5"},
		{`{"jsonrpc":"2.0","id":5,"id":6,"method":"tools/call","params":{"name":"say"}}`, parse, "5"},
		{`{"method":"tools/call","params":{"name":"say","arguments":{"text":"\ud83d"}},"jsonrpc":"2.0","id":5}`, parse, "5"},
		{call("5", "say", `{}`) + call("6", "say", `{}`), parse, "5"},
		{`{"jsonrpc":"2.0","id":5,"result":{"text":"\ud83d"}}`, parse, null}, // 5 would be ours
		{"\xef\xbb\xbf" + ping("5"), parse, null},
		{`{"jsonrpc":"2.0","id":"\ud83d","method":"ping"}`, parse, null},
		{`{"jsonrpc":"2.0","method":"ping","id":12`, parse, null}, // of 123
	} {
		f := newFake(t)
		f.scope.Guard("counts", func(*pipeline.Call) (string, bool) { ran.Add(1); return "", false })
		got := run(t, "\n"+tt.line+"\n"+ping("1")+"\n", f.options(t))
		if len(got) != 2 {
			t.Errorf("%s: %q", tt.line, got)
			continue
		}
		bad, pong := got[0], got[1]
		if strings.Contains(bad, `"result"`) {
			bad, pong = pong, bad
		}
		if !strings.HasPrefix(bad, failure(tt.id)+tt.code+",") || !strings.HasPrefix(pong, result("1")) {
			t.Errorf("%s: %s", tt.line, strings.Join(got, "\n"))
		}
	}
	if n := ran.Load(); n != 0 {
		t.Errorf("%d calls ran", n)
	}
}

// F6-16: no version is refused, and none that isn't spoken is agreed to.
func TestServe_Versions(t *testing.T) {
	for asked, want := range map[string]string{
		`"2025-11-25"`: "2025-11-25", `"2025-06-18"`: "2025-06-18", `"2025-03-26"`: "2025-03-26", `"2024-11-05"`: "2024-11-05",
		`"2099-01-01"`: "2025-11-25", `""`: "2025-11-25", `null`: "2025-11-25", `"2026-07-28"`: "2025-11-25", "": "2025-11-25",
	} {
		params := `{"capabilities":{},"clientInfo":{"name":"t","version":"0"}`
		if asked != "" {
			params += `,"protocolVersion":` + asked
		}
		var out buffer
		if err := Serve(context.Background(), strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":`+params+"}}\n"), &out, newFake(t).options(t)); err != nil {
			t.Error(err)
		}
		if l := out.lines(); len(l) != 1 || !strings.Contains(l[0], `"protocolVersion":"`+want+`"`) {
			t.Errorf("asked for %s: %q", asked, l)
		}
	}
}

// What comes before the handshake runs nothing.
func TestServe_BeforeInitialize(t *testing.T) {
	var out buffer
	if err := Serve(context.Background(), strings.NewReader(call("1", "say", `{}`)+"\n"+ping("2")+"\n"), &out, newFake(t).options(t)); err != nil {
		t.Error(err)
	}
	all := strings.Join(out.lines(), "\n")
	if !strings.Contains(all, failure("1")+"-32600,") || !strings.Contains(all, result("2")+"{}}") {
		t.Error(all)
	}
}

// F6-6: a line that is too long is skipped as it comes.
func TestServe_LongLines(t *testing.T) {
	const limit = 1 << 20
	o := newFake(t).options(t)
	o.MaxLine = limit
	long := call("9", "say", `{"text":"`+strings.Repeat("x", limit)+`"}`)
	fits := call("8", "say", `{"text":"`+strings.Repeat("x", limit-200)+`"}`)
	got := run(t, fits+"\n"+long+"\n"+ping("1")+"\n"+long, o)
	all := strings.Join(got, "\n")
	if len(got) != 4 || strings.Count(all, failure("9")+"-32700,") != 2 || !strings.Contains(all, result("1")+"{}}") || !strings.Contains(all, result("8")) {
		t.Errorf("%d lines: %.300s", len(got), all)
	}

	// Without an end, and with input left open: what runs gets its result.
	o = newFake(t).options(t)
	o.MaxLine = limit
	c := connect(t, context.Background(), o)
	c.call("1", "say", `{"wait_ms":50,"text":"late"}`)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	chunk := strings.Repeat("x", 1<<20)
	for range 200 {
		io.WriteString(c.feed, chunk)
	}
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 32<<20 {
		t.Errorf("the heap grew by %d MiB", grown>>20)
	}
	one, two := c.next(), c.next()
	if !strings.Contains(one+two, `"said":"late"`) || !strings.Contains(one+two, failure(null)+"-32700,") {
		t.Errorf("%s\n%s", one, two)
	}
	io.WriteString(c.feed, "\n"+ping("7")+"\n")
	c.want(result("7"))
	if err := c.end(); err != nil {
		t.Error(err)
	}
}

// An id in flight is nobody else's; it is free when its reply is read, or when
// its call is cancelled.
func TestServe_DuplicateIDs(t *testing.T) {
	c := connect(t, context.Background(), newFake(t).options(t))
	c.call("1", "say", `{"block":true}`)
	c.call("1", "say", `{"text":"second"}`)
	c.want(failure(null) + `-32600,"message":"invalid request: a request with the id 1 is in flight; it goes on"}}`)
	c.send(`{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}`)
	c.want(failure(null) + "-32602,")
	c.send(`{"jsonrpc":"2.0","id":1,"method":"ping","x":"\ud83d"}`)
	c.want(failure(null) + "-32700,")
	for _, other := range []string{`"1"`, `1.0`, `"a"`} {
		c.call(other, "say", `{"text":"other"}`)
		c.want(result(other))
	}
	c.call(`"\u0061"`, "say", `{"block":true}`)
	c.call(`"a"`, "say", `{}`)
	c.want(failure(null) + "-32600,")
	c.send(cancel("1"))
	c.send(cancel(`"a"`))
	c.call("1", "say", `{"text":"third"}`)
	if got := c.want(result("1")); !strings.Contains(got, `"said":"third"`) {
		t.Error(got)
	}
	if err := c.end(); err != nil {
		t.Error(err)
	}
	if got := strings.Join(c.out.lines()[c.seen:], "\n"); got != "" {
		t.Errorf("further: %s", got)
	}
}

// The id of a cancelled call is free at once, though its tree takes time to end.
func TestServe_CancelledIDsAreFree(t *testing.T) {
	f := newFake(t)
	begun, release := make(chan struct{}), make(chan struct{})
	f.scope.Wrap("slow to end", func(ctx context.Context, c *pipeline.Call, next pipeline.Body) pipeline.Outcome {
		if !strings.Contains(c.Args().String(), "block") {
			return next(ctx)
		}
		close(begun)
		o := next(ctx)
		<-release
		return o
	})
	c := connect(t, context.Background(), f.options(t))
	c.call("1", "say", `{"block":true}`)
	<-begun
	c.send(cancel("1"))
	c.call("1", "say", `{"text":"again"}`)
	if got := c.want(result("1")); !strings.Contains(got, "again") {
		t.Error(got)
	}
	// The end waits for what is still ending, and nobody is told of it.
	c.feed.Close()
	select {
	case err := <-c.done:
		t.Fatalf("ended beside a call: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	close(release)
	if err := <-c.done; err != nil {
		t.Error(err)
	}
	if n := len(c.out.lines()); n != c.seen {
		t.Errorf("further: %q", c.out.lines()[c.seen:])
	}
}

// F6-4: a cancelled call ends and gets no reply.
func TestServe_Cancel(t *testing.T) {
	f := newFake(t)
	codes := make(chan string, 10)
	f.scope.Observe("ends", func(c *pipeline.Call, r pipeline.Result) {
		if e := r.Failure(); e != nil {
			codes <- c.ID() + " " + e.Code + " " + e.Message
		}
	})
	c := connect(t, context.Background(), f.options(t))
	c.call("1", "alone", `{"block":true}`)
	c.call(`"\u0032"`, "alone", `{"text":"waits"}`)
	for len(f.scope.Tools()) == 0 || !running(f, c) {
		time.Sleep(time.Millisecond)
	}
	c.send(cancel(`"2"`)) // written in another way
	if got := <-codes; !strings.HasPrefix(got, `"\u0032" CANCELLED`) {
		t.Error(got)
	}
	c.send(cancel("1"))
	if got := <-codes; got != "1 ABORTED the call was cancelled while it ran: user" {
		t.Error(got)
	}
	c.send(cancel("1"))
	c.send(cancel("77"))
	c.call("1", "say", `{"text":"again"}`)
	c.want(result("1") + `{"content":[{"type":"text","text":"again"}]`)
	if err := c.end(); err != nil {
		t.Error(err)
	}
	if n := len(c.out.lines()); n != c.seen {
		t.Errorf("%d lines more", n-c.seen)
	}
}

// running waits for two calls to have been taken, by a ping and a little while.
func running(f *fake, c *conn) bool {
	c.send(ping(`"p"`))
	c.want(result(`"p"`))
	time.Sleep(20 * time.Millisecond)
	return true
}

// F6-2: at the end of input what is in flight is answered first, and jobs end
// behind it.
func TestServe_EndOfInput(t *testing.T) {
	f := newFake(t)
	got := run(t, call("1", "say", `{"wait_ms":60,"text":"late"}`)+"\n"+call("2", "alone", `{"wait_ms":20}`)+"\n"+call("3", "alone", `{}`)+"\n"+ping("4"), f.options(t))
	if len(got) != 4 {
		t.Errorf("%q", got)
	}
	if f.jobs != 1 || f.close != 1 {
		t.Errorf("jobs were ended %d times, the tools closed %d times", f.jobs, f.close)
	}
}

// Exclusive calls run in the order in which they came, parallel ones wait for
// nothing.
func TestServe_Order(t *testing.T) {
	f := newFake(t)
	var mu sync.Mutex
	var order []string
	f.scope.Guard("order", func(c *pipeline.Call) (string, bool) {
		if c.Name() == "alone" {
			mu.Lock()
			order = append(order, c.ID())
			mu.Unlock()
		}
		return "", false
	})
	const n = 500
	var in strings.Builder
	for i := range n {
		in.WriteString(call(strconv.Itoa(i), "alone", `{}`) + "\n")
		if i%10 == 0 {
			in.WriteString(ping(sprint("%q", sprint("p%d", i))) + "\n")
			in.WriteString(call(sprint("%q", sprint("x%d", i)), "nosuch", `{}`) + "\n")
		}
	}
	if got := run(t, in.String(), f.options(t)); len(got) != n+n/5 {
		t.Errorf("%d replies", len(got))
	}
	for i, id := range order {
		if id != strconv.Itoa(i) {
			t.Fatalf("call %s ran at place %d", id, i)
		}
	}
	if len(order) != n {
		t.Errorf("%d calls ran", len(order))
	}

	c := connect(t, context.Background(), newFake(t).options(t))
	c.call("1", "alone", `{"block":true}`)
	c.call("2", "alone", `{}`)
	c.call("3", "say", `{}`)
	c.want(result("3"))
	c.send(`{"jsonrpc":"2.0","id":4,"method":"tools/list"}`)
	c.want(result("4"))
	c.send(cancel("1"))
	c.want(result("2"))
	if err := c.end(); err != nil {
		t.Error(err)
	}
}

// What needs no policy is answered before there is one; calls wait for it.
func TestServe_AnswersBeforeItIsOpen(t *testing.T) {
	f := newFake(t)
	o := f.options(t)
	open := make(chan struct{})
	o.Open = func() (Session, error) { <-open; return f, nil }
	c := connect(t, context.Background(), o)
	c.send(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	c.want(result("1") + `{"tools":[{"name":"alone"`)
	c.call("2", "say", `{"text":"hi"}`)
	c.call("3", "say", `{}`)
	c.call("4", "nosuch", `{}`)
	c.want(failure("4") + "-32602,")
	c.send(ping("5"))
	c.want(result("5"))
	c.send(cancel("3"))
	close(open)
	c.want(result("2"))
	time.Sleep(50 * time.Millisecond) // the SDK tells of changes after 10 ms
	if err := c.end(); err != nil {
		t.Error(err)
	}
	// What was listed is what there is.
	if got := strings.Join(c.out.lines()[c.seen:], "\n"); got != "" {
		t.Errorf("further: %s", got)
	}
}

// coded is an error with a code.
type coded struct{ error }

func (coded) Code() string { return pipeline.CodeDenied }

func TestServe_CannotOpen(t *testing.T) {
	o := newFake(t).options(t)
	open := make(chan struct{})
	o.Open = func() (Session, error) { <-open; return nil, coded{errSignal} }
	c := connect(t, context.Background(), o)
	c.call("2", "say", `{"text":"hi"}`)
	c.send(ping("5"))
	c.want(result("5"))
	close(open)
	got := c.want(result("2"))
	if !strings.Contains(got, `"isError":true`) || !strings.Contains(got, `"code":"DENIED","message":"terminated"`) {
		t.Error(got)
	}
	err := <-c.done
	var opening *OpenError
	if !errors.As(err, &opening) || opening.Err != (coded{errSignal}) {
		t.Errorf("ended by %v", err)
	}
}

func TestServe_EndsBySignal(t *testing.T) {
	f := newFake(t)
	ctx, cancel := context.WithCancelCause(context.Background())
	c := connect(t, ctx, f.options(t))
	c.call("1", "say", `{"block":true,"text":"half"}`)
	running(f, c)
	cancel(errSignal)
	if got := c.want(result("1")); !strings.Contains(got, `"isError":true`) || !strings.Contains(got, `"code":"ABORTED"`) || !strings.Contains(got, `"partial":{"said":"half"`) {
		t.Error(got)
	}
	if err := <-c.done; err != errSignal {
		t.Errorf("ended by %v", err)
	}
	if f.jobs != 1 || f.close != 1 {
		t.Errorf("jobs were ended %d times, the tools closed %d times", f.jobs, f.close)
	}
}

// gone is an output whose reader goes after n writes.
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
	go func() { done <- Serve(context.Background(), in, &gone{2}, newFake(t).options(t)) }()
	io.WriteString(feed, hello+"\n"+welcome+"\n")
	for i := range 3 {
		io.WriteString(feed, call(strconv.Itoa(i), "say", `{"block":true}`)+"\n")
	}
	io.WriteString(feed, ping("8")+"\n"+ping("9")+"\n")
	select {
	case err := <-done:
		if err != ErrClosed {
			t.Errorf("ended by %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("it goes on")
	}
}

// A reader that reads nothing may hold everything up, but not the end by a
// signal: what it doesn't take in time is dropped, and all calls have ended.
func TestServe_EndsBesideAStuckReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(context.Background())
		in, feed := io.Pipe()
		out, write := io.Pipe()
		defer out.Close() // lets the last write go
		f := newFake(t)
		var ended atomic.Int32
		f.scope.Observe("ended", func(*pipeline.Call, pipeline.Result) { ended.Add(1) })
		done := make(chan error, 1)
		go func() { done <- Serve(ctx, in, write, f.options(t)) }()
		io.WriteString(feed, hello+"\n")
		buf := make([]byte, 64<<10)
		if _, err := out.Read(buf); err != nil {
			t.Fatal(err)
		}
		io.WriteString(feed, call("1", "say", `{"block":true}`)+"\n"+ping("2")+"\n")
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
		if n := ended.Load(); n != 1 {
			t.Errorf("%d calls have ended", n)
		}
		feed.Close()
	})
}

// What waits for its reader is bounded by its length, not by the number of
// calls, and calls that are cancelled meanwhile end.
func TestServe_HoldsCallsWhileResultsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n, size = 300, 64 << 10
		f := newFake(t)
		o := f.options(t)
		o.maxHeld = 1 << 20
		var ended atomic.Int32
		f.scope.Observe("ended", func(*pipeline.Call, pipeline.Result) { ended.Add(1) })
		in, feed := io.Pipe()
		out, write := io.Pipe()
		done := make(chan error, 1)
		go func() { done <- Serve(context.Background(), in, write, o); write.Close() }()
		io.WriteString(feed, hello+"\n")
		buf := make([]byte, 64<<10)
		_, _ = out.Read(buf)
		for i := range n {
			io.WriteString(feed, call(strconv.Itoa(i), "alone", sprint(`{"text":"x","times":%d}`, size))+"\n")
		}
		synctest.Wait()
		// A result has the text in its value, and most of it in its content.
		if k := int(ended.Load()); k > (1<<20)/size+2 || k < 8 {
			t.Errorf("%d bodies ran", k)
		}
		before := ended.Load()
		go func() {
			io.WriteString(feed, cancel(strconv.Itoa(n-1))+"\n")
			feed.Close()
		}()
		synctest.Wait()
		if k := ended.Load(); k != before+1 {
			t.Errorf("%d calls ended by one cancel", k-before)
		}
		data, err := io.ReadAll(out)
		if err != nil || <-done != nil {
			t.Error(err)
		}
		if k := strings.Count(string(data), `"structuredContent"`); k != n-1 {
			t.Errorf("%d results", k)
		}
	})
}

// Past a number of requests in flight nothing is read until some have ended; a
// client that has to answer first is told to come again.
func TestServe_BoundsWhatIsInFlight(t *testing.T) {
	r := newRequests(2, 1000)
	add := func(id string, size int) (*entry, *fault) {
		return r.add(context.Background(), message{id: id, method: "tools/call"}, size, true)
	}
	one, _ := add("1", 10)
	if two, bad := add("2", 10); two == nil || bad != nil {
		t.Fatal("two are too many")
	}
	r.asking(1)
	if e, bad := add("3", 10); e != nil || bad == nil || bad.code != codeBusy || bad.id != "3" {
		t.Errorf("%v, %v", e, bad)
	}
	if _, bad := add("1", 10); bad == nil || bad.code != -32600 {
		t.Errorf("a duplicate: %v", bad)
	}
	r.asking(-1)
	if e, bad := r.add(context.Background(), message{id: "3"}, 10, false); e != nil || bad == nil || bad.code != codeBusy {
		t.Errorf("over HTTP nobody waits: %v, %v", e, bad)
	}
	r.asking(1)
	r.asking(-1)
	got := make(chan *entry)
	go func() { e, _ := add("3", 10); got <- e }()
	select {
	case <-got:
		t.Error("three are in flight")
	case <-time.After(50 * time.Millisecond):
	}
	r.settle(one)
	r.forget(one)
	if e := <-got; e == nil {
		t.Error("it was not taken")
	}
	// By length, but one is always taken.
	r = newRequests(10, 1000)
	if e, _ := add("1", 5000); e == nil {
		t.Error("one long line is too much")
	}
	go func() { e, _ := add("2", 10); got <- e }()
	select {
	case <-got:
		t.Error("too much is in flight")
	case <-time.After(50 * time.Millisecond):
	}
	go r.end()
	if e := <-got; e != nil {
		t.Error("taken at the end")
	}
}

// F6-25: cancels at random moments: at most one reply for each call, and no id
// is stuck.
func TestServe_CancelStorm(t *testing.T) {
	const n = 2000
	c := connect(t, context.Background(), newFake(t).options(t))
	var wg sync.WaitGroup
	sem := make(chan struct{}, 16)
	var mu sync.Mutex
	for i := range n {
		sem <- struct{}{}
		wg.Go(func() {
			defer func() { <-sem }()
			mu.Lock()
			c.call(strconv.Itoa(i), []string{"say", "alone"}[i%2], `{"wait_ms":1}`)
			mu.Unlock()
			time.Sleep(time.Duration(rand.IntN(4000)) * time.Microsecond)
			mu.Lock()
			c.send(cancel(strconv.Itoa(i)))
			mu.Unlock()
		})
	}
	wg.Wait()
	c.call("0", "alone", `{"text":"free"}`)
	if err := c.end(); err != nil {
		t.Fatal(err)
	}
	replies := map[string]int{}
	for _, l := range c.out.lines() {
		id, _, _ := strings.Cut(strings.TrimPrefix(l, `{"jsonrpc":"2.0","id":`), ",")
		if replies[id]++; replies[id] > 1 && id != "0" {
			t.Errorf("reply %d: %s", replies[id], l)
		}
	}
	if !strings.Contains(strings.Join(c.out.lines(), "\n"), `"said":"free"`) {
		t.Error("an id is stuck")
	}
}

// FuzzDecode: no line makes the decoder panic, what is valid comes through as it
// was, and an id that is sent back can be.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{hello, welcome, call("1", "say", `{"text":"<\ud83d\ude00>"}`), cancel(`"a"`), `{"jsonrpc":"2.0","id":"\ud83d","method":"x"}`, `[`, `{"id":1`,
		`{"jsonrpc":"2.0","id":1,"method":"a","params":{"arguments":{},"arguments":{}}}`, `{"params":{ "arguments" : [1] , "name":"}"},"jsonrpc":"2.0","id":1.0,"method":"m"}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		m, bad := decode(line)
		_, err := pipeline.ParseJSON(line)
		if bad != nil {
			if _, err := pipeline.ParseJSON([]byte(bad.id)); err != nil {
				t.Errorf("%q: id %q", line, bad.id)
			}
			if (bad.code == -32700) != (err != nil) && !strings.Contains(sprint("%v", err), "levels") {
				t.Errorf("%q: %d, and it parses with %v", line, bad.code, err)
			}
			return
		}
		if err != nil && !strings.Contains(err.Error(), "levels") {
			t.Errorf("%q is taken: %v", line, err)
		}
		for what, v := range map[string][]byte{"params": m.params, "rest": m.rest, "args": m.args, "id": []byte(m.id), "result": m.result, "error": m.err, "token": m.token} {
			if len(v) > 0 {
				if _, err := pipeline.ParseJSON(v); err != nil && !strings.Contains(err.Error(), "levels") {
					t.Errorf("%q: %s %q: %v", line, what, v, err)
				}
			}
		}
		if m.params != nil && m.args != nil && len(m.rest) == 0 {
			t.Errorf("%q: arguments without the rest", line)
		}
	})
}
