#!/bin/sh
# scripts/lint.sh: formatting, vet for each architecture, staticcheck, shell syntax.
set -u
cd "$(dirname "$0")/.." || exit 1
status=0
fail() { printf 'lint: %s\n' "$*" >&2; status=1; }

unformatted=$(gofmt -l $(go list -f '{{.Dir}}' ./...)) || fail "gofmt cannot read the sources"
[ -z "$unformatted" ] || fail "not formatted, run gofmt -w on: $unformatted"

for arch in amd64 arm64; do
	# Without cgo, as the program is shipped; vet type-checks what is never run here.
	GOOS=linux GOARCH=$arch CGO_ENABLED=0 go vet ./... || fail "go vet for $arch"
done

go mod tidy -diff || fail "go.mod or go.sum is not tidy, run go mod tidy"

go run "$STATICCHECK" ./... || fail "staticcheck"

for f in scripts/*.sh demo/*.sh; do
	[ ! -e "$f" ] || sh -n "$f" || fail "$f"
done
bash -n .ci/run 2>/dev/null || ! command -v bash >/dev/null || fail ".ci/run"
if command -v shellcheck >/dev/null 2>&1; then
	shellcheck -x -S warning -e SC2046 scripts/*.sh demo/*.sh .ci/run || fail "shellcheck"
else
	echo "skip: shellcheck is not installed"
fi

[ $status -ne 0 ] || echo "lint: clean"
exit $status
