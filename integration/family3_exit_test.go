package integration

import (
	"bytes"
	"debug/elf"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// F3-5: the caller learns exactly how the command ended.
func TestF3_5_StatusesAndSignals(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		for _, preset := range []string{"workspace-write", "read-only", "danger-full-access"} {
			for _, code := range []int{0, 1, 2, 99, 124, 125, 126, 127, 128, 134, 255} {
				r := e.Sh(Opts{Preset: preset}, "exit "+itoa(code))
				if r.Exit != code || r.Signal != 0 {
					t.Errorf("%s: exit %d: %s", preset, code, r)
				}
				if s := r.Event("exited"); s == nil || s.ExitCode == nil || *s.ExitCode != code || s.Signal != nil || s.TimedOut {
					t.Errorf("%s: exit %d: status %s", preset, code, mustJSON(r.Status))
				}
				if r.Stderr != "" || r.Stdout != "" {
					t.Errorf("%s: exit %d: dshx says something: %s", preset, code, r)
				}
			}
			if preset != "workspace-write" {
				continue
			}
			for name, sig := range map[string]syscall.Signal{
				"ABRT": syscall.SIGABRT, "SEGV": syscall.SIGSEGV, "KILL": syscall.SIGKILL, "TERM": syscall.SIGTERM,
				"PIPE": syscall.SIGPIPE, "SYS": syscall.SIGSYS, "HUP": syscall.SIGHUP, "INT": syscall.SIGINT,
				"QUIT": syscall.SIGQUIT, "ALRM": syscall.SIGALRM, "USR1": syscall.SIGUSR1, "XCPU": syscall.SIGXCPU,
			} {
				want := 128 + int(sig)
				r := e.Sh(Opts{}, "ulimit -c 0; kill -"+name+" $$")
				if r.Exit != want || r.Signal != 0 {
					t.Errorf("%s: %s", name, r)
				}
				if s := r.Event("exited"); s == nil || s.ExitCode != nil || s.Signal == nil || *s.Signal != "SIG"+name {
					t.Errorf("%s: status %s", name, mustJSON(r.Status))
				}
				j := e.Sh(Opts{JSON: true}, "ulimit -c 0; kill -"+name+" $$")
				if j.Exit != want || j.JSON.ExitCode != nil || j.JSON.Signal == nil || *j.JSON.Signal != "SIG"+name {
					t.Errorf("%s: --json: %s", name, j)
				}
			}
		}
	})
}

// F3-5: what dshx can't do has fields and a code of its own, even where a
// command could have the same status.
func TestF3_5_OwnFailuresApart(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		for _, tc := range []struct {
			name   string
			flags  []string
			argv   []string
			exit   int
			code   string
			asProg string
		}{
			{"not found", nil, []string{"dshx-no-such-command"}, 127, "COMMAND_NOT_FOUND", "exit 127"},
			{"not executable", nil, []string{e.Write(filepath.Join(e.W, "plain"), "x")}, 126, "COMMAND_NOT_EXECUTABLE", "exit 126"},
			{"no directory", []string{"--cwd", filepath.Join(e.W, "none")}, []string{"true"}, 125, "START_FAILED", "exit 125"},
		} {
			t.Run(tc.name, func(t *testing.T) {
				r := e.Run(Opts{Flags: tc.flags}, tc.argv...)
				if r.Exit != tc.exit {
					t.Errorf("want exit %d: %s", tc.exit, r)
				}
				f3OneLine(t, r.Stderr)
				if len(r.Status) != 1 || r.Status[0].Event != "error" || r.Status[0].Error == nil || r.Status[0].Error.Code != tc.code {
					t.Errorf("want one error event with %s: %s", tc.code, r)
				}
				j := e.Run(Opts{Flags: tc.flags, JSON: true}, tc.argv...)
				if j.Exit != tc.exit || j.JSON.Error == nil || j.JSON.Error.Code != tc.code || j.JSON.ExitCode != nil {
					t.Errorf("--json: want %s: %s", tc.code, j)
				}
				// The control: a command that ended with this status did run.
				c := e.Sh(Opts{}, tc.asProg)
				if c.Exit != tc.exit || c.Event("error") != nil || c.Event("exited") == nil {
					t.Errorf("control: %s", c)
				}
			})
		}
	})
}

