package cli

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dshx/dshx/internal/oneshot"
	"github.com/dshx/dshx/sandboxpolicy"
)

func TestParse_EndsAtTheFirstOperandOrAtTwoDashes(t *testing.T) {
	for _, tc := range []struct {
		args, rest []string
	}{
		{nil, nil},
		{[]string{"--quiet"}, nil},
		{[]string{"--quiet", "--", "--json", "--", ""}, []string{"--json", "--", ""}},
		{[]string{"ls", "--json"}, []string{"ls", "--json"}},
		{[]string{"--quiet", "ls", "--", "x"}, []string{"ls", "--", "x"}},
		{[]string{"-"}, []string{"-"}},
		{[]string{""}, []string{""}},
		{[]string{"--cwd", "--", "ls"}, []string{"ls"}}, // "--" is the value here, as everywhere
		{[]string{"a\nb", "\xff"}, []string{"a\nb", "\xff"}},
	} {
		_, rest, err := Parse(tc.args, Shared, Exec)
		if err != nil || !slices.Equal(rest, tc.rest) {
			t.Errorf("%q: %q, %v; want %q", tc.args, rest, err, tc.rest)
		}
	}
}

func TestParse_SetsWhatItSays(t *testing.T) {
	f, _, err := Parse(strings.Fields(`--preset read-only --workspace=w --write a --write=b --deny-read c --network loopback
		--env A=b=c --env D --keep-env --timeout 1.5 --kill-after 2s --require full --memory 2G --pids 7
		--tty never --status-fd 3 --pass-fd 4 --pass-fd=5 --json --quiet`), Shared, Exec)
	if err != nil {
		t.Fatal(err)
	}
	want := &Flags{
		Request: sandboxpolicy.Request{Preset: "read-only", Workspace: "w", Write: []string{"a", "b"}, DenyRead: []string{"c"},
			Network: "loopback", Env: []string{"A=b=c", "D"}, KeepEnv: true, Limits: sandboxpolicy.Limits{Memory: 2 << 30, Pids: 7}},
		Timeout: 1500 * time.Millisecond, KillAfter: 2 * time.Second, RequireFull: true,
		TTY: oneshot.Never, StatusFD: 3, PassFD: []int{4, 5}, JSON: true, Quiet: true,
	}
	f.Given = nil // see TestParse_KeepsWhatWasGiven
	if !reflect.DeepEqual(f, want) {
		t.Errorf("got  %+v\nwant %+v", f, want)
	}
}

func TestParse_RefusesWhatCanNotBeMeant(t *testing.T) {
	for _, tc := range []struct {
		args []string
		want string // in the message
	}{
		{[]string{"--presett", "x"}, "--preset?"},
		{[]string{"-q"}, `"-q"`},
		{[]string{"-quiet"}, "--quiet?"},
		{[]string{"--quiet=yes"}, "takes no value"},
		{[]string{"--preset"}, "needs a value"},
		{[]string{"--preset="}, "empty"},
		{[]string{"--workspace", ""}, "empty"},
		{[]string{"--network", "moon"}, "none, loopback, full"},
		{[]string{"--tty", "x"}, "auto, always, never"},
		{[]string{"--isolation", "namespaces"}, "not in this version"},
		{[]string{"--allow-domain", "example.com"}, "not in this version"},
		{[]string{"--dry-run"}, "not in this version"},
		{[]string{"--isolation", "solid"}, "auto, landlock, namespaces"},
		{[]string{"--pids", "0"}, "not a count"},
		{[]string{"--pids", "+5"}, "not a count"},
		{[]string{"--pids", "4194305"}, "not a count"},
		{[]string{"--status-fd", "03"}, "descriptor"},
		{[]string{"--status-fd", "256"}, "descriptor"},
		{[]string{"--timeout", "soon"}, "soon"},
		{[]string{"--memory", "12Q"}, "12Q"},
	} {
		_, _, err := Parse(tc.args, Shared, Exec)
		var usage *sandboxpolicy.UsageError
		if !errors.As(err, &usage) || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v; want one line with %q", tc.args, err, tc.want)
		}
	}
}

