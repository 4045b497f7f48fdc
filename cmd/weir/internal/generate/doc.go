// Package generate writes the Go code for the //weir:limit directives of a package into
// one file, NAME_weir.go. It contains limited functions, types with limited methods,
// and decorators of interfaces.
//
//	r, err := generate.Generate(ctx, generate.Config{Patterns: []string{"./..."}})
//	if err == nil && len(r.Faults) == 0 {
//		err = r.Write()
//	}
//
// # Guarantees
//
// The same source produces the same file. The generated code compiles: it is checked
// with the package first. A file that was not generated is neither overwritten nor
// removed.
//
// # Errors
//
// A fault of the source is in Result.Faults, with its position. An error means that the
// source could not be read.
package generate
