package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/dshx/dshx/internal/cli"
	"github.com/dshx/dshx/internal/oneshot"
	"github.com/dshx/dshx/sandbox"
	"github.com/dshx/dshx/sandboxpolicy"
	"github.com/spf13/cobra"
)

func newPolicy() *cobra.Command {
	return group(&cobra.Command{
		Use:   "policy",
		Short: "Show what applies, and why",
		Long:  "Show what a policy allows and denies, and where each rule comes from.",
	}, newPolicyShow(), newPolicyExplain(), newPolicyInit())
}

func newPolicyShow() *cobra.Command {
	return command(&cobra.Command{
		Use:   "show [flags]",
		Short: "Print every rule with its origin",
	}, operands{}, policyShow, cli.JSON, cli.Shared)
}

func policyShow(c *cobra.Command, f *cli.Flags, _ []string) error {
	p, notices, err := resolve(f)
	if err != nil {
		return err
	}
	rules := p.Rules()
	if f.JSON {
		if notices == nil {
			notices = []sandboxpolicy.Notice{}
		}
		return printJSON(c.OutOrStdout(), struct {
			Preset    string                   `json:"preset"`
			Workspace string                   `json:"workspace"`
			Rules     []sandboxpolicy.RuleLine `json:"rules"`
			Notices   []sandboxpolicy.Notice   `json:"notices"`
		}{p.Preset(), p.Workspace(), rules, notices})
	}
	printNotices(c, notices)
	rows := [][]string{{"KIND", "VALUE", "ORIGIN", "RULE"}}
	for _, r := range rules {
		rows = append(rows, []string{r.Kind, printable(r.Value), printable(r.Origin), printable(r.Text)})
	}
	return printTable(c.OutOrStdout(), rows)
}

// resolve makes the policy of flags as exec would.
func resolve(f *cli.Flags) (*sandboxpolicy.Policy, []sandboxpolicy.Notice, error) {
	f.Request.Environ = os.Environ()
	return sandbox.Resolve(f.Request)
}

func printNotices(c *cobra.Command, notices []sandboxpolicy.Notice) {
	for _, n := range notices {
		fmt.Fprintf(c.ErrOrStderr(), "dshx: %s\n", oneshot.OneLine(n.Text))
	}
}

func newPolicyExplain() *cobra.Command {
	var ops []string
	for _, op := range sandboxpolicy.Ops() {
		ops = append(ops, string(op))
	}
	return command(&cobra.Command{
		Use:   "explain [flags] OP TARGET",
		Short: "Say whether one operation is allowed, by which rule, and what enforces it",
		Long: `Say whether one operation is allowed, by which rule, and what enforces it.

OP is one of ` + strings.Join(ops[:10], " ") + `
` + strings.Join(ops[10:], " ") + `.
TARGET is a path, HOST:PORT, unix:PATH, unix:@NAME or pid:N.`,
		Example: `  dshx policy explain write ~/.bashrc
  dshx policy explain --network loopback connect 127.0.0.1:8080
  dshx policy explain --check read /etc/shadow || echo denied`,
	}, operands{min: 2, max: 2, complete: func(n int, _ []string) []string {
		if n == 0 {
			return ops
		}
		return nil
	}}, policyExplain, cli.JSON, cli.Explain, cli.Shared)
}

func policyExplain(c *cobra.Command, f *cli.Flags, args []string) error {
	p, notices, err := resolve(f)
	if err != nil {
		return err
	}
	h := sandbox.ProbeHost()
	h.TryListener()
	e, err := sandbox.ExplainOp(p, h, sandboxpolicy.Op(args[0]), args[1], sandboxpolicy.OSFacts{})
	if err != nil {
		return err
	}
	if f.JSON {
		err = printJSON(c.OutOrStdout(), e)
	} else {
		printNotices(c, notices)
		err = printExplanation(c.OutOrStdout(), e)
	}
	if err == nil && f.Check && e.Verdict == "deny" {
		return statusError(exitFailed)
	}
	return err
}