// F3-14 (d): what exec refuses with a hint runs in the tool bash as bash would
// run it.
func TestF3_14_TextWithoutInterpreterInTheTool(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		script := e.Write(filepath.Join(e.W, "script"), "echo ran\n", 0o755)
		if r := e.Run(Opts{}, script); r.Exit != 126 || !strings.Contains(r.Stderr, "#!") {
			t.Errorf("exec: %s", r)
		}
		c := e.lines(Opts{})
		c.bash(1, "./script")
		if r := c.result(); r.Error != nil || r.field(t, "exitCode") != "0" || r.field(t, "stdout") != "ran\n" {
			t.Errorf("bash: %s", mustJSON(r))
		}
		if code := c.end(); code != 0 {
			t.Errorf("status %d", code)
		}
	})
}

// F3-14: the message names what is really missing.
func TestF3_14_TrueCulprit(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		noLoader := e.noLoader("/no/such/ld.so")
		dirInterp := e.Mkdir(filepath.Join(e.W, "dirinterp"))
		script := func(name, text string) string {
			return e.Write(filepath.Join(e.W, name), text, 0o755)
		}
		noexec := e.Write(filepath.Join(e.W, "noexec"), "#!/bin/sh\n", 0o644)
		secretTool := e.Write(filepath.Join(e.H, ".ssh", "tool"), "#!/bin/sh\necho ran\n", 0o755)
		e.Symlink("loop", filepath.Join(e.W, "loop"))
		for _, tc := range []struct {
			name  string
			flags []string
			argv  []string
			exit  int
			code  string
			words []string
		}{
			{"a: no directory", []string{"--cwd", "none"}, []string{"true"}, 125, "START_FAILED", []string{"none", "exist"}},
			{"h: cwd is a file", []string{"--cwd", "noexec"}, []string{"true"}, 125, "START_FAILED", []string{"noexec", "not a directory"}},
			{"c: no interpreter", nil, []string{script("c", "#!/no/such/interp -x\n")}, 127, "COMMAND_NOT_FOUND", []string{"interpreter", "/no/such/interp"}},
			{"c: interpreter of the interpreter", nil, []string{script("c2", "#!"+script("c1", "#!/no/such/one\n")+"\n")}, 127, "COMMAND_NOT_FOUND", []string{"interpreter", "/no/such/one"}},
			{"c: env as interpreter is not missing", nil, []string{script("c3", "#!/usr/bin/env dshx-no-such-interpreter\n")}, 0, "", nil},
			{"c: carriage return", nil, []string{script("crlf", "#!/bin/sh\r\necho ran\r\n")}, 127, "COMMAND_NOT_FOUND", []string{"interpreter", `/bin/sh\r`}},
			{"c: interpreter without x", nil, []string{script("c4", "#!"+noexec+"\n")}, 126, "COMMAND_NOT_EXECUTABLE", []string{"interpreter", noexec}},
			{"c: interpreter is a directory", nil, []string{script("c5", "#!"+dirInterp+"\n")}, 126, "COMMAND_NOT_EXECUTABLE", []string{"interpreter", dirInterp}},
			{"c: interpreter is a secret", nil, []string{script("c6", "#!"+secretTool+"\n")}, 126, "COMMAND_NOT_EXECUTABLE", []string{"interpreter", secretTool, "policy"}},
			{"d: text without first line", nil, []string{script("d", "echo hello\n")}, 126, "COMMAND_NOT_EXECUTABLE", []string{"#!"}},
			{"d: empty file", nil, []string{script("empty", "")}, 126, "COMMAND_NOT_EXECUTABLE", []string{"empty"}},
			{"d: bare #!", nil, []string{script("bare", "#!\n")}, 126, "COMMAND_NOT_EXECUTABLE", []string{"bare"}},
			{"e: no x bit", nil, []string{"./noexec"}, 126, "COMMAND_NOT_EXECUTABLE", []string{"noexec"}},
			{"e: a directory", nil, []string{"./dirinterp"}, 126, "COMMAND_NOT_EXECUTABLE", []string{"dirinterp", "directory"}},
			{"e: a secret", nil, []string{secretTool}, 126, "COMMAND_NOT_EXECUTABLE", []string{secretTool, "policy"}},
			{"f: unknown name", nil, []string{"dshx-no-such-command"}, 127, "COMMAND_NOT_FOUND", []string{"dshx-no-such-command"}},
			{"f: unknown path", nil, []string{"./none"}, 127, "COMMAND_NOT_FOUND", []string{"./none"}},
			{"f: dangling link", nil, []string{e.Symlink("nowhere", filepath.Join(e.W, "dangling"))}, 127, "COMMAND_NOT_FOUND", []string{"dangling"}},
			{"f: below a file", nil, []string{"./noexec/x"}, 0, "COMMAND_NOT_", []string{"noexec", "not a directory"}},
			{"f: loop", nil, []string{"./loop"}, 0, "COMMAND_NOT_", []string{"loop", "symbolic links"}},
			{"f: name too long", nil, []string{strings.Repeat("x", 300)}, 0, "COMMAND_NOT_", []string{"too long"}},
			{"f: empty name", nil, []string{""}, 127, "COMMAND_NOT_FOUND", nil},
			{"g: no loader", nil, []string{noLoader}, 127, "COMMAND_NOT_FOUND", []string{"interpreter", "/no/such/ld.so"}},
		} {
			t.Run(tc.name, func(t *testing.T) {
				if tc.argv[0] == "" && strings.HasPrefix(tc.name, "g") {
					skipTool(t, "dynamically linked program")
				}
				if tc.code == "" {
					// env's own status for a name that it can't find: 127, or 126
					// where a directory of the PATH is closed to this user.
					tc.exit = e.Outside(tc.argv...).Exit
				}
				r := e.Run(Opts{Flags: tc.flags}, tc.argv...)
				// Whether what can't even be looked up is "not found" or "not
				// executable" is a matter of taste (env says 126, shells differ).
				either := tc.code == "COMMAND_NOT_" && (r.Exit == 126 || r.Exit == 127)
				if r.Exit != tc.exit && !either {
					t.Errorf("want exit %d: %s", tc.exit, r)
				}
				if tc.code == "" { // the command ran, and it's the one that complains
					if r.Event("exited") == nil {
						t.Errorf("want it to have run: %s", r)
					}
					return
				}
				f3OneLine(t, r.Stderr, tc.words...)
				if r.Stdout != "" {
					t.Errorf("something ran: %s", r)
				}
				if s := r.Event("error"); s == nil || s.Error == nil || !strings.HasPrefix(s.Error.Code, tc.code) || len(r.Status) != 1 {
					t.Errorf("want %s alone: %s", tc.code, r)
				}
				if strings.ContainsAny(strings.TrimSuffix(r.Stderr, "\n"), "\r\x1b\n") {
					t.Errorf("control characters in %q", r.Stderr)
				}
			})
		}
		t.Run("control", func(t *testing.T) {
			if r := e.Run(Opts{}, script("fine", "#!/bin/sh\necho ran \"$@\"\n"), "a b"); r.Exit != 0 || r.Stdout != "ran a b\n" {
				t.Errorf("control: %s", r)
			}
		})
	})
}

