// Package mcpsuite finds the MCP clients of others that scripts/mcp-clients.sh has
// installed, and has the public conformance suite among them judge a server. It is
// for tests.
package mcpsuite

import (
	"crypto/sha256"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
)

// Missing says in one sentence what to do where the clients are not installed.
const Missing = "the MCP clients of others are not installed (make mcp-clients)"

// Dir is the folder that scripts/mcp-clients.sh fills by a package-lock.json,
// whether it has done so or not.
//
// Errors: of reading the lock file; an environment without a cache folder.
func Dir(lock string) (string, error) {
	text, err := os.ReadFile(lock)
	if err != nil {
		return "", err
	}
	cache := os.Getenv("DSHX_MCP_CLIENTS")
	if cache == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return "", err
		}
		cache = filepath.Join(user, "dshx-mcp-clients")
	}
	return filepath.Join(cache, fmt.Sprintf("%x", sha256.Sum256(text))[:16]), nil
}

// Nodes are the node programs to try, best first: the installed one is built for the
// GNU C library and one processor.
func Nodes(dir string) []string {
	nodes, _ := filepath.Glob(filepath.Join(dir, "node_modules/node-linux-*/bin/node"))
	return append(nodes, "node")
}

var version = regexp.MustCompile(`^v([0-9]+)\.`)

// NewEnough reports whether what `node --version` prints is a version that the
// clients run on.
func NewEnough(printed string) bool {
	m := version.FindStringSubmatch(printed)
	if m == nil {
		return false
	}
	n, err := strconv.Atoi(m[1])
	return err == nil && n >= 22
}

// Inspector and Suite are the programs of dir, for node.
func Inspector(dir string) string {
	return filepath.Join(dir, "node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js")
}

// Suite is the conformance suite's.
func Suite(dir string) string {
	return filepath.Join(dir, "node_modules/@modelcontextprotocol/conformance/dist/index.js")
}

// Proxy passes requests on to the server at target with a bearer token, which the
// suite has no option for. Everything else, Host and Origin too, is as it came, and
// so are replies, event by event.
func Proxy(target *url.URL, token string) http.Handler {
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = target.Scheme, target.Host
			r.Out.Host = r.In.Host
			r.Out.Header.Set("Authorization", "Bearer "+token)
		},
		FlushInterval: -1,
		ErrorLog:      log.New(io.Discard, "", 0), // clients end streams as they like
	}
}

// Scenario is what the suite has found in one of its scenarios, in checks.
type Scenario struct{ Passed, Failed int }

var line = regexp.MustCompile(`(?m)^[✓✗] ([a-z0-9-]+): ([0-9]+) passed, ([0-9]+) failed$`)

// Summary reads the end of what the suite prints; empty where it didn't get there.
func Summary(printed string) map[string]Scenario {
	all := map[string]Scenario{}
	for _, m := range line.FindAllStringSubmatch(printed, -1) {
		passed, _ := strconv.Atoi(m[2])
		failed, _ := strconv.Atoi(m[3])
		all[m[1]] = Scenario{passed, failed}
	}
	return all
}
