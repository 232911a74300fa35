package deps

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/deps.golden")

const (
	module = "github.com/dshx/dshx"
	golden = "../../docs/deps.golden"
)

// A row forbids importer to import imported. Both are import paths, module-relative ones
// beginning with "./"; a final "/..." takes in everything below.
type row struct {
	importer string
	imported string
	reach    reach
	except   []string // importers among them that may
	reason   string
}

type reach int

const (
	anyWay   reach = iota // neither by itself nor through what it imports
	directly              // not by itself; what it imports may
)

var table = []row{
	// sandboxpolicy decides and does nothing: what it knows of the disk comes through Facts.
	{importer: "./sandboxpolicy", imported: "os/exec", reason: "policy is pure data, it runs nothing"},
	{importer: "./sandboxpolicy", imported: "net", reason: "policy is pure data, it connects to nothing"},
	{importer: "./sandboxpolicy", imported: "golang.org/x/sys/...", reason: "policy is pure data, it makes no system calls of its own"},
	{importer: "./sandboxpolicy", imported: "./sandbox/...", reason: "what is allowed does not depend on how it is enforced"},
	{importer: "./sandboxpolicy", imported: "./internal/...", reason: "the package is for everybody's use"},

	// sandbox enforces; nothing in it knows the command line.
	{importer: "./sandbox/...", imported: "./cmd/...", reason: "the library does not know the program"},
	{importer: "./sandbox/...", imported: "./internal/...", reason: "the library does not know the program"},
	{importer: "./sandbox/...", imported: "github.com/spf13/cobra", reason: "the library has no command line"},
	{importer: "./sandbox/...", imported: "net/http", reason: "the library opens no connections, and net/http costs milliseconds at start"},

	// The pipeline knows no tool, no sandbox and no protocol.
	{importer: "./pipeline", imported: "./...", reason: "every front door and every tool uses it"},
	{importer: "./pipeline", imported: "os/exec", reason: "it runs nothing; bodies do"},
	{importer: "./pipeline", imported: "os", reach: directly, reason: "it touches no file; bodies do"},
	{importer: "./pipeline", imported: "net", reason: "it connects to nothing"},

	// jobs knows what goes on and not how: processes are behind its Producer.
	{importer: "./jobs", imported: "./...", reason: "a registry for anybody's use knows none of its users"},
	{importer: "./jobs", imported: "os/exec", reason: "it starts nothing; a job's starter does"},
	{importer: "./jobs", imported: "net", reason: "it connects to nothing"},
	{importer: "./jobs", imported: "golang.org/x/sys/...", reason: "it makes no system calls but those of files"},

	// Tools are beside each other; what they share has packages of its own.
	{importer: "./tools/bash", imported: "./tools/fs/...", reason: "tools do not know each other"},
	{importer: "./tools/bash", imported: "./tools/jobs", reason: "tools do not know each other: both know jobs.Owner"},
	{importer: "./tools/bash", imported: "os/exec", reach: directly, reason: "what it runs, it runs in a domain"},
	{importer: "./tools/jobs", imported: "./tools/bash", reason: "tools do not know each other: both know jobs.Owner"},
	{importer: "./tools/jobs", imported: "./sandbox/...", reason: "whatever a job is, it is followed and ended through jobs"},
	{importer: "./tools/internal/plain", imported: "./...", reason: "text in, text out"},
	{importer: "./tools/...", imported: "./internal/oneshot", reason: "exec is a front door; what it shares with tools is in internal/result"},
	{importer: "./internal/oneshot", imported: "./pipeline", reason: "exec runs a command and makes no tool calls"},
	{importer: "./internal/result", imported: "./pipeline", reason: "exec uses it, and makes no tool calls"},

	// What a script runs is found without running, asking or enforcing anything.
	{importer: "./commandrules", imported: "./pipeline", reason: "exec applies rules without tool calls; the tool has its listener"},
	{importer: "./commandrules", imported: "./sandbox/...", reason: "text is judged here, and grants nothing"},
	{importer: "./commandrules", imported: "./internal/...", reason: "the package is for everybody's use"},
	{importer: "./commandrules", imported: "os/exec", reason: "it runs nothing"},
	{importer: "./commandrules", imported: "os", reach: directly, reason: "it reads no file: what a script names may change before it runs"},
	{importer: "./...", imported: "mvdan.cc/sh/...", reach: directly,
		except: []string{"./commandrules"}, reason: "one reader of scripts"},
	{importer: "./internal/cli", imported: "mvdan.cc/sh/...", reason: "exec must not wait for a parser of scripts; with command rules it goes on after the rest is initialised"},

	// Who is asked is nobody's business but the front doors'.
	{importer: "./approval", imported: "./sandbox/...", reason: "it does not know what is granted"},
	{importer: "./approval", imported: "./sandboxpolicy", reason: "it does not know what is granted"},
	{importer: "./approval", imported: "./tools/...", reason: "it asks about calls of any tool"},
	{importer: "./approval", imported: "./serve/...", reason: "front doors bring their answerers, or feed a Broker"},
	{importer: "./internal/ttyprompt", imported: "./...", reason: "a question on a terminal is for any program"},

	// The session log writes what the pipeline tells it, and knows none of the tools.
	{importer: "./sessionlog/...", imported: "./tools/...", reason: "a card is made by the tool's definition, which it is given"},
	{importer: "./sessionlog/...", imported: "./serve/...", reason: "every front door writes the same log"},
	{importer: "./sessionlog/...", imported: "./sandbox/...", reason: "it asks the policy where it may lie, and enforces nothing"},
	{importer: "./sessionlog/...", imported: "./internal/...", reason: "the package is for everybody's use"},
	{importer: "./sessionlog/...", imported: "os/exec", reason: "it runs nothing"},
	{importer: "./sessionlog/...", imported: "net", reason: "it connects to nothing"},
	{importer: "./sessionlog/...", imported: "crypto/...", reason: "its package initialisation would delay exec (ADR 0008)"},
	{importer: "./pipeline", imported: "./sessionlog/...", reason: "who observes is none of its business"},
	{importer: "./jobs", imported: "./sessionlog/...", reason: "who observes is none of its business"},

	// One mechanism each, joined by sandbox alone: see TestMechanisms_DoNotKnowEachOther.
	{importer: "./sandbox/internal/seccomp", imported: "./sandboxpolicy", reason: "a filter is made from options; it knows no policy"},
	{importer: "./sandbox/internal/spawn", imported: "./sandboxpolicy", reason: "a start is a list of system calls; it knows no policy"},
	{importer: "./sandbox/internal/...", imported: "./sandbox", reason: "sandbox is built from its parts, not the other way round"},

	// Kernel interfaces stay behind sandbox/internal.
	{importer: "./...", imported: "github.com/landlock-lsm/go-landlock/...", reach: directly,
		except: []string{"./sandbox/internal/..."}, reason: "only the mechanism that owns it speaks Landlock"},

	// The path of exec runs before the rest of the program is initialised (ADR 0008).
	{importer: "./internal/cli/...", imported: "github.com/spf13/cobra", reason: "exec must not wait for the command tree"},
	{importer: "./internal/cli/...", imported: "github.com/spf13/pflag", reason: "exec must not wait for the command tree"},
	{importer: "./internal/cli/...", imported: "net/http", reason: "its package initialisation costs milliseconds"},
	{importer: "./internal/cli/...", imported: "text/template", reason: "it switches off the linker's dead code elimination"},
	{importer: "./internal/cli/...", imported: "unique", reason: "it comes with net/netip, whose package initialisation costs more than reading a policy"},
	{importer: "./internal/cli/...", imported: "crypto/...", reason: "its package initialisation is self-tests and tables that exec needs none of"},
	{importer: "./internal/cli/...", imported: "encoding/gob", reason: "its package initialisation costs milliseconds"},
	{importer: "./...", imported: "./internal/cli/early", except: []string{"./cmd/dshx"}, reason: "linking it makes a program whose first argument is exec run dshx exec"},
	// What only serve needs is in the program that has it (ADR 0018).
	{importer: "./cmd/dshx", imported: "github.com/modelcontextprotocol/go-sdk/...", reason: "its initialisation would come before exec, and an environment variable of its own can make it panic there"},
	{importer: "./cmd/dshx", imported: "net/http", reason: "its initialisation comes before exec"},
	{importer: "./cmd/dshx-mcp", imported: "github.com/spf13/cobra", reason: "it has one command"},
	{importer: "./...", imported: "github.com/modelcontextprotocol/go-sdk/...", reach: directly,
		except: []string{"./serve/mcp", "./bench/sdkecho"}, reason: "one front door speaks the protocol; the other is what it is measured against"},
	{importer: "./internal/oneshot", imported: "./internal/doctor", reason: "exec enforces, it does not examine"},

	// One handler for each signal: os/signal would install its own (ADR 0010).
	{importer: "./internal/cli/...", imported: "os/signal", reason: "internal/sigpipe has the signals of exec, and os/signal must not be used for the same ones"},
	{importer: "./sandbox", imported: "os/signal", reason: "a library leaves the signals of its process alone"},
	{importer: "./internal/sigpipe", imported: "./sandbox/...", reason: "signals are for any program"},

	// It must ask before package syscall changes the answer.
	{importer: "./sandbox/internal/nofile", imported: "syscall", reason: "syscall raises the limit when it is initialised; this package must come before"},
	{importer: "./sandbox/internal/nofile", imported: "os", reason: "os is initialised after syscall"},
	{importer: "./sandbox/internal/nofile", imported: "golang.org/x/sys/...", reason: "x/sys is initialised after syscall"},

	// Observation is policy beside the file tools: it opens nothing and knows none of them.
	{importer: "./fsobserve", imported: "./tools/...", reason: "it is told what was read, and asked; it knows no tool"},
	{importer: "./fsobserve", imported: "./sandbox/...", reason: "its lock file is outside of every domain, and it opens no other"},
	{importer: "./fsobserve", imported: "./sandboxpolicy", reason: "what was seen does not depend on what is allowed"},
	{importer: "./fsobserve", imported: "./jobs", reason: "it knows files alone"},
	{importer: "./fsobserve", imported: "os/exec", reason: "it runs nothing"},
	{importer: "./fsobserve", imported: "net", reason: "it connects to nothing"},
	{importer: "./...", imported: "github.com/cespare/xxhash/...", reach: directly,
		except: []string{"./fsobserve"}, reason: "one hash for the versions of files"},

	// Front doors decode and encode; what they share knows no protocol.
	{importer: "./serve/...", imported: "./sandbox/...", reason: "a front door brings calls to the pipeline, whatever enforces"},
	{importer: "./serve/...", imported: "./tools/...", reason: "a front door brings calls to the pipeline, whatever tools there are"},
	{importer: "./serve/internal/wire", imported: "./...", reason: "lines in, lines out: it knows no call"},

	// The file tools work in a domain that they are given.
	{importer: "./tools/fs", imported: "./sandbox/...", reach: directly, reason: "a domain comes through the interface that the tools declare"},
	{importer: "./tools/fs", imported: "./jobs", reason: "file tools leave nothing running"},
	{importer: "./tools/fs", imported: "./approval", reason: "who is asked is the pipeline's business"},
	{importer: "./tools/fs", imported: "os/exec", reach: directly, reason: "file tools run nothing"},

	// The engines of the file tools get bytes and readers from their callers.
	{importer: "./tools/fs/internal/text", imported: "os", reach: directly, reason: "an engine opens nothing; what may be opened is decided elsewhere"},
	{importer: "./tools/fs/internal/imagefile", imported: "os", reach: directly, reason: "an engine opens nothing; what may be opened is decided elsewhere"},
	{importer: "./tools/fs/internal/diff", imported: "os", reach: directly, reason: "an engine opens nothing; what may be opened is decided elsewhere"},
	{importer: "./tools/fs/internal/edit", imported: "os", reach: directly, reason: "an engine opens nothing; what may be opened is decided elsewhere"},
	{importer: "./tools/fs/internal/text", imported: "./tools/fs/internal/diff", reason: "text is below the other engines"},
	{importer: "./tools/fs/internal/diff", imported: "./tools/fs/internal/text", reason: "a diff is of any two strings, whatever file they come from"},
	{importer: "./...", imported: "github.com/sergi/go-diff/...", reach: directly,
		except: []string{"./tools/fs/internal/diff"}, reason: "its traps are avoided in one place"},
	{importer: "./...", imported: "golang.org/x/image/...", reach: directly,
		except: []string{"./tools/fs/internal/imagefile"}, reason: "images are decoded behind one limit"},
	// All engines act with the rights of the thread that calls.
	{importer: "./tools/fs/internal/...", imported: "./sandbox/...", reason: "what may be read is for the calling thread's domain to say"},
	{importer: "./tools/fs/internal/...", imported: "./sandboxpolicy", reason: "the engines know no policy"},
	{importer: "./tools/fs/internal/...", imported: "./internal/...", reason: "the engines are a library"},
	{importer: "./tools/fs/internal/...", imported: "os/exec", reason: "searching runs nothing; git and rg are for tests"},
	{importer: "./tools/fs/internal/...", imported: "net", reason: "searching connects to nothing"},
	{importer: "./tools/fs/internal/glob", imported: "golang.org/x/sys/...", reason: "patterns do no I/O"},
	{importer: "./tools/fs/internal/ignore", imported: "./tools/fs/internal/walk", reason: "rules are given to the walk"},

	// What editors are told is a table and its rendering.
	{importer: "./serve/editors", imported: "./...", reason: "text out of paths; it knows no other part"},
	{importer: "./serve/editors", imported: "os", reach: directly, reason: "what it prints depends on its arguments alone"},
	{importer: "./serve/editors", imported: "os/exec", reason: "it starts nothing; internal/editorclient does, for tests"},
	{importer: "./internal/editorclient", imported: "./...", reason: "it reads as the clients do, so that a mistake of serve/editors is not repeated"},
	{importer: "./...", imported: "./internal/editorclient", reason: "it is for tests"},
	{importer: "./...", imported: "./internal/mcpsuite", reason: "it is for tests"},
	{importer: "./internal/mcpsuite", imported: "./...", reason: "it judges the server from outside"},

	{importer: "./...", imported: "./cmd/...", except: []string{"./cmd/..."}, reason: "nobody imports the program"},
	{importer: "./...", imported: "github.com/spf13/cobra", reach: directly,
		except: []string{"./cmd/dshx"}, reason: "flags and wiring are the program's alone"},
	{importer: "./...", imported: "github.com/seccomp/libseccomp-golang", reason: "it needs cgo; it is the oracle of one test behind a build tag (ADR 0004)"},
	{importer: "./...", imported: "testing", reason: "tests do not belong in the program"},
}

