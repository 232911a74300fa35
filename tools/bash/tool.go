package bash

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/dshx/dshx/internal/result"
	"github.com/dshx/dshx/jobs"
	"github.com/dshx/dshx/pipeline"
	"github.com/dshx/dshx/sandbox"
	"github.com/dshx/dshx/sandboxpolicy"
	"github.com/dshx/dshx/tools/permission"
	"golang.org/x/sys/unix"
)

const (
	name = "bash" // the tool's
	kind = "bash" // of its jobs: bash-1, bash-2
)

const (
	maxTimeout = 600 * time.Second
	// maxCommand is the longest argument that the kernel takes, MAX_ARG_STRLEN
	// in include/uapi/linux/binfmts.h, without the NUL at its end.
	maxCommand = 128<<10 - 1
)

// Domains says in which domain a call works. release is called when nothing
// of the call runs there any more.
//
// Errors go to the caller, with their codes: SANDBOX_UNAVAILABLE.
type Domains interface {
	For(c *pipeline.Call) (scope *sandbox.Scope, release func(), err error)
}

// Options are the tool's.
type Options struct {
	Domains Domains
	// Jobs says who has the jobs of a call.
	Jobs func(c *pipeline.Call) *jobs.Owner
	// SpillDir says in which private directory (sandbox.Spill makes one) a call
	// whose output is too long gets a directory of its own. It should be in the
	// Read of the request that the call's domain is opened with, since what is
	// private to a run is refused to commands otherwise. nil: one is made for each
	// call, which people can read, and no command or file tool.
	SpillDir func(c *pipeline.Call) string
	// Timeout, unless 0, is the longest that a command in the foreground may run,
	// whatever its call asks for.
	Timeout time.Duration
	// KillAfter is the time between SIGTERM and SIGKILL; 0:
	// sandbox.DefaultKillAfter.
	KillAfter time.Duration
}

// Args are the tool's arguments.
type Args struct {
	Command         string            `json:"command" schema:"min=1" doc:"what bash -c runs"`
	Description     string            `json:"description,omitzero" schema:"max=1000" doc:"what the command is for, in a few words, for people"`
	Workdir         string            `json:"workdir,omitzero" schema:"min=1" doc:"where to run it: absolute, or relative to the workspace; the workspace by default"`
	TimeoutMs       int64             `json:"timeout_ms,omitzero" schema:"min=1" default:"120000" doc:"after how many milliseconds the command is ended with all it started; more than 600000 is 600000; ignored in the background"`
	RunInBackground bool              `json:"run_in_background,omitzero" default:"false" doc:"start it as a job and return its id at once"`
	Interactive     bool              `json:"interactive,omitzero" default:"false" doc:"keep standard input open for job_input; in the background only"`
	Stdin           string            `json:"stdin,omitzero" doc:"what the command reads; nothing by default"`
	Pty             bool              `json:"pty,omitzero" default:"false" doc:"run it on a terminal; both streams are stdout then"`
	Rows            int               `json:"rows,omitzero" schema:"min=1,max=10000" default:"40" doc:"of the terminal"`
	Cols            int               `json:"cols,omitzero" schema:"min=1,max=10000" default:"120" doc:"of the terminal"`
	Env             map[string]string `json:"env,omitzero" doc:"environment variables to add or replace"`
	permission.Args
	DryRun bool `json:"dry_run,omitzero" default:"false" doc:"not in this version"`
}

// Value is the tool's canonical value. In the background Ended is nil, and its
// members are left out; Cwd and TimeoutMs stand for those of Ended in both.
type Value struct {
	Kind    string `json:"kind"`
	JobID   string `json:"jobId,omitzero"` // in the background only
	Command string `json:"command"`
	Cwd     string `json:"cwd"`
	// TimeoutMs is the timeout that applied; nil in the background.
	TimeoutMs *int64 `json:"timeoutMs"`
	*result.Ended
}

// Kinds of values.
const (
	Foreground = "foreground"
	Background = "background"
)

// outputSchema is Value's: one object, since clients want no union at the root.
func outputSchema() (*pipeline.Schema, error) {
	ended, err := pipeline.SchemaOf[result.Ended](false)
	if err != nil {
		return nil, err
	}
	text := func(doc string, enum ...string) *pipeline.Schema {
		return &pipeline.Schema{Types: []string{"string"}, Description: doc, Enum: enum}
	}
	s := &pipeline.Schema{Types: []string{"object"}, Properties: []pipeline.Property{
		{Name: "kind", Schema: text("the background has cwd and timeoutMs, and nothing that follows", Foreground, Background), Required: true},
		{Name: "jobId", Schema: text("in the background only")},
		{Name: "command", Schema: text(""), Required: true},
	}}
	for _, p := range ended.Properties {
		p.Required = p.Name == "cwd" || p.Name == "timeoutMs"
		s.Properties = append(s.Properties, p)
	}
	return s, nil
}

