package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestCall_StagesInOrder(t *testing.T) {
	var mu sync.Mutex
	var order []string
	note := func(s string) { mu.Lock(); order = append(order, s); mu.Unlock() }
	spec := echoSpec()
	spec.Execute = func(context.Context, echoArgs, *Call) (echoValue, error) {
		note("body")
		return echoValue{Said: "x"}, nil
	}
	spec.Render = func(echoArgs, echoValue) []Content { note("render"); return []Content{Text("x")} }
	spec.FinalizeContent = func(_ *Call, ok bool, c []Content) []Content { note(fmt.Sprint("finalize ", ok)); return c }
	outer := newScope(t, defineT(t, spec))
	inner := outer.Child("inner")
	for _, s := range []*Scope{inner, outer} { // registered the other way round
		n := s.Name()
		s.PreExecute(n, func(_ context.Context, _ *Call, next func() Decision) Decision { note("pre " + n); return next() })
		s.Guard(n, func(*Call) (string, bool) { note("guard " + n); return "", false })
		s.Wrap(n, func(ctx context.Context, _ *Call, next Body) Outcome { note("wrap " + n); return next(ctx) })
		s.PostExecute(n, func(context.Context, *Call, Result) PostDecision { note("post " + n); return Accept{} })
		s.Observe(n, func(*Call, Result) { note("observe " + n) })
	}
	wantCode(t, call(inner, "echo", `{"text":"a"}`), "")
	want := []string{"pre ", "pre inner", "guard ", "guard inner", "wrap ", "wrap inner", "body", "render", "post ", "post inner", "finalize true", "observe ", "observe inner"}
	if !slices.Equal(order, want) {
		t.Errorf("got  %q\nwant %q", order, want)
	}
}

func TestCall_Arguments(t *testing.T) {
	s := newScope(t, defineT(t, echoSpec()))
	for _, tt := range []struct{ args, code, path, in string }{
		{`{"text":"a"}`, "", "", ""},
		{` { "text" : "a" , "times": 10 } `, "", "", ""},
		{``, CodeInvalidArgs, "text", "missing"},
		{`[]`, CodeInvalidArgs, "", "an object"},
		{`{"text":""}`, CodeInvalidArgs, "text", "not empty"},
		{`{"text":"a","times":0}`, CodeInvalidArgs, "times", "from 1 to 10"},
		{`{"text":"a","times":11}`, CodeInvalidArgs, "times", "from 1 to 10"},
		{`{"text":"a","times":"5"}`, CodeInvalidArgs, "times", `the string "5"`},
		{`{"text":"a","times":0.5}`, CodeInvalidArgs, "times", "plain digits"},
		{`{"text":"a","times":1e0}`, CodeInvalidArgs, "times", "plain digits"},
		{`{"text":"a","times":null}`, CodeInvalidArgs, "times", "null"},
		{`{"text":"a","times":99999999999999999999}`, CodeInvalidArgs, "times", "99999999999999999999"},
		{`{"text":"a","time":1}`, CodeInvalidArgs, "time", "did you mean times"},
		{`{"text":"a","text":"b"}`, CodeInvalidArgs, "", "duplicate"},
		{`{"text":"\ud83d"}`, CodeInvalidArgs, "", "surrogate"},
		{"{\"text\":\"\xff\"}", CodeInvalidArgs, "", "UTF-8"},
		{`{"text":"a"`, CodeInvalidArgs, "", "cut off"},
		{`{"text":"a"} {}`, CodeInvalidArgs, "", "follows"},
		{`{"text":` + strings.Repeat("[", 512) + strings.Repeat("]", 512) + `}`, CodeInvalidArgs, "", "nested"},
	} {
		r := call(s, "echo", tt.args)
		wantCode(t, r, tt.code)
		if tt.code == "" {
			continue
		}
		if f := r.Failure(); f != nil && (!strings.Contains(f.Message, tt.in) || !strings.Contains(f.Details.String(), `"path":"`+tt.path+`"`)) {
			t.Errorf("%s: %s, details %s; want %q at %q", tt.args, f.Message, f.Details, tt.in, tt.path)
		}
	}
	r := call(s, "echo", `{"text":"a"}`)
	if got := r.Value().String(); got != `{"said":"a","times":1,"notes":[]}` {
		t.Errorf("value %s", got)
	}
	wantCode(t, call(s, "ecko", `{}`), CodeUnknownTool)
	if m := call(s, "ecko", `{}`).Failure().Message; !strings.Contains(m, "echo") {
		t.Errorf("no nearest name in %q", m)
	}
}

