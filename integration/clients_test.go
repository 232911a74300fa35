package integration

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dshx/dshx/internal/mcpsuite"
	"golang.org/x/sys/unix"
)

// The server against clients that others wrote: the Inspector's command line and
// the TypeScript SDK. scripts/mcp-clients.sh installs them.

// clientsDir is the folder that scripts/mcp-clients.sh has filled, as every user of
// the tests can read it; why says why there is none.
var clientsDir = sync.OnceValues(func() (dir, why string) {
	dir, err := mcpsuite.Dir("testdata/mcp-clients/package-lock.json")
	if err != nil {
		return "", err.Error()
	}
	if !Exists(dir) {
		return "", mcpsuite.Missing
	}
	if !isRoot {
		return dir, ""
	}
	// Root's cache may lie where nobody else may look. The mount is gone with the
	// tests' namespace, and read-only: what runs as root must not change the cache.
	readable := filepath.Join(baseDir, "clients")
	if err := os.Mkdir(readable, 0o755); err != nil {
		return "", err.Error()
	}
	if err := unix.Mount(dir, readable, "", unix.MS_BIND, ""); err != nil {
		return "", "they can't be mounted: " + err.Error()
	}
	if err := unix.Mount("", readable, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""); err != nil {
		return "", "they can't be mounted: " + err.Error()
	}
	return readable, ""
})

// clients are the folder and the node that runs what is in it.
func (e *Env) clients() (dir, node string) {
	e.t.Helper()
	needDshx(e.t)
	dir, why := clientsDir()
	if why != "" {
		skip(e.t, "%s", why)
	}
	for _, node := range mcpsuite.Nodes(dir) {
		if out, err := e.Command(Opts{}, node, "--version").Output(); err == nil && mcpsuite.NewEnough(string(out)) {
			return dir, node
		}
	}
	skip(e.t, "no node of version 22 or later that this user can run")
	panic("unreachable")
}

// server is the command line of dshx-mcp, without the machine's configuration.
func (e *Env) server() []string {
	return []string{filepath.Join(filepath.Dir(dshxBin), "dshx-mcp"), "--no-config", "--workspace", e.W, "--env", "IT_MARK=" + e.Mark}
}

