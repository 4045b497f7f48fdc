// Package vetcheck finds //weir:limit directives without effect in the build that is
// checked. A directive is invalid, or neither woven nor generated, or its generated
// code is outdated. It also prints notes about old forms.
//
//	go vet -vettool=$(command -v weir) ./...
//
// The go command runs a checker once for every package ([Asked]). For a package without
// directives only the text of its files is read.
//
// # Concurrency
//
// An analyzer may run on any number of packages at the same time.
package vetcheck
