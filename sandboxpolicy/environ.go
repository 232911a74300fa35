package sandboxpolicy

import "strings"

// defaultPath is the PATH of a caller that has none.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// defaultGoProxy is what the go command uses where GOPROXY is not set.
const defaultGoProxy = "https://proxy.golang.org,direct"

// envNames are the variables that pass by name: identity, locale, terminal,
// and settings of tools that hold no secret. An entry that ends in "*" is a
// prefix. Every value is still looked at for secrets.
var envNames = [...]string{
	"PATH", "HOME", "USER", "LOGNAME", "SHELL", "HOSTNAME", "PWD",
	"LANG", "LANGUAGE", "LC_*", "TZ", "LOCALE_ARCHIVE",
	"TERM", "TERMINFO", "TERMINFO_DIRS", "TERM_PROGRAM", "TERM_PROGRAM_VERSION", "COLORTERM", "COLORFGBG", "LS_COLORS",
	"NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "COLUMNS", "LINES",
	"CI", "EDITOR", "VISUAL", "PAGER", "MANPAGER", "LESS", "INPUTRC", "SOURCE_DATE_EPOCH", "DEBIAN_FRONTEND",
	"XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CONFIG_DIRS", "XDG_DATA_DIRS",
	"SSL_CERT_FILE", "SSL_CERT_DIR", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "GIT_SSL_CAINFO", "NIX_SSL_CERT_FILE",
	"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy",
	// C and build tools
	"CC", "CXX", "CPP", "LD", "AR", "AS", "NM", "RANLIB", "STRIP", "OBJCOPY", "OBJDUMP", "READELF",
	"CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS", "LDLIBS", "ASFLAGS", "MAKE", "MAKEFLAGS", "MFLAGS", "MAKELEVEL", "ARCH", "CROSS_COMPILE",
	"PKG_CONFIG", "PKG_CONFIG_PATH", "PKG_CONFIG_LIBDIR", "PKG_CONFIG_SYSROOT_DIR", "LD_LIBRARY_PATH", "LIBRARY_PATH", "CPATH",
	"C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "CMAKE_*", "CTEST_*", "NINJA_STATUS", "CONFIG_SITE", "ACLOCAL_PATH",
	"ASAN_OPTIONS", "LSAN_OPTIONS", "MSAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS", "OMP_NUM_THREADS", "RAYON_NUM_THREADS",
	// Go
	"GO111MODULE", "GOAMD64", "GOARCH", "GOARM", "GOARM64", "GOBIN", "GODEBUG", "GOENV", "GOEXPERIMENT", "GOFLAGS", "GOGC", "GOHOSTARCH",
	"GOHOSTOS", "GOINSECURE", "GOMAXPROCS", "GOMEMLIMIT", "GOMODCACHE", "GONOPROXY", "GONOSUMDB", "GOOS", "GOPATH", "GOPRIVATE",
	"GOPROXY", "GOROOT", "GOSUMDB", "GOTELEMETRY", "GOTOOLCHAIN", "GOTRACEBACK", "GOVCS", "GOWORK", "CGO_*",
	// Rust
	"CARGO_HOME", "CARGO_TARGET_DIR", "CARGO_INCREMENTAL", "CARGO_BUILD_*", "CARGO_NET_*", "CARGO_PROFILE_*", "CARGO_TERM_*",
	"RUSTUP_HOME", "RUSTUP_TOOLCHAIN", "RUSTC", "RUSTC_WRAPPER", "RUSTFLAGS", "RUSTDOCFLAGS", "RUST_BACKTRACE", "RUST_LOG", "RUST_TEST_THREADS",
	// JavaScript
	"NODE_ENV", "NODE_OPTIONS", "NODE_PATH", "NVM_DIR", "NVM_BIN", "VOLTA_HOME", "FNM_DIR", "FNM_MULTISHELL_PATH", "PNPM_HOME",
	"COREPACK_HOME", "BUN_INSTALL", "DENO_DIR", "DENO_INSTALL", "npm_config_*", "NPM_CONFIG_*",
	// Python
	"PYTHON*", "VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "CONDA_EXE", "PYENV_ROOT", "PYENV_VERSION", "PIP_*", "UV_*",
	"PYTEST_ADDOPTS", "TOX_*", "POETRY_VIRTUALENVS_IN_PROJECT",
	// Java, Ruby, Perl, PHP, .NET and others
	"JAVA_HOME", "JAVA_OPTS", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "MAVEN_HOME", "MAVEN_OPTS", "MAVEN_ARGS", "M2_HOME", "GRADLE_HOME",
	"GRADLE_OPTS", "ANT_HOME", "SBT_OPTS", "KOTLIN_HOME", "SCALA_HOME", "ANDROID_HOME", "ANDROID_SDK_ROOT", "ANDROID_NDK_HOME",
	"GEM_HOME", "GEM_PATH", "BUNDLE_PATH", "BUNDLE_GEMFILE", "BUNDLE_WITHOUT", "RBENV_ROOT", "RBENV_VERSION", "RUBYLIB", "RUBYOPT",
	"RAILS_ENV", "RACK_ENV", "PERL5LIB", "PERL5OPT", "PERL_MM_OPT", "PERL_MB_OPT", "PHP_INI_SCAN_DIR",
	"DOTNET_ROOT", "DOTNET_CLI_TELEMETRY_OPTOUT", "DOTNET_NOLOGO", "OPAMROOT", "OPAM_SWITCH_PREFIX", "CAML_LD_LIBRARY_PATH", "OCAML_TOPLEVEL_PATH",
	"GHCUP_INSTALL_BASE_PREFIX", "STACK_ROOT", "CABAL_DIR", "MIX_ENV", "HEX_HOME", "MIX_HOME", "ERL_AFLAGS", "JULIA_DEPOT_PATH",
	"NIX_PATH", "NIX_PROFILES", "ASDF_DIR", "ASDF_DATA_DIR", "MISE_DATA_DIR", "HOMEBREW_PREFIX", "HOMEBREW_CELLAR", "HOMEBREW_REPOSITORY",
	// git
	"GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_AUTHOR_DATE", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL", "GIT_COMMITTER_DATE",
	"GIT_CEILING_DIRECTORIES", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM", "GIT_EDITOR", "GIT_PAGER", "GIT_SEQUENCE_EDITOR",
	"GIT_TERMINAL_PROMPT", "GIT_MERGE_AUTOEDIT", "GIT_DEFAULT_HASH", "GIT_OPTIONAL_LOCKS", "GIT_TRACE", "EMAIL",
}

