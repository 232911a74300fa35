#!/bin/sh
# scripts/fuzz.sh: each fuzz target of each package for FUZZTIME, one after the other.
# A find is written to the package's testdata/fuzz and from then on is a unit test: commit it.
set -u
cd "$(dirname "$0")/.." || exit 1
status=0
count=0
for pkg in $(go list ./...); do
	targets=$(go test -list '^Fuzz' "$pkg" | grep '^Fuzz') || continue
	for target in $targets; do
		echo "fuzz: $pkg $target for $FUZZTIME"
		go test -run '^$' -fuzz "^$target\$" -fuzztime "$FUZZTIME" "$pkg" || status=1
		count=$((count + 1))
	done
done
if [ $count -eq 0 ]; then
	echo "fuzz: no fuzz target was found"
	exit 1
fi
[ $status -ne 0 ] || echo "fuzz: $count targets, no find"
exit $status
