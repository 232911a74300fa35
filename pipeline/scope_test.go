package pipeline

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

func named1(t testing.TB, name, says string) *Tool {
	t.Helper()
	s := echoSpec()
	s.Name, s.Description = name, says
	return defineT(t, s)
}

func names(s *Scope) string {
	var out []string
	for _, t := range s.Tools() {
		out = append(out, t.Name()+"="+t.Description())
	}
	return strings.Join(out, " ")
}

func TestScope_ShadowingRestrictionUndo(t *testing.T) {
	root := newScope(t, named1(t, "a", "root"), named1(t, "b", "root"), named1(t, "c", "root"))
	child := root.Child("child")
	grand := child.Child("grand")
	changes := 0
	grand.OnChange(func() { changes++ })
	check := func(want string) {
		t.Helper()
		if got := names(grand); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		// Listing, lookup and dispatch agree.
		for _, n := range []string{"a", "b", "c", "d"} {
			listed := strings.Contains(" "+want, " "+n+"=")
			if found := grand.Lookup(n) != nil; found != listed {
				t.Errorf("%s: listed %t, found %t", n, listed, found)
			}
			if r := call(grand, n, `{"text":"x"}`); r.OK() != listed {
				t.Errorf("%s: listed %t, dispatched %t", n, listed, r.OK())
			}
		}
	}
	check("a=root b=root c=root")
	undo, err := child.Register(named1(t, "a", "child"), named1(t, "d", "child"))
	if err != nil {
		t.Fatal(err)
	}
	check("a=child b=root c=root d=child")
	free := grand.Restrict(Restriction{Allow: []string{"a", "b", "d"}})
	check("a=child b=root d=child")
	// Restrictions intersect, and leave a scope's own alone.
	more := child.Restrict(Restriction{Deny: []string{"b", "d"}})
	check("a=child d=child")
	own, _ := grand.Register(named1(t, "c", "grand"))
	check("a=child c=grand d=child")
	own()
	own() // once is enough
	// A hidden tool uncovers nothing that it shadows.
	hide := grand.Restrict(Restriction{Deny: []string{"a"}})
	check("d=child")
	hide()
	more()
	free()
	undo()
	check("a=root b=root c=root")
	if changes != 10 {
		t.Errorf("told of %d changes", changes)
	}
	if _, err := root.Register(named1(t, "x", "y"), named1(t, "a", "again")); err == nil || root.Lookup("x") != nil {
		t.Error("half of a registration was made")
	}
	child.Close()
	if r := call(grand, "a", `{"text":"x"}`); r.OK() {
		t.Error("a call in a scope that has ended")
	}
	if _, err := grand.Register(named1(t, "z", "y")); !errors.Is(err, ErrScopeClosed) {
		t.Errorf("registered in a scope that has ended: %v", err)
	}
	wantCode(t, call(root, "a", `{"text":"x"}`), "")
}

func TestScope_PoliciesEndWithTheirUndo(t *testing.T) {
	s := newScope(t, named1(t, "a", "x"))
	undo := s.Guard("g", func(*Call) (string, bool) { return "no", true })
	wantCode(t, call(s, "a", `{"text":"x"}`), CodeDenied)
	// Inner scopes are under it, too.
	wantCode(t, call(s.Child("c"), "a", `{"text":"x"}`), CodeDenied)
	undo()
	wantCode(t, call(s, "a", `{"text":"x"}`), "")
}

