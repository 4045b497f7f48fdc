// Package weirfile reads the policy file, weir.yaml: where state lives, where the
// program listens, and the policies.
//
//	f, err := weirfile.Load("weir.yaml")
//	if err != nil {
//		fmt.Fprintln(os.Stderr, err) // every fault, one a line
//		os.Exit(1)
//	}
//	m, err := httplimit.New(store, f.Policies, httplimit.Config{Client: f.Gateway.Client})
//
// A program that only wants the policies takes File.Policies and leaves the rest.
// The file weir.example.yaml of the repository shows what can stand in one,
// docs/policies.md explains it, and [Schema] tells editors. Conditions, costs and
// parts of keys may be expressions: see package expr.
//
// # Errors
//
// A file is accepted whole or not at all. What is wrong with it is [Errors]: all
// faults at once, each with its line, column, field, value and what was expected.
// A field that is not known is a fault, and so is one that stands twice, has nothing
// in it or is of another type: a number is no text. A password in the store's URL is
// left out of errors.
//
// Files are YAML 1.2 in UTF-8, one document of at most [MaxSize] bytes. Aliases are
// followed, to a bound that keeps a small file from becoming a large one; merge keys
// and tags are refused.
package weirfile
