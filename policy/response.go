package policy

import (
	"encoding/json"

	"github.com/floodweir/weir/policy/internal/spelling"
)

// A ResponseExpression computes the cost of a request from the response. Package weirfile compiles
// CEL to it. It is immutable, safe for concurrent use, and keeps neither argument.
type ResponseExpression interface {
	// Paths lists the members of a JSON body that Cost reads: names joined by dots.
	Paths() []string

	// Cost returns the cost. An error wraps budget.ErrNoUsage if a member is missing, and
	// budget.ErrBadUsage if the result is no number of tokens.
	Cost(a Attributes, r ResponseValues) (int64, error)

	// String returns the source text.
	String() string
}

// ResponseValues has the response to a request.
type ResponseValues interface {
	// Status returns the status.
	Status() int

	// Header returns the values of every line of a header with a canonical name.
	Header(name string) []string

	// Body returns the last number, text, true or false of a path in a JSON body, or in the
	// events of a stream. A longer one than 256 bytes is missing.
	Body(path string) (value json.RawMessage, ok bool)
}

// Normalize returns a as an Expression sees it, with the first variant of its path.
func Normalize(a Attributes) Attributes {
	var paths spelling.PathVariants
	paths.Read(a.Path())
	v := &view{a, spelling.HostName(a.Host()), paths.At(0)}
	if v.path == "" {
		v.path = "/"
	}
	return v
}
