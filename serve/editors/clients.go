package editors

import "time"

// A client is one entry of the table: everything that is known about one
// client's configuration.
type client struct {
	name    string
	title   string
	aliases []string
	files   []File // the best place first
	syntax  Syntax
	before  string // what stands around the rendered value, in its syntax
	after   string
	note    string

	// workspace is the client's variable for the project that is open; nil: it
	// has none, or none that can be relied on.
	workspace value
	// substitutes are what begins a variable of the client's in any text of the
	// file; with ^ only at the beginning of a text. No client has an escape.
	substitutes []string
	// local is the entry for a server that the client starts.
	local func(program value, args list) value
	// remote is the entry for one that listens; nil: there is no form.
	remote func(address value, token string) value
	// token is how the client names the environment variable TokenVariable in a
	// header; "": it does not, and the token itself is written.
	token string
	// secrets is where it looks for that name, if not in its own environment.
	secrets string
}

const server = "dshx" // the name under which clients list it

// zedTimeout is the longest that Zed waits, whatever its settings say.
const zedTimeout = 600 * time.Second

func seconds(d time.Duration) number      { return number(d / time.Second) }
func milliseconds(d time.Duration) number { return number(d / time.Millisecond) }

// named puts an entry where a client looks for it: under key, with the
// server's name.
func named(key string, entry object) value {
	return object{{key, object{{server, entry}}}}
}

// servers is named("mcpServers", …), which many clients took over from one
// another, for an entry of command and args; extra keys follow.
func servers(first object, extra ...field) func(value, list) value {
	return func(program value, args list) value {
		entry := append(first[:len(first):len(first)], field{"command", program}, field{"args", args})
		return named("mcpServers", append(entry, extra...))
	}
}

// remotes is the same for an address under the given key, with the token in
// the header.
func remotes(first object, key string, extra ...field) func(value, string) value {
	return func(address value, token string) value {
		entry := append(first[:len(first):len(first)], field{key, address}, authorization("headers", token))
		return named("mcpServers", append(entry, extra...))
	}
}

func authorization(key, token string) field {
	return field{key, object{{"Authorization", text("Bearer " + token)}}}
}

func typed(name string) object { return object{{"type", text(name)}} }

