#!/bin/sh
# scripts/test.sh [GO TEST FLAGS]: all tests of PKGS (./...), skips summed up at the end.
# For root a second pass runs as an ordinary user (DSHX_TEST_USER, default nobody), since
# confinement of uid 0 and of everybody else differ; for others the one pass is theirs.
# ./integration is not in the second pass: as root it runs each of its cases as both.
set -u
cd "$(dirname "$0")/.." || exit 1
PKGS=${PKGS:-./...}

# What make test has just built; without it the tests build it themselves.
if [ -z "${DSHX_BIN-}" ] && [ -x bin/dshx ]; then
	DSHX_BIN=$PWD/bin/dshx
	export DSHX_BIN
fi

# -count=1: a cached pass says nothing about the kernel of today.
status=0
# shellcheck disable=SC2086
if [ "$(id -u)" -eq 0 ]; then
	go run ./internal/testrun -name root -- -count=1 -timeout 20m "$@" $PKGS || status=1
	user=${DSHX_TEST_USER:-nobody}
	second=$(go list $PKGS | grep -v '/integration$')
	if [ -z "$second" ]; then
		echo "./integration has run each case as an ordinary user, too"
	elif id "$user" >/dev/null 2>&1; then
		printf '\nagain as %s, in a copy of the tree\n' "$user"
		go run ./internal/testrun -name "$user" -as "$user" -- -count=1 -timeout 20m "$@" $second || status=1
	else
		echo "skip: the pass as an ordinary user: there is no account \"$user\"; set DSHX_TEST_USER to one"
		[ -z "${DSHX_REQUIRE_KERNEL-}" ] || status=1
	fi
else
	go run ./internal/testrun -name "$(id -un 2>/dev/null || id -u)" -- -count=1 -timeout 20m "$@" $PKGS || status=1
	echo "skip: the pass as root: you are $(id -un 2>/dev/null || id -u)"
fi
exit $status
