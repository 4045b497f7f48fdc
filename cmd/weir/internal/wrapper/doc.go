// Package wrapper writes the Go code for a //weir:limit directive: a guard, and a
// function that calls it before the original.
//
//	f := wrapper.NewFile(pkg)
//	w := wrapper.Wrapper{Site: site, Var: wrapper.VarName(site), Name: "LimitedGetID", Target: "GetID"}
//	text := f.Guard(w) + "\n" + f.Func(w)
//	source := "package shop\n\n" + f.Imports() + text
//
// The code is idiomatic and formatted. It keeps the names of the original function and
// avoids them for its own.
package wrapper
