#!/bin/sh
# need.sh COMMAND:PACKAGE… installs the Debian packages of the commands, or of the
# files (/FILE:PACKAGE, with * in it if need be), that are missing, or says which they are. The services that
# come with them stay off: the tests start their own.
set -eu
missing=
for need; do
	case $need in
	/*) ls -d ${need%%:*} >/dev/null 2>&1 ;;
	*) command -v "${need%%:*}" >/dev/null 2>&1 ;;
	esac || missing="$missing $(echo "${need#*:}" | tr , ' ')"
done
[ -n "$missing" ] || exit 0

root=
[ "$(id -u)" = 0 ] || root='sudo -n'
if ! command -v apt-get >/dev/null 2>&1 || ! $root true 2>/dev/null; then
	echo "The tests need these packages, and this user cannot install them:$missing" >&2
	echo "As root on Debian or Ubuntu: apt-get install$missing" >&2
	exit 1
fi

echo "installing:$missing"
policy=/usr/sbin/policy-rc.d # while it says 101, no service is started
if [ ! -e $policy ]; then
	trap '$root rm -f $policy' EXIT INT TERM
	printf '#!/bin/sh\nexit 101\n' | $root tee $policy >/dev/null
	$root chmod 755 $policy
fi
log=$(mktemp)
if ! { $root apt-get update -q && $root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $missing; } >"$log" 2>&1; then
	cat "$log" >&2
	echo "could not install:$missing" >&2
	exit 1
fi
rm -f "$log"
