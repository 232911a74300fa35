// Package result has what the results of commands have in common, whoever ran
// them: dshx exec --json prints one, and the tool bash returns one.
package result

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/dshx/dshx/internal/capture"
	"github.com/dshx/dshx/sandbox"
	"github.com/dshx/dshx/sandboxpolicy"
	"golang.org/x/sys/unix"
)

// Encodings of captured output.
const (
	UTF8   = "utf-8"
	Base64 = "base64"
)

// Ended is how a command ended and what it printed, in the order of the
// contract. Pointers are null where there is nothing to tell.
type Ended struct {
	Cwd         string      `json:"cwd" doc:"where it ran"`
	ExitCode    *int        `json:"exitCode" doc:"null when a signal ended it"`
	Signal      *string     `json:"signal" doc:"such as SIGKILL"`
	TimedOut    bool        `json:"timedOut"`
	TimeoutMs   *int64      `json:"timeoutMs" doc:"the timeout that applied, in milliseconds"`
	Stdout      string      `json:"stdout" doc:"both ends of a long output, with a line between that says how much is left out"`
	Stderr      string      `json:"stderr"`
	StdoutBytes int64       `json:"stdoutBytes" doc:"all that was printed"`
	StderrBytes int64       `json:"stderrBytes"`
	Truncated   bool        `json:"truncated"`
	Encoding    string      `json:"encoding" schema:"enum=utf-8|base64" doc:"of both streams; base64 when either is not UTF-8"`
	Spill       *Spill      `json:"spill" doc:"where the whole of a truncated output is"`
	DurationMs  int64       `json:"durationMs"`
	Limit       *Limit      `json:"limit" doc:"what ended or bounded it"`
	Changes     any         `json:"changes" doc:"null but for a dry run"`
	LeftBehind  *LeftBehind `json:"leftBehind" doc:"processes that outlived the command"`
	Sandbox     Sandbox     `json:"sandbox"`
}

// Spill is where the whole of a truncated output is.
type Spill struct {
	Stdout   *string `json:"stdout" doc:"a path, null when this stream is whole in the result"`
	Stderr   *string `json:"stderr"`
	Bytes    int64   `json:"bytes" doc:"what both files hold"`
	Complete bool    `json:"complete" doc:"false when the files end before the output does"`
}

// Limit is what ended or bounded a command.
type Limit struct {
	Name  string `json:"name"`
	Value any    `json:"value"`
}

// LeftBehind are processes that outlived their command. JobID is nil where no
// job has them, because they were ended.
type LeftBehind struct {
	JobID *string `json:"jobId" doc:"the job that has them; null when they were ended"`
	Pids  []int   `json:"pids"`
}

// Sandbox is what the sandbox has to tell.
type Sandbox struct {
	Enforcement sandbox.Enforcement    `json:"enforcement"`
	Denials     []sandbox.Denial       `json:"denials"`
	Notices     []sandboxpolicy.Notice `json:"notices"`
}

// Ending returns the exit code, or the name of the signal that ended a command.
func Ending(st *sandbox.State) (code *int, sig *string) {
	if st.Signal != 0 {
		name := unix.SignalName(st.Signal)
		if name == "" {
			name = fmt.Sprintf("SIG%d", st.Signal)
		}
		return nil, &name
	}
	return new(st.ExitCode), nil
}

// LimitOf tells which limit ended a command, by the signal that the kernel
// sends for it (setrlimit(2)), or bounded one that failed: the kernel refuses
// then, and only the command knows. said is what such a command said, on
// standard error as a rule; "" for one that did not fail or was not listened to.
func LimitOf(st *sandbox.State, l sandboxpolicy.Limits, said string) *Limit {
	switch {
	case st.Signal == unix.SIGXCPU && l.CPUTime > 0:
		return &Limit{"cpu-time", l.CPUTime.Milliseconds()}
	case st.Signal == unix.SIGXFSZ && l.FileSize > 0:
		return &Limit{"file-size", l.FileSize}
	case l.Pids > 0 && saysAny(said, "fork", "thread", "spawn", "process", "clone") && saysAny(said, "resource temporarily unavailable", "eagain", "cannot fork"):
		return &Limit{"pids", l.Pids}
	case l.Memory > 0 && saysAny(said, "cannot allocate memory", "alloc: cannot allocate", "out of memory", "enomem", "memoryerror", "bad_alloc", "memory exhausted"):
		return &Limit{"memory", l.Memory}
	case l.FileSize > 0 && saysAny(said, "file too large", "efbig"):
		return &Limit{"file-size", l.FileSize}
	}
	return nil
}

func saysAny(said string, words ...string) bool {
	said = strings.ToLower(said)
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(said, w) })
}

// LimitNotice is the notice that goes with LimitOf.
func LimitNotice(st *sandbox.State, l *Limit) sandboxpolicy.Notice {
	what := "bounded"
	if st.Signal == unix.SIGXCPU || st.Signal == unix.SIGXFSZ {
		what = "ended"
	}
	return sandboxpolicy.Notice{Kind: "limit", Text: "the limit " + l.Name + " " + what + " the command"}
}

// Output is the captured output of one command.
type Output struct {
	Stdout, Stderr *capture.Stream
	spill          *capture.Spill
}

// NewOutput captures; directory makes the private directory for the files of
// an output that is too long, and is called once at most.
func NewOutput(directory func() (string, error)) *Output {
	made := sync.OnceValues(directory) // the streams are written to by two goroutines
	sp := &capture.Spill{}
	sp.Create = func(stream string) (*os.File, error) {
		dir, err := made()
		if err != nil {
			return nil, err
		}
		return os.OpenFile(filepath.Join(dir, stream), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	}
	return &Output{capture.NewStream("stdout", sp), capture.NewStream("stderr", sp), sp}
}

// Close closes the spill files. Fill does, too.
func (o *Output) Close() {
	_, _ = o.Stdout.File(), o.Stderr.File()
}

// Fill puts the output into e.
func (o *Output) Fill(e *Ended) {
	out, errs := o.Stdout.Bytes(), o.Stderr.Bytes()
	e.Stdout, e.Stderr, e.Encoding = Encode(out, errs)
	e.StdoutBytes, e.StderrBytes = o.Stdout.Total(), o.Stderr.Total()
	e.Truncated = o.Stdout.Truncated() || o.Stderr.Truncated()
	stdout, stderr := o.Stdout.File(), o.Stderr.File()
	if !e.Truncated {
		return
	}
	e.Spill = &Spill{}
	if stdout != "" {
		e.Spill.Stdout = &stdout
	}
	if stderr != "" {
		e.Spill.Stderr = &stderr
	}
	e.Spill.Bytes, e.Spill.Complete = o.spill.Stats()
}

// Encode makes strings of two streams, both in the same encoding.
func Encode(stdout, stderr []byte) (out, errs, encoding string) {
	if utf8.Valid(stdout) && utf8.Valid(stderr) {
		return string(stdout), string(stderr), UTF8
	}
	return base64.StdEncoding.EncodeToString(stdout), base64.StdEncoding.EncodeToString(stderr), Base64
}
