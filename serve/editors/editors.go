package editors

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// TokenVariable is the environment variable that remote forms take the token
// from, where the client puts variables into headers.
const TokenVariable = "DSHX_TOKEN"

// CallTimeout is how long a client should wait for a call, where it can be
// told: longer than the longest that bash allows (600 s), the 5 s in which a
// tree is ended after it, and the reply.
const CallTimeout = 700 * time.Second

// A Target is what a client is told to use: Paths or Endpoint.
type Target interface {
	// config is the client's entry for the target.
	config(c *client) (Config, error)
}

// Paths is a server that the client starts and speaks to over standard input
// and output: PROGRAM ARGS… --workspace WORKSPACE.
type Paths struct {
	// Program is its absolute path.
	Program string
	// Workspace is an absolute path. Where the client has a variable for the
	// project that is open, that is printed instead, unless Pinned.
	Workspace string
	// Pinned says that Workspace was chosen: it stands in the text itself.
	Pinned bool
	// Args come before --workspace, as they are. Relative paths among them
	// would be the client's to resolve, in whatever directory it is: make them
	// absolute.
	Args []string
}

// Endpoint is a server that runs already and speaks streamable HTTP.
type Endpoint struct {
	// URL is its address, such as http://127.0.0.1:8765/mcp.
	URL string
	// Token is the bearer token. It is printed only for a client that can't
	// take it from an environment variable.
	Token string
}

// Level says for whom a file of configuration is.
type Level string

// The levels of files.
const (
	User    Level = "user"    // all projects of one user
	Project Level = "project" // whoever opens that project
	Dialog  Level = "dialog"  // no file: a text field of the client
)

// A File is a place where a client looks for configuration. Path begins with
// ~/ for the user, is relative to the project's root for a project, and
// describes the way to a dialog.
type File struct {
	Level Level
	Path  string
	// Variable says that the client's variable for the open project means that
	// project here; in files for all projects it often does not.
	Variable bool
}

// Config is one client's configuration for one target.
type Config struct {
	Client string // its name in the table
	Title  string // what people call it
	Files  []File // where Text may stand, the best place first
	Syntax Syntax
	Text   string // the whole of a new file, or what is merged into one; ends with a newline
	Note   string // how it is put in: one sentence
}

// ErrNoRemote says that a client can't be told of a server that runs already.
var ErrNoRemote = errors.New("it starts its servers itself and has no form for one that listens")

// UnknownClientError is a name that no client of the table has.
type UnknownClientError struct {
	Name    string
	Nearest []string // those that may have been meant, best first
}

func (e *UnknownClientError) Error() string {
	meant := ""
	if len(e.Nearest) > 0 {
		meant = ", did you mean " + strings.Join(e.Nearest, " or ") + "?"
	}
	return fmt.Sprintf("unknown client %q%s (there are: %s)", e.Name, meant, strings.Join(Names(), ", "))
}

// Names are the clients' names, sorted.
func Names() []string {
	var names []string
	for _, c := range clients() {
		names = append(names, c.name)
	}
	slices.Sort(names)
	return names
}

// For returns the configuration of a client.
//
// Errors: *UnknownClientError; ErrNoRemote (wrapped) for an Endpoint; a
// sentence for a path or argument that the client's file could not carry
// unchanged.
func For(name string, t Target) (Config, error) {
	c, err := find(name)
	if err != nil {
		return Config{}, err
	}
	config, err := t.config(c)
	if err != nil {
		return Config{}, fmt.Errorf("configuration for %s: %w", c.title, err)
	}
	return config, nil
}

// Print writes a client's configuration and nothing else, so that it can be
// sent into a file. Errors are those of For, before anything is written, and
// w's.
func Print(w io.Writer, name string, t Target) error {
	config, err := For(name, t)
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, config.Text)
	return err
}

// Explain writes, for a person, where the client's configuration goes and how.
// Errors are those of For and w's.
func Explain(w io.Writer, name string, t Target) error {
	config, err := For(name, t)
	if err != nil {
		return err
	}
	places := make([]string, len(config.Files))
	for i, f := range config.Files {
		places[i] = fmt.Sprintf("%s (%s)", f.Path, f.Level)
	}
	_, err = fmt.Fprintf(w, "%s: %s\n%s\n", config.Title, strings.Join(places, ", or "), config.Note)
	return err
}

func find(name string) (*client, error) {
	all := clients()
	for i := range all {
		if all[i].name == name || slices.Contains(all[i].aliases, name) {
			return &all[i], nil
		}
	}
	return nil, &UnknownClientError{Name: name, Nearest: nearest(name, all)}
}

