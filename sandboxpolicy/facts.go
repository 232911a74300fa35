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
	data, err := readSmall(path)
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
	data, err := readSmall(passwdFile)
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