// mayBeAbsent are forbidden names that nothing imports, so go list cannot know them; each
// with where it is defined instead.
var mayBeAbsent = map[string]string{
	"github.com/seccomp/libseccomp-golang": "go.mod: imported under the build tag libseccomp only",
}

// A pkg is what this test reads of go list -json.
type pkg struct {
	ImportPath string
	Standard   bool
	Imports    []string
	Deps       []string
	Module     *struct {
		Path, Version string
		Main          bool
	}
}

func goList(t *testing.T, args ...string) map[string]pkg {
	t.Helper()
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("there is no go command in PATH")
	}
	cmd := exec.Command("go", append([]string{"list", "-json=ImportPath,Standard,Imports,Deps,Module"}, args...)...)
	cmd.Dir = "../.."
	// As the program is shipped, whatever machine the test runs on.
	cmd.Env = append(os.Environ(), "GOOS=linux", "CGO_ENABLED=0")
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list %v: %v\n%s", args, err, errs.String())
	}
	pkgs := map[string]pkg{}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			return pkgs
		}
		if err != nil {
			t.Fatal(err)
		}
		pkgs[p.ImportPath] = p
	}
}

// match reports whether path is what pattern names.
func match(pattern, path string) bool {
	if rest, ok := strings.CutPrefix(pattern, "."); ok {
		pattern = module + rest
	}
	if below, ok := strings.CutSuffix(pattern, "/..."); ok {
		return path == below || strings.HasPrefix(path, below+"/")
	}
	return path == pattern
}

