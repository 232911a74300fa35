package wire

import (
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
