package pipeline

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Schema says which JSON values are valid. It is the part of JSON Schema that
// arguments and values of tools need, and that every client understands: no
// references, and no union at the root.
//
// A Schema is not to be changed once a tool has it.
type Schema struct {
	// Types are the JSON types that are valid: "object", "array", "string",
	// "integer", "number", "boolean", "null". An integer is written without
	// fraction and exponent and fits into 64 bits.
	Types       []string
	Description string

	Properties []Property // of an object, in the order in which they are shown
	Additional *Schema    // of an object's other members; nil: there may be none

	Items              *Schema // of an array
	MinItems, MaxItems *int

	Enum                 []string // of a string
	MinLength, MaxLength *int     // of a string, in code points

	Minimum, Maximum *float64 // of a number, inclusive

	Default JSON // what a missing property means; said, not enforced
}

// Property is one member of an object.
type Property struct {
	Name     string
	Schema   *Schema
	Required bool
	// Unless names another property that stands in for a required one. The
	// JSON Schema doesn't say so: a union is beyond many clients, and what it
	// says stays valid.
	Unless string
}

var allTypes = []string{"object", "array", "string", "integer", "number", "boolean", "null"}

// maxProperties bounds what one object may name.
const maxProperties = 64

// AnyValue is the schema of every JSON value.
func AnyValue() *Schema {
	any := &Schema{Types: []string{"object", "array", "string", "number", "boolean", "null"}}
	any.Additional, any.Items = any, any
	return any
}

func (s *Schema) allows(typ string) bool {
	return slices.Contains(s.Types, typ) || typ == "integer" && slices.Contains(s.Types, "number")
}

// IsAny reports the schema of every JSON value, which contains itself.
func (s *Schema) IsAny() bool { return s.Items == s }

// MarshalJSON writes the schema as JSON Schema, always in the same order.
func (s *Schema) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	err := s.write(jsontext.NewEncoder(&b))
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

func (s *Schema) write(e *jsontext.Encoder) error {
	// The encoder keeps its first error, but for those that a caller can make:
	// a text that is no UTF-8.
	var first error
	put := func(tokens ...jsontext.Token) {
		for _, t := range tokens {
			if err := e.WriteToken(t); err != nil && first == nil {
				first = err
			}
		}
	}
	strs := func(name string, list []string) {
		put(jsontext.String(name), jsontext.BeginArray)
		for _, v := range list {
			put(jsontext.String(v))
		}
		put(jsontext.EndArray)
	}
	sub := func(name string, s *Schema) {
		put(jsontext.String(name))
		if err := s.write(e); err != nil && first == nil {
			first = err
		}
	}
	put(jsontext.BeginObject)
	if len(s.Types) == 1 {
		put(jsontext.String("type"), jsontext.String(s.Types[0]))
	} else {
		strs("type", s.Types)
	}
	if s.Description != "" {
		put(jsontext.String("description"), jsontext.String(s.Description))
	}
	if s.IsAny() {
		// Clients want arrays to say what is in them.
		put(jsontext.String("items"), jsontext.BeginObject, jsontext.EndObject)
		put(jsontext.EndObject)
		return first
	}
	if s.allows("object") {
		put(jsontext.String("properties"), jsontext.BeginObject)
		var required []string
		for _, p := range s.Properties {
			sub(p.Name, p.Schema)
			if p.Required {
				required = append(required, p.Name)
			}
		}
		put(jsontext.EndObject)
		if required != nil {
			strs("required", required)
		}
		if s.Additional != nil {
			sub("additionalProperties", s.Additional)
		} else {
			put(jsontext.String("additionalProperties"), jsontext.False)
		}
	}
	if s.allows("array") && s.Items != nil {
		sub("items", s.Items)
	}
	for _, n := range [...]struct {
		name string
		v    *int
	}{{"minItems", s.MinItems}, {"maxItems", s.MaxItems}, {"minLength", s.MinLength}, {"maxLength", s.MaxLength}} {
		if n.v != nil {
			put(jsontext.String(n.name), jsontext.Int(int64(*n.v)))
		}
	}
	for _, n := range [...]struct {
		name string
		v    *float64
	}{{"minimum", s.Minimum}, {"maximum", s.Maximum}} {
		if n.v != nil {
			put(jsontext.String(n.name), jsontext.Float(*n.v))
		}
	}
	if s.Enum != nil {
		strs("enum", s.Enum)
	}
	if !s.Default.IsZero() {
		put(jsontext.String("default"))
		if err := e.WriteValue(jsontext.Value(s.Default.text)); err != nil && first == nil {
			first = err
		}
	}
	put(jsontext.EndObject)
	return first
}

