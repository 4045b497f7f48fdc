package ratelimit

import "github.com/floodweir/weir/weirfile/strict"

// An Error describes one fault of a file, with its line, column, field, value and the
// accepted values. It wraps weir.ErrInvalid.
type Error = strict.Error

// Errors lists the faults of all files, in their order. Its Cut returns the first 200,
// with the number of the others.
type Errors = strict.Errors
