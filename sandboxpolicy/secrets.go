package sandboxpolicy

// homeSecrets are the credentials and histories below a home directory. An
// entry that ends in "*" is a pattern in its one directory.
var homeSecrets = [...]string{
	// Keys and credentials.
	".ssh", ".gnupg", ".aws", ".azure", ".kube", ".oci", ".password-store", ".vault-token",
	".docker/config.json", ".netrc", ".npmrc", ".pypirc", ".git-credentials", ".pgpass", ".my.cnf", ".mylogin.cnf",
	".s3cfg", ".boto", ".terraform.d/credentials.tfrc.json", ".gem/credentials", ".composer/auth.json",
	".cargo/credentials*", ".m2/settings.xml", ".m2/settings-security.xml", ".gradle/gradle.properties",
	".local/share/keyrings", ".local/share/kwalletd", ".codex/auth.json", ".claude/.credentials.json",
	".config/gcloud", ".config/gh", ".config/glab-cli", ".config/git/credentials", ".config/containers/auth.json",
	".config/rclone", ".config/op", ".config/doctl", ".config/composer/auth.json", ".config/github-copilot",
	".config/sops",
	// Profiles of browsers and mail programs: cookies, passwords, tokens.
	".mozilla", ".thunderbird", ".librewolf", ".config/mozilla", ".config/google-chrome", ".config/google-chrome-beta",
	".config/google-chrome-unstable", ".config/chromium", ".config/BraveSoftware", ".config/microsoft-edge",
	".config/opera", ".config/vivaldi", "snap/firefox", "snap/chromium", "snap/thunderbird",
	".var/app/org.mozilla.firefox", ".var/app/org.mozilla.Thunderbird", ".var/app/org.chromium.Chromium",
	".var/app/com.google.Chrome", ".var/app/com.brave.Browser", ".var/app/com.microsoft.Edge",
	".var/app/com.opera.Opera", ".var/app/com.vivaldi.Vivaldi", ".var/app/io.gitlab.librewolf-community",
	// Histories of shells and prompts: people type secrets there.
	".bash_history", ".bash_sessions", ".zsh_history", ".zsh_sessions", ".zhistory", ".histfile", ".sh_history",
	".ash_history", ".ksh_history", ".history", ".python_history", ".node_repl_history", ".psql_history",
	".mysql_history", ".mariadb_history", ".sqlite_history", ".rediscli_history", ".mongodb", ".irb_history",
	".local/share/fish/fish_history", ".config/nushell/history.txt", ".config/nushell/history.sqlite3",
	".local/state/python_history", ".config/powershell/PSReadLine", ".local/share/powershell/PSReadLine",
}

// systemSecrets are files of the system. An ordinary user can't read them by
// their mode; uid 0 could.
var systemSecrets = [...]string{
	"/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/security/opasswd", "/etc/krb5.keytab",
	"/etc/ssl/private", "/etc/ssh/ssh_host_*_key", "/etc/wireguard", "/etc/NetworkManager/system-connections",
	"/etc/ppp/chap-secrets", "/etc/ppp/pap-secrets", "/etc/letsencrypt/archive", "/etc/letsencrypt/keys",
}

// mountedSecrets are where service managers and containers put secrets.
var mountedSecrets = [...]string{"/run/secrets", "/run/credentials"}

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
	{name: "XDG_DATA_HOME", sub: "keyrings"},
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