// check finds what can't be in the schema of a tool.
func (s *Schema) check(at string, root bool) error {
	if s == nil {
		return fmt.Errorf("schema%s is missing", at)
	}
	if s.IsAny() && !root {
		return nil
	}
	if len(s.Types) == 0 {
		return fmt.Errorf("schema%s has no type", at)
	}
	for _, t := range s.Types {
		if !slices.Contains(allTypes, t) {
			return fmt.Errorf("schema%s has the unknown type %q", at, t)
		}
	}
	if root && (len(s.Types) != 1 || s.Types[0] != "object") {
		return fmt.Errorf("schema%s must be of type object alone", at)
	}
	if s.allows("array") && s.Items == nil {
		return fmt.Errorf("schema%s is an array without items", at)
	}
	if len(s.Properties) > maxProperties {
		return fmt.Errorf("schema%s has more than %d properties", at, maxProperties)
	}
	seen := map[string]bool{}
	for _, p := range s.Properties {
		if p.Name == "" || !utf8.ValidString(p.Name) || seen[p.Name] {
			return fmt.Errorf("schema%s has the property %q twice, or it is no name", at, p.Name)
		}
		seen[p.Name] = true
		if err := p.Schema.check(at+"."+p.Name, false); err != nil {
			return err
		}
	}
	for _, sub := range [...]*Schema{s.Items, s.Additional} {
		if sub != nil {
			if err := sub.check(at+"[]", false); err != nil {
				return err
			}
		}
	}
	return nil
}

// Violation is what makes a value invalid.
type Violation struct {
	Path     string `json:"path"`     // such as edits[1].old_string; "" for the value itself
	Expected string `json:"expected"` // such as "an integer from 1 to 2000"
	Got      string `json:"got"`      // what stands there instead
	// Nearest are known names close to an unknown one.
	Nearest []string `json:"nearest,omitempty"`
}

// Error is the violation in one sentence.
func (v *Violation) Error() string {
	path := v.Path
	if path == "" {
		path = "the value"
	}
	s := path + " must be " + v.Expected + ", not " + v.Got
	if v.Got == unknownName {
		s = "there is no " + path + ", only " + strings.TrimPrefix(v.Expected, "one of ")
	}
	if len(v.Nearest) > 0 {
		s += "; did you mean " + strings.Join(v.Nearest, " or ") + "?"
	}
	return s
}

// unknownName is Violation.Got of a property that a schema doesn't have.
const unknownName = "an unknown name"

// Validate returns the first violation in the order of the text, or nil.
func (s *Schema) Validate(value JSON) *Violation {
	c := check{d: jsontext.NewDecoder(bytes.NewBuffer([]byte(value.text)))}
	v, err := s.validate(&c)
	if v != nil {
		v.Path = c.path()
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return &Violation{Expected: "JSON", Got: "something else"}
	}
	return v
}

// A check is of one value. Where in it something is wrong is written down on the
// way back from there: where nothing is, that would be in vain.
type check struct {
	d    *jsontext.Decoder
	from []step // innermost first
}

// A step leads to a member, or to an item.
type step struct {
	name  string
	item  bool
	index int
}

// at writes down a step on the way to a violation.
func (c *check) at(s step) { c.from = append(c.from, s) }

// path is the way to where a check has found something.
func (c *check) path() string {
	var path string
	for _, s := range slices.Backward(c.from) {
		switch {
		case s.item:
			path += "[" + strconv.Itoa(s.index) + "]"
		case path == "":
			path = s.name
		default:
			path += "." + s.name
		}
	}
	return path
}

