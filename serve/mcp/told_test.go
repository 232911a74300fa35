package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dshx/dshx/pipeline"
)

// What is told between request and reply: progress, changes, ends of jobs,
// questions.

func withToken(id, tool, args, token string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"` + tool + `","_meta":{"progressToken":` + token + `},"arguments":` + args + `}}`
}

type told struct {
	Method string
	Params struct {
		ProgressToken json.RawMessage
		Progress      float64
		Message       string
		Level         string
		Data          any
		Meta          map[string]json.RawMessage `json:"_meta"`
		RequestID     any
		Schema        json.RawMessage `json:"requestedSchema"`
	}
	ID     json.RawMessage
	Result json.RawMessage
}

func parse(t testing.TB, line string) (m told) {
	t.Helper()
	if err := json.Unmarshal([]byte(line), &m); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return m
}

// F6-15: the token comes back as it was, at most four times a second, at least
// every 25 s, growing, and nothing behind the reply.
func TestProgress(t *testing.T) {
	for _, tt := range []struct {
		name, token, want, args string
		wait                    time.Duration
		min, max                int
		message                 string
	}{
		{"silent", `0`, `0`, `{"wait_ms":70000}`, 0, 3, 3, "no output for 20s"},
		{"a string", `"abc"`, `"abc"`, `{"wait_ms":70000}`, 0, 3, 3, "no output for"},
		{"a large number", `9007199254740993`, `9007199254740993`, `{"wait_ms":21000}`, 0, 1, 1, "no output"},
		{"output", `1.0`, `1.0`, `{"wait_ms":5000,"report":"one\n\u001b[31mtwo\u001b[0m\n"}`, 0, 1, 1, "two"},
		{"no token", ``, ``, `{"wait_ms":70000}`, 0, 0, 0, ""},
		{"a token that is none", `{}`, ``, `{"wait_ms":70000}`, 0, 0, 0, ""},
		{"null", `null`, ``, `{"wait_ms":70000}`, 0, 0, 0, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := connect(t, t.Context(), newFake(t).options(t))
				if tt.token == "" {
					c.call("1", "say", tt.args)
				} else {
					c.send(withToken("1", "say", tt.args, tt.token))
				}
				time.Sleep(100 * time.Second)
				if err := c.end(); err != nil {
					t.Error(err)
				}
				lines := c.out.lines()[c.seen:]
				if len(lines) == 0 || !strings.HasPrefix(lines[len(lines)-1], result("1")) {
					t.Fatalf("the reply is not the last: %q", lines)
				}
				notes := lines[:len(lines)-1]
				if n := len(notes); n < tt.min || n > tt.max {
					t.Errorf("%d notifications: %q", n, notes)
				}
				at := -1.0
				for _, l := range notes {
					m := parse(t, l)
					if m.Method != "notifications/progress" || string(m.Params.ProgressToken) != tt.want || m.Params.Progress <= at || !strings.HasPrefix(m.Params.Message, tt.message) && tt.name != "silent" {
						t.Errorf("%s", l)
					}
					at = m.Params.Progress
				}
			})
		})
	}
}

// A flood is told of four times a second, and a call that waits for its turn is
// told of too.
func TestProgress_FloodAndTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		f.scope.Wrap("floods", func(ctx context.Context, c *pipeline.Call, next pipeline.Body) pipeline.Outcome {
			for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
				c.Report(pipeline.Progress{Stream: "stdout", Data: []byte(strings.Repeat("x", 5000) + "\nlast é line\npart")})
			}
			return next(ctx)
		})
		c := connect(t, t.Context(), f.options(t))
		c.send(withToken("1", "alone", `{"wait_ms":60000}`, "1"))
		c.send(withToken("2", "alone", `{}`, "2"))
		time.Sleep(200 * time.Second)
		if err := c.end(); err != nil {
			t.Error(err)
		}
		count := map[string]int{}
		waits := 0
		for _, l := range c.out.lines()[c.seen:] {
			m := parse(t, l)
			count[string(m.Params.ProgressToken)]++
			if m.Params.Message == "part" || m.Result != nil {
				continue
			}
			if strings.HasPrefix(m.Params.Message, "no output for ") {
				waits++
				continue
			}
			t.Errorf("%s", l)
		}
		if count["1"] < 18 || count["1"] > 25 || waits < 3 {
			t.Errorf("%v notifications, %d of them while it waited", count, waits)
		}
	})
}

func TestLastLine(t *testing.T) {
	for in, want := range map[string]string{
		"":                        "",
		"a":                       "a",
		"a\nb\n\n  \n":            "b",
		"10%\r20%\r":              "20%",
		"\x1b[1;31mred\x1b[0m":    "red",
		"\x1b]0;title\x07shell":   "shell",
		"\x1b]0;t\x1b\\shell":     "shell",
		"bell\a\x00 x\ty":         "bell x y",
		"\xff\xfeok":              "ok",
		"cut\x1b[":                "cut",
		"\x1b":                    "",
		"a\u202eb":                "ab",
		strings.Repeat("é", 150):  strings.Repeat("é", 100) + "…",
		"one\n\x1b[2K\x1b[1G\ntw": "tw",
	} {
		if got := lastLine([]byte(in)); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// Changes of what is visible are told once, and only those.
func TestToolsChanged(t *testing.T) {
	f := newFake(t)
	c := connect(t, context.Background(), f.options(t))
	undo := f.scope.Restrict(pipeline.Restriction{Deny: []string{"alone"}}) // nobody has asked yet
	undo()
	c.send(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	c.want(result("1") + `{"tools":[{"name":"alone"`)
	undo = f.scope.Restrict(pipeline.Restriction{Deny: []string{"nosuch"}}) // hides nothing
	undo()
	undo = f.scope.Restrict(pipeline.Restriction{Deny: []string{"alone"}})
	c.want(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"`)
	c.send(`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)
	c.want(result("2") + `{"tools":[{"name":"say"`)
	c.call("3", "alone", `{}`)
	c.want(failure("3") + `-32602,"message":"unknown tool \"alone\"; there are say"`)
	undo()
	c.want(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"`)
	c.call("4", "alone", `{}`)
	c.want(result("4"))
	if err := c.end(); err != nil {
		t.Error(err)
	}
	if n := len(c.out.lines()); n != c.seen {
		t.Errorf("further: %q", c.out.lines()[c.seen:])
	}
}

// The end of a job is told at once, and with the next result that is sent.
func TestJobEnds(t *testing.T) {
	f := newFake(t)
	c := connect(t, context.Background(), f.options(t))
	c.call("1", "say", `{}`)
	if got := c.want(result("1")); strings.Contains(got, "dshx/job") {
		t.Error(got)
	}
	f.jobEnds("bash-1")
	m := parse(t, c.next())
	if m.Method != "notifications/message" || m.Params.Level != "info" || m.Params.Data != "job bash-1 has exited" || string(m.Params.Meta["dshx/job"]) != `{"jobId":"bash-1"}` {
		t.Errorf("%+v", m)
	}
	// A call that gets no reply tells nobody.
	c.call("2", "say", `{"block":true}`)
	running(f, c)
	c.send(cancel("2"))
	running(f, c)
	c.send(`{"jsonrpc":"2.0","id":9,"method":"logging/setLevel","params":{"level":"error"}}`)
	c.want(result("9"))
	f.jobEnds("bash-2") // not in the log any more
	c.call("3", "say", `{}`)
	if got := c.want(result("3")); !strings.HasSuffix(got, `"dshx/job":[{"jobId":"bash-1"},{"jobId":"bash-2"}]}}}`) {
		t.Error(got)
	}
	c.call("4", "say", `{}`)
	if got := c.want(result("4")); strings.Contains(got, "dshx/job") {
		t.Error(got)
	}
	if err := c.end(); err != nil {
		t.Error(err)
	}
}

// logged is a log that can be looked at.
func logged(o *Options) *buffer {
	b := &buffer{}
	o.Log = slog.New(slog.NewTextHandler(b, &slog.HandlerOptions{Level: slog.LevelInfo}))
	return b
}

// ask is a connection whose client has capabilities.
func ask(t testing.TB, o Options, capabilities string) *conn {
	c := dial(t, context.Background(), o)
	c.send(strings.Replace(hello, `"capabilities":{}`, `"capabilities":`+capabilities, 1))
	c.want(result(`"hello"`))
	c.send(welcome)
	return c
}

// F6-17: roots change nothing; the log says where they are elsewhere.
func TestRoots(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	work := filepath.Join(dir, "A")
	if err := os.MkdirAll(filepath.Join(work, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(work, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	root := func(path string) string { return `{"uri":"file://` + path + `"}` }
	for name, tt := range map[string]struct {
		answer string
		said   string // in the log; "" for nothing
	}{
		"the workspace":      {`"result":{"roots":[` + root(work) + `]}`, ""},
		"around it":          {`"result":{"roots":[` + root("/nosuch") + `,` + root(dir) + `]}`, ""},
		"through a link":     {`"result":{"roots":[` + root(filepath.Join(dir, "link")) + `]}`, ""},
		"with a slash":       {`"result":{"roots":[` + root(work+"/") + `]}`, ""},
		"escaped":            {`"result":{"roots":[{"uri":"file://` + strings.ReplaceAll(work, "A", "%41") + `"}]}`, ""},
		"none":               {`"result":{"roots":[]}`, ""},
		"elsewhere":          {`"result":{"roots":[` + root(dir+"/B") + `]}`, "no root of the client contains the workspace"},
		"a name's beginning": {`"result":{"roots":[` + root(dir[:len(dir)-1]) + `]}`, "no root"},
		"below it":           {`"result":{"roots":[` + root(work+"/sub") + `]}`, "no root"},
		"no file":            {`"result":{"roots":[{"uri":"https://example.com/"}]}`, "no root"},
		"another machine":    {`"result":{"roots":[{"uri":"file://host` + work + `"}]}`, "no root"},
		"malformed":          {`"result":{"roots":[{"uri":"::%%"}]}`, "no root"},
		"nonsense":           {`"result":{"roots":17}`, "doesn't tell its roots"},
		"an error":           {`"error":{"code":-32601,"message":"method not found"}`, "doesn't tell its roots"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			f.workspace = work
			o := f.options(t)
			log := logged(&o)
			c := ask(t, o, `{"roots":{"listChanged":true}}`)
			for range 2 { // at the beginning, and when they change
				m := parse(t, c.next())
				if m.Method != "roots/list" {
					t.Fatalf("%+v", m)
				}
				c.send(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,` + tt.answer + `}`)
				for tt.said != "" && len(log.lines()) == 0 {
					time.Sleep(time.Millisecond)
				}
				c.send(`{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`)
			}
			c.next() // the third question, which has no answer
			if err := c.end(); err != nil {
				t.Error(err)
			}
			lines := log.lines()
			if tt.said == "" && len(lines) > 0 || tt.said != "" && (len(lines) == 0 || !strings.Contains(lines[0], tt.said)) {
				t.Errorf("logged %q", lines)
			}
		})
	}
	// A client without the capability isn't asked.
	c := connect(t, context.Background(), newFake(t).options(t))
	c.send(`{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`)
	c.send(ping("1"))
	c.want(result("1"))
	if err := c.end(); err != nil {
		t.Error(err)
	}
	if len(c.out.lines()) != 2 {
		t.Errorf("%q", c.out.lines())
	}
}

// asked is the question that comes next.
func (c *conn) asked() told {
	c.t.Helper()
	m := parse(c.t, c.next())
	if m.Method != "elicitation/create" {
		c.t.Fatalf("%+v", m)
	}
	return m
}

// F6-18: only the answer that was offered allows, and whatever else comes is the
// end of the question.
func TestApproval(t *testing.T) {
	for name, tt := range map[string]struct{ answer, code string }{
		"allowed":            {`"result":{"action":"accept","content":{"decision":"allow once"}}`, ""},
		"rejected":           {`"result":{"action":"accept","content":{"decision":"reject"}}`, "APPROVAL_REJECTED"},
		"declined":           {`"result":{"action":"decline"}`, "APPROVAL_REJECTED"},
		"declined, but":      {`"result":{"action":"decline","content":{"decision":"allow once"}}`, "APPROVAL_REJECTED"},
		"closed":             {`"result":{"action":"cancel"}`, "APPROVAL_CANCELLED"},
		"accepted without":   {`"result":{"action":"accept"}`, "APPROVAL_UNAVAILABLE"},
		"accepted empty":     {`"result":{"action":"accept","content":{}}`, "APPROVAL_UNAVAILABLE"},
		"another letter":     {`"result":{"action":"accept","content":{"decision":"Allow once"}}`, "APPROVAL_UNAVAILABLE"},
		"for ever":           {`"result":{"action":"accept","content":{"decision":"allow always"}}`, "APPROVAL_UNAVAILABLE"},
		"true":               {`"result":{"action":"accept","content":{"decision":true}}`, "APPROVAL_UNAVAILABLE"},
		"yes":                {`"result":{"action":"yes","content":{"decision":"allow once"}}`, "APPROVAL_UNAVAILABLE"},
		"nothing":            {`"result":{}`, "APPROVAL_UNAVAILABLE"},
		"nonsense":           {`"result":"allow once"`, "APPROVAL_UNAVAILABLE"},
		"null":               {`"result":null`, "APPROVAL_UNAVAILABLE"},
		"method not found":   {`"error":{"code":-32601,"message":"method not found"}`, "APPROVAL_UNAVAILABLE"},
		"both":               {`"result":{"action":"accept","content":{"decision":"allow once"}},"error":{"code":1,"message":"no"}`, "APPROVAL_UNAVAILABLE"},
		"an error that isnt": {`"error":17`, "APPROVAL_UNAVAILABLE"},
	} {
		t.Run(name, func(t *testing.T) {
			c := ask(t, newFake(t).options(t), `{"elicitation":{}}`)
			c.call("1", "say", `{"ask":true,"text":"<ran>"}`)
			m := c.asked()
			if !strings.HasPrefix(m.Params.Message, "Allow this one call of say?\nmay it?") || !strings.Contains(m.Params.Message, `{"ask":true,"text":"<ran>"}`) || !bytes.Contains(m.Params.Schema, []byte(`"allow once"`)) {
				t.Errorf("%+v", m.Params)
			}
			c.send(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,` + tt.answer + `}`)
			got := c.want(result("1"))
			if tt.code == "" && !strings.Contains(got, `"said":"<ran>"`) || tt.code != "" && !strings.Contains(got, `"dshx/error":{"code":"`+tt.code+`"`) {
				t.Error(got)
			}
			// Once: the next call asks again, and a late answer is nobody's.
			c.send(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":{"action":"accept","content":{"decision":"allow once"}}}`)
			c.call("2", "say", `{"ask":true}`)
			if again := c.asked(); string(again.ID) == string(m.ID) {
				t.Error("the same question")
			}
			// The end of input leaves nobody to answer.
			c.feed.Close()
			if err := <-c.done; err != nil {
				t.Error(err)
			}
			if all := strings.Join(c.out.lines()[c.seen:], "\n"); !strings.Contains(all, result("2")) || !strings.Contains(all, `APPROVAL_UNAVAILABLE`) {
				t.Error(all)
			}
		})
	}
}

// Nobody is asked who can't be, and a cancelled call's question is withdrawn.
func TestApproval_NobodyAndWithdrawn(t *testing.T) {
	for name, capabilities := range map[string]string{"none": `{}`, "only links": `{"elicitation":{"url":{}}}`} {
		c := dial(t, context.Background(), newFake(t).options(t))
		c.send(strings.Replace(hello, `"capabilities":{}`, `"capabilities":`+capabilities, 1))
		c.want(result(`"hello"`))
		c.call("1", "say", `{"ask":true}`)
		if got := c.want(result("1")); !strings.Contains(got, "APPROVAL_UNAVAILABLE") {
			t.Errorf("%s: %s", name, got)
		}
		if err := c.end(); err != nil {
			t.Error(err)
		}
	}
	f := newFake(t)
	f.never = true
	c := ask(t, f.options(t), `{"elicitation":{"form":{},"url":{}}}`)
	c.call("1", "say", `{"ask":true}`)
	if got := c.want(result("1")); !strings.Contains(got, "APPROVAL_REJECTED") {
		t.Error(got)
	}
	if err := c.end(); err != nil {
		t.Error(err)
	}

	f = newFake(t)
	var ran []string
	f.scope.Guard("ran", func(c *pipeline.Call) (string, bool) { ran = append(ran, c.ID()); return "", false })
	c = ask(t, f.options(t), `{"elicitation":{"form":{},"url":{}}}`)
	c.call("1", "alone", `{"ask":true}`)
	m := c.asked()
	c.send(cancel("1"))
	withdrawn := parse(t, c.next())
	id, _ := json.Marshal(withdrawn.Params.RequestID)
	if withdrawn.Method != "notifications/cancelled" || string(id) != string(m.ID) {
		t.Errorf("%+v, of question %s", withdrawn, m.ID)
	}
	c.send(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":{"action":"accept","content":{"decision":"allow once"}}}`)
	c.call("2", "alone", `{}`)
	c.want(result("2"))
	if err := c.end(); err != nil {
		t.Error(err)
	}
	if !slices.Equal(ran, []string{"2"}) {
		t.Errorf("ran %q", ran)
	}
}

// An answer is waited for as long as there is time.
func TestApproval_NobodyAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := ask(t, newFake(t).options(t), `{"elicitation":{}}`)
		began := time.Now()
		c.call("1", "say", `{"ask":true}`)
		c.asked()
		time.Sleep(11 * time.Minute)
		all := strings.Join(c.out.lines(), "\n")
		if !strings.Contains(all, "APPROVAL_UNAVAILABLE") || !strings.Contains(all, "notifications/cancelled") {
			t.Errorf("after %v: %s", time.Since(began), all)
		}
		if err := c.end(); err != nil {
			t.Error(err)
		}
	})
}

func TestQuestion_ShowsBothEndsOfWhatIsLong(t *testing.T) {
	f := newFake(t)
	got := make(chan string, 1)
	f.scope.SetApprover(approver(func(q pipeline.Question) { got <- question(q) }))
	f.scope.Call(context.Background(), pipeline.Request{Name: "say", Args: []byte(`{"ask":true,"text":"` + strings.Repeat("é", 20000) + `","times":7}`)})
	text := <-got
	if len(text) > maxShown+200 || !strings.Contains(text, "bytes are not shown") || !strings.HasSuffix(text, `"times":7}`) || !strings.Contains(text, `{"ask":true,`) || strings.Contains(text, "\uFFFD") {
		t.Errorf("%d bytes: %.200s", len(text), text)
	}
}

type approver func(pipeline.Question)

func (a approver) Approve(_ context.Context, q pipeline.Question) pipeline.Answer {
	a(q)
	return pipeline.Rejected
}

// switcher has presets.
type switcher struct {
	*fake
	now string
}

func (s *switcher) Presets() []string { return []string{"read-only", "workspace-write"} }

func (s *switcher) SwitchPreset(_ context.Context, name string) (string, error) {
	if !slices.Contains(s.Presets(), name) {
		return "", errors.New("there is no preset " + name)
	}
	s.now = name
	return "Preset " + name + ".", nil
}

func TestPrompts(t *testing.T) {
	get := func(id, name, args string) string {
		return `{"jsonrpc":"2.0","id":` + id + `,"method":"prompts/get","params":{"name":"` + name + `","arguments":` + args + `}}`
	}
	c := connect(t, context.Background(), newFake(t).options(t))
	c.send(`{"jsonrpc":"2.0","id":1,"method":"prompts/list"}`)
	if got := c.want(result("1")); !strings.Contains(got, `"name":"dshx-status"`) || strings.Contains(got, "dshx-preset") {
		t.Error(got)
	}
	c.send(get("2", "dshx-status", `{}`))
	if got := c.want(result("2")); !strings.Contains(got, `"text":"all is well"`) {
		t.Error(got)
	}
	c.send(get("3", "dshx-preset", `{"preset":"read-only"}`))
	c.want(failure("3") + "-32602,")
	if err := c.end(); err != nil {
		t.Error(err)
	}

	s := &switcher{fake: newFake(t)}
	o := s.options(t)
	o.Open, o.Presets = func() (Session, error) { return s, nil }, true
	c = connect(t, context.Background(), o)
	c.send(`{"jsonrpc":"2.0","id":1,"method":"prompts/list"}`)
	if got := c.want(result("1")); !strings.Contains(got, `"name":"dshx-preset"`) {
		t.Error(got)
	}
	c.send(get("2", "dshx-preset", `{"preset":"read-only"}`))
	if got := c.want(result("2")); !strings.Contains(got, "Preset read-only.") || s.now != "read-only" {
		t.Error(got)
	}
	for i, args := range []string{`{"preset":"nosuch"}`, `{}`, `{"preset":""}`} {
		c.send(get(string(rune('3'+i)), "dshx-preset", args))
		c.want(failure(string(rune('3'+i))) + "-32602,")
	}
	// No tool of theirs can be called.
	c.send(`{"jsonrpc":"2.0","id":8,"method":"tools/list"}`)
	if got := c.want(result("8")); strings.Contains(got, "dshx-") {
		t.Error(got)
	}
	c.call("9", "dshx-preset", `{"preset":"workspace-write"}`)
	c.want(failure("9") + "-32602,")
	if err := c.end(); err != nil {
		t.Error(err)
	}
	if s.now != "read-only" {
		t.Errorf("preset %s", s.now)
	}
}
