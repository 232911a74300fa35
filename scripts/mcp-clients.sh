#!/bin/sh
# scripts/mcp-clients.sh [DIR]: installs the MCP clients of others that the integration
# tests run against dshx-mcp, in the versions and with the checksums of
# integration/testdata/mcp-clients/package-lock.json, and says which are there.
#
# DIR is DSHX_MCP_CLIENTS, or dshx-mcp-clients in the user's cache folder; each lock file
# has a folder of its own in it. Nothing of it runs while it is installed.
#
# What can't be had is a printed "skip" line and no failure: the tests that would have
# used it are skipped and say so again. What is another file than the lock file says is
# a failure. DSHX_INSTALL=no: look only, install nothing.
set -u
cd "$(dirname "$0")/.." || exit 1

say() { printf 'mcp-clients: %s\n' "$*"; }
skip() { printf 'skip: %s\n' "MCP clients of others: $*"; exit 0; }

source=integration/testdata/mcp-clients
cache=${1:-${DSHX_MCP_CLIENTS:-${XDG_CACHE_HOME:-${HOME:-}/.cache}/dshx-mcp-clients}}
case $cache in /*) ;; *) skip "no folder for them: $cache is not absolute" ;; esac
command -v sha256sum >/dev/null || skip "sha256sum is missing"
# The tests look for the same name.
dir=$cache/$(sha256sum <$source/package-lock.json | cut -c 1-16)

versions() {
	for package in @modelcontextprotocol/inspector @modelcontextprotocol/sdk @modelcontextprotocol/conformance; do
		say "$package $(sed -n 's/^ *"version": "\(.*\)",*$/\1/p' "$dir/node_modules/$package/package.json" | head -n 1)"
	done
	node=$(ls "$dir"/node_modules/node-linux-*/bin/node 2>/dev/null | head -n 1)
	say "node $("${node:-node}" --version 2>&1)"
}

if [ -d "$dir" ]; then
	versions
	exit 0
fi
[ "${DSHX_INSTALL-}" != no ] || skip "not installed, and DSHX_INSTALL=no forbids installing"
command -v npm >/dev/null || skip "npm is missing"
mkdir -p "$cache" || skip "no folder for them"
new=$(mktemp -d "$cache/new.XXXXXX") || skip "no folder for them"
trap 'rm -rf "$new"' EXIT
cp $source/package.json $source/package-lock.json "$new" || exit 1
# Not "npm ci", which wants each optional package for other systems in the lock file,
# and not every one of them is published. What was installed is compared instead.
if ! (cd "$new" && timeout 100 npm install --ignore-scripts --no-audit --no-fund --loglevel=error) >"$new/log" 2>&1 </dev/null; then
	if grep -q EINTEGRITY "$new/log"; then
		say "not what the lock file means: $(grep 'integrity checksum failed' "$new/log" | head -n 1)"
		exit 1
	fi
	skip "npm could not install them: $(grep -v -e '^ *$' -e 'A complete log' "$new/log" | tail -n 1)"
fi
# Indented as in the lock file, so that lines can be compared: names, versions, checksums.
locked() { sed -n -e 's/^    "\(node_modules.*\)": {$/\1/p' -e 's/^      "\(version\|integrity\)": //p' "$1"; }
locked $source/package-lock.json | sort -u >"$new/wanted"
if ! extra=$(locked "$new/node_modules/.package-lock.json" | sort -u | comm -13 "$new/wanted" -) || [ -n "$extra" ]; then
	say "npm installed what the lock file doesn't have: $extra"
	exit 1
fi
rm -f "$new/log" "$new/wanted"
# Readable for the users that the tests become.
chmod -R go+rX "$new" || exit 1
# Another run may have been faster.
mv -T "$new" "$dir" 2>/dev/null || [ -d "$dir" ] || exit 1
versions