// validate finds what is wrong, and leaves to c where that is.
func (s *Schema) validate(c *check) (*Violation, error) {
	d := c.d
	if s.IsAny() {
		return nil, d.SkipValue()
	}
	wrong := func(got string) (*Violation, error) {
		return &Violation{Expected: s.expected(), Got: got}, nil
	}
	kind := d.PeekKind()
	switch kind {
	case '{':
		if !s.allows("object") {
			return wrong("an object")
		}
		return s.validateObject(c)
	case '[':
		if !s.allows("array") {
			return wrong("an array")
		}
		return s.validateArray(c)
	case '"':
		if s.allows("string") && s.Enum == nil && s.MinLength == nil && s.MaxLength == nil {
			return nil, d.SkipValue() // whatever it says
		}
	}
	tok, err := d.ReadToken()
	if err != nil {
		return nil, err
	}
	switch kind {
	case 'n':
		if !s.allows("null") {
			return wrong("null")
		}
	case 't', 'f':
		if !s.allows("boolean") {
			return wrong(tok.String())
		}
	case '"':
		text := tok.String()
		if !s.allows("string") {
			return wrong("the string " + clip(text))
		}
		n := utf8.RuneCountInString(text)
		if s.Enum != nil && !slices.Contains(s.Enum, text) || s.MinLength != nil && n < *s.MinLength || s.MaxLength != nil && n > *s.MaxLength {
			return wrong(clip(text))
		}
	case '0':
		text := tok.String()
		if !s.allows("integer") {
			return wrong(clip(text))
		}
		n := 0.0
		if s.allows("number") {
			if n, err = strconv.ParseFloat(text, 64); err != nil || rounded(text, n) {
				return wrong(clip(text))
			}
		} else {
			// Digits alone: 1e3 and 1.0 are numbers that a reader may round.
			i, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return wrong(clip(text))
			}
			n = float64(i)
		}
		if s.Minimum != nil && n < *s.Minimum || s.Maximum != nil && n > *s.Maximum {
			return wrong(clip(text))
		}
	}
	return nil, nil
}

// rounded reports an integer that a float64 has no room for.
func rounded(text string, n float64) bool {
	if math.Abs(n) < 1<<53 || strings.ContainsAny(text, ".eE") {
		return false // exact, or written with a fraction or an exponent
	}
	// As the shortest text of a float64, or as its exact value.
	return text != strconv.FormatFloat(n, 'f', -1, 64) && text != strconv.FormatFloat(n, 'f', 0, 64)
}

func clip(s string) string {
	const most = 60
	if len(s) > most {
		cut := most
		for !utf8.RuneStart(s[cut]) {
			cut--
		}
		return strconv.Quote(s[:cut]) + "…"
	}
	return strconv.Quote(s)
}

func (s *Schema) validateObject(c *check) (*Violation, error) {
	d := c.d
	if _, err := d.ReadToken(); err != nil {
		return nil, err
	}
	var seen [maxProperties]bool
	for d.PeekKind() != '}' {
		quoted, err := d.ReadValue()
		if err != nil {
			return nil, err
		}
		i := s.property(quoted)
		sub, name := s.Additional, ""
		if i >= 0 {
			sub, name = s.Properties[i].Schema, s.Properties[i].Name
			seen[i] = true
		} else {
			name = unquoted(quoted)
		}
		if sub == nil {
			names := make([]string, len(s.Properties))
			for i, p := range s.Properties {
				names[i] = p.Name
			}
			c.at(step{name: name})
			return &Violation{Expected: "one of " + strings.Join(names, ", "), Got: unknownName, Nearest: nearest(name, names)}, nil
		}
		if v, err := sub.validate(c); v != nil || err != nil {
			c.at(step{name: name})
			return v, err
		}
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, err
	}
	for i, p := range s.Properties {
		if p.Required && !seen[i] {
			if at := slices.IndexFunc(s.Properties, func(o Property) bool { return o.Name == p.Unless }); at >= 0 && seen[at] {
				continue
			}
			c.at(step{name: p.Name})
			return &Violation{Expected: p.Schema.expected(), Got: "missing"}, nil
		}
	}
	return nil, nil
}

// property is the index of the property of a name that is a JSON string, or -1.
func (s *Schema) property(quoted jsontext.Value) int {
	if bytes.IndexByte(quoted, '\\') >= 0 {
		name := unquoted(quoted)
		return slices.IndexFunc(s.Properties, func(p Property) bool { return p.Name == name })
	}
	name := quoted[1 : len(quoted)-1]
	return slices.IndexFunc(s.Properties, func(p Property) bool { return p.Name == string(name) })
}

// unquoted is the text of a JSON string that was read.
func unquoted(quoted jsontext.Value) string {
	b, _ := jsontext.AppendUnquote(nil, quoted) // it is valid
	return string(b)
}