func TestCall_Failures(t *testing.T) {
	boom := errors.New("disk on fire")
	for name, tt := range map[string]struct {
		body func(ctx context.Context) (echoValue, error)
		code string
	}{
		"own code":   {func(context.Context) (echoValue, error) { return echoValue{}, Failf("FS_NOT_FOUND", "no file") }, "FS_NOT_FOUND"},
		"wrapped":    {func(context.Context) (echoValue, error) { return echoValue{}, fmt.Errorf("read: %w", codedError{}) }, "CODED"},
		"plain":      {func(context.Context) (echoValue, error) { return echoValue{}, boom }, CodeInternal},
		"panic":      {func(context.Context) (echoValue, error) { panic("oh") }, CodeToolPanic},
		"bad output": {func(context.Context) (echoValue, error) { return echoValue{Said: "\xff"}, nil }, CodeInvalidOutput},
	} {
		t.Run(name, func(t *testing.T) {
			spec := echoSpec()
			finalized := 0
			spec.Execute = func(ctx context.Context, _ echoArgs, _ *Call) (echoValue, error) { return tt.body(ctx) }
			spec.FinalizeContent = func(_ *Call, _ bool, c []Content) []Content { finalized++; return c }
			var faults []Fault
			s := New(Options{Faults: func(f Fault) { faults = append(faults, f) }})
			s.Register(defineT(t, spec))
			wantCode(t, call(s, "echo", `{"text":"a"}`), tt.code)
			if finalized != 1 {
				t.Errorf("finalized %d times", finalized)
			}
			if (len(faults) == 1) != (name == "panic") {
				t.Errorf("faults %v", faults)
			}
		})
	}
}

type codedError struct{}

func (codedError) Error() string { return "coded" }
func (codedError) Code() string  { return "CODED" }
func (codedError) Details() any  { return map[string]int{"n": 1} }

func TestCall_Cancellation(t *testing.T) {
	started := make(chan struct{}, 1)
	spec := echoSpec()
	spec.Execute = func(ctx context.Context, _ echoArgs, _ *Call) (echoValue, error) {
		started <- struct{}{}
		<-ctx.Done()
		return echoValue{}, &Partial{Value: echoValue{Said: "half"}, Cause: ctx.Err()}
	}
	s := newScope(t, defineT(t, spec))

	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(CancelReason("user"))
	r := s.Call(ctx, Request{ID: "1", Name: "echo", Args: []byte(`{"text":"a"}`)})
	wantCode(t, r, CodeCancelled)
	if !strings.Contains(r.Failure().Message, "user") {
		t.Error("the reason is lost: ", r.Failure())
	}

	ctx, cancel = context.WithCancelCause(context.Background())
	go func() { <-started; cancel(nil) }()
	r = s.Call(ctx, Request{ID: "1", Name: "echo", Args: []byte(`{"text":"a"}`)})
	wantCode(t, r, CodeAborted)
	if d := r.Failure().Details.String(); d != `{"partial":{"said":"half","times":0,"notes":[]}}` {
		t.Errorf("details %s", d)
	}
	if c := r.Content(); len(c) != 1 || c[0].Text() != "half" {
		t.Errorf("content %v", c)
	}

	spec.Timeout = time.Millisecond
	s = newScope(t, defineT(t, spec))
	wantCode(t, call(s, "echo", `{"text":"a"}`), CodeTimeout)
}

