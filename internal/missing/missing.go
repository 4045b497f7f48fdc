// Package missing finds arguments that were not given.
package missing

import "reflect"

// Value reports whether an interface has no value to call: nil, or a nil pointer such as a variable
// of type *memstore.Store that was never set.
func Value(v any) bool {
	if v == nil {
		return true
	}
	r := reflect.ValueOf(v)
	return r.Kind() == reflect.Pointer && r.IsNil()
}

// First returns the first of values that has no value to call, and whether there is one.
func First[T any](values ...T) (first T, found bool) {
	for _, v := range values {
		if Value(v) {
			return v, true
		}
	}
	return first, false
}
