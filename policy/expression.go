package policy

// Expressions are written in a language that this package does not know, such as
// CEL. Their String is the text they were made of. They are immutable and safe for
// concurrent use.
//
// What an expression sees as the Path of Attributes is one reading of the path:
// decoded, without empty and dot segments, path parameters and a trailing slash. Where
// servers differ in how they read a path, an expression is asked about each reading.
// Its Host is the name in lower case, without port and trailing dot.

// A Condition says whether a policy is about a request. One that cannot be evaluated
// holds: a fault is no way around a limit.
type Condition interface {
	Holds(a Attributes) (bool, error)
	String() string
}

// A Measure is a number of tokens. One that cannot be evaluated, or is negative, is
// the Cost of the policy.
type Measure interface {
	Measure(a Attributes) (int64, error)
	String() string
}

// A Text is a part of a key. One that cannot be evaluated is the anonymous part.
type Text interface {
	Text(a Attributes) (string, error)
	String() string
}
