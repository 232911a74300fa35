package editors

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"
)

// A shape is what a client's own schema, source or documentation says of an
// entry, written down as facts: which keys there are, of which kind, and which
// must be there. Keys that dshx never prints are listed as well where the
// client refuses unknown ones, so that the table can be compared with its
// source.
type shape struct {
	path     []string          // from the root to the entry; "0" is an item of a list
	keys     map[string]string // key: kind
	required []string
	values   map[string]string // what a key must say
}

// Kinds: string, strings, number, boolean, headers (texts by name), object.
type shapes struct {
	source        string
	local, remote shape
}

var commandOnly = map[string]string{"command": "string", "args": "strings", "env": "headers"}

func plus(base map[string]string, more map[string]string) map[string]string {
	all := map[string]string{}
	for _, m := range []map[string]string{base, more} {
		for k, v := range m {
			all[k] = v
		}
	}
	return all
}

func mcpServers(keys map[string]string, values map[string]string, required ...string) shape {
	return shape{path: []string{"mcpServers", "dshx"}, keys: keys, values: values, required: required}
}

var known = map[string]shapes{
	"zed": {
		source: "Zed's source, ContextServerSettingsContent in settings_content/src/project.rs",
		local: shape{path: []string{"context_servers", "dshx"}, required: []string{"command", "args"},
			keys: plus(commandOnly, map[string]string{"enabled": "boolean", "remote": "boolean", "timeout": "number"})},
		remote: shape{path: []string{"context_servers", "dshx"}, required: []string{"url"},
			keys: map[string]string{"enabled": "boolean", "url": "string", "headers": "headers", "timeout": "number", "oauth": "object"}},
	},
	"vscode": {
		source: "VS Code's MCP configuration reference",
		local: shape{path: []string{"servers", "dshx"}, required: []string{"type", "command"}, values: map[string]string{"type": "stdio"},
			keys: plus(commandOnly, map[string]string{"type": "string", "envFile": "string", "sandboxEnabled": "boolean", "sandbox": "object", "dev": "object"})},
		remote: shape{path: []string{"servers", "dshx"}, required: []string{"type", "url"}, values: map[string]string{"type": "http"},
			keys: map[string]string{"type": "string", "url": "string", "headers": "headers", "oauth": "object"}},
	},
	"copilot": {
		source: "GitHub's documentation of mcp-config.json",
		local:  mcpServers(plus(commandOnly, map[string]string{"type": "string", "tools": "strings"}), map[string]string{"type": "local"}, "type", "command", "args", "tools"),
		remote: mcpServers(map[string]string{"type": "string", "url": "string", "headers": "headers", "tools": "strings"}, map[string]string{"type": "http"}, "type", "url", "tools"),
	},
	"cursor": {
		source: "Cursor's documentation",
		local:  mcpServers(plus(commandOnly, map[string]string{"type": "string", "envFile": "string"}), map[string]string{"type": "stdio"}, "type", "command"),
		remote: mcpServers(map[string]string{"url": "string", "headers": "headers", "auth": "object"}, nil, "url"),
	},
	"windsurf": {
		source: "Windsurf's documentation",
		local:  mcpServers(plus(commandOnly, map[string]string{"disabled": "boolean"}), nil, "command"),
		remote: mcpServers(map[string]string{"serverUrl": "string", "headers": "headers", "disabled": "boolean"}, nil, "serverUrl"),
	},
	"cline": {
		source: "Cline's documentation",
		local: mcpServers(plus(commandOnly, map[string]string{"type": "string", "cwd": "string", "disabled": "boolean", "alwaysAllow": "strings", "autoApprove": "strings", "timeout": "number"}),
			nil, "command"),
		remote: mcpServers(map[string]string{"type": "string", "url": "string", "headers": "headers", "disabled": "boolean", "alwaysAllow": "strings", "autoApprove": "strings", "timeout": "number"},
			map[string]string{"type": "streamableHttp"}, "type", "url"),
	},
	"continue": {
		source: "Continue's documentation and source (packages/config-yaml)",
		local: shape{path: []string{"mcpServers", "0"}, required: []string{"name", "command"}, values: map[string]string{"type": "stdio", "name": "dshx"},
			keys: plus(commandOnly, map[string]string{"name": "string", "type": "string", "cwd": "string", "connectionTimeout": "number"})},
		remote: shape{path: []string{"mcpServers", "0"}, required: []string{"name", "type", "url"}, values: map[string]string{"type": "streamable-http"},
			keys: map[string]string{"name": "string", "type": "string", "url": "string", "requestOptions": "object", "connectionTimeout": "number"}},
	},
	"jetbrains": {source: "JetBrains' help", local: mcpServers(commandOnly, nil, "command")},
	"junie":     {source: "JetBrains' help", local: mcpServers(commandOnly, nil, "command")},
	"neovim": {
		source: "mcphub.nvim's documentation and mcp-hub 4.2.1's source",
		local: mcpServers(plus(commandOnly, map[string]string{"cwd": "string", "disabled": "boolean", "disabled_tools": "strings", "autoApprove": "object", "name": "string", "dev": "object"}),
			nil, "command"),
		remote: mcpServers(map[string]string{"url": "string", "headers": "headers", "disabled": "boolean"}, nil, "url"),
	},
	"codecompanion":  {source: "CodeCompanion's documentation"}, // a program: TestInterpreted… runs it
	"emacs":          {source: "mcp.el's source (mcp-hub-servers)"},
	"claude-desktop": {source: "the MCP documentation's guide for users", local: mcpServers(commandOnly, nil, "command")},
	"claude-code": {
		source: "Claude Code's documentation and 2.1.328's own schema",
		local: mcpServers(plus(commandOnly, map[string]string{"type": "string", "timeout": "number", "alwaysLoad": "boolean"}),
			map[string]string{"type": "stdio"}, "command"),
		remote: mcpServers(map[string]string{"type": "string", "url": "string", "headers": "headers", "headersHelper": "string", "oauth": "object", "timeout": "number"},
			map[string]string{"type": "http"}, "type", "url"),
	},
	"codex": {
		source: "Codex's source, RawMcpServerConfig in config/src/mcp_types.rs; unknown keys are refused",
		local: shape{path: []string{"mcp_servers", "dshx"}, required: []string{"command"},
			keys: plus(codexShared, map[string]string{"command": "string", "args": "strings", "env": "headers", "env_vars": "strings", "cwd": "string"})},
		remote: shape{path: []string{"mcp_servers", "dshx"}, required: []string{"url", "bearer_token_env_var"},
			keys: plus(codexShared, map[string]string{"url": "string", "bearer_token_env_var": "string", "http_headers": "headers", "env_http_headers": "headers"})},
	},
	"gemini": {source: "Gemini CLI 0.61.0's documentation (tools/mcp-server.md)", local: geminiLocal, remote: geminiRemote},
	"qwen":   {source: "Qwen Code 0.24.4, which took it over from Gemini CLI", local: geminiLocal, remote: geminiRemote},
	"opencode": {
		source: "opencode 1.18.33's own schema, McpLocalConfig and McpRemoteConfig; opencode 2 has another shape",
		local: shape{path: []string{"mcp", "dshx"}, required: []string{"type", "command"}, values: map[string]string{"type": "local"},
			keys: map[string]string{"type": "string", "command": "strings", "cwd": "string", "environment": "headers", "enabled": "boolean", "timeout": "number"}},
		remote: shape{path: []string{"mcp", "dshx"}, required: []string{"type", "url"}, values: map[string]string{"type": "remote"},
			keys: map[string]string{"type": "string", "url": "string", "enabled": "boolean", "headers": "headers", "oauth": "boolean", "timeout": "number"}},
	},
	"inspector": {
		source: "the Inspector's documentation",
		local:  mcpServers(plus(commandOnly, map[string]string{"type": "string"}), map[string]string{"type": "stdio"}, "command"),
		remote: mcpServers(map[string]string{"type": "string", "url": "string", "headers": "headers"}, map[string]string{"type": "streamable-http"}, "type", "url"),
	},
}