// F3-14 (b), its part for the command line: a directory that is gone fails one
// run, and the next one with a directory that is there works.
func TestF3_14_DirectoryGone(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		dir := e.Mkdir(filepath.Join(e.W, "d"))
		e.Run(Opts{Flags: []string{"--cwd", dir}}, "true").OK(t)
		if err := os.Remove(dir); err != nil {
			t.Fatal(err)
		}
		r := e.Run(Opts{Flags: []string{"--cwd", dir}}, "true")
		if r.Exit != 125 {
			t.Errorf("want exit 125: %s", r)
		}
		f3OneLine(t, r.Stderr, dir)
		e.Run(Opts{Flags: []string{"--cwd", e.W}}, "true").OK(t)

		// dshx itself started where there is nothing any more.
		e.Mkdir(filepath.Join(e.W, "d"))
		argv := e.DshxArgv(Opts{StatusFD: -1}, "touch", filepath.Join(e.W, "ran"))
		r = e.Outside(append([]string{"sh", "-c", `cd d && rmdir ../d && exec "$@"`, "sh"}, argv...)...)
		if r.Exit != 125 && r.Exit != 2 {
			t.Errorf("want a refusal: %s", r)
		}
		f3OneLine(t, r.Stderr)
		if Exists(filepath.Join(e.W, "ran")) {
			t.Error("the command ran")
		}
		// With a workspace and a directory named there is nothing missing.
		e.Mkdir(filepath.Join(e.W, "d"))
		argv = e.DshxArgv(Opts{StatusFD: -1, Flags: []string{"--workspace", e.W, "--cwd", e.W}}, "pwd")
		r = e.Outside(append([]string{"sh", "-c", `cd d && rmdir ../d && exec "$@"`, "sh"}, argv...)...)
		if r.Exit != 0 || r.Stdout != e.W+"\n" {
			t.Errorf("with absolute directories: %s", r)
		}
	})
}

