package oneshot

import (
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/dshx/dshx/internal/sigpipe"
	"github.com/dshx/dshx/internal/ttyprompt"
	"github.com/dshx/dshx/sandboxpolicy"
	"golang.org/x/sys/unix"
)

// Rules are what a policy's command rules say of a command: "allow", "ask" or
// "deny", and why.
type Rules func(p *sandboxpolicy.Policy, argv []string) (verdict, reason string)

// askTimeout is how long an answer is waited for: approval.DefaultTimeout, which
// is not linked here.
const askTimeout = 10 * time.Minute

// ErrRules is the error of a run that can't go on without Rules. What they
// need, a parser of shell scripts, would cost every run its initialisation.
var ErrRules = errors.New("the policy has command rules")

// refusal is the error of a command that was not approved, or may not be.
type refusal struct{ code, msg string }

func (e *refusal) Error() string { return e.msg }

// Code is the stable code of the error.
func (e *refusal) Code() string { return e.code }

// accept applies the command rules before anything is put in force.
func (r *run) accept(p *sandboxpolicy.Policy) error {
	if !p.HasCommandRules() {
		return nil
	}
	if r.o.Rules == nil {
		return ErrRules
	}
	verdict, reason := r.o.Rules(p, r.o.Argv)
	switch {
	case verdict == "allow":
		return nil
	case verdict != "ask":
		return &refusal{"DENIED", reason}
	case p.Approvals() != "ask":
		return &refusal{"APPROVAL_REJECTED", "the command was not approved, since this preset asks nobody: " + reason}
	}
	// So that Ctrl-C is an answer; the command's signals are caught anyway.
	ends := []unix.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT}
	if err := sigpipe.Catch(ends...); err != nil {
		return err
	}
	var over atomic.Bool
	defer time.AfterFunc(askTimeout, func() { over.Store(true); sigpipe.Wake() }).Stop()
	yes, err := ttyprompt.Confirm("dshx: "+strings.Join(r.o.Argv, " ")+"\n"+reason+"\nAllow this once?", func(fd int) (stop bool, err error) {
		stop, _, err = sigpipe.Wait(fd, -1)
		return stop, err
	})
	switch {
	case over.Load() && err != nil:
		return &refusal{"APPROVAL_UNAVAILABLE", "the command needs approval, and none was given in " + askTimeout.String() + ": " + reason}
	case errors.Is(err, ttyprompt.ErrClosed), errors.Is(err, ttyprompt.ErrStopped):
		return &refusal{"APPROVAL_CANCELLED", "the question whether to run the command was closed without an answer: " + reason}
	case err != nil:
		return &refusal{"APPROVAL_UNAVAILABLE", "the command needs approval, and none was given, since " + err.Error() + ": " + reason}
	case !yes:
		return &refusal{"APPROVAL_REJECTED", "the command was not approved: " + reason}
	}
	return nil
}
