package pipeline

import (
	"context"
	"slices"
	"sort"
	"strings"
)

// Decision is what a PreExecute listener says about a call: Allow, Deny,
// Cancel or Ask.
type Decision interface{ decision() }

// Allow lets the call go on to the guards.
type Allow struct{}

// Deny refuses the call.
type Deny struct {
	Reason string // one sentence for the model
	Info   any    // further details for programs; any JSON value, or nil
}

// Cancel ends the call as if its caller had cancelled it: that is no refusal.
type Cancel struct{}

// Ask lets the call go on only after somebody has allowed it, once.
type Ask struct {
	Reason        string // for the record
	DisplayReason string // for the person who is asked; Reason where empty
	Grants        any    // what this one call gets beyond the policy; any JSON value
}

// Also is the decision of a listener that asks about a call, and has next decide
// too: one question is asked of a call, with the reasons of all who ask. What is
// refused or cancelled stays so. One of those who ask may grant something, not
// several: what each of them means could not be told apart in the answer.
func (a Ask) Also(next Decision) Decision {
	switch b := next.(type) {
	case Allow:
		return a
	case Ask:
		if a.Grants != nil && b.Grants != nil {
			return Deny{Reason: "the call asks for two things in one that are granted apart: " + a.Reason + "; " + b.Reason}
		}
		joined := Ask{Reason: a.Reason + "; " + b.Reason, DisplayReason: a.display() + "; " + b.display(), Grants: a.Grants}
		if joined.Grants == nil {
			joined.Grants = b.Grants
		}
		return joined
	}
	return next
}

func (a Ask) display() string {
	if a.DisplayReason == "" {
		return a.Reason
	}
	return a.DisplayReason
}

func (Allow) decision()  {}
func (Deny) decision()   {}
func (Cancel) decision() {}
func (Ask) decision()    {}

// Admission gives a call whose turn has come what it needs, before any policy is
// asked: the policy itself, say, which the whole call then keeps. It may wait, and
// returns soon after ctx ends. leave, unless nil, is called when the call has
// come to its outcome; err is the call's failure, by its code. A panic refuses
// the call.
type Admission func(ctx context.Context, c *Call) (leave func(), err error)

// PreExecute decides about a call. next is what the listeners after this one
// decide; not to call it decides for them. A panic or a nil Decision denies.
type PreExecute func(ctx context.Context, c *Call, next func() Decision) Decision

// Guard refuses a call by returning true. There is no way to allow: guards
// come after every listener and after approval, all of them are asked, and no
// order and no other guard turns a refusal round. A panic denies.
type Guard func(c *Call) (reason string, deny bool)

// Body is what Execute wrappers go around.
type Body func(ctx context.Context) Outcome

// Wrapper goes around the body: it may give next another context, with a
// deadline say, or call it again. It can't cut off the caller's cancellation,
// which reaches the body whatever the context it gets; and every body that it
// began is waited for.
type Wrapper func(ctx context.Context, c *Call, next Body) Outcome

// Outcome is how a body ended. A wrapper returns one that next gave it, or
// Failure.
type Outcome struct {
	value   JSON
	content []Content
	meta    JSON
	failure *Error
}

// OK reports success.
func (o Outcome) OK() bool { return o.failure == nil }

// Err is the failure, or nil.
func (o Outcome) Err() *Error { return o.failure }

// Failure is the outcome of a body that failed.
func Failure(e *Error) Outcome {
	e = e.short()
	return Outcome{failure: e, content: []Content{Text(e.Message)}}
}

// PostDecision is what a PostExecute listener says about a success: Accept,
// AcceptContent, AcceptValue or Block.
type PostDecision interface{ postDecision() }

// Accept leaves the result as it is.
type Accept struct{}

// AcceptContent replaces what a model reads. The value stays, and programs
// still get it: this is presentation, not confidentiality.
type AcceptContent struct{ Content []Content }

// AcceptValue replaces the value. It is validated, and content and meta are
// rendered from it.
type AcceptValue struct{ Value any }

