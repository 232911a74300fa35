// Package doctor finds out by trying what this machine can enforce: it puts
// policies in force, starts a child in each, and has it try what it must not
// do, beside the same on something that it may.
//
// Everything that is tried is doctor's own: files, sockets and a process that
// it makes for the purpose. Nothing leaves the machine.
package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/dshx/dshx/sandbox"
	"github.com/dshx/dshx/sandboxpolicy"
)

// Report is what was found out; its JSON is `dshx doctor --json`.
type Report struct {
	Kernel      string              `json:"kernel"`
	LandlockABI int                 `json:"landlockAbi"` // 0: no Landlock
	Mechanisms  []sandbox.Mechanism `json:"mechanisms"`
	// Enforcement has what holds under each preset, by name; under the name
	// of the preset that the request asks for, what holds of the request.
	// Presets that can't be put in force here are missing.
	Enforcement map[string]sandbox.Enforcement `json:"enforcement"`
	// Checks are the attempts, by preset.
	Checks map[string][]Result `json:"checks"`
	// Unavailable says why nothing can be confined here; null otherwise.
	Unavailable *string `json:"unavailable"`
	// Notes are what else a person should know: what of the request was
	// ignored, and which attempts could not be made.
	Notes []string `json:"notes"`

	// Preset is the name of the policy that was asked for, and Presets the
	// order of all.
	Preset  string   `json:"-"`
	Presets []string `json:"-"`
}

// Failed reports that nothing can be enforced here, or that an attempt
// contradicts the policy.
func (r *Report) Failed() bool {
	if r.Unavailable != nil {
		return true
	}
	for _, list := range r.Checks {
		for _, c := range list {
			if c.Status == StatusContradiction {
				return true
			}
		}
	}
	return false
}

// Full reports that no promise of the policy that was asked for is a gap; one
// that promises nothing has none.
func (r *Report) Full() bool {
	e, ok := r.Enforcement[r.Preset]
	return ok && len(e.Gaps) == 0
}

// Result is one attempt.
type Result struct {
	Name      string           `json:"name"`
	Operation sandboxpolicy.Op `json:"operation"`
	Target    string           `json:"target"`
	Verdict   string           `json:"verdict"` // the policy's: allow or deny
	// Refused is what happened; Error what the kernel answered, or null.
	Refused bool    `json:"refused"`
	Error   *string `json:"error"`
	Status  Status  `json:"status"`
	// Note says why the attempt tells nothing, or which gap is open; or null.
	Note *string `json:"note"`
}

// Status is what an attempt tells.
type Status string

const (
	// StatusHeld: it went as the policy says, and a control shows that it
	// would not have gone so anyway.
	StatusHeld Status = "held"
	// StatusGap: it was not refused, and the enforcement names that gap.
	StatusGap Status = "gap"
	// StatusContradiction: it did not go as the policy says.
	StatusContradiction Status = "contradiction"
	// StatusInconclusive: a control failed, so the attempt tells nothing.
	StatusInconclusive Status = "inconclusive"
)

