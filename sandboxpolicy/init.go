package sandboxpolicy

import "strings"

// InitFile is the commented configuration that `policy init` prints: every
// key, its default, and everything that is protected. As it stands it
// changes nothing; each line that begins with "#" and no space after it is a
// setting to be uncommented.
func InitFile() string {
	var names strings.Builder
	for i, n := range protectedNames {
		if i > 0 {
			names.WriteString(", ")
			if i%6 == 0 {
				names.WriteString("\n#  ")
			}
		}
		names.WriteString(`"` + n + `"`)
	}
	return strings.Replace(initFile, "PROTECTED", names.String(), 1)
}

// UserConfigPath is where the user's configuration stands, whether there is
// one or not: "" when neither XDG_CONFIG_HOME nor a home names a place.
//
// Errors: *UsageError for a HOME that can't be meant.
func UserConfigPath(environ []string, facts Facts) (string, error) {
	b := &builder{req: Request{Environ: environ}, r: newResolver(facts), p: &Policy{}, uid: facts.Getuid()}
	if err := b.findHomes(); err != nil || b.xdgConf == "" {
		return "", err
	}
	return join(b.xdgConf, "config.toml"), nil
}

const initFile = `# dshx: what confined commands may do.
#
# This file stands in $XDG_CONFIG_HOME/dshx/config.toml (~/.config/dshx/config.toml)
# for all your work, or in .dshx/config.toml of a workspace, where it may only
# tighten: what would widen is ignored and named. Flags come last.
#
# Paths: absolute, ~/..., or relative to the workspace. Denies may be patterns:
# *, ? and [...] within a component, ** for any number of components, {~/a,b}
# for several of all this; a deny wins over every allow and holds for what
# appears later.

# The preset: read-only, workspace-write, danger-full-access, or one from below.
#preset = "workspace-write"

# Commands that no rule names: allow, ask or deny. The kernel bounds them anyway.
#unknown_commands = "allow"

# Joined with the preset's own.
[policy]
# Readable and writable beyond the preset. A path must exist to be granted.
#read = []
#write = []
# Never readable (nor writable); never writable.
#deny_read = ["**/.env"]
#deny_write = []
# Protected paths that commands may write after all. These are all there are;
# the ones in .git hold for every repository at any depth. User file only.
#unprotect = [
#  PROTECTED,
#]
# none, loopback or full.
#network = "none"
# Hosts that a filtering proxy lets through.
#allow_domains = ["proxy.example:443"]
# Variables that are passed on though they are not on the list, or look secret.
#env = ["GOFLAGS"]

# Sizes in bytes or with KiB, MiB, GiB; times in seconds or as 1m30s.
[limits]
#memory = "2GiB"
#pids = 512
#cpu_time = "10m"
#file_size = "1GiB"
#tmp_size = "4GiB"

# Rules for commands by their first words: allow, ask or deny, for each simple
# command of a script; the strictest that matches wins.
#[[commands]]
#rule = "deny"
#prefix = ["git", "push"]
#flags = ["--force", "-f"]

# A preset of your own: base is one of the three built-in ones, approvals ask
# or never, and its policy has the keys of [policy].
#[presets.review]
#base = "read-only"
#approvals = "never"
#[presets.review.policy]
#network = "none"
`
