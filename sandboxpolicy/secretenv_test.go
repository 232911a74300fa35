package sandboxpolicy

import (
	"slices"
	"testing"
)

// What must not be written down of an environment, beside what may be.
func TestSecrets(t *testing.T) {
	for _, tt := range []struct {
		variable string
		want     []string
	}{
		{"API_TOKEN=hunter2!", []string{"hunter2!"}},
		{"DB_PASSWORD=abc", nil}, // too short to be told from other text
		{"WITH_AUTH=true", nil},
		{"PATH=/usr/bin:/bin", nil},
		{"PWD=/home/me", nil},
		{"NOTE=see ghp_abcdefghijklmnop today", []string{"ghp_abcdefghijklmnop", "see ghp_abcdefghijklmnop today"}},
		{"URL=https://me:pass@word@host/x", []string{"https://me:pass@word@host/x", "pass@word"}},
		{"URL=https://sometoken@host/x", []string{"https://sometoken@host/x", "sometoken"}},
		{"JAVA_OPTS=-Xmx1g -Dpassword=swordfish", []string{"-Xmx1g -Dpassword=swordfish", "swordfish"}},
		{"DSHX_TOKEN=ours and secret", []string{"ours and secret"}},
		{"KEY=-----BEGIN X-----\nabc\n", []string{"-----BEGIN X-----\nabc\n"}},
	} {
		got := secrets([]string{tt.variable}, nil)
		slices.Sort(tt.want)
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.variable, got, tt.want)
		}
	}
}

// A policy knows those of its caller's environment, which no command sees, and
// those that a person named, which commands do.
func TestPolicy_Secrets(t *testing.T) {
	for _, preset := range []string{"workspace-write", "danger-full-access"} {
		ws := t.TempDir()
		p, _, err := Resolve(Request{Preset: preset, Workspace: ws, Cwd: ws, NoConfig: true, AllowBroadWorkspace: true,
			Environ: []string{"HOME=" + t.TempDir(), "PATH=/bin", "GITHUB_TOKEN=of the caller", "MY_PIN=handed on", "SHOWN=plain text"},
			Env:     []string{"SECRET_A=named here", "MY_PIN", "SHOWN", "B=plain as well"}}, OSFacts{})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := p.Secrets(), []string{"handed on", "named here", "of the caller"}; !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", preset, got, want)
		}
	}
}
