package mcp

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

var manySessions = flag.Bool("many-sessions", false, "thousands of sessions over HTTP, not dozens")

// client gives up what hangs.
var client = &http.Client{Timeout: time.Minute}

const testToken = "sesame-sesame-sesame"

// house is an HTTP front door over fakes.
type house struct {
	t    testing.TB
	addr string
	end  context.CancelCauseFunc
	done chan error

	mu    sync.Mutex
	fakes map[string]*fake
	ready func(*fake) // before a session has it
	fail  error       // of opening
}

func newHouse(t testing.TB, adjust func(*HTTPOptions)) *house {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := &house{t: t, addr: l.Addr().String(), done: make(chan error, 1), fakes: map[string]*fake{}}
	o := HTTPOptions{Options: newFake(t).options(t), Token: testToken, OpenSession: func(name string) (Session, error) {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.fail != nil {
			return nil, h.fail
		}
		f := newFake(t)
		if h.ready != nil {
			h.ready(f)
		}
		h.fakes[name] = f
		return f, nil
	}}
	if adjust != nil {
		adjust(&o)
	}
	var ctx context.Context
	ctx, h.end = context.WithCancelCause(context.Background())
	go func() { h.done <- ServeHTTP(ctx, l, o) }()
	t.Cleanup(func() { h.stop() })
	return h
}

// stop ends the server.
func (h *house) stop() error {
	h.end(errSignal)
	err := <-h.done
	h.done <- err
	return err
}

func (h *house) fake(name string) *fake {
	h.t.Helper()
	var f *fake
	soon(h.t, "the session "+name, func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		f = h.fakes[name]
		return f != nil
	})
	return f
}

// soon waits for what will be.
func soon(t testing.TB, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not to be seen: %s", what)
		}
	}
}

// request makes one with the right headers; others replace them, "" takes one
// away. Host is one.
func (h *house) request(method, body string, others ...string) *http.Request {
	h.t.Helper()
	r, err := http.NewRequest(method, "http://"+h.addr+"/mcp", strings.NewReader(body))
	if err != nil {
		h.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+testToken)
	r.Header.Set("Accept", "application/json, text/event-stream")
	if method == "POST" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(others); i += 2 {
		switch name, value := others[i], others[i+1]; {
		case name == "Host":
			r.Host = value
		case value == "":
			r.Header.Del(name)
		default:
			r.Header.Set(name, value)
		}
	}
	return r
}

func (h *house) do(method, body string, others ...string) *http.Response {
	h.t.Helper()
	r, err := client.Do(h.request(method, body, others...))
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { r.Body.Close() })
	return r
}

// status is a request's.
func (h *house) status(method, body string, others ...string) int {
	h.t.Helper()
	r := h.do(method, body, others...)
	io.Copy(io.Discard, r.Body)
	return r.StatusCode
}

// post is the messages that come back for one, with the status.
func (h *house) post(body string, others ...string) (int, []string) {
	h.t.Helper()
	r := h.do("POST", body, others...)
	return r.StatusCode, all(h.t, r)
}

// all are the messages of a response.
func all(t testing.TB, r *http.Response) []string {
	t.Helper()
	if r.Header.Get("Content-Type") == "application/json" {
		b, _ := io.ReadAll(r.Body)
		return []string{string(b)}
	}
	if r.Header.Get("Content-Type") != "text/event-stream" {
		return nil
	}
	var out []string
	for s := bufio.NewReader(r.Body); ; {
		m, err := event1(s)
		if err != nil {
			return out
		}
		out = append(out, m)
	}
}

// event1 reads one event.
func event1(r *bufio.Reader) (string, error) {
	var data []string
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return "", err
		}
		line = strings.TrimSuffix(line, "\n")
		if d, ok := strings.CutPrefix(line, "data: "); ok {
			data = append(data, d)
		}
		if line == "" && data != nil {
			return strings.Join(data, "\n"), nil
		}
	}
}

// session begins one and returns its headers.
func (h *house) session() []string { return h.sessionAs("{}") }

