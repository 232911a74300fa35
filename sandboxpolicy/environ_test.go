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
	if v, _ := env(online, "GOPATH"); v != c+"/go:/home/u/go" {
		t.Errorf("GOPATH=%s", v)
	}
	if v, _ := env(online, "GOBIN"); v != "/home/u/go/bin" {
		t.Errorf("GOBIN=%s", v)
	}
	// What was fetched once is there without the network.
	f = newFake(map[string]string{"/home/u/go/pkg/mod": "dir", "/home/u/.cargo": "dir", c + "/go-mod": "dir", c + "/cargo": "dir"})
	fetched, _ := resolve(t, f, Request{})
	for _, n := range []string{"GOMODCACHE", "CARGO_HOME"} {
		if v, _ := env(fetched, n); !within(v, c) {
			t.Errorf("%s=%s after a fetch", n, v)
		}
	}
	if v, _ := env(fetched, "GOPROXY"); v != "file:///home/u/go/pkg/mod/cache/download,"+defaultGoProxy {
		t.Errorf("GOPROXY=%s after a fetch", v)
	}
	for _, n := range []string{"GOPATH", "GOBIN"} {
		if v, ok := env(fetched, n); ok {
			t.Errorf("%s=%s without the network", n, v)
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

// What a caller's environment may hold, and whether it passes: by the list, and
// with --keep-env.
func TestEnviron_SecretsInValues(t *testing.T) {
	for _, kv := range []string{
		"http_proxy=alice:s3cret@proxy:3128", "HTTPS_PROXY=alice:s3cret@proxy:3128", "all_proxy=token@proxy", "npm_config_https_proxy=alice:s3cret@proxy", "HTTP_PROXY=//u:p@h",
		"PIP_INDEX_URL=https://u:a,b@host/", "PIP_INDEX_URL=https://u:a;b@host/", "GOPROXY=https://h,https://u:p@h", "MAVEN_OPTS=-Xmx2g -Djavax.net.ssl.keyStorePassword=xy",
		"JAVA_OPTS=-Dpassword=xy", "GRADLE_OPTS=-Psigning.keyPassword=xy", "PYTEST_ADDOPTS=--token=xy", "MAKEFLAGS= -j4 -- TOKEN=xy", "MFLAGS=-k API_KEY=xy", "GOFLAGS=-ldflags=-X=main.token=xy",
		"DB_PASSWORD2=xy", "HTTP_AUTHORIZATION=Basic xy", "API_KEY1=xy",
	} {
		for _, keep := range []bool{false, true} {
			p, _ := resolve(t, newFake(nil), Request{Environ: append([]string{kv}, baseEnv...), KeepEnv: keep})
			name, _, _ := strings.Cut(kv, "=")
			if v, ok := env(p, name); ok {
				t.Errorf("keep-env %t: %s passed as %q", keep, kv, v)
			}
		}
	}
	for _, kv := range []string{
		"GOFLAGS=-mod=mod", "GOFLAGS=-ldflags=-X=main.version=1", "MAVEN_OPTS=-Xmx2g -Dfile.encoding=UTF-8", "no_proxy=localhost,.example,10.0.0.0/8", "http_proxy=http://proxy:3128",
		"http_proxy=proxy:3128", "HTTPS_PROXY=proxy", "CFLAGS=-O2 -DWITH_AUTH=1 -DKEY_SIZE", "LS_COLORS=rs=0:*.key=01;31", "RUST_LOG=auth=debug,my_token=trace", "EMAIL=me@example.org",
		"GIT_AUTHOR_EMAIL=me@example.org", "JAVA_TOOL_OPTIONS=-agentlib:jdwp=transport=dt_socket,address=*:5005", "NODE_OPTIONS=--max-old-space-size=4096", "MAKEFLAGS= -j4 --jobserver-auth=3,4",
		"MAKEFLAGS= -j4 --jobserver-auth=fifo:/tmp/GMfifo12 -- V=1 CC=gcc", "MAKEFLAGS=w -- DESTDIR=/x KEY=", "CARGO_NET_GIT_FETCH_WITH_CLI=true", "GODEBUG=http2client=0", "PIP_INDEX_URL=https://host/simple",
		"GOPROXY=https://proxy.golang.org,direct",
	} {
		p, _ := resolve(t, newFake(nil), Request{Environ: append([]string{kv}, baseEnv...)})
		if !slices.Contains(p.Environ(), kv) {
			t.Errorf("%s does not pass", kv)
		}
	}
	p, _ := resolve(t, newFake(nil), Request{Environ: append([]string{"SSH_ASKPASS=/usr/bin/x", "AUTHOR_2=x"}, baseEnv...), KeepEnv: true})
	for _, name := range []string{"SSH_ASKPASS", "AUTHOR_2"} {
		if _, ok := env(p, name); !ok {
			t.Errorf("--keep-env dropped %s", name)
		}
	}
}

func TestSecretName(t *testing.T) {
	for _, s := range []string{"GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "X_API_KEY", "OPENAI_API_KEY", "PGPASSWORD", "MYSQL_PWD", "DB_PASS", "npm_config__authToken",
		"COMPOSER_AUTH", "MY_CREDENTIALS", "SESSION_COOKIE", "APIKEY", "access_token", "SSH_AUTH_SOCK", "GPG-KEY",
		"DB_PASSWORD2", "API_KEY_1", "API_KEY1", "TOKEN01", "PASS2", "HTTP_AUTHORIZATION", "PROXY_AUTHORIZATION", "authorization"} {
		if !SecretName(s) {
			t.Errorf("%s passes", s)
		}
	}
	for _, s := range []string{"PATH", "PWD", "OLDPWD", "GOPRIVATE", "KEYBOARD", "TOKENIZERS_PARALLELISM", "LS_COLORS", "XDG_SESSION_ID", "AUTHOR", "GIT_AUTHOR_NAME", "PYTHONPATH", "MONKEY", "",
		"SSH_ASKPASS", "GIT_ASKPASS", "GO111MODULE", "BASE64", "X11", "1", "MONKEY1"} {
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
		"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.x", "-----BEGIN OPENSSH PRIVATE KEY-----", "postgres://u:p@h/db", "https://token@h/", "a,https://u:p@h", "a=http://x http://u:p@h",
		"https://u:a,b@host/", "https://u:a;b@host/", "https://h,https://u:p@h/x",
		"-Dpassword=xy", "-Xmx1g -Djavax.net.ssl.keyStorePassword=xy", "-Dmy.key=xy", "-Psigning.password=xy", "--token=xy", "--db-password2=xy", "a\t--api-key='xy'",
		"\"-Dpassword=xy\"", "'--token=xy'", "-password=xy", "-ldflags=-X=main.token=xy"} {
		if !SecretValue(s) {
			t.Errorf("%q passes", s)
		}
	}
	for _, s := range []string{"", "/usr/bin:/bin", "https://proxy.example,direct", "ssh://git@h/x", "task-0123456789abcdefghij", "https://h/a@b", "C.UTF-8", "sk-", "disk-0123456789012345678", "http://127.0.0.1:8080",
		"user@host", "a:b@c", "-mod=mod", "-Xmx2g -Dfile.encoding=UTF-8", "-O2 -DWITH_AUTH=1 -DUSE_TOKENS=ON -DMAX_KEYS", "-Wl,--as-needed", "-Dhttp.proxyUser=alice", "--no-auth=true", "--token=",
		"--max-old-space-size=4096", "-ldflags=-X=main.version=1.2", "key=value", "rs=0:*.key=01", "-Djdk.http.auth.tunneling.disabledSchemes=\"\"", "-agentlib:jdwp=transport=dt_socket,server=y,address=*:5005",
		"-ffile-prefix-map=/key=/x", "--index=https://h/?key=a", "token --x", "-", "--", "-D", "--=x", "-D=x"} {
		if SecretValue(s) {
			t.Errorf("%q counts as a secret", s)
		}
	}
}