func TestPreExecute(t *testing.T) {
	allow := func(context.Context, *Call, func() Decision) Decision { return Allow{} }
	next := func(_ context.Context, _ *Call, next func() Decision) Decision { return next() }
	deny := func(context.Context, *Call, func() Decision) Decision {
		return Deny{Reason: "no", Info: map[string]int{"n": 1}}
	}
	for name, tt := range map[string]struct {
		chain []PreExecute
		code  string
		by    string
	}{
		"none":              {nil, "", ""},
		"allow":             {[]PreExecute{allow}, "", ""},
		"deny":              {[]PreExecute{deny}, CodeDenied, "l0"},
		"deny later":        {[]PreExecute{next, deny}, CodeDenied, "l1"},
		"allow before deny": {[]PreExecute{allow, deny}, "", ""},
		"nothing":           {[]PreExecute{func(context.Context, *Call, func() Decision) Decision { return nil }}, CodeDenied, "l0"},
		"panic":             {[]PreExecute{next, func(context.Context, *Call, func() Decision) Decision { panic("x") }}, CodeDenied, "l1"},
		"panic after next":  {[]PreExecute{func(_ context.Context, _ *Call, next func() Decision) Decision { next(); panic("x") }}, CodeDenied, "l0"},
		"cancel":            {[]PreExecute{func(context.Context, *Call, func() Decision) Decision { return Cancel{} }}, CodeCancelled, ""},
		"ask, nobody there": {[]PreExecute{func(context.Context, *Call, func() Decision) Decision { return Ask{Reason: "why"} }}, CodeApprovalUnavailable, ""},
	} {
		t.Run(name, func(t *testing.T) {
			ran := false
			spec := echoSpec()
			spec.Execute = func(context.Context, echoArgs, *Call) (echoValue, error) { ran = true; return echoValue{}, nil }
			s := newScope(t, defineT(t, spec))
			for i, l := range tt.chain {
				s.PreExecute(fmt.Sprint("l", i), l)
			}
			r := call(s, "echo", `{"text":"a"}`)
			wantCode(t, r, tt.code)
			if ran != (tt.code == "") {
				t.Errorf("ran: %t", ran)
			}
			if tt.by != "" && !strings.Contains(r.Failure().Details.String(), `"by":"`+tt.by+`"`) {
				t.Errorf("details %s, want by %s", r.Failure().Details, tt.by)
			}
		})
	}
}

type answers func(Question) Answer

func (f answers) Approve(_ context.Context, q Question) Answer { return f(q) }

func TestApproval(t *testing.T) {
	for _, tt := range []struct {
		name   string
		answer answers
		code   string
	}{
		{"allowed", func(Question) Answer { return AllowedOnce }, ""},
		{"rejected", func(Question) Answer { return Rejected }, CodeApprovalRejected},
		{"dismissed", func(Question) Answer { return Dismissed }, CodeApprovalCancelled},
		{"unavailable", func(Question) Answer { return Unavailable }, CodeApprovalUnavailable},
		{"nonsense", func(Question) Answer { return 99 }, CodeApprovalUnavailable},
		{"panic", func(Question) Answer { panic("x") }, CodeApprovalUnavailable},
	} {
		t.Run(tt.name, func(t *testing.T) {
			asked := 0
			spec := echoSpec()
			spec.Execute = func(_ context.Context, _ echoArgs, c *Call) (echoValue, error) {
				return echoValue{Said: c.Grants().String()}, nil
			}
			s := newScope(t, defineT(t, spec))
			s.PreExecute("asks", func(context.Context, *Call, func() Decision) Decision {
				return Ask{Reason: "r", Grants: map[string]string{"network": "full"}}
			})
			s.SetApprover(answers(func(q Question) Answer {
				asked++
				if q.Grants.String() != `{"network":"full"}` || q.DisplayReason != "r" || q.Call.Args().String() != `{"text":"a"}` {
					t.Errorf("question %+v", q)
				}
				return tt.answer(q)
			}))
			for range 2 { // an answer holds for one call
				r := call(s, "echo", `{"text":"a"}`)
				wantCode(t, r, tt.code)
				if tt.code == "" && !strings.Contains(r.Value().String(), "network") {
					t.Errorf("the body has no grants: %s", r.Value())
				}
			}
			if asked != 2 {
				t.Errorf("asked %d times", asked)
			}
			// A guard is not overruled by an approval.
			s.Guard("g", func(*Call) (string, bool) { return "never", true })
			if tt.code == "" {
				wantCode(t, call(s, "echo", `{"text":"a"}`), CodeDenied)
			}
		})
	}
}