func (h *house) sessionAs(capabilities string) []string {
	h.t.Helper()
	r := h.do("POST", strings.Replace(hello, `"capabilities":{}`, `"capabilities":`+capabilities, 1))
	got := all(h.t, r)
	id := r.Header.Get(sessionHeader)
	if r.StatusCode != 200 || id == "" || len(got) != 1 || !strings.HasPrefix(got[0], `{"jsonrpc":"2.0","id":"hello","result":{`) {
		h.t.Fatalf("%d, %q", r.StatusCode, got)
	}
	s := []string{sessionHeader, id, versionHeader, "2025-11-25"}
	if got := h.status("POST", welcome, s...); got != 202 {
		h.t.Fatal(got)
	}
	return s
}

// begin makes a call that runs until it is cancelled, and returns when it runs.
func (h *house) begin(ctx context.Context, s []string) *http.Response {
	h.t.Helper()
	r, err := client.Do(h.request("POST", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"progressToken":"t"},"name":"say","arguments":{"text":"so far","report":"x","block":true}}}`, s...).WithContext(ctx))
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { r.Body.Close() })
	if m, err := event1(bufio.NewReaderSize(r.Body, 16)); err != nil || !strings.Contains(m, "notifications/progress") {
		h.t.Fatalf("%s, %v", m, err)
	}
	return r
}

// F6-22: what comes from elsewhere, or without the token, is refused before its
// body is read, and in the order of the checks; nothing runs.
func TestHTTP_Refusals(t *testing.T) {
	h := newHouse(t, nil)
	s := h.session()
	_, port, _ := net.SplitHostPort(h.addr)
	for _, tt := range []struct {
		name   string
		want   int
		method string
		change []string
	}{
		{"as it should be", 200, "POST", nil},
		{"localhost", 200, "POST", []string{"Host", "localhost:" + port}},
		{"LOCALHOST through a tunnel", 200, "POST", []string{"Host", "LOCALHOST:1"}},
		{"127.0.0.1", 200, "POST", []string{"Host", "127.0.0.1:" + port}},
		{"::1", 200, "POST", []string{"Host", "[::1]:" + port}},
		{"::1 without a port", 200, "POST", []string{"Host", "[::1]"}},
		{"same origin", 200, "POST", []string{"Origin", "http://" + h.addr}},
		{"scheme in capitals", 200, "POST", []string{"Authorization", "BEARER " + testToken}},
		{"evil host", 403, "POST", []string{"Host", "evil.example"}},
		{"evil host with the port", 403, "POST", []string{"Host", "evil.example:" + port}},
		{"localhost as a part", 403, "POST", []string{"Host", "localhost.evil.example:" + port}},
		{"an address that is not loopback", 403, "POST", []string{"Host", "192.0.2.1:" + port}},
		{"every address", 403, "POST", []string{"Host", "0.0.0.0:" + port}},
		{"a zone", 403, "POST", []string{"Host", "[fe80::1%25lo]:" + port}},
		{"evil origin", 403, "POST", []string{"Origin", "https://evil.example"}},
		{"null origin", 403, "POST", []string{"Origin", "null"}},
		{"another port's origin", 403, "POST", []string{"Origin", "http://127.0.0.1:1"}},
		{"host before token", 403, "POST", []string{"Host", "evil.example", "Authorization", ""}},
		{"origin before token", 403, "POST", []string{"Origin", "null", "Authorization", ""}},
		{"host before session", 403, "GET", []string{"Host", "evil.example", sessionHeader, "nosuch"}},
		{"no token", 401, "POST", []string{"Authorization", ""}},
		{"another token", 401, "POST", []string{"Authorization", "Bearer sesame"}},
		{"a longer token", 401, "POST", []string{"Authorization", "Bearer " + testToken + "x"}},
		{"another scheme", 401, "POST", []string{"Authorization", "Basic " + testToken}},
		{"no token for a GET", 401, "GET", []string{"Authorization", ""}},
		{"token before session", 401, "DELETE", []string{"Authorization", "", sessionHeader, "nosuch"}},
		{"an unknown session", 404, "POST", []string{sessionHeader, "nosuch"}},
		{"an unknown session for a GET", 404, "GET", []string{sessionHeader, "nosuch"}},
		{"an unknown session for a DELETE", 404, "DELETE", []string{sessionHeader, "nosuch"}},
		{"no session", 400, "POST", []string{sessionHeader, ""}},
		{"no session for a GET", 400, "GET", []string{sessionHeader, ""}},
		{"no session for a DELETE", 400, "DELETE", []string{sessionHeader, ""}},
		{"a version that isn't spoken", 400, "POST", []string{versionHeader, "2099-01-01"}},
		{"that, for a GET", 400, "GET", []string{versionHeader, "2099-01-01"}},
		{"text", 415, "POST", []string{"Content-Type", "text/plain"}},
		{"a charset", 200, "POST", []string{"Content-Type", "application/json; charset=utf-8"}},
		{"no stream", 406, "POST", []string{"Accept", "application/json"}},
		{"anything", 200, "POST", []string{"Accept", "*/*"}},
		{"PUT", 405, "PUT", nil},
		{"OPTIONS", 405, "OPTIONS", []string{"Origin", "https://evil.example"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := &house{t: t, addr: h.addr}
			body := call("7", "say", `{"text":"hi"}`)
			if tt.method != "POST" {
				body = ""
			}
			r := h.do(tt.method, body, append(append([]string{}, s...), tt.change...)...)
			got := all(t, r)
			if r.StatusCode != tt.want || (tt.want == 200) != (len(got) == 1 && strings.HasPrefix(got[0], result("7"))) {
				t.Errorf("%d, want %d: %q", r.StatusCode, tt.want, got)
			}
			if (r.Header.Get("WWW-Authenticate") != "") != (tt.want == 401) {
				t.Error(r.Header)
			}
		})
	}
	r := h.request("POST", call("1", "say", "{}"), s...)
	r.URL.Path = "/other"
	if got, err := client.Do(r); err != nil || got.StatusCode != 404 {
		t.Errorf("%v, %v", got, err)
	}
}

// Before the body is read: it never comes, and the answer does.
func TestHTTP_RefusesBeforeTheBody(t *testing.T) {
	h := newHouse(t, func(o *HTTPOptions) { o.MaxSessions = 1 })
	s := h.session()
	for _, tt := range []struct{ head, want string }{
		{"Host: evil.example\r\nAuthorization: Bearer " + testToken, "403"},
		{"Host: localhost\r\nOrigin: null\r\nAuthorization: Bearer " + testToken, "403"},
		{"Host: localhost", "401"},
		{"Host: localhost\r\nAuthorization: Bearer " + testToken + "\r\nMcp-Session-Id: nosuch", "404"},
		{"Host: localhost\r\nContent-Type: application/json\r\nAuthorization: Bearer " + testToken, "429"},
	} {
		c, err := net.Dial("tcp", h.addr)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(c, "POST /mcp HTTP/1.1\r\n%s\r\nContent-Length: 100\r\n\r\n{", tt.head)
		r, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil || !strings.HasPrefix(r.Status, tt.want) || !r.Close {
			t.Errorf("%s: %v, %v", tt.head, r, err)
		}
		c.Close()
	}
	// The control: one that may come in is waited for.
	c, err := net.Dial("tcp", h.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	body := ping("1")
	fmt.Fprintf(c, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAuthorization: Bearer %s\r\nMcp-Session-Id: %s\r\nContent-Length: %d\r\n\r\n%s", testToken, s[1], len(body), body[:3])
	c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if n, err := c.Read(make([]byte, 1)); n > 0 || !isTimeout(err) {
		t.Errorf("%d, %v", n, err)
	}
	c.SetReadDeadline(time.Time{})
	io.WriteString(c, body[3:])
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil || r.StatusCode != 200 {
		t.Errorf("%v, %v", r, err)
	}
}

func isTimeout(err error) bool {
	var n net.Error
	return errors.As(err, &n) && n.Timeout()
}

// As over standard streams: ids and bytes are what they were, and what is no
// message is answered and runs nothing.
func TestHTTP_Messages(t *testing.T) {
	h := newHouse(t, func(o *HTTPOptions) { o.MaxLine = 4000 })
	s := h.session()
	const parse, inval = "-32700", "-32600"
	for _, tt := range []struct {
		body   string
		status int
		want   string
	}{
		{call("1.0", "say", `{"text":"<é\u2028>"}`), 200, result("1.0") + `{"content":[{"type":"text","text":"<é` + "\u2028" + `>"}],"structuredContent":{"said":"<é` + "\u2028" + `>","lines":[]}`},
		{"\n" + ping(`"\u0041"`) + "\r\n", 200, result(`"\u0041"`) + `{}}`},
		{"{\"jsonrpc\":\"2.0\",\n\"id\":9223372036854775808,\r\n\"method\":\"ping\"}", 200, result("9223372036854775808") + `{}}`},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, 200, result("1") + `{"tools":[{"name":"alone"`},
		{call("1", "nosuch", `{}`), 200, failure("1") + `-32602,`},
		{call("1", "say", `{"text":"panic"}`), 200, result("1")},
		{hello2, 200, failure("2") + inval},
		{cancel("99"), 202, ""},
		{`{"jsonrpc":"2.0","id":77,"result":{}}`, 202, ""},
		{`{"jsonrpc":"2.0","method":"notifications/nosuch"}`, 202, ""},
		{``, 400, failure(null) + parse}, {`not json`, 400, failure(null) + parse}, {`[]`, 400, failure(null) + inval}, {"[" + ping("1") + "]", 400, failure(null) + inval},
		{call("null", "say", `{}`), 400, failure(null) + inval}, {call("5", "say", `{"text":"a","text":"b"}`), 400, failure("5") + parse},
		{ping("1") + ping("2"), 400, failure("1") + parse}, {`{"jsonrpc":"2.0","id":5,"method":"ping","params":[1]}`, 400, failure("5") + "-32602"},
		{call("1", "say", `{"text":"`+strings.Repeat("x", 4000)+`"}`), 413, ""},
	} {
		status, got := h.post(tt.body, s...)
		if status != tt.status || len(got) != 1 && tt.want != "" || tt.want != "" && !strings.HasPrefix(got[0], tt.want) {
			t.Errorf("%s: %d, %q; want %d, %s", clip(tt.body), status, got, tt.status, tt.want)
		}
	}
	// A body whose length isn't known is bounded, too.
	r := h.request("POST", "", s...)
	r.Body, r.ContentLength = io.NopCloser(strings.NewReader(call("1", "say", `{"text":"`+strings.Repeat("x", 4000)+`"}`))), -1
	if got, err := client.Do(r); err != nil || got.StatusCode != 413 {
		t.Errorf("%v, %v", got, err)
	}
	// A version that is to come is told which there are.
	status, got := h.post(`{"jsonrpc":"2.0","id":"probe","method":"server/discover","params":{}}`, versionHeader, "2026-07-28")
	if status != 400 || len(got) != 1 || !strings.HasPrefix(got[0], failure(`"probe"`)+`-32022,`) || !strings.Contains(got[0], `"supported":["2025-11-25"`) || !strings.Contains(got[0], `"requested":"2026-07-28"`) {
		t.Errorf("%d, %q", status, got)
	}
	// What fails to begin a session leaves none.
	if status, got := h.post(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}`); status != 200 || len(got) != 1 || !strings.HasPrefix(got[0], failure("1")) {
		t.Errorf("%d, %q", status, got)
	}
	if status, _ := h.post(strings.Replace(hello, `"id":"hello",`, "", 1)); status != 400 {
		t.Error(status)
	}
}

// A request in flight has its stream to itself; its id is taken until it is
// answered. A cancelled one gets no reply, and its stream ends.
func TestHTTP_CancelAndDuplicates(t *testing.T) {
	h := newHouse(t, nil)
	s := h.session()
	first := h.begin(t.Context(), s)
	if status, got := h.post(call("1", "say", `{"text":"second"}`), s...); status != 400 || !strings.HasPrefix(got[0], failure(null)+"-32600") {
		t.Errorf("a duplicate: %d, %q", status, got)
	}
	if _, got := h.post(ping("2"), s...); len(got) != 1 || got[0] != result("2")+"{}}" {
		t.Errorf("a ping meanwhile: %q", got)
	}
	if got := h.status("POST", cancel("1"), s...); got != 202 {
		t.Error(got)
	}
	if got := all(t, first); len(got) != 0 {
		t.Errorf("a reply to a cancelled call: %q", got)
	}
	if _, got := h.post(call("1", "say", `{"text":"third"}`), s...); len(got) != 1 || !strings.HasPrefix(got[0], result("1")) {
		t.Errorf("the id is free: %q", got)
	}
}

// The events of a call come in its stream, before its reply; those of none in the
// stream that is there for them, or wait for it.
func TestHTTP_Streams(t *testing.T) {
	h := newHouse(t, nil)
	s := h.session()
	_, got := h.post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"progressToken":"t"},"name":"say","arguments":{"text":"hi","report":"a line\n","wait_ms":100}}}`, s...)
	if len(got) != 2 || !strings.Contains(got[0], `"progressToken":"t"`) || !strings.Contains(got[0], "a line") || !strings.HasPrefix(got[1], result("1")) {
		t.Errorf("%q", got)
	}
	f := h.fake("conn-1")
	for i := range maxNotes + 5 { // more than wait
		f.jobEnds(fmt.Sprint("early-", i))
	}
	r := h.do("GET", "", s...)
	if r.StatusCode != 200 || r.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatal(r)
	}
	events := bufio.NewReader(r.Body)
	for i := range maxNotes {
		if m, err := event1(events); err != nil || !strings.Contains(m, fmt.Sprint("early-", i+5, " ")) {
			t.Fatalf("%d: %s, %v", i, m, err)
		}
	}
	f.jobEnds("later")
	if m, err := event1(events); err != nil || !strings.Contains(m, "later") {
		t.Errorf("%s, %v", m, err)
	}
	if got := h.status("GET", "", s...); got != 409 {
		t.Errorf("a second stream: %d", got)
	}
	r.Body.Close()
	soon(t, "another stream", func() bool {
		r = h.do("GET", "", s...)
		return r.StatusCode == 200
	})
	f.jobEnds("last")
	if m, err := event1(bufio.NewReader(r.Body)); err != nil || !strings.Contains(m, "last") {
		t.Errorf("%s, %v", m, err)
	}
}

// A question comes in the stream of its call, and its answer by another request.
// Where the stream has gone nobody answers, at once.
func TestHTTP_Approval(t *testing.T) {
	h := newHouse(t, nil)
	s := h.sessionAs(`{"elicitation":{"form":{}}}`)
	ask := func() (*http.Response, *bufio.Reader, string) {
		r := h.do("POST", call("1", "say", `{"text":"hi","ask":true}`), s...)
		events := bufio.NewReader(r.Body)
		m, err := event1(events)
		if err != nil || !strings.Contains(m, `"elicitation/create"`) {
			t.Fatalf("%s, %v", m, err)
		}
		_, after, _ := strings.Cut(m, `"id":`)
		id, _, _ := strings.Cut(after, ",")
		return r, events, id
	}
	_, events, id := ask()
	if got := h.status("POST", `{"jsonrpc":"2.0","id":`+id+`,"result":{"action":"accept","content":{"decision":"allow once"}}}`, s...); got != 202 {
		t.Error(got)
	}
	if m, err := event1(events); err != nil || !strings.HasPrefix(m, result("1")) || strings.Contains(m, "isError") {
		t.Errorf("%s, %v", m, err)
	}
	if m, err := event1(events); err != io.EOF {
		t.Errorf("behind the reply: %s, %v", m, err)
	}
	r, _, id := ask()
	r.Body.Close()
	// The call has ended when its id is free.
	soon(t, "the end of the question", func() bool {
		status, _ := h.post(ping("1"), s...)
		return status == 200
	})
	// An answer that comes too late is nobody's.
	if got := h.status("POST", `{"jsonrpc":"2.0","id":`+id+`,"result":{"action":"accept","content":{"decision":"allow once"}}}`, s...); got != 202 {
		t.Error(got)
	}
	// A session of another answers nothing here.
	_, events, id = ask()
	other := h.session()
	if got := h.status("POST", `{"jsonrpc":"2.0","id":`+id+`,"result":{"action":"accept","content":{"decision":"allow once"}}}`, other...); got != 202 {
		t.Error(got)
	}
	h.status("POST", `{"jsonrpc":"2.0","id":`+id+`,"result":{"action":"decline"}}`, s...)
	if m, err := event1(events); err != nil || !strings.Contains(m, "APPROVAL_REJECTED") {
		t.Errorf("%s, %v", m, err)
	}
}

// F6-21: sessions are bounded, and end by DELETE, by time, and with the server.
// What one has is not another's.
func TestHTTP_SessionsEnd(t *testing.T) {
	h := newHouse(t, func(o *HTTPOptions) { o.MaxSessions = 2 })
	one, two := h.session(), h.session()
	if got := h.status("POST", hello); got != 429 {
		t.Errorf("a third: %d", got)
	}
	running := h.begin(t.Context(), one)
	if got := h.status("DELETE", "", one...); got != 204 {
		t.Error(got)
	}
	if got := all(t, running); len(got) != 1 || !strings.Contains(got[0], "ABORTED") {
		t.Errorf("the call that ran: %q", got)
	}
	f := h.fake("conn-1")
	if f.jobs == 0 || f.close != 1 {
		t.Errorf("jobs ended %d times, closed %d times", f.jobs, f.close)
	}
	for _, method := range []string{"POST", "GET", "DELETE"} {
		if got := h.status(method, ping("1"), one...); got != 404 {
			t.Errorf("%s afterwards: %d", method, got)
		}
	}
	three := h.session()
	if _, got := h.post(ping("1"), three...); len(got) != 1 {
		t.Error(got)
	}

	// The server's end aborts calls, writes what they have, and closes streams.
	stream := h.do("GET", "", two...)
	running = h.begin(t.Context(), two)
	if err := h.stop(); err != errSignal {
		t.Errorf("ServeHTTP: %v", err)
	}
	if got := all(t, running); len(got) != 1 || !strings.Contains(got[0], "ABORTED") || !strings.Contains(got[0], "so far") {
		t.Errorf("the call that ran: %q", got)
	}
	if _, err := io.Copy(io.Discard, stream.Body); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"conn-2", "conn-3"} {
		if f := h.fake(name); f.jobs == 0 || f.close != 1 {
			t.Errorf("%s: jobs ended %d times, closed %d times", name, f.jobs, f.close)
		}
	}
	if _, err := client.Do(h.request("POST", hello)); err == nil {
		t.Error("it still listens")
	}
}

// An idle session expires, with its jobs; one with a call in flight, though its
// client has left it, or with a stream that is open, is not idle.
func TestHTTP_Expiry(t *testing.T) {
	h := newHouse(t, func(o *HTTPOptions) { o.Idle = time.Second })
	streaming := h.session()
	stream := h.do("GET", "", streaming...)
	working := h.session()
	ctx, leave := context.WithCancel(t.Context())
	h.begin(ctx, working)
	leave()
	idle := h.session()
	soon(t, "the end of the session", func() bool {
		f := h.fake("conn-3")
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.close == 1 && f.jobs > 0
	})
	if got := h.status("POST", ping("1"), idle...); got != 404 {
		t.Errorf("expired: %d", got)
	}
	time.Sleep(1500 * time.Millisecond) // longer than that once more
	for name, s := range map[string][]string{"streaming": streaming, "working": working} {
		if status, got := h.post(ping("2"), s...); status != 200 || len(got) != 1 {
			t.Errorf("%s: %d, %q", name, status, got)
		}
	}
	h.status("POST", cancel("1"), working...)
	stream.Body.Close()
	for _, name := range []string{"conn-1", "conn-2"} {
		f := h.fake(name)
		soon(t, "the end of "+name, func() bool { f.mu.Lock(); defer f.mu.Unlock(); return f.close == 1 })
	}
	if s := h.session(); len(s) == 0 {
		t.Error("no new session")
	}
}

// A session whose policy can't be put in force says so, and ends; the server and
// the others go on.
func TestHTTP_OpeningFails(t *testing.T) {
	h := newHouse(t, nil)
	good := h.session()
	h.fake("conn-1")
	h.mu.Lock()
	h.fail = errors.New("no policy today")
	h.mu.Unlock()
	r := h.do("POST", hello)
	all(t, r)
	bad := []string{sessionHeader, r.Header.Get(sessionHeader)}
	soon(t, "the end of the session", func() bool { return h.status("POST", ping("1"), bad...) == 404 })
	if _, got := h.post(call("1", "say", `{"text":"hi"}`), good...); len(got) != 1 || !strings.Contains(got[0], `"hi"`) {
		t.Error(got)
	}
}

// A client that doesn't take a result holds up neither the session's other
// requests nor its end.
func TestHTTP_StuckReader(t *testing.T) {
	h := newHouse(t, func(o *HTTPOptions) { o.patience = 100 * time.Millisecond })
	s := h.session()
	c, err := net.Dial("tcp", h.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.(*net.TCPConn).SetReadBuffer(4096)
	body := call("1", "say", `{"text":"0123456789abcdef","times":1000000}`)
	fmt.Fprintf(c, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAuthorization: Bearer %s\r\nMcp-Session-Id: %s\r\nContent-Length: %d\r\n\r\n%s", testToken, s[1], len(body), body)
	if _, err := io.ReadFull(c, make([]byte, 100)); err != nil { // it is being written
		t.Fatal(err)
	}
	for range 3 {
		if _, got := h.post(call("2", "say", `{"text":"hi"}`), s...); len(got) != 1 || !strings.Contains(got[0], `"hi"`) {
			t.Error(got)
		}
	}
	if got := h.status("DELETE", "", s...); got != 204 {
		t.Error(got)
	}
	if f := h.fake("conn-1"); f.close != 1 {
		t.Error("it isn't closed")
	}
}

// While results wait that nobody takes, no call begins; it does when they are
// taken.
func TestHTTP_HoldsCallsWhileResultsWait(t *testing.T) {
	h := newHouse(t, func(o *HTTPOptions) { o.maxHeld = 1 << 20 })
	s := h.session()
	big := h.do("POST", call("1", "say", `{"text":"0123456789abcdef","times":1000000}`), s...)
	events := bufio.NewReaderSize(big.Body, 16)
	if _, err := events.Peek(1); err != nil {
		t.Fatal(err)
	}
	second := make(chan []string)
	go func() {
		_, got := h.post(call("2", "say", `{"text":"hi"}`), s...)
		second <- got
	}()
	select {
	case got := <-second:
		t.Errorf("it began: %q", got)
	case <-time.After(50 * time.Millisecond):
	}
	if _, err := io.Copy(io.Discard, events); err != nil {
		t.Error(err)
	}
	if got := <-second; len(got) != 1 || !strings.Contains(got[0], `"hi"`) {
		t.Error(got)
	}
}

// Bodies that never end are let go of when the server ends, and take no room
// from others until they are there.
func TestHTTP_SlowBodies(t *testing.T) {
	h := newHouse(t, func(o *HTTPOptions) { o.patience = 100 * time.Millisecond })
	s := h.session()
	for range 20 {
		c, err := net.Dial("tcp", h.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fmt.Fprintf(c, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAuthorization: Bearer %s\r\nMcp-Session-Id: %s\r\nContent-Length: 1000\r\n\r\n{", testToken, s[1])
	}
	if _, got := h.post(ping("1"), s...); len(got) != 1 {
		t.Error(got)
	}
	if err := h.stop(); err != errSignal {
		t.Error(err)
	}
}

// bearer adds the token, as a client's configuration does.
type bearer struct{}

func (bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+testToken)
	return http.DefaultTransport.RoundTrip(r)
}

// The SDK's client has all that it expects: a stream of its own, progress,
// questions, news of none of its requests, and an end.
func TestHTTP_ClientOfTheSDK(t *testing.T) {
	h := newHouse(t, nil)
	asked, progress, ended := make(chan string, 1), make(chan string, 10), make(chan string, 1)
	c := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "0"}, &sdk.ClientOptions{
		ElicitationHandler: func(_ context.Context, r *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
			asked <- r.Params.Message
			return &sdk.ElicitResult{Action: "accept", Content: map[string]any{"decision": allowOnce}}, nil
		},
		ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) { progress <- r.Params.Message },
	})
	// The SDK's own handler for these is deprecated with the protocol that drops them.
	c.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, r sdk.Request) (sdk.Result, error) {
			if method == "notifications/message" {
				ended <- mustJSON(r.GetParams())
			}
			return next(ctx, method, r)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s, err := c.Connect(ctx, &sdk.StreamableClientTransport{Endpoint: "http://" + h.addr + "/mcp", HTTPClient: &http.Client{Transport: bearer{}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	list, err := s.ListTools(ctx, nil)
	if err != nil || len(list.Tools) != 2 {
		t.Fatalf("%v, %v", list, err)
	}
	p := &sdk.CallToolParams{Name: "say", Arguments: map[string]any{"text": "hi", "ask": true, "report": "a line\n", "wait_ms": 50}}
	p.SetProgressToken("t")
	r, err := s.CallTool(ctx, p)
	if err != nil || r.IsError {
		t.Fatalf("%v, %v", r, err)
	}
	for what, c := range map[string]chan string{"say": asked, "a line": progress} {
		select {
		case got := <-c:
			if !strings.Contains(got, what) {
				t.Errorf("%q", got)
			}
		case <-ctx.Done():
			t.Fatal(what)
		}
	}
	h.fake("conn-1").jobEnds("j1")
	select {
	case got := <-ended:
		if !strings.Contains(got, "j1") {
			t.Error(got)
		}
	case <-ctx.Done():
		t.Fatal("the end of a job")
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	f := h.fake("conn-1")
	soon(t, "the end of the session", func() bool { f.mu.Lock(); defer f.mu.Unlock(); return f.close == 1 })
}

func TestGate(t *testing.T) {
	g := newGate(10)
	ctx, cancel := context.WithCancel(context.Background())
	if !g.enter(ctx, 6) || !g.enter(ctx, 4) {
		t.Fatal("there is room")
	}
	in := make(chan bool)
	go func() { in <- g.enter(ctx, 5) }()
	g.leave(4)
	select {
	case <-in:
		t.Error("there is no room")
	case <-time.After(20 * time.Millisecond):
	}
	g.leave(6)
	if !<-in {
		t.Error("there is room")
	}
	go func() { in <- g.enter(ctx, 6) }()
	cancel()
	if <-in {
		t.Error("it has ended")
	}
}

// Sessions one after another and at once, without growth.
func TestHTTP_ManySessions(t *testing.T) {
	rounds, atOnce := 20, 10
	if *manySessions {
		rounds, atOnce = 2000, 100
	}
	h := newHouse(t, func(o *HTTPOptions) { o.MaxSessions = atOnce })
	round := func() {
		var each sync.WaitGroup
		for range atOnce {
			each.Go(func() {
				s := h.session()
				if _, got := h.post(call("1", "say", `{"text":"hi"}`), s...); len(got) != 1 || !strings.Contains(got[0], `"hi"`) {
					t.Error(got)
				}
				if got := h.status("DELETE", "", s...); got != 204 {
					t.Error(got)
				}
			})
		}
		each.Wait()
	}
	round()
	client.CloseIdleConnections()
	settled := func() int {
		n := runtime.NumGoroutine()
		soon(t, "quiet", func() bool {
			before := n
			time.Sleep(20 * time.Millisecond)
			n = runtime.NumGoroutine()
			return n >= before
		})
		return n
	}
	before := settled()
	for range rounds {
		round()
	}
	client.CloseIdleConnections()
	soon(t, "as many goroutines as before", func() bool { return runtime.NumGoroutine() <= before+3 })
}
