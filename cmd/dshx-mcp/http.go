package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strconv"

	"github.com/dshx/dshx/internal/cli"
	"github.com/dshx/dshx/internal/oneshot"
	"github.com/dshx/dshx/internal/program"
	"github.com/dshx/dshx/internal/toolset"
	"github.com/dshx/dshx/sandbox"
	"github.com/dshx/dshx/sandboxpolicy"
	"github.com/dshx/dshx/serve/mcp"
	"github.com/dshx/dshx/sessionlog"
)

// address is what --http names. What is no loopback address must be wanted.
// Errors: *sandboxpolicy.UsageError.
func address(f *cli.Flags) (at *net.TCPAddr, name string, err error) {
	wrong := func(format string, a ...any) (*net.TCPAddr, string, error) {
		return nil, "", &sandboxpolicy.UsageError{Flag: "--http", Msg: fmt.Sprintf(format, a...)}
	}
	name, port, err := net.SplitHostPort(f.HTTP)
	if n, e := strconv.ParseUint(port, 10, 16); err != nil || e != nil || port != strconv.FormatUint(n, 10) {
		return wrong("%q is no address: want HOST:PORT, such as 127.0.0.1:8765", f.HTTP)
	}
	if at, err = net.ResolveTCPAddr("tcp", f.HTTP); err != nil {
		return wrong("%q is no address: %v", f.HTTP, err)
	}
	if !at.IP.IsLoopback() && !f.HTTPAnyAddress {
		return wrong("%q is not on the loopback: other machines would reach it, and the token goes over the network as it is; --http-any-address allows that", f.HTTP)
	}
	return at, name, nil
}

// findToken reads the token, and keeps commands from it. Nothing is made where
// they could read it.
//
// Errors: *sandboxpolicy.UsageError, *TokenError, those of sandbox.Resolve.
func findToken(f *cli.Flags) (secret, path string, err error) {
	if path, err = tokenPath(f.TokenFile, f.Request.Environ); err != nil {
		return "", "", err
	}
	p, _, err := sandbox.Resolve(f.Request)
	if err == nil && !p.Full() && !p.Denied(path, sandboxpolicy.Read) {
		// The usual place is a secret under any policy.
		f.Request.DenyRead = append(f.Request.DenyRead, path)
		p, _, err = sandbox.Resolve(f.Request)
	}
	if err == nil {
		err = hidden(p, path)
	}
	if err == nil {
		secret, err = token(path)
	}
	return secret, path, err
}

// serveHTTP is `dshx serve --http`; it returns the exit status.
func serveHTTP(ctx context.Context, f *cli.Flags, say *sayer, errs io.Writer, log *slog.Logger) int {
	at, name, err := address(f)
	if err != nil {
		return fail(errs, err, oneshot.ExitUsage)
	}
	secret, path, err := findToken(f)
	if err != nil {
		var place *TokenError
		if errors.As(err, &place) {
			return fail(errs, err, 1)
		}
		_, exit := oneshot.Classify(err)
		return fail(errs, err, exit)
	}
	h, err := openHouse(f, path, log)
	if err != nil {
		log.Error(err.Error())
		_, exit := oneshot.Classify(err)
		return exit
	}
	defer h.close()
	l, err := net.ListenTCP("tcp", at)
	if err != nil {
		log.Error(err.Error())
		return 1
	}
	_, _ = fmt.Fprintf(say, "dshx: listening on http://%s/mcp\n", l.Addr())
	log.Info("clients need the token", "file", path)
	err = mcp.ServeHTTP(ctx, l, mcp.HTTPOptions{
		Options:     mcp.Options{Presets: true, Version: program.Version(), Tools: toolset.Definitions, Log: log},
		OpenSession: h.open,
		Token:       secret,
		AnyAddress:  f.HTTPAnyAddress, Names: []string{name},
		MaxSessions: f.MaxSessions, Idle: f.SessionIdle,
	})
	var sig program.Ended
	if errors.As(err, &sig) {
		return 128 + int(sig.Signal)
	}
	log.Error(err.Error())
	return 1
}

// house is what the sessions of a server share.
type house struct {
	host   *toolset.Host
	token  string          // its file
	log    *sessionlog.Log // nil without one
	endLog func()
}

// openHouse tries whether the policy of the flags can be in force: no client would
// show their mistakes to whoever made them.
func openHouse(f *cli.Flags, token string, log *slog.Logger) (_ *house, err error) {
	h := &house{host: newHost(f, log), token: token, endLog: func() {}}
	defer func() {
		if err != nil {
			h.close()
		}
	}()
	first, err := h.host.Session("start")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, first.Close()) }()
	if err := first.Opened(context.Background()); err != nil {
		return nil, err
	}
	if f.Log != "" {
		if h.log, h.endLog, err = openLog(first, f.Log, log); err != nil {
			return nil, err
		}
	}
	for _, n := range first.Notices() {
		log.Warn(n.Text)
	}
	if first.Policy().Full() {
		log.Warn("under " + first.Policy().Preset() + " commands may read the token, and with it begin sessions of their own")
	}
	return h, nil
}

func (h *house) close() {
	_ = h.host.Close()
	h.endLog()
}

// open puts the policy in force for a session.
func (h *house) open(name string) (mcp.Session, error) {
	session, err := h.host.Session(name)
	if err == nil {
		err = session.Opened(context.Background())
	}
	if err != nil {
		if session != nil {
			_ = session.Close()
		}
		return nil, err
	}
	session.BeforeSwitch(func(p *sandboxpolicy.Policy) error { return hidden(p, h.token) })
	t := &tools{session: session, end: session.Close}
	if h.log != nil {
		t.record(h.log.Scope(name))
	}
	return t, nil
}
