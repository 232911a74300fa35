#!/bin/sh
# The demonstration behind make demo: real work that succeeds under a policy, then attacks
# that the kernel refuses, each beside a control that shows the attack is real. Every
# statement is checked; the script fails when an attack succeeds or a control fails.
#
# It works on throw-away folders only, and ends only processes that it started.
set -u
cd "$(dirname "$0")/.." || exit 1
repo=$PWD
dshx=$repo/bin/dshx
# The make around this one must not talk to the make inside.
unset MAKEFLAGS MFLAGS MAKELEVEL GNUMAKEFLAGS

if [ -t 1 ] && [ -z "${NO_COLOR-}" ]; then
	bold=$(printf '\033[1m') dim=$(printf '\033[2m') red=$(printf '\033[31m') green=$(printf '\033[32m') off=$(printf '\033[0m')
else
	bold='' dim='' red='' green='' off=''
fi
heading() { printf '\n%s== %s%s\n' "$bold" "$*" "$off"; }
say() { printf '%s\n' "$*"; }
failures=0
checks=0
good() { checks=$((checks + 1)); printf '   %sok%s  %s\n' "$green" "$off" "$*"; }
bad() { checks=$((checks + 1)); failures=$((failures + 1)); printf '   %sWRONG%s  %s\n' "$red" "$off" "$*"; }
show() { # COMMAND...: as a person would type it
	printf ' %s$ %s%s\n' "$bold" "$(printf '%s' "$*" | sed -e "s|$dshx|dshx|g" -e "s|$stage/||g" -e "s|$stage|.|g")" "$off"
}
indent() { sed -e "s|^|      $dim|" -e "s|\$|$off|" "$1"; }

if [ ! -x "$dshx" ]; then
	echo "demo: there is no bin/dshx; run make demo, which builds it" >&2
	exit 1
fi

