#!/bin/sh
# tidy.sh DIR checks that the go.mod of a module is tidy, and that the module alone uses the
# versions of the workspace, which KNOWN lists: otherwise its packages are compiled twice.
set -eu
cd "$1"
if ! out=$(GOWORK=off go mod tidy -diff 2>&1); then
	echo "$1: go.mod is not tidy: run go mod tidy there" "$out"
	exit 1
fi
# A tidy go.mod requires each module whose packages are used, also by tests, in the version that is
# used. So no packages have to be loaded. v0.0.0 stands for a module of the workspace.
required=$(awk '$1 == ")" { block = 0 }
	block && $2 != "v0.0.0" { print $1, $2 }
	$1 == "require" && $2 == "(" { block = 1 }
	$1 == "require" && $2 != "(" && $3 != "v0.0.0" { print $2, $3 }' go.mod)
if other=$(echo "$required" | grep . | grep -vxF "$KNOWN"); then
	echo "$1: versions differ from those of the workspace: run go work sync, then go mod tidy there:" $other
	exit 1
fi
