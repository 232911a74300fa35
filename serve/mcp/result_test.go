package mcp

import (
	"strings"
	"testing"

	"github.com/dshx/dshx/pipeline"
)

// One function makes the results of tools/call.
func TestEncode_Golden(t *testing.T) {
	parse := func(s string) pipeline.JSON {
		j, err := pipeline.ParseJSON([]byte(s))
		if err != nil {
			t.Fatal(err)
		}
		return j
	}
	code := 1
	var b strings.Builder
	for _, o := range []outcome{
		{value: parse(`{"n":9007199254740993,"x":1.0,"html":"<&>","list":[],"sep":"\u2028"}`), content: []pipeline.Content{pipeline.Text("<&>\u2028\x1b[0m\n"), pipeline.Image([]byte{1, 2, 3}, "image/png")},
			card: pipeline.TerminalCard{Title: "make", Cwd: "/w", Output: "o\n", ExitCode: &code}},
		{value: parse(`{}`), card: pipeline.GenericCard{Title: "t", Kind: pipeline.KindOther, Locations: []pipeline.Location{}}, jobs: []pipeline.JSON{parse(`{"jobId":"bash-1"}`), parse(`{"jobId":"bash-2"}`)}},
		{failure: pipeline.Fail("FS_STALE", "it changed: <b>", map[string]string{"changed": "-a\n+b\n"}), content: []pipeline.Content{pipeline.Text("it changed: <b>")},
			card: pipeline.GenericCard{Title: "t", Kind: pipeline.KindEdit, Locations: []pipeline.Location{{Path: "a", Line: 3}}}},
		{failure: pipeline.Failf("INTERNAL", "no UTF-8: \xff"), content: []pipeline.Content{pipeline.Text("\xff")}, card: pipeline.GenericCard{}},
		{failure: pipeline.Failf("INTERNAL", "no card")},
	} {
		b.WriteString(encode(o) + "\n")
	}
	b.WriteString(encodeFailure(strings.Repeat("long", 100), pipeline.Failf("CANCELLED", "before it began")) + "\n")
	for line := range strings.Lines(b.String()) {
		parse(line)
	}
	golden(t, "results.golden", b.String())
}

func TestEncodeTools_Golden(t *testing.T) {
	golden(t, "tools.golden", encodeTools(testTools(t))+"\n")
}
