package jsonl

import (
	"errors"
	"fmt"

	"github.com/dshx/dshx/pipeline"
	"github.com/dshx/dshx/serve/internal/wire"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// null is the id of a call that has none.
const null = "null"

// request is one decoded line; exactly one of the pointers and tool is set.
type request struct {
	id        string // as it was written: a JSON string, number, or null
	tool      string
	arguments []byte
	stream    bool

	cancel  *string // an id as it was written
	reason  string
	approve *string
	outcome string
	ping    *string // any JSON value
}

// decode reads a line. With an error it returns the id as far as there is one.
func decode(line []byte) (request, error) {
	value, err := pipeline.ParseJSON(line)
	if err != nil {
		return request{id: findID(line)}, err
	}
	if value.String()[0] != '{' {
		return request{id: null}, errors.New("a request is a JSON object")
	}
	var w struct {
		ID        jsontext.Value `json:"id"`
		Tool      jsontext.Value `json:"tool"`
		Arguments jsontext.Value `json:"arguments"`
		Stream    jsontext.Value `json:"stream"`
		Cancel    jsontext.Value `json:"cancel"`
		Reason    jsontext.Value `json:"reason"`
		Approve   jsontext.Value `json:"approve"`
		Outcome   jsontext.Value `json:"outcome"`
		Ping      jsontext.Value `json:"ping"`
	}
	if err := json.Unmarshal([]byte(value.String()), &w); err != nil {
		return request{id: null}, err
	}
	r := request{id: null}
	if w.ID != nil {
		if !isID(w.ID) {
			return r, fmt.Errorf("id must be a string or a number, not %s", wire.Kind(w.ID))
		}
		r.id = string(w.ID)
	}
	given := 0
	for _, v := range []jsontext.Value{w.Tool, w.Cancel, w.Approve, w.Ping} {
		if v != nil {
			given++
		}
	}
	if given != 1 {
		return r, errors.New("a request has one of tool, cancel, approve and ping")
	}
	text := func(name string, v jsontext.Value, to *string) error {
		if v == nil {
			return nil
		}
		if v.Kind() != '"' {
			return fmt.Errorf("%s must be a string, not %s", name, wire.Kind(v))
		}
		return json.Unmarshal(v, to)
	}
	switch {
	case w.Tool != nil:
		if err := text("tool", w.Tool, &r.tool); err != nil {
			return r, err
		}
		if w.Stream != nil {
			if k := w.Stream.Kind(); k != 't' && k != 'f' {
				return r, fmt.Errorf("stream must be true or false, not %s", wire.Kind(w.Stream))
			}
			r.stream = w.Stream.Kind() == 't'
		}
		r.arguments = w.Arguments
	case w.Cancel != nil:
		if !isID(w.Cancel) || w.Cancel.Kind() == 'n' {
			return r, fmt.Errorf("cancel must be the id of a call, not %s", wire.Kind(w.Cancel))
		}
		id := string(w.Cancel)
		r.cancel = &id
		return r, text("reason", w.Reason, &r.reason)
	case w.Approve != nil:
		r.approve = new(string)
		if err := text("approve", w.Approve, r.approve); err != nil {
			return r, err
		}
		// Whatever isn't one of the outcomes ends the question.
		_ = text("outcome", w.Outcome, &r.outcome)
	default:
		v := string(w.Ping)
		r.ping = &v
	}
	return r, nil
}

func isID(v jsontext.Value) bool {
	k := v.Kind()
	return k == '"' || k == '0' || k == 'n'
}

// findID is the id in what is no request, or null: the member of the outermost
// object, as far as it can be read.
func findID(line []byte) string {
	v := wire.Salvage(line, "id")
	if v == nil || !isID(v) {
		return null
	}
	// It must be valid by itself, to be sent back.
	if j, err := pipeline.ParseJSON(v); err == nil {
		return j.String()
	}
	return null
}
