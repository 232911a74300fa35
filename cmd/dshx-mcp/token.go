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

// tokenPath is where the token is: absolute, without links in its directory.
// Errors: *sandboxpolicy.UsageError.
func tokenPath(flag string, environ []string) (string, error) {
	if flag == "" {
		config, err := sandboxpolicy.UserConfigPath(environ, sandboxpolicy.OSFacts{})
		if err != nil {
			return "", err
		}
		if config == "" {
			return "", &sandboxpolicy.UsageError{Flag: "--http", Msg: "there is no home for its token; name a file with --token-file"}
		}
		return filepath.Join(filepath.Dir(config), tokenName), nil
	}
	path, err := filepath.Abs(flag)
	if err != nil || strings.HasSuffix(flag, "/") || strings.ContainsRune(flag, 0) {
		return "", &sandboxpolicy.UsageError{Flag: "--token-file", Msg: "needs the name of a file"}
	}
	// What may not be read is the name that commands could use, and what it leads to.
	if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		path = filepath.Join(dir, filepath.Base(path))
	}
	return path, nil
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
