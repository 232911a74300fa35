package sandboxpolicy

import "strings"

// Word is one word of a command as far as it is known before it runs.
type Word struct {
	Text  string // what the word is, without quotes; if not Fixed, what it begins with
	Fixed bool   // otherwise it is known when the command runs: "$x"
	Many  bool   // not Fixed: it may become none or several words: $x, "$@"
}

// Fixed makes words of which all is known.
func Fixed(argv ...string) []Word {
	words := make([]Word, len(argv))
	for i, a := range argv {
		words[i] = Word{Text: a, Fixed: true}
	}
	return words
}

// CommandMatch is what the command rules say of one simple command. The zero
// value: no rule names it.
type CommandMatch struct {
	// Rule is the strictest rule that names the command, or may name it.
	Rule *CommandRule
	// Maybe: whether Rule names the command is known when it runs. Only deny and
	// ask are such; an allow rule names what is known, or nothing.
	Maybe bool
}

// HasCommandRules reports whether commands have to be looked at at all: where
// no rule is and commands that none names are allowed, every one is.
func (p *Policy) HasCommandRules() bool { return len(p.commands) > 0 || p.unknownCmds != "allow" }

// UnknownCommandsOrigin is where UnknownCommands comes from.
func (p *Policy) UnknownCommandsOrigin() string { return p.unknownOrg }

// MatchCommand finds the strictest rule that names a simple command: deny,
// then deny that may, then ask, then allow. Of equal ones the first.
//
// What is refused is matched loosely, so that the ways in which people write
// one command are one: by the base name of the program; options, with a value
// each, may stand between the words of the prefix; -fu has -f, --forc is
// --force, and --force=x, too. What is allowed is matched by the letter: its
// words one after the other, and the program by its bare name or in a
// directory of the system.
func (p *Policy) MatchCommand(argv []Word) CommandMatch {
	var found CommandMatch
	if len(argv) == 0 {
		return found
	}
	best := 0
	for _, i := range p.rulesFor(argv[0]) {
		r := &p.commands[i]
		rank, maybe := 0, false
		switch {
		case r.Rule == "allow":
			if r.covers(argv) {
				rank = 1
			}
		default:
			m := r.names(argv)
			maybe = m == may
			switch {
			case m == no:
			case r.Rule == "deny" && !maybe:
				rank = 5
			case r.Rule == "deny":
				rank = 4
			case !maybe:
				rank = 3
			default:
				rank = 2
			}
		}
		if rank > best {
			best, found = rank, CommandMatch{r, maybe}
		}
	}
	return found
}

// rulesFor are the indexes of the rules that can name a command, in order.
func (p *Policy) rulesFor(name Word) []int {
	if !name.Fixed {
		return p.commandRest
	}
	return p.commandsAt[baseOf(trimSlash(name.Text))]
}

// indexCommands makes commandsAt and commandRest.
func (p *Policy) indexCommands() {
	if len(p.commands) == 0 {
		return
	}
	p.commandsAt = map[string][]int{}
	for i := range p.commands {
		r := &p.commands[i]
		base := baseOf(trimSlash(r.Prefix[0]))
		p.commandsAt[base] = append(p.commandsAt[base], i)
		if r.Rule != "allow" { // what isn't known is never allowed
			p.commandRest = append(p.commandRest, i)
		}
	}
}

// systemDirs are where a program has a bare name's meaning though its path is
// written out.
var systemDirs = [...]string{"/bin/", "/sbin/", "/usr/bin/", "/usr/sbin/", "/usr/local/bin/", "/usr/local/sbin/"}

// covers reports whether an allow rule names a command.
func (r *CommandRule) covers(argv []Word) bool {
	if len(argv) < len(r.Prefix) {
		return false
	}
	for i, want := range r.Prefix {
		w := argv[i]
		if !w.Fixed {
			return false
		}
		if w.Text == want {
			continue
		}
		if i > 0 || strings.IndexByte(want, '/') >= 0 {
			return false
		}
		inSystem := false
		for _, dir := range systemDirs {
			inSystem = inSystem || w.Text == dir+want
		}
		if !inSystem {
			return false
		}
	}
	if len(r.Flags) == 0 {
		return true
	}
	for _, w := range argv[len(r.Prefix):] {
		if w.Fixed && w.Text == "--" {
			break
		}
		for _, f := range r.Flags {
			if w.Fixed && w.Text == f {
				return true
			}
		}
	}
	return false
}

