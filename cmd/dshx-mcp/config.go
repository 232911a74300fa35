package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/dshx/dshx/internal/cli"
	"github.com/dshx/dshx/internal/oneshot"
	"github.com/dshx/dshx/sandbox"
	"github.com/dshx/dshx/sandboxpolicy"
	"github.com/dshx/dshx/serve/editors"
)

// printConfig is --print-config: the configuration on out, and on errs where it
// goes. What the flags mean is tried first: a client would show their mistakes
// to nobody.
func printConfig(f *cli.Flags, out, errs io.Writer) error {
	p, notices, err := sandbox.Resolve(f.Request)
	if err != nil {
		return err
	}
	self, err := os.Readlink("/proc/self/exe") // this program itself: proc_pid_exe(5)
	if err != nil {
		return fmt.Errorf("serve: its own place can't be found: %w", err)
	}
	var target editors.Target
	if f.HTTP != "" {
		target, err = endpoint(f, errs)
	} else {
		var args []string
		args, err = kept(f)
		target = editors.Paths{Program: self, Workspace: p.Workspace(), Pinned: f.Request.Workspace != "", Args: args}
	}
	if err != nil {
		return err
	}
	if err := editors.Print(out, f.PrintConfig, target); err != nil {
		if unknown := (*editors.UnknownClientError)(nil); errors.As(err, &unknown) {
			return &sandboxpolicy.UsageError{Flag: "--print-config", Msg: err.Error()}
		}
		return err
	}
	for _, n := range notices {
		fmt.Fprintf(errs, "dshx: %s\n", oneshot.OneLine(n.Text))
	}
	return editors.Explain(errs, f.PrintConfig, target)
}

// endpoint is the server that the flags would start, whose token is made where
// it is missing. Where that is is said on errs.
func endpoint(f *cli.Flags, errs io.Writer) (editors.Target, error) {
	at, name, err := address(f)
	if err != nil {
		return nil, err
	}
	if at.Port == 0 {
		return nil, &sandboxpolicy.UsageError{Flag: "--http", Msg: "a configuration needs the port that the server will listen on, not 0"}
	}
	if at.IP == nil || at.IP.IsUnspecified() {
		return nil, &sandboxpolicy.UsageError{Flag: "--http", Msg: "a configuration needs the address that the client is to connect to"}
	}
	secret, path, err := findToken(f)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(errs, "dshx: the token is in %s\n", oneshot.OneLine(path))
	return editors.Endpoint{URL: "http://" + net.JoinHostPort(name, strconv.Itoa(at.Port)) + "/mcp", Token: secret}, nil
}

// kept are the flags that belong into the configuration: all but those that it
// has by itself. Paths among them are made absolute, since the client's own
// directory is another.
func kept(f *cli.Flags) (args []string, err error) {
	for _, g := range f.Given {
		switch g.Name {
		case "print-config", "build", "workspace":
			continue
		}
		args = append(args, "--"+g.Name)
		if g.Value == "" {
			continue
		}
		text := g.Text
		// A pattern is relative to wherever it holds; what is written as a path is not.
		path := g.Value == "DIR" || g.Value == "FILE" || strings.HasPrefix(text, "./") || strings.HasPrefix(text, "../")
		if path && g.Name != "env" && !strings.HasPrefix(text, "~") {
			if text, err = filepath.Abs(text); err != nil {
				return nil, err
			}
		}
		args = append(args, text)
	}
	return args, nil
}
