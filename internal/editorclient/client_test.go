package editorclient

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

var world = World{Home: "/home/me", Project: "/home/me/app", Environ: []string{
	"HOME=/home/me", "PATH=/bin", "SHELL=/bin/sh", "TERM=xterm", "LANG=C.UTF-8", "USER=me", "LOGNAME=me", "MY_TOKEN=x", "XDG_RUNTIME_DIR=/run/user/1", "DIR=/srv/dir"}}

// What the clients' documentation says of their files, by hand.
func TestRead(t *testing.T) {
	for _, tc := range []struct {
		client, text string
		argv         []string
		timeout      time.Duration
		err          string
	}{
		{client: "zed", text: `{"context_servers":{"dshx":{"command":"/x","args":["a b","${HOME}"],"timeout":5}}}`, argv: []string{"/x", "a b", "${HOME}"}, timeout: 5 * time.Second},
		{client: "vscode", text: `{"servers":{"dshx":{"command":"${userHome}/x","args":["${workspaceFolder}/y","${env:DIR}"]}}}`, argv: []string{"/home/me/x", "/home/me/app/y", "/srv/dir"}},
		{client: "claude-code", text: `{"mcpServers":{"dshx":{"command":"/x","args":["${DIR}","${NOT:-d}"]}}}`, argv: []string{"/x", "/srv/dir", "d"}},
		{client: "codex", text: "[mcp_servers.dshx]\ncommand = '/x'\nargs = ['$HOME']\ntool_timeout_sec = 7", argv: []string{"/x", "$HOME"}, timeout: 7 * time.Second},
		{client: "gemini", text: `{"mcpServers":{"dshx":{"command":"$HOME/x","args":["${DIR}"],"timeout":1500}}}`, argv: []string{"/home/me/x", "/srv/dir"}, timeout: 1500 * time.Millisecond},
		{client: "opencode", text: `{"mcp":{"dshx":{"type":"local","command":["/x","{env:DIR}"],"enabled":true}}}`, argv: []string{"/x", "/srv/dir"}},
		{client: "neovim", text: `{"mcpServers":{"dshx":{"command":"/x","args":["$DIR","a$DIR","${DIR}"]}}}`, argv: []string{"/x", "/srv/dir", "a$DIR", "/srv/dir"}},
		{client: "continue", text: "mcpServers:\n  - name: \"other\"\n    command: \"/y\"\n    args:\n      - \"z\"\n  - name: \"dshx\"\n    command: \"/x\"\n    args:\n      - \"a: \\u00e9\"\n    connectionTimeout: 8\n",
			argv: []string{"/x", "a: é"}, timeout: 8 * time.Millisecond},

		{client: "zed", text: `{"mcpServers":{"dshx":{"command":"/x","args":[]}}}`, err: "context_servers"},
		{client: "zed", text: `{"context_servers":{"dshx":{"command":["/x"],"args":[]}}}`, err: "command is"},
		{client: "zed", text: `{"context_servers":{"dshx":{"command":"/x","args":[1]}}}`, err: "item 0"},
		{client: "zed", text: `{"context_servers":`, err: "JSON"},
		{client: "vscode", text: `{"servers":{"dshx":{"command":"/x","args":["${workspaceRoot}"]}}}`, err: "workspaceRoot"},
		{client: "claude-code", text: `{"mcpServers":{"dshx":{"command":"/x","args":["${NOT}"]}}}`, err: "NOT"},
		{client: "opencode", text: `{"mcp":{"dshx":{"type":"local","command":["/x"],"enabled":false}}}`, err: "enabled"},
		{client: "codex", text: "[mcp_servers.dshx]\ncommand = '/x", err: "codex"},
		{client: "continue", text: "mcpServers:\n  - name: \"dshx\"\n    command: /x\n", err: "line 3"},
		{client: "continue", text: "mcpServers:\n", err: "nothing below"},
		{client: "continue", text: "a: \"b\"\n  c: \"d\"\n", err: "not of the block"},
		{client: "nobody", text: "", err: "no client"},
	} {
		l, err := Read(tc.client, tc.text, world)
		if tc.err != "" {
			if err == nil || !strings.Contains(err.Error(), tc.err) {
				t.Errorf("%s: %s: %v, want %q in the error", tc.client, tc.text, err, tc.err)
			}
			continue
		}
		if err != nil || !slices.Equal(l.Argv, tc.argv) || l.Timeout != tc.timeout {
			t.Errorf("%s: %s: %q for %v, %v; want %q for %v", tc.client, tc.text, l.Argv, l.Timeout, err, tc.argv, tc.timeout)
		}
	}
}

func TestRead_Languages(t *testing.T) {
	for client, text := range map[string]string{
		"codecompanion": `require("codecompanion").setup({ mcp = { servers = { dshx = { cmd = { "/x", "a b", vim.fn.getcwd() }, tool_overrides = { bash = { timeout = 9000 } } } } } })`,
		"emacs":         `(with-eval-after-load 'mcp-hub (setq mcp-hub-servers '(("dshx" . (:command "/x" :args ("a b" "/home/me/app") :timeout 9)))))`,
	} {
		l, err := Read(client, text, world)
		var missing *MissingError
		if errors.As(err, &missing) {
			t.Logf("skip: %s: %v", client, missing)
			continue
		}
		if err != nil || !slices.Equal(l.Argv, []string{"/x", "a b", "/home/me/app"}) || l.Timeout != 9*time.Second {
			t.Errorf("%s: %q for %v, %v", client, l.Argv, l.Timeout, err)
		}
		if _, err := Read(client, strings.ReplaceAll(text, "dshx", "other"), world); err == nil {
			t.Errorf("%s: an entry was found that isn't there", client)
		}
	}
}

func TestRead_WhereAndWithWhat(t *testing.T) {
	text := `{"mcpServers":{"dshx":{"command":"/x","args":[]}}}`
	for client, want := range map[string]struct {
		dir   string
		names []string
	}{
		"neovim":         {"/home/me/app", []string{"HOME", "PATH", "SHELL", "TERM"}},
		"claude-desktop": {"/", []string{"HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER"}},
		"gemini":         {"/home/me/app", []string{"DIR", "HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "XDG_RUNTIME_DIR"}},
		"claude-code":    {"/home/me/app", []string{"CLAUDE_PROJECT_DIR", "DIR", "HOME", "LANG", "LOGNAME", "MY_TOKEN", "PATH", "SHELL", "TERM", "USER", "XDG_RUNTIME_DIR"}},
	} {
		l, err := Read(client, text, world)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, kv := range l.Env {
			name, _, _ := strings.Cut(kv, "=")
			names = append(names, name)
		}
		slices.Sort(names)
		if l.Dir != want.dir || !slices.Equal(names, want.names) {
			t.Errorf("%s: in %s with %q, want %s with %q", client, l.Dir, names, want.dir, want.names)
		}
	}
	l, err := Read("codex", "[mcp_servers.dshx]\ncommand = '/x'\nargs = []", world)
	if err != nil || l.Dir != "/home/me/.codex" || len(l.Env) != 5 {
		t.Errorf("codex: in %s with %q, %v", l.Dir, l.Env, err)
	}
}