// Block removes value and content; the call fails with the feedback.
type Block struct{ Feedback string }

func (Accept) postDecision()        {}
func (AcceptContent) postDecision() {}
func (AcceptValue) postDecision()   {}
func (Block) postDecision()         {}

// PostExecute judges what a body returned, as the listeners before left it. A
// panic or a nil decision blocks.
type PostExecute func(ctx context.Context, c *Call, r Result) PostDecision

// Observer sees the frozen result of every call. What it does or fails to do
// changes nothing.
type Observer func(c *Call, r Result)

// CallObserver sees every call at the moment its turn has come, before any
// policy. A call that is refused or cancelled before its body is one, too: each
// begins once, and has one result after that.
type CallObserver func(c *Call)

// QuestionObserver sees a question before anybody is asked. What it returns, if
// anything, is told the answer: once, whatever becomes of the call and of whoever
// is asked.
type QuestionObserver func(q Question) (answered func(Answer))

// AskPolicy says whether anybody may be asked about a call. Where one says no,
// every question is Rejected before an approver hears of it, whichever there is. A
// panic says no.
type AskPolicy func(c *Call) bool

// Approver asks somebody about one call.
type Approver interface {
	// Approve returns what was answered. It returns soon after ctx ends.
	Approve(ctx context.Context, q Question) Answer
}

// Question is what an Approver is asked.
type Question struct {
	Call          *Call
	Reason        string
	DisplayReason string
	Grants        JSON
}

// Answer is the outcome of a question. The zero value is no answer, which is
// a refusal.
type Answer uint8

// The answers. There is none that holds for longer than one call.
const (
	Unavailable Answer = iota // nobody can be asked, or nobody answered
	AllowedOnce
	Rejected
	Dismissed // the question was withdrawn or closed
)

// String is the answer's name in protocols and logs: unavailable, allowed-once,
// rejected, cancelled. What is none of the answers is unavailable.
func (a Answer) String() string {
	switch a {
	case AllowedOnce:
		return "allowed-once"
	case Rejected:
		return "rejected"
	case Dismissed:
		return "cancelled"
	}
	return "unavailable"
}

// Fault is something that failed in a stage and was contained.
type Fault struct {
	Call  *Call
	Stage string // such as "observer"
	Name  string // the listener's
	Value any    // what it panicked with
}

// named is a stage's function with the name that it was registered under.
type named[F any] struct {
	name string
	f    F
}

// stages is everything that a scope adds to a call, its ancestors' first.
type stages struct {
	admit     []named[Admission]
	pre       []named[PreExecute]
	guards    []named[Guard]
	wrappers  []named[Wrapper]
	post      []named[PostExecute]
	observers []named[Observer]
	calls     []named[CallObserver]
	questions []named[QuestionObserver]
	asks      []named[AskPolicy]
	approver  Approver
	faults    []func(Fault)
}

// admitted is what admissions gave a call.
type admitted []named[func()]

// leave gives it back, last first.
func (a *admitted) leave(st *stages, c *Call) {
	for _, g := range slices.Backward(*a) {
		st.contained(c, "admission", g.name, g.f)
	}
}

// askAdmissions runs all admissions in order, as far as one refuses the call.
func (st *stages) askAdmissions(ctx context.Context, c *Call, given *admitted) *Error {
	for _, l := range st.admit {
		err := error(Failf(CodeInternal, "%s failed, so the call is refused", l.name))
		st.contained(c, "admission", l.name, func() {
			var leave func()
			if leave, err = l.f(ctx, c); leave != nil {
				*given = append(*given, named[func()]{l.name, leave})
			}
		})
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return cancelledBefore(ctx)
		default:
			return classify(err, ctx, ctx)
		}
	}
	return nil
}

