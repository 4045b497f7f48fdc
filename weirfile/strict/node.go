package strict

import "go.yaml.in/yaml/v4"

// A Node is a value of a file. The methods other than There require that it exists.
type Node struct {
	value *yaml.Node
	place *yaml.Node // whose line and column are those of the Node
	here  *yaml.Node // value, or the alias that stands for it
}

// A Kind classifies the values of a file.
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

// There reports whether the value exists. The zero Node does not.
func (n Node) There() bool { return n.value != nil }

// Kind returns the kind of n.
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

// Scalar reports whether n is neither a map, nor a list, nor null.
func (n Node) Scalar() bool { return n.Kind() != Map && n.Kind() != List && n.Kind() != Null }

// Line returns the line on which n begins, from 1.
func (n Node) Line() int { return n.place.Line }

// Column returns the column at which n begins, from 1.
func (n Node) Column() int { return n.place.Column }

// Here returns n with the position of its use: that of the alias, if n was reached by
// one.
func (n Node) Here() Node { return Node{n.value, n.here, n.here} }

// Text returns the text of a scalar without quotes; "" for a map or a list.
func (n Node) Text() string { return n.value.Value }

// Len returns the number of elements of a list.
func (n Node) Len() int {
	if n.Kind() != List {
		return 0
	}
	return len(n.value.Content)
}

// InQuotes reports whether a scalar is in quotes.
func (n Node) InQuotes() bool {
	return n.value.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0
}

// Float returns the number that n is, integer or not, if it is one.
func (n Node) Float() (f float64, ok bool) {
	if k := n.Kind(); k != Integer && k != Float {
		return 0, false
	}
	return f, n.value.Decode(&f) == nil
}

// String returns the source of n for an error.
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