// nearest are the clients that share a beginning with name, or hold it or are
// held by it, in any spelling of hyphens and case; best first, at most three.
func nearest(name string, all []client) []string {
	fold := func(s string) string {
		return strings.Map(func(r rune) rune {
			if unicode.IsLetter(r) || unicode.IsDigit(r) {
				return unicode.ToLower(r)
			}
			return -1
		}, s)
	}
	want := fold(name)
	type scored struct {
		name  string
		score int
	}
	var found []scored
	for _, c := range all {
		best := 0
		for _, n := range append([]string{c.name, c.title}, c.aliases...) {
			n = fold(n)
			common := 0
			for common < min(len(want), len(n)) && want[common] == n[common] {
				common++
			}
			if len(want) > 2 && (strings.Contains(n, want) || strings.Contains(want, n)) {
				common = max(common, len(n), len(want))
			}
			best = max(best, common)
		}
		if best >= 2 {
			found = append(found, scored{c.name, best})
		}
	}
	slices.SortStableFunc(found, func(a, b scored) int { return b.score - a.score })
	var names []string
	for _, f := range found[:min(3, len(found))] {
		if 2*f.score >= found[0].score {
			names = append(names, f.name)
		}
	}
	return names
}

func (p Paths) config(c *client) (Config, error) {
	program, err := c.path("program", p.Program)
	if err != nil {
		return Config{}, err
	}
	workspace, err := c.path("workspace", p.Workspace)
	variable := c.workspace != nil && !p.Pinned
	switch {
	case variable:
		// Whatever stands in the path, it is not printed.
		workspace = c.workspace
	case err != nil:
		return Config{}, err
	}
	var args list
	for _, a := range p.Args {
		arg, err := c.literal(fmt.Sprintf("argument %q", a), a)
		if err != nil {
			return Config{}, err
		}
		args = append(args, arg)
	}
	config := c.render(c.local(program, append(args, text("--workspace"), workspace)))
	if variable {
		config.Files = slices.DeleteFunc(config.Files, func(f File) bool { return !f.Variable })
	} else {
		config.Note += " It serves " + p.Workspace + ", whatever project is open."
	}
	return config, nil
}

func (e Endpoint) config(c *client) (Config, error) {
	if c.remote == nil {
		return Config{}, ErrNoRemote
	}
	address, err := c.literal(fmt.Sprintf("address %q", e.URL), e.URL)
	if err != nil {
		return Config{}, err
	}
	if u, err := url.Parse(e.URL); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return Config{}, fmt.Errorf("address %q: want http://HOST:PORT/PATH", e.URL)
	}
	if c.token != "" {
		config := c.render(c.remote(address, c.token))
		config.Note += " Set " + TokenVariable + " to the token, " + c.tokenPlace() + "."
		return config, nil
	}
	if e.Token == "" {
		return Config{}, errors.New("it takes no environment variable into a header, so the token itself is needed")
	}
	// What is wrong with a token is said without the token.
	if _, err := c.literal("the token", e.Token); err != nil {
		return Config{}, err
	}
	config := c.render(c.remote(address, e.Token))
	config.Note += " The text holds the token itself: let nobody else read it."
	return config, nil
}

func (c *client) render(v value) Config {
	return Config{
		Client: c.name, Title: c.title, Files: slices.Clone(c.files), Syntax: c.syntax, Note: c.note,
		Text: c.syntax.render(v, c.before, c.after),
	}
}

// tokenPlace is where the client looks for TokenVariable.
func (c *client) tokenPlace() string {
	if c.secrets != "" {
		return "in " + c.secrets
	}
	return "in the environment that the client is started with"
}

// path is an absolute path as a value of this client.
func (c *client) path(what, path string) (value, error) {
	if !filepath.IsAbs(path) {
		return nil, fmt.Errorf("%s %q: want an absolute path, since clients start servers in directories of their own choice", what, path)
	}
	return c.literal(fmt.Sprintf("%s %q", what, path), path)
}

// literal is s as a value of this client: refused where no file could carry it,
// and where the client would put something else in its place. subject is what
// s is to a reader of the error.
func (c *client) literal(subject, s string) (value, error) {
	if !utf8.ValidString(s) {
		return nil, fmt.Errorf("%s: it is not valid UTF-8, which files of configuration must be", subject)
	}
	if i := strings.IndexFunc(s, unicode.IsControl); i >= 0 {
		r, _ := utf8.DecodeRuneInString(s[i:])
		return nil, fmt.Errorf("%s: it holds the control character U+%04X, which files of configuration can't carry", subject, r)
	}
	for _, opening := range c.substitutes {
		start, anchored := strings.CutPrefix(opening, "^")
		if anchored && strings.HasPrefix(s, start) || !anchored && strings.Contains(s, opening) {
			return nil, fmt.Errorf("%s: %s takes %q in it for the beginning of a variable, and has no way to write it otherwise", subject, c.title, start)
		}
	}
	return text(s), nil
}
