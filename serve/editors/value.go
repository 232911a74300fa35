package editors

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// A value is a piece of configuration before it has a syntax: text, number,
// boolean, list, object or expression.
type value any

type (
	text    string
	number  int
	boolean bool
	list    []value
	object  []field
	// expression is source text of the client's own language (Lua).
	expression string
)

// A field is a key of an object; its place is kept. Keys are the table's own
// and plain words in every syntax.
type field struct {
	key   string
	value value
}

// Syntax is the language of a client's configuration; it is also what a
// Markdown code block calls it.
type Syntax string

// The syntaxes of the clients in the table.
const (
	JSON  Syntax = "json"
	TOML  Syntax = "toml"
	YAML  Syntax = "yaml"
	Lua   Syntax = "lua"
	Elisp Syntax = "elisp"
)

// render writes v as a whole document, or, within the client's frame, as what
// stands between before and after. It ends with a newline.
func (s Syntax) render(v value, before, after string) string {
	var w strings.Builder
	w.WriteString(before)
	// What is framed goes on where the frame's last line ends.
	indent := len(before) - strings.LastIndexByte(before, '\n') - 1
	switch s {
	case JSON:
		writeJSON(&w, v, 0)
	case TOML:
		writeTOML(&w, nil, v.(object))
		return w.String()
	case YAML:
		writeYAML(&w, v, 0)
		return strings.TrimPrefix(w.String(), "\n") + "\n"
	case Lua:
		writeLua(&w, v, 0)
	case Elisp:
		writeElisp(&w, v, indent)
	}
	w.WriteString(after)
	w.WriteString("\n")
	return w.String()
}

func writeJSON(w *strings.Builder, v value, depth int) {
	switch v := v.(type) {
	case text:
		w.WriteString(quote(string(v), jsonEscape))
	case number:
		w.WriteString(strconv.Itoa(int(v)))
	case boolean:
		w.WriteString(strconv.FormatBool(bool(v)))
	case list:
		w.WriteString("[")
		for i, item := range v {
			if i > 0 {
				w.WriteString(", ")
			}
			writeJSON(w, item, depth)
		}
		w.WriteString("]")
	case object:
		w.WriteString("{")
		for i, f := range v {
			if i > 0 {
				w.WriteString(",")
			}
			newline(w, 2*(depth+1))
			w.WriteString(quote(f.key, jsonEscape) + ": ")
			writeJSON(w, f.value, depth+1)
		}
		newline(w, 2*depth)
		w.WriteString("}")
	default:
		panic(fmt.Sprintf("editors: %T has no form in JSON", v))
	}
}

// writeTOML writes an object's own values, then each object in it as a table.
func writeTOML(w *strings.Builder, path []string, o object) {
	header := false
	for _, f := range o {
		if _, ok := f.value.(object); ok {
			continue
		}
		if len(path) > 0 && !header {
			w.WriteString("[" + strings.Join(path, ".") + "]\n")
			header = true
		}
		// Scalars and lists of scalars are in TOML what they are in JSON, but for
		// DEL, which no value here holds, and escapes, which are the same ones.
		w.WriteString(f.key + " = ")
		writeJSON(w, f.value, 0)
		w.WriteString("\n")
	}
	for _, f := range o {
		if sub, ok := f.value.(object); ok {
			writeTOML(w, append(path[:len(path):len(path)], f.key), sub)
		}
	}
}

// writeYAML writes block collections of double-quoted scalars: what YAML makes
// of plain ones (no, 1.0, ~) depends on their text.
func writeYAML(w *strings.Builder, v value, indent int) {
	switch v := v.(type) {
	case text:
		w.WriteString(" " + quote(string(v), yamlEscape))
	case list:
		for _, item := range v {
			newline(w, indent)
			w.WriteString("-")
			if o, ok := item.(object); ok {
				// The first key stands on the line of the dash.
				var inner strings.Builder
				writeYAML(&inner, o, indent+2)
				w.WriteString(" " + strings.TrimLeft(inner.String(), "\n "))
				continue
			}
			writeYAML(w, item, indent+2)
		}
	case object:
		for _, f := range v {
			newline(w, indent)
			w.WriteString(f.key + ":")
			writeYAML(w, f.value, indent+2)
		}
	default:
		w.WriteString(" ")
		writeJSON(w, v, 0)
	}
}

func writeLua(w *strings.Builder, v value, depth int) {
	switch v := v.(type) {
	case text:
		w.WriteString(quote(string(v), shortEscape))
	case expression:
		w.WriteString(string(v))
	case list:
		w.WriteString("{ ")
		for i, item := range v {
			if i > 0 {
				w.WriteString(", ")
			}
			writeLua(w, item, depth)
		}
		w.WriteString(" }")
	case object:
		w.WriteString("{")
		for _, f := range v {
			newline(w, 2*(depth+1))
			w.WriteString(f.key + " = ")
			writeLua(w, f.value, depth+1)
			w.WriteString(",")
		}
		newline(w, 2*depth)
		w.WriteString("}")
	default:
		writeJSON(w, v, depth)
	}
}

// writeElisp writes objects as property lists and lists as lists, all of it
// data: it stands behind a quote.
func writeElisp(w *strings.Builder, v value, indent int) {
	switch v := v.(type) {
	case text:
		w.WriteString(quote(string(v), shortEscape))
	case list:
		w.WriteString("(")
		for i, item := range v {
			if i > 0 {
				w.WriteString(" ")
			}
			writeElisp(w, item, indent)
		}
		w.WriteString(")")
	case object:
		w.WriteString("(")
		for i, f := range v {
			if i > 0 {
				newline(w, indent+1)
			}
			w.WriteString(":" + f.key + " ")
			writeElisp(w, f.value, indent+1)
		}
		w.WriteString(")")
	case boolean:
		panic("editors: a boolean in Emacs Lisp is t or nil, and no client needs one")
	default:
		writeJSON(w, v, 0)
	}
}

func newline(w *strings.Builder, indent int) {
	w.WriteString("\n" + strings.Repeat(" ", indent))
}

// quote puts s into double quotes. Every syntax here knows \" and \\ in them;
// escape gives what else a rune needs, "" for nothing. s holds no control
// characters and no invalid UTF-8, see plainText.
func quote(s string, escape func(rune) string) string {
	var w strings.Builder
	w.WriteByte('"')
	for _, r := range s {
		if r == '"' || r == '\\' {
			w.WriteByte('\\')
			w.WriteRune(r)
		} else if e := escape(r); e != "" {
			w.WriteString(e)
		} else {
			w.WriteRune(r)
		}
	}
	w.WriteByte('"')
	return w.String()
}

// jsonEscape escapes what JSON may hold and JavaScript's own parsers once
// stumbled over.
func jsonEscape(r rune) string {
	if r == '\u2028' || r == '\u2029' {
		return fmt.Sprintf(`\u%04X`, r)
	}
	return ""
}

// yamlEscape escapes what is not printable in the sense of YAML 1.2, 5.1
// (surrogates and control characters are not in the text), and what a reader
// may take for a line break or a byte order mark.
func yamlEscape(r rune) string {
	switch {
	case r == '\u2028' || r == '\u2029' || r == '\uFEFF' || r == '\uFFFE' || r == '\uFFFF':
		return fmt.Sprintf(`\u%04X`, r)
	case r > 0xFFFF && unicode.Is(unicode.Noncharacter_Code_Point, r):
		return fmt.Sprintf(`\U%08X`, r)
	}
	return ""
}

// shortEscape is for Lua and Emacs Lisp, which take the rest as it is.
func shortEscape(rune) string { return "" }
