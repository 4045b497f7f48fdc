#!/bin/sh
# need.sh COMMAND:PACKAGE… installs the Debian packages of the commands, or of the
# files (/FILE:PACKAGE, with * in it if need be), that are missing, or says which they are. Of
# COMMAND|OTHER:PACKAGE the other suffices where the package cannot be installed. The services
# that come with them stay off: the tests start their own.
set -eu
has() {
	case $1 in
	/*) ls -d $1 >/dev/null 2>&1 ;;
	*) command -v "$1" >/dev/null 2>&1 ;;
	esac
}
missing= better=
for need; do
	names=${need%%:*} packages=$(echo "${need#*:}" | tr , ' ')
	if has "${names%%|*}"; then
		continue
	elif [ "$names" != "${names#*|}" ] && has "${names#*|}"; then
		better="$better $packages"
	else
		missing="$missing $packages"
	fi
done
[ -n "$missing$better" ] || exit 0

root=
[ "$(id -u)" = 0 ] || root='sudo -n'
if ! command -v apt-get >/dev/null 2>&1 || ! $root true 2>/dev/null; then
	if [ -n "$better" ]; then
		echo "The tests take less time with these packages, and this user cannot install them:$better" >&2
	fi
	[ -n "$missing" ] || exit 0
	echo "The tests need these packages, and this user cannot install them:$missing" >&2
	echo "As root on Debian or Ubuntu: apt-get install$missing" >&2
	exit 1
fi

policy=/usr/sbin/policy-rc.d # while it says 101, no service is started
log=$(mktemp)
trap 'rm -f "$log"' EXIT INT TERM
if [ ! -e $policy ]; then
	trap '$root rm -f $policy "$log"' EXIT INT TERM
	printf '#!/bin/sh\nexit 101\n' | $root tee $policy >/dev/null
	$root chmod 755 $policy
fi
install() {
	echo "installing: $*"
	$root apt-get update -q -o Acquire::http::Timeout=20 >"$log" 2>&1 &&
		$root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends -o Acquire::http::Timeout=20 "$@" >>"$log" 2>&1
}
if [ -n "$missing" ] && ! install $missing; then
	cat "$log" >&2
	echo "could not install:$missing" >&2
	exit 1
fi
if [ -n "$better" ] && ! install $better; then
	echo "could not install, so the tests take more time:$better" >&2
fi