// violations returns a line for each import that rows forbid, and for each row that
// names something that is not there any more.
func violations(rows []row, pkgs map[string]pkg, std map[string]pkg) []string {
	var found []string
	for _, r := range rows {
		importers, known := 0, mayBeAbsent[r.imported] != ""
		for path := range pkgs {
			known = known || match(r.imported, path)
		}
		for path := range std {
			known = known || match(r.imported, path)
		}
		for path, p := range pkgs {
			if !match(r.importer, path) || (p.Module == nil || !p.Module.Main) {
				continue
			}
			importers++
			if slices.ContainsFunc(r.except, func(e string) bool { return match(e, path) }) {
				continue
			}
			imports := p.Deps
			if r.reach == directly {
				imports = p.Imports
			}
			for _, imported := range imports {
				if match(r.imported, imported) {
					found = append(found, fmt.Sprintf("%s imports %s: %s", path, imported, r.reason))
				}
			}
		}
		for _, e := range r.except {
			if !slices.ContainsFunc(slices.Collect(maps.Keys(pkgs)), func(path string) bool { return match(e, path) }) {
				found = append(found, fmt.Sprintf("the row about %s excepts %s, which does not exist", r.importer, e))
			}
		}
		if importers == 0 {
			found = append(found, fmt.Sprintf("the row about %s is about nothing: no such package", r.importer))
		}
		if !known {
			found = append(found, fmt.Sprintf("the row about %s forbids %s, which does not exist", r.importer, r.imported))
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

func TestImportDirections(t *testing.T) {
	for _, v := range violations(table, goList(t, "-deps", "./..."), goList(t, "std")) {
		t.Error(v)
	}
}

const mechanisms = "./sandbox/internal/..."

// mayKnow are the imports among the mechanisms, "importer imported", with their reasons.
var mayKnow = map[string]string{
	"supervise seccomp": "the supervisor asks the filter's table for the names of calls",
	"tmpdir proctree":   "the name of a directory is as random as the mark of a tree: one reader of the kernel's random bytes",
}

// acquainted returns a line for each package of the mechanisms that imports another
// without being excepted, and for each exception that nothing needs.
func acquainted(pkgs map[string]pkg, except map[string]string) []string {
	var found []string
	name := func(path string) string { return strings.TrimPrefix(path, module+"/sandbox/internal/") }
	needed := map[string]bool{}
	for path, p := range pkgs {
		if !match(mechanisms, path) {
			continue
		}
		for _, imported := range p.Imports {
			if !match(mechanisms, imported) {
				continue
			}
			pair := name(path) + " " + name(imported)
			needed[pair] = true
			if except[pair] == "" {
				found = append(found, fmt.Sprintf("%s imports %s: mechanisms do not know each other", path, imported))
			}
		}
	}
	for pair := range except {
		if !needed[pair] {
			found = append(found, fmt.Sprintf("the exception %q is needed by nothing", pair))
		}
	}
	slices.Sort(found)
	return found
}

func TestMechanisms_DoNotKnowEachOther(t *testing.T) {
	pkgs := goList(t, mechanisms)
	if len(pkgs) < 5 {
		t.Fatalf("%d mechanisms: is %s still where they are?", len(pkgs), mechanisms)
	}
	for _, v := range acquainted(pkgs, mayKnow) {
		t.Error(v)
	}
}

func TestAcquainted_FindsAnyPair(t *testing.T) {
	const in = module + "/sandbox/internal/"
	pkgs := map[string]pkg{
		in + "a":            {Imports: []string{"os", in + "b", module + "/sandboxpolicy"}},
		in + "b":            {Imports: []string{in + "c/d"}},
		in + "c/d":          {},
		module + "/sandbox": {Imports: []string{in + "a", in + "b"}},
	}
	for _, tc := range []struct {
		except map[string]string
		want   int
	}{
		{nil, 2},
		{map[string]string{"a b": "because"}, 1},
		{map[string]string{"a b": "because", "b c/d": "because"}, 0},
		{map[string]string{"a b": "", "b c/d": "because"}, 1},
		{map[string]string{"a b": "because", "b c/d": "because", "b a": "because"}, 1},
	} {
		if got := acquainted(pkgs, tc.except); len(got) != tc.want {
			t.Errorf("%v: %q, want %d", tc.except, got, tc.want)
		}
	}
}

// The checker itself must find what it is for.
func TestViolations_FindsWhatRowsForbid(t *testing.T) {
	own := func(path string, imports, deps []string) pkg {
		p := pkg{ImportPath: path, Imports: imports, Deps: deps}
		p.Module = &struct {
			Path, Version string
			Main          bool
		}{module, "", true}
		return p
	}
	pkgs := map[string]pkg{
		module + "/a":   own(module+"/a", []string{module + "/b"}, []string{module + "/b", "net"}),
		module + "/b":   own(module+"/b", []string{"net"}, []string{"net"}),
		module + "/c/d": own(module+"/c/d", nil, nil),
	}
	std := map[string]pkg{"net": {ImportPath: "net", Standard: true}}
	for _, tc := range []struct {
		name string
		row  row
		want string // a part of the only violation; empty: none
	}{
		{"directly", row{importer: "./b", imported: "net", reach: directly}, "/b imports net"},
		{"through another", row{importer: "./a", imported: "net"}, "/a imports net"},
		{"through another is no direct import", row{importer: "./a", imported: "net", reach: directly}, ""},
		{"an exception", row{importer: "./...", imported: "net", except: []string{"./a", "./b"}}, ""},
		{"an exception that is gone", row{importer: "./c/...", imported: "net", except: []string{"./gone"}}, "excepts ./gone"},
		{"everybody, the importers' own packages included", row{importer: "./...", imported: "./b"}, "/a imports"},
		{"nothing forbidden is imported", row{importer: "./c/...", imported: "./a"}, ""},
		{"an importer that is gone", row{importer: "./gone", imported: "net"}, "no such package"},
		{"an imported name that is gone", row{importer: "./a", imported: "nett"}, "does not exist"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := violations([]row{tc.row}, pkgs, std)
			switch {
			case tc.want == "" && len(got) > 0:
				t.Errorf("violations: %q, want none", got)
			case tc.want != "" && (len(got) != 1 || !strings.Contains(got[0], tc.want)):
				t.Errorf("violations: %q, want one with %q", got, tc.want)
			}
		})
	}
}

// programs are all that this module has.
var programs = []string{"dshx", "dshx-mcp"}

// docs/deps.golden shows a new module of a program in the diff that brings it.
func TestModulesInThePrograms(t *testing.T) {
	text := "# Modules linked into the programs; docs/dependencies.md says why. Written by make generate.\n"
	for _, program := range programs {
		modules := map[string]bool{}
		for _, p := range goList(t, "-deps", "./cmd/"+program) {
			if p.Module != nil && !p.Module.Main {
				modules[p.Module.Path+" "+p.Module.Version] = true
			}
		}
		text += "# " + program + "\n"
		for _, m := range slices.Sorted(maps.Keys(modules)) {
			text += m + "\n"
		}
	}
	if n := len(goList(t, "./cmd/...")); n != len(programs) {
		t.Errorf("%d programs; this test knows %q", n, programs)
	}
	if *update {
		if err := os.WriteFile(golden, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if text != string(want) {
		t.Errorf("the programs' modules changed; is docs/dependencies.md still right? then run make generate\nhave:\n%swant:\n%s", text, want)
	}
}

// Every module of the program has its entry in docs/dependencies.md.
func TestModulesAreExplained(t *testing.T) {
	explained, err := os.ReadFile("../../docs/dependencies.md")
	if err != nil {
		t.Fatal(err)
	}
	list, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(list)) {
		path, _, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok || path == "#" {
			continue
		}
		if !bytes.Contains(explained, []byte("`"+path+"`")) {
			t.Errorf("docs/dependencies.md says nothing about `%s`", path)
		}
	}
}