# ---- the stage -----------------------------------------------------------------
stage=$(mktemp -d "${TMPDIR:-/tmp}/dshx-demo.XXXXXX") || exit 1
stage=$(cd "$stage" && pwd -P)
pids=
finish() {
	for pid in $pids; do kill "$pid" 2>/dev/null; done
	chmod -R u+w "$stage" 2>/dev/null
	rm -rf "$stage"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

helper=$stage/helper
CGO_ENABLED=0 go build -o "$helper" ./demo/helper || exit 1

mkdir -p "$stage/home/.ssh" "$stage/app" "$stage/outside"
cp -r demo/go demo/c "$stage/app/"
echo 'not a real key, but as secret as one' >"$stage/home/.ssh/id_demo"
chmod 600 "$stage/home/.ssh/id_demo"
printf '[user]\n\tname = Demo\n\temail = demo@example.com\n[init]\n\tdefaultBranch = main\n' >"$stage/home/.gitconfig"
echo 'a file outside the workspace' >"$stage/outside/file"
chmod 644 "$stage/outside/file"
# A home of its own: the demonstration neither touches nor shows yours.
export HOME="$stage/home" XDG_CACHE_HOME="$stage/home/.cache" XDG_CONFIG_HOME="$stage/home/.config"
export GOFLAGS=-buildvcs=false
cd "$stage/app" || exit 1

# start LOG COMMAND...: a process outside the sandbox, ended with the script
start() {
	log=$1
	shift
	"$@" >"$log" 2>&1 </dev/null &
	pids="$pids $!"
}
# wait_for FILE: until a process that was just started says it is ready, 10 s at most
wait_for() {
	tries=0
	while [ ! -e "$1" ]; do
		tries=$((tries + 1))
		[ $tries -le 100 ] || { echo "demo: a helper process did not start" >&2; exit 1; }
		sleep 0.1
	done
}
connections() { grep -c connection "$1"; }

out=$stage/out
# inside STATUS COMMAND...: run it under the policy, show what it said, check how it ended
inside() {
	want=$1
	shift
	show "dshx exec -- $*"
	"$dshx" exec -- "$@" >"$out" 2>&1 </dev/null
	got=$?
	indent "$out"
	if [ "$want" = refused ]; then
		# 125 would mean that dshx failed and the command never ran.
		if [ $got -ne 0 ] && [ $got -ne 125 ] && [ $got -ne 127 ]; then good "refused inside (status $got)"; else bad "not refused: status $got"; fi
	elif [ $got -eq "$want" ]; then
		good "status $got"
	else
		bad "status $got instead of $want"
	fi
}
# control WHAT COMMAND...: the same thing outside the sandbox works
control() {
	what=$1
	shift
	if "$@" >"$out" 2>&1 </dev/null; then good "control: $what"; else bad "control failed: $what: $(cat "$out")"; fi
}
# holds WHAT COMMAND...: a fact about the world
holds() {
	what=$1
	shift
	if "$@" >/dev/null 2>&1; then good "$what"; else bad "not so: $what"; fi
}

printf '%sdshx %s%s on Linux %s, as %s\n' "$bold" "$("$dshx" version | awk 'NR == 1 { print $2 }')" "$off" "$(uname -r)" "$(id -un 2>/dev/null || id -u)"
say "Everything happens in $stage, which is removed at the end."
say "Policy: workspace-write, the default. The workspace is ./app."

# ---- what works ------------------------------------------------------------------
heading "Work goes on: a Go module, tested inside"
say "The tests write, rename and change modes; the build cache is dshx's own, for this workspace."
cd go || exit 1
inside 0 go test ./...
cd ..

heading "A C library, built and tested inside"
inside 0 make -C c test
holds "the build's result is in the workspace" test -f c/libring.a

heading "A git repository, born and committed to inside"
inside 0 git init --quiet .
inside 0 git add .
inside 0 git commit --quiet -m "First commit"
inside 0 git log --oneline
holds "git outside agrees that the repository is sound" git -c safe.directory='*' fsck --strict

# ---- what does not ---------------------------------------------------------------
heading "Attack: write outside the workspace"
inside refused "$helper" write "$stage/outside/file"
holds "the file is as it was" test "$(cat "$stage/outside/file")" = "a file outside the workspace"
inside 0 "$helper" write "$stage/app/file"
control "outside the sandbox the same program writes it" "$helper" write "$stage/outside/file"

heading "Attack: read a private key"
inside refused "$helper" read "$stage/home/.ssh/id_demo"
holds "nothing of the key was printed" sh -c "! grep -q secret '$out'"
inside 0 "$helper" read "$stage/home/.gitconfig"
control "outside the sandbox the same program reads it" "$helper" read "$stage/home/.ssh/id_demo"

heading "Attack: change the mode of a file outside"
inside refused "$helper" chmod 777 "$stage/outside/file"
holds "the mode is as it was" test -n "$(find "$stage/outside/file" -perm 644)"
inside 0 "$helper" chmod 600 "$stage/app/file"
control "outside the sandbox the same program changes it" "$helper" chmod 640 "$stage/outside/file"

heading "Attack: end a process outside"
sleep 600 &
victim=$!
pids="$pids $victim"
inside refused "$helper" kill $victim
holds "the process lives" kill -0 $victim
# shellcheck disable=SC2016 # the shell inside expands it
inside 143 sh -c 'exec "$0" kill $$' "$helper"
control "outside the sandbox the same program ends it" "$helper" kill $victim

heading "Attack: talk to a socket of the host"
start "$stage/unix.out" "$helper" listen unix "$stage/outside/socket" "$stage/outside/unix"
wait_for "$stage/outside/unix.address"
inside refused "$helper" connect unix "$stage/outside/socket"
holds "the listener outside saw nobody" test "$(connections "$stage/outside/unix")" = 0
control "outside the sandbox the same program connects" "$helper" connect unix "$stage/outside/socket"
# shellcheck disable=SC2016
inside 0 sh -c '"$0" listen unix ./s ./s.log & while [ ! -e ./s.log.address ]; do sleep 0.1; done; "$0" connect unix ./s && kill $!' "$helper"

heading "Attack: open an internet connection"
start "$stage/tcp.out" "$helper" listen tcp 127.0.0.1:0 "$stage/outside/tcp"
wait_for "$stage/outside/tcp.address"
address=$(cat "$stage/outside/tcp.address")
inside refused "$helper" connect tcp "$address"
holds "the listener outside saw nobody" test "$(connections "$stage/outside/tcp")" = 0
control "outside the sandbox the same program connects" "$helper" connect tcp "$address"
show "dshx exec --network loopback -- helper connect tcp $address"
control "with --network loopback it connects, since you said so" "$dshx" exec --network loopback -- "$helper" connect tcp "$address"

# ---- facts, not texts ----------------------------------------------------------------
heading "What was refused, by which rule, and what would allow it"
show "dshx exec --json -- sh -c 'echo x > ../outside/file'"
"$dshx" exec --json -- sh -c "echo x > '$stage/outside/file'" >"$out" 2>&1 </dev/null
if "$helper" denials <"$out" >"$out.denials" 2>&1; then
	indent "$out.denials"
	good "the JSON result names the denial"
else
	indent "$out.denials"
	bad "the JSON result does not name the denial: $(cat "$out")"
fi
explain() { # VERDICT OP TARGET
	show "dshx policy explain $2 $3"
	"$dshx" policy explain "$2" "$3" >"$out" 2>&1
	indent "$out"
	"$dshx" policy explain --check "$2" "$3" >/dev/null 2>&1
	case $? in 0) verdict=allow ;; 1) verdict=deny ;; *) verdict="not given" ;; esac
	if [ "$verdict" = "$1" ]; then good "and that is what happened: $verdict"; else bad "verdict $verdict, but the kernel: $1"; fi
}
explain deny write "$stage/outside/file"
explain deny read "$stage/home/.ssh/id_demo"
explain allow write "$stage/app/file"

heading "Exit statuses: the command's own, and dshx's"
inside 7 sh -c 'exit 7'
# shellcheck disable=SC2016
inside 137 sh -c 'kill -KILL $$'
inside 127 no-such-command
inside 126 ./go/wordcount.go
show "dshx exec --timeout 0.2s -- sleep 60"
"$dshx" exec --timeout 0.2s -- sleep 60 >"$out" 2>&1 </dev/null
got=$?
if [ $got -eq 124 ]; then good "status 124: timed out"; else bad "status $got instead of 124"; fi

heading "What this host can enforce"
show "dshx doctor"
"$dshx" doctor >"$out" 2>&1
got=$?
indent "$out"
if [ $got -eq 0 ]; then good "doctor: status 0"; else bad "doctor: status $got"; fi

heading "What the confinement costs"
true=/bin/true
[ -x $true ] || true=/usr/bin/true
if "$helper" pairs 100 $true -- "$dshx" exec -- $true >"$out" 2>&1; then
	sed "s|$dshx|dshx|" "$out" >"$out.times"
	indent "$out.times"
	good "start, confinement and end of a whole process; make bench measures more"
else
	bad "$(cat "$out")"
fi

printf '\n'
if [ $failures -ne 0 ]; then
	printf '%s%d of %d checks went wrong%s\n' "$red" $failures $checks "$off"
	exit 1
fi
printf '%sall %d checks hold%s\n' "$green" $checks "$off"