//go:embed bash.md
var description string

type tool struct{ o Options }

// Register adds the tool to a scope; undo takes it away, and leaves alone what
// it has running.
func Register(scope *pipeline.Scope, o Options) (undo func(), err error) {
	t, err := New(o)
	if err != nil {
		return nil, err
	}
	return scope.Register(t)
}

// New defines the tool.
func New(o Options) (*pipeline.Tool, error) {
	if o.Domains == nil || o.Jobs == nil {
		return nil, errors.New("tool bash: Domains and Jobs are needed")
	}
	output, err := outputSchema()
	if err != nil {
		return nil, fmt.Errorf("tool bash: %w", err)
	}
	t := &tool{o}
	return pipeline.Define(pipeline.Spec[Args, Value]{
		Name: name, Title: "Run a command", Description: strings.TrimSpace(description),
		Hints:         pipeline.Hints{Destructive: true, OpenWorld: true},
		Output:        output,
		Execute:       t.execute,
		Render:        render,
		Meta:          presentationMeta,
		PresentCall:   presentCall,
		PresentResult: presentResult,
	})
}

func (t *tool) execute(ctx context.Context, a Args, call *pipeline.Call) (Value, error) {
	if bad := check(&a); bad != nil {
		return Value{}, pipeline.Fail(pipeline.CodeInvalidArgs, bad.Error(), bad)
	}
	if ctx.Err() != nil {
		return Value{}, pipeline.Failf(pipeline.CodeCancelled, "the call was cancelled before the command was started")
	}
	scope, release, err := t.o.Domains.For(call)
	if err != nil {
		return Value{}, err
	}
	cwd, err := directory(scope.Policy(), a.Workdir)
	if err != nil {
		release()
		return Value{}, err
	}
	v := Value{Command: a.Command, Cwd: valid(cwd)}
	if a.RunInBackground {
		v.Kind = Background
		v.JobID, err = t.background(ctx, &a, scope, release, cwd, call)
		return v, err
	}
	v.Kind = Foreground
	if ctx.Err() != nil {
		release()
		return Value{}, pipeline.Failf(pipeline.CodeCancelled, "the call was cancelled before the command was started")
	}
	p, err := start(&a, scope, release, cwd, t.o.KillAfter)
	if err != nil {
		return Value{}, err
	}
	v.Ended, err = t.foreground(ctx, &a, p, t.timeout(a.TimeoutMs), call)
	if v.Ended != nil {
		v.TimeoutMs = v.Ended.TimeoutMs
	}
	var partial *pipeline.Partial
	if errors.As(err, &partial) {
		partial.Value = v
	}
	return v, err
}

func (t *tool) timeout(ms int64) time.Duration {
	// First: milliseconds beyond the largest Duration must not wrap.
	d := time.Duration(min(ms, maxTimeout.Milliseconds())) * time.Millisecond
	if t.o.Timeout > 0 {
		d = min(d, t.o.Timeout)
	}
	return d
}

// background starts the job of a call.
func (t *tool) background(ctx context.Context, a *Args, scope *sandbox.Scope, release func(), cwd string, call *pipeline.Call) (id string, err error) {
	tried := false
	job, err := t.o.Jobs(call).Start(ctx, jobs.Spec{
		Kind: kind, Label: label(a), ParentCallID: call.ID(),
		Start: func(_ context.Context, out jobs.Output) (jobs.Producer, error) {
			tried = true
			p, err := start(a, scope, release, cwd, t.o.KillAfter)
			if err != nil {
				return nil, err
			}
			return &producer{process: p, out: out, whole: true}, nil
		},
	})
	if !tried {
		release()
	}
	return job.ID, err
}