func envPasses(name string) bool {
	for _, n := range envNames {
		if last := len(n) - 1; n[last] == '*' {
			if strings.HasPrefix(name, n[:last]) {
				return true
			}
		} else if n == name {
			return true
		}
	}
	return false
}

// secretWords are whole words of a variable's name, or the end of one.
var secretWords = [...]string{"TOKEN", "TOKENS", "SECRET", "SECRETS", "PASSWORD", "PASSWORDS", "PASSWD", "PASSPHRASE", "PASSCODE",
	"CREDENTIAL", "CREDENTIALS", "CREDS", "AUTHORIZATION", "APIKEY", "APIKEYS", "BEARER", "COOKIE", "COOKIES", "PRIVATEKEY", "SECRETKEY", "ACCESSKEY"}

// secretWholeWords are too short to be looked for at the end of a word.
var secretWholeWords = [...]string{"KEY", "KEYS", "AUTH", "PASS", "PWD", "PAT", "PIN", "JWT", "DSN"}

// SecretName reports whether a variable's name says that its value is a
// secret. Numbers at the end of a word count for nothing: DB_PASSWORD2. PWD and
// OLDPWD are directories.
func SecretName(name string) bool {
	if name == "PWD" || name == "OLDPWD" {
		return false
	}
	up := strings.ToUpper(name)
	for up != "" {
		var word string
		i := strings.IndexAny(up, "_-.:/")
		if i < 0 {
			word, up = up, ""
		} else {
			word, up = up[:i], up[i+1:]
		}
		word = strings.TrimRight(word, "0123456789")
		for _, w := range secretWholeWords {
			if word == w {
				return true
			}
		}
		for _, w := range secretWords {
			if strings.HasSuffix(word, w) {
				return true
			}
		}
	}
	return false
}

