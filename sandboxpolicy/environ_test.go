package sandboxpolicy

import (
	"slices"
	"strings"
	"testing"
)

func env(p *Policy, name string) (string, bool) {
	for _, kv := range p.Environ() {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			return v, true
		}
	}
	return "", false
}

func TestEnviron_AllowList(t *testing.T) {
	caller := append([]string{"AWS_SECRET_ACCESS_KEY=m", "GITHUB_TOKEN=m", "X_API_KEY=m", "SSH_AUTH_SOCK=m", "DBUS_SESSION_BUS_ADDRESS=m", "OTHER=o",
		"DSHX_LOG=m", "GOFLAGS=-mod=mod", "LC_ALL=C", "npm_config_registry=https://u:m@r.example/", "npm_config__authToken=m", "PIP_INDEX_URL=https://r.example/",
		"GOPROXY=https://m:x@proxy.example", "CC=gcc", "CC=second", "=x", "noequals", "EDITOR=ghp_mmmmmmmmmmmmmmmmmmmm", "TMPDIR=/o/x"}, baseEnv...)
	p, _ := resolve(t, newFake(nil), Request{Environ: caller})
	for name, want := range map[string]string{"PATH": "/usr/bin:/bin", "HOME": "/home/u", "LANG": "C.UTF-8", "TERM": "xterm", "GOFLAGS": "-mod=mod", "LC_ALL": "C",
		"CC": "gcc", "TMPDIR": fakeTmp, "TMP": fakeTmp, "TEMP": fakeTmp, "PIP_INDEX_URL": "https://r.example/"} {
		if v, ok := env(p, name); !ok || v != want {
			t.Errorf("%s = %q, %t, want %q", name, v, ok, want)
		}
	}
	for _, name := range []string{"AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "X_API_KEY", "SSH_AUTH_SOCK", "DBUS_SESSION_BUS_ADDRESS", "OTHER", "DSHX_LOG",
		"npm_config_registry", "npm_config__authToken", "GOPROXY", "EDITOR", "", "noequals"} {
		if v, ok := env(p, name); ok {
			t.Errorf("%s=%s passed", name, v)
		}
	}

	p, _ = resolve(t, newFake(nil), Request{Environ: caller, KeepEnv: true})
	for _, name := range []string{"OTHER", "DBUS_SESSION_BUS_ADDRESS"} {
		if _, ok := env(p, name); !ok {
			t.Errorf("--keep-env dropped %s", name)
		}
	}
	for _, name := range []string{"AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "DSHX_LOG", "EDITOR"} {
		if _, ok := env(p, name); ok {
			t.Errorf("--keep-env passed %s", name)
		}
	}

	p, _ = resolve(t, newFake(nil), Request{Environ: caller, Env: []string{"GITHUB_TOKEN", "NEW=a=b", "UNSET", "PATH=/x", "EMPTY="}})
	for name, want := range map[string]string{"GITHUB_TOKEN": "m", "NEW": "a=b", "PATH": "/x", "EMPTY": ""} {
		if v, ok := env(p, name); !ok || v != want {
			t.Errorf("--env %s = %q, %t, want %q", name, v, ok, want)
		}
	}
	if _, ok := env(p, "UNSET"); ok {
		t.Error("--env made a variable that the caller does not have")
	}
	for _, bad := range []string{"", "=x", "A\x00=b", "DSHX_X=1"} {
		if _, _, err := tryResolve(newFake(nil), Request{Env: []string{bad}}); err == nil {
			t.Errorf("--env %q was accepted", bad)
		}
	}

	p, _ = resolve(t, newFake(nil), Request{Preset: "danger-full-access", Environ: caller})
	for _, kv := range caller {
		name, _, _ := strings.Cut(kv, "=")
		if want := !strings.HasPrefix(kv, "DSHX_") && name != "" && strings.Contains(kv, "=") && kv != "CC=second"; slices.Contains(p.Environ(), kv) != want {
			t.Errorf("danger-full-access: %s passed=%t, want %t", kv, !want, want)
		}
	}
	if v, _ := env(p, "TMPDIR"); v != "/o/x" {
		t.Errorf("danger-full-access set TMPDIR=%s", v)
	}
}

