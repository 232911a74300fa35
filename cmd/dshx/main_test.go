package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dshx/dshx/internal/doctor"
)

var update = flag.Bool("update", false, "write testdata/*.golden")

// TestMain makes the test binary what doctor starts: dshx itself.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == doctor.CheckCommand {
		main()
	}
	os.Exit(m.Run())
}

// dshx runs a command line in this process.
func dshx(args ...string) (status int, out, errs string) {
	var o, e bytes.Buffer
	status = execute(args, strings.NewReader(""), &o, &e)
	return status, o.String(), e.String()
}

// home makes a home and a workspace, and goes there. Nothing is beside the
// workspace: a home there would hold paths that stay denied.
func home(t *testing.T) (home, ws string) {
	t.Helper()
	for _, d := range []struct {
		path *string
		name string
	}{{&home, "home"}, {&ws, "ws"}} {
		base, err := filepath.EvalSymlinks(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		*d.path = filepath.Join(base, d.name)
		if err := os.Mkdir(*d.path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("HOME", home)
	t.Setenv("XDG_CONFIG_HOME", "")
	t.Chdir(ws)
	return home, ws
}

func TestHelp_IsWhatTheGoldenFilesSay(t *testing.T) {
	for _, topic := range []string{"", "exec", "serve", "policy", "policy show", "policy explain", "policy init", "log", "log show", "log html", "call", "doctor", "version", "completion", "help"} {
		t.Run(topic, func(t *testing.T) {
			args := strings.Fields(topic)
			status, got, errs := dshx(append([]string{"help"}, args...)...)
			if status != 0 || errs != "" {
				t.Fatalf("status %d, %s", status, errs)
			}
			if topic != "exec" && topic != "serve" { // which run before this: internal/cli/early
				if _, other, _ := dshx(append(args, "--help")...); other != got {
					t.Errorf("--help prints something else:\n%s", other)
				}
			}
			file := filepath.Join("testdata", strings.Join(append([]string{"help"}, args...), "_")+".golden")
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("got:\n%s\nwant (go test ./cmd/dshx -update writes it):\n%s", got, want)
			}
		})
	}
	if _, a, _ := dshx(); !strings.Contains(a, "doctor") {
		t.Errorf("without a command: %q", a)
	}
}

func TestMistakes_AreStatus2AndOneLine(t *testing.T) {
	home(t)
	for _, tc := range []struct{ args, want string }{
		{"frobnicate", `"frobnicate"; there are`},
		{"polcy show", "policy?"},
		{"policy shw", "show?"},
		{"help frobnicate", "frobnicate"},
		{"help policy frobnicate", "policy frobnicate"},
		{"--no-such-flag", "no-such-flag"},
		{"version extra", "extra"},
		{"version --json", "--json"},
		{"doctor extra", "extra"},
		{"completion", "bash|zsh|fish|powershell"},
		{"completion dosshell", "bash, zsh, fish, powershell"},
		{"policy explain", "OP TARGET"},
		{"policy explain read", "OP TARGET"},
		{"policy explain read a b", `"b"`},
		{"policy explain frobnicate x", "read write"},
		{"policy explain connect host:99999", "port"},
		{"policy show --preset nope", "workspace-write"},
		{"policy show --workspace /", "allow-broad-workspace"},
		{"policy init --write moon", "user, workspace"},
		{"doctor --require half", "full"},
	} {
		status, out, errs := dshx(strings.Fields(tc.args)...)
		if status != 2 || out != "" || !strings.HasPrefix(errs, "dshx: ") || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, tc.want) {
			t.Errorf("%s: status %d, out %q, err %q; want 2 and %q", tc.args, status, out, errs, tc.want)
		}
	}
}

func TestPolicyExplain_PrintsTheContractsObject(t *testing.T) {
	_, ws := home(t)
	if err := os.Mkdir(filepath.Dir(ws)+"/other", 0o755); err != nil {
		t.Fatal(err)
	}
	status, out, errs := dshx("policy", "explain", "--json", "write", "../other/elsewhere")
	if status != 0 || errs != "" || strings.Count(out, "\n") != 1 {
		t.Fatalf("%d %q %q", status, out, errs)
	}
	// The order is the contract's, too.
	want := `{"op":"write","target":"../other/elsewhere","resolved":"` + filepath.Dir(ws) + `/other/elsewhere","verdict":"deny",` +
		`"rule":{"text":"outside of what may be written","origin":"preset"},"enforcedBy":["landlock"],"gap":null,"remedy":"--write ` + filepath.Dir(ws) + `/other"}`
	if strings.TrimSpace(out) != want {
		t.Errorf("got  %s\nwant %s", out, want)
	}
	for _, tc := range []struct {
		args   string
		status int
		verb   string
	}{
		{"write x", 0, "allow"},
		{"--check write x", 0, "allow"},
		{"write ../x", 0, "deny"},
		{"write ../x --check", 1, "deny"},
		{"--check --preset read-only write x", 1, "deny"},
		{"--check --write .. write ../x", 0, "allow"},
		{"--check read ~/.ssh/id", 1, "deny"},
	} {
		status, out, errs := dshx(append([]string{"policy", "explain"}, strings.Fields(tc.args)...)...)
		if status != tc.status || errs != "" || !strings.HasPrefix(out, tc.verb) {
			t.Errorf("%s: %d %q %q", tc.args, status, out, errs)
		}
	}
}

func TestPolicyShow_NamesEveryOrigin(t *testing.T) {
	home, ws := home(t)
	write := func(path, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(home+"/.config/dshx/config.toml", "[policy]\nread = [\"/usr\"]\n")
	write(ws+"/.dshx/config.toml", "[policy]\ndeny_read = [\"local\"]\nnetwork = \"full\"\n")
	status, out, errs := dshx("policy", "show", "--deny-write", "fixed")
	if status != 0 || !strings.Contains(errs, "network") || !strings.Contains(errs, "ignored") {
		t.Errorf("status %d, notices %q", status, errs)
	}
	for _, want := range []string{
		"user-config " + home + "/.config/dshx/config.toml:2", "workspace-config " + ws + "/.dshx/config.toml:2",
		"flag", "preset", "KIND", "protected",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	_, out, _ = dshx("policy", "show", "--json")
	var v struct {
		Preset  string
		Rules   []struct{ Kind, Value, Text, Origin string }
		Notices []struct{ Kind string }
	}
	if err := json.Unmarshal([]byte(out), &v); err != nil || v.Preset != "workspace-write" || len(v.Rules) < 50 || len(v.Notices) != 1 {
		t.Errorf("%v %+v", err, v)
	}
	for _, r := range v.Rules {
		if r.Kind == "" || r.Origin == "" {
			t.Errorf("%+v", r)
		}
	}
}

func TestPolicyInit_StoresOnceAndPrintsTheSame(t *testing.T) {
	home, ws := home(t)
	_, printed, _ := dshx("policy", "init")
	for _, tc := range []struct{ which, path string }{
		{"user", home + "/.config/dshx/config.toml"}, {"workspace", ws + "/.dshx/config.toml"},
	} {
		if status, out, errs := dshx("policy", "init", "--write", tc.which); status != 0 || out != "" {
			t.Fatalf("%s: %d %q %q", tc.which, status, out, errs)
		}
		got, err := os.ReadFile(tc.path)
		if err != nil || string(got) != printed || printed == "" {
			t.Errorf("%s: %v, %q", tc.which, err, got)
		}
		if err := os.WriteFile(tc.path, []byte("# mine\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		if status, _, errs := dshx("policy", "init", "--write", tc.which); status != 1 || !strings.Contains(errs, tc.path) {
			t.Errorf("%s again: %d %q", tc.which, status, errs)
		}
		if got, _ := os.ReadFile(tc.path); string(got) != "# mine\n" {
			t.Errorf("%s was overwritten: %q", tc.which, got)
		}
	}
}

func TestVersion_IsOneLine(t *testing.T) {
	status, out, _ := dshx("version")
	if status != 0 || !strings.HasPrefix(out, "dshx ") || strings.Count(out, "\n") != 1 {
		t.Errorf("%d %q", status, out)
	}
}

func TestCompletion_OffersWhatIsThere(t *testing.T) {
	home(t)
	for _, sh := range shells {
		if status, out, errs := dshx("completion", sh); status != 0 || errs != "" || !strings.Contains(out, "dshx") {
			t.Errorf("%s: %d %q", sh, status, errs)
		}
	}
	for _, tc := range []struct{ line, want, not string }{
		{"", "policy", "__check"},
		{"ex", "exec", "doctor"},
		{"exec --net", "--network", "--preset"},
		{"exec --network ", "loopback", "workspace"},
		{"serve --log-l", "--log-level", "--preset"},
		{"serve --log-level ", "debug", "text"},
		{"serve --bu", ":4", "--build"},
		{"exec --preset w", "workspace-write", "read-only"},
		{"policy ", "explain", "exec"},
		{"policy explain ", "truncate", "--json"},
		{"policy explain --che", "--check", "--json"},
		{"policy init --write ", "workspace", "landlock"},
		{"completion ", "powershell", "exec"},
		{"help ", "doctor", "__check"},
		{"help policy ", "explain", "exec"},
	} {
		_, out, _ := dshx(append([]string{"__complete"}, strings.Split(tc.line, " ")...)...)
		if !strings.Contains(out, tc.want) || strings.Contains(out, tc.not) {
			t.Errorf("%q: %q, want %q and not %q", tc.line, out, tc.want, tc.not)
		}
	}
}

func TestDoctor_FindsThatPoliciesHold(t *testing.T) {
	home(t)
	status, out, errs := dshx("doctor", "--json")
	var r doctor.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("%v: %q %q", err, out, errs)
	}
	if r.Unavailable != nil {
		if os.Getenv("DSHX_REQUIRE_KERNEL") != "" {
			t.Fatal(*r.Unavailable)
		}
		t.Skip(*r.Unavailable)
	}
	if status != 0 || len(r.Notes) > 0 {
		t.Errorf("status %d, notes %q", status, r.Notes)
	}
	for _, preset := range []string{"read-only", "workspace-write"} {
		if r.Enforcement[preset].Preset != preset || len(r.Checks[preset]) < 10 {
			t.Errorf("%s: %+v, %d checks", preset, r.Enforcement[preset], len(r.Checks[preset]))
		}
		for _, c := range r.Checks[preset] {
			if c.Status != doctor.StatusHeld && c.Status != doctor.StatusInconclusive || !c.Refused {
				t.Errorf("%s: %+v", preset, c)
			}
		}
	}
	if r.Enforcement["danger-full-access"].Level != "none" {
		t.Errorf("%+v", r.Enforcement["danger-full-access"])
	}
	want := 1
	if r.Enforcement["workspace-write"].Level == "full" {
		want = 0
	}
	if status, out, _ := dshx("doctor", "--require", "full"); status != want || !strings.Contains(out, "landlock") {
		t.Errorf("--require full: %d, want %d", status, want)
	}
}

func TestPrintTable_KeepsColumnsAndTerminals(t *testing.T) {
	var b bytes.Buffer
	_ = printTable(&b, [][]string{{"a", "bb", "c"}, {"long", "", ""}, {printable("x\x1b[31m"), "y", strings.Repeat("z", 99)}})
	want := "a            bb  c\nlong\n\"x\\x1b[31m\"  y   " + strings.Repeat("z", 99) + "\n"
	if b.String() != want {
		t.Errorf("%q\n%q", b.String(), want)
	}
}