// noLoader makes a dynamically linked program whose loader doesn't exist;
// empty when there's no dynamically linked program to be had.
func (e *Env) noLoader(loader string) string {
	e.t.Helper()
	for _, name := range []string{"true", "ls", "sh", "env", "cat"} {
		path := e.HasTool(name)
		if path == "" {
			continue
		}
		data, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		f, err := elf.NewFile(bytes.NewReader(data))
		if err != nil {
			continue
		}
		for _, p := range f.Progs {
			if p.Type != elf.PT_INTERP || p.Filesz <= uint64(len(loader)) {
				continue
			}
			// The kernel reads Filesz bytes and wants a NUL at the end; a
			// shorter string before it is fine.
			copy(data[p.Off:p.Off+p.Filesz], loader+strings.Repeat("\x00", int(p.Filesz)-len(loader)))
			return e.Write(filepath.Join(e.W, "noloader"), string(data), 0o755)
		}
	}
	return ""
}

// F3-15: argv arrives byte for byte.
func TestF3_15_ArgvByteForByte(t *testing.T) {
	args := []string{
		"two words", "", "${PATH}", "it's", `a "double-quoted" word`, "*", "-n", "--", "--preset", "--json", "-",
		"two\nlines", "é", "\xff", "\\", "\t", "$(id)", "`id`", " lead", "trail ", "a=b", "\x01\x7f", "~", "!", "",
		strings.Repeat("x", 120<<10),
	}
	hexes := func(args []string) string {
		var b strings.Builder
		for _, a := range args {
			b.WriteString(hex.EncodeToString([]byte(a)) + "\n")
		}
		return b.String()
	}
	forEachUser(t, func(t *testing.T, e *Env) {
		argv := append([]string{probeBin, "f3-argv"}, args...)
		if c := e.Outside(argv...); c.Stdout != hexes(args) {
			t.Fatalf("control: %s", c)
		}
		for _, o := range []Opts{{}, {Preset: "danger-full-access"}, {Flags: []string{"--tty", "never"}}, {JSON: true, Flags: []string{"--quiet"}}} {
			if o.JSON {
				// The kept part of the output ends long before 120 KiB do.
				argv = argv[:len(argv)-1]
				args := args[:len(args)-1]
				r := e.Run(o, argv...)
				if r.JSON.Stdout != hexes(args) {
					t.Errorf("--json: %s", r)
				}
				// A lone 0xff can't be in JSON's argv.
				if r.JSON.Argv != nil || len(r.JSON.ArgvBase64) != len(argv) {
					t.Fatalf("want argvBase64 alone: %s", mustJSON(r.JSON))
				}
				for i, b64 := range r.JSON.ArgvBase64 {
					if got, err := base64.StdEncoding.DecodeString(b64); err != nil || string(got) != argv[i] {
						t.Errorf("argvBase64[%d] = %q (%v), want %q", i, got, err, argv[i])
					}
				}
				continue
			}
			if r := e.Run(o, argv...); r.Stdout != hexes(args) {
				t.Errorf("%+v: %s", o, r)
			}
		}
		// argv[0] is what was typed, not what it was found as.
		r := e.Run(Opts{}, "sh", "-c", `tr '\000' '\n' </proc/$$/cmdline | head -n1`)
		if r.Stdout != "sh\n" {
			t.Errorf("argv[0]: %s", r)
		}
		e.Symlink(probeBin, filepath.Join(e.W, "näme\nx"))
		if r := e.Run(Opts{}, "./näme\nx", "f3-argv", "ok"); r.Stdout != hexes([]string{"ok"}) {
			t.Errorf("a name with a newline: %s", r)
		}
	})
}