func TestEnviron_Caches(t *testing.T) {
	f := newFake(map[string]string{"/home/u/go/pkg/mod": "dir", "/home/u/.cargo": "dir"})
	p, _ := resolve(t, f, Request{})
	c := p.CacheDir()
	if !strings.HasPrefix(c, "/home/u/.cache/dshx/ws") {
		t.Fatalf("cache area %q", c)
	}
	wantVerdict(t, p, OpWrite, c+"/go-build/x", true, "cache area")
	for _, n := range []string{"XDG_CACHE_HOME", "GOCACHE", "npm_config_cache", "PIP_CACHE_DIR", "UV_CACHE_DIR", "GRADLE_USER_HOME"} {
		if v, _ := env(p, n); !within(v, c) {
			t.Errorf("%s=%s is not in the cache area", n, v)
		}
	}
	for _, n := range []string{"GOMODCACHE", "CARGO_HOME", "GOPROXY"} {
		if v, ok := env(p, n); ok {
			t.Errorf("%s=%s though there is one already", n, v)
		}
	}
	online, _ := resolve(t, f, Request{Network: NetworkFull, Environ: append([]string{"GOPROXY=off"}, baseEnv...)})
	if v, _ := env(online, "GOPROXY"); v != "file:///home/u/go/pkg/mod/cache/download,off" {
		t.Errorf("GOPROXY=%s", v)
	}
	for _, n := range []string{"GOMODCACHE", "CARGO_HOME"} {
		if v, _ := env(online, n); !within(v, c) {
			t.Errorf("%s=%s is not in the cache area", n, v)
		}
	}
	fresh, _ := resolve(t, newFake(nil), Request{})
	for _, n := range []string{"GOMODCACHE", "CARGO_HOME"} {
		if v, _ := env(fresh, n); !within(v, fresh.CacheDir()) {
			t.Errorf("%s=%s is not in the cache area", n, v)
		}
	}
	ro, _ := resolve(t, f, Request{Preset: "read-only"})
	if ro.CacheDir() != "" {
		t.Errorf("read-only has the cache area %s", ro.CacheDir())
	}
	for _, n := range []string{"XDG_CACHE_HOME", "GOCACHE"} {
		if v, _ := env(ro, n); !within(v, fakeTmp) {
			t.Errorf("read-only: %s=%s is not in TMPDIR", n, v)
		}
	}
	f.put("/home/u/w2", "dir")
	other, _ := resolve(t, f, Request{Workspace: "/home/u/w2"})
	if other.CacheDir() == c {
		t.Error("two workspaces share a cache area")
	}
}

func TestEnviron_PathAndPwd(t *testing.T) {
	f := newFake(map[string]string{"/l": "link:/home/u/w"})
	p, _ := resolve(t, f, Request{Environ: []string{"HOME=/home/u", "PWD=/l"}})
	if v, _ := env(p, "PATH"); v != defaultPath {
		t.Errorf("PATH=%s", v)
	}
	if v, _ := env(p, "PWD"); v != "/l" {
		t.Errorf("PWD=%s, want the caller's name of the directory", v)
	}
	p, _ = resolve(t, f, Request{Environ: []string{"HOME=/home/u", "PWD=/l"}, Cwd: "/tmp"})
	if v, _ := env(p, "PWD"); v != "/tmp" {
		t.Errorf("PWD=%s, want the directory the command starts in", v)
	}
}

func TestSecretName(t *testing.T) {
	for _, s := range []string{"GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "X_API_KEY", "OPENAI_API_KEY", "PGPASSWORD", "MYSQL_PWD", "DB_PASS", "npm_config__authToken",
		"COMPOSER_AUTH", "MY_CREDENTIALS", "SESSION_COOKIE", "APIKEY", "access_token", "SSH_AUTH_SOCK", "GPG-KEY"} {
		if !SecretName(s) {
			t.Errorf("%s passes", s)
		}
	}
	for _, s := range []string{"PATH", "PWD", "OLDPWD", "GOPRIVATE", "KEYBOARD", "TOKENIZERS_PARALLELISM", "LS_COLORS", "XDG_SESSION_ID", "AUTHOR", "GIT_AUTHOR_NAME", "PYTHONPATH", "MONKEY", ""} {
		if SecretName(s) {
			t.Errorf("%s counts as a secret", s)
		}
	}
	for _, n := range envNames {
		if n = strings.TrimSuffix(n, "*"); SecretName(n) {
			t.Errorf("%s is on the allow-list and looks secret", n)
		}
	}
}

func TestSecretValue(t *testing.T) {
	for _, s := range []string{"ghp_0123456789abcdefghij", "x github_pat_0123456789abc y", "sk-proj-0123456789abcdef", "AKIAIOSFODNN7EXAMPLE", "xoxb-123456789",
		"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.x", "-----BEGIN OPENSSH PRIVATE KEY-----", "postgres://u:p@h/db", "https://token@h/", "a,https://u:p@h", "a=http://x http://u:p@h"} {
		if !SecretValue(s) {
			t.Errorf("%q passes", s)
		}
	}
	for _, s := range []string{"", "/usr/bin:/bin", "https://proxy.example,direct", "ssh://git@h/x", "task-0123456789abcdefghij", "https://h/a@b", "C.UTF-8", "sk-", "disk-0123456789012345678", "http://127.0.0.1:8080"} {
		if SecretValue(s) {
			t.Errorf("%q counts as a secret", s)
		}
	}
}
