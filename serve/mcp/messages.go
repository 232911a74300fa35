package mcp

import (
	"errors"
	"strconv"
	"strings"

	"github.com/dshx/dshx/pipeline"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// What goes to the SDK and comes from it, whatever brings it.

// request puts a request into the table, and makes what the SDK gets of it. size
// is how long it was. Without an entry and a fault none is taken any more.
func (s *session) request(m message, size int) (*entry, *jsonrpc.Request, *fault) {
	e, bad := s.requests.add(s.ctx, m, size)
	if e == nil {
		return nil, nil, bad
	}
	params := m.params
	if m.method == "tools/call" {
		params = m.rest
	}
	return e, &jsonrpc.Request{ID: e.inward(), Method: m.method, Params: raw(params), Extra: e.extra()}, nil
}

// raw is a copy for the SDK, which keeps it; nil for nothing.
func raw(v jsontext.Value) []byte {
	if v == nil {
		return nil
	}
	return v.Clone()
}

// notification is what the SDK gets of one; nil if it is nobody's.
func (s *session) notification(m message) *jsonrpc.Request {
	params := m.params
	if m.method == "notifications/cancelled" {
		id := member(params, "requestId")
		if k := id.Kind(); k != '"' && k != '0' {
			return nil
		}
		e := s.requests.cancelled(string(id))
		if e == nil {
			return nil // it has been answered, or never was
		}
		e.cancel(pipeline.CancelReason(text(member(params, "reason"))))
		params = jsontext.Value(`{"requestId":` + strconv.FormatInt(e.n, 10) + `}`)
	}
	return &jsonrpc.Request{Method: m.method, Params: raw(params)}
}

// answer is what the client says to a request of ours; nil if it answers none.
func (s *session) answer(m message) *jsonrpc.Response {
	n, err := strconv.ParseFloat(m.id, 64)
	if err != nil || n != float64(int64(n)) {
		s.log.Debug("an answer to nothing that was asked", "id", clip(m.id))
		return nil
	}
	id, _ := jsonrpc.MakeID(n)
	r := &jsonrpc.Response{ID: id, Result: raw(m.result)}
	if m.err != nil {
		code, _ := strconv.Atoi(string(member(m.err, "code")))
		r.Error = &jsonrpc.Error{Code: int64(code), Message: text(member(m.err, "message"))}
	}
	return r
}

// refusal is the reply to what is no message, or can't be taken.
func (s *session) refusal(f *fault) string {
	s.log.Debug("refused a message", "code", f.code, "error", f.text)
	id := f.id
	if s.requests.named(id) {
		id = null
	}
	return f.message(id)
}

// message is the reply to what has an id, which is JSON.
func (f *fault) message(id string) string {
	return errorMessage(id, &jsonrpc.Error{Code: int64(f.code), Message: f.text, Data: f.data})
}

func errorMessage(id string, e *jsonrpc.Error) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"error":` + mustJSON(struct {
		Code    int64          `json:"code"`
		Message string         `json:"message"`
		Data    jsontext.Value `json:"data,omitzero"`
	}{e.Code, strings.ToValidUTF8(e.Message, "\uFFFD"), jsontext.Value(e.Data)}) + "}"
}

// outward is the reply that a response of the SDK's is, and the entry that it
// belongs to: "" if the request was cancelled, no entry if there is none any
// more. end is put behind it. Whoever writes the reply calls done.
func (s *session) outward(r *jsonrpc.Response, end string) (*entry, string) {
	n, _ := r.ID.Raw().(int64)
	e := s.requests.find(n)
	switch {
	case e == nil:
		return nil, ""
	case !s.requests.settle(e):
		return e, ""
	case r.Error != nil:
		return e, errorMessage(e.id, wireError(r.Error)) + end
	}
	result := e.reply
	if result == "" {
		result = string(r.Result)
	}
	var b strings.Builder
	b.Grow(len(e.id) + len(result) + 40)
	b.WriteString(`{"jsonrpc":"2.0","id":`)
	b.WriteString(e.id)
	b.WriteString(`,"result":`)
	b.WriteString(result)
	b.WriteByte('}')
	b.WriteString(end)
	return e, b.String()
}

// wireError gives an error of the SDK the code that belongs to it: it has none
// for requests that come at the wrong time.
func wireError(err error) *jsonrpc.Error {
	e := &jsonrpc.Error{Message: err.Error()}
	var coded *jsonrpc.Error
	if errors.As(err, &coded) {
		e.Code, e.Data = coded.Code, coded.Data
	}
	if e.Code == 0 {
		e.Code = jsonrpc.CodeInvalidRequest
	}
	return e
}