var codexShared = map[string]string{"experimental_environment": "string", "startup_timeout_sec": "number", "startup_timeout_ms": "number",
	"tool_timeout_sec": "number", "enabled": "boolean", "required": "boolean", "supports_parallel_tool_calls": "boolean",
	"default_tools_approval_mode": "string", "enabled_tools": "strings", "disabled_tools": "strings", "scopes": "strings", "oauth": "object",
	"oauth_resource": "string", "tools": "object"}

var geminiKeys = map[string]string{"timeout": "number", "trust": "boolean", "includeTools": "strings", "excludeTools": "strings", "description": "string"}

var (
	geminiLocal  = mcpServers(plus(geminiKeys, plus(commandOnly, map[string]string{"cwd": "string"})), nil, "command")
	geminiRemote = mcpServers(plus(geminiKeys, map[string]string{"httpUrl": "string", "headers": "headers"}), nil, "httpUrl")
)

// What is printed has the shape that the client's schema or documentation
// gives it.
func TestShapes(t *testing.T) {
	for _, name := range Names() {
		facts, ok := known[name]
		if !ok || facts.source == "" {
			t.Errorf("%s: nothing is written down about its shape, and from where", name)
			continue
		}
		for _, tc := range []struct {
			target Target
			shape  shape
		}{
			{Paths{Program: "/usr/bin/dshx-mcp", Workspace: "/home/me/app"}, facts.local},
			{Endpoint{URL: "http://127.0.0.1:8765/mcp", Token: "t"}, facts.remote},
		} {
			config, err := For(name, tc.target)
			if (tc.shape.path == nil) != (err != nil) && config.Syntax != Lua && config.Syntax != Elisp {
				t.Errorf("%s: %T: %v, but the table of shapes says %v", name, tc.target, err, tc.shape.path)
			}
			if err != nil || tc.shape.path == nil {
				continue
			}
			doc, err := parse(config)
			if err != nil {
				t.Errorf("%s: %v\n%s", name, err, config.Text)
				continue
			}
			if err := tc.shape.check(doc); err != nil {
				t.Errorf("%s: %v\n%s", name, err, config.Text)
			}
		}
	}
	for name := range known {
		if !slices.Contains(Names(), name) {
			t.Errorf("the table of shapes has %s, which is no client", name)
		}
	}
}

