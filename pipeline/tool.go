package pipeline

import (
	"context"
	"fmt"
	"time"
)

// Spec is what a tool is defined from. A is the type of its arguments, V of
// its value; both become schemas (SchemaOf) where none is given.
type Spec[A, V any] struct {
	Name        string // [a-z][a-z0-9_]{0,63}
	Title       string // for people
	Description string // all that a model is told about the tool, beside its parameters
	Hints       Hints

	Parameters *Schema // of A; nil: inferred
	Output     *Schema // of V; nil: inferred

	// Execute does the work. It never sees arguments that are invalid, and
	// heeds ctx. What a command, a search or a file had to say is a value;
	// only what kept the tool from its work is an error. An interrupted body
	// returns *Partial with what it has.
	Execute func(ctx context.Context, args A, call *Call) (V, error)

	// Render is what a model reads of a value. It is pure.
	Render func(args A, value V) []Content
	// Meta is what PresentResult needs beyond arguments and content; nil for
	// none. It goes with every reply and into logs: what it has of texts is bounded
	// as content is. It is pure.
	Meta func(args A, value V) any
	// ProjectContent replaces the rendered content by one that was prepared
	// while the tool ran, before anybody judges it; nil leaves it.
	ProjectContent func(call *Call, content []Content) []Content
	// FinalizeContent is the last word on what a model reads, called exactly
	// once for every outcome, failures before the body included. It changes
	// content alone, and must not block.
	FinalizeContent func(call *Call, ok bool, content []Content) []Content

	// Timeout bounds the body; 0 for no bound.
	Timeout time.Duration
	// Parallel says that every call may run beside others. Without it
	// ConcurrencySafe reports it of a call with these arguments; it is pure.
	// Without either, and in every doubt, a call may not.
	Parallel        bool
	ConcurrencySafe func(args A) bool

	// PresentCall and PresentResult give the cards; nil and a nil Card stand
	// for the generic one. They are pure and get old and malformed arguments
	// and metas too, as far as these could be decoded. Neither gets the value, which
	// no log has.
	PresentCall   func(args A) Card
	PresentResult func(args A, s Shown) Card

	// DeferLoading asks a client to show the tool to a model only on demand.
	DeferLoading bool
}

// Hints tell clients what a tool's calls may do; they grant nothing.
type Hints struct {
	ReadOnly    bool // changes nothing
	Destructive bool // may overwrite or remove
	Idempotent  bool // a second call changes nothing more
	OpenWorld   bool // reaches beyond this machine
}

// Tool is a defined tool. It is immutable and may be registered in any number
// of scopes.
type Tool struct {
	name, title, description string
	hints                    Hints
	parameters, output       *Schema
	timeout                  time.Duration
	deferred                 bool
	parallel                 string // "always", "never", "by-arguments"

	execute       func(ctx context.Context, c *Call) Outcome
	replace       func(c *Call, value JSON) Outcome
	project       func(c *Call, content []Content) []Content
	finalize      func(c *Call, ok bool, content []Content) []Content
	safe          func(args JSON) bool
	presentCall   func(args JSON) Card
	presentResult func(args JSON, s Shown) Card
}

// validName reports a name of the form [a-z][a-z0-9_]{0,63}. Not a regexp: to
// compile one at start would cost every program that links this package.
func validName(name string) bool {
	for i := range len(name) {
		c := name[i]
		if !(c >= 'a' && c <= 'z' || i > 0 && (c >= '0' && c <= '9' || c == '_')) {
			return false
		}
	}
	return name != "" && len(name) <= 64
}

// ReservedName is the name of the tool that runs programs of calls. Only the
// package that implements it may define it: see DefineReserved.
const ReservedName = "run_code"

// Define joins a tool's parts. It fails where they don't fit together, so that
// no call finds out.
func Define[A, V any](spec Spec[A, V]) (*Tool, error) {
	if spec.Name == ReservedName {
		return nil, fmt.Errorf("tool %s: the name is reserved", spec.Name)
	}
	return define(spec)
}

// DefineReserved is Define for the one tool of the reserved name.
func DefineReserved[A, V any](spec Spec[A, V]) (*Tool, error) {
	if spec.Name != ReservedName {
		return nil, fmt.Errorf("tool %s: the reserved name is %s", spec.Name, ReservedName)
	}
	return define(spec)
}