// What a scope adds to calls is for calls made in it and in those inside it, not
// for its siblings' and not for those around it.
func TestScope_PoliciesAreItsOwn(t *testing.T) {
	for name, attach := range map[string]func(s *Scope, seen func()) (undo func()){
		"pre-execute": func(s *Scope, seen func()) func() {
			return s.PreExecute("x", func(_ context.Context, _ *Call, next func() Decision) Decision { seen(); return next() })
		},
		"guard": func(s *Scope, seen func()) func() {
			return s.Guard("x", func(*Call) (string, bool) { seen(); return "", false })
		},
		"wrapper": func(s *Scope, seen func()) func() {
			return s.Wrap("x", func(ctx context.Context, _ *Call, next Body) Outcome { seen(); return next(ctx) })
		},
		"post-execute": func(s *Scope, seen func()) func() {
			return s.PostExecute("x", func(context.Context, *Call, Result) PostDecision { seen(); return Accept{} })
		},
		"observer": func(s *Scope, seen func()) func() { return s.Observe("x", func(*Call, Result) { seen() }) },
	} {
		root := newScope(t, named1(t, "a", "x"))
		child, sibling := root.Child("child"), root.Child("sibling")
		grand := child.Child("grand")
		n := 0
		undo := attach(child, func() { n++ })
		for _, tt := range []struct {
			s    *Scope
			want int
		}{{root, 0}, {sibling, 0}, {child, 1}, {grand, 1}} {
			n = 0
			wantCode(t, call(tt.s, "a", `{"text":"x"}`), "")
			if n != tt.want {
				t.Errorf("%s: %d times for a call in %q, want %d", name, n, tt.s.Name(), tt.want)
			}
		}
		undo()
		undo() // once is enough
		n = 0
		wantCode(t, call(grand, "a", `{"text":"x"}`), "")
		if n != 0 {
			t.Errorf("%s: still there", name)
		}
	}
}

