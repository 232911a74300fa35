package pipeline

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"strings"
)

// Codes of the failures that the pipeline itself makes; bodies have their own.
const (
	CodeInvalidArgs         = "INVALID_ARGS"
	CodeUnknownTool         = "UNKNOWN_TOOL"
	CodeParseError          = "PARSE_ERROR"  // a front door's: what came is no request
	CodeDuplicateID         = "DUPLICATE_ID" // a front door's: a call with this id is in flight
	CodeDenied              = "DENIED"
	CodeApprovalRejected    = "APPROVAL_REJECTED"
	CodeApprovalCancelled   = "APPROVAL_CANCELLED"
	CodeApprovalUnavailable = "APPROVAL_UNAVAILABLE"
	CodeCancelled           = "CANCELLED"
	CodeAborted             = "ABORTED"
	CodeTimeout             = "TIMEOUT"
	CodeBlocked             = "BLOCKED"
	CodeInvalidOutput       = "INVALID_OUTPUT"
	CodeToolPanic           = "TOOL_PANIC"
	CodeInternal            = "INTERNAL"
)

// Error is a failure as programs see it: a stable code, one sentence, and
// details of a shape that belongs to the code. It is immutable.
type Error struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Details JSON   `json:"details,omitzero"`
}

// Error is the code and the sentence.
func (e *Error) Error() string { return e.Code + ": " + e.Message }

// maxMessage bounds the sentence of a failure, in bytes: what it quotes may be
// of any length.
const maxMessage = 4 << 10

// short is e with a message within bounds.
func (e *Error) short() *Error {
	if len(e.Message) <= maxMessage {
		return e
	}
	return &Error{e.Code, cutText(e.Message, maxMessage), e.Details}
}

// kept is e as presentation gets it and a log keeps it: what the tool had of its
// value stays out. nil for nil.
func (e *Error) kept() *Error {
	if e == nil {
		return nil
	}
	return &Error{e.Code, e.Message, withoutMember(e.Details, partialMember)}
}

// Failf makes an Error without details.
func Failf(code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Fail makes an Error with details, which any JSON value may be. Details that
// can't be marshalled are left out: a failure must not fail.
func Fail(code, message string, details any) *Error {
	e := &Error{Code: code, Message: message}
	if j, err := MarshalValue(details); err == nil && details != nil {
		e.Details = j
	}
	return e
}

// Partial is the error of a body that was interrupted: Value is what it had
// produced so far, of the tool's own type. It becomes the failure's content
// and details.partial.
type Partial struct {
	Value any
	Cause error // why; the context's error where nil
}

// Error is the cause's.
func (p *Partial) Error() string {
	if p.Cause == nil {
		return "interrupted"
	}
	return p.Cause.Error()
}

// Unwrap is the cause.
func (p *Partial) Unwrap() error { return p.Cause }

// errTimeout is the cause of a context whose tool's own deadline passed.
var errTimeout = errors.New("the tool's deadline passed")

// classify makes a body's error an Error. caller is the caller's context, own
// the body's.
func classify(err error, caller, own context.Context) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	var coded interface {
		error
		Code() string
	}
	if errors.As(err, &coded) {
		e := &Error{Code: coded.Code(), Message: coded.Error()}
		var detailed interface{ Details() any }
		if errors.As(err, &detailed) {
			e.Details, _ = MarshalValue(detailed.Details())
		}
		return e
	}
	switch {
	case caller.Err() != nil:
		return &Error{Code: CodeAborted, Message: "the call was cancelled while it ran" + reasonOf(caller)}
	case errors.Is(own.Err(), context.DeadlineExceeded): // the tool's, or a wrapper's
		return &Error{Code: CodeTimeout, Message: "the tool did not end within its deadline"}
	}
	return &Error{Code: CodeInternal, Message: err.Error()}
}

// CancelReason is a cancellation's cause that says who wanted it; give it to a
// context.CancelCauseFunc.
type CancelReason string

// Error is the reason.
func (r CancelReason) Error() string { return string(r) }

func reasonOf(ctx context.Context) string {
	var r CancelReason
	if errors.As(context.Cause(ctx), &r) && r != "" {
		return ": " + string(r)
	}
	return ""
}

// nearest are the names closest to name, best first, at most three: those that
// a slip of the keyboard explains.
func nearest(name string, names []string) []string {
	type scored struct {
		name string
		d    int
	}
	var found []scored
	low := strings.ToLower(name)
	for _, n := range names {
		d := distance(low, strings.ToLower(n))
		if d <= 1+len(n)/3 || len(low) > 2 && strings.Contains(strings.ToLower(n), low) || len(n) > 2 && strings.Contains(low, strings.ToLower(n)) {
			found = append(found, scored{n, d})
		}
	}
	sort.SliceStable(found, func(i, j int) bool { return found[i].d < found[j].d })
	var out []string
	for _, f := range found {
		if len(out) == 3 {
			break
		}
		out = append(out, f.name)
	}
	return out
}

// distance is Levenshtein's, of strings of sane length.
func distance(a, b string) int {
	if len(a) > 100 || len(b) > 100 {
		return 100
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := diagonal
			if a[i-1] != b[j-1] {
				cost++
			}
			diagonal = row[j]
			row[j] = min(cost, row[j]+1, row[j-1]+1)
		}
	}
	return row[len(b)]
}