// The Inspector's command line, one run for each request, as a person or CI has it.
func TestClients_Inspector(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		dir, node := e.clients()
		e.Write(filepath.Join(e.W, "a.txt"), "hello\n")
		e.Write(filepath.Join(e.Root, "mcp.json"), mustJSON(map[string]any{"mcpServers": map[string]any{
			"dshx": map[string]any{"command": e.server()[0], "args": e.server()[1:]}}}))
		config := []string{"--config", filepath.Join(e.Root, "mcp.json"), "--server", "dshx"}
		// ask is one run, its exit status, and the result or the error that it prints.
		ask := func(t *testing.T, server []string, exit int, args ...string) (r *Result, result string) {
			t.Helper()
			e := e.With(t)
			argv := append([]string{node, mcpsuite.Inspector(dir), "--cli"}, server...)
			// Outside of the workspace: a client may start a server anywhere.
			r = e.OutsideOpts(Opts{Dir: e.O}, append(append(argv, "--format", "json"), args...)...)
			if r.Exit != exit {
				t.Fatalf("exit status %d wanted\n%v", exit, r)
			}
			for line := range strings.Lines(r.Stdout + r.Stderr) {
				var v struct{ Result, Error json.RawMessage }
				if json.Unmarshal([]byte(line), &v) != nil {
					continue
				}
				if v.Result != nil {
					return r, string(v.Result)
				}
				if v.Error != nil {
					return r, string(v.Error)
				}
			}
			t.Fatalf("it has printed neither result nor error\n%v", r)
			return r, ""
		}
		call := func(t *testing.T, result string) (c called) {
			t.Helper()
			if err := json.Unmarshal([]byte(result), &c); err != nil {
				t.Fatalf("%v in %s", err, result)
			}
			return c
		}

		t.Run("tools/list --strict", func(t *testing.T) {
			r, result := ask(t, e.server(), 0, "--method", "tools/list", "--strict")
			var list struct{ Tools []struct{ Name string } }
			if err := json.Unmarshal([]byte(result), &list); err != nil || len(list.Tools) != 12 {
				t.Errorf("%v, %d tools", err, len(list.Tools))
			}
			// What it warns of are output schemas with null beside a type, or with any value,
			// which the contract has. Models see the input schemas.
			for _, f := range findings(t, r) {
				if f.Severity != "warning" || f.Schema != "outputSchema" || f.Rule != "type-union" && f.Rule != "untyped-schema" {
					t.Errorf("%+v", f)
				}
			}
		})
		t.Run("tools/list --strict finds what is wrong", func(t *testing.T) {
			wrong := append([]string{"sh", "-c", `"$@" | sed -u 's/"command":{"type":"string"/"command":true,"other":{"type":"string"/'`, "sh"}, e.server()...)
			r, _ := ask(t, wrong, 6, "--method", "tools/list", "--strict")
			if !slices.Contains(findings(t, r), finding{"boolean-schema", "error", "inputSchema", "properties.command"}) {
				t.Errorf("%+v", findings(t, r))
			}
		})
		t.Run("tools/call read", func(t *testing.T) {
			_, result := ask(t, e.server(), 0, "--method", "tools/call", "--tool-name", "read", "--tool-arg", "file_path=a.txt")
			c := call(t, result)
			if c.IsError || c.text() != "1\thello" || c.StructuredContent.Bytes != 6 {
				t.Errorf("%s", result)
			}
		})
		t.Run("tools/call bash", func(t *testing.T) {
			_, result := ask(t, e.server(), 0, "--method", "tools/call", "--tool-name", "bash",
				"--tool-args-json", `{"command":"echo made > made.txt; echo said; exit 3"}`)
			c := call(t, result)
			if c.IsError || c.text() != "said\n[exit code 3]" || c.StructuredContent.ExitCode != 3 || c.StructuredContent.Stdout != "said\n" {
				t.Errorf("%s", result)
			}
			if e.Read(filepath.Join(e.W, "made.txt")) != "made\n" {
				t.Errorf("no file in the workspace")
			}
		})
		t.Run("tools/call: what fails", func(t *testing.T) {
			for _, c := range []struct{ args, says string }{
				{"file_path=none.txt", `there is no \"none.txt\"`},
				{"wrong=1", "there is no wrong, only file_path"},
			} {
				_, result := ask(t, e.server(), 5, "--method", "tools/call", "--tool-name", "read", "--tool-arg", c.args)
				if got := call(t, result); !got.IsError || !strings.Contains(result, c.says) || got.raw() {
					t.Errorf("%s: %s", c.args, result)
				}
			}
			if _, result := ask(t, e.server(), 5, "--method", "tools/call", "--tool-name", "none"); !strings.Contains(result, "tool_not_found") {
				t.Errorf("%s", result)
			}
			e := e.With(t)
			e.Mkdir(filepath.Join(e.O, "kept"))
			_, result := ask(t, e.server(), 0, "--method", "tools/call", "--tool-name", "bash", "--tool-args-json",
				mustJSON(map[string]string{"command": "rmdir " + filepath.Join(e.O, "kept")}))
			if !Exists(filepath.Join(e.O, "kept")) || call(t, result).StructuredContent.ExitCode == 0 {
				t.Errorf("a command has removed a folder outside of the workspace: %s", result)
			}
		})
		t.Run("prompts", func(t *testing.T) {
			// By a file of configuration, as editors have it.
			_, result := ask(t, config, 0, "--method", "prompts/list")
			if !strings.Contains(result, `"name":"dshx-status"`) || !strings.Contains(result, `"name":"dshx-preset"`) {
				t.Errorf("%s", result)
			}
			_, result = ask(t, config, 0, "--method", "prompts/get", "--prompt-name", "dshx-status")
			if !strings.Contains(result, "Preset workspace-write, workspace "+e.W+",") {
				t.Errorf("%s", result)
			}
			_, result = ask(t, config, 0, "--method", "prompts/get", "--prompt-name", "dshx-preset", "--prompt-args", "preset=read-only")
			if !strings.Contains(result, "Preset read-only, workspace "+e.W+",") {
				t.Errorf("%s", result)
			}
			_, result = ask(t, config, 1, "--method", "prompts/get", "--prompt-name", "dshx-preset", "--prompt-args", "preset=none")
			if !strings.Contains(result, "the preset stays as it is") {
				t.Errorf("%s", result)
			}
			if _, result = ask(t, config, 1, "--method", "prompts/get", "--prompt-name", "none"); !strings.Contains(result, `unknown prompt`) {
				t.Errorf("%s", result)
			}
		})
		e.With(t).NothingLeft(2 * time.Second)
	})
}

// finding is one of the Inspector's about the schemas of a tool.
type finding struct{ Rule, Severity, Schema, Path string }

func findings(t *testing.T, r *Result) (all []finding) {
	t.Helper()
	var out struct {
		SchemaFindings []struct{ Findings []finding }
	}
	if err := json.Unmarshal([]byte(r.Stdout), &out); err != nil {
		t.Fatalf("%v\n%v", err, r)
	}
	for _, tool := range out.SchemaFindings {
		all = append(all, tool.Findings...)
	}
	return all
}

// called is what is looked at in a CallToolResult.
type called struct {
	Content           []struct{ Type, Text string }
	IsError           bool
	StructuredContent *struct {
		ExitCode int
		Stdout   string
		Bytes    int
		Lines    []struct{ Text string }
	}
}