// F3-15: at the border of what the kernel takes for arguments and environment
// together, each run either works in full or is a clear error about the size.
// (A single argument over 128 KiB can't even reach dshx on a command line.)
func TestF3_15_SizeLimit(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		// A quarter of the stack limit is what execve(2) takes, 128 KiB at the least.
		run := func(pad int) *Result {
			argv := []string{"sh", "-c", `ulimit -s 1024 && exec "$@"`, "sh", dshxBin, "exec", "--", "sh", "-c", `printf %s "$#"`, "sh"}
			for ; pad > 0; pad -= 1000 {
				argv = append(argv, strings.Repeat("y", min(pad, 1000)))
			}
			return e.Outside(argv...)
		}
		needDshx(t)
		lo, hi := 0, 300<<10 // lo works, hi fails in the caller's own exec
		if r := run(lo); r.Exit != 0 {
			t.Fatalf("control: %s", r)
		}
		works := func(pad int) bool { return !strings.Contains(run(pad).Stderr, "sh:") }
		for hi-lo > 64 {
			if mid := (lo + hi) / 2; works(mid) {
				lo = mid
			} else {
				hi = mid
			}
		}
		seen := map[int]int{}
		for pad := lo - 6000; pad <= lo; pad += 250 {
			r := run(pad)
			seen[r.Exit]++
			switch r.Exit {
			case 0:
				if r.Stdout != itoa((pad+999)/1000) {
					t.Errorf("%d bytes: %s", pad, r)
				}
			case 125, 126:
				f3OneLine(t, r.Stderr)
				if s := strings.ToLower(r.Stderr); !strings.Contains(s, "too long") && !strings.Contains(s, "too large") && !strings.Contains(s, "too big") {
					t.Errorf("%d bytes: not about size: %s", pad, r)
				}
			default:
				t.Errorf("%d bytes: %s", pad, r)
			}
		}
		t.Logf("border at %d bytes, statuses %v", lo, seen)
	})
}

// A deadline that can't be counted in nanoseconds is refused or far away, never
// one that has passed.
func TestF3_2_HugeTimeout(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		for _, d := range []string{"9223372036", "9223372037", "99999999999", "99999999999999999999", "2562047h", "2562048h", "1e10", "0"} {
			r := e.Run(Opts{Flags: []string{"--timeout", d}}, "sh", "-c", "exit 3")
			if r.Exit != 3 && r.Exit != 2 {
				t.Errorf("--timeout %s: %s", d, r)
			}
			if r.Duration > 20*time.Second {
				t.Errorf("--timeout %s took %v", d, r.Duration)
			}
		}
	})
}

// A deadline is a deadline on a terminal, too, when only SIGKILL helps: it ends
// the terminal's session leader together with the command.
func TestF3_DeadlineOnATerminalByKill(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		for range 3 {
			r := e.Run(Opts{Flags: []string{"--tty", "always", "--timeout", "200ms", "--kill-after", "200ms"}},
				"sh", "-c", "trap '' TERM HUP; sleep 300; sleep 300")
			ev := r.Event("exited")
			if r.Exit != 124 || ev == nil || !ev.TimedOut || ev.Signal == nil || *ev.Signal != "SIGKILL" {
				t.Errorf("got %s", r)
			}
		}
		e.NothingLeft(2 * time.Second)
	})
}

// The time that the sandbox's set-up takes is not the command's.
func TestF3_ShortestDeadline(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		r := e.Run(Opts{Flags: []string{"--timeout", "1ns"}}, "sleep", "300")
		if ev := r.Event("exited"); r.Exit != 124 || ev == nil || !ev.TimedOut {
			t.Errorf("got %s", r)
		}
	})
}

// A descriptor that the caller does not have is not one of dshx's own.
func TestF3_PassedDescriptorMustBeTheCallers(t *testing.T) {
	needDshx(t)
	forEachUser(t, func(t *testing.T, e *Env) {
		for fd := 3; fd < 10; fd++ {
			for _, flag := range []string{"--pass-fd", "--status-fd"} {
				// The shell closes what the tests themselves were given.
				r := e.Outside("sh", "-c", fmt.Sprintf("exec %s exec %s %d -- true %d>&-", dshxBin, flag, fd, fd))
				if r.Exit != 2 || !strings.Contains(r.Stderr, "is not open") {
					t.Errorf("%s %d: got %s", flag, fd, r)
				}
			}
		}
	})
}

// A reader that doesn't read holds no command beyond its deadline, on a
// terminal neither.
func TestF3_DeadlineWithAStuckReader(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		for _, tty := range []string{"never", "always"} {
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			res := e.Run(Opts{Stdout: w, Timeout: 20 * time.Second,
				Flags: []string{"--tty", tty, "--timeout", "300ms", "--kill-after", "300ms"}}, "yes")
			_, _ = w.Close(), r.Close()
			if res.Exit != 124 || res.Duration > 8*time.Second {
				t.Errorf("--tty %s: %s", tty, res)
			}
		}
	})
}
