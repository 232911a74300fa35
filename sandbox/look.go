package sandbox

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"strings"
	"syscall"

	"github.com/dshx/dshx/sandbox/internal/spawn"
	"github.com/dshx/dshx/sandboxpolicy"
	"golang.org/x/sys/unix"
)

// lookPath finds a program as execvp(3) does, in the PATH of env; an empty
// element means dir.
func lookPath(name, dir string, env []string) (string, error) {
	if strings.IndexByte(name, '/') >= 0 {
		return name, nil // exec itself tells what is wrong with it
	}
	var found string
	for _, elem := range strings.Split(getenv(env, "PATH"), ":") {
		if elem == "" {
			elem = "."
		}
		path := elem + "/" + name
		at := path
		if at[0] != '/' {
			at = dir + "/" + at
		}
		var st unix.Stat_t
		if unix.Stat(at, &st) != nil || st.Mode&unix.S_IFMT == unix.S_IFDIR {
			continue
		}
		if unix.Faccessat(unix.AT_FDCWD, at, unix.X_OK, unix.AT_EACCESS) == nil {
			return path, nil
		}
		if found == "" {
			found = path
		}
	}
	if found != "" {
		return "", &StartError{"COMMAND_NOT_EXECUTABLE", found + " is not executable; chmod +x it, or name its interpreter", os.ErrPermission}
	}
	if len(name) > unix.NAME_MAX {
		return "", &StartError{"COMMAND_NOT_FOUND", "command not found: its name is too long", unix.ENAMETOOLONG}
	}
	return "", &StartError{"COMMAND_NOT_FOUND", "command not found: " + name + shellHint(name), os.ErrNotExist}
}

// shellHint says what to do with what only a shell can run.
func shellHint(name string) string {
	switch name {
	case ".", "alias", "bg", "cd", "command", "eval", "exit", "export", "fg", "hash", "jobs", "read", "set", "shift",
		"source", "trap", "type", "ulimit", "umask", "unalias", "unset", "wait":
		return ", which is a shell's own; run it by sh -c '…'"
	}
	if strings.ContainsAny(name, " \t\n;|&<>$*()") {
		return "; no shell is put in between, so run a shell's line by sh -c '…'"
	}
	return ""
}

func getenv(env []string, name string) string {
	for _, kv := range env {
		if len(kv) > len(name) && kv[len(name)] == '=' && kv[:len(name)] == name {
			return kv[len(name)+1:]
		}
	}
	return ""
}

// startError names the true culprit of a start that failed.
func (c *Cmd) startError(e *spawn.Error, path, dir string) error {
	if e.Stage != spawn.StageExec {
		if e.Stage == spawn.StageLandlock {
			if errors.Is(e, unix.E2BIG) {
				return &UnavailableError{"too many Landlock domains are stacked (the kernel allows 16)", "don't nest dshx so deep"}
			}
			return &UnavailableError{"the Landlock domain can't be entered: " + e.Errno.Error(), ""}
		}
		return &StartError{"START_FAILED", "the command can't be started: " + e.Error(), e}
	}
	fail := func(code, msg string) error { return &StartError{code, msg, e} }
	at := path
	if at == "" || at[0] != '/' {
		at = dir + "/" + at
	}
	// What exec looked at last: the file, its interpreter, the interpreter's …
	name, what := path, ""
	for range 5 { // the kernel's own limit: execve(2)
		if msg := c.whyNot(name, what, at, e.Errno); msg != "" {
			switch e.Errno {
			case unix.ENOENT, unix.ENOTDIR, unix.ELOOP, unix.ENAMETOOLONG:
				return fail("COMMAND_NOT_FOUND", msg)
			case unix.EACCES, unix.EPERM, unix.ENOEXEC, unix.EISDIR:
				return fail("COMMAND_NOT_EXECUTABLE", msg)
			}
		}
		interp := interpreter(at)
		if interp == "" {
			break
		}
		what = name + ": its interpreter "
		if name != path {
			what = path + ": " + name + "'s interpreter "
		}
		name, at = interp, interp
		if at[0] != '/' {
			at = dir + "/" + at
		}
	}
	switch e.Errno {
	case unix.ENOENT, unix.ENOTDIR, unix.ELOOP, unix.ENAMETOOLONG:
		return fail("COMMAND_NOT_FOUND", path+": "+e.Errno.Error())
	case unix.EACCES, unix.EPERM, unix.EISDIR:
		return fail("COMMAND_NOT_EXECUTABLE", path+" may not be executed: "+e.Errno.Error())
	case unix.ENOEXEC:
		return fail("COMMAND_NOT_EXECUTABLE", path+" has no format that the kernel runs; if it is a script, begin it with #! or name its interpreter (sh "+path+")")
	case unix.E2BIG:
		return fail("START_FAILED", "the arguments and the environment are too long for exec (one argument may have 128 KiB)")
	}
	return fail("START_FAILED", path+": "+e.Errno.Error())
}

