package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/dshx/dshx/sandboxpolicy"
	"golang.org/x/sys/unix"
)

// tokenName is the file of the token beside the user's configuration, where no
// command may read or write it (sandboxpolicy, homeSecrets).
const tokenName = "http-token"

// Bounds of a token, in bytes.
const (
	minToken = 16
	maxToken = 4096
)

// TokenError is a file that is not taken for the token's; its text says why, in
// one sentence.
type TokenError struct{ Path, Why string }

// Error is the sentence.
func (e *TokenError) Error() string { return "the token file " + strconv.Quote(e.Path) + " " + e.Why }

// tokenPath is where the token is: absolute, without links on the way. Errors:
// *sandboxpolicy.UsageError.
func tokenPath(flag string, environ []string) (string, error) {
	path := flag
	if flag == "" {
		config, err := sandboxpolicy.UserConfigPath(environ, sandboxpolicy.OSFacts{})
		if err != nil {
			return "", err
		}
		if config == "" {
			return "", &sandboxpolicy.UsageError{Flag: "--http", Msg: "there is no home for its token; name a file with --token-file"}
		}
		path = filepath.Join(filepath.Dir(config), tokenName)
	}
	abs, err := filepath.Abs(path)
	if err != nil || strings.HasSuffix(path, "/") || strings.ContainsRune(path, 0) {
		return "", &sandboxpolicy.UsageError{Flag: "--token-file", Msg: "needs the name of a file"}
	}
	// What of the directory isn't there yet is made, without links.
	dir, missing := filepath.Dir(abs), ""
	for {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			return filepath.Join(real, missing, filepath.Base(abs)), nil
		}
		if dir == "/" {
			return abs, nil
		}
		dir, missing = filepath.Dir(dir), filepath.Join(filepath.Base(dir), missing)
	}
}

// hidden refuses a policy under which commands could read the token: whoever has
// it may begin sessions, and speak there for the person at the client. A deny
// hides it, but not in what may be written as a whole (Landlock grants trees).
// Where nothing is confined there is no place for it; that is a person's choice.
//
// Errors: *TokenError.
func hidden(p *sandboxpolicy.Policy, path string) error {
	if p.Full() {
		return nil
	}
	if strings.ContainsAny(path, `*?[\`) {
		return &TokenError{path, "has a character of patterns in its path, by which it can't be hidden from commands: name a file elsewhere with --token-file"}
	}
	if !p.Denied(path, sandboxpolicy.Read) {
		return &TokenError{path, "is not hidden from commands under this preset: start dshx with it, or without --token-file"}
	}
	for _, r := range p.WriteAllow() {
		if r.Match(path) {
			return &TokenError{path, "lies in " + strconv.Quote(r.Path) + ", where commands may write and it can't be hidden from them: name a file elsewhere with --token-file"}
		}
	}
	return nil
}

// token reads the token, which is made where it is missing. It is this user's own
// and private, or else it is none.
//
// Errors: *TokenError.
func token(path string) (string, error) {
	for range 8 {
		text, err := readToken(path)
		if !errors.Is(err, os.ErrNotExist) {
			return text, err
		}
		if err := makeToken(path); err != nil && !errors.Is(err, os.ErrExist) {
			return "", &TokenError{path, "can't be made: " + err.Error()}
		}
	}
	return "", &TokenError{path, "is being replaced all the time"}
}

func readToken(path string) (string, error) {
	refuse := func(why string) (string, error) { return "", &TokenError{path, why} }
	// O_NONBLOCK: a FIFO is refused, not waited for.
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	switch {
	case err == unix.ENOENT:
		return "", os.ErrNotExist
	case err == unix.ELOOP:
		return refuse("is a symbolic link, which is not followed: name the file itself")
	case err != nil:
		return refuse("can't be read: " + err.Error())
	}
	f := os.NewFile(uintptr(fd), path)
	defer func() { _ = f.Close() }()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return refuse("can't be read: " + err.Error())
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return refuse("is no regular file")
	case int(st.Uid) != os.Geteuid():
		return refuse("belongs to another user")
	case st.Mode&0o077 != 0:
		return refuse(fmt.Sprintf("may be read by others (mode %04o): make a new one by removing it, or chmod 600 it if nobody has read it", st.Mode&0o7777))
	case st.Nlink > 1:
		return refuse("has another name, a hard link, by which it could be read")
	}
	b, err := io.ReadAll(io.LimitReader(f, maxToken+2))
	if err != nil {
		return refuse("can't be read: " + err.Error())
	}
	text := strings.TrimSuffix(strings.TrimSuffix(string(b), "\n"), "\r")
	if len(text) < minToken || len(text) > maxToken || strings.Trim(text, tokenChars) != "" || strings.ContainsFunc(text, func(r rune) bool { return !strings.ContainsRune(tokenChars, r) }) {
		return refuse(fmt.Sprintf("holds no token, which is one line of %d to %d letters, digits and -._~+/=: make a new one by removing it", minToken, maxToken))
	}
	return text, nil
}

// tokenChars are those of a bearer token, RFC 6750 2.1.
const tokenChars = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+/="

// makeToken makes a file with a new token. It has the name when it is whole, and
// no other of that name is replaced. Errors: os.ErrExist (wrapped).
func makeToken(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".http-token-") // mode 0600
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }()
	_, err = io.WriteString(f, rand.Text()+rand.Text()+"\n") // 260 bits
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	// By a link, which replaces nothing, and the other name goes.
	return os.Link(f.Name(), path)
}
