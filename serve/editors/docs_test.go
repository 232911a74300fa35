package editors

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dshx/dshx/sandboxpolicy"
)

var update = flag.Bool("update", false, "write the generated parts of docs/editors")

const (
	docs     = "../../docs/editors"
	begin    = "<!-- generated from the table in serve/editors; \"make generate\" writes it again -->\n"
	end      = "<!-- end of what is generated -->\n"
	exampleP = "/usr/local/bin/dshx-mcp"
	exampleW = "/home/me/app"
)

// A sighting is what was seen of a client itself, with dshx's own server, in a
// project whose path has spaces, quotes and letters beyond ASCII. The form for
// HTTP was tried with each of them, too, with a small server that wants the token.
type sighting struct {
	what string // program and version
	text string
}

// tried are the clients that were started. The others need a screen, an
// account, or a newer Emacs or Neovim than the machine had.
var tried = map[string]sighting{
	"claude-code": {"2.1.328", "Claude Code 2.1.328 (`claude mcp list`) started dshx, with the entry in the user's file and in the project's, and listed its tools."},
	"codex":       {"0.169.0", "Codex 0.169.0 (`codex app-server`) started dshx and listed its tools."},
	"gemini":      {"0.61.0", "Gemini CLI 0.61.0 (`gemini mcp list`) started dshx and shook hands."},
	"qwen":        {"0.24.4", "Qwen Code 0.24.4 (`qwen mcp list`) started dshx and shook hands."},
	"opencode":    {"1.18.33", "opencode 1.18.33 (`opencode mcp list`) started dshx and listed its tools."},
	"neovim":      {"mcp-hub 4.2.1 alone", "mcp-hub 4.2.1, the program behind mcphub.nvim, started dshx, listed its tools and had bash run a command; Neovim itself was not started."},
	"inspector":   {"2.12.0", "MCP Inspector 2.12.0 (`mcp-inspector --cli`) started dshx, listed its tools (`--strict`) and had it read a file."},
}

// The parts of docs/editors that come from the table are what the table says.
func TestDocs_AreCurrent(t *testing.T) {
	for _, name := range Names() {
		c, err := find(name)
		if err != nil {
			t.Fatal(err)
		}
		part, err := page(t, c)
		if err != nil {
			t.Fatal(err)
		}
		check(t, name+".md", "# "+c.title+"\n\n", part)
	}
	check(t, "README.md", "# Editors and other clients\n\n", index(t))

	pages, err := filepath.Glob(filepath.Join(docs, "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	if len(pages) != len(Names())+1 {
		t.Errorf("%d pages in docs/editors for %d clients and the index", len(pages), len(Names()))
	}
}

// check compares, or with -update writes, the generated part of a page. A page
// that isn't there begins with head and has no more than that part.
func check(t *testing.T, file, head, part string) {
	t.Helper()
	path := filepath.Join(docs, file)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) && *update {
		data, err = []byte(head+begin+end), os.MkdirAll(docs, 0o755)
	}
	if err != nil {
		t.Error(err)
		return
	}
	before, rest, ok := strings.Cut(string(data), begin)
	was, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Errorf("docs/editors/%s lacks the lines %q and %q", file, begin, end)
		return
	}
	if was == part {
		return
	}
	if !*update {
		t.Errorf("docs/editors/%s is not what the table says, run make generate; it should say\n%s", file, part)
		return
	}
	if err := os.WriteFile(path, []byte(before+begin+part+end+after), 0o644); err != nil {
		t.Error(err)
	}
}