func (s *Schema) validateArray(c *check) (*Violation, error) {
	d := c.d
	if _, err := d.ReadToken(); err != nil {
		return nil, err
	}
	n := 0
	for ; d.PeekKind() != ']'; n++ {
		if v, err := s.Items.validate(c); v != nil || err != nil {
			c.at(step{item: true, index: n})
			return v, err
		}
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, err
	}
	if s.MinItems != nil && n < *s.MinItems || s.MaxItems != nil && n > *s.MaxItems {
		return &Violation{Expected: s.expected(), Got: strconv.Itoa(n) + " items"}, nil
	}
	return nil, nil
}

// expected describes what is valid, for a message.
func (s *Schema) expected() string {
	var parts []string
	for _, t := range s.Types {
		switch t {
		case "object":
			parts = append(parts, "an object")
		case "array":
			parts = append(parts, "an array"+span(" of ", s.MinItems, s.MaxItems, " items"))
		case "string":
			if s.Enum != nil {
				parts = append(parts, "one of "+strings.Join(s.Enum, ", "))
				continue
			}
			if s.MinLength != nil && *s.MinLength == 1 && s.MaxLength == nil {
				parts = append(parts, "a string that is not empty")
				continue
			}
			parts = append(parts, "a string"+span(" of ", s.MinLength, s.MaxLength, " characters"))
		case "integer":
			parts = append(parts, "an integer in plain digits"+s.bounds())
		case "number":
			parts = append(parts, "a number"+s.bounds())
		case "boolean":
			parts = append(parts, "true or false")
		case "null":
			parts = append(parts, "null")
		}
	}
	return strings.Join(parts, " or ")
}

func span(before string, low, high *int, after string) string {
	switch {
	case low != nil && high != nil:
		return before + strconv.Itoa(*low) + " to " + strconv.Itoa(*high) + after
	case low != nil:
		return before + "at least " + strconv.Itoa(*low) + after
	case high != nil:
		return before + "at most " + strconv.Itoa(*high) + after
	}
	return ""
}

func (s *Schema) bounds() string {
	num := func(f *float64) string { return strconv.FormatFloat(*f, 'f', -1, 64) }
	switch {
	case s.Minimum != nil && s.Maximum != nil:
		return " from " + num(s.Minimum) + " to " + num(s.Maximum)
	case s.Minimum != nil:
		return " of at least " + num(s.Minimum)
	case s.Maximum != nil:
		return " of at most " + num(s.Maximum)
	}
	return ""
}

// Schemer is a type that gives its own schema instead of the inferred one.
type Schemer interface{ Schema() *Schema }

var (
	schemerType = reflect.TypeFor[Schemer]()
	jsonType    = reflect.TypeFor[JSON]()
	timeType    = reflect.TypeFor[time.Time]()
)

// SchemaOf infers the schema of a Go type.
//
// Struct fields have the name of their json tag and are required unless it
// says omitempty or omitzero. A doc tag is the description. A schema tag has
// rules, separated by commas: min=N, max=N (a number's value, a string's
// length, an array's items), enum=a|b. A default tag is the default, as JSON.
// An unless tag names the field that may be given instead of a required one.
//
// A pointer is a value that may be null; in arguments, where null means
// nothing that a missing property does not, it is one that may be missing.
func SchemaOf[T any](arguments bool) (*Schema, error) {
	return infer(reflect.TypeFor[T](), arguments, nil)
}

