package integration

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dshx/dshx/internal/editorclient"
	"github.com/dshx/dshx/serve/editors"
)

// handshakes is how clients introduce themselves, as recorded from them or read
// in their source; the others use the TypeScript SDK's, under "".
var handshakes = map[string]string{
	"":            `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"mcp-client","version":"1.0.0"}}`,
	"zed":         `{"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"Zed","version":"0.1.0"}}`,
	"vscode":      `{"protocolVersion":"2025-11-25","capabilities":{"roots":{"listChanged":true},"sampling":{},"elicitation":{}},"clientInfo":{"name":"Visual Studio Code","version":"1.106.0"}}`,
	"neovim":      `{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"mcp-hub","version":"1.0.0"}}`,
	"emacs":       `{"protocolVersion":"2024-11-05","capabilities":{"roots":{"listChanged":true}},"clientInfo":{"name":"mcp-emacs","version":"0.1.0"}}`,
	"claude-code": `{"protocolVersion":"2025-11-25","capabilities":{"roots":{"listChanged":true},"elicitation":{"form":{},"url":{}}},"clientInfo":{"name":"claude-code","title":"Claude Code","version":"2.1.328"}}`,
	"codex":       `{"protocolVersion":"2025-06-18","capabilities":{"elicitation":{"form":{},"url":{}}},"clientInfo":{"name":"codex-mcp-client","title":"Codex","version":"0.169.0"}}`,
	"gemini":      `{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"mcp-test-client","version":"0.0.1"}}`,
	"qwen":        `{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"mcp-test-client","version":"0.0.1"}}`,
	"opencode":    `{"protocolVersion":"2025-11-25","capabilities":{"roots":{}},"clientInfo":{"name":"opencode","version":"1.18.33"}}`,
	"inspector":   `{"protocolVersion":"2025-11-25","capabilities":{"roots":{"listChanged":true}},"clientInfo":{"name":"inspector-cli","version":"2.12.0"}}`,
}

// Each printed configuration, read and started as the client does, in the
// client's directory and with no more environment than it gives: handshake,
// list of tools, one call that sees the workspace, and an orderly end.
func TestEditors_ConfigurationsWork(t *testing.T) {
	needDshx(t)
	program := []string{filepath.Join(filepath.Dir(dshxBin), "dshx-mcp")}
	forEachUser(t, func(t *testing.T, e *Env) {
		project := filepath.Join(e.W, `my "app", it's é \n`)
		e.Write(filepath.Join(project, "needle.txt"), "x\n")
		world := editorclient.World{Home: e.H, Project: project, Environ: e.environ([]string{
			"GITHUB_TOKEN=ghp_0123456789", "MY_API_KEY=0123456789", "XDG_RUNTIME_DIR=/run/user/" + fmt.Sprint(e.UID)})}
		for _, name := range editors.Names() {
			printed := ""
			for _, pinned := range []bool{false, true} {
				level := "open project"
				if pinned {
					level = "named workspace"
				}
				config, err := editors.For(name, editors.Paths{Program: program[0], Args: program[1:], Workspace: project, Pinned: pinned})
				if err != nil {
					t.Fatal(err)
				}
				if config.Text == printed {
					continue // a client without a word for the open project
				}
				printed = config.Text
				t.Run(name+", "+level, func(t *testing.T) {
					e := e.With(t)
					launch, err := editorclient.Read(name, config.Text, world)
					var missing *editorclient.MissingError
					if errors.As(err, &missing) {
						t.Skip(missing)
					}
					if err != nil {
						t.Fatal(err)
					}
					if err := e.converse(launch, handshakes[name]); err != nil {
						t.Errorf("%v\n%q in %s with %q", err, launch.Argv, launch.Dir, launch.Env)
					}
				})
			}
		}

		// The control: a configuration with another workspace, and one with another
		// program, don't do.
		t.Run("controls", func(t *testing.T) {
			e := e.With(t)
			paths := editors.Paths{Program: program[0], Args: program[1:], Workspace: project + "-gone", Pinned: true}
			for _, wrong := range []func(*editors.Paths){func(*editors.Paths) {}, func(p *editors.Paths) { p.Program, p.Workspace = "/bin/true", project }} {
				wrong(&paths)
				config, err := editors.For("zed", paths)
				if err != nil {
					t.Fatal(err)
				}
				launch, err := editorclient.Read("zed", config.Text, world)
				if err != nil {
					t.Fatal(err)
				}
				if err := e.converse(launch, ""); err == nil {
					t.Errorf("%q answered as if all were well", launch.Argv)
				}
			}
		})
	})
}

