// Package grammar defines the fields of a policy file: kind, bounds, default and a line
// of documentation for each. The reader of files and the JSON Schema both use it, so
// they agree on the fields.
//
//	for _, f := range grammar.File.Fields {
//		fmt.Println(f.Name, "-", f.Doc)
//	}
//
// It does not depend on YAML, nor on how values are used.
package grammar
