#!/bin/sh
# scripts/libseccomp.sh [GO TEST FLAGS]: the generated filters against libseccomp as oracle.
# Needs libseccomp's headers (scripts/bootstrap.sh libseccomp); without them it says so.
set -u
cd "$(dirname "$0")/.." || exit 1
probe=$(mktemp) || exit 1
trap 'rm -f "$probe"' EXIT
if ! printf '#include <seccomp.h>\nint main(void) { seccomp_release(seccomp_init(SCMP_ACT_ALLOW)); return 0; }\n' |
	cc -x c -o "$probe" - -lseccomp 2>/dev/null; then
	echo "skip: the comparison with libseccomp: its headers are not installed and could not be"
	exit 0
fi
CGO_ENABLED=1 go run ./internal/testrun -name libseccomp -- -count=1 -tags libseccomp "$@" ./sandbox/internal/seccomp/...