// converse starts a server and does what a client does at first.
func (e *Env) converse(l editorclient.Launch, initialize string) error {
	if initialize == "" {
		initialize = handshakes[""]
	}
	if strings.HasPrefix(l.Dir, e.H+"/") {
		e.Mkdir(l.Dir)
	}
	cmd := e.Command(Opts{Dir: l.Dir}, l.Argv...)
	cmd.Env = l.Env
	var errs strings.Builder
	cmd.Stderr = &errs
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	// What hangs is ended, and then fails by its end.
	hung := time.AfterFunc(30*time.Second, func() { syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	defer hung.Stop()
	ended := false
	defer func() {
		if !ended {
			syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
			cmd.Wait()
		}
	}()
	talk := conversation{in: in, out: bufio.NewReader(out)}

	var hello struct {
		ProtocolVersion string
		Capabilities    struct{ Tools *struct{} }
	}
	if err := talk.ask("initialize", initialize, &hello); err != nil {
		return fmt.Errorf("%w; standard error: %s", err, errs.String())
	}
	var asked struct{ ProtocolVersion string }
	if err := json.Unmarshal([]byte(initialize), &asked); err != nil {
		return err
	}
	if hello.ProtocolVersion != asked.ProtocolVersion || hello.Capabilities.Tools == nil {
		return fmt.Errorf("initialize: %+v", hello)
	}
	if err := talk.say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`); err != nil {
		return err
	}
	if err := talk.ask("ping", "{}", nil); err != nil {
		return err
	}
	var list struct{ Tools []struct{ Name string } }
	if err := talk.ask("tools/list", "{}", &list); err != nil {
		return err
	}
	if !slices.ContainsFunc(list.Tools, func(t struct{ Name string }) bool { return t.Name == "list" }) {
		return fmt.Errorf("tools/list: %+v", list)
	}
	var call struct {
		IsError           bool
		Content           json.RawMessage
		StructuredContent struct{ Entries []struct{ Name string } }
	}
	if err := talk.ask("tools/call", `{"name":"list","arguments":{}}`, &call); err != nil {
		return err
	}
	if call.IsError || !slices.ContainsFunc(call.StructuredContent.Entries, func(e struct{ Name string }) bool { return e.Name == "needle.txt" }) {
		return fmt.Errorf("tools/call: %+v %s", call.StructuredContent, call.Content)
	}
	if err := in.Close(); err != nil {
		return err
	}
	rest, _ := io.ReadAll(talk.out)
	ended = true
	if err := cmd.Wait(); err != nil || strings.TrimSpace(string(rest)) != "" {
		return fmt.Errorf("at the end of input: %v, output %q, standard error: %s", err, rest, errs.String())
	}
	return nil
}

// A conversation is a client's end of an MCP session.
type conversation struct {
	in  io.Writer
	out *bufio.Reader
	id  int
}

func (c *conversation) say(line string) error {
	_, err := io.WriteString(c.in, line+"\n")
	return err
}

// ask sends a request and reads until its reply. Notifications on the way are
// passed over; a request of the server's is answered as by a client that knows
// none.
func (c *conversation) ask(method, params string, result any) error {
	c.id++
	if err := c.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, c.id, method, params)); err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	for {
		line, err := c.out.ReadBytes('\n')
		if err != nil {
			return fmt.Errorf("%s: no reply: %w", method, err)
		}
		var m struct {
			JSONRPC string
			ID      json.RawMessage
			Method  string
			Result  json.RawMessage
			Error   json.RawMessage
		}
		if err := json.Unmarshal(line, &m); err != nil || m.JSONRPC != "2.0" {
			return fmt.Errorf("%s: not a message: %q", method, line)
		}
		switch {
		case m.Method != "" && m.ID == nil:
		case m.Method != "":
			if err := c.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"unknown method"}}`, m.ID)); err != nil {
				return err
			}
		case string(m.ID) != fmt.Sprint(c.id):
			return fmt.Errorf("%s: a reply to something else: %s", method, line)
		case m.Error != nil:
			return fmt.Errorf("%s: %s", method, m.Error)
		default:
			if result == nil {
				return nil
			}
			return json.Unmarshal(m.Result, result)
		}
	}
}