// tokenForm is how a kind of credential begins, and how many characters of a
// token follow at least.
type tokenForm struct {
	prefix string
	min    int
}

var tokenForms = [...]tokenForm{
	{"ghp_", 10}, {"gho_", 10}, {"ghu_", 10}, {"ghs_", 10}, {"ghr_", 10}, {"github_pat_", 10}, {"glpat-", 10}, {"gldt-", 10},
	{"sk-", 16}, {"sk_live_", 10}, {"sk_test_", 10}, {"rk_live_", 10}, {"AKIA", 16}, {"ASIA", 16}, {"AIza", 30},
	{"xoxa-", 8}, {"xoxb-", 8}, {"xoxe-", 8}, {"xoxo-", 8}, {"xoxp-", 8}, {"xoxr-", 8}, {"xoxs-", 8}, {"xapp-", 8},
	{"eyJ", 16}, {"npm_", 30}, {"pypi-", 30}, {"hf_", 20}, {"dop_v1_", 20}, {"SG.", 30}, {"ya29.", 16}, {"AGE-SECRET-KEY-", 10},
}

// secretVariable reports whether a variable's name or value says that it is
// a secret.
func secretVariable(name, v string) bool {
	switch low := strings.ToLower(name); {
	case SecretName(name):
		return true
	case strings.HasSuffix(low, "_proxy"):
		// Written without a scheme it is one of HTTP: curl(1).
		return SecretValue(v) || hasUserinfo("http://"+strings.TrimLeft(v, "/"))
	case name == "MAKEFLAGS" || name == "MFLAGS":
		// make hands on what its command line sets: NAME=VALUE.
		return SecretValue(v) || setsSecret(v, true)
	}
	return SecretValue(v)
}

// SecretValue reports whether a value looks like a credential: a known form
// of token, a PEM block, a URL with a password in it, or an option that by
// its name sets a secret (-Dpassword=…, --token=…).
func SecretValue(v string) bool {
	if strings.Contains(v, "-----BEGIN ") || hasUserinfo(v) || setsSecret(v, false) {
		return true
	}
	for _, f := range tokenForms {
		for at := 0; ; {
			i := strings.Index(v[at:], f.prefix)
			if i < 0 {
				break
			}
			i += at
			at = i + len(f.prefix)
			if i > 0 && isTokenByte(v[i-1]) {
				continue // in the middle of a word: "task-…"
			}
			n := at
			for n < len(v) && (isTokenByte(v[n]) || v[n] == '.') {
				n++
			}
			if n-at >= f.min {
				return true
			}
		}
	}
	return false
}

// setsSecret reports a word such as -Dname=value, -Pname=value or --name=value
// whose name is that of a secret; bare takes name=value for one, too. A name may
// stand in a value: -ldflags=-X=main.token=value.
func setsSecret(v string, bare bool) bool {
	for word := range strings.FieldsSeq(v) {
		word = strings.Trim(word, "\"'")
		set := strings.TrimLeft(word, "-")
		dashes := len(word) - len(set)
		if dashes == 0 && !bare || strings.HasPrefix(set, "jobserver-auth=") {
			continue // the latter is make's own, and names descriptors
		}
		for first := true; ; first = false {
			name, value, ok := strings.Cut(set, "=")
			if !ok {
				break
			}
			set = value
			if name == "" || isSwitch(value) || !first && strings.IndexByte(name, '/') >= 0 {
				continue // a name with a slash in a value is a path
			}
			letter := first && dashes == 1 && name[0] >= 'A' && name[0] <= 'Z' // the D of -Dname
			if SecretName(name) || letter && SecretName(name[1:]) {
				return true
			}
		}
	}
	return false
}

// isSwitch reports a value that is too little to be a secret: -DWITH_AUTH=1.
func isSwitch(v string) bool {
	v = strings.Trim(v, "\"'")
	switch strings.ToLower(v) {
	case "true", "false", "yes", "no", "on", "off":
		return true
	}
	return len(v) <= 1
}

func isTokenByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-'
}

