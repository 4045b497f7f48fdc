// Package wrapper writes the Go code that a //weir:limit directive stands for: a guard,
// and a function that asks it before it calls another.
//
//	f := wrapper.NewFile(pkg)
//	w := wrapper.Wrapper{Site: site, Var: wrapper.VarName(site), Name: "LimitedGetID", Target: "GetID"}
//	text := f.Guard(w) + "\n" + f.Func(w)
//	source := "package shop\n\n" + f.Imports() + text
//
// The code is that of somebody who writes it by hand, and gofmt's. It keeps to the names
// of the function that it stands for; names of its own step aside for those.
package wrapper
