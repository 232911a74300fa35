package pipeline

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
)

// Call makes one call and waits for its result, which is exactly one, whatever
// fails or panics. The stages are those of the package's documentation, in
// their order.
//
// ctx is the caller's cancellation: before the body begins it makes the call
// CANCELLED, while the body runs it reaches the body, whatever wrappers do.
func (s *Scope) Call(ctx context.Context, req Request) Result {
	return s.carryOut(s.prepare(ctx, req))
}

// prepare is what is known of a call before any policy: who it is, what it
// says, which tool it reaches, and whether the arguments fit. A call that waits
// for its turn is not asked for any of it again.
func (s *Scope) prepare(ctx context.Context, req Request) (*Call, *Error) {
	c, refused := s.identify(ctx, req)
	c.tool = s.Lookup(req.Name)
	if refused != nil {
		return c, refused
	}
	// Materialise.
	text := req.Args
	if len(text) == 0 {
		text = []byte("{}")
	}
	var err error
	if c.args, err = ParseJSON(text); err != nil {
		return c, Fail(CodeInvalidArgs, "the arguments are not valid JSON: "+err.Error(), &Violation{Expected: "a JSON object", Got: err.Error()})
	}
	// Visible?
	if c.tool == nil {
		return c, s.unknown(req.Name)
	}
	// Validate.
	if bad := c.tool.parameters.Validate(c.args); bad != nil {
		return c, Fail(CodeInvalidArgs, bad.Error(), bad)
	}
	return c, nil
}

// carryOut takes a call from policy to its result. The policy is what the scope
// has now.
func (s *Scope) carryOut(c *Call, refused *Error) Result {
	st, closed := s.stages()
	st.begin(c)
	switch {
	case closed:
		refused = Failf(CodeCancelled, "the scope of the call has ended")
	case refused == nil && c.parent != nil && c.parent.ended.Load():
		refused = orphan()
	}
	if refused != nil {
		return st.finish(c, Failure(refused))
	}
	return st.finish(c, st.run(c.caller, c))
}

func (s *Scope) unknown(name string) *Error {
	var names []string
	for _, t := range s.Tools() {
		names = append(names, t.name)
	}
	near := nearest(name, names)
	message := "there is no tool " + clip(name)
	switch {
	case len(near) > 0:
		message += "; did you mean " + strings.Join(near, " or ") + "?"
	case len(names) > 0:
		message += "; there are " + strings.Join(names, ", ")
	}
	return Fail(CodeUnknownTool, message, map[string][]string{"nearest": near})
}

func cancelledBefore(ctx context.Context) *Error {
	return &Error{Code: CodeCancelled, Message: "the call was cancelled before it began" + reasonOf(ctx)}
}

// run takes a valid call through policy and body.
func (st *stages) run(ctx context.Context, c *Call) Outcome {
	if ctx.Err() != nil {
		return Failure(cancelledBefore(ctx))
	}
	var given admitted
	defer given.leave(st, c)
	if refused := st.askAdmissions(ctx, c, &given); refused != nil {
		return Failure(refused)
	}
	decision, by := st.preExecute(ctx, c, 0)
	if refused := st.approval(ctx, c, decision, by); refused != nil {
		return Failure(refused)
	}
	if refused := st.askGuards(c); refused != nil {
		return Failure(refused)
	}
	if ctx.Err() != nil {
		return Failure(cancelledBefore(ctx))
	}
	o := st.execute(ctx, c)
	if o.OK() {
		o = st.postExecute(ctx, c, o)
	}
	return o
}

// approval makes a decision a refusal, or nil, asking where it says so.
func (st *stages) approval(ctx context.Context, c *Call, d Decision, by string) *Error {
	switch d := d.(type) {
	case Allow:
		return nil
	case Deny:
		return refusal(by, d.Reason, d.Info)
	case Cancel:
		return cancelledBefore(ctx)
	case Ask:
		return st.ask(ctx, c, d, by)
	}
	return refusal("pre-execute", "", nil)
}

