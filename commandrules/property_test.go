package commandrules_test

import (
	"strings"
	"testing"

	"github.com/dshx/dshx/commandrules"
	"github.com/dshx/dshx/sandboxpolicy"
	"pgregory.net/rapid"
)

// scripts makes scripts that parse, of everything that holds commands. ((x) is
// left out: shells read it as arithmetic where it ends so, the parser in any
// case, and what can't be parsed can only be asked about.
func scripts() *rapid.Generator[string] {
	leaf := rapid.SampledFrom([]string{
		"git status", "git log -1", "git push -f", "rm x", "make", "echo 'rm x'", "$x", "\"$x\" y", "x=1", "PAGER=less git log", "git log >f", "export A=b",
		"eval \"$x\"", ". f", ":", "cat <f", "/bin/rm -r x", "r\\m x", "alias g=git", "read x", "git $x", "env A=b git log", "nohup make", "sh -c 'git log'", "sh", "f",
	})
	return rapid.Custom(func(t *rapid.T) string {
		script := leaf.Draw(t, "leaf")
		for range rapid.IntRange(0, 5).Draw(t, "depth") {
			other := leaf.Draw(t, "other")
			script = strings.NewReplacer("A", script, "B", other).Replace(rapid.SampledFrom([]string{
				"A; B", "B; A", "A && B", "B || A", "A | B", "A & B", "A\nB", "( A)", "{ A; }", "if B; then A; fi", "if A; then B; fi", "for i in 1; do A; done",
				"while B; do A; done", "case x in y) A ;; esac", "f() { A; }", "echo $( A)", "echo \"$( A)\"", "cat <(A)", "x=$( A)", "! { A\n}", "echo $(( $( A) ))", "{ A # B\n}",
			}).Draw(t, "form"))
		}
		return script
	})
}

// Whatever is put beside a script, it is never judged less strictly: not a
// denied command, and no other either.
func TestProperty_MoreIsNeverLessStrict(t *testing.T) {
	var policies []*sandboxpolicy.Policy
	for _, unknown := range []string{"allow", "ask", "deny"} {
		policies = append(policies, policy(t, rules(unknown, "deny rm", "ask git push", "allow git", "allow echo", "allow cat")),
			policy(t, rules(unknown, "allow git", "allow make")), policy(t, rules(unknown, "deny git push -f")))
	}
	rapid.Check(t, func(t *rapid.T) {
		p := policies[rapid.IntRange(0, len(policies)-1).Draw(t, "policy")]
		script, more := scripts().Draw(t, "script"), scripts().Draw(t, "more")
		alone := commandrules.Script(p, script, nil)
		for _, both := range []string{script + "\n" + more, more + "\n" + script, "( " + script + "\n)\n" + more, more + " \n{ " + script + "\n}"} {
			if v := commandrules.Script(p, both, nil); v.Decision > alone.Decision {
				t.Fatalf("%q is %s (%s), and %q %s", script, alone.Decision, alone.Reason, both, v.Decision)
			}
		}
	})
}

// A script that holds a denied command, in any form, is denied.
func TestProperty_DeniedPartsDenyAll(t *testing.T) {
	p := policy(t, rules("allow", "deny curl", "allow git", "allow echo"))
	rapid.Check(t, func(t *rapid.T) {
		script := scripts().Draw(t, "script")
		if v := commandrules.Script(p, script+"\ncurl x", nil); v.Decision != commandrules.Deny {
			t.Fatalf("%q and curl: %s (%s)", script, v.Decision, v.Reason)
		}
	})
}

// A rule that is added never makes a verdict less strict, unless it allows.
func TestProperty_RulesOnlyTighten(t *testing.T) {
	base := []string{"deny rm", "allow git", "allow echo"}
	less := policy(t, rules("ask", base...))
	more := []*sandboxpolicy.Policy{policy(t, rules("ask", append(base, "deny git push")...)), policy(t, rules("ask", append([]string{"ask git"}, base...)...)), policy(t, rules("deny", base...))}
	rapid.Check(t, func(t *rapid.T) {
		script := scripts().Draw(t, "script")
		p := more[rapid.IntRange(0, len(more)-1).Draw(t, "policy")]
		if a, b := commandrules.Script(less, script, nil), commandrules.Script(p, script, nil); b.Decision > a.Decision {
			t.Fatalf("%q: %s (%s), with more rules %s", script, a.Decision, a.Reason, b.Decision)
		}
	})
}

// Nothing makes the analysis panic; a script is never judged less strictly
// when a denied command stands before it.
func FuzzScript(f *testing.F) {
	for _, s := range []string{"git status && rm x", "cat <<E\n$(rm x)\nE", "x=([a]=b)", "$'\\x63\\143\\u63\\c", "env -S 'a b' c", "find . -exec a {} +", "sh -c 'sh -c \"rm x\"'", "((a[$(b)]++))",
		"git -c a.b=c d --upload-pack=e", "${x@P}${y:=z}", "f() if a; then b; fi", "declare -n x=y", "xargs -I% %", "trap -- 'a' 0", "bash -o", "\\", "a\\\n", "[[ a =~ (b) ]]", "select x in y; do z; done"} {
		f.Add(s)
	}
	p := policy(f, rules("allow", "deny rm", "allow git"))
	f.Fuzz(func(t *testing.T, script string) {
		v := commandrules.Script(p, script, map[string]string{"X": script})
		if (v.Decision == commandrules.Allow) != (v.Reason == "") {
			t.Errorf("%q: %s with the reason %q", script, v.Decision, v.Reason)
		}
		if len(script) > 1<<16 {
			return
		}
		if with := commandrules.Script(p, "rm x\n"+script, nil); with.Decision != commandrules.Deny {
			t.Errorf("%q: rm before it is %s (%s)", script, with.Decision, with.Reason)
		}
		if with := commandrules.Script(p, "{ "+script+"\nrm x\n}", nil); with.Decision > v.Decision && with.Decision == commandrules.Allow {
			t.Errorf("%q is %s (%s), with rm in braces %s", script, v.Decision, v.Reason, with.Decision)
		}
		_ = commandrules.Argv(p, []string{"sh", "-c", script})
		_ = commandrules.Argv(p, append([]string{"git"}, script))
	})
}