func TestPostExecute(t *testing.T) {
	for name, tt := range map[string]struct {
		post    []PostDecision
		code    string
		value   string
		content string
	}{
		"accept":           {[]PostDecision{Accept{}}, "", `"said":"a"`, "a"},
		"content":          {[]PostDecision{AcceptContent{[]Content{Text("short")}}}, "", `"said":"a"`, "short"},
		"value":            {[]PostDecision{AcceptValue{map[string]any{"said": "b", "times": 2, "notes": []string{}}}}, "", `"said":"b"`, "b"},
		"value over text":  {[]PostDecision{AcceptContent{[]Content{Text("short")}}, AcceptValue{echoValue{Said: "b"}}}, "", `"said":"b"`, "b"},
		"invalid value":    {[]PostDecision{AcceptValue{"text"}}, CodeInvalidOutput, "", ""},
		"block":            {[]PostDecision{Block{"not this"}}, CodeBlocked, "", "not this"},
		"block, then more": {[]PostDecision{Block{"not this"}, AcceptValue{echoValue{Said: "b"}}}, CodeBlocked, "", "not this"},
		"nothing":          {[]PostDecision{nil}, CodeBlocked, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScope(t, defineT(t, echoSpec()))
			for _, d := range tt.post {
				s.PostExecute("p", func(context.Context, *Call, Result) PostDecision { return d })
			}
			r := call(s, "echo", `{"text":"a"}`)
			wantCode(t, r, tt.code)
			if !strings.Contains(r.Value().String(), tt.value) || tt.content != "" && r.Content()[0].Text() != tt.content {
				t.Errorf("value %s, content %v", r.Value(), r.Content())
			}
		})
	}
}

func TestWrappers(t *testing.T) {
	bodies := atomic.Int32{}
	spec := echoSpec()
	spec.Execute = func(ctx context.Context, a echoArgs, _ *Call) (echoValue, error) {
		if bodies.Add(1) == 1 {
			return echoValue{}, errors.New("first time")
		}
		return echoValue{Said: a.Text}, nil
	}
	s := newScope(t, defineT(t, spec))
	undo := s.Wrap("retry", func(ctx context.Context, _ *Call, next Body) Outcome {
		if o := next(ctx); o.OK() {
			return o
		}
		return next(ctx)
	})
	wantCode(t, call(s, "echo", `{"text":"a"}`), "")
	undo()

	// A body that a wrapper left running is waited for; one that it begins
	// too late does not run.
	var late atomic.Pointer[Body]
	release := make(chan struct{})
	var ended atomic.Bool
	spec.Execute = func(context.Context, echoArgs, *Call) (echoValue, error) {
		<-release
		time.Sleep(time.Millisecond)
		ended.Store(true)
		return echoValue{}, nil
	}
	s = newScope(t, defineT(t, spec))
	s.Wrap("impatient", func(ctx context.Context, _ *Call, next Body) Outcome {
		late.Store(&next)
		go next(ctx)
		time.Sleep(5 * time.Millisecond)
		close(release)
		return Failure(Failf("GAVE_UP", "no patience"))
	})
	wantCode(t, call(s, "echo", `{"text":"a"}`), "GAVE_UP")
	if !ended.Load() {
		t.Error("the body was abandoned")
	}
	if o := (*late.Load())(context.Background()); o.OK() {
		t.Error("a body ran after its call had ended")
	}

	s = newScope(t, defineT(t, echoSpec()))
	s.Wrap("nothing", func(context.Context, *Call, Body) Outcome { return Outcome{} })
	wantCode(t, call(s, "echo", `{"text":"a"}`), CodeInternal)
}

func TestIdentity(t *testing.T) {
	var parent Token
	inner := echoSpec()
	inner.Name = "inner"
	inner.Execute = func(_ context.Context, _ echoArgs, c *Call) (echoValue, error) {
		return echoValue{Said: c.ID() + " in " + c.RootID()}, nil
	}
	s := newScope(t)
	outer := echoSpec()
	outer.Execute = func(ctx context.Context, _ echoArgs, c *Call) (echoValue, error) {
		parent = c.Token()
		var v echoValue
		for range 2 {
			r := s.Call(ctx, Request{ID: "mine", Name: "inner", Args: []byte(`{"text":"x"}`), Parent: c.Token()})
			v.Notes = append(v.Notes, r.Value().String())
		}
		return v, nil
	}
	s.Register(defineT(t, outer), defineT(t, inner))
	r := call(s, "echo", `{"text":"a"}`)
	if v := r.Value().String(); !strings.Contains(v, "1:code:1 in 1") || !strings.Contains(v, "1:code:2 in 1") {
		t.Errorf("value %s", v)
	}
	// Its call has ended.
	wantCode(t, s.Call(context.Background(), Request{Name: "inner", Args: []byte(`{"text":"x"}`), Parent: parent}), CodeDenied)
	// Another pipeline's.
	other := newScope(t, defineT(t, inner))
	var foreign Result
	outer.Execute = func(ctx context.Context, _ echoArgs, c *Call) (echoValue, error) {
		foreign = other.Call(ctx, Request{Name: "inner", Args: []byte(`{"text":"x"}`), Parent: c.Token()})
		return echoValue{}, nil
	}
	wantCode(t, call(newScope(t, defineT(t, outer)), "echo", `{"text":"a"}`), "")
	wantCode(t, foreign, CodeDenied)
	if !(Token{}).IsZero() || parent.IsZero() {
		t.Error("tokens")
	}
}

