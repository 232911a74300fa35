package mcp

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/dshx/dshx/approval"
	"github.com/dshx/dshx/pipeline"
	"github.com/go-json-experiment/json/jsontext"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// The answers that a form offers. Nothing is chosen beforehand.
const (
	allowOnce = "allow once"
	reject    = "reject"
)

// maxShown is how much of a call's arguments a question shows, in bytes. Of what
// is longer both ends are shown, and how much is missing between them.
const maxShown = 8 << 10

// errNoElicitation is the error of asking a client that has no questions.
var errNoElicitation = errors.New("the client has no elicitation")

// form is what an answer must fit.
func form() jsontext.Value {
	return jsontext.Value(`{"type":"object","properties":{"decision":{"type":"string","title":"Decision","description":"For this one call","enum":["` + allowOnce + `","` + reject + `"]}},"required":["decision"]}`)
}

// Ask asks the person at the client, if the client lets it, and waits for the
// answer, or for ctx.
func (s *session) Ask(ctx context.Context, q approval.Question) (pipeline.Answer, error) {
	answer, err := s.elicit(ctx, q.Question)
	if err != nil {
		s.log.Info("a question has no answer", "tool", q.Call.Name(), "error", err.Error())
	}
	return answer, err
}

// elicit puts a question to the client's person. What is none of the answers
// that were offered, in every letter, is no answer, whatever the client means by
// it.
func (s *session) elicit(ctx context.Context, q pipeline.Question) (pipeline.Answer, error) {
	p := s.peer.InitializeParams()
	if p == nil || p.Capabilities == nil || p.Capabilities.Elicitation == nil || p.Capabilities.Elicitation.Form == nil && p.Capabilities.Elicitation.URL != nil {
		return pipeline.Unavailable, errNoElicitation
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.answers, func() { cancel(context.Cause(s.answers)) })()
	r, err := s.peer.Elicit(ctx, &sdk.ElicitParams{Message: question(q), RequestedSchema: form()})
	if err != nil {
		return pipeline.Unavailable, err
	}
	decision, _ := r.Content["decision"].(string)
	switch {
	case r.Action == "accept" && decision == allowOnce:
		return pipeline.AllowedOnce, nil
	case r.Action == "accept" && decision == reject, r.Action == "decline":
		return pipeline.Rejected, nil
	case r.Action == "cancel":
		return pipeline.Dismissed, nil
	}
	return pipeline.Unavailable, fmt.Errorf("the answer %q with %q is none of those that were offered", clip(r.Action), clip(decision))
}

// question is what the person reads: which tool, with which arguments, and what
// for.
func question(q pipeline.Question) string {
	args := q.Call.Args().String()
	if n := len(args) - maxShown; n > 0 {
		head, tail := args[:maxShown/2], args[len(args)-maxShown/2:]
		args = fmt.Sprintf("%s\n[… %d bytes are not shown …]\n%s", strings.ToValidUTF8(head, ""), n, strings.ToValidUTF8(tail, ""))
	}
	return "Allow this one call of " + q.Call.Name() + "?\n" + q.DisplayReason + "\n\n" + args
}
