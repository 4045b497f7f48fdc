package policy

import (
	"errors"
	"strconv"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/budget"
)

// A BodyReader is an Attributes of an interface that reads bodies. ModelRequest returns what the request
// declares to a language model, from a body of at most max bytes. The error, which wraps
// budget.ErrUnknownModel, is the reason why the body declares nothing. If read is false, bodies are
// not available.
type BodyReader interface {
	ModelRequest(max int64) (c budget.ModelRequest, read bool, err error)
}

// call returns what a request declares to a language model.
func call(m *budget.Meter, a Attributes) (c budget.ModelRequest, read bool, err error) {
	if v, ok := a.(*view); ok {
		a = v.Attributes
	}
	if a, ok := a.(BodyReader); ok {
		return a.ModelRequest(m.Config().MaxBody)
	}
	return c, false, nil
}

// refused returns the reason why a request to a language model is denied before any limit, or nil.
func refused(m *budget.Meter, s *source) error {
	if m == nil {
		return nil
	}
	c, read, err := call(m, s.a)
	if !read {
		return nil
	}
	refused := m.Refuse(c)
	if err != nil && (refused != nil || m.Config().IncludeMax != "" || errors.Is(err, weir.ErrOverloaded)) {
		return err
	}
	return refused
}

// A bound is the first reservation of a request to a language model, by its body.
type bound struct{ meter *budget.Meter }

// Eval implements Expression. A request without a valid length has the bound of an empty one.
func (b bound) Eval(a Attributes) (int64, error) {
	c, _, _ := call(b.meter, a)
	return b.meter.Bound(BodyLength(a), c, b.meter.Output(c)), nil
}

// BodyLength returns the Content-Length of a request, or -1.
func BodyLength(a Attributes) int64 {
	if values := a.Header("Content-Length"); len(values) == 1 {
		if n, err := strconv.ParseInt(values[0], 10, 64); err == nil {
			return n
		}
	}
	return -1
}

// String implements Expression.
func (b bound) String() string { return "the bound of the request" }

// Quota returns the quota unit of a policy with s, such as "tokens", or "" for requests.
func (s Settle) Quota() string {
	if s.Meter != nil {
		return s.Meter.Config().Unit.Quota()
	}
	return ""
}
