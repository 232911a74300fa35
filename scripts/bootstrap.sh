#!/bin/sh
# Makes sure that the tools a make target needs are on this machine.
#
#   scripts/bootstrap.sh GROUP...     build test demo race lint libseccomp bench
#
# What is there already is left alone. What is missing is installed with apt-get,
# dnf, apk or pacman: directly for root, through sudo for everybody else. A required
# tool that cannot be had ends the script with one sentence and status 1; an optional
# one is a printed "skip" line, and the tests that would have used it say so again.
#
# DSHX_INSTALL=no   check only, install nothing
set -u

say() { printf 'bootstrap: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }

cd "$(dirname "$0")/.." || exit 1

# ---- the package manager -----------------------------------------------------
# The first one found decides. dnf before apt: a Fedora may carry apt for building
# Debian packages, hardly ever the other way round. pacman last: the name is a game's, too.
manager=
for m in dnf apt-get apk pacman; do
	if have "$m"; then manager=$m; break; fi
done

# pick APT DNF APK PACMAN: the package names of this machine's manager
pick() {
	case $manager in
	apt-get) echo "$1" ;;
	dnf) echo "$2" ;;
	apk) echo "$3" ;;
	pacman) echo "$4" ;;
	esac
}

# ---- probes: each says by its status whether the tool is usable ----------------
has_cc() {
	have cc || return 1
	# A compiler without the C library's headers is a common half-installation.
	probe=$(mktemp) || return 1
	printf '#include <stdio.h>\nint main(void) { return puts("") < 0; }\n' |
		cc -x c -o "$probe" - 2>/dev/null
	status=$?
	rm -f "$probe"
	return "$status"
}
# busybox has an unshare without --kill-child, which the attack tests rely on.
has_unshare() { have unshare && unshare --help 2>&1 | grep -q -e --kill-child; }
has_libseccomp() {
	probe=$(mktemp) || return 1
	printf '#include <seccomp.h>\nint main(void) { seccomp_release(seccomp_init(SCMP_ACT_ALLOW)); return 0; }\n' |
		cc -x c -o "$probe" - -lseccomp 2>/dev/null
	status=$?
	rm -f "$probe"
	return "$status"
}

# ---- what each group needs -----------------------------------------------------
# Lines "NAME|PROBE|PACKAGES" of what turned out to be missing.
required=''
optional=''

need() { add required "$@"; }
want() { add optional "$@"; }
# add LIST NAME PROBE APT DNF APK PACMAN; a PROBE that begins with has_ is a function
# above, any other the name of the program to look for
add() {
	list=$1 name=$2 probe_cmd=$3
	shift 3
	case $probe_cmd in has_*) ;; *) probe_cmd="have $probe_cmd" ;; esac
	$probe_cmd && return 0
	# shellcheck disable=SC2034 # eval below uses it
	line="$name|$probe_cmd|$(pick "$@")"
	eval "case \$$list in *\"\$line\"*) ;; *) $list=\"\$$list\$line
\" ;; esac"
}

# Debian has the module without what it unpacks, Fedora and Arch have both with python3.
has_venv() { have python3 && python3 -c 'import venv, ensurepip' 2>/dev/null; }
has_lua() { have lua || have lua5.4 || have lua5.3 || have lua5.1 || have luajit; }
has_cacerts() {
	for f in /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt /etc/ssl/cert.pem; do
		[ -s "$f" ] && return 0
	done
	return 1
}

check_go() {
	have go || die "Go is missing: install Go $wanted_go or later from https://go.dev/dl, put its bin folder into PATH and run this again."
	if ! found=$(go env GOVERSION 2>&1); then
		die "go does not work here: $found"
	fi
	number=${found#go}
	major=${number%%.*}
	minor=${number#*.}
	minor=${minor%%[!0-9]*}
	if [ "$major" -lt "${wanted_go%%.*}" ] || { [ "$major" -eq "${wanted_go%%.*}" ] && [ "$minor" -lt "${wanted_go#*.}" ]; }; then
		die "Go is too old: $(command -v go) is $found and dshx needs $wanted_go; install it from https://go.dev/dl."
	fi
}
wanted_go=$(sed -n 's/^go \([0-9]*\.[0-9]*\).*/\1/p' go.mod)

group_build() {
	check_go
	# Modules come over TLS; a bare container may have no roots at all.
	want certificates has_cacerts ca-certificates ca-certificates ca-certificates ca-certificates
}
group_demo() {
	group_build
	need git git git git git git
	need make make make make make make
	need cc has_cc "gcc libc6-dev" "gcc glibc-devel" "gcc musl-dev" "gcc glibc"
}
# What daily work is tested with: each is run inside as a person would, where it is there.
# Node, Rust, PostgreSQL and Emacs are used as well, but are too large to be installed for it.
group_test() {
	group_demo
	need unshare has_unshare util-linux util-linux util-linux util-linux
	need bash bash bash bash bash bash
	want g++ g++ g++ gcc-c++ g++ gcc
	want cmake cmake cmake cmake cmake cmake
	want ninja ninja ninja-build ninja-build ninja-build ninja
	want gdb gdb gdb gdb gdb gdb
	want strace strace strace strace strace strace
	want valgrind valgrind valgrind valgrind valgrind valgrind
	want python3 python3 python3 python3 python3 python
	want venv has_venv python3-venv python3-libs python3 python
	want sqlite3 sqlite3 sqlite3 sqlite sqlite sqlite
	want zsh zsh zsh zsh zsh zsh
	want fish fish fish fish fish fish
	want rsync rsync rsync rsync rsync rsync
	want setfacl setfacl acl acl acl acl
	want setfattr setfattr attr attr attr attr
	want chattr chattr e2fsprogs e2fsprogs e2fsprogs-extra e2fsprogs
	want patch patch patch patch patch patch
	want zip zip zip zip zip zip
	want unzip unzip unzip unzip unzip unzip
	want xz xz xz-utils xz xz xz
	want lsof lsof lsof lsof lsof lsof
	want ps ps procps procps-ng procps procps-ng
	want ssh-keygen ssh-keygen openssh-client openssh openssh-keygen openssh
	want ssh-agent ssh-agent openssh-client openssh-clients openssh-client-default openssh
	want gpg gpg gnupg gnupg2 gnupg gnupg
	want sudo sudo sudo sudo sudo sudo
	want lua has_lua lua5.4 lua lua5.4 lua
}
group_race() { group_test; }
group_lint() { group_build; }
group_libseccomp() {
	group_demo
	want libseccomp has_libseccomp libseccomp-dev libseccomp-devel libseccomp-dev libseccomp
}
group_bench() {
	group_test
	want bwrap bwrap bubblewrap bubblewrap bubblewrap bubblewrap
	want npm npm npm npm npm npm
}

[ $# -gt 0 ] || die "usage: scripts/bootstrap.sh build|test|demo|race|lint|libseccomp|bench ..."
for group; do
	case $group in
	build | test | demo | race | lint | libseccomp | bench) "group_$group" ;;
	*) die "no group \"$group\": build, test, demo, race, lint, libseccomp or bench" ;;
	esac
done
[ -n "$required$optional" ] || exit 0

# ---- install ---------------------------------------------------------------------
names() { printf '%s' "$1" | cut -d'|' -f1 | tr '\n' ' ' | sed 's/ $//'; }
packages() { printf '%s' "$1" | cut -d'|' -f3 | tr '\n' ' ' | sed 's/ $//'; }

install_command() {
	case $manager in
	apt-get) echo "apt-get install -y --no-install-recommends" ;;
	dnf) echo "dnf install -y" ;;
	apk) echo "apk add" ;;
	pacman) echo "pacman -S --needed --noconfirm" ;;
	esac
}

