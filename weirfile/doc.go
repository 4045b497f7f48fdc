// Package weirfile reads the policy file, weir.yaml: the store, the listeners and the
// policies.
//
//	f, err := weirfile.Load("weir.yaml")
//	if err != nil {
//		fmt.Fprintln(os.Stderr, err) // every fault, one per line
//		os.Exit(1)
//	}
//	m, err := httplimit.New(store, f.Policies, httplimit.Config{Client: f.Gateway.Client})
//
// A program that only needs the policies uses File.Policies. weir.example.yaml shows
// every field, docs/policies.md explains them, and [Schema] describes them for editors.
// Conditions, costs and parts of keys may be expressions: see package expr.
//
// # Errors
//
// A file is accepted as a whole or not at all. [Errors] lists all faults at once, each
// with its line, column, field, value and the accepted values. Unknown, repeated and
// empty fields are faults. So are values of another type: a number is not a text.
// Errors do not contain the password of the store's URL.
//
// Files are YAML 1.2 in UTF-8, one document of at most [MaxSize] bytes. The number of
// values that aliases may add is bounded. Merge keys and tags are refused.
package weirfile
