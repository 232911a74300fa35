// Package tsdecl writes the TypeScript types of tools: for each the type of its
// arguments and of its value, from the schemas that calls are validated by.
package tsdecl

import (
	"strings"

	"github.com/dshx/dshx/pipeline"
)

// Declarations is a module that declares, for tools in the order given,
// interfaces NameArgs and NameOutput, and the maps from tool names to them.
func Declarations(tools []*pipeline.Tool) string {
	var b strings.Builder
	b.WriteString("// The arguments and values of dshx's tools.\n")
	for _, t := range tools {
		name := typeName(t.Name())
		for _, part := range []struct {
			suffix string
			schema *pipeline.Schema
		}{{"Args", t.Parameters()}, {"Output", t.Output()}} {
			b.WriteString("\n")
			if part.suffix == "Args" {
				comment(&b, "", t.Title())
			}
			b.WriteString("export interface " + name + part.suffix + " ")
			object(&b, "", part.schema)
			b.WriteString("\n")
		}
	}
	for _, suffix := range []string{"Args", "Output"} {
		b.WriteString("\nexport interface Tool" + suffix + "Map {\n")
		for _, t := range tools {
			b.WriteString("  " + t.Name() + ": " + typeName(t.Name()) + suffix + ";\n")
		}
		b.WriteString("}\n")
	}
	return b.String()
}

// typeName is job_list as JobList.
func typeName(tool string) string {
	var b strings.Builder
	for _, part := range strings.Split(tool, "_") {
		if part != "" {
			b.WriteString(strings.ToUpper(part[:1]) + part[1:])
		}
	}
	return b.String()
}

func comment(b *strings.Builder, indent, text string) {
	if text == "" {
		return
	}
	text = strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "*/", "*\\/")
	b.WriteString(indent + "/** " + text + " */\n")
}

func object(b *strings.Builder, indent string, s *pipeline.Schema) {
	if len(s.Properties) == 0 {
		if s.Additional != nil {
			b.WriteString("{ [name: string]: ")
			b.WriteString(typeOf(indent, s.Additional))
			b.WriteString(" }")
			return
		}
		b.WriteString("{}")
		return
	}
	b.WriteString("{\n")
	inner := indent + "  "
	for _, p := range s.Properties {
		comment(b, inner, p.Schema.Description)
		b.WriteString(inner + property(p.Name))
		if !p.Required {
			b.WriteString("?")
		}
		b.WriteString(": " + typeOf(inner, p.Schema) + ";\n")
	}
	b.WriteString(indent + "}")
}

// property is a name as a property's: quoted where it is no identifier.
func property(name string) string {
	for i, c := range name {
		if c == '_' || c == '$' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || i > 0 && c >= '0' && c <= '9' {
			continue
		}
		return quote(name)
	}
	return name
}

// quote is a text as a string literal. JSON's are TypeScript's, Go's are not.
func quote(text string) string {
	j, _ := pipeline.MarshalValue(text) // the texts of a schema are UTF-8
	return j.String()
}

func typeOf(indent string, s *pipeline.Schema) string {
	if s.IsAny() {
		return "unknown"
	}
	var parts []string
	for _, t := range s.Types {
		switch t {
		case "string":
			if s.Enum == nil {
				parts = append(parts, "string")
				continue
			}
			for _, v := range s.Enum {
				parts = append(parts, quote(v))
			}
		case "integer", "number":
			parts = append(parts, "number")
		case "boolean", "null":
			parts = append(parts, t)
		case "array":
			item := typeOf(indent, s.Items)
			if strings.Contains(item, " | ") {
				item = "(" + item + ")"
			}
			parts = append(parts, item+"[]")
		case "object":
			var b strings.Builder
			object(&b, indent, s)
			parts = append(parts, b.String())
		}
	}
	return strings.Join(parts, " | ")
}
