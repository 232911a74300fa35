package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// What is printed has the flags that were given, with paths that mean the same
// from everywhere; a mistake is told at once.
func TestPrintConfig(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("HOME", filepath.Join(dir, "home"))
	for _, d := range []string{"home", "ws/sub", "out"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(filepath.Join(dir, "ws"))
	run := func(args ...string) (status int, out, errs string) {
		var o, e bytes.Buffer
		status = serve(args, strings.NewReader(""), &o, &e)
		return status, o.String(), e.String()
	}
	status, out, errs := run("--no-config", "--print-config", "claude-desktop", "--write", "../out", "--deny-read=*.env", "--log-level", "info")
	var c struct {
		Servers map[string]struct {
			Command string
			Args    []string
		} `json:"mcpServers"`
	}
	if err := json.Unmarshal([]byte(out), &c); status != 0 || err != nil {
		t.Fatalf("status %d, %v: %s%s", status, err, out, errs)
	}
	got := c.Servers["dshx"]
	want := []string{"--no-config", "--write", filepath.Join(dir, "out"), "--deny-read", "*.env", "--log-level", "info", "--workspace", filepath.Join(dir, "ws")}
	if !filepath.IsAbs(got.Command) || !slices.Equal(got.Args, want) {
		t.Errorf("%s %q, want %q", got.Command, got.Args, want)
	}
	if !strings.Contains(errs, "claude_desktop_config.json") {
		t.Errorf("where it goes is not said: %s", errs)
	}
	for _, wrong := range [][]string{{"--print-config", "zedd"}, {"--print-config", "zed", "--preset", "none"}, {"--print-config", "zed", "--workspace", "gone"}} {
		if status, out, errs := run(append(wrong, "--no-config")...); status != 2 || out != "" || errs == "" {
			t.Errorf("%q: status %d, %q, %q", wrong, status, out, errs)
		}
	}
}