// check finds what a schema can't say.
func check(a *Args) *pipeline.Violation {
	bad := func(path, expected, got string) *pipeline.Violation {
		return &pipeline.Violation{Path: path, Expected: expected, Got: got}
	}
	switch {
	case a.DryRun:
		return bad("dry_run", "false: it is not in this version", "true")
	case len(a.Command) > maxCommand:
		return bad("command", fmt.Sprintf("at most %d bytes, which is all that the kernel passes in one argument; put it into a file and run that", maxCommand), fmt.Sprintf("%d bytes", len(a.Command)))
	case strings.Contains(a.Command, "\x00"):
		return bad("command", "without NUL, which no argument can hold", "a string with NUL")
	case strings.Contains(a.Workdir, "\x00"):
		return bad("workdir", "without NUL", "a string with NUL")
	case a.Interactive && !a.RunInBackground:
		return bad("interactive", "false without run_in_background: give stdin instead", "true")
	}
	for name, value := range a.Env {
		switch {
		case name == "" || strings.ContainsAny(name, "=\x00"):
			return bad("env", "names that are not empty, without = and NUL", fmt.Sprintf("%q", name))
		case name == startupFile:
			return bad("env."+name, "absent: a command begins without startup files", "set")
		case strings.Contains(value, "\x00"):
			return bad("env."+name, "without NUL", "a string with NUL")
		}
	}
	return nil
}

// directory is where a call runs. It must be one that the policy lets the
// command read: entering it is not judged by the kernel.
//
// Errors: FS_NOT_FOUND, FS_NOT_DIRECTORY, FS_SYMLINK_LOOP, FS_INVALID_PATH,
// FS_PERMISSION_DENIED, SANDBOX_DENIED.
func directory(p *sandboxpolicy.Policy, workdir string) (string, error) {
	path := workdir
	switch {
	case path == "":
		path = p.Cwd()
	case !filepath.IsAbs(path):
		path = p.Workspace() + "/" + path // uncleaned: link/.. is where a process would be
	}
	fail := func(code, what string) (string, error) {
		return "", pipeline.Failf(code, "the working directory %s %s", valid(path), what)
	}
	real, err := p.ResolvePath(sandboxpolicy.OpRead, path, sandboxpolicy.OSFacts{})
	if err != nil {
		if _, e := os.Stat(path); errors.Is(e, unix.ELOOP) {
			return fail("FS_SYMLINK_LOOP", "leads through links that never end")
		}
		return fail("FS_INVALID_PATH", "can't be resolved: "+valid(err.Error()))
	}
	if v := p.Verdict(sandboxpolicy.OpRead, real); !v.Allow {
		d := sandbox.Denial{Operation: sandboxpolicy.OpRead, Target: valid(path), Resolved: valid(real), Rule: v.Rule, Evidence: "supervisor",
			Remedy: valid(permission.WithOffer(v.Remedy, permission.Offer(p, []sandboxpolicy.Op{sandboxpolicy.OpRead}, real, "", v.Rule)))}
		message := fmt.Sprintf("the working directory %s may not be read (%s)", valid(path), valid(v.Rule.Text))
		if d.Remedy != "" {
			message += ": " + d.Remedy
		}
		return "", pipeline.Fail("SANDBOX_DENIED", message, map[string]any{"denial": d})
	}
	fi, err := os.Stat(real)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return fail("FS_NOT_FOUND", "does not exist")
	case errors.Is(err, unix.ENOTDIR) || err == nil && !fi.IsDir():
		return fail("FS_NOT_DIRECTORY", "is not a directory")
	case errors.Is(err, os.ErrPermission) || err == nil && unix.Faccessat(unix.AT_FDCWD, real, unix.X_OK, unix.AT_EACCESS) != nil:
		return fail("FS_PERMISSION_DENIED", "can't be entered by this user")
	case errors.Is(err, unix.ENAMETOOLONG):
		return fail("FS_INVALID_PATH", "has too long a name")
	case err != nil:
		return fail("FS_IO_ERROR", "can't be looked at: "+valid(err.Error()))
	}
	return real, nil
}

func (t *tool) spill(scope *sandbox.Scope, call *pipeline.Call) func() (string, error) {
	if t.o.SpillDir == nil {
		return func() (string, error) { return sandbox.Spill(scope.Policy().Workspace()) }
	}
	return func() (string, error) { return os.MkdirTemp(t.o.SpillDir(call), "bash-") } // 0700
}

// valid makes a name that is no UTF-8 fit for JSON.
func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// maxLabel is how much of a command names it, in bytes.
const maxLabel = 200

// label is what people know the command by.
func label(a *Args) string {
	s := a.Description
	if s == "" {
		s = a.Command
	}
	s, more, _ := strings.Cut(strings.TrimSpace(s), "\n")
	if s == "" {
		return kind
	}
	if len(s) > maxLabel {
		return strings.ToValidUTF8(s[:maxLabel], "") + " …"
	}
	if more != "" {
		s += " …"
	}
	return s
}