func define[A, V any](spec Spec[A, V]) (*Tool, error) {
	fail := func(err error) (*Tool, error) { return nil, fmt.Errorf("tool %s: %w", spec.Name, err) }
	if !validName(spec.Name) {
		return nil, fmt.Errorf("tool %q: the name must be of the form [a-z][a-z0-9_]{0,63}", spec.Name)
	}
	if spec.Execute == nil || spec.Render == nil || spec.Description == "" {
		return nil, fmt.Errorf("tool %s: Execute, Render and Description are needed", spec.Name)
	}
	params, output := spec.Parameters, spec.Output
	var err error
	if params == nil {
		if params, err = SchemaOf[A](true); err != nil {
			return fail(err)
		}
	}
	if output == nil {
		if output, err = SchemaOf[V](false); err != nil {
			return fail(err)
		}
	}
	if err := params.check(" of the parameters", true); err != nil {
		return fail(err)
	}
	if err := output.check(" of the output", true); err != nil {
		return fail(err)
	}
	defaults, err := defaultsOf(params)
	if err != nil {
		return fail(err)
	}
	// Arguments that are valid should decode: what a given schema allows beyond
	// the type shows here as far as defaults do, and as INVALID_ARGS in a call.
	decode := func(args JSON) (a A, err error) {
		if !defaults.IsZero() {
			if err := defaults.Decode(&a); err != nil {
				return a, err
			}
		}
		return a, args.Decode(&a)
	}
	if _, err := decode(JSON{"{}"}); err != nil {
		return fail(fmt.Errorf("the parameters' defaults don't fit the type: %w", err))
	}
	t := &Tool{
		name: spec.Name, title: spec.Title, description: spec.Description, hints: spec.Hints,
		parameters: params, output: output, timeout: spec.Timeout, deferred: spec.DeferLoading,
		parallel: "never", project: spec.ProjectContent, finalize: spec.FinalizeContent,
	}
	switch {
	case spec.Parallel && spec.ConcurrencySafe != nil:
		return nil, fmt.Errorf("tool %s: Parallel and ConcurrencySafe exclude each other", spec.Name)
	case spec.Parallel:
		t.parallel = "always"
	case spec.ConcurrencySafe != nil:
		t.parallel = "by-arguments"
	}
	validateAndRender := func(args A, value V) Outcome {
		j, err := MarshalValue(value)
		if err != nil {
			return Failure(Failf(CodeInvalidOutput, "the value of %s can't be written as JSON: %v", t.name, err))
		}
		if bad := output.Validate(j); bad != nil {
			return Failure(Fail(CodeInvalidOutput, "the value of "+t.name+" breaks its schema: "+bad.Error(), bad))
		}
		o := Outcome{value: j, content: spec.Render(args, value)}
		if spec.Meta != nil {
			if o.meta, err = MarshalValue(spec.Meta(args, value)); err != nil {
				return Failure(Failf(CodeInternal, "the presentation data of %s can't be written as JSON: %v", t.name, err))
			}
			if o.meta.text == "null" {
				o.meta = JSON{} // nil, of whatever type
			}
		}
		return o
	}
	t.execute = func(ctx context.Context, c *Call) Outcome {
		args, err := decode(c.args)
		if err != nil {
			return Failure(Fail(CodeInvalidArgs, "the arguments of "+t.name+" can't be decoded: "+err.Error(), &Violation{Expected: "what fits the type of the arguments", Got: err.Error()}))
		}
		value, err := spec.Execute(ctx, args, c)
		if err == nil {
			return validateAndRender(args, value)
		}
		e := classify(err, c.caller, ctx)
		o := Failure(e)
		if p, ok := errorAs[*Partial](err); ok {
			if v, ok := p.Value.(V); ok {
				if part := validateAndRender(args, v); part.OK() {
					e.Details = withPartial(e.Details, part.value)
					o = Outcome{failure: e, content: part.content, meta: part.meta}
				}
			}
		}
		return o
	}
	t.replace = func(c *Call, value JSON) Outcome {
		args, err := decode(c.args)
		var v V
		if err == nil {
			if bad := output.Validate(value); bad != nil {
				return Failure(Fail(CodeInvalidOutput, "the replaced value of "+t.name+" breaks its schema: "+bad.Error(), bad))
			}
			err = value.Decode(&v)
		}
		if err != nil {
			return Failure(Failf(CodeInvalidOutput, "the replaced value of %s doesn't fit: %v", t.name, err))
		}
		return validateAndRender(args, v)
	}
	t.safe = func(args JSON) bool {
		a, err := decode(args)
		return err == nil && (spec.Parallel || spec.ConcurrencySafe != nil && spec.ConcurrencySafe(a))
	}
	// Presentation takes what can be decoded of old and malformed arguments.
	t.presentCall = func(args JSON) Card {
		a, err := decode(args)
		if err != nil || spec.PresentCall == nil {
			return nil
		}
		return spec.PresentCall(a)
	}
	t.presentResult = func(args JSON, s Shown) Card {
		a, err := decode(args)
		if err != nil || spec.PresentResult == nil {
			return nil
		}
		return spec.PresentResult(a, s)
	}
	return t, nil
}

