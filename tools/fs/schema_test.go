package fs

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dshx/dshx/pipeline"
)

var update = flag.Bool("update", false, "write the goldens")

func mustJSON(t testing.TB, text string) pipeline.JSON {
	t.Helper()
	j, err := pipeline.ParseJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func marshalCard(c pipeline.Card) string { return pipeline.MarshalCard(c).String() }

// What models and programs are told of the tools changes on purpose only.
func TestSchemas_Golden(t *testing.T) {
	tools, err := Tools(Options{Domains: inScopes{}})
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range tools {
		whole := struct {
			Title, Description string
			Hints              pipeline.Hints
			Parameters, Output *pipeline.Schema
		}{tool.Title(), tool.Description(), tool.Hints(), tool.Parameters(), tool.Output()}
		j, err := pipeline.MarshalValue(whole)
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := json.Indent(&b, []byte(j.String()), "", "  "); err != nil {
			t.Fatal(err)
		}
		b.WriteByte('\n')
		golden := filepath.Join("testdata", tool.Name()+".golden")
		if *update {
			if err := os.MkdirAll("testdata", 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(golden, b.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(b.Bytes(), want) {
			t.Errorf("%s changed; run go test ./tools/fs -update if it should have\n%s", golden, b.Bytes())
		}
		if strings.Contains(tool.Description(), "\n\n\n") || len(tool.Description()) > 1500 {
			t.Errorf("%s: description of %d bytes", tool.Name(), len(tool.Description()))
		}
	}
}

func TestRegister(t *testing.T) {
	if _, err := Tools(Options{}); err == nil {
		t.Error("tools without a sandbox")
	}
	s := pipeline.New(pipeline.Options{})
	undo, err := Register(s, Options{Domains: inScopes{}})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{"read": true, "list": true, "glob": true, "grep": true, "write": false, "edit": false}
	args := map[string]string{"read": `{"file_path":"a"}`, "glob": `{"pattern":"a"}`, "grep": `{"pattern":"a"}`, "list": `{}`,
		"write": `{"file_path":"a","content":""}`, "edit": `{"file_path":"a","old_string":"a","new_string":"b"}`}
	for _, tool := range s.Tools() {
		if got := tool.ConcurrencySafe(mustJSON(t, args[tool.Name()])); got != want[tool.Name()] {
			t.Errorf("%s may run beside others: %v", tool.Name(), got)
		}
		delete(want, tool.Name())
	}
	if len(want) > 0 {
		t.Errorf("not registered: %v", want)
	}
	undo()
	if len(s.Tools()) > 0 {
		t.Error("not taken away")
	}
}

func TestCards(t *testing.T) {
	r := newRig(t, map[string]string{"a.go": "one\ntwo\n", "dir/b": ""}, nil)
	for _, tc := range []struct {
		tool, args    string
		pending, done string // what their JSON begins with
		has           []string
	}{
		{"read", `{"file_path":"a.go","offset":2}`, `{"card":"generic","title":"Read a.go","kind":"read","locations":[{"path":"a.go","line":2}]}`,
			`{"card":"read","path":"a.go","offset":2,"lines":["two"],"totalLines":2,"lang":"go"}`, nil},
		{"read", `{"file_path":"none"}`, `{"card":"generic","title":"Read none"`, `{"card":"generic","title":"Read none"`, nil},
		{"read", `{"file_path":"dir"}`, `{"card":"generic"`, `{"card":"search","shape":"paths","truncated":false,"total":1,"files":[{"path":"dir/b","matches":[]}]}`, nil},
		{"edit", `{"file_path":"a.go","old_string":"two","new_string":"2"}`,
			`{"card":"diff","title":"Edit a.go","diffs":[{"path":"a.go","oldText":"two","newText":"2","hunks":[]}],"locations":[{"path":"a.go"}]}`,
			`{"card":"diff","title":"Edit a.go","diffs":[{"path":"a.go","oldText":"two","newText":"2","hunks":[{"oldStart":1,`, []string{`"-two","+2"`, `"line":1`}},
		{"write", `{"file_path":"new","content":"x\n"}`, `{"card":"diff","title":"Write new","diffs":[{"path":"new","oldText":null,"newText":"x\n","hunks":[]}]`,
			`{"card":"diff","title":"Write new","diffs":[{"path":"new","oldText":null,"newText":"x\n","hunks":[{`, []string{`"+x"`}},
		{"write", `{"file_path":"a.go","content":"x\n"}`, `{"card":"diff"`, `{"card":"diff","title":"Write a.go","diffs":[{"path":"a.go","oldText":"one\n2\n","newText":"x\n"`, nil},
		{"list", `{}`, `{"card":"generic","title":"List .","kind":"read"`, `{"card":"search","shape":"paths","truncated":false,"total":3`, nil},
		{"glob", `{"pattern":"*.go"}`, `{"card":"generic","title":"Find *.go","kind":"search"`, `{"card":"search","shape":"paths","truncated":false,"total":1,"files":[{"path":"a.go","matches":[]}]}`, nil},
		{"grep", `{"pattern":"x"}`, `{"card":"generic","title":"Search for x","kind":"search"`, `{"card":"search","shape":"matches","truncated":false,"total":2,"files":[{"path":"a.go","matches":[{"line":1,"text":"x"}]}`, nil},
		{"grep", `{"pattern":1}`, `{"card":"generic","title":"Search in files"`, `{"card":"generic","title":"Search in files"`, nil},
		{"edit", `{}`, `{"card":"generic","title":"Edit file"`, `{"card":"generic","title":"Edit file"`, nil},
	} {
		tool := r.scope.Lookup(tc.tool)
		args := mustJSON(t, tc.args)
		if got := marshalCard(tool.PresentCall(args)); !strings.HasPrefix(got, tc.pending) {
			t.Errorf("%s %s: pending\n%s\nwant\n%s", tc.tool, tc.args, got, tc.pending)
		}
		g := r.raw(tc.tool, tc.args)
		got := marshalCard(pipeline.Present(tool, tc.tool, args, g.r.Shown()))
		if !strings.HasPrefix(got, tc.done) {
			t.Errorf("%s %s: done\n%s\nwant\n%s", tc.tool, tc.args, got, tc.done)
		}
		for _, s := range tc.has {
			if !strings.Contains(got, s) {
				t.Errorf("%s %s: no %s in\n%s", tc.tool, tc.args, s, got)
			}
		}
	}
}