func infer(t reflect.Type, args bool, above []reflect.Type) (*Schema, error) {
	if slices.Contains(above, t) {
		return nil, fmt.Errorf("type %v contains itself", t)
	}
	above = append(above, t)
	if t.Implements(schemerType) && t.Kind() != reflect.Pointer {
		return reflect.Zero(t).Interface().(Schemer).Schema(), nil
	}
	switch {
	case t == jsonType:
		return AnyValue(), nil
	case t.Kind() == reflect.Interface && args:
		return nil, fmt.Errorf("type %v: numbers would lose digits in it; use pipeline.JSON", t)
	case t.Kind() == reflect.Interface:
		return AnyValue(), nil
	case t == timeType:
		return &Schema{Types: []string{"string"}}, nil
	}
	one := func(typ string) *Schema { return &Schema{Types: []string{typ}} }
	switch t.Kind() {
	case reflect.Pointer:
		s, err := infer(t.Elem(), args, above)
		if err != nil || args || s.IsAny() {
			return s, err
		}
		s.Types = append(slices.Clone(s.Types), "null")
		return s, nil
	case reflect.String:
		return one("string"), nil
	case reflect.Bool:
		return one("boolean"), nil
	case reflect.Int, reflect.Int64:
		return one("integer"), nil
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Uint8, reflect.Uint16, reflect.Uint32:
		s := one("integer")
		low, high := 0.0, math.Exp2(float64(t.Bits()))-1
		if t.Kind() <= reflect.Int64 {
			low, high = -math.Exp2(float64(t.Bits()-1)), math.Exp2(float64(t.Bits()-1))-1
		}
		s.Minimum, s.Maximum = &low, &high
		return s, nil
	case reflect.Float64:
		return one("number"), nil
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return nil, fmt.Errorf("type %v: bytes have no one form in JSON; use a string and name its encoding", t)
		}
		items, err := infer(t.Elem(), args, above)
		s := one("array")
		s.Items = items
		return s, err
	case reflect.Map:
		if t.Key().Kind() != reflect.String {
			return nil, fmt.Errorf("type %v: keys must be strings", t)
		}
		other, err := infer(t.Elem(), args, above)
		s := one("object")
		s.Additional = other
		return s, err
	case reflect.Struct:
		s := one("object")
		return s, inferFields(s, t, args, above)
	}
	return nil, fmt.Errorf("type %v has no JSON schema", t)
}

func inferFields(s *Schema, t reflect.Type, args bool, above []reflect.Type) error {
	for i := range t.NumField() {
		f := t.Field(i)
		tag, tagged := f.Tag.Lookup("json")
		name, options, _ := strings.Cut(tag, ",")
		if f.Anonymous && !tagged {
			inner := f.Type
			if inner.Kind() != reflect.Struct {
				return fmt.Errorf("%v.%s: an embedded type must be a struct", t, f.Name)
			}
			if err := inferFields(s, inner, args, above); err != nil {
				return err
			}
			continue
		}
		if !f.IsExported() || tag == "-" {
			continue
		}
		if name == "" {
			return fmt.Errorf("%v.%s has no name in a json tag", t, f.Name)
		}
		sub, err := infer(f.Type, args, above)
		if err != nil {
			return fmt.Errorf("%v.%s: %w", t, f.Name, err)
		}
		if err := refine(sub, f); err != nil {
			return fmt.Errorf("%v.%s: %w", t, f.Name, err)
		}
		optional := slices.ContainsFunc(strings.Split(options, ","), func(o string) bool { return o == "omitempty" || o == "omitzero" })
		if args && f.Type.Kind() == reflect.Pointer {
			optional = true
		}
		s.Properties = append(s.Properties, Property{Name: name, Schema: sub, Required: !optional, Unless: f.Tag.Get("unless")})
	}
	return nil
}

// refine applies a field's tags.
func refine(s *Schema, f reflect.StructField) error {
	if doc := f.Tag.Get("doc"); doc != "" {
		s.Description = doc
	}
	if def, ok := f.Tag.Lookup("default"); ok {
		v, err := ParseJSON([]byte(def))
		if err != nil {
			return fmt.Errorf("default %s: %w", def, err)
		}
		if bad := s.Validate(v); bad != nil {
			return fmt.Errorf("default %s: %w", def, bad)
		}
		s.Default = v
	}
	for rule := range strings.SplitSeq(f.Tag.Get("schema"), ",") {
		if rule == "" {
			continue
		}
		key, val, _ := strings.Cut(rule, "=")
		if key == "enum" && s.allows("string") {
			s.Enum = strings.Split(val, "|")
			continue
		}
		n, err := strconv.Atoi(val)
		if err != nil {
			return fmt.Errorf("rule %q: %w", rule, err)
		}
		number := float64(n)
		switch {
		case key == "min" && s.allows("integer"):
			s.Minimum = &number
		case key == "max" && s.allows("integer"):
			s.Maximum = &number
		case key == "min" && s.allows("string"):
			s.MinLength = &n
		case key == "max" && s.allows("string"):
			s.MaxLength = &n
		case key == "min" && s.allows("array"):
			s.MinItems = &n
		case key == "max" && s.allows("array"):
			s.MaxItems = &n
		default:
			return fmt.Errorf("rule %q means nothing here", rule)
		}
	}
	return nil
}
