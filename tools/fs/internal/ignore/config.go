package ignore

import (
	"path/filepath"
	"strings"

	"github.com/dshx/dshx/tools/fs/internal/rawfs"
)

// What is read of rule and configuration files, in bytes. git itself takes
// 100 MB of rules; nobody writes them.
const (
	maxRules  = 16 << 20
	maxConfig = 1 << 20
)

// settings are the keys of a configuration that matter here. A nil pointer is
// a key that is not set.
type settings struct {
	excludesFile   *string
	ignoreCase     *bool
	objectFormat   string
	worktreeConfig bool
}

// readConfig adds a configuration file to s: later values win. What cannot be
// read or understood is passed over.
func (s *settings) readConfig(path, home string, depth int) {
	data, err := rawfs.ReadFile(path, true, maxConfig)
	if err != nil || depth > 10 {
		return
	}
	parseConfig(string(data), func(key, value string, bare bool) {
		switch key {
		case "core.excludesfile":
			v := expandPath(value, home, filepath.Dir(path), false)
			s.excludesFile = &v
		case "core.ignorecase":
			v := bare || truth(value)
			s.ignoreCase = &v
		case "extensions.objectformat":
			s.objectFormat = strings.ToLower(value)
		case "extensions.worktreeconfig":
			s.worktreeConfig = bare || truth(value)
		case "include.path":
			if p := expandPath(value, home, filepath.Dir(path), true); p != "" {
				s.readConfig(p, home, depth+1)
			}
		}
	})
}

func truth(s string) bool {
	switch strings.ToLower(s) {
	case "true", "yes", "on", "1":
		return true
	}
	return false
}

// expandPath resolves "~/"; a relative path is one below base only for
// includes. It is empty for what cannot be resolved.
func expandPath(p, home, base string, relative bool) string {
	switch {
	case strings.HasPrefix(p, "~/"):
		if home == "" {
			return ""
		}
		return filepath.Join(home, p[2:])
	case strings.HasPrefix(p, "/"):
		return p
	case p != "" && relative:
		return filepath.Join(base, p)
	}
	return p
}

// parseConfig calls set for each variable of a git configuration, with its
// name in lower case, subsections as written. bare is a variable without "=".
// It stops at the first line that is malformed.
func parseConfig(text string, set func(key, value string, bare bool)) {
	section := ""
	text = strings.TrimPrefix(text, "\xef\xbb\xbf")
	text = strings.ReplaceAll(text, "\r\n", "\n")
	for text != "" {
		switch c := text[0]; {
		case c == ' ' || c == '\t' || c == '\n':
			text = text[1:]
		case c == '#' || c == ';':
			_, text, _ = strings.Cut(text, "\n")
		case c == '[':
			end := 1
			for quoted := false; ; end++ {
				if end == len(text) || text[end] == '\n' {
					return
				}
				if text[end] == '\\' && quoted {
					end++
					if end == len(text) {
						return
					}
					continue
				}
				if text[end] == '"' {
					quoted = !quoted
				}
				if text[end] == ']' && !quoted {
					break
				}
			}
			section = text[1:end]
			if name, sub, ok := strings.Cut(section, "\""); ok {
				section = strings.ToLower(strings.TrimSpace(name)) + "." + strings.TrimSuffix(sub, "\"")
			} else {
				section = strings.ToLower(section)
			}
			text = text[end+1:]
		default:
			n := 0
			for n < len(text) && (alpha(text[n]) || digit(text[n]) || text[n] == '-') {
				n++
			}
			if n == 0 {
				return
			}
			key := section + "." + strings.ToLower(text[:n])
			text = strings.TrimLeft(text[n:], " \t")
			if !strings.HasPrefix(text, "=") {
				if text != "" && strings.IndexByte("\n#;", text[0]) < 0 {
					return
				}
				set(key, "", true)
				continue
			}
			value, rest, ok := configValue(text[1:])
			if !ok {
				return
			}
			set(key, value, false)
			text = rest
		}
	}
}

// configValue reads a value up to the end of its line.
func configValue(text string) (value, rest string, ok bool) {
	var b strings.Builder
	quoted := false
	keep := 0 // white space at the end, outside of quotes, is no part of it
	text = strings.TrimLeft(text, " \t")
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\n':
			return b.String()[:keep], text[i+1:], !quoted
		case (c == '#' || c == ';') && !quoted:
			_, rest, _ := strings.Cut(text[i:], "\n")
			return b.String()[:keep], rest, true
		case c == '"':
			quoted = !quoted
			keep = b.Len()
		case c == '\\':
			i++
			if i == len(text) {
				return "", "", false
			}
			switch text[i] {
			case '\n':
				continue
			case 'n':
				b.WriteByte('\n')
			case 't':
				b.WriteByte('\t')
			case 'b':
				b.WriteByte('\b')
			case '"', '\\':
				b.WriteByte(text[i])
			default:
				return "", "", false
			}
			keep = b.Len()
		default:
			b.WriteByte(c)
			if quoted || c != ' ' && c != '\t' {
				keep = b.Len()
			}
		}
	}
	return b.String()[:keep], "", !quoted
}

// Global is what git takes from outside of repositories. The zero value is
// nothing: no rules.
type Global struct {
	// Rules are the text of the file that core.excludesFile names, or of its
	// default. A repository's own core.excludesFile replaces it.
	Rules []byte
	// IgnoreCase is core.ignoreCase, where a repository doesn't set it.
	IgnoreCase bool
	// Home is what "~/" stands for in a repository's configuration.
	Home string
}

// LoadGlobal reads the configuration of a user: system (nil stands for
// /etc/gitconfig), configHome/git/config, home/.gitconfig, and the rules that
// they name, configHome/git/ignore by default. configHome is
// $XDG_CONFIG_HOME, or empty for home/.config.
//
// What cannot be read counts as not there.
func LoadGlobal(home, configHome string, system []string) Global {
	if system == nil {
		system = []string{"/etc/gitconfig"}
	}
	if configHome == "" && home != "" {
		configHome = filepath.Join(home, ".config")
	}
	var s settings
	for _, path := range system {
		s.readConfig(path, home, 0)
	}
	rules := ""
	if configHome != "" {
		s.readConfig(filepath.Join(configHome, "git/config"), home, 0)
		rules = filepath.Join(configHome, "git/ignore")
	}
	if home != "" {
		s.readConfig(filepath.Join(home, ".gitconfig"), home, 0)
	}
	if s.excludesFile != nil {
		rules = *s.excludesFile
	}
	g := Global{Home: home, IgnoreCase: s.ignoreCase != nil && *s.ignoreCase}
	if filepath.IsAbs(rules) {
		g.Rules, _ = rawfs.ReadFile(rules, true, maxRules)
	}
	return g
}
