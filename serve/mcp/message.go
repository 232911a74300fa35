package mcp

import (
	"bytes"
	"errors"
	"io"
	"strconv"

	"github.com/dshx/dshx/pipeline"
	"github.com/dshx/dshx/serve/internal/wire"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// null is the id of a reply to what has none that can be told.
const null = "null"

// message is one decoded line: a request, a notification (without an id), or
// the answer to a request of ours (without a method). Its values are parts of
// the line and valid as long as it is.
type message struct {
	id     string // as it was written; "" without one
	method string

	params jsontext.Value // nil without any
	// Of params that are an object: what is in them but the arguments, and the
	// arguments.
	rest, args jsontext.Value
	token      jsontext.Value // _meta.progressToken

	result, err jsontext.Value // of an answer
}

// fault is the answer to what is no message, or can't be taken.
type fault struct {
	id   string // a JSON value
	code int
	text string
	data []byte // JSON, nil for none
}

func parseError(line []byte, err error) *fault {
	return &fault{id: requestID(line), code: jsonrpc.CodeParseError, text: "parse error: " + err.Error()}
}

// tooLong is for a message of which line is the beginning.
func tooLong(line []byte, max int) *fault {
	return &fault{id: requestID(line), code: jsonrpc.CodeParseError, text: "parse error: the message is longer than " + strconv.Itoa(max) + " bytes"}
}

func invalid(text string) *fault {
	return &fault{id: null, code: jsonrpc.CodeInvalidRequest, text: "invalid request: " + text}
}

// errKind stops the reading of an object where there is none.
var errKind = errors.New("not an object")

// members reads an object and hands over its members, each with its whole
// value. The decoder refuses duplicate names and what is no UTF-8, in the values
// too.
func members(dec *jsontext.Decoder, member func(name string) error) error {
	if dec.PeekKind() != '{' {
		return errKind
	}
	if _, err := dec.ReadToken(); err != nil {
		return err
	}
	for {
		name, err := dec.ReadToken()
		if err != nil {
			return err
		}
		if name.Kind() == '}' {
			return nil
		}
		if err := member(name.String()); err != nil {
			return err
		}
	}
}

// value reads a value and returns its place in the line.
func value(line []byte, dec *jsontext.Decoder) (jsontext.Value, error) {
	v, err := dec.ReadValue()
	if err != nil {
		return nil, err
	}
	end := int(dec.InputOffset())
	return line[end-len(v) : end : end], nil
}

// decode reads a line.
func decode(line []byte) (m message, bad *fault) {
	dec := jsontext.NewDecoder(bytes.NewBuffer(line)) // a Buffer is read in place
	var version, id, method jsontext.Value
	err := members(dec, func(name string) (err error) {
		var to *jsontext.Value
		switch name {
		case "jsonrpc":
			to = &version
		case "id":
			to = &id
		case "method":
			to = &method
		case "result":
			to = &m.result
		case "error":
			to = &m.err
		case "params":
			return m.decodeParams(line, dec)
		default:
			return dec.SkipValue()
		}
		*to, err = value(line, dec)
		return err
	})
	if err == nil {
		if _, err = dec.ReadToken(); err == nil {
			err = errors.New("something follows the JSON value")
		} else if err == io.EOF {
			err = nil
		}
	}
	if err != nil {
		// What is wrong with JSON is said in one way everywhere.
		if _, wrong := pipeline.ParseJSON(line); wrong != nil {
			return m, parseError(line, wrong)
		}
		if err == errKind {
			return m, invalid("a message is a JSON object")
		}
		return m, parseError(line, err)
	}
	if string(version) != `"2.0"` {
		return m, invalid(`"jsonrpc" must be "2.0"`)
	}
	if id != nil {
		switch id.Kind() {
		case '"', '0':
			m.id = string(id)
		case 'n':
			if method == nil && m.err != nil {
				break // of a message of ours that was not understood
			}
			fallthrough
		default:
			return m, invalid("an id is a string or a number, not " + wire.Kind(id))
		}
	}
	switch {
	case method != nil:
		if method.Kind() != '"' {
			return m, invalid("a method is a string, not " + wire.Kind(method))
		}
		if m.result != nil || m.err != nil {
			return m, invalid("a message with a method has no result and no error")
		}
		if m.params != nil && m.rest == nil {
			return m, &fault{id: idOr(m.id), code: jsonrpc.CodeInvalidParams, text: "invalid params: params must be an object, not " + wire.Kind(m.params)}
		}
		m.method = text(method)
	case m.result == nil && m.err == nil:
		return m, invalid("a message has a method, a result or an error")
	}
	return m, nil
}

// decodeParams takes the arguments out of the params.
func (m *message) decodeParams(line []byte, dec *jsontext.Decoder) (err error) {
	if dec.PeekKind() != '{' {
		m.params, err = value(line, dec)
		return err
	}
	begin := int(dec.InputOffset()) // of the name; a colon and white space are between
	begin += bytes.IndexByte(line[begin:], '{')
	cut, from := -1, -1
	err = members(dec, func(name string) (err error) {
		switch name {
		case "arguments":
			m.args, err = value(line, dec)
			cut, from = int(dec.InputOffset())-len(m.args), int(dec.InputOffset())
		case "_meta":
			var meta jsontext.Value
			if meta, err = value(line, dec); err == nil {
				m.token = member(meta, "progressToken")
			}
		default:
			err = dec.SkipValue()
		}
		return err
	})
	if err != nil {
		return err
	}
	end := int(dec.InputOffset())
	m.params = line[begin:end:end]
	m.rest = m.params
	if cut >= 0 {
		m.rest = slices3(line[begin:cut], []byte("null"), line[from:end])
	}
	return nil
}

func slices3(a, b, c []byte) []byte {
	return append(append(append(make([]byte, 0, len(a)+len(b)+len(c)), a...), b...), c...)
}

// member is a member of a valid object; nil without one, and of what is no object.
func member(object jsontext.Value, name string) (found jsontext.Value) {
	dec := jsontext.NewDecoder(bytes.NewBuffer(object))
	_ = members(dec, func(n string) (err error) {
		if n != name {
			return dec.SkipValue()
		}
		found, err = value(object, dec)
		return err
	})
	return found
}

// text is a JSON string's.
func text(v jsontext.Value) string {
	b, err := jsontext.AppendUnquote(nil, v)
	if err != nil {
		return ""
	}
	return string(b)
}

func idOr(id string) string {
	if id == "" {
		return null
	}
	return id
}

// requestID is the id of what is broken but was meant as a request, so that its
// sender needn't wait for a reply; else null. An answer's id is none of the
// sender's: it names a request of ours.
func requestID(line []byte) string {
	id, method := wire.Salvage(line, "id"), wire.Salvage(line, "method")
	if method.Kind() != '"' || id.Kind() != '"' && id.Kind() != '0' || !id.IsValid() {
		return null
	}
	return string(id)
}