# run_install PACKAGE...: status of the package manager; its words go to a log
refreshed=
run_install() {
	if [ -z "$refreshed" ]; then
		refreshed=yes
		# A fresh image has no package lists, or lists that name files no longer served.
		# A failure here is not the end: the install itself has the last word.
		case $manager in
		apt-get) $as_root apt-get update >>"$log" 2>&1 ;;
		apk) $as_root apk update >>"$log" 2>&1 ;;
		pacman) $as_root pacman -Sy >>"$log" 2>&1 ;;
		esac
	fi
	say "installing $* ($(install_command))"
	# shellcheck disable=SC2046,SC2086
	DEBIAN_FRONTEND=noninteractive $as_root $(install_command) "$@" >>"$log" 2>&1 </dev/null
}

as_root=
cannot=
if [ "${DSHX_INSTALL-}" = no ]; then
	cannot="DSHX_INSTALL=no forbids installing"
elif [ -z "$manager" ]; then
	cannot="none of apt-get, dnf, apk and pacman is on this machine"
elif [ "$(id -u)" -ne 0 ]; then
	if ! have sudo; then
		cannot="you are not root and there is no sudo"
	elif sudo -n true 2>/dev/null; then
		as_root="sudo -n"
	elif [ -t 0 ] && [ -t 2 ]; then
		as_root=sudo
	else
		cannot="you are not root and sudo wants a password"
	fi
fi

by_hand() { # LIST
	if [ -n "$manager" ]; then
		echo "as root: $(install_command) $(packages "$1")"
	else
		echo "install them by hand"
	fi
}

if [ -n "$cannot" ]; then
	[ -z "$optional" ] || say "skip: without $(names "$optional") some tests will be skipped ($cannot; $(by_hand "$optional"))"
	[ -z "$required" ] || die "missing: $(names "$required"); $cannot; $(by_hand "$required")"
	exit 0
fi

log=$(mktemp) || die "no temporary file can be made in ${TMPDIR:-/tmp}"
trap 'rm -f "$log"' EXIT

if [ -n "$required" ]; then
	# shellcheck disable=SC2046
	if ! run_install $(packages "$required"); then
		die "cannot install $(names "$required"): $manager said: $(grep -v '^$' "$log" | tail -n 1); do it by hand ($(by_hand "$required"))"
	fi
	hash -r
	printf '%s' "$required" | while IFS='|' read -r name probe_cmd pkgs; do
		$probe_cmd || die "$name still does not work after installing $pkgs; mend it by hand and run this again"
	done || exit 1
fi

# missing LIST: its lines whose tool does not work yet
missing() {
	printf '%s' "$1" | while IFS='|' read -r name probe_cmd pkgs; do
		$probe_cmd || printf '%s|%s|%s\n' "$name" "$probe_cmd" "$pkgs"
	done
}

# All in one go, which is fast; then what is still missing one at a time, since a package
# that this distribution lacks must not cost the others.
if [ -n "$optional" ]; then
	# shellcheck disable=SC2046
	run_install $(packages "$optional")
	hash -r
	missing "$optional" | while IFS='|' read -r name probe_cmd pkgs; do
		# shellcheck disable=SC2086
		if ! run_install $pkgs; then
			say "skip: $name is not to be had here ($manager said: $(grep -v '^$' "$log" | tail -n 1)); tests that use it will be skipped"
		elif hash -r && ! $probe_cmd; then
			say "skip: $name does not work after installing $pkgs; tests that use it will be skipped"
		fi
	done
fi
exit 0