func (st *stages) ask(ctx context.Context, c *Call, a Ask, by string) *Error {
	grants, err := MarshalValue(a.Grants)
	if err != nil {
		return Failf(CodeInternal, "what the approval would grant can't be written as JSON: %v", err)
	}
	if a.Grants == nil {
		grants = JSON{}
	}
	q := Question{Call: c, Reason: a.Reason, DisplayReason: a.display(), Grants: grants}
	may := st.mayAsk(c)
	back := func(context.Context) bool { return true }
	if may {
		back = c.stepAside()
	}
	answer := st.approve(ctx, q, may)
	if ctx.Err() != nil && answer != AllowedOnce {
		return cancelledBefore(ctx)
	}
	details := struct {
		By     string `json:"by"`
		Reason string `json:"reason"`
	}{by, a.Reason}
	switch answer {
	case AllowedOnce:
		if !back(ctx) {
			return cancelledBefore(ctx)
		}
		c.grants = grants
		return nil
	case Rejected:
		why := ""
		if !may {
			why = ", since nobody is asked here"
		}
		return Fail(CodeApprovalRejected, "the call was not approved"+why+": "+q.DisplayReason, details)
	case Dismissed:
		return Fail(CodeApprovalCancelled, "the question whether to approve the call was closed without an answer: "+q.DisplayReason, details)
	}
	return Fail(CodeApprovalUnavailable, "the call needs approval, and none was given: "+q.DisplayReason, details)
}

// stepAside lets others run while somebody is asked about the call. A call that
// may not go on needs no turn any more.
func (c *Call) stepAside() (back func(context.Context) bool) {
	if c.aside == nil {
		return func(context.Context) bool { return true }
	}
	return c.aside()
}

// approve is the answer to a question, which is told of with its answer also
// where nobody may be asked.
func (st *stages) approve(ctx context.Context, q Question, may bool) (a Answer) {
	answered := st.asking(q)
	defer func() { answered(a) }() // however it ends: without an answer a is Unavailable
	switch {
	case !may:
		return Rejected
	case st.approver == nil:
		return Unavailable
	}
	defer func() {
		if p := recover(); p != nil {
			st.fault(q.Call, "approval", "", p)
			a = Unavailable
		}
	}()
	return st.approver.Approve(ctx, q)
}

var errLate = &Error{Code: CodeInternal, Message: "a wrapper called the body after it had returned"}

// execute runs the body inside the wrappers, and waits for every body that
// they began.
func (st *stages) execute(ctx context.Context, c *Call) Outcome {
	var bodies sync.WaitGroup
	var over atomic.Bool
	var mu sync.Mutex // of over and bodies.Add
	body := func(own context.Context) Outcome {
		mu.Lock()
		if over.Load() {
			mu.Unlock()
			return Failure(errLate)
		}
		bodies.Add(1)
		mu.Unlock()
		defer bodies.Done()
		// Fused again: whatever a wrapper made of the context, the caller's
		// cancellation reaches the body.
		fused, cancel := context.WithCancelCause(own)
		defer cancel(nil)
		defer context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })()
		if ctx.Err() != nil {
			cancel(context.Cause(ctx)) // AfterFunc takes its time
		}
		if c.tool.timeout > 0 {
			var stop context.CancelFunc
			fused, stop = context.WithTimeoutCause(fused, c.tool.timeout, errTimeout)
			defer stop()
		}
		return st.body(fused, c)
	}
	wrapped := Body(body)
	for i := len(st.wrappers) - 1; i >= 0; i-- {
		w, next := st.wrappers[i], wrapped
		wrapped = func(ctx context.Context) Outcome { return st.wrap(ctx, c, w, next) }
	}
	o := wrapped(ctx)
	mu.Lock()
	over.Store(true)
	mu.Unlock()
	bodies.Wait()
	if o.failure == nil && o.value.IsZero() {
		return Failure(Failf(CodeInternal, "a wrapper of %s returned no outcome", c.name))
	}
	return o
}

func (st *stages) wrap(ctx context.Context, c *Call, w named[Wrapper], next Body) (o Outcome) {
	defer func() {
		if p := recover(); p != nil {
			st.fault(c, "execute", w.name, p)
			o = Failure(Failf(CodeInternal, "%s failed around %s", w.name, c.name))
		}
	}()
	return w.f(ctx, c, next)
}

