package oneshot

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"unicode/utf8"

	"github.com/dshx/dshx/internal/capture"
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
	Kind        string       `json:"kind"`
	Argv        []string     `json:"argv,omitempty"`
	ArgvBase64  []string     `json:"argvBase64,omitempty"`
	Cwd         string       `json:"cwd"`
	ExitCode    *int         `json:"exitCode"`
	Signal      *string      `json:"signal"`
	TimedOut    bool         `json:"timedOut"`
	TimeoutMs   *int64       `json:"timeoutMs"`
	Stdout      string       `json:"stdout"`
	Stderr      string       `json:"stderr"`
	StdoutBytes int64        `json:"stdoutBytes"`
	StderrBytes int64        `json:"stderrBytes"`
	Truncated   bool         `json:"truncated"`
	Encoding    string       `json:"encoding"`
	Spill       *spill       `json:"spill"`
	DurationMs  int64        `json:"durationMs"`
	Limit       *limit       `json:"limit"`
	Changes     any          `json:"changes"`
	LeftBehind  *leftBehind  `json:"leftBehind"`
	Sandbox     sandboxFacts `json:"sandbox"`
}

type spill struct {
	Stdout   *string `json:"stdout"`
	Stderr   *string `json:"stderr"`
	Bytes    int64   `json:"bytes"`
	Complete bool    `json:"complete"`
}

type limit struct {
	Name  string `json:"name"`
	Value any    `json:"value"`
}

type leftBehind struct {
	JobID *string `json:"jobId"`
	Pids  []int   `json:"pids"`
}

type sandboxFacts struct {
	Enforcement sandbox.Enforcement    `json:"enforcement"`
	Denials     []sandbox.Denial       `json:"denials"`
	Notices     []sandboxpolicy.Notice `json:"notices"`
}

// captured is the output of a command whose result is printed as JSON.
type captured struct {
	stdout, stderr *capture.Stream
	spill          *capture.Spill
}

func newCaptured(workspace string) *captured {
	var dir string
	sp := &capture.Spill{}
	sp.Create = func(stream string) (*os.File, error) {
		if dir == "" {
			var err error
			if dir, err = sandbox.Spill(workspace); err != nil {
				return nil, err
			}
		}
		return os.OpenFile(filepath.Join(dir, stream), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	}
	return &captured{capture.NewStream("stdout", sp), capture.NewStream("stderr", sp), sp}
}

// printJSON prints a line, or says on standard error that it can't be written.
func printJSON(v any) {
	b, err := json.Marshal(v)
	if err == nil {
		err = writeAll(1, append(b, '\n'))
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

func ending(st *sandbox.State) (code *int, sig *string) {
	if st.Signal != 0 {
		name := unix.SignalName(st.Signal)
		if name == "" {
			name = fmt.Sprintf("SIG%d", st.Signal)
		}
		return nil, &name
	}
	c := st.ExitCode
	return &c, nil
}

// report tells what happened, on every channel that was asked for.
func (r *run) report(st *sandbox.State, left []int) {
	failed := st.Signal != 0 || st.ExitCode != 0 || r.timedOut
	denials := r.cmd.Denials()
	p := r.scope.Policy()
	if r.streams != nil && failed {
		denials = append(denials, sandbox.Attribute(p, r.cwd(), string(r.streams.stderr.Bytes()), denials)...)
	}
	if failed {
		denials = append(denials, r.cmd.GainRefused()...)
	}
	if r.o.JSON || r.o.StatusFD >= 0 {
		notices := r.scope.Notices()
		if l := limitOf(st, p.Limits()); l != nil {
			notices = append(notices, sandboxpolicy.Notice{Kind: "limit", Text: "the limit " + l.Name + " ended the command"})
		}
		notices = append(notices, r.scope.NewGitDirs(st.Started)...)
		code, sig := ending(st)
		if r.o.StatusFD >= 0 {
			writeStatus(r.o.StatusFD, event{Event: "exited", exited: &exited{
				code, sig, r.timedOut, st.Duration.Milliseconds(), len(left), exitedFacts{denials, notices}}})
		}
		if r.o.JSON {
			printJSON(r.value(st, left, denials, notices))
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

func (r *run) value(st *sandbox.State, left []int, denials []sandbox.Denial, notices []sandboxpolicy.Notice) value {
	code, sig := ending(st)
	v := value{
		Kind: "foreground", Cwd: r.cwd(), ExitCode: code, Signal: sig, TimedOut: r.timedOut,
		DurationMs: st.Duration.Milliseconds(), Encoding: "utf-8",
		Limit:   limitOf(st, r.scope.Policy().Limits()),
		Sandbox: sandboxFacts{r.scope.Enforcement(), denials, notices},
	}
	if r.o.Timeout > 0 {
		ms := r.o.Timeout.Milliseconds()
		v.TimeoutMs = &ms
	}
	if len(left) > 0 {
		v.LeftBehind = &leftBehind{Pids: left}
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
	s := r.streams
	if s == nil {
		return v
	}
	out, errs := s.stdout.Bytes(), s.stderr.Bytes()
	v.Stdout, v.Stderr = string(out), string(errs)
	if !utf8.Valid(out) || !utf8.Valid(errs) {
		v.Encoding = "base64"
		v.Stdout, v.Stderr = base64.StdEncoding.EncodeToString(out), base64.StdEncoding.EncodeToString(errs)
	}
	v.StdoutBytes, v.StderrBytes = s.stdout.Total(), s.stderr.Total()
	v.Truncated = s.stdout.Truncated() || s.stderr.Truncated()
	if v.Truncated {
		sp := &spill{}
		if f := s.stdout.File(); f != "" {
			sp.Stdout = &f
		}
		if f := s.stderr.File(); f != "" {
			sp.Stderr = &f
		}
		sp.Bytes, sp.Complete = s.spill.Stats()
		v.Spill = sp
	}
	return v
}

// limitOf tells which limit ended the command, by the signal that the kernel
// sends for it (setrlimit(2)).
func limitOf(st *sandbox.State, l sandboxpolicy.Limits) *limit {
	switch {
	case st.Signal == unix.SIGXCPU && l.CPUTime > 0:
		return &limit{"cpu-time", l.CPUTime.Milliseconds()}
	case st.Signal == unix.SIGXFSZ && l.FileSize > 0:
		return &limit{"file-size", l.FileSize}
	}
	return nil
}