// The form of names, at its bounds.
func TestDefine_Names(t *testing.T) {
	for name, ok := range map[string]bool{
		"a": true, "z9_": true, "a" + strings.Repeat("b", 63): true, "run_codes": true,
		"": false, "A": false, "9a": false, "_a": false, "a-b": false, "a.b": false, "a b": false, "é": false, "aB": false, "a\n": false,
		"a" + strings.Repeat("b", 64): false, ReservedName: false,
	} {
		s := echoSpec()
		s.Name = name
		if _, err := Define(s); (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// A model sees the name, the description and the parameters, and nothing else
// of all that a tool has.
func TestDeclare_LeaksNothing(t *testing.T) {
	s := echoSpec()
	s.Title, s.Hints, s.Timeout, s.DeferLoading, s.Parallel = "HIDDEN", Hints{ReadOnly: true}, time.Hour, true, true
	s.Meta = func(echoArgs, echoValue) any { return "HIDDEN" }
	tool := defineT(t, s)
	if !tool.DeferLoading() || tool.Title() != "HIDDEN" || tool.Timeout() != time.Hour || !tool.Hints().ReadOnly || tool.Parallel() != "always" {
		t.Errorf("the control: %+v", tool)
	}
	j, err := MarshalValue(tool.Declare())
	if err != nil {
		t.Fatal(err)
	}
	var members map[string]JSON
	if err := j.Decode(&members); err != nil || len(members) != 3 || members["name"].String() != `"echo"` || members["description"].String() != `"says it again"` ||
		members["parameters"].IsZero() || strings.Contains(j.String(), "HIDDEN") {
		t.Errorf("%s, %v", j, err)
	}
}

func TestDefine_Refuses(t *testing.T) {
	type noName struct{ X int }
	type loop struct {
		Next []loop `json:"next"`
	}
	for name, f := range map[string]func() error{
		"name":         func() error { s := echoSpec(); s.Name = "Echo"; _, err := Define(s); return err },
		"reserved":     func() error { s := echoSpec(); s.Name = ReservedName; _, err := Define(s); return err },
		"not reserved": func() error { _, err := DefineReserved(echoSpec()); return err },
		"no body":      func() error { s := echoSpec(); s.Execute = nil; _, err := Define(s); return err },
		"no json tag":  func() error { _, err := SchemaOf[noName](true); return err },
		"loop":         func() error { _, err := SchemaOf[loop](true); return err },
		"bytes": func() error {
			_, err := SchemaOf[struct {
				B []byte `json:"b"`
			}](true)
			return err
		},
		"union at the root": func() error {
			s := echoSpec()
			s.Output = &Schema{Types: []string{"object", "null"}}
			_, err := Define(s)
			return err
		},
		"array without items": func() error {
			s := echoSpec()
			s.Output = &Schema{Types: []string{"object"}, Properties: []Property{{Name: "a", Schema: &Schema{Types: []string{"array"}}, Required: true}}}
			_, err := Define(s)
			return err
		},
		"default of another type": func() error {
			_, err := SchemaOf[struct {
				A int `json:"a,omitzero" default:"\"x\""`
			}](true)
			return err
		},
	} {
		if f() == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if d, _ := MarshalValue(named1(t, "a", "x").Declare()); !strings.HasPrefix(d.String(), `{"name":"a","description":"x","parameters":{"type":"object","properties":{"text":{"type":"string","description":"what to say","minLength":1}`) {
		t.Errorf("%s", d)
	}
}

func TestPresentation_IsTotal(t *testing.T) {
	s := echoSpec()
	s.Title = "Echo"
	s.PresentCall = func(a echoArgs) Card {
		if a.Text == "panic" {
			panic("x")
		}
		if a.Text == "read" {
			return ReadCard{Path: "x"}
		}
		return TerminalCard{Title: a.Text}
	}
	s.PresentResult = func(a echoArgs, _ Shown) Card { return ReadCard{Path: a.Text, Lines: []string{}} }
	tool := defineT(t, s)
	for args, want := range map[string]string{
		`{"text":"a"}`:        `{"card":"terminal","title":"a","cwd":"","output":"","exitCode":null,"signal":null}`,
		`{"text":"panic"}`:    `{"card":"generic","title":"Echo","kind":"other","locations":[]}`,
		`{"text":"read"}`:     `{"card":"generic","title":"Echo","kind":"other","locations":[]}`,
		`{"text":1}`:          `{"card":"generic","title":"Echo","kind":"other","locations":[]}`,
		`{"old_name":"gone"}`: `{"card":"generic","title":"Echo","kind":"other","locations":[]}`,
		`nonsense`:            `{"card":"generic","title":"Echo","kind":"other","locations":[]}`,
	} {
		if got := MarshalCard(tool.PresentCall(JSON{args})).String(); got != want {
			t.Errorf("%s: %s", args, got)
		}
	}
	if got := MarshalCard(Present(tool, tool.Name(), JSON{`{"text":"f"}`}, Shown{})).String(); got != `{"card":"read","path":"f","offset":0,"lines":[],"totalLines":0,"lang":""}` {
		t.Errorf("%s", got)
	}
	for want, card := range map[string]Card{
		`{"card":"search","shape":"matches","truncated":true,"total":2,"files":[{"path":"a","matches":[{"line":1,"text":"x"}]}]}`: SearchCard{Shape: "matches", Truncated: true, Total: 2,
			Files: []SearchFile{{"a", []SearchMatch{{1, "x"}}}}},
		`{"card":"diff","title":"t","diffs":[{"path":"a","oldText":null,"newText":"n","hunks":[]}],"locations":[{"path":"a","line":3}]}`: DiffCard{Title: "t",
			Diffs: []FileDiff{{Path: "a", NewText: "n", Hunks: []Hunk{}}}, Locations: []Location{{"a", 3}}},
		`{"card":"web","kind":"fetch","title":"t","url":"u"}`: WebCard{"fetch", "t", "u"},
		`null`: nil,
	} {
		if got := MarshalCard(card).String(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if got := MarshalCard(ReadCard{Path: "\xff"}).String(); !strings.HasPrefix(got, `{"card":"generic"`) {
		t.Errorf("%s", got)
	}
	if !slices.Equal(nearest("timeout", []string{"command", "timeout_ms"}), []string{"timeout_ms"}) {
		t.Errorf("nearest: %q", nearest("timeout", []string{"command", "timeout_ms"}))
	}
}
