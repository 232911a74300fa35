package sandbox

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"strings"

	"github.com/dshx/dshx/sandbox/internal/spawn"
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
	return "", &StartError{"COMMAND_NOT_FOUND", "command not found: " + name, os.ErrNotExist}
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
func startError(e *spawn.Error, path, name, dir string) error {
	if e.Stage != spawn.StageExec {
		if e.Stage == spawn.StageLandlock {
			if errors.Is(e, unix.E2BIG) {
				return &UnavailableError{"too many Landlock domains are stacked (the kernel allows 16)", "don't nest dshx so deep"}
			}
			return &UnavailableError{"the Landlock domain can't be entered: " + e.Errno.Error(), ""}
		}
		return &StartError{"START_FAILED", "the command can't be started: " + e.Error(), e}
	}
	at := path
	if at == "" || at[0] != '/' {
		at = dir + "/" + at
	}
	st, statErr := os.Stat(at)
	switch e.Errno {
	case unix.ENOENT, unix.ENOTDIR, unix.ELOOP:
		if statErr != nil {
			return &StartError{"COMMAND_NOT_FOUND", "command not found: " + name, e}
		}
		kind, interp := interpreter(at)
		if interp != "" {
			return &StartError{"COMMAND_NOT_FOUND", path + ": its " + kind + " " + quote(interp) + " does not exist", e}
		}
		return &StartError{"COMMAND_NOT_FOUND", path + ": " + e.Errno.Error(), e}
	case unix.EACCES, unix.EPERM:
		switch {
		case statErr == nil && st.IsDir():
			return &StartError{"COMMAND_NOT_EXECUTABLE", path + " is a directory", e}
		case statErr == nil && st.Mode()&0o111 == 0:
			return &StartError{"COMMAND_NOT_EXECUTABLE", path + " is not executable; chmod +x it, or name its interpreter", e}
		}
		if kind, interp := interpreter(at); interp != "" {
			if ist, err := os.Stat(interp); err == nil && (ist.IsDir() || ist.Mode()&0o111 == 0) {
				return &StartError{"COMMAND_NOT_EXECUTABLE", path + ": its " + kind + " " + quote(interp) + " is not executable", e}
			}
		}
		return &StartError{"COMMAND_NOT_EXECUTABLE", path + " may not be executed: " + e.Errno.Error(), e}
	case unix.ENOEXEC:
		return &StartError{"COMMAND_NOT_EXECUTABLE", path + " has no format that the kernel runs; if it is a script, begin it with #! or name its interpreter (sh " + path + ")", e}
	case unix.E2BIG:
		return &StartError{"START_FAILED", "the arguments and the environment are too long for exec (one argument may have 128 KiB)", e}
	case unix.EISDIR:
		return &StartError{"COMMAND_NOT_EXECUTABLE", path + " is a directory", e}
	}
	return &StartError{"START_FAILED", path + ": " + e.Errno.Error(), e}
}

// interpreter returns what the kernel starts for a file: the interpreter of
// its first line, or the loader that an ELF file names.
func interpreter(path string) (kind, interp string) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return "", ""
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
		return "interpreter", string(line)
	}
	return elfLoader(f, head)
}

// elfLoader reads PT_INTERP of a 64-bit little-endian ELF file: elf(5).
func elfLoader(f io.ReaderAt, head []byte) (kind, interp string) {
	le := binary.LittleEndian
	if len(head) < 64 || string(head[:6]) != "\x7fELF\x02\x01" {
		return "", ""
	}
	at, size, n := int64(le.Uint64(head[32:])), int64(le.Uint16(head[54:])), int(le.Uint16(head[56:]))
	var ph [56]byte
	for i := 0; i < n && size >= int64(len(ph)); i++ {
		if _, err := f.ReadAt(ph[:], at+int64(i)*size); err != nil {
			return "", ""
		}
		if length := le.Uint64(ph[32:]); le.Uint32(ph[:]) == 3 && length < 4096 { // PT_INTERP
			b := make([]byte, length)
			if _, err := f.ReadAt(b, int64(le.Uint64(ph[8:]))); err != nil {
				return "", ""
			}
			return "loader", string(bytes.TrimRight(b, "\x00"))
		}
	}
	return "", ""
}

func quote(s string) string {
	for i := 0; i < len(s); i++ {
		if s[i] < ' ' || s[i] == 0x7f {
			return strings.ReplaceAll(strings.ReplaceAll(s, "\r", `\r`), "\n", `\n`)
		}
	}
	return s
}