func page(t *testing.T, c *client) (string, error) {
	var w strings.Builder
	paths := Paths{Program: exampleP, Workspace: exampleW}
	config, err := For(c.name, paths)
	if err != nil {
		return "", err
	}
	fmt.Fprintf(&w, "`dshx serve --print-config %s`", c.name)
	if len(c.aliases) > 0 {
		fmt.Fprintf(&w, " (or %s)", strings.Join(ticked(c.aliases), ", "))
	}
	fmt.Fprintf(&w, " in `%s`:\n\n```%s\n%s```\n\n%s\n\n", exampleW, config.Syntax, config.Text, config.Note)
	w.WriteString("| where | for |\n|---|---|\n")
	for _, f := range c.files {
		fmt.Fprintf(&w, "| %s | %s |\n", place(f), forWhom(c, f))
	}
	w.WriteString("\n")
	if c.workspace != nil {
		fmt.Fprintf(&w, "`%s` is the client's own word for the project that is open. With `--workspace DIR` that directory is printed instead.\n\n",
			c.workspace)
	}
	for _, f := range c.files {
		if f.Level == Project && !protected(t, f.Path) {
			fmt.Fprintf(&w, "A command in the sandbox may write `%s`, and so what %s starts next time: prefer the user's file, or add `--deny-write %s` to the arguments.\n\n",
				f.Path, c.title, strings.SplitAfter(f.Path, "/")[0])
		}
	}

	remote, err := For(c.name, Endpoint{URL: "http://127.0.0.1:8765/mcp", Token: "TOKEN"})
	switch {
	case errors.Is(err, ErrNoRemote):
		w.WriteString("It has no known form for a server that listens (`dshx serve --http`).\n\n")
	case err != nil:
		return "", err
	default:
		fmt.Fprintf(&w, "For a server that listens (`dshx serve --http 127.0.0.1:8765`):\n\n```%s\n%s```\n\n%s\n\n",
			remote.Syntax, remote.Text, strings.TrimPrefix(remote.Note, c.note+" "))
	}

	w.WriteString("Checked: ")
	switch c.syntax {
	case Lua:
		w.WriteString("Lua runs it with a stand-in for the plugin; ")
	case Elisp:
		w.WriteString("Emacs evaluates it with a stand-in for the package; ")
	default:
		fmt.Fprintf(&w, "its keys are those of %s; ", known[c.name].source)
	}
	w.WriteString("in the tests it is read as the client does, and what it says is started in the client's directory and environment: handshake, list of tools, one call. ")
	if seen, ok := tried[c.name]; ok {
		w.WriteString(seen.text + " Over HTTP it was tried with a small server that wants the token.")
	} else {
		w.WriteString("The client itself was not started.")
	}
	w.WriteString("\n")
	return w.String(), nil
}

func index(t *testing.T) string {
	var w strings.Builder
	w.WriteString("| client | `--print-config` | first place | open project | waits for a call | over HTTP | itself tried |\n|---|---|---|---|---|---|---|\n")
	for _, name := range Names() {
		c, err := find(name)
		if err != nil {
			t.Fatal(err)
		}
		yes := func(b bool) string {
			if b {
				return "yes"
			}
			return "no"
		}
		seen := "no"
		if s, ok := tried[name]; ok {
			seen = s.what
		}
		fmt.Fprintf(&w, "| [%s](%s.md) | `%s` | %s | %s | %s | %s | %s |\n", c.title, name, name, place(c.files[0]),
			yes(c.workspace != nil), waits(t, name), yes(c.remote != nil), seen)
	}
	return w.String()
}

// waits is what a client's configuration says of a call's time.
func waits(t *testing.T, name string) string {
	t.Helper()
	config, err := For(name, Paths{Program: exampleP, Workspace: exampleW})
	if err != nil {
		t.Fatal(err)
	}
	for text, time := range map[string]string{"700000": "700 s", "700": "700 s", "600": "600 s"} {
		for _, line := range strings.Split(config.Text, "\n") {
			if word := strings.TrimRight(line, ",)} "); strings.Contains(strings.ToLower(line), "timeout") &&
				(strings.HasSuffix(word, " "+text) || strings.HasSuffix(word, "="+text)) {
				return time
			}
		}
	}
	return "its own time"
}

func forWhom(c *client, f File) string {
	switch {
	case f.Level == Dialog:
		return "a dialog"
	case f.Level == Project:
		return "that project"
	case c.workspace != nil && !f.Variable:
		return "the user, with `--workspace DIR` only"
	}
	return "the user"
}

// place is a file's path as code, or the way to a dialog as it is.
func place(f File) string {
	if strings.Contains(f.Path, " ") {
		return f.Path
	}
	return "`" + f.Path + "`"
}

func ticked(names []string) []string {
	var out []string
	for _, n := range names {
		out = append(out, "`"+n+"`")
	}
	return out
}

// protected tells whether the default preset refuses to let a command write
// the file of a project.
func protected(t *testing.T, path string) bool {
	t.Helper()
	dir := t.TempDir()
	p, _, err := sandboxpolicy.Resolve(sandboxpolicy.Request{Workspace: dir, Cwd: dir, NoConfig: true, Environ: []string{"HOME=/home/me"}}, sandboxpolicy.OSFacts{})
	if err != nil {
		t.Fatal(err)
	}
	if v := p.Verdict(sandboxpolicy.OpWrite, p.Workspace()+"/main.go"); !v.Allow {
		t.Fatalf("the control: a plain file may not be written: %+v", v)
	}
	return !p.Verdict(sandboxpolicy.OpWrite, filepath.Join(p.Workspace(), path)).Allow
}
