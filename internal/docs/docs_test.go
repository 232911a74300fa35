package docs

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

const root = "../.."

// An example is one command of a console block and the output that the document shows.
type example struct {
	line    int
	command string
	output  []string // "…" alone stands for any lines, in a line for any text
}

// consoleBlocks returns the examples of each ```console block of a Markdown text.
func consoleBlocks(text string) (blocks [][]example) {
	inside := false
	for i, line := range strings.Split(text, "\n") {
		switch {
		case line == "```console":
			inside = true
			blocks = append(blocks, nil)
		case strings.HasPrefix(line, "```"):
			inside = false
		case inside && strings.HasPrefix(line, "$ "):
			last := &blocks[len(blocks)-1]
			*last = append(*last, example{line: i + 1, command: line[2:]})
		case inside:
			last := blocks[len(blocks)-1]
			if len(last) > 0 {
				last[len(last)-1].output = append(last[len(last)-1].output, line)
			}
		}
	}
	return blocks
}

// matches reports whether got is what the document shows.
func matches(want, got []string) bool {
	if len(want) == 0 {
		return len(got) == 0
	}
	if want[0] == "…" {
		for n := range len(got) + 1 {
			if matches(want[1:], got[n:]) {
				return true
			}
		}
		return false
	}
	if len(got) == 0 {
		return false
	}
	line := strings.ReplaceAll(regexp.QuoteMeta(want[0]), "…", ".*")
	return regexp.MustCompile("^"+line+"$").MatchString(got[0]) && matches(want[1:], got[1:])
}

func TestMatches(t *testing.T) {
	for _, tc := range []struct {
		want, got string
		ok        bool
	}{
		{"a", "a", true},
		{"a", "b", false},
		{"", "", true},
		{"…", "", true},
		{"…", "a\nb", true},
		{"…\nb", "a\nb", true},
		{"…\nb", "a\nc", false},
		{"a…\nb", "axyz\nb", true},
		{"a…", "b", false},
		{"a…c", "abc", true},
		{"a…c", "ab", false},
		{"a.c", "abc", false},
		{"a", "a\nb", false},
	} {
		lines := func(s string) []string {
			if s == "" {
				return nil
			}
			return strings.Split(s, "\n")
		}
		if got := matches(lines(tc.want), lines(tc.got)); got != tc.ok {
			t.Errorf("matches(%q, %q) = %v", tc.want, tc.got, got)
		}
	}
}

// program returns a folder with the programs in it: DSHX_BIN's or a fresh build.
func program(t *testing.T) string {
	t.Helper()
	if bin := os.Getenv("DSHX_BIN"); bin != "" && filepath.Base(bin) == "dshx" {
		return filepath.Dir(bin)
	}
	dir := t.TempDir()
	cmd := exec.Command("go", "build", "-o", dir+"/", "./cmd/...")
	cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return dir
}

