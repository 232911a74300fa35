package mcp

import (
	"strings"

	"github.com/dshx/dshx/pipeline"
)

// outcome is what a reply to tools/call is made of.
type outcome struct {
	value   pipeline.JSON // zero for a failure
	failure *pipeline.Error
	content []pipeline.Content
	card    pipeline.Card
	jobs    []pipeline.JSON // that have ended since the result before
}

// encode is a CallToolResult: the canonical value as structuredContent, what a
// model reads as content, the card, the failure and ended jobs in _meta. A
// failure has no structuredContent, since it would have to fit the schema.
//
// Values go in as they are, byte for byte.
func encode(o outcome) string {
	var b strings.Builder
	size := len(o.value.String()) + 1024
	for _, c := range o.content {
		size += 2 * len(c.Text()) // escaped
	}
	b.Grow(size)
	b.WriteString(`{"content":[`)
	for i, c := range o.content {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(mustJSON(c))
	}
	b.WriteByte(']')
	if !o.value.IsZero() {
		b.WriteString(`,"structuredContent":`)
		b.WriteString(o.value.String())
	}
	if o.failure != nil {
		b.WriteString(`,"isError":true`)
	}
	b.WriteString(`,"_meta":{"dshx/card":`)
	b.WriteString(pipeline.MarshalCard(o.card).String())
	if o.failure != nil {
		b.WriteString(`,"dshx/error":`)
		b.WriteString(mustJSON(o.failure))
	}
	if len(o.jobs) > 0 {
		b.WriteString(`,"dshx/job":`)
		b.WriteString(mustJSON(o.jobs))
	}
	b.WriteString("}}")
	return b.String()
}

// encodeResult is the reply to a call that the pipeline made.
func encodeResult(r pipeline.Result, jobs []pipeline.JSON) string {
	return encode(outcome{r.Value(), r.Failure(), r.Content(), r.Card(), jobs})
}

// encodeFailure is the reply to a call that never got there.
func encodeFailure(name string, e *pipeline.Error) string {
	return encode(outcome{failure: e, content: []pipeline.Content{pipeline.Text(e.Message)},
		card: pipeline.GenericCard{Title: clip(name), Kind: pipeline.KindOther, Locations: []pipeline.Location{}}})
}

// mustJSON is v as JSON; v is of this module's own making. What isn't UTF-8 in
// it all the same, of a tool that didn't take care, costs its text alone.
func mustJSON(v any) string {
	if e, ok := v.(*pipeline.Error); ok && e != nil {
		clean := *e
		clean.Message = strings.ToValidUTF8(e.Message, "\uFFFD")
		v = &clean
	}
	j, err := pipeline.MarshalValue(v)
	if err != nil {
		j, _ = pipeline.MarshalValue(pipeline.Failf(pipeline.CodeInternal, "it can't be written as JSON"))
	}
	return j.String()
}

// described is a tool as tools/list has it.
type described struct {
	Name         string           `json:"name"`
	Title        string           `json:"title"`
	Description  string           `json:"description"`
	InputSchema  *pipeline.Schema `json:"inputSchema"`
	OutputSchema *pipeline.Schema `json:"outputSchema"`
	Annotations  annotations      `json:"annotations"`
}

// annotations are a tool's hints. Protocols before 2025-06-18 have the title here.
type annotations struct {
	Title           string `json:"title"`
	ReadOnlyHint    bool   `json:"readOnlyHint"`
	DestructiveHint bool   `json:"destructiveHint"`
	IdempotentHint  bool   `json:"idempotentHint"`
	OpenWorldHint   bool   `json:"openWorldHint"`
}

// encodeTools is a ListToolsResult.
func encodeTools(tools []*pipeline.Tool) string {
	list := make([]described, len(tools))
	for i, t := range tools {
		h := t.Hints()
		list[i] = described{t.Name(), t.Title(), t.Description(), t.Parameters(), t.Output(),
			annotations{t.Title(), h.ReadOnly, h.Destructive, h.Idempotent, h.OpenWorld}}
	}
	return mustJSON(struct {
		Tools []described `json:"tools"`
	}{list})
}

// clip is the beginning of a text that may be of any length.
func clip(s string) string {
	if len(s) <= 100 {
		return s
	}
	return strings.ToValidUTF8(s[:100], "") + "…"
}