// hasUserinfo reports a URL with a password, or over HTTP with any user: a
// lone name there is a token.
func hasUserinfo(v string) bool {
	for {
		i := strings.Index(v, "://")
		if i < 0 {
			return false
		}
		scheme := v[:i]
		v = v[i+3:]
		auth := v
		if j := strings.IndexAny(auth, "/?# \t\n"); j >= 0 {
			auth = auth[:j]
		}
		at := strings.LastIndexByte(auth, '@')
		if at < 0 {
			continue
		}
		user, pass, ok := strings.Cut(auth[:at], ":")
		if ok && pass != "" {
			return true
		}
		s := strings.ToLower(scheme)
		if user != "" && (strings.HasSuffix(s, "http") || strings.HasSuffix(s, "https")) {
			return true
		}
	}
}

// environment is one under construction; later settings replace earlier.
type environment struct {
	list []string
	at   map[string]int
}

func (e *environment) set(name, value string) {
	kv := name + "=" + value
	if i, ok := e.at[name]; ok {
		e.list[i] = kv
		return
	}
	e.at[name] = len(e.list)
	e.list = append(e.list, kv)
}

func (e *environment) get(name string) (string, bool) {
	i, ok := e.at[name]
	if !ok {
		return "", false
	}
	return e.list[i][len(name)+1:], true
}

// ownVar reports dshx's own variables, which no command sees.
func ownVar(name string) bool { return strings.HasPrefix(name, "DSHX_") }

// addEnv makes the child's environment: what passes, TMPDIR and caches, and
// last what a person named.
func (b *builder) addEnv() error {
	p := b.p
	e := &environment{list: make([]string, 0, 48), at: make(map[string]int, 64)}
	for _, kv := range b.req.Environ {
		name, val, ok := strings.Cut(kv, "=")
		if !ok || name == "" || ownVar(name) {
			continue
		}
		if _, dup := e.at[name]; dup {
			continue // getenv(3) finds the first
		}
		if p.mode != modeFull {
			if !b.req.KeepEnv && !envPasses(name) || secretVariable(name, val) {
				continue
			}
		}
		e.set(name, val)
	}
	if p.mode != modeFull {
		b.setDirs(e)
	}
	for _, l := range b.layers() {
		for _, v := range l.env {
			if err := b.nameEnv(e, v.s, b.user.origin(v.line)); err != "" {
				return b.user.errorAt(v, err, "NAME or NAME=VALUE")
			}
		}
	}
	for _, s := range b.req.Env {
		if err := b.nameEnv(e, s, originFlag); err != "" {
			return &UsageError{"--env", err}
		}
	}
	p.environ, p.caller = e.list, b.req.Environ
	return nil
}

func envName(s string) string {
	name, _, _ := strings.Cut(s, "=")
	return name
}

// checkEnv is the problem with NAME or NAME=VALUE, or "".
func checkEnv(s string) string {
	name := envName(s)
	switch {
	case name == "":
		return "the variable has no name"
	case strings.IndexByte(s, 0) >= 0:
		return "the variable holds a NUL byte"
	case ownVar(name):
		return quote(name) + " is dshx's own and never passed on"
	}
	return ""
}

// nameEnv adds what a person named. The value is not shown anywhere: it may
// be a secret, passed on purpose.
func (b *builder) nameEnv(e *environment, s, origin string) string {
	if problem := checkEnv(s); problem != "" {
		return problem
	}
	name, val, given := strings.Cut(s, "=")
	if !given {
		found := false
		for _, kv := range b.req.Environ {
			if n, v, ok := strings.Cut(kv, "="); ok && n == name {
				val, found = v, true
				break
			}
		}
		if !found {
			return ""
		}
	}
	e.set(name, val)
	b.p.named = append(b.p.named, name+"="+val)
	b.p.envRule = append(b.p.envRule, originString{name, origin})
	return ""
}