// What was understood says where a mistake is to be told, wherever it stands.
func TestParse_ReturnsWhatItUnderstoodWithAnError(t *testing.T) {
	for _, tc := range []struct {
		args   string
		json   bool
		status int
		in     string // the message
	}{
		{"--json --network moon -- true", true, -1, "moon"},
		{"--network moon --json -- true", true, -1, "moon"},
		{"--network moon --json --status-fd=4 --network mars -- true", true, 4, "moon"},
		{"--badflag --json", true, -1, "badflag"},
		{"--badflag --json -- true", true, -1, "badflag"},
		{"--badflag=x --json -- true", true, -1, "badflag"},
		{"--badflag x --json -- true", true, -1, "badflag"},
		{"--badflag x --json", false, -1, "badflag"}, // x is the command
		{"--badflag -- true --json", false, -1, "badflag"},
		{"--badflag x y --json -- true", false, -1, "badflag"},
		{"-q --json x", true, -1, "-q"},
		{"--status-fd 3 --json=maybe -- true", false, 3, "takes no value"},
		{"--json --status-fd x -- true", true, -1, "descriptor"},
		{"--json --preset", true, -1, "needs a value"},
		{"--allow-domain x.y --status-fd 5", false, 5, "not in this version"},
	} {
		f, rest, err := Parse(strings.Fields(tc.args), Shared, Exec)
		if err == nil || !strings.Contains(err.Error(), tc.in) || rest != nil {
			t.Errorf("%s: %q, %v", tc.args, rest, err)
			continue
		}
		if f.JSON != tc.json || f.StatusFD != tc.status {
			t.Errorf("%s: --json %t, --status-fd %d", tc.args, f.JSON, f.StatusFD)
		}
	}
}

func TestParseAll_TakesFlagsBehindOperands(t *testing.T) {
	f, ops, err := ParseAll([]string{"write", "--json", "/x", "--preset=read-only", "--", "--json"}, Shared, JSON)
	if err != nil || !f.JSON || f.Request.Preset != "read-only" || !slices.Equal(ops, []string{"write", "/x", "--json"}) {
		t.Errorf("%+v %q %v", f, ops, err)
	}
}

func TestTables_NameEachFlagOnce(t *testing.T) {
	for name, tables := range map[string][][]Flag{
		"exec": {Shared, Exec}, "explain": {JSON, Explain, Shared}, "init": {Init},
	} {
		seen := map[string]bool{}
		for _, t1 := range tables {
			for _, f := range t1 {
				if seen[f.Name] {
					t.Errorf("%s: --%s stands twice", name, f.Name)
				}
				seen[f.Name] = true
				if f.Help == "" || f.Name != strings.ToLower(f.Name) {
					t.Errorf("%s: --%s: help %q", name, f.Name, f.Help)
				}
			}
		}
	}
}

func TestComplete_FollowsTheParser(t *testing.T) {
	words := func(c Completion) string { return strings.Join(c.Words, " ") }
	for _, tc := range []struct {
		args string
		word string
		all  bool
		want Completion
	}{
		{"", "x", false, Completion{Kind: KindOperand}},
		{"--quiet", "", false, Completion{Kind: KindOperand}},
		{"--preset", "", false, Completion{Words: []string{"read-only", "workspace-write", "danger-full-access"}}},
		{"", "--network=", false, Completion{Words: []string{"--network=none", "--network=loopback", "--network=full"}}},
		{"--isolation", "", false, Completion{Words: []string{"auto", "landlock"}}}, // namespaces are refused
		{"--require", "", false, Completion{Words: []string{"full"}}},
		{"--tty", "", false, Completion{Words: []string{"auto", "always", "never"}}},
		{"--memory", "", false, Completion{}},
		{"--write", "", false, Completion{Kind: KindDir}},
		{"--config", "", false, Completion{Kind: KindFile}},
		{"--write --preset", "--q", false, Completion{Words: []string{"--q"}}}, // --preset is the value
		{"ls", "--q", false, Completion{Kind: KindOperand, Operand: 1, Ended: true}},
		{"--", "--q", false, Completion{Kind: KindOperand, Ended: true}},
		{"read --json", "", true, Completion{Kind: KindOperand, Operand: 1}},
	} {
		got := Complete(strings.Fields(tc.args), tc.word, tc.all, Shared, Exec)
		if strings.HasPrefix(tc.word, "--q") && len(tc.want.Words) > 0 {
			if !strings.Contains(words(got), "--quiet\t") || strings.Contains(words(got), "--dry-run") {
				t.Errorf("%q %q: %q", tc.args, tc.word, got.Words)
			}
			continue
		}
		if !reflect.DeepEqual(got, tc.want) {
			t.Errorf("%q %q: %+v, want %+v", tc.args, tc.word, got, tc.want)
		}
	}
}

