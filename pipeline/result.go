package pipeline

import (
	"slices"
)

// Result is how a call ended: a value or a failure, never both, with content
// for a model and data for presentation. It is frozen: whoever has it can't
// change what others see.
type Result struct {
	id      string
	name    string
	args    JSON
	tool    *Tool // nil for a call that reached none
	value   JSON
	failure *Error
	content []Content
	meta    JSON
}

// ID is the id of the call.
func (r Result) ID() string { return r.id }

// Name is the name that was called.
func (r Result) Name() string { return r.name }

// Args are the arguments; zero where they were no lossless JSON.
func (r Result) Args() JSON { return r.args }

// OK reports success.
func (r Result) OK() bool { return r.failure == nil }

// Value is the canonical value of a success; zero for a failure.
func (r Result) Value() JSON { return r.value }

// Failure is the error of a failure; nil for a success.
func (r Result) Failure() *Error {
	if r.failure == nil {
		return nil
	}
	e := *r.failure
	return &e
}

// Content is what a model reads.
func (r Result) Content() []Content { return slices.Clone(r.content) }

// Meta is what presentation needs beyond the content; zero where there is none.
func (r Result) Meta() JSON { return r.meta }

// Shown is what presentation gets of the result: all of it that is kept.
func (r Result) Shown() Shown {
	return Shown{Failure: r.failure.kept(), Content: r.Content(), Meta: r.meta}
}

// Card is what an interface for people shows of the call now that it has ended.
func (r Result) Card() Card { return Present(r.tool, r.name, r.args, r.Shown()) }

// MarshalJSON gives ok, value or error, content and meta, as the JSON-lines
// protocol has them.
func (r Result) MarshalJSON() ([]byte, error) {
	content := r.content
	if content == nil {
		content = []Content{}
	}
	var v any
	if r.OK() {
		v = struct {
			OK      bool      `json:"ok"`
			Value   JSON      `json:"value"`
			Content []Content `json:"content"`
			Meta    JSON      `json:"meta,omitzero"`
		}{true, r.value, content, r.meta}
	} else {
		v = struct {
			OK      bool      `json:"ok"`
			Error   *Error    `json:"error"`
			Content []Content `json:"content"`
			Meta    JSON      `json:"meta,omitzero"`
		}{false, r.failure, content, r.meta}
	}
	j, err := MarshalValue(v)
	return []byte(j.text), err
}
