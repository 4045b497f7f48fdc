package grammar

import (
	"slices"
	"time"
)

// A Kind classifies the values of a Shape.
type Kind uint8

// The kinds.
const (
	Text      Kind = iota // a text that is not empty
	AnyText               // a text, which may be empty
	Word                  // one of Words
	Scalar                // a text or a whole number, which stands for a text
	Integer               // a whole number from Least to Most
	Boolean               // true or false
	Duration              // a time from Shortest to Longest, such as 30s
	Map                   // some of Fields
	Named                 // a map of any names to values that are Of
	List                  // a list of at least one value that is Of
	ListOrOne             // a List, or its only element without brackets
	Choice                // a value that is one of Any
)

// A Shape describes the values that a field accepts.
type Shape struct {
	Kind Kind
	Def  string // the name of the shape in the schema, if it stands there by itself
	Want string // what was expected, for an error

	Words             []string
	Fold              bool   // Words are compared without case
	Pattern           string // that a text matches for certain; any if empty
	Least, Most       int64
	Shortest, Longest time.Duration
	Fields            []Field
	NotEmpty          bool       // a Map has at least one field
	OneOf             [][]string // a Map has fields of one of these groups and no other
	Of                *Shape
	Any               []*Shape
}

// A Field is a named value in a Map.
type Field struct {
	Name     string
	Doc      string // what it means, in one line
	Default  any    // what it is if it is not there, for readers
	Examples []any
	Required bool
	Unless   []string // the fields with which it is not required
	Shape    *Shape

	Deprecated bool // it is read, and the file gets a note
}

// Names returns the names of the fields of s.
func (s *Shape) Names() []string {
	names := make([]string, len(s.Fields))
	for i, f := range s.Fields {
		names[i] = f.Name
	}
	return names
}

// Field returns the shape of a field of s, or nil.
func (s *Shape) Field(name string) *Shape {
	i := slices.IndexFunc(s.Fields, func(f Field) bool { return f.Name == name })
	if i < 0 {
		return nil
	}
	return s.Fields[i].Shape
}

// As returns the shape of a kind among the choices of s, or s.
func (s *Shape) As(k Kind) *Shape {
	for _, a := range s.Any {
		if a.Kind == k {
			return a
		}
	}
	return s
}