// Run probes the host and the presets, and the policy that req asks for.
//
// Errors: *sandboxpolicy.UsageError, *sandboxpolicy.ConfigError; else what
// keeps doctor from working at all. A host that can't confine is no error.
func Run(req sandboxpolicy.Request) (*Report, error) {
	h := sandbox.ProbeHost()
	h.TryListener()
	r := &Report{
		Kernel: h.Kernel, LandlockABI: h.LandlockABI, Mechanisms: h.Mechanisms(),
		Enforcement: map[string]sandbox.Enforcement{}, Checks: map[string][]Result{},
		Notes: []string{}, Presets: sandboxpolicy.PresetNames(),
	}
	b, err := newBench()
	if err != nil {
		return nil, fmt.Errorf("what the attempts need can't be made: %w", err)
	}
	defer b.close()

	p, notices, err := sandbox.Resolve(req)
	var usage *sandboxpolicy.UsageError
	if req.Workspace == "" && errors.As(err, &usage) && usage.Flag == "" {
		// Where doctor is run says nothing about the host: in a home
		// directory, which is no workspace, it answers for another.
		req.Workspace, req.Cwd = b.path("workspace"), b.path("workspace")
		req.NoCacheArea = true // it would outlive the workspace
		var other error
		if p, notices, other = sandbox.Resolve(req); other == nil {
			r.Notes = append(r.Notes, err.Error()+"; the answers are for a directory that is one")
			err = nil
		}
	}
	if err != nil {
		return nil, err
	}
	r.Preset = p.Preset()
	for _, n := range notices {
		r.Notes = append(r.Notes, n.Text)
	}
	if !slices.Contains(r.Presets, r.Preset) {
		r.Presets = append(r.Presets, r.Preset)
	}
	if err := h.Unusable(); err != nil {
		r.unavailable(err)
	}
	for _, name := range r.Presets {
		of := sandboxpolicy.Request{Preset: name, NoConfig: true, Environ: req.Environ, Workspace: p.Workspace(), AllowBroadWorkspace: true, Cwd: p.Cwd()}
		if name == r.Preset {
			of = req
		}
		if err := r.probe(name, of, b); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func (r *Report) unavailable(err error) {
	s := err.Error()
	r.Unavailable = &s
}

// probe puts one policy in force, as it is, and then once more where the
// attempts do no harm.
func (r *Report) probe(name string, req sandboxpolicy.Request, b *bench) error {
	s, err := sandbox.Open(req)
	var un *sandbox.UnavailableError
	switch {
	case errors.As(err, &un):
		if r.Unavailable == nil {
			r.unavailable(err)
		}
		return nil
	case err != nil:
		return err
	}
	r.Enforcement[name] = s.Enforcement()
	full := s.Policy().Full()
	if err := s.Close(); err != nil {
		return err
	}
	if full {
		return nil // confines nothing, so there is nothing to try
	}
	req.Workspace, req.Cwd = b.path("workspace"), b.path("workspace")
	req.NoCacheArea = true // as above
	req.DenyRead = append(append([]string{}, req.DenyRead...), b.path("denied"))
	// Limits are for the command that is meant, not for a check.
	req.Limits = sandboxpolicy.Limits{}
	results, err := b.check(req)
	if err != nil {
		r.Notes = append(r.Notes, fmt.Sprintf("the attempts under %s can't be made: %v", name, err))
		return nil
	}
	r.Checks[name] = results
	return nil
}

// checkTimeout is how long the child may take; it takes milliseconds.
const checkTimeout = 30 * time.Second

// check runs the attempts under a policy.
func (b *bench) check(req sandboxpolicy.Request) ([]Result, error) {
	s, err := sandbox.Open(req)
	if err != nil {
		return nil, err
	}
	closed := false
	defer func() {
		if !closed {
			_ = s.Close()
		}
	}()
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	order, err := json.Marshal(b.order)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), checkTimeout)
	defer cancel()
	var out, errs bytes.Buffer
	c := s.CommandContext(ctx, exe, CheckCommand)
	c.Stdin, c.Stdout, c.Stderr = bytes.NewReader(order), &out, &errs
	if err := c.Run(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, bytes.TrimSpace(errs.Bytes()))
	}
	var a answer
	if err := json.Unmarshal(out.Bytes(), &a); err != nil {
		return nil, err
	}
	if n := len(attempts()); len(a.Attempts) != n || len(a.Controls) != n {
		return nil, errors.New("the child is another dshx than this one: the file was replaced meanwhile")
	}
	h := sandbox.ProbeHost()
	h.TryListener()
	var results []Result
	for i := range attempts() {
		at := &attempts()[i]
		e, err := sandbox.ExplainOp(s.Policy(), h, at.op, at.target(&b.order), sandboxpolicy.OSFacts{})
		if err != nil {
			return nil, err
		}
		results = append(results, judge(at, e, a.Attempts[i], a.Controls[i], b.outside(i)))
	}
	// Last: what the child left behind must not survive the policy.
	closed = true
	if err := s.Close(); err != nil {
		return nil, err
	}
	return append(results, leftBehind(a.Left)), nil
}

// judge compares an attempt with what the policy says of it. control is the
// same on something that may be done; outside, the attempt itself without a
// sandbox.
func judge(at *attempt, e sandbox.Explanation, got, control, outside outcome) Result {
	r := Result{Name: at.name, Operation: at.op, Target: e.Target, Verdict: e.Verdict, Refused: got.Refused, Error: got.text()}
	note := func(s Status, format string, a ...any) Result {
		r.Status = s
		if format != "" {
			text := fmt.Sprintf(format, a...)
			r.Note = &text
		}
		return r
	}
	denied := e.Verdict != "allow"
	switch {
	case denied && !got.Refused && e.Gap != nil:
		return note(StatusGap, "%s", e.Gap.Promise)
	case denied && !got.Refused:
		return note(StatusContradiction, "the policy refuses it, the kernel did not")
	case !denied && got.Refused && e.Gap != nil:
		return note(StatusGap, "%s", e.Gap.Promise)
	case outside.Refused:
		return note(StatusInconclusive, "it is refused without a sandbox, too: %s", outside.Err)
	case !denied && got.Refused:
		return note(StatusContradiction, "the policy allows it, the kernel did not")
	case control.Err != "":
		return note(StatusInconclusive, "the control fails: %s", control.Err)
	}
	return note(StatusHeld, "")
}