// text is that of its only content.
func (c called) text() string {
	if len(c.Content) != 1 || c.Content[0].Type != "text" {
		return fmt.Sprintf("%d contents", len(c.Content))
	}
	return c.Content[0].Text
}

// raw tells whether there is structured content.
func (c called) raw() bool { return c.StructuredContent != nil }

// The TypeScript SDK, which most editors are built on. It knows the output schemas
// and throws for a result that isn't as its tool's.
func TestClients_F6_11_F6_13_TypeScriptSDK(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		dir, node := e.clients()
		e.sdk(t, []string{node, must(filepath.Abs("testdata/mcp-clients/sdk.mjs")), dir})
	})
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// sdk has a program on one of the SDKs do F6-11 and F6-13: client CALLS SERVER ARG...
func (e *Env) sdk(t *testing.T, client []string) {
	t.Helper()
	type object = map[string]any
	calls := mustJSON([]object{
		{"name": "read", "arguments": object{"file_path": "none.txt"}},
		{"name": "read", "arguments": object{"file_path": "a.txt"}},
		{"name": "edit", "arguments": object{"file_path": "a.txt", "old_string": "nowhere", "new_string": "x"}},
		{"name": "bash", "arguments": object{"command": "echo said; exit 1"}},
		{"name": "grep", "arguments": object{"pattern": "nowhere"}},
		{"name": "job_list", "arguments": object{}},
	})
	e.Write(filepath.Join(e.W, "a.txt"), "hello\nworld\n")
	talk := func(server ...string) (seen struct {
		Server struct{ Name string }
		Tools  []struct {
			Name                      string
			InputSchema, OutputSchema json.RawMessage
		}
		Calls []struct {
			Result json.RawMessage
			Error  string
		}
		Told []string
	}) {
		t.Helper()
		r := e.With(t).OutsideOpts(Opts{Dir: e.O}, append(append(append([]string{}, client...), calls), server...)...)
		if err := json.Unmarshal([]byte(r.Stdout), &seen); err != nil || r.Exit != 0 || len(seen.Calls) != 6 {
			t.Fatalf("%v\n%v", err, r)
		}
		return seen
	}

	seen := talk(e.server()...)
	if seen.Server.Name != "dshx" || len(seen.Tools) != 12 || len(seen.Told) != 0 {
		t.Errorf("%v, %d tools, %q", seen.Server, len(seen.Tools), seen.Told)
	}
	for _, tool := range seen.Tools {
		for _, schema := range []json.RawMessage{tool.InputSchema, tool.OutputSchema} {
			var s struct {
				Type       string
				Properties map[string]json.RawMessage
			}
			if err := json.Unmarshal(schema, &s); err != nil || s.Type != "object" || s.Properties == nil {
				t.Errorf("%s: %v %s", tool.Name, err, schema)
			}
		}
	}
	got := make([]called, len(seen.Calls))
	for i, c := range seen.Calls {
		if c.Error != "" {
			t.Fatalf("call %d: the client says %s", i, c.Error)
		}
		if err := json.Unmarshal(c.Result, &got[i]); err != nil {
			t.Fatal(err)
		}
	}
	missing, read, edit, bash, grep, list := got[0], got[1], got[2], got[3], got[4], got[5]
	for _, failed := range []struct {
		called
		says string
	}{{missing, `there is no "none.txt"`}, {edit, "old_string"}} {
		if !failed.IsError || failed.raw() || !strings.Contains(failed.text(), failed.says) {
			t.Errorf("%q: %+v", failed.says, failed.called)
		}
	}
	if read.IsError || !read.raw() || read.text() != "1\thello\n2\tworld" || len(read.StructuredContent.Lines) != 2 || read.StructuredContent.Lines[1].Text != "world" {
		t.Errorf("%s", seen.Calls[1].Result)
	}
	if bash.IsError || !bash.raw() || bash.text() != "said\n[exit code 1]" || bash.StructuredContent.ExitCode != 1 || bash.StructuredContent.Stdout != "said\n" {
		t.Errorf("%s", seen.Calls[3].Result)
	}
	for i, empty := range []called{grep, list} {
		if empty.IsError || !empty.raw() || empty.text() == "" {
			t.Errorf("%s", seen.Calls[4+i].Result)
		}
	}
	if e.Read(filepath.Join(e.W, "a.txt")) != "hello\nworld\n" {
		t.Error("the failed edit has changed the file")
	}

	// The control: the client does look. A number that has become a text is an error
	// to it, and the other results are as before.
	seen = talk(append([]string{"sh", "-c", `"$@" | sed -u 's/"totalLines":2,"bytes":12/"totalLines":2,"bytes":"12"/'`, "sh"}, e.server()...)...)
	for i, c := range seen.Calls {
		if (c.Error != "") != (i == 1) {
			t.Errorf("control, call %d: %s %s", i, c.Error, c.Result)
		}
	}
	e.With(t).NothingLeft(2 * time.Second)
}