func TestResult_IsFrozen(t *testing.T) {
	s := newScope(t, defineT(t, echoSpec()))
	s.Observe("vandal", func(_ *Call, r Result) {
		r.Content()[0] = Text("changed")
		panic("and more")
	})
	var seen Result
	s.Observe("log", func(_ *Call, r Result) { seen = r })
	r := call(s, "echo", `{"text":"a"}`)
	if r.Content()[0].Text() != "a" || seen.Content()[0].Text() != "a" || seen.Value() != r.Value() {
		t.Errorf("got %v, the log %v", r.Content(), seen.Content())
	}
	if j, err := MarshalValue(r); err != nil || j.String() != `{"ok":true,"value":{"said":"a","times":1,"notes":[]},"content":[{"type":"text","text":"a"}]}` {
		t.Errorf("%s, %v", j, err)
	}
	for want, c := range map[string]Content{
		"{\"type\":\"text\",\"text\":\"a\\n\ufffd\"}":           Text("a\n\xff"),
		`{"type":"image","data":"AQL/","mimeType":"image/png"}`: Image([]byte{1, 2, 255}, "image/png"),
	} {
		if j, err := MarshalValue(c); err != nil || j.String() != want {
			t.Errorf("%s, %v, want %s", j, err, want)
		}
	}
	if j, _ := MarshalValue(call(s, "nosuch", `{}`)); !strings.HasPrefix(j.String(), `{"ok":false,"error":{"code":"UNKNOWN_TOOL","message":"`) {
		t.Errorf("%s", j)
	}
}

// A property that stands in for a required one: either will do, and the JSON
// Schema names the one that people should use.
func TestSchema_UnlessStandsIn(t *testing.T) {
	type args struct {
		Path string `json:"path" unless:"raw"`
		Raw  string `json:"raw,omitzero"`
	}
	s, err := SchemaOf[args](true)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{`{"path":"a"}`: "", `{"raw":"a"}`: "", `{"path":"","raw":"a"}`: "", `{}`: "path"} {
		v, err := ParseJSON([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if bad := s.Validate(v); bad != nil {
			got = bad.Path
		}
		if got != want {
			t.Errorf("%s: violation at %q, want %q", text, got, want)
		}
	}
	if j, _ := s.MarshalJSON(); !strings.Contains(string(j), `"required":["path"]`) {
		t.Errorf("%s", j)
	}
}

// One question has the reasons of all who ask, and the grants of one.
func TestAsk_Also(t *testing.T) {
	plain := Ask{Reason: "a"}
	granting := Ask{Reason: "g", DisplayReason: "may it?", Grants: 1}
	for name, tt := range map[string]struct{ got, want Decision }{
		"alone":               {plain.Also(Allow{}), plain},
		"refused":             {plain.Also(Deny{Reason: "no"}), Deny{Reason: "no"}},
		"cancelled":           {plain.Also(Cancel{}), Cancel{}},
		"nobody decided":      {plain.Also(nil), nil},
		"another's grants":    {plain.Also(granting), Ask{Reason: "a; g", DisplayReason: "a; may it?", Grants: 1}},
		"its own grants":      {granting.Also(plain), Ask{Reason: "g; a", DisplayReason: "may it?; a", Grants: 1}},
		"none grants":         {plain.Also(Ask{Reason: "b"}), Ask{Reason: "a; b", DisplayReason: "a; b"}},
		"both grant":          {granting.Also(granting), Deny{Reason: "the call asks for two things in one that are granted apart: g; g"}},
		"three, the one last": {plain.Also(plain.Also(granting)), Ask{Reason: "a; a; g", DisplayReason: "a; a; may it?", Grants: 1}},
	} {
		if tt.got != tt.want {
			t.Errorf("%s: %#v, want %#v", name, tt.got, tt.want)
		}
	}
}

func TestAnswer_String(t *testing.T) {
	for a, want := range map[Answer]string{Unavailable: "unavailable", AllowedOnce: "allowed-once", Rejected: "rejected", Dismissed: "cancelled", 99: "unavailable"} {
		if a.String() != want {
			t.Errorf("%d is %s, want %s", a, a, want)
		}
	}
}