// clients is the table. Where each entry is from, and how far it was tried, is
// on the client's page in docs/editors.
func clients() []client {
	gemini := client{
		name:   "gemini",
		title:  "Gemini CLI",
		files:  []File{{User, "~/.gemini/settings.json", false}, {Project, ".gemini/settings.json", false}},
		syntax: JSON,
		note:   "Merge this into the file; gemini mcp list then shows dshx, once you have trusted the folder.",
		// Every text of the settings: $NAME and ${NAME}.
		substitutes: []string{"$"},
		local:       servers(nil, field{"timeout", milliseconds(CallTimeout)}),
		remote:      remotes(nil, "httpUrl", field{"timeout", milliseconds(CallTimeout)}),
		token:       "$" + TokenVariable,
	}
	qwen := gemini
	qwen.name, qwen.title = "qwen", "Qwen Code"
	qwen.files = []File{{User, "~/.qwen/settings.json", false}, {Project, ".qwen/settings.json", false}}
	qwen.note = "Merge this into the file; qwen mcp list then shows dshx, and its first use asks whether you approve of it."

	return []client{
		{
			name:   "zed",
			title:  "Zed",
			files:  []File{{User, "~/.config/zed/settings.json", false}, {Project, ".zed/settings.json", false}},
			syntax: JSON,
			note:   "Merge this into the settings (zed: open settings file); the agent panel's settings then show dshx with a green dot.",
			local: func(program value, args list) value {
				return named("context_servers", object{{"command", program}, {"args", args}, {"timeout", seconds(zedTimeout)}})
			},
			remote: func(address value, token string) value {
				return named("context_servers", object{{"url", address}, authorization("headers", token), {"timeout", seconds(zedTimeout)}})
			},
		},
		{
			name:    "vscode",
			title:   "VS Code",
			aliases: []string{"code", "vs-code"},
			files: []File{{Project, ".vscode/mcp.json", true},
				{User, "mcp.json of the user profile (MCP: Open User Configuration)", false}},
			syntax:      JSON,
			note:        "Merge this into the file and start dshx there (MCP: List Servers); VS Code asks once whether you trust it.",
			workspace:   text("${workspaceFolder}"),
			substitutes: []string{"${"},
			local: func(program value, args list) value {
				return named("servers", append(typed("stdio"), field{"command", program}, field{"args", args}))
			},
			remote: func(address value, token string) value {
				return named("servers", append(typed("http"), field{"url", address}, authorization("headers", token)))
			},
			token: "${env:" + TokenVariable + "}",
		},
		{
			name:   "copilot",
			title:  "Copilot CLI",
			files:  []File{{User, "~/.copilot/mcp-config.json", false}, {Project, ".mcp.json", false}},
			syntax: JSON,
			note:   "Merge this into the file and start copilot again; /mcp show lists dshx.",
			// Newer versions expand variables, in which texts is not documented.
			substitutes: []string{"$"},
			local:       servers(typed("local"), field{"tools", list{text("*")}}),
			remote:      remotes(typed("http"), "url", field{"tools", list{text("*")}}),
		},
		{
			name:        "cursor",
			title:       "Cursor",
			files:       []File{{Project, ".cursor/mcp.json", true}, {User, "~/.cursor/mcp.json", false}},
			syntax:      JSON,
			note:        "Merge this into the file and switch dshx on in Cursor's settings under MCP.",
			workspace:   text("${workspaceFolder}"),
			substitutes: []string{"${"},
			local:       servers(typed("stdio")),
			remote:      remotes(nil, "url"),
			token:       "${env:" + TokenVariable + "}",
		},
		{
			name:        "windsurf",
			title:       "Windsurf",
			files:       []File{{User, "~/.codeium/windsurf/mcp_config.json", false}},
			syntax:      JSON,
			note:        "Merge this into the file and refresh the MCP servers in Cascade's panel.",
			substitutes: []string{"${"},
			local:       servers(nil),
			remote:      remotes(nil, "serverUrl"),
			token:       "${env:" + TokenVariable + "}",
		},
		{
			name:  "cline",
			title: "Cline",
			files: []File{{User, "~/.config/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json", false}},
			note:  "Merge this into the file, which Cline opens by itself (MCP Servers, Configure).",
			// Newer versions expand ${env:NAME}.
			substitutes: []string{"${env:"},
			syntax:      JSON,
			local:       servers(nil, field{"disabled", boolean(false)}, field{"timeout", seconds(CallTimeout)}),
			remote:      remotes(typed("streamableHttp"), "url", field{"disabled", boolean(false)}, field{"timeout", seconds(CallTimeout)}),
		},
		{
			name:        "continue",
			title:       "Continue",
			files:       []File{{User, "~/.continue/mcpServers/dshx.yaml", false}, {Project, ".continue/mcpServers/dshx.yaml", false}},
			syntax:      YAML,
			note:        "Save this as the whole file; the tools are there in agent mode.",
			substitutes: []string{"${{"},
			local: func(program value, args list) value {
				return continueFile(object{{"name", text(server)}, {"type", text("stdio")}, {"command", program}, {"args", args},
					{"connectionTimeout", milliseconds(CallTimeout)}})
			},
			remote: func(address value, token string) value {
				return continueFile(object{{"name", text(server)}, {"type", text("streamable-http")}, {"url", address},
					{"requestOptions", object{authorization("headers", token)}}, {"connectionTimeout", milliseconds(CallTimeout)}})
			},
			token:   "${{ secrets." + TokenVariable + " }}",
			secrets: "~/.continue/.env",
		},
		{
			name:    "jetbrains",
			title:   "JetBrains AI Assistant",
			aliases: []string{"idea", "intellij", "goland", "pycharm", "webstorm", "rustrover", "clion"},
			files:   []File{{Dialog, "Settings, Tools, AI Assistant, Model Context Protocol (MCP), Add, As JSON", false}},
			syntax:  JSON,
			note:    "Paste this into the dialog, choose the level (global or project) and apply.",
			local:   servers(nil),
		},
		{
			name:   "junie",
			title:  "Junie",
			files:  []File{{User, "~/.junie/mcp/mcp.json", false}, {Project, ".junie/mcp/mcp.json", false}},
			syntax: JSON,
			note:   "Merge this into the file; Junie's settings list dshx under MCP Settings.",
			local:  servers(nil),
		},
		{
			name:    "neovim",
			title:   "Neovim with mcphub.nvim",
			aliases: []string{"nvim", "mcphub", "mcp-hub"},
			files:   []File{{User, "~/.config/mcphub/servers.json", true}, {Project, ".mcphub/servers.json", true}},
			syntax:  JSON,
			note:    "Merge this into the file and give mcphub's setup mcp_request_timeout = 700000, or calls end after a minute.",
			// mcp-hub sets it to the directory that it runs in.
			workspace:   text("${workspaceFolder}"),
			substitutes: []string{"${", "^$"},
			local:       servers(nil),
			remote:      remotes(nil, "url"),
			token:       "${" + TokenVariable + "}",
		},
		{
			name:      "codecompanion",
			title:     "Neovim with CodeCompanion",
			files:     []File{{User, "~/.config/nvim/init.lua, or wherever codecompanion's setup is called", true}},
			syntax:    Lua,
			before:    `require("codecompanion").setup(`,
			after:     ")",
			note:      "Merge this into the call of setup that you have: a second one would replace it.",
			workspace: expression("vim.fn.getcwd()"),
			local: func(program value, args list) value {
				var overrides object
				for _, tool := range longTools {
					overrides = append(overrides, field{tool, object{{"timeout", milliseconds(CallTimeout)}}})
				}
				return object{{"mcp", object{{"servers", object{{server, object{
					{"cmd", append(list{program}, args...)}, {"tool_overrides", overrides}}}}}}}}
			},
		},
		{
			name:    "emacs",
			title:   "Emacs with mcp.el (gptel and others)",
			aliases: []string{"mcp.el", "gptel"},
			files:   []File{{User, "~/.emacs.d/init.el", false}},
			syntax:  Elisp,
			before:  "(with-eval-after-load 'mcp-hub\n  (add-to-list 'mcp-hub-servers\n               '(\"" + server + "\" . ",
			after:   ")))",
			note:    "Put this into your init file, behind whatever sets mcp-hub-servers as a whole; M-x mcp-hub starts and lists it.",
			local: func(program value, args list) value {
				return object{{"command", program}, {"args", args}, {"timeout", seconds(CallTimeout)}}
			},
		},
		{
			name:    "claude-desktop",
			title:   "Claude Desktop",
			aliases: []string{"claude_desktop"},
			files:   []File{{User, "~/.config/Claude/claude_desktop_config.json", false}},
			syntax:  JSON,
			note:    "Merge this into the file (Settings, Developer, Edit Config) and start the application again.",
			local:   servers(nil),
		},
		{
			name:  "claude-code",
			title: "Claude Code",
			files: []File{{Project, ".mcp.json", true}, {User, "~/.claude.json", true}},
			note:  "Merge this into the file; claude mcp list then shows dshx, and a project's file is asked about once.",
			// What it is set to is where the session was started; unset while the file
			// is read, hence the default, which is that directory as well.
			workspace:   text("${CLAUDE_PROJECT_DIR:-.}"),
			substitutes: []string{"${"},
			syntax:      JSON,
			local:       servers(typed("stdio")),
			remote:      remotes(typed("http"), "url"),
			token:       "${" + TokenVariable + "}",
		},
		{
			name:   "codex",
			title:  "Codex",
			files:  []File{{User, "~/.codex/config.toml", false}, {Project, ".codex/config.toml", false}},
			syntax: TOML,
			note:   "Add this to the file (a project's counts once the project is trusted); /mcp lists dshx.",
			local: func(program value, args list) value {
				return named("mcp_servers", object{{"command", program}, {"args", args}, {"tool_timeout_sec", seconds(CallTimeout)}})
			},
			remote: func(address value, token string) value {
				return named("mcp_servers", object{{"url", address}, {"bearer_token_env_var", text(token)}, {"tool_timeout_sec", seconds(CallTimeout)}})
			},
			token: TokenVariable,
		},
		gemini,
		qwen,
		{
			name:        "opencode",
			title:       "opencode",
			files:       []File{{User, "~/.config/opencode/opencode.json", false}, {Project, "opencode.json", false}},
			syntax:      JSON,
			note:        "Merge this into the file; opencode mcp list then shows dshx.",
			substitutes: []string{"{env:", "{file:"},
			local: func(program value, args list) value {
				return named("mcp", append(typed("local"), field{"command", append(list{program}, args...)},
					field{"enabled", boolean(true)}, field{"timeout", milliseconds(CallTimeout)}))
			},
			remote: func(address value, token string) value {
				return named("mcp", append(typed("remote"), field{"url", address}, authorization("headers", token),
					field{"oauth", boolean(false)}, field{"enabled", boolean(true)}, field{"timeout", milliseconds(CallTimeout)}))
			},
			token: "{env:" + TokenVariable + "}",
		},
		{
			name:   "inspector",
			title:  "MCP Inspector",
			files:  []File{{User, "any file, given as --config FILE --server dshx", false}},
			syntax: JSON,
			note:   "Save this as a file and start the Inspector with it, such as: mcp-inspector --cli --config FILE --server dshx --method tools/list.",
			local:  servers(typed("stdio")),
			remote: remotes(typed("streamable-http"), "url"),
		},
	}
}

// longTools are the tools whose calls may take minutes.
var longTools = [...]string{"bash", "job_wait", "job_output", "run_code"}

func continueFile(entry object) value {
	return object{{"name", text(server)}, {"version", text("0.0.1")}, {"schema", text("v1")}, {"mcpServers", list{entry}}}
}
