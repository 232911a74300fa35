package editors

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/dshx/dshx/internal/editorclient"
	"pgregory.net/rapid"
)

var world = editorclient.World{Home: "/home/me", Project: "/home/me/app", Environ: []string{"HOME=/home/me", "PATH=/bin"}}

// interpreted are the clients whose configuration is a program: reading it
// starts an interpreter, so they are tried with many arguments at once.
func interpreted(c client) bool { return c.syntax == Lua || c.syntax == Elisp }

// checkLaunch compares what the client starts for the configuration with what
// was asked for.
func checkLaunch(t interface {
	Helper()
	Errorf(string, ...any)
}, config Config, l editorclient.Launch, p Paths, variable bool) {
	t.Helper()
	want := append([]string{p.Program}, p.Args...)
	want = append(want, "--workspace", p.Workspace)
	if variable {
		want[len(want)-1] = world.Project
	}
	got := slices.Clone(l.Argv)
	if last := len(got) - 1; last >= 0 && !filepath.IsAbs(got[last]) {
		got[last] = filepath.Join(l.Dir, got[last]) // as dshx resolves it
	}
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || got[i] != want[i] {
			t.Errorf("%s starts %d words, want %d, and they differ from word %d on: %q, want %q; it was told\n%.2000s",
				config.Client, len(got), len(want), i, got[min(i, len(got)):min(i+1, len(got))], want[min(i, len(want)):min(i+1, len(want))], config.Text)
			return
		}
	}
}

// fragments are what some syntax or some client takes for its own.
var fragments = []string{`"`, `\`, `'`, "`", "$", "${HOME}", "$HOME", "${workspaceFolder}", "${{ secrets.X }}", "{env:HOME}", "{file:/x}",
	"${cmd:id}", "%s", "]]", "[[", "--[[", "#", ";", ":", ": ", " #", "- ", "?", "!", "&", "*", "|", "<>", ",", "(", ")", "{", "}", "=",
	`\n`, `\u0041`, `\x41`, `\"`, "é", "日本", "🙂", "\u2028", "\u2029", "\uFEFF", "\uFFFE", "\uFFFF", "\U0001FFFE", "\u00A0", "\u202E", " ", "  ", "no", "~"}

func genText() *rapid.Generator[string] {
	printable := rapid.Map(rapid.StringN(0, 12, -1), func(s string) string {
		return strings.Map(func(r rune) rune {
			if unicode.IsControl(r) {
				return -1
			}
			return r
		}, strings.ToValidUTF8(s, ""))
	})
	return rapid.Map(rapid.SliceOfN(rapid.OneOf(rapid.SampledFrom(fragments), printable), 0, 6), func(parts []string) string { return strings.Join(parts, "") })
}

func genPaths() *rapid.Generator[Paths] {
	return rapid.Custom(func(t *rapid.T) Paths {
		return Paths{
			Program:   "/" + genText().Draw(t, "program"),
			Workspace: "/" + genText().Draw(t, "workspace"),
			Pinned:    rapid.Bool().Draw(t, "pinned"),
			Args:      rapid.SliceOfN(genText(), 0, 3).Draw(t, "args"),
		}
	})
}

// What is printed is read back by the client as what was meant, whatever the
// paths are, or is refused because the client would change it.
func TestProperty_ClientsStartWhatWasMeant(t *testing.T) {
	for _, c := range clients() {
		if interpreted(c) {
			continue // TestInterpreted…
		}
		t.Run(c.name, func(t *testing.T) {
			accepted := 0
			rapid.Check(t, func(t *rapid.T) {
				p := genPaths().Draw(t, "paths")
				config, err := For(c.name, p)
				if err != nil {
					texts := append([]string{p.Program}, p.Args...)
					if c.workspace == nil || p.Pinned {
						texts = append(texts, p.Workspace)
					}
					if !slices.ContainsFunc(texts, c.changes) {
						t.Fatalf("refused without need: %v", err)
					}
					return
				}
				accepted++
				l, err := editorclient.Read(c.name, config.Text, world)
				if err != nil {
					t.Fatalf("%v\n%s", err, config.Text)
				}
				checkLaunch(t, config, l, p, c.workspace != nil && !p.Pinned)
			})
			if accepted == 0 {
				t.Error("everything was refused")
			}
		})
	}
}

