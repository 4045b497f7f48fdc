package policy

import (
	"fmt"

	"github.com/floodweir/weir/internal/fault"
)

// Expressions are written in a language that this package does not know, such as
// CEL. Their String is the text they were made of. They are immutable and safe for
// concurrent use, and do not keep the Attributes.
//
// What an expression sees as the Path of Attributes is one reading of the path:
// decoded, in lower case, without empty and dot segments, path parameters and a
// trailing slash. Where servers differ in how they read a path, a Condition is asked
// about each reading until it holds; a Measure and a Text see the reading that matched.
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

// A view is a request as an expression sees it.
type view struct {
	Attributes
	host, path string
}

func (v *view) Host() string { return v.host }
func (v *view) Path() string { return v.path }

// view is the request with the i-th reading of its path.
func (s *source) view(i int) Attributes {
	*s.seen = view{s.a, s.host, s.paths.At(i)}
	if s.seen.path == "" {
		s.seen.path = "/"
	}
	return s.seen
}

// fault notes that an expression could not be evaluated.
func (s *source) fault(p *Policy, field string, err error) {
	if s.err == nil {
		s.err = fmt.Errorf("policy %s: %s: %w", fault.Quote(p.config.Name), field, err)
	}
}

// holds reports whether Where holds for a reading of the path, and keeps which.
func (p *Policy) holds(s *source) bool {
	for i := range s.paths.N {
		ok, err := p.config.Match.Where.Holds(s.view(i))
		if err != nil {
			s.fault(p, "match.where", err)
		}
		if ok || err != nil {
			s.reading = i
			return true
		}
	}
	return false
}

// cost is what a request takes.
func (p *Policy) cost(s *source) int64 {
	if p.config.CostOf == nil {
		return p.config.Cost
	}
	n, err := p.config.CostOf.Measure(s.view(s.reading))
	if err == nil && n < 0 {
		err = fmt.Errorf("want 0 or more tokens, got %d", n)
	}
	if err != nil {
		s.fault(p, "cost", err)
		return p.config.Cost
	}
	return n
}