// preExecute runs the PreExecute chain from listener i on, and says who denied
// or asks.
func (st *stages) preExecute(ctx context.Context, c *Call, i int) (d Decision, by string) {
	if i == len(st.pre) {
		return Allow{}, ""
	}
	l := st.pre[i]
	defer func() {
		if p := recover(); p != nil {
			st.fault(c, "pre-execute", l.name, p)
			d, by = Deny{Reason: l.name + " failed, so the call is refused"}, l.name
		}
	}()
	var later Decision
	var laterBy string
	next := func() Decision {
		if later == nil {
			later, laterBy = st.preExecute(ctx, c, i+1)
		}
		return later
	}
	d = l.f(ctx, c, next)
	switch d := d.(type) {
	case nil:
		return Deny{Reason: l.name + " decided nothing, so the call is refused"}, l.name
	case Deny:
		// Handed through, or its own.
		if deny, ok := later.(Deny); ok && deny.Reason == d.Reason {
			return d, laterBy
		}
		return d, l.name
	case Ask:
		// Handed through, or its own, or joined to another's.
		switch ask, ok := later.(Ask); {
		case ok && ask.Reason == d.Reason:
			return d, laterBy
		case ok && strings.HasSuffix(d.Reason, ask.Reason):
			return d, l.name + ", " + laterBy
		}
		return d, l.name
	}
	return d, ""
}

// mayAsk asks all policies of approval.
func (st *stages) mayAsk(c *Call) bool {
	for _, p := range st.asks {
		may := false
		st.contained(c, "ask-policy", p.name, func() { may = p.f(c) })
		if !may {
			return false
		}
	}
	return true
}

// askGuards asks all guards. What it returns does not depend on their order.
func (st *stages) askGuards(c *Call) *Error {
	var by, reasons []string
	for _, g := range st.guards {
		reason, deny := st.guard(c, g)
		if !deny {
			continue
		}
		by = append(by, g.name)
		reasons = append(reasons, reason)
	}
	if by == nil {
		return nil
	}
	sort.Strings(by)
	sort.Strings(reasons)
	by, reasons = slices.Compact(by), slices.Compact(reasons)
	return refusal(strings.Join(by, ", "), strings.Join(reasons, "; "), nil)
}

func (st *stages) guard(c *Call, g named[Guard]) (reason string, deny bool) {
	defer func() {
		if p := recover(); p != nil {
			st.fault(c, "guard", g.name, p)
			reason, deny = g.name+" failed, so the call is refused", true
		}
	}()
	reason, deny = g.f(c)
	if deny && reason == "" {
		reason = g.name + " refuses the call"
	}
	return reason, deny
}

func refusal(by, reason string, info any) *Error {
	message := reason
	if message == "" {
		message = by + " refuses the call"
	}
	return Fail(CodeDenied, message, struct {
		By     string `json:"by"`
		Reason string `json:"reason"`
		Info   any    `json:"info,omitzero"`
	}{by, reason, info})
}

// begin tells of a call whose turn has come, once.
func (st *stages) begin(c *Call) {
	if c.begun.Swap(true) {
		return
	}
	for _, l := range st.calls {
		st.contained(c, "call-observer", l.name, func() { l.f(c) })
	}
}

// asking tells of a question, and returns what tells of its answer.
func (st *stages) asking(q Question) (answered func(Answer)) {
	told := make([]func(Answer), len(st.questions))
	for i, l := range st.questions {
		st.contained(q.Call, "question-observer", l.name, func() { told[i] = l.f(q) })
	}
	return func(a Answer) {
		for i, f := range told {
			if f != nil {
				st.contained(q.Call, "question-observer", st.questions[i].name, func() { f(a) })
			}
		}
	}
}

// contained calls what changes nothing by failing.
func (st *stages) contained(c *Call, stage, name string, f func()) {
	defer func() {
		if p := recover(); p != nil {
			st.fault(c, stage, name, p)
		}
	}()
	f()
}

// fault tells who listens; a listener that fails is on its own.
func (st *stages) fault(c *Call, stage, name string, value any) {
	for _, f := range st.faults {
		func() {
			defer func() { _ = recover() }()
			f(Fault{c, stage, name, value})
		}()
	}
}