// changes tells whether the client would put something else in the place of a
// part of s.
func (c client) changes(s string) bool {
	return slices.ContainsFunc(c.substitutes, func(opening string) bool {
		return strings.Contains(s, strings.TrimPrefix(opening, "^"))
	})
}

// The same for Lua and Emacs Lisp, with their own interpreters.
func TestInterpretedClients_StartWhatWasMeant(t *testing.T) {
	var args []string
	for i := range 300 {
		args = append(args, genText().Example(i))
	}
	args = append(args, fragments...)
	for _, c := range clients() {
		if !interpreted(c) {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			for _, pinned := range []bool{false, true} {
				p := Paths{Program: "/opt/" + strings.Join(fragments, ""), Workspace: "/w" + strings.Join(fragments, ""), Pinned: pinned, Args: args}
				config, err := For(c.name, p)
				if err != nil {
					t.Fatal(err)
				}
				l, err := editorclient.Read(c.name, config.Text, world)
				var missing *editorclient.MissingError
				if errors.As(err, &missing) {
					// Without an interpreter: at least nothing ends its quotes.
					for _, a := range append(args, p.Program) {
						if q := quote(a, shortEscape); !strings.Contains(config.Text, q) || unquote(q) != a {
							t.Errorf("%q is written %s", a, q)
						}
					}
					t.Skipf("quotes alone were checked: %v", missing)
				}
				if err != nil {
					t.Fatalf("%v\n%.2000s", err, config.Text)
				}
				checkLaunch(t, config, l, p, c.workspace != nil && !pinned)
			}
		})
	}
}

// unquote reads text in double quotes whose only escapes are \" and \\; "" for
// anything else.
func unquote(q string) string {
	q, ok := strings.CutPrefix(q, `"`)
	var out strings.Builder
	for ok && q != "" {
		switch {
		case q == `"`:
			return out.String()
		case q[0] == '"':
			return ""
		case q[0] == '\\' && len(q) > 1 && (q[1] == '"' || q[1] == '\\'):
			q = q[1:]
		case q[0] == '\\':
			return ""
		}
		out.WriteByte(q[0])
		q = q[1:]
	}
	return ""
}

// PyYAML reads the YAML as editorclient does.
func TestYAML_IsYAML(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no python3 in PATH")
	}
	if out, err := exec.Command(python, "-c", "import yaml").CombinedOutput(); err != nil {
		t.Skipf("python3 has no yaml: %s", bytes.TrimSpace(out))
	}
	p := Paths{Program: "/opt/x", Workspace: "/w", Pinned: true}
	for _, f := range append(slices.Clone(fragments), strings.Join(fragments, " ")) {
		if !strings.Contains(f, "${{") {
			p.Args = append(p.Args, f)
		}
	}
	config, err := For("continue", p)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(python, "-c", "import yaml,sys,json; json.dump(yaml.safe_load(sys.stdin.buffer.read()), sys.stdout)")
	cmd.Stdin = strings.NewReader(config.Text)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, config.Text)
	}
	var doc struct {
		Schema     string
		McpServers []struct {
			Name, Type, Command string
			Args                []string
			ConnectionTimeout   int
		}
	}
	if err := json.Unmarshal(out, &doc); err != nil {
		t.Fatal(err)
	}
	if doc.Schema != "v1" || len(doc.McpServers) != 1 {
		t.Fatalf("%s", out)
	}
	s := doc.McpServers[0]
	if want := append(slices.Clone(p.Args), "--workspace", "/w"); s.Command != "/opt/x" || !slices.Equal(s.Args, want) || s.ConnectionTimeout != 700000 {
		t.Errorf("PyYAML reads %+v, want arguments %q", s, want)
	}
}

