// Package generate writes the Go code that the //weir:limit directives of a package stand
// for into one file of it, NAME_weir.go: limited functions beside the original ones, types
// with limited methods, and decorators of interfaces.
//
//	r, err := generate.Generate(ctx, generate.Config{Patterns: []string{"./..."}})
//	if err == nil && len(r.Faults) == 0 {
//		err = r.Write()
//	}
//
// # Guarantees
//
// The same source gives the same file. What is written compiles: it is checked with the
// package first. A file that somebody else wrote is never written over, nor removed.
//
// # Errors
//
// What is wrong with the source is a fault with its place. An error means that the source
// could not be read.
package generate
