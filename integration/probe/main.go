// Probe makes raw system calls and says how each one ended. The integration
// tests run it inside the sandbox and, as the control, outside.
//
//	probe [-json] do ATTEMPT...   an attempt is "op arg..." or "label=op arg...", split at spaces
//	probe NAME ARG...             a program of its own, see programs
//
// It prints one line for each attempt: its name and "ok" or the errno. It is
// static and has no privileges of its own; everything in it is an ordinary
// program's right to try.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
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
		name, words := text, strings.Fields(text)
		if len(words) == 0 {
			continue
		}
		if label, first, ok := strings.Cut(words[0], "="); ok {
			name, words[0] = label, first
		}
		f := ops[words[0]]
		if f == nil {
			fmt.Fprintf(os.Stderr, "probe: no op %q\n", words[0])
			os.Exit(2)
		}
		detail, err := f(words[1:])
		result := errnoName(err)
		if asJSON {
			if err != nil {
				detail = strings.TrimSpace(detail + " " + err.Error())
			}
			line, _ := json.Marshal(map[string]string{"name": name, "result": result, "detail": detail})
			fmt.Println(string(line))
		} else {
			fmt.Println(name, result, detail)
		}
	}
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
