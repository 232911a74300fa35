package scripts

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// What can't be had is a skip that says why; what is not what the lock file says is a failure.
func TestMCPClients(t *testing.T) {
	const installs = `mkdir -p node_modules && { cat <<'EOF'
{
  "packages": {
    "node_modules/ajv": {
      "version": "1.2.3",
      "resolved": "anywhere",
      "integrity": "sha512-other"
    }
  }
}
EOF
} >node_modules/.package-lock.json`
	for _, tc := range []struct {
		name, npm string
		env       string
		ok        bool
		says      string
	}{
		{name: "no npm", ok: true, says: "skip: MCP clients of others: npm is missing\n"},
		{name: "forbidden", npm: "exit 0", env: "DSHX_INSTALL=no", ok: true, says: "skip: MCP clients of others: not installed, and DSHX_INSTALL=no forbids installing\n"},
		{name: "no network", npm: "echo npm error network is unreachable; exit 1", ok: true, says: "skip: MCP clients of others: npm could not install them: npm error network is unreachable\n"},
		{name: "another file", npm: "echo npm error code EINTEGRITY; echo npm error integrity checksum failed; exit 1", says: "not what the lock file means: npm error integrity checksum failed\n"},
		{name: "another version", npm: installs, says: "npm installed what the lock file doesn't have: \"1.2.3\""},
		{name: "relative folder", env: "DSHX_MCP_CLIENTS=here", ok: true, says: "skip: MCP clients of others: no folder for them: here is not absolute\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := newMachine(t, 0)
			for _, name := range []string{"sha256sum", "head", "ls", "mkdir", "timeout", "cp", "mv", "comm", "sort"} {
				m.link(name)
			}
			if tc.npm != "" {
				m.script("npm", tc.npm)
			}
			cache := t.TempDir()
			cmd := exec.Command(filepath.Join(m.bin, "sh"), "mcp-clients.sh")
			cmd.Env = append([]string{"PATH=" + m.bin, "TMPDIR=" + t.TempDir(), "DSHX_MCP_CLIENTS=" + cache}, tc.env)
			out, err := cmd.CombinedOutput()
			if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
				t.Fatal(err)
			}
			if (err == nil) != tc.ok || !strings.Contains(string(out), tc.says) {
				t.Errorf("%v, want ok %v and %q, said:\n%s", err, tc.ok, tc.says, out)
			}
			if left, err := os.ReadDir(cache); err != nil || len(left) > 0 {
				t.Errorf("%v left in the folder: %v", left, err)
			}
		})
	}
}

// The lock file names versions and checksums, and no place to fetch from: that is
// for whoever installs to say.
func TestMCPClients_LockFile(t *testing.T) {
	data, err := os.ReadFile("../integration/testdata/mcp-clients/package-lock.json")
	if err != nil {
		t.Fatal(err)
	}
	var lock struct {
		Packages map[string]struct{ Version, Resolved, Integrity, License string }
	}
	if err := json.Unmarshal(data, &lock); err != nil {
		t.Fatal(err)
	}
	if len(lock.Packages) < 100 || bytes.Contains(data, []byte("://")) {
		t.Errorf("%d packages; or an address is named", len(lock.Packages))
	}
	for name, p := range lock.Packages {
		if name != "" && (p.Version == "" || p.Resolved != "" || !strings.HasPrefix(p.Integrity, "sha512-")) || p.License == "" {
			t.Errorf("%q: %+v", name, p)
		}
	}
}
