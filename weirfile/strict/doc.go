// Package strict reads YAML strictly: every fault of a file at once, each with its
// place.
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
// A caller goes through the values of a [Document], notes what it does not accept with
// [Document.Fail], and goes on. What is wrong in any file is noted here: text that is no
// YAML, fields that are not known or stand twice, tags, and aliases that make a small
// file a large one.
//
// # Guarantees
//
// The work is bounded by the size of the file: aliases add at most 100,000 values, and
// after 2,000 faults no more are looked for, if the caller asks [Document.Spent] in the
// loops of its own. It goes no deeper into a file than it has a meaning for: a map can
// stand in itself.
//
// # Errors
//
// A fault is an [Error], which wraps weir.ErrInvalid. Those of a file are [Errors].
//
// # Concurrency
//
// A Document is used by one goroutine at a time.
package strict
