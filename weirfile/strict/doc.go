// Package strict reads YAML strictly: it reports every fault of a file at once, each
// with its position.
//
//	d := strict.Parse("colours.yaml", data, strict.Config{})
//	if root := d.Root(); root.There() {
//		m, _ := d.Map(root, "", []string{"red", "green"})
//		if n := m.Values["red"]; n.There() && n.Kind() != strict.Integer {
//			d.Fail(n, "red", n.String(), "want a whole number")
//		}
//	}
//	if errs := d.Errors(); len(errs) > 0 {
//		return errs.Cut()
//	}
//
// A caller reads the values of a [Document], reports what it does not accept with
// [Document.Fail], and continues. The package itself reports invalid YAML, unknown and
// repeated fields, tags, and aliases that make a small file large.
//
// # Guarantees
//
// The work is bounded by the size of the file. Aliases add at most 100,000 values.
// After 2,000 faults reading stops, if the caller checks [Document.Spent] in its loops.
// A map can contain itself, so a caller must not read deeper than its fields do.
//
// # Errors
//
// A fault is an [Error], which wraps weir.ErrInvalid. [Errors] lists those of a file.
//
// # Concurrency
//
// A Document is used by one goroutine at a time.
package strict
