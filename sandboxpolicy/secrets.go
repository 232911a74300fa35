package sandboxpolicy

const (
	homePrefix   = "secret ~"
	systemPrefix = "secret "
)

// homeSecrets are the credentials and histories below a home directory, as
// the texts of their rules, so that none has to be made at run time. An
// entry that ends in "*" is a pattern in its one directory.
var homeSecrets = [...]string{
	// Keys and credentials.
	"secret ~/.ssh", "secret ~/.gnupg", "secret ~/.aws", "secret ~/.azure", "secret ~/.kube", "secret ~/.oci", "secret ~/.password-store", "secret ~/.vault-token",
	"secret ~/.docker/config.json", "secret ~/.netrc", "secret ~/.npmrc", "secret ~/.pypirc", "secret ~/.git-credentials", "secret ~/.pgpass", "secret ~/.my.cnf", "secret ~/.mylogin.cnf",
	"secret ~/.s3cfg", "secret ~/.boto", "secret ~/.terraform.d/credentials.tfrc.json", "secret ~/.gem/credentials", "secret ~/.composer/auth.json",
	"secret ~/.cargo/credentials*", "secret ~/.m2/settings.xml", "secret ~/.m2/settings-security.xml", "secret ~/.gradle/gradle.properties",
	"secret ~/.local/share/keyrings", "secret ~/.local/share/kwalletd", "secret ~/.codex/auth.json", "secret ~/.claude/.credentials.json",
	"secret ~/.config/gcloud", "secret ~/.config/gh", "secret ~/.config/glab-cli", "secret ~/.config/git/credentials", "secret ~/.config/containers/auth.json",
	"secret ~/.config/rclone", "secret ~/.config/op", "secret ~/.config/doctl", "secret ~/.config/composer/auth.json", "secret ~/.config/github-copilot",
	"secret ~/.config/sops",
	// Whoever has it may do what every session of dshx serve --http may.
	"secret ~/.config/dshx/http-token",
	// Profiles of browsers and mail programs: cookies, passwords, tokens.
	"secret ~/.mozilla", "secret ~/.thunderbird", "secret ~/.librewolf", "secret ~/.config/mozilla", "secret ~/.config/google-chrome", "secret ~/.config/google-chrome-beta",
	"secret ~/.config/google-chrome-unstable", "secret ~/.config/chromium", "secret ~/.config/BraveSoftware", "secret ~/.config/microsoft-edge",
	"secret ~/.config/opera", "secret ~/.config/vivaldi", "secret ~/snap/firefox", "secret ~/snap/chromium", "secret ~/snap/thunderbird",
	"secret ~/.var/app/org.mozilla.firefox", "secret ~/.var/app/org.mozilla.Thunderbird", "secret ~/.var/app/org.chromium.Chromium",
	"secret ~/.var/app/com.google.Chrome", "secret ~/.var/app/com.brave.Browser", "secret ~/.var/app/com.microsoft.Edge",
	"secret ~/.var/app/com.opera.Opera", "secret ~/.var/app/com.vivaldi.Vivaldi", "secret ~/.var/app/io.gitlab.librewolf-community",
	// Histories of shells and prompts: people type secrets there.
	"secret ~/.bash_history", "secret ~/.bash_sessions", "secret ~/.zsh_history", "secret ~/.zsh_sessions", "secret ~/.zhistory", "secret ~/.histfile", "secret ~/.sh_history",
	"secret ~/.ash_history", "secret ~/.ksh_history", "secret ~/.history", "secret ~/.python_history", "secret ~/.node_repl_history", "secret ~/.psql_history",
	"secret ~/.mysql_history", "secret ~/.mariadb_history", "secret ~/.sqlite_history", "secret ~/.rediscli_history", "secret ~/.mongodb", "secret ~/.irb_history",
	"secret ~/.local/share/fish/fish_history", "secret ~/.config/nushell/history.txt", "secret ~/.config/nushell/history.sqlite3",
	"secret ~/.local/state/python_history", "secret ~/.config/powershell/PSReadLine", "secret ~/.local/share/powershell/PSReadLine",
}

// systemSecrets are files of the system. An ordinary user can't read them by
// their mode; uid 0 could.
var systemSecrets = [...]string{
	"secret /etc/shadow", "secret /etc/shadow-", "secret /etc/gshadow", "secret /etc/gshadow-", "secret /etc/security/opasswd", "secret /etc/krb5.keytab",
	"secret /etc/ssl/private", "secret /etc/ssh/ssh_host_*_key", "secret /etc/wireguard", "secret /etc/NetworkManager/system-connections",
	"secret /etc/ppp/chap-secrets", "secret /etc/ppp/pap-secrets", "secret /etc/letsencrypt/archive", "secret /etc/letsencrypt/keys",
}

// mountedSecrets are where service managers and containers put secrets.
var mountedSecrets = [...]string{"secret /run/secrets", "secret /run/credentials"}

// secretVars name files or directories that hold secrets, where a caller
// keeps them away from the usual place. sub is what in the directory is
// secret; a list is separated by colons.
var secretVars = [...]struct {
	name, sub string
	list      bool
}{
	{name: "GNUPGHOME"}, {name: "AWS_SHARED_CREDENTIALS_FILE"}, {name: "AWS_CONFIG_FILE"}, {name: "KUBECONFIG", list: true},
	{name: "DOCKER_CONFIG", sub: "config.json"}, {name: "CARGO_HOME", sub: "credentials*"}, {name: "GH_CONFIG_DIR"},
	{name: "CLOUDSDK_CONFIG"}, {name: "AZURE_CONFIG_DIR"}, {name: "PASSWORD_STORE_DIR"}, {name: "NETRC"},
	{name: "NPM_CONFIG_USERCONFIG"}, {name: "npm_config_userconfig"}, {name: "GOOGLE_APPLICATION_CREDENTIALS"},
	{name: "GRADLE_USER_HOME", sub: "gradle.properties"}, {name: "PGPASSFILE"}, {name: "HISTFILE"},
	{name: "XDG_DATA_HOME", sub: "keyrings"}, {name: "XDG_CONFIG_HOME", sub: "dshx/http-token"},
}

// devices are the only ones that exist for a command. /dev/fd and the
// standard streams are links into /proc and need no rule; /dev/shm is memory,
// judged apart.
var devices = [...]string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/ptmx", "/dev/pts"}

// sharedInstalls are below /home, but belong to nobody in particular.
var sharedInstalls = [...]string{"/home/linuxbrew/.linuxbrew"}

// sharedDirs are used as "homes" of accounts without one; as such they hold
// nothing private, and refusing them would break everything else in them.
var sharedDirs = [...]string{"/", "/bin", "/dev", "/etc", "/home", "/lib", "/mnt", "/media", "/nonexistent", "/opt", "/proc",
	"/run", "/sbin", "/srv", "/sys", "/tmp", "/usr", "/usr/bin", "/usr/sbin", "/usr/lib", "/usr/local", "/usr/share",
	"/var", "/var/empty", "/var/lib", "/var/run", "/var/tmp", "/workspace", "/workspaces"}

func isSharedDir(path string) bool {
	for _, d := range sharedDirs {
		if d == path {
			return true
		}
	}
	return false
}
