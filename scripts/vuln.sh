#!/bin/sh
# scripts/vuln.sh: govulncheck, telling "nothing found" from "could not look".
# The database is fetched from the network at run time. Where it can't be reached, this
# says so and succeeds, since the code is not at fault; DSHX_REQUIRE_VULN=1 makes it fail.
set -u
cd "$(dirname "$0")/.." || exit 1
out=$(go run "$GOVULNCHECK" ./... 2>&1)
status=$?
case $out in
*"fetching vulnerabilities"* | *"Get \""*vuln* | *"no such host"* | *"dial tcp"*)
	if [ $status -ne 0 ]; then
		echo "skip: vulnerabilities: NOTHING WAS CHECKED, the database cannot be reached: $(printf '%s' "$out" | grep -v '^exit status' | tail -n 1)"
		[ -z "${DSHX_REQUIRE_VULN-}" ] || exit 1
		exit 0
	fi
	;;
esac
printf '%s\n' "$out"
exit $status
