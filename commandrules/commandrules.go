package commandrules

import (
	"strings"
	"unicode"

	"github.com/dshx/dshx/sandboxpolicy"
)

// Decision is what becomes of a command, the strictest first. The zero value
// denies.
type Decision uint8

// The decisions.
const (
	Deny  Decision = iota
	Ask            // only after somebody has allowed it
	Allow          // as far as the rules are concerned
)

// String is the decision as a configuration spells it.
func (d Decision) String() string {
	switch d {
	case Ask:
		return "ask"
	case Allow:
		return "allow"
	}
	return "deny"
}

// Verdict is what the rules say of a whole script. The zero value denies.
type Verdict struct {
	Decision Decision
	// Command is the part of the script that decided, as it is written, at most
	// some hundred bytes of it. Empty, as all that follows, where nothing in the
	// script is denied or asked about.
	Command string
	// Rule is the rule that decided, with its origin; unknown_commands is one.
	Rule sandboxpolicy.Rule
	// Reason is one sentence: what part, and which rule.
	Reason string
}

// Script judges what bash -c runs. env are variables that the command gets
// besides those of the policy.
func Script(p *sandboxpolicy.Policy, script string, env map[string]string) Verdict {
	if !p.HasCommandRules() {
		return Verdict{Decision: Allow}
	}
	a := newAnalysis()
	a.environment(env)
	a.script(script, shellBash, context{})
	return a.verdict(p)
}

// Argv judges one command of which every word is known, as it is executed
// without a shell.
func Argv(p *sandboxpolicy.Policy, argv []string) Verdict {
	if !p.HasCommandRules() {
		return Verdict{Decision: Allow}
	}
	a := newAnalysis()
	a.command(sandboxpolicy.Fixed(argv...), context{text: strings.Join(argv, " ")})
	return a.verdict(p)
}

// verdict is the strictest of those on the parts, of equal ones the first.
func (a *analysis) verdict(p *sandboxpolicy.Policy) Verdict {
	strictest := Verdict{Decision: Allow}
	for i := range a.parts {
		if v := a.judge(p, &a.parts[i]); v.Decision < strictest.Decision {
			if strictest = v; v.Decision == Deny {
				break
			}
		}
	}
	return strictest
}

// judge is what the rules say of one part.
func (a *analysis) judge(p *sandboxpolicy.Policy, part *part) Verdict {
	shown := quote(part.text)
	unknown := func(what string) Verdict {
		v := Verdict{Command: clip(part.text), Rule: sandboxpolicy.Rule{Text: `unknown_commands = "` + p.UnknownCommands() + `"`, Origin: p.UnknownCommandsOrigin()}}
		switch p.UnknownCommands() {
		case "allow":
			return Verdict{Decision: Allow}
		case "ask":
			v.Decision = Ask
		}
		v.Reason = what + "; " + v.Rule.Text + " (" + v.Rule.Origin + ")"
		return v
	}
	if part.kind == writes {
		return unknown("no command rule covers what " + shown + " writes")
	}
	m := p.MatchCommand(part.argv)
	if m.Rule == nil {
		switch {
		case part.kind == hidden:
			return unknown(shown + " runs what can't be seen: " + part.why)
		case part.kind == wrapper:
			return Verdict{Decision: Allow} // what it runs is a part of its own
		}
		return unknown("no command rule names " + shown)
	}
	rule := sandboxpolicy.Rule{Text: m.Rule.Rule + " " + m.Rule.String(), Origin: m.Rule.Origin}
	v := Verdict{Command: clip(part.text), Rule: rule}
	named := "the rule " + rule.Text + " (" + rule.Origin + ")"
	switch {
	case part.kind == hidden:
		v.Decision = Ask
		v.Reason = shown + " runs what can't be seen (" + part.why + "), and that may be what " + named + " names; write the command out"
	case m.Maybe:
		v.Decision = Ask
		v.Reason = shown + " may be what " + named + " names, which only shows when it runs; write the command out"
	case m.Rule.Rule == "deny":
		v.Decision = Deny
		v.Reason = shown + " is refused by " + named
	case m.Rule.Rule == "ask":
		v.Decision = Ask
		v.Reason = shown + " needs approval by " + named
	case part.kind == wrapper:
		return Verdict{Decision: Allow}
	case part.carrier != "" || a.carrier != "":
		// Never "unknown": whoever allowed the command meant what it does by itself.
		v.Decision = Ask
		carrier := part.carrier
		if carrier == "" {
			carrier = a.carrier
		}
		v.Reason = carrier + " may make " + shown + " run something else than " + named + " means"
	case part.loose != "":
		return unknown("no command rule covers " + part.loose + " of " + shown)
	case a.shadowed || a.functions[part.argv[0].Text]:
		return unknown(shown + " may be a function of the script, which no rule covers")
	default:
		return Verdict{Decision: Allow}
	}
	return v
}

// maxShown is how much of a part is quoted, in bytes.
const maxShown = 300

func clip(s string) string {
	if len(s) > maxShown {
		return strings.ToValidUTF8(s[:maxShown], "") + " …"
	}
	return s
}

// quote is a part of a script within a sentence: on one line, and without
// what a terminal would act on.
func quote(s string) string {
	return "`" + strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t' || r == '\r':
			return ' '
		case r == '`':
			return '\''
		case !unicode.IsPrint(r):
			return '\uFFFD'
		}
		return r
	}, strings.ToValidUTF8(clip(s), "\uFFFD")) + "`"
}
