package strict

import "github.com/floodweir/weir/internal/fault"

// An Error describes one invalid value of a file: its File, Line and Column, the Field,
// the Value and, in Want, the values that are accepted. It wraps weir.ErrInvalid.
type Error = fault.Error

// Errors lists the invalid values of one file or of several. Its Cut returns the first
// 200 and the number of the others.
type Errors = fault.Errors

// enough is the number of errors after which the reader of a file stops.
const enough = 10 * fault.MaxShown
