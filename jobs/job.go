package jobs

import (
	"context"
	"io"
	"slices"
	"strings"
	"time"
)

// Status is where a job is in its life.
type Status string

const (
	Running  Status = "running"
	Stopping Status = "stopping" // asked to end, and not ended yet
	Exited   Status = "exited"   // ended by itself, whatever the exit code or signal
	Killed   Status = "killed"   // ended on request or by a limit; nothing of it lives
	Failed   Status = "failed"   // could not be followed to its end
)

// Ended reports whether s is final.
func (s Status) Ended() bool { return s == Exited || s == Killed || s == Failed }

// EndedBy is what ended a job: the first of these that happened.
type EndedBy string

const (
	ByExit     EndedBy = "exit"
	ByKill     EndedBy = "job_kill"
	ByOwner    EndedBy = "owner"
	ByShutdown EndedBy = "shutdown"
	ByLimit    EndedBy = "limit"
)

// Job is a snapshot of a job. It shares nothing with the registry.
type Job struct {
	ID     string `json:"jobId"`
	Kind   string `json:"kind"`
	Label  string `json:"label"`
	Status Status `json:"status"`
	// ExitCode is nil until the end, and when there is none: a signal ended
	// the job, or what it follows has not one exit code.
	ExitCode *int     `json:"exitCode"`
	Signal   *string  `json:"signal"`  // as "SIGKILL"; nil when none ended it
	EndedBy  *EndedBy `json:"endedBy"` // nil until the end
	// The wall clock's, in UTC. It may be set meanwhile: how long a job
	// took is told by End.Duration.
	StartedAt    time.Time  `json:"startedAt"`
	EndedAt      *time.Time `json:"endedAt"`
	PIDs         []int      `json:"pids"` // ascending, never nil, empty after the end
	StdoutBytes  int64      `json:"stdoutBytes"`
	StderrBytes  int64      `json:"stderrBytes"` // all that was written, kept or not
	ParentCallID string     `json:"parentCallId"`
}

// End is what observers are told of a job that has ended.
type End struct {
	Owner    string // the name given to Registry.Owner
	Job      Job
	Err      error  // why Status is Failed
	Limit    string // which limit ended it, when EndedBy is ByLimit
	Reason   string // what the Kill that ended it gave as its reason
	Missed   int64  // bytes of both streams that the bound or the disk has cost so far
	Duration time.Duration
}

// Spec says what to start.
type Spec struct {
	// Kind begins the job's id: [a-z][a-z0-9_]{0,63}.
	Kind         string
	Label        string
	ParentCallID string
	// Start starts the work, or takes over what already runs, and returns
	// without waiting for it. It is called once, by Owner.Start, which
	// returns its error.
	//
	// ctx ends with the context of the call until the job has its id. From
	// then on it is the job's own: it is done when the job is sent KILL, and
	// when it has ended. Output may be written until Wait returns; writes
	// never fail before.
	Start func(ctx context.Context, out Output) (Producer, error)
}

// Output is where a job's output goes. One goroutine at a time may write to
// each of the two.
type Output struct {
	Stdout, Stderr io.Writer
}

// Producer is what the registry knows of the work of a job. Its methods are
// called by several goroutines, Wait by one and once.
type Producer interface {
	// Signal sends every process of the job the signal "TERM", "INT", "KILL" …
	// It does not block, and does nothing once all of them are reaped. An
	// error is of no consequence: KILL follows in any case, and is sent again
	// until Wait returns.
	Signal(name string) error
	// PIDs are the processes that live now, in any order.
	PIDs() []int
	// Input writes b to the job's standard input and then, with eof, closes
	// it. It returns how many bytes were taken. It blocks until all are or
	// ctx is done, which it is when the job ends, too. A job without input
	// returns ErrNoInput. Calls do not overlap.
	Input(ctx context.Context, b []byte, eof bool) (int, error)
	// Wait returns when the job is quiescent: no process of it lives, all are
	// reaped, all output is written, all resources are released.
	Wait() Outcome
}

// Outcome is how the work of a job ended.
type Outcome struct {
	ExitCode *int   // nil when a signal ended it or there is not one exit code
	Signal   string // "SIGKILL" or "KILL"; "" when none ended it
	Err      error  // it could not be followed to its end
	Limit    string // the limit that ended it: "memory", "cpu-time" …
}

// signalNames are the signals that may be asked for. Stopping and continuing
// are not among them: a job that is asked to end is not left standing.
var signalNames = []string{"HUP", "INT", "QUIT", "ABRT", "KILL", "USR1", "USR2", "PIPE", "ALRM", "TERM"}

// signalName returns the name without SIG of a signal that may be asked for.
func signalName(s string) (string, bool) {
	s = strings.TrimPrefix(s, "SIG")
	return s, slices.Contains(signalNames, s)
}

// validKind is [a-z][a-z0-9_]{0,63}. There is no "-", so that different
// kinds cannot make the same id.
func validKind(s string) bool {
	if len(s) == 0 || len(s) > 64 || s[0] < 'a' || s[0] > 'z' {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' {
			return false
		}
	}
	return true
}
