package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/dshx/dshx/internal/cli"
	"github.com/dshx/dshx/internal/doctor"
	"github.com/dshx/dshx/internal/oneshot"
	"github.com/dshx/dshx/sandbox"
	"github.com/spf13/cobra"
)

func newDoctor() *cobra.Command {
	return command(&cobra.Command{
		Use:   "doctor [flags]",
		Short: "Find out by real probes what this machine can enforce",
		Long: `Find out by real probes what this machine can enforce, for each preset and for
the policy that the flags ask for: the policy is put in force, and a child
tries what it must not do.

Exits 1 where nothing can be enforced or an attempt succeeded that the policy
refuses, and with --require full where a promise of the policy is a gap.`,
	}, operands{}, runDoctor, cli.JSON, cli.Shared)
}

func runDoctor(c *cobra.Command, f *cli.Flags, _ []string) error {
	f.Request.Environ = os.Environ()
	r, err := doctor.Run(f.Request)
	if err != nil {
		return err
	}
	if f.JSON {
		err = printJSON(c.OutOrStdout(), r)
	} else {
		for _, n := range r.Notes {
			fmt.Fprintf(c.ErrOrStderr(), "dshx: %s\n", oneshot.OneLine(n))
		}
		err = printReport(c.OutOrStdout(), r)
	}
	if err == nil && (r.Failed() || f.RequireFull && !r.Full()) {
		return statusError(exitFailed)
	}
	return err
}

func printReport(w io.Writer, r *doctor.Report) error {
	var b strings.Builder
	abi := "no Landlock"
	if r.LandlockABI > 0 {
		abi = fmt.Sprintf("Landlock ABI %d", r.LandlockABI)
	}
	fmt.Fprintf(&b, "Linux %s, %s\n\n", r.Kernel, abi)

	rows := [][]string{{"MECHANISM", "HERE", "WHY NOT, AND WHAT TO DO"}}
	for _, m := range r.Mechanisms {
		here, why := "yes", ""
		if !m.Available {
			here, why = "no", *m.Reason
			if m.Remedy != nil {
				why += "; " + *m.Remedy
			}
		}
		rows = append(rows, []string{m.Name, here, why})
	}
	_ = printTable(&b, rows)
	if r.Unavailable != nil {
		fmt.Fprintf(&b, "\nNothing can be confined here: %s\n", *r.Unavailable)
	}
	for _, name := range r.Presets {
		if e, ok := r.Enforcement[name]; ok {
			printEnforcement(&b, e, name == r.Preset)
		}
	}
	printChecks(&b, r)
	_, err := io.WriteString(w, b.String())
	return err
}

func printEnforcement(b *strings.Builder, e sandbox.Enforcement, asked bool) {
	fmt.Fprintf(b, "\n%s", e.Preset)
	if asked {
		b.WriteString(" (with these flags, here)")
	}
	switch e.Level {
	case "none":
		b.WriteString(": confines nothing\n")
		return
	case "full":
		b.WriteString(": every promise is held")
	default:
		gaps := "gaps"
		if len(e.Gaps) == 1 {
			gaps = "gap"
		}
		fmt.Fprintf(b, ": held but for %d %s", len(e.Gaps), gaps)
	}
	fmt.Fprintf(b, ", by %s\n", strings.Join(e.Mechanisms, ", "))
	var rows [][]string
	for _, g := range e.Gaps {
		rows = append(rows, []string{"  " + g.Promise, g.Reason}, []string{"", "→ " + g.Remedy})
	}
	_ = printTable(b, rows)
}

// printChecks prints the attempts as a table with a column for each preset.
func printChecks(b *strings.Builder, r *doctor.Report) {
	header := []string{"TRIED INSIDE"}
	var names []string
	for _, name := range r.Presets {
		if len(r.Checks[name]) > 0 {
			header, names = append(header, name), append(names, name)
		}
	}
	if len(names) == 0 {
		return
	}
	b.WriteByte('\n')
	rows := [][]string{header}
	var notes []string
	for i, first := range r.Checks[names[0]] {
		row := []string{first.Name}
		for _, name := range names {
			c := r.Checks[name][i]
			row = append(row, said(c))
			if c.Note != nil && c.Status != doctor.StatusGap {
				notes = append(notes, fmt.Sprintf("%s, %s: %s\n", name, c.Name, printable(*c.Note)))
			}
		}
		rows = append(rows, row)
	}
	_ = printTable(b, rows)
	if len(notes) > 0 {
		b.WriteString("\n" + strings.Join(notes, ""))
	}
}

func said(c doctor.Result) string {
	what := "done"
	if c.Refused {
		what = "refused"
	}
	switch c.Status {
	case doctor.StatusGap:
		return what + ": gap " + *c.Note
	case doctor.StatusContradiction:
		return what + ": WRONG"
	case doctor.StatusInconclusive:
		return what + ", tells nothing"
	case doctor.StatusHeld:
		if !c.Refused {
			return "allowed"
		}
	}
	return what
}

// newCheck is what doctor starts inside: see package doctor.
func newCheck() *cobra.Command {
	c := command(&cobra.Command{Use: doctor.CheckCommand, Hidden: true, Short: "Used by doctor"}, operands{max: 1},
		func(c *cobra.Command, _ *cli.Flags, args []string) error {
			return doctor.Check(c.InOrStdin(), c.OutOrStdout(), args)
		})
	return c
}
