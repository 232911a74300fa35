package wire

import (
	"bytes"
	"io"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Key tells whether two ids, which are JSON strings or numbers as they were
// written, are the same, however a string is written. It is no JSON.
func Key(id string) string {
	if id[0] != '"' {
		return id
	}
	var s string
	if json.Unmarshal([]byte(id), &s) != nil {
		return id
	}
	return `"` + s
}

// Kind is what a JSON value is, for a message.
func Kind(v jsontext.Value) string {
	switch v.Kind() {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a string"
	case '0':
		return "a number"
	case 'n':
		return "null"
	}
	return "true or false"
}

// Salvage is the member of the outermost object in what is no valid JSON, as
// far as it can be read and ends there; nil if not. It may be invalid by itself.
func Salvage(line []byte, name string) jsontext.Value {
	dec := jsontext.NewDecoder(bytes.NewReader(line), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if tok, err := dec.ReadToken(); err != nil || tok.Kind() != '{' {
		return nil
	}
	for {
		n, err := dec.ReadToken()
		if err != nil || n.Kind() != '"' {
			return nil
		}
		if n.String() != name {
			if err := dec.SkipValue(); err != nil {
				return nil
			}
			continue
		}
		v, err := dec.ReadValue()
		if err != nil && err != io.EOF {
			return nil
		}
		// A number whose end isn't seen is the beginning of another.
		if rest := bytes.TrimLeft(line[dec.InputOffset():], " \t\r"); v.Kind() == '0' && (len(rest) == 0 || rest[0] != ',' && rest[0] != '}') {
			return nil
		}
		return v.Clone()
	}
}