func FuzzConfig(f *testing.F) {
	for _, s := range fragments {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p := Paths{Program: "/" + s, Workspace: "/w/" + s, Pinned: true, Args: []string{s}}
		for _, c := range clients() {
			config, err := For(c.name, p)
			if err != nil {
				if utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl) && !c.changes(s) {
					t.Errorf("%s: refused without need: %v", c.name, err)
				}
				continue
			}
			if interpreted(c) {
				continue
			}
			l, err := editorclient.Read(c.name, config.Text, world)
			if err != nil {
				t.Fatalf("%v\n%s", err, config.Text)
			}
			checkLaunch(t, config, l, p, false)
		}
	})
}

func TestFor_Refuses(t *testing.T) {
	good := Paths{Program: "/usr/bin/dshx-mcp", Workspace: "/home/me/app", Pinned: true}
	with := func(change func(*Paths)) Paths { p := good; change(&p); return p }
	for _, name := range Names() {
		if _, err := For(name, good); err != nil {
			t.Errorf("the control: %v", err)
		}
	}
	for _, tc := range []struct {
		what   string
		client string // "": all of them
		paths  Paths
		want   string // in the message
	}{
		{"a newline in the program", "", with(func(p *Paths) { p.Program = "/usr/bin/ds\nhx" }), "U+000A"},
		{"a NUL in the workspace", "", with(func(p *Paths) { p.Workspace = "/home/\x00" }), "U+0000"},
		{"an escape in an argument", "", with(func(p *Paths) { p.Args = []string{"\x1b[31m"} }), "U+001B"},
		{"a DEL", "", with(func(p *Paths) { p.Args = []string{"\x7f"} }), "U+007F"},
		{"a C1 control character", "", with(func(p *Paths) { p.Args = []string{"\u0085"} }), "U+0085"},
		{"bytes that are not UTF-8", "", with(func(p *Paths) { p.Workspace = "/home/\xff" }), "not valid UTF-8"},
		{"a surrogate in UTF-8", "", with(func(p *Paths) { p.Workspace = "/home/\xed\xa0\x80" }), "not valid UTF-8"},
		{"a relative program", "", with(func(p *Paths) { p.Program = "dshx-mcp" }), "absolute"},
		{"no program", "", with(func(p *Paths) { p.Program = "" }), "absolute"},
		{"a relative workspace", "", with(func(p *Paths) { p.Workspace = "." }), "absolute"},
		{"VS Code's variable", "vscode", with(func(p *Paths) { p.Workspace = "/x/${workspaceFolder}" }), "${"},
		{"Gemini's variable", "gemini", with(func(p *Paths) { p.Program = "/x/$HOME" }), "$"},
		{"mcp-hub's command", "neovim", with(func(p *Paths) { p.Args = []string{"${cmd: id}"} }), "${"},
		{"mcp-hub's old variable", "neovim", with(func(p *Paths) { p.Args = []string{"$HOME"} }), "$"},
		{"opencode's file", "opencode", with(func(p *Paths) { p.Args = []string{"{file:/etc/passwd}"} }), "{file:"},
		{"Continue's secret", "continue", with(func(p *Paths) { p.Args = []string{"${{ secrets.X }}"} }), "${{"},
	} {
		names := []string{tc.client}
		if tc.client == "" {
			names = Names()
		}
		for _, name := range names {
			var out bytes.Buffer
			err := Print(&out, name, tc.paths)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s for %s: %v, want %q in it", tc.what, name, err, tc.want)
			}
			if out.Len() > 0 {
				t.Errorf("%s for %s: printed all the same:\n%s", tc.what, name, out.String())
			}
		}
	}
	// What one client takes for a variable, another doesn't.
	for name, arg := range map[string]string{"zed": "${HOME}", "neovim": "/a$b", "opencode": "${HOME}", "codex": "{env:HOME}", "emacs": "$HOME"} {
		if _, err := For(name, with(func(p *Paths) { p.Args = []string{arg} })); err != nil {
			t.Error(err)
		}
	}
	// A path that is not printed can't be in the way.
	odd := Paths{Program: "/usr/bin/dshx-mcp", Workspace: "/x/${y}"}
	if _, err := For("vscode", odd); err != nil {
		t.Error(err)
	}
	if odd.Workspace = "relative"; true {
		if _, err := For("vscode", odd); err != nil && !strings.Contains(err.Error(), "absolute") {
			t.Error(err)
		}
	}
}

