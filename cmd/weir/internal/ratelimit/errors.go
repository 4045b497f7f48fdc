package ratelimit

import "github.com/floodweir/weir/weirfile/strict"

// An Error is one fault of a file, with its line, column, field and value and what was
// expected. It wraps weir.ErrInvalid.
type Error = strict.Error

// Errors are the faults of all files, in their order: the first 200, and how many more
// there are.
type Errors = strict.Errors
