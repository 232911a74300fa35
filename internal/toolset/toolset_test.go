package toolset

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dshx/dshx/approval"
	"github.com/dshx/dshx/pipeline"
	"github.com/dshx/dshx/sandboxpolicy"
	"github.com/dshx/dshx/sessionlog"
	"pgregory.net/rapid"
)

// What the contract says of the tools: their arguments, the required ones with
// "!", and which may run beside others.
var contract = map[string]struct {
	parallel string
	args     string
}{
	"bash":       {"never", "command! description workdir timeout_ms run_in_background interactive stdin pty rows cols env sandbox_permissions justification dry_run"},
	"read":       {"always", "file_path! file_path_base64 offset limit sandbox_permissions justification"},
	"write":      {"never", "file_path! file_path_base64 content! create_dirs sandbox_permissions justification"},
	"edit":       {"never", "file_path! file_path_base64 old_string new_string replace_all edits sandbox_permissions justification"},
	"list":       {"always", "path depth hidden ignored limit sandbox_permissions justification"},
	"glob":       {"always", "pattern! path hidden ignored sort limit sandbox_permissions justification"},
	"grep":       {"always", "pattern! path include exclude fixed ignore_case multiline word before after output hidden ignored limit sandbox_permissions justification"},
	"job_list":   {"always", ""},
	"job_output": {"always", "job_id! since tail limit_bytes wait timeout_ms"},
	"job_wait":   {"always", "job_ids timeout_ms any"},
	"job_kill":   {"always", "job_id! reason signal"},
	"job_input":  {"never", "job_id! text eof"},
}

func definitions(t *testing.T) []*pipeline.Tool {
	t.Helper()
	tools, err := Definitions()
	if err != nil {
		t.Fatal(err)
	}
	return tools
}

func TestDefinitions_AreTheContracts(t *testing.T) {
	tools := definitions(t)
	if len(tools) != len(contract) {
		t.Errorf("%d tools, want %d", len(tools), len(contract))
	}
	for _, tool := range tools {
		want := contract[tool.Name()]
		var args []string
		for _, p := range tool.Parameters().Properties {
			name := p.Name
			if p.Required {
				name += "!"
			}
			args = append(args, name)
		}
		if got := strings.Join(args, " "); got != want.args || tool.Parallel() != want.parallel {
			t.Errorf("%s: %s, %s\nwant %s, %s", tool.Name(), got, tool.Parallel(), want.args, want.parallel)
		}
		if h := tool.Hints(); h.ReadOnly && (h.Destructive || tool.Parallel() != "always") {
			t.Errorf("%s: hints %+v", tool.Name(), h)
		}
	}
}

// F6-11: what clients of all kinds take: an object at the root, a type
// everywhere, items for each array, and no word of JSON Schema beyond these.
func TestF6_11_Schemas(t *testing.T) {
	var walk func(where string, v any)
	known := strings.Fields("type description properties required additionalProperties items minItems maxItems minLength maxLength minimum maximum enum default")
	walk = func(where string, v any) {
		s, ok := v.(map[string]any)
		if !ok {
			t.Errorf("%s: %v is no schema", where, v)
			return
		}
		for word := range s {
			if !slices.Contains(known, word) {
				t.Errorf("%s: %s", where, word)
			}
		}
		types := fmt.Sprint(s["type"])
		if s["type"] == nil {
			t.Errorf("%s: no type", where)
		}
		props, isObject := s["properties"].(map[string]any)
		if strings.Contains(types, "object") && !isObject && s["items"] == nil {
			t.Errorf("%s: no properties", where)
		}
		for name, p := range props {
			walk(where+"."+name, p)
		}
		if more, ok := s["additionalProperties"].(map[string]any); ok {
			walk(where+".*", more)
		}
		items, hasItems := s["items"].(map[string]any)
		if strings.Contains(types, "array") && !hasItems {
			t.Errorf("%s: an array without items", where)
		}
		if len(items) > 0 {
			walk(where+"[]", items)
		}
	}
	j, err := pipeline.MarshalValue(Describe(definitions(t)))
	if err != nil {
		t.Fatal(err)
	}
	var all struct{ Tools []map[string]any }
	if err := json.Unmarshal([]byte(j.String()), &all); err != nil || len(all.Tools) != len(contract) {
		t.Fatalf("%d tools, %v", len(all.Tools), err)
	}
	for _, tool := range all.Tools {
		for _, key := range []string{"inputSchema", "outputSchema"} {
			where := fmt.Sprint(tool["name"], " ", key)
			walk(where, tool[key])
			root := tool[key].(map[string]any)
			if root["type"] != "object" || root["properties"] == nil || root["additionalProperties"] != false {
				t.Errorf("%s: the root is of type %v, with %v", where, root["type"], root["additionalProperties"])
			}
		}
	}
}