func TestFor_UnknownClient(t *testing.T) {
	for name, want := range map[string][]string{
		"vscod": {"vscode"}, "VSCode": {"vscode"}, "vs code": {"vscode"}, "zeed": {"zed"}, "gemini-cli": {"gemini"},
		"claude": {"claude-desktop", "claude-code"}, "intelli": {"jetbrains"}, "visual studio": nil, "q": nil, "": nil,
	} {
		_, err := For(name, Paths{})
		var unknown *UnknownClientError
		if !errors.As(err, &unknown) {
			t.Errorf("For(%q): %v", name, err)
			continue
		}
		got := slices.Clone(unknown.Nearest)
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("nearest to %q: %q, want %q", name, got, want)
		}
		for _, n := range Names() {
			if !strings.Contains(err.Error(), n) {
				t.Errorf("%v: %s is not in it", err, n)
			}
		}
	}
}

func TestClients_NamesAreUnique(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range clients() {
		for _, n := range append([]string{c.name}, c.aliases...) {
			if seen[n] {
				t.Errorf("%s names two clients", n)
			}
			seen[n] = true
			if found, err := find(n); err != nil || found.name != c.name {
				t.Errorf("find(%q): %v, %v", n, found, err)
			}
		}
		if c.title == "" || c.note == "" || len(c.files) == 0 || c.syntax == "" || c.local == nil {
			t.Errorf("%s: the entry is not complete", c.name)
		}
		if !strings.HasSuffix(c.note, ".") {
			t.Errorf("%s: the note is no sentence: %s", c.name, c.note)
		}
		if c.workspace != nil && !slices.ContainsFunc(c.files, func(f File) bool { return f.Variable }) {
			t.Errorf("%s: a variable that no file may have", c.name)
		}
	}
	if got := editorclient.Names(); !slices.Equal(got, Names()) {
		t.Errorf("editorclient knows %q, the table %q", got, Names())
	}
}

// A variable of the client's is printed only for files in which it means the
// open project; a fixed workspace may stand in all of them, and is said.
func TestFor_FilesFitTheWorkspace(t *testing.T) {
	p := Paths{Program: "/usr/bin/dshx-mcp", Workspace: "/home/me/app"}
	open, err := For("cursor", p)
	if err != nil {
		t.Fatal(err)
	}
	if len(open.Files) != 1 || open.Files[0].Path != ".cursor/mcp.json" || !strings.Contains(open.Text, "${workspaceFolder}") || strings.Contains(open.Text, p.Workspace) {
		t.Errorf("%v\n%s", open.Files, open.Text)
	}
	p.Pinned = true
	pinned, err := For("cursor", p)
	if err != nil {
		t.Fatal(err)
	}
	if len(pinned.Files) != 2 || !strings.Contains(pinned.Text, p.Workspace) || strings.Contains(pinned.Text, "${") {
		t.Errorf("%v\n%s", pinned.Files, pinned.Text)
	}
	const said = "It serves /home/me/app, whatever project is open."
	if !strings.Contains(pinned.Note, said) || strings.Contains(open.Note, said) {
		t.Errorf("%q and %q", open.Note, pinned.Note)
	}
	if again, _ := For("cursor", p); again.Text != pinned.Text {
		t.Error("the same paths, another text")
	}
}

