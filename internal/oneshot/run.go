package oneshot

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/dshx/dshx/internal/result"
	"github.com/dshx/dshx/internal/sigpipe"
	"github.com/dshx/dshx/sandbox"
	"github.com/dshx/dshx/sandboxpolicy"
	"golang.org/x/sys/unix"
)

// Options is one run.
type Options struct {
	Argv    []string
	Request sandboxpolicy.Request

	Timeout   time.Duration // 0: none
	KillAfter time.Duration // 0: sandbox.DefaultKillAfter
	TTY       TTY
	PassFD    []int

	JSON     bool
	StatusFD int // -1: none
	Quiet    bool

	// RequireFull refuses to run where a promise of the policy is a gap.
	RequireFull bool

	// Rules applies a policy's command rules; see ErrRules.
	Rules Rules
}

// TTY says when the command gets a terminal of its own.
type TTY uint8

// Auto: when standard input and output are terminals.
const (
	Auto TTY = iota
	Always
	Never
)

// Exit statuses of dshx's own.
const (
	ExitUsage         = 2
	ExitTimeout       = 124
	ExitSandbox       = 125
	ExitNotExecutable = 126
	ExitNotFound      = 127
)

// Run runs the command and returns the status that dshx exits with. Its
// goroutine, which must be locked to its thread, makes that the domain's: the
// process is to exit afterwards.
//
// Where the policy has command rules and o.Rules is nil, err is ErrRules and
// nothing has happened: Run is to be called again, with them.
func Run(o Options) (status int, err error) {
	r := &run{o: o}
	code, err := r.run()
	switch {
	case err == ErrRules:
		return 0, err
	case err != nil:
		return Fail(o, err), nil
	}
	return code, nil
}

type run struct {
	o        Options
	scope    *sandbox.Scope
	cmd      *sandbox.Cmd
	streams  *result.Output
	timedOut bool
	expire   context.CancelFunc // with a timeout
	clean    bool               // nothing that was started is left
}

// Fail reports an error that kept the command from running, on every channel
// that was asked for, and returns the status that dshx exits with.
func Fail(o Options, err error) int {
	code, exit := Classify(err)
	if checkPassed(nil, o.StatusFD) == nil {
		writeStatus(o.StatusFD, event{Event: "error", Error: &errorObject{code, err.Error()}})
	}
	if o.JSON {
		printJSON(struct {
			Error errorObject `json:"error"`
		}{errorObject{code, err.Error()}})
	}
	fmt.Fprintf(os.Stderr, "dshx: %s\n", OneLine(err.Error()))
	return exit
}

// Classify returns the stable code of an error and the status that dshx exits
// with.
func Classify(err error) (code string, exit int) {
	var coded interface{ Code() string }
	if errors.As(err, &coded) {
		code = coded.Code()
	}
	switch code {
	case "INVALID_ARGS", "CONFIG_INVALID":
		return code, ExitUsage
	case "COMMAND_NOT_FOUND":
		return code, ExitNotFound
	case "COMMAND_NOT_EXECUTABLE":
		return code, ExitNotExecutable
	case "":
		code = "INTERNAL"
	}
	return code, ExitSandbox
}

func (r *run) run() (int, error) {
	terminal := r.o.TTY == Always || r.o.TTY == Auto && !r.o.JSON && isTerminal(0) && isTerminal(1)
	if err := checkPassed(r.o.PassFD, r.o.StatusFD); err != nil {
		return 0, err
	}
	held := sandbox.HoldModes(append([]int{0, 1, 2}, r.o.PassFD...)...)
	keep := -1 // the terminal that the guard can put back
	if terminal && isTerminal(0) {
		keep = 0
	}
	scope, err := sandbox.OpenHere(r.o.Request, keep, held, r.accept)
	if err != nil {
		return 0, err
	}
	r.scope = scope
	defer func() {
		if r.clean {
			_ = scope.Exit()
		} else {
			_ = scope.Close()
		}
	}()
	for _, n := range scope.Notices() {
		fmt.Fprintf(os.Stderr, "dshx: %s\n", OneLine(n.Text))
	}
	if r.o.RequireFull {
		if err := scope.Enforcement().RequireFull(); err != nil {
			return 0, err
		}
	}
	ctx := context.Background()
	if r.o.Timeout > 0 {
		ctx, r.expire = context.WithCancel(ctx)
		defer r.expire()
	}
	r.cmd = scope.CommandContext(ctx, r.o.Argv...)
	r.cmd.KillAfter, r.cmd.PassFD = r.o.KillAfter, r.o.PassFD
	switch {
	case terminal:
		return r.inTerminal()
	case r.o.JSON:
		r.streams = newCaptured(scope.Policy().Workspace())
		r.cmd.Stdin, r.cmd.Stdout, r.cmd.Stderr = openFD(0), r.streams.Stdout, r.streams.Stderr
	default:
		r.cmd.Stdin, r.cmd.Stdout, r.cmd.Stderr = openFD(0), openFD(1), openFD(2)
	}
	return r.plain()
}

