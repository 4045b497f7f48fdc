package policy

import (
	"fmt"

	"github.com/floodweir/weir/internal/fault"
)

// An Expression computes a value from a request: a condition (bool), a cost (int64) or a
// part of a key (string). Package weirfile compiles CEL to Expressions. An Expression is
// immutable, safe for concurrent use, and does not keep the Attributes.
//
// The Path of the Attributes is normalized: decoded, in lower case, without empty and dot
// segments, path parameters and a trailing slash. Servers normalize unusual paths in
// different ways. A condition is evaluated for each variant until it is true; a cost and a
// part of a key see the variant that matched. The Host is in lower case, without port and
// trailing dot.
//
// An Expression that fails does not bypass the limit. The condition then matches, the cost
// is Config.Cost, and the part of the key is the anonymous part. A negative cost fails.
type Expression[T bool | int64 | string] interface {
	// Eval returns the value for a request.
	Eval(a Attributes) (T, error)

	// String returns the source text.
	String() string
}

// A view is a request as an expression sees it.
type view struct {
	Attributes
	host, path string
}

func (v *view) Host() string { return v.host }
func (v *view) Path() string { return v.path }

// Unwrap returns the attributes that the caller of Match passed.
func (v *view) Unwrap() Attributes { return v.Attributes }

// view returns the request with the i-th variant of its path.
func (s *source) view(i int) Attributes {
	*s.seen = view{s.a, s.host, s.paths.At(i)}
	if s.seen.path == "" {
		s.seen.path = "/"
	}
	return s.seen
}

// fault records the error of an expression.
func (s *source) fault(p *Policy, field string, err error) {
	if s.err == nil {
		s.err = fmt.Errorf("policy %s: %s: %w", fault.Quote(p.config.Name), field, err)
	}
}

// matchWhere reports whether Where is true for a variant of the path, and records the
// variant.
func (p *Policy) matchWhere(s *source) bool {
	for i := range s.paths.N {
		ok, err := p.config.Match.Where.Eval(s.view(i))
		if err != nil {
			s.fault(p, "match.where", err)
		}
		if ok || err != nil {
			s.variant = i
			return true
		}
	}
	return false
}

// cost returns the cost of a request.
func (p *Policy) cost(s *source) int64 {
	if p.config.CostOf == nil {
		return p.config.Cost
	}
	n, err := p.config.CostOf.Eval(s.view(s.variant))
	if err == nil && n < 0 {
		err = fmt.Errorf("want 0 or more tokens, got %d", n)
	}
	if err != nil {
		s.fault(p, "cost", err)
		return p.config.Cost
	}
	return n
}