// setDirs points temporary files and caches at what may be written, so that
// tools work without being told.
func (b *builder) setDirs(e *environment) {
	p := b.p
	if v, _ := e.get("PATH"); v == "" {
		e.set("PATH", defaultPath)
	}
	if v, _ := e.get("HOME"); v == "" && p.home != "" {
		e.set("HOME", p.home)
	}
	// A PWD that names another directory than the command's would be a lie
	// to those that trust it without looking.
	if v, ok := e.get("PWD"); ok {
		real, _, err := b.r.real(v)
		if err != nil || v == "" || v[0] != '/' || real != p.cwd {
			e.set("PWD", p.cwd)
		}
	}
	if p.tmp != "" {
		for _, n := range [...]string{"TMPDIR", "TMP", "TEMP"} {
			e.set(n, p.tmp)
		}
		e.set("TMPPREFIX", p.tmp+"/zsh") // zsh knows no TMPDIR: zshparam(1)
	}
	dir := p.cache
	if dir == "" {
		if p.tmp == "" {
			return
		}
		dir = join(p.tmp, "cache")
	}
	cargo := b.toolHome("CARGO_HOME", ".cargo")
	gopath, _, _ := strings.Cut(b.env("GOPATH"), ":")
	if gopath == "" && p.home != "" {
		gopath = join(p.home, "go")
	}
	mods := b.env("GOMODCACHE")
	if mods == "" && gopath != "" {
		mods = join(gopath, "pkg/mod")
	}
	e.set("XDG_CACHE_HOME", dir)
	for _, c := range [...][2]string{
		{"GOCACHE", "go-build"}, {"npm_config_cache", "npm"}, {"PIP_CACHE_DIR", "pip"}, {"UV_CACHE_DIR", "uv"},
		{"GRADLE_USER_HOME", "gradle"}, {"YARN_CACHE_FOLDER", "yarn"}, {"BUN_INSTALL_CACHE_DIR", "bun"},
		{"CCACHE_DIR", "ccache"}, {"COMPOSER_CACHE_DIR", "composer"},
	} {
		e.set(c[0], dir+"/"+c[1])
	}
	e.set("npm_config_update_notifier", "false")

	// What a person has downloaded before is used where it is, read-only. With
	// the network on new downloads need a place of their own, and from then on
	// that is the one: what was fetched once is there without the network, too.
	// The go command takes what the person has from there, as its first proxy.
	online := p.network == NetworkFull
	own := func(name, place string, theirs bool) bool {
		if theirs && !online && !b.isDir(place) {
			return false
		}
		e.set(name, place)
		return true
	}
	own("CARGO_HOME", dir+"/cargo", b.isDir(cargo))
	if theirs := b.isDir(mods); own("GOMODCACHE", dir+"/go-mod", theirs) && theirs {
		proxy, ok := e.get("GOPROXY")
		if !ok || proxy == "" {
			proxy = defaultGoProxy
		}
		e.set("GOPROXY", "file://"+escapePath(mods)+"/cache/download,"+proxy)
	}
	if online {
		// The go command writes down what it knows of the checksum database below
		// the first of GOPATH, and fails where it can't. Programs are installed
		// where they would be without that.
		if v, _ := e.get("GOBIN"); v == "" && gopath != "" {
			e.set("GOBIN", join(gopath, "bin"))
		}
		e.set("GOPATH", strings.TrimSuffix(dir+"/go:"+gopath, ":"))
	}
}

// toolHome is a tool's directory as the caller's environment has it.
func (b *builder) toolHome(name, sub string) string {
	if v := b.env(name); v != "" {
		return v
	}
	if b.p.home == "" {
		return ""
	}
	return join(b.p.home, sub)
}

func (b *builder) isDir(path string) bool {
	if path == "" || path[0] != '/' {
		return false
	}
	real, kind, err := b.r.real(path)
	return err == nil && kind == entryDir && b.p.denying(real, Read) == nil
}

// escapePath makes a path fit into a file URL.
func escapePath(path string) string {
	const hex = "0123456789ABCDEF"
	var out strings.Builder
	for i := 0; i < len(path); i++ {
		c := path[i]
		if c == '/' || c == '.' || c == '~' || isTokenByte(c) {
			out.WriteByte(c)
			continue
		}
		out.WriteByte('%')
		out.WriteByte(hex[c>>4])
		out.WriteByte(hex[c&15])
	}
	return out.String()
}