// defaultsOf is an object of the properties' defaults; zero without any.
func defaultsOf(s *Schema) (JSON, error) {
	m := map[string]JSON{}
	for _, p := range s.Properties {
		if p.Schema.Default.IsZero() {
			continue
		}
		if p.Required {
			return JSON{}, fmt.Errorf("parameter %s is required and has a default", p.Name)
		}
		m[p.Name] = p.Schema.Default
	}
	if len(m) == 0 {
		return JSON{}, nil
	}
	return MarshalValue(m)
}

// partialMember is where details have what a body had produced of its value.
const partialMember = "partial"

// withPartial adds the member partial to details.
func withPartial(details, partial JSON) JSON {
	if details.IsZero() || details.text == "null" || details.text == "{}" {
		return JSON{`{"` + partialMember + `":` + partial.text + `}`}
	}
	if details.text[0] != '{' {
		return details
	}
	return JSON{`{"` + partialMember + `":` + partial.text + "," + details.text[1:]}
}

// Name is the name that calls use.
func (t *Tool) Name() string { return t.name }

// Title is the name for people.
func (t *Tool) Title() string {
	if t.title == "" {
		return t.name
	}
	return t.title
}

// Hints are the tool's hints.
func (t *Tool) Hints() Hints { return t.hints }

// Parameters is the schema of the arguments; not to be changed.
func (t *Tool) Parameters() *Schema { return t.parameters }

// Output is the schema of the value; not to be changed.
func (t *Tool) Output() *Schema { return t.output }

// DeferLoading reports a tool that is shown on demand.
func (t *Tool) DeferLoading() bool { return t.deferred }

// Timeout is the bound of the body; 0 for none.
func (t *Tool) Timeout() time.Duration { return t.timeout }

// Declaration is what a model sees of a tool. Nothing else of a definition
// reaches it: what is added to tools stays out until it is added here.
type Declaration struct {
	Name        string  `json:"name"`
	Description string  `json:"description"`
	Parameters  *Schema `json:"parameters"`
}

// Declare is the model's view.
func (t *Tool) Declare() Declaration {
	return Declaration{t.name, t.description, t.parameters}
}

// Description is what a model is told.
func (t *Tool) Description() string { return t.description }

// ConcurrencySafe reports whether a call with these arguments may run beside
// others: only where the tool says so of arguments that are valid.
func (t *Tool) ConcurrencySafe(args JSON) bool {
	return t.parallel != "never" && t.parameters.Validate(args) == nil && t.concurrencySafe(args)
}

// concurrencySafe is ConcurrencySafe of valid arguments.
func (t *Tool) concurrencySafe(args JSON) (safe bool) {
	if t.parallel == "never" {
		return false
	}
	defer func() {
		if recover() != nil {
			safe = false
		}
	}()
	return t.safe(args)
}

// Parallel is "always", "never", or "by-arguments": which calls may run beside
// others.
func (t *Tool) Parallel() string { return t.parallel }

// PresentCall is the card of a call that has no result yet. It is total.
func (t *Tool) PresentCall(args JSON) (card Card) {
	defer func() {
		if recover() != nil || card == nil {
			card = genericCard(t.Title())
		}
	}()
	card = t.presentCall(args)
	switch card.(type) {
	case ReadCard, SearchCard, WebCard:
		card = nil // what they show exists only after the call
	}
	return card
}

// presentEnd is the tool's card of a call that has ended. It is total.
func (t *Tool) presentEnd(args JSON, s Shown) (card Card) {
	defer func() {
		if recover() != nil || card == nil {
			card = genericCard(t.Title())
		}
	}()
	return t.presentResult(args, s)
}