// request is for a workspace of the test's own.
func request(t *testing.T) (req sandboxpolicy.Request, ws string) {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	ws = filepath.Join(base, "ws")
	if err := os.Mkdir(ws, 0o755); err != nil {
		t.Fatal(err)
	}
	return sandboxpolicy.Request{Workspace: ws, Cwd: ws, NoConfig: true, Environ: []string{"HOME=" + base, "PATH=" + os.Getenv("PATH")}}, ws
}

func hostT(t *testing.T, o Options) (*Host, string) {
	t.Helper()
	req, ws := request(t)
	h := NewHost(req, o)
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return h, ws
}

func sessionT(t *testing.T, h *Host) *Session {
	t.Helper()
	s, err := h.Session("test")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Opened(t.Context()); err != nil {
		t.Skipf("no sandbox here: %v", err)
	}
	return s
}

func openT(t *testing.T) (*Session, string) {
	t.Helper()
	h, ws := hostT(t, Options{KeepSpills: true})
	return sessionT(t, h), ws
}

// Cards are pure and total: whatever the arguments are, and whichever result
// they are shown with, there is a card, always the same; before the result it
// is one of those that need none.
func TestCards_ArePureAndTotal(t *testing.T) {
	s, ws := openT(t)
	for name, data := range map[string]string{"a.go": "one\ntwo\n", "b.txt": "one\n"} {
		if err := os.WriteFile(filepath.Join(ws, name), []byte(data), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	// Results of every tool, successes and failures.
	type made struct {
		tool *pipeline.Tool
		args string
		r    pipeline.Result
	}
	var all []made
	kinds := map[string]bool{}
	for i, c := range [][2]string{
		{"bash", `{"command":"echo hi; exit 3"}`}, {"bash", `{"command":"sleep 300","run_in_background":true}`}, {"bash", `{"command":"x","workdir":"none"}`}, {"bash", `{}`},
		{"read", `{"file_path":"a.go"}`}, {"read", `{"file_path":"."}`}, {"read", `{"file_path":"none"}`},
		{"edit", `{"file_path":"a.go","old_string":"two","new_string":"2"}`}, {"edit", `{"file_path":"a.go","edits":[{"old_string":"one","new_string":"1"}]}`}, {"edit", `{"file_path":"a.go","old_string":"none","new_string":"2"}`},
		{"write", `{"file_path":"new","content":"x"}`}, {"write", `{"file_path":"b.txt","content":"x"}`},
		{"list", `{}`}, {"glob", `{"pattern":"*"}`}, {"glob", `{"pattern":"none"}`}, {"grep", `{"pattern":"one"}`}, {"grep", `{"pattern":"one","output":"count"}`}, {"grep", `{"pattern":"("}`},
		{"job_list", `{}`}, {"job_output", `{"job_id":"bash-1"}`}, {"job_wait", `{"timeout_ms":1}`}, {"job_input", `{"job_id":"bash-1","text":"x"}`}, {"job_kill", `{"job_id":"bash-1"}`}, {"job_kill", `{"job_id":"none"}`},
	} {
		r := s.Scope.Call(t.Context(), pipeline.Request{ID: fmt.Sprint(i), Name: c[0], Args: []byte(c[1])})
		all = append(all, made{s.Scope.Lookup(c[0]), c[1], r})
		kinds[kindOf(t, pipeline.MarshalCard(r.Card()))] = true
	}
	for _, kind := range []string{"generic", "terminal", "diff", "read", "search"} {
		if !kinds[kind] {
			t.Errorf("no card %s", kind)
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		m := rapid.SampledFrom(all).Draw(rt, "result")
		args := m.args
		if rapid.Bool().Draw(rt, "other arguments") {
			args = drawArgs(rt, m.tool)
		}
		j, err := pipeline.ParseJSON([]byte(args))
		if err != nil {
			rt.Fatal(err)
		}
		pending := pipeline.MarshalCard(m.tool.PresentCall(j))
		if kind := kindOf(t, pending); kind != "generic" && kind != "terminal" && kind != "diff" {
			rt.Errorf("%s %s: pending %s", m.tool.Name(), args, pending)
		}
		done := pipeline.MarshalCard(pipeline.Present(m.tool, m.tool.Name(), j, m.r.Shown()))
		kindOf(t, done)
		if again := pipeline.MarshalCard(m.tool.PresentCall(j)); again != pending {
			rt.Errorf("%s %s: %s, then %s", m.tool.Name(), args, pending, again)
		}
		if again := pipeline.MarshalCard(pipeline.Present(m.tool, m.tool.Name(), j, m.r.Shown())); again != done {
			rt.Errorf("%s %s: %s, then %s", m.tool.Name(), args, done, again)
		}
	})
}

// outcomes are calls of all tools with all kinds of ends, made in s, whose
// workspace is ws.
func outcomes(t *testing.T, s *Session, ws string) []pipeline.Result {
	t.Helper()
	long := strings.Repeat("a line of no great length, and more of the same\n", 4000)
	for name, data := range map[string]string{
		"a.go": "one\ntwo\n", "b.txt": "one\n", "long": long, "empty": "", "wide": strings.Repeat("x", 5000) + "\n", "utf16": "\xff\xfeo\x00n\x00e\x00",
		"dot.png": "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\b\x00\x00\x00\x00:~\x9bU\x00\x00\x00\nIDATx\x9cc`\x00\x00\x00\x02\x00\x01H\xaf\xa4q\x00\x00\x00\x00IEND\xaeB`\x82",
		"odd\xff": "one\n", "new\nline": "one\n", "many": "",
	} {
		if err := os.WriteFile(filepath.Join(ws, name), []byte(data), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(ws, "dir"), 0o755); err != nil {
		t.Fatal(err)
	}
	for i := range 1500 {
		if err := os.WriteFile(filepath.Join(ws, "dir", fmt.Sprintf("%04d-%s", i, strings.Repeat("n", 100))), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text := func(v any) string {
		j, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(j)
	}
	var all []pipeline.Result
	calls := func(scope *pipeline.Scope, list ...[2]string) {
		for _, c := range list {
			ctx, cancel := context.WithCancel(t.Context())
			req := pipeline.Request{ID: fmt.Sprint(len(all)), Name: c[0], Args: []byte(c[1])}
			if strings.Contains(c[1], "CANCEL") {
				req.Progress = func(pipeline.Progress) { cancel() }
			}
			all = append(all, scope.Call(ctx, req))
			cancel()
		}
	}
	list := [][2]string{
		{"bash", `{"command":"echo hi; exit 3","description":"say hi"}`}, {"bash", `{"command":"echo no >&2"}`}, {"bash", `{"command":"true"}`},
		{"bash", `{"command":"printf hi; printf no >&2; kill -9 $$"}`}, {"bash", `{"command":"printf 'gr\\374n'","workdir":"/"}`}, {"bash", `{"command":"head -c 100 /dev/zero"}`},
		{"bash", `{"command":"cat long long >&2; cat long"}`}, {"bash", `{"command":"echo hi; sleep 300","timeout_ms":100}`}, {"bash", `{"command":"printf '\\033[1mb\\033[0m [exit code 3]'; exit 3"}`},
		{"bash", `{"command":"echo so far; : CANCEL; sleep 300"}`}, {"bash", `{"command":"chmod 700 /etc; exit 1"}`}, {"bash", `{"command":"x","workdir":"none"}`}, {"bash", `{}`}, {"bash", `{"command":`}, {"bash", `null`}, {"bash", `7`},
		{"bash", `{"command":"echo job; sleep 300","run_in_background":true}`}, {"bash", `{"command":"true","sandbox_permissions":{"network":"full"}}`},
		{"read", `{"file_path":"a.go"}`}, {"read", `{"file_path":"long","offset":3}`}, {"read", `{"file_path":"wide"}`}, {"read", `{"file_path":"utf16"}`}, {"read", `{"file_path":"empty"}`}, {"read", `{"file_path":"dot.png"}`},
		{"read", `{"file_path":"."}`}, {"read", `{"file_path":"dir"}`}, {"read", `{"file_path":"none"}`}, {"read", `{"file_path_base64":"b2Rk/w=="}`}, {"read", `{"file_path":"b.txt"}`},
		{"write", `{"file_path":"new","content":"x"}`}, {"write", `{"file_path":"b.txt","content":"x"}`}, {"write", `{"file_path":"a.go/x","content":"x"}`}, {"write", text(map[string]any{"file_path": "long", "content": strings.ToUpper(long)})},
		{"write", `{"file_path":"/etc/nothing","content":"x"}`}, {"write", `{"file_path":"many","content":"x"}`},
		{"edit", `{"file_path":"a.go","old_string":"two","new_string":"2"}`}, {"edit", `{"file_path":"a.go","edits":[{"old_string":"one","new_string":"1"},{"old_string":"2","new_string":"3"}]}`}, {"edit", `{"file_path":"a.go","old_string":"none","new_string":"2"}`},
		{"edit", text(map[string]any{"file_path": "long", "old_string": strings.ToUpper(long), "new_string": long})}, {"edit", `{"file_path":"a.go"}`},
		{"list", `{}`}, {"list", `{"path":"dir"}`}, {"list", `{"path":"none"}`}, {"glob", `{"pattern":"**/*","limit":10000}`}, {"glob", `{"pattern":"none"}`}, {"glob", `{"pattern":"["}`},
		{"grep", `{"pattern":"one"}`}, {"grep", `{"pattern":"one","output":"count"}`}, {"grep", `{"pattern":"one","output":"files"}`}, {"grep", `{"pattern":"line","limit":5000}`}, {"grep", `{"pattern":"("}`}, {"grep", `{"pattern":"x+","path":"wide"}`},
		{"job_list", `{}`}, {"job_output", `{"job_id":"bash-1"}`}, {"job_wait", `{"timeout_ms":1}`}, {"job_input", `{"job_id":"bash-1","text":"x"}`}, {"job_kill", `{"job_id":"bash-1"}`}, {"job_kill", `{"job_id":"none"}`},
		{"nosuch", `{}`}, {"", `{}`}, {"bash", `{"command":"echo hi","old":1}`},
	}
	calls(s.Scope, list...)
	hidden := s.Scope.Child("hidden")
	hidden.Restrict(pipeline.Restriction{Deny: []string{"read"}})
	calls(hidden, [2]string{"read", `{"file_path":"a.go"}`})
	for name, decide := range map[string]pipeline.PostDecision{
		"block": pipeline.Block{Feedback: "not this"}, "content": pipeline.AcceptContent{Content: []pipeline.Content{pipeline.Text("other"), pipeline.Image([]byte("x"), "image/png")}},
		"none": pipeline.AcceptContent{}, "value": nil,
	} {
		scope := s.Scope.Child(name)
		scope.PostExecute(name, func(_ context.Context, _ *pipeline.Call, r pipeline.Result) pipeline.PostDecision {
			if decide == nil {
				return pipeline.AcceptValue{Value: r.Value()}
			}
			return decide
		})
		for _, c := range list {
			if !strings.Contains(c[1], "300") {
				calls(scope, c)
			}
		}
	}
	denied := s.Scope.Child("denied")
	denied.Guard("no", func(*pipeline.Call) (string, bool) { return "no", true })
	calls(denied, list[0], [2]string{"write", `{"file_path":"x","content":"x"}`}, [2]string{"grep", `{"pattern":"one"}`})
	broken := s.Scope.Child("broken")
	broken.Wrap("broken", func(context.Context, *pipeline.Call, pipeline.Body) pipeline.Outcome { panic("broken") })
	calls(broken, list...)
	closed := s.Scope.Child("closed")
	closed.Close()
	calls(closed, list...)
	return all
}

// cardsOf are the cards of the results in the log at path, by the definitions of
// the tools alone.
func cardsOf(t *testing.T, path string) (cards []string) {
	t.Helper()
	tools := map[string]*pipeline.Tool{}
	for _, tool := range definitions(t) {
		tools[tool.Name()] = tool
	}
	r, err := sessionlog.OpenReader(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	replay := sessionlog.NewReplay(func(name string) *pipeline.Tool { return tools[name] })
	for {
		line, err := r.Next()
		if err == io.EOF {
			return cards
		}
		if err != nil || line.Record == nil {
			t.Fatalf("%v, %s line %d: %s", err, line.File, line.N, line.Problem)
		}
		e := replay.Event(line.Record)
		if _, ok := line.Record.(*sessionlog.Result); ok {
			cards = append(cards, pipeline.MarshalCard(e.Card).String())
		}
	}
}

// What a log has of a call makes the card that its result made, byte for byte,
// whichever way the call went.
func TestCards_ReplayFromTheLog(t *testing.T) {
	s, ws := openT(t)
	s.Scope.SetApprover(approval.New(approval.Never, 0))
	path := filepath.Join(filepath.Dir(ws), "log")
	log, err := s.OpenLog(path, func(text string) { t.Error(text) })
	if err != nil {
		t.Fatal(err)
	}
	s.Record(log.Scope("main"), "test")
	results := outcomes(t, s, ws)
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	cards := cardsOf(t, path)
	if len(cards) != len(results) {
		t.Fatalf("%d results, %d cards", len(results), len(cards))
	}
	codes, kinds := map[string]int{}, map[string]int{}
	for i, r := range results {
		live := pipeline.MarshalCard(r.Card()).String()
		if cards[i] != live {
			t.Errorf("%s %.200s\nlive     %.2000s\nreplayed %.2000s", r.Name(), r.Args(), live, cards[i])
		}
		kinds[kindOf(t, pipeline.MarshalCard(r.Card()))]++
		if e := r.Failure(); e != nil {
			codes[e.Code]++
		}
		if n := len(r.Meta().String()); n > 2*pipeline.MaxContent {
			t.Errorf("%s %.100s: %d bytes of meta", r.Name(), r.Args(), n)
		}
		if tool := s.Scope.Lookup(r.Name()); tool != nil {
			if n := len(pipeline.MarshalCard(tool.PresentCall(r.Args())).String()); n > 3*pipeline.MaxContent {
				t.Errorf("%s %.100s: a pending card of %d bytes", r.Name(), r.Args(), n)
			}
		}
		if n := len(live); n > 3*pipeline.MaxContent {
			t.Errorf("%s %.100s: a card of %d bytes", r.Name(), r.Args(), n)
		}
	}
	for _, code := range strings.Fields("ABORTED APPROVAL_REJECTED BLOCKED CANCELLED DENIED EDIT_NOT_FOUND FS_NOT_FOUND FS_NOT_OBSERVED INTERNAL INVALID_ARGS JOB_NOT_FOUND SANDBOX_DENIED UNKNOWN_TOOL") {
		if codes[code] == 0 {
			t.Errorf("no call ended with %s", code)
		}
	}
	for _, kind := range strings.Fields("generic terminal diff read search") {
		if kinds[kind] == 0 {
			t.Errorf("no card %s", kind)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, member := range []string{`"partial":`, `"stdoutBytes":12`, `"value":`} { // of the value of bash, as whole or as it was cut off
		if strings.Contains(string(text), member) {
			t.Errorf("a value is in the log: %s", member)
		}
	}
}

var update = flag.Bool("update", false, "record testdata/session.log again")

// A session that was recorded by an earlier dshx shows the cards that were shown
// then.
func TestCards_OfARecordedSession(t *testing.T) {
	const golden = "testdata/session.log"
	if *update {
		recordSession(t, golden)
	}
	want, err := os.ReadFile("testdata/session.cards")
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(cardsOf(t, golden), "\n") + "\n"; got != string(want) {
		t.Errorf("replayed\n%s\nwant\n%s", got, want)
	}
}

// recordSession makes a session and writes its log to path, and the cards that it
// made live beside it.
func recordSession(t *testing.T, path string) {
	s, ws := openT(t)
	s.Scope.SetApprover(approval.New(approval.Never, 0))
	temporary := filepath.Join(filepath.Dir(ws), "log")
	log, err := s.OpenLog(temporary, func(text string) { t.Error(text) })
	if err != nil {
		t.Fatal(err)
	}
	rec := log.Scope("main")
	s.Record(rec, "test")
	elsewhere := func(text string) string { return strings.ReplaceAll(text, filepath.Dir(ws), "/home/me") }
	var cards []string
	for i, c := range [][2]string{
		{"write", `{"file_path":"main.go","content":"package main\n\nfunc main() {\n\tprintln(\"hi\")\n}\n"}`},
		{"read", `{"file_path":"main.go"}`}, {"edit", `{"file_path":"main.go","old_string":"hi","new_string":"bye"}`},
		{"bash", `{"command":"cat main.go; echo no >&2; exit 3","description":"look at it"}`}, {"bash", `{"command":"printf '\\033[31mred\\033[0m <script>alert(1)</script>'"}`},
		{"bash", `{"command":"kill -9 $$"}`}, {"bash", `{"command":"true","sandbox_permissions":{"network":"full"},"justification":"to see"}`},
		{"list", `{}`}, {"glob", `{"pattern":"*.go"}`}, {"grep", `{"pattern":"bye"}`}, {"grep", `{"pattern":"main","output":"count"}`},
		{"read", `{"file_path":"none"}`}, {"write", `{"file_path":"/etc/none","content":"x"}`}, {"edit", `{"file_path":"main.go"}`}, {"nosuch", `{}`},
		{"bash", `{"command":"sleep 300","run_in_background":true}`}, {"job_list", `{}`}, {"job_kill", `{"job_id":"bash-1","reason":"enough"}`},
	} {
		r := s.Scope.Call(t.Context(), pipeline.Request{ID: fmt.Sprint(i + 1), Name: c[0], Args: []byte(c[1])})
		cards = append(cards, elsewhere(pipeline.MarshalCard(r.Card()).String()))
	}
	rec.Preset("workspace-write", "read-only", "a person", nil)
	rec.Note("roots", "the client's root /home/me/other is not the workspace")
	s.EndJobs()
	rec.End("all calls have ended")
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(temporary)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(elsewhere(string(text))), 0o644),
		os.WriteFile(strings.TrimSuffix(path, ".log")+".cards", []byte(strings.Join(cards, "\n")+"\n"), 0o644)); err != nil {
		t.Fatal(err)
	}
}

// Whatever an older version kept, or somebody changed, there is a card; where
// the data of a success can't be read, the generic one.
func TestCards_OfMalformedRecords(t *testing.T) {
	needsMeta := map[string]bool{"bash": true, "read": true, "write": true, "edit": true, "list": true, "glob": true, "grep": true}
	valid := map[string]string{"bash": `{"command":"x"}`, "read": `{"file_path":"a"}`, "write": `{"file_path":"a","content":"b"}`, "edit": `{"file_path":"a","old_string":"a","new_string":"b"}`,
		"list": `{}`, "glob": `{"pattern":"a"}`, "grep": `{"pattern":"a"}`}
	metas := []string{``, `null`, `7`, `"x"`, `[]`, `{"path":7}`, `{"unknown":1}`, `{"hunks":{}}`, `{"paths":[1]}`, `{"cwd":[]}`}
	for _, tool := range definitions(t) {
		for _, meta := range metas {
			var m pipeline.JSON
			if meta != "" {
				m, _ = pipeline.ParseJSON([]byte(meta))
			}
			args, _ := pipeline.ParseJSON([]byte(valid[tool.Name()]))
			for _, args := range []pipeline.JSON{args, {}} {
				card := pipeline.MarshalCard(pipeline.Present(tool, tool.Name(), args, pipeline.Shown{Meta: m}))
				if kind := kindOf(t, card); needsMeta[tool.Name()] && kind != "generic" {
					t.Errorf("%s with meta %s: %s", tool.Name(), meta, card)
				}
			}
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		tool := rapid.SampledFrom(definitions(t)).Draw(rt, "tool")
		args, err := pipeline.ParseJSON([]byte(drawArgs(rt, tool)))
		if err != nil {
			rt.Fatal(err)
		}
		text := `{"content":` + rapid.SampledFrom([]string{`[]`, `null`, `[{"type":"text"}]`, `[{"type":"image","data":"eA=="}]`, `[{"type":"video"}]`}).Draw(rt, "content")
		if rapid.Bool().Draw(rt, "failed") {
			text += `,"error":` + rapid.SampledFrom([]string{`{"code":"X"}`, `{"code":"ABORTED","message":"m","details":{"partial":{"stdout":7}}}`, `{"message":"","details":[]}`}).Draw(rt, "error")
		}
		if meta := rapid.SampledFrom(metas).Draw(rt, "meta"); meta != "" {
			text += `,"meta":` + meta
		}
		j, err := pipeline.ParseJSON([]byte(text + `}`))
		if err != nil {
			rt.Fatal(err)
		}
		var s pipeline.Shown
		if err := j.Decode(&s); err != nil {
			rt.Fatalf("%v: %s", err, j)
		}
		kindOf(t, pipeline.MarshalCard(pipeline.Present(tool, tool.Name(), args, s)))
		if got := pipeline.MarshalCard(pipeline.Present(nil, "gone", args, s)).String(); got != `{"card":"generic","title":"gone","kind":"other","locations":[]}` {
			rt.Errorf("of a tool that is gone: %s", got)
		}
	})
}

// kindOf is a card's kind. A card without one, or with null where clients want
// a list or a text, is a failure.
func kindOf(t *testing.T, card pipeline.JSON) string {
	t.Helper()
	var c struct {
		Card  string
		Title *string
	}
	if err := json.Unmarshal([]byte(card.String()), &c); err != nil || c.Card == "" {
		t.Fatalf("%s: %v", card, err)
	}
	for _, list := range []string{"locations", "diffs", "hunks", "lines", "files", "matches"} {
		if strings.Contains(card.String(), `"`+list+`":null`) {
			t.Errorf("%s is null in %s", list, card)
		}
	}
	return c.Card
}

// drawArgs are arguments with the right names and any values, or others.
func drawArgs(rt *rapid.T, tool *pipeline.Tool) string {
	values := []any{nil, true, -1, 0, 1 << 40, 0.5, "", "a.go", "é\x00\x1b[31m", strings.Repeat("x", 300), []any{}, []any{1}, []any{"bash-1"}, map[string]any{},
		[]any{map[string]any{"old_string": "a", "new_string": "b"}}, map[string]any{"preset": "danger-full-access"}}
	args := map[string]any{}
	for _, p := range tool.Parameters().Properties {
		if rapid.Bool().Draw(rt, p.Name) {
			args[p.Name] = rapid.SampledFrom(values).Draw(rt, "value")
		}
	}
	if rapid.IntRange(0, 4).Draw(rt, "old") == 0 {
		args["old_name"] = 1
	}
	j, err := json.Marshal(args)
	if err != nil {
		rt.Fatal(err)
	}
	return string(j)
}