// whyNot says what keeps one file from being executed, or returns "" if
// nothing about this one does.
func (c *Cmd) whyNot(name, what, at string, errno syscall.Errno) string {
	st, err := os.Stat(at)
	if err != nil {
		var cause syscall.Errno
		errors.As(err, &cause)
		switch {
		case what != "" && cause == unix.ENOENT:
			return what + quote(name) + " does not exist"
		case cause == unix.ENOENT:
			return "command not found: " + name
		case cause == unix.EACCES && errno != unix.EACCES:
			return ""
		}
		return what + quote(name) + ": " + cause.Error()
	}
	if errno != unix.EACCES && errno != unix.EPERM && errno != unix.EISDIR {
		return ""
	}
	real := resolveExisting(at)
	switch v := c.domain.policy.Verdict(sandboxpolicy.OpExec, real); {
	case st.IsDir():
		return what + quote(name) + " is a directory"
	case !v.Allow:
		return what + quote(name) + " may not be executed under this policy: " + v.Rule.Text
	case st.Mode()&0o111 == 0:
		return what + quote(name) + " is not executable; chmod +x it, or name its interpreter"
	}
	return ""
}

// interpreter returns what the kernel starts for a file: the interpreter of
// its first line, or the loader that an ELF file names; "" if there is none.
func interpreter(path string) string {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return ""
	}
	defer f.Close()
	head, _ := bufio.NewReaderSize(f, 256).Peek(256)
	if bytes.HasPrefix(head, []byte("#!")) {
		line, _, _ := bytes.Cut(head[2:], []byte("\n"))
		// Blanks around the name are skipped; a carriage return isn't one.
		line = bytes.Trim(line, " \t")
		if i := bytes.IndexAny(line, " \t"); i >= 0 {
			line = line[:i]
		}
		return string(line)
	}
	return elfLoader(f, head)
}

// elfLoader reads PT_INTERP of a 64-bit little-endian ELF file: elf(5).
func elfLoader(f io.ReaderAt, head []byte) string {
	le := binary.LittleEndian
	if len(head) < 64 || string(head[:6]) != "\x7fELF\x02\x01" {
		return ""
	}
	at, size, n := int64(le.Uint64(head[32:])), int64(le.Uint16(head[54:])), int(le.Uint16(head[56:]))
	var ph [56]byte
	for i := 0; i < n && size >= int64(len(ph)); i++ {
		if _, err := f.ReadAt(ph[:], at+int64(i)*size); err != nil {
			return ""
		}
		if length := le.Uint64(ph[32:]); le.Uint32(ph[:]) == 3 && length < 4096 { // PT_INTERP
			b := make([]byte, length)
			if _, err := f.ReadAt(b, int64(le.Uint64(ph[8:]))); err != nil {
				return ""
			}
			return string(bytes.TrimRight(b, "\x00"))
		}
	}
	return ""
}

func quote(s string) string {
	for i := 0; i < len(s); i++ {
		if s[i] < ' ' || s[i] == 0x7f {
			return strings.ReplaceAll(strings.ReplaceAll(s, "\r", `\r`), "\n", `\n`)
		}
	}
	return s
}
