package editorclient

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"
)

// World is where a client runs.
type World struct {
	Home    string   // the user's
	Project string   // the directory that is open
	Environ []string // the client's own environment
}

func (w World) variable(name string) (string, bool) {
	for _, kv := range w.Environ {
		if k, v, ok := strings.Cut(kv, "="); ok && k == name {
			return v, true
		}
	}
	return "", false
}

// Launch is what a client starts.
type Launch struct {
	Argv []string
	Env  []string
	Dir  string
	// Timeout is how long the client waits for a call by this configuration; 0
	// where it says nothing.
	Timeout time.Duration
}

// entry is what a configuration says before variables are resolved.
type entry struct {
	argv    []string
	timeout time.Duration
}

// Remote is a server that a client reaches by HTTP.
type Remote struct {
	URL           string
	Authorization string // the header
}

type client struct {
	decode  func(text string, w World) (any, error)
	find    func(doc any) (entry, error)
	resolve func(s string, w World) (string, error)
	environ func(w World) []string
	dir     func(w World) string
	remote  remoteKeys
}

// remoteKeys is where a remote entry's address and headers are; url "" for a
// client that has none.
type remoteKeys struct {
	path    []string
	url     string
	headers []string
	bearer  string // key that names the variable with the token, instead of headers
}

// Names are the clients that Read knows.
func Names() []string {
	var names []string
	for name := range known() {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Read says what the client starts for a configuration. It is stricter than
// the clients: a variable that is not set is an error.
//
// Errors: *MissingError where the client's own language has no interpreter
// here; otherwise what is wrong with the text.
func Read(name, text string, w World) (Launch, error) {
	c, ok := known()[name]
	if !ok {
		return Launch{}, fmt.Errorf("no client %q", name)
	}
	doc, err := c.decode(text, w)
	if err != nil {
		return Launch{}, fmt.Errorf("%s: %w", name, err)
	}
	e, err := c.find(doc)
	if err != nil {
		return Launch{}, fmt.Errorf("%s: %w", name, err)
	}
	for i, a := range e.argv {
		if e.argv[i], err = c.resolve(a, w); err != nil {
			return Launch{}, fmt.Errorf("%s: %q: %w", name, a, err)
		}
	}
	return Launch{Argv: e.argv, Env: c.environ(w), Dir: c.dir(w), Timeout: e.timeout}, nil
}

// ReadRemote says what the client asks, and how it identifies itself, for a
// configuration of a server that listens. It is as strict as Read.
func ReadRemote(name, text string, w World) (Remote, error) {
	c, ok := known()[name]
	if !ok || c.remote.url == "" {
		return Remote{}, fmt.Errorf("no client %q with remote servers", name)
	}
	doc, err := c.decode(text, w)
	if err != nil {
		return Remote{}, fmt.Errorf("%s: %w", name, err)
	}
	server, err := walk(doc, c.remote.path)
	if err != nil {
		return Remote{}, fmt.Errorf("%s: %w", name, err)
	}
	address, ok := server[c.remote.url].(string)
	if !ok {
		return Remote{}, fmt.Errorf("%s: %s is %T", name, c.remote.url, server[c.remote.url])
	}
	if c.remote.bearer != "" {
		variable, _ := server[c.remote.bearer].(string)
		token, ok := w.variable(variable)
		if !ok {
			return Remote{}, fmt.Errorf("%s: no variable %q", name, variable)
		}
		return Remote{URL: address, Authorization: "Bearer " + token}, nil
	}
	headers, err := walk(server, c.remote.headers)
	if err != nil {
		return Remote{}, fmt.Errorf("%s: %w", name, err)
	}
	header, ok := headers["Authorization"].(string)
	if !ok {
		return Remote{}, fmt.Errorf("%s: Authorization is %T", name, headers["Authorization"])
	}
	r := Remote{URL: address}
	if r.URL, err = c.resolve(address, w); err != nil {
		return Remote{}, fmt.Errorf("%s: %w", name, err)
	}
	if r.Authorization, err = c.resolve(header, w); err != nil {
		return Remote{}, fmt.Errorf("%s: %w", name, err)
	}
	return r, nil
}

func known() map[string]client {
	// JSON with servers by name under a key.
	std := func(key string, unit time.Duration) client {
		return client{decode: fromJSON, find: commandAndArgs(unit, key, "dshx"), resolve: literal, environ: sdkEnviron, dir: slash,
			remote: remoteKeys{path: []string{key, "dshx"}, url: "url", headers: []string{"headers"}}}
	}
	none := remoteKeys{}
	with := func(c client, change func(*client)) client { change(&c); return c }

	return map[string]client{
		"zed":      with(std("context_servers", time.Second), func(c *client) { c.environ, c.dir = all, project }),
		"vscode":   with(std("servers", 0), func(c *client) { c.resolve, c.environ, c.dir = workspaceFolder, all, home }),
		"copilot":  with(std("mcpServers", 0), func(c *client) { c.resolve, c.dir = posix, project }),
		"cursor":   with(std("mcpServers", 0), func(c *client) { c.resolve, c.environ, c.dir = workspaceFolder, all, home }),
		"windsurf": with(std("mcpServers", 0), func(c *client) { c.resolve, c.remote.url = workspaceFolder, "serverUrl" }),
		"cline":    with(std("mcpServers", time.Second), func(c *client) { c.resolve = envBraced }),
		"continue": with(std("", 0), func(c *client) {
			c.decode, c.resolve = fromYAML, doubleBraced
			c.find = commandAndArgs(time.Millisecond, "mcpServers", "dshx")
			c.remote = remoteKeys{path: []string{"mcpServers", "dshx"}, url: "url", headers: []string{"requestOptions", "headers"}}
		}),
		"jetbrains": with(std("mcpServers", 0), func(c *client) { c.remote = none }),
		"junie":     with(std("mcpServers", 0), func(c *client) { c.remote = none }),
		// mcp-hub gives what the TypeScript SDK gives; seen: HOME PATH SHELL TERM.
		"neovim": with(std("mcpServers", 0), func(c *client) { c.resolve, c.environ, c.dir = mcpHub, only("HOME", "PATH", "SHELL", "TERM"), project }),
		"codecompanion": with(std("", 0), func(c *client) {
			c.decode, c.find, c.environ, c.dir = fromLua, printed(time.Millisecond), all, project
			c.remote = none
		}),
		"emacs": with(std("", 0), func(c *client) {
			c.decode, c.find, c.environ, c.dir = fromElisp, printed(time.Second), all, home
			c.remote = none
		}),
		"claude-desktop": with(std("mcpServers", 0), func(c *client) { c.remote = none }),
		"claude-code": with(std("mcpServers", time.Millisecond), func(c *client) {
			c.resolve, c.dir = braced, project
			c.environ = func(w World) []string { return append(all(w), "CLAUDE_PROJECT_DIR="+w.Project) }
		}),
		"codex": with(std("", 0), func(c *client) {
			c.decode, c.find = fromTOML, commandAndArgs(time.Second, "mcp_servers", "dshx")
			c.remote = remoteKeys{path: []string{"mcp_servers", "dshx"}, url: "url", bearer: "bearer_token_env_var"}
			c.environ = only("HOME", "LANG", "PATH", "SHELL", "TERM")
			c.dir = func(w World) string { return filepath.Join(w.Home, ".codex") }
		}),
		"gemini":    with(std("mcpServers", time.Millisecond), func(c *client) { c.resolve, c.environ, c.dir, c.remote.url = posix, withoutSecrets, project, "httpUrl" }),
		"qwen":      with(std("mcpServers", time.Millisecond), func(c *client) { c.resolve, c.environ, c.dir, c.remote.url = posix, withoutSecrets, project, "httpUrl" }),
		"opencode":  with(std("mcp", 0), func(c *client) { c.find, c.resolve, c.environ, c.dir = openCode, curly, all, project }),
		"inspector": with(std("mcpServers", 0), func(c *client) { c.dir = project }),
	}
}

// ---- what is in the text ----

func fromJSON(text string, _ World) (any, error) {
	var doc any
	return doc, json.Unmarshal([]byte(text), &doc)
}

func fromTOML(text string, _ World) (any, error) {
	doc := map[string]any{}
	return any(doc), toml.Unmarshal([]byte(text), &doc)
}

// commandAndArgs finds the entry with a command and its args. A step of the
// path is a key, or, in a list, the name of an item.
func commandAndArgs(unit time.Duration, path ...string) func(any) (entry, error) {
	return func(doc any) (entry, error) {
		server, err := walk(doc, path)
		if err != nil {
			return entry{}, err
		}
		command, ok := server["command"].(string)
		if !ok {
			return entry{}, fmt.Errorf("command is %T", server["command"])
		}
		args, err := texts(server["args"])
		if err != nil {
			return entry{}, fmt.Errorf("args: %w", err)
		}
		e := entry{argv: append([]string{command}, args...)}
		for _, key := range []string{"timeout", "tool_timeout_sec", "connectionTimeout"} {
			if n, ok := integer(server[key]); ok {
				e.timeout = time.Duration(n) * unit
			}
		}
		return e, nil
	}
}

// openCode has program and arguments in one list.
func openCode(doc any) (entry, error) {
	server, err := walk(doc, []string{"mcp", "dshx"})
	if err != nil {
		return entry{}, err
	}
	if server["type"] != "local" || server["enabled"] != true {
		return entry{}, fmt.Errorf("type is %v, enabled is %v", server["type"], server["enabled"])
	}
	argv, err := texts(server["command"])
	if err != nil {
		return entry{}, fmt.Errorf("command: %w", err)
	}
	n, _ := integer(server["timeout"])
	return entry{argv: argv, timeout: time.Duration(n) * time.Millisecond}, nil
}

func walk(doc any, path []string) (map[string]any, error) {
	for _, step := range path {
		switch here := doc.(type) {
		case map[string]any:
			doc = here[step]
		case []any:
			i := slices.IndexFunc(here, func(item any) bool {
				o, ok := item.(map[string]any)
				return ok && o["name"] == step
			})
			if i < 0 {
				return nil, fmt.Errorf("no item named %q", step)
			}
			doc = here[i]
		default:
			return nil, fmt.Errorf("nothing at %s: %T where %s should be", strings.Join(path, "."), doc, step)
		}
	}
	o, ok := doc.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%s is %T", strings.Join(path, "."), doc)
	}
	return o, nil
}

func texts(v any) ([]string, error) {
	items, ok := v.([]any)
	if !ok {
		return nil, fmt.Errorf("it is %T", v)
	}
	out := make([]string, len(items))
	for i, item := range items {
		if out[i], ok = item.(string); !ok {
			return nil, fmt.Errorf("item %d is %T", i, item)
		}
	}
	return out, nil
}

func integer(v any) (int64, bool) {
	switch v := v.(type) {
	case float64:
		return int64(v), v == float64(int64(v))
	case int64:
		return v, true
	}
	return 0, false
}

// ---- variables ----

func literal(s string, _ World) (string, error) { return s, nil }

// replace puts value(name) in the place of what pattern's first non-empty group
// names.
func replace(pattern string, value func(name string, w World) (string, error)) func(string, World) (string, error) {
	re := regexp.MustCompile(pattern)
	return func(s string, w World) (string, error) {
		var failed error
		out := re.ReplaceAllStringFunc(s, func(m string) string {
			name := ""
			for _, group := range re.FindStringSubmatch(m)[1:] {
				if group != "" {
					name = group
				}
			}
			v, err := value(name, w)
			if err != nil {
				failed = err
			}
			return v
		})
		return out, failed
	}
}

func environment(name string, w World) (string, error) {
	name, fallback, has := strings.Cut(name, ":-")
	if v, ok := w.variable(name); ok {
		return v, nil
	}
	if has {
		return fallback, nil
	}
	return "", fmt.Errorf("no variable %s", name)
}

func folder(name string, w World) (string, error) {
	switch env, ok := strings.CutPrefix(name, "env:"); {
	case ok:
		return environment(env, w)
	case name == "workspaceFolder":
		return w.Project, nil
	case name == "userHome":
		return w.Home, nil
	}
	return "", fmt.Errorf("no variable %s", name)
}

// secret is Continue's: a name in ~/.continue/.env or the environment.
func secret(name string, w World) (string, error) {
	name, ok := strings.CutPrefix(strings.TrimSpace(name), "secrets.")
	if !ok {
		return "", fmt.Errorf("no secret %s", name)
	}
	return environment(name, w)
}

// The ways in which clients write variables.
var (
	workspaceFolder = replace(`\$\{([^}]*)\}?`, folder)
	braced          = replace(`\$\{([^}]*)\}?`, environment)
	envBraced       = replace(`\$\{env:([^}]*)\}?`, environment)
	posix           = replace(`\$(?:(\w+)|\{([^}]*)\})`, environment)
	curly           = replace(`\{(?:env|file):([^}]*)\}?`, environment)
	doubleBraced    = replace(`\$\{\{([^}]*)\}?\}?`, secret)
)

// mcpHub has the variables of VS Code and the environment in one space, and
// from earlier times an argument that is a $NAME as a whole.
func mcpHub(s string, w World) (string, error) {
	if name, ok := strings.CutPrefix(s, "$"); ok && !strings.HasPrefix(name, "{") {
		return environment(name, w)
	}
	return replace(`\$\{([^}]*)\}?`, func(name string, w World) (string, error) {
		if v, err := folder(name, w); err == nil {
			return v, nil
		}
		return environment(name, w)
	})(s, w)
}

// ---- environment and directory ----

func all(w World) []string { return slices.Clone(w.Environ) }

// only keeps these names.
func only(names ...string) func(World) []string {
	return func(w World) []string {
		return slices.DeleteFunc(all(w), func(kv string) bool {
			name, _, _ := strings.Cut(kv, "=")
			return !slices.Contains(names, name)
		})
	}
}

// sdkEnviron is what the TypeScript SDK of MCP gives by default.
func sdkEnviron(w World) []string {
	return only("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER")(w)
}

// withoutSecrets leaves out what Gemini CLI takes for a secret by its name.
func withoutSecrets(w World) []string {
	secret := regexp.MustCompile(`(?i)TOKEN|SECRET|PASSWORD|KEY|AUTH|CREDENTIAL`)
	return slices.DeleteFunc(all(w), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return secret.MatchString(name)
	})
}

func slash(World) string     { return string(os.PathSeparator) }
func home(w World) string    { return w.Home }
func project(w World) string { return w.Project }
