package importer

import (
	"fmt"

	"github.com/floodweir/weir"
)

// A Result is the outcome of an import.
type Result struct {
	// Text is the policy file.
	Text string
	// Policies is the number of policies in it.
	Policies int
	// Listed holds what could not be expressed, in the order of the input.
	Listed []Item
}

// An Item is a part of the input that could not be expressed.
type Item struct {
	File string `json:"file"`
	Line int    `json:"line,omitempty"` // from 1; 0 if it is not known
	What string `json:"what"`           // the text of the input
	Why  string `json:"why"`            // the reason
}

// String returns "file:line: what: why".
func (i Item) String() string { return at(i.File, i.Line) + ": " + i.What + ": " + i.Why }

// An Error describes input that cannot be imported. It wraps weir.ErrInvalid.
type Error struct {
	File string
	Line int // from 1; 0 for the file as a whole
	Want string
}

// Error returns "file:line: what is wrong".
func (e *Error) Error() string { return at(e.File, e.Line) + ": " + e.Want }

// Unwrap returns weir.ErrInvalid.
func (e *Error) Unwrap() error { return weir.ErrInvalid }

func at(file string, line int) string {
	if line == 0 {
		return printable(file)
	}
	return fmt.Sprintf("%s:%d", printable(file), line)
}
