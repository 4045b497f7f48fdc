#!/bin/sh
# tidy.sh DIR checks that the go.mod of a module is tidy, and that the module alone uses the
# versions of the workspace, which KNOWN lists: otherwise its packages are compiled twice.
set -eu
cd "$1"
if ! out=$(GOWORK=off go mod tidy -diff 2>&1); then
	echo "$1: go.mod is not tidy: run go mod tidy there" "$out"
	exit 1
fi
used=$(GOWORK=off go list -deps -test -f '{{with .Module}}{{if and .Version (not .Replace)}}{{.Path}} {{.Version}}{{end}}{{end}}' ./... | sort -u)
if other=$(echo "$used" | grep . | grep -vxF "$KNOWN"); then
	echo "$1: versions differ from those of the workspace: run go work sync, then go mod tidy there:" $other
	exit 1
fi
