package pipeline

import "testing"

func TestViolation_SaysWhere(t *testing.T) {
	type leaf struct {
		N     int    `json:"n"`
		Short string `json:"short,omitzero" schema:"max=3"`
		Any   string `json:"any,omitzero"`
	}
	type tree struct {
		Leaf  leaf            `json:"leaf"`
		Rows  [][]leaf        `json:"rows,omitzero"`
		Named map[string]leaf `json:"named,omitzero"`
	}
	s, err := SchemaOf[tree](false)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ json, path string }{
		{`{"leaf":{"n":1},"rows":[[{"n":1}],[]],"named":{"a":{"n":1}}}`, "-"},
		{`{"l\u0065af":{"n":1}}`, "-"}, // the same name, escaped
		{`[]`, ""},
		{`{}`, "leaf"},
		{`{"leaf":1}`, "leaf"},
		{`{"leaf":{}}`, "leaf.n"},
		{`{"leaf":{"n":1,"m":2}}`, "leaf.m"},
		{`{"leaf":{"n":1,"":2}}`, "leaf."},
		{`{"leaf":{"n":1,"q\"\u0041":2}}`, `leaf.q"A`},
		{`{"leaf":{"n":1,"short":"four"}}`, "leaf.short"},
		{`{"leaf":{"n":1,"any":4}}`, "leaf.any"},
		{`{"leaf":{"n":1},"rows":[[],[{"n":1},{"n":"x"}]]}`, "rows[1][1].n"},
		{`{"leaf":{"n":1},"rows":[[],7]}`, "rows[1]"},
		{`{"leaf":{"n":1},"named":{"a":{"n":1},"b\n":{"n":true}}}`, "named.b\n.n"},
		{`{"leaf":{"n":1},"named":{"":{"n":true}}}`, "named..n"},
	} {
		v, err := ParseJSON([]byte(c.json))
		if err != nil {
			t.Fatal(err)
		}
		got := "-"
		if bad := s.Validate(v); bad != nil {
			got = bad.Path
		}
		if got != c.path {
			t.Errorf("%s: a violation at %q, not %q", c.json, got, c.path)
		}
	}
}
