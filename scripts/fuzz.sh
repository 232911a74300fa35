#!/bin/sh
# scripts/fuzz.sh: each fuzz target of each package for FUZZTIME, one after the other.
# A find is written to the package's testdata/fuzz and from then on is a unit test: commit it.
set -u
cd "$(dirname "$0")/.." || exit 1
log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT

# fuzz PACKAGE TARGET: on a busy machine go test's own deadline may pass while a worker
# still answers; it then says FAIL and "context deadline exceeded", and has found nothing.
# Only that is tried again.
fuzz() {
	for attempt in 1 2 3; do
		go test -run '^$' -fuzz "^$2\$" -fuzztime "$FUZZTIME" "$1" >"$log" 2>&1
		result=$?
		cat "$log"
		[ $result -ne 0 ] || return 0
		if ! grep -q '^ *context deadline exceeded$' "$log" || grep -q -e 'Failing input' -e '_test.go:' -e 'panic' "$log"; then
			return 1
		fi
		echo "fuzz: the deadline hit a worker that was answering; again (attempt $attempt)"
	done
	return 1
}

status=0
count=0
for pkg in $(go list ./...); do
	targets=$(go test -list '^Fuzz' "$pkg" | grep '^Fuzz') || continue
	for target in $targets; do
		echo "fuzz: $pkg $target for $FUZZTIME"
		fuzz "$pkg" "$target" || status=1
		count=$((count + 1))
	done
done
if [ $count -eq 0 ]; then
	echo "fuzz: no fuzz target was found"
	exit 1
fi
[ $status -ne 0 ] || echo "fuzz: $count targets, no find"
exit $status
