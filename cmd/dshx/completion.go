package main

import (
	"io"
	"slices"
	"strings"

	"github.com/dshx/dshx/internal/cli"
	"github.com/spf13/cobra"
)

var shells = []string{"bash", "zsh", "fish", "powershell"}

func newCompletion() *cobra.Command {
	return command(&cobra.Command{
		Use:   "completion bash|zsh|fish|powershell",
		Short: "Print a script that completes dshx in a shell",
		Example: `  bash:        . <(dshx completion bash)
  zsh:         dshx completion zsh > "${fpath[1]}/_dshx"
  fish:        dshx completion fish > ~/.config/fish/completions/dshx.fish
  powershell:  dshx completion powershell | Out-String | Invoke-Expression`,
	}, operands{min: 1, max: 1, complete: func(int, []string) []string { return shells }}, func(c *cobra.Command, _ *cli.Flags, args []string) error {
		if !slices.Contains(shells, args[0]) {
			return usagef("unknown shell %q; there are %s", args[0], strings.Join(shells, ", "))
		}
		root, out := c.Root(), c.OutOrStdout()
		return map[string]func(io.Writer) error{
			"bash":       func(w io.Writer) error { return root.GenBashCompletionV2(w, true) },
			"zsh":        root.GenZshCompletion,
			"fish":       func(w io.Writer) error { return root.GenFishCompletion(w, true) },
			"powershell": root.GenPowerShellCompletionWithDesc,
		}[args[0]](out)
	})
}
