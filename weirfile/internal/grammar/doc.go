// Package grammar says what can stand in a policy file: every field with its kind,
// its bounds, its default and a line of explanation. The reader of files and the JSON
// Schema are both made from it, so neither knows a field that the other does not.
//
//	for _, f := range grammar.File.Fields {
//		fmt.Println(f.Name, "-", f.Doc)
//	}
//
// It knows neither YAML nor what becomes of a value.
package grammar