// match is how sure it is that a rule names a command.
type match uint8

const (
	no match = iota
	may
	yes
)

// names reports whether a deny or ask rule names a command. Its time is in
// proportion to the words of both.
func (r *CommandRule) names(argv []Word) match {
	name := argv[0]
	first := yes
	switch {
	case name.Many:
		return may // the whole command may be in it
	case !name.Fixed:
		first = may
	case baseOf(trimSlash(name.Text)) != baseOf(trimSlash(r.Prefix[0])):
		return no
	}
	return min(first, r.flagged(argv[1:]), follow(r.Prefix[1:], argv[1:]))
}

// follow reports whether the words of want stand in argv in their order, with
// nothing but options and their values before and between them.
func follow(want []string, argv []Word) match {
	// at[k][1] is how sure it is that k words have been found and that the word
	// before was an option, which may have the next one as its value.
	at := make([][2]match, len(want)+1)
	next := make([][2]match, len(want)+1)
	at[0][0] = yes
	found := no
	for i := 0; ; i++ {
		found = max(found, at[len(want)][0], at[len(want)][1])
		if i == len(argv) || found == yes {
			return found
		}
		clear(next)
		w := argv[i]
		for k := range want {
			for after := range 2 {
				sure := at[k][after]
				switch {
				case sure == no:
				case w.Many:
					return max(found, may)
				case !w.Fixed:
					next[k+1][0] = max(next[k+1][0], may)
					next[k][1] = max(next[k][1], may)
				default:
					if w.Text == want[k] {
						next[k+1][0] = max(next[k+1][0], sure)
					}
					switch {
					case len(w.Text) > 1 && w.Text[0] == '-':
						after := 1
						if strings.IndexByte(w.Text, '=') >= 0 {
							after = 0
						}
						next[k][after] = max(next[k][after], sure)
					case after == 1:
						next[k][0] = max(next[k][0], sure)
					}
				}
			}
		}
		at, next = next, at
	}
}

// flagged reports whether one of a deny or ask rule's flags is among argv.
func (r *CommandRule) flagged(argv []Word) match {
	if len(r.Flags) == 0 {
		return yes
	}
	found := no
	for _, w := range argv {
		if !w.Fixed {
			found = may
			continue
		}
		for _, f := range r.Flags {
			if isFlag(w.Text, f) {
				return yes
			}
		}
	}
	return found
}

// isFlag reports whether a word is a flag in one of its spellings: with a
// value, abbreviated as getopt_long(3) lets long ones be, or one of several
// letters.
func isFlag(word, flag string) bool {
	if word == flag {
		return true
	}
	name, _, valued := strings.Cut(word, "=")
	switch {
	case valued && name == flag:
		return true
	case strings.HasPrefix(flag, "--"):
		return len(name) > 2 && strings.HasPrefix(flag, name)
	case len(flag) == 2 && flag[0] == '-':
		return len(word) > 2 && word[0] == '-' && word[1] != '-' && strings.IndexByte(word[1:], flag[1]) >= 0
	}
	return false
}

// String is the rule's words, as `policy show` prints them.
func (r *CommandRule) String() string {
	s := strings.Join(r.Prefix, " ")
	if len(r.Flags) > 0 {
		s += " with one of " + strings.Join(r.Flags, " ")
	}
	return s
}

// interpreters run what their arguments say: to allow one by its bare name is
// to allow everything.
var interpreters = [...]string{"python", "bash", "sh", "dash", "zsh", "ksh", "fish", "ash", "busybox", "node", "nodejs", "deno", "bun",
	"perl", "ruby", "php", "lua", "env", "xargs", "eval", "exec", "command", "sudo", "doas", "ssh"}

// allowsEverything reports an allow rule for no more than an interpreter's name.
func (r *CommandRule) allowsEverything() bool {
	if r.Rule != "allow" || len(r.Prefix) != 1 || len(r.Flags) > 0 {
		return false
	}
	base := strings.TrimRight(baseOf(trimSlash(r.Prefix[0])), "0123456789.") // python3.12
	for _, name := range interpreters {
		if base == name {
			return true
		}
	}
	return false
}
