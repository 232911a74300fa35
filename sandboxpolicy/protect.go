package sandboxpolicy

import "strings"

// protSet is a set of the kinds of protected paths, by index into
// protectedNames.
type protSet uint32

// protectedNames are what `unprotect` may name, in the order of `policy
// init`. The git ones hold for every repository at any depth, the others in
// the root of the workspace: a tool runs them when somebody opens the
// directory, and packages that are unpacked deeper down bring their own.
var protectedNames = [...]string{
	protGit:        ".git",
	protConfig:     ".git/config",
	protConfigWT:   ".git/config.worktree",
	protHooks:      ".git/hooks/",
	protCommondir:  ".git/commondir",
	protAttributes: ".git/info/attributes",
	protModules:    ".git/modules/",
	protWorktrees:  ".git/worktrees/",
	protDshx:       ".dshx/",
	protMCP:        ".mcp.json",
	protVSCode:     ".vscode/",
	protIdea:       ".idea/",
	protCursor:     ".cursor/",
	protZed:        ".zed/",
	protClaude:     ".claude/",
	protCodex:      ".codex/",
	protEnvrc:      ".envrc",
	protBazelrc:    ".bazelrc.user",
}

const (
	protGit = iota
	protConfig
	protConfigWT
	protHooks
	protCommondir
	protAttributes
	protModules
	protWorktrees
	protDshx
	protMCP
	protVSCode
	protIdea
	protCursor
	protZed
	protClaude
	protCodex
	protEnvrc
	protBazelrc

	protFirstTool = protDshx
	protNone      = -1
)

// protectedIndex finds an unprotect entry; a trailing slash is optional.
func protectedIndex(s string) int {
	s = strings.TrimSuffix(strings.TrimPrefix(s, "./"), "/")
	for i, n := range protectedNames {
		if strings.TrimSuffix(n, "/") == s {
			return i
		}
	}
	return protNone
}

// protectedIn says which kind of protected path rel is, relative to the root
// of a workspace, or protNone. tools says whether the names of tools count
// (in the workspace itself they do). It allocates nothing.
func protectedIn(rel string, tools bool) int {
	first, rest, more := strings.Cut(rel, "/")
	if tools {
		for i := protFirstTool; i < len(protectedNames); i++ {
			n := protectedNames[i]
			if dir := n[len(n)-1] == '/'; dir && first == n[:len(n)-1] || !dir && rel == n {
				return i
			}
		}
	}
	for {
		// A bare repository conventionally ends in ".git".
		if strings.HasSuffix(first, ".git") {
			if !more {
				if first == ".git" {
					return protGit
				}
				return protNone
			}
			if k := protectedGit(rest); k != protNone {
				return k
			}
		}
		if !more {
			return protNone
		}
		first, rest, more = strings.Cut(rest, "/")
	}
}

// protectedGit judges a path relative to a git directory.
func protectedGit(rel string) int {
	first, rest, more := strings.Cut(rel, "/")
	switch first {
	case "config":
		if !more {
			return protConfig
		}
	case "config.worktree":
		if !more {
			return protConfigWT
		}
	case "commondir", "gitdir":
		if !more {
			return protCommondir
		}
	case "hooks":
		return protHooks
	case "info":
		if rest == "attributes" {
			return protAttributes
		}
	case "modules":
		// A submodule's name may hold slashes: modules/a/b/config. The first
		// component is part of the name whatever it is called.
		_, rest, more = strings.Cut(rest, "/")
		if more && protectedModule(rest) {
			return protModules
		}
	case "worktrees":
		_, rest, more = strings.Cut(rest, "/")
		if !more {
			return protNone
		}
		switch rest {
		case "gitdir", "commondir", "config.worktree":
			return protWorktrees
		}
		if mod, ok := strings.CutPrefix(rest, "modules/"); ok {
			_, rest, more = strings.Cut(mod, "/")
			if more && protectedModule(rest) {
				return protModules
			}
		}
	}
	return protNone
}

// protectedModule judges a path in a submodule's git directory, of which rel
// may still hold the rest of the name.
func protectedModule(rel string) bool {
	for {
		first, rest, more := strings.Cut(rel, "/")
		switch first {
		case "objects", "refs", "logs":
			// Names of branches are below; nothing there is configuration.
			return false
		case "hooks":
			return true
		case "config", "config.worktree", "commondir", "gitdir":
			if !more {
				return true
			}
		case "info":
			if rest == "attributes" {
				return true
			}
		}
		if !more {
			return false
		}
		rel = rest
	}
}

// gitKeep are the names in a git directory that daily work must not write, in
// the form of PathRule.Keep.
var (
	gitKeep      = [...]string{"config", "config.worktree", "hooks", "commondir", "gitdir", "info/attributes"}
	worktreeKeep = [...]string{"commondir", "gitdir", "config.worktree"}
)
