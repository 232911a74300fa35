package sandboxpolicy

import (
	"errors"
	"io/fs"
	"os"
	"strconv"
	"strings"
)

// Facts is the disk and the account as Resolve sees them. Paths are
// absolute. Tests fake it; OSFacts is the real one.
type Facts interface {
	Lstat(path string) (fs.FileInfo, error)
	ReadDir(path string) ([]fs.DirEntry, error)
	Readlink(path string) (string, error)
	// ReadFile returns a regular file's content; it must not block on
	// anything else, and may refuse files over MaxConfigBytes.
	ReadFile(path string) ([]byte, error)
	// Getwd is the caller's current directory, absolute.
	Getwd() (string, error)
	Getuid() int
	// AccountHome is the home directory in the account database, or "".
	AccountHome(uid int) string
	// OtherHomes are the homes of the ordinary accounts (uid 1000 and up),
	// the caller's own included or not.
	OtherHomes() []string
	// Mounts are the mounts that this process sees, a later one over an
	// earlier one at the same point.
	Mounts() ([]Mount, error)
}

// Mount is a directory, or a file, that shows a part of a file system.
type Mount struct {
	Device string // which file system: its major and minor number
	Root   string // the part, as a path in it
	Point  string // where it is shown
}

// MaxConfigBytes is the size up to which files are read.
const MaxConfigBytes = 1 << 20

// OSFacts is the running system.
type OSFacts struct{}

var _ Facts = OSFacts{}

// Lstat is os.Lstat.
func (OSFacts) Lstat(path string) (fs.FileInfo, error) { return os.Lstat(path) }

// ReadDir is os.ReadDir.
func (OSFacts) ReadDir(path string) ([]fs.DirEntry, error) { return os.ReadDir(path) }

// Readlink is os.Readlink.
func (OSFacts) Readlink(path string) (string, error) { return os.Readlink(path) }

// Getwd is os.Getwd.
func (OSFacts) Getwd() (string, error) { return os.Getwd() }

// Getuid is os.Getuid.
func (OSFacts) Getuid() int { return os.Getuid() }

var (
	errNotRegular = errors.New("not a regular file")
	errTooLarge   = errors.New("larger than 1 MiB")
)

// ReadFile reads a regular file of at most MaxConfigBytes.
func (OSFacts) ReadFile(path string) ([]byte, error) {
	data, err := readSmall(path, MaxConfigBytes)
	if err != nil {
		return nil, &fs.PathError{Op: "read", Path: path, Err: err}
	}
	return data, nil
}

const passwdFile = "/etc/passwd"

// AccountHome looks uid up in /etc/passwd. Accounts that only a name service
// knows have no home here; HOME then decides alone.
func (f OSFacts) AccountHome(uid int) string {
	var home string
	f.accounts(func(u int, h string) bool {
		if u == uid {
			home = h
			return false
		}
		return true
	})
	return home
}

// OtherHomes lists the homes in /etc/passwd of accounts from uid 1000 on.
func (f OSFacts) OtherHomes() []string {
	var homes []string
	f.accounts(func(u int, h string) bool {
		if u >= 1000 {
			homes = append(homes, h)
		}
		return true
	})
	return homes
}

func (OSFacts) accounts(yield func(uid int, home string) bool) {
	data, err := readSmall(passwdFile, MaxConfigBytes)
	if err != nil {
		return
	}
	for rest := string(data); rest != ""; {
		var line string
		line, rest, _ = strings.Cut(rest, "\n")
		// name:password:uid:gid:gecos:home:shell, passwd(5)
		var field [7]string
		n := 0
		for n < 7 {
			var ok bool
			field[n], line, ok = strings.Cut(line, ":")
			n++
			if !ok {
				break
			}
		}
		if n < 6 {
			continue
		}
		uid, err := strconv.Atoi(field[2])
		if err != nil || !strings.HasPrefix(field[5], "/") {
			continue
		}
		if !yield(uid, field[5]) {
			return
		}
	}
}

// maxMountBytes bounds the table of mounts: hosts of containers have thousands.
const maxMountBytes = 64 << 20

// Mounts reads /proc/self/mountinfo.
func (OSFacts) Mounts() ([]Mount, error) {
	const path = "/proc/self/mountinfo"
	data, err := readSmall(path, maxMountBytes)
	if err != nil {
		return nil, &fs.PathError{Op: "read", Path: path, Err: err}
	}
	return parseMounts(string(data)), nil
}

// parseMounts reads lines "ID PARENT MAJOR:MINOR ROOT POINT …",
// proc_pid_mountinfo(5).
func parseMounts(text string) []Mount {
	mounts := make([]Mount, 0, 64)
	for text != "" {
		var line string
		line, text, _ = strings.Cut(text, "\n")
		_, line, _ = strings.Cut(line, " ")
		_, line, _ = strings.Cut(line, " ")
		var m Mount
		m.Device, line, _ = strings.Cut(line, " ")
		m.Root, line, _ = strings.Cut(line, " ")
		m.Point, _, _ = strings.Cut(line, " ")
		m.Root, m.Point = unescapeMount(m.Root), unescapeMount(m.Point)
		if strings.HasPrefix(m.Root, "/") && strings.HasPrefix(m.Point, "/") {
			mounts = append(mounts, m)
		}
	}
	return mounts
}

// unescapeMount undoes the octal escapes of space, tab, newline and backslash.
func unescapeMount(s string) string {
	if strings.IndexByte(s, '\\') < 0 {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
