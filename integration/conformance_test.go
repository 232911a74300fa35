package integration

import (
	"bufio"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dshx/dshx/internal/mcpsuite"
)

// serveForSuite starts dshx serve --http and is its address and its token. Without
// the flag the test is skipped.
func (e *Env) serveForSuite() (*url.URL, string) {
	e.t.Helper()
	needDshx(e.t)
	if help := e.Outside(dshxBin, "serve", "--help"); !strings.Contains(help.Stdout, "--http ") {
		skip(e.t, "this dshx serve has no --http")
	}
	token := filepath.Join(e.Mkdir(filepath.Join(e.Root, "token")), "token")
	cmd := e.Command(Opts{Dir: e.O}, dshxBin, "serve", "--no-config", "--workspace", e.W, "--env", "IT_MARK="+e.Mark, "--http", "127.0.0.1:0", "--token-file", token)
	errs, err := cmd.StderrPipe()
	if err != nil {
		e.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		e.t.Fatal(err)
	}
	hung := time.AfterFunc(2*time.Minute, func() { syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	said := []string{}
	at := make(chan *url.URL, 1)
	read := make(chan struct{})
	go func() {
		defer close(read)
		defer close(at)
		for lines := bufio.NewScanner(errs); lines.Scan(); {
			said = append(said, lines.Text())
			if address, ok := strings.CutPrefix(lines.Text(), "dshx: listening on "); ok {
				if u, err := url.Parse(address); err == nil && u.Path == "/mcp" {
					at <- u
				}
			}
		}
	}()
	e.t.Cleanup(func() {
		// An orderly end, whatever the suite has left open.
		syscall.Kill(cmd.Process.Pid, syscall.SIGTERM)
		<-read
		err := cmd.Wait()
		hung.Stop()
		if cmd.ProcessState.ExitCode() != 128+int(syscall.SIGTERM) || e.t.Failed() {
			e.t.Errorf("the server: %v\n%s", err, strings.Join(said, "\n"))
		}
		e.NothingLeft(2 * time.Second)
	})
	u, ok := <-at
	if !ok {
		e.t.Fatal("the server announces no address")
	}
	secret, err := os.ReadFile(token)
	if err != nil {
		e.t.Fatal(err)
	}
	return u, strings.TrimSpace(string(secret))
}

// The public conformance suite against the built program. What only the suite's own
// example server can pass is in the baseline, by name.
func TestClients_ConformanceSuite(t *testing.T) {
	forEachUser(t, func(t *testing.T, e *Env) {
		dir, node := e.clients()
		server, token := e.serveForSuite()
		proxy := httptest.NewServer(mcpsuite.Proxy(server, token))
		defer proxy.Close()
		suite := func(t *testing.T, baseline string, args ...string) (*Result, map[string]mcpsuite.Scenario) {
			t.Helper()
			argv := append([]string{node, mcpsuite.Suite(dir), "server", "--url", proxy.URL + "/mcp",
				"--expected-failures", baseline, "-o", filepath.Join(e.O, "results")}, args...)
			r := e.With(t).OutsideOpts(Opts{Dir: e.O, Timeout: 2 * time.Minute}, argv...)
			return r, mcpsuite.Summary(r.Stdout)
		}
		baseline := must(filepath.Abs("testdata/mcp-clients/conformance-baseline.yml"))
		expected := listed(e.Read(baseline))

		r, found := suite(t, baseline)
		if r.Exit != 0 || len(found) != 30 {
			t.Errorf("%d scenarios\n%v", len(found), r)
		}
		var passed []string
		for name, s := range found {
			if s.Failed > 0 != slices.Contains(expected, name) || s.Passed+s.Failed == 0 {
				t.Errorf("%s: %d passed, %d failed", name, s.Passed, s.Failed)
			}
			if s.Failed == 0 {
				passed = append(passed, name)
			}
		}
		slices.Sort(passed)
		t.Logf("passed: %s; expected to fail: %d", strings.Join(passed, ", "), len(expected))

		// The controls: the suite fails for what fails unexpectedly, and for what was
		// expected to fail and doesn't; and the token is what lets it in.
		other := e.Write(filepath.Join(e.Root, "baseline.yml"), "server:\n  - ping\n")
		for _, name := range []string{"ping", "tools-call-image"} {
			if r, _ := suite(t, other, "--scenario", name); r.Exit != 1 {
				t.Errorf("control %s: %v", name, r)
			}
		}
		shut := httptest.NewServer(mcpsuite.Proxy(server, token+"x"))
		defer shut.Close()
		proxy.URL = shut.URL
		if r, _ := suite(t, baseline, "--scenario", "ping"); r.Exit == 0 {
			t.Errorf("control, another token: %v", r)
		}
	})
}

// listed are the scenarios of a baseline.
func listed(baseline string) (names []string) {
	for line := range strings.Lines(baseline) {
		if name, ok := strings.CutPrefix(line, "  - "); ok {
			names = append(names, strings.TrimSpace(name))
		}
	}
	return names
}
