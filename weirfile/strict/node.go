package strict

import "go.yaml.in/yaml/v4"

// A Node is a value of a file. Its methods but There are for values that are there.
type Node struct {
	value *yaml.Node
	place *yaml.Node // whose line and column are those of the Node
	here  *yaml.Node // value, or the alias that stands for it
}

// A Kind is what a value is.
type Kind uint8

// The kinds.
const (
	Other   Kind = iota // a scalar of another type, such as a time
	Map                 // fields and their values
	List                // values in an order
	Text                // in quotes or without
	Integer             // a whole number
	Float               // a number that is not whole
	Boolean             // a truth value
	Null                // nothing: a field without a value, or null
)

// There reports whether there is a value: the zero Node is none.
func (n Node) There() bool { return n.value != nil }

// Kind is what n is.
func (n Node) Kind() Kind {
	switch n.value.Kind {
	case yaml.MappingNode:
		return Map
	case yaml.SequenceNode:
		return List
	}
	switch n.value.Tag {
	case "!!str":
		return Text
	case "!!int":
		return Integer
	case "!!float":
		return Float
	case "!!bool":
		return Boolean
	case "!!null":
		return Null
	}
	return Other
}

// Scalar reports that n is a value by itself: no map, no list and not nothing.
func (n Node) Scalar() bool { return n.Kind() != Map && n.Kind() != List && n.Kind() != Null }

// Line is where n begins, from 1.
func (n Node) Line() int { return n.place.Line }

// Column is where n begins, from 1.
func (n Node) Column() int { return n.place.Column }

// Here is n where it was asked for: if the file has an alias there, the place is that
// of the alias, and not that of what it stands for.
func (n Node) Here() Node { return Node{n.value, n.here, n.here} }

// Text is what a scalar says, as it is written but for quotes; "" for a map or a list.
func (n Node) Text() string { return n.value.Value }

// Len is the number of elements of a list.
func (n Node) Len() int {
	if n.Kind() != List {
		return 0
	}
	return len(n.value.Content)
}

// InQuotes reports whether a scalar is written in quotes.
func (n Node) InQuotes() bool {
	return n.value.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0
}

// Float is the number that n is, whole or not, if it is one.
func (n Node) Float() (f float64, ok bool) {
	if k := n.Kind(); k != Integer && k != Float {
		return 0, false
	}
	return f, n.value.Decode(&f) == nil
}

// String is what stands at n, for an error.
func (n Node) String() string {
	switch n.Kind() {
	case Map:
		return "a map"
	case List:
		return "a list"
	case Null:
		return "nothing"
	}
	text := n.Text()
	if n.Kind() == Text || len(text) > 60 || Printable(text) != text {
		return Quoted(text)
	}
	return text
}
