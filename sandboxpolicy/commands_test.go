package sandboxpolicy

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// withRules is a policy of rules alone: "deny git push --force".
func withRules(list ...string) *Policy {
	p := &Policy{unknownCmds: "allow"}
	for i, r := range list {
		words := strings.Fields(r)
		c := CommandRule{Rule: words[0], Origin: "flag " + strconv.Itoa(i)}
		for _, w := range words[1:] {
			if w[0] == '-' {
				c.Flags = append(c.Flags, w)
			} else {
				c.Prefix = append(c.Prefix, w)
			}
		}
		p.commands = append(p.commands, c)
	}
	p.indexCommands()
	return p
}

// argv makes words: ? is one that isn't known, * any number of them.
func argv(s string) (words []Word) {
	for _, w := range strings.Fields(s) {
		switch w {
		case "?":
			words = append(words, Word{})
		case "*":
			words = append(words, Word{Many: true})
		default:
			words = append(words, Word{Text: w, Fixed: true})
		}
	}
	return words
}

func TestMatchCommand(t *testing.T) {
	for _, tt := range []struct{ rule, argv, want string }{
		{"deny rm", "rm x", "yes"}, {"deny rm", "/bin/rm", "yes"}, {"deny rm", "rm/", "yes"}, {"deny /bin/rm", "rm", "yes"}, {"deny rm", "rmx", "no"}, {"deny rm", "xrm", "no"}, {"deny rm", "echo rm", "no"},
		{"deny rm", "?", "may"}, {"deny rm", "? x", "may"}, {"deny rm", "*", "may"}, {"deny rm", "", "no"},
		{"deny git push", "git push", "yes"}, {"deny git push", "git", "no"}, {"deny git push", "git log push", "no"}, {"deny git push", "git -C x push", "yes"}, {"deny git push", "git -C=x push", "yes"},
		{"deny git push", "git -C=x y push", "no"}, {"deny git push", "git -C x y push", "no"}, {"deny git push", "git -a -b -c d push", "yes"}, {"deny git push", "git ? push", "may"}, {"deny git push", "git ?", "may"},
		{"deny git push", "git ? ? ? log", "may"}, {"deny git push", "git log ?", "no"}, {"deny git push", "git *", "may"}, {"deny git push", "git log *", "no"}, {"deny git push", "? push", "may"}, {"deny git push", "? log", "no"},
		{"deny a b c", "a -x b -y z c", "yes"}, {"deny a b c", "a b", "no"}, {"deny a b c", "a b * d", "may"}, {"deny a b c", "a c b", "no"},
		{"deny git push --force -f", "git push -f", "yes"}, {"deny git push --force -f", "git push -vf", "yes"}, {"deny git push --force -f", "git push --force", "yes"}, {"deny git push --force -f", "git push --forc", "yes"},
		{"deny git push --force -f", "git push --force=1", "yes"}, {"deny git push --force -f", "git push", "no"}, {"deny git push --force -f", "git push --force-x", "no"}, {"deny git push --force -f", "git push --f", "yes"},
		{"deny git push --force -f", "git push ?", "may"}, {"deny git push --force -f", "git push x *", "may"}, {"deny git push --force -f", "git ? -f", "may"}, {"deny git push --force -f", "git push --", "no"},
		{"ask make", "make", "yes"}, {"ask make", "?", "may"},
		{"allow git log", "git log -1", "yes"}, {"allow git log", "/usr/bin/git log", "yes"}, {"allow git log", "./git log", "no"}, {"allow git log", "/tmp/git log", "no"}, {"allow git log", "git -C x log", "no"},
		{"allow git log", "git ?", "no"}, {"allow git log", "git", "no"}, {"allow git log", "*", "no"}, {"allow git log", "git log ? *", "yes"}, {"allow sudo git", "sudo /usr/bin/git", "no"}, {"allow sudo git", "sudo git", "yes"}, {"allow ./x", "./x", "yes"}, {"allow ./x", "x", "no"},
		{"allow go test -v", "go test -v", "yes"}, {"allow go test -v", "go test -vx", "no"}, {"allow go test -v", "go test -- -v", "no"}, {"allow go test -v", "go test ?", "no"},
	} {
		m := withRules(tt.rule).MatchCommand(argv(tt.argv))
		got := "no"
		switch {
		case m.Rule != nil && m.Maybe:
			got = "may"
		case m.Rule != nil:
			got = "yes"
		}
		if got != tt.want {
			t.Errorf("%s of %q: %s, want %s", tt.rule, tt.argv, got, tt.want)
		}
	}
}

// F7-5: deny wins in every order, over ask, over allow, a more specific allow
// included.
func TestF7_5_StrictestCommandRuleWins(t *testing.T) {
	list := []string{"allow rm", "deny rm", "ask rm", "allow rm -r", "allow rm x y", "ask rm x"}
	rapid.Check(t, func(t *rapid.T) {
		order := rapid.Permutation(list).Draw(t, "order")
		n := rapid.IntRange(1, len(order)).Draw(t, "n")
		order = order[:n]
		m := withRules(order...).MatchCommand(argv("rm x y -r"))
		want := "allow"
		for _, r := range []string{"ask", "deny"} {
			if slices.ContainsFunc(order, func(s string) bool { return strings.HasPrefix(s, r) }) {
				want = r
			}
		}
		if m.Rule == nil || m.Rule.Rule != want || m.Maybe {
			t.Fatalf("%q: %+v, want %s", order, m, want)
		}
		// The rule that is named is the first of its kind.
		first := slices.IndexFunc(order, func(s string) bool { return strings.HasPrefix(s, want) })
		if m.Rule.Origin != "flag "+strconv.Itoa(first) {
			t.Fatalf("%q: the rule of %s, want %d", order, m.Rule.Origin, first)
		}
	})
}

func TestHasCommandRules(t *testing.T) {
	if (&Policy{unknownCmds: "allow"}).HasCommandRules() {
		t.Error("a policy without rules has some")
	}
	if !(&Policy{unknownCmds: "ask"}).HasCommandRules() || !withRules("allow x").HasCommandRules() {
		t.Error("a policy with rules has none")
	}
}