func printExplanation(w io.Writer, e sandbox.Explanation) error {
	by := strings.Join(e.EnforcedBy, ", ")
	if by == "" {
		by = "nothing"
	}
	rows := [][]string{
		{e.Verdict, string(e.Op) + " " + printable(e.Resolved)},
		{"rule", printable(e.Rule.Text) + " (" + printable(e.Rule.Origin) + ")"},
		{"judged by", by},
	}
	if e.Gap != nil {
		rows = append(rows, []string{"gap", e.Gap.Promise + ": " + printable(e.Gap.Reason)}, []string{"", e.Gap.Remedy})
	}
	if e.Remedy != nil {
		rows = append(rows, []string{"remedy", printable(*e.Remedy)})
	}
	return printTable(w, rows)
}

func newPolicyInit() *cobra.Command {
	return command(&cobra.Command{
		Use:   "init [flags]",
		Short: "Print a commented configuration to start from, or store it",
		Long: `Print a commented configuration to start from, or store it.

It is the same file whatever the policy. Of the flags that all commands share
--workspace and --allow-broad-workspace say where --write workspace puts it.`,
	}, operands{}, policyInit, cli.Init)
}

func policyInit(c *cobra.Command, f *cli.Flags, _ []string) error {
	var path string
	var err error
	switch f.Store {
	case "":
		_, err = io.WriteString(c.OutOrStdout(), sandboxpolicy.InitFile())
		return err
	case "user":
		if path, err = sandboxpolicy.UserConfigPath(os.Environ(), sandboxpolicy.OSFacts{}); err != nil {
			return err
		}
		if path == "" {
			return errors.New("the user's configuration has no place: neither XDG_CONFIG_HOME nor HOME names a directory")
		}
	case "workspace":
		// What is configured now, perhaps wrongly, does not matter.
		p, _, err := resolve(&cli.Flags{Request: sandboxpolicy.Request{NoConfig: true,
			Workspace: f.Request.Workspace, AllowBroadWorkspace: f.Request.AllowBroadWorkspace}})
		if err != nil {
			return err
		}
		path = filepath.Join(p.Workspace(), ".dshx", "config.toml")
	}
	if err := store(path, f.Store == "user"); err != nil {
		return err
	}
	fmt.Fprintf(c.ErrOrStderr(), "dshx: wrote %s\n", printable(path))
	return nil
}

// store writes the file unless one is there. A directory of the user's own is
// private, as the XDG Base Directory Specification has it.
func store(path string, private bool) error {
	mode := fs.FileMode(0o777)
	if private {
		mode = 0o700
	}
	if err := os.MkdirAll(filepath.Dir(path), mode); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	switch {
	case errors.Is(err, fs.ErrExist):
		return fmt.Errorf("%s is there already; edit it, or remove it first", path)
	case err != nil:
		return err
	}
	_, err = io.WriteString(file, sandboxpolicy.InitFile())
	if e := file.Close(); err == nil {
		err = e
	}
	if err != nil {
		_ = os.Remove(path) // ours, since O_EXCL made it
	}
	return err
}

func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// printable keeps what a path holds from reaching the terminal as anything but
// text.
func printable(s string) string {
	if utf8.ValidString(s) && strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) < 0 {
		return s
	}
	return strconv.Quote(s)
}

// printTable aligns columns. One very long cell doesn't push the others away.
func printTable(w io.Writer, rows [][]string) error {
	const widest = 60
	var width []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(width) {
				width = append(width, 0)
			}
			if n := utf8.RuneCountInString(cell); n > width[i] && n <= widest {
				width[i] = n
			}
		}
	}
	var b strings.Builder
	for _, row := range rows {
		last := len(row) - 1
		for last > 0 && row[last] == "" {
			last--
		}
		for i, cell := range row[:last+1] {
			b.WriteString(cell)
			if i < last {
				b.WriteString(strings.Repeat(" ", max(0, width[i]-utf8.RuneCountInString(cell))+2))
			}
		}
		b.WriteByte('\n')
	}
	_, err := io.WriteString(w, b.String())
	return err
}
