package toolset

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dshx/dshx/pipeline"
	"github.com/dshx/dshx/sandboxpolicy"
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
		done := pipeline.MarshalCard(m.tool.PresentResult(j, m.r))
		kindOf(t, done)
		if again := pipeline.MarshalCard(m.tool.PresentCall(j)); again != pending {
			rt.Errorf("%s %s: %s, then %s", m.tool.Name(), args, pending, again)
		}
		if again := pipeline.MarshalCard(m.tool.PresentResult(j, m.r)); again != done {
			rt.Errorf("%s %s: %s, then %s", m.tool.Name(), args, done, again)
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