func (st *stages) body(ctx context.Context, c *Call) (o Outcome) {
	defer func() {
		if p := recover(); p != nil {
			st.fault(c, "body", c.name, p)
			o = Failure(Failf(CodeToolPanic, "%s failed inside; this is a fault of the tool", c.name))
		}
	}()
	o = c.tool.execute(ctx, c)
	if c.tool.project != nil && o.OK() {
		o.content = c.tool.project(c, o.content)
	}
	return o
}

// postExecute runs the PostExecute chain. A listener sees what those before left.
func (st *stages) postExecute(ctx context.Context, c *Call, o Outcome) Outcome {
	for _, l := range st.post {
		switch d := st.askPost(ctx, c, l, o).(type) {
		case Accept:
		case AcceptContent:
			o.content = d.Content
		case AcceptValue:
			value, err := MarshalValue(d.Value)
			if err != nil {
				return Failure(Failf(CodeInvalidOutput, "the value that %s put in place can't be written as JSON: %v", l.name, err))
			}
			if o = st.replaced(c, l.name, value); !o.OK() {
				return o
			}
		case Block:
			return Failure(Fail(CodeBlocked, d.Feedback, map[string]string{"by": l.name}))
		default:
			return Failure(Fail(CodeBlocked, l.name+" could not judge the result, so it is withheld", map[string]string{"by": l.name}))
		}
	}
	return o
}

func (st *stages) askPost(ctx context.Context, c *Call, l named[PostExecute], o Outcome) (d PostDecision) {
	defer func() {
		if p := recover(); p != nil {
			st.fault(c, "post-execute", l.name, p)
			d = nil
		}
	}()
	return l.f(ctx, c, Result{id: c.id, value: o.value, content: o.content, meta: o.meta})
}

func (st *stages) replaced(c *Call, by string, value JSON) (o Outcome) {
	defer func() {
		if p := recover(); p != nil {
			st.fault(c, "render", by, p)
			o = Failure(Failf(CodeToolPanic, "%s failed on the value that %s put in place", c.name, by))
		}
	}()
	return c.tool.replace(c, value)
}

// finish makes the outcome the result: normalised, with the tool's last word on
// the content, frozen, and shown to the observers. It runs exactly once for a
// call.
func (st *stages) finish(c *Call, o Outcome) Result {
	c.ended.Store(true)
	o = normalise(o)
	r := Result{id: c.id, name: c.name, args: c.args, tool: c.tool, value: o.value, failure: o.failure, content: o.content, meta: o.meta}
	if c.tool != nil && c.tool.finalize != nil {
		r.content = st.finalize(c, c.tool, r)
	}
	r = freeze(r)
	c.frozen = &r
	for _, l := range st.observers {
		st.contained(c, "observer", l.name, func() { l.f(c, r) })
	}
	return r
}

// normalise gives every outcome the same form, whoever made it: a value or a
// failure, never both; a failure in one sentence, which is what a model reads
// where nothing else was rendered.
func normalise(o Outcome) Outcome {
	if o.failure == nil {
		return o
	}
	o.value, o.failure = JSON{}, o.failure.short()
	if len(o.content) == 0 {
		o.content = []Content{Text(o.failure.Message)}
	}
	return o
}

// freeze is the snapshot that the caller, observers and a log get. Its content
// is bounded, and nobody else has a hand on it.
func freeze(r Result) Result {
	if len(r.content) == 0 && r.failure != nil {
		r.content = []Content{Text(r.failure.Message)}
	}
	r.content = bounded(r.content)
	return r
}

func (st *stages) finalize(c *Call, tool *Tool, r Result) (content []Content) {
	defer func() {
		if p := recover(); p != nil {
			st.fault(c, "finalize", tool.name, p)
			content = r.content
		}
	}()
	return tool.finalize(c, r.OK(), r.Content())
}

func errorAs[T error](err error) (T, bool) {
	var t T
	ok := errors.As(err, &t)
	return t, ok
}
