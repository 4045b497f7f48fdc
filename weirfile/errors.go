package weirfile

// An Error is one fault of a file.
type Error struct {
	File   string // the name given to Parse
	Line   int    // from 1
	Column int    // from 1
	Field  string // such as "policies[2].limits[0]"; "" for the file as a whole
	Value  string // what the file says there, shortened; "" if it says nothing
	Want   string // what was expected
}

// Error is "file:line:column: field: value: what was expected".
func (e *Error) Error() string { return e.Want }

// Errors are all faults of a file, in its order.
type Errors []*Error

// Error is the errors, one a line.
func (e Errors) Error() string { return "" }
