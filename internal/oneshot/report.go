package oneshot

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"unicode/utf8"

	"github.com/dshx/dshx/internal/result"
	"github.com/dshx/dshx/sandbox"
	"github.com/dshx/dshx/sandboxpolicy"
	"golang.org/x/sys/unix"
)

type errorObject struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// event is a line of --status-fd.
type event struct {
	Event       string               `json:"event"`
	Pid         int                  `json:"pid,omitempty"`
	Enforcement *sandbox.Enforcement `json:"enforcement,omitempty"`
	Error       *errorObject         `json:"error,omitempty"`
	*exited
}

type exited struct {
	ExitCode    *int        `json:"exitCode"`
	Signal      *string     `json:"signal"`
	TimedOut    bool        `json:"timedOut"`
	DurationMs  int64       `json:"durationMs"`
	LeftBehind  int         `json:"leftBehind"`
	SandboxInfo exitedFacts `json:"sandbox"`
}

type exitedFacts struct {
	Denials []sandbox.Denial       `json:"denials"`
	Notices []sandboxpolicy.Notice `json:"notices"`
}

// value is what --json prints: the canonical value of bash for an argv.
type value struct {
	Kind       string   `json:"kind"`
	Argv       []string `json:"argv,omitempty"`
	ArgvBase64 []string `json:"argvBase64,omitempty"`
	result.Ended
}

func newCaptured(workspace string) *result.Output {
	return result.NewOutput(func() (string, error) { return sandbox.Spill(workspace) })
}

// printJSON prints a line, or says on standard error that it can't be written.
func printJSON(v any) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	if err == nil {
		err = writeAll(1, b.Bytes())
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "dshx: the result can't be written: %v\n", err)
	}
}

// writeStatus writes one line to a descriptor of the caller's. A reader that
// is gone is no reason to end the command. Without a descriptor it does nothing.
func writeStatus(fd int, e event) {
	if fd < 0 {
		return
	}
	b, err := json.Marshal(e)
	if err != nil {
		return
	}
	for b = append(b, '\n'); len(b) > 0; {
		n, err := unix.Write(fd, b)
		if err == unix.EINTR || err == unix.EAGAIN {
			if err == unix.EAGAIN {
				_, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}, -1)
			}
			continue
		}
		if err != nil {
			return
		}
		b = b[n:]
	}
}

// report tells what happened, on every channel that was asked for.
func (r *run) report(st *sandbox.State, left []int) {
	failed := st.Signal != 0 || st.ExitCode != 0 || r.timedOut
	denials := r.cmd.Denials()
	p := r.scope.Policy()
	said := ""
	if r.streams != nil && failed {
		said = string(r.streams.Stderr.Bytes())
		denials = append(denials, sandbox.Attribute(p, r.cwd(), said, denials)...)
	}
	if failed {
		denials = append(denials, r.cmd.GainRefused()...)
	}
	if r.o.JSON || r.o.StatusFD >= 0 {
		notices := r.scope.Notices()
		limit := result.LimitOf(st, p.Limits(), said)
		if limit != nil {
			notices = append(notices, result.LimitNotice(st, limit))
		}
		notices = append(notices, r.scope.NewGitDirs(st.Started)...)
		code, sig := result.Ending(st)
		if r.o.StatusFD >= 0 {
			writeStatus(r.o.StatusFD, event{Event: "exited", exited: &exited{
				code, sig, r.timedOut, st.Duration.Milliseconds(), len(left), exitedFacts{denials, notices}}})
		}
		if r.o.JSON {
			printJSON(r.value(st, left, limit, denials, notices))
		}
	}
	if failed && !r.o.Quiet && !r.o.JSON {
		printDenials(denials)
	}
}

// maxLines is how many denials are told on standard error.
const maxLines = 5

func printDenials(ds []sandbox.Denial) {
	for i, d := range ds {
		if i == maxLines {
			fmt.Fprintf(os.Stderr, "dshx: … and %d more; --json lists them\n", len(ds)-i)
			return
		}
		line := fmt.Sprintf("denied %s %s (%s)", d.Operation, d.Target, d.Rule.Text)
		if d.Remedy != "" {
			line += ": " + d.Remedy
		}
		fmt.Fprintf(os.Stderr, "dshx: %s\n", OneLine(line))
	}
}

func (r *run) cwd() string { return r.scope.Policy().Cwd() }

func (r *run) value(st *sandbox.State, left []int, limit *result.Limit, denials []sandbox.Denial, notices []sandboxpolicy.Notice) value {
	code, sig := result.Ending(st)
	v := value{Kind: "foreground", Ended: result.Ended{
		Cwd: r.cwd(), ExitCode: code, Signal: sig, TimedOut: r.timedOut,
		DurationMs: st.Duration.Milliseconds(), Encoding: result.UTF8,
		Limit:   limit,
		Sandbox: result.Sandbox{Enforcement: r.scope.Enforcement(), Denials: denials, Notices: notices},
	}}
	if r.o.Timeout > 0 {
		ms := r.o.Timeout.Milliseconds()
		v.TimeoutMs = &ms
	}
	if len(left) > 0 {
		v.LeftBehind = &result.LeftBehind{Pids: left}
	}
	v.Argv = r.o.Argv
	for _, a := range r.o.Argv {
		if !utf8.ValidString(a) {
			v.Argv = nil
		}
	}
	if v.Argv == nil {
		for _, a := range r.o.Argv {
			v.ArgvBase64 = append(v.ArgvBase64, base64.StdEncoding.EncodeToString([]byte(a)))
		}
	}
	if r.streams != nil {
		r.streams.Fill(&v.Ended)
	}
	return v
}