// openFD is one of the caller's descriptors, or none where it is closed.
func openFD(fd int) sandbox.FD {
	// What execve(2) left open has no such flag: with it the descriptor is one of
	// this process's own, the Go runtime's for instance.
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	if err != nil || flags&unix.FD_CLOEXEC != 0 {
		return -1
	}
	return sandbox.FD(fd)
}

func checkPassed(fds []int, status int) error {
	if status >= 0 {
		flags, err := unix.FcntlInt(uintptr(status), unix.F_GETFL, 0)
		if err != nil || openFD(status) < 0 {
			return &sandboxpolicy.UsageError{Flag: "--status-fd", Msg: fmt.Sprintf("descriptor %d is not open", status)}
		}
		if flags&unix.O_ACCMODE == unix.O_RDONLY || flags&unix.O_PATH != 0 {
			return &sandboxpolicy.UsageError{Flag: "--status-fd", Msg: fmt.Sprintf("descriptor %d is not open for writing", status)}
		}
	}
	for _, fd := range fds {
		if openFD(fd) < 0 {
			return &sandboxpolicy.UsageError{Flag: "--pass-fd", Msg: fmt.Sprintf("descriptor %d is not open", fd)}
		}
	}
	return nil
}

// plain runs the command on streams that are not a terminal of its own.
func (r *run) plain() (int, error) {
	if err := sigpipe.Catch(append(passed, unix.SIGCHLD)...); err != nil {
		return 0, err
	}
	if err := r.cmd.Exclusive(waiting(r.pass, r.stopSelf)); err != nil {
		return 0, err
	}
	if err := r.cmd.Start(); err != nil {
		return 0, err
	}
	r.started()
	return r.finish()
}

func (r *run) started() {
	if r.o.Timeout > 0 {
		// The command's time, which the sandbox's own set-up takes nothing of.
		time.AfterFunc(r.o.Timeout, r.expire)
	}
	if r.o.StatusFD >= 0 {
		e := r.scope.Enforcement()
		writeStatus(r.o.StatusFD, event{Event: "started", Pid: r.cmd.Process.Pid, Enforcement: &e})
	}
}

// finish waits for the command, ends what it left behind, and reports.
func (r *run) finish() (int, error) {
	err := r.cmd.Wait()
	st := r.cmd.State
	if st == nil {
		return 0, err
	}
	left := r.cmd.EndLeftBehind()
	r.clean = true
	return r.result(st, left), nil
}

// result reports how the command ended, and returns dshx's own exit status:
// the command's, whether the report could be written or not. Any other would say
// that it did not run.
func (r *run) result(st *sandbox.State, left []int) int {
	r.timedOut = st.Cancelled
	r.report(st, left)
	switch {
	case r.timedOut:
		return ExitTimeout
	case st.Signal != 0:
		return 128 + int(st.Signal)
	}
	return st.ExitCode
}

// stopSelf stops dshx after the command has been stopped, as a shell expects
// of a job.
//
// Without a terminal nobody would continue it: a stopped dshx keeps no deadline,
// and a command could stop it by stopping itself.
func (r *run) stopSelf() {
	if isTerminal(0) || isTerminal(1) || isTerminal(2) {
		r.cmd.Pause(func() { _ = unix.Kill(unix.Getpid(), unix.SIGSTOP) })
	}
}