// The README's examples, typed into a shell in a workspace that has what they use.
func TestReadme_Examples(t *testing.T) {
	text := read(t, "README.md")
	bin := program(t)
	// Not below /tmp for the sake of TMPDIR: a person's work is in a home.
	base, err := os.MkdirTemp("/var/tmp", "dshx-readme-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(base) })
	home := filepath.Join(base, "home")
	work := filepath.Join(home, "app")
	for name, content := range map[string]string{
		"app/Makefile":    "test:\n\t@echo tested\n",
		"app/server-test": "#!/bin/sh\nexit 0\n",
		"app/haystack":    "needle\n",
		".ssh/id_ed25519": "secret\n",
		"out/keep":        "",
	} {
		path := filepath.Join(home, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	blocks := consoleBlocks(text)
	if len(blocks) == 0 {
		t.Fatal("the README has no console examples")
	}
	for _, e := range slices.Concat(blocks...) {
		t.Run(fmt.Sprintf("line %d", e.line), func(t *testing.T) {
			cmd := exec.Command("sh", "-c", e.command)
			cmd.Dir = work
			cmd.Env = []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "HOME=" + home, "LANG=C.UTF-8"}
			cmd.WaitDelay = time.Minute
			out, err := cmd.CombinedOutput()
			var got []string
			if s := strings.TrimSuffix(string(out), "\n"); s != "" {
				got = strings.Split(s, "\n")
			}
			switch {
			case len(e.output) == 0 && err != nil:
				t.Errorf("$ %s\n%v\n%s", e.command, err, out)
			case len(e.output) > 0 && !matches(e.output, got):
				t.Errorf("$ %s\nprinted:\n%s\nthe README shows:\n%s", e.command, out, strings.Join(e.output, "\n"))
			}
			if strings.HasPrefix(e.command, "dshx policy explain") && !strings.Contains(string(out), "den") {
				t.Errorf("$ %s\nthe README means a denial:\n%s", e.command, out)
			}
		})
	}
	if b, err := os.ReadFile(filepath.Join(home, "note")); err == nil {
		t.Errorf("the write that the README says is refused happened: %q", b)
	}
}

// Each flag of the README's table is one that the program knows, and the other way round.
func TestReadme_Flags(t *testing.T) {
	out, err := exec.Command(filepath.Join(program(t), "dshx"), "exec", "--help").CombinedOutput()
	if err != nil {
		t.Fatalf("dshx exec --help: %v\n%s", err, out)
	}
	flag := regexp.MustCompile(`--[a-z][a-z-]+`)
	section, _, _ := strings.Cut(read(t, "README.md")[strings.Index(read(t, "README.md"), "\n## dshx exec"):], "### Exit status")
	documented, known := map[string]bool{}, map[string]bool{"--help": true}
	for _, f := range flag.FindAllString(section, -1) {
		documented[f] = true
	}
	for line := range strings.Lines(string(out)) {
		// The column of names, not the flags that a description mentions.
		trimmed := strings.TrimSpace(line)
		if strings.HasSuffix(trimmed, "   not in this version") {
			continue // accepted, in order to say so; the README has only what works
		}
		if strings.HasPrefix(trimmed, "-") {
			name, _, _ := strings.Cut(trimmed, "   ")
			for _, f := range flag.FindAllString(name, -1) {
				known[f] = true
			}
		}
	}
	for f := range documented {
		if !known[f] {
			t.Errorf("the README has %s, dshx exec --help does not", f)
		}
	}
	for f := range known {
		if !documented[f] && f != "--help" {
			t.Errorf("dshx exec --help has %s, the README does not", f)
		}
	}
}

// fenced returns the contents of the README's blocks of one language.
func fenced(t *testing.T, lang string) (blocks []string) {
	t.Helper()
	rest := read(t, "README.md")
	for {
		_, after, ok := strings.Cut(rest, "\n```"+lang+"\n")
		if !ok {
			return blocks
		}
		block, after, _ := strings.Cut(after, "\n```")
		blocks, rest = append(blocks, block), after
	}
}

// shape replaces every value by its kind, and an array by its first element's shape:
// what a program that reads JSON depends on.
func shape(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, e := range v {
			out[k] = shape(e)
		}
		return out
	case []any:
		if len(v) == 0 {
			return []any{}
		}
		return []any{shape(v[0])}
	case nil:
		return nil
	}
	return fmt.Sprintf("%T", v)
}

func decodeAll(t *testing.T, text string) (values []any) {
	t.Helper()
	for d := json.NewDecoder(strings.NewReader(text)); ; {
		var v any
		err := d.Decode(&v)
		if errors.Is(err, io.EOF) {
			return values
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		values = append(values, v)
	}
}

// The JSON that the README shows has the fields that the program prints.
func TestReadme_JSON(t *testing.T) {
	dshx := filepath.Join(program(t), "dshx")
	work, home := t.TempDir(), t.TempDir()
	run := func(script string) string {
		cmd := exec.Command("sh", "-c", script, dshx)
		cmd.Dir, cmd.Env = work, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "LANG=C.UTF-8"}
		out, err := cmd.Output()
		if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		return string(out)
	}
	blocks := fenced(t, "json")
	scripts := []string{
		`"$0" exec --no-config --json -- sh -c 'echo hi; echo x > /etc/note'`,
		`"$0" exec --no-config --json -- nosuch 2>/dev/null`,
		`"$0" exec --no-config --status-fd 3 -- true 3>&1`,
	}
	if len(blocks) != len(scripts) {
		t.Fatalf("the README has %d blocks of JSON, this test knows of %d", len(blocks), len(scripts))
	}
	for i, block := range blocks {
		shown, printed := decodeAll(t, block), decodeAll(t, run(scripts[i]))
		if len(shown) != len(printed) {
			t.Errorf("the README shows %d values, dshx prints %d:\n%v", len(shown), len(printed), printed)
			continue
		}
		for j := range shown {
			if !reflect.DeepEqual(shape(shown[j]), shape(printed[j])) {
				t.Errorf("the README shows\n%v\nand dshx prints\n%v", shape(shown[j]), shape(printed[j]))
			}
		}
	}
}

// The requests that the README shows are taken, each on its line.
func TestReadme_Requests(t *testing.T) {
	blocks := fenced(t, "jsonl")
	if len(blocks) != 2 {
		t.Fatalf("%d blocks of JSON lines, want requests and results", len(blocks))
	}
	cmd := exec.Command(filepath.Join(program(t), "dshx"), "exec", "--no-config")
	cmd.Dir = t.TempDir()
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "LANG=C.UTF-8"}
	cmd.Stdin = strings.NewReader(blocks[0] + "\n")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	got := strings.Split(strings.TrimSpace(string(out)), "\n")
	var answered int
	for _, line := range got {
		if strings.Contains(line, "PARSE_ERROR") {
			t.Errorf("not taken: %s", line)
		}
		if !strings.Contains(line, `"event":`) {
			answered++
		}
	}
	if want := strings.Count(blocks[0], "\n") + 1; answered != want {
		t.Errorf("%d requests, %d answers:\n%s", want, answered, out)
	}
}

