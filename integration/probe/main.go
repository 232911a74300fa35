// Probe makes raw system calls and says how each one ended. The integration
// tests run it inside the sandbox and, as the control, outside.
//
//	probe [-json] do ATTEMPT...   see attempt
//	probe NAME ARG...             a program of its own, see programs
//
// An attempt is "[!][label=]op arg...", split at spaces. With "!" it is made in
// a process of its own, and the signal that ended it is its result. In
// arguments $PPID, $PID and $TMPDIR stand for what they say.
//
// It prints one line for each attempt: its name (the label, or the text without
// "!") and "ok" or the errno. It is static and has no privileges of its own;
// everything in it is an ordinary program's right to try.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// op is one attempt. The detail is for people and for assertions about what
// was obtained; err is an errno, possibly wrapped.
type op func(args []string) (detail string, err error)

var ops = map[string]op{}

// programs are subcommands that are more than one attempt. They return an exit status.
var programs = map[string]func(args []string) int{}

func register(name string, f op)                             { ops[name] = f }
func registerProgram(name string, f func(args []string) int) { programs[name] = f }

func main() {
	// Attempts that act on the thread (unshare, setns, umask) stay on one.
	runtime.LockOSThread()
	debug.SetGCPercent(-1)
	args := os.Args[1:]
	asJSON := false
	if len(args) > 0 && args[0] == "-json" {
		asJSON, args = true, args[1:]
	}
	if len(args) == 0 {
		fmt.Fprintln(os.Stderr, "usage: probe [-json] do ATTEMPT... | probe NAME ARG...")
		os.Exit(2)
	}
	if args[0] != "do" {
		f := programs[args[0]]
		if f == nil {
			fmt.Fprintf(os.Stderr, "probe: no program %q\n", args[0])
			os.Exit(2)
		}
		os.Exit(f(args[1:]))
	}
	for _, text := range args[1:] {
		name, result, detail := attempt(text)
		if asJSON {
			line, _ := json.Marshal(map[string]string{"name": name, "result": result, "detail": detail})
			fmt.Println(string(line))
		} else {
			fmt.Println(name, result, detail)
		}
	}
}

func attempt(text string) (name, result, detail string) {
	text, alone := strings.CutPrefix(text, "!")
	name = text
	words := strings.Fields(text)
	if len(words) == 0 {
		return name, "no-attempt", ""
	}
	if label, first, ok := strings.Cut(words[0], "="); ok {
		name, words[0] = label, first
	}
	if alone {
		result, detail = inChild(words)
		return name, result, detail
	}
	detail, err := run(words)
	if err != nil {
		detail = strings.TrimSpace(detail + " " + err.Error())
	}
	return name, errnoName(err), detail
}

// run makes one attempt.
func run(words []string) (string, error) {
	f := ops[words[0]]
	if f == nil {
		fmt.Fprintf(os.Stderr, "probe: no op %q\n", words[0])
		os.Exit(2)
	}
	args := make([]string, len(words)-1)
	for i, w := range words[1:] {
		args[i] = os.Expand(w, func(name string) string {
			switch name {
			case "PPID":
				return strconv.Itoa(os.Getppid())
			case "PID":
				return strconv.Itoa(os.Getpid())
			case "TMPDIR":
				return os.Getenv(name)
			}
			return "$" + name
		})
	}
	return f(args)
}

// inChild makes the attempt in a process of its own, which it may kill.
func inChild(words []string) (result, detail string) {
	for i, w := range words {
		// The parent that is meant is the probe's, not the child's.
		words[i] = strings.ReplaceAll(w, "$PPID", strconv.Itoa(os.Getppid()))
	}
	cmd := exec.Command("/proc/self/exe", "-json", "do", strings.Join(words, " "))
	out, err := cmd.Output()
	var ended *exec.ExitError
	if errors.As(err, &ended) {
		if ws := ended.Sys().(syscall.WaitStatus); ws.Signaled() {
			return unix.SignalName(ws.Signal()), ""
		}
		// The Go runtime makes of some fatal signals a trace and status 2.
		for _, s := range []string{"SIGSYS", "SIGSEGV", "SIGILL"} {
			if strings.Contains(string(ended.Stderr), s) {
				return s, ""
			}
		}
		return "exit-" + strconv.Itoa(ended.ExitCode()), string(ended.Stderr)
	}
	if err != nil {
		return errnoName(err), err.Error()
	}
	var one struct{ Result, Detail string }
	if err := json.Unmarshal(out, &one); err != nil {
		return "no-answer", string(out)
	}
	return one.Result, one.Detail
}

// errnoName is "ok", an errno's name, or the text of an error that has none.
func errnoName(err error) string {
	if err == nil {
		return "ok"
	}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		if n := unix.ErrnoName(errno); n != "" {
			return n
		}
		return fmt.Sprintf("errno-%d", int(errno))
	}
	return strings.ReplaceAll(err.Error(), " ", "-")
}

func atoi(s string) int {
	n, err := strconv.ParseInt(s, 0, 64)
	if err != nil {
		fmt.Fprintln(os.Stderr, "probe:", err)
		os.Exit(2)
	}
	return int(n)
}

// errno makes an error of a raw system call's.
func errno(e syscall.Errno) error {
	if e == 0 {
		return nil
	}
	return e
}