func TestNearest_FindsSlipsAndBeginnings(t *testing.T) {
	names := []string{"exec", "policy", "doctor", "version", "completion", "help"}
	for in, want := range map[string]string{
		"exce": "exec", "polcy": "policy", "doc": "doctor", "Version": "version", "versoin": "version", "comp": "completion",
		"x": "", "frobnicate": "", "": "", strings.Repeat("e", 1000): "",
	} {
		if got := strings.Join(Nearest(in, names), " "); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// Parse never panics; what is behind "--" comes back byte for byte; both ways
// to write a value mean the same.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"--preset\x00read-only\x00--\x00ls\x00-l", "--env=A=b\x00--quiet\x00ls", "--write\x00--\x00--\x00--", "-\x00x", "--timeout\x001e9h",
		"--memory\x0099999999999G\x00--\x00\xff\n", "--network=moon", "--=x", "--\x00", "---", "--help\x00x", "--pids=-1", "--status-fd=0x3",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		args := strings.Split(s, "\x00")
		for _, parse := range []func([]string, ...[]Flag) (*Flags, []string, error){Parse, ParseAll} {
			fl, rest, err := parse(slices.Clone(args), Shared, Exec)
			if err != nil {
				var usage *sandboxpolicy.UsageError
				if !errors.As(err, &usage) || fl == nil || rest != nil {
					t.Fatalf("%q: %v", args, err)
				}
				continue
			}
			if !fl.Help && len(rest) > len(args) {
				t.Fatalf("%q: %q", args, rest)
			}
		}
		// The tail is the command's.
		if fl, rest, err := Parse(args, Shared, Exec); err == nil && !fl.Help && !slices.Equal(rest, args[len(args)-len(rest):]) {
			t.Fatalf("%q: %q is not its end", args, rest)
		}
		tail := append([]string{"--quiet", "--"}, args...)
		if _, rest, err := Parse(tail, Shared, Exec); err != nil || !slices.Equal(rest, args) {
			t.Fatalf("behind --: %q became %q (%v)", args, rest, err)
		}
		for _, table := range [][]Flag{Shared, Exec} {
			for _, flag := range table {
				if flag.Value == "" {
					continue
				}
				one, _, err1 := Parse([]string{"--" + flag.Name + "=" + s}, Shared, Exec)
				two, _, err2 := Parse([]string{"--" + flag.Name, s}, Shared, Exec)
				if (err1 == nil) != (err2 == nil) || !reflect.DeepEqual(one, two) {
					t.Fatalf("--%s %q: %+v (%v) and %+v (%v)", flag.Name, s, one, err1, two, err2)
				}
			}
		}
		Complete(args[:len(args)-1], args[len(args)-1], false, Shared, Exec)
		Complete(args[:len(args)-1], args[len(args)-1], true, Shared, Exec)
	})
}

// What was given comes in its order, however it was written.
func TestParse_KeepsWhatWasGiven(t *testing.T) {
	f, _, err := ParseAll([]string{"--write=a", "--keep-env", "--write", "b=c", "x", "--json"}, Shared, Exec)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, g := range f.Given {
		got = append(got, g.Name+" "+g.Text)
	}
	if want := []string{"write a", "keep-env ", "write b=c", "json "}; !reflect.DeepEqual(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