// The README's configuration is one that the program takes.
func TestReadme_Configuration(t *testing.T) {
	dshx := filepath.Join(program(t), "dshx")
	for _, block := range fenced(t, "toml") {
		file := filepath.Join(t.TempDir(), "config.toml")
		if err := os.WriteFile(file, []byte(block), 0o600); err != nil {
			t.Fatal(err)
		}
		home := t.TempDir()
		if err := os.MkdirAll(filepath.Join(home, "go/bin"), 0o700); err != nil {
			t.Fatal(err)
		}
		work := t.TempDir()
		presets := []string{"workspace-write"}
		for _, m := range regexp.MustCompile(`(?m)^\[presets\.(\w+)\]`).FindAllStringSubmatch(block, -1) {
			presets = append(presets, m[1])
		}
		for _, preset := range presets {
			cmd := exec.Command(dshx, "policy", "show", "--config", file, "--preset", preset)
			cmd.Dir, cmd.Env = work, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home}
			if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "user-config") {
				t.Errorf("policy show with the README's configuration: %v\n%s", err, out)
			}
		}
	}
}

// The README's program builds, and does what it looks like.
func TestReadme_Library(t *testing.T) {
	blocks := fenced(t, "go")
	if len(blocks) != 1 {
		t.Fatalf("%d blocks of Go", len(blocks))
	}
	dir := t.TempDir()
	source := filepath.Join(dir, "main.go")
	work := filepath.Join(dir, "work")
	if err := errors.Join(os.WriteFile(source, []byte(blocks[0]), 0o600), os.Mkdir(work, 0o700),
		os.WriteFile(filepath.Join(work, "Makefile"), []byte("test:\n\t@echo tested > out && cat out\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "build", "-o", filepath.Join(dir, "program"), source)
	build.Dir = root // in the module, whose packages it imports
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	cmd := exec.Command(filepath.Join(dir, "program"))
	cmd.Dir, cmd.Env = work, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != "tested\n" {
		t.Errorf("%v\n%s", err, out)
	}
}

// What the documents point to is there.
func TestDocuments_NameWhatExists(t *testing.T) {
	documents := []string{"README.md", "ARCHITECTURE.md", "SECURITY.md", "CONTRIBUTING.md", "docs/dependencies.md", "docs/benchmarks.md"}
	adrs, err := filepath.Glob(filepath.Join(root, "docs/adr/*.md"))
	if err != nil || len(adrs) < 2 {
		t.Fatalf("docs/adr: %v, %v", adrs, err)
	}
	for _, a := range adrs {
		documents = append(documents, "docs/adr/"+filepath.Base(a))
	}
	editors, err := filepath.Glob(filepath.Join(root, "docs/editors/*.md"))
	if err != nil || len(editors) < 2 {
		t.Fatalf("docs/editors: %v, %v", editors, err)
	}
	for _, e := range editors {
		documents = append(documents, "docs/editors/"+filepath.Base(e))
	}
	tests := testNames(t)
	link := regexp.MustCompile(`\]\(([^)#:]+)\)`)
	// A package before it, as in `jobs` `TestStart…`, is where it is.
	testName := regexp.MustCompile("(?:`([a-z/]+)`\\s+)?`((?:Test|Fuzz|Example)[A-Za-z0-9_]+)(…?)`")
	number := regexp.MustCompile(`ADR (\d{4})(?:, (\d{4}))*`)
	for _, doc := range documents {
		text := read(t, doc)
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			if _, err := os.Stat(filepath.Join(root, filepath.Dir(doc), m[1])); err != nil {
				t.Errorf("%s points to %s: %v", doc, m[1], err)
			}
		}
		for _, m := range testName.FindAllStringSubmatch(text, -1) {
			if !slices.ContainsFunc(tests, func(test string) bool {
				dir, n := filepath.Split(test)
				return (m[1] == "" || strings.HasSuffix("/"+dir, "/"+m[1]+"/")) && (n == m[2] || m[3] != "" && strings.HasPrefix(n, m[2]))
			}) {
				t.Errorf("%s names %s, which does not exist there", doc, m[0])
			}
		}
		for _, m := range number.FindAllStringSubmatch(text, -1) {
			for _, n := range m[1:] {
				if n != "" && !slices.ContainsFunc(adrs, func(a string) bool { return strings.HasPrefix(filepath.Base(a), n) }) {
					t.Errorf("%s names ADR %s, which does not exist", doc, n)
				}
			}
		}
	}
}

// testNames are the tests, each behind its directory.
func testNames(t *testing.T) (names []string) {
	t.Helper()
	decl := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Example)[A-Za-z0-9_]*)\(`)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (strings.HasPrefix(d.Name(), ".") && path != root || d.Name() == "vendor"):
			return filepath.SkipDir
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range decl.FindAllSubmatch(b, -1) {
			names = append(names, filepath.Dir(path)+"/"+string(m[1]))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
