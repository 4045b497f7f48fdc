// Package vetcheck finds //weir:limit directives that limit nothing in the build that is
// checked: those that cannot be followed, those that were neither woven nor generated,
// and those whose generated code is about an older directive.
//
//	go vet -vettool=$(command -v weir) ./...
//
// The go command calls a checker once for every package, in a way of its own ([Asked]);
// a package without directives costs it a look at the text of its files.
//
// # Concurrency
//
// An analyzer may run on any number of packages at the same time.
package vetcheck