// Where a client has a key for it, it waits as long as a call may take.
func TestFor_Timeouts(t *testing.T) {
	want := map[string]time.Duration{
		"zed":   600 * time.Second, // its own limit
		"cline": CallTimeout, "continue": CallTimeout, "codecompanion": CallTimeout, "emacs": CallTimeout,
		"codex": CallTimeout, "gemini": CallTimeout, "qwen": CallTimeout, "opencode": CallTimeout,
	}
	for _, name := range Names() {
		config, err := For(name, Paths{Program: "/usr/bin/dshx-mcp", Workspace: "/home/me/app"})
		if err != nil {
			t.Fatal(err)
		}
		l, err := editorclient.Read(name, config.Text, world)
		var missing *editorclient.MissingError
		if errors.As(err, &missing) {
			t.Logf("%s: not checked: %v", name, missing)
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if l.Timeout != want[name] {
			t.Errorf("%s waits %v, want %v", name, l.Timeout, want[name])
		}
	}
}

func TestPrintAndExplain(t *testing.T) {
	p := Paths{Program: "/usr/bin/dshx-mcp", Workspace: "/home/me/app"}
	for _, name := range Names() {
		config, err := For(name, p)
		if err != nil {
			t.Fatal(err)
		}
		var out, told bytes.Buffer
		if err := errors.Join(Print(&out, name, p), Explain(&told, name, p)); err != nil {
			t.Fatal(err)
		}
		if out.String() != config.Text || !strings.HasSuffix(config.Text, "\n") || strings.HasSuffix(config.Text, "\n\n") {
			t.Errorf("%s prints %q", name, out.String())
		}
		for _, part := range []string{config.Title, config.Files[0].Path, config.Note} {
			if !strings.Contains(told.String(), part) {
				t.Errorf("%q is not in %q", part, told.String())
			}
		}
	}
	if err := Print(failing{}, "zed", p); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("a writer's error is %v", err)
	}
	if err := Explain(failing{}, "zed", p); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("a writer's error is %v", err)
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestFor_Endpoint(t *testing.T) {
	const url, secret = "http://127.0.0.1:8765/mcp", "s3cr3t-t0ken"
	for _, c := range clients() {
		config, err := For(c.name, Endpoint{URL: url, Token: secret})
		if c.remote == nil {
			if !errors.Is(err, ErrNoRemote) {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(config.Text, `"`+url+`"`) {
			t.Errorf("%s: no address in\n%s", c.name, config.Text)
		}
		// With its environment the client asks what was meant.
		with := world
		with.Environ = append(slices.Clone(world.Environ), TokenVariable+"="+secret)
		r, err := editorclient.ReadRemote(c.name, config.Text, with)
		if err != nil || r.URL != url || r.Authorization != "Bearer "+secret {
			t.Errorf("%s: %+v, %v\n%s", c.name, r, err, config.Text)
		}
		// The token is in the text only where there is no other way, and that is said.
		if has := strings.Contains(config.Text, secret); has != (c.token == "") || has != strings.Contains(config.Note, "holds the token itself") {
			t.Errorf("%s: token in the text: %v; note: %s", c.name, has, config.Note)
		}
		if c.token != "" && !strings.Contains(config.Text, TokenVariable) {
			t.Errorf("%s: no token in\n%s", c.name, config.Text)
		}
		_, err = For(c.name, Endpoint{URL: url})
		if (err != nil) != (c.token == "") {
			t.Errorf("%s without a token: %v", c.name, err)
		}
	}
	for _, bad := range []Endpoint{
		{URL: "", Token: secret}, {URL: "127.0.0.1:8765", Token: secret}, {URL: "file:///x", Token: secret}, {URL: "http:///mcp", Token: secret},
		{URL: "http://h/\n", Token: secret}, {URL: url, Token: "s3cr3t\r\nX: y"}, {URL: url, Token: "s3cr3t\xff"},
	} {
		_, err := For("zed", bad)
		if err == nil || strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}
