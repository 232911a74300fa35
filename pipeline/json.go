package pipeline

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// MaxDepth is how deeply arrays and objects may be nested in arguments.
const MaxDepth = 512

// JSON is one JSON value as text: immutable, with the digits of numbers and
// the order of members as they were written, without white space between
// tokens. The zero value is no value at all.
type JSON struct{ text string }

// String is the JSON text; "" for no value.
func (j JSON) String() string { return j.text }

// IsZero reports whether there is no value.
func (j JSON) IsZero() bool { return j.text == "" }

// MarshalJSON writes the value as it is, null where there is none.
func (j JSON) MarshalJSON() ([]byte, error) {
	if j.text == "" {
		return []byte("null"), nil
	}
	return []byte(j.text), nil
}

// UnmarshalJSON materialises data.
func (j *JSON) UnmarshalJSON(data []byte) (err error) {
	*j, err = ParseJSON(data)
	return err
}

// Decode stores the value in what into points to. Unknown members of structs
// are errors.
func (j JSON) Decode(into any) error {
	return json.Unmarshal([]byte(j.text), into, json.RejectUnknownMembers(true))
}

// ErrDepth is the error of a value that is nested deeper than MaxDepth.
var ErrDepth = errors.New("nested too deeply")

// ParseJSON materialises one value. Duplicate member names, invalid UTF-8,
// unpaired surrogates in escapes, anything after the value and more than
// MaxDepth levels are errors: what two readers could read in two ways never
// gets into the pipeline.
func ParseJSON(data []byte) (JSON, error) {
	dec := jsontext.NewDecoder(bytes.NewBuffer(data)) // a Buffer is read in place
	for {
		tok, err := dec.ReadToken()
		if err == io.EOF {
			return JSON{}, errors.New("there is no JSON value")
		}
		if err != nil {
			return JSON{}, problem(err)
		}
		if dec.StackDepth() > MaxDepth {
			return JSON{}, fmt.Errorf("%w: more than %d levels", ErrDepth, MaxDepth)
		}
		_ = tok
		if dec.StackDepth() == 0 {
			break
		}
	}
	if _, err := dec.ReadToken(); err != io.EOF {
		if err != nil {
			return JSON{}, problem(err)
		}
		return JSON{}, errors.New("something follows the JSON value")
	}
	v := jsontext.Value(bytes.Clone(data))
	if err := v.Compact(); err != nil {
		return JSON{}, problem(err)
	}
	return JSON{string(v)}, nil
}

// problem is the cause in an error of the decoder, with the place but without
// the package's name.
func problem(err error) error {
	var syn *jsontext.SyntacticError
	if !errors.As(err, &syn) {
		return err
	}
	if errors.Is(syn.Err, io.ErrUnexpectedEOF) {
		return errors.New("the JSON value is cut off")
	}
	return fmt.Errorf("%w at byte %d", syn.Err, syn.ByteOffset)
}

// MarshalValue makes the JSON of a Go value: nil slices and maps are empty
// ones, and strings that are not UTF-8 are an error, since no replacement
// character can be told from a real one.
func MarshalValue(v any) (JSON, error) {
	if j, ok := v.(JSON); ok {
		return j, nil
	}
	data, err := json.Marshal(v, json.Deterministic(true), jsontext.PreserveRawStrings(true))
	if err != nil {
		return JSON{}, err
	}
	return JSON{string(data)}, nil
}

// withoutMember is an object without one of its members, no value where nothing
// is left; and anything else as it is.
func withoutMember(j JSON, name string) JSON {
	if j.text == "" || j.text[0] != '{' {
		return j
	}
	dec := jsontext.NewDecoder(strings.NewReader(j.text))
	var out []byte
	found := false
	for _, _ = dec.ReadToken(); dec.PeekKind() == '"'; {
		key, err := dec.ReadToken()
		if err != nil {
			return j
		}
		member := key.String()
		value, err := dec.ReadValue()
		if err != nil {
			return j
		}
		if member == name {
			found = true
			continue
		}
		out = append(out, ',')
		out, _ = jsontext.AppendQuote(out, member) // it was read, so it is UTF-8
		out = append(append(out, ':'), value...)
	}
	switch {
	case !found:
		return j
	case len(out) == 0:
		return JSON{}
	}
	out[0] = '{'
	return JSON{string(out) + "}"}
}