func parse(c Config) (doc any, err error) {
	switch c.Syntax {
	case JSON:
		err = json.Unmarshal([]byte(c.Text), &doc)
	case TOML:
		m := map[string]any{}
		err, doc = toml.Unmarshal([]byte(c.Text), &m), m
	case YAML:
		// Its value before rendering is the same tree; TestYAML_IsYAML compares the text.
		var w strings.Builder
		found, _ := find(c.Client)
		v := found.local(text("/usr/bin/dshx-mcp"), list{text("--workspace"), text("/home/me/app")})
		if strings.Contains(c.Text, "url:") {
			v = found.remote(text("http://127.0.0.1:8765/mcp"), found.token)
		}
		writeJSON(&w, v, 0)
		err = json.Unmarshal([]byte(w.String()), &doc)
	default:
		err = fmt.Errorf("no parser for %s", c.Syntax)
	}
	return doc, err
}

func (s shape) check(doc any) error {
	for i, step := range s.path {
		switch here := doc.(type) {
		case map[string]any:
			doc = here[step]
		case []any:
			if step != "0" || len(here) != 1 {
				return fmt.Errorf("%d items at %s", len(here), strings.Join(s.path[:i], "."))
			}
			doc = here[0]
		default:
			return fmt.Errorf("nothing at %s", strings.Join(s.path[:i+1], "."))
		}
	}
	entry, ok := doc.(map[string]any)
	if !ok {
		return fmt.Errorf("%s is %T", strings.Join(s.path, "."), doc)
	}
	for key, v := range entry {
		want, ok := s.keys[key]
		if !ok {
			return fmt.Errorf("the client has no key %q", key)
		}
		if got := kind(v); got != want && !(want == "object" && got == "headers") {
			return fmt.Errorf("%s is %s, want %s", key, got, want)
		}
	}
	for _, key := range s.required {
		if _, ok := entry[key]; !ok {
			return fmt.Errorf("no key %q", key)
		}
	}
	for key, want := range s.values {
		if entry[key] != want {
			return fmt.Errorf("%s is %v, want %s", key, entry[key], want)
		}
	}
	return nil
}

func kind(v any) string {
	switch v := v.(type) {
	case string:
		return "string"
	case bool:
		return "boolean"
	case float64, int64:
		return "number"
	case []any:
		for _, item := range v {
			if kind(item) != "string" {
				return "list"
			}
		}
		return "strings"
	case map[string]any:
		for _, item := range v {
			if kind(item) != "string" {
				return "object"
			}
		}
		return "headers"
	}
	return fmt.Sprintf("%T", v)
}
