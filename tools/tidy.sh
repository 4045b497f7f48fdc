#!/bin/sh
# tidy.sh DIR checks that the go.mod of a module is tidy, and that the module alone uses
# the versions of the workspace: otherwise its packages are compiled twice.
set -eu
cd "$1"
if ! out=$(GOWORK=off go mod tidy -diff 2>&1); then
	echo "$1: go.mod is not tidy: run go mod tidy there" "$out"
	exit 1
fi
versions() { go list -deps -test -f '{{with .Module}}{{if and .Version (not .Replace)}}{{.Path}} {{.Version}}{{end}}{{end}}' ./... | sort -u; }
alone=$(GOWORK=off versions)
if [ "$alone" != "$(versions)" ]; then
	echo "$1: versions differ from those of the workspace: run go work sync, then go mod tidy there"
	exit 1
fi
