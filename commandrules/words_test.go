package commandrules

import (
	"math/rand/v2"
	"os/exec"
	"strings"
	"testing"

	"mvdan.cc/sh/v3/syntax"
)

// parseWord is the word that a shell word is.
func parseWord(t *testing.T, text string) (w struct {
	Text        string
	Fixed, Many bool
}, ok bool) {
	t.Helper()
	stmts, err := parse(": "+text, syntax.LangBash)
	if err != nil || len(stmts) != 1 {
		return w, false
	}
	call, isCall := stmts[0].Cmd.(*syntax.CallExpr)
	if !isCall || len(call.Args) != 2 {
		return w, false
	}
	got := word(call.Args[1])
	w.Text, w.Fixed, w.Many = got.Text, got.Fixed, got.Many
	return w, true
}

// What is fixed is what bash makes of it.
func TestWord_IsBashes(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("there is no bash in PATH")
	}
	pieces := []string{"a", "curl", "x-y", ".", "/", "=", "@", "%", "+", ":", "{}", "{a}", "{", "}", "[", "]", "^", "~x", "é", "😀",
		`\a`, `\\`, `\'`, `\"`, `\$`, `\ `, `\*`, `\{`, "\\\n",
		`''`, `'a b'`, `'\'`, `'"'`, `'$x'`, "'\n'", `""`, `"a b"`, `"\""`, `"\\"`, `"\$x"`, `"\a"`, "\"\\\n\"", `"'"`, "\"\\`\"", `"{a,b}"`, `"*"`,
		`$'a'`, `$'\x63'`, `$'\143'`, `$'\1437'`, `$'\u0063'`, `$'\U0001F600'`, `$'\n\t\\\'\"\a\e'`, `$'\cA'`, `$'\q'`, `$'\x'`, `$'\1'`, `$'\18'`, `$'\x6g'`, `$'\u63'`, `$"a"`, `$"\""`}
	r := rand.New(rand.NewPCG(1, 2))
	var words, want []string
	words = append(words, pieces...)
	for range 3000 {
		var b strings.Builder
		for range 1 + r.IntN(5) {
			b.WriteString(pieces[r.IntN(len(pieces))])
		}
		words = append(words, b.String())
	}
	var script strings.Builder
	script.WriteString("set -f +B; printf '%s\\0'") // no file names, no braces: they are no fixed words
	for _, text := range words {
		w, ok := parseWord(t, text)
		if !ok || !w.Fixed || strings.HasPrefix(text, "~") {
			continue
		}
		script.WriteString(" " + text)
		want = append(want, w.Text)
	}
	if len(want) < len(words)/2 {
		t.Fatalf("only %d of %d words are fixed", len(want), len(words))
	}
	cmd := exec.Command(bash, "--norc", "-c", script.String())
	cmd.Env = []string{"LC_ALL=C.UTF-8", "PATH=/nonexistent"}
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	if len(got) != len(want) {
		t.Fatalf("bash has %d words, we %d", len(got), len(want))
	}
	for i := range got {
		if got[i] != want[i] {
			t.Errorf("bash has %q, we %q", got[i], want[i])
		}
	}
}

func TestWord_Varies(t *testing.T) {
	for text, many := range map[string]bool{
		"$x": true, "${x}": true, "a$x": true, "$(a)": true, "`a`": true, "*": true, "a?": true, "[ab]": true, "{a,b}": true, "{1..3}": true, "a{b,c}d": true, "@(a|b)": true, `"$@"`: true, `"${a[@]}"`: true, `"${!a@}"`: true,
		`"$x"`: false, `"a$x"`: false, `"$(a)"`: false, "$((1))": false, "<(a)": false, `"${a[0]}"`: false, `"$*"`: false,
	} {
		w, ok := parseWord(t, text)
		if !ok || w.Fixed || w.Many != many {
			t.Errorf("%s: %+v, %v", text, w, ok)
		}
	}
}
